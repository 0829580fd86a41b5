#include "ops/spatial.h"

#include "core/size.h"

#include <string.h>

#define LARGEST (INT64_C(1) << 31) /* stride, dilation, border and window: far more than anyone needs, and products of two fit */

plim_status plim__spatial_attr(plim__attr *a, const char *what, uint32_t space, const int64_t *stride, const int64_t *dilation, const int64_t *before,
                               const int64_t *after, plim_error *err)
{
    PLIM_FAIL_IF(space < 1 || space > PLIM__SPACE, err, PLIM_E_INVALID, "%s: %u dimensions of space, not 1 to %d", what, space, PLIM__SPACE);
    memcpy(a->i + PLIM__SPATIAL_STRIDE, stride, space * sizeof *stride);
    memcpy(a->i + PLIM__SPATIAL_DILATION, dilation, space * sizeof *dilation);
    memcpy(a->i + PLIM__SPATIAL_BEFORE, before, space * sizeof *before);
    memcpy(a->i + PLIM__SPATIAL_AFTER, after, space * sizeof *after);
    a->i[PLIM__SPATIAL_SPACE] = space;
    return PLIM_OK;
}

plim_status plim__spatial_shape_put(plim__attr *a, const char *what, const plim_shape *shape, plim_error *err)
{
    const uint32_t rank = plim__spatial_space(a) + 2;
    PLIM_FAIL_IF(shape->rank != rank, err, PLIM_E_SHAPE, "%s: a result of rank %u with %u dimensions of space needs rank %u", what, shape->rank,
                 rank - 2, rank);
    memcpy(a->i + PLIM__SPATIAL_SHAPE, shape->dim, rank * sizeof *shape->dim);
    return PLIM_OK;
}

plim_shape plim__spatial_shape_get(const plim__attr *a)
{
    plim_shape s = {.rank = (plim__spatial_space(a) < PLIM__SPACE ? plim__spatial_space(a) : PLIM__SPACE) + 2}; /* more is refused later */
    memcpy(s.dim, a->i + PLIM__SPATIAL_SHAPE, s.rank * sizeof *s.dim);
    return s;
}

/* One dimension of space, whose windows are as large as `size`. */
static plim_status check_dim(const plim__attr *a, const char *what, uint32_t d, int64_t extent, int64_t size, bool round_up, int64_t *out,
                             plim_error *err)
{
    const int64_t stride = a->i[PLIM__SPATIAL_STRIDE + d], dilation = a->i[PLIM__SPATIAL_DILATION + d];
    const int64_t before = a->i[PLIM__SPATIAL_BEFORE + d], after = a->i[PLIM__SPATIAL_AFTER + d];
    PLIM_FAIL_IF(stride < 1 || stride > LARGEST, err, PLIM_E_INVALID, "%s: a stride of %lld in dimension %u of space", what, (long long)stride, d);
    PLIM_FAIL_IF(dilation < 1 || dilation > LARGEST, err, PLIM_E_INVALID, "%s: a dilation of %lld in dimension %u of space", what,
                 (long long)dilation, d);
    PLIM_FAIL_IF(size < 1 || size > LARGEST, err, PLIM_E_SHAPE, "%s: a window of %lld elements in dimension %u of space", what, (long long)size, d);
    PLIM_FAIL_IF(before < -LARGEST || before > LARGEST || after < -LARGEST || after > LARGEST, err, PLIM_E_INVALID,
                 "%s: a border of %lld and %lld elements in dimension %u of space", what, (long long)before, (long long)after, d);
    PLIM_FAIL_IF(extent < 0 || extent > INT64_MAX / 4, err, PLIM_E_SHAPE, "%s: an extent of %lld in dimension %u of space", what, (long long)extent,
                 d);
    const int64_t span = dilation * (size - 1) + 1, room = extent + before + after;
    PLIM_FAIL_IF(span > room, err, PLIM_E_SHAPE, "%s: a window over %lld elements in dimension %u of space, which has %lld with its border", what,
                 (long long)span, d, (long long)room);
    *out = (room - span) / stride + 1;
    const bool more = round_up && (room - span) % stride != 0 && *out * stride < extent + before;
    *out += more;
    return PLIM_OK;
}

plim_status plim__spatial_check(const plim__attr *a, const char *what, const plim_shape *x, const int64_t *size, bool round_up, plim_shape *y,
                                plim_error *err)
{
    const uint32_t space = plim__spatial_space(a);
    PLIM_FAIL_IF(space < 1 || space > PLIM__SPACE, err, PLIM_E_INVALID, "%s: %u dimensions of space, not 1 to %d", what, space, PLIM__SPACE);
    PLIM_FAIL_IF(x->rank != space + 2, err, PLIM_E_SHAPE, "%s: an input of rank %u with %u dimensions of space needs rank %u", what, x->rank, space,
                 space + 2);
    uint64_t taps = 1;
    for (uint32_t d = 0; d < space; d++) {
        PLIM_TRY(check_dim(a, what, d, x->dim[2 + d], size[d], round_up, &y->dim[2 + d], err));
        PLIM_FAIL_IF(!plim__mul(&taps, taps, (uint64_t)size[d]) || taps > INT64_MAX / 8, err, PLIM_E_SHAPE,
                     "%s: windows with more elements than there are numbers for", what);
    }
    y->rank = space + 2;
    return PLIM_OK;
}

plim__sliding plim__spatial_windows(const plim__attr *a, const int64_t *size, const plim_shape *x, const plim_shape *y)
{
    const uint32_t space = plim__spatial_space(a), front = PLIM__SPACE - space;
    plim__sliding s = {0};
    for (uint32_t d = 0; d < front; d++) s.size[d] = s.stride[d] = s.dilation[d] = s.in[d] = s.out[d] = 1;
    for (uint32_t d = 0; d < space; d++) {
        s.size[front + d] = size[d];
        s.stride[front + d] = a->i[PLIM__SPATIAL_STRIDE + d];
        s.dilation[front + d] = a->i[PLIM__SPATIAL_DILATION + d];
        s.before[front + d] = a->i[PLIM__SPATIAL_BEFORE + d];
        s.after[front + d] = a->i[PLIM__SPATIAL_AFTER + d];
        s.in[front + d] = x->dim[2 + d];
        s.out[front + d] = y->dim[2 + d];
    }
    return s;
}

plim__view plim__spatial_view(const plim__view *v)
{
    plim__view r = {.data = v->data, .dtype = v->dtype, .rank = PLIM__SPACE + 2};
    const uint32_t front = r.rank - v->rank;
    for (uint32_t d = 0; d < r.rank; d++) {
        const bool made = d >= 2 && d < 2 + front;
        const uint32_t from = d < 2 ? d : d - front;
        r.lo[d] = made ? 0 : v->lo[from];
        r.n[d] = made ? 1 : v->n[from];
        r.stride[d] = made ? 0 : v->stride[from];
    }
    return r;
}
