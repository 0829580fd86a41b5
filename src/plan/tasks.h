/* The stages of a pass as a graph of their own: what each reads and makes, and what it takes to recompute one of its values. Orders and what is kept in
 * memory are decided on it (task_order.c, keep.c).
 *
 * Tasks run in the groups of plim__group_of. A value that is made and read in one group is *free*: inside a trip it may be dropped and recomputed, or
 * spilled and read back. So is what is read from a file, in each group by itself. Everything else is *carried*: accumulators, rings of tiles, what is
 * made in one group and read in another, and files that are read once for all trips. It lies in memory as long as its groups run. */
#ifndef PLIM_PLAN_TASKS_H
#define PLIM_PLAN_TASKS_H

#include "plan/measure.h"

/** A list of lists: list i is item[from[i]] up to before item[from[i + 1]]. */
typedef struct plim__lists {
    uint32_t *from, *item;
    uint32_t n, n_items, cap_items;
} plim__lists;

/** What a transfer takes: elapsed, with others in flight; until a disk without other work has done it; of the threads that compute. */
typedef struct plim__task_transfer {
    double seconds, latency, cpu;
} plim__task_transfer;

/** Values are those of the pass: indices into pass->value. */
typedef struct plim__tasks {
    const plim__pass *pass; /* its stages are the tasks */
    uint32_t n;
    uint32_t n_groups;
    double trips[PLIM__MAX_GROUPS];     /* per group: how often it runs */
    uint64_t carried[PLIM__MAX_GROUPS]; /* per group: bytes of what is carried through it */
    uint8_t *group;     /* [n] */
    uint64_t *extra;    /* [n] bytes beside inputs and outputs while it runs: private memory, scratch, accumulators of threads */
    double *seconds;    /* [n] */
    plim__lists in;     /* per task: free values that it reads, each once; those that it makes itself, too, unless they stay inside it */
    plim__lists out;    /* per task: free values that leave it */
    plim__lists after;  /* per task: tasks that it must come after for another reason than their values: they read a state that it overwrites */
    plim__lists uses;   /* per value: tasks that read it, rising */
    plim__lists over;   /* per free value that leaves a task: free inputs of the task that it may take the place of, if no later task needs them */
    plim__lists remake; /* per free value that leaves a task: nodes of the pass that recompute it */
    plim__lists remake_in; /* and the free values from elsewhere that they read */
    double *remake_seconds; /* per value; INFINITY: it cannot be recomputed */
    plim__task_transfer *fetch; /* per value that is read from a file: reading it */
    plim__task_transfer *store; /* per value that the program writes to a file: writing it */
    plim__task_transfer ring[PLIM__MAX_GROUPS]; /* per group and trip: what goes through rings of slots */
    plim__task_transfer still[PLIM__MAX_GROUPS]; /* what else of what is carried is read or written there */
    uint64_t *bytes;    /* per value: in memory; 0 for constants, for what stays inside a task, is carried or held */
    uint32_t *maker;    /* per value: task, PLIM__NONE for what is read */
    uint64_t left_out;  /* the least `resident` with which one more file would be read once for all trips; UINT64_MAX: all are */
    bool *stays;        /* per value: a result that remains in memory to the end; NULL: none does */
    bool *is_carried;   /* per value */
    uint32_t *first_of; /* per value of the graph: the first value of the pass that is one of its boxes, or PLIM__NONE */
    uint32_t *next_of;  /* per value: the next one that is */
} plim__tasks;

/** @param p  built, and measured by `m`; must outlive the tasks
 *  @param resident  bytes of files, at most, that are read once although a deeper group reads them, or several groups do: the smallest ones */
plim_status plim__tasks_new(plim__tasks *u, const plim_plan *plan, const plim__pass *p, const plim__measure *m, uint64_t resident, plim_error *err);
void plim__tasks_free(plim__tasks *u, const plim__alloc *a);

/** The tasks group by group, each group in the program's order: a valid order. @param order  [u->n] */
void plim__tasks_by_group(uint32_t *order, const plim__tasks *u);
/** Bytes that one task needs, at the most, beside what is carried, when its inputs are overwritten where they may be: no limit below works. */
uint64_t plim__tasks_largest(const plim__tasks *u);

static inline uint32_t plim__list_len(const plim__lists *l, uint32_t i) { return l->from[i + 1] - l->from[i]; }

#endif
