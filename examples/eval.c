/* An expression over an array file, inside a memory budget.
 *
 *     eval 'mean((x-3)**2, 0)' big.npy m.npy 256M
 *
 * The expression calls the array x. Three steps: a program (what to compute), a plan (how, and what it will take), a run. The first two
 * look at headers only, so a budget that is too small is refused before any work is done, with the budget that would do.
 *
 * Build: cc -o eval eval.c $(pkg-config --cflags --libs plimsoll) */
#include <plimsoll/plimsoll.h>

#include <stdio.h>

static int complain(const plim_error *err)
{
    char need[32];
    fprintf(stderr, "%s\n", err->message);
    if (err->code == PLIM_E_BUDGET) fprintf(stderr, "the smallest budget that works: %s\n", plim_bytes_format(need, sizeof need, err->need));
    return err->code == PLIM_E_BUDGET ? 3 : 1;
}

static void print_facts(const plim_facts *f, const plim_run_facts *run)
{
    char planned[32], used[32], read[32], written[32];
    printf("planned peak %s, used %s; read %s, wrote %s in %.2f s\n", plim_bytes_format(planned, sizeof planned, f->planned_peak_bytes),
           plim_bytes_format(used, sizeof used, run->peak_rss_bytes), plim_bytes_format(read, sizeof read, run->bytes_read),
           plim_bytes_format(written, sizeof written, run->bytes_written), run->seconds);
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: %s EXPRESSION X.npy OUT.npy MEMORY\n", argv[0]);
        return 2;
    }
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    plim_limits limits;

    /* "80%" is a share of what this machine can give now. */
    if (plim_limits_read(&limits, &err) || plim_bytes_parse(&set.memory, argv[4], limits.available, &err)) return complain(&err);

    const plim_binding in = {.name = "x", .path = argv[2]};
    const plim_binding out = {.name = "", .path = argv[3]}; /* the expression has no name: "" is its result */
    plim_program *program = NULL;
    plim_plan *plan = NULL;
    plim_run_facts run;

    const bool done = plim_program_new(&program, argv[1], &in, 1, &out, 1, &set, &err) == PLIM_OK &&
                      plim_plan_new(&plan, program, &set, &err) == PLIM_OK && plim_plan_run(plan, &run, &err) == PLIM_OK;
    if (done) print_facts(plim_plan_facts(plan), &run);

    plim_plan_free(&plan); /* both take NULL as well */
    plim_program_free(&program);
    return done ? 0 : complain(&err);
}
