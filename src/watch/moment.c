/* The facts of a moment: who holds what, where, under which name, and how much of what is resident that explains. Numbers and places only; what
 * they mean is diagnose.c's. */
#include "watch/supervisor.h"

#include "watch/resident.h"
#include "watch/stack_place.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum { TOP_STACKS = 96, GLANCE_PAGES = 1 << 16 };

/* --------------------------------------------------------------------------------------------------- blocks */

static uint32_t shard_copy(const plim__rec_shard *from, plim__block *to, bool dead)
{
    for (int tries = 0; tries < 100; tries++) {
        const uint32_t version = atomic_load_explicit(&from->version, memory_order_acquire);
        if ((version & 1) && !dead && tries < 99) continue;
        uint32_t n = atomic_load_explicit(&from->count, memory_order_acquire);
        if (n > PLIM__REC_SHARD_BLOCKS) n = PLIM__REC_SHARD_BLOCKS;
        for (uint32_t i = 0; i < n; i++) {
            const plim__rec_block *b = &from->block[i];
            to[i] = (plim__block){.address = b->address, .bytes = b->bytes, .resident = UINT64_MAX, .site = b->site, .ms = b->ms};
        }
        atomic_thread_fence(memory_order_acquire);
        if (dead || tries == 99 || atomic_load_explicit(&from->version, memory_order_relaxed) == version) return n;
    }
    return 0;
}

uint32_t plim__moment_blocks(const plim__supervisor *s, const plim__watched *w, plim__block **out)
{
    *out = NULL;
    if (!w->slot) return 0;
    uint64_t room = atomic_load(&w->slot->live_blocks) + 4096; /* more may come meanwhile */
    if (room > (uint64_t)PLIM__REC_SHARDS * PLIM__REC_SHARD_BLOCKS) room = (uint64_t)PLIM__REC_SHARDS * PLIM__REC_SHARD_BLOCKS;
    plim__block *block = plim__new(&s->alloc, room + PLIM__REC_SHARD_BLOCKS, sizeof *block, NULL);
    if (!block) return 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < PLIM__REC_SHARDS && n <= room; i++) n += shard_copy(&w->slot->shard[i], block + n, w->ended);
    plim__blocks_sort(block, n);
    *out = block;
    return n;
}

/* -------------------------------------------------------------------------------------------------- looking */

/* Shares of the process's stacks that are in memory, from its blocks. */
static void shares_take(plim__supervisor *s, plim__watched *w, const plim__block *block, uint32_t n)
{
    double *bytes = plim__new(&s->alloc, (uint64_t)PLIM__REC_SITES * 2, sizeof *bytes, NULL);
    if (!bytes) return;
    w->recorded = 0;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t site = block[i].site < PLIM__REC_SITES ? block[i].site : PLIM__REC_NO_SITE;
        bytes[site] += (double)block[i].bytes;
        bytes[PLIM__REC_SITES + site] += (double)block[i].resident;
        w->recorded += block[i].resident;
    }
    for (uint32_t site = 0; site < PLIM__REC_SITES; site++)
        if (w->reader.stack[site] && bytes[site] > 0)
            s->timeline.stack[w->reader.stack[site] - 1].resident = bytes[PLIM__REC_SITES + site] / bytes[site];
    plim__free(&s->alloc, bytes);
}

/* The most that was ever charged for a process is not less than its high-water mark without the most that it had of what is not charged. */
void plim__moment_high_water(plim__watched *w, uint64_t mark)
{
    const uint64_t not_charged = w->file_peak + w->records, most = mark > not_charged ? mark - not_charged : 0;
    if (most > w->resident_peak) w->resident_peak = most;
}

static void kinds_look(plim__supervisor *s)
{
    plim__peer_kinds sum = {0};
    bool any = false;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__peer_status st;
        plim__watched *w = &s->process[i];
        if (w->ended || !plim__peer_status_read(w->pid, &st) || !st.alive) continue;
        any = true;
        /* Of shared pages the same part as of all that is charged. */
        const double part = w->whole ? (double)w->resident / (double)w->whole : 1;
        sum.file += st.file;
        sum.shared += (uint64_t)((double)w->kind.shared * part);
        if (plim__tree_alive(s) == 1) plim__moment_high_water(w, st.peak);
        if (st.name[0]) snprintf(w->program, sizeof w->program, "%s", st.name);
    }
    if (!any) return;
    sum.anon = s->resident > sum.shared ? s->resident - sum.shared : 0;
    s->kind = sum;
}

/* Of this thread: what looking costs must not seem more where the machine is busy. */
static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Whether the kernel lets us look into a process that is alive. */
static bool access_is_open(int pid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/pagemap", pid);
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    const bool open_to_us = fd >= 0 || (errno != EACCES && errno != EPERM);
    if (fd >= 0) close(fd);
    return open_to_us;
}

/* Which part of a process's blocks is resident. */
static void pages_look(plim__supervisor *s, plim__watched *w, plim__block *block, uint32_t n, bool exact)
{
    const uint64_t live = atomic_load(&w->slot->live_bytes);
    if (!n) {
        w->recorded = 0;
    } else if (plim__resident_fill(w->pid, block, n, exact ? 0 : GLANCE_PAGES)) {
        shares_take(s, w, block, n);
    } else if (!access_is_open(w->pid)) {
        s->pages_hidden = true;
        w->recorded = live < w->resident ? live : w->resident;
    }
}

static void names_look(plim__supervisor *s, const plim__watched *w, uint64_t thread_state, const plim__block *block, uint32_t n)
{
    plim__pyname found[PLIM__WATCH_NAMES];
    const uint32_t k = w->slot->python_version ? plim__pynames_find(found, PLIM__WATCH_NAMES, w->slot, thread_state, block, n) : 0;
    if (!k) return;
    s->named.process = (uint32_t)(w - s->process);
    s->named.n = k;
    memcpy(s->named.name, found, k * sizeof *found);
}

void plim__moment_look(plim__supervisor *s, bool exact, bool names, uint64_t thread_state, const plim__watched *asking)
{
    const double began = cpu_seconds();
    kinds_look(s);
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->ended || !w->slot) continue;
        plim__block *block;
        const uint32_t n = plim__moment_blocks(s, w, &block);
        pages_look(s, w, block, n, exact);
        /* Names of the process that asks, else of the one that holds most. */
        const bool most = w->pid == s->child || s->process[s->named.process].recorded < w->recorded;
        if (names && n && (asking ? w == asking : most)) names_look(s, w, asking ? thread_state : 0, block, n);
        plim__free(&s->alloc, block);
    }
    if (s->resident >= s->kept_peak_resident) {
        s->kept_peak_resident = s->resident;
        s->kept_at_peak = plim__moment_kept(s);
    }
    s->sampled_resident = s->resident;
    s->sampled_at = plim__watch_now(s);
    s->sample_cost = cpu_seconds() - began;
}

/* ----------------------------------------------------------------------------------------------------- rows */

static uint64_t in_memory(const plim__stack *k)
{
    return (uint64_t)((double)k->live * k->resident + 0.5);
}

void plim__moment_site(plim__supervisor *s, uint32_t stack, plim_watch_site *out)
{
    const plim__stack *k = &s->timeline.stack[stack];
    plim__places_resolve(s, &stack, 1);
    const plim__where *where = plim__place_of(s, stack);
    memset(out, 0, sizeof *out);
    if (where) {
        memcpy(out->frame, where->frame, sizeof out->frame);
        out->n_frames = where->n_frames;
        memcpy(out->label, where->label, sizeof out->label);
    }
    out->bytes = k->live;
    out->resident = in_memory(k);
    out->blocks = k->blocks;
    out->allocations = k->got;
    out->frees = k->freed;
    out->block_bytes = k->largest;
}

static bool row_same(const plim_watch_site *a, const plim_watch_site *b)
{
    if (strcmp(a->label, b->label) || (a->n_frames == 0) != (b->n_frames == 0)) return false;
    if (!a->n_frames) return true;
    const plim_watch_frame *f = &a->frame[0], *g = &b->frame[0];
    return f->line == g->line && !strcmp(f->file, g->file) && !strcmp(f->function, g->function);
}

static void row_add(plim_watch_site *row, const plim_watch_site *more)
{
    row->bytes += more->bytes;
    row->resident += more->resident;
    row->blocks += more->blocks;
    row->allocations += more->allocations;
    row->frees += more->frees;
    row->growth += more->growth;
    row->steady |= more->steady;
    if (more->block_bytes > row->block_bytes) row->block_bytes = more->block_bytes;
}

static int by_resident(const void *a, const void *b)
{
    const plim_watch_site *x = a, *y = b;
    if (x->resident != y->resident) return x->resident < y->resident ? 1 : -1;
    return (x->bytes < y->bytes) - (x->bytes > y->bytes);
}

/* The stacks with most in memory (or, of the dead, had at the last look). @return how many */
static uint32_t stacks_top(const plim__supervisor *s, uint32_t *top, uint32_t max)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->timeline.n_stacks; i++) {
        const plim__stack *k = &s->timeline.stack[i];
        if (!k->live) continue;
        if (n == max && in_memory(&s->timeline.stack[top[n - 1]]) >= in_memory(k)) continue;
        uint32_t at = n < max ? n++ : max - 1;
        for (; at && in_memory(&s->timeline.stack[top[at - 1]]) < in_memory(k); at--) top[at] = top[at - 1];
        top[at] = i;
    }
    return n;
}

/* Names go to the row that most of their memory comes from; a row keeps the name that reaches most of it. */
static void rows_name(plim__supervisor *s, plim_watch_site *row, uint32_t n_rows, const uint8_t *row_of)
{
    const plim__watched *w = s->named.n ? &s->process[s->named.process] : NULL;
    if (!w || !w->reader.stack) return;
    for (uint32_t i = 0; i < s->named.n; i++) {
        const plim__pyname *p = &s->named.name[i];
        if (p->site >= PLIM__REC_SITES || !w->reader.stack[p->site]) continue;
        const uint8_t at = row_of[w->reader.stack[p->site] - 1];
        if (at && at <= n_rows && !row[at - 1].name.name[0] && p->site_bytes * 4 >= row[at - 1].bytes) row[at - 1].name = p->name;
    }
}

/* Rows by line and operation, from the stacks that hold most. */
static void held_fill(plim__supervisor *s, plim_watch_report *r)
{
    uint32_t top[TOP_STACKS];
    const uint32_t n = stacks_top(s, top, TOP_STACKS);
    const uint32_t now_ms = (uint32_t)(r->seconds * 1e3);
    plim_watch_site *row = plim__new(&s->alloc, n ? n : 1, sizeof *row, NULL);
    uint8_t *row_of = plim__new(&s->alloc, s->timeline.n_stacks + 1, 1, NULL);
    plim__growth *growth = plim__new(&s->alloc, s->timeline.n_stacks + 1, sizeof *growth, NULL);
    uint32_t rows = 0;
    if (row && row_of && growth) {
        plim__places_resolve(s, top, n);
        plim__timeline_growth(&s->timeline, now_ms, growth);
        for (uint32_t i = 0; i < n; i++) {
            plim_watch_site one;
            plim__moment_site(s, top[i], &one);
            one.growth = growth[top[i]].per_second * s->timeline.stack[top[i]].resident;
            one.steady = growth[top[i]].steady;
            uint32_t at = 0;
            while (at < rows && !row_same(&row[at], &one)) at++;
            if (at == rows)
                row[rows++] = one;
            else
                row_add(&row[at], &one);
            row_of[top[i]] = (uint8_t)(at + 1);
        }
        rows_name(s, row, rows, row_of);
        qsort(row, rows, sizeof *row, by_resident);
    }
    r->n_held = rows < PLIM_WATCH_HELD ? rows : PLIM_WATCH_HELD;
    r->held_others = s->timeline.live;
    for (uint32_t i = 0; i < r->n_held; i++) {
        r->held[i] = row[i];
        r->held_others -= row[i].bytes < r->held_others ? row[i].bytes : r->held_others;
    }
    plim__free(&s->alloc, growth);
    plim__free(&s->alloc, row_of);
    plim__free(&s->alloc, row);
}

void plim__moment_line(plim__supervisor *s, uint32_t stack, char *to, size_t size)
{
    plim__places_resolve(s, &stack, 1);
    const plim__where *where = plim__place_of(s, stack);
    to[0] = 0;
    if (where) plim__place_line(where->frame, where->n_frames, where->label, to, size);
}

/* Where the peak was: the line that asked last before it, or, where that was the interpreter for its small objects, the line that held most. */
static void peak_line(plim__supervisor *s, char *to, size_t size)
{
    const plim__timeline *t = &s->timeline;
    to[0] = 0;
    if (t->peak_stack == UINT32_MAX) return;
    plim__moment_line(s, t->peak_stack, to, size);
    const plim__where *where = plim__place_of(s, t->peak_stack);
    if (!where || !where->arena) return;
    uint32_t most = UINT32_MAX;
    to[0] = 0;
    for (uint32_t i = 0; i < t->n_stacks; i++) {
        if (t->stack[i].live_at_peak * 10 < t->live_peak || (most != UINT32_MAX && t->stack[i].live_at_peak <= t->stack[most].live_at_peak)) continue;
        plim__places_resolve(s, &i, 1);
        where = plim__place_of(s, i);
        if (where && !where->arena) most = i;
    }
    if (most != UINT32_MAX) plim__moment_line(s, most, to, size);
}

/* ------------------------------------------------------------------------------------------------- coverage */

uint64_t plim__moment_kept(const plim__supervisor *s)
{
    /* What the allocator counts as free may have been given back to the kernel page by page: not more than what is resident and not recorded. */
    uint64_t kept = 0, recorded = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        if (s->process[i].ended && s->process[i].pid != s->child) continue;
        kept += s->process[i].kept;
        recorded += s->process[i].recorded;
    }
    const uint64_t anon = s->kind.anon > recorded ? s->kind.anon - recorded : 0;
    return kept < anon ? kept : anon;
}


static void part_add(char *text, size_t size, uint64_t bytes, uint64_t floor, const char *what)
{
    char b[32];
    const size_t n = strlen(text);
    if (bytes >= floor) snprintf(text + n, size - n, "%s%s %s", n ? ", " : "", plim_bytes_format(b, sizeof b, bytes), what);
}

static void coverage_fill(const plim__supervisor *s, plim_watch_report *r)
{
    char a[32], b[32], rest[300] = "";
    const uint64_t all = r->resident;
    if (!all) return;
    const uint64_t floor = all / 100 > 64 << 10 ? all / 100 : 64 << 10;
    const uint64_t anon = s->kind.anon > r->recorded ? s->kind.anon - r->recorded : 0, kept = r->kept < anon ? r->kept : anon;
    part_add(rest, sizeof rest, kept, floor, "free but kept by the allocator");
    part_add(rest, sizeof rest, anon - kept, floor, "in blocks below 256 KiB, stacks and relocations");
    part_add(rest, sizeof rest, r->resident_shared, floor, "shared memory");
    const unsigned percent = (unsigned)(r->recorded >= all ? 100 : r->recorded * 100 / all);
    snprintf(r->coverage, sizeof r->coverage, "recorded blocks explain %u%% (%s) of the %s resident%s%s", percent,
             plim_bytes_format(a, sizeof a, r->recorded), plim_bytes_format(b, sizeof b, all), rest[0] ? "; the rest: " : "", rest);
    if (r->resident_file < floor) return;
    const size_t n = strlen(r->coverage);
    snprintf(r->coverage + n, sizeof r->coverage - n, "; pages of files beside it, which are not charged: %s",
             plim_bytes_format(a, sizeof a, r->resident_file));
}

/* ------------------------------------------------------------------------------------------------ processes */

static void processes_fill(plim__supervisor *s, plim_watch_report *r)
{
    r->processes = s->processes_in_all;
    r->recorded = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const plim__watched *w = &s->process[i];
        if (!w->ended || w->pid == s->child) {
            r->recorded += w->recorded;
        }
        if (r->n_processes == PLIM_WATCH_PROCESSES || w->replaced) continue;
        plim_watch_process *p = &r->process[r->n_processes++];
        *p = (plim_watch_process){.pid = w->pid, .parent = w->parent, .attached = w->slot != NULL, .ended = w->ended, .resident = w->resident,
                                  .resident_peak = w->resident_peak, .recorded = w->recorded};
        if (w->slot) p->allocations = atomic_load(&w->slot->allocations), p->frees = atomic_load(&w->slot->frees);
        memcpy(p->program, w->program, sizeof p->program);
    }
}

__attribute__((format(printf, 2, 3))) static void note_add(plim_watch_report *r, const char *format, ...)
{
    if (r->n_notes == PLIM_WATCH_LINES) return;
    va_list list;
    va_start(list, format);
    vsnprintf(r->note[r->n_notes++], sizeof r->note[0], format, list);
    va_end(list);
}

/* What was not seen. */
static void notes_fill(const plim__supervisor *s, plim_watch_report *r)
{
    typedef unsigned long long number;
    number blocks = 0, sites = 0, not_unwound = 0;
    uint32_t python = 0;
    bool attached = false, bound = false, unanswered = false;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const plim__rec_process *p = s->process[i].slot;
        if (!p) continue;
        const uint32_t flags = atomic_load(&p->flags);
        attached |= s->process[i].pid == s->child && !s->process[i].replaced;
        unanswered |= flags & PLIM__REC_UNANSWERED;
        blocks += atomic_load(&p->lost_blocks);
        sites += atomic_load(&p->lost_sites);
        not_unwound += atomic_load(&p->not_unwound);
        bound |= flags & PLIM__REC_DEEPBIND;
        if (flags & PLIM__REC_PYTHON_MISMATCH) python = p->python_version;
    }
    if (!attached)
        note_add(r, "the program could not be recorded from inside%s%s: it was followed through /proc alone, and nothing of it can be refused",
                 s->not_preloadable[0] ? ", for " : "", s->not_preloadable);
    if (blocks) note_add(r, "%llu block%s not recorded: there was no room for more", blocks, blocks == 1 ? " was" : "s were");
    if (sites) note_add(r, "%llu request%s from stacks for which there was no room", sites, sites == 1 ? " came" : "s came");
    if (python) note_add(r, "Python %u.%u keeps its frames where they are not expected: no lines of Python", python >> 24, python >> 16 & 255);
    if (not_unwound)
        note_add(r, "%llu native stack%s not unwound, for it would have slowed the program down", not_unwound, not_unwound == 1 ? " was" : "s were");
    if (bound) note_add(r, "a library was to be bound past the recording (RTLD_DEEPBIND); that was not done");
    if (unanswered)
        note_add(r, "a request got no answer for %d s, and was made all the same: the budget was not kept for that long", PLIM__REC_PATIENCE_MS / 1000);
    if (s->pages_hidden)
        note_add(r, "the kernel does not let us look at the program's pages: requested bytes are taken for resident ones, and no names are known");
    if (s->timeline.lost) note_add(r, "%llu events came faster than they could be read: replayed peaks may be off", (number)s->timeline.lost);
    if (s->overdrawn)
        note_add(r, "%llu request%s above the budget let pass: of libraries that end the program when they are refused", (number)s->overdrawn,
                 s->overdrawn == 1 ? "" : "s");
}

static void growing_fill(plim_watch_report *r)
{
    const plim_watch_site *most = NULL;
    for (uint32_t i = 0; i < r->n_held; i++)
        if (!most || r->held[i].growth > most->growth) most = &r->held[i];
    /* What a start brings in is no news: only what is a part of the whole. */
    if (!most || most->growth < (double)MIB || most->resident * 20 < r->resident || most->bytes < 16 * MIB) return;
    char line[160], a[32];
    plim__place_line(most->frame, most->n_frames, most->label, line, sizeof line);
    snprintf(r->growing, sizeof r->growing, "+%s/s at %s", plim_bytes_format(a, sizeof a, (uint64_t)most->growth), line);
}

void plim__moment_fill(plim__supervisor *s, plim_watch_report *r, const plim__watched *asking, bool look)
{
    memset(r, 0, sizeof *r);
    r->seconds = plim__watch_now(s);
    r->pid = asking ? asking->pid : s->child;
    r->budget = s->how->memory;
    r->refusals = s->refusals;
    if (look && asking) s->named.n = 0; /* names of another process would not help this one */
    if (look) plim__moment_look(s, true, true, asking && asking->slot ? asking->slot->ask.thread_state : 0, asking);
    r->live = s->timeline.live;
    r->resident = s->resident;
    r->resident_file = s->kind.file;
    r->resident_shared = s->kind.shared;
    r->peak = s->resident_peak;
    peak_line(s, r->peak_at, sizeof r->peak_at);
    processes_fill(s, r);
    r->kept = plim__moment_kept(s);
    held_fill(s, r);
    growing_fill(r);
    coverage_fill(s, r);
    notes_fill(s, r);
}
