/* Greedy packing: an order of the buffers, and a rule for where the next one goes.
 *
 * The portfolio is what production planners use one member of each: by size (TFLite, XNNPACK; Pisarchyk and Lee 2020), first or
 * best fit (XLA), by birth (an allocator that sees no future), and MiniMalloc's orders by load, width and area. On real graphs the
 * best of them is within 1 % of the bound, but which one that is differs from graph to graph.
 *
 * The placed buffers are walked in order of offset until a gap is found. Most buffers live for a short time, so time is also cut into
 * blocks that overlap by half; each has a list of the placed buffers alive in it. A buffer that lives for half a block or less lies
 * in one block and walks that list only: near O(n log n) for graphs whose lifetimes do not grow with them. Others walk the list of
 * all, O(n^2) at worst. Blocks are wide enough that lists hold 4 entries per buffer at most, taken together. Deterministic. */
#include "pack/pack.h"

#include "core/size.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

const char *plim__order_name(plim__order_kind kind)
{
    static const char *const name[PLIM__ORDER_COUNT] = {
        [PLIM__ORDER_SIZE_BIRTH] = "size", [PLIM__ORDER_TWA] = "TWA",     [PLIM__ORDER_AREA] = "area",
        [PLIM__ORDER_LOG_SIZE_BIRTH] = "log size", [PLIM__ORDER_TAW] = "TAW", [PLIM__ORDER_WAT] = "WAT",
        [PLIM__ORDER_SIZE_WIDTH] = "size, width", [PLIM__ORDER_BIRTH] = "birth",
    };
    return name[kind];
}

void plim__order_fill(plim__order_key *order, const plim__pack_view *v, plim__order_kind kind)
{
    for (uint32_t i = 0; i < v->n; i++) {
        const double size = (double)v->size[i], width = (double)v->width[i], total = (double)v->total[i];
        const double area = size * width, birth = -(double)i;
        const double key[PLIM__ORDER_COUNT][3] = {
            [PLIM__ORDER_SIZE_BIRTH] = {size, birth},
            [PLIM__ORDER_TWA] = {total, width, area},
            [PLIM__ORDER_AREA] = {area, width, total},
            [PLIM__ORDER_LOG_SIZE_BIRTH] = {(double)ilogb(size), birth},
            [PLIM__ORDER_TAW] = {total, area, width},
            [PLIM__ORDER_WAT] = {width, area, total},
            [PLIM__ORDER_SIZE_WIDTH] = {size, width, birth},
            [PLIM__ORDER_BIRTH] = {birth},
        };
        order[i].buffer = i;
        memcpy(order[i].key, key[kind], sizeof order[i].key);
    }
}

static int order_compare(const void *pa, const void *pb)
{
    const plim__order_key *a = pa, *b = pb;
    for (int k = 0; k < 3; k++) {
        if (a->key[k] != b->key[k]) return a->key[k] > b->key[k] ? -1 : 1;
    }
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

void plim__order_sort(plim__order_key *order, uint32_t n) { qsort(order, n, sizeof *order, order_compare); }

/* ---- lists of placed buffers, in order of offset ---- */

enum {
    CHUNK = 256,        /* entries of the list of all that are moved at most when one is inserted */
    BLOCKS_FROM = 2048, /* buffers; with fewer the list of all is walked as fast */
};

plim_status plim__greedy_room_init(plim__greedy_room *g, uint32_t n, const plim__alloc *a, plim_error *err)
{
    const uint64_t chunks = n / (CHUNK / 2) + 1; /* chunks are split in half */
    *g = (plim__greedy_room){0};
    g->slot = plim__new(a, 4 * (uint64_t)n + chunks * CHUNK, sizeof *g->slot, err);
    g->at = plim__new(a, 2 * ((uint64_t)n + 2) + 2 * chunks, sizeof *g->at, err);
    if (!g->slot || !g->at) return PLIM_E_NOMEM;
    g->used = g->at + n + 2;
    g->chunk = g->used + n + 2;
    g->chunk_used = g->chunk + chunks;
    return PLIM_OK;
}

void plim__greedy_room_drop(plim__greedy_room *g, const plim__alloc *a)
{
    plim__free(a, g->at);
    plim__free(a, g->slot);
    *g = (plim__greedy_room){0};
}

static int32_t first_block(const plim__greedy_room *g, int32_t lo) { return lo < g->half ? 0 : lo / g->half - 1; }

/* Cuts time into blocks [k * half, (k + 2) * half) and gives each list its place. */
static void room_reset(plim__greedy_room *g, const plim__pack_view *v)
{
    uint64_t widths = 0;
    for (uint32_t i = 0; i < v->n; i++) widths += (uint64_t)(v->hi[i] - v->lo[i]);
    g->half = 2 * (int32_t)(widths / v->n) + 1;
    g->blocks = v->sections / (uint32_t)g->half + 1;
    g->all = g->blocks <= 4 || v->n < BLOCKS_FROM;
    if (g->all) g->blocks = 0;
    memset(g->used, 0, (g->blocks + 1) * sizeof *g->used);
    for (uint32_t i = 0; i < v->n && g->blocks; i++) {
        for (int32_t k = first_block(g, v->lo[i]); k <= (v->hi[i] - 1) / g->half; k++) g->used[k]++;
        if (v->hi[i] - v->lo[i] > g->half) g->all = true;
    }
    g->at[0] = 0;
    for (uint32_t k = 0; k < g->blocks; k++) {
        g->at[k + 1] = g->at[k] + g->used[k];
        g->used[k] = 0;
    }
    PLIM_ASSERT(g->blocks <= v->n + 1 && g->at[g->blocks] <= 4 * (uint64_t)v->n); /* widths / half is below n; three ends per buffer */
    g->chunks = 1;
    g->chunk[0] = 0;
    g->chunk_used[0] = 0;
}

static plim__pack_slot *chunk_slots(const plim__greedy_room *g, uint32_t place, uint32_t n)
{
    return g->slot + 4 * (size_t)n + (size_t)g->chunk[place] * CHUNK;
}

static void insert_slot(plim__pack_slot *slot, uint32_t n, plim__pack_slot s)
{
    uint32_t from = 0, to = n;
    while (from < to) {
        const uint32_t mid = from + (to - from) / 2;
        if (slot[mid].offset <= s.offset) from = mid + 1;
        else to = mid;
    }
    memmove(slot + from + 1, slot + from, (n - from) * sizeof *slot);
    slot[from] = s;
}

/* Into the list of all: the last chunk that starts no higher, split in half when full. */
static void insert_chunked(plim__greedy_room *g, plim__pack_slot s, uint32_t n)
{
    uint32_t k = g->chunks - 1;
    while (k > 0 && chunk_slots(g, k, n)->offset > s.offset) k--;
    if (g->chunk_used[g->chunk[k]] == CHUNK) {
        memmove(g->chunk + k + 2, g->chunk + k + 1, (g->chunks - k - 1) * sizeof *g->chunk);
        g->chunk[k + 1] = g->chunks++;
        memcpy(chunk_slots(g, k + 1, n), chunk_slots(g, k, n) + CHUNK / 2, CHUNK / 2 * sizeof s);
        g->chunk_used[g->chunk[k]] = g->chunk_used[g->chunk[k + 1]] = CHUNK / 2;
        if (chunk_slots(g, k + 1, n)->offset <= s.offset) k++;
    }
    PLIM_ASSERT(g->chunks <= n / (CHUNK / 2) + 1);
    insert_slot(chunk_slots(g, k, n), g->chunk_used[g->chunk[k]]++, s);
}

static void insert(plim__greedy_room *g, plim__pack_slot s, uint32_t n)
{
    if (g->all) insert_chunked(g, s, n);
    if (!g->blocks) return;
    for (int32_t k = first_block(g, s.lo); k <= (s.hi - 1) / g->half; k++) {
        PLIM_ASSERT(g->at[k] + g->used[k] < g->at[k + 1]);
        insert_slot(g->slot + g->at[k], g->used[k]++, s);
    }
}

/* ---- gaps ---- */

typedef struct gap_walk {
    int32_t lo, hi;
    int64_t size;
    plim__fit fit;
    int64_t free_from, best, best_gap;
    uint64_t walked;
} gap_walk;

/* Walks upward over `n` placed buffers. @return whether the gap is found and nothing above matters */
static bool walk(gap_walk *w, const plim__pack_slot *slot, uint32_t n)
{
    const int32_t lo = w->lo, hi = w->hi;
    const int64_t size = w->size;
    int64_t free_from = w->free_from;
    PLIM_ASSERT(lo < hi && size > 0);
    for (uint32_t i = 0; i < n; i++) {
        const plim__pack_slot *s = &slot[i];
        if (s->lo >= hi || s->hi <= lo) continue;
        const int64_t gap = s->offset - free_from;
        if (gap >= size && gap < w->best_gap) {
            w->best = free_from;
            w->best_gap = gap;
            if (w->fit == PLIM__FIT_FIRST || gap == size) {
                w->walked += i;
                return true;
            }
        }
        free_from = s->top > free_from ? s->top : free_from;
    }
    w->free_from = free_from;
    w->walked += n;
    return false;
}

/* Where a buffer goes among the placed ones. Above all of them when there is no gap. */
static int64_t find_gap(const plim__greedy_room *g, gap_walk *w, uint32_t n)
{
    w->best = -1;
    w->best_gap = INT64_MAX;
    const int32_t k = g->blocks ? w->lo / g->half : 0; /* holds the buffer if that lives for half a block or less */
    if (g->blocks && w->hi - w->lo <= g->half) {
        PLIM_ASSERT(k < (int32_t)g->blocks && w->hi <= (k + 2) * g->half);
        walk(w, g->slot + g->at[k], g->used[k]);
    } else {
        PLIM_ASSERT(g->all);
        for (uint32_t c = 0; c < g->chunks && !walk(w, chunk_slots(g, c, n), g->chunk_used[g->chunk[c]]); c++) continue;
    }
    return w->best >= 0 ? w->best : w->free_from;
}

int64_t plim__greedy_place(int64_t *offset, const plim__pack_view *v, const plim__order_key *order, plim__fit fit, plim__greedy_room *g,
                           int64_t below, uint64_t *steps)
{
    int64_t height = 0;
    room_reset(g, v);
    for (uint32_t n = 0; n < v->n; n++) {
        const uint32_t b = order[n].buffer;
        gap_walk w = {.lo = v->lo[b], .hi = v->hi[b], .size = v->size[b], .fit = fit};
        const int64_t at = find_gap(g, &w, v->n);
        const int64_t top = at + v->size[b];
        insert(g, (plim__pack_slot){.offset = at, .top = top, .lo = v->lo[b], .hi = v->hi[b]}, v->n);
        offset[b] = at;
        height = top > height ? top : height;
        if (w.walked >= *steps) {
            *steps = 0;
            return INT64_MAX;
        }
        *steps -= w.walked;
        if (height >= below) return INT64_MAX;
    }
    return height;
}

/* ---- repairs: one list, that of block 0, which g->used[0] counts ---- */

void plim__greedy_keep(plim__greedy_room *g, const plim__pack_view *v, uint32_t b, int64_t offset)
{
    PLIM_ASSERT(b < v->n && g->used[0] < v->n && offset >= 0);
    insert_slot(g->slot, g->used[0]++, (plim__pack_slot){.offset = offset, .top = offset + v->size[b], .lo = v->lo[b], .hi = v->hi[b]});
}

bool plim__greedy_fill(int64_t *offset, const plim__pack_view *v, const plim__order_key *order, uint32_t n, plim__greedy_room *g,
                       const plim__fill_limit *limit, uint64_t *steps)
{
    double excess = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t b = order[i].buffer;
        gap_walk w = {.lo = v->lo[b], .hi = v->hi[b], .size = v->size[b], .fit = PLIM__FIT_FIRST, .best = -1, .best_gap = INT64_MAX};
        walk(&w, g->slot, g->used[0]);
        offset[b] = w.best >= 0 ? w.best : w.free_from;
        *steps -= w.walked < *steps ? w.walked : *steps;
        const int64_t top = offset[b] + v->size[b];
        excess += (double)plim__max(0, top - limit->line);
        if (top > limit->top || excess > limit->excess) return false;
        plim__greedy_keep(g, v, b, offset[b]);
    }
    return true;
}
