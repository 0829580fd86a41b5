/* Convolution on channel-blocked arrays (kernels/conv_blocked.h has the layouts) and its gradients: as conv.c has it,
 *
 *     row                     inputs         makes   axes
 *     conv_blocked            x, w, ends     y       n, ob, rows, columns of windows
 *     conv_blocked_data       y, w           x       n, cb, rows, columns
 *     conv_blocked_weights    x, y           w       ob, cb,                  sum over n, rows and columns of windows
 *
 * but what is summed up over channels is always read whole, so that y and x are written once, with what becomes of a sum at its end. The 16 lanes of a
 * block and kernels are whole, too. With groups the blocks that are made cannot be cut; of a depthwise layer every row has the one axis cb.
 *
 * Attributes: see ops/spatial.h, always with two dimensions of space; the shape of a result is kept as that of the plain array. i[22] channels,
 * i[23] outputs, both without padding; kind is the activation, f[0] its upper limit, and mask says which ends are there, in the order of the enum. */
#include "core/dtype.h"
#include "kernels/conv_blocked.h"
#include "kernels/reduce.h"
#include "ops/gradient.h"
#include "ops/ops.h"
#include "ops/reducing.h"
#include "ops/spatial.h"

enum { CHANNELS = PLIM__SPATIAL_SPACE + 1, OUTPUTS };
enum { BIAS, SCALE, OTHER, ENDS };
static_assert(OUTPUTS < 3 * PLIM_MAX_RANK, "attributes fit");

typedef enum part { PART_X, PART_Y, PART_W } part;

/* Which of the three each input is, and which is made. */
typedef struct role {
    part in[2], out;
    plim__blocked_into into;
    const char *name;
} role;

static role role_of(const plim__node *n)
{
    if (n->op == PLIM__OP_CONV_BLOCKED) return (role){{PART_X, PART_W}, PART_Y, PLIM__BLOCKED_Y, "conv_blocked"};
    if (n->op == PLIM__OP_CONV_BLOCKED_DATA) return (role){{PART_Y, PART_W}, PART_X, PLIM__BLOCKED_X, "conv_blocked_data"};
    return (role){{PART_X, PART_Y}, PART_W, PLIM__BLOCKED_W, "conv_blocked_weights"};
}

static int64_t channels_of(const plim__attr *a) { return a->i[CHANNELS]; }
static int64_t outputs_of(const plim__attr *a) { return a->i[OUTPUTS]; }
/* Which input an end is, or 0. */
static uint32_t end_at(const plim__node *n, uint32_t end)
{
    uint32_t k = 2;
    for (uint32_t e = 0; e < end; e++) k += n->attr.mask >> e & 1;
    return n->attr.mask >> end & 1 ? k : 0;
}

static int64_t groups_of(const plim__attr *a) { return a->i[PLIM__SPATIAL_GROUPS]; }
static bool depthwise(const plim__attr *a) { return groups_of(a) > 1 && groups_of(a) == channels_of(a) && groups_of(a) == outputs_of(a); }
static int64_t blocks(int64_t channels) { return plim__ceil_div(channels, PLIM__BLOCK); }

static const plim_shape *shape_of(const plim_graph *g, const plim__node *n, part p)
{
    const role r = role_of(n);
    return r.out == p ? &plim__out(g, n, 0)->shape : &plim__in(g, n, r.in[0] == p ? 0 : 1)->shape;
}

static plim__blocked_kind kind_of(const plim__attr *a, const plim_shape *x)
{
    return x->rank == 4 ? PLIM__BLOCKED_PLANES : depthwise(a) ? PLIM__BLOCKED_DEPTH : PLIM__BLOCKED_FULL;
}

/* ---------------------------------------------------------------------------------------------------------- shapes */

/* [N, C, H, W] and [N, Cb, H, W, 16]. */
static plim_shape blocked_shape(const plim_shape *s) { return (plim_shape){5, {s->dim[0], blocks(s->dim[1]), s->dim[2], s->dim[3], PLIM__BLOCK}}; }

static plim_shape plain_shape(const plim_shape *s, int64_t channels) { return (plim_shape){4, {s->dim[0], channels, s->dim[2], s->dim[3]}}; }

static plim_shape weights_shape(const plim__attr *a, plim__blocked_kind kind, int64_t high, int64_t wide)
{
    const int64_t o = blocks(outputs_of(a)), c = channels_of(a);
    if (kind == PLIM__BLOCKED_DEPTH) return (plim_shape){4, {o, high, wide, PLIM__BLOCK}};
    if (kind == PLIM__BLOCKED_PLANES) return (plim_shape){5, {o, c, high, wide, PLIM__BLOCK}};
    return (plim_shape){6, {o, blocks(c / groups_of(a)), high, wide, PLIM__BLOCK, PLIM__BLOCK}};
}

/* Are channels, outputs and groups such that blocks do not reach over groups. */
static plim_status check_channels(const plim__attr *a, const char *what, plim__blocked_kind kind, plim_error *err)
{
    const int64_t c = channels_of(a), o = outputs_of(a), groups = groups_of(a);
    PLIM_FAIL_IF(c < 1 || o < 1 || groups < 1 || c % groups != 0 || o % groups != 0, err, PLIM_E_SHAPE,
                 "%s: %lld channels and %lld outputs in %lld groups", what, (long long)c, (long long)o, (long long)groups);
    const bool whole = groups == 1 || (c / groups % PLIM__BLOCK == 0 && o / groups % PLIM__BLOCK == 0);
    PLIM_FAIL_IF(kind == PLIM__BLOCKED_FULL && !whole, err, PLIM_E_UNSUPPORTED,
                 "%s: groups of %lld channels and %lld outputs, which are no multiples of %d", what, (long long)(c / groups), (long long)(o / groups),
                 PLIM__BLOCK);
    PLIM_FAIL_IF(kind == PLIM__BLOCKED_PLANES && (c >= PLIM__BLOCK || groups > 1), err, PLIM_E_UNSUPPORTED,
                 "%s: an input that is not blocked has less than %d channels in one group, not %lld in %lld", what, PLIM__BLOCK, (long long)c,
                 (long long)groups);
    PLIM_FAIL_IF(a->kind > PLIM__BLOCKED_RELU, err, PLIM_E_INVALID, "%s: activation %u does not exist", what, a->kind);
    return PLIM_OK;
}

static plim_status check_shape(const char *what, const char *which, const plim_shape *have, const plim_shape *want, plim_error *err)
{
    char h[160], w[160];
    PLIM_FAIL_IF(!plim__shape_equal(have, want), err, PLIM_E_SHAPE, "%s: %s of shape %s, not %s", what, which, plim_shape_format(h, sizeof h, have),
                 plim_shape_format(w, sizeof w, want));
    return PLIM_OK;
}

/* Do x and w fit the attributes and each other; which y do they make. */
static plim_status check(const plim__attr *a, const char *what, const plim_shape *x, const plim_shape *w, plim_shape *y, plim_error *err)
{
    PLIM_FAIL_IF(x->rank != 4 && x->rank != 5, err, PLIM_E_SHAPE, "%s: an input of rank %u, not 4 or, blocked, 5", what, x->rank);
    const plim__blocked_kind kind = kind_of(a, x);
    PLIM_TRY(check_channels(a, what, kind, err));
    const plim_shape plain = plain_shape(x, channels_of(a)), in = kind == PLIM__BLOCKED_PLANES ? plain : blocked_shape(&plain);
    PLIM_TRY(check_shape(what, "an input", x, &in, err));
    const uint32_t space = kind == PLIM__BLOCKED_DEPTH ? 1 : 2;
    const plim_shape want = weights_shape(a, kind, w->rank > space ? w->dim[space] : 0, w->rank > space + 1 ? w->dim[space + 1] : 0);
    PLIM_TRY(check_shape(what, "weights", w, &want, err));
    plim_shape out = {0};
    PLIM_TRY(plim__spatial_check(a, what, &plain, w->dim + space, false, &out, err));
    out.dim[0] = x->dim[0];
    out.dim[1] = outputs_of(a);
    *y = blocked_shape(&out);
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------------- infer */

static plim_status check_types(const plim_graph *g, const plim__node *n, uint32_t most, const char *what, plim_error *err)
{
    PLIM_FAIL_IF(n->n_in < 2 || n->n_in > most, err, PLIM_E_INVALID, "%s: %u inputs", what, n->n_in);
    PLIM_FAIL_IF(plim__spatial_space(&n->attr) != 2, err, PLIM_E_UNSUPPORTED, "%s: %u dimensions of space, not 2", what,
                 plim__spatial_space(&n->attr));
    for (uint32_t k = 0; k < n->n_in; k++)
        PLIM_FAIL_IF(plim__in(g, n, k)->dtype != PLIM_F32, err, PLIM_E_TYPE, "%s: an operand of %s, not f32", what,
                     plim_dtype_name(plim__in(g, n, k)->dtype));
    return PLIM_OK;
}

static plim_status forward_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const char *what = "conv_blocked";
    static const char *const name[ENDS] = {"a bias", "a scale", "another array"};
    PLIM_TRY(check_types(g, n, 2 + ENDS, what, err));
    PLIM_FAIL_IF(n->n_in != 2u + (uint32_t)__builtin_popcount(n->attr.mask) || n->attr.mask >> ENDS, err, PLIM_E_INVALID, "%s: %u inputs", what, n->n_in);
    PLIM_TRY(check(&n->attr, what, &plim__in(g, n, 0)->shape, &plim__in(g, n, 1)->shape, &type[0].shape, err));
    const plim_shape channels = {2, {blocks(outputs_of(&n->attr)), PLIM__BLOCK}};
    for (uint32_t e = 0; e < ENDS; e++)
        if (end_at(n, e)) PLIM_TRY(check_shape(what, name[e], &plim__in(g, n, end_at(n, e))->shape, e == OTHER ? &type[0].shape : &channels, err));
    type[0].dtype = PLIM_F32;
    n->n_out = 1;
    return PLIM_OK;
}

static plim_status data_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const char *what = "conv_blocked_data";
    PLIM_TRY(check_types(g, n, 2, what, err));
    const plim_shape plain = plim__spatial_shape_get(&n->attr), x = blocked_shape(&plain);
    plim_shape y = {0};
    PLIM_TRY(check(&n->attr, what, &x, &plim__in(g, n, 1)->shape, &y, err));
    PLIM_TRY(check_shape(what, "an output's gradient", &plim__in(g, n, 0)->shape, &y, err));
    type[0] = (plim__type){PLIM_F32, x};
    n->n_out = 1;
    return PLIM_OK;
}

static plim_status weights_infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const char *what = "conv_blocked_weights";
    PLIM_TRY(check_types(g, n, 2, what, err));
    const plim_shape plain = plim__spatial_shape_get(&n->attr), *x = &plim__in(g, n, 0)->shape;
    PLIM_TRY(check_channels(&n->attr, what, kind_of(&n->attr, x), err));
    const plim_shape w = weights_shape(&n->attr, kind_of(&n->attr, x), plain.dim[2], plain.dim[3]);
    plim_shape y = {0};
    PLIM_TRY(check(&n->attr, what, x, &w, &y, err));
    PLIM_TRY(check_shape(what, "an output's gradient", &plim__in(g, n, 1)->shape, &y, err));
    type[0] = (plim__type){PLIM_F32, w};
    n->n_out = 1;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------------ axes */

/* The axes' numbers; -1: there is none, and the dimension is whole. Rows and then columns are those of what is made, of y for the weights. */
typedef struct nest {
    int32_t n, c, o, space;
} nest;

static nest nest_of(const plim_graph *g, const plim__node *n)
{
    const plim__blocked_into into = role_of(n).into;
    const plim__blocked_kind kind = kind_of(&n->attr, shape_of(g, n, PART_X));
    if (kind == PLIM__BLOCKED_DEPTH) return (nest){.c = 0, .o = 0, .n = 1, .space = 2};
    if (into == PLIM__BLOCKED_Y) return (nest){.n = 1, .o = 0, .c = -1, .space = 2};
    if (into == PLIM__BLOCKED_X) return (nest){.n = 1, .c = 0, .o = -1, .space = 2};
    const bool both = kind == PLIM__BLOCKED_FULL && groups_of(&n->attr) == 1;
    return (nest){.o = 0, .n = 1, .space = 2, .c = both ? 4 : -1};
}

static void blocked_axes(const plim_graph *g, const plim__node *n, plim__axes *axes)
{
    const plim_shape *x = shape_of(g, n, PART_X), *y = shape_of(g, n, PART_Y), *made = &plim__out(g, n, 0)->shape;
    const plim__blocked_into into = role_of(n).into;
    const nest at = nest_of(g, n);
    const bool whole = kind_of(&n->attr, x) == PLIM__BLOCKED_FULL && groups_of(&n->attr) > 1;
    const plim_shape *space = into == PLIM__BLOCKED_X ? x : y;
    *axes = (plim__axes){.n = at.c == 4 ? 5 : 4};
    axes->axis[0] = (plim__axis){into == PLIM__BLOCKED_W ? made->dim[0] : made->dim[1], whole ? PLIM__WHOLE : PLIM__PARALLEL};
    axes->axis[1] = (plim__axis){x->dim[0], into == PLIM__BLOCKED_W ? PLIM__SUM : PLIM__PARALLEL};
    for (uint32_t d = 0; d < 2; d++) axes->axis[2 + d] = (plim__axis){space->dim[2 + d], axes->axis[1].kind};
    if (at.c == 4) axes->axis[4] = (plim__axis){made->dim[1], PLIM__PARALLEL};
    for (uint32_t d = 0; d < PLIM_MAX_RANK; d++) axes->out[0][d] = -1;
    if (into == PLIM__BLOCKED_W) {
        axes->out[0][0] = 0;
        if (at.c == 4) axes->out[0][1] = 4;
        return;
    }
    axes->out[0][0] = 1;
    axes->out[0][1] = 0;
    axes->out[0][2] = 2;
    axes->out[0][3] = 3;
}

static plim__index along(int32_t axis, int64_t extent) { return axis < 0 ? plim__index_fixed(0, extent) : plim__index_along((uint32_t)axis); }

static const int64_t *kernel_of(const plim_graph *g, const plim__node *n)
{
    const plim_shape *w = shape_of(g, n, PART_W);
    return w->dim + (w->rank == 4 ? 1 : 2);
}

static plim__sliding windows_of(const plim_graph *g, const plim__node *n)
{
    return plim__spatial_windows(&n->attr, kernel_of(g, n), shape_of(g, n, PART_X), shape_of(g, n, PART_Y));
}

static void blocked_reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    const role r = role_of(n);
    const nest at = nest_of(g, n);
    const plim_shape *s = &plim__in(g, n, k)->shape;
    const part p = k < 2 ? r.in[k] : k == end_at(n, OTHER) ? PART_Y : PART_W; /* one number per output follows them as weights do */
    for (uint32_t d = 0; d < s->rank; d++) index[d] = plim__index_fixed(0, s->dim[d]);
    if (p == PART_W) {
        index[0] = along(at.o, s->dim[0]);
        if (s->rank == 6 && groups_of(&n->attr) == 1) index[1] = along(at.c, s->dim[1]);
        return;
    }
    const plim__sliding windows = windows_of(g, n);
    index[0] = plim__index_along((uint32_t)at.n);
    index[1] = along(p == PART_Y ? at.o : at.c, s->dim[1]);
    if (groups_of(&n->attr) > 1 && !depthwise(&n->attr)) index[1] = plim__index_fixed(0, s->dim[1]);
    for (uint32_t d = 0; d < 2; d++) {
        const uint32_t axis = (uint32_t)at.space + d;
        if (p == PART_X) index[2 + d] = plim__spatial_seen(&windows, 1 + d, axis);
        else index[2 + d] = r.into == PLIM__BLOCKED_X ? plim__spatial_seeing(&windows, 1 + d, axis) : plim__index_along(axis);
    }
}

/* ------------------------------------------------------------------------------------------------------------ runs */

static plim__blocked blocked_of(const plim_graph *g, const plim__node *n)
{
    return (plim__blocked){.window = windows_of(g, n), .kind = kind_of(&n->attr, shape_of(g, n, PART_X)), .groups = groups_of(&n->attr),
                           .channels = channels_of(&n->attr), .outputs = outputs_of(&n->attr), .relu = n->attr.kind == PLIM__BLOCKED_RELU,
                           .most = (float)n->attr.f[0]};
}

static uint64_t blocked_scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    const plim__blocked c = blocked_of(g, n);
    const plim__blocked_into into = role_of(n).into;
    const plim_shape *in = shape_of(g, n, into == PLIM__BLOCKED_X ? PART_Y : PART_X), *w = shape_of(g, n, PART_W);
    const int64_t chain = into != PLIM__BLOCKED_W ? in->dim[1] : nest_of(g, n).c == 4 ? len[4] : c.kind == PLIM__BLOCKED_DEPTH ? 1 : w->dim[1];
    for (uint32_t a = 0; a < 4; a++)
        if (len[a] == 0) return 0;
    return plim__blocked_scratch(&c, into, len[0], chain, len[2], len[3], threads);
}

static void blocked_run(const plim__call *c)
{
    const role r = role_of(c->node);
    const plim__blocked conv = blocked_of(c->graph, c->node);
    plim__view v[3], end[ENDS];
    const plim__view *given[ENDS] = {NULL};
    for (uint32_t k = 0; k < 2; k++) v[r.in[k]] = plim__call_in(c, k);
    for (uint32_t e = 0; e < ENDS; e++) {
        const uint32_t k = end_at(c->node, e);
        if (!k) continue;
        end[e] = plim__call_in(c, k);
        given[e] = &end[e];
    }
    v[r.out] = c->out[0];
    plim__blocked_run(plim__blocked_best(), &conv, r.into, &v[PART_Y], &v[PART_X], &v[PART_W],
                      (plim__blocked_end){given[BIAS], given[SCALE], given[OTHER]}, c->scratch, c->threads);
}

static void weights_init(const plim__call *c) { plim__reduce_init(PLIM__FOLD_SUM, &c->out[0]); }

static void weights_merge(const plim__call *c) { plim__reduce_merge(PLIM__FOLD_SUM, &c->out[0], &c->in[0]); }

/* Multiply-adds of a block of outputs at one place. */
static plim__work blocked_work(const plim_graph *g, const plim__node *n)
{
    static const plim_kernel kernel[] = {[PLIM__BLOCKED_Y] = PLIM_KERNEL_CONV_BLOCKED, [PLIM__BLOCKED_X] = PLIM_KERNEL_CONV_BLOCKED_DATA,
                                         [PLIM__BLOCKED_W] = PLIM_KERNEL_CONV_BLOCKED_WEIGHTS};
    const plim__blocked c = blocked_of(g, n);
    const plim__blocked_into into = role_of(n).into;
    plim__work w = {kernel[into], 2 * (double)plim__sliding_count(&c.window) * PLIM__BLOCK};
    if (c.kind == PLIM__BLOCKED_DEPTH) w.kernel = PLIM_KERNEL_CONV_DEPTH;
    else w.amount *= c.kind == PLIM__BLOCKED_PLANES ? (double)c.channels : PLIM__BLOCK;
    if (c.kind == PLIM__BLOCKED_FULL && nest_of(g, n).c != 4) /* the chain is no axis */
        w.amount *= (double)blocks((into == PLIM__BLOCKED_X ? c.outputs : c.channels) / c.groups);
    if (into == PLIM__BLOCKED_X) w.amount /= (double)(c.window.stride[1] * c.window.stride[2]);
    return w;
}

/* ------------------------------------------------------------------------------------------------------- gradients */

/* The row that makes part `p` from the other two, given by part. @param shape  of what is made, if that is not y: as a plain array */
static plim_status apply(plim_graph *g, part p, const uint32_t value[3], const plim__attr *like, const plim_shape *shape, uint32_t *v,
                         plim_error *err)
{
    static const uint32_t op[3] = {[PART_X] = PLIM__OP_CONV_BLOCKED_DATA, [PART_Y] = PLIM__OP_CONV_BLOCKED, [PART_W] = PLIM__OP_CONV_BLOCKED_WEIGHTS};
    const role r = role_of(&(plim__node){.op = op[p]});
    plim__attr attr = *like;
    attr.kind = PLIM__BLOCKED_LINEAR;
    attr.mask = 0;
    attr.f[0] = 0;
    for (uint32_t d = 0; d < PLIM__SPACE + 2; d++) attr.i[PLIM__SPATIAL_SHAPE + d] = 0;
    if (p != PART_Y) PLIM_TRY(plim__spatial_shape_put(&attr, r.name, shape, err));
    const uint32_t in[2] = {value[r.in[0]], value[r.in[1]]};
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, op[p], in, 2, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

/* The plain shape of part p of a node that is there. */
static plim_shape plain_of(const plim_graph *g, const plim__node *n, part p)
{
    const int64_t *kernel = kernel_of(g, n), outputs = outputs_of(&n->attr), channels = channels_of(&n->attr);
    if (p == PART_W) return (plim_shape){4, {outputs, channels / groups_of(&n->attr), kernel[0], kernel[1]}};
    return plain_shape(shape_of(g, n, p), p == PART_X ? channels : outputs);
}

/* dy where a limit let something through. */
static plim_status through_limit(plim_graph *g, plim__ew compare, double limit, uint32_t y, uint32_t *dy, plim_error *err)
{
    uint32_t test, zero;
    PLIM_TRY(plim__op_compare(g, compare, y, limit, &test, err));
    PLIM_TRY(plim__op_scalar(g, PLIM_F32, 0, &zero, err));
    return plim__op_where(g, test, *dy, zero, dy, err);
}

static plim_status forward_grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    uint32_t dy = d->dout[0];
    if (dy == PLIM__NONE) return PLIM_OK;
    const plim_shape x = plain_of(d->graph, &n, PART_X), w = plain_of(d->graph, &n, PART_W);
    PLIM_FAIL_IF(d->want[0] && shape_of(d->graph, &n, PART_X)->rank == 4, d->err, PLIM_E_UNSUPPORTED,
                 "conv_blocked: no gradient with respect to an input that is not blocked");
    PLIM_FAIL_IF(end_at(&n, SCALE), d->err, PLIM_E_UNSUPPORTED, "conv_blocked: no gradient through a scale");
    if (n.attr.kind == PLIM__BLOCKED_RELU) PLIM_TRY(through_limit(d->graph, PLIM__EW_GREATER, 0, n.out[0], &dy, d->err));
    if (n.attr.f[0] > 0) PLIM_TRY(through_limit(d->graph, PLIM__EW_LESS, n.attr.f[0], n.out[0], &dy, d->err));
    const uint32_t value[3] = {[PART_X] = n.in[0], [PART_W] = n.in[1], [PART_Y] = dy};
    if (d->want[0]) PLIM_TRY(apply(d->graph, PART_X, value, &n.attr, &x, &d->din[0], d->err));
    if (d->want[1]) PLIM_TRY(apply(d->graph, PART_W, value, &n.attr, &w, &d->din[1], d->err));
    const uint32_t bias = end_at(&n, BIAS), other = end_at(&n, OTHER);
    if (other && d->want[other]) d->din[other] = dy;
    if (!bias || !d->want[bias]) return PLIM_OK;
    return plim__op_reduce(d->graph, PLIM__REDUCE_SUM, dy, 1 | 1 << 2 | 1 << 3, false, PLIM_F32, &d->din[bias], d->err);
}

/* Linear in each input: the gradient takes the place of what was made, and the input that of what is. */
static plim_status data_grad(plim__gradient *d)
{
    const plim__node n = d->graph->node[d->node];
    if (d->dout[0] == PLIM__NONE) return PLIM_OK;
    const plim_shape w = plain_of(d->graph, &n, PART_W);
    const uint32_t value[3] = {[PART_X] = d->dout[0], [PART_Y] = n.in[0], [PART_W] = n.in[1]};
    if (d->want[0]) PLIM_TRY(apply(d->graph, PART_Y, value, &n.attr, NULL, &d->din[0], d->err));
    if (d->want[1]) PLIM_TRY(apply(d->graph, PART_W, value, &n.attr, &w, &d->din[1], d->err));
    return PLIM_OK;
}

#define BLOCKED_ROW .flags = PLIM__OP_POOL, .axes = blocked_axes, .reads = blocked_reads, .scratch = blocked_scratch, .run = blocked_run, \
                    .work = blocked_work

const plim__op_row plim__row_conv_blocked = {.name = "conv_blocked", .infer = forward_infer, .grad = forward_grad, BLOCKED_ROW};
const plim__op_row plim__row_conv_blocked_data = {.name = "conv_blocked_data", .infer = data_infer, .grad = data_grad, BLOCKED_ROW};
const plim__op_row plim__row_conv_blocked_weights = {
    .name = "conv_blocked_weights", .infer = weights_infer, .init = weights_init, .merge = weights_merge, BLOCKED_ROW};

/* ---------------------------------------------------------------------------------------------------- constructors */

static plim_status attr_of(plim__attr *a, const char *what, const plim__conv_blocked *c, plim_error *err)
{
    const plim__conv *conv = &c->conv;
    *a = (plim__attr){.kind = c->activation};
    a->i[PLIM__SPATIAL_GROUPS] = conv->groups;
    a->i[CHANNELS] = c->channels;
    a->i[OUTPUTS] = c->outputs;
    PLIM_FAIL_IF(conv->space != 2, err, PLIM_E_UNSUPPORTED, "%s: %u dimensions of space, not 2", what, conv->space);
    return plim__spatial_attr(a, what, conv->space, conv->stride, conv->dilation, conv->before, conv->after, err);
}

plim_status plim__op_conv_blocked(plim_graph *g, const plim__conv_blocked_in *in, const plim__conv_blocked *conv, uint32_t *v, plim_error *err)
{
    plim__attr attr;
    uint32_t made[PLIM__MAX_OUT], given[2 + ENDS] = {in->x, in->w}, n = 2;
    const uint32_t end[ENDS] = {in->bias, in->scale, in->other};
    PLIM_TRY(attr_of(&attr, "conv_blocked", conv, err));
    attr.f[0] = conv->most;
    for (uint32_t e = 0; e < ENDS; e++) {
        if (end[e] == PLIM__NONE) continue;
        attr.mask |= 1u << e;
        given[n++] = end[e];
    }
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_CONV_BLOCKED, given, n, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}

plim_status plim__op_conv_blocked_data(plim_graph *g, uint32_t dy, uint32_t w, const plim__conv_blocked *conv, const plim_shape *x_shape, uint32_t *v,
                                       plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(attr_of(&attr, "conv_blocked_data", conv, err));
    return apply(g, PART_X, (const uint32_t[3]){[PART_Y] = dy, [PART_W] = w}, &attr, x_shape, v, err);
}

plim_status plim__op_conv_blocked_weights(plim_graph *g, uint32_t x, uint32_t dy, const plim__conv_blocked *conv, const plim_shape *w_shape,
                                          uint32_t *v, plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(attr_of(&attr, "conv_blocked_weights", conv, err));
    return apply(g, PART_W, (const uint32_t[3]){[PART_X] = x, [PART_Y] = dy}, &attr, w_shape, v, err);
}

plim_status plim__conv_blocked_shape(plim_shape *w, const plim__conv_blocked *conv, bool plain_x, const int64_t kernel[2], plim_error *err)
{
    plim__attr attr;
    PLIM_TRY(attr_of(&attr, "conv_blocked", conv, err));
    const plim__blocked_kind kind = kind_of(&attr, &(plim_shape){.rank = plain_x ? 4 : 5});
    PLIM_TRY(check_channels(&attr, "conv_blocked", kind, err));
    *w = weights_shape(&attr, kind, kernel[0], kernel[1]);
    return PLIM_OK;
}
