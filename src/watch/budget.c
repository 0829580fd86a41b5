/* The budget: what a request is charged with, what processes may take without asking, and which budget would have let a request pass.
 *
 *   charge = anonymous and shared memory that is resident now, of all processes; pages that several of them have count once (tree.c)
 *          + what was asked for in the last second and is not resident yet
 *          + the request
 *
 * Above the budget the allocator's free memory is given back first, and the request looked at again; then it is a breach, unless it is below 1 MiB
 * and the budget overdrawn by less than a 32nd, or comes from a library that ends the program when it gets no memory. Blocks that lie untouched for
 * more than a second are not charged: they may never be touched. Nor are pages of files, which the kernel can drop. */
#include "watch/resident.h"
#include "watch/stack_place.h"
#include "watch/supervisor.h"

#include "core/size.h"

#include <string.h>

#define MIB ((uint64_t)1 << 20)

enum { YOUNG_MS = 1000 };

/* ------------------------------------------------------------------------------------------- what may be taken unasked */

/* The interpreter's arenas for small objects fill slowly: charged when touched, or the charge of a program would depend on how long it took to start. */
static bool is_arena(const plim__watched *w, uint32_t site, uint64_t bytes)
{
    return w->slot->python_version && bytes <= MIB && site < PLIM__REC_SITES && w->slot->site[site].call == PLIM__REC_MMAP;
}

/* What was asked for in the last second and is still alive: a bound of what may yet become resident, from the tables alone. */
static uint64_t young_at_most(const plim__supervisor *s)
{
    const uint32_t now = (uint32_t)(plim__watch_now(s) * 1e3);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const plim__watched *w = &s->process[i];
        for (uint32_t k = 0; w->slot && !w->ended && k < PLIM__REC_SHARDS; k++) {
            const plim__rec_shard *shard = &w->slot->shard[k];
            const uint32_t n = atomic_load_explicit(&shard->count, memory_order_acquire);
            for (uint32_t b = 0; b < n && b < PLIM__REC_SHARD_BLOCKS; b++)
                if (shard->block[b].ms + YOUNG_MS >= now && !is_arena(w, shard->block[b].site, shard->block[b].bytes)) sum += shard->block[b].bytes;
        }
    }
    return sum;
}

/* The same, less what is resident of it already, page by page. */
static uint64_t young_bytes(plim__supervisor *s)
{
    const uint32_t now = (uint32_t)(plim__watch_now(s) * 1e3);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        plim__block *block;
        if (w->ended) continue;
        const uint32_t n = plim__moment_blocks(s, w, &block);
        uint32_t young = 0;
        for (uint32_t k = 0; k < n; k++)
            if (block[k].ms + YOUNG_MS >= now && !is_arena(w, block[k].site, block[k].bytes)) block[young++] = block[k];
        if (young && plim__resident_fill(w->pid, block, young, 0))
            for (uint32_t k = 0; k < young; k++) sum += block[k].bytes > block[k].resident ? block[k].bytes - block[k].resident : 0;
        plim__free(&s->alloc, block);
    }
    return sum;
}

/* The numbers that processes compare a request with: see plim__rec_header for why they are read in this order. */
void plim__budget_publish(plim__supervisor *s)
{
    if (!s->how->memory) {
        plim__tree_resident(s);
        return;
    }
    const uint32_t ms = (uint32_t)(plim__watch_now(s) * 1e3);
    const uint64_t landed = atomic_load(&s->header->landed);
    uint64_t young = young_at_most(s);
    const double now = plim__watch_now(s);
    if (young && s->resident + young > s->how->memory / 5 * 4 && now >= s->young_next) { /* near: it is worth to look closely */
        young = young_bytes(s);
        s->young_next = now + 10 * (plim__watch_now(s) - now);
    }
    plim__tree_resident(s);
    atomic_store(&s->header->resident, s->resident + young);
    atomic_store(&s->header->landed_seen, landed);
    atomic_store(&s->header->seen_ms, ms);
}

/* ----------------------------------------------------------------------------------------------------- one request */

/* Libraries that print a line and end the program when they get no memory; and the interpreter's own arenas, for it must be able to raise the
 * exception. */
static bool must_not_refuse(plim__supervisor *s, plim__watched *w)
{
    static const char *const name[] = {"libopenblas", "libblas", "libblis", "libmkl", "libgomp", "libiomp", "libomp", "libtbb", "ld-linux", "ld.so"};
    const uint32_t stack = plim__timeline_stack(&s->timeline, &w->reader, w->slot->ask.site);
    if (stack == UINT32_MAX) return false;
    plim__places_resolve(s, &stack, 1);
    const plim__where *where = plim__place_of(s, stack);
    if (!where) return false;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!strncmp(where->caller, name[i], strlen(name[i]))) return true;
    return w->slot->ask.call == PLIM__REC_MMAP && (!strncmp(where->caller, "python", 6) || !strncmp(where->caller, "libpython", 9));
}

/* Bytes that were claimed and are in no table yet: another thread's or process's request between its grant and its block. */
static uint64_t in_flight(const plim__supervisor *s)
{
    const uint64_t landed = atomic_load(&s->header->landed), claimed = atomic_load(&s->header->claimed);
    return (int64_t)(claimed - landed) > 0 ? claimed - landed : 0;
}

static uint64_t charge_now(plim__supervisor *s, const plim__rec_ask *ask, bool exact)
{
    const uint64_t more = ask->bytes > ask->old_bytes ? ask->bytes - ask->old_bytes : 0;
    const uint64_t flying = in_flight(s), young = young_bytes(s);
    if (exact)
        plim__tree_resident_exact(s);
    else
        plim__tree_resident(s);
    s->pending = flying + young;
    return s->resident + s->pending + more;
}

/* Resident memory that glibc could give back. */
static uint64_t could_trim(plim__supervisor *s, const plim__watched *w)
{
    if (!(atomic_load(&w->slot->flags) & PLIM__REC_GLIBC) || w->kept < MIB) return 0;
    plim__moment_look(s, false, false, 0, NULL);
    const uint64_t kept = plim__moment_kept(s);
    return kept < w->kept ? kept : w->kept;
}

/* The one rule. What is promised is derived from it, so the two cannot differ. */
static bool fits(uint64_t charge, uint64_t bytes, uint64_t budget)
{
    return charge <= budget || (bytes < MIB && charge <= budget + budget / 32);
}

plim__budget_says plim__budget_judge(plim__supervisor *s, plim__watched *w)
{
    const plim__rec_ask *ask = &w->slot->ask;
    const uint64_t budget = s->how->memory;
    s->charge = charge_now(s, ask, false);
    if (!fits(s->charge, ask->bytes, budget) && plim__tree_alive(s) > 1) s->charge = charge_now(s, ask, true);
    if (s->charge <= budget) return PLIM__BUDGET_FITS;
    /* What can be given back is given back even where it is too little: so that a refusal, and the budget that is promised then, follow from what the
     * program needs. */
    const uint64_t trim = ask->trimmed ? 0 : could_trim(s, w);
    if (trim && (trim >= s->charge - budget || trim >= budget / 128)) return PLIM__BUDGET_TRIM;
    if (fits(s->charge, ask->bytes, budget)) return PLIM__BUDGET_FITS;
    return must_not_refuse(s, w) ? PLIM__BUDGET_LET_PASS : PLIM__BUDGET_BREACH;
}

/* --------------------------------------------------------------------------------------------------- promises */

uint64_t plim__budget_least(uint64_t charge, uint64_t bytes)
{
    uint64_t low = 0, high = charge; /* fits(high) holds, fits(low) does not */
    while (high - low > 1) {
        const uint64_t middle = low + (high - low) / 2;
        if (fits(charge, bytes, middle))
            high = middle;
        else
            low = middle;
    }
    return high;
}

/* From run to run a program differs by pages of its stacks and tables, its heap by some hundred KiB. The size is rounded up until what is printed is
 * enough when it is read again. */
uint64_t plim__budget_promise(uint64_t least)
{
    char text[32];
    uint64_t want, got;
    if (!plim__add(&want, least, least / 256 > MIB / 2 ? least / 256 : MIB / 2)) return UINT64_MAX;
    for (uint64_t try = want; try >= want; try += want / 2048 + 1) {
        plim_bytes_format(text, sizeof text, try);
        if (!plim_bytes_parse(&got, text, 0, NULL) && got >= want) return got;
    }
    return UINT64_MAX;
}
