/* The ONNX reader's own header: what a file decodes to, the state of one import, and what lowering functions call.
 *
 *   wire.c         the encoding
 *   onnx_proto.c   file to structs: nodes, attributes, tensors by their place in the file
 *   onnx_tensor.c  a tensor's data: its source, or its value
 *   onnx.c         dimensions, order of the nodes, names to values, parameters
 *   onnx_save.c    a copy of the file with other data
 *   onnx_fold.c    what is known while reading, computed by the ops' own kernels
 *   onnx_ops.c     the table: op_type to a lowering function; attributes and operands for it
 *   onnx_math.c, onnx_shape.c, onnx_index.c, onnx_reduce.c, onnx_conv.c, onnx_resize.c, onnx_norm.c, onnx_loss.c, onnx_quant.c, onnx_einsum.c,
 *   onnx_rnn.c, onnx_signal.c, onnx_sample.c   the lowering functions
 *
 * All of it lives in an arena of chunks that goes when the import ends. Names are NUL-terminated copies. */
#ifndef PLIM_MODELS_ONNX_H
#define PLIM_MODELS_ONNX_H

#include "models/model.h"
#include "models/wire.h"
#include "ops/layers.h"

#define PLIM__ONNX_FOLD_BYTES (UINT64_C(1) << 20)  /* no larger value is computed while reading */
#define PLIM__ONNX_ASK_BYTES (UINT64_C(64) << 20)  /* nor larger integers read because an op asks for them */
#define PLIM__ONNX_OUTS 64u                        /* outputs of a node */

/* ---------------------------------------------------------------------------------------------- what a file holds */

typedef struct plim__onnx_chunk plim__onnx_chunk;
typedef struct plim__onnx_arena {
    plim__alloc alloc;
    plim__onnx_chunk *last;
} plim__onnx_arena;

/** Zeroed, aligned to 16; NULL with `err` filled. */
void *plim__onnx_new(plim__onnx_arena *a, uint64_t n, uint64_t size, plim_error *err);
/** `location` in the folder of `path`. */
char *plim__onnx_beside(plim__onnx_arena *a, const char *path, const char *location, plim_error *err);
void plim__onnx_arena_free(plim__onnx_arena *a);

/** A TensorProto: what it says of itself, and where its data is. */
typedef struct plim__onnx_tensor {
    const char *name;
    int64_t type; /* TensorProto.DataType */
    plim_dtype dtype;
    plim_shape shape;
    uint32_t dims;          /* how many there were: more than the rank means too many */
    uint32_t field;         /* that holds the data: raw_data, float_data ...; 0: none */
    uint64_t offset, bytes; /* its payload in the file */
    bool pieces;            /* there are several such fields */
    bool external;
    const char *location, *ext_offset, *ext_length;
} plim__onnx_tensor;

/** AttributeProto.AttributeType. */
typedef enum plim__onnx_attr_type {
    PLIM__ONNX_NONE, PLIM__ONNX_FLOAT, PLIM__ONNX_INT, PLIM__ONNX_STRING, PLIM__ONNX_TENSOR, PLIM__ONNX_GRAPH, PLIM__ONNX_FLOATS, PLIM__ONNX_INTS
} plim__onnx_attr_type;

typedef struct plim__onnx_attr {
    const char *name;
    uint32_t type; /* plim__onnx_attr_type, or one that is not read */
    double f;
    int64_t i;
    const char *s;
    plim__onnx_tensor *t;
    int64_t *ints;  uint32_t n_ints, cap_ints;
    float *floats;  uint32_t n_floats, cap_floats;
} plim__onnx_attr;

typedef struct plim__onnx_node {
    const char *name, *op, *domain;
    const char **in;       uint32_t n_in, cap_in;
    const char **out;      uint32_t n_out, cap_out;
    plim__onnx_attr *attr; uint32_t n_attr, cap_attr;
} plim__onnx_node;

typedef struct plim__onnx_dim {
    int64_t value;     /* 0 or less: unknown */
    const char *param; /* its name; NULL: none */
} plim__onnx_dim;

/** A ValueInfoProto of a tensor. */
typedef struct plim__onnx_info {
    const char *name;
    int64_t type; /* 0: not a tensor */
    uint32_t rank; /* may be more than PLIM_MAX_RANK, then not all are in dim */
    plim__onnx_dim dim[PLIM_MAX_RANK];
} plim__onnx_info;

typedef struct plim__onnx_file {
    int64_t opset; /* of the operators without a domain; 0: the file does not say */
    bool foreign;  /* operators of other domains are used, too */
    bool graph;    /* there is one */
    const char *name;
    plim__onnx_node *node;   uint32_t n_nodes, cap_nodes;
    plim__onnx_tensor *init; uint32_t n_inits, cap_inits;
    plim__onnx_info *input;  uint32_t n_inputs, cap_inputs;
    plim__onnx_info *output; uint32_t n_outputs, cap_outputs;
} plim__onnx_file;

plim_status plim__onnx_decode(plim__onnx_file *out, plim__wire *w, plim__onnx_arena *arena, plim_error *err);
/** A file that is one TensorProto. */
plim_status plim__onnx_decode_tensor(plim__onnx_tensor *out, plim__wire *w, plim__onnx_arena *arena, plim_error *err);

/* ------------------------------------------------------------------------------------------------- one import */

/** A value that is known while reading: dense, C order, in the arena. */
typedef struct plim__onnx_host {
    plim_dtype dtype;
    plim_shape shape;
    uint64_t count;
    void *data;
} plim__onnx_host;

/** What a name stands for. */
typedef struct plim__onnx_slot {
    const char *name;
    const plim__onnx_tensor *tensor; /* an initializer */
    const plim__onnx_host *host;     /* NULL: not known, or not asked for yet */
    uint32_t value;                  /* in the graph; PLIM__NONE: not there yet */
    uint32_t maker;                  /* the node; PLIM__NONE: an input or initializer, or nothing (then it is all empty) */
    bool input;
    bool apart;                      /* an input with known data, which is not computed with while reading: only who asks for it gets it */
    bool param;                      /* a float initializer with a dimension: a parameter when it is used in the graph */
} plim__onnx_slot;

typedef struct plim__onnx {
    plim__model *model;
    plim__onnx_file file;
    plim__onnx_arena arena;
    plim__wire *wire;
    plim__stat stat;
    const plim__model_options *options;
    plim__onnx_slot *slot; uint32_t n_slots;
    uint32_t *table, table_cap; /* slots by name, open addressing */
    int64_t batch;              /* the extent of the batch dimension */
    bool batch_replaced;        /* where the file had 1 */
    const char *seen_location;  /* the external file looked at last, and what it was */
    plim__stat seen;
} plim__onnx;

/** As plim__onnx_read, on any system table. */
plim_status plim__onnx_read_from(plim__model **out, const plim__os *os, const char *path, const plim__model_options *options, plim__alloc alloc,
                                 plim_error *err);

/* ---- onnx_tensor.c */
/** The dtype of TensorProto.DataType `type`. */
plim_status plim__onnx_dtype(int64_t type, plim_dtype *out, plim_error *err);
/** Where the tensor's data lies, with its identity and strides; source->path is in the arena.
 *  PLIM_E_UNSUPPORTED where it lies nowhere as an array. */
plim_status plim__onnx_source(plim__onnx *x, const plim__onnx_tensor *t, plim__source *source, plim_error *err);
/** Is the location of external data a relative path of names: nothing that leads out of the model's folder. */
bool plim__onnx_stays_inside(const char *location);
/** Reads the tensor's value. */
plim_status plim__onnx_load(plim__onnx *x, const plim__onnx_tensor *t, const plim__onnx_host **out, plim_error *err);
/** An empty value to be filled. */
plim_status plim__onnx_host_new(plim__onnx *x, plim_dtype dtype, const plim_shape *shape, plim__onnx_host **out, plim_error *err);

/* ---- onnx.c */
/** The slot's value in the model's graph, which is made now where it is not there yet. @param trainable  if it becomes a parameter now */
plim_status plim__onnx_materialise(plim__onnx *x, plim__onnx_slot *slot, bool trainable, uint32_t *v, plim_error *err);
/** What the slot is, if it is known while reading and small; NULL otherwise. Parameters are not. */
plim_status plim__onnx_known(plim__onnx *x, plim__onnx_slot *slot, const plim__onnx_host **out, plim_error *err);

/* ------------------------------------------------------------------------------------- for lowering functions
 * A failure says what is wrong; the caller puts the node's name and type before it. */

typedef struct plim__onnx_call {
    plim__onnx *x;
    const plim__onnx_node *node;
    uint32_t index;  /* of the node */
    uint32_t arg;    /* of its row */
    plim_graph *g;   /* the model's, or a scratch one while the node is folded */
    bool folding;
    plim__onnx_slot **in; /* NULL: left out */
    uint32_t n_in;
    uint32_t out[PLIM__ONNX_OUTS];        /* set one of the two for each output that the node names */
    const plim__onnx_host *host[PLIM__ONNX_OUTS];
} plim__onnx_call;

typedef struct plim__onnx_op {
    const char *type;
    plim_status (*lower)(plim__onnx_call *c, plim_error *err);
    uint32_t least, most; /* inputs; those below `least` are there */
    const char *attrs;    /* "axis:i pads:I": names and types f i s t F I that the function understands, others are refused */
    uint32_t arg;         /* for functions that serve several types */
    bool here;            /* gives known values itself, or must not be folded */
} plim__onnx_op;

/** The row of an op type; NULL: none. */
const plim__onnx_op *plim__onnx_op_of(const char *type);
/** Whether the operator means the same in operator set `opset`, an early one, as in set 7. */
bool plim__onnx_unchanged_since(const char *type, int64_t opset);
/** Fails where the row does not know the attribute, or not with this type. */
plim_status plim__onnx_check_attr(const plim__onnx_op *op, const plim__onnx_attr *a, plim_error *err);

/* ---- operands */
static inline plim__onnx_slot *plim__onnx_slot_in(const plim__onnx_call *c, uint32_t k) { return k < c->n_in ? c->in[k] : NULL; }
static inline bool plim__onnx_has(const plim__onnx_call *c, uint32_t k) { return plim__onnx_slot_in(c, k) != NULL; }
/** Is output j asked for? */
static inline bool plim__onnx_wants(const plim__onnx_call *c, uint32_t j) { return j < c->node->n_out && c->node->out[j][0] != 0; }
plim_status plim__onnx_in(plim__onnx_call *c, uint32_t k, uint32_t *v, plim_error *err);
/** The same; f16 and bf16 as f32, in which all is computed. Others that are no floats fail. */
plim_status plim__onnx_in_float(plim__onnx_call *c, uint32_t k, uint32_t *v, plim_error *err);
/** The value of input k, which has to be known while reading; `what` is its name in ONNX's documentation. */
plim_status plim__onnx_given(plim__onnx_call *c, uint32_t k, const char *what, const plim__onnx_host **out, plim_error *err);
/** The same as integers. @param out  room for `cap` */
plim_status plim__onnx_given_ints(plim__onnx_call *c, uint32_t k, const char *what, int64_t *out, uint32_t cap, uint32_t *n, plim_error *err);
plim_status plim__onnx_given_number(plim__onnx_call *c, uint32_t k, const char *what, double *out, plim_error *err);
/** Element i. */
double plim__onnx_number(const plim__onnx_host *h, uint64_t i);
int64_t plim__onnx_integer(const plim__onnx_host *h, uint64_t i);
/** Output j is `v`, converted to the dtype of input 0 where it is another. */
plim_status plim__onnx_out_like(plim__onnx_call *c, uint32_t j, uint32_t v, plim_error *err);

/* ---- attributes: the table has checked the types */
const plim__onnx_attr *plim__onnx_attr_of(const plim__onnx_call *c, const char *name);
int64_t plim__onnx_int(const plim__onnx_call *c, const char *name, int64_t otherwise);
double plim__onnx_float(const plim__onnx_call *c, const char *name, double otherwise);
const char *plim__onnx_text(const plim__onnx_call *c, const char *name, const char *otherwise);
/** Copies a list of at most `cap` integers; *n is 0 where there is none. */
plim_status plim__onnx_ints(const plim__onnx_call *c, const char *name, int64_t *out, uint32_t cap, uint32_t *n, plim_error *err);
/** A list that stands in attribute `name` or, in newer opsets, in input k. @param given  false: in neither */
plim_status plim__onnx_ints_or_input(plim__onnx_call *c, const char *name, uint32_t k, int64_t *out, uint32_t cap, uint32_t *n, bool *given,
                                     plim_error *err);
/** "attribute <name> = <value>: not supported" */
plim_status plim__onnx_refuse(const plim__onnx_call *c, const char *name, plim_error *err);
/** The dimension that `axis` names, negatives from the end; `rank` itself where `end` allows it. */
plim_status plim__onnx_axis(int64_t axis, uint32_t rank, bool end, uint32_t *out, plim_error *err);

/* ---- pieces of graph */
static inline plim_shape plim__onnx_shape(const plim__onnx_call *c, uint32_t v) { return c->g->value[v].shape; }
static inline plim_dtype plim__onnx_type(const plim__onnx_call *c, uint32_t v) { return c->g->value[v].dtype; }
/** fn of operands of one dtype, computed in that dtype's compute type and given in it. */
plim_status plim__onnx_ew(plim__onnx_call *c, plim__ew fn, const uint32_t *in, uint32_t n, uint32_t *v, plim_error *err);
plim_status plim__onnx_ew1(plim__onnx_call *c, plim__ew fn, uint32_t a, uint32_t *v, plim_error *err);
plim_status plim__onnx_ew2(plim__onnx_call *c, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v, plim_error *err);
/** a / b; integers toward zero, as ONNX has it. In onnx_math.c. */
plim_status plim__onnx_divide(plim__onnx_call *c, uint32_t a, uint32_t b, uint32_t *v, plim_error *err);
/** fn(a, number), the number in a's dtype. */
plim_status plim__onnx_ew_number(plim__onnx_call *c, plim__ew fn, uint32_t a, double number, uint32_t *v, plim_error *err);
/** A scalar constant. */
plim_status plim__onnx_constant(plim__onnx_call *c, plim_dtype dtype, double number, uint32_t *v, plim_error *err);
/** 0, 1, ... n-1 as i64, in dimension `d` of `rank`, the others of extent 1. */
plim_status plim__onnx_iota(plim__onnx_call *c, int64_t n, uint32_t rank, uint32_t d, uint32_t *v, plim_error *err);
/** The product of the extents of dimensions [from, to), checked. */
plim_status plim__onnx_product(const plim_shape *s, uint32_t from, uint32_t to, int64_t *out, plim_error *err);
/** [C] seen as [1, C, 1 ...] of rank `rank`. */
plim_status plim__onnx_per_channel(plim__onnx_call *c, uint32_t x, uint32_t rank, uint32_t *v, plim_error *err);
/** Sum or mean over the dimensions of `mask`, in x's dtype. */
plim_status plim__onnx_sum(plim__onnx_call *c, uint32_t x, uint32_t mask, bool keepdims, bool mean, uint32_t *v, plim_error *err);

/* ---- onnx_conv.c */
/** What the attributes say of a convolution of x with the weights w. */
plim_status plim__onnx_conv_of(plim__onnx_call *c, uint32_t x, uint32_t w, plim__conv *conv, plim_error *err);

/* ---- onnx_index.c */
/** x at `at` (i64, of x's rank, not longer than x elsewhere), which says where along `axis`, negatives from the end. */
plim_status plim__onnx_elements(plim__onnx_call *c, uint32_t x, uint32_t at, uint32_t axis, uint32_t *v, plim_error *err);

/* ---- onnx_fold.c */
/** Computes the constant value `v` of a graph that has nothing but constants and nodes. */
plim_status plim__onnx_evaluate(plim__onnx *x, const plim_graph *g, const uint32_t *v, uint32_t n, const plim__onnx_host **out, plim_error *err);

/* ---- lowering functions, by file; onnx_ops.c has the table */
#define PLIM__ONNX_LOWER(X) \
    X(elementwise) X(arith) X(divide) X(mod) X(power) X(variadic) X(where) X(clip) X(compare) X(isinf) X(cast) X(activation) X(prelu) \
    X(celu) X(thresholded) X(softmax) X(hardmax) X(identity) X(dropout) X(gemm) X(matmul) X(bitshift) X(reshape) \
    X(transpose) X(concat) X(split) X(slice) X(pad) X(gather) X(gather_elements) X(flatten) X(squeeze) X(unsqueeze) \
    X(expand) X(tile) X(shape) X(size) X(constant) X(constant_of_shape) X(range) X(onehot) X(trilu) X(depth_to_space) \
    X(space_to_depth) X(eyelike) X(reduce) X(argreduce) X(topk) X(cumsum) X(conv) X(conv_transpose) X(pool) X(global_pool) \
    X(resize) X(lrn) X(batch_norm) X(layer_norm) X(instance_norm) X(group_norm) X(lp_norm) X(mvn) \
    X(nll_loss) X(softmax_loss) X(quantize) X(dequantize) X(dynamic_quantize) X(conv_integer) X(matmul_integer) X(qlinear_conv) \
    X(qlinear_matmul) X(gather_nd) X(scatter_elements) X(scatter_nd) X(reverse_sequence) X(compress) X(nonzero) X(einsum) X(rnn) X(window) \
    X(dft) X(stft) X(mel_weights) X(grid_sample) X(shrink)
#define X(name) plim_status plim__onnx_lower_##name(plim__onnx_call *c, plim_error *err);
PLIM__ONNX_LOWER(X)
#undef X

#endif
