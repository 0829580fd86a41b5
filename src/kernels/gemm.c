/* BLIS takes general strides, so a box of a tensor in any order goes in as it lies. Its packing buffers come from pools that keep
 * what they got: constant after the first call (plim__gemm_warm), measured and counted by the planner as an extra.
 *
 * BLIS is called with one thread: its own threads meet at barriers, where they spin, which on a shared machine costs many times the work.
 * A large product is cut into strips instead, which the pool's threads do without waiting for each other. */
#include "kernels/gemm.h"

#include "core/size.h"
#include "kernels/gemm_panels.h"
#include "kernels/gemm_small.h"
#include "os/os.h"

#include <blis.h>
#include <string.h>

#define THREADS_WORTH 2e6 /* multiplications below which waking a thread does not pay */
#define SIDE_ALL 3072     /* rows and columns of what all threads are at together: it bounds what they pack */
#define SIDE_MIN 96
#define GRAIN 16          /* strips start at whole register tiles */

static rntm_t one_thread(void)
{
    rntm_t rntm;
    bli_rntm_init_from_global(&rntm);
    bli_rntm_set_num_threads(1, &rntm);
    return rntm;
}

static void blis(plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k)
{
    rntm_t rntm = one_thread();
    double one = 1;
    bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one, a.data, a.row, a.col, b.data, b.row, b.col, &one, c.data, c.row, c.col, NULL,
                 &rntm);
}

/* ---- strips */

typedef struct strips {
    plim__matrix c, a, b;
    int64_t m, n, k;
    int64_t side;        /* of a piece, at most */
    int64_t rows, cols;  /* of a strip: all of one of them */
} strips;

static plim__matrix at(plim__matrix m, int64_t row, int64_t col) { return (plim__matrix){(double *)m.data + row * m.row + col * m.col, m.row, m.col}; }

/* One strip, in pieces of no more than `side` rows and columns. */
static void run_strip(void *arg, uint64_t strip, uint32_t thread)
{
    const strips *s = arg;
    const int64_t i0 = s->rows < s->m ? (int64_t)strip * s->rows : 0, j0 = s->rows < s->m ? 0 : (int64_t)strip * s->cols;
    const int64_t i1 = plim__min(i0 + s->rows, s->m), j1 = plim__min(j0 + s->cols, s->n);
    (void)thread;
    for (int64_t i = i0; i < i1; i += s->side)
        for (int64_t j = j0; j < j1; j += s->side)
            blis(at(s->c, i, j), at(s->a, i, 0), at(s->b, 0, j), plim__min(s->side, i1 - i), plim__min(s->side, j1 - j), s->k);
}

static int64_t share(int64_t n, uint32_t threads) { return plim__ceil_div(plim__ceil_div(n, (int64_t)threads), GRAIN) * GRAIN; }

static void run_strips(strips *s, uint32_t threads)
{
    if ((double)s->m * (double)s->n * (double)s->k < THREADS_WORTH || plim__max(s->m, s->n) < 2 * GRAIN) threads = 1;
    s->side = plim__max(SIDE_ALL / (int64_t)threads / GRAIN * GRAIN, SIDE_MIN);
    s->rows = s->m > s->n ? share(s->m, threads) : s->m;
    s->cols = s->m > s->n ? s->n : share(s->n, threads);
    const uint64_t n = (uint64_t)(s->m > s->n ? plim__ceil_div(s->m, s->rows) : plim__ceil_div(s->n, s->cols));
    if (n == 1) run_strip(s, 0, 0);
    else plim__parallel(threads, n, run_strip, s);
}

/* Integers wrap, as NumPy's do: the product is formed in u64, whose low bits are those of i64 too. */
static void gemm_u64(plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k)
{
    uint64_t *cp = c.data;
    const uint64_t *ap = a.data, *bp = b.data;
    for (int64_t i = 0; i < m; i++)
        for (int64_t p = 0; p < k; p++) {
            const uint64_t x = ap[i * a.row + p * a.col];
            for (int64_t j = 0; j < n; j++) cp[i * c.row + j * c.col] += x * bp[p * b.row + j * b.col];
        }
}

static void clear(plim_dtype dtype, plim__matrix c, int64_t m, int64_t n)
{
    const int64_t bytes = (int64_t)plim_dtype_bytes(dtype);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) memset((char *)c.data + (i * c.row + j * c.col) * bytes, 0, (size_t)bytes);
}

void plim__gemm(plim_dtype dtype, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k,
                void *scratch)
{
    const bool panels = dtype == PLIM_F32 && k > 0 && !plim__gemm_is_small(m, n, k);
    if (!more && !panels) clear(dtype, c, m, n);
    if (m == 0 || n == 0 || k == 0) return;
    if (panels) {
        plim__gemm_panels(threads, more, c, a, b, m, n, k, scratch);
    } else if (dtype == PLIM_F32) {
        plim__gemm_small(threads, c, a, b, m, n, k);
    } else if (dtype == PLIM_F64) {
        run_strips(&(strips){.c = c, .a = a, .b = b, .m = m, .n = n, .k = k}, threads);
    } else {
        PLIM_ASSERT(dtype == PLIM_I64 || dtype == PLIM_U64);
        gemm_u64(c, a, b, m, n, k);
    }
}

uint64_t plim__gemm_scratch(plim_dtype dtype, uint32_t threads, int64_t m, int64_t n, int64_t k)
{
    return dtype == PLIM_F32 ? plim__gemm_panels_scratch(threads, m, n, k) : 0;
}

static void warm_one(void *arg, uint64_t i, uint32_t thread)
{
    enum { SIDE = 8, CHAIN = 256 };
    static const double zero[SIDE + CHAIN];
    double out[SIDE * SIDE] = {0};
    (void)arg, (void)i, (void)thread;
    blis((plim__matrix){out, SIDE, 1}, (plim__matrix){(void *)zero, 1, 1}, (plim__matrix){(void *)zero, 1, 1}, SIDE, SIDE, CHAIN);
}

void plim__gemm_warm(uint32_t threads) { plim__parallel(threads, threads, warm_one, NULL); }
