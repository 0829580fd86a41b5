/* Lowering: operators that move elements, and those whose result is known from shapes. Lists of axes, sizes and the like have to be known while
 * the model is read. */
#include "core/dtype.h"
#include "core/size.h"
#include "kernels/convert.h"
#include "models/onnx.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* --------------------------------------------------------------------------------------------------- known values */

static plim_status give_ints(plim__onnx_call *c, const int64_t *numbers, uint32_t n, bool scalar, plim_error *err)
{
    plim__onnx_host *h;
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_I64, &(plim_shape){.rank = !scalar, .dim = {n}}, &h, err));
    if (n > 0) memcpy(h->data, numbers, n * sizeof *numbers);
    c->host[0] = h;
    return PLIM_OK;
}

/* The shape of input k, which does not have to enter the graph for that. */
static plim_status shape_of_input(plim__onnx_call *c, uint32_t k, plim_shape *s, plim_dtype *dtype, plim_error *err)
{
    const plim__onnx_slot *slot = plim__onnx_slot_in(c, k);
    uint32_t v;
    if (slot->host) {
        *s = slot->host->shape;
        *dtype = slot->host->dtype;
        return PLIM_OK;
    }
    if (slot->tensor && slot->tensor->dims <= PLIM_MAX_RANK) {
        *s = slot->tensor->shape;
        return plim__onnx_dtype(slot->tensor->type, dtype, err);
    }
    PLIM_TRY(plim__onnx_in(c, k, &v, err));
    *s = plim__onnx_shape(c, v);
    *dtype = plim__onnx_type(c, v);
    return PLIM_OK;
}

plim_status plim__onnx_lower_shape(plim__onnx_call *c, plim_error *err)
{
    plim_shape s;
    plim_dtype dtype;
    PLIM_TRY(shape_of_input(c, 0, &s, &dtype, err));
    int64_t from = plim__onnx_int(c, "start", 0), to = plim__onnx_int(c, "end", s.rank);
    from = plim__clamp(from < 0 ? from + s.rank : from, 0, s.rank);
    to = plim__clamp(to < 0 ? to + s.rank : to, from, s.rank);
    return give_ints(c, s.dim + from, (uint32_t)(to - from), false, err);
}

plim_status plim__onnx_lower_size(plim__onnx_call *c, plim_error *err)
{
    plim_shape s;
    plim_dtype dtype;
    uint64_t n;
    PLIM_TRY(shape_of_input(c, 0, &s, &dtype, err));
    PLIM_TRY(plim_shape_count(&n, &s, err));
    return give_ints(c, &(int64_t){(int64_t)n}, 1, true, err);
}

/* A constant too large to be known while reading stays in the file, as one that is not trained. */
static plim_status constant_tensor(plim__onnx_call *c, const plim__onnx_tensor *t, plim_error *err)
{
    plim_dtype dtype;
    uint64_t bytes;
    plim__source source;
    plim__param param = {.init = PLIM__INIT_FILE};
    PLIM_TRY(plim__onnx_dtype(t->type, &dtype, err));
    PLIM_TRY(plim_shape_bytes(&bytes, &t->shape, dtype, err));
    if (bytes <= PLIM__ONNX_FOLD_BYTES) return plim__onnx_load(c->x, t, &c->host[0], err);
    PLIM_TRY(plim__onnx_source(c->x, t, &source, err));
    snprintf(param.name, sizeof param.name, "%s", c->node->out[0]);
    return plim__model_param(c->x->model, &param, dtype, &t->shape, &source, &c->out[0], err);
}

plim_status plim__onnx_lower_constant(plim__onnx_call *c, plim_error *err)
{
    PLIM_FAIL_IF(c->node->n_attr != 1, err, PLIM_E_FORMAT, "%u attributes where one gives the value", c->node->n_attr);
    const plim__onnx_attr *a = &c->node->attr[0];
    if (a->t) return constant_tensor(c, a->t, err);
    if (a->type == PLIM__ONNX_INT) return give_ints(c, &a->i, 1, true, err);
    if (a->type == PLIM__ONNX_INTS) return give_ints(c, a->ints, a->n_ints, false, err);
    const bool scalar = a->type == PLIM__ONNX_FLOAT;
    plim__onnx_host *h;
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_F32, &(plim_shape){.rank = !scalar, .dim = {a->n_floats}}, &h, err));
    if (scalar) *(float *)h->data = (float)a->f;
    else if (a->n_floats) memcpy(h->data, a->floats, a->n_floats * sizeof(float));
    c->host[0] = h;
    return PLIM_OK;
}

/* One element everywhere: known if it is small, else a scalar that is broadcast. */
plim_status plim__onnx_lower_constant_of_shape(plim__onnx_call *c, plim_error *err)
{
    plim_shape s = {0};
    uint64_t bytes;
    uint32_t v;
    const plim__onnx_attr *a = plim__onnx_attr_of(c, "value");
    const float zero = 0;
    plim__onnx_host *h;
    const plim__onnx_host *one = &(plim__onnx_host){.dtype = PLIM_F32, .count = 1, .data = (void *)&zero};
    PLIM_TRY(plim__onnx_given_ints(c, 0, "shape", s.dim, PLIM_MAX_RANK, &s.rank, err));
    if (a) PLIM_TRY(plim__onnx_load(c->x, a->t, &one, err));
    PLIM_FAIL_IF(one->count != 1, err, PLIM_E_FORMAT, "a value of %llu elements, not 1", (unsigned long long)one->count);
    PLIM_TRY(plim_shape_bytes(&bytes, &s, one->dtype, err));
    const uint64_t size = plim_dtype_bytes(one->dtype);
    if (bytes <= (plim__dtype_is_float(one->dtype) ? 4096 : PLIM__ONNX_FOLD_BYTES)) {
        PLIM_TRY(plim__onnx_host_new(c->x, one->dtype, &s, &h, err));
        for (uint64_t i = 0; i < h->count; i++) memcpy((char *)h->data + i * size, one->data, size);
        c->host[0] = h;
        return PLIM_OK;
    }
    PLIM_TRY(plim__graph_const(c->g, one->dtype, &(plim_shape){0}, one->data, &v, err));
    return plim__op_broadcast(c->g, v, &s, &c->out[0], err);
}

plim_status plim__onnx_lower_range(plim__onnx_call *c, plim_error *err)
{
    const plim__onnx_host *in[3];
    static const char *const name[] = {"start", "limit", "delta"};
    for (uint32_t k = 0; k < 3; k++) {
        PLIM_TRY(plim__onnx_given(c, k, name[k], &in[k], err));
        PLIM_FAIL_IF(in[k]->count != 1 || in[k]->dtype != in[0]->dtype, err, PLIM_E_FORMAT, "input %u (%s) is not a scalar of the others' dtype", k,
                     name[k]);
    }
    const double start = plim__onnx_number(in[0], 0), limit = plim__onnx_number(in[1], 0), delta = plim__onnx_number(in[2], 0);
    PLIM_FAIL_IF(delta == 0, err, PLIM_E_FORMAT, "delta is 0");
    const double n = fmax(ceil((limit - start) / delta), 0);
    PLIM_FAIL_IF(!(n <= (double)(PLIM__ONNX_ASK_BYTES / 8)), err, PLIM_E_UNSUPPORTED, "%g elements are too many to be known when the model is read",
                 n);
    plim__onnx_host *h;
    PLIM_TRY(plim__onnx_host_new(c->x, in[0]->dtype, &(plim_shape){.rank = 1, .dim = {(int64_t)n}}, &h, err));
    for (uint64_t i = 0; i < h->count; i++) {
        char *to = (char *)h->data + i * plim_dtype_bytes(h->dtype);
        const int64_t whole = (int64_t)((uint64_t)plim__onnx_integer(in[0], 0) + i * (uint64_t)plim__onnx_integer(in[2], 0));
        const double real = start + (double)i * delta;
        if (plim__dtype_is_float(h->dtype)) plim__convert(to, h->dtype, &real, PLIM_F64, 1);
        else plim__convert(to, h->dtype, &whole, PLIM_I64, 1);
    }
    c->host[0] = h;
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------------- reshaping */

/* A batch that took the place of a fixed 1 takes it in a fixed shape, too. */
static void widen_batch(const plim__onnx_call *c, const plim_shape *from, plim_shape *to)
{
    uint64_t have, want;
    if (!c->x->batch_replaced || c->folding || to->rank == 0 || to->dim[0] != 1) return;
    if (plim_shape_count(&have, from, NULL) != PLIM_OK || plim_shape_count(&want, to, NULL) != PLIM_OK) return;
    if (want > 0 && have / want == (uint64_t)c->x->batch && have % want == 0) to->dim[0] = c->x->batch;
}

plim_status plim__onnx_lower_reshape(plim__onnx_call *c, plim_error *err)
{
    uint32_t x;
    plim_shape to = {0}, known = {0};
    int32_t open = -1;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_given_ints(c, 1, "shape", to.dim, PLIM_MAX_RANK, &to.rank, err));
    for (uint32_t d = 0; d < to.rank; d++) {
        PLIM_FAIL_IF(to.dim[d] < -1 || (to.dim[d] == -1 && open >= 0), err, PLIM_E_SHAPE, "dimension %u of the shape is %lld", d,
                     (long long)to.dim[d]);
        if (to.dim[d] == 0 && !plim__onnx_int(c, "allowzero", 0)) {
            PLIM_FAIL_IF(d >= s.rank, err, PLIM_E_SHAPE, "dimension %u of the shape is to be that of the input, which has %u dimensions", d, s.rank);
            to.dim[d] = s.dim[d];
        }
        if (to.dim[d] == -1) open = (int32_t)d;
        else known.dim[known.rank++] = to.dim[d];
    }
    if (open >= 0) {
        uint64_t have, rest;
        char text[160];
        PLIM_TRY(plim_shape_count(&have, &s, err));
        PLIM_TRY(plim_shape_count(&rest, &known, err));
        PLIM_FAIL_IF(rest == 0 || have % rest != 0, err, PLIM_E_SHAPE, "%s cannot be reshaped to %llu elements times a whole number",
                     plim_shape_format(text, sizeof text, &s), (unsigned long long)rest);
        to.dim[open] = (int64_t)(have / rest);
    } else {
        widen_batch(c, &s, &to);
    }
    return plim__op_reshape(c->g, x, &to, &c->out[0], err);
}

plim_status plim__onnx_lower_flatten(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, axis;
    plim_shape to = {.rank = 2};
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 1), s.rank, true, &axis, err));
    PLIM_TRY(plim__onnx_product(&s, 0, axis, &to.dim[0], err));
    PLIM_TRY(plim__onnx_product(&s, axis, s.rank, &to.dim[1], err));
    return plim__op_reshape(c->g, x, &to, &c->out[0], err);
}

/* Which dimensions a list of axes names. */
static plim_status axes_mask(const int64_t *axes, uint32_t n, uint32_t rank, uint32_t *mask, plim_error *err)
{
    *mask = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t axis;
        PLIM_TRY(plim__onnx_axis(axes[i], rank, false, &axis, err));
        PLIM_FAIL_IF(*mask >> axis & 1, err, PLIM_E_SHAPE, "axis %lld is there twice", (long long)axes[i]);
        *mask |= 1u << axis;
    }
    return PLIM_OK;
}

plim_status plim__onnx_lower_squeeze(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, mask = 0, n;
    bool given;
    int64_t axes[PLIM_MAX_RANK];
    plim_shape to = {0};
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_ints_or_input(c, "axes", 1, axes, PLIM_MAX_RANK, &n, &given, err));
    PLIM_TRY(axes_mask(axes, n, s.rank, &mask, err));
    for (uint32_t d = 0; d < s.rank; d++) {
        const bool goes = given ? mask >> d & 1 : s.dim[d] == 1;
        PLIM_FAIL_IF(goes && s.dim[d] != 1, err, PLIM_E_SHAPE, "dimension %u has the extent %lld, not 1", d, (long long)s.dim[d]);
        if (!goes) to.dim[to.rank++] = s.dim[d];
    }
    return plim__op_reshape(c->g, x, &to, &c->out[0], err);
}

plim_status plim__onnx_lower_unsqueeze(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, mask, n;
    bool given;
    int64_t axes[PLIM_MAX_RANK];
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_ints_or_input(c, "axes", 1, axes, PLIM_MAX_RANK, &n, &given, err));
    PLIM_FAIL_IF(!given, err, PLIM_E_FORMAT, "no axes");
    PLIM_FAIL_IF(s.rank + n > PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "%u dimensions; %d are supported", s.rank + n, PLIM_MAX_RANK);
    plim_shape to = {.rank = s.rank + n};
    PLIM_TRY(axes_mask(axes, n, to.rank, &mask, err));
    for (uint32_t d = 0, from = 0; d < to.rank; d++) to.dim[d] = mask >> d & 1 ? 1 : s.dim[from++];
    return plim__op_reshape(c->g, x, &to, &c->out[0], err);
}

plim_status plim__onnx_lower_transpose(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, perm[PLIM_MAX_RANK], n;
    int64_t order[PLIM_MAX_RANK];
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const uint32_t rank = plim__onnx_shape(c, x).rank;
    PLIM_TRY(plim__onnx_ints(c, "perm", order, PLIM_MAX_RANK, &n, err));
    PLIM_FAIL_IF(n != 0 && n != rank, err, PLIM_E_SHAPE, "an order of %u dimensions for %u", n, rank);
    for (uint32_t d = 0; d < rank; d++) {
        if (n) PLIM_TRY(plim__onnx_axis(order[d], rank, false, &perm[d], err));
        else perm[d] = rank - 1 - d;
    }
    return plim__op_transpose(c->g, x, perm, &c->out[0], err);
}

/* ------------------------------------------------------------------------------------------------- parts and wholes */

plim_status plim__onnx_lower_concat(plim__onnx_call *c, plim_error *err)
{
    uint32_t axis, n = 0, *in = plim__onnx_new(&c->x->arena, c->n_in, sizeof *in, err);
    if (!in) return PLIM_E_NOMEM;
    for (uint32_t k = 0; k < c->n_in; k++)
        if (plim__onnx_has(c, k)) PLIM_TRY(plim__onnx_in(c, k, &in[n++], err));
    PLIM_FAIL_IF(!plim__onnx_attr_of(c, "axis"), err, PLIM_E_FORMAT, "no axis");
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), plim__onnx_shape(c, in[0]).rank, false, &axis, err));
    c->out[0] = in[0];
    return n > 1 ? plim__op_concat(c->g, in, n, axis, &c->out[0], err) : PLIM_OK;
}

/* [from, from + n) of dimension `axis`. */
static plim_status cut(plim__onnx_call *c, uint32_t x, uint32_t axis, int64_t from, int64_t n, uint32_t *v, plim_error *err)
{
    return plim__op_slice_axis(c->g, x, axis, from, 1, n, v, err);
}

plim_status plim__onnx_lower_split(plim__onnx_call *c, plim_error *err)
{
    int64_t size[PLIM__ONNX_OUTS], at = 0;
    uint32_t x, axis, n;
    bool given;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), s.rank, false, &axis, err));
    PLIM_TRY(plim__onnx_ints_or_input(c, "split", 1, size, PLIM__ONNX_OUTS, &n, &given, err));
    const int64_t each = plim__ceil_div(s.dim[axis], c->node->n_out);
    for (uint32_t j = 0; !given && j < c->node->n_out; j++) size[j] = plim__clamp(s.dim[axis] - j * each, 0, each);
    PLIM_FAIL_IF(given && n != c->node->n_out, err, PLIM_E_FORMAT, "%u sizes for %u outputs", n, c->node->n_out);
    for (uint32_t j = 0; j < c->node->n_out; j++) {
        PLIM_FAIL_IF(size[j] < 0 || size[j] > s.dim[axis] - at, err, PLIM_E_SHAPE, "part %u of %lld elements does not fit a dimension of %lld", j,
                     (long long)size[j], (long long)s.dim[axis]);
        PLIM_TRY(cut(c, x, axis, at, size[j], &c->out[j], err));
        at += size[j];
    }
    PLIM_FAIL_IF(at != s.dim[axis], err, PLIM_E_SHAPE, "the parts have %lld elements, the dimension %lld", (long long)at, (long long)s.dim[axis]);
    return PLIM_OK;
}

typedef struct slice_list {
    int64_t start[PLIM_MAX_RANK], end[PLIM_MAX_RANK], axis[PLIM_MAX_RANK], step[PLIM_MAX_RANK];
    uint32_t n;
} slice_list;

static plim_status slice_lists(plim__onnx_call *c, slice_list *l, plim_error *err)
{
    uint32_t n_end, n_axis, n_step = 0;
    bool start, end, axes;
    PLIM_TRY(plim__onnx_ints_or_input(c, "starts", 1, l->start, PLIM_MAX_RANK, &l->n, &start, err));
    PLIM_TRY(plim__onnx_ints_or_input(c, "ends", 2, l->end, PLIM_MAX_RANK, &n_end, &end, err));
    PLIM_TRY(plim__onnx_ints_or_input(c, "axes", 3, l->axis, PLIM_MAX_RANK, &n_axis, &axes, err));
    if (plim__onnx_has(c, 4)) PLIM_TRY(plim__onnx_given_ints(c, 4, "steps", l->step, PLIM_MAX_RANK, &n_step, err));
    PLIM_FAIL_IF(!start || !end, err, PLIM_E_FORMAT, "no starts or no ends");
    PLIM_FAIL_IF(n_end != l->n || (axes && n_axis != l->n) || (plim__onnx_has(c, 4) && n_step != l->n), err, PLIM_E_FORMAT,
                 "lists of different lengths: %u starts, %u ends, %u axes, %u steps", l->n, n_end, n_axis, n_step);
    for (uint32_t i = 0; i < l->n; i++) {
        if (!axes) l->axis[i] = i;
        if (!plim__onnx_has(c, 4)) l->step[i] = 1;
    }
    return PLIM_OK;
}

/* As Python's slices: negatives count from the end, what lies beyond is clamped. */
plim_status plim__onnx_lower_slice(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, axis, mask = 0;
    slice_list l;
    int64_t start[PLIM_MAX_RANK] = {0}, step[PLIM_MAX_RANK], count[PLIM_MAX_RANK];
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(slice_lists(c, &l, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(axes_mask(l.axis, l.n, s.rank, &mask, err));
    for (uint32_t d = 0; d < s.rank; d++) {
        step[d] = 1;
        count[d] = s.dim[d];
    }
    for (uint32_t i = 0; i < l.n; i++) {
        PLIM_TRY(plim__onnx_axis(l.axis[i], s.rank, false, &axis, err));
        const int64_t extent = s.dim[axis], by = l.step[i];
        PLIM_FAIL_IF(by == 0 || by == INT64_MIN, err, PLIM_E_FORMAT, "a step of %lld", (long long)by);
        const int64_t from = l.start[i] < 0 ? l.start[i] + extent : l.start[i], to = l.end[i] < 0 ? l.end[i] + extent : l.end[i];
        start[axis] = by > 0 ? plim__clamp(from, 0, extent) : plim__clamp(from, -1, extent - 1);
        const int64_t end = by > 0 ? plim__clamp(to, 0, extent) : plim__clamp(to, -1, extent - 1);
        step[axis] = by;
        count[axis] = plim__max(by > 0 ? plim__ceil_div(end - start[axis], by) : plim__ceil_div(start[axis] - end, -by), 0);
    }
    return plim__op_slice(c->g, x, start, step, count, &c->out[0], err);
}

/* Pads by dimension; with `axes` (opset 18) only those. Returns where x has been cut by what is negative. */
static plim_status pad_lists(plim__onnx_call *c, uint32_t *x, int64_t before[], int64_t after[], plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, *x);
    int64_t pads[2 * PLIM_MAX_RANK], axes[PLIM_MAX_RANK], start[PLIM_MAX_RANK], step[PLIM_MAX_RANK], count[PLIM_MAX_RANK];
    uint32_t n, n_axes = s.rank, mask;
    bool given, negative = false;
    for (uint32_t d = 0; d < s.rank; d++) axes[d] = d;
    PLIM_TRY(plim__onnx_ints_or_input(c, "pads", 1, pads, 2 * PLIM_MAX_RANK, &n, &given, err));
    if (plim__onnx_has(c, 3)) PLIM_TRY(plim__onnx_given_ints(c, 3, "axes", axes, PLIM_MAX_RANK, &n_axes, err));
    PLIM_FAIL_IF(!given || n != 2 * n_axes, err, PLIM_E_FORMAT, "%u pads for %u dimensions", n, n_axes);
    PLIM_TRY(axes_mask(axes, n_axes, s.rank, &mask, err));
    for (uint32_t d = 0; d < s.rank; d++) {
        before[d] = after[d] = start[d] = 0;
        step[d] = 1;
        count[d] = s.dim[d];
    }
    for (uint32_t i = 0; i < n_axes; i++) {
        const uint32_t d = (uint32_t)(axes[i] < 0 ? axes[i] + s.rank : axes[i]);
        const int64_t lo = pads[i], hi = pads[n_axes + i], cut_lo = plim__max(plim__min(-plim__max(lo, -INT64_MAX), s.dim[d]), 0);
        const int64_t cut_hi = plim__max(plim__min(-plim__max(hi, -INT64_MAX), s.dim[d] - cut_lo), 0);
        negative = negative || lo < 0 || hi < 0;
        start[d] = cut_lo;
        count[d] = s.dim[d] - cut_lo - cut_hi;
        before[d] = plim__max(lo, 0);
        after[d] = plim__max(hi, 0);
    }
    return negative ? plim__op_slice(c->g, *x, start, step, count, x, err) : PLIM_OK;
}

/* An element of the dtype of `x`: 0 unless it is given, by an attribute or, in newer opsets, by input 2. */
static plim_status pad_fill(plim__onnx_call *c, uint32_t x, int64_t *out, plim_error *err)
{
    const plim_dtype dtype = c->g->value[x].dtype;
    const plim__onnx_host *h = NULL;
    double number = plim__onnx_float(c, "value", 0);
    *out = 0;
    if (plim__onnx_has(c, 2)) PLIM_TRY(plim__onnx_given(c, 2, "constant_value", &h, err));
    PLIM_FAIL_IF(h && h->count != 1, err, PLIM_E_SHAPE, "input 2 (constant_value) has %llu elements, not 1", (unsigned long long)h->count);
    if (h && !plim__dtype_is_float(h->dtype)) {
        const int64_t integer = plim__onnx_integer(h, 0);
        plim__convert(out, dtype, &integer, PLIM_I64, 1);
        return PLIM_OK;
    }
    if (h) number = plim__onnx_number(h, 0);
    plim__convert(out, dtype, &number, PLIM_F64, 1);
    return PLIM_OK;
}

plim_status plim__onnx_lower_pad(plim__onnx_call *c, plim_error *err)
{
    static const struct { const char *name; plim__edge edge; } modes[] = {
        {"constant", PLIM__EDGE_CONSTANT}, {"edge", PLIM__EDGE_EDGE}, {"reflect", PLIM__EDGE_REFLECT}};
    const char *mode = plim__onnx_text(c, "mode", "constant");
    int64_t before[PLIM_MAX_RANK], after[PLIM_MAX_RANK];
    int64_t fill;
    uint32_t x, m = 0;
    while (m < 3 && strcmp(mode, modes[m].name) != 0) m++;
    if (m == 3) return plim__onnx_refuse(c, "mode", err);
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(pad_fill(c, x, &fill, err));
    PLIM_TRY(pad_lists(c, &x, before, after, err));
    return plim__op_pad(c->g, x, before, after, modes[m].edge, &fill, &c->out[0], err);
}

plim_status plim__onnx_lower_expand(plim__onnx_call *c, plim_error *err)
{
    uint32_t x;
    plim_shape want = {0};
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_given_ints(c, 1, "shape", want.dim, PLIM_MAX_RANK, &want.rank, err));
    plim_shape to = {.rank = s.rank > want.rank ? s.rank : want.rank}; /* both may be broadcast */
    for (uint32_t d = 0; d < to.rank; d++) {
        const int64_t a = d + s.rank < to.rank ? 1 : s.dim[d + s.rank - to.rank], b = d + want.rank < to.rank ? 1 : want.dim[d + want.rank - to.rank];
        to.dim[d] = b == 1 ? a : b;
    }
    return plim__op_broadcast(c->g, x, &to, &c->out[0], err);
}

/* Dimension by dimension: what is to be repeated is a new dimension for the time of a broadcast. */
plim_status plim__onnx_lower_tile(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, n;
    int64_t repeats[PLIM_MAX_RANK];
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(plim__onnx_given_ints(c, 1, "repeats", repeats, PLIM_MAX_RANK, &n, err));
    PLIM_FAIL_IF(n != s.rank, err, PLIM_E_SHAPE, "%u repeats for %u dimensions", n, s.rank);
    for (uint32_t d = 0; d < s.rank; d++) {
        PLIM_FAIL_IF(repeats[d] < 0, err, PLIM_E_SHAPE, "%lld repeats of dimension %u", (long long)repeats[d], d);
        if (repeats[d] == 1) continue;
        plim_shape three = {.rank = 3, .dim = {0, 1}};
        PLIM_TRY(plim__onnx_product(&s, 0, d, &three.dim[0], err));
        PLIM_TRY(plim__onnx_product(&s, d, s.rank, &three.dim[2], err));
        PLIM_TRY(plim__op_reshape(c->g, x, &three, &x, err));
        three.dim[1] = repeats[d];
        PLIM_TRY(plim__op_broadcast(c->g, x, &three, &x, err));
        PLIM_FAIL_IF(__builtin_mul_overflow(s.dim[d], repeats[d], &s.dim[d]), err, PLIM_E_OVERFLOW, "dimension %u becomes too long", d);
        PLIM_TRY(plim__op_reshape(c->g, x, &s, &x, err));
    }
    c->out[0] = x;
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- diagonals */

/* Column j of row i stays where j - i >= k (upper) or <= k (lower). */
plim_status plim__onnx_lower_trilu(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, row, column, keep, zero;
    double k = 0;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_FAIL_IF(s.rank < 2, err, PLIM_E_SHAPE, "%u dimensions, where matrices are needed", s.rank);
    if (plim__onnx_has(c, 1)) PLIM_TRY(plim__onnx_given_number(c, 1, "k", &k, err));
    PLIM_TRY(plim__onnx_iota(c, s.dim[s.rank - 2], s.rank, s.rank - 2, &row, err));
    PLIM_TRY(plim__onnx_iota(c, s.dim[s.rank - 1], s.rank, s.rank - 1, &column, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_ADD, row, k, &row, err));
    PLIM_TRY(plim__onnx_ew2(c, plim__onnx_int(c, "upper", 1) ? PLIM__EW_GREATER_EQUAL : PLIM__EW_LESS_EQUAL, column, row, &keep, err));
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, x), 0, &zero, err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){keep, x, zero}, 3, &c->out[0], err);
}

plim_status plim__onnx_lower_eyelike(plim__onnx_call *c, plim_error *err)
{
    plim_shape s;
    plim_dtype dtype;
    uint32_t row, column, v;
    PLIM_TRY(shape_of_input(c, 0, &s, &dtype, err));
    PLIM_FAIL_IF(s.rank != 2, err, PLIM_E_SHAPE, "%u dimensions, where a matrix is needed", s.rank);
    if (plim__onnx_attr_of(c, "dtype")) PLIM_TRY(plim__onnx_dtype(plim__onnx_int(c, "dtype", 1), &dtype, err));
    PLIM_TRY(plim__onnx_iota(c, s.dim[0], 2, 0, &row, err));
    PLIM_TRY(plim__onnx_iota(c, s.dim[1], 2, 1, &column, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_ADD, row, (double)plim__onnx_int(c, "k", 0), &row, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_EQUAL, column, row, &v, err));
    return plim__op_cast(c->g, v, dtype, &c->out[0], err);
}

/* ------------------------------------------------------------------------------------------------- blocks of channels */

static plim_status blocks(plim__onnx_call *c, uint32_t *x, plim_shape *s, int64_t *b, plim_error *err)
{
    PLIM_TRY(plim__onnx_in(c, 0, x, err));
    *s = plim__onnx_shape(c, *x);
    *b = plim__onnx_int(c, "blocksize", 0);
    PLIM_FAIL_IF(s->rank != 4 || *b < 1 || *b > 1024, err, PLIM_E_SHAPE, "%u dimensions and a block size of %lld", s->rank, (long long)*b);
    for (uint32_t d = 1; d < 4; d++) PLIM_FAIL_IF(s->dim[d] > INT32_MAX, err, PLIM_E_OVERFLOW, "dimension %u is too long", d);
    return PLIM_OK;
}

plim_status plim__onnx_lower_depth_to_space(plim__onnx_call *c, plim_error *err)
{
    const char *mode = plim__onnx_text(c, "mode", "DCR");
    static const uint32_t dcr[] = {0, 3, 4, 1, 5, 2}, crd[] = {0, 1, 4, 2, 5, 3};
    const bool depth_first = !strcmp(mode, "DCR");
    uint32_t x;
    int64_t b;
    plim_shape s;
    if (!depth_first && strcmp(mode, "CRD") != 0) return plim__onnx_refuse(c, "mode", err);
    PLIM_TRY(blocks(c, &x, &s, &b, err));
    PLIM_FAIL_IF(s.dim[1] % (b * b) != 0, err, PLIM_E_SHAPE, "%lld channels are no multiple of the block size %lld squared", (long long)s.dim[1],
                 (long long)b);
    const int64_t left = s.dim[1] / (b * b);
    const plim_shape apart = depth_first ? (plim_shape){6, {s.dim[0], b, b, left, s.dim[2], s.dim[3]}}
                                         : (plim_shape){6, {s.dim[0], left, b, b, s.dim[2], s.dim[3]}};
    PLIM_TRY(plim__op_reshape(c->g, x, &apart, &x, err));
    PLIM_TRY(plim__op_transpose(c->g, x, depth_first ? dcr : crd, &x, err));
    return plim__op_reshape(c->g, x, &(plim_shape){4, {s.dim[0], left, s.dim[2] * b, s.dim[3] * b}}, &c->out[0], err);
}

plim_status plim__onnx_lower_space_to_depth(plim__onnx_call *c, plim_error *err)
{
    uint32_t x;
    int64_t b;
    plim_shape s;
    PLIM_TRY(blocks(c, &x, &s, &b, err));
    PLIM_FAIL_IF(s.dim[2] % b != 0 || s.dim[3] % b != 0, err, PLIM_E_SHAPE, "extents of %lld and %lld are no multiples of the block size %lld",
                 (long long)s.dim[2], (long long)s.dim[3], (long long)b);
    PLIM_TRY(plim__op_reshape(c->g, x, &(plim_shape){6, {s.dim[0], s.dim[1], s.dim[2] / b, b, s.dim[3] / b, b}}, &x, err));
    PLIM_TRY(plim__op_transpose(c->g, x, (const uint32_t[]){0, 3, 5, 1, 2, 4}, &x, err));
    return plim__op_reshape(c->g, x, &(plim_shape){4, {s.dim[0], s.dim[1] * b * b, s.dim[2] / b, s.dim[3] / b}}, &c->out[0], err);
}
