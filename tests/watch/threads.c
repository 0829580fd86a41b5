/* 200 threads that ask for large blocks and free them, all at once, and count. Each keeps its last few blocks until the end; then the first thread
 * asks for what no budget of the test's grants, so that a report is made while they are held.
 *
 *     threads [SECONDS]      prints "allocations N frees N held N", exact; exit 0 when the last request was refused, 3 when it was granted */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 200, HELD = 2 };

typedef struct worker {
    pthread_t thread;
    unsigned seed;
    unsigned long allocations, frees;
    char *held[HELD];
} worker;

static double until;

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static char *ask(unsigned how, size_t size)
{
    switch (how % 3) {
    case 0: return malloc(size);
    case 1: return calloc(size >> 10, 1 << 10);
    default: return aligned_alloc(64, size);
    }
}

static void *work(void *data)
{
    worker *w = data;
    while (now() < until) {
        for (unsigned k = 0; k < HELD; k++) {
            if (w->held[k]) free(w->held[k]), w->frees++;
            w->seed = w->seed * 1664525 + 1013904223;
            w->held[k] = ask(w->seed >> 16, (size_t)(256 + (w->seed >> 20) % 768) << 10);
            if (!w->held[k]) abort();
            w->held[k][0] = 1;
            w->allocations++;
        }
    }
    return NULL;
}

int main(int argc, char **argv)
{
    static worker all[THREADS];
    until = now() + (argc > 1 ? atof(argv[1]) : 20);
    for (unsigned k = 0; k < THREADS; k++) {
        all[k].seed = k;
        if (pthread_create(&all[k].thread, NULL, work, &all[k])) return 4;
    }
    unsigned long allocations = 0, frees = 0;
    for (unsigned k = 0; k < THREADS; k++) {
        pthread_join(all[k].thread, NULL);
        allocations += all[k].allocations, frees += all[k].frees;
    }
    printf("allocations %lu frees %lu held %lu\n", allocations, frees, allocations - frees);
    fflush(stdout);
    char *last = malloc((size_t)1 << 40);
    for (unsigned k = 0; k < THREADS; k++)
        for (unsigned i = 0; i < HELD; i++) free(all[k].held[i]);
    free(last);
    return last ? 3 : 0;
}
