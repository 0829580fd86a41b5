/* Orders of tasks: expected peaks of small graphs; against every order there is, by dynamic programming written apart; against a greedy that looks at
 * everything each time; and randomly wired cells, whose optimum must be found and proven. */
#include "unit.h"

#include "countdown.h"
#include "task_graph.h"

#include <stdio.h>

static const plim__alloc heap = {0};

/* ------------------------------------------------------------------------------------------- the memory, plainly */

static bool in_list(const plim__lists *l, uint32_t i, uint32_t item)
{
    for (uint32_t k = l->from[i]; k < l->from[i + 1]; k++)
        if (l->item[k] == item) return true;
    return false;
}

/* Is v in memory when exactly the tasks of `ran` have run? */
static bool alive(const plim__tasks *t, const bool *ran, uint32_t v)
{
    bool begun = t->maker[v] != PLIM__NONE && ran[t->maker[v]], ended = true;
    for (uint32_t k = t->uses.from[v]; k < t->uses.from[v + 1]; k++) {
        if (t->maker[v] == PLIM__NONE) begun |= ran[t->uses.item[k]];
        ended &= ran[t->uses.item[k]];
    }
    return begun && (!ended || t->stays[v]);
}

static uint64_t alive_bytes(const plim__tasks *t, const bool *ran)
{
    uint64_t sum = 0;
    for (uint32_t v = 0; v < t->uses.n; v++) sum += alive(t, ran, v) ? t->bytes[v] : 0;
    return sum;
}

/* While i runs. */
static uint64_t needed_bytes(const plim__tasks *t, const bool *ran, uint32_t i)
{
    uint64_t sum = t->extra[i];
    for (uint32_t v = 0; v < t->uses.n; v++)
        if (alive(t, ran, v) || in_list(&t->in, i, v) || in_list(&t->out, i, v)) sum += t->bytes[v];
    return sum;
}

static bool can_run(const plim__tasks *t, const bool *ran, uint32_t i)
{
    if (ran[i]) return false;
    for (uint32_t k = t->in.from[i]; k < t->in.from[i + 1]; k++) {
        const uint32_t maker = t->maker[t->in.item[k]];
        if (maker != PLIM__NONE && maker != i && !ran[maker]) return false;
    }
    for (uint32_t k = t->after.from[i]; k < t->after.from[i + 1]; k++)
        if (!ran[t->after.item[k]]) return false;
    return true;
}

/* The peak of an order, which must be a valid one. */
static uint64_t plain_peak(const plim__tasks *t, const uint32_t *order)
{
    bool *ran = calloc(t->n, sizeof *ran);
    uint64_t peak = 0;
    for (uint32_t p = 0; p < t->n; p++) {
        assert_true(can_run(t, ran, order[p]));
        const uint64_t need = needed_bytes(t, ran, order[p]);
        if (need > peak) peak = need;
        ran[order[p]] = true;
    }
    free(ran);
    return peak;
}

/* The least peak of all orders: least[S] of the orders that begin with the tasks of S, over all sets S. */
static uint64_t least_peak(const plim__tasks *t)
{
    assert_true(t->n <= 16);
    const uint32_t sets = 1u << t->n;
    uint64_t *least = malloc(sets * sizeof *least);
    memset(least, 0xff, sets * sizeof *least);
    least[0] = 0;
    for (uint32_t s = 0; s < sets; s++) {
        if (least[s] == UINT64_MAX) continue;
        bool ran[16];
        for (uint32_t i = 0; i < t->n; i++) ran[i] = s >> i & 1;
        for (uint32_t i = 0; i < t->n; i++) {
            if (!can_run(t, ran, i)) continue;
            const uint64_t need = needed_bytes(t, ran, i), peak = need > least[s] ? need : least[s];
            if (peak < least[s | 1u << i]) least[s | 1u << i] = peak;
        }
    }
    const uint64_t answer = least[sets - 1];
    free(least);
    return answer;
}

/* ------------------------------------------------------------------------------------------------------- helpers */

typedef struct found {
    uint64_t peak, states;
    bool proven;
} found;

/* Orders the tasks and checks what can be checked of any answer. */
static found order_within(const plim__tasks *t, uint32_t *order, uint64_t states)
{
    plim_error err = {0};
    found f = {.states = states};
    uint64_t again;
    if (plim__order_tasks_within(order, &f.peak, &f.proven, &f.states, t, &heap, &err) != PLIM_OK) fail_msg("%s", err.message);
    f.states = states - f.states;
    assert_int_equal(plain_peak(t, order), f.peak);
    assert_int_equal(plim__order_peak(&again, t, order, &heap, &err), PLIM_OK);
    assert_int_equal(again, f.peak);
    return f;
}

static uint64_t list_peak(const plim__tasks *t, plim__list_rule rule, uint32_t *order)
{
    plim_error err = {0};
    if (plim__order_list(order, rule, t, &heap, &err) != PLIM_OK) fail_msg("%s", err.message);
    return plain_peak(t, order);
}

static uint64_t program_peak(const plim__tasks *t)
{
    uint32_t *order = malloc(t->n * sizeof *order);
    for (uint32_t i = 0; i < t->n; i++) order[i] = i;
    const uint64_t peak = plain_peak(t, order);
    free(order);
    return peak;
}

/* Everything that tasks can have: inputs from files with several readers, several outputs, some of them read by nobody, by their own task or kept,
 * extra bytes, values of no bytes, and tasks that come after others. All of a block of tasks come after its first, and that after all before it.
 * A chain of `idle` tasks that need nothing is beside all of them. */
static task_graph random_tasks(uint32_t n, uint32_t block, uint32_t idle, uint64_t seed)
{
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 7;
    task_graph g = task_graph_new(n + idle, 3 * n + 4, n * (8 + block) + idle);
    const uint32_t files = 1 + task_random(&s, 4), reach = 2 + task_random(&s, 12), sizes = task_random(&s, 2) ? 2 : 20;
    for (uint32_t v = 0; v < files; v++) {
        task_value(&g, 1 + task_random(&s, sizes));
        g.t.stays[v] = task_random(&s, 10) == 0;
    }
    for (uint32_t i = 0; i < n; i++) {
        task_begin(&g, task_random(&s, 3) ? 0 : task_random(&s, sizes));
        const uint32_t before = g.n_values, reads = task_random(&s, 4), makes = task_random(&s, 3) ? 1 : task_random(&s, 3);
        for (uint32_t k = 0; k < reads; k++) {
            const uint32_t v = task_random(&s, 4) ? before - 1 - task_random(&s, before < reach ? before : reach) : task_random(&s, files);
            if (!in_list(&g.t.in, i, v)) task_reads(&g, v);
        }
        for (uint32_t k = 0; k < makes; k++) {
            const uint32_t v = task_value(&g, task_random(&s, 8) ? 1 + task_random(&s, sizes) : 0);
            task_makes(&g, v);
            g.t.stays[v] = task_random(&s, 12) == 0;
            if (task_random(&s, 10) == 0) task_reads(&g, v);
        }
        if (i > 0 && task_random(&s, 5) == 0) task_after(&g, task_random(&s, i));
        const uint32_t first = i / block * block;
        for (uint32_t k = i > first || i == 0 ? i : i - block; k < i; k++) task_after(&g, k);
        if (i > first) task_after(&g, first);
    }
    for (uint32_t i = 0; i < idle; i++) {
        task_begin(&g, 0);
        if (i > 0) task_after(&g, n + i - 1);
    }
    task_graph_end(&g);
    return g;
}

/* --------------------------------------------------------------------------------------------------- small graphs */

/* x -> a -> big -> b -> y1, and x -> c -> big -> d -> y2, interleaved by the program: both big ones at once. */
static void branches_run_one_after_the_other(void **state)
{
    (void)state;
    task_graph g = task_graph_new(5, 6, 10);
    const uint32_t x = task_value(&g, 8), big1 = task_value(&g, 64), big2 = task_value(&g, 64), y1 = task_value(&g, 8), y2 = task_value(&g, 8);
    const uint32_t makes[] = {big1, big2, y1, y2}, reads[] = {x, x, big1, big2};
    for (int i = 0; i < 4; i++) {
        task_begin(&g, 0);
        task_reads(&g, reads[i]);
        task_makes(&g, makes[i]);
    }
    task_begin(&g, 0);
    task_reads(&g, y1);
    task_reads(&g, y2);
    task_makes(&g, task_value(&g, 8));
    task_graph_end(&g);
    uint32_t order[5];
    assert_int_equal(program_peak(&g.t), 64 + 64 + 8); /* big1, big2, and x or y1 */
    const found f = order_within(&g.t, order, 1000);
    assert_int_equal(f.peak, 64 + 8 + 8); /* big1, x and y1; then big2, y1 and y2 */
    assert_true(f.proven);
    const uint32_t expected[] = {0, 2, 1, 3, 4};
    assert_memory_equal(order, expected, sizeof expected);
    task_graph_free(&g);
}

static void the_peak_counts_all_there_is(void **state)
{
    (void)state;
    task_graph g = task_graph_new(3, 6, 8);
    const uint32_t file = task_value(&g, 1), kept = task_value(&g, 2), used = task_value(&g, 4), unused = task_value(&g, 8);
    const uint32_t free_of_cost = task_value(&g, 0);
    task_begin(&g, 16); /* file, kept, used, extra: 23 */
    task_reads(&g, file);
    task_makes(&g, kept);
    task_makes(&g, used);
    g.t.stays[kept] = true;
    task_begin(&g, 0); /* kept, used, unused: 14; file has no later reader */
    task_reads(&g, used);
    task_makes(&g, unused);
    task_makes(&g, free_of_cost);
    task_begin(&g, 32); /* kept, extra: 34; the others are gone */
    task_reads(&g, free_of_cost);
    task_graph_end(&g);
    uint32_t order[] = {0, 1, 2};
    uint64_t peak;
    assert_int_equal(plim__order_peak(&peak, &g.t, order, &heap, NULL), PLIM_OK);
    assert_int_equal(peak, 34);
    g.t.extra[2] = 0;
    assert_int_equal(plim__order_peak(&peak, &g.t, order, &heap, NULL), PLIM_OK);
    assert_int_equal(peak, 23);
    g.t.extra[0] = 0;
    assert_int_equal(plim__order_peak(&peak, &g.t, order, &heap, NULL), PLIM_OK);
    assert_int_equal(peak, 14);
    const found f = order_within(&g.t, order, 1000);
    assert_true(f.proven && f.peak == 14);
    task_graph_free(&g);
}

static void no_tasks_need_nothing(void **state)
{
    (void)state;
    task_graph g = task_graph_new(0, 0, 0);
    task_graph_end(&g);
    uint32_t order[1];
    const found f = order_within(&g.t, order, 1000);
    assert_true(f.proven && f.peak == 0);
    task_graph_free(&g);
}

static void equal_tasks_keep_their_order(void **state)
{
    (void)state;
    task_graph g = task_graph_new(80, 80, 80);
    for (uint32_t i = 0; i < 80; i++) {
        task_begin(&g, 8);
        task_makes(&g, task_value(&g, 8));
    }
    task_graph_end(&g);
    uint32_t order[80];
    for (int rule = -1; rule < PLIM__LIST_RULES; rule++) {
        if (rule < 0) assert_true(order_within(&g.t, order, 1000).proven);
        else list_peak(&g.t, (plim__list_rule)rule, order);
        for (uint32_t i = 0; i < 80; i++) assert_int_equal(order[i], i);
    }
    task_graph_free(&g);
}

/* Two chains, interleaved by the program. Every list runs one after the other, and gains nothing: the task that joins them needs most. */
static void equally_good_is_no_reason_to_change(void **state)
{
    (void)state;
    task_graph g = task_graph_new(5, 4, 4);
    for (uint32_t i = 0; i < 5; i++) {
        task_begin(&g, i < 4 ? 0 : 100);
        if (i == 2 || i == 3) task_reads(&g, i - 2);
        if (i < 4) task_makes(&g, task_value(&g, 8));
    }
    task_reads(&g, 2);
    task_reads(&g, 3);
    task_graph_end(&g);
    uint32_t order[5];
    for (plim__list_rule rule = 0; rule < PLIM__LIST_RULES; rule++) {
        assert_int_equal(list_peak(&g.t, rule, order), 116);
        assert_int_equal(order[1], 2);
    }
    assert_int_equal(order_within(&g.t, order, 1000).peak, 116);
    for (uint32_t i = 0; i < 5; i++) assert_int_equal(order[i], i);
    task_graph_free(&g);
}

static void sums_beyond_63_bits_are_refused(void **state)
{
    (void)state;
    task_graph g = task_graph_new(1, 2, 1);
    task_begin(&g, 0);
    task_makes(&g, task_value(&g, INT64_MAX));
    task_makes(&g, task_value(&g, 1));
    task_graph_end(&g);
    uint32_t order[1] = {0};
    uint64_t peak;
    bool proven;
    plim_error err = {0};
    assert_int_equal(plim__order_peak(&peak, &g.t, order, &heap, &err), PLIM_E_OVERFLOW);
    assert_non_null(strstr(err.message, "2^63"));
    assert_int_equal(plim__order_tasks(order, &peak, &proven, &g.t, &heap, NULL), PLIM_E_OVERFLOW);
    g.t.bytes[1] = UINT64_MAX;
    assert_int_equal(plim__order_peak(&peak, &g.t, order, &heap, NULL), PLIM_E_OVERFLOW);
    task_graph_free(&g);
}

/* ------------------------------------------------------------------------------------------------- training graphs */

static void updates_run_as_soon_as_they_can(void **state)
{
    (void)state;
    uint32_t updates;
    task_graph g = training_tasks(40, &updates);
    uint32_t *order = malloc(g.t.n * sizeof *order);
    const uint64_t greedy = list_peak(&g.t, PLIM__LIST_GREEDY, order);
    for (uint32_t p = 1; p < g.t.n; p++) {
        if (order[p] < updates) continue;
        const uint32_t layer = order[p] - updates, gradient_of_input = 40 + 1 + 2 * (40 - 1 - layer) + 1;
        assert_true(order[p - 1] == gradient_of_input || order[p - 1] == gradient_of_input - 1); /* the last that it waits for */
    }
    const found f = order_within(&g.t, order, 100000);
    assert_true(greedy < program_peak(&g.t));
    assert_true(f.peak <= greedy);
    free(order);
    task_graph_free(&g);
}

/* ------------------------------------------------------------------------------------------------- against all orders */

static void small_graphs_get_their_optimum(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 400; seed++) {
        uint32_t order[16];
        task_graph g = random_tasks(1 + (uint32_t)(seed % 11), 16, 0, seed);
        const found f = order_within(&g.t, order, PLIM__ORDER_STATES);
        assert_true(f.proven);
        assert_int_equal(f.peak, least_peak(&g.t));
        task_graph_free(&g);
    }
}

/* Values go past blocks, are read from files in several of them, and stay. */
static void blocks_of_tasks_get_their_optimum(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint32_t order[16];
        task_graph g = random_tasks(12 + (uint32_t)(seed % 5), 6 + (uint32_t)(seed % 3), 0, 1000 + seed);
        const found f = order_within(&g.t, order, PLIM__ORDER_STATES);
        assert_true(f.proven);
        assert_int_equal(f.peak, least_peak(&g.t));
        task_graph_free(&g);
    }
}

static void small_cells_get_their_optimum(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 16; seed++) {
        uint32_t order[16];
        task_graph g = random_cell(12 + (uint32_t)(seed % 4), 4, 75, seed, seed % 2 ? 8 : 1);
        const found f = order_within(&g.t, order, PLIM__ORDER_STATES);
        assert_true(f.proven);
        assert_int_equal(f.peak, least_peak(&g.t));
        task_graph_free(&g);
    }
}

/* Too long for the exact search, but what makes it long changes nothing about the optimum. */
static void long_segments_claim_nothing_wrong(void **state)
{
    (void)state;
    uint32_t proven = 0, best = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint32_t order[80];
        task_graph g = random_tasks(11, 16, 0, seed), longer = random_tasks(11, 16, 60, seed);
        const found f = order_within(&longer.t, order, PLIM__ORDER_STATES);
        const uint64_t least = least_peak(&g.t);
        assert_true(f.proven ? f.peak == least : f.peak >= least);
        proven += f.proven;
        best += f.peak == least;
        task_graph_free(&g);
        task_graph_free(&longer);
    }
    assert_true(proven > 150 && best > 285);
}

/* Whatever it claims to be proven is, however little it may look at; and it is never worse than the program's order. */
static void little_effort_claims_nothing_wrong(void **state)
{
    (void)state;
    uint32_t unproven = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        uint32_t order[16];
        task_graph g = seed % 3 ? random_tasks(9, 5, 0, seed) : random_cell(11, 4, 75, seed, 8);
        const found f = order_within(&g.t, order, seed % 7);
        assert_true(f.states <= seed % 7);
        assert_true(f.peak <= program_peak(&g.t));
        if (f.proven) assert_int_equal(f.peak, least_peak(&g.t));
        unproven += !f.proven;
        task_graph_free(&g);
    }
    assert_true(unproven > 10);
}

/* ---------------------------------------------------------------------------------------------------------- lists */

/* Greedy, looking at everything each time. */
static void plain_greedy(const plim__tasks *t, uint32_t *order)
{
    bool *ran = calloc(t->n, sizeof *ran);
    for (uint32_t p = 0; p < t->n; p++) {
        int64_t best_growth = INT64_MAX;
        uint64_t best_need = UINT64_MAX;
        const uint64_t live = alive_bytes(t, ran);
        for (uint32_t i = 0; i < t->n; i++) {
            if (!can_run(t, ran, i)) continue;
            const uint64_t need = needed_bytes(t, ran, i);
            ran[i] = true;
            const int64_t growth = (int64_t)alive_bytes(t, ran) - (int64_t)live;
            ran[i] = false;
            if (growth > best_growth || (growth == best_growth && need >= best_need)) continue;
            best_growth = growth;
            best_need = need;
            order[p] = i;
        }
        ran[order[p]] = true;
    }
    free(ran);
}

static void greedy_is_what_it_says(void **state)
{
    (void)state;
    uint32_t order[60], expected[60];
    for (uint64_t seed = 0; seed < 200; seed++) {
        task_graph g = seed % 4 ? random_tasks(5 + (uint32_t)(seed % 40), 30, 0, seed) : random_cell(40, 4, 75, seed, 8);
        list_peak(&g.t, PLIM__LIST_GREEDY, order);
        plain_greedy(&g.t, expected);
        assert_memory_equal(order, expected, g.t.n * sizeof *order);
        task_graph_free(&g);
    }
}

static void no_list_is_better_than_what_is_chosen(void **state)
{
    (void)state;
    uint32_t order[200];
    for (uint64_t seed = 0; seed < 60; seed++) {
        task_graph g = random_tasks(20 + (uint32_t)(3 * seed), seed % 2 ? 1000 : 70, 0, seed); /* the longer ones go window by window */
        const found f = order_within(&g.t, order, 5000);
        assert_true(f.peak <= program_peak(&g.t));
        for (plim__list_rule rule = 0; rule < PLIM__LIST_RULES; rule++) assert_true(f.peak <= list_peak(&g.t, rule, order));
        task_graph_free(&g);
    }
}

/* ---------------------------------------------------------------------------------------------------------- cells */

static void randomly_wired_cells_are_proven(void **state)
{
    (void)state;
    uint32_t better = 0;
    for (uint32_t sizes = 1; sizes <= 8; sizes += 7) {
        for (uint64_t seed = 0; seed < 10; seed++) {
            uint32_t order[33], greedy[33];
            task_graph g = random_cell(32, 4, 75, seed, sizes);
            const found f = order_within(&g.t, order, PLIM__ORDER_STATES);
            assert_true(f.proven);
            const uint64_t listed = list_peak(&g.t, PLIM__LIST_GREEDY, greedy);
            assert_true(f.peak <= listed && f.peak <= program_peak(&g.t));
            better += f.peak < listed;
            task_graph_free(&g);
        }
    }
    assert_true(better > 10); /* or there was nothing to search for */
}

/* `cells` copies of a cell, each reading the output of the one before; values of `long_way` bytes go past each of them. */
static task_graph chain_of_cells(const plim__tasks *cell, uint32_t cells, uint64_t long_way)
{
    const uint32_t n = cell->n, values = cell->uses.n;
    task_graph g = task_graph_new(cells * n, cells * (values + 1), cells * (cell->in.n_items + 2));
    uint32_t input = task_value(&g, cell->bytes[0]), past = PLIM__NONE;
    for (uint32_t c = 0; c < cells; c++) {
        const uint32_t value0 = g.n_values - 1; /* value v of the cell, v > 0, is value0 + v here */
        for (uint32_t v = 1; v < values; v++) task_value(&g, cell->bytes[v]);
        for (uint32_t i = 0; i < n; i++) {
            task_begin(&g, cell->extra[i]);
            for (uint32_t k = cell->in.from[i]; k < cell->in.from[i + 1]; k++)
                task_reads(&g, cell->in.item[k] == 0 ? input : value0 + cell->in.item[k]);
            for (uint32_t k = cell->out.from[i]; k < cell->out.from[i + 1]; k++) task_makes(&g, value0 + cell->out.item[k]);
        }
        if (past != PLIM__NONE) task_reads(&g, past);
        input = value0 + cell->out.item[cell->out.from[n - 1]];
        task_makes(&g, past = task_value(&g, long_way));
    }
    task_graph_end(&g);
    return g;
}

static void segments_are_solved_apart(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 3; seed++) {
        task_graph cell = random_cell(14, 4, 75, seed, 8), once = chain_of_cells(&cell.t, 2, 999), many = chain_of_cells(&cell.t, 40, 999);
        uint32_t *order = malloc(many.t.n * sizeof *order);
        const found two = order_within(&once.t, order, PLIM__ORDER_STATES), all = order_within(&many.t, order, PLIM__ORDER_STATES);
        assert_true(two.proven && all.proven);
        assert_true(all.states <= 40 * (two.states + 1)); /* the sum over the cells, not the product */
        /* The second cell of two has all that a cell in the middle has but a reader of what goes past it. */
        assert_true(all.peak >= two.peak && all.peak <= two.peak + 999);
        for (uint32_t p = 0; p < many.t.n; p++) assert_int_equal(order[p] / cell.t.n, p / cell.t.n);
        free(order);
        task_graph_free(&cell);
        task_graph_free(&once);
        task_graph_free(&many);
    }
}

/* ------------------------------------------------------------------------------------------------------- failures */

static void every_allocation_may_fail(void **state)
{
    (void)state;
    task_graph graphs[] = {random_cell(32, 4, 75, 4, 8), random_tasks(100, 1000, 0, 3)};
    for (uint32_t k = 0; k < COUNT_OF(graphs); k++) {
        uint32_t order[100];
        bool done = false;
        for (int64_t nth = 0; !done; nth++) {
            countdown c = {.left = nth, .from_then = nth % 2};
            const plim__alloc a = countdown_of(&c);
            plim_error err = {0};
            uint64_t peak, states = 5000;
            bool proven;
            const plim_status status = plim__order_tasks_within(order, &peak, &proven, &states, &graphs[k].t, &a, &err);
            done = c.failed == 0;
            assert_int_equal(status, done ? PLIM_OK : PLIM_E_NOMEM);
            assert_int_equal(c.live, 0);
        }
        task_graph_free(&graphs[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(branches_run_one_after_the_other),
        cmocka_unit_test(the_peak_counts_all_there_is),
        cmocka_unit_test(no_tasks_need_nothing),
        cmocka_unit_test(equal_tasks_keep_their_order),
        cmocka_unit_test(equally_good_is_no_reason_to_change),
        cmocka_unit_test(sums_beyond_63_bits_are_refused),
        cmocka_unit_test(updates_run_as_soon_as_they_can),
        cmocka_unit_test(small_graphs_get_their_optimum),
        cmocka_unit_test(blocks_of_tasks_get_their_optimum),
        cmocka_unit_test(small_cells_get_their_optimum),
        cmocka_unit_test(long_segments_claim_nothing_wrong),
        cmocka_unit_test(little_effort_claims_nothing_wrong),
        cmocka_unit_test(greedy_is_what_it_says),
        cmocka_unit_test(no_list_is_better_than_what_is_chosen),
        cmocka_unit_test(randomly_wired_cells_are_proven),
        cmocka_unit_test(segments_are_solved_apart),
        cmocka_unit_test(every_allocation_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
