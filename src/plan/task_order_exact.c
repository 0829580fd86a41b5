/* The exact search: in which order do at most 64 tasks need least?
 *
 * What is alive depends only on the set of tasks that have run, so the search goes depth-first over sets, 64-bit words, and asks whether all
 * tasks can run within a limit. A set from which they cannot is remembered. Each order that is found lowers the limit below its own peak; what
 * cannot be done within a limit cannot be done within a lower one, so the memory serves all of them. When the search fails, the last order found
 * is the best.
 *
 * What keeps the sets few: write live(S) for the bytes alive after the set S. By values one sees that live is submodular,
 *     live(S + T) + live(S & T) <= live(S) + live(T),
 * so what a task adds only gets less when others have run before it. If a task can run now and adds nothing, it may as well run now: in any order
 * that is possible from here it can be moved to the front, and no other task needs more by it. The same holds for a chain of tasks, each of which
 * must come after the one before it, that ends with no more alive than at its start and has more at each place between: where an order has the
 * chain's first k tasks done, having run the rest of it, too, adds no more than live(whole chain) - live(first k) <= 0. So such tasks and chains
 * are run without trying anything else, and only sets where there are none of them branch.
 *
 * The bound below which there is nothing to search: some task runs, and beside what it needs itself there is what was made before it (by tasks
 * that it comes after) for somebody behind it.
 *
 * All sums are below 2^63 (plim__order_tasks checks). Depth of recursion: one frame per task. One search serves one thread. */
#include "plan/task_order.h"

#include <string.h>

#define TABLE_START 1024 /* sets; a power of two */

typedef struct input {
    uint64_t others; /* tasks of the part that read it as well */
    int64_t bytes;
    bool read;       /* comes into memory with its first reader */
    bool stays;      /* is needed behind the part */
} input;

typedef struct member {
    uint64_t before, ready_next; /* tasks of the part: that it comes after; that come right after it */
    uint64_t above, below;       /* all that come before it; all that come after it */
    int64_t need, growth;        /* beside the live bytes while it runs; left by it; what its inputs add is not in it */
    uint32_t in0, in1;           /* its inputs whose part depends on who has run */
} member;

typedef struct choice {
    int64_t growth, need;
    uint32_t task;
} choice;

typedef struct state {
    uint64_t done, ready;
    int64_t live;
} state;

typedef enum answer { FOUND, NONE, LIMIT } answer;

typedef struct search {
    const plim__tasks *t;
    const plim__alloc *a;
    plim_error *err;
    plim_status status;
    const uint32_t *order, *place;
    uint32_t lo, n;
    uint64_t all;
    member task[PLIM__ORDER_EXACT_MAX];
    input *in;      uint32_t n_in, cap_in;
    uint64_t *fails; uint64_t n_fails, cap_fails; /* an open hash table; 0 is free: the empty set ends the search when it fails */
    uint8_t run[PLIM__ORDER_EXACT_MAX]; uint32_t n_run; /* the path to the present set */
    int64_t limit, peak, bound;
    uint64_t states;
} search;

/* -------------------------------------------------------------------------------------------------- the tasks */

static uint64_t bit(uint32_t i) { return UINT64_C(1) << i; }

static uint32_t lowest(uint64_t set)
{
    PLIM_ASSERT(set != 0); /* the empty set has none, and ctz of it no value */
    return (uint32_t)__builtin_ctzll(set);
}

/* Which tasks of the part read v; `earlier` and `later` say whether others do. */
static uint64_t readers_of(const search *x, uint32_t v, bool *earlier, bool *later)
{
    const plim__lists *uses = &x->t->uses;
    uint64_t set = 0;
    *earlier = *later = false;
    for (uint32_t k = uses->from[v]; k < uses->from[v + 1]; k++) {
        const uint32_t at = x->place[uses->item[k]];
        if (at < x->lo) *earlier = true;
        else if (at >= x->lo + x->n) *later = true;
        else set |= bit(at - x->lo);
    }
    return set;
}

static bool inside(const search *x, uint32_t task)
{
    return task != PLIM__NONE && x->place[task] >= x->lo && x->place[task] < x->lo + x->n;
}

static void add_before(search *x, uint32_t i, uint32_t task)
{
    if (!inside(x, task) || x->place[task] == x->lo + i) return;
    x->task[i].before |= bit(x->place[task] - x->lo);
}

/* v must be alive while the tasks run that come behind one of `from` (or are among them) and before one of `to` (or are among them). */
static void raise_bounds(const search *x, uint64_t from, uint64_t to, int64_t bytes, int64_t *bound)
{
    for (uint32_t i = 0; i < x->n; i++) {
        const uint64_t self = bit(i);
        if (((x->task[i].above | self) & from) && ((x->task[i].below | self) & to)) bound[i] += bytes;
    }
}

/* Task i reads v. Whatever does not depend on who has run goes into its sums. */
static plim_status add_input(search *x, uint32_t i, uint32_t v)
{
    bool earlier, later;
    const uint32_t maker = x->t->maker[v];
    const int64_t bytes = (int64_t)x->t->bytes[v];
    if (bytes == 0 || (maker != PLIM__NONE && x->place[maker] == x->lo + i)) return PLIM_OK;
    const uint64_t others = readers_of(x, v, &earlier, &later) & ~bit(i);
    const bool read = maker == PLIM__NONE && !earlier, stays = later || (x->t->stays && x->t->stays[v]);
    member *m = &x->task[i];
    if (others == 0) {
        m->need += read ? bytes : 0;
        m->growth += (read ? bytes : 0) - (stays ? 0 : bytes);
        return PLIM_OK;
    }
    if (!read && stays) return PLIM_OK;
    PLIM_TRY(plim__grow(x->a, (void **)&x->in, &x->cap_in, x->n_in + 1, sizeof *x->in, x->err));
    x->in[x->n_in++] = (input){.others = others, .bytes = bytes, .read = read, .stays = stays};
    return PLIM_OK;
}

static plim_status add_task(search *x, uint32_t i)
{
    const plim__tasks *t = x->t;
    const uint32_t task = x->order[x->lo + i];
    member *m = &x->task[i];
    *m = (member){.need = (int64_t)t->extra[task], .in0 = x->n_in};
    for (uint32_t k = t->in.from[task]; k < t->in.from[task + 1]; k++) {
        add_before(x, i, t->maker[t->in.item[k]]);
        PLIM_TRY(add_input(x, i, t->in.item[k]));
    }
    for (uint32_t k = t->after.from[task]; k < t->after.from[task + 1]; k++) add_before(x, i, t->after.item[k]);
    for (uint32_t k = t->out.from[task]; k < t->out.from[task + 1]; k++) {
        bool earlier, later;
        const uint32_t v = t->out.item[k];
        const uint64_t others = readers_of(x, v, &earlier, &later) & ~bit(i);
        m->need += (int64_t)t->bytes[v];
        if (others || later || (t->stays && t->stays[v])) m->growth += (int64_t)t->bytes[v];
    }
    m->in1 = x->n_in;
    return PLIM_OK;
}

/* Who comes before whom, over any number of tasks between: the part is in a valid order. */
static void relate(search *x)
{
    for (uint32_t i = 0; i < x->n; i++) {
        member *m = &x->task[i];
        PLIM_ASSERT(m->before < bit(i));
        m->above = m->before;
        for (uint64_t s = m->before; s; s &= s - 1) m->above |= x->task[lowest(s)].above;
        for (uint64_t s = m->before; s; s &= s - 1) x->task[lowest(s)].ready_next |= bit(i);
    }
    for (uint32_t i = x->n; i-- > 0;) {
        x->task[i].below = x->task[i].ready_next;
        for (uint64_t s = x->task[i].ready_next; s; s &= s - 1) x->task[i].below |= x->task[lowest(s)].below;
    }
}

/* Values that a task of the part touches, each once: with its maker if that is in the part, else with its first reader there. */
static void bound_values(const search *x, uint32_t i, const plim__lists *l, int64_t *bound, int64_t *live)
{
    const uint32_t task = x->order[x->lo + i];
    for (uint32_t k = l->from[task]; k < l->from[task + 1]; k++) {
        bool earlier, later;
        const uint32_t v = l->item[k], maker = x->t->maker[v];
        const uint64_t readers = readers_of(x, v, &earlier, &later);
        const bool made = inside(x, maker);
        if (made ? x->place[maker] != x->lo + i || l == &x->t->in : lowest(readers) != i) continue;
        const bool there = !made && (maker != PLIM__NONE || earlier), stays = later || (x->t->stays && x->t->stays[v]);
        raise_bounds(x, there ? x->all : made ? bit(i) : readers, (stays ? x->all : readers) | (made ? bit(i) : 0), (int64_t)x->t->bytes[v], bound);
        if (there) *live -= (int64_t)x->t->bytes[v];
    }
}

/* What is alive before the part and touched by nobody in it is there all the time. */
static void set_bound(search *x, uint64_t live)
{
    int64_t bound[PLIM__ORDER_EXACT_MAX] = {0}, untouched = (int64_t)live;
    for (uint32_t i = 0; i < x->n; i++) {
        bound_values(x, i, &x->t->in, bound, &untouched);
        bound_values(x, i, &x->t->out, bound, &untouched);
    }
    for (uint32_t i = 0; i < x->n; i++) {
        const int64_t need = untouched + bound[i] + (int64_t)x->t->extra[x->order[x->lo + i]];
        if (need > x->bound) x->bound = need;
    }
}

/* ---------------------------------------------------------------------------------------------- sets that fail */

static uint64_t table_place(const search *x, uint64_t set)
{
    PLIM_ASSERT((x->cap_fails & (x->cap_fails - 1)) == 0 && 2 * x->n_fails <= x->cap_fails); /* so there is a free place, and the search ends */
    uint64_t h = set * UINT64_C(0x9e3779b97f4a7c15);
    h = (h ^ (h >> 32)) & (x->cap_fails - 1);
    while (x->fails[h] && x->fails[h] != set) h = (h + 1) & (x->cap_fails - 1);
    return h;
}

static bool fails(const search *x, uint64_t set) { return x->fails[table_place(x, set)] == set && set; }

static plim_status grow_table(search *x)
{
    uint64_t *old = x->fails;
    const uint64_t n = x->cap_fails;
    uint64_t *bigger = plim__new(x->a, n ? 2 * n : TABLE_START, sizeof *bigger, x->err);
    if (!bigger) return PLIM_E_NOMEM;
    x->fails = bigger;
    x->cap_fails = n ? 2 * n : TABLE_START;
    for (uint64_t i = 0; i < n; i++)
        if (old[i]) bigger[table_place(x, old[i])] = old[i];
    plim__free(x->a, old);
    return PLIM_OK;
}

static plim_status add_failure(search *x, uint64_t set)
{
    if (set == 0) return PLIM_OK;
    if (2 * (x->n_fails + 1) > x->cap_fails) PLIM_TRY(grow_table(x));
    const uint64_t place = table_place(x, set);
    PLIM_ASSERT(x->fails[place] == 0); /* a set that has failed is not searched again */
    x->fails[place] = set;
    x->n_fails++;
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------------- the search */

/* What it would take to run task i now. */
static choice weigh(const search *x, const state *s, uint32_t i)
{
    const member *m = &x->task[i];
    choice c = {.growth = m->growth, .need = m->need, .task = i};
    for (const input *in = x->in + m->in0; in < x->in + m->in1; in++) {
        if (in->read && !(in->others & s->done)) {
            c.need += in->bytes;
            c.growth += in->bytes;
        } else if (!in->stays && !(in->others & ~s->done)) {
            c.growth -= in->bytes;
        }
    }
    return c;
}

static bool fits(const search *x, const state *s, const choice *c) { return s->live + c->need <= x->limit; }

static void run(search *x, state *s, const choice *c)
{
    PLIM_ASSERT((s->ready & bit(c->task)) && !(s->done & bit(c->task)) && x->n_run < x->n);
    s->done |= bit(c->task);
    s->ready &= ~bit(c->task);
    s->live += c->growth;
    PLIM_ASSERT(s->live >= 0); /* what is freed was alive */
    for (uint64_t next = x->task[c->task].ready_next; next; next &= next - 1) {
        const uint32_t i = lowest(next);
        if (!(x->task[i].before & ~s->done)) s->ready |= bit(i);
    }
    x->run[x->n_run++] = (uint8_t)c->task;
    PLIM_ASSERT(x->n_run == (uint32_t)__builtin_popcountll(s->done)); /* the path is that to this set */
}

/* Follows the chain that begins with `c` and goes on with the first task that each makes possible: does it get to where no more is alive than now? */
static bool run_chain(search *x, state *s, const choice *c)
{
    const uint32_t n_run = x->n_run;
    const state was = *s;
    choice next = *c;
    while (fits(x, s, &next)) {
        const uint64_t ready = s->ready;
        run(x, s, &next);
        if (s->live <= was.live) return true;
        const uint64_t fresh = s->ready & ~ready;
        if (fresh == 0) break;
        next = weigh(x, s, lowest(fresh));
    }
    x->n_run = n_run;
    *s = was;
    return false;
}

/* Runs whatever may run without a choice. What is left to choose from is in `list`; @return how many. */
static uint32_t settle(search *x, state *s, choice *list)
{
    for (;;) {
        uint32_t n = 0;
        bool ran = false;
        for (uint64_t set = s->ready; set && !ran; set &= set - 1) {
            const choice c = weigh(x, s, lowest(set));
            if (!fits(x, s, &c)) continue;
            if (c.growth > 0) list[n++] = c;
            else run(x, s, &c), ran = true;
        }
        for (uint32_t k = 0; k < n && !ran; k++) ran = run_chain(x, s, &list[k]);
        if (!ran) return n;
    }
}

static bool goes_first(const choice *a, const choice *b)
{
    if (a->growth != b->growth) return a->growth < b->growth;
    if (a->need != b->need) return a->need < b->need;
    return a->task < b->task;
}

static void sort_choices(choice *list, uint32_t n)
{
    for (uint32_t k = 1; k < n; k++) {
        const choice c = list[k];
        uint32_t at = k;
        for (; at > 0 && goes_first(&c, &list[at - 1]); at--) list[at] = list[at - 1];
        list[at] = c;
    }
}

/* A set and what it becomes by itself are both remembered: most sets are met again, and need not be settled then. */
static answer descend(search *x, state s)
{
    choice list[PLIM__ORDER_EXACT_MAX];
    const uint64_t given = s.done;
    if (fails(x, given)) return NONE;
    if (x->states == 0) return LIMIT;
    x->states--;
    const uint32_t n = settle(x, &s, list);
    if (s.done == x->all) return FOUND;
    if (s.done == given || !fails(x, s.done)) {
        sort_choices(list, n);
        const uint32_t n_run = x->n_run;
        for (uint32_t k = 0; k < n; k++) {
            state next = s;
            x->n_run = n_run;
            run(x, &next, &list[k]);
            const answer found = descend(x, next);
            if (found != NONE) return found;
        }
        x->status = add_failure(x, s.done);
    }
    if (x->status == PLIM_OK && s.done != given) x->status = add_failure(x, given);
    return x->status == PLIM_OK ? NONE : LIMIT;
}

/* The peak of the path found. */
static int64_t path_peak(const search *x, const state *start)
{
    state s = *start;
    int64_t peak = 0;
    for (uint32_t k = 0; k < x->n; k++) {
        const choice c = weigh(x, &s, x->run[k]);
        if (s.live + c.need > peak) peak = s.live + c.need;
        s.done |= bit(c.task);
        s.live += c.growth;
    }
    return peak;
}

/* Lowers the limit until nothing is found below it. @param best  [n] the order found last */
static answer lower(search *x, const state *start, uint8_t *best)
{
    while (x->peak > x->bound) {
        x->limit = x->peak - 1;
        x->n_run = 0;
        const answer found = descend(x, *start);
        if (found != FOUND) return found;
        x->peak = path_peak(x, start);
        PLIM_ASSERT(x->peak <= x->limit && x->peak >= x->bound && x->n_run == x->n);
        memcpy(best, x->run, x->n);
    }
    return NONE;
}

static plim_status solve(search *x, plim__order_part *part, uint8_t *best)
{
    for (uint32_t i = 0; i < x->n; i++) PLIM_TRY(add_task(x, i));
    relate(x);
    set_bound(x, part->live);
    PLIM_ASSERT(x->bound <= x->peak); /* the order at hand needs no less than every order does */
    PLIM_TRY(grow_table(x));
    state start = {.live = (int64_t)part->live};
    for (uint32_t i = 0; i < x->n; i++)
        if (x->task[i].before == 0) start.ready |= bit(i);
    part->proven = lower(x, &start, best) == NONE;
    return x->status;
}

plim_status plim__order_exact(uint32_t *order, uint32_t *place, plim__order_part *part, uint64_t *states, const plim__tasks *t, const plim__alloc *a,
                              plim_error *err)
{
    const uint32_t n = part->hi - part->lo;
    PLIM_ASSERT(n > 0 && n <= PLIM__ORDER_EXACT_MAX);
    PLIM_ASSERT(place[order[part->lo]] == part->lo && place[order[part->hi - 1]] == part->hi - 1);
    uint8_t best[PLIM__ORDER_EXACT_MAX];
    uint32_t tasks[PLIM__ORDER_EXACT_MAX];
    search x = {.t = t, .a = a, .err = err, .order = order, .place = place, .lo = part->lo, .n = n, .peak = (int64_t)part->peak, .states = *states};
    x.all = n == 64 ? UINT64_MAX : bit(n) - 1;
    part->proven = false;
    const plim_status status = solve(&x, part, best);
    *states = x.states;
    if (status == PLIM_OK && (uint64_t)x.peak < part->peak) {
        memcpy(tasks, order + part->lo, n * sizeof *tasks);
        for (uint32_t k = 0; k < n; k++) place[order[part->lo + k] = tasks[best[k]]] = part->lo + k;
        part->peak = (uint64_t)x.peak;
    }
    plim__free(a, x.in);
    plim__free(a, x.fails);
    return status;
}
