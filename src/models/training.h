/* One step of training as a graph: loss, gradients, optimizer. */
#ifndef PLIM_MODELS_TRAINING_H
#define PLIM_MODELS_TRAINING_H

#include "models/model.h"
#include "ops/layers.h"

typedef struct plim__training {
    plim__loss loss;
    plim__optimizer optimizer;
    bool target_typed;       /* the target's data are of this type, and converted where the loss wants another */
    plim_dtype target_dtype;
} plim__training;

/** What a parameter has beside itself while it is trained. */
typedef struct plim__trained {
    uint32_t param;    /* index into plim__model.param */
    uint32_t gradient; /* value */
    uint32_t state[2]; /* inputs that the optimizer keeps, of the parameter's shape, starting at 0; PLIM__NONE */
} plim__trained;

/** What plim__model_train added. */
typedef struct plim__train_graph {
    uint32_t target;     /* input: what the first output should be */
    uint32_t rate, step; /* inputs: f32 scalars */
    uint32_t loss;       /* the graph's output 0, kept in memory */
    uint32_t accuracy;   /* the share of samples whose largest output is the target's: output 1, f32; PLIM__NONE where that says nothing */
    plim__trained *trained; uint32_t n_trained; /* owned */
} plim__train_graph;

/** Optimizer by the name that people use ("sgd", "momentum", "nesterov", "adam", "adamw", "rmsprop") with its usual parameters, or with others behind a
 *  colon: "adam:beta1=0.8,eps=1e-7". */
plim_status plim__optimizer_named(plim__optimizer *out, const char *name, plim_error *err);
/** Loss by name: "mse", "mae", "bce", "bce-logits", "ce", "ce-logits", "sparse-ce", "sparse-ce-logits". */
plim_status plim__loss_named(plim__loss *out, const char *name, plim_error *err);
/** Makes the model, read with options.training, a training step over its first output. Every trainable parameter on which the loss depends is updated:
 *  its new value and the optimizer's take the places of the old ones (plim__graph_state), as do running statistics. */
plim_status plim__model_train(plim__train_graph *out, plim__model *m, const plim__training *how, plim_error *err);
/** Makes the model, read for inference, one that is compared with a target: only target, loss and accuracy of *out are set, the rest is PLIM__NONE. */
plim_status plim__model_measure(plim__train_graph *out, plim__model *m, const plim__training *how, plim_error *err);
void plim__train_graph_free(plim__train_graph *t, const plim__model *m);

#endif
