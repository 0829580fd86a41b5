#include "plan/portfolio.h"
#include "core/size.h"
#include "plan/cost.h"
#include "plan/keep.h"
#include "plan/search.h"
#include "plan/task_order.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEPT_STEP 1.1892 /* between limits for what is kept: four to the octave */
#define PASSES_STEP 1.1892 /* between arenas that are searched pass by pass: four to the octave, of which every other one */
#define SLOW_PASSES 2.0    /* times the fastest: the others, too, where the plans that are known take longer, until half of what may be measured has been */
#define MANY_NODES 512   /* programs with more are not searched pass by pass for every arena */
#define LEAST_MEASURED 32 /* times the nodes of the program: a search pass by pass that may measure less is not begun */
#define MOST_MEASURED 3e6  /* nodes of candidates, of which a second has about a million, in all searches pass by pass for one plan */
#define MEASURED_PER_SECOND 2e6 /* nodes for every second that the fastest plan that is known takes longer than the fastest: what ten runs have at stake */
#define FLOOR_MEASURED 4e5 /* nodes in searches for the smallest arena */
#define FLOOR_ROUNDS 8
#define FLOOR_TRIES 40 /* plans that are made, most of them roughly, to find the smallest */
#define FLOOR_GAIN 32    /* a smallest plan that may be smaller by less than this part of it is not looked for */
#define SLOWEST 32.0     /* times what the fastest takes: a plan that takes longer is of no use */
#define SLOWEST_SECONDS 1.0 /* unless it takes less than this */
#define WORTH 1.1       /* times what the fastest takes in one pass: no search pass by pass where a known plan takes no more */
#define HOPE 0.97        /* what a recipe takes may turn out to be that part of a guess: what is made again is guessed node by node, and runs in stages */
#define ENOUGH 1.1 /* times what the nodes take by themselves: passes are not looked for where the fastest recipe takes no more, and fits */
#define AGAIN 8 /* times what a search pass by pass has measured may be measured for others: then it is done again in other ways */
#define NEARLY 16 /* one part in so many more than an arena: what needs no more than that is compared with what is searched for inside it */
#define DOUBTFUL 1.1 /* times what later passes would take at the least: they are searched for again where they take longer */
#define PARTS 5 /* of what may be held: all but a half of it, but a quarter, and so on */
#define LARGEST 3 /* all but the largest, the two largest, the four largest: a few large weights are read in parts while all others stay */
#define SMALL_FILES (1u << 20) /* bytes of files that are cheaper to keep in memory than to read in every trip */
#define CUT_IO 2 /* level of the engine's buffers for passes with loops that keep inside a limit */
#define ORDER_STATES 50000 /* sets of tasks that the exact search for an order may look at: about 25 ms */

typedef enum kind {
    KEPT,      /* one pass, cut or not, that keeps, recomputes and spills inside a limit */
    ONE_PASS,  /* one pass with loops that keeps everything */
    PASSES,    /* pass by pass inside an arena */
    SMALL_ONE, /* the smallest in one pass with loops */
    SMALL,     /* the smallest pass by pass */
} kind;

/* How well it is known what a recipe needs and takes. Each is a lower bound of the next, or nearly so. */
typedef enum known {
    GUESSED, /* by the simulation, or from two tiles of a pass that is then changed */
    ROUGH,   /* from two tiles of every pass, not packed */
    MADE,    /* from all tiles, packed */
} known;

typedef struct recipe {
    kind kind;
    uint64_t limit;  /* KEPT: of what is alive; PASSES: of the arena */
    uint64_t resident; /* KEPT: bytes of files that are read once for all trips */
    uint32_t rings;  /* ONE_PASS, PASSES */
    int io;
    plim__candidate pass; /* KEPT, ONE_PASS: the loops */
    uint32_t level;  /* index of what is held */
    uint32_t choice0, n_choices; /* PASSES: in plim__portfolio.choice, the passes that were found */
    uint64_t slots;  /* PASSES: bytes of slots inside which they were */
    bool hasty;      /* PASSES: something was looked for that fits, not the fastest */
    double effort;   /* PASSES: nodes that were measured for it */
    known known;
    uint64_t least;  /* bytes that it needs; UINT64_MAX: it cannot be made, or the verifier rejects it */
    double seconds;  /* that it takes */
    bool verified;   /* accepted by the verifier */
    uint32_t number; /* breaks ties */
} recipe;

/* A pass that keeps everything, and its tasks: what schedules inside a limit are made from. */
typedef struct template {
    plim__candidate c;
    uint64_t resident;
    plim__pass pass;
    plim__tasks tasks;
    uint32_t *order;   /* of the tasks; NULL: there is no such pass */
    uint64_t peak, floor; /* bytes alive when everything is kept, and the least limit that is known to work */
} template;

/* What follows from which inputs are held from run to run. */
typedef struct level {
    uint64_t most;     /* bytes of inputs that may be held and are, at most */
    uint64_t held;     /* of all that are */
    bool by_pass;      /* plans pass by pass are looked for with that: with nothing held, with all, and with all but the largest */
    template uncut;
} level;

struct plim__portfolio {
    plim__search s;
    plim_plan *plan;
    level level[2 + PARTS + LARGEST]; /* what must be held; where that is not all of it, all that may be, and parts of that */
    uint32_t n_levels;
    level *at;         /* the one that recipes are made at now */
    template cut;      /* the one with loops that was opened last */
    uint32_t cut_level; /* at which it was */
    uint64_t cut_measured; /* passes that had been measured when it was */
    uint64_t floor;    /* the least need of a plan */
    double fastest;    /* seconds of the fastest recipe in one pass */
    double slowest;    /* seconds: what takes longer is no plan, however little it needs */
    double effort;     /* nodes that searches pass by pass may still measure for this plan */
    bool hasty;        /* they end with the first plan that fits */
    uint32_t in_plan;  /* number of the recipe that the plan was made with last, not roughly; or PLIM__NONE */
    plim_error rejected; /* why the verifier rejected the first of the plans that it did */
    recipe *recipe; uint32_t n_recipes, cap_recipes;
    plim__candidate *choice; uint32_t n_choices, cap_choices;
    uint32_t rings; int io; /* of the passes with loops that are being noted */
    uint64_t most;     /* need of the plan that is looked for */
    plim_error *err;
};

/* Goes to a level: what is planned from now on holds what it says. */
static void go_to(plim__portfolio *f, uint32_t i)
{
    f->in_plan = PLIM__NONE;
    f->at = &f->level[i];
    f->at->held = plim__plan_hold(f->plan, f->at->most);
    f->s.labelled = false; /* what is on file is another set */
}

static uint32_t level_number(const plim__portfolio *f) { return (uint32_t)(f->at - f->level); }

/* ---------------------------------------------------------------------------------------------- recipes */

static plim_status add_recipe(plim__portfolio *f, recipe r)
{
    PLIM_TRY(plim__grow(&f->plan->alloc, (void **)&f->recipe, &f->cap_recipes, f->n_recipes + 1, sizeof *f->recipe, f->err));
    r.number = f->n_recipes;
    r.level = level_number(f);
    f->recipe[f->n_recipes++] = r;
    return PLIM_OK;
}

/* A plan that the verifier rejects is not taken, and counted: it is a defect of the planner, and there are other recipes. */
static plim_status verify(plim__portfolio *f, bool *good)
{
    plim_error err = {0};
    const plim_status status = plim__plan_check(f->plan, &err);
    *good = status == PLIM_OK;
    if (status == PLIM_OK) return PLIM_OK;
    if (status != PLIM_E_PLAN) return plim__fail(f->err, status, "%s", err.message);
    if (f->plan->facts.rejected_plans++ == 0) f->rejected = err;
    return PLIM_OK;
}

static double plan_seconds(const plim_plan *plan)
{
    double seconds = 0;
    for (uint32_t i = 0; i < plan->n_passes; i++) seconds += plan->pass[i].seconds;
    return seconds;
}

/* Buffers of the engine for a pass without loops: whole arrays need few. */
static int kept_io(uint64_t limit) { return limit < (256u << 20) ? 2 : 1; }

static void close_template(const plim__portfolio *f, template *t)
{
    const plim__alloc *a = &f->plan->alloc;
    plim__tasks_free(&t->tasks, a);
    plim__pass_free(a, &t->pass);
    plim__free(a, t->order);
    *t = (template){0};
}

static bool same_loops(const plim__candidate *a, const plim__candidate *b)
{
    return a->cut == b->cut && a->defer == b->defer && memcmp(a->order, b->order, sizeof a->order) == 0 && memcmp(a->tile, b->tile, sizeof a->tile) == 0;
}

/* Builds and measures the pass of the open template. */
static plim_status measure_cut(plim__portfolio *f, const plim__candidate *c)
{
    f->plan->read_copies = f->plan->write_copies = 1;
    plim__plan_io(f->plan, CUT_IO);
    PLIM_TRY(plim__search_restart(&f->s));
    PLIM_TRY(plim__search_template(&f->s, c, &f->cut.pass));
    f->cut.c = *c;
    f->cut_level = level_number(f);
    PLIM_TRY(plim__pass_measure(&f->s.m, f->plan, &f->cut.pass, 0, false, f->err));
    f->s.measured += f->cut.pass.n_nodes;
    f->cut_measured = f->s.m.passes;
    return PLIM_OK;
}

/* The template with the loops of `c` at this level: the one that is open, or in its place. */
static plim_status open_cut(plim__portfolio *f, const plim__candidate *c, uint64_t resident)
{
    template *t = &f->cut;
    const bool same_pass = t->order && f->cut_level == level_number(f) && same_loops(&t->c, c);
    if (same_pass && t->resident == resident) return PLIM_OK;
    if (same_pass && f->cut_measured == f->s.m.passes) { /* nothing else has been measured since */
        plim__tasks_free(&t->tasks, &f->plan->alloc);
        plim__free(&f->plan->alloc, t->order);
        t->order = NULL;
    } else {
        close_template(f, t);
        PLIM_TRY(measure_cut(f, c));
    }
    t->resident = resident;
    PLIM_TRY(plim__tasks_new(&t->tasks, f->plan, &t->pass, &f->s.m, resident, f->err));
    t->order = plim__new(&f->plan->alloc, t->tasks.n, sizeof *t->order, f->err);
    if (!t->order) return PLIM_E_NOMEM;
    plim__tasks_by_group(t->order, &t->tasks);
    return PLIM_OK;
}

static plim_status make_kept(plim__portfolio *f, const recipe *r, bool *made)
{
    plim__schedule schedule;
    const template *t = r->pass.cut ? &f->cut : &f->at->uncut;
    if (r->pass.cut) PLIM_TRY(open_cut(f, &r->pass, r->resident));
    plim__plan_clear(f->plan); /* nothing is in a file of our own yet */
    f->plan->read_copies = f->plan->write_copies = 1;
    plim__plan_io(f->plan, r->pass.cut ? CUT_IO : kept_io(r->limit));
    PLIM_TRY(plim__keep(&schedule, made, f->plan, &t->tasks, t->order, r->limit, f->err));
    if (!*made) return PLIM_OK;
    const plim_status status = plim__search_scheduled(&f->s, &t->pass, &schedule, f->plan->io_bytes + f->at->held + r->limit, made);
    plim__schedule_free(&schedule, &f->plan->alloc);
    return status;
}

static plim_status make_passes(plim__portfolio *f, const recipe *r)
{
    f->plan->read_copies = f->plan->write_copies = r->rings;
    plim__plan_io(f->plan, r->io);
    f->s.f.work = f->s.work;
    const plim_status status = plim__search_again(&f->s, &f->choice[r->choice0], r->n_choices, r->slots);
    f->s.f.work = NULL;
    return status;
}

static plim_status make(plim__portfolio *f, const recipe *r, bool *made)
{
    *made = true;
    if (r->level != level_number(f)) go_to(f, r->level);
    switch (r->kind) {
    case KEPT: return make_kept(f, r, made);
    case ONE_PASS:
        f->plan->read_copies = f->plan->write_copies = r->rings;
        plim__plan_io(f->plan, r->io);
        return plim__search_one_pass(&f->s, &r->pass);
    case PASSES: return make_passes(f, r);
    case SMALL_ONE:
    case SMALL: return plim__search_small(&f->s, r->kind == SMALL_ONE, made);
    }
    return PLIM_OK;
}

/* Makes the plan, roughly or not, and notes what it needs and takes. */
static plim_status look_at(plim__portfolio *f, recipe *r, known to)
{
    bool made;
    PLIM_ASSERT(to == ROUGH || to == MADE);
    f->s.rough = to == ROUGH;
    f->in_plan = PLIM__NONE;
    const plim_status status = make(f, r, &made);
    f->s.rough = false;
    PLIM_TRY(status);
    if (to == MADE && made) f->in_plan = r->number;
    r->known = to;
    r->least = made ? plim__plan_need(f->plan) : UINT64_MAX;
    r->seconds = plan_seconds(f->plan);
    return PLIM_OK;
}

/* The next better knowledge: programs of a few nodes have no need for rough plans. */
static plim_status look_closer(plim__portfolio *f, recipe *r)
{
    return look_at(f, r, r->known == GUESSED && f->plan->thorough ? ROUGH : MADE);
}

/* Shows a plan that was made to the verifier. A rejected one fits nowhere. */
static plim_status verify_recipe(plim__portfolio *f, recipe *r)
{
    PLIM_ASSERT(r->known == MADE);
    if (r->verified) return PLIM_OK;
    if (f->in_plan != r->number) PLIM_TRY(look_at(f, r, MADE));
    PLIM_TRY(verify(f, &r->verified));
    if (!r->verified) r->least = UINT64_MAX;
    return PLIM_OK;
}

/* What the recipe takes at the least, by what is known. */
static double hoped_seconds(const recipe *r) { return r->known == GUESSED ? HOPE * r->seconds : r->seconds; }

/* The fastest recipe that needs at most so much. Only those are looked at more closely that may be it: whatever is known of the others, they take longer.
 * @param to  how well it has to be known. @param best  set to it, or to NULL */
static plim_status find_fastest(plim__portfolio *f, uint64_t most, known to, recipe **best)
{
    for (;;) {
        *best = NULL;
        for (recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++)
            if (r->least <= most && hoped_seconds(r) <= f->slowest && (!*best || hoped_seconds(r) < hoped_seconds(*best))) *best = r;
        if (!*best || ((*best)->known >= to && (to < MADE || (*best)->verified))) return PLIM_OK;
        if ((*best)->known < to) PLIM_TRY(look_closer(f, *best));
        else PLIM_TRY(verify_recipe(f, *best));
    }
}

/* ------------------------------------------------------------------------------------------------- kept */

/* @param seconds  set to what it takes at the least */
static plim_status try_keep(plim__portfolio *f, const template *t, uint64_t limit, bool *fits, uint64_t *peak, double *seconds)
{
    plim__schedule schedule;
    plim__plan_clear(f->plan);
    PLIM_TRY(plim__keep(&schedule, fits, f->plan, &t->tasks, t->order, limit, f->err));
    *peak = schedule.peak;
    *seconds = schedule.least;
    plim__schedule_free(&schedule, &f->plan->alloc);
    return PLIM_OK;
}

/* The least limit at which the simulation ends: between what the largest task needs and what is alive when everything is kept. */
static plim_status find_kept_floor(plim__portfolio *f, template *t)
{
    bool fits;
    double seconds;
    uint64_t peak;
    PLIM_TRY(try_keep(f, t, UINT64_MAX, &fits, &t->peak, &seconds));
    PLIM_ASSERT(fits);
    uint64_t no = plim__tasks_largest(&t->tasks) - 1, yes = t->peak;
    for (int i = 0; i < FLOOR_ROUNDS && no + no / 64 < yes; i++) {
        const uint64_t limit = i == 0 ? no + 1 : (uint64_t)sqrt((double)no * (double)yes);
        PLIM_TRY(try_keep(f, t, limit, &fits, &peak, &seconds));
        if (fits) yes = limit;
        else no = limit;
    }
    t->floor = yes;
    return PLIM_OK;
}

/* The next smaller limit, of which `least` is the last. */
static uint64_t step_down(uint64_t limit, uint64_t least)
{
    const uint64_t next = (uint64_t)((double)limit / KEPT_STEP);
    return next > least ? next : least;
}

static plim_status add_kept(plim__portfolio *f, const template *t)
{
    if (!t->order) return PLIM_OK;
    for (uint64_t limit = t->peak, last = UINT64_MAX; limit < last; last = limit, limit = step_down(limit, t->floor)) {
        recipe r = {.kind = KEPT, .limit = limit, .pass = t->c, .resident = t->resident, .least = limit + f->at->held};
        bool fits;
        uint64_t peak;
        PLIM_TRY(try_keep(f, t, r.limit, &fits, &peak, &r.seconds));
        if (fits) PLIM_TRY(add_recipe(f, r));
    }
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------- passes with loops */

static bool searched_by_pass(const plim__portfolio *f) { return f->plan->graph->n_nodes <= MANY_NODES || !f->at->uncut.order; }

static plim_status note(void *ctx, const plim__search *s, const plim__candidate *c, uint64_t peak, double seconds)
{
    plim__portfolio *f = ctx;
    return add_recipe(f, (recipe){.kind = ONE_PASS, .rings = f->rings, .io = f->io, .pass = *c, .least = s->plan->io_bytes + peak, .seconds = seconds});
}

static plim_status add_one_pass(plim__portfolio *f)
{
    f->s.note = note;
    f->s.note_ctx = f;
    plim_status status = PLIM_OK;
    for (int variant = 0; variant < 2 && status == PLIM_OK; variant++) {
        f->rings = variant == 0 ? 3 : 1;
        f->io = variant == 0 ? 0 : PLIM__IO_LEVEL_LEAST;
        f->plan->read_copies = f->plan->write_copies = f->rings;
        plim__plan_io(f->plan, f->io);
        status = plim__search_restart(&f->s);
        if (status == PLIM_OK) status = plim__search_complete(&f->s, variant == 0 ? 1 : searched_by_pass(f) ? 3 : 2);
    }
    f->s.note = NULL;
    return status;
}

/* Seconds of the fastest recipe, by what is known. */
static double fastest_seconds(const plim__portfolio *f)
{
    double seconds = INFINITY;
    for (const recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++)
        if (r->kind == KEPT || r->kind == ONE_PASS) seconds = fmin(seconds, r->seconds);
    return seconds;
}

static double slowest_of(const plim__portfolio *f) { return fmax(SLOWEST * fastest_seconds(f), SLOWEST_SECONDS); }

/* Loops in which something may be kept inside limits. */
typedef struct body {
    plim__candidate c;
    uint64_t resident;
    uint64_t largest; /* bytes: no limit below works */
    double seconds;   /* that it takes at the least */
} body;

typedef struct bodies {
    body *item;
    uint32_t n, cap;
} bodies;

/* Is there another one that needs no more and takes no longer? */
static bool is_dominated(const bodies *b, uint32_t i)
{
    const body *x = &b->item[i];
    for (uint32_t j = 0; j < b->n; j++) {
        const body *y = &b->item[j];
        if (j == i || y->largest > x->largest || y->seconds > x->seconds) continue;
        if (y->largest < x->largest || y->seconds < x->seconds || j < i) return true;
    }
    return false;
}

static plim_status add_body(plim__portfolio *f, bodies *b, const plim__candidate *c, uint64_t resident)
{
    body x = {.c = *c, .resident = resident};
    bool fits;
    uint64_t peak;
    PLIM_TRY(open_cut(f, c, resident));
    x.largest = plim__tasks_largest(&f->cut.tasks);
    PLIM_TRY(try_keep(f, &f->cut, UINT64_MAX, &fits, &peak, &x.seconds));
    PLIM_ASSERT(fits && peak >= x.largest);
    PLIM_TRY(plim__grow(&f->plan->alloc, (void **)&b->item, &b->cap, b->n + 1, sizeof *b->item, f->err));
    b->item[b->n++] = x;
    return PLIM_OK;
}

/* The loops of every candidate that was noted at this level, with all shared files read once, the small ones, and none. */
static plim_status list_bodies(plim__portfolio *f, bodies *b)
{
    static const uint64_t resident[] = {UINT64_MAX, SMALL_FILES, 0};
    const bool may_defer = f->plan->graph->n_states > 0 && f->at->most == 0;
    for (uint32_t i = 0; i < f->n_recipes; i++) {
        const recipe *r = &f->recipe[i];
        if (r->kind != ONE_PASS || r->level != level_number(f) || r->rings != 1) continue;
        for (int defer = 0; defer <= may_defer; defer++)
            for (uint32_t k = 0; k < sizeof resident / sizeof *resident; k++) {
                plim__candidate c = r->pass;
                c.defer = defer;
                PLIM_TRY(add_body(f, b, &c, resident[k]));
            }
    }
    return PLIM_OK;
}

static plim_status keep_in_bodies(plim__portfolio *f, const bodies *b)
{
    const double slowest = slowest_of(f);
    for (uint32_t i = 0; i < b->n; i++) {
        if (b->item[i].seconds > slowest || is_dominated(b, i)) continue;
        PLIM_TRY(open_cut(f, &b->item[i].c, b->item[i].resident));
        PLIM_TRY(find_kept_floor(f, &f->cut));
        PLIM_TRY(add_kept(f, &f->cut));
    }
    return PLIM_OK;
}

/* What is kept inside limits in loops. */
static plim_status add_cut_kept(plim__portfolio *f)
{
    bodies b = {0};
    plim_status status = list_bodies(f, &b);
    if (status == PLIM_OK) status = keep_in_bodies(f, &b);
    plim__free(&f->plan->alloc, b.item);
    return status;
}

/* No plan needs more. */
static uint64_t whole_bytes(const plim_graph *g)
{
    double bytes = 1u << 30;
    for (uint32_t v = 0; v < g->n_values; v++) bytes += 4 * (double)g->value[v].bytes;
    return bytes < 1e18 ? (uint64_t)bytes : (uint64_t)1e18;
}

/* May something be searched for again that has taken so much, to find something better? */
static bool is_worth_again(const plim__portfolio *f, const recipe *r) { return !f->hasty && r->effort * AGAIN <= f->effort; }

/* The search pass by pass at this level inside an arena, if there was one that is as good as one now, or that took too much of what may be measured. */
static const recipe *was_searched(const plim__portfolio *f, uint64_t limit)
{
    for (const recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++)
        if (r->kind == PASSES && r->limit == limit && r->level == level_number(f) && (f->hasty || !r->hasty || !is_worth_again(f, r))) return r;
    return NULL;
}

/* Levels of rings and of the engine's buffers, from what is fastest to what needs least: two copies of what is read and
 * written hide more than large buffers do. */
static const struct { int rings, io; } way[] = {{0, 0}, {1, 1}, {1, 2}, {1, PLIM__IO_LEVEL_LEAST}, {PLIM__RING_LEVELS - 1, PLIM__IO_LEVEL_LEAST}};
#define WAYS ((int)(sizeof way / sizeof *way))

/* How a search pass by pass is done. */
typedef struct attempt {
    int way;
    bool groups;   /* passes may end early, so that there is one for each group of layers */
    double doubt;  /* what passes leave to later ones is charged with so many times what it takes at the least */
    double bound;  /* seconds: something that takes less is looked for */
} attempt;

/* Searches pass by pass inside r->limit. */
static plim_status search_passes(plim__portfolio *f, recipe *r, const attempt *a)
{
    bool fits;
    plim__search *s = &f->s;
    f->in_plan = PLIM__NONE;
    s->f.work = s->work;
    s->bound = a->bound;
    s->doubt = a->doubt;
    s->groups = a->groups;
    s->rough = true;
    const plim_status status = plim__search_with_rings(s, way[a->way].rings, way[a->way].io, r->limit, &fits);
    s->rough = s->groups = false;
    s->bound = INFINITY;
    s->doubt = 1;
    s->f.work = NULL;
    PLIM_TRY(status);
    if (!fits) return PLIM_OK;
    PLIM_TRY(plim__grow(&f->plan->alloc, (void **)&f->choice, &f->cap_choices, f->n_choices + s->n_chosen, sizeof *f->choice, f->err));
    memcpy(&f->choice[f->n_choices], s->chosen, s->n_chosen * sizeof *s->chosen);
    r->choice0 = f->n_choices;
    f->n_choices += r->n_choices = s->n_chosen;
    r->rings = f->plan->read_copies;
    r->io = s->io;
    r->slots = s->limit;
    r->least = plim__plan_need(f->plan);
    r->seconds = plan_seconds(f->plan);
    return PLIM_OK;
}

/* One search. @param r  what is looked for; set to what was found, if that was something
 * @param doubt  then set to what later passes take by the least that they would take. @param bound  then set to what it takes */
static plim_status search_once(plim__portfolio *f, recipe *r, const attempt *a, double *doubt, double *bound)
{
    recipe now = *r;
    now.least = UINT64_MAX;
    const uint64_t before = f->s.measured;
    PLIM_TRY(search_passes(f, &now, a));
    now.effort = fmax(r->effort, (double)(f->s.measured - before));
    f->effort -= (double)(f->s.measured - before);
    r->effort = now.effort;
    if (now.least == UINT64_MAX) return PLIM_OK;
    *doubt = plim__search_doubt(&f->s);
    *bound = fmin(*bound, now.seconds);
    *r = now;
    return add_recipe(f, now);
}

/* In every way, first with passes that do all they can, then with some that end early, until something is found that is not slow; what is found last, once
 * more where its later passes have taken longer than the first had reckoned with. Each has to be faster than what was found before.
 * @param r  what is looked for; set to what was found last. @param fits  there is a plan inside that arena: to look for another one has to be worth it */
static plim_status search_all_ways(plim__portfolio *f, recipe *r, bool fits, double bound)
{
    attempt last = {.doubt = 1};
    const int first = f->hasty ? 2 * (WAYS - 1) : 0; /* what needs least, where any plan will do */
    for (int k = first; k < 2 * WAYS; k++) {
        const bool found = r->least != UINT64_MAX;
        if ((found || fits) && !is_worth_again(f, r)) break;
        if (found && bound <= SLOW_PASSES * f->fastest) break;
        const attempt a = {.way = k / 2, .groups = k % 2, .doubt = 1, .bound = bound};
        double doubt = 1;
        PLIM_TRY(search_once(f, r, &a, &doubt, &bound));
        if (bound == a.bound) continue;
        last = a;
        last.doubt = doubt;
    }
    last.bound = bound;
    return last.doubt < DOUBTFUL || !is_worth_again(f, r) ? PLIM_OK : search_once(f, r, &last, &last.doubt, &bound);
}

/* Pass by pass inside an arena of `limit` bytes, where what is known is slow. */
static plim_status add_passes(plim__portfolio *f, uint64_t limit)
{
    recipe *fastest;
    const uint32_t at = level_number(f);
    if (was_searched(f, limit) || f->effort <= 0) return PLIM_OK;
    PLIM_TRY(find_fastest(f, limit + limit / NEARLY, ROUGH, &fastest));
    if (level_number(f) != at) go_to(f, at);
    if (fastest && fastest->seconds <= WORTH * f->fastest) return PLIM_OK;
    recipe r = {.kind = PASSES, .limit = limit, .known = ROUGH, .level = at, .hasty = f->hasty, .least = UINT64_MAX};
    const double bound = fastest ? fastest->seconds : f->slowest, effort = fmin((bound - f->fastest) * MEASURED_PER_SECOND, f->effort);
    if (fastest && effort < LEAST_MEASURED * f->plan->graph->n_nodes) return PLIM_OK; /* too little is at stake */
    const uint64_t before = f->s.measured;
    f->s.most_measured = before + (uint64_t)effort;
    PLIM_TRY(search_all_ways(f, &r, fastest != NULL, bound));
    f->s.most_measured = UINT64_MAX;
    return r.least == UINT64_MAX ? add_recipe(f, r) : PLIM_OK; /* it is known that there is none */
}

/* Arenas do not depend on the budget. The even ones are always searched. */
static uint64_t arena_of(int k) { return plim__round_down((uint64_t)((1 << 20) * pow(PASSES_STEP, k)), PLIM__IO_ALIGN); }

static int arena_below(uint64_t bytes)
{
    int k = 0;
    while (k < 160 && arena_of(k + 1) <= bytes) k++;
    return k;
}

/* Is a plan of several passes known that needs at most so much? */
static bool has_passes(const plim__portfolio *f, uint64_t most)
{
    for (const recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++)
        if (r->kind == PASSES && r->least <= most && r->seconds <= f->slowest) return true;
    return false;
}

/* The level to search for passes at behind level `before`, inside so many bytes, or PLIM__NONE. Where nothing is written back, what holds most comes first: it
 * reads least, so that no other need be looked at where there is a plan. */
static uint32_t next_level(const plim__portfolio *f, uint32_t before, uint64_t arena)
{
    const bool states = f->plan->graph->n_states > 0;
    uint32_t next = PLIM__NONE;
    for (uint32_t i = 0; i < f->n_levels; i++) {
        const level *x = &f->level[i];
        if (!x->by_pass || x->held >= arena) continue;
        if (states ? before != UINT32_MAX && i <= before : before != UINT32_MAX && x->held >= f->level[before].held) continue;
        if (next == PLIM__NONE || (!states && x->held > f->level[next].held)) next = i;
    }
    return next;
}

/* With nothing held, with all that may be, and with most of it. @param found  set to whether there is a plan for that arena, or little more */
static plim_status search_arena(plim__portfolio *f, int k, bool *found)
{
    if (k % 2 != 0) {
        recipe *fastest;
        PLIM_TRY(find_fastest(f, arena_of(k), ROUGH, &fastest));
        *found = fastest && (fastest->seconds <= SLOW_PASSES * f->fastest || f->effort < MOST_MEASURED / 2); /* what is left is for larger ones, too */
        if (*found) return PLIM_OK;
    }
    bool done = false;
    for (uint32_t below = UINT32_MAX, i; !done && (i = next_level(f, below, arena_of(k))) != PLIM__NONE; below = i) {
        go_to(f, i);
        PLIM_TRY(add_passes(f, arena_of(k)));
        const recipe *r = was_searched(f, arena_of(k));
        done = r && r->least <= arena_of(k) && !f->hasty && (!is_worth_again(f, r) || f->plan->graph->n_states == 0);
    }
    *found = has_passes(f, arena_of(k + 1));
    return PLIM_OK;
}

/* What two tiles of each pass promise, all of them may not keep. @param made  set to whether there is a plan for that arena */
static plim_status make_arena(plim__portfolio *f, int k, bool *made)
{
    bool found;
    PLIM_TRY(search_arena(f, k, &found));
    *made = false;
    for (recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++) {
        if (r->kind != PASSES || r->limit != arena_of(k) || r->least == UINT64_MAX) continue;
        if (r->known < MADE) PLIM_TRY(look_at(f, r, MADE));
        *made |= r->least != UINT64_MAX && r->seconds <= f->slowest;
    }
    return PLIM_OK;
}

/* The smallest arena in which passes are found: between the one that the smallest plan would need, however slow, and what is known. */
static plim_status find_least_arena(plim__portfolio *f)
{
    uint64_t least = UINT64_MAX, enough_bytes = UINT64_MAX;
    for (recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++)
        if (r->kind == SMALL || r->kind == SMALL_ONE) PLIM_TRY(look_at(f, r, ROUGH));
    for (const recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++) {
        if (r->least < least) least = r->least;
        if (r->seconds <= f->slowest && r->least < enough_bytes) enough_bytes = r->least;
    }
    if (enough_bytes == UINT64_MAX || enough_bytes - least < plim__budget_for(&f->plan->budget, 0) / FLOOR_GAIN) return PLIM_OK; /* next to nothing to gain */
    const int enough = arena_below(enough_bytes) + 1;
    int no = arena_below(least) - 1, yes = enough;
    const double effort = f->effort;
    f->effort = fmin(effort, FLOOR_MEASURED);
    f->hasty = true;
    while (no + 1 < yes) {
        const int k = no + (yes - no) / 2;
        bool found;
        PLIM_TRY(search_arena(f, k, &found));
        if (found) yes = k;
        else no = k;
    }
    f->effort = effort;
    bool made = false;
    for (int k = yes; k < enough && !made; k++) PLIM_TRY(make_arena(f, k, &made));
    f->hasty = false;
    return PLIM_OK;
}

/* Seconds that all nodes take by themselves: no plan is faster. */
static double work_of(const plim__portfolio *f)
{
    double seconds = 0;
    for (uint32_t i = 0; i < f->plan->graph->n_nodes; i++) seconds += f->s.work[i];
    return seconds;
}

/* Is the fastest recipe inside `most` bytes the fastest of all, and next to nothing to be gained by passes? */
static plim_status is_fast_enough(plim__portfolio *f, uint64_t most, bool *yes)
{
    recipe *fastest, *inside;
    PLIM_TRY(find_fastest(f, UINT64_MAX - 1, ROUGH, &fastest)); /* what cannot be made needs UINT64_MAX */
    PLIM_TRY(find_fastest(f, most, ROUGH, &inside));
    *yes = inside && inside->seconds <= fastest->seconds && inside->seconds <= ENOUGH * work_of(f);
    return PLIM_OK;
}

/* All arenas from the smallest on, and some that are larger than what fits, for passes do not always fill theirs: so what is found in one budget is found in
 * every larger one. */
static plim_status add_passes_inside(plim__portfolio *f, uint64_t most)
{
    bool found, enough;
    if (!searched_by_pass(f)) return PLIM_OK;
    PLIM_TRY(is_fast_enough(f, most, &enough));
    const uint64_t beyond = most > UINT64_MAX / 2 ? most : most + most / 2, whole = whole_bytes(f->plan->graph);
    for (int k = arena_below(f->floor); arena_of(k) <= beyond && arena_of(k) < whole && !enough; k++) PLIM_TRY(search_arena(f, k, &found));
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- the whole */

/* The smallest plan. Recipes of which less is known than what they need may turn out to need more, so the next ones are looked at, too: until none can
 * need less by more than FLOOR_GAIN, and after FLOOR_TRIES only those that were, if there is a plan among them. */
static plim_status find_floor(plim__portfolio *f)
{
    for (uint32_t tried = 0, most = FLOOR_TRIES;; tried++) {
        recipe *best = NULL, *made = NULL;
        for (recipe *r = f->recipe; r < f->recipe + f->n_recipes; r++) {
            if (r->least == UINT64_MAX || r->seconds > f->slowest) continue;
            if ((r->known > GUESSED || tried < most) && (!best || r->least < best->least)) best = r;
            if (r->known == MADE && (!made || r->least < made->least)) made = r;
        }
        if (!best && most == UINT32_MAX) return PLIM_OK;
        if (!best) {
            most = UINT32_MAX;
            continue;
        }
        if (made && best->least > made->least - made->least / FLOOR_GAIN) best = made;
        if (best->known < MADE) PLIM_TRY(look_closer(f, best));
        else PLIM_TRY(verify_recipe(f, best));
        if (!best->verified) continue;
        f->floor = best->least;
        return PLIM_OK;
    }
}

plim_status plim__portfolio_floor(plim__portfolio *f, uint64_t *need)
{
    f->floor = UINT64_MAX;
    f->n_recipes = 0;
    for (uint32_t i = 0; i < f->n_levels; i++) {
        go_to(f, i);
        if (f->plan->thorough) PLIM_TRY(add_kept(f, &f->at->uncut));
        if (i >= 2) continue; /* a part: cut plans are made with nothing and with all held */
        PLIM_TRY(add_recipe(f, (recipe){.kind = SMALL_ONE}));
        if (searched_by_pass(f)) PLIM_TRY(add_recipe(f, (recipe){.kind = SMALL}));
        if (!f->plan->thorough) continue;
        PLIM_TRY(add_one_pass(f));
        PLIM_TRY(add_cut_kept(f));
    }
    f->fastest = fastest_seconds(f);
    f->slowest = f->plan->thorough ? slowest_of(f) : INFINITY;
    f->effort = MOST_MEASURED;
    if (f->plan->thorough && searched_by_pass(f)) PLIM_TRY(find_least_arena(f));
    PLIM_TRY(find_floor(f));
    PLIM_FAIL_IF(f->floor == UINT64_MAX, f->err, PLIM_E_PLAN, "internal: no plan was found, whatever its size%s%s", f->rejected.message[0] ? ": " : "",
                 f->rejected.message);
    *need = f->floor;
    return PLIM_OK;
}

/* The fastest recipe whose plan needs at most f->most bytes. */
static plim_status make_fastest(plim__portfolio *f, bool *fits)
{
    recipe *best;
    PLIM_TRY(find_fastest(f, f->most, MADE, &best));
    *fits = best;
    if (best && f->in_plan != best->number) PLIM_TRY(look_at(f, best, MADE));
    return PLIM_OK;
}

/* Searches inside the arena; where that finds nothing, or nothing that holds, inside half of it and so on; at last what is smallest. */
static plim_status plan_quickly(plim__portfolio *f, bool *fits)
{
    for (uint64_t limit = f->most; limit >= f->floor && !*fits; limit /= 2) {
        bool found = false;
        f->in_plan = PLIM__NONE;
        PLIM_TRY(plim__search_passes(&f->s, limit, &found));
        if (!found) break;
        if (plim__plan_need(f->plan) <= f->most) PLIM_TRY(verify(f, fits));
    }
    return *fits ? PLIM_OK : make_fastest(f, fits);
}

/* The order with the least peak, or one that runs early whatever frees more than it makes: updates of parameters, behind each other at the end, add
 * nothing to the peak of a program, but their gradients are in the way of everything when memory is short. What is faster then decides. */
static plim_status choose_order(plim__portfolio *f, template *t)
{
    const plim__alloc *a = &f->plan->alloc;
    uint64_t states = ORDER_STATES, whole;
    bool proven, fits;
    t->order = plim__new(a, t->tasks.n, sizeof *t->order, f->err);
    uint32_t *other = plim__new(a, t->tasks.n, sizeof *other, f->err);
    plim_status status = t->order && other ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) status = plim__order_tasks_within(t->order, &whole, &proven, &states, &t->tasks, a, f->err);
    if (status == PLIM_OK) status = plim__order_list(other, PLIM__LIST_MIXED, &t->tasks, a, f->err);
    double seconds[2] = {INFINITY, INFINITY};
    for (int i = 0; i < 2 && status == PLIM_OK; i++) {
        const uint64_t limit = (uint64_t)sqrt((double)plim__tasks_largest(&t->tasks) * (double)whole);
        plim__schedule schedule;
        status = plim__keep(&schedule, &fits, f->plan, &t->tasks, i == 0 ? t->order : other, limit, f->err);
        if (status == PLIM_OK && fits) seconds[i] = schedule.seconds;
        if (status == PLIM_OK) plim__schedule_free(&schedule, a);
    }
    if (status == PLIM_OK && seconds[1] < seconds[0]) memcpy(t->order, other, t->tasks.n * sizeof *other);
    plim__free(a, other);
    return status;
}

/* The uncut pass at this level, and what follows from it, where the program can be run so. */
static plim_status open_uncut(plim__portfolio *f)
{
    template *t = &f->at->uncut;
    f->plan->read_copies = f->plan->write_copies = 1;
    plim__plan_io(f->plan, PLIM__IO_LEVEL_LEAST);
    PLIM_TRY(plim__search_restart(&f->s));
    const plim_status status = plim__search_uncut(&f->s, &t->pass);
    if (status == PLIM_E_PLAN) return PLIM_OK;
    PLIM_TRY(status);
    PLIM_TRY(plim__pass_measure(&f->s.m, f->plan, &t->pass, 0, true, f->err));
    PLIM_TRY(plim__tasks_new(&t->tasks, f->plan, &t->pass, &f->s.m, 0, f->err));
    PLIM_TRY(choose_order(f, t));
    return find_kept_floor(f, t);
}

plim_status plim__portfolio_plan(plim__portfolio *f, uint64_t most, bool *fits, plim_error *err)
{
    *fits = false;
    f->most = most;
    f->err = f->s.err = err;
    if (!f->plan->thorough) return plan_quickly(f, fits);
    PLIM_TRY(add_passes_inside(f, most));
    return make_fastest(f, fits);
}

static void add_level(plim__portfolio *f, uint64_t most, bool by_pass)
{
    const uint64_t held = plim__plan_hold(f->plan, most);
    for (uint32_t i = 0; i < f->n_levels; i++) {
        if (f->level[i].held != held) continue;
        f->level[i].by_pass |= by_pass;
        return;
    }
    PLIM_ASSERT(f->n_levels < sizeof f->level / sizeof *f->level);
    f->level[f->n_levels++] = (level){.most = most, .held = held, .by_pass = by_pass};
}

/* Of programs with states only a half: what is not held of a state has to be written, too, and such programs take long to plan. */
static void find_levels(plim__portfolio *f)
{
    const uint64_t must = plim__plan_hold(f->plan, 0), may = plim__plan_hold(f->plan, UINT64_MAX) - must;
    const bool states = f->plan->graph->n_states > 0;
    add_level(f, 0, true);
    if (!f->plan->thorough || may == 0) return;
    add_level(f, UINT64_MAX, true);
    for (uint32_t i = 0; i < (states ? 1 : PARTS); i++) add_level(f, may - (may >> (i + 1)), false);
    for (uint32_t i = 0; i < (states ? 0 : LARGEST); i++) add_level(f, may - plim__plan_largest_held(f->plan, 1u << i), true);
}

plim_status plim__portfolio_new(plim__portfolio **out, plim_plan *plan, plim_error *err)
{
    plim__portfolio *f = plim__new(&plan->alloc, 1, sizeof *f, err);
    *out = NULL;
    if (!f) return PLIM_E_NOMEM;
    f->plan = plan;
    f->err = err;
    plim_status status = plim__search_new(&f->s, plan, err);
    if (status == PLIM_OK) {
        find_levels(f);
        for (uint32_t i = f->n_levels; i-- > 0 && status == PLIM_OK;) {
            go_to(f, i);
            if (plan->thorough) status = open_uncut(f);
        }
        if (status == PLIM_OK) *out = f;
        else plim__portfolio_free(&f);
    } else {
        plim__free(&plan->alloc, f);
    }
    return status;
}

void plim__portfolio_free(plim__portfolio **portfolio)
{
    plim__portfolio *f = *portfolio;
    const plim__alloc *a = &f->plan->alloc;
    for (uint32_t i = 0; i < f->n_levels; i++) close_template(f, &f->level[i].uncut);
    close_template(f, &f->cut);
    plim__search_free(&f->s);
    plim__free(a, f->recipe);
    plim__free(a, f->choice);
    plim__free(a, f);
    *portfolio = NULL;
}
