/* The pool: every item once, by the worker that the contract names. And the arena, whose pages the pool touches. */
#include "unit.h"

#include "os/os.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct seen {
    atomic_uint *times;
    uint32_t *worker;
} seen;

static void note(void *arg, uint64_t i, uint32_t worker)
{
    const seen *s = arg;
    atomic_fetch_add(&s->times[i], 1);
    s->worker[i] = worker;
}

static void every_item_once_by_its_worker(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 4, 7, 16, 300};
    static const uint64_t sizes[] = {0, 1, 2, 3, 5, 16, 17, 100, 1000, 4099};
    for (size_t a = 0; a < COUNT_OF(threads); a++) {
        for (size_t b = 0; b < COUNT_OF(sizes); b++) {
            const uint64_t n = sizes[b];
            seen s = {calloc(n + 1, sizeof *s.times), calloc(n + 1, sizeof *s.worker)};
            plim__parallel(threads[a], n, note, &s);
            for (uint64_t i = 0; i < n; i++) {
                assert_int_equal(atomic_load(&s.times[i]), 1);
                assert_int_equal(s.worker[i], i * threads[a] / n);
            }
            assert_int_equal(atomic_load(&s.times[n]), 0);
            free(s.times);
            free(s.worker);
        }
    }
}

static void no_threads_means_one(void **state)
{
    (void)state;
    atomic_uint times[3] = {0};
    uint32_t worker[3] = {9, 9, 9};
    seen s = {times, worker};
    plim__parallel(0, 3, note, &s);
    for (int i = 0; i < 3; i++) assert_true(times[i] == 1 && worker[i] == 0);
}

static uint64_t pages_resident(void *p, uint64_t bytes)
{
    const uint64_t pages = (bytes + 4095) / 4096;
    unsigned char *in_core = calloc(pages + 1, 1);
    uint64_t n = 0;
    if (pages) assert_int_equal(mincore(p, bytes, in_core), 0);
    for (uint64_t i = 0; i < pages; i++) n += in_core[i] & 1;
    free(in_core);
    return n;
}

static void arena_is_aligned_zeroed_and_resident(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {0, 1, 4096, 4097, (2u << 20) - 1, 2u << 20, (40u << 20) + 5};
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        void *p = NULL;
        assert_int_equal(plim__arena_map(&p, sizes[i], 2, NULL), PLIM_OK);
        assert_int_equal((uintptr_t)p % 4096, 0);
        if (sizes[i] >= 2u << 20) assert_int_equal((uintptr_t)p % (2u << 20), 0);
        assert_int_equal(pages_resident(p, sizes[i]), (sizes[i] + 4095) / 4096);
        for (uint64_t at = 0; at < sizes[i]; at += 509) assert_int_equal(((char *)p)[at], 0);
        if (sizes[i]) ((char *)p)[sizes[i] - 1] = 1;
        plim__arena_unmap(p, sizes[i]);
    }
    plim__arena_unmap(NULL, 1);
}

static void arena_that_cannot_be_had_is_an_error(void **state)
{
    (void)state;
    void *p = &p;
    plim_error err = {0};
    assert_int_equal(plim__arena_map(&p, (uint64_t)1 << 62, 2, &err), PLIM_E_NOMEM);
    assert_null(p);
    assert_true(err.need >= (uint64_t)1 << 62);
    assert_non_null(strstr(err.message, "4.0 EiB"));
    assert_int_equal(plim__arena_map(&p, UINT64_MAX, 2, NULL), PLIM_E_OVERFLOW);
    assert_null(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_item_once_by_its_worker), cmocka_unit_test(no_threads_means_one),
        cmocka_unit_test(arena_is_aligned_zeroed_and_resident), cmocka_unit_test(arena_that_cannot_be_had_is_an_error),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
