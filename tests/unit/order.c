/* Sorting, selecting and the k best: against the C library's qsort, whole and cut, in every layout. */
#include "unit.h"

#include "kernels/order.h"
#include "parts.h"

#define VALUES 64

typedef struct item {
    double value;
    int64_t pos;
} item;

/* Ascending, NaN last, equal ones by position. */
static int item_compare(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? 1 : -1;
    if (a->value != b->value && !isnan(a->value)) return a->value < b->value ? -1 : 1;
    return a->pos < b->pos ? -1 : a->pos > b->pos;
}

/* Descending: the values reversed, equal ones still by position. */
static int item_compare_down(const void *pa, const void *pb)
{
    const item *a = pa, *b = pb;
    if (isnan(a->value) != isnan(b->value)) return isnan(a->value) ? -1 : 1;
    if (a->value != b->value && !isnan(a->value)) return a->value > b->value ? -1 : 1;
    return a->pos < b->pos ? -1 : a->pos > b->pos;
}

typedef struct column {
    item *item;
    int64_t n, stride; /* stride: of the input, C order */
    uint64_t first;
} column;

/* Column c along `axis`: where it starts, and its elements. */
static column column_of(const void *x, plim_dtype t, const plim_shape *s, uint32_t axis, uint64_t c)
{
    uint64_t inner = 1;
    for (uint32_t d = axis + 1; d < s->rank; d++) inner *= (uint64_t)s->dim[d];
    column k = {.n = s->dim[axis], .stride = (int64_t)inner, .first = c / inner * inner * (uint64_t)s->dim[axis] + c % inner};
    k.item = malloc(((size_t)k.n + 1) * sizeof *k.item);
    for (int64_t i = 0; i < k.n; i++) k.item[i] = (item){parts_get(x, t, k.first + (uint64_t)(i * k.stride)), i};
    return k;
}

static void sprinkle(void *x, plim_dtype t, uint64_t n, uint64_t seed)
{
    if (!plim__dtype_is_float(t) || n < 8) return;
    parts_set(x, t, n / 4, -0.0);
    parts_set(x, t, n / 4 + 1, 0.0);
    parts_set(x, t, n / 4 + 2, -INFINITY);
    parts_set(x, t, n / 4 + 3, INFINITY);
    if (seed % 2) parts_set(x, t, n / 2, NAN);
}

typedef struct run {
    plim_graph *g;
    void *data[VALUES];
    parts_rng rng;
    uint32_t x;
    uint64_t n;
} run;

static run run_new(plim_dtype t, const plim_shape *s, uint64_t seed)
{
    run r = {.rng = {seed + 77}};
    assert_int_equal(plim__graph_new(&r.g, (plim__alloc){0}, NULL), PLIM_OK);
    r.x = parts_input(r.g, r.data, t, s, &r.rng);
    assert_int_equal(plim_shape_count(&r.n, s, NULL), PLIM_OK);
    sprinkle(r.data[r.x], t, r.n, seed);
    return r;
}

static void run_free(run *r)
{
    parts_free(r->g, r->data);
    plim__graph_free(&r->g);
}

static void same(double got, double want, const char *what, int64_t i)
{
    if (!parts_close(got, want, 0, 0)) fail_msg("%s: element %lld is %.17g, not %.17g", what, (long long)i, got, want);
}

static const struct {
    plim_shape shape;
    uint32_t axis;
} cases[] = {
    {{1, {1}}, 0}, {{1, {17}}, 0}, {{1, {900}}, 0}, {{1, {5000}}, 0}, {{2, {30, 40}}, 0}, {{2, {30, 40}}, 1}, {{3, {5, 60, 7}}, 1}, {{2, {2000, 3}}, 0},
};

static void check_sort(plim_dtype t, const plim_shape *s, uint32_t axis, bool down, uint64_t seed)
{
    run r = run_new(t, s, seed);
    uint32_t values, positions;
    assert_int_equal(plim__op_sort(r.g, r.x, axis, down, &values, &positions, NULL), PLIM_OK);
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(r.g, r.data, mode, &r.rng);
        for (uint64_t c = 0; c < r.n / (uint64_t)s->dim[axis]; c++) {
            const column k = column_of(r.data[r.x], t, s, axis, c);
            qsort(k.item, (size_t)k.n, sizeof *k.item, down ? item_compare_down : item_compare);
            for (int64_t i = 0; i < k.n; i++) {
                const uint64_t at = k.first + (uint64_t)(i * k.stride);
                same(parts_get(r.data[values], t, at), k.item[i].value, "sorted", i);
                assert_int_equal(((int64_t *)r.data[positions])[at], k.item[i].pos);
            }
            free(k.item);
        }
    }
    run_free(&r);
}

static void test_sort(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++)
            for (uint64_t seed = 0; seed < 4; seed++) check_sort((plim_dtype)t, &cases[k].shape, cases[k].axis, seed & 2, seed);
}

static void check_topk(plim_dtype t, const plim_shape *s, uint32_t axis, int64_t k, bool largest, uint64_t seed)
{
    run r = run_new(t, s, seed);
    uint32_t values, positions;
    assert_int_equal(plim__op_topk(r.g, r.x, k, axis, largest, &values, &positions, NULL), PLIM_OK);
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(r.g, r.data, mode, &r.rng);
        for (uint64_t c = 0; c < r.n / (uint64_t)s->dim[axis]; c++) {
            const column col = column_of(r.data[r.x], t, s, axis, c);
            const uint64_t first = c / (uint64_t)col.stride * (uint64_t)(col.stride * k) + c % (uint64_t)col.stride;
            qsort(col.item, (size_t)col.n, sizeof *col.item, largest ? item_compare_down : item_compare);
            for (int64_t i = 0; i < k; i++) {
                const uint64_t at = first + (uint64_t)(i * col.stride);
                same(parts_get(r.data[values], t, at), col.item[i].value, "topk", i);
                assert_int_equal(((int64_t *)r.data[positions])[at], col.item[i].pos);
            }
            free(col.item);
        }
    }
    run_free(&r);
}

static void test_topk(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(cases); c++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++)
            for (uint64_t seed = 0; seed < 4; seed++) {
                const int64_t n = cases[c].shape.dim[cases[c].axis];
                check_topk((plim_dtype)t, &cases[c].shape, cases[c].axis, plim__min(n, 1 + (int64_t)seed * 5), seed & 1, seed / 2);
            }
}

/* numpy.quantile's linear interpolation on a sorted column. */
static double quantile(const column *k, double q)
{
    if (isnan(k->item[k->n - 1].value)) return NAN;
    const double at = q * (double)(k->n - 1), t = at - floor(at);
    const double a = k->item[(int64_t)floor(at)].value, b = k->item[(int64_t)ceil(at)].value;
    return a == b ? a : t >= 0.5 ? b - (b - a) * (1 - t) : a + (b - a) * t;
}

static void check_select(plim_dtype t, const plim_shape *s, uint32_t axis, uint64_t seed)
{
    static const double fractions[] = {0.5, 0.25, 0.9, 0, 1, 0.333};
    run r = run_new(t, s, seed);
    const bool scalar = seed & 2;
    const plim_shape shape = {.rank = !scalar, .dim = {scalar ? 0 : COUNT_OF(fractions)}};
    uint32_t q, v;
    assert_int_equal(plim__graph_const(r.g, PLIM_F64, &shape, fractions, &q, NULL), PLIM_OK);
    assert_int_equal(plim__op_select(r.g, r.x, q, axis, seed & 1, &v, NULL), PLIM_OK);
    const uint64_t columns = r.n / (uint64_t)s->dim[axis];
    const plim_dtype out = r.g->value[v].dtype;
    for (int mode = PARTS_WHOLE; mode <= PARTS_CUT; mode++) {
        parts_run(r.g, r.data, mode, &r.rng);
        for (uint64_t c = 0; c < columns; c++) {
            const column k = column_of(r.data[r.x], t, s, axis, c);
            qsort(k.item, (size_t)k.n, sizeof *k.item, item_compare);
            for (uint64_t i = 0; i < (scalar ? 1 : COUNT_OF(fractions)); i++) {
                char rounded[8];
                parts_set(rounded, out, 0, quantile(&k, fractions[i]));
                same(parts_get(r.data[v], out, i * columns + c), parts_get(rounded, out, 0), "quantile", (int64_t)i);
            }
            free(k.item);
        }
    }
    run_free(&r);
}

static void test_select(void **state)
{
    (void)state;
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int t = 0; t < PLIM_DTYPE_COUNT; t++)
            for (uint64_t seed = 0; seed < 4; seed++) check_select((plim_dtype)t, &cases[k].shape, cases[k].axis, seed);
    run r = run_new(PLIM_F32, &(plim_shape){1, {4}}, 0);
    const double bad = 1.5;
    uint32_t q, v;
    plim_error err = {0};
    assert_int_equal(plim__graph_const(r.g, PLIM_F64, &(plim_shape){0}, &bad, &q, NULL), PLIM_OK);
    assert_int_equal(plim__op_select(r.g, r.x, q, 0, false, &v, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "1.5"));
    run_free(&r);
}

/* Patterns that are bad for a quickselect with the median of three, at a size where quadratic time would be seen. */
static void test_select_patterns(void **state)
{
    (void)state;
    const int64_t n = 200000;
    uint32_t *a = malloc((size_t)n * sizeof *a);
    uint64_t *b = malloc((size_t)n * sizeof *b);
    for (int pattern = 0; pattern < 6; pattern++) {
        for (int64_t k = 0; k < n; k += n / 3) {
            for (int64_t i = 0; i < n; i++) {
                const int64_t half = n / 2, killer = i < half ? (i % 2 ? half + i : i + 1) : 2 * (i - half + 1);
                const int64_t v[] = {i, n - i, i < half ? i : n - i, 7, killer, i % 3};
                a[i] = (uint32_t)v[pattern];
                b[i] = (uint64_t)v[pattern] << 40;
            }
            plim__select32(a, n, k);
            plim__select64(b, n, k);
            for (int64_t i = 0; i < n; i++) {
                assert_true(i < k ? a[i] <= a[k] : a[i] >= a[k]);
                assert_true(i < k ? b[i] <= b[k] : b[i] >= b[k]);
            }
        }
    }
    free(a);
    free(b);
}

/* Keys keep the order and come back as the element. */
static void test_keys(void **state)
{
    (void)state;
    static const double v[] = {-INFINITY, -1e4, -2.5, -1, -0x1p-14, 0, 0x1p-14, 0.5, 1, 3, 60000, INFINITY};
    for (int t = PLIM_F16; t <= PLIM_F64; t++) {
        uint64_t before = 0;
        for (size_t i = 0; i < COUNT_OF(v); i++) {
            char raw[8];
            uint64_t key = 0;
            uint32_t narrow;
            parts_set(raw, (plim_dtype)t, 0, v[i]);
            if (plim__key_wide((plim_dtype)t)) plim__keys64(&key, raw, (plim_dtype)t, 1, 1);
            else plim__keys32(&narrow, raw, (plim_dtype)t, 1, 1), key = narrow;
            assert_true(i == 0 || key > before);
            assert_true(plim__key_value((plim_dtype)t, key) == parts_get(raw, (plim_dtype)t, 0));
            before = key;
        }
        assert_true(plim__key_max((plim_dtype)t) > before);
        assert_true(isnan(plim__key_value((plim_dtype)t, plim__key_max((plim_dtype)t))));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keys), cmocka_unit_test(test_sort), cmocka_unit_test(test_topk), cmocka_unit_test(test_select),
        cmocka_unit_test(test_select_patterns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
