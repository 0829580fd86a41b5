#include "plan/tasks.h"
#include "core/size.h"

#include <string.h>

typedef struct maker {
    plim__tasks *u;
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    const double *node_seconds;
    uint32_t *seen;  /* per value: the list that it was put into last */
    bool *wanted;    /* per node of the pass: scratch */
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

static plim_status list_task(maker *k, uint32_t i)
{
    const plim__stage *s = &k->p->stage[i];
    plim__tasks *u = k->u;
    for (uint32_t n = s->first; n < s->first + s->count; n++) {
        const plim__pnode *x = &k->p->node[n];
        for (uint32_t j = 0; j < k->g->node[x->node].n_in; j++) {
            const plim__pvalue *v = &k->p->value[k->p->operand[x->in0 + j]];
            if (takes_memory(v)) PLIM_TRY(add_value(k, &u->in, v->value, i));
        }
        for (uint32_t j = 0; j < k->g->node[x->node].n_out; j++)
            if (takes_memory(&k->p->value[x->out[j]])) PLIM_TRY(add(k, &u->out, k->g->node[x->node].out[j]));
        u->seconds[i] += k->node_seconds[x->node];
    }
    close_list(&u->in);
    close_list(&u->out);
    return PLIM_OK;
}

static void size_values(maker *k, const plim__measure *m)
{
    plim__tasks *u = k->u;
    for (uint32_t i = 0; i < k->p->n_values; i++) {
        const plim__pvalue *v = &k->p->value[i];
        if (!takes_memory(v)) continue;
        if (!v->foreign) u->bytes[v->value] = plim__round_up(m->slot[v->slot].bytes * m->slot[v->slot].copies, PLIM__IO_ALIGN);
        if (v->producer != PLIM__NONE) u->maker[v->value] = k->p->node[v->producer].stage;
    }
    for (uint32_t i = 0; i < k->p->n_nodes; i++) {
        const plim__pnode *x = &k->p->node[i];
        if (x->copies_slot != PLIM__NONE)
            u->extra[x->stage] += plim__round_up(m->slot[x->copies_slot].bytes * m->slot[x->copies_slot].copies, PLIM__IO_ALIGN);
    }
    for (uint32_t i = 0; i < k->p->n_stages; i++) {
        const plim__stage *s = &k->p->stage[i];
        if (s->slot != PLIM__NONE) u->extra[i] += plim__round_up(m->slot[s->slot].bytes * m->slot[s->slot].copies, PLIM__IO_ALIGN);
    }
}

/* Units that read each value: counted one place too far to the right, so that filling in moves each to where it belongs. */
static plim_status list_uses(maker *k)
{
    plim__tasks *u = k->u;
    plim__lists *l = &u->uses;
    const uint32_t n = k->g->n_values;
    l->from = plim__new(&k->plan->alloc, (uint64_t)n + 2, sizeof *l->from, k->err);
    l->item = plim__new(&k->plan->alloc, u->in.n_items, sizeof *l->item, k->err);
    if (!l->from || !l->item) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < u->in.n_items; i++) l->from[u->in.item[i] + 2]++;
    for (uint32_t v = 0; v < n; v++) l->from[v + 2] += l->from[v + 1];
    for (uint32_t i = 0; i < u->n; i++)
        for (uint32_t j = u->in.from[i]; j < u->in.from[i + 1]; j++) l->item[l->from[u->in.item[j] + 1]++] = i;
    l->n = n;
    l->n_items = u->in.n_items;
    return PLIM_OK;
}

/* What overwrites a state comes after everybody who reads it. */
static plim_status list_after(maker *k)
{
    plim__tasks *u = k->u;
    for (uint32_t i = 0; i < u->n; i++) {
        for (uint32_t j = u->out.from[i]; j < u->out.from[i + 1]; j++) {
            const uint32_t state = k->plan->replaces[u->out.item[j]];
            if (state == PLIM__NONE) continue;
            const uint32_t in = k->g->state[state].in;
            for (uint32_t w = u->uses.from[in]; w < u->uses.from[in + 1]; w++)
                if (u->uses.item[w] != i) PLIM_TRY(add(k, &u->after, u->uses.item[w]));
        }
        close_list(&u->after);
    }
    return PLIM_OK;
}

/* The nodes of its task that value v needs, and what they read: backwards through what is private to the task. */
static plim_status list_remake(maker *k, uint32_t v, uint32_t mark)
{
    plim__tasks *u = k->u;
    const uint32_t task = u->maker[v];
    if (task != PLIM__NONE) {
        const plim__stage *s = &k->p->stage[task];
        const uint32_t end = s->first + s->count;
        memset(&k->wanted[s->first], 0, s->count * sizeof *k->wanted);
        for (uint32_t i = end; i-- > s->first;) {
            const plim__pnode *x = &k->p->node[i];
            for (uint32_t j = 0; j < k->g->node[x->node].n_out; j++) k->wanted[i] |= k->g->node[x->node].out[j] == v;
            for (uint32_t j = 0; j < k->g->node[x->node].n_in && k->wanted[i]; j++) {
                const plim__pvalue *in = &k->p->value[k->p->operand[x->in0 + j]];
                if (in->role == PLIM__ROLE_PRIVATE) k->wanted[in->producer] = true;
                else if (takes_memory(in)) PLIM_TRY(add_value(k, &u->remake_in, in->value, mark));
            }
        }
        for (uint32_t i = s->first; i < end; i++) {
            if (!k->wanted[i]) continue;
            PLIM_TRY(add(k, &u->remake, i));
            u->remake_seconds[v] += k->node_seconds[k->p->node[i].node];
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
    const uint32_t values = k->g->n_values;
    u->extra = plim__new(a, u->n, sizeof *u->extra, k->err);
    u->seconds = plim__new(a, u->n, sizeof *u->seconds, k->err);
    u->bytes = plim__new(a, values, sizeof *u->bytes, k->err);
    u->maker = plim__new(a, values, sizeof *u->maker, k->err);
    u->remake_seconds = plim__new(a, values, sizeof *u->remake_seconds, k->err);
    k->seen = plim__new(a, values, sizeof *k->seen, k->err);
    k->wanted = plim__new(a, k->p->n_nodes, sizeof *k->wanted, k->err);
    u->stays = plim__new(a, values, sizeof *u->stays, k->err);
    if (!u->extra || !u->seconds || !u->bytes || !u->maker || !u->stays || !u->remake_seconds || !k->seen || !k->wanted) return PLIM_E_NOMEM;
    memset(u->maker, 0xff, values * sizeof *u->maker);
    for (uint32_t v = 0; v < values; v++) u->stays[v] = k->plan->is_output[v] && k->plan->write_file[v] == PLIM__NONE;
    memset(k->seen, 0xff, values * sizeof *k->seen);
    PLIM_TRY(new_lists(&u->in, u->n, a, k->err));
    PLIM_TRY(new_lists(&u->out, u->n, a, k->err));
    PLIM_TRY(new_lists(&u->after, u->n, a, k->err));
    PLIM_TRY(new_lists(&u->remake, values, a, k->err));
    return new_lists(&u->remake_in, values, a, k->err);
}

static plim_status fill(maker *k, const plim__measure *m)
{
    PLIM_TRY(new_tables(k));
    size_values(k, m);
    for (uint32_t i = 0; i < k->u->n; i++) PLIM_TRY(list_task(k, i));
    PLIM_TRY(list_uses(k));
    PLIM_TRY(list_after(k));
    for (uint32_t v = 0; v < k->g->n_values; v++) PLIM_TRY(list_remake(k, v, k->u->n + v));
    return PLIM_OK;
}

plim_status plim__tasks_new(plim__tasks *u, const plim_plan *plan, const plim__pass *p, const plim__measure *m, const double *seconds, plim_error *err)
{
    PLIM_ASSERT(p->n_cut == 0);
    *u = (plim__tasks){.pass = p, .n = p->n_stages};
    maker k = {.u = u, .plan = plan, .g = plan->graph, .p = p, .node_seconds = seconds, .err = err};
    const plim_status status = fill(&k, m);
    plim__free(&plan->alloc, k.seen);
    plim__free(&plan->alloc, k.wanted);
    if (status != PLIM_OK) plim__tasks_free(u, &plan->alloc);
    return status;
}

void plim__tasks_free(plim__tasks *u, const plim__alloc *a)
{
    free_lists(&u->in, a);
    free_lists(&u->out, a);
    free_lists(&u->after, a);
    free_lists(&u->uses, a);
    free_lists(&u->remake, a);
    free_lists(&u->remake_in, a);
    plim__free(a, u->extra);
    plim__free(a, u->seconds);
    plim__free(a, u->bytes);
    plim__free(a, u->maker);
    plim__free(a, u->stays);
    plim__free(a, u->remake_seconds);
    *u = (plim__tasks){0};
}
