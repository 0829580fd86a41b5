/* A model: a graph with named inputs, outputs, parameters and layers. The readers (onnx, keras) make it from files that they do not trust; the
 * planner and the trainer take it from there. */
#ifndef PLIM_MODELS_MODEL_H
#define PLIM_MODELS_MODEL_H

#include "graph/graph.h"
#include "models/weight_form.h"

#define PLIM__MODEL_NAME 96

/** A layer; its number is the tag of its nodes. Layer 0 is what belongs to no layer. */
typedef struct plim__layer {
    char name[PLIM__MODEL_NAME];
    char kind[32]; /* as the model's own format calls it: Conv2D, BatchNormalization */
} plim__layer;

/** An input or output of the model. */
typedef struct plim__port {
    char name[PLIM__MODEL_NAME];
    uint32_t value;     /* of an input: what is read, before any conversion */
    int32_t batch_axis; /* the dimension that counts samples; -1: none does */
} plim__port;

/** What the model was read from: what a trained copy of it can be saved as. */
typedef enum plim__model_form { PLIM__MODEL_MADE, PLIM__MODEL_ONNX, PLIM__MODEL_KERAS, PLIM__MODEL_HDF5, PLIM__MODEL_JSON } plim__model_form;

/** How a parameter without data is to be made. */
typedef enum plim__init { PLIM__INIT_FILE, PLIM__INIT_ZEROS, PLIM__INIT_ONES, PLIM__INIT_GLOROT_UNIFORM, PLIM__INIT_UNIFORM, PLIM__INIT_NORMAL } plim__init;

typedef struct plim__param {
    char name[PLIM__MODEL_NAME];
    uint32_t value;      /* a value of kind FILE; its source says where the data is, or is not bound (path "") and `init` says how to make it */
    uint32_t layer;
    bool trainable;      /* false: running statistics and the like */
    plim__init init;
    double init_scale;   /* UNIFORM, GLOROT_UNIFORM: [-scale, scale), worked out by the reader; NORMAL: the standard deviation */
    plim__weight_form form; /* how the value has what the file has */
    uint32_t update;     /* the value that takes its place after a training step (running statistics); PLIM__NONE */
    plim__source home;   /* where the model's own file has its data, whatever its value is bound to later; path is owned here, NULL: nowhere */
} plim__param;

/** A symbolic dimension that the user binds: --dim NAME=VALUE. */
typedef struct plim__dim_binding {
    const char *name;
    int64_t value;
} plim__dim_binding;

/** An input whose data have another type than the model wants: they are converted as they come. */
typedef struct plim__input_type {
    const char *name; /* "": the first input */
    plim_dtype dtype;
} plim__input_type;

/** An input whose data are there when the model is read: a constant of the graph, and none of the model's inputs. */
typedef struct plim__known {
    uint32_t input; /* its place among the file's inputs that have no data in the file */
    plim_dtype dtype;
    plim_shape shape;
    const void *data; /* dense, C order; looked at while the model is read only */
} plim__known;

typedef struct plim__model_options {
    const plim__input_type *type;
    uint32_t n_types;
    int64_t batch;                /* 0: as the file says, 1 where it does not */
    const plim__dim_binding *dim; /* by name */
    uint32_t n_dims;
    bool training;                /* batch statistics, dropout */
    const plim__known *known;     /* ONNX only */
    uint32_t n_known;
    bool fold_known;              /* what follows from known inputs alone is known, too; else only who asks for one's data gets it */
} plim__model_options;

/** What is made of parameters once, when they are loaded (prepared.h). */
typedef struct plim__prepared {
    plim_graph *graph;
    uint32_t *param, *to; /* per value of that graph: the parameter that it is, and the input of the model's graph that it becomes; PLIM__NONE */
    bool some;
} plim__prepared;

typedef struct plim__model {
    plim_graph *graph; /* owned */
    plim__prepared prepared;
    char name[PLIM__MODEL_NAME];
    plim__model_form form;
    plim__layer *layer; uint32_t n_layers, cap_layers;
    plim__port *input;  uint32_t n_inputs, cap_inputs;
    plim__port *output; uint32_t n_outputs, cap_outputs;
    plim__param *param; uint32_t n_params, cap_params;
    const plim__model_options *options; /* while it is read; NULL afterwards */
    uint32_t seed;      /* the input (u64 scalar) that random numbers come from; PLIM__NONE: there are none */
} plim__model;

/* ---- model.c */
/** @param options  what the reader was given; must last until it is done. NULL: nothing special */
plim_status plim__model_new(plim__model **out, const plim__model_options *options, plim__alloc alloc, plim_error *err);
void plim__model_free(plim__model **m);
void plim__prepared_free(plim__prepared *p, const plim__alloc *a);
/** Starts a layer: the nodes made from now on belong to it. */
plim_status plim__model_layer(plim__model *m, const char *name, const char *kind, plim_error *err);
/** @param v  the input as the model wants it: converted where options.type says that the data are of another type */
plim_status plim__model_input(plim__model *m, const char *name, plim_dtype dtype, const plim_shape *shape, int32_t batch_axis, uint32_t *v, plim_error *err);
plim_status plim__model_output(plim__model *m, const char *name, uint32_t v, int32_t batch_axis, plim_error *err);
/** Adds a parameter of the current layer. `param->value`, `layer`, `update` and `home` are set here. @param source  NULL: not bound */
plim_status plim__model_param(plim__model *m, plim__param *param, plim_dtype dtype, const plim_shape *shape, const plim__source *source, uint32_t *v,
                              plim_error *err);
/** The parameter's data is in the model's own file, at `source` (its path is copied): from now on its value's source and its home. */
plim_status plim__model_bind(plim__model *m, uint32_t param, const plim__source *source, plim_error *err);
/** The shape that a parameter has in files, whatever its form in memory. */
const plim_shape *plim__param_shape(const plim__model *m, const plim__param *p);
/** Its bytes there. */
uint64_t plim__param_bytes(const plim__model *m, const plim__param *p);
/** A value that is bound to a file later, if at all: enough for a plan. */
plim_status plim__model_unbound(plim__model *m, const char *name, plim_dtype dtype, const plim_shape *shape, uint32_t *v, plim_error *err);
/** How an input stays between runs; at first in its file. */
void plim__model_stays(plim__model *m, uint32_t v, plim__stay stay);
/** A single number that is set in memory before each run. */
plim_status plim__model_setting(plim__model *m, const char *name, plim_dtype dtype, uint32_t *v, plim_error *err);
/** The input that random numbers come from, made when first asked for. */
plim_status plim__model_seed(plim__model *m, uint32_t *v, plim_error *err);

/* ---- onnx.c, keras.c: read by content, not by name */
plim_status plim__onnx_read(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err);
plim_status plim__keras_read(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err);
/** The reader that the file's content asks for. */
plim_status plim__model_read(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err);

#endif
