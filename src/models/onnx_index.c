/* Lowering: elements by where they are. Indices are known when the program runs; negative ones count from the end. */
#include "core/dtype.h"
#include "core/size.h"
#include "models/onnx.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------------- gathering */

/* An index that is known is checked now; a list of any rank is taken as one dimension and shaped afterwards. */
static plim_status gather_known(plim__onnx_call *c, uint32_t x, const plim__onnx_host *index, uint32_t axis, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    const bool scalar = index->shape.rank == 0;
    PLIM_FAIL_IF(s.rank - 1 + index->shape.rank > PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "%u dimensions; %d are supported",
                 s.rank - 1 + index->shape.rank, PLIM_MAX_RANK);
    plim__onnx_host *wide;
    uint32_t at;
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_I64, &(plim_shape){.rank = !scalar, .dim = {(int64_t)index->count}}, &wide, err));
    plim__convert(wide->data, PLIM_I64, index->data, index->dtype, index->count);
    PLIM_TRY(plim__graph_const(c->g, PLIM_I64, &wide->shape, wide->data, &at, err));
    PLIM_TRY(plim__op_take(c->g, x, at, axis, &c->out[0], err));
    if (index->shape.rank < 2) return PLIM_OK;
    plim_shape to = {0};
    for (uint32_t d = 0; d < axis; d++) to.dim[to.rank++] = s.dim[d];
    for (uint32_t d = 0; d < index->shape.rank; d++) to.dim[to.rank++] = index->shape.dim[d];
    for (uint32_t d = axis + 1; d < s.rank; d++) to.dim[to.rank++] = s.dim[d];
    return plim__op_reshape(c->g, c->out[0], &to, &c->out[0], err);
}

plim_status plim__onnx_lower_gather(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, index, axis;
    const plim__onnx_host *known;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), plim__onnx_shape(c, x).rank, false, &axis, err));
    PLIM_TRY(plim__onnx_known(c->x, plim__onnx_slot_in(c, 1), &known, err));
    if (known && !plim__dtype_is_float(known->dtype)) return gather_known(c, x, known, axis, err);
    PLIM_TRY(plim__onnx_in(c, 1, &index, err));
    return plim__op_gather(c->g, x, index, axis, &c->out[0], err);
}

/* Index with negatives counted from the end of a dimension of `extent`, as i64. */
static plim_status from_the_end(plim__onnx_call *c, uint32_t index, double extent, uint32_t *v, plim_error *err)
{
    uint32_t wrapped, negative;
    PLIM_TRY(plim__op_cast(c->g, index, PLIM_I64, &index, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_ADD, index, extent, &wrapped, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_LESS, index, 0, &negative, err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){negative, wrapped, index}, 3, v, err);
}

/* Where in x, taken as one long dimension, the elements are that `at` names along `axis`: at * stride + the strides of where in the other dimensions
 * the index itself is. */
static plim_status flat_places(plim__onnx_call *c, const plim_shape *s, uint32_t at, uint32_t axis, uint32_t *v, plim_error *err)
{
    const plim_shape si = plim__onnx_shape(c, at);
    uint32_t part;
    int64_t stride;
    PLIM_FAIL_IF(s->rank != si.rank, err, PLIM_E_SHAPE, "%u dimensions indexed by %u", s->rank, si.rank);
    PLIM_TRY(from_the_end(c, at, (double)s->dim[axis], v, err));
    PLIM_TRY(plim__onnx_product(s, axis + 1, s->rank, &stride, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, *v, (double)stride, v, err));
    for (uint32_t d = 0; d < s->rank; d++) {
        if (d == axis) continue;
        PLIM_FAIL_IF(si.dim[d] > s->dim[d], err, PLIM_E_SHAPE, "the index is longer than dimension %u", d);
        PLIM_TRY(plim__onnx_product(s, d + 1, s->rank, &stride, err));
        PLIM_TRY(plim__onnx_iota(c, si.dim[d], s->rank, d, &part, err));
        PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, part, (double)stride, &part, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, *v, part, v, err));
    }
    return PLIM_OK;
}

/* x as one dimension. */
static plim_status flat(plim__onnx_call *c, uint32_t x, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    plim_shape one = {.rank = 1};
    PLIM_TRY(plim__onnx_product(&s, 0, s.rank, &one.dim[0], err));
    return plim__op_reshape(c->g, x, &one, v, err);
}

plim_status plim__onnx_elements(plim__onnx_call *c, uint32_t x, uint32_t at, uint32_t axis, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(flat_places(c, &s, at, axis, &at, err));
    PLIM_TRY(flat(c, x, &x, err));
    return plim__op_gather(c->g, x, at, 0, v, err);
}

plim_status plim__onnx_lower_gather_elements(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, at, axis;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in(c, 1, &at, err));
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), plim__onnx_shape(c, x).rank, false, &axis, err));
    return plim__onnx_elements(c, x, at, axis, &c->out[0], err);
}

/* values[1] where the index is the position along the new axis, else values[0]; negative indices count from the end. */
plim_status plim__onnx_lower_onehot(plim__onnx_call *c, plim_error *err)
{
    uint32_t index, values, axis, at, off, on;
    double depth;
    PLIM_TRY(plim__onnx_in(c, 0, &index, err));
    PLIM_TRY(plim__onnx_given_number(c, 1, "depth", &depth, err));
    PLIM_TRY(plim__onnx_in(c, 2, &values, err));
    plim_shape s = plim__onnx_shape(c, index), to = {.rank = s.rank + 1};
    const plim_shape sv = plim__onnx_shape(c, values);
    PLIM_FAIL_IF(!(depth >= 1 && depth <= 1e9), err, PLIM_E_FORMAT, "a depth of %g", depth);
    PLIM_FAIL_IF(to.rank > PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "%u dimensions; %d are supported", to.rank, PLIM_MAX_RANK);
    PLIM_FAIL_IF(sv.rank != 1 || sv.dim[0] != 2, err, PLIM_E_SHAPE, "input 2 (values) does not have 2 elements");
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", -1), to.rank, false, &axis, err));
    for (uint32_t d = 0, from = 0; d < to.rank; d++) to.dim[d] = d == axis ? 1 : s.dim[from++];
    PLIM_TRY(plim__op_reshape(c->g, index, &to, &index, err));
    PLIM_TRY(from_the_end(c, index, depth, &index, err));
    PLIM_TRY(plim__onnx_iota(c, (int64_t)depth, to.rank, axis, &at, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_EQUAL, index, at, &at, err));
    PLIM_TRY(plim__op_slice_axis(c->g, values, 0, 0, 1, 1, &off, err));
    PLIM_TRY(plim__op_slice_axis(c->g, values, 0, 1, 1, 1, &on, err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){at, on, off}, 3, &c->out[0], err);
}

/* ------------------------------------------------------------------------------------------------- lists of places */

/* A list of places: the last dimension of `index` names a slice of data, below `batch` dimensions that both have. */
typedef struct places {
    uint32_t at;       /* i64: which row of data as [rows, behind], of index's dimensions but the last */
    plim_shape rows;   /* data as [rows, behind] */
    plim_shape result; /* index's dimensions but the last, then data's behind */
} places;

/* Adds to *at what dimension d of data contributes: entry d - batch of each place times the rows of one step. */
static plim_status add_entry(plim__onnx_call *c, uint32_t index, const plim_shape *s, uint32_t d, uint32_t entry, int64_t step, uint32_t *at,
                             plim_error *err)
{
    plim_shape si = plim__onnx_shape(c, index);
    uint32_t v;
    PLIM_TRY(plim__op_slice_axis(c->g, index, si.rank - 1, entry, 1, 1, &v, err));
    si.rank--;
    PLIM_TRY(plim__op_reshape(c->g, v, &si, &v, err));
    PLIM_TRY(from_the_end(c, v, (double)s->dim[d], &v, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, v, (double)step, &v, err));
    if (*at != PLIM__NONE) PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, *at, v, &v, err));
    *at = v;
    return PLIM_OK;
}

static plim_status places_of(plim__onnx_call *c, const plim_shape *s, uint32_t index, int64_t batch, places *p, plim_error *err)
{
    const plim_shape si = plim__onnx_shape(c, index);
    const int64_t depth = si.rank ? si.dim[si.rank - 1] : 0;
    uint32_t v;
    int64_t step;
    PLIM_FAIL_IF(depth < 1 || batch < 0 || batch >= si.rank || batch + depth > s->rank, err, PLIM_E_SHAPE,
                 "places of %lld numbers, below %lld dimensions, in an array of %u", (long long)depth, (long long)batch, s->rank);
    const uint32_t named = (uint32_t)(batch + depth);
    p->at = PLIM__NONE;
    p->rows = (plim_shape){.rank = 2};
    p->result = (plim_shape){.rank = si.rank - 1};
    PLIM_FAIL_IF(p->result.rank + s->rank - named > PLIM_MAX_RANK, err, PLIM_E_UNSUPPORTED, "%u dimensions; %d are supported",
                 p->result.rank + s->rank - named, PLIM_MAX_RANK);
    for (uint32_t d = 0; d < p->result.rank; d++) p->result.dim[d] = si.dim[d];
    for (uint32_t d = named; d < s->rank; d++) p->result.dim[p->result.rank++] = s->dim[d];
    PLIM_TRY(plim__onnx_product(s, 0, named, &p->rows.dim[0], err));
    PLIM_TRY(plim__onnx_product(s, named, s->rank, &p->rows.dim[1], err));
    for (uint32_t d = (uint32_t)batch; d < named; d++) {
        PLIM_TRY(plim__onnx_product(s, d + 1, named, &step, err));
        PLIM_TRY(add_entry(c, index, s, d, d - (uint32_t)batch, step, &p->at, err));
    }
    for (uint32_t d = 0; d < batch; d++) {
        PLIM_FAIL_IF(si.dim[d] != s->dim[d], err, PLIM_E_SHAPE, "dimension %u is %lld and %lld", d, (long long)s->dim[d], (long long)si.dim[d]);
        PLIM_TRY(plim__onnx_product(s, d + 1, named, &step, err));
        PLIM_TRY(plim__onnx_iota(c, si.dim[d], si.rank - 1, d, &v, err));
        PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MUL, v, (double)step, &v, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, p->at, v, &p->at, err));
    }
    return PLIM_OK;
}

plim_status plim__onnx_lower_gather_nd(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, index;
    places p;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in(c, 1, &index, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(places_of(c, &s, index, plim__onnx_int(c, "batch_dims", 0), &p, err));
    PLIM_TRY(flat(c, p.at, &p.at, err));
    PLIM_TRY(plim__op_reshape(c->g, x, &p.rows, &x, err));
    PLIM_TRY(plim__op_gather(c->g, x, p.at, 0, &x, err));
    return plim__op_reshape(c->g, x, &p.result, &c->out[0], err);
}

/* ---------------------------------------------------------------------------------------------------------- scattering */

/* rows [R, B] with `updates` [M, B] in the place of those that `at` [M] names; of several for one place the last. So the largest number of an
 * update at each place is looked for, which is then looked up: exact for every dtype, and nothing is added that should not be. */
static plim_status replace_rows(plim__onnx_call *c, uint32_t rows, uint32_t at, uint32_t updates, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, rows), su = plim__onnx_shape(c, updates);
    uint32_t number, there, last;
    PLIM_TRY(plim__onnx_iota(c, su.dim[0], 1, 0, &number, err));
    PLIM_TRY(plim__op_cast(c->g, number, PLIM_F64, &number, err));
    PLIM_TRY(plim__op_scatter_by(c->g, PLIM__REDUCE_MAX, number, at, 0, &(plim_shape){1, {s.dim[0]}}, &last, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_GREATER_EQUAL, last, 0, &there, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_MAXIMUM, last, 0, &last, err)); /* -infinity is no index */
    PLIM_TRY(plim__op_cast(c->g, last, PLIM_I64, &last, err));
    PLIM_TRY(plim__op_gather(c->g, updates, last, 0, &updates, err));
    PLIM_TRY(plim__op_reshape(c->g, there, &(plim_shape){2, {s.dim[0], 1}}, &there, err));
    return plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){there, updates, rows}, 3, v, err);
}

/* The same, with a reduction of what was there and all that comes. */
static plim_status reduce_rows(plim__onnx_call *c, uint32_t rows, uint32_t at, uint32_t updates, uint32_t which, uint32_t *v, plim_error *err)
{
    static const plim__reduction how[] = {PLIM__REDUCE_SUM, PLIM__REDUCE_PROD, PLIM__REDUCE_MIN, PLIM__REDUCE_MAX};
    static const plim__ew with[] = {PLIM__EW_ADD, PLIM__EW_MUL, PLIM__EW_MINIMUM, PLIM__EW_MAXIMUM};
    const plim_dtype t = plim__onnx_type(c, rows);
    const plim_shape s = plim__onnx_shape(c, rows);
    PLIM_FAIL_IF(!plim__dtype_is_float(t), err, PLIM_E_UNSUPPORTED, "a reduction of %s", plim_dtype_name(t));
    PLIM_TRY(plim__op_cast(c->g, updates, plim__dtype_compute(t), &updates, err));
    PLIM_TRY(plim__op_cast(c->g, rows, plim__dtype_compute(t), &rows, err));
    PLIM_TRY(plim__op_scatter_by(c->g, how[which], updates, at, 0, &s, &updates, err));
    PLIM_TRY(plim__onnx_ew2(c, with[which], rows, updates, v, err));
    return plim__op_cast(c->g, *v, t, v, err);
}

static plim_status scatter_rows(plim__onnx_call *c, uint32_t rows, uint32_t at, uint32_t updates, uint32_t *v, plim_error *err)
{
    static const char *const names[] = {"add", "mul", "min", "max"};
    const char *reduction = plim__onnx_text(c, "reduction", "none");
    if (plim__onnx_shape(c, updates).dim[0] == 0) {
        *v = rows;
        return PLIM_OK;
    }
    if (!strcmp(reduction, "none")) return replace_rows(c, rows, at, updates, v, err);
    for (uint32_t i = 0; i < 4; i++)
        if (!strcmp(reduction, names[i])) return reduce_rows(c, rows, at, updates, i, v, err);
    return plim__onnx_refuse(c, "reduction", err);
}

/* Data, an index and updates for it, of one dtype. */
static plim_status scatter_operands(plim__onnx_call *c, uint32_t in[3], plim_error *err)
{
    for (uint32_t k = 0; k < 3; k++) PLIM_TRY(plim__onnx_in(c, k, &in[k], err));
    PLIM_FAIL_IF(plim__onnx_type(c, in[0]) != plim__onnx_type(c, in[2]), err, PLIM_E_TYPE, "data of %s and updates of %s",
                 plim_dtype_name(plim__onnx_type(c, in[0])), plim_dtype_name(plim__onnx_type(c, in[2])));
    return PLIM_OK;
}

plim_status plim__onnx_lower_scatter_elements(plim__onnx_call *c, plim_error *err)
{
    uint32_t in[3], axis, at, rows, v;
    PLIM_TRY(scatter_operands(c, in, err));
    const plim_shape s = plim__onnx_shape(c, in[0]), su = plim__onnx_shape(c, in[2]), si = plim__onnx_shape(c, in[1]);
    PLIM_FAIL_IF(!plim__shape_equal(&su, &si), err, PLIM_E_SHAPE, "indices and updates of different shapes");
    PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), s.rank, false, &axis, err));
    PLIM_TRY(flat_places(c, &s, in[1], axis, &at, err));
    PLIM_TRY(flat(c, at, &at, err));
    PLIM_TRY(flat(c, in[0], &rows, err));
    PLIM_TRY(flat(c, in[2], &v, err));
    PLIM_TRY(plim__op_reshape(c->g, rows, &(plim_shape){2, {plim__onnx_shape(c, rows).dim[0], 1}}, &rows, err));
    PLIM_TRY(plim__op_reshape(c->g, v, &(plim_shape){2, {plim__onnx_shape(c, v).dim[0], 1}}, &v, err));
    PLIM_TRY(scatter_rows(c, rows, at, v, &v, err));
    return plim__op_reshape(c->g, v, &s, &c->out[0], err);
}

plim_status plim__onnx_lower_scatter_nd(plim__onnx_call *c, plim_error *err)
{
    uint32_t in[3], rows, v;
    places p;
    PLIM_TRY(scatter_operands(c, in, err));
    const plim_shape s = plim__onnx_shape(c, in[0]), su = plim__onnx_shape(c, in[2]);
    PLIM_TRY(places_of(c, &s, in[1], 0, &p, err));
    PLIM_FAIL_IF(!plim__shape_equal(&su, &p.result), err, PLIM_E_SHAPE, "updates of another shape than the places ask for");
    PLIM_TRY(flat(c, p.at, &p.at, err));
    PLIM_TRY(plim__op_reshape(c->g, in[0], &p.rows, &rows, err));
    PLIM_TRY(plim__op_reshape(c->g, in[2], &(plim_shape){2, {plim__onnx_shape(c, p.at).dim[0], p.rows.dim[1]}}, &v, err));
    PLIM_TRY(scatter_rows(c, rows, p.at, v, &v, err));
    return plim__op_reshape(c->g, v, &s, &c->out[0], err);
}

/* ------------------------------------------------------------------------------------------------------------ sequences */

/* The first `length` elements of each sequence backwards: element t is at length - 1 - t there, and at t behind. */
plim_status plim__onnx_lower_reverse_sequence(plim__onnx_call *c, plim_error *err)
{
    const int64_t batch = plim__onnx_int(c, "batch_axis", 1), time = plim__onnx_int(c, "time_axis", 0);
    uint32_t x, length, t, back, inside;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in(c, 1, &length, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_FAIL_IF(s.rank < 2 || batch < 0 || batch > 1 || time != 1 - batch, err, PLIM_E_FORMAT, "batch_axis %lld and time_axis %lld of %u dimensions",
                 (long long)batch, (long long)time, s.rank);
    plim_shape per = {.rank = s.rank};
    for (uint32_t d = 0; d < s.rank; d++) per.dim[d] = d == batch ? s.dim[d] : 1;
    PLIM_TRY(plim__op_reshape(c->g, length, &per, &length, err));
    PLIM_TRY(plim__op_cast(c->g, length, PLIM_I64, &length, err));
    PLIM_TRY(plim__onnx_iota(c, s.dim[time], s.rank, (uint32_t)time, &t, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_LESS, t, length, &inside, err));
    PLIM_TRY(plim__onnx_ew_number(c, PLIM__EW_SUB, length, 1, &back, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, back, t, &back, err));
    PLIM_TRY(plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){inside, back, t}, 3, &t, err));
    PLIM_TRY(plim__op_broadcast(c->g, t, &s, &t, err));
    return plim__onnx_elements(c, x, t, (uint32_t)time, &c->out[0], err);
}

/* -------------------------------------------------------------------------------------- as many as there are */

static bool is_set(const plim__onnx_host *h, uint64_t i) { return plim__onnx_number(h, i) != 0; }

static uint64_t count_set(const plim__onnx_host *h)
{
    uint64_t n = 0;
    for (uint64_t i = 0; i < h->count; i++) n += is_set(h, i);
    return n;
}

/* How many elements there are follows from the condition, so that has to be known. */
plim_status plim__onnx_lower_compress(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, axis = 0, index;
    const plim__onnx_host *condition;
    PLIM_TRY(plim__onnx_in(c, 0, &x, err));
    PLIM_TRY(plim__onnx_given(c, 1, "condition", &condition, err));
    if (plim__onnx_attr_of(c, "axis")) PLIM_TRY(plim__onnx_axis(plim__onnx_int(c, "axis", 0), plim__onnx_shape(c, x).rank, false, &axis, err));
    else PLIM_TRY(flat(c, x, &x, err));
    PLIM_FAIL_IF(condition->shape.rank != 1 || condition->shape.dim[0] > plim__onnx_shape(c, x).dim[axis], err, PLIM_E_SHAPE,
                 "a condition for more than there is");
    plim__onnx_host *h;
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_I64, &(plim_shape){1, {(int64_t)count_set(condition)}}, &h, err));
    int64_t *at = h->data;
    for (uint64_t i = 0; i < condition->count; i++)
        if (is_set(condition, i)) *at++ = (int64_t)i;
    PLIM_TRY(plim__graph_const(c->g, PLIM_I64, &h->shape, h->data, &index, err));
    return plim__op_take(c->g, x, index, axis, &c->out[0], err);
}

plim_status plim__onnx_lower_nonzero(plim__onnx_call *c, plim_error *err)
{
    const plim__onnx_host *x;
    plim__onnx_host *h;
    PLIM_TRY(plim__onnx_given(c, 0, "X", &x, err));
    const uint64_t n = count_set(x);
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_I64, &(plim_shape){2, {x->shape.rank, (int64_t)n}}, &h, err));
    int64_t *at = h->data;
    for (uint64_t i = 0, k = 0; i < x->count; i++) {
        if (!is_set(x, i)) continue;
        uint64_t rest = i;
        for (uint32_t d = x->shape.rank; d-- > 0; rest /= (uint64_t)x->shape.dim[d]) at[d * n + k] = (int64_t)(rest % (uint64_t)x->shape.dim[d]);
        k++;
    }
    c->host[0] = h;
    return PLIM_OK;
}
