/* Shapes and regions: parsing, products that overflow, boxes. */
#include "unit.h"

#include "core/shape.h"

#include <stdio.h>
#include <string.h>

static void parse_reads_every_spelling(void **state)
{
    (void)state;
    static const struct { const char *text, *shape; } cases[] = {
        {"3075200x512", "[3075200,512]"}, {"1,256,1024", "[1,256,1024]"}, {"(3, 4)", "[3,4]"}, {"[3,4]", "[3,4]"}, {"(3,)", "[3]"},
        {"", "[]"}, {"()", "[]"}, {"7", "[7]"}, {"0x5", "[0,5]"}, {"3X4", "[3,4]"}, {"1x2x3x4x5x6x7x8", "[1,2,3,4,5,6,7,8]"},
        {"9223372036854775807", "[9223372036854775807]"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_error err = {0};
        plim_shape s;
        char text[256];
        if (plim_shape_parse(&s, cases[i].text, &err)) fail_msg("'%s': %s", cases[i].text, err.message);
        assert_string_equal(plim_shape_format(text, sizeof text, &s), cases[i].shape);
    }
}

static void parse_refuses_the_rest(void **state)
{
    (void)state;
    static const struct { const char *text; plim_status status; } cases[] = {
        {"x", PLIM_E_SHAPE}, {"3x", PLIM_E_SHAPE}, {"x3", PLIM_E_SHAPE}, {"3xx4", PLIM_E_SHAPE}, {"-3", PLIM_E_SHAPE}, {"3.5", PLIM_E_SHAPE},
        {"(3", PLIM_E_SHAPE}, {"3)", PLIM_E_SHAPE}, {"(3)4", PLIM_E_SHAPE}, {" ", PLIM_E_SHAPE}, {"1x2x3x4x5x6x7x8x9x1x2x3x4", PLIM_E_SHAPE},
        {"9223372036854775808", PLIM_E_OVERFLOW}, {"99999999999999999999999", PLIM_E_OVERFLOW},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_error err = {0};
        plim_shape s;
        const plim_status status = plim_shape_parse(&s, cases[i].text, &err);
        if (status != cases[i].status) fail_msg("'%s' gave %s", cases[i].text, plim_status_name(status));
        assert_true(strlen(err.message) > 0);
    }
}

static void bytes_are_exact_or_an_error(void **state)
{
    (void)state;
    static const struct { const char *text; plim_dtype dtype; uint64_t bytes; } cases[] = {
        {"3075200x512", PLIM_F32, 6298009600}, {"1x256x1024x1021", PLIM_F32, 1070596096}, {"384x192", PLIM_F32, 294912},
        {"384x192", PLIM_F16, 147456}, {"384x192", PLIM_I8, 73728}, {"10000x1000", PLIM_F32, 40000000}, {"", PLIM_F64, 8},
        {"0x9223372036854775807x9223372036854775807", PLIM_F64, 0}, {"4611686018427387903", PLIM_F16, 9223372036854775806},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_shape s;
        uint64_t bytes;
        assert_int_equal(plim_shape_parse(&s, cases[i].text, NULL), PLIM_OK);
        assert_int_equal(plim_shape_bytes(&bytes, &s, cases[i].dtype, NULL), PLIM_OK);
        assert_int_equal(bytes, cases[i].bytes);
    }
    static const char *const too_large[] = {"9223372036854775807x2", "4294967296x4294967296", "3037000500x3037000500", "4611686018427387904"};
    for (size_t i = 0; i < COUNT_OF(too_large); i++) {
        plim_error err = {0};
        plim_shape s;
        uint64_t bytes;
        assert_int_equal(plim_shape_parse(&s, too_large[i], NULL), PLIM_OK);
        assert_int_equal(plim_shape_bytes(&bytes, &s, PLIM_F16, &err), PLIM_E_OVERFLOW);
        assert_non_null(strstr(err.message, "["));
    }
    const plim_shape negative = {.rank = 1, .dim = {-1}};
    uint64_t n;
    assert_int_equal(plim_shape_count(&n, &negative, NULL), PLIM_E_SHAPE);
}

static void format_keeps_to_its_buffer(void **state)
{
    (void)state;
    const plim_shape s = {.rank = 3, .dim = {100, 200, 300}};
    char text[16];
    for (size_t size = 1; size <= sizeof text; size++) {
        memset(text, '#', sizeof text);
        plim_shape_format(text, size, &s);
        assert_true(strlen(text) < size);
        assert_true(strncmp(text, "[100,200,300]", strlen(text)) == 0);
    }
}

static plim__region box(int64_t lo0, int64_t hi0, int64_t lo1, int64_t hi1)
{
    return (plim__region){.rank = 2, .dim = {{lo0, hi0}, {lo1, hi1}}};
}

static void regions_are_half_open_boxes(void **state)
{
    (void)state;
    const plim_shape s = {.rank = 2, .dim = {4, 6}};
    const plim__region whole = plim__region_whole(&s), part = box(1, 3, 2, 5), empty = box(2, 2, 9, 12), out = box(1, 5, 0, 6);
    assert_int_equal(plim__region_count(&whole), 24);
    assert_int_equal(plim__region_count(&part), 6);
    assert_int_equal(plim__region_count(&empty), 0);
    assert_true(plim__region_inside(&part, &whole));
    assert_true(plim__region_inside(&empty, &whole));
    assert_false(plim__region_inside(&out, &whole));
    assert_false(plim__region_inside(&whole, &part));

    const plim__region other = box(0, 2, 4, 6), expect = box(0, 3, 2, 6);
    const plim__region hull = plim__region_hull(&part, &other), same = plim__region_hull(&part, &empty), same2 = plim__region_hull(&empty, &part);
    assert_true(plim__region_equal(&hull, &expect));
    assert_true(plim__region_equal(&same, &part));
    assert_true(plim__region_equal(&same2, &part));

    const plim_shape scalar = {0};
    const plim__region point = plim__region_whole(&scalar);
    assert_int_equal(plim__region_count(&point), 1);
    assert_false(plim__region_equal(&point, &part));
    assert_false(plim__shape_equal(&scalar, &s));
    assert_true(plim__shape_equal(&s, &s));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_reads_every_spelling), cmocka_unit_test(parse_refuses_the_rest),
        cmocka_unit_test(bytes_are_exact_or_an_error), cmocka_unit_test(format_keeps_to_its_buffer),
        cmocka_unit_test(regions_are_half_open_boxes),
    };
    return cmocka_run_group_tests_name("shape", tests, NULL, NULL);
}
