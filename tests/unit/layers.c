/* Activations, normalisations, dropout and losses: forward values against the formulas, written out in double. (Their gradients are those of their
 * parts.) */
#include "unit.h"

#include "parts.h"
#include "ops/layers.h"

#define VALUES 64

typedef struct fixture {
    plim_graph *g;
    void *data[VALUES];
    parts_rng rng;
    plim_dtype t;
} fixture;

static fixture fixture_new(plim_dtype t, uint64_t seed)
{
    fixture f = {.rng = {seed * 977 + 5}, .t = t};
    assert_int_equal(plim__graph_new(&f.g, (plim__alloc){0}, NULL), PLIM_OK);
    return f;
}

static void fixture_free(fixture *f)
{
    assert_true(f->g->n_values <= VALUES);
    parts_free(f->g, f->data);
    plim__graph_free(&f->g);
}

static uint32_t input(fixture *f, const plim_shape *s, double by)
{
    const uint32_t v = parts_input(f->g, f->data, f->t, s, &f->rng);
    parts_scale(f->g, f->data, v, by);
    return v;
}

static double at(const fixture *f, uint32_t v, uint64_t i) { return parts_get(f->data[v], f->g->value[v].dtype, i); }

static void expect(double got, double want, double eps, const char *what, int kind, uint64_t i)
{
    if (!parts_close(got, want, eps, eps)) fail_msg("%s %d: element %llu is %.9g, not %.9g", what, kind, (unsigned long long)i, got, want);
}

/* ------------------------------------------------------------------------------------------ activations */

static double clamp(double x, double lo, double hi) { return x < lo ? lo : x > hi ? hi : x; }

static double activation(plim__activation how, double x, double a, double b)
{
    switch (how) {
    case PLIM__RELU: return x > 0 ? x : 0;
    case PLIM__RELU6: return clamp(x, 0, 6);
    case PLIM__LEAKY_RELU: return x > 0 ? x : a * x;
    case PLIM__ELU: return x > 0 ? x : a * (exp(x) - 1);
    case PLIM__SELU: return b * (x > 0 ? x : a * (exp(x) - 1));
    case PLIM__GELU: return 0.5 * x * (1 + erf(x / sqrt(2)));
    case PLIM__GELU_TANH: return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
    case PLIM__SIGMOID: return 1 / (1 + exp(-x));
    case PLIM__HARD_SIGMOID: return clamp(a * x + b, 0, 1);
    case PLIM__SWISH: return x / (1 + exp(-x));
    case PLIM__HARD_SWISH: return x * clamp(x + 3, 0, 6) / 6;
    case PLIM__TANH: return tanh(x);
    case PLIM__SOFTPLUS: return x > 40 ? x : log(1 + exp(x));
    case PLIM__SOFTSIGN: return x / (1 + fabs(x));
    case PLIM__EXPONENTIAL: return exp(x);
    case PLIM__MISH: return x * tanh(x > 40 ? x : log(1 + exp(x)));
    default: return x;
    }
}

static void test_activations(void **state)
{
    (void)state;
    const plim_shape s = {2, {40, 31}};
    for (int how = 0; how <= PLIM__LINEAR; how++)
        for (int wide = 0; wide < 2; wide++) {
            fixture f = fixture_new(wide ? PLIM_F64 : PLIM_F32, (uint64_t)how);
            const uint32_t x = input(&f, &s, how == PLIM__EXPONENTIAL ? 25 : 5);
            parts_set(f.data[x], f.t, 3, 0);
            parts_set(f.data[x], f.t, 4, how == PLIM__EXPONENTIAL ? 2 : 200); /* where exp overflows in f32 */
            parts_set(f.data[x], f.t, 5, -200);
            const double a = how == PLIM__HARD_SIGMOID ? 0.2 : how == PLIM__SELU ? 1.6732632423543772 : 0.3;
            const double b = how == PLIM__SELU ? 1.0507009873554805 : 0.5;
            uint32_t y;
            assert_int_equal(plim__op_activation(f.g, (plim__activation)how, x, a, b, &y, NULL), PLIM_OK);
            assert_int_equal(f.g->value[y].dtype, f.t);
            parts_run(f.g, f.data, PARTS_CUT, &f.rng);
            for (uint64_t i = 0; i < 40 * 31; i++)
                expect(at(&f, y, i), activation((plim__activation)how, at(&f, x, i), a, b), wide ? 1e-14 : 3e-6, "activation", how, i);
            parts_set(f.data[x], f.t, 9, NAN);
            parts_run(f.g, f.data, PARTS_WHOLE, &f.rng);
            assert_true(isnan(at(&f, y, 9)));
            fixture_free(&f);
        }
}

/* ---------------------------------------------------------------------------------------- normalisations */

/* Statistics of the elements of x that share `group`'s number with element i. */
typedef uint64_t group_fn(const plim_shape *s, uint64_t i, int64_t parameter);

static void check_norm(const fixture *f, const char *what, uint32_t x, uint32_t y, group_fn *group, int64_t parameter, uint64_t groups,
                       group_fn *element,
                       uint32_t scale, uint32_t shift, double eps)
{
    const plim_shape *s = &f->g->value[x].shape;
    const uint64_t n = parts_count(s);
    double *d = calloc(3 * groups, sizeof *d), *count = d, *mean = d + groups, *var = d + 2 * groups;
    for (uint64_t i = 0; i < n; i++) {
        count[group(s, i, parameter)]++;
        mean[group(s, i, parameter)] += at(f, x, i);
    }
    for (uint64_t k = 0; k < groups; k++) mean[k] /= count[k];
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t k = group(s, i, parameter);
        var[k] += (at(f, x, i) - mean[k]) * (at(f, x, i) - mean[k]) / count[k];
    }
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t k = group(s, i, parameter), e = element(s, i, parameter);
        double want = (at(f, x, i) - mean[k]) / sqrt(var[k] + eps);
        if (scale != PLIM__NONE) want *= at(f, scale, e);
        if (shift != PLIM__NONE) want += at(f, shift, e);
        expect(at(f, y, i), want, f->t == PLIM_F64 ? 1e-11 : 2e-4, what, (int)parameter, i);
    }
    free(d);
}

static uint64_t inner_of(const plim_shape *s, uint32_t from)
{
    uint64_t n = 1;
    for (uint32_t d = from; d < s->rank; d++) n *= (uint64_t)s->dim[d];
    return n;
}

static uint64_t channel_of(const plim_shape *s, uint64_t i, int64_t channel)
{
    return i / inner_of(s, (uint32_t)channel + 1) % (uint64_t)s->dim[channel];
}

static uint64_t outer_of(const plim_shape *s, uint64_t i, int64_t first) { return i / inner_of(s, (uint32_t)first); }
static uint64_t position_of(const plim_shape *s, uint64_t i, int64_t first) { return i % inner_of(s, (uint32_t)first); }

static uint64_t group_of(const plim_shape *s, uint64_t i, int64_t groups)
{
    const uint64_t each = (uint64_t)(s->dim[1] / groups);
    return i / inner_of(s, 1) * (uint64_t)groups + channel_of(s, i, 1) / each;
}

static uint64_t second_of(const plim_shape *s, uint64_t i, int64_t groups)
{
    (void)groups;
    return channel_of(s, i, 1);
}

static void test_batch_norm(void **state)
{
    (void)state;
    static const struct { plim_shape shape; uint32_t channel; } cases[] = {
        {{4, {3, 5, 6, 7}}, 1}, {{2, {40, 3}}, 1}, {{3, {4, 5, 6}}, 2}, {{3, {4, 5, 6}}, 0},
    };
    for (size_t k = 0; k < COUNT_OF(cases); k++)
        for (int wide = 0; wide < 2; wide++)
            for (int given = 0; given < 2; given++) {
                fixture f = fixture_new(wide ? PLIM_F64 : PLIM_F32, k);
                const plim_shape *s = &cases[k].shape, c = {1, {s->dim[cases[k].channel]}};
                const uint32_t x = input(&f, s, 10), scale = given ? input(&f, &c, 25) : PLIM__NONE, shift = given ? input(&f, &c, 25) : PLIM__NONE;
                uint32_t y, mean, var, again;
                assert_int_equal(plim__op_batch_norm_training(f.g, x, cases[k].channel, scale, shift, 1e-3, &y, &mean, &var, NULL), PLIM_OK);
                assert_true(plim__shape_equal(&f.g->value[mean].shape, &c) && plim__shape_equal(&f.g->value[var].shape, &c) &&
                            f.g->value[var].dtype == f.t);
                assert_int_equal(plim__op_batch_norm(f.g, x, cases[k].channel, scale, shift, mean, var, 1e-3, &again, NULL), PLIM_OK);
                assert_int_equal(again, y); /* equal applications are one */
                for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
                    parts_run(f.g, f.data, (parts_mode)mode, &f.rng);
                    check_norm(&f, "batch norm", x, y, channel_of, cases[k].channel, (uint64_t)c.dim[0], channel_of, scale, shift, 1e-3);
                }
                double sum = 0, count = 0;
                for (uint64_t i = 0; i < parts_count(s); i++)
                    if (channel_of(s, i, cases[k].channel) == 1) sum += at(&f, x, i), count++;
                expect(at(&f, mean, 1), sum / count, 1e-6, "the mean", 0, 1);
                fixture_free(&f);
            }
}

static void test_layer_norm(void **state)
{
    (void)state;
    const plim_shape s = {4, {3, 4, 5, 6}};
    for (uint32_t first = 0; first < 4; first++)
        for (int wide = 0; wide < 2; wide++) {
            fixture f = fixture_new(wide ? PLIM_F64 : PLIM_F32, first);
            plim_shape own = {.rank = 4 - first};
            memcpy(own.dim, s.dim + first, own.rank * sizeof *own.dim);
            const uint32_t x = input(&f, &s, 10), scale = input(&f, &own, 25), shift = first == 2 ? PLIM__NONE : input(&f, &own, 25);
            uint32_t y;
            assert_int_equal(plim__op_layer_norm(f.g, x, first, scale, shift, 1e-5, &y, NULL), PLIM_OK);
            parts_run(f.g, f.data, PARTS_MERGED, &f.rng);
            check_norm(&f, "layer norm", x, y, outer_of, first, 60 * 6 / inner_of(&s, first), position_of, scale, shift, 1e-5);
            fixture_free(&f);
        }
}

static void test_group_norm(void **state)
{
    (void)state;
    static const plim_shape shapes[] = {{4, {2, 6, 4, 5}}, {3, {3, 6, 7}}, {2, {5, 6}}};
    static const int64_t groups[] = {1, 2, 3, 6};
    for (size_t k = 0; k < COUNT_OF(shapes); k++)
        for (size_t n = 0; n < COUNT_OF(groups); n++)
            for (int wide = 0; wide < 2; wide++) {
                if (shapes[k].rank == 2 && groups[n] == 6) continue;
                fixture f = fixture_new(wide ? PLIM_F64 : PLIM_F32, k);
                const plim_shape c = {1, {6}};
                const uint32_t x = input(&f, &shapes[k], 10), scale = wide ? input(&f, &c, 25) : PLIM__NONE, shift = input(&f, &c, 25);
                uint32_t y;
                plim_error err = {0};
                if (plim__op_group_norm(f.g, x, groups[n], scale, shift, 1e-4, &y, &err) != PLIM_OK) fail_msg("%s", err.message);
                parts_run(f.g, f.data, PARTS_MERGED, &f.rng);
                check_norm(&f, "group norm", x, y, group_of, groups[n], (uint64_t)(shapes[k].dim[0] * groups[n]), second_of, scale, shift, 1e-4);
                fixture_free(&f);
            }
}

/* A mean far from 0 takes no digits that were there. */
static void test_norm_offset(void **state)
{
    (void)state;
    const plim_shape s = {2, {2000, 2}};
    fixture f = fixture_new(PLIM_F64, 1);
    const uint32_t x = input(&f, &s, 50);
    for (uint64_t i = 0; i < 4000; i++) parts_set(f.data[x], f.t, i, at(&f, x, i) + 1e9);
    uint32_t y, mean, var;
    assert_int_equal(plim__op_batch_norm_training(f.g, x, 1, PLIM__NONE, PLIM__NONE, 0, &y, &mean, &var, NULL), PLIM_OK);
    parts_run(f.g, f.data, PARTS_MERGED, &f.rng);
    double sum = 0;
    for (uint64_t i = 0; i < 4000; i++) sum += at(&f, y, i) * at(&f, y, i);
    expect(sum / 4000, 1, 1e-6, "the variance", 0, 0);
    fixture_free(&f);
}

/* ---------------------------------------------------------------------------------------------- dropout */

static void test_dropout(void **state)
{
    (void)state;
    const plim_shape s = {2, {200, 100}}, scalar = {0};
    for (int wide = 0; wide < 2; wide++) {
        fixture f = fixture_new(wide ? PLIM_F64 : PLIM_F32, 1);
        const uint32_t x = input(&f, &s, 10), seed = parts_input(f.g, f.data, PLIM_U64, &scalar, &f.rng);
        parts_set(f.data[x], f.t, 0, INFINITY);
        uint32_t y, other, none;
        assert_int_equal(plim__op_dropout(f.g, x, 0.3, seed, 1, &y, NULL), PLIM_OK);
        assert_int_equal(plim__op_dropout(f.g, x, 0.3, seed, 2, &other, NULL), PLIM_OK);
        assert_int_equal(plim__op_dropout(f.g, x, 0, seed, 2, &none, NULL), PLIM_OK);
        assert_int_equal(none, x);
        parts_run(f.g, f.data, PARTS_CUT, &f.rng);
        int64_t dropped = 0, differ = 0;
        for (uint64_t i = 0; i < 20000; i++) {
            const bool gone = at(&f, y, i) == 0;
            dropped += gone;
            differ += gone != (at(&f, other, i) == 0);
            if (!gone) expect(at(&f, y, i), at(&f, x, i) / 0.7, 1e-6, "dropout", wide, i);
        }
        assert_true(llabs(dropped - 6000) < 400 && llabs(differ - 8400) < 500);
        assert_int_equal(plim__op_dropout(f.g, x, 1, seed, 1, &y, NULL), PLIM_E_INVALID);
        fixture_free(&f);
    }
}

/* ----------------------------------------------------------------------------------------------- losses */

/* Of logits if `logits`, else of probabilities. One axis of classes in the middle: [3, K, 5] or, for axis 0 and 2, turned. */
static double loss_of(const fixture *f, plim__loss how, uint32_t y, uint32_t target, uint32_t axis)
{
    const plim_shape *s = &f->g->value[y].shape;
    const uint64_t n = parts_count(s), step = inner_of(s, axis + 1), classes = (uint64_t)s->dim[axis];
    const bool logits = how == PLIM__LOSS_CROSS_LOGITS || how == PLIM__LOSS_SPARSE_LOGITS;
    const bool sparse = how == PLIM__LOSS_SPARSE || how == PLIM__LOSS_SPARSE_LOGITS;
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double p = at(f, y, i), t = sparse ? 0 : at(f, target, i);
        if (how == PLIM__LOSS_MSE) sum += (p - t) * (p - t);
        if (how == PLIM__LOSS_MAE) sum += fabs(p - t);
        if (how == PLIM__LOSS_BINARY) sum -= t * log(p) + (1 - t) * log(1 - p);
        if (how == PLIM__LOSS_BINARY_LOGITS) sum += (p > 0 ? p : 0) - p * t + log1p(exp(-fabs(p)));
        if (how < PLIM__LOSS_CROSS) continue;
        const uint64_t k = i / step % classes, first = i - k * step, sample = i / step / classes * step + i % step;
        double total = 0, top = -INFINITY;
        for (uint64_t c = 0; c < classes; c++) top = fmax(top, at(f, y, first + c * step));
        for (uint64_t c = 0; c < classes; c++) total += exp(at(f, y, first + c * step) - top);
        const double l = logits ? p - top - log(total) : log(p);
        sum -= l * (sparse ? at(f, target, sample) == (double)k : t);
    }
    return sum / (how < PLIM__LOSS_CROSS ? (double)n : (double)(n / classes));
}

static uint32_t targets(fixture *f, const plim_shape *s, uint32_t axis, bool sparse)
{
    plim_shape less = {.rank = s->rank - 1};
    for (uint32_t d = 0; d < less.rank; d++) less.dim[d] = s->dim[d + (d >= axis)];
    const uint32_t v = parts_input(f->g, f->data, sparse ? PLIM_I64 : f->t, sparse ? &less : s, &f->rng);
    const uint64_t n = parts_count(&f->g->value[v].shape);
    for (uint64_t i = 0; i < n; i++) {
        const double t = sparse ? (double)parts_random(&f->rng, (uint32_t)s->dim[axis]) : parts_random(&f->rng, 1000) / 1000.0;
        parts_set(f->data[v], f->g->value[v].dtype, i, t);
    }
    return v;
}

static void check_loss(plim__loss how, const plim_shape *s, uint32_t axis, plim_dtype t, uint64_t seed)
{
    fixture f = fixture_new(t, seed);
    const bool sparse = how == PLIM__LOSS_SPARSE || how == PLIM__LOSS_SPARSE_LOGITS;
    const bool probabilities = how == PLIM__LOSS_BINARY || how == PLIM__LOSS_CROSS || how == PLIM__LOSS_SPARSE;
    const uint32_t y = input(&f, s, probabilities ? 120 : 1), target = targets(&f, s, axis, sparse);
    if (probabilities)
        for (uint64_t i = 0; i < parts_count(s); i++) parts_set(f.data[y], t, i, at(&f, y, i) + 0.5);
    uint32_t v;
    plim_error err = {0};
    if (plim__op_loss(f.g, how, y, target, axis, &v, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(f.g->value[v].shape.rank, 0);
    assert_int_equal(f.g->value[v].dtype, t);
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        parts_run(f.g, f.data, (parts_mode)mode, &f.rng);
        expect(at(&f, v, 0), loss_of(&f, how, y, target, axis), t == PLIM_F64 ? 1e-13 : 2e-6, "loss", how, 0);
    }
    fixture_free(&f);
}

static void test_losses(void **state)
{
    (void)state;
    const plim_shape s = {3, {6, 7, 5}}, flat = {2, {40, 10}}, one = {1, {9}};
    for (int how = 0; how <= PLIM__LOSS_SPARSE_LOGITS; how++)
        for (int wide = 0; wide < 2; wide++) {
            const plim_dtype t = wide ? PLIM_F64 : PLIM_F32;
            for (uint32_t axis = 0; axis < 3; axis++) check_loss((plim__loss)how, &s, axis, t, axis);
            check_loss((plim__loss)how, &flat, 1, t, 9);
            check_loss((plim__loss)how, &one, 0, t, 8);
        }
}

/* The logarithm of a softmax or a sigmoid is taken of its logits: one that is 0 in f32 has a finite loss. */
static void test_loss_logits(void **state)
{
    (void)state;
    const plim_shape s = {2, {1, 2}}, label = {1, {1}};
    fixture f = fixture_new(PLIM_F32, 1);
    const uint32_t x = input(&f, &s, 1), t = input(&f, &s, 1), i = parts_input(f.g, f.data, PLIM_I32, &label, &f.rng);
    memcpy(f.data[x], (float[]){300, 0}, 8);
    memcpy(f.data[t], (float[]){0, 1}, 8);
    memcpy(f.data[i], (int32_t[]){1}, 4);
    uint32_t p, q, across, cross, sparse, binary, limited, turned;
    const uint32_t perm[] = {1, 0};
    assert_int_equal(plim__op_softmax(f.g, x, 1, false, &p, NULL), PLIM_OK);
    assert_int_equal(plim__op_transpose(f.g, p, perm, &across, NULL), PLIM_OK); /* the logits are behind it */
    assert_int_equal(plim__op_transpose(f.g, t, perm, &turned, NULL), PLIM_OK);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_CROSS, across, turned, 0, &turned, NULL), PLIM_OK);
    assert_int_equal(plim__op_activation(f.g, PLIM__SIGMOID, x, 0, 0, &q, NULL), PLIM_OK);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_CROSS, p, t, 1, &cross, NULL), PLIM_OK);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_SPARSE, p, i, 1, &sparse, NULL), PLIM_OK);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_BINARY, q, t, 0, &binary, NULL), PLIM_OK);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_CROSS, t, t, 1, &limited, NULL), PLIM_OK);
    parts_run(f.g, f.data, PARTS_WHOLE, &f.rng);
    expect(at(&f, cross, 0), 300, 1e-6, "loss", PLIM__LOSS_CROSS, 0);
    expect(at(&f, turned, 0), 300, 1e-6, "loss, transposed", PLIM__LOSS_CROSS, 0);
    expect(at(&f, sparse, 0), 300, 1e-6, "loss", PLIM__LOSS_SPARSE, 0);
    expect(at(&f, binary, 0), (300 + log(2)) / 2, 1e-6, "loss", PLIM__LOSS_BINARY, 0);
    expect(at(&f, limited, 0), 1e-7, 1e-6, "loss", PLIM__LOSS_CROSS, 0);
    fixture_free(&f);
}

static void test_refusals(void **state)
{
    (void)state;
    const plim_shape s = {2, {4, 6}}, c = {1, {6}}, d = {1, {4}};
    fixture f = fixture_new(PLIM_F32, 1);
    const uint32_t x = input(&f, &s, 1), a = input(&f, &c, 1), b = input(&f, &d, 1), i = parts_input(f.g, f.data, PLIM_I32, &s, &f.rng);
    f.t = PLIM_F64;
    const uint32_t w = input(&f, &c, 1);
    uint32_t v;
    plim_error err = {0};
    assert_int_equal(plim__op_activation(f.g, PLIM__RELU, i, 0, 0, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_activation(f.g, (plim__activation)99, x, 0, 0, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_activation(f.g, PLIM__RELU, 9999, 0, 0, &v, NULL), PLIM_E_INVALID);
    assert_int_equal(plim__op_batch_norm(f.g, x, 2, a, a, a, a, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_batch_norm(f.g, x, 1, a, a, b, a, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_batch_norm(f.g, x, 1, w, a, a, a, 0, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_layer_norm(f.g, x, 1, b, PLIM__NONE, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_group_norm(f.g, x, 4, PLIM__NONE, PLIM__NONE, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_MSE, x, a, 0, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_SPARSE, x, b, 1, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_CROSS, x, x, 2, &v, NULL), PLIM_E_SHAPE);
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_SPARSE, x, i, 1, &v, &err), PLIM_E_SHAPE);
    assert_string_equal(err.message, "loss: a target of shape [4,6], not [4]");
    assert_int_equal(plim__op_loss(f.g, PLIM__LOSS_MSE, x, i, 1, &v, NULL), PLIM_OK);
    assert_int_equal(plim__op_float2(f.g, PLIM__EW_ADD, a, w, &v, NULL), PLIM_E_TYPE);
    assert_int_equal(plim__op_compare(f.g, PLIM__EW_ADD, a, 0, &v, NULL), PLIM_E_INVALID);
    fixture_free(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_activations), cmocka_unit_test(test_batch_norm), cmocka_unit_test(test_layer_norm), cmocka_unit_test(test_group_norm),
        cmocka_unit_test(test_norm_offset), cmocka_unit_test(test_dropout), cmocka_unit_test(test_losses), cmocka_unit_test(test_loss_logits),
        cmocka_unit_test(test_refusals),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
