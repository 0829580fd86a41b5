/* The functions of the allocator that the program calls. A small request costs a comparison and a jump; freeing a small block one look at its
 * size. */
#include "watch/preload/preload.h"

#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#define HOOK __attribute__((visibility("default")))
#define LIKELY(x) __builtin_expect(!!(x), 1)
#define CALLER __builtin_return_address(0)

typedef enum aligned_as { AS_MEMALIGN, AS_ALIGNED_ALLOC, AS_POSIX, AS_VALLOC, AS_PVALLOC } aligned_as;

PLIM__PRE_APART static void *large_malloc(size_t n, const void *caller)
{
    plim__pre_request r = {.call = PLIM__REC_MALLOC, .bytes = n, .caller = caller, .stack = (uintptr_t)__builtin_frame_address(0)};
    if (!plim__pre_begin(&r)) return NULL;
    void *p = plim__pre_real.malloc(n);
    plim__pre_end(&r, p, errno);
    return p;
}

PLIM__PRE_APART static void *large_calloc(size_t n, size_t size, const void *caller)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) bytes = SIZE_MAX;
    plim__pre_request r = {.call = PLIM__REC_CALLOC, .bytes = bytes, .caller = caller, .stack = (uintptr_t)__builtin_frame_address(0)};
    if (!plim__pre_begin(&r)) return NULL;
    void *p = plim__pre_real.calloc(n, size);
    plim__pre_end(&r, p, errno);
    return p;
}

/* The old block is taken out before the call, because another thread may get its address at once, and put back when the call fails. */
PLIM__PRE_APART static void *large_realloc(void *old, size_t n, const void *caller)
{
    if (plim__pre_is_boot(old)) return plim__pre_boot_moved(old, n);
    const bool large = n >= PLIM__REC_LARGE;
    if (!(large ? plim__pre_wakes() : plim__pre_watches())) return plim__pre_real.realloc(old, n);
    const uint64_t had = old ? plim__pre_bytes_at((uintptr_t)old) : 0;
    plim__pre_request r = {.call = PLIM__REC_REALLOC, .bytes = n, .old_bytes = had, .caller = caller};
    r.stack = (uintptr_t)__builtin_frame_address(0);
    if (large && !plim__pre_begin(&r)) return NULL;
    plim__rec_block block;
    plim__pre_in_hook = 1;
    const bool taken = had && plim__pre_take((uintptr_t)old, &block, plim__pre_now());
    void *p = plim__pre_real.realloc(old, n);
    const int error = errno;
    if (taken && !p && n) plim__pre_put(&block, false, plim__pre_now());
    if (large) plim__pre_end(&r, p, error);
    plim__pre_in_hook = 0;
    errno = error;
    return p;
}

PLIM__PRE_APART static void large_free(void *p)
{
    if (plim__pre_is_boot(p)) return;
    if (!plim__pre_watches()) {
        plim__pre_real.free(p);
        return;
    }
    const int error = errno;
    plim__rec_block block;
    plim__pre_in_hook = 1;
    const uint64_t now = plim__pre_now();
    if (plim__pre_take((uintptr_t)p, &block, now)) plim__pre_heap_tick(now);
    errno = error;
    plim__pre_real.free(p);
    plim__pre_in_hook = 0;
}

static void *real_aligned(aligned_as as, size_t align, size_t n, int *error)
{
    void *p = NULL;
    if (as == AS_POSIX) {
        *error = plim__pre_real.posix_memalign(&p, align, n);
        return *error ? NULL : p;
    }
    if (as == AS_MEMALIGN) p = plim__pre_real.memalign(align, n);
    if (as == AS_ALIGNED_ALLOC) p = plim__pre_real.aligned_alloc(align, n);
    if (as == AS_VALLOC) p = plim__pre_real.valloc(n);
    if (as == AS_PVALLOC) p = plim__pre_real.pvalloc(n);
    *error = p ? 0 : errno;
    return p;
}

/* posix_memalign tells by its result and leaves errno alone. */
PLIM__PRE_APART static void *large_aligned(aligned_as as, size_t align, size_t n, const void *caller, int *error)
{
    const int before = errno;
    plim__pre_request r = {.call = PLIM__REC_MEMALIGN, .bytes = n, .caller = caller, .stack = (uintptr_t)__builtin_frame_address(0)};
    void *p = NULL;
    *error = ENOMEM;
    if (plim__pre_begin(&r)) {
        p = real_aligned(as, align, n, error);
        plim__pre_end(&r, p, *error);
    }
    if (as == AS_POSIX) errno = before;
    return p;
}

HOOK void *malloc(size_t n)
{
    if (LIKELY(n < PLIM__REC_LARGE)) return plim__pre_real.malloc(n);
    return large_malloc(n, CALLER);
}

HOOK void *calloc(size_t n, size_t size)
{
    size_t bytes;
    if (LIKELY(!__builtin_mul_overflow(n, size, &bytes) && bytes < PLIM__REC_LARGE)) return plim__pre_real.calloc(n, size);
    return large_calloc(n, size, CALLER);
}

HOOK void *realloc(void *old, size_t n)
{
    if (LIKELY(n < PLIM__REC_LARGE && (!old || !plim__pre_maybe_large(old)))) return plim__pre_real.realloc(old, n);
    return large_realloc(old, n, CALLER);
}

HOOK void *reallocarray(void *old, size_t n, size_t size)
{
    size_t bytes;
    if (__builtin_mul_overflow(n, size, &bytes)) return plim__pre_real.reallocarray(old, n, size);
    if (LIKELY(bytes < PLIM__REC_LARGE && (!old || !plim__pre_maybe_large(old)))) return plim__pre_real.realloc(old, bytes);
    return large_realloc(old, bytes, CALLER);
}

HOOK void free(void *p)
{
    if (LIKELY(!p || !plim__pre_maybe_large(p)))
        plim__pre_real.free(p);
    else
        large_free(p);
}

HOOK void *memalign(size_t align, size_t n)
{
    int error;
    if (LIKELY(n < PLIM__REC_LARGE)) return plim__pre_real.memalign(align, n);
    return large_aligned(AS_MEMALIGN, align, n, CALLER, &error);
}

HOOK void *aligned_alloc(size_t align, size_t n)
{
    int error;
    if (LIKELY(n < PLIM__REC_LARGE)) return plim__pre_real.aligned_alloc(align, n);
    return large_aligned(AS_ALIGNED_ALLOC, align, n, CALLER, &error);
}

HOOK int posix_memalign(void **p, size_t align, size_t n)
{
    if (LIKELY(n < PLIM__REC_LARGE)) return plim__pre_real.posix_memalign(p, align, n);
    int error;
    void *got = large_aligned(AS_POSIX, align, n, CALLER, &error);
    if (!got) return error;
    *p = got;
    return 0;
}

HOOK void *valloc(size_t n)
{
    int error;
    if (LIKELY(n < PLIM__REC_LARGE)) return plim__pre_real.valloc(n);
    return large_aligned(AS_VALLOC, 0, n, CALLER, &error);
}

HOOK void *pvalloc(size_t n)
{
    int error;
    if (LIKELY(n < PLIM__REC_LARGE)) return plim__pre_real.pvalloc(n);
    return large_aligned(AS_PVALLOC, 0, n, CALLER, &error);
}
