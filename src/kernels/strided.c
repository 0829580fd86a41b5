/* Loop nests over strided views, and moving elements between strided and dense memory. Reentrant, nothing is allocated. */
#include "kernels/strided.h"

#include "core/size.h"

#include <string.h>

static int64_t magnitude(int64_t x) { return x < 0 ? -x : x; }

/* Can dimension d and the next be one: is a step of d the same as running through the whole of d + 1, in every view? */
static bool mergeable(const plim__strided *s, uint32_t d)
{
    for (uint32_t k = 0; k < s->count; k++)
        if (s->step[k][d] != s->step[k][d + 1] * s->n[d + 1]) return false;
    return true;
}

static void swap_dims(plim__strided *s, uint32_t a, uint32_t b)
{
    const int64_t n = s->n[a];
    s->n[a] = s->n[b];
    s->n[b] = n;
    for (uint32_t k = 0; k < s->count; k++) {
        const int64_t step = s->step[k][a];
        s->step[k][a] = s->step[k][b];
        s->step[k][b] = step;
    }
}

void plim__strided_new(plim__strided *s, const plim__view *const *view, uint32_t count)
{
    PLIM_ASSERT(count >= 1 && count <= PLIM__STRIDED_MAX);
    *s = (plim__strided){.count = count};
    for (uint32_t k = 0; k < count; k++) s->data[k] = view[k]->data;
    for (uint32_t d = 0; d < view[0]->rank; d++) {
        s->empty |= view[0]->n[d] <= 0;
        if (view[0]->n[d] == 1) continue;
        s->n[s->rank] = view[0]->n[d];
        for (uint32_t k = 0; k < count; k++) {
            PLIM_ASSERT(view[k]->rank == view[0]->rank && view[k]->n[d] == view[0]->n[d]);
            s->step[k][s->rank] = view[k]->stride[d] * (int64_t)plim_dtype_bytes(view[k]->dtype);
        }
        s->rank++;
    }
    for (uint32_t d = 1; d < s->rank; d++)
        for (uint32_t e = d; e > 0 && magnitude(s->step[0][e - 1]) < magnitude(s->step[0][e]); e--) swap_dims(s, e - 1, e);

    for (uint32_t d = s->rank; d-- > 1;) {
        if (!mergeable(s, d - 1)) continue;
        s->n[d - 1] *= s->n[d];
        for (uint32_t k = 0; k < count; k++) s->step[k][d - 1] = s->step[k][d];
        for (uint32_t e = d; e + 1 < s->rank; e++) swap_dims(s, e, e + 1);
        s->rank--;
    }
    if (s->rank == 0) {
        s->n[0] = 1;
        for (uint32_t k = 0; k < count; k++) s->step[k][0] = (int64_t)plim_dtype_bytes(view[k]->dtype);
        s->rank = 1;
    }
}

bool plim__strided_next(const plim__strided *s, char **data, int64_t *at, uint32_t outer)
{
    for (uint32_t d = outer; d-- > 0;) {
        if (++at[d] < s->n[d]) {
            for (uint32_t k = 0; k < s->count; k++) data[k] += s->step[k][d];
            return true;
        }
        at[d] = 0;
        for (uint32_t k = 0; k < s->count; k++) data[k] -= s->step[k][d] * (s->n[d] - 1);
    }
    return false;
}

/* memcpy of a constant size is one move whatever the type of the element is. */
#define MOVE(bytes)                                                                              \
    for (int64_t j = 0; j < cols; j++) memcpy(d + j * dst_step, s + j * src_step, bytes)

static void move_row(void *dst, const void *src, uint64_t item, int64_t cols, int64_t dst_step, int64_t src_step)
{
    char *d = dst;
    const char *s = src;
    switch (item) {
    case 1: MOVE(1); break;
    case 2: MOVE(2); break;
    case 4: MOVE(4); break;
    default: MOVE(8); break;
    }
}
#undef MOVE

/* One element, `cols` times. */
static void repeat(void *dst, const void *src, uint64_t item, int64_t cols)
{
    switch (item) {
    case 1: memset(dst, *(const unsigned char *)src, (size_t)cols); break;
    case 2: move_row(dst, src, 2, cols, 2, 0); break;
    case 4: move_row(dst, src, 4, cols, 4, 0); break;
    default: move_row(dst, src, 8, cols, 8, 0); break;
    }
}

void plim__gather(void *dst, const void *src, uint64_t item, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step)
{
    char *d = dst;
    const char *s = src;
    const size_t row_bytes = (size_t)cols * item;
    const int64_t distinct = row_step == 0 ? plim__min(rows, 1) : rows;
    for (int64_t i = 0; i < distinct; i++, d += row_bytes, s += row_step) {
        if (col_step == (int64_t)item)
            memcpy(d, s, row_bytes);
        else if (col_step == 0)
            repeat(d, s, item, cols);
        else
            move_row(d, s, item, cols, (int64_t)item, col_step);
    }
    /* one row again and again: what is there is copied behind itself, twice as much each time */
    for (int64_t done = distinct; done > 0 && done < rows; done *= 2)
        memcpy((char *)dst + (size_t)done * row_bytes, dst, (size_t)plim__min(done, rows - done) * row_bytes);
}

void plim__scatter(void *dst, const void *src, uint64_t item, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step)
{
    char *d = dst;
    const char *s = src;
    const size_t row_bytes = (size_t)cols * item;
    for (int64_t i = 0; i < rows; i++, d += row_step, s += row_bytes) {
        if (col_step == (int64_t)item)
            memcpy(d, s, row_bytes);
        else
            move_row(d, s, item, cols, col_step, (int64_t)item);
    }
}
