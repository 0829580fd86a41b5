#include "kernels/gemm.h"

#include "kernels/gemm_panels.h"
#include "kernels/gemm_small.h"

#include <string.h>

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

/* Rows, or columns where these are dense. */
static void clear(plim_dtype dtype, plim__matrix c, int64_t m, int64_t n)
{
    const int64_t bytes = (int64_t)plim_dtype_bytes(dtype);
    if (c.col != 1 && c.row == 1) {
        clear(dtype, (plim__matrix){c.data, c.col, 1}, n, m);
        return;
    }
    for (int64_t i = 0; i < m; i++) {
        char *row = (char *)c.data + i * c.row * bytes;
        if (c.col == 1) memset(row, 0, (size_t)(n * bytes));
        else
            for (int64_t j = 0; j < n; j++) memset(row + j * c.col * bytes, 0, (size_t)bytes);
    }
}

void plim__gemm(plim_dtype dtype, uint32_t threads, bool more, plim__matrix c, plim__matrix a, plim__matrix b, int64_t m, int64_t n, int64_t k,
                void *scratch)
{
    const bool small = plim__gemm_is_small(m, n, k) || plim__gemm_is_outer(c, a, m, n, k);
    const bool panels = k > 0 && (dtype == PLIM_F64 || (dtype == PLIM_F32 && !small));
    if (!more && !panels) clear(dtype, c, m, n);
    if (m == 0 || n == 0 || k == 0) return;
    if (panels) {
        plim__gemm_panels(dtype, threads, more, c, a, b, m, n, k, scratch);
    } else if (dtype == PLIM_F32) {
        plim__gemm_small(threads, c, a, b, m, n, k);
    } else {
        PLIM_ASSERT(dtype == PLIM_I64 || dtype == PLIM_U64);
        gemm_u64(c, a, b, m, n, k);
    }
}

uint64_t plim__gemm_scratch(plim_dtype dtype, uint32_t threads, int64_t m, int64_t n, int64_t k)
{
    return dtype == PLIM_F32 || dtype == PLIM_F64 ? plim__gemm_panels_scratch(dtype, threads, m, n, k) : 0;
}
