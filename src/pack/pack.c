/* The packer: a portfolio of greedy orders, then an exact search from the lower bound upward. Anytime: the best packing so far is
 * always valid, and a bound on what is possible goes with it.
 *
 * An instance first falls into independent parts (pack_view.c); its height is the largest of theirs, so only the highest part is
 * ever worked on. For that part a round of search
 *   - asks for the goal (the bound, or the capacity that was asked for): tight heights prune best, and real instances often meet it;
 *   - bisects between the goal and the best height known;
 *   - and the next round has twice the nodes.
 * Each question is a series of restarts with node limits 1, 1, 2, 1, 1, 2, 4 ... times some 2048 (Luby, Sinclair and Zuckerman 1993), each
 * with another recipe: an order, some noise, and the blame that sections got in earlier restarts (pack_exact.c). Most turns of the recipes
 * are of an instance in which buffers were merged into blocks (pack_blocks.c), each turn of other blocks; the last of BUFFER_TURNS is of
 * the buffers themselves, and only those can prove that there is no packing.
 *
 * Parts too large for the exact search are repaired instead: the upper buffers of a window of time around one that sticks out of the goal
 * are taken out and placed again among the others, in a random order by size in which those that stuck out come earlier (squeaky wheel
 * optimisation, Joslin and Clements 1999). What sticks out less than before is kept. A repair costs what its window does.
 *
 * Deterministic as long as the clock does not end the search: the noise has a fixed seed, limits count work. The clock is read
 * between restarts only. Everything is freed before return; nothing is shared between calls. */
#include "pack/pack.h"

#include "core/size.h"
#include "os/os.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#define DEFAULT_SECONDS 1.0
#define QUOTA_PER_BUFFER 12 /* nodes for one question of the first round */

/* A part as the exact search sees it: its buffers, or its blocks (pack_blocks.c). */
enum { FACE_BLOCKS, FACE_BUFFERS, FACES };

typedef struct face {
    const plim__pack_view *view; /* NULL: there is no such face */
    plim__exact *exact;
    uint32_t *blame;             /* (RECIPES, sections) */
} face;

typedef struct part_state {
    const plim__pack_part *part;
    int64_t *offset;    /* (n) of the best packing */
    int64_t height;     /* above the part's base */
    int64_t least;      /* proven: no packing of the part is lower */
    face face[FACES];
    plim__pack_blocks blocks; /* of FACE_BLOCKS: made anew for each turn of the recipes */
    uint32_t variants;        /* of blocks made so far */
    uint32_t restarts;
    uint64_t quota;     /* nodes for one question of the next round: QUOTA_PER_BUFFER times a power of two */
    char method[48];
} part_state;

typedef struct packer {
    const plim__alloc *alloc;
    plim_error *err;
    plim__pack_parts parts;
    part_state *state;      /* (parts) */
    int64_t *offsets;       /* state[].offset points into this */
    int64_t *trial;         /* (n) offsets of an attempt */
    plim__order_key *order; /* (n) */
    plim__greedy_room room; /* for n */
    double *blame_below;    /* (n + 1) sums over the sections below */
    int64_t goal;           /* units; a packing this high ends the search */
    uint64_t random;
    uint64_t steps, nodes;  /* left */
    plim_status status;     /* of the newest restart: no memory for other blocks ends the search */
    uint64_t start_ns, deadline_ns;
    uint64_t node_ns;       /* measured; keeps the last restart inside the deadline */
} packer;

static uint64_t now_ns(void) { return plim__os_linux.clock_ns(plim__os_linux.self); }

static bool out_of_time(const packer *k) { return k->deadline_ns && now_ns() >= k->deadline_ns; }

/* xorshift64*; in [0, 1) */
static double random_unit(packer *k)
{
    k->random ^= k->random >> 12;
    k->random ^= k->random << 25;
    k->random ^= k->random >> 27;
    return (double)((k->random * 2685821657736338717ull) >> 11) * 0x1p-53;
}

static int64_t total_height(const part_state *s) { return s->part->base + s->height; }

static part_state *highest_part(const packer *k)
{
    part_state *top = NULL;
    for (uint32_t i = 0; i < k->parts.count; i++) {
        if (!top || total_height(&k->state[i]) > total_height(top)) top = &k->state[i];
    }
    return top;
}

/* ------------------------------------------------------------------------------------------------- greedy */

/* Runs the order that k->order holds and keeps the packing if it is lower than the part's. */
static bool try_order(packer *k, part_state *s, plim__fit fit, uint64_t *steps)
{
    const plim__pack_view *v = &s->part->view;
    PLIM_ASSERT(k->order[0].buffer < v->n);
    const int64_t height = plim__greedy_place(k->trial, v, k->order, fit, &k->room, s->height, steps);
    if (height == INT64_MAX) return false;
    memcpy(s->offset, k->trial, v->n * sizeof *s->offset);
    s->height = height;
    return true;
}

static bool is_done(const packer *k, const part_state *s) { return total_height(s) <= k->goal || s->height == s->least; }

/* A part too large for the exact search leaves most of the time to what comes after the portfolio. */
static bool portfolio_is_over(const packer *k, const part_state *s)
{
    if (is_done(k, s) || k->steps == 0) return true;
    const bool share = s->part->view.n > PLIM__EXACT_MAX && k->nodes;
    return k->deadline_ns && now_ns() >= (share ? k->start_ns + (k->deadline_ns - k->start_ns) / 10 : k->deadline_ns);
}

/* Runs one order on one part. */
static void run_order(packer *k, part_state *s, plim__order_kind kind, plim__fit fit)
{
    const bool first = kind == 0 && fit == PLIM__FIT_FIRST;
    if (!first && portfolio_is_over(k, s)) return;
    uint64_t unlimited = UINT64_MAX;
    plim__order_fill(k->order, &s->part->view, kind);
    plim__order_sort(k->order, s->part->view.n);
    if (!try_order(k, s, fit, first ? &unlimited : &k->steps)) return;
    snprintf(s->method, sizeof s->method, "%s, %s fit", plim__order_name(kind), fit == PLIM__FIT_FIRST ? "first" : "best");
}

/* All orders by first fit, then all by best fit: a large part has time for a few only, which should be different orders. */
static void run_portfolio(packer *k)
{
    for (int fit = PLIM__FIT_FIRST; fit <= PLIM__FIT_BEST; fit++) {
        for (int kind = 0; kind < PLIM__ORDER_COUNT; kind++) {
            for (uint32_t i = 0; i < k->parts.count; i++) run_order(k, &k->state[i], (plim__order_kind)kind, (plim__fit)fit);
        }
    }
}

/* From the lowest offset up. Placed again in this order, every buffer of a packing goes as low as it did or lower: whatever was
 * below it has not risen. Two keys, because a double does not hold 63 bits. */
static void order_by_offset(packer *k, const plim__pack_view *v, const int64_t *offset)
{
    for (uint32_t i = 0; i < v->n; i++) {
        k->order[i] = (plim__order_key){.key = {-(double)(offset[i] >> 32), -(double)(offset[i] & UINT32_MAX)}, .buffer = i};
    }
    plim__order_sort(k->order, v->n);
}

#define WINDOW_MAX 1500 /* buffers that a repair takes out at most: some milliseconds */

/* A buffer that sticks out of `line`, each as likely as the next; n if there is none. */
static uint32_t pick_outsider(packer *k, const part_state *s, int64_t line)
{
    const plim__pack_view *v = &s->part->view;
    uint32_t found = v->n, seen = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        if (s->offset[i] + v->size[i] > line && random_unit(k) * ++seen < 1) found = i;
    }
    return found;
}

/* Collects in k->order what lives inside the window around buffer b, above a height taken at random, and in k->room what else is alive
 * in it.
 * @return how many are in k->order */
static uint32_t open_window(packer *k, const part_state *s, uint32_t b, int64_t line)
{
    const plim__pack_view *v = &s->part->view;
    const int32_t width = v->hi[b] - v->lo[b], margin = (int32_t)((1 + random_unit(k)) * (width + k->room.half));
    const int32_t lo = v->lo[b] - margin, hi = v->hi[b] + margin;
    const int64_t bottom = (int64_t)(random_unit(k) * (double)line);
    uint32_t inside = 0;
    k->room.used[0] = 0;
    for (uint32_t i = 0; i < v->n && v->lo[i] < hi; i++) {
        if (v->hi[i] <= lo) continue;
        const bool in = i == b || (v->lo[i] >= lo && v->hi[i] <= hi && s->offset[i] >= bottom && inside < WINDOW_MAX);
        if (!in) {
            plim__greedy_keep(&k->room, v, i, s->offset[i]);
            continue;
        }
        const bool out = s->offset[i] + v->size[i] > line;
        const double boost = out ? exp2(3 * random_unit(k)) : 1 + 0.3 * random_unit(k);
        k->order[inside++] = (plim__order_key){.key = {(double)v->size[i] * boost}, .buffer = i};
    }
    PLIM_ASSERT(inside >= 1 && inside <= WINDOW_MAX + 1);
    plim__order_sort(k->order, inside);
    return inside;
}

/* One repair of the part. @return false when no work is left */
static bool repair(packer *k, part_state *s)
{
    const plim__pack_view *v = &s->part->view;
    const int64_t line = plim__max(s->least, k->goal - s->part->base);
    const uint32_t b = pick_outsider(k, s, line);
    PLIM_ASSERT(b < v->n); /* or the part would be done */
    const uint32_t inside = open_window(k, s, b, line);
    plim__fill_limit limit = {.top = s->height, .line = line};
    for (uint32_t j = 0; j < inside; j++) {
        const uint32_t i = k->order[j].buffer;
        limit.excess += (double)plim__max(0, s->offset[i] + v->size[i] - line);
    }
    if (!plim__greedy_fill(k->trial, v, k->order, inside, &k->room, &limit, &k->steps)) return k->steps != 0;
    for (uint32_t j = 0; j < inside; j++) s->offset[k->order[j].buffer] = k->trial[k->order[j].buffer];
    int64_t height = 0;
    for (uint32_t i = 0; i < v->n; i++) height = plim__max(height, s->offset[i] + v->size[i]);
    PLIM_ASSERT(height <= s->height);
    if (height < s->height) snprintf(s->method, sizeof s->method, "repaired");
    s->height = height;
    return k->steps != 0;
}

/* ------------------------------------------------------------------------------------------- exact search */

/* How a restart makes its order: sections with much blame weigh `blame` times as much as one without, and every key is off by
 * up to `noise`. No recipe is good for everything; taking turns costs a factor of their number at most. One recipe does not jump,
 * for only that one can prove that there is no packing. */
typedef struct recipe {
    plim__order_kind kind;
    double blame, noise;
    plim__exact_style style;
} recipe;

static const recipe recipes[] = {
    {PLIM__ORDER_WAT, 100, 0.05, {.backjump = true, .rank_weight = 0.02, .blind = true}},
    {PLIM__ORDER_TWA, 100, 0.05, {.backjump = true, .rank_weight = 0.02}},
    {PLIM__ORDER_TAW, 100, 0.1, {.backjump = true, .rank_weight = 0.02}},
    {PLIM__ORDER_AREA, 0, 0.1, {.backjump = false, .rank_weight = 0.02}},
};
enum {
    RECIPES = sizeof recipes / sizeof *recipes,
    BUFFER_TURNS = 8, /* a turn is a restart with each recipe: so many less one are of blocks, then one is of the buffers */
};

static uint64_t luby(uint32_t i)
{
    for (;;) {
        uint32_t power = 1;
        while (power - 1 < i) power *= 2;
        if (power - 1 == i) return power / 2;
        i -= power / 2 - 1;
    }
}

static void make_order(packer *k, const plim__pack_view *v, const recipe *r, uint32_t *blame, bool plain)
{
    for (uint32_t i = 0; i < v->sections; i++) {
        k->blame_below[i + 1] = k->blame_below[i] + blame[i];
        blame[i] -= (blame[i] + 9) / 10; /* fades by a tenth per order made of it */
    }
    const double all = k->blame_below[v->sections] + 1e-9;
    PLIM_ASSERT(all > 0 && k->blame_below[0] == 0);
    plim__order_fill(k->order, v, r->kind);
    for (uint32_t i = 0; i < v->n; i++) {
        const double share = (k->blame_below[v->hi[i]] - k->blame_below[v->lo[i]]) / all;
        const double noise = plain ? 0 : r->noise * (2 * random_unit(k) - 1);
        k->order[i].key[0] *= (1 + noise) * (1 + r->blame * share);
    }
    plim__order_sort(k->order, v->n);
}

/* Node limit of the next restart, no more than what is left to this question, to the whole search and to the clock. */
static uint64_t restart_limit(const packer *k, const part_state *s, uint64_t quota)
{
    const uint64_t n = s->part->view.n;
    uint64_t limit = (n < 256 ? 8 * n : n < 1024 ? 2048 : 2 * n) * luby(s->restarts / RECIPES + 1);
    if (limit > quota) limit = quota;
    if (limit > k->nodes) limit = k->nodes;
    if (!k->deadline_ns) return limit;
    const uint64_t now = now_ns();
    const uint64_t left = now < k->deadline_ns ? (k->deadline_ns - now) / k->node_ns : 0;
    return limit < left ? limit : left;
}

static void close_face(face *f, const plim__alloc *a)
{
    plim__exact_free(&f->exact, a);
    plim__free(a, f->blame);
    *f = (face){0};
}

static plim_status open_face(face *f, const plim__pack_view *view, const plim__alloc *a, plim_error *err)
{
    f->view = view;
    f->blame = plim__new(a, (uint64_t)RECIPES * view->sections, sizeof *f->blame, err);
    return f->blame ? plim__exact_new(&f->exact, view, a, err) : PLIM_E_NOMEM;
}

/* Merges buffers in another way than before. What goes together is a guess, so some items are left alone, more and more of them. */
static plim_status next_blocks(packer *k, part_state *s)
{
    const plim__pack_view *v = &s->part->view;
    const uint32_t i = s->variants++;
    static const double alone[] = {0, 0.02, 0.05, 0.1, 0.2};
    const plim__blocks_style style = {.coarse = i % 3 == 2, .level = i % 3 == 1 ? plim__max(v->bound, k->goal - s->part->base) : 0,
                                      .alone = alone[i / 3 % 5], .seed = i + 1};
    close_face(&s->face[FACE_BLOCKS], k->alloc);
    plim__pack_blocks_drop(&s->blocks, k->alloc);
    PLIM_TRY(plim__pack_blocks_init(&s->blocks, v, &style, k->alloc, k->err));
    return s->blocks.view.n < v->n ? open_face(&s->face[FACE_BLOCKS], &s->blocks.view, k->alloc, k->err) : PLIM_OK;
}

/* One search of `limit` nodes by the next recipe. What it finds is in k->trial. */
static plim_status restart(packer *k, part_state *s, int64_t cap, uint64_t *limit, plim__exact_answer *answer)
{
    if (s->restarts % RECIPES == 0 && s->restarts / RECIPES % BUFFER_TURNS != BUFFER_TURNS - 1) PLIM_TRY(next_blocks(k, s));
    const uint32_t turn = s->restarts % RECIPES;
    const recipe *r = &recipes[turn];
    const bool blocks = s->restarts / RECIPES % BUFFER_TURNS != BUFFER_TURNS - 1 && s->face[FACE_BLOCKS].view;
    const face *f = &s->face[blocks ? FACE_BLOCKS : FACE_BUFFERS];
    uint32_t *blame = f->blame + turn * f->view->sections;
    plim__exact_style style = r->style;
    make_order(k, f->view, r, blame, s->restarts < RECIPES);
    s->restarts++;
    style.noise = s->restarts > RECIPES ? 0.3 : 0;
    style.seed = s->restarts;
    if (blocks) cap /= (int64_t)f->view->unit;
    *answer = plim__exact_solve(f->exact, k->trial, k->order, cap, &style, limit, blame);
    if (blocks && *answer == PLIM__EXACT_FOUND) plim__pack_blocks_open(&s->blocks, k->trial, k->trial);
    if (blocks && *answer == PLIM__EXACT_NONE) *answer = PLIM__EXACT_LIMIT; /* blocks prove nothing */
    return PLIM_OK;
}

/* Is there a packing of the part of height `cap` or less, which is below the best known? Tries with `quota` nodes. Keeps what it
 * finds. */
static plim__exact_answer ask(packer *k, part_state *s, int64_t cap, uint64_t quota)
{
    const plim__pack_view *v = &s->part->view;
    for (;;) {
        const uint64_t limit = restart_limit(k, s, quota);
        if (limit == 0) return PLIM__EXACT_LIMIT;
        const recipe *r = &recipes[s->restarts % RECIPES];
        const uint64_t before = now_ns();
        uint64_t left = limit;
        plim__exact_answer answer = PLIM__EXACT_LIMIT;
        k->status = restart(k, s, cap, &left, &answer);
        if (k->status != PLIM_OK) return PLIM__EXACT_LIMIT;
        const uint64_t used = left < limit ? limit - left : 1; /* one at least, so that restarts come to an end */
        if (left < limit) k->node_ns = (now_ns() - before) / used + 1;
        PLIM_ASSERT(used <= k->nodes && used <= quota);
        k->nodes -= used;
        quota -= used;
        if (answer == PLIM__EXACT_NONE) s->least = plim__max(s->least, cap + 1);
        if (answer == PLIM__EXACT_FOUND) {
            uint64_t unlimited = UINT64_MAX;
            order_by_offset(k, v, k->trial);
            const bool lower = try_order(k, s, PLIM__FIT_FIRST, &unlimited);
            PLIM_ASSERT(lower && s->height <= cap);
            (void)lower;
            snprintf(s->method, sizeof s->method, "exact search, %s", plim__order_name(r->kind));
        }
        if (answer != PLIM__EXACT_LIMIT) return answer;
    }
}

/* The questions of one round: the goal, then heights from half way up to the best known one. The nearer to that, the more likely
 * is a yes, so each no doubles what the next question may cost; three of them end the round. @return false when no work is left */
static bool search_round(packer *k, part_state *s)
{
    const int64_t goal = plim__max(s->least, k->goal - s->part->base);
    const int64_t step = plim__max(1, s->part->view.bound >> 14);
    const uint64_t quota = s->quota;
    PLIM_ASSERT(goal < s->height && quota > 0); /* or the part would be done */
    s->quota *= 2;
    const uint64_t round = quota / (QUOTA_PER_BUFFER * (uint64_t)s->part->view.n); /* 1, 2, 4 ... */
    const uint64_t share = round < 8 ? 4 * round : 32; /* a short search is spread over heights, a long one goes for the goal */
    if (ask(k, s, goal, share * quota) == PLIM__EXACT_FOUND) return true;
    if (goal > s->least && k->status == PLIM_OK && ask(k, s, s->least, quota) == PLIM__EXACT_FOUND) return true;
    int64_t failed = plim__max(goal, s->least - 1);
    for (int failures = 0; failures < 3 && s->height - failed > step && k->nodes && k->status == PLIM_OK && !out_of_time(k);) {
        const int64_t middle = failed + (s->height - failed) / 2;
        if (ask(k, s, middle, (quota << failures) / 2) == PLIM__EXACT_FOUND) continue;
        failed = middle;
        failures++;
    }
    return k->nodes && !out_of_time(k);
}

static plim_status prepare_search(packer *k, part_state *s)
{
    if (s->face[FACE_BUFFERS].view) return PLIM_OK;
    return open_face(&s->face[FACE_BUFFERS], &s->part->view, k->alloc, k->err);
}

static plim_status search(packer *k)
{
    for (;;) {
        part_state *s = highest_part(k);
        if (!s || is_done(k, s) || k->nodes == 0) return PLIM_OK;
        bool more;
        if (s->part->view.n > PLIM__EXACT_MAX) {
            more = repair(k, s) && !out_of_time(k);
        } else {
            PLIM_TRY(prepare_search(k, s));
            more = search_round(k, s);
            PLIM_TRY(k->status);
        }
        if (!more) return PLIM_OK;
    }
}

/* ------------------------------------------------------------------------------------------------- driver */

static plim_status packer_init(packer *k, const plim__pack_view *view, plim_error *err)
{
    const plim__alloc *a = k->alloc;
    const uint64_t n = view->n;
    PLIM_TRY(plim__pack_parts_init(&k->parts, view, a, err));
    PLIM_TRY(plim__greedy_room_init(&k->room, view->n, a, err));
    k->state = plim__new(a, k->parts.count, sizeof *k->state, err);
    k->offsets = plim__new(a, n, sizeof *k->offsets, err);
    k->trial = plim__new(a, n, sizeof *k->trial, err);
    k->order = plim__new(a, n, sizeof *k->order, err);
    k->blame_below = plim__new(a, n + 1, sizeof *k->blame_below, err);
    if (!k->state || !k->offsets || !k->trial || !k->order || !k->blame_below) return PLIM_E_NOMEM;
    int64_t *offset = k->offsets;
    for (uint32_t i = 0; i < k->parts.count; i++) {
        const plim__pack_part *p = &k->parts.part[i];
        k->state[i] = (part_state){.part = p, .offset = offset, .height = INT64_MAX - p->base, .least = p->view.bound,
                                   .quota = QUOTA_PER_BUFFER * (uint64_t)p->view.n};
        offset += p->view.n;
    }
    return PLIM_OK;
}

static void packer_drop(packer *k)
{
    for (uint32_t i = 0; k->state && i < k->parts.count; i++) {
        for (int f = 0; f < FACES; f++) close_face(&k->state[i].face[f], k->alloc);
        plim__pack_blocks_drop(&k->state[i].blocks, k->alloc);
    }
    plim__free(k->alloc, k->blame_below);
    plim__greedy_room_drop(&k->room, k->alloc);
    plim__free(k->alloc, k->order);
    plim__free(k->alloc, k->trial);
    plim__free(k->alloc, k->offsets);
    plim__free(k->alloc, k->state);
    plim__pack_parts_drop(&k->parts, k->alloc);
}

static void write_back(plim_buffer *buf, const packer *k, const plim__pack_view *view)
{
    for (uint32_t i = 0; i < view->n; i++) {
        if (k->parts.floor_offset[i] >= 0) buf[view->source[i]].offset = (uint64_t)k->parts.floor_offset[i] * view->unit;
    }
    for (uint32_t p = 0; p < k->parts.count; p++) {
        const part_state *s = &k->state[p];
        for (uint32_t i = 0; i < s->part->view.n; i++) {
            const uint32_t source = view->source[s->part->view.source[i]];
            buf[source].offset = (uint64_t)(s->part->base + s->offset[i]) * view->unit;
        }
    }
}

/* The height is what the last byte needs. The searches work with rounded sizes, but what rounding adds to the topmost buffer need
 * not exist, so the largest such padding is taken off what they prove. */
static void fill_result(plim_pack_result *res, const packer *k, const plim__pack_view *view, const plim_buffer *buf, uint32_t count,
                        uint64_t capacity)
{
    const part_state *s = highest_part(k);
    int64_t least = view->bound;
    uint64_t padding = 0;
    *res = (plim_pack_result){0};
    for (uint32_t p = 0; p < k->parts.count; p++) least = plim__max(least, k->state[p].part->base + k->state[p].least);
    for (uint32_t i = 0; i < view->n; i++) {
        const plim_buffer *b = &buf[view->source[i]];
        const uint64_t rounded = (uint64_t)view->size[i] * view->unit;
        if (rounded - b->size > padding) padding = rounded - b->size;
        if (b->offset + b->size > res->height) res->height = b->offset + b->size;
    }
    res->bound = (uint64_t)view->bound * view->unit - padding;
    res->proven = res->height <= (uint64_t)least * view->unit - padding;
    res->fits = capacity == 0 || res->height <= capacity;
    snprintf(res->method, sizeof res->method, "%s", s && count ? s->method : "stacked");
    res->seconds = (double)(now_ns() - k->start_ns) * 1e-9;
}

plim__pack_effort plim__pack_effort_quick(void)
{
    return (plim__pack_effort){.greedy_steps = 8000000, .search_nodes = 0, .seconds = 0};
}

/* A node looks at each buffer two or three times: 20,000,000 looks are some 20 ms. */
plim__pack_effort plim__pack_effort_final(uint32_t count)
{
    plim__pack_effort effort = plim__pack_effort_quick();
    effort.search_nodes = 20000000 / ((uint64_t)count + 1);
    return effort;
}

plim_status plim__pack(plim_buffer *buf, uint32_t count, const plim_pack_options *opt, const plim__pack_effort *effort,
                       plim_pack_result *res, const plim__alloc *a, plim_error *err)
{
    const uint64_t alignment = opt ? opt->alignment : 0, capacity = opt ? opt->capacity : 0;
    packer k = {.alloc = a, .err = err, .random = 0x9e3779b97f4a7c15ull, .steps = effort->greedy_steps, .nodes = effort->search_nodes,
                .start_ns = now_ns(), .node_ns = 1000 + 40 * (uint64_t)count};
    if (effort->seconds > 0) k.deadline_ns = k.start_ns + (uint64_t)(effort->seconds * 1e9);
    plim__pack_view view;
    PLIM_TRY(plim__pack_view_init(&view, buf, count, alignment, a, err));
    const uint64_t wanted = capacity / view.unit < INT64_MAX ? capacity / view.unit : INT64_MAX;
    k.goal = plim__max(view.bound, (int64_t)wanted);
    plim_status status = packer_init(&k, &view, err);
    if (status == PLIM_OK) {
        run_portfolio(&k);
        status = search(&k);
    }
    if (status == PLIM_OK) {
        for (uint32_t i = 0; i < count; i++) buf[i].offset = 0;
        write_back(buf, &k, &view);
        if (res) fill_result(res, &k, &view, buf, count, capacity);
    }
    packer_drop(&k);
    plim__pack_view_drop(&view, a);
    return status;
}

plim_status plim_pack(plim_buffer *buf, uint32_t count, const plim_pack_options *opt, plim_pack_result *res, const plim_settings *set,
                      plim_error *err)
{
    const double seconds = opt ? opt->seconds : 0;
    PLIM_FAIL_IF(count && !buf, err, PLIM_E_INVALID, "no buffers given");
    PLIM_FAIL_IF(!(seconds >= 0 && seconds < 1e9), err, PLIM_E_INVALID, "a search cannot take %g seconds", seconds);
    const plim__alloc a = plim__alloc_from(set);
    const plim__pack_effort effort = {.greedy_steps = UINT64_MAX, .search_nodes = UINT64_MAX,
                                      .seconds = seconds > 0 ? seconds : DEFAULT_SECONDS};
    return plim__pack(buf, count, opt, &effort, res, &a, err);
}
