/* Random numbers. Axis d is dimension d of the output; all are parallel. The seed is read whole: a scalar.
 *
 * Attributes: mask the rank, i[d] the extents, i[PLIM_MAX_RANK] the stream. */
#include "kernels/random.h"
#include "ops/checks.h"
#include "ops/indexing.h"
#include "ops/ops.h"

#include <string.h>

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *seed = plim__in(g, n, 0);
    PLIM_FAIL_IF(seed->dtype != PLIM_U64 || seed->shape.rank != 0, err, PLIM_E_TYPE, "random: the seed is a scalar of u64, not %s of rank %u",
                 plim_dtype_name(seed->dtype), seed->shape.rank);
    PLIM_FAIL_IF(n->attr.mask > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "random: more than %d dimensions", PLIM_MAX_RANK);
    type[0] = (plim__type){PLIM_F32, {.rank = n->attr.mask}};
    for (uint32_t d = 0; d < n->attr.mask; d++) {
        PLIM_FAIL_IF(n->attr.i[d] < 0, err, PLIM_E_SHAPE, "random: dimension %u of %lld", d, (long long)n->attr.i[d]);
        type[0].shape.dim[d] = n->attr.i[d];
    }
    n->n_out = 1;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *a) { plim__axes_parallel(a, &plim__out(g, n, 0)->shape); }

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    (void)g, (void)n, (void)k, (void)index; /* a scalar has no dimensions */
}

static void run(const plim__call *c)
{
    uint64_t seed;
    memcpy(&seed, c->in[0].data, sizeof seed);
    const plim__random_key key = plim__random_key_of(seed, (uint64_t)c->node->attr.i[PLIM_MAX_RANK]);
    plim__random_run(&c->out[0], &plim__out(c->graph, c->node, 0)->shape, key);
}

static plim__work work(const plim_graph *g, const plim__node *n)
{
    (void)g;
    (void)n;
    return (plim__work){PLIM_KERNEL_FUNCTION, 0.5};
}

const plim__op_row plim__row_random = {
    .name = "random", .flags = PLIM__OP_CHEAP, .infer = infer, .axes = axes, .reads = reads, .run = run, .work = work,
};

plim_status plim__op_random(plim_graph *g, const plim_shape *shape, uint32_t seed, uint32_t stream, uint32_t *v, plim_error *err)
{
    PLIM_FAIL_IF(shape->rank > PLIM_MAX_RANK, err, PLIM_E_SHAPE, "random: %u dimensions", shape->rank);
    plim__attr attr = {.mask = shape->rank};
    memcpy(attr.i, shape->dim, shape->rank * sizeof *shape->dim);
    attr.i[PLIM_MAX_RANK] = stream;
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_RANDOM, &seed, 1, &attr, made, err));
    *v = made[0];
    return PLIM_OK;
}
