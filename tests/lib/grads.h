/* Gradients of a row by finite differences: its `grad` is called directly and what it adds is run beside the row itself. */
#ifndef PLIM_TESTS_GRADS_H
#define PLIM_TESTS_GRADS_H

#include "parts.h"

static inline uint64_t grads_count(const plim_shape *s)
{
    uint64_t n = 1;
    for (uint32_t d = 0; d < s->rank; d++) n *= (uint64_t)s->dim[d];
    return n;
}

/* Divides an input's random values, which lie in [-50, 50]. */
static inline void grads_scale(const plim_graph *g, void **data, uint32_t v, double by)
{
    const plim_dtype t = g->value[v].dtype;
    const uint64_t n = grads_count(&g->value[v].shape);
    for (uint64_t i = 0; i < n; i++) parts_set(data[v], t, i, parts_get(data[v], t, i) / by);
}

static inline double grads_total(const plim_graph *g, void **data, uint32_t y, uint32_t weight, parts_rng *rng)
{
    parts_run(g, data, PARTS_WHOLE, rng);
    const uint64_t n = grads_count(&g->value[y].shape);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += ((const double *)data[y])[i] * ((const double *)data[weight])[i];
    return sum;
}

/* The gradient of sum(weight * y), y the first output of the node that made it, with respect to that node's input k, against central differences;
 * everything in f64. The weights are random. @return NULL, or what is wrong */
static inline const char *grads_check(plim_graph *g, void **data, uint32_t y, uint32_t k, double tolerance, parts_rng *rng)
{
    static char what[160];
    const plim_shape shape = g->value[y].shape;
    const uint32_t weight = parts_input(g, data, PLIM_F64, &shape, rng), node = g->value[y].node, x = g->node[node].in[k];
    const uint32_t dout[PLIM__MAX_OUT] = {weight, PLIM__NONE, PLIM__NONE};
    uint32_t din[8];
    bool want[8] = {0};
    want[k] = true;
    for (int i = 0; i < 8; i++) din[i] = PLIM__NONE;
    plim_error err = {0};
    plim__gradient d = {.graph = g, .node = node, .dout = dout, .want = want, .din = din, .err = &err};
    if (plim__op_row_of(g->node[node].op)->grad(&d) != PLIM_OK || din[k] == PLIM__NONE) {
        snprintf(what, sizeof what, "no gradient: %.100s", err.message);
        return what;
    }
    const bool alike = plim__shape_equal(&g->value[din[k]].shape, &g->value[x].shape) && g->value[din[k]].dtype == PLIM_F64;
    if (!alike) return "the gradient is of another type";
    const uint64_t n = grads_count(&g->value[x].shape);
    double *at = data[x], *got = malloc((n + 1) * sizeof *got), largest = 0;
    grads_total(g, data, y, weight, rng);
    memcpy(got, data[din[k]], n * sizeof *got);
    const char *wrong = NULL;
    for (uint64_t i = 0; i < n && !wrong; i++) {
        const double value = at[i], h = 1e-5;
        at[i] = value + h;
        const double above = grads_total(g, data, y, weight, rng);
        at[i] = value - h;
        const double below = grads_total(g, data, y, weight, rng), expected = (above - below) / (2 * h);
        at[i] = value;
        largest = fmax(largest, fabs(got[i]));
        if (!parts_close(got[i], expected, tolerance, tolerance)) {
            snprintf(what, sizeof what, "the gradient at %llu is %.12g, not %.12g", (unsigned long long)i, got[i], expected);
            wrong = what;
        }
    }
    free(got);
    return wrong ? wrong : largest > 0 ? NULL : "the gradient is 0 everywhere";
}

#endif
