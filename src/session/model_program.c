/* Models as the public interface has them: read, given results or a step of training, planned.
 *
 * In inference every output of the model is a result that goes to a file not known yet (path ""), tile by tile if the planner likes: what nobody
 * asked to have in memory takes none. In training the loss is kept in memory, and the parameters' new values take the old ones' places. */
#include "session/model_program.h"
#include "models/blocked.h"
#include "models/prepared.h"
#include "models/weights.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "session/program.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------------------- names */

const char *plim__node_name(const plim__node *n)
{
    return n->op == PLIM__OP_ELEMENTWISE ? plim__ew_name((plim__ew)n->attr.kind) : plim__op_row_of(n->op)->name;
}

/* "first" and then `word`, which is never what is cut off. */
static void put_name(plim__value *v, const char *first, const char *word)
{
    char name[sizeof v->name];
    snprintf(name, sizeof name, "%.*s%s", (int)(sizeof name - 1 - strlen(word)), first, word);
    memcpy(v->name, name, sizeof name);
}

/* Values that only an op gave a name to are called after their layer: plans speak of them. */
static void name_values(plim_model *m)
{
    plim_graph *g = m->model->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        const char *layer = m->model->layer[n->tag].name;
        char word[40];
        snprintf(word, sizeof word, " %.24s%s", plim__node_name(n), n->backward ? " backward" : "");
        for (uint32_t j = 0; j < n->n_out && layer[0]; j++) put_name(&g->value[n->out[j]], layer, word);
    }
    for (uint32_t i = 0; i < m->train.n_trained; i++)
        put_name(&g->value[m->train.trained[i].gradient], m->model->param[m->train.trained[i].param].name, " gradient");
    for (uint32_t i = 0; i < g->n_states; i++) put_name(&g->value[g->state[i].out], g->value[g->state[i].in].name, " (new)");
}

/* ----------------------------------------------------------------------------------------------------------- reading */

static int64_t batch_of(const plim__model *m)
{
    for (uint32_t i = 0; i < m->n_inputs; i++)
        if (m->input[i].batch_axis >= 0) return m->graph->value[m->input[i].value].shape.dim[m->input[i].batch_axis];
    return 0;
}

static plim_status read_model(plim_model *m, const char *path, const plim_model_options *how, const plim__model_types *types, plim_error *err)
{
    plim__dim_binding *dim = plim__new(&m->alloc, how->n_dims, sizeof *dim, err);
    if (!dim) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < how->n_dims; i++) dim[i] = (plim__dim_binding){.name = how->dim[i].name, .value = how->dim[i].value};
    const plim__model_options options = {.batch = how->batch, .dim = dim, .n_dims = how->n_dims, .training = m->training, .type = types->input,
                                         .n_types = types->n_inputs};
    const plim_status status = plim__model_read(&m->model, path, &options, m->alloc, err);
    plim__free(&m->alloc, dim);
    return status;
}

static plim_status add_result(plim__model *m, uint32_t i, const char *path, plim_error *err)
{
    uint32_t v = m->output[i].value;
    PLIM_TRY(plim__own_output(m->graph, &v, err));
    return plim__graph_output(m->graph, v, m->output[i].name, path, err);
}

static plim_status add_results(plim__model *m, plim_error *err)
{
    PLIM_FAIL_IF(m->n_outputs == 0, err, PLIM_E_INVALID, "the model has no output");
    for (uint32_t i = 0; i < m->n_outputs; i++) PLIM_TRY(add_result(m, i, "", err));
    return PLIM_OK;
}

/* Those that are asked for, where they are wanted. */
static plim_status add_bound_results(plim__model *m, const plim__model_types *types, plim_error *err)
{
    PLIM_FAIL_IF(m->n_outputs == 0, err, PLIM_E_INVALID, "the model has no output");
    for (uint32_t i = 0; i < m->n_outputs && types->n_outputs == 0; i++) PLIM_TRY(add_result(m, i, NULL, err));
    for (uint32_t i = 0; i < types->n_outputs; i++) {
        const plim_binding *b = &types->output[i];
        uint32_t k = 0;
        while (k < m->n_outputs && (b->name[0] ? strcmp(m->output[k].name, b->name) != 0 : k > 0)) k++;
        PLIM_FAIL_IF(k == m->n_outputs, err, PLIM_E_INVALID, "the model has no output '%.60s': its first is '%.60s'", b->name, m->output[0].name);
        PLIM_TRY(add_result(m, k, b->path, err));
    }
    return PLIM_OK;
}

static plim_status take_names(plim_model *m, plim__training *t, const plim_model_options *how, const plim__model_types *types, plim_error *err)
{
    const char *loss = how->loss ? how->loss : "mse";
    if (!m->training && !types->measured) return PLIM_OK;
    PLIM_TRY(plim__loss_named(&t->loss, loss, err));
    snprintf(m->loss, sizeof m->loss, "%s", loss);
    if (!m->training) return PLIM_OK;
    PLIM_TRY(plim__optimizer_named(&t->optimizer, how->optimizer, err));
    snprintf(m->optimizer, sizeof m->optimizer, "%.*s", (int)strcspn(how->optimizer, ":"), how->optimizer);
    return PLIM_OK;
}

static plim_status add_ends(plim_model *m, const plim__training *t, const plim__model_types *types, plim_error *err)
{
    if (m->training) return plim__model_train(&m->train, m->model, t, err);
    if (types->measured) return plim__model_measure(&m->train, m->model, t, err);
    return types->outputs_given ? add_bound_results(m->model, types, err) : add_results(m->model, err);
}

/* A step of training reads the rows that it is given, in any order, from files that may not be known yet: planned as `plimsoll train` will read them. */
static void pick_rows(plim_graph *g, uint32_t value)
{
    const plim__value *v = &g->value[value];
    if (v->kind == PLIM__VALUE_FILE && v->shape.rank > 0) g->source[v->source].rows = (uint64_t)v->shape.dim[0];
}

static plim_status build(plim_model *m, const char *path, const plim_model_options *how, const plim__model_types *types, plim_error *err)
{
    plim__training training = {.target_typed = types->target_given, .target_dtype = types->target};
    PLIM_FAIL_IF(how->batch < 0, err, PLIM_E_INVALID, "a batch of %lld", (long long)how->batch);
    PLIM_FAIL_IF(how->loss && !how->optimizer && !types->measured, err, PLIM_E_INVALID, "a loss without an optimizer: nothing is trained");
    m->training = how->optimizer;
    PLIM_TRY(take_names(m, &training, how, types, err)); /* first: a file that takes long to read is not read for nothing */
    plim_dtype narrow = PLIM_F32;
    PLIM_FAIL_IF(how->narrow && !how->optimizer, err, PLIM_E_INVALID, "nothing is kept for a backward pass in inference: '%.20s' is for training", how->narrow);
    if (how->narrow) PLIM_TRY(plim__narrow_named(&narrow, how->narrow, err));
    PLIM_TRY(read_model(m, path, how, types, err));
    if (how->weights) PLIM_TRY(plim__weights_bind(m->model, &plim__os_linux, how->weights, NULL, err));
    PLIM_TRY(plim__model_block(m->model, m->training, err));
    if (!m->training && !types->measured) PLIM_TRY(plim__model_prepare(m->model, err)); /* what is measured changes from run to run */
    m->batch = batch_of(m->model);
    PLIM_TRY(add_ends(m, &training, types, err));
    for (uint32_t i = 0; i < m->model->n_inputs && m->training; i++) pick_rows(m->model->graph, m->model->input[i].value);
    if (m->training) pick_rows(m->model->graph, m->train.target);
    name_values(m);
    return how->narrow ? plim__model_narrow(&m->narrowed, m->model, &m->train, narrow, err) : PLIM_OK;
}

plim_status plim_model_new(plim_model **out, const char *path, const plim_model_options *options, const plim_settings *set, plim_error *err)
{
    return plim__model_program_new(out, path, options, &(plim__model_types){0}, set, err);
}

plim_status plim__model_program_new(plim_model **out, const char *path, const plim_model_options *options, const plim__model_types *types,
                                    const plim_settings *set, plim_error *err)
{
    const plim_model_options plain = {0};
    const plim__alloc a = plim__alloc_from(set);
    *out = NULL;
    plim_model *m = plim__new(&a, 1, sizeof *m, err);
    if (!m) return PLIM_E_NOMEM;
    m->alloc = a;
    const plim_status status = build(m, path, options ? options : &plain, types, err);
    if (status == PLIM_OK) *out = m;
    else plim_model_free(&m);
    return status;
}

void plim_model_free(plim_model **model)
{
    plim_model *m = *model;
    if (!m) return;
    const plim__alloc a = m->alloc;
    if (m->model) plim__train_graph_free(&m->train, m->model);
    plim__model_free(&m->model);
    plim__free(&a, m);
    *model = NULL;
}

plim_status plim_model_plan(plim_plan **out, const plim_model *model, const plim_settings *set, plim_error *err)
{
    return plim__plan_new_thorough(out, model->model->graph, set, &plim__os_linux, err);
}
