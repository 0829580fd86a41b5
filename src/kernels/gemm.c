/* BLIS takes general strides, so a box of a tensor in any order goes in as it lies. Its packing buffers come from pools that keep
 * what they got: constant after the first call (plim__gemm_warm), measured and counted by the planner as an extra. */
#include "kernels/gemm.h"

#include "kernels/gemm_small.h"

#include <blis.h>
#include <stdlib.h>

#define THREADS_WORTH 4e6 /* multiplications below which threads wait for each other longer than they work */

static rntm_t with_threads(uint32_t threads)
{
    rntm_t rntm;
    bli_rntm_init_from_global(&rntm);
    bli_rntm_set_num_threads((dim_t)threads, &rntm);
    return rntm;
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

static void blis_f32(uint32_t threads, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k)
{
    float one = 1;
    rntm_t rntm = with_threads(threads);
    bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one, a.data, a.row, a.col, b.data, b.row, b.col, &one, c.data, c.row, c.col, NULL, &rntm);
}

void plim__gemm(plim_dtype dtype, uint32_t threads, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k)
{
    if (m == 0 || n == 0 || k == 0) return;
    if (dtype == PLIM_F32 && plim__gemm_is_small(m, n, k)) {
        plim__gemm_small(threads, c, a, b, m, n, k);
        return;
    }
    const uint32_t team = (double)m * (double)n * (double)k < THREADS_WORTH ? 1 : threads;
    if (dtype == PLIM_F32) {
        blis_f32(team, c, a, b, m, n, k);
    } else if (dtype == PLIM_F64) {
        double one = 1;
        rntm_t rntm = with_threads(team);
        bli_dgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, m, n, k, &one, a.data, a.row, a.col, b.data, b.row, b.col, &one, c.data, c.row,
                     c.col, NULL, &rntm);
    } else {
        PLIM_ASSERT(dtype == PLIM_I64 || dtype == PLIM_U64);
        gemm_u64(c, a, b, m, n, k);
    }
}

/* Read only, and seen as a matrix of any extents up to these by strides that overlap: packing it touches all of the buffers. */
void plim__gemm_warm(uint32_t threads, bool large)
{
    enum { M = 128, N = 4096, K = 512 };
    static const float zero[2 * N + K];
    const int64_t m = large ? M : 8, n = large ? N : 8, k = large ? K : 256;
    float *out = calloc((size_t)(m * n), sizeof *out);
    if (!out) return; /* then the run will allocate, or say that it cannot */
    blis_f32(threads, (plim__matrix){out, n, 1}, (plim__matrix){(void *)zero, 2, 1}, (plim__matrix){(void *)zero, 1, 2}, m, n, k);
    free(out);
}
