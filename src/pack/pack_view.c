/* From the caller's buffers to the instance that the searches see: checks, units, sections, loads (pack.h has the picture).
 * O(n log n). The view owns its arrays, which are one block; nothing of the caller's is kept. */
#include "pack/pack.h"

#include "core/size.h"

#include <inttypes.h>
#include <stdlib.h>

typedef struct moment {
    int64_t time;
    uint32_t buffer;
} moment;

static int moment_compare(const void *pa, const void *pb)
{
    const moment *a = pa, *b = pb;
    if (a->time != b->time) return a->time < b->time ? -1 : 1;
    return a->buffer < b->buffer ? -1 : a->buffer > b->buffer;
}

static uint64_t gcd(uint64_t a, uint64_t b)
{
    while (b) {
        const uint64_t r = a % b;
        a = b;
        b = r;
    }
    return a;
}

static bool round_size(uint64_t *out, uint64_t size, uint64_t alignment)
{
    const uint64_t over = alignment > 1 ? size % alignment : 0;
    return plim__add(out, size, over ? alignment - over : 0);
}

/* Finds the unit and counts the buffers that take room; refuses what later sums could not hold. */
static plim_status measure(plim__pack_view *v, const plim_buffer *buf, uint32_t count, uint64_t alignment, plim_error *err)
{
    uint64_t sum = 0, size;
    v->unit = 0;
    for (uint32_t i = 0; i < count; i++) {
        PLIM_FAIL_IF(buf[i].lower >= buf[i].upper, err, PLIM_E_INVALID,
                     "buffer %" PRIu32 " is never alive: lower %" PRId64 ", upper %" PRId64, i, buf[i].lower, buf[i].upper);
        const bool fits = round_size(&size, buf[i].size, alignment) && plim__add(&sum, sum, size) && sum <= INT64_MAX;
        PLIM_FAIL_IF(!fits, err, PLIM_E_OVERFLOW, "the sizes of buffers 0 to %" PRIu32 " exceed 63 bits together", i);
        v->unit = gcd(v->unit, size);
        v->n += size != 0;
    }
    if (v->unit == 0) v->unit = 1;
    return PLIM_OK;
}

/* Walks births and deaths in order of time, deaths first where they meet (lifetimes are half open). A birth after a death
 * opens a section. */
static void cut_sections(plim__pack_view *v, const moment *birth, const moment *death, uint32_t *index_of)
{
    bool after_death = true;
    uint32_t d = 0;
    for (uint32_t b = 0; b < v->n; b++) {
        for (; death[d].time <= birth[b].time; d++) {
            v->hi[index_of[death[d].buffer]] = (int32_t)v->sections;
            after_death = true;
        }
        if (after_death) v->sections++;
        after_death = false;
        index_of[birth[b].buffer] = b;
        v->lo[b] = (int32_t)v->sections - 1;
    }
    for (; d < v->n; d++) v->hi[index_of[death[d].buffer]] = (int32_t)v->sections;
}

static void sum_loads(plim__pack_view *v)
{
    for (uint32_t i = 0; i < v->n; i++) {
        v->load[v->lo[i]] += v->size[i];
        v->load[v->hi[i]] -= v->size[i];
    }
    for (uint32_t s = 1; s < v->sections; s++) v->load[s] += v->load[s - 1];
    for (uint32_t s = 0; s < v->sections; s++) v->bound = plim__max(v->bound, v->load[s]);
    for (uint32_t i = 0; i < v->n; i++) {
        for (int32_t s = v->lo[i]; s < v->hi[i]; s++) v->total[i] = plim__max(v->total[i], v->load[s]);
    }
}

static void fill(plim__pack_view *v, const plim_buffer *buf, uint32_t count, uint64_t alignment, moment *birth, uint32_t *index_of)
{
    moment *death = birth + v->n;
    uint32_t n = 0;
    for (uint32_t i = 0; i < count; i++) {
        if (buf[i].size == 0) continue;
        birth[n] = (moment){.time = buf[i].lower, .buffer = i};
        death[n++] = (moment){.time = buf[i].upper, .buffer = i};
    }
    qsort(birth, n, sizeof *birth, moment_compare);
    qsort(death, n, sizeof *death, moment_compare);
    cut_sections(v, birth, death, index_of);
    for (uint32_t i = 0; i < n; i++) {
        const plim_buffer *b = &buf[birth[i].buffer];
        uint64_t size;
        round_size(&size, b->size, alignment); /* measure() has seen that it fits */
        const uint64_t width = (uint64_t)b->upper - (uint64_t)b->lower;
        v->size[i] = (int64_t)(size / v->unit);
        v->width[i] = width > INT64_MAX ? INT64_MAX : (int64_t)width;
        v->source[i] = birth[i].buffer;
        v->lower[i] = b->lower;
        v->upper[i] = b->upper;
    }
    sum_loads(v);
}

/* Arrays for n buffers. There are at most n sections; a load behind the last one of each part takes what ends there, and a
 * part has two buffers at least, hence 2 * n + 1. */
static bool view_alloc(plim__pack_view *v, uint64_t n, const plim__alloc *a, plim_error *err)
{
    v->size = plim__new(a, 7 * n + 1, sizeof *v->size, err);
    v->lo = plim__new(a, 3 * n, sizeof *v->lo, err);
    if (!v->size || !v->lo) return false;
    v->width = v->size + n;
    v->total = v->width + n;
    v->lower = v->total + n;
    v->upper = v->lower + n;
    v->load = v->upper + n;
    v->hi = v->lo + n;
    v->source = (uint32_t *)(v->hi + n);
    return true;
}

plim_status plim__pack_view_init(plim__pack_view *v, const plim_buffer *buf, uint32_t count, uint64_t alignment,
                                 const plim__alloc *a, plim_error *err)
{
    *v = (plim__pack_view){0};
    PLIM_FAIL_IF(count > INT32_MAX / 4, err, PLIM_E_INVALID, "%" PRIu32 " buffers are too many to pack", count);
    PLIM_TRY(measure(v, buf, count, alignment, err));
    moment *moments = plim__new(a, 2 * (uint64_t)v->n, sizeof *moments, err);
    uint32_t *index_of = plim__new(a, count, sizeof *index_of, err);
    const bool ok = moments && index_of && view_alloc(v, v->n, a, err);
    if (ok) fill(v, buf, count, alignment, moments, index_of);
    else plim__pack_view_drop(v, a);
    plim__free(a, index_of);
    plim__free(a, moments);
    PLIM_FAIL_IF(!ok, err, PLIM_E_NOMEM, "out of memory: packing %" PRIu32 " buffers", count);
    return PLIM_OK;
}

void plim__pack_view_drop(plim__pack_view *v, const plim__alloc *a)
{
    plim__free(a, v->lo);
    plim__free(a, v->size);
    *v = (plim__pack_view){0};
}

/* -------------------------------------------------------------------------------------------------- parts */

/* Buffers [from, to) of the whole view, less those that already lie at a bottom; together alive in sections [lo, hi). */
typedef struct side {
    uint32_t from, to;
    int32_t lo, hi;
    int64_t base;
} side;

typedef struct splitter {
    const plim__pack_view *whole;
    plim__pack_parts *parts;
    side *stack; /* (n) sides are disjoint, so there are never more */
    uint32_t stack_n;
    uint32_t pool_n, pool_sections; /* used of the pool */
} splitter;

static bool is_down(const splitter *s, uint32_t i) { return s->parts->floor_offset[i] >= 0; }

/* Pushes the sides that `in` falls into. */
static uint32_t push_sides(splitter *s, const side *in)
{
    uint32_t pushed = 0;
    side *open = NULL;
    for (uint32_t i = in->from; i < in->to; i++) {
        if (is_down(s, i)) continue;
        const int32_t lo = s->whole->lo[i], hi = s->whole->hi[i];
        if (!open || lo >= open->hi) {
            open = &s->stack[s->stack_n++];
            *open = (side){.from = i, .lo = lo, .hi = hi, .base = in->base};
            pushed++;
        }
        open->hi = hi > open->hi ? hi : open->hi;
        open->to = i + 1;
    }
    return pushed;
}

static uint32_t lay_down(splitter *s, side *in)
{
    uint32_t laid = 0;
    for (uint32_t i = in->from; i < in->to; i++) {
        if (is_down(s, i) || s->whole->lo[i] != in->lo || s->whole->hi[i] != in->hi) continue;
        s->parts->floor_offset[i] = in->base;
        in->base += s->whole->size[i];
        laid++;
    }
    return laid;
}

static void add_part(splitter *s, const side *in)
{
    const plim__pack_view *w = s->whole, *pool = &s->parts->pool;
    plim__pack_part *part = &s->parts->part[s->parts->count++];
    plim__pack_view *v = &part->view;
    const uint32_t at = s->pool_n;
    part->base = in->base;
    *v = (plim__pack_view){.sections = (uint32_t)(in->hi - in->lo), .unit = w->unit, .lo = pool->lo + at, .hi = pool->hi + at,
                           .size = pool->size + at, .width = pool->width + at,
                           .lower = pool->lower + at, .upper = pool->upper + at, .total = pool->total + at,
                           .source = pool->source + at, .load = pool->load + s->pool_sections};
    for (uint32_t i = in->from; i < in->to; i++) {
        if (is_down(s, i)) continue;
        const uint32_t k = v->n++;
        v->lo[k] = w->lo[i] - in->lo;
        v->hi[k] = w->hi[i] - in->lo;
        v->size[k] = w->size[i];
        v->width[k] = w->width[i];
        v->lower[k] = w->lower[i];
        v->upper[k] = w->upper[i];
        v->source[k] = i;
    }
    sum_loads(v);
    s->pool_n += v->n;
    s->pool_sections += v->sections + 1;
}

static void split(splitter *s)
{
    const side whole = {.to = s->whole->n, .hi = (int32_t)s->whole->sections};
    push_sides(s, &whole);
    while (s->stack_n) {
        side top = s->stack[--s->stack_n];
        if (lay_down(s, &top)) push_sides(s, &top);
        else add_part(s, &top);
    }
}

plim_status plim__pack_parts_init(plim__pack_parts *p, const plim__pack_view *whole, const plim__alloc *a, plim_error *err)
{
    *p = (plim__pack_parts){0};
    const uint64_t n = whole->n;
    splitter s = {.whole = whole, .parts = p, .stack = plim__new(a, n, sizeof *s.stack, err)};
    p->floor_offset = plim__new(a, n, sizeof *p->floor_offset, err);
    /* A part has two buffers at least, or one of them would span it. */
    p->part = plim__new(a, n / 2 + 1, sizeof *p->part, err);
    const bool ok = s.stack && p->floor_offset && p->part && view_alloc(&p->pool, n, a, err);
    if (ok) {
        for (uint64_t i = 0; i < n; i++) p->floor_offset[i] = -1;
        split(&s);
    } else {
        plim__pack_parts_drop(p, a);
    }
    plim__free(a, s.stack);
    PLIM_FAIL_IF(!ok, err, PLIM_E_NOMEM, "out of memory: packing %" PRIu32 " buffers", whole->n);
    return PLIM_OK;
}

void plim__pack_parts_drop(plim__pack_parts *p, const plim__alloc *a)
{
    plim__pack_view_drop(&p->pool, a);
    plim__free(a, p->part);
    plim__free(a, p->floor_offset);
    *p = (plim__pack_parts){0};
}
