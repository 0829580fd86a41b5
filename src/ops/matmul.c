/* numpy.matmul. Axes: the stack's dimensions, then rows i and columns j (each only where its operand has it), all parallel, and k,
 * which sums. Cutting i streams a tall matrix past a resident one; cutting k accumulates; cutting all three is the blocked product of two
 * matrices that both lie in files.
 *
 * attr.i[0] and i[1]: the last two dimensions of the first, the second operand are swapped. attr.mask: dimensions of the stack that are summed over, too,
 * and so are no dimensions of the output: the gradient of a matrix that a whole stack was multiplied with.
 *
 * The row takes operands of its own dtype only (f32, f64, i64, u64); the constructor adds the casts around it. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/gemm.h"
#include "os/os.h"
#include "ops/gradient.h"
#include "ops/ops.h"

#include <string.h>

#define THIN 8 /* rows or columns below which a product is bound by reading the other matrix */

/* Where each operand's dimensions are: the ranks decide. */
typedef struct layout {
    uint32_t stack;  /* dimensions of the stack */
    uint32_t summed; /* those of them that are summed over */
    bool turn_a, turn_b;
    int32_t axis_i, axis_j, axis_k;
    int64_t m, n, k, kb;
} layout;

static layout layout_of(const plim_shape *a, const plim_shape *b, const plim__attr *attr)
{
    const uint32_t sa = a->rank > 2 ? a->rank - 2 : 0, sb = b->rank > 2 ? b->rank - 2 : 0;
    layout l = {.stack = sa > sb ? sa : sb, .summed = attr->mask, .turn_a = attr->i[0], .turn_b = attr->i[1]};
    int32_t next = (int32_t)l.stack;
    l.axis_i = a->rank > 1 ? next++ : -1;
    l.axis_j = b->rank > 1 ? next++ : -1;
    l.axis_k = next;
    l.m = a->rank > 1 ? a->dim[a->rank - (l.turn_a ? 1 : 2)] : 1;
    l.k = a->dim[a->rank - (l.turn_a ? 2 : 1)];
    l.n = b->rank > 1 ? b->dim[b->rank - (l.turn_b ? 2 : 1)] : 1;
    l.kb = b->dim[b->rank > 1 ? b->rank - (l.turn_b ? 1 : 2) : 0];
    return l;
}

static layout layout_of_node(const plim_graph *g, const plim__node *n)
{
    return layout_of(&plim__in(g, n, 0)->shape, &plim__in(g, n, 1)->shape, &n->attr);
}

/* Extent of stack dimension d in operand s, 1 where the operand does not have it. */
static int64_t stack_dim(const plim_shape *s, uint32_t stack, uint32_t d)
{
    const uint32_t own = s->rank > 2 ? s->rank - 2 : 0;
    return d + own < stack ? 1 : s->dim[d + own - stack];
}

static plim_status check(const plim__value *va, const plim__value *vb, const plim__attr *attr, const char *ta, const char *tb, plim_error *err)
{
    const plim_shape *a = &va->shape, *b = &vb->shape;
    PLIM_FAIL_IF(va->dtype != vb->dtype, err, PLIM_E_TYPE, "matmul: operands of %s and %s", plim_dtype_name(va->dtype), plim_dtype_name(vb->dtype));
    PLIM_FAIL_IF(a->rank == 0 || b->rank == 0, err, PLIM_E_SHAPE, "matmul: a scalar is not a matrix (%s @ %s); use *", ta, tb);
    PLIM_FAIL_IF((attr->i[0] && a->rank < 2) || (attr->i[1] && b->rank < 2), err, PLIM_E_SHAPE, "matmul: %s @ %s: a vector cannot be turned", ta, tb);
    const layout l = layout_of(a, b, attr);
    PLIM_FAIL_IF(l.k != l.kb, err, PLIM_E_SHAPE, "matmul: %s @ %s: inner dimensions %lld and %lld differ", ta, tb, (long long)l.k, (long long)l.kb);
    PLIM_FAIL_IF(l.stack + 2 > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "matmul: %s @ %s has too many dimensions", ta, tb);
    PLIM_FAIL_IF(l.summed >> l.stack, err, PLIM_E_INVALID, "matmul: %s @ %s: a sum over a dimension that the stack does not have", ta, tb);
    return PLIM_OK;
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    const plim__value *va = plim__in(g, n, 0), *vb = plim__in(g, n, 1);
    const plim_shape *a = &va->shape, *b = &vb->shape;
    char ta[160], tb[160];
    plim_shape_format(ta, sizeof ta, a);
    plim_shape_format(tb, sizeof tb, b);
    PLIM_TRY(check(va, vb, &n->attr, ta, tb, err));
    const layout l = layout_of(a, b, &n->attr);
    plim_shape out = {.rank = 0};
    for (uint32_t d = 0; d < l.stack; d++) {
        const int64_t da = stack_dim(a, l.stack, d), db = stack_dim(b, l.stack, d);
        PLIM_FAIL_IF(da != db && da != 1 && db != 1, err, PLIM_E_SHAPE, "matmul: %s @ %s: stacks do not broadcast", ta, tb);
        if (!(l.summed >> d & 1)) out.dim[out.rank++] = da == 1 ? db : da;
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
    const layout l = layout_of_node(g, n);
    uint32_t rank = 0;
    x->n = (uint32_t)l.axis_k + 1;
    for (uint32_t d = 0; d < l.stack; d++) {
        const int64_t da = stack_dim(a, l.stack, d), db = stack_dim(b, l.stack, d);
        const bool summed = l.summed >> d & 1;
        x->axis[d] = (plim__axis){da == 1 ? db : da, summed ? PLIM__SUM : PLIM__PARALLEL};
        if (!summed) x->out[0][rank++] = (int8_t)d;
    }
    if (l.axis_i >= 0) x->axis[l.axis_i] = (plim__axis){l.m, PLIM__PARALLEL}, x->out[0][rank++] = (int8_t)l.axis_i;
    if (l.axis_j >= 0) x->axis[l.axis_j] = (plim__axis){l.n, PLIM__PARALLEL}, x->out[0][rank++] = (int8_t)l.axis_j;
    x->axis[l.axis_k] = (plim__axis){l.k, PLIM__SUM};
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t operand, plim__index *index)
{
    const plim_shape *s = &plim__in(g, n, operand)->shape;
    const layout l = layout_of_node(g, n);
    const uint32_t own = s->rank > 2 ? s->rank - 2 : 0;
    for (uint32_t d = 0; d < own; d++) {
        const int32_t axis = (int32_t)(d + l.stack - own);
        index[d] = s->dim[d] == 1 ? (plim__index){.axis = -1, .window = 1} : (plim__index){.axis = axis, .stride = 1, .div = 1, .window = 1};
    }
    const bool turned = operand == 0 ? l.turn_a : l.turn_b;
    const int32_t outer = operand == 0 ? l.axis_i : l.axis_k, inner = operand == 0 ? l.axis_k : l.axis_j;
    const int32_t last[2] = {turned ? inner : outer, turned ? outer : inner};
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

/* A call as matrices and, for each dimension of the stack, the steps from one to the next. */
typedef struct stacked {
    plim_dtype dtype;
    plim__matrix a, b, c;
    int64_t m, n, k;
    uint32_t dims;
    int64_t count[PLIM_MAX_RANK], step_a[PLIM_MAX_RANK], step_b[PLIM_MAX_RANK], step_c[PLIM_MAX_RANK]; /* 0: the same matrix for all */
    bool summed; /* several products meet in one matrix */
    bool more;   /* the result holds something to add to */
    char *scratch;
    uint64_t scratch_step;
} stacked;

/* An operand's matrix for the first element of the stack. Steps are never 0: a single row or column may have any. */
static plim__matrix matrix_of(const plim__view *v, const plim_shape *shape, const plim__region *box, bool left, bool turned)
{
    const uint32_t own = shape->rank > 2 ? shape->rank - 2 : 0;
    int64_t at[PLIM_MAX_RANK];
    for (uint32_t d = 0; d < shape->rank; d++) at[d] = box->dim[d].lo;
    plim__matrix m = {.data = plim__view_at(v, at)};
    if (shape->rank == 1) {
        m.row = left ? 0 : v->stride[0];
        m.col = left ? v->stride[0] : 0;
    } else {
        m.row = v->stride[own + turned];
        m.col = v->stride[own + !turned];
    }
    if (m.row == 0) m.row = 1;
    if (m.col == 0) m.col = 1;
    return m;
}

static int64_t length(const plim__call *c, int32_t axis)
{
    return axis < 0 ? 1 : plim__range_len(c->axis[axis]);
}

static plim__matrix result_of(const plim__view *out, const layout *l)
{
    const uint32_t rank = l->stack - (uint32_t)__builtin_popcount(l->summed);
    const int64_t row = l->axis_i >= 0 ? out->stride[rank] : 1, col = l->axis_j >= 0 ? out->stride[rank + (l->axis_i >= 0)] : 1;
    return (plim__matrix){plim__view_at(out, out->lo), row ? row : 1, col ? col : 1};
}

/* From one element of stack dimension d to the next. */
static int64_t step_of(const plim__view *v, const plim_shape *s, uint32_t stack, uint32_t d)
{
    const uint32_t own = s->rank > 2 ? s->rank - 2 : 0;
    return stack_dim(s, stack, d) == 1 ? 0 : v->stride[d + own - stack];
}

/* The last dimension of the stack becomes more rows where all of it meets one b, or more of the chain where it is summed over and lies in order: one
 * large product is faster than many small ones. */
static bool join_last(stacked *s, bool summed)
{
    const uint32_t d = s->dims - 1;
    const int64_t a = s->step_a[d], b = s->step_b[d], c = s->step_c[d];
    if (!summed && a != 0 && b == 0 && (s->m == 1 || (a == s->m * s->a.row && c == s->m * s->c.row))) {
        if (s->m == 1) s->a.row = a, s->c.row = c;
        s->m *= s->count[d];
    } else if (summed && a != 0 && b != 0 && (s->k == 1 || (a == s->k * s->a.col && b == s->k * s->b.row))) {
        if (s->k == 1) s->a.col = a, s->b.row = b;
        s->k *= s->count[d];
    } else {
        return false;
    }
    s->dims--;
    return true;
}

static stacked stacked_of(const plim__call *c, const layout *l)
{
    const plim_shape *a = &plim__in(c->graph, c->node, 0)->shape, *b = &plim__in(c->graph, c->node, 1)->shape;
    plim__region box_a, box_b;
    plim__region_reads(c->graph, c->node, 0, c->axis, &box_a);
    plim__region_reads(c->graph, c->node, 1, c->axis, &box_b);
    stacked s = {.dtype = c->out[0].dtype, .a = matrix_of(&c->in[0], a, &box_a, true, l->turn_a), .b = matrix_of(&c->in[1], b, &box_b, false, l->turn_b),
                 .c = result_of(&c->out[0], l), .m = length(c, l->axis_i), .n = length(c, l->axis_j), .k = length(c, l->axis_k), .dims = l->stack,
                 .scratch = c->scratch};
    uint32_t kept = 0;
    for (uint32_t d = 0; d < l->stack; d++) {
        const bool summed = l->summed >> d & 1;
        s.count[d] = plim__range_len(c->axis[d]);
        s.step_a[d] = step_of(&c->in[0], a, l->stack, d);
        s.step_b[d] = step_of(&c->in[1], b, l->stack, d);
        s.step_c[d] = summed ? 0 : c->out[0].stride[kept++];
    }
    while (s.dims > 0 && (s.count[s.dims - 1] == 1 ? s.dims-- > 0 : join_last(&s, l->summed >> (s.dims - 1) & 1))) continue;
    s.summed = l->summed & ((1u << s.dims) - 1);
    s.scratch_step = plim__gemm_scratch(s.dtype, 1, s.m, s.n, s.k);
    return s;
}

static plim__matrix ahead(plim_dtype t, plim__matrix m, int64_t by) { return (plim__matrix){(char *)m.data + by * plim_dtype_bytes(t), m.row, m.col}; }

/* Product `number` of the stack. */
static void run_number(const stacked *s, uint64_t number, uint32_t threads, char *scratch)
{
    int64_t a = 0, b = 0, c = 0;
    for (uint32_t d = s->dims; d-- > 0; number /= (uint64_t)s->count[d]) {
        const int64_t i = (int64_t)(number % (uint64_t)s->count[d]);
        a += i * s->step_a[d], b += i * s->step_b[d], c += i * s->step_c[d];
    }
    plim__gemm(s->dtype, threads, s->more, ahead(s->dtype, s->c, c), ahead(s->dtype, s->a, a), ahead(s->dtype, s->b, b), s->m, s->n, s->k, scratch);
}

static void run_alone(void *arg, uint64_t number, uint32_t worker)
{
    const stacked *s = arg;
    run_number(s, number, 1, s->scratch + worker * s->scratch_step);
}

static void run(const plim__call *c)
{
    const layout l = layout_of_node(c->graph, c->node);
    uint64_t products = 1;
    if (plim__view_count(&c->out[0]) == 0) return;
    bool none = false;
    for (uint32_t d = 0; d < l.stack; d++) none |= plim__range_len(c->axis[d]) <= 0;
    stacked s = stacked_of(c, &l);
    s.more = !c->fresh || s.summed || none;
    if (c->fresh && s.more) init(c);
    if (none) return;
    for (uint32_t d = 0; d < s.dims; d++) products *= (uint64_t)s.count[d];
    if (products >= 2 * c->threads && !s.summed) plim__parallel(c->threads, products, run_alone, &s);
    else
        for (uint64_t i = 0; i < products; i++) run_number(&s, i, c->threads, s.scratch);
}

/* Dimensions of the stack may become rows, or the chain longer. */
static uint64_t scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    const layout l = layout_of_node(g, n);
    int64_t most = 1;
    for (uint32_t d = 0; d < l.stack; d++) most = plim__min(most * plim__min(len[d], INT16_MAX), INT16_MAX);
    const int64_t m = l.axis_i >= 0 ? len[l.axis_i] : 1, k = len[l.axis_k], cap = INT32_MAX;
    return plim__gemm_scratch(plim__out(g, n, 0)->dtype, threads, plim__min(m, cap) * most, l.axis_j >= 0 ? len[l.axis_j] : 1, plim__min(k, cap) * most);
}

static void merge(const plim__call *c)
{
    plim__view in[2] = {c->out[0], c->in[0]};
    plim__ew_run(PLIM__EW_ADD, c->out[0].dtype, &c->out[0], in, 2);
}

/* Is one of the matrices a few rows or columns? The other one is then read for next to no work. */
static bool is_thin(const plim_graph *g, const plim__node *n, const layout *l)
{
    plim__axes nest;
    int64_t rows = l->axis_i >= 0 ? 1 : 0;
    axes(g, n, &nest);
    for (uint32_t d = 0; d < l->stack && rows > 0 && plim__in(g, n, 1)->shape.rank == 2; d++) rows *= nest.axis[d].extent; /* join_last */
    if (l->axis_i >= 0) rows *= nest.axis[l->axis_i].extent;
    return rows < THIN || l->axis_j < 0 || nest.axis[l->axis_j].extent < THIN || nest.axis[l->axis_k].extent < THIN;
}

static plim__work work(const plim_graph *g, const plim__node *n)
{
    const plim_dtype t = plim__out(g, n, 0)->dtype;
    const layout l = layout_of_node(g, n);
    if (!plim__dtype_is_float(t)) return (plim__work){PLIM_KERNEL_PRODUCT_INTEGER, 2};
    if (is_thin(g, n, &l)) return (plim__work){PLIM_KERNEL_PRODUCT_THIN, t == PLIM_F64 ? 4 : 2};
    return (plim__work){t == PLIM_F64 ? PLIM_KERNEL_PRODUCT_F64 : PLIM_KERNEL_PRODUCT_F32, 2};
}

const plim__op_row plim__row_matmul = {
    .name = "matmul", .flags = PLIM__OP_POOL | PLIM__OP_SETS, .infer = infer, .axes = axes, .reads = reads, .scratch = scratch,
    .init = init, .run = run, .merge = merge, .work = work, .grad = plim__grad_matmul,
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

static plim_status apply(plim_graph *g, uint32_t a, bool turn_a, uint32_t b, bool turn_b, uint32_t summed, uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.mask = summed, .i = {turn_a, turn_b}};
    uint32_t res[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_MATMUL, (const uint32_t[]){a, b}, 2, &attr, res, err));
    *v = res[0];
    return PLIM_OK;
}

plim_status plim__op_matmul_turned(plim_graph *g, uint32_t a, bool turn_a, uint32_t b, bool turn_b, uint32_t *v, plim_error *err)
{
    return apply(g, a, turn_a, b, turn_b, 0, v, err);
}

/* ------------------------------------------------------------------------------------------------ gradient */

/* Stack dimensions of a and b together that `own` does not have: its gradient is summed over them. Where it has them with extent 1 the sum is left to
 * plim__grad_like, which keeps the dimension. */
static uint32_t missing(uint32_t stack, const plim_shape *own)
{
    const uint32_t has = own->rank > 2 ? own->rank - 2 : 0;
    return (1u << (stack - has)) - 1;
}

plim_status plim__grad_matmul(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const plim_shape a = plim__in(g, &n, 0)->shape, b = plim__in(g, &n, 1)->shape;
    const layout l = layout_of(&a, &b, &n.attr);
    const uint32_t dy = d->dout[0];
    uint32_t v;
    PLIM_FAIL_IF(a.rank < 2 || b.rank < 2 || l.summed, d->err, PLIM_E_UNSUPPORTED, "matmul passes gradients between matrices and stacks of them");
    if (d->want[0]) {
        PLIM_TRY(l.turn_a ? apply(g, n.in[1], l.turn_b, dy, true, missing(l.stack, &a), &v, d->err)
                          : apply(g, dy, false, n.in[1], !l.turn_b, missing(l.stack, &a), &v, d->err));
        PLIM_TRY(plim__grad_like(g, v, n.in[0], &d->din[0], d->err));
    }
    if (d->want[1]) {
        PLIM_TRY(l.turn_b ? apply(g, dy, true, n.in[0], l.turn_a, missing(l.stack, &b), &v, d->err)
                          : apply(g, n.in[0], !l.turn_a, dy, false, missing(l.stack, &b), &v, d->err));
        PLIM_TRY(plim__grad_like(g, v, n.in[1], &d->din[1], d->err));
    }
    return PLIM_OK;
}
