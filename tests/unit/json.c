/* The JSON writer and the emitter above it: one set of facts, two renderings, always valid. */
#include "unit.h"

#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct sink {
    FILE *file;
    char *text;
    size_t size;
} sink;

static void sink_open(sink *s)
{
    *s = (sink){0};
    s->file = open_memstream(&s->text, &s->size);
    assert_non_null(s->file);
}

static void sink_expect(sink *s, const char *expected)
{
    fclose(s->file);
    assert_string_equal(s->text, expected);
    free(s->text);
}

static void values_nest(void **state)
{
    (void)state;
    sink s;
    sink_open(&s);
    plim__json j = plim__json_start(s.file);
    plim__json_object(&j, NULL);
    plim__json_uint(&j, "u", UINT64_MAX);
    plim__json_int(&j, "i", INT64_MIN);
    plim__json_list(&j, "l");
    plim__json_bool(&j, NULL, true);
    plim__json_short_list(&j, NULL);
    plim__json_int(&j, NULL, 1);
    plim__json_object(&j, NULL);
    plim__json_null(&j, "n");
    plim__json_end(&j);
    plim__json_end(&j);
    plim__json_end(&j);
    plim__json_object(&j, "empty");
    plim__json_end(&j);
    plim__json_end(&j);
    sink_expect(&s, "{\n  \"u\": 18446744073709551615,\n  \"i\": -9223372036854775808,\n  \"l\": [\n    true,\n    [1, {\"n\": null}]\n  ],\n"
                    "  \"empty\": {}\n}\n");
}

static void strings_are_escaped(void **state)
{
    (void)state;
    static const struct { const char *text, *json; } cases[] = {
        {"plain", "\"plain\""}, {"", "\"\""}, {"a\"b\\c", "\"a\\\"b\\\\c\""}, {"\n\t\x01\x7f", "\"\\n\\t\\u0001\\u007f\""},
        {"\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\xa2", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x9a\xa2\""},
        {"\xff", "\"\\ufffd\""}, {"\xc3", "\"\\ufffd\""}, {"\xc0\x80", "\"\\ufffd\\ufffd\""}, {"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""},
        {"\xf5\x80\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""}, {"\xe2\x82", "\"\\ufffd\\ufffd\""},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        sink s;
        sink_open(&s);
        plim__json j = plim__json_start(s.file);
        plim__json_string(&j, NULL, cases[i].text);
        sink_expect(&s, cases[i].json);
    }
}

static void numbers_read_back(void **state)
{
    (void)state;
    static const struct { double value; const char *json; } cases[] = {
        {0, "0"}, {0.1, "0.1"}, {-1.5, "-1.5"}, {1e300, "1e+300"}, {1.0 / 3, "0.3333333333333333"}, {NAN, "null"}, {INFINITY, "null"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        sink s;
        sink_open(&s);
        plim__json j = plim__json_start(s.file);
        plim__json_number(&j, NULL, cases[i].value);
        sink_expect(&s, cases[i].json);
    }
}

static plim__emit emit;

static void state_facts(plim__emit *e)
{
    static const plim__emit_column columns[] = {{"name", "name", false}, {"bytes", "bytes", true}, {"hidden", NULL, false}, {NULL, "shown", false}};
    const plim_shape shape = {.rank = 2, .dim = {3, 4}};
    plim__emit_bytes(e, "budget_bytes", "budget", 1536);
    plim__emit_number(e, "seconds", NULL, "%.1f s", 0.5);
    plim__emit_string(e, NULL, "for people", "yes");
    plim__emit_number(e, "rate", "rate", "%.0f MB/s", NAN);
    plim__emit_table(e, "rows", columns, 4);
    plim__emit_string(e, NULL, NULL, "a\xc3\xa9");
    plim__emit_bytes(e, NULL, NULL, 2048);
    plim__emit_bool(e, NULL, NULL, true);
    plim__emit_count(e, NULL, NULL, 1000);
    plim__emit_string(e, NULL, NULL, "longer");
    plim__emit_bytes(e, NULL, NULL, PLIM_UNLIMITED);
    plim__emit_shape(e, NULL, NULL, &shape);
    plim__emit_shape(e, NULL, NULL, &shape);
    plim__emit_table_end(e);
    plim__emit_line(e, "done %d\n", 1);
}

static void facts_as_text(void **state)
{
    (void)state;
    sink s;
    sink_open(&s);
    plim__emit_start(&emit, s.file, false, "test");
    state_facts(&emit);
    plim__emit_end(&emit);
    sink_expect(&s, "budget             1.5 KiB (1,536 bytes)\nfor people         yes\nrate               -\n"
                    "name       bytes  shown\na\xc3\xa9       2.0 KiB  1,000\nlonger  no limit  [3,4]\ndone 1\n");
}

static void facts_as_json(void **state)
{
    (void)state;
    sink s;
    sink_open(&s);
    plim__emit_start(&emit, s.file, true, "test");
    state_facts(&emit);
    plim__emit_end(&emit);
    sink_expect(&s, "{\n  \"verb\": \"test\",\n  \"budget_bytes\": 1536,\n  \"seconds\": 0.5,\n  \"rate\": null,\n  \"rows\": [\n"
                    "    {\"name\": \"a\xc3\xa9\", \"bytes\": 2048, \"hidden\": true},\n    {\"name\": \"longer\", \"bytes\": null, \"hidden\": [3, 4]}\n  ]\n}\n");
}

/* More rows than fit at first: one header, widths of the widest. */
static void a_long_table(void **state)
{
    (void)state;
    static const plim__emit_column columns[] = {{"n", "number", true}, {"name", "name", false}};
    sink s, expected;
    sink_open(&s);
    sink_open(&expected);
    plim__emit_start(&emit, s.file, false, "test");
    plim__emit_table(&emit, "rows", columns, 2);
    fprintf(expected.file, "%13s  name\n", "number");
    for (uint32_t i = 0; i < 300; i++) {
        const bool last = i == 299;
        plim__emit_count(&emit, NULL, NULL, last ? 1234567890 : i);
        plim__emit_string(&emit, NULL, NULL, "x");
        fprintf(expected.file, last ? "1,234,567,890  x\n" : "%13u  x\n", i);
    }
    plim__emit_table_end(&emit);
    plim__emit_end(&emit);
    fclose(expected.file);
    sink_expect(&s, expected.text);
    free(expected.text);
}

static void nearest_is_near(void **state)
{
    (void)state;
    static const char *const names[] = {"size", "doctor", "eval", "pack"};
    assert_string_equal(plim__cli_nearest("siez", names, 4), "size");
    assert_string_equal(plim__cli_nearest("docter", names, 4), "doctor");
    assert_string_equal(plim__cli_nearest("ev", names, 4), "eval");
    assert_string_equal(plim__cli_nearest("packs", names, 4), "pack");
    assert_null(plim__cli_nearest("frobnicate", names, 4));
    assert_null(plim__cli_nearest("", names, 4));
    assert_null(plim__cli_nearest("a-word-that-is-longer-than-any-name-there-could-be", names, 4));
}

static void exit_codes_follow_families(void **state)
{
    (void)state;
    assert_int_equal(plim__cli_exit_code(PLIM_OK), 0);
    assert_int_equal(plim__cli_exit_code(PLIM_E_SYNTAX), 2);
    assert_int_equal(plim__cli_exit_code(PLIM_E_FORMAT), 2);
    assert_int_equal(plim__cli_exit_code(PLIM_E_BUDGET), 3);
    assert_int_equal(plim__cli_exit_code(PLIM_E_NOMEM), 1);
    assert_int_equal(plim__cli_exit_code(PLIM_E_NOSPACE), 1);
    assert_int_equal(plim__cli_exit_code(PLIM_E_PLAN), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(values_nest),   cmocka_unit_test(strings_are_escaped), cmocka_unit_test(numbers_read_back),
        cmocka_unit_test(facts_as_text), cmocka_unit_test(facts_as_json),       cmocka_unit_test(nearest_is_near),
        cmocka_unit_test(exit_codes_follow_families), cmocka_unit_test(a_long_table),
    };
    return cmocka_run_group_tests_name("json", tests, NULL, NULL);
}
