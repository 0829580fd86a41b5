/* A model over arrays of any length. The program is the model for as many samples as there are: cutting it into batches is what planning does, and streaming
 * them is what running does. */
#include "session/dataset.h"
#include "session/model_program.h"
#include "session/parameters.h"
#include "run/run.h"

#include <string.h>

struct plim_inference {
    plim__alloc alloc;
    plim__dataset data;
    plim_model *model;
    plim_plan *plan;
};

static plim_status check_weights(const plim__model *m, plim_error *err)
{
    uint32_t missing = 0, first = 0;
    for (uint32_t i = m->n_params; i-- > 0;) {
        if (m->graph->source[m->graph->value[m->param[i].value].source].path[0]) continue;
        missing++;
        first = i;
    }
    PLIM_FAIL_IF(missing > 0, err, PLIM_E_INVALID, "the model has no weights for %u of its %u parameters, '%.60s' for one: give them with --weights FILE",
                 missing, m->n_params, m->param[first].name);
    return PLIM_OK;
}

static plim_status build(plim_inference *r, const char *path, const plim_model_options *options, const plim_binding *in, uint32_t n_in,
                         const plim_binding *out, uint32_t n_out, const plim_settings *set, plim_error *err)
{
    plim_model_options how = options ? *options : (plim_model_options){0};
    PLIM_FAIL_IF(how.optimizer, err, PLIM_E_INVALID, "an optimizer in inference: nothing is trained");
    PLIM_FAIL_IF(n_in == 0, err, PLIM_E_INVALID, "there are no inputs");
    PLIM_TRY(plim__dataset_open(&r->data, &plim__os_linux, in, n_in, &r->alloc, err));
    PLIM_FAIL_IF(r->data.samples == 0, err, PLIM_E_SHAPE, "'%.200s' has no samples", in[0].path);
    if (how.batch == 0) how.batch = r->data.samples;
    const plim__model_types types = {.input = r->data.type, .n_inputs = r->data.n, .outputs_given = true, .output = out, .n_outputs = n_out};
    PLIM_TRY(plim__model_program_new(&r->model, path, &how, &types, set, err));
    PLIM_TRY(check_weights(r->model->model, err));
    PLIM_TRY(plim__dataset_bind_inputs(&r->data, r->model->model, false, err));
    return plim_model_plan(&r->plan, r->model, set, err);
}

plim_status plim_inference_new(plim_inference **run, const char *model_path, const plim_model_options *options, const plim_binding *in, uint32_t n_in,
                               const plim_binding *out, uint32_t n_out, const plim_settings *set, plim_error *err)
{
    const plim__alloc a = plim__alloc_from(set);
    *run = NULL;
    plim_inference *r = plim__new(&a, 1, sizeof *r, err);
    if (!r) return PLIM_E_NOMEM;
    r->alloc = a;
    const plim_status status = build(r, model_path, options, in, n_in, out, n_out, set, err);
    if (status == PLIM_OK) *run = r;
    else plim_inference_free(&r);
    return status;
}

void plim_inference_free(plim_inference **run)
{
    plim_inference *r = *run;
    if (!r) return;
    const plim__alloc a = r->alloc;
    plim_plan_free(&r->plan);
    plim_model_free(&r->model);
    plim__dataset_free(&r->data, &a);
    plim__free(&a, r);
    *run = NULL;
}

const plim_plan *plim_inference_plan(const plim_inference *run)
{
    return run->plan;
}

static plim_status run_times(plim_inference *r, uint32_t times, double *seconds, plim_error *err)
{
    const plim__os *os = r->plan->os;
    PLIM_TRY(plim__parameters_load(r->plan, r->model->model, 0, err));
    for (uint32_t i = 0; i < times; i++) {
        const uint64_t start = os->clock_ns(os->self);
        PLIM_TRY(plim__run_go(r->plan, err));
        if (seconds) seconds[i] = (double)(os->clock_ns(os->self) - start) * 1e-9;
    }
    return plim__run_finish(r->plan, err);
}

plim_status plim_inference_run(plim_inference *r, uint32_t times, double *seconds, plim_run_facts *facts, plim_error *err)
{
    PLIM_FAIL_IF(times == 0, err, PLIM_E_INVALID, "a run that is repeated 0 times");
    plim_run_facts f;
    PLIM_TRY(plim__run_open(r->plan, err));
    const plim_status status = run_times(r, times, seconds, err);
    plim__run_close(r->plan, &f);
    if (status == PLIM_OK && facts) *facts = f;
    if (status != PLIM_OK) plim__run_drop(r->plan);
    return status;
}
