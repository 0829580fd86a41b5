/* Gradients of the elementwise functions, from the output where that will do: then the input need not be kept. */
#include "core/dtype.h"
#include "ops/gradient.h"

#include <math.h>

typedef struct args {
    plim__ew fn;
    uint32_t a, b, c, y, dy; /* operands, output, gradient, in the dtype of the computation */
} args;

/* One step of a formula: v = fn(a), fn(a, b), fn(a, constant). A failure stays in `status` and makes the rest do nothing. */
typedef struct formula {
    plim_graph *g;
    plim_status status;
    plim_error *err;
} formula;

static uint32_t f1(formula *f, plim__ew fn, uint32_t a)
{
    uint32_t v = a;
    if (f->status == PLIM_OK) f->status = plim__op_float1(f->g, fn, a, &v, f->err);
    return v;
}

static uint32_t f2(formula *f, plim__ew fn, uint32_t a, uint32_t b)
{
    uint32_t v = a;
    if (f->status == PLIM_OK) f->status = plim__op_float2(f->g, fn, a, b, &v, f->err);
    return v;
}

static uint32_t fc(formula *f, plim__ew fn, uint32_t a, double c)
{
    uint32_t v = a;
    if (f->status == PLIM_OK) f->status = plim__op_float_const(f->g, fn, a, c, &v, f->err);
    return v;
}

static uint32_t mul(formula *f, uint32_t a, uint32_t b) { return f2(f, PLIM__EW_MUL, a, b); }
static uint32_t divide(formula *f, uint32_t a, uint32_t b) { return f2(f, PLIM__EW_DIV, a, b); }
static uint32_t square(formula *f, uint32_t a) { return f1(f, PLIM__EW_SQUARE, a); }

/* c - a */
static uint32_t from(formula *f, double c, uint32_t a) { return fc(f, PLIM__EW_ADD, f1(f, PLIM__EW_NEG, a), c); }

static uint32_t compare(formula *f, plim__ew fn, uint32_t a, uint32_t b)
{
    uint32_t v = a;
    const plim_dtype compute = f->g->value[a].dtype;
    if (f->status == PLIM_OK) f->status = plim__op_elementwise(f->g, fn, compute, PLIM_BOOL, (const uint32_t[]){a, b}, 2, &v, f->err);
    return v;
}

/* dy where `test` is true (or false), else 0. */
static uint32_t masked(formula *f, uint32_t test, uint32_t dy, bool where)
{
    uint32_t zero, v = dy;
    const plim_dtype t = f->g->value[dy].dtype;
    if (f->status == PLIM_OK) f->status = plim__op_scalar(f->g, t, 0, &zero, f->err);
    if (f->status == PLIM_OK)
        f->status = plim__op_elementwise(f->g, PLIM__EW_WHERE, t, t, (const uint32_t[]){test, where ? dy : zero, where ? zero : dy}, 3, &v, f->err);
    return v;
}

/* The derivative of a function of one operand, times dy. PLIM__NONE: it is 0 wherever it exists. */
static uint32_t one_operand(formula *f, const args *x)
{
    const uint32_t a = x->a, y = x->y, dy = x->dy;
    switch (x->fn) {
    case PLIM__EW_COPY: return dy;
    case PLIM__EW_NEG: return f1(f, PLIM__EW_NEG, dy);
    case PLIM__EW_ABS: return mul(f, dy, f1(f, PLIM__EW_SIGN, a));
    case PLIM__EW_SQUARE: return mul(f, dy, fc(f, PLIM__EW_MUL, a, 2));
    case PLIM__EW_RECIPROCAL: return f1(f, PLIM__EW_NEG, mul(f, dy, square(f, y)));
    case PLIM__EW_SQRT: return divide(f, fc(f, PLIM__EW_MUL, dy, 0.5), y);
    case PLIM__EW_CBRT: return divide(f, fc(f, PLIM__EW_MUL, dy, 1.0 / 3), square(f, y));
    case PLIM__EW_EXP: return mul(f, dy, y);
    case PLIM__EW_EXP2: return mul(f, dy, fc(f, PLIM__EW_MUL, y, M_LN2));
    case PLIM__EW_EXPM1: return mul(f, dy, fc(f, PLIM__EW_ADD, y, 1));
    case PLIM__EW_LOG: return divide(f, dy, a);
    case PLIM__EW_LOG2: return divide(f, fc(f, PLIM__EW_MUL, dy, 1 / M_LN2), a);
    case PLIM__EW_LOG10: return divide(f, fc(f, PLIM__EW_MUL, dy, 1 / M_LN10), a);
    case PLIM__EW_LOG1P: return divide(f, dy, fc(f, PLIM__EW_ADD, a, 1));
    case PLIM__EW_SIN: return mul(f, dy, f1(f, PLIM__EW_COS, a));
    case PLIM__EW_COS: return f1(f, PLIM__EW_NEG, mul(f, dy, f1(f, PLIM__EW_SIN, a)));
    case PLIM__EW_TAN: return mul(f, dy, fc(f, PLIM__EW_ADD, square(f, y), 1));
    case PLIM__EW_ASIN: return divide(f, dy, f1(f, PLIM__EW_SQRT, from(f, 1, square(f, a))));
    case PLIM__EW_ACOS: return f1(f, PLIM__EW_NEG, divide(f, dy, f1(f, PLIM__EW_SQRT, from(f, 1, square(f, a)))));
    case PLIM__EW_ATAN: return divide(f, dy, fc(f, PLIM__EW_ADD, square(f, a), 1));
    case PLIM__EW_SINH: return mul(f, dy, f1(f, PLIM__EW_COSH, a));
    case PLIM__EW_COSH: return mul(f, dy, f1(f, PLIM__EW_SINH, a));
    case PLIM__EW_TANH: return mul(f, dy, from(f, 1, square(f, y)));
    case PLIM__EW_ASINH: return divide(f, dy, f1(f, PLIM__EW_SQRT, fc(f, PLIM__EW_ADD, square(f, a), 1)));
    case PLIM__EW_ACOSH: return divide(f, dy, f1(f, PLIM__EW_SQRT, fc(f, PLIM__EW_ADD, square(f, a), -1)));
    case PLIM__EW_ATANH: return divide(f, dy, from(f, 1, square(f, a)));
    case PLIM__EW_ERF: return mul(f, dy, fc(f, PLIM__EW_MUL, f1(f, PLIM__EW_EXP, f1(f, PLIM__EW_NEG, square(f, a))), M_2_SQRTPI));
    case PLIM__EW_SIGMOID: return mul(f, dy, mul(f, y, from(f, 1, y)));
    default: return PLIM__NONE;
    }
}

/* The same with respect to operand k of two. */
static uint32_t two_operands(formula *f, const args *x, uint32_t k)
{
    const uint32_t a = x->a, b = x->b, y = x->y, dy = x->dy;
    switch (x->fn) {
    case PLIM__EW_ADD: return dy;
    case PLIM__EW_SUB: return k == 0 ? dy : f1(f, PLIM__EW_NEG, dy);
    case PLIM__EW_MUL: return mul(f, dy, k == 0 ? b : a);
    case PLIM__EW_DIV: return k == 0 ? divide(f, dy, b) : f1(f, PLIM__EW_NEG, divide(f, mul(f, dy, y), b));
    case PLIM__EW_POW:
        if (k == 0) return mul(f, dy, mul(f, b, f2(f, PLIM__EW_POW, a, fc(f, PLIM__EW_ADD, b, -1))));
        return mul(f, dy, mul(f, y, f1(f, PLIM__EW_LOG, a)));
    /* equal operands: the second has it, so that max(x, 0) passes nothing at 0 */
    case PLIM__EW_MAXIMUM: return masked(f, compare(f, PLIM__EW_GREATER, y, b), dy, k == 0);
    case PLIM__EW_MINIMUM: return masked(f, compare(f, PLIM__EW_LESS, y, b), dy, k == 0);
    case PLIM__EW_ATAN2: {
        const uint32_t scaled = divide(f, dy, f2(f, PLIM__EW_ADD, square(f, a), square(f, b)));
        return k == 0 ? mul(f, scaled, b) : f1(f, PLIM__EW_NEG, mul(f, scaled, a));
    }
    case PLIM__EW_HYPOT: return divide(f, mul(f, dy, k == 0 ? a : b), y);
    case PLIM__EW_LOGADDEXP: return mul(f, dy, f1(f, PLIM__EW_EXP, f2(f, PLIM__EW_SUB, k == 0 ? a : b, y)));
    default: return PLIM__NONE;
    }
}

/* Where and clip. */
static uint32_t three_operands(formula *f, const args *x, uint32_t k)
{
    if (x->fn == PLIM__EW_WHERE) return k == 0 ? PLIM__NONE : masked(f, x->a, x->dy, k == 1);
    if (k == 1) return masked(f, compare(f, PLIM__EW_LESS_EQUAL, x->y, x->b), x->dy, true);
    const uint32_t below = masked(f, compare(f, PLIM__EW_LESS, x->y, x->c), x->dy, k == 0);
    return k == 0 ? masked(f, compare(f, PLIM__EW_GREATER, x->y, x->b), below, true) : below;
}

static bool has_gradient(plim__ew fn)
{
    switch (fn) { /* steps, which are flat between their edges, have one: nothing */
    case PLIM__EW_FLOOR_DIV: case PLIM__EW_MOD: case PLIM__EW_COPYSIGN: case PLIM__EW_NEXTAFTER: return false;
    default: return true;
    }
}

plim_status plim__grad_elementwise(plim__gradient *d)
{
    plim_graph *g = d->graph;
    const plim__node n = g->node[d->node];
    const plim_dtype compute = (plim_dtype)n.attr.i[0];
    PLIM_FAIL_IF(!has_gradient((plim__ew)n.attr.kind), d->err, PLIM_E_UNSUPPORTED, "%s passes no gradient", plim__ew_name((plim__ew)n.attr.kind));
    if (!plim__dtype_is_float(compute)) return PLIM_OK;
    const bool where = n.attr.kind == PLIM__EW_WHERE;
    uint32_t in[3] = {0};
    for (uint32_t k = 0; k < n.n_in; k++) {
        in[k] = n.in[k];
        if (!(where && k == 0)) PLIM_TRY(plim__op_cast(g, n.in[k], compute, &in[k], d->err));
    }
    args x = {.fn = (plim__ew)n.attr.kind, .a = in[0], .b = in[1], .c = in[2]};
    PLIM_TRY(plim__op_cast(g, n.out[0], compute, &x.y, d->err));
    PLIM_TRY(plim__op_cast(g, d->dout[0], compute, &x.dy, d->err));
    for (uint32_t k = 0; k < n.n_in; k++) {
        if (!d->want[k]) continue;
        formula f = {.g = g, .err = d->err};
        const uint32_t part = n.n_in == 1 ? one_operand(&f, &x) : n.n_in == 2 ? two_operands(&f, &x, k) : three_operands(&f, &x, k);
        PLIM_TRY(f.status);
        if (part != PLIM__NONE) PLIM_TRY(plim__grad_like(g, part, n.in[k], &d->din[k], d->err));
    }
    return PLIM_OK;
}
