/* plimsoll infer: a model over arrays of any length, inside a budget. */
#include "cli/bindings.h"
#include "cli/machine.h"
#include "cli/model_words.h"
#include "cli/plan_facts.h"
#include "cli/print_array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct job {
    const char *path;
    plim__cli_bindings in, out;
    plim__cli_dims dims;
    const char *weights;
    uint32_t batch, repeat;
    bool schedule;
} job;

/* ---------------------------------------------------------------------------------------------------- report */

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The first run touches code and memory for the first time: where there are more, it does not count. */
static void emit_times(plim__emit *e, double *seconds, uint32_t n)
{
    if (n < 2) return;
    plim__emit_number(e, "first_seconds", "first run", "%.4f s", seconds[0]);
    qsort(seconds + 1, n - 1, sizeof *seconds, by_value);
    plim__emit_number(e, "best_seconds", "best of the others", "%.4f s", seconds[1]);
    plim__emit_number(e, "median_seconds", "median of the others", "%.4f s", seconds[1 + (n - 1) / 2]);
}

static void report(const job *j, const plim_plan *plan, const plim__cli_shared *shared, const plim_run_facts *run, double *seconds)
{
    static plim__emit e;
    const plim_facts *f = plim_plan_facts(plan);
    plim__emit_start(&e, shared->json ? stdout : stderr, shared->json, "infer");
    plim__emit_budget(&e, f);
    plim__emit_machine_used(&e, shared);
    plim__emit_number(&e, "planned_seconds", "estimated", "%.2f s", f->planned_seconds);
    plim__emit_number(&e, "plan_seconds", "planned in", "%.4f s", f->plan_seconds);
    plim__emit_moves(&e, f);
    plim__emit_peak(&e, f);
    if (run) {
        plim__emit_run(&e, run, f);
        emit_times(&e, seconds, j->repeat);
    }
    plim__emit_outputs(&e, plan);
    plim__emit_end(&e);
}

/* ------------------------------------------------------------------------------------------------------- run */

static int run_job(job *j, plim__cli_shared *shared)
{
    plim_error err = {0};
    plim_inference *inference = NULL;
    plim__cli_bar bar;
    plim_run_facts run = {0};
    const plim_model_options how = {.batch = j->batch, .dim = j->dims.item, .n_dims = j->dims.n, .weights = j->weights};
    double *seconds = calloc(j->repeat, sizeof *seconds);
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is then an error that names the file */
    plim__cli_bar_start(&bar, shared);
    plim_status status =
        plim_inference_new(&inference, j->path, &how, j->in.item, j->in.n, j->out.item, j->out.n, &shared->set, &err);
    if (status == PLIM_OK && j->schedule) plim__cli_schedule(plim_inference_plan(inference));
    if (status == PLIM_OK && !shared->plan_only) status = plim_inference_run(inference, j->repeat, seconds, &run, &err);
    plim__cli_bar_end(&bar);
    int code = PLIM__EXIT_OK;
    if (status != PLIM_OK) {
        if (status == PLIM_E_BUDGET && shared->json) plim__emit_refusal("infer", &err);
        code = plim__cli_fail(&err, NULL);
    } else {
        if (shared->json || !shared->quiet) report(j, plim_inference_plan(inference), shared, shared->plan_only ? NULL : &run, seconds);
        if (!shared->json && !shared->plan_only) plim__print_results(plim_inference_plan(inference));
    }
    plim_inference_free(&inference);
    free(seconds);
    return code;
}

int plim_cli_infer(int argc, char **argv)
{
    static job j;
    j.repeat = 1;
    const plim__cli_option options[] = {
        {.name = "output", .letter = 'o', .kind = PLIM__CLI_IS_CALL, .to = &j.out, .value = "[NAME=]FILE", .take = plim__cli_take_binding,
         .help = "where an output goes, the first unless named; may be given several times"},
        {.name = "batch", .kind = PLIM__CLI_IS_COUNT, .to = &j.batch, .value = "N", .help = "for models whose first dimension is no batch: what it is"},
        {.name = "dim", .kind = PLIM__CLI_IS_CALL, .to = &j.dims, .value = "NAME=VALUE", .take = plim__cli_take_dim,
         .help = "what a dimension is that the model only names"},
        {.name = "weights", .kind = PLIM__CLI_IS_TEXT, .to = &j.weights, .value = "FILE", .help = "the weights, a .safetensors file, instead of the model's own"},
        {.name = "repeat", .kind = PLIM__CLI_IS_COUNT, .to = &j.repeat, .value = "N", .help = "run it so many times and say how long each took"},
        {.name = "schedule", .kind = PLIM__CLI_IS_FLAG, .to = &j.schedule, .help = "show the plan's loops, stages and slots on stderr"},
    };
    const plim__cli_command cmd = {
        .name = "infer",
        .synopsis = "MODEL [NAME=]X.npy... [-o [NAME=]Y.npy]... [--memory SIZE]",
        .about = "Runs a model over arrays of any length: samples are streamed through it, as many at a time as the budget\n"
                 "allows; large images are cut with overlap; weights stay in their file where there is no room for them.\n"
                 "MODEL is an ONNX file or Keras' .keras or .h5. Without -o the results are printed.\n",
        .notes = "  plimsoll infer model.onnx x.npy -o y.npy --memory 512M\n"
                 "  plimsoll infer model.onnx ids=ids.npy mask=mask.npy -o logits=logits.npy\n\n"
                 "exit codes: 0 done, 1 failed at run time, 2 usage or bad input, 3 does not fit the budget\n",
        .shared = PLIM__CLI_MACHINE | PLIM__CLI_MEMORY | PLIM__CLI_THREADS | PLIM__CLI_SPILL | PLIM__CLI_NO_SPILL | PLIM__CLI_JSON | PLIM__CLI_QUIET | PLIM__CLI_PLAN_ONLY,
        .option = options,
        .n_options = sizeof options / sizeof *options,
    };
    plim__cli_shared shared;
    plim_error err = {0};
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave) || !plim__cli_machine(&cmd, &shared, &leave)) return leave;
    if (argc < 2) return plim__cli_usage(cmd.name, "infer needs a model and its input");
    const char *wrong = plim__cli_spill_folder(&shared);
    if (wrong) return plim__cli_usage(cmd.name, "%s", wrong);
    j.path = argv[0];
    for (int i = 1; i < argc; i++)
        if (plim__cli_bind(&j.in, argv[i], &err)) return plim__cli_usage(cmd.name, "%s", err.message);
    return run_job(&j, &shared);
}
