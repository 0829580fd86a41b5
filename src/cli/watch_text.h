/* A report of a watched program for people:
 *
 *     plimsoll: <verdict>
 *     ASKED    how much, by which call, in which thread, when; the lines that led there
 *     REFUSED  who, and who would have let it pass (KILLED: who killed)
 *     HELD     resident bytes, share, blocks, line; the variable that keeps them alive
 *     LAST     what grew in the last seconds
 *     WHY      the cause, with the numbers that prove it
 *     FIX      remedies with the peak that each would give
 *     PROCESSES, COVERAGE, NOTE
 *
 * Parts that hold nothing are left out. Every number is the report's own, or a share of two of them. */
#ifndef PLIM_CLI_WATCH_TEXT_H
#define PLIM_CLI_WATCH_TEXT_H

#include "plimsoll/plimsoll.h"

#include <stdio.h>

/** How a program ended that had no trouble: its last report is one line. */
bool plim__watch_clean(const plim_watch_report *report);
/** Its first line alone. */
void plim__watch_verdict(FILE *out, const plim_watch_report *report);
/** @param width  columns of a line; lines of text are wrapped, lines of source cut */
void plim__watch_text(FILE *out, const plim_watch_report *report, int width);

enum { PLIM__WATCH_PLACE = 288 };

/** "train.py:88", "libtorch_cpu.so". The file is its base name unless another file of `report` has the same: then with as much of the path as tells
 *  them apart. report may be NULL. @return buf, clean */
char *plim__watch_place(char *buf, size_t size, const plim_watch_frame *frame, const plim_watch_report *report);
/** "step()", "<module>"; "" where it is not known. @return buf, clean */
char *plim__watch_function(char *buf, size_t size, const plim_watch_frame *frame);

#endif
