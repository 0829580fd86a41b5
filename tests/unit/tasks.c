/* Tasks of random passes, with loops and without: every list is worked out again from the pass, edge by edge. */
#include "unit.h"

#include "plan/search.h"
#include "plan/tasks.h"
#include "random_graph.h"

#include <math.h>
#include <stdlib.h>

#define PROGRAMS 400

typedef struct bench {
    random_graph r;
    plim__frontier f;
    plim__labels labels;
    plim__measure m;
    plim__pass p;
    plim__tasks u;
    uint32_t *at; /* per task: where it stands in the order by group */
} bench;

static void bench_begin(bench *b, random_how how)
{
    *b = (bench){0};
    random_graph_begin(&b->r, how);
    plim_plan *plan = b->r.plan;
    const plim_graph *g = b->r.g;
    b->f = (plim__frontier){.small = UINT64_MAX, .spill_above = UINT64_MAX, .end = UINT32_MAX};
    b->f.active = calloc(g->n_nodes, sizeof *b->f.active);
    b->f.made = calloc(g->n_nodes, sizeof *b->f.made);
    b->f.on_file = calloc(g->n_values, sizeof *b->f.on_file);
    assert_true(b->f.active && b->f.made && b->f.on_file);
    plan->read_copies = plan->write_copies = 1 + random_below(&b->r, 3);
    plim__plan_io(plan, 2);
    plim__plan_hold(plan, how.seed % 2 ? UINT64_MAX : 0);
    plim__plan_clear(plan);
    assert_int_equal(plim__frontier_update(plan, &b->f), PLIM_OK);
    assert_int_equal(plim__labels_new(&b->labels, g, &plan->nest, &g->alloc, NULL), PLIM_OK);
    plim__labels_spread(&b->labels, g, b->f.active, b->f.on_file, plan->is_state);
}

static void bench_end(bench *b)
{
    plim__labels_free(&b->labels, &b->r.g->alloc);
    plim__measure_free(&b->m, &b->r.plan->alloc);
    free(b->f.active);
    free(b->f.made);
    free(b->f.on_file);
    random_graph_end(&b->r);
}

/* A pass with these loops, of tiles about a third as long, and its tasks. @return there is one */
static bool tasks_begin(bench *b, uint32_t cut)
{
    uint8_t order[PLIM__MAX_LOOPS];
    uint32_t n = 0;
    for (int cut_ones = 1; cut_ones >= 0; cut_ones--)
        for (uint32_t l = 0; l < b->labels.n; l++)
            if ((cut >> l & 1) == (uint32_t)cut_ones) order[n++] = (uint8_t)l;
    const plim_status status = plim__pass_build(&b->p, b->r.plan, &b->f, &b->labels, cut, order, NULL);
    if (status == PLIM_E_PLAN) return false;
    assert_int_equal(status, PLIM_OK);
    for (uint32_t l = 0; l < b->p.n_cut; l++) b->p.loop[l].tile = (b->p.loop[l].extent + 2) / 3;
    assert_int_equal(plim__pass_measure(&b->m, b->r.plan, &b->p, 0, true, NULL), PLIM_OK);
    const uint64_t resident = random_below(&b->r, 2) ? random_below(&b->r, 5) * 8192u : 0;
    assert_int_equal(plim__tasks_new(&b->u, b->r.plan, &b->p, &b->m, resident, NULL), PLIM_OK);
    b->at = calloc(b->u.n, sizeof *b->at);
    assert_non_null(b->at);
    return true;
}

static void tasks_end(bench *b)
{
    plim__tasks_free(&b->u, &b->r.plan->alloc);
    plim__pass_free(&b->r.plan->alloc, &b->p);
    free(b->at);
}

/* --------------------------------------------------------------------------------------------- the pass, plainly */

static const plim__node *graph_node(const bench *b, uint32_t i) { return &b->r.g->node[b->p.node[i].node]; }

static uint32_t operand(const bench *b, uint32_t i, uint32_t k) { return b->p.operand[b->p.node[i].in0 + k]; }

static bool node_reads(const bench *b, uint32_t i, uint32_t v)
{
    for (uint32_t k = 0; k < graph_node(b, i)->n_in; k++)
        if (operand(b, i, k) == v) return true;
    return false;
}

static bool node_makes(const bench *b, uint32_t i, uint32_t v) { return b->p.value[v].producer == i; }

static bool task_has(const bench *b, uint32_t t, uint32_t v, bool (*fn)(const bench *, uint32_t, uint32_t))
{
    const plim__stage *s = &b->p.stage[t];
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        if (fn(b, i, v)) return true;
    return false;
}

/* In memory, and not carried. */
static bool is_free(const bench *b, uint32_t v)
{
    const plim__role role = b->p.value[v].role;
    return role != PLIM__ROLE_CONST && role != PLIM__ROLE_PRIVATE && !b->u.is_carried[v];
}

static uint32_t count_in(const plim__lists *l, uint32_t i, uint32_t item)
{
    uint32_t n = 0;
    for (uint32_t k = l->from[i]; k < l->from[i + 1]; k++) n += l->item[k] == item;
    return n;
}

/* -------------------------------------------------------------------------------------------------------- checks */

/* Every node of the pass is in exactly one task, of the group of its depth. */
static void check_partition(const bench *b)
{
    uint32_t *seen = calloc(b->p.n_nodes, sizeof *seen);
    assert_non_null(seen);
    assert_int_equal(b->u.n, b->p.n_stages);
    assert_int_equal(b->u.n_groups, 2 * b->p.n_cut + 1);
    for (uint32_t t = 0; t < b->u.n; t++)
        for (uint32_t i = b->p.stage[t].first; i < b->p.stage[t].first + b->p.stage[t].count; i++) {
            seen[i]++;
            assert_int_equal(b->u.group[t], plim__group_of(&b->p, b->p.node[i].depth, b->p.node[i].post));
        }
    for (uint32_t i = 0; i < b->p.n_nodes; i++) assert_int_equal(seen[i], 1);
    free(seen);
}

/* In and out have each free value that is read and made once, and no other; uses is in the other way round; maker says
 * who makes what. */
static void check_lists(const bench *b)
{
    for (uint32_t v = 0; v < b->p.n_values; v++) {
        const bool in_memory = b->p.value[v].role != PLIM__ROLE_CONST && b->p.value[v].role != PLIM__ROLE_PRIVATE;
        uint32_t last = 0;
        for (uint32_t t = 0; t < b->u.n; t++) {
            const bool reads = task_has(b, t, v, node_reads), makes = task_has(b, t, v, node_makes);
            assert_int_equal(count_in(&b->u.in, t, v), is_free(b, v) && reads);
            assert_int_equal(count_in(&b->u.out, t, v), is_free(b, v) && makes);
            assert_int_equal(count_in(&b->u.uses, v, t), is_free(b, v) && reads);
            if (makes) assert_int_equal(b->u.maker[v], in_memory ? t : PLIM__NONE);
        }
        if (b->p.value[v].producer == PLIM__NONE) assert_int_equal(b->u.maker[v], PLIM__NONE);
        for (uint32_t k = b->u.uses.from[v]; k < b->u.uses.from[v + 1]; k++) {
            assert_true(b->u.uses.item[k] >= last); /* rising */
            last = b->u.uses.item[k];
        }
        if (!is_free(b, v))
            assert_true(b->u.bytes[v] == 0);
        else if (!b->p.value[v].foreign)
            assert_true(b->u.bytes[v] > 0 || b->r.g->value[b->p.value[v].value].bytes == 0);
    }
}

/* What one task makes and another reads is free in both of their lists, or is carried between their groups. Private
 * values stay inside. */
static void check_dependencies(const bench *b)
{
    for (uint32_t i = 0; i < b->p.n_nodes; i++)
        for (uint32_t k = 0; k < graph_node(b, i)->n_in; k++) {
            const uint32_t v = operand(b, i, k), by = b->p.value[v].producer;
            if (by == PLIM__NONE || b->p.node[by].stage == b->p.node[i].stage) continue;
            const uint32_t from = b->p.node[by].stage, to = b->p.node[i].stage;
            assert_int_not_equal(b->p.value[v].role, PLIM__ROLE_PRIVATE);
            assert_true(b->at[from] < b->at[to]);
            if (is_free(b, v)) assert_true(count_in(&b->u.out, from, v) == 1 && count_in(&b->u.in, to, v) == 1);
            if (b->u.group[from] != b->u.group[to]) assert_true(b->u.is_carried[v]);
        }
}

/* Who overwrites a state comes after all tasks that read a box of it, and nobody else comes after anybody. */
static void check_after(const bench *b)
{
    const plim_graph *g = b->r.g;
    for (uint32_t t = 0; t < b->u.n; t++)
        for (uint32_t other = 0; other < b->u.n; other++) {
            bool want = false;
            for (uint32_t s = 0; s < g->n_states; s++)
                for (uint32_t v = 0; v < b->p.n_values; v++) {
                    if (b->p.value[v].value != g->state[s].in || !is_free(b, v) || other == t) continue;
                    for (uint32_t w = 0; w < b->p.n_values && task_has(b, other, v, node_reads); w++)
                        want |=
                            b->p.value[w].value == g->state[s].out && is_free(b, w) && task_has(b, t, w, node_makes);
                }
            assert_int_equal(count_in(&b->u.after, t, other) > 0, want);
            if (want) assert_true(b->at[other] < b->at[t]);
        }
}

/* By group: all of them, once, each group behind the one before. */
static void check_order(bench *b)
{
    uint32_t *order = calloc(b->u.n, sizeof *order);
    assert_non_null(order);
    plim__tasks_by_group(order, &b->u);
    for (uint32_t i = 0; i < b->u.n; i++) b->at[i] = PLIM__NONE;
    for (uint32_t i = 0; i < b->u.n; i++) {
        assert_true(order[i] < b->u.n && b->at[order[i]] == PLIM__NONE);
        b->at[order[i]] = i;
        if (i > 0) assert_true(b->u.group[order[i - 1]] <= b->u.group[order[i]]);
    }
    free(order);
}

/* Nodes that recompute v: of its task alone, in order, each needed by a later one or by v; whatever they read is made
 * by one of them or is in remake_in, and that is all there is. */
static void check_remake(const bench *b, uint32_t v)
{
    const plim__lists *nodes = &b->u.remake, *in = &b->u.remake_in;
    const bool can = is_free(b, v) && b->u.maker[v] != PLIM__NONE;
    assert_int_equal(plim__list_len(nodes, v) > 0, can);
    if (!can) assert_int_equal(plim__list_len(in, v), 0);
    for (uint32_t k = nodes->from[v]; k < nodes->from[v + 1]; k++) {
        const uint32_t i = nodes->item[k];
        bool needed = node_makes(b, i, v);
        assert_int_equal(b->p.node[i].stage, b->u.maker[v]);
        for (uint32_t w = k + 1; w < nodes->from[v + 1]; w++) {
            assert_true(nodes->item[w] > i);
            for (uint32_t j = 0; j < graph_node(b, i)->n_out; j++)
                needed |= b->p.value[b->p.node[i].out[j]].role == PLIM__ROLE_PRIVATE &&
                          node_reads(b, nodes->item[w], b->p.node[i].out[j]);
        }
        assert_true(needed);
        for (uint32_t j = 0; j < graph_node(b, i)->n_in; j++) {
            const uint32_t x = operand(b, i, j);
            if (b->p.value[x].role == PLIM__ROLE_PRIVATE)
                assert_int_equal(count_in(nodes, v, b->p.value[x].producer), 1);
            else
                assert_int_equal(count_in(in, v, x), is_free(b, x));
        }
    }
    for (uint32_t k = in->from[v]; k < in->from[v + 1]; k++) {
        bool read = false;
        for (uint32_t i = nodes->from[v]; i < nodes->from[v + 1]; i++)
            read |= node_reads(b, nodes->item[i], in->item[k]);
        assert_true(read);
    }
}

/* Sums that loops make cannot be made again in one trip; everything else can, and takes time. */
static void check_remake_seconds(const bench *b, uint32_t v)
{
    bool sums = false;
    for (uint32_t k = b->u.remake.from[v]; k < b->u.remake.from[v + 1]; k++)
        sums |= b->p.node[b->u.remake.item[k]].accumulates;
    if (plim__list_len(&b->u.remake, v) > 0)
        assert_true(sums ? isinf(b->u.remake_seconds[v])
                         : b->u.remake_seconds[v] > 0 && isfinite(b->u.remake_seconds[v]));
}

/* Boxes of each value of the graph: a chain of all of them. */
static void check_boxes(const bench *b)
{
    uint32_t n = 0;
    for (uint32_t v = 0; v < b->r.g->n_values; v++)
        for (uint32_t x = b->u.first_of[v]; x != PLIM__NONE; x = b->u.next_of[x], n++) {
            assert_int_equal(b->p.value[x].value, v);
            assert_true(b->u.next_of[x] == PLIM__NONE || b->u.next_of[x] > x);
        }
    assert_int_equal(n, b->p.n_values);
}

/* A value may take the place only of a free input of its own task. */
static void check_over(const bench *b)
{
    for (uint32_t v = 0; v < b->p.n_values; v++)
        for (uint32_t k = b->u.over.from[v]; k < b->u.over.from[v + 1]; k++) {
            assert_true(is_free(b, v) && b->u.maker[v] != PLIM__NONE);
            assert_int_equal(count_in(&b->u.in, b->u.maker[v], b->u.over.item[k]), 1);
        }
}

static double trips_of(const bench *b, uint32_t g)
{
    const uint32_t depth = g <= b->p.n_cut ? g : 2 * b->p.n_cut - g;
    double n = 1;
    for (uint32_t l = 0; l < depth; l++) {
        int64_t trips = 0;
        for (int64_t at = 0; at < b->p.loop[l].extent; at += b->p.loop[l].tile) trips++;
        n *= (double)trips;
    }
    return n;
}

static uint64_t slot_bytes(const bench *b, uint32_t v)
{
    const plim__slot *s = &b->m.slot[b->p.value[v].slot];
    const bool whole = b->p.value[v].alias_of == PLIM__NONE;
    return (s->bytes * (whole ? s->copies : 1) + PLIM__IO_ALIGN - 1) / PLIM__IO_ALIGN * PLIM__IO_ALIGN;
}

/* Carried bytes of a group: at least those of what is made or read up to it, and read from it on. Nothing is carried
 * without loops. */
static void check_carried(const bench *b)
{
    for (uint32_t g = 0; g < b->u.n_groups; g++) {
        uint64_t least = 0, all = 0;
        for (uint32_t v = 0; v < b->p.n_values; v++) {
            if (!b->u.is_carried[v]) continue;
            uint32_t first = UINT32_MAX, last = 0;
            for (uint32_t i = 0; i < b->p.n_nodes; i++) {
                const uint32_t at = b->u.group[b->p.node[i].stage];
                if (!node_reads(b, i, v) && !node_makes(b, i, v)) continue;
                first = at < first ? at : first;
                last = at > last ? at : last;
            }
            assert_true(b->p.n_cut > 0);
            all += slot_bytes(b, v);
            if (first <= g && g <= last) least += slot_bytes(b, v);
        }
        for (uint32_t i = 0; i < b->p.n_nodes; i++)
            if (b->p.node[i].accumulates && b->p.node[i].copies_slot != PLIM__NONE) {
                const plim__slot *s = &b->m.slot[b->p.node[i].copies_slot];
                all += (s->bytes * s->copies + PLIM__IO_ALIGN - 1) / PLIM__IO_ALIGN * PLIM__IO_ALIGN;
            }
        assert_true(b->u.trips[g] == trips_of(b, g));
        assert_true(b->u.carried[g] >= least);
        assert_true(b->u.carried[g] <= all);
    }
}

/* The largest need of a task lies between what its own lists add up to with every output on top of the largest input
 * that it may overwrite, and without. */
static void check_largest(const bench *b)
{
    uint64_t most = 0, least = 0;
    for (uint32_t t = 0; t < b->u.n; t++) {
        uint64_t sum = b->u.extra[t] + b->u.carried[b->u.group[t]];
        for (uint32_t v = 0; v < b->p.n_values; v++) sum += count_in(&b->u.in, t, v) ? b->u.bytes[v] : 0;
        least = sum > least ? sum : least;
        for (uint32_t v = 0; v < b->p.n_values; v++) sum += count_in(&b->u.out, t, v) ? b->u.bytes[v] : 0;
        most = sum > most ? sum : most;
    }
    for (uint32_t g = 0; g < b->u.n_groups; g++) {
        least = b->u.carried[g] > least ? b->u.carried[g] : least;
        most = b->u.carried[g] > most ? b->u.carried[g] : most;
    }
    const uint64_t largest = plim__tasks_largest(&b->u);
    assert_true(least <= largest && largest <= most);
    if (b->u.over.n_items == 0) assert_true(largest == most);
}

static void check_tasks(bench *b)
{
    check_partition(b);
    check_order(b);
    check_lists(b);
    check_dependencies(b);
    check_after(b);
    for (uint32_t v = 0; v < b->p.n_values; v++) check_remake(b, v);
    for (uint32_t v = 0; v < b->p.n_values; v++) check_remake_seconds(b, v);
    check_boxes(b);
    check_over(b);
    check_carried(b);
    check_largest(b);
    for (uint32_t t = 0; t < b->u.n; t++) assert_true(b->u.seconds[t] > 0);
}

/* --------------------------------------------------------------------------------------------------------- tests */

static random_how program(int i)
{
    return (random_how){.seed = (uint64_t)i * 211 + 9,
                        .ops = 3 + (uint32_t)i % 16,
                        .scale = 4 + 8 * (i % 5),
                        .states = (uint32_t)i % 3,
                        .spill = i % 3 ? "/var/tmp" : NULL};
}

static void without_loops(void **state)
{
    (void)state;
    uint32_t after = 0, over = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i));
        assert_true(tasks_begin(&b, 0));
        check_tasks(&b);
        after += b.u.after.n_items;
        over += b.u.over.n_items;
        tasks_end(&b);
        bench_end(&b);
    }
    assert_true(after > 0 && over > 0);
}

static void inside_loops(void **state)
{
    (void)state;
    uint32_t passes = 0, carried = 0, left = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i + 5000));
        for (uint32_t cut = 1; cut < 1u << b.labels.n; cut++) {
            if (__builtin_popcount(cut) > 3 || random_below(&b.r, 3) || !tasks_begin(&b, cut)) continue;
            check_tasks(&b);
            passes++;
            for (uint32_t v = 0; v < b.p.n_values; v++) carried += b.u.is_carried[v];
            left += b.u.left_out != UINT64_MAX;
            tasks_end(&b);
        }
        bench_end(&b);
    }
    assert_true(passes > (uint32_t)rounds(PROGRAMS) / 2 && carried > passes / 2 && left > 0);
}

/* With more resident bytes more files are read once, the smallest first; with as many as `left_out` says, one more. */
static void resident_files(void **state)
{
    (void)state;
    uint32_t more = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i + 9000));
        for (uint32_t cut = 1; cut < 1u << b.labels.n && cut < 16; cut++) {
            if (!tasks_begin(&b, cut)) continue;
            uint32_t before = PLIM__NONE;
            for (uint64_t resident = 0;; resident = b.u.left_out) {
                uint32_t n = 0;
                plim__tasks_free(&b.u, &b.r.plan->alloc);
                assert_int_equal(plim__tasks_new(&b.u, b.r.plan, &b.p, &b.m, resident, NULL), PLIM_OK);
                for (uint32_t v = 0; v < b.p.n_values; v++) n += b.u.is_carried[v];
                if (before != PLIM__NONE) assert_int_equal(n, before + 1);
                more += before != PLIM__NONE;
                before = n;
                assert_true(b.u.left_out > resident);
                if (b.u.left_out == UINT64_MAX) break;
            }
            tasks_end(&b);
        }
        bench_end(&b);
    }
    assert_true(more > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_loops),
        cmocka_unit_test(inside_loops),
        cmocka_unit_test(resident_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
