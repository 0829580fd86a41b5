/* Boxes of arrays between files and memory, asynchronously, in memory that the caller planned.
 *
 * A few threads take requests from a queue; each request is one box of one file. Files are read and written with O_DIRECT where
 * that works: what is in flight is then exactly what was planned, and the page cache stays out of the budget. Where it does not work
 * (tmpfs, some network file systems), or where most of an input is in the page cache already, ordinary reads and writes are used, in file
 * order, and what they bring into the cache is dropped behind them.
 *
 * Layout of a box in its buffer. The buffer starts at a multiple of 4096. plim__io_layout says which of three ways a box takes:
 *   SPAN  the box's bytes, first to last, are read in one piece, gaps included; the first lies at (file offset mod 4096), so that
 *         interior blocks go straight between disk and buffer. Strides are the file's.
 *   STRAIGHT  long contiguous runs: each lies at (file offset mod 4096), so that its interior blocks go straight, too; up to three blocks lie between
 *         one and the next.
 *   RUNS  contiguous runs are collected through a bounce buffer of the thread and lie dense, in the file's dimension order.
 * A write is SPAN only when the box has no gaps.
 *
 * Picked rows. A file with `rows` set has more rows than the array that is read from it: index i of dimension 0 stands for row[i] of the file, whatever
 * that is when the read begins. Boxes of it are RUNS.
 *
 * Writes need not be aligned. Blocks of 4096 bytes that a box covers only partly wait in an edge cache until other boxes complete them; when
 * the cache is full the oldest is read, merged and written. plim__io_flush does that for all that are left. No block is ever
 * lost or written twice at once. Until then a file's descriptor stays open and its path valid. A read of a box that was written, and waited for, sees
 * it without a flush. Two boxes in flight that share bytes, one of them written, have no order.
 * The last block of a file may reach beyond its end: the owner truncates (plim__tempfile_commit does).
 *
 * Memory: plim__io_bytes(config) says how many bytes the engine needs (bounce buffers, edge cache); it gets them from the caller and allocates no
 * buffers of its own. Errors: the first one is kept; later requests fail fast; every wait returns it. Thread-safety: one control thread calls
 * these functions. */
#ifndef PLIM_IO_IO_H
#define PLIM_IO_IO_H

#include <stdatomic.h>
#include "core/alloc.h"
#include "kernels/view.h"
#include "os/os.h"

#define PLIM__IO_ALIGN 4096u
#define PLIM__IO_LONG_RUN ((uint64_t)64 << 10) /* bytes: runs from there on may lie STRAIGHT; a byte of such a request costs half as much again as one of a large one */
#define PLIM__IO_SPARE 8u /* one part in so many of a box's bytes may lie unused between its runs */

typedef struct plim__io_config {
    uint32_t threads;      /* 1 to 16; 4 is good */
    uint64_t bounce_bytes; /* per thread, multiple of 4096, at least 8192; 1 MiB is good */
    uint32_t edge_blocks;  /* in the edge cache, at least 4 */
    uint64_t piece_bytes;  /* a SPAN longer than this is cut into pieces that several threads move; 2 MiB is good */
} plim__io_config;

/** An array in an open file. Filled by plim__io_open_input / _open_output; const afterwards, closed by plim__io_close. */
typedef struct plim__io_file {
    const char *path; /* for messages; owned by the caller */
    int fd;           /* for data */
    bool direct;      /* fd is O_DIRECT */
    bool owned;       /* closed by plim__io_close */
    bool drop;        /* drop cached pages behind us */
    bool swap;        /* reverse the bytes of each element after reading */
    bool writable;
    uint64_t offset;  /* of element [0,...,0] */
    uint64_t limit;   /* bytes that the file must have */
    uint32_t element; /* bytes of one */
    plim_shape shape;
    uint64_t rows;      /* that the file has, where they are picked; 0: it has the array's */
    const int64_t *row; /* picked: which, one for each index of dimension 0; each below `rows` */
    int64_t stride[PLIM_MAX_RANK]; /* in elements; >= 0; a permutation of dense strides (extent-1 dimensions may have any) */
} plim__io_file;

typedef struct plim__io_layout {
    bool span, straight;           /* at most one of them; neither: RUNS */
    uint64_t bytes;                /* of buffer that the box needs, alignment included */
    uint64_t first;                /* where element lo lies in the buffer */
    int64_t stride[PLIM_MAX_RANK]; /* in elements, in the buffer */
} plim__io_layout;

typedef struct plim__io plim__io;
typedef struct plim__io_ticket { _Atomic uint32_t pending; } plim__io_ticket; /* zero-initialised: done */

/** How `box` lies in a buffer. Pure; the planner and the runner both ask it. `bytes` never shrinks when a box of the same file grows in any
 *  dimension and is at most the box's dense bytes * 2 + 8192. */
void plim__io_layout_of(const plim__io_file *f, const plim__region *box, bool write, plim__io_layout *out);
/** How many separate pieces of the file the box touches: the cost model's seeks. */
uint64_t plim__io_run_count(const plim__io_file *f, const plim__region *box);

/** Opens for reading. Chooses direct or buffered: `allow_direct`, whether the file system has it, whether most of it is cached. `offset`, `stride`, `shape`,
 *  `element`, `swap`, `path` are set by the caller beforehand. Checks that the file is long enough (PLIM_E_CHANGED if it got shorter). */
plim_status plim__io_open_input(plim__io_file *f, const plim__os *os, bool allow_direct, plim_error *err);
/** For a plim__tempfile: takes its descriptors, which stay the tempfile's. */
void plim__io_open_output(plim__io_file *f, const plim__tempfile *t);
void plim__io_close(plim__io_file *f, const plim__os *os);

uint64_t plim__io_bytes(const plim__io_config *c);
/** Starts the threads. `memory` is plim__io_bytes(c) bytes, 4096-aligned, and outlives the engine. */
plim_status plim__io_new(plim__io **out, const plim__io_config *c, const plim__os *os, const plim__alloc *a, void *memory, plim_error *err);
/** Stops the threads after what is in flight. Does not flush. */
void plim__io_free(plim__io **io);

/** Queue a transfer; `ticket` must be done; neither box nor file may change until it is done again. Requests may wait for room in the queue. */
void plim__io_read(plim__io *io, const plim__io_file *f, const plim__region *box, void *buffer, plim__io_ticket *ticket);
void plim__io_write(plim__io *io, const plim__io_file *f, const plim__region *box, const void *buffer, plim__io_ticket *ticket);
/** The same, but only while nothing that was queued by the others waits: it can take its time. */
void plim__io_read_beside(plim__io *io, const plim__io_file *f, const plim__region *box, void *buffer, plim__io_ticket *ticket);
void plim__io_write_beside(plim__io *io, const plim__io_file *f, const plim__region *box, const void *buffer, plim__io_ticket *ticket);
/** Is the ticket's transfer done, or has there been none? What was read is to be looked at only after plim__io_wait. */
static inline bool plim__io_is_done(plim__io_ticket *ticket) { return atomic_load(&ticket->pending) == 0; }
/** Blocks until the ticket's transfer is done. @return the engine's first error, if any */
plim_status plim__io_wait(plim__io *io, plim__io_ticket *ticket, plim_error *err);
/** Waits for everything and writes the partly filled blocks out. */
plim_status plim__io_flush(plim__io *io, plim_error *err);
/** Bytes moved so far. */
void plim__io_counts(const plim__io *io, uint64_t *read, uint64_t *written);

#endif
