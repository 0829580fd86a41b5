/* Blocks: buffers that fill a rectangle of time and units without a gap, packed as one.
 *
 *     stack   aaaa      chain   aaabb      set   bbbbbbbcc
 *             bbbb                               aa     cc
 *                                                aa mid cc
 *                                                aadddddd
 *
 * In each of them the load is the same from the first birth to the last death. Where a packing has little room to spare, what is born
 * when something of its size dies usually takes its place; so a search over blocks is over a much smaller instance. Blocks are merged
 * with others in turn until nothing is found. After each round the sections are cut anew: a birth inside a block is none any more,
 * which makes more lifetimes alike.
 *
 * A packing of the blocks is one of the buffers, but not the other way around: that blocks have no packing proves nothing.
 *
 * A set starts with a few births of one section. Whenever some of its buffers die, as many units must be born in that section, unless
 * all of them die. That search is depth first, over SET_MAX buffers at most, and its steps are counted. Deterministic. */
#include "pack/pack.h"

#include "core/size.h"

#include <stdlib.h>
#include <string.h>

enum {
    SET_MAX = 8,          /* buffers of a set: their packing is found by trying orders */
    BIRTHS_MAX = 3,       /* births of one section that replace what dies there */
    SET_STEPS = 500,      /* per start of a set */
    CLOSED_MAX = 3,       /* fillers that end together */
    OPEN_MAX = 64,        /* fillers of one moment: to try three of them is some 40,000 steps */
    ORDER_STEPS = 20000,  /* to pack one set */
};

/* What is known while blocks are made. Items are buffers of the whole, then blocks in order of their making. */
typedef struct maker {
    plim__pack_blocks *out;
    plim_buffer *live;   /* (n) the items of this round as buffers: lifetimes in the time of the blocks */
    uint32_t *item_of;   /* (n) */
    int32_t *lo, *hi;    /* (n) lifetimes of the round: numbers of moments, or of sections */
    uint32_t *first;     /* (2 n + 1) index of the first buffer born at or after a moment */
    int64_t *moment;     /* (2 n) in order */
    int64_t *load;       /* (2 n) scratch: of the moments, as differences */
    bool *used;          /* (n) merged in this round */
    plim__pack_view *v;  /* of the round */
    uint32_t member[SET_MAX], members;
    int64_t offset[SET_MAX]; /* of the members in their block */
    uint64_t steps;      /* left to the search for sets */
    const plim__blocks_style *style;
    uint64_t random;
} maker;

/* xorshift64*; in [0, 1) */
static double random_unit(maker *m)
{
    m->random ^= m->random >> 12;
    m->random ^= m->random << 25;
    m->random ^= m->random >> 27;
    return (double)((m->random * 2685821657736338717ull) >> 11) * 0x1p-53;
}

/* Makes a block of the members, which lie at m->offset. */
static void add_block(maker *m, int64_t height)
{
    plim__pack_blocks *out = m->out;
    PLIM_ASSERT(m->members >= 2 && m->members <= SET_MAX && out->items < 4 * out->buffers);
    plim__pack_item *block = &out->item[out->items];
    *block = (plim__pack_item){.lower = INT64_MAX, .upper = INT64_MIN, .size = height * (int64_t)m->v->unit, .parent = -1,
                                .filler = true};
    for (uint32_t k = 0; k < m->members; k++) {
        plim__pack_item *part = &out->item[m->item_of[m->v->source[m->member[k]]]];
        PLIM_ASSERT(part->parent < 0 && !m->used[m->member[k]]);
        part->parent = (int32_t)out->items;
        part->offset = m->offset[k] * (int64_t)m->v->unit;
        block->lower = part->lower < block->lower ? part->lower : block->lower;
        block->upper = part->upper > block->upper ? part->upper : block->upper;
        block->filler = block->filler && part->filler;
        m->used[m->member[k]] = true;
    }
    out->item[out->items++].alone = random_unit(m) < m->style->alone;
    m->members = 0;
}

static void add_member(maker *m, uint32_t i, int64_t offset)
{
    PLIM_ASSERT(m->members < SET_MAX);
    m->offset[m->members] = offset;
    m->member[m->members++] = i;
}

/* Buffers of one lifetime. Larger stacks are made in several rounds. */
static uint32_t make_stacks(maker *m)
{
    const plim__pack_view *v = m->v;
    uint32_t made = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (m->used[i]) continue;
        int64_t height = v->size[i];
        m->members = 0;
        add_member(m, i, 0);
        for (uint32_t j = i + 1; j < v->n && m->lo[j] == m->lo[i] && m->members < SET_MAX; j++) {
            if (m->used[j] || m->hi[j] != m->hi[i]) continue;
            add_member(m, j, height);
            height += v->size[j];
        }
        if (m->members < 2) continue;
        add_block(m, height);
        made++;
    }
    return made;
}

/* A buffer, and behind it one of its size that is born when it dies. */
static uint32_t make_chains(maker *m)
{
    const plim__pack_view *v = m->v;
    uint32_t made = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (m->used[i]) continue;
        int32_t end = m->hi[i];
        m->members = 0;
        add_member(m, i, 0);
        for (uint32_t j = m->first[end]; j < v->n && m->lo[j] == end && m->members < SET_MAX; j++) {
            if (m->used[j] || v->size[j] != v->size[i]) continue;
            add_member(m, j, 0);
            end = m->hi[j];
            j = m->first[end] - 1; /* the loop goes on with the births at the new end */
        }
        if (m->members < 2) continue;
        add_block(m, v->size[i]);
        made++;
    }
    return made;
}

/* ------------------------------------------------------------------------------------------------- sets */

/* Places the members that `rest` has bits for on top of what is there, in every order, none above `height`. */
static bool pack_members(maker *m, uint32_t rest, int64_t height, uint32_t *steps)
{
    const plim__pack_view *v = m->v;
    for (uint32_t k = 0; k < m->members && rest; k++) {
        if (!(rest >> k & 1)) continue;
        if (*steps == 0) return false;
        --*steps;
        const uint32_t i = m->member[k];
        int64_t at = 0;
        for (uint32_t o = 0; o < m->members; o++) {
            const uint32_t j = m->member[o];
            if (rest >> o & 1 || m->lo[j] >= m->hi[i] || m->hi[j] <= m->lo[i]) continue;
            at = plim__max(at, m->offset[o] + v->size[j]);
        }
        if (at > height - v->size[i]) continue;
        m->offset[k] = at;
        if (pack_members(m, rest & ~(1u << k), height, steps)) return true;
    }
    return rest == 0;
}

static bool is_member(const maker *m, uint32_t i)
{
    for (uint32_t k = 0; k < m->members; k++) {
        if (m->member[k] == i) return true;
    }
    return false;
}

static bool replace(maker *m, uint32_t from, int32_t section, int64_t need, uint32_t births);

/* Follows the set from section `now` on, in which its load is `height`, to the next deaths.
 * @return whether the set is closed and has a packing: then it has become a block */
static bool follow(maker *m, int32_t now, int64_t height)
{
    const plim__pack_view *v = m->v;
    int32_t end = INT32_MAX;
    int64_t dying = 0;
    for (uint32_t k = 0; k < m->members; k++) {
        const int32_t hi = m->hi[m->member[k]];
        if (hi <= now || hi > end) continue;
        dying = (hi == end ? dying : 0) + v->size[m->member[k]];
        end = hi;
    }
    PLIM_ASSERT(end > now && dying > 0 && dying <= height);
    if (dying < height) return replace(m, m->first[end], end, dying, BIRTHS_MAX);
    uint32_t steps = ORDER_STEPS;
    if (m->members < 2 || !pack_members(m, (1u << m->members) - 1, height, &steps)) return false;
    add_block(m, height);
    return true;
}

/* The load of the set in the section before `section`: what lives across its border or dies there. */
static int64_t load_before(const maker *m, int32_t section)
{
    int64_t load = 0;
    for (uint32_t k = 0; k < m->members; k++) {
        const uint32_t i = m->member[k];
        if (m->lo[i] < section && m->hi[i] >= section) load += m->v->size[i];
    }
    return load;
}

/* Tries what is born in `section`, from index `from` on, in the place of `need` units. */
static bool replace(maker *m, uint32_t from, int32_t section, int64_t need, uint32_t births)
{
    const plim__pack_view *v = m->v;
    if (need == 0) return follow(m, section, load_before(m, section));
    if (births == 0 || m->members == SET_MAX) return false;
    for (uint32_t i = from; i < v->n && m->lo[i] == section && m->steps; i++) {
        m->steps--;
        if (m->used[i] || v->size[i] > need || is_member(m, i)) continue;
        add_member(m, i, 0);
        if (replace(m, i + 1, section, need - v->size[i], births - 1)) return true;
        m->members--;
    }
    return false;
}

/* Tries the births of a section from index `from` on as the start of a set. */
static bool start_set(maker *m, uint32_t from, int64_t height, uint32_t births)
{
    const plim__pack_view *v = m->v;
    for (uint32_t i = from; i < v->n && (m->members == 0 || m->lo[i] == m->lo[m->member[0]]) && m->steps; i++) {
        if (m->used[i]) continue;
        m->steps--;
        add_member(m, i, 0);
        if (m->members >= 2 && follow(m, m->lo[i], height + v->size[i])) return true;
        if (births > 1 && start_set(m, i + 1, height + v->size[i], births - 1)) return true;
        m->members--;
        if (m->members == 0) return false; /* the first one is the caller's choice */
    }
    return false;
}

static uint32_t make_sets(maker *m)
{
    uint32_t made = 0;
    for (uint32_t births = 2; births <= BIRTHS_MAX && !made; births++) {
        for (uint32_t i = 0; i < m->v->n; i++) {
            if (m->used[i]) continue;
            m->members = 0;
            m->steps = SET_STEPS; /* for each start, or one section of many births would take them all */
            made += start_set(m, i, 0, births);
        }
    }
    return made;
}

/* ------------------------------------------------------------------------------------------------ rounds */

static int time_compare(const void *pa, const void *pb)
{
    const int64_t a = *(const int64_t *)pa, b = *(const int64_t *)pb;
    return a < b ? -1 : a > b;
}

static int32_t number_of(const maker *m, uint32_t moments, int64_t time)
{
    const int64_t *at = bsearch(&time, m->moment, moments, sizeof time, time_compare);
    PLIM_ASSERT(at);
    return (int32_t)(at - m->moment);
}

/* Numbers the moments at which something is born or dies, for lifetimes that are alike to the moment. */
static uint32_t number_moments(maker *m)
{
    const plim__pack_view *v = m->v;
    uint32_t all = 0, moments = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        m->moment[all++] = m->live[i].lower;
        m->moment[all++] = m->live[i].upper;
    }
    qsort(m->moment, all, sizeof *m->moment, time_compare);
    for (uint32_t i = 0; i < all; i++) {
        if (i == 0 || m->moment[i] != m->moment[moments - 1]) m->moment[moments++] = m->moment[i];
    }
    for (uint32_t i = 0; i < v->n; i++) {
        m->lo[i] = number_of(m, moments, m->live[v->source[i]].lower);
        m->hi[i] = number_of(m, moments, m->live[v->source[i]].upper);
    }
    return moments;
}

/* The items that are in no block yet, as a view. */
static plim_status open_round(maker *m, bool last, const plim__alloc *a, plim_error *err)
{
    const plim__pack_blocks *out = m->out;
    uint32_t n = 0, i = 0;
    for (uint32_t k = 0; k < out->items; k++) {
        const plim__pack_item *item = &out->item[k];
        if (item->parent >= 0 || (last && item->filler)) continue;
        m->live[n] = (plim_buffer){.lower = item->lower, .upper = item->upper, .size = (uint64_t)item->size};
        m->item_of[n++] = k;
    }
    PLIM_ASSERT(n >= 1 && n <= 2*out->buffers);
    plim__pack_view_drop(m->v, a);
    PLIM_TRY(plim__pack_view_init(m->v, m->live, n, 0, a, err));
    memcpy(m->lo, m->v->lo, n * sizeof *m->lo);
    memcpy(m->hi, m->v->hi, n * sizeof *m->hi);
    const uint32_t moments = m->style->coarse ? m->v->sections : number_moments(m);
    for (uint32_t s = 0; s <= moments; s++) {
        while (i < n && m->lo[i] < (int32_t)s) i++;
        m->first[s] = i;
    }
    for (i = 0; i < n; i++) m->used[i] = out->item[m->item_of[m->v->source[i]]].alone;
    return PLIM_OK;
}

static plim_status make_blocks(maker *m, const plim__alloc *a, plim_error *err)
{
    uint32_t made;
    do {
        PLIM_TRY(open_round(m, false, a, err));
        made = make_stacks(m);
        if (!made) made = make_chains(m);
        if (!made) made = make_sets(m);
    } while (made);
    PLIM_TRY(open_round(m, true, a, err));
    for (uint32_t i = 0; i < m->v->n; i++) m->v->source[i] = m->item_of[m->v->source[i]];
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- slack */

/* Fillers that have no end yet, the newest last. */
typedef struct open_fillers {
    plim__pack_blocks *out;
    uint32_t *open;   /* (room) items */
    uint32_t n, room; /* what may still be made */
} open_fillers;

static void open_filler(open_fillers *f, int64_t lower, int64_t size)
{
    PLIM_ASSERT(f->room > 0 && size > 0);
    f->out->item[f->out->items] = (plim__pack_item){.lower = lower, .size = size, .parent = -1, .filler = true};
    f->open[f->n++] = f->out->items++;
    f->room--;
}

static void close_filler(open_fillers *f, uint32_t k, int64_t upper)
{
    PLIM_ASSERT(k < f->n);
    f->out->item[f->open[k]].upper = upper;
    memmove(f->open + k, f->open + k + 1, (--f->n - k) * sizeof *f->open);
}

/* Finds `count` open fillers below index `below` of `size` units together. @param pick  (count) out, falling */
static bool choose_fillers(const open_fillers *f, uint32_t below, int64_t size, uint32_t count, uint32_t *pick)
{
    for (uint32_t k = below; k-- > 0;) {
        const int64_t rest = size - f->out->item[f->open[k]].size;
        pick[0] = k;
        if (count == 1 ? rest == 0 : rest > 0 && choose_fillers(f, k, rest, count - 1, pick + 1)) return true;
    }
    return false;
}

/* Ends `size` units of fillers at `upper`: some of that very size together, else as few of the newest as it takes; what is left of the
 * last goes on. */
static bool end_fillers(open_fillers *f, int64_t size, int64_t upper)
{
    uint32_t pick[CLOSED_MAX];
    for (uint32_t count = 1; count <= CLOSED_MAX; count++) {
        if (!choose_fillers(f, f->n, size, count, pick)) continue;
        for (uint32_t k = 0; k < count; k++) close_filler(f, pick[k], upper);
        return true;
    }
    while (size > 0) {
        PLIM_ASSERT(f->n > 0); /* the open ones are as large as the slack was */
        const int64_t last = f->out->item[f->open[f->n - 1]].size;
        close_filler(f, f->n - 1, upper);
        if (last > size && f->room == 0) return false;
        if (last > size) open_filler(f, upper, last - size);
        size -= last;
    }
    return true;
}

/* Adds items that fill every moment up to `level`: few of them, each of one size. @return false when that takes more than `room` */
static bool fill_slack(maker *m, int64_t level, uint32_t room)
{
    plim__pack_blocks *out = m->out;
    open_fillers f = {.out = out, .open = m->item_of, .room = room};
    const uint32_t moments = number_moments(m);
    int64_t *load = m->load;
    memset(load, 0, moments * sizeof *load);
    for (uint32_t i = 0; i < m->v->n; i++) {
        load[m->lo[i]] += m->v->size[i] * (int64_t)m->v->unit;
        load[m->hi[i]] -= m->v->size[i] * (int64_t)m->v->unit;
    }
    for (uint32_t k = 0; k < moments; k++) { /* slack is `level` less the load, and none behind the last moment */
        const int64_t step = k == 0 ? level - load[0] : k + 1 < moments ? -load[k] : -load[k] - level;
        if (f.n > OPEN_MAX || (step > 0 && f.room == 0)) return false;
        if (step > 0) open_filler(&f, m->moment[k], step);
        if (step < 0 && !end_fillers(&f, -step, m->moment[k])) return false;
    }
    return f.n == 0;
}

static bool maker_alloc(maker *m, uint64_t n, const plim__alloc *a, plim_error *err)
{
    m->live = plim__new(a, n, sizeof *m->live, err);
    m->moment = plim__new(a, 4 * n, sizeof *m->moment, err);
    m->lo = plim__new(a, 5 * n + 1, sizeof *m->lo, err);
    m->used = plim__new(a, n, sizeof *m->used, err);
    if (!m->live || !m->moment || !m->lo || !m->used) return false;
    m->load = m->moment + 2*n;
    m->hi = m->lo + n;
    m->item_of = (uint32_t *)(m->hi + n);
    m->first = m->item_of + n;
    return true;
}

static void maker_drop(maker *m, const plim__alloc *a)
{
    plim__free(a, m->used);
    plim__free(a, m->lo);
    plim__free(a, m->moment);
    plim__free(a, m->live);
}

plim_status plim__pack_blocks_init(plim__pack_blocks *b, const plim__pack_view *whole, const plim__blocks_style *style,
                                   const plim__alloc *a, plim_error *err)
{
    const uint64_t n = whole->n;
    *b = (plim__pack_blocks){.buffers = whole->n, .items = whole->n};
    maker m = {.out = b, .v = &b->view, .style = style, .random = style->seed | 1};
    b->item = plim__new(a, 4 * n, sizeof *b->item, err);
    plim_status status = b->item && maker_alloc(&m, 2 * n, a, err) ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t i = 0; i < n && status == PLIM_OK; i++) {
        const int64_t lower = style->coarse ? whole->lo[i] : whole->lower[i];
        const int64_t upper = style->coarse ? whole->hi[i] : whole->upper[i];
        b->item[i] = (plim__pack_item){.lower = lower, .upper = upper, .size = whole->size[i], .parent = -1};
    }
    if (status == PLIM_OK && style->level) {
        status = open_round(&m, false, a, err);
        if (status == PLIM_OK && !fill_slack(&m, style->level, whole->n)) b->items = whole->n;
    }
    for (uint32_t i = 0; i < b->items && status == PLIM_OK; i++) b->item[i].alone = random_unit(&m) < style->alone;
    if (status == PLIM_OK) status = make_blocks(&m, a, err);
    maker_drop(&m, a);
    if (status != PLIM_OK) plim__pack_blocks_drop(b, a);
    return status;
}

void plim__pack_blocks_drop(plim__pack_blocks *b, const plim__alloc *a)
{
    plim__pack_view_drop(&b->view, a);
    plim__free(a, b->item);
    *b = (plim__pack_blocks){0};
}

void plim__pack_blocks_open(const plim__pack_blocks *b, int64_t *offset, const int64_t *block_offset)
{
    plim__pack_item *item = b->item;
    for (uint32_t i = 0; i < b->view.n; i++) item[b->view.source[i]].place = block_offset[i] * (int64_t)b->view.unit;
    for (uint32_t i = b->items; i-- > 0;) { /* a block comes after its parts */
        if (item[i].parent >= 0) item[i].place = item[item[i].parent].place + item[i].offset;
        if (i < b->buffers) offset[i] = item[i].place;
    }
}
