/* Spreads labels from one value through the graph, in sweeps over the nodes, forwards and backwards: a node is
 * looked at again when a value of it has got a label since. Each sweep but the last sets a label, so there are few.
 *
 * The tables belong to plim__labels and are reused from one spreading to the next; one thread at a time for each. */
#include "plan/labels.h"

#include <math.h>
#include <string.h>

#define MOST_EXTENTS 16 /* different ones of the axes that one loop moves: what more there are is cut as it comes */

plim_status plim__labels_new(plim__labels *l, const plim_graph *g, const plim__nests *nest, const plim__alloc *a, plim_error *err)
{
    *l = (plim__labels){.nest = nest};
    l->axis = plim__new(a, g->n_nodes, sizeof *l->axis, err);
    l->dim = plim__new(a, g->n_values, sizeof *l->dim, err);
    l->changed = plim__new(a, g->n_values, sizeof *l->changed, err);
    l->looked = plim__new(a, g->n_nodes, sizeof *l->looked, err);
    if (l->axis && l->dim && l->changed && l->looked) return PLIM_OK;
    plim__labels_free(l, a);
    return PLIM_E_NOMEM;
}

void plim__labels_free(plim__labels *l, const plim__alloc *a)
{
    plim__free(a, l->axis);
    plim__free(a, l->dim);
    plim__free(a, l->changed);
    plim__free(a, l->looked);
    *l = (plim__labels){0};
}

/* The largest value that an active node touches. @param files  how many times larger one counts that is a stream: on a file, and no state */
static uint32_t pick_driver(const plim_graph *g, const bool *active, const bool *on_file, const bool *is_state, double files)
{
    uint32_t best = PLIM__NONE;
    double best_score = -1;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!active[i]) continue;
        const plim__node *n = &g->node[i];
        for (uint32_t k = 0; k < n->n_in + n->n_out; k++) {
            const uint32_t v = k < n->n_in ? n->in[k] : n->out[k - n->n_in];
            const double score = (double)g->value[v].bytes * (on_file[v] && !(is_state && is_state[v]) ? files : 1);
            if (score > best_score) {
                best_score = score;
                best = v;
            }
        }
    }
    return best;
}

static bool has_label(const int8_t *labels, uint32_t n, int label)
{
    for (uint32_t i = 0; i < n; i++)
        if (labels[i] == label) return true;
    return false;
}

/* Gives axis `a` of a node a label; two axes of one node never share one, for a loop moves each root along one axis. */
static bool label_axis(int8_t *axis, const plim__axes *axes, uint32_t a, int label)
{
    PLIM_ASSERT(a < axes->n && label < PLIM__MAX_LOOPS);
    if (axis[a] >= 0 || label < 0 || axes->axis[a].kind == PLIM__WHOLE || axes->axis[a].extent <= 1) return false;
    if (has_label(axis, axes->n, label)) return false;
    axis[a] = (int8_t)label;
    return true;
}

static bool label_dim(plim__labels *l, const plim_graph *g, uint32_t v, uint32_t d, int label)
{
    const plim_shape *s = &g->value[v].shape;
    int8_t *dim = l->dim[v];
    PLIM_ASSERT(d < s->rank && label < (int)l->n);
    if (dim[d] >= 0 || label < 0 || s->dim[d] <= 1 || has_label(dim, s->rank, label)) return false;
    dim[d] = (int8_t)label;
    l->changed[v] = ++l->clock;
    return true;
}

/* Has a value of the node got a label since the node was looked at? */
static bool is_stale(const plim__labels *l, const plim_graph *g, uint32_t i)
{
    const plim__node *n = &g->node[i];
    PLIM_ASSERT(l->looked[i] <= l->clock); /* the clock only goes on */
    for (uint32_t k = 0; k < n->n_in; k++)
        if (l->changed[n->in[k]] > l->looked[i]) return true;
    for (uint32_t j = 0; j < n->n_out; j++)
        if (l->changed[n->out[j]] > l->looked[i]) return true;
    return false;
}

static bool spread_node(plim__labels *l, const plim_graph *g, uint32_t i)
{
    const plim__node *n = &g->node[i];
    const plim__axes *axes = &l->nest->axes[i];
    bool changed = false;
    if (!is_stale(l, g, i)) return false;
    l->looked[i] = l->clock;
    for (int to_axis = 1; to_axis >= 0; to_axis--) { /* first from the dimensions to the axes, then back */
        for (uint32_t k = 0; k < n->n_in; k++) {
            const plim_shape *s = &g->value[n->in[k]].shape;
            const plim__index *index = plim__nest_reads(l->nest, i, k);
            for (uint32_t d = 0; d < s->rank; d++) {
                if (index[d].axis < 0) continue;
                int8_t *axis = l->axis[i];
                changed |= to_axis ? label_axis(axis, axes, (uint32_t)index[d].axis, l->dim[n->in[k]][d]) : label_dim(l, g, n->in[k], d, axis[index[d].axis]);
            }
        }
        for (uint32_t j = 0; j < n->n_out; j++) {
            const plim_shape *s = &g->value[n->out[j]].shape;
            for (uint32_t d = 0; d < s->rank; d++) {
                const int a = axes->out[j][d];
                if (a < 0) continue;
                int8_t *axis = l->axis[i];
                changed |= to_axis ? label_axis(axis, axes, (uint32_t)a, l->dim[n->out[j]][d]) : label_dim(l, g, n->out[j], d, axis[a]);
            }
        }
    }
    return changed;
}

static void spread_all(plim__labels *l, const plim_graph *g, const bool *active)
{
    for (bool changed = true; changed;) {
        changed = false;
        for (uint32_t i = 0; i < g->n_nodes; i++)
            if (active[i]) changed |= spread_node(l, g, i);
        for (uint32_t i = g->n_nodes; i-- > 0;)
            if (active[i]) changed |= spread_node(l, g, i);
    }
}

/* An axis of a labelled node that has no label yet (the columns of a matrix product) becomes a loop of its own. */
static bool label_rest(plim__labels *l, const plim_graph *g, const bool *active)
{
    for (uint32_t i = 0; i < g->n_nodes && l->n < PLIM__MAX_LOOPS; i++) {
        if (!active[i]) continue;
        const plim__axes *axes = &l->nest->axes[i];
        bool some = false;
        for (uint32_t a = 0; a < axes->n; a++) some |= l->axis[i][a] >= 0;
        if (!some) continue;
        for (uint32_t a = 0; a < axes->n; a++) {
            if (!label_axis(l->axis[i], axes, a, (int)l->n)) continue;
            l->extent[l->n++] = axes->axis[a].extent;
            l->changed[g->node[i].out[0]] = ++l->clock; /* so that it is looked at */
            return true;
        }
    }
    return false;
}

/* Bytes between neighbours along a label, in the largest file that has it. */
static void weigh(plim__labels *l, const plim_graph *g, const bool *on_file)
{
    double largest[PLIM__MAX_LOOPS] = {0};
    for (uint32_t i = 0; i < l->n; i++) l->weight[i] = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const plim__value *x = &g->value[v];
        if (!on_file[v]) continue;
        double dense = (double)plim_dtype_bytes(x->dtype);
        for (uint32_t d = x->shape.rank; d-- > 0;) {
            const double stride = x->kind == PLIM__VALUE_FILE
                                      ? (double)g->source[x->source].stride[d] * (double)plim_dtype_bytes(x->dtype) : dense;
            dense *= (double)x->shape.dim[d];
            const int label = l->dim[v][d];
            PLIM_ASSERT(label < (int)l->n);
            if (label < 0 || (double)x->bytes <= largest[label]) continue;
            largest[label] = (double)x->bytes;
            l->weight[label] = stride;
        }
    }
}

/* Different extents of the axes that have one label, and the bytes that their nodes make. */
typedef struct extents {
    int64_t extent[MOST_EXTENTS];
    double bytes[MOST_EXTENTS];
    uint32_t n;
} extents;

static void note_extent(extents *x, int64_t extent, double bytes)
{
    uint32_t i = 0;
    PLIM_ASSERT(extent > 1); /* shorter axes get no label */
    while (i < x->n && x->extent[i] != extent) i++;
    if (i == MOST_EXTENTS) return;
    if (i == x->n) x->n++;
    x->extent[i] = extent;
    x->bytes[i] += bytes;
}

static void list_extents(const plim__labels *l, const plim_graph *g, const bool *active, extents *of)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t a = 0; a < l->nest->axes[i].n && active[i]; a++) {
            const int label = l->axis[i][a];
            if (label >= 0) note_extent(&of[label], l->nest->axes[i].axis[a].extent, (double)g->value[g->node[i].out[0]].bytes);
        }
}

/* Bytes of what can be cut evenly where a loop has the extent e. */
static double even_bytes(const extents *x, int64_t e)
{
    double bytes = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (e % x->extent[i] == 0 || x->extent[i] % e == 0) bytes += x->bytes[i];
    return bytes;
}

/* A loop's steps are those of the axis with which most divides evenly: tiles that cut a row of one array in two read and make rows of others twice. Of several
 * such axes the longest. A grain of steps is one of the shortest axis that divides evenly. */
static void fit_extents(plim__labels *l, const plim_graph *g, const bool *active)
{
    extents of[PLIM__MAX_LOOPS] = {0};
    list_extents(l, g, active, of);
    for (uint32_t label = 0; label < l->n; label++) {
        const extents *x = &of[label];
        double most = 0;
        for (uint32_t i = 0; i < x->n; i++) {
            const double bytes = even_bytes(x, x->extent[i]);
            if (bytes < most || (bytes == most && x->extent[i] <= l->extent[label])) continue;
            most = bytes;
            l->extent[label] = x->extent[i];
        }
        l->grain[label] = 1;
        for (uint32_t i = 0; i < x->n; i++)
            if (l->extent[label] % x->extent[i] == 0 && l->extent[label] / x->extent[i] > l->grain[label]) l->grain[label] = l->extent[label] / x->extent[i];
        PLIM_ASSERT(l->extent[label] > 1 && l->extent[label] % l->grain[label] == 0); /* so tiles of whole grains cut no shorter axis unevenly */
    }
}

/* Numbers the driver's dimensions, and spreads the numbers. */
static void spread_from(plim__labels *l, const plim_graph *g, const bool *active, uint32_t driver)
{
    PLIM_ASSERT(driver < g->n_values);
    memset(l->axis, -1, g->n_nodes * sizeof *l->axis);
    memset(l->dim, -1, g->n_values * sizeof *l->dim);
    memset(l->changed, 0, g->n_values * sizeof *l->changed);
    memset(l->looked, 0, g->n_nodes * sizeof *l->looked);
    l->n = 0;
    l->changed[driver] = l->clock = 1;
    const plim_shape *s = &g->value[driver].shape;
    for (uint32_t d = 0; d < s->rank && l->n < PLIM__MAX_LOOPS; d++) {
        if (s->dim[d] <= 1) continue;
        l->extent[l->n] = s->dim[d];
        l->dim[driver][d] = (int8_t)l->n++;
    }
    do spread_all(l, g, active);
    while (label_rest(l, g, active));
    PLIM_ASSERT(l->n <= PLIM__MAX_LOOPS);
}

/* How finely the labels could cut everything: bytes, by how often each could be halved. */
static double reach(const plim__labels *l, const plim_graph *g)
{
    double sum = 0;
    for (uint32_t v = 0; v < g->n_values; v++)
        for (uint32_t d = 0; d < g->value[v].shape.rank; d++)
            if (l->dim[v][d] >= 0) sum += (double)g->value[v].bytes * log2((double)g->value[v].shape.dim[d]);
    return sum;
}

/* The loops are the dimensions of the largest value on a file, unless something between is far larger (an outer product), or the largest value of all
 * reaches further: weights lie in files too, but their dimensions are not those of what streams through. */
void plim__labels_spread(plim__labels *l, const plim_graph *g, const bool *active, const bool *on_file, const bool *is_state)
{
    const uint32_t driver = pick_driver(g, active, on_file, is_state, 16), largest = pick_driver(g, active, on_file, is_state, 1);
    l->n = 0;
    if (driver == PLIM__NONE) {
        memset(l->axis, -1, g->n_nodes * sizeof *l->axis);
        memset(l->dim, -1, g->n_values * sizeof *l->dim);
        return;
    }
    PLIM_ASSERT(largest != PLIM__NONE && g->value[largest].bytes >= g->value[driver].bytes);
    spread_from(l, g, active, driver);
    if (largest != driver) {
        const double before = reach(l, g);
        spread_from(l, g, active, largest);
        if (reach(l, g) <= before) spread_from(l, g, active, driver);
    }
    weigh(l, g, on_file);
    fit_extents(l, g, active);
}
