/* From a call stack to its site.
 *
 * Two levels. The second is exact: the frames of Python and the native return addresses are hashed, and the hash finds (or makes) the site in the
 * shared table. Unwinding natively costs microseconds, so the first level avoids it where it can: the frames of Python with their instructions,
 * how and how much is asked for, the return address and the height of the stack are a key that nearly always belongs to one stack, and a lossy
 * cache maps it to the site. It is used only while the thread holds the interpreter's lock: a thread that has released it is inside some
 * library's own long work (a tensor library's backward pass, say), where many operations ask for memory from one line of Python at one height of
 * the stack.
 *
 * A site's hash ends in its call (three bits), so that it can be told before the site is ready. Nothing here takes a lock but for a code object
 * that is new. */
#include "watch/preload/preload.h"

#include <stdint.h>
#include <string.h>

enum {
    CACHE = 4096,     /* as many as there are sites: an entry is 52 bits of key and 12 of site */
    SITE_BITS = 12,
    PROBES = 48,
    CALL_BITS = 3,
    HASHED_SITES = PLIM__REC_NO_SITE_MAPPED, /* those that a hash may find: the last two are set apart */
};
_Static_assert(PLIM__REC_SITES == 1 << SITE_BITS, "a cache entry has room for a site");

static _Atomic uint64_t cache[CACHE];

typedef struct stack {
    uint32_t n_python, n_native;
    bool unwound, left_out;
    plim__pre_pyframe python[PLIM__REC_PYTHON];
    uint64_t native[PLIM__REC_NATIVE];
} stack;

static uint64_t mix(uint64_t h, uint64_t x)
{
    h = (h ^ x) * UINT64_C(0x9fb21c651e98df25);
    return h ^ h >> 32;
}

/* File and name tell a code object from another one that was made where it had been. */
static uint64_t hash_python(uint64_t h, const stack *s)
{
    for (uint32_t i = 0; i < s->n_python; i++) {
        const plim__pre_pyframe *f = &s->python[i];
        h = mix(h, f->code ^ (uint64_t)(uint32_t)f->at << 40);
        h = mix(h, f->file ^ (f->name << 20 | f->name >> 44));
    }
    return s->left_out ? mix(h, 1) : h;
}

static uint64_t hash_request(const plim__pre_request *r, const stack *s)
{
    uint64_t h = mix((uint64_t)r->call + 1, r->bytes);
    h = mix(h, (uintptr_t)r->caller);
    h = mix(h, r->stack);
    return hash_python(h, s);
}

static uint64_t hash_stack(const plim__pre_request *r, const stack *s)
{
    uint64_t h = hash_python(s->unwound ? 1 : 2, s);
    for (uint32_t i = 0; i < s->n_native; i++) h = mix(h, s->native[i]);
    h = mix(h, h >> 29);
    h = h << CALL_BITS | (uint64_t)r->call;
    return h >> CALL_BITS ? h : h | (uint64_t)1 << 63;
}

static void site_fill(plim__rec_site *site, const plim__pre_request *r, const stack *s)
{
    site->call = (uint16_t)r->call;
    site->n_python = (uint16_t)s->n_python;
    site->n_native = (uint16_t)s->n_native;
    site->no_native = !s->unwound;
    site->left_out = s->left_out;
    for (uint32_t i = 0; i < s->n_python; i++) site->python[i] = plim__pre_python_frame(&s->python[i]);
    memcpy(site->native, s->native, s->n_native * sizeof *s->native);
    atomic_store_explicit(&site->ready, 1, memory_order_release);
}

static uint32_t site_without_room(const plim__pre_request *r)
{
    atomic_fetch_add(&plim__pre.me->lost_sites, 1);
    return plim__pre_maps(r->call) ? PLIM__REC_NO_SITE_MAPPED : PLIM__REC_NO_SITE;
}

static uint32_t site_intern(const plim__pre_request *r, const stack *s)
{
    const uint64_t hash = hash_stack(r, s);
    uint32_t i = (uint32_t)((hash >> CALL_BITS) % HASHED_SITES);
    for (uint32_t probe = 0; probe < PROBES; probe++, i = i + 1 == HASHED_SITES ? 0 : i + 1) {
        plim__rec_site *site = &plim__pre.me->site[i];
        uint64_t was = atomic_load_explicit(&site->hash, memory_order_acquire);
        if (!was && atomic_compare_exchange_strong(&site->hash, &was, hash)) {
            site_fill(site, r, s);
            return i;
        }
        if (was == hash) return i;
    }
    return site_without_room(r);
}

static uint64_t cache_tag(uint64_t key) { return key >> SITE_BITS << SITE_BITS; }

void plim__pre_site_find(plim__pre_request *r)
{
    stack s; /* 1 KiB: not cleared */
    s.n_python = 0;
    s.left_out = false;
    r->thread_state = plim__pre_python_thread(&r->gil_held);
    if (r->thread_state) {
        atomic_store_explicit(&plim__pre.me->python_thread_state, r->thread_state, memory_order_relaxed);
        s.n_python = plim__pre_python_walk(r->thread_state, s.python, &s.left_out);
    }
    uint64_t key = 0;
    if (r->gil_held && s.n_python) {
        key = hash_request(r, &s);
        const uint64_t hit = atomic_load_explicit(&cache[key % CACHE], memory_order_relaxed);
        if (hit && cache_tag(hit) == cache_tag(key)) {
            r->site = (uint32_t)(hit & (PLIM__REC_SITES - 1));
            return;
        }
    }
    s.n_native = plim__pre_unwind(r->caller, s.native, PLIM__REC_NATIVE);
    s.unwound = s.n_native;
    if (!s.unwound) {
        s.native[0] = (uintptr_t)r->caller;
        s.n_native = 1;
        atomic_fetch_add_explicit(&plim__pre.me->not_unwound, 1, memory_order_relaxed);
    }
    r->site = site_intern(r, &s);
    if (key && s.unwound && r->site < HASHED_SITES) atomic_store_explicit(&cache[key % CACHE], cache_tag(key) | r->site, memory_order_relaxed);
}

plim__rec_call plim__pre_site_call(uint32_t site)
{
    return (plim__rec_call)(atomic_load_explicit(&plim__pre.me->site[site].hash, memory_order_relaxed) & ((1 << CALL_BITS) - 1));
}

/* The two sites of blocks whose stack has no room. */
static void site_set_apart(uint32_t i, plim__rec_call call)
{
    plim__rec_site *site = &plim__pre.me->site[i];
    atomic_store(&site->hash, UINT64_C(1) << 63 | (uint64_t)call);
    site->call = (uint16_t)call;
    site->no_native = 1;
    atomic_store(&site->ready, 1);
}

void plim__pre_sites_reset(void)
{
    for (uint32_t i = 0; i < CACHE; i++) atomic_store_explicit(&cache[i], 0, memory_order_relaxed);
    site_set_apart(PLIM__REC_NO_SITE, PLIM__REC_MALLOC);
    site_set_apart(PLIM__REC_NO_SITE_MAPPED, PLIM__REC_MMAP);
}
