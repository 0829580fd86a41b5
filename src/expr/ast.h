/* The syntax of the array language: tokens, the tree, and the two passes that make it. Nothing here knows arrays.
 *
 * The tree is a flat array of nodes; ids are indices. A node's children are a list: `first`, then `next` of each child. Every node keeps its
 * height, and no node is higher than PLIM__AST_MAX_HEIGHT, so that walking the tree by recursion has a bounded stack whatever the text is.
 * Positions are byte offsets into the text; a column, where one is reported, is the offset + 1. */
#ifndef PLIM_EXPR_AST_H
#define PLIM_EXPR_AST_H

#include "core/alloc.h"

#define PLIM__AST_MAX_DEPTH 200   /* nested brackets, unary operators and powers: the parser's own recursion */
#define PLIM__AST_MAX_HEIGHT 500  /* of the tree: a sum of so many terms */
#define PLIM__AST_MAX_NODES 65536
#define PLIM__AST_NONE UINT32_MAX

/*    id         as it is written */
#define PLIM__TOKEN_LIST(X)        \
    X(END,       "the end")        \
    X(SEPARATOR, "';'")            \
    X(NAME,      "a name")         \
    X(INT,       "an integer")     \
    X(FLOAT,     "a number")       \
    X(STRING,    "a string")       \
    X(PLUS,      "+")              \
    X(MINUS,     "-")              \
    X(STAR,      "*")              \
    X(SLASH,     "/")              \
    X(SLASH2,    "//")             \
    X(PERCENT,   "%")              \
    X(STAR2,     "**")             \
    X(AT,        "@")              \
    X(EQ,        "==")             \
    X(NE,        "!=")             \
    X(LT,        "<")              \
    X(LE,        "<=")             \
    X(GT,        ">")              \
    X(GE,        ">=")             \
    X(AND,       "&")              \
    X(OR,        "|")              \
    X(XOR,       "^")              \
    X(NOT,       "~")              \
    X(SHL,       "<<")             \
    X(SHR,       ">>")             \
    X(ASSIGN,    "=")              \
    X(LPAREN,    "(")              \
    X(RPAREN,    ")")              \
    X(LBRACKET,  "[")              \
    X(RBRACKET,  "]")              \
    X(COMMA,     ",")              \
    X(COLON,     ":")              \
    X(DOT,       ".")              \
    X(ELLIPSIS,  "...")

typedef enum plim__token_kind {
#define X(id, text) PLIM__TOKEN_##id,
    PLIM__TOKEN_LIST(X)
#undef X
    PLIM__TOKEN_COUNT
} plim__token_kind;

const char *plim__token_text(plim__token_kind kind);

typedef struct plim__token {
    plim__token_kind kind;
    uint32_t at, n; /* where its text is; of a string: without the quotes */
    union {
        int64_t i;
        double f;
    };
} plim__token;

typedef struct plim__lexer {
    const char *text;
    uint32_t n, at;
    uint32_t brackets; /* open ones: newlines inside are blanks */
} plim__lexer;

/** The next token. @return PLIM_OK or PLIM_E_SYNTAX with err->column set */
plim_status plim__lex(plim__lexer *l, plim__token *out, plim_error *err);

typedef enum plim__ast_kind {
    PLIM__AST_INT, PLIM__AST_FLOAT, PLIM__AST_STRING, PLIM__AST_NAME,
    PLIM__AST_ELLIPSIS,
    PLIM__AST_EMPTY,   /* a part of a slice that is left out */
    PLIM__AST_SLICE,   /* three children */
    PLIM__AST_TUPLE, PLIM__AST_LIST,
    PLIM__AST_UNARY,   /* op; one child */
    PLIM__AST_BINARY,  /* op; two children */
    PLIM__AST_CALL,    /* the callee, then the arguments; at: the name of what is called */
    PLIM__AST_KEYWORD, /* name=child, an argument */
    PLIM__AST_INDEX,   /* the array, then the subscripts */
    PLIM__AST_ATTR,    /* child.name; at: the name */
    PLIM__AST_ASSIGN,  /* a name or a tuple of names, then the value */
    PLIM__AST_RESULT,  /* the last statement, without a name; one child */
} plim__ast_kind;

typedef struct plim__ast_node {
    plim__ast_kind kind;
    plim__token_kind op;
    uint32_t at, n;             /* its own text: the operator, the name, the string */
    uint32_t first, last, next; /* children, and the sibling after this one; PLIM__AST_NONE ends */
    uint32_t count;             /* children */
    uint32_t height;
    union {
        int64_t i;
        double f;
    };
} plim__ast_node;

typedef struct plim__ast {
    plim__alloc alloc;
    const char *text; /* not owned */
    plim__ast_node *node;
    uint32_t n, cap;
    uint32_t first, last; /* statements, linked by `next` */
} plim__ast;

/** Parses a whole program. `text` must outlive the tree. On failure there is nothing to free.
 *  @return PLIM_OK, PLIM_E_SYNTAX with err->column, PLIM_E_NOMEM */
plim_status plim__ast_parse(plim__ast *out, const plim__alloc *alloc, const char *text, plim_error *err);
void plim__ast_free(plim__ast *ast);

/** Writes the tree as "(+ x (* 2 y))", statements separated by "; ". Always ends with NUL. @return buf */
char *plim__ast_dump(const plim__ast *ast, char *buf, size_t size);

/** plim__fail for a place in a text: sets err->column to `at` + 1 where this failure is the first. */
plim_status plim__fail_column(plim_error *err, plim_status code, uint32_t at, const char *fmt, ...)
    __attribute__((format(printf, 4, 5), cold));

#endif
