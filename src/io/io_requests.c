/* See io_requests.h. A walk over requests stops after a fixed number of them, so that a box of millions of runs is priced in a microsecond. */
#include "io/io_requests.h"
#include "core/size.h"

#define ALIGN ((uint64_t)PLIM__IO_ALIGN)

/* Bytes of the transfer that one piece should have: about piece_bytes of the file, gaps that will be read included. */
static uint64_t piece_step(const plim__io_transfer *t, const plim__io_config *c)
{
    const uint64_t most = c->piece_bytes;
    const uint64_t bytes = t->file->drop && most > PLIM__IO_BUFFERED_PIECE ? PLIM__IO_BUFFERED_PIECE : most;
    const plim__io_walk *w = &t->walk;
    if (t->span || w->rank == 0) return bytes;
    PLIM_ASSERT(w->stride[0] >= w->run);
    if (t->straight) return w->run > bytes ? bytes : bytes / w->run * w->run;
    const uint64_t gap = w->stride[0] - w->run;
    const uint64_t runs = bytes / (w->run + (gap < PLIM__IO_GAP_MAX ? gap : PLIM__IO_GAP_MAX));
    return w->run >= bytes ? bytes : (runs ? runs : 1) * w->run;
}

void plim__io_transfer_of(plim__io_transfer *t, const plim__io_config *c, const plim__io_file *f, const plim__region *box, bool write)
{
    plim__io_layout layout;
    *t = (plim__io_transfer){.file = f, .write = write};
    if (f->rows) plim__io_walk_row(f, box, &t->walk);
    else plim__io_walk_of(f, box, &t->walk);
    if (t->walk.dense == 0) return;
    plim__io_layout_of(f, box, write, &layout);
    PLIM_ASSERT(!(layout.span && f->rows) && !(write && f->rows));
    t->span = layout.span;
    t->straight = layout.straight;
    if (t->straight) plim__io_pitch(&t->walk, t->pitch);
    t->total = t->span ? t->walk.span : t->walk.dense;
    t->rows = f->rows ? (uint64_t)plim__range_len(box->dim[0]) : 0;
    if (t->rows) t->total *= t->rows;
    t->step = piece_step(t, c);
    PLIM_ASSERT(t->step > 0);
}

/* In a run that is longer than a piece: the last block that the piece holds whole is its last, unless little of the run is left. */
static uint64_t straight_end(const plim__io_transfer *t, uint64_t next)
{
    const plim__io_cursor c = plim__io_cursor_at(&t->walk, next);
    const uint64_t off = plim__io_cursor_offset(&c), left = t->walk.run - c.skip;
    PLIM_ASSERT(t->step >= ALIGN);
    return left <= t->step + t->step / 4 ? next + left : next + plim__round_down(off + t->step, ALIGN) - off;
}

/* Pieces of a span end at block boundaries of the file. A small rest is not worth a piece of its own. */
uint64_t plim__io_piece_end(const plim__io_transfer *t, uint64_t next)
{
    PLIM_ASSERT(next < t->total);
    if (t->straight && t->step < t->walk.run) return straight_end(t, next);
    const uint64_t base = t->span ? t->walk.base : 0;
    const uint64_t end = t->span ? plim__round_down(base + next + t->step, ALIGN) - base : next + t->step;
    return end + t->step / 4 < t->total ? end : t->total;
}

void plim__io_gather_next(plim__io_gather *g, const plim__io_walk *w, plim__io_cursor *c, uint64_t most, uint64_t bounce_bytes)
{
    const uint64_t lo = plim__io_cursor_offset(c), end = plim__round_down(lo, ALIGN) + bounce_bytes;
    PLIM_ASSERT(most > 0 && bounce_bytes >= 2 * ALIGN);
    g->lo = g->hi = lo;
    g->taken = g->n = 0;
    while (g->n < PLIM__IO_SEGMENTS && g->taken < most) {
        const uint64_t next = plim__io_cursor_offset(c);
        if (g->n > 0 && (next >= end || next - g->hi > PLIM__IO_GAP_MAX)) break;
        plim__io_segment *s = &g->seg[g->n++];
        *s = plim__io_cursor_take(w, c, most - g->taken, end, PLIM__IO_GAP_MAX);
        g->hi = s->off + (s->n - 1) * s->stride + s->len;
        g->taken += s->n * s->len;
    }
    PLIM_ASSERT(g->taken > 0 && g->taken <= most);
}

/* -------------------------------------------------------------------------------------------------------- counting */

typedef struct count {
    const plim__io_config *config;
    plim__io_transfer t;
    plim__io_request_fn *fn;
    void *ctx;
    double times;             /* that what is walked is done: once per picked row */
    uint32_t walked;          /* requests and edges so far */
    uint64_t walked_bytes[3]; /* by kind */
    uint32_t walked_of[3];
} count;

static void tell(count *k, plim__io_request_kind kind, uint64_t bytes)
{
    k->walked++;
    k->walked_of[kind]++;
    k->walked_bytes[kind] += bytes;
    k->fn(k->ctx, kind, bytes, k->times);
}

/* Direct reads are of whole blocks. */
static void tell_read(count *k, uint64_t lo, uint64_t hi)
{
    tell(k, PLIM__IO_REQUEST_READ, k->t.file->direct ? plim__round_up(hi, ALIGN) - plim__round_down(lo, ALIGN) : hi - lo);
}

/* Walks [lo, hi) of the dense bytes. @return how far it came */
static uint64_t walk_read(count *k, uint64_t lo, uint64_t hi)
{
    plim__io_cursor c = plim__io_cursor_at(&k->t.walk, lo);
    for (; k->t.straight && lo < hi && k->walked < PLIM__IO_REQUESTS_WALKED;) {
        const plim__io_segment s = plim__io_cursor_take(&k->t.walk, &c, hi - lo, UINT64_MAX, 0);
        tell_read(k, s.off, s.off + s.len);
        lo += s.len;
    }
    plim__io_gather g;
    while (lo < hi && k->walked < PLIM__IO_REQUESTS_WALKED) {
        plim__io_gather_next(&g, &k->t.walk, &c, hi - lo, k->config->bounce_bytes);
        tell_read(k, g.lo, g.hi);
        lo += g.taken;
    }
    return lo;
}

static void tell_run(count *k, uint64_t off, uint64_t n, bool straight)
{
    if (!k->t.file->direct) {
        for (uint64_t at = 0; at < n; at += PLIM__IO_BUFFERED_PIECE)
            tell(k, PLIM__IO_REQUEST_WRITE, n - at < PLIM__IO_BUFFERED_PIECE ? n - at : PLIM__IO_BUFFERED_PIECE);
        return;
    }
    uint64_t head = plim__round_up(off, ALIGN) - off;
    if (head > n) head = n;
    const uint64_t whole = plim__round_down(n - head, ALIGN), most = straight ? whole : k->config->bounce_bytes;
    if (head > 0) tell(k, PLIM__IO_REQUEST_EDGE, ALIGN);
    for (uint64_t at = 0; at < whole; at += most) tell(k, PLIM__IO_REQUEST_WRITE, whole - at < most ? whole - at : most);
    if (n > head + whole) tell(k, PLIM__IO_REQUEST_EDGE, ALIGN);
}

/* Whole blocks of a run are written from where they lie when file and buffer agree on where blocks begin: in a span they do. */
static uint64_t walk_write(count *k, uint64_t lo, uint64_t hi)
{
    plim__io_cursor c = plim__io_cursor_at(&k->t.walk, lo);
    while (lo < hi && k->walked < PLIM__IO_REQUESTS_WALKED) {
        const plim__io_segment s = plim__io_cursor_take(&k->t.walk, &c, hi - lo, UINT64_MAX, UINT64_MAX);
        PLIM_ASSERT(s.n >= 1 && s.len > 0);
        for (uint64_t i = 0; i < s.n && k->walked < PLIM__IO_REQUESTS_WALKED; i++, lo += s.len)
            tell_run(k, s.off + i * s.stride, s.len, k->t.span || k->t.straight || (lo - s.off - i * s.stride) % ALIGN == 0);
    }
    return lo;
}

static uint64_t walk_piece(count *k, uint64_t lo, uint64_t hi)
{
    if (k->t.write) return walk_write(k, lo, hi);
    if (!k->t.span) return walk_read(k, lo, hi);
    tell_read(k, k->t.walk.base + lo, k->t.walk.base + hi);
    return hi;
}

void plim__io_requests(const plim__io_config *c, const plim__io_file *f, const plim__region *box, bool write, plim__io_request_fn *fn, void *ctx)
{
    count k = {.config = c, .fn = fn, .ctx = ctx, .times = 1};
    plim__io_transfer_of(&k.t, c, f, box, write);
    uint64_t total = k.t.total, at = 0;
    if (k.t.rows) {
        k.times = (double)k.t.rows;
        total /= k.t.rows;
    }
    while (at < total && k.walked < PLIM__IO_REQUESTS_WALKED) {
        const uint64_t end = k.t.rows ? total : plim__io_piece_end(&k.t, at);
        uint64_t next = at;
        while (next < end && k.walked < PLIM__IO_REQUESTS_WALKED) next = walk_piece(&k, next, end);
        at = next;
    }
    PLIM_ASSERT(at <= total);
    const double left = at > 0 ? (double)(total - at) / (double)at * k.times : 0;
    for (int kind = 0; kind < 3 && left > 0; kind++)
        if (k.walked_of[kind]) fn(ctx, (plim__io_request_kind)kind, k.walked_bytes[kind] / k.walked_of[kind], left * k.walked_of[kind]);
}
