/* The elementwise and shape rows: their results against a definition element by element, and the property that everything is built on:
 * a part of the output, run with input boxes cut to exactly what the row says it reads, equals the same part of the whole. */
#include "core/size.h"
#include "ops/ops.h"
#include "unit.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_CASE_IN 4

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

/* ------------------------------------------------------------------------------------------------ a node run */

static bool next_index(int64_t *at, const plim__region *r)
{
    for (uint32_t d = r->rank; d-- > 0;) {
        if (++at[d] < r->dim[d].hi) return true;
        at[d] = r->dim[d].lo;
    }
    return false;
}

/* How a box lies in memory. */
typedef enum layout { DENSE, FORTRAN, INSIDE, LARGER, LAYOUT_COUNT } layout;

typedef struct box {
    plim__view view;
    char *memory;
} box;

/* A box of `r` in a tensor of `shape`, everything in its memory NaN. DENSE and FORTRAN are exactly as large as the box; INSIDE lies in a block as large
 * as the tensor; LARGER says that it holds more than `r` (where there is more) although that is poison. */
static box make_box(const plim__region *r, const plim_shape *shape, plim_dtype dtype, layout how)
{
    const plim__region whole = plim__region_whole(shape);
    const bool large = how == INSIDE || how == LARGER;
    const plim__region held = large ? whole : *r;
    const uint64_t bytes = plim__region_count(&held) * plim_dtype_bytes(dtype);
    box b = {.memory = malloc(bytes ? bytes : 1)};
    assert_non_null(b.memory);
    memset(b.memory, 0xff, bytes);
    b.view = plim__view_dense(b.memory, dtype, &held);
    if (how == FORTRAN) {
        int64_t step = 1;
        for (uint32_t d = 0; d < r->rank; d++) {
            b.view.stride[d] = step;
            step *= b.view.n[d];
        }
    }
    if (how == INSIDE) b.view = plim__view_part(&b.view, r);
    return b;
}

static void fill_box(box *b, const plim__region *r, const plim__view *from)
{
    int64_t at[PLIM_MAX_RANK];
    for (uint32_t d = 0; d < r->rank; d++) at[d] = r->dim[d].lo;
    if (plim__region_count(r) == 0) return;
    do memcpy(plim__view_at(&b->view, at), plim__view_at(from, at), plim_dtype_bytes(from->dtype));
    while (next_index(at, r));
}

/* Runs the part `axis` of the node that makes `v` into a new box; inputs are constants. */
static box run_part(const plim_graph *g, uint32_t v, const plim__range *axis, layout in_how, layout out_how)
{
    const plim__node *n = &g->node[g->value[v].node];
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes = {0};
    row->axes(g, n, &axes);
    plim__view in[MAX_CASE_IN];
    box held[MAX_CASE_IN];
    assert_true(n->n_in <= MAX_CASE_IN);
    for (uint32_t k = 0; k < n->n_in; k++) {
        const plim__value *x = plim__in(g, n, k);
        const plim__region all = plim__region_whole(&x->shape);
        const plim__view source = plim__view_dense((void *)x->data, x->dtype, &all);
        plim__region need;
        plim__region_reads(g, n, k, axis, &need);
        assert_true(plim__region_inside(&need, &all));
        held[k] = make_box(&need, &x->shape, x->dtype, in_how);
        fill_box(&held[k], &need, &source);
        in[k] = held[k].view;
    }
    plim__region written;
    plim__region_writes(g, n, &axes, 0, axis, &written);
    box out = make_box(&written, &g->value[v].shape, g->value[v].dtype, out_how);
    assert_null(row->scratch);
    const plim__call call = {.graph = g, .node = n, .in = in, .out = &out.view, .axis = axis, .threads = 1};
    row->run(&call);
    for (uint32_t k = 0; k < n->n_in; k++) free(held[k].memory);
    return out;
}

/* A random part: axes that cannot be cut stay whole. */
static void random_part(uint64_t *state, const plim__axes *axes, plim__range *part)
{
    for (uint32_t a = 0; a < axes->n; a++) {
        part[a] = (plim__range){0, axes->axis[a].extent};
        if (axes->axis[a].kind == PLIM__WHOLE || next_random(state) % 4 == 0 || axes->axis[a].extent == 0) continue;
        assert_int_equal(axes->axis[a].kind, PLIM__PARALLEL);
        part[a].lo = (int64_t)next_random(state) % axes->axis[a].extent;
        part[a].hi = part[a].lo + 1 + (int64_t)next_random(state) % (axes->axis[a].extent - part[a].lo);
    }
}

static void check_parts(const plim_graph *g, uint32_t v, const box *whole, const char *what)
{
    const plim__node *n = &g->node[g->value[v].node];
    plim__axes axes = {0};
    plim__op_row_of(n->op)->axes(g, n, &axes);
    uint64_t state = 17;
    for (int trial = 0; trial < 120; trial++) {
        plim__range part[PLIM__MAX_AXES];
        random_part(&state, &axes, part);
        const layout in_how = (layout)(next_random(&state) % LAYOUT_COUNT), out_how = (layout)(next_random(&state) % LARGER);
        box got = run_part(g, v, part, in_how, out_how);
        const plim__region r = plim__view_region(&got.view);
        int64_t at[PLIM_MAX_RANK];
        for (uint32_t d = 0; d < r.rank; d++) at[d] = r.dim[d].lo;
        if (plim__region_count(&r) > 0) do {
                if (memcmp(plim__view_at(&got.view, at), plim__view_at(&whole->view, at), plim_dtype_bytes(got.view.dtype)))
                    fail_msg("%s: trial %d (layouts %d, %d) differs at %lld,%lld,%lld", what, trial, in_how, out_how, (long long)at[0],
                             (long long)at[1], (long long)at[2]);
            } while (next_index(at, &r));
        free(got.memory);
    }
}

/* ------------------------------------------------------------------------------------------------- graphs */

static plim_graph *new_graph(void)
{
    plim_graph *g = NULL;
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, NULL), PLIM_OK);
    return g;
}

static plim_shape shape_of(const char *text)
{
    plim_shape s;
    assert_int_equal(plim_shape_parse(&s, text, NULL), PLIM_OK);
    return s;
}

/* A constant of 1, 2, 3 ... (plus `from`). */
static uint32_t counting(plim_graph *g, plim_dtype dtype, const char *shape, double from)
{
    const plim_shape s = shape_of(shape);
    uint64_t count;
    assert_int_equal(plim_shape_count(&count, &s, NULL), PLIM_OK);
    char *data = malloc(count * 8 + 1);
    for (uint64_t i = 0; i < count; i++) {
        const double x = from + (double)(i + 1);
        plim__convert(data + i * plim_dtype_bytes(dtype), dtype, &x, PLIM_F64, 1);
    }
    uint32_t v = PLIM__NONE;
    assert_int_equal(plim__graph_const(g, dtype, &s, data, &v, NULL), PLIM_OK);
    free(data);
    return v;
}

static uint32_t indices(plim_graph *g, const int64_t *at, int64_t count, bool scalar)
{
    const plim_shape s = {.rank = scalar ? 0 : 1, .dim = {count}};
    uint32_t v = PLIM__NONE;
    assert_int_equal(plim__graph_const(g, PLIM_I64, &s, at, &v, NULL), PLIM_OK);
    return v;
}

static box run_whole(const plim_graph *g, uint32_t v)
{
    const plim__node *n = &g->node[g->value[v].node];
    plim__axes axes = {0};
    plim__op_row_of(n->op)->axes(g, n, &axes);
    assert_true(plim__op_row_of(n->op)->work(g, n).amount > 0);
    plim__range all[PLIM__MAX_AXES];
    for (uint32_t a = 0; a < axes.n; a++) all[a] = (plim__range){0, axes.axis[a].extent};
    return run_part(g, v, all, DENSE, DENSE);
}

static double element(const box *b, const int64_t *at)
{
    double x;
    plim__convert(&x, PLIM_F64, plim__view_at(&b->view, at), b->view.dtype, 1);
    return x;
}

/* The number that `counting` put at index `at` of a shape: its position in C order. */
static double counted(const plim_shape *s, const int64_t *at)
{
    int64_t i = 0;
    for (uint32_t d = 0; d < s->rank; d++) i = i * s->dim[d] + at[d];
    return (double)(i + 1);
}

/* Checks the whole against want(ctx, index), then the parts. */
static void check(const plim_graph *g, uint32_t v, double (*want)(const void *ctx, const int64_t *at), const void *ctx, const char *what)
{
    box whole = run_whole(g, v);
    const plim__region r = plim__region_whole(&g->value[v].shape);
    int64_t at[PLIM_MAX_RANK] = {0};
    if (plim__region_count(&r) > 0) do {
            if (element(&whole, at) != want(ctx, at))
                fail_msg("%s: %g, not %g, at %lld,%lld,%lld", what, element(&whole, at), want(ctx, at), (long long)at[0], (long long)at[1],
                         (long long)at[2]);
        } while (next_index(at, &r));
    check_parts(g, v, &whole, what);
    free(whole.memory);
}

static void assert_shape(const plim_graph *g, uint32_t v, const char *text)
{
    const plim_shape s = shape_of(text);
    char have[160];
    if (!plim__shape_equal(&g->value[v].shape, &s)) fail_msg("shape %s, not %s", plim_shape_format(have, sizeof have, &g->value[v].shape), text);
}

/* -------------------------------------------------------------------------------------------- elementwise */

typedef struct add_case {
    plim_shape a, b, out;
} add_case;

static void project(const plim_shape *from, const plim_shape *out, const int64_t *at, int64_t *to)
{
    for (uint32_t d = 0; d < from->rank; d++) to[d] = from->dim[d] == 1 ? 0 : at[d + out->rank - from->rank];
}

static double added(const void *ctx, const int64_t *at)
{
    const add_case *c = ctx;
    int64_t a[PLIM_MAX_RANK], b[PLIM_MAX_RANK];
    project(&c->a, &c->out, at, a);
    project(&c->b, &c->out, at, b);
    return counted(&c->a, a) + 1000 * counted(&c->b, b);
}

static void test_elementwise(void **unused)
{
    (void)unused;
    static const char *const shapes[][3] = {
        {"7x5", "7x5", "7x5"}, {"7x5", "5", "7x5"}, {"7x1", "5", "7x5"}, {"7x5", "", "7x5"}, {"", "", ""},
        {"1x4x1", "3x1x6", "3x4x6"}, {"6", "2x3x1", "2x3x6"}, {"1", "1x1", "1x1"}, {"2x3x4x5", "3x1x5", "2x3x4x5"}, {"0x3", "3", "0x3"},
    };
    for (size_t k = 0; k < COUNT_OF(shapes); k++) {
        plim_graph *g = new_graph();
        const uint32_t a = counting(g, PLIM_F32, shapes[k][0], 0);
        uint32_t thousands, v;
        const plim_shape sb = shape_of(shapes[k][1]);
        uint64_t count;
        assert_int_equal(plim_shape_count(&count, &sb, NULL), PLIM_OK);
        int32_t *data = malloc(count * sizeof *data + 1);
        for (uint64_t i = 0; i < count; i++) data[i] = (int32_t)(1000 * (i + 1));
        assert_int_equal(plim__graph_const(g, PLIM_I32, &sb, data, &thousands, NULL), PLIM_OK);
        free(data);
        const uint32_t in[2] = {a, thousands};
        assert_int_equal(plim__op_elementwise(g, PLIM__EW_ADD, PLIM_F64, PLIM_F32, in, 2, &v, NULL), PLIM_OK);
        assert_shape(g, v, shapes[k][2]);
        const add_case c = {shape_of(shapes[k][0]), sb, shape_of(shapes[k][2])};
        check(g, v, added, &c, shapes[k][2]);
        plim__graph_free(&g);
    }
}

static void test_elementwise_refuses(void **unused)
{
    (void)unused;
    plim_graph *g = new_graph();
    const uint32_t a = counting(g, PLIM_F32, "3x4", 0), b = counting(g, PLIM_F32, "5", 0), in[3] = {a, b, a};
    uint32_t v;
    plim_error err = {0};
    assert_int_equal(plim__op_elementwise(g, PLIM__EW_ADD, PLIM_F32, PLIM_F32, in, 2, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "[3,4] and [5]"));
    assert_int_equal(plim__op_elementwise(g, PLIM__EW_ADD, PLIM_F32, PLIM_F32, in, 1, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_elementwise(g, PLIM__EW_NEG, PLIM_F16, PLIM_F32, in, 1, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_elementwise(g, PLIM__EW_EXP, PLIM_I64, PLIM_F32, in, 1, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_elementwise(g, PLIM__EW_BIT_NOT, PLIM_F32, PLIM_F32, in, 1, &v, NULL), PLIM_E_TYPE);
    plim__graph_free(&g);
}

static double same_number(const void *ctx, const int64_t *at) { return counted(ctx, at); }

static void test_cast(void **unused)
{
    (void)unused;
    plim_graph *g = new_graph();
    const uint32_t x = counting(g, PLIM_F32, "4x9", 0);
    uint32_t v;
    assert_int_equal(plim__op_cast(g, x, PLIM_F32, &v, NULL), PLIM_OK);
    assert_int_equal(v, x);
    for (plim_dtype to = PLIM_U8; to < PLIM_DTYPE_COUNT; to++) {
        if (to == PLIM_F32) continue;
        assert_int_equal(plim__op_cast(g, x, to, &v, NULL), PLIM_OK);
        assert_int_equal(g->value[v].dtype, to);
        check(g, v, same_number, &g->value[x].shape, plim_dtype_name(to));
    }
    plim__graph_free(&g);
}

/* ----------------------------------------------------------------------------------- transpose, slice, broadcast */

typedef struct moved {
    plim_shape in;
    uint32_t perm[PLIM_MAX_RANK];
    int64_t start[PLIM_MAX_RANK], step[PLIM_MAX_RANK];
} moved;

static double transposed(const void *ctx, const int64_t *at)
{
    const moved *c = ctx;
    int64_t from[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 0; d < c->in.rank; d++) from[c->perm[d]] = at[d];
    return counted(&c->in, from);
}

static void test_transpose(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape;
        uint32_t perm[4];
    } cases[] = {{"6x9", {1, 0}}, {"6x9", {0, 1}}, {"4x5x6", {2, 0, 1}}, {"4x5x6", {0, 2, 1}}, {"2x3x4x5", {3, 1, 0, 2}}, {"", {0}}, {"7", {0}}, {"40x70", {1, 0}}};
    static const plim_dtype dtypes[] = {PLIM_U16, PLIM_F32, PLIM_F64};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g = new_graph();
        const uint32_t x = counting(g, dtypes[k % 3], cases[k].shape, 0);
        uint32_t v;
        assert_int_equal(plim__op_transpose(g, x, cases[k].perm, &v, NULL), PLIM_OK);
        moved c = {.in = g->value[x].shape};
        memcpy(c.perm, cases[k].perm, sizeof cases[k].perm);
        check(g, v, transposed, &c, cases[k].shape);
        plim__graph_free(&g);
    }
    plim_graph *g = new_graph();
    uint32_t v;
    assert_int_equal(plim__op_transpose(g, counting(g, PLIM_F32, "2x3", 0), (const uint32_t[]){0, 0}, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_transpose(g, counting(g, PLIM_F32, "2x3", 0), (const uint32_t[]){0, 2}, &v, NULL), PLIM_E_SHAPE);
    plim__graph_free(&g);
}

static double sliced(const void *ctx, const int64_t *at)
{
    const moved *c = ctx;
    int64_t from[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 0; d < c->in.rank; d++) from[d] = c->start[d] + c->step[d] * at[d];
    return counted(&c->in, from);
}

static void test_slice(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape;
        int64_t start[3], step[3], count[3];
    } cases[] = {
        {"10", {2}, {1}, {5}}, {"10", {9}, {-1}, {10}}, {"10", {8}, {-3}, {3}}, {"10", {0}, {4}, {3}}, {"10", {3}, {1}, {0}},
        {"8x9", {1, 8}, {2, -2}, {3, 4}}, {"4x5x6", {3, 0, 5}, {-1, 1, -1}, {4, 5, 6}}, {"4x5x6", {0, 2, 0}, {1, 7, 1}, {4, 1, 6}},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g = new_graph();
        const uint32_t x = counting(g, PLIM_F32, cases[k].shape, 0);
        uint32_t v;
        assert_int_equal(plim__op_slice(g, x, cases[k].start, cases[k].step, cases[k].count, &v, NULL), PLIM_OK);
        moved c = {.in = g->value[x].shape};
        memcpy(c.start, cases[k].start, sizeof cases[k].start);
        memcpy(c.step, cases[k].step, sizeof cases[k].step);
        check(g, v, sliced, &c, cases[k].shape);
        plim__graph_free(&g);
    }
    plim_graph *g = new_graph();
    const uint32_t x = counting(g, PLIM_F32, "10", 0);
    uint32_t v;
    static const int64_t bad[][3] = {{0, 0, 3}, {0, 1, 11}, {10, 1, 1}, {-1, 1, 1}, {5, -1, 7}, {5, INT64_MAX, 3}, {5, INT64_MIN, 2}, {0, 1, -1}};
    for (size_t k = 0; k < COUNT_OF(bad); k++)
        assert_int_not_equal(plim__op_slice(g, x, &bad[k][0], &bad[k][1], &bad[k][2], &v, NULL), PLIM_OK);
    plim__graph_free(&g);
}

typedef struct spread {
    plim_shape in, out;
} spread;

static double repeated(const void *ctx, const int64_t *at)
{
    const spread *c = ctx;
    int64_t from[PLIM_MAX_RANK] = {0};
    project(&c->in, &c->out, at, from);
    return counted(&c->in, from);
}

static void test_broadcast(void **unused)
{
    (void)unused;
    static const char *const cases[][2] = {{"5", "3x5"}, {"3x1", "3x5"}, {"", "2x3"}, {"1x4x1", "3x4x5"}, {"3x5", "3x5"}, {"1", "1x1x7"}};
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g = new_graph();
        const spread c = {shape_of(cases[k][0]), shape_of(cases[k][1])};
        uint32_t v;
        assert_int_equal(plim__op_broadcast(g, counting(g, PLIM_I16, cases[k][0], 0), &c.out, &v, NULL), PLIM_OK);
        check(g, v, repeated, &c, cases[k][1]);
        plim__graph_free(&g);
    }
    plim_graph *g = new_graph();
    const plim_shape to = shape_of("3x5");
    plim_error err = {0};
    uint32_t v;
    assert_int_equal(plim__op_broadcast(g, counting(g, PLIM_F32, "4", 0), &to, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "[4] does not broadcast to [3,5]"));
    assert_int_equal(plim__op_broadcast(g, counting(g, PLIM_F32, "1x3x5", 0), &to, &v, NULL), PLIM_E_SHAPE);
    plim__graph_free(&g);
}

/* ------------------------------------------------------------------------------------------------- reshape */

static void test_reshape(void **unused)
{
    (void)unused;
    static const char *const cases[][2] = {
        {"12", "3x4"}, {"3x4", "12"}, {"3x4", "4x3"}, {"6x4", "8x3"}, {"2x3x4", "6x2x2"}, {"2x3x4", "24"}, {"24", "2x3x4"}, {"2x3x4", "4x3x2"},
        {"10x6", "20x3"}, {"20x3", "10x6"}, {"10x6", "4x15"}, {"1x12x1", "3x1x4"}, {"1", ""}, {"", "1x1x1"}, {"1x1", "1"}, {"7x1x5", "7x5"},
        {"7x5", "1x7x1x5x1"}, {"6x10x7", "60x7"}, {"60x7", "6x10x7"}, {"4x9x10", "6x6x2x5"}, {"0x4", "2x0"}, {"0x4", "4x0x3"}, {"3x1x4", "1x12"},
        {"5x1", "1x5"}, {"2x2x2x2x2x2x2x2", "16x16"}, {"16x16", "2x2x2x2x2x2x2x2"}, {"50x30", "30x50"}, {"13x7", "7x13"},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g = new_graph();
        const plim_shape to = shape_of(cases[k][1]);
        uint32_t v;
        assert_int_equal(plim__op_reshape(g, counting(g, k % 2 ? PLIM_F32 : PLIM_F64, cases[k][0], 0), &to, &v, NULL), PLIM_OK);
        assert_shape(g, v, cases[k][1]);
        check(g, v, same_number, &to, cases[k][1]);
        plim__graph_free(&g);
    }
    plim_graph *g = new_graph();
    const plim_shape to = shape_of("5x2");
    plim_error err = {0};
    uint32_t v;
    assert_int_equal(plim__op_reshape(g, counting(g, PLIM_F32, "3x4", 0), &to, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "[3,4] has 12 elements, [5,2] has 10"));
    plim__graph_free(&g);
}

/* A reshape that only splits or joins leading rows can be cut there, and reads no more than it must. */
static void test_reshape_reads_little(void **unused)
{
    (void)unused;
    plim_graph *g = new_graph();
    const plim_shape to = shape_of("20x3x7");
    uint32_t v;
    assert_int_equal(plim__op_reshape(g, counting(g, PLIM_F32, "10x6x7", 0), &to, &v, NULL), PLIM_OK);
    const plim__node *n = &g->node[g->value[v].node];
    plim__axes axes = {0};
    plim__op_row_of(n->op)->axes(g, n, &axes);
    assert_int_equal(axes.axis[0].kind, PLIM__PARALLEL);
    assert_int_equal(axes.axis[1].kind, PLIM__WHOLE);
    assert_int_equal(axes.axis[2].kind, PLIM__PARALLEL);
    const plim__range part[3] = {{4, 7}, {0, 3}, {2, 5}};
    plim__region r;
    plim__region_reads(g, n, 0, part, &r);
    const plim__region want = {.rank = 3, .dim = {{2, 4}, {0, 6}, {2, 5}}};
    assert_true(plim__region_equal(&r, &want));
    plim__graph_free(&g);
}

/* ---------------------------------------------------------------------------------------- concat, pad, take */

typedef struct joined {
    uint32_t axis, n;
    plim_shape in[MAX_CASE_IN];
} joined;

static double concatenated(const void *ctx, const int64_t *at)
{
    const joined *c = ctx;
    int64_t from[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 0; d < c->in[0].rank; d++) from[d] = at[d];
    uint32_t k = 0;
    while (from[c->axis] >= c->in[k].dim[c->axis]) from[c->axis] -= c->in[k++].dim[c->axis];
    return counted(&c->in[k], from) + 100 * k;
}

static void test_concat(void **unused)
{
    (void)unused;
    static const struct {
        uint32_t axis, n;
        const char *shape[MAX_CASE_IN];
    } cases[] = {
        {0, 2, {"3x4", "5x4"}}, {1, 3, {"3x4", "3x1", "3x6"}}, {0, 1, {"5"}}, {0, 4, {"2", "1", "7", "3"}}, {2, 2, {"2x3x4", "2x3x5"}},
        {1, 2, {"2x3x4", "2x2x4"}}, {0, 3, {"2x3", "0x3", "1x3"}},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g = new_graph();
        joined c = {.axis = cases[k].axis, .n = cases[k].n};
        uint32_t in[MAX_CASE_IN], v;
        for (uint32_t i = 0; i < c.n; i++) {
            c.in[i] = shape_of(cases[k].shape[i]);
            in[i] = counting(g, PLIM_F32, cases[k].shape[i], 100 * i);
        }
        assert_int_equal(plim__op_concat(g, in, c.n, c.axis, &v, NULL), PLIM_OK);
        check(g, v, concatenated, &c, cases[k].shape[0]);
        plim__graph_free(&g);
    }
    plim_graph *g = new_graph();
    const uint32_t in[3] = {counting(g, PLIM_F32, "3x4", 0), counting(g, PLIM_F32, "3x5", 0), counting(g, PLIM_F64, "3x4", 0)};
    uint32_t v;
    assert_int_equal(plim__op_concat(g, in, 2, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_concat(g, in, 2, 2, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_concat(g, in, 0, 0, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_concat(g, (const uint32_t[]){in[0], in[2]}, 2, 0, &v, NULL), PLIM_E_TYPE);
    plim__graph_free(&g);
}

typedef struct padded {
    plim_shape in;
    plim__edge mode;
    int64_t before[3];
} padded;

static double padded_with(const void *ctx, const int64_t *at)
{
    const padded *c = ctx;
    int64_t from[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 0; d < c->in.rank; d++) {
        const int64_t n = c->in.dim[d];
        int64_t i = at[d] - c->before[d];
        const bool low = i < 0, high = i >= n;
        if (c->mode == PLIM__EDGE_CONSTANT && (low || high)) return -5;
        if (c->mode == PLIM__EDGE_EDGE || n == 1) i = plim__clamp(i, 0, n - 1);
        if (c->mode == PLIM__EDGE_REFLECT && n > 1) i = low ? -i : high ? 2 * (n - 1) - i : i;
        if (c->mode == PLIM__EDGE_SYMMETRIC) i = low && n > 1 ? -1 - i : high && n > 1 ? 2 * n - 1 - i : i;
        from[d] = i;
    }
    return counted(&c->in, from);
}

static void test_pad(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape;
        int64_t before[3], after[3];
    } cases[] = {
        {"7", {2}, {3}}, {"7", {0}, {6}}, {"7", {6}, {0}}, {"7", {0}, {0}}, {"5x6", {1, 2}, {3, 0}}, {"5x6", {4, 0}, {4, 5}}, {"3x4x5", {1, 1, 1}, {2, 2, 2}},
        {"1x4", {1, 2}, {1, 3}}, {"30", {3}, {2}},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        for (plim__edge mode = PLIM__EDGE_CONSTANT; mode <= PLIM__EDGE_SYMMETRIC; mode++) {
            plim_graph *g = new_graph();
            padded c = {.in = shape_of(cases[k].shape), .mode = mode};
            memcpy(c.before, cases[k].before, sizeof c.before);
            uint32_t v;
            assert_int_equal(plim__op_pad(g, counting(g, PLIM_F32, cases[k].shape, 0), cases[k].before, cases[k].after, mode, &(float){-5}, &v, NULL), PLIM_OK);
            check(g, v, padded_with, &c, cases[k].shape);
            plim__graph_free(&g);
        }
    }
    plim_graph *g = new_graph();
    const uint32_t x = counting(g, PLIM_F32, "4", 0);
    const int64_t none = 0, three = 3, four = 4, five = 5, minus = -1, huge = INT64_MAX;
    uint32_t v;
    assert_int_equal(plim__op_pad(g, x, &three, &none, PLIM__EDGE_REFLECT, 0, &v, NULL), PLIM_OK);
    assert_int_equal(plim__op_pad(g, x, &four, &none, PLIM__EDGE_REFLECT, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_pad(g, x, &none, &four, PLIM__EDGE_SYMMETRIC, 0, &v, NULL), PLIM_OK);
    assert_int_equal(plim__op_pad(g, x, &none, &five, PLIM__EDGE_SYMMETRIC, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_pad(g, x, &none, &minus, PLIM__EDGE_EDGE, 0, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_pad(g, x, &none, &none, PLIM__EDGE_VALID, 0, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_pad(g, x, &huge, &huge, PLIM__EDGE_CONSTANT, 0, &v, NULL), PLIM_E_OVERFLOW);
    plim__graph_free(&g);
}

typedef struct taken {
    plim_shape in;
    uint32_t axis;
    bool scalar;
    const int64_t *index;
} taken;

static double picked(const void *ctx, const int64_t *at)
{
    const taken *c = ctx;
    int64_t from[PLIM_MAX_RANK] = {0};
    for (uint32_t d = 0; d < c->in.rank; d++) {
        const int64_t i = c->scalar ? c->index[0] : c->index[at[c->axis]];
        from[d] = d < c->axis ? at[d] : d > c->axis ? at[d - c->scalar] : i < 0 ? i + c->in.dim[d] : i;
    }
    return counted(&c->in, from);
}

static void test_take(void **unused)
{
    (void)unused;
    static const struct {
        const char *shape;
        uint32_t axis;
        bool scalar;
        int64_t n, index[5];
        const char *out;
    } cases[] = {
        {"7", 0, false, 4, {6, 0, 0, -1}, "4"}, {"7", 0, true, 1, {-2}, ""}, {"5x6", 0, false, 3, {4, 1, 1}, "3x6"}, {"5x6", 1, false, 5, {0, 5, -6, 2, 3}, "5x5"},
        {"5x6", 1, true, 1, {3}, "5"}, {"5x6", 0, true, 1, {-1}, "6"}, {"3x4x5", 1, false, 2, {3, 0}, "3x2x5"}, {"3x4x5", 2, false, 3, {1, 1, 4}, "3x4x3"},
        {"3x4x5", 1, true, 1, {2}, "3x5"}, {"3x4", 0, false, 0, {0}, "0x4"},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++) {
        plim_graph *g = new_graph();
        const uint32_t x = counting(g, PLIM_F32, cases[k].shape, 0), at = indices(g, cases[k].index, cases[k].n, cases[k].scalar);
        const taken c = {shape_of(cases[k].shape), cases[k].axis, cases[k].scalar, cases[k].index};
        uint32_t v;
        assert_int_equal(plim__op_take(g, x, at, cases[k].axis, &v, NULL), PLIM_OK);
        assert_shape(g, v, cases[k].out);
        check(g, v, picked, &c, cases[k].out);
        plim__graph_free(&g);
    }
    plim_graph *g = new_graph();
    const uint32_t x = counting(g, PLIM_F32, "5x6", 0);
    uint32_t v;
    plim_error err = {0};
    assert_int_equal(plim__op_take(g, x, indices(g, (const int64_t[]){1, 5}, 2, false), 0, &v, &err), PLIM_E_SHAPE);
    assert_non_null(strstr(err.message, "index 5"));
    assert_int_equal(plim__op_take(g, x, indices(g, (const int64_t[]){-6}, 1, false), 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_take(g, x, indices(g, (const int64_t[]){0}, 1, false), 2, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_take(g, x, x, 0, &v, NULL), PLIM_E_TYPE);
    plim__graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_elementwise), cmocka_unit_test(test_elementwise_refuses), cmocka_unit_test(test_cast),
        cmocka_unit_test(test_transpose),   cmocka_unit_test(test_slice),               cmocka_unit_test(test_broadcast),
        cmocka_unit_test(test_reshape),     cmocka_unit_test(test_reshape_reads_little), cmocka_unit_test(test_concat),
        cmocka_unit_test(test_pad),         cmocka_unit_test(test_take),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
