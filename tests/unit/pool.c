/* Pooling and its gradient: against loops straight from the definition, whole and cut; ties, NaN and borders; against finite differences; what is
 * refused. */
#include "unit.h"

#include "grads.h"

typedef struct pool_case {
    const char *name;
    plim__pool pool; /* the sort of pooling and the rounding are tried both ways */
    plim_shape x;
} pool_case;

static const pool_case cases[] = {
    {"1-d", {.space = 1, .size = {3}, .stride = {2}, .dilation = {1}, .before = {1}, .after = {1}}, {3, {2, 3, 21}}},
    {"1-d long", {.space = 1, .size = {4}, .stride = {1}, .dilation = {3}, .before = {2}, .after = {0}}, {3, {1, 2, 1500}}},
    {"2-d halves", {.space = 2, .size = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}}, {4, {2, 3, 8, 11}}},
    {"2-d overlapping", {.space = 2, .size = {3, 3}, .stride = {2, 2}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}}, {4, {2, 3, 9, 12}}},
    {"2-d every element", {.space = 2, .size = {5, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {2, 1}, .after = {2, 1}}, {4, {2, 2, 7, 8}}},
    {"2-d uneven", {.space = 2, .size = {3, 2}, .stride = {3, 2}, .dilation = {2, 3}, .before = {0, 3}, .after = {4, 1}}, {4, {2, 3, 14, 13}}},
    {"2-d strides beyond the window", {.space = 2, .size = {2, 1}, .stride = {4, 3}, .dilation = {1, 1}}, {4, {2, 2, 11, 13}}},
    {"2-d the whole", {.space = 2, .size = {7, 6}, .stride = {1, 1}, .dilation = {1, 1}}, {4, {3, 4, 7, 6}}},
    {"3-d", {.space = 3, .size = {2, 3, 2}, .stride = {1, 2, 2}, .dilation = {1, 1, 2}, .before = {0, 1, 1}, .after = {1, 1, 2}}, {5, {2, 2, 4, 7,
        8}}},
    {"blocks, halves", {.space = 3, .size = {2, 2, 1}, .stride = {2, 2, 1}, .dilation = {1, 1, 1}}, {5, {2, 2, 9, 8, 16}}},
    {"blocks, overlapping", {.space = 3, .size = {3, 3, 1}, .stride = {2, 2, 1}, .dilation = {1, 1, 1}, .before = {1, 1}, .after = {1, 1}},
        {5, {1, 2, 9, 12, 16}}},
    {"blocks, every element", {.space = 3, .size = {5, 3, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .before = {2, 1}, .after = {2, 1}},
        {5, {1, 2, 7, 8, 32}}},
    {"blocks, uneven", {.space = 3, .size = {3, 2, 1}, .stride = {3, 2, 1}, .dilation = {2, 3, 1}, .before = {0, 3}, .after = {4, 1}},
        {5, {2, 1, 14, 13, 16}}},
    {"blocks, strides beyond the window", {.space = 3, .size = {2, 1, 1}, .stride = {4, 3, 1}, .dilation = {1, 1, 1}}, {5, {2, 1, 11, 13, 16}}},
    {"blocks, the whole", {.space = 3, .size = {7, 6, 1}, .stride = {1, 1, 1}, .dilation = {1, 1, 1}}, {5, {2, 2, 7, 6, 48}}},
    {"blocks, windows that miss", {.space = 3, .size = {1, 2, 1}, .stride = {1, 1, 1}, .dilation = {1, 4, 1}, .before = {0, 2}, .after = {0, 3}},
        {5, {1, 1, 2, 2, 16}}},
    {"extents of 1", {.space = 2, .size = {1, 1}, .stride = {1, 1}, .dilation = {1, 1}}, {4, {1, 1, 1, 1}}},
    {"one element in its border", {.space = 2, .size = {3, 3}, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}}, {4, {2, 2,
        1, 1}}},
    {"windows that miss", {.space = 1, .size = {2}, .stride = {1}, .dilation = {4}, .before = {2}, .after = {3}}, {3, {2, 2, 2}}},
    {"batch of none", {.space = 2, .size = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}}, {4, {0, 3, 6, 6}}},
};

/* ------------------------------------------------------------------------------------------------ the definition */

static int64_t extent(const plim_shape *s, uint32_t d) { return d + s->rank < 5 ? 1 : s->dim[d + s->rank - 3]; }

static int64_t of(uint32_t space, const int64_t *v, uint32_t d, int64_t none) { return d + space < 3 ? none : v[d + space - 3]; }

/* One window: its largest element, the first such, or its mean and what divides it. */
typedef struct window {
    double value;
    int64_t first, count;
} window;

/* Does the element at i lie in x; is it counted by a mean. */
static bool place(const plim__pool *p, const plim_shape *x, const int64_t i[3], bool *counted)
{
    bool inside = true;
    *counted = true;
    for (uint32_t d = 0; d < 3; d++) {
        const int64_t n = extent(x, d), before = of(p->space, p->before, d, 0), after = of(p->space, p->after, d, 0);
        inside = inside && i[d] >= 0 && i[d] < n;
        *counted = *counted && (p->count_border ? i[d] >= -before && i[d] < n + after : i[d] >= 0 && i[d] < n);
    }
    return inside;
}

/* Calls back for each element of window w of channel `c` that lies inside: adds `share` to dx, or collects the window. */
static window walk(const plim__pool *p, const plim_shape *x, const double *data, int64_t c, const int64_t w[3], double *dx, double share)
{
    window r = {.value = p->average ? 0 : -INFINITY, .first = -1};
    int64_t k[3], i[3];
    for (k[0] = 0; k[0] < of(p->space, p->size, 0, 1); k[0]++)
        for (k[1] = 0; k[1] < of(p->space, p->size, 1, 1); k[1]++)
            for (k[2] = 0; k[2] < of(p->space, p->size, 2, 1); k[2]++) {
                bool counted;
                for (uint32_t d = 0; d < 3; d++)
                    i[d] = w[d] * of(p->space, p->stride, d, 1) - of(p->space, p->before, d, 0) + k[d] * of(p->space, p->dilation, d, 1);
                const bool inside = place(p, x, i, &counted);
                r.count += counted;
                if (!inside) continue;
                const int64_t at = ((c * extent(x, 0) + i[0]) * extent(x, 1) + i[1]) * extent(x, 2) + i[2];
                if (dx) dx[at] += share;
                if (p->average) r.value += data[at];
                else if (r.first < 0 || data[at] > r.value || (isnan(data[at]) && !isnan(r.value))) r.value = data[at], r.first = at;
            }
    return r;
}

/* y, and the gradient dx that dy gives. */
static void define(const plim__pool *p, const plim_shape *x, const plim_shape *y, const double *data, const double *dy, double *out, double *dx)
{
    int64_t w[3], at = 0;
    for (int64_t c = 0; c < x->dim[0] * x->dim[1]; c++)
        for (w[0] = 0; w[0] < extent(y, 0); w[0]++)
            for (w[1] = 0; w[1] < extent(y, 1); w[1]++)
                for (w[2] = 0; w[2] < extent(y, 2); w[2]++, at++) {
                    const window r = walk(p, x, data, c, w, NULL, 0);
                    out[at] = p->average && r.count ? r.value / (double)r.count : r.value;
                    if (p->average && r.count) walk(p, x, data, c, w, dx, dy[at] / (double)r.count);
                    else if (!p->average && r.first >= 0) dx[r.first] += dy[at];
                }
}

/* ----------------------------------------------------------------------------------------------------- the rows */

typedef enum fill { FILL_ANY, FILL_TIES, FILL_NAN } fill;

static void fill_x(void *data, plim_dtype t, uint64_t n, fill how, parts_rng *rng)
{
    for (uint64_t i = 0; i < n && how != FILL_ANY; i++) {
        const double v = parts_random(rng, 3);
        parts_set(data, t, i, how == FILL_NAN && parts_random(rng, 7) == 0 ? NAN : how == FILL_NAN && v == 0 ? -INFINITY : v);
    }
}

static void compare(const char *name, const char *what, const plim_graph *g, void **data, uint32_t v, const double *want)
{
    const plim_dtype t = g->value[v].dtype;
    const double eps = t == PLIM_F64 ? 1e-13 : 1e-6;
    for (uint64_t i = 0; i < g->value[v].bytes / plim_dtype_bytes(t); i++)
        if (!parts_close(parts_get(data[v], t, i), want[i], eps * 100, eps))
            fail_msg("%s, %s: element %llu is %.9g, not %.9g", name, what, (unsigned long long)i, parts_get(data[v], t, i), want[i]);
}

static void check(const pool_case *c, const plim__pool *p, plim_dtype t, fill how, uint64_t seed)
{
    parts_lab lab = parts_lab_new(seed * 31 + 7);
    plim_error err = {0};
    uint32_t y, dx;
    uint64_t nx, ny;
    const uint32_t x = parts_lab_input(&lab, t, &c->x);
    if (plim__op_pool(lab.g, x, p, &y, &err)) fail_msg("%s: %s", c->name, err.message);
    const plim_shape ys = lab.g->value[y].shape;
    const uint32_t dy = parts_lab_input(&lab, t, &ys);
    if (plim__op_pool_back(lab.g, x, y, dy, p, &dx, &err)) fail_msg("%s: %s", c->name, err.message);
    assert_true(plim__shape_equal(&lab.g->value[dx].shape, &c->x));
    assert_int_equal(plim_shape_count(&nx, &c->x, NULL), PLIM_OK);
    assert_int_equal(plim_shape_count(&ny, &ys, NULL), PLIM_OK);
    fill_x(lab.data[x], t, nx, how, &lab.rng);
    double *xd = malloc((nx + 1) * sizeof *xd), *dyd = malloc((ny + 1) * sizeof *dyd), *want = calloc(ny + 1, sizeof *want),
        *want_dx = calloc(nx + 1, sizeof *want_dx);
    plim__convert(xd, PLIM_F64, lab.data[x], t, nx);
    plim__convert(dyd, PLIM_F64, lab.data[dy], t, ny);
    define(p, &c->x, &ys, xd, dyd, want, want_dx);
    for (int round = 0; round < 4; round++) { /* each draws other cuts and other layouts */
        parts_run(lab.g, lab.data, round == 0 ? PARTS_WHOLE : PARTS_CUT, &lab.rng);
        compare(c->name, "y", lab.g, lab.data, y, want);
        compare(c->name, "dx", lab.g, lab.data, dx, want_dx);
    }
    free(xd), free(dyd), free(want), free(want_dx);
    parts_lab_free(&lab);
}

static void each_pool(const pool_case *c, void (*fn)(const pool_case *c, const plim__pool *p, uint64_t seed), uint64_t seed)
{
    for (int sort = 0; sort < 6; sort++) {
        plim__pool p = c->pool;
        p.average = sort % 3 > 0;
        p.count_border = sort % 3 == 2;
        p.round_up = sort >= 3;
        fn(c, &p, seed);
    }
}

static void check_all(const pool_case *c, const plim__pool *p, uint64_t seed)
{
    for (int t = 0; t < 2; t++)
        for (int how = FILL_ANY; how <= (p->average ? FILL_ANY : FILL_NAN); how++) check(c, p, t ? PLIM_F64 : PLIM_F32, (fill)how, seed);
}

static void test_against_definition(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++) each_pool(&cases[k], check_all, k);
}

/* Distinct values, further apart than the differences step: the largest stays the largest. */
static void check_slope(const pool_case *c, const plim__pool *p, uint64_t seed)
{
    uint32_t y;
    uint64_t n;
    assert_int_equal(plim_shape_count(&n, &c->x, NULL), PLIM_OK);
    if (n == 0 || n > 1000) return;
    parts_lab lab = parts_lab_new(seed + 5);
    const uint32_t x = parts_lab_input(&lab, PLIM_F64, &c->x);
    double *v = lab.data[x];
    for (uint64_t i = 0; i < n; i++) v[i] = (double)i;
    for (uint64_t i = n; i-- > 1;) {
        const uint64_t j = parts_random(&lab.rng, (uint32_t)i + 1);
        const double was = v[i];
        v[i] = v[j], v[j] = was;
    }
    assert_int_equal(plim__op_pool(lab.g, x, p, &y, NULL), PLIM_OK);
    const char *wrong = grads_check(lab.g, lab.data, y, &(grads_how){.h = 0.25, .atol = 1e-4, .rtol = 1e-5, .samples = 10}, &lab.rng);
    if (wrong) fail_msg("%s", wrong);
    parts_lab_free(&lab);
}

static void test_gradients(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        if (!strstr(cases[k].name, "windows that miss")) each_pool(&cases[k], check_slope, k); /* the largest of nothing is infinite */
}

/* How many windows there are, rounded up or not, and what the last of them counts. */
static void test_rounding(void **state)
{
    (void)state;
    static const struct { int64_t n, size, stride, before, after, down, up; } rows[] = {
        {7, 2, 2, 0, 0, 3, 4}, {8, 2, 2, 0, 0, 4, 4}, {7, 3, 2, 1, 1, 4, 4}, {8, 3, 2, 1, 1, 4, 5}, {5, 3, 3, 1, 1, 2, 2}, {2, 2, 3, 0, 1, 1, 1}, {6,
            2, 4, 1, 0, 2, 2}, {9, 3, 4, 2, 2, 3, 3},
    };
    for (size_t k = 0; k < COUNT_OF(rows); k++)
        for (int up = 0; up < 2; up++) {
            parts_lab lab = parts_lab_new(k);
            uint32_t y;
            const plim_shape s = {3, {1, 1, rows[k].n}};
            const plim__pool p = {.space = 1, .size = {rows[k].size}, .stride = {rows[k].stride}, .dilation = {1}, .before = {rows[k].before},
                .after = {rows[k].after}, .round_up = up};
            const uint32_t x = parts_lab_input(&lab, PLIM_F32, &s);
            assert_int_equal(plim__op_pool(lab.g, x, &p, &y, NULL), PLIM_OK);
            assert_int_equal(lab.g->value[y].shape.dim[2], up ? rows[k].up : rows[k].down);
            parts_lab_free(&lab);
        }
}

static void test_refusals(void **state)
{
    (void)state;
    const plim_shape xs = {4, {2, 3, 8, 9}}, flat = {3, {2, 3, 8}};
    const plim__pool good = {.space = 2, .size = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    parts_lab lab = parts_lab_new(3);
    uint32_t y, v;
    plim_error err = {0};
    const uint32_t x = parts_lab_input(&lab, PLIM_F32, &xs), i = parts_lab_input(&lab, PLIM_I32, &xs), line = parts_lab_input(&lab, PLIM_F32, &flat);
    assert_int_equal(plim__op_pool(lab.g, x, &good, &y, NULL), PLIM_OK);
    assert_int_equal(plim__op_pool(lab.g, i, &good, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_pool(lab.g, line, &good, &v, NULL), PLIM_E_SHAPE);
    plim__pool p = good;
    p.size[0] = 0;
    assert_int_equal(plim__op_pool(lab.g, x, &p, &v, NULL), PLIM_E_SHAPE);
    p = good, p.size[1] = 10;
    assert_int_equal(plim__op_pool(lab.g, x, &p, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "a window over 10 elements in dimension 1 of space, which has 9"));
    p = good, p.stride[0] = 0;
    assert_int_equal(plim__op_pool(lab.g, x, &p, &v, NULL), PLIM_E_INVALID);
    p = good, p.before[0] = 2;
    assert_int_equal(plim__op_pool(lab.g, x, &p, &v, NULL), PLIM_E_INVALID);
    p = good, p.after[1] = -1;
    assert_int_equal(plim__op_pool(lab.g, x, &p, &v, NULL), PLIM_E_INVALID);
    p = good, p.space = 4;
    assert_int_equal(plim__op_pool(lab.g, x, &p, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_pool_back(lab.g, x, y, x, &good, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_pool_back(lab.g, x, x, y, &good, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_pool_back(lab.g, i, y, y, &good, &v, NULL), PLIM_E_TYPE);
    p = good, p.average = true;
    assert_int_equal(plim__op_pool_back(lab.g, i, i, y, &p, &v, NULL), PLIM_OK); /* a mean looks at neither */
    assert_int_equal(lab.g->node[lab.g->value[v].node].n_in, 1);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_against_definition), cmocka_unit_test(test_gradients), cmocka_unit_test(test_rounding), cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
