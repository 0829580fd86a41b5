/* The elementwise row: one parallel axis per dimension of the output, inputs broadcast against each other.
 * attr.kind is the function, attr.i[0] the dtype it is computed in, attr.i[1] the output's. The work is done by kernels/elementwise.c. */
#include "core/dtype.h"
#include "ops/indexing.h"
#include "ops/gradient.h"
#include "ops/ops.h"

/* ------------------------------------------------------------------------------------------- broadcasting */

void plim__reads_broadcast(const plim_shape *in, const plim_shape *out, plim__index *index)
{
    const uint32_t shift = out->rank - in->rank;
    for (uint32_t d = 0; d < in->rank; d++)
        index[d] = in->dim[d] == 1 && out->dim[d + shift] != 1 ? plim__index_fixed(0, 1) : plim__index_along(d + shift);
}

plim__view plim__view_broadcast(const plim__call *c, uint32_t k, const plim__view *like)
{
    plim__region need;
    plim__region_reads(c->graph, c->node, k, c->axis, &need);
    const plim__view part = plim__view_part(&c->in[k], &need);
    plim__view v = *like;
    v.data = part.data;
    v.dtype = part.dtype;
    const uint32_t shift = like->rank - part.rank;
    for (uint32_t d = 0; d < like->rank; d++) {
        const bool repeats = d < shift || (part.n[d - shift] == 1 && like->n[d] != 1);
        PLIM_ASSERT(repeats || part.n[d - shift] == like->n[d]);
        v.stride[d] = repeats ? 0 : part.stride[d - shift];
    }
    return v;
}

/* Widens `to` so that it is what `to` and `with` broadcast to. */
static plim_status broadcast(plim_shape *to, const plim_shape *with, const char *name, plim_error *err)
{
    plim_shape out = {.rank = to->rank > with->rank ? to->rank : with->rank};
    for (uint32_t d = 0; d < out.rank; d++) {
        const int64_t a = d + to->rank < out.rank ? 1 : to->dim[d + to->rank - out.rank];
        const int64_t b = d + with->rank < out.rank ? 1 : with->dim[d + with->rank - out.rank];
        if (a != b && a != 1 && b != 1) {
            char ta[160], tb[160];
            return plim__fail(err, PLIM_E_SHAPE, "%s: shapes %s and %s do not broadcast together", name, plim_shape_format(ta, sizeof ta, to),
                              plim_shape_format(tb, sizeof tb, with));
        }
        out.dim[d] = a == 1 ? b : a;
    }
    *to = out;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- the row */

static plim_status check_types(plim__ew fn, int64_t compute, int64_t out, plim_error *err)
{
    const char *name = plim__ew_name(fn);
    PLIM_FAIL_IF(out < 0 || out >= PLIM_DTYPE_COUNT, err, PLIM_E_TYPE, "%s: no such output dtype: %lld", name, (long long)out);
    PLIM_FAIL_IF(compute != PLIM_F32 && compute != PLIM_F64 && compute != PLIM_I64 && compute != PLIM_U64, err, PLIM_E_TYPE,
                 "%s: computed in f32, f64, i64 or u64, not in %s", name,
                 compute >= 0 && compute < PLIM_DTYPE_COUNT ? plim_dtype_name((plim_dtype)compute) : "an unknown dtype");
    const plim__ew_class cls = plim__ew_class_of(fn);
    const bool floats = plim__dtype_is_float((plim_dtype)compute);
    PLIM_FAIL_IF(cls == PLIM__EW_FLOAT && !floats, err, PLIM_E_TYPE, "%s needs floating-point operands, not %s", name,
                 plim_dtype_name((plim_dtype)compute));
    PLIM_FAIL_IF(cls == PLIM__EW_INTS && floats, err, PLIM_E_TYPE, "%s needs integers, not %s", name, plim_dtype_name((plim_dtype)compute));
    return PLIM_OK;
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->attr.kind >= PLIM__EW_COUNT, err, PLIM_E_INVALID, "elementwise: no such function: %u", n->attr.kind);
    const plim__ew fn = (plim__ew)n->attr.kind;
    PLIM_FAIL_IF(n->n_in != plim__ew_arity(fn), err, PLIM_E_INVALID, "%s takes %u operands, not %u", plim__ew_name(fn), plim__ew_arity(fn), n->n_in);
    PLIM_TRY(check_types(fn, n->attr.i[0], n->attr.i[1], err));
    plim_shape shape = plim__in(g, n, 0)->shape;
    for (uint32_t k = 1; k < n->n_in; k++) PLIM_TRY(broadcast(&shape, &plim__in(g, n, k)->shape, plim__ew_name(fn), err));
    n->n_out = 1;
    type[0] = (plim__type){.dtype = (plim_dtype)n->attr.i[1], .shape = shape};
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a) { plim__axes_parallel(a, &plim__out(g, n, 0)->shape); }

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    plim__reads_broadcast(&plim__in(g, n, k)->shape, &plim__out(g, n, 0)->shape, index);
}

static void run(const plim__call *c)
{
    plim__view in[3];
    for (uint32_t k = 0; k < c->node->n_in; k++) in[k] = plim__view_broadcast(c, k, &c->out[0]);
    plim__ew_run((plim__ew)c->node->attr.kind, (plim_dtype)c->node->attr.i[0], &c->out[0], in, c->node->n_in);
}

static plim__work work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    const plim__ew fn = (plim__ew)n->attr.kind;
    const plim_dtype compute = (plim_dtype)n->attr.i[0];
    const double evaluations = plim__ew_evaluations(fn, compute);
    if (evaluations > 0) return (plim__work){PLIM_KERNEL_FUNCTION, evaluations};
    return (plim__work){PLIM_KERNEL_ELEMENTWISE, plim__ew_weight(fn) * (n->n_in + 1) * (double)plim_dtype_bytes(compute)};
}

const plim__op_row plim__row_elementwise = {
    .name = "elementwise",
    .flags = PLIM__OP_CHEAP | PLIM__OP_INPLACE,
    .infer = infer,
    .axes = axes,
    .reads = reads,
    .run = run,
    .work = work,
    .grad = plim__grad_elementwise,
};

/* -------------------------------------------------------------------------------------------- constructors */

plim_status plim__op_elementwise(plim_graph *g, plim__ew fn, plim_dtype compute, plim_dtype out, const uint32_t *in, uint32_t n_in,
                                 uint32_t *v, plim_error *err)
{
    const plim__attr attr = {.kind = (uint32_t)fn, .i = {(int64_t)compute, (int64_t)out}};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_ELEMENTWISE, in, n_in, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

plim_status plim__op_cast(plim_graph *g, uint32_t x, plim_dtype to, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(x >= g->n_values, err, PLIM_E_INVALID, "cast: input is not a value of this graph");
    *v = x;
    if (g->value[x].dtype == to) return PLIM_OK;
    return plim__op_elementwise(g, PLIM__EW_COPY, plim__dtype_compute(to), to, &x, 1, v, err);
}
