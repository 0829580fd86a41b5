/* Loops that were compiled once per instruction set give the same bits in each: nothing is fused. */
#ifndef PLIM_TESTS_LANES_H
#define PLIM_TESTS_LANES_H

#include "kernels/convert.h"
#include "parts.h"

#define LANES_N 101 /* no multiple of any vector's length */

/* What a test's loops read and write. */
typedef struct lanes_try {
    float x[LANES_N], y[LANES_N];       /* random numbers */
    int64_t lo[LANES_N], hi[LANES_N];   /* random indices of x */
    float to[LANES_N];
    double acc[LANES_N], result[4];
} lanes_try;

#ifdef PLIM_KERNELS_V3
#define LANES_V3(table) (plim__cpu_has_v3() ? (table) : NULL)
#else
#define LANES_V3(table) NULL
#endif

/* Calls `run` with both tables. @param v3  LANES_V3(...); NULL: this machine has only one */
static inline void lanes_compare(void (*run)(const void *lanes, lanes_try *t), const void *base, const void *v3)
{
    if (!v3) skip();
    static lanes_try a, b;
    parts_rng rng = {3};
    a = (lanes_try){0};
    parts_fill(a.x, PLIM_F32, LANES_N, &rng);
    parts_fill(a.y, PLIM_F32, LANES_N, &rng);
    for (int i = 0; i < LANES_N; i++) {
        a.lo[i] = parts_random(&rng, LANES_N);
        a.hi[i] = parts_random(&rng, LANES_N);
    }
    b = a;
    run(base, &a);
    run(v3, &b);
    assert_memory_equal(&a, &b, sizeof a);
}

#endif
