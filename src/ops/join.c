/* Rows that put boxes together: concat, pad, take. Each copies a few strided pieces; what a piece is, follows from absolute positions,
 * so that an input box may hold more than the part needs. */
#include "core/size.h"
#include "ops/indexing.h"
#include "ops/gradient.h"
#include "ops/ops.h"

#include <string.h>

static void axes_parallel(const plim_graph *g, const plim__node *n, plim__axes *axes) { plim__axes_parallel(axes, &plim__out(g, n, 0)->shape); }

static plim__work work_copy(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_COPY, 2 * (double)plim_dtype_bytes(plim__out(g, n, 0)->dtype)};
}

/* -------------------------------------------------------------------------------------------------- concat
 * attr.i[0]: the dimension. Input k begins at the sum of the extents before it. A part that needs nothing of an input still
 * reads one element of it, the nearest: a read is never empty. */

static plim_status concat_infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in == 0, err, PLIM_E_INVALID, "concat: nothing to join");
    const plim__value *first = plim__in(g, n, 0);
    const int64_t axis = n->attr.i[0];
    PLIM_FAIL_IF(axis < 0 || axis >= first->shape.rank, err, PLIM_E_SHAPE, "concat: no dimension %lld in arrays of %u", (long long)axis,
                 first->shape.rank);
    type[0] = (plim__type){.dtype = first->dtype, .shape = first->shape};
    for (uint32_t k = 1; k < n->n_in; k++) {
        const plim__value *x = plim__in(g, n, k);
        PLIM_FAIL_IF(x->dtype != first->dtype, err, PLIM_E_TYPE, "concat: operands of %s and %s", plim_dtype_name(first->dtype),
                     plim_dtype_name(x->dtype));
        plim_shape alike = x->shape;
        if (x->shape.rank == first->shape.rank) alike.dim[axis] = first->shape.dim[axis];
        char a[160], b[160];
        PLIM_FAIL_IF(!plim__shape_equal(&alike, &first->shape), err, PLIM_E_SHAPE,
                     "concat: shapes %s and %s differ in more than dimension %lld", plim_shape_format(a, sizeof a, &first->shape),
                     plim_shape_format(b, sizeof b, &x->shape), (long long)axis);
        PLIM_FAIL_IF(__builtin_add_overflow(type[0].shape.dim[axis], x->shape.dim[axis], &type[0].shape.dim[axis]), err, PLIM_E_OVERFLOW,
                     "concat: dimension %lld is larger than 2^63", (long long)axis);
    }
    n->n_out = 1;
    return PLIM_OK;
}

static int64_t concat_start(const plim_graph *g, const plim__node *n, uint32_t k)
{
    int64_t start = 0;
    for (uint32_t i = 0; i < k; i++) start += plim__in(g, n, i)->shape.dim[n->attr.i[0]];
    return start;
}

static void concat_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    const uint32_t rank = plim__in(g, n, k)->shape.rank;
    for (uint32_t d = 0; d < rank; d++) index[d] = plim__index_along(d);
    index[n->attr.i[0]].offset = -concat_start(g, n, k);
}

static void concat_run(const plim__call *c)
{
    const uint32_t axis = (uint32_t)c->node->attr.i[0];
    const plim__view *out = &c->out[0];
    int64_t start = 0;
    for (uint32_t k = 0; k < c->node->n_in; k++) {
        const int64_t extent = plim__in(c->graph, c->node, k)->shape.dim[axis];
        plim__region to = plim__view_region(out), from = to;
        to.dim[axis].lo = plim__max(to.dim[axis].lo, start);
        to.dim[axis].hi = plim__min(to.dim[axis].hi, start + extent);
        if (plim__region_count(&to) > 0) {
            from.dim[axis] = (plim__range){to.dim[axis].lo - start, to.dim[axis].hi - start};
            const plim__view piece = plim__view_part(out, &to), source = plim__view_part(&c->in[k], &from);
            plim__copy(&piece, &source);
        }
        start += extent;
    }
}

const plim__op_row plim__row_concat = {
    .name = "concat",
    .flags = PLIM__OP_CHEAP,
    .infer = concat_infer,
    .axes = axes_parallel,
    .reads = concat_reads,
    .run = concat_run,
    .work = work_copy,
    .grad = plim__grad_concat,
};

plim_status plim__op_concat(plim_graph *g, const uint32_t *in, uint32_t n_in, uint32_t axis, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.i = {axis}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_CONCAT, in, n_in, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------- pad
 * attr.kind is the mode, attr.i[d] what comes before dimension d, attr.i[PLIM_MAX_RANK + d] what comes after,
 * attr.i[2 * PLIM_MAX_RANK] holds the bytes of the fill, an element of the array's dtype.
 *
 * Position c of the padded dimension, counted from the input's first element, is -before <= c < extent + after. Outside it reads
 *     edge 0 or extent - 1;   reflect -c or 2(extent - 1) - c;   symmetric -1 - c or 2 extent - 1 - c.
 * Reflected positions lie at most 2 before (one less for symmetric) above c, and 2 after below it: that is the window. */

#define PAD_BEFORE(attr, d) ((attr).i[d])
#define PAD_AFTER(attr, d) ((attr).i[PLIM_MAX_RANK + (d)])
#define PAD_FILL(attr) ((attr).i[2 * PLIM_MAX_RANK])

/* How many elements a mirror can give. Of one element reflect can give any number, as NumPy has it: it is its own mirror image. */
static int64_t pad_limit(plim__edge mode, int64_t extent)
{
    if (mode == PLIM__EDGE_CONSTANT) return INT64_MAX;
    if (mode == PLIM__EDGE_EDGE) return extent > 0 ? INT64_MAX : 0;
    if (mode == PLIM__EDGE_SYMMETRIC) return extent;
    return extent == 1 ? INT64_MAX : plim__max(extent - 1, 0);
}

static plim_status pad_infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    static const char *const name[] = {"constant", "edge", "reflect", "symmetric"};
    PLIM_FAIL_IF(n->n_in != 1, err, PLIM_E_INVALID, "pad takes 1 operand, not %u", n->n_in);
    PLIM_FAIL_IF(n->attr.kind > PLIM__EDGE_SYMMETRIC, err, PLIM_E_INVALID, "pad: no such mode: %u", n->attr.kind);
    const plim__value *x = plim__in(g, n, 0);
    type[0] = (plim__type){.dtype = x->dtype, .shape = x->shape};
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        const int64_t before = PAD_BEFORE(n->attr, d), after = PAD_AFTER(n->attr, d), extent = x->shape.dim[d];
        PLIM_FAIL_IF(before < 0 || after < 0, err, PLIM_E_INVALID, "pad: a negative amount in dimension %u", d);
        const int64_t limit = pad_limit((plim__edge)n->attr.kind, extent);
        PLIM_FAIL_IF(before > limit || after > limit, err, PLIM_E_SHAPE, "pad: %s can add at most %lld to dimension %u of %lld, not %lld",
                     name[n->attr.kind], (long long)limit, d, (long long)extent, (long long)plim__max(before, after));
        int64_t *sum = &type[0].shape.dim[d];
        PLIM_FAIL_IF(before > INT64_MAX / 8 || after > INT64_MAX / 8 || __builtin_add_overflow(extent, before + after, sum), err, PLIM_E_OVERFLOW,
                     "pad: dimension %u is larger than 2^63", d);
    }
    n->n_out = 1;
    return PLIM_OK;
}

static void pad_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    const uint32_t rank = plim__in(g, n, k)->shape.rank;
    const int64_t nearest = n->attr.kind == PLIM__EDGE_SYMMETRIC; /* how much closer its mirror images are */
    const bool mirror = n->attr.kind == PLIM__EDGE_REFLECT || n->attr.kind == PLIM__EDGE_SYMMETRIC;
    for (uint32_t d = 0; d < rank; d++) {
        const int64_t before = PAD_BEFORE(n->attr, d), after = PAD_AFTER(n->attr, d);
        const int64_t up = mirror ? plim__max(2 * before - nearest, 0) : 0, down = mirror ? plim__max(2 * after - nearest, 0) : 0;
        index[d] = (plim__index){.axis = (int32_t)d, .stride = 1, .offset = -before - down, .div = 1, .window = down + 1 + up};
    }
}

typedef struct padding {
    const plim__call *c;
    plim__edge mode;
    const plim_shape *shape; /* of the input */
    plim__view fill;         /* one element, seen as large as need be */
} padding;

static void fill_box(const padding *p, const plim__view *out)
{
    plim__view same = *out;
    same.data = p->fill.data;
    memset(same.stride, 0, sizeof same.stride);
    plim__copy(out, &same);
}

/* Fills `out` from dimension d on. `in` has been brought to out's extents and direction in the dimensions before d. A dimension falls into at most
 * three stretches - before, inside, after - and in each the input is one strided view. */
static void pad_dim(const padding *p, uint32_t d, const plim__view *out, const plim__view *in)
{
    if (d == out->rank) {
        plim__copy(out, in);
        return;
    }
    const int64_t extent = p->shape->dim[d], before = PAD_BEFORE(p->c->node->attr, d);
    const int64_t lo = out->lo[d] - before, hi = lo + out->n[d];
    const plim__range stretch[3] = {{lo, plim__min(hi, 0)}, {plim__max(lo, 0), plim__min(hi, extent)}, {plim__max(lo, extent), hi}};
    for (int s = 0; s < 3; s++) {
        if (plim__range_len(stretch[s]) == 0) continue;
        plim__region box = plim__view_region(out);
        box.dim[d] = (plim__range){stretch[s].lo + before, stretch[s].hi + before};
        const plim__view piece = plim__view_part(out, &box);
        if (s != 1 && p->mode == PLIM__EDGE_CONSTANT) {
            fill_box(p, &piece);
            continue;
        }
        const int64_t end = s == 0 ? 0 : extent - 1, apart = p->mode == PLIM__EDGE_SYMMETRIC;
        const bool still = s != 1 && (p->mode == PLIM__EDGE_EDGE || extent == 1);
        const int64_t mirrored = 2 * end - stretch[s].lo + (s == 0 ? -apart : apart);
        const int64_t first = s == 1 ? stretch[s].lo : still ? end : mirrored;
        plim__view from = *in;
        from.data = (char *)in->data + (first - in->lo[d]) * in->stride[d] * (int64_t)plim_dtype_bytes(in->dtype);
        from.stride[d] = s == 1 ? in->stride[d] : still ? 0 : -in->stride[d];
        from.n[d] = piece.n[d];
        pad_dim(p, d + 1, &piece, &from);
    }
}

static void pad_run(const plim__call *c)
{
    int64_t element = PAD_FILL(c->node->attr);
    padding p = {.c = c, .mode = (plim__edge)c->node->attr.kind, .shape = &plim__in(c->graph, c->node, 0)->shape, .fill = {.data = &element}};
    pad_dim(&p, 0, &c->out[0], &c->in[0]);
}

const plim__op_row plim__row_pad = {
    .name = "pad",
    .flags = PLIM__OP_CHEAP,
    .infer = pad_infer,
    .axes = axes_parallel,
    .reads = pad_reads,
    .run = pad_run,
    .work = work_copy,
    .grad = plim__grad_pad,
};

plim_status plim__op_pad(plim_graph *g, uint32_t x, const int64_t before[], const int64_t after[], plim__edge mode, const void *fill, uint32_t *v,
                         plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values, err, PLIM_E_INVALID, "pad: input is not a value of this graph");
    plim__attr attr = {.kind = (uint32_t)mode};
    if (fill && mode == PLIM__EDGE_CONSTANT) memcpy(&PAD_FILL(attr), fill, plim_dtype_bytes(g->value[x].dtype));
    for (uint32_t d = 0; d < g->value[x].shape.rank; d++) {
        PAD_BEFORE(attr, d) = before[d];
        PAD_AFTER(attr, d) = after[d];
    }
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_PAD, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- take
 * attr.i[0]: the dimension, which is read whole; the others are parallel. Input 1 holds the indices; where it is a scalar the dimension
 * goes. Indices are not negative here: the constructor has counted those from the end. */

static plim_status take_infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in != 2, err, PLIM_E_INVALID, "take needs an array and indices, not %u operands", n->n_in);
    const plim__value *x = plim__in(g, n, 0), *index = plim__in(g, n, 1);
    const int64_t axis = n->attr.i[0];
    PLIM_FAIL_IF(axis < 0 || axis >= x->shape.rank, err, PLIM_E_SHAPE, "take: no dimension %lld in an array of %u", (long long)axis, x->shape.rank);
    PLIM_FAIL_IF(index->kind != PLIM__VALUE_CONST || index->dtype != PLIM_I64 || index->shape.rank > 1, err, PLIM_E_TYPE,
                 "take: indices must be constant i64 of rank 0 or 1, not %s of rank %u", plim_dtype_name(index->dtype), index->shape.rank);
    const int64_t *at = index->data, extent = x->shape.dim[axis];
    const int64_t count = index->shape.rank ? index->shape.dim[0] : 1;
    for (int64_t j = 0; j < count; j++)
        PLIM_FAIL_IF(at[j] < 0 || at[j] >= extent, err, PLIM_E_SHAPE, "take: index %lld is outside dimension %lld of %lld", (long long)at[j],
                     (long long)axis, (long long)extent);
    plim_shape out = {0};
    for (uint32_t d = 0; d < x->shape.rank; d++) {
        if (d != axis)
            out.dim[out.rank++] = x->shape.dim[d];
        else if (index->shape.rank)
            out.dim[out.rank++] = count;
    }
    n->n_out = 1;
    type[0] = (plim__type){.dtype = x->dtype, .shape = out};
    return PLIM_OK;
}

static void take_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    const plim_shape *x = &plim__in(g, n, 0)->shape;
    const uint32_t axis = (uint32_t)n->attr.i[0], listed = plim__in(g, n, 1)->shape.rank;
    if (k == 1) {
        if (listed) index[0] = plim__index_along(axis);
        return;
    }
    for (uint32_t d = 0; d < x->rank; d++)
        index[d] = d == axis ? plim__index_fixed(0, x->dim[d]) : plim__index_along(d < axis ? d : d - 1 + listed);
}

/* Elements one by one along the last dimension: a copy per index would cost more than it moves. */
static void take_last(const plim__view *out, const plim__view *in, const int64_t *at, int64_t at_step)
{
    const int64_t item = (int64_t)plim_dtype_bytes(out->dtype);
    const uint32_t last = out->rank - 1;
    int64_t i[PLIM_MAX_RANK] = {0};
    char *to = out->data;
    const char *from = in->data;
    for (bool more = true; more;) {
        for (int64_t j = 0; j < out->n[last]; j++)
            memcpy(to + j * out->stride[last] * item, from + (at[j * at_step] - in->lo[last]) * in->stride[last] * item, (size_t)item);
        more = false;
        for (uint32_t d = last; d-- > 0 && !more;) {
            more = ++i[d] < out->n[d];
            const int64_t by = more ? 1 : -(out->n[d] - 1);
            to += by * out->stride[d] * item;
            from += by * in->stride[d] * item;
            if (!more) i[d] = 0;
        }
    }
}

static void take_run(const plim__call *c)
{
    const uint32_t axis = (uint32_t)c->node->attr.i[0];
    const bool listed = c->in[1].rank == 1;
    plim__view out = c->out[0];
    if (plim__view_count(&out) == 0) return;
    if (!listed) { /* the dimension that a scalar index takes out, put back with one element */
        for (uint32_t d = out.rank++; d > axis; d--) {
            out.lo[d] = out.lo[d - 1];
            out.n[d] = out.n[d - 1];
            out.stride[d] = out.stride[d - 1];
        }
        out.lo[axis] = 0;
        out.n[axis] = out.stride[axis] = 1;
    }
    plim__region need = plim__view_region(&out);
    need.dim[axis] = (plim__range){c->in[0].lo[axis], c->in[0].lo[axis] + c->in[0].n[axis]};
    const plim__view in = plim__view_part(&c->in[0], &need);
    const int64_t *at = listed ? plim__view_at(&c->in[1], &out.lo[axis]) : c->in[1].data;
    const int64_t at_step = listed ? c->in[1].stride[0] : 0;
    if (axis + 1 == out.rank) {
        take_last(&out, &in, at, at_step);
        return;
    }
    for (int64_t j = 0; j < out.n[axis]; j++) {
        plim__view piece = out, from = in;
        const int64_t item = (int64_t)plim_dtype_bytes(out.dtype);
        piece.data = (char *)out.data + j * out.stride[axis] * item;
        from.data = (char *)in.data + (at[j * at_step] - in.lo[axis]) * in.stride[axis] * item;
        piece.n[axis] = from.n[axis] = 1;
        plim__copy(&piece, &from);
    }
}

const plim__op_row plim__row_take = {
    .name = "take",
    .infer = take_infer,
    .axes = axes_parallel,
    .reads = take_reads,
    .run = take_run,
    .work = work_copy,
    .grad = plim__grad_take,
};

/* The same constant with its negative indices counted from the end; the same value where there are none. */
static plim_status normalise_index(plim_graph *g, uint32_t *index, int64_t extent, plim_error *err)
{
    const plim__value v = g->value[*index];
    uint64_t count;
    PLIM_TRY(plim_shape_count(&count, &v.shape, err));
    const int64_t *at = v.data;
    bool negative = false;
    for (uint64_t j = 0; j < count; j++) {
        PLIM_FAIL_IF(at[j] < -extent || at[j] >= extent, err, PLIM_E_SHAPE, "take: index %lld is outside a dimension of %lld", (long long)at[j],
                     (long long)extent);
        negative |= at[j] < 0;
    }
    if (!negative) return PLIM_OK;
    int64_t *positive = plim__new(&g->alloc, count, sizeof *positive, err);
    if (!positive) return PLIM_E_NOMEM;
    for (uint64_t j = 0; j < count; j++) positive[j] = at[j] < 0 ? at[j] + extent : at[j];
    const plim_status status = plim__graph_const(g, PLIM_I64, &v.shape, positive, index, err);
    plim__free(&g->alloc, positive);
    return status;
}

plim_status plim__op_take(plim_graph *g, uint32_t x, uint32_t index, uint32_t axis, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values || index >= g->n_values, err, PLIM_E_INVALID, "take: an input is not a value of this graph");
    const plim__value *at = &g->value[index];
    if (at->kind == PLIM__VALUE_CONST && at->dtype == PLIM_I64 && axis < g->value[x].shape.rank)
        PLIM_TRY(normalise_index(g, &index, g->value[x].shape.dim[axis], err));
    const plim__attr attr = {.i = {axis}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_TAKE, (const uint32_t[]){x, index}, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
