#include "kernels/gemm_panels.h"

#include "core/shape.h"
#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/turn.h"
#include "os/os.h"

#include <string.h>

#define LANES_(name) name##_base
#define LANES(name) LANES_(name)
#define LANES_NAME "base"

#define T float
#define WIDTH 4
#define ROWS 3
#define COLS 16
#include "kernels/gemm_panels_lanes.inc"

#define T double
#define WIDTH 2
#define ROWS 3
#define COLS 8
#include "kernels/gemm_panels_lanes.inc"

#define CHAIN 256         /* of a panel: 32 KiB, most of a first-level cache */
#define BLOCK_BYTES 1024  /* of a row of the panels that are there at a time: 256 KiB in all, half of a small second-level cache */
#define BLOCK_ROWS 168    /* of a that meet them, in whole tiles */
#define TURN_COLS 64      /* columns up to which rows that lie across are taken as they lie */
#define THREADS_WORTH 1e6 /* multiplications below which waking a thread does not pay */

typedef struct product {
    const plim__panel_lanes *lanes;
    plim__matrix c, a, b;
    int64_t m, n, k;
    bool more;          /* c holds something to add to */
    int64_t rows, cols; /* of a thread's part: all of one of them */
    int64_t size;         /* bytes of an element */
    int64_t block_cols;   /* whose panels are there at a time */
    char *scratch;
    int64_t scratch_step; /* bytes of a thread's */
} product;

/* A part of it, or a block. */
typedef struct part {
    plim__range i, j, p;
    char *panels; /* of b */
    char *turned; /* where rows of a go that are none as they lie */
} part;

static int64_t share(int64_t n, int64_t parts, int64_t grain) { return plim__ceil_div(plim__ceil_div(n, parts), grain) * grain; }

static char *at(const product *w, plim__matrix m, int64_t row, int64_t col) { return (char *)m.data + (row * m.row + col * m.col) * w->size; }

typedef uint64_t dword __attribute__((may_alias)); /* the bits of a double */
typedef uint32_t word __attribute__((may_alias));  /* the bits of a float */

/* out[j][i] = in[i][j], i < rows, j < cols. */
static void transpose(const product *w, void *out, int64_t out_row, const void *in, int64_t in_row, int64_t rows, int64_t cols)
{
    if (w->size == 4) {
        PLIM__BEST(plim__turn)(out, out_row, in, in_row, rows, cols);
        return;
    }
    PLIM_ASSERT(w->size == 8);
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) ((dword *)out)[j * out_row + i] = ((const dword *)in)[i * in_row + j];
}

/* Columns of a panel, element by element: a size that the compiler knows makes each copy a load and a store. */
#define PACK_ASIDE(T)                                                                                                             \
    static void pack_aside_##T(T *to, int64_t wide, const T *from, int64_t row, int64_t col, int64_t rows, int64_t cols)         \
    {                                                                                                                             \
        for (int64_t i = 0; i < rows; i++)                                                                                       \
            for (int64_t q = 0; q < cols; q++) to[i * wide + q] = from[i * row + q * col];                                        \
    }

PACK_ASIDE(word)
PACK_ASIDE(dword)

/* One panel: columns [j, j + cols) of rows p of b. What is beyond them is 0. */
static void pack(const product *w, char *to, plim__range p, int64_t j, int64_t cols)
{
    const plim__matrix b = w->b;
    const int64_t wide = w->lanes->cols, n = plim__range_len(p), row = wide * w->size;
    if (b.col == 1 && cols == wide) {
        for (int64_t i = 0; i < n; i++) memcpy(to + i * row, at(w, b, p.lo + i, j), (size_t)row);
        return;
    }
    if (cols < wide) memset(to, 0, (size_t)(n * row));
    if (b.row == 1) {
        transpose(w, to, wide, at(w, b, p.lo, j), b.col, cols, n);
        return;
    }
    PLIM_ASSERT(w->size == 4 || w->size == 8);
    if (w->size == 4) pack_aside_word((word *)to, wide, (const word *)at(w, b, p.lo, j), b.row, b.col, n, cols);
    else pack_aside_dword((dword *)to, wide, (const dword *)at(w, b, p.lo, j), b.row, b.col, n, cols);
}

/* c (rows, cols) = or += sum, whose rows are `wide` apart. */
#define PUT_ASIDE(T)                                                                      \
    static void put_aside_##T(const product *w, bool more, T *c, const T *sum, int64_t rows, int64_t cols) \
    {                                                                                     \
        for (int64_t r = 0; r < rows; r++)                                                \
            for (int64_t q = 0; q < cols; q++) {                                          \
                T *to = &c[r * w->c.row + q * w->c.col];                                  \
                const T x = sum[r * w->lanes->cols + q];                                  \
                *to = more ? *to + x : x;                                                 \
            }                                                                             \
    }

PUT_ASIDE(float)
PUT_ASIDE(double)

/* A tile by a panel of which not all columns are c's, or whose columns are not neighbours there. */
static void tile_aside(const product *w, bool more, const plim__matrix *a, const char *panel, int64_t k, int64_t rows, void *c, int64_t cols)
{
    _Alignas(64) char sum[PLIM__PANEL_ROWS * PLIM__PANEL_COLS * sizeof(float)]; /* there are half as many doubles */
    PLIM_ASSERT(w->lanes->rows * w->lanes->cols * w->size <= (int64_t)sizeof sum);
    w->lanes->tile(false, sum, w->lanes->cols, a, panel, k, (int)rows);
    if (w->size == 4) put_aside_float(w, more, c, (const float *)sum, rows, cols);
    else put_aside_double(w, more, c, (const double *)sum, rows, cols);
}

/* The n rows of a by one panel, in tiles that are as equal as can be. @param c  their first element */
static void run_rows(const product *w, bool more, plim__matrix a, int64_t n, const char *panel, int64_t k, char *c, int64_t cols)
{
    const int64_t tiles = plim__ceil_div(n, w->lanes->rows), high = n / tiles, higher = n % tiles;
    const bool aside = w->c.col != 1 || cols < w->lanes->cols;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t rows = high + (t < higher);
        if (aside) tile_aside(w, more, &a, panel, k, rows, c, cols);
        else w->lanes->tile(more, c, w->c.row, &a, panel, k, (int)rows);
        a.data = at(w, a, rows, 0);
        c += rows * w->c.row * w->size;
    }
}

/* A block of rows of a, for the chain's piece p: turned, where what is a row lies across and several panels will want it. */
static plim__matrix rows_of(const product *w, const part *x, int64_t i, int64_t n)
{
    const int64_t k = plim__range_len(x->p);
    plim__matrix a = {at(w, w->a, i, x->p.lo), w->a.row, w->a.col};
    if (a.row != 1 || a.col == 1 || plim__range_len(x->j) <= TURN_COLS) return a;
    transpose(w, x->turned, k, a.data, a.col, k, n);
    return (plim__matrix){x->turned, k, 1};
}

/* A block of panels against all rows. */
static void run_block(const product *w, const part *x)
{
    const int64_t wide = w->lanes->cols, k = plim__range_len(x->p), step = k * wide * w->size;
    for (int64_t j = x->j.lo; j < x->j.hi; j += wide) pack(w, x->panels + (j - x->j.lo) / wide * step, x->p, j, plim__min(wide, x->j.hi - j));
    for (int64_t i = x->i.lo; i < x->i.hi; i += BLOCK_ROWS) {
        const int64_t n = plim__min(BLOCK_ROWS, x->i.hi - i);
        const plim__matrix a = rows_of(w, x, i, n);
        for (int64_t j = x->j.lo; j < x->j.hi; j += wide)
            run_rows(w, w->more || x->p.lo > 0, a, n, x->panels + (j - x->j.lo) / wide * step, k, at(w, w->c, i, j),
                     plim__min(wide, x->j.hi - j));
    }
}

/* Elements that a thread copies panels to, and rows. Either side may be that of the columns. */
static int64_t panels_most(int64_t size, int64_t m, int64_t n, int64_t k)
{
    return plim__min(plim__max(k, 1), CHAIN) * plim__min(plim__ceil_div(plim__max(m, n), PLIM__PANEL_COLS) * PLIM__PANEL_COLS, BLOCK_BYTES / size);
}

static int64_t rows_most(int64_t m, int64_t n, int64_t k) { return plim__min(plim__max(k, 1), CHAIN) * plim__min(plim__max(m, n), BLOCK_ROWS); }

static void run_part(void *arg, uint64_t number, uint32_t worker)
{
    const product *w = arg;
    const bool by_rows = w->rows < w->m;
    const int64_t i = by_rows ? (int64_t)number * w->rows : 0, j0 = by_rows ? 0 : (int64_t)number * w->cols, j1 = plim__min(j0 + w->cols, w->n);
    const int64_t chain = share(w->k, plim__ceil_div(w->k, CHAIN), 4);
    char *panels = w->scratch + worker * w->scratch_step;
    for (int64_t j = j0; j < j1; j += w->block_cols)
        for (int64_t p = 0; p < w->k; p += chain) {
            const part x = {{i, plim__min(i + w->rows, w->m)}, {j, plim__min(j + w->block_cols, j1)}, {p, plim__min(p + chain, w->k)},
                            panels, panels + panels_most(w->size, w->m, w->n, w->k) * w->size};
            run_block(w, &x);
        }
}

static int64_t thread_bytes(int64_t size, int64_t m, int64_t n, int64_t k)
{
    return plim__ceil_div((panels_most(size, m, n, k) + rows_most(m, n, k)) * size, 64) * 64;
}

static plim__matrix turned(plim__matrix m) { return (plim__matrix){m.data, m.col, m.row}; }

void plim__gemm_panels_by(const plim__panel_lanes *lanes, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n,
                          int64_t k, void *scratch)
{
    product w = {.lanes = lanes, .more = more, .c = c, .a = a, .b = b, .m = m, .n = n, .k = k, .size = lanes->size,
                 .block_cols = BLOCK_BYTES / lanes->size, .scratch = scratch, .scratch_step = thread_bytes(lanes->size, m, n, k)};
    if (m == 0 || n == 0 || k == 0) return;
    if ((c.col != 1 && c.row == 1) || (n < lanes->cols && m > n)) { /* a panel of few columns is mostly zeros */
        w.c = turned(c), w.a = turned(b), w.b = turned(a);
        w.m = n, w.n = m;
    }
    if ((double)m * (double)n * (double)k < THREADS_WORTH) threads = 1;
    const bool by_rows = w.m > w.n;
    w.rows = by_rows ? share(w.m, threads, lanes->rows) : w.m;
    w.cols = by_rows ? w.n : share(w.n, threads, lanes->cols);
    const uint64_t parts = (uint64_t)(by_rows ? plim__ceil_div(w.m, w.rows) : plim__ceil_div(w.n, w.cols));
    if (parts == 1) run_part(&w, 0, 0);
    else plim__parallel(threads, parts, run_part, &w);
}

void plim__gemm_panels(plim_dtype dtype, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k,
                       void *scratch)
{
    PLIM_ASSERT(dtype == PLIM_F32 || dtype == PLIM_F64);
    const plim__panel_lanes *lanes = dtype == PLIM_F32 ? PLIM__BEST(&plim__panel_lanes_float) : PLIM__BEST(&plim__panel_lanes_double);
#ifdef PLIM_KERNELS_V4
    if (plim__cpu_has_v4()) lanes = dtype == PLIM_F32 ? &plim__panel_lanes_float_v4 : &plim__panel_lanes_double_v4;
#endif
    plim__gemm_panels_by(lanes, threads, more, c, a, b, m, n, k, scratch);
}

uint64_t plim__gemm_panels_scratch(plim_dtype dtype, uint32_t threads, int64_t m, int64_t n, int64_t k)
{
    return (uint64_t)thread_bytes((int64_t)plim_dtype_bytes(dtype), m, n, k) * threads;
}
