/* Builds the contents of one pass for a given set of cut loops: which nodes can run in it, which of them are roots, at which depth, in which stages.
 * Sizes are not decided here (measure.c), nor which cut is best (search.c). */
#ifndef PLIM_PLAN_BUILD_H
#define PLIM_PLAN_BUILD_H

#include "plan/labels.h"
#include "plan/schedule.h"

#define PLIM__BLOCK_BYTES (256u << 10) /* that a block of a stage should touch: a good part of a core's second-level cache */

/** Where the planning stands between two passes. */
typedef struct plim__frontier {
    bool *active;   /* [n_nodes] still to be computed, or recomputed because a later node needs it and it has no home */
    bool *made;     /* [n_nodes] an earlier pass has made it, but not kept it */
    bool *on_file;  /* [n_values] read from or written to a file */
    uint64_t small; /* values up to this size are kept in the arena between passes without further thought */
    bool complete;  /* only a pass that makes everything is of use, but for what is deferred */
    bool defer;     /* what takes the place of states is left to later passes */
    uint32_t end;   /* nodes from here on are left to later passes; UINT32_MAX: none is */
    uint64_t spill_above; /* values that later passes need go to a file above this size; UINT64_MAX: never */
    const double *work;   /* [n_nodes] seconds that each takes: what is spilled or recomputed goes by price; NULL: what is cheap is recomputed */
} plim__frontier;

/** @param cut    set of labels that get loops with more than one trip
 *  @param order  labels in loop order, cut ones first
 *  @return PLIM_OK and a pass with at least one root; PLIM_E_PLAN (no message) when this cut makes no progress */
plim_status plim__pass_build(plim__pass *out, const plim_plan *plan, const plim__frontier *f, const plim__labels *labels, uint32_t cut,
                             const uint8_t *order, plim_error *err);

/** A pass with the loops and tiles of `template` that does what a schedule says. */
plim_status plim__pass_build_scheduled(plim__pass *out, const plim_plan *plan, const plim__frontier *f, const plim__pass *template,
                                       const plim__schedule *s, plim_error *err);

/** Stages, roles and steps of a pass whose nodes and depths are known. @param pnode  index in the pass of each node of the graph, or PLIM__NONE */
plim_status plim__pass_stages(plim__pass *p, const plim_plan *plan, const plim__frontier *f, const uint32_t *pnode, plim_error *err); /* stages.c */

/** What the pass leaves behind: homes of its roots, files for what it spills. Then updates the frontier. */
plim_status plim__pass_settle(plim_plan *plan, plim__frontier *f, plim__pass *p, plim_error *err);
/** Which nodes are still needed, and which values touch a file, from the plan's homes. */
plim_status plim__frontier_update(const plim_plan *plan, plim__frontier *f);
/** Gives a file that is ours its place in the one file that we have. */
void plim__file_take_room(plim_plan *plan, plim__file *f);
/** Describes a dense C-order array of `value` that starts at `offset` of some file. */
void plim__file_describe(plim__io_file *f, const plim_graph *g, uint32_t value, uint64_t offset);

/** Describes so many bytes of a file that is ours as a flat array of bytes: what is spilled and read back inside a pass. */
void plim__file_describe_flat(plim__io_file *f, uint64_t offset, uint64_t bytes);

/** The least common multiple, or 0 where one of them is 0 or it is larger than `most`. */
int64_t plim__common_multiple(int64_t a, int64_t b, int64_t most);
/** An axis of extent `n`, which a loop of `extent` steps moves, reads of a dimension of extent `dim` what `index` says. Of how many steps does a tile have to be a
 *  multiple, so that a tile's part of the axis reads just the tile's part of the dimension? Then the dimension is covered without gap or overlap: one by one,
 *  by windows that touch each other, or by several iterations on one element. 0: a tile never does. */
int64_t plim__covering_steps(const plim__index *index, int64_t n, int64_t dim, int64_t extent);

/** Is a value that is read read ahead of every tile, into a ring of slots? It is needed anew in each, and there is more than one copy. */
static inline bool plim__read_has_ring(const plim_plan *plan, const plim__pass *p, const plim__pvalue *v)
{
    return v->role == PLIM__ROLE_READ && p->n_cut > 0 && v->depth == p->n_cut && !v->streamed && plan->read_copies > 1;
}

/** Does a value that is written leave from a ring of slots, which live as long as the pass? It is made anew in every tile; others are waited for. */
static inline bool plim__write_has_ring(const plim_plan *plan, const plim__pass *p, const plim__pvalue *v)
{
    return v->role == PLIM__ROLE_WRITE && !v->flat && p->n_cut > 0 && p->node[v->producer].depth == p->n_cut && !p->node[v->producer].post && plan->write_copies > 1;
}

#endif
