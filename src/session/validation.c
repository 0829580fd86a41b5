/* Validation: the model as it infers, over all samples of a set of its own, compared with their target.
 *
 * The program is the model for as many samples as there are, as in inference: planning cuts it, so no sample is left out, and the loss is the mean over
 * all of them. Its parameters are the training's: they are copied from where that has them each time. Nothing is written to what the training has, so it
 * goes on as if there had been no validation.
 *
 * Both programs share one arena: trainer_plan.c. */
#include "core/size.h"
#include "session/parameters.h"
#include "run/run.h"
#include "session/trainer.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

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

static bool is_state(const plim_graph *g, uint32_t value)
{
    for (uint32_t i = 0; i < g->n_states; i++)
        if (g->state[i].in == value) return true;
    return false;
}

/* What training changes is in no file, whatever the model's has. */
static plim_status take_parameters(plim_trainer *t, plim_error *err)
{
    const plim__model *v = t->validation.model->model;
    for (uint32_t i = 0; i < v->n_params; i++) {
        const uint32_t k = place_of(t, i);
        PLIM_FAIL_IF(k == PLIM__NONE, err, PLIM_E_UNSUPPORTED, "the model has a parameter '%.80s' in inference that it has not in training",
                     v->param[i].name);
        if (is_state(t->model->model->graph, t->model->model->param[k].value)) v->graph->source[v->graph->value[v->param[i].value].source].made = true;
    }
    return PLIM_OK;
}

plim_status plim__validation_read(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err)
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
