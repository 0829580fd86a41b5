/* Convolution and its gradients: against loops straight from the definition, whole, cut and merged; against finite differences; what is refused. */
#include "unit.h"

#include "kernels/conv.h"
#include "grads.h"

#define VALUES 16

typedef struct conv_case {
    const char *name;
    plim__conv conv;
    plim_shape x, w;
} conv_case;

static const conv_case cases[] = {
    {"1-d", {1, {1}, {1}, {1}, {1}, 1}, {3, {2, 3, 20}}, {3, {5, 3, 3}}},
    {"1-d stride and dilation", {1, {3}, {2}, {4}, {1}, 1}, {3, {2, 3, 31}}, {3, {4, 3, 5}}},
    {"1-d longer than the tile", {1, {1}, {1}, {2}, {2}, 1}, {3, {1, 20, 5000}}, {3, {4, 20, 5}}},
    {"1-d kernel longer than the tile", {1, {2}, {1}, {100}, {50}, 1}, {3, {2, 2, 600}}, {3, {4, 2, 500}}},
    {"1-d one output", {1, {1}, {3}, {0}, {5}, 1}, {3, {2, 3, 2600}}, {3, {1, 3, 7}}},
    {"2-d", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {4, {2, 4, 9, 11}}, {4, {6, 4, 3, 3}}},
    {"2-d no border", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, {4, {2, 4, 9, 11}}, {4, {4, 4, 4, 3}}},
    {"2-d stride 2", {2, {2, 2}, {1, 1}, {0, 0}, {1, 1}, 1}, {4, {2, 3, 12, 14}}, {4, {5, 3, 3, 3}}},
    {"2-d uneven", {2, {2, 3}, {2, 1}, {3, 0}, {1, 4}, 1}, {4, {3, 3, 13, 17}}, {4, {7, 3, 3, 4}}},
    {"2-d strides beyond the kernel", {2, {4, 3}, {1, 1}, {1, 0}, {0, 0}, 1}, {4, {2, 2, 15, 13}}, {4, {4, 2, 2, 1}}},
    {"2-d large kernel", {2, {4, 4}, {1, 1}, {2, 2}, {2, 2}, 1}, {4, {1, 3, 40, 36}}, {4, {8, 3, 11, 11}}},
    {"2-d tiles", {2, {1, 1}, {1, 1}, {2, 2}, {2, 2}, 1}, {4, {1, 16, 34, 36}}, {4, {4, 16, 5, 5}}},
    {"2-d many channels", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {4, {1, 60, 5, 6}}, {4, {9, 60, 3, 3}}},
    {"2-d negative border", {2, {1, 2}, {1, 1}, {-1, -2}, {-2, 1}, 1}, {4, {2, 3, 11, 12}}, {4, {4, 3, 3, 2}}},
    {"pointwise", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, {4, {3, 9, 6, 7}}, {4, {8, 9, 1, 1}}},
    {"pointwise stride", {2, {2, 2}, {1, 1}, {0, 0}, {0, 0}, 1}, {4, {3, 9, 6, 7}}, {4, {8, 9, 1, 1}}},
    {"pointwise border", {2, {1, 1}, {1, 1}, {1, 0}, {0, 2}, 1}, {4, {2, 5, 4, 5}}, {4, {4, 5, 1, 1}}},
    {"pointwise groups", {1, {1}, {1}, {0}, {0}, 2}, {3, {2, 6, 30}}, {3, {10, 3, 1}}},
    {"groups", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 3}, {4, {2, 6, 8, 9}}, {4, {12, 2, 3, 3}}},
    {"small groups", {2, {2, 1}, {1, 2}, {1, 1}, {1, 1}, 3}, {4, {2, 6, 8, 9}}, {4, {6, 2, 3, 3}}},
    {"depthwise", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 7}, {4, {2, 7, 10, 9}}, {4, {7, 1, 3, 3}}},
    {"depthwise stride", {2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 5}, {4, {2, 5, 11, 12}}, {4, {10, 1, 3, 3}}},
    {"3-d", {3, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, {1, 1, 1}, 1}, {5, {2, 2, 4, 5, 6}}, {5, {4, 2, 3, 3, 3}}},
    {"3-d uneven", {3, {2, 1, 2}, {1, 2, 1}, {0, 2, 1}, {1, 1, 0}, 2}, {5, {2, 4, 7, 8, 6}}, {5, {8, 2, 2, 3, 3}}},
    {"extents of 1", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, {4, {1, 1, 1, 1}}, {4, {1, 1, 1, 1}}},
    {"one element in its border", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {4, {2, 3, 1, 1}}, {4, {4, 3, 3, 3}}},
    {"a kernel as large as x", {2, {1, 1}, {1, 1}, {0, 0}, {0, 0}, 1}, {4, {3, 4, 5, 6}}, {4, {6, 4, 5, 6}}},
    {"batch of none", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {4, {0, 3, 5, 6}}, {4, {4, 3, 3, 3}}},
    {"no channels", {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1}, {4, {2, 0, 5, 6}}, {4, {4, 0, 3, 3}}},
    {"nothing but border", {1, {1}, {1}, {2}, {2}, 1}, {3, {2, 3, 0}}, {3, {4, 3, 3}}},
};

/* ------------------------------------------------------------------------------------------------- the definition */

/* Extents of the dimensions of space, three of them. */
static void space_of(const plim_shape *s, int64_t n[3])
{
    for (uint32_t d = 0; d < 3; d++) n[d] = d + s->rank < 5 ? 1 : s->dim[d + s->rank - 3];
}

static void spread(uint32_t space, const int64_t *v, int64_t none, int64_t out[3])
{
    for (uint32_t d = 0; d < 3; d++) out[d] = d + space < 3 ? none : v[d + space - 3];
}

static int64_t linear(const int64_t n[3], int64_t a, int64_t b, int64_t c) { return (a * n[1] + b) * n[2] + c; }

/* All products of one output element: adds to one of the three what the other two make, and to `size` its magnitude. */
static void products(const conv_case *c, const plim_shape *ys, plim__conv_into into, const double *in[3], double *out, double *size, int64_t n,
                     int64_t o,
                     const int64_t p[3])
{
    int64_t xn[3], yn[3], kn[3], stride[3], dilation[3], before[3], k[3];
    space_of(&c->x, xn);
    space_of(ys, yn);
    space_of(&c->w, kn);
    spread(c->conv.space, c->conv.stride, 1, stride);
    spread(c->conv.space, c->conv.dilation, 1, dilation);
    spread(c->conv.space, c->conv.before, 0, before);
    const int64_t group = o / (c->w.dim[0] / c->conv.groups), y = (n * ys->dim[1] + o) * yn[0] * yn[1] * yn[2] + linear(yn, p[0], p[1], p[2]);
    for (int64_t ch = 0; ch < c->w.dim[1]; ch++)
        for (k[0] = 0; k[0] < kn[0]; k[0]++)
            for (k[1] = 0; k[1] < kn[1]; k[1]++)
                for (k[2] = 0; k[2] < kn[2]; k[2]++) {
                    int64_t i[3];
                    bool inside = true;
                    for (int d = 0; d < 3; d++) {
                        i[d] = p[d] * stride[d] - before[d] + k[d] * dilation[d];
                        inside = inside && i[d] >= 0 && i[d] < xn[d];
                    }
                    if (!inside) continue;
                    const int64_t x = (n * c->x.dim[1] + group * c->w.dim[1] + ch) * xn[0] * xn[1] * xn[2] + linear(xn, i[0], i[1], i[2]);
                    const int64_t w = (o * c->w.dim[1] + ch) * kn[0] * kn[1] * kn[2] + linear(kn, k[0], k[1], k[2]);
                    const double v = into == PLIM__CONV_Y ? in[1][x] * in[2][w] : into == PLIM__CONV_X ? in[0][y] * in[2][w] : in[0][y] * in[1][x];
                    const int64_t to = into == PLIM__CONV_Y ? y : into == PLIM__CONV_X ? x : w;
                    out[to] += v;
                    size[to] += fabs(v);
                }
}

/* @param in  y, x, w in double */
static void define(const conv_case *c, const plim_shape *ys, plim__conv_into into, const double *in[3], double *out, double *size)
{
    int64_t yn[3], p[3];
    space_of(ys, yn);
    for (int64_t n = 0; n < ys->dim[0]; n++)
        for (int64_t o = 0; o < ys->dim[1]; o++)
            for (p[0] = 0; p[0] < yn[0]; p[0]++)
                for (p[1] = 0; p[1] < yn[1]; p[1]++)
                    for (p[2] = 0; p[2] < yn[2]; p[2]++) products(c, ys, into, in, out, size, n, o, p);
}

/* ----------------------------------------------------------------------------------------------------- the rows */

static uint64_t count_of(const plim_graph *g, uint32_t v) { return g->value[v].bytes / plim_dtype_bytes(g->value[v].dtype); }

static double *as_double(const plim_graph *g, void **data, uint32_t v)
{
    double *out = malloc((count_of(g, v) + 1) * sizeof *out);
    plim__convert(out, PLIM_F64, data[v], g->value[v].dtype, count_of(g, v));
    return out;
}

/* A graph with y, x, w as inputs (y a gradient), and each of them made from the others. */
typedef struct fixture {
    plim_graph *g;
    void *data[VALUES];
    uint32_t in[3], made[3]; /* by plim__conv_into */
    plim_shape y;
    double *want[3], *size[3];
} fixture;

static void fixture_new(fixture *f, const conv_case *c, plim_dtype t, parts_rng *rng)
{
    plim_error err = {0};
    *f = (fixture){0};
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, NULL), PLIM_OK);
    f->in[PLIM__CONV_X] = parts_input(f->g, f->data, t, &c->x, rng);
    f->in[PLIM__CONV_W] = parts_input(f->g, f->data, t, &c->w, rng);
    if (plim__op_conv(f->g, f->in[1], f->in[2], &c->conv, &f->made[PLIM__CONV_Y], &err)) fail_msg("%s: %s", c->name, err.message);
    f->y = f->g->value[f->made[PLIM__CONV_Y]].shape;
    f->in[PLIM__CONV_Y] = parts_input(f->g, f->data, t, &f->y, rng);
    if (plim__op_conv_data(f->g, f->in[0], f->in[2], &c->conv, &c->x, &f->made[PLIM__CONV_X], &err) ||
        plim__op_conv_weights(f->g, f->in[1], f->in[0], &c->conv, &c->w, &f->made[PLIM__CONV_W], &err))
        fail_msg("%s: %s", c->name, err.message);
    for (int k = 0; k < 3; k++) assert_true(plim__shape_equal(&f->g->value[f->made[k]].shape, &f->g->value[f->in[k]].shape));
}

static void fixture_define(fixture *f, const conv_case *c)
{
    const double *in[3] = {as_double(f->g, f->data, f->in[0]), as_double(f->g, f->data, f->in[1]), as_double(f->g, f->data, f->in[2])};
    for (int k = 0; k < 3; k++) {
        f->want[k] = calloc(count_of(f->g, f->made[k]) + 1, sizeof(double));
        f->size[k] = calloc(count_of(f->g, f->made[k]) + 1, sizeof(double));
        define(c, &f->y, (plim__conv_into)k, in, f->want[k], f->size[k]);
    }
    for (int k = 0; k < 3; k++) free((void *)in[k]);
}

static void fixture_free(fixture *f)
{
    for (int k = 0; k < 3; k++) {
        free(f->want[k]);
        free(f->size[k]);
    }
    parts_free(f->g, f->data);
    plim__graph_free(&f->g);
}

static void compare(const fixture *f, const conv_case *c, const char *how)
{
    for (int k = 0; k < 3; k++) {
        const plim_dtype t = f->g->value[f->made[k]].dtype;
        const double eps = t == PLIM_F64 ? 1e-14 : 2e-6;
        bool zero = true, should = true;
        for (uint64_t i = 0; i < count_of(f->g, f->made[k]); i++) {
            const double have = parts_get(f->data[f->made[k]], t, i), want = f->want[k][i];
            zero = zero && have == 0;
            should = should && want == 0;
            if (!parts_close(have, want, eps * f->size[k][i], 0))
                fail_msg("%s, %s, %s: element %llu is %.9g, not %.9g", c->name, k == 0 ? "y" : k == 1 ? "x" : "w", how, (unsigned long long)i, have,
                         want);
        }
        assert_int_equal(zero, should);
    }
}

static void test_against_definition(void **state)
{
    (void)state;
    static const char *const how[] = {"whole", "cut", "merged"};
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < 2; t++) {
            parts_rng rng = {k * 31 + 7};
            fixture f;
            fixture_new(&f, &cases[k], t ? PLIM_F64 : PLIM_F32, &rng);
            fixture_define(&f, &cases[k]);
            const bool large = count_of(f.g, f.in[0]) > 4000;
            for (int round = 0; round < rounds(large ? 2 : 12); round++) /* each draws other cuts and other layouts */
                for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
                    parts_run(f.g, f.data, (parts_mode)mode, &rng);
                    compare(&f, &cases[k], how[mode]);
                }
            fixture_free(&f);
        }
}

/* One call over everything with dense boxes and several threads. */
static void call_dense(const fixture *f, uint32_t v, uint32_t threads)
{
    const plim_graph *g = f->g;
    const plim__node *n = &g->node[g->value[v].node];
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes;
    plim__range whole[PLIM__MAX_AXES];
    int64_t len[PLIM__MAX_AXES];
    row->axes(g, n, &axes);
    for (uint32_t a = 0; a < axes.n; a++) {
        whole[a] = (plim__range){0, axes.axis[a].extent};
        len[a] = axes.axis[a].extent;
    }
    const plim__view in[2] = {parts_whole_view(plim__in(g, n, 0), f->data[n->in[0]]), parts_whole_view(plim__in(g, n, 1), f->data[n->in[1]])};
    const plim__view out = parts_whole_view(plim__out(g, n, 0), f->data[v]);
    void *scratch = aligned_alloc(64, plim__round_up(row->scratch(g, n, len, threads) + 64, 64));
    const plim__call call = {.graph = g, .node = n, .in = in, .out = &out, .axis = whole, .scratch = scratch, .threads = threads};
    memset(f->data[v], 0xFF, g->value[v].bytes);
    row->init(&call);
    row->run(&call);
    free(scratch);
}

static void test_threads(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        parts_rng rng = {k + 1};
        fixture f;
        fixture_new(&f, &cases[k], PLIM_F32, &rng);
        fixture_define(&f, &cases[k]);
        parts_run(f.g, f.data, PARTS_WHOLE, &rng);
        bool empty = false;
        for (int i = 0; i < 3; i++) empty = empty || count_of(f.g, f.in[i]) == 0;
        for (int i = 0; i < 3 && !empty; i++) call_dense(&f, f.made[i], 3);
        compare(&f, &cases[k], "three threads");
        fixture_free(&f);
    }
}

static void test_gradients(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        parts_rng rng = {k + 99};
        uint64_t count;
        if (plim_shape_count(&count, &cases[k].x, NULL) || count == 0 || count > 2000) continue;
        for (int row = 0; row < 3; row++) {
            fixture f;
            fixture_new(&f, &cases[k], PLIM_F64, &rng);
            /* linear in each operand: any step is as good */
            const char *wrong = grads_check(f.g, f.data, f.made[row], &(grads_how){.h = 0.5, .atol = 1e-4, .rtol = 1e-5, .samples = 10}, &rng);
            if (wrong) fail_msg("case %zu, row %d: %s", k, row, wrong);
            fixture_free(&f);
        }
    }
}

/* What a part needs of its inputs: halos, and no more. */
static void test_regions(void **state)
{
    (void)state;
    const conv_case c = {"", {2, {2, 1}, {1, 2}, {1, 2}, {1, 2}, 1}, {4, {2, 3, 20, 20}}, {4, {5, 3, 3, 3}}};
    parts_rng rng = {1};
    fixture f;
    fixture_new(&f, &c, PLIM_F32, &rng);
    plim__region r;
    const plim__range y_part[] = {{0, 1}, {2, 4}, {4, 6}, {0, 20}, {1, 3}}; /* n, o, rows, columns, c */
    const plim__node *y = &f.g->node[f.g->value[f.made[0]].node], *x = &f.g->node[f.g->value[f.made[1]].node];
    plim__region_reads(f.g, y, 0, y_part, &r);
    assert_true(plim__region_equal(&r, &(plim__region){4, {{0, 1}, {1, 3}, {7, 12}, {0, 20}}}));
    plim__region_reads(f.g, y, 1, y_part, &r);
    assert_true(plim__region_equal(&r, &(plim__region){4, {{2, 4}, {1, 3}, {0, 3}, {0, 3}}}));
    const plim__range x_part[] = {{1, 2}, {0, 3}, {7, 9}, {0, 5}, {0, 5}}; /* n, c, rows, columns, o */
    plim__region_reads(f.g, x, 0, x_part, &r); /* row 7 is seen by windows 3 and 4, row 8 by 4, and every row counts for two */
    assert_true(plim__region_equal(&r, &(plim__region){4, {{1, 2}, {0, 5}, {3, 6}, {0, 7}}}));
    fixture_free(&f);
}

/* Scratch never shrinks when a part grows. */
static void test_scratch(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        parts_rng rng = {k};
        fixture f;
        fixture_new(&f, &cases[k], PLIM_F32, &rng);
        for (int i = 0; i < 3; i++) {
            const plim__node *n = &f.g->node[f.g->value[f.made[i]].node];
            plim__axes axes;
            plim__op_row_of(n->op)->axes(f.g, n, &axes);
            for (int round = 0; round < 20; round++) {
                int64_t a[PLIM__MAX_AXES], b[PLIM__MAX_AXES];
                for (uint32_t d = 0; d < axes.n; d++) {
                    b[d] = parts_random(&rng, (uint32_t)axes.axis[d].extent + 1);
                    a[d] = parts_random(&rng, (uint32_t)b[d] + 1);
                }
                assert_true(plim__op_row_of(n->op)->scratch(f.g, n, a, 1) <= plim__op_row_of(n->op)->scratch(f.g, n, b, 1));
            }
        }
        fixture_free(&f);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    const plim_shape xs = {4, {2, 6, 8, 9}}, ws = {4, {4, 3, 3, 3}}, other = {4, {2, 4, 8, 8}}, flat = {3, {2, 6, 8}};
    const plim__conv good = {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 2};
    parts_lab lab = parts_lab_new(3);
    uint32_t v;
    plim_error err = {0};
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &xs), w = parts_lab_input(&lab, PLIM_F32, &ws), d = parts_lab_input(&lab, PLIM_F64, &ws);
    const uint32_t h = parts_lab_input(&lab, PLIM_F16, &xs), line = parts_lab_input(&lab, PLIM_F32, &flat), dy = parts_lab_input(&lab, PLIM_F32, &other);
    assert_int_equal(plim__op_conv(lab.g, x, w, &good, &v, NULL), PLIM_OK);
    assert_int_equal(plim__op_conv(lab.g, x, d, &good, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_conv(lab.g, h, h, &good, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_conv(lab.g, line, w, &good, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_conv(lab.g, x, line, &good, &v, NULL), PLIM_E_SHAPE);
    plim__conv c = good;
    c.groups = 1;
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "weights for 3 channels, an input of 6 channels"));
    for (c.groups = 0; c.groups <= 4; c.groups += 4) assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, NULL), PLIM_E_SHAPE);
    c = good, c.stride[1] = 0;
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, NULL), PLIM_E_INVALID);
    c = good, c.dilation[0] = -1;
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, NULL), PLIM_E_INVALID);
    c = good, c.before[0] = INT64_MAX, c.after[0] = INT64_MAX;
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, NULL), PLIM_E_INVALID);
    c = good, c.space = 0;
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, NULL), PLIM_E_INVALID);
    c.space = 4;
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, NULL), PLIM_E_INVALID);
    c = good, c.dilation[1] = 6;
    err = (plim_error){0};
    assert_int_equal(plim__op_conv(lab.g, x, w, &c, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "a window over 13 elements in dimension 1 of space, which has 11"));
    assert_int_equal(plim__op_conv_data(lab.g, dy, w, &good, &xs, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_conv_data(lab.g, dy, w, &good, &flat, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_conv_weights(lab.g, x, dy, &good, &ws, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_conv_weights(lab.g, x, dy, &good, &flat, &v, NULL), PLIM_E_SHAPE);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition), cmocka_unit_test(test_threads), cmocka_unit_test(test_gradients), cmocka_unit_test(test_regions),
        cmocka_unit_test(test_scratch), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
