/* Layers of several inputs. Where one is stored channels-first all are brought to that: a skip connection between convolutions costs nothing. */
#include "models/keras.h"

/* The inputs in one order. @param v  from the allocator, n_in ids; @param turned  which order it is */
static plim_status line_up(plim__keras_call *c, uint32_t **v, bool *turned)
{
    const uint32_t rank = plim__keras_rank(c, c->in[0]);
    *turned = false;
    for (uint32_t i = 0; i < c->n_in; i++) {
        *turned = *turned || c->in[i].turned;
        PLIM_FAIL_IF(plim__keras_rank(c, c->in[i]) != rank, c->err, PLIM_E_UNSUPPORTED, "inputs of rank %u and %u together are not supported", rank,
                     plim__keras_rank(c, c->in[i]));
    }
    *v = plim__new(&c->k->alloc, c->n_in, sizeof **v, c->err);
    if (!*v) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < c->n_in; i++) {
        plim__keras_tensor t;
        PLIM_TRY(plim__keras_in(c, i, &t));
        PLIM_TRY(*turned ? plim__keras_turn(c, t, &(*v)[i]) : plim__keras_plain(c, t, &(*v)[i]));
    }
    return PLIM_OK;
}

plim_status plim__keras_merge(plim__keras_call *c)
{
    static const plim__ew fn[] = {
        [PLIM__KERAS_ADD] = PLIM__EW_ADD,  [PLIM__KERAS_SUBTRACT] = PLIM__EW_SUB,    [PLIM__KERAS_MULTIPLY] = PLIM__EW_MUL,
        [PLIM__KERAS_MEAN] = PLIM__EW_ADD, [PLIM__KERAS_MAXIMUM] = PLIM__EW_MAXIMUM, [PLIM__KERAS_MINIMUM] = PLIM__EW_MINIMUM};
    plim_graph *g = c->k->graph;
    uint32_t *v = NULL;
    plim_status status;
    PLIM_TRY_DONE(line_up(c, &v, &c->out.turned));
    c->out.v = v[0];
    for (uint32_t i = 1; i < c->n_in; i++) PLIM_TRY_DONE(plim__op_float2(g, fn[c->row->arg], c->out.v, v[i], &c->out.v, c->err));
    if (c->row->arg == PLIM__KERAS_MEAN) PLIM_TRY_DONE(plim__op_float_const(g, PLIM__EW_MUL, c->out.v, 1.0 / c->n_in, &c->out.v, c->err));
done:
    plim__free(&c->k->alloc, v);
    return status;
}

plim_status plim__keras_concatenate(plim__keras_call *c)
{
    int64_t wanted;
    uint32_t axis, *v = NULL;
    plim_status status;
    PLIM_TRY(plim__json_get_integer(&wanted, c->config, "axis", -1, c->err));
    PLIM_TRY(plim__keras_axis(c, wanted, plim__keras_rank(c, c->in[0]), &axis));
    PLIM_TRY_DONE(line_up(c, &v, &c->out.turned));
    axis = plim__keras_dim_of(c, (plim__keras_tensor){v[0], c->out.turned}, axis);
    PLIM_TRY_DONE(plim__op_concat(c->k->graph, v, c->n_in, axis, &c->out.v, c->err));
done:
    plim__free(&c->k->alloc, v);
    return status;
}

/* x / sqrt(max(sum of squares along axis, 1e-12)) */
static plim_status unit(plim__keras_call *c, uint32_t axis, uint32_t *v)
{
    plim_graph *g = c->k->graph;
    uint32_t sum;
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQUARE, *v, &sum, c->err));
    PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, sum, 1u << axis, true, c->layer->dtype, &sum, c->err));
    PLIM_TRY(plim__op_float_const(g, PLIM__EW_MAXIMUM, sum, 1e-12, &sum, c->err));
    PLIM_TRY(plim__op_float1(g, PLIM__EW_SQRT, sum, &sum, c->err));
    return plim__op_float2(g, PLIM__EW_DIV, *v, sum, v, c->err);
}

/* Products of the samples of two inputs: of vectors, or of matrices over one axis of each. */
plim_status plim__keras_dot(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    int64_t wanted[2];
    uint32_t axis[2], v[2];
    bool normalize;
    plim__json j;
    PLIM_TRY(plim__json_get(&j, c->config, "axes", c->err));
    if (plim__json_kind_of(&j) == PLIM__JSON_INTEGER) {
        PLIM_TRY(plim__json_integer(&wanted[0], &j, c->err));
        wanted[1] = wanted[0];
    } else {
        PLIM_TRY(plim__json_integers(wanted, 2, &j, c->err));
    }
    PLIM_TRY(plim__keras_flag(c, "normalize", false, &normalize));
    for (uint32_t i = 0; i < 2; i++) {
        plim__keras_tensor t;
        PLIM_TRY(plim__keras_in(c, i, &t));
        PLIM_TRY(plim__keras_plain(c, t, &v[i]));
        PLIM_TRY(plim__keras_axis(c, wanted[i], g->value[v[i]].shape.rank, &axis[i]));
        if (normalize) PLIM_TRY(unit(c, axis[i], &v[i]));
    }
    const uint32_t rank = g->value[v[0]].shape.rank;
    PLIM_FAIL_IF(rank != g->value[v[1]].shape.rank || rank < 2 || rank > 3 || axis[0] == 0 || axis[1] == 0, c->err, PLIM_E_UNSUPPORTED,
                 "only two inputs of rank 2 or two of rank 3 are supported, and not over the batch");
    c->out.turned = false;
    if (rank == 3) { /* rows of the first by columns of the second */
        if (axis[0] == 1) PLIM_TRY(plim__op_transpose(g, v[0], (const uint32_t[]){0, 2, 1}, &v[0], c->err));
        if (axis[1] == 2) PLIM_TRY(plim__op_transpose(g, v[1], (const uint32_t[]){0, 2, 1}, &v[1], c->err));
        return plim__op_matmul(g, v[0], v[1], c->layer->dtype, &c->out.v, c->err);
    }
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, v[0], v[1], &v[0], c->err));
    return plim__op_reduce(g, PLIM__REDUCE_SUM, v[0], 2, true, c->layer->dtype, &c->out.v, c->err);
}
