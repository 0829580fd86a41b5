/* Safetensors files that are written here: read back by our reader and by a plain one in Python, with every system call and allocation failing. */
#include "unit.h"

#include "countdown.h"
#include "files.h"
#include "formats/safetensors_write.h"
#include "save_faults.h"

/* Byte `at` of tensor `index`. */
static uint8_t byte_of(uint32_t index, uint64_t at) { return (uint8_t)((at * 2654435761u >> 7) + index * 37u + at); }

/* What the reader was asked for. */
typedef struct asked {
    uint64_t next[64]; /* of each tensor */
    uint64_t most;
    uint32_t fail_at;  /* a tensor that cannot be read; UINT32_MAX: none */
} asked;

static plim_status give(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    asked *a = ctx;
    PLIM_FAIL_IF(index == a->fail_at, err, PLIM_E_IO, "tensor %u cannot be read", index);
    assert_int_equal(offset, a->next[index]);
    a->next[index] += n;
    a->most = n > a->most ? n : a->most;
    for (uint64_t i = 0; i < n; i++) ((uint8_t *)bytes)[i] = byte_of(index, offset + i);
    return PLIM_OK;
}

static const plim__tensor_spec tensors[] = {
    {"bytes", PLIM_U8, {1, {5}}},
    {"layer/kernel", PLIM_F32, {2, {300, 171}}},
    {"\"q\\\" \x01\n\x7f m\xc3\xa4\xe2\x82\xac\xf0\x9f\x90\x9f", PLIM_F16, {1, {3}}},
    {"scalar", PLIM_F64, {0}},
    {"none", PLIM_F32, {2, {0, 7}}},
    {"", PLIM_BOOL, {1, {2}}},
    {"b", PLIM_BF16, {1, {7}}},
    {"u", PLIM_U64, {3, {2, 3, 4}}},
    {"i8", PLIM_I8, {1, {1}}},
    {"i16", PLIM_I16, {1, {1}}},
    {"i32", PLIM_I32, {1, {70001}}},
    {"i64", PLIM_I64, {1, {1}}},
    {"u16", PLIM_U16, {1, {1}}},
    {"u32", PLIM_U32, {1, {1}}},
};
static const plim__safetensors_text texts[] = {{"step", "1200"}, {"seed", "18446744073709551615"}, {"na\"me", "a\tb\\\n\xc3\xa4"}, {"", ""}};

static plim_status write_to(const plim__os *os, const char *name, plim__alloc alloc, plim_error *err)
{
    asked a = {.fail_at = UINT32_MAX};
    const plim__tensor_reader r = {&a, give};
    return plim__safetensors_write(os, files_path(name), tensors, COUNT_OF(tensors), texts, COUNT_OF(texts), r, alloc, err);
}

static void test_round_trip(void **state)
{
    (void)state;
    plim__safetensors f;
    plim_error err = {0};
    size_t n;
    asked a = {.fail_at = UINT32_MAX};
    if (plim__safetensors_write(&plim__os_linux, files_path("t.safetensors"), tensors, COUNT_OF(tensors), texts, COUNT_OF(texts),
                                (plim__tensor_reader){&a, give}, (plim__alloc){0}, &err) != PLIM_OK)
        fail_msg("%s", err.message);
    assert_true(a.most <= 65536);
    if (plim__safetensors_open(&f, &plim__os_linux, files_path("t.safetensors"), (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    uint8_t *all = files_read("t.safetensors", &n);
    assert_int_equal(f.n_tensors, COUNT_OF(tensors));
    for (uint32_t i = 0; i < COUNT_OF(tensors); i++) {
        plim__array_file t;
        uint64_t bytes;
        if (plim__safetensors_find(&t, &f, tensors[i].name, &err) != PLIM_OK) fail_msg("%s", err.message);
        assert_true(t.dtype == tensors[i].dtype && plim__shape_equal(&t.shape, &tensors[i].shape));
        assert_int_equal(t.source.offset % plim_dtype_bytes(t.dtype), 0);
        assert_int_equal(plim_shape_bytes(&bytes, &t.shape, t.dtype, NULL), PLIM_OK);
        assert_int_equal(a.next[i], bytes);
        for (uint64_t k = 0; k < bytes; k++) assert_int_equal(all[t.source.offset + k], byte_of(i, k));
    }
    uint64_t head;
    memcpy(&head, all, sizeof head);
    assert_int_equal((8 + head) % 4096, 0);
    assert_int_equal(f.n_texts, COUNT_OF(texts));
    for (size_t i = 0; i < COUNT_OF(texts); i++) assert_string_equal(plim__safetensors_metadata(&f, texts[i].key), texts[i].value);
    assert_null(plim__safetensors_metadata(&f, "stepp"));
    free(all);
    plim__safetensors_free(&f);
}

/* Headers of every length around a page. */
static void test_paddings(void **state)
{
    (void)state;
    char name[9000];
    for (size_t n = 4000; n < 4110; n++) {
        plim__safetensors f;
        plim_error err = {0};
        asked a = {.fail_at = UINT32_MAX};
        memset(name, 'x', n);
        name[n] = 0;
        const plim__tensor_spec one = {name, PLIM_U8, {1, {3}}};
        assert_int_equal(plim__safetensors_write(&plim__os_linux, files_path("p.safetensors"), &one, 1, NULL, 0, (plim__tensor_reader){&a, give},
                                                 (plim__alloc){0}, &err), PLIM_OK);
        assert_int_equal(plim__safetensors_open(&f, &plim__os_linux, files_path("p.safetensors"), (plim__alloc){0}, &err), PLIM_OK);
        assert_true(f.n_tensors == 1 && f.tensor[0].begin % 4096 == 0 && f.n_texts == 0 && !plim__safetensors_metadata(&f, "x"));
        plim__safetensors_free(&f);
    }
}

static void test_empty(void **state)
{
    (void)state;
    plim__safetensors f;
    plim_error err = {0};
    assert_int_equal(plim__safetensors_write(&plim__os_linux, files_path("e.safetensors"), NULL, 0, NULL, 0, (plim__tensor_reader){NULL, give},
                                             (plim__alloc){0}, &err), PLIM_OK);
    assert_int_equal(plim__safetensors_open(&f, &plim__os_linux, files_path("e.safetensors"), (plim__alloc){0}, &err), PLIM_OK);
    assert_int_equal(f.n_tensors, 0);
    plim__safetensors_free(&f);
}

/* A file of any size leaves little in the page cache, and the memory that it takes does not grow with it. */
static void test_page_cache(void **state)
{
    (void)state;
    plim_error err = {0};
    asked a = {.fail_at = UINT32_MAX};
    const plim__tensor_spec large = {"large", PLIM_F32, {2, {3, 4 << 20}}};
    assert_int_equal(plim__safetensors_write(&plim__os_linux, files_path("c.safetensors"), &large, 1, NULL, 0, (plim__tensor_reader){&a, give},
                                             (plim__alloc){0}, &err), PLIM_OK);
    assert_int_equal(a.next[0], 48 << 20);
    const int fd = open(files_path("c.safetensors"), O_RDONLY);
    const int64_t cached = plim__os_linux.cached(NULL, fd);
    plim__stat st;
    assert_int_equal(plim__os_linux.stat(NULL, fd, &st), 0);
    assert_int_equal(st.size, 4096 + (48 << 20));
    close(fd);
    unlink(files_path("c.safetensors"));
    if (!st.memory && cached > 4 << 20) fail_msg("%lld bytes are in the cache", (long long)cached);
}

static void test_python(void **state)
{
    (void)state;
    plim_error err = {0};
    if (!files_have_numpy()) skip();
    if (write_to(&plim__os_linux, "t.safetensors", (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_true(files_python("import json, struct, numpy as np\n"
                             "raw = open('t.safetensors', 'rb').read()\n"
                             "n, = struct.unpack('<Q', raw[:8])\n"
                             "head = json.loads(raw[8:8 + n])\n"
                             "text = head.pop('__metadata__')\n"
                             "assert text == {'step': '1200', 'seed': '18446744073709551615', 'na\"me': 'a\\tb\\\\\\n\\u00e4', '': ''}, text\n"
                             "kinds = {'F64': 'f8', 'F32': 'f4', 'F16': 'f2', 'BF16': 'u2', 'I64': 'i8', 'I32': 'i4', 'I16': 'i2', 'I8': 'i1',\n"
                             "         'U64': 'u8', 'U32': 'u4', 'U16': 'u2', 'U8': 'u1', 'BOOL': 'b1'}\n"
                             "data, at = {}, []\n"
                             "for name, t in head.items():\n"
                             "    a, b = t['data_offsets']\n"
                             "    data[name] = np.frombuffer(raw[8 + n + a:8 + n + b], '<' + kinds[t['dtype']]).reshape(t['shape'])\n"
                             "    at.append((a, b))\n"
                             "at.sort()\n"
                             "assert at[0][0] == 0 and at[-1][1] == len(raw) - 8 - n and all(x[1] == y[0] for x, y in zip(at, at[1:]))\n"
                             "assert data['layer/kernel'].shape == (300, 171) and data['scalar'].shape == () and len(data) == 14\n"
                             "assert data['\"q\\\\\" \\x01\\n\\x7f m\\u00e4\\u20ac\\U0001f41f'].shape == (3,)\n"
                             "k = np.arange(300 * 171 * 4, dtype=np.uint64)\n"
                             "want = ((k * 2654435761 >> 7) + 37 + k) % 256\n"
                             "assert (data['layer/kernel'].view('u1').ravel() == want).all()\n"));
}

static void refused(const plim__tensor_spec *t, uint32_t n, const plim__safetensors_text *x, uint32_t n_x, plim_status code, const char *says)
{
    plim_error err = {0};
    asked a = {.fail_at = UINT32_MAX};
    const plim_status status = plim__safetensors_write(&plim__os_linux, files_path("r.safetensors"), t, n, x, n_x, (plim__tensor_reader){&a, give},
                                                       (plim__alloc){0}, &err);
    if (status != code || !strstr(err.message, says)) fail_msg("%s: %s, not '%s'", plim_status_name(status), err.message, says);
    assert_false(files_exist("r.safetensors"));
    assert_int_equal(files_temporary(), 0);
}

static void test_refusals(void **state)
{
    (void)state;
    static const plim__tensor_spec twice[] = {{"a", PLIM_U8, {0}}, {"b", PLIM_U8, {0}}, {"a", PLIM_F32, {0}}};
    refused(twice, 3, NULL, 0, PLIM_E_INVALID, "two tensors are called 'a'");
    refused(twice, 2, (plim__safetensors_text[]){{"k", "1"}, {"k", "2"}}, 2, PLIM_E_INVALID, "two texts of the metadata are called 'k'");
    refused(twice, 2, (plim__safetensors_text[]){{"k", "\xff"}}, 1, PLIM_E_UNSUPPORTED, "the metadata's 'k' is not UTF-8");
    static const char *const bad[] = {"\x80", "a\xc3", "\xc0\x80", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80",
                                      "\xf4\x90\x80\x80", "\xf5\x80\x80\x80", "\xe2\x82"};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        const plim__tensor_spec t = {bad[i], PLIM_U8, {0}};
        refused(&t, 1, NULL, 0, PLIM_E_UNSUPPORTED, "is not UTF-8 text");
    }
    refused(&(plim__tensor_spec){"__metadata__", PLIM_U8, {0}}, 1, NULL, 0, PLIM_E_UNSUPPORTED, "that is the format's own name");
    refused(&(plim__tensor_spec){"x", PLIM_F64, {1, {INT64_MAX}}}, 1, NULL, 0, PLIM_E_OVERFLOW, "");
    static const plim__tensor_spec large[] = {{"x", PLIM_U8, {1, {INT64_MAX / 3}}}, {"y", PLIM_U8, {1, {INT64_MAX / 3}}}};
    refused(large, 2, NULL, 0, PLIM_E_OVERFLOW, "more bytes than a file can");
    refused(large, 1, NULL, 0, PLIM_E_NOSPACE, "r.safetensors");
}

static void test_unreadable_tensor(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < COUNT_OF(tensors); i++) {
        asked a = {.fail_at = i};
        plim_error err = {0};
        if (i == 4) continue; /* it has no bytes */
        assert_int_equal(plim__safetensors_write(&plim__os_linux, files_path("u.safetensors"), tensors, COUNT_OF(tensors), texts, COUNT_OF(texts),
                                                 (plim__tensor_reader){&a, give}, (plim__alloc){0}, &err), PLIM_E_IO);
        assert_non_null(strstr(err.message, "cannot be read"));
        assert_false(files_exist("u.safetensors"));
        assert_int_equal(files_temporary(), 0);
    }
}

static plim_status save(const plim__os *os, const void *arg, plim_error *err)
{
    (void)arg;
    return write_to(os, "f.safetensors", (plim__alloc){0}, err);
}

static void test_failures(void **state)
{
    (void)state;
    save_survives(save, NULL, "f.safetensors");
    plim_status status = PLIM_E_NOMEM;
    for (int64_t n = 0; status != PLIM_OK; n++) {
        countdown c = {.left = n};
        plim_error err = {0};
        status = write_to(&plim__os_linux, "f.safetensors", countdown_of(&c), &err);
        assert_true(status == PLIM_OK || (status == PLIM_E_NOMEM && err.code == PLIM_E_NOMEM));
        assert_int_equal(c.live, 0);
        assert_true(n < 100);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_round_trip), cmocka_unit_test(test_paddings),          cmocka_unit_test(test_empty),    cmocka_unit_test(test_python),
        cmocka_unit_test(test_page_cache),
        cmocka_unit_test(test_refusals),   cmocka_unit_test(test_unreadable_tensor), cmocka_unit_test(test_failures),
    };
    return cmocka_run_group_tests_name("safetensors_write", tests, files_begin, files_end);
}
