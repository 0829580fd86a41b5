/* Values that are known while reading. A node whose inputs are known is lowered into a graph of its own, and that graph is run here, each node
 * in one call over its whole loop nest: the kernels of a run are those of the import, so nothing is computed in two ways. Only small values
 * come this far (PLIM__ONNX_FOLD_BYTES); they are not tensor memory of a run. */
#include "graph/whole.h"
#include "models/onnx.h"

#include <string.h>

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
    for (uint32_t k = 0; k < g->n_nodes; k++) PLIM_TRY(plim__node_run_whole(g, &g->node[k], data, &x->arena.alloc, err));
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
