/* Work is the product of the extents, traffic is the regions: both are read off the pass. Disk and compute overlap, so a pass takes the longer of
 * the two, plus what cannot overlap: filling the pipeline, steps, and touching the arena for the first time. The constants (here
 * and in cost.h) are orders of magnitude of ordinary machines; only their ratios matter for choosing. */
#include "plan/cost.h"
#include "core/size.h"

#define TOUCH_RATE 1.5e9     /* bytes of fresh memory per second */
#define WORK_RATE 2.0e9      /* simple f32 operations per second and thread, memory traffic included */

static double trips_inside(const plim__pass *p, uint32_t depth)
{
    double n = 1;
    for (uint32_t l = 0; l < depth && l < p->n_cut; l++) n *= (double)plim__loop_trips(&p->loop[l]);
    return n;
}

static double node_work(const plim_graph *g, const plim__pnode *n, const plim__range *axis)
{
    double points = 1;
    for (uint32_t a = 0; a < n->axes.n; a++) points *= (double)plim__range_len(axis[a]);
    const plim__op_row *row = plim__op_row_of(g->node[n->node].op);
    return points * (row->work ? row->work(g, &g->node[n->node]) : 1);
}

double plim__pnode_seconds(const plim_plan *plan, const plim__pnode *n, const plim__range *axis)
{
    return node_work(plan->graph, n, axis) / (WORK_RATE * plan->threads);
}

double plim__touch_seconds(const plim_graph *g, uint64_t bytes)
{
    for (uint32_t i = 0; i < g->n_sources; i++)
        if (g->source[i].stay != PLIM__STAY_FILE) return 0;
    return g->n_states > 0 ? 0 : (double)bytes / TOUCH_RATE;
}

double plim__node_seconds(const plim_plan *plan, uint32_t i)
{
    const plim_graph *g = plan->graph;
    const plim__op_row *row = plim__op_row_of(g->node[i].op);
    plim__axes axes = {0};
    double points = row->work ? row->work(g, &g->node[i]) : 1;
    row->axes(g, &g->node[i], &axes);
    for (uint32_t a = 0; a < axes.n; a++) points *= (double)axes.axis[a].extent;
    return points / (WORK_RATE * plan->threads);
}

void plim__pass_cost(plim__measure *m, const plim_plan *plan, const plim__pass *p)
{
    const plim_graph *g = plan->graph;
    double compute = 0, steps = 0, fill = 0, requests = 0, reads = 0, writes = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        compute += node_work(g, n, &m->tile.axis[n->axis0]) * trips_inside(p, n->depth);
    }
    compute /= WORK_RATE * plan->threads;
    m->compute = compute;
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const plim__step *s = &p->step[t];
        const double trips = trips_inside(p, s->depth);
        steps += trips;
        if (s->kind != PLIM__STEP_READ && s->kind != PLIM__STEP_WRITE) continue;
        const plim__pvalue *v = &p->value[s->index];
        if (v->stored) continue; /* a copy inside the arena */
        plim__io_file made = {0};
        const plim__io_file *f = &made;
        plim__region flat = {.rank = 1, .dim = {{0, (int64_t)m->slot[v->slot].bytes}}};
        const plim__region *box = &m->slot[v->slot].box; /* the largest: the first tile of a short dimension may be empty */
        if (v->flat) {
            plim__file_describe_flat(&made, 0, m->slot[v->slot].bytes);
            box = &flat;
        } else {
            f = plim__pvalue_file(plan, v, &made);
        }
        const double bytes = (double)plim__region_count(box) * f->element;
        requests += (double)plim__io_run_count(f, box) * trips;
        *(s->kind == PLIM__STEP_READ ? &reads : &writes) += bytes * trips;
        fill += bytes / (s->kind == PLIM__STEP_READ ? PLIM__READ_RATE : PLIM__WRITE_RATE);
    }
    const double disk = reads / PLIM__READ_RATE + writes / PLIM__WRITE_RATE + requests * PLIM__REQUEST_SECONDS;
    m->read_bytes = (uint64_t)reads;
    m->write_bytes = (uint64_t)writes;
    m->requests = (uint64_t)requests;
    const double busy = compute + requests * PLIM__REQUEST_WORK;
    const double tiles = trips_inside(p, p->n_cut);
    const double by_disk = disk + compute / tiles, by_work = busy + fill; /* the last tile is computed after its reads, the first waits for them */
    m->seconds = (by_disk > by_work ? by_disk : by_work) + steps * PLIM__STEP_SECONDS + tiles * p->n_nodes * PLIM__NODE_SECONDS +
                 plim__touch_seconds(plan->graph, m->peak);
}
