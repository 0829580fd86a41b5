/* Where the budget ends: processes whose requests cannot be refused, and those that outlive the program. */
#ifndef PLIM_WATCH_UNCOVERED_H
#define PLIM_WATCH_UNCOVERED_H

#include "watch/supervisor.h"

/** Why no request of a process without records can be refused: "it is linked statically". False: it can, as far as is known; it will attach itself
 *  with its first large request. */
bool plim__uncovered_why(const plim__supervisor *s, int pid, char *why, size_t size);
/** A process of some size that was found not to be covered and has not been told of: its `uncovered` says why. NULL: none. */
plim__watched *plim__uncovered_next(plim__supervisor *s, double now);
/** Processes that the program started and that run on after it, in words: "4711 (python3, 1.2 GiB)". @return how many */
uint32_t plim__survivors(plim__supervisor *s, char *text, size_t size);

#endif
