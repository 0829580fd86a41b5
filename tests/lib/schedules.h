/* Plans made from schedules: with given loops, what is kept, recomputed and spilled inside a given limit. */
#ifndef PLIM_TESTS_SCHEDULES_H
#define PLIM_TESTS_SCHEDULES_H

#include "unit.h"

#include "plan/keep.h"
#include "plan/search.h"

/* What a schedule looked like. */
typedef struct look {
    uint64_t peak, arena, floor;
    uint32_t again, spilled, reread;
    uint64_t trips;
    double seconds;
} look;

/* Which loops a plan has. */
typedef struct cut {
    uint32_t loops;    /* set of labels */
    int64_t tile;      /* of each */
    uint64_t resident; /* bytes of files that are read once for all trips */
    bool reversed;     /* the loops from the inside out */
} cut;

/* The template with these loops. @return false: one pass does not do everything */
static inline bool build_template(plim__search *s, const cut *how, plim__pass *out, plim_error *err)
{
    plim__candidate c = {.cut = how->loops & ((1u << s->labels.n) - 1), .end = UINT32_MAX};
    uint32_t n = 0;
    for (int cut_ones = 1; cut_ones >= 0; cut_ones--)
        for (uint32_t i = 0; i < s->labels.n; i++) {
            const uint32_t l = how->reversed ? s->labels.n - 1 - i : i;
            if ((c.cut >> l & 1) != (uint32_t)cut_ones) continue;
            c.tile[n] = cut_ones && how->tile < s->labels.extent[l] ? how->tile : s->labels.extent[l];
            c.order[n++] = (uint8_t)l;
        }
    const plim_status status = plim__search_template(s, &c, out);
    if (status != PLIM_OK && status != PLIM_E_PLAN) fail_msg("%s", err->message);
    return status == PLIM_OK;
}

/* A plan, made again from a schedule inside a limit. @return false: it does not fit, or cannot have these loops */
static inline bool schedule_cut(plim_plan *plan, const cut *how, uint64_t limit, look *seen)
{
    plim_error err = {0};
    plim__search s;
    plim__pass template;
    plim__tasks tasks;
    plim__schedule schedule;
    bool fits;
    plan->read_copies = plan->write_copies = 1;
    if (plim__search_new(&s, plan, &err) || plim__search_restart(&s)) fail_msg("%s", err.message);
    plim__search_label(&s);
    if (!build_template(&s, how, &template, &err)) {
        plim__search_free(&s);
        return false;
    }
    if (plim__pass_measure(&s.m, plan, &template, 0, true, &err) || plim__tasks_new(&tasks, plan, &template, &s.m, how->resident, &err))
        fail_msg("%s", err.message);
    uint32_t order[1024];
    assert_true(tasks.n <= COUNT_OF(order));
    plim__tasks_by_group(order, &tasks);
    if (plim__keep(&schedule, &fits, plan, &tasks, order, limit, &err)) fail_msg("%s", err.message);
    *seen = (look){.peak = schedule.peak, .floor = plim__tasks_largest(&tasks), .seconds = schedule.seconds};
    for (uint32_t i = 0; i < schedule.n_instances; i++) {
        const plim__instance *x = &schedule.instance[i];
        seen->again += x->again;
        seen->spilled += x->spill && x->item != PLIM__NONE;
        seen->reread += x->back_of != PLIM__NONE;
    }
    if (fits && (plim__search_scheduled(&s, &template, &schedule, UINT64_MAX, &fits) || plim__plan_check(plan, &err)))
        fail_msg("limit %llu: %s", (unsigned long long)limit, err.message);
    seen->trips = 1;
    for (uint32_t l = 0; l < template.n_cut; l++) seen->trips *= (uint64_t)plim__loop_trips(&template.loop[l]);
    seen->arena = plan->arena_bytes - plan->io_bytes;
    plim__schedule_free(&schedule, &plan->alloc);
    plim__tasks_free(&tasks, &plan->alloc);
    plim__pass_free(&plan->alloc, &template);
    plim__search_free(&s);
    return fits;
}

static inline bool schedule_plan(plim_plan *plan, uint64_t limit, look *seen)
{
    return schedule_cut(plan, &(cut){0}, limit, seen);
}

#endif
