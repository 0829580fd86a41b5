/* A box of an array file as the runs of bytes that it is made of, in the order of the file.
 *
 *     base
 *      |<-- run -->|   gap   |<-- run -->|   gap   |<-- run -->| ...        count[0] runs, stride[0] apart,
 *      |<----- stride[0] --->|                                              that pattern count[1] times, stride[1] apart, ...
 *
 * Position p of the box's dense bytes (runs end to end) is byte p % run of run p / run. */
#ifndef PLIM_IO_IO_WALK_H
#define PLIM_IO_IO_WALK_H

#include "io/io.h"

typedef struct plim__io_walk {
    uint64_t base;  /* file offset of the first byte */
    uint64_t run;   /* bytes; 0 for an empty box */
    uint64_t dense; /* bytes of all runs */
    uint64_t span;  /* bytes from the first to the last, gaps included */
    uint32_t rank;  /* loops around a run, innermost first; counts are above 1 */
    uint64_t count[PLIM_MAX_RANK];
    uint64_t stride[PLIM_MAX_RANK]; /* bytes */
} plim__io_walk;

/** `box` lies inside f->shape, whose bytes have been checked to fit 63 bits. */
void plim__io_walk_of(const plim__io_file *f, const plim__region *box, plim__io_walk *out);
/** Bytes from run to run in a buffer in which runs lie as they do in the file, modulo a block, and no block is touched by two of them: pitch[k] belongs to
 *  w->stride[k]. @return bytes from the first to the last */
uint64_t plim__io_pitch(const plim__io_walk *w, uint64_t pitch[PLIM_MAX_RANK]);
/** Where run number `i` of the walk lies in such a buffer, behind its first run. */
static inline uint64_t plim__io_run_place(const plim__io_walk *w, const uint64_t pitch[PLIM_MAX_RANK], uint64_t i)
{
    uint64_t at = 0;
    for (uint32_t k = 0; k < w->rank; k++) {
        at += i % w->count[k] * pitch[k];
        i /= w->count[k];
    }
    return at;
}

/** The same for the box's part of row 0, where rows are picked. */
void plim__io_walk_row(const plim__io_file *f, const plim__region *box, plim__io_walk *out);

/** Where a walk stands. */
typedef struct plim__io_cursor {
    uint64_t at[PLIM_MAX_RANK];
    uint64_t run_offset; /* in the file, of the run it is in */
    uint64_t skip;       /* bytes of that run which are behind it */
} plim__io_cursor;

/** n pieces of `len` bytes, the first at file offset `off`, `stride` apart. */
typedef struct plim__io_segment {
    uint64_t off, len, n, stride;
} plim__io_segment;

plim__io_cursor plim__io_cursor_at(const plim__io_walk *w, uint64_t dense);
static inline uint64_t plim__io_cursor_offset(const plim__io_cursor *c) { return c->run_offset + c->skip; }
/** Takes the next bytes: at most `max` of them (not beyond the box), none at file offset `end` or later, and more than one run only where the gap
 *  between them is at most `gap`. There must be at least one to take. */
plim__io_segment plim__io_cursor_take(const plim__io_walk *w, plim__io_cursor *c, uint64_t max, uint64_t end, uint64_t gap);

#endif
