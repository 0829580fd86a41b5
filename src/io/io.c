/* The transfer engine: see io.h.
 *
 * Requests wait in a ring of fixed size. A worker takes one piece of the oldest request at a time, so that one large box keeps all workers
 * busy and small boxes cost one hand-over each. A piece is a range of the request's bytes: of the span, or of the dense runs.
 *
 *     read   SPAN direct    whole blocks from the disk straight into the caller's buffer
 *            STRAIGHT       runs, each straight into its place in the caller's buffer
 *            RUNS           runs with small gaps between them in one read into the worker's bounce buffer, then copied
 *     write  direct         whole blocks straight from the buffer, or through the bounce buffer where it is not aligned as the file is;
 *                           partial blocks through the edge cache
 *            buffered       pwrite; write-back is started per window and waited for one window later, then the pages are dropped
 *
 * A ticket counts the pieces that were given out, plus one while there are more to give: it reaches 0 exactly when the last is done.
 * One mutex guards the ring, the tickets and the first error; nobody holds it during a transfer.
 *
 * Memory: the struct below from the allocator, bounce buffers and edge cache from the caller, STACK_BYTES of address space per thread of which
 * a few pages are touched. */
#include "io/io.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "io/edge_cache.h"
#include "io/io_requests.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#define ALIGN ((uint64_t)PLIM__IO_ALIGN)
#define QUEUE 64u
#define THREADS_MAX 16u
#define STACK_BYTES ((int64_t)128 << 10)
#define BUFFERED_PIECE PLIM__IO_BUFFERED_PIECE
#define BESIDE_PIECE (128u << 10) /* of what goes on beside: who needs something soon waits for a piece that is under way */
#define TRIES 8 /* writes of the same bytes that may make no progress */

typedef enum request_kind { REQUEST_READ, REQUEST_WRITE, REQUEST_FLUSH } request_kind;

typedef struct request {
    request_kind kind;
    plim__io_ticket *ticket;
    uint8_t *buffer; /* the caller's; only read from by writes */
    plim__io_transfer t; /* of a flush: total and step are turns */
    const int64_t *row;  /* picked rows, from the box's first; else NULL */
    uint64_t row_stride; /* bytes from one to the next in the file */
    uint64_t next;       /* of t.total */
} request;

typedef struct piece {
    request r;
    uint64_t lo, hi; /* of r.t.total */
} piece;

/* Pages written through the page cache that may not be on the disk yet. */
typedef struct window {
    int fd;
    const char *path;
    uint64_t lo, hi;
    uint64_t bytes; /* of pages touched; 0: empty */
} window;

typedef struct worker {
    plim__io *io;
    pthread_t thread;
    uint8_t *bounce;
    window filling, writing;
} worker;

/* Requests in the order in which they came. */
typedef struct line {
    request item[QUEUE];
    uint32_t head, n;
} line;

enum { SOON, BESIDE, LINES }; /* what somebody will wait for soon, and what goes on when nothing of that waits */

struct plim__io {
    plim__io_config config;
    const plim__os *os;
    plim__alloc alloc;
    plim__edge_cache *edges;
    pthread_mutex_t lock;
    pthread_cond_t work, room, done; /* a request came; one left the ring; a ticket reached 0 */
    bool stop;
    plim_error error; /* the first; code PLIM_OK: none */
    uint32_t unfinished;
    uint32_t n_workers;
    _Atomic uint64_t read, written;
    worker worker[THREADS_MAX];
    line line[LINES];
};

static plim__edge_scratch scratch_of(const worker *w) { return (plim__edge_scratch){w->bounce, w->io->config.bounce_bytes}; }

/* -------------------------------------------------------------------------------------------------------- reading */

static plim_status file_ended(const plim__os *os, const plim__io_file *f, uint64_t end, uint64_t need, plim_error *err)
{
    plim__stat now = {0};
    if (os->stat(os->self, f->fd, &now) == 0 && now.size < end) end = now.size; /* it may end well before the place that was asked for */
    if (err->code == PLIM_OK) {
        err->offset = err->have = end;
        err->need = need;
    }
    return plim__fail_at(err, PLIM_E_CHANGED, f->path, "'%.300s' ends at byte %llu, but byte %llu is needed: it changed while it was read",
                         f->path, (unsigned long long)end, (unsigned long long)need - 1);
}

/* Reads [off, off + n), of which the first `need` bytes must exist. A direct read goes on at a block's start after a short count; the same end
 * twice is the end of the file. */
static plim_status read_full(const worker *w, const plim__io_file *f, uint8_t *dst, uint64_t off, uint64_t n, uint64_t need, plim_error *err)
{
    const plim__os *os = w->io->os;
    uint64_t done = 0, last = UINT64_MAX;
    while (done < need) {
        const int64_t got = os->pread(os->self, f->fd, dst + done, n - done, off + done);
        if (got < 0) return plim__os_fail((int)got, "read", f->path, off + done, err);
        atomic_fetch_add_explicit(&w->io->read, (uint64_t)got, memory_order_relaxed);
        const uint64_t end = done + (uint64_t)got;
        if (end >= need) break;
        if (got == 0 || end == last) return file_ended(os, f, off + end, off + need, err);
        last = end;
        done = f->direct ? plim__round_down(end, ALIGN) : end;
    }
    return PLIM_OK;
}

/* Reads file bytes [lo, hi) so that byte lo lands at dst; with direct I/O also the rest of their first and last blocks around it. */
static plim_status read_range(const worker *w, const plim__io_file *f, uint8_t *dst, uint64_t lo, uint64_t hi, plim_error *err)
{
    const plim__os *os = w->io->os;
    const uint64_t from = plim__round_down(lo, ALIGN), to = plim__round_up(hi, ALIGN);
    if (f->direct) {
        if (f->writable) PLIM_TRY(plim__edge_settle(w->io->edges, f->fd, from, to, scratch_of(w), err));
        return read_full(w, f, dst - (lo - from), from, to - from, hi - from, err);
    }
    const plim_status status = read_full(w, f, dst, lo, hi - lo, hi - lo, err);
    if (f->drop) os->drop_cache(os->self, f->fd, from, to - from);
    return status;
}

static inline __attribute__((always_inline)) void copy_fixed(uint8_t *dst, const uint8_t *src, uint64_t len, uint64_t n, uint64_t stride)
{
    for (uint64_t i = 0; i < n; i++) memcpy(dst + i * len, src + i * stride, len);
}

/* A constant length turns each copy into one load and one store: columns of single elements are common. */
static void copy_runs(uint8_t *dst, const uint8_t *src, uint64_t len, uint64_t n, uint64_t stride)
{
    switch (len) {
    case 1: copy_fixed(dst, src, 1, n, stride); return;
    case 2: copy_fixed(dst, src, 2, n, stride); return;
    case 4: copy_fixed(dst, src, 4, n, stride); return;
    case 8: copy_fixed(dst, src, 8, n, stride); return;
    default: copy_fixed(dst, src, len, n, stride);
    }
}

/* Fills dense bytes [lo, hi) of the box: as many runs as fit the bounce buffer and lie close together, in one read. */
static plim_status read_runs(const worker *w, const piece *p, plim_error *err)
{
    const plim__io_walk *walk = &p->r.t.walk;
    plim__io_cursor c = plim__io_cursor_at(walk, p->lo);
    plim__io_gather g;
    for (uint64_t at = p->lo; at < p->hi;) {
        plim__io_gather_next(&g, walk, &c, p->hi - at, w->io->config.bounce_bytes);
        uint8_t *bounce = w->bounce + g.lo % ALIGN;
        PLIM_TRY(read_range(w, p->r.t.file, bounce, g.lo, g.hi, err));
        for (uint32_t i = 0; i < g.n; i++) {
            const plim__io_segment *s = &g.seg[i];
            copy_runs(p->r.buffer + at, bounce + (s->off - g.lo), s->len, s->n, s->stride);
            at += s->n * s->len;
        }
    }
    return PLIM_OK;
}

/* Where dense byte `at`, where the cursor stands, of a transfer that is straight lies in the caller's buffer. */
static uint8_t *straight_place(const piece *p, const plim__io_cursor *c, uint64_t at)
{
    const plim__io_walk *w = &p->r.t.walk;
    uint8_t *place = p->r.buffer + w->base % ALIGN + plim__io_run_place(w, p->r.t.pitch, at / w->run) + c->skip;
    PLIM_ASSERT(at % w->run == c->skip && (uintptr_t)place % ALIGN == plim__io_cursor_offset(c) % ALIGN);
    return place;
}

/* Long runs, each to where it belongs. Nobody else's bytes lie in the blocks at its ends, and pieces of a run end where blocks do. */
static plim_status read_straight(const worker *w, const piece *p, plim_error *err)
{
    const plim__io_file *f = p->r.t.file;
    plim__io_cursor c = plim__io_cursor_at(&p->r.t.walk, p->lo);
    for (uint64_t at = p->lo; at < p->hi;) {
        uint8_t *dst = straight_place(p, &c, at);
        const plim__io_segment s = plim__io_cursor_take(&p->r.t.walk, &c, p->hi - at, UINT64_MAX, 0);
        PLIM_TRY(read_range(w, f, dst, s.off, s.off + s.len, err));
        if (f->swap) plim__swap_bytes(dst, s.len / f->element, f->element);
        at += s.len;
    }
    return PLIM_OK;
}

/* The same where rows are picked: each is a box of its own. */
static plim_status read_picked(const worker *w, const piece *p, plim_error *err)
{
    const uint64_t dense = p->r.t.walk.dense;
    for (uint64_t at = p->lo; at < p->hi;) {
        const uint64_t row = at / dense, end = (row + 1) * dense < p->hi ? (row + 1) * dense : p->hi;
        piece one = *p;
        PLIM_ASSERT(p->r.row[row] >= 0 && (uint64_t)p->r.row[row] < p->r.t.file->rows);
        one.r.t.walk.base += (uint64_t)p->r.row[row] * p->r.row_stride;
        one.r.buffer += row * dense;
        one.lo = at - row * dense;
        one.hi = end - row * dense;
        PLIM_TRY(read_runs(w, &one, err));
        at = end;
    }
    return PLIM_OK;
}

static plim_status do_read(const worker *w, const piece *p, plim_error *err)
{
    const plim__io_file *f = p->r.t.file;
    const uint64_t base = p->r.t.walk.base;
    uint8_t *dst = p->r.buffer + p->lo;
    PLIM_ASSERT((p->r.row != NULL) == (p->r.t.rows > 0) && !(p->r.row && (p->r.t.span || p->r.t.straight))); /* picked rows are dense in the buffer */
    if (p->r.t.straight) return read_straight(w, p, err);
    if (p->r.row) {
        PLIM_TRY(read_picked(w, p, err));
    } else if (p->r.t.span) {
        dst += base % ALIGN;
        PLIM_TRY(read_range(w, f, dst, base + p->lo, base + p->hi, err));
    } else {
        PLIM_TRY(read_runs(w, p, err));
    }
    if (f->swap) plim__swap_bytes(dst, (p->hi - p->lo) / f->element, f->element);
    return PLIM_OK;
}

/* -------------------------------------------------------------------------------------------------------- writing */

static plim_status write_full(const worker *w, const plim__io_file *f, const uint8_t *src, uint64_t off, uint64_t n, plim_error *err)
{
    const plim__os *os = w->io->os;
    uint64_t done = 0;
    for (int idle = 0; done < n;) {
        const int64_t got = os->pwrite(os->self, f->fd, src + done, n - done, off + done);
        if (got < 0) return plim__os_fail((int)got, "write", f->path, off + done, err);
        const uint64_t step = f->direct ? plim__round_down((uint64_t)got, ALIGN) : (uint64_t)got;
        idle = step ? 0 : idle + 1;
        if (idle == TRIES) return plim__os_fail(-EIO, "write", f->path, off + done, err);
        done += step;
    }
    atomic_fetch_add_explicit(&w->io->written, n, memory_order_relaxed);
    return PLIM_OK;
}

/* Waits until the window's pages are on the disk and drops them. Not every file system has sync_file_range; what it cannot do is left to
 * fsync. A real failure is reported here: nobody syncs a scratch file. */
static plim_status window_drain(const plim__os *os, window *win, plim_error *err)
{
    if (win->bytes == 0) return PLIM_OK;
    const window was = *win;
    PLIM_ASSERT(was.fd >= 0 && was.lo < was.hi && was.lo % ALIGN == 0 && was.hi % ALIGN == 0); /* pages, and never none */
    *win = (window){0};
    const int got = os->flush_range(os->self, was.fd, was.lo, was.hi - was.lo, true);
    os->drop_cache(os->self, was.fd, was.lo, was.hi - was.lo);
    if (got == -EIO || got == -ENOSPC || got == -EDQUOT) return plim__os_fail(got, "write back", was.path, was.lo, err);
    return PLIM_OK;
}

static plim_status window_turn(worker *w, plim_error *err)
{
    const plim__os *os = w->io->os;
    const window *win = &w->filling;
    if (win->bytes == 0) return PLIM_OK;
    os->flush_range(os->self, win->fd, win->lo, win->hi - win->lo, false);
    PLIM_TRY(window_drain(os, &w->writing, err));
    w->writing = w->filling;
    w->filling = (window){0};
    return PLIM_OK;
}

static plim_status write_buffered(worker *w, const plim__io_file *f, const uint8_t *src, uint64_t off, uint64_t n, plim_error *err)
{
    while (n > 0) {
        const uint64_t len = n < BUFFERED_PIECE ? n : BUFFERED_PIECE;
        const uint64_t lo = plim__round_down(off, ALIGN), hi = plim__round_up(off + len, ALIGN);
        window *win = &w->filling;
        if (f->drop && (win->fd != f->fd || win->bytes + (hi - lo) > BUFFERED_PIECE)) PLIM_TRY(window_turn(w, err));
        PLIM_TRY(write_full(w, f, src, off, len, err));
        if (f->drop) {
            *win = win->bytes == 0 ? (window){f->fd, f->path, lo, hi, hi - lo}
                                   : (window){f->fd, f->path, lo < win->lo ? lo : win->lo, hi > win->hi ? hi : win->hi, win->bytes + (hi - lo)};
        }
        src += len;
        off += len;
        n -= len;
    }
    return PLIM_OK;
}

/* n bytes in whole blocks at `off`, through the bounce buffer, which already holds the `filled` bytes before them. */
static plim_status write_bounced(const worker *w, const plim__io_file *f, const uint8_t *src, uint64_t off, uint64_t n, uint64_t filled,
                                 plim_error *err)
{
    PLIM_ASSERT(off % ALIGN == 0 && n % ALIGN == 0 && filled < w->io->config.bounce_bytes);
    while (n > 0) {
        const uint64_t room = w->io->config.bounce_bytes - filled, len = n < room ? n : room;
        memcpy(w->bounce + filled, src, len);
        PLIM_TRY(write_full(w, f, w->bounce, off - filled, filled + len, err));
        filled = 0;
        src += len;
        off += len;
        n -= len;
    }
    return PLIM_OK;
}

/* One run: the end of a block, whole blocks, the beginning of a block; each may be missing. Whole blocks that are aligned in memory are written
 * from there. The others take with them the block before, if this run's bytes complete it: neighbouring boxes that are written one after
 * the other then cost one request per run and not two. The edge cache wants that to come last. */
static plim_status write_run(worker *w, const plim__io_file *f, const uint8_t *src, uint64_t off, uint64_t n, plim_error *err)
{
    if (!f->direct) return write_buffered(w, f, src, off, n, err);
    plim__edge_cache *edges = w->io->edges;
    uint64_t head = plim__round_up(off, ALIGN) - off;
    if (head > n) head = n;
    const uint64_t whole = plim__round_down(n - head, ALIGN), tail = n - head - whole;
    const bool straight = whole == 0 || (uintptr_t)(src + head) % ALIGN == 0;
    if (tail > 0) PLIM_TRY(plim__edge_put(edges, f->fd, f->path, off + n - tail, src + n - tail, tail, scratch_of(w), err));
    if (straight && head > 0) PLIM_TRY(plim__edge_put(edges, f->fd, f->path, off, src, head, scratch_of(w), err));
    if (whole == 0) return PLIM_OK;
    /* A thread with a claim waits only for the block before it, so for a claim that begins earlier: there is no cycle. */
    plim__edge_claim claim;
    uint32_t held = PLIM__EDGE_NONE;
    plim_status status = PLIM_OK;
    plim__edge_claim_blocks(edges, &claim, f->fd, off + head, off + head + whole);
    if (straight) {
        status = write_full(w, f, src + head, off + head, whole, err);
    } else {
        if (head > 0) status = plim__edge_join(edges, f->fd, f->path, off, src, head, w->bounce, &held, scratch_of(w), err);
        if (status == PLIM_OK) status = write_bounced(w, f, src + head, off + head, whole, held != PLIM__EDGE_NONE ? ALIGN : 0, err);
        plim__edge_release(edges, held);
    }
    plim__edge_unclaim(edges, &claim);
    return status;
}

static plim_status write_straight(worker *w, const piece *p, plim_error *err)
{
    plim__io_cursor c = plim__io_cursor_at(&p->r.t.walk, p->lo);
    for (uint64_t at = p->lo; at < p->hi;) {
        const uint8_t *src = straight_place(p, &c, at);
        const plim__io_segment s = plim__io_cursor_take(&p->r.t.walk, &c, p->hi - at, UINT64_MAX, 0);
        PLIM_TRY(write_run(w, p->r.t.file, src, s.off, s.len, err));
        at += s.len;
    }
    return PLIM_OK;
}

static plim_status do_write(worker *w, const piece *p, plim_error *err)
{
    const plim__io_walk *walk = &p->r.t.walk;
    if (p->r.t.straight) return write_straight(w, p, err);
    const uint8_t *src = p->r.buffer + (p->r.t.span ? walk->base % ALIGN : 0);
    plim__io_cursor c = plim__io_cursor_at(walk, p->lo);
    for (uint64_t at = p->lo; at < p->hi;) {
        const plim__io_segment s = plim__io_cursor_take(walk, &c, p->hi - at, UINT64_MAX, UINT64_MAX);
        for (uint64_t i = 0; i < s.n; i++, at += s.len) PLIM_TRY(write_run(w, p->r.t.file, src + at, s.off + i * s.stride, s.len, err));
    }
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------- the ring and the workers */

static bool is_idle(const plim__io *io) { return io->line[SOON].n == 0 && io->line[BESIDE].n == 0; }

/* Takes a piece of the oldest request of the first line that has one. After an error the rest of a request is one piece, which nobody will move. Lock held. */
static void piece_take(plim__io *io, piece *p)
{
    line *from = &io->line[io->line[SOON].n > 0 ? SOON : BESIDE];
    request *r = &from->item[from->head];
    PLIM_ASSERT(from->n > 0 && from->n <= io->unfinished && r->next < r->t.total);
    p->r = *r;
    p->lo = r->next;
    p->hi = io->error.code != PLIM_OK ? r->t.total : plim__io_piece_end(&r->t, r->next);
    r->next = p->hi;
    if (p->hi < r->t.total) {
        atomic_fetch_add(&r->ticket->pending, 1);
        return;
    }
    from->head = (from->head + 1) % QUEUE;
    from->n--;
    pthread_cond_signal(&io->room);
}

static plim_status piece_do(worker *w, const piece *p, plim_error *err)
{
    switch (p->r.kind) {
    case REQUEST_READ: return do_read(w, p, err);
    case REQUEST_WRITE: return do_write(w, p, err);
    case REQUEST_FLUSH: return plim__edge_flush(w->io->edges, scratch_of(w), err);
    }
    return PLIM_OK;
}

static void *worker_main(void *arg)
{
    worker *w = arg;
    plim__io *io = w->io;
    piece p;
    pthread_mutex_lock(&io->lock);
    for (;;) {
        while (is_idle(io) && !io->stop) pthread_cond_wait(&io->work, &io->lock);
        if (is_idle(io)) break;
        piece_take(io, &p);
        if (io->error.code == PLIM_OK) {
            plim_error err = {0};
            pthread_mutex_unlock(&io->lock);
            const plim_status status = piece_do(w, &p, &err);
            pthread_mutex_lock(&io->lock);
            if (status != PLIM_OK && io->error.code == PLIM_OK) io->error = err;
        }
        if (atomic_fetch_sub(&p.r.ticket->pending, 1) == 1) {
            io->unfinished--;
            pthread_cond_broadcast(&io->done);
        }
    }
    pthread_mutex_unlock(&io->lock);
    return NULL;
}

static void submit(plim__io *io, line *to, const request *r)
{
    pthread_mutex_lock(&io->lock);
    while (to->n == QUEUE) pthread_cond_wait(&io->room, &io->lock); /* one control thread: nobody else waits for room */
    to->item[(to->head + to->n) % QUEUE] = *r;
    to->n++;
    io->unfinished++;
    atomic_store(&r->ticket->pending, 1);
    if (r->t.total > r->t.step)
        pthread_cond_broadcast(&io->work);
    else
        pthread_cond_signal(&io->work);
    pthread_mutex_unlock(&io->lock);
}

static void transfer(plim__io *io, line *to, request_kind kind, const plim__io_file *f, const plim__region *box, void *buffer, plim__io_ticket *ticket)
{
    request r = {.kind = kind, .ticket = ticket, .buffer = buffer};
    PLIM_ASSERT(atomic_load(&ticket->pending) == 0 && (uintptr_t)buffer % ALIGN == 0);
    plim__io_transfer_of(&r.t, &io->config, f, box, kind == REQUEST_WRITE);
    if (r.t.total == 0) return;
    if (to == &io->line[BESIDE] && (r.t.span || r.t.straight) && r.t.step > BESIDE_PIECE) r.t.step = BESIDE_PIECE;
    if (f->rows) {
        r.row = f->row + box->dim[0].lo;
        r.row_stride = (uint64_t)f->stride[0] * f->element;
    }
    submit(io, to, &r);
}

/* ---------------------------------------------------------------------------------------------------- the interface */

void plim__io_read(plim__io *io, const plim__io_file *f, const plim__region *box, void *buffer, plim__io_ticket *ticket)
{
    transfer(io, &io->line[SOON], REQUEST_READ, f, box, buffer, ticket);
}

void plim__io_read_beside(plim__io *io, const plim__io_file *f, const plim__region *box, void *buffer, plim__io_ticket *ticket)
{
    transfer(io, &io->line[BESIDE], REQUEST_READ, f, box, buffer, ticket);
}

void plim__io_write(plim__io *io, const plim__io_file *f, const plim__region *box, const void *buffer, plim__io_ticket *ticket)
{
    PLIM_ASSERT(f->writable);
    transfer(io, &io->line[SOON], REQUEST_WRITE, f, box, (void *)(uintptr_t)buffer, ticket);
}

void plim__io_write_beside(plim__io *io, const plim__io_file *f, const plim__region *box, const void *buffer, plim__io_ticket *ticket)
{
    PLIM_ASSERT(f->writable);
    transfer(io, &io->line[BESIDE], REQUEST_WRITE, f, box, (void *)(uintptr_t)buffer, ticket);
}

/* Lock held. */
static plim_status first_error(const plim__io *io, plim_error *err)
{
    if (io->error.code != PLIM_OK && err && err->code == PLIM_OK) *err = io->error;
    return io->error.code;
}

plim_status plim__io_wait(plim__io *io, plim__io_ticket *ticket, plim_error *err)
{
    pthread_mutex_lock(&io->lock);
    while (atomic_load(&ticket->pending) > 0) pthread_cond_wait(&io->done, &io->lock);
    const plim_status status = first_error(io, err);
    pthread_mutex_unlock(&io->lock);
    return status;
}

static plim_status wait_all(plim__io *io, plim_error *err)
{
    pthread_mutex_lock(&io->lock);
    while (io->unfinished > 0) pthread_cond_wait(&io->done, &io->lock);
    const plim_status status = first_error(io, err);
    pthread_mutex_unlock(&io->lock);
    return status;
}

plim_status plim__io_flush(plim__io *io, plim_error *err)
{
    plim__io_ticket ticket = {0};
    PLIM_TRY(wait_all(io, err));
    submit(io, &io->line[SOON], &(request){.kind = REQUEST_FLUSH, .ticket = &ticket, .t = {.total = io->n_workers, .step = 1}});
    PLIM_TRY(wait_all(io, err));
    plim_error first = {0};
    for (uint32_t i = 0; i < io->n_workers; i++) { /* idle now, so their windows are ours */
        window_drain(io->os, &io->worker[i].writing, &first);
        window_drain(io->os, &io->worker[i].filling, &first);
    }
    pthread_mutex_lock(&io->lock);
    if (first.code != PLIM_OK) io->error = first;
    const plim_status status = first_error(io, err);
    pthread_mutex_unlock(&io->lock);
    return status;
}

void plim__io_counts(const plim__io *io, uint64_t *read, uint64_t *written)
{
    plim__edge_counts(io->edges, read, written);
    *read += atomic_load_explicit(&io->read, memory_order_relaxed);
    *written += atomic_load_explicit(&io->written, memory_order_relaxed);
}

/* ------------------------------------------------------------------------------------------------ beginning and end */

uint64_t plim__io_bytes(const plim__io_config *c) { return c->threads * c->bounce_bytes + plim__edge_bytes(c->edge_blocks); }

static plim_status check_config(const plim__io_config *c, plim_error *err)
{
    PLIM_FAIL_IF(c->threads < 1 || c->threads > THREADS_MAX, err, PLIM_E_INVALID, "%u transfer threads: 1 to %u are possible", c->threads,
                 THREADS_MAX);
    PLIM_FAIL_IF(c->bounce_bytes < 2 * ALIGN || c->bounce_bytes % ALIGN != 0, err, PLIM_E_INVALID,
                 "bounce buffers of %llu bytes: must be a multiple of %u, and 2 of them", (unsigned long long)c->bounce_bytes, PLIM__IO_ALIGN);
    PLIM_FAIL_IF(c->piece_bytes < ALIGN || c->piece_bytes % ALIGN != 0, err, PLIM_E_INVALID, "pieces of %llu bytes: must be a multiple of %u",
                 (unsigned long long)c->piece_bytes, PLIM__IO_ALIGN);
    PLIM_FAIL_IF(c->edge_blocks < 4, err, PLIM_E_INVALID, "%u edge blocks: at least 4 are needed", c->edge_blocks);
    return PLIM_OK;
}

/* Signals are for the program's own threads: a worker that ran a handler would need a stack for it. */
static plim_status start_workers(plim__io *io, plim_error *err)
{
    pthread_attr_t attr;
    sigset_t all, before;
    PLIM_FAIL_IF(pthread_attr_init(&attr) != 0, err, PLIM_E_NOMEM, "cannot start transfer threads");
    pthread_attr_setstacksize(&attr, (size_t)plim__max(STACK_BYTES, sysconf(_SC_THREAD_STACK_MIN)));
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = 0;
    while (failed == 0 && io->n_workers < io->config.threads) {
        worker *w = &io->worker[io->n_workers];
        failed = pthread_create(&w->thread, &attr, worker_main, w);
        if (failed == 0) io->n_workers++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    pthread_attr_destroy(&attr);
    PLIM_FAIL_IF(failed != 0, err, PLIM_E_NOMEM, "cannot start transfer thread %u of %u: the system has no room for it", io->n_workers + 1,
                 io->config.threads);
    return PLIM_OK;
}

static plim_status make_locks(plim__io *io, plim_error *err)
{
    const bool made = pthread_mutex_init(&io->lock, NULL) == 0 && pthread_cond_init(&io->work, NULL) == 0 &&
                      pthread_cond_init(&io->room, NULL) == 0 && pthread_cond_init(&io->done, NULL) == 0;
    PLIM_FAIL_IF(!made, err, PLIM_E_NOMEM, "cannot make the locks of the transfer engine");
    return PLIM_OK;
}

plim_status plim__io_new(plim__io **out, const plim__io_config *c, const plim__os *os, const plim__alloc *a, void *memory, plim_error *err)
{
    *out = NULL;
    PLIM_TRY(check_config(c, err));
    plim__io *io = plim__new(a, 1, sizeof *io, err);
    if (!io) return PLIM_E_NOMEM;
    io->config = *c;
    io->os = os;
    io->alloc = *a;
    for (uint32_t i = 0; i < c->threads; i++) {
        io->worker[i].io = io;
        io->worker[i].bounce = (uint8_t *)memory + i * c->bounce_bytes;
    }
    plim_status status = plim__edge_init(&io->edges, (uint8_t *)memory + c->threads * c->bounce_bytes, c->edge_blocks, os, err);
    if (status == PLIM_OK) status = make_locks(io, err);
    if (status == PLIM_OK) status = start_workers(io, err);
    if (status != PLIM_OK) plim__io_free(&io);
    *out = io;
    return status;
}

void plim__io_free(plim__io **pio)
{
    plim__io *io = *pio;
    if (!io) return;
    if (io->n_workers > 0) {
        pthread_mutex_lock(&io->lock);
        io->stop = true;
        pthread_cond_broadcast(&io->work);
        pthread_mutex_unlock(&io->lock);
        for (uint32_t i = 0; i < io->n_workers; i++) pthread_join(io->worker[i].thread, NULL);
        PLIM_ASSERT(is_idle(io) && io->unfinished == 0); /* workers go on until nothing waits */
    }
    pthread_cond_destroy(&io->done);
    pthread_cond_destroy(&io->room);
    pthread_cond_destroy(&io->work);
    pthread_mutex_destroy(&io->lock);
    plim__edge_destroy(io->edges);
    plim__free(&io->alloc, io);
    *pio = NULL;
}
