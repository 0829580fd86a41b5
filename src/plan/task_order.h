/* The order in which the tasks of an uncut pass run, so that the most bytes alive at one time are few.
 *
 * What is alive between two tasks depends only on the set of tasks that have run: a value from the task that makes it (one that is read from a
 * file: from its first reader) until its last reader has run, or to the end if it stays. While a task runs, its inputs, its outputs and its `extra`
 * bytes are there beside everything else that is alive.
 *
 * The program's order is 0, 1, 2, ...: it must be a valid one. An order is valid when each task comes after the makers of what it reads, and after
 * its `after`. */
#ifndef PLIM_PLAN_TASK_ORDER_H
#define PLIM_PLAN_TASK_ORDER_H

#include "plan/tasks.h"

#define PLIM__ORDER_STATES 500000 /* sets of tasks that the exact search looks at, in all: a quarter of a second and 16 MiB at most */
#define PLIM__ORDER_EXACT_MAX 64   /* tasks: a set of them is a 64-bit word */

/** The most bytes alive at one time when the tasks run in this order, each value from where it is made (what is read from a file: from its first
 *  reader) to its last reader. @return PLIM_OK, PLIM_E_NOMEM, PLIM_E_OVERFLOW */
plim_status plim__order_peak(uint64_t *peak, const plim__tasks *t, const uint32_t *order, const plim__alloc *a, plim_error *err);

/** An order with a small peak: the best of the program's order, depth-first, greedy (least growth first) and, inside segments that are small enough,
 *  the optimum. Of equal ones the first in this list; the same tasks always get the same order.
 *  @param order   [t->n]
 *  @param proven  no order has a lower peak
 *  @return PLIM_OK, PLIM_E_NOMEM, PLIM_E_OVERFLOW */
plim_status plim__order_tasks(uint32_t *order, uint64_t *peak, bool *proven, const plim__tasks *t, const plim__alloc *a, plim_error *err);
/** As plim__order_tasks. @param states  in: how many sets of tasks may be looked at; out: how many are left */
plim_status plim__order_tasks_within(uint32_t *order, uint64_t *peak, bool *proven, uint64_t *states, const plim__tasks *t, const plim__alloc *a,
                                     plim_error *err);

/* ---- its parts ---- */

/** Which of the tasks that can run goes next. */
typedef enum plim__list_rule {
    PLIM__LIST_GREEDY, /* that adds least to what is alive; then that needs least while it runs */
    PLIM__LIST_DEPTH,  /* that became possible last */
    PLIM__LIST_MIXED,  /* that adds nothing, as GREEDY has them; else as DEPTH */
    PLIM__LIST_RULES
} plim__list_rule;

/** Takes O(E log n) for E operands. Equal ones go in the program's order.
 *  @param t  all bytes together are below 2^63 (plim__order_peak refuses it otherwise) */
plim_status plim__order_list(uint32_t *order, plim__list_rule rule, const plim__tasks *t, const plim__alloc *a,
                             plim_error *err); /* task_order_list.c */

/** Places [lo, hi) of an order, to be put into the best order among themselves. */
typedef struct plim__order_part {
    uint32_t lo, hi;
    uint64_t live; /* in: bytes alive before place lo */
    uint64_t peak; /* in: of the order as it is; out: of the one found */
    bool proven;   /* out: nothing lower exists, with what is before and behind as it is */
} plim__order_part;

/** @param order   changes only inside the part, and only when the peak becomes lower
 *  @param place   of each task in `order`; kept up to date
 *  @param part    of at most PLIM__ORDER_EXACT_MAX tasks
 *  @param states  in: how many sets may be looked at; out: how many are left */
plim_status plim__order_exact(uint32_t *order, uint32_t *place, plim__order_part *part, uint64_t *states, const plim__tasks *t, const plim__alloc *a,
                              plim_error *err); /* task_order_exact.c */

#endif
