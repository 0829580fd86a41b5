/* List scheduling: of the tasks that can run, the one that a rule likes best runs next.
 *
 * For every task `growth` is what running it now would add to what is alive, `need` what it would take beside it while it runs. Both change only when
 * somebody else runs, and only downwards:
 *   - a value that is read from a file costs its first reader room, the others none;
 *   - the last reader of a value frees it. Who that is shows when one reader is left: the exclusive or of the readers that are left is its number.
 * So each value causes at most one change per reader and one more, and the tasks that can run stand in a heap in which they only rise. */
#include "plan/task_order.h"

#include <string.h>

typedef struct lister {
    const plim__tasks *t;
    plim__list_rule rule;
    uint32_t now;
    int64_t *growth;
    uint64_t *need;
    uint32_t *waits;    /* per task: for how many inputs and tasks */
    uint32_t *since;    /* per task: when it became possible */
    uint32_t *slot;     /* per task: its place in the heap, PLIM__NONE outside */
    uint32_t *heap, n_heap;
    uint32_t *left;     /* per value: readers that have not run */
    uint32_t *left_xor; /* per value: their numbers */
    uint32_t *then_from, *then; /* per task: those that must come after it for another reason than its values */
} lister;

/* -------------------------------------------------------------------------------------------------- the heap */

static bool goes_first(const lister *l, uint32_t a, uint32_t b)
{
    const bool free_a = l->growth[a] <= 0, free_b = l->growth[b] <= 0;
    const bool by_growth = l->rule == PLIM__LIST_GREEDY || (l->rule == PLIM__LIST_MIXED && free_a && free_b);
    if (l->rule == PLIM__LIST_MIXED && free_a != free_b) return free_a;
    if (!by_growth && l->since[a] != l->since[b]) return l->since[a] > l->since[b];
    if (by_growth && l->growth[a] != l->growth[b]) return l->growth[a] < l->growth[b];
    if (by_growth && l->need[a] != l->need[b]) return l->need[a] < l->need[b];
    return a < b;
}

static void heap_put(lister *l, uint32_t at, uint32_t task)
{
    l->heap[at] = task;
    l->slot[task] = at;
}

static void heap_rise(lister *l, uint32_t at, uint32_t task)
{
    PLIM_ASSERT(at < l->n_heap && l->waits[task] == 0);
    for (uint32_t up; at > 0 && goes_first(l, task, l->heap[up = (at - 1) / 2]); at = up) heap_put(l, at, l->heap[up]);
    heap_put(l, at, task);
}

static uint32_t heap_pop(lister *l)
{
    PLIM_ASSERT(l->n_heap > 0 && l->slot[l->heap[0]] == 0);
    const uint32_t top = l->heap[0], last = l->heap[--l->n_heap];
    uint32_t at = 0;
    for (uint32_t down; (down = 2 * at + 1) < l->n_heap; at = down) {
        if (down + 1 < l->n_heap && goes_first(l, l->heap[down + 1], l->heap[down])) down++;
        if (goes_first(l, last, l->heap[down])) break;
        heap_put(l, at, l->heap[down]);
    }
    heap_put(l, at, last);
    l->slot[top] = PLIM__NONE;
    return top;
}

static void fell(lister *l, uint32_t task)
{
    if (l->slot[task] != PLIM__NONE) heap_rise(l, l->slot[task], task);
}

static void wait_less(lister *l, uint32_t task)
{
    PLIM_ASSERT(l->waits[task] > 0 && l->slot[task] == PLIM__NONE); /* it stands in the heap only when it waits for nobody */
    if (--l->waits[task] > 0) return;
    l->since[task] = l->now;
    heap_rise(l, l->n_heap++, task);
}

/* ----------------------------------------------------------------------------------------------------- tasks */

static bool stays(const plim__tasks *t, uint32_t v) { return t->stays && t->stays[v]; }

static void start_task(lister *l, uint32_t i)
{
    const plim__tasks *t = l->t;
    l->need[i] = t->extra[i];
    for (uint32_t k = t->out.from[i]; k < t->out.from[i + 1]; k++) {
        const uint32_t v = t->out.item[k];
        const uint32_t readers = l->left[v] - (l->left[v] == 1 && l->left_xor[v] == i); /* one that only its maker reads is not kept */
        l->need[i] += t->bytes[v];
        if (readers > 0 || stays(t, v)) l->growth[i] += (int64_t)t->bytes[v];
    }
    for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++) {
        const uint32_t v = t->in.item[k];
        const bool read = t->maker[v] == PLIM__NONE;
        if (t->maker[v] == i) continue;
        l->waits[i] += !read;
        if (read) l->need[i] += t->bytes[v];
        if (read && (l->left[v] > 1 || stays(t, v))) l->growth[i] += (int64_t)t->bytes[v];
        if (!read && l->left[v] == 1 && !stays(t, v)) l->growth[i] -= (int64_t)t->bytes[v];
    }
    l->waits[i] += plim__list_len(&t->after, i);
}

/* Task i has read v. */
static void has_read(lister *l, uint32_t i, uint32_t v)
{
    const plim__tasks *t = l->t;
    const bool first = l->left[v] == plim__list_len(&t->uses, v);
    l->left[v]--;
    l->left_xor[v] ^= i;
    PLIM_ASSERT(l->left[v] == 0 ? l->left_xor[v] == 0 : l->left[v] > 1 || l->left_xor[v] < t->n); /* with one left, it is that one's number */
    if (t->bytes[v] == 0) return;
    if (first && t->maker[v] == PLIM__NONE) {
        for (uint32_t k = t->uses.from[v]; k < t->uses.from[v + 1]; k++) {
            const uint32_t other = t->uses.item[k];
            if (other == i) continue;
            l->growth[other] -= (int64_t)t->bytes[v];
            l->need[other] -= t->bytes[v];
            fell(l, other);
        }
    }
    if (l->left[v] == 1 && !stays(t, v)) {
        l->growth[l->left_xor[v]] -= (int64_t)t->bytes[v];
        fell(l, l->left_xor[v]);
    }
}

static void run_task(lister *l, uint32_t i)
{
    const plim__tasks *t = l->t;
    l->now++;
    for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++) has_read(l, i, t->in.item[k]);
    for (uint32_t k = t->out.from[i]; k < t->out.from[i + 1]; k++) {
        const uint32_t v = t->out.item[k];
        for (uint32_t w = t->uses.from[v]; w < t->uses.from[v + 1]; w++)
            if (t->uses.item[w] != i) wait_less(l, t->uses.item[w]);
    }
    for (uint32_t k = l->then_from[i]; k < l->then_from[i + 1]; k++) wait_less(l, l->then[k]);
}

/* `after`, the other way round. Counted one place too far to the right, so that filling in moves each to where it belongs. */
static void list_then(lister *l)
{
    const plim__lists *after = &l->t->after;
    for (uint32_t k = 0; k < after->n_items; k++) l->then_from[after->item[k] + 2]++;
    for (uint32_t i = 0; i < l->t->n; i++) l->then_from[i + 2] += l->then_from[i + 1];
    for (uint32_t i = 0; i < l->t->n; i++)
        for (uint32_t k = after->from[i]; k < after->from[i + 1]; k++) l->then[l->then_from[after->item[k] + 1]++] = i;
    PLIM_ASSERT(l->then_from[0] == 0 && l->then_from[l->t->n] == after->n_items);
}

static void fill_order(lister *l, uint32_t *order)
{
    const plim__tasks *t = l->t;
    list_then(l);
    memset(l->slot, 0xff, t->n * sizeof *l->slot);
    for (uint32_t v = 0; v < t->uses.n; v++) {
        l->left[v] = plim__list_len(&t->uses, v);
        for (uint32_t k = t->uses.from[v]; k < t->uses.from[v + 1]; k++) l->left_xor[v] ^= t->uses.item[k];
    }
    for (uint32_t i = 0; i < t->n; i++) start_task(l, i);
    for (uint32_t i = 0; i < t->n; i++)
        if (l->waits[i] == 0) heap_rise(l, l->n_heap++, i);
    uint32_t n = 0;
    while (l->n_heap > 0) run_task(l, order[n++] = heap_pop(l));
    PLIM_ASSERT(n == t->n);
}

plim_status plim__order_list(uint32_t *order, plim__list_rule rule, const plim__tasks *t, const plim__alloc *a, plim_error *err)
{
    lister l = {.t = t, .rule = rule};
    uint32_t **const per_task[] = {&l.waits, &l.since, &l.slot, &l.heap}, **const per_value[] = {&l.left, &l.left_xor};
    bool ok = true;
    for (uint32_t k = 0; k < sizeof per_task / sizeof *per_task; k++) ok &= (*per_task[k] = plim__new(a, t->n, sizeof **per_task[k], err)) != NULL;
    for (uint32_t k = 0; k < sizeof per_value / sizeof *per_value; k++)
        ok &= (*per_value[k] = plim__new(a, t->uses.n, sizeof **per_value[k], err)) != NULL;
    ok &= (l.growth = plim__new(a, t->n, sizeof *l.growth, err)) != NULL;
    ok &= (l.need = plim__new(a, t->n, sizeof *l.need, err)) != NULL;
    ok &= (l.then_from = plim__new(a, (uint64_t)t->n + 2, sizeof *l.then_from, err)) != NULL;
    ok &= (l.then = plim__new(a, t->after.n_items, sizeof *l.then, err)) != NULL;
    if (ok) fill_order(&l, order);
    void *tables[] = {l.waits, l.since, l.slot, l.heap, l.left, l.left_xor, l.growth, l.need, l.then_from, l.then};
    for (uint32_t k = 0; k < sizeof tables / sizeof *tables; k++) plim__free(a, tables[k]);
    return ok ? PLIM_OK : PLIM_E_NOMEM;
}
