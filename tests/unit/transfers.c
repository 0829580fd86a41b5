/* The schedule of transfers on random programs, at arenas from ample ones down: what is under way shares memory with nobody
 * who is alive, and no bytes are read before they have been written. */
#include "unit.h"

#include "plan/search.h"
#include "plan/transfers.h"
#include "preferences.h"
#include "random_graph.h"

#define PROGRAMS 600
#define ARENAS   8

typedef struct seen {
    uint32_t reads, rings, waits, early, late; /* early, late: not at their own step */
    uint32_t ahead, beside, written;           /* while inner loops turn: for the next trip, behind them, and writes */
} seen;

static bool share(const plim__slot *a, const plim__slot *b)
{
    return a->offset < b->offset + b->bytes * b->copies && b->offset < a->offset + a->bytes * a->copies;
}

/* From step `from` to before step `to` of the pass nobody else lives in the memory of slot `s`. */
static void assert_alone(const plim_plan *plan, const plim__pass *p, uint32_t s, uint32_t from, uint32_t to)
{
    for (uint32_t i = 0; i < plan->n_slots && from < to; i++) {
        const plim__slot *other = &plan->slot[i];
        if (i == s || other->first > other->last || !share(other, &plan->slot[s])) continue;
        assert_true(other->last < p->time0 + from || other->first >= p->time0 + to);
    }
}

/* Between steps `from` and `to` no step writes to the file what `v` reads, or waits for that. */
static void assert_no_write(const plim__pass *p, const plim__pvalue *v, uint32_t from, uint32_t to)
{
    for (uint32_t t = from; t < to; t++) {
        const plim__step *s = &p->step[t];
        if (s->kind != PLIM__STEP_WRITE && s->kind != PLIM__STEP_WAIT) continue;
        assert_false(p->value[s->index].file == v->file && p->value[s->index].value == v->value);
    }
}

static void check_read(const plim_plan *plan, const plim__pass *p, const plim__transfer *t, seen *x)
{
    const plim__pvalue *v = &p->value[t->value];
    assert_true(t->step < p->n_steps && t->at <= t->step);
    assert_int_equal(p->step[t->step].kind, PLIM__STEP_READ);
    assert_int_equal(p->step[t->step].index, t->value);
    assert_int_equal(plan->slot[v->slot].copies, 1);
    assert_int_equal(plim__step_group(p, t->at), plim__step_group(p, t->step));
    assert_alone(plan, p, v->slot, t->at, t->step);
    assert_no_write(p, v, t->at, t->step);
    x->early += t->at < t->step;
}

static void check_wait(const plim_plan *plan, const plim__pass *p, const plim__transfer *t, seen *x)
{
    const plim__pvalue *v = &p->value[t->value];
    assert_int_equal(p->step[t->step].kind, PLIM__STEP_WAIT);
    assert_int_equal(p->step[t->step].index, t->value);
    assert_true(t->at >= t->step && t->at <= p->n_steps);
    if (p->n_cut > 0) assert_int_equal(plim__step_group(p, t->at), plim__step_group(p, t->step));
    assert_alone(plan, p, v->slot, t->step + 1, t->at);
    for (uint32_t k = t->step + 1; k < t->at; k++) { /* nobody reads it back meanwhile */
        const plim__step *s = &p->step[k];
        if (s->kind != PLIM__STEP_READ) continue;
        assert_false(p->value[s->index].file == v->file && p->value[s->index].value == v->value);
    }
    x->late += t->at > t->step;
}

/* A read that goes on while the loops inside its depth turn: behind them, in memory that nobody else has as long as they do; or in front of them, for the next
 * trip, into another copy of a slot that lives as long as the pass. */
static void check_early(const plim_plan *plan, const plim__pass *p, const plim__transfer *t, uint32_t depth, seen *x)
{
    const plim__pvalue *v = &p->value[t->value];
    const plim__slot *slot = &plan->slot[v->slot];
    const plim__step *step = &p->step[t->step];
    assert_int_equal(step->kind, PLIM__STEP_READ);
    assert_int_equal(step->index, t->value);
    assert_int_equal(step->depth, depth);
    assert_true(depth < p->n_cut && !v->flat && !v->streamed);
    for (uint32_t k = 0; k < p->n_steps; k++) {
        const bool inside = p->step[k].depth > depth;
        if (v->ahead || v->beside || inside) assert_alone(plan, p, v->slot, k, k + 1);
        assert_true(!inside || v->ahead == (k > t->step)); /* in front of these loops, or behind them */
    }
    assert_int_equal(slot->copies, v->ahead ? 2 : 1);
    assert_true(!v->ahead || depth > 0);
    x->ahead += v->ahead;
    x->beside += !v->ahead;
}

/* Nobody waits for what is written while the loops of the next trip turn, but who fills its memory again: it has that all the time. */
static void check_beside(const plim_plan *plan, const plim__pass *p, uint32_t t, seen *x)
{
    const plim__pvalue *v = &p->value[p->step[t].index];
    if (p->step[t].kind != PLIM__STEP_WRITE || !v->beside) return;
    assert_true(p->step[t].post && p->step[t].depth > 0 && p->step[t].depth < p->n_cut);
    assert_true(plan->slot[v->slot].first <= p->time0 && plan->slot[v->slot].last + 1 >= p->time0 + p->n_steps);
    for (uint32_t k = 0; k < p->n_steps; k++) assert_false(p->step[k].kind == PLIM__STEP_WAIT && p->step[k].index == p->step[t].index);
    x->written++;
}

static void check_pass(const plim_plan *plan, const plim__pass *p, seen *x)
{
    plim__transfers all;
    uint32_t reads = 0, waits = 0;
    assert_int_equal(plim__transfers_new(&all, plan, p, NULL), PLIM_OK);
    for (uint32_t t = 0; t < p->n_steps; t++) {
        reads += p->step[t].kind == PLIM__STEP_READ;
        waits += p->step[t].kind == PLIM__STEP_WAIT;
    }
    assert_int_equal(all.n_reads + all.n_rings + all.early0[PLIM__MAX_LOOPS], reads);
    for (uint32_t d = 0; d < PLIM__MAX_LOOPS; d++)
        for (uint32_t i = all.early0[d]; i < all.early0[d + 1]; i++) check_early(plan, p, &all.early[i], d, x);
    for (uint32_t t = 0; t < p->n_steps; t++) check_beside(plan, p, t, x);
    assert_int_equal(all.n_waits, waits);
    assert_true(all.ahead >= 1 && (all.ahead > 1) == (all.n_rings > 0));
    for (uint32_t i = 0; i < all.n_reads; i++) check_read(plan, p, &all.read[i], x);
    for (uint32_t i = 0; i < all.n_waits; i++) check_wait(plan, p, &all.wait[i], x);
    for (uint32_t i = 0; i < all.n_rings; i++) {
        const plim__pvalue *v = &p->value[all.ring[i]];
        assert_true(v->depth == p->n_cut && plan->slot[v->slot].copies <= all.ahead && plan->slot[v->slot].copies > 1);
    }
    x->reads += all.n_reads;
    x->rings += all.n_rings;
    x->waits += all.n_waits;
    plim__transfers_free(&all, &plan->alloc);
}

static random_how program(int i)
{
    return (random_how){.seed = (uint64_t)i * 409 + 5,
                        .ops = 3 + (uint32_t)i % 10,
                        .scale = 24 + 16 * (i % 3),
                        .states = i % 4 == 0 ? 2 : 0,
                        .spill = i % 2 ? "/var/tmp" : NULL,
                        .threads = 1 + (uint32_t)i % 3,
                        .on_file = i % 3 == 1};
}

static void transfers_meet_nobody(void **state)
{
    (void)state;
    seen x = {0};
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        random_graph r;
        plim__search s;
        plim_error err = {0};
        bool fits = true;
        random_graph_begin(&r, program(i));
        r.plan->thorough = i % 4 == 3;
        r.plan->prefer = i % 2 ? &prefer_many_loops : NULL;
        plim__plan_hold(r.plan, 0);
        assert_int_equal(plim__search_new(&s, r.plan, &err), PLIM_OK);
        uint64_t arena = UINT64_MAX / 4;
        for (int k = 0; k < ARENAS && fits; k++) {
            assert_int_equal(plim__search_passes(&s, arena, &fits), PLIM_OK);
            for (uint32_t q = 0; q < r.plan->n_passes && fits; q++) check_pass(r.plan, &r.plan->pass[q], &x);
            if (fits) arena = r.plan->arena_bytes * 3 / 5;
        }
        plim__search_free(&s);
        random_graph_end(&r);
    }
    print_message("%u reads, %u rings, %u early; beside loops: %u for the next trip, %u behind them, %u written\n", x.reads, x.rings, x.early, x.ahead, x.beside, x.written);
    assert_true(x.reads > 0 && x.rings > 0 && x.early > 0 && x.ahead > 0 && x.written > 0 && (SANITIZED || x.beside > 0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(transfers_meet_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
