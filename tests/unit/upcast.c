/* What a line of NumPy says about its type, believed only when the bytes agree. */
#include "unit.h"

#include "watch/upcast.h"

#include <stdbool.h>
#include <string.h>

static void a_maker_of_float64_with_a_conversion(void **state)
{
    (void)state;
    plim__upcast u;
    assert_true(plim__upcast_read(&u, "x = np.random.rand(3075200, 512).astype(np.float32)", UINT64_C(12596019200)));
    assert_string_equal(u.maker, "np.random.rand");
    assert_string_equal(u.shape, "3075200, 512");
    assert_string_equal(u.to, "float32");
    assert_int_equal(u.rows, 3075200);
    assert_int_equal(u.values, UINT64_C(1574502400));
    assert_int_equal(u.to_bytes, 4);
    assert_int_equal(u.instead_bytes, 4);
    assert_string_equal(u.instead, "np.random.default_rng().random((3075200, 512), dtype=np.float32)");
}

static void other_makers(void **state)
{
    (void)state;
    static const struct { const char *line; uint64_t bytes; const char *instead; uint32_t to_bytes, instead_bytes;
    } cases[] = {
        {"a = np.zeros((1_000, 1000)).astype('float16')", 8000000, "np.zeros((1000, 1000), dtype=np.float16)", 2, 2},
        {"return numpy.ones(1000000)", 8000000, "np.ones((1000000), dtype=np.float32)", 0, 4},
        {"b = f(np.random.randn(1000, 1000)).astype(np.float16)", 8000000,
         "np.random.default_rng().standard_normal((1000, 1000), dtype=np.float32).astype(np.float16)", 2, 6},
        {"x = np.zeros(shape).astype(np.float32)", 8000000, "give np.zeros dtype=np.float32", 4, 4},
        {"x = np.linspace(0, 1, n)", 8000000, "give np.linspace dtype=np.float32", 0, 4},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__upcast u;
        if (!plim__upcast_read(&u, cases[i].line, cases[i].bytes)) fail_msg("%s", cases[i].line);
        assert_string_equal(u.instead, cases[i].instead);
        assert_int_equal(u.to_bytes, cases[i].to_bytes);
        assert_int_equal(u.instead_bytes, cases[i].instead_bytes);
    }
}

static void lines_that_prove_nothing(void **state)
{
    (void)state;
    static const struct { const char *line; uint64_t bytes; } cases[] = {
        {"x = np.random.rand(3075200, 512).astype(np.float32)", 6298009600u}, /* that is the copy, not what rand makes */
        {"x = np.zeros((1000, 1000), dtype=np.float32)", 4000000},
        {"x = np.zeros((1000, 1000), dtype=np.float64)", 8000000},
        {"x = np.empty((400, 1 << 20), np.uint8)", 419430400},
        {"x = np.zeros((1000, 1000), 'f8')", 8000000},
        {"x = torch.rand(1000, 1000)", 8000000},
        {"x = my_rand(1000, 1000)", 8000000},
        {"x = rand(1000, 1000)", 8000000},
        {"x = np.random.rand(1000, 1000", 8000000},
        {"x = np.zeros(n)", 8000001},
        {"x = np.zeros(99999999999999999999999)", 8},
        {"", 8},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__upcast u;
        if (plim__upcast_read(&u, cases[i].line, cases[i].bytes)) fail_msg("%s", cases[i].line);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_maker_of_float64_with_a_conversion),
        cmocka_unit_test(other_makers),
        cmocka_unit_test(lines_that_prove_nothing),
    };
    return cmocka_run_group_tests_name("upcast", tests, NULL, NULL);
}
