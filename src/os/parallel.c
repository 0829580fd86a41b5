/* The one pool of compute threads.
 *
 * Item i of n is done by worker floor(i * threads / n): worker w has the contiguous block [ceil(w*n/T), ceil((w+1)*n/T)). The
 * mapping depends on n and T alone, never on timing or on how many threads the runtime really gave, so per-worker partial results
 * are the same from run to run.
 *
 * Two implementations of one function, `run_workers`:
 *   OpenMP   the default.
 *   pthreads with -DPLIM_PTHREAD_POOL: threads made and joined on each call. Slow to start and plain to see through: for
 *            ThreadSanitizer, which reports libgomp's own synchronisation as races.
 * Nothing is allocated here. Calls must not nest. */
#include "os/os.h"

__extension__ typedef unsigned __int128 u128;

typedef struct job {
    void (*fn)(void *arg, uint64_t i, uint32_t worker);
    void *arg;
    uint64_t n;
    uint32_t threads;
} job;

static uint64_t block_start(const job *j, uint32_t worker)
{
    return (uint64_t)(((u128)worker * j->n + j->threads - 1) / j->threads);
}

static void run_block(const job *j, uint32_t worker)
{
    const uint64_t end = block_start(j, worker + 1);
    for (uint64_t i = block_start(j, worker); i < end; i++) j->fn(j->arg, i, worker);
}

#ifdef PLIM_PTHREAD_POOL
#include <pthread.h>

enum { POOL_MAX = 256 };

typedef struct seat {
    const job *job;
    uint32_t worker;
    bool started;
    pthread_t thread;
} seat;

static void *seat_main(void *arg)
{
    const seat *s = arg;
    for (uint32_t w = s->worker; w < s->job->threads; w += POOL_MAX) run_block(s->job, w);
    return NULL;
}

static void run_workers(const job *j)
{
    seat seats[POOL_MAX];
    const uint32_t n = j->threads < POOL_MAX ? j->threads : POOL_MAX;
    for (uint32_t w = 1; w < n; w++) {
        seats[w] = (seat){.job = j, .worker = w};
        seats[w].started = pthread_create(&seats[w].thread, NULL, seat_main, &seats[w]) == 0;
    }
    seats[0] = (seat){.job = j};
    seat_main(&seats[0]);
    for (uint32_t w = 1; w < n; w++) {
        if (seats[w].started)
            pthread_join(seats[w].thread, NULL);
        else
            seat_main(&seats[w]); /* the system has no thread for it: the work is done all the same */
    }
}

#else
#include <omp.h>

static void run_workers(const job *j)
{
    /* The team may be smaller than asked for (OMP_DYNAMIC, OMP_THREAD_LIMIT); then a thread plays several workers. */
#pragma omp parallel num_threads((int)j->threads)
    {
        const uint32_t team = (uint32_t)omp_get_num_threads();
        for (uint32_t w = (uint32_t)omp_get_thread_num(); w < j->threads; w += team) run_block(j, w);
    }
}
#endif

void plim__parallel(uint32_t threads, uint64_t n, void (*fn)(void *arg, uint64_t i, uint32_t worker), void *arg)
{
    const job j = {.fn = fn, .arg = arg, .n = n, .threads = threads ? threads : 1};
    if (n == 0) return;
    if (j.threads == 1 || n == 1)
        for (uint64_t i = 0; i < n; i++) fn(arg, i, 0);
    else
        run_workers(&j);
}
