/* The graph: values and nodes in flat arrays, dense ids, single assignment. Built by plim__graph_apply, which infers and
 * checks at once, so that an ill-formed graph cannot exist: a node's inputs have smaller ids than its outputs, hence no cycles.
 * Equal applications give the same node: common subexpressions are one. */
#ifndef PLIM_GRAPH_GRAPH_H
#define PLIM_GRAPH_GRAPH_H

#include "core/alloc.h"
#include "core/shape.h"

#define PLIM__NONE UINT32_MAX
#define PLIM__MAX_OUT 3

/** Where an input is between one run of a program and the next. */
typedef enum plim__stay {
    PLIM__STAY_FILE,   /* in its file; another run may read another one */
    PLIM__STAY_MAY,    /* the same in every run, or a state: the planner may keep it in memory */
    PLIM__STAY_MEMORY, /* in memory, where whoever runs the program sets it */
} plim__stay;

/** An array in a file: what the formats' readers find out and the runner reads by region. */
typedef struct plim__source {
    plim__stay stay;
    char *path;                     /* owned by the graph; "": not bound to a file yet, enough for a plan */
    uint64_t offset;                /* of element [0,...,0] in the file */
    int64_t stride[PLIM_MAX_RANK];  /* elements between neighbours in each dimension of the value, as they lie in the file */
    bool swap;                      /* bytes of an element are in the other order */
    bool made;                      /* the file has it in another form: whoever runs the program makes this one of it */
    uint64_t rows;                  /* 0, or: the file has so many rows, and whoever runs the program picks those of dimension 0 */
    uint64_t file_bytes, inode, device; /* as it was when it was opened: a change is noticed */
    int64_t mtime_ns;
} plim__source;

typedef enum plim__value_kind {
    PLIM__VALUE_FILE,  /* an input: `source` */
    PLIM__VALUE_CONST, /* `data`, dense C order, owned by the graph */
    PLIM__VALUE_NODE,  /* made by `node` */
} plim__value_kind;

typedef struct plim__value {
    plim__value_kind kind;
    plim_dtype dtype;
    plim_shape shape;
    uint64_t bytes;
    uint32_t node, out; /* producer and which of its outputs */
    uint32_t source;    /* index into plim_graph.source */
    const void *data;
    char name[48];      /* the user's name for it, or the op's */
} plim__value;

/** Parameters of a node; each op says in ops.h which it uses. Unused ones are zero: nodes are compared bytewise. */
typedef struct plim__attr {
    uint32_t kind;   /* a sub-operation: an elementwise function, a reduction, an edge mode */
    uint32_t mask;   /* a set of dimensions, bit d for dimension d */
    int64_t i[3 * PLIM_MAX_RANK];
    double f[4];
} plim__attr;

typedef struct plim__node {
    uint32_t op;
    uint32_t n_in, n_out;
    uint32_t *in; /* value ids, owned by the graph */
    uint32_t out[PLIM__MAX_OUT];
    plim__attr attr;
    uint32_t tag;  /* whose part of the program it is: a layer's number; for reports only, equal nodes may differ in it */
    bool backward; /* part of a gradient */
} plim__node;

/** What a program carries from one run to the next: afterwards `out` takes the place of `in`, an input of the same type. */
typedef struct plim__state {
    uint32_t in, out;
} plim__state;

typedef struct plim__output {
    uint32_t value;
    char name[48];
    char *path;     /* NULL: kept in memory; "": goes to a file that is not known yet, enough for a plan */
    uint32_t count; /* output that says how many rows of this one hold data (its shape is a bound), or PLIM__NONE */
    bool hidden;    /* such a count: needed by the run, not shown as a result */
} plim__output;

typedef struct plim_graph {
    plim__alloc alloc;
    plim__value *value;   uint32_t n_values, cap_values;
    plim__node *node;     uint32_t n_nodes, cap_nodes;
    plim__source *source; uint32_t n_sources, cap_sources;
    plim__output *output; uint32_t n_outputs, cap_outputs;
    plim__state *state;   uint32_t n_states, cap_states;
    uint32_t tag;          /* of the nodes that are made from now on */
    bool backward;
    uint32_t *seen;       uint32_t cap_seen; /* open-addressed table of nodes by what they are: equal applications are found, not searched */
} plim_graph;

/** Makes an input's file another one; what it is to the program stays. @param path  owned from now on; the one before is the caller's to free */
static inline void plim__source_rebind(plim__source *s, const plim__source *to, char *path)
{
    const plim__source was = *s;
    *s = *to;
    s->path = path;
    s->stay = was.stay;
    s->made = was.made;
}

plim_status plim__graph_new(plim_graph **out, plim__alloc alloc, plim_error *err);
void plim__graph_free(plim_graph **g);

/** Adds an input. `source.path` is copied. */
plim_status plim__graph_file(plim_graph *g, const char *name, plim_dtype dtype, const plim_shape *shape, const plim__source *source,
                             uint32_t *out, plim_error *err);
/** Adds a constant; `data` (dense, C order) is copied. */
plim_status plim__graph_const(plim_graph *g, plim_dtype dtype, const plim_shape *shape, const void *data, uint32_t *out, plim_error *err);
/** An input or a constant of another graph. @param out  untouched where a node makes the value */
plim_status plim__graph_copy_value(plim_graph *g, const plim_graph *from, uint32_t v, uint32_t *out, plim_error *err);
/** Applies op `op` (an id of ops.h). @param out  one value id per output of the op; may be NULL where it is not wanted */
plim_status plim__graph_apply(plim_graph *g, uint32_t op, const uint32_t *in, uint32_t n_in, const plim__attr *attr,
                              uint32_t out[PLIM__MAX_OUT], plim_error *err);
/** Declares `value` a result. @param path  copied; NULL: kept in memory */
plim_status plim__graph_output(plim_graph *g, uint32_t value, const char *name, const char *path, plim_error *err);
/** The same for a result whose length is known only after the run: `count` (an i64 of rank 0) will say how many of value's rows hold data. */
plim_status plim__graph_output_counted(plim_graph *g, uint32_t value, uint32_t count, const char *name, const char *path, plim_error *err);
/** Declares that `out` takes the place of the input `in` after a run. */
plim_status plim__graph_state(plim_graph *g, uint32_t in, uint32_t out, plim_error *err);

#endif
