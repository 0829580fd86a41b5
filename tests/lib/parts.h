/* Runs the nodes of a graph whole or part by part, for tests of rows.
 *
 * A part gets exactly the regions that plim__region_reads names, copied out into memory of their own (a sanitiser sees every step beyond), in one of
 * several layouts whose gaps are filled with 0xFF: NaN as a float, -1 as an integer. */
#ifndef PLIM_TESTS_PARTS_H
#define PLIM_TESTS_PARTS_H

#include "core/dtype.h"
#include "core/size.h"
#include "kernels/elementwise.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct parts_rng {
    uint64_t s;
} parts_rng;

static inline uint32_t parts_random(parts_rng *r, uint32_t below)
{
    r->s = r->s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((r->s >> 33) % below);
}

/* How a node is run. */
typedef enum parts_mode { PARTS_WHOLE, PARTS_CUT, PARTS_MERGED } parts_mode;

/* A box in memory of its own. layout 0: dense; 1: dimensions in reverse order; 2: rows with a gap; 3: the last dimension backwards. */
typedef struct parts_box {
    void *memory;
    plim__view view;
} parts_box;

static inline parts_box parts_box_new(const plim__region *r, plim_dtype t, uint32_t layout)
{
    parts_box b = {.view = {.dtype = t, .rank = r->rank}};
    int64_t stride = 1;
    for (uint32_t k = 0; k < r->rank; k++) {
        const uint32_t d = layout == 1 ? k : r->rank - 1 - k;
        b.view.lo[d] = r->dim[d].lo;
        b.view.n[d] = plim__range_len(r->dim[d]);
        b.view.stride[d] = stride;
        stride *= plim__max(b.view.n[d], 1) + (layout == 2 && k == 0 ? 3 : 0);
    }
    const uint64_t bytes = (uint64_t)stride * plim_dtype_bytes(t);
    b.memory = aligned_alloc(64, plim__round_up(bytes, 64));
    memset(b.memory, 0xFF, plim__round_up(bytes, 64));
    char *first = (char *)b.memory + plim__round_up(bytes, 64) - plim__round_up(bytes, plim_dtype_bytes(t)); /* overruns leave the block at once */
    if (layout == 3 && r->rank > 0 && b.view.n[r->rank - 1] > 0) {
        const uint32_t d = r->rank - 1;
        first += (b.view.n[d] - 1) * b.view.stride[d] * (int64_t)plim_dtype_bytes(t);
        b.view.stride[d] = -b.view.stride[d];
    }
    b.view.data = first;
    return b;
}

static inline plim__view parts_whole_view(const plim__value *v, void *data)
{
    const plim__region r = plim__region_whole(&v->shape);
    return plim__view_dense(data, v->dtype, &r);
}

/* Copies through plain loops: the code under test is not used to test itself. */
static inline void parts_copy(const plim__view *to, const plim__view *from)
{
    const uint64_t bytes = plim_dtype_bytes(to->dtype), n = plim__view_count(to);
    const uint32_t last = to->rank ? to->rank - 1 : 0;
    const uint64_t row = to->rank ? (uint64_t)to->n[last] : 1;
    for (uint64_t i = 0; i < n; i += row) {
        int64_t at[PLIM_MAX_RANK] = {0}, rest = (int64_t)(i / row);
        if (to->rank) at[last] = to->lo[last];
        for (uint32_t d = last; d-- > 0;) {
            at[d] = to->lo[d] + rest % to->n[d];
            rest /= to->n[d];
        }
        char *a = plim__view_at(to, at);
        const char *b = plim__view_at(from, at);
        if (to->rank && to->stride[last] == 1 && from->stride[last] == 1) memcpy(a, b, row * bytes);
        else for (uint64_t k = 0; k < row; k++) memcpy(a + (int64_t)k * to->stride[last] * (int64_t)bytes, b + (int64_t)k * from->stride[last] * (int64_t)bytes, bytes);
    }
}

/* One call over the part `axis`: boxes in, boxes out. @param data  the whole values' data, by value id
 * @param into  data of the outputs, by output */
static inline void parts_call(const plim_graph *g, const plim__node *n, void **data, void **into, const plim__range *axis, parts_rng *rng, bool init)
{
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes;
    row->axes(g, n, &axes);
    parts_box in[8], out[PLIM__MAX_OUT];
    plim__view in_view[8], out_view[PLIM__MAX_OUT];
    int64_t len[PLIM__MAX_AXES];
    for (uint32_t a = 0; a < axes.n; a++) len[a] = plim__range_len(axis[a]);
    for (uint32_t k = 0; k < n->n_in; k++) {
        plim__region r;
        plim__region_reads(g, n, k, axis, &r);
        const plim__view whole = parts_whole_view(plim__in(g, n, k), data[n->in[k]]);
        in[k] = parts_box_new(&r, whole.dtype, parts_random(rng, 4));
        parts_copy(&in[k].view, &whole);
        in_view[k] = in[k].view;
    }
    for (uint32_t j = 0; j < n->n_out; j++) {
        plim__region r;
        plim__region_writes(g, n, &axes, j, axis, &r);
        const plim__view whole = parts_whole_view(plim__out(g, n, j), into[j]);
        out[j] = parts_box_new(&r, whole.dtype, parts_random(rng, 3));
        parts_copy(&out[j].view, &whole);
        out_view[j] = out[j].view;
    }
    const uint64_t bytes = row->scratch ? row->scratch(g, n, len, 1) : 0;
    void *scratch = aligned_alloc(64, plim__round_up(bytes + 64, 64));
    memset(scratch, 0xFF, bytes + 64);
    const plim__call c = {.graph = g, .node = n, .in = in_view, .out = out_view, .axis = axis, .scratch = scratch, .threads = 1};
    (init ? row->init : row->run)(&c);
    for (uint64_t i = bytes; i < bytes + 64; i++)
        if (((unsigned char *)scratch)[i] != 0xFF) {
            fprintf(stderr, "%s wrote beyond its scratch\n", row->name);
            abort();
        }
    free(scratch);
    for (uint32_t k = 0; k < n->n_in; k++) free(in[k].memory);
    for (uint32_t j = 0; j < n->n_out; j++) {
        const plim__view whole = parts_whole_view(plim__out(g, n, j), into[j]);
        const plim__region r = plim__view_region(&out[j].view);
        const plim__view there = plim__view_part(&whole, &r);
        parts_copy(&there, &out[j].view);
        free(out[j].memory);
    }
}

static inline void *parts_new(const plim__value *v)
{
    void *p = malloc(v->bytes + 8);
    memset(p, 0xFF, v->bytes + 8);
    return p;
}

/* Merges the partial outputs `part` into `into`. */
static inline void parts_merge(const plim_graph *g, const plim__node *n, void **into, void **part, const plim__range *axis)
{
    plim__view in[PLIM__MAX_OUT], out[PLIM__MAX_OUT];
    for (uint32_t j = 0; j < n->n_out; j++) {
        in[j] = parts_whole_view(plim__out(g, n, j), part[j]);
        out[j] = parts_whole_view(plim__out(g, n, j), into[j]);
    }
    const plim__call c = {.graph = g, .node = n, .in = in, .out = out, .axis = axis, .threads = 1};
    plim__op_row_of(n->op)->merge(&c);
}

/* Up to four cuts of each axis that may be cut, at random places; some are left whole. */
typedef struct parts_cuts {
    uint32_t n[PLIM__MAX_AXES];
    int64_t at[PLIM__MAX_AXES][6];
} parts_cuts;

static inline parts_cuts parts_cut(const plim__axes *axes, parts_mode mode, parts_rng *rng)
{
    parts_cuts c = {0};
    for (uint32_t a = 0; a < axes->n; a++) {
        const int64_t extent = axes->axis[a].extent;
        const bool may = mode != PARTS_WHOLE && axes->axis[a].kind != PLIM__WHOLE && parts_random(rng, 4) > 0;
        c.n[a] = 1;
        for (int64_t at = 0; may && c.n[a] < 5 && extent > 0;) {
            at += 1 + parts_random(rng, (uint32_t)plim__max(extent / 2, 2));
            if (at >= extent) break;
            c.at[a][c.n[a]++] = at;
        }
        c.at[a][c.n[a]] = extent;
    }
    return c;
}

static inline void parts_run_node(const plim_graph *g, const plim__node *n, void **data, parts_mode mode, parts_rng *rng)
{
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes;
    row->axes(g, n, &axes);
    plim__range whole[PLIM__MAX_AXES], axis[PLIM__MAX_AXES];
    uint64_t parts = 1;
    const parts_cuts cuts = parts_cut(&axes, mode, rng);
    bool empty = false;
    for (uint32_t a = 0; a < axes.n; a++) {
        whole[a] = (plim__range){0, axes.axis[a].extent};
        parts *= cuts.n[a];
        empty = empty || axes.axis[a].extent == 0;
    }
    void *into[2][PLIM__MAX_OUT];
    const int copies = mode == PARTS_MERGED && row->merge ? 2 : 1;
    for (int k = 0; k < copies; k++) {
        for (uint32_t j = 0; j < n->n_out; j++) into[k][j] = parts_new(plim__out(g, n, j));
        if (row->init) parts_call(g, n, data, into[k], whole, rng, true);
    }
    for (uint64_t p = 0; p < parts && !empty; p++) {
        uint64_t rest = p;
        for (uint32_t a = axes.n; a-- > 0;) {
            const uint64_t i = rest % cuts.n[a];
            rest /= cuts.n[a];
            axis[a] = (plim__range){cuts.at[a][i], cuts.at[a][i + 1]};
        }
        parts_call(g, n, data, into[copies == 2 ? parts_random(rng, 2) : 0], axis, rng, false);
    }
    if (copies == 2) {
        parts_merge(g, n, into[0], into[1], whole);
        for (uint32_t j = 0; j < n->n_out; j++) free(into[1][j]);
    }
    for (uint32_t j = 0; j < n->n_out; j++) {
        free(data[n->out[j]]);
        data[n->out[j]] = into[0][j];
    }
}

/* Runs every node. data[v] for files must be there; constants are filled in. */
static inline void parts_run(const plim_graph *g, void **data, parts_mode mode, parts_rng *rng)
{
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].kind != PLIM__VALUE_CONST || data[v]) continue;
        data[v] = malloc(g->value[v].bytes + 8);
        memcpy(data[v], g->value[v].data, g->value[v].bytes);
    }
    for (uint32_t k = 0; k < g->n_nodes; k++) parts_run_node(g, &g->node[k], data, mode, rng);
}

static inline void parts_free(const plim_graph *g, void **data)
{
    for (uint32_t v = 0; v < g->n_values; v++) {
        free(data[v]);
        data[v] = NULL;
    }
}

/* ---- values */
static inline double parts_get(const void *data, plim_dtype t, uint64_t i)
{
    double v;
    plim__convert(&v, PLIM_F64, (const char *)data + i * plim_dtype_bytes(t), t, 1);
    return v;
}

static inline void parts_set(void *data, plim_dtype t, uint64_t i, double v)
{
    plim__convert((char *)data + i * plim_dtype_bytes(t), t, &v, PLIM_F64, 1);
}

/* Random values that the dtype holds, with many ties. */
static inline void parts_fill(void *data, plim_dtype t, uint64_t n, parts_rng *rng)
{
    const bool is_float = plim__dtype_is_float(t), is_signed = is_float || plim__dtype_kind(t) == PLIM__KIND_INT;
    for (uint64_t i = 0; i < n; i++) {
        const double whole = (double)parts_random(rng, t == PLIM_BOOL ? 2 : 100) - (is_signed ? 50 : t == PLIM_BOOL ? 0 : -1);
        parts_set(data, t, i, is_float ? whole + (double)parts_random(rng, 1u << 16) / 65536 : whole);
    }
}

/* An input value with random data. */
static inline uint32_t parts_input(plim_graph *g, void **data, plim_dtype t, const plim_shape *s, parts_rng *rng)
{
    static uint32_t serial;
    char path[32];
    snprintf(path, sizeof path, "x%u.npy", serial++);
    plim__source source = {.path = path};
    uint32_t v = PLIM__NONE;
    plim_error err = {0};
    if (plim__graph_file(g, "x", t, s, &source, &v, &err) != PLIM_OK) {
        fprintf(stderr, "%s\n", err.message);
        abort();
    }
    uint64_t n;
    if (plim_shape_count(&n, s, &err) != PLIM_OK) abort();
    data[v] = malloc(n * plim_dtype_bytes(t) + 8);
    parts_fill(data[v], t, n, rng);
    return v;
}

/* How many elements. */
static inline uint64_t parts_count(const plim_shape *s)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < s->rank; d++) n *= (uint64_t)s->dim[d];
    return n;
}

/* Divides an input's random values, which lie in [-50, 50]. */
static inline void parts_scale(const plim_graph *g, void **data, uint32_t v, double by)
{
    const plim_dtype t = g->value[v].dtype;
    const uint64_t n = parts_count(&g->value[v].shape);
    for (uint64_t i = 0; i < n; i++) parts_set(data[v], t, i, parts_get(data[v], t, i) / by);
}

/* A graph with its values' data. */
#define PARTS_VALUES 64

typedef struct parts_lab {
    plim_graph *g;
    void *data[PARTS_VALUES];
    parts_rng rng;
    uint32_t x; /* the test's own: the input that it is about */
} parts_lab;

static inline parts_lab parts_lab_new(uint64_t seed)
{
    parts_lab lab = {.rng = {seed * 977 + 5}, .x = PLIM__NONE};
    if (plim__graph_new(&lab.g, (plim__alloc){0}, NULL) != PLIM_OK) abort();
    return lab;
}

static inline void parts_lab_free(parts_lab *lab)
{
    if (lab->g->n_values > PARTS_VALUES) abort();
    parts_free(lab->g, lab->data);
    plim__graph_free(&lab->g);
}

static inline uint32_t parts_lab_input(parts_lab *lab, plim_dtype t, const plim_shape *s) { return parts_input(lab->g, lab->data, t, s, &lab->rng); }

/* |a - b| <= atol + rtol*|b|, NaN and infinity equal to themselves. */
static inline bool parts_close(double a, double b, double atol, double rtol)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= atol + rtol * fabs(b);
}

#endif
