/* Descriptions of machines: every number is checked, named, saved and read back; rates and prices follow from them. */
#include "unit.h"

#include "files.h"
#include "ops/ops.h"
#include "plan/machine.h"
#include "plan/machine_file.h"
#include "plimsoll/plimsoll.h"

#include <math.h>

/* A description with random numbers in their ranges. */
static plim_machine random_machine(uint64_t seed)
{
    plim_machine m = plim_machine_default();
    double *value, least, most;
    char name[64];
    snprintf(m.cpu, sizeof m.cpu, "Model %u @ 3.0GHz", (unsigned)seed);
    snprintf(m.level, sizeof m.level, "x86-64-v3");
    snprintf(m.file_system, sizeof m.file_system, "ext4");
    snprintf(m.device, sizeof m.device, "8:%u", (unsigned)(seed % 16));
    snprintf(m.date, sizeof m.date, "2026-01-01T00:00:00Z");
    m.cpus = m.threads = 1 + (uint32_t)(files_random(&seed) % 64);
    for (uint32_t i = 0; plim__machine_field(&m, i, &value, &least, &most, name); i++)
        *value = least * pow(most / least, (double)(files_random(&seed) >> 11) * 0x1p-53);
    return m;
}

static void test_defaults(void **state)
{
    (void)state;
    const plim_machine m = plim_machine_default();
    char name[64], other[64];
    double value;
    uint32_t n = 0;
    assert_int_equal(plim_machine_check(&m, NULL), PLIM_OK);
    while (plim_machine_number(&m, n, &value, name)) {
        for (uint32_t k = 0; k < n; k++) assert_string_not_equal(plim_machine_number(&m, k, &value, other), name);
        n++;
    }
    assert_int_equal(n, 4 * 3 * PLIM_REQUEST_SIZES + 2 * PLIM_KERNEL_COUNT + 5);
    for (int k = 0; k < PLIM_KERNEL_COUNT; k++) assert_true(m.kernel[k].one <= m.kernel[k].all && m.kernel[k].all <= m.threads * m.kernel[k].one);
}

/* Whatever number is out of range, the message names it. */
static void test_check(void **state)
{
    (void)state;
    const double bad[] = {0, -1, NAN, INFINITY, -INFINITY, 1e30, 1e-30};
    double *value, least, most;
    char name[64];
    for (uint32_t i = 0;; i++) {
        plim_machine m = plim_machine_default();
        plim_error err = {0};
        if (!plim__machine_field(&m, i, &value, &least, &most, name)) break;
        *value = bad[i % COUNT_OF(bad)];
        assert_int_equal(plim_machine_check(&m, &err), PLIM_E_INVALID);
        assert_non_null(strstr(err.message, name));
    }
    plim_machine m = plim_machine_default();
    m.size--;
    assert_int_equal(plim_machine_check(&m, NULL), PLIM_E_INVALID);
    m = plim_machine_default();
    m.threads = 0;
    assert_int_equal(plim_machine_check(&m, NULL), PLIM_E_INVALID);
}

static void test_save_and_load(void **state)
{
    (void)state;
    const char *path = files_path("m.json");
    for (uint64_t seed = 0; seed < 20; seed++) {
        const plim_machine m = random_machine(seed);
        plim_machine back;
        plim_error err = {0};
        char name[64];
        double was, is;
        if (plim_machine_save(&m, path, &err) != PLIM_OK || plim_machine_load(&back, path, &err) != PLIM_OK) fail_msg("%s", err.message);
        assert_true(plim_machine_same(&m, &back));
        assert_string_equal(m.date, back.date);
        assert_int_equal(m.threads, back.threads);
        for (uint32_t i = 0; plim_machine_number(&m, i, &was, name); i++) {
            plim_machine_number(&back, i, &is, name);
            assert_true(fabs(was - is) <= 1e-8 * was);
        }
    }
}

/* A file with one number replaced by something else, or left out, is refused by name; one that is cut off anywhere is refused. */
static void test_bad_files(void **state)
{
    (void)state;
    const char *bad[] = {"0", "-1", "1e300", "\"fast\"", "null", "[]"};
    const plim_machine m = random_machine(1);
    const char *path = files_path("m.json");
    plim_machine back;
    char name[64], key[80];
    double value;
    size_t n;
    assert_int_equal(plim_machine_save(&m, path, NULL), PLIM_OK);
    char *good = (char *)files_read("m.json", &n);
    good[n] = 0;
    for (uint32_t i = 0; plim_machine_number(&m, i, &value, name); i++) {
        char text[16384];
        plim_error err = {0};
        snprintf(key, sizeof key, "\"%s\": ", name);
        const char *at = strstr(good, key);
        assert_non_null(at);
        snprintf(text, sizeof text, "%.*s%s%s%s", (int)(at - good), good, key, bad[i % COUNT_OF(bad)], at + strlen(key) + strcspn(at + strlen(key), ",\n"));
        files_write("bad.json", text, strlen(text));
        assert_int_not_equal(plim_machine_load(&back, files_path("bad.json"), &err), PLIM_OK);
        assert_non_null(strstr(err.message, name));
    }
    for (size_t cut = 0; cut < n - 2; cut += 37) {
        plim_error err = {0};
        files_write("bad.json", good, cut);
        assert_int_not_equal(plim_machine_load(&back, files_path("bad.json"), &err), PLIM_OK);
        assert_true(err.message[0]);
    }
    free(good);
    assert_int_not_equal(plim_machine_load(&back, files_path("none.json"), NULL), PLIM_OK);
}

static void test_description(void **state)
{
    (void)state;
    plim_machine a, b;
    plim_error err = {0};
    if (plim_machine_identify(&a, files_dir, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(plim_machine_identify(&b, files_dir, NULL), PLIM_OK);
    assert_true(plim_machine_same(&a, &b));
    assert_true(a.cpu[0] && a.level[0] && a.cpus >= 1 && a.device[0] && a.file_system[0]);
    assert_int_equal(plim_machine_check(&a, NULL), PLIM_OK);
    b.cpus++;
    assert_false(plim_machine_same(&a, &b));
    assert_int_not_equal(plim_machine_hash(&a), plim_machine_hash(&b));
    assert_int_not_equal(plim_machine_identify(&b, files_path("nowhere"), &err), PLIM_OK);
}

/* The table's own sizes cost what it says; between and beyond them nothing costs less than a smaller request. */
static void test_request_prices(void **state)
{
    (void)state;
    const plim_machine m = plim_machine_default();
    const double *table = m.direct_read.seconds;
    for (int i = 0; i < PLIM_REQUEST_SIZES; i++) assert_true(fabs(plim__request_at(table, (double)(4096 << (2 * i))) / table[i] - 1) < 1e-12);
    assert_true(plim__request_at(table, 1) == table[0]);
    assert_true(fabs(plim__request_at(table, 64 << 20) / (16 * table[5]) - 1) < 1e-12);
    double before = 0;
    for (double bytes = 1; bytes < 1e9; bytes *= 1.3) {
        const double now = plim__request_at(table, bytes);
        assert_true(now >= before);
        before = now;
    }
}

/* More threads are never slower, and no faster than so many times one; what was measured comes out as it is. */
static void test_rates(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 100; seed++) {
        plim_machine m = random_machine(seed);
        const plim_rate r = {.one = 1e9, .all = 1e9 * (1 + (double)(seed % 10) / 10 * (m.threads - 1))};
        double before = 0;
        for (uint32_t t = 1; t <= 200; t++) {
            const double now = plim__kernel_rate(&m, r, t);
            assert_true(now >= before * (1 - 1e-12) && now <= t * r.one * (1 + 1e-9));
            before = now;
        }
        assert_true(fabs(plim__kernel_rate(&m, r, 1) / r.one - 1) < 1e-12);
        if (m.threads > 1) assert_true(fabs(plim__kernel_rate(&m, r, m.threads) / r.all - 1) < 1e-9);
    }
}

/* A description that is wrong is refused before anything is planned; a machine with a slower disk gives a plan that takes longer. */
static void test_settings(void **state)
{
    (void)state;
    const plim_binding x = {.name = "x", .path = files_path("x.raw"), .raw = true, .dtype = PLIM_F32, .shape = {2, {2048, 512}}};
    void *zeros = calloc(2048 * 512, 4);
    files_write("x.raw", zeros, 2048 * 512 * 4);
    free(zeros);
    double seconds[2];
    for (int slow = 0; slow < 3; slow++) {
        plim_settings set = plim_settings_default();
        plim_machine m = plim_machine_default();
        plim_program *prog;
        plim_plan *plan;
        plim_error err = {0};
        for (int i = 0; i < PLIM_REQUEST_SIZES; i++) m.direct_read.seconds[i] *= slow ? 100 : 1;
        if (slow == 2) m.memory_rate = NAN;
        set.machine = &m;
        set.memory = 64 << 20;
        assert_int_equal(plim_program_new(&prog, "mean(x)", &x, 1, NULL, 0, &set, &err), PLIM_OK);
        assert_int_equal(plim_plan_new(&plan, prog, &set, &err), slow == 2 ? PLIM_E_INVALID : PLIM_OK);
        if (slow < 2) seconds[slow] = plim_plan_facts(plan)->planned_seconds;
        plim_plan_free(&plan);
        plim_program_free(&prog);
    }
    assert_true(seconds[1] > 10 * seconds[0]);
}

static void test_every_op_has_work(void **state)
{
    (void)state;
    for (uint32_t op = 0; op < PLIM__OP_COUNT; op++) assert_non_null(plim__op_row_of(op)->work);
}

static bool cancel(void *ctx, const plim_progress *now)
{
    (void)now;
    return --*(int *)ctx > 0;
}

/* It can be stopped, and a folder that is not there is said to be so. */
static void test_measure_stops(void **state)
{
    (void)state;
    plim_machine m;
    plim_error err = {0};
    int calls = 2;
    const plim_settings set = {.threads = 1, .progress = cancel, .progress_ctx = &calls};
    assert_int_equal(plim_machine_measure(&m, files_dir, &set, &err), PLIM_E_CANCELLED);
    assert_int_equal(plim_machine_measure(&m, files_path("nowhere"), NULL, &err), PLIM_E_IO);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_check),
        cmocka_unit_test(test_save_and_load),
        cmocka_unit_test(test_bad_files),
        cmocka_unit_test(test_description),
        cmocka_unit_test(test_request_prices),
        cmocka_unit_test(test_rates),
        cmocka_unit_test(test_settings),
        cmocka_unit_test(test_every_op_has_work),
        cmocka_unit_test(test_measure_stops),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
