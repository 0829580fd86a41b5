/* plimsoll train: a model on array files of any size, inside a budget. */
#include "cli/bindings.h"
#include "cli/machine.h"
#include "cli/history.h"
#include "cli/model_words.h"
#include "cli/plan_facts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_SAVE_SECONDS 600

typedef struct validated {
    uint64_t step, epoch;
    plim_validation_facts facts;
} validated;

typedef struct job {
    const char *path;
    plim__cli_bindings data, validate;
    plim__cli_dims dims;
    const char *target, *validate_target, *loss, *optimizer, *schedule_name, *weights, *initial, *out, *checkpoint, *history_path;
    double rate;
    uint32_t batch, epochs, steps, seed, every;
    bool in_order, resume, pin, schedule;
    plim_train_options how;
    plim_trainer *trainer;
    plim__history history;
    double *losses; /* of the steps of this run */
    uint32_t n_losses, cap_losses;
    validated *validated; /* one for each validation of this run */
    uint32_t n_validated, cap_validated;
    bool terminal;
    double next_line; /* seconds of the run at which to draw again */
} job;

/* -------------------------------------------------------------------------------------------------- the line */

static void format_time(char *buf, size_t size, double seconds)
{
    const unsigned long s = seconds < 3.6e6 ? (unsigned long)(seconds + 0.5) : 3599999;
    if (s < 3600) snprintf(buf, size, "%lu:%02lu", s / 60, s % 60);
    else snprintf(buf, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

static void format_validation(char *buf, size_t size, const plim_validation_facts *v)
{
    const int n = snprintf(buf, size, "  validation %.5g", v->loss);
    if (isfinite(v->accuracy)) snprintf(buf + n, size - (size_t)n, ", %.3f", v->accuracy);
}

/* One line that is drawn over and over: where it stands, how fast, how long still, and what memory the kernel counts. */
static void draw(job *j, const plim_train_facts *f, double seconds, uint64_t first)
{
    if (!j->terminal || (seconds < j->next_line && f->step < f->steps)) return;
    j->next_line = seconds + 0.2;
    char left[24], memory[32], accuracy[32] = "", validation[64] = "";
    uint64_t now = 0, peak = 0;
    const double per_step = seconds / (double)(f->step - first);
    plim_resident_read(&now, &peak, NULL);
    format_time(left, sizeof left, per_step * (double)(f->steps - f->step));
    plim_bytes_format(memory, sizeof memory, now);
    if (isfinite(f->accuracy)) snprintf(accuracy, sizeof accuracy, "  accuracy %.3f", f->accuracy);
    if (j->n_validated) format_validation(validation, sizeof validation, &j->validated[j->n_validated - 1].facts);
    fprintf(stderr, "\rstep %llu of %llu, epoch %llu  loss %.5g%s%s  %.3g samples/s  %s left  %s\033[K", (unsigned long long)f->step,
            (unsigned long long)f->steps, (unsigned long long)f->epoch, f->loss, accuracy, validation,
            (double)f->samples / (double)f->step / per_step, left, memory);
    fflush(stderr);
}

/* ------------------------------------------------------------------------------------------------------ steps */

/* Room for one more in a list of this run. */
static plim_status grow(void **list, uint32_t n, uint32_t *cap, size_t size, plim_error *err)
{
    if (n < *cap) return PLIM_OK;
    const uint32_t more = *cap ? 2 * *cap : 256;
    void *larger = realloc(*list, more * size);
    if (!larger) {
        err->code = PLIM_E_NOMEM;
        snprintf(err->message, sizeof err->message, "no memory for the list of losses");
        return err->code;
    }
    *list = larger;
    *cap = more;
    return PLIM_OK;
}

static plim_status note_loss(job *j, double loss, plim_error *err)
{
    const plim_status status = grow((void **)&j->losses, j->n_losses, &j->cap_losses, sizeof *j->losses, err);
    if (status == PLIM_OK) j->losses[j->n_losses++] = loss;
    return status;
}

/* After every epoch, and at the end. @param out  NULL where it is not time */
static plim_status validate(job *j, const plim_train_facts *f, const plim_validation_facts **out, plim_error *err)
{
    *out = NULL;
    if (!j->validate.n || (!f->epoch_ends && f->step < f->steps)) return PLIM_OK;
    plim_status status = grow((void **)&j->validated, j->n_validated, &j->cap_validated, sizeof *j->validated, err);
    if (status != PLIM_OK) return status;
    validated *v = &j->validated[j->n_validated];
    *v = (validated){.step = f->step, .epoch = f->epoch};
    status = plim_trainer_validate(j->trainer, &v->facts, err);
    if (status != PLIM_OK) return status;
    j->n_validated++;
    *out = &v->facts;
    return PLIM_OK;
}

static bool time_to_save(const job *j, const plim_train_facts *f, double seconds, double *saved)
{
    if (!j->checkpoint) return false;
    if (j->every ? f->step % j->every != 0 && f->step < f->steps : seconds - *saved < DEFAULT_SAVE_SECONDS && f->step < f->steps) return false;
    *saved = seconds;
    return true;
}

/* Once: nobody should wonder where samples went. */
static void tell_left_out(const job *j, const plim_train_facts *f)
{
    const unsigned long long left = f->left_out, all = left + f->epoch_samples;
    if (left == 0) return;
    fprintf(stderr, "plimsoll: %llu of %llu samples are left out of every epoch, for the batch does not divide them%s\n", left, all,
            j->in_order ? ": the last ones" : "; others each time");
}

static plim_status train(job *j, plim__cli_shared *shared, plim_error *err)
{
    plim_train_facts f;
    double seconds = 0, saved = 0;
    plim_trainer_facts(j->trainer, &f, NULL);
    const uint64_t first = f.step;
    if (!shared->quiet) tell_left_out(j, &f);
    plim_status status = j->out ? plim_trainer_can_save(j->trainer, j->out, err) : PLIM_OK;
    if (status == PLIM_OK && j->initial) status = plim_trainer_save(j->trainer, j->initial, err);
    if (status == PLIM_OK) status = j->history_path ? plim__history_open(&j->history, j->history_path, first, err) : PLIM_OK;
    while (status == PLIM_OK && f.step < f.steps) {
        status = plim_trainer_step(j->trainer, &f, err);
        if (status != PLIM_OK) break;
        const plim_validation_facts *validation;
        seconds += f.seconds;
        status = validate(j, &f, &validation, err);
        draw(j, &f, seconds, first);
        if (status == PLIM_OK && shared->json) status = note_loss(j, f.loss, err);
        if (status == PLIM_OK) status = plim__history_add(&j->history, &f, validation, err);
        if (status == PLIM_OK && time_to_save(j, &f, seconds, &saved)) status = plim_trainer_checkpoint(j->trainer, j->checkpoint, err);
    }
    if (j->terminal && j->next_line > 0) fputs("\r\033[K", stderr);
    const plim_status closed = plim__history_close(&j->history, status == PLIM_OK ? err : NULL);
    if (status == PLIM_OK) status = closed;
    return status == PLIM_OK && j->out ? plim_trainer_save(j->trainer, j->out, err) : status;
}

/* ----------------------------------------------------------------------------------------------------- report */

static void emit_losses(plim__emit *e, const job *j)
{
    plim__json *json = plim__emit_json(e);
    if (!json) return;
    plim__json_short_list(json, "loss");
    for (uint32_t i = 0; i < j->n_losses; i++) plim__json_number(json, NULL, j->losses[i]);
    plim__json_end(json);
}

static void emit_validations(plim__emit *e, const job *j)
{
    if (!j->n_validated) return;
    const plim_validation_facts *last = &j->validated[j->n_validated - 1].facts;
    plim__emit_count(e, "validation_samples", NULL, last->samples);
    plim__emit_number(e, "validation_loss", "validation loss", "%.6g", last->loss);
    plim__emit_number(e, "validation_accuracy", "validation accuracy", "%.4f", last->accuracy);
    plim__emit_number(e, "validation_seconds", "last validation", "%.3f s", last->seconds);
    plim__json *json = plim__emit_json(e);
    if (!json) return;
    plim__json_list(json, "validation");
    for (uint32_t i = 0; i < j->n_validated; i++) {
        plim__json_short_object(json, NULL);
        plim__json_uint(json, "step", j->validated[i].step);
        plim__json_uint(json, "epoch", j->validated[i].epoch);
        plim__json_number(json, "loss", j->validated[i].facts.loss);
        plim__json_number(json, "accuracy", j->validated[i].facts.accuracy);
        plim__json_end(json);
    }
    plim__json_end(json);
}

static void report(const job *j, const plim__cli_shared *shared, double seconds)
{
    static plim__emit e;
    plim_model_info info;
    const plim_facts *f = plim_plan_facts(plim_trainer_plan(j->trainer));
    uint64_t now = 0, peak = 0;
    plim_train_facts last;
    plim__emit_start(&e, shared->json ? stdout : stderr, shared->json, "train");
    if (!shared->json && plim_model_describe(&info, plim_trainer_model(j->trainer), NULL) == PLIM_OK) plim__emit_model(&e, &info);
    plim__emit_budget(&e, f);
    plim__emit_machine_used(&e, shared);
    plim__emit_number(&e, "planned_seconds", "estimated for a step", "%.3f s", f->planned_seconds);
    plim__emit_number(&e, "plan_seconds", "planned in", "%.4f s", f->plan_seconds);
    plim__emit_moves(&e, f);
    plim__emit_peak(&e, f);
    if (!shared->plan_only) {
        plim_trainer_facts(j->trainer, &last, NULL);
        plim_resident_read(&now, &peak, NULL);
        plim__emit_count(&e, "steps", "steps", last.step);
        plim__emit_count(&e, "left_out", NULL, last.left_out);
        plim__emit_number(&e, "last_loss", "loss", "%.6g", last.loss);
        plim__emit_number(&e, "accuracy", "accuracy", "%.4f", last.accuracy);
        emit_validations(&e, j);
        plim__emit_number(&e, "seconds", "took", "%.2f s", seconds);
        plim__emit_number(&e, "step_seconds", "last step", "%.4f s", last.seconds);
        plim__emit_bytes(&e, "peak_rss_bytes", "peak that the kernel saw", peak);
        plim__emit_bytes(&e, "above_plan_bytes", NULL, peak > f->planned_peak_bytes ? peak - f->planned_peak_bytes : 0);
        emit_losses(&e, j);
    }
    plim__emit_end(&e);
}

/* -------------------------------------------------------------------------------------------------------- run */

static double clock_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int run_job(job *j, plim__cli_shared *shared)
{
    plim_error err = {0};
    plim__cli_bar bar;
    signal(SIGXFSZ, SIG_IGN); /* a limit on the size of files is then an error that names the file */
    plim__cli_bar_start(&bar, shared);
    j->terminal = bar.draw;
    bar.draw = false; /* the line says more */
    const double start = clock_seconds();
    plim_status status = plim_trainer_new(&j->trainer, j->path, &j->how, &shared->set, &err);
    if (status == PLIM_OK && j->schedule) plim__cli_schedule(plim_trainer_plan(j->trainer));
    if (status == PLIM_OK && !shared->plan_only) status = train(j, shared, &err);
    plim__cli_bar_end(&bar);
    int code = PLIM__EXIT_OK;
    if (status == PLIM_OK) {
        if (shared->json || !shared->quiet) report(j, shared, clock_seconds() - start);
    } else {
        if (status == PLIM_E_BUDGET && shared->json) plim__emit_refusal("train", &err);
        code = plim__cli_fail(&err, NULL);
    }
    plim_trainer_free(&j->trainer);
    free(j->losses);
    free(j->validated);
    return code;
}

static void fill_options(job *j, const plim__cli_shared *shared)
{
    j->how = (plim_train_options){
        .model = {.batch = j->batch, .dim = j->dims.item, .n_dims = j->dims.n, .optimizer = j->optimizer ? j->optimizer : "adam", .loss = j->loss,
                  .weights = j->weights,
                  .narrow = shared->allow & PLIM__ALLOW_F16 ? "f16" : shared->allow & PLIM__ALLOW_BF16 ? "bf16" : NULL},
        .input = j->data.item, .n_inputs = j->data.n, .target = {.name = "target", .path = j->target},
        .validate = j->validate.item, .n_validate = j->validate.n, .validate_target = {.name = "target", .path = j->validate_target},
        .epochs = j->epochs, .steps = j->steps,
        .rate = j->rate, .schedule = j->schedule_name, .seed = j->seed, .in_order = j->in_order,
        .plan_only = shared->plan_only,
        .resume = j->resume && access(j->checkpoint, F_OK) == 0 ? j->checkpoint : NULL,
    };
}

static const char *contradiction(const job *j, plim__cli_shared *shared)
{
    if (j->data.n == 0) return "training needs data: --data X.npy";
    if (!j->target) return "training needs a target: --target Y.npy";
    if ((j->validate.n > 0) != (j->validate_target != NULL)) return "validation needs both: --validate X.npy and --validate-target Y.npy";
    if (j->epochs && j->steps) return "--epochs and --steps exclude each other";
    if (j->resume && !j->checkpoint) return "--resume goes with --checkpoint FILE";
    if (j->every && !j->checkpoint) return "--checkpoint-every goes with --checkpoint FILE";
    if (shared->allow & PLIM__ALLOW_INT8) return "--allow: models are trained in f32, and kept in f16 or bf16, not in int8";
    return plim__cli_spill_folder(shared);
}

int plim_cli_train(int argc, char **argv)
{
    static job j;
    const plim__cli_option options[] = {
        {.name = "data", .kind = PLIM__CLI_IS_CALL, .to = &j.data, .value = "[NAME=]FILE", .take = plim__cli_take_binding,
         .help = "an input, the first unless named; its first dimension counts samples"},
        {.name = "target", .kind = PLIM__CLI_IS_TEXT, .to = &j.target, .value = "FILE", .help = "what the model's first output should be"},
        {.name = "validate", .kind = PLIM__CLI_IS_CALL, .to = &j.validate, .value = "[NAME=]FILE", .take = plim__cli_take_binding,
         .help = "other samples, all of which the model is measured on after every epoch"},
        {.name = "validate-target", .kind = PLIM__CLI_IS_TEXT, .to = &j.validate_target, .value = "FILE", .help = "and their targets"},
        {.name = "loss", .kind = PLIM__CLI_IS_TEXT, .to = &j.loss, .value = "LOSS",
         .help = "mse (unless given), mae, bce, ce, sparse-ce; bce-logits, ce-logits, ..."},
        {.name = "optimizer", .kind = PLIM__CLI_IS_TEXT, .to = &j.optimizer, .value = "NAME",
         .help = "adam (unless given), adamw, sgd, momentum, nesterov, rmsprop; adam:beta1=0.8,eps=1e-7"},
        {.name = "lr", .kind = PLIM__CLI_IS_SECONDS, .to = &j.rate, .value = "RATE", .help = "of learning; 0.001, for sgd and momentum 0.01"},
        {.name = "lr-schedule", .kind = PLIM__CLI_IS_TEXT, .to = &j.schedule_name, .value = "S",
         .help = "constant, linear, cosine, cosine:WARMUP, step:EVERY:FACTOR"},
        {.name = "batch", .kind = PLIM__CLI_IS_COUNT, .to = &j.batch, .value = "N",
         .help = "samples per step; as the model says unless given, or 1. Samples that fill none are left out of an epoch"},
        {.name = "epochs", .kind = PLIM__CLI_IS_COUNT, .to = &j.epochs, .value = "N", .help = "how often to go through the data; 1"},
        {.name = "steps", .kind = PLIM__CLI_IS_COUNT, .to = &j.steps, .value = "N", .help = "how many steps, instead of epochs"},
        {.name = "seed", .kind = PLIM__CLI_IS_COUNT, .to = &j.seed, .value = "N", .help = "of new weights, the order of samples, dropout"},
        {.name = "no-shuffle", .kind = PLIM__CLI_IS_FLAG, .to = &j.in_order, .help = "take the samples as they lie in the file"},
        {.name = "weights", .kind = PLIM__CLI_IS_TEXT, .to = &j.weights, .value = "FILE", .help = "begin with these, a .safetensors file"},
        {.name = "initial", .kind = PLIM__CLI_IS_TEXT, .to = &j.initial, .value = "FILE", .help = "save the weights that it begins with, too"},
        {.name = "output", .letter = 'o', .kind = PLIM__CLI_IS_TEXT, .to = &j.out, .value = "FILE",
         .help = "the trained weights: .safetensors, or a copy of the model with them"},
        {.name = "checkpoint", .kind = PLIM__CLI_IS_TEXT, .to = &j.checkpoint, .value = "FILE", .help = "save there what is needed to go on"},
        {.name = "checkpoint-every", .kind = PLIM__CLI_IS_COUNT, .to = &j.every, .value = "N", .help = "steps; every ten minutes unless given"},
        {.name = "resume", .kind = PLIM__CLI_IS_FLAG, .to = &j.resume, .help = "go on from the checkpoint, if it is there"},
        {.name = "history", .kind = PLIM__CLI_IS_TEXT, .to = &j.history_path, .value = "FILE", .help = "a line per step: .csv, or JSON lines in .jsonl"},
        {.name = "dim", .kind = PLIM__CLI_IS_CALL, .to = &j.dims, .value = "NAME=VALUE", .take = plim__cli_take_dim,
         .help = "what a dimension is that the model only names"},
        {.name = "pin", .kind = PLIM__CLI_IS_FLAG, .to = &j.pin, .help = "lock the memory, so that it is never swapped"},
        {.name = "schedule", .kind = PLIM__CLI_IS_FLAG, .to = &j.schedule, .help = "show the plan's loops, stages and slots on stderr"},
    };
    const plim__cli_command cmd = {
        .name = "train",
        .synopsis = "MODEL --data X.npy --target Y.npy [--batch N] [--epochs N] [--memory SIZE] [-o FILE]",
        .about = "Trains a model on array files that may be larger than memory, inside a budget: batches are cut into as many\n"
                 "parts as it takes, which changes nothing in what is computed. MODEL is an ONNX file or Keras' .keras, .h5 or JSON.\n",
        .notes = "  plimsoll train model.keras --data x.npy --target y.npy --loss mse --batch 256 --epochs 2 --memory 2G -o trained.keras\n"
                 "  plimsoll train model.onnx --data x.npy --target y.npy --loss sparse-ce-logits --checkpoint c.safetensors --resume\n\n"
                 "exit codes: 0 done, 1 failed at run time, 2 usage or bad input, 3 does not fit the budget\n",
        .shared = PLIM__CLI_MACHINE | PLIM__CLI_MEMORY | PLIM__CLI_THREADS | PLIM__CLI_SPILL | PLIM__CLI_NO_SPILL | PLIM__CLI_ALLOW | PLIM__CLI_JSON | PLIM__CLI_QUIET | PLIM__CLI_PLAN_ONLY,
        .option = options,
        .n_options = sizeof options / sizeof *options,
    };
    plim__cli_shared shared;
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave) || !plim__cli_machine(&cmd, &shared, &leave)) return leave;
    if (argc != 1) return plim__cli_usage(cmd.name, "train needs one model");
    const char *wrong = contradiction(&j, &shared);
    if (wrong) return plim__cli_usage(cmd.name, "%s", wrong);
    j.path = argv[0];
    fill_options(&j, &shared);
    shared.set.pin = j.pin;
    return run_job(&j, &shared);
}
