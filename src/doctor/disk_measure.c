/* Requests of every size, direct and buffered, written and read, four threads at a time and alone.
 *
 *     file   | buffered, 4 KiB, first round | buffered, 4 KiB, second round | ... | direct, 4 MiB, second round |
 *              in flight | alone              in flight | alone                    a region each, so that every write is a first one
 *
 * Outputs are files whose blocks are allocated and not yet written, so writes are measured on such blocks. Reads are of what was written, dropped from the page
 * cache before. A phase ends after PHASE_SECONDS and at least one request, or when its region is used up. Requests are made as the transfer engine makes them: buffered reads without
 * read-ahead and dropped behind, buffered writes waited for a window at a time.
 * Memory: one buffer per thread from the allocator. One caller; threads live for a phase. */
#include "doctor/disk_measure.h"
#include "core/size.h"
#include "plan/machine.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define PHASE_SECONDS 0.03
#define ENOUGH_SECONDS 3.0 /* after which no second round begins */
#define ROUNDS 2 /* of which the faster counts: machines are shared */
#define REGION_BYTES ((uint64_t)16 << 20) /* that a phase may use; one of single requests has LARGEST */
#define LARGEST ((uint64_t)4 << 20)
#define WINDOW ((uint64_t)512 << 10) /* of buffered writes that are not on the disk yet, per thread */
#define ALIGN ((uint64_t)4096)

enum { WAYS = 2, DIRECTIONS = 2, REGIONS = WAYS * PLIM_REQUEST_SIZES * ROUNDS * 2, STEPS = WAYS * DIRECTIONS * PLIM_REQUEST_SIZES };

typedef struct region {
    uint64_t from, bytes, written;
} region;

typedef struct disk {
    const plim__os *os;
    const char *folder;
    int fd[WAYS];        /* buffered, direct; -1: there is no direct I/O */
    uint8_t *buffer;     /* one of LARGEST bytes per thread */
    region at[REGIONS];
    uint64_t started_ns;
    int rounds;
} disk;

/* One phase: requests of one size at the next place of a region, until it or the time is used up. */
typedef struct phase {
    const disk *d;
    int fd;
    bool direct, write;
    uint64_t size, from, bytes; /* the region */
    uint64_t stop_ns;
    _Atomic uint64_t next;      /* request that nobody has taken yet */
    _Atomic uint64_t done;
    _Atomic int failed;         /* the first failure, a negative errno */
} phase;

typedef struct seat {
    phase *p;
    uint8_t *buffer;
    pthread_t thread;
    bool started;
} seat;

static uint64_t now_ns(const disk *d) { return d->os->clock_ns(d->os->self); }

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int64_t move_one(const phase *p, uint8_t *buffer, uint64_t at)
{
    const plim__os *os = p->d->os;
    for (uint64_t done = 0; done < p->size;) {
        const int64_t got = p->write ? os->pwrite(os->self, p->fd, buffer + done, p->size - done, at + done)
                                     : os->pread(os->self, p->fd, buffer + done, p->size - done, at + done);
        if (got <= 0) return got < 0 ? got : -5; /* EIO: it has been written */
        done += p->direct ? plim__round_up((uint64_t)got, ALIGN) : (uint64_t)got;
    }
    if (!p->write && !p->direct) os->drop_cache(os->self, p->fd, at, p->size);
    return 0;
}

/* What was written through the page cache is waited for, a window at a time: requests are taken in the order of the file. */
static void settle(const phase *p, uint64_t lo, uint64_t hi)
{
    const plim__os *os = p->d->os;
    if (hi <= lo) return;
    os->flush_range(os->self, p->fd, lo, hi - lo, true);
    os->drop_cache(os->self, p->fd, lo, hi - lo);
}

static void *seat_main(void *arg)
{
    seat *s = arg;
    phase *p = s->p;
    uint64_t lo = UINT64_MAX, hi = 0, waiting = 0;
    for (;;) {
        const uint64_t i = atomic_fetch_add(&p->next, 1), at = p->from + i * p->size;
        const bool late = now_ns(p->d) >= p->stop_ns && i > 0; /* one is always made, however busy the machine */
        if ((i + 1) * p->size > p->bytes || late || atomic_load(&p->failed)) break;
        const int64_t got = move_one(p, s->buffer, at);
        if (got < 0) atomic_store(&p->failed, (int)got);
        else atomic_fetch_add(&p->done, 1);
        if (!p->write || p->direct) continue;
        lo = at < lo ? at : lo;
        hi = at + p->size;
        waiting += p->size;
        if (waiting < WINDOW) continue;
        settle(p, lo, hi);
        lo = UINT64_MAX;
        waiting = 0;
    }
    if (waiting > 0) settle(p, lo, hi);
    return NULL;
}

/* Runs a phase on so many threads. @param seconds, cpu  per request */
static plim_status run_phase(phase *p, uint32_t threads, double *seconds, double *cpu, plim_error *err)
{
    seat seats[PLIM__REQUESTS_IN_FLIGHT] = {0};
    const uint64_t start = now_ns(p->d);
    const double cpu_before = cpu_seconds();
    PLIM_ASSERT(threads >= 1 && threads <= PLIM__REQUESTS_IN_FLIGHT && p->size <= p->bytes);
    p->stop_ns = start + (uint64_t)(PHASE_SECONDS * 1e9);
    for (uint32_t i = 0; i < threads; i++) seats[i] = (seat){.p = p, .buffer = p->d->buffer + i * LARGEST};
    for (uint32_t i = 1; i < threads; i++) seats[i].started = pthread_create(&seats[i].thread, NULL, seat_main, &seats[i]) == 0;
    seat_main(&seats[0]);
    for (uint32_t i = 1; i < threads; i++)
        if (seats[i].started) pthread_join(seats[i].thread, NULL);
    const int failed = atomic_load(&p->failed);
    const double n = (double)atomic_load(&p->done), elapsed = (double)(now_ns(p->d) - start) * 1e-9;
    if (failed) return plim__os_fail(failed, p->write ? "write" : "read", p->d->folder, p->from, err);
    PLIM_FAIL_IF(n == 0, err, PLIM_E_IO, "no request to a file in '%.300s' was done in time", p->d->folder);
    *seconds = elapsed / n;
    *cpu = (cpu_seconds() - cpu_before) / n;
    return PLIM_OK;
}

/* A region for each way, size, round and number of threads: in flight, then alone. */
static region *region_of(disk *d, int way, int size, int round, bool alone) { return &d->at[((way * PLIM_REQUEST_SIZES + size) * ROUNDS + round) * 2 + alone]; }

/* One phase on its region: writes fill it, reads are of what was written there. */
static plim_status measure_region(disk *d, int way, bool write, int size, region *r, uint32_t threads, double *seconds, double *cpu, plim_error *err)
{
    phase p = {.d = d, .fd = d->fd[way], .direct = way == 1, .write = write, .size = (uint64_t)PLIM__REQUEST_LEAST << (2 * size), .from = r->from,
               .bytes = write ? r->bytes : r->written};
    if (!write && way == 0) d->os->drop_cache(d->os->self, p.fd, p.from, p.bytes);
    PLIM_TRY(run_phase(&p, threads, seconds, cpu, err));
    if (write) r->written = atomic_load(&p.done) * p.size;
    return PLIM_OK;
}

static plim_status measure_size(disk *d, int way, bool write, int size, plim_requests *out, plim_error *err)
{
    out->seconds[size] = out->cpu[size] = out->alone[size] = INFINITY;
    for (int round = 0; round < d->rounds; round++) {
        double seconds = 0, cpu = 0, alone = 0, unused;
        PLIM_TRY(measure_region(d, way, write, size, region_of(d, way, size, round, false), PLIM__REQUESTS_IN_FLIGHT, &seconds, &cpu, err));
        PLIM_TRY(measure_region(d, way, write, size, region_of(d, way, size, round, true), 1, &alone, &unused, err));
        out->seconds[size] = fmin(out->seconds[size], seconds);
        out->cpu[size] = fmin(out->cpu[size], cpu);
        out->alone[size] = fmin(out->alone[size], alone);
        if ((double)(now_ns(d) - d->started_ns) > ENOUGH_SECONDS * 1e9) d->rounds = 1;
    }
    return PLIM_OK;
}

/* A larger request takes no less time than a smaller one, and no more than the four smaller ones that it stands for; numbers that a clock does not resolve
 * are not 0. */
static void smooth(plim_requests *r)
{
    double *const table[] = {r->seconds, r->cpu, r->alone};
    for (uint32_t t = 0; t < 3; t++)
        for (int i = 0; i < PLIM_REQUEST_SIZES; i++) {
            const double before = i > 0 ? table[t][i - 1] : 1e-8, most = i > 0 ? 4 * before : INFINITY;
            table[t][i] = fmin(fmax(table[t][i], before), most);
        }
}

/* Lays the regions out one after the other. @return bytes of the file */
static uint64_t lay_out(disk *d)
{
    uint64_t at = 0;
    for (int i = 0; i < REGIONS; i++) {
        const uint64_t bytes = i % 2 ? LARGEST : REGION_BYTES;
        d->at[i] = (region){.from = at, .bytes = bytes};
        at += bytes;
    }
    return at;
}

static plim_status measure_all(disk *d, plim_machine *m, plim__measured_fn *progress, void *ctx, plim_error *err)
{
    plim_requests *const table[WAYS][DIRECTIONS] = {{&m->buffered_read, &m->buffered_write}, {&m->direct_read, &m->direct_write}};
    int done = 0;
    for (int way = 0; way < WAYS; way++) {
        for (int write = 1; write >= 0; write--) {
            for (int size = 0; size < PLIM_REQUEST_SIZES && d->fd[way] >= 0; size++) {
                PLIM_FAIL_IF(!progress(ctx, (double)done++ / STEPS), err, PLIM_E_CANCELLED, "stopped while the disk was measured");
                PLIM_TRY(measure_size(d, way, write, size, table[way][write], err));
            }
            if (d->fd[way] < 0) *table[way][write] = *table[0][write];
            smooth(table[way][write]);
        }
    }
    return PLIM_OK;
}

static uint64_t free_space(const plim__os *os, int fd)
{
    plim__stat st = {0};
    return os->stat(os->self, fd, &st) == 0 ? st.space : 0;
}

plim_status plim__disk_measure(plim_machine *m, const plim__os *os, const plim__alloc *a, const char *folder, plim__measured_fn *progress, void *ctx,
                               plim_error *err)
{
    disk d = {.os = os, .folder = folder, .rounds = ROUNDS};
    d.started_ns = now_ns(&d);
    const uint64_t bytes = lay_out(&d);
    plim__tempfile *t = NULL;
    PLIM_TRY(plim__tempfile_scratch(&t, os, folder, bytes, true, err));
    d.fd[0] = plim__tempfile_buffered_fd(t);
    d.fd[1] = plim__tempfile_is_direct(t) ? plim__tempfile_fd(t) : -1;
    plim_status status = PLIM_OK;
    if (free_space(os, d.fd[0]) < 7 * bytes)
        status = plim__fail_at(err, PLIM_E_NOSPACE, folder, "'%.300s' has too little space left to measure its speed", folder);
    uint8_t *memory = status == PLIM_OK ? plim__new(a, PLIM__REQUESTS_IN_FLIGHT * LARGEST + ALIGN, 1, err) : NULL;
    if (status == PLIM_OK && !memory) status = PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        d.buffer = memory + (plim__round_up((uintptr_t)memory, ALIGN) - (uintptr_t)memory);
        for (uint64_t i = 0; i < PLIM__REQUESTS_IN_FLIGHT * LARGEST; i++) d.buffer[i] = (uint8_t)(i * 2654435761u >> 13); /* nothing that compresses to zero */
        os->scatter(os->self, d.fd[0]);
        status = measure_all(&d, m, progress, ctx, err);
    }
    plim__free(a, memory);
    plim__tempfile_drop(&t);
    return status;
}
