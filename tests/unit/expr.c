/* The array language from text to graph: dtypes and shapes, elements against NumPy's, refusals with their columns, results, limits.
 *
 * Elements come from a plain interpreter over the op table: every node at once, over its whole loop nest. It shares nothing with the planner. */
#include "expr/expr.h"
#include "core/dtype.h"
#include "ops/ops.h"

#include "countdown.h"
#include "unit.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------- inputs */

enum { MAX_INPUTS = 24 };

typedef struct input {
    const char *name;
    plim_dtype dtype;
    plim_shape shape;
    double (*element)(int i); /* NULL: too large to be run */
} input;

static double x_at(int i) { return ((i * 7) % 11 - 4) * 0.5; }
static double y_at(int i) { return (i * 5) % 13 - 6; }
static double b_at(int i) { return (i * 3) % 7 < 3; }
static double h_at(int i) { return i * 0.25 - 0.5; }
static double u_at(int i) { return (const double[]){1, 100, 255}[i]; }
static double m_at(int i) { return (i * 3) % 17 / 4.0 - 1; }
static double c_at(int i) { return (const double[]){-128, -3, 0, 5, 127}[i]; }
static double w_at(int i) { return (const double[]){1, 0x1p40, 0x1p63}[i]; }
static double n_at(int i) { return (const double[]){1, NAN, -2, INFINITY, 0.5, NAN}[i]; }
static double k_at(int i) { return 3 + i; }
static double deep_at(int i) { return (i * 5) % 7; }
static double top_at(int i) { return (const double[]){-65504, 65504, 1, 65504}[i]; }
static double ends_at(int i) { return (const double[]){-0x1p63, 0x1p62, 0x1p62, 0}[i]; }
static double s_at(int i) { return (i * 7) % 5; }

static const input inputs[] = {
    {"x", PLIM_F32, {2, {4, 6}}, x_at},
    {"y", PLIM_I32, {2, {4, 6}}, y_at},
    {"b", PLIM_BOOL, {2, {4, 6}}, b_at},
    {"h", PLIM_F16, {1, {6}}, h_at},
    {"u", PLIM_U8, {1, {3}}, u_at},
    {"m", PLIM_F64, {2, {6, 5}}, m_at},
    {"c", PLIM_I8, {1, {5}}, c_at},
    {"w", PLIM_U64, {1, {3}}, w_at},
    {"n", PLIM_F32, {1, {6}}, n_at},
    {"k", PLIM_I64, {0, {0}}, k_at},
    {"s", PLIM_F32, {3, {2, 3, 4}}, s_at},
    {"top", PLIM_F16, {1, {4}}, top_at},
    {"ends", PLIM_I64, {1, {4}}, ends_at},
    {"big", PLIM_F32, {2, {3075200, 512}}, NULL},
    {"bf", PLIM_BF16, {1, {7}}, NULL},
    {"deep", PLIM_F32, {8, {2, 2, 2, 2, 2, 2, 2, 2}}, deep_at},
    {"none", PLIM_F32, {2, {0, 3}}, NULL},
};

typedef struct world {
    plim_graph *g;
    plim__expr_input in[MAX_INPUTS];
    plim__expr_result res[64];
    uint32_t n_res;
    plim_error err;
} world;

static void open_world(world *w, plim__alloc alloc)
{
    memset(w, 0, sizeof *w);
    assert_int_equal(plim__graph_new(&w->g, alloc, &w->err), PLIM_OK);
    for (uint32_t i = 0; i < COUNT_OF(inputs); i++) {
        const plim__source source = {.path = (char *)"nowhere"};
        w->in[i].name = inputs[i].name;
        assert_int_equal(plim__graph_file(w->g, inputs[i].name, inputs[i].dtype, &inputs[i].shape, &source, &w->in[i].value, &w->err), PLIM_OK);
    }
}

static plim_status build(world *w, const char *text)
{
    return plim__expr_build(w->g, text, w->in, COUNT_OF(inputs), w->res, COUNT_OF(w->res), &w->n_res, &w->err);
}

static void build_or_fail(world *w, const char *text)
{
    open_world(w, (plim__alloc){0});
    if (build(w, text) != PLIM_OK) fail_msg("%s: column %d: %s", text, w->err.column, w->err.message);
}

static const char *type_text(const world *w, uint32_t v, char *buf, size_t size)
{
    char shape[160];
    snprintf(buf, size, "%s%s", plim_dtype_name(w->g->value[v].dtype), plim_shape_format(shape, sizeof shape, &w->g->value[v].shape));
    return buf;
}

/* ---------------------------------------------------------------------------------------- interpreter */

static plim__view whole(const plim_graph *g, uint32_t v, void *data)
{
    const plim__region r = plim__region_whole(&g->value[v].shape);
    return plim__view_dense(data, g->value[v].dtype, &r);
}

static void *block(uint64_t bytes)
{
    void *p = aligned_alloc(64, (bytes / 64 + 1) * 64);
    assert_non_null(p);
    return memset(p, 0, (bytes / 64 + 1) * 64);
}

static void run_node(const plim_graph *g, const plim__node *n, void **data)
{
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes = {0};
    plim__view out[PLIM__MAX_OUT];
    plim__range part[PLIM__MAX_AXES];
    int64_t len[PLIM__MAX_AXES];
    bool empty = false;
    plim__view *many = block(n->n_in * sizeof *many);
    for (uint32_t k = 0; k < n->n_in; k++) many[k] = whole(g, n->in[k], data[n->in[k]]);
    for (uint32_t j = 0; j < n->n_out; j++) {
        data[n->out[j]] = block(g->value[n->out[j]].bytes);
        out[j] = whole(g, n->out[j], data[n->out[j]]);
    }
    row->axes(g, n, &axes);
    for (uint32_t a = 0; a < axes.n; a++) {
        part[a] = (plim__range){0, axes.axis[a].extent};
        len[a] = axes.axis[a].extent;
        empty |= len[a] == 0;
    }
    void *scratch = block(row->scratch ? row->scratch(g, n, len, 1) : 0);
    const plim__call call = {.graph = g, .node = n, .in = many, .out = out, .axis = part, .scratch = scratch, .threads = 1};
    if (row->init) row->init(&call);
    if (!empty) row->run(&call);
    free(scratch);
    free(many);
}

/* All values of the graph; free_data gives them back. */
static void **run(const plim_graph *g)
{
    void **data = calloc(g->n_values, sizeof *data);
    assert_non_null(data);
    for (uint32_t v = 0; v < g->n_values; v++) {
        const plim__value *value = &g->value[v];
        if (value->kind == PLIM__VALUE_NODE) continue;
        const input *in = v < COUNT_OF(inputs) ? &inputs[v] : NULL;
        if (in && !in->element) continue;
        data[v] = block(value->bytes);
        for (uint64_t i = 0; in && i < value->bytes / plim_dtype_bytes(value->dtype); i++) {
            const double f = in->element((int)i);
            plim__convert((char *)data[v] + i * plim_dtype_bytes(in->dtype), in->dtype, &f, PLIM_F64, 1);
        }
        if (in && in->dtype == PLIM_U64) ((uint64_t *)data[v])[2] = (UINT64_C(1) << 63) + 5; /* no double has it */
        if (!in) memcpy(data[v], value->data, value->bytes);
    }
    for (uint32_t i = 0; i < g->n_nodes; i++) run_node(g, &g->node[i], data);
    return data;
}

static void free_data(const plim_graph *g, void **data)
{
    for (uint32_t v = 0; v < g->n_values; v++) free(data[v]);
    free(data);
}

static double element(const plim_graph *g, uint32_t v, void *const *data, uint64_t i)
{
    double f;
    plim__convert(&f, PLIM_F64, (const char *)data[v] + i * plim_dtype_bytes(g->value[v].dtype), g->value[v].dtype, 1);
    return f;
}

static double tolerance(plim_dtype t)
{
    return t == PLIM_F16 ? 2e-3 : t == PLIM_F32 ? 2e-6 : 1e-8;
}

static bool near(double have, double want, double tol)
{
    if (isnan(want)) return isnan(have);
    if (isinf(want)) return have == want;
    return fabs(have - want) <= tol * (fabs(want) > 1 ? fabs(want) : 1);
}

/* ---------------------------------------------------------------------------------------------- tests */

static const struct { const char *text, *type; double value[48]; } values[] = {
#include "expr_values.inc"
};

static void agrees_with_numpy(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    for (size_t c = 0; c < COUNT_OF(values); c++) {
        world w;
        char type[200];
        open_world(&w, (plim__alloc){0});
        if (build(&w, values[c].text) != PLIM_OK || w.n_res != 1) {
            print_error("%s: column %d: %s\n", values[c].text, w.err.column, w.err.message);
            wrong++;
        } else if (strcmp(type_text(&w, w.res[0].value, type, sizeof type), values[c].type)) {
            print_error("%s: %s, not %s\n", values[c].text, type, values[c].type);
            wrong++;
        } else {
            void **data = run(w.g);
            const plim__value *v = &w.g->value[w.res[0].value];
            for (uint64_t i = 0; i < v->bytes / plim_dtype_bytes(v->dtype); i++) {
                const double have = element(w.g, w.res[0].value, data, i);
                if (near(have, values[c].value[i], tolerance(v->dtype))) continue;
                print_error("%s: element %d is %.9g, not %.9g\n", values[c].text, (int)i, have, values[c].value[i]);
                wrong++;
                break;
            }
            free_data(w.g, data);
        }
        plim__graph_free(&w.g);
    }
    assert_int_equal(wrong, 0);
}

/* Larger than what is run, or not NumPy's. */
static const struct { const char *text, *type; } types[] = {
    {"mean((big-3)**2, 0)", "f32[512]"},
    {"median(big, 0)", "f32[512]"},
    {"quantile(big, [0.1, 0.9])", "f32[2]"},
    {"quantile(big, 0.5, keepdims=True)", "f32[1,1]"},
    {"big.T @ big", "f32[512,512]"},
    {"big[:, ::-2][5]", "f32[256]"},
    {"box(big, 3, axes=1)", "f32[3075200,512]"},
    {"zeros((100000, 100000), u8)", "u8[100000,100000]"},
    {"bf + 1", "bf16[7]"},
    {"bf * f16(1)", "f32[7]"},
    {"mean(bf)", "bf16[]"},
    {"bf / 3", "bf16[7]"},
    {"softmax(bf)", "bf16[7]"},
    {"logsumexp(bf)", "bf16[]"},
    {"gelu(bf)", "bf16[7]"},
    {"convolve(bf, bf)", "bf16[13]"},
    {"convolve(bf, c)", "bf16[11]"},
    {"conv(bf, [1, 2, 1])", "f64[7]"},
    {"isclose(bf, h[0])", "bool[7]"},
    {"sum(deep, 3)", "f32[2,2,2,2,2,2,2]"},
    {"sum(deep[None, :, None], (1, 3))", "f32[1,1,2,2,2,2,2,2]"},
    {"flip(stack([expand_dims(deep, (0, 9)), deep[None, ..., None]], 5))", "f32[1,2,2,2,2,2,2,2,2,2,1]"},
    {"var(deep, 3)", "f32[2,2,2,2,2,2,2]"},
    {"std(deep, (0, 3), keepdims=True)", "f32[1,2,2,1,2,2,2,2]"},
    {"repeat(deep, 3, 0)", "f32[6,2,2,2,2,2,2,2]"},
    {"tile(deep, (40, 1, 1, 1, 1, 1, 1, 1))", "f32[80,2,2,2,2,2,2,2]"},
    {"reciprocal(c)", "f16[5]"},
    {"floor(y)", "i32[4,6]"},
    {"w + 1", "u64[3]"},
    {"w + k", "f64[3]"},
    {"w < -1", "bool[3]"},
    {"w == y[0, :3]", "bool[3]"},
    {"sum(none)", "f32[]"},
    {"sum(none, 0)", "f32[3]"},
    {"any(none, 0)", "bool[3]"},
    {"all(none, 1, keepdims=True)", "bool[0,1]"},
    {"mean(none, 0)", "f32[3]"},
    {"x[4:].shape[0]", "i64[]"},
    {"none + 1", "f32[0,3]"},
    {"concat(split(x, 4, 1), 1)", "f32[4,6]"},
    {"split(x, 4, 1)[1]", "f32[4,2]"},
    {"len(split(x, 4, 1))", "i64[]"},
    {"(split(x, 4, 1)[::-1])[0]", "f32[4,2]"},
    {"split(x, 2)[0] + split(y, 2)[1]", "f64[2,6]"},
    {"f64(split(x, 2))[1]", "f64[2,6]"},
    {"split(x, 2).mean(0)[1]", "f32[6]"},
    {"split(x, 2).T[0]", "f32[6,2]"},
    {"(split(x, 2).shape)[0]", "i64[2]"},
    {"linspace(0, 1, 131072)", "f64[131072]"},
};

static void infers_types(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(types); c++) {
        world w;
        char type[200];
        open_world(&w, (plim__alloc){0});
        if (build(&w, types[c].text) != PLIM_OK) fail_msg("%s: column %d: %s", types[c].text, w.err.column, w.err.message);
        assert_int_equal(w.n_res, 1);
        if (strcmp(type_text(&w, w.res[0].value, type, sizeof type), types[c].type)) fail_msg("%s: %s, not %s", types[c].text, type, types[c].type);
        plim__graph_free(&w.g);
    }
}

static const struct { const char *text; plim_status code; int column; const char *message; } bad[] = {
    {"x + q", PLIM_E_SYNTAX, 5, "unknown name 'q'"},
    {"bigg + 1", PLIM_E_SYNTAX, 1, "'big'"},
    {"1 + maen(x)", PLIM_E_SYNTAX, 5, "'mean'"},
    {"x.maen()", PLIM_E_SYNTAX, 3, "'mean'"},
    {"x.shap", PLIM_E_SYNTAX, 3, "attribute"},
    {"x + mean", PLIM_E_SYNTAX, 5, "is a function"},
    {"x.mean + 1", PLIM_E_SYNTAX, 3, "is a function"},
    {"x(1)", PLIM_E_SYNTAX, 1, "use [ ]"},
    {"np.foo(x)", PLIM_E_SYNTAX, 4, "unknown function"},
    {"x = 1; x", PLIM_E_SYNTAX, 1, "given once"},
    {"a = 1; a = 2", PLIM_E_SYNTAX, 8, "given once"},
    {"True = 1", PLIM_E_SYNTAX, 1, "cannot be assigned"},
    {"a, a = split(x, 2)", PLIM_E_SYNTAX, 4, "given once"},
    {"a, d = x", PLIM_E_SHAPE, 2, "2 names"},
    {"x + m", PLIM_E_SHAPE, 3, "6"},
    {"1 + (x @ x)", PLIM_E_SHAPE, 8, "matmul"},
    {"x @ 3", PLIM_E_TYPE, 3, "use *"},
    {"x & 1", PLIM_E_TYPE, 3, "integers and bool only"},
    {"1.5 & 2", PLIM_E_TYPE, 5, "integers"},
    {"~x", PLIM_E_TYPE, 1, "integers"},
    {"b - b", PLIM_E_TYPE, 3, "not defined for bool"},
    {"-b", PLIM_E_TYPE, 1, "not defined for bool"},
    {"c + 300", PLIM_E_TYPE, 3, "300 does not fit i8"},
    {"u * -1", PLIM_E_TYPE, 3, "-1 does not fit u8"},
    {"where(b, u[0], 256)", PLIM_E_TYPE, 1, "256 does not fit u8"},
    {"full_like(c, 1000)", PLIM_E_TYPE, 1, "does not fit"},
    {"pad(c, 1, constant_values=200)", PLIM_E_TYPE, 1, "does not fit"},
    {"y ** -1", PLIM_E_TYPE, 3, "negative integer powers"},
    {"y ** [1, 2, -3, 1, 1, 1]", PLIM_E_TYPE, 3, "negative integer powers"},
    {"1 / 0", PLIM_E_INVALID, 3, "division by zero"},
    {"1 % 0", PLIM_E_INVALID, 3, "division by zero"},
    {"2 ** 64", PLIM_E_OVERFLOW, 3, "64 bits"},
    {"9223372036854775807 + 1", PLIM_E_OVERFLOW, 21, "64 bits"},
    {"1 << 63", PLIM_E_OVERFLOW, 3, "64 bits"},
    {"1 << -1", PLIM_E_INVALID, 3, "negative shift"},
    {"int(1e300)", PLIM_E_OVERFLOW, 1, "64 bits"},
    {"x + 'a'", PLIM_E_TYPE, 3, "a string"},
    {"x + None", PLIM_E_TYPE, 3, "None"},
    {"x + f32", PLIM_E_TYPE, 3, "a dtype"},
    {"f32", PLIM_E_TYPE, 1, "a dtype"},
    {"'abc'", PLIM_E_TYPE, 2, "a string"},
    {"x[9]", PLIM_E_SHAPE, 2, "index 9 is outside dimension 0"},
    {"x[0, 0, 0]", PLIM_E_SHAPE, 2, "too many indices"},
    {"x[..., ...]", PLIM_E_SYNTAX, 2, "only once"},
    {"x[::0]", PLIM_E_SHAPE, 2, "may not be 0"},
    {"x[1.5]", PLIM_E_TYPE, 2, "an integer"},
    {"x['a']", PLIM_E_TYPE, 2, "a string"},
    {"x[0.5:]", PLIM_E_TYPE, 2, "integers"},
    {"x[x > 0]", PLIM_E_UNSUPPORTED, 2, "where(mask"},
    {"x[True]", PLIM_E_UNSUPPORTED, 2, "mask"},
    {"x[[True, False, True, False]]", PLIM_E_UNSUPPORTED, 2, "mask"},
    {"x[y]", PLIM_E_UNSUPPORTED, 2, "known before the run"},
    {"x[[0, 1], [0, 1]]", PLIM_E_UNSUPPORTED, 2, "only one"},
    {"x[0, [0, 1]]", PLIM_E_UNSUPPORTED, 2, "two steps"},
    {"x[[4]]", PLIM_E_SHAPE, 2, "outside"},
    {"3[0]", PLIM_E_TYPE, 2, "no elements"},
    {"x.shape[5]", PLIM_E_SHAPE, 8, "outside"},
    {"mean()", PLIM_E_INVALID, 1, "'x' is missing"},
    {"mean(x, 0, None, True, 5)", PLIM_E_INVALID, 1, "5 arguments"},
    {"mean(x, axes=0, foo=1)", PLIM_E_INVALID, 9, "no parameter 'axes'"},
    {"mean(x, 0, axis=1)", PLIM_E_INVALID, 12, "given twice"},
    {"x.sum(f64, axis=0)", PLIM_E_INVALID, 12, "given twice"},
    {"mean(x, 2)", PLIM_E_SHAPE, 1, "axis 2 is out of range"},
    {"mean(x, (0, -2))", PLIM_E_SHAPE, 1, "twice"},
    {"mean(x, 1.5)", PLIM_E_TYPE, 1, "mean: axis must be"},
    {"mean(x, y)", PLIM_E_TYPE, 1, "mean: axis must be"},
    {"mean('a')", PLIM_E_TYPE, 1, "mean: x must be an array"},
    {"sum(x, keepdims='yes')", PLIM_E_TYPE, 1, "True or False"},
    {"sum(x, dtype=bool)", PLIM_E_TYPE, 1, "bool"},
    {"x.astype('f33')", PLIM_E_TYPE, 3, "unknown dtype 'f33'"},
    {"f32()", PLIM_E_SYNTAX, 1, "converts one array"},
    {"max(none)", PLIM_E_SHAPE, 1, "no elements"},
    {"1 + argmax(x, (0, 1))", PLIM_E_SHAPE, 5, "one axis"},
    {"x.reshape(5, -1)", PLIM_E_SHAPE, 3, "does not divide"},
    {"x.reshape(-1, -1)", PLIM_E_SHAPE, 3, "only one"},
    {"x.reshape(5, 5)", PLIM_E_SHAPE, 3, "24"},
    {"squeeze(x, 0)", PLIM_E_SHAPE, 1, "extent 4"},
    {"concat(x)", PLIM_E_TYPE, 1, "concat([x, y])"},
    {"concat([x, m])", PLIM_E_SHAPE, 1, "concat"},
    {"concat([])", PLIM_E_TYPE, 1, "concat"},
    {"pad(x, 1, 'circular')", PLIM_E_INVALID, 1, "'wrap'"},
    {"quantile(x, 2)", PLIM_E_INVALID, 1, "[0, 1]"},
    {"percentile(x, -1)", PLIM_E_INVALID, 1, "[0, 100]"},
    {"quantile(x, y)", PLIM_E_TYPE, 1, "known now"},
    {"histogram(x, 0)", PLIM_E_INVALID, 1, "at least 1"},
    {"histogram(x, 5, (1, 0))", PLIM_E_INVALID, 1, "ascending"},
    {"histogram(x, [0, 1, 2])", PLIM_E_UNSUPPORTED, 1, "unequal"},
    {"topk(x, 7)", PLIM_E_SHAPE, 1, "k is 7"},
    {"unique(x, 0)", PLIM_E_INVALID, 1, "room for 0"},
    {"unique(x, 1000000)", PLIM_E_UNSUPPORTED, 1, "too many"},
    {"x.nonzero()", PLIM_E_UNSUPPORTED, 3, "depends on the data"},
    {"arange(1000000)", PLIM_E_UNSUPPORTED, 1, "1 MiB"},
    {"arange(0, 1, 0)", PLIM_E_INVALID, 1, "steps of 0"},
    {"eye(100000)", PLIM_E_UNSUPPORTED, 1, "1 MiB"},
    {"zeros((4294967296, 4294967296))", PLIM_E_OVERFLOW, 1, "2^63"},
    {"zeros((-1,))", PLIM_E_SHAPE, 1, "negative"},
    {"split(big, 1)", PLIM_E_SHAPE, 1, "3075200 pieces"},
    {"split(x, 2) + split(x, 1)", PLIM_E_SHAPE, 13, "different lengths"},
    {"split(x, 2)[5]", PLIM_E_SHAPE, 12, "outside"},
    {"[[1, 2], [3]] + x", PLIM_E_SHAPE, 15, "another length"},
    {"deep[None, None, None, None, None]", PLIM_E_SHAPE, 5, "the result has 13 dimensions; arrays have at most 12"},
    {"expand_dims(deep, (0, 1, 2, 3, 4, 5))", PLIM_E_SHAPE, 1, "the result has 14 dimensions"},
    {"stack([deep[None, None, None, None], deep[None, None, None, None]])", PLIM_E_SHAPE, 1, "the result has 13 dimensions"},
    {"reshape(x, (2, 2, 2, 3, 1, 1, 1, 1, 1, 1, 1, 1, 1))", PLIM_E_SHAPE, 1, "13 elements, 12 at most: arrays have no more dimensions"},
    {"tensordot(deep, deep, 1)", PLIM_E_SHAPE, 1, "dimensions"},
    {"isclose(x, 'a')", PLIM_E_TYPE, 1, "string"},
    {"1 + gelu(x, 2)", PLIM_E_INVALID, 5, "takes (x)"},
    {"y = ptp(b)", PLIM_E_TYPE, 5, "bool"},
    {"a = x + 1;\nd = a + q", PLIM_E_SYNTAX, 20, "unknown name 'q' (known: "},
    {"'a'.mean()", PLIM_E_TYPE, 5, "array"},
};

static void refuses_with_a_column(void **state)
{
    (void)state;
    uint32_t wrong = 0;
    for (size_t c = 0; c < COUNT_OF(bad); c++) {
        world w;
        open_world(&w, (plim__alloc){0});
        const plim_status status = build(&w, bad[c].text);
        if (status != bad[c].code || w.err.code != status || w.err.column != bad[c].column || !strstr(w.err.message, bad[c].message)) {
            print_error("%s: %s, column %d, '%s'; wanted %s, column %d, '%s'\n", bad[c].text, plim_status_name(status), w.err.column, w.err.message,
                        plim_status_name(bad[c].code), bad[c].column, bad[c].message);
            wrong++;
        }
        assert_int_equal(w.n_res, 0);
        plim__graph_free(&w.g);
        open_world(&w, (plim__alloc){0});
        assert_int_equal(plim__expr_build(w.g, bad[c].text, w.in, COUNT_OF(inputs), w.res, 64, &w.n_res, NULL), status);
        plim__graph_free(&w.g);
    }
    assert_int_equal(wrong, 0);
}

static const struct { const char *text; const char *names; } results[] = {
    {"x + 1", ""},
    {"a = x + 1", "a"},
    {"a = x + 1; a * 2", "a,"},
    {"a = x + 1\nd = a * 2", "a,d"},
    {"a = 3; x * a", ""},
    {"a = 3", "a"},
    {"t = f16; f = x.shape; x.astype(t) * f[0]", ""},
    {"p = split(x, 4, 1); q = p.mean(); d = x", "p0,p1,q0,q1,d"},
    {"split(x, 2)", "0,1"},
    {"v, i = topk(x, 3)", "v,i"},
    {"t = topk(x, 3); t[1]", "t,"},
    {"mean(x), std(x)", "0,1"},
    {"mean = mean(x); x - mean", "mean,"},
    {"x", ""},
};

static void names_results(void **state)
{
    (void)state;
    for (size_t c = 0; c < COUNT_OF(results); c++) {
        world w;
        char names[256] = "";
        build_or_fail(&w, results[c].text);
        for (uint32_t i = 0; i < w.n_res; i++) sprintf(names + strlen(names), "%s%s", i ? "," : "", w.res[i].name);
        if (strcmp(names, results[c].names)) fail_msg("%s: results '%s', not '%s'", results[c].text, names, results[c].names);
        plim__graph_free(&w.g);
    }
}

static void counts_results(void **state)
{
    (void)state;
    world w;
    open_world(&w, (plim__alloc){0});
    assert_int_equal(plim__expr_build(w.g, "a = x; d = y", w.in, COUNT_OF(inputs), w.res, 1, &w.n_res, &w.err), PLIM_E_INVALID);
    assert_non_null(strstr(w.err.message, "more than 1 result"));
    plim__graph_free(&w.g);
    open_world(&w, (plim__alloc){0});
    assert_int_equal(build(&w, "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = x"), PLIM_E_INVALID);
    plim__graph_free(&w.g);
}

/* Batches along the last axis, with the mean and a copy of each: the copy is the slice itself. */
static void maps_over_lists(void **state)
{
    (void)state;
    world w;
    char type[64];
    build_or_fail(&w, "p = split(big, 128, axis=-1); avg = mean(p, axis=1)");
    assert_int_equal(w.n_res, 8);
    for (uint32_t i = 0; i < 4; i++) {
        assert_string_equal(type_text(&w, w.res[i].value, type, sizeof type), "f32[3075200,128]");
        assert_string_equal(type_text(&w, w.res[4 + i].value, type, sizeof type), "f32[3075200]");
    }
    plim__graph_free(&w.g);
}

static void merges_equal_subexpressions(void **state)
{
    (void)state;
    world w;
    build_or_fail(&w, "a = (x - mean(x)) / std(x); d = (x - mean(x)) / std(x)");
    assert_int_equal(w.res[0].value, w.res[1].value);
    plim__graph_free(&w.g);
    build_or_fail(&w, "x.T.T[0:4] + x.astype(f32) + clip(x) + copy(x) + x[...] + x.reshape(4, 6)");
    assert_true(w.g->n_nodes <= 7); /* two transposes and five sums: what changes nothing adds nothing */
    plim__graph_free(&w.g);
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    static const char *const text = "a = isclose(x, [1, 2, 3, 4, 5, 6.5]); d = concat([x, y], 1).mean(axis=0, keepdims=True); p = split(x, 2); "
                                    "q = quantile(x, 0.5, 0) + arange(6) * p; histogram_edges(x, 4)";
    countdown c = {.left = -1, .from_then = true};
    world w;
    open_world(&w, countdown_of(&c));
    plim__graph_free(&w.g);
    assert_int_equal(c.live, 0);
    for (int64_t n = 0;; n++) {
        c.left = -1;
        open_world(&w, countdown_of(&c));
        c.left = n;
        const plim_status status = build(&w, text);
        c.left = -1;
        plim__graph_free(&w.g);
        assert_int_equal(c.live, 0);
        if (status == PLIM_OK) break;
        assert_int_equal(status, PLIM_E_NOMEM);
        assert_true(n < 2000);
    }
}

static void bounds_its_work(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "a = split(zeros((4000,)), 1); d = a+1; e1 = d+2; f1 = e1+3; g1 = f1+4; h1 = g1+5; i1 = h1+6; j1 = i1+7; k1 = j1+8; "
        "l1 = k1+9; m1 = l1+10; n1 = m1+11; o1 = n1+12",
        "split(split(split(zeros((4000, 4000)), 1), 1, 1), 1)",
        "tile(x, 9223372036854775807)",
        "repeat(x, 9223372036854775807)",
        "pad(x, 9223372036854775807, 'wrap')",
        "pad(x, 9223372036854775807)",
        "diff(x, 9223372036854775807)",
        "x[9223372036854775807::-9223372036854775807, 0] + zeros(9223372036854775807)",
        "arange(-9e300, 9e300)",
        "linspace(0, 1, 9223372036854775807)",
        "histogram_edges(x, 2147483647)",
    };
    for (size_t c = 0; c < COUNT_OF(texts); c++) {
        world w;
        open_world(&w, (plim__alloc){0});
        assert_int_not_equal(build(&w, texts[c]), PLIM_OK);
        plim__graph_free(&w.g);
    }
}

/* Every row can be called by its name, and every elementwise function has its row. */
static void documents_every_function(void **state)
{
    (void)state;
    plim__expr_function f;
    uint32_t n = 0, elementwise = 0;
    for (; plim__expr_function_at(n, &f); n++) {
        assert_true(f.name[0] && f.params[0] && f.group[0] && f.help[0]);
        for (plim__ew e = 0; e < PLIM__EW_COUNT; e++) elementwise += !strcmp(plim__ew_name(e), f.name);
        for (uint32_t k = 0; k < n; k++) {
            plim__expr_function other;
            plim__expr_function_at(k, &other);
            if (!strcmp(other.name, f.name)) fail_msg("%s has two rows", f.name);
        }
    }
    assert_true(n > 100);
    assert_int_equal(elementwise, PLIM__EW_COUNT);
    const char *alias, *name;
    for (uint32_t i = 0; plim__expr_alias_at(i, &alias, &name); i++) {
        bool found = false;
        for (n = 0; plim__expr_function_at(n, &f); n++) {
            found |= !strcmp(f.name, name);
            assert_string_not_equal(f.name, alias);
        }
        assert_true(found);
    }
}

/* The reference has a line for every row of the table, word for word. Found beside this file; skipped where the source is not there. */
static void reference_is_complete(void **state)
{
    (void)state;
    FILE *f = fopen(PLIM_SOURCE_DIR "/docs/language.md", "r");
    assert_non_null(f);
    static char text[1 << 17];
    text[fread(text, 1, sizeof text - 1, f)] = 0;
    fclose(f);
    plim__expr_function fn;
    const char *alias, *name;
    char line[512];
    for (uint32_t i = 0; plim__expr_function_at(i, &fn); i++) {
        snprintf(line, sizeof line, "| `%s(%s)` |", fn.name, fn.params);
        if (!strstr(text, line)) fail_msg("docs/language.md has no line '%s'", line);
    }
    for (uint32_t i = 0; plim__expr_alias_at(i, &alias, &name); i++) {
        snprintf(line, sizeof line, "| `%s` | `%s` |", alias, name);
        if (!strstr(text, line)) fail_msg("docs/language.md has no line '%s'", line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_numpy),
        cmocka_unit_test(infers_types),
        cmocka_unit_test(refuses_with_a_column),
        cmocka_unit_test(names_results),
        cmocka_unit_test(counts_results),
        cmocka_unit_test(maps_over_lists),
        cmocka_unit_test(merges_equal_subexpressions),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(bounds_its_work),
        cmocka_unit_test(documents_every_function),
        cmocka_unit_test(reference_is_complete),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
