/* One error convention: a plim_status comes back, facts go into an optional plim_error.
 * Every failure passes plim__fail: one place for a breakpoint. Nothing is allocated here. */
#ifndef PLIM_CORE_ERROR_H
#define PLIM_CORE_ERROR_H

#include "plimsoll/plimsoll.h"

#include <assert.h>

/** Fills `err` (may be NULL) and returns `code`. A first failure wins: an `err` that already holds one is kept. */
plim_status plim__fail(plim_error *err, plim_status code, const char *fmt, ...) __attribute__((format(printf, 3, 4), cold));
/** As plim__fail, and names the file or node it happened at. */
plim_status plim__fail_at(plim_error *err, plim_status code, const char *where, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));

/** Returns from the calling function with `code` when `cond` holds. */
#define PLIM_FAIL_IF(cond, err, code, ...)                   \
    do {                                                     \
        if (cond) return plim__fail((err), (code), __VA_ARGS__); \
    } while (0)

/** Returns from the calling function when `expr` is not PLIM_OK. */
#define PLIM_TRY(expr)                            \
    do {                                          \
        const plim_status try_ = (expr);          \
        if (try_ != PLIM_OK) return try_;         \
    } while (0)

/** Leaves for `done:` when `expr` is not PLIM_OK; `status` is the function's own variable. */
#define PLIM_TRY_DONE(expr)                       \
    do {                                          \
        status = (expr);                          \
        if (status != PLIM_OK) goto done;         \
    } while (0)

/* Debug levels: 0 none, 1 API misuse, 2 internal asserts and the plan check before each run, 3 dead arena bytes poisoned. */
#ifndef PLIM_DEBUG
#define PLIM_DEBUG 1
#endif

#if PLIM_DEBUG >= 2
#define PLIM_ASSERT(x) assert(x)
#else
#define PLIM_ASSERT(x) ((void)sizeof(x))
#endif

#endif
