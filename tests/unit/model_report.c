/* Models through the public interface: read, counted by layer, planned, searched for the largest batch; and every allocation failing in turn. */
#include "unit.h"

#include "countdown.h"

#include "plimsoll/plimsoll.h"

#include <stdlib.h>
#include <string.h>

#define SMALL PLIM_SOURCE_DIR "/tests/models/small.json"
#define MIB (UINT64_C(1) << 20)

static plim_settings settings(void)
{
    plim_settings set = plim_settings_default();
    set.memory = 1024 * MIB;
    set.threads = 2;
    set.spill_dir = ".";
    return set;
}

typedef struct fixture {
    plim_model *model;
    plim_model_info info;
    plim_layer layer[16];
} fixture;

static fixture open_small(int64_t batch, const char *optimizer)
{
    fixture f = {0};
    plim_error err = {0};
    const plim_settings set = settings();
    const plim_model_options how = {.batch = batch, .optimizer = optimizer};
    if (plim_model_new(&f.model, SMALL, &how, &set, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim_model_describe(&f.info, f.model, NULL), PLIM_OK);
    assert_true(f.info.n_layers <= COUNT_OF(f.layer));
    assert_int_equal(plim_model_layers(f.layer, f.info.n_layers, f.model, NULL, NULL), PLIM_OK);
    return f;
}

static uint32_t layer_named(const fixture *f, const char *name)
{
    for (uint32_t i = 0; i < f->info.n_layers; i++)
        if (strcmp(f->layer[i].name, name) == 0) return i;
    fail_msg("no layer %s", name);
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ counting */

/* conv2d 3x3x3x32 + 32, dense 127008x10 + 10; input [2,128,128,3], pooled [2,63,63,32] */
static void training_by_layer(void **state)
{
    (void)state;
    fixture f = open_small(2, "adam");
    assert_string_equal(f.info.name, "small");
    assert_true(f.info.training);
    assert_string_equal(f.info.optimizer, "adam");
    assert_string_equal(f.info.loss, "mse");
    assert_int_equal(f.info.batch, 2);
    const plim_layer *conv = &f.layer[layer_named(&f, "conv2d")], *pool = &f.layer[layer_named(&f, "max_pooling2d")];
    const plim_layer *flat = &f.layer[layer_named(&f, "flatten")], *dense = &f.layer[layer_named(&f, "dense")];
    assert_string_equal(conv->kind, "Conv2D");
    assert_int_equal(conv->parameters, 896);
    assert_int_equal(dense->parameters, 1270090);
    for (uint32_t i = 0; i < f.info.n_layers; i++) {
        assert_int_equal(f.layer[i].parameter_bytes, 4 * f.layer[i].parameters);
        assert_int_equal(f.layer[i].gradient_bytes, f.layer[i].parameter_bytes);
        assert_int_equal(f.layer[i].state_bytes, 2 * f.layer[i].parameter_bytes);
        assert_true(f.layer[i].saved_bytes <= f.layer[i].made_bytes);
        assert_int_equal(f.layer[i].workspace_bytes, 0);
    }
    const uint64_t images = 2 * 128 * 128 * 3 * 4, active = 2 * 126 * 126 * 32 * 4, pooled = 2 * 63 * 63 * 32 * 4;
    assert_int_equal(f.layer[0].saved_bytes, images); /* the gradient of conv2d's kernel reads them */
    assert_true(conv->saved_bytes >= active && conv->saved_bytes < 2 * active);
    assert_int_equal(pool->made_bytes, pooled);
    assert_int_equal(pool->saved_bytes, pooled); /* through flatten's view */
    assert_int_equal(flat->made_bytes, 0);
    plim_model_free(&f.model);
}

static void totals_are_sums(void **state)
{
    (void)state;
    fixture f = open_small(4, "momentum");
    plim_layer sum = {0};
    for (uint32_t i = 0; i < f.info.n_layers; i++) {
        sum.parameters += f.layer[i].parameters;
        sum.parameter_bytes += f.layer[i].parameter_bytes;
        sum.gradient_bytes += f.layer[i].gradient_bytes;
        sum.state_bytes += f.layer[i].state_bytes;
        sum.made_bytes += f.layer[i].made_bytes;
        sum.saved_bytes += f.layer[i].saved_bytes;
    }
    assert_memory_equal(&sum, &f.info.total, sizeof sum);
    assert_true(f.info.plain_bytes > sum.parameter_bytes + sum.gradient_bytes + sum.state_bytes + sum.saved_bytes / 2);
    assert_non_null(strstr(f.info.plain_at, "backward"));
    plim_model_free(&f.model);
}

static void inference_has_no_gradients(void **state)
{
    (void)state;
    fixture f = open_small(3, NULL), one = open_small(0, NULL);
    assert_false(f.info.training);
    assert_string_equal(f.info.optimizer, "");
    assert_int_equal(f.info.batch, 3);
    assert_int_equal(one.info.batch, 1);
    assert_int_equal(f.info.total.gradient_bytes, 0);
    assert_int_equal(f.info.total.state_bytes, 0);
    assert_int_equal(f.info.total.saved_bytes, 0);
    assert_int_equal(f.info.total.made_bytes, 3 * one.info.total.made_bytes);
    plim_model_free(&f.model);
    plim_model_free(&one.model);
}

/* --------------------------------------------------------------------------------------------------- who keeps what */

static void who_keeps_what(void **state)
{
    (void)state;
    fixture f = open_small(2, "sgd");
    plim_kept kept[8];
    uint32_t n, last = 0;
    assert_int_equal(plim_model_kept(kept, 8, &n, f.model, NULL, layer_named(&f, "conv2d"), NULL), PLIM_OK);
    assert_in_range(n, 1, 8);
    for (uint32_t i = 0; i < n; i++) {
        assert_true(kept[i].made_at >= 1 && kept[i].made_at < kept[i].kept_until && kept[i].kept_until <= f.info.n_nodes);
        assert_non_null(strstr(kept[i].name, "conv2d"));
        assert_string_equal(kept[i].held, "");
        if (kept[i].kept_until > kept[last].kept_until) last = i;
    }
    assert_string_equal(kept[last].by_layer, "conv2d"); /* its own activation's gradient */
    assert_string_equal(kept[last].direction, "backward");
    assert_int_equal(plim_model_kept(kept, 8, &n, f.model, NULL, layer_named(&f, "flatten"), NULL), PLIM_OK);
    assert_int_equal(n, 0); /* a view makes nothing */
    assert_int_equal(plim_model_kept(NULL, 0, &n, f.model, NULL, layer_named(&f, "conv2d"), NULL), PLIM_OK);
    assert_in_range(n, 1, 8);
    plim_error err = {0};
    assert_int_equal(plim_model_kept(kept, 8, &n, f.model, NULL, 99, &err), PLIM_E_INVALID);
    plim_model_free(&f.model);

    f = open_small(2, NULL);
    assert_int_equal(plim_model_kept(kept, 8, &n, f.model, NULL, layer_named(&f, "dense"), NULL), PLIM_OK);
    assert_int_equal(n, 1);
    assert_string_equal(kept[0].direction, "result");
    assert_int_equal(kept[0].kept_until, f.info.n_nodes);
    assert_int_equal(kept[0].bytes, 2 * 10 * 4);
    plim_model_free(&f.model);
}

/* ---------------------------------------------------------------------------------------------------------- plans */

static void a_plan_of_a_model(void **state)
{
    (void)state;
    fixture f = open_small(8, "adam"), other = open_small(1, NULL);
    const plim_settings set = settings();
    plim_plan *plan = NULL;
    plim_error err = {0};
    if (plim_model_plan(&plan, f.model, &set, &err)) fail_msg("%s", err.message);
    assert_true(plim_plan_facts(plan)->fits);
    assert_int_equal(plim_plan_check(plan, NULL), PLIM_OK);
    assert_int_equal(plim_model_layers(f.layer, f.info.n_layers, f.model, plan, NULL), PLIM_OK);
    uint64_t most = 0;
    for (uint32_t i = 0; i < f.info.n_layers; i++) most = f.layer[i].workspace_bytes > most ? f.layer[i].workspace_bytes : most;
    assert_in_range(most, 1, plim_plan_facts(plan)->arena_bytes);
    plim_kept kept[8];
    uint32_t n;
    assert_int_equal(plim_model_kept(kept, 8, &n, f.model, plan, layer_named(&f, "conv2d"), NULL), PLIM_OK);
    for (uint32_t i = 0; i < n && i < 8; i++) assert_true(kept[i].held[0]);
    assert_int_equal(plim_model_layers(other.layer, other.info.n_layers, other.model, plan, &err), PLIM_E_INVALID);
    err = (plim_error){0};
    assert_int_equal(plim_plan_run(plan, NULL, &err), PLIM_E_INVALID); /* no data are bound to it */
    assert_non_null(strstr(err.message, "not bound to a file"));
    plim_plan_free(&plan);
    plim_model_free(&f.model);
    plim_model_free(&other.model);
}

/* A plan of training at this batch: PLIM_OK or PLIM_E_BUDGET, with the floor. */
static plim_status plan_at(int64_t batch, const plim_settings *set, uint64_t *floor)
{
    fixture f = open_small(batch, "adam");
    plim_plan *plan = NULL;
    plim_error err = {0};
    const plim_status status = plim_model_plan(&plan, f.model, set, &err);
    assert_int_equal(plan == NULL, status != PLIM_OK);
    *floor = plan ? plim_plan_facts(plan)->floor_bytes : err.need;
    plim_plan_free(&plan);
    plim_model_free(&f.model);
    return status;
}

static void a_plan_that_does_not_fit(void **state)
{
    (void)state;
    fixture f = open_small(8, "adam");
    plim_settings set = settings();
    plim_plan *plan = NULL;
    plim_error err = {0};
    set.memory = MIB;
    assert_int_equal(plim_model_plan(&plan, f.model, &set, &err), PLIM_E_BUDGET);
    set.plan_anyway = true;
    if (plim_model_plan(&plan, f.model, &set, &(plim_error){0})) fail_msg("there is no smallest plan");
    const plim_facts *facts = plim_plan_facts(plan);
    assert_false(facts->fits);
    assert_int_equal(facts->budget_bytes, MIB);
    assert_true(facts->planned_peak_bytes > MIB && facts->planned_peak_bytes < facts->floor_bytes);
    assert_int_equal(plim_plan_check(plan, NULL), PLIM_OK);
    err = (plim_error){0};
    assert_int_equal(plim_plan_run(plan, NULL, &err), PLIM_E_BUDGET);
    plim_plan_free(&plan);
    plim_model_free(&f.model);
}

static void largest_batch(void **state)
{
    (void)state;
    plim_settings set = settings();
    set.spill_dir = NULL;
    set.baseline = 8 * MIB; /* sanitizers make a process grow from plan to plan */
    const plim_model_options how = {.optimizer = "adam"};
    uint64_t one, many, floor;
    int64_t n = 0;
    plim_error err = {0};
    assert_int_equal(plan_at(64, &set, &many), PLIM_OK);
    assert_int_equal(plim_model_largest_batch(&n, SMALL, &how, 64, &set, &err), PLIM_OK); /* no more than asked for */
    assert_int_equal(n, 64);
    set.memory = MIB;
    assert_int_equal(plan_at(1, &set, &one), PLIM_E_BUDGET);
    assert_int_equal(plim_model_largest_batch(&n, SMALL, &how, 64, &set, &err), PLIM_E_BUDGET);
    assert_int_equal(err.need, one);
    assert_int_equal(plim_model_largest_batch(&n, SMALL, &how, 0, &set, &(plim_error){0}), PLIM_E_INVALID);
    if (many < one + 4 * MIB) skip(); /* the batch does not matter to the planner */
    set.memory = one + (many - one) / 2;
    assert_int_equal(plim_model_largest_batch(&n, SMALL, &how, 64, &set, &err), PLIM_OK);
    assert_in_range(n, 1, 63);
    assert_int_equal(plan_at(n, &set, &floor), PLIM_OK);
    assert_int_equal(plan_at(n + 1, &set, &floor), PLIM_E_BUDGET);
    assert_true(floor > set.memory);
}

/* -------------------------------------------------------------------------------------------------------- failures */

static void what_makes_no_sense(void **state)
{
    (void)state;
    const plim_settings set = settings();
    static const struct {
        const char *path;
        plim_model_options how;
        plim_status status;
        const char *message;
    } cases[] = {
        {SMALL, {.optimizer = "adamant"}, PLIM_E_INVALID, "no optimizer 'adamant'"},
        {SMALL, {.optimizer = "adam", .loss = "lossy"}, PLIM_E_INVALID, "no loss 'lossy'"},
        {SMALL, {.loss = "mse"}, PLIM_E_INVALID, "without an optimizer"},
        {SMALL, {.batch = -1}, PLIM_E_INVALID, "a batch of -1"},
        {SMALL, {.batch = INT64_MAX}, PLIM_E_OVERFLOW, ""},
        {"nowhere.onnx", {0}, PLIM_E_IO, "nowhere.onnx"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_model *model = NULL;
        plim_error err = {0};
        assert_int_equal(plim_model_new(&model, cases[i].path, &cases[i].how, &set, &err), cases[i].status);
        assert_null(model);
        if (!strstr(err.message, cases[i].message)) fail_msg("'%s' does not say '%s'", err.message, cases[i].message);
    }
    fixture f = open_small(1, NULL);
    plim_error err = {0};
    assert_int_equal(plim_model_layers(f.layer, f.info.n_layers - 1, f.model, NULL, &err), PLIM_E_INVALID);
    plim_model_free(&f.model);
    plim_model_free(&f.model);
}

static plim_status read_and_count(const plim_settings *set, plim_error *err)
{
    plim_model *model = NULL;
    plim_model_info info;
    plim_layer layer[16];
    plim_kept kept[4];
    uint32_t n;
    const plim_dim dim = {"n", 3};
    const plim_model_options how = {.optimizer = "adam", .batch = 2, .dim = &dim, .n_dims = 1};
    plim_status status = plim_model_new(&model, SMALL, &how, set, err);
    if (status == PLIM_OK) status = plim_model_describe(&info, model, err);
    if (status == PLIM_OK) status = plim_model_layers(layer, info.n_layers, model, NULL, err);
    if (status == PLIM_OK) status = plim_model_kept(kept, 4, &n, model, NULL, 1, err);
    plim_model_free(&model);
    return status;
}

static void every_allocation_fails(void **state)
{
    (void)state;
    for (int from_then = 0; from_then < 2; from_then++) {
        plim_status status = PLIM_E_NOMEM;
        for (int64_t nth = 0; status != PLIM_OK; nth++) {
            countdown c = {.left = nth, .from_then = from_then};
            plim_settings set = settings();
            plim_error err = {0};
            set.alloc = countdown_alloc;
            set.alloc_ctx = &c;
            status = read_and_count(&set, &err);
            assert_int_equal(c.live, 0);
            if (status == PLIM_OK) assert_int_equal(c.failed, 0);
            else if (status != PLIM_E_NOMEM || !err.message[0])
                fail_msg("allocation %lld: %s, '%s'", (long long)nth, plim_status_name(status), err.message);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_by_layer), cmocka_unit_test(totals_are_sums),     cmocka_unit_test(inference_has_no_gradients),
        cmocka_unit_test(who_keeps_what),    cmocka_unit_test(a_plan_of_a_model),   cmocka_unit_test(largest_batch),
        cmocka_unit_test(a_plan_that_does_not_fit), cmocka_unit_test(what_makes_no_sense), cmocka_unit_test(every_allocation_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
