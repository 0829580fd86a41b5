/* Panels of 16 columns of b, 256 rows at a time, against four rows of a: 64 sums in registers. A panel that is not dense is copied to the stack; what is left
 * of a panel's last columns is not added to c.
 *
 * A product of few columns (a layer of ten outputs: its gradient is one for every feature and output, from a few samples) whose c is dense has a kernel of its
 * own: eight rows of c are one stretch of memory, and vectors of it are made from a row of b, repeated, and elements of a column of a, each as often as a row
 * of c is long.
 *
 * Either way an element of c is increased by the sum over 256 products at a time, added up in order: so it has the same bits however rows and columns are cut. */
#include "kernels/gemm_small.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/turn.h"
#include "os/os.h"

#include <string.h>

#define LANES(name) name##_base
#include "kernels/gemm_small_lanes.inc"

#define ROWS 4
#define CHAIN 256           /* of b at a time */
#define SMALL 5e5           /* multiplications up to which packing both operands takes longer */
#define THIN 4              /* rows or columns up to which it does, however long they are */
#define FEW 16              /* rows and columns up to which it does where both are no more */
#define THREADS_WORTH 2e6   /* multiplications below which waking a thread does not pay */
#define BYTES_WORTH 2.5e5   /* unless so many bytes are read and written */
#define OUTER_ROWS 1024     /* of c that a thread takes at a time, where c has few columns */

typedef struct product {
    plim__gemm_tile *tile;
    plim__gemm_outer *outer;
    plim__matrix c, a, b;
    int64_t m, n, k;
} product;

bool plim__gemm_is_small(int64_t m, int64_t n, int64_t k)
{
    return m <= THIN || n <= THIN || (m <= FEW && n <= FEW) || (double)m * (double)n * (double)k <= SMALL;
}

bool plim__gemm_is_outer(plim__matrix c, plim__matrix a, int64_t m, int64_t n, int64_t k)
{
    return n > 1 && n < PLIM__GEMM_COLS && m > n && k <= PLIM__GEMM_OUTER_MAX && c.col == 1 && c.row == n && a.row == 1;
}

static void pack(float *to, const float *b, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    if (row == 1) {
        PLIM__BEST(plim__turn)((plim__word *)to, PLIM__GEMM_COLS, (const plim__word *)b, col, cols, rows);
        return;
    }
    for (int64_t p = 0; p < rows; p++, b += row)
        for (int64_t j = 0; j < cols; j++) to[p * PLIM__GEMM_COLS + j] = b[j * col];
}

static void add(float *c, int64_t row, int64_t col, const float *acc, int64_t rows, int64_t cols)
{
    if (col == 1 && cols == PLIM__GEMM_COLS) {
        for (int64_t i = 0; i < rows; i++)
            for (int64_t j = 0; j < PLIM__GEMM_COLS; j++) c[i * row + j] += acc[i * PLIM__GEMM_COLS + j];
        return;
    }
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) c[i * row + j * col] += acc[i * PLIM__GEMM_COLS + j];
}

/* May the tile take rows [p, p + chain) of b as they lie? It takes 16 columns, some of which may be elements of the next rows: these are b's, too, where b is
 * dense, up to its end. */
static bool lies_well(const product *w, int64_t p, int64_t chain, int64_t cols)
{
    if (w->b.col != 1) return false;
    const int64_t behind = (w->k - (p + chain)) * w->b.row + cols; /* elements from the chain's last row on */
    return cols == PLIM__GEMM_COLS || (w->b.row == w->n && behind >= PLIM__GEMM_COLS);
}

static void run_panel(void *arg, uint64_t panel, uint32_t thread)
{
    const product *w = arg;
    _Alignas(64) float packed[CHAIN * PLIM__GEMM_COLS], acc[ROWS * PLIM__GEMM_COLS];
    const int64_t j = (int64_t)panel * PLIM__GEMM_COLS, cols = plim__min(PLIM__GEMM_COLS, w->n - j);
    (void)thread;
    if (cols < PLIM__GEMM_COLS) memset(packed, 0, sizeof packed); /* columns that are not copied are computed with */
    for (int64_t p = 0; p < w->k; p += CHAIN) {
        const int64_t chain = plim__min(CHAIN, w->k - p);
        const float *b = (const float *)w->b.data + p * w->b.row + j * w->b.col;
        const bool direct = lies_well(w, p, chain, cols);
        if (!direct) pack(packed, b, w->b.row, w->b.col, chain, cols);
        for (int64_t i = 0; i < w->m; i += ROWS) {
            const int64_t rows = plim__min(ROWS, w->m - i);
            const plim__matrix a = {(float *)w->a.data + i * w->a.row + p * w->a.col, w->a.row, w->a.col};
            w->tile(acc, a, direct ? b : packed, direct ? w->b.row : PLIM__GEMM_COLS, rows, chain);
            add((float *)w->c.data + i * w->c.row + j * w->c.col, w->c.row, w->c.col, acc, rows, cols);
        }
    }
}

/* Rows of c, OUTER_ROWS from `part` times that on. */
static void run_outer(void *arg, uint64_t part, uint32_t thread)
{
    const product *w = arg;
    const int64_t i = (int64_t)part * OUTER_ROWS;
    const plim__matrix a = {(float *)w->a.data + i, 1, w->a.col};
    (void)thread;
    w->outer((float *)w->c.data + i * w->n, a, w->b, plim__min(OUTER_ROWS, w->m - i), w->n, w->k);
}

static plim__matrix turned(plim__matrix m) { return (plim__matrix){m.data, m.col, m.row}; }

static bool is_worth_threads(const product *w)
{
    const double m = (double)w->m, n = (double)w->n, k = (double)w->k;
    return m * n * k >= THREADS_WORTH || 4 * (m * k + k * n + m * n) >= BYTES_WORTH;
}

void plim__gemm_small(uint32_t threads, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k)
{
    product w = {PLIM__BEST(plim__gemm_tile), PLIM__BEST(plim__gemm_outer), c, a, b, m, n, k};
    const bool outer = plim__gemm_is_outer(c, a, m, n, k);
    /* panels of few columns are filled up: they run along the longer side then */
    if (!outer && n < PLIM__GEMM_COLS && m > n) w = (product){w.tile, w.outer, turned(c), turned(b), turned(a), n, m, k};
    const int64_t width = outer ? OUTER_ROWS : PLIM__GEMM_COLS;
    const uint64_t parts = (uint64_t)plim__ceil_div(outer ? w.m : w.n, width);
    if (threads == 1 || parts == 1 || !is_worth_threads(&w))
        for (uint64_t i = 0; i < parts; i++) (outer ? run_outer : run_panel)(&w, i, 0);
    else plim__parallel(threads, parts, outer ? run_outer : run_panel, &w);
}
