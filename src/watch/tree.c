/* The processes of a watched program: those that have attached themselves to a slot of the shared memory, and those that only /proc shows; what
 * is resident of each, and of all together. */
#include "watch/supervisor.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------ who is there */

plim__watched *plim__tree_find(plim__supervisor *s, int pid)
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
plim__watched *plim__tree_add(plim__supervisor *s, int pid, int parent)
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
    plim__watched *w = plim__tree_find(s, pid);
    if (w && w->slot) { /* it has executed another program: what it had is gone */
        plim__timeline_end(&s->timeline, &w->reader, (uint32_t)(plim__watch_now(s) * 1e3), NULL);
        w->ended = w->replaced = true;
        w->resident = 0;
        s->processes_in_all--;
        w = NULL;
    }
    if (!w) w = plim__tree_add(s, pid, slot->parent);
    if (!w || plim__reader_init(&w->reader, (uint32_t)(w - s->process), &s->alloc, NULL)) return;
    w->slot = slot;
    w->slot_index = i;
    w->parent = slot->parent;
    snprintf(w->program, sizeof w->program, "%.*s", (int)sizeof w->program - 1, slot->program);
    plim__symbols_learn(s->symbols, pid);
}

/* Slots of processes that have ended are given back when a quarter is taken. Their stacks can no longer be resolved then. */
void plim__tree_reclaim(plim__supervisor *s)
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

void plim__tree_slots(plim__supervisor *s)
{
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) {
        const int pid = atomic_load(&s->header->slot[i]);
        if (pid) slot_attach(s, i, pid);
    }
}

/* Processes that carry no recording library, or none yet. */
void plim__tree_look(plim__supervisor *s)
{
    int pid[PLIM__WATCH_PROCESSES], parent[PLIM__WATCH_PROCESSES];
    const uint32_t n = plim__peer_tree(s->child, pid, parent, PLIM__WATCH_PROCESSES);
    for (uint32_t i = 0; i < n; i++)
        if (!plim__tree_find(s, pid[i])) plim__tree_add(s, pid[i], parent[i]);
}

void plim__tree_end(plim__supervisor *s, plim__watched *w)
{
    w->ended = true;
    if (w->slot) plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    if (w->pid == s->child) return; /* its blocks are what the last report is about */
    if (w->slot) plim__timeline_end(&s->timeline, &w->reader, (uint32_t)(plim__watch_now(s) * 1e3), NULL);
    w->resident = 0;
}

void plim__tree_heap(plim__watched *w)
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

void plim__tree_resident(plim__supervisor *s)
{
    uint64_t sum = 0;
    uint32_t alive = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->ended) continue;
        const uint64_t now = plim__peer_resident(w->pid);
        if (!now) {
            if (w->pid != s->child && kill(w->pid, 0) && errno == ESRCH) plim__tree_end(s, w);
            continue;
        }
        w->resident = now;
        plim__tree_heap(w);
        if (now > w->resident_peak) w->resident_peak = now;
        sum += share_now(w);
        alive++;
    }
    if (!alive) return; /* the program is ending: what was there stays */
    s->resident = sum;
    if (sum > s->resident_peak) s->resident_peak = sum;
}

uint32_t plim__tree_alive(const plim__supervisor *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) n += !s->process[i].ended;
    return n;
}

/* Shares of pages that several processes have: costly, so only where there are several. */
void plim__tree_shares(plim__supervisor *s)
{
    const bool several = plim__tree_alive(s) > 1;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        plim__watched *w = &s->process[i];
        if (w->ended) continue;
        w->share_of = several ? plim__peer_resident(w->pid) : 0;
        w->share = several ? plim__peer_share(w->pid) : 0;
    }
}
