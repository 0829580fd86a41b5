/* The one block of memory that a run owns.
 *
 * Anonymous private memory, mapped and touched before any work is done: what the kernel promised must be there now (the first touch of a
 * page is also what costs time, and it is paid once). The mapping is larger by one huge page while it is made, so that its start can be
 * aligned to 2 MiB; the rest is given back before the first touch. The bytes are zero. */
#include "core/size.h"
#include "os/os.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

#define HUGE_PAGE ((uint64_t)2 << 20)
#define TOUCH_CHUNK ((uint64_t)16 << 20) /* long enough that a system call per chunk costs nothing */

static uint64_t page_bytes(void)
{
    return (uint64_t)sysconf(_SC_PAGESIZE);
}

typedef struct touch {
    char *base;
    uint64_t bytes, page;
    atomic_int failed; /* errno of the first chunk that could not be had */
} touch;

static void touch_chunk(void *arg, uint64_t i, uint32_t worker)
{
    (void)worker;
    touch *t = arg;
    char *start = t->base + i * TOUCH_CHUNK;
    const uint64_t left = t->bytes - i * TOUCH_CHUNK, n = left < TOUCH_CHUNK ? left : TOUCH_CHUNK;
    if (madvise(start, n, MADV_POPULATE_WRITE) == 0) return;
    /* Only "cannot be had" is final. Kernels before 5.14 do not know the request, and an interrupted one is only unfinished. */
    if (errno == ENOMEM || errno == EFAULT || errno == EHWPOISON) {
        int none = 0;
        atomic_compare_exchange_strong(&t->failed, &none, errno);
        return;
    }
    for (uint64_t at = 0; at < n; at += t->page) *(volatile char *)(start + at) = 0;
}

static plim_status no_memory(uint64_t bytes, int error, plim_error *err)
{
    char text[32];
    if (err && err->code == PLIM_OK) err->need = bytes;
    return plim__fail(err, PLIM_E_NOMEM, "the system does not give %s for the arena: %s", plim_bytes_format(text, sizeof text, bytes),
                      strerror(error));
}

/* A mapping of `bytes` that starts at a multiple of `align` (0: any page). */
static void *map_aligned(uint64_t bytes, uint64_t align)
{
    char *p = mmap(NULL, bytes + align, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED || !align) return p;
    char *start = (char *)(uintptr_t)plim__round_up((uintptr_t)p, align);
    const uint64_t head = (uint64_t)(start - p);
    if (head) munmap(p, head);
    if (align - head) munmap(start + bytes, align - head);
    return start;
}

plim_status plim__arena_map(void **out, uint64_t bytes, uint32_t threads, plim_error *err)
{
    *out = NULL;
    const uint64_t page = page_bytes();
    PLIM_FAIL_IF(bytes > INT64_MAX, err, PLIM_E_OVERFLOW, "an arena of %llu bytes is larger than any address space",
                 (unsigned long long)bytes);
    const uint64_t whole = plim__round_up(bytes ? bytes : 1, page);
    const bool large = whole >= HUGE_PAGE;
    char *base = map_aligned(whole, large ? HUGE_PAGE : 0);
    if (base == MAP_FAILED) return no_memory(whole, errno, err);
    if (large) madvise(base, whole, MADV_HUGEPAGE); /* a wish: nothing depends on it */

    touch t = {.base = base, .bytes = whole, .page = page};
    plim__parallel(threads, (whole + TOUCH_CHUNK - 1) / TOUCH_CHUNK, touch_chunk, &t);
    const int failed = atomic_load(&t.failed);
    if (failed) {
        munmap(base, whole);
        return no_memory(whole, failed, err);
    }
    *out = base;
    return PLIM_OK;
}

void plim__arena_unmap(void *p, uint64_t bytes)
{
    if (p) munmap(p, plim__round_up(bytes ? bytes : 1, page_bytes()));
}

plim_status plim__arena_lock(void *p, uint64_t bytes, plim_error *err)
{
    char want[32], have[32];
    struct rlimit limit = {0};
    if (mlock(p, bytes) == 0) return PLIM_OK;
    const int code = errno;
    getrlimit(RLIMIT_MEMLOCK, &limit);
    plim_bytes_format(want, sizeof want, bytes);
    plim_bytes_format(have, sizeof have, (uint64_t)limit.rlim_cur);
    return plim__fail(err, PLIM_E_NOMEM, "%s cannot be locked in memory: %s; RLIMIT_MEMLOCK allows %s (ulimit -l)", want, strerror(code),
                      limit.rlim_cur == RLIM_INFINITY ? "any amount" : have);
}
