/* A large request from its beginning to its end, whichever function it came through; and the small things that all files use: locks and the clock. */
#include "watch/preload/preload.h"

#include <errno.h>
#include <linux/futex.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

_Thread_local int plim__pre_in_hook __attribute__((tls_model("initial-exec")));

uint64_t plim__pre_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec - plim__pre.start_ns;
}

void plim__pre_flag(uint32_t flag)
{
    atomic_fetch_or(&plim__pre.flags, flag);
    if (atomic_load_explicit(plim__pre.stage, memory_order_acquire) == PLIM__PRE_ATTACHED) atomic_fetch_or(&plim__pre.me->flags, flag);
}

long plim__pre_futex(_Atomic uint32_t *word, int op, uint32_t value, uint64_t wait_ns)
{
    const struct timespec wait = {.tv_sec = (time_t)(wait_ns / NS_PER_S), .tv_nsec = (long)(wait_ns % NS_PER_S)};
    return syscall(SYS_futex, word, op, value, wait_ns ? &wait : NULL, NULL, 0);
}

void plim__pre_lock(_Atomic uint32_t *lock)
{
    uint32_t was = 0;
    if (atomic_compare_exchange_strong_explicit(lock, &was, 1, memory_order_acquire, memory_order_relaxed)) return;
    while (atomic_exchange_explicit(lock, 2, memory_order_acquire)) plim__pre_futex(lock, FUTEX_WAIT_PRIVATE, 2, 0);
}

void plim__pre_unlock(_Atomic uint32_t *lock)
{
    if (atomic_exchange_explicit(lock, 0, memory_order_release) == 2) plim__pre_futex(lock, FUTEX_WAKE_PRIVATE, 1, 0);
}

bool plim__pre_begin(plim__pre_request *r)
{
    r->watched = plim__pre_wakes();
    if (!r->watched) return true;
    const int before = errno;
    plim__pre_in_hook = 1;
    plim__pre_site_find(r);
    const bool may = plim__pre_may(r);
    if (!may) plim__pre_in_hook = 0;
    errno = may ? before : ENOMEM;
    return may;
}

void plim__pre_end(plim__pre_request *r, const void *got, int error)
{
    if (!r->watched) return;
    const int after = errno;
    if (got) {
        const uint64_t now = plim__pre_now();
        const plim__rec_block b = {.address = (uintptr_t)got, .bytes = r->bytes, .site = r->site, .ms = (uint32_t)(now / 1000000)};
        const bool maps = plim__pre_maps(r->call);
        plim__pre_put(&b, maps, now);
        if (!maps) plim__pre_heap_tick(now);
    } else if (error == ENOMEM || r->bytes > PTRDIFF_MAX) {
        plim__pre_failed(r, error);
    }
    plim__pre_in_hook = 0;
    errno = after;
}
