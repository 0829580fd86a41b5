/* How much of each block is really in memory, by /proc/PID/pagemap. Swapped pages do not count; nor, since Linux 6.7, does the one page of zeros
 * that all memory shares which was read but never written. */
#ifndef PLIM_WATCH_RESIDENT_H
#define PLIM_WATCH_RESIDENT_H

#include "watch/block.h"

/** Fills `resident` of every block: exact for pages that lie in one block; a page that two blocks share counts for each by its bytes.
 *  @param pages_max  about how many pages to look at in all; when there are more, every block is estimated from evenly spread ones. 0: look at all
 *  @return false when the kernel does not let us look: nothing is filled; or when the process ended meanwhile: blocks it still had are filled,
 *          the rest are as they were */
bool plim__resident_fill(int pid, plim__block *block, uint32_t n, uint64_t pages_max);

#endif
