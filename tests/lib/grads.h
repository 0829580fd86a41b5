/* Gradients against central differences in f64. What is differentiated is a scalar of the graph, or sum(weight * y) of a value y with random weights,
 * so that every element of a gradient is asked for its own number. */
#ifndef PLIM_TESTS_GRADS_H
#define PLIM_TESTS_GRADS_H

#include "parts.h"

typedef struct grads_how {
    double h;          /* operands are moved by it, both ways */
    double atol, rtol;
    uint32_t samples;  /* elements of an operand that are moved, picked at random; 0: every one */
    parts_mode mode;   /* how the gradient itself is run; differences are of whole runs */
} grads_how;

/* @param weight  PLIM__NONE: y is a scalar */
static inline double grads_total(const plim_graph *g, void **data, uint32_t y, uint32_t weight, parts_rng *rng)
{
    parts_run(g, data, PARTS_WHOLE, rng);
    const uint64_t n = parts_count(&g->value[y].shape);
    double sum = 0;
    for (uint64_t i = 0; i < n; i++) sum += ((const double *)data[y])[i] * (weight == PLIM__NONE ? 1 : ((const double *)data[weight])[i]);
    return sum;
}

/* Element i of the input x moved both ways. */
static inline double grads_difference(const plim_graph *g, void **data, uint32_t y, uint32_t weight, uint32_t x, uint64_t i, double h, parts_rng *rng)
{
    double *at = (double *)data[x] + i;
    const double value = *at;
    *at = value + h;
    const double above = grads_total(g, data, y, weight, rng);
    *at = value - h;
    const double below = grads_total(g, data, y, weight, rng);
    *at = value;
    return (above - below) / (2 * h);
}

/* The value `dx` of the graph as the gradient of y (weighted, or a scalar) with respect to the input x. @return NULL, or what is wrong */
static inline const char *grads_compare(const plim_graph *g, void **data, uint32_t y, uint32_t weight, uint32_t x, uint32_t dx, const grads_how *how,
                                        parts_rng *rng)
{
    static char what[160];
    const plim__value *in = &g->value[x];
    if (!plim__shape_equal(&g->value[dx].shape, &in->shape) || g->value[dx].dtype != PLIM_F64) return "the gradient is of another type";
    const uint64_t n = parts_count(&in->shape), samples = how->samples && how->samples < n ? how->samples : n;
    double *got = malloc(in->bytes + 8), largest = 0; /* differences run the gradient again */
    parts_run(g, data, how->mode, rng);
    memcpy(got, data[dx], in->bytes);
    for (uint64_t i = 0; i < n; i++) largest = fmax(largest, fabs(got[i]));
    const char *wrong = largest > 0 ? NULL : "the gradient is 0 everywhere";
    for (uint64_t s = 0; s < samples && !wrong; s++) {
        const uint64_t i = samples == n ? s : parts_random(rng, (uint32_t)n);
        const double want = grads_difference(g, data, y, weight, x, i, how->h, rng);
        if (parts_close(got[i], want, how->atol, how->rtol)) continue;
        snprintf(what, sizeof what, "the gradient at %llu is %.12g, by differences %.12g", (unsigned long long)i, got[i], want);
        wrong = what;
    }
    free(got);
    return wrong;
}

/* Calls the row's grad for the node that made y, its first output, and compares with respect to every input of f64.
 * @param data  room for a few more values than the graph has  @return NULL, or what is wrong */
static inline const char *grads_check(plim_graph *g, void **data, uint32_t y, const grads_how *how, parts_rng *rng)
{
    static char what[240];
    const plim_shape shape = g->value[y].shape;
    const uint32_t weight = parts_input(g, data, PLIM_F64, &shape, rng), node = g->value[y].node, n_in = g->node[node].n_in;
    const uint32_t dout[PLIM__MAX_OUT] = {weight, PLIM__NONE, PLIM__NONE};
    uint32_t in[8], din[8];
    bool want[8];
    for (uint32_t k = 0; k < n_in; k++) {
        in[k] = g->node[node].in[k];
        din[k] = PLIM__NONE;
        want[k] = g->value[in[k]].dtype == PLIM_F64;
    }
    plim_error err = {0};
    plim__gradient d = {.graph = g, .node = node, .dout = dout, .want = want, .din = din, .err = &err};
    if (plim__op_row_of(g->node[node].op)->grad(&d) != PLIM_OK) {
        snprintf(what, sizeof what, "no gradient: %.100s", err.message);
        return what;
    }
    for (uint32_t k = 0; k < n_in; k++) {
        if (!want[k]) continue;
        const char *wrong = din[k] == PLIM__NONE ? "no gradient" : grads_compare(g, data, y, weight, in[k], din[k], how, rng);
        if (!wrong) continue;
        snprintf(what, sizeof what, "input %u: %s", k, wrong);
        return what;
    }
    return NULL;
}

#endif
