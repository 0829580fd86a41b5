/* How fast the transfer engine is, beside a plain loop of direct pread or pwrite by as many threads, in the same run:
 *
 *     bench-io FOLDER [MiB of the file, default 2048] [rounds, default 3]
 *
 * Four patterns over one f32 array of ROWS rows: whole rows in file order, read and written; and stripes of COLUMNS columns of all rows, which
 * are runs of about 100 kB, not aligned to blocks in the engine's case and aligned in the plain loop's. Each line gives GB/s of
 * array data and CPU seconds per GB; the best of the rounds counts. The contestants alternate, because machines are shared. */
#include "core/size.h"
#include "io/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { ROWS = 256, COLUMNS = 25000, FLIGHT = 3, THREADS = 4 };

static const plim__io_config config = {THREADS, 1 << 20, 1024, 2 << 20};
static const plim__os *os = &plim__os_linux;
static const plim__alloc heap = {0};

typedef struct score {
    double gbps, cpu;
} score;

typedef struct stopwatch {
    double wall, cpu;
} stopwatch;

static stopwatch now(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (stopwatch){(double)os->clock_ns(NULL) * 1e-9,
                       (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) + (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6};
}

static score since(stopwatch from, uint64_t bytes)
{
    const stopwatch to = now();
    return (score){(double)bytes * 1e-9 / (to.wall - from.wall), (to.cpu - from.cpu) / ((double)bytes * 1e-9)};
}

static void die(const char *what, const plim_error *err)
{
    fprintf(stderr, "bench-io: %s: %s\n", what, err ? err->message : "failed");
    exit(1);
}

static void *aligned(uint64_t bytes)
{
    void *p = aligned_alloc(PLIM__IO_ALIGN, plim__round_up(bytes, PLIM__IO_ALIGN));
    if (!p) die("out of memory", NULL);
    return memset(p, 1, bytes); /* touched: the first touch of a page is not what is measured */
}

/* ------------------------------------------------------------------------------------------------- the plain loop */

typedef struct plain {
    int fd;
    bool write;
    uint64_t bytes, block, stride; /* stride 0: in file order; else `block` bytes every `stride`, stripe after stripe */
    uint8_t *buffer[THREADS];
    _Atomic uint64_t next;
    _Atomic uint32_t id;
} plain;

static void *plain_run(void *arg)
{
    plain *p = arg;
    uint8_t *buffer = p->buffer[p->id++];
    const uint64_t rows = p->stride ? p->bytes / p->stride : 1, n = p->bytes / p->block;
    for (uint64_t i; (i = p->next++) < n;) {
        const uint64_t off = p->stride ? i % rows * p->stride + i / rows * p->block : i * p->block;
        const ssize_t got = p->write ? pwrite(p->fd, buffer, p->block, (off_t)off) : pread(p->fd, buffer, p->block, (off_t)off);
        if (got != (ssize_t)p->block) die("a plain transfer was short", NULL);
    }
    return NULL;
}

static score plain_loop(const char *path, bool write, uint64_t bytes, uint64_t block, uint64_t stride)
{
    pthread_t thread[THREADS];
    plain p = {.write = write, .block = block, .stride = stride, .bytes = plim__round_down(bytes, 4096)};
    if (stride) p.stride = plim__round_down(stride, 4096);
    p.fd = open(path, (write ? O_RDWR | O_CREAT | O_TRUNC : O_RDONLY) | O_DIRECT, 0644);
    if (p.fd < 0 || (write && os->allocate(NULL, p.fd, bytes) != 0)) die("cannot open the file directly", NULL);
    for (int i = 0; i < THREADS; i++) p.buffer[i] = aligned(block);
    const stopwatch from = now();
    for (int i = 0; i < THREADS; i++) pthread_create(&thread[i], NULL, plain_run, &p);
    for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
    if (write) fsync(p.fd);
    const score s = since(from, p.bytes / block * block);
    for (int i = 0; i < THREADS; i++) free(p.buffer[i]);
    close(p.fd);
    return s;
}

/* ----------------------------------------------------------------------------------------------------- the engine */

typedef struct pattern {
    const char *name;
    bool write, stripes;
} pattern;

static plim__region box_at(const plim__io_file *f, bool stripes, int64_t i)
{
    const int64_t columns = f->shape.dim[1];
    if (stripes) return (plim__region){2, {{0, ROWS}, {i * COLUMNS, plim__min((i + 1) * COLUMNS, columns)}}};
    return (plim__region){2, {{i, i + 1}, {0, columns}}};
}

static score engine_loop(const char *path, const pattern *p, int64_t columns, bool direct)
{
    plim_error err = {0};
    plim__io *io;
    plim__tempfile *t = NULL;
    plim__io_layout l;
    plim__io_ticket ticket[FLIGHT] = {0};
    uint8_t *buffer[FLIGHT];
    plim__io_file f = {.path = path, .element = 4, .offset = 4096, .shape = {2, {ROWS, columns}}, .stride = {columns, 1}};
    const uint64_t bytes = (uint64_t)columns * ROWS * 4;
    if (p->write) {
        if (plim__tempfile_new(&t, os, path, bytes + f.offset, direct, &err) != PLIM_OK) die("output", &err);
        plim__io_open_output(&f, t);
    } else if (plim__io_open_input(&f, os, direct, &err) != PLIM_OK) {
        die("input", &err);
    }
    plim__region box = box_at(&f, p->stripes, 0);
    plim__io_layout_of(&f, &box, p->write, &l);
    void *memory = aligned(plim__io_bytes(&config));
    for (int k = 0; k < FLIGHT; k++) buffer[k] = aligned(l.bytes);
    if (plim__io_new(&io, &config, os, &heap, memory, &err) != PLIM_OK) die("engine", &err);

    const stopwatch from = now();
    const int64_t n = p->stripes ? plim__ceil_div(columns, COLUMNS) : ROWS;
    for (int64_t i = 0; i < n; i++) {
        const int k = (int)(i % FLIGHT);
        box = box_at(&f, p->stripes, i);
        if (plim__io_wait(io, &ticket[k], &err) != PLIM_OK) die("transfer", &err);
        if (p->write)
            plim__io_write(io, &f, &box, buffer[k], &ticket[k]);
        else
            plim__io_read(io, &f, &box, buffer[k], &ticket[k]);
    }
    if (plim__io_flush(io, &err) != PLIM_OK) die("flush", &err);
    if (p->write && plim__tempfile_commit(&t, &err) != PLIM_OK) die("commit", &err);
    const score s = since(from, bytes);
    plim__io_free(&io);
    plim__io_close(&f, os);
    for (int k = 0; k < FLIGHT; k++) free(buffer[k]);
    free(memory);
    return s;
}

/* Reads find the file outside the page cache; writes find no file, so that nobody pays for giving back an old one's blocks. */
static void prepare(const char *path, bool write)
{
    if (write) unlink(path);
    const int fd = open(path, O_RDONLY);
    if (fd < 0) return;
    fsync(fd);
    os->drop_cache(NULL, fd, 0, 0);
    close(fd);
}

static void keep_best(score *best, score s)
{
    if (s.gbps > best->gbps) *best = s;
}

int main(int argc, char **argv)
{
    static const pattern patterns[] = {
        {"sequential write", true, false},
        {"sequential read", false, false},
        {"stripes written, 100 kB runs", true, true},
        {"stripes read, 100 kB runs", false, true},
    };
    if (argc < 2) return fprintf(stderr, "usage: bench-io FOLDER [MiB] [rounds]\n"), 2;
    const uint64_t bytes = (uint64_t)(argc > 2 ? atoll(argv[2]) : 2048) << 20;
    const int rounds = argc > 3 ? atoi(argv[3]) : 3;
    const int64_t columns = (int64_t)(bytes / ROWS / 4) - 24; /* rows that are no multiple of a block */
    char path[4096];
    snprintf(path, sizeof path, "%s/bench-io.bin", argv[1]);
    printf("%-30s %18s %18s %18s\n", "GB/s (CPU s/GB)", "engine direct", "engine buffered", "plain direct loop");
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        const pattern *p = &patterns[i];
        score best[3] = {{0}};
        for (int r = 0; r < rounds; r++) {
            for (int direct = 1; direct >= 0; direct--) {
                prepare(path, p->write);
                keep_best(&best[1 - direct], engine_loop(path, p, columns, direct));
            }
            prepare(path, p->write);
            keep_best(&best[2], plain_loop(path, p->write, (uint64_t)columns * ROWS * 4, p->stripes ? 24 * 4096 : 2 << 20,
                                           p->stripes ? (uint64_t)columns * 4 : 0));
            if (p->write) engine_loop(path, &patterns[0], columns, true); /* the reads want a whole file */
        }
        printf("%-30s", p->name);
        for (int k = 0; k < 3; k++) printf("    %6.2f (%5.3f)", best[k].gbps, best[k].cpu);
        printf("\n");
        fflush(stdout);
    }
    unlink(path);
    return 0;
}
