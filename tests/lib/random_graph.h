/* Random programs for tests of the planner's parts: a graph of f32 values from inputs that no file holds (planning
 * reads no data), and a plan of it that has no passes yet. The seed decides everything. */
#ifndef PLIM_TESTS_RANDOM_GRAPH_H
#define PLIM_TESTS_RANDOM_GRAPH_H

#include "unit.h"

#include "faulty_os.h"
#include "files.h"
#include "kernels/elementwise.h"
#include "ops/ops.h"
#include "plan/plan.h"

typedef struct random_how {
    uint64_t seed;
    uint32_t ops;    /* that are tried; some add more than one node */
    int64_t scale;   /* dimensions are 1, or from half of it to twice as much */
    uint32_t states; /* inputs that a computed value takes the place of */
    uint32_t threads;
    const char *spill; /* the folder for the file of our own; NULL: none */
    bool on_file;      /* all outputs go to files */
} random_how;

typedef struct random_graph {
    faulty_os os;
    plim_graph *g;
    plim_plan *plan;
    random_how how;
    uint64_t rng;
    int64_t extent[3]; /* that dimensions are taken from, so that shapes meet */
} random_graph;

static inline uint32_t random_below(random_graph *r, uint32_t n) { return (uint32_t)(files_random(&r->rng) % n); }

static inline plim_shape random_shape(random_graph *r)
{
    plim_shape s = {.rank = 1 + random_below(r, 3)};
    for (uint32_t d = 0; d < s.rank; d++) s.dim[d] = random_below(r, 8) == 0 ? 1 : r->extent[random_below(r, 3)];
    return s;
}

/* An array in a file, whose elements begin behind a header; a quarter of them in Fortran order. */
static inline uint32_t random_input(random_graph *r, plim_shape s, plim__stay stay)
{
    char path[] = "nowhere.npy", name[16];
    plim__source source = {.path = path, .offset = 128, .file_bytes = 128, .stay = stay};
    const bool fortran = random_below(r, 4) == 0;
    int64_t stride = 1;
    uint32_t v;
    for (uint32_t k = 0; k < s.rank; k++) {
        const uint32_t d = fortran ? k : s.rank - 1 - k;
        source.stride[d] = stride;
        stride *= s.dim[d];
    }
    source.file_bytes += (uint64_t)stride * 4;
    snprintf(name, sizeof name, "in%u", r->g->n_values);
    assert_int_equal(plim__graph_file(r->g, name, PLIM_F32, &s, &source, &v, NULL), PLIM_OK);
    return v;
}

/* One of the last values, mostly. */
static inline uint32_t random_value(random_graph *r)
{
    const uint32_t n = r->g->n_values, near = n < 4 ? n : 4;
    return random_below(r, 3) ? n - 1 - random_below(r, near) : random_below(r, n);
}

static inline plim_status random_apply(random_graph *r, plim__ew fn, uint32_t a, uint32_t b, uint32_t *out)
{
    const uint32_t in[] = {a, b};
    return plim__op_elementwise(r->g, fn, PLIM_F32, PLIM_F32, in, b == PLIM__NONE ? 1 : 2, out, NULL);
}

static inline plim_status random_reshape(random_graph *r, uint32_t a, uint32_t *out)
{
    const plim_shape s = r->g->value[a].shape;
    plim_shape to = {.rank = s.rank};
    if (s.rank >= 2 && random_below(r, 2)) {
        to.rank = s.rank - 1;
        to.dim[0] = s.dim[0] * s.dim[1];
        for (uint32_t d = 1; d < to.rank; d++) to.dim[d] = s.dim[d + 1];
    } else if (s.dim[0] % 2 == 0 && s.rank < 4) {
        to.rank = s.rank + 1;
        to.dim[0] = 2;
        to.dim[1] = s.dim[0] / 2;
        for (uint32_t d = 1; d < s.rank; d++) to.dim[d + 1] = s.dim[d];
    } else {
        return PLIM_E_INVALID;
    }
    return plim__op_reshape(r->g, a, &to, out, NULL);
}

static inline plim_status random_slice(random_graph *r, uint32_t a, uint32_t *out)
{
    const plim_shape *s = &r->g->value[a].shape;
    const uint32_t d = random_below(r, s->rank);
    const int64_t step = 1 + random_below(r, 2), start = random_below(r, 2), n = s->dim[d];
    if (n < 4) return PLIM_E_INVALID;
    return plim__op_slice_axis(r->g, a, d, start, step, (n - start - 1) / step, out, NULL);
}

static inline plim_status random_matmul(random_graph *r, uint32_t a, uint32_t *out)
{
    const plim_shape *s = &r->g->value[a].shape;
    if (s->rank != 2) return PLIM_E_INVALID;
    const int64_t k = s->dim[1];
    uint32_t b = random_value(r);
    const plim_shape *t = &r->g->value[b].shape;
    if (t->rank != 2 || t->dim[0] != k)
        b = random_input(r, (plim_shape){2, {k, r->extent[random_below(r, 3)]}}, PLIM__STAY_FILE);
    return plim__op_matmul(r->g, a, b, PLIM_F32, out, NULL);
}

/* x - max(x, axis), or with a sum: it needs all of x before any of it. */
static inline plim_status random_centred(random_graph *r, uint32_t a, uint32_t *out)
{
    const uint32_t d = random_below(r, r->g->value[a].shape.rank);
    const plim__reduction how = random_below(r, 2) ? PLIM__REDUCE_SUM : PLIM__REDUCE_MAX;
    uint32_t centre;
    PLIM_TRY(plim__op_reduce(r->g, how, a, 1u << d, true, PLIM_F32, &centre, NULL));
    return random_apply(r, PLIM__EW_SUB, a, centre, out);
}

static inline plim_status random_op(random_graph *r, uint32_t a, uint32_t *out)
{
    static const plim__ew binary[] = {PLIM__EW_ADD, PLIM__EW_SUB, PLIM__EW_MUL, PLIM__EW_MAXIMUM};
    const uint32_t rank = r->g->value[a].shape.rank, d = random_below(r, rank), b = random_value(r);
    const plim__reduction how = random_below(r, 2) ? PLIM__REDUCE_SUM : PLIM__REDUCE_MAX;
    const uint32_t in[] = {a, b}, turned[] = {rank - 1, rank == 3 ? 1 : 0, 0};
    const int64_t box[PLIM_MAX_RANK] = {d == 0 ? 3 : 1, d == 1 ? 3 : 1, d == 2 ? 3 : 1, 1};
    switch (random_below(r, 14)) {
    case 0:
    case 1:
    case 2: return random_apply(r, binary[random_below(r, COUNT_OF(binary))], a, b, out);
    case 3: return rank >= 2 && rank <= 3 ? plim__op_transpose(r->g, a, turned, out, NULL) : PLIM_E_INVALID;
    case 4:
        return plim__op_reduce(r->g, how, a, 1 + random_below(r, (1u << rank) - 1), random_below(r, 2), PLIM_F32, out,
                               NULL);
    case 5: return random_matmul(r, a, out);
    case 6: return random_reshape(r, a, out);
    case 7: return random_slice(r, a, out);
    case 8: return rank <= 3 ? plim__op_box(r->g, a, box, PLIM__EDGE_EDGE, out, NULL) : PLIM_E_INVALID;
    case 9: return plim__op_concat(r->g, in, 2, d, out, NULL);
    case 10: return random_centred(r, a, out);
    case 12: return plim__op_scan(r->g, PLIM__REDUCE_SUM, a, d, PLIM_F32, out, NULL);
    case 13: return plim__op_softmax(r->g, a, d, false, out, NULL);
    default: return PLIM_E_INVALID;
    }
}

/* Something that the program can always do. */
static inline uint32_t random_function(random_graph *r, uint32_t a)
{
    static const plim__ew unary[] = {PLIM__EW_TANH, PLIM__EW_ABS, PLIM__EW_SIN};
    uint32_t out;
    assert_int_equal(random_apply(r, unary[random_below(r, COUNT_OF(unary))], a, PLIM__NONE, &out), PLIM_OK);
    return out;
}

static inline bool random_is_read(const plim_graph *g, uint32_t v)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++)
            if (g->node[i].in[k] == v) return true;
    return false;
}

/* Something of the shape of `in` for its update: what a node has made, or the sum of that over dimensions that come
 * first. */
static inline uint32_t random_gradient(random_graph *r, uint32_t in)
{
    const plim_shape to = r->g->value[in].shape;
    uint32_t best = in, from = PLIM__NONE, extra = 0;
    for (uint32_t v = 0; v < r->g->n_values; v++) {
        const plim_shape *s = &r->g->value[v].shape;
        bool ends = r->g->value[v].kind == PLIM__VALUE_NODE && s->rank >= to.rank;
        for (uint32_t d = 0; d < to.rank && ends; d++) ends = s->dim[s->rank - to.rank + d] == to.dim[d];
        if (ends && s->rank == to.rank) best = v;
        if (ends && s->rank > to.rank) {
            from = v;
            extra = s->rank - to.rank;
        }
    }
    if (from == PLIM__NONE || random_below(r, 3) == 0) return best;
    assert_int_equal(plim__op_reduce(r->g, PLIM__REDUCE_SUM, from, (1u << extra) - 1, false, PLIM_F32, &best, NULL),
                     PLIM_OK);
    return best;
}

/* A computed value takes the place of input `in`. */
static inline void random_update(random_graph *r, uint32_t in)
{
    uint32_t out;
    assert_int_equal(random_apply(r, PLIM__EW_MUL, in, random_gradient(r, in), &out), PLIM_OK);
    assert_int_equal(random_apply(r, PLIM__EW_SUB, in, out, &out), PLIM_OK);
    assert_int_equal(plim__graph_state(r->g, in, out, NULL), PLIM_OK);
}

/* What nobody reads is a result, and sometimes what somebody does; in files and in memory. */
static inline void random_outputs(random_graph *r)
{
    const uint32_t n = r->g->n_values;
    for (uint32_t v = 0; v < n; v++) {
        bool is_state = false;
        for (uint32_t i = 0; i < r->g->n_states; i++) is_state |= r->g->state[i].out == v;
        if (is_state || r->g->value[v].kind != PLIM__VALUE_NODE || (random_is_read(r->g, v) && random_below(r, 8)))
            continue;
        char path[32];
        snprintf(path, sizeof path, "out%u.npy", v);
        assert_int_equal(plim__graph_output(r->g, v, "out", r->how.on_file || random_below(r, 2) ? path : NULL, NULL),
                         PLIM_OK);
    }
}

/* An input that will be overwritten; half of them are parameters of the first input's rows. */
static inline uint32_t random_state(random_graph *r)
{
    const plim_shape *x = &r->g->value[0].shape;
    if (x->rank < 2 || random_below(r, 2)) return random_input(r, random_shape(r), PLIM__STAY_MAY);
    plim_shape s = {.rank = x->rank - 1};
    for (uint32_t d = 0; d < s.rank; d++) s.dim[d] = x->dim[d + 1];
    const uint32_t v = random_input(r, s, PLIM__STAY_MAY);
    uint32_t out;
    assert_int_equal(random_apply(r, PLIM__EW_MUL, 0, v, &out), PLIM_OK);
    return v;
}

static inline void random_graph_fill(random_graph *r)
{
    uint32_t in[4], out;
    const uint32_t inputs = 1 + random_below(r, 3);
    assert_true(r->how.states <= COUNT_OF(in));
    for (uint32_t i = 0; i < inputs; i++) random_input(r, random_shape(r), PLIM__STAY_FILE);
    for (uint32_t i = 0; i < r->how.states; i++) in[i] = random_state(r);
    for (uint32_t i = 0; i < r->how.ops; i++) {
        const uint32_t a = random_value(r);
        const plim_shape *s = &r->g->value[a].shape;
        if (s->rank == 0 || random_op(r, a, &out) != PLIM_OK) random_function(r, a);
    }
    for (uint32_t i = 0; i < r->how.states; i++) random_update(r, in[i]);
    random_outputs(r);
}

/* The graph, and a plan of it with ample memory. */
static inline void random_graph_begin(random_graph *r, random_how how)
{
    plim_error err = {0};
    *r = (random_graph){.how = how, .rng = how.seed};
    faulty_init(&r->os);
    for (int i = 0; i < 3; i++) r->extent[i] = how.scale * (1 + random_below(r, 4)) / 2;
    assert_int_equal(plim__graph_new(&r->g, (plim__alloc){0}, &err), PLIM_OK);
    random_graph_fill(r);
    plim_settings set = plim_settings_default();
    set.memory = (uint64_t)1 << 40;
    set.threads = how.threads ? how.threads : 2;
    set.spill_dir = how.spill;
    if (plim__plan_open(&r->plan, r->g, &set, &r->os.table, &err))
        fail_msg("seed %llu: %s", (unsigned long long)how.seed, err.message);
}

static inline void random_graph_end(random_graph *r)
{
    plim__plan_drop(r->plan);
    plim__graph_free(&r->g);
}

/* What a pass does, into a hash: plans are compared by it. */
static inline void random_mix(uint64_t *h, uint64_t x)
{
    *h = (*h ^ x) * 0x9e3779b97f4a7c15u;
    *h ^= *h >> 29;
}

static inline void random_mix_pass(uint64_t *h, const plim__pass *p)
{
    for (uint32_t l = 0; l < p->n_loops; l++) random_mix(h, (uint64_t)p->loop[l].tile * 131 + (uint64_t)p->loop[l].extent);
    for (uint32_t i = 0; i < p->n_nodes; i++) random_mix(h, p->node[i].node * 8u + p->node[i].depth);
    for (uint32_t v = 0; v < p->n_values; v++) random_mix(h, p->value[v].value * 8ull + p->value[v].role);
    for (uint32_t t = 0; t < p->n_steps; t++)
        random_mix(h, p->step[t].index * 64ull + p->step[t].kind * 8u + p->step[t].depth);
}

#endif
