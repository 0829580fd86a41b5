/* Lowering: Resize and Upsample.
 *
 * Nearest and linear over the last dimensions have a row of their own (plim__op_resize). Everything else (cubic, crops, other dimensions) is a
 * product with a small constant matrix per dimension, out x in: each output element is a weighted sum of at most four of the input's. */
#include "core/dtype.h"
#include "core/size.h"
#include "models/onnx.h"

#include <math.h>
#include <string.h>

#define EXTENT_MAX (INT64_C(1) << 40)          /* sums and products of a few of them do not overflow */
#define MATRIX_BYTES (UINT64_C(16) << 20)

enum { MODE_NEAREST, MODE_LINEAR, MODE_CUBIC };
enum { PLACE_HALF, PLACE_PYTORCH, PLACE_ASYMMETRIC, PLACE_CORNERS, PLACE_CROP, PLACE_SYMMETRIC, PLACE_NN };

/* Factors and extents by dimension of x; factors of 0 follow from the extents. */
typedef struct resizing {
    double scale[PLIM_MAX_RANK];
    int64_t size[PLIM_MAX_RANK];
    uint32_t mode, place, round;
    double cubic_a, outside;               /* what is beyond a crop's end */
    bool exclude;                          /* taps outside x have no weight */
    double from[PLIM_MAX_RANK], to[PLIM_MAX_RANK]; /* the part that a crop takes */
} resizing;

static plim_status set_scale(resizing *r, uint32_t d, int64_t extent, double scale, plim_error *err)
{
    const double size = floor((double)extent * scale);
    PLIM_FAIL_IF(!(scale > 0 && size <= (double)EXTENT_MAX), err, PLIM_E_FORMAT, "a scale of %g for dimension %u", scale, d);
    r->scale[d] = scale;
    r->size[d] = (int64_t)size;
    return PLIM_OK;
}

/* Dimension d of x that entry i of the lists is for. */
static plim_status resize_axis(plim__onnx_call *c, uint32_t rank, uint64_t i, uint64_t n, uint32_t *d, plim_error *err)
{
    int64_t axes[PLIM_MAX_RANK];
    uint32_t n_axes;
    PLIM_TRY(plim__onnx_ints(c, "axes", axes, PLIM_MAX_RANK, &n_axes, err));
    PLIM_FAIL_IF(n != (n_axes ? n_axes : rank), err, PLIM_E_SHAPE, "%llu scales or sizes for %u dimensions", (unsigned long long)n,
                 n_axes ? n_axes : rank);
    return plim__onnx_axis(n_axes ? axes[i] : (int64_t)i, rank, false, d, err);
}

static plim_status resize_extents(plim__onnx_call *c, const plim_shape *s, uint32_t k_scales, resizing *r, plim_error *err)
{
    const plim__onnx_attr *a = plim__onnx_attr_of(c, "scales"); /* Upsample, opset 7 */
    const plim__onnx_host *scales = NULL, *sizes = NULL;
    uint32_t d;
    for (d = 0; d < s->rank; d++) {
        r->size[d] = s->dim[d];
        r->scale[d] = 1;
    }
    if (plim__onnx_has(c, k_scales)) PLIM_TRY(plim__onnx_given(c, k_scales, "scales", &scales, err));
    if (plim__onnx_has(c, 3)) PLIM_TRY(plim__onnx_given(c, 3, "sizes", &sizes, err));
    for (uint32_t i = 0; a && i < a->n_floats; i++) {
        PLIM_TRY(resize_axis(c, s->rank, i, a->n_floats, &d, err));
        PLIM_TRY(set_scale(r, d, s->dim[d], (double)a->floats[i], err));
    }
    for (uint64_t i = 0; scales && i < scales->count; i++) {
        PLIM_TRY(resize_axis(c, s->rank, i, scales->count, &d, err));
        PLIM_TRY(set_scale(r, d, s->dim[d], plim__onnx_number(scales, i), err));
    }
    for (uint64_t i = 0; sizes && i < sizes->count; i++) {
        PLIM_TRY(resize_axis(c, s->rank, i, sizes->count, &d, err));
        r->size[d] = plim__onnx_integer(sizes, i);
        r->scale[d] = r->size[d] == s->dim[d] ? 1 : 0;
        PLIM_FAIL_IF(r->size[d] < 1 || r->size[d] > EXTENT_MAX, err, PLIM_E_FORMAT, "a size of %lld for dimension %u", (long long)r->size[d], d);
    }
    PLIM_FAIL_IF(!a && !(scales && scales->count) && !(sizes && sizes->count), err, PLIM_E_FORMAT, "neither scales nor sizes");
    return PLIM_OK;
}

/* Where each text stands in a list; n: nowhere. */
static uint32_t index_of(const char *text, const char *const *list, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && strcmp(text, list[i]) != 0) i++;
    return i;
}

/* Upsample, and Resize of opset 10, have no attributes for this: they are asymmetric, and nearest rounds down. */
static plim_status resize_how(plim__onnx_call *c, bool old, resizing *r, plim_error *err)
{
    static const char *const modes[] = {"nearest", "linear", "cubic"};
    static const char *const rounds[] = {"round_prefer_floor", "round_prefer_ceil", "floor", "ceil"};
    static const char *const places[] = {"half_pixel", "pytorch_half_pixel", "asymmetric", "align_corners", "tf_crop_and_resize",
                                         "half_pixel_symmetric", "tf_half_pixel_for_nn"};
    const char *mode = plim__onnx_text(c, "mode", "nearest");
    r->mode = strcmp(mode, "bilinear") == 0 ? MODE_LINEAR : index_of(mode, modes, 3);
    r->place = index_of(plim__onnx_text(c, "coordinate_transformation_mode", old ? "asymmetric" : "half_pixel"), places, 7);
    r->round = index_of(plim__onnx_text(c, "nearest_mode", old ? "floor" : "round_prefer_floor"), rounds, 4);
    if (r->mode == 3) return plim__onnx_refuse(c, "mode", err);
    if (r->place == 7) return plim__onnx_refuse(c, "coordinate_transformation_mode", err);
    if (r->round == 4) return plim__onnx_refuse(c, "nearest_mode", err);
    if (plim__onnx_int(c, "antialias", 0)) return plim__onnx_refuse(c, "antialias", err);
    if (strcmp(plim__onnx_text(c, "keep_aspect_ratio_policy", "stretch"), "stretch") != 0)
        return plim__onnx_refuse(c, "keep_aspect_ratio_policy", err);
    r->cubic_a = plim__onnx_float(c, "cubic_coeff_a", -0.75);
    r->outside = plim__onnx_float(c, "extrapolation_value", 0);
    r->exclude = plim__onnx_int(c, "exclude_outside", 0);
    return PLIM_OK;
}

/* Input 1 of a crop: the starts, then the ends, as parts of the extents. */
static plim_status crop_of(plim__onnx_call *c, uint32_t rank, resizing *r, plim_error *err)
{
    const plim__onnx_host *roi;
    uint32_t d;
    for (d = 0; d < rank; d++) {
        r->from[d] = 0;
        r->to[d] = 1;
    }
    if (r->place != PLACE_CROP) return PLIM_OK;
    PLIM_TRY(plim__onnx_given(c, 1, "roi", &roi, err));
    PLIM_FAIL_IF(roi->count % 2 != 0, err, PLIM_E_SHAPE, "input 1 (roi) has %llu numbers", (unsigned long long)roi->count);
    for (uint64_t i = 0; i < roi->count / 2; i++) {
        PLIM_TRY(resize_axis(c, rank, i, roi->count / 2, &d, err));
        r->from[d] = plim__onnx_number(roi, i);
        r->to[d] = plim__onnx_number(roi, roi->count / 2 + i);
    }
    return PLIM_OK;
}

/* What ONNX's text and its tests say of this differs: its length is rounded down in one and not in the other. */
static plim_status check_corners(const plim_shape *s, const resizing *r, plim_error *err)
{
    for (uint32_t d = 0; d < s->rank && r->place == PLACE_CORNERS; d++) {
        const double exact = (double)s->dim[d] * r->scale[d];
        PLIM_FAIL_IF(r->scale[d] != 0 && r->scale[d] != 1 && exact != floor(exact), err, PLIM_E_UNSUPPORTED,
                     "align_corners with a scale of %g for %lld elements, which gives no whole extent", r->scale[d], (long long)s->dim[d]);
    }
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- matrices */

/* Where output element i lies in an input of n elements. */
static double coordinate(const resizing *r, uint32_t d, int64_t n, int64_t i)
{
    const double out = (double)r->size[d], in = (double)n, scale = r->scale[d] != 0 ? r->scale[d] : out / in, x = (double)i;
    switch (r->place) {
    case PLACE_PYTORCH: return r->size[d] > 1 ? (x + 0.5) / scale - 0.5 : 0;
    case PLACE_ASYMMETRIC: return x / scale;
    case PLACE_CORNERS: return r->size[d] > 1 ? x * (in - 1) / (out - 1) : 0;
    case PLACE_CROP:
        return r->size[d] > 1 ? r->from[d] * (in - 1) + x * (r->to[d] - r->from[d]) * (in - 1) / (out - 1) : 0.5 * (r->from[d] + r->to[d]) * (in - 1);
    case PLACE_SYMMETRIC: return in / 2 * (1 - out / (scale * in)) + (x + 0.5) / scale - 0.5;
    case PLACE_NN: return (x + 0.5) / scale;
    }
    return (x + 0.5) / scale - 0.5;
}

/* Keys' kernel. */
static double cubic(double a, double x)
{
    x = fabs(x);
    if (x <= 1) return ((a + 2) * x - (a + 3)) * x * x + 1;
    return x < 2 ? ((a * x - 5 * a) * x + 8 * a) * x - 4 * a : 0;
}

/* Adds the weights of one output element to its row; taps beyond the ends are the outermost elements. */
static void set_row(const resizing *r, double x, int64_t n, double *row)
{
    const double nearest[] = {ceil(x - 0.5), floor(x + 0.5), floor(x), ceil(x)};
    const double at = r->mode == MODE_NEAREST ? nearest[r->round] : floor(x);
    const int64_t first = r->mode == MODE_CUBIC ? -1 : 0, last = r->mode == MODE_CUBIC ? 2 : r->mode == MODE_LINEAR ? 1 : 0;
    double sum = 0;
    for (int64_t k = first; k <= last; k++) {
        const double tap = at + (double)k, gap = x - tap;
        const double weight = r->mode == MODE_CUBIC ? cubic(r->cubic_a, gap) : r->mode == MODE_LINEAR ? 1 - fabs(gap) : 1;
        if (r->exclude && (tap < 0 || tap > (double)(n - 1))) continue;
        row[tap <= 0 ? 0 : tap >= (double)(n - 1) ? n - 1 : (int64_t)tap] += weight;
        sum += weight;
    }
    for (int64_t i = 0; i < n && r->exclude && sum != 0; i++) row[i] /= sum;
}

/* x resized in dimension d alone. @param beyond  bool [size, 1...]: outside of what a crop can see; PLIM__NONE */
static plim_status resize_dim(plim__onnx_call *c, const resizing *r, uint32_t d, uint32_t *x, uint32_t *beyond, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, *x);
    const plim_shape matrix = {2, {r->size[d], s.dim[d]}};
    plim_shape three = {.rank = 3, .dim = {0, s.dim[d]}}, to = s;
    plim__onnx_host *h, *mask;
    uint64_t bytes;
    uint32_t w;
    PLIM_TRY(plim_shape_bytes(&bytes, &matrix, PLIM_F64, err));
    PLIM_FAIL_IF(bytes > MATRIX_BYTES || s.dim[d] < 1, err, PLIM_E_UNSUPPORTED, "resizing dimension %u from %lld to %lld elements in this mode", d,
                 (long long)s.dim[d], (long long)r->size[d]);
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_F64, &matrix, &h, err));
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_BOOL, &(plim_shape){s.rank - d, {r->size[d], 1, 1, 1, 1, 1, 1, 1}}, &mask, err));
    for (int64_t i = 0; i < r->size[d]; i++) {
        const double at = coordinate(r, d, s.dim[d], i);
        set_row(r, at, s.dim[d], (double *)h->data + i * s.dim[d]);
        ((uint8_t *)mask->data)[i] = at < 0 || at > (double)(s.dim[d] - 1);
    }
    PLIM_TRY(plim__onnx_product(&s, 0, d, &three.dim[0], err));
    PLIM_TRY(plim__onnx_product(&s, d + 1, s.rank, &three.dim[2], err));
    PLIM_TRY(plim__graph_const(c->g, PLIM_F64, &matrix, h->data, &w, err));
    PLIM_TRY(plim__op_cast(c->g, w, plim__onnx_type(c, *x), &w, err));
    PLIM_TRY(plim__op_reshape(c->g, *x, &three, x, err));
    PLIM_TRY(plim__op_matmul(c->g, w, *x, plim__onnx_type(c, *x), x, err));
    to.dim[d] = r->size[d];
    *beyond = PLIM__NONE;
    if (r->place == PLACE_CROP) PLIM_TRY(plim__graph_const(c->g, PLIM_BOOL, &mask->shape, mask->data, beyond, err));
    return plim__op_reshape(c->g, *x, &to, x, err);
}

static plim_status resize_by_matrices(plim__onnx_call *c, const resizing *r, uint32_t x, uint32_t *v, plim_error *err)
{
    const uint32_t rank = plim__onnx_shape(c, x).rank;
    uint32_t beyond[PLIM_MAX_RANK], value;
    PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, x), r->outside, &value, err));
    for (uint32_t d = 0; d < rank; d++) {
        const bool whole = r->place != PLACE_CROP || (r->from[d] == 0 && r->to[d] == 1);
        beyond[d] = PLIM__NONE;
        if (r->scale[d] != 1 || !whole) PLIM_TRY(resize_dim(c, r, d, &x, &beyond[d], err));
    }
    for (uint32_t d = 0; d < rank; d++)
        if (beyond[d] != PLIM__NONE) PLIM_TRY(plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){beyond[d], value, x}, 3, &x, err));
    *v = x;
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the whole */

/* Nearest and linear over the last three dimensions at most have a row of their own. */
static bool has_row(const plim_shape *s, const resizing *r, uint32_t first)
{
    bool fits = r->mode != MODE_CUBIC && r->place <= PLACE_CORNERS && s->rank - first <= 3 && !r->exclude;
    for (uint32_t d = first; d < s->rank && r->place == PLACE_PYTORCH; d++) fits = fits && r->size[d] > 1; /* of 1 it takes the first */
    return fits;
}

static plim_status resize_by_row(plim__onnx_call *c, const resizing *all, uint32_t first, uint32_t x, uint32_t *v, plim_error *err)
{
    static const plim__resize_where where[] = {PLIM__RESIZE_HALF_PIXEL, PLIM__RESIZE_HALF_PIXEL, PLIM__RESIZE_ASYMMETRIC, PLIM__RESIZE_ALIGN_CORNERS};
    plim__resize r = {.space = plim__onnx_shape(c, x).rank - first, .where = where[all->place], .round = all->round,
                      .mode = all->mode == MODE_LINEAR ? PLIM__RESIZE_LINEAR : PLIM__RESIZE_NEAREST};
    for (uint32_t d = 0; d < r.space; d++) {
        r.size[d] = all->size[first + d];
        r.scale[d] = all->scale[first + d];
    }
    return plim__op_resize(c->g, x, &r, v, err);
}

plim_status plim__onnx_lower_resize(plim__onnx_call *c, plim_error *err)
{
    const bool old = c->arg || c->x->file.opset < 11;
    uint32_t x, v, first = 0;
    resizing r = {0};
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(resize_extents(c, &s, old ? 1 : 2, &r, err));
    PLIM_TRY(resize_how(c, old, &r, err));
    PLIM_TRY(crop_of(c, s.rank, &r, err));
    PLIM_TRY(check_corners(&s, &r, err));
    while (first < s.rank && r.scale[first] == 1) first++;
    if (first == s.rank && r.place != PLACE_CROP) return plim__onnx_in(c, 0, &c->out[0], err);
    PLIM_TRY(has_row(&s, &r, first) ? resize_by_row(c, &r, first, x, &v, err) : resize_by_matrices(c, &r, x, &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}
