/* glibc's account of its own heap. It walks the lists of free blocks under each arena's lock, so it is read rarely: where a reading was slow,
 * rarer still. */
#include "watch/preload/preload.h"

#include <dlfcn.h>
#include <malloc.h>
#include <stdint.h>
#include <string.h>

#define PERIOD_NS UINT64_C(1000000000)
#define SHARE 100 /* of the time, reading may take one part in so many */

static _Atomic uint64_t next_ns;

void plim__pre_heap_read(void)
{
    if (!plim__pre.mallinfo2) return;
    plim__rec_heap *heap = &plim__pre.me->heap;
    const uint64_t before = plim__pre_now();
    const struct mallinfo2 m = plim__pre.mallinfo2();
    const uint64_t now = plim__pre_now();
    heap->arena = m.arena;
    heap->used = m.uordblks;
    heap->kept = m.fordblks;
    heap->top = m.keepcost;
    heap->mapped = m.hblkhd;
    atomic_store_explicit(&heap->ns, now, memory_order_release);
    const uint64_t rest = (now - before) * SHARE;
    atomic_store(&next_ns, now + (rest > PERIOD_NS ? rest : PERIOD_NS));
}

void plim__pre_heap_tick(uint64_t now)
{
    uint64_t next = atomic_load_explicit(&next_ns, memory_order_relaxed);
    if (now < next || !plim__pre.mallinfo2) return;
    if (atomic_compare_exchange_strong(&next_ns, &next, now + PERIOD_NS)) plim__pre_heap_read();
}
