/* Programs run while the N-th allocation, or the N-th system call of a kind, fails: once, and from then on; for N = 1, 2, 3 ... until nothing
 * fails any more. Every time a clean status with a message, no leak, nothing at the output's path, no file left behind. */
#include "unit.h"

#include "countdown.h"
#include "faulty_os.h"
#include "plan/plan.h"
#include "programs.h"
#include "run/run.h"

#include <sys/stat.h>

static const program_input inputs[] = {
    {.name = "x", PLIM_F32, {2, {13, 7}}, -3, 7},
    {.name = "d", PLIM_F64, {2, {401, 61}}, -1, 1},
    {.name = "e", PLIM_F64, {2, {401, 121}}, -1, 1}, /* too large to be sorted one way and used the other in less than a spill takes */
};

/* Each has something of its own: accumulators and a later pass, scratch and another order of dimensions, a chain of passes, several boxes, spills. */
static const char *const small[] = {"mean((x - 3) ** 2, 0)", "(x - mean(x, 0)) / std(x, 0)", "sort(cumsum(x, 0), 0).T", "median(x, 0)", "concat((x, x[::-1] * 2), 0)"};
static const char *const large[] = {"sort(cumsum(d, 0), 1) + 1", "(d - mean(d, 0)) / std(d, 0)", "d.T"};

static int begin(void **state)
{
    if (files_begin(state)) return -1;
    for (size_t i = 0; i < COUNT_OF(inputs); i++) program_input_write(&inputs[i]);
    return 0;
}

static bool output_exists(void)
{
    struct stat st;
    return stat(files_path("out.npy"), &st) == 0;
}

/* --------------------------------------------------------------------------------------------------- allocations */

/* From the text to the output file, with allocations that may fail. */
static plim_status run_public(const char *text, countdown *c, plim_error *err)
{
    char x[128], out_path[128];
    snprintf(x, sizeof x, "%s", files_path("x.npy"));
    snprintf(out_path, sizeof out_path, "%s", files_path("out.npy"));
    const plim_binding in = {.name = "x", .path = x}, out = {.name = "", .path = out_path};
    plim_program *prog = NULL;
    plim_plan *plan = NULL;
    plim_settings set = plim_settings_default();
    set.memory = (uint64_t)4 << 30;
    set.threads = 2;
    set.alloc = countdown_alloc;
    set.alloc_ctx = c;
    *err = (plim_error){0};
    plim_status status = plim_program_new(&prog, text, &in, 1, &out, 1, &set, err);
    if (status == PLIM_OK) status = plim_plan_new(&plan, prog, &set, err);
    if (status == PLIM_OK) status = plim_plan_run(plan, NULL, err);
    plim_plan_free(&plan);
    plim_program_free(&prog);
    return status;
}

/* @return false when no allocation failed any more */
static bool fail_allocation(const char *text, int64_t nth, bool from_then)
{
    countdown c = {.left = nth, .from_then = from_then};
    plim_error err;
    const plim_status status = run_public(text, &c, &err);
    if (c.live != 0) fail_msg("%s: %lld blocks leaked when allocation %lld failed", text, (long long)c.live, (long long)nth);
    if (status == PLIM_OK) {
        if (c.failed) fail_msg("%s: allocation %lld failed and nobody noticed", text, (long long)nth);
        assert_true(output_exists());
        unlink(files_path("out.npy"));
        return false;
    }
    if (status != PLIM_E_NOMEM || err.code != status || !err.message[0])
        fail_msg("%s: allocation %lld failed: %s, '%s'", text, (long long)nth, plim_status_name(status), err.message);
    if (output_exists() || program_leftovers()) fail_msg("%s: allocation %lld failed and files were left", text, (long long)nth);
    return true;
}

static void nth_allocation(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(small); i++)
        for (int from_then = 0; from_then < 2; from_then++) {
            /* Planning makes thousands of allocations in a few places: all of the first and of the last ones, some between. */
            countdown all = {.left = -1};
            plim_error err;
            if (run_public(small[i], &all, &err)) fail_msg("%s: %s", small[i], err.message);
            unlink(files_path("out.npy"));
            int64_t n = 0;
            while (fail_allocation(small[i], n, from_then)) n += n < 150 || n > all.calls - 60 ? 1 : 7 + all.calls / 60;
            assert_true(n >= all.calls);
        }
}

/* -------------------------------------------------------------------------------------------------- system calls */

/* A large program with its reference. */
typedef struct victim {
    const char *text;
    uint64_t memory;
    uint8_t *want;
    size_t bytes;
} victim;

static uint32_t spills; /* files of our own in plans so far */

/* From the text to the output file, on a system that may fail. */
static plim_status run_on(const char *text, uint64_t memory, bool direct, const plim__os *os, plim_error *err)
{
    plim_graph *g;
    plim_plan *plan = NULL;
    *err = (plim_error){0};
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, NULL), PLIM_OK);
    plim_status status = program_fill(g, text, inputs, COUNT_OF(inputs), files_path("out.npy"), os, err);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    set.spill_dir = files_dir;
    set.no_direct_io = !direct;
    if (status == PLIM_OK) status = plim__plan_new(&plan, g, &set, os, err);
    for (uint32_t i = 0; plan && i < plan->n_files; i++) spills += plan->file[i].kind == PLIM__FILE_SPILL;
    if (status == PLIM_OK) status = plim_plan_run(plan, NULL, err);
    plim_plan_free(&plan);
    plim__graph_free(&g);
    return status;
}

static void new_victim(victim *v, const char *text)
{
    faulty_os os;
    plim_error err;
    faulty_init(&os);
    v->text = text;
    assert_int_equal(run_on(text, 1, true, &os.table, &err), PLIM_E_BUDGET);
    v->memory = err.need;
    if (run_on(text, v->memory, true, &os.table, &err)) fail_msg("%s: %s", text, err.message);
    v->want = files_read("out.npy", &v->bytes);
    unlink(files_path("out.npy"));
}

static bool output_is_right(const victim *v)
{
    size_t n;
    uint8_t *got = files_read("out.npy", &n);
    const bool right = got && n == v->bytes && memcmp(got, v->want, n) == 0;
    free(got);
    return right;
}

/* What a failing call may end in. A call that is only asked for advice may fail without harm. */
static bool outcome_is_clean(const victim *v, const faulty_os *os, plim_status status, const plim_error *err)
{
    if (status == PLIM_OK) return output_is_right(v);
    const plim_status expected = os->error == -ENOSPC && os->call != FAULTY_read_text ? PLIM_E_NOSPACE : PLIM_E_IO;
    if (status != expected || err->code != status) return false;
    if (!strstr(err->message, os->call == FAULTY_read_text ? "/proc/" : files_dir)) return false;
    /* After the renaming only the folder is synced: the output is there, and whole. */
    return !output_exists() || ((os->call == FAULTY_sync || os->call == FAULTY_open) && output_is_right(v));
}

/* @return false when the call was not reached any more */
static bool fail_call(const victim *v, faulty_call call, int error, bool from_then, bool direct, int64_t nth)
{
    faulty_os os;
    plim_error err;
    faulty_init(&os);
    os.call = call;
    os.error = error;
    os.from_then = from_then;
    os.left = nth;
    const plim_status status = run_on(v->text, v->memory, direct, &os.table, &err);
    os.left = -1;
    if (os.hits == 0) {
        if (status != PLIM_OK || !output_is_right(v)) fail_msg("%s: nothing failed and yet: %s", v->text, err.message);
        unlink(files_path("out.npy"));
        return false;
    }
    if (error == 0 && status != PLIM_OK) fail_msg("%s: a short %s, number %lld: %s", v->text, faulty_name(call), (long long)nth, err.message);
    if (!outcome_is_clean(v, &os, status, &err))
        fail_msg("%s: %s number %lld gave %d%s: %s, '%s', output %s", v->text, faulty_name(call), (long long)nth, error, from_then ? " from then on" : "",
                 plim_status_name(status), err.message, output_exists() ? "there" : "not there");
    unlink(files_path("out.npy"));
    if (os.open != 0) fail_msg("%s: %s number %lld failed and %lld descriptors stayed open", v->text, faulty_name(call), (long long)nth, (long long)os.open);
    if (program_leftovers()) fail_msg("%s: %s number %lld failed and files were left", v->text, faulty_name(call), (long long)nth);
    return true;
}

static void nth_call(const victim *v, faulty_call call, bool direct)
{
    static const int errors[] = {-EIO, -ENOSPC};
    for (int from_then = 0; from_then < 2; from_then++)
        for (size_t e = 0; e < COUNT_OF(errors); e++)
            for (int64_t n = 0; fail_call(v, call, errors[e], from_then, direct, n); n += n < 25 ? 1 : 13) assert_true(n < 5000);
}

static void system_calls(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        victim v;
        new_victim(&v, large[i]);
        for (faulty_call call = 0; call < FAULTY_CALL_COUNT; call++) nth_call(&v, call, i % 2 == 0 || call == FAULTY_pwrite);
        free(v.want);
    }
}

/* The same where a value is spilled between two passes, at some of the calls only. */
static void spilled(void **state)
{
    (void)state;
    static const faulty_call calls[] = {FAULTY_open, FAULTY_pread, FAULTY_pwrite, FAULTY_allocate, FAULTY_unlink};
    static const int64_t at[] = {0, 1, 2, 3, 7, 20, 45};
    victim v;
    spills = 0;
    new_victim(&v, "a = sort(e, 0); a - mean(a, 1, keepdims=True)");
    for (int i = 0; i < 12 && spills == 0; i++) { /* what is printed as the floor has some room */
        faulty_os os;
        plim_error err;
        faulty_init(&os);
        v.memory -= 128u << 10;
        if (run_on(v.text, v.memory, true, &os.table, &err)) fail_msg("%s", err.message);
        free(v.want);
        v.want = files_read("out.npy", &v.bytes);
        unlink(files_path("out.npy"));
    }
    assert_true(spills > 0);
    for (size_t c = 0; c < COUNT_OF(calls); c++)
        for (size_t i = 0; i < COUNT_OF(at); i++) fail_call(&v, calls[c], -EIO, false, true, at[i]);
    free(v.want);
}

static void short_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(large); i++) {
        victim v;
        new_victim(&v, large[i]);
        for (int direct = 0; direct < 2; direct++) {
            for (int64_t n = 0; fail_call(&v, FAULTY_pread, 0, false, direct, n); n += n < 25 ? 1 : 13) assert_true(n < 5000);
            for (int64_t n = 0; fail_call(&v, FAULTY_pwrite, 0, false, direct, n); n += n < 25 ? 1 : 13) assert_true(n < 5000);
        }
        free(v.want);
    }
}

/* A full disk is known before any work is done, and the message says how much is missing. */
static void full_disk(void **state)
{
    (void)state;
    victim v;
    faulty_os os;
    plim_error err;
    new_victim(&v, "d * 2");
    faulty_init(&os);
    os.call = FAULTY_allocate;
    os.error = -ENOSPC;
    os.left = 0;
    assert_int_equal(run_on(v.text, v.memory, false, &os.table, &err), PLIM_E_NOSPACE);
    assert_int_equal(err.need, v.bytes);
    assert_true(err.have > 0);
    assert_true(os.counts[FAULTY_pread] <= 4); /* the header */
    free(v.want);
}

/* Of two outputs none appears when either cannot be finished. */
static void two_outputs(void **state)
{
    (void)state;
    for (int64_t n = 0; n < 6; n++) {
        faulty_os os;
        faulty_init(&os);
        os.call = n < 3 ? FAULTY_sync : FAULTY_truncate;
        os.left = n % 3;
        os.error = -EIO;
        plim_graph *g;
        plim_plan *plan;
        plim_error err = {0};
        plim__expr_input in = {.name = "x"};
        plim__expr_result res[2];
        plim__array_file f;
        char buf[256];
        uint32_t n_res;
        assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, &err), PLIM_OK);
        assert_int_equal(plim__array_open(&f, &os.table, files_path("x.npy"), NULL, buf, sizeof buf, &err), PLIM_OK);
        assert_int_equal(plim__graph_file(g, "x", f.dtype, &f.shape, &f.source, &in.value, &err), PLIM_OK);
        assert_int_equal(plim__expr_build(g, "a = x * 2; b = mean(x, 0)", &in, 1, res, 2, &n_res, &err), PLIM_OK);
        assert_int_equal(plim__graph_output(g, res[0].value, "a", files_path("out.npy"), &err), PLIM_OK);
        assert_int_equal(plim__graph_output(g, res[1].value, "b", files_path("b.npy"), &err), PLIM_OK);
        plim_settings set = plim_settings_default();
        assert_int_equal(plim__plan_new(&plan, g, &set, &os.table, &err), PLIM_OK);
        const plim_status status = plim_plan_run(plan, NULL, &err);
        const bool a = output_exists(), b = access(files_path("b.npy"), F_OK) == 0;
        if (n % 3 < 2) { /* there are two files to finish; the third time is a folder's, or nobody's */
            assert_int_equal(status, PLIM_E_IO);
            assert_false(a || b);
        } else {
            assert_true(a);
        }
        assert_int_equal(program_leftovers(), 0);
        unlink(files_path("out.npy"));
        unlink(files_path("b.npy"));
        plim_plan_free(&plan);
        plim__graph_free(&g);
        assert_int_equal(os.open, 0);
    }
}

/* Asking to stop leaves nothing either. */
static bool refuse_to_go_on(void *ctx, const plim_progress *now)
{
    (void)now;
    return --*(int *)ctx > 0;
}

static void cancelled(void **state)
{
    (void)state;
    char x[128], out_path[128];
    snprintf(x, sizeof x, "%s", files_path("x.npy"));
    snprintf(out_path, sizeof out_path, "%s", files_path("out.npy"));
    const plim_binding in = {.name = "x", .path = x}, out = {.name = "", .path = out_path};
    int left = 1;
    plim_settings set = plim_settings_default();
    set.progress = refuse_to_go_on;
    set.progress_ctx = &left;
    plim_program *prog;
    plim_plan *plan;
    plim_error err = {0};
    assert_int_equal(plim_program_new(&prog, "x * 2", &in, 1, &out, 1, &set, &err), PLIM_OK);
    assert_int_equal(plim_plan_new(&plan, prog, &set, &err), PLIM_OK);
    assert_int_equal(plim_plan_run(plan, NULL, &err), PLIM_E_CANCELLED);
    assert_false(output_exists());
    assert_int_equal(program_leftovers(), 0);
    left = 1000000; /* and the plan can be run again */
    err = (plim_error){0};
    assert_int_equal(plim_plan_run(plan, NULL, &err), PLIM_OK);
    assert_true(output_exists());
    unlink(out_path);
    plim_plan_free(&plan);
    plim_program_free(&prog);
}

/* An input that is cut short, or touched, between planning and the end of the run. */
static void changed_input(void **state)
{
    (void)state;
    plim_graph *g;
    plim_plan *plan;
    plim_error err = {0};
    program_input copy = inputs[1];
    copy.name = "c";
    for (int shorter = 0; shorter < 2; shorter++) {
        err = (plim_error){0};
        program_input_write(&copy);
        assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, NULL), PLIM_OK);
        assert_int_equal(program_fill(g, "c * 2", &copy, 1, files_path("out.npy"), &plim__os_linux, &err), PLIM_OK);
        plim_settings set = plim_settings_default();
        assert_int_equal(plim__plan_new(&plan, g, &set, &plim__os_linux, &err), PLIM_OK);
        if (shorter) assert_int_equal(truncate(files_path("c.npy"), 5000), 0);
        else program_input_write(&copy);
        assert_int_equal(plim_plan_run(plan, NULL, &err), PLIM_E_CHANGED);
        assert_non_null(strstr(err.message, "c.npy"));
        assert_false(output_exists());
        assert_int_equal(program_leftovers(), 0);
        plim_plan_free(&plan);
        plim__graph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nth_allocation), cmocka_unit_test(system_calls), cmocka_unit_test(short_counts),
        cmocka_unit_test(spilled),        cmocka_unit_test(full_disk),      cmocka_unit_test(two_outputs),  cmocka_unit_test(cancelled),
        cmocka_unit_test(changed_input),
    };
    return cmocka_run_group_tests_name("faults", tests, begin, files_end);
}
