/* Windows that slide over three dimensions of space: where each of them lies. Fewer dimensions have extents of 1 in front.
 *
 * Window p of a dimension holds the elements p*stride - before + tap*dilation, tap in [0, size). Elements outside [0, in) are the border. All
 * positions are absolute: whoever holds a box of the tensor subtracts the box's `lo`. */
#ifndef PLIM_KERNELS_SLIDING_H
#define PLIM_KERNELS_SLIDING_H

#include "core/shape.h"
#include "core/size.h"

#define PLIM__SPACE 3

typedef struct plim__sliding {
    int64_t size[PLIM__SPACE], stride[PLIM__SPACE], dilation[PLIM__SPACE];
    int64_t before[PLIM__SPACE], after[PLIM__SPACE];
    int64_t in[PLIM__SPACE], out[PLIM__SPACE]; /* extents of the whole: elements, windows */
} plim__sliding;

static inline int64_t plim__sliding_ceil(int64_t x, int64_t d) { return d == 1 ? x : plim__ceil_div(x, d); }

/** The element that `tap` of window p is. */
static inline int64_t plim__sliding_at(const plim__sliding *s, uint32_t d, int64_t p, int64_t tap)
{
    return p * s->stride[d] - s->before[d] + tap * s->dilation[d];
}

/** The windows of `among` whose `tap` lies in `inside`; maybe none. */
static inline plim__range plim__sliding_meet(const plim__sliding *s, uint32_t d, int64_t tap, plim__range among, plim__range inside)
{
    const int64_t shift = s->before[d] - tap * s->dilation[d];
    const int64_t lo = plim__clamp(plim__sliding_ceil(inside.lo + shift, s->stride[d]), among.lo, among.hi);
    return (plim__range){lo, plim__clamp(plim__sliding_ceil(inside.hi + shift, s->stride[d]), lo, among.hi)};
}

/** The taps of window p that lie in `inside`; maybe none. */
static inline plim__range plim__sliding_taps(const plim__sliding *s, uint32_t d, int64_t p, plim__range inside)
{
    const int64_t first = plim__sliding_at(s, d, p, 0);
    const int64_t lo = plim__clamp(plim__sliding_ceil(inside.lo - first, s->dilation[d]), 0, s->size[d]);
    return (plim__range){lo, plim__clamp(plim__sliding_ceil(inside.hi - first, s->dilation[d]), lo, s->size[d])};
}

/** The windows that reach over some of `part`, which is not empty; maybe none. */
static inline plim__range plim__sliding_touch(const plim__sliding *s, uint32_t d, plim__range part)
{
    const int64_t reach = s->dilation[d] * (s->size[d] - 1);
    const int64_t lo = plim__clamp(plim__sliding_ceil(part.lo + s->before[d] - reach, s->stride[d]), 0, s->out[d]);
    return (plim__range){lo, plim__clamp(plim__floor_div(part.hi - 1 + s->before[d], s->stride[d]) + 1, lo, s->out[d])};
}

/** Taps of one window in all dimensions. */
static inline int64_t plim__sliding_count(const plim__sliding *s) { return s->size[0] * s->size[1] * s->size[2]; }

#endif
