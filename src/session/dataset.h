/* Data for models: array files whose first dimension counts samples, bound to a model's inputs, and the order in which training goes through them. */
#ifndef PLIM_SESSION_DATASET_H
#define PLIM_SESSION_DATASET_H

#include "formats/array_file.h"
#include "models/model.h"

#define PLIM__MOST_INPUTS 64

/** Array files, opened: one for each input of a model. */
typedef struct plim__dataset {
    uint32_t n;
    plim__array_file file[PLIM__MOST_INPUTS];
    const char *name[PLIM__MOST_INPUTS]; /* as they were given; "": the first input */
    char *path[PLIM__MOST_INPUTS];       /* owned */
    plim__input_type type[PLIM__MOST_INPUTS];
    int64_t samples; /* that all of them have; -1 before the first */
} plim__dataset;

/** Looks at the files' headers. All have as many samples; compressed members of archives are refused. */
plim_status plim__dataset_open(plim__dataset *d, const plim__os *os, const plim_binding *in, uint32_t n, const plim__alloc *a, plim_error *err);
/** The same for inputs and a target, which comes last. */
plim_status plim__dataset_open_pairs(plim__dataset *d, const plim__os *os, const plim_binding *in, uint32_t n, const plim_binding *target, const plim__alloc *a,
                                     plim_error *err);
void plim__dataset_free(plim__dataset *d, const plim__alloc *a);

/** Binds file i to the input `value` of a graph: the whole array, or, with `picked`, as many rows of it as the value has, picked for each run. Checks dtype and
 *  shape; the message speaks of `what`. */
plim_status plim__dataset_bind(const plim__dataset *d, uint32_t i, plim_graph *g, uint32_t value, const char *what, bool picked, plim_error *err);
/** Binds every input of a model: by name, or the only one. */
plim_status plim__dataset_bind_inputs(const plim__dataset *d, plim__model *m, bool picked, plim_error *err);
/** Binds inputs and target of plim__dataset_open_pairs. @param target  value */
plim_status plim__dataset_bind_pairs(const plim__dataset *d, plim__model *m, uint32_t target, bool picked, plim_error *err);

/** A walk through n samples, again and again, each time in another order that a seed gives: nothing is stored. */
typedef struct plim__sample_order {
    uint64_t n, seed;
    bool in_order;
} plim__sample_order;

/** Which sample comes at place `at` of epoch `epoch`: every one once. */
uint64_t plim__sample_at(const plim__sample_order *o, uint64_t epoch, uint64_t at);

#endif
