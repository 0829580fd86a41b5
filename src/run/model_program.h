/* A model that is ready to be planned: its graph with results declared, or with the step of training added. */
#ifndef PLIM_RUN_MODEL_PROGRAM_H
#define PLIM_RUN_MODEL_PROGRAM_H

#include "models/narrow.h"

struct plim_model {
    plim__alloc alloc;
    plim__model *model;
    bool training;
    plim__train_graph train; /* zero in inference */
    plim__narrowed narrowed;
    char optimizer[16], loss[24];
    int64_t batch; /* 0: no input counts samples */
};

/** What a node does, for people: "conv", "max". */
const char *plim__node_name(const plim__node *n);

#endif
