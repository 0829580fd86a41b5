/* Tokens to tree: recursive descent, with precedence climbing for the binary operators (Richards 1979; Python's own table of precedences).
 *
 *     program    = { statement sep }                 sep: ';' or a newline
 *     statement  = targets '=' list | list           the second form only last
 *     list       = binary { ',' binary } [',']       a tuple where there is a comma
 *     binary     = unary { operator unary }          by precedence, left associative; comparisons do not chain
 *     unary      = ('-' | '+' | '~') unary | power
 *     power      = postfix [ '**' unary ]            so -x**2 is -(x**2) and 2**-1 works
 *     postfix    = atom { '.' name | '(' arguments ')' | '[' subscripts ']' }
 *     atom       = number | string | name | '...' | '(' list ')' | '[' list ']'
 *
 * Every cycle of the recursion passes `unary`, which counts: the stack is bounded by PLIM__AST_MAX_DEPTH. The tree is owned by the caller's
 * plim__ast; nodes are appended to one array. */
#include "expr/ast.h"

#include <stdio.h>
#include <string.h>

typedef struct parser {
    plim__ast *ast;
    plim__lexer lexer;
    plim__token now;
    uint32_t depth;
    plim_error *err;
} parser;

static plim_status parse_list(parser *p, plim__token_kind until, uint32_t *out);
static plim_status parse_unary(parser *p, uint32_t *out);

/* ------------------------------------------------------------------------------------------------- tree */

static plim_status node_new(parser *p, plim__ast_kind kind, const plim__token *t, uint32_t *out)
{
    plim__ast *a = p->ast;
    if (a->n == PLIM__AST_MAX_NODES)
        return plim__fail_column(p->err, PLIM_E_SYNTAX, t->at, "the expression has more than %d parts", PLIM__AST_MAX_NODES);
    PLIM_TRY(plim__grow(&a->alloc, (void **)&a->node, &a->cap, a->n + 1, sizeof *a->node, p->err));
    a->node[a->n] = (plim__ast_node){
        .kind = kind, .op = t->kind, .at = t->at, .n = t->n,
        .first = PLIM__AST_NONE, .last = PLIM__AST_NONE, .next = PLIM__AST_NONE, .height = 1,
    };
    if (t->kind == PLIM__TOKEN_INT) a->node[a->n].i = t->i;
    if (t->kind == PLIM__TOKEN_FLOAT) a->node[a->n].f = t->f;
    *out = a->n++;
    return PLIM_OK;
}

static plim_status node_append(parser *p, uint32_t parent, uint32_t child)
{
    plim__ast_node *a = &p->ast->node[parent], *c = &p->ast->node[child];
    if (a->first == PLIM__AST_NONE)
        a->first = child;
    else
        p->ast->node[a->last].next = child;
    a->last = child;
    a->count++;
    if (c->height >= a->height) a->height = c->height + 1;
    if (a->height > PLIM__AST_MAX_HEIGHT)
        return plim__fail_column(p->err, PLIM_E_SYNTAX, a->at, "the expression is more than %d operations deep: give parts of it names",
                                 PLIM__AST_MAX_HEIGHT);
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------- messages */

static plim_status next(parser *p)
{
    return plim__lex(&p->lexer, &p->now, p->err);
}

static bool now_is(const parser *p, const char *name)
{
    return p->now.kind == PLIM__TOKEN_NAME && p->now.n == strlen(name) && !memcmp(p->ast->text + p->now.at, name, p->now.n);
}

static plim_status fail_expected(parser *p, const char *what)
{
    const plim__token *t = &p->now;
    if (t->kind == PLIM__TOKEN_END || t->kind == PLIM__TOKEN_SEPARATOR)
        return plim__fail_column(p->err, PLIM_E_SYNTAX, t->at, "expected %s, but the %s ends here", what,
                                 t->kind == PLIM__TOKEN_END ? "text" : "statement");
    return plim__fail_column(p->err, PLIM_E_SYNTAX, t->at, "expected %s, not '%.*s'", what, (int)(t->n < 40 ? t->n : 40), p->ast->text + t->at);
}

/* Words of Python that have another form here. */
static plim_status check_word(parser *p)
{
    static const struct { const char *word, *hint; } words[] = {
        {"and", "write (a) & (b): 'and' asks for one truth value of a whole array"},
        {"or", "write (a) | (b): 'or' asks for one truth value of a whole array"},
        {"not", "write ~(a): 'not' asks for one truth value of a whole array"},
        {"if", "write where(condition, a, b)"},
        {"else", "write where(condition, a, b)"},
        {"in", "there are no loops and no membership tests"},
        {"is", "write =="},
        {"for", "there are no loops: functions work on whole arrays"},
        {"lambda", "functions cannot be defined"},
        {"def", "functions cannot be defined"},
        {"import", "everything is built in"},
    };
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (now_is(p, words[i].word))
            return plim__fail_column(p->err, PLIM_E_SYNTAX, p->now.at, "'%s' is not an operator here: %s", words[i].word, words[i].hint);
    return PLIM_OK;
}

static plim_status expect(parser *p, plim__token_kind kind, const char *what)
{
    PLIM_TRY(check_word(p));
    return p->now.kind == kind ? next(p) : fail_expected(p, what);
}

/* ------------------------------------------------------------------------------------------ expressions */

static plim_status parse_bracketed(parser *p, uint32_t *out)
{
    const bool list = p->now.kind == PLIM__TOKEN_LBRACKET;
    const plim__token open = p->now;
    const plim__token_kind close = list ? PLIM__TOKEN_RBRACKET : PLIM__TOKEN_RPAREN;
    PLIM_TRY(next(p));
    if (p->now.kind == close) {
        PLIM_TRY(node_new(p, list ? PLIM__AST_LIST : PLIM__AST_TUPLE, &open, out));
        return next(p);
    }
    uint32_t inner;
    PLIM_TRY(parse_list(p, close, &inner));
    PLIM_TRY(expect(p, close, list ? "',' or ']'" : "an operator or ')'"));
    plim__ast_node *node = &p->ast->node[inner];
    const bool comma = node->kind == PLIM__AST_TUPLE && node->op == PLIM__TOKEN_COMMA;
    if (comma) { /* the list's own tuple, not one that was written inside in parentheses */
        node->kind = list ? PLIM__AST_LIST : PLIM__AST_TUPLE;
        node->op = open.kind;
        node->at = open.at;
        node->n = open.n;
    } else if (list) {
        PLIM_TRY(node_new(p, PLIM__AST_LIST, &open, out));
        return node_append(p, *out, inner);
    }
    *out = inner;
    return PLIM_OK;
}

static plim_status parse_atom(parser *p, uint32_t *out)
{
    static const struct { plim__token_kind token; plim__ast_kind node; } leaf[] = {
        {PLIM__TOKEN_INT, PLIM__AST_INT}, {PLIM__TOKEN_FLOAT, PLIM__AST_FLOAT}, {PLIM__TOKEN_STRING, PLIM__AST_STRING},
        {PLIM__TOKEN_NAME, PLIM__AST_NAME}, {PLIM__TOKEN_ELLIPSIS, PLIM__AST_ELLIPSIS},
    };
    PLIM_TRY(check_word(p));
    if (p->now.kind == PLIM__TOKEN_LPAREN || p->now.kind == PLIM__TOKEN_LBRACKET) return parse_bracketed(p, out);
    for (size_t i = 0; i < sizeof leaf / sizeof *leaf; i++) {
        if (p->now.kind != leaf[i].token) continue;
        PLIM_TRY(node_new(p, leaf[i].node, &p->now, out));
        return next(p);
    }
    return fail_expected(p, "an array, a number or '('");
}

/* The arguments after '('; the call node already has its callee. */
static plim_status parse_arguments(parser *p, uint32_t call)
{
    bool keywords = false;
    while (p->now.kind != PLIM__TOKEN_RPAREN) {
        const plim__token name = p->now;
        uint32_t arg, value;
        PLIM_TRY(parse_list(p, PLIM__TOKEN_COMMA, &arg));
        if (p->now.kind == PLIM__TOKEN_ASSIGN) {
            if (p->ast->node[arg].kind != PLIM__AST_NAME)
                return plim__fail_column(p->err, PLIM_E_SYNTAX, p->now.at, "before '=' in a call stands the name of a parameter");
            PLIM_TRY(next(p));
            PLIM_TRY(parse_list(p, PLIM__TOKEN_COMMA, &value));
            PLIM_TRY(node_new(p, PLIM__AST_KEYWORD, &name, &arg));
            PLIM_TRY(node_append(p, arg, value));
            keywords = true;
        } else if (keywords) {
            return plim__fail_column(p->err, PLIM_E_SYNTAX, name.at, "an argument without a name may not follow one with a name");
        }
        PLIM_TRY(node_append(p, call, arg));
        if (p->now.kind == PLIM__TOKEN_RPAREN) break;
        PLIM_TRY(expect(p, PLIM__TOKEN_COMMA, "an operator, ',' or ')'"));
    }
    return next(p);
}

static plim_status parse_slice_part(parser *p, uint32_t *out)
{
    const plim__token_kind k = p->now.kind;
    if (k == PLIM__TOKEN_COLON || k == PLIM__TOKEN_COMMA || k == PLIM__TOKEN_RBRACKET) return node_new(p, PLIM__AST_EMPTY, &p->now, out);
    return parse_list(p, PLIM__TOKEN_COMMA, out);
}

static plim_status parse_subscript(parser *p, uint32_t *out)
{
    uint32_t part;
    const plim__token begin = p->now;
    PLIM_TRY(parse_slice_part(p, &part));
    if (p->now.kind != PLIM__TOKEN_COLON) {
        *out = part;
        return p->ast->node[part].kind == PLIM__AST_EMPTY ? fail_expected(p, "an index or a slice") : PLIM_OK;
    }
    PLIM_TRY(node_new(p, PLIM__AST_SLICE, &begin, out));
    PLIM_TRY(node_append(p, *out, part));
    for (int i = 1; i < 3; i++) {
        if (p->now.kind == PLIM__TOKEN_COLON) {
            PLIM_TRY(next(p));
            PLIM_TRY(parse_slice_part(p, &part));
        } else {
            PLIM_TRY(node_new(p, PLIM__AST_EMPTY, &p->now, &part));
        }
        PLIM_TRY(node_append(p, *out, part));
    }
    return PLIM_OK;
}

static plim_status parse_subscripts(parser *p, uint32_t index)
{
    do {
        uint32_t sub;
        if (p->ast->node[index].count > 1 && p->now.kind == PLIM__TOKEN_RBRACKET) break; /* x[0,] */
        PLIM_TRY(parse_subscript(p, &sub));
        PLIM_TRY(node_append(p, index, sub));
        if (p->now.kind != PLIM__TOKEN_COMMA) break;
        PLIM_TRY(next(p));
    } while (true);
    return expect(p, PLIM__TOKEN_RBRACKET, "an operator, ':', ',' or ']'");
}

static plim_status parse_postfix(parser *p, uint32_t *out)
{
    PLIM_TRY(parse_atom(p, out));
    for (;;) {
        const plim__token t = p->now;
        uint32_t node;
        if (t.kind == PLIM__TOKEN_DOT) {
            PLIM_TRY(next(p));
            if (p->now.kind != PLIM__TOKEN_NAME) return fail_expected(p, "a name after '.'");
            PLIM_TRY(node_new(p, PLIM__AST_ATTR, &p->now, &node));
            PLIM_TRY(node_append(p, node, *out));
            PLIM_TRY(next(p));
        } else if (t.kind == PLIM__TOKEN_LPAREN) {
            PLIM_TRY(next(p));
            PLIM_TRY(node_new(p, PLIM__AST_CALL, &t, &node));
            p->ast->node[node].at = p->ast->node[*out].at;
            p->ast->node[node].n = p->ast->node[*out].n;
            PLIM_TRY(node_append(p, node, *out));
            PLIM_TRY(parse_arguments(p, node));
        } else if (t.kind == PLIM__TOKEN_LBRACKET) {
            PLIM_TRY(next(p));
            PLIM_TRY(node_new(p, PLIM__AST_INDEX, &t, &node));
            PLIM_TRY(node_append(p, node, *out));
            PLIM_TRY(parse_subscripts(p, node));
        } else {
            return PLIM_OK;
        }
        *out = node;
    }
}

static plim_status parse_power(parser *p, uint32_t *out)
{
    uint32_t base, exponent;
    PLIM_TRY(parse_postfix(p, &base));
    *out = base;
    if (p->now.kind != PLIM__TOKEN_STAR2) return PLIM_OK;
    PLIM_TRY(node_new(p, PLIM__AST_BINARY, &p->now, out));
    PLIM_TRY(next(p));
    PLIM_TRY(parse_unary(p, &exponent));
    PLIM_TRY(node_append(p, *out, base));
    return node_append(p, *out, exponent);
}

static plim_status parse_unary(parser *p, uint32_t *out)
{
    const plim__token_kind k = p->now.kind;
    if (p->depth == PLIM__AST_MAX_DEPTH)
        return plim__fail_column(p->err, PLIM_E_SYNTAX, p->now.at, "brackets and signs are nested more than %d deep", PLIM__AST_MAX_DEPTH);
    p->depth++;
    plim_status status;
    if (k == PLIM__TOKEN_MINUS || k == PLIM__TOKEN_PLUS || k == PLIM__TOKEN_NOT) {
        uint32_t node, operand;
        status = node_new(p, PLIM__AST_UNARY, &p->now, &node);
        if (!status) status = next(p);
        if (!status) status = parse_unary(p, &operand);
        if (!status) status = node_append(p, node, operand);
        if (!status) *out = node;
    } else {
        status = parse_power(p, out);
    }
    p->depth--;
    return status;
}

enum { LEVEL_NONE, LEVEL_COMPARE, LEVEL_OR, LEVEL_XOR, LEVEL_AND, LEVEL_SHIFT, LEVEL_SUM, LEVEL_TERM };

static int level_of(plim__token_kind k)
{
    switch (k) {
    case PLIM__TOKEN_EQ: case PLIM__TOKEN_NE: case PLIM__TOKEN_LT: case PLIM__TOKEN_LE: case PLIM__TOKEN_GT: case PLIM__TOKEN_GE:
        return LEVEL_COMPARE;
    case PLIM__TOKEN_OR: return LEVEL_OR;
    case PLIM__TOKEN_XOR: return LEVEL_XOR;
    case PLIM__TOKEN_AND: return LEVEL_AND;
    case PLIM__TOKEN_SHL: case PLIM__TOKEN_SHR: return LEVEL_SHIFT;
    case PLIM__TOKEN_PLUS: case PLIM__TOKEN_MINUS: return LEVEL_SUM;
    case PLIM__TOKEN_STAR: case PLIM__TOKEN_SLASH: case PLIM__TOKEN_SLASH2: case PLIM__TOKEN_PERCENT: case PLIM__TOKEN_AT: return LEVEL_TERM;
    default: return LEVEL_NONE;
    }
}

static plim_status parse_binary(parser *p, int least, uint32_t *out)
{
    PLIM_TRY(parse_unary(p, out));
    for (;;) {
        const int level = level_of(p->now.kind);
        if (level == LEVEL_NONE || level < least) return PLIM_OK;
        uint32_t node, right;
        PLIM_TRY(node_new(p, PLIM__AST_BINARY, &p->now, &node));
        PLIM_TRY(next(p));
        PLIM_TRY(parse_binary(p, level + 1, &right));
        PLIM_TRY(node_append(p, node, *out));
        PLIM_TRY(node_append(p, node, right));
        if (level == LEVEL_COMPARE && level_of(p->now.kind) == LEVEL_COMPARE)
            return plim__fail_column(p->err, PLIM_E_SYNTAX, p->now.at, "comparisons do not chain: write (a < b) & (b < c)");
        *out = node;
    }
}

/* until COMMA: one expression. Otherwise as many as there are, a tuple where a comma was seen. */
static plim_status parse_list(parser *p, plim__token_kind until, uint32_t *out)
{
    PLIM_TRY(parse_binary(p, LEVEL_COMPARE, out));
    PLIM_TRY(check_word(p));
    if (until == PLIM__TOKEN_COMMA || p->now.kind != PLIM__TOKEN_COMMA) return PLIM_OK;
    uint32_t tuple, item;
    PLIM_TRY(node_new(p, PLIM__AST_TUPLE, &p->now, &tuple));
    PLIM_TRY(node_append(p, tuple, *out));
    while (p->now.kind == PLIM__TOKEN_COMMA) {
        PLIM_TRY(next(p));
        const plim__token_kind k = p->now.kind;
        if (k == until || k == PLIM__TOKEN_END || k == PLIM__TOKEN_SEPARATOR || k == PLIM__TOKEN_ASSIGN) break;
        PLIM_TRY(parse_binary(p, LEVEL_COMPARE, &item));
        PLIM_TRY(check_word(p));
        PLIM_TRY(node_append(p, tuple, item));
    }
    *out = tuple;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------- statements */

static plim_status check_target(parser *p, uint32_t target, bool inside)
{
    const plim__ast_node *t = &p->ast->node[target];
    if (t->kind == PLIM__AST_TUPLE && !inside && t->first != PLIM__AST_NONE) {
        for (uint32_t c = t->first; c != PLIM__AST_NONE; c = p->ast->node[c].next) PLIM_TRY(check_target(p, c, true));
        return PLIM_OK;
    }
    if (t->kind != PLIM__AST_NAME) return plim__fail_column(p->err, PLIM_E_SYNTAX, p->now.at, "left of '=' stands a name, nothing else");
    return PLIM_OK;
}

static plim_status parse_statement(parser *p)
{
    uint32_t node, left, right;
    const plim__token begin = p->now;
    PLIM_TRY(parse_list(p, PLIM__TOKEN_SEPARATOR, &left));
    if (p->now.kind == PLIM__TOKEN_ASSIGN) {
        PLIM_TRY(check_target(p, left, false));
        PLIM_TRY(node_new(p, PLIM__AST_ASSIGN, &p->now, &node));
        PLIM_TRY(next(p));
        PLIM_TRY(parse_list(p, PLIM__TOKEN_SEPARATOR, &right));
        if (p->now.kind == PLIM__TOKEN_ASSIGN) return plim__fail_column(p->err, PLIM_E_SYNTAX, p->now.at, "one '=' to a statement");
        PLIM_TRY(node_append(p, node, left));
        PLIM_TRY(node_append(p, node, right));
    } else {
        PLIM_TRY(node_new(p, PLIM__AST_RESULT, &begin, &node));
        PLIM_TRY(node_append(p, node, left));
    }
    if (p->now.kind != PLIM__TOKEN_END && p->now.kind != PLIM__TOKEN_SEPARATOR) return fail_expected(p, "an operator, ';' or the end");
    plim__ast *a = p->ast;
    if (a->first == PLIM__AST_NONE)
        a->first = node;
    else
        a->node[a->last].next = node;
    a->last = node;
    return PLIM_OK;
}

static plim_status parse_program(parser *p)
{
    PLIM_TRY(next(p));
    for (;;) {
        while (p->now.kind == PLIM__TOKEN_SEPARATOR) PLIM_TRY(next(p));
        if (p->now.kind == PLIM__TOKEN_END) break;
        const uint32_t before = p->ast->last;
        if (before != PLIM__AST_NONE && p->ast->node[before].kind == PLIM__AST_RESULT)
            return plim__fail_column(p->err, PLIM_E_SYNTAX, p->ast->node[before].at,
                                     "only the last statement may go without a name: write 'name = ...' here");
        PLIM_TRY(parse_statement(p));
    }
    if (p->ast->first == PLIM__AST_NONE) return plim__fail_column(p->err, PLIM_E_SYNTAX, 0, "the expression is empty");
    return PLIM_OK;
}

plim_status plim__ast_parse(plim__ast *out, const plim__alloc *alloc, const char *text, plim_error *err)
{
    const size_t n = strlen(text);
    PLIM_FAIL_IF(n > INT32_MAX - 1, err, PLIM_E_SYNTAX, "the expression is longer than 2 GiB");
    *out = (plim__ast){.alloc = *alloc, .text = text, .first = PLIM__AST_NONE, .last = PLIM__AST_NONE};
    parser p = {.ast = out, .lexer = {.text = text, .n = (uint32_t)n}, .err = err};
    const plim_status status = parse_program(&p);
    if (status != PLIM_OK) plim__ast_free(out);
    return status;
}

void plim__ast_free(plim__ast *ast)
{
    plim__free(&ast->alloc, ast->node);
    ast->node = NULL;
    ast->n = ast->cap = 0;
}

/* ------------------------------------------------------------------------------------------------- dump */

typedef struct dump {
    const plim__ast *ast;
    char *buf;
    size_t size, at;
} dump;

static void put(dump *d, const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++, d->at++)
        if (d->at + 1 < d->size) d->buf[d->at] = s[i];
}

static void dump_node(dump *d, uint32_t id)
{
    static const char *const head[] = {
        [PLIM__AST_SLICE] = "slice", [PLIM__AST_TUPLE] = "tuple", [PLIM__AST_LIST] = "list", [PLIM__AST_CALL] = "call",
        [PLIM__AST_INDEX] = "index", [PLIM__AST_ATTR] = ".", [PLIM__AST_ASSIGN] = "=", [PLIM__AST_KEYWORD] = "",
        [PLIM__AST_RESULT] = "",
    };
    const plim__ast_node *n = &d->ast->node[id];
    char number[40];
    switch (n->kind) {
    case PLIM__AST_INT: put(d, number, (size_t)snprintf(number, sizeof number, "%lld", (long long)n->i)); return;
    case PLIM__AST_FLOAT: put(d, number, (size_t)snprintf(number, sizeof number, "%.17g", n->f)); return;
    case PLIM__AST_STRING: put(d, "'", 1); put(d, d->ast->text + n->at, n->n); put(d, "'", 1); return;
    case PLIM__AST_NAME: put(d, d->ast->text + n->at, n->n); return;
    case PLIM__AST_ELLIPSIS: put(d, "...", 3); return;
    case PLIM__AST_EMPTY: put(d, "_", 1); return;
    case PLIM__AST_RESULT: dump_node(d, n->first); return;
    default: break;
    }
    put(d, "(", 1);
    const bool is_operator = n->kind == PLIM__AST_UNARY || n->kind == PLIM__AST_BINARY;
    const char *name = is_operator ? plim__token_text(n->op) : head[n->kind];
    put(d, name, strlen(name));
    if (n->kind == PLIM__AST_ATTR || n->kind == PLIM__AST_KEYWORD) put(d, d->ast->text + n->at, n->n);
    if (n->kind == PLIM__AST_KEYWORD) put(d, "=", 1);
    for (uint32_t c = n->first; c != PLIM__AST_NONE; c = d->ast->node[c].next) {
        put(d, " ", 1);
        dump_node(d, c);
    }
    put(d, ")", 1);
}

char *plim__ast_dump(const plim__ast *ast, char *buf, size_t size)
{
    dump d = {.ast = ast, .buf = buf, .size = size};
    for (uint32_t s = ast->first; s != PLIM__AST_NONE; s = ast->node[s].next) {
        if (s != ast->first) put(&d, "; ", 2);
        dump_node(&d, s);
    }
    if (size) buf[d.at < size ? d.at : size - 1] = 0;
    return buf;
}
