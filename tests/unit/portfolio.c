/* The portfolio on random programs, at budgets from below the floor to ample: what it promises of all budgets together.
 */
#include "unit.h"

#include "plan/portfolio.h"
#include "plan/search.h"
#include "random_graph.h"

#include <math.h>
#include <stdlib.h>

#define PROGRAMS 8
#define BUDGETS  10

/* ------------------------------------------------------------------------------------------------- what was made */

/* A plan, by what it does and where everything lies. */
typedef struct look {
    uint64_t need, hash;
    double seconds;
} look;

static look look_at(const plim_plan *plan)
{
    look x = {.need = plim__plan_need(plan)};
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        random_mix_pass(&x.hash, &plan->pass[i]);
        x.seconds += plan->pass[i].seconds;
    }
    for (uint32_t i = 0; i < plan->n_slots; i++)
        random_mix(&x.hash, plan->slot[i].offset + plan->slot[i].bytes * plan->slot[i].copies);
    for (uint32_t v = 0; v < plan->graph->n_values; v++) random_mix(&x.hash, plan->held[v] * 8ull + plan->home[v].kind);
    return x;
}

static void assert_same(look a, look b) { assert_true(a.need == b.need && a.hash == b.hash && a.seconds == b.seconds); }

/* ------------------------------------------------------------------------------------------------------- fixture */

typedef struct bench {
    random_graph r;
    plim__portfolio *f;
    uint64_t floor;
    plim_error err;
} bench;

static void bench_begin(bench *b, random_how how, bool thorough)
{
    *b = (bench){0};
    random_graph_begin(&b->r, how);
    b->r.plan->thorough = thorough;
    if (plim__portfolio_new(&b->f, b->r.plan, &b->err) || plim__portfolio_floor(b->f, &b->floor))
        fail_msg("seed %llu: %s", (unsigned long long)how.seed, b->err.message);
}

static void bench_end(bench *b)
{
    plim__portfolio_free(&b->f);
    random_graph_end(&b->r);
}

static bool make(bench *b, uint64_t most)
{
    bool fits;
    assert_int_equal(plim__portfolio_plan(b->f, most, &fits, &b->err), PLIM_OK);
    return fits;
}

/* A held input has a slot of its own, which is there all the time; what must be held is; nothing else lies in the arena
 * before the run. */
static void check_held(const plim_plan *plan)
{
    const plim_graph *g = plan->graph;
    uint64_t sum = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].kind != PLIM__VALUE_FILE) {
            assert_false(plan->held[v]);
            continue;
        }
        const bool state = plan->state_of[v] != PLIM__NONE;
        assert_int_equal(plan->home[v].kind, plan->held[v] ? PLIM__HOME_ARENA : PLIM__HOME_FILE);
        assert_true(!plan->held[v] || g->source[g->value[v].source].stay != PLIM__STAY_FILE);
        if (state && !plan->set.spill_dir) assert_true(plan->held[v]); /* there is no other place for it */
        if (!plan->held[v]) continue;
        const plim__slot *s = &plan->slot[plan->home[v].slot];
        assert_int_equal(s->value, v);
        assert_true(s->bytes >= g->value[v].bytes && s->first == 0 && s->last == plan->n_steps - 1);
        sum += (s->bytes + PLIM__IO_ALIGN - 1) / PLIM__IO_ALIGN * PLIM__IO_ALIGN;
    }
    assert_true(sum == plan->held_bytes);
}

/* All outputs are somewhere, and the verifier has nothing to say. */
static void check_made(bench *b, uint64_t most)
{
    const plim_plan *plan = b->r.plan;
    if (plim__plan_check(plan, &b->err)) fail_msg("seed %llu: %s", (unsigned long long)b->r.how.seed, b->err.message);
    assert_true(plim__plan_need(plan) <= most && plan->n_passes > 0);
    for (uint32_t v = 0; v < b->r.g->n_values; v++)
        assert_true(!plan->is_output[v] || plan->home[v].kind != PLIM__HOME_NOWHERE);
    check_held(plan);
}

/* Budget number k: from the floor up to eight times as much, in even steps of their ratios. */
static uint64_t budget(const bench *b, int k)
{
    return (uint64_t)((double)b->floor * pow(8, (double)k / (BUDGETS - 1)));
}

static random_how program(int i)
{
    return (random_how){.seed = (uint64_t)i * 409 + 17,
                        .ops = 4 + (uint32_t)i % 6,
                        .scale = 40 + 40 * (i % 2),
                        .states = (uint32_t)i % 3,
                        .spill = i % 2 ? "/var/tmp" : NULL,
                        .threads = 1 + (uint32_t)i % 2,
                        .on_file = i % 2};
}

/* --------------------------------------------------------------------------------------------------------- tests */

/* With more memory no plan takes longer, and each fits its budget. On the way down again each budget still has a plan
 * that takes no longer than the one that it had on the way up: recipes are only ever added. */
static void seconds_never_rise(void **state)
{
    (void)state;
    uint32_t faster = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        double seconds[BUDGETS];
        bench_begin(&b, program(i), true);
        for (int k = 0; k < BUDGETS; k++) {
            assert_true(make(&b, budget(&b, k)));
            check_made(&b, budget(&b, k));
            seconds[k] = look_at(b.r.plan).seconds;
            if (k > 0 && seconds[k] > seconds[k - 1])
                fail_msg("seed %llu: %g s in %llu bytes, %g s in %llu", (unsigned long long)b.r.how.seed, seconds[k],
                         (unsigned long long)budget(&b, k), seconds[k - 1], (unsigned long long)budget(&b, k - 1));
            faster += k > 0 && seconds[k] < seconds[k - 1];
        }
        for (int k = BUDGETS; k-- > 0;) {
            assert_true(make(&b, budget(&b, k)));
            check_made(&b, budget(&b, k));
            assert_true(look_at(b.r.plan).seconds <= seconds[k]);
            seconds[k] = look_at(b.r.plan).seconds;
            if (k < BUDGETS - 1) assert_true(seconds[k] >= seconds[k + 1]);
        }
        bench_end(&b);
    }
    assert_true(faster > (uint32_t)rounds(PROGRAMS) / 2);
}

/* The same where each budget has a portfolio of its own, as each command has. */
static void seconds_never_rise_apart(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        double before = INFINITY;
        for (int k = 0; k < BUDGETS; k += 2) {
            bench b;
            bench_begin(&b, program(300 + 16 * i), true);
            assert_true(make(&b, budget(&b, k)));
            const double seconds = look_at(b.r.plan).seconds;
            if (seconds > before)
                fail_msg("seed %llu: %g s in %llu bytes, %g s in less", (unsigned long long)b.r.how.seed, seconds,
                         (unsigned long long)budget(&b, k), before);
            before = seconds;
            bench_end(&b);
        }
    }
}

/* Two portfolios of one program, asked for one budget, have one floor and make one plan; asked again right away, the
 * same. */
static void same_budget_same_plan(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench a, b;
        bench_begin(&a, program(i), true);
        bench_begin(&b, program(i), true);
        assert_true(a.floor == b.floor);
        const uint64_t most = budget(&a, i % BUDGETS);
        assert_true(make(&a, most) && make(&b, most));
        const look first = look_at(a.r.plan);
        assert_same(first, look_at(b.r.plan));
        assert_true(make(&a, most));
        assert_same(first, look_at(a.r.plan));
        bench_end(&a);
        bench_end(&b);
    }
}

/* There is a plan in exactly the floor, before and after other budgets, and in next to nothing there is none. In a byte
 * less there is none as far as the portfolio knows; that a search which it begins for that finds one after all must
 * stay rare. */
static void floors_are_floors(void **state)
{
    (void)state;
    int below = 0, tried = 0;
    for (int i = 0; i < rounds(PROGRAMS) * 2; i++)
        for (int thorough = 0; thorough < 2; thorough++, tried++) {
            bench b;
            bench_begin(&b, program(i + 100), thorough);
            assert_true(b.floor > 0 && b.floor < UINT64_MAX);
            assert_true(make(&b, b.floor));
            check_made(&b, b.floor);
            assert_true(make(&b, 4 * b.floor));
            check_made(&b, 4 * b.floor);
            assert_true(make(&b, b.floor));
            check_made(&b, b.floor);
            assert_false(make(&b, 0) || make(&b, b.floor / 8));
            bench_end(&b);
            bench_begin(&b, program(i + 100), thorough);
            below += make(&b, b.floor - 1);
            bench_end(&b);
        }
    assert_true(below * 8 <= tried);
}

/* Where there is a folder states need not be held: the floor is no higher than without one, and with ample memory the
 * plan is no slower. */
static void a_folder_never_hurts(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench without, with;
        random_how how = program(i + 200);
        how.states = 2;
        how.on_file = true;
        how.spill = NULL;
        bench_begin(&without, how, true);
        how.spill = "/var/tmp";
        bench_begin(&with, how, true);
        assert_true(with.floor <= without.floor + without.floor / 32); /* plans are looked for that much apart */
        assert_true(make(&without, UINT64_MAX / 4) && make(&with, UINT64_MAX / 4));
        check_made(&without, UINT64_MAX / 4);
        check_made(&with, UINT64_MAX / 4);
        assert_true(look_at(with.r.plan).seconds <= look_at(without.r.plan).seconds);
        bench_end(&without);
        bench_end(&with);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(seconds_never_rise),    cmocka_unit_test(seconds_never_rise_apart),
        cmocka_unit_test(same_budget_same_plan), cmocka_unit_test(floors_are_floors),
        cmocka_unit_test(a_folder_never_hurts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
