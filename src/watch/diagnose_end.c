/* The end of a watched program: how near it came, or what killed it. */
#include "watch/diagnose.h"

#include "watch/stack_place.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>

#define MIB ((uint64_t)1 << 20)

static const char *bytes_text(char (*t)[32], uint64_t bytes)
{
    return plim_bytes_format(*t, sizeof *t, bytes);
}

/* What the program had to stay within: the budget, a control group, or the machine. */
static uint64_t limit_of(const plim__supervisor *s, const char **name)
{
    *name = "the budget";
    if (s->how->memory) return s->how->memory;
    uint64_t least = PLIM_UNLIMITED;
    for (uint32_t i = 0; i < s->killer.n; i++)
        if (s->killer.group[i].limit < least) least = s->killer.group[i].limit;
    *name = "the control group's limit";
    if (least != PLIM_UNLIMITED) return least;
    plim_limits limits;
    *name = "RAM";
    if (plim__limits_read(&limits, s->os, NULL)) return 0;
    for (uint32_t i = 0; i < limits.count; i++)
        if (!strcmp(limits.limit[i].name, "RAM")) return limits.limit[i].limit;
    return 0;
}

static bool is_recorded(const plim__supervisor *s)
{
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (s->process[i].pid == s->child && s->process[i].slot && !s->process[i].replaced) return true;
    return false;
}

/* Where the budget did not hold. */
static void uncovered_text(const plim__supervisor *s, char *to, size_t size)
{
    uint32_t n = 0;
    size_t at = 0;
    const plim__watched *one = NULL;
    to[0] = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        if (!s->process[i].uncovered[0]) continue;
        one = &s->process[i];
        n++;
    }
    if (n == 1 && one->pid == s->child)
        at = (size_t)snprintf(to, size, "; the budget did not hold for it: %s", one->uncovered);
    else if (n)
        at = (size_t)snprintf(to, size, "; the budget did not hold for %u of its processes", n);
    if (s->n_survivors && at < size)
        snprintf(to + at, size - at, "; %u process%s it, without a budget from now on: %s", s->n_survivors,
                 s->n_survivors == 1 ? " outlives" : "es outlive", s->survivors);
}

/* One line: the peak, where it was, how near the limit. */
static void diagnose_ended(const plim__supervisor *s, plim_watch_report *r)
{
    char a[32], b[32], c[32], kept[120] = "", more[160] = "", open_end[400] = "";
    const char *name;
    const uint64_t limit = limit_of(s, &name);
    if (s->kept_at_peak >= 64 * MIB && s->kept_at_peak * 4 >= r->peak)
        snprintf(kept, sizeof kept, "; %s of it was free memory that the allocator kept", bytes_text(&c, s->kept_at_peak));
    if (s->refusals) snprintf(more, sizeof more, "; %llu request%s refused", (unsigned long long)s->refusals, s->refusals == 1 ? " was" : "s were");
    uncovered_text(s, open_end, sizeof open_end);
    if (!is_recorded(s) && !strstr(open_end, "for it:"))
        snprintf(more, sizeof more, "; followed through /proc alone%s%s", s->not_preloadable[0] ? ": " : "", s->not_preloadable);
    const double percent = limit ? 100.0 * (double)r->peak / (double)limit : 0;
    if (limit)
        snprintf(r->verdict, sizeof r->verdict, "peak %s of %s (%.*f%% of %s)%s%.120s%s%s%s", bytes_text(&a, r->peak), bytes_text(&b, limit),
                 percent < 10 ? 1 : 0, percent, name, r->peak_at[0] ? " at " : "", r->peak_at, kept, more, open_end);
    else
        snprintf(r->verdict, sizeof r->verdict, "peak %s%s%.120s%s%s", bytes_text(&a, r->peak), r->peak_at[0] ? " at " : "", r->peak_at, kept, more);
}

/* Signals by which programs die of their own doing: a null pointer that was used, std::terminate, an engine's way to say that memory is out. */
static bool is_crash(int signal_number)
{
    static const int crash[] = {SIGSEGV, SIGABRT, SIGBUS, SIGILL, SIGTRAP, SIGFPE};
    for (size_t i = 0; i < sizeof crash / sizeof *crash; i++)
        if (crash[i] == signal_number) return true;
    return false;
}

/* A crash after a request was refused: whoever does not check what malloc returns, or does not catch what is thrown, dies of it. */
static bool crashed_of_refusal(const plim__supervisor *s, plim_watch_report *r, int signal_number)
{
    enum { SOON = 2 }; /* seconds */
    char a[32], b[32];
    const plim__refused_last *last = &s->refused_last;
    const double since = r->seconds > last->seconds ? r->seconds - last->seconds : 0;
    const char *name = sigabbrev_np(signal_number);
    if (last->seconds <= 0 || !is_crash(signal_number)) return false;
    r->cause = PLIM_WATCH_AFTER_REFUSAL;
    snprintf(r->verdict, sizeof r->verdict, "your program was ended by SIG%s %.*f s after %s had refused %s%s%.100s%s: %s", name ? name : "?",
             since < 10 ? 2 : 0, since, last->charge ? "the budget" : "the system", bytes_text(&a, last->bytes), last->line[0] ? " at " : "", last->line,
             last->pid == s->child ? "" : " in another process",
             since <= SOON ? "that is the likely cause, a refusal that the program does not expect" : "that may be the cause");
    snprintf(r->refused, sizeof r->refused, "the signal is the program's own way to end; no limit sent it");
    if (last->charge)
        plim__fix_add(r, 0, 0, "a budget of %s lets that request pass", bytes_text(&b, plim__budget_promise(plim__budget_least(last->charge, last->bytes))));
    plim__fix_add(r, 0, 0, "check for a failed allocation (NULL, std::bad_alloc) at that line");
    return true;
}

static void diagnose_killed(plim__supervisor *s, plim_watch_report *r, const plim__killed *killed)
{
    char a[32], b[32];
    const int signal_number = WTERMSIG(r->wait_status);
    const char *name = sigabbrev_np(signal_number);
    r->cause = killed->cause;
    r->event = PLIM_WATCH_KILLED;
    if (s->stopped && killed->cause == PLIM_WATCH_SIGNAL) {
        snprintf(r->verdict, sizeof r->verdict, "your program was stopped, as --on-breach stop says: it breached the budget of %s",
                 bytes_text(&a, s->how->memory));
        return;
    }
    if (killed->cause == PLIM_WATCH_SIGNAL && crashed_of_refusal(s, r, signal_number)) return;
    if (killed->cause == PLIM_WATCH_SIGNAL) {
        snprintf(r->verdict, sizeof r->verdict, "your program was ended by SIG%s, %s", name ? name : "?",
                 signal_number == SIGKILL ? "and not by the kernel for lack of memory: somebody sent it" : "not by a memory limit");
        snprintf(r->refused, sizeof r->refused, "%s", killed->text);
        return;
    }
    const bool group = killed->cause == PLIM_WATCH_CGROUP;
    snprintf(r->verdict, sizeof r->verdict, "your program was killed by the kernel, not by a bug: %s",
             group ? "its control group's memory limit was reached" : "the machine had no memory left");
    snprintf(r->refused, sizeof r->refused, "%s", killed->text);
    char verdict[sizeof r->verdict];
    memcpy(verdict, r->verdict, sizeof verdict);
    plim__diagnose_held(s, r, NULL, killed->limit);
    memcpy(r->verdict, verdict, sizeof verdict);
    r->cause = killed->cause;
    const uint64_t limit = killed->limit && killed->limit != PLIM_UNLIMITED ? killed->limit : s->killer.ram_free + r->resident;
    plim__fix_add(r, 0, 0, "run it again with `plimsoll watch --memory %s`: an exception with a traceback instead of a kill",
                  bytes_text(&b, limit / 20 * 19));
}

void plim__diagnose_end(plim__supervisor *s, plim_watch_report *r, const plim__killed *killed)
{
    if (killed)
        diagnose_killed(s, r, killed);
    else
        diagnose_ended(s, r);
}

/* What the budget was exceeded by: memory whose requests are never refused. */
void plim__diagnose_over(plim__supervisor *s, plim_watch_report *r)
{
    char a[32], b[32];
    uint64_t uncovered = 0;
    plim__diagnose_held(s, r, NULL, r->budget);
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (!s->process[i].ended && s->process[i].uncovered[0]) uncovered += s->process[i].resident;
    snprintf(r->verdict, sizeof r->verdict, "over the budget: %s resident of %s", bytes_text(&a, r->resident), bytes_text(&b, r->budget));
    if (uncovered > r->budget / 20)
        snprintf(r->refused, sizeof r->refused, "nothing could be refused: %s is held by processes that the budget does not cover", bytes_text(&a, uncovered));
    else if (r->resident_shared > r->budget / 20)
        snprintf(r->refused, sizeof r->refused, "nothing was refused: %s of it is shared memory (shm_open, memfd, System V), which is charged once it is touched",
                 bytes_text(&a, r->resident_shared));
    else
        snprintf(r->refused, sizeof r->refused, "nothing was refused: requests below 256 KiB are not seen, and blocks that were touched long after they were "
                                                "asked for are not charged");
}

void plim__diagnose_uncovered(plim_watch_report *r, const plim__watched *w)
{
    snprintf(r->verdict, sizeof r->verdict, "the budget does not hold for process %d (%s): %s. Its memory is charged, but no request of it can be refused", w->pid,
             w->program[0] ? w->program : "?", w->uncovered);
}
