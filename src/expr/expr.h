/* The array language: text to graph. NumPy's names, broadcasting and dtype rules; docs/language.md is the reference.
 *
 * Statements are separated by ';' or newlines: `name = expression`, and the last may be a bare expression. */
#ifndef PLIM_EXPR_EXPR_H
#define PLIM_EXPR_EXPR_H

#include "graph/graph.h"

/** A name that the text may use, and the value of the graph behind it. */
typedef struct plim__expr_input {
    const char *name;
    uint32_t value;
} plim__expr_input;

/** A statement's value. */
typedef struct plim__expr_result {
    char name[48];
    uint32_t value;
} plim__expr_result;

/** Adds the nodes of `text` to `g` and says what the statements gave.
 *
 *  Results come in order, one for each name that is assigned; the bare expression at the end has the name "". A list of n arrays gives n results,
 *  name0, name1, ... A name for a plain number, tuple, string or dtype is no result, unless its statement is the last.
 *  A result may be a constant or an input of the graph.
 *  @param in     names that exist; they cannot be assigned again
 *  @param res    room for `cap` results; more are PLIM_E_INVALID
 *  @param err    err->column is the byte in `text`, counted from 1, of what is wrong: for PLIM_E_SYNTAX the token, for PLIM_E_TYPE, PLIM_E_SHAPE and
 *                the others the operator or the name of the function
 *  On failure the graph may have gained nodes that nothing uses. */
plim_status plim__expr_build(plim_graph *g, const char *text, const plim__expr_input *in, uint32_t n_in, plim__expr_result *res, uint32_t cap,
                             uint32_t *n_res, plim_error *err);

/** A function of the language, for help texts: "mean", "x, axis=None, keepdims=False, dtype=None", "reductions", "the arithmetic mean". */
typedef struct plim__expr_function {
    const char *name, *params, *group, *help;
} plim__expr_function;

/** Functions in the order of the reference, by index from 0. @return false past the last */
bool plim__expr_function_at(uint32_t index, plim__expr_function *out);
/** Other names of functions ("amax", "max"), by index from 0. @return false past the last */
bool plim__expr_alias_at(uint32_t index, const char **alias, const char **name);

#endif
