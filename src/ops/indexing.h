/* The two index expressions that most rows consist of. */
#ifndef PLIM_OPS_INDEXING_H
#define PLIM_OPS_INDEXING_H

#include "graph/op.h"

/** One element per iteration of `axis`, the same index. */
static inline plim__index plim__index_along(uint32_t axis)
{
    return (plim__index){.axis = (int32_t)axis, .stride = 1, .div = 1, .window = 1};
}

/** [lo, lo + n) in every iteration. */
static inline plim__index plim__index_fixed(int64_t lo, int64_t n)
{
    return (plim__index){.axis = -1, .offset = lo, .div = 1, .window = n};
}

/** One parallel axis per dimension of `s`, each indexing that dimension of output 0. */
static inline void plim__axes_parallel(plim__axes *axes, const plim_shape *s)
{
    axes->n = s->rank;
    for (uint32_t d = 0; d < s->rank; d++) {
        axes->axis[d] = (plim__axis){.extent = s->dim[d], .kind = PLIM__PARALLEL};
        axes->out[0][d] = (int8_t)d;
    }
}

/** Reads of an input of shape `in` that is broadcast, NumPy's way, against an output of shape `out` with parallel axes. */
void plim__reads_broadcast(const plim_shape *in, const plim_shape *out, plim__index *index);

/** Input k cut to what the part reads, and seen with the rank and extents of the box `like`: stride 0 where it is broadcast. */
plim__view plim__view_broadcast(const plim__call *c, uint32_t k, const plim__view *like);

#endif
