/* Gradients of a single node against central finite differences in f64: the scalar is the sum of r * output 0 with random r. */
#ifndef PLIM_TESTS_SLOPE_H
#define PLIM_TESTS_SLOPE_H

#include "parts.h"

#define SLOPE_SAMPLES 10 /* elements of an input that are moved */

static inline double slope_scalar(const plim_graph *g, void **data, uint32_t r, uint32_t v, parts_rng *rng)
{
    parts_run(g, data, PARTS_WHOLE, rng);
    const uint64_t n = g->value[v].bytes / sizeof(double);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += ((const double *)data[r])[i] * ((const double *)data[v])[i];
    return sum;
}

/* Calls the row's grad for the node that makes `v`, all of f64, and compares with differences over a step of h in its inputs.
 * @param data  room for a few more values than the graph has */
static inline void slope_check(plim_graph *g, void **data, uint32_t v, double h, parts_rng *rng)
{
    const plim__node n = g->node[g->value[v].node];
    const plim_shape shape = g->value[v].shape;
    const uint32_t r = parts_input(g, data, PLIM_F64, &shape, rng);
    uint32_t din[3] = {PLIM__NONE, PLIM__NONE, PLIM__NONE};
    plim_error err = {0};
    plim__gradient d = {.graph = g, .node = g->value[v].node, .dout = &r, .want = (const bool[3]){true, true, true}, .din = din, .err = &err};
    if (plim__op_row_of(n.op)->grad(&d) != PLIM_OK) fail_msg("%s", err.message);
    for (uint32_t k = 0; k < n.n_in; k++) {
        if (din[k] == PLIM__NONE) fail_msg("no gradient with respect to input %u", k);
        const plim__value *in = &g->value[n.in[k]], *grad = &g->value[din[k]];
        assert_true(plim__shape_equal(&in->shape, &grad->shape));
        assert_int_equal(grad->dtype, PLIM_F64);
        const uint64_t count = in->bytes / sizeof(double);
        double *have = malloc(grad->bytes + 8); /* differences run the gradient again */
        slope_scalar(g, data, r, v, rng);
        memcpy(have, data[din[k]], grad->bytes);
        for (uint64_t s = 0; s < SLOPE_SAMPLES && s < count; s++) {
            const uint64_t i = count <= SLOPE_SAMPLES ? s : parts_random(rng, (uint32_t)count);
            const double was = ((double *)data[n.in[k]])[i];
            ((double *)data[n.in[k]])[i] = was + h;
            const double above = slope_scalar(g, data, r, v, rng);
            ((double *)data[n.in[k]])[i] = was - h;
            const double want = (above - slope_scalar(g, data, r, v, rng)) / (2 * h);
            ((double *)data[n.in[k]])[i] = was;
            if (!parts_close(have[i], want, 1e-4, 1e-5)) fail_msg("input %u: element %llu has the gradient %.9g, differences say %.9g", k,
                (unsigned long long)i, have[i], want);
        }
        free(have);
    }
}

#endif
