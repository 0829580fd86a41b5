/* The blocks that are alive, in shards by a hash of their address; and the counters and events that follow from their coming and going.
 *
 * A shard is a heap of at most PLIM__REC_SHARD_BLOCKS blocks in no order, found by looking through it: with a thousand large blocks alive there
 * are four to look at. A block for which its shard has no room is counted (lost_blocks) and not recorded at all. */
#include "watch/preload/preload.h"

#include <stdint.h>

_Atomic uint8_t plim__pre_page[PLIM__PRE_PAGES];

/* Mapped blocks alive, and bounds of where they ever were: most calls of munmap are not about them, and this says so at once. */
static _Atomic uint64_t mapped, mapped_lo = UINT64_MAX, mapped_hi;

static bool is_mapped(uint32_t site) { return plim__pre_maps(plim__pre_site_call(site)); }

static plim__rec_shard *shard_of(uint64_t address)
{
    return &plim__pre.me->shard[(address >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}
_Static_assert(PLIM__REC_SHARDS == 256, "the hash has eight bits");

static void shard_open(plim__rec_shard *s)
{
    plim__pre_lock(&s->lock);
    atomic_fetch_add_explicit(&s->version, 1, memory_order_acq_rel);
}

static void shard_close(plim__rec_shard *s)
{
    atomic_fetch_add_explicit(&s->version, 1, memory_order_release);
    plim__pre_unlock(&s->lock);
}

static uint32_t shard_find(const plim__rec_shard *s, uint64_t address)
{
    const uint32_t n = atomic_load_explicit(&s->count, memory_order_relaxed);
    for (uint32_t i = 0; i < n; i++)
        if (s->block[i].address == address) return i;
    return UINT32_MAX;
}

static plim__rec_block shard_remove(plim__rec_shard *s, uint32_t i)
{
    const plim__rec_block b = s->block[i];
    const uint32_t last = atomic_load_explicit(&s->count, memory_order_relaxed) - 1;
    s->block[i] = s->block[last];
    atomic_store_explicit(&s->count, last, memory_order_relaxed);
    return b;
}

/* ---- what follows ---- */

static void page_mark(uint64_t address, int step)
{
    _Atomic uint8_t *page = &plim__pre_page[plim__pre_page_of((const void *)(uintptr_t)address)];
    uint8_t was = atomic_load(page);
    do {
        if (was == PLIM__PRE_PAGE_TOP) return;
    } while (!atomic_compare_exchange_weak(page, &was, (uint8_t)(was + step)));
}

static void mapped_mark(const plim__rec_block *b)
{
    uint64_t lo = atomic_load(&mapped_lo), hi = atomic_load(&mapped_hi);
    while (b->address < lo && !atomic_compare_exchange_weak(&mapped_lo, &lo, b->address)) continue;
    while (b->address + b->bytes > hi && !atomic_compare_exchange_weak(&mapped_hi, &hi, b->address + b->bytes)) continue;
    atomic_fetch_add(&mapped, 1);
}

static void event_push(const plim__rec_block *b, plim__rec_event_kind kind, uint64_t now)
{
    const uint64_t at = atomic_fetch_add_explicit(&plim__pre.me->events, 1, memory_order_relaxed);
    plim__rec_event *e = &plim__pre.me->event[at % PLIM__REC_EVENTS];
    atomic_store_explicit(&e->seq, 0, memory_order_relaxed);
    atomic_thread_fence(memory_order_release);
    e->ns = now;
    e->address = b->address;
    e->bytes = b->bytes;
    e->site = b->site;
    e->kind = kind;
    atomic_store_explicit(&e->seq, at + 1, memory_order_release);
}

static void add(_Atomic uint64_t *to, uint64_t n) { atomic_fetch_add_explicit(to, n, memory_order_relaxed); }

static void count_got(const plim__rec_block *b)
{
    plim__rec_process *me = plim__pre.me;
    plim__rec_site *site = &me->site[b->site];
    add(&site->live_bytes, b->bytes);
    add(&site->live_blocks, 1);
    add(&site->allocations, 1);
    add(&site->allocated_bytes, b->bytes);
    add(&me->live_bytes, b->bytes);
    add(&me->live_blocks, 1);
    add(&me->allocations, 1);
}

static void count_freed(const plim__rec_block *b)
{
    plim__rec_process *me = plim__pre.me;
    plim__rec_site *site = &me->site[b->site];
    add(&site->live_bytes, -b->bytes);
    add(&site->live_blocks, (uint64_t)-1);
    add(&site->frees, 1);
    add(&me->live_bytes, -b->bytes);
    add(&me->live_blocks, (uint64_t)-1);
    add(&me->frees, 1);
}

/* Whether it was mapped the caller mostly knows, which spares a look at the site. */
static void went(const plim__rec_block *b, bool was_mapped, uint64_t now)
{
    count_freed(b);
    event_push(b, PLIM__REC_FREED, now);
    plim__pre_unclaim(b);
    if (was_mapped)
        atomic_fetch_sub(&mapped, 1);
    else if (!plim__pre.glibc)
        page_mark(b->address, -1);
}

/* ---- the four ---- */

/* A block at an address that is recorded already tells that its free was not seen (a library that calls the allocator past us): that one is gone. */
void plim__pre_put(const plim__rec_block *b, bool maps, uint64_t now)
{
    plim__rec_shard *s = shard_of(b->address);
    plim__rec_block stale;
    shard_open(s);
    const uint32_t was = shard_find(s, b->address);
    if (was != UINT32_MAX) stale = shard_remove(s, was);
    const uint32_t n = atomic_load_explicit(&s->count, memory_order_relaxed);
    const bool room = n < PLIM__REC_SHARD_BLOCKS;
    if (room) {
        s->block[n] = *b;
        atomic_store_explicit(&s->count, n + 1, memory_order_relaxed);
    }
    shard_close(s);
    if (was != UINT32_MAX) went(&stale, is_mapped(stale.site), now);
    if (!room) {
        add(&plim__pre.me->lost_blocks, 1);
        return;
    }
    count_got(b);
    event_push(b, PLIM__REC_GOT, now);
    if (maps)
        mapped_mark(b);
    else if (!plim__pre.glibc)
        page_mark(b->address, 1);
}

bool plim__pre_take(uint64_t address, plim__rec_block *out, uint64_t now)
{
    plim__rec_shard *s = shard_of(address);
    shard_open(s);
    const uint32_t i = shard_find(s, address);
    if (i != UINT32_MAX) *out = shard_remove(s, i);
    shard_close(s);
    if (i == UINT32_MAX) return false;
    went(out, false, now);
    return true;
}

uint64_t plim__pre_bytes_at(uint64_t address)
{
    plim__rec_shard *s = shard_of(address);
    plim__pre_in_hook = 1; /* a signal handler must not meet the lock */
    plim__pre_lock(&s->lock);
    const uint32_t i = shard_find(s, address);
    const uint64_t bytes = i == UINT32_MAX ? 0 : s->block[i].bytes;
    plim__pre_unlock(&s->lock);
    plim__pre_in_hook = 0;
    return bytes;
}

static bool overlaps(const plim__rec_block *b, uint64_t lo, uint64_t hi)
{
    return b->address < hi && lo < b->address + b->bytes && is_mapped(b->site);
}

static uint32_t take_from(plim__rec_shard *s, uint64_t lo, uint64_t hi, plim__rec_block *out, uint32_t max)
{
    uint32_t n = 0;
    shard_open(s);
    for (uint32_t i = 0; i < atomic_load_explicit(&s->count, memory_order_relaxed) && n < max;) {
        if (overlaps(&s->block[i], lo, hi))
            out[n++] = shard_remove(s, i);
        else
            i++;
    }
    shard_close(s);
    return n;
}

uint32_t plim__pre_take_mapped(uint64_t lo, uint64_t hi, plim__rec_block *out, uint32_t max)
{
    if (!atomic_load(&mapped) || lo >= atomic_load(&mapped_hi) || hi <= atomic_load(&mapped_lo)) return 0;
    uint32_t n = take_from(shard_of(lo), lo, hi, out, max);
    if (n == 1 && out[0].address == lo && out[0].bytes >= hi - lo - 4095 && out[0].bytes <= hi - lo) {
        went(&out[0], true, plim__pre_now()); /* exactly one block: nothing else can lie there */
        return 1;
    }
    for (uint32_t i = 0; i < PLIM__REC_SHARDS && n < max; i++) {
        plim__rec_shard *s = &plim__pre.me->shard[i];
        if (atomic_load_explicit(&s->count, memory_order_relaxed)) n += take_from(s, lo, hi, out + n, max - n);
    }
    for (uint32_t i = 0; i < n; i++) went(&out[i], true, plim__pre_now());
    return n;
}

void plim__pre_blocks_reset(void)
{
    atomic_store(&mapped, 0);
    atomic_store(&mapped_lo, UINT64_MAX);
    atomic_store(&mapped_hi, 0);
    for (uint32_t i = 0; i < PLIM__PRE_PAGES && !plim__pre.glibc; i++) /* boot blocks stay marked */
        if (atomic_load(&plim__pre_page[i]) != PLIM__PRE_PAGE_TOP) atomic_store(&plim__pre_page[i], 0);
}
