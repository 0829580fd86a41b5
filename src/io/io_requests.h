/* The system calls that moving a box takes. The transfer engine (io.c) and the planner ask the same functions: how a transfer is cut into
 * pieces, and which runs go through the bounce buffer in one read. So what the planner pays for is what the engine does.
 *
 *     SPAN read    one request per piece, gaps included; with direct I/O from the first to the last block that it touches
 *     STRAIGHT     one request per run, or per piece of a run that is longer than a piece
 *     RUNS read    as many runs as lie close together and fit the bounce buffer, one request
 *     write        direct: the whole blocks of a run, in one request or in bounce buffers full; blocks that a run covers only in part are
 *                  edges: they wait for their other part in the edge cache. Buffered: at most PLIM__IO_BUFFERED_PIECE bytes each
 *
 * Pure functions: no state, no allocation, any thread. */
#ifndef PLIM_IO_IO_REQUESTS_H
#define PLIM_IO_IO_REQUESTS_H

#include "io/io_walk.h"

#define PLIM__IO_GAP_MAX ((uint64_t)64 << 10)         /* reading across a gap of this size costs about as much as another request */
#define PLIM__IO_BUFFERED_PIECE ((uint64_t)512 << 10) /* what one worker may have in the page cache at a time; twice that for writes */
#define PLIM__IO_SEGMENTS 64u                         /* of one bounce read */

/** A box on its way, without its buffer. */
typedef struct plim__io_transfer {
    const plim__io_file *file;
    bool write, span, straight; /* as the layout says */
    plim__io_walk walk;   /* of the first row, where rows are picked */
    uint64_t pitch[PLIM_MAX_RANK]; /* straight: of the buffer */
    uint64_t rows;        /* that are picked; else 0 */
    uint64_t total, step; /* bytes in all, and of one piece: of the span, or of the dense runs */
} plim__io_transfer;

/** `total` is 0 for an empty box. */
void plim__io_transfer_of(plim__io_transfer *t, const plim__io_config *c, const plim__io_file *f, const plim__region *box, bool write);
/** Where the piece that begins at byte `next` of the transfer ends. Straight: at the end of a run, or of a block of the file inside a long one. */
uint64_t plim__io_piece_end(const plim__io_transfer *t, uint64_t next);

/** Runs that one read brings into the bounce buffer: file bytes [lo, hi). */
typedef struct plim__io_gather {
    uint64_t lo, hi;
    uint64_t taken; /* bytes of runs */
    uint32_t n;
    plim__io_segment seg[PLIM__IO_SEGMENTS];
} plim__io_gather;

/** Takes the next `most` dense bytes at the most from the cursor. */
void plim__io_gather_next(plim__io_gather *g, const plim__io_walk *w, plim__io_cursor *c, uint64_t most, uint64_t bounce_bytes);

typedef enum plim__io_request_kind {
    PLIM__IO_REQUEST_READ,
    PLIM__IO_REQUEST_WRITE,
    PLIM__IO_REQUEST_EDGE, /* a block that is covered in part: it is written once its other part has come */
} plim__io_request_kind;

/** Told of `times` requests of `bytes` bytes. */
typedef void plim__io_request_fn(void *ctx, plim__io_request_kind kind, uint64_t bytes, double times);

#define PLIM__IO_REQUESTS_WALKED 24u /* of a box; the pattern that has been seen by then goes on */

/** Tells `fn` of every request for the box: of the first PLIM__IO_REQUESTS_WALKED one by one, of the others by their number and mean size. */
void plim__io_requests(const plim__io_config *c, const plim__io_file *f, const plim__region *box, bool write, plim__io_request_fn *fn, void *ctx);

#endif
