/* Runs one node as a single part: see whole.h. The caller owns the values' memory; views and scratch are allocated and freed here. Any thread, as long as
 * nobody else writes these values. Assumes a node of a row that has a kernel of its own. */
#include "graph/whole.h"
#include "core/size.h"
#include "graph/op.h"

static plim__view whole(const plim__value *v, void *data)
{
    const plim__region r = plim__region_whole(&v->shape);
    return plim__view_dense(data, v->dtype, &r);
}

/* @param scratch  as much as the op asks for, and 64 bytes to align it */
static void call(const plim_graph *g, const plim__node *n, const plim__range *axis, bool empty, void *const *data, plim__view *in, char *scratch)
{
    const plim__op_row *row = plim__op_row_of(n->op);
    PLIM_ASSERT(!(row->flags & PLIM__OP_CALLER)); /* nobody else can compute it */
    plim__view out[PLIM__MAX_OUT];
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = whole(plim__in(g, n, k), data[n->in[k]]);
    for (uint32_t j = 0; j < n->n_out; j++) out[j] = whole(plim__out(g, n, j), data[n->out[j]]);
    const plim__call c = {.graph = g, .node = n, .in = in, .out = out, .axis = axis, .threads = 1,
                          .scratch = scratch + (plim__round_up((uintptr_t)scratch, 64) - (uintptr_t)scratch)};
    if (row->init) row->init(&c);
    if (!empty) row->run(&c);
}

plim_status plim__node_run_whole(const plim_graph *g, const plim__node *n, void *const *data, const plim__alloc *a, plim_error *err)
{
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes;
    plim__range axis[PLIM__MAX_AXES];
    int64_t len[PLIM__MAX_AXES];
    bool empty = false;
    row->axes(g, n, &axes);
    for (uint32_t d = 0; d < axes.n; d++) {
        len[d] = axes.axis[d].extent;
        axis[d] = (plim__range){0, len[d]};
        empty = empty || len[d] == 0;
    }
    const uint64_t bytes = row->scratch ? row->scratch(g, n, len, 1) : 0;
    plim__view *in = plim__new(a, n->n_in, sizeof *in, err);
    char *scratch = in ? plim__new(a, bytes + 64, 1, err) : NULL;
    if (scratch) call(g, n, axis, empty, data, in, scratch);
    plim__free(a, in);
    plim__free(a, scratch);
    return scratch ? PLIM_OK : PLIM_E_NOMEM;
}
