/* The edge cache alone, on an ordinary file: when it writes, what it merges, and many threads at once. */
#include "unit.h"

#include "files.h"
#include "io/edge_cache.h"

#include <pthread.h>

#define BLOCK PLIM__EDGE_BLOCK

typedef struct rig {
    plim__edge_cache *cache;
    void *memory;
    int fd;
    plim__edge_scratch scratch;
} rig;

static rig rig_new(uint32_t blocks, uint64_t scratch_blocks, uint64_t file_bytes)
{
    rig r;
    plim_error err = {0};
    r.memory = aligned_alloc(BLOCK, plim__edge_bytes(blocks));
    r.scratch = (plim__edge_scratch){aligned_alloc(BLOCK, scratch_blocks * BLOCK), scratch_blocks * BLOCK};
    r.fd = open(files_path("edge.bin"), O_RDWR | O_CREAT | O_TRUNC, 0644);
    assert_true(r.fd >= 0);
    uint8_t *fill = malloc(file_bytes);
    memset(fill, '.', file_bytes);
    assert_int_equal(pwrite(r.fd, fill, file_bytes, 0), file_bytes);
    free(fill);
    assert_int_equal(plim__edge_init(&r.cache, r.memory, blocks, &plim__os_linux, &err), PLIM_OK);
    return r;
}

static void rig_free(rig *r)
{
    plim__edge_destroy(r->cache);
    free(r->memory);
    free(r->scratch.data);
    close(r->fd);
}

static void put(rig *r, uint64_t off, uint64_t n, char with)
{
    uint8_t bytes[BLOCK];
    plim_error err = {0};
    memset(bytes, with, n);
    if (plim__edge_put(r->cache, r->fd, "edge.bin", off, bytes, n, r->scratch, &err) != PLIM_OK) fail_msg("%s", err.message);
}

static char file_at(const rig *r, uint64_t off)
{
    char c;
    assert_int_equal(pread(r->fd, &c, 1, (off_t)off), 1);
    return c;
}

static uint64_t written(const rig *r)
{
    uint64_t in, out;
    plim__edge_counts(r->cache, &in, &out);
    return out;
}

/* Pieces in any order, overlapping: the block is written when the last byte comes, once, without a read. */
static void test_complete(void **state)
{
    (void)state;
    uint64_t in, out;
    rig r = rig_new(4, 2, 2 * BLOCK);
    put(&r, BLOCK + 4000, 96, 'c');
    put(&r, BLOCK + 0, 100, 'a');
    put(&r, BLOCK + 50, 3000, 'b');
    put(&r, BLOCK + 50, 3000, 'b'); /* again: must not count twice */
    assert_int_equal(written(&r), 0);
    assert_int_equal(file_at(&r, BLOCK), '.');
    put(&r, BLOCK + 3050, 949, 'd');
    assert_int_equal(written(&r), 0); /* byte 3999 is missing */
    put(&r, BLOCK + 3999, 1, 'e');
    plim__edge_counts(r.cache, &in, &out);
    assert_int_equal(in, 0);
    assert_int_equal(out, BLOCK);
    assert_int_equal(file_at(&r, BLOCK - 1), '.');
    assert_int_equal(file_at(&r, BLOCK), 'a');
    assert_int_equal(file_at(&r, BLOCK + 50), 'b');
    assert_int_equal(file_at(&r, BLOCK + 3998), 'd');
    assert_int_equal(file_at(&r, BLOCK + 3999), 'e');
    assert_int_equal(file_at(&r, BLOCK + 4095), 'c');
    rig_free(&r);
}

/* A full cache merges the oldest block and the open ones beside it in one go. */
static void test_full(void **state)
{
    (void)state;
    rig r = rig_new(4, 2, 20 * BLOCK);
    put(&r, 10 * BLOCK + 7, 1, 'x');
    put(&r, 2 * BLOCK, 1, 'y');
    put(&r, 11 * BLOCK + 8, 1, 'z');
    put(&r, 5 * BLOCK, 1, 'v');
    assert_int_equal(written(&r), 0);
    put(&r, 7 * BLOCK, 1, 'w');
    assert_int_equal(written(&r), 2 * BLOCK); /* blocks 10 and 11 */
    assert_int_equal(file_at(&r, 10 * BLOCK + 7), 'x');
    assert_int_equal(file_at(&r, 10 * BLOCK + 6), '.');
    assert_int_equal(file_at(&r, 11 * BLOCK + 8), 'z');
    assert_int_equal(file_at(&r, 2 * BLOCK), '.');
    plim_error err = {0};
    assert_int_equal(plim__edge_flush(r.cache, r.scratch, &err), PLIM_OK);
    assert_int_equal(written(&r), 5 * BLOCK);
    assert_int_equal(file_at(&r, 2 * BLOCK), 'y');
    assert_int_equal(file_at(&r, 5 * BLOCK), 'v');
    assert_int_equal(file_at(&r, 7 * BLOCK), 'w');
    assert_int_equal(plim__edge_flush(r.cache, r.scratch, &err), PLIM_OK);
    assert_int_equal(written(&r), 5 * BLOCK);
    rig_free(&r);
}

static void test_settle_and_forget(void **state)
{
    (void)state;
    plim_error err = {0};
    rig r = rig_new(8, 4, 20 * BLOCK);
    put(&r, 3 * BLOCK + 1, 1, 'a');
    put(&r, 9 * BLOCK + 1, 1, 'b');
    put(&r, 15 * BLOCK + 1, 1, 'c');
    assert_int_equal(plim__edge_settle(r.cache, r.fd, 4 * BLOCK, 9 * BLOCK + 1, r.scratch, &err), PLIM_OK);
    assert_int_equal(file_at(&r, 9 * BLOCK + 1), 'b');
    assert_int_equal(written(&r), BLOCK);
    assert_int_equal(plim__edge_settle(r.cache, r.fd + 1, 0, 20 * BLOCK, r.scratch, &err), PLIM_OK); /* another file's */
    assert_int_equal(written(&r), BLOCK);
    plim__edge_claim claim;
    plim__edge_claim_blocks(r.cache, &claim, r.fd, 3 * BLOCK, 4 * BLOCK);
    plim__edge_unclaim(r.cache, &claim);
    assert_int_equal(plim__edge_flush(r.cache, r.scratch, &err), PLIM_OK);
    assert_int_equal(file_at(&r, 3 * BLOCK + 1), '.');
    assert_int_equal(file_at(&r, 15 * BLOCK + 1), 'c');
    rig_free(&r);
}

/* The end of the file inside the block reads as zeros, and the block is written whole. */
static void test_end_of_file(void **state)
{
    (void)state;
    plim_error err = {0};
    rig r = rig_new(4, 2, 1000);
    put(&r, 900, 50, 'a');
    put(&r, 2000, 10, 'b');
    assert_int_equal(plim__edge_flush(r.cache, r.scratch, &err), PLIM_OK);
    assert_int_equal(file_at(&r, 899), '.');
    assert_int_equal(file_at(&r, 949), 'a');
    assert_int_equal(file_at(&r, 950), '.');
    assert_int_equal(file_at(&r, 1000), 0);
    assert_int_equal(file_at(&r, 2009), 'b');
    assert_int_equal(lseek(r.fd, 0, SEEK_END), BLOCK);
    rig_free(&r);
}

static void test_fails(void **state)
{
    (void)state;
    failing_os os;
    plim_error err = {0};
    uint8_t bytes[BLOCK] = {0};
    failing_os_init(&os);
    os.writes_left = 0;
    os.error = -ENOSPC;
    rig r = rig_new(4, 2, BLOCK);
    plim__edge_destroy(r.cache);
    assert_int_equal(plim__edge_init(&r.cache, r.memory, 4, &os.table, &err), PLIM_OK);
    assert_int_equal(plim__edge_put(r.cache, r.fd, "edge.bin", BLOCK, bytes, BLOCK, r.scratch, &err), PLIM_E_NOSPACE);
    assert_int_equal(err.offset, BLOCK);
    err = (plim_error){0};
    os.error = 0; /* a disk that takes nothing and does not say why */
    assert_int_equal(plim__edge_put(r.cache, r.fd, "edge.bin", BLOCK, bytes, BLOCK, r.scratch, &err), PLIM_E_IO);
    rig_free(&r);
}

/* ---------------------------------------------------------------------------------------------------- many threads */

enum { THREADS = 6, SHARED_BLOCKS = 40, STRIPE = 100 };

typedef struct hammer {
    rig *r;
    uint32_t id;
} hammer;

/* Thread t writes every stripe s with s % THREADS == t, in its own random order: all threads meet in every block. */
static void *hammer_run(void *arg)
{
    const hammer *h = arg;
    uint64_t rng = h->id;
    uint32_t stripe[SHARED_BLOCKS * BLOCK / STRIPE], n = 0;
    uint8_t *scratch = aligned_alloc(BLOCK, 4 * BLOCK);
    for (uint32_t s = h->id; s < COUNT_OF(stripe); s += THREADS) {
        const uint32_t j = (uint32_t)(files_random(&rng) % (n + 1));
        stripe[n++] = stripe[j];
        stripe[j] = s;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint8_t bytes[STRIPE];
        memset(bytes, (int)('a' + h->id), STRIPE);
        for (uint64_t at = (uint64_t)stripe[i] * STRIPE, end = at + STRIPE; at < end;) {
            const uint64_t left = BLOCK - at % BLOCK, len = end - at < left ? end - at : left;
            if (plim__edge_put(h->r->cache, h->r->fd, "edge.bin", at, bytes, len, (plim__edge_scratch){scratch, 4 * BLOCK}, NULL) != PLIM_OK)
                abort();
            at += len;
        }
    }
    free(scratch);
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    for (uint32_t blocks = 4; blocks <= 64; blocks *= 4) {
        plim_error err = {0};
        pthread_t thread[THREADS];
        hammer h[THREADS];
        rig r = rig_new(blocks, 4, SHARED_BLOCKS * BLOCK);
        for (uint32_t t = 0; t < THREADS; t++) {
            h[t] = (hammer){&r, t};
            assert_int_equal(pthread_create(&thread[t], NULL, hammer_run, &h[t]), 0);
        }
        for (uint32_t t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
        assert_int_equal(plim__edge_flush(r.cache, r.scratch, &err), PLIM_OK);
        size_t n = 0;
        uint8_t *got = files_read("edge.bin", &n);
        for (size_t i = 0; i < n / STRIPE * STRIPE; i++)
            if (got[i] != 'a' + i / STRIPE % THREADS) fail_msg("byte %zu with %u blocks", i, blocks);
        free(got);
        rig_free(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_complete),    cmocka_unit_test(test_full),  cmocka_unit_test(test_settle_and_forget),
        cmocka_unit_test(test_end_of_file), cmocka_unit_test(test_fails), cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests_name("edge_cache", tests, files_begin, files_end);
}
