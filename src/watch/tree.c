/* The processes of a watched program: those that have attached themselves to a slot of the shared memory, and those that only /proc shows; what
 * is resident of each, and of all together. */
#include "watch/resident.h"
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
    else
        w = &s->process[s->n_processes++]; /* there is room for all of them from the start */
    if (w) *w = (plim__watched){.pid = pid, .parent = parent};
    s->tree_changes++;
    return w;
}

/* It has executed another program: what it had is gone. */
plim__watched *plim__tree_replaced(plim__supervisor *s, plim__watched *w)
{
    const int pid = w->pid, parent = w->parent;
    plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    plim__timeline_end(&s->timeline, &w->reader, (uint32_t)(plim__watch_now(s) * 1e3), NULL);
    w->ended = w->replaced = true;
    w->resident = w->recorded = 0;
    s->processes_in_all--;
    return plim__tree_add(s, pid, parent);
}

static void slot_attach(plim__supervisor *s, uint32_t i, int pid)
{
    const plim__rec_process *slot = (const void *)(s->region + s->header->slot_offset + i * s->header->slot_bytes);
    if (!atomic_load_explicit(&slot->ready, memory_order_acquire)) return;
    for (uint32_t k = 0; k < s->n_processes; k++)
        if (s->process[k].slot == slot) return; /* known, ended or not */
    plim__watched *w = plim__tree_find(s, pid);
    if (w && w->slot) w = plim__tree_replaced(s, w);
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
    s->tree_changes++;
    if (w->slot) plim__timeline_drain(&s->timeline, &w->reader, w->slot, NULL);
    if (w->pid == s->child) return; /* its blocks are what the last report is about */
    if (w->slot) plim__timeline_end(&s->timeline, &w->reader, (uint32_t)(plim__watch_now(s) * 1e3), NULL);
    w->resident = 0;
}

void plim__tree_heap(plim__watched *w)
{
    if (w->slot && atomic_load(&w->slot->heap.ns)) w->kept = w->slot->heap.kept;
}

/* ------------------------------------------------------------------------------------------------ what is charged */

/* Our own records in the process: they are shared memory, but not the program's. */
static uint64_t records_of(const plim__supervisor *s, const plim__watched *w)
{
    if (!w->slot || !w->slot->address) return 0;
    plim__block slot = {.address = w->slot->address, .bytes = s->header->slot_bytes};
    return plim__resident_fill(w->pid, &slot, 1, 0) ? slot.resident : 0;
}

/* Reads what is resident of a process, counted whole. Kinds of mapped memory are read only where their sum has changed, for that costs more. False:
 * nothing is there (it has ended, or is about to). */
static bool whole_look(plim__supervisor *s, plim__watched *w)
{
    uint64_t mapped;
    const uint64_t resident = plim__peer_resident(w->pid, &mapped);
    if (!resident) return false;
    plim__peer_status st;
    if (mapped != w->mapped && plim__peer_status_read(w->pid, &st)) {
        w->mapped = mapped;
        w->records = records_of(s, w);
        if (w->records > st.shared) w->records = st.shared;
        w->kind.file = st.file;
        w->kind.shared = st.shared - w->records;
        if (st.file > w->file_peak) w->file_peak = st.file;
    }
    w->kind.anon = resident > mapped ? resident - mapped : 0;
    w->whole = w->kind.anon + w->kind.shared;
    return true;
}

/* Between vfork and exec a child has its parent's memory: once is enough. */
static bool is_parents(plim__supervisor *s, const plim__watched *w)
{
    const plim__watched *parent = w->slot ? NULL : plim__tree_find(s, w->parent);
    return parent && parent->whole == w->whole && parent->mapped == w->mapped && plim__peer_same_memory(w->pid, parent->pid);
}

/* What has come since shares were looked at is taken to be the process's own. */
static uint64_t share_now(const plim__watched *w)
{
    if (!w->share_of) return w->whole;
    const uint64_t others = w->share_of > w->share ? w->share_of - w->share : 0;
    return w->whole > others ? w->whole - others : 0;
}

/* Pages that are shared with processes outside of the program count in part. A page of our records is mapped here and by the supervisor. */
static void share_look(plim__watched *w)
{
    plim__peer_kinds share;
    w->share_of = 0;
    if (!plim__peer_shares(w->pid, &share)) return;
    const uint64_t records = w->records / 2 < share.shared ? w->records / 2 : share.shared;
    w->share = share.anon + share.shared - records;
    w->share_of = w->whole ? w->whole : 1;
}

static bool is_gone(const plim__supervisor *s, const plim__watched *w)
{
    return w->pid != s->child && kill(w->pid, 0) && errno == ESRCH;
}

/* The program that had attached itself is no longer in the process: another was executed. */
static bool was_replaced(const plim__watched *w)
{
    const uint64_t head = 1 | (uint64_t)(uint32_t)w->pid << 32; /* `ready` and `pid`, with which a slot begins */
    return w->slot && w->slot->address && plim__peer_find(w->pid, w->slot->address, head) == PLIM__PEER_NOT_THERE;
}

/* Sums up. @return how many processes there are; *whole: what they have, with shared pages counted for each */
static uint32_t sum_up(plim__supervisor *s, uint64_t *whole, bool shares)
{
    uint64_t sum = 0;
    uint32_t alive = 0;
    *whole = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) {
        if (!s->process[i].ended && was_replaced(&s->process[i])) plim__tree_replaced(s, &s->process[i]);
        plim__watched *w = &s->process[i];
        if (w->ended) continue;
        if (!whole_look(s, w)) {
            if (is_gone(s, w)) plim__tree_end(s, w);
            continue;
        }
        plim__tree_heap(w);
        alive++;
        if (is_parents(s, w)) {
            w->resident = 0;
            continue;
        }
        if (shares) share_look(w);
        w->resident = share_now(w);
        if (w->resident > w->resident_peak) w->resident_peak = w->resident;
        sum += w->resident;
        *whole += w->whole;
    }
    if (alive) s->resident = sum; /* else the program is ending: what was there stays */
    return alive;
}

static void peak_raise(plim__supervisor *s)
{
    if (s->resident > s->resident_peak) s->resident_peak = s->resident;
}

void plim__tree_resident_exact(plim__supervisor *s)
{
    enum { REST = 10 }; /* unasked, looking at shares takes at most one part in so many of the time */
    uint64_t whole;
    plim__tree_look(s);
    const uint64_t tree = s->tree_changes;
    if (plim__tree_alive(s) > 1) {
        const double began = plim__watch_now(s);
        sum_up(s, &whole, true);
        s->shares_of_tree = tree;
        s->shares_next = plim__watch_now(s) + REST * (plim__watch_now(s) - began);
    } else {
        for (uint32_t i = 0; i < s->n_processes; i++) s->process[i].share_of = 0; /* nobody is left to share with */
        sum_up(s, &whole, false);
    }
    peak_raise(s);
}

/* The estimate is too high where a child was made since, too low where one has ended or has written to what it shared. As long as the whole, which
 * counts shared pages for each process, is below both the peak and four fifths of the budget, that does not matter. */
void plim__tree_resident(plim__supervisor *s)
{
    uint64_t whole;
    const uint64_t near = s->how->memory ? s->how->memory / 5 * 4 : UINT64_MAX;
    const uint32_t alive = sum_up(s, &whole, false);
    const bool matters = whole > s->resident_peak || whole > near, several = alive > 1;
    if (several && matters && plim__watch_now(s) >= s->shares_next)
        plim__tree_resident_exact(s);
    else if (!several || s->shares_of_tree == s->tree_changes)
        peak_raise(s);
}

uint32_t plim__tree_alive(const plim__supervisor *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_processes; i++) n += !s->process[i].ended;
    return n;
}
