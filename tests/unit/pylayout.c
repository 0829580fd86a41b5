/* The table of CPython's structures: which versions it has, and what the interpreter says of itself. That the numbers are right unit-preload
 * finds out in every interpreter there is. */
#include "unit.h"

#include "watch/pylayout.h"

#include <string.h>

enum { V313 = 0x030d00f0, SIZE = 4096 };

/* Where each version's description has what is used of it, in words. */
typedef struct places {
    uint32_t version;
    uint8_t thread, thread_frame, frame, previous, executable, instr, locals, owner, code, file, name, qualname, first_line, locals_names, bytecode;
    uint8_t object_type, type_name, type_flags, tuple_item, tuple_size, list_item, list_size, dict_keys, dict_values, str, state, length, ascii;
} places;

static const places known[] = {
    {0x030d00f0, 19, 23, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 39, 41, 43, 45, 47, 49, 51, 52, 54, 55, 57, 58, 67, 68, 69, 70},
    {0x030e02f0, 22, 26, 31, 32, 33, 34, 35, 36, 39, 40, 41, 42, 44, 46, 48, 51, 53, 55, 57, 58, 60, 61, 67, 68, 77, 78, 79, 80},
    {0x030f00a5, 22, 26, 38, 39, 40, 41, 42, 43, 46, 47, 48, 49, 51, 53, 55, 58, 60, 62, 64, 65, 67, 68, 74, 75, 84, 85, 86, 87},
};
enum { KNOWN = sizeof known / sizeof *known };

/* A description with offsets that no version has, so that their use shows. */
static void describe(uint64_t word[PLIM__PY_DESCRIPTION_WORDS], const places *p)
{
    memset(word, 0, PLIM__PY_DESCRIPTION_WORDS * sizeof *word);
    memcpy(&word[0], "xdebugpy", 8);
    word[1] = p->version;
    word[p->thread] = word[p->frame] = word[p->code] = word[p->str] = SIZE;
    word[p->thread_frame] = 1000;
    word[p->previous] = 16, word[p->executable] = 24, word[p->instr] = 32, word[p->locals] = 1008, word[p->owner] = 40;
    word[p->file] = 48, word[p->name] = 56, word[p->qualname] = 64, word[p->first_line] = 72, word[p->locals_names] = 96, word[p->bytecode] = 1016;
    word[p->object_type] = 8, word[p->type_name] = 24, word[p->type_flags] = 168;
    word[p->tuple_item] = p->version >> 16 == 0x030d ? 24 : 32, word[p->tuple_size] = 16;
    word[p->list_item] = 24, word[p->list_size] = 16, word[p->dict_keys] = 32, word[p->dict_values] = 40;
    word[p->state] = 32, word[p->length] = 16, word[p->ascii] = 40;
}

static void versions(void **state)
{
    (void)state;
    for (uint32_t minor = 8; minor <= 15; minor++) {
        const plim__pylayout *row = plim__pylayout_of(3u << 24 | minor << 16 | 0x07f0);
        assert_non_null(row);
        assert_int_equal(row->version, 0x0300 | minor);
        assert_int_equal(row->instr_is == PLIM__PY_INSTR_POINTER, minor >= 11);
        assert_int_equal(row->code_qualname >= 0, minor >= 11);
        assert_int_equal(row->tagged, minor >= 14);
        assert_true(row->containers);
    }
    assert_null(plim__pylayout_of(0x030710f0));
    assert_null(plim__pylayout_of(0x031000f0));
    assert_null(plim__pylayout_of(0x020712f0));
    assert_null(plim__pylayout_of(0));
}

static void takes_all(const plim__pylayout *l)
{
    assert_int_equal(l->thread_frame, 1000);
    assert_int_equal(l->frame_previous, 16);
    assert_int_equal(l->frame_code, 24);
    assert_int_equal(l->frame_instr, 32);
    assert_int_equal(l->frame_locals, 1008);
    assert_int_equal(l->frame_owner, 40);
    assert_int_equal(l->code_file, 48);
    assert_int_equal(l->code_name, 56);
    assert_int_equal(l->code_qualname, 64);
    assert_int_equal(l->code_first_line, 72);
    assert_int_equal(l->code_start, 1016);
    assert_int_equal(l->str_header, 40);
}

static void described(void **state)
{
    (void)state;
    uint64_t word[PLIM__PY_DESCRIPTION_WORDS];
    plim__pylayout l;
    for (int i = 0; i < KNOWN; i++) {
        describe(word, &known[i]);
        assert_true(plim__pylayout_described(&l, known[i].version, word));
        takes_all(&l);
        assert_true(l.containers);
        assert_int_equal(l.frame_globals, plim__pylayout_of(known[i].version)->frame_globals); /* not in the description */
        word[known[i].dict_keys] = 48; /* stacks can be read, dicts cannot */
        assert_true(plim__pylayout_described(&l, known[i].version, word));
        assert_false(l.containers);
    }
}

/* A version that is not known has the order of the last one that is, or it is nothing. */
static void later(void **state)
{
    (void)state;
    uint64_t word[PLIM__PY_DESCRIPTION_WORDS];
    plim__pylayout l;
    places p = known[KNOWN - 1];
    p.version = 0x031002f0;
    describe(word, &p);
    assert_true(plim__pylayout_described(&l, p.version, word));
    assert_int_equal(l.version, 0x0310);
    assert_true(l.tagged);
    takes_all(&l);
    word[0] = 0;
    assert_false(plim__pylayout_described(&l, p.version, word));
    for (int i = 0; i + 1 < KNOWN; i++) {
        p = known[i];
        p.version = 0x031002f0;
        describe(word, &p);
        assert_false(plim__pylayout_described(&l, p.version, word));
    }
}

static void not_described(void **state)
{
    (void)state;
    uint64_t word[PLIM__PY_DESCRIPTION_WORDS];
    plim__pylayout l;
    describe(word, &known[0]);
    assert_true(plim__pylayout_described(&l, 0x030b02f0, word)); /* older versions have no description: what is there is something else */
    assert_memory_equal(&l, plim__pylayout_of(0x030b02f0), sizeof l);
    word[0] = 0;
    assert_true(plim__pylayout_described(&l, V313, word));
    assert_memory_equal(&l, plim__pylayout_of(V313), sizeof l);
    describe(word, &known[0]);
    word[2] = 1;
    assert_false(plim__pylayout_described(&l, V313, word));
    describe(word, &known[0]);
    assert_false(plim__pylayout_described(&l, 0x040000f0, word));
}

/* Whatever one word of a description is, what is believed of it stays within the heads that are read. */
static void nonsense(void **state)
{
    (void)state;
    static const uint64_t value[] = {0, 1, 120, 121, 129, 4095, 4096, 32767, 32768, UINT64_MAX};
    uint64_t word[PLIM__PY_DESCRIPTION_WORDS];
    uint32_t refused = 0;
    for (int i = 0; i < KNOWN; i++) {
        for (int at = 2; at < PLIM__PY_DESCRIPTION_WORDS; at++) {
            for (size_t v = 0; v < sizeof value / sizeof *value; v++) {
                plim__pylayout l;
                describe(word, &known[i]);
                word[at] = value[v];
                if (!plim__pylayout_described(&l, known[i].version, word)) {
                    refused++;
                    continue;
                }
                const int16_t frame[] = {l.frame_previous, l.frame_code, l.frame_instr, l.frame_owner, l.frame_globals};
                const int16_t code[] = {l.code_file, l.code_name, l.code_qualname, l.code_first_line};
                for (int k = 0; k < 5; k++) assert_in_range(frame[k], 0, PLIM__PY_FRAME_HEAD - 8);
                for (int k = 0; k < 4; k++) assert_in_range(code[k], 0, PLIM__PY_CODE_HEAD - 8);
                assert_true(l.thread_frame >= 0 && l.frame_locals >= 0 && l.code_start >= 0 && l.str_header == 40);
            }
        }
    }
    assert_true(refused > KNOWN * 100);
}

static void references(void **state)
{
    (void)state;
    const plim__pylayout *plain = plim__pylayout_of(V313), *tagged = plim__pylayout_of(0x030e00f0);
    assert_int_equal(plim__pylayout_object(plain, 0x1003), 0x1003);
    assert_int_equal(plim__pylayout_object(tagged, 0x1000), 0x1000);
    assert_int_equal(plim__pylayout_object(tagged, 0x1001), 0x1000); /* not counted here */
    assert_int_equal(plim__pylayout_object(tagged, 0x1003), 0);      /* a small integer */
    assert_int_equal(plim__pylayout_object(tagged, 1), 0);           /* unset */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(versions),      cmocka_unit_test(described), cmocka_unit_test(later),
        cmocka_unit_test(not_described), cmocka_unit_test(nonsense),  cmocka_unit_test(references),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
