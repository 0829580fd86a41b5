/* Lowering: Einsum. Operands are taken in one by one, each as a stacked matrix product of what has been made so far and the next:
 *
 *     stack    letters of both that are needed later      rows     letters of the first only
 *     inner    letters of both that are not: summed       columns  letters of the second only
 *
 * A letter of one operand only that nobody needs later is summed before. Sources: NumPy's documentation of einsum. */
#include "models/onnx.h"

#include <ctype.h>
#include <string.h>

#define TERMS_MAX 16u

/* Letters by dimension. */
typedef struct term {
    char letter[PLIM_MAX_RANK + 1];
    uint32_t n;
} term;

typedef struct equation {
    term in[TERMS_MAX];
    uint32_t n_in;
    term out;
} equation;

/* A value with a letter for each dimension. */
typedef struct labelled {
    uint32_t value;
    term term;
} labelled;

static bool has(const term *t, char letter) { return letter && memchr(t->letter, letter, t->n) != NULL; }

/* Is the letter in the output, or in an operand from number `next` on? */
static bool is_needed(const equation *e, uint32_t next, char letter)
{
    bool needed = has(&e->out, letter);
    for (uint32_t k = next; k < e->n_in; k++) needed = needed || has(&e->in[k], letter);
    return needed;
}

/* One term, up to a comma, the arrow or the end. */
static plim_status parse_term(const char **text, term *t, plim_error *err)
{
    *t = (term){0};
    for (; **text && **text != ',' && **text != '-'; ++*text) {
        const char letter = **text;
        if (letter == ' ') continue;
        PLIM_FAIL_IF(letter == '.', err, PLIM_E_UNSUPPORTED, "an equation with '...'");
        PLIM_FAIL_IF(!isalpha((unsigned char)letter), err, PLIM_E_FORMAT, "an equation with byte %u in it", (unsigned char)letter);
        PLIM_FAIL_IF(has(t, letter), err, PLIM_E_UNSUPPORTED, "an equation with a diagonal: '%c' is in one term twice", letter);
        PLIM_FAIL_IF(t->n == PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "a term of more than %d letters", PLIM_MAX_RANK);
        t->letter[t->n++] = letter;
    }
    return PLIM_OK;
}

/* Without an arrow: the letters that are there once, sorted. */
static plim_status implied_output(equation *e, plim_error *err)
{
    e->out = (term){0};
    for (int letter = 'A'; letter <= 'z'; letter++) {
        uint32_t times = 0;
        for (uint32_t k = 0; k < e->n_in; k++) times += has(&e->in[k], (char)letter);
        if (times != 1) continue;
        PLIM_FAIL_IF(e->out.n == PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "a result of more than %d dimensions", PLIM_MAX_RANK);
        e->out.letter[e->out.n++] = (char)letter;
    }
    return PLIM_OK;
}

static plim_status parse(equation *e, const char *text, plim_error *err)
{
    e->n_in = 0;
    for (;; text++) {
        PLIM_FAIL_IF(e->n_in == TERMS_MAX, err, PLIM_E_UNSUPPORTED, "more than %u operands", TERMS_MAX);
        PLIM_TRY(parse_term(&text, &e->in[e->n_in++], err));
        if (*text != ',') break;
    }
    if (*text == 0) return implied_output(e, err);
    PLIM_FAIL_IF(text[0] != '-' || text[1] != '>', err, PLIM_E_FORMAT, "an equation with a '-' that is no arrow");
    text += 2;
    PLIM_TRY(parse_term(&text, &e->out, err));
    PLIM_FAIL_IF(*text != 0, err, PLIM_E_FORMAT, "an equation that goes on behind its result");
    for (uint32_t i = 0; i < e->out.n; i++) {
        bool found = false;
        for (uint32_t k = 0; k < e->n_in; k++) found = found || has(&e->in[k], e->out.letter[i]);
        PLIM_FAIL_IF(!found, err, PLIM_E_FORMAT, "'%c' of the result is in no operand", e->out.letter[i]);
    }
    return PLIM_OK;
}

/* The extent of a letter; 1 where the value does not have it. */
static int64_t extent(plim__onnx_call *c, const labelled *v, char letter)
{
    for (uint32_t d = 0; d < v->term.n; d++)
        if (v->term.letter[d] == letter) return plim__onnx_shape(c, v->value).dim[d];
    return 1;
}

/* Sums over the letters that are neither in `other` nor needed later. */
static plim_status drop_unneeded(plim__onnx_call *c, const equation *e, uint32_t next, const term *other, labelled *v, plim_error *err)
{
    uint32_t mask = 0;
    term kept = {0};
    for (uint32_t d = 0; d < v->term.n; d++) {
        const char letter = v->term.letter[d];
        if (has(other, letter) || is_needed(e, next, letter)) kept.letter[kept.n++] = letter;
        else mask |= 1u << d;
    }
    v->term = kept;
    return mask ? plim__onnx_sum(c, v->value, mask, false, false, &v->value, err) : PLIM_OK;
}

/* Puts the dimensions in the order of `to`, which has the same letters. */
static plim_status arrange(plim__onnx_call *c, labelled *v, const term *to, plim_error *err)
{
    uint32_t perm[PLIM_MAX_RANK];
    bool moved = false;
    for (uint32_t d = 0; d < to->n; d++) {
        perm[d] = (uint32_t)((const char *)memchr(v->term.letter, to->letter[d], v->term.n) - v->term.letter);
        moved = moved || perm[d] != d;
    }
    v->term = *to;
    return moved ? plim__op_transpose(c->g, v->value, perm, &v->value, err) : PLIM_OK;
}

/* The letters of a and b by what becomes of them. */
typedef struct roles {
    term stack, inner, rows, columns;
} roles;

static plim_status roles_of(plim__onnx_call *c, const equation *e, uint32_t next, const labelled *a, const labelled *b, roles *r, plim_error *err)
{
    *r = (roles){0};
    for (uint32_t d = 0; d < a->term.n; d++) {
        const char letter = a->term.letter[d];
        term *t = !has(&b->term, letter) ? &r->rows : is_needed(e, next, letter) ? &r->stack : &r->inner;
        t->letter[t->n++] = letter;
        PLIM_FAIL_IF(has(&b->term, letter) && extent(c, a, letter) != extent(c, b, letter), err, PLIM_E_SHAPE, "'%c' is %lld and %lld", letter,
                     (long long)extent(c, a, letter), (long long)extent(c, b, letter));
    }
    for (uint32_t d = 0; d < b->term.n; d++)
        if (!has(&a->term, b->term.letter[d])) r->columns.letter[r->columns.n++] = b->term.letter[d];
    PLIM_FAIL_IF(r->stack.n + r->rows.n + r->columns.n > PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "a product of more than %d dimensions",
                 PLIM_MAX_RANK);
    return PLIM_OK;
}

static void append(term *to, const term *t)
{
    memcpy(to->letter + to->n, t->letter, t->n);
    to->n += t->n;
}

/* v as three dimensions, each of which holds the letters of a term. */
static plim_status as_matrices(plim__onnx_call *c, labelled *v, const term *one, const term *two, const term *three, plim_error *err)
{
    const term *const part[] = {one, two, three};
    term order = {0};
    plim_shape to = {.rank = 3};
    for (uint32_t i = 0; i < 3; i++) append(&order, part[i]);
    PLIM_TRY(arrange(c, v, &order, err));
    const plim_shape s = plim__onnx_shape(c, v->value);
    for (uint32_t i = 0, at = 0; i < 3; at += part[i++]->n) PLIM_TRY(plim__onnx_product(&s, at, at + part[i]->n, &to.dim[i], err));
    return plim__op_reshape(c->g, v->value, &to, &v->value, err);
}

static plim_status multiply(plim__onnx_call *c, const equation *e, uint32_t next, labelled *a, labelled b, plim_error *err)
{
    roles r;
    plim_shape to = {0};
    PLIM_TRY(drop_unneeded(c, e, next, &b.term, a, err));
    PLIM_TRY(drop_unneeded(c, e, next, &a->term, &b, err));
    PLIM_TRY(roles_of(c, e, next, a, &b, &r, err));
    term made = r.stack;
    append(&made, &r.rows);
    append(&made, &r.columns);
    for (uint32_t d = 0; d < made.n; d++) to.dim[to.rank++] = extent(c, has(&a->term, made.letter[d]) ? a : &b, made.letter[d]);
    PLIM_TRY(as_matrices(c, a, &r.stack, &r.rows, &r.inner, err));
    PLIM_TRY(as_matrices(c, &b, &r.stack, &r.inner, &r.columns, err));
    PLIM_TRY(plim__op_matmul(c->g, a->value, b.value, plim__onnx_type(c, a->value), &a->value, err));
    a->term = made;
    return plim__op_reshape(c->g, a->value, &to, &a->value, err);
}

static plim_status operand(plim__onnx_call *c, const equation *e, uint32_t k, labelled *v, plim_error *err)
{
    v->term = e->in[k];
    PLIM_TRY(plim__onnx_in(c, k, &v->value, err));
    const uint32_t rank = plim__onnx_shape(c, v->value).rank;
    PLIM_FAIL_IF(rank != v->term.n, err, PLIM_E_SHAPE, "operand %u has %u dimensions, its term %u letters", k, rank, v->term.n);
    return PLIM_OK;
}

plim_status plim__onnx_lower_einsum(plim__onnx_call *c, plim_error *err)
{
    static const term nothing = {0};
    equation e;
    labelled all, next;
    PLIM_TRY(parse(&e, plim__onnx_text(c, "equation", ""), err));
    PLIM_FAIL_IF(e.n_in != c->n_in, err, PLIM_E_FORMAT, "an equation of %u operands for %u inputs", e.n_in, c->n_in);
    PLIM_TRY(operand(c, &e, 0, &all, err));
    for (uint32_t k = 1; k < e.n_in; k++) {
        PLIM_TRY(operand(c, &e, k, &next, err));
        PLIM_FAIL_IF(plim__onnx_type(c, next.value) != plim__onnx_type(c, all.value), err, PLIM_E_TYPE, "operands of different dtypes");
        PLIM_TRY(multiply(c, &e, k + 1, &all, next, err));
    }
    PLIM_TRY(drop_unneeded(c, &e, e.n_in, &nothing, &all, err));
    PLIM_TRY(arrange(c, &all, &e.out, err));
    c->out[0] = all.value;
    return PLIM_OK;
}
