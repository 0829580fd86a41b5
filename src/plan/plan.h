/* The plan: passes, loops, stages, slots. A table that the runner follows; it knows nothing of how it was found.
 *
 * A program is run in passes. A pass is a nest of loops over tiles (often one loop, for small programs none) and, inside it, stages: groups of
 * nodes that run together. What a pass computes is found backwards from its roots by plim__region_reads, so halos come by themselves:
 *
 *     pass 0: for rows in [0, 3075200) by 2048          loop 0
 *               read x[rows, :]                         READ step, a ring of slots, the next ones read ahead
 *               stage 0, in blocks of 64 rows           all threads; values inside a stage exist only one block at a time
 *                 t = x - 3
 *                 u = t ** 2
 *                 s += sum(u, axis 0)                   an accumulator, one copy per thread
 *             after the loop: merge the copies of s
 *               stage 1: m = s / 3075200                `post` stage of depth 0
 *               write m
 *
 * Loops are numbered outermost first. A step has a depth: how many loops it is inside of; `post` steps run after the deeper loops have
 * ended, the others before or inside.
 *
 * A root is a node whose axis ranges come from the loops: an axis bound to loop l covers, for the tile [lo, hi) of l's extent E, its part
 * [lo*n/E, hi*n/E) of its own extent n. So the tiles partition every root exactly once, whatever the extents. The other nodes compute what their
 * consumers demand. */
#ifndef PLIM_PLAN_PLAN_H
#define PLIM_PLAN_PLAN_H

#include "graph/op.h"
#include "io/io.h"
#include "plan/budget.h"
#include "plan/machine.h"
#include "plan/nests.h"

#define PLIM__MAX_LOOPS 8

typedef struct plim__loop {
    int64_t extent, tile;
    int64_t grain; /* tiles of a multiple of it divide the shortest dimensions that the loop moves, too: those of a reshape, say */
    int64_t least; /* the pass is sound only with tiles of a multiple of it (the last one excepted): an update inside the loop relies on that */
} plim__loop;

static inline int64_t plim__loop_trips(const plim__loop *l) { return l->extent <= 0 ? 1 : (l->extent + l->tile - 1) / l->tile; }

/** A node as it runs in a pass. */
typedef struct plim__pnode {
    uint32_t node;
    plim__axes axes;
    int8_t bind[PLIM__MAX_AXES];   /* the loop that moves the axis, -1: none */
    uint8_t needs[PLIM__MAX_AXES]; /* set of cut loops that the axis' range depends on */
    uint8_t moved_by[PLIM__MAX_AXES]; /* set of loops, cut or not, that the range may depend on when the tile is cut into blocks */
    uint32_t axis0;                /* where its ranges lie in a flat array of the pass */
    uint32_t in0;                  /* where its inputs lie in plim__pass.operand: indices of pass values */
    uint32_t out[PLIM__MAX_OUT];   /* indices of pass values */
    bool root;
    bool remade;       /* not kept, and a later pass makes it again */
    bool same_bits;    /* made more than once, here or in another pass: none of its sums is cut, so that all have the same bits */
    bool accumulates;  /* a cut loop moves an axis that reduces (or scans): outputs are complete at acc_depth, post */
    bool post;
    uint8_t depth, acc_depth;
    uint32_t stage;
    uint32_t copies_slot;               /* threads 1, 2, ... accumulate into copies of their own, thread 0 into the value itself */
    uint64_t copy_offset[PLIM__MAX_OUT]; /* of each output in one copy */
} plim__pnode;

/** Output j has an axis along which its node scans: it is made in parts, one after the other. */
static inline bool plim__out_is_scanned(const plim__axes *axes, uint32_t j, uint32_t rank)
{
    for (uint32_t d = 0; d < rank; d++)
        if (axes->out[j][d] >= 0 && axes->axis[axes->out[j][d]].kind == PLIM__SCAN) return true;
    return false;
}

/** Output j is combined over iterations; of a node that scans, only the carry is. */
static inline bool plim__out_accumulates(const plim__pnode *n, uint32_t j, uint32_t rank)
{
    return n->accumulates && !plim__out_is_scanned(&n->axes, j, rank);
}

typedef enum plim__role {
    PLIM__ROLE_CONST,   /* in the graph's own memory */
    PLIM__ROLE_READ,    /* a box of a file, read into a ring of slots */
    PLIM__ROLE_WHOLE,   /* all of it in the arena */
    PLIM__ROLE_TILE,    /* a box in a slot, from one stage to another of the same pass */
    PLIM__ROLE_WRITE,   /* a box in a ring of slots, on its way to a file */
    PLIM__ROLE_ACC,     /* an accumulator: the box of the loops outside acc_depth */
    PLIM__ROLE_PRIVATE, /* exists only inside a stage, one block at a time, once per thread */
} plim__role;

/** A value as it is seen in a pass. */
typedef struct plim__pvalue {
    uint32_t value;
    plim__role role;
    uint32_t slot;      /* PLIM__NONE for CONST and PRIVATE */
    uint32_t file;      /* READ and WRITE (and WHOLE or ACC that is written at its end): index into plim_plan.file */
    uint32_t producer;  /* index of the pass node that makes it here, or PLIM__NONE */
    uint8_t depth;      /* READ, WRITE: loops that move it */
    uint8_t moved_by[PLIM_MAX_RANK]; /* as in the node, per dimension */
    bool spill;         /* WRITE to a file of our own, which settling creates; READ: back from there */
    bool foreign;       /* WHOLE: its slot is none of this pass: an earlier one made it, or it is carried from run to run */
    bool stored;        /* what takes the place of a state that is held, but was made elsewhere: a WRITE step copies it there */
    bool again;         /* made before: this one goes to no file of the program's */
    bool flat;          /* spilled and read back inside one trip: its slot goes to the spill file as it is, byte by byte */
    bool streamed;      /* READ: in every trip of the loops around its first reader, right before that */
    bool ahead;         /* READ in front of inner loops: while these turn, it is read for the next trip, into the other one of two copies of its slot */
    bool beside;        /* behind inner loops. READ: read while they turn; WRITE, ACC: written while those of the next trip turn. Its slot lives as long as the pass */
    uint32_t alias_of;  /* it lies in the slot of this value of the pass, or in its place inside their stage, and overwrites it; PLIM__NONE: in its own */
    uint32_t back;      /* flat: the next value that is read back from where this one was spilled to, or PLIM__NONE */
    uint64_t private_offset; /* PRIVATE: in the thread's part of the stage's slot */
    uint64_t private_bytes;  /* PRIVATE: what was planned for it */
} plim__pvalue;

typedef struct plim__stage {
    uint32_t first, count; /* pass nodes */
    uint8_t depth;
    bool post;
    bool pool;             /* one node that uses the threads itself */
    uint8_t split_set;     /* loops that the stage may be cut along */
    uint8_t split_heavy;   /* those of them for which every thread would need large accumulators of its own */
    int8_t split;          /* the loop whose range is cut into blocks; -1: one block */
    uint32_t blocks;       /* at most; a short tile has fewer */
    uint64_t private_bytes; /* per thread, scratch included */
    uint64_t scratch_offset; /* in the thread's part */
    uint32_t slot;         /* private_bytes * threads; PLIM__NONE if 0 */
} plim__stage;

typedef enum plim__step_kind {
    PLIM__STEP_READ,
    PLIM__STEP_INIT,
    PLIM__STEP_STAGE,
    PLIM__STEP_MERGE,
    PLIM__STEP_WRITE, /* begins (or copies, for `stored`); a ring of slots is waited for when a slot is filled again, everything else by a WAIT step */
    PLIM__STEP_WAIT,
} plim__step_kind;

typedef struct plim__step {
    plim__step_kind kind;
    uint32_t index; /* READ, WRITE, WAIT: pass value; INIT, MERGE: pass node; STAGE: stage */
    uint8_t depth;
    bool post;
} plim__step;

typedef struct plim__pass {
    uint32_t n_loops, n_cut; /* the cut ones come first; the others have one trip, and serve to split stages */
    plim__loop loop[PLIM__MAX_LOOPS];
    plim__pnode *node;   uint32_t n_nodes; /* topological order */
    plim__pvalue *value; uint32_t n_values;
    uint32_t *operand;   uint32_t n_operands;
    plim__stage *stage;  uint32_t n_stages;
    plim__step *step;    uint32_t n_steps; /* pre and body by depth, then post by falling depth */
    const plim__nests *nest; /* the plan's */
    uint32_t n_axes;     /* length of the flat array of ranges */
    uint32_t time0;      /* number of its first step on the plan's time line */
    double seconds;      /* estimated */
    double compute;      /* of that: what the kernels take, halos included */
    uint64_t read_bytes, write_bytes;
} plim__pass;

/* Steps and stages of a pass run in groups, one after the other, each as often as the loops around it turn:
 *
 *     group 0          before the loops                        depth 0
 *     group 1          in loop 0, before those inside it       depth 1
 *     ...
 *     group n_cut      in all loops: the body                  depth n_cut
 *     group n_cut + 1  after the innermost loop (`post`)       depth n_cut - 1
 *     ...
 *     group 2 * n_cut  after all loops                         depth 0
 *
 * A pass without loops has one group. */
#define PLIM__MAX_GROUPS (2 * PLIM__MAX_LOOPS + 1)

static inline uint32_t plim__group_of(const plim__pass *p, uint32_t depth, bool post) { return post ? 2 * p->n_cut - depth : depth; }

/** Is there nothing for the node to do, in a part of its axes? Then it reads nothing. */
static inline bool plim__is_idle(const plim__pnode *n, const plim__range *axis)
{
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (axis[a].hi <= axis[a].lo) return true;
    return false;
}

/** A piece of the arena. */
typedef struct plim__slot {
    uint32_t value; /* PLIM__NONE: a stage's private memory */
    uint32_t pass, stage;
    uint64_t bytes; /* of one copy, a multiple of 64 (4096 where a file is read or written) */
    uint32_t copies;
    uint64_t offset;
    uint32_t first, last; /* steps of the time line, both inclusive */
    plim__region box;     /* the largest box that it holds, for explanations */
} plim__slot;

typedef enum plim__home_kind { PLIM__HOME_NOWHERE, PLIM__HOME_CONST, PLIM__HOME_FILE, PLIM__HOME_ARENA } plim__home_kind;

/** Where a value lives between passes. */
typedef struct plim__home {
    plim__home_kind kind;
    uint32_t file; /* HOME_FILE; or, for an ARENA value that is an output too, where it is written; else PLIM__NONE */
    uint32_t slot; /* HOME_ARENA */
} plim__home;

typedef enum plim__file_kind {
    PLIM__FILE_INPUT,
    PLIM__FILE_STATE, /* an input that is written in place: what is carried from run to run */
    PLIM__FILE_OUTPUT,
    PLIM__FILE_SPILL,
} plim__file_kind;

static inline bool plim__file_is_read(plim__file_kind k) { return k == PLIM__FILE_INPUT || k == PLIM__FILE_STATE; }

typedef struct plim__file {
    plim__file_kind kind;
    uint32_t value;
    const char *path;  /* input and output; the spill directory otherwise */
    uint64_t bytes;    /* of the whole file, header included */
    bool in_memory;    /* it lies on a file system that lives in memory; of files that are not our own */
    plim__io_file io;  /* everything but the descriptors. States and what is spilled lie in one file of our own, each at its offset */
} plim__file;

/** In the file of our own? */
static inline bool plim__file_is_ours(plim__file_kind k) { return k == PLIM__FILE_STATE || k == PLIM__FILE_SPILL; }

/** Another order of preference among the passes that fit: tests want every plan, not the fastest. Lower is better; deterministic. */
typedef struct plim__preference {
    double (*score)(void *ctx, const plim__pass *p, double seconds);
    void *ctx;
} plim__preference;

/** An input that may be held, and its bytes. */
typedef struct plim__held_size {
    uint64_t bytes;
    uint32_t value;
} plim__held_size;

struct plim_plan {
    plim__alloc alloc;
    const plim_graph *graph;
    plim_settings set;
    const plim__os *os;
    bool thorough; /* search for plans that are never slower in a larger budget; else once */
    const plim__preference *prefer; /* NULL: the fastest. Used while planning only */
    plim__speed speed; /* of the machine, with `threads` */
    uint32_t threads;
    uint32_t pool_threads; /* for nodes that use threads themselves: scratch for each, so no more than there are CPUs */
    plim__pass *pass;  uint32_t n_passes, cap_passes;
    plim__slot *slot;  uint32_t n_slots, cap_slots;
    plim__file *file;  uint32_t n_files, cap_files;
    plim__home *home;  /* one per value of the graph */
    plim__nests nest;      /* of the graph */
    uint32_t *use0, *use;  /* nodes that read value v: use[use0[v]] up to before use[use0[v + 1]], in order */
    bool *held;            /* per value: an input that lies in the arena from run to run, in a slot that lives all the time */
    uint64_t held_bytes;   /* of their slots */
    plim__held_size *held_size; /* scratch of plim__plan_hold, one per input */
    uint64_t own_bytes;    /* of the file of our own */
    uint32_t *state_file;  /* per state of the graph: its file */
    uint32_t *write_file;  /* per value: the file that it is written to, or PLIM__NONE */
    bool *is_output;       /* per value: an output of the program, or what takes the place of a state */
    bool *is_state;        /* per value: carried from run to run, or what takes its place */
    uint32_t *replaces;    /* per value: the state (index in the graph) whose place it takes, or PLIM__NONE */
    uint32_t *state_of;    /* per value: the state (index in the graph) that it is, before the run; or PLIM__NONE */
    plim__io_config io;
    uint64_t io_bytes;    /* at the start of the arena */
    uint64_t arena_bytes;
    uint32_t read_copies, write_copies; /* of the rings */
    uint32_t n_steps;     /* length of the time line */
    plim__budget budget;
    bool own_is_memory;   /* the file of our own lies on a file system that lives in memory */
    plim_facts facts;
    struct plim__run *run; /* the last run: its arena holds the results that were kept in memory */
    /* while it is being planned */
    struct plim__portfolio *portfolio;
    uint64_t floor_need;   /* the least plim__plan_need that there is a plan for */
};

/** Does no file that is there hold the input: is it a state, or does whoever runs the program make it? What is not held of these lies in the file of our own. */
static inline bool plim__input_is_ours(const plim_plan *plan, uint32_t v)
{
    const plim__source *s = &plan->graph->source[plan->graph->value[v].source];
    return plan->state_of[v] != PLIM__NONE || (s->stay == PLIM__STAY_MAY && (s->made || !s->path[0]));
}

/** Does the slot hold an input from run to run? */
static inline bool plim__slot_is_held(const plim_plan *plan, uint32_t slot)
{
    const uint32_t v = plan->slot[slot].value;
    return v != PLIM__NONE && plan->held[v] && plan->home[v].slot == slot;
}

/* ---- regions.c: shared by the planner, which measures, and the runner, which does ---- */

/** Scratch for region computations of one pass, or of one of its stages: the caller's, two arrays. */
typedef struct plim__ranges {
    plim__range *axis;     /* n_axes of the pass; or those of a stage, from axis0 on */
    plim__region *region;  /* n_values of the pass; or those that a stage touches, each at its place */
    const uint32_t *place; /* [n_values of the pass]; NULL: value v is at v */
    uint32_t axis0;
} plim__ranges;

static inline plim__region *plim__region_of(const plim__ranges *r, uint32_t v) { return &r->region[r->place ? r->place[v] : v]; }
static inline plim__range *plim__axes_of(const plim__ranges *r, const plim__pnode *n) { return &r->axis[n->axis0 - r->axis0]; }

/** For the tile `loop` (one range per loop), the axis ranges of every node and the box of every value. */
void plim__pass_regions(const plim_graph *g, const plim__pass *p, const plim__range *loop, plim__ranges *out);
/** Has the node an output that leaves its stage? Then its part of a block follows from the block, else from what the block's readers demand. */
bool plim__leaves_stage(const plim__pass *p, const plim__pnode *n);
/** For block `block` of `blocks` of a stage inside the tile whose ranges are `tile`: the same, for the stage's nodes and what they touch. */
void plim__stage_regions(const plim_graph *g, const plim__pass *p, const plim__stage *s, const plim__ranges *tile, uint32_t block,
                         uint32_t blocks, plim__ranges *out);
/** The box that an accumulator's slot covers during the tile `loop`: loops at acc_depth and deeper count as whole. */
void plim__acc_region(const plim_graph *g, const plim__pass *p, const plim__pnode *n, uint32_t out, const plim__range *loop, plim__region *box);
/** How many blocks a stage really has in this tile: no more than the shortest split range of its roots. */
uint32_t plim__stage_blocks(const plim__pass *p, const plim__stage *s, const plim__ranges *tile);

/* ---- the planner's parts ---- */
/** Plans `g` inside set->memory. Reads no tensor data. `g` and `os` must outlive the plan. */
plim_status plim__plan_new(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err); /* plan.c */
/** As plim__plan_new, and in a larger budget never slower: for programs that are worth a longer search. */
plim_status plim__plan_new_thorough(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err);
/** As plim__plan_new, by another preference (NULL: the fastest) and over every set of loops. */
plim_status plim__plan_new_by(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os,
                              const plim__preference *prefer, plim_error *err);

/* Planning step by step, for programs that share one budget: begin; make, as often as one likes; end. plim__plan_new is these three. */

/** Measures the baseline and finds all recipes and the smallest plan: floor_need. Thorough. */
plim_status plim__plan_begin(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err);
/** Makes the best plan whose need is at most `most`. `*fits` is true from floor_need on. */
plim_status plim__plan_make(plim_plan *plan, uint64_t most, bool *fits, plim_error *err);
/** States the facts of the plan that was made last, for its budget, and frees what planning needed. */
plim_status plim__plan_end(plim_plan *plan, plim_error *err);
/** A plan without passes, for callers that have passes built as they choose (plim__search_one_pass): files and budget are known. Then floor_need and
 *  plim__plan_set_floor; plim__plan_end, or plim__plan_refuse. */
plim_status plim__plan_open(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err);
/** The printed floor, from floor_need. */
void plim__plan_set_floor(plim_plan *plan);
/** @return PLIM_E_BUDGET, with the floor */
plim_status plim__plan_refuse(const plim_plan *plan, plim_error *err);
void plim__plan_drop(plim_plan *plan);
plim_status plim__plan_check(const plim_plan *plan, plim_error *err); /* check.c */
plim_status plim__plan_explain(plim_plan *plan, plim_error *err);    /* explain.c */
void plim__pass_free(const plim__alloc *a, plim__pass *p);

#endif
