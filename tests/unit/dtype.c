/* Dtypes: names, and promotion against the table that NumPy 1.24 gives. */
#include "unit.h"

#include "core/dtype.h"

#include <string.h>

enum { B = PLIM_BOOL, U1 = PLIM_U8, U2 = PLIM_U16, U4 = PLIM_U32, U8 = PLIM_U64, I1 = PLIM_I8, I2 = PLIM_I16, I4 = PLIM_I32,
       I8 = PLIM_I64, F2 = PLIM_F16, BF = PLIM_BF16, F4 = PLIM_F32, F8 = PLIM_F64 };

/* numpy.promote_types of every pair; the bf16 row and column, which NumPy has not, follow f16's, and f16 with bf16 is f32. */
static const uint8_t promoted[PLIM_DTYPE_COUNT][PLIM_DTYPE_COUNT] = {
    /*        B   U1  U2  U4  U8  I1  I2  I4  I8  F2  BF  F4  F8 */
    [B]  = {  B,  U1, U2, U4, U8, I1, I2, I4, I8, F2, BF, F4, F8 },
    [U1] = {  U1, U1, U2, U4, U8, I2, I2, I4, I8, F2, BF, F4, F8 },
    [U2] = {  U2, U2, U2, U4, U8, I4, I4, I4, I8, F4, F4, F4, F8 },
    [U4] = {  U4, U4, U4, U4, U8, I8, I8, I8, I8, F8, F8, F8, F8 },
    [U8] = {  U8, U8, U8, U8, U8, F8, F8, F8, F8, F8, F8, F8, F8 },
    [I1] = {  I1, I2, I4, I8, F8, I1, I2, I4, I8, F2, BF, F4, F8 },
    [I2] = {  I2, I2, I4, I8, F8, I2, I2, I4, I8, F4, F4, F4, F8 },
    [I4] = {  I4, I4, I4, I8, F8, I4, I4, I4, I8, F8, F8, F8, F8 },
    [I8] = {  I8, I8, I8, I8, F8, I8, I8, I8, I8, F8, F8, F8, F8 },
    [F2] = {  F2, F2, F4, F8, F8, F2, F4, F8, F8, F2, F4, F4, F8 },
    [BF] = {  BF, BF, F4, F8, F8, BF, F4, F8, F8, F4, BF, F4, F8 },
    [F4] = {  F4, F4, F4, F8, F8, F4, F4, F8, F8, F4, F4, F4, F8 },
    [F8] = {  F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8, F8 },
};

static void promotion_is_numpys(void **state)
{
    (void)state;
    for (int a = 0; a < PLIM_DTYPE_COUNT; a++) {
        for (int b = 0; b < PLIM_DTYPE_COUNT; b++) {
            const plim_dtype got = plim__dtype_promote((plim_dtype)a, (plim_dtype)b);
            if (got != promoted[a][b])
                fail_msg("%s with %s gave %s, not %s", plim_dtype_name((plim_dtype)a), plim_dtype_name((plim_dtype)b), plim_dtype_name(got),
                         plim_dtype_name((plim_dtype)promoted[a][b]));
        }
    }
}

static void scalars_are_weak(void **state)
{
    (void)state;
    static const struct { plim_dtype array; plim__kind scalar; plim_dtype out; } cases[] = {
        {PLIM_F32, PLIM__KIND_INT, PLIM_F32}, {PLIM_F32, PLIM__KIND_FLOAT, PLIM_F32}, {PLIM_F16, PLIM__KIND_FLOAT, PLIM_F16},
        {PLIM_BF16, PLIM__KIND_FLOAT, PLIM_BF16}, {PLIM_I8, PLIM__KIND_INT, PLIM_I8}, {PLIM_U8, PLIM__KIND_INT, PLIM_U8},
        {PLIM_U64, PLIM__KIND_INT, PLIM_U64}, {PLIM_I8, PLIM__KIND_FLOAT, PLIM_F64}, {PLIM_U16, PLIM__KIND_FLOAT, PLIM_F64},
        {PLIM_BOOL, PLIM__KIND_BOOL, PLIM_BOOL}, {PLIM_BOOL, PLIM__KIND_INT, PLIM_I64}, {PLIM_BOOL, PLIM__KIND_FLOAT, PLIM_F64},
        {PLIM_I32, PLIM__KIND_BOOL, PLIM_I32}, {PLIM_F64, PLIM__KIND_BOOL, PLIM_F64},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(plim__dtype_promote_weak(cases[i].array, cases[i].scalar), cases[i].out);
}

static void float_of_is_what_sqrt_gives(void **state)
{
    (void)state;
    static const plim_dtype expect[PLIM_DTYPE_COUNT] = {
        [B] = PLIM_F16, [U1] = PLIM_F16, [U2] = PLIM_F32, [U4] = PLIM_F64, [U8] = PLIM_F64, [I1] = PLIM_F16, [I2] = PLIM_F32,
        [I4] = PLIM_F64, [I8] = PLIM_F64, [F2] = PLIM_F16, [BF] = PLIM_BF16, [F4] = PLIM_F32, [F8] = PLIM_F64,
    };
    for (int t = 0; t < PLIM_DTYPE_COUNT; t++) assert_int_equal(plim__dtype_float_of((plim_dtype)t), expect[t]);
}

static void compute_types_hold_their_storage(void **state)
{
    (void)state;
    for (int t = 0; t < PLIM_DTYPE_COUNT; t++) {
        const plim_dtype c = plim__dtype_compute((plim_dtype)t);
        assert_true(c == PLIM_F32 || c == PLIM_F64 || c == PLIM_I64 || c == PLIM_U64);
        assert_int_equal(plim__dtype_promote((plim_dtype)t, c), c);
        assert_int_equal(plim__dtype_compute(c), c);
    }
}

static void names_read_back(void **state)
{
    (void)state;
    static const uint64_t bytes[PLIM_DTYPE_COUNT] = {
        [B] = 1, [U1] = 1, [U2] = 2, [U4] = 4, [U8] = 8, [I1] = 1, [I2] = 2, [I4] = 4, [I8] = 8, [F2] = 2, [BF] = 2, [F4] = 4, [F8] = 8,
    };
    for (int t = 0; t < PLIM_DTYPE_COUNT; t++) {
        plim_dtype back;
        assert_int_equal(plim_dtype_parse(&back, plim_dtype_name((plim_dtype)t), NULL), PLIM_OK);
        assert_int_equal(back, t);
        assert_int_equal(plim_dtype_bytes((plim_dtype)t), bytes[t]);
    }
    static const struct { const char *text; plim_dtype t; } cases[] = {
        {"float32", PLIM_F32}, {"<f4", PLIM_F32}, {">f4", PLIM_F32}, {"<i8", PLIM_I64}, {"i8", PLIM_I8}, {"|u1", PLIM_U8}, {"<u8", PLIM_U64},
        {"u8", PLIM_U8}, {"|b1", PLIM_BOOL}, {"bool", PLIM_BOOL}, {"bfloat16", PLIM_BF16}, {"half", PLIM_F16}, {"int8", PLIM_I8},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim_dtype t;
        assert_int_equal(plim_dtype_parse(&t, cases[i].text, NULL), PLIM_OK);
        assert_int_equal(t, cases[i].t);
    }
    static const char *const wrong[] = {"", "f", "f128", "complex64", "<c8", "object", "f4 ", "|O"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        plim_error err = {0};
        plim_dtype t;
        assert_int_equal(plim_dtype_parse(&t, wrong[i], &err), PLIM_E_TYPE);
        assert_non_null(strstr(err.message, wrong[i]));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(promotion_is_numpys),         cmocka_unit_test(scalars_are_weak),
        cmocka_unit_test(float_of_is_what_sqrt_gives), cmocka_unit_test(compute_types_hold_their_storage),
        cmocka_unit_test(names_read_back),
    };
    return cmocka_run_group_tests_name("dtype", tests, NULL, NULL);
}
