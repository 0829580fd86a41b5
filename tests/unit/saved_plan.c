/* Saved plans: one that is read and compared, with every field wrong, with every fact changed, cut at every byte, and by a system and an allocator that
 * fail. And files as one piece: what they are known by, and that none is ever half written. */
#include "unit.h"

#include "countdown.h"
#include "files.h"
#include "formats/whole_file.h"
#include "report/saved_plan.h"

#include <math.h>

/* ' stands for " */
static const char good[] =
    "{'verb':'plan','saved':{'format':1,'version':'0.1.0',"
    "'model':{'path':'m.json','bytes':5,'modified_ns':1700000000123456789,'fnv1a64':'a430d84680aabd0b'},"
    "'batch':8,'dims':{'n':3},'optimizer':'adam','loss':null,'memory_bytes':1000000,'baseline_bytes':5000,'threads':2,'spill_dir':'.'},"
    "'budget_bytes':1000000,'fits':true,'planned_peak_bytes':900000,'baseline_bytes':5000,'extras_bytes':1,'arena_bytes':2,'arena_bound_bytes':3,"
    "'reserve_bytes':4,'floor_bytes':5,'passes':6,'planned_read_bytes':7,'planned_write_bytes':8,'estimated_seconds':0.1,"
    "'moves':[{'kind':'split','what':'axis 0 of x\\ufffd','parts':9,'saves_bytes':10,'costs_seconds':null}],"
    "'peak':{'step':'step 1 of 2','values':[{'name':'w','shape':[2,3],'dtype':'f32','bytes':24,'why':'read'}]}}";

static plim_facts facts(void)
{
    return (plim_facts){
        .budget_bytes = 1000000, .fits = true, .planned_peak_bytes = 900000, .baseline_bytes = 5000, .extras_bytes = 1, .arena_bytes = 2,
        .arena_bound_bytes = 3, .reserve_bytes = 4, .floor_bytes = 5, .passes = 6, .read_bytes = 7, .write_bytes = 8, .planned_seconds = 0.1,
        .plan_seconds = 77, .n_moves = 1, .move = {{"split", "axis 0 of x\xff", 9, 10, NAN}}, .peak_step = "step 1 of 2", .n_peak = 1,
        .peak = {{.name = "w", .shape = {2, {2, 3}}, .dtype = PLIM_F32, .bytes = 24, .why = "read"}},
    };
}

/* Writes "p": the good text with the first `old` replaced. @param old  "": nothing is */
static size_t write_changed(const char *old, const char *new)
{
    char text[4096];
    const char *at = strstr(good, old);
    assert_non_null(at);
    const int n = snprintf(text, sizeof text, "%.*s%s%s", (int)(at - good), good, new, at + strlen(old));
    assert_in_range(n, 1, sizeof text - 1);
    for (char *p = text; *p; p++)
        if (*p == '\'') *p = '"';
    files_write("p", text, (size_t)n);
    return (size_t)n;
}

static plim_status read_saved(plim_saved_plan **s, plim_error *err)
{
    *err = (plim_error){0};
    return plim_saved_plan_read(s, files_path("p"), NULL, err);
}

static void test_read(void **state)
{
    (void)state;
    plim_saved_plan *s;
    plim_error err;
    write_changed("", "");
    if (read_saved(&s, &err) != PLIM_OK) fail_msg("%s", err.message);
    const plim_saved_request *r = plim_saved_plan_request(s);
    assert_string_equal(r->version, "0.1.0");
    assert_string_equal(r->model_path, "m.json");
    assert_true(r->model.bytes == 5 && r->model.modified_ns == 1700000000123456789 && r->model.hash == 0xa430d84680aabd0bu);
    assert_true(r->options.batch == 8 && r->options.n_dims == 1 && r->options.dim[0].value == 3 && !r->options.loss);
    assert_string_equal(r->options.dim[0].name, "n");
    assert_string_equal(r->options.optimizer, "adam");
    assert_true(r->memory == 1000000 && r->baseline == 5000 && r->threads == 2);
    assert_string_equal(r->spill_dir, ".");
    const plim_facts now = facts();
    if (plim__saved_plan_compare(s, &now, &err) != PLIM_OK) fail_msg("%s", err.message);
    plim_saved_plan_free(&s);
    assert_null(s);
}

static void test_refused(void **state)
{
    (void)state;
    static const struct { const char *old, *new; plim_status code; const char *says; } cases[] = {
        {"'saved'", "'safe'", PLIM_E_FORMAT, "not a plan that was saved"},
        {"'format':1", "'format':2", PLIM_E_UNSUPPORTED, "saved: a plan of format 2; 1 is known"},
        {"'format':1", "'format':'1'", PLIM_E_FORMAT, "saved.format: expected an integer, found a string"},
        {"'version':'0.1.0'", "'version':''", PLIM_E_FORMAT, "saved.version: is empty"},
        {"'path':'m.json'", "'path':null", PLIM_E_FORMAT, "saved.model.path: expected a string, found null"},
        {"'bytes':5", "'bytes':-5", PLIM_E_FORMAT, "saved.model.bytes: -5 is not between"},
        {"'modified_ns':1", "'modified':1", PLIM_E_FORMAT, "saved.model: 'modified_ns' is missing"},
        {"a430d84680aabd0b", "a430d84680aabd0", PLIM_E_FORMAT, "saved.model: fnv1a64 is not a number of 16"},
        {"a430d84680aabd0b", "a430d84680aabd0b0", PLIM_E_FORMAT, "saved.model: fnv1a64 is not a number of 16"},
        {"a430d84680aabd0b", "a430d84680aabd0G", PLIM_E_FORMAT, "saved.model: fnv1a64 is not a number of 16"},
        {"'batch':8", "'batch':-8", PLIM_E_FORMAT, "saved.batch: -8 is not between"},
        {"'dims':{'n':3}", "'dims':[]", PLIM_E_FORMAT, "saved.dims: expected an object"},
        {"'n':3", "'n':0", PLIM_E_FORMAT, "saved.dims.n: 0 is not above 0"},
        {"'n':3", "'n':3,'n':4", PLIM_E_FORMAT, "not JSON: line 1"},
        {"'optimizer':'adam'", "'optimizer':3", PLIM_E_FORMAT, "saved.optimizer: expected a string"},
        {"'memory_bytes':1000000", "'memory_bytes':0", PLIM_E_FORMAT, "saved.memory_bytes: 0 is not between"},
        {"'memory_bytes':1000000", "'memory_bytes':99999999999999999999", PLIM_E_FORMAT, "not JSON"},
        {"'threads':2", "'threads':4294967296", PLIM_E_FORMAT, "saved.threads: 4294967296 is not between 1 and 4294967295"},
        {"'spill_dir':'.'", "'spill_dir':[]", PLIM_E_FORMAT, "saved.spill_dir: expected a string"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_saved_plan *s;
        plim_error err;
        write_changed(cases[i].old, cases[i].new);
        const plim_status status = read_saved(&s, &err);
        if (status != cases[i].code || s || !strstr(err.message, cases[i].says) || !strstr(err.message, files_path("p")))
            fail_msg("%s: %s '%s'", cases[i].new, plim_status_name(status), err.message);
    }
}

static void test_other_facts(void **state)
{
    (void)state;
    static const struct { const char *old, *new; plim_status code; const char *says; } cases[] = {
        {"'budget_bytes':1000000", "'budget_bytes':1000001", PLIM_E_INVALID, "budget_bytes: 1000001 when the plan was saved, 1000000 now"},
        {"'fits':true", "'fits':false", PLIM_E_INVALID, "fits: it fits now"},
        {"'fits':true", "'fits':1", PLIM_E_FORMAT, "fits: expected true or false"},
        {"'planned_peak_bytes':900000", "'planned_peak_bytes':0", PLIM_E_INVALID, "planned_peak_bytes: 0 when"},
        {"'extras_bytes':1", "'extras_bytes':-1", PLIM_E_INVALID, "extras_bytes: -1 when the plan was saved, 1 now"},
        {"'arena_bytes':2", "'arena_bytes':3", PLIM_E_INVALID, "arena_bytes: 3 when"},
        {"'arena_bound_bytes':3", "'arena_bound_bytes':4", PLIM_E_INVALID, "arena_bound_bytes: 4 when"},
        {"'reserve_bytes':4", "'reserve_bytes':5", PLIM_E_INVALID, "reserve_bytes: 5 when"},
        {"'floor_bytes':5", "'floor_bytes':6", PLIM_E_INVALID, "floor_bytes: 6 when"},
        {"'passes':6", "'passes':7", PLIM_E_INVALID, "passes: 7 when"},
        {"'planned_read_bytes':7", "'planned_read_bytes':8", PLIM_E_INVALID, "planned_read_bytes: 8 when"},
        {"'planned_write_bytes':8", "'planned_write_bytes':9", PLIM_E_INVALID, "planned_write_bytes: 9 when"},
        {"'estimated_seconds':0.1", "'estimated_seconds':0.2", PLIM_E_INVALID, "estimated_seconds: 0.2 when the plan was saved, 0.1 now"},
        {"'estimated_seconds':0.1", "'estimated_seconds':null", PLIM_E_INVALID, "estimated_seconds: nan when"},
        {"'moves':[", "'moves':[{},", PLIM_E_INVALID, "moves: 2 when the plan was saved, 1 now"},
        {"'moves':[", "'moves':3,'other':[", PLIM_E_FORMAT, "moves: expected a list"},
        {"'kind':'split'", "'kind':'spill'", PLIM_E_INVALID, "moves[0].kind: 'spill' when the plan was saved, 'split' now"},
        {"axis 0 of x\\ufffd", "axis 0 of x", PLIM_E_INVALID, "moves[0].what: 'axis 0 of x' when the plan was saved, 'axis 0 of x?' now"},
        {"axis 0 of x\\ufffd", "axis 0 of xy", PLIM_E_INVALID, "moves[0].what: "},
        {"'parts':9", "'parts':8", PLIM_E_INVALID, "moves[0].parts: 8 when"},
        {"'saves_bytes':10", "'saves_bytes':11", PLIM_E_INVALID, "moves[0].saves_bytes: 11 when"},
        {"'costs_seconds':null", "'costs_seconds':0", PLIM_E_INVALID, "moves[0].costs_seconds: 0 when"},
        {"'peak':{", "'peak':[],'other':{", PLIM_E_FORMAT, "peak: expected an object"},
        {"step 1 of 2", "step 2 of 2", PLIM_E_INVALID, "peak.step: 'step 2 of 2' when"},
        {"'name':'w'", "'name':'v'", PLIM_E_INVALID, "peak.values[0].name: 'v' when"},
        {"'shape':[2,3]", "'shape':[2]", PLIM_E_INVALID, "peak.values[0].shape: 1 when the plan was saved, 2 now"},
        {"'shape':[2,3]", "'shape':[3,2]", PLIM_E_INVALID, "peak.values[0].shape: another one now"},
        {"'dtype':'f32'", "'dtype':'f64'", PLIM_E_INVALID, "peak.values[0].dtype: 'f64' when"},
        {"'bytes':24", "'bytes':25", PLIM_E_INVALID, "peak.values[0].bytes: 25 when"},
        {"'why':'read'", "'wherefore':'read'", PLIM_E_FORMAT, "peak.values[0]: 'why' is missing"},
    };
    const plim_facts now = facts();
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_saved_plan *s;
        plim_error err;
        write_changed(cases[i].old, cases[i].new);
        if (read_saved(&s, &err) != PLIM_OK) fail_msg("%s", err.message);
        const plim_status status = plim__saved_plan_compare(s, &now, &err);
        if (status != cases[i].code || !strstr(err.message, cases[i].says)) fail_msg("%s: %s '%s'", cases[i].new, plim_status_name(status), err.message);
        plim_saved_plan_free(&s);
    }
}

static void test_model(void **state)
{
    (void)state;
    plim_saved_plan *s;
    plim_error err;
    write_changed("", "");
    assert_int_equal(read_saved(&s, &err), PLIM_OK);
    files_write("m", "hello", 5);
    assert_int_equal(plim_saved_plan_check_model(s, files_path("m"), &err), PLIM_OK);
    files_write("m", "hallo", 5);
    assert_int_equal(plim_saved_plan_check_model(s, files_path("m"), &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "has changed: as many bytes as when the plan was saved, but others"));
    err = (plim_error){0};
    files_write("m", "hello!", 6);
    assert_int_equal(plim_saved_plan_check_model(s, files_path("m"), &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "has changed: 5 bytes when the plan was saved, 6 now"));
    err = (plim_error){0};
    assert_int_equal(plim_saved_plan_check_model(s, files_path("nowhere"), &err), PLIM_E_IO);
    plim_saved_plan_free(&s);
}

static void test_cut(void **state)
{
    (void)state;
    const size_t n = write_changed("", "");
    size_t all_n;
    uint8_t *all = files_read("p", &all_n);
    for (size_t i = 0; i < n; i++) {
        plim_saved_plan *s;
        plim_error err;
        files_write("p", all, i);
        assert_int_equal(read_saved(&s, &err), PLIM_E_FORMAT);
        assert_null(s);
    }
    free(all);
}

static void test_failures(void **state)
{
    (void)state;
    plim_saved_plan *s;
    write_changed("", "");
    plim_status status = PLIM_E_NOMEM;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        countdown c = {.left = n};
        plim_error err = {0};
        status = plim__saved_plan_read(&s, &plim__os_linux, files_path("p"), countdown_of(&c), &err);
        if (status != PLIM_OK) assert_true(status == PLIM_E_NOMEM && err.code == PLIM_E_NOMEM);
        plim_saved_plan_free(&s);
        assert_int_equal(c.live, 0);
        assert_true(n < 20);
    }
    failing_os os;
    plim_error err = {0};
    failing_os_init(&os);
    os.reads_left = 0;
    assert_int_equal(plim__saved_plan_read(&s, &os.table, files_path("p"), (plim__alloc){0}, &err), PLIM_E_IO);
    assert_null(s);
}

/* Known values: Fowler, Noll and Vo's test vectors. */
static void test_identity(void **state)
{
    (void)state;
    plim_file_identity id;
    files_write("f", "", 0);
    assert_int_equal(plim_file_identify(&id, files_path("f"), NULL), PLIM_OK);
    assert_true(id.bytes == 0 && id.hash == 0xcbf29ce484222325u && id.modified_ns > 0);
    files_write("f", "foobar", 6);
    failing_os os;
    failing_os_init(&os);
    os.short_counts = true;
    assert_int_equal(plim__file_identify(&id, &os.table, files_path("f"), NULL), PLIM_OK);
    assert_true(id.bytes == 6 && id.hash == 0x85944171f73967e8u);
    os.reads_left = 3;
    assert_int_equal(plim__file_identify(&id, &os.table, files_path("f"), NULL), PLIM_E_IO);
    plim_error err = {0};
    assert_int_equal(plim_file_identify(&id, files_dir, &err), PLIM_E_INVALID);
}

static void test_write(void **state)
{
    (void)state;
    size_t n;
    files_write("out", "old", 3);
    for (int64_t i = 0; i < 7; i++) { /* six bytes, one at a time, the i-th of which fails */
        failing_os os;
        plim_error err = {0};
        failing_os_init(&os);
        os.short_counts = true;
        os.writes_left = i;
        os.error = i % 2 ? -ENOSPC : 0;
        const plim_status status = plim__file_write(&os.table, files_path("out"), "foobar", 6, &err);
        uint8_t *now = files_read("out", &n);
        if (i < 6) assert_true(status == (i % 2 ? PLIM_E_NOSPACE : PLIM_E_IO) && n == 3 && memcmp(now, "old", 3) == 0);
        else assert_true(status == PLIM_OK && n == 6 && memcmp(now, "foobar", 6) == 0);
        free(now);
    }
    plim_error err = {0};
    assert_int_equal(plim_file_write(files_path("no/where"), "x", 1, &err), PLIM_E_IO);
    assert_int_equal(plim_file_write(files_path("out"), "", 0, NULL), PLIM_OK);
    free(files_read("out", &n));
    assert_int_equal(n, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_read), cmocka_unit_test(test_refused), cmocka_unit_test(test_other_facts), cmocka_unit_test(test_model),
        cmocka_unit_test(test_cut), cmocka_unit_test(test_failures), cmocka_unit_test(test_identity), cmocka_unit_test(test_write),
    };
    return cmocka_run_group_tests_name("saved_plan", tests, files_begin, files_end);
}
