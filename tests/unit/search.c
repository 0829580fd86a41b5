/* The search on random programs, at arenas from ample ones down to none: what is found fits, does the whole program,
 * and is found again the same. */
#include "unit.h"

#include "plan/search.h"
#include "random_graph.h"

#include <math.h>
#include <stdlib.h>

#define PROGRAMS 40
#define ARENAS   8
#define GROWTH                                                                                                         \
    (128u << 10) /* bytes that the smallest plan's passes may take for larger tiles: FLOOR_GROWTH of search.c */

/* ------------------------------------------------------------------------------------------------- what was found */

/* A plan, by what it does and where everything lies. */
typedef struct look {
    uint64_t arena, hash;
    double seconds;
    uint32_t passes, loops;
} look;

static look look_at(const plim_plan *plan)
{
    look x = {.arena = plan->arena_bytes, .passes = plan->n_passes};
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        random_mix_pass(&x.hash, &plan->pass[i]);
        x.seconds += plan->pass[i].seconds;
        x.loops += plan->pass[i].n_cut;
    }
    for (uint32_t i = 0; i < plan->n_slots; i++)
        random_mix(&x.hash, plan->slot[i].offset + plan->slot[i].bytes * plan->slot[i].copies);
    return x;
}

static void assert_same(look a, look b)
{
    assert_true(a.arena == b.arena && a.hash == b.hash && a.seconds == b.seconds && a.passes == b.passes);
}

/* Slots that are alive together lie apart, all inside the arena and behind the engine's buffers: by brute force. */
static void check_slots(const plim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *a = &plan->slot[i];
        const uint64_t end = a->offset + a->bytes * a->copies;
        if (a->first > a->last || end == a->offset) continue;
        assert_true(a->offset >= plan->io_bytes && end <= plan->arena_bytes);
        for (uint32_t j = 0; j < i; j++) {
            const plim__slot *b = &plan->slot[j];
            const bool together = a->first <= b->last && b->first <= a->last;
            if (together) assert_true(end <= b->offset || b->offset + b->bytes * b->copies <= a->offset);
        }
    }
}

/* Every output has a home, and every value that a pass reads is made in it or was left by an earlier one. */
static void check_whole(const plim_plan *plan)
{
    const plim_graph *g = plan->graph;
    bool *there = calloc(g->n_values, sizeof *there);
    assert_non_null(there);
    for (uint32_t v = 0; v < g->n_values; v++) there[v] = g->value[v].kind != PLIM__VALUE_NODE;
    for (uint32_t k = 0; k < plan->n_passes; k++) {
        const plim__pass *p = &plan->pass[k];
        for (uint32_t i = 0; i < p->n_values; i++)
            assert_true(p->value[i].producer != PLIM__NONE || p->value[i].back != PLIM__NONE ||
                        there[p->value[i].value] || p->value[i].spill);
        for (uint32_t i = 0; i < p->n_nodes; i++)
            for (uint32_t j = 0; j < g->node[p->node[i].node].n_out; j++) {
                const uint32_t v = g->node[p->node[i].node].out[j];
                there[v] |= plan->home[v].kind != PLIM__HOME_NOWHERE;
            }
    }
    for (uint32_t v = 0; v < g->n_values; v++) assert_true(!plan->is_output[v] || there[v]);
    free(there);
}

static void check_found(const plim_plan *plan, uint64_t arena)
{
    plim_error err = {0};
    assert_true(plan->arena_bytes <= arena);
    assert_true(plan->n_passes > 0);
    if (plim__plan_check(plan, &err)) fail_msg("%s", err.message);
    check_slots(plan);
    check_whole(plan);
}

/* --------------------------------------------------------------------------------------------------------- tests */

typedef struct bench {
    random_graph r;
    plim__search s;
    plim_error err;
} bench;

static void bench_begin(bench *b, random_how how, bool keeps)
{
    *b = (bench){0};
    random_graph_begin(&b->r, how);
    b->r.plan->thorough = keeps;
    plim__plan_hold(b->r.plan, 0);
    assert_int_equal(plim__search_new(&b->s, b->r.plan, &b->err), PLIM_OK);
}

static void bench_end(bench *b)
{
    plim__search_free(&b->s);
    random_graph_end(&b->r);
}

static random_how program(int i)
{
    return (random_how){.seed = (uint64_t)i * 307 + 11,
                        .ops = 3 + (uint32_t)i % 10,
                        .scale = 24 + 16 * (i % 3),
                        .states = i % 5 == 0 ? 2 : 0,
                        .spill = i % 2 ? "/var/tmp" : NULL,
                        .threads = 1 + (uint32_t)i % 3,
                        .on_file = i % 3 == 1};
}

/* The arena of a plan with everything in memory. */
static uint64_t ample(bench *b)
{
    bool fits;
    assert_int_equal(plim__search_passes(&b->s, UINT64_MAX / 4, &fits), PLIM_OK);
    assert_true(fits);
    check_found(b->r.plan, UINT64_MAX / 4);
    return b->r.plan->arena_bytes;
}

/* Inside every arena, what is found fits it, and the passes that were chosen make the same plan again. Nothing is found
 * in an arena that has no room for the largest thing that must be in one piece. */
static void found_plans_fit(void **state)
{
    (void)state;
    uint32_t found = 0, cut = 0, several = 0, none = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bench_begin(&b, program(i), i % 4 == 3);
        uint64_t arena = ample(&b);
        for (int k = 0; k < ARENAS; k++, arena = arena * 3 / 5) {
            bool fits;
            assert_int_equal(plim__search_passes(&b.s, arena, &fits), PLIM_OK);
            none += !fits;
            if (!fits) continue;
            check_found(b.r.plan, arena);
            const look x = look_at(b.r.plan);
            assert_true(plim__search_doubt(&b.s) >= 1);
            plim__candidate *chosen = calloc(b.s.n_chosen, sizeof *chosen);
            const uint32_t n = b.s.n_chosen;
            assert_non_null(chosen);
            memcpy(chosen, b.s.chosen, n * sizeof *chosen);
            assert_int_equal(plim__search_again(&b.s, chosen, n, b.s.limit), PLIM_OK);
            assert_same(x, look_at(b.r.plan));
            free(chosen);
            found++;
            cut += x.loops > 0;
            several += x.passes > 1;
        }
        bench_end(&b);
    }
    assert_true(found > 2 * (uint32_t)rounds(PROGRAMS) && cut > 0 && several > 0 && none > 0);
}

/* The smallest plan is found again, takes no more than one with ample memory, and is beaten by what is found inside an
 * arena only now and then: every pass is the smallest that there is, which is not always the best for those behind it.
 */
static void smallest_plans(void **state)
{
    (void)state;
    uint32_t whole = 0, tried = 0, beaten = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bool fits;
        bench_begin(&b, program(i + 300), i % 4 == 3);
        assert_int_equal(plim__search_small(&b.s, false, &fits), PLIM_OK);
        assert_true(fits);
        check_found(b.r.plan, UINT64_MAX);
        look least = look_at(b.r.plan);
        assert_int_equal(plim__search_small(&b.s, false, &fits), PLIM_OK);
        assert_same(least, look_at(b.r.plan));
        assert_int_equal(plim__search_small(&b.s, true, &fits), PLIM_OK);
        if (fits) {
            check_found(b.r.plan, UINT64_MAX);
            assert_int_equal(b.r.plan->n_passes, 1);
            whole++;
            least.arena = b.r.plan->arena_bytes < least.arena ? b.r.plan->arena_bytes : least.arena;
        }
        uint64_t arena = ample(&b);
        assert_true(least.arena <= arena);
        for (uint32_t k = 0; k < ARENAS; k++, arena = arena * 3 / 5) {
            assert_int_equal(plim__search_passes(&b.s, arena, &fits), PLIM_OK);
            if (!fits) continue;
            const uint64_t slack = least.arena / 32 > GROWTH ? least.arena / 32 : GROWTH;
            tried++;
            beaten += b.r.plan->arena_bytes + slack < least.arena;
        }
        bench_end(&b);
    }
    assert_true(whole > 0 && tried > (uint32_t)rounds(PROGRAMS) && beaten <= tried / 20);
}

/* ---------------------------------------------------------------------------------------------------- candidates */

typedef struct noted {
    plim__candidate c[64];
    uint64_t peak[64], seen;
    uint32_t n;
} noted;

/* One in eleven, whatever it is. */
static plim_status note(void *ctx, const plim__search *s, const plim__candidate *c, uint64_t peak, double seconds)
{
    noted *x = ctx;
    assert_true(peak > 0 && seconds > 0);
    uint32_t labels = 0;
    for (uint32_t l = 0; l < s->labels.n; l++) labels |= 1u << c->order[l];
    assert_int_equal(labels, (1u << s->labels.n) - 1); /* each once */
    for (uint32_t l = 0; l < s->labels.n; l++) {
        const bool is_cut = c->cut >> c->order[l] & 1;
        const int64_t extent = s->labels.extent[c->order[l]];
        assert_int_equal(is_cut, l < (uint32_t)__builtin_popcount(c->cut)); /* cut ones first */
        assert_true(is_cut ? c->tile[l] >= 1 && c->tile[l] < extent : c->tile[l] == extent);
    }
    if (x->seen++ % 11 == 0 && x->n < COUNT_OF(x->c)) {
        x->peak[x->n] = peak;
        x->c[x->n++] = *c;
    }
    return PLIM_OK;
}

/* A candidate in one pass is well formed, and makes the same plan every time, with other ones made in between. What it
 * was measured by is about what it needs: over all tiles, packed, not less than half of that. */
static void same_candidate_same_plan(void **state)
{
    (void)state;
    uint32_t all = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        noted x = {.n = 0};
        look first[64];
        bench_begin(&b, program(i + 600), true);
        b.r.plan->read_copies = b.r.plan->write_copies = 1;
        plim__plan_io(b.r.plan, 2);
        assert_int_equal(plim__search_restart(&b.s), PLIM_OK);
        b.s.note = note;
        b.s.note_ctx = &x;
        assert_int_equal(plim__search_complete(&b.s, 2), PLIM_OK);
        b.s.note = NULL;
        for (int round = 0; round < 2; round++)
            for (uint32_t k = 0; k < x.n; k++) {
                const uint32_t at = round == 0 ? k : x.n - 1 - k;
                assert_int_equal(plim__search_one_pass(&b.s, &x.c[at]), PLIM_OK);
                check_found(b.r.plan, UINT64_MAX);
                assert_int_equal(b.r.plan->n_passes, 1);
                if (round == 0)
                    first[at] = look_at(b.r.plan);
                else
                    assert_same(first[at], look_at(b.r.plan));
                assert_true(b.r.plan->arena_bytes - b.r.plan->io_bytes >= x.peak[at] / 2);
            }
        all += x.n;
        bench_end(&b);
    }
    assert_true(all > (uint32_t)rounds(PROGRAMS));
}

/* --------------------------------------------------------------------------------------------------- held inputs */

/* What is held takes no more than is allowed beside what must be; with more allowed, no less; and all of it where all
 * is allowed. */
static void held_inputs(void **state)
{
    (void)state;
    uint32_t some = 0;
    for (int i = 0; i < rounds(PROGRAMS) * 10; i++) {
        random_graph r;
        random_how how = program(i);
        how.states = 1 + (uint32_t)i % 4;
        random_graph_begin(&r, how);
        const uint64_t must = plim__plan_hold(r.plan, 0), all = plim__plan_hold(r.plan, UINT64_MAX);
        assert_true(how.spill ? must == 0 && all > 0 : must == all && all > 0);
        uint64_t before = must;
        for (int k = 0; k <= 16; k++) {
            const uint64_t most = (all - must) * (uint64_t)k / 16, held = plim__plan_hold(r.plan, most);
            uint64_t sum = 0, least_out = UINT64_MAX;
            for (uint32_t v = 0; v < r.g->n_values; v++) {
                const bool may =
                    r.g->value[v].kind == PLIM__VALUE_FILE && r.g->source[r.g->value[v].source].stay == PLIM__STAY_MAY;
                const uint64_t bytes = (r.g->value[v].bytes + PLIM__IO_ALIGN - 1) / PLIM__IO_ALIGN * PLIM__IO_ALIGN;
                assert_true(may || !r.plan->held[v]);
                sum += r.plan->held[v] ? bytes : 0;
                if (may && !r.plan->held[v] && bytes < least_out) least_out = bytes;
            }
            assert_true(sum == held && held >= must && held - must <= most);
            assert_true(held >= before || how.spill);
            if (most == all - must) assert_true(held == all);
            some += held > must && held < all;
            before = held;
            plim__plan_clear(r.plan);
            assert_true(r.plan->held_bytes == held);
        }
        random_graph_end(&r);
    }
    assert_true(some > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(found_plans_fit),
        cmocka_unit_test(smallest_plans),
        cmocka_unit_test(same_candidate_same_plan),
        cmocka_unit_test(held_inputs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
