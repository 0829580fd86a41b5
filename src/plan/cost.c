/* See cost.h.
 *
 * Kernels: the product of the extents times the work of one iteration, at the rate of the op's family. A stage takes as long as its kernels, or as moving between
 * memory and caches what it reads and makes, whichever is longer; values inside a stage stay in the cache.
 * Files: the sum over requests, by size. Disk and compute overlap, so a pass takes the longer of the two, plus what cannot overlap: filling the pipeline, steps,
 * calls, and touching the arena for the first time. */
#include "plan/cost.h"
#include "core/size.h"
#include "io/io_requests.h"
#include "plan/transfers.h"

#include <math.h>

#define RECENT 16u /* operands of a stage among which one that was read before is looked for */

/* ------------------------------------------------------------------------------------------------------------ files */

typedef struct box_sum {
    const plim_requests *read, *write;
    plim__box_cost cost;
    double edges;
} box_sum;

static void add_request(void *ctx, plim__io_request_kind kind, uint64_t bytes, double times)
{
    box_sum *s = ctx;
    if (kind == PLIM__IO_REQUEST_EDGE) {
        s->edges += times;
        return;
    }
    const plim_requests *r = kind == PLIM__IO_REQUEST_READ ? s->read : s->write;
    s->cost.requests += times;
    s->cost.seconds += times * plim__request_at(r->seconds, (double)bytes);
    s->cost.cpu += times * plim__request_at(r->cpu, (double)bytes);
    s->cost.latency = fmax(s->cost.latency, plim__request_at(r->alone, (double)bytes));
}

/* A block that two boxes share is written once, by whoever completes it. Where more of them wait than the cache holds, each is read and written by itself. */
static void add_edges(box_sum *s, const plim__io_config *c, double boxes)
{
    const bool evicted = s->edges * boxes > c->edge_blocks;
    const double writes = evicted ? s->edges : s->edges / 2, reads = evicted ? s->edges : 0;
    s->cost.requests += s->edges / 2;
    s->cost.seconds += writes * s->write->seconds[0] + reads * s->read->seconds[0];
    s->cost.cpu += writes * s->write->cpu[0] + reads * s->read->cpu[0];
}

plim__box_cost plim__box_seconds(const plim_machine *m, const plim__io_config *c, const plim__io_file *f, const plim__region *box, bool write, double boxes)
{
    const bool in_memory = !f->direct && !f->drop;
    box_sum s = {.read = f->direct ? &m->direct_read : &m->buffered_read, .write = f->direct ? &m->direct_write : &m->buffered_write};
    plim__io_requests(c, f, box, write, add_request, &s);
    PLIM_ASSERT(boxes >= 1);
    add_edges(&s, c, boxes);
    if (in_memory && s.cost.requests > 0) {
        const double bytes = 2 * (double)plim__region_count(box) * f->element; /* a copy */
        s.cost.seconds = s.cost.cpu = s.cost.latency = bytes / m->memory_rate + s.cost.requests * m->node_seconds;
    }
    PLIM_ASSERT(s.cost.seconds >= 0 && s.cost.cpu >= 0);
    return s.cost;
}

static const plim_requests *own_requests(const plim_plan *plan, bool write)
{
    const plim_machine *m = &plan->speed.machine;
    if (plan->set.no_direct_io) return write ? &m->buffered_write : &m->buffered_read;
    return write ? &m->direct_write : &m->direct_read;
}

double plim__file_seconds(const plim_plan *plan, uint64_t bytes, bool write)
{
    const plim_requests *r = own_requests(plan, write);
    const uint64_t piece = plan->io.piece_bytes ? plan->io.piece_bytes : 1u << 20;
    const uint64_t rest = bytes % piece;
    return (double)(bytes / piece) * plim__request_at(r->seconds, (double)piece) + (rest ? plim__request_at(r->seconds, (double)rest) : 0);
}

/* The file of a value, and how it will be opened as far as that is known: whether an input is in the page cache is not, for a plan must not depend on it. */
static plim__io_file planned_file(const plim_plan *plan, const plim__pvalue *v)
{
    plim__io_file made;
    plim__io_file f = *plim__pvalue_file(plan, v, &made);
    const plim__file *known = v->file != PLIM__NONE ? &plan->file[v->file] : NULL;
    const bool in_memory = known && !plim__file_is_ours(known->kind) ? known->in_memory : plan->own_is_memory;
    f.direct = !in_memory && !plan->set.no_direct_io;
    f.drop = !in_memory && !f.direct;
    return f;
}

/* ---------------------------------------------------------------------------------------------------------- kernels */

double plim__work_seconds(const plim__speed *s, plim__work w, double points)
{
    PLIM_ASSERT(w.kernel < PLIM_KERNEL_COUNT && w.amount > 0 && points >= 0);
    return points * w.amount / s->rate[w.kernel];
}

static double points_of(const plim__axes *axes, const plim__range *range)
{
    double points = 1;
    for (uint32_t a = 0; a < axes->n; a++) points *= range ? (double)plim__range_len(range[a]) : (double)axes->axis[a].extent;
    return points;
}

static bool is_elementwise(const plim_plan *plan, uint32_t node)
{
    const plim_kernel k = plan->nest.work[node].kernel;
    return k == PLIM_KERNEL_ELEMENTWISE || k == PLIM_KERNEL_FUNCTION;
}

/* Does the value stay in a core's cache, in a stage of its maker and its readers? */
static bool is_fused(const plim_plan *plan, uint32_t v)
{
    const plim__value *x = &plan->graph->value[v];
    if (x->kind != PLIM__VALUE_NODE || plan->is_output[v] || !is_elementwise(plan, x->node)) return false;
    for (uint32_t u = plan->use0[v]; u < plan->use0[v + 1]; u++)
        if (!is_elementwise(plan, plan->use[u]) && plan->nest.work[plan->use[u]].kernel != PLIM_KERNEL_REDUCE) return false;
    return true;
}

double plim__node_seconds(const plim_plan *plan, uint32_t i)
{
    const plim_graph *g = plan->graph;
    const plim__node *n = &g->node[i];
    double bytes = 0;
    for (uint32_t k = 0; k < n->n_in; k++) bytes += is_fused(plan, n->in[k]) ? 0 : (double)g->value[n->in[k]].bytes;
    for (uint32_t j = 0; j < n->n_out; j++) bytes += is_fused(plan, n->out[j]) ? 0 : (double)g->value[n->out[j]].bytes;
    const double work = plim__work_seconds(&plan->speed, plan->nest.work[i], points_of(&plan->nest.axes[i], NULL));
    return fmax(work, bytes / plan->speed.memory_rate);
}

double plim__touch_seconds(const plim_plan *plan, uint64_t bytes)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < g->n_sources; i++)
        if (g->source[i].stay != PLIM__STAY_FILE) return 0;
    return g->n_states > 0 ? 0 : (double)bytes / plan->speed.machine.touch_rate;
}

/* ----------------------------------------------------------------------------------------------------------- passes */

static double trips_inside(const plim__pass *p, uint32_t depth)
{
    double n = 1;
    for (uint32_t l = 0; l < depth && l < p->n_cut; l++) n *= (double)plim__loop_trips(&p->loop[l]);
    return n;
}

/* Bytes of a value that one trip of a stage moves between memory and caches. */
static double traffic(const plim__measure *m, const plim_graph *g, const plim__pass *p, uint32_t value)
{
    const plim__pvalue *v = &p->value[value];
    if (v->role == PLIM__ROLE_PRIVATE || v->role == PLIM__ROLE_CONST) return 0;
    return (double)plim__region_count(&m->tile.region[value]) * (double)plim_dtype_bytes(g->value[v->value].dtype);
}

/* What is read by several nodes of a stage comes from memory once. */
static double stage_traffic(const plim__measure *m, const plim_graph *g, const plim__pass *p, const plim__stage *s)
{
    uint32_t recent[RECENT], n = 0;
    double bytes = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__node *node = &g->node[p->node[i].node];
        for (uint32_t k = 0; k < node->n_in; k++) {
            const uint32_t value = p->operand[p->node[i].in0 + k];
            bool seen = false;
            for (uint32_t r = 0; r < n && r < RECENT && !seen; r++) seen = recent[r] == value;
            if (seen) continue;
            recent[n++ % RECENT] = value;
            bytes += traffic(m, g, p, value);
        }
        for (uint32_t j = 0; j < node->n_out; j++) bytes += traffic(m, g, p, p->node[i].out[j]);
    }
    return bytes;
}

double plim__pnode_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__pnode *n)
{
    const plim__node *node = &plan->graph->node[n->node];
    double bytes = 0;
    for (uint32_t k = 0; k < node->n_in; k++) bytes += traffic(m, plan->graph, p, p->operand[n->in0 + k]);
    for (uint32_t j = 0; j < node->n_out; j++) bytes += traffic(m, plan->graph, p, n->out[j]);
    const double work = plim__work_seconds(&plan->speed, plan->nest.work[n->node], points_of(&n->axes, &m->tile.axis[n->axis0]));
    return fmax(work, bytes / plan->speed.memory_rate);
}

/* One trip of a stage: its kernels. @param calls  is increased by what starting and calling them takes */
static double stage_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__stage *s, double *calls)
{
    const double threads = s->blocks > 1 || s->pool ? plan->threads : 1;
    double work = 0;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &p->node[i];
        work += plim__work_seconds(&plan->speed, plan->nest.work[n->node], points_of(&n->axes, &m->tile.axis[n->axis0]));
    }
    *calls += threads > 1 ? plan->speed.machine.parallel_seconds : 0;
    *calls += s->blocks * s->count * plan->speed.machine.node_seconds / threads;
    return fmax(work, stage_traffic(m, plan->graph, p, s) / plan->speed.memory_rate);
}

double plim__stage_seconds(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__stage *s)
{
    double calls = 0;
    const double seconds = stage_seconds(m, plan, p, s, &calls);
    return seconds + calls;
}

/* ----------------------------------------------------------------------------------------- the two lines of time */

/* One trip through a group of steps, played on two lines of time: what the threads compute, and what the disk moves. A read that is early begins
 * when its slot comes to life, if the disk has time; the step that needs it waits. A write begins when it can. What goes through rings of slots
 * is read for the next trip and written for the last one, so it only takes the disk's time. */
typedef struct player {
    plim__measure *m;
    const plim_plan *plan;
    const plim__pass *p;
    double now;  /* of the threads */
    double disk; /* when the disk is done with what was asked of it in this trip */
    double ring; /* seconds of the disk for rings */
    double busy; /* seconds of the disk for everything */
    double compute, fill; /* seconds of kernels; of what the first and the last trip wait for alone */
    double *early; /* per depth: seconds of the disk for what is read and written while the loops inside turn */
} player;

/* How many boxes are written until one comes that continues the runs of this one: all those of the loops inside the innermost one that moves it on along them. */
static double boxes_between(const plim__pass *p, const plim__pvalue *v, const plim__io_file *f, const plim__region *box)
{
    int64_t nearest = INT64_MAX;
    uint32_t set = 0;
    double boxes = 1;
    PLIM_ASSERT(f->shape.rank == box->rank);
    for (uint32_t d = 0; d < box->rank; d++) {
        if (plim__range_len(box->dim[d]) >= f->shape.dim[d] || f->stride[d] >= nearest) continue;
        nearest = f->stride[d];
        set = v->moved_by[d];
    }
    for (uint32_t l = p->n_cut; l-- > 0 && !(set & 1u << l);) boxes *= (double)plim__loop_trips(&p->loop[l]);
    return boxes;
}

plim__box_cost plim__transfer_cost(const plim__measure *m, const plim_plan *plan, const plim__pass *p, const plim__pvalue *v, bool write, double *bytes)
{
    const plim__slot *slot = &m->slot[v->slot];
    plim__io_file f = planned_file(plan, v);
    const plim__region flat = {.rank = 1, .dim = {{0, (int64_t)slot->bytes}}}, whole = plim__region_whole(&plan->graph->value[v->value].shape);
    const bool reshaped = !plim__shape_equal(&f.shape, &plan->graph->value[slot->value].shape); /* all of another value's slot: I17 */
    const plim__region *box = reshaped ? &whole : &slot->box; /* the largest: the first tile of a short dimension may be empty */
    if (v->flat) {
        plim__file_describe_flat(&f, 0, slot->bytes);
        box = &flat;
    }
    *bytes = (double)plim__region_count(box) * f.element;
    return plim__box_seconds(&plan->speed.machine, &plan->io, &f, box, write, write ? boxes_between(p, v, &f, box) : 1);
}

static void play_transfer(player *k, uint32_t t, double trips)
{
    const plim__step *s = &k->p->step[t];
    const plim__pvalue *v = &k->p->value[s->index];
    const bool write = s->kind == PLIM__STEP_WRITE;
    double bytes;
    if (v->stored) return; /* a copy inside the arena */
    const plim__box_cost cost = plim__transfer_cost(k->m, k->plan, k->p, v, write, &bytes);
    const plim__slot *slot = &k->m->slot[v->slot];
    *(write ? &k->m->write_bytes : &k->m->read_bytes) += (uint64_t)(bytes * trips);
    k->m->requests += (uint64_t)(cost.requests * trips);
    k->now += cost.cpu / k->plan->threads; /* transfers take CPUs from the threads that compute */
    if (write ? v->beside : plim__read_is_early(k->p, t, slot, 0)) {
        k->early[s->depth] += cost.seconds * trips;
        if (v->ahead || v->beside) k->fill += cost.seconds; /* of the first trip, or of the last */
        return;
    }
    k->busy += cost.seconds;
    if (slot->copies > 1) {
        k->ring += cost.seconds;
        k->fill += fmax(cost.seconds, cost.latency);
        return;
    }
    const double asked = write || slot->first >= t ? k->now : k->m->when[slot->first];
    const bool idle = asked >= k->disk;
    k->disk = fmax(k->disk, asked) + (idle ? fmax(cost.seconds, cost.latency) : cost.seconds);
    if (!write) k->now = fmax(k->now, k->disk);
}

static void play_step(player *k, uint32_t t, double trips)
{
    const plim__step *s = &k->p->step[t];
    double calls = k->plan->speed.machine.step_seconds;
    k->m->when[t] = k->now;
    if (s->kind == PLIM__STEP_STAGE) {
        const double seconds = stage_seconds(k->m, k->plan, k->p, &k->p->stage[s->index], &calls);
        k->compute += seconds * trips;
        k->now += seconds;
    } else if (s->kind == PLIM__STEP_READ || s->kind == PLIM__STEP_WRITE) {
        play_transfer(k, t, trips);
    }
    k->now += calls;
}

/* What is read and written while inner loops turn has the time that the disk is idle meanwhile.
 * @param early  per depth; @param idle  per depth: seconds in which the disk is idle in the steps of that depth
 * @return seconds that remain to be waited */
static double wait_for_early(const double *early, const double *idle, uint32_t n_cut)
{
    double inside = 0, waited = 0;
    for (uint32_t d = n_cut; d-- > 0;) {
        inside += idle[d + 1];
        waited += fmax(early[d] - inside, 0);
        inside = fmax(inside - early[d], 0);
    }
    return waited;
}

void plim__pass_cost(plim__measure *m, const plim_plan *plan, const plim__pass *p)
{
    double early[PLIM__MAX_LOOPS + 1] = {0}, idle[PLIM__MAX_LOOPS + 1] = {0};
    player k = {.m = m, .plan = plan, .p = p, .early = early};
    m->read_bytes = m->write_bytes = m->requests = 0;
    m->seconds = plim__touch_seconds(plan, m->peak);
    for (uint32_t t = 0; t < p->n_steps;) {
        const uint32_t depth = p->step[t].depth;
        const bool post = p->step[t].post;
        const double trips = trips_inside(p, depth);
        k.now = k.disk = k.ring = k.busy = k.fill = 0;
        for (; t < p->n_steps && p->step[t].depth == depth && p->step[t].post == post; t++) play_step(&k, t, trips);
        const double seconds = fmax(fmax(k.now, k.disk), k.busy);
        idle[depth] += trips * (seconds - k.busy);
        m->seconds += trips * seconds + k.fill;
    }
    m->seconds += wait_for_early(early, idle, p->n_cut);
    m->compute = k.compute;
}
