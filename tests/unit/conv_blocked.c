/* Blocked convolution and its gradients against plain convolution in f64: whole, cut and merged; on every instruction set and with threads; to the
 * bit however it is cut; gradients against those of the plain rows; padding; what is refused. Padding holds numbers that nothing may depend on. */
#include "unit.h"

#include "kernels/conv_blocked.h"
#include "kernels/convert.h"
#include "ops/autodiff.h"
#include "ops/layers.h"
#include "parts.h"

#define LANE PLIM__BLOCK

typedef struct conv_case {
    const char *name;
    plim__conv conv;
    int64_t n, channels, outputs, high, wide, kernel[2];
    bool plain, bias, relu, scale, other;
    double most;
} conv_case;

static const conv_case cases[] = {
    {"3x3", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 2, 32, 48, 9, 11, {3, 3}, .bias = true, .relu = true},
    {"3x3 odd channels", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 2, 20, 37, 7, 7, {3, 3}, .bias = true},
    {"3x3 no border", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, 1, 16, 33, 9, 20, {3, 3}, .relu = true},
    {"3x3 stride 2", {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}, 2, 24, 40, 14, 13, {3, 3}, .bias = true, .relu = true},
    {"3x3 stride 2, uneven", {2, {2, 1}, {1, 2}, {0, 3}, {1, 0}, 1}, 1, 17, 16, 12, 15, .kernel = {3, 3}},
    {"3x3 stride 3", {2, {3, 3}, {1, 1}, {2, 0}, {1, 2}, 1}, 2, 16, 32, 17, 19, {3, 3}, .bias = true},
    {"3x3 dilation", {2, {1, 1}, {3, 2}, {3, 2}, {3, 2}, 1}, 1, 32, 16, 10, 12, {3, 3}, .relu = true},
    {"dilation and stride", {2, {2, 4}, {3, 2}, {3, 1}, {2, 5}, 1}, 1, 16, 24, 15, 22, .kernel = {3, 4}},
    {"1x1", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, 2, 48, 70, 7, 7, {1, 1}, .bias = true, .relu = true},
    {"1x1 stride 2", {2, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1}, 2, 32, 33, 9, 10, {1, 1}, .bias = true},
    {"1x1 stride 3", {2, {3, 3}, {1, 1}, {0, 0}, {0, 0}, 1}, 1, 16, 16, 9, 10, .kernel = {1, 1}},
    {"1x1 border", {2, {1, 1}, {1, 1}, {1, 0}, {0, 2}, 1}, 1, 16, 16, 4, 5, {1, 1}, .bias = true},
    {"5x5", {2, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 1}, 1, 16, 32, 6, 18, {5, 5}, .relu = true},
    {"7x7 stride 2", {2, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1}, 1, 18, 20, 21, 23, .kernel = {7, 7}},
    {"1x7", {2, {1, 1}, {1, 1}, {0, 3}, {0, 3}, 1}, 1, 32, 32, 3, 40, .kernel = {1, 7}},
    {"large kernel", {2, {1, 1}, {1, 1}, {8, 9}, {8, 9}, 1}, 1, 16, 16, 4, 5, .kernel = {17, 19}},
    {"stride beyond the kernel", {2, {4, 3}, {1, 1}, {1, 0}, {0, 0}, 1}, 1, 16, 16, 15, 13, {2, 1}, .bias = true},
    {"negative border", {2, {1, 2}, {1, 1}, {-1, -2}, {-2, 1}, 1}, 1, 16, 16, 11, 12, .kernel = {3, 2}},
    {"a row", {2, {1, 1}, {1, 1}, {0, 1}, {0, 1}, 1}, 2, 20, 20, 1, 61, {1, 3}, .bias = true, .relu = true},
    {"one pixel", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 3, 16, 48, 1, 1, .kernel = {3, 3}},
    {"many blocks", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 1, 336, 272, 2, 3, {3, 3}, .bias = true, .relu = true},
    {"groups", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}, 2, 64, 32, 6, 7, {3, 3}, .bias = true, .relu = true},
    {"groups stride 2", {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 3}, 1, 48, 144, 8, 9, .kernel = {3, 3}},
    {"depthwise", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 37}, 2, 37, 37, 9, 13, {3, 3}, .bias = true, .relu = true},
    {"depthwise stride 2", {2, {2, 2}, {1, 1}, {1, 0}, {1, 2}, 32}, 2, 32, 32, 10, 12, .kernel = {3, 3}},
    {"depthwise 5x5", {2, {1, 3}, {2, 1}, {4, 2}, {4, 2}, 16}, 1, 16, 16, 12, 11, {5, 5}, .bias = true},
    {"plain 1", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 2, 1, 20, 8, 9, {3, 3}, .plain = true, .bias = true, .relu = true},
    {"plain 3, 7x7 stride 2", {2, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1}, 2, 3, 40, 20, 22, {7, 7}, .plain = true, .bias = true},
    {"plain 4, no border", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, 1, 4, 32, 9, 30, {3, 2}, .plain = true, .relu = true},
    {"plain 15, stride 3", {2, {3, 4}, {1, 2}, {0, 1}, {2, 1}, 1}, 1, 15, 16, 14, 19, {3, 3}, .plain = true},
    {"all ends", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 2, 32, 48, 9, 11, {3, 3}, .bias = true, .relu = true, .scale = true, .other = true, .most = 60},
    {"all ends, 1x1", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, 2, 48, 70, 7, 9, {1, 1}, .bias = true, .relu = true, .scale = true, .other = true},
    {"all ends, many blocks", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 1, 336, 272, 2, 3, {3, 3}, .bias = true, .scale = true, .other = true, .most = 60},
    {"all ends, stride 2", {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}, 2, 24, 40, 14, 13, {3, 3}, .bias = true, .scale = true, .other = true},
    {"all ends, groups", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2}, 2, 64, 32, 6, 7, {3, 3}, .bias = true, .relu = true, .scale = true, .other = true},
    {"all ends, depthwise", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 37}, 2, 37, 37, 9, 13, {3, 3}, .bias = true, .relu = true, .scale = true, .other = true, .most = 60},
    {"all ends, plain 3", {2, {2, 2}, {1, 1}, {3, 3}, {3, 3}, 1}, 2, 3, 40, 20, 22, {7, 7}, .plain = true, .bias = true, .scale = true, .other = true, .most = 60},
    {"scale alone", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 1, 20, 37, 7, 7, {3, 3}, .relu = true, .scale = true},
    {"other alone, clipped", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 1, 20, 37, 7, 7, {3, 3}, .relu = true, .other = true, .most = 60},
    {"bias and other", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, 2, 32, 37, 7, 7, {1, 1}, .bias = true, .relu = true, .other = true, .most = 60},
    {"batch of none", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 0, 16, 16, 5, 6, {3, 3}, .bias = true},
    {"nothing but border", {2, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 1}, 1, 16, 16, 0, 3, {3, 3}, .bias = true},
};

/* ------------------------------------------------------------------------------------------------- plain and blocked */

/* The place of channel c of (a, c, b, d) in a blocked array (a, blocks, b, d, 16). */
static int64_t blocked_at(const plim_shape *s, int64_t a, int64_t c, int64_t b, int64_t d)
{
    return (((a * plim__ceil_div(s->dim[1], LANE) + c / LANE) * s->dim[2] + b) * s->dim[3] + d) * LANE + c % LANE;
}

static int64_t plain_at(const plim_shape *s, int64_t a, int64_t c, int64_t b, int64_t d)
{
    return ((a * s->dim[1] + c) * s->dim[2] + b) * s->dim[3] + d;
}

/* The place of a weight: o, channel of its group, row, column. */
static int64_t weight_at(const conv_case *k, int64_t o, int64_t c, int64_t a, int64_t b)
{
    const int64_t tap = a * k->kernel[1] + b, taps = k->kernel[0] * k->kernel[1], each = k->channels / k->conv.groups;
    if (k->plain) return ((o / LANE * k->channels + c) * taps + tap) * LANE + o % LANE;
    if (k->conv.groups > 1 && each == 1) return (o / LANE * taps + tap) * LANE + o % LANE;
    return (((o / LANE * plim__ceil_div(each, LANE) + c / LANE) * taps + tap) * LANE + c % LANE) * LANE + o % LANE;
}

#define EACH4(s, a, c, b, d)                               \
    for (int64_t a = 0; a < (s)->dim[0]; a++)              \
        for (int64_t c = 0; c < (s)->dim[1]; c++)          \
            for (int64_t b = 0; b < (s)->dim[2]; b++)      \
                for (int64_t d = 0; d < (s)->dim[3]; d++)

/* The plain operands and results of a case, in f64: the reference. */
typedef struct reference {
    plim_shape x, w, y;
    parts_lab lab, size;      /* size: of absolute values, what rounding is measured by */
    uint32_t in[3], made[3], sized[3]; /* y, x, w as plim__blocked_into counts them; sized: made in `size` */
    float *bias, *scale;      /* by lane */
} reference;

static void reference_rows(const conv_case *k, reference *r, parts_lab *lab)
{
    plim_error err = {0};
    r->in[PLIM__BLOCKED_X] = parts_lab_input(lab, PLIM_F64, &r->x);
    r->in[PLIM__BLOCKED_W] = parts_lab_input(lab, PLIM_F64, &r->w);
    if (plim__op_conv(lab->g, r->in[1], r->in[2], &k->conv, &r->made[0], &err)) fail_msg("%s: %s", k->name, err.message);
    r->y = lab->g->value[r->made[0]].shape;
    r->in[PLIM__BLOCKED_Y] = parts_lab_input(lab, PLIM_F64, &r->y);
    if (plim__op_conv_data(lab->g, r->in[0], r->in[2], &k->conv, &r->x, &r->made[1], &err) ||
        plim__op_conv_weights(lab->g, r->in[1], r->in[0], &k->conv, &r->w, &r->made[2], &err))
        fail_msg("%s: %s", k->name, err.message);
}

/* The operands; reference_run makes the results. */
static reference reference_new(const conv_case *k, uint64_t seed)
{
    reference r = {.x = {4, {k->n, k->channels, k->high, k->wide}}, .w = {4, {k->outputs, k->channels / k->conv.groups, k->kernel[0], k->kernel[1]}}};
    r.lab = parts_lab_new(seed);
    r.size = parts_lab_new(seed);
    reference_rows(k, &r, &r.lab);
    reference_rows(k, &r, &r.size);
    memcpy(r.sized, r.made, sizeof r.sized);
    const uint64_t lanes = (uint64_t)plim__ceil_div(k->outputs, LANE) * LANE;
    r.bias = malloc(lanes * sizeof(float));
    r.scale = malloc(lanes * sizeof(float));
    for (uint64_t i = 0; i < lanes; i++) r.bias[i] = (float)parts_random(&r.lab.rng, 200) - 100;
    for (uint64_t i = 0; i < lanes; i++) r.scale[i] = (float)parts_random(&r.lab.rng, 200) / 100 - 1;
    for (int p = 0; p < 3; p++) {
        const uint64_t n = parts_count(&r.lab.g->value[r.in[p]].shape);
        for (uint64_t i = 0; i < n; i++) {
            double *v = (double *)r.lab.data[r.in[p]] + i;
            *v = (float)(*v / 16);
            ((double *)r.size.data[r.in[p]])[i] = fabs(*v);
        }
    }
    return r;
}

static void reference_run(reference *r)
{
    parts_run(r->lab.g, r->lab.data, PARTS_WHOLE, &r->lab.rng);
    parts_run(r->size.g, r->size.data, PARTS_WHOLE, &r->size.rng);
}

static void reference_free(reference *r)
{
    parts_lab_free(&r->lab);
    parts_lab_free(&r->size);
    free(r->bias);
    free(r->scale);
}

/* Operand p, blocked; padding of x and y holds something, of w zeros. */
static void block(const conv_case *k, const reference *r, plim__blocked_into p, float *to, uint64_t n)
{
    const double *from = r->lab.data[r->in[p]];
    const plim_shape *s = p == PLIM__BLOCKED_W ? &r->w : p == PLIM__BLOCKED_X ? &r->x : &r->y;
    for (uint64_t i = 0; i < n; i++) to[i] = p == PLIM__BLOCKED_W ? 0 : 3 + (float)(i % 5);
    EACH4(s, a, c, b, d)
    {
        const bool planes = p == PLIM__BLOCKED_X && k->plain;
        const int64_t at = p == PLIM__BLOCKED_W ? weight_at(k, a, c, b, d) : planes ? plain_at(s, a, c, b, d) : blocked_at(s, a, c, b, d);
        to[at] = (float)from[plain_at(s, a, c, b, d)];
    }
}

static void compare_one(const conv_case *k, const char *how, const char *which, float have, double want, double size)
{
    if (!parts_close(have, want, 2e-6 * size, 0)) fail_msg("%s, %s, %s: %.9g, not %.9g", k->name, how, which, (double)have, want);
}

static void compare_y(const conv_case *k, const reference *r, const float *have, const char *how)
{
    const double *want = r->lab.data[r->made[0]], *size = r->size.data[r->sized[0]], *other = r->lab.data[r->in[PLIM__BLOCKED_Y]];
    EACH4(&r->y, a, c, b, d)
    {
        const int64_t i = plain_at(&r->y, a, c, b, d);
        const double v = want[i] * (k->scale ? (double)r->scale[c] : 1) + (k->bias ? (double)r->bias[c] : 0) + (k->other ? other[i] : 0);
        const double above = k->relu && v < 0 ? 0 : v;
        compare_one(k, how, "y", have[blocked_at(&r->y, a, c, b, d)], k->most > 0 && above > k->most ? k->most : above, size[i] + 100 + fabs(other[i]));
    }
}

static void compare_x(const conv_case *k, const reference *r, const float *have, const char *how)
{
    const double *want = r->lab.data[r->made[1]], *size = r->size.data[r->sized[1]];
    EACH4(&r->x, a, c, b, d)
    {
        const int64_t i = plain_at(&r->x, a, c, b, d);
        compare_one(k, how, "x", have[blocked_at(&r->x, a, c, b, d)], want[i], size[i]);
    }
}

static void compare_w(const conv_case *k, const reference *r, const float *have, uint64_t n, const char *how)
{
    const double *want = r->lab.data[r->made[2]], *size = r->size.data[r->sized[2]];
    float *rest = malloc((n + 1) * sizeof *rest);
    memcpy(rest, have, n * sizeof *rest);
    EACH4(&r->w, a, c, b, d)
    {
        const int64_t i = plain_at(&r->w, a, c, b, d);
        compare_one(k, how, "w", have[weight_at(k, a, c, b, d)], want[i], size[i]);
        rest[weight_at(k, a, c, b, d)] = 0;
    }
    for (uint64_t i = 0; i < n; i++)
        if (rest[i] != 0) fail_msg("%s, %s: padding of w holds %g", k->name, how, (double)rest[i]);
    free(rest);
}

/* ------------------------------------------------------------------------------------------------------------- rows */

/* The blocked rows of a case. */
typedef struct fixture {
    parts_lab lab;
    uint32_t in[3], made[3], bias, scale;
} fixture;

static plim__conv_blocked conv_of(const conv_case *k)
{
    return (plim__conv_blocked){k->conv, k->channels, k->outputs, k->relu ? PLIM__BLOCKED_RELU : PLIM__BLOCKED_LINEAR, k->most};
}

static plim_shape shape_blocked(const plim_shape *s)
{
    return (plim_shape){5, {s->dim[0], plim__ceil_div(s->dim[1], LANE), s->dim[2], s->dim[3], LANE}};
}

static fixture fixture_new(const conv_case *k, const reference *r)
{
    plim_error err = {0};
    fixture f = {.lab = parts_lab_new(17), .bias = PLIM__NONE, .scale = PLIM__NONE};
    plim_graph *g = f.lab.g;
    const plim__conv_blocked conv = conv_of(k);
    plim_shape shape[3] = {shape_blocked(&r->y), k->plain ? r->x : shape_blocked(&r->x)};
    if (plim__conv_blocked_shape(&shape[2], &conv, k->plain, k->kernel, &err)) fail_msg("%s: %s", k->name, err.message);
    for (int p = 0; p < 3; p++) {
        f.in[p] = parts_lab_input(&f.lab, PLIM_F32, &shape[p]);
        block(k, r, (plim__blocked_into)p, f.lab.data[f.in[p]], parts_count(&shape[p]));
    }
    const plim_shape bias = {2, {plim__ceil_div(k->outputs, LANE), LANE}};
    if (k->bias) f.bias = parts_lab_input(&f.lab, PLIM_F32, &bias);
    if (k->bias) memcpy(f.lab.data[f.bias], r->bias, parts_count(&bias) * sizeof(float));
    if (k->scale) f.scale = parts_lab_input(&f.lab, PLIM_F32, &bias);
    if (k->scale) memcpy(f.lab.data[f.scale], r->scale, parts_count(&bias) * sizeof(float));
    const plim__conv_blocked_in in = {f.in[1], f.in[2], f.bias, f.scale, k->other ? f.in[0] : PLIM__NONE};
    f.made[1] = PLIM__NONE;
    if (plim__op_conv_blocked(g, &in, &conv, &f.made[0], &err) ||
        (!k->plain && plim__op_conv_blocked_data(g, f.in[0], f.in[2], &conv, &r->x, &f.made[1], &err)) ||
        plim__op_conv_blocked_weights(g, f.in[1], f.in[0], &conv, &r->w, &f.made[2], &err))
        fail_msg("%s: %s", k->name, err.message);
    for (int p = 0; p < 3; p++)
        if (f.made[p] != PLIM__NONE) assert_true(plim__shape_equal(&g->value[f.made[p]].shape, &shape[p]));
    return f;
}

static void compare(const conv_case *k, const reference *r, const fixture *f, const char *how)
{
    compare_y(k, r, f->lab.data[f->made[0]], how);
    if (!k->plain) compare_x(k, r, f->lab.data[f->made[1]], how);
    compare_w(k, r, f->lab.data[f->made[2]], parts_count(&f->lab.g->value[f->made[2]].shape), how);
}

static void test_against_plain(void **state)
{
    (void)state;
    static const char *const how[] = {"whole", "cut", "merged"};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        reference r = reference_new(&cases[i], i);
        reference_run(&r);
        fixture f = fixture_new(&cases[i], &r);
        const bool large = parts_count(&r.w) > 30000;
        for (int round = 0; round < rounds(large ? 1 : 3); round++) /* each draws other cuts and other layouts */
            for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
                parts_run(f.lab.g, f.lab.data, (parts_mode)mode, &f.lab.rng);
                compare(&cases[i], &r, &f, how[mode]);
            }
        parts_lab_free(&f.lab);
        reference_free(&r);
    }
}

/* ---------------------------------------------------------------------------------------------------- dense operands */

/* What the row does, with other lanes. */
static void run_lanes(const fixture *f, uint32_t v, const conv_case *k, const plim__blocked_lanes *lanes, const plim__call *call)
{
    const plim_shape *xs = &f->lab.g->value[f->in[1]].shape, *ys = &f->lab.g->value[f->in[0]].shape;
    const plim__conv *conv = &k->conv;
    const bool depth = conv->groups > 1 && conv->groups == k->channels;
    const plim__blocked c = {.window = {.size = {1, k->kernel[0], k->kernel[1]}, .stride = {1, conv->stride[0], conv->stride[1]},
            .dilation = {1, conv->dilation[0], conv->dilation[1]}, .before = {0, conv->before[0], conv->before[1]},
            .in = {1, xs->dim[2], xs->dim[3]}, .out = {1, ys->dim[2], ys->dim[3]}},
        .kind = k->plain ? PLIM__BLOCKED_PLANES : depth ? PLIM__BLOCKED_DEPTH : PLIM__BLOCKED_FULL, .groups = conv->groups,
        .channels = k->channels, .outputs = k->outputs, .relu = k->relu, .most = (float)k->most};
    const plim__blocked_into into = v == f->made[0] ? PLIM__BLOCKED_Y : v == f->made[1] ? PLIM__BLOCKED_X : PLIM__BLOCKED_W;
    const plim__view *in = call->in, *out = call->out;
    const uint32_t bias = 2, scale = bias + k->bias, other = scale + k->scale;
    const plim__blocked_end end = {k->bias ? &in[bias] : NULL, k->scale ? &in[scale] : NULL, k->other ? &in[other] : NULL};
    const plim__view *y = into == PLIM__BLOCKED_Y ? out : &in[into == PLIM__BLOCKED_X ? 0 : 1];
    const plim__view *x = into == PLIM__BLOCKED_X ? out : &in[0], *w = into == PLIM__BLOCKED_W ? out : &in[1];
    plim__blocked_run(lanes, &c, into, y, x, w, into == PLIM__BLOCKED_Y ? end : (plim__blocked_end){0}, call->scratch, call->threads);
}

/* One call over part `axis` of a node, where the operands lie. @param lanes  NULL: through the row */
static void call_part(const fixture *f, uint32_t v, const plim__range *axis, const plim__blocked_lanes *lanes, const conv_case *k, uint32_t threads)
{
    const plim_graph *g = f->lab.g;
    const plim__node *n = &g->node[g->value[v].node];
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes;
    plim__region region;
    plim__view in[5], out = parts_whole_view(plim__out(g, n, 0), f->lab.data[v]);
    int64_t len[PLIM__MAX_AXES];
    row->axes(g, n, &axes);
    for (uint32_t a = 0; a < axes.n; a++) len[a] = plim__range_len(axis[a]);
    for (uint32_t i = 0; i < n->n_in; i++) {
        in[i] = parts_whole_view(plim__in(g, n, i), f->lab.data[n->in[i]]);
        plim__region_reads(g, n, i, axis, &region);
        in[i] = plim__view_part(&in[i], &region);
    }
    plim__region_writes(g, n, &axes, 0, axis, &region);
    out = plim__view_part(&out, &region);
    const uint64_t bytes = row->scratch(g, n, len, threads);
    unsigned char *scratch = aligned_alloc(64, plim__round_up(bytes + 64, 64));
    memset(scratch, 0xFF, bytes + 64);
    const plim__call call = {.graph = g, .node = n, .in = in, .out = &out, .axis = axis, .scratch = scratch, .threads = threads};
    if (row->init) row->init(&call);
    if (lanes) run_lanes(f, v, k, lanes, &call);
    else row->run(&call);
    for (uint64_t i = bytes; i < bytes + 64; i++) assert_int_equal(scratch[i], 0xFF);
    free(scratch);
}

static void whole_of(const fixture *f, uint32_t v, plim__axes *axes, plim__range *whole)
{
    const plim__node *n = &f->lab.g->node[f->lab.g->value[v].node];
    plim__op_row_of(n->op)->axes(f->lab.g, n, axes);
    for (uint32_t a = 0; a < axes->n; a++) whole[a] = (plim__range){0, axes->axis[a].extent};
}

/* Every instruction set of this machine, alone and with threads. */
static void test_levels(void **state)
{
    (void)state;
    const plim__blocked_lanes *levels[3] = {&plim__blocked_lanes_base};
#ifdef PLIM_KERNELS_V3
    if (plim__cpu_has_v3()) levels[1] = &plim__blocked_lanes_v3;
#endif
#ifdef PLIM_KERNELS_V4
    if (plim__cpu_has_v4()) levels[2] = &plim__blocked_lanes_v4;
#endif
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const conv_case *k = &cases[i];
        if (k->n == 0) continue;
        reference r = reference_new(k, i + 100);
        reference_run(&r);
        fixture f = fixture_new(k, &r);
        for (int p = 0; p < 3; p++)
            if (f.made[p] != PLIM__NONE) f.lab.data[f.made[p]] = parts_new(&f.lab.g->value[f.made[p]]);
        for (int level = 0; level < 3; level++)
            for (uint32_t threads = 1; threads <= 3 && levels[level]; threads += 2) {
                plim__axes axes;
                plim__range whole[PLIM__MAX_AXES];
                char how[40];
                snprintf(how, sizeof how, "%s with %u threads", levels[level]->name, threads);
                for (int p = 0; p < 3; p++) {
                    if (f.made[p] == PLIM__NONE) continue;
                    whole_of(&f, f.made[p], &axes, whole);
                    call_part(&f, f.made[p], whole, levels[level], k, threads);
                }
                compare(k, &r, &f, how);
            }
        parts_lab_free(&f.lab);
        reference_free(&r);
    }
}

/* y and x do not depend on the cut, not in one bit; nor on threads. */
static void test_bits(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const conv_case *k = &cases[i];
        if (k->n == 0) continue;
        reference r = reference_new(k, i + 200);
        fixture f = fixture_new(k, &r);
        for (int p = 0; p < 2; p++) {
            const uint32_t v = f.made[p];
            if (v == PLIM__NONE) continue;
            plim__axes axes;
            plim__range whole[PLIM__MAX_AXES], axis[PLIM__MAX_AXES];
            f.lab.data[v] = parts_new(&f.lab.g->value[v]);
            whole_of(&f, v, &axes, whole);
            call_part(&f, v, whole, NULL, k, 1);
            void *first = f.lab.data[v];
            f.lab.data[v] = parts_new(&f.lab.g->value[v]);
            const parts_cuts cuts = parts_cut(&axes, PARTS_CUT, &f.lab.rng);
            for (uint32_t at = 0; at < cuts.n[0] * cuts.n[1] * cuts.n[2] * cuts.n[3]; at++) {
                uint32_t rest = at;
                for (uint32_t a = 0; a < 4; rest /= cuts.n[a], a++) {
                    const uint32_t cut = rest % cuts.n[a];
                    axis[a] = (plim__range){cuts.at[a][cut], cuts.at[a][cut + 1]};
                }
                call_part(&f, v, axis, NULL, k, 1 + at % 3);
            }
            assert_memory_equal(f.lab.data[v], first, f.lab.g->value[v].bytes);
            free(first);
        }
        parts_lab_free(&f.lab);
        reference_free(&r);
    }
}

/* -------------------------------------------------------------------------------------------------------- gradients */

/* sum(y * weight) */
static uint32_t loss_of(plim_graph *g, uint32_t y, uint32_t weight)
{
    uint32_t product, loss;
    const plim_dtype t = g->value[y].dtype;
    assert_int_equal(plim__op_float2(g, PLIM__EW_MUL, y, weight, &product, NULL), PLIM_OK);
    assert_int_equal(plim__op_reduce(g, PLIM__REDUCE_SUM, product, (1u << g->value[y].shape.rank) - 1, false, t, &loss, NULL), PLIM_OK);
    return loss;
}

/* The plain net, in f64: relu(conv(x, w) + bias + other), and its gradients. */
static void plain_net(const conv_case *k, reference *r, uint32_t gradient[4], uint32_t *bias)
{
    parts_lab *lab = &r->lab;
    const plim_shape s = {4, {1, k->outputs, 1, 1}};
    uint32_t y = r->made[0];
    plim_error err = {0};
    *bias = parts_lab_input(lab, PLIM_F64, &s);
    for (int64_t o = 0; o < k->outputs; o++) ((double *)lab->data[*bias])[o] = r->bias[o];
    assert_int_equal(plim__op_float2(lab->g, PLIM__EW_ADD, y, *bias, &y, NULL), PLIM_OK);
    if (k->other) assert_int_equal(plim__op_float2(lab->g, PLIM__EW_ADD, y, r->in[0], &y, NULL), PLIM_OK);
    if (k->relu) assert_int_equal(plim__op_limit(lab->g, y, 0, k->most > 0 ? k->most : INFINITY, &y, NULL), PLIM_OK);
    const uint32_t with[4] = {r->in[1], r->in[2], *bias, r->in[0]};
    if (plim__graph_gradients(lab->g, loss_of(lab->g, y, r->in[0]), with, 4, gradient, &err)) fail_msg("%s: %s", k->name, err.message);
    reference_run(r);
}

static void compare_bias(const conv_case *k, const double *want, const float *have)
{
    for (int64_t o = 0; o < k->outputs; o++)
        if (!parts_close(have[o], want[o], 1e-3, 1e-4)) fail_msg("%s: the bias's gradient is %g, not %g", k->name, (double)have[o], want[o]);
}

static void test_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const conv_case *k = &cases[i];
        if (!k->bias || k->scale || k->n == 0 || k->high == 0) continue;
        plim_error err = {0};
        reference r = reference_new(k, i + 300);
        fixture f = fixture_new(k, &r);
        uint32_t want[4], have[4], plain_bias;
        plain_net(k, &r, want, &plain_bias);
        const uint32_t with[4] = {f.in[2], f.bias, f.in[0], f.in[1]};
        const uint32_t loss = loss_of(f.lab.g, f.made[0], f.in[0]);
        if (plim__graph_gradients(f.lab.g, loss, with, k->plain ? 3 : 4, have, &err)) fail_msg("%s: %s", k->name, err.message);
        parts_run(f.lab.g, f.lab.data, PARTS_CUT, &f.lab.rng);
        r.made[1] = want[0], r.made[2] = want[1];
        compare_w(k, &r, f.lab.data[have[0]], parts_count(&f.lab.g->value[have[0]].shape), "gradient");
        compare_bias(k, r.lab.data[want[2]], f.lab.data[have[1]]);
        if (!k->plain) compare_x(k, &r, f.lab.data[have[3]], "gradient");
        const conv_case bare = {.name = k->name};
        r.made[0] = want[3];
        compare_y(&bare, &r, f.lab.data[have[2]], "gradient");
        parts_lab_free(&f.lab);
        reference_free(&r);
    }
}

/* Transposed convolution forward, its gradients by the two other rows. */
static void test_data_gradients(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        conv_case k = cases[i];
        if (k.plain || k.n == 0 || k.high == 0) continue;
        k.bias = k.relu = k.scale = k.other = false;
        k.most = 0;
        plim_error err = {0};
        reference r = reference_new(&k, i + 400);
        fixture f = fixture_new(&k, &r);
        uint32_t want[2], have[2];
        const uint32_t plain[2] = {r.in[0], r.in[2]}, with[2] = {f.in[0], f.in[2]};
        if (plim__graph_gradients(r.lab.g, loss_of(r.lab.g, r.made[1], r.in[1]), plain, 2, want, &err) ||
            plim__graph_gradients(f.lab.g, loss_of(f.lab.g, f.made[1], f.in[1]), with, 2, have, &err))
            fail_msg("%s: %s", k.name, err.message);
        reference_run(&r);
        parts_run(f.lab.g, f.lab.data, PARTS_WHOLE, &f.lab.rng);
        r.made[0] = want[0], r.made[2] = want[1];
        compare_y(&k, &r, f.lab.data[have[0]], "gradient of data");
        compare_w(&k, &r, f.lab.data[have[1]], parts_count(&f.lab.g->value[have[1]].shape), "gradient of data");
        parts_lab_free(&f.lab);
        reference_free(&r);
    }
}

/* ---------------------------------------------------------------------------------------------------------- the rest */

/* Scratch never shrinks when a part grows. */
static void test_scratch(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        reference r = reference_new(&cases[i], i);
        fixture f = fixture_new(&cases[i], &r);
        for (int p = 0; p < 3; p++) {
            if (f.made[p] == PLIM__NONE) continue;
            const plim__node *n = &f.lab.g->node[f.lab.g->value[f.made[p]].node];
            plim__axes axes;
            plim__op_row_of(n->op)->axes(f.lab.g, n, &axes);
            for (uint32_t round = 0; round < 40; round++) {
                int64_t a[PLIM__MAX_AXES], b[PLIM__MAX_AXES];
                for (uint32_t d = 0; d < axes.n; d++) {
                    b[d] = parts_random(&f.lab.rng, (uint32_t)axes.axis[d].extent + 1);
                    a[d] = parts_random(&f.lab.rng, (uint32_t)b[d] + 1);
                }
                const uint32_t threads = 1 + round % 4;
                assert_true(plim__op_row_of(n->op)->scratch(f.lab.g, n, a, threads) <= plim__op_row_of(n->op)->scratch(f.lab.g, n, b, threads));
            }
        }
        parts_lab_free(&f.lab);
        reference_free(&r);
    }
}

static plim_status conv_biased(plim_graph *g, uint32_t x, uint32_t w, uint32_t bias, const plim__conv_blocked *conv, uint32_t *v, plim_error *err)
{
    return plim__op_conv_blocked(g, &(plim__conv_blocked_in){x, w, bias, PLIM__NONE, PLIM__NONE}, conv, v, err);
}

static void test_refusals(void **state)
{
    (void)state;
    const plim__conv_blocked good = {{2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, 20, 40, PLIM__BLOCKED_RELU, 0};
    const plim_shape xs = {5, {2, 2, 8, 9, LANE}}, ws = {6, {3, 2, 3, 3, LANE, LANE}}, bs = {2, {3, LANE}}, plain = {4, {2, 20, 8, 9}};
    parts_lab lab = parts_lab_new(3);
    uint32_t v;
    plim_error err = {0};
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &xs), w = parts_lab_input(&lab, PLIM_F32, &ws), b = parts_lab_input(&lab, PLIM_F32, &bs);
    const uint32_t d = parts_lab_input(&lab, PLIM_F64, &ws), flat = parts_lab_input(&lab, PLIM_F32, &plain);
    assert_int_equal(conv_biased(lab.g, x, w, b, &good, &v, NULL), PLIM_OK);
    assert_int_equal(conv_biased(lab.g, x, d, b, &good, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(conv_biased(lab.g, x, w, x, &good, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(conv_biased(lab.g, w, x, b, &good, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(conv_biased(lab.g, x, b, b, &good, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(conv_biased(lab.g, flat, w, b, &good, &v, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "an input that is not blocked has less than 16 channels"));
    plim__conv_blocked c = good;
    c.channels = 40;
    err = (plim_error){0};
    assert_int_equal(conv_biased(lab.g, x, w, b, &c, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "an input of shape"));
    c = good, c.conv.groups = 2;
    err = (plim_error){0};
    assert_int_equal(conv_biased(lab.g, x, w, b, &c, &v, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "groups of 10 channels and 20 outputs, which are no multiples of 16"));
    c = good, c.conv.groups = 0;
    assert_int_equal(conv_biased(lab.g, x, w, b, &c, &v, NULL), PLIM_E_SHAPE);
    c = good, c.conv.space = 1;
    assert_int_equal(conv_biased(lab.g, x, w, b, &c, &v, NULL), PLIM_E_UNSUPPORTED);
    c = good, c.conv.stride[1] = 0;
    assert_int_equal(conv_biased(lab.g, x, w, b, &c, &v, NULL), PLIM_E_INVALID);
    c = good, c.activation = (plim__blocked_activation)2;
    assert_int_equal(conv_biased(lab.g, x, w, b, &c, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_conv_blocked_data(lab.g, x, w, &good, &plain, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_conv_blocked_weights(lab.g, x, x, &good, &(plim_shape){4, {40, 20, 3, 3}}, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_conv_blocked_weights(lab.g, x, x, &good, &bs, &v, NULL), PLIM_E_SHAPE);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_plain), cmocka_unit_test(test_levels), cmocka_unit_test(test_bits), cmocka_unit_test(test_gradients),
        cmocka_unit_test(test_data_gradients), cmocka_unit_test(test_scratch), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
