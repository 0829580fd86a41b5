/* An allocator that fails at the N-th call, once or from then on, and knows what is still held. */
#ifndef PLIM_TESTS_COUNTDOWN_H
#define PLIM_TESTS_COUNTDOWN_H

#include "core/alloc.h"

#include <stdlib.h>

typedef struct countdown {
    int64_t left;   /* the call that finds it at 0 fails; negative: none does */
    bool from_then; /* and every later one, too */
    int64_t failed, calls, live;
} countdown;

/* For plim__alloc.hook and plim_settings.alloc, with a countdown as their context. */
static inline void *countdown_alloc(void *ctx, void *old, size_t size)
{
    countdown *c = ctx;
    if (size == 0) {
        c->live -= old != NULL;
        free(old);
        return NULL;
    }
    c->calls++;
    const bool bad = c->left == 0;
    if (c->left > 0 || (bad && !c->from_then)) c->left--;
    if (bad) {
        c->failed++;
        return NULL;
    }
    c->live += old == NULL;
    return realloc(old, size);
}

static inline plim__alloc countdown_of(countdown *c) { return (plim__alloc){.hook = countdown_alloc, .ctx = c}; }

#endif
