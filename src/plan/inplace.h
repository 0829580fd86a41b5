/* Values that take the slot of another value of their pass: results that are written over an input which nobody needs any more.
 *
 *     stage 3:  t = a - m      a: READ, last used here      t: inside the stage
 *               y = t * s      y: TILE                      y takes the slot of a; one slot lives as long as both
 *
 * Whether one value may lie on another follows from the pass alone (plim__sharing_find). Whether the other one is needed any more follows from the order
 * of the stages: plim__pass_share looks at the order of the pass, keep.c at the one that it simulates. */
#ifndef PLIM_PLAN_INPLACE_H
#define PLIM_PLAN_INPLACE_H

#include "plan/plan.h"

#define PLIM__MAX_OVERWRITABLE 4 /* inputs of a stage that an output of it may lie on: more are not looked for */

/** What is known of a pass whose stages and steps are made. The tables belong to it. */
typedef struct plim__sharing {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    int8_t (*range)[PLIM_MAX_RANK]; /* per value and dimension: which range of it there is in a tile, see inplace.c */
    uint32_t *groups;               /* per value: set of groups of steps that make, read, write or use it */
    uint32_t *first, *last;         /* per value: the first and the last node that read it, PLIM__NONE: nobody does */
    uint8_t *mark;                  /* per value: scratch, zero between calls */
} plim__sharing;

/** @param x  to be freed, also when this fails */
plim_status plim__sharing_new(plim__sharing *x, const plim_plan *plan, const plim__pass *p, plim_error *err);
void plim__sharing_free(plim__sharing *x, const plim__alloc *a);

/** The inputs of its stage that value `out` of the pass may lie on, provided that no later stage needs them.
 *  @param found  [PLIM__MAX_OVERWRITABLE] values of the pass
 *  @return how many */
uint32_t plim__sharing_find(plim__sharing *x, uint32_t out, uint32_t *found);

/** Sets `alias_of` of every value of the pass. */
plim_status plim__pass_share(plim__pass *p, const plim_plan *plan, plim_error *err);

/** The value that has the slot, or the place inside its stage, in which value v lies. */
static inline uint32_t plim__alias_root(const plim__pass *p, uint32_t v)
{
    while (p->value[v].alias_of != PLIM__NONE) v = p->value[v].alias_of;
    return v;
}

#endif
