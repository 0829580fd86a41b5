/* plimsoll watch --live: a view of the watched program's memory in the last lines of the terminal, redrawn in place.
 *
 * The terminal is told to scroll only the lines above the view (DECSTBM), so that what the program prints scrolls as ever and does not run through
 * it. The cursor stays the program's: it is saved before each drawing and given back after, in one write. To take the view away is one constant text,
 * which a signal handler can write: scroll everything again, clear from the cursor on.
 *
 *     [##########====++................]  1.52 GiB of 2.0 GiB (76%)
 *     # live 529 MiB   = free but kept 848 MiB   + other 179 MiB   3 processes   2 refusals   t = 12.3 s
 *     at +81 MiB/s the budget is reached in 3 s
 *      755 MiB   +81 MiB/s  t_leak.py:5 step()     history
 */
#ifndef PLIM_CLI_WATCH_LIVE_H
#define PLIM_CLI_WATCH_LIVE_H

#include "plimsoll/plimsoll.h"

#include <signal.h>
#include <stdio.h>

enum {
    PLIM__WATCH_LIVE_LINES = 14,
    PLIM__WATCH_LIVE_COLUMNS = 240,
};

/** Lines as they are shown, without colours: at most PLIM__WATCH_LIVE_COLUMNS wide. */
typedef struct plim__watch_lines {
    char line[PLIM__WATCH_LIVE_LINES][4 * PLIM__WATCH_LIVE_COLUMNS + 1];
    uint32_t n;
    int bar; /* columns of the bar in the first line, after its bracket */
} plim__watch_lines;

/** @param width, height  of the view; at most as many columns and lines are used */
void plim__watch_lines_fill(plim__watch_lines *out, const plim_watch_live *live, int width, int height);

typedef struct plim__watch_view {
    int fd;
    bool colour;
    bool shown;
    int rows, columns; /* of the terminal when it was drawn */
    uint32_t lines;    /* of the terminal that it has */
    struct sigaction before[4];
} plim__watch_view;

/** @return false when `fd` is no terminal: nothing is drawn then, and nothing is to be ended */
bool plim__watch_view_start(plim__watch_view *v, int fd, bool colour);
void plim__watch_view_draw(plim__watch_view *v, const plim_watch_live *live);
/** Before something else is printed; the next drawing brings it back. */
void plim__watch_view_hide(plim__watch_view *v);
void plim__watch_view_end(plim__watch_view *v);

#endif
