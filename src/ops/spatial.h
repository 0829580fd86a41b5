/* What convolution and pooling share: windows that slide over the dimensions of space of [N, C, space...], as attributes, as shapes and as index
 * expressions.
 *
 * Attributes, each for the one to three dimensions of space: i[0..2] stride, i[3..5] dilation, i[6..8] before, i[9..11] after; i[12] groups;
 * i[13..17] the shape of the result where the inputs do not tell; i[18..20] size where no kernel tells; i[21] dimensions of space. */
#ifndef PLIM_OPS_SPATIAL_H
#define PLIM_OPS_SPATIAL_H

#include "graph/op.h"
#include "kernels/sliding.h"

enum {
    PLIM__SPATIAL_STRIDE = 0,
    PLIM__SPATIAL_DILATION = 3,
    PLIM__SPATIAL_BEFORE = 6,
    PLIM__SPATIAL_AFTER = 9,
    PLIM__SPATIAL_GROUPS = 12,
    PLIM__SPATIAL_SHAPE = 13,
    PLIM__SPATIAL_SIZE = 18,
    PLIM__SPATIAL_SPACE = 21,
};

static_assert(PLIM__SPATIAL_SPACE < 3 * PLIM_MAX_RANK, "attributes fit");

static inline uint32_t plim__spatial_space(const plim__attr *a) { return (uint32_t)a->i[PLIM__SPATIAL_SPACE]; }

/** Copies the attributes that both have. Fails unless there are one to three dimensions of space. */
plim_status plim__spatial_attr(plim__attr *a, const char *what, uint32_t space, const int64_t *stride, const int64_t *dilation, const int64_t *before,
                               const int64_t *after, plim_error *err);
/** Keeps `shape`, of rank space + 2, as the shape of the result. */
plim_status plim__spatial_shape_put(plim__attr *a, const char *what, const plim_shape *shape, plim_error *err);
plim_shape plim__spatial_shape_get(const plim__attr *a);

/** Checks the windows over x and says how many there are: fills y->dim[2...].
 *  @param size  of the windows; @param round_up  a window that begins inside x or before it counts though it ends beyond `after` */
plim_status plim__spatial_check(const plim__attr *a, const char *what, const plim_shape *x, const int64_t *size, bool round_up, plim_shape *y,
                                plim_error *err);

/** The windows of a checked node, with dimensions of extent 1 in front. @param x, y  whole shapes */
plim__sliding plim__spatial_windows(const plim__attr *a, const int64_t *size, const plim_shape *x, const plim_shape *y);

/** A view [N, C, space...] with dimensions of extent 1 between C and space, so that it has three of them. */
plim__view plim__spatial_view(const plim__view *v);

/** What the windows, iterations of `axis`, see in dimension d of space (counted from the first of three). */
static inline plim__index plim__spatial_seen(const plim__sliding *s, uint32_t d, uint32_t axis)
{
    return (plim__index){.axis = (int32_t)axis, .stride = s->stride[d], .offset = -s->before[d], .div = 1,
                         .window = s->dilation[d] * (s->size[d] - 1) + 1};
}

/** The windows that reach over element i, the iterations of `axis`: from ceil((i + before - reach) / stride) to floor((i + before) / stride). */
static inline plim__index plim__spatial_seeing(const plim__sliding *s, uint32_t d, uint32_t axis)
{
    const int64_t reach = s->dilation[d] * (s->size[d] - 1);
    return (plim__index){.axis = (int32_t)axis, .stride = 1, .offset = s->before[d] - reach + s->stride[d] - 1, .div = s->stride[d],
                         .window = reach / s->stride[d] + 1};
}

/** Everything that the windows over an element see, the iterations of `axis`. */
static inline plim__index plim__spatial_around(const plim__sliding *s, uint32_t d, uint32_t axis)
{
    const int64_t reach = s->dilation[d] * (s->size[d] - 1);
    return (plim__index){.axis = (int32_t)axis, .stride = 1, .offset = -reach, .div = 1, .window = 2 * reach + 1};
}

#endif
