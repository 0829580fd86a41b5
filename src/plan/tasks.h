/* The stages of an uncut pass as a graph of their own: what each reads and makes, and what it takes to make one of its values again. Orders and
 * what is kept in memory are decided on it (task_order.c, keep.c). */
#ifndef PLIM_PLAN_TASKS_H
#define PLIM_PLAN_TASKS_H

#include "plan/measure.h"

/** A list of lists: list i is item[from[i]] up to before item[from[i + 1]]. */
typedef struct plim__lists {
    uint32_t *from, *item;
    uint32_t n, n_items, cap_items;
} plim__lists;

typedef struct plim__tasks {
    const plim__pass *pass; /* its stages are the tasks */
    uint32_t n;
    uint64_t *extra;    /* [n] bytes beside inputs and outputs while it runs: private memory, scratch, accumulators of threads */
    double *seconds;    /* [n] */
    plim__lists in;     /* per task: values that it reads, each once; those that it makes itself, too, unless they stay inside it */
    plim__lists out;    /* per task: values that leave it */
    plim__lists after;  /* per task: tasks that it must come after for another reason than their values: they read a state that it overwrites */
    plim__lists uses;   /* per value: tasks that read it, rising */
    plim__lists remake; /* per value that leaves a task: nodes of the pass that make it again */
    plim__lists remake_in; /* and the values from elsewhere that they read */
    double *remake_seconds; /* per value */
    uint64_t *bytes;    /* per value: in memory; 0 for constants, for what stays inside a task and for what is held */
    uint32_t *maker;    /* per value: task, PLIM__NONE for what is read */
    bool *stays;        /* per value: a result that remains in memory to the end; NULL: none does */
} plim__tasks;

/** @param p  uncut, built, and measured by `m`; must outlive the tasks
 *  @param seconds  of each node of the graph */
plim_status plim__tasks_new(plim__tasks *u, const plim_plan *plan, const plim__pass *p, const plim__measure *m, const double *seconds, plim_error *err);
void plim__tasks_free(plim__tasks *u, const plim__alloc *a);

static inline uint32_t plim__list_len(const plim__lists *l, uint32_t i) { return l->from[i + 1] - l->from[i]; }

#endif
