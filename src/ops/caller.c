/* What the caller of the library computes itself, tile by tile (plim_tiles): every element of the output reads a window of the input, `overlap` elements to
 * each side, clamped at the array's ends, so that a cut brings its own halo. Axis d is dimension d of the input.
 *
 * Attributes: i[d] the overlap in dimension d; mask 1: there is an output, as large as the input, of the dtype `kind`. Without one, all that comes of a walk is
 * a byte that says nothing: every part is combined into it.
 *
 * The runner stops before a node of this op (PLIM__OP_CALLER), and goes on when the caller has filled its output: `run` has nothing left to do. */
#include "core/size.h"
#include "ops/reducing.h"

#include <string.h>

static bool has_output(const plim__node *n) { return n->attr.mask & 1; }

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim_shape *x = &plim__in(g, n, 0)->shape;
    PLIM_FAIL_IF(n->attr.kind >= PLIM_DTYPE_COUNT, err, PLIM_E_INVALID, "no dtype has the number %u", n->attr.kind);
    for (uint32_t d = 0; d < x->rank; d++)
        PLIM_FAIL_IF(n->attr.i[d] < 0 || n->attr.i[d] > x->dim[d], err, PLIM_E_SHAPE, "overlap %lld of dimension %u is out of range [0, %lld]",
                     (long long)n->attr.i[d], d, (long long)x->dim[d]);
    type[0] = has_output(n) ? (plim__type){(plim_dtype)n->attr.kind, *x} : (plim__type){PLIM_U8, {.rank = 0}};
    n->n_out = 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    const uint32_t mask = has_output(n) ? 0 : UINT32_MAX;
    plim__axes_reduce(axes, &plim__in(g, n, 0)->shape, mask, PLIM__MERGE);
    plim__axes_reduce_out(axes, 0, 0, mask, false);
    PLIM_ASSERT(axes->n == 0 || (axes->out[0][0] == 0) == has_output(n));
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    PLIM_ASSERT(k == 0 && n->n_in == 1);
    for (uint32_t d = 0; d < plim__in(g, n, k)->shape.rank; d++) {
        const int64_t overlap = n->attr.i[d];
        index[d] = (plim__index){.axis = (int32_t)d, .stride = 1, .offset = -overlap, .div = 1, .window = 2 * overlap + 1};
    }
}

static void nothing(const plim__call *c) { (void)c; }

/* The walk is the caller's, and how long it takes: that of a copy. */
static plim__work work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_COPY, (double)plim_dtype_bytes(plim__in(g, n, 0)->dtype)};
}

const plim__op_row plim__row_caller = {
    .name = "caller", .flags = PLIM__OP_POOL | PLIM__OP_CALLER, .infer = infer, .axes = axes, .reads = reads, .init = nothing, .run = nothing,
    .merge = nothing, .work = work,
};

plim_status plim__op_caller(plim_graph *g, uint32_t x, const int64_t overlap[], const plim_dtype *out, uint32_t *v, plim_error *err)
{
    plim__attr attr = {.kind = out ? *out : 0, .mask = out != NULL};
    memcpy(attr.i, overlap, g->value[x].shape.rank * sizeof *overlap);
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_CALLER_COMPUTES, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
