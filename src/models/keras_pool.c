/* Pools, borders, resizing: what only looks at the dimensions of space. */
#include "core/size.h"
#include "models/keras.h"
#include "ops/reducing.h"

#include <string.h>

static uint32_t space_of(const plim__keras_call *c) { return c->row->arg & ~PLIM__KERAS_AVERAGE; }

plim_status plim__keras_pool(plim__keras_call *c)
{
    const uint32_t space = space_of(c);
    plim__pool p = {.average = c->row->arg & PLIM__KERAS_AVERAGE, .space = space};
    const char *padding;
    bool first;
    uint32_t x, v;
    plim__json j;
    PLIM_TRY(plim__keras_sizes(c, "pool_size", space, 1, 2, p.size));
    memcpy(p.stride, p.size, sizeof p.stride);
    if (plim__json_find(&j, c->config, "strides")) PLIM_TRY(plim__keras_sizes(c, "strides", space, 1, 1, p.stride));
    PLIM_TRY(plim__json_get_string(&padding, c->config, "padding", "valid", c->err));
    const bool same = strcmp(padding, "same") == 0;
    PLIM_FAIL_IF(!same && strcmp(padding, "valid") != 0, c->err, PLIM_E_UNSUPPORTED, "padding '%.40s' is not supported", padding);
    PLIM_TRY(plim__keras_image(c, space, &first, &x));
    for (uint32_t d = 0; d < space; d++) {
        const int64_t n = c->k->graph->value[x].shape.dim[2 + d], out = plim__ceil_div(n, p.stride[d]);
        const int64_t border = same ? plim__max((out - 1) * p.stride[d] + p.size[d] - n, 0) : 0;
        p.dilation[d] = 1;
        p.before[d] = border / 2;
        p.after[d] = border - border / 2;
    }
    PLIM_TRY(plim__op_pool(c->k->graph, x, &p, &v, c->err));
    c->out = plim__keras_from_image(v, first);
    return PLIM_OK;
}

plim_status plim__keras_pool_global(plim__keras_call *c)
{
    plim_graph *g = c->k->graph;
    const uint32_t space = space_of(c), mask = ((1u << space) - 1) << 2;
    const bool average = c->row->arg & PLIM__KERAS_AVERAGE;
    bool first, keepdims;
    uint32_t x, v;
    uint64_t whole, left;
    PLIM_TRY(plim__keras_flag(c, "keepdims", false, &keepdims));
    PLIM_TRY(plim__keras_image(c, space, &first, &x));
    const plim_shape s = g->value[x].shape, out = plim__shape_reduce(&s, mask, false);
    PLIM_TRY(plim_shape_count(&whole, &s, c->err));
    PLIM_TRY(plim_shape_count(&left, &out, c->err));
    PLIM_FAIL_IF(whole == 0, c->err, PLIM_E_SHAPE, "a global pool of nothing");
    PLIM_TRY(plim__op_reduce(g, average ? PLIM__REDUCE_SUM : PLIM__REDUCE_MAX, x, mask, keepdims, c->layer->dtype, &v, c->err));
    if (average) PLIM_TRY(plim__op_float_const(g, PLIM__EW_MUL, v, (double)left / (double)whole, &v, c->err));
    c->out = (plim__keras_tensor){v, keepdims && !first};
    return PLIM_OK;
}

/* `key`: one number for all borders, one for each dimension, or two for each: before and after. In one dimension a list is the two. */
static plim_status read_borders(plim__keras_call *c, const char *key, uint32_t space, int64_t before[3], int64_t after[3])
{
    plim__json j, e;
    int64_t pair[2];
    const bool list = plim__json_find(&j, c->config, key) && plim__json_kind_of(&j) == PLIM__JSON_ARRAY && plim__json_count(&j) > 0;
    bool pairs = list && space == 1 && plim__json_count(&j) == 2;
    if (list && !pairs) {
        PLIM_TRY(plim__json_at(&e, &j, 0, c->err));
        pairs = plim__json_kind_of(&e) == PLIM__JSON_ARRAY;
    }
    if (!pairs) {
        PLIM_TRY(plim__keras_sizes(c, key, space, 0, 1, before));
        memcpy(after, before, space * sizeof *after);
        return PLIM_OK;
    }
    const bool bare = space == 1 && plim__json_count(&j) == 2;
    if (!bare && plim__json_count(&j) != space) return plim__json_fail(c->err, PLIM_E_FORMAT, &j, "expected %u pairs of numbers", space);
    for (uint32_t d = 0; d < space; d++) {
        if (!bare) PLIM_TRY(plim__json_at(&e, &j, d, c->err));
        PLIM_TRY(plim__json_integers(pair, 2, bare ? &j : &e, c->err));
        if (pair[0] < 0 || pair[1] < 0 || pair[0] > PLIM__KERAS_SIZE || pair[1] > PLIM__KERAS_SIZE)
            return plim__json_fail(c->err, PLIM_E_FORMAT, &j, "a border is not between 0 and %d", PLIM__KERAS_SIZE);
        before[d] = pair[0];
        after[d] = pair[1];
    }
    return PLIM_OK;
}

plim_status plim__keras_zero_padding(plim__keras_call *c)
{
    int64_t before[PLIM_MAX_RANK] = {0}, after[PLIM_MAX_RANK] = {0};
    bool first;
    uint32_t x, v;
    PLIM_TRY(read_borders(c, "padding", c->row->arg, before + 2, after + 2));
    PLIM_TRY(plim__keras_image(c, c->row->arg, &first, &x));
    PLIM_TRY(plim__op_pad(c->k->graph, x, before, after, PLIM__EDGE_CONSTANT, 0, &v, c->err));
    c->out = plim__keras_from_image(v, first);
    return PLIM_OK;
}

plim_status plim__keras_cropping(plim__keras_call *c)
{
    int64_t start[PLIM_MAX_RANK] = {0}, after[PLIM_MAX_RANK] = {0}, step[PLIM_MAX_RANK], count[PLIM_MAX_RANK];
    bool first;
    uint32_t x, v;
    PLIM_TRY(read_borders(c, "cropping", c->row->arg, start + 2, after + 2));
    PLIM_TRY(plim__keras_image(c, c->row->arg, &first, &x));
    const plim_shape s = c->k->graph->value[x].shape;
    for (uint32_t d = 0; d < s.rank; d++) {
        step[d] = 1;
        count[d] = s.dim[d] - start[d] - after[d];
        PLIM_FAIL_IF(count[d] < 0 || (count[d] == 0 && s.dim[d] > 0), c->err, PLIM_E_SHAPE, "cropping leaves nothing of an extent of %lld",
                     (long long)s.dim[d]);
    }
    PLIM_TRY(plim__op_slice(c->k->graph, x, start, step, count, &v, c->err));
    c->out = plim__keras_from_image(v, first);
    return PLIM_OK;
}

plim_status plim__keras_up_sampling(plim__keras_call *c)
{
    const uint32_t space = c->row->arg;
    plim__resize r = {.where = PLIM__RESIZE_ASYMMETRIC, .round = 2, .space = space};
    const char *how;
    int64_t times[3];
    bool first;
    uint32_t x, v;
    PLIM_TRY(plim__keras_sizes(c, "size", space, 1, 2, times));
    PLIM_TRY(plim__json_get_string(&how, c->config, "interpolation", "nearest", c->err));
    if (strcmp(how, "bilinear") == 0) r = (plim__resize){.mode = PLIM__RESIZE_LINEAR, .where = PLIM__RESIZE_HALF_PIXEL, .space = space};
    else PLIM_FAIL_IF(strcmp(how, "nearest") != 0, c->err, PLIM_E_UNSUPPORTED, "interpolation '%.40s' is not supported", how);
    PLIM_TRY(plim__keras_image(c, space, &first, &x));
    for (uint32_t d = 0; d < space; d++)
        PLIM_FAIL_IF(__builtin_mul_overflow(c->k->graph->value[x].shape.dim[2 + d], times[d], &r.size[d]), c->err, PLIM_E_OVERFLOW,
                     "the output is too large");
    PLIM_TRY(plim__op_resize(c->k->graph, x, &r, &v, c->err));
    c->out = plim__keras_from_image(v, first);
    return PLIM_OK;
}
