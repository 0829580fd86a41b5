/* Lists by counting and appending; nothing here chooses an order or what is kept. The tables come from the plan's allocator. */
#include "plan/tasks.h"
#include "core/size.h"
#include "plan/cost.h"
#include "plan/inplace.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct maker {
    plim__tasks *u;
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    const plim__measure *m;
    double *node_seconds; /* per node of the pass, in one trip */
    uint32_t *seen;  /* per value: the list that it was put into last */
    bool *wanted;    /* per node of the pass: scratch */
    uint32_t *readers; /* per value: set of groups that read it */
    plim_error *err;
} maker;

/* ---------------------------------------------------------------------------------------------------- lists */

static plim_status new_lists(plim__lists *l, uint32_t n, const plim__alloc *a, plim_error *err)
{
    l->from = plim__new(a, (uint64_t)n + 1, sizeof *l->from, err);
    return l->from ? PLIM_OK : PLIM_E_NOMEM;
}

static plim_status add(const maker *k, plim__lists *l, uint32_t item)
{
    PLIM_TRY(plim__grow(&k->plan->alloc, (void **)&l->item, &l->cap_items, l->n_items + 1, sizeof *l->item, k->err));
    l->item[l->n_items++] = item;
    return PLIM_OK;
}

/* Ends the list that was being added to. */
static void close_list(plim__lists *l)
{
    l->from[++l->n] = l->n_items;
}

static void free_lists(plim__lists *l, const plim__alloc *a)
{
    plim__free(a, l->from);
    plim__free(a, l->item);
}

/* ---------------------------------------------------------------------------------------------------- tasks */

/* Once per list. */
static plim_status add_value(maker *k, plim__lists *l, uint32_t value, uint32_t mark)
{
    if (k->seen[value] == mark) return PLIM_OK;
    k->seen[value] = mark;
    return add(k, l, value);
}

static bool takes_memory(const plim__pvalue *v)
{
    return v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE;
}

static bool is_free(const maker *k, uint32_t v) { return takes_memory(&k->p->value[v]) && !k->u->is_carried[v]; }

/* Bytes of a slot in the arena, copies included. */
static uint64_t slot_bytes(const maker *k, uint32_t slot)
{
    PLIM_ASSERT(slot < k->m->n_slots && k->m->slot[slot].copies >= 1);
    return plim__round_up(k->m->slot[slot].bytes * k->m->slot[slot].copies, PLIM__IO_ALIGN);
}

/* Bytes that a value has a slot for: of one that lies in another one's ring, one copy. */
static uint64_t value_bytes(const maker *k, uint32_t v)
{
    const plim__pvalue *x = &k->p->value[v];
    PLIM_ASSERT(!x->foreign && takes_memory(x));
    return x->alias_of == PLIM__NONE ? slot_bytes(k, x->slot) : plim__round_up(k->m->slot[x->slot].bytes, PLIM__IO_ALIGN);
}

static uint32_t group_of_node(const maker *k, uint32_t i)
{
    return plim__group_of(k->p, k->p->node[i].depth, k->p->node[i].post);
}

/* ------------------------------------------------------------------------------------------------- what is carried */

static void find_readers(maker *k)
{
    for (uint32_t i = 0; i < k->p->n_nodes; i++)
        for (uint32_t j = 0; j < k->g->node[k->p->node[i].node].n_in; j++) k->readers[k->p->operand[k->p->node[i].in0 + j]] |= 1u << group_of_node(k, i);
}

static uint32_t first_group(uint32_t set)
{
    PLIM_ASSERT(set != 0); /* neither end of an empty set is defined */
    return (uint32_t)__builtin_ctz(set);
}

static uint32_t last_group(uint32_t set)
{
    PLIM_ASSERT(set != 0);
    return 31 - (uint32_t)__builtin_clz(set);
}

/* Carries `bytes` through groups first to last. What is used in loops deeper than it is made or read lives until these loops have ended. */
static void carry(maker *k, uint64_t bytes, uint32_t first, uint32_t last)
{
    PLIM_ASSERT(first <= last && last < k->u->n_groups);
    const uint32_t n_cut = k->p->n_cut, depth = first <= n_cut ? first : 2 * n_cut - first;
    if (last > first && depth < n_cut && last < 2 * n_cut - depth) last = 2 * n_cut - depth - 1;
    for (uint32_t g = first; g <= last; g++) k->u->carried[g] += bytes;
}

/* Of a file that the loops do not move and a group inside them reads, or several groups do: is it worth reading once? */
typedef struct shared_file {
    uint32_t value;
    uint64_t bytes;
} shared_file;

static int smaller_file(const void *a, const void *b)
{
    const shared_file *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* The first group that has a file in memory for all of its readers: where the loops that move it have been entered. */
static uint32_t entry_group(const maker *k, uint32_t v)
{
    const uint32_t first = first_group(k->readers[v]), depth = k->p->value[v].depth;
    return first < depth || first > k->p->n_cut ? first : depth;
}

static bool is_shared(const maker *k, uint32_t v)
{
    const uint32_t set = k->readers[v];
    return set && ((set & (set - 1)) || entry_group(k, v) != first_group(set));
}

static plim_status choose_resident(maker *k, uint64_t resident)
{
    const plim__pass *p = k->p;
    shared_file *file = plim__new(&k->plan->alloc, p->n_values, sizeof *file, k->err);
    if (!file) return PLIM_E_NOMEM;
    uint32_t n = 0;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->value[v].role == PLIM__ROLE_READ && !k->u->is_carried[v] && is_shared(k, v)) file[n++] = (shared_file){v, slot_bytes(k, p->value[v].slot)};
    if (n > 1) qsort(file, n, sizeof *file, smaller_file);
    uint64_t taken = 0;
    uint32_t i = 0;
    for (; i < n && file[i].bytes <= resident - taken; i++) {
        taken += file[i].bytes;
        k->u->is_carried[file[i].value] = true;
        carry(k, file[i].bytes, entry_group(k, file[i].value), last_group(k->readers[file[i].value]));
    }
    if (i < n) k->u->left_out = taken + file[i].bytes;
    PLIM_ASSERT(taken <= resident && k->u->left_out > taken);
    plim__free(&k->plan->alloc, file);
    return PLIM_OK;
}

/* What loops combine, keep whole or turn round in rings, and what is made in one group for another. */
static void find_carried(maker *k, uint32_t v)
{
    const plim__pass *p = k->p;
    const plim__pvalue *x = &p->value[v];
    const uint32_t last = k->u->n_groups - 1;
    if (!takes_memory(x) || x->foreign) return;
    const bool is_ring = k->m->slot[x->slot].copies > 1 && x->alias_of == PLIM__NONE;
    PLIM_ASSERT(!is_ring || (p->n_cut > 0 && !x->flat && (x->role == PLIM__ROLE_READ || x->role == PLIM__ROLE_WRITE))); /* what is made takes no turns */
    const uint64_t bytes = value_bytes(k, v);
    const plim__pnode *by = x->producer == PLIM__NONE ? NULL : &p->node[x->producer];
    if (x->role == PLIM__ROLE_WHOLE || is_ring || x->ahead || x->beside) {
        k->u->is_carried[v] = true;
        carry(k, bytes, 0, last);
    } else if (by && by->accumulates) {
        PLIM_ASSERT(by->acc_depth < by->depth && (!k->readers[v] || first_group(k->readers[v]) > p->n_cut)); /* read behind the loops only: I5 */
        const uint32_t merged = plim__group_of(p, by->acc_depth, true), read = k->readers[v] ? last_group(k->readers[v]) : 0;
        k->u->is_carried[v] = true;
        carry(k, bytes, by->acc_depth, read > merged ? read : merged);
    } else if (by && k->readers[v] & ~(1u << group_of_node(k, x->producer))) {
        k->u->is_carried[v] = true;
        carry(k, bytes, group_of_node(k, x->producer), last_group(k->readers[v]));
    }
}

static plim_status list_carried(maker *k, uint64_t resident)
{
    const plim__pass *p = k->p;
    find_readers(k);
    if (p->n_cut == 0) return PLIM_OK; /* one group, and what stays to its end is known to the simulation */
    for (uint32_t v = 0; v < p->n_values; v++) find_carried(k, v);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].accumulates && p->node[i].copies_slot != PLIM__NONE)
            carry(k, slot_bytes(k, p->node[i].copies_slot), p->node[i].acc_depth, plim__group_of(p, p->node[i].acc_depth, true));
    return choose_resident(k, resident);
}

/* --------------------------------------------------------------------------------------------------- transfers */

static plim__task_transfer transfer_of(const maker *k, const plim__pvalue *v, bool write)
{
    double bytes;
    PLIM_ASSERT(v->file != PLIM__NONE || v->spill); /* the one has a file, the other will have one */
    const plim__box_cost cost = plim__transfer_cost(k->m, k->plan, k->p, v, write, &bytes);
    return (plim__task_transfer){cost.seconds, fmax(cost.seconds, cost.latency), cost.cpu / k->plan->threads};
}

/* What is carried is read and written at the steps of the pass, everything else when the simulation says so. */
static void price_transfers(maker *k)
{
    const plim__pass *p = k->p;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const plim__step *s = &p->step[t];
        if (s->kind != PLIM__STEP_READ && s->kind != PLIM__STEP_WRITE) continue;
        const plim__pvalue *v = &p->value[s->index];
        if (v->stored) continue; /* a copy inside the arena */
        const bool write = s->kind == PLIM__STEP_WRITE;
        const plim__task_transfer x = transfer_of(k, v, write);
        if (is_free(k, s->index)) {
            PLIM_ASSERT(k->m->slot[v->slot].copies == 1 || v->alias_of != PLIM__NONE); /* rings are carried */
            (write ? k->u->store : k->u->fetch)[s->index] = x;
            continue;
        }
        const uint32_t g = plim__group_of(p, s->depth, s->post);
        plim__task_transfer *sum = k->m->slot[v->slot].copies > 1 ? &k->u->ring[g] : &k->u->still[g];
        sum->seconds += x.seconds;
        sum->latency += x.latency;
        sum->cpu += x.cpu;
    }
}

/* ------------------------------------------------------------------------------------------------------- lists */

static plim_status list_task(maker *k, uint32_t i)
{
    const plim__stage *s = &k->p->stage[i];
    plim__tasks *u = k->u;
    u->group[i] = (uint8_t)plim__group_of(k->p, s->depth, s->post);
    PLIM_ASSERT(u->group[i] < u->n_groups && s->count > 0);
    u->seconds[i] = plim__stage_seconds(k->m, k->plan, k->p, s);
    for (uint32_t n = s->first; n < s->first + s->count; n++) {
        const plim__pnode *x = &k->p->node[n];
        for (uint32_t j = 0; j < k->g->node[x->node].n_in; j++) {
            const uint32_t v = k->p->operand[x->in0 + j];
            if (is_free(k, v)) PLIM_TRY(add_value(k, &u->in, v, i));
        }
        for (uint32_t j = 0; j < k->g->node[x->node].n_out; j++)
            if (is_free(k, x->out[j])) PLIM_TRY(add(k, &u->out, x->out[j]));
        PLIM_ASSERT(x->stage == i && k->p->value[x->out[0]].producer == n);
    }
    close_list(&u->in);
    close_list(&u->out);
    return PLIM_OK;
}

static void size_values(maker *k)
{
    plim__tasks *u = k->u;
    const plim__pass *p = k->p;
    for (uint32_t v = 0; v < p->n_values; v++) {
        if (!takes_memory(&p->value[v])) continue;
        PLIM_ASSERT(!p->value[v].foreign || !k->u->is_carried[v]); /* no group of this pass pays for a slot that is none of it */
        if (!p->value[v].foreign && !k->u->is_carried[v]) u->bytes[v] = value_bytes(k, v);
        if (p->value[v].producer != PLIM__NONE) u->maker[v] = p->node[p->value[v].producer].stage;
        u->stays[v] = p->n_cut == 0 && k->plan->is_output[p->value[v].value] && k->plan->write_file[p->value[v].value] == PLIM__NONE;
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].copies_slot != PLIM__NONE && !p->node[i].accumulates) u->extra[p->node[i].stage] += slot_bytes(k, p->node[i].copies_slot);
    for (uint32_t i = 0; i < p->n_stages; i++)
        if (p->stage[i].slot != PLIM__NONE) u->extra[i] += slot_bytes(k, p->stage[i].slot);
}

/* Tasks that read each value: a counting sort, its offsets shifted by one so that filling in moves each to where it belongs. */
static plim_status list_uses(maker *k)
{
    plim__tasks *u = k->u;
    plim__lists *l = &u->uses;
    const uint32_t n = k->p->n_values;
    l->from = plim__new(&k->plan->alloc, (uint64_t)n + 2, sizeof *l->from, k->err);
    l->item = plim__new(&k->plan->alloc, u->in.n_items, sizeof *l->item, k->err);
    if (!l->from || !l->item) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < u->in.n_items; i++) l->from[u->in.item[i] + 2]++;
    for (uint32_t v = 0; v < n; v++) l->from[v + 2] += l->from[v + 1];
    for (uint32_t i = 0; i < u->n; i++)
        for (uint32_t j = u->in.from[i]; j < u->in.from[i + 1]; j++) l->item[l->from[u->in.item[j] + 1]++] = i;
    PLIM_ASSERT(l->from[0] == 0 && l->from[n] == u->in.n_items);
    l->n = n;
    l->n_items = u->in.n_items;
    return PLIM_OK;
}

/* The values of the pass that are boxes of each value of the graph: chains, in the pass's order. */
static void list_boxes(maker *k)
{
    plim__tasks *u = k->u;
    memset(u->first_of, 0xff, k->g->n_values * sizeof *u->first_of);
    for (uint32_t v = k->p->n_values; v-- > 0;) {
        u->next_of[v] = u->first_of[k->p->value[v].value];
        u->first_of[k->p->value[v].value] = v;
    }
}

/* What overwrites a state comes after everybody who reads it. */
static plim_status list_after(maker *k)
{
    plim__tasks *u = k->u;
    for (uint32_t i = 0; i < u->n; i++) {
        for (uint32_t j = u->out.from[i]; j < u->out.from[i + 1]; j++) {
            const uint32_t state = k->plan->replaces[k->p->value[u->out.item[j]].value];
            if (state == PLIM__NONE) continue;
            for (uint32_t in = u->first_of[k->g->state[state].in]; in != PLIM__NONE; in = u->next_of[in])
                for (uint32_t w = u->uses.from[in]; w < u->uses.from[in + 1]; w++)
                    if (u->uses.item[w] != i) PLIM_TRY(add(k, &u->after, u->uses.item[w]));
        }
        close_list(&u->after);
    }
    return PLIM_OK;
}

/* Inputs of their tasks that values may take the place of. */
static plim_status list_over(maker *k)
{
    plim__sharing x;
    plim_status status = plim__sharing_new(&x, k->plan, k->p, k->err);
    for (uint32_t v = 0; v < k->p->n_values && status == PLIM_OK; v++) {
        uint32_t in[PLIM__MAX_OVERWRITABLE];
        const uint32_t n = is_free(k, v) && k->u->bytes[v] > 0 ? plim__sharing_find(&x, v, in) : 0;
        for (uint32_t i = 0; i < n && status == PLIM_OK; i++)
            if (is_free(k, in[i])) {
                PLIM_ASSERT(in[i] != v && k->u->maker[in[i]] != k->u->maker[v]); /* an input of the task, made before it */
                status = add(k, &k->u->over, in[i]);
            }
        close_list(&k->u->over);
    }
    plim__sharing_free(&x, &k->plan->alloc);
    return status;
}

/* The nodes of its task that value v needs, and what they read: backwards through what is private to the task. */
static plim_status list_remake(maker *k, uint32_t v, uint32_t mark)
{
    plim__tasks *u = k->u;
    const uint32_t task = u->maker[v];
    if (task != PLIM__NONE && is_free(k, v)) {
        const plim__stage *s = &k->p->stage[task];
        const uint32_t end = s->first + s->count;
        PLIM_ASSERT(k->p->value[v].producer >= s->first && k->p->value[v].producer < end);
        memset(&k->wanted[s->first], 0, s->count * sizeof *k->wanted);
        for (uint32_t i = end; i-- > s->first;) {
            const plim__pnode *x = &k->p->node[i];
            for (uint32_t j = 0; j < k->g->node[x->node].n_out; j++) k->wanted[i] |= x->out[j] == v;
            for (uint32_t j = 0; j < k->g->node[x->node].n_in && k->wanted[i]; j++) {
                const uint32_t in = k->p->operand[x->in0 + j];
                PLIM_ASSERT(k->p->value[in].role != PLIM__ROLE_PRIVATE || (k->p->value[in].producer >= s->first && k->p->value[in].producer < i));
                if (k->p->value[in].role == PLIM__ROLE_PRIVATE) k->wanted[k->p->value[in].producer] = true;
                else if (is_free(k, in)) PLIM_TRY(add_value(k, &u->remake_in, in, mark));
            }
        }
        for (uint32_t i = s->first; i < end; i++) {
            if (!k->wanted[i]) continue;
            PLIM_TRY(add(k, &u->remake, i));
            u->remake_seconds[v] += k->p->node[i].accumulates ? INFINITY : k->node_seconds[i];
        }
    }
    close_list(&u->remake);
    close_list(&u->remake_in);
    return PLIM_OK;
}

static plim_status new_tables(maker *k)
{
    plim__tasks *u = k->u;
    const plim__alloc *a = &k->plan->alloc;
    const uint32_t values = k->p->n_values;
    u->group = plim__new(a, u->n, sizeof *u->group, k->err);
    u->extra = plim__new(a, u->n, sizeof *u->extra, k->err);
    u->seconds = plim__new(a, u->n, sizeof *u->seconds, k->err);
    u->bytes = plim__new(a, values, sizeof *u->bytes, k->err);
    u->maker = plim__new(a, values, sizeof *u->maker, k->err);
    u->remake_seconds = plim__new(a, values, sizeof *u->remake_seconds, k->err);
    u->stays = plim__new(a, values, sizeof *u->stays, k->err);
    u->fetch = plim__new(a, values, sizeof *u->fetch, k->err);
    u->store = plim__new(a, values, sizeof *u->store, k->err);
    k->seen = plim__new(a, values, sizeof *k->seen, k->err);
    k->readers = plim__new(a, values, sizeof *k->readers, k->err);
    u->is_carried = plim__new(a, values, sizeof *u->is_carried, k->err);
    u->next_of = plim__new(a, values, sizeof *u->next_of, k->err);
    u->first_of = plim__new(a, k->g->n_values, sizeof *u->first_of, k->err);
    k->wanted = plim__new(a, k->p->n_nodes, sizeof *k->wanted, k->err);
    k->node_seconds = plim__new(a, k->p->n_nodes, sizeof *k->node_seconds, k->err);
    if (!u->group || !u->extra || !u->seconds || !u->bytes || !u->maker || !u->stays || !u->fetch || !u->store || !u->remake_seconds || !k->seen ||
        !k->readers || !u->is_carried || !u->next_of || !u->first_of || !k->wanted || !k->node_seconds)
        return PLIM_E_NOMEM;
    memset(u->maker, 0xff, values * sizeof *u->maker);
    memset(k->seen, 0xff, values * sizeof *k->seen);
    PLIM_TRY(new_lists(&u->in, u->n, a, k->err));
    PLIM_TRY(new_lists(&u->out, u->n, a, k->err));
    PLIM_TRY(new_lists(&u->after, u->n, a, k->err));
    PLIM_TRY(new_lists(&u->over, values, a, k->err));
    PLIM_TRY(new_lists(&u->remake, values, a, k->err));
    return new_lists(&u->remake_in, values, a, k->err);
}

/* How often each group runs, and what each node takes in one trip. */
static void measure_groups(maker *k)
{
    const plim__pass *p = k->p;
    for (uint32_t g = 0; g < k->u->n_groups; g++) {
        k->u->trips[g] = 1;
        for (uint32_t l = 0; l < (g <= p->n_cut ? g : 2 * p->n_cut - g); l++) k->u->trips[g] *= (double)plim__loop_trips(&p->loop[l]);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) k->node_seconds[i] = plim__pnode_seconds(k->m, k->plan, p, &p->node[i]);
}

static plim_status fill(maker *k, uint64_t resident)
{
    PLIM_TRY(new_tables(k));
    measure_groups(k);
    PLIM_TRY(list_carried(k, resident));
    size_values(k);
    price_transfers(k);
    for (uint32_t i = 0; i < k->u->n; i++) PLIM_TRY(list_task(k, i));
    PLIM_TRY(list_uses(k));
    list_boxes(k);
    PLIM_TRY(list_after(k));
    PLIM_TRY(list_over(k));
    for (uint32_t v = 0; v < k->p->n_values; v++) PLIM_TRY(list_remake(k, v, k->u->n + v));
    return PLIM_OK;
}

plim_status plim__tasks_new(plim__tasks *u, const plim_plan *plan, const plim__pass *p, const plim__measure *m, uint64_t resident, plim_error *err)
{
    *u = (plim__tasks){.pass = p, .n = p->n_stages, .n_groups = 2 * p->n_cut + 1, .left_out = UINT64_MAX};
    maker k = {.u = u, .plan = plan, .g = plan->graph, .p = p, .m = m, .err = err};
    const plim_status status = fill(&k, resident);
    void *tables[] = {k.seen, k.readers, k.wanted, k.node_seconds};
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) plim__free(&plan->alloc, tables[i]);
    if (status != PLIM_OK) plim__tasks_free(u, &plan->alloc);
    return status;
}

void plim__tasks_by_group(uint32_t *order, const plim__tasks *u)
{
    uint32_t n = 0;
    for (uint32_t g = 0; g < u->n_groups; g++)
        for (uint32_t i = 0; i < u->n; i++)
            if (u->group[i] == g) order[n++] = i;
    PLIM_ASSERT(n == u->n);
}

/* Bytes of the outputs of task i, but for those that may take the place of an input. */
static uint64_t least_output_bytes(const plim__tasks *u, uint32_t i)
{
    uint64_t bytes = 0;
    for (uint32_t k = u->out.from[i]; k < u->out.from[i + 1]; k++) {
        const uint32_t v = u->out.item[k];
        uint64_t shared = 0;
        for (uint32_t o = u->over.from[v]; o < u->over.from[v + 1]; o++) shared = u->bytes[u->over.item[o]] > shared ? u->bytes[u->over.item[o]] : shared;
        bytes += u->bytes[v] > shared ? u->bytes[v] - shared : 0;
    }
    return bytes;
}

uint64_t plim__tasks_largest(const plim__tasks *u)
{
    uint64_t most = 0;
    for (uint32_t g = 0; g < u->n_groups; g++) most = u->carried[g] > most ? u->carried[g] : most;
    for (uint32_t i = 0; i < u->n; i++) {
        uint64_t bytes = u->extra[i] + u->carried[u->group[i]];
        for (uint32_t k = u->in.from[i]; k < u->in.from[i + 1]; k++) bytes += u->bytes[u->in.item[k]];
        bytes += least_output_bytes(u, i);
        most = bytes > most ? bytes : most;
    }
    return most;
}

void plim__tasks_free(plim__tasks *u, const plim__alloc *a)
{
    free_lists(&u->in, a);
    free_lists(&u->out, a);
    free_lists(&u->after, a);
    free_lists(&u->uses, a);
    free_lists(&u->over, a);
    free_lists(&u->remake, a);
    free_lists(&u->remake_in, a);
    plim__free(a, u->group);
    plim__free(a, u->extra);
    plim__free(a, u->seconds);
    plim__free(a, u->bytes);
    plim__free(a, u->maker);
    plim__free(a, u->stays);
    plim__free(a, u->fetch);
    plim__free(a, u->store);
    plim__free(a, u->is_carried);
    plim__free(a, u->first_of);
    plim__free(a, u->next_of);
    plim__free(a, u->remake_seconds);
    *u = (plim__tasks){0};
}
