/* Resident bytes of blocks, in this process and in another. */
#include "unit.h"

#include "watch/resident.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

static uint64_t page;

static int setup(void **state)
{
    (void)state;
    page = (uint64_t)sysconf(_SC_PAGESIZE);
    return 0;
}

/* Huge pages would make every third page many. */
static char *map(uint64_t bytes)
{
    char *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    assert_ptr_not_equal(p, MAP_FAILED);
    madvise(p, bytes, MADV_NOHUGEPAGE);
    return p;
}

static plim__block block_of(const void *p, uint64_t bytes)
{
    return (plim__block){.address = (uintptr_t)p, .bytes = bytes, .resident = UINT64_MAX};
}

static void near(uint64_t got, double want, double share)
{
    if ((double)got < want * (1 - share) || (double)got > want * (1 + share))
        fail_msg("%llu bytes, expected about %.0f", (unsigned long long)got, want);
}

static void every_third_page(void **state)
{
    (void)state;
    const uint64_t bytes = 64 * MIB, pages = bytes / page;
    char *p = map(bytes);
    for (uint64_t i = 0; i < pages; i += 3) p[i * page] = 1;
    plim__block b = block_of(p, bytes);
    assert_true(plim__resident_fill(getpid(), &b, 1, 0));
    assert_int_equal(b.resident, (pages + 2) / 3 * page);
    assert_true(plim__resident_fill(getpid(), &b, 1, pages)); /* as many as there are: exact */
    assert_int_equal(b.resident, (pages + 2) / 3 * page);
    for (uint64_t max = pages / 2; max >= 256; max /= 2) {
        assert_true(plim__resident_fill(getpid(), &b, 1, max));
        near(b.resident, (double)bytes / 3, 0.05);
    }
    munmap(p, bytes);
}

static void half_of_it(void **state)
{
    (void)state;
    const uint64_t bytes = 64 * MIB;
    char *p = map(bytes);
    memset(p, 1, bytes / 2);
    plim__block b = block_of(p, bytes);
    assert_true(plim__resident_fill(getpid(), &b, 1, 2048));
    near(b.resident, (double)bytes / 2, 0.05);
    munmap(p, bytes);
}

/* Pages at both ends count by the bytes that are the block's. */
static void blocks_that_begin_in_mid_page(void **state)
{
    (void)state;
    const uint64_t bytes = 4 * page;
    char *p = map(bytes);
    p[page] = 1, p[2 * page] = 1; /* pages 1 and 2 */
    plim__block b[3] = {block_of(p + page / 2, page), block_of(p + page / 2 + page, page), block_of(p + page / 2 + 2 * page, page)};
    assert_true(plim__resident_fill(getpid(), b, 3, 0));
    assert_int_equal(b[0].resident, page / 2);
    assert_int_equal(b[1].resident, page);
    assert_int_equal(b[2].resident, page / 2);
    munmap(p, bytes);

    const uint64_t some = MIB + 12345;
    char *q = malloc(some);
    assert_non_null(q);
    memset(q, 1, some);
    plim__block whole = block_of(q, some);
    assert_true(plim__resident_fill(getpid(), &whole, 1, 0));
    assert_int_equal(whole.resident, some);
    free(q);
}

static void untouched_zeros_are_nothing(void **state)
{
    (void)state;
    const uint64_t bytes = 2048 * MIB;
    char *p = map(bytes);
    plim__block b = block_of(p, bytes);
    assert_true(plim__resident_fill(getpid(), &b, 1, 0));
    assert_int_equal(b.resident, 0);
    p[bytes - 1] = 1;
    assert_true(plim__resident_fill(getpid(), &b, 1, 0));
    assert_int_equal(b.resident, page);
    munmap(p, bytes);
}

/* Every block gets its share of the looks: a small one beside a huge one is not left out. */
static void many_blocks_share_the_looks(void **state)
{
    (void)state;
    const uint64_t one = 8 * MIB;
    enum { N = 16 };
    char *p = map(N * one);
    plim__block b[N];
    for (uint64_t i = 0; i < N; i++) {
        b[i] = block_of(p + i * one, one);
        if (i % 2) memset(p + i * one, 1, one);
    }
    assert_true(plim__resident_fill(getpid(), b, N, N * 128));
    for (uint64_t i = 0; i < N; i++) assert_int_equal(b[i].resident, i % 2 ? one : 0);
    assert_true(plim__resident_fill(getpid(), b, N, 1)); /* fewer looks than blocks: one page each */
    for (uint64_t i = 0; i < N; i++) assert_int_equal(b[i].resident, i % 2 ? one : 0);
    munmap(p, N * one);
}

static void blocks_that_cannot_be(void **state)
{
    (void)state;
    plim__block b[] = {{.address = 4096, .bytes = 0}, {.address = UINT64_MAX - 10, .bytes = 100}, {.address = (uint64_t)1 << 63, .bytes = page}};
    assert_true(plim__resident_fill(getpid(), b, 3, 0));
    for (int i = 0; i < 3; i++) assert_int_equal(b[i].resident, 0);
}

static void another_process(void **state)
{
    (void)state;
    const uint64_t bytes = 16 * MIB;
    char *p = map(bytes);
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const int pid = fork();
    if (pid == 0) {
        memset(p, 1, bytes / 4);
        (void)!write(ready[1], "x", 1);
        for (;;) pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    plim__block b = block_of(p, bytes);
    assert_true(plim__resident_fill(pid, &b, 1, 0));
    assert_int_equal(b.resident, bytes / 4);
    kill(pid, SIGKILL);
    siginfo_t info;
    waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT);
    b.resident = 7;
    assert_false(plim__resident_fill(pid, &b, 1, 0)); /* a zombie */
    waitpid(pid, NULL, 0);
    assert_false(plim__resident_fill(pid, &b, 1, 0));
    assert_int_equal(b.resident, 7);
    close(ready[0]);
    close(ready[1]);
    munmap(p, bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_third_page),
        cmocka_unit_test(half_of_it),
        cmocka_unit_test(blocks_that_begin_in_mid_page),
        cmocka_unit_test(untouched_zeros_are_nothing),
        cmocka_unit_test(many_blocks_share_the_looks),
        cmocka_unit_test(blocks_that_cannot_be),
        cmocka_unit_test(another_process),
    };
    return cmocka_run_group_tests_name("resident", tests, setup, NULL);
}
