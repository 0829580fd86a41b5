/* The schedule of transfers on random programs, at arenas from ample ones down: what is under way shares memory with nobody
 * who is alive, and no bytes are read before they have been written. */
#include "unit.h"

#include "plan/search.h"
#include "plan/transfers.h"
#include "random_graph.h"

#define PROGRAMS 40
#define ARENAS   8

typedef struct seen {
    uint32_t reads, rings, waits, early, late; /* early, late: not at their own step */
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

static void check_pass(const plim_plan *plan, const plim__pass *p, seen *x)
{
    plim__transfers all;
    uint32_t reads = 0, waits = 0;
    assert_int_equal(plim__transfers_new(&all, plan, p, NULL), PLIM_OK);
    for (uint32_t t = 0; t < p->n_steps; t++) {
        reads += p->step[t].kind == PLIM__STEP_READ;
        waits += p->step[t].kind == PLIM__STEP_WAIT;
    }
    assert_int_equal(all.n_reads + all.n_rings, reads);
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
    assert_true(x.reads > 0 && x.rings > 0 && x.early > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(transfers_meet_nobody)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
