/* Layers that move elements: Flatten, Reshape, Permute, RepeatVector, and TimeDistributed, which takes time for a part of the batch. */
#include "core/size.h"
#include "models/keras.h"

#include <string.h>

static plim_status reshape(plim__keras_call *c, uint32_t x, const plim_shape *to)
{
    c->out.turned = false;
    return plim__op_reshape(c->k->graph, x, to, &c->out.v, c->err);
}

/* Channels-first images are flattened as if their channels were last: so their value is that of a turned tensor. */
plim_status plim__keras_flatten(plim__keras_call *c)
{
    const char *format;
    uint32_t x;
    plim__keras_tensor t = c->in[0];
    PLIM_TRY(plim__json_get_string(&format, c->config, "data_format", "channels_last", c->err));
    PLIM_TRY(plim__keras_plain(c, t, &x));
    const plim_shape s = c->k->graph->value[x].shape;
    if (strcmp(format, "channels_first") == 0 && s.rank > 2) {
        t = (plim__keras_tensor){x, true};
        PLIM_TRY(plim__keras_plain(c, t, &x));
    }
    PLIM_FAIL_IF(s.rank == 0, c->err, PLIM_E_SHAPE, "a scalar has no batch");
    plim_shape flat = {2, {s.dim[0], 1}};
    for (uint32_t d = 1; d < s.rank; d++) /* a part of the value's count, which was checked, where no extent is 0 */
        PLIM_FAIL_IF(__builtin_mul_overflow(flat.dim[1], s.dim[d], &flat.dim[1]), c->err, PLIM_E_OVERFLOW, "too many elements");
    return reshape(c, x, &flat);
}

/* The extent that is -1 takes what the others leave. */
static plim_status fill_in(plim__keras_call *c, const plim_shape *from, plim_shape *to)
{
    uint64_t have = 1, said = 1;
    uint32_t open = 0;
    for (uint32_t d = 1; d < from->rank; d++)
        PLIM_FAIL_IF(!plim__mul(&have, have, (uint64_t)from->dim[d]), c->err, PLIM_E_OVERFLOW, "too many elements");
    for (uint32_t d = 1; d < to->rank; d++) {
        PLIM_FAIL_IF(to->dim[d] < -1 || (to->dim[d] == -1 && open), c->err, PLIM_E_FORMAT, "target_shape has extent %lld in place %u",
                     (long long)to->dim[d], d - 1);
        if (to->dim[d] == -1) open = d;
        else PLIM_FAIL_IF(!plim__mul(&said, said, (uint64_t)to->dim[d]), c->err, PLIM_E_OVERFLOW, "target_shape is too large");
    }
    PLIM_FAIL_IF(open && (said == 0 || have % said != 0), c->err, PLIM_E_SHAPE, "target_shape does not divide the %llu elements there are",
                 (unsigned long long)have);
    if (open) to->dim[open] = (int64_t)(have / said);
    return PLIM_OK;
}

plim_status plim__keras_reshape(plim__keras_call *c)
{
    plim__json j;
    uint32_t x;
    PLIM_TRY(plim__keras_plain(c, c->in[0], &x));
    const plim_shape s = c->k->graph->value[x].shape;
    PLIM_TRY(plim__json_get(&j, c->config, "target_shape", c->err));
    const uint32_t n = plim__json_count(&j);
    PLIM_FAIL_IF(n + 1 > PLIM_MAX_RANK || s.rank == 0, c->err, PLIM_E_UNSUPPORTED, "target_shape has more than %d dimensions", PLIM_MAX_RANK - 1);
    plim_shape to = {.rank = n + 1, .dim = {s.dim[0]}};
    PLIM_TRY(plim__json_integers(to.dim + 1, n, &j, c->err));
    PLIM_TRY(fill_in(c, &s, &to));
    return reshape(c, x, &to);
}

/* dims counts from 1: the batch stays where it is. */
plim_status plim__keras_permute(plim__keras_call *c)
{
    plim__json j;
    uint32_t x, perm[PLIM_MAX_RANK] = {0};
    int64_t dims[PLIM_MAX_RANK];
    PLIM_TRY(plim__keras_plain(c, c->in[0], &x));
    const uint32_t rank = c->k->graph->value[x].shape.rank;
    PLIM_TRY(plim__json_get(&j, c->config, "dims", c->err));
    PLIM_FAIL_IF(rank == 0, c->err, PLIM_E_SHAPE, "a scalar has no batch");
    PLIM_TRY(plim__json_integers(dims, rank - 1, &j, c->err));
    for (uint32_t d = 1; d < rank; d++) {
        if (dims[d - 1] < 1 || dims[d - 1] >= rank)
            return plim__json_fail(c->err, PLIM_E_FORMAT, &j, "%lld is not a dimension of the input", (long long)dims[d - 1]);
        perm[d] = (uint32_t)dims[d - 1];
    }
    c->out.turned = false;
    return plim__op_transpose(c->k->graph, x, perm, &c->out.v, c->err);
}

plim_status plim__keras_repeat_vector(plim__keras_call *c)
{
    plim__json j;
    int64_t n;
    uint32_t x;
    PLIM_TRY(plim__json_get(&j, c->config, "n", c->err));
    PLIM_TRY(plim__json_integer(&n, &j, c->err));
    PLIM_TRY(plim__keras_plain(c, c->in[0], &x));
    const plim_shape s = c->k->graph->value[x].shape;
    PLIM_FAIL_IF(s.rank != 2 || n < 1, c->err, PLIM_E_SHAPE, "expects an input of rank 2 and n of at least 1");
    plim_shape to = {3, {s.dim[0], 1, s.dim[1]}};
    PLIM_TRY(plim__op_reshape(c->k->graph, x, &to, &x, c->err));
    to.dim[1] = n;
    c->out.turned = false;
    return plim__op_broadcast(c->k->graph, x, &to, &c->out.v, c->err);
}

/* [N, T, ...] is [N*T, ...] to the layer inside. */
plim_status plim__keras_time_distributed(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    uint32_t x;
    plim__keras_tensor inner = {0};
    PLIM_TRY(plim__keras_plain(c, c->in[0], &x));
    const plim_shape s = g->value[x].shape;
    plim_shape in = {.rank = s.rank - 1};
    PLIM_FAIL_IF(s.rank < 3 || __builtin_mul_overflow(s.dim[0], s.dim[1], &in.dim[0]), c->err, PLIM_E_SHAPE,
                 "expects an input of rank 3 or more, not %u", s.rank);
    for (uint32_t d = 1; d < in.rank; d++) in.dim[d] = s.dim[d + 1];
    PLIM_TRY(plim__op_reshape(g, x, &in, &inner.v, c->err));
    PLIM_TRY(plim__keras_apply(c->k, c->layer->first, &inner, 1, &inner, c->err));
    PLIM_TRY(plim__keras_plain(c, inner, &x));
    const plim_shape made = g->value[x].shape;
    PLIM_FAIL_IF(made.rank == 0 || made.rank + 1 > PLIM_MAX_RANK, c->err, PLIM_E_SHAPE, "the layer inside gives a tensor of rank %u", made.rank);
    plim_shape out = {.rank = made.rank + 1, .dim = {s.dim[0], s.dim[1]}};
    for (uint32_t d = 1; d < made.rank; d++) out.dim[d + 1] = made.dim[d];
    return reshape(c, x, &out);
}
