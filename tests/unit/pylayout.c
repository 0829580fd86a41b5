/* The table of CPython's structures: which versions it has, and what the interpreter says of itself. That the numbers are right unit-preload
 * finds out in every interpreter there is. */
#include "unit.h"

#include "watch/pylayout.h"

#include <string.h>

enum { V313 = 0x030d00f0, THREAD_FRAME = 23, STR_HEADER = 70 }; /* places in the description, in words */

/* A description as 3.13 gives it, with offsets that no version has, so that their use shows. */
static void describe(uint64_t word[PLIM__PY_DESCRIPTION_WORDS])
{
    for (uint64_t i = 0; i < PLIM__PY_DESCRIPTION_WORDS; i++) word[i] = 1000 + i;
    memcpy(&word[0], "xdebugpy", 8);
    word[1] = V313;
    word[2] = 0; /* not free-threaded */
}

static void versions(void **state)
{
    (void)state;
    for (uint32_t minor = 8; minor <= 13; minor++) {
        const plim__pylayout *row = plim__pylayout_of(3u << 24 | minor << 16 | 0x07f0);
        assert_non_null(row);
        assert_int_equal(row->version, 0x0300 | minor);
        assert_int_equal(row->instr_is == PLIM__PY_INSTR_POINTER, minor >= 11);
        assert_int_equal(row->code_qualname >= 0, minor >= 11);
    }
    assert_null(plim__pylayout_of(0x030710f0));
    assert_null(plim__pylayout_of(0x030e00f0));
    assert_null(plim__pylayout_of(0x020712f0));
    assert_null(plim__pylayout_of(0));
}

static void described(void **state)
{
    (void)state;
    uint64_t word[PLIM__PY_DESCRIPTION_WORDS];
    plim__pylayout l;
    describe(word);
    assert_true(plim__pylayout_described(&l, V313, word));
    assert_int_equal(l.thread_frame, 1000 + THREAD_FRAME);
    assert_int_equal(l.str_header, 1000 + STR_HEADER);
    assert_int_equal(l.frame_globals, plim__pylayout_of(V313)->frame_globals); /* not in the description */
}

static void not_described(void **state)
{
    (void)state;
    uint64_t word[PLIM__PY_DESCRIPTION_WORDS];
    plim__pylayout l;
    describe(word);
    assert_true(plim__pylayout_described(&l, 0x030b02f0, word)); /* older versions have no description: what is there is something else */
    assert_memory_equal(&l, plim__pylayout_of(0x030b02f0), sizeof l);
    word[0] = 0;
    assert_true(plim__pylayout_described(&l, V313, word));
    assert_memory_equal(&l, plim__pylayout_of(V313), sizeof l);
    describe(word);
    word[2] = 1;
    assert_false(plim__pylayout_described(&l, V313, word));
    describe(word);
    word[THREAD_FRAME] = UINT64_MAX;
    assert_false(plim__pylayout_described(&l, V313, word));
    assert_false(plim__pylayout_described(&l, 0x030e00f0, word));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(versions), cmocka_unit_test(described), cmocka_unit_test(not_described)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
