/* Windows: the mean over a box, and convolution. Every axis is parallel; an output element reads a window of the input, so that a cut brings its own
 * halo. Axis d is dimension d of the output.
 *
 * Attributes: kind the edge mode (plim__edge). Box: i[d] the size in dimension d. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/window.h"
#include "ops/reducing.h"

#include <string.h>

static_assert((int)PLIM__EDGE_FULL == (int)PLIM__BORDER_FULL && (int)PLIM__EDGE_VALID == (int)PLIM__BORDER_VALID &&
              (int)PLIM__EDGE_REFLECT == (int)PLIM__BORDER_REFLECT, "the modes' order");

/* The window in each dimension: the box's sizes, or the kernel's extents in the last dimensions. */
static plim__window window_of(const plim_graph *g, const plim__node *n)
{
    const plim_shape *x = &plim__in(g, n, 0)->shape;
    plim__window w = {.rank = x->rank, .border = (plim__border)n->attr.kind};
    const plim_shape *kernel = n->op == PLIM__OP_CONVOLVE ? &plim__in(g, n, 1)->shape : NULL;
    for (uint32_t d = 0; d < x->rank; d++) {
        if (!kernel) w.size[d] = n->attr.i[d];
        else w.size[d] = d + kernel->rank < x->rank ? 1 : kernel->dim[d + kernel->rank - x->rank];
        w.shift[d] = w.border == PLIM__BORDER_VALID ? 0 : w.border == PLIM__BORDER_FULL ? w.size[d] - 1 : w.size[d] / 2;
        w.extent[d] = x->dim[d];
    }
    return w;
}

static int64_t extent_out(const plim__window *w, uint32_t d)
{
    const int64_t n = w->extent[d], more = w->size[d] - 1;
    return w->border == PLIM__BORDER_VALID ? n - more : w->border == PLIM__BORDER_FULL ? n + more : n;
}

/* How far a mirror reaches: a reflection leaves the border element out. */
static plim_status window_check(const plim__window *w, plim__border most, const char *what, plim_shape *out, plim_error *err)
{
    static const char *const name[] = {"constant", "edge", "reflect", "symmetric", "valid", "full"};
    PLIM_FAIL_IF(w->border > most, err, PLIM_E_INVALID, "%s: edge mode %d does not exist", what, (int)w->border);
    out->rank = w->rank;
    for (uint32_t d = 0; d < w->rank; d++) {
        const int64_t n = w->extent[d], size = w->size[d], reach = size / 2;
        PLIM_FAIL_IF(size < 1, err, PLIM_E_INVALID, "%s: a window of %lld elements in dimension %u", what, (long long)size, d);
        const bool short_valid = w->border == PLIM__BORDER_VALID && size > n && size > 1;
        const bool short_mirror = (w->border == PLIM__BORDER_REFLECT && reach > n - 1) || (w->border == PLIM__BORDER_SYMMETRIC && reach > n);
        PLIM_FAIL_IF(short_valid || (size > 1 && short_mirror), err, PLIM_E_SHAPE, "%s: a window of %lld elements in dimension %u of extent %lld, edge mode %s",
                     what, (long long)size, d, (long long)n, name[w->border]);
        PLIM_FAIL_IF(w->border == PLIM__BORDER_FULL && size > INT64_MAX - n, err, PLIM_E_OVERFLOW, "%s: dimension %u of the result is more than 2^63", what, d);
        out->dim[d] = extent_out(w, d);
    }
    return PLIM_OK;
}

static void window_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    const plim__window w = window_of(g, n);
    plim_shape out = {.rank = w.rank};
    for (uint32_t d = 0; d < w.rank; d++) out.dim[d] = extent_out(&w, d);
    plim__axes_reduce(axes, &out, 0, PLIM__PARALLEL);
    plim__axes_reduce_out(axes, 0, 0, 0, false);
}

/* An even window that is reflected at the left border sees one element beyond its right end: [-k/2, k/2) holds -k/2, which is found at k/2. */
static void window_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    if (k == 1) {
        const plim_shape *kernel = &plim__in(g, n, 1)->shape;
        for (uint32_t d = 0; d < kernel->rank; d++) index[d] = plim__index_fixed(0, kernel->dim[d]);
        return;
    }
    const plim__window w = window_of(g, n);
    for (uint32_t d = 0; d < w.rank; d++) {
        const bool even = w.border == PLIM__BORDER_REFLECT && w.size[d] % 2 == 0;
        index[d] = (plim__index){.axis = (int32_t)d, .stride = 1, .offset = -w.shift[d], .div = 1, .window = w.size[d] + even};
    }
}

/* ----------------------------------------------------------------------------------------------------- box */

static plim_status box_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const plim__window w = window_of(g, n);
    type[0].dtype = plim__dtype_is_float(x->dtype) ? x->dtype : PLIM_F64;
    PLIM_TRY(window_check(&w, PLIM__BORDER_VALID, "box", &type[0].shape, err));
    n->n_out = 1;
    return PLIM_OK;
}

static uint64_t box_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)threads;
    const plim__window w = window_of(g, n);
    return plim__box_scratch(&w, w.rank ? len[w.rank - 1] : 1);
}

static void box_run(const plim__call *c)
{
    const plim__window w = window_of(c->graph, c->node);
    plim__box_run(&w, &c->out[0], &c->in[0], c->scratch);
}

/* A few passes over rows in the cache, whatever the size. */
static plim__work box_work(const plim_graph *g, const plim__node *n)
{
    const plim__window w = window_of(g, n);
    double flops = 2;
    for (uint32_t d = 0; d < w.rank; d++) flops += w.size[d] > 8 ? 6 : w.size[d] > 1 ? (double)w.size[d] : 0;
    return (plim__work){PLIM_KERNEL_WINDOW, flops};
}

const plim__op_row plim__row_box = {
    .name = "box", .infer = box_infer, .axes = window_axes, .reads = window_reads, .scratch = box_scratch, .run = box_run, .work = box_work,
};

plim_status plim__op_box(plim_graph *g, uint32_t x, const int64_t size[], plim__edge edge, uint32_t *v, plim_error *err)
{
    plim__attr attr = {.kind = edge};
    memcpy(attr.i, size, g->value[x].shape.rank * sizeof *size);
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_BOX, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ convolve */

static plim_status convolve_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0), *kernel = plim__in(g, n, 1);
    PLIM_FAIL_IF(kernel->shape.rank < 1 || kernel->shape.rank > x->shape.rank, err, PLIM_E_SHAPE,
                 "convolve: a kernel of rank %u over an array of rank %u", kernel->shape.rank, x->shape.rank);
    const plim__window w = window_of(g, n);
    const plim_dtype a = plim__dtype_compute(x->dtype), b = plim__dtype_compute(kernel->dtype);
    if (plim__dtype_is_float(a) || plim__dtype_is_float(b)) type[0].dtype = a == PLIM_F32 && b == PLIM_F32 ? PLIM_F32 : PLIM_F64;
    else type[0].dtype = a == PLIM_U64 || b == PLIM_U64 ? PLIM_U64 : PLIM_I64;
    PLIM_TRY(window_check(&w, PLIM__BORDER_FULL, "convolve", &type[0].shape, err));
    n->n_out = 1;
    return PLIM_OK;
}

static uint64_t convolve_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)threads;
    const plim__window w = window_of(g, n);
    return plim__convolve_scratch(&w, len[w.rank - 1]);
}

static void convolve_run(const plim__call *c)
{
    const plim__window w = window_of(c->graph, c->node);
    const plim__view kernel = plim__call_in(c, 1);
    plim__convolve_run(&w, &c->out[0], &c->in[0], &kernel, c->scratch);
}

static plim__work convolve_work(const plim_graph *g, const plim__node *n)
{
    const plim__window w = window_of(g, n);
    double flops = 2;
    for (uint32_t d = 0; d < w.rank; d++) flops *= (double)w.size[d];
    return (plim__work){PLIM_KERNEL_WINDOW, flops};
}

const plim__op_row plim__row_convolve = {
    .name = "convolve", .infer = convolve_infer, .axes = window_axes, .reads = window_reads, .scratch = convolve_scratch, .run = convolve_run,
    .work = convolve_work,
};

plim_status plim__op_convolve(plim_graph *g, uint32_t x, uint32_t w, plim__edge edge, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.kind = edge};
    const uint32_t in[2] = {x, w};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_CONVOLVE, in, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
