/* Lowering: signals. Windows and filter banks are known when the model is read. A discrete Fourier transform is a product with a constant matrix:
 * its definition, and fast enough for the frames of a spectrogram; long ones are refused. */
#include "core/dtype.h"
#include "core/size.h"
#include "models/onnx.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846
#define MATRIX_BYTES (UINT64_C(32) << 20)
#define LENGTH_MAX 65536

/* A length that the model gives. */
static plim_status length_of(plim__onnx_call *c, uint32_t k, const char *what, int64_t *out, plim_error *err)
{
    double n;
    PLIM_TRY(plim__onnx_given_number(c, k, what, &n, err));
    PLIM_FAIL_IF(!(n >= 1 && n <= LENGTH_MAX), err, PLIM_E_UNSUPPORTED, "input %u (%s) is %g; 1 to %d are supported", k, what, n, LENGTH_MAX);
    *out = (int64_t)n;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------------- windows */

enum { WINDOW_HANN, WINDOW_HAMMING, WINDOW_BLACKMAN };

/* a0 - a1*cos(2 pi i/n) + a2*cos(4 pi i/n). */
plim_status plim__onnx_lower_window(plim__onnx_call *c, plim_error *err)
{
    static const double factors[][3] = {{0.5, 0.5, 0}, {25.0 / 46, 21.0 / 46, 0}, {0.42, 0.5, 0.08}};
    const double *a = factors[c->arg];
    plim_dtype to;
    plim__onnx_host *h;
    int64_t n = 0;
    PLIM_TRY(length_of(c, 0, "size", &n, err));
    PLIM_TRY(plim__onnx_dtype(plim__onnx_int(c, "output_datatype", 1), &to, err));
    PLIM_TRY(plim__onnx_host_new(c->x, to, &(plim_shape){1, {n}}, &h, err));
    const double period = (double)(plim__onnx_int(c, "periodic", 1) ? n : plim__max(n - 1, 1));
    for (int64_t i = 0; i < n; i++) {
        const double turn = 2 * PI * (double)i / period, value = a[0] - a[1] * cos(turn) + a[2] * cos(2 * turn);
        plim__convert((char *)h->data + (uint64_t)i * plim_dtype_bytes(to), to, &value, PLIM_F64, 1);
    }
    c->host[0] = h;
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------------- transforms */

typedef struct dft {
    int64_t n, parts; /* elements that go in, each of 1 (real) or 2 (complex) numbers */
    int64_t bins;     /* that come out, complex */
    bool inverse;
} dft;

/* (n*parts, bins*2): what each number that goes in adds to each that comes out. */
static plim_status dft_matrix(plim__onnx_call *c, const dft *d, uint32_t *v, plim_error *err)
{
    const plim_shape s = {2, {d->n * d->parts, d->bins * 2}};
    plim__onnx_host *h;
    uint64_t bytes;
    PLIM_TRY(plim_shape_bytes(&bytes, &s, PLIM_F64, err));
    PLIM_FAIL_IF(bytes > MATRIX_BYTES, err, PLIM_E_UNSUPPORTED, "a transform of %lld elements is too long", (long long)d->n);
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_F64, &s, &h, err));
    double *to = h->data;
    const double scale = d->inverse ? 1 / (double)d->n : 1, sign = d->inverse ? 1 : -1;
    for (int64_t i = 0; i < d->n; i++)
        for (int64_t part = 0; part < d->parts; part++)
            for (int64_t k = 0; k < d->bins; k++) {
                const double turn = sign * 2 * PI * (double)(i * k % d->n) / (double)d->n, re = cos(turn) * scale, im = sin(turn) * scale;
                *to++ = part ? -im : re;
                *to++ = part ? re : im;
            }
    return plim__graph_const(c->g, PLIM_F64, &s, h->data, v, err);
}

/* x with dimension `axis` cut, or continued with zeros, to n elements. */
static plim_status resized(plim__onnx_call *c, uint32_t *x, uint32_t axis, int64_t n, plim_error *err)
{
    const int64_t have = plim__onnx_shape(c, *x).dim[axis];
    int64_t after[PLIM_MAX_RANK] = {0};
    const int64_t before[PLIM_MAX_RANK] = {0};
    if (have > n) return plim__op_slice_axis(c->g, *x, axis, 0, 1, n, x, err);
    after[axis] = n - have;
    return have < n ? plim__op_pad(c->g, *x, before, after, PLIM__EDGE_CONSTANT, 0, x, err) : PLIM_OK;
}

/* Along `axis` of x, whose last dimension is the real and perhaps the imaginary part. */
static plim_status transform(plim__onnx_call *c, uint32_t x, uint32_t axis, const dft *d, uint32_t *v, plim_error *err)
{
    const plim_dtype t = plim__onnx_type(c, x);
    uint32_t perm[PLIM_MAX_RANK], back[PLIM_MAX_RANK], matrix, rank = plim__onnx_shape(c, x).rank;
    for (uint32_t k = 0; k < rank; k++) perm[k] = k < axis || k == rank - 1 ? k : k == rank - 2 ? axis : k + 1;
    for (uint32_t k = 0; k < rank; k++) back[perm[k]] = k;
    PLIM_TRY(plim__op_transpose(c->g, x, perm, &x, err));
    plim_shape s = plim__onnx_shape(c, x);
    s.rank = rank - 1;
    s.dim[rank - 2] = d->n * d->parts;
    PLIM_TRY(plim__op_reshape(c->g, x, &s, &x, err));
    PLIM_TRY(dft_matrix(c, d, &matrix, err));
    PLIM_TRY(plim__op_cast(c->g, matrix, t, &matrix, err));
    PLIM_TRY(plim__op_matmul(c->g, x, matrix, t, &x, err));
    s.rank = rank;
    s.dim[rank - 2] = d->bins;
    s.dim[rank - 1] = 2;
    PLIM_TRY(plim__op_reshape(c->g, x, &s, &x, err));
    return plim__op_transpose(c->g, x, back, v, err);
}

static plim_status signal(plim__onnx_call *c, uint32_t *x, plim_error *err)
{
    PLIM_TRY(plim__onnx_in_float(c, 0, x, err));
    const plim_shape s = plim__onnx_shape(c, *x);
    PLIM_FAIL_IF(s.rank < 3 || s.dim[s.rank - 1] < 1 || s.dim[s.rank - 1] > 2, err, PLIM_E_SHAPE,
                 "an input of %u dimensions, the last of which is not a real number or a complex one", s.rank);
    return PLIM_OK;
}

/* The axis is an attribute, and an input from opset 20 on. */
plim_status plim__onnx_lower_dft(plim__onnx_call *c, plim_error *err)
{
    const bool onesided = plim__onnx_int(c, "onesided", 0);
    double given = c->x->file.opset < 20 ? (double)plim__onnx_int(c, "axis", 1) : -2;
    dft d = {.inverse = plim__onnx_int(c, "inverse", 0)};
    uint32_t x, axis, v;
    PLIM_TRY(signal(c, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    if (plim__onnx_has(c, 2)) PLIM_TRY(plim__onnx_given_number(c, 2, "axis", &given, err));
    PLIM_TRY(plim__onnx_axis((int64_t)given, s.rank, false, &axis, err));
    PLIM_FAIL_IF(axis == s.rank - 1, err, PLIM_E_SHAPE, "a transform along the dimension of the imaginary part");
    PLIM_FAIL_IF(onesided && d.inverse, err, PLIM_E_UNSUPPORTED, "an inverse of a one-sided transform");
    d.n = s.dim[axis];
    if (plim__onnx_has(c, 1)) PLIM_TRY(length_of(c, 1, "dft_length", &d.n, err));
    PLIM_FAIL_IF(d.n < 1 || d.n > LENGTH_MAX, err, PLIM_E_UNSUPPORTED, "a transform of %lld elements", (long long)d.n);
    d.parts = s.dim[s.rank - 1];
    PLIM_FAIL_IF(onesided && d.parts != 1, err, PLIM_E_SHAPE, "a one-sided transform of complex numbers");
    d.bins = onesided ? d.n / 2 + 1 : d.n;
    PLIM_TRY(resized(c, &x, axis, d.n, err));
    PLIM_TRY(transform(c, x, axis, &d, &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}

/* x [N, L, parts] as overlapping frames [N, frames, length, parts]. */
static plim_status frames_of(plim__onnx_call *c, uint32_t x, int64_t step, int64_t length, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    const int64_t frames = (s.dim[1] - length) / step + 1;
    plim__onnx_host *h;
    uint32_t index;
    PLIM_FAIL_IF(frames > (int64_t)(MATRIX_BYTES / 8) / length, err, PLIM_E_UNSUPPORTED, "%lld frames of %lld elements", (long long)frames,
                 (long long)length);
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_I64, &(plim_shape){2, {frames, length}}, &h, err));
    for (uint64_t i = 0; i < h->count; i++) ((int64_t *)h->data)[i] = (int64_t)(i / (uint64_t)length) * step + (int64_t)(i % (uint64_t)length);
    PLIM_TRY(plim__graph_const(c->g, PLIM_I64, &(plim_shape){1, {frames * length}}, h->data, &index, err));
    PLIM_TRY(plim__op_take(c->g, x, index, 1, &x, err));
    return plim__op_reshape(c->g, x, &(plim_shape){4, {s.dim[0], frames, length, s.dim[2]}}, v, err);
}

plim_status plim__onnx_lower_stft(plim__onnx_call *c, plim_error *err)
{
    uint32_t x, window = PLIM__NONE, v;
    int64_t step = 0, length = 0;
    PLIM_TRY(signal(c, &x, err));
    const plim_shape s = plim__onnx_shape(c, x);
    PLIM_TRY(length_of(c, 1, "frame_step", &step, err));
    if (plim__onnx_has(c, 2)) {
        PLIM_TRY(plim__onnx_in_float(c, 2, &window, err));
        PLIM_TRY(plim__op_cast(c->g, window, plim__onnx_type(c, x), &window, err));
        const plim_shape sw = plim__onnx_shape(c, window);
        PLIM_FAIL_IF(sw.rank != 1, err, PLIM_E_SHAPE, "a window of %u dimensions", sw.rank);
        length = sw.dim[0];
    }
    if (plim__onnx_has(c, 3)) PLIM_TRY(length_of(c, 3, "frame_length", &length, err));
    PLIM_FAIL_IF(s.rank != 3 || length < 1 || length > LENGTH_MAX || length > s.dim[1], err, PLIM_E_SHAPE,
                 "frames of %lld in a signal of %u dimensions", (long long)length, s.rank);
    PLIM_TRY(frames_of(c, x, step, length, &x, err));
    if (window != PLIM__NONE) {
        PLIM_TRY(plim__op_reshape(c->g, window, &(plim_shape){2, {length, 1}}, &window, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, x, window, &x, err));
    }
    const bool onesided = plim__onnx_int(c, "onesided", 1);
    PLIM_FAIL_IF(onesided && s.dim[2] != 1, err, PLIM_E_UNSUPPORTED, "a one-sided transform of complex numbers");
    const dft d = {.n = length, .parts = s.dim[2], .bins = onesided ? length / 2 + 1 : length};
    PLIM_TRY(transform(c, x, 2, &d, &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}

/* --------------------------------------------------------------------------------------------------------- filter banks */

/* Column m rises over the bins from edge m to edge m + 1, and falls from there to edge m + 2. */
static void mel_filter(double *column, int64_t stride, const int64_t edge[3])
{
    for (int64_t i = edge[0]; i <= edge[1]; i++) column[i * stride] = edge[1] > edge[0] ? (double)(i - edge[0]) / (double)(edge[1] - edge[0]) : 1;
    for (int64_t i = edge[1]; i < edge[2]; i++) column[i * stride] = (double)(edge[2] - i) / (double)(edge[2] - edge[1]);
}

/* Edges at equal distances on the mel scale, each at the bin below it. */
plim_status plim__onnx_lower_mel_weights(plim__onnx_call *c, plim_error *err)
{
    int64_t bands = 0, length = 0, edge[3];
    double rate = 0, low = 0, high = 0;
    plim_dtype to;
    plim__onnx_host *h, *wide;
    PLIM_TRY(length_of(c, 0, "num_mel_bins", &bands, err));
    PLIM_TRY(length_of(c, 1, "dft_length", &length, err));
    PLIM_TRY(plim__onnx_given_number(c, 2, "sample_rate", &rate, err));
    PLIM_TRY(plim__onnx_given_number(c, 3, "lower_edge_hertz", &low, err));
    PLIM_TRY(plim__onnx_given_number(c, 4, "upper_edge_hertz", &high, err));
    PLIM_TRY(plim__onnx_dtype(plim__onnx_int(c, "output_datatype", 1), &to, err));
    PLIM_FAIL_IF(!(rate > 0 && low >= 0 && high >= low && high <= rate / 2), err, PLIM_E_FORMAT, "a band from %g to %g at a rate of %g", low,
                 high, rate);
    const plim_shape s = {2, {length / 2 + 1, bands}};
    PLIM_FAIL_IF(s.dim[0] > (int64_t)(MATRIX_BYTES / 8) / bands, err, PLIM_E_UNSUPPORTED, "%lld filters of %lld numbers", (long long)bands,
                 (long long)s.dim[0]);
    const double from = 2595 * log10(1 + low / 700), step = (2595 * log10(1 + high / 700) - from) / (double)(bands + 2);
    PLIM_TRY(plim__onnx_host_new(c->x, PLIM_F64, &s, &wide, err));
    PLIM_TRY(plim__onnx_host_new(c->x, to, &s, &h, err));
    for (int64_t m = 0; m < bands; m++) {
        for (int64_t k = 0; k < 3; k++) {
            const double hertz = 700 * (pow(10, ((double)(m + k) * step + from) / 2595) - 1);
            edge[k] = (int64_t)floor((double)(length + 1) * hertz / rate);
            PLIM_FAIL_IF(edge[k] < 0 || edge[k] > length / 2, err, PLIM_E_UNSUPPORTED, "an edge beyond the spectrum");
        }
        mel_filter((double *)wide->data + m, bands, edge);
    }
    plim__convert(h->data, to, wide->data, PLIM_F64, wide->count);
    c->host[0] = h;
    return PLIM_OK;
}
