/* Resident bytes of blocks, in this process and in another. */
#include "unit.h"

#include "watch/resident.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
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

/* What was only read shares one page of zeros, which is nobody's; kernels that cannot tell it apart count it. */
static void zeros_that_were_read(void **state)
{
    (void)state;
    const uint64_t bytes = 64 * MIB;
    char *p = map(bytes);
    volatile uint64_t sum = 0;
    for (uint64_t i = 0; i < bytes; i += page) sum += (uint64_t)p[i];
    for (uint64_t i = 0; i < bytes / 4; i += page) p[i] = 1;
    plim__block b = block_of(p, bytes);
    assert_true(plim__resident_fill(getpid(), &b, 1, 0));
    assert_true(b.resident == bytes / 4 || b.resident == bytes);
    struct utsname name;
    int major = 0, minor = 0;
    assert_int_equal(uname(&name), 0);
    assert_int_equal(sscanf(name.release, "%d.%d", &major, &minor), 2);
    if (major > 6 || (major == 6 && minor >= 7)) assert_int_equal(b.resident, bytes / 4);
    munmap(p, bytes);
}

/* An older kernel, as far as the call that lists ranges goes. @return false where no such filter may be set */
static bool scan_forbid(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_ioctl, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)_IOWR('f', 16, char[96]), 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOTTY),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {COUNT_OF(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void kernels_that_list_no_ranges(void **state)
{
    (void)state;
    const int pid = fork();
    if (pid == 0) {
        if (!scan_forbid()) _exit(77);
        const uint64_t bytes = 64 * MIB, pages = bytes / page;
        char *p = map(bytes);
        for (uint64_t i = 0; i < pages; i += 3) p[i * page] = 1;
        const char zero = p[page]; /* only read: counted here, for nothing tells it apart */
        plim__block whole = block_of(p, bytes), middle = block_of(p + page / 2, 3 * page), part = whole;
        bool ok = plim__resident_fill(getpid(), &whole, 1, 0) && plim__resident_fill(getpid(), &middle, 1, 0);
        ok = ok && plim__resident_fill(getpid(), &part, 1, 2048) && zero == 0;
        ok = ok && whole.resident == ((pages + 2) / 3 + 1) * page && middle.resident == page / 2 + page + page / 2;
        _exit(ok && part.resident > bytes * 19 / 60 && part.resident < bytes * 21 / 60 ? 0 : 1);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) {
        print_message("SKIPPED: may not filter system calls here\n");
        skip();
    }
    assert_int_equal(WEXITSTATUS(status), 0);
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
        cmocka_unit_test(zeros_that_were_read),
        cmocka_unit_test(kernels_that_list_no_ranges),
        cmocka_unit_test(many_blocks_share_the_looks),
        cmocka_unit_test(blocks_that_cannot_be),
        cmocka_unit_test(another_process),
    };
    return cmocka_run_group_tests_name("resident", tests, setup, NULL);
}
