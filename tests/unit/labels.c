/* Labels on random programs: what each promises is worked out again from the declared nests, place by place. A place is
 * an axis of a node or a dimension of a value; two places are linked where the node, which is active, indexes the
 * dimension by the axis. */
#include "unit.h"

#include "plan/labels.h"
#include "random_graph.h"

#include <stdlib.h>

#define PROGRAMS 2000

typedef struct lab {
    random_graph r;
    plim__labels l;
    bool *active, *on_file, *is_state;
    uint32_t *island; /* per place: of those that links join along one label, the first; see unite */
    int numbered;     /* labels that the driver's dimensions have, at the most */
} lab;

static void lab_begin(lab *b, random_how how)
{
    *b = (lab){0};
    random_graph_begin(&b->r, how);
    const plim_graph *g = b->r.g;
    b->active = calloc(g->n_nodes, sizeof *b->active);
    b->on_file = calloc(g->n_values, sizeof *b->on_file);
    b->is_state = calloc(g->n_values, sizeof *b->is_state);
    b->island = calloc((size_t)g->n_nodes * PLIM__MAX_AXES + (size_t)g->n_values * PLIM_MAX_RANK, sizeof *b->island);
    assert_true(b->active && b->on_file && b->is_state && b->island);
    assert_int_equal(plim__labels_new(&b->l, g, &b->r.plan->nest, &g->alloc, NULL), PLIM_OK);
}

static void lab_end(lab *b)
{
    plim__labels_free(&b->l, &b->r.g->alloc);
    free(b->active);
    free(b->on_file);
    free(b->is_state);
    free(b->island);
    random_graph_end(&b->r);
}

/* All nodes, or most; inputs on file, and some of the rest. */
static void spread_randomly(lab *b, bool all)
{
    const plim_graph *g = b->r.g;
    for (uint32_t i = 0; i < g->n_nodes; i++) b->active[i] = all || random_below(&b->r, 4);
    for (uint32_t v = 0; v < g->n_values; v++)
        b->on_file[v] = g->value[v].kind == PLIM__VALUE_FILE || random_below(&b->r, 6) == 0;
    for (uint32_t v = 0; v < g->n_values; v++) b->is_state[v] = b->r.plan->is_state[v];
    plim__labels_spread(&b->l, g, b->active, b->on_file, random_below(&b->r, 2) ? b->is_state : NULL);
}

/* ------------------------------------------------------------------------------------------------------- links */

/* An operand's dimension, and the axis of the node by which it is indexed. */
typedef struct axis_link {
    uint32_t node, axis, value, dim;
} axis_link;

typedef void visit(const lab *b, const axis_link *x);

static void for_each_link(const lab *b, visit *fn)
{
    const plim_graph *g = b->r.g;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        const plim__op_row *row = plim__op_row_of(n->op);
        plim__axes axes = {0};
        if (!b->active[i]) continue;
        row->axes(g, n, &axes);
        for (uint32_t k = 0; k < n->n_in; k++) {
            plim__index index[PLIM_MAX_RANK];
            row->reads(g, n, k, index);
            for (uint32_t d = 0; d < g->value[n->in[k]].shape.rank; d++)
                if (index[d].axis >= 0) fn(b, &(axis_link){i, (uint32_t)index[d].axis, n->in[k], d});
        }
        for (uint32_t j = 0; j < n->n_out; j++)
            for (uint32_t d = 0; d < g->value[n->out[j]].shape.rank; d++)
                if (axes.out[j][d] >= 0) fn(b, &(axis_link){i, (uint32_t)axes.out[j][d], n->out[j], d});
    }
}

static plim__axis axis_of(const lab *b, uint32_t node, uint32_t a)
{
    plim__axes axes = {0};
    plim__op_row_of(b->r.g->node[node].op)->axes(b->r.g, &b->r.g->node[node], &axes);
    assert_true(a < axes.n);
    return axes.axis[a];
}

static uint32_t axes_of(const lab *b, uint32_t node)
{
    plim__axes axes = {0};
    plim__op_row_of(b->r.g->node[node].op)->axes(b->r.g, &b->r.g->node[node], &axes);
    return axes.n;
}

static bool can_be_cut(const lab *b, uint32_t node, uint32_t a)
{
    const plim__axis x = axis_of(b, node, a);
    return x.kind != PLIM__WHOLE && x.extent > 1;
}

static bool node_has(const lab *b, uint32_t node, int label)
{
    for (uint32_t a = 0; a < axes_of(b, node); a++)
        if (b->l.axis[node][a] == label) return true;
    return false;
}

static bool value_has(const lab *b, uint32_t v, int label)
{
    for (uint32_t d = 0; d < b->r.g->value[v].shape.rank; d++)
        if (b->l.dim[v][d] == label) return true;
    return false;
}

/* ------------------------------------------------------------------------------------------------------ checks */

/* No two axes of a node, and no two dimensions of a value, have one label. */
static void check_not_shared(const lab *b)
{
    const plim_graph *g = b->r.g;
    assert_true(b->l.n <= PLIM__MAX_LOOPS);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        uint32_t seen = 0;
        for (uint32_t a = 0; a < axes_of(b, i); a++) {
            const int label = b->l.axis[i][a];
            assert_true(label >= -1 && label < (int)b->l.n);
            if (label < 0) continue;
            assert_true(b->active[i] && can_be_cut(b, i, a));
            assert_false(seen & 1u << label);
            seen |= 1u << label;
        }
    }
    for (uint32_t v = 0; v < g->n_values; v++) {
        uint32_t seen = 0;
        for (uint32_t d = 0; d < g->value[v].shape.rank; d++) {
            const int label = b->l.dim[v][d];
            assert_true(label >= -1 && label < (int)b->l.n);
            if (label < 0) continue;
            assert_true(g->value[v].shape.dim[d] > 1);
            assert_false(seen & 1u << label);
            seen |= 1u << label;
        }
    }
}

/* Has this end of a link no label, or one that was given only after `label` had spread as far as it goes? */
static bool is_later(const lab *b, int mine, int label) { return mine < 0 || (mine > label && mine >= b->numbered); }

/* Where one end of a link has a label, the other end has it, or one that was there before, or may not have it. */
static void check_link(const lab *b, const axis_link *x)
{
    const int of_axis = b->l.axis[x->node][x->axis], of_dim = b->l.dim[x->value][x->dim];
    if (of_dim >= 0 && is_later(b, of_axis, of_dim) && can_be_cut(b, x->node, x->axis))
        assert_true(node_has(b, x->node, of_dim));
    if (of_axis >= 0 && is_later(b, of_dim, of_axis) && b->r.g->value[x->value].shape.dim[x->dim] > 1)
        assert_true(value_has(b, x->value, of_axis));
}

/* A node with a label has one on every axis that can be cut, as long as there are labels left. */
static void check_rest(const lab *b)
{
    for (uint32_t i = 0; i < b->r.g->n_nodes && b->l.n < PLIM__MAX_LOOPS; i++) {
        uint32_t labelled = 0, open = 0;
        for (uint32_t a = 0; a < axes_of(b, i); a++) {
            labelled += b->l.axis[i][a] >= 0;
            open += b->l.axis[i][a] < 0 && can_be_cut(b, i, a);
        }
        if (labelled > 0) assert_int_equal(open, 0);
    }
}

static uint32_t axis_place(uint32_t node, uint32_t a) { return node * PLIM__MAX_AXES + a; }
static uint32_t dim_place(const lab *b, uint32_t v, uint32_t d)
{
    return b->r.g->n_nodes * PLIM__MAX_AXES + v * PLIM_MAX_RANK + d;
}

static uint32_t find(const lab *b, uint32_t place)
{
    while (b->island[place] != place) place = b->island[place];
    return place;
}

static void unite(const lab *b, const axis_link *x)
{
    if (b->l.axis[x->node][x->axis] < 0 || b->l.axis[x->node][x->axis] != b->l.dim[x->value][x->dim]) return;
    b->island[find(b, axis_place(x->node, x->axis))] = find(b, dim_place(b, x->value, x->dim));
}

static void join(uint32_t *of_label, int label, uint32_t island)
{
    if (label < 0) return;
    if (of_label[label] == PLIM__NONE) of_label[label] = island;
    assert_int_equal(of_label[label], island);
}

/* All places with one label are joined by links: it has spread from one of them. */
static void check_spread_from_one(const lab *b)
{
    const plim_graph *g = b->r.g;
    uint32_t of_label[PLIM__MAX_LOOPS];
    for (uint32_t p = 0; p < g->n_nodes * PLIM__MAX_AXES + g->n_values * PLIM_MAX_RANK; p++) b->island[p] = p;
    for (uint32_t l = 0; l < PLIM__MAX_LOOPS; l++) of_label[l] = PLIM__NONE;
    for_each_link(b, unite);
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t a = 0; a < axes_of(b, i); a++) join(of_label, b->l.axis[i][a], find(b, axis_place(i, a)));
    for (uint32_t v = 0; v < g->n_values; v++)
        for (uint32_t d = 0; d < g->value[v].shape.rank; d++)
            join(of_label, b->l.dim[v][d], find(b, dim_place(b, v, d)));
    for (uint32_t l = 0; l < b->l.n; l++) assert_int_not_equal(of_label[l], PLIM__NONE);
}

/* Bytes of the first outputs of nodes whose axis with this label divides `extent` evenly, or is divided by it. */
static uint64_t even_bytes(const lab *b, uint32_t label, int64_t extent)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < b->r.g->n_nodes; i++)
        for (uint32_t a = 0; a < axes_of(b, i); a++) {
            const int64_t n = axis_of(b, i, a).extent;
            if (b->l.axis[i][a] == (int)label && (n % extent == 0 || extent % n == 0))
                bytes += b->r.g->value[b->r.g->node[i].out[0]].bytes;
        }
    return bytes;
}

/* The extent is that of a labelled axis, with which the most divides evenly; of several such the longest. The grain is
 * how many of its steps make one of the shortest axis that divides it. */
static void check_extent(const lab *b, uint32_t label)
{
    const int64_t extent = b->l.extent[label];
    int64_t shortest = extent;
    bool found = false, some = false;
    const uint64_t most = even_bytes(b, label, extent);
    for (uint32_t i = 0; i < b->r.g->n_nodes; i++)
        for (uint32_t a = 0; a < axes_of(b, i); a++) {
            const int64_t n = axis_of(b, i, a).extent;
            if (b->l.axis[i][a] != (int)label) continue;
            const uint64_t bytes = even_bytes(b, label, n);
            assert_true(bytes < most || (bytes == most && n <= extent));
            some = true;
            found |= n == extent;
            if (extent % n == 0 && n < shortest) shortest = n;
        }
    assert_true(found || !some);
    assert_true(extent > 1 && b->l.grain[label] >= 1);
    if (b->l.grain[label] != extent / shortest)
        fail_msg("seed %llu, label %u: extent %lld, grain %lld, shortest %lld", (unsigned long long)b->r.how.seed,
                 label, (long long)extent, (long long)b->l.grain[label], (long long)shortest);
}

/* Bytes from one element of a value to its neighbour, as it lies in its file: input files say so themselves. */
static double distance(const plim_graph *g, uint32_t v, uint32_t d)
{
    const plim__value *x = &g->value[v];
    if (x->kind == PLIM__VALUE_FILE) return (double)g->source[x->source].stride[d] * 4;
    double bytes = (double)plim_dtype_bytes(x->dtype);
    for (uint32_t e = d + 1; e < x->shape.rank; e++) bytes *= (double)x->shape.dim[e];
    return bytes;
}

/* The weight is the distance along the label in one of the largest files that have it; 0 where none has. */
static void check_weight(const lab *b, uint32_t label)
{
    const plim_graph *g = b->r.g;
    uint64_t largest = 0;
    bool found = false;
    for (int round = 0; round < 2; round++)
        for (uint32_t v = 0; v < g->n_values; v++)
            for (uint32_t d = 0; d < g->value[v].shape.rank; d++) {
                if (!b->on_file[v] || b->l.dim[v][d] != (int)label) continue;
                if (round == 0)
                    largest = g->value[v].bytes > largest ? g->value[v].bytes : largest;
                else
                    found |= g->value[v].bytes == largest && distance(g, v, d) == b->l.weight[label];
            }
    if (largest > 0 ? !found : b->l.weight[label] != 0)
        fail_msg("seed %llu: label %u has weight %g, its largest file %llu bytes", (unsigned long long)b->r.how.seed,
                 label, b->l.weight[label], (unsigned long long)largest);
}

/* How many dimensions of v are numbered from 0 on; -1: not all of those longer than 1 are. */
static int numbered_dims(const lab *b, uint32_t v)
{
    int next = 0;
    for (uint32_t d = 0; d < b->r.g->value[v].shape.rank; d++) {
        const int want = b->r.g->value[v].shape.dim[d] > 1 ? next++ : -1;
        if (b->l.dim[v][d] != want) return -1;
    }
    return next;
}

static bool is_touched(const lab *b, uint32_t v)
{
    const plim_graph *g = b->r.g;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        if (!b->active[i]) continue;
        for (uint32_t k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == v) return true;
        for (uint32_t j = 0; j < g->node[i].n_out; j++)
            if (g->node[i].out[j] == v) return true;
    }
    return false;
}

/* They come from the largest value that the active nodes touch, or from one on file. Notes how many labels such a value
 * may have given. */
static void check_driver(lab *b)
{
    const plim_graph *g = b->r.g;
    uint64_t largest = 0;
    b->numbered = -1;
    for (uint32_t v = 0; v < g->n_values; v++)
        if (is_touched(b, v) && g->value[v].bytes > largest) largest = g->value[v].bytes;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const int n = is_touched(b, v) && (g->value[v].bytes == largest || b->on_file[v]) ? numbered_dims(b, v) : -1;
        if (n > b->numbered) b->numbered = n;
    }
    assert_true(b->numbered >= 0 || largest == 0);
}

static void check_all(lab *b)
{
    check_not_shared(b);
    check_driver(b);
    for_each_link(b, check_link);
    check_rest(b);
    check_spread_from_one(b);
    for (uint32_t l = 0; l < b->l.n; l++) check_extent(b, l);
    for (uint32_t l = 0; l < b->l.n; l++) check_weight(b, l);
}

/* ------------------------------------------------------------------------------------------------------- tests */

static void labels_of_random_programs(void **state)
{
    (void)state;
    uint32_t labels = 0, grains = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        lab b;
        lab_begin(&b, (random_how){.seed = (uint64_t)i * 31 + 7,
                                   .ops = 4 + (uint32_t)i % 12,
                                   .scale = 2 + i % 9,
                                   .states = (uint32_t)i % 3});
        spread_randomly(&b, true);
        check_all(&b);
        spread_randomly(&b, false); /* what the first left behind is forgotten */
        check_all(&b);
        for (uint32_t l = 0; l < b.l.n; l++) grains += b.l.grain[l] > 1;
        labels += b.l.n;
        lab_end(&b);
    }
    assert_true(labels > 2 * (uint32_t)rounds(PROGRAMS) && grains > 0); /* what is checked does happen */
}

static void labels_are_the_same_again(void **state)
{
    (void)state;
    for (int i = 0; i < rounds(PROGRAMS) / 4; i++) {
        lab a, b;
        const random_how how = {.seed = (uint64_t)i * 13 + 1, .ops = 12, .scale = 4};
        lab_begin(&a, how);
        lab_begin(&b, how);
        spread_randomly(&a, true);
        spread_randomly(&b, true);
        plim__labels_spread(&b.l, b.r.g, b.active, b.on_file, NULL);
        plim__labels_spread(&a.l, a.r.g, a.active, a.on_file, NULL);
        assert_int_equal(a.l.n, b.l.n);
        assert_memory_equal(a.l.extent, b.l.extent, a.l.n * sizeof *a.l.extent);
        assert_memory_equal(a.l.grain, b.l.grain, a.l.n * sizeof *a.l.grain);
        assert_memory_equal(a.l.axis, b.l.axis, a.r.g->n_nodes * sizeof *a.l.axis);
        assert_memory_equal(a.l.dim, b.l.dim, a.r.g->n_values * sizeof *a.l.dim);
        lab_end(&a);
        lab_end(&b);
    }
}

static void no_labels_without_nodes(void **state)
{
    (void)state;
    lab b;
    lab_begin(&b, (random_how){.seed = 5, .ops = 8, .scale = 4});
    plim__labels_spread(&b.l, b.r.g, b.active, b.on_file, NULL); /* none is active */
    assert_int_equal(b.l.n, 0);
    check_not_shared(&b);
    lab_end(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_of_random_programs),
        cmocka_unit_test(labels_are_the_same_again),
        cmocka_unit_test(no_labels_without_nodes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
