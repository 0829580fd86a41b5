#include "cli/watch_trace.h"

#include "cli/watch_json.h"
#include "cli/watch_text.h"

#include <math.h>
#include <string.h>

/* All processes of the program are one in the trace: what is counted is counted over all of them. */
enum { TRACE_PID = 1, TRACE_TID = 1 };

/* Opens an event, up to its args. @param seconds  since the start; negative: an event without a time */
static void event_open(plim__watch_trace *t, const char *name, const char *phase, double seconds)
{
    plim__json *j = &t->json;
    plim__json_short_object(j, NULL);
    plim__json_string(j, "name", name);
    plim__json_string(j, "ph", phase);
    if (seconds >= 0) plim__json_int(j, "ts", llround(seconds * 1e6));
    plim__json_int(j, "pid", TRACE_PID);
    plim__json_int(j, "tid", TRACE_TID);
    if (seconds > t->last) t->last = seconds;
}

static void event_close(plim__watch_trace *t)
{
    plim__json_end(&t->json); /* args */
    plim__json_end(&t->json);
}

static void put_metadata(plim__watch_trace *t, const char *what, const char *name)
{
    event_open(t, what, "M", -1);
    plim__json_object(&t->json, "args");
    plim__json_string(&t->json, "name", name);
    event_close(t);
}

static void put_budget(plim__watch_trace *t, double seconds)
{
    if (!t->budget) return;
    event_open(t, "budget", "C", seconds);
    plim__json_object(&t->json, "args");
    plim__json_uint(&t->json, "bytes", t->budget);
    event_close(t);
}

static void command_format(char *buf, size_t size, char *const *argv)
{
    buf[0] = 0;
    for (size_t n = 0; *argv && n + 1 < size; argv++, n = strlen(buf)) snprintf(buf + n, size - n, "%s%s", n ? " " : "", *argv);
}

void plim__watch_trace_start(plim__watch_trace *t, FILE *out, const plim_watch_options *how)
{
    char command[240];
    *t = (plim__watch_trace){.json = plim__json_start(out), .budget = how->memory};
    command_format(command, sizeof command, how->argv);
    plim__json_object(&t->json, NULL);
    plim__json_string(&t->json, "displayTimeUnit", "ms");
    plim__json_list(&t->json, "traceEvents");
    put_metadata(t, "process_name", command);
    put_metadata(t, "thread_name", "memory");
    put_budget(t, 0);
}

void plim__watch_trace_sample(plim__watch_trace *t, const plim_watch_sample *s)
{
    event_open(t, "memory", "C", s->seconds);
    plim__json_object(&t->json, "args");
    plim__json_uint(&t->json, "resident", s->resident);
    plim__json_uint(&t->json, "live", s->live);
    plim__json_uint(&t->json, "free_but_kept", s->kept);
    event_close(t);
}

void plim__watch_trace_report(plim__watch_trace *t, const plim_watch_report *r)
{
    plim__json *j = &t->json;
    char place[PLIM__WATCH_PLACE];
    if (r->event == PLIM_WATCH_ENDED && r->cause == PLIM_WATCH_NO_CAUSE) return;
    event_open(t, r->verdict, "i", r->seconds);
    plim__json_string(j, "s", "p");
    plim__json_object(j, "args");
    plim__json_string(j, "event", plim__watch_event_name(r->event));
    plim__json_string(j, "cause", plim__watch_cause_name(r->cause));
    plim__json_int(j, "pid", r->pid);
    plim__json_uint(j, "asked", r->asked);
    plim__json_string(j, "line", r->asked && r->asking.n_frames ? plim__watch_place(place, sizeof place, &r->asking.frame[0], r) : NULL);
    event_close(t);
}

void plim__watch_trace_end(plim__watch_trace *t)
{
    put_budget(t, t->last); /* so that its line is as long as the run */
    plim__json_end(&t->json);
    plim__json_end(&t->json);
}
