/* The contract between an op and everything else: one row of functions per op (ops.h lists the rows).
 *
 * Axes. An op's axes are its loop nest, declared. Axis a has an extent and a kind. Dimension d of input k reads, for one
 * iteration i of the axis that indexes it,
 *
 *     [ floor((stride*i + offset) / div) , + window )          clamped into the input's extent, never empty
 *
 * and for axis -1 the fixed interval [offset, offset + window). A dimension of an output is indexed by one axis with stride 1, or
 * by none (-1: always whole, such as the bins of a histogram).
 *
 * Kinds. PARALLEL: iterations are independent. SUM, MAX, MIN, MERGE: iterations combine into the outputs, which therefore do
 * not carry the axis; `init` sets the neutral element, `run` adds a part, `merge` combines two partial outputs. SCAN: iterations must be
 * run in order; output 0 carries the axis, output 1 (if any) is the carry and does not: it behaves like a MERGE output without merge.
 * WHOLE: cannot be cut; an output may be indexed by it.
 *
 * So one function answers "which region of each input does this region of the output need": plim__region_reads. */
#ifndef PLIM_GRAPH_OP_H
#define PLIM_GRAPH_OP_H

#include "graph/graph.h"
#include "kernels/view.h"

#define PLIM__MAX_AXES (PLIM_MAX_RANK + 4)

typedef enum plim__axis_kind {
    PLIM__PARALLEL, PLIM__SUM, PLIM__MAX, PLIM__MIN, PLIM__MERGE, PLIM__SCAN, PLIM__WHOLE
} plim__axis_kind;

static inline bool plim__axis_reduces(plim__axis_kind k) { return k >= PLIM__SUM && k <= PLIM__MERGE; }
/** Do the bits of the result depend on how the axis is cut? Sums are rounded in another order. */
static inline bool plim__axis_rounds(plim__axis_kind k) { return k == PLIM__SUM || k == PLIM__MERGE; }

typedef struct plim__axis {
    int64_t extent;
    plim__axis_kind kind;
} plim__axis;

typedef struct plim__index {
    int32_t axis; /* -1: fixed [offset, offset + window) */
    int64_t stride, offset, div, window;
} plim__index;

typedef struct plim__axes {
    uint32_t n;
    plim__axis axis[PLIM__MAX_AXES];
    int8_t out[PLIM__MAX_OUT][PLIM_MAX_RANK]; /* the axis of each output dimension, -1: none */
} plim__axes;

/** Type of an output, from `infer`. */
typedef struct plim__type {
    plim_dtype dtype;
    plim_shape shape;
} plim__type;

/** One call of a kernel: a part of the node's loop nest, and the boxes of its operands. An input box holds at least what the
 *  part reads; an output box is exactly what it writes (for reduced outputs: the box that it combines into). */
typedef struct plim__call {
    const plim_graph *graph;
    const plim__node *node;
    const plim__view *in;
    const plim__view *out;
    const plim__range *axis; /* the part: one range per axis of the node */
    void *scratch;           /* as many bytes as the row's `scratch` said, 64-byte aligned */
    uint32_t threads;        /* 1 for a serial row; a pool row may use plim__parallel with this many */
    bool fresh;              /* the outputs hold nothing yet, though an axis reduces: `run` sets them (PLIM__OP_SETS) */
} plim__call;

typedef enum plim__op_flag {
    PLIM__OP_POOL = 1,    /* the kernel uses the pool itself: it is called from one thread with as large a part as there is */
    PLIM__OP_CHEAP = 2,   /* making the value again costs less than storing it in a file (elementwise, shape) */
    PLIM__OP_INPLACE = 4, /* the output may lie exactly on an input that is read by element: each element is read before it is written (plan/inplace.c) */
    PLIM__OP_CALLER = 8,  /* the caller of the runner computes it: a run stops before it (plim__run_next) */
    PLIM__OP_SAME_ORDER = 128, /* output 0 is input 0 with another shape: all of it on all of the input, nothing has to be done */
    PLIM__OP_UPDATE = 32, /* an output that takes the place of a state may lie exactly on it: every element is read before it is written */
    PLIM__OP_SETS = 64,   /* `run` sets outputs that hold nothing yet: `init` need not be called before it */
    PLIM__OP_VIEW = 16,   /* output 0 has no elements of its own, only another way to look at input 0's; for reports: plans copy, but for PLIM__OP_SAME_ORDER */
} plim__op_flag;

/** What a row's `grad` is given and what it gives. It may add nodes: the graph's arrays move, so take nothing from them by pointer across that. */
typedef struct plim__gradient {
    plim_graph *graph;
    uint32_t node;
    const uint32_t *dout; /* per output: the gradient with respect to it, or PLIM__NONE if nothing depends on it */
    const bool *want;     /* per input: is its gradient needed */
    uint32_t *din;        /* per input: set where wanted; PLIM__NONE stays where it is zero everywhere */
    plim_error *err;
} plim__gradient;

/** Which kernels a node runs on, and what one iteration of its nest is to them, in the unit of that family's rate: bytes,
 *  elements or floating point operations (plim_kernel). It describes the op; how fast that is, a plim_machine says. */
typedef struct plim__work {
    plim_kernel kernel;
    double amount; /* above 0 */
} plim__work;

typedef struct plim__op_row {
    const char *name;
    uint32_t flags;
    /** Checks inputs and attributes, fills types and n->n_out. n->in and n->attr are set; may normalise n->attr. */
    plim_status (*infer)(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err);
    void (*axes)(const plim_graph *g, const plim__node *n, plim__axes *axes);
    void (*reads)(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK]);
    /** Scratch bytes that a call over a part with these axis lengths needs (an upper bound, monotone in every length). NULL: none. */
    uint64_t (*scratch)(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads);
    void (*init)(const plim__call *c);  /* NULL: no axis reduces */
    void (*run)(const plim__call *c);
    void (*merge)(const plim__call *c); /* c->in[j] is a partial output j, merged into c->out[j]; NULL: no axis reduces */
    /** Work of one iteration of the nest. Every row has it. */
    plim__work (*work)(const plim_graph *g, const plim__node *n);
    /** Adds the gradient of some scalar with respect to the inputs, given that with respect to the outputs (ops/autodiff.h). NULL: none passes. */
    plim_status (*grad)(plim__gradient *d);
} plim__op_row;

/** The row of an op id (ops.h). */
const plim__op_row *plim__op_row_of(uint32_t op);

/* ---- region.c ---- */
/** The interval of a dimension of extent `extent` that `index` reads for the axis interval `r` (not empty). */
plim__range plim__index_range(const plim__index *index, const plim__range *axis_ranges, int64_t extent);
/** Which region of input k does the part `axis` of node n need. */
void plim__region_reads(const plim_graph *g, const plim__node *n, uint32_t k, const plim__range *axis, plim__region *out);
/** The box of output j that belongs to the part `axis`. */
void plim__region_writes(const plim_graph *g, const plim__node *n, const plim__axes *axes, uint32_t j, const plim__range *axis, plim__region *out);

static inline const plim__value *plim__in(const plim_graph *g, const plim__node *n, uint32_t k) { return &g->value[n->in[k]]; }
static inline const plim__value *plim__out(const plim_graph *g, const plim__node *n, uint32_t j) { return &g->value[n->out[j]]; }

#endif
