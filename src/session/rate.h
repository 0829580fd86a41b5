/* The rate of learning, step by step. */
#ifndef PLIM_SESSION_RATE_H
#define PLIM_SESSION_RATE_H

#include "core/error.h"

typedef enum plim__rate_kind { PLIM__RATE_CONSTANT, PLIM__RATE_LINEAR, PLIM__RATE_COSINE, PLIM__RATE_STEP } plim__rate_kind;

typedef struct plim__rate_schedule {
    plim__rate_kind kind;
    uint64_t steps; /* of rising at the beginning; STEP: how many have the same rate */
    double factor;  /* STEP */
} plim__rate_schedule;

/** "constant", "linear", "linear:100", "cosine", "cosine:100", "step:1000:0.1". @param text  NULL: constant */
plim_status plim__rate_schedule_parse(plim__rate_schedule *out, const char *text, plim_error *err);
/** @param step  from 0; @param steps  in all */
double plim__rate_at(const plim__rate_schedule *s, double rate, uint64_t step, uint64_t steps);

#endif
