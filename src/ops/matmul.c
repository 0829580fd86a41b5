/* numpy.matmul. Axes: the stack's dimensions, then rows i and columns j (each only where its operand has it), all parallel, and k,
 * which sums. Cutting i streams a tall matrix past a resident one; cutting k accumulates; cutting all three is the blocked product of two
 * matrices that both lie in files.
 *
 * The row takes operands of its own dtype only (f32, f64, i64, u64); the constructor adds the casts around it. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/gemm.h"
#include "ops/ops.h"

#include <string.h>

/* Where each operand's dimensions are: the ranks decide. */
typedef struct layout {
    uint32_t stack; /* dimensions of the stack */
    int32_t axis_i, axis_j, axis_k;
    int64_t m, n, k;
} layout;

static layout layout_of(const plim_shape *a, const plim_shape *b)
{
    const uint32_t sa = a->rank > 2 ? a->rank - 2 : 0, sb = b->rank > 2 ? b->rank - 2 : 0;
    layout l = {.stack = sa > sb ? sa : sb};
    int32_t next = (int32_t)l.stack;
    l.axis_i = a->rank > 1 ? next++ : -1;
    l.axis_j = b->rank > 1 ? next++ : -1;
    l.axis_k = next;
    l.m = a->rank > 1 ? a->dim[a->rank - 2] : 1;
    l.n = b->rank > 1 ? b->dim[b->rank - 1] : 1;
    l.k = a->dim[a->rank - 1];
    return l;
}

/* Extent of stack dimension d in operand s, 1 where the operand does not have it. */
static int64_t stack_dim(const plim_shape *s, uint32_t stack, uint32_t d)
{
    const uint32_t own = s->rank > 2 ? s->rank - 2 : 0;
    return d + own < stack ? 1 : s->dim[d + own - stack];
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    const plim__value *va = plim__in(g, n, 0), *vb = plim__in(g, n, 1);
    const plim_shape *a = &va->shape, *b = &vb->shape;
    char ta[160], tb[160];
    plim_shape_format(ta, sizeof ta, a);
    plim_shape_format(tb, sizeof tb, b);
    PLIM_FAIL_IF(va->dtype != vb->dtype, err, PLIM_E_TYPE, "matmul: operands of %s and %s", plim_dtype_name(va->dtype), plim_dtype_name(vb->dtype));
    PLIM_FAIL_IF(a->rank == 0 || b->rank == 0, err, PLIM_E_SHAPE, "matmul: a scalar is not a matrix (%s @ %s); use *", ta, tb);
    const layout l = layout_of(a, b);
    const int64_t kb = b->dim[b->rank > 1 ? b->rank - 2 : 0];
    PLIM_FAIL_IF(l.k != kb, err, PLIM_E_SHAPE, "matmul: %s @ %s: inner dimensions %lld and %lld differ", ta, tb, (long long)l.k, (long long)kb);
    PLIM_FAIL_IF(l.stack + 2 > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "matmul: %s @ %s has too many dimensions", ta, tb);

    plim_shape out = {.rank = 0};
    for (uint32_t d = 0; d < l.stack; d++) {
        const int64_t da = stack_dim(a, l.stack, d), db = stack_dim(b, l.stack, d);
        PLIM_FAIL_IF(da != db && da != 1 && db != 1, err, PLIM_E_SHAPE, "matmul: %s @ %s: stacks do not broadcast", ta, tb);
        out.dim[out.rank++] = da == 1 ? db : da;
    }
    if (l.axis_i >= 0) out.dim[out.rank++] = l.m;
    if (l.axis_j >= 0) out.dim[out.rank++] = l.n;
    type[0] = (plim__type){va->dtype, out};
    n->n_out = 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *x)
{
    const plim_shape *a = &plim__in(g, n, 0)->shape, *b = &plim__in(g, n, 1)->shape;
    const layout l = layout_of(a, b);
    const plim_shape *out = &plim__out(g, n, 0)->shape;
    x->n = (uint32_t)l.axis_k + 1;
    for (uint32_t d = 0; d < out->rank; d++) {
        x->axis[d] = (plim__axis){out->dim[d], PLIM__PARALLEL};
        x->out[0][d] = (int8_t)d;
    }
    x->axis[l.axis_k] = (plim__axis){l.k, PLIM__SUM};
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t operand, plim__index *index)
{
    const plim_shape *a = &plim__in(g, n, 0)->shape, *b = &plim__in(g, n, 1)->shape;
    const plim_shape *s = operand == 0 ? a : b;
    const layout l = layout_of(a, b);
    const uint32_t own = s->rank > 2 ? s->rank - 2 : 0;
    for (uint32_t d = 0; d < own; d++) {
        const int32_t axis = (int32_t)(d + l.stack - own);
        index[d] = s->dim[d] == 1 ? (plim__index){.axis = -1, .window = 1} : (plim__index){.axis = axis, .stride = 1, .div = 1, .window = 1};
    }
    const int32_t last[2] = {operand == 0 ? l.axis_i : l.axis_k, operand == 0 ? l.axis_k : l.axis_j};
    for (uint32_t d = own; d < s->rank; d++)
        index[d] = (plim__index){.axis = s->rank == 1 ? l.axis_k : last[d - own], .stride = 1, .div = 1, .window = 1};
}

static void init(const plim__call *c)
{
    static const uint64_t nothing = 0;
    plim__view zero = c->out[0];
    zero.data = (void *)&nothing;
    memset(zero.stride, 0, sizeof zero.stride);
    plim__copy(&c->out[0], &zero);
}

/* Stride and position of an operand's matrix for one element of the stack. */
static plim__matrix matrix_at(const plim__view *v, const plim_shape *shape, const plim__region *box, const int64_t *stack_at, uint32_t stack, bool left)
{
    const uint32_t own = shape->rank > 2 ? shape->rank - 2 : 0;
    int64_t at[PLIM_MAX_RANK];
    for (uint32_t d = 0; d < own; d++) at[d] = shape->dim[d] == 1 ? 0 : stack_at[d + stack - own];
    for (uint32_t d = own; d < shape->rank; d++) at[d] = box->dim[d].lo;
    plim__matrix m = {.data = plim__view_at(v, at)};
    if (shape->rank == 1) {
        m.row = left ? 0 : v->stride[0];
        m.col = left ? v->stride[0] : 0;
    } else {
        m.row = v->stride[own];
        m.col = v->stride[own + 1];
    }
    /* BLIS wants strides that are not 0; a single row or column may have any */
    if (m.row == 0) m.row = 1;
    if (m.col == 0) m.col = 1;
    return m;
}

static int64_t length(const plim__call *c, int32_t axis)
{
    return axis < 0 ? 1 : plim__range_len(c->axis[axis]);
}

static void run(const plim__call *c)
{
    const plim_shape *a = &plim__in(c->graph, c->node, 0)->shape, *b = &plim__in(c->graph, c->node, 1)->shape;
    const layout l = layout_of(a, b);
    plim__region box_a, box_b;
    plim__region_reads(c->graph, c->node, 0, c->axis, &box_a);
    plim__region_reads(c->graph, c->node, 1, c->axis, &box_b);
    const int64_t m = length(c, l.axis_i), n = length(c, l.axis_j), k = length(c, l.axis_k);

    const plim__view *out = &c->out[0];
    if (plim__view_count(out) == 0) return;
    int64_t at[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 0; d < out->rank; d++) at[d] = out->lo[d];
    for (;;) {
        const plim__matrix ma = matrix_at(&c->in[0], a, &box_a, at, l.stack, true);
        const plim__matrix mb = matrix_at(&c->in[1], b, &box_b, at, l.stack, false);
        const plim__matrix mc = {plim__view_at(out, at), l.axis_i >= 0 && out->stride[l.axis_i] ? out->stride[l.axis_i] : 1,
                                 l.axis_j >= 0 && out->stride[l.axis_j] ? out->stride[l.axis_j] : 1};
        plim__gemm(out->dtype, c->threads, mc, ma, mb, m, n, k);
        uint32_t d = l.stack;
        while (d-- > 0) {
            if (++at[d] < out->lo[d] + out->n[d]) break;
            at[d] = out->lo[d];
        }
        if (d == UINT32_MAX) return;
    }
}

static void merge(const plim__call *c)
{
    plim__view in[2] = {c->out[0], c->in[0]};
    plim__ew_run(PLIM__EW_ADD, c->out[0].dtype, &c->out[0], in, 2);
}

static double work(const plim_graph *g, const plim__node *n)
{
    return plim__dtype_is_float(plim__out(g, n, 0)->dtype) ? 0.15 : 2; /* a multiply-add in BLIS; measured against a simple f32 loop */
}

const plim__op_row plim__row_matmul = {
    .name = "matmul", .flags = PLIM__OP_POOL, .infer = infer, .axes = axes, .reads = reads, .init = init, .run = run, .merge = merge, .work = work,
};

plim_status plim__op_matmul(plim_graph *g, uint32_t a, uint32_t b, plim_dtype out, uint32_t *v, plim_error *err)
{
    const plim_dtype compute = plim__dtype_compute(out);
    uint32_t in[2], res[PLIM__MAX_OUT];
    PLIM_TRY(plim__op_cast(g, a, compute, &in[0], err));
    PLIM_TRY(plim__op_cast(g, b, compute, &in[1], err));
    const plim__attr attr = {0};
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_MATMUL, in, 2, &attr, res, err));
    return plim__op_cast(g, res[0], out, v, err);
}
