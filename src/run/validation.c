/* Validation: the model as it infers, over all samples of a set of its own, compared with their target.
 *
 * The program is the model for as many samples as there are, as in inference: planning cuts it, so no sample is left out, and the loss is the mean over
 * all of them. Its parameters are the training's: they are copied from where that has them each time. Nothing is written to what the training has, so it
 * goes on as if there had been no validation.
 *
 * Both programs share one arena. What training needs from step to step lies at its start; the rest is free between steps:
 *
 *     0                at                                                arena_bytes
 *     | engine | held  | what a step needs                    |               |
 *                      | engine | held | what validation needs            |
 *
 * The training is planned first, as it would be without a validation, so it is cut the same way and its sums have the same bits. Only where the tables
 * of the second program do not fit beside that plan, the training is planned again in what they leave. */
#include "core/size.h"
#include "run/parameters.h"
#include "run/run.h"
#include "run/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define SLACK (256u << 10)        /* what is resident differs a little from one start of the process to the next */
#define PER_THREAD (64u << 10)    /* of the engine's threads: there are two engines while validation runs */
#define MOST_TRIES 4

/* ---------------------------------------------------------------------------------------------------- the program */

/* The parameter of the training that is number i of the validation. */
static uint32_t place_of(const plim_trainer *t, uint32_t i)
{
    const plim__model *m = t->model->model, *v = t->validation.model->model;
    if (i < m->n_params && strcmp(m->param[i].name, v->param[i].name) == 0) return i; /* nearly always */
    for (uint32_t k = 0; k < m->n_params; k++)
        if (strcmp(m->param[k].name, v->param[i].name) == 0) return k;
    return PLIM__NONE;
}

/* What training changes is in no file, whatever the model's has. */
static plim_status take_parameters(plim_trainer *t, plim_error *err)
{
    const plim__model *v = t->validation.model->model;
    for (uint32_t i = 0; i < v->n_params; i++) {
        const uint32_t k = place_of(t, i);
        PLIM_FAIL_IF(k == PLIM__NONE, err, PLIM_E_UNSUPPORTED, "the model has a parameter '%.80s' in inference that it has not in training",
                     v->param[i].name);
        if (t->plan->is_state[t->model->model->param[k].value]) v->graph->source[v->graph->value[v->param[i].value].source].made = true;
    }
    return PLIM_OK;
}

static plim_status read_program(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err)
{
    plim__validation *v = &t->validation;
    PLIM_TRY(plim__dataset_open_pairs(&v->data, &plim__os_linux, how->validate, how->n_validate, &how->validate_target, &t->alloc, err));
    PLIM_FAIL_IF(v->data.samples == 0, err, PLIM_E_SHAPE, "'%.200s' has no samples", v->data.path[0]);
    const plim__model_types types = {.input = v->data.type, .n_inputs = how->n_validate, .target_given = true,
                                     .target = v->data.type[how->n_validate].dtype, .measured = true};
    plim_model_options options = how->model;
    options.optimizer = options.narrow = NULL;
    options.batch = v->data.samples;
    plim_error why = {0};
    const plim_status status = plim__model_program_new(&v->model, path, &options, &types, set, &why);
    if (status != PLIM_OK)
        return plim__fail(err, status, "validation takes its %lld samples as one batch: %.400s", (long long)v->data.samples, why.message);
    PLIM_TRY(plim__dataset_bind_pairs(&v->data, v->model->model, v->model->train.target, false, err));
    return take_parameters(t, err);
}

/* ---------------------------------------------------------------------------------------------------------- plans */

/* Where the first byte is that no step needs from one to the next. */
static uint64_t end_of_held(const plim_plan *plan)
{
    uint64_t end = plan->io_bytes;
    for (uint32_t i = 0; i < plan->n_slots && plim__slot_is_held(plan, i); i++) {
        const uint64_t to = plan->slot[i].offset + plan->slot[i].bytes * plan->slot[i].copies;
        end = to > end ? to : end;
    }
    return plim__round_up(end, PLIM__IO_ALIGN);
}

static plim_status resident(const plim_trainer *t, uint64_t *bytes, plim_error *err)
{
    uint64_t peak;
    plim__alloc_trim(&t->alloc);
    return plim__resident_read(bytes, &peak, t->plan->os, err);
}

/* @param baseline  of the process; 0: as it is now */
static plim_status plan_training(plim_trainer *t, uint64_t memory, uint64_t baseline, const plim_settings *set, plim_error *err)
{
    plim_settings with = *set;
    if (memory) with.memory = memory;
    if (baseline) with.baseline = baseline;
    plim_plan_free(&t->plan);
    PLIM_TRY(plim_model_plan(&t->plan, t->model, &with, err));
    t->planned_in = t->plan->facts.budget_bytes;
    return PLIM_OK;
}

/* @param before  the baseline of its plan; 0: what follows from the training's */
static plim_status plan_validation(plim_trainer *t, uint64_t budget, uint64_t before, const plim_settings *set, plim_error *err)
{
    plim__validation *v = &t->validation;
    plim_settings with = *set;
    plim_plan_free(&v->plan);
    v->at = end_of_held(t->plan);
    v->baseline = before ? before : t->plan->facts.baseline_bytes + plim__plan_tables(t->plan) + v->beside + v->at + v->at / 256;
    with.memory = budget;
    with.baseline = v->baseline;
    PLIM_TRY(plim_model_plan(&v->plan, v->model, &with, err));
    t->arena_bytes = v->at + v->plan->arena_bytes;
    if (t->arena_bytes < t->plan->arena_bytes) t->arena_bytes = t->plan->arena_bytes;
    return PLIM_OK;
}

/* What both need, the larger one's arena included. */
static uint64_t budget_with(const plim_trainer *t, uint64_t arena)
{
    const plim_facts *f = &t->plan->facts;
    return f->baseline_bytes + f->extras_bytes + t->validation.beside + plim__plan_tables(t->validation.plan) + arena + f->reserve_bytes +
           (arena - f->arena_bytes) / 256;
}

static plim_status refuse(uint64_t need, uint64_t have, plim_error *err)
{
    char text[2][32];
    if (err) {
        err->need = need;
        err->have = have;
    }
    return plim__fail(err, PLIM_E_BUDGET, "does not fit with validation: the smallest budget that works is %s, the budget is %s",
                      plim_bytes_format(text[0], sizeof text[0], need), plim_bytes_format(text[1], sizeof text[1], have));
}

/* One try. @param less  0: it fits; above 1: what the training's plan should have less; 1: only validation is to be planned again */
static plim_status try_plans(plim_trainer *t, uint64_t at_rest, uint64_t budget, uint64_t before, const plim_settings *set, uint64_t *less,
                             plim_error *err)
{
    plim__validation *v = &t->validation;
    plim_error why = {0};
    const plim_status status = plan_validation(t, budget, before, set, &why);
    *less = status == PLIM_E_BUDGET ? why.need - budget + 1 : 0;
    if (status != PLIM_OK && status != PLIM_E_BUDGET && err) *err = why;
    if (status != PLIM_OK) return status == PLIM_E_BUDGET ? PLIM_OK : status;
    uint64_t now;
    PLIM_TRY(resident(t, &now, err));
    const uint64_t grown = now > at_rest ? now - at_rest : 0;
    v->beside = plim__round_up(grown, PLIM__IO_ALIGN) + SLACK + v->plan->io.threads * PER_THREAD;
    const uint64_t training = budget_with(t, t->plan->facts.arena_bytes), both = budget_with(t, t->arena_bytes);
    if (before && both > budget && both - budget <= SLACK) v->beside -= both - budget; /* it did fit then; that is what the slack is for */
    else if (both > budget) *less = training > budget ? training - budget + 1 : 1;
    return PLIM_OK;
}

/* What is printed is about both. */
static void state_facts(plim_trainer *t, uint64_t budget)
{
    plim_facts *f = &t->plan->facts;
    const plim_facts *v = &t->validation.plan->facts;
    const uint64_t beside = t->validation.beside + plim__plan_tables(t->validation.plan);
    if (t->arena_bytes > f->arena_bytes) {
        snprintf(f->peak_step, sizeof f->peak_step, "validation, %.80s", v->peak_step);
        memcpy(f->peak, v->peak, sizeof f->peak);
        f->n_peak = v->n_peak;
    }
    f->budget_bytes = budget;
    f->reserve_bytes += (t->arena_bytes - f->arena_bytes) / 256;
    f->arena_bytes = t->arena_bytes;
    f->extras_bytes += beside;
    f->planned_peak_bytes = f->baseline_bytes + f->extras_bytes + f->arena_bytes;
    f->floor_bytes += beside; /* a step that is cut as far as can be leaves room for a part of the samples that is as small */
    f->plan_seconds += v->plan_seconds;
}

static plim_status plan_both(plim_trainer *t, uint64_t at_rest, uint64_t budget, uint64_t before, const plim_settings *set, plim_error *err)
{
    const uint64_t baseline = t->plan->facts.baseline_bytes;
    uint64_t less = 0;
    for (uint32_t tries = 0; tries < MOST_TRIES; tries++) {
        PLIM_TRY(try_plans(t, at_rest, budget, tries ? 0 : before, set, &less, err));
        if (less == 0) break;
        if (less == 1) continue;
        const uint64_t cut = plim__round_up(less + SLACK, PLIM__IO_ALIGN);
        if (cut >= t->planned_in) return refuse(budget + less, budget, err);
        const uint64_t smaller = t->planned_in - cut;
        plim_error why = {0};
        const plim_status status = plan_training(t, smaller, baseline, set, &why);
        if (status == PLIM_E_BUDGET) return refuse(why.need + (budget - smaller), budget, err);
        if (status != PLIM_OK && err) *err = why;
        if (status != PLIM_OK) return status;
    }
    if (less) return refuse((less > 1 ? budget + less : budget_with(t, t->arena_bytes)) + SLACK, budget, err);
    state_facts(t, budget);
    return PLIM_OK;
}

plim_status plim__trainer_plan(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set,
                               const plim__planned_before *before, plim_error *err)
{
    uint64_t at_rest, now;
    PLIM_TRY(plan_training(t, before->memory, 0, set, err));
    const uint64_t budget = set->memory ? set->memory : t->planned_in;
    t->plan->facts.budget_bytes = budget;
    if (how->n_validate == 0) return PLIM_OK;
    PLIM_TRY(resident(t, &at_rest, err));
    PLIM_TRY(read_program(t, path, how, set, err));
    PLIM_TRY(resident(t, &now, err));
    t->validation.beside = (now > at_rest ? now - at_rest : 0) + SLACK;
    return plan_both(t, at_rest, budget, before->validation_baseline, set, err);
}

void plim__validation_free(plim__validation *v, const plim__alloc *a)
{
    plim_plan_free(&v->plan);
    plim_model_free(&v->model);
    plim__dataset_free(&v->data, a);
}

/* ------------------------------------------------------------------------------------------------------------ runs */

/* Bytes from where training has a parameter to where validation has it: in the same form. */
static plim_status copy_bytes(plim_trainer *t, uint32_t from, uint32_t to, plim_error *err)
{
    char piece[16384];
    plim_plan *plan = t->validation.plan;
    const uint64_t bytes = plan->graph->value[to].bytes;
    if (plan->held[to]) return plim__run_get(t->plan, from, 0, (void *)(uintptr_t)plim__run_result(plan, to), bytes, err);
    if (t->plan->held[from]) return plim__run_put(plan, to, 0, plim__run_result(t->plan, from), bytes, err);
    for (uint64_t at = 0; at < bytes; at += sizeof piece) {
        const uint64_t n = bytes - at < sizeof piece ? bytes - at : sizeof piece;
        PLIM_TRY(plim__run_get(t->plan, from, at, piece, n, err));
        PLIM_TRY(plim__run_put(plan, to, at, piece, n, err));
    }
    return PLIM_OK;
}

static plim_status copy_parameter(plim_trainer *t, uint32_t i, plim__tensor_reader reader, plim_error *err)
{
    const uint32_t k = place_of(t, i);
    const plim__param *to = &t->validation.model->model->param[i], *from = &t->model->model->param[k];
    if (!plim__parameter_is_placed(t->validation.plan, to->value)) return PLIM_OK;
    const bool same = plim__form_equal(&to->form, &from->form) && plim__parameter_is_placed(t->plan, from->value);
    if (same) return copy_bytes(t, from->value, to->value, err);
    return plim__parameter_put(t->validation.plan, to->value, &to->form, reader, k, err);
}

static plim_status copy_parameters(plim_trainer *t, plim_error *err)
{
    plim__parameters_now now;
    plim_status status = PLIM_OK;
    plim__parameters_now_open(&now, t->plan, t->model->model, t->seed, true);
    for (uint32_t i = 0; i < t->validation.model->model->n_params && status == PLIM_OK; i++)
        status = copy_parameter(t, i, plim__parameters_now_reader(&now), err);
    const plim_status closed = plim__parameters_now_close(&now, status == PLIM_OK ? err : NULL);
    return status == PLIM_OK ? closed : status;
}

static plim_status run(plim_trainer *t, plim_error *err)
{
    plim__validation *v = &t->validation;
    const uint32_t seed = v->model->model->seed;
    PLIM_TRY(copy_parameters(t, err));
    if (seed != PLIM__NONE) PLIM_TRY(plim__run_put(v->plan, seed, 0, &t->seed, sizeof t->seed, err));
    return plim__run_go(v->plan, err);
}

plim_status plim_trainer_validate(plim_trainer *t, plim_validation_facts *out, plim_error *err)
{
    plim__validation *v = &t->validation;
    const plim__os *os = t->plan->os;
    const uint64_t start = os->clock_ns(os->self);
    PLIM_FAIL_IF(!v->plan, err, PLIM_E_INVALID, "there are no samples to validate with");
    PLIM_FAIL_IF(!t->plan->run, err, PLIM_E_INVALID, "a step failed before: there is nothing to validate");
    PLIM_TRY(plim__run_open_in(v->plan, (char *)t->arena + v->at, err));
    const plim_status status = run(t, err);
    *out = (plim_validation_facts){.samples = (uint64_t)v->data.samples, .loss = NAN, .accuracy = NAN};
    if (status == PLIM_OK) {
        out->loss = plim__trainer_number(v->plan, v->model->train.loss);
        out->accuracy = plim__trainer_number(v->plan, v->model->train.accuracy);
    }
    plim__run_drop(v->plan);
    out->seconds = (double)(os->clock_ns(os->self) - start) * 1e-9;
    return status;
}
