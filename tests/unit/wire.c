/* The wire reader: every kind of field, ends in every place, data that lies across its window. */
#include "unit.h"

#include "models/wire.h"
#include "onnx_file.h"

static plim__wire *open_bytes(const pb *b)
{
    files_write("w", b->p, b->n);
    plim__wire *w = calloc(1, sizeof *w);
    const int fd = open(files_path("w"), O_RDONLY);
    assert_true(fd >= 0);
    plim__wire_init(w, &plim__os_linux, fd, b->n, "w", "Thing");
    return w;
}

static void close_bytes(plim__wire *w, pb *b)
{
    close(w->fd);
    free(w);
    free(b->p);
    *b = (pb){0};
}

static void test_fields(void **state)
{
    (void)state;
    pb b = {0};
    pb_int(&b, 1, -1);
    pb_int(&b, 536870911, 300);
    pb_float(&b, 3, 1.5f);
    pb_text(&b, 4, "hello");
    pb_varint(&b, 5 << 3 | 1);
    pb_raw(&b, "\1\2\3\4\5\6\7\10", 8);
    plim__wire *w = open_bytes(&b);
    plim__wire_field f;
    bool more;
    char text[6] = "";
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.number == 1 && f.value == UINT64_MAX);
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.number == 536870911 && f.value == 300);
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.type == PLIM__WIRE_FIXED32 && f.value == 0x3fc00000);
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.type == PLIM__WIRE_BYTES && f.bytes == 5);
    assert_int_equal(plim__wire_copy(w, &f, text, NULL), PLIM_OK);
    assert_string_equal(text, "hello");
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.value == UINT64_C(0x0807060504030201));
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_false(more);
    close_bytes(w, &b);
}

/* A text across three windows, and a message behind it that is entered and left. */
static void test_window(void **state)
{
    (void)state;
    const size_t n = 2 * PLIM__WIRE_WINDOW + 77;
    uint8_t *big = malloc(n), *back = malloc(n);
    for (size_t i = 0; i < n; i++) big[i] = (uint8_t)(i * 7 + i / 251);
    pb b = {0}, inner = {0};
    pb_bytes(&b, 1, big, n);
    pb_int(&inner, 9, 5);
    pb_message(&b, 2, &inner);
    pb_int(&b, 3, 6);
    plim__wire *w = open_bytes(&b);
    plim__wire_field f, g;
    plim__wire_mark mark;
    bool more;
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_int_equal(plim__wire_next(w, &g, &more, NULL), PLIM_OK);
    assert_int_equal(plim__wire_copy(w, &f, back, NULL), PLIM_OK);
    assert_memory_equal(back, big, n);
    assert_int_equal(plim__wire_enter(w, &g, "Inner", &mark, NULL), PLIM_OK);
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.number == 9 && f.value == 5);
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_false(more);
    plim__wire_leave(w, &mark);
    assert_int_equal(plim__wire_next(w, &f, &more, NULL), PLIM_OK);
    assert_true(more && f.number == 3 && f.value == 6);
    close_bytes(w, &b);
    free(big);
    free(back);
}

static void refuse(const char *bytes, size_t n, const char *expected)
{
    pb b = {0};
    pb_raw(&b, bytes, n);
    plim__wire *w = open_bytes(&b);
    plim__wire_field f;
    bool more = true;
    plim_error err = {0};
    plim_status status = PLIM_OK;
    while (more && status == PLIM_OK) status = plim__wire_next(w, &f, &more, &err);
    assert_int_equal(status, PLIM_E_FORMAT);
    if (!strstr(err.message, expected)) fail_msg("'%s' does not say '%s'", err.message, expected);
    close_bytes(w, &b);
}

static void test_bad(void **state)
{
    (void)state;
    refuse("\x08", 1, "the number at byte 1 of a Thing does not end before the message does");
    refuse("\x08\xff", 2, "does not end");
    refuse("\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 12, "more than ten bytes");
    refuse("\x12\x05" "abcd", 6, "field 2 of a Thing, byte 2, says that it has 5 bytes; 4 are there");
    refuse("\x12\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01", 11, "says that it has 18446744073709551615 bytes; 0 are there");
    refuse("\x0d" "abc", 4, "field 1 of a Thing, byte 1, is cut off");
    refuse("\x09" "abcdefg", 8, "is cut off");
    refuse("\x0b", 1, "wire type");
    refuse("\x02\x00", 2, "a number that no field may have");
}

/* A file that got shorter behind its back is an error, not a crash. */
static void test_shorter(void **state)
{
    (void)state;
    pb b = {0};
    pb_text(&b, 1, "hello");
    plim__wire *w = open_bytes(&b);
    plim_error err = {0};
    plim__wire_field f;
    bool more;
    assert_int_equal(truncate(files_path("w"), 0), 0);
    assert_int_equal(plim__wire_next(w, &f, &more, &err), PLIM_E_FORMAT);
    assert_non_null(strstr(err.message, "longer when it was opened"));
    close_bytes(w, &b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields), cmocka_unit_test(test_window), cmocka_unit_test(test_bad), cmocka_unit_test(test_shorter),
    };
    return cmocka_run_group_tests_name("wire", tests, files_begin, files_end);
}
