/* Boxes as runs, and how a box lies in its buffer. Pure functions: no state, no allocation, any thread. */
#include "core/size.h"
#include "io/io_walk.h"

/* Dimensions of the file's array that have more than one index, smallest stride first: the order of the bytes, backwards. */
static uint32_t order_dims(const plim__io_file *f, uint32_t order[PLIM_MAX_RANK])
{
    uint32_t n = 0;
    for (uint32_t d = 0; d < f->shape.rank; d++) {
        if (f->shape.dim[d] <= 1) continue;
        uint32_t k = n++;
        for (; k > 0 && f->stride[order[k - 1]] > f->stride[d]; k--) order[k] = order[k - 1];
        order[k] = d;
    }
    return n;
}

void plim__io_walk_of(const plim__io_file *f, const plim__region *box, plim__io_walk *w)
{
    uint32_t order[PLIM_MAX_RANK];
    const uint32_t n = order_dims(f, order);
    PLIM_ASSERT(box->rank == f->shape.rank && f->element > 0);
    *w = (plim__io_walk){.base = f->offset};
    if (plim__region_count(box) == 0) return;

    w->run = w->span = f->element;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t d = order[k];
        PLIM_ASSERT(box->dim[d].lo >= 0 && box->dim[d].hi <= f->shape.dim[d]);
        const uint64_t len = (uint64_t)plim__range_len(box->dim[d]), stride = (uint64_t)f->stride[d] * f->element;
        w->base += (uint64_t)box->dim[d].lo * stride;
        if (len == 1) continue;
        w->span += (len - 1) * stride;
        if (w->rank == 0 && stride == w->run) {
            w->run *= len; /* everything inside is whole, so neighbours touch */
        } else if (w->rank > 0 && stride == w->stride[w->rank - 1] * w->count[w->rank - 1]) {
            w->count[w->rank - 1] *= len; /* the same pattern goes on */
        } else {
            w->count[w->rank] = len;
            w->stride[w->rank++] = stride;
        }
    }
    w->dense = w->run;
    for (uint32_t k = 0; k < w->rank; k++) w->dense *= w->count[k];
    PLIM_ASSERT(w->run <= w->dense && w->dense <= w->span); /* no byte belongs to two elements */
}

void plim__io_walk_row(const plim__io_file *f, const plim__region *box, plim__io_walk *w)
{
    plim__region row = *box;
    row.dim[0] = (plim__range){0, plim__range_len(box->dim[0]) > 0 ? 1 : 0};
    plim__io_walk_of(f, &row, w);
}

uint64_t plim__io_run_count(const plim__io_file *f, const plim__region *box)
{
    plim__io_walk w;
    if (f->rows) plim__io_walk_row(f, box, &w);
    else plim__io_walk_of(f, box, &w);
    return w.run ? w.dense / w.run * (f->rows ? (uint64_t)plim__range_len(box->dim[0]) : 1) : 0;
}

/* Two runs share no block whichever way they begin in theirs: up to ALIGN - 1 bytes of the one's last block and of the other's first. */
uint64_t plim__io_pitch(const plim__io_walk *w, uint64_t pitch[PLIM_MAX_RANK])
{
    const uint64_t align = PLIM__IO_ALIGN;
    uint64_t bytes = w->run;
    for (uint32_t k = 0; k < w->rank; k++) {
        const uint64_t least = bytes + 2 * (align - 1);
        pitch[k] = least + (align + w->stride[k] % align - least % align) % align;
        PLIM_ASSERT(pitch[k] >= least && pitch[k] % align == w->stride[k] % align);
        bytes += (w->count[k] - 1) * pitch[k];
    }
    return bytes;
}

/* Bytes in the buffer from one index of a dimension to the next, which are `stride` bytes apart in the file. */
static uint64_t buffer_stride(const plim__io_walk *w, const uint64_t pitch[PLIM_MAX_RANK], uint64_t stride)
{
    uint32_t k = w->rank;
    while (k > 0 && stride < w->stride[k - 1]) k--;
    return k == 0 ? stride : stride / w->stride[k - 1] * pitch[k - 1];
}

/* A span with gaps, and runs that lie in blocks as they do in the file, save a copy but cost memory, and the span reading: at most an eighth of either.
 * `bytes` is min(span, 9/8 dense), of short runs that are written dense, whichever way is taken: all of these grow with the box, as does a run, hence so does
 * `bytes`, and a plan for the largest box holds for all smaller ones. It does not depend on where the box starts: 4095 bytes before the first and the rest of
 * the last block are always included. */
void plim__io_layout_of(const plim__io_file *f, const plim__region *box, bool write, plim__io_layout *out)
{
    plim__io_walk w;
    uint32_t order[PLIM_MAX_RANK];
    uint64_t pitch[PLIM_MAX_RANK];
    plim__io_walk_of(f, box, &w);
    const bool aligned = f->offset % f->element == 0 && !f->rows, is_long = w.run >= PLIM__IO_LONG_RUN && aligned;
    const uint64_t room = f->rows || (write && !is_long) ? w.dense : w.dense + w.dense / PLIM__IO_SPARE;
    *out = (plim__io_layout){.span = w.span <= (write ? w.dense : room) && aligned};
    const uint64_t most = w.span < room ? w.span : room;
    out->straight = !out->span && is_long && plim__io_pitch(&w, pitch) <= most;
    if (w.dense > 0) out->bytes = plim__round_up(most, PLIM__IO_ALIGN) + PLIM__IO_ALIGN;
    PLIM_ASSERT(out->bytes <= 2 * w.dense + 2 * PLIM__IO_ALIGN && !(f->rows && out->span)); /* as io.h promises */

    const uint32_t n = order_dims(f, order);
    int64_t next = 1;
    for (uint32_t k = 0; k < n; k++) {
        const uint32_t d = order[k];
        out->stride[d] = out->span ? f->stride[d] : next;
        if (out->straight) out->stride[d] = (int64_t)(buffer_stride(&w, pitch, (uint64_t)f->stride[d] * f->element) / f->element);
        next *= plim__range_len(box->dim[d]);
    }
    out->first = (out->span || out->straight) && w.dense > 0 ? w.base % PLIM__IO_ALIGN : 0;
}

/* ------------------------------------------------------------------------------------------------------ cursors */

plim__io_cursor plim__io_cursor_at(const plim__io_walk *w, uint64_t dense)
{
    PLIM_ASSERT(dense < w->dense);
    plim__io_cursor c = {.run_offset = w->base, .skip = dense % w->run};
    uint64_t index = dense / w->run;
    for (uint32_t k = 0; k < w->rank; k++) {
        c.at[k] = index % w->count[k];
        c.run_offset += c.at[k] * w->stride[k];
        index /= w->count[k];
    }
    return c;
}

/* Goes on by n runs, not beyond the end of the innermost loop. */
static void advance(const plim__io_walk *w, plim__io_cursor *c, uint64_t n)
{
    c->skip = 0;
    for (uint32_t k = 0; k < w->rank; k++) {
        c->at[k] += n;
        c->run_offset += n * w->stride[k];
        if (c->at[k] < w->count[k]) return;
        c->run_offset -= w->count[k] * w->stride[k];
        c->at[k] = 0;
        n = 1;
    }
}

plim__io_segment plim__io_cursor_take(const plim__io_walk *w, plim__io_cursor *c, uint64_t max, uint64_t end, uint64_t gap)
{
    plim__io_segment s = {.off = plim__io_cursor_offset(c), .n = 1};
    PLIM_ASSERT(max > 0 && s.off < end && c->skip < w->run);
    const uint64_t room = end - s.off < max ? end - s.off : max;
    if (c->skip == 0 && w->rank > 0 && room >= w->run && w->stride[0] - w->run <= gap) {
        const uint64_t left = w->count[0] - c->at[0], fit = (end - s.off - w->run) / w->stride[0] + 1;
        s.len = w->run;
        s.stride = w->stride[0];
        s.n = max / w->run;
        if (s.n > left) s.n = left;
        if (s.n > fit) s.n = fit;
        advance(w, c, s.n);
        return s;
    }
    s.len = w->run - c->skip < room ? w->run - c->skip : room;
    c->skip += s.len;
    if (c->skip == w->run) advance(w, c, 1);
    return s;
}
