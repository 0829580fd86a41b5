/* Lowering: GridSample. x [N, C, H, W] is read at places that a grid [N, h, w, 2] (x, then y, each from -1 to 1) names: y [N, C, h, w].
 *
 * Along each dimension of space a place touches a few taps: one (nearest), two (linear) or four (cubic), each with a weight. The result is the sum
 * over pairs of taps of x there times both weights; so it has a gradient both for x and, where the weights have one, for the grid. */
#include "core/dtype.h"
#include "models/onnx.h"

#include <string.h>

enum { PAD_ZEROS, PAD_BORDER, PAD_REFLECTION };
#define TAPS_MAX 4u
#define CUBIC_A (-0.75)

typedef struct sampling {
    uint32_t taps;  /* 1, 2 or 4 */
    uint32_t pad;
    bool corners;   /* -1 and 1 are the middles of the outermost elements, not their edges */
} sampling;

/* The taps of one dimension: where they are (i64, inside x) and their weights, [N, 1, h, w]. */
typedef struct taps {
    uint32_t at[TAPS_MAX], weight[TAPS_MAX];
} taps;

static plim_status number(plim__onnx_call *c, plim__ew fn, uint32_t a, double b, uint32_t *v, plim_error *err)
{
    return plim__onnx_ew_number(c, fn, a, b, v, err);
}

/* v thrown back at both ends of [lo, hi] until it is inside. */
static plim_status reflected(plim__onnx_call *c, uint32_t *v, double lo, double hi, plim_error *err)
{
    const double span = hi - lo;
    uint32_t rest, turns, back;
    if (span <= 0) return number(c, PLIM__EW_MUL, *v, 0, v, err);
    PLIM_TRY(number(c, PLIM__EW_SUB, *v, lo, v, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_ABS, *v, v, err));
    PLIM_TRY(number(c, PLIM__EW_DIV, *v, span, &turns, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_FLOOR, turns, &turns, err));
    PLIM_TRY(number(c, PLIM__EW_MUL, turns, span, &rest, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, *v, rest, &rest, err));
    PLIM_TRY(number(c, PLIM__EW_MOD, turns, 2, &turns, err));
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_NEG, rest, &back, err));
    PLIM_TRY(number(c, PLIM__EW_ADD, back, span, &back, err));
    PLIM_TRY(plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){turns, back, rest}, 3, v, err));
    return number(c, PLIM__EW_ADD, *v, lo, v, err);
}

static plim_status clamped(plim__onnx_call *c, uint32_t *v, double hi, plim_error *err)
{
    PLIM_TRY(number(c, PLIM__EW_MAXIMUM, *v, 0, v, err));
    return number(c, PLIM__EW_MINIMUM, *v, hi, v, err);
}

/* Brings places inside, as the padding says. Zeros are the taps' matter. */
static plim_status bounded(plim__onnx_call *c, const sampling *s, int64_t extent, uint32_t *v, plim_error *err)
{
    const double last = (double)extent - 1;
    if (s->pad == PAD_ZEROS) return PLIM_OK;
    if (s->pad == PAD_REFLECTION) PLIM_TRY(reflected(c, v, s->corners ? 0 : -0.5, s->corners ? last : last + 0.5, err));
    return clamped(c, v, last, err);
}

/* Weights by the distance f (0 to 1) behind the tap at or before the place. */
static plim_status cubic_weight(plim__onnx_call *c, uint32_t f, uint32_t tap, uint32_t *v, plim_error *err)
{
    const double a = CUBIC_A;
    /* coefficients of 1, f, f^2, f^3: Keys' kernel at distances f + 1, f, 1 - f, 2 - f */
    const double poly[4][4] = {{0, a, -2 * a, a}, {1, 0, -(a + 3), a + 2}, {0, -a, 2 * a + 3, -(a + 2)}, {0, 0, a, -a}};
    PLIM_TRY(number(c, PLIM__EW_MUL, f, poly[tap][3], v, err));
    for (uint32_t k = 3; k-- > 0;) {
        PLIM_TRY(number(c, PLIM__EW_ADD, *v, poly[tap][k], v, err));
        if (k > 0) PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, *v, f, v, err));
    }
    return PLIM_OK;
}

static plim_status weight_of(plim__onnx_call *c, const sampling *s, uint32_t f, uint32_t tap, uint32_t *v, plim_error *err)
{
    if (s->taps == 4) return cubic_weight(c, f, tap, v, err);
    *v = f;
    if (s->taps == 1) PLIM_TRY(number(c, PLIM__EW_MUL, f, 0, v, err));
    if (s->taps == 2 && tap == 1) return PLIM_OK;
    PLIM_TRY(plim__onnx_ew1(c, PLIM__EW_NEG, *v, v, err));
    return number(c, PLIM__EW_ADD, *v, 1, v, err);
}

/* A tap: inside x, and without weight where x ends and zeros begin. */
static plim_status place_tap(plim__onnx_call *c, const sampling *s, int64_t extent, uint32_t *at, uint32_t *weight, plim_error *err)
{
    uint32_t low, high, zero;
    if (s->pad == PAD_ZEROS) {
        PLIM_TRY(number(c, PLIM__EW_GREATER_EQUAL, *at, 0, &low, err));
        PLIM_TRY(number(c, PLIM__EW_LESS, *at, (double)extent, &high, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_AND, low, high, &low, err));
        PLIM_TRY(plim__onnx_constant(c, plim__onnx_type(c, *weight), 0, &zero, err));
        PLIM_TRY(plim__onnx_ew(c, PLIM__EW_WHERE, (const uint32_t[]){low, *weight, zero}, 3, weight, err));
    }
    if (s->taps == 4) PLIM_TRY(bounded(c, s, extent, at, err));
    PLIM_TRY(clamped(c, at, (double)extent - 1, err));
    return plim__op_cast(c->g, *at, PLIM_I64, at, err);
}

/* The taps along a dimension of `extent` of the grid's numbers g in [-1, 1]. */
static plim_status taps_of(plim__onnx_call *c, const sampling *s, int64_t extent, uint32_t g, taps *t, plim_error *err)
{
    uint32_t base, f;
    PLIM_TRY(number(c, PLIM__EW_ADD, g, 1, &g, err));
    PLIM_TRY(number(c, PLIM__EW_MUL, g, (s->corners ? (double)extent - 1 : (double)extent) / 2, &g, err));
    if (!s->corners) PLIM_TRY(number(c, PLIM__EW_SUB, g, 0.5, &g, err));
    if (s->taps < 4) PLIM_TRY(bounded(c, s, extent, &g, err)); /* cubic taps are brought inside one by one */
    PLIM_TRY(plim__onnx_ew1(c, s->taps == 1 ? PLIM__EW_ROUND : PLIM__EW_FLOOR, g, &base, err));
    PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_SUB, g, base, &f, err));
    for (uint32_t tap = 0; tap < s->taps; tap++) {
        PLIM_TRY(number(c, PLIM__EW_ADD, base, (double)tap - (s->taps == 4 ? 1 : 0), &t->at[tap], err));
        PLIM_TRY(weight_of(c, s, f, tap, &t->weight[tap], err));
        PLIM_TRY(place_tap(c, s, extent, &t->at[tap], &t->weight[tap], err));
    }
    return PLIM_OK;
}

/* Where the planes of x begin in x as one long dimension: [N, C, 1, 1]. */
static plim_status planes(plim__onnx_call *c, const plim_shape *s, uint32_t *v, plim_error *err)
{
    int64_t plane;
    PLIM_FAIL_IF(s->dim[0] > INT32_MAX || s->dim[1] > INT32_MAX, err, PLIM_E_OVERFLOW, "too many channels");
    PLIM_TRY(plim__onnx_product(s, 2, 4, &plane, err));
    PLIM_TRY(plim__onnx_iota(c, s->dim[0] * s->dim[1], 1, 0, v, err));
    PLIM_TRY(number(c, PLIM__EW_MUL, *v, (double)plane, v, err));
    return plim__op_reshape(c->g, *v, &(plim_shape){4, {s->dim[0], s->dim[1], 1, 1}}, v, err);
}

/* The sum over pairs of taps. */
static plim_status sample(plim__onnx_call *c, const sampling *how, uint32_t x, const taps *ty, const taps *tx, uint32_t *v, plim_error *err)
{
    const plim_shape s = plim__onnx_shape(c, x);
    plim_shape flat = {.rank = 1};
    uint32_t start, at, row, part, weight;
    PLIM_TRY(planes(c, &s, &start, err));
    PLIM_TRY(plim__onnx_product(&s, 0, 4, &flat.dim[0], err));
    PLIM_TRY(plim__op_reshape(c->g, x, &flat, &x, err));
    *v = PLIM__NONE;
    for (uint32_t i = 0; i < how->taps * how->taps; i++) {
        const uint32_t ky = i / how->taps, kx = i % how->taps;
        PLIM_TRY(number(c, PLIM__EW_MUL, ty->at[ky], (double)s.dim[3], &row, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, row, tx->at[kx], &at, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, start, at, &at, err));
        PLIM_TRY(plim__op_gather(c->g, x, at, 0, &part, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, ty->weight[ky], tx->weight[kx], &weight, err));
        PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_MUL, part, weight, &part, err));
        if (*v != PLIM__NONE) PLIM_TRY(plim__onnx_ew2(c, PLIM__EW_ADD, *v, part, &part, err));
        *v = part;
    }
    return PLIM_OK;
}

static plim_status sampling_of(plim__onnx_call *c, sampling *s, plim_error *err)
{
    static const struct { const char *name; uint32_t taps; } modes[] = {{"nearest", 1}, {"bilinear", 2}, {"linear", 2}, {"bicubic", 4}, {"cubic", 4}};
    static const char *const pads[] = {"zeros", "border", "reflection"};
    const char *mode = plim__onnx_text(c, "mode", "bilinear"), *pad = plim__onnx_text(c, "padding_mode", "zeros");
    *s = (sampling){.corners = plim__onnx_int(c, "align_corners", 0)};
    for (uint32_t i = 0; i < 5; i++)
        if (!strcmp(mode, modes[i].name)) s->taps = modes[i].taps;
    while (s->pad < 3 && strcmp(pad, pads[s->pad]) != 0) s->pad++;
    if (s->taps == 0) return plim__onnx_refuse(c, "mode", err);
    return s->pad == 3 ? plim__onnx_refuse(c, "padding_mode", err) : PLIM_OK;
}

plim_status plim__onnx_lower_grid_sample(plim__onnx_call *c, plim_error *err)
{
    sampling how;
    uint32_t x, grid, g[2], v;
    taps t[2];
    PLIM_TRY(sampling_of(c, &how, err));
    PLIM_TRY(plim__onnx_in_float(c, 0, &x, err));
    PLIM_TRY(plim__onnx_in_float(c, 1, &grid, err));
    PLIM_TRY(plim__op_cast(c->g, grid, plim__onnx_type(c, x), &grid, err));
    const plim_shape s = plim__onnx_shape(c, x), sg = plim__onnx_shape(c, grid);
    PLIM_FAIL_IF(s.rank != 4, err, PLIM_E_UNSUPPORTED, "an input of %u dimensions; samples, channels and two of space are supported", s.rank);
    PLIM_FAIL_IF(sg.rank != 4 || sg.dim[0] != s.dim[0] || sg.dim[3] != 2 || s.dim[2] < 1 || s.dim[3] < 1, err, PLIM_E_SHAPE,
                 "a grid that does not fit the input");
    for (uint32_t k = 0; k < 2; k++) { /* x comes first, and is the last dimension */
        PLIM_TRY(plim__op_slice_axis(c->g, grid, 3, k, 1, 1, &g[k], err));
        PLIM_TRY(plim__op_reshape(c->g, g[k], &(plim_shape){4, {s.dim[0], 1, sg.dim[1], sg.dim[2]}}, &g[k], err));
        PLIM_TRY(taps_of(c, &how, s.dim[3 - k], g[k], &t[k], err));
    }
    PLIM_TRY(sample(c, &how, x, &t[1], &t[0], &v, err));
    return plim__onnx_out_like(c, 0, v, err);
}
