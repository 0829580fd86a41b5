/* The one allocator handle for everything that is not tensor data (graphs, plans, texts). It counts, can be given a
 * limit, and can be told to fail at the N-th call, once or from then on: tests run every public call through that. */
#ifndef PLIM_CORE_ALLOC_H
#define PLIM_CORE_ALLOC_H

#include "core/error.h"

typedef struct plim__alloc {
    void *(*hook)(void *ctx, void *old, size_t size); /* size 0 frees; NULL hook: the C library */
    void *ctx;
} plim__alloc;

plim__alloc plim__alloc_from(const plim_settings *set);

/** n * size zeroed bytes, or NULL with `err` filled. Zero bytes give a unique pointer. */
void *plim__new(const plim__alloc *a, uint64_t n, uint64_t size, plim_error *err);
/** Grows an array to hold `need` elements at least (doubling). *p and *cap change only on success. New room is not zeroed. */
plim_status plim__grow(const plim__alloc *a, void **p, uint32_t *cap, uint32_t need, uint64_t size, plim_error *err);
char *plim__strdup(const plim__alloc *a, const char *text, plim_error *err);
void plim__free(const plim__alloc *a, void *p);
/** Gives memory that was freed back to the system, as far as the allocator can: before what is resident matters. */
void plim__alloc_trim(const plim__alloc *a);
/** Bytes of the C library's heap that are in use, by anybody in the process: the same in every run of the same program, unlike what is resident. 0: not known. */
uint64_t plim__heap_in_use(void);

#endif
