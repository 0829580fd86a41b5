/* A live block of a watched process, as the supervisor copies it out of the shared memory. Arrays of these are sorted by address. */
#ifndef PLIM_WATCH_BLOCK_H
#define PLIM_WATCH_BLOCK_H

#include "watch/record.h"

typedef struct plim__block {
    uint64_t address, bytes;
    uint64_t resident; /* of these in memory (resident.h); UINT64_MAX: not looked at */
    uint32_t site;     /* index in its process's table */
    uint32_t ms;       /* when it was asked for, since the start */
} plim__block;

/** The block that holds `address`, or NULL. */
const plim__block *plim__block_at(const plim__block *block, uint32_t n, uint64_t address);
void plim__blocks_sort(plim__block *block, uint32_t n);

#endif
