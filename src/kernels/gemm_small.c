/* Panels of 16 columns of b, 256 rows at a time, against four rows of a: 64 sums in registers. A panel that is not dense is copied to the stack,
 * filled up with zeros; what is left of a panel's last columns is not added to c. */
#include "kernels/gemm_small.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "os/os.h"

#define LANES(name) name##_base
#include "kernels/gemm_small_lanes.inc"

#define ROWS 4
#define CHAIN 256           /* of b at a time */
#define SMALL 5e5           /* multiplications up to which BLIS takes longer */
#define THIN 4              /* rows or columns up to which it does, however long they are */
#define THREADS_WORTH 2e6   /* multiplications below which waking a thread does not pay */

typedef struct product {
    plim__gemm_tile *tile;
    plim__matrix c, a, b;
    int64_t m, n, k;
} product;

bool plim__gemm_is_small(int64_t m, int64_t n, int64_t k) { return m <= THIN || n <= THIN || (double)m * (double)n * (double)k <= SMALL; }

static void pack(float *to, const float *b, int64_t row, int64_t col, int64_t rows, int64_t cols)
{
    for (int64_t p = 0; p < rows; p++, b += row)
        for (int64_t j = 0; j < PLIM__GEMM_COLS; j++) to[p * PLIM__GEMM_COLS + j] = j < cols ? b[j * col] : 0;
}

static void add(float *c, int64_t row, int64_t col, const float *acc, int64_t rows, int64_t cols)
{
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) c[i * row + j * col] += acc[i * PLIM__GEMM_COLS + j];
}

static void run_panel(void *arg, uint64_t panel, uint32_t thread)
{
    const product *w = arg;
    _Alignas(64) float packed[CHAIN * PLIM__GEMM_COLS], acc[ROWS * PLIM__GEMM_COLS];
    const int64_t j = (int64_t)panel * PLIM__GEMM_COLS, cols = plim__min(PLIM__GEMM_COLS, w->n - j);
    const bool direct = w->b.col == 1 && cols == PLIM__GEMM_COLS;
    (void)thread;
    for (int64_t p = 0; p < w->k; p += CHAIN) {
        const int64_t chain = plim__min(CHAIN, w->k - p);
        const float *b = (const float *)w->b.data + p * w->b.row + j * w->b.col;
        if (!direct) pack(packed, b, w->b.row, w->b.col, chain, cols);
        for (int64_t i = 0; i < w->m; i += ROWS) {
            const int64_t rows = plim__min(ROWS, w->m - i);
            const plim__matrix a = {(float *)w->a.data + i * w->a.row + p * w->a.col, w->a.row, w->a.col};
            w->tile(acc, a, direct ? b : packed, direct ? w->b.row : PLIM__GEMM_COLS, rows, chain);
            add((float *)w->c.data + i * w->c.row + j * w->c.col, w->c.row, w->c.col, acc, rows, cols);
        }
    }
}

static plim__matrix turned(plim__matrix m) { return (plim__matrix){m.data, m.col, m.row}; }

void plim__gemm_small(uint32_t threads, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k)
{
    product w = {PLIM__BEST(plim__gemm_tile), c, a, b, m, n, k};
    /* panels of few columns are filled up with zeros: they run along the longer side then */
    if (n < PLIM__GEMM_COLS && m > n) w = (product){w.tile, turned(c), turned(b), turned(a), n, m, k};
    const uint64_t panels = (uint64_t)((w.n + PLIM__GEMM_COLS - 1) / PLIM__GEMM_COLS);
    if (threads == 1 || panels == 1 || (double)m * (double)n * (double)k < THREADS_WORTH)
        for (uint64_t i = 0; i < panels; i++) run_panel(&w, i, 0);
    else plim__parallel(threads, panels, run_panel, &w);
}
