/* How fast the machine is, as the planner asks it: rates for a number of threads and prices of requests. The public part (plim_machine: defaults, checks, names,
 * files) is in machine.c and machine_file.c; doctor/machine_measure.c fills one in. Pure functions on plain structs: any thread, no allocation. */
#ifndef PLIM_PLAN_MACHINE_H
#define PLIM_PLAN_MACHINE_H

#include "core/error.h"

#define PLIM__REQUEST_LEAST 4096u  /* bytes of the first of the sizes; each is four times the one before */
#define PLIM__REQUESTS_IN_FLIGHT 4 /* behind plim_requests.seconds: threads of the transfer engine */

/** A machine as one plan sees it: the rates for its threads are worked out once. */
typedef struct plim__speed {
    plim_machine machine;
    uint32_t threads;
    double rate[PLIM_KERNEL_COUNT]; /* per second, on `threads` threads */
    double memory_rate;             /* bytes per second, on `threads` threads */
} plim__speed;

/** @param m  NULL: the defaults. @return PLIM_E_INVALID as plim_machine_check */
plim_status plim__speed_new(plim__speed *out, const plim_machine *m, uint32_t threads, plim_error *err);

/** Units per second on so many threads, given the rates of one and of m->threads: a power law between and beyond them, never above linear, and none beyond the
 *  CPUs that there are. */
double plim__kernel_rate(const plim_machine *m, plim_rate rate, uint32_t threads);

/** What one request of `bytes` bytes costs, from a table by size: linear between sizes; smaller ones cost what the smallest does, larger ones
 *  grow in proportion. */
double plim__request_at(const double table[PLIM_REQUEST_SIZES], double bytes);

/** The numbers of a description, one after the other, so that files, messages and checks know the same ones.
 *  @param value  where it lies in m; @param least, most  what it may be. @return false after the last */
bool plim__machine_field(plim_machine *m, uint32_t i, double **value, double *least, double *most, char name[64]);

#endif
