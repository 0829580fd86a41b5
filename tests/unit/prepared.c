/* What is made of parameters once: that it is taken out of the program, and that it is what the program would have made. */
#include "unit.h"

#include "countdown.h"
#include "faulty_os.h"
#include "models/prepared.h"
#include "ops/layers.h"

#include <stdio.h>
#include <string.h>

#define N 40

typedef struct made {
    const plim__model *m;
    uint32_t n;
    float last[N];
} made;

static uint32_t param(plim__model *m, int64_t n, plim_error *err)
{
    plim__param p = {.trainable = true, .init = PLIM__INIT_UNIFORM, .init_scale = 2};
    uint32_t v = PLIM__NONE;
    snprintf(p.name, sizeof p.name, "p%u", m->n_params);
    if (plim__model_param(m, &p, PLIM_F32, &(plim_shape){1, {n}}, NULL, &v, err)) return PLIM__NONE;
    return v;
}

/* y = (x * s + s) * b where s = (a + b) * a; and z = -(a + b), a result that follows from parameters alone. @return PLIM_E_NOMEM or PLIM_OK */
static plim_status fill(plim__model *m, int64_t n, plim_error *err)
{
    uint32_t x, sum, scale, y, z;
    PLIM_TRY(plim__model_layer(m, "layer", "Scale", err));
    PLIM_TRY(plim__model_input(m, "x", PLIM_F32, &(plim_shape){2, {3, n}}, 0, &x, err));
    const uint32_t a = param(m, n, err), b = a == PLIM__NONE ? a : param(m, n, err);
    if (b == PLIM__NONE) return PLIM_E_NOMEM;
    PLIM_TRY(plim__op_float2(m->graph, PLIM__EW_ADD, a, b, &sum, err));
    PLIM_TRY(plim__op_float2(m->graph, PLIM__EW_MUL, sum, a, &scale, err));
    PLIM_TRY(plim__op_float2(m->graph, PLIM__EW_MUL, x, scale, &y, err));
    PLIM_TRY(plim__op_float2(m->graph, PLIM__EW_ADD, y, scale, &y, err));
    PLIM_TRY(plim__op_float1(m->graph, PLIM__EW_NEG, sum, &z, err));
    PLIM_TRY(plim__op_float2(m->graph, PLIM__EW_MUL, y, b, &y, err)); /* b is still read */
    PLIM_TRY(plim__model_output(m, "y", y, 0, err));
    return plim__model_output(m, "z", z, -1, err);
}

static plim_status take(void *ctx, uint32_t value, const void *bytes, plim_error *err)
{
    made *d = ctx;
    (void)err;
    const plim__value *v = &d->m->graph->value[value];
    assert_int_equal(v->kind, PLIM__VALUE_FILE);
    assert_int_equal(d->m->graph->source[v->source].stay, PLIM__STAY_MEMORY);
    assert_int_equal(v->bytes, sizeof d->last);
    if (value == d->m->output[1].value) memcpy(d->last, bytes, sizeof d->last);
    d->n++;
    return PLIM_OK;
}

static plim__stay stay_of(const plim__model *m, uint32_t param) { return m->graph->source[m->graph->value[m->param[param].value].source].stay; }

static void test_taken_out(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__model *m;
    plim__param_filler f;
    faulty_os os;
    float a[N], b[N];
    faulty_init(&os);
    assert_int_equal(plim__model_new(&m, NULL, (plim__alloc){0}, &err), PLIM_OK);
    if (fill(m, N, &err) || plim__model_prepare(m, &err)) fail_msg("%s", err.message);
    assert_true(m->prepared.some);
    assert_int_equal(m->graph->n_nodes, 3); /* of six */
    assert_int_equal(m->prepared.graph->n_nodes, 3);
    assert_int_equal(stay_of(m, 0), PLIM__STAY_FILE); /* nobody in the program reads a any more */
    assert_int_equal(stay_of(m, 1), PLIM__STAY_MAY);
    made got = {.m = m};
    plim__param_filler_open(&f, m, &os.table, 7);
    if (plim__prepared_make(m, &f, take, &got, &err)) fail_msg("%s", err.message);
    if (plim__param_fill(&f, 0, 0, a, N, &err) || plim__param_fill(&f, 1, 0, b, N, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim__param_filler_close(&f, &err), PLIM_OK);
    assert_int_equal(got.n, 2);
    for (int i = 0; i < N; i++) assert_true(got.last[i] == -(a[i] + b[i]));
    plim__model_free(&m);
}

/* Large values stay where they are, and so does a model without any that could be prepared. */
static void test_left_alone(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__model *m;
    uint32_t x;
    assert_int_equal(plim__model_new(&m, NULL, (plim__alloc){0}, &err), PLIM_OK);
    if (fill(m, (64 << 10) / 4 + 1, &err) || plim__model_prepare(m, &err)) fail_msg("%s", err.message);
    assert_false(m->prepared.some);
    assert_int_equal(m->graph->n_nodes, 6);
    assert_int_equal(stay_of(m, 0), PLIM__STAY_MAY);
    plim__model_free(&m);
    assert_int_equal(plim__model_new(&m, NULL, (plim__alloc){0}, &err), PLIM_OK);
    if (plim__model_input(m, "x", PLIM_F32, &(plim_shape){1, {N}}, 0, &x, &err) || plim__model_output(m, "y", x, 0, &err)) fail_msg("%s", err.message);
    if (plim__model_prepare(m, &err)) fail_msg("%s", err.message);
    assert_false(m->prepared.some);
    plim__model_free(&m);
}

/* The sum of `many` negated parameters, all of them negated first, and of x: at its end or, so that nothing of the sum is known, at its beginning. */
static bool is_prepared(uint32_t many, bool x_first)
{
    enum { LONG = 16 << 10, MOST = 32 };
    plim_error err = {0};
    plim__model *m;
    uint32_t v[MOST], x, sum;
    assert_int_equal(plim__model_new(&m, NULL, (plim__alloc){0}, &err), PLIM_OK);
    assert_int_equal(plim__model_input(m, "x", PLIM_F32, &(plim_shape){1, {LONG}}, 0, &x, &err), PLIM_OK);
    for (uint32_t i = 0; i < many; i++) assert_int_equal(plim__op_float1(m->graph, PLIM__EW_NEG, param(m, LONG, &err), &v[i], &err), PLIM_OK);
    sum = x_first ? x : v[0];
    for (uint32_t i = x_first ? 0 : 1; i < many; i++) assert_int_equal(plim__op_float2(m->graph, PLIM__EW_ADD, sum, v[i], &sum, &err), PLIM_OK);
    if (!x_first) assert_int_equal(plim__op_float2(m->graph, PLIM__EW_ADD, sum, x, &sum, &err), PLIM_OK);
    assert_int_equal(plim__model_output(m, "y", sum, 0, &err), PLIM_OK);
    if (plim__model_prepare(m, &err)) fail_msg("%s", err.message);
    const bool some = m->prepared.some;
    plim__model_free(&m);
    return some;
}

/* Values that wait for each other need their memory at the same time; those that the program takes are put away as soon as they are made. */
static void test_too_many(void **state)
{
    (void)state;
    assert_true(is_prepared(8, false));
    assert_false(is_prepared(32, false));
    assert_true(is_prepared(32, true));
}

static plim_status prepare_with(countdown *c, plim_error *err)
{
    plim__model *m;
    plim__param_filler f;
    faulty_os os;
    faulty_init(&os);
    PLIM_TRY(plim__model_new(&m, NULL, countdown_of(c), err));
    plim_status status = fill(m, N, err);
    if (status == PLIM_OK) status = plim__model_prepare(m, err);
    made got = {.m = m};
    plim__param_filler_open(&f, m, &os.table, 7);
    if (status == PLIM_OK) status = plim__prepared_make(m, &f, take, &got, err);
    assert_int_equal(plim__param_filler_close(&f, NULL), PLIM_OK);
    plim__model_free(&m);
    return status;
}

static void test_failing_allocations(void **state)
{
    (void)state;
    plim_error err = {0};
    uint32_t refused = 0;
    for (int64_t nth = 0;; nth++) {
        countdown c = {.left = nth};
        const plim_status status = prepare_with(&c, &err);
        assert_int_equal(c.live, 0);
        if (c.failed == 0) break;
        assert_int_equal(status, PLIM_E_NOMEM);
        refused++;
    }
    assert_true(refused > 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_taken_out),
        cmocka_unit_test(test_left_alone),
        cmocka_unit_test(test_too_many),
        cmocka_unit_test(test_failing_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
