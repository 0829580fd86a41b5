/* mmap and its like, and dlopen.
 *
 * A mapping is recorded where it is memory that the program means to use: anonymous, writable, not reserved only (MAP_NORESERVE), and not made by
 * the allocator underneath, whose blocks are recorded as what they are. Mappings can be cut, grown and overlaid in part: what is left of a
 * recorded one is recorded as a block of its own, from the same site. */
#include "watch/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#define HOOK __attribute__((visibility("default")))
#define CALLER __builtin_return_address(0)

enum { TAKEN_MAX = 64, PAGE = 4096 };

/* Recorded mappings that a call is about to change, so that they can be put back. */
typedef struct taken {
    uint64_t lo, hi; /* what goes */
    uint32_t n;
    plim__rec_block block[TAKEN_MAX];
} taken;

static uint64_t end_of(uint64_t at, uint64_t n)
{
    uint64_t end;
    if (__builtin_add_overflow(at, n, &end) || end > UINT64_MAX - PAGE) return UINT64_MAX;
    return (end + PAGE - 1) / PAGE * PAGE;
}

static void take(taken *t, const void *at, size_t n)
{
    t->lo = (uintptr_t)at;
    t->hi = end_of(t->lo, n);
    t->n = plim__pre_take_mapped(t->lo, t->hi, t->block, TAKEN_MAX);
}

static void put_back(const taken *t)
{
    for (uint32_t i = 0; i < t->n; i++) plim__pre_put(&t->block[i], true, plim__pre_now());
}

static void put_rest(const plim__rec_block *b, uint64_t lo, uint64_t hi)
{
    const uint64_t end = b->address + b->bytes;
    plim__rec_block left = *b, right = *b;
    left.bytes = lo > b->address ? lo - b->address : 0;
    right.address = hi;
    right.bytes = end > hi ? end - hi : 0;
    if (left.bytes) plim__pre_put(&left, true, plim__pre_now());
    if (right.bytes) plim__pre_put(&right, true, plim__pre_now());
}

/* After success: what lies outside stays. More mappings than fit are cut now, in turns. */
static void settle(taken *t)
{
    do {
        for (uint32_t i = 0; i < t->n; i++) put_rest(&t->block[i], t->lo, t->hi);
        t->n = t->n == TAKEN_MAX ? plim__pre_take_mapped(t->lo, t->hi, t->block, TAKEN_MAX) : 0;
    } while (t->n);
}

static bool from_allocator(const void *caller) { return plim__pre_within(plim__pre.allocator, caller); }

static bool is_memory(size_t n, int prot, int flags)
{
    return n >= PLIM__REC_LARGE && flags & MAP_ANONYMOUS && prot & PROT_WRITE && !(flags & MAP_NORESERVE);
}

PLIM__PRE_APART static void *recorded_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off, const void *caller)
{
    plim__pre_request r = {.call = PLIM__REC_MMAP, .bytes = n, .caller = caller, .stack = (uintptr_t)__builtin_frame_address(0)};
    taken over = {.n = 0};
    const bool fixed = flags & MAP_FIXED, memory = is_memory(n, prot, flags);
    if (memory && !plim__pre_begin(&r)) return MAP_FAILED;
    plim__pre_in_hook = 1;
    if (fixed) take(&over, at, n);
    void *p = plim__pre_real.mmap(at, n, prot, flags, fd, off);
    const int error = errno;
    if (fixed && p == MAP_FAILED)
        put_back(&over);
    else if (fixed)
        settle(&over);
    if (memory) plim__pre_end(&r, p == MAP_FAILED ? NULL : p, error);
    plim__pre_in_hook = 0;
    errno = error;
    return p;
}

HOOK void *mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    const bool memory = is_memory(n, prot, flags);
    if ((!memory && !(flags & MAP_FIXED)) || from_allocator(CALLER) || !(memory ? plim__pre_wakes() : plim__pre_watches()))
        return plim__pre_real.mmap(at, n, prot, flags, fd, off);
    return recorded_mmap(at, n, prot, flags, fd, off, CALLER);
}

HOOK void *mmap64(void *at, size_t n, int prot, int flags, int fd, off_t off) __attribute__((alias("mmap")));

HOOK int munmap(void *at, size_t n)
{
    if (!plim__pre_watches() || from_allocator(CALLER) || !n) return plim__pre_real.munmap(at, n);
    const int before = errno;
    taken gone;
    plim__pre_in_hook = 1;
    take(&gone, at, n);
    errno = before;
    const int status = plim__pre_real.munmap(at, n);
    const int error = errno;
    if (status)
        put_back(&gone);
    else
        settle(&gone);
    plim__pre_in_hook = 0;
    errno = error;
    return status;
}

/* What is moved was recorded, or it is no business of ours. An old size of 0 makes a second mapping of a shared one. */
PLIM__PRE_APART static void *recorded_mremap(void *at, size_t old, size_t n, int flags, void *to, const void *caller)
{
    const uint64_t had = plim__pre_bytes_at((uintptr_t)at);
    plim__pre_request r = {.call = PLIM__REC_MREMAP, .bytes = n, .old_bytes = old, .caller = caller, .stack = (uintptr_t)__builtin_frame_address(0)};
    const bool memory = had && n >= PLIM__REC_LARGE;
    if (memory && !plim__pre_begin(&r)) return MAP_FAILED;
    taken from, over = {.n = 0};
    plim__pre_in_hook = 1;
    take(&from, at, old);
    if (flags & MREMAP_FIXED) take(&over, to, n);
    void *p = plim__pre_real.mremap(at, old, n, flags, to);
    const int error = errno;
    if (p == MAP_FAILED) {
        put_back(&from);
        put_back(&over);
    } else {
        settle(&from);
        settle(&over);
    }
    if (memory) plim__pre_end(&r, p == MAP_FAILED ? NULL : p, error);
    plim__pre_in_hook = 0;
    errno = error;
    return p;
}

HOOK void *mremap(void *at, size_t old, size_t n, int flags, ...)
{
    void *to = NULL;
    if (flags & MREMAP_FIXED) {
        va_list more;
        va_start(more, flags);
        to = va_arg(more, void *);
        va_end(more);
    }
    if (!old || !plim__pre_watches() || from_allocator(CALLER)) return plim__pre_real.mremap(at, old, n, flags, to);
    return recorded_mremap(at, old, n, flags, to, CALLER);
}

/* A library that is bound deeply finds the C library's malloc before ours: it would not be seen. The linker looks for files as the caller's
 * RUNPATH says, and knows the caller by its return address: so the real function is jumped to, which the compiler makes of a call in this place.
 * */
HOOK void *dlopen(const char *file, int mode)
{
    if (!plim__pre_in_hook && atomic_load(plim__pre.stage) != PLIM__PRE_OFF) {
        plim__pre_python_find();
        if (mode & RTLD_DEEPBIND) {
            mode &= ~RTLD_DEEPBIND;
            plim__pre_flag(PLIM__REC_DEEPBIND);
        }
    }
    return plim__pre_real.dlopen(file, mode);
}
