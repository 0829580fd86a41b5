/* A model's parameters while it runs: from where the model file has them, or from a seed, to where the plan keeps them, and back, in the form and
 * order that files have. After plim__run_open. */
#ifndef PLIM_SESSION_PARAMETERS_H
#define PLIM_SESSION_PARAMETERS_H

#include "formats/tensor_reader.h"
#include "models/model.h"
#include "models/param_init.h"
#include "plan/plan.h"

/** Puts every parameter that the plan keeps in a place of its own there. Others are read from the model's file as they are needed. */
plim_status plim__parameters_load(plim_plan *plan, const plim__model *m, uint64_t seed, plim_error *err);
/** Whether an input has a place of its own: in the arena or in a file of ours. */
bool plim__parameter_is_placed(const plim_plan *plan, uint32_t value);
/** Fills such an input with tensor `index` of a reader. @param form  how the input has what the reader gives */
plim_status plim__parameter_put(plim_plan *plan, uint32_t value, const plim__weight_form *form, plim__tensor_reader from, uint32_t index, plim_error *err);
/** Fills such an input with zeros. */
plim_status plim__parameter_clear(plim_plan *plan, uint32_t value, plim_error *err);

/** A part of an input, in memory. */
typedef struct plim__parameter_window {
    char *memory;         /* NULL: none yet */
    uint64_t from, bytes; /* of the input */
    bool loaded;          /* holds them */
    bool own;             /* is to be freed */
} plim__parameter_window;

/** An input that is read piece by piece, in the order that files have. */
typedef struct plim__parameter_view {
    plim_plan *plan;
    uint32_t value;
    const plim__weight_form *form;
    plim__parameter_window window; /* where the form is another */
    uint64_t part;                 /* bytes of the window, but for the last part of the input */
    bool apart;                    /* what the arena has to spare is in use */
} plim__parameter_view;

plim_status plim__parameter_get(plim__parameter_view *view, uint64_t offset, void *bytes, uint64_t n, plim_error *err);
void plim__parameter_view_close(plim__parameter_view *view);

/** A model's parameters as they are now: from the places that a run has them in; those without one, which nobody changes, from where they came. */
typedef struct plim__parameters_now {
    const plim__model *model;
    plim__parameter_view view; /* of the one that is being read */
    plim__param_filler filler;
} plim__parameters_now;

/** @param apart  as in the view */
void plim__parameters_now_open(plim__parameters_now *p, plim_plan *plan, const plim__model *m, uint64_t seed, bool apart);
/** To be called after a failure, too. @return PLIM_E_CHANGED where the model's file changed while it was read */
plim_status plim__parameters_now_close(plim__parameters_now *p, plim_error *err);
/** Its index is the parameter's. */
plim__tensor_reader plim__parameters_now_reader(plim__parameters_now *p);

#endif
