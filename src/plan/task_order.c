/* Chooses the order of the tasks of an uncut pass, segment by segment.
 *
 * A task that every other one comes before or after is at the same place in every order, and what lies between two of them stays between them: a
 * segment. What is alive at its borders does not depend on the order inside, so segments are independent, and the peak is the highest of theirs. In a
 * network that is a chain of cells, the cells are segments.
 *
 * Each segment takes the best of the orders at hand (task_order_list.c). Then, the highest first, the exact search (task_order_exact.c) has it, as
 * far as the number of sets that it may look at goes. Of a segment that is too long for it, a window around the highest place is put into the best
 * order, and again around the place that is then the highest, until that does not help. That proves nothing; what does is a task at the highest place
 * that needs as much in every order. */
#include "plan/task_order.h"
#include "core/size.h"

#include <stdlib.h>
#include <string.h>

#define WINDOW_STATES 20000 /* sets for one window: what is missed there is missed in the next one, too */
#define WINDOW_ROUNDS 64
#define MOST_LOOKS 8 /* tasks: each look goes over the whole graph */

enum { ABOVE = 1, BELOW = 2 };

typedef struct orderer {
    const plim__tasks *t;
    uint32_t *order, *place; /* the best so far; the place of each task in it */
    uint32_t *other;         /* an order to compare with */
    uint64_t *live, *need;   /* per place of the order profiled last: alive before it, and while it runs */
    uint32_t *left;          /* per value: readers that have not run */
    uint8_t *side;           /* per task: ABOVE one, BELOW it */
    uint32_t *next, *last;   /* per task: the first that comes right after it; 1 + the last that it comes right after */
    plim__order_part *part; uint32_t n_parts;
    uint64_t *states;
    const plim__alloc *a;
    plim_error *err;
} orderer;

/* ------------------------------------------------------------------------------------------------ the profile */

/* All sums of bytes are parts of this one. */
static plim_status check_total(const plim__tasks *t, plim_error *err)
{
    uint64_t total = 0;
    bool ok = true;
    for (uint32_t v = 0; v < t->uses.n; v++) ok = ok && plim__add(&total, total, t->bytes[v]);
    for (uint32_t i = 0; i < t->n; i++) ok = ok && plim__add(&total, total, t->extra[i]);
    PLIM_FAIL_IF(!ok || total > INT64_MAX, err, PLIM_E_OVERFLOW, "the values of the %u steps together exceed 2^63 bytes", t->n);
    return PLIM_OK;
}

static bool stays(const plim__tasks *t, uint32_t v) { return t->stays && t->stays[v]; }

/* Runs task i. @return the bytes alive afterwards */
static uint64_t run_task(const plim__tasks *t, uint32_t i, uint32_t *left, uint64_t live, uint64_t *need)
{
    for (uint32_t k = t->out.from[i]; k < t->out.from[i + 1]; k++) live += t->bytes[t->out.item[k]];
    for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++) {
        const uint32_t v = t->in.item[k];
        PLIM_ASSERT(left[v] > 0); /* each reader runs once, and no value leaves before */
        if (t->maker[v] == PLIM__NONE && left[v] == plim__list_len(&t->uses, v)) live += t->bytes[v];
        left[v]--;
    }
    *need = live + t->extra[i];
    for (uint32_t k = t->out.from[i]; k < t->out.from[i + 1]; k++)
        if (left[t->out.item[k]] == 0 && !stays(t, t->out.item[k])) live -= t->bytes[t->out.item[k]];
    for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++) {
        const uint32_t v = t->in.item[k];
        if (left[v] == 0 && t->maker[v] != i && !stays(t, v)) live -= t->bytes[v];
    }
    return live;
}

static uint64_t profile(const plim__tasks *t, const uint32_t *order, uint32_t *left, uint64_t *live, uint64_t *need)
{
    uint64_t now = 0, peak = 0;
    for (uint32_t v = 0; v < t->uses.n; v++) left[v] = plim__list_len(&t->uses, v);
    for (uint32_t p = 0; p < t->n; p++) {
        uint64_t at;
        if (live) live[p] = now;
        now = run_task(t, order[p], left, now, &at);
        if (need) need[p] = at;
        if (at > peak) peak = at;
    }
    PLIM_ASSERT(t->stays || now == 0); /* whatever came has left */
    return peak;
}

plim_status plim__order_peak(uint64_t *peak, const plim__tasks *t, const uint32_t *order, const plim__alloc *a, plim_error *err)
{
    PLIM_TRY(check_total(t, err));
    uint32_t *left = plim__new(a, t->uses.n, sizeof *left, err);
    if (!left) return PLIM_E_NOMEM;
    *peak = profile(t, order, left, NULL, NULL);
    plim__free(a, left);
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ the segments */

static void add_edge(orderer *o, uint32_t from, uint32_t to)
{
    if (from == PLIM__NONE || from == to) return;
    PLIM_ASSERT(from < to);
    if (to < o->next[from]) o->next[from] = to;
    if (from + 1 > o->last[to]) o->last[to] = from + 1;
}

static void add_part(orderer *o, uint32_t lo, uint32_t hi)
{
    PLIM_ASSERT(lo == (o->n_parts ? o->part[o->n_parts - 1].hi : 0) && hi <= o->t->n); /* segments follow each other without a gap */
    if (lo < hi) o->part[o->n_parts++] = (plim__order_part){.lo = lo, .hi = hi};
}

/* In the program's order: all tasks before c must come before it if each leads to one that is not behind c, and all behind it must come after it if
 * each is led to by one that is not before c. Each such task is a segment of its own, and so is what lies between two of them. */
static void find_parts(orderer *o)
{
    const plim__tasks *t = o->t;
    memset(o->next, 0xff, t->n * sizeof *o->next);
    for (uint32_t i = 0; i < t->n; i++) {
        for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++) add_edge(o, t->maker[t->in.item[k]], i);
        for (uint32_t k = t->after.from[i]; k < t->after.from[i + 1]; k++) add_edge(o, t->after.item[k], i);
    }
    uint32_t *least = o->other; /* of `last` behind each task */
    for (uint32_t i = t->n, low = UINT32_MAX; i-- > 0;) {
        least[i] = low;
        if (o->last[i] < low) low = o->last[i];
    }
    uint32_t from = 0, most = 0;
    for (uint32_t c = 0; c < t->n; c++) {
        if (most <= c && least[c] >= c + 1) {
            add_part(o, from, c);
            add_part(o, c, c + 1);
            from = c + 1;
        }
        if (o->next[c] > most) most = o->next[c];
    }
    add_part(o, from, t->n);
}

static uint64_t highest(const uint64_t *need, const plim__order_part *p)
{
    uint64_t peak = 0;
    for (uint32_t i = p->lo; i < p->hi; i++)
        if (need[i] > peak) peak = need[i];
    return peak;
}

/* Takes over the segments in which the other order is better. */
static void merge(orderer *o)
{
    profile(o->t, o->other, o->left, o->live, o->need);
    for (uint32_t k = 0; k < o->n_parts; k++) {
        plim__order_part *p = &o->part[k];
        const uint64_t peak = highest(o->need, p);
        p->live = o->live[p->lo];
        if (peak >= p->peak) continue;
        p->peak = peak;
        memcpy(o->order + p->lo, o->other + p->lo, (p->hi - p->lo) * sizeof *o->order);
    }
}

static plim_status list_orders(orderer *o)
{
    for (uint32_t k = 0; k < o->n_parts; k++) o->part[k].peak = UINT64_MAX;
    for (uint32_t i = 0; i < o->t->n; i++) o->other[i] = i;
    merge(o);
    if (o->n_parts == o->t->n) return PLIM_OK;
    for (plim__list_rule rule = 0; rule < PLIM__LIST_RULES; rule++) {
        PLIM_TRY(plim__order_list(o->other, rule, o->t, o->a, o->err));
        merge(o);
    }
    for (uint32_t i = 0; i < o->t->n; i++) o->place[o->order[i]] = i;
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- the best */

/* Marks the tasks that come before task i in every order, and those that come after it in every order; i itself is both. */
static void relate(orderer *o, uint32_t i)
{
    const plim__tasks *t = o->t;
    memset(o->side, 0, t->n * sizeof *o->side);
    o->side[i] = ABOVE | BELOW;
    for (uint32_t j = i + 1; j-- > 0;) {
        if (!(o->side[j] & ABOVE)) continue;
        for (uint32_t k = t->in.from[j]; k < t->in.from[j + 1]; k++)
            if (t->maker[t->in.item[k]] != PLIM__NONE) o->side[t->maker[t->in.item[k]]] |= ABOVE;
        for (uint32_t k = t->after.from[j]; k < t->after.from[j + 1]; k++) o->side[t->after.item[k]] |= ABOVE;
    }
    for (uint32_t j = i + 1; j < t->n; j++) {
        uint8_t any = 0;
        for (uint32_t k = t->in.from[j]; k < t->in.from[j + 1]; k++)
            if (t->maker[t->in.item[k]] != PLIM__NONE) any |= o->side[t->maker[t->in.item[k]]];
        for (uint32_t k = t->after.from[j]; k < t->after.from[j + 1]; k++) any |= o->side[t->after.item[k]];
        o->side[j] |= any & BELOW;
    }
}

/* What there must be while task i runs, in any order: what was made before it for somebody behind it, and what it needs itself. */
static uint64_t least_need(orderer *o, uint32_t i)
{
    const plim__tasks *t = o->t;
    uint64_t need = t->extra[i];
    relate(o, i);
    for (uint32_t v = 0; v < t->uses.n; v++) {
        uint8_t made = t->maker[v] == PLIM__NONE ? 0 : o->side[t->maker[v]], read = 0;
        for (uint32_t k = t->uses.from[v]; k < t->uses.from[v + 1]; k++) read |= o->side[t->uses.item[k]];
        if (t->maker[v] == PLIM__NONE) made = read;
        if ((made & ABOVE) && ((read & BELOW) || t->maker[v] == i || stays(t, v))) need += t->bytes[v];
    }
    return need;
}

/* Does a task at the highest places of a segment, from `at` on, need as much in every order? */
static bool is_least(orderer *o, const plim__order_part *p, uint32_t at)
{
    uint32_t looks = 0;
    for (; at < p->hi && looks < MOST_LOOKS; at++) {
        if (o->need[at] < p->peak) continue;
        const uint64_t least = least_need(o, o->order[at]);
        PLIM_ASSERT(least <= o->need[at] && o->need[at] == p->peak); /* this order is one of those that the least is over */
        if (least == p->peak) return true;
        looks++;
    }
    return false;
}

/* A segment that is too long: lowers its highest place as long as that helps. */
static plim_status improve(orderer *o, plim__order_part *p)
{
    for (uint32_t round = 0; round <= WINDOW_ROUNDS; round++) {
        profile(o->t, o->order, o->left, o->live, o->need);
        p->peak = highest(o->need, p);
        uint32_t at = p->lo;
        while (o->need[at] < p->peak) at++;
        PLIM_ASSERT(at < p->hi);
        p->proven = is_least(o, p, at);
        if (p->proven || round == WINDOW_ROUNDS || *o->states == 0) return PLIM_OK;
        const uint32_t half = PLIM__ORDER_EXACT_MAX / 2;
        plim__order_part window = {.lo = at - p->lo > half ? at - half : p->lo, .peak = p->peak};
        window.hi = p->hi - window.lo > 2 * half ? window.lo + 2 * half : p->hi;
        window.live = o->live[window.lo];
        uint64_t states = *o->states < WINDOW_STATES ? *o->states : WINDOW_STATES;
        *o->states -= states;
        PLIM_TRY(plim__order_exact(o->order, o->place, &window, &states, o->t, o->a, o->err));
        PLIM_ASSERT(window.peak <= p->peak && window.lo <= at && at < window.hi && o->place[o->order[at]] == at);
        *o->states += states;
        if (window.peak == p->peak) return PLIM_OK;
    }
    return PLIM_OK;
}

static int compare_parts(const void *pa, const void *pb)
{
    const plim__order_part *a = pa, *b = pb;
    if (a->peak != b->peak) return a->peak > b->peak ? -1 : 1;
    return a->lo < b->lo ? -1 : a->lo > b->lo;
}

/* No order has a lower peak than a task needs by itself. */
static uint64_t largest_task(const plim__tasks *t)
{
    uint64_t most = 0;
    for (uint32_t i = 0; i < t->n; i++) {
        uint64_t need = t->extra[i];
        for (uint32_t k = t->out.from[i]; k < t->out.from[i + 1]; k++) need += t->bytes[t->out.item[k]];
        for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++)
            if (t->maker[t->in.item[k]] != i) need += t->bytes[t->in.item[k]];
        if (need > most) most = need;
    }
    return most;
}

static plim_status choose(orderer *o, uint64_t *peak, bool *proven)
{
    find_parts(o);
    PLIM_TRY(list_orders(o));
    qsort(o->part, o->n_parts, sizeof *o->part, compare_parts);
    uint64_t bound = largest_task(o->t);
    *peak = 0;
    for (uint32_t k = 0; k < o->n_parts; k++) {
        plim__order_part *p = &o->part[k];
        p->proven = p->hi - p->lo == 1;
        if (p->hi - p->lo > PLIM__ORDER_EXACT_MAX) PLIM_TRY(improve(o, p));
        else if (!p->proven) PLIM_TRY(plim__order_exact(o->order, o->place, p, o->states, o->t, o->a, o->err));
        if (p->proven && p->peak > bound) bound = p->peak;
        if (p->peak > *peak) *peak = p->peak;
    }
    PLIM_ASSERT(*peak >= bound); /* no order is better than what is proven of all */
    *proven = *peak <= bound;
    return PLIM_OK;
}

plim_status plim__order_tasks_within(uint32_t *order, uint64_t *peak, bool *proven, uint64_t *states, const plim__tasks *t, const plim__alloc *a,
                                     plim_error *err)
{
    PLIM_TRY(check_total(t, err));
    orderer o = {.t = t, .order = order, .states = states, .a = a, .err = err};
    uint32_t **const per_task[] = {&o.place, &o.other, &o.next, &o.last};
    bool ok = true;
    for (uint32_t k = 0; k < sizeof per_task / sizeof *per_task; k++) ok &= (*per_task[k] = plim__new(a, t->n, sizeof **per_task[k], err)) != NULL;
    ok &= (o.left = plim__new(a, t->uses.n, sizeof *o.left, err)) != NULL;
    ok &= (o.side = plim__new(a, t->n, sizeof *o.side, err)) != NULL;
    ok &= (o.live = plim__new(a, t->n, sizeof *o.live, err)) != NULL;
    ok &= (o.need = plim__new(a, t->n, sizeof *o.need, err)) != NULL;
    ok &= (o.part = plim__new(a, t->n, sizeof *o.part, err)) != NULL;
    const plim_status status = ok ? choose(&o, peak, proven) : PLIM_E_NOMEM;
    void *tables[] = {o.place, o.other, o.next, o.last, o.left, o.side, o.live, o.need, o.part};
    for (uint32_t k = 0; k < sizeof tables / sizeof *tables; k++) plim__free(a, tables[k]);
    return status;
}

plim_status plim__order_tasks(uint32_t *order, uint64_t *peak, bool *proven, const plim__tasks *t, const plim__alloc *a, plim_error *err)
{
    uint64_t states = PLIM__ORDER_STATES;
    return plim__order_tasks_within(order, peak, proven, &states, t, a, err);
}
