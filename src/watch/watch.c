/* The supervisor: starts the program, looks at it every 10 ms, answers its questions, and outlives it.
 *
 *   every 10 ms     new processes, events, what is resident; what the budget leaves is published for the processes to read (20 ms without a budget)
 *   at a question   at once: the process waits for the answer (a request that might breach the budget) or for the acknowledgement (one that the
 *                   system refused)
 *   every 100 ms    a point of the time line
 *   every second,   which part of the blocks is resident and under which names, so that they are known when the program is killed; more
 *   or at +5 %      seldom where that takes long
 *
 * The decision on a request
 *   charge = resident now, of all processes (divided among those that share pages, where there are several)
 *          + what was asked for in the last second and is not resident yet
 *          + the request
 * Above the budget the allocator's free memory is given back first, and the request looked at again; then it is refused, unless it is below 1 MiB and
 * the budget overdrawn by less than a 32nd, or comes from a library that ends the program when it gets no memory. Blocks that lie untouched for more
 * than a second are not charged: they may never be touched.
 *
 * Signals reach a process and not a handle, so this is the one file of the library with a global: whom to pass them on to. One plim_watch at a time. */
#include "watch/diagnose.h"
#include "watch/resident.h"
#include "watch/stack_place.h"
#include "watch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

enum {
    LOOK_MS = 10,        /* with a budget to keep */
    LOOK_IDLE_MS = 20,   /* without */
    HISTORY = 1 << 19,   /* changes kept */
    YOUNG_MS = 1000,
    STOP_SECONDS = 5,
    SAMPLE_REST = 50,    /* looking at pages and names takes at most one part in so many of the time, */
    LEAP_REST = 4,       /* and this after a leap */
};

/* ------------------------------------------------------------------------------------------------- signals */

static volatile sig_atomic_t signal_child;

static void signal_pass(int number)
{
    const int error = errno;
    if (signal_child > 0 && number != SIGCHLD) kill(signal_child, number);
    errno = error;
}

enum { PASSED = 5, IGNORED = 2 };
static const int passed[PASSED] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}; /* SIGCHLD only ends the sleep */
static const int ignored[IGNORED] = {SIGINT, SIGQUIT};                           /* the terminal sends them to the program, too */

static void signals_take(struct sigaction *before, int child)
{
    signal_child = child;
    struct sigaction act = {.sa_handler = signal_pass};
    sigemptyset(&act.sa_mask);
    for (int i = 0; i < PASSED; i++) sigaction(passed[i], &act, &before[i]);
    act.sa_handler = SIG_IGN;
    for (int i = 0; i < IGNORED; i++) sigaction(ignored[i], &act, &before[PASSED + i]);
}

static void signals_give_back(const struct sigaction *before)
{
    for (int i = 0; i < PASSED; i++) sigaction(passed[i], &before[i], NULL);
    for (int i = 0; i < IGNORED; i++) sigaction(ignored[i], &before[PASSED + i], NULL);
    signal_child = 0;
}

/* ---------------------------------------------------------------------------------------------------- time */

double plim__watch_now(const plim__supervisor *s)
{
    return (double)(s->os->clock_ns(s->os->self) - s->header->start_ns) / 1e9;
}

static void doorbell_wait(plim__supervisor *s, uint32_t seen)
{
    const struct timespec ts = {.tv_nsec = (s->how->memory ? LOOK_MS : LOOK_IDLE_MS) * 1000000L};
    syscall(SYS_futex, &s->header->doorbell, FUTEX_WAIT, seen, &ts, NULL, 0);
}

/* ------------------------------------------------------------------------------------------------ processes */

static plim__watched *process_find(plim__supervisor *s, int pid)
{
    for (uint32_t i = s->n_processes; i-- > 0;)
        if (s->process[i].pid == pid && !s->process[i].ended) return &s->process[i];
    return NULL;
}

/* An entry of a process that ended and whose slot was given back. Its stacks stay, without a process. */
static plim__watched *process_reuse(plim__supervisor *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (!w->ended || w->slot || w->pid == s->child) continue;
        for (uint32_t k = 0; k < s->timeline.n_stacks; k++)
            if (s->timeline.stack[k].process == i) s->timeline.stack[k].process = UINT32_MAX;
        if (s->named.process == i) s->named.n = 0;
        return w;
    }
    return NULL;
}

/* Pids come again: an entry of an ended process stays as long as there is room. @return NULL when there is none: it is counted only */
static plim__watched *process_add(plim__supervisor *s, int pid, int parent)
{
    plim__watched *w = NULL;
    s->processes_in_all++;
    if (s->n_processes >= PLIM__WATCH_PROCESSES)
        w = process_reuse(s);
    else if (!plim__grow(&s->alloc, (void **)&s->process, &s->cap_processes, s->n_processes + 1, sizeof *s->process, NULL))
        w = &s->process[s->n_processes++];
    if (w) *w = (plim__watched){.pid = pid, .parent = parent};
    return w;
}

static void slot_attach(plim__supervisor *s, uint32_t i, int pid)
{
    const plim__rec_process *slot = (const void *)(s->region + s->header->slot_offset + i * s->header->slot_bytes);
    if (!atomic_load_explicit(&slot->ready, memory_order_acquire)) return;
    for (uint32_t k = 0; k < s->n_processes; k++)
        if (s->process[k].slot == slot) return; /* known, ended or not */
    plim__watched *w = process_find(s, pid);
    if (w && w->slot) { /* it has executed another program: what it had is gone */
        plim__timeline_end(&s->timeline, &w->reader, (uint32_t)(plim__watch_now(s) * 1e3), NULL);
        w->ended = w->replaced = true;
        w->resident = 0;
        s->processes_in_all--;
        w = NULL;
    }
    if (!w) w = process_add(s, pid, slot->parent);
    if (!w || plim__reader_init(&w->reader, (uint32_t)(w - s->process), &s->alloc, NULL)) return;
    w->slot = slot;
    w->slot_index = i;
    w->parent = slot->parent;
    snprintf(w->program, sizeof w->program, "%.*s", (int)sizeof w->program - 1, slot->program);
    plim__symbols_learn(s->symbols, pid);
}

/* Slots of processes that have ended are given back when a quarter is taken. Their stacks can no longer be resolved then. */
static void slots_reclaim(plim__supervisor *s)
{
    uint32_t taken = 0;
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) taken += atomic_load(&s->header->slot[i]) != 0;
    if (taken < PLIM__REC_SLOTS / 4) return;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (!w->ended || !w->slot || w->pid == s->child) continue;
        const uint64_t at = s->header->slot_offset + w->slot_index * s->header->slot_bytes;
        w->slot = NULL;
        plim__reader_free(&w->reader, &s->alloc);
        if (!fallocate(s->memfd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, (off_t)at, (off_t)s->header->slot_bytes))
            atomic_store(&s->header->slot[w->slot_index], 0);
    }
}

static void slots_look(plim__supervisor *s)
{
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) {
        const int pid = atomic_load(&s->header->slot[i]);
        if (pid) slot_attach(s, i, pid);
    }
}

/* Processes that carry no recording library, or none yet. */
static void tree_look(plim__supervisor *s)
{
    int pid[PLIM__WATCH_PROCESSES], parent[PLIM__WATCH_PROCESSES];
    const uint32_t n = plim__peer_tree(s->child, pid, parent, PLIM__WATCH_PROCESSES);
    for (uint32_t i = 0; i < n; i++)
        if (!process_find(s, pid[i])) process_add(s, pid[i], parent[i]);
}

static void process_end(plim__supervisor *s, plim__watched *w)
{
    w->ended = true;
    if (w->slot) plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    if (w->pid == s->child) return; /* its blocks are what the last report is about */
    if (w->slot) plim__timeline_end(&s->timeline, &w->reader, (uint32_t)(plim__watch_now(s) * 1e3), NULL);
    w->resident = 0;
}

/* ------------------------------------------------------------------------------------------------- looking */

static void heap_look(plim__watched *w)
{
    if (w->slot && atomic_load(&w->slot->heap.ns)) w->kept = w->slot->heap.kept;
}

/* What is charged for a process: its share of shared pages is looked at seldom, and what has come since is its own. */
static uint64_t share_now(const plim__watched *w)
{
    if (!w->share || w->share >= w->share_of) return w->resident;
    const uint64_t others = w->share_of - w->share;
    return w->resident > others ? w->resident - others : 0;
}

static void resident_look(plim__supervisor *s)
{
    uint64_t sum = 0;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->ended) continue;
        const uint64_t now = plim__peer_resident(w->pid);
        if (!now) {
            if (w->pid != s->child && kill(w->pid, 0) && errno == ESRCH) process_end(s, w);
            continue;
        }
        w->resident = now;
        heap_look(w);
        if (now > w->resident_peak) w->resident_peak = now;
        sum += share_now(w);
        alive++;
    }
    if (!alive) return; /* the program is ending: what was there stays */
    s->resident = sum;
    if (sum > s->resident_peak) s->resident_peak = sum;
}

/* What was asked for in the last second and is still alive: a bound of what may yet become resident, from the tables alone. */
static uint64_t young_at_most(const plim__supervisor *s)
{
    const uint32_t now = (uint32_t)(plim__watch_now(s) * 1e3);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        const plim__watched *w = &s->process[i];
        for (uint32_t k = 0; w->slot && !w->ended && k < PLIM__REC_SHARDS; k++) {
            const plim__rec_shard *shard = &w->slot->shard[k];
            const uint32_t n = atomic_load_explicit(&shard->count, memory_order_acquire);
            for (uint32_t b = 0; b < n && b < PLIM__REC_SHARD_BLOCKS; b++)
                if (shard->block[b].ms + YOUNG_MS >= now) sum += shard->block[b].bytes;
        }
    }
    return sum;
}

/* The same, less what is resident of it already, page by page. */
static uint64_t young_bytes(plim__supervisor *s)
{
    const uint32_t now = (uint32_t)(plim__watch_now(s) * 1e3);
    uint64_t sum = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        plim__block *block;
        if (w->ended) continue;
        const uint32_t n = plim__moment_blocks(s, w, &block);
        uint32_t young = 0;
        for (uint32_t k = 0; k < n; k++)
            if (block[k].ms + YOUNG_MS >= now) block[young++] = block[k];
        if (young && plim__resident_fill(w->pid, block, young, 0))
            for (uint32_t k = 0; k < young; k++) sum += block[k].bytes > block[k].resident ? block[k].bytes - block[k].resident : 0;
        plim__free(&s->alloc, block);
    }
    return sum;
}

/* The numbers that processes compare a request with: see plim__rec_header for why they are read in this order. */
static void budget_publish(plim__supervisor *s)
{
    if (!s->how->memory) {
        resident_look(s);
        return;
    }
    const uint32_t ms = (uint32_t)(plim__watch_now(s) * 1e3);
    const uint64_t landed = atomic_load(&s->header->landed);
    uint64_t young = young_at_most(s);
    const double now = plim__watch_now(s);
    if (young && s->resident + young > s->how->memory / 5 * 4 && now >= s->young_next) { /* near: it is worth to look closely */
        young = young_bytes(s);
        s->young_next = now + 10 * (plim__watch_now(s) - now);
    }
    resident_look(s);
    atomic_store(&s->header->resident, s->resident + young);
    atomic_store(&s->header->landed_seen, landed);
    atomic_store(&s->header->seen_ms, ms);
}

static void events_drain(plim__supervisor *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->slot && (!w->ended || w->pid == s->child)) plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    }
}

static uint32_t alive_count(const plim__supervisor *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) n += !s->process[i].ended;
    return n;
}

/* Shares of pages that several processes have: costly, so only where there are several. */
static void shares_look(plim__supervisor *s)
{
    const bool several = alive_count(s) > 1;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->ended) continue;
        w->share_of = several ? plim__peer_resident(w->pid) : 0;
        w->share = several ? plim__peer_share(w->pid) : 0;
    }
}

/* Residency and names, for the time when they cannot be read any more. */
static void sample_look(plim__supervisor *s)
{
    const double now = plim__watch_now(s), since = now - s->sampled_at;
    const bool grown = s->resident > s->sampled_resident + s->sampled_resident / 20 + 4 * MIB;
    const uint64_t moved = s->resident > s->sampled_resident ? s->resident - s->sampled_resident : s->sampled_resident - s->resident;
    const bool still = moved * 50 <= s->sampled_resident;
    /* By a quarter it cannot grow often: such looks may come soon after one another. */
    const bool leapt = s->resident > s->sampled_resident + s->sampled_resident / 4 + 4 * MIB;
    if (since < (leapt ? LEAP_REST : SAMPLE_REST) * s->sample_cost || since < 0.03 || !(grown || since >= (still ? 10 : 1))) return;
    shares_look(s);
    plim__moment_look(s, false, true, 0, NULL);
}

/* ------------------------------------------------------------------------------------------------- reporting */

/* A line is reported once: stacks of the same line that differ further out say the same. */
static bool worth_reporting(plim__supervisor *s, uint32_t stack)
{
    char line[256];
    uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
    plim__moment_line(s, stack, line, sizeof line);
    for (const char *p = line; *p; p++) hash = (hash ^ (unsigned char)*p) * UINT64_C(1099511628211);
    for (uint32_t i = 0; i < s->reports; i++)
        if (s->reported_line[i] == hash) return false;
    if (s->reports == PLIM__WATCH_REPORTS) return false;
    s->reported_line[s->reports++] = hash;
    return true;
}

static void thread_name(const plim__watched *w, int thread, char *to, size_t size)
{
    char name[64] = "", file[64];
    if (thread == w->pid && w->slot->python_version) {
        snprintf(to, size, "MainThread");
        return;
    }
    snprintf(file, sizeof file, "task/%d/comm", thread);
    plim__peer_file(w->pid, file, name, sizeof name);
    name[strcspn(name, "\n")] = 0;
    snprintf(to, size, "%.*s", (int)size - 1, thread == w->pid ? "main" : name[0] ? name : "?");
}

static void limits_take(plim__supervisor *s, plim_watch_report *r, const plim__refusal *l, bool refused)
{
    if (s->how->memory) {
        plim_watch_limit *b = &r->limit[r->n_limits++];
        *b = (plim_watch_limit){.name = "budget", .source = "--memory", .limit = s->how->memory, .used = r->resident, .refuses = refused};
    }
    for (uint32_t i = 0; i < l->n && r->n_limits < PLIM_WATCH_LIMITS; i++) r->limit[r->n_limits++] = l->limit[i];
}

static void request_report(plim__supervisor *s, plim__watched *w, plim_watch_event event)
{
    static const char *const call[] = {"malloc", "calloc", "realloc", "memalign", "mmap", "mremap"};
    const plim__rec_ask *ask = &w->slot->ask;
    const uint32_t stack = plim__timeline_stack(&s->timeline, &w->reader, ask->site);
    if (stack == UINT32_MAX || !worth_reporting(s, stack)) return;
    plim_watch_report *r = plim__new(&s->alloc, 1, sizeof *r, NULL);
    plim__refusal *limits = plim__new(&s->alloc, 1, sizeof *limits, NULL);
    if (r && limits && s->how->report) {
        plim__refusal_find(limits, s->os, w->pid, ask->bytes);
        plim__moment_fill(s, r, w, true);
        r->event = event;
        r->seconds = (double)ask->ns / 1e9;
        r->asked = ask->bytes;
        snprintf(r->call, sizeof r->call, "%s", call[ask->call < 6 ? ask->call : 0]);
        thread_name(w, ask->thread, r->thread, sizeof r->thread);
        r->gil_released = ask->thread_state && !ask->gil_held;
        plim__moment_site(s, stack, &r->asking);
        if (event == PLIM_WATCH_REFUSED) r->pending = s->pending;
        limits_take(s, r, limits, event == PLIM_WATCH_REFUSED);
        plim__diagnose_request(s, r, w, limits);
        s->how->report(s->how->ctx, r);
    }
    plim__free(&s->alloc, limits);
    plim__free(&s->alloc, r);
}

/* ------------------------------------------------------------------------------------------------- questions */

/* Libraries that print a line and end the program when they get no memory; and the interpreter's own arenas, for it must be able to raise the
 * exception. */
static bool must_not_refuse(plim__supervisor *s, plim__watched *w)
{
    static const char *const name[] = {"libopenblas", "libblas", "libblis", "libmkl", "libgomp", "libiomp", "libomp", "libtbb", "ld-linux", "ld.so"};
    const uint32_t stack = plim__timeline_stack(&s->timeline, &w->reader, w->slot->ask.site);
    if (stack == UINT32_MAX) return false;
    plim__places_resolve(s, &stack, 1);
    const plim__where *where = plim__place_of(s, stack);
    if (!where) return false;
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!strncmp(where->caller, name[i], strlen(name[i]))) return true;
    return w->slot->ask.call == PLIM__REC_MMAP && (!strncmp(where->caller, "python", 6) || !strncmp(where->caller, "libpython", 9));
}

static void program_stop(plim__supervisor *s)
{
    s->stopped = true;
    s->stop_at = plim__watch_now(s) + STOP_SECONDS;
    kill(s->child, SIGTERM);
}

/* Bytes that were claimed and are in no table yet: another thread's or process's request between its grant and its block. */
static uint64_t in_flight(const plim__supervisor *s)
{
    const uint64_t landed = atomic_load(&s->header->landed), claimed = atomic_load(&s->header->claimed);
    return (int64_t)(claimed - landed) > 0 ? claimed - landed : 0;
}

static uint64_t charge_now(plim__supervisor *s, const plim__rec_ask *ask)
{
    const uint64_t more = ask->bytes > ask->old_bytes ? ask->bytes - ask->old_bytes : 0;
    const uint64_t flying = in_flight(s), young = young_bytes(s);
    resident_look(s);
    s->pending = flying + young;
    return s->resident + s->pending + more;
}

/* Resident memory that glibc could give back. */
static uint64_t could_trim(plim__supervisor *s, const plim__watched *w)
{
    if (!(atomic_load(&w->slot->flags) & PLIM__REC_GLIBC) || w->kept < MIB) return 0;
    plim__moment_look(s, false, false, 0, NULL);
    const uint64_t kept = plim__moment_kept(s);
    return kept < w->kept ? kept : w->kept;
}

static plim__rec_answer may_i(plim__supervisor *s, plim__watched *w)
{
    const plim__rec_ask *ask = &w->slot->ask;
    const uint64_t budget = s->how->memory;
    uint64_t charge = charge_now(s, ask);
    if (charge > budget && alive_count(s) > 1) { /* shared pages count once */
        shares_look(s);
        charge = charge_now(s, ask);
    }
    if (charge <= budget) return PLIM__REC_GO_ON;
    if (!ask->trimmed && could_trim(s, w) >= charge - budget) return PLIM__REC_TRIM;
    if (ask->bytes < MIB && charge <= budget + budget / 32) return PLIM__REC_GO_ON;
    if (must_not_refuse(s, w)) {
        s->overdrawn++;
        return PLIM__REC_GO_ON;
    }
    if (s->how->on_breach != PLIM_WATCH_REPORT) s->refusals++;
    request_report(s, w, PLIM_WATCH_REFUSED);
    if (s->how->on_breach == PLIM_WATCH_REPORT) return PLIM__REC_GO_ON;
    if (s->how->on_breach == PLIM_WATCH_STOP && !s->stopped) program_stop(s);
    return PLIM__REC_REFUSE;
}

static void question_answer(plim__supervisor *s, plim__watched *w)
{
    plim__rec_ask *ask = (plim__rec_ask *)(uintptr_t)&w->slot->ask; /* the two fields that are ours to write */
    const uint32_t asked = atomic_load_explicit(&ask->asked, memory_order_acquire);
    if (asked == w->asked) return;
    plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    heap_look(w);
    plim__rec_answer answer = PLIM__REC_GO_ON;
    if (ask->kind == PLIM__REC_MAY_I) {
        answer = may_i(s, w);
        budget_publish(s);
    } else {
        resident_look(s);
        request_report(s, w, PLIM_WATCH_FAILED);
    }
    ask->answer = answer;
    w->asked = asked;
    atomic_store_explicit(&ask->answered, asked, memory_order_release);
    syscall(SYS_futex, &ask->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
}

static void questions_answer(plim__supervisor *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (s->process[i].slot && !s->process[i].ended) question_answer(s, &s->process[i]);
}

/* --------------------------------------------------------------------------------------- telling how it goes */

static plim_watch_sample sample_now(const plim__supervisor *s)
{
    return (plim_watch_sample){
        .seconds = plim__watch_now(s), .resident = s->resident, .live = s->timeline.live, .kept = plim__moment_kept(s), .processes = alive_count(s)};
}

static void live_tell(plim__supervisor *s)
{
    plim_watch_report *r = plim__new(&s->alloc, 1, sizeof *r, NULL);
    plim_watch_live *live = plim__new(&s->alloc, 1, sizeof *live, NULL);
    if (r && live) {
        plim__moment_fill(s, r, NULL, false);
        plim_limits limits;
        live->now = sample_now(s);
        live->budget = s->how->memory;
        live->limit = s->how->memory;
        if (!live->limit && !plim__limits_read(&limits, s->os, NULL)) live->limit = s->resident + limits.available;
        const uint64_t n = s->trends < 50 ? s->trends : 50;
        const uint64_t then = n > 1 ? s->trend[(s->trends - n) % 50] : s->resident;
        live->growth = n > 1 ? ((double)s->resident - (double)then) / ((double)(n - 1) * 0.1) : 0;
        live->seconds_left = live->growth > 1e5 && live->limit > s->resident ? (double)(live->limit - s->resident) / live->growth : -1;
        live->refusals = s->refusals;
        live->n_sites = r->n_held < 8 ? r->n_held : 8;
        memcpy(live->site, r->held, live->n_sites * sizeof *live->site);
        s->how->live(s->how->ctx, live);
    }
    plim__free(&s->alloc, live);
    plim__free(&s->alloc, r);
}

static void over_report(plim__supervisor *s)
{
    const uint64_t budget = s->how->memory;
    if (!budget || s->over_reported || s->resident <= budget + budget / 20) return;
    s->over_reported = true;
    plim_watch_report *r = plim__new(&s->alloc, 1, sizeof *r, NULL);
    if (r && s->how->report) {
        plim__moment_fill(s, r, NULL, true);
        r->event = PLIM_WATCH_OVER;
        plim__diagnose_over(s, r);
        s->how->report(s->how->ctx, r);
    }
    plim__free(&s->alloc, r);
    if (s->how->on_breach == PLIM_WATCH_STOP && !s->stopped) program_stop(s);
}

/* Its control groups and what they count, which are gone when it is killed: more often while it grows. */
static void groups_look(plim__supervisor *s, double seconds)
{
    const bool grown = s->resident > s->groups_resident + s->groups_resident / 50;
    if (!grown && seconds < s->groups_next) return;
    s->groups_next = seconds + 1;
    s->groups_resident = s->resident;
    plim__killer seen = s->killer;
    plim__killer_look(&seen, s->os, s->child);
    /* A process that is ending is in the root's group. It has given up its memory before that, so while it has some the group was its own. */
    if (plim__peer_resident(s->child)) s->killer = seen;
}

static void tell(plim__supervisor *s, double seconds)
{
    if (seconds >= s->tell_next) {
        s->tell_next = seconds + 0.1;
        s->trend[s->trends++ % 50] = s->resident;
        const plim_watch_sample now = sample_now(s);
        if (s->how->sample) s->how->sample(s->how->ctx, &now);
        groups_look(s, seconds);
    }
    if (s->how->live && seconds >= s->live_next) {
        s->live_next = seconds + 0.25;
        live_tell(s);
    }
    over_report(s);
}

/* ------------------------------------------------------------------------------------------------- the loop */

static void end_report(plim__supervisor *s, int wait_status, const struct rusage *usage)
{
    plim__killed killed = {0};
    plim__watched *w = process_find(s, s->child);
    events_drain(s);
    slots_look(s); /* a program that was over before the first look */
    if (!w) w = process_find(s, s->child);
    if (!w) w = process_add(s, s->child, getpid());
    if (w) {
        process_end(s, w);
        heap_look(w);
        const uint64_t peak = (uint64_t)usage->ru_maxrss * 1024;
        if (peak > w->resident_peak && (peak > s->own_peak || !w->resident_peak)) w->resident_peak = peak;
        if (w->resident_peak > s->resident_peak) s->resident_peak = w->resident_peak;
    }
    const bool by_signal = WIFSIGNALED(wait_status);
    if (by_signal && WTERMSIG(wait_status) == SIGKILL)
        plim__killer_find(&killed, &s->killer, s->os);
    else
        killed.cause = PLIM_WATCH_SIGNAL;
    plim_watch_report *r = plim__new(&s->alloc, 1, sizeof *r, NULL);
    if (r && s->how->report) {
        plim__moment_fill(s, r, NULL, false);
        r->event = by_signal ? PLIM_WATCH_KILLED : PLIM_WATCH_ENDED;
        r->wait_status = wait_status;
        plim__diagnose_end(s, r, by_signal ? &killed : NULL);
        s->how->report(s->how->ctx, r);
    }
    plim__free(&s->alloc, r);
}

static int loop(plim__supervisor *s)
{
    int wait_status = 0;
    struct rusage usage = {0};
    double next = 0, tree_next = 0;
    for (;;) {
        const uint32_t seen = atomic_load(&s->header->doorbell);
        slots_look(s);
        questions_answer(s);
        events_drain(s);
        const double now = plim__watch_now(s);
        if (now >= next) {
            next = now + LOOK_MS / 1e3;
            if (now >= tree_next) {
                tree_next = now + 1;
                tree_look(s);
            }
            budget_publish(s);
            slots_reclaim(s);
            tell(s, now);
            sample_look(s);
            if (s->stop_at > 0 && now > s->stop_at) kill(s->child, SIGKILL);
        }
        const int ended = wait4(s->child, &wait_status, WNOHANG, &usage);
        if (ended == s->child || (ended < 0 && errno == ECHILD)) break;
        doorbell_wait(s, seen);
    }
    end_report(s, wait_status, &usage);
    return wait_status;
}

static void supervisor_free(plim__supervisor *s)
{
    plim__places_free(s);
    for (uint32_t i = 0; i < s->n_processes; i++) plim__reader_free(&s->process[i].reader, &s->alloc);
    plim__free(&s->alloc, s->process);
    plim__timeline_free(&s->timeline);
    plim__symbols_free(&s->symbols);
    plim__launch_end(s);
    const plim__alloc alloc = s->alloc;
    plim__free(&alloc, s);
}

plim_status plim_watch(int *wait_status, const plim_watch_options *how, plim_error *err)
{
    PLIM_FAIL_IF(!how->argv || !how->argv[0], err, PLIM_E_INVALID, "no program to watch");
    const plim_settings set = plim_settings_default();
    const plim__alloc alloc = plim__alloc_from(&set);
    plim__supervisor *s = plim__new(&alloc, 1, sizeof *s, err);
    if (!s) return PLIM_E_NOMEM;
    struct sigaction before[PASSED + IGNORED];
    s->how = how;
    s->os = &plim__os_linux;
    s->alloc = alloc;
    s->memfd = -1;
    plim__timeline_init(&s->timeline, &alloc, HISTORY);
    plim_status status = plim__symbols_new(&s->symbols, err);
    if (!status) status = plim__launch(s, err);
    if (!status) {
        signals_take(before, s->child);
        plim__killer_look(&s->killer, s->os, s->child);
        *wait_status = loop(s);
        signals_give_back(before);
    }
    supervisor_free(s);
    return status;
}
