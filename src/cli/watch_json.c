#include "cli/watch_json.h"

#include <math.h>
#include <sys/wait.h>

/* ------------------------------------------------------------------------------------------------------------ names */

const char *plim__watch_event_name(plim_watch_event event)
{
    switch (event) {
    case PLIM_WATCH_REFUSED: return "refused";
    case PLIM_WATCH_FAILED: return "failed";
    case PLIM_WATCH_OVER: return "over";
    case PLIM_WATCH_UNCOVERED: return "uncovered";
    case PLIM_WATCH_KILLED: return "killed";
    case PLIM_WATCH_ENDED: return "ended";
    }
    return "unknown";
}

const char *plim__watch_cause_name(plim_watch_cause cause)
{
    switch (cause) {
    case PLIM_WATCH_NO_CAUSE: return "none";
    case PLIM_WATCH_REQUEST: return "request";
    case PLIM_WATCH_HOLDER: return "holder";
    case PLIM_WATCH_GROWTH: return "growth";
    case PLIM_WATCH_GRAPH: return "graph";
    case PLIM_WATCH_FRAGMENTATION: return "fragmentation";
    case PLIM_WATCH_NONSENSE: return "nonsense";
    case PLIM_WATCH_ADDRESS_SPACE: return "address_space";
    case PLIM_WATCH_DATA: return "data";
    case PLIM_WATCH_MAPS: return "maps";
    case PLIM_WATCH_OVERCOMMIT: return "overcommit";
    case PLIM_WATCH_CGROUP: return "cgroup";
    case PLIM_WATCH_HOST: return "host";
    case PLIM_WATCH_SIGNAL: return "signal";
    case PLIM_WATCH_AFTER_REFUSAL: return "after_refusal";
    }
    return "unknown";
}

const char *plim__watch_breach_name(plim_watch_breach breach)
{
    switch (breach) {
    case PLIM_WATCH_ENOMEM: return "enomem";
    case PLIM_WATCH_REPORT: return "report";
    case PLIM_WATCH_STOP: return "stop";
    }
    return "unknown";
}

/* ------------------------------------------------------------------------------------------------- parts of a report */

static void put_frames(plim__json *j, const plim_watch_site *s)
{
    plim__json_list(j, "frames");
    for (uint32_t i = 0; i < s->n_frames; i++) {
        const plim_watch_frame *f = &s->frame[i];
        plim__json_short_object(j, NULL);
        plim__json_string(j, "file", f->file);
        plim__json_uint(j, "line", f->line);
        plim__json_string(j, "function", f->function);
        plim__json_string(j, "source", f->source);
        plim__json_end(j);
    }
    plim__json_end(j);
}

static void put_name(plim__json *j, const plim_watch_name *n)
{
    if (!n->name[0]) {
        plim__json_null(j, "name");
        return;
    }
    plim__json_object(j, "name");
    plim__json_string(j, "name", n->name);
    plim__json_string(j, "where", n->where);
    plim__json_string(j, "type", n->type);
    plim__json_string(j, "element", n->element);
    plim__json_string(j, "grad_fn", n->grad_fn);
    plim__json_uint(j, "length", n->length);
    plim__json_uint(j, "items", n->items);
    plim__json_uint(j, "bytes", n->bytes);
    plim__json_end(j);
}

static void put_site(plim__json *j, const char *key, const plim_watch_site *s)
{
    plim__json_object(j, key);
    plim__json_string(j, "label", s->label);
    plim__json_uint(j, "bytes", s->bytes);
    plim__json_uint(j, "resident_bytes", s->resident);
    plim__json_uint(j, "blocks", s->blocks);
    plim__json_uint(j, "block_bytes", s->block_bytes);
    plim__json_uint(j, "allocations", s->allocations);
    plim__json_uint(j, "frees", s->frees);
    plim__json_number(j, "growth_bytes_per_second", s->growth);
    plim__json_bool(j, "steady", s->steady);
    put_name(j, &s->name);
    put_frames(j, s);
    plim__json_end(j);
}

static void put_asked(plim__json *j, const plim_watch_report *r)
{
    if (!r->asked) {
        plim__json_null(j, "asked");
        return;
    }
    plim__json_object(j, "asked");
    plim__json_uint(j, "bytes", r->asked);
    plim__json_string(j, "call", r->call);
    plim__json_string(j, "thread", r->thread);
    plim__json_bool(j, "gil_released", r->gil_released);
    put_site(j, "site", &r->asking);
    plim__json_end(j);
}

static void put_or_null(plim__json *j, const char *key, uint64_t value, uint64_t none)
{
    if (value == none) plim__json_null(j, key);
    else plim__json_uint(j, key, value);
}

static void put_limits(plim__json *j, const plim_watch_report *r)
{
    plim__json_list(j, "limits");
    for (uint32_t i = 0; i < r->n_limits; i++) {
        const plim_watch_limit *l = &r->limit[i];
        plim__json_short_object(j, NULL);
        plim__json_string(j, "name", l->name);
        put_or_null(j, "limit", l->limit, PLIM_UNLIMITED);
        plim__json_uint(j, "used", l->used);
        plim__json_bool(j, "refuses", l->refuses);
        plim__json_string(j, "source", l->source);
        plim__json_end(j);
    }
    plim__json_end(j);
}

static void put_fixes(plim__json *j, const plim_watch_report *r)
{
    put_or_null(j, "peak_as_is_bytes", r->peak_as_is, 0);
    plim__json_list(j, "fixes");
    for (uint32_t i = 0; i < r->n_fixes; i++) {
        const plim_watch_fix *f = &r->fix[i];
        plim__json_object(j, NULL);
        plim__json_string(j, "text", f->text);
        plim__json_bool(j, "computed", f->computed);
        if (f->computed) {
            plim__json_uint(j, "peak_bytes", f->peak);
            plim__json_bool(j, "fits", f->fits);
        } else {
            plim__json_null(j, "peak_bytes");
            plim__json_null(j, "fits");
        }
        plim__json_end(j);
    }
    plim__json_end(j);
}

static void put_processes(plim__json *j, const plim_watch_report *r)
{
    plim__json_uint(j, "process_count", r->processes);
    plim__json_list(j, "processes");
    for (uint32_t i = 0; i < r->n_processes; i++) {
        const plim_watch_process *p = &r->process[i];
        plim__json_short_object(j, NULL);
        plim__json_int(j, "pid", p->pid);
        plim__json_int(j, "parent", p->parent);
        plim__json_string(j, "program", p->program);
        plim__json_bool(j, "attached", p->attached);
        plim__json_bool(j, "ended", p->ended);
        plim__json_uint(j, "resident_bytes", p->resident);
        plim__json_uint(j, "resident_peak_bytes", p->resident_peak);
        plim__json_uint(j, "recorded_bytes", p->recorded);
        plim__json_uint(j, "allocations", p->allocations);
        plim__json_uint(j, "frees", p->frees);
        plim__json_end(j);
    }
    plim__json_end(j);
}

static void put_lines(plim__json *j, const char *key, const char *text, size_t stride, uint32_t n)
{
    plim__json_list(j, key);
    for (uint32_t i = 0; i < n; i++) plim__json_string(j, NULL, text + i * stride);
    plim__json_end(j);
}

static void put_totals(plim__json *j, const plim_watch_report *r)
{
    plim__json_uint(j, "live_bytes", r->live);
    plim__json_uint(j, "pending_bytes", r->pending);
    plim__json_uint(j, "resident_bytes", r->resident);
    plim__json_uint(j, "resident_file_bytes", r->resident_file);
    plim__json_uint(j, "resident_shared_bytes", r->resident_shared);
    plim__json_uint(j, "recorded_bytes", r->recorded);
    plim__json_uint(j, "free_but_kept_bytes", r->kept);
    plim__json_uint(j, "peak_bytes", r->peak);
    plim__json_string(j, "peak_at", r->peak_at);
    plim__json_uint(j, "refusals", r->refusals);
    plim__json_string(j, "coverage", r->coverage);
}

/* ------------------------------------------------------------------------------------------------------- the object */

void plim__watch_json_start(plim__watch_json *w, FILE *out, const plim_watch_options *how)
{
    *w = (plim__watch_json){.json = plim__json_start(out), .seconds = NAN};
    plim__json *j = &w->json;
    plim__json_object(j, NULL);
    plim__json_string(j, "verb", "watch");
    plim__json_short_list(j, "argv");
    for (char *const *word = how->argv; *word; word++) plim__json_string(j, NULL, *word);
    plim__json_end(j);
    put_or_null(j, "budget_bytes", how->memory, 0);
    plim__json_string(j, "on_breach", how->memory ? plim__watch_breach_name(how->on_breach) : NULL);
    plim__json_list(j, "reports");
}

static void put_exit(plim__json *j, int wait_status)
{
    if (WIFEXITED(wait_status)) plim__json_int(j, "code", WEXITSTATUS(wait_status));
    else plim__json_null(j, "code");
    if (WIFSIGNALED(wait_status)) plim__json_int(j, "signal", WTERMSIG(wait_status));
    else plim__json_null(j, "signal");
}

void plim__watch_json_add(plim__watch_json *w, const plim_watch_report *r)
{
    plim__json *j = &w->json;
    w->seconds = r->seconds;
    w->peak = r->peak;
    plim__json_object(j, NULL);
    plim__json_string(j, "event", plim__watch_event_name(r->event));
    plim__json_string(j, "cause", plim__watch_cause_name(r->cause));
    plim__json_number(j, "seconds", r->seconds);
    plim__json_string(j, "verdict", r->verdict);
    plim__json_int(j, "pid", r->pid);
    put_or_null(j, "budget_bytes", r->budget, 0);
    if (r->event == PLIM_WATCH_KILLED || r->event == PLIM_WATCH_ENDED) put_exit(j, r->wait_status);
    put_asked(j, r);
    plim__json_string(j, "refused", r->refused);
    put_limits(j, r);
    plim__json_list(j, "held");
    for (uint32_t i = 0; i < r->n_held; i++) put_site(j, NULL, &r->held[i]);
    plim__json_end(j);
    plim__json_uint(j, "held_others_bytes", r->held_others);
    plim__json_string(j, "growing", r->growing);
    put_lines(j, "why", r->why[0], sizeof r->why[0], r->n_why);
    put_fixes(j, r);
    put_totals(j, r);
    put_processes(j, r);
    put_lines(j, "notes", r->note[0], sizeof r->note[0], r->n_notes);
    plim__json_end(j);
    fflush(j->out);
}

void plim__watch_json_end(plim__watch_json *w, int wait_status, bool stopped)
{
    plim__json *j = &w->json;
    plim__json_end(j);
    plim__json_object(j, "exit");
    put_exit(j, wait_status);
    plim__json_bool(j, "stopped", stopped);
    plim__json_end(j);
    plim__json_number(j, "seconds", w->seconds);
    put_or_null(j, "peak_bytes", w->peak, 0);
    plim__json_end(j);
}
