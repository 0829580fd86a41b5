/* Copies between strided boxes, and byte order.
 *
 * The nest of both views is reduced first (strided.h), in the order of the output's memory. What is left is one of two cases:
 *   rows    the innermost dimension is also the input's densest, or it repeats one element: row by row, a memcpy where both are dense;
 *   blocks  the input is densest along another dimension: a transpose. It goes in square tiles through the stack, 128 to 256 bytes
 *           wide, so that every cache line of either side is used whole while it is there. Elements of four bytes that keep their dtype
 *           need no tile: they are turned in registers (turn.h).
 * A change of dtype happens on the way, a row or a tile at a time. Reentrant; nothing is allocated. */
#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/elementwise.h"
#include "kernels/strided.h"

#include <string.h>

#define LANES(name) name##_base
#include "kernels/turn_lanes.inc"

#define TILE_BYTES (16 << 10)
#define TILE_SIDE_MAX 128
#define ROW_CHUNK 1024

typedef struct copier {
    plim__strided s;
    uint64_t out_item, in_item;
    plim__convert_loop convert; /* NULL: same dtype */
} copier;

/* ---------------------------------------------------------------------------------------------------- rows */

/* cols elements along the innermost dimension, steps of the two sides in bytes, at most ROW_CHUNK where they are not dense. */
static void copy_chunk(const copier *c, char *out, const char *in, int64_t cols, int64_t out_step, int64_t in_step)
{
    _Alignas(64) char from[ROW_CHUNK * 8], to[ROW_CHUNK * 8];
    const bool out_dense = out_step == (int64_t)c->out_item, in_dense = in_step == (int64_t)c->in_item;
    if (!c->convert) {
        if (out_dense) {
            plim__gather(out, in, c->in_item, 1, cols, 0, in_step);
            return;
        }
        if (!in_dense) plim__gather(from, in, c->in_item, 1, cols, 0, in_step);
        plim__scatter(out, in_dense ? in : from, c->out_item, 1, cols, 0, out_step);
        return;
    }
    if (!in_dense) plim__gather(from, in, c->in_item, 1, cols, 0, in_step);
    c->convert(out_dense ? out : to, in_dense ? in : from, (uint64_t)cols);
    if (!out_dense) plim__scatter(out, to, c->out_item, 1, cols, 0, out_step);
}

static void copy_rows(const copier *c)
{
    const uint32_t last = c->s.rank - 1;
    const int64_t n = c->s.n[last], out_step = c->s.step[0][last], in_step = c->s.step[1][last];
    const bool out_dense = out_step == (int64_t)c->out_item, in_dense = in_step == (int64_t)c->in_item;
    const bool whole = out_dense && (in_dense || !c->convert);
    const int64_t chunk = whole ? n : plim__min(n, ROW_CHUNK);
    char *data[PLIM__STRIDED_MAX];
    int64_t at[PLIM_MAX_RANK] = {0};
    memcpy(data, c->s.data, sizeof data);
    do {
        if (whole && !c->convert && in_dense) {
            memcpy(data[0], data[1], (size_t)n * c->out_item);
            continue;
        }
        for (int64_t j = 0; j < n; j += chunk)
            copy_chunk(c, data[0] + j * out_step, data[1] + j * in_step, plim__min(chunk, n - j), out_step, in_step);
    } while (plim__strided_next(&c->s, data, at, last));
}

/* -------------------------------------------------------------------------------------------------- blocks */

static int64_t tile_side(uint64_t item) { return item == 1 ? TILE_SIDE_MAX : item == 8 ? 32 : 64; }

#define TRANSPOSE(item)                                                                                              \
    for (int64_t i = 0; i < rows; i++) {                                                                             \
        const char *s = in + i * in_row;                                                                             \
        char *d = tile + i * (item);                                                                                 \
        for (int64_t j = 0; j < cols; j++) memcpy(d + j * (tile_side(item) * (item)), s + j * in_col, item);         \
    }

/* Fills tile[j][i] from in[i][j]: the input is read along its dense dimension j. */
static void read_tile(char *tile, const char *in, uint64_t item, int64_t rows, int64_t cols, int64_t in_row, int64_t in_col)
{
    switch (item) {
    case 1: TRANSPOSE(1) break;
    case 2: TRANSPOSE(2) break;
    case 4: TRANSPOSE(4) break;
    default: TRANSPOSE(8) break;
    }
}
#undef TRANSPOSE

/* Asks for the lines of a tile before they are needed: its rows are pages apart, which no hardware prefetcher follows. */
#define PREFETCH(p, rows, cols, row_step, col_step, write)                                       \
    do {                                                                                         \
        const int64_t apart_ = plim__max(1, 64 / ((col_step) < 0 ? -(col_step) : (col_step)));   \
        for (int64_t i_ = 0; i_ < (rows); i_++)                                                  \
            for (int64_t j_ = 0; j_ < (cols); j_ += apart_)                                      \
                __builtin_prefetch((p) + i_ * (row_step) + j_ * (col_step), write);              \
    } while (0)

/* Rows that lie close together come by themselves. */
#define FAR 2048

/* A plane that turn.h can do: in squares that the first-level cache holds, as long as the other side is short. */
static void turn_plane(const copier *c, char *out, const char *in, uint32_t d_in, uint32_t d_out)
{
    plim__turn *const turn = PLIM__BEST(plim__turn);
    const int64_t n_in = c->s.n[d_in], n_out = c->s.n[d_out], out_row = c->s.step[0][d_in], in_row = c->s.step[1][d_out];
    const int64_t wide = n_out < 16 ? 1024 : 64, tall = n_in < 16 ? 1024 : 64;
    for (int64_t j = 0; j < n_in; j += wide) {
        const int64_t cols = plim__min(wide, n_in - j);
        for (int64_t i = 0; i < n_out; i += tall) {
            const int64_t rows = plim__min(tall, n_out - i);
            char *to = out + i * 4 + j * out_row;
            const char *from = in + i * in_row + j * 4;
            if (out_row >= FAR || out_row <= -FAR) PREFETCH(to, cols, rows, out_row, 4, 1);
            turn((plim__word *)(void *)to, out_row / 4, (const plim__word *)(const void *)from, in_row / 4, rows, cols);
            if (in_row >= FAR || in_row <= -FAR) PREFETCH(from + tall * in_row, plim__min(tall, n_out - i - tall), cols, in_row, 4, 0);
        }
    }
}

/* One plane: `n_out` along the output's dense dimension, `n_in` along the input's. */
static void copy_plane(const copier *c, char *out, const char *in, uint32_t d_in, uint32_t d_out)
{
    _Alignas(64) char tile[TILE_BYTES], row[TILE_SIDE_MAX * 8];
    const int64_t n_in = c->s.n[d_in], n_out = c->s.n[d_out], side = tile_side(c->in_item);
    const int64_t *os = c->s.step[0], *is = c->s.step[1];
    const bool out_dense = os[d_out] == (int64_t)c->out_item;
    if (!c->convert && c->in_item == 4 && out_dense && is[d_in] == 4) {
        turn_plane(c, out, in, d_in, d_out);
        return;
    }
    for (int64_t j = 0; j < n_in; j += side) {
        const int64_t cols = plim__min(side, n_in - j);
        for (int64_t i = 0; i < n_out; i += side) {
            const int64_t rows = plim__min(side, n_out - i);
            const char *from_tile = in + i * is[d_out] + j * is[d_in];
            char *to_tile = out + i * os[d_out] + j * os[d_in];
            PREFETCH(to_tile, cols, rows, os[d_in], os[d_out], 1);
            read_tile(tile, from_tile, c->in_item, rows, cols, is[d_out], is[d_in]);
            PREFETCH(from_tile + side * is[d_out], plim__min(side, n_out - i - side), cols, is[d_out], is[d_in], 0);
            for (int64_t k = 0; k < cols; k++) {
                char *to = to_tile + k * os[d_in];
                const char *from = tile + k * side * (int64_t)c->in_item;
                if (c->convert) {
                    c->convert(out_dense ? to : row, from, (uint64_t)rows);
                    from = row;
                }
                if (!c->convert || !out_dense) plim__scatter(to, from, c->out_item, 1, rows, 0, os[d_out]);
            }
        }
    }
}

/* The dimension along which the input moves least, not counting repeats. */
static uint32_t densest(const plim__strided *s)
{
    uint32_t best = s->rank - 1;
    int64_t least = INT64_MAX;
    for (uint32_t d = s->rank; d-- > 0;) {
        const int64_t step = s->step[1][d] < 0 ? -s->step[1][d] : s->step[1][d];
        if (step != 0 && step < least) {
            least = step;
            best = d;
        }
    }
    return best;
}

static void copy_blocks(copier *c, uint32_t d_in)
{
    plim__strided outer = c->s; /* the nest without the plane: its two dimensions have one iteration each */
    const uint32_t d_out = c->s.rank - 1;
    outer.n[d_in] = outer.n[d_out] = 1;
    char *data[PLIM__STRIDED_MAX];
    int64_t at[PLIM_MAX_RANK] = {0};
    memcpy(data, c->s.data, sizeof data);
    do copy_plane(c, data[0], data[1], d_in, d_out);
    while (plim__strided_next(&outer, data, at, outer.rank));
}

void plim__copy(const plim__view *out, const plim__view *in)
{
    copier c = {.out_item = plim_dtype_bytes(out->dtype), .in_item = plim_dtype_bytes(in->dtype),
                .convert = plim__convert_find(out->dtype, in->dtype)};
    plim__strided_new(&c.s, (const plim__view *const[]){out, in}, 2);
    if (c.s.empty) return;
    const uint32_t last = c.s.rank - 1, d_in = densest(&c.s);
    if (c.s.step[1][last] != 0 && d_in != last && c.s.n[d_in] > 1)
        copy_blocks(&c, d_in);
    else
        copy_rows(&c);
}

/* ---------------------------------------------------------------------------------------------- byte order */

#define SWAP(U, swap)                              \
    do {                                           \
        for (uint64_t i = 0; i < n; i++) {         \
            U x;                                   \
            memcpy(&x, b + i * sizeof x, sizeof x); \
            x = swap(x);                           \
            memcpy(b + i * sizeof x, &x, sizeof x); \
        }                                          \
    } while (0)

void plim__swap_bytes(void *p, uint64_t n, uint64_t size)
{
    char *b = p;
    switch (size) {
    case 2: SWAP(uint16_t, __builtin_bswap16); break;
    case 4: SWAP(uint32_t, __builtin_bswap32); break;
    case 8: SWAP(uint64_t, __builtin_bswap64); break;
    default: PLIM_ASSERT(size == 1); break;
    }
}
