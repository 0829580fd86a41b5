/* The k best elements along a dimension (declared in order.h): a sorted list per column, into which a piece's elements are inserted when they beat its
 * last entry. Elements in random order beat it k*ln(n/k) times; n*k is the worst. */
#include "core/size.h"
#include "kernels/order.h"
#include "kernels/reduce.h"

#include <string.h>

#define TOPK_CHUNK 256

/* One column of the result. */
typedef struct topk_list {
    char *val;
    int64_t *pos;
    int64_t val_step, pos_step; /* elements */
    int64_t k, bytes;
    plim_dtype dtype;
    bool largest;
} topk_list;

/* Keys such that the smaller is the better. */
static void topk_keys(uint64_t *key, const void *x, plim_dtype t, int64_t stride, int64_t n, bool largest)
{
    const uint64_t flip = largest ? UINT64_MAX : 0;
    if (plim__key_wide(t)) {
        plim__keys64(key, x, t, stride, n);
        for (int64_t i = 0; i < n; i++) key[i] ^= flip;
        return;
    }
    uint32_t narrow[TOPK_CHUNK];
    plim__keys32(narrow, x, t, stride, n);
    for (int64_t i = 0; i < n; i++) key[i] = narrow[i] ^ flip;
}

static bool topk_beats(const topk_list *l, uint64_t key, int64_t pos, int64_t entry)
{
    const int64_t held = l->pos[entry * l->pos_step];
    if (held < 0) return true;
    uint64_t other;
    topk_keys(&other, l->val + entry * l->val_step * l->bytes, l->dtype, 1, 1, l->largest);
    return key < other || (key == other && pos < held);
}

static void topk_insert(const topk_list *l, uint64_t key, int64_t pos, const void *x)
{
    int64_t lo = 0, hi = l->k - 1; /* the first entry that it beats; it beats the last */
    while (lo < hi) {
        const int64_t mid = (lo + hi) / 2;
        if (topk_beats(l, key, pos, mid)) hi = mid;
        else lo = mid + 1;
    }
    for (int64_t e = l->k - 1; e > lo; e--) {
        memcpy(l->val + e * l->val_step * l->bytes, l->val + (e - 1) * l->val_step * l->bytes, (size_t)l->bytes);
        l->pos[e * l->pos_step] = l->pos[(e - 1) * l->pos_step];
    }
    memcpy(l->val + lo * l->val_step * l->bytes, x, (size_t)l->bytes);
    l->pos[lo * l->pos_step] = pos;
}

/* Worst key and position that would still get in. */
static void topk_bar(const topk_list *l, uint64_t *key, int64_t *pos)
{
    *key = UINT64_MAX;
    *pos = l->pos[(l->k - 1) * l->pos_step];
    if (*pos < 0) *pos = INT64_MAX;
    else topk_keys(key, l->val + (l->k - 1) * l->val_step * l->bytes, l->dtype, 1, 1, l->largest);
}

/* Elements x[i*stride], i < n, at positions pos + i. */
static void topk_offer(const topk_list *l, const void *x, int64_t stride, int64_t n, int64_t pos)
{
    uint64_t key[TOPK_CHUNK], bar;
    int64_t bar_pos;
    topk_bar(l, &bar, &bar_pos);
    for (int64_t at = 0; at < n; at += TOPK_CHUNK) {
        const int64_t m = plim__min(TOPK_CHUNK, n - at);
        const char *from = (const char *)x + at * stride * l->bytes;
        topk_keys(key, from, l->dtype, stride, m, l->largest);
        for (int64_t i = 0; i < m; i++) {
            if (key[i] > bar || (key[i] == bar && pos + at + i > bar_pos)) continue;
            topk_insert(l, key[i], pos + at + i, from + i * stride * l->bytes);
            topk_bar(l, &bar, &bar_pos);
        }
    }
}

void plim__topk_init(const plim__view *val, const plim__view *pos)
{
    const uint64_t bytes = plim_dtype_bytes(val->dtype);
    const int64_t n = plim__column_count(val, 0);
    for (int64_t c = 0; c < n; c++) {
        memset(plim__column(val, 0, c), 0, bytes);
        *(int64_t *)plim__column(pos, 0, c) = -1;
    }
}

typedef struct topk_ctx {
    topk_list list;
    char *val;
    int64_t *pos;
    int64_t base;
} topk_ctx;

static void topk_piece(void *ctx, const plim__piece *p)
{
    topk_ctx *t = ctx;
    for (int64_t j = 0; j < p->cols; j++) {
        t->list.val = t->val + (p->at[0] + j * p->col_step[0]) * t->list.bytes;
        t->list.pos = t->pos + p->at[1] + j * p->col_step[1];
        topk_offer(&t->list, (const char *)p->x + j * t->list.bytes, p->pitch, p->rows, t->base + p->at[2]);
    }
}

static topk_list topk_list_of(bool largest, const plim__view *val, const plim__view *pos, uint32_t axis)
{
    return (topk_list){.val_step = val->stride[axis], .pos_step = pos->stride[axis], .k = val->n[axis], .dtype = val->dtype, .largest = largest,
                       .bytes = (int64_t)plim_dtype_bytes(val->dtype)};
}

void plim__topk_run(bool largest, const plim__view *val, const plim__view *pos, const plim__view *in, uint32_t axis)
{
    topk_ctx t = {.list = topk_list_of(largest, val, pos, axis), .val = val->data, .pos = pos->data, .base = in->lo[axis]};
    plim__tracks tracks = {0};
    for (uint32_t d = 0; d < in->rank; d++) {
        if (d == axis) continue;
        tracks.step[0][d] = val->stride[d];
        tracks.step[1][d] = pos->stride[d];
    }
    tracks.step[2][axis] = 1;
    plim__pieces(in, 1u << axis, in->dtype, &tracks, topk_piece, &t);
}

void plim__topk_merge(bool largest, const plim__view *val, const plim__view *pos, const plim__view *part_val, const plim__view *part_pos, uint32_t axis)
{
    topk_list l = topk_list_of(largest, val, pos, axis);
    const int64_t n = plim__column_count(val, 1u << axis);
    for (int64_t c = 0; c < n; c++) {
        l.val = plim__column(val, 1u << axis, c);
        l.pos = plim__column(pos, 1u << axis, c);
        const char *from = plim__column(part_val, 1u << axis, c);
        const int64_t *from_pos = plim__column(part_pos, 1u << axis, c);
        for (int64_t e = 0; e < l.k; e++) {
            const int64_t p = from_pos[e * part_pos->stride[axis]];
            if (p >= 0) topk_offer(&l, from + e * part_val->stride[axis] * l.bytes, 1, 1, p);
        }
    }
}
