/* What is kept, dropped and made again, spilled and read back: a small net with its gradients, run uncut at limits from the least to no limit. Every
 * schedule passes the checker and gives, bit for bit, what keeping everything gives; kept in fewer bits, nearly so. */
#include "unit.h"

#include "countdown.h"
#include "faulty_os.h"
#include "models/narrow.h"
#include "ops/autodiff.h"
#include "ops/ops.h"
#include "programs.h"
#include "run/run.h"
#include "schedules.h"

#define LAYERS 10
#define LIMITS 5
#define SIDE 160
#define STATEMENTS 24
#define PROGRAMS 12
#define NET_LAYERS 10
#define NETS 330

static const program_input x_input = {.name = "x", PLIM_F32, {4, {2, 8, 96, 64}}, -1, 1};

static int begin(void **state)
{
    if (files_begin(state)) return -1;
    program_input_write(&x_input);
    program_input_write(&(program_input){.name = "xx", PLIM_F32, {2, {SIDE, SIDE}}, -1, 1});
    program_input_write(&(program_input){.name = "ww", PLIM_F32, {2, {SIDE, SIDE}}, -1, 1});
    program_input_write(&(program_input){.name = "batch", PLIM_F32, {4, {5, 8, 14, 16}}, -1, 1});
    for (int i = 0; i < LAYERS; i++) {
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        program_input_write(&(program_input){.name = name, PLIM_F32, {4, {8, 8, 3, 3}}, -0.3, 0.3});
    }
    return 0;
}

static plim_status input(plim_graph *g, const char *name, uint32_t *out, const plim__os *os, plim_error *err)
{
    char file[16], buf[256];
    plim__array_file f;
    snprintf(file, sizeof file, "%s.npy", name);
    PLIM_TRY(plim__array_open(&f, os, files_path(file), NULL, buf, sizeof buf, err));
    return plim__graph_file(g, name, f.dtype, &f.shape, &f.source, out, err);
}

static plim_status elementwise(plim_graph *g, plim__ew fn, uint32_t a, uint32_t b, uint32_t *out, plim_error *err)
{
    const uint32_t in[] = {a, b};
    return plim__op_elementwise(g, fn, PLIM_F32, PLIM_F32, in, b == PLIM__NONE ? 1 : 2, out, err);
}

/* h = tanh(conv(h, w)), again and again; the loss is the sum of squares, the results are it and the gradients of every w. */
static plim_status fill(plim_graph *g, const plim__os *os, plim_error *err)
{
    static const plim__conv same = {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    uint32_t w[LAYERS], dw[LAYERS], h, loss;
    PLIM_TRY(input(g, "x", &h, os, err));
    for (int i = 0; i < LAYERS; i++) {
        uint32_t z;
        char name[8];
        snprintf(name, sizeof name, "w%d", i);
        PLIM_TRY(input(g, name, &w[i], os, err));
        PLIM_TRY(plim__op_conv(g, h, w[i], &same, &z, err));
        PLIM_TRY(elementwise(g, PLIM__EW_TANH, z, PLIM__NONE, &h, err));
    }
    PLIM_TRY(elementwise(g, PLIM__EW_MUL, h, h, &h, err));
    PLIM_TRY(plim__op_reduce(g, PLIM__REDUCE_SUM, h, 0xf, false, PLIM_F32, &loss, err));
    PLIM_TRY(plim__graph_gradients(g, loss, w, LAYERS, dw, err));
    for (int i = 0; i < LAYERS; i++) PLIM_TRY(plim__graph_output(g, dw[i], "dw", NULL, err));
    return plim__graph_output(g, loss, "loss", NULL, err);
}

/* A program of statements that read what earlier ones made, near and far, and end in one matrix. */
static void random_program(char *text, size_t size, uint64_t *rng)
{
    static const char *const forms[] = {"v%d = tanh(v%d) + v%d * 0.5", "v%d = (v%d @ ww) * 0.05 - v%d", "v%d = v%d - mean(v%d, 0)", "v%d = maximum(v%d, v%d) * 0.9",
                                        "v%d = v%d.T.T + flip(v%d, 1)"};
    size_t at = (size_t)snprintf(text, size, "v0 = xx * 1; ");
    for (int i = 1; i < STATEMENTS; i++) {
        const int near = i - 1 - (int)(files_random(rng) % 2 < (uint64_t)(i > 1)), far = (int)(files_random(rng) % (uint64_t)i);
        at += (size_t)snprintf(text + at, size - at, forms[files_random(rng) % COUNT_OF(forms)], i, near, far);
        at += (size_t)snprintf(text + at, size - at, "; ");
    }
    snprintf(text + at, size - at, "r = v%d + v%d", STATEMENTS - 1, STATEMENTS / 2);
    assert_true(at + 32 < size);
}

static void build_program(plim_graph *g, const char *text, const plim__os *os)
{
    plim_error err = {0};
    plim__expr_input in[] = {{.name = "xx"}, {.name = "ww"}};
    plim__expr_result res[STATEMENTS + 2];
    uint32_t n = 0;
    for (size_t i = 0; i < COUNT_OF(in); i++)
        if (input(g, in[i].name, &in[i].value, os, &err)) fail_msg("%s", err.message);
    if (plim__expr_build(g, text, in, COUNT_OF(in), res, COUNT_OF(res), &n, &err)) fail_msg("%s: %s", text, err.message);
    assert_int_equal(plim__graph_output(g, res[n - 1].value, "r", NULL, &err), PLIM_OK);
}

static void take(const plim_plan *plan, float *out, uint64_t *n)
{
    *n = 0;
    for (uint32_t i = 0; i <= LAYERS; i++) {
        plim_result one;
        uint64_t bytes;
        assert_int_equal(plim_plan_result(&one, plan, i, NULL), PLIM_OK);
        assert_int_equal(plim_shape_bytes(&bytes, &one.shape, one.dtype, NULL), PLIM_OK);
        memcpy(out + *n, one.data, bytes);
        *n += bytes / sizeof *out;
    }
}

static void check_limits(bool spill, look *most)
{
    static float want[LAYERS * 576 + 1], got[LAYERS * 576 + 1];
    plim_error err = {0};
    plim_graph *g;
    plim_plan *plan;
    faulty_os os;
    look whole, seen;
    uint64_t n;
    faulty_init(&os);
    plim_settings set = plim_settings_default();
    set.memory = 256u << 20;
    set.threads = 1;
    set.spill_dir = spill ? files_dir : NULL;
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    if (fill(g, &os.table, &err) || plim__plan_new(&plan, g, &set, &os.table, &err)) fail_msg("%s", err.message);
    assert_true(schedule_plan(plan, UINT64_MAX, &whole));
    assert_int_equal(whole.again + whole.spilled + whole.reread, 0);
    if (plim_plan_run(plan, NULL, &err)) fail_msg("%s", err.message);
    take(plan, want, &n);
    *most = (look){0};
    for (int k = 0; k < LIMITS; k++) {
        if (!schedule_plan(plan, whole.peak * (uint64_t)(10 - k) / 11, &seen)) break;
        assert_true(seen.peak < whole.peak);
        assert_true(seen.arena < whole.arena);
        assert_true(seen.seconds - (double)seen.peak / 1.5e9 > whole.seconds - (double)whole.peak / 1.5e9); /* beside touching less memory */
        if (plim_plan_run(plan, NULL, &err)) fail_msg("%s", err.message);
        take(plan, got, &n);
        assert_memory_equal(got, want, n * sizeof *got);
        most->again += seen.again;
        most->spilled += seen.spilled;
        most->reread += seen.reread;
        most->peak = seen.peak;
    }
    assert_true(most->peak > 0 && most->peak < whole.peak * 2 / 3);
    plim_plan_free(&plan);
    plim__graph_free(&g);
}

static void test_made_again(void **state)
{
    look seen;
    (void)state;
    check_limits(false, &seen);
    assert_true(seen.again > 0);
    assert_int_equal(seen.spilled, 0);
}

static void test_spilled(void **state)
{
    look seen;
    (void)state;
    check_limits(true, &seen);
    assert_true(seen.spilled > 0);
    assert_true(seen.reread >= seen.spilled);
}

/* Uncut: where it is cut, sums are made of other pieces. */
static void run_plainly(plim_graph *g, const plim__os *os, float *out, uint64_t *n)
{
    plim_error err = {0};
    plim_plan *plan;
    plim_settings set = plim_settings_default();
    set.memory = 256u << 20;
    set.threads = 1;
    look seen;
    if (plim__plan_new(&plan, g, &set, os, &err)) fail_msg("%s", err.message);
    assert_true(schedule_plan(plan, UINT64_MAX, &seen));
    if (plim_plan_run(plan, NULL, &err)) fail_msg("%s", err.message);
    take(plan, out, n);
    plim_plan_free(&plan);
}

/* What backward nodes read goes through the dtype and back, once each; nothing else is different. */
static void check_narrowed(plim_dtype to, double tolerance)
{
    static float want[LAYERS * 576 + 1], got[LAYERS * 576 + 1];
    plim_error err = {0};
    plim__model *m;
    plim__train_graph t = {.target = PLIM__NONE, .rate = PLIM__NONE, .step = PLIM__NONE, .loss = PLIM__NONE};
    plim__narrowed done;
    faulty_os os;
    uint64_t n;
    faulty_init(&os);
    assert_int_equal(plim__model_new(&m, NULL, (plim__alloc){0}, &err), PLIM_OK);
    if (fill(m->graph, &os.table, &err)) fail_msg("%s", err.message);
    run_plainly(m->graph, &os.table, want, &n);
    const uint32_t nodes = m->graph->n_nodes;
    if (plim__model_narrow(&done, m, &t, to, &err)) fail_msg("%s", err.message);
    assert_int_equal(done.values, LAYERS); /* the tanh of every layer: the next one's input, and what its own gradient is made from */
    assert_true(done.saved_bytes == (uint64_t)LAYERS * 2 * 8 * 96 * 64 * 2);
    assert_int_equal(m->graph->n_nodes, nodes + 2 * LAYERS);
    run_plainly(m->graph, &os.table, got, &n);
    double most = 0, off = 0;
    for (uint64_t i = 0; i + 1 < n; i++) {
        most = fmax(most, fabs((double)want[i]));
        off = fmax(off, fabs((double)got[i] - (double)want[i]));
    }
    assert_true(off > 0 && off < tolerance * most);
    assert_true(got[n - 1] == want[n - 1]); /* the loss is made forwards */
    plim__model_free(&m);
}

static void test_narrowed(void **state)
{
    (void)state;
    check_narrowed(PLIM_F16, 2e-3);
    check_narrowed(PLIM_BF16, 2e-2);
}

static void compare(const plim_plan *plan, const float *want, const char *text)
{
    plim_result one;
    assert_int_equal(plim_plan_result(&one, plan, 0, NULL), PLIM_OK);
    for (int i = 0; i < SIDE * SIDE; i++) {
        const double got = (double)((const float *)one.data)[i], is = (double)want[i];
        if (!(fabs(got - is) <= 1e-4 * (1 + fabs(is)))) fail_msg("%s: element %d is %g, not %g", text, i, got, is);
    }
}

/* The smallest plans, by one search and by all recipes. */
static void check_smallest(const plim_graph *g, plim_settings set, const plim__os *os, const float *want, const char *text)
{
    for (int thorough = 0; thorough < 2; thorough++) {
        plim_error err = {0};
        plim_plan *plan = NULL;
        plim_status (*const make)(plim_plan **, const plim_graph *, const plim_settings *, const plim__os *, plim_error *) =
            thorough ? plim__plan_new_thorough : plim__plan_new;
        set.memory = 1;
        assert_int_equal(make(&plan, g, &set, os, &err), PLIM_E_BUDGET);
        set.memory = err.need;
        if (make(&plan, g, &set, os, &err) || plim_plan_run(plan, NULL, &err)) fail_msg("%s: %s", text, err.message);
        compare(plan, want, text);
        plim_plan_free(&plan);
    }
}

static void check_program(uint64_t seed, bool spill, look *sum)
{
    static float want[SIDE * SIDE];
    char text[4096];
    plim_error err = {0};
    plim_graph *g;
    plim_plan *plan;
    plim_result one;
    faulty_os os;
    look whole, seen;
    random_program(text, sizeof text, &seed);
    faulty_init(&os);
    plim_settings set = plim_settings_default();
    set.memory = 256u << 20;
    set.threads = 1 + (uint32_t)(seed % 2);
    set.spill_dir = spill ? files_dir : NULL;
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    build_program(g, text, &os.table);
    if (plim__plan_new(&plan, g, &set, &os.table, &err)) fail_msg("%s: %s", text, err.message);
    assert_true(schedule_plan(plan, UINT64_MAX, &whole));
    if (plim_plan_run(plan, NULL, &err) || plim_plan_result(&one, plan, 0, &err)) fail_msg("%s", err.message);
    memcpy(want, one.data, sizeof want);
    for (int k = 1; k < 8 && schedule_plan(plan, whole.peak * (uint64_t)(16 - 2 * k) / 16, &seen); k++) {
        if (plim_plan_run(plan, NULL, &err)) fail_msg("%s", err.message);
        compare(plan, want, text);
        sum->again += seen.again;
        sum->spilled += seen.spilled;
    }
    check_smallest(g, set, &os.table, want, text);
    plim_plan_free(&plan);
    plim__graph_free(&g);
}

static void test_random_programs(void **state)
{
    (void)state;
    look sum = {0};
    for (uint64_t seed = 1; seed <= PROGRAMS; seed++) check_program(seed * 77, seed % 2, &sum);
    assert_true(sum.again > 4 * PROGRAMS && sum.spilled > 0); /* nets with loops, below, spill a hundred times as much */
}

/* A net of random layers over a batch, with skips, and the gradients of its weights. */
static void random_net(plim_graph *g, const plim__os *os, uint64_t *rng, uint32_t *outputs)
{
    static const plim__conv same = {2, {1, 1}, {1, 1}, {1, 1}, {1, 1}, 1};
    static const plim__ew functions[] = {PLIM__EW_TANH, PLIM__EW_ABS, PLIM__EW_SIN};
    plim_error err = {0};
    uint32_t h[NET_LAYERS + 1], w[NET_LAYERS], dw[NET_LAYERS], n = 0, loss;
    if (input(g, "batch", &h[0], os, &err)) fail_msg("%s", err.message);
    const uint32_t layers = 3 + (uint32_t)(files_random(rng) % (NET_LAYERS - 2));
    for (uint32_t i = 0; i < layers; i++) {
        const uint32_t kind = i == 0 ? 0 : (uint32_t)(files_random(rng) % 3), far = h[files_random(rng) % (i + 1)];
        char name[8];
        snprintf(name, sizeof name, "w%u", n);
        if (kind == 0 && (input(g, name, &w[n], os, &err) || plim__op_conv(g, h[i], w[n], &same, &h[i + 1], &err))) fail_msg("%s", err.message);
        n += kind == 0;
        if (kind == 1 && elementwise(g, functions[files_random(rng) % COUNT_OF(functions)], h[i], PLIM__NONE, &h[i + 1], &err)) fail_msg("%s", err.message);
        if (kind == 2 && elementwise(g, files_random(rng) % 2 ? PLIM__EW_ADD : PLIM__EW_MUL, h[i], far, &h[i + 1], &err)) fail_msg("%s", err.message);
    }
    uint32_t last = h[layers];
    if (elementwise(g, PLIM__EW_TANH, last, PLIM__NONE, &last, &err) || elementwise(g, PLIM__EW_MUL, last, last, &last, &err) ||
        plim__op_reduce(g, PLIM__REDUCE_SUM, last, 0xf, false, PLIM_F32, &loss, &err) || plim__graph_gradients(g, loss, w, n, dw, &err))
        fail_msg("%s", err.message);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(plim__graph_output(g, dw[i], "dw", NULL, &err), PLIM_OK);
    assert_int_equal(plim__graph_output(g, loss, "loss", NULL, &err), PLIM_OK);
    *outputs = n + 1;
}

/* The results, one behind the other. @return how many numbers */
static uint64_t take_all(const plim_plan *plan, uint32_t outputs, float *out)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < outputs; i++) {
        plim_result one;
        uint64_t bytes;
        assert_int_equal(plim_plan_result(&one, plan, i, NULL), PLIM_OK);
        assert_int_equal(plim_shape_bytes(&bytes, &one.shape, one.dtype, NULL), PLIM_OK);
        memcpy(out + n, one.data, bytes);
        n += bytes / sizeof *out;
    }
    return n;
}

/* Every schedule of a cut net gives what the uncut one gives, but for the order of additions. */
static void check_cut_net(uint64_t seed, look *sum)
{
    static float want[NET_LAYERS * 576 + 1], got[NET_LAYERS * 576 + 1];
    plim_error err = {0};
    plim_graph *g;
    plim_plan *plan;
    faulty_os os;
    look whole, seen;
    uint32_t outputs;
    faulty_init(&os);
    plim_settings set = plim_settings_default();
    plim_machine slow = plim_machine_default(); /* convolutions are spilled on it, and simple functions recomputed */
    slow.kernel[PLIM_KERNEL_CONV] = (plim_rate){slow.kernel[PLIM_KERNEL_CONV].one / 20, slow.kernel[PLIM_KERNEL_CONV].all / 20};
    set.machine = &slow;
    set.memory = 256u << 20;
    set.threads = 1 + (uint32_t)(seed % 3);
    set.spill_dir = seed % 5 ? files_dir : NULL;
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    random_net(g, &os.table, &seed, &outputs);
    if (plim__plan_new(&plan, g, &set, &os.table, &err)) fail_msg("%s", err.message);
    assert_true(schedule_plan(plan, UINT64_MAX, &whole));
    if (plim_plan_run(plan, NULL, &err)) fail_msg("%s", err.message);
    const uint64_t n = take_all(plan, outputs, want);
    double largest = 0;
    for (uint64_t i = 0; i < n; i++) largest = fmax(largest, fabs((double)want[i]));
    const cut how = {.loops = files_random(&seed) % 2 ? 1 : 1u << files_random(&seed) % 4 | 1u << files_random(&seed) % 4, .tile = 1 + (int64_t)(files_random(&seed) % 3),
                     .resident = files_random(&seed) % 2 ? 0 : UINT64_MAX, .reversed = files_random(&seed) % 2};
    if (!schedule_cut(plan, &how, UINT64_MAX, &whole)) whole.peak = 0;
    for (uint64_t k = 0; k < 5 && whole.peak > 0; k++) {
        if (!schedule_cut(plan, &how, whole.floor + (whole.peak - whole.floor) * k / 6, &seen)) continue;
        if (plim_plan_run(plan, NULL, &err)) fail_msg("%s", err.message);
        take_all(plan, outputs, got);
        for (uint64_t i = 0; i < n; i++)
            if (!(fabs((double)got[i] - (double)want[i]) <= 2e-6 * largest)) fail_msg("number %llu is %g, not %g", (unsigned long long)i, (double)got[i], (double)want[i]);
        sum->again += seen.trips > 1 ? seen.again : 0;
        sum->spilled += seen.trips > 1 ? seen.spilled : 0;
        sum->trips += seen.trips > 1 && seen.again > 0 && seen.spilled > 0;
    }
    plim_plan_free(&plan);
    plim__graph_free(&g);
}

static void test_cut_nets(void **state)
{
    (void)state;
    look sum = {0};
    for (uint64_t seed = 1; seed <= NETS; seed++) check_cut_net(seed * 991, &sum);
    print_message("%llu schedules with loops recompute and spill; %u values recomputed, %u spilled\n", (unsigned long long)sum.trips, sum.again, sum.spilled);
    assert_true(sum.trips >= 200);
}

/* A thorough plan with the N-th allocation failing, for N from 0 in growing steps until none fails: refused, and nothing is left behind. */
static void test_failing_allocations(void **state)
{
    (void)state;
    faulty_os os;
    plim_graph *g;
    plim_error err = {0};
    faulty_init(&os);
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    if (fill(g, &os.table, &err)) fail_msg("%s", err.message);
    uint32_t refused = 0;
    for (int64_t nth = 0;; nth += 1 + nth / 3) {
        countdown c = {.left = nth};
        plim_plan *plan = NULL;
        plim_settings set = plim_settings_default();
        set.memory = 64u << 20;
        set.threads = 1;
        set.spill_dir = files_dir;
        set.alloc = countdown_alloc;
        set.alloc_ctx = &c;
        const plim_status status = plim__plan_new_thorough(&plan, g, &set, &os.table, &err);
        if (status == PLIM_OK) plim_plan_free(&plan);
        assert_int_equal(c.live, 0);
        if (c.failed == 0) break;
        assert_int_equal(status, PLIM_E_NOMEM);
        refused++;
    }
    assert_true(refused > 20);
    plim__graph_free(&g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_made_again), cmocka_unit_test(test_spilled), cmocka_unit_test(test_narrowed),
                                       cmocka_unit_test(test_random_programs),
        cmocka_unit_test(test_cut_nets), cmocka_unit_test(test_failing_allocations)};
    return cmocka_run_group_tests(tests, begin, files_end);
}
