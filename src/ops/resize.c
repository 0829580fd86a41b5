/* resize, and its gradient. Axis d is dimension d of the output; all are parallel.
 *
 * One output index reads the elements around its coordinate (kernels/resize.h), which is x(i) = (a*i + b)/c where the scale is the ratio of the
 * extents:
 *
 *     half pixel      x = (i + 1/2) * in/out - 1/2      a = 2*in     b = in - out    c = 2*out
 *     asymmetric      x = i * in/out                    a = in       b = 0           c = out
 *     align corners   x = i * (in - 1)/(out - 1)        a = in - 1   b = 0           c = out - 1
 *
 * Nearest is floor(x + r), with r added to the fraction. So the forward reads are exactly of the form that op.h has. Backward, element j is given
 * something by the indices with L(i) = floor((a*i + b)/c) in [j - below, j + above]: below is 1 where L(i) + 1 is a tap too or L reaches below 0,
 * above is 1 where L reaches beyond the end:
 *
 *     [ ceil((c*(j - below) - b)/a) , ceil((c*(j + above + 1) - b)/a) )      of at most ceil((below + above + 1)*c/a) indices
 *
 * Another scale has a coordinate that is no such fraction: the dimension is read whole.
 *
 * Attributes: kind the mode, i[0] where, i[1] round, i[2] space, i[3...] the output's extents, i[6...] the input's; f[...] the scales. */
#include "core/size.h"
#include "kernels/resize.h"
#include "ops/checks.h"
#include "ops/reducing.h"

#include <math.h>
#include <string.h>

#define EXTENT_MAX (INT64_C(1) << 30) /* so that 4 * in * out, the largest product here, stays below 2^62 */

#define SPACE(attr) ((uint32_t)(attr).i[2])
#define OUT_EXTENT(attr, s) ((attr).i[3 + (s)])
#define IN_EXTENT(attr, s) ((attr).i[6 + (s)])

static int64_t gcd(int64_t a, int64_t b)
{
    while (b) {
        const int64_t r = a % b;
        a = b;
        b = r;
    }
    return a < 0 ? -a : a;
}

/* Adds the rounding of the nearest modes: ceil(x - 1/2), floor(x + 1/2), floor(x), ceil(x). */
static void map_round(plim__resize_map *m, uint32_t round)
{
    if (round <= 1) {
        m->b = 2 * m->b + m->c - (round == 0);
        m->a *= 2;
        m->c *= 2;
    } else if (round == 3) {
        m->b += m->c - 1;
    }
}

static plim__resize_map map_of(const plim__attr *attr, uint32_t s)
{
    const int64_t in = IN_EXTENT(*attr, s), out = OUT_EXTENT(*attr, s);
    const plim__resize_where where = (plim__resize_where)attr->i[0];
    plim__resize_map m = {.linear = attr->kind == PLIM__RESIZE_LINEAR, .in = in, .out = out, .round = (uint32_t)attr->i[1]};
    if (attr->f[s] != 0) {
        m.scale = attr->f[s];
        m.half = where == PLIM__RESIZE_HALF_PIXEL ? 0.5 : 0;
        return m;
    }
    if (where == PLIM__RESIZE_HALF_PIXEL) {
        m.a = 2 * in;
        m.b = in - out;
        m.c = 2 * out;
    } else {
        const bool corners = where == PLIM__RESIZE_ALIGN_CORNERS;
        m.a = corners && out == 1 ? 0 : in - corners;
        m.c = corners ? plim__max(out - 1, 1) : out;
    }
    m.c = plim__max(m.c, 1); /* an empty output asks for nothing */
    if (!m.linear) map_round(&m, m.round);
    const int64_t g = m.linear ? gcd(gcd(m.a, m.c), m.b) : gcd(m.a, m.c); /* small numbers make small windows; floor allows more */
    m.a /= g;
    m.b = plim__floor_div(m.b, g);
    m.c /= g;
    return m;
}

static void maps_of(const plim__attr *attr, plim__resize_map map[PLIM__RESIZE_MAX])
{
    for (uint32_t s = 0; s < SPACE(*attr); s++) map[s] = map_of(attr, s);
}

/* ---------------------------------------------------------------------------------------------- types */

static plim_status space_check(const plim__attr *attr, uint32_t s, plim_error *err)
{
    const int64_t in = IN_EXTENT(*attr, s), out = OUT_EXTENT(*attr, s);
    const double scale = attr->f[s];
    PLIM_FAIL_IF(out < 0 || out >= EXTENT_MAX || in < 0 || in >= EXTENT_MAX, err, PLIM_E_SHAPE, "resize: from %lld to %lld elements", (long long)in,
                 (long long)out);
    PLIM_FAIL_IF(in == 0 && out > 0, err, PLIM_E_SHAPE, "resize: a dimension without elements to %lld", (long long)out);
    PLIM_FAIL_IF(scale != 0 && !(scale > 0 && isfinite(scale)), err, PLIM_E_INVALID, "resize: a scale of %g", scale);
    return PLIM_OK;
}

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const plim__attr *attr = &n->attr;
    PLIM_TRY(plim__check_float(x, "resize", err));
    PLIM_FAIL_IF(attr->i[2] < 1 || attr->i[2] > PLIM__RESIZE_MAX || attr->i[2] > x->shape.rank, err, PLIM_E_SHAPE,
                 "resize: %lld dimensions of an array of rank %u", (long long)attr->i[2], x->shape.rank);
    PLIM_FAIL_IF(attr->kind > PLIM__RESIZE_LINEAR || attr->i[0] < 0 || attr->i[0] > PLIM__RESIZE_ALIGN_CORNERS || attr->i[1] < 0 || attr->i[1] > 3,
                 err, PLIM_E_INVALID, "resize: mode %u, coordinates %lld, rounding %lld", attr->kind, (long long)attr->i[0], (long long)attr->i[1]);
    const bool back = n->op == PLIM__OP_RESIZE_BACK;
    const uint32_t first = x->shape.rank - SPACE(*attr);
    type[0] = (plim__type){x->dtype, x->shape};
    for (uint32_t s = 0; s < SPACE(*attr); s++) {
        PLIM_TRY(space_check(attr, s, err));
        const int64_t has = back ? OUT_EXTENT(*attr, s) : IN_EXTENT(*attr, s);
        PLIM_FAIL_IF(x->shape.dim[first + s] != has, err, PLIM_E_SHAPE, "resize: dimension %u has %lld elements, not %lld", first + s,
                     (long long)x->shape.dim[first + s], (long long)has);
        type[0].shape.dim[first + s] = back ? IN_EXTENT(*attr, s) : OUT_EXTENT(*attr, s);
    }
    n->n_out = 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a) { plim__axes_parallel(a, &plim__out(g, n, 0)->shape); }

/* Equal resizes are equal nodes: what a mode does not look at is 0, and so is a scale that is the ratio of the extents. */
static plim_status attr_of(plim__attr *attr, const plim__resize *r, const plim_shape *x, plim_error *err)
{
    PLIM_FAIL_IF(r->space < 1 || r->space > PLIM__RESIZE_MAX || r->space > x->rank, err, PLIM_E_SHAPE, "resize: %u dimensions of an array of rank %u",
                 r->space, x->rank);
    *attr = (plim__attr){.kind = r->mode, .i = {r->where, r->mode == PLIM__RESIZE_NEAREST ? r->round : 0, r->space}};
    for (uint32_t s = 0; s < r->space; s++) {
        const int64_t in = x->dim[x->rank - r->space + s];
        OUT_EXTENT(*attr, s) = r->size[s];
        IN_EXTENT(*attr, s) = in;
        const bool exact = r->where == PLIM__RESIZE_ALIGN_CORNERS || r->scale[s] * (double)in == (double)r->size[s];
        attr->f[s] = exact ? 0 : r->scale[s];
    }
    return PLIM_OK;
}

static plim_status apply(plim_graph *g, uint32_t op, uint32_t x, const plim__attr *attr, uint32_t *v, plim_error *err)
{
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, op, &x, 1, attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------- forward */

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const plim_shape *x = &plim__in(g, n, k)->shape;
    const uint32_t first = x->rank - SPACE(n->attr);
    plim__reads_same(first, index);
    for (uint32_t d = first; d < x->rank; d++) {
        const plim__resize_map m = map_of(&n->attr, d - first);
        if (m.c == 0) index[d] = plim__index_fixed(0, x->dim[d]);
        else index[d] = (plim__index){.axis = (int32_t)d, .stride = m.a, .offset = m.b, .div = m.c, .window = m.linear ? 2 : 1};
    }
}

static void run(const plim__call *c)
{
    plim__resize_map map[PLIM__RESIZE_MAX];
    maps_of(&c->node->attr, map);
    plim__resize_run(&c->out[0], &c->in[0], map, SPACE(c->node->attr));
}

static plim__work work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    return (plim__work){PLIM_KERNEL_POOL, n->attr.kind == PLIM__RESIZE_NEAREST ? 1 : (double)(1u << SPACE(n->attr))};
}

static plim_status grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (!d->want[0] || d->dout[0] == PLIM__NONE) return PLIM_OK;
    return apply(d->graph, PLIM__OP_RESIZE_BACK, d->dout[0], &n.attr, &d->din[0], d->err);
}

const plim__op_row plim__row_resize = {
    .name = "resize", .infer = infer, .axes = axes, .reads = reads, .run = run, .work = work, .grad = grad,
};

plim_status plim__op_resize(plim_graph *g, uint32_t x, const plim__resize *resize, uint32_t *v, plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(plim__check_value(g, x, "resize", err));
    PLIM_TRY(attr_of(&attr, resize, &g->value[x].shape, err));
    return apply(g, PLIM__OP_RESIZE, x, &attr, v, err);
}

/* ------------------------------------------------------------------------------------------- gradient */

/* Which of the output's indices may give something to one input element. */
static plim__index back_index(const plim__resize_map *m, uint32_t d)
{
    if (m->c == 0 || m->a == 0 || m->out == 0) return plim__index_fixed(0, m->out);
    const int64_t lowest = plim__resize_floor(m, 0), highest = plim__resize_floor(m, m->out - 1);
    const int64_t below = m->linear || lowest < 0, above = highest >= m->in;
    PLIM_ASSERT(lowest >= -1 && highest <= m->in);
    return (plim__index){.axis = (int32_t)d, .stride = m->c, .offset = -below * m->c - m->b + m->a - 1, .div = m->a,
                         .window = plim__ceil_div((below + above + 1) * m->c, m->a)};
}

static void back_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const uint32_t rank = plim__in(g, n, k)->shape.rank, first = rank - SPACE(n->attr);
    plim__reads_same(first, index);
    for (uint32_t d = first; d < rank; d++) {
        const plim__resize_map m = map_of(&n->attr, d - first);
        index[d] = back_index(&m, d);
    }
}

static void back_run(const plim__call *c)
{
    plim__resize_map map[PLIM__RESIZE_MAX];
    maps_of(&c->node->attr, map);
    plim__resize_back_run(&c->out[0], &c->in[0], map, SPACE(c->node->attr));
}

/* An element collects from as many as the ratio of the extents says, in each dimension twice where it is linear. */
static plim__work back_work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    double gathered = 1;
    for (uint32_t s = 0; s < SPACE(n->attr); s++)
        gathered *= (double)OUT_EXTENT(n->attr, s) / (double)plim__max(IN_EXTENT(n->attr, s), 1) * (n->attr.kind == PLIM__RESIZE_LINEAR ? 2 : 1);
    return (plim__work){PLIM_KERNEL_POOL_BACK, gathered > 1 ? gathered : 1};
}

const plim__op_row plim__row_resize_back = {
    .name = "resize_back", .infer = infer, .axes = axes, .reads = back_reads, .run = back_run, .work = back_work,
};

plim_status plim__op_resize_back(plim_graph *g, uint32_t dy, const plim__resize *resize, const plim_shape *x_shape, uint32_t *v, plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(plim__check_value(g, dy, "resize", err));
    PLIM_TRY(attr_of(&attr, resize, x_shape, err));
    PLIM_TRY(apply(g, PLIM__OP_RESIZE_BACK, dy, &attr, v, err));
    PLIM_FAIL_IF(!plim__shape_equal(&g->value[*v].shape, x_shape), err, PLIM_E_SHAPE, "resize: the gradient does not have the array's shape");
    return PLIM_OK;
}
