/* What the plan does, in words and numbers: the facts that reports show, and the schedule as text.
 *
 * Takes a finished plan: settled (what is spilled has its file) and packed, as the verifier has accepted it. Changes its
 * facts and nothing else; texts go to the caller's buffer, cut where it ends. Allocates scratch and frees it; one thread. */
#include "plan/plan.h"
#include "core/dtype.h"
#include "plan/cost.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* The name that a person would use: the user's own, else the op's. */
static const char *name_of(const plim_graph *g, uint32_t v)
{
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->output[i].value == v && g->output[i].name[0]) return g->output[i].name;
    return g->value[v].name;
}

static void add_move(plim_facts *f, const char *kind, uint64_t parts, uint64_t saves, double costs, const char *fmt, ...)
{
    if (f->n_moves == PLIM_MAX_MOVES) return;
    plim_move *m = &f->move[f->n_moves++];
    *m = (plim_move){.parts = parts, .saves_bytes = saves, .costs_seconds = costs};
    snprintf(m->kind, sizeof m->kind, "%s", kind);
    va_list args;
    va_start(args, fmt);
    vsnprintf(m->what, sizeof m->what, fmt, args);
    va_end(args);
}

/* Bytes that the values of a pass would take whole, against what they take now. */
static uint64_t saved_by(const plim_plan *plan, const plim__pass *p)
{
    uint64_t whole = 0, now = 0;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        if (v->role == PLIM__ROLE_CONST || v->foreign) continue;
        whole += plan->graph->value[v->value].bytes;
        PLIM_ASSERT((v->role == PLIM__ROLE_PRIVATE) == (v->slot == PLIM__NONE));
        if (v->role != PLIM__ROLE_PRIVATE) now += plan->slot[v->slot].bytes * plan->slot[v->slot].copies;
    }
    for (uint32_t i = 0; i < p->n_stages; i++)
        if (p->stage[i].slot != PLIM__NONE) now += plan->slot[p->stage[i].slot].bytes * plan->slot[p->stage[i].slot].copies;
    return whole > now ? whole - now : 0;
}

/* Seconds of computing that a pass does more than once for being cut: halos, and what every trip makes anew. */
static double repeated_by(const plim_plan *plan, const plim__pass *p)
{
    double once = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) once += plim__node_seconds(plan, p->node[i].node);
    return p->compute > once ? p->compute - once : 0;
}

/* The value that gives a loop its name: the largest on a file that the loop moves. */
static void name_loop(const plim_plan *plan, const plim__pass *p, uint32_t loop, char *buf, size_t size)
{
    const plim_graph *g = plan->graph;
    uint64_t best = 0;
    PLIM_ASSERT(loop < p->n_cut); /* the others do not turn */
    snprintf(buf, size, "loop %u", loop);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t k = 0; k < g->node[n->node].n_in; k++) {
            const plim__pvalue *v = &p->value[p->operand[n->in0 + k]];
            plim__index index[PLIM_MAX_RANK];
            plim__op_row_of(g->node[n->node].op)->reads(g, &g->node[n->node], k, index);
            for (uint32_t d = 0; d < g->value[v->value].shape.rank; d++) {
                const bool moves = index[d].axis >= 0 && n->bind[index[d].axis] == (int)loop;
                const uint64_t weight = g->value[v->value].bytes * (v->role == PLIM__ROLE_READ ? 16 : 1);
                if (!moves || weight <= best) continue;
                best = weight;
                snprintf(buf, size, "axis %u of %s", d, name_of(g, v->value));
            }
        }
    }
}

/* What was done for a value to be away for a while, over all passes. */
typedef struct away {
    uint32_t times; /* that it came back */
    double seconds;
    bool spilled;
} away;

static void note_away(const plim_plan *plan, const plim__pass *p, away *values, double *remake)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        away *x = &values[v->value];
        const uint64_t bytes = g->value[v->value].bytes;
        PLIM_ASSERT(!v->spill || (v->file < plan->n_files && plan->file[v->file].kind == PLIM__FILE_SPILL));
        PLIM_ASSERT(!v->again || v->producer != PLIM__NONE);
        if (v->producer == PLIM__NONE && v->role == PLIM__ROLE_READ && plan->file[v->file].kind == PLIM__FILE_SPILL) {
            x->times++;
            x->seconds += plim__file_seconds(plan, bytes, false);
        } else if (v->spill) {
            x->spilled = true;
            x->seconds += plim__file_seconds(plan, bytes, true);
        } else if (v->again && v->role != PLIM__ROLE_PRIVATE) {
            x->times++;
            x->seconds += plim__node_seconds(plan, p->node[v->producer].node);
        }
        if (v->again && g->value[v->value].out == 0) *remake += plim__node_seconds(plan, p->node[v->producer].node);
    }
}

/* The largest values that are made again or put away, as far as there is room, and what is left of each kind as one. */
static void explain_away(plim_plan *plan, away *values, double remake)
{
    const plim_graph *g = plan->graph;
    plim_facts *f = &plan->facts;
    while (f->n_moves < PLIM_MAX_MOVES - 2) {
        uint32_t best = PLIM__NONE;
        for (uint32_t v = 0; v < g->n_values; v++)
            if ((values[v].times || values[v].spilled) && (best == PLIM__NONE || g->value[v].bytes > g->value[best].bytes)) best = v;
        if (best == PLIM__NONE) break;
        away *x = &values[best];
        add_move(f, x->spilled ? "spill" : "recompute", x->times, g->value[best].bytes, x->seconds, "%s", name_of(g, best));
        if (!x->spilled) remake -= x->seconds;
        *x = (away){0};
    }
    for (int spilled = 0; spilled < 2; spilled++) {
        uint64_t times = 0, bytes = 0;
        uint32_t n = 0;
        double seconds = spilled ? 0 : remake;
        for (uint32_t v = 0; v < g->n_values; v++) {
            const away *x = &values[v];
            if ((!x->times && !x->spilled) || x->spilled != spilled) continue;
            n++;
            times += x->times;
            bytes += g->value[v].bytes;
            if (spilled) seconds += x->seconds;
        }
        if (n > 0) add_move(f, spilled ? "spill" : "recompute", times, bytes, seconds, "%u smaller values", n);
    }
}

static plim_status explain_moves(plim_plan *plan, plim_error *err)
{
    plim_facts *f = &plan->facts;
    double remake = 0;
    away *values = plim__new(&plan->alloc, plan->graph->n_values, sizeof *values, err);
    if (!values) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        const plim__pass *p = &plan->pass[i];
        for (uint32_t l = 0; l < p->n_cut; l++) {
            char what[80];
            name_loop(plan, p, l, what, sizeof what);
            add_move(f, "split", (uint64_t)plim__loop_trips(&p->loop[l]), l == 0 ? saved_by(plan, p) : 0, l == 0 ? repeated_by(plan, p) : 0,
                     "%s, pass %u", what, i + 1);
        }
        note_away(plan, p, values, &remake);
    }
    explain_away(plan, values, remake);
    plim__free(&plan->alloc, values);
    return PLIM_OK;
}

static const char *why_of(const plim_plan *plan, const plim__pass *p, uint32_t slot)
{
    const plim__slot *s = &plan->slot[slot];
    if (s->value == PLIM__NONE) return "inside a stage, one block per thread";
    if (plim__slot_is_held(plan, slot)) return "stays in memory from run to run";
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        if (v->value != s->value || v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_PRIVATE) continue;
        switch (v->role) {
        case PLIM__ROLE_READ: return s->copies > 1 ? "read from its file, the next tiles ahead" : "read from its file";
        case PLIM__ROLE_WRITE: return s->copies > 1 ? "on its way to its file, several tiles" : "on its way to its file";
        case PLIM__ROLE_ACC: return "accumulated over the loop";
        case PLIM__ROLE_WHOLE: return "kept whole for a later pass or as a result";
        default: return "from one stage to the next";
        }
    }
    return "kept whole for a later pass or as a result";
}

/* The first step with the most bytes alive. */
static plim_status find_peak(const plim_plan *plan, uint32_t *peak, plim_error *err)
{
    uint64_t *change = plim__new(&plan->alloc, (uint64_t)plan->n_steps + 1, sizeof *change, err), live = 0, most = 0; /* changes wrap, their sums do not */
    if (!change) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *s = &plan->slot[i];
        PLIM_ASSERT(s->first <= s->last && s->last < plan->n_steps); /* I1 */
        change[s->first] += s->bytes * s->copies;
        change[s->last + 1] -= s->bytes * s->copies;
    }
    *peak = 0;
    for (uint32_t t = 0; t < plan->n_steps; t++) {
        live += change[t];
        if (live <= most) continue;
        most = live;
        *peak = t;
    }
    PLIM_ASSERT(live + change[plan->n_steps] == 0); /* every slot that came has left; wraps */
    plim__free(&plan->alloc, change);
    return PLIM_OK;
}

/* What is alive at the peak, largest first. */
static void explain_peak(plim_plan *plan, uint32_t peak)
{
    plim_facts *f = &plan->facts;
    uint32_t q = 0;
    while (q + 1 < plan->n_passes && plan->pass[q + 1].time0 <= peak) q++;
    if (plan->n_passes == 0) return;
    const plim__pass *p = &plan->pass[q];
    snprintf(f->peak_step, sizeof f->peak_step, "step %u of %u, in pass %u of %u", peak + 1, plan->n_steps, q + 1, plan->n_passes);
    uint64_t below = UINT64_MAX;
    uint32_t after = PLIM__NONE;
    while (f->n_peak < PLIM_MAX_PEAK_VALUES) { /* next in falling order; equal ones by slot number */
        uint32_t next = PLIM__NONE;
        for (uint32_t i = 0; i < plan->n_slots; i++) {
            const plim__slot *s = &plan->slot[i];
            const uint64_t bytes = s->bytes * s->copies;
            if (s->first > peak || s->last < peak || bytes > below || (bytes == below && i <= after)) continue;
            if (next == PLIM__NONE || bytes > plan->slot[next].bytes * plan->slot[next].copies) next = i;
        }
        if (next == PLIM__NONE) break;
        const plim__slot *s = &plan->slot[next];
        below = s->bytes * s->copies;
        after = next;
        plim_peak_value *v = &f->peak[f->n_peak++];
        *v = (plim_peak_value){.bytes = below};
        snprintf(v->name, sizeof v->name, "%s", s->value == PLIM__NONE ? "blocks" : name_of(plan->graph, s->value));
        if (s->value != PLIM__NONE) {
            v->dtype = plan->graph->value[s->value].dtype;
            v->shape.rank = s->box.rank;
            for (uint32_t d = 0; d < s->box.rank; d++) v->shape.dim[d] = plim__range_len(s->box.dim[d]);
        }
        snprintf(v->why, sizeof v->why, "%s", why_of(plan, p, next));
    }
}

/* Passes over the largest input. */
static uint32_t count_passes(const plim_plan *plan)
{
    uint32_t largest = PLIM__NONE, passes = 0;
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plim__file_is_read(plan->file[i].kind) &&
            (largest == PLIM__NONE || plan->graph->value[plan->file[i].value].bytes > plan->graph->value[plan->file[largest].value].bytes))
            largest = i;
    for (uint32_t i = 0; i < plan->n_passes; i++)
        for (uint32_t v = 0; v < plan->pass[i].n_values; v++)
            if (plan->pass[i].value[v].role == PLIM__ROLE_READ && plan->pass[i].value[v].file == largest) {
                passes++;
                break;
            }
    return passes;
}

plim_status plim__plan_explain(plim_plan *plan, plim_error *err)
{
    plim_facts *f = &plan->facts;
    f->n_moves = f->n_peak = 0;
    f->read_bytes = f->write_bytes = 0;
    f->planned_seconds = 0;
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        f->read_bytes += plan->pass[i].read_bytes;
        f->write_bytes += plan->pass[i].write_bytes;
        f->planned_seconds += plan->pass[i].seconds;
    }
    f->passes = count_passes(plan);
    uint32_t peak;
    PLIM_TRY(explain_moves(plan, err));
    PLIM_TRY(find_peak(plan, &peak, err));
    explain_peak(plan, peak);
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- dump */

typedef struct text {
    char *buf;
    size_t size, len;
} text;

static void put(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void put(text *t, const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(t->len < t->size ? t->buf + t->len : NULL, t->len < t->size ? t->size - t->len : 0, fmt, args);
    va_end(args);
    t->len += n > 0 ? (size_t)n : 0;
}

static void put_slot(text *t, const plim_plan *plan, uint32_t slot)
{
    const plim__slot *s = &plan->slot[slot];
    char shape[160], bytes[32];
    plim_shape box = {.rank = s->box.rank};
    for (uint32_t d = 0; d < box.rank; d++) box.dim[d] = plim__range_len(s->box.dim[d]);
    put(t, "%s x%u at %llu, box %s", plim_bytes_format(bytes, sizeof bytes, s->bytes), s->copies, (unsigned long long)s->offset,
        plim_shape_format(shape, sizeof shape, &box));
}

static void put_stage(text *t, const plim_plan *plan, const plim__pass *p, const plim__stage *s, int indent)
{
    char own[48] = "", bytes[32];
    PLIM_ASSERT((s->slot == PLIM__NONE) == (s->private_bytes == 0) && s->split < (int)p->n_loops);
    if (s->private_bytes) snprintf(own, sizeof own, ", %s %s", plim_bytes_format(bytes, sizeof bytes, s->private_bytes), s->pool ? "of its own" : "per thread");
    if (s->split >= 0) put(t, "%*sstage, %u blocks along loop %d%s\n", indent, "", s->blocks, s->split, own);
    else put(t, "%*sstage%s%s\n", indent, "", s->pool ? ", all threads in one node" : "", own);
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &plan->graph->node[n->node];
        put(t, "%*s%%%u = %s", indent + 2, "", node->out[0], plim__op_row_of(node->op)->name);
        for (uint32_t k = 0; k < node->n_in; k++) put(t, " %%%u", node->in[k]);
        if (n->accumulates) put(t, "   accumulates");
        if (p->value[n->out[0]].role != PLIM__ROLE_PRIVATE) {
            put(t, "   -> ");
            put_slot(t, plan, p->value[n->out[0]].slot);
        }
        put(t, "\n");
    }
}

static void put_step(text *t, const plim_plan *plan, const plim__pass *p, const plim__step *s)
{
    const int indent = 2 + 2 * (int)s->depth;
    PLIM_ASSERT(s->depth <= p->n_cut);
    const plim_graph *g = plan->graph;
    switch (s->kind) {
    case PLIM__STEP_READ: case PLIM__STEP_WRITE:
        put(t, "%*s%s %%%u %s   ", indent, "", s->kind == PLIM__STEP_READ ? "read" : "write", p->value[s->index].value, name_of(g, p->value[s->index].value));
        put_slot(t, plan, p->value[s->index].slot);
        put(t, "\n");
        break;
    case PLIM__STEP_INIT: case PLIM__STEP_MERGE:
        put(t, "%*s%s %%%u\n", indent, "", s->kind == PLIM__STEP_INIT ? "start" : "merge", g->node[p->node[s->index].node].out[0]);
        break;
    case PLIM__STEP_WAIT: put(t, "%*swait for %%%u %s\n", indent, "", p->value[s->index].value, name_of(g, p->value[s->index].value)); break;
    case PLIM__STEP_STAGE: put_stage(t, plan, p, &p->stage[s->index], indent); break;
    }
}

size_t plim_plan_dump(const plim_plan *plan, char *buf, size_t size)
{
    text t = {.buf = buf, .size = size};
    if (size) buf[0] = 0;
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        const plim__pass *p = &plan->pass[i];
        put(&t, "pass %u: about %.3g s (kernels %.3g s), reads %llu KiB, writes %llu KiB\n", i + 1, p->seconds, p->compute, (unsigned long long)(p->read_bytes >> 10),
            (unsigned long long)(p->write_bytes >> 10));
        for (uint32_t l = 0; l < p->n_cut; l++) {
            char what[80];
            name_loop(plan, p, l, what, sizeof what);
            put(&t, "%*sloop %u: %s, %lld by %lld\n", 2 + 2 * (int)l, "", l, what, (long long)p->loop[l].extent, (long long)p->loop[l].tile);
        }
        for (uint32_t s = 0; s < p->n_steps; s++) put_step(&t, plan, p, &p->step[s]);
    }
    if (size) buf[t.len < size ? t.len : size - 1] = 0;
    return t.len;
}
