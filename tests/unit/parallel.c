/* The pool: every item once, by the worker that the contract names, whoever calls, and whatever becomes of its threads.
 * And the arena, whose pages the pool touches. */
#include "unit.h"

#include "os/os.h"

#include <dirent.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { ITEMS_MAX = 5000, PATIENCE_S = 60 };

typedef struct seen {
    atomic_uint times[ITEMS_MAX + 1];
    uint32_t worker[ITEMS_MAX + 1];
} seen;

static void note(void *arg, uint64_t i, uint32_t worker)
{
    seen *s = arg;
    atomic_fetch_add(&s->times[i], 1);
    s->worker[i] = worker;
}

/* One call. @return whether every item was done once, by its worker, and no other one */
static bool call_is_right(seen *s, uint32_t threads, uint64_t n)
{
    memset(s, 0, sizeof *s);
    plim__parallel(threads, n, note, s);
    for (uint64_t i = 0; i < n; i++)
        if (atomic_load(&s->times[i]) != 1 || s->worker[i] != i * threads / n) return false;
    return atomic_load(&s->times[n]) == 0;
}

static uint32_t random_below(uint64_t *state, uint32_t end)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*state >> 33) % end);
}

/* Calls with random numbers of items and of threads, most of them small. Allocates nothing: the heap of a sanitizer stays locked in a child that was forked
 * while another thread had it. */
static bool calls_are_right(uint64_t seed, int calls)
{
    static _Thread_local seen s;
    bool right = true;
    for (int k = 0; k < calls && right; k++) {
        const uint32_t threads = 1 + random_below(&seed, 6);
        right = call_is_right(&s, threads, random_below(&seed, random_below(&seed, 2) ? 20 : 1000));
    }
    return right;
}

static void every_item_once_by_its_worker(void **state)
{
    (void)state;
    static const uint32_t threads[] = {1, 2, 3, 4, 7, 16, 300};
    static const uint64_t sizes[] = {0, 1, 2, 3, 5, 16, 17, 100, 1000, 4099};
    seen *s = malloc(sizeof *s);
    for (size_t a = 0; a < COUNT_OF(threads); a++)
        for (size_t b = 0; b < COUNT_OF(sizes); b++) assert_true(call_is_right(s, threads[a], sizes[b]));
    free(s);
    assert_true(calls_are_right(1, rounds(4000)));
}

static void no_threads_means_one(void **state)
{
    (void)state;
    seen *s = calloc(1, sizeof *s);
    plim__parallel(0, 3, note, s);
    for (int i = 0; i < 3; i++) assert_true(s->times[i] == 1 && s->worker[i] == 0);
    free(s);
}

/* ---------------------------------------------------------------------------------------------- threads of the pool */

typedef struct meeting {
    atomic_uint here;
    uint32_t expected;
} meeting;

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void nap(double s)
{
    const struct timespec t = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - (double)(time_t)s) * 1e9)};
    nanosleep(&t, NULL);
}

/* An item that ends when all are there: each needs a thread of its own. */
static void meet(void *arg, uint64_t i, uint32_t worker)
{
    (void)i, (void)worker;
    meeting *m = arg;
    const double end = seconds(CLOCK_MONOTONIC) + PATIENCE_S;
    atomic_fetch_add(&m->here, 1);
    while (atomic_load(&m->here) < m->expected && seconds(CLOCK_MONOTONIC) < end) nap(1e-4);
}

/* @return whether a call of `n` items runs on n threads at once */
static bool all_meet(uint32_t n)
{
    meeting m = {.expected = n};
    const double start = seconds(CLOCK_MONOTONIC);
    plim__parallel(n, n, meet, &m);
    return atomic_load(&m.here) == n && seconds(CLOCK_MONOTONIC) - start < PATIENCE_S;
}

static void a_call_has_as_many_threads_as_it_asks_for(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 9; n++) assert_true(all_meet(n));
    assert_true(all_meet(2));
}

/* With more workers than items those with an item have a thread each, not those with the lowest numbers. */
static void threads_go_to_workers_with_items(void **state)
{
    (void)state;
    for (uint32_t n = 2; n <= 5; n++) {
        for (uint32_t threads = n; threads < 4 * n; threads++) {
            meeting m = {.expected = n};
            const double start = seconds(CLOCK_MONOTONIC);
            plim__parallel(threads, n, meet, &m);
            assert_true(atomic_load(&m.here) == n && seconds(CLOCK_MONOTONIC) - start < PATIENCE_S);
        }
    }
}

static void an_idle_pool_uses_no_cpu(void **state)
{
    (void)state;
    assert_true(all_meet(2));
    nap(0.05);
    const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    nap(0.3);
    assert_true(seconds(CLOCK_PROCESS_CPUTIME_ID) - before < (SANITIZED ? 0.1 : 0.02));
}

/* --------------------------------------------------------------------------------------------------- several callers */

static void *caller_main(void *arg)
{
    const uint64_t *seed = arg;
    return calls_are_right(*seed, rounds(800)) ? arg : NULL;
}

static void several_threads_call_at_once(void **state)
{
    (void)state;
    pthread_t thread[4];
    uint64_t seed[COUNT_OF(thread)];
    for (size_t i = 0; i < COUNT_OF(thread); i++) {
        seed[i] = 100 + i;
        assert_int_equal(pthread_create(&thread[i], NULL, caller_main, &seed[i]), 0);
    }
    for (size_t i = 0; i < COUNT_OF(thread); i++) {
        void *right = NULL;
        assert_int_equal(pthread_join(thread[i], &right), 0);
        assert_non_null(right);
    }
}

static void call_again(void *arg, uint64_t i, uint32_t worker)
{
    (void)worker;
    atomic_bool *wrong = arg;
    if (!calls_are_right(1000 + i, 20)) atomic_store(wrong, true);
}

static void calls_may_nest(void **state)
{
    (void)state;
    atomic_bool wrong = false;
    plim__parallel(4, 40, call_again, &wrong);
    assert_false(atomic_load(&wrong));
}

/* -------------------------------------------------------------------------------------------------------- processes */

static bool child_was_right(pid_t pid)
{
    int status;
    assert_true(pid > 0);
    while (waitpid(pid, &status, 0) < 0) assert_int_equal(errno, EINTR);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

static void *call_until_told(void *arg)
{
    atomic_bool *ends = arg;
    for (uint64_t seed = 0; !atomic_load(ends); seed++)
        if (!calls_are_right(seed, 10)) return NULL;
    return arg;
}

/* The child has none of the parent's threads, and may be born while a call has the pool. */
static void a_forked_child_has_a_pool_of_its_own(void **state)
{
    (void)state;
    pthread_t thread;
    atomic_bool ends = false;
    void *right = NULL;
    assert_true(all_meet(3));
    assert_int_equal(pthread_create(&thread, NULL, call_until_told, &ends), 0);
    for (int i = 0; i < rounds(20); i++) {
        const pid_t pid = fork();
        if (pid == 0) _exit(all_meet(3) && calls_are_right(7, 20) ? 0 : 1);
        assert_true(child_was_right(pid));
    }
    atomic_store(&ends, true);
    assert_int_equal(pthread_join(thread, &right), 0);
    assert_non_null(right);
    assert_true(all_meet(3));
}

/* From now on the system has no thread to give. @return false where no such filter may be set */
static bool threads_forbid(void)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 1, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone3, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EAGAIN),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    const struct sock_fprog filter = {COUNT_OF(code), code};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0;
}

static void *never_run(void *arg) { return arg; }

static void without_threads_the_caller_does_the_work(void **state)
{
    (void)state;
    if (SANITIZED) skip(); /* their threads end the process when they cannot be created */
    const pid_t pid = fork();
    if (pid == 0) {
        pthread_t thread;
        if (!threads_forbid()) _exit(0);
        if (pthread_create(&thread, NULL, never_run, NULL) == 0) _exit(1);
        _exit(calls_are_right(8, 200) ? 0 : 2);
    }
    assert_true(child_was_right(pid));
}

static bool exits; /* this is the child that looks at its own exit */

static int task_count(void)
{
    DIR *d = opendir("/proc/self/task");
    int n = 0;
    for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
    if (d) closedir(d);
    return n;
}

/* Runs after the destructors without a priority, the pool's among them. The kernel lists a joined thread a little longer. */
__attribute__((destructor(101))) static void look_at_exit(void)
{
    if (!exits) return;
    for (int i = 0; i < PATIENCE_S * 1000 && !SANITIZED && task_count() > 1; i++) nap(1e-3);
    if (!SANITIZED && task_count() > 1) _exit(1);
    if (!calls_are_right(9, 20)) _exit(2);
}

static void no_thread_outlives_the_library(void **state)
{
    (void)state;
    const pid_t pid = fork();
    if (pid == 0) {
        exits = true;
        if (!all_meet(4)) _exit(3);
        exit(0);
    }
    assert_true(child_was_right(pid));
}

/* ------------------------------------------------------------------------------------------------------------ arena */

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
        cmocka_unit_test(every_item_once_by_its_worker),
        cmocka_unit_test(no_threads_means_one),
        cmocka_unit_test(a_call_has_as_many_threads_as_it_asks_for),
        cmocka_unit_test(threads_go_to_workers_with_items),
        cmocka_unit_test(an_idle_pool_uses_no_cpu),
        cmocka_unit_test(several_threads_call_at_once),
        cmocka_unit_test(calls_may_nest),
        cmocka_unit_test(a_forked_child_has_a_pool_of_its_own),
        cmocka_unit_test(without_threads_the_caller_does_the_work),
        cmocka_unit_test(no_thread_outlives_the_library),
        cmocka_unit_test(arena_is_aligned_zeroed_and_resident),
        cmocka_unit_test(arena_that_cannot_be_had_is_an_error),
    };
    return cmocka_run_group_tests_name("parallel", tests, NULL, NULL);
}
