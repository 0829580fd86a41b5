#include "kernels/window.h"

#include "core/dtype.h"
#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"

#include <string.h>

#define LANES(name) name##_base
#include "kernels/window_lanes.inc"

#define COLS_MAX 2048
#define COLS_MIN 64
#define RING_MAX (1 << 20) /* elements of row sums that are kept, as long as COLS_MIN columns need no more */
#define DIRECT_MAX 8       /* windows up to this size are summed element by element */
#define NARROW_MAX 32      /* f32 sums of no more elements are good to about 1e-6 */

static const plim__window_lanes *lanes_for(plim_dtype t)
{
    return &PLIM__BEST(plim__window_lanes)[t == PLIM_F32 ? 0 : t == PLIM_F64 ? 1 : 2];
}

static double window_count(const plim__window *w)
{
    double n = 1;
    for (uint32_t d = 0; d < w->rank; d++) n *= (double)w->size[d];
    return n;
}

/* Where in the array index i is found, or -1: it is zero. */
static int64_t border_index(const plim__window *w, uint32_t d, int64_t i)
{
    const int64_t n = w->extent[d];
    if (i >= 0 && i < n) return i;
    switch (w->border) {
    case PLIM__BORDER_EDGE: return i < 0 ? 0 : n - 1;
    case PLIM__BORDER_REFLECT: return i < 0 ? -i : 2 * n - 2 - i;
    case PLIM__BORDER_SYMMETRIC: return i < 0 ? -1 - i : 2 * n - 1 - i;
    default: return -1;
    }
}

/* One run over one strip of columns. Rows of work elements have the type `work`. */
typedef struct strip {
    const plim__window *w;
    const plim__view *out, *in;
    const plim__window_lanes *lanes;
    plim_dtype work;
    uint64_t bytes;             /* of a work element */
    uint32_t last;              /* the dimension of rows */
    uint32_t tall;              /* the dimension that the ring runs along; `last` if there is none */
    int64_t col, cols;          /* absolute, of the output */
    int64_t at[PLIM_MAX_RANK];  /* absolute index of the present output row */
    char *row, *more, *half[2]; /* (cols + size): loaded rows, and two for doubling */
    char *ring;                 /* (size[tall], cols) */
    char *prefix, *result;      /* (cols) */
} strip;

static int64_t cols_for(const plim__window *w, int64_t row)
{
    int64_t tallest = 1;
    for (uint32_t d = 0; d + 1 < w->rank; d++) tallest = plim__max(tallest, w->size[d]);
    return plim__min(plim__max(row, 1), plim__clamp(RING_MAX / tallest, COLS_MIN, COLS_MAX));
}

/* ------------------------------------------------------------------------------------------------- loading */

/* A row of the input, from (strip's first column - shift) on, with its borders. `base` points at the input row's first element in the view. */
static void row_load(const strip *s, char *to, const char *base)
{
    const plim__window *w = s->w;
    const uint32_t d = s->last;
    const int64_t bytes = (int64_t)plim_dtype_bytes(s->in->dtype), step = s->in->stride[d];
    const int64_t first = s->col - w->shift[d], n = s->cols + w->size[d] - 1;
    const int64_t lo = plim__clamp(first, 0, w->extent[d]), hi = plim__clamp(first + n, lo, w->extent[d]);
    const plim__view from = {.data = (char *)(uintptr_t)base + (lo - s->in->lo[d]) * step * bytes, .dtype = s->in->dtype, .rank = 1, .n = {hi - lo}, .stride = {step}};
    const plim__view inside = {.data = to + (uint64_t)(lo - first) * s->bytes, .dtype = s->work, .rank = 1, .n = {hi - lo}, .stride = {1}};
    if (hi > lo) plim__copy(&inside, &from);
    for (int64_t i = 0; i < n; i++) {
        if (first + i == lo && hi > lo) i += hi - lo;
        if (i >= n) break;
        const int64_t at = border_index(w, d, first + i);
        char *cell = to + (uint64_t)i * s->bytes;
        if (at < 0) memset(cell, 0, s->bytes);
        else plim__convert(cell, s->work, base + (at - s->in->lo[d]) * step * bytes, s->in->dtype, 1);
    }
}

/* The row of the input at the output row's index plus offsets `off` into its window, `in_tall` along the ring's dimension. NULL: it is zero. */
static const char *row_find(const strip *s, const int64_t off[PLIM_MAX_RANK], int64_t in_tall)
{
    const char *base = s->in->data;
    for (uint32_t d = 0; d < s->last; d++) {
        const int64_t i = d == s->tall ? in_tall : s->at[d] - s->w->shift[d] + off[d];
        const int64_t found = border_index(s->w, d, i);
        if (found < 0) return NULL;
        base += (found - s->in->lo[d]) * s->in->stride[d] * (int64_t)plim_dtype_bytes(s->in->dtype);
    }
    return base;
}

/* The next offset into the window of the dimensions before the last, without `skip`. @return false after the last one */
static bool off_next(const strip *s, int64_t off[PLIM_MAX_RANK], uint32_t skip)
{
    for (uint32_t d = s->last; d-- > 0;) {
        if (d == skip) continue;
        if (++off[d] < s->w->size[d]) return true;
        off[d] = 0;
    }
    return false;
}

/* ----------------------------------------------------------------------------------------------------- box */

/* out[j] = x[j] + ... + x[j + k - 1], j < n. Doubling: the sum over k is one sum of 2^b elements for each bit b of k, laid end to end. */
static void row_window(const strip *s, char *out, const char *x, int64_t k, int64_t n)
{
    const uint64_t b = s->bytes;
    if (k <= DIRECT_MAX) {
        const void *rows[DIRECT_MAX];
        for (int64_t r = 0; r < k; r++) rows[r] = x + (uint64_t)r * b;
        s->lanes->sum(out, rows, k, 1, n);
        return;
    }
    int64_t done = 0, length = n + k - 1;
    char *spare[2] = {s->half[0], s->half[1]};
    for (int64_t width = 1; width <= k; width *= 2) {
        if (k & width) {
            const char *piece = x + (uint64_t)done * b;
            if (done) s->lanes->add(out, piece, n);
            else memcpy(out, piece, (uint64_t)n * b);
            done += width;
        }
        if (2 * width > k) break;
        length -= width;
        const void *rows[2] = {x, x + (uint64_t)width * b};
        s->lanes->sum(spare[0], rows, 2, 1, length);
        x = spare[0];
        spare[0] = spare[1];
        spare[1] = (char *)(uintptr_t)x;
    }
}

/* One row of the ring: the window's sum in every dimension but the ring's. */
static void box_row(const strip *s, char *to, int64_t in_tall)
{
    const plim__window *w = s->w;
    int64_t off[PLIM_MAX_RANK] = {0};
    bool any = false;
    const int64_t loaded = s->cols + w->size[s->last] - 1;
    do {
        const char *base = row_find(s, off, in_tall);
        if (!base) continue;
        row_load(s, any ? s->more : s->row, base);
        if (any) s->lanes->add(s->row, s->more, loaded);
        any = true;
    } while (off_next(s, off, s->tall));
    if (any) row_window(s, to, s->row, w->size[s->last], s->cols);
    else memset(to, 0, (uint64_t)s->cols * s->bytes);
}

/* Where the output row goes: into the output itself if it is of the working type and dense. */
static char *out_row(const strip *s, bool *direct)
{
    int64_t at[PLIM_MAX_RANK];
    memcpy(at, s->at, sizeof at);
    at[s->last] = s->col;
    *direct = s->out->dtype == s->work && s->out->stride[s->last] == 1;
    return plim__view_at(s->out, at);
}

static void out_store(const strip *s, char *to, bool direct)
{
    if (direct) return;
    const plim__view from = {.data = s->result, .dtype = s->work, .rank = 1, .n = {s->cols}, .stride = {1}};
    const plim__view dst = {.data = to, .dtype = s->out->dtype, .rank = 1, .n = {s->cols}, .stride = {s->out->stride[s->last]}};
    plim__copy(&dst, &from);
}

/* Output row from the ring: row t of the sweep, t >= k - 1, was the last to come in. */
static void box_emit(strip *s, int64_t k, int64_t t, double scale)
{
    const uint64_t row_bytes = (uint64_t)s->cols * s->bytes;
    bool direct;
    char *to = out_row(s, &direct), *result = direct ? to : s->result;
    if (k <= DIRECT_MAX) {
        const void *rows[DIRECT_MAX];
        for (int64_t r = 0; r < k; r++) rows[r] = s->ring + (uint64_t)((t + 1 + r) % k) * row_bytes;
        s->lanes->sum(result, rows, k, scale, s->cols);
    } else {
        const int64_t place = t % k;
        const void *rows[2] = {s->prefix, s->ring + (uint64_t)(place + 1) * row_bytes};
        s->lanes->sum(result, rows, place + 1 == k ? 1 : 2, scale, s->cols);
    }
    out_store(s, to, direct);
}

/* Takes row t, which lies in its place in the ring, into van Herk's sums. */
static void box_prefix(const strip *s, int64_t k, int64_t t)
{
    const uint64_t row_bytes = (uint64_t)s->cols * s->bytes;
    const int64_t place = t % k;
    if (place == 0) memcpy(s->prefix, s->ring, row_bytes);
    else s->lanes->add(s->prefix, s->ring + (uint64_t)place * row_bytes, s->cols);
}

/* A full block becomes sums from its end. */
static void box_suffix(const strip *s, int64_t k)
{
    const uint64_t row_bytes = (uint64_t)s->cols * s->bytes;
    for (int64_t r = k - 1; r-- > 0;) s->lanes->add(s->ring + (uint64_t)r * row_bytes, s->ring + (uint64_t)(r + 1) * row_bytes, s->cols);
}

/* All output rows along the ring's dimension. */
static void box_sweep(strip *s, const void *ctx)
{
    const double scale = *(const double *)ctx;
    const bool rings = s->tall != s->last;
    const int64_t k = rings ? s->w->size[s->tall] : 1;
    const int64_t lo = rings ? s->out->lo[s->tall] : 0, n = rings ? s->out->n[s->tall] : 1;
    for (int64_t t = 0; t < n + k - 1; t++) {
        char *slot = s->ring + (uint64_t)(t % k * s->cols) * s->bytes;
        box_row(s, slot, rings ? lo - s->w->shift[s->tall] + t : 0);
        if (k > DIRECT_MAX) box_prefix(s, k, t);
        if (t >= k - 1) {
            if (rings) s->at[s->tall] = lo + t - (k - 1);
            box_emit(s, k, t, scale);
        }
        if (k > DIRECT_MAX && t % k == k - 1) box_suffix(s, k);
    }
}

/* Calls `sweep` for every index of the dimensions before the last, without the ring's. */
static void strip_rows(strip *s, void (*sweep)(strip *s, const void *ctx), const void *ctx)
{
    int64_t rows = 1;
    for (uint32_t d = 0; d < s->last; d++) rows *= d == s->tall ? 1 : s->out->n[d];
    for (int64_t r = 0; r < rows; r++) {
        int64_t rest = r;
        for (uint32_t d = s->last; d-- > 0;) {
            if (d == s->tall) continue;
            s->at[d] = s->out->lo[d] + rest % s->out->n[d];
            rest /= s->out->n[d];
        }
        sweep(s, ctx);
    }
}

static uint64_t row_room(int64_t n) { return plim__round_up((uint64_t)n * 8, 64); }

uint64_t plim__box_scratch(const plim__window *w, int64_t row)
{
    if (w->rank == 0) return 64;
    const int64_t cols = cols_for(w, row);
    int64_t tallest = 1;
    for (uint32_t d = 0; d + 1 < w->rank; d++) tallest = plim__max(tallest, w->size[d]);
    return 4 * row_room(cols + w->size[w->rank - 1]) + row_room(cols * tallest) + 2 * row_room(cols);
}

/* The scratch, handed out: the ring is last and takes what there is. */
static void strip_carve(strip *s, char *scratch, int64_t cols)
{
    const uint64_t row = row_room(cols + s->w->size[s->last]);
    s->row = scratch;
    s->more = s->row + row;
    s->half[0] = s->more + row;
    s->half[1] = s->half[0] + row;
    s->prefix = s->half[1] + row;
    s->result = s->prefix + row_room(cols);
    s->ring = s->result + row_room(cols);
}

/* Strips of columns, one after the other. */
static void strip_all(strip *s, void *scratch, void (*sweep)(strip *s, const void *ctx), const void *ctx)
{
    const int64_t n = s->out->n[s->last], cols = cols_for(s->w, n);
    strip_carve(s, scratch, cols);
    for (int64_t j = 0; j < n; j += cols) {
        s->col = s->out->lo[s->last] + j;
        s->cols = plim__min(cols, n - j);
        strip_rows(s, sweep, ctx);
    }
}

static strip strip_new(const plim__window *w, const plim__view *out, const plim__view *in, plim_dtype work)
{
    strip s = {.w = w, .out = out, .in = in, .last = w->rank - 1, .work = work};
    s.bytes = plim_dtype_bytes(s.work);
    s.lanes = lanes_for(s.work);
    s.tall = s.last;
    return s;
}

void plim__box_run(const plim__window *w, const plim__view *out, const plim__view *in, void *scratch)
{
    if (plim__view_count(out) == 0) return;
    if (w->rank == 0) {
        plim__copy(out, in);
        return;
    }
    const double count = window_count(w), scale = 1 / count;
    const bool narrow = plim__dtype_compute(in->dtype) == PLIM_F32 && count <= NARROW_MAX;
    strip s = strip_new(w, out, in, narrow ? PLIM_F32 : PLIM_F64);
    for (uint32_t d = 0; d < s.last; d++)
        if (w->size[d] > 1) s.tall = d;
    strip_all(&s, scratch, box_sweep, &scale);
}

/* ------------------------------------------------------------------------------------------------ convolve */

uint64_t plim__convolve_scratch(const plim__window *w, int64_t row) { return plim__box_scratch(w, row); }

/* The kernel's row for this place in the window, reversed. */
static void coef_load(const strip *s, const plim__view *kernel, const int64_t off[PLIM_MAX_RANK])
{
    const uint32_t skip = s->w->rank - kernel->rank, last = kernel->rank - 1;
    int64_t at = (kernel->n[last] - 1) * kernel->stride[last];
    for (uint32_t d = 0; d < last; d++) at += (kernel->n[d] - 1 - off[d + skip]) * kernel->stride[d];
    const plim__view from = {.data = (char *)kernel->data + at * (int64_t)plim_dtype_bytes(kernel->dtype), .dtype = kernel->dtype, .rank = 1,
                             .n = {kernel->n[last]}, .stride = {-kernel->stride[last]}};
    const plim__view to = {.data = s->more, .dtype = s->work, .rank = 1, .n = {kernel->n[last]}, .stride = {1}};
    plim__copy(&to, &from);
}

/* The row's weights times what it loaded. Columns whose window reaches beyond the array are done weight by weight, so that a zero which is not there
 * never meets a weight: 0 * inf would be NaN. */
static void taps_inside(const strip *s, char *result)
{
    const plim__window *w = s->w;
    const uint64_t b = s->bytes;
    const int64_t k = w->size[s->last], first = s->col - w->shift[s->last], n = w->extent[s->last];
    const bool zeros = w->border == PLIM__BORDER_CONSTANT || w->border == PLIM__BORDER_FULL;
    const int64_t lo = zeros ? plim__clamp(-first, 0, s->cols) : 0, hi = zeros ? plim__clamp(n - first - k + 1, lo, s->cols) : s->cols;
    if (hi > lo) s->lanes->taps(result + (uint64_t)lo * b, s->row + (uint64_t)lo * b, s->more, k, hi - lo);
    if (lo == 0 && hi == s->cols) return;
    for (int64_t t = 0; t < k; t++) {
        const int64_t from = plim__clamp(-first - t, 0, s->cols), to = plim__clamp(n - first - t, from, s->cols);
        const int64_t part[2][2] = {{from, plim__min(to, lo)}, {plim__max(from, hi), to}};
        for (int i = 0; i < 2; i++) {
            const int64_t j = part[i][0], cols = part[i][1] - j;
            if (cols > 0) s->lanes->taps(result + (uint64_t)j * b, s->row + (uint64_t)(t + j) * b, s->more + (uint64_t)t * b, 1, cols);
        }
    }
}

/* One output row: no ring, every row of the window is loaded for it. */
static void convolve_sweep(strip *s, const void *ctx)
{
    bool direct;
    char *to = out_row(s, &direct), *result = direct ? to : s->result;
    int64_t off[PLIM_MAX_RANK] = {0};
    memset(result, 0, (uint64_t)s->cols * s->bytes);
    do {
        const char *base = row_find(s, off, 0);
        if (!base) continue;
        row_load(s, s->row, base);
        coef_load(s, ctx, off);
        taps_inside(s, result);
    } while (off_next(s, off, s->last));
    out_store(s, to, direct);
}

void plim__convolve_run(const plim__window *w, const plim__view *out, const plim__view *in, const plim__view *kernel, void *scratch)
{
    if (plim__view_count(out) == 0) return;
    strip s = strip_new(w, out, in, out->dtype == PLIM_F32 && window_count(w) > NARROW_MAX ? PLIM_F64 : out->dtype);
    strip_all(&s, scratch, convolve_sweep, kernel);
}
