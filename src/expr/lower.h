/* Inside the lowering: what an expression can be worth while it is being turned into a graph, and the helpers that the functions share.
 *
 * An item is either something that only exists now (a number, a tuple, a dtype, a string) or an array: the id of a value of the graph. Numbers
 * are weak, as Python's are in NumPy 2 (NEP 50): they take the dtype of the array that they meet. A sequence that holds an array maps: whatever is
 * done to it is done to each of its elements. Sequences lie in one pool; an item refers to them by index, since the pool moves when it grows. */
#ifndef PLIM_EXPR_LOWER_H
#define PLIM_EXPR_LOWER_H

#include "core/dtype.h"
#include "expr/ast.h"
#include "ops/ops.h"

#define PLIM__MAX_PARAMS 8
#define PLIM__MAX_VARS 1024
#define PLIM__MAX_LIST 4096          /* pieces of a split */
#define PLIM__MAX_ITEMS (1u << 18)   /* in all sequences of one program */
#define PLIM__MAX_EXPR_NODES 20000u  /* that one program may add to the graph */
#define PLIM__MAX_CONST_BYTES (1u << 20)

typedef enum plim__item_kind {
    PLIM__ITEM_NONE, PLIM__ITEM_BOOL, PLIM__ITEM_INT, PLIM__ITEM_FLOAT, PLIM__ITEM_STRING, PLIM__ITEM_DTYPE,
    PLIM__ITEM_ELLIPSIS,
    PLIM__ITEM_SLICE, /* three items of the pool from `id` on: integers or None */
    PLIM__ITEM_SEQ,   /* n items of the pool from `id` on */
    PLIM__ITEM_ARRAY, /* id: a value of the graph */
} plim__item_kind;

typedef struct plim__item {
    plim__item_kind kind;
    uint32_t n;    /* of a sequence or a string; of an array: 1 + the id of the second result that comes with it (topk), 0 without one */
    bool maps;     /* a sequence with an array in it */
    union {
        int64_t i; /* integers and truth values */
        double f;
        uint32_t id;
        plim_dtype dtype;
        const char *text; /* not ended by NUL */
    };
} plim__item;

typedef struct plim__var {
    const char *name; /* not ended by NUL */
    uint32_t n;
    plim__item item;
} plim__var;

typedef struct plim__lower {
    plim_graph *g;
    const plim__ast *ast; /* the text that is being lowered: the user's, or the body of a function */
    plim_error *err;
    plim__var *var;     uint32_t n_vars, cap_vars;
    uint32_t scope;     /* names below it are hidden from the body of a function */
    plim__item *pool;   uint32_t n_pool, cap_pool;
    uint32_t first_node; /* of the graph, before this program */
} plim__lower;

static inline bool plim__item_is_number(const plim__item *x) { return x->kind >= PLIM__ITEM_BOOL && x->kind <= PLIM__ITEM_FLOAT; }
static inline plim__item plim__item_array(uint32_t v) { return (plim__item){.kind = PLIM__ITEM_ARRAY, .id = v}; }
static inline plim__item plim__item_int(int64_t i) { return (plim__item){.kind = PLIM__ITEM_INT, .i = i}; }
static inline plim__item plim__item_float(double f) { return (plim__item){.kind = PLIM__ITEM_FLOAT, .f = f}; }
static inline plim__item plim__item_bool(bool b) { return (plim__item){.kind = PLIM__ITEM_BOOL, .i = b}; }
/** "an array", "a tuple" ... for messages. */
const char *plim__item_text(const plim__item *x);
bool plim__item_is_text(const plim__item *x, const char *text);

/* Copies, because adding to the graph moves its arrays. */
static inline plim_shape plim__shape_of(const plim__lower *l, uint32_t v) { return l->g->value[v].shape; }
static inline plim_dtype plim__dtype_of(const plim__lower *l, uint32_t v) { return l->g->value[v].dtype; }

/* ---- lower.c */
/** Room for a sequence of n items, all None. */
plim_status plim__seq_new(plim__lower *l, uint32_t n, plim__item *out);
/** Sets element k of `seq` and keeps `seq->maps` true to it. */
void plim__seq_set(plim__lower *l, plim__item *seq, uint32_t k, const plim__item *x);
static inline plim__item plim__seq_at(const plim__lower *l, const plim__item *seq, uint32_t k) { return l->pool[seq->id + k]; }

/** Fails when the program has added more nodes than it may. */
plim_status plim__lower_room(plim__lower *l);
/** Fails when a result would have more than PLIM_MAX_RANK dimensions. */
plim_status plim__rank_check(plim__lower *l, const char *what, uint32_t rank);

typedef plim_status (*plim__map_fn)(plim__lower *l, const void *ctx, const plim__item *arg, uint32_t n, plim__item *out);
/** fn(arg...), or where some of the n (at most PLIM__MAX_PARAMS) arguments map: the sequence of fn over their elements, side by side. */
plim_status plim__lower_map(plim__lower *l, plim__map_fn fn, const void *ctx, const plim__item *arg, uint32_t n, plim__item *out);
plim_status plim__lower_node(plim__lower *l, uint32_t node, plim__item *out);
/** Evaluates an expression of the language itself (the default of a parameter, the body of a function) with the variables from `scope` on. */
plim_status plim__lower_text(plim__lower *l, const char *text, uint32_t scope, plim__item *out);
plim_status plim__var_add(plim__lower *l, const char *name, uint32_t n, const plim__item *item);

/* ---- operators.c */
/** Elementwise `fn` with NumPy's dtype rules. Numbers alone give a number. */
plim_status plim__lower_ew(plim__lower *l, plim__ew fn, const plim__item *in, uint32_t n, plim__item *out);
/** As plim__lower_ew, for two arrays of the graph. */
plim_status plim__lower_ew2(plim__lower *l, plim__ew fn, uint32_t a, uint32_t b, uint32_t *v);
plim_status plim__lower_ew1(plim__lower *l, plim__ew fn, uint32_t a, uint32_t *v);
/** An operator as it is written, mapped over lists. */
plim_status plim__lower_operator(plim__lower *l, plim__token_kind op, const plim__item *in, uint32_t n, plim__item *out);
/** What a mean, or anything else that divides, of `t` is given in: floats stay what they are, integers and bool are f64. */
static inline plim_dtype plim__dtype_of_mean(plim_dtype t) { return plim__dtype_is_float(t) ? t : PLIM_F64; }
/** The array that an item is on its own: i64, f64 or bool for numbers and for (nested) sequences of them. */
plim_status plim__lower_array(plim__lower *l, const plim__item *x, uint32_t *v);
/** A number as a constant of rank 0; fails when an integer does not fit `dtype`. */
plim_status plim__lower_const(plim__lower *l, const plim__item *x, plim_dtype dtype, uint32_t *v);
/** The dtype that all of n items agree on, numbers being weak. */
plim_status plim__lower_promote(plim__lower *l, const plim__item *in, uint32_t n, plim_dtype *out);
/** numpy.matmul, with a dtype as promoted. */
plim_status plim__lower_matmul(plim__lower *l, uint32_t a, uint32_t b, uint32_t *v);

/* ---- subscript.c */
/** base[sub...]; `sub` lies in the pool from `first` on. */
plim_status plim__lower_index(plim__lower *l, const plim__item *base, uint32_t first, uint32_t n, plim__item *out);
/** x with dimension `axis` cut to start, start + step, ... (count of them). */
plim_status plim__lower_slice(plim__lower *l, uint32_t x, uint32_t axis, int64_t start, int64_t step, int64_t count, uint32_t *v);
/** x.name, mapped over lists. */
plim_status plim__lower_attribute(plim__lower *l, const char *name, uint32_t n, const plim__item *x, plim__item *out);

/* ---- functions.c */
typedef struct plim__function plim__function;

/** The arguments of one call, bound to the parameters. */
typedef struct plim__args {
    const plim__function *fn;
    plim__item arg[PLIM__MAX_PARAMS];
    uint32_t n;
} plim__args;

typedef plim_status (*plim__lower_fn)(plim__lower *l, const plim__args *a, plim__item *out);

typedef enum plim__function_flag {
    PLIM__FUNCTION_LIST = 1,     /* takes a list as it is; others are mapped over it */
    PLIM__FUNCTION_VARIADIC = 2, /* f(x, 1, 2) is f(x, (1, 2)) */
    /* Of a body, so that nothing on the way overflows or loses digits that the result can hold: */
    PLIM__FUNCTION_WIDE = 4,     /* its arrays x and y are converted first: f16 and bf16 to f32, integers and bool to f64 */
    PLIM__FUNCTION_ROUNDED = 8,  /* the result is converted to the float of x, as sqrt(x) has it: f16 for i8 */
    PLIM__FUNCTION_AVERAGED = 16, /* the result is converted to the dtype of mean(x): f64 for integers */
} plim__function_flag;

struct plim__function {
    const char *name, *params, *group, *help;
    plim__lower_fn lower;
    const char *body;  /* instead of `lower`: an expression over the parameters */
    uint32_t data;     /* for `lower`: which of its family */
    uint32_t flags;
};

/** The row of a name or an alias; NULL where there is none. */
const plim__function *plim__function_find(const char *name, uint32_t n);
/** Fails, naming the nearest function, variable or dtype. */
plim_status plim__fail_unknown(plim__lower *l, const char *what, const char *name, uint32_t n, bool functions);
/** Calls a row; the arguments are nodes of the tree from `first_arg` on, after `self` (a method's object; NULL: none). */
plim_status plim__lower_call(plim__lower *l, const plim__function *fn, const plim__item *self, uint32_t first_arg, plim__item *out);
/** A dtype by name, with NumPy's aliases; text not ended by NUL. */
bool plim__dtype_find(const char *name, uint32_t n, plim_dtype *out);

/* Arguments as what the function needs; each fails with a message that names the function and the parameter. */
bool plim__arg_is_none(const plim__args *a, uint32_t k);
plim_status plim__arg_array(plim__lower *l, const plim__args *a, uint32_t k, uint32_t *v);
plim_status plim__arg_int(plim__lower *l, const plim__args *a, uint32_t k, int64_t *out);
plim_status plim__arg_float(plim__lower *l, const plim__args *a, uint32_t k, double *out);
plim_status plim__arg_bool(plim__lower *l, const plim__args *a, uint32_t k, bool *out);
plim_status plim__arg_dtype(plim__lower *l, const plim__args *a, uint32_t k, plim_dtype none, plim_dtype *out);
/** An axis in [0, rank), counted from the end where negative. */
plim_status plim__arg_axis(plim__lower *l, const plim__args *a, uint32_t k, uint32_t rank, uint32_t *out);
/** None (all), an axis, or a tuple of them without repeats, as a mask; order[] as written, *n of them. `order` may be NULL. */
plim_status plim__arg_axes(plim__lower *l, const plim__args *a, uint32_t k, uint32_t rank, uint32_t *mask, uint32_t *order, uint32_t *n);
/** An integer, or a sequence of at most `cap` of them. */
plim_status plim__arg_ints(plim__lower *l, const plim__args *a, uint32_t k, int64_t *out, uint32_t cap, uint32_t *n);
/** One of the words of `words` ("constant edge reflect"), as its index. */
plim_status plim__arg_word(plim__lower *l, const plim__args *a, uint32_t k, const char *const *words, uint32_t n_words, uint32_t *out);
/** "mean: axis" for messages; `buf` has 64 bytes. */
const char *plim__arg_name(const plim__args *a, uint32_t k, char *buf);

/* ---- one lowering per family of rows */
/* reductions.c */
plim_status plim__call_sum(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_mean(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_var(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_extreme(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_truth(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_arg_extreme(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_norm(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_histogram(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_quantile(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_cumulative(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_vecdot(plim__lower *l, const plim__args *a, plim__item *out);
/* shaping.c */
plim_status plim__call_transpose(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_moveaxis(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_reshape(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_squeeze(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_expand_dims(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_broadcast_to(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_concat(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_flip(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_roll(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_tile(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_repeat(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_pad(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_take(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_diff(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_split(plim__lower *l, const plim__args *a, plim__item *out);
/** reshape in which one dimension may be -1. */
plim_status plim__reshape_to(plim__lower *l, uint32_t x, const int64_t *dim, uint32_t n, uint32_t *v);
/** Pieces of any dtypes joined along an axis. */
plim_status plim__concat_of(plim__lower *l, const uint32_t *piece, uint32_t n, uint32_t axis, uint32_t *v);
/* products.c */
plim_status plim__call_astype(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_elementwise(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_nan_to_num(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_clip(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_dot(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_tensordot(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_box(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_conv(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_convolve(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_sort(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_unique(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_topk(plim__lower *l, const plim__args *a, plim__item *out);
/* constants.c */
/** The constant 0, 1, ... n - 1 in i64; n * 8 is at most PLIM__MAX_CONST_BYTES. */
plim_status plim__lower_iota(plim__lower *l, int64_t n, uint32_t *v);
plim_status plim__call_full(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_full_like(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_arange(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_linspace(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_eye(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_asarray(plim__lower *l, const plim__args *a, plim__item *out);
plim_status plim__call_len(plim__lower *l, const plim__args *a, plim__item *out);

#endif
