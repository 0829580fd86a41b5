/* .npz archives: hand-made ones with every variant of the zip directory, NumPy's, and damaged ones. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <zlib.h>

#include "files.h"
#include "formats/array_file.h"

/* ------------------------------------------------------------------------------------------ an archive by hand */

typedef struct bytes {
    uint8_t *p;
    size_t n, room;
} bytes;

static void put(bytes *b, const void *data, size_t n)
{
    if (b->n + n >= b->room) b->p = realloc(b->p, b->room = 2 * (b->n + n) + 64);
    if (n) memcpy(b->p + b->n, data, n);
    b->n += n;
}

static void put_le(bytes *b, uint64_t value, int n)
{
    for (int i = 0; i < n; i++) put(b, &(uint8_t){(uint8_t)(value >> 8 * i)}, 1);
}

typedef struct options {
    bool zip64;    /* every 32-bit field is all ones, the truth is in the 64-bit ones */
    bool streamed; /* sizes and CRC of the local header are 0 */
    bool deflate;
    uint16_t flags;
    uint16_t method; /* 0: what `deflate` says */
    size_t comment;
} options;

typedef struct member {
    const char *name;
    bytes content;
} member;

/* An .npy of `count` f32 elements, element i being i. */
static bytes make_npy(uint32_t count)
{
    char literal[96], padded[118];
    bytes b = {0};
    snprintf(literal, sizeof literal, "{'descr': '<f4', 'fortran_order': False, 'shape': (%u,), }", count);
    snprintf(padded, sizeof padded, "%-117s", literal);
    put(&b, "\x93NUMPY\1\0", 8);
    put_le(&b, 118, 2);
    put(&b, padded, 117);
    put(&b, "\n", 1);
    for (uint32_t i = 0; i < count; i++) {
        const float x = (float)i;
        put(&b, &x, sizeof x);
    }
    return b;
}

static bytes deflated(bytes plain)
{
    z_stream z = {0};
    bytes b = {.p = malloc(plain.n + 1024)};
    deflateInit2(&z, 6, Z_DEFLATED, -MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
    z.next_in = plain.p;
    z.avail_in = (uInt)plain.n;
    z.next_out = b.p;
    z.avail_out = (uInt)(plain.n + 1024);
    if (deflate(&z, Z_FINISH) != Z_STREAM_END) abort();
    b.n = z.total_out;
    deflateEnd(&z);
    return b;
}

static void put_entry(bytes *dir, const member *m, const options *o, uint16_t method, uint32_t crc, uint64_t packed, uint64_t local)
{
    put_le(dir, 0x02014b50, 4);
    put_le(dir, 45, 2);
    put_le(dir, 45, 2);
    put_le(dir, o->flags | (o->streamed ? 8 : 0), 2);
    put_le(dir, method, 2);
    put_le(dir, 0, 4);
    put_le(dir, crc, 4);
    put_le(dir, o->zip64 ? UINT32_MAX : packed, 4);
    put_le(dir, o->zip64 ? UINT32_MAX : m->content.n, 4);
    put_le(dir, strlen(m->name), 2);
    put_le(dir, o->zip64 ? 6 + 28 : 0, 2);
    put_le(dir, 3, 2); /* a comment of the member */
    put_le(dir, 0, 8);
    put_le(dir, o->zip64 ? UINT32_MAX : local, 4);
    put(dir, m->name, strlen(m->name));
    if (o->zip64) {
        put(dir, "\xfe\xca\2\0ab", 6); /* a field that nobody knows stands before it */
        put_le(dir, 1, 2);
        put_le(dir, 24, 2);
        put_le(dir, m->content.n, 8);
        put_le(dir, packed, 8);
        put_le(dir, local, 8);
    }
    put(dir, "hey", 3);
}

static void put_local(bytes *b, const member *m, const options *o, uint16_t method, uint32_t crc, uint64_t packed)
{
    put_le(b, 0x04034b50, 4);
    put_le(b, 45, 2);
    put_le(b, o->flags | (o->streamed ? 8 : 0), 2);
    put_le(b, method, 2);
    put_le(b, 0, 4);
    put_le(b, o->streamed ? 0 : crc, 4);
    put_le(b, o->streamed ? 0 : o->zip64 ? UINT32_MAX : packed, 4);
    put_le(b, o->streamed ? 0 : o->zip64 ? UINT32_MAX : m->content.n, 4);
    put_le(b, strlen(m->name), 2);
    put_le(b, 5, 2);
    put(b, m->name, strlen(m->name));
    put(b, "\xfe\xca\1\0x", 5);
}

static bytes make_npz(const member *m, size_t n, const options *o)
{
    bytes b = {0}, dir = {0};
    const uint16_t method = o->method ? o->method : o->deflate ? 8 : 0;
    for (size_t i = 0; i < n; i++) {
        const uint64_t local = b.n;
        const uint32_t crc = (uint32_t)crc32(0, m[i].content.p, (uInt)m[i].content.n);
        bytes data = o->deflate ? deflated(m[i].content) : m[i].content;
        put_local(&b, &m[i], o, method, crc, data.n);
        put(&b, data.p, data.n);
        put_entry(&dir, &m[i], o, method, crc, data.n, local);
        if (o->deflate) free(data.p);
    }
    const uint64_t at = b.n;
    put(&b, dir.p, dir.n);
    if (o->zip64) {
        const uint64_t record = b.n;
        put_le(&b, 0x06064b50, 4);
        put_le(&b, 44, 8);
        put_le(&b, 45, 2);
        put_le(&b, 45, 2);
        put_le(&b, 0, 8);
        put_le(&b, n, 8);
        put_le(&b, n, 8);
        put_le(&b, dir.n, 8);
        put_le(&b, at, 8);
        put_le(&b, 0x07064b50, 4);
        put_le(&b, 0, 4);
        put_le(&b, record, 8);
        put_le(&b, 1, 4);
    }
    put_le(&b, 0x06054b50, 4);
    put_le(&b, 0, 4);
    put_le(&b, o->zip64 ? UINT16_MAX : n, 2);
    put_le(&b, o->zip64 ? UINT16_MAX : n, 2);
    put_le(&b, o->zip64 ? UINT32_MAX : dir.n, 4);
    put_le(&b, o->zip64 ? UINT32_MAX : at, 4);
    put_le(&b, o->comment, 2);
    for (size_t i = 0; i < o->comment; i++) put(&b, &"PK\5\6"[i % 4], 1); /* looks like an end record again and again */
    free(dir.p);
    return b;
}

/* Opens "<name>.npz:<member>", unpacks it where it is compressed, and checks that element i is i. */
static plim_status open_and_check(const plim__os *os, const char *path, uint32_t count, plim_error *err)
{
    char path_buf[256];
    plim__array_file f;
    PLIM_TRY(plim__array_open(&f, os, path, NULL, path_buf, sizeof path_buf, err));
    assert_int_equal(f.dtype, PLIM_F32);
    assert_int_equal(f.shape.dim[0], count);
    char file[256];
    snprintf(file, sizeof file, "%s", path_buf);
    int fd = open(file, O_RDONLY);
    if (f.compressed) {
        close(fd);
        fd = open(files_path("scratch"), O_RDWR | O_CREAT | O_TRUNC, 0600);
        const plim__array_file before = f;
        const plim_status status = plim__array_unpack(&f, os, path, fd, err);
        if (status != PLIM_OK) {
            assert_memory_equal(&f, &before, sizeof f);
            close(fd);
            return status;
        }
        assert_false(f.compressed);
        assert_ptr_equal(f.source.path, path_buf);
    }
    float *got = malloc(count * sizeof *got + 1);
    const ssize_t n = (ssize_t)(count * sizeof *got);
    assert_int_equal(pread(fd, got, (size_t)n, (off_t)f.source.offset), n);
    for (uint32_t i = 0; i < count; i++) assert_true(got[i] == (float)i);
    free(got);
    close(fd);
    return PLIM_OK;
}

static plim_status check_archive(const bytes *b, const char *member_name, uint32_t count, plim_error *err)
{
    char path[300];
    files_write("hand.npz", b->p, b->n);
    snprintf(path, sizeof path, "%s%s%s", files_path("hand.npz"), member_name ? ":" : "", member_name ? member_name : "");
    *err = (plim_error){0};
    return open_and_check(&plim__os_linux, path, count, err);
}

/* ------------------------------------------------------------------------------------------------------- tests */

static void reads_every_variant(void **state)
{
    (void)state;
    const member m[] = {{"a.npy", make_npy(5)}, {"deep/b.npy", make_npy(70000)}, {"plain", make_npy(0)}};
    plim_error err;
    for (int i = 0; i < 16; i++) {
        const options o = {.zip64 = i & 1, .streamed = i & 2, .deflate = i & 4, .comment = i & 8 ? 65535 : 0};
        bytes b = make_npz(m, 3, &o);
        const plim_status got[] = {check_archive(&b, "a", 5, &err), check_archive(&b, "a.npy", 5, &err),
                                   check_archive(&b, "deep/b", 70000, &err), check_archive(&b, "plain", 0, &err)};
        for (size_t k = 0; k < 4; k++)
            if (got[k] != PLIM_OK) fail_msg("variant %d, member %zu: %s", i, k, err.message);
        free(b.p);
    }
    for (int i = 0; i < 3; i++) free(m[i].content.p);
}

static void chooses_members(void **state)
{
    (void)state;
    plim_error err;
    const member m[] = {{"x.npy", make_npy(1)}, {"x", make_npy(2)}, {"y.npy", make_npy(3)}, {"y.npy", make_npy(4)}};
    const options o = {0};
    bytes b = make_npz(m, 4, &o);
    assert_int_equal(check_archive(&b, "x", 2, &err), PLIM_OK); /* the very name wins */
    assert_int_equal(check_archive(&b, "y", 4, &err), PLIM_OK); /* the later one wins */
    assert_int_equal(check_archive(&b, "z", 0, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "no member 'z'; there are x, x, y, y"));
    assert_int_equal(check_archive(&b, NULL, 0, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "say which member"));
    free(b.p);
    b = make_npz(m, 1, &o);
    assert_int_equal(check_archive(&b, NULL, 1, &err), PLIM_OK);
    free(b.p);
    b = make_npz(m, 0, &o);
    assert_int_equal(check_archive(&b, NULL, 1, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "without members"));
    free(b.p);

    member many[300];
    char names[300][32];
    for (int i = 0; i < 300; i++) {
        snprintf(names[i], sizeof names[i], "layer_%d/weights\x01.npy", i);
        many[i] = (member){names[i], m[0].content};
    }
    b = make_npz(many, 300, &o);
    assert_int_equal(check_archive(&b, "w", 0, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "layer_0/weights?, "));
    assert_non_null(strstr(err.message, " more"));
    free(b.p);
    for (int i = 0; i < 4; i++) free(m[i].content.p);
}

static void refuses(void **state)
{
    (void)state;
    plim_error err;
    const member m = {"a.npy", make_npy(5)};
    static const struct {
        options o;
        const char *says;
    } bad[] = {
        {{.flags = 1}, "encrypted"},         {{.flags = 0x40}, "encrypted"},     {{.method = 12}, "bzip2 (method 12)"},
        {{.method = 14}, "lzma (method 14)"}, {{.method = 93}, "zstd (method 93)"}, {{.method = 77}, "method 77"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        bytes b = make_npz(&m, 1, &bad[i].o);
        assert_int_equal(check_archive(&b, "a", 5, &err), PLIM_E_UNSUPPORTED);
        if (!strstr(err.message, bad[i].says) || !strstr(err.message, "'a.npy'")) fail_msg("%s", err.message);
        free(b.p);
    }
    files_write("x.npz", "not a zip at all, but longer than an end record", 47);
    err = (plim_error){0};
    assert_int_equal(open_and_check(&plim__os_linux, files_path("x.npz:a"), 0, &err), PLIM_E_FORMAT);
    assert_non_null(strstr(err.message, "no zip directory"));
    free(m.content.p);
}

/* Changes one field of a good archive; it must be noticed, and said so. */
static void notices_lies(void **state)
{
    (void)state;
    plim_error err;
    const member m = {"a.npy", make_npy(500)};
    for (int deflate_it = 0; deflate_it < 2; deflate_it++) {
        const options o = {.deflate = deflate_it};
        bytes good = make_npz(&m, 1, &o);
        const size_t end = good.n - 22, dir = end - 46 - 5 - 3;
        const size_t local[] = {0, 6, 8, 14, 18, 22, 26, 30};           /* signature, flags, method, CRC, sizes, name length, name */
        const size_t central[] = {0, 8, 10, 16, 20, 24, 28, 42, 46};    /* the same in the directory, and the offset */
        const size_t last[] = {0, 4, 8, 10, 12, 16, 20};
        for (size_t i = 0; i < 8 + 9 + 7; i++) {
            const size_t at = i < 8 ? local[i] : i < 17 ? dir + central[i - 8] : end + last[i - 17];
            good.p[at] ^= 1;
            if (check_archive(&good, "a", 500, &err) == PLIM_OK) fail_msg("deflate %d: a change at byte %zu passed", deflate_it, at);
            assert_true(err.message[0] != 0);
            good.p[at] ^= 1;
        }
        assert_int_equal(check_archive(&good, "a", 500, &err), PLIM_OK);
        if (deflate_it) {
            good.p[40 + 30] ^= 1; /* in the deflated data */
            assert_int_equal(check_archive(&good, "a", 500, &err), PLIM_E_FORMAT);
        }
        free(good.p);
    }
    free(m.content.p);
}

static int no_flush(void *self, int fd, uint64_t off, uint64_t n, bool wait) { return (void)self, (void)fd, (void)off, (void)n, (void)wait, 0; }

static void survives_truncation_and_flips(void **state)
{
    (void)state;
    char path[256];
    plim__array_file f;
    plim_error err;
    const member m[] = {{"a.npy", make_npy(9)}, {"b.npy", make_npy(3)}};
    const int scratch = open(files_path("scratch"), O_RDWR | O_CREAT | O_TRUNC, 0600);
    uint64_t seed = 7;
    plim__os os = plim__os_linux;
    os.flush_range = no_flush; /* thousands of files: the disk need not see them */
    for (int kind = 0; kind < 4; kind++) {
        const options o = {.zip64 = kind & 1, .deflate = kind & 2};
        bytes b = make_npz(m, 2, &o);
        for (size_t n = 0; n < b.n; n++) {
            files_write("cut.npz", b.p, n);
            err = (plim_error){0};
            const plim_status got = plim__array_open(&f, &os, files_path("cut.npz:a"), NULL, path, sizeof path, &err);
            assert_int_equal(got, PLIM_E_FORMAT);
        }
        for (int i = 0; i < 5000; i++) {
            uint8_t *hurt = malloc(b.n);
            memcpy(hurt, b.p, b.n);
            for (int k = (int)(files_random(&seed) % 3); k >= 0; k--) hurt[files_random(&seed) % b.n] = (uint8_t)files_random(&seed);
            files_write("hurt.npz", hurt, b.n);
            free(hurt);
            err = (plim_error){0};
            if (plim__array_open(&f, &os, files_path("hurt.npz:a"), NULL, path, sizeof path, &err) == PLIM_OK && f.compressed)
                plim__array_unpack(&f, &os, files_path("hurt.npz:a"), scratch, &err);
        }
        free(b.p);
    }
    close(scratch);
    for (int i = 0; i < 2; i++) free(m[i].content.p);
}

static void survives_failing_calls(void **state)
{
    (void)state;
    const member m = {"a.npy", make_npy(70000)};
    for (int kind = 0; kind < 4; kind++) {
        const options o = {.zip64 = kind & 1, .deflate = kind & 2};
        bytes b = make_npz(&m, 1, &o);
        files_write("f.npz", b.p, b.n);
        free(b.p);
        bool done = false;
        for (int64_t n = 0; !done; n++) {
            failing_os os;
            plim_error err = {0};
            failing_os_init(&os);
            os.reads_left = n;
            done = open_and_check(&os.table, files_path("f.npz:a"), 70000, &err) == PLIM_OK;
            assert_int_equal(err.code, done ? PLIM_OK : PLIM_E_IO);
            assert_true(n < 100);
        }
        for (int64_t n = 0; o.deflate && n < 4; n++) {
            failing_os os;
            plim_error err = {0};
            failing_os_init(&os);
            os.writes_left = n;
            os.error = -ENOSPC;
            assert_int_equal(open_and_check(&os.table, files_path("f.npz:a"), 70000, &err), PLIM_E_NOSPACE);
        }
        failing_os os;
        plim_error err = {0};
        failing_os_init(&os);
        os.short_counts = true;
        if (!o.deflate) assert_int_equal(open_and_check(&os.table, files_path("f.npz:a"), 70000, &err), PLIM_OK);
    }
    free(m.content.p);
}

/* A member that claims more than it holds must not be inflated for ever, nor one that holds more than it claims. */
static void checks_sizes(void **state)
{
    (void)state;
    plim_error err;
    member m = {"a.npy", make_npy(70000)};
    const options o = {.deflate = true};
    for (int more = 0; more < 2; more++) {
        bytes b = make_npz(&m, 1, &o);
        const size_t dir = b.n - 22 - 46 - 5 - 3;
        const uint32_t lie = more ? 1u << 30 : 128 + 4 * 70000 - 1;
        memcpy(b.p + 22, &lie, 4);
        memcpy(b.p + dir + 24, &lie, 4);
        assert_int_equal(check_archive(&b, "a", 70000, &err), PLIM_E_FORMAT);
        free(b.p);
    }
    free(m.content.p);
}

static void reads_what_numpy_writes(void **state)
{
    (void)state;
    plim_error err = {0};
    if (!files_have_numpy()) skip();
    assert_true(files_python("import numpy as np\n"
                             "a, b = np.arange(7, dtype='f4'), np.arange(200000, dtype='f4')\n"
                             "np.savez('stored.npz', a=a, b=b)\n"
                             "np.savez_compressed('packed.npz', a=a, b=b)\n"
                             "np.savez('one.npz', a)\n"));
    static const struct {
        const char *path;
        uint32_t count;
    } good[] = {{"stored.npz:a", 7}, {"stored.npz:b", 200000}, {"packed.npz:a.npy", 7}, {"packed.npz:b", 200000}, {"one.npz", 7}, {"one.npz:arr_0", 7}};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (open_and_check(&plim__os_linux, files_path(good[i].path), good[i].count, &err) != PLIM_OK) fail_msg("%s", err.message);
    plim_array_info info;
    assert_int_equal(plim_array_info_read(&info, files_path("stored.npz:b"), &err), PLIM_OK);
    assert_int_equal(info.bytes, 800000);
    assert_true(info.data_offset > 128);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_variant),
        cmocka_unit_test(chooses_members),
        cmocka_unit_test(refuses),
        cmocka_unit_test(notices_lies),
        cmocka_unit_test(survives_truncation_and_flips),
        cmocka_unit_test(survives_failing_calls),
        cmocka_unit_test(checks_sizes),
        cmocka_unit_test(reads_what_numpy_writes),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
