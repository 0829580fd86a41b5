#include "core/alloc.h"
#include "core/size.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif
#include <stdlib.h>
#include <string.h>

plim__alloc plim__alloc_from(const plim_settings *set)
{
    if (!set) return (plim__alloc){0};
    return (plim__alloc){.hook = set->alloc, .ctx = set->alloc_ctx};
}

static void *resize(const plim__alloc *a, void *old, size_t size)
{
    if (a->hook) return a->hook(a->ctx, old, size);
    if (size == 0) {
        free(old);
        return NULL;
    }
    return realloc(old, size);
}

void *plim__new(const plim__alloc *a, uint64_t n, uint64_t size, plim_error *err)
{
    uint64_t bytes;
    if (!plim__mul(&bytes, n, size) || bytes > SIZE_MAX / 2) {
        plim__fail(err, PLIM_E_OVERFLOW, "an internal table of %llu entries of %llu bytes is too large",
                   (unsigned long long)n, (unsigned long long)size);
        return NULL;
    }
    if (bytes == 0) bytes = 1;
    void *p = resize(a, NULL, bytes);
    if (!p) {
        plim__fail(err, PLIM_E_NOMEM, "out of memory: %llu bytes for an internal table", (unsigned long long)bytes);
        return NULL;
    }
    return memset(p, 0, bytes);
}

plim_status plim__grow(const plim__alloc *a, void **p, uint32_t *cap, uint32_t need, uint64_t size, plim_error *err)
{
    if (need <= *cap) return PLIM_OK;
    const uint64_t want = need > *cap * 2ull ? need : *cap * 2ull;
    uint64_t bytes;
    PLIM_FAIL_IF(want > UINT32_MAX || !plim__mul(&bytes, want, size), err, PLIM_E_OVERFLOW, "an internal table is too large");
    void *q = resize(a, *p, bytes);
    PLIM_FAIL_IF(!q, err, PLIM_E_NOMEM, "out of memory: %llu bytes for an internal table", (unsigned long long)bytes);
    *p = q;
    *cap = (uint32_t)want;
    return PLIM_OK;
}

char *plim__strdup(const plim__alloc *a, const char *text, plim_error *err)
{
    const size_t n = strlen(text) + 1;
    char *copy = plim__new(a, n, 1, err);
    return copy ? memcpy(copy, text, n) : NULL;
}

void plim__free(const plim__alloc *a, void *p)
{
    if (p) resize(a, p, 0);
}

uint64_t plim__heap_in_use(void)
{
#if defined(__GLIBC__) && (__GLIBC__ > 2 || __GLIBC_MINOR__ >= 33)
    const struct mallinfo2 heap = mallinfo2();
    return (uint64_t)heap.uordblks + heap.hblkhd;
#else
    return 0;
#endif
}

void plim__alloc_trim(const plim__alloc *a)
{
#ifdef __GLIBC__
    if (!a->hook) malloc_trim(0);
#else
    (void)a;
#endif
}
