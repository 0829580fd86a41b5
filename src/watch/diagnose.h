/* What the facts of a moment mean. diagnose.c: a request that was refused; diagnose_end.c: the end of the program. */
#ifndef PLIM_WATCH_DIAGNOSE_H
#define PLIM_WATCH_DIAGNOSE_H

#include "watch/supervisor.h"

/** A request that was refused, by the budget or by the system. Fills verdict, cause, refused, why and fixes; r holds the moment's facts. */
void plim__diagnose_request(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, const plim__refusal *limits);
/** More is resident than the budget allows, by requests that are too small to refuse. */
void plim__diagnose_over(plim__supervisor *s, plim_watch_report *r);
/** A process none of whose requests can be refused. */
void plim__diagnose_uncovered(plim_watch_report *r, const plim__watched *w);
/** The end, by itself or by a signal (then `killed` says what is known of the kernel's part in it). */
void plim__diagnose_end(plim__supervisor *s, plim_watch_report *r, const plim__killed *killed);

/* ---- what both have use for ---- */
/** Whoever holds the memory: why, and what would help. For moments at which nobody asked for anything, r->asked is 0 and `w` NULL. */
void plim__diagnose_held(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, uint64_t limit);
void plim__why_add(plim_watch_report *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
/** A remedy; peak 0: its effect cannot be computed. `limit` 0: nothing to compare with. */
void plim__fix_add(plim_watch_report *r, uint64_t peak, uint64_t limit, const char *format, ...) __attribute__((format(printf, 4, 5)));

#endif
