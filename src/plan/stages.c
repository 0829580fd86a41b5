/* Stages, roles and steps of a pass whose nodes and depths are known (build.c): neighbours that can be run together, block by block; where each value
 * lives; the order in which everything is done.
 *
 * Fills tables of the pass, which has room for them: a stage for each node at the most. Decides no sizes. Assumes that nodes stand in topological order and
 * that the plan's homes say where everything is before the pass. Allocates scratch and frees it; one thread. */
#include "plan/build.h"
#include "core/size.h"
#include "plan/inplace.h"

#include <string.h>

#define HEAVY_COPY (1u << 20) /* bytes of accumulators above which another copy per thread is avoided */

typedef struct maker {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__frontier *f;
    const uint32_t *pnode; /* [n_nodes] graph id -> pass index, PLIM__NONE: not in this pass */
    uint32_t *use0, *use;  /* nodes of the pass that read each of its values, as in plim_plan */
    uint32_t *first_read, *next_read; /* per stage and per value: what is read right before the stage, a chain */
    uint32_t writing, waiting;        /* chains of what is being written since the last stage, since the one before */
    uint32_t *next_write;
    plim__pass *p;
} maker;

/* -------------------------------------------------------------------------------------------------- stages */

static plim__axis_kind kind_on(const plim__pnode *x, int loop)
{
    for (uint32_t a = 0; a < x->axes.n; a++)
        if (x->bind[a] == loop) return x->axes.axis[a].kind;
    return PLIM__WHOLE;
}

/* Loops along which a node may be cut into independent blocks at all: it has an axis there, and it is no scan, nor a sum that must always have the same
 * bits. */
static uint32_t own_splits(const plim__pass *p, const plim__pnode *x)
{
    uint32_t set = 0;
    for (uint32_t a = 0; a < x->axes.n; a++) {
        const plim__axis_kind kind = x->axes.axis[a].kind;
        PLIM_ASSERT(x->bind[a] < (int)p->n_loops);
        if (x->bind[a] >= 0 && kind != PLIM__SCAN && !(x->same_bits && plim__axis_rounds(kind))) set |= 1u << x->bind[a];
    }
    for (uint32_t l = 0; l < p->n_loops; l++)
        if (kind_on(x, (int)l) == PLIM__SCAN) set &= ~(1u << l);
    return set;
}

/* Those of `set`, the loops along which the nodes from `first` to before i may be cut, along which node i may be cut with them: nothing that reduces along
 * a loop is read inside. */
static uint32_t splittable_with(const maker *b, uint32_t set, uint32_t first, uint32_t i)
{
    const plim__pass *p = b->p;
    set &= own_splits(p, &p->node[i]);
    for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in; k++) {
        const uint32_t by = p->value[p->operand[p->node[i].in0 + k]].producer;
        PLIM_ASSERT(by == PLIM__NONE || by < i); /* topological order */
        if (by == PLIM__NONE || by < first) continue;
        for (uint32_t a = 0; a < p->node[by].axes.n; a++)
            if (p->node[by].bind[a] >= 0 && plim__axis_reduces(p->node[by].axes.axis[a].kind)) set &= ~(1u << p->node[by].bind[a]);
    }
    return set;
}

static bool is_pool(const maker *b, const plim__pnode *x)
{
    return plim__op_row_of(b->g->node[x->node].op)->flags & PLIM__OP_POOL;
}

/* Two nodes of one stage: same depth, and an accumulator is read only after its loops. */
static bool may_join(const maker *b, const plim__stage *s, uint32_t i)
{
    const plim__pnode *x = &b->p->node[i];
    PLIM_ASSERT(i == s->first + s->count); /* the next node, and no other */
    if (s->pool || is_pool(b, x) || x->depth != s->depth || x->post != s->post) return false;
    for (uint32_t k = 0; k < b->g->node[x->node].n_in; k++) {
        const uint32_t by = b->p->value[b->p->operand[x->in0 + k]].producer;
        if (by != PLIM__NONE && by >= s->first && b->p->node[by].accumulates) return false;
    }
    return true;
}

/* Into how many blocks nodes first to last can be cut: along the best of the loops in `set`, no more than their shortest axis there. */
static int64_t room_along(const plim__pass *p, uint32_t set, uint32_t first, uint32_t last)
{
    int64_t best = 1;
    for (uint32_t l = 0; l < p->n_loops; l++) {
        if (!(set & 1u << l)) continue;
        int64_t least = INT64_MAX;
        for (uint32_t i = first; i <= last; i++)
            for (uint32_t a = 0; a < p->node[i].axes.n; a++)
                if (p->node[i].bind[a] == (int)l) least = plim__min(least, p->node[i].axes.axis[a].extent);
        if (least != INT64_MAX) best = plim__max(best, least);
    }
    return best;
}

/* Bytes that a node reads and makes. */
static uint64_t traffic_of(const maker *b, uint32_t i)
{
    const plim__node *n = &b->g->node[b->p->node[i].node];
    uint64_t bytes = 0;
    for (uint32_t k = 0; k < n->n_in; k++) bytes += b->g->value[n->in[k]].bytes;
    for (uint32_t j = 0; j < n->n_out; j++) bytes += b->g->value[n->out[j]].bytes;
    return bytes;
}

/* Would the stage have fewer blocks than its bytes call for once node i is in it, and more if it, or what is there, were alone? */
static bool crowds(const maker *b, uint32_t before, uint32_t with, uint32_t first, uint32_t i, uint64_t bytes)
{
    const plim__pass *p = b->p;
    PLIM_ASSERT(first < i && with != 0 && (with & before) == with);
    const int64_t room = room_along(p, with, first, i);
    if (bytes / PLIM__BLOCK_BYTES <= (uint64_t)room) return false;
    return room < room_along(p, before, first, i - 1) || room < room_along(p, own_splits(p, &p->node[i]), i, i);
}

/* A new stage from node `first` on, as long as it may be, and before node `end`. A node that leaves fewer blocks than the stage's bytes call for does not
 * join: what stays inside a stage would be large then. */
static void open_stage(maker *b, uint32_t first, uint32_t end)
{
    plim__pass *p = b->p;
    plim__stage *s = &p->stage[p->n_stages];
    PLIM_ASSERT(first < end && end <= p->n_nodes && p->n_stages <= first); /* no stage is empty */
    *s = (plim__stage){.first = first, .count = 1, .depth = p->node[first].depth, .post = p->node[first].post, .pool = is_pool(b, &p->node[first]), .split = -1,
                       .blocks = 1, .slot = PLIM__NONE};
    uint32_t set = own_splits(p, &p->node[first]);
    uint64_t bytes = traffic_of(b, first);
    for (uint32_t i = first + 1; i < end && may_join(b, s, i); i++) {
        const uint32_t with = splittable_with(b, set, first, i);
        bytes += traffic_of(b, i);
        if (with == 0) break;
        if (crowds(b, set, with, first, i, bytes)) break;
        set = with;
        s->count++;
    }
    s->split_set = s->pool ? 0 : (uint8_t)set;
    PLIM_ASSERT(!s->pool || s->count == 1);
    for (uint32_t i = first; i < first + s->count; i++) p->node[i].stage = p->n_stages;
}

/* Which of the loops that the stage may be cut along make private copies of large accumulators. measure.c picks one, when it knows the tiles. */
static void find_heavy_splits(maker *b, plim__stage *s)
{
    if (s->pool) return;
    for (uint32_t l = 0; l < b->p->n_loops; l++) {
        uint64_t copies = 0;
        for (uint32_t i = s->first; i < s->first + s->count; i++) {
            const plim__pnode *x = &b->p->node[i];
            if (!plim__axis_reduces(kind_on(x, (int)l))) continue;
            for (uint32_t j = 0; j < b->g->node[x->node].n_out; j++) copies += b->g->value[b->g->node[x->node].out[j]].bytes;
        }
        if (copies > HEAVY_COPY) s->split_heavy |= (uint8_t)(1u << l);
    }
}

/* ----------------------------------------------------------------------------------------- roles and steps */

/* Is a value used by node `end` or a later one? */
static bool used_from(const maker *b, uint32_t v, uint32_t end) { return b->use0[v + 1] > b->use0[v] && b->use[b->use0[v + 1] - 1] >= end; }

/* By a node that runs in a later pass: only there, or there again. */
static bool used_later(const maker *b, uint32_t graph_value)
{
    const plim_plan *plan = b->plan;
    for (uint32_t u = plan->use0[graph_value]; u < plan->use0[graph_value + 1]; u++) {
        const uint32_t here = b->pnode[plan->use[u]];
        if (b->f->active[plan->use[u]] && (here == PLIM__NONE || b->p->node[here].remade)) return true;
    }
    return false;
}

/* Does a node of x's own stage read one of x's outputs? */
static bool read_in_stage(const maker *b, const plim__pnode *x)
{
    const uint32_t end = b->p->stage[x->stage].first + b->p->stage[x->stage].count;
    for (uint32_t j = 0; j < PLIM__MAX_OUT && x->out[j] != PLIM__NONE; j++)
        if (b->use0[x->out[j] + 1] > b->use0[x->out[j]] && b->use[b->use0[x->out[j]]] < end) return true;
    return false;
}

/* An output that nobody reads, of a node that reduces along a loop: threads may have to combine it all the same, so it has a slot. Not so where the stage
 * reads another output of the node: then no block is cut along a reduced axis (splittable_with), and all outputs stay inside the stage together. */
static bool unread_reduction(const maker *b, uint32_t v, const plim__pnode *x)
{
    if (b->use0[v + 1] > b->use0[v] || read_in_stage(b, x)) return false;
    for (uint32_t a = 0; a < x->axes.n; a++)
        if (x->bind[a] >= 0 && plim__axis_reduces(x->axes.axis[a].kind)) return true;
    return false;
}

/* May what node x makes lie on the state `in` that it replaces? Not where another node of its stage reads the state, which may want another block's part. */
static bool updates_in_place(const maker *b, uint32_t node, uint32_t in)
{
    const plim__pass *p = b->p;
    const plim__pnode *x = &p->node[node];
    const plim__stage *s = &p->stage[x->stage];
    const plim__node *n = &b->g->node[x->node];
    if (!(plim__op_row_of(n->op)->flags & PLIM__OP_UPDATE)) return false;
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in && i != node; k++)
            if (b->g->node[p->node[i].node].in[k] == in) return false;
    return true;
}

/* What takes the place of a state that is held: made there, or made elsewhere and copied. */
static void take_place(const maker *b, plim__pvalue *v, uint32_t in)
{
    PLIM_ASSERT(b->plan->home[in].kind == PLIM__HOME_ARENA && b->g->value[in].bytes == b->g->value[v->value].bytes);
    v->role = PLIM__ROLE_WHOLE;
    v->file = PLIM__NONE;
    v->foreign = updates_in_place(b, v->producer, in);
    v->stored = !v->foreign;
    v->slot = v->foreign ? b->plan->home[in].slot : PLIM__NONE;
}

/* Does an outer loop move an accumulator? Then each of its trips completes a part. */
static bool is_complete_in_parts(const plim__pnode *x)
{
    PLIM_ASSERT(x->accumulates);
    for (uint32_t a = 0; a < x->axes.n; a++)
        if (!plim__axis_reduces(x->axes.axis[a].kind) && x->needs[a] & ((1u << x->acc_depth) - 1)) return true;
    return false;
}

static void role_of(maker *b, uint32_t i)
{
    plim__pass *p = b->p;
    plim__pvalue *v = &p->value[i];
    const plim__home *home = &b->plan->home[v->value];
    if (v->producer == PLIM__NONE && v->spill) { /* its file is made when the pass is settled */
        PLIM_ASSERT(v->flat && v->streamed && !v->again); /* read back in the trip in which it was spilled */
        v->role = PLIM__ROLE_READ;
        return;
    }
    if (v->producer == PLIM__NONE) {
        PLIM_ASSERT(home->kind != PLIM__HOME_NOWHERE); /* what is not made here is somewhere */
        v->role = home->kind == PLIM__HOME_CONST ? PLIM__ROLE_CONST : home->kind == PLIM__HOME_ARENA ? PLIM__ROLE_WHOLE : PLIM__ROLE_READ;
        v->file = v->role == PLIM__ROLE_READ ? home->file : PLIM__NONE;
        v->slot = v->role == PLIM__ROLE_WHOLE ? home->slot : PLIM__NONE;
        v->foreign = v->role == PLIM__ROLE_WHOLE;
        return;
    }
    const uint32_t replaced = b->plan->replaces[v->value];
    if (replaced != PLIM__NONE && !v->again && b->plan->held[b->g->state[replaced].in]) {
        take_place(b, v, b->g->state[replaced].in);
        return;
    }
    const plim__pnode *x = &p->node[v->producer];
    const bool later = used_later(b, v->value);
    const bool combined = plim__out_accumulates(x, b->g->value[v->value].out, b->g->value[v->value].shape.rank);
    const bool scanned = x->accumulates && !combined;
    const bool in_parts = combined ? is_complete_in_parts(x) : v->depth > 0 && !x->post; /* each can go to a file by itself */
    v->file = v->again ? PLIM__NONE : b->plan->write_file[v->value];
    const bool in_memory = b->plan->is_output[v->value] && !v->again && v->file == PLIM__NONE; /* as a result */
    if (scanned && used_from(b, i, 0)) v->role = PLIM__ROLE_WHOLE; /* they read it when its loops have ended */
    else if (v->file != PLIM__NONE) v->role = combined ? PLIM__ROLE_ACC : PLIM__ROLE_WRITE;
    else if (v->spill || (x->root && later && in_parts && !in_memory && b->g->value[v->value].bytes > b->f->spill_above)) {
        v->role = combined ? PLIM__ROLE_ACC : PLIM__ROLE_WRITE;
        v->spill = true;
    } else if (in_memory || scanned || (x->root && later)) v->role = PLIM__ROLE_WHOLE;
    else if (combined) v->role = PLIM__ROLE_ACC;
    else if (used_from(b, i, p->stage[x->stage].first + p->stage[x->stage].count) || unread_reduction(b, i, x)) v->role = PLIM__ROLE_TILE;
    else v->role = PLIM__ROLE_PRIVATE;
    /* What outlives the pass is there whole, even an accumulator that goes to a file as well. */
    if (v->file != PLIM__NONE && later && b->g->value[v->value].bytes <= b->f->small) v->role = PLIM__ROLE_WHOLE;
    PLIM_ASSERT(!combined || v->role == PLIM__ROLE_ACC || v->role == PLIM__ROLE_WHOLE); /* I5 */
    PLIM_ASSERT(x->root || v->flat || v->role == PLIM__ROLE_TILE || v->role == PLIM__ROLE_PRIVATE); /* I6 */
    PLIM_ASSERT(!v->spill || v->role == PLIM__ROLE_WRITE || v->role == PLIM__ROLE_ACC);
    PLIM_ASSERT(!v->spill || v->file == PLIM__NONE); /* its file is made when the pass is settled */
}

/* The blocks of a node with an output that leaves the stage are fixed: each thread makes its own block's part of all outputs. A reader inside the same
 * stage, of that output or of another one, may want more than this part, or another. Such a reader starts a new stage.
 * @return the first one, or where the stage ends */
static uint32_t first_cross_block_reader(const maker *b, const plim__stage *s)
{
    const plim__pass *p = b->p;
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in; k++) {
            const uint32_t by = p->value[p->operand[p->node[i].in0 + k]].producer;
            if (by != PLIM__NONE && by >= s->first && by < i && plim__leaves_stage(p, &p->node[by])) return i;
        }
    return s->first + s->count;
}

static void give_roles(maker *b, const plim__stage *s)
{
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && b->p->node[i].out[j] != PLIM__NONE; j++) role_of(b, b->p->node[i].out[j]);
}

/* Stage by stage. One that turns out to have a wall in it is made again, to end there: then more of its values leave it, so it may have to end
 * earlier still. */
static void form_stages(maker *b)
{
    plim__pass *p = b->p;
    p->n_stages = 0;
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->value[i].producer == PLIM__NONE) role_of(b, i);
    for (uint32_t first = 0, wall; first < p->n_nodes; first += p->stage[p->n_stages++].count) {
        const plim__stage *s = &p->stage[p->n_stages];
        open_stage(b, first, p->n_nodes);
        give_roles(b, s);
        while ((wall = first_cross_block_reader(b, s)) < s->first + s->count) {
            PLIM_ASSERT(wall > first); /* it reads a node of the stage, which comes before it */
            open_stage(b, first, wall);
            give_roles(b, s);
        }
        find_heavy_splits(b, &p->stage[p->n_stages]);
    }
}

static void add_step(plim__pass *p, plim__step_kind kind, uint32_t index, uint32_t depth, bool post)
{
    const uint32_t before = p->n_steps == 0 ? 0 : plim__group_of(p, p->step[p->n_steps - 1].depth, p->step[p->n_steps - 1].post);
    PLIM_ASSERT(depth <= p->n_cut && plim__group_of(p, depth, post) >= before); /* groups stand in their order */
    p->step[p->n_steps++] = (plim__step){.kind = kind, .index = index, .depth = (uint8_t)depth, .post = post};
}

/* Puts v in front of a chain. */
static void push(uint32_t *first, uint32_t *next, uint32_t v)
{
    next[v] = *first;
    *first = v;
}

/* Do reads, or writes, of the steps of `depth` go on while the loops inside turn? Where there is room for more than one copy of what is read, or written. */
static bool goes_beside(const plim__pass *p, const plim__pvalue *v, uint32_t depth, uint32_t copies)
{
    return copies > 1 && depth > 0 && depth < p->n_cut && !v->flat && !v->streamed;
}

static bool written(const plim__pvalue *v)
{
    return v->file != PLIM__NONE || v->spill || v->stored;
}

/* WRITE steps of a node's outputs: those that are complete with each tile, or those that are complete after the loops inside `depth`. What is there whole
 * is complete after all loops. */
static void add_writes(maker *b, const plim__pnode *x, uint32_t depth, bool post)
{
    plim__pass *p = b->p;
    for (uint32_t j = 0; j < PLIM__MAX_OUT && x->out[j] != PLIM__NONE; j++) {
        plim__pvalue *v = &p->value[x->out[j]];
        const bool late = x->post || v->role == PLIM__ROLE_WHOLE || plim__out_accumulates(x, j, b->g->value[v->value].shape.rank);
        if (!written(v) || late != post || (v->role == PLIM__ROLE_WHOLE && depth > 0)) continue;
        PLIM_ASSERT(v->role == PLIM__ROLE_WRITE || v->role == PLIM__ROLE_ACC || v->role == PLIM__ROLE_WHOLE);
        add_step(p, PLIM__STEP_WRITE, x->out[j], depth, post);
        v->beside = post && !v->stored && v->role != PLIM__ROLE_WHOLE && goes_beside(p, v, depth, b->plan->write_copies);
        if (!v->beside && !plim__write_has_ring(b->plan, p, v) && v->role != PLIM__ROLE_WHOLE) push(&b->writing, b->next_write, x->out[j]);
    }
}

/* WRITE steps, after all loops, of those outputs of a node that are there whole. */
static void add_whole_writes(maker *b, const plim__pnode *x)
{
    for (uint32_t j = 0; j < PLIM__MAX_OUT && x->out[j] != PLIM__NONE; j++)
        if (written(&b->p->value[x->out[j]]) && b->p->value[x->out[j]].role == PLIM__ROLE_WHOLE) add_step(b->p, PLIM__STEP_WRITE, x->out[j], 0, true);
}

/* Waits for what was being written before the last stage: it had the time of a stage. */
static void add_waits(maker *b, uint32_t depth, bool post)
{
    for (uint32_t v = b->waiting; v != PLIM__NONE; v = b->next_write[v]) add_step(b->p, PLIM__STEP_WAIT, v, depth, post);
    b->waiting = b->writing;
    b->writing = PLIM__NONE;
}

/* When the box of a file is read: at the head of its depth, or as late as before the first stage that needs it. */
typedef struct reading {
    bool head;      /* a deeper stage needs it, or a ring is filled ahead */
    uint32_t stage; /* else: before this one */
} reading;

static reading when_read(const maker *b, uint32_t v)
{
    const plim__pass *p = b->p;
    const plim__pvalue *x = &p->value[v];
    PLIM_ASSERT(x->producer == PLIM__NONE && x->depth <= p->n_cut);
    reading r = {.head = p->n_cut > 0 && x->depth == p->n_cut && !x->streamed, .stage = PLIM__NONE};
    for (uint32_t u = b->use0[v]; u < b->use0[v + 1]; u++) {
        const plim__stage *s = &p->stage[p->node[b->use[u]].stage];
        if (s->depth != x->depth && !x->streamed) r.head = true;
        if (r.stage == PLIM__NONE) r.stage = p->node[b->use[u]].stage; /* nodes stand in the order in which they run */
    }
    return r;
}

/* Is the value on its way to a file of our own? */
static bool being_written(const maker *b, uint32_t value)
{
    for (int k = 0; k < 2; k++)
        for (uint32_t v = k ? b->waiting : b->writing; v != PLIM__NONE; v = b->next_write[v])
            if (b->p->value[v].value == value) return true;
    return false;
}

/* What comes back from a file of our own must have arrived there. */
static void add_reads(maker *b, uint32_t stage)
{
    const plim__stage *s = &b->p->stage[stage];
    for (uint32_t v = b->first_read[stage]; v != PLIM__NONE; v = b->next_read[v])
        if (b->p->value[v].spill && being_written(b, b->p->value[v].value))
            for (int k = 0; k < 2; k++) add_waits(b, s->depth, s->post);
    for (uint32_t v = b->first_read[stage]; v != PLIM__NONE; v = b->next_read[v]) {
        add_step(b->p, PLIM__STEP_READ, v, s->depth, s->post);
        *(s->post ? &b->p->value[v].beside : &b->p->value[v].ahead) = goes_beside(b->p, &b->p->value[v], s->depth, b->plan->read_copies);
    }
}

static void add_body_steps(maker *b, uint32_t d)
{
    plim__pass *p = b->p;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->value[v].role == PLIM__ROLE_READ && p->value[v].depth == d && when_read(b, v).head) {
            add_step(p, PLIM__STEP_READ, v, d, false);
            p->value[v].ahead = goes_beside(p, &p->value[v], d, b->plan->read_copies);
        }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].accumulates && p->node[i].acc_depth == d) add_step(p, PLIM__STEP_INIT, i, d, false);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const plim__stage *stage = &p->stage[s];
        if (stage->post || stage->depth != d) continue;
        add_reads(b, s);
        add_step(p, PLIM__STEP_STAGE, s, d, false);
        add_waits(b, d, false);
        for (uint32_t i = stage->first; i < stage->first + stage->count; i++) add_writes(b, &p->node[i], d, false);
    }
    for (int k = 0; k < 2; k++) add_waits(b, d, false);
}

static void add_post_steps(maker *b, uint32_t d)
{
    plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *x = &p->node[i];
        if (x->post) continue;
        PLIM_ASSERT(!x->accumulates || (x->root && x->acc_depth < x->depth)); /* complete outside of a loop that it runs in */
        if (x->accumulates && x->acc_depth == d) add_step(p, PLIM__STEP_MERGE, i, d, true);
        if (x->accumulates ? x->acc_depth == d : d == 0) add_writes(b, x, d, true);
    }
    for (uint32_t i = 0; i < p->n_nodes && d == 0; i++) /* what deeper groups have completed a part of, trip by trip */
        if (p->node[i].post ? p->node[i].depth > 0 : p->node[i].accumulates && p->node[i].acc_depth > 0) add_whole_writes(b, &p->node[i]);
    for (uint32_t s = 0; s < p->n_stages; s++) {
        const plim__stage *stage = &p->stage[s];
        if (!stage->post || stage->depth != d) continue;
        add_reads(b, s);
        add_step(p, PLIM__STEP_STAGE, s, d, true);
        add_waits(b, d, true);
        for (uint32_t i = stage->first; i < stage->first + stage->count; i++) add_writes(b, &p->node[i], d, true);
    }
    for (int k = 0; k < 2; k++) add_waits(b, d, true);
}

/* Lists of what is read right before each stage. */
static void list_reads(maker *b)
{
    memset(b->first_read, 0xff, b->p->n_stages * sizeof *b->first_read);
    for (uint32_t v = b->p->n_values; v-- > 0;) {
        if (b->p->value[v].role != PLIM__ROLE_READ) continue;
        const reading r = when_read(b, v);
        if (r.head) continue;
        PLIM_ASSERT(r.stage < b->p->n_stages); /* what is read has a reader */
        push(&b->first_read[r.stage], b->next_read, v);
    }
}

static void add_steps(maker *b)
{
    for (uint32_t d = 0; d <= b->p->n_cut; d++) add_body_steps(b, d);
    for (uint32_t d = b->p->n_cut + 1; d-- > 0;) add_post_steps(b, d);
}

/* The nodes that read each value, in order: counted one place too far to the right, so that filling in moves each to where it belongs. */
static void index_uses(maker *b)
{
    const plim__pass *p = b->p;
    for (uint32_t i = 0; i < p->n_operands; i++) b->use0[p->operand[i] + 2]++;
    for (uint32_t v = 0; v < p->n_values; v++) b->use0[v + 2] += b->use0[v + 1];
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < b->g->node[p->node[i].node].n_in; k++) b->use[b->use0[p->operand[p->node[i].in0 + k] + 1]++] = i;
}

plim_status plim__pass_stages(plim__pass *p, const plim_plan *plan, const plim__frontier *f, const uint32_t *pnode, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    maker b = {.plan = plan, .g = plan->graph, .f = f, .pnode = pnode, .p = p, .writing = PLIM__NONE, .waiting = PLIM__NONE};
    b.use0 = plim__new(a, (uint64_t)p->n_values + 2, sizeof *b.use0, err);
    b.use = plim__new(a, p->n_operands, sizeof *b.use, err);
    b.first_read = plim__new(a, p->n_nodes, sizeof *b.first_read, err);
    b.next_read = plim__new(a, p->n_values, sizeof *b.next_read, err);
    b.next_write = plim__new(a, p->n_values, sizeof *b.next_write, err);
    const plim_status status = b.use0 && b.use && b.first_read && b.next_read && b.next_write ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        index_uses(&b);
        form_stages(&b);
        list_reads(&b);
        add_steps(&b);
        PLIM_ASSERT(b.writing == PLIM__NONE && b.waiting == PLIM__NONE); /* every write that needs it was waited for */
    }
    plim__free(a, b.use0);
    plim__free(a, b.use);
    plim__free(a, b.first_read);
    plim__free(a, b.next_read);
    plim__free(a, b.next_write);
    return status == PLIM_OK ? plim__pass_share(p, plan, err) : status;
}
