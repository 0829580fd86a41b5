/* plim__ew_run: from views of any dtype and stride to the typed loops.
 *
 * The loop nest of all operands is reduced first (strided.h). Its innermost one or two dimensions are then run in blocks: a stretch of one
 * row, or several whole rows where rows are short, so that a loop always has many elements. An operand that is dense over the
 * block and has the compute type is used where it lies; any other is gathered and converted into a chunk on the stack:
 *
 *     in[k] --gather--> raw --convert--> chunk[k] --loop--> result --convert--> raw --scatter--> out
 *
 * A chunk is kept while its source address stays: a broadcast operand is expanded once, not once per block.
 * 40 KiB of stack, nothing allocated, no globals: any number of threads may run on different blocks. */
#include "kernels/elementwise.h"
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise_loops.h"
#include "kernels/strided.h"

#include <string.h>

#define CHUNK 1024
#define SHORT_ROW 128 /* rows below this are run several at a time */
#define MAX_IN 3
#define OPERANDS (MAX_IN + 1)

/* ----------------------------------------------------------------------------------------------- the table */

typedef struct ew_row {
    const char *name;
    uint32_t arity;
    plim__ew_class cls;
} ew_row;

#define CLASS_ARITH PLIM__EW_ARITH
#define CLASS_INTS PLIM__EW_INTS
#define CLASS_FLOAT PLIM__EW_FLOAT
#define CLASS_ROUND PLIM__EW_ROUND_CLASS
#define CLASS_COMPARE PLIM__EW_COMPARE
#define CLASS_LOGIC PLIM__EW_LOGIC
#define CLASS_TEST PLIM__EW_TEST

static const ew_row table[PLIM__EW_COUNT] = {
#define X(id, text, args, kind) [PLIM__EW_##id] = {text, args, CLASS_##kind},
    PLIM__EW_LIST(X)
#undef X
};

const char *plim__ew_name(plim__ew fn) { return table[fn].name; }
uint32_t plim__ew_arity(plim__ew fn) { return table[fn].arity; }
plim__ew_class plim__ew_class_of(plim__ew fn) { return table[fn].cls; }

double plim__ew_evaluations(plim__ew fn, plim_dtype compute)
{
    const double wide = compute == PLIM_F32 ? 1 : 2; /* half as many to a vector */
    switch (fn) {
    case PLIM__EW_DIV: case PLIM__EW_RECIPROCAL: case PLIM__EW_SQRT: case PLIM__EW_COPYSIGN: return 0;
    case PLIM__EW_FLOOR_DIV: case PLIM__EW_MOD: return plim__dtype_is_float(compute) ? 5 * wide : 1.5;
    case PLIM__EW_POW: return 2.5 * wide;
    case PLIM__EW_ATAN2: case PLIM__EW_NEXTAFTER: case PLIM__EW_CBRT: case PLIM__EW_HYPOT: return 1.5 * wide;
    case PLIM__EW_LOGADDEXP: return 2.25 * wide;
    default: return table[fn].cls == PLIM__EW_FLOAT ? wide : 0;
    }
}

double plim__ew_weight(plim__ew fn)
{
    return fn == PLIM__EW_DIV || fn == PLIM__EW_RECIPROCAL || fn == PLIM__EW_SQRT ? 1.5 : 1;
}

/* ----------------------------------------------------------------------------------------------- operands */

typedef struct operand {
    uint64_t item;      /* bytes of an element in memory */
    int64_t row, col;   /* steps of the two innermost dimensions in bytes; row is 0 where there is only one */
    plim__convert_loop convert; /* between memory and loop; NULL: same type */
    void *chunk;
    const char *held;   /* what the chunk was filled from, and how many elements of it */
    int64_t held_n;
} operand;

static bool dense(const operand *o, int64_t rows, int64_t cols)
{
    return (o->col == (int64_t)o->item || cols == 1) && (rows == 1 || o->row == cols * (int64_t)o->item);
}

/* Dense data of the loop's type for a block at `src`. */
static const void *fetch(operand *o, const char *src, void *raw, int64_t rows, int64_t cols)
{
    const int64_t n = rows * cols;
    const bool flat = dense(o, rows, cols);
    if (flat && !o->convert) return src;
    if (o->held == src && o->held_n >= n) return o->chunk;
    o->held = src;
    o->held_n = n;
    if (flat) {
        o->convert(o->chunk, src, (uint64_t)n);
    } else {
        plim__gather(o->convert ? raw : o->chunk, src, o->item, rows, cols, o->row, o->col);
        if (o->convert) o->convert(o->chunk, raw, (uint64_t)n);
    }
    return o->chunk;
}

static void store(const operand *o, char *dst, const void *result, void *raw, int64_t rows, int64_t cols)
{
    const bool flat = dense(o, rows, cols);
    if (o->convert) {
        o->convert(flat ? dst : raw, result, (uint64_t)(rows * cols));
        if (flat) return;
        result = raw;
    }
    plim__scatter(dst, result, o->item, rows, cols, o->row, o->col);
}

/* ---------------------------------------------------------------------------------------------- the blocks */

typedef struct runner {
    plim__strided s; /* 0 is the output, 1... the inputs */
    operand op[OPERANDS];
    plim__ew_loop loop;
    void *raw;
} runner;

static void run_block(runner *r, char *const *data, int64_t rows, int64_t cols)
{
    const void *in[MAX_IN];
    for (uint32_t k = 1; k < r->s.count; k++) in[k - 1] = fetch(&r->op[k], data[k], r->raw, rows, cols);
    operand *out = &r->op[0];
    if (dense(out, rows, cols) && !out->convert) {
        r->loop(data[0], in, (uint64_t)(rows * cols));
    } else {
        r->loop(out->chunk, in, (uint64_t)(rows * cols));
        store(out, data[0], out->chunk, r->raw, rows, cols);
    }
}

static bool all_direct(const runner *r)
{
    for (uint32_t k = 0; k < r->s.count; k++)
        if (r->op[k].convert || !dense(&r->op[k], 1, 2)) return false;
    return true;
}

/* Runs blocks of `rows` x `cols` over the innermost dimensions, and those over the rest of the nest. */
static void run_blocks(runner *r)
{
    const uint32_t last = r->s.rank - 1;
    const bool tall = r->s.rank > 1 && r->s.n[last] < SHORT_ROW;
    const int64_t n_col = r->s.n[last], n_row = tall ? r->s.n[last - 1] : 1;
    const int64_t cols = tall || all_direct(r) ? n_col : plim__min(n_col, CHUNK);
    const int64_t rows = tall ? plim__min(n_row, CHUNK / n_col) : 1;
    char *data[PLIM__STRIDED_MAX], *block[OPERANDS];
    int64_t at[PLIM_MAX_RANK] = {0};
    memcpy(data, r->s.data, sizeof data);
    do {
        for (int64_t i = 0; i < n_row; i += rows) {
            for (int64_t j = 0; j < n_col; j += cols) {
                for (uint32_t k = 0; k < r->s.count; k++) block[k] = data[k] + i * r->op[k].row + j * r->op[k].col;
                run_block(r, block, plim__min(rows, n_row - i), plim__min(cols, n_col - j));
            }
        }
    } while (plim__strided_next(&r->s, data, at, tall ? last - 1 : last));
}

/* ------------------------------------------------------------------------------------------- the functions */

/* A power with one constant exponent is often a simpler function; these are the ones that NumPy takes out, and the cube. */
static plim__ew simplify_power(const plim__view *exponent, plim_dtype compute)
{
    for (uint32_t d = 0; d < exponent->rank; d++)
        if (exponent->n[d] != 1 && exponent->stride[d] != 0) return PLIM__EW_POW;
    double e;
    plim__convert(&e, PLIM_F64, exponent->data, exponent->dtype, 1);
    const bool fractions = plim__dtype_is_float(compute);
    if (e == 1) return PLIM__EW_COPY;
    if (e == 2) return PLIM__EW_SQUARE;
    if (e == 3) return PLIM__EW_CUBE;
    if (fractions && e == 0.5) return PLIM__EW_SQRT;
    if (fractions && e == -1) return PLIM__EW_RECIPROCAL;
    return PLIM__EW_POW;
}

/* nextafter among the numbers of a float of 16 bits, whose bits without the sign count up with its magnitude. The neighbour in f32 would round back. */
static void next_narrow(plim_dtype t, float *out, const float *from, const float *toward, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) {
        const float a = from[i], b = toward[i];
        uint16_t bits;
        out[i] = a == b ? b : a + b; /* NaN if one is */
        if (!(a < b) && !(a > b)) continue;
        plim__convert(&bits, t, &a, PLIM_F32, 1);
        if (a == 0) bits = b < 0 ? 0x8001 : 1;
        else bits = (uint16_t)((a < b) == (a > 0) ? bits + 1 : bits - 1);
        plim__convert(&out[i], PLIM_F32, &bits, t, 1);
    }
}

static void next_f16(void *out, const void *const *in, uint64_t n) { next_narrow(PLIM_F16, out, in[0], in[1], n); }
static void next_bf16(void *out, const void *const *in, uint64_t n) { next_narrow(PLIM_BF16, out, in[0], in[1], n); }

static plim__ew_loop find_loop(plim__ew fn, plim_dtype compute, plim_dtype out)
{
    if (fn == PLIM__EW_NEXTAFTER && compute == PLIM_F32 && out == PLIM_F16) return next_f16;
    if (fn == PLIM__EW_NEXTAFTER && compute == PLIM_F32 && out == PLIM_BF16) return next_bf16;
    return PLIM__BEST(plim__ew_loop)(fn, compute);
}

/* The type that operand k (0: the output) has inside the loop. */
static plim_dtype loop_dtype(plim__ew fn, plim_dtype compute, uint32_t k)
{
    if (k == 0) return plim__ew_gives_bool(fn) ? PLIM_BOOL : compute;
    return fn == PLIM__EW_WHERE && k == 1 ? PLIM_BOOL : compute;
}

void plim__ew_run(plim__ew fn, plim_dtype compute, const plim__view *out, const plim__view *in, uint32_t n_in)
{
    PLIM_ASSERT(n_in == plim__ew_arity(fn) && n_in <= MAX_IN);
    if (fn == PLIM__EW_COPY) {
        plim__copy(out, &in[0]);
        return;
    }
    if (plim__view_count(out) == 0) return;
    if (fn == PLIM__EW_POW) {
        fn = simplify_power(&in[1], compute);
        if (fn != PLIM__EW_POW) n_in = 1;
    }

    _Alignas(64) char chunk[OPERANDS][CHUNK * 8], raw[CHUNK * 8];
    const plim__view *view[OPERANDS] = {out};
    for (uint32_t k = 0; k < n_in; k++) view[k + 1] = &in[k];
    runner r = {.loop = find_loop(fn, compute, out->dtype), .raw = raw};
    PLIM_ASSERT(r.loop);
    plim__strided_new(&r.s, view, n_in + 1);
    for (uint32_t k = 0; k <= n_in; k++) {
        const plim_dtype inside = loop_dtype(fn, compute, k);
        r.op[k] = (operand){.item = plim_dtype_bytes(view[k]->dtype), .chunk = chunk[k],
                            .row = r.s.rank > 1 ? r.s.step[k][r.s.rank - 2] : 0, .col = r.s.step[k][r.s.rank - 1],
                            .convert = k == 0 ? plim__convert_find(view[k]->dtype, inside) : plim__convert_find(inside, view[k]->dtype)};
    }
    run_blocks(&r);
}
