/* Optimizers: several steps of each against the definitions in double, whole and cut; kernels in place. */
#include "unit.h"

#include "kernels/optimizer.h"
#include "parts.h"

#define STEPS 5

static const plim__optimizer settings[] = {
    {.kind = PLIM__SGD},
    {.kind = PLIM__SGD, .decay = 0.1},
    {.kind = PLIM__MOMENTUM, .beta1 = 0.9, .decay = 0.05},
    {.kind = PLIM__NESTEROV, .beta1 = 0.8, .decay = 0.05},
    {.kind = PLIM__ADAM, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8},
    {.kind = PLIM__ADAM, .beta1 = 0.5, .beta2 = 0.9, .eps = 1e-3, .decay = 0.2},
    {.kind = PLIM__ADAMW, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .decay = 0.3},
    {.kind = PLIM__RMSPROP, .beta1 = 0.9, .eps = 1e-6, .decay = 0.01},
};

/* One element's step, as PyTorch's documentation has it. */
static void reference(const plim__optimizer *o, double rate, double t, double g, double *p, double *s0, double *s1)
{
    if (o->kind == PLIM__ADAMW) *p -= rate * o->decay * *p;
    else g += o->decay * *p;
    switch (o->kind) {
    case PLIM__SGD: *p -= rate * g; break;
    case PLIM__MOMENTUM:
        *s0 = o->beta1 * *s0 + g;
        *p -= rate * *s0;
        break;
    case PLIM__NESTEROV:
        *s0 = o->beta1 * *s0 + g;
        *p -= rate * (g + o->beta1 * *s0);
        break;
    case PLIM__RMSPROP:
        *s0 = o->beta1 * *s0 + (1 - o->beta1) * g * g;
        *p -= rate * g / (sqrt(*s0) + o->eps);
        break;
    default:
        *s0 = o->beta1 * *s0 + (1 - o->beta1) * g;
        *s1 = o->beta2 * *s1 + (1 - o->beta2) * g * g;
        *p -= rate * (*s0 / (1 - pow(o->beta1, t))) / (sqrt(*s1 / (1 - pow(o->beta2, t))) + o->eps);
    }
}

static void check(const plim__optimizer *o, plim_dtype t, const plim_shape *shape, uint64_t seed)
{
    parts_lab lab = parts_lab_new(seed * 31 + 7);
    const plim_shape scalar = {0};
    const uint32_t p = parts_lab_input(&lab, t, shape), dp = parts_lab_input(&lab, t, shape);
    const uint32_t rate = parts_lab_input(&lab, PLIM_F32, &scalar), step = parts_lab_input(&lab, PLIM_F32, &scalar);
    uint32_t state[2], out[PLIM__MAX_OUT];
    const uint32_t states = plim__optimizer_states(o->kind);
    const uint64_t n = parts_count(shape);
    for (uint32_t k = 0; k < states; k++) {
        state[k] = parts_lab_input(&lab, t, shape);
        for (uint64_t i = 0; i < n; i++) parts_set(lab.data[state[k]], t, i, 0);
    }
    assert_int_equal(plim__op_optimize(lab.g, o, p, dp, rate, step, state, out, NULL), PLIM_OK);
    double *want = calloc(3 * n + 1, sizeof *want);
    for (uint64_t i = 0; i < n; i++) want[i] = parts_get(lab.data[p], t, i);
    const double eps = t == PLIM_F32 ? 2e-5 : 1e-12;
    for (int s = 1; s <= STEPS; s++) {
        const float r = 0.01f * (float)s, at = (float)s;
        memcpy(lab.data[rate], &r, 4);
        memcpy(lab.data[step], &at, 4);
        parts_fill(lab.data[dp], t, n, &lab.rng);
        for (uint64_t i = 0; i < n; i++) reference(o, r, s, parts_get(lab.data[dp], t, i), &want[i], &want[n + i], &want[2 * n + i]);
        parts_run(lab.g, lab.data, s % 2 ? PARTS_CUT : PARTS_WHOLE, &lab.rng);
        for (uint64_t i = 0; i < n; i++)
            for (uint32_t j = 0; j <= states; j++)
                if (!parts_close(parts_get(lab.data[out[j]], t, i), want[j * n + i], eps, eps))
                    fail_msg("optimizer %d, step %d: output %u is %.9g at %llu, not %.9g", o->kind, s, j, parts_get(lab.data[out[j]], t, i),
                             (unsigned long long)i, want[j * n + i]);
        memcpy(lab.data[p], lab.data[out[0]], n * plim_dtype_bytes(t));
        for (uint32_t k = 0; k < states; k++) memcpy(lab.data[state[k]], lab.data[out[1 + k]], n * plim_dtype_bytes(t));
    }
    free(want);
    parts_lab_free(&lab);
}

static void test_steps(void **state)
{
    (void)state;
    static const plim_shape shapes[] = {{0, {0}}, {1, {1300}}, {2, {17, 40}}, {4, {3, 2, 3, 3}}, {2, {0, 3}}, {2, {3, 1100}}};
    for (size_t k = 0; k < COUNT_OF(settings); k++)
        for (size_t s = 0; s < COUNT_OF(shapes); s++) {
            check(&settings[k], PLIM_F32, &shapes[s], k);
            check(&settings[k], PLIM_F64, &shapes[s], s);
        }
}

/* What replaces a parameter may lie on it; both instruction sets agree to the bit. */
static void test_in_place(void **state)
{
    (void)state;
    enum { N = 1003 };
    static float first[4][N], apart[3][N], in_place[4][N];
    parts_rng rng = {1};
    for (int k = 0; k < 4; k++) {
        parts_fill(first[k], PLIM_F32, N, &rng);
        for (int i = 0; i < N; i++) first[k][i] = fabsf(first[k][i]) / 50;
    }
    const plim__update_by by = {.rate = 0.1, .l2 = 0.01, .shrink = 0.99, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .fix1 = 2, .fix2 = 3};
    const plim_shape s = {1, {N}};
    const plim__region all = plim__region_whole(&s);
    for (int how = 0; how < PLIM__UPDATE_COUNT; how++) {
        const uint32_t states = how == PLIM__UPDATE_SGD ? 0 : how == PLIM__UPDATE_ADAM ? 2 : 1;
        plim__view in[4], out[3];
        memcpy(in_place, first, sizeof first);
        for (uint32_t k = 0; k < states + 2; k++) in[k] = plim__view_dense(in_place[k], PLIM_F32, &all);
        for (uint32_t k = 0; k <= states; k++) out[k] = k ? in[1 + k] : in[0];
        plim__update_run((plim__update)how, &by, out, in, states);
        plim__update_lanes_base[0][how]((void *const[]){apart[0], apart[1], apart[2]}, (const void *const[]){first[0], first[1], first[2], first[3]},
                                        &by, N);
        for (uint32_t k = 0; k <= states; k++) assert_memory_equal(apart[k], in_place[k ? 1 + k : 0], sizeof apart[k]);
        assert_memory_equal(in_place[1], first[1], sizeof first[1]);
    }
}

static void test_refusals(void **state)
{
    (void)state;
    parts_lab lab = parts_lab_new(7);
    uint32_t out[PLIM__MAX_OUT];
    plim_error err = {0};
    const plim_shape s = {2, {3, 4}}, other = {2, {4, 3}}, scalar = {0};
    const uint32_t p = parts_lab_input(&lab, PLIM_F32, &s), q = parts_lab_input(&lab, PLIM_F32, &other);
    const uint32_t i = parts_lab_input(&lab, PLIM_I32, &s);
    const uint32_t one = parts_lab_input(&lab, PLIM_F32, &scalar), wide = parts_lab_input(&lab, PLIM_F64, &scalar);
    const plim__optimizer sgd = {.kind = PLIM__SGD}, wrong = {.kind = PLIM__MOMENTUM, .beta1 = 1}, none = {.kind = (plim__optimizer_kind)9};
    assert_int_equal(plim__op_optimize(lab.g, &sgd, p, p, one, one, NULL, out, NULL), PLIM_OK);
    assert_int_equal(plim__op_optimize(lab.g, &sgd, p, q, one, one, NULL, out, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_optimize(lab.g, &sgd, i, i, one, one, NULL, out, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_optimize(lab.g, &sgd, p, p, one, wide, NULL, out, &err), PLIM_E_TYPE);
    assert_string_equal(err.message, "optimizer: the step is a scalar of f32, not f64 of rank 0");
    assert_int_equal(plim__op_optimize(lab.g, &wrong, p, p, one, one, &p, out, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_optimize(lab.g, &none, p, p, one, one, &p, out, NULL), PLIM_E_INVALID);
    parts_lab_free(&lab);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_in_place), cmocka_unit_test(test_refusals)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
