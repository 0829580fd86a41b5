/* Passes of random programs, built for every set of loops that is cut: what is in one, in which order, and what it
 * leaves behind. Programs are then done pass by pass with cuts taken at random until nothing is left. Sizes and times
 * play no part. */
#include "unit.h"

#include "plan/build.h"
#include "plan/cost.h"
#include "plan/search.h"
#include "random_graph.h"

#include <stdlib.h>

#define PROGRAMS    2000
#define MOST_PASSES 64

typedef struct bench {
    random_graph r;
    plim__frontier f;
    plim__labels labels;
    plim__pass p;
    uint32_t *at; /* per node: where it is in the pass, PLIM__NONE: not in it */
    double *work; /* per node */
} bench;

static void bench_begin(bench *b, random_how how)
{
    *b = (bench){0};
    random_graph_begin(&b->r, how);
    const plim_graph *g = b->r.g;
    b->f = (plim__frontier){.small = 0, .spill_above = UINT64_MAX, .end = UINT32_MAX};
    b->f.active = calloc(g->n_nodes, sizeof *b->f.active);
    b->f.made = calloc(g->n_nodes, sizeof *b->f.made);
    b->f.on_file = calloc(g->n_values, sizeof *b->f.on_file);
    b->at = calloc(g->n_nodes, sizeof *b->at);
    b->work = calloc(g->n_nodes, sizeof *b->work);
    assert_true(b->f.active && b->f.made && b->f.on_file && b->at && b->work);
    for (uint32_t i = 0; i < g->n_nodes; i++) b->work[i] = plim__node_seconds(b->r.plan, i);
    assert_int_equal(plim__labels_new(&b->labels, g, &b->r.plan->nest, &g->alloc, NULL), PLIM_OK);
    plim__plan_hold(b->r.plan, how.seed % 2 ? UINT64_MAX : 0);
    plim__plan_clear(b->r.plan);
    assert_int_equal(plim__frontier_update(b->r.plan, &b->f), PLIM_OK);
}

static void bench_end(bench *b)
{
    plim__labels_free(&b->labels, &b->r.g->alloc);
    free(b->f.active);
    free(b->f.made);
    free(b->f.on_file);
    free(b->at);
    free(b->work);
    random_graph_end(&b->r);
}

/* What is kept between passes without further thought, and what goes to a file or is made again by its price. */
static void choose_sizes(bench *b)
{
    static const uint64_t small[] = {0, 256, 4096, UINT64_MAX};
    b->f.small = small[random_below(&b->r, COUNT_OF(small))];
    b->f.spill_above = b->r.how.spill && random_below(&b->r, 2) ? 512 : UINT64_MAX;
    b->f.work = random_below(&b->r, 2) ? b->work : NULL;
}

static void spread(bench *b)
{
    bool *here = calloc(b->r.g->n_nodes, sizeof *here);
    assert_non_null(here);
    for (uint32_t i = 0; i < b->r.g->n_nodes; i++) here[i] = b->f.active[i] && i < b->f.end;
    plim__labels_spread(&b->labels, b->r.g, here, b->f.on_file, b->r.plan->is_state);
    free(here);
}

/* The labels of the cut in a random order, then the others. */
static void random_order(bench *b, uint32_t cut, uint8_t *order)
{
    uint32_t n = 0;
    for (int cut_ones = 1; cut_ones >= 0; cut_ones--) {
        const uint32_t first = n;
        for (uint32_t l = 0; l < b->labels.n; l++)
            if ((cut >> l & 1) == (uint32_t)cut_ones) order[n++] = (uint8_t)l;
        for (uint32_t i = n; i > first + 1; i--) {
            const uint32_t j = first + random_below(&b->r, i - first);
            const uint8_t x = order[i - 1];
            order[i - 1] = order[j];
            order[j] = x;
        }
    }
}

/* @return there is such a pass */
static bool build(bench *b, uint32_t cut)
{
    uint8_t order[PLIM__MAX_LOOPS];
    random_order(b, cut, order);
    plim_error err = {0};
    const plim_status status = plim__pass_build(&b->p, b->r.plan, &b->f, &b->labels, cut, order, &err);
    if (status == PLIM_E_PLAN) {
        assert_int_equal(b->p.n_nodes, 0);
        assert_string_equal(err.message, "");
        return false;
    }
    assert_int_equal(status, PLIM_OK);
    assert_int_equal(b->p.n_loops, b->labels.n);
    assert_int_equal(b->p.n_cut, __builtin_popcount(cut));
    for (uint32_t l = 0; l < b->p.n_loops; l++) {
        assert_int_equal(b->p.loop[l].extent, b->labels.extent[order[l]]);
        assert_int_equal(b->p.loop[l].grain, b->labels.grain[order[l]]);
    }
    for (uint32_t i = 0; i < b->r.g->n_nodes; i++) b->at[i] = PLIM__NONE;
    for (uint32_t i = 0; i < b->p.n_nodes; i++) {
        assert_int_equal(b->at[b->p.node[i].node], PLIM__NONE); /* once */
        b->at[b->p.node[i].node] = i;
    }
    return true;
}

static bool has_home(const bench *b, uint32_t v) { return b->r.plan->home[v].kind != PLIM__HOME_NOWHERE; }

/* -------------------------------------------------------------------------------------------- what is in a pass */

/* Every node is asked for, and each of its inputs is made before it in the pass, or is at home. */
static void check_topological(const bench *b)
{
    const plim_graph *g = b->r.g;
    assert_true(b->p.n_nodes > 0);
    for (uint32_t i = 0; i < b->p.n_nodes; i++) {
        const plim__pnode *x = &b->p.node[i];
        const plim__node *n = &g->node[x->node];
        assert_true(b->f.active[x->node] && x->node < b->f.end);
        for (uint32_t k = 0; k < n->n_in; k++) {
            const plim__pvalue *v = &b->p.value[b->p.operand[x->in0 + k]];
            assert_int_equal(v->value, n->in[k]);
            if (v->producer == PLIM__NONE)
                assert_true(has_home(b, n->in[k]));
            else
                assert_true(v->producer < i && b->p.node[v->producer].node == g->value[n->in[k]].node);
        }
        for (uint32_t j = 0; j < n->n_out; j++) {
            assert_int_equal(b->p.value[x->out[j]].value, n->out[j]);
            assert_int_equal(b->p.value[x->out[j]].producer, i);
        }
    }
}

static bool reads(const bench *b, uint32_t node, uint32_t by)
{
    for (uint32_t k = 0; k < b->r.g->node[node].n_in; k++) {
        const uint32_t v = b->r.g->node[node].in[k];
        if (!has_home(b, v) && b->r.g->value[v].node == by) return true;
    }
    return false;
}

static uint64_t bytes_made(const bench *b, uint32_t node)
{
    uint64_t bytes = 0;
    for (uint32_t j = 0; j < b->r.g->node[node].n_out; j++) bytes += b->r.g->value[b->r.g->node[node].out[j]].bytes;
    return bytes;
}

static bool makes_output(const bench *b, uint32_t node)
{
    for (uint32_t j = 0; j < b->r.g->node[node].n_out; j++)
        if (b->r.plan->is_output[b->r.g->node[node].out[j]]) return true;
    return false;
}

/* Is node i of the graph one that this pass could not do? An output that it leaves, or what reads one of those. (It may
 * leave others that it could do.) */
static bool is_beyond(const bench *b, uint32_t i)
{
    if (!b->f.active[i] || b->at[i] != PLIM__NONE) return false;
    if (makes_output(b, i)) return true;
    for (uint32_t by = 0; by < i; by++)
        if (reads(b, i, by) && is_beyond(b, by)) return true;
    return false;
}

static bool is_read_beyond(const bench *b, uint32_t by)
{
    for (uint32_t u = by + 1; u < b->r.g->n_nodes; u++)
        if (reads(b, u, by) && is_beyond(b, u)) return true;
    return false;
}

/* Outputs and sums are roots; what is none is read by somebody here. What a later pass reads is kept, always where it
 * is small and the pass could not do what reads it, or made again there. */
static void check_roots(const bench *b)
{
    for (uint32_t i = 0; i < b->p.n_nodes; i++) {
        const plim__pnode *x = &b->p.node[i];
        bool here = false, later = false;
        for (uint32_t u = x->node + 1; u < b->r.g->n_nodes; u++) {
            if (!b->f.active[u] || !reads(b, u, x->node)) continue;
            here |= b->at[u] != PLIM__NONE;
            later |= b->at[u] == PLIM__NONE;
        }
        if (makes_output(b, x->node) || x->accumulates) assert_true(x->root);
        if (!x->root) assert_true(here);
        if (later) assert_true(x->root || x->remade);
        if (bytes_made(b, x->node) <= b->f.small && is_read_beyond(b, x->node)) assert_true(x->root);
        assert_false(x->root && x->remade);
    }
}

/* Without loops, and where nothing may be left, everything before the end is done, but for what only later passes read.
 */
static void check_complete(const bench *b)
{
    for (uint32_t i = 0; i < b->r.g->n_nodes && i < b->f.end && (b->p.n_cut == 0 || b->f.complete); i++)
        if (b->f.active[i] && b->at[i] == PLIM__NONE) assert_true(b->f.end != UINT32_MAX && !makes_output(b, i));
}

/* Which loops that are cut move axes of the kinds that combine, or all axes, of a node as it is bound. */
static uint32_t loops_of(const bench *b, const plim__pnode *x, bool combining)
{
    uint32_t set = 0;
    for (uint32_t a = 0; a < x->axes.n; a++) {
        const bool combines = plim__axis_reduces(x->axes.axis[a].kind) || x->axes.axis[a].kind == PLIM__SCAN;
        if (x->bind[a] >= 0 && (uint32_t)x->bind[a] < b->p.n_cut && (combines || !combining)) set |= 1u << x->bind[a];
    }
    return set;
}

/* Who combines is complete behind its outermost such loop, and every loop between there and where it runs moves it, or
 * parts would be added twice. Nobody reads it before. What takes the place of a state is moved by every loop around it,
 * or it would be done twice. */
static void check_loops(const bench *b)
{
    uint32_t moved = 0;
    for (uint32_t i = 0; i < b->p.n_nodes; i++) {
        const plim__pnode *x = &b->p.node[i];
        const uint32_t combining = loops_of(b, x, true), all = loops_of(b, x, false);
        assert_true(x->depth <= b->p.n_cut);
        if (x->root) moved |= all;
        assert_int_equal(x->accumulates, combining != 0 && !x->post);
        if (x->accumulates) assert_int_equal(x->acc_depth, __builtin_ctz(combining));
        for (uint32_t l = x->acc_depth; l < x->depth && x->accumulates; l++) assert_true(all & 1u << l);
        for (uint32_t j = 0; j < b->r.g->node[x->node].n_out; j++)
            if (b->r.plan->replaces[b->r.g->node[x->node].out[j]] != PLIM__NONE)
                for (uint32_t l = 0; l < x->depth; l++) assert_true(all & 1u << l);
        for (uint32_t k = 0; k < b->r.g->node[x->node].n_in; k++) {
            const uint32_t by = b->p.value[b->p.operand[x->in0 + k]].producer;
            if (by == PLIM__NONE) continue;
            const plim__pnode *y = &b->p.node[by];
            if (y->accumulates)
                assert_true(x->post && x->depth <= y->acc_depth);
            else if (y->post)
                assert_true(x->post && x->depth <= y->depth);
            else
                assert_true(x->post || x->depth >= y->depth);
        }
    }
    assert_int_equal(moved, (1u << b->p.n_cut) - 1); /* none turns for nothing */
}

/* ----------------------------------------------------------------------------------------- stages and steps */

/* Stages are runs of nodes of one depth, one after the other; each has one step, behind those of the stages that it
 * reads from. */
static void check_stages(const bench *b)
{
    uint32_t next = 0, last = 0, *step = calloc(b->p.n_stages + 1u, sizeof *step);
    assert_non_null(step);
    for (uint32_t s = 0; s < b->p.n_stages; s++) {
        const plim__stage *x = &b->p.stage[s];
        assert_true(x->first == next && x->count > 0);
        next += x->count;
        for (uint32_t i = x->first; i < next; i++) {
            assert_int_equal(b->p.node[i].stage, s);
            assert_true(b->p.node[i].depth == x->depth && b->p.node[i].post == x->post);
        }
    }
    assert_int_equal(next, b->p.n_nodes);
    for (uint32_t t = 0; t < b->p.n_steps; t++) {
        const plim__step *x = &b->p.step[t];
        const uint32_t group = plim__group_of(&b->p, x->depth, x->post);
        assert_true(group >= last);
        last = group;
        if (x->kind != PLIM__STEP_STAGE) continue;
        assert_int_equal(step[x->index], 0);
        step[x->index] = t + 1;
    }
    for (uint32_t i = 0; i < b->p.n_nodes; i++) {
        const plim__pnode *x = &b->p.node[i];
        assert_true(step[x->stage] > 0);
        for (uint32_t k = 0; k < b->r.g->node[x->node].n_in; k++) {
            const uint32_t by = b->p.value[b->p.operand[x->in0 + k]].producer;
            if (by != PLIM__NONE) assert_true(step[b->p.node[by].stage] <= step[x->stage]);
        }
    }
    free(step);
}

/* How often steps read, write and wait for a value of the pass. */
static uint32_t steps_of(const bench *b, plim__step_kind kind, uint32_t index)
{
    uint32_t n = 0;
    for (uint32_t t = 0; t < b->p.n_steps; t++) n += b->p.step[t].kind == kind && b->p.step[t].index == index;
    return n;
}

/* What is read from a file has one step for that; what an output's file needs is written once; sums are set up and
 * merged once. */
static void check_transfers(const bench *b)
{
    for (uint32_t v = 0; v < b->p.n_values; v++) {
        const plim__pvalue *x = &b->p.value[v];
        const bool from_file = x->producer == PLIM__NONE && b->r.plan->home[x->value].kind == PLIM__HOME_FILE;
        const bool to_file = x->producer != PLIM__NONE && (b->r.plan->write_file[x->value] != PLIM__NONE || x->spill);
        assert_int_equal(steps_of(b, PLIM__STEP_READ, v), from_file);
        if (x->stored) continue;
        assert_int_equal(steps_of(b, PLIM__STEP_WRITE, v), to_file);
    }
    for (uint32_t i = 0; i < b->p.n_nodes; i++) {
        assert_int_equal(steps_of(b, PLIM__STEP_INIT, i), b->p.node[i].accumulates);
        assert_int_equal(steps_of(b, PLIM__STEP_MERGE, i), b->p.node[i].accumulates);
    }
}

static void check_pass(const bench *b)
{
    check_topological(b);
    check_roots(b);
    check_complete(b);
    check_loops(b);
    check_stages(b);
    check_transfers(b);
}

/* ------------------------------------------------------------------------------------- what a pass leaves behind */

/* A slot for everything that settling gives a home in the arena. */
static void give_slots(bench *b)
{
    plim_plan *plan = b->r.plan;
    assert_int_equal(plim__grow(&plan->alloc, (void **)&plan->slot, &plan->cap_slots, plan->n_slots + b->p.n_values,
                                sizeof *plan->slot, NULL),
                     PLIM_OK);
    for (uint32_t v = 0; v < b->p.n_values; v++) {
        plim__pvalue *x = &b->p.value[v];
        if (x->foreign || x->role == PLIM__ROLE_PRIVATE || x->role == PLIM__ROLE_CONST) continue;
        plan->slot[plan->n_slots] =
            (plim__slot){.value = x->value, .copies = 1, .bytes = b->r.g->value[x->value].bytes};
        x->slot = plan->n_slots++;
    }
}

/* Who overwrites a state is behind all who read it. */
static void check_states(const bench *b)
{
    const plim_graph *g = b->r.g;
    for (uint32_t s = 0; s < g->n_states; s++) {
        const uint32_t by = g->value[g->state[s].out].node, done = b->at[by];
        for (uint32_t i = 0; i < g->n_nodes && done != PLIM__NONE; i++) {
            if (i == by || !b->f.active[i]) continue;
            for (uint32_t k = 0; k < g->node[i].n_in; k++)
                if (g->node[i].in[k] == g->state[s].in) assert_true(b->at[i] != PLIM__NONE && b->at[i] < done);
        }
    }
}

/* Nobody is left who would read a state that has been overwritten. */
static void check_states_after(const bench *b)
{
    const plim_graph *g = b->r.g;
    for (uint32_t s = 0; s < g->n_states; s++)
        for (uint32_t i = 0; i < g->n_nodes && has_home(b, g->state[s].out); i++)
            for (uint32_t k = 0; k < g->node[i].n_in && b->f.active[i]; k++)
                assert_int_not_equal(g->node[i].in[k], g->state[s].in);
}

/* Settles. Of what the pass made, afterwards roots that anybody needs have a home, and active is what it says it leaves
 * to be made again; of what it did not make, everything still is. */
static void settle(bench *b)
{
    const plim_graph *g = b->r.g;
    bool *before = calloc(g->n_nodes, sizeof *before);
    assert_non_null(before);
    memcpy(before, b->f.active, g->n_nodes * sizeof *before);
    check_states(b);
    give_slots(b);
    assert_int_equal(plim__pass_settle(b->r.plan, &b->f, &b->p, NULL), PLIM_OK);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__pnode *x = b->at[i] == PLIM__NONE ? NULL : &b->p.node[b->at[i]];
        if (x) assert_true(b->f.made[i]);
        if (b->f.active[i]) assert_true(before[i]); /* nothing new */
        if (b->f.active[i] && x) assert_true(x->remade && !x->root);
        if (x && x->remade) assert_true(b->f.active[i]);
        for (uint32_t j = 0; j < g->node[i].n_out; j++)
            if (x && b->r.plan->is_output[g->node[i].out[j]]) assert_true(has_home(b, g->node[i].out[j]));
        for (uint32_t k = 0; k < g->node[i].n_in; k++)
            if (b->f.active[i])
                assert_true(has_home(b, g->node[i].in[k]) || b->f.active[g->value[g->node[i].in[k]].node]);
    }
    check_states_after(b);
    free(before);
}

/* ------------------------------------------------------------------------------------------------------- tests */

static random_how program(int i)
{
    return (random_how){.seed = (uint64_t)i * 101 + 3,
                        .ops = 3 + (uint32_t)i % 14,
                        .scale = 2 + i % 7,
                        .states = (uint32_t)i % 3,
                        .spill = i % 2 ? "/var/tmp" : NULL};
}

static void every_cut(void **state)
{
    (void)state;
    uint32_t passes = 0, partial = 0, sums = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i));
        spread(&b);
        for (uint32_t cut = 0; cut < 1u << b.labels.n; cut++) {
            choose_sizes(&b);
            if (__builtin_popcount(cut) > 3 || !build(&b, cut)) continue;
            check_pass(&b);
            passes++;
            for (uint32_t n = 0; n < b.r.g->n_nodes; n++) partial += b.f.active[n] && b.at[n] == PLIM__NONE;
            for (uint32_t n = 0; n < b.p.n_nodes; n++) sums += b.p.node[n].accumulates;
            plim__pass_free(&b.r.plan->alloc, &b.p);
        }
        bench_end(&b);
    }
    assert_true(passes > 4 * (uint32_t)rounds(PROGRAMS) && partial > passes && sums > passes / 4);
}

static void pass_after_pass(void **state)
{
    (void)state;
    uint32_t again = 0, spilled = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i + 1000));
        for (uint32_t n = 0, left = 1; left > 0; n++) {
            assert_true(n < MOST_PASSES);
            choose_sizes(&b);
            spread(&b);
            uint32_t cut = random_below(&b.r, 1u << b.labels.n);
            if (n > 8) cut &= cut - 1; /* fewer and fewer */
            if (__builtin_popcount(cut) > 3 || !build(&b, cut))
                assert_true(build(&b, 0)); /* all of it at once always goes */
            check_pass(&b);
            settle(&b);
            for (uint32_t k = 0; k < b.p.n_nodes; k++) again += b.p.node[k].remade;
            for (uint32_t k = 0; k < b.p.n_values; k++) spilled += b.p.value[k].spill;
            plim__pass_free(&b.r.plan->alloc, &b.p);
            left = 0;
            for (uint32_t k = 0; k < b.r.g->n_nodes; k++) left += b.f.active[k];
        }
        for (uint32_t v = 0; v < b.r.g->n_values; v++) assert_true(!b.r.plan->is_output[v] || has_home(&b, v));
        bench_end(&b);
    }
    assert_true(again > 0 && spilled > 0);
}

/* `end` leaves what is behind it to later passes; `complete` refuses a pass that leaves anything else. */
static void ends_and_complete_passes(void **state)
{
    (void)state;
    uint32_t refused = 0, built = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i + 2000));
        b.f.end = i % 2 ? 1 + random_below(&b.r, b.r.g->n_nodes) : UINT32_MAX;
        spread(&b);
        for (uint32_t cut = 0; cut < 1u << b.labels.n; cut++) {
            if (__builtin_popcount(cut) > 2) continue;
            b.f.complete = true;
            if (build(&b, cut)) {
                check_pass(&b);
                built++;
                plim__pass_free(&b.r.plan->alloc, &b.p);
            } else {
                refused++;
            }
            b.f.complete = false;
        }
        bench_end(&b);
    }
    assert_true(refused > 0 && built > 0);
}

/* What a dimension is covered by, and for which tiles: one by one, by windows that touch, by several iterations on an element. */
static void covering_steps(void **state)
{
    (void)state;
    static const struct {
        plim__index index;
        int64_t n, dim, extent, steps;
    } cases[] = {
        {{.axis = 0, .stride = 1, .div = 1, .window = 1}, 12, 12, 12, 1},
        {{.axis = 0, .stride = 1, .div = 1, .window = 1}, 8, 8, 12, 1},     /* of another extent than the loop, but the same parts */
        {{.axis = 0, .stride = 2, .div = 1, .window = 2}, 6, 12, 12, 2},    /* windows that touch */
        {{.axis = 0, .stride = 3, .div = 1, .window = 3}, 4, 12, 12, 3},
        {{.axis = 0, .stride = 1, .div = 4, .window = 1}, 12, 3, 12, 4},    /* four iterations on one element */
        {{.axis = 0, .stride = 2, .div = 1, .window = 2}, 6, 12, 18, 3},    /* parts of 3 and of 3/2 steps */
        {{.axis = 0, .stride = 2, .div = 1, .window = 3}, 6, 12, 12, 0},    /* windows that overlap */
        {{.axis = 0, .stride = 2, .div = 1, .window = 1}, 6, 12, 12, 0},    /* gaps */
        {{.axis = 0, .stride = 1, .offset = 1, .div = 1, .window = 1}, 12, 12, 12, 0},
        {{.axis = 0, .stride = 2, .div = 1, .window = 2}, 5, 12, 10, 0},    /* the dimension is longer */
        {{.axis = -1, .window = 1}, 12, 1, 12, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(plim__covering_steps(&cases[i].index, cases[i].n, cases[i].dim, cases[i].extent), cases[i].steps);
    assert_int_equal(plim__common_multiple(4, 6, 100), 12);
    assert_int_equal(plim__common_multiple(4, 6, 11), 0);
    assert_int_equal(plim__common_multiple(0, 6, 100), 0);
    assert_int_equal(plim__common_multiple(INT64_MAX, INT64_MAX - 1, INT64_MAX), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_cut),
        cmocka_unit_test(pass_after_pass),
        cmocka_unit_test(covering_steps), cmocka_unit_test(ends_and_complete_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
