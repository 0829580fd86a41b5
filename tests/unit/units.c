/* Byte counts: what people write, and what they read. */
#include "unit.h"

#include "plimsoll/plimsoll.h"

#include <stdio.h>
#include <string.h>

#define KIB 1024ull
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

static void parse_reads_what_people_write(void **state)
{
    (void)state;
    static const struct { const char *text; uint64_t bytes; } cases[] = {
        {"0", 0}, {"1", 1}, {"1000000", 1000000}, {"512B", 512}, {"1K", KIB}, {"1k", KIB}, {"1KB", KIB}, {"1KiB", KIB}, {"1kib", KIB},
        {"512M", 512 * MIB}, {"2G", 2 * GIB}, {"2 GiB", 2 * GIB}, {" 2G ", 2 * GIB}, {"1.5GiB", GIB + 512 * MIB}, {".5G", 512 * MIB},
        {"1.G", GIB}, {"3T", 3 * KIB * GIB}, {"1P", KIB * KIB * GIB}, {"15E", 15 * GIB * GIB}, {"0.1K", 102},
        {"18446744073709551615", UINT64_MAX}, {"1.00000000000000000000000001K", KIB},
        {"80%", 800}, {"100%", 1000}, {"0%", 0}, {"12.5%", 125}, {"0.05%", 0}, {"99.95%", 999},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_error err = {0};
        uint64_t bytes = 7;
        if (plim_bytes_parse(&bytes, cases[i].text, 1000, &err) || bytes != cases[i].bytes)
            fail_msg("'%s' gave %llu (%s)", cases[i].text, (unsigned long long)bytes, err.message);
    }
}

static void parse_refuses_what_makes_no_sense(void **state)
{
    (void)state;
    static const struct { const char *text; plim_status status; } cases[] = {
        {"", PLIM_E_INVALID}, {"M", PLIM_E_INVALID}, {"-1", PLIM_E_INVALID}, {"+1", PLIM_E_INVALID}, {".", PLIM_E_INVALID},
        {"1X", PLIM_E_INVALID}, {"1Gi", PLIM_E_INVALID}, {"1GG", PLIM_E_INVALID}, {"1e9", PLIM_E_INVALID}, {"0x10", PLIM_E_INVALID},
        {"inf", PLIM_E_INVALID}, {"nan", PLIM_E_INVALID}, {"101%", PLIM_E_INVALID}, {"100.5%", PLIM_E_INVALID}, {"50%%", PLIM_E_INVALID},
        {"1,000", PLIM_E_INVALID}, {"18446744073709551616", PLIM_E_OVERFLOW}, {"16E", PLIM_E_OVERFLOW}, {"17179869184G", PLIM_E_OVERFLOW},
        {"99999999999999999999999999999999", PLIM_E_OVERFLOW},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_error err = {0};
        uint64_t bytes = 7;
        const plim_status status = plim_bytes_parse(&bytes, cases[i].text, 1000, &err);
        if (status != cases[i].status) fail_msg("'%s' gave %s", cases[i].text, plim_status_name(status));
        assert_int_equal(bytes, 7);
        assert_int_equal(err.code, status);
        assert_non_null(strstr(err.message, cases[i].text));
    }
}

static void percent_needs_a_whole(void **state)
{
    (void)state;
    uint64_t bytes = 0;
    assert_int_equal(plim_bytes_parse(&bytes, "80%", 0, NULL), PLIM_E_INVALID);
    assert_int_equal(plim_bytes_parse(&bytes, "80%", PLIM_UNLIMITED, NULL), PLIM_E_INVALID);
    assert_int_equal(plim_bytes_parse(&bytes, "99.999999999999999999%", UINT64_MAX - 1, NULL), PLIM_OK);
    assert_true(bytes < UINT64_MAX - 1 && bytes > UINT64_MAX - 1000);
}

static void format_has_three_digits(void **state)
{
    (void)state;
    static const struct { uint64_t bytes; const char *text; } cases[] = {
        {0, "0 B"}, {512, "512 B"}, {1023, "1023 B"}, {1024, "1.0 KiB"}, {1536, "1.5 KiB"}, {10 * KIB, "10 KiB"}, {10 * KIB + 512, "10.5 KiB"},
        {512 * MIB, "512 MiB"}, {6298009600, "5.87 GiB"}, {4 * GIB, "4.0 GiB"}, {4 * GIB + 1, "4.0 GiB"}, {1070596096, "1021 MiB"},
        {GIB - 1, "1.0 GiB"}, {GIB - MIB, "1023 MiB"}, {10 * GIB - 1, "10 GiB"}, {100 * GIB - 1, "100 GiB"}, {UINT64_MAX, "16 EiB"},
        {294912, "288 KiB"}, {73728, "72 KiB"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        assert_string_equal(plim_bytes_format(text, sizeof text, cases[i].bytes), cases[i].text);
    }
}

/* What is printed reads back to within half of the last digit that was printed. */
static void format_reads_back(void **state)
{
    (void)state;
    uint64_t x = 88172645463325252ull;
    for (int i = 0; i < 100000; i++) {
        x ^= x << 13, x ^= x >> 7, x ^= x << 17;
        const uint64_t bytes = x >> (x % 60);
        char text[32];
        uint64_t back;
        plim_bytes_format(text, sizeof text, bytes);
        if (plim_bytes_parse(&back, text, 0, NULL)) continue; /* "16 EiB" */
        const uint64_t off = back > bytes ? back - bytes : bytes - back;
        if (off > bytes / 190 + 1) fail_msg("%llu printed as %s", (unsigned long long)bytes, text);
    }
}

static void format_keeps_to_its_buffer(void **state)
{
    (void)state;
    char text[4] = "xxx";
    plim_bytes_format(text, sizeof text, UINT64_MAX);
    assert_string_equal(text, "16 ");
    plim_count_format(text, 3, 1234567);
    assert_string_equal(text, "1,");
}

static void count_has_separators(void **state)
{
    (void)state;
    static const struct { uint64_t count; const char *text; } cases[] = {
        {0, "0"}, {7, "7"}, {999, "999"}, {1000, "1,000"}, {6298009600, "6,298,009,600"}, {1070596096, "1,070,596,096"},
        {UINT64_MAX, "18,446,744,073,709,551,615"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char text[32];
        assert_string_equal(plim_count_format(text, sizeof text, cases[i].count), cases[i].text);
    }
}

static void settings_start_from_zero(void **state)
{
    (void)state;
    const plim_settings set = plim_settings_default();
    assert_int_equal(set.memory, 0);
    assert_int_equal(set.threads, 0);
    assert_null(set.spill_dir);
    assert_null(set.alloc);
    assert_null(set.progress);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parse_reads_what_people_write),
        cmocka_unit_test(parse_refuses_what_makes_no_sense),
        cmocka_unit_test(percent_needs_a_whole),
        cmocka_unit_test(format_has_three_digits),
        cmocka_unit_test(format_reads_back),
        cmocka_unit_test(format_keeps_to_its_buffer),
        cmocka_unit_test(count_has_separators),
        cmocka_unit_test(settings_start_from_zero),
    };
    return cmocka_run_group_tests_name("units", tests, NULL, NULL);
}
