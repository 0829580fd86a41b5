/* Values that are known while reading. A node whose inputs are known is lowered into a graph of its own, and that graph is run here, each node
 * in one call over its whole loop nest: the kernels of a run are those of the import, so nothing is computed in two ways. Only small values
 * come this far (PLIM__ONNX_FOLD_BYTES); they are not tensor memory of a run. */
#include "core/size.h"
#include "graph/op.h"
#include "models/onnx.h"

#include <string.h>

static plim__view whole(const plim__value *v, void *data)
{
    const plim__region r = plim__region_whole(&v->shape);
    return plim__view_dense(data, v->dtype, &r);
}

static plim_status run_node(plim__onnx *x, const plim_graph *g, const plim__node *n, void **data, plim_error *err)
{
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes;
    plim__range axis[PLIM__MAX_AXES];
    int64_t len[PLIM__MAX_AXES];
    bool empty = false;
    plim__view out[PLIM__MAX_OUT], *in = plim__onnx_new(&x->arena, n->n_in, sizeof *in, err);
    if (!in) return PLIM_E_NOMEM;
    row->axes(g, n, &axes);
    for (uint32_t a = 0; a < axes.n; a++) {
        len[a] = axes.axis[a].extent;
        axis[a] = (plim__range){0, len[a]};
        empty = empty || len[a] == 0;
    }
    for (uint32_t k = 0; k < n->n_in; k++) in[k] = whole(plim__in(g, n, k), data[n->in[k]]);
    for (uint32_t j = 0; j < n->n_out; j++) out[j] = whole(plim__out(g, n, j), data[n->out[j]]);
    const uint64_t bytes = row->scratch ? row->scratch(g, n, len, 1) : 0;
    char *scratch = plim__new(&x->arena.alloc, bytes + 64, 1, err);
    if (!scratch) return PLIM_E_NOMEM;
    const plim__call c = {.graph = g, .node = n, .in = in, .out = out, .axis = axis, .threads = 1,
                          .scratch = scratch + (plim__round_up((uintptr_t)scratch, 64) - (uintptr_t)scratch)};
    if (row->init) row->init(&c);
    if (!empty) row->run(&c);
    plim__free(&x->arena.alloc, scratch);
    return PLIM_OK;
}

plim_status plim__onnx_evaluate(plim__onnx *x, const plim_graph *g, const uint32_t *v, uint32_t n, const plim__onnx_host **out, plim_error *err)
{
    void **data = plim__onnx_new(&x->arena, g->n_values, sizeof *data, err);
    if (!data) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < g->n_values; i++) {
        const plim__value *value = &g->value[i];
        PLIM_FAIL_IF(value->kind == PLIM__VALUE_FILE, err, PLIM_E_UNSUPPORTED, "it needs data while the model is read");
        data[i] = value->kind == PLIM__VALUE_CONST ? (void *)value->data : plim__onnx_new(&x->arena, value->bytes, 1, err);
        if (!data[i]) return PLIM_E_NOMEM;
    }
    for (uint32_t k = 0; k < g->n_nodes; k++) PLIM_TRY(run_node(x, g, &g->node[k], data, err));
    for (uint32_t j = 0; j < n; j++) {
        if (v[j] == PLIM__NONE) continue;
        plim__onnx_host *h;
        const plim__value *value = &g->value[v[j]];
        PLIM_TRY(plim__onnx_host_new(x, value->dtype, &value->shape, &h, err));
        memcpy(h->data, data[v[j]], value->bytes);
        out[j] = h;
    }
    return PLIM_OK;
}
