/* The one schedule of what a pass reads and writes: when each transfer begins, and when it has to be done. It follows from the lifetimes of slots.
 *
 * What is read in every tile into a slot of several copies fills a ring: it begins so many tiles ahead. Any other read begins as soon as the memory that it goes
 * to is free and its bytes are there, inside its group of steps (plim__group_of). While inner loops turn, *early* reads go on: of what is needed behind these
 * loops (the moments of an update, say), whose slots live as long as they turn, and of what the next trip needs in front of them (plim__pvalue.ahead). A write is
 * waited for when somebody else needs the memory that it comes from, or its bytes, and at the end of its group at the latest, or, where its slot lives as long
 * as the pass, when that is filled again: meanwhile something is computed. The planner lets slots of what is read live from earlier on where that costs nothing, prices
 * passes by it, and the runner does what it says. The plan's memory is all that is used. */
#ifndef PLIM_PLAN_TRANSFERS_H
#define PLIM_PLAN_TRANSFERS_H

#include "plan/measure.h"

typedef struct plim__transfer {
    uint32_t value; /* of the pass */
    uint32_t step;  /* a READ or a WAIT */
    uint32_t at;    /* a read may begin here, before its step; a write has to be done here, behind its step */
} plim__transfer;

/** A group of steps that stand together, and where its reads and waits begin. */
typedef struct plim__transfer_group {
    uint32_t begin, end; /* steps */
    uint32_t read, wait; /* the first in the lists below */
} plim__transfer_group;

typedef struct plim__transfers {
    plim__transfer *read, *wait; /* by group; reads by their steps, waits by where they have to be done */
    uint32_t n_reads, n_waits;
    plim__transfer *early; /* reads that begin while inner loops turn, by the depth of their steps, and those for the same trip first: .at says nothing */
    uint32_t early0[PLIM__MAX_LOOPS + 1]; /* those of depth d: from early0[d] up to before early0[d + 1] */
    uint32_t *ring; /* values that are read ahead */
    uint32_t n_rings;
    uint32_t ahead; /* trips, the one that is computed included, in which rings are read; 1: there are none */
    plim__transfer_group group[PLIM__MAX_GROUPS];
} plim__transfers;

/** Lets the slots of what is read live from earlier on, as far as the pass's peak stays what it is. Works on the slots and the profile of the measure that has
 *  just measured the pass. */
void plim__transfers_advance(plim__measure *m, const plim_plan *plan, const plim__pass *p);

/** The schedule of a pass whose slots have their places.
 *  @param out  to be freed, also when this fails */
plim_status plim__transfers_new(plim__transfers *out, const plim_plan *plan, const plim__pass *p, plim_error *err);
void plim__transfers_free(plim__transfers *t, const plim__alloc *a);

/** Does the READ step `step` belong to a read that begins while inner loops turn: for the next trip, or behind these loops, in which case its slot, on a time line
 *  that begins at `time0`, lives from before its group on? */
bool plim__read_is_early(const plim__pass *p, uint32_t step, const plim__slot *slot, uint32_t time0);

/** Bytes of its tables, at the most. */
uint64_t plim__transfers_bytes(const plim__pass *p);

/** Is this value read ahead of every tile, into a ring? */
static inline bool plim__is_ring(const plim__pvalue *v, const plim__slot *s) { return v->role == PLIM__ROLE_READ && s->copies > 1 && !v->ahead; }

static inline uint32_t plim__step_group(const plim__pass *p, uint32_t step) { return plim__group_of(p, p->step[step].depth, p->step[step].post); }

#endif
