/* The budget's sums: a plan that fits is inside its budget with everything that is counted after it was chosen; without a folder nothing is written to disk;
 * tables of threads are as large as the largest stage, not as the program. */
#include "unit.h"

#include "expr/expr.h"
#include "faulty_os.h"
#include "files.h"
#include "plan/plan.h"
#include "run/run.h"

#define SIDE 1024 /* a state has 4 MiB */

/* An input that whoever runs the program makes. */
static uint32_t add_input(plim_graph *g, const char *name, int64_t rows, int64_t cols)
{
    char path[] = "";
    const plim__source s = {.path = path, .stay = PLIM__STAY_MAY, .stride = {cols, 1}};
    const plim_shape shape = {2, {rows, cols}};
    uint32_t v;
    assert_int_equal(plim__graph_file(g, name, PLIM_F32, &shape, &s, &v, NULL), PLIM_OK);
    return v;
}

/* w = w * 0.5 + v; v = v + w: two states. */
static plim_graph *states(void)
{
    plim_graph *g;
    plim_error err = {0};
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    const plim__expr_input in[] = {{.name = "w", .value = add_input(g, "w", SIDE, SIDE)}, {.name = "v", .value = add_input(g, "v", SIDE, SIDE)}};
    plim__expr_result res[4];
    uint32_t n = 0;
    if (plim__expr_build(g, "a = w * 0.5 + v; b = v + a", in, 2, res, 4, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(n, 2);
    for (uint32_t i = 0; i < 2; i++) assert_int_equal(plim__graph_state(g, in[i].value, res[i].value, &err), PLIM_OK);
    return g;
}

static plim_status plan_states(plim_plan **plan, const plim_graph *g, faulty_os *os, uint64_t memory, const char *folder, plim_error *err)
{
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    set.spill_dir = folder;
    faulty_init(os);
    *err = (plim_error){0};
    return plim__plan_new_thorough(plan, g, &set, &os->table, err);
}

static void fill_states(plim_plan *plan)
{
    static float row[SIDE];
    plim_error err = {0};
    for (uint32_t i = 0; i < SIDE; i++) row[i] = 1;
    for (uint32_t s = 0; s < 2; s++)
        for (uint64_t r = 0; r < SIDE; r++)
            assert_int_equal(plim__run_put(plan, plan->graph->state[s].in, r * sizeof row, row, sizeof row, &err), PLIM_OK);
}

/* Two runs: w = 1.5, v = 2.5; w = 3.25, v = 5.75. @return files were written */
static bool run_states(plim_plan *plan, faulty_os *os)
{
    plim_error err = {0};
    float last[2];
    if (plim__run_open(plan, &err)) fail_msg("%s", err.message);
    fill_states(plan);
    for (int i = 0; i < 2; i++)
        if (plim__run_go(plan, &err)) fail_msg("%s", err.message);
    for (uint32_t s = 0; s < 2; s++)
        assert_int_equal(plim__run_get(plan, plan->graph->state[s].in, (SIDE * SIDE - 1) * 4ul, &last[s], 4, &err), PLIM_OK);
    assert_true(last[0] == 3.25f && last[1] == 5.75f);
    plim__run_drop(plan);
    return os->counts[FAULTY_allocate] + os->counts[FAULTY_pwrite] > 0;
}

static void writes_nothing_without_a_folder(void **state)
{
    (void)state;
    faulty_os os;
    plim_error err;
    plim_plan *plan;
    plim_graph *g = states();
    assert_int_equal(plan_states(&plan, g, &os, 1, files_dir, &err), PLIM_E_BUDGET);
    assert_null(strstr(err.message, "--spill"));
    const uint64_t with = err.need;
    assert_int_equal(plan_states(&plan, g, &os, with, files_dir, &err), PLIM_OK);
    assert_true(run_states(plan, &os));
    plim_plan_free(&plan);

    assert_int_equal(plan_states(&plan, g, &os, with, NULL, &err), PLIM_E_BUDGET);
    assert_non_null(strstr(err.message, "--spill DIR"));
    assert_true(err.need > with + (1u << 20));
    const uint64_t without = err.need;
    for (uint64_t memory = without; memory < 4 * without; memory *= 2) {
        if (plan_states(&plan, g, &os, memory, NULL, &err)) fail_msg("%s", err.message);
        assert_true(plan->held[g->state[0].in] && plan->held[g->state[1].in]);
        assert_false(run_states(plan, &os));
        plim_plan_free(&plan);
    }
    plim__graph_free(&g);
}

static void plans_are_inside_their_budgets(void **state)
{
    (void)state;
    faulty_os os;
    plim_error err;
    plim_plan *plan;
    plim_graph *g = states();
    assert_int_equal(plan_states(&plan, g, &os, 1, files_dir, &err), PLIM_E_BUDGET);
    for (uint64_t memory = err.need; memory < (64u << 20); memory += memory / 7) {
        if (plan_states(&plan, g, &os, memory, files_dir, &err)) fail_msg("%s", err.message);
        const plim_facts *f = plim_plan_facts(plan);
        assert_true(f->fits);
        assert_int_equal(f->budget_bytes, memory);
        assert_true(f->planned_peak_bytes >= f->baseline_bytes + f->extras_bytes + f->arena_bytes);
        assert_true(f->planned_peak_bytes + f->reserve_bytes <= memory);
        assert_true(plim__budget_for(&plan->budget, plim__plan_need(plan)) <= memory);
        plim_plan_free(&plan);
    }
    plim__graph_free(&g);
}

static void room_is_the_inverse_of_the_budget(void **state)
{
    (void)state;
    const plim__budget b = {.baseline = 5u << 20, .extras = 1u << 20, .tables = 12345, .beside = 77, .outputs = 999};
    const uint64_t rest = plim__budget_for(&b, 0);
    assert_int_equal(plim__budget_room(&b, rest), 0);
    assert_int_equal(plim__budget_room(&b, 1), 0);
    for (uint64_t need = 4096; need < (UINT64_C(1) << 44); need = (need * 3 + 4096) & ~UINT64_C(4095)) {
        const uint64_t budget = plim__budget_for(&b, need);
        assert_true(plim__budget_room(&b, budget + 4096) >= need);
        assert_true(plim__budget_for(&b, plim__budget_room(&b, budget)) <= budget);
    }
}

/* What the machine can give counts from what the process has already. */
static void default_budget_has_the_process_in_it(void **state)
{
    (void)state;
    plim__budget b;
    plim_limits limits;
    plim_settings set = plim_settings_default();
    set.baseline = UINT64_C(7) << 40; /* far above what limits vary by from one look to the next */
    assert_int_equal(plim__budget_start(&b, &plim__os_linux, NULL), PLIM_OK);
    assert_int_equal(plim__budget_measure(&b, &set, 2, false, NULL), PLIM_OK);
    assert_int_equal(plim__limits_read(&limits, &plim__os_linux, NULL), PLIM_OK);
    assert_true(b.baseline == set.baseline && b.bytes >= set.baseline && b.bytes < set.baseline + 2 * limits.available);
}

/* Products of matrices are a stage each. */
static uint64_t runner_bytes(uint32_t products, uint32_t threads)
{
    faulty_os os;
    plim_error err = {0};
    plim_graph *g;
    plim_plan *plan;
    char text[2048] = "x";
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
    const plim__expr_input in = {.name = "x", .value = add_input(g, "x", 64, 64)};
    for (uint32_t i = 0; i < products; i++) strcat(text, " @ x");
    plim__expr_result res[2];
    uint32_t n = 0;
    if (plim__expr_build(g, text, &in, 1, res, 2, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim__graph_output(g, res[n - 1].value, "out", NULL, &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = 256u << 20;
    set.threads = threads;
    faulty_init(&os);
    if (plim__plan_new_thorough(&plan, g, &set, &os.table, &err)) fail_msg("%s", err.message);
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_passes; i++) bytes += plim__pass_runner_bytes(plan, &plan->pass[i]);
    assert_true(plan->n_passes == 1 && plan->pass[0].n_stages == products);
    plim_plan_free(&plan);
    plim__graph_free(&g);
    return bytes;
}

static void threads_have_tables_of_a_stage(void **state)
{
    (void)state;
    const uint64_t few = runner_bytes(4, 9) - runner_bytes(4, 1), many = runner_bytes(64, 9) - runner_bytes(64, 1);
    assert_int_equal(few, many);
    assert_true(runner_bytes(64, 1) > 4 * runner_bytes(4, 1));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(writes_nothing_without_a_folder),
        cmocka_unit_test(plans_are_inside_their_budgets),
        cmocka_unit_test(room_is_the_inverse_of_the_budget),
        cmocka_unit_test(default_budget_has_the_process_in_it),
        cmocka_unit_test(threads_have_tables_of_a_stage),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
