/* The supervisor: starts the program, looks at it every 10 ms, answers its questions, and outlives it.
 *
 *   every 10 ms     new processes, events, what is resident; what the budget leaves is published for the processes to read (20 ms without a budget)
 *   at a question   at once: the process waits for the answer (a request that might breach the budget) or for the acknowledgement (one that the
 *                   system refused)
 *   every 100 ms    a point of the time line
 *   every second,   which part of the blocks is resident and under which names, so that they are known when the program is killed; more
 *   or at +5 %      seldom where that takes long
 *
 * Signals reach a process and not a handle, so this is the one file of the library with a global: whom to pass them on to. One plim_watch at a
 * time. */
#include "watch/diagnose.h"
#include "watch/stack_place.h"
#include "watch/supervisor.h"
#include "watch/uncovered.h"

#include <errno.h>
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

enum { PASSED = 5, IGNORED = 3 };
static const int passed[PASSED] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGCHLD}; /* SIGCHLD only ends the sleep */
/* The terminal sends the first two to the program, too. Whoever reads our reports may go; the program is watched on. */
static const int ignored[IGNORED] = {SIGINT, SIGQUIT, SIGPIPE};

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

/* ------------------------------------------------------------------------------------------------- looking */

static void events_drain(plim__supervisor *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->slot && (!w->ended || w->pid == s->child)) plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
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
    plim__tree_resident_exact(s);
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

static void program_stop(plim__supervisor *s)
{
    s->stopped = true;
    s->stop_at = plim__watch_now(s) + STOP_SECONDS;
    kill(s->child, SIGTERM);
}

static void refused_remember(plim__supervisor *s, plim__watched *w, uint64_t charge)
{
    const plim__rec_ask *ask = &w->slot->ask;
    const uint32_t stack = plim__timeline_stack(&s->timeline, &w->reader, ask->site);
    s->refused_last = (plim__refused_last){.seconds = plim__watch_now(s), .bytes = ask->bytes, .charge = charge, .pid = w->pid};
    if (stack != UINT32_MAX) plim__moment_line(s, stack, s->refused_last.line, sizeof s->refused_last.line);
}

static plim__rec_answer may_i(plim__supervisor *s, plim__watched *w)
{
    switch (plim__budget_judge(s, w)) {
    case PLIM__BUDGET_FITS: return PLIM__REC_GO_ON;
    case PLIM__BUDGET_TRIM: return PLIM__REC_TRIM;
    case PLIM__BUDGET_LET_PASS: s->overdrawn++; return PLIM__REC_GO_ON;
    case PLIM__BUDGET_BREACH: break;
    }
    if (s->how->on_breach != PLIM_WATCH_REPORT) s->refusals++;
    request_report(s, w, PLIM_WATCH_REFUSED);
    if (s->how->on_breach == PLIM_WATCH_REPORT) return PLIM__REC_GO_ON;
    refused_remember(s, w, s->charge);
    if (s->how->on_breach == PLIM_WATCH_STOP && !s->stopped) program_stop(s);
    return PLIM__REC_REFUSE;
}

static void question_answer(plim__supervisor *s, plim__watched *w)
{
    plim__rec_ask *ask = (plim__rec_ask *)(uintptr_t)&w->slot->ask; /* the two fields that are ours to write */
    const uint32_t asked = atomic_load_explicit(&ask->asked, memory_order_acquire);
    if (asked == w->asked) return;
    plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    plim__tree_heap(w);
    plim__rec_answer answer = PLIM__REC_GO_ON;
    if (ask->kind == PLIM__REC_MAY_I) {
        answer = may_i(s, w);
        plim__budget_publish(s);
    } else {
        plim__tree_resident(s);
        request_report(s, w, PLIM_WATCH_FAILED);
        refused_remember(s, w, 0);
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
    return (plim_watch_sample){.seconds = plim__watch_now(s),
                               .resident = s->resident,
                               .live = s->timeline.live,
                               .kept = plim__moment_kept(s),
                               .processes = plim__tree_alive(s)};
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
    plim__tree_resident_exact(s);
    if (s->resident <= budget + budget / 20) return;
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

static void uncovered_report(plim__supervisor *s, double now)
{
    const plim__watched *w = s->how->memory ? plim__uncovered_next(s, now) : NULL;
    plim_watch_report *r = w ? plim__new(&s->alloc, 1, sizeof *r, NULL) : NULL;
    if (r && s->how->report) {
        plim__moment_fill(s, r, w, false);
        r->event = PLIM_WATCH_UNCOVERED;
        plim__diagnose_uncovered(r, w);
        s->how->report(s->how->ctx, r);
    }
    plim__free(&s->alloc, r);
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
    if (plim__peer_resident(s->child, NULL)) s->killer = seen;
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
    uncovered_report(s, seconds);
    over_report(s);
}

/* ------------------------------------------------------------------------------------------------- the loop */

static void end_report(plim__supervisor *s, int wait_status, const struct rusage *usage)
{
    plim__killed killed = {0};
    plim__watched *w = plim__tree_find(s, s->child);
    events_drain(s);
    plim__tree_slots(s); /* a program that was over before the first look */
    if (!w) w = plim__tree_find(s, s->child);
    if (!w) w = plim__tree_add(s, s->child, getpid());
    if (w) {
        plim__tree_end(s, w);
        plim__tree_heap(w);
        const uint64_t peak = (uint64_t)usage->ru_maxrss * 1024;
        if (peak > s->own_peak || !w->resident_peak) plim__moment_high_water(w, peak);
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

/* Who runs on, without a budget. Some only take a moment longer to end. */
static void survivors_look(plim__supervisor *s)
{
    enum { TRIES = 10 };
    const struct timespec moment = {.tv_nsec = 20 * 1000000L};
    for (int i = 0; s->how->memory && i < TRIES; i++) {
        if (i) nanosleep(&moment, NULL);
        s->n_survivors = plim__survivors(s, s->survivors, sizeof s->survivors);
        if (!s->n_survivors) return;
    }
}

static int loop(plim__supervisor *s)
{
    int wait_status = 0;
    struct rusage usage = {0};
    double next = 0, tree_next = 0; /* looking for processes takes a hundredth of the time at most */
    for (;;) {
        const uint32_t seen = atomic_load(&s->header->doorbell);
        plim__tree_slots(s);
        questions_answer(s);
        events_drain(s);
        const double now = plim__watch_now(s);
        if (now >= next) {
            next = now + LOOK_MS / 1e3;
            if (now >= tree_next) {
                plim__tree_look(s);
                const double took = 100 * (plim__watch_now(s) - now);
                tree_next = now + (took < 0.1 ? 0.1 : took);
            }
            plim__budget_publish(s);
            plim__tree_reclaim(s);
            tell(s, now);
            sample_look(s);
            if (s->stop_at > 0 && now > s->stop_at) kill(s->child, SIGKILL);
        }
        const int ended = wait4(s->child, &wait_status, WNOHANG, &usage);
        if (ended == s->child || (ended < 0 && errno == ECHILD)) break;
        doorbell_wait(s, seen);
    }
    survivors_look(s);
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
    /* All at once: entries stay where they are while somebody holds on to one. */
    plim_status status = plim__grow(&alloc, (void **)&s->process, &s->cap_processes, PLIM__WATCH_PROCESSES, sizeof *s->process, err);
    plim__timeline_init(&s->timeline, &alloc, HISTORY);
    if (!status) status = plim__symbols_new(&s->symbols, err);
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
