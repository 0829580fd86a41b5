/* What the facts of a moment mean: a verdict, who refused, why, and what would help. Every cause is said with the number that proves it; every
 * remedy whose effect can be computed is said with the peak that a replay of the recorded events gives, and no other number. Nothing is read
 * here: r holds what there is. */
#include "watch/diagnose.h"

#include "watch/line_frame.h"
#include "watch/stack_place.h"
#include "watch/upcast.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

/* ----------------------------------------------------------------------------------------------- sentences */

typedef struct texts { char b[8][32]; } texts;

static const char *size_text(texts *t, int i, uint64_t bytes)
{
    return plim_bytes_format(t->b[i], sizeof t->b[i], bytes);
}

static const char *count_text(texts *t, int i, uint64_t n)
{
    return plim_count_format(t->b[i], sizeof t->b[i], n);
}

void plim__why_add(plim_watch_report *r, const char *format, ...)
{
    if (r->n_why == PLIM_WATCH_LINES) return;
    va_list list;
    va_start(list, format);
    vsnprintf(r->why[r->n_why++], sizeof r->why[0], format, list);
    va_end(list);
}

void plim__fix_add(plim_watch_report *r, uint64_t peak, uint64_t limit, const char *format, ...)
{
    if (r->n_fixes == PLIM_WATCH_FIXES) return;
    plim_watch_fix *f = &r->fix[r->n_fixes++];
    va_list list;
    va_start(list, format);
    vsnprintf(f->text, sizeof f->text, format, list);
    va_end(list);
    f->computed = peak != 0;
    f->peak = peak;
    f->fits = peak && (!limit || peak <= limit);
}

static void line_of(const plim_watch_site *site, char *to, size_t size)
{
    plim__place_line(site->frame, site->n_frames, site->label, to, size);
}

static bool same_line(const plim_watch_site *a, const plim_watch_site *b)
{
    return a->n_frames && b->n_frames && a->frame[0].line == b->frame[0].line && !strcmp(a->frame[0].file, b->frame[0].file);
}

/* -------------------------------------------------------------------------------------------------- replays */

/* Resident bytes that no recorded block explains: they stay, whatever is changed. */
static uint64_t rest_bytes(const plim_watch_report *r)
{
    return r->resident > r->recorded ? r->resident - r->recorded : 0;
}

static plim__what_if *what_if_new(const plim__supervisor *s)
{
    plim__what_if *w = plim__new(&s->alloc, (uint64_t)s->timeline.n_stacks + 1, sizeof *w, NULL);
    for (uint32_t i = 0; w && i < s->timeline.n_stacks; i++) w[i].scale = 1;
    return w;
}

/* The peak if stacks that grow steadily kept their last block alone (`keep`), or stacks of the row's line had blocks `scale` times as large. The
 * request that was refused comes at the end. 0: there is no memory to compute it. */
static uint64_t peak_if(plim__supervisor *s, const plim_watch_report *r, const plim_watch_site *row, bool keep, double scale, uint64_t asked)
{
    plim__what_if *what = what_if_new(s);
    plim__growth *growth = plim__new(&s->alloc, (uint64_t)s->timeline.n_stacks + 1, sizeof *growth, NULL);
    uint64_t peak = 0;
    if (what && growth) {
        plim__timeline_growth(&s->timeline, (uint32_t)(r->seconds * 1e3), growth);
        for (uint32_t i = 0; i < s->timeline.n_stacks; i++) {
            const plim__where *where = plim__place_of(s, i);
            const bool in_row = row && where && where->n_frames && row->n_frames && where->frame[0].line == row->frame[0].line &&
                                !strcmp(where->frame[0].file, row->frame[0].file) && !strcmp(where->label, row->label);
            if (keep && growth[i].steady) what[i].keep_last = true;
            if (in_row) what[i].scale = scale;
        }
        const int64_t last = (int64_t)asked;
        peak = rest_bytes(r) + plim__replay_peak(&s->timeline, what, &last, asked ? 1 : 0);
    }
    plim__free(&s->alloc, growth);
    plim__free(&s->alloc, what);
    return peak;
}

/* ---------------------------------------------------------------------------------------- who refused, in words */

static const plim_watch_limit *limit_named(const plim_watch_report *r, const char *name)
{
    for (uint32_t i = 0; i < r->n_limits; i++)
        if (!strcmp(r->limit[i].name, name)) return &r->limit[i];
    return NULL;
}

/* "RAM 22.5 GiB free, RLIMIT_AS none, no control group limit" and what they would have done. */
static void others_text(const plim_watch_report *r, const plim__refusal *l, char *to, size_t size)
{
    texts t;
    const plim_watch_limit *as = limit_named(r, "RLIMIT_AS"), *group = limit_named(r, "cgroup");
    char as_text[64] = "RLIMIT_AS none", group_text[64] = "control group without a limit";
    if (as && as->limit != PLIM_UNLIMITED) snprintf(as_text, sizeof as_text, "RLIMIT_AS %s", size_text(&t, 0, as->limit));
    const bool grouped = group && group->limit != PLIM_UNLIMITED;
    const uint64_t left = grouped && group->limit > group->used ? group->limit - group->used : 0;
    if (grouped) snprintf(group_text, sizeof group_text, "control group leaves %s", size_text(&t, 1, left));
    const bool passes = l->first >= l->n;
    const bool holds = r->asked <= l->ram_free && (!grouped || r->asked <= left);
    snprintf(to, size, "RAM %s free, %s, %s: %s", size_text(&t, 2, l->ram_free), as_text, group_text,
             passes && holds ? "they would have let it pass"
             : passes        ? "they would have let it pass and killed the program later"
                             : "they would have refused it too");
}

static void refused_by_budget(plim_watch_report *r, const plim__refusal *l)
{
    texts t;
    char others[240];
    others_text(r, l, others, sizeof others);
    char pending[96] = "";
    if (r->pending > r->budget / 50)
        snprintf(pending, sizeof pending, ", and %s asked for a moment ago and not touched yet", size_text(&t, 2, r->pending));
    snprintf(r->refused, sizeof r->refused, "by your budget: %s (%s in use%s). %s", size_text(&t, 0, r->budget), size_text(&t, 1, r->resident),
             pending, others);
}

/* ------------------------------------------------------------------------------------- the budget that would do */

/* Bytes that the line which asks holds already. */
static uint64_t line_holds(const plim_watch_report *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_held; i++)
        if (same_line(&r->held[i], &r->asking)) sum += r->held[i].bytes;
    return sum;
}

/* The code object of the frame that a report shows first. */
static uint64_t code_of(const plim__watched *w, const plim_watch_frame *f)
{
    const plim__rec_ask *ask = &w->slot->ask;
    const plim__rec_site *site = &w->slot->site[ask->site < PLIM__REC_SITES ? ask->site : PLIM__REC_NO_SITE];
    for (uint32_t i = 0; i < site->n_python && i < PLIM__REC_PYTHON; i++) {
        if (site->python[i].code >= PLIM__REC_CODES || site->python[i].line != f->line) continue;
        const plim__rec_code *code = &w->slot->code[site->python[i].code];
        if (atomic_load(&code->ready) && !strncmp(code->file, f->file, sizeof f->file - 1)) return atomic_load(&code->address);
    }
    return 0;
}

/* A budget is promised for the line where all that it asks for is known, else for the request alone. Both numbers follow from the charge and the rule
 * by which the request was refused. */
static void budget_fix(const plim__supervisor *s, plim_watch_report *r, const plim__watched *w)
{
    texts t;
    plim__line_needs line;
    const plim__rec_ask *ask = w ? &w->slot->ask : NULL;
    const bool grows = ask && ask->old_bytes, python = r->asking.n_frames && r->asking.frame[0].line;
    if (ask && !grows && python && s->charge >= r->asked &&
        plim__line_frame_needs(&line, w->slot, ask->thread_state, code_of(w, &r->asking.frame[0]), r->asking.frame[0].source, r->asked, line_holds(r))) {
        uint64_t least = 0;
        for (uint32_t i = 0; i < line.n; i++) {
            const uint64_t need = plim__budget_least(s->charge - r->asked + line.request[i].more, line.request[i].bytes);
            if (need > least) least = need;
        }
        plim__fix_add(r, 0, 0, "a budget of %s lets this line run unchanged", size_text(&t, 0, plim__budget_promise(least)));
        return;
    }
    plim__fix_add(r, 0, 0, "a budget of at least %s: this request passes then; what is asked for after it is not known",
                  size_text(&t, 0, plim__budget_promise(plim__budget_least(s->charge, r->asked))));
}

/* --------------------------------------------------------------------------------- the request alone is too big */

static void rows_fix(plim_watch_report *r, const plim__upcast *u, uint64_t rest)
{
    texts t;
    if (!u->rows || u->values % u->rows) return;
    const uint64_t row = u->values / u->rows * u->instead_bytes;
    uint64_t rows = 1, most = r->budget && r->budget / 16 < 128 * MIB ? r->budget / 16 : 128 * MIB;
    while (rows * 2 * row <= most && rows * 2 <= u->rows) rows *= 2;
    if (rows >= u->rows) return;
    plim__fix_add(r, rest + rows * row, r->budget, "the same in blocks of %s rows, each written to a file; then np.load(..., mmap_mode='r')",
                  count_text(&t, 0, rows));
}

static bool request_upcast(plim__supervisor *s, plim_watch_report *r)
{
    plim__upcast u;
    texts t;
    if (!r->asking.n_frames || !plim__upcast_read(&u, r->asking.frame[0].source, r->asked)) return false;
    const uint64_t rest = r->resident, copy = u.values * u.to_bytes;
    const int64_t whole[] = {(int64_t)r->asked, (int64_t)copy}, narrow[] = {(int64_t)(u.values * u.instead_bytes)};
    const uint64_t free_of = rest_bytes(r);
    const uint64_t before = free_of + plim__replay_peak(&s->timeline, NULL, whole, copy ? 2 : 1);
    if (u.to_bytes) {
        plim__why_add(r, "%s makes float64; the same line then converts to %s. Both copies exist at once: %s + %s = %s", u.maker, u.to,
                      size_text(&t, 0, r->asked), size_text(&t, 1, copy), size_text(&t, 2, r->asked + copy));
    } else {
        plim__why_add(r, "%s makes float64: %s values of 8 bytes", u.maker, count_text(&t, 0, u.values));
    }
    plim__fix_add(r, free_of + plim__replay_peak(&s->timeline, NULL, narrow, 1), r->budget, "%s", u.instead);
    rows_fix(r, &u, rest);
    r->peak_as_is = before;
    return true;
}

static void diagnose_too_big(plim__supervisor *s, plim_watch_report *r, const plim__watched *w)
{
    texts t;
    r->cause = PLIM_WATCH_REQUEST;
    if (r->asked > r->budget)
        snprintf(r->verdict, sizeof r->verdict, "out of memory - one request alone is %.1f times the budget", (double)r->asked / (double)r->budget);
    else
        snprintf(r->verdict, sizeof r->verdict, "out of memory - one request of %s beside the %s that the program has is more than the budget",
                 size_text(&t, 0, r->asked), size_text(&t, 1, r->resident));
    if (!request_upcast(s, r)) {
        plim__why_add(r, "%s in one piece: %.0f%% of the budget", size_text(&t, 0, r->asked), 100.0 * (double)r->asked / (double)r->budget);
        plim__fix_add(r, 0, 0, "make it in pieces, or keep it in a file (np.memmap)");
    }
    budget_fix(s, r, w);
}

/* -------------------------------------------------------------------------------------------- somebody holds it */

static const plim_watch_site *row_steady(const plim_watch_report *r)
{
    for (uint32_t i = 0; i < r->n_held; i++)
        if (r->held[i].steady) return &r->held[i];
    return NULL;
}

static uint64_t steady_bytes(const plim_watch_report *r)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < r->n_held; i++)
        if (r->held[i].steady) sum += r->held[i].resident;
    return sum;
}

/* Variables that keep an autograd graph alive, as words: "`total` (AddBackward0), `losses` (list, 57 items)". @return how many */
static uint32_t graph_names(const plim__supervisor *s, char *to, size_t size, char *first, size_t first_size)
{
    uint32_t n = 0;
    size_t at = 0;
    to[0] = first[0] = 0;
    for (uint32_t i = 0; i < s->named.n; i++) {
        const plim_watch_name *name = &s->named.name[i].name;
        if (!name->grad_fn[0] || at >= size) continue;
        const bool first_scalar = !first[0] && !name->length;
        if (first_scalar) snprintf(first, first_size, "%s", name->name);
        if (name->length)
            at += (size_t)snprintf(to + at, size - at, "%s`%s` (%s of %llu, %s)", n ? ", " : "", name->name, name->type,
                                   (unsigned long long)name->length, name->grad_fn);
        else
            at += (size_t)snprintf(to + at, size - at, "%s`%s` (%s)", n ? ", " : "", name->name, name->grad_fn);
        if (++n == 4) break;
    }
    return n;
}

static void growth_why(plim_watch_report *r, const plim_watch_site *row)
{
    texts t;
    char line[160];
    line_of(row, line, sizeof line);
    plim__why_add(r, "steady growth at %s: %s requests, %s freed, up to %s each, +%s/s, no flattening", line, count_text(&t, 0, row->allocations),
                  count_text(&t, 1, row->frees), size_text(&t, 2, row->block_bytes), size_text(&t, 3, row->growth > 0 ? (uint64_t)row->growth : 0));
}

static void diagnose_graph(plim__supervisor *s, plim_watch_report *r, const plim_watch_site *row, uint64_t limit)
{
    texts t;
    char names[200], first[64], line[160];
    graph_names(s, names, sizeof names, first, sizeof first);
    r->cause = PLIM_WATCH_GRAPH;
    snprintf(r->verdict, sizeof r->verdict, "out of memory - a retained autograd graph: activations of past iterations are kept alive");
    line_of(row, line, sizeof line);
    plim__why_add(r, "%s blocks of up to %s from %s, of past iterations, are alive: %s freed of %s", count_text(&t, 0, row->blocks),
                  size_text(&t, 1, row->block_bytes), line, count_text(&t, 2, row->frees), count_text(&t, 3, row->allocations));
    plim__why_add(r, "a Tensor with grad_fn still points to each graph: %s", names);
    const uint64_t peak = peak_if(s, r, NULL, true, 1, r->asked);
    if (first[0])
        plim__fix_add(r, peak, limit, "add numbers, not tensors: %s = %s + loss.item(); keep loss.detach() in lists", first, first);
    else
        plim__fix_add(r, peak, limit, "keep loss.detach() or loss.item() instead of loss");
}

static void diagnose_growth(plim__supervisor *s, plim_watch_report *r, const plim_watch_site *row, uint64_t limit)
{
    texts t;
    char line[160];
    line_of(row, line, sizeof line);
    r->cause = PLIM_WATCH_GROWTH;
    snprintf(r->verdict, sizeof r->verdict,
             same_line(row, &r->asking) ? "out of memory - this line keeps what it makes" : "out of memory - the line that failed is not the cause");
    growth_why(r, row);
    const uint64_t peak = peak_if(s, r, NULL, true, 1, r->asked);
    if (row->name.name[0])
        plim__fix_add(r, peak, limit, "drop or bound `%s` (for example collections.deque(maxlen=k)): %s more for each that is kept", row->name.name,
                      size_text(&t, 0, row->block_bytes));
    else
        plim__fix_add(r, peak, limit, "free what %s makes before the next one: %s for each that is kept", line, size_text(&t, 0, row->block_bytes));
    if (!strncmp(row->name.element, "float64", 7))
        plim__fix_add(r, peak_if(s, r, row, false, 0.5, r->asked), limit,
                      "keep it as float32: delays the failure from %s to about %s, does not cure it", count_text(&t, 1, row->allocations),
                      count_text(&t, 2, row->allocations * 2));
}

/* Whether a name stands in one of the lines that are being run: it is needed then. */
static bool is_used(const plim_watch_site *asking, const char *name)
{
    char word[64];
    const size_t n = strcspn(name, ".");
    snprintf(word, sizeof word, "%.*s", (int)n, name);
    for (uint32_t i = 0; i < asking->n_frames; i++) {
        const char *line = asking->frame[i].source;
        for (const char *p = line; (p = strstr(p, word)) != NULL; p++) {
            const bool starts = p == line || !(isalnum((unsigned char)p[-1]) || p[-1] == '_');
            if (starts && !(isalnum((unsigned char)p[n]) || p[n] == '_')) return true;
        }
    }
    return false;
}

/* Nobody asked for anything: who holds most, and what it would be without. */
static void holder_alone(plim__supervisor *s, plim_watch_report *r, uint64_t limit)
{
    texts t;
    for (uint32_t i = 0; i < r->n_held && i < 2; i++) {
        const plim_watch_site *row = &r->held[i];
        char line[160];
        if (row->resident * 10 < r->resident) break;
        line_of(row, line, sizeof line);
        plim__why_add(r, "%s of the %s resident: %s blocks of up to %s, asked for at %s", size_text(&t, 0, row->resident),
                      size_text(&t, 1, r->resident), count_text(&t, 2, row->blocks), size_text(&t, 3, row->block_bytes), line);
        if (row->name.name[0]) plim__fix_add(r, peak_if(s, r, row, false, 0, 0), limit, "without `%s`", row->name.name);
    }
}

static void diagnose_holder(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, uint64_t limit)
{
    texts t;
    const plim_watch_site *top = r->n_held ? &r->held[0] : NULL;
    r->cause = PLIM_WATCH_HOLDER;
    if (!r->asked) {
        holder_alone(s, r, limit);
        return;
    }
    const bool elsewhere = top && !same_line(top, &r->asking);
    snprintf(r->verdict, sizeof r->verdict,
             elsewhere ? "out of memory - most of it is held by other lines than the one that failed" : "out of memory - the budget is used up");
    uint64_t others = 0;
    for (uint32_t i = 0; i < r->n_held; i++)
        if (!same_line(&r->held[i], &r->asking)) others += r->held[i].resident;
    plim__why_add(r, "%s of the %s resident was made by other lines and is still alive; this request adds %s", size_text(&t, 0, others),
                  size_text(&t, 1, r->resident), size_text(&t, 2, r->asked));
    if (r->resident_shared * 4 >= r->resident)
        plim__why_add(r, "%s of it is shared memory (shm_open, memfd, System V), which is charged once it is touched", size_text(&t, 0, r->resident_shared));
    for (uint32_t i = 0; i < r->n_held && i < 2; i++) {
        const plim_watch_site *row = &r->held[i];
        if (row->name.name[0] && !same_line(row, &r->asking) && row->name.bytes >= r->resident / 10 && !is_used(&r->asking, row->name.name))
            plim__fix_add(r, peak_if(s, r, row, false, 0, r->asked), limit, "if `%s` is no longer needed here: del %s before this line",
                          row->name.name, row->name.name);
    }
    plim__fix_add(r, 0, 0, "a smaller batch, or pieces of it one after the other (the part of these lines that scales with it is not known)");
    budget_fix(s, r, w);
}

void plim__diagnose_held(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, uint64_t limit)
{
    const plim_watch_site *steady = row_steady(r);
    char names[8], first[8];
    r->peak_as_is = peak_if(s, r, NULL, false, 1, r->asked);
    if (!steady || steady_bytes(r) * 4 < r->resident)
        diagnose_holder(s, r, w, limit);
    else if (graph_names(s, names, sizeof names, first, sizeof first))
        diagnose_graph(s, r, steady, limit);
    else
        diagnose_growth(s, r, steady, limit);
}

/* --------------------------------------------------------------------------------------------- fragmentation */

/* The threshold above which blocks get mappings of their own and go back when they are freed: below most of what was freed. */
static uint64_t threshold_for(const plim__supervisor *s)
{
    uint64_t freed = 0, freed_large = 0;
    for (uint32_t i = 0; i < s->timeline.n_stacks; i++) {
        const plim__stack *k = &s->timeline.stack[i];
        freed += k->freed * k->largest;
        if (k->largest >= MIB) freed_large += k->freed * k->largest;
    }
    return freed_large * 10 >= freed * 9 ? MIB : PLIM__REC_LARGE;
}

static bool is_fragmented(const plim_watch_report *r, const plim__watched *w)
{
    return w && w->slot && atomic_load(&w->slot->flags) & PLIM__REC_GLIBC && r->kept >= 32 * MIB && r->kept * 5 >= r->resident &&
           r->kept >= r->asked / 2;
}

static bool has_variable(const plim__supervisor *s, int pid, const char *name)
{
    enum { ENVIRONMENT = 1 << 17 };
    bool found = false;
    char *text = plim__new(&s->alloc, 1, ENVIRONMENT, NULL);
    const size_t n = text ? plim__peer_file(pid, "environ", text, ENVIRONMENT) : 0;
    for (size_t i = 0; i < n && !found; i += strlen(text + i) + 1) found = !strncmp(text + i, name, strlen(name)) && text[i + strlen(name)] == '=';
    plim__free(&s->alloc, text);
    return found;
}

static void fragmentation_why(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, uint64_t limit)
{
    texts t;
    const plim__rec_heap *h = &w->slot->heap;
    plim__why_add(r, "glibc's heap of %s = %s used + %s free but kept (%s of it at its end, where it could be given back)",
                  size_text(&t, 0, h->arena), size_text(&t, 1, h->used), size_text(&t, 2, h->kept), size_text(&t, 3, h->top));
    plim__why_add(r, "large blocks were freed between blocks that are still used: below its moving mmap threshold, up to 32 MiB, glibc cuts "
                     "them from one heap");
    r->peak_as_is = r->resident;
    const uint64_t after = r->resident > h->kept ? r->resident - h->kept : 0;
    if (!has_variable(s, w->pid, "MALLOC_MMAP_THRESHOLD_"))
        plim__fix_add(r, after, limit, "set MALLOC_MMAP_THRESHOLD_=%llu in the environment", (unsigned long long)threshold_for(s));
    plim__fix_add(r, 0, 0, "malloc_trim(0) now and then (from Python: ctypes.CDLL(None).malloc_trim(0))");
}

static void diagnose_fragmentation(plim__supervisor *s, plim_watch_report *r, const plim__watched *w)
{
    texts t;
    r->cause = PLIM_WATCH_FRAGMENTATION;
    snprintf(r->verdict, sizeof r->verdict, "out of memory - %s of the %s resident is free memory that glibc keeps", size_text(&t, 0, r->kept),
             size_text(&t, 1, r->resident));
    fragmentation_why(s, r, w, r->budget);
}

/* --------------------------------------------------------------------------------------- the system's own limits */

static void diagnose_address_space(plim_watch_report *r, const plim__refusal *l, const plim_watch_limit *limit)
{
    texts t;
    const bool data = l->cause == PLIM_WATCH_DATA;
    snprintf(r->verdict, sizeof r->verdict, "allocation refused by %s although %s of RAM is free", limit->name, size_text(&t, 0, l->ram_free));
    snprintf(r->refused, sizeof r->refused, "by %s (%s) %s; %s in use %s, of which only %s is resident", limit->name,
             data ? "ulimit -d" : "ulimit -v", size_text(&t, 1, limit->limit), data ? "data" : "address space", size_text(&t, 2, limit->used),
             size_text(&t, 3, r->resident));
    plim__why_add(r, "%s + %s = %s, and the limit is %s: it counts what is reserved, not what is resident", size_text(&t, 0, limit->used),
                  size_text(&t, 1, r->asked), size_text(&t, 2, limit->used + r->asked), size_text(&t, 3, limit->limit));
    plim__fix_add(r, r->resident + r->asked, l->ram_free + r->resident,
                  "ulimit -%c unlimited (or at least %llu) and --memory instead, which counts what is resident", data ? 'd' : 'v',
                  (unsigned long long)((limit->used + r->asked + 1023) / 1024));
}

static void diagnose_maps(plim_watch_report *r, const plim_watch_limit *limit)
{
    texts t;
    snprintf(r->verdict, sizeof r->verdict, "allocation refused by vm.max_map_count: the program has %s mappings", count_text(&t, 0, limit->used));
    snprintf(r->refused, sizeof r->refused, "by vm.max_map_count: %s mappings in use of %s; only %s is resident", count_text(&t, 0, limit->used),
             count_text(&t, 1, limit->limit), size_text(&t, 2, r->resident));
    plim__why_add(r, "every block above glibc's mmap threshold is a mapping of its own: %s recorded blocks are alive",
                  count_text(&t, 0, r->n_held ? r->held[0].blocks : 0));
    plim__fix_add(r, 0, 0, "sysctl vm.max_map_count=%llu", (unsigned long long)limit->limit * 4);
    plim__fix_add(r, 0, 0, "MALLOC_MMAP_THRESHOLD_=33554432 in the environment: smaller blocks then share mappings");
}

static void diagnose_overcommit(plim_watch_report *r, const plim__refusal *l, const plim_watch_limit *limit)
{
    texts t;
    snprintf(r->verdict, sizeof r->verdict, "allocation refused by the kernel's overcommit rule: %s at once", size_text(&t, 0, r->asked));
    snprintf(r->refused, sizeof r->refused, "by the kernel's overcommit rule: %s, %s; %s of RAM is free", size_text(&t, 0, limit->limit),
             limit->source, size_text(&t, 1, l->ram_free));
    if (limit->used)
        plim__why_add(r, "%s promised already + %s = %s, and the limit is %s", size_text(&t, 0, limit->used), size_text(&t, 1, r->asked),
                      size_text(&t, 2, limit->used + r->asked), size_text(&t, 3, limit->limit));
    else
        plim__why_add(r, "%s in one piece exceeds %s", size_text(&t, 0, r->asked), size_text(&t, 1, limit->limit));
    plim__fix_add(r, 0, 0, "make it in pieces, or keep it in a file (np.memmap): plimsoll size says what fits");
}

static void diagnose_hole(plim_watch_report *r, const plim_watch_limit *limit)
{
    texts t;
    r->cause = PLIM_WATCH_REQUEST;
    snprintf(r->verdict, sizeof r->verdict, "allocation of %s refused: no hole in the address space is that large", size_text(&t, 0, r->asked));
    snprintf(r->refused, sizeof r->refused, "by the address space: the largest hole between mappings is %s", size_text(&t, 0, limit->limit));
    plim__why_add(r, "%s in one piece, and the largest hole is %s", size_text(&t, 0, r->asked), size_text(&t, 1, limit->limit));
    plim__fix_add(r, 0, 0, "make it in pieces, or keep it in a file (np.memmap): plimsoll size says what fits");
}

static void diagnose_nonsense(plim_watch_report *r)
{
    char line[160], text[32];
    line_of(&r->asking, line, sizeof line);
    r->cause = PLIM_WATCH_NONSENSE;
    snprintf(r->verdict, sizeof r->verdict, "asked for %s: a negative or overflowed size%s%s", plim_bytes_format(text, sizeof text, r->asked),
             line[0] ? ", from " : "", line);
    snprintf(r->refused, sizeof r->refused, "by the C library: no block can be larger than 2^63 - 1 bytes; no limit of the system is involved");
    if (r->asked > INT64_MAX)
        plim__why_add(r, "%llu bytes is %lld read as a signed number", (unsigned long long)r->asked, (long long)r->asked);
    else
        plim__why_add(r, "%llu bytes is more than the address space of 2^47 bytes", (unsigned long long)r->asked);
    plim__fix_add(r, 0, 0, "look at how this line computes the size: a product that does not fit its type, or a difference that became negative");
}

/* The address space that the cure leaves, against the limit on it. */
static void fragmentation_limit(plim_watch_report *r, const plim_watch_limit *limit)
{
    const uint64_t used = limit->used > r->kept ? limit->used - r->kept : 0;
    for (uint32_t i = 0; i < r->n_fixes; i++) r->fix[i].fits = r->fix[i].computed && used + r->asked <= limit->limit;
}

static void diagnose_system(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, const plim__refusal *l)
{
    const plim_watch_limit *limit = l->first < l->n ? &l->limit[l->first] : NULL;
    texts t;
    r->cause = l->cause;
    if (!limit) {
        snprintf(r->verdict, sizeof r->verdict, "allocation of %s refused, and none of the limits that can be read explains it",
                 size_text(&t, 0, r->asked));
        snprintf(r->refused, sizeof r->refused, "by the system; RAM %s free", size_text(&t, 1, l->ram_free));
        return;
    }
    if (l->cause == PLIM_WATCH_MAPS)
        diagnose_maps(r, limit);
    else if (l->cause == PLIM_WATCH_OVERCOMMIT)
        diagnose_overcommit(r, l, limit);
    else if (!strcmp(limit->name, "address space"))
        diagnose_hole(r, limit);
    else
        diagnose_address_space(r, l, limit);
    /* What the allocator keeps would have been enough: that is the cause then, and the limit only where it showed. */
    if ((l->cause == PLIM_WATCH_ADDRESS_SPACE || l->cause == PLIM_WATCH_DATA) && is_fragmented(r, w)) {
        r->n_fixes = r->n_why = 0;
        diagnose_fragmentation(s, r, w);
        fragmentation_limit(r, limit);
    }
}

/* ------------------------------------------------------------------------------------------------- requests */

void plim__diagnose_request(plim__supervisor *s, plim_watch_report *r, const plim__watched *w, const plim__refusal *l)
{
    if (l->cause == PLIM_WATCH_NONSENSE) {
        diagnose_nonsense(r);
        return;
    }
    if (r->event == PLIM_WATCH_FAILED) {
        diagnose_system(s, r, w, l);
        return;
    }
    refused_by_budget(r, l);
    if (r->asked > r->budget || (r->asked + rest_bytes(r) > r->budget && r->recorded < r->asked / 4))
        diagnose_too_big(s, r, w);
    else if (is_fragmented(r, w))
        diagnose_fragmentation(s, r, w);
    else
        plim__diagnose_held(s, r, w, r->budget);
}
