/* Blocks of a file that writers have covered only in part.
 *
 * Direct I/O moves whole blocks of 4096 bytes, boxes end anywhere. The bytes of a block that a box covers partly are put here; once all
 * 4096 have come, from any number of boxes in any order and by any thread, the block is written. A full cache makes room by
 * reading, merging and writing the oldest block together with the neighbours that wait beside it in the file.
 *
 * A block is known by descriptor and number: two arrays in one file may meet in a block. A block is FREE, OPEN (collecting) or
 * BUSY (one thread is writing it; whoever else wants it waits): so no block is written twice at once, and none is merged
 * with bytes that another thread is about to replace. A thread never waits while it holds a BUSY block, so there is no deadlock.
 *
 * Memory: plim__edge_bytes(blocks) from the caller, nothing else. Thread-safe, except init and destroy. */
#ifndef PLIM_IO_EDGE_CACHE_H
#define PLIM_IO_EDGE_CACHE_H

#include "os/os.h"

#define PLIM__EDGE_BLOCK 4096u

typedef struct plim__edge_cache plim__edge_cache;

#define PLIM__EDGE_NONE UINT32_MAX

/** What a thread lends for merging; at least one block, aligned to one. */
typedef struct plim__edge_scratch {
    uint8_t *data;
    uint64_t bytes;
} plim__edge_scratch;

uint64_t plim__edge_bytes(uint32_t blocks);
/** `memory` is plim__edge_bytes(blocks) bytes, aligned to a block, and outlives the cache. */
plim_status plim__edge_init(plim__edge_cache **out, void *memory, uint32_t blocks, const plim__os *os, plim_error *err);
void plim__edge_destroy(plim__edge_cache *c);

/** Adds n > 0 bytes that lie in one block at byte `off` of the file. Newer bytes replace older ones.
 *  @param path  for messages; must live until the block has been written */
plim_status plim__edge_put(plim__edge_cache *c, int fd, const char *path, uint64_t off, const uint8_t *src, uint64_t n,
                           plim__edge_scratch scratch, plim_error *err);
/** As plim__edge_put, but a block that these bytes complete is not written: it is copied to `dst` (4096 bytes), `*held` says which it is, and the
 *  caller writes it together with its neighbours and then gives it to plim__edge_release. Otherwise *held is PLIM__EDGE_NONE. While
 *  it holds a block the caller may call nothing else of the cache: that is what keeps threads from waiting for each other. dst may be the scratch. */
plim_status plim__edge_join(plim__edge_cache *c, int fd, const char *path, uint64_t off, const uint8_t *src, uint64_t n, uint8_t *dst,
                            uint32_t *held, plim__edge_scratch scratch, plim_error *err);
void plim__edge_release(plim__edge_cache *c, uint32_t held);
/** Writes what waits in [lo, hi), so that a read sees it. */
plim_status plim__edge_settle(plim__edge_cache *c, int fd, uint64_t lo, uint64_t hi, plim__edge_scratch scratch, plim_error *err);
/** Whole blocks that one thread is writing around the cache. Lives on that thread's stack. */
typedef struct plim__edge_claim {
    int fd;
    uint64_t first, end; /* blocks */
    struct plim__edge_claim *next;
} plim__edge_claim;

/** Drops what waits in the whole blocks [lo, hi), which the caller is about to write, and makes others who put bytes into
 *  them wait until plim__edge_unclaim: a merge with the old contents would undo what the caller writes. */
void plim__edge_claim_blocks(plim__edge_cache *c, plim__edge_claim *claim, int fd, uint64_t lo, uint64_t hi);
void plim__edge_unclaim(plim__edge_cache *c, plim__edge_claim *claim);
/** Writes everything that waits. Several threads may share the work; all of it is done when all of them are back. */
plim_status plim__edge_flush(plim__edge_cache *c, plim__edge_scratch scratch, plim_error *err);
/** Bytes that the cache itself has read and written. */
void plim__edge_counts(const plim__edge_cache *c, uint64_t *read, uint64_t *written);

#endif
