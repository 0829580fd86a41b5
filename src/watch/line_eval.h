/* The inside of line_needs.c, for its table of functions in line_calls.c. */
#ifndef PLIM_WATCH_LINE_EVAL_H
#define PLIM_WATCH_LINE_EVAL_H

#include "watch/line_needs.h"

enum { PLIM__LINE_POOL = 64, PLIM__LINE_ARGS = 8, PLIM__LINE_WORDS = 8 };

typedef plim__line_value plim__line_args_array[PLIM__LINE_ARGS];

/* A line being gone through. Memory that it makes is a temporary with a number; how often each is referred to is counted, as the interpreter does. */
typedef struct plim__line {
    const char *p; /* what is still to be read */
    const plim__line_names *names;
    uint64_t asked; /* the request that was made, for what is as large as a file says */
    bool unknown;  /* something in the line is not known: all that follows is nothing */
    uint64_t live; /* of temporaries */
    struct {
        uint64_t bytes;
        uint32_t references;
    } temp[PLIM__LINE_TEMPS];
    uint64_t before[PLIM__LINE_TEMPS];       /* what was live before each was made, */
    uint64_t large_before[PLIM__LINE_TEMPS]; /* and of that in blocks that are recorded */
    uint32_t n_temps;
    uint32_t blurred_after; /* temporaries: from then on the BLAS library has buffers of its own in use, of sizes that are not known. 0: none */
    plim__line_value pool[PLIM__LINE_POOL]; /* items of lists, and what methods are called of */
    uint32_t n_pool;
} plim__line;

typedef struct plim__line_args {
    plim__line_value plain[PLIM__LINE_ARGS];
    uint32_t n;
    struct {
        char name[24];
        plim__line_value value;
    } word[PLIM__LINE_WORDS];
    uint32_t n_words;
} plim__line_args;

plim__line_value plim__line_fail(plim__line *l);
/** A new array in one piece. Fills type, each, c_order from what is given; its memory is a temporary. */
plim__line_value plim__line_array(plim__line *l, const uint64_t *dim, uint32_t ndim, char type, uint32_t each);
/** Memory that is no array's. @return the temporary */
uint32_t plim__line_take(plim__line *l, uint64_t bytes);
/** One reference less to what a value holds. */
void plim__line_drop(plim__line *l, const plim__line_value *v);
uint64_t plim__line_bytes(const plim__line_value *v);
/** Type of a result of both, scalars of Python giving way. False: it is not known. */
bool plim__line_promote(const plim__line_value *a, const plim__line_value *b, char *type, uint32_t *each);
/** The shape of both. False: they do not go together. */
bool plim__line_broadcast(const plim__line_value *a, const plim__line_value *b, uint64_t *dim, uint32_t *ndim);
/** Shape from a whole number or a list of them. */
bool plim__line_shape(const plim__line *l, const plim__line_value *v, uint64_t *dim, uint32_t *ndim);
/** An operator, as '+', '/' or '<'; drops both. */
plim__line_value plim__line_binary(plim__line *l, char op, plim__line_value a, plim__line_value b);
/** The type that a value stands for: np.float32, 'f4'. */
bool plim__line_dtype(const plim__line_value *v, char *type, uint32_t *each);
/** Calls the function or method of that name; the arguments are dropped by whoever calls. @param self  NULL: a function of NumPy or Python */
plim__line_value plim__line_call(plim__line *l, const char *name, const plim__line_value *self, plim__line_args *args);

#endif
