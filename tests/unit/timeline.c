/* The history of a watched program: draining a ring, steady growth, replays, and that coarser history never says too little. */
#include "unit.h"

#include "watch/timeline.h"

#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)

typedef struct scene {
    plim__alloc alloc;
    plim__timeline t;
    plim__reader r;
    plim__rec_process *p;
} scene;

static scene scene_new(uint32_t changes_max)
{
    scene s = {.p = calloc(1, sizeof *s.p)};
    const plim_settings set = plim_settings_default();
    s.alloc = plim__alloc_from(&set);
    assert_non_null(s.p);
    plim__timeline_init(&s.t, &s.alloc, changes_max);
    assert_int_equal(plim__reader_init(&s.r, 0, &s.alloc, NULL), PLIM_OK);
    return s;
}

static void scene_end(scene *s)
{
    plim__reader_free(&s->r, &s->alloc);
    plim__timeline_free(&s->t);
    free(s->p);
}

/* As the recording library does it. */
static void event(scene *s, uint32_t site, uint32_t ms, int64_t bytes)
{
    const uint64_t at = atomic_fetch_add(&s->p->events, 1), size = (uint64_t)(bytes < 0 ? -bytes : bytes);
    plim__rec_event *e = &s->p->event[at % PLIM__REC_EVENTS];
    atomic_store(&e->seq, 0);
    e->ns = (uint64_t)ms * 1000000;
    e->bytes = size;
    e->site = site;
    e->kind = bytes < 0 ? PLIM__REC_FREED : PLIM__REC_GOT;
    plim__rec_site *k = &s->p->site[site];
    atomic_store(&k->hash, site + 1);
    if (bytes < 0) {
        atomic_fetch_sub(&k->live_bytes, size), atomic_fetch_sub(&k->live_blocks, 1), atomic_fetch_add(&k->frees, 1);
    } else {
        atomic_fetch_add(&k->live_bytes, size), atomic_fetch_add(&k->live_blocks, 1), atomic_fetch_add(&k->allocations, 1);
    }
    atomic_store(&e->seq, at + 1);
}

static void drain(scene *s)
{
    assert_int_equal(plim__timeline_drain(&s->t, &s->r, s->p, NULL), PLIM_OK);
}

static void events_become_live_bytes(void **state)
{
    (void)state;
    scene s = scene_new(1000);
    event(&s, 3, 10, 5 * MIB);
    event(&s, 7, 20, 2 * MIB);
    event(&s, 3, 30, -(int64_t)(5 * MIB));
    drain(&s);
    event(&s, 3, 40, 1 * MIB);
    drain(&s);
    assert_int_equal(s.t.n_stacks, 2);
    assert_int_equal(s.t.live, 3 * MIB);
    assert_int_equal(s.t.live_peak, 7 * MIB);
    assert_int_equal(s.t.stack[s.t.peak_stack].site, 7);
    assert_int_equal(s.t.stack[0].live, 1 * MIB);
    assert_int_equal(s.t.stack[0].got, 2);
    assert_int_equal(s.t.stack[0].freed, 1);
    assert_int_equal(s.t.stack[0].live_at_peak, 5 * MIB);
    assert_int_equal(plim__timeline_end(&s.t, &s.r, 50, NULL), PLIM_OK);
    assert_int_equal(s.t.live, 0);
    assert_int_equal(s.t.stack[1].freed, 1);
    scene_end(&s);
}

static void an_event_that_is_being_written_is_read_later(void **state)
{
    (void)state;
    scene s = scene_new(1000);
    event(&s, 0, 1, 1 * MIB);
    event(&s, 1, 2, 2 * MIB);
    atomic_store(&s.p->event[1].seq, 0);
    drain(&s);
    assert_int_equal(s.t.live, 1 * MIB);
    atomic_store(&s.p->event[1].seq, 2);
    drain(&s);
    assert_int_equal(s.t.live, 3 * MIB);
    assert_int_equal(s.t.lost, 0);
    scene_end(&s);
}

static void overwritten_events_are_made_good_from_counters(void **state)
{
    (void)state;
    scene s = scene_new(1 << 20);
    event(&s, 5, 1, 9 * MIB); /* overwritten before it is read */
    for (uint32_t i = 0; i < PLIM__REC_EVENTS * 2; i++) event(&s, 6, 2, i % 2 ? -(int64_t)MIB : (int64_t)MIB);
    event(&s, 6, 3, 4 * MIB);
    drain(&s);
    assert_true(s.t.lost > 0);
    assert_int_equal(s.t.live, 13 * MIB);
    const uint32_t stack = plim__timeline_stack(&s.t, &s.r, 5);
    assert_int_equal(s.t.stack[stack].live, 9 * MIB);
    assert_int_equal(s.t.stack[stack].got, 1);
    assert_int_equal(s.t.stack[plim__timeline_stack(&s.t, &s.r, 6)].got, PLIM__REC_EVENTS + 1);
    scene_end(&s);
}

static void only_steady_growth_is_called_steady(void **state)
{
    (void)state;
    scene s = scene_new(100000);
    for (uint32_t i = 0; i < 8; i++) event(&s, 2, i, 3 * MIB); /* all at the start: data that was loaded */
    for (uint32_t i = 0; i < 60; i++) {
        event(&s, 0, 100 + i * 10, 1 * MIB);                 /* kept for ever */
        event(&s, 1, 101 + i * 10, 4 * MIB);                 /* freed at once */
        event(&s, 1, 102 + i * 10, -(int64_t)(4 * MIB));
        if (i < 20) event(&s, 3, 103 + i * 10, 1 * MIB);     /* a cache that is full after a third */
    }
    drain(&s);
    plim__growth g[4];
    plim__timeline_growth(&s.t, 700, g);
    assert_true(g[plim__timeline_stack(&s.t, &s.r, 0)].steady);
    assert_false(g[plim__timeline_stack(&s.t, &s.r, 1)].steady);
    assert_false(g[plim__timeline_stack(&s.t, &s.r, 2)].steady);
    assert_false(g[plim__timeline_stack(&s.t, &s.r, 3)].steady);
    /* 60 MiB in the 0.6 s since it began */
    const double rate = g[plim__timeline_stack(&s.t, &s.r, 0)].per_second / (double)MIB;
    assert_true(rate > 95 && rate < 105);
    scene_end(&s);
}

static void replays_apply_what_is_changed(void **state)
{
    (void)state;
    scene s = scene_new(1000);
    for (uint32_t i = 0; i < 10; i++) {
        event(&s, 0, i, 8 * MIB); /* kept */
        event(&s, 1, i, 5 * MIB);
        event(&s, 1, i, -(int64_t)(5 * MIB));
    }
    drain(&s);
    assert_int_equal(plim__replay_peak(&s.t, NULL, NULL, 0), 85 * MIB);
    plim__what_if w[2] = {{.scale = 1, .keep_last = true}, {.scale = 1}};
    assert_int_equal(plim__replay_peak(&s.t, w, NULL, 0), 13 * MIB); /* one of the kept and one of the others */
    w[0] = (plim__what_if){.scale = 0.5};
    assert_int_equal(plim__replay_peak(&s.t, w, NULL, 0), 45 * MIB);
    w[0] = (plim__what_if){.scale = 0};
    assert_int_equal(plim__replay_peak(&s.t, w, NULL, 0), 5 * MIB);
    const int64_t last[] = {(int64_t)(20 * MIB), (int64_t)(10 * MIB)};
    assert_int_equal(plim__replay_peak(&s.t, NULL, last, 2), 110 * MIB); /* 80 alive at the end */
    s.t.stack[0].resident = 0.25;                                         /* only a quarter of it was ever touched */
    assert_int_equal(plim__replay_peak(&s.t, NULL, NULL, 0), 25 * MIB);
    scene_end(&s);
}

/* Random programs with a short history and with an endless one: the short one may say more, never less, and not wildly more. */
static void coarse_history_never_says_too_little(void **state)
{
    (void)state;
    srand(7);
    for (int round = 0; round < 20; round++) {
        scene fine = scene_new(1 << 20), coarse = scene_new(2000);
        uint32_t live[8] = {0};
        for (uint32_t i = 0; i < 20000; i++) {
            const uint32_t site = (uint32_t)rand() % 8;
            const bool frees = live[site] && (live[site] > 6 || rand() % 2);
            live[site] += frees ? -1u : 1u;
            const int64_t bytes = (int64_t)(MIB * (site + 1));
            event(&fine, site, i, frees ? -bytes : bytes);
            event(&coarse, site, i, frees ? -bytes : bytes);
            if (i % 512 == 0) drain(&fine), drain(&coarse);
        }
        drain(&fine), drain(&coarse);
        assert_true(coarse.t.coarse);
        assert_false(fine.t.coarse);
        assert_true(coarse.t.n_changes <= 2000);
        assert_int_equal(coarse.t.live, fine.t.live);
        assert_int_equal(coarse.t.live_peak, fine.t.live_peak);
        const uint64_t exact = plim__replay_peak(&fine.t, NULL, NULL, 0), rough = plim__replay_peak(&coarse.t, NULL, NULL, 0);
        assert_int_equal(exact, fine.t.live_peak);
        assert_true(rough >= exact);
        assert_true(rough <= exact * 2);
        scene_end(&fine), scene_end(&coarse);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(events_become_live_bytes),
        cmocka_unit_test(an_event_that_is_being_written_is_read_later),
        cmocka_unit_test(overwritten_events_are_made_good_from_counters),
        cmocka_unit_test(only_steady_growth_is_called_steady),
        cmocka_unit_test(replays_apply_what_is_changed),
        cmocka_unit_test(coarse_history_never_says_too_little),
    };
    return cmocka_run_group_tests_name("timeline", tests, NULL, NULL);
}
