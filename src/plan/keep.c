/* A simulation of one trip through every group of a pass, task by task, that writes down what it does.
 *
 * Every value in memory has a next use, known from the order. When room is needed, the value goes that costs least to bring back, per byte and per
 * task of time until then. Bringing back is reading, for what lies in a file anyway; else the cheaper of making it again (and whatever of its inputs
 * is not there either) and of writing it to a file when it is made and reading it when it is needed. Choosing by the next use is what an optimal cache
 * does when everything costs the same; dividing by it what tensor rematerialization at run time does, with the time since the last use for want of
 * knowledge.
 *
 * What is carried through a group lies beside all of that. Nothing of a group outlives its trip but what is carried: what is free is dropped at the end.
 *
 * Nothing is decided here for good: the pass that is built from the schedule is measured like any other. */
#include "plan/keep.h"
#include "core/size.h"
#include "plan/cost.h"

#include <math.h>
#include <string.h>

#define MOST_ITEMS 4  /* per node of the program: more is thrashing */
#define DEEPEST 4096  /* values made again for the sake of each other */
#define HIDDEN 0.6    /* of the time of reading and writing goes by while something is computed */
#define FINE 2048     /* values below this part of the limit are not worth dropping */
#define AHEAD 8       /* tasks before the one that needs it, at most, a read begins */

/* A task that has run: when it began, and bytes alive while it ran. */
typedef struct past {
    double start;
    uint64_t live;
} past;

typedef struct sim {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__tasks *u;
    plim__schedule *s;
    uint64_t limit, live; /* bytes of what is free; the limit is what is carried less than the pass's */
    uint64_t carried;   /* bytes of what is carried through the group */
    uint32_t now, end;  /* position of the task that runs, and the first one behind its group */
    bool fits;
    uint32_t *use_at;   /* positions of the uses of each value, rising; where u->uses has the tasks */
    uint32_t *next;     /* per value: index in use_at */
    uint32_t *instance; /* per value: the one in memory, or PLIM__NONE */
    uint32_t *local;    /* per value: the last instance of one that stays inside its task */
    uint32_t *pins;     /* per value: who needs it right now */
    uint32_t *where;    /* per value: its place in `resident`, or PLIM__NONE */
    uint32_t *resident; uint32_t n_resident; /* values that may go */
    uint32_t *spilled;  /* per value: the instance that lies in the spill file, or PLIM__NONE */
    bool *gone;         /* per value: a state that was overwritten */
    double *lost;       /* per value: what it would cost to recompute, when it was dropped */
    uint32_t *doomed;   /* per value: the position from which on it cannot be recomputed, for a state behind it is overwritten there */
    uint32_t *leaving, n_leaving, *left, n_left; /* written, and read by nobody: they go when the next task has run */
    uint32_t *taken;    /* per value: the run, of a task or of what makes a value again, in which an output took its place */
    uint32_t run;       /* counts these runs, from 1 */
    /* in one trip of the group, seconds: */
    double compute, disk; /* of kernels, of the disk */
    double time;          /* that have gone by for the threads, waiting included */
    double disk_done;     /* when the disk will be done with what was asked of it */
    double *made_at;      /* per value: when it was made */
    past past[AHEAD];     /* the tasks that ran last */
    uint32_t n_past;
    plim_error *err;
} sim;

/* ------------------------------------------------------------------------------------------------ memory */

/* By the graph's number. */
static uint32_t graph_value(const sim *s, uint32_t v) { return s->u->pass->value[v].value; }

/* In this trip of the group. */
static bool needed_later(const sim *s, uint32_t v) { return s->next[v] < s->u->uses.from[v + 1] && s->use_at[s->next[v]] < s->end; }

static bool readable(const sim *s, uint32_t v) { return s->u->maker[v] == PLIM__NONE || s->spilled[v] != PLIM__NONE; }

/* What is held has no bytes of its own, and is there. */
static plim__task_transfer read_cost(const sim *s, uint32_t v)
{
    if (s->plan->held[graph_value(s, v)]) return (plim__task_transfer){0};
    if (s->u->maker[v] == PLIM__NONE) return s->u->fetch[v];
    const double seconds = plim__file_seconds(s->plan, s->u->bytes[v], false);
    return (plim__task_transfer){seconds, seconds, 0};
}

static double read_seconds(const sim *s, uint32_t v) { return read_cost(s, v).seconds; }

/* When a read of so many bytes may begin: while tasks run that leave room for it. */
static double read_start(sim *s, uint64_t bytes)
{
    double start = s->time;
    for (uint32_t k = 0; k < AHEAD && k < s->n_past; k++) {
        past *x = &s->past[(s->n_past - 1 - k) % AHEAD];
        if (x->live + bytes > s->limit) break;
        x->live += bytes;
        start = x->start;
    }
    return start;
}

/* The disk does something that may begin at `start`. */
static void use_disk(sim *s, plim__task_transfer x, double start)
{
    const bool idle = start >= s->disk_done;
    PLIM_ASSERT(start >= 0 && start <= s->time && x.seconds >= 0); /* nothing begins in the future, so time only goes on */
    s->disk_done = fmax(s->disk_done, start) + (idle ? x.latency : x.seconds);
    s->disk += x.seconds;
    s->time += x.cpu + s->plan->speed.machine.step_seconds;
}

static void write_spilled(sim *s, uint32_t v)
{
    const double seconds = plim__file_seconds(s->plan, s->u->bytes[v], true);
    use_disk(s, (plim__task_transfer){seconds, seconds, 0}, s->made_at[v]);
    s->time = fmax(s->time, s->disk_done); /* its memory is needed now */
}

static void enter(sim *s, uint32_t v, uint32_t instance)
{
    PLIM_ASSERT(s->instance[v] == PLIM__NONE && s->where[v] == PLIM__NONE && !s->u->is_carried[v]); /* once, and nothing of what is counted as carried */
    s->instance[v] = instance;
    s->live += s->u->bytes[v];
    if (s->u->bytes[v] == 0 || s->u->bytes[v] < s->limit / FINE || s->u->stays[v]) return;
    s->where[v] = s->n_resident;
    s->resident[s->n_resident++] = v;
}

/* Seconds to make v again, with what is in memory now. */
static double remake_seconds(const sim *s, uint32_t v)
{
    const plim__lists *l = &s->u->remake_in;
    double seconds = s->u->remake_seconds[v];
    for (uint32_t i = l->from[v]; i < l->from[v + 1]; i++) {
        const uint32_t x = l->item[i];
        if (s->instance[x] != PLIM__NONE) continue;
        seconds += s->gone[x] ? INFINITY : readable(s, x) ? read_seconds(s, x) : s->lost[x];
    }
    return seconds;
}

static void leave(sim *s, uint32_t v)
{
    if (s->instance[v] == PLIM__NONE) return;
    if (!readable(s, v)) s->lost[v] = remake_seconds(s, v);
    PLIM_ASSERT(s->live >= s->u->bytes[v] && (s->where[v] == PLIM__NONE || s->resident[s->where[v]] == v));
    s->instance[v] = PLIM__NONE;
    s->live -= s->u->bytes[v];
    if (s->where[v] == PLIM__NONE) return;
    const uint32_t last = s->resident[--s->n_resident];
    s->resident[s->where[v]] = last;
    s->where[last] = s->where[v];
    s->where[v] = PLIM__NONE;
}

static void leave_unless_needed(sim *s, uint32_t v)
{
    if (!needed_later(s, v) && s->pins[v] == 0 && !s->u->stays[v]) leave(s, v);
}

/* What of so many seconds of reading and writing is waited for: a part, unless the disk has no time left. */
static double waiting(const sim *s, double disk) { return s->disk < s->compute ? (1 - HIDDEN) * disk : disk; }

/* What it costs to let v go and to bring it back. @param spill  set to whether it goes to a file */
static double cost_of(const sim *s, uint32_t v, bool *spill)
{
    *spill = false;
    if (readable(s, v)) return s->gone[v] ? INFINITY : read_seconds(s, v);
    const bool too_late = needed_later(s, v) && s->use_at[s->next[v]] > s->doomed[v];
    const double remake = too_late ? INFINITY : remake_seconds(s, v);
    if (!s->plan->set.spill_dir || s->plan->write_file[graph_value(s, v)] != PLIM__NONE) return remake;
    const double file = waiting(s, read_seconds(s, v) + plim__file_seconds(s->plan, s->u->bytes[v], true));
    *spill = file < remake;
    return *spill ? file : remake;
}

/* Lets the cheapest go. @return false when nothing may */
static bool evict(sim *s)
{
    double best = INFINITY;
    uint32_t victim = PLIM__NONE;
    bool to_file = false;
    for (uint32_t i = 0; i < s->n_resident; i++) {
        const uint32_t v = s->resident[i];
        if (s->pins[v] > 0) continue;
        bool spill;
        PLIM_ASSERT(s->instance[v] != PLIM__NONE && (!needed_later(s, v) || s->use_at[s->next[v]] >= s->now));
        const double wait = needed_later(s, v) ? (double)(s->use_at[s->next[v]] - s->now + 1) : 1e9;
        const double score = cost_of(s, v, &spill) / ((double)s->u->bytes[v] * wait);
        if (score >= best) continue;
        best = score;
        victim = v;
        to_file = spill;
    }
    if (victim == PLIM__NONE) return false;
    if (to_file) {
        PLIM_ASSERT(s->plan->set.spill_dir && s->u->maker[victim] != PLIM__NONE && s->spilled[victim] == PLIM__NONE); /* written once at the most */
        s->s->instance[s->instance[victim]].spill = true;
        s->spilled[victim] = s->instance[victim];
        write_spilled(s, victim);
    }
    leave(s, victim);
    return true;
}

static void make_room(sim *s, uint64_t bytes)
{
    while (s->fits && s->live + bytes > s->limit) s->fits = evict(s);
    const uint64_t all = s->carried + s->live + bytes;
    if (all > s->s->peak) s->s->peak = all;
}

/* ------------------------------------------------------------------------------------------------- items */

static plim_status new_instance(sim *s, const plim__instance *x, uint32_t *id)
{
    plim__schedule *o = s->s;
    PLIM_TRY(plim__grow(&s->plan->alloc, (void **)&o->instance, &o->cap_instances, o->n_instances + 1, sizeof *o->instance, s->err));
    o->instance[*id = o->n_instances++] = *x;
    return PLIM_OK;
}

/* The instance of an input: one inside the task, what is in memory, or what is there without being fetched: a constant, a file that is read once. */
static plim_status input_instance(sim *s, uint32_t v, uint32_t *id)
{
    const plim__pvalue *x = &s->u->pass->value[v];
    *id = x->role == PLIM__ROLE_PRIVATE ? s->local[v] : s->instance[v];
    if (*id != PLIM__NONE) return PLIM_OK;
    PLIM_ASSERT(x->role == PLIM__ROLE_CONST || (x->producer == PLIM__NONE && s->u->bytes[v] == 0));
    PLIM_TRY(new_instance(s, &(plim__instance){.value = v, .item = PLIM__NONE, .back_of = PLIM__NONE}, id));
    s->instance[v] = *id;
    return PLIM_OK;
}

/* One node of the pass. Its outputs' instances are in `local` afterwards. */
static plim_status emit(sim *s, uint32_t pnode, bool again)
{
    const plim__pnode *x = &s->u->pass->node[pnode];
    const plim__node *n = &s->g->node[x->node];
    plim__schedule *o = s->s;
    PLIM_ASSERT(!again || !x->accumulates);
    PLIM_TRY(plim__grow(&s->plan->alloc, (void **)&o->item, &o->cap_items, o->n_items + 1, sizeof *o->item, s->err));
    PLIM_TRY(plim__grow(&s->plan->alloc, (void **)&o->operand, &o->cap_operands, o->n_operands + n->n_in, sizeof *o->operand, s->err));
    plim__item item = {.node = pnode, .in0 = o->n_operands};
    for (uint32_t k = 0; k < n->n_in; k++) {
        uint32_t id;
        PLIM_TRY(input_instance(s, s->u->pass->operand[x->in0 + k], &id));
        PLIM_ASSERT(id < o->n_instances && o->instance[id].value == s->u->pass->operand[x->in0 + k]);
        o->operand[o->n_operands++] = id;
    }
    for (uint32_t j = 0; j < PLIM__MAX_OUT; j++) {
        item.out[j] = PLIM__NONE;
        if (j >= n->n_out) continue;
        PLIM_TRY(new_instance(s, &(plim__instance){.value = x->out[j], .item = o->n_items, .back_of = PLIM__NONE, .again = again}, &item.out[j]));
        s->local[x->out[j]] = item.out[j];
        if (s->u->is_carried[x->out[j]]) s->instance[x->out[j]] = item.out[j];
    }
    o->item[o->n_items++] = item;
    s->fits &= o->n_items <= MOST_ITEMS * (uint64_t)s->u->pass->n_nodes + 64;
    return PLIM_OK;
}

static plim_status fetch(sim *s, uint32_t v, uint32_t depth);

/* Has everything in a list in memory, and keeps it there until unpin. What has to be made comes first: reading can wait until all is made. */
static plim_status fetch_all(sim *s, const plim__lists *l, uint32_t i, uint32_t depth)
{
    for (uint32_t k = l->from[i]; k < l->from[i + 1]; k++) s->pins[l->item[k]]++;
    for (int read = 0; read < 2; read++)
        for (uint32_t k = l->from[i]; k < l->from[i + 1] && s->fits; k++)
            if (readable(s, l->item[k]) == (bool)read) PLIM_TRY(fetch(s, l->item[k], depth));
    return PLIM_OK;
}

static void unpin(sim *s, const plim__lists *l, uint32_t i)
{
    for (uint32_t k = l->from[i]; k < l->from[i + 1]; k++) {
        PLIM_ASSERT(s->pins[l->item[k]] > 0);
        s->pins[l->item[k]]--;
    }
    for (uint32_t k = l->from[i]; k < l->from[i + 1]; k++) leave_unless_needed(s, l->item[k]);
}

/* Nobody needs v but the task or the remaking that has pinned it now. */
static bool ends_here(const sim *s, uint32_t v, bool uses_it)
{
    const uint32_t next = s->next[v] + uses_it;
    const bool later = next < s->u->uses.from[v + 1] && s->use_at[next] < s->end;
    return s->instance[v] != PLIM__NONE && s->pins[v] == 1 && !later && !s->u->stays[v];
}

/* Bytes that output v needs beside the inputs that are in memory: none of those of one that it takes the place of, each of which is given away once. */
static uint64_t bytes_beside_inputs(sim *s, uint32_t v, bool uses_it)
{
    const plim__lists *l = &s->u->over;
    for (uint32_t i = l->from[v]; i < l->from[v + 1]; i++) {
        const uint32_t x = l->item[i];
        if (s->taken[x] == s->run || !ends_here(s, x, uses_it)) continue;
        s->taken[x] = s->run;
        return s->u->bytes[v] > s->u->bytes[x] ? s->u->bytes[v] - s->u->bytes[x] : 0;
    }
    return s->u->bytes[v];
}

/* Is this output of a node that runs again worth having? */
static bool wanted_again(const sim *s, uint32_t out, uint32_t v)
{
    return s->u->bytes[out] > 0 && s->instance[out] == PLIM__NONE && (out == v || (needed_later(s, out) && !readable(s, out)));
}

static plim_status remake(sim *s, uint32_t v, uint32_t depth)
{
    const plim__lists *l = &s->u->remake;
    PLIM_ASSERT(s->u->maker[v] != PLIM__NONE && plim__list_len(l, v) > 0); /* some nodes of its task make it */
    PLIM_TRY(fetch_all(s, &s->u->remake_in, v, depth + 1));
    uint64_t bytes = 0;
    s->run++;
    for (uint32_t k = l->from[v]; k < l->from[v + 1]; k++) {
        const plim__pnode *n = &s->u->pass->node[l->item[k]];
        for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++)
            bytes += wanted_again(s, n->out[j], v) ? bytes_beside_inputs(s, n->out[j], false) : 0;
    }
    make_room(s, bytes + s->u->extra[s->u->maker[v]]);
    for (uint32_t k = l->from[v]; k < l->from[v + 1] && s->fits; k++) {
        const plim__pnode *n = &s->u->pass->node[l->item[k]];
        PLIM_TRY(emit(s, l->item[k], true));
        for (uint32_t j = 0; j < PLIM__MAX_OUT && n->out[j] != PLIM__NONE; j++)
            if (wanted_again(s, n->out[j], v)) enter(s, n->out[j], s->local[n->out[j]]);
    }
    s->compute += s->u->remake_seconds[v];
    s->time += s->u->remake_seconds[v] + s->plan->speed.machine.step_seconds;
    for (uint32_t k = l->from[v]; k < l->from[v + 1]; k++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && s->u->pass->node[l->item[k]].out[j] != PLIM__NONE; j++)
            s->made_at[s->u->pass->node[l->item[k]].out[j]] = s->time;
    unpin(s, &s->u->remake_in, v);
    return PLIM_OK;
}

/* Has v in memory. The caller has pinned it. */
static plim_status fetch(sim *s, uint32_t v, uint32_t depth)
{
    PLIM_ASSERT(s->pins[v] > 0); /* else what is fetched next could push it out again */
    if (s->instance[v] != PLIM__NONE || !s->fits) return PLIM_OK;
    s->fits = !s->gone[v] && depth < DEEPEST;
    if (!s->fits) return PLIM_OK;
    if (!readable(s, v)) return remake(s, v, depth);
    uint32_t id;
    make_room(s, s->u->bytes[v]);
    PLIM_TRY(new_instance(s, &(plim__instance){.value = v, .item = PLIM__NONE, .back_of = s->spilled[v], .streamed = true}, &id));
    use_disk(s, read_cost(s, v), read_start(s, s->u->bytes[v]));
    s->time = fmax(s->time, s->disk_done);
    enter(s, v, id);
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- tasks */

/* What has been written and is read by nobody is in memory until the task after it has run: writing takes as long. */
static void let_go_of_written(sim *s)
{
    for (uint32_t i = 0; i < s->n_left; i++) {
        PLIM_ASSERT(s->pins[s->left[i]] == 1); /* by what has written it; nobody reads it */
        s->pins[s->left[i]]--;
        leave(s, s->left[i]);
    }
    uint32_t *swap = s->left;
    s->left = s->leaving;
    s->leaving = swap;
    s->n_left = s->n_leaving;
    s->n_leaving = 0;
}

/* Calls `fn` for every value of the pass that is a state which the task overwrites. */
static void for_states_of(sim *s, const plim__stage *stage, void (*fn)(sim *s, uint32_t v))
{
    for (uint32_t i = stage->first; i < stage->first + stage->count; i++) {
        const plim__pnode *x = &s->u->pass->node[i];
        for (uint32_t j = 0; j < PLIM__MAX_OUT && x->out[j] != PLIM__NONE; j++) {
            const uint32_t state = s->plan->replaces[graph_value(s, x->out[j])];
            if (state == PLIM__NONE) continue;
            for (uint32_t v = s->u->first_of[s->g->state[state].in]; v != PLIM__NONE; v = s->u->next_of[v]) fn(s, v);
        }
    }
}

static void mark_gone(sim *s, uint32_t v) { s->gone[v] = true; }
static void doom(sim *s, uint32_t v) { s->doomed[v] = s->now; }

static plim_status run_task(sim *s, uint32_t i)
{
    const plim__tasks *u = s->u;
    const plim__stage *stage = &u->pass->stage[i];
    PLIM_ASSERT(s->now < s->end && s->live <= s->limit);
    PLIM_TRY(fetch_all(s, &u->in, i, 0));
    uint64_t bytes = u->extra[i];
    s->run++;
    for (uint32_t k = u->out.from[i]; k < u->out.from[i + 1]; k++) bytes += bytes_beside_inputs(s, u->out.item[k], true);
    make_room(s, bytes);
    if (!s->fits) return PLIM_OK;
    s->past[s->n_past++ % AHEAD] = (past){s->time, s->live + bytes};
    s->compute += u->seconds[i];
    s->time += u->seconds[i] + s->plan->speed.machine.step_seconds;
    for (uint32_t n = stage->first; n < stage->first + stage->count; n++) PLIM_TRY(emit(s, n, false));
    for (uint32_t k = u->in.from[i]; k < u->in.from[i + 1]; k++) s->next[u->in.item[k]]++;
    for (uint32_t k = u->out.from[i]; k < u->out.from[i + 1]; k++) {
        const uint32_t v = u->out.item[k];
        enter(s, v, s->local[v]);
        s->made_at[v] = s->time;
        if (u->store[v].seconds > 0) use_disk(s, u->store[v], s->time);
        if (needed_later(s, v) || s->u->stays[v]) continue;
        s->pins[v]++;
        s->leaving[s->n_leaving++] = v;
    }
    for_states_of(s, stage, mark_gone);
    unpin(s, &u->in, i);
    let_go_of_written(s);
    return PLIM_OK;
}

/* Begins a trip through group g, whose tasks end before position `end`. */
static void enter_group(sim *s, uint32_t g, uint32_t end, uint64_t limit)
{
    PLIM_ASSERT(s->live == 0 && s->n_resident == 0 && s->n_left == 0 && s->n_leaving == 0); /* nothing of a group outlives its trip */
    PLIM_ASSERT(g < s->u->n_groups && s->now <= end && end <= s->u->n);
    s->end = end;
    s->carried = s->u->carried[g];
    s->fits &= s->carried <= limit;
    s->limit = s->fits ? limit - s->carried : 0;
    s->compute = s->disk = s->disk_done = s->time = 0;
    s->n_past = 0;
    if (s->carried > s->s->peak) s->s->peak = s->carried;
}

/* Ends the trip: writing has ended, and what is free is dropped. Adds what the group takes, all trips together: what goes through rings is read and
 * written while other trips compute; of the rest of what is carried nothing is hidden. */
static void leave_group(sim *s, uint32_t g)
{
    const plim__tasks *u = s->u;
    for (int k = 0; k < 2; k++) let_go_of_written(s);
    for (uint32_t v = 0; v < u->pass->n_values && u->n_groups > 1; v++)
        if (!u->is_carried[v]) {
            PLIM_ASSERT(s->pins[v] == 0 || !s->fits);
            leave(s, v);
            s->instance[v] = PLIM__NONE;
        }
    const double threads = s->time + u->ring[g].cpu + u->still[g].cpu + u->still[g].latency, disk = s->disk + u->ring[g].seconds + u->still[g].seconds;
    s->s->seconds += u->trips[g] * fmax(fmax(threads, s->disk_done), disk);
    s->s->least += u->trips[g] * fmax(s->compute, disk);
}

/* Positions of the uses, from the order. */
static void place_uses(sim *s, const uint32_t *order)
{
    const plim__tasks *u = s->u;
    memcpy(s->next, u->uses.from, u->pass->n_values * sizeof *s->next);
    for (uint32_t t = 0; t < u->n; t++)
        for (uint32_t k = u->in.from[order[t]]; k < u->in.from[order[t] + 1]; k++) s->use_at[s->next[u->in.item[k]]++] = t;
    memcpy(s->next, u->uses.from, u->pass->n_values * sizeof *s->next);
}

/* Tasks come in an order in which what they read is made, so what is behind a value is known before it. */
static void find_doom(sim *s, const uint32_t *order)
{
    const plim__tasks *u = s->u;
    memset(s->doomed, 0xff, u->pass->n_values * sizeof *s->doomed);
    for (s->now = 0; s->now < u->n; s->now++) for_states_of(s, &u->pass->stage[order[s->now]], doom);
    for (uint32_t t = 0; t < u->n; t++)
        for (uint32_t k = u->out.from[order[t]]; k < u->out.from[order[t] + 1]; k++) {
            const uint32_t v = u->out.item[k];
            for (uint32_t i = u->remake_in.from[v]; i < u->remake_in.from[v + 1]; i++) {
                const uint32_t behind = s->doomed[u->remake_in.item[i]];
                if (behind < s->doomed[v]) s->doomed[v] = behind;
            }
        }
}

static plim_status new_sim(sim *s)
{
    const plim__alloc *a = &s->plan->alloc;
    const uint32_t n = s->u->pass->n_values;
    s->use_at = plim__new(a, s->u->uses.n_items, sizeof *s->use_at, s->err);
    uint32_t **tables[] = {&s->next, &s->instance, &s->local, &s->pins, &s->where, &s->resident, &s->leaving, &s->left, &s->doomed, &s->spilled,
                           &s->taken};
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        *tables[i] = plim__new(a, n, sizeof **tables[i], s->err);
        if (!*tables[i]) return PLIM_E_NOMEM;
    }
    s->gone = plim__new(a, n, sizeof *s->gone, s->err);
    s->made_at = plim__new(a, n, sizeof *s->made_at, s->err);
    s->lost = plim__new(a, n, sizeof *s->lost, s->err);
    if (!s->use_at || !s->gone || !s->lost || !s->made_at) return PLIM_E_NOMEM;
    uint32_t *none[] = {s->instance, s->local, s->where, s->spilled};
    for (uint32_t i = 0; i < sizeof none / sizeof *none; i++) memset(none[i], 0xff, n * sizeof *none[i]);
    return PLIM_OK;
}

static void free_sim(sim *s)
{
    const plim__alloc *a = &s->plan->alloc;
    void *tables[] = {s->use_at, s->next, s->instance, s->local, s->pins, s->where, s->resident, s->leaving, s->left, s->doomed,
                      s->spilled, s->taken, s->gone, s->lost, s->made_at};
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) plim__free(a, tables[i]);
}

/* The tasks of group g, from position `now` on. */
static plim_status run_group(sim *s, uint32_t g, const uint32_t *order, uint64_t limit)
{
    uint32_t end = s->now;
    while (end < s->u->n && s->u->group[order[end]] == g) end++;
    enter_group(s, g, end, limit);
    for (; s->now < end && s->fits; s->now++) PLIM_TRY(run_task(s, order[s->now]));
    leave_group(s, g);
    return PLIM_OK;
}

plim_status plim__keep(plim__schedule *out, bool *fits, const plim_plan *plan, const plim__tasks *u, const uint32_t *order, uint64_t limit,
                       plim_error *err)
{
    *out = (plim__schedule){0};
    sim s = {.plan = plan, .g = plan->graph, .u = u, .s = out, .fits = true, .err = err};
    plim_status status = new_sim(&s);
    if (status == PLIM_OK) {
        place_uses(&s, order);
        find_doom(&s, order);
        s.now = 0;
    }
    for (uint32_t g = 0; g < u->n_groups && status == PLIM_OK && s.fits; g++) status = run_group(&s, g, order, limit);
    PLIM_ASSERT(status != PLIM_OK || !s.fits || (s.now == u->n && out->peak <= limit));
    PLIM_ASSERT(out->least <= out->seconds * (1 + 1e-6)); /* but for rounding: waiting takes no less than no time */
    *fits = status == PLIM_OK && s.fits;
    out->seconds += plim__touch_seconds(plan, out->peak);
    out->least += plim__touch_seconds(plan, out->peak);
    free_sim(&s);
    if (!*fits) plim__schedule_free(out, &plan->alloc);
    return status;
}

void plim__schedule_free(plim__schedule *s, const plim__alloc *a)
{
    plim__free(a, s->item);
    plim__free(a, s->instance);
    plim__free(a, s->operand);
    *s = (plim__schedule){0};
}
