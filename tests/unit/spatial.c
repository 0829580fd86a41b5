/* Convolution and pooling in plans: small nets, plain and blocked, and their gradients, written out by hand, in one piece and by plans picked at
 * random among all that fit. Every plan gives what one piece gives. */
#include "unit.h"

#include "faulty_os.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "preferences.h"
#include "programs.h"
#include "run/run.h"

#define RESULTS 4
#define PLANS 12
#define MOST_TILES 60 /* of a pass: more only cost time */

static const program_input inputs[] = {
    {.name = "x", PLIM_F32, {4, {3, 5, 23, 19}}, -1, 1},
    {.name = "w1", PLIM_F32, {4, {8, 5, 3, 3}}, -1, 1},
    {.name = "w2", PLIM_F32, {4, {16, 1, 3, 2}}, -1, 1},
    {.name = "dy", PLIM_F32, {4, {3, 16, 6, 4}}, -1, 1},
    {.name = "v1", PLIM_F32, {5, {3, 5, 3, 3, 16}}, -1, 1},
    {.name = "bias", PLIM_F32, {2, {3, 16}}, -1, 1},
    {.name = "v2", PLIM_F32, {6, {2, 3, 3, 3, 16, 16}}, -1, 1},
    {.name = "dv", PLIM_F32, {5, {3, 2, 6, 5, 16}}, -1, 1},
};
enum { X, W1, W2, DY, V1, BIAS, V2, DV, INPUTS };

typedef enum net { LARGEST, MEAN, BLOCKED } net;

static const plim__conv conv1 = {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
static const plim__conv conv2 = {2, {2, 2}, {1, 1}, {1, 0}, {1, 0}, 8}; /* by depth, two outputs a channel */
static const plim__pool pool = {.space = 2, .size = {3, 3}, .stride = {2, 2}, .dilation = {1, 1}, .before = {1, 1}, .after = {0, 0}};

static int begin(void **state)
{
    if (files_begin(state)) return -1;
    for (size_t i = 0; i < COUNT_OF(inputs); i++) program_input_write(&inputs[i]);
    return 0;
}

static plim_status open_inputs(plim_graph *g, uint32_t in[INPUTS], const plim__os *os, plim_error *err)
{
    for (uint32_t i = 0; i < INPUTS; i++) {
        char name[64], buf[256];
        plim__array_file f;
        snprintf(name, sizeof name, "%s.npy", inputs[i].name);
        PLIM_TRY(plim__array_open(&f, os, files_path(name), NULL, buf, sizeof buf, err));
        PLIM_TRY(plim__graph_file(g, inputs[i].name, f.dtype, &f.shape, &f.source, &in[i], err));
    }
    return PLIM_OK;
}

/* y = conv2(pool(conv1(x))) and the gradients with respect to x, w1 and w2 that dy gives. */
static plim_status fill_plain(plim_graph *g, bool average, const uint32_t in[INPUTS], uint32_t out[RESULTS], plim_error *err)
{
    uint32_t a, b, db, da;
    plim__pool p = pool;
    p.average = average;
    PLIM_TRY(plim__op_conv(g, in[X], in[W1], &conv1, &a, err));
    PLIM_TRY(plim__op_pool(g, a, &p, &b, err));
    PLIM_TRY(plim__op_conv(g, b, in[W2], &conv2, &out[0], err));
    const plim_shape bs = g->value[b].shape, w1 = g->value[in[W1]].shape, w2 = g->value[in[W2]].shape, xs = g->value[in[X]].shape;
    PLIM_TRY(plim__op_conv_data(g, in[DY], in[W2], &conv2, &bs, &db, err));
    PLIM_TRY(plim__op_conv_weights(g, b, in[DY], &conv2, &w2, &out[1], err));
    PLIM_TRY(plim__op_pool_back(g, a, b, db, &p, &da, err));
    PLIM_TRY(plim__op_conv_weights(g, in[X], da, &conv1, &w1, &out[2], err));
    return plim__op_conv_data(g, da, in[W1], &conv1, &xs, &out[3], err);
}

/* The same on blocks, with a bias and a rectifier: 5 channels, 40, and 20 with stride 2. */
static plim_status fill_blocked(plim_graph *g, const uint32_t in[INPUTS], uint32_t out[RESULTS], plim_error *err)
{
    const plim__conv_blocked first = {conv1, 5, 40, PLIM__BLOCKED_RELU, 0};
    const plim__conv_blocked second = {{2, {2, 2}, {1, 1}, {1, 1}, {1, 1}, 1}, 40, 20, PLIM__BLOCKED_LINEAR, 0};
    const plim__pool p = {.space = 3, .size = {3, 3, 1}, .stride = {2, 2, 1}, .dilation = {1, 1, 1}, .before = {1, 1, 0}};
    const plim_shape w1 = {4, {40, 5, 3, 3}}, w2 = {4, {20, 40, 3, 3}}, pooled = {4, {3, 40, 11, 9}};
    uint32_t a, b, da;
    PLIM_TRY(plim__op_conv_blocked(g, &(plim__conv_blocked_in){in[X], in[V1], in[BIAS], PLIM__NONE, PLIM__NONE}, &first, &a, err));
    PLIM_TRY(plim__op_pool(g, a, &p, &b, err));
    PLIM_TRY(plim__op_conv_blocked(g, &(plim__conv_blocked_in){b, in[V2], PLIM__NONE, PLIM__NONE, PLIM__NONE}, &second, &out[0], err));
    PLIM_TRY(plim__op_conv_blocked_data(g, in[DV], in[V2], &second, &pooled, &out[3], err));
    PLIM_TRY(plim__op_conv_blocked_weights(g, b, in[DV], &second, &w2, &out[1], err));
    PLIM_TRY(plim__op_pool_back(g, a, b, out[3], &p, &da, err));
    return plim__op_conv_blocked_weights(g, in[X], da, &first, &w1, &out[2], err);
}

static plim_status fill(plim_graph *g, net which, const plim__os *os, plim_error *err)
{
    uint32_t in[INPUTS], out[RESULTS];
    PLIM_TRY(open_inputs(g, in, os, err));
    if (which == BLOCKED) PLIM_TRY(fill_blocked(g, in, out, err));
    else PLIM_TRY(fill_plain(g, which == MEAN, in, out, err));
    for (uint32_t i = 0; i < RESULTS; i++) PLIM_TRY(plim__graph_output(g, out[i], "out", NULL, err));
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------- plans */

static uint32_t most_loops, passes_cut; /* what the plans looked like */

/* Results of one plan, copied out; an empty one where the budget was too small. */
typedef struct results {
    uint64_t n[RESULTS];
    float *data[RESULTS];
} results;

static void take(results *r, const plim_plan *plan)
{
    for (uint32_t i = 0; i < RESULTS; i++) {
        plim_result one;
        uint64_t bytes;
        assert_int_equal(plim_plan_result(&one, plan, i, NULL), PLIM_OK);
        assert_int_equal(plim_shape_bytes(&bytes, &one.shape, one.dtype, NULL), PLIM_OK);
        r->n[i] = bytes / sizeof(float);
        r->data[i] = malloc(bytes);
        memcpy(r->data[i], one.data, bytes);
    }
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        passes_cut += plan->pass[i].n_cut > 0;
        if (plan->pass[i].n_cut > most_loops) most_loops = plan->pass[i].n_cut;
    }
}

static plim_status run(results *r, net which, uint64_t memory, uint32_t threads, const plim__preference *prefer, plim_error *err)
{
    plim_graph *g;
    plim_plan *plan = NULL;
    faulty_os os;
    faulty_init(&os);
    *err = (plim_error){0};
    *r = (results){0};
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, err), PLIM_OK);
    if (fill(g, which, &os.table, err)) fail_msg("%s", err->message);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = threads;
    set.spill_dir = files_dir;
    plim_status status = plim__plan_new_by(&plan, g, &set, &os.table, prefer, err);
    if (status == PLIM_OK) status = plim_plan_check(plan, err);
    if (status == PLIM_OK) status = plim_plan_run(plan, NULL, err);
    if (status == PLIM_OK) take(r, plan);
    plim_plan_free(&plan);
    plim__graph_free(&g);
    return status;
}

static void results_free(results *r)
{
    for (uint32_t i = 0; i < RESULTS; i++) free(r->data[i]);
}

static void compare(const results *got, const results *want, uint64_t memory)
{
    for (uint32_t k = 0; k < RESULTS; k++) {
        double scale = 0;
        assert_int_equal(got->n[k], want->n[k]);
        for (uint64_t i = 0; i < want->n[k]; i++) scale = fmax(scale, fabs((double)want->data[k][i]));
        assert_true(scale > 0);
        for (uint64_t i = 0; i < want->n[k]; i++)
            if (fabs((double)got->data[k][i] - (double)want->data[k][i]) > 1e-5 * scale)
                fail_msg("budget %llu, result %u: element %llu is %g, in one piece %g", (unsigned long long)memory, k, (unsigned long long)i,
                         (double)got->data[k][i], (double)want->data[k][i]);
    }
}

static void check_plans(net which)
{
    plim_error err;
    results want, got;
    uint64_t rng = 5;
    if (run(&want, which, 1u << 30, 1, &prefer_one_piece, &err)) fail_msg("%s", err.message);
    assert_int_equal(run(&got, which, 1, 1, NULL, &err), PLIM_E_BUDGET);
    const uint64_t floor = err.need;
    if (run(&got, which, floor, 1, NULL, &err)) fail_msg("at the floor: %s", err.message);
    compare(&got, &want, floor);
    results_free(&got);
    for (int n = 0; n < PLANS; n++) {
        prefer_chance chance = {.seed = files_random(&rng), .most_tiles = MOST_TILES};
        const plim__preference prefer = {.score = prefer_by_chance, .ctx = &chance};
        const uint64_t memory = n % 2 ? 64u << 20 : floor + ((uint64_t)n << 14);
        if (run(&got, which, memory, n % 4 == 1 ? 2 : 1, &prefer, &err)) fail_msg("budget %llu: %s", (unsigned long long)memory, err.message);
        compare(&got, &want, memory);
        results_free(&got);
    }
    results_free(&want);
}

static void test_largest(void **state)
{
    (void)state;
    check_plans(LARGEST);
}

static void test_mean(void **state)
{
    (void)state;
    check_plans(MEAN);
    assert_true(most_loops >= 2);
    assert_true(passes_cut > PLANS);
}

static void test_blocked(void **state)
{
    (void)state;
    check_plans(BLOCKED);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_largest), cmocka_unit_test(test_mean), cmocka_unit_test(test_blocked)};
    return cmocka_run_group_tests(tests, begin, files_end);
}
