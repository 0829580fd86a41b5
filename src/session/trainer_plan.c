/* Plans a training, and the validation that it may come with, inside one budget.
 *
 * Both programs share one arena. What training needs from step to step lies at its start; the rest is free between steps:
 *
 *     0                at                                                arena_bytes
 *     | engine | held  | what a step needs                    |               |
 *                      | engine | held | what validation needs            |
 *
 * So two sums have to stay inside the budget, with everything else that is in the process in both of them: the training's arena, and what it holds with the
 * validation's arena behind it.
 *
 * Which plans. The training is planned as it would be without a validation: it is cut the same way, and its sums have the same bits. Where the validation does
 * not fit beside that, the training is planned in less and less, down to its smallest plan. The floor is both programs' smallest plans together; it is tried
 * last, so what is printed as the floor always works. */
#include "core/size.h"
#include "session/parameters.h"
#include "session/trainer.h"

#include <stdio.h>
#include <string.h>

#define STEP_DOWN 1.1892 /* from one room for the training to the next: four to the octave */

/* Where the first byte is that no step needs from one to the next. */
static uint64_t end_of_held(const plim_plan *plan)
{
    uint64_t end = plan->io_bytes;
    for (uint32_t i = 0; i < plan->n_slots && plim__slot_is_held(plan, i); i++) {
        const uint64_t to = plan->slot[i].offset + plan->slot[i].bytes * plan->slot[i].copies;
        end = to > end ? to : end;
    }
    return plim__round_up(end, PLIM__IO_ALIGN);
}

/* Sets what each of the plans as they are leaves the other one: its tables, and to validation what training holds. */
static void share(plim_trainer *t)
{
    t->validation.at = end_of_held(t->plan);
    plim__budget_share(t->plan, t->validation.plan, t->validation.at);
}

/* The budget for both plans as they are. */
static uint64_t budget_of(plim_trainer *t)
{
    share(t);
    const uint64_t a = plim__budget_for(&t->plan->budget, plim__plan_need(t->plan));
    const uint64_t b = plim__budget_for(&t->validation.plan->budget, plim__plan_need(t->validation.plan));
    return a > b ? a : b;
}

static plim_status make(plim_plan *plan, uint64_t most, plim_error *err)
{
    bool fits;
    PLIM_TRY(plim__plan_make(plan, most, &fits, err));
    PLIM_FAIL_IF(!fits, err, PLIM_E_PLAN, "internal: the smallest plan was not found again");
    return PLIM_OK;
}

static plim_status make_smallest(plim_trainer *t, plim_error *err)
{
    PLIM_TRY(make(t->plan, t->plan->floor_need, err));
    return make(t->validation.plan, t->validation.plan->floor_need, err);
}

/* Tries a training of at most `most` bytes. */
static plim_status try_training(plim_trainer *t, uint64_t most, uint64_t budget, bool *fits, plim_error *err)
{
    plim_plan *validate = t->validation.plan;
    *fits = false;
    PLIM_TRY(make(t->plan, most, err));
    share(t);
    const uint64_t room = plim__budget_room(&validate->budget, budget);
    if (room < validate->floor_need) return PLIM_OK;
    PLIM_TRY(make(validate, room, err));
    *fits = budget_of(t) <= budget;
    return PLIM_OK;
}

static plim_status refuse(uint64_t need, uint64_t have, plim_error *err)
{
    char text[2][32];
    if (err) {
        err->need = need;
        err->have = have;
    }
    return plim__fail(err, PLIM_E_BUDGET, "does not fit with validation: the smallest budget that works is %s, the budget is %s",
                      plim_bytes_format(text[0], sizeof text[0], need), plim_bytes_format(text[1], sizeof text[1], have));
}

/* @param alone  bytes that the training would have more if there were no validation */
static plim_status choose_plans(plim_trainer *t, uint64_t budget, uint64_t alone, uint64_t *floor, plim_error *err)
{
    plim_plan *train = t->plan;
    bool fits = false;
    PLIM_TRY(make_smallest(t, err));
    const uint64_t plans = budget_of(t), planning = plim__budget_planning(&train->budget), least = plans > planning ? plans : planning;
    const uint64_t least_need = train->floor_need;
    *floor = plim__budget_floor(&train->budget, plans);
    if (least > budget) return refuse(*floor, budget, err);
    train->budget.beside = 0;
    for (uint64_t most = plim__budget_room(&train->budget, budget + alone); most > least_need && !fits; most = (uint64_t)((double)most / STEP_DOWN))
        PLIM_TRY(try_training(t, most, budget, &fits, err));
    if (!fits) PLIM_TRY(try_training(t, least_need, budget, &fits, err));
    return fits ? PLIM_OK : make_smallest(t, err);
}

/* What is printed is about both. */
static void state_facts(plim_trainer *t, uint64_t floor, double seconds)
{
    plim_facts *f = &t->plan->facts;
    const plim_facts *v = &t->validation.plan->facts;
    const bool higher = t->validation.at + t->validation.plan->arena_bytes > f->arena_bytes;
    t->arena_bytes = plim__budget_state_both(t->plan, t->validation.plan, t->validation.at);
    if (higher) {
        snprintf(f->peak_step, sizeof f->peak_step, "validation, %.80s", v->peak_step);
        memcpy(f->peak, v->peak, sizeof f->peak);
        f->n_peak = v->n_peak;
    }
    f->floor_bytes = floor;
    f->plan_seconds = seconds;
    f->rejected_plans += v->rejected_plans;
}

static plim_status plan_both(plim_trainer *t, uint64_t alone, const plim_settings *set, plim_error *err)
{
    const plim__os *os = &plim__os_linux;
    const uint64_t start = os->clock_ns(os->self);
    plim_settings with = *set;
    uint64_t floor;
    PLIM_TRY(plim__plan_begin(&t->plan, t->model->model->graph, set, os, err));
    with.memory = t->plan->budget.bytes;
    with.baseline = t->plan->budget.baseline;
    PLIM_TRY(plim__plan_begin(&t->validation.plan, t->validation.model->model->graph, &with, os, err));
    PLIM_TRY(choose_plans(t, with.memory, alone, &floor, err));
    share(t);
    PLIM_TRY(plim__plan_end(t->plan, err));
    PLIM_TRY(plim__plan_end(t->validation.plan, err));
    state_facts(t, floor, (double)(os->clock_ns(os->self) - start) * 1e-9);
    if (!t->plan->facts.fits) return refuse(plim__budget_floor(&t->plan->budget, floor), with.memory, err); /* planning itself has taken more */
    return PLIM_OK;
}

static plim_status resident(const plim_trainer *t, uint64_t *bytes, plim_error *err)
{
    uint64_t peak;
    plim__alloc_trim(&t->alloc);
    return plim__resident_read(bytes, &peak, &plim__os_linux, err);
}

plim_status plim__trainer_plan(plim_trainer *t, const char *path, const plim_train_options *how, const plim_settings *set, plim_error *err)
{
    uint64_t before, after;
    if (how->n_validate == 0) return plim_model_plan(&t->plan, t->model, set, err);
    PLIM_TRY(resident(t, &before, err));
    PLIM_TRY(plim__validation_read(t, path, how, set, err));
    PLIM_TRY(resident(t, &after, err));
    return plan_both(t, after > before ? after - before : 0, set, err);
}
