/* Rows that only say where elements come from: transpose, slice, broadcast. Each is a strided view of the input's box, copied.
 * (reshape has a file of its own; concat, pad and take are in join.c.) */
#include "ops/indexing.h"
#include "ops/gradient.h"
#include "ops/ops.h"

static plim_status apply1(plim_graph *g, uint32_t op, uint32_t x, const plim__attr *attr, uint32_t *v, plim_error *err)
{
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, op, &x, 1, attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

static void axes_parallel(const plim_graph *g, const plim__node *n, plim__axes *axes) { plim__axes_parallel(axes, &plim__out(g, n, 0)->shape); }

static plim__work work_copy(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_COPY, 2 * (double)plim_dtype_bytes(plim__out(g, n, 0)->dtype)};
}

/* ----------------------------------------------------------------------------------------------- transpose
 * attr.i[d]: the input's dimension that becomes dimension d. */

static plim_status transpose_infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in != 1, err, PLIM_E_INVALID, "transpose takes 1 operand, not %u", n->n_in);
    const plim__value *x = plim__in(g, n, 0);
    uint32_t seen = 0;
    type[0] = (plim__type){.dtype = x->dtype, .shape = {.rank = x->shape.rank}};
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        const int64_t from = n->attr.i[d];
        PLIM_FAIL_IF(from < 0 || from >= x->shape.rank || (seen >> from & 1), err, PLIM_E_SHAPE,
                     "transpose: dimension %lld is not there, or there twice, in the order of %u dimensions", (long long)from, x->shape.rank);
        seen |= 1u << from;
        type[0].shape.dim[d] = x->shape.dim[from];
    }
    n->n_out = 1;
    return PLIM_OK;
}

static void transpose_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    const uint32_t rank = plim__in(g, n, k)->shape.rank;
    for (uint32_t d = 0; d < rank; d++) index[n->attr.i[d]] = plim__index_along(d);
}

static void transpose_run(const plim__call *c)
{
    plim__region need;
    plim__region_reads(c->graph, c->node, 0, c->axis, &need);
    const plim__view part = plim__view_part(&c->in[0], &need);
    plim__view turned = c->out[0];
    turned.data = part.data;
    for (uint32_t d = 0; d < turned.rank; d++) turned.stride[d] = part.stride[c->node->attr.i[d]];
    plim__copy(&c->out[0], &turned);
}

/* Where the last dimension stays the last, whole rows move. */
static plim__work transpose_work(const plim_graph *g, const plim__node *n)
{
    const uint32_t rank = plim__out(g, n, 0)->shape.rank;
    const bool rows = rank == 0 || n->attr.i[rank - 1] == (int64_t)rank - 1;
    return (plim__work){rows ? PLIM_KERNEL_COPY : PLIM_KERNEL_TRANSPOSE, 2 * (double)plim_dtype_bytes(plim__out(g, n, 0)->dtype)};
}

const plim__op_row plim__row_transpose = {
    .name = "transpose",
    .flags = PLIM__OP_CHEAP | PLIM__OP_VIEW,
    .infer = transpose_infer,
    .axes = axes_parallel,
    .reads = transpose_reads,
    .run = transpose_run,
    .work = transpose_work,
    .grad = plim__grad_transpose,
};

plim_status plim__op_transpose(plim_graph *g, uint32_t x, const uint32_t perm[], uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values, err, PLIM_E_INVALID, "transpose: input is not a value of this graph");
    plim__attr attr = {0};
    for (uint32_t d = 0; d < g->value[x].shape.rank; d++) attr.i[d] = perm[d];
    return apply1(g, PLIM__OP_TRANSPOSE, x, &attr, v, err);
}

/* --------------------------------------------------------------------------------------------------- slice
 * Start, step and count of dimension d. */

#define SLICE_START(attr, d) ((attr).i[d])
#define SLICE_STEP(attr, d) ((attr).i[PLIM_MAX_RANK + (d)])
#define SLICE_COUNT(attr, d) ((attr).i[2 * PLIM_MAX_RANK + (d)])

/* The first and the last index lie inside, so all do. */
static plim_status slice_check(int64_t start, int64_t step, int64_t count, int64_t extent, uint32_t d, plim_error *err)
{
    PLIM_FAIL_IF(step == 0 || step == INT64_MIN, err, PLIM_E_INVALID, "slice: step %lld in dimension %u", (long long)step, d);
    PLIM_FAIL_IF(count < 0, err, PLIM_E_INVALID, "slice: %lld elements in dimension %u", (long long)count, d);
    if (count == 0) return PLIM_OK;
    int64_t last;
    const bool overflow = __builtin_mul_overflow(step, count - 1, &last) || __builtin_add_overflow(last, start, &last);
    PLIM_FAIL_IF(start < 0 || start >= extent || overflow || last < 0 || last >= extent, err, PLIM_E_SHAPE,
                 "slice: %lld elements from %lld by %lld do not lie inside dimension %u of %lld", (long long)count, (long long)start,
                 (long long)step, d, (long long)extent);
    return PLIM_OK;
}

static plim_status slice_infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in != 1, err, PLIM_E_INVALID, "slice takes 1 operand, not %u", n->n_in);
    const plim__value *x = plim__in(g, n, 0);
    type[0] = (plim__type){.dtype = x->dtype, .shape = {.rank = x->shape.rank}};
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        PLIM_TRY(slice_check(SLICE_START(n->attr, d), SLICE_STEP(n->attr, d), SLICE_COUNT(n->attr, d), x->shape.dim[d], d, err));
        type[0].shape.dim[d] = SLICE_COUNT(n->attr, d);
    }
    n->n_out = 1;
    return PLIM_OK;
}

static void slice_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    const uint32_t rank = plim__in(g, n, k)->shape.rank;
    for (uint32_t d = 0; d < rank; d++)
        index[d] = (plim__index){.axis = (int32_t)d, .stride = SLICE_STEP(n->attr, d), .offset = SLICE_START(n->attr, d), .div = 1, .window = 1};
}

static void slice_run(const plim__call *c)
{
    const plim__view *in = &c->in[0];
    plim__view picked = c->out[0];
    if (plim__view_count(&picked) == 0) return;
    int64_t first[PLIM_MAX_RANK];
    for (uint32_t d = 0; d < in->rank; d++) {
        first[d] = SLICE_START(c->node->attr, d) + SLICE_STEP(c->node->attr, d) * picked.lo[d];
        picked.stride[d] = in->stride[d] * SLICE_STEP(c->node->attr, d);
    }
    picked.data = plim__view_at(in, first);
    plim__copy(&c->out[0], &picked);
}

const plim__op_row plim__row_slice = {
    .name = "slice",
    .flags = PLIM__OP_CHEAP,
    .infer = slice_infer,
    .axes = axes_parallel,
    .reads = slice_reads,
    .run = slice_run,
    .work = work_copy,
    .grad = plim__grad_slice,
};

plim_status plim__op_slice(plim_graph *g, uint32_t x, const int64_t start[], const int64_t step[], const int64_t count[], uint32_t *v,
                           plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values, err, PLIM_E_INVALID, "slice: input is not a value of this graph");
    plim__attr attr = {0};
    for (uint32_t d = 0; d < g->value[x].shape.rank; d++) {
        SLICE_START(attr, d) = count[d] == 0 ? 0 : start[d];
        SLICE_STEP(attr, d) = count[d] <= 1 ? 1 : step[d]; /* so that equal slices are equal nodes */
        SLICE_COUNT(attr, d) = count[d];
        PLIM_FAIL_IF(step[d] == 0, err, PLIM_E_INVALID, "slice: step 0 in dimension %u", d);
    }
    return apply1(g, PLIM__OP_SLICE, x, &attr, v, err);
}

plim_status plim__op_slice_axis(plim_graph *g, uint32_t x, uint32_t axis, int64_t start, int64_t step, int64_t count, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values || axis >= g->value[x].shape.rank, err, PLIM_E_INVALID, "slice: input has no dimension %u", axis);
    const plim_shape s = g->value[x].shape;
    int64_t starts[PLIM_MAX_RANK] = {0}, steps[PLIM_MAX_RANK], counts[PLIM_MAX_RANK];
    if (start == 0 && count == s.dim[axis] && (step == 1 || count <= 1)) {
        *v = x;
        return PLIM_OK;
    }
    for (uint32_t d = 0; d < s.rank; d++) {
        steps[d] = 1;
        counts[d] = s.dim[d];
    }
    starts[axis] = start;
    steps[axis] = step;
    counts[axis] = count;
    return plim__op_slice(g, x, starts, steps, counts, v, err);
}

/* ----------------------------------------------------------------------------------------------- broadcast
 * attr.mask is the rank, attr.i[d] the extents. */

static plim_status broadcast_infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in != 1, err, PLIM_E_INVALID, "broadcast takes 1 operand, not %u", n->n_in);
    PLIM_FAIL_IF(n->attr.mask > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "broadcast: more than %d dimensions", PLIM_MAX_RANK);
    const plim__value *x = plim__in(g, n, 0);
    plim_shape to = {.rank = n->attr.mask};
    for (uint32_t d = 0; d < to.rank; d++) to.dim[d] = n->attr.i[d];
    bool fits = x->shape.rank <= to.rank;
    for (uint32_t d = 0; fits && d < x->shape.rank; d++) {
        const int64_t wide = to.dim[d + to.rank - x->shape.rank];
        fits = x->shape.dim[d] == 1 || x->shape.dim[d] == wide;
    }
    char from_text[160], to_text[160];
    PLIM_FAIL_IF(!fits, err, PLIM_E_SHAPE, "broadcast: %s does not broadcast to %s", plim_shape_format(from_text, sizeof from_text, &x->shape),
                 plim_shape_format(to_text, sizeof to_text, &to));
    n->n_out = 1;
    type[0] = (plim__type){.dtype = x->dtype, .shape = to};
    return PLIM_OK;
}

static void broadcast_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    plim__reads_broadcast(&plim__in(g, n, k)->shape, &plim__out(g, n, 0)->shape, index);
}

static void broadcast_run(const plim__call *c)
{
    const plim__view wide = plim__view_broadcast(c, 0, &c->out[0]);
    plim__copy(&c->out[0], &wide);
}

const plim__op_row plim__row_broadcast = {
    .name = "broadcast",
    .flags = PLIM__OP_CHEAP | PLIM__OP_VIEW,
    .infer = broadcast_infer,
    .axes = axes_parallel,
    .reads = broadcast_reads,
    .run = broadcast_run,
    .work = work_copy,
    .grad = plim__grad_broadcast,
};

plim_status plim__op_broadcast(plim_graph *g, uint32_t x, const plim_shape *to, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values, err, PLIM_E_INVALID, "broadcast: input is not a value of this graph");
    PLIM_FAIL_IF(to->rank > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "broadcast: more than %d dimensions", PLIM_MAX_RANK);
    plim__attr attr = {.mask = to->rank};
    for (uint32_t d = 0; d < to->rank; d++) attr.i[d] = to->dim[d];
    return apply1(g, PLIM__OP_BROADCAST, x, &attr, v, err);
}
