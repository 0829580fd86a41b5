#include "cli/speed.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <time.h>
#include <unistd.h>

#define BLOCK ((size_t)1 << 20)
#define FILE_BYTES ((uint64_t)64 << 20)
#define PHASE_SECONDS 0.25 /* a slow disk is stopped there: its speed is known by then */
#define THREADS_MAX 256

static double seconds_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* ---- disk ---- */

/* Moves blocks until the file or the time is used up. *done is how many bytes that were. @return bytes per second, NaN on failure */
static double move_blocks(int fd, void *block, bool write, uint64_t bytes, uint64_t *done)
{
    const double start = seconds_now();
    double now = start;
    *done = 0;
    while (*done < bytes && now - start < PHASE_SECONDS) {
        const ssize_t n = write ? pwrite(fd, block, BLOCK, (off_t)*done) : pread(fd, block, BLOCK, (off_t)*done);
        if (n <= 0) break;
        *done += (uint64_t)n;
        now = seconds_now();
    }
    if (write && *done) {
        fdatasync(fd);
        now = seconds_now();
    }
    return *done && now > start ? (double)*done / (now - start) : NAN;
}

static bool set_direct(int fd, bool on)
{
    const int flags = fcntl(fd, F_GETFL);
    return flags >= 0 && fcntl(fd, F_SETFL, on ? flags | O_DIRECT : flags & ~O_DIRECT) == 0;
}

/* A file without a name, so that nothing can be left behind. */
static int open_nameless(const char *dir)
{
    int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    char path[4096];
    if ((size_t)snprintf(path, sizeof path, "%s/.plimsoll-doctor-XXXXXX", dir) >= sizeof path) {
        errno = ENAMETOOLONG;
        return -1;
    }
    fd = mkostemp(path, O_CLOEXEC);
    if (fd >= 0) unlink(path);
    return fd;
}

static void measure_file(plim__speed_disk *out, int fd, void *block, uint64_t bytes)
{
    uint64_t done;
    out->buffered_write = move_blocks(fd, block, true, bytes, &done);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED); /* after the sync of the write: the reads then come from the disk */
    out->buffered_read = move_blocks(fd, block, false, done, &done);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    if (out->in_memory || !set_direct(fd, true)) return;
    out->direct_write = move_blocks(fd, block, true, bytes, &done);
    out->direct = !isnan(out->direct_write);
    if (out->direct) out->direct_read = move_blocks(fd, block, false, done, &done);
}

void plim__speed_disk_measure(plim__speed_disk *out, const char *dir)
{
    const uint32_t tmpfs = 0x01021994, ramfs = 0x858458f6; /* statfs(2) */
    *out = (plim__speed_disk){.direct_write = NAN, .direct_read = NAN, .buffered_write = NAN, .buffered_read = NAN};
    const int fd = open_nameless(dir);
    if (fd < 0) {
        out->error = errno;
        return;
    }
    out->writable = true;
    struct statfs fs;
    if (fstatfs(fd, &fs) == 0) {
        out->in_memory = (uint32_t)fs.f_type == tmpfs || (uint32_t)fs.f_type == ramfs;
        out->free_bytes = (uint64_t)fs.f_bavail * (uint64_t)fs.f_bsize;
        out->total_bytes = (uint64_t)fs.f_blocks * (uint64_t)fs.f_bsize;
    }
    void *block = NULL;
    /* Never more than an eighth of what is free there. */
    uint64_t bytes = out->free_bytes / 8 < FILE_BYTES ? out->free_bytes / 8 : FILE_BYTES;
    bytes -= bytes % BLOCK;
    if (bytes && posix_memalign(&block, 4096, BLOCK) == 0) {
        for (size_t i = 0; i < BLOCK; i++) ((unsigned char *)block)[i] = (unsigned char)(i * 2654435761u >> 13); /* nothing that compresses to zero */
        measure_file(out, fd, block, bytes);
    }
    free(block);
    close(fd);
}

/* ---- compute and memory ---- */

typedef struct lane {
    double seconds; /* how long to work */
    char *from, *to;
    size_t bytes;
    double rate;
} lane;

/* Twelve independent chains hide the latency of a multiply-add on every CPU of the last ten years. */
enum { CHAINS = 12 };
typedef float vector __attribute__((vector_size(32)));

#define FLOPS_BODY                                                                  \
    vector x[CHAINS];                                                               \
    for (int c = 0; c < CHAINS; c++) x[c] = (vector){0} + (float)c;                 \
    const vector a = (vector){0} + 0.999999f, b = (vector){0} + 1e-6f;              \
    for (int i = 0; i < rounds; i++) {                                              \
        _Pragma("GCC unroll 12") for (int c = 0; c < CHAINS; c++) x[c] = x[c] * a + b; \
    }                                                                               \
    vector sum = {0};                                                               \
    for (int c = 0; c < CHAINS; c++) sum += x[c];                                   \
    *out = sum[0] + sum[7];

static void flops_plain(float *out, int rounds)
{
    FLOPS_BODY
}

#if defined(__x86_64__)
__attribute__((target("avx2,fma"))) static void flops_fma(float *out, int rounds)
{
    FLOPS_BODY
}
#endif

static void flops_rounds(float *out, int rounds)
{
#if defined(__x86_64__)
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
        flops_fma(out, rounds);
        return;
    }
#endif
    flops_plain(out, rounds);
}

static void *flops_main(void *arg)
{
    lane *l = arg;
    enum { ROUNDS = 20000 };
    const double start = seconds_now();
    double now = start, done = 0;
    volatile float keep;
    while (now - start < l->seconds) {
        float out;
        flops_rounds(&out, ROUNDS);
        keep = out;
        done += (double)ROUNDS * CHAINS * 8 * 2;
        now = seconds_now();
    }
    (void)keep;
    l->rate = done / (now - start);
    return NULL;
}

static void *copy_main(void *arg)
{
    lane *l = arg;
    const double start = seconds_now();
    double now = start, done = 0;
    while (now - start < l->seconds) {
        memcpy(l->to, l->from, l->bytes);
        char *swap = l->to;
        l->to = l->from;
        l->from = swap;
        done += (double)l->bytes;
        now = seconds_now();
    }
    l->rate = done / (now - start);
    return NULL;
}

/* Runs `work` on all lanes at once. @return the sum of their rates */
static double on_all(lane *lanes, uint32_t n, void *(*work)(void *))
{
    pthread_t thread[THREADS_MAX];
    bool started[THREADS_MAX] = {false};
    double sum = 0;
    for (uint32_t i = 1; i < n; i++) started[i] = pthread_create(&thread[i], NULL, work, &lanes[i]) == 0;
    work(&lanes[0]);
    sum += lanes[0].rate;
    for (uint32_t i = 1; i < n; i++) {
        if (!started[i]) continue;
        pthread_join(thread[i], NULL);
        sum += lanes[i].rate;
    }
    return sum;
}

void plim__speed_compute_measure(plim__speed_compute *out, uint32_t threads, uint64_t room)
{
    *out = (plim__speed_compute){.copy = NAN, .first_touch = NAN};
    static lane lanes[THREADS_MAX];
    const uint32_t n = threads < THREADS_MAX ? threads : THREADS_MAX;
    for (uint32_t i = 0; i < n; i++) lanes[i] = (lane){.seconds = 0.1};
    out->flops = on_all(lanes, n, flops_main);

    uint64_t bytes = (uint64_t)96 << 20; /* beyond what caches hold, where there is room */
    if (bytes > room / 8) bytes = room / 8;
    const size_t each = (size_t)(bytes / n / 2) & ~(size_t)4095;
    if (each == 0) return;
    const size_t all = each * n * 2;
    char *p = mmap(NULL, all, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return;
    const double start = seconds_now();
    for (size_t at = 0; at < all; at += 4096) p[at] = 1;
    out->first_touch = (double)all / (seconds_now() - start);
    for (uint32_t i = 0; i < n; i++)
        lanes[i] = (lane){.seconds = 0.1, .from = p + (size_t)i * 2 * each, .to = p + (size_t)i * 2 * each + each, .bytes = each};
    out->copy = on_all(lanes, n, copy_main);
    munmap(p, all);
}
