/* plimsoll watch --trace FILE: the time line in Chrome's trace event format (the object form), which Perfetto and chrome://tracing open. Counters
 * "memory" (resident, live, free_but_kept) at every sample and "budget"; an instant event for every report of trouble. It is streamed. */
#ifndef PLIM_CLI_WATCH_TRACE_H
#define PLIM_CLI_WATCH_TRACE_H

#include "cli/json.h"
#include "plimsoll/plimsoll.h"

typedef struct plim__watch_trace {
    plim__json json;
    uint64_t budget;
    double last; /* seconds of the latest event */
} plim__watch_trace;

void plim__watch_trace_start(plim__watch_trace *t, FILE *out, const plim_watch_options *how);
void plim__watch_trace_sample(plim__watch_trace *t, const plim_watch_sample *sample);
void plim__watch_trace_report(plim__watch_trace *t, const plim_watch_report *report);
void plim__watch_trace_end(plim__watch_trace *t);

#endif
