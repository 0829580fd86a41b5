/* The CSV reader: what it accepts, what it refuses, and where it says the fault is. */
#include "unit.h"

#include "cli/csv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static plim_status parse(plim__csv *out, const char *text, plim_error *err)
{
    *err = (plim_error){0};
    char *copy = strdup(text);
    assert_non_null(copy);
    return plim__csv_parse(out, copy, strlen(text), "t.csv", err);
}

static void expect_fields(const plim__csv *t, uint32_t row, uint32_t line, const char *const *expected)
{
    assert_int_equal(t->line[row], line);
    for (uint32_t c = 0; c < t->n_columns; c++) assert_string_equal(t->field[(size_t)row * t->n_columns + c], expected[c]);
}

/* Line ends of both kinds, blank lines, spaces around fields, no newline at the end: all the same table. */
static void spellings_of_one_table(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t header, first, second;
    } cases[] = {
        {"id,size\na,1\nb,2\n", 1, 2, 3},
        {"id,size\r\na,1\r\nb,2\r\n", 1, 2, 3},
        {"\n\r\n id ,\tsize\n\n a, 1\n \t\nb ,2", 3, 5, 7},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__csv t;
        plim_error err;
        assert_int_equal(parse(&t, cases[i].text, &err), PLIM_OK);
        assert_int_equal(t.n_columns, 2);
        assert_int_equal(t.n_rows, 2);
        assert_int_equal(t.header_line, cases[i].header);
        assert_int_equal(plim__csv_column(&t, "size"), 1);
        assert_int_equal(plim__csv_column(&t, "Size"), PLIM__CSV_COLUMNS);
        expect_fields(&t, 0, cases[i].first, (const char *const[]){"a", "1"});
        expect_fields(&t, 1, cases[i].second, (const char *const[]){"b", "2"});
        plim__csv_free(&t);
    }
}

static void many_rows(void **state)
{
    (void)state;
    enum { ROWS = 5000 };
    char *text = malloc(ROWS * 16 + 16), *at = text + sprintf(text, "n\n");
    assert_non_null(text);
    for (int i = 0; i < ROWS; i++) at += sprintf(at, "%d\n", i);
    plim__csv t;
    plim_error err;
    assert_int_equal(parse(&t, text, &err), PLIM_OK);
    assert_int_equal(t.n_rows, ROWS);
    for (uint32_t r = 0; r < ROWS; r++) {
        int64_t n;
        assert_int_equal(plim__csv_int(&n, &t, r, 0, "t.csv", &err), PLIM_OK);
        assert_int_equal(n, r);
    }
    plim__csv_free(&t);
    free(text);
}

static void numbers(void **state)
{
    (void)state;
    plim__csv t;
    plim_error err;
    assert_int_equal(parse(&t, "n\n-9223372036854775808\n9223372036854775807\n9223372036854775808\n1.5\n0x10\n7 8\n,\n", &err), PLIM_E_FORMAT);
    assert_non_null(strstr(err.message, "'t.csv', line 8: 2 fields where the header names 1"));
    assert_int_equal(parse(&t, "n\n-9223372036854775808\n9223372036854775807\n9223372036854775808\n1.5\n0x10\n7 8\n", &err), PLIM_OK);
    static const plim_status expected[] = {PLIM_OK, PLIM_OK, PLIM_E_OVERFLOW, PLIM_E_FORMAT, PLIM_E_FORMAT, PLIM_E_FORMAT};
    for (uint32_t r = 0; r < t.n_rows; r++) {
        int64_t n;
        char where[40];
        err = (plim_error){0};
        assert_int_equal(plim__csv_int(&n, &t, r, 0, "t.csv", &err), expected[r]);
        snprintf(where, sizeof where, "line %u, column n", r + 2);
        if (expected[r] != PLIM_OK) assert_non_null(strstr(err.message, where));
        else assert_true(n == (r ? INT64_MAX : INT64_MIN));
    }
    plim__csv_free(&t);
}

static void refusals_name_the_line(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"", "'t.csv' is empty"},
        {"\n \n\r\n", "'t.csv' is empty"},
        {"a,b,a\n", "line 1: column 'a' is there twice"},
        {"a,b\n1,2\n\n3\n", "line 4: 1 fields where the header names 2"},
        {"a,b\n1,2,3\n", "line 2: 3 fields where the header names 2"},
        {"a,b\n\"1\",2\n", "line 2: quoted fields"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__csv t;
        plim_error err;
        assert_int_equal(parse(&t, cases[i].text, &err), PLIM_E_FORMAT);
        if (!strstr(err.message, cases[i].message)) fail_msg("'%s' does not say '%s'", err.message, cases[i].message);
        assert_null(t.text); /* nothing is left to free */
    }
    plim__csv t;
    plim_error err = {0};
    char *text = malloc(5);
    memcpy(text, "a\n\0b", 5);
    assert_int_equal(plim__csv_parse(&t, text, 4, "t.csv", &err), PLIM_E_FORMAT);
    assert_non_null(strstr(err.message, "byte 2 is NUL"));
    char wide[2 * PLIM__CSV_COLUMNS + 2] = "";
    for (int i = 0; i < PLIM__CSV_COLUMNS; i++) strcat(wide, "c,");
    assert_int_equal(parse(&t, wide, &err), PLIM_E_FORMAT);
    assert_non_null(strstr(err.message, "more than 64 columns"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(spellings_of_one_table),
        cmocka_unit_test(many_rows),
        cmocka_unit_test(numbers),
        cmocka_unit_test(refusals_name_the_line),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
