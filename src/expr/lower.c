/* Tree to graph: statements, names, calls, and the mapping over lists. One walk over the tree; every node is worth an item (lower.h).
 *
 * The recursion is as deep as the tree is high, which the parser bounds; the body of a function adds its own small tree on top. All memory comes
 * from the graph's allocator and is given back before plim__expr_build returns; the graph keeps what was added to it. */
#include "expr/lower.h"
#include "expr/expr.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------------------------- sequences */

plim_status plim__seq_new(plim__lower *l, uint32_t n, plim__item *out)
{
    PLIM_FAIL_IF(n > PLIM__MAX_ITEMS - l->n_pool, l->err, PLIM_E_INVALID, "the program's lists have more than %u elements in all", PLIM__MAX_ITEMS);
    PLIM_TRY(plim__grow(&l->g->alloc, (void **)&l->pool, &l->cap_pool, l->n_pool + n, sizeof *l->pool, l->err));
    *out = (plim__item){.kind = PLIM__ITEM_SEQ, .n = n, .id = l->n_pool};
    for (uint32_t k = 0; k < n; k++) l->pool[l->n_pool++] = (plim__item){.kind = PLIM__ITEM_NONE};
    return PLIM_OK;
}

void plim__seq_set(plim__lower *l, plim__item *seq, uint32_t k, const plim__item *x)
{
    l->pool[seq->id + k] = *x;
    seq->maps |= x->kind == PLIM__ITEM_ARRAY || x->maps;
}

plim_status plim__lower_room(plim__lower *l)
{
    PLIM_FAIL_IF(l->g->n_nodes - l->first_node > PLIM__MAX_EXPR_NODES, l->err, PLIM_E_INVALID, "the program has more than %u operations",
                 PLIM__MAX_EXPR_NODES);
    return PLIM_OK;
}

plim_status plim__rank_check(plim__lower *l, const char *what, uint32_t rank)
{
    PLIM_FAIL_IF(rank > PLIM_MAX_RANK, l->err, PLIM_E_SHAPE, "%s: the result has %u dimensions; arrays have at most %d dimensions, those of extent 1 included",
                 what, rank, PLIM_MAX_RANK);
    return PLIM_OK;
}

plim_status plim__lower_map(plim__lower *l, plim__map_fn fn, const void *ctx, const plim__item *arg, uint32_t n, plim__item *out)
{
    uint32_t count = 0;
    bool maps = false;
    for (uint32_t k = 0; k < n; k++) {
        if (!arg[k].maps) continue;
        PLIM_FAIL_IF(maps && arg[k].n != count, l->err, PLIM_E_SHAPE, "two lists of different lengths meet: %u and %u", count, arg[k].n);
        maps = true;
        count = arg[k].n;
    }
    if (!maps) return fn(l, ctx, arg, n, out);
    plim__item each[PLIM__MAX_PARAMS], result, seq;
    PLIM_TRY(plim__seq_new(l, count, &seq));
    for (uint32_t i = 0; i < count; i++) {
        for (uint32_t k = 0; k < n; k++) each[k] = arg[k].maps ? plim__seq_at(l, &arg[k], i) : arg[k];
        PLIM_TRY(plim__lower_room(l));
        PLIM_TRY(plim__lower_map(l, fn, ctx, each, n, &result));
        plim__seq_set(l, &seq, i, &result);
    }
    *out = seq;
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------- names */

plim_status plim__var_add(plim__lower *l, const char *name, uint32_t n, const plim__item *item)
{
    PLIM_FAIL_IF(l->n_vars == PLIM__MAX_VARS, l->err, PLIM_E_INVALID, "more than %d names", PLIM__MAX_VARS);
    PLIM_TRY(plim__grow(&l->g->alloc, (void **)&l->var, &l->cap_vars, l->n_vars + 1, sizeof *l->var, l->err));
    l->var[l->n_vars++] = (plim__var){.name = name, .n = n, .item = *item};
    return PLIM_OK;
}

static bool same(const char *a, uint32_t n, const char *b)
{
    return strlen(b) == n && !memcmp(a, b, n);
}

static const plim__item *find_var(const plim__lower *l, const char *name, uint32_t n)
{
    for (uint32_t i = l->n_vars; i-- > l->scope;)
        if (l->var[i].n == n && !memcmp(l->var[i].name, name, n)) return &l->var[i].item;
    return NULL;
}

/* Names that mean something on their own, unless the user gave them away. */
static bool find_builtin(const char *name, uint32_t n, plim__item *out)
{
    static const struct { const char *name; plim__item item; } table[] = {
        {"True", {.kind = PLIM__ITEM_BOOL, .i = 1}},
        {"False", {.kind = PLIM__ITEM_BOOL, .i = 0}},
        {"None", {.kind = PLIM__ITEM_NONE}},
        {"newaxis", {.kind = PLIM__ITEM_NONE}},
        {"pi", {.kind = PLIM__ITEM_FLOAT, .f = 3.141592653589793}},
        {"e", {.kind = PLIM__ITEM_FLOAT, .f = 2.718281828459045}},
        {"inf", {.kind = PLIM__ITEM_FLOAT, .f = INFINITY}},
        {"nan", {.kind = PLIM__ITEM_FLOAT, .f = NAN}},
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        if (!same(name, n, table[i].name)) continue;
        *out = table[i].item;
        return true;
    }
    *out = (plim__item){.kind = PLIM__ITEM_DTYPE};
    return plim__dtype_find(name, n, &out->dtype);
}

/* np, numpy, np.linalg: prefixes that are read over. */
static bool is_namespace(const plim__lower *l, uint32_t id)
{
    const plim__ast_node *node = &l->ast->node[id];
    const char *name = l->ast->text + node->at;
    if (node->kind == PLIM__AST_ATTR) return same(name, node->n, "linalg") && is_namespace(l, node->first);
    return node->kind == PLIM__AST_NAME && (same(name, node->n, "np") || same(name, node->n, "numpy")) && !find_var(l, name, node->n);
}

static plim_status lower_name(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    const char *name = l->ast->text + node->at;
    const plim__item *found = find_var(l, name, node->n);
    if (found) {
        *out = *found;
        return PLIM_OK;
    }
    if (find_builtin(name, node->n, out)) return PLIM_OK;
    if (plim__function_find(name, node->n))
        return plim__fail(l->err, PLIM_E_SYNTAX, "'%.*s' is a function: write %.*s(...)", (int)node->n, name, (int)node->n, name);
    return plim__fail_unknown(l, "name", name, node->n, false);
}

/* -------------------------------------------------------------------------------------------- nodes */

static plim_status lower_sequence(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    uint32_t k = 0;
    plim__item seq, x;
    PLIM_TRY(plim__seq_new(l, node->count, &seq));
    for (uint32_t c = node->first; c != PLIM__AST_NONE; c = l->ast->node[c].next, k++) {
        PLIM_TRY(plim__lower_node(l, c, &x));
        plim__seq_set(l, &seq, k, &x);
    }
    *out = seq;
    return PLIM_OK;
}

static plim_status lower_operator_node(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    plim__item in[2];
    PLIM_TRY(plim__lower_node(l, node->first, &in[0]));
    if (node->count == 2) PLIM_TRY(plim__lower_node(l, node->last, &in[1]));
    return plim__lower_operator(l, node->op, in, node->count, out);
}

static plim_status lower_index_node(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    plim__item base, subs, x;
    uint32_t k = 0;
    PLIM_TRY(plim__lower_node(l, node->first, &base));
    PLIM_TRY(plim__seq_new(l, node->count - 1, &subs));
    for (uint32_t c = l->ast->node[node->first].next; c != PLIM__AST_NONE; c = l->ast->node[c].next, k++) {
        PLIM_TRY(plim__lower_node(l, c, &x));
        plim__seq_set(l, &subs, k, &x);
    }
    if (subs.n == 1 && l->ast->node[node->last].kind == PLIM__AST_TUPLE) subs = plim__seq_at(l, &subs, 0); /* x[(1, 2)] is x[1, 2] */
    return plim__lower_index(l, &base, subs.id, subs.n, out);
}

static plim_status lower_attribute_node(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    const char *name = l->ast->text + node->at;
    if (is_namespace(l, node->first)) {
        if (find_builtin(name, node->n, out)) return PLIM_OK;
        return plim__fail_unknown(l, "name", name, node->n, false);
    }
    plim__item x;
    PLIM_TRY(plim__lower_node(l, node->first, &x));
    return plim__lower_attribute(l, name, node->n, &x, out);
}

static plim_status apply_conversion(plim__lower *l, const void *ctx, const plim__item *in, uint32_t n, plim__item *out)
{
    (void)ctx;
    const plim__args a = {.fn = plim__function_find("astype", 6), .arg = {in[0], in[1]}, .n = n};
    return plim__call_astype(l, &a, out);
}

/* f32(x) and int(n): a dtype that is called converts. */
static plim_status lower_conversion(plim__lower *l, plim_dtype dtype, const char *name, uint32_t n, uint32_t arg, plim__item *out)
{
    PLIM_FAIL_IF(arg == PLIM__AST_NONE || l->ast->node[arg].next != PLIM__AST_NONE || l->ast->node[arg].kind == PLIM__AST_KEYWORD, l->err,
                 PLIM_E_SYNTAX, "%.*s(x) converts one array", (int)n, name);
    plim__item in[2] = {{0}, {.kind = PLIM__ITEM_DTYPE, .dtype = dtype}};
    PLIM_TRY(plim__lower_node(l, arg, &in[0]));
    const bool python = same(name, n, "int") || same(name, n, "float") || same(name, n, "bool");
    if (python && plim__item_is_number(&in[0])) { /* stays a number, and weak */
        const double f = in[0].kind == PLIM__ITEM_FLOAT ? in[0].f : (double)in[0].i;
        if (dtype == PLIM_F64) *out = plim__item_float(f);
        else if (dtype == PLIM_BOOL) *out = plim__item_bool(f != 0);
        else if (in[0].kind != PLIM__ITEM_FLOAT) *out = plim__item_int(in[0].i);
        else if (f > -0x1p63 && f < 0x1p63) *out = plim__item_int((int64_t)f);
        else return plim__fail(l->err, PLIM_E_OVERFLOW, "int: %g does not fit 64 bits", f);
        return PLIM_OK;
    }
    return plim__lower_map(l, apply_conversion, NULL, in, 2, out);
}

static plim_status lower_call_node(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    const plim__ast_node *callee = &l->ast->node[node->first];
    const uint32_t args = callee->next;
    PLIM_FAIL_IF(callee->kind != PLIM__AST_NAME && callee->kind != PLIM__AST_ATTR, l->err, PLIM_E_SYNTAX, "only a function can be called");
    const char *name = l->ast->text + callee->at;
    const bool method = callee->kind == PLIM__AST_ATTR && !is_namespace(l, callee->first);
    const plim__function *fn = plim__function_find(name, callee->n);
    plim_dtype dtype;
    if (!fn && !method && plim__dtype_find(name, callee->n, &dtype)) return lower_conversion(l, dtype, name, callee->n, args, out);
    if (!fn && !method && find_var(l, name, callee->n))
        return plim__fail(l->err, PLIM_E_SYNTAX, "'%.*s' is not a function: use [ ] to take a part of it", (int)callee->n, name);
    if (!fn) return plim__fail_unknown(l, method ? "method" : "function", name, callee->n, true);
    plim__item self;
    if (method) PLIM_TRY(plim__lower_node(l, callee->first, &self));
    return plim__lower_call(l, fn, method ? &self : NULL, args, out);
}

static plim_status lower_kind(plim__lower *l, const plim__ast_node *node, plim__item *out)
{
    switch (node->kind) {
    case PLIM__AST_INT: *out = plim__item_int(node->i); return PLIM_OK;
    case PLIM__AST_FLOAT: *out = plim__item_float(node->f); return PLIM_OK;
    case PLIM__AST_STRING: *out = (plim__item){.kind = PLIM__ITEM_STRING, .n = node->n, .text = l->ast->text + node->at}; return PLIM_OK;
    case PLIM__AST_ELLIPSIS: *out = (plim__item){.kind = PLIM__ITEM_ELLIPSIS}; return PLIM_OK;
    case PLIM__AST_EMPTY: *out = (plim__item){.kind = PLIM__ITEM_NONE}; return PLIM_OK;
    case PLIM__AST_NAME: return lower_name(l, node, out);
    case PLIM__AST_SLICE:
        PLIM_TRY(lower_sequence(l, node, out));
        PLIM_FAIL_IF(out->maps, l->err, PLIM_E_UNSUPPORTED, "a slice's bounds must be integers that are known now, not arrays");
        out->kind = PLIM__ITEM_SLICE;
        return PLIM_OK;
    case PLIM__AST_TUPLE: case PLIM__AST_LIST: return lower_sequence(l, node, out);
    case PLIM__AST_UNARY: case PLIM__AST_BINARY: return lower_operator_node(l, node, out);
    case PLIM__AST_CALL: return lower_call_node(l, node, out);
    case PLIM__AST_INDEX: return lower_index_node(l, node, out);
    case PLIM__AST_ATTR: return lower_attribute_node(l, node, out);
    case PLIM__AST_KEYWORD: case PLIM__AST_ASSIGN: case PLIM__AST_RESULT: break;
    }
    return plim__fail(l->err, PLIM_E_SYNTAX, "this is not an expression");
}

plim_status plim__lower_node(plim__lower *l, uint32_t id, plim__item *out)
{
    const plim__ast_node *node = &l->ast->node[id];
    const plim_status status = lower_kind(l, node, out);
    if (status != PLIM_OK && l->err->column == 0) l->err->column = (int)node->at + 1; /* the innermost node that fails names the place */
    return status;
}

plim_status plim__lower_text(plim__lower *l, const char *text, uint32_t scope, plim__item *out)
{
    plim__ast ast;
    PLIM_TRY(plim__ast_parse(&ast, &l->g->alloc, text, l->err));
    const plim__ast *const before = l->ast;
    const uint32_t scope_before = l->scope;
    l->ast = &ast;
    l->scope = scope;
    const plim_status status = plim__lower_node(l, ast.node[ast.first].first, out);
    l->ast = before;
    l->scope = scope_before;
    if (status != PLIM_OK) l->err->column = 0; /* a place in the body means nothing to the user: the call takes the blame */
    plim__ast_free(&ast);
    return status;
}

/* --------------------------------------------------------------------------------------- statements */

typedef struct results {
    plim__expr_result *res;
    uint32_t cap, n;
} results;

static plim_status add_result(plim__lower *l, results *r, const char *name, uint32_t n, const plim__item *x)
{
    PLIM_FAIL_IF(r->n == r->cap, l->err, PLIM_E_INVALID, "the program has more than %u results", r->cap);
    plim__expr_result *res = &r->res[r->n];
    PLIM_FAIL_IF(n >= sizeof res->name, l->err, PLIM_E_INVALID, "the name '%.*s' is longer than %zu characters", 20, name, sizeof res->name - 1);
    PLIM_TRY(plim__lower_array(l, x, &res->value));
    snprintf(res->name, sizeof res->name, "%.*s", (int)n, name);
    r->n++;
    plim__value *v = &l->g->value[res->value];
    if (n && v->kind == PLIM__VALUE_NODE) snprintf(v->name, sizeof v->name, "%s", res->name);
    return PLIM_OK;
}

/* A list that maps gives one result for each array in it. */
static plim_status add_results(plim__lower *l, results *r, const char *name, uint32_t n, const plim__item *x)
{
    if (!x->maps) return add_result(l, r, name, n, x);
    for (uint32_t k = 0; k < x->n; k++) {
        char numbered[64];
        const int len = snprintf(numbered, sizeof numbered, "%.*s%u", (int)(n < 48 ? n : 48), name, k);
        const plim__item e = plim__seq_at(l, x, k);
        PLIM_TRY(add_results(l, r, numbered, (uint32_t)len, &e));
    }
    return PLIM_OK;
}

static plim_status assign(plim__lower *l, results *r, uint32_t target, const plim__item *x, bool last)
{
    const plim__ast_node *t = &l->ast->node[target];
    const char *name = l->ast->text + t->at;
    plim__item builtin;
    if (t->kind == PLIM__AST_TUPLE) {
        const bool pair = x->kind == PLIM__ITEM_ARRAY && x->n && t->count == 2;
        if (!pair && (x->kind != PLIM__ITEM_SEQ || x->n != t->count))
            return plim__fail_column(l->err, PLIM_E_SHAPE, t->at, "%u names on the left, %u values on the right", t->count,
                                     x->kind == PLIM__ITEM_SEQ ? x->n : 1);
        uint32_t k = 0;
        for (uint32_t c = t->first; c != PLIM__AST_NONE; c = l->ast->node[c].next, k++) {
            const plim__item e = pair ? plim__item_array(k ? x->n - 1 : x->id) : plim__seq_at(l, x, k);
            PLIM_TRY(assign(l, r, c, &e, last));
        }
        return PLIM_OK;
    }
    if (find_var(l, name, t->n))
        return plim__fail_column(l->err, PLIM_E_SYNTAX, t->at, "'%.*s' has a value already: names are given once", (int)t->n, name);
    if (find_builtin(name, t->n, &builtin) && (builtin.kind == PLIM__ITEM_BOOL || builtin.kind == PLIM__ITEM_NONE))
        return plim__fail_column(l->err, PLIM_E_SYNTAX, t->at, "'%.*s' cannot be assigned to", (int)t->n, name);
    PLIM_TRY(plim__var_add(l, name, t->n, x));
    return x->kind == PLIM__ITEM_ARRAY || x->maps || last ? add_results(l, r, name, t->n, x) : PLIM_OK;
}

static plim_status lower_statement(plim__lower *l, results *r, const plim__ast_node *s)
{
    plim__item x;
    PLIM_TRY(plim__lower_node(l, s->last, &x));
    if (s->kind == PLIM__AST_ASSIGN) return assign(l, r, s->first, &x, s->next == PLIM__AST_NONE);
    return add_results(l, r, "", 0, &x);
}

static plim_status lower_program(plim__lower *l, results *r, const plim__expr_input *in, uint32_t n_in)
{
    for (uint32_t i = 0; i < n_in; i++) {
        PLIM_FAIL_IF(in[i].value >= l->g->n_values, l->err, PLIM_E_INVALID, "input '%s' is not a value of this graph", in[i].name);
        const plim__item x = plim__item_array(in[i].value);
        PLIM_TRY(plim__var_add(l, in[i].name, (uint32_t)strlen(in[i].name), &x));
    }
    for (uint32_t s = l->ast->first; s != PLIM__AST_NONE; s = l->ast->node[s].next) {
        const plim_status status = lower_statement(l, r, &l->ast->node[s]);
        if (status != PLIM_OK && l->err->column == 0) l->err->column = (int)l->ast->node[s].at + 1;
        PLIM_TRY(status);
    }
    return PLIM_OK;
}

plim_status plim__expr_build(plim_graph *g, const char *text, const plim__expr_input *in, uint32_t n_in, plim__expr_result *res, uint32_t cap,
                             uint32_t *n_res, plim_error *err)
{
    plim_error mine = {0}; /* columns are set on the way out, so there must be something to set them in */
    plim_error *const e = err ? err : &mine;
    plim__ast ast;
    *n_res = 0;
    PLIM_TRY(plim__ast_parse(&ast, &g->alloc, text, e));
    plim__lower l = {.g = g, .ast = &ast, .err = e, .first_node = g->n_nodes};
    results r = {.res = res, .cap = cap};
    const plim_status status = lower_program(&l, &r, in, n_in);
    if (status == PLIM_OK) *n_res = r.n;
    plim__free(&g->alloc, l.var);
    plim__free(&g->alloc, l.pool);
    plim__ast_free(&ast);
    return status;
}
