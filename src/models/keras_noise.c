/* Layers that do something in training only. */
#include "models/keras.h"

static plim_status read_rate(plim__keras_call *c, double *rate)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, c->config, "rate", c->err));
    PLIM_TRY(plim__json_number(rate, &j, c->err));
    if (!(*rate >= 0 && *rate < 1)) return plim__json_fail(c->err, PLIM_E_UNSUPPORTED, &j, "%g is not in [0, 1)", *rate);
    PLIM_FAIL_IF(plim__json_find(&j, c->config, "noise_shape"), c->err, PLIM_E_UNSUPPORTED, "noise_shape is not supported");
    return PLIM_OK;
}

plim_status plim__keras_dropout(plim__keras_call *c)
{
    double rate;
    uint32_t seed;
    PLIM_TRY(read_rate(c, &rate));
    c->out = c->in[0];
    if (!c->k->training || rate == 0) return PLIM_OK;
    PLIM_TRY(plim__keras_in(c, 0, &c->out));
    PLIM_TRY(plim__model_seed(c->k->model, &seed, c->err));
    return plim__op_dropout(c->k->graph, c->out.v, rate, seed, c->k->streams++, &c->out.v, c->err);
}

/* Whole channels are dropped: the mask is one element wide in the dimensions of space. */
plim_status plim__keras_spatial_dropout(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    double rate;
    bool first;
    uint32_t seed, x, mask;
    PLIM_TRY(read_rate(c, &rate));
    c->out = c->in[0];
    if (!c->k->training || rate == 0) return PLIM_OK;
    PLIM_TRY(plim__keras_image(c, c->row->arg, &first, &x));
    plim_shape s = g->value[x].shape;
    for (uint32_t d = 2; d < s.rank; d++) s.dim[d] = 1;
    PLIM_TRY(plim__op_scalar(g, c->layer->dtype, 1, &mask, c->err));
    PLIM_TRY(plim__op_broadcast(g, mask, &s, &mask, c->err));
    PLIM_TRY(plim__model_seed(c->k->model, &seed, c->err));
    PLIM_TRY(plim__op_dropout(g, mask, rate, seed, c->k->streams++, &mask, c->err));
    PLIM_TRY(plim__op_float2(g, PLIM__EW_MUL, x, mask, &x, c->err));
    c->out = plim__keras_from_image(x, first);
    return PLIM_OK;
}

plim_status plim__keras_identity(plim__keras_call *c)
{
    PLIM_FAIL_IF(c->k->training, c->err, PLIM_E_UNSUPPORTED, "it is not supported in training");
    c->out = c->in[0];
    return PLIM_OK;
}
