/* Greedy packing: an order of the buffers, and a rule for where the next one goes.
 *
 * The portfolio is what production planners use one member of each: by size (TFLite, XNNPACK; Pisarchyk and Lee 2020), first or
 * best fit (XLA), by birth (an allocator that sees no future), and MiniMalloc's orders by load, width and area. On real graphs the
 * best of them is within 1 % of the bound, but which one that is differs from graph to graph.
 *
 * O(n^2) in the worst case: the placed buffers are one array in order of offset, walked upward until a gap is found. Deterministic;
 * the caller brings all memory. */
#include "plan/pack.h"

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

/* Where a buffer goes among the `n` placed ones, which are in order of offset. Above all of them when there is no gap. */
static int64_t find_gap(const plim__pack_slot *slot, uint32_t n, int32_t lo, int32_t hi, int64_t size, plim__fit fit, uint64_t *walked)
{
    int64_t free_from = 0, best = -1, best_gap = INT64_MAX;
    uint32_t i = 0;
    for (; i < n; i++) {
        const plim__pack_slot *s = &slot[i];
        if (s->lo >= hi || s->hi <= lo) continue;
        const int64_t gap = s->offset - free_from;
        if (gap >= size && gap < best_gap) {
            best = free_from;
            best_gap = gap;
            if (fit == PLIM__FIT_FIRST || gap == size) break;
        }
        free_from = s->top > free_from ? s->top : free_from;
    }
    *walked = i;
    return best >= 0 ? best : free_from;
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

int64_t plim__greedy_place(int64_t *offset, const plim__pack_view *v, const plim__order_key *order, plim__fit fit, plim__pack_slot *slot,
                           int64_t below, uint64_t *steps)
{
    int64_t height = 0;
    for (uint32_t n = 0; n < v->n; n++) {
        const uint32_t b = order[n].buffer;
        uint64_t walked;
        const int64_t at = find_gap(slot, n, v->lo[b], v->hi[b], v->size[b], fit, &walked);
        const int64_t top = at + v->size[b];
        insert_slot(slot, n, (plim__pack_slot){.offset = at, .top = top, .lo = v->lo[b], .hi = v->hi[b]});
        offset[b] = at;
        height = top > height ? top : height;
        if (walked >= *steps) {
            *steps = 0;
            return INT64_MAX;
        }
        *steps -= walked;
        if (height >= below) return INT64_MAX;
    }
    return height;
}
