/* Training: the same plan again and again, each time with other rows of the data, and what is learnt carried from run to run.
 *
 * Everything that a step depends on follows from the options and its number: which samples, which rate, which random numbers. So a training that is
 * stopped and resumed goes on as if it had not been. */
#include "core/size.h"
#include "session/dataset.h"
#include "session/model_program.h"
#include "session/parameters.h"
#include "run/pass_run.h"
#include "run/run.h"
#include "session/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- building */

static double usual_rate(const plim__optimizer *o) { return o->kind <= PLIM__NESTEROV ? 1e-2 : 1e-3; }

/* Steps of an epoch, and how many there are in all. */
static plim_status set_length(plim_trainer *t, const plim_train_options *how, plim_error *err)
{
    const uint64_t batch = (uint64_t)t->model->batch, samples = how->fill ? how->fill_samples : (uint64_t)t->data.samples;
    PLIM_FAIL_IF(batch == 0, err, PLIM_E_INVALID, "no input of the model counts samples: it cannot be trained on batches");
    PLIM_FAIL_IF(!how->fill && samples < batch, err, PLIM_E_INVALID, "a batch of %llu, and '%.200s' has %llu samples", (unsigned long long)batch,
                 t->data.path[0], (unsigned long long)samples);
    PLIM_FAIL_IF(how->fill && samples && samples < batch, err, PLIM_E_INVALID, "a batch of %llu, and an epoch of %llu samples",
                 (unsigned long long)batch, (unsigned long long)samples);
    PLIM_FAIL_IF(!samples && !how->steps, err, PLIM_E_INVALID, "batches that are filled need a number of steps, or the samples of an epoch");
    t->per_epoch = samples ? samples / batch : how->steps;
    t->steps = how->steps;
    if (!how->steps) {
        const bool counted = plim__mul(&t->steps, t->per_epoch, how->epochs ? how->epochs : 1);
        PLIM_FAIL_IF(!counted, err, PLIM_E_OVERFLOW, "too many steps");
    }
    t->order = (plim__sample_order){.n = samples, .seed = how->seed, .in_order = how->in_order};
    return PLIM_OK;
}

static plim_status use_files(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err)
{
    PLIM_TRY(plim__dataset_open_pairs(&t->data, &plim__os_linux, how->input, how->n_inputs, &how->target, &t->alloc, err));
    const plim__model_types types = {.input = t->data.type, .n_inputs = how->n_inputs, .target_given = true,
                                     .target = t->data.type[how->n_inputs].dtype};
    PLIM_TRY(plim__model_program_new(&t->model, path, &how->model, &types, set, err));
    PLIM_TRY(plim__dataset_bind_pairs(&t->data, t->model->model, t->model->train.target, true, err));
    t->row = plim__new(&t->alloc, (uint64_t)t->model->batch, sizeof *t->row, err);
    return t->row ? PLIM_OK : PLIM_E_NOMEM;
}

/* Inputs and target lie in memory, where the plan has a place for them. */
static plim_status use_fill(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err)
{
    PLIM_FAIL_IF(how->n_inputs || how->target.path, err, PLIM_E_INVALID, "batches that are filled and files with samples exclude each other");
    PLIM_TRY(plim__model_program_new(&t->model, path, &how->model, &(plim__model_types){0}, set, err));
    plim__model *m = t->model->model;
    t->fill = how->fill;
    t->fill_ctx = how->fill_ctx;
    t->part = plim__new(&t->alloc, (uint64_t)m->n_inputs + 1, sizeof *t->part, err);
    if (!t->part) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i <= m->n_inputs; i++) {
        const uint32_t v = i < m->n_inputs ? m->input[i].value : t->model->train.target;
        const plim__value *x = &m->graph->value[v];
        const char *name = i < m->n_inputs ? m->input[i].name : "target";
        plim__model_stays(m, v, PLIM__STAY_MEMORY);
        t->part[i] = (plim_batch_part){.name = name, .dtype = x->dtype, .shape = x->shape, .bytes = x->bytes};
    }
    return PLIM_OK;
}

static plim_status build(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err)
{
    plim__optimizer optimizer;
    PLIM_FAIL_IF(!how->model.optimizer, err, PLIM_E_INVALID, "training needs an optimizer");
    PLIM_TRY(plim__optimizer_named(&optimizer, how->model.optimizer, err));
    t->rate = how->rate > 0 ? how->rate : usual_rate(&optimizer);
    PLIM_TRY(plim__rate_schedule_parse(&t->schedule, how->schedule, err));
    PLIM_TRY(how->fill ? use_fill(t, path, how, set, err) : use_files(t, path, how, set, err));
    PLIM_TRY(set_length(t, how, err));
    return plim__trainer_plan(t, path, how, set, err);
}

/* Weights, and zeros for what the optimizer keeps. */
static plim_status begin(plim_trainer *t, plim_error *err)
{
    if (t->validation.plan) PLIM_TRY(plim__arena_map(&t->arena, t->arena_bytes, t->plan->threads, err));
    PLIM_TRY(plim__run_open_in(t->plan, t->arena, err));
    PLIM_TRY(plim__parameters_load(t->plan, t->model->model, t->seed, err));
    for (uint32_t i = 0; i < t->model->train.n_trained; i++)
        for (uint32_t k = 0; k < 2; k++) {
            const uint32_t state = t->model->train.trained[i].state[k];
            if (state != PLIM__NONE) PLIM_TRY(plim__parameter_clear(t->plan, state, err));
        }
    return PLIM_OK;
}

plim_status plim_trainer_new(plim_trainer **out, const char *model_path, const plim_train_options *options, const plim_settings *set, plim_error *err)
{
    const plim__alloc a = plim__alloc_from(set);
    *out = NULL;
    plim_trainer *t = plim__new(&a, 1, sizeof *t, err);
    if (!t) return PLIM_E_NOMEM;
    t->alloc = a;
    t->seed = options->seed;
    t->last = (plim_train_facts){.loss = NAN, .accuracy = NAN};
    plim_settings with = set ? *set : plim_settings_default();
    t->model_path = plim__strdup(&a, model_path, err);
    plim_status status = t->model_path ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK && options->resume) status = plim__checkpoint_settings(&with, options->resume, err);
    if (status == PLIM_OK) status = build(t, model_path, options, &with, err);
    if (status == PLIM_OK && !options->plan_only) status = begin(t, err);
    if (status == PLIM_OK && !options->plan_only && options->resume) status = plim__trainer_resume(t, options->resume, err);
    if (status == PLIM_OK) *out = t;
    else plim_trainer_free(&t);
    return status;
}

void plim_trainer_free(plim_trainer **trainer)
{
    plim_trainer *t = *trainer;
    if (!t) return;
    const plim__alloc a = t->alloc;
    plim__validation_free(&t->validation, &a);
    plim_plan_free(&t->plan);
    plim__arena_unmap(t->arena, t->arena_bytes);
    plim_model_free(&t->model);
    plim__dataset_free(&t->data, &a);
    plim__free(&a, t->row);
    plim__free(&a, t->part);
    plim__free(&a, t->model_path);
    plim__free(&a, t);
    *trainer = NULL;
}

const plim_plan *plim_trainer_plan(const plim_trainer *t) { return t->plan; }

const plim_model *plim_trainer_model(const plim_trainer *t) { return t->model; }

/* ------------------------------------------------------------------------------------------------------- steps */

/* The samples of step `step`, for every input and the target. */
static void pick_samples(plim_trainer *t, uint64_t step)
{
    const plim__model *m = t->model->model;
    const uint64_t batch = (uint64_t)t->model->batch, first = step % t->per_epoch * batch;
    for (uint64_t i = 0; i < batch; i++) t->row[i] = (int64_t)plim__sample_at(&t->order, step / t->per_epoch, first + i);
    for (uint32_t i = 0; i < m->n_inputs; i++) plim__run_pick(t->plan, m->input[i].value, t->row);
    plim__run_pick(t->plan, t->model->train.target, t->row);
}

static plim_status fill_batch(plim_trainer *t, uint64_t step, plim_error *err)
{
    const plim__model *m = t->model->model;
    for (uint32_t i = 0; i <= m->n_inputs; i++)
        t->part[i].data = (void *)(uintptr_t)plim__run_result(t->plan, i < m->n_inputs ? m->input[i].value : t->model->train.target);
    const plim_status status = t->fill(t->fill_ctx, step, t->part, m->n_inputs + 1);
    PLIM_FAIL_IF(status != PLIM_OK, err, status, "the batch of step %llu was not filled: %s", (unsigned long long)step + 1, plim_status_name(status));
    return PLIM_OK;
}

static plim_status set_numbers(plim_trainer *t, uint64_t step, plim_error *err)
{
    const plim__train_graph *train = &t->model->train;
    const float rate = (float)plim__rate_at(&t->schedule, t->rate, step, t->steps), number = (float)(step + 1);
    const uint64_t random = (t->seed + 1) * 0x9e3779b97f4a7c15u + step;
    PLIM_TRY(plim__run_put(t->plan, train->rate, 0, &rate, sizeof rate, err));
    PLIM_TRY(plim__run_put(t->plan, train->step, 0, &number, sizeof number, err));
    if (t->model->model->seed != PLIM__NONE) PLIM_TRY(plim__run_put(t->plan, t->model->model->seed, 0, &random, sizeof random, err));
    return PLIM_OK;
}

double plim__trainer_number(const plim_plan *plan, uint32_t value)
{
    if (value == PLIM__NONE) return NAN;
    const void *at = plim__run_result(plan, value);
    return plan->graph->value[value].dtype == PLIM_F64 ? *(const double *)at : (double)*(const float *)at;
}

/* The same step again, looking at everything that it makes. The weights are as they were: the optimizer leaves them alone when the loss is no number. */
static plim_status explain_numbers(plim_trainer *t, uint64_t step, double loss, plim_error *err)
{
    plim__run_state *run = t->plan->run;
    run->watch = true;
    run->bad_node = PLIM__NONE;
    const plim_status status = plim__run_go(t->plan, err);
    run->watch = false;
    if (status != PLIM_OK) return status;
    const plim__model *m = t->model->model;
    const plim__node *n = run->bad_node == PLIM__NONE ? NULL : &m->graph->node[run->bad_node];
    return plim__fail(err, PLIM_E_NUMBERS, "step %llu: the loss is %s; the first layer whose numbers are not finite is '%.80s' (%.24s%s)",
                      (unsigned long long)step + 1, isnan(loss) ? "nan" : loss > 0 ? "infinite" : "minus infinity", n ? m->layer[n->tag].name : "loss", n ? plim__node_name(n) : "loss",
                      n && n->backward ? ", backward" : "");
}

plim_status plim_trainer_step(plim_trainer *t, plim_train_facts *out, plim_error *err)
{
    const plim__os *os = t->plan->os;
    const uint64_t start = os->clock_ns(os->self), step = t->step;
    PLIM_FAIL_IF(!t->plan->run, err, PLIM_E_INVALID, "training cannot go on: a step failed before, or it was only planned");
    if (t->fill) PLIM_TRY(fill_batch(t, step, err));
    else pick_samples(t, step);
    PLIM_TRY(set_numbers(t, step, err));
    const plim_status status = plim__run_go(t->plan, err);
    if (status != PLIM_OK) {
        plim__run_drop(t->plan);
        return status;
    }
    const double loss = plim__trainer_number(t->plan, t->model->train.loss);
    if (!isfinite(loss)) return explain_numbers(t, step, loss, err);
    t->step++;
    t->last = (plim_train_facts){.loss = loss, .accuracy = plim__trainer_number(t->plan, t->model->train.accuracy), .rate = plim__rate_at(&t->schedule, t->rate, step, t->steps),
                                 .seconds = (double)(os->clock_ns(os->self) - start) * 1e-9};
    return plim_trainer_facts(t, out, err);
}

plim_status plim_trainer_facts(const plim_trainer *t, plim_train_facts *out, plim_error *err)
{
    (void)err;
    if (!out) return PLIM_OK;
    *out = t->last;
    out->step = t->step;
    out->steps = t->steps;
    out->epoch = t->step ? (t->step - 1) / t->per_epoch + 1 : 1;
    out->epochs = (t->steps + t->per_epoch - 1) / t->per_epoch;
    out->samples = t->step * (uint64_t)t->model->batch;
    out->epoch_ends = t->step > 0 && t->step % t->per_epoch == 0;
    out->epoch_samples = t->per_epoch * (uint64_t)t->model->batch;
    out->left_out = t->order.n ? t->order.n - out->epoch_samples : 0;
    return PLIM_OK;
}
