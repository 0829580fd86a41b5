/* reshape, in C order.
 *
 * Dimensions of the two shapes fall into groups of equal products, read from the left: [2,3,4] to [6,2,2] has the groups {2,3}:{6} and
 * {4}:{2,2}. Inside a group both sides number the same elements 0, 1, 2 ... in C order; groups are independent. So in each group
 * the first dimension of the output (p, extents of 1 apart) can be cut, when the others stay whole: iteration i of it is the stretch
 * [i*inner_out, (i+1)*inner_out) of the group, which lies in the indices
 *
 *     [ floor(i*inner_out / inner_in) , + window )      window = inner_out/inner_in, or 1, where one divides the other,
 *                                                       ceil(inner_out/inner_in) + 1 otherwise (a superset)
 *
 * of the input's first dimension (q), with the rest of the input's group whole.
 *
 * The copy is made strided where each group of one of the two boxes is evenly spaced; a box that lies in the order of the
 * shape always is. The rest goes element by element. Reentrant; nothing is allocated. */
#include "core/size.h"
#include "ops/checks.h"
#include "ops/gradient.h"
#include "ops/indexing.h"
#include "ops/ops.h"

#include <string.h>

typedef struct group {
    uint32_t in0, in1, out0, out1;  /* dimensions [in0, in1) and [out0, out1) */
    uint32_t in_lead, out_lead;     /* the first of an extent above 1; PLIM__NONE: the group has one element */
    int64_t in_inner, out_inner;    /* elements of one index of it */
} group;

typedef struct groups {
    uint32_t n;
    group g[PLIM_MAX_RANK * 2];
} groups;

static void find_lead(const plim_shape *s, uint32_t from, uint32_t to, uint32_t *lead, int64_t *inner)
{
    *lead = PLIM__NONE;
    *inner = 1;
    for (uint32_t d = from; d < to; d++) {
        if (*lead != PLIM__NONE)
            *inner *= s->dim[d];
        else if (s->dim[d] > 1)
            *lead = d;
    }
}

/* Both shapes have the same count, not 0; partial products cannot exceed it. */
static groups groups_of(const plim_shape *in, const plim_shape *out)
{
    groups all = {0};
    uint32_t i = 0, o = 0;
    while (i < in->rank || o < out->rank) {
        group *g = &all.g[all.n++];
        *g = (group){.in0 = i, .out0 = o};
        int64_t a = i < in->rank ? in->dim[i++] : 1, b = o < out->rank ? out->dim[o++] : 1;
        while (a != b) {
            if (a < b)
                a *= in->dim[i++];
            else
                b *= out->dim[o++];
        }
        g->in1 = i;
        g->out1 = o;
        find_lead(in, g->in0, i, &g->in_lead, &g->in_inner);
        find_lead(out, g->out0, o, &g->out_lead, &g->out_inner);
    }
    return all;
}

/* ------------------------------------------------------------------------------------------------- the row */

static bool is_empty(const plim_shape *s)
{
    for (uint32_t d = 0; d < s->rank; d++)
        if (s->dim[d] == 0) return true;
    return false;
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type *type, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in != 1, err, PLIM_E_INVALID, "reshape takes 1 operand, not %u", n->n_in);
    PLIM_FAIL_IF(n->attr.mask > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "reshape: more than %d dimensions", PLIM_MAX_RANK);
    const plim__value *x = plim__in(g, n, 0);
    plim_shape to = {.rank = n->attr.mask};
    for (uint32_t d = 0; d < to.rank; d++) to.dim[d] = n->attr.i[d];
    uint64_t have, want;
    PLIM_TRY(plim_shape_count(&have, &x->shape, err));
    PLIM_TRY(plim_shape_count(&want, &to, err));
    char from_text[160], to_text[160];
    PLIM_FAIL_IF(have != want, err, PLIM_E_SHAPE, "reshape: %s has %llu elements, %s has %llu",
                 plim_shape_format(from_text, sizeof from_text, &x->shape), (unsigned long long)have,
                 plim_shape_format(to_text, sizeof to_text, &to), (unsigned long long)want);
    n->n_out = 1;
    type[0] = (plim__type){.dtype = x->dtype, .shape = to};
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a)
{
    const plim_shape *out = &plim__out(g, n, 0)->shape;
    plim__axes_parallel(a, out);
    const groups all = is_empty(out) ? (groups){0} : groups_of(&plim__in(g, n, 0)->shape, out);
    for (uint32_t k = 0; k < all.n; k++)
        for (uint32_t d = all.g[k].out0; d < all.g[k].out1; d++)
            if (d != all.g[k].out_lead && out->dim[d] > 1) a->axis[d].kind = PLIM__WHOLE;
}

static int64_t common_divisor(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index *index)
{
    const plim_shape *in = &plim__in(g, n, k)->shape, *out = &plim__out(g, n, 0)->shape;
    for (uint32_t d = 0; d < in->rank; d++) index[d] = plim__index_fixed(0, in->dim[d]);
    if (is_empty(in)) return;
    const groups all = groups_of(in, out);
    for (uint32_t j = 0; j < all.n; j++) {
        const group *p = &all.g[j];
        if (p->in_lead == PLIM__NONE) continue;
        const int64_t divisor = common_divisor(p->out_inner, p->in_inner);
        const int64_t stride = p->out_inner / divisor, div = p->in_inner / divisor;
        const bool even = stride == 1 || div == 1;
        index[p->in_lead] = (plim__index){.axis = (int32_t)p->out_lead, .stride = stride, .div = div,
                                          .window = plim__ceil_div(stride, div) + !even};
    }
}

/* -------------------------------------------------------------------------------------------------- copying */

/* One group's dimensions [from, to) in a box: evenly spaced elements `step` apart? Extents of 1 do not matter. */
static bool evenly_spaced(const plim__view *v, uint32_t from, uint32_t to, int64_t *step)
{
    int64_t next = 0;
    *step = 1;
    for (uint32_t d = to; d-- > from;) {
        if (v->n[d] == 1) continue;
        if (next == 0)
            *step = v->stride[d];
        else if (v->stride[d] != next)
            return false;
        next = v->stride[d] * v->n[d];
    }
    return true;
}

/* Offset in elements, from the box's first, of the group's element number `at`. */
static int64_t offset_of(const plim__view *v, const plim_shape *s, uint32_t from, uint32_t to, int64_t at)
{
    int64_t off = 0;
    for (uint32_t d = to; d-- > from;) {
        off += (at % s->dim[d] - v->lo[d]) * v->stride[d];
        at /= s->dim[d];
    }
    return off;
}

typedef struct job {
    const plim__view *in, *out;
    const plim_shape *in_shape, *out_shape;
    groups all;
    plim__range span[PLIM_MAX_RANK * 2]; /* of each group, the elements to copy */
} job;

/* Two views of equal extents that are being put together, dimension by dimension. */
typedef struct pair {
    plim__view in, out;
    uint32_t rank;
    bool overflow;
} pair;

static void add_dim(pair *p, int64_t n, int64_t in_step, int64_t out_step)
{
    if (p->rank == PLIM_MAX_RANK) {
        p->overflow = true;
        return;
    }
    p->in.n[p->rank] = p->out.n[p->rank] = n;
    p->in.stride[p->rank] = in_step;
    p->out.stride[p->rank] = out_step;
    p->rank++;
}

/* The dimensions of box `v` in [lead, to), the leading one with n iterations, against evenly spaced elements of the other box. */
static void add_dims(pair *p, const plim__view *v, uint32_t lead, uint32_t to, int64_t n, int64_t inner, int64_t other_step, bool v_is_in)
{
    for (uint32_t d = lead; d < to; d++) {
        if (d > lead) inner /= v->n[d];
        add_dim(p, d == lead ? n : v->n[d], v_is_in ? v->stride[d] : inner * other_step, v_is_in ? inner * other_step : v->stride[d]);
    }
}

/* Adds group k to the pair. @return false where no strided view has these elements */
static bool add_group(pair *p, const job *j, uint32_t k)
{
    const group *g = &j->all.g[k];
    if (g->in_lead == PLIM__NONE) return true;
    const plim__range span = j->span[k];
    int64_t in_step, out_step;
    const bool in_even = evenly_spaced(j->in, g->in0, g->in1, &in_step), out_even = evenly_spaced(j->out, g->out0, g->out1, &out_step);
    if (in_even && out_even)
        add_dim(p, plim__range_len(span), in_step, out_step);
    else if (in_even && span.lo % g->out_inner == 0 && span.hi % g->out_inner == 0)
        add_dims(p, j->out, g->out_lead, g->out1, plim__range_len(span) / g->out_inner, g->out_inner, in_step, false);
    else if (out_even && span.lo % g->in_inner == 0 && span.hi % g->in_inner == 0)
        add_dims(p, j->in, g->in_lead, g->in1, plim__range_len(span) / g->in_inner, g->in_inner, out_step, true);
    else
        return false;
    return !p->overflow;
}

static void offsets_at(const job *j, uint32_t k, int64_t at, int64_t *in, int64_t *out)
{
    const group *g = &j->all.g[k];
    *in += offset_of(j->in, j->in_shape, g->in0, g->in1, at);
    *out += offset_of(j->out, j->out_shape, g->out0, g->out1, at);
}

/* Element by element, groups k and on; `in` and `out` are the offsets that the groups before have come to. */
static void copy_elements(const job *j, uint32_t k, int64_t in, int64_t out)
{
    const size_t item = plim_dtype_bytes(j->in->dtype);
    if (k == j->all.n) {
        memcpy((char *)j->out->data + out * (int64_t)item, (const char *)j->in->data + in * (int64_t)item, item);
        return;
    }
    for (int64_t at = j->span[k].lo; at < j->span[k].hi; at++) {
        int64_t in_at = in, out_at = out;
        offsets_at(j, k, at, &in_at, &out_at);
        copy_elements(j, k + 1, in_at, out_at);
    }
}

/* @return the group that stood in the way, or PLIM__NONE when the spans have been copied */
static uint32_t copy_strided(const job *j)
{
    pair p = {.in = {.dtype = j->in->dtype}, .out = {.dtype = j->out->dtype}};
    int64_t in_off = 0, out_off = 0;
    for (uint32_t k = 0; k < j->all.n; k++) {
        if (plim__range_len(j->span[k]) == 0) return PLIM__NONE;
        if (!add_group(&p, j, k)) return k;
        offsets_at(j, k, j->span[k].lo, &in_off, &out_off);
    }
    const int64_t item = (int64_t)plim_dtype_bytes(j->in->dtype);
    p.in.data = (char *)j->in->data + in_off * item;
    p.out.data = (char *)j->out->data + out_off * item;
    p.in.rank = p.out.rank = p.rank;
    plim__copy(&p.out, &p.in);
    return PLIM__NONE;
}

/* Where a group's stretch begins and ends inside one index of the input's leading dimension, what lies between is strided: only
 * the two ends go element by element. */
static void copy_spans(const job *j)
{
    const uint32_t k = copy_strided(j);
    if (k == PLIM__NONE) return;
    const int64_t inner = j->all.g[k].in_inner;
    const plim__range span = j->span[k];
    const plim__range middle = {plim__ceil_div(span.lo, inner) * inner, plim__floor_div(span.hi, inner) * inner};
    if (middle.lo >= middle.hi || plim__range_len(middle) == plim__range_len(span)) {
        copy_elements(j, 0, 0, 0);
        return;
    }
    job part = *j;
    part.span[k] = (plim__range){span.lo, middle.lo};
    copy_elements(&part, 0, 0, 0);
    part.span[k] = (plim__range){middle.hi, span.hi};
    copy_elements(&part, 0, 0, 0);
    part.span[k] = middle;
    copy_spans(&part);
}

static void run(const plim__call *c)
{
    job j = {.in = &c->in[0], .out = &c->out[0], .in_shape = &plim__in(c->graph, c->node, 0)->shape,
             .out_shape = &plim__out(c->graph, c->node, 0)->shape};
    if (plim__view_count(j.out) == 0) return;
    j.all = groups_of(j.in_shape, j.out_shape);
    for (uint32_t k = 0; k < j.all.n; k++) {
        const group *g = &j.all.g[k];
        const int64_t lo = g->out_lead == PLIM__NONE ? 0 : j.out->lo[g->out_lead] * g->out_inner;
        const int64_t n = g->out_lead == PLIM__NONE ? 1 : j.out->n[g->out_lead] * g->out_inner;
        j.span[k] = (plim__range){lo, lo + n};
    }
    copy_spans(&j);
}

static plim__work work(const plim_graph *g, const plim__node *n)
{
    return (plim__work){PLIM_KERNEL_COPY, 2 * (double)plim_dtype_bytes(plim__out(g, n, 0)->dtype)};
}

const plim__op_row plim__row_reshape = {
    .name = "reshape",
    .flags = PLIM__OP_CHEAP | PLIM__OP_VIEW | PLIM__OP_SAME_ORDER,
    .infer = infer,
    .axes = axes,
    .reads = reads,
    .run = run,
    .work = work,
    .grad = plim__grad_reshape,
};

plim_status plim__op_reshape(plim_graph *g, uint32_t x, const plim_shape *to, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(to->rank > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "reshape: more than %d dimensions", PLIM_MAX_RANK);
    PLIM_TRY(plim__check_value(g, x, "reshape", err));
    if (plim__shape_equal(&g->value[x].shape, to)) {
        *v = x;
        return PLIM_OK;
    }
    plim__attr attr = {.mask = to->rank};
    for (uint32_t d = 0; d < to->rank; d++) attr.i[d] = to->dim[d];
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_RESHAPE, &x, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
