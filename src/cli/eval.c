/* plimsoll eval: an expression over array files, inside a budget. stdout carries the result, stderr what was planned and what was measured. */
#include "cli/bindings.h"
#include "cli/machine.h"
#include "cli/plan_facts.h"
#include "cli/print_array.h"

#include <signal.h>
#include <string.h>

typedef struct job {
    const char *text;
    plim__cli_bindings in, out;
    bool raw_dtype_given, raw_shape_given, show_plan;
    plim_dtype raw_dtype;
    plim_shape raw_shape;
    uint64_t raw_offset;
} job;

static plim_status take_shape(void *to, const char *value, plim_error *err)
{
    ((job *)to)->raw_shape_given = true;
    return plim_shape_parse(&((job *)to)->raw_shape, value, err);
}

static plim_status take_dtype(void *to, const char *value, plim_error *err)
{
    ((job *)to)->raw_dtype_given = true;
    return plim_dtype_parse(&((job *)to)->raw_dtype, value, err);
}

static plim_status take_offset(void *to, const char *value, plim_error *err)
{
    return plim_bytes_parse(&((job *)to)->raw_offset, value, 0, err);
}

static bool ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* --shape and --dtype describe every input that is neither .npy nor a member of an .npz. */
static void mark_raw(job *j)
{
    for (uint32_t i = 0; i < j->in.n && j->raw_shape_given; i++) {
        plim_binding *b = &j->in.item[i];
        if (ends_with(b->path, ".npy") || strstr(b->path, ".npz:")) continue;
        b->raw = true;
        b->shape = j->raw_shape;
        b->dtype = j->raw_dtype_given ? j->raw_dtype : PLIM_F32;
        b->raw_offset = j->raw_offset;
    }
}

/* ------------------------------------------------------------------------------------------------- report */

static void emit_plan(plim__emit *e, const plim_facts *f)
{
    plim__emit_budget(e, f);
    plim__emit_number(e, "planned_seconds", "estimated", "%.2f s", f->planned_seconds);
    plim__emit_number(e, "plan_seconds", "planned in", "%.4f s", f->plan_seconds);
    plim__emit_moves(e, f);
    plim__emit_peak(e, f);
}

/* ---------------------------------------------------------------------------------------------------- run */

static int run_job(job *j, plim__cli_shared *shared)
{
    plim_error err = {0};
    plim_program *prog = NULL;
    plim_plan *plan = NULL;
    plim__cli_bar bar;
    static plim__emit emit;
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is then an error that names the file */
    plim__cli_bar_start(&bar, shared);
    plim_status status = plim_program_new(&prog, j->text, j->in.item, j->in.n, j->out.item, j->out.n, &shared->set, &err);
    if (status == PLIM_OK) status = plim_plan_new(&plan, prog, &shared->set, &err);
    plim_run_facts run = {0};
    if (status == PLIM_OK && j->show_plan) plim__cli_schedule(plan);
    if (status == PLIM_OK && !shared->plan_only) status = plim_plan_run(plan, &run, &err);
    plim__cli_bar_end(&bar);
    if (status == PLIM_OK && (shared->json || !shared->quiet)) {
        plim__emit_start(&emit, shared->json ? stdout : stderr, shared->json, "eval");
        emit_plan(&emit, plim_plan_facts(plan));
        plim__emit_machine_used(&emit, shared);
        if (!shared->plan_only) plim__emit_run(&emit, &run, plim_plan_facts(plan));
        if (shared->json) plim__emit_outputs(&emit, plan);
        plim__emit_end(&emit);
    }
    if (status == PLIM_OK && !shared->plan_only && !shared->json) plim__print_results(plan);
    if (status == PLIM_E_BUDGET && shared->json) plim__emit_refusal("eval", &err);
    const int code = status == PLIM_OK ? PLIM__EXIT_OK : plim__cli_fail(&err, j->text);
    plim_plan_free(&plan);
    plim_program_free(&prog);
    return code;
}

int plim_cli_eval(int argc, char **argv)
{
    static job j;
    const plim__cli_option options[] = {
        {.name = "output", .letter = 'o', .kind = PLIM__CLI_IS_CALL, .to = &j.out, .value = "[NAME=]FILE", .take = plim__cli_take_binding,
         .help = "write a result as .npy; for a list's pieces FILE has a %d"},
        {.name = "shape", .kind = PLIM__CLI_IS_CALL, .to = &j, .value = "SHAPE", .take = take_shape, .help = "of inputs without a header (raw binary)"},
        {.name = "dtype", .kind = PLIM__CLI_IS_CALL, .to = &j, .value = "DTYPE", .take = take_dtype, .help = "of inputs without a header; f32 unless given"},
        {.name = "offset", .kind = PLIM__CLI_IS_CALL, .to = &j, .value = "BYTES", .take = take_offset, .help = "where data starts in inputs without a header"},
        {.name = "schedule", .kind = PLIM__CLI_IS_FLAG, .to = &j.show_plan, .help = "show the plan's loops, stages and slots on stderr"},
    };
    const plim__cli_command cmd = {
        .name = "eval",
        .synopsis = "EXPRESSION NAME=FILE... [-o [NAME=]FILE]... [--memory SIZE]",
        .about = "Evaluates NumPy-like expressions over array files that may be larger than memory. Says before it starts\n"
                 "how much memory it will use, and stays inside --memory SIZE. FILE is a .npy, a member file.npz:name, or raw\n"
                 "binary with --shape and --dtype. Without -o the last result is printed.\n",
        .notes = "  plimsoll eval 'mean((x-3)**2, 0)' x=big.npy -o m.npy --memory 512M\n"
                 "  plimsoll eval 'm = mean(x,0); s = std(x,0); z = f16((x-m)/s)' x=big.npy -o z=z.npy -o m=m.npy\n\n"
                 "exit codes: 0 done, 1 failed at run time, 2 wrong expression or bad input, 3 does not fit the budget\n",
        .shared = PLIM__CLI_MACHINE | PLIM__CLI_MEMORY | PLIM__CLI_THREADS | PLIM__CLI_SPILL | PLIM__CLI_JSON | PLIM__CLI_QUIET | PLIM__CLI_PLAN_ONLY,
        .option = options,
        .n_options = sizeof options / sizeof *options,
    };
    plim__cli_shared shared;
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave) || !plim__cli_machine(&cmd, &shared, &leave)) return leave;
    if (argc == 0) return plim__cli_usage(cmd.name, "eval needs an expression such as 'mean(x, 0)'");
    j.text = argv[0];
    plim_error err = {0};
    for (int i = 1; i < argc; i++) {
        if (plim__cli_bind(&j.in, argv[i], &err)) return plim__cli_fail(&err, NULL);
        if (!j.in.item[j.in.n - 1].name[0]) {
            err.code = PLIM_E_INVALID;
            snprintf(err.message, sizeof err.message, "'%.80s' is not of the form name=file", argv[i]);
            return plim__cli_fail(&err, NULL);
        }
    }
    mark_raw(&j);
    return run_job(&j, &shared);
}
