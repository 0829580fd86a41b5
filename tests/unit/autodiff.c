/* Gradients against central differences, op by op: the loss is a weighted sum of the result, so that every element of the gradient is asked for its own
 * number. Everything is computed in f64 by running the nodes one after the other; no plan is involved. */
#include "unit.h"

#include "grads.h"
#include "ops/autodiff.h"
#include "ops/layers.h"

#define MAX_VALUES 512

/* Builds one value from up to three inputs. */
typedef struct grad_case {
    const char *name;
    plim_shape in[3];
    uint32_t n_in;
    double lo, hi; /* of the inputs' elements */
    plim_status (*build)(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err);
    int64_t arg;
} grad_case;

/* ------------------------------------------------------------------------------------------------- builders */

static plim_status build_ew(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    return plim__op_elementwise(g, (plim__ew)arg, PLIM_F64, PLIM_F64, in, plim__ew_arity((plim__ew)arg), v, err);
}

static plim_status build_where(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    (void)arg;
    uint32_t test;
    PLIM_TRY(plim__op_elementwise(g, PLIM__EW_GREATER, PLIM_F64, PLIM_BOOL, (const uint32_t[]){in[0], in[1]}, 2, &test, err));
    return plim__op_elementwise(g, PLIM__EW_WHERE, PLIM_F64, PLIM_F64, (const uint32_t[]){test, in[0], in[2]}, 3, v, err);
}

static plim_status build_clip(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    (void)arg;
    uint32_t lo, hi;
    PLIM_TRY(plim__op_scalar(g, PLIM_F64, 0.8, &lo, err));
    PLIM_TRY(plim__op_scalar(g, PLIM_F64, 1.3, &hi, err));
    return plim__op_elementwise(g, PLIM__EW_CLIP, PLIM_F64, PLIM_F64, (const uint32_t[]){in[0], lo, hi}, 3, v, err);
}

static plim_status build_transpose(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    (void)arg;
    return plim__op_transpose(g, in[0], (const uint32_t[]){2, 0, 1}, v, err);
}

static plim_status build_slice(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    static const int64_t start[][2] = {{1, 0}, {5, 1}, {0, 3}}, step[][2] = {{1, 2}, {-2, 1}, {3, -1}}, count[][2] = {{3, 2}, {3, 3}, {2, 4}};
    return plim__op_slice(g, in[0], start[arg], step[arg], count[arg], v, err);
}

static plim_status build_reshape(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    (void)arg;
    return plim__op_reshape(g, in[0], &(plim_shape){3, {2, 3, 4}}, v, err);
}

static plim_status build_broadcast(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    (void)arg;
    return plim__op_broadcast(g, in[0], &(plim_shape){3, {2, 3, 4}}, v, err);
}

static plim_status build_concat(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    return plim__op_concat(g, in, 3, (uint32_t)arg, v, err);
}

static plim_status build_pad(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    (void)arg;
    return plim__op_pad(g, in[0], (const int64_t[]){1, 0}, (const int64_t[]){2, 3}, PLIM__EDGE_CONSTANT, &(double){7}, v, err);
}

static plim_status build_take(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    static const int64_t index[] = {2, 0, 2, -1};
    uint32_t at;
    PLIM_TRY(plim__graph_const(g, PLIM_I64, &(plim_shape){1, {4}}, index, &at, err));
    return plim__op_take(g, in[0], at, (uint32_t)arg, v, err);
}

static plim_status build_reduce(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    return plim__op_reduce(g, (plim__reduction)(arg & 3), in[0], (uint32_t)(arg >> 3), arg & 4, PLIM_F64, v, err);
}

static plim_status build_moments(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    return plim__op_moments(g, in[0], (uint32_t)(arg >> 3), arg & 4, v, err);
}

static plim_status build_scan(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    return plim__op_scan(g, PLIM__REDUCE_SUM, in[0], (uint32_t)arg, PLIM_F64, v, err);
}

static plim_status build_matmul(plim_graph *g, const uint32_t *in, int64_t arg, uint32_t *v, plim_error *err)
{
    return plim__op_matmul_turned(g, in[0], arg & 1, in[1], arg & 2, v, err);
}

#define EW1(id, lo, hi) {"elementwise " #id, {{2, {3, 4}}}, 1, lo, hi, build_ew, PLIM__EW_##id}
#define EW2(id, lo, hi) {"elementwise " #id, {{2, {3, 4}}, {1, {4}}}, 2, lo, hi, build_ew, PLIM__EW_##id}

static const grad_case cases[] = {
    EW1(COPY, -1, 1), EW1(NEG, -1, 1), EW1(ABS, -1, 1), EW1(SQUARE, -1, 1), EW1(RECIPROCAL, 0.5, 2), EW1(SQRT, 0.5, 2), EW1(CBRT, 0.5, 2),
    EW1(EXP, -1, 1), EW1(EXP2, -1, 1), EW1(EXPM1, -1, 1), EW1(LOG, 0.5, 2), EW1(LOG2, 0.5, 2), EW1(LOG10, 0.5, 2), EW1(LOG1P, -0.5, 2),
    EW1(SIN, -1, 1), EW1(COS, -1, 1), EW1(TAN, -1, 1), EW1(ASIN, -0.9, 0.9), EW1(ACOS, -0.9, 0.9), EW1(ATAN, -2, 2), EW1(SINH, -1, 1),
    EW1(COSH, -1, 1), EW1(TANH, -2, 2), EW1(ASINH, -2, 2), EW1(ACOSH, 1.5, 3), EW1(ATANH, -0.9, 0.9), EW1(ERF, -2, 2), EW1(SIGMOID, -3, 3),
    EW2(ADD, -1, 1), EW2(SUB, -1, 1), EW2(MUL, -1, 1), EW2(DIV, 0.5, 2), EW2(POW, 0.5, 2), EW2(MAXIMUM, -1, 1), EW2(MINIMUM, -1, 1),
    EW2(ATAN2, 0.5, 2), EW2(HYPOT, 0.5, 2), EW2(LOGADDEXP, -1, 1),
    {"where", {{2, {3, 4}}, {1, {4}}, {2, {3, 1}}}, 3, -1, 1, build_where, 0},
    {"clip", {{2, {3, 4}}}, 1, 0.5, 2, build_clip, 0},
    {"transpose", {{3, {2, 3, 4}}}, 1, -1, 1, build_transpose, 0},
    {"slice", {{2, {6, 4}}}, 1, -1, 1, build_slice, 0},
    {"slice backwards", {{2, {6, 4}}}, 1, -1, 1, build_slice, 1},
    {"slice by steps", {{2, {6, 4}}}, 1, -1, 1, build_slice, 2},
    {"reshape", {{2, {6, 4}}}, 1, -1, 1, build_reshape, 0},
    {"broadcast", {{2, {3, 1}}}, 1, -1, 1, build_broadcast, 0},
    {"concat", {{2, {2, 3}}, {2, {1, 3}}, {2, {3, 3}}}, 3, -1, 1, build_concat, 0},
    {"concat columns", {{2, {2, 3}}, {2, {2, 1}}, {2, {2, 2}}}, 3, -1, 1, build_concat, 1},
    {"pad", {{2, {3, 2}}}, 1, -1, 1, build_pad, 0},
    {"take", {{2, {3, 4}}}, 1, -1, 1, build_take, 0},
    {"take columns", {{2, {3, 4}}}, 1, -1, 1, build_take, 1},
    {"sum", {{3, {2, 3, 4}}}, 1, -1, 1, build_reduce, PLIM__REDUCE_SUM | 5 << 3},
    {"sum, dimensions kept", {{3, {2, 3, 4}}}, 1, -1, 1, build_reduce, PLIM__REDUCE_SUM | 4 | 2 << 3},
    {"prod", {{2, {3, 4}}}, 1, 0.5, 2, build_reduce, PLIM__REDUCE_PROD | 1 << 3},
    {"min", {{2, {3, 4}}}, 1, -1, 1, build_reduce, PLIM__REDUCE_MIN | 2 << 3},
    {"max", {{2, {3, 4}}}, 1, -1, 1, build_reduce, PLIM__REDUCE_MAX | 3 << 3},
    {"moments", {{3, {2, 3, 4}}}, 1, -1, 1, build_moments, 5 << 3},
    {"moments, dimensions kept", {{2, {3, 4}}}, 1, -1, 1, build_moments, 4 | 2 << 3},
    {"cumsum", {{2, {3, 4}}}, 1, -1, 1, build_scan, 1},
    {"matmul", {{2, {3, 4}}, {2, {4, 2}}}, 2, -1, 1, build_matmul, 0},
    {"matmul, first turned", {{2, {4, 3}}, {2, {4, 2}}}, 2, -1, 1, build_matmul, 1},
    {"matmul, second turned", {{2, {3, 4}}, {2, {2, 4}}}, 2, -1, 1, build_matmul, 2},
    {"matmul, both turned", {{2, {4, 3}}, {2, {2, 4}}}, 2, -1, 1, build_matmul, 3},
    {"matmul, a stack by a matrix", {{3, {2, 3, 4}}, {2, {4, 2}}}, 2, -1, 1, build_matmul, 0},
    {"matmul, a matrix by a stack", {{2, {3, 4}}, {3, {2, 4, 2}}}, 2, -1, 1, build_matmul, 0},
    {"matmul, a turned matrix by a stack", {{2, {4, 3}}, {3, {2, 2, 4}}}, 2, -1, 1, build_matmul, 3},
    {"matmul, stacks that broadcast", {{4, {2, 1, 3, 4}}, {4, {1, 3, 4, 2}}}, 2, -1, 1, build_matmul, 0},
};

/* ------------------------------------------------------------------------------------------------- the check */

typedef struct fixture {
    plim_graph *g;
    void *data[MAX_VALUES];
    uint32_t in[3], loss, grad[3];
} fixture;

static void ok(const char *name, plim_status status, const plim_error *err)
{
    if (status != PLIM_OK) fail_msg("%s: %s", name, err->message);
}

/* loss = sum(weights * f(inputs)) */
static void build(fixture *f, const grad_case *c, parts_rng *rng)
{
    plim_error err = {0};
    uint32_t v;
    *f = (fixture){0};
    ok(c->name, plim__graph_new(&f->g, (plim__alloc){0}, &err), &err);
    for (uint32_t k = 0; k < c->n_in; k++) {
        f->in[k] = parts_input(f->g, f->data, PLIM_F64, &c->in[k], rng);
        double *x = f->data[f->in[k]];
        uint64_t n = f->g->value[f->in[k]].bytes / sizeof *x;
        for (uint64_t i = 0; i < n; i++) x[i] = c->lo + (c->hi - c->lo) * ((double)parts_random(rng, 1u << 20) + 0.5) / (1u << 20);
    }
    ok(c->name, c->build(f->g, f->in, c->arg, &v, &err), &err);
    const plim_shape s = f->g->value[v].shape;
    const uint32_t weights = parts_input(f->g, f->data, PLIM_F64, &s, rng);
    ok(c->name, plim__op_float2(f->g, PLIM__EW_MUL, v, weights, &v, &err), &err);
    ok(c->name, plim__op_reduce(f->g, PLIM__REDUCE_SUM, v, (1u << s.rank) - 1, false, PLIM_F64, &f->loss, &err), &err);
    ok(c->name, plim__graph_gradients(f->g, f->loss, f->in, c->n_in, f->grad, &err), &err);
    assert_true(f->g->n_values <= MAX_VALUES);
}

static void gradients_are_differences(void **state)
{
    (void)state;
    const grads_how how = {.h = 1e-5, .atol = 1e-4, .rtol = 1e-5};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        parts_rng rng = {.s = 7 + i};
        fixture f;
        build(&f, &cases[i], &rng);
        for (uint32_t k = 0; k < cases[i].n_in; k++) {
            if (f.grad[k] == PLIM__NONE) continue; /* checked in gradients_are_there */
            const char *wrong = grads_compare(f.g, f.data, f.loss, PLIM__NONE, f.in[k], f.grad[k], &how, &rng);
            if (wrong) fail_msg("%s: input %u: %s", cases[i].name, k, wrong);
        }
        parts_free(f.g, f.data);
        plim__graph_free(&f.g);
    }
}

/* Only what is compared, and nothing else, has none. */
static void gradients_are_there(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        parts_rng rng = {.s = 7 + i};
        fixture f;
        build(&f, &cases[i], &rng);
        for (uint32_t k = 0; k < cases[i].n_in; k++) assert_int_equal(f.grad[k] == PLIM__NONE, cases[i].build == build_where && k == 1);
        parts_free(f.g, f.data);
        plim__graph_free(&f.g);
    }
}

/* Every cut of the nodes that gradients are made of gives what the whole gives. */
static void cut_gradients_equal_whole(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        for (int mode = PARTS_CUT; mode <= PARTS_MERGED; mode++) {
            parts_rng rng = {.s = 7 + i};
            fixture f;
            build(&f, &cases[i], &rng);
            parts_run(f.g, f.data, PARTS_WHOLE, &rng);
            double *want[3];
            for (uint32_t k = 0; k < cases[i].n_in; k++) {
                want[k] = NULL;
                if (f.grad[k] == PLIM__NONE) continue;
                want[k] = malloc(f.g->value[f.in[k]].bytes);
                memcpy(want[k], f.data[f.grad[k]], f.g->value[f.in[k]].bytes);
            }
            parts_run(f.g, f.data, (parts_mode)mode, &rng);
            for (uint32_t k = 0; k < cases[i].n_in; k++) {
                for (uint64_t e = 0; want[k] && e < f.g->value[f.in[k]].bytes / 8; e++)
                    if (!parts_close(((double *)f.data[f.grad[k]])[e], want[k][e], 1e-10, 1e-10)) fail_msg("%s, cut: input %u", cases[i].name, k);
                free(want[k]);
            }
            parts_free(f.g, f.data);
            plim__graph_free(&f.g);
        }
}

/* ------------------------------------------------------------------------------------------- other properties */

static plim_graph *new_graph(uint32_t *x)
{
    plim_graph *g;
    plim_error err = {0};
    const plim__source s = {.path = (char[]){""}};
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    assert_int_equal(plim__graph_file(g, "x", PLIM_F32, &(plim_shape){1, {8}}, &s, x, &err), PLIM_OK);
    return g;
}

static plim_status sum_of(plim_graph *g, uint32_t v, uint32_t *loss)
{
    plim_error err = {0};
    return plim__op_reduce(g, PLIM__REDUCE_SUM, v, 1, false, PLIM_F32, loss, &err);
}

static void used_twice_is_added_up(void **state)
{
    (void)state;
    plim_error err = {0};
    uint32_t x, y, loss, dx;
    plim_graph *g = new_graph(&x);
    assert_int_equal(plim__op_float2(g, PLIM__EW_ADD, x, x, &y, &err), PLIM_OK);
    assert_int_equal(sum_of(g, y, &loss), PLIM_OK);
    assert_int_equal(plim__graph_gradients(g, loss, &x, 1, &dx, &err), PLIM_OK);
    const plim__node *n = &g->node[g->value[dx].node];
    assert_int_equal(n->op, PLIM__OP_ELEMENTWISE);
    assert_int_equal(n->attr.kind, PLIM__EW_ADD);
    assert_true(n->backward);
    plim__graph_free(&g);
}

static void what_does_not_matter_has_none(void **state)
{
    (void)state;
    plim_error err = {0};
    uint32_t x, y, z, loss, d[2];
    plim_graph *g = new_graph(&x);
    const plim__source s = {.path = (char[]){""}};
    assert_int_equal(plim__graph_file(g, "z", PLIM_F32, &(plim_shape){1, {8}}, &s, &z, &err), PLIM_OK);
    assert_int_equal(plim__op_float1(g, PLIM__EW_EXP, x, &y, &err), PLIM_OK);
    assert_int_equal(sum_of(g, y, &loss), PLIM_OK);
    assert_int_equal(plim__graph_gradients(g, loss, (const uint32_t[]){x, z}, 2, d, &err), PLIM_OK);
    assert_int_not_equal(d[0], PLIM__NONE);
    assert_int_equal(d[1], PLIM__NONE);
    plim__graph_free(&g);
}

/* Rounding is flat: it passes nothing, which is no failure. Sorting passes something that no row knows: that is one. */
static void refusals(void **state)
{
    (void)state;
    plim_error err = {0};
    uint32_t x, y, loss, dx;
    plim_graph *g = new_graph(&x);
    assert_int_equal(plim__op_float1(g, PLIM__EW_FLOOR, x, &y, &err), PLIM_OK);
    assert_int_equal(sum_of(g, y, &loss), PLIM_OK);
    assert_int_equal(plim__graph_gradients(g, loss, &x, 1, &dx, &err), PLIM_OK);
    assert_int_equal(dx, PLIM__NONE);
    assert_int_equal(plim__op_sort(g, x, 0, false, &y, NULL, &err), PLIM_OK);
    assert_int_equal(sum_of(g, y, &loss), PLIM_OK);
    assert_int_equal(plim__graph_gradients(g, loss, &x, 1, &dx, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "'sort'"));
    err = (plim_error){0};
    assert_int_equal(plim__graph_gradients(g, x, &x, 1, &dx, &err), PLIM_E_INVALID);
    plim__graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradients_are_there), cmocka_unit_test(gradients_are_differences), cmocka_unit_test(cut_gradients_equal_whole), cmocka_unit_test(used_twice_is_added_up),
        cmocka_unit_test(what_does_not_matter_has_none), cmocka_unit_test(refusals),
    };
    return cmocka_run_group_tests_name("autodiff", tests, NULL, NULL);
}
