/* The one pool of compute threads.
 *
 * Work. Item i of n is done by worker floor(i * T / n): worker w has the contiguous block [ceil(w*n/T),
 * ceil((w+1)*n/T)). A worker is a number, not a thread. The mapping depends on n and T alone, never on timing or on
 * how many threads there are, so per-worker partial results are the same from run to run.
 *
 * Threads. A call is run by a team: the calling thread and up to T - 1 helpers, threads that the pool keeps from
 * call to call. Each member of the team has a share, a range of workers. The caller offers every helper its share,
 * runs its own, then takes back and runs the shares that no helper has begun, and waits for the others. So a call
 * never waits for a thread that the system has not scheduled yet, and a thread that cannot be created costs speed
 * only. The seat of a helper is a futex:
 *
 *     IDLE ----- caller offers ------> OFFERED --- helper begins, or caller takes back ---> IDLE
 *     IDLE --- helper falls asleep --> ASLEEP ---- caller offers, and wakes the helper ---> OFFERED
 *
 * A thread that waits spins for SPIN_NS and then sleeps. While it spins it yields its CPU to any thread that wants it:
 * on a busy machine the thread that it waits for may be on the same CPU. It does not spin at all where the team has
 * more threads than the process may use CPUs.
 *
 * Thread-safety. There is one pool in the process: threads belong to the process, and several pools would compete
 * for the same CPUs. One call at a time has it. A call that finds it taken, by another thread of the host or by the
 * call that it is nested in, is run by its own thread alone. A forked child starts with an empty pool. When the
 * library is unloaded or the process exits, the helpers are joined; calls after that run alone. Helpers block all
 * signals: these are for the threads of the host.
 *
 * Memory. Nothing is allocated here. The system gives each helper STACK_BYTES of address space; the plan counts what
 * is touched of it. STACK_BYTES is less than a huge page, so that the kernel never backs a stack with one. */
#include "core/size.h"
#include "os/os.h"

#include <linux/futex.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HELPERS_MAX 255u
#define STACK_BYTES ((int64_t)512 << 10)
#define SPIN_NS 50000u /* about what it costs to put a thread to sleep and wake it again */
#define CALLER_ASLEEP 0x80000000u

typedef struct job {
    void (*fn)(void *arg, uint64_t i, uint32_t worker);
    void *arg;
    uint64_t n;
    uint32_t threads; /* workers */
    uint32_t team;    /* shares, one for each thread that takes part; at most `threads` */
} job;

enum { SEAT_IDLE, SEAT_ASLEEP, SEAT_OFFERED };

typedef struct seat {
    _Alignas(64) atomic_uint state; /* a cache line of its own: its helper polls it */
    uint32_t share;                 /* 1 for the first helper: share 0 is the caller's */
    pthread_t thread;
} seat;

/* Whoever set `taken` may write the plain fields while no share is unfinished. A helper reads them while it has one. */
static struct pool {
    _Alignas(64) atomic_bool taken;
    bool stops;          /* a share that is offered now means: return */
    bool knows_of_forks; /* drop_helpers is registered */
    uint32_t helpers;    /* seats [0, helpers) have a thread */
    uint32_t cpus;       /* that this process could use when the last helper was created */
    uint64_t spin_ns;
    job job;
    _Alignas(64) atomic_uint unfinished; /* shares that are offered and not done, and CALLER_ASLEEP; a futex */
    seat seat[HELPERS_MAX];
} pool;

static_assert(HELPERS_MAX < CALLER_ASLEEP, "a count of shares leaves the bit of the caller alone");
static_assert(sizeof(atomic_uint) == sizeof(uint32_t), "a futex has 32 bits");

/* ------------------------------------------------------------------------------------------------------------- work */

/* ceil(worker * n / threads). Neither term exceeds 64 bits: worker <= threads < 2^32. */
static uint64_t block_start(const job *j, uint32_t worker)
{
    const uint64_t whole = j->n / j->threads, rest = j->n % j->threads;
    return worker * whole + (worker * rest + j->threads - 1) / j->threads;
}

static void run_block(const job *j, uint32_t worker)
{
    const uint64_t end = block_start(j, worker + 1);
    for (uint64_t i = block_start(j, worker); i < end; i++) j->fn(j->arg, i, worker);
}

/* With as many shares as items, share k has item k: its first worker is that of item k. */
static uint32_t share_start(const job *j, uint32_t share)
{
    return (uint32_t)((uint64_t)share * j->threads / j->team);
}

static void run_share(const job *j, uint32_t share)
{
    PLIM_ASSERT(share < j->team && j->team <= j->threads);
    const uint32_t end = share_start(j, share + 1);
    for (uint32_t w = share_start(j, share); w < end; w++) run_block(j, w);
}

/* ---------------------------------------------------------------------------------------------------------- waiting */

static void futex_wait(atomic_uint *word, uint32_t value)
{
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void futex_wake(atomic_uint *word)
{
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void pause_cpu(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Looks at *word for `ns` nanoseconds, or a few times where that is 0. @return whether it became `want` */
static bool spin_until(atomic_uint *word, uint32_t want, uint64_t ns)
{
    const uint64_t end = ns ? now_ns() + ns : 0;
    do {
        for (int i = 0; i < 16; i++) {
            if (atomic_load_explicit(word, memory_order_acquire) == want) return true;
            pause_cpu();
        }
        if (end) sched_yield();
    } while (now_ns() < end);
    return false;
}

/* ---------------------------------------------------------------------------------------------------------- helpers */

static void seat_offer(seat *s)
{
    const uint32_t was = atomic_exchange_explicit(&s->state, SEAT_OFFERED, memory_order_release);
    PLIM_ASSERT(was != SEAT_OFFERED);
    if (was == SEAT_ASLEEP) futex_wake(&s->state);
}

/* For the helper to begin its share, or for the caller to take it back: one of them gets it. */
static bool seat_claim(seat *s)
{
    uint32_t offered = SEAT_OFFERED;
    return atomic_compare_exchange_strong_explicit(&s->state, &offered, SEAT_IDLE, memory_order_acquire,
                                                   memory_order_relaxed);
}

/* Returns when a share was offered; the caller may have taken it back since. */
static void seat_wait(seat *s, uint64_t spin_ns)
{
    uint32_t idle = SEAT_IDLE;
    if (spin_until(&s->state, SEAT_OFFERED, spin_ns)) return;
    if (!atomic_compare_exchange_strong(&s->state, &idle, SEAT_ASLEEP)) return;
    while (atomic_load(&s->state) == SEAT_ASLEEP) futex_wait(&s->state, SEAT_ASLEEP);
}

static void finish_share(void)
{
    const uint32_t was = atomic_fetch_sub_explicit(&pool.unfinished, 1, memory_order_acq_rel);
    PLIM_ASSERT((was & ~CALLER_ASLEEP) > 0);
    if (was == (CALLER_ASLEEP | 1)) futex_wake(&pool.unfinished);
}

static void *helper_main(void *arg)
{
    seat *s = arg;
    uint64_t spin_ns = 0;
    for (;;) {
        seat_wait(s, spin_ns);
        if (!seat_claim(s)) continue;
        if (pool.stops) return NULL;
        spin_ns = pool.spin_ns; /* read before finish_share: then the next call may change it */
        run_share(&pool.job, s->share);
        finish_share();
    }
}

/* In the child of a fork there is one thread, and the pool is as some other thread left it. */
static void drop_helpers(void)
{
    pool.helpers = 0;
    pool.stops = false;
    atomic_store(&pool.unfinished, 0);
    atomic_store(&pool.taken, false);
}

static bool create_helper(const pthread_attr_t *attr)
{
    seat *s = &pool.seat[pool.helpers];
    atomic_init(&s->state, SEAT_IDLE);
    s->share = pool.helpers + 1;
    if (pthread_create(&s->thread, attr, helper_main, s) != 0) return false;
    pool.helpers++;
    return true;
}

/* Creates helpers until there are `want`, or the system gives no more: the next call tries again. */
static void create_helpers(uint32_t want)
{
    pthread_attr_t attr;
    sigset_t all, before;
    if (!pool.knows_of_forks && pthread_atfork(NULL, NULL, drop_helpers) != 0) return;
    pool.knows_of_forks = true;
    if (pthread_attr_init(&attr) != 0) return;
    pthread_attr_setstacksize(&attr, (size_t)plim__max(STACK_BYTES, sysconf(_SC_THREAD_STACK_MIN)));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    while (pool.helpers < want && create_helper(&attr)) continue;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    pool.cpus = plim__cpu_count(&plim__os_linux);
}

__attribute__((destructor)) static void stop_helpers(void)
{
    if (atomic_exchange(&pool.taken, true)) return; /* a thread of the host is in a call while another one exits */
    pool.stops = true;
    for (uint32_t i = 0; i < pool.helpers; i++) seat_offer(&pool.seat[i]);
    for (uint32_t i = 0; i < pool.helpers; i++) pthread_join(pool.seat[i].thread, NULL);
    pool.helpers = 0;
}

/* ------------------------------------------------------------------------------------------------------------ calls */

/* @return how many threads take part: no more than have an item to do */
static uint32_t gather_team(const job *j)
{
    const uint32_t useful = j->n < j->threads ? (uint32_t)j->n : j->threads;
    const uint32_t want = useful - 1 < HELPERS_MAX ? useful - 1 : HELPERS_MAX;
    if (pool.helpers < want) create_helpers(want);
    return 1 + (pool.helpers < want ? pool.helpers : want);
}

static void wait_for_helpers(void)
{
    if (spin_until(&pool.unfinished, 0, pool.spin_ns)) return;
    uint32_t left = atomic_fetch_or(&pool.unfinished, CALLER_ASLEEP) | CALLER_ASLEEP;
    while (left != CALLER_ASLEEP) {
        futex_wait(&pool.unfinished, left);
        left = atomic_load(&pool.unfinished);
    }
}

static void run_team(const job *j)
{
    PLIM_ASSERT((atomic_load(&pool.unfinished) & ~CALLER_ASLEEP) == 0);
    pool.job = *j;
    pool.job.team = gather_team(j);
    pool.spin_ns = pool.job.team <= pool.cpus ? SPIN_NS : 0;
    const uint32_t helpers = pool.job.team - 1;
    atomic_store_explicit(&pool.unfinished, helpers, memory_order_relaxed);
    for (uint32_t i = 0; i < helpers; i++) seat_offer(&pool.seat[i]);
    run_share(&pool.job, 0);
    for (uint32_t i = helpers; i-- > 0;) {
        if (!seat_claim(&pool.seat[i])) continue;
        run_share(&pool.job, pool.seat[i].share);
        finish_share();
    }
    wait_for_helpers();
}

void plim__parallel(uint32_t threads, uint64_t n, void (*fn)(void *arg, uint64_t i, uint32_t worker), void *arg)
{
    const job j = {.fn = fn, .arg = arg, .n = n, .threads = threads && n > 1 ? threads : 1, .team = 1};
    if (n == 0) return;
    if (j.threads == 1 || atomic_exchange_explicit(&pool.taken, true, memory_order_acquire)) {
        run_share(&j, 0);
        return;
    }
    run_team(&j);
    atomic_store_explicit(&pool.taken, false, memory_order_release);
}
