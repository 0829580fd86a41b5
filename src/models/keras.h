/* What the files of the Keras reader share. From outside there is plim__keras_read (model.h) alone.
 *
 *   keras.c             the three kinds of file: JSON text, .keras archive, .h5
 *   keras_graph.c       layers of a model, nested ones too; calls them in the order of their inputs
 *   keras_layer.c       what every layer needs: inputs, parameters, options; and the table of layers
 *   keras_init.c        initializers
 *   keras_weights.c     finds each parameter's data in the HDF5 file, when the graph is done
 *   keras_save.c        a copy of the file with other data
 *   keras_<family>.c    the layers themselves
 *
 * Images. Keras keeps channels in the last dimension, the rows of convolutions and pools want them in dimension 1. A tensor carries a note
 * (`turned`): its value is stored channels-first although the model means channels-last. Whoever needs the other order asks for it
 * (plim__keras_plain, plim__keras_turn) and a transpose is made then; so there is none inside a chain of convolutions, normalisations,
 * activations and pools. */
#ifndef PLIM_MODELS_KERAS_H
#define PLIM_MODELS_KERAS_H

#include "formats/json_text.h"
#include "models/hdf5.h"
#include "models/model.h"
#include "ops/layers.h"

#define PLIM__KERAS_WEIGHTS_MEMBER "model.weights.h5" /* of an archive */
#define PLIM__KERAS_WEIGHTS 8  /* most that one layer has */
#define PLIM__KERAS_CALLS 50000 /* layers that are called, counted each time: nested models could make that grow without bound */
#define PLIM__KERAS_DEPTH 24   /* models inside models */
#define PLIM__KERAS_SIZE (1 << 20) /* of a kernel, a stride, a border: sums and products with extents stay far below 2^63 */

typedef struct plim__keras_tensor {
    uint32_t v;
    bool turned; /* [N, C, space...] in the graph, [N, space..., C] in the model; rank 3 and more */
} plim__keras_tensor;

typedef struct plim__keras_weight {
    uint32_t param;          /* in the model; PLIM__NONE: in the file only, nothing reads it */
    const char *sub;         /* the part of the layer that owns it in an archive, "" the layer itself */
    uint32_t slot;           /* its number there */
    bool trainable;          /* by its nature, whatever the layer's switch says */
    const char *initializer; /* one that cannot be made, or NULL */
} plim__keras_weight;

/** A layer of the model, or a model in it, or what a wrapper wraps. Called once per inbound node, always with the same weights. */
typedef struct plim__keras_layer {
    plim__json json, config;
    const char *name, *kind;      /* the document's own text */
    char path[PLIM__MODEL_NAME];  /* the name, behind those of the models around it */
    uint32_t parent;              /* PLIM__NONE: the whole model */
    uint32_t first, count;        /* its own layers */
    uint32_t tag;                 /* its number in the model; 0: was not called yet */
    bool is_model, is_sequential, trainable;
    plim_dtype dtype;
    plim__keras_weight weight[PLIM__KERAS_WEIGHTS];
    uint32_t n_weights;
} plim__keras_layer;

typedef struct plim__keras {
    plim__model *model;
    plim_graph *graph; /* the model's */
    const plim__model_options *options;
    plim__alloc alloc;
    const char *path;
    int version;   /* of Keras: 2 or 3 */
    bool training; /* as the options say, unless a layer, or a model around it, is called with training=False */
    plim__keras_layer *layer; uint32_t n_layers, cap_layers; /* 0 is the whole model */
    uint32_t calls, streams;
} plim__keras;

typedef struct plim__keras_row plim__keras_row;

/** One call of a layer. */
typedef struct plim__keras_call {
    plim__keras *k;
    const plim__keras_row *row;
    plim__keras_layer *layer;
    const plim__json *config; /* the layer's; or that of an activation which is an object of its own */
    const plim__keras_tensor *in;
    uint32_t n_in;
    uint32_t n_weights;       /* asked for so far */
    plim__keras_tensor out;
    plim_error *err;
} plim__keras_call;

/** A kind of layer. */
struct plim__keras_row {
    const char *kind;
    plim_status (*build)(plim__keras_call *c); /* sets c->out */
    uint32_t least, most;                      /* inputs */
    uint32_t arg;                              /* the builder's own */
    const char *keys;                          /* options that it looks at, or that change nothing here; any other that is in use is refused */
};

/* ---- keras.c */
/** plim__keras_read on any system: fuzzing gives it a file in memory. */
plim_status plim__keras_read_from(plim__model **out, const plim__os *os, const char *path, const plim__model_options *options, plim__alloc alloc,
                                  plim_error *err);

/* ---- keras_graph.c */
/** Reads all layers, then calls them: inputs, nodes and outputs of the model are there afterwards. */
plim_status plim__keras_graph(plim__keras *k, const plim__json *root, plim_error *err);
/** Calls layer `index` (not a model) on `in`. */
plim_status plim__keras_apply(plim__keras *k, uint32_t index, const plim__keras_tensor *in, uint32_t n_in, plim__keras_tensor *out, plim_error *err);

/* ---- keras_layer.c */
const plim__keras_row *plim__keras_row_of(const char *kind); /* NULL: there is none */
/** Refuses what the row does not know. */
plim_status plim__keras_check_options(plim__keras_call *c);
plim_status plim__keras_dtype(plim_dtype *out, const plim__json *config, plim_error *err);

uint32_t plim__keras_rank(const plim__keras_call *c, plim__keras_tensor t);
plim_shape plim__keras_shape(const plim__keras_call *c, plim__keras_tensor t); /* as the model means it */
plim_status plim__keras_plain(plim__keras_call *c, plim__keras_tensor t, uint32_t *v); /* in the model's order */
plim_status plim__keras_turn(plim__keras_call *c, plim__keras_tensor t, uint32_t *v);  /* channels in dimension 1 */
/** Input i, in the layer's own float type. */
plim_status plim__keras_in(plim__keras_call *c, uint32_t i, plim__keras_tensor *t);
/** Input 0 as [N, C, space...]: `first` says that the model has it so itself (data_format). */
plim_status plim__keras_image(plim__keras_call *c, uint32_t space, bool *first, uint32_t *v);
static inline plim__keras_tensor plim__keras_from_image(uint32_t v, bool first) { return (plim__keras_tensor){v, !first}; }
/** The dimension of t's value that holds the model's dimension `axis`. */
uint32_t plim__keras_dim_of(const plim__keras_call *c, plim__keras_tensor t, uint32_t axis);
/** A dimension of `rank`, counted from the end where negative. */
plim_status plim__keras_axis(plim__keras_call *c, int64_t axis, uint32_t rank, uint32_t *out);
/** `key`: an integer or a list of them, as a set of dimensions of `rank`. */
plim_status plim__keras_axes(plim__keras_call *c, const char *key, int64_t fallback, uint32_t rank, uint32_t *mask);
/** `key`: n integers of at least `least`, or one for all. fallback 0: it must be there. */
plim_status plim__keras_sizes(plim__keras_call *c, const char *key, uint32_t n, int64_t least, int64_t fallback, int64_t *out);

typedef struct plim__keras_spec {
    const char *name;    /* "kernel" */
    const char *init;    /* the option with its initializer; NULL: always `otherwise` */
    const char *otherwise;
    bool frozen;         /* never trained: running statistics */
    const char *sub;     /* NULL: "" */
    uint32_t slot;
} plim__keras_spec;
/** The layer's next parameter: made in its first call, the same one in later calls. */
plim_status plim__keras_param(plim__keras_call *c, const plim__keras_spec *spec, const plim_shape *shape, uint32_t *v);
/** The layer's next parameter is in the file, but nothing reads it. */
plim_status plim__keras_skip(plim__keras_call *c, uint32_t slot);
/** Is the layer trained: it, and every model around it. */
bool plim__keras_trained(const plim__keras *k, const plim__keras_layer *l);
/** Does the option `key` say yes. */
plim_status plim__keras_flag(plim__keras_call *c, const char *key, bool fallback, bool *out);
/** Sub-operations that several families use: x + a vector along dimension 1 or the last. */
plim_status plim__keras_add_along(plim__keras_call *c, uint32_t x, uint32_t vector, uint32_t dim, uint32_t *v);

/* ---- keras_init.c */
/** @param refused  set to the name of an initializer that cannot be made; `param` is then all zeros */
plim_status plim__keras_init(plim__param *param, const plim__json *config, const plim__keras_spec *spec, const plim_shape *shape,
                             const char **refused, plim_error *err);

/* ---- keras_weights.c */
/** Binds every parameter. @param archive  a .keras archive's own order of groups; else a .h5 file's */
plim_status plim__keras_bind(plim__keras *k, const plim__hdf5 *h, bool archive, const plim__stat *file, plim_error *err);

/* ---- keras_activation.c */
/** What the option `key` says, applied to *t; nothing where it is missing. */
plim_status plim__keras_activate(plim__keras_call *c, const char *key, plim__keras_tensor *t);

/* ---- the builders */
#define PLIM__KERAS_AVERAGE 16u /* in a pool's arg, beside the dimensions of space */
plim_status plim__keras_conv(plim__keras_call *c);
plim_status plim__keras_conv_depthwise(plim__keras_call *c);
plim_status plim__keras_conv_separable(plim__keras_call *c);
plim_status plim__keras_conv_transpose(plim__keras_call *c);
plim_status plim__keras_pool(plim__keras_call *c);
plim_status plim__keras_pool_global(plim__keras_call *c);
plim_status plim__keras_zero_padding(plim__keras_call *c);
plim_status plim__keras_cropping(plim__keras_call *c);
plim_status plim__keras_up_sampling(plim__keras_call *c);
plim_status plim__keras_dense(plim__keras_call *c);
plim_status plim__keras_embedding(plim__keras_call *c);
plim_status plim__keras_attention(plim__keras_call *c);
plim_status plim__keras_flatten(plim__keras_call *c);
plim_status plim__keras_reshape(plim__keras_call *c);
plim_status plim__keras_permute(plim__keras_call *c);
plim_status plim__keras_repeat_vector(plim__keras_call *c);
plim_status plim__keras_activation(plim__keras_call *c);
plim_status plim__keras_relu(plim__keras_call *c);
plim_status plim__keras_leaky_relu(plim__keras_call *c);
plim_status plim__keras_thresholded_relu(plim__keras_call *c);
plim_status plim__keras_prelu(plim__keras_call *c);
plim_status plim__keras_elu(plim__keras_call *c);
plim_status plim__keras_softmax(plim__keras_call *c);
plim_status plim__keras_batch_norm(plim__keras_call *c);
plim_status plim__keras_layer_norm(plim__keras_call *c);
plim_status plim__keras_group_norm(plim__keras_call *c);
plim_status plim__keras_unit_norm(plim__keras_call *c);
plim_status plim__keras_rescaling(plim__keras_call *c);
plim_status plim__keras_normalization(plim__keras_call *c);
plim_status plim__keras_dropout(plim__keras_call *c);
plim_status plim__keras_spatial_dropout(plim__keras_call *c);
plim_status plim__keras_identity(plim__keras_call *c);  /* while it is not trained */
plim_status plim__keras_merge(plim__keras_call *c);     /* arg: a plim__keras_how */
plim_status plim__keras_concatenate(plim__keras_call *c);
plim_status plim__keras_dot(plim__keras_call *c);
plim_status plim__keras_time_distributed(plim__keras_call *c);

typedef enum plim__keras_how {
    PLIM__KERAS_ADD, PLIM__KERAS_SUBTRACT, PLIM__KERAS_MULTIPLY, PLIM__KERAS_MEAN, PLIM__KERAS_MAXIMUM, PLIM__KERAS_MINIMUM
} plim__keras_how;

#endif
