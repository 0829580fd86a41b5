/* A model that is ready to be planned: its graph with results declared, or with the step of training added. */
#ifndef PLIM_SESSION_MODEL_PROGRAM_H
#define PLIM_SESSION_MODEL_PROGRAM_H

#include "models/narrow.h"

struct plim_model {
    plim__alloc alloc;
    plim__model *model;
    bool training;
    plim__train_graph train; /* zero in inference, but for what is measured */
    plim__narrowed narrowed;
    char optimizer[16], loss[24];
    int64_t batch; /* 0: no input counts samples */
};

/** What data files have: types of inputs and target, and where outputs go. */
typedef struct plim__model_types {
    const plim__input_type *input;
    uint32_t n_inputs;
    bool target_given;
    plim_dtype target;
    bool measured;                /* inference whose results are how far the first output is from the target, and nothing else */
    bool outputs_given;           /* inference: results are those of `output`, all in memory where there is none; else all, to files not known yet */
    const plim_binding *output;
    uint32_t n_outputs;
} plim__model_types;

/** plim_model_new for given data. */
plim_status plim__model_program_new(plim_model **out, const char *path, const plim_model_options *options, const plim__model_types *types,
                                    const plim_settings *set, plim_error *err);

/** What a node does, for people: "conv", "max". */
const char *plim__node_name(const plim__node *n);

#endif
