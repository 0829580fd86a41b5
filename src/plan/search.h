/* Finds the passes of a plan. */
#ifndef PLIM_PLAN_SEARCH_H
#define PLIM_PLAN_SEARCH_H

#include "plan/build.h"
#include "plan/measure.h"

/** A way to make the next pass. */
typedef struct plim__candidate {
    bool found;
    uint32_t cut;
    uint8_t order[PLIM__MAX_LOOPS];
    int64_t tile[PLIM__MAX_LOOPS];
    bool defer;   /* updates of states are left to later passes */
    uint32_t end; /* so are nodes from here on; UINT32_MAX: none is */
    bool kept;    /* keeps, recomputes and spills inside a limit */
    uint64_t limit, resident; /* kept: bytes of what is free and carried in the pass; of files that are read once for all trips */
    double later; /* seconds that what it leaves to later passes takes at the least */
    double score;
} plim__candidate;

typedef struct plim__search plim__search;

/** Is told of every candidate that is measured, if somebody wants to know. */
typedef plim_status plim__noter(void *ctx, const plim__search *s, const plim__candidate *c, uint64_t peak, double seconds);

struct plim__search {
    plim_plan *plan;
    plim__frontier f;
    plim__labels labels;
    plim__measure m;
    bool *here;     /* [n_nodes] scratch: is the node in the pass */
    double *work;   /* [n_nodes] seconds that each takes by itself */
    uint64_t limit; /* bytes for slots */
    int io;         /* level of the engine in the last search pass by pass */
    bool smallest;  /* look for the least peak, not for the least time */
    bool complete;  /* only passes that leave nothing to be computed */
    bool keeps;     /* passes that are too large may keep, recompute and spill inside the limit */
    bool groups;    /* passes may end early although more could be done in them: groups of layers */
    bool simple;    /* no more loops, and no shorter passes, than fit at all: what is left to do is short, however it is done */
    bool labelled;  /* the labels are those of the first pass */
    bool rough;     /* what is appended is measured by two of its tiles, and not packed: such a plan can be compared, not run */
    double bound;   /* seconds: pass by pass, only plans that take less are looked for */
    double done;    /* seconds of the passes that were appended */
    double doubt;   /* times the least that later passes take: what a pass is charged for them */
    double later;   /* the least that passes behind the first would take, as the first was charged for it */
    uint64_t least; /* peak seen with the cut that is tried */
    plim__candidate *chosen; uint32_t n_chosen, cap_chosen; /* the passes that were appended since the last restart */
    uint64_t measured; /* nodes, in all candidates */
    uint64_t most_measured; /* pass by pass: the search ends, without a plan, where more have been */
    plim__noter *note;
    void *note_ctx;
    plim_error *err;
};

plim_status plim__search_new(plim__search *s, plim_plan *plan, plim_error *err);
void plim__search_free(plim__search *s);
/** Forgets what was planned: the frontier is that of the first pass. */
plim_status plim__search_restart(plim__search *s);
/** Spreads the labels of the first pass, unless they are there. After plim__search_restart; what is searched for spreads them itself. */
void plim__search_label(plim__search *s);

#define PLIM__RING_LEVELS 3      /* 0: three copies of what is read and written, ... 2: one */
#define PLIM__IO_LEVEL_LEAST 3   /* of the engine's configurations: plim__plan_io */

/** Pass by pass, the fastest that fits an arena of at most `arena_max` bytes, with rings of that level. `*fits` is false, and the plan empty or partial, where
 *  none was found. */
plim_status plim__search_with_rings(plim__search *s, int rings, int io, uint64_t arena_max, bool *fits);
/** The same with the largest rings that fit, and the most comfortable engine. */
plim_status plim__search_passes(plim__search *s, uint64_t arena_max, bool *fits);
/** What passes behind the first of the plan that was found last take, by what they would take at the least: for `doubt`. */
double plim__search_doubt(const plim__search *s);
/** The passes that an earlier search has chosen inside so many bytes of slots, with the same rings and engine, again. What they need is not compared with that. */
plim_status plim__search_again(plim__search *s, const plim__candidate *c, uint32_t n, uint64_t limit);
/** A plan with a small peak, however slow. @param complete  everything in one pass: keeps nothing between passes */
plim_status plim__search_small(plim__search *s, bool complete, bool *found);
/** Measures ways to do everything in one pass with up to so many loops, for the noter. After plim__search_restart. */
plim_status plim__search_complete(plim__search *s, int most_loops);

/** Builds the pass of a candidate after plim__search_restart, and packs: a plan of one pass. */
plim_status plim__search_one_pass(plim__search *s, const plim__candidate *c);
/** The same from a schedule of the template's nodes. What the template defers is done pass by pass inside an arena of at most `arena_max` bytes.
 *  `*fits` is false, and the plan partial, where that does not fit. */
plim_status plim__search_scheduled(plim__search *s, const plim__pass *template, const plim__schedule *schedule, uint64_t arena_max, bool *fits);
/** A pass of the candidate's loops and tiles that keeps everything, after plim__search_restart: what schedules are made of. PLIM_E_PLAN (no message) where
 *  one pass does not do everything but what is deferred. */
plim_status plim__search_template(plim__search *s, const plim__candidate *c, plim__pass *out);
/** The same without loops, in the program's order. */
plim_status plim__search_uncut(plim__search *s, plim__pass *out);

/** From the next plim__plan_clear on, inputs that have to stay in memory are held in the arena, and as many of those that may as take no more than `most`
 *  bytes. @return bytes of all that are held */
uint64_t plim__plan_hold(plim_plan *plan, uint64_t most);
/** Bytes of the n largest inputs that may be held and need not be. */
uint64_t plim__plan_largest_held(plim_plan *plan, uint32_t n);
/** Forgets passes, slots, spill files; homes are again those of the inputs. */
void plim__plan_clear(plim_plan *plan);
/** Sets the I/O engine's configuration: level 0 is comfortable, 2 the smallest. */
void plim__plan_io(plim_plan *plan, int level);

#endif
