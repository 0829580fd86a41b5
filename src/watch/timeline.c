/* The history of a run: see timeline.h. Draining a ring is the only part that touches shared memory. */
#include "watch/timeline.h"

#include <stdlib.h>
#include <string.h>

enum { WINDOW_FIRST = 64, STEADY_BLOCKS = 16, RECENT_MS = 5000 };

void plim__timeline_init(plim__timeline *t, const plim__alloc *alloc, uint32_t changes_max)
{
    *t = (plim__timeline){.alloc = *alloc, .changes_max = changes_max, .peak_stack = UINT32_MAX};
}

void plim__timeline_free(plim__timeline *t)
{
    plim__free(&t->alloc, t->stack);
    plim__free(&t->alloc, t->change);
    *t = (plim__timeline){0};
}

plim_status plim__reader_init(plim__reader *r, uint32_t process, const plim__alloc *alloc, plim_error *err)
{
    *r = (plim__reader){.process = process};
    r->stack = plim__new(alloc, PLIM__REC_SITES, sizeof *r->stack, err);
    return r->stack ? PLIM_OK : PLIM_E_NOMEM;
}

void plim__reader_free(plim__reader *r, const plim__alloc *alloc)
{
    plim__free(alloc, r->stack);
    r->stack = NULL;
}

uint32_t plim__timeline_stack(plim__timeline *t, plim__reader *r, uint32_t site)
{
    if (site >= PLIM__REC_SITES) site = PLIM__REC_NO_SITE;
    if (r->stack[site]) return r->stack[site] - 1;
    if (plim__grow(&t->alloc, (void **)&t->stack, &t->cap_stacks, t->n_stacks + 1, sizeof *t->stack, NULL)) return UINT32_MAX;
    t->stack[t->n_stacks] = (plim__stack){.process = r->process, .site = site, .resident = 1};
    r->stack[site] = ++t->n_stacks;
    return t->n_stacks - 1;
}

/* ------------------------------------------------------------------------------------------ coarser history */

/* One window: for each stack in it first up to its most, then down to where it ended. `level` and `most` are per stack and zero before and after. */
static uint32_t window_shrink(const plim__change *from, uint32_t n, plim__change *to, int64_t *level, int64_t *most)
{
    uint32_t out = 0;
    for (uint32_t i = 0; i < n; i++) {
        int64_t *l = &level[from[i].stack], *m = &most[from[i].stack];
        *l += from[i].bytes;
        if (*l > *m) *m = *l;
    }
    for (int pass = 0; pass < 2; pass++) { /* all rises, then all falls: too high between, never too low */
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t s = from[i].stack;
            const int64_t bytes = pass ? level[s] - most[s] : most[s];
            if (bytes) to[out++] = (plim__change){.stack = s, .ms = from[pass ? n - 1 : 0].ms, .bytes = bytes};
            if (pass)
                level[s] = most[s] = 0;
            else
                level[s] -= most[s], most[s] = 0; /* what is left to do in the second pass */
        }
    }
    return out;
}

/* Makes the older half coarser until it is at most half as long. @return false when there is no memory for that: the history ends here */
static bool history_shrink(plim__timeline *t)
{
    int64_t *level = plim__new(&t->alloc, (uint64_t)t->n_stacks * 2, sizeof *level, NULL);
    if (!level) return false;
    const uint32_t half = t->n_changes / 2;
    uint32_t kept = half;
    plim__change *room = plim__new(&t->alloc, (uint64_t)half * 2, sizeof *room, NULL);
    for (uint32_t window = WINDOW_FIRST; room && kept > half / 2 && window && window / 2 < half; window *= 4) {
        kept = 0;
        for (uint32_t at = 0; at < half; at += window)
            kept += window_shrink(t->change + at, half - at < window ? half - at : window, room + kept, level, level + t->n_stacks);
    }
    if (room && kept <= half) {
        memcpy(t->change, room, kept * sizeof *room);
        memmove(t->change + kept, t->change + half, (t->n_changes - half) * sizeof *t->change);
        t->n_changes -= half - kept;
        t->coarse = true;
    }
    plim__free(&t->alloc, room);
    plim__free(&t->alloc, level);
    return t->n_changes < t->changes_max;
}

static plim_status history_add(plim__timeline *t, uint32_t stack, uint32_t ms, int64_t bytes, plim_error *err)
{
    if (t->n_changes >= t->changes_max && !history_shrink(t)) {
        t->lost++;
        return PLIM_OK;
    }
    PLIM_TRY(plim__grow(&t->alloc, (void **)&t->change, &t->cap_changes, t->n_changes + 1, sizeof *t->change, err));
    t->change[t->n_changes++] = (plim__change){.stack = stack, .ms = ms, .bytes = bytes};
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- draining */

static void peak_take(plim__timeline *t, uint32_t stack, uint32_t ms)
{
    t->live_peak = t->live;
    t->peak_stack = stack;
    t->peak_ms = ms;
    /* The shares at the peak are copied when it has risen by a hundredth since the last copy: a run that climbs in small steps would copy all day. */
    if (t->live - t->live_copied <= t->live_copied / 100) return;
    t->live_copied = t->live;
    for (uint32_t i = 0; i < t->n_stacks; i++) t->stack[i].live_at_peak = t->stack[i].live;
}

/* Some bytes more or less: of one block, or (`block` false) of a correction. */
static plim_status change_apply(plim__timeline *t, uint32_t stack, uint32_t ms, uint64_t bytes, bool got, bool block, plim_error *err)
{
    plim__stack *s = &t->stack[stack];
    if (got) {
        if (!s->got) s->first_ms = ms;
        s->last_ms = ms;
        s->got++;
        s->blocks++;
        s->live += bytes;
        t->live += bytes;
        if (block && bytes > s->largest) s->largest = bytes;
        if (t->live > t->live_peak) peak_take(t, stack, ms);
    } else {
        const uint64_t gone = bytes < s->live ? bytes : s->live; /* a free whose request was lost takes nothing */
        s->freed++;
        if (s->blocks) s->blocks--;
        s->live -= gone;
        t->live -= gone;
    }
    return history_add(t, stack, ms, got ? (int64_t)bytes : -(int64_t)bytes, err);
}

/* Brings a stack to what its site's counters say. */
static plim_status stack_correct(plim__timeline *t, plim__reader *r, const plim__rec_site *site, uint32_t at, uint32_t ms, plim_error *err)
{
    const uint64_t live = atomic_load(&site->live_bytes);
    const uint32_t stack = plim__timeline_stack(t, r, at);
    PLIM_FAIL_IF(stack == UINT32_MAX, err, PLIM_E_NOMEM, "no memory for the stacks of a watched program");
    plim__stack *s = &t->stack[stack];
    const uint64_t before = s->live;
    if (live > before)
        PLIM_TRY(change_apply(t, stack, ms, live - before, true, false, err));
    else if (live < before)
        PLIM_TRY(change_apply(t, stack, ms, before - live, false, false, err));
    s->blocks = atomic_load(&site->live_blocks);
    s->got = atomic_load(&site->allocations);
    s->freed = atomic_load(&site->frees);
    return PLIM_OK;
}

static plim_status catch_up(plim__timeline *t, plim__reader *r, const plim__rec_process *from, uint32_t ms, plim_error *err)
{
    for (uint32_t i = 0; i < PLIM__REC_SITES; i++)
        if (atomic_load(&from->site[i].hash) || i == PLIM__REC_NO_SITE) PLIM_TRY(stack_correct(t, r, &from->site[i], i, ms, err));
    return PLIM_OK;
}

plim_status plim__timeline_drain(plim__timeline *t, plim__reader *r, const plim__rec_process *from, plim_error *err)
{
    const uint64_t head = atomic_load_explicit(&from->events, memory_order_acquire);
    bool missed = false;
    uint32_t ms = r->ms;
    if (head - r->next > PLIM__REC_EVENTS) {
        t->lost += head - r->next - PLIM__REC_EVENTS / 2;
        r->next = head - PLIM__REC_EVENTS / 2;
        missed = true;
    }
    for (; r->next < head; r->next++) {
        const plim__rec_event *e = &from->event[r->next % PLIM__REC_EVENTS];
        const uint64_t seq = atomic_load_explicit(&e->seq, memory_order_acquire);
        if (seq < r->next + 1) break; /* still being written: next time */
        const plim__rec_event copy = {.ns = e->ns, .bytes = e->bytes, .site = e->site, .kind = e->kind};
        atomic_thread_fence(memory_order_acquire);
        if (seq != r->next + 1 || atomic_load_explicit(&e->seq, memory_order_relaxed) != seq) {
            t->lost++;
            missed = true;
            continue;
        }
        ms = r->ms = (uint32_t)(copy.ns / 1000000);
        const uint32_t stack = plim__timeline_stack(t, r, copy.site);
        PLIM_FAIL_IF(stack == UINT32_MAX, err, PLIM_E_NOMEM, "no memory for the stacks of a watched program");
        PLIM_TRY(change_apply(t, stack, ms, copy.bytes, copy.kind == PLIM__REC_GOT, true, err));
    }
    /* Counters run ahead of events: what they correct may come again as an event, so from the first loss on they are asked every time. */
    r->missed |= missed;
    return r->missed ? catch_up(t, r, from, ms, err) : PLIM_OK;
}

plim_status plim__timeline_end(plim__timeline *t, plim__reader *r, uint32_t ms, plim_error *err)
{
    for (uint32_t i = 0; i < t->n_stacks; i++) {
        plim__stack *s = &t->stack[i];
        if (s->process != r->process || !s->live) continue;
        const uint64_t blocks = s->blocks, freed = s->freed;
        PLIM_TRY(change_apply(t, i, ms, s->live, false, false, err));
        s->blocks = 0;
        s->freed = freed + blocks;
    }
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------- what only grows */

void plim__timeline_growth(const plim__timeline *t, uint32_t now_ms, plim__growth *out)
{
    /* By place in the history, not by time: a loop fills thirds of places evenly, however its steps speed up or the program starts. */
    uint32_t *place = plim__new(&t->alloc, (uint64_t)t->n_stacks * 4, sizeof *place, NULL);
    for (uint32_t i = 0; i < t->n_stacks; i++) out[i] = (plim__growth){0};
    if (!place) return;
    uint32_t(*third)[4] = (uint32_t(*)[4])place; /* [0] where it began, plus one; [1..3] requests in each third */
    int64_t *recent = plim__new(&t->alloc, t->n_stacks, sizeof *recent, NULL);
    const uint32_t since = now_ms > RECENT_MS ? now_ms - RECENT_MS : 0;
    for (uint32_t i = 0; i < t->n_changes; i++) {
        const plim__change *c = &t->change[i];
        if (recent && c->ms >= since) recent[c->stack] += c->bytes;
        if (c->bytes <= 0) continue;
        if (!third[c->stack][0]) third[c->stack][0] = i + 1;
        const uint64_t first = third[c->stack][0] - 1, span = t->n_changes - first;
        third[c->stack][1 + (i - first) * 3 / span]++;
    }
    for (uint32_t i = 0; i < t->n_stacks; i++) {
        const plim__stack *s = &t->stack[i];
        const uint32_t all = third[i][1] + third[i][2] + third[i][3];
        const uint32_t least = third[i][1] < third[i][2] ? (third[i][1] < third[i][3] ? third[i][1] : third[i][3])
                                                         : (third[i][2] < third[i][3] ? third[i][2] : third[i][3]);
        out[i].steady = s->got >= STEADY_BLOCKS && s->freed * 20 <= s->got && s->live * 50 >= t->live && least * 6 >= all && all;
        const uint32_t from = s->first_ms > since ? s->first_ms : since;
        const double seconds = now_ms > from ? (now_ms - from) / 1e3 : 1e-3;
        if (recent) out[i].per_second = (double)recent[i] / (seconds < 0.1 ? 0.1 : seconds);
    }
    plim__free(&t->alloc, recent);
    plim__free(&t->alloc, place);
}

/* ---------------------------------------------------------------------------------------------- the replay */

static double would_be(const plim__what_if *w, double live, double last, double share)
{
    if (!w) return live * share;
    const double bytes = w->keep_last && live > last ? last : live;
    return bytes * w->scale * share;
}

uint64_t plim__replay_peak(const plim__timeline *t, const plim__what_if *what, const int64_t *last, uint32_t n_last)
{
    double *live = plim__new(&t->alloc, (uint64_t)t->n_stacks * 2 + 1, sizeof *live, NULL);
    if (!live) return 0;
    double *latest = live + t->n_stacks; /* the block that came last */
    double total = 0, peak = 0;
    for (uint32_t i = 0; i < t->n_changes; i++) {
        const plim__change *c = &t->change[i];
        const plim__what_if *w = what ? &what[c->stack] : NULL;
        const double share = t->stack[c->stack].resident;
        double *l = &live[c->stack];
        total -= would_be(w, *l, latest[c->stack], share);
        *l += (double)c->bytes;
        if (*l < 0) *l = 0;
        if (c->bytes > 0)
            latest[c->stack] = (double)c->bytes < (double)t->stack[c->stack].largest ? (double)c->bytes : (double)t->stack[c->stack].largest;
        total += would_be(w, *l, latest[c->stack], share);
        if (total > peak) peak = total;
    }
    for (uint32_t i = 0; i < n_last; i++) {
        total += (double)last[i];
        if (total > peak) peak = total;
    }
    plim__free(&t->alloc, live);
    return peak > 0 ? (uint64_t)(peak + 0.5) : 0;
}
