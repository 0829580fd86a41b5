/* Models in blocks of 16 channels against the same models as they were: nets made at random, with the gradients with respect to every parameter. Each is
 * run in one piece, in the least memory and in a little more, and by a plan picked at random.
 *   unit-blocked [FIRST LAST]    other nets than those that are always run */
#include "unit.h"

#include "faulty_os.h"
#include "files.h"
#include "formats/array_file.h"
#include "models/blocked.h"
#include "models/model.h"
#include "ops/autodiff.h"
#include "ops/layers.h"
#include "ops/spatial.h"
#include "plan/plan.h"
#include "preferences.h"
#include "run/run.h"

#include <math.h>

#define LAYERS 5
#define MOST_TILES 30 /* of a pass: more only cost time */
#define MOST_RESULTS 40
#define MOST_EXTENT 20

typedef struct net {
    plim__model *m;
    plim_graph *g; /* the model's */
    uint64_t rng;
    plim_error err;
} net;

#define DO(call)                                                                                  \
    do {                                                                                          \
        if ((call) != PLIM_OK) fail_msg("%s: %s", #call, n->err.message);                         \
    } while (0)

static int64_t pick(net *n, int64_t lo, int64_t hi) { return lo + (int64_t)(files_random(&n->rng) % (uint64_t)(hi - lo + 1)); }
static bool chance(net *n) { return pick(n, 0, 1); }

static plim_shape shape_of(const net *n, uint32_t v) { return n->g->value[v].shape; }

/* ------------------------------------------------------------------------------------------------------- layers */

static int64_t pick_channels(net *n)
{
    static const int64_t some[] = {3, 8, 16, 24, 32, 40};
    return some[pick(n, 0, COUNT_OF(some) - 1)];
}

/* @param scale  kept in the parameter: its numbers lie between -scale and scale */
static uint32_t param(net *n, plim_shape s, double scale)
{
    plim__param p = {.trainable = true, .init_scale = scale};
    uint32_t v;
    snprintf(p.name, sizeof p.name, "p%u", n->m->n_params);
    DO(plim__model_param(n->m, &p, PLIM_F32, &s, NULL, &v, &n->err));
    return v;
}

/* Weights [o, c, rows, columns], in that order or in Keras'. */
static uint32_t weights(net *n, int64_t o, int64_t c, const int64_t kernel[2], int64_t chain)
{
    const double scale = 1.7 / sqrt((double)(chain * kernel[0] * kernel[1]));
    uint32_t v;
    if (chance(n)) return param(n, (plim_shape){4, {o, c, kernel[0], kernel[1]}}, scale);
    v = param(n, (plim_shape){4, {kernel[0], kernel[1], c, o}}, scale);
    DO(plim__op_transpose(n->g, v, (const uint32_t[]){3, 2, 0, 1}, &v, &n->err));
    return v;
}

static uint32_t add_bias(net *n, uint32_t x)
{
    const int64_t c = shape_of(n, x).dim[1];
    uint32_t b = param(n, (plim_shape){1, {c}}, 0.5), v;
    DO(plim__op_reshape(n->g, b, &(plim_shape){3, {c, 1, 1}}, &b, &n->err));
    DO(plim__op_float2(n->g, PLIM__EW_ADD, x, b, &v, &n->err));
    return v;
}

static uint32_t activate(net *n, uint32_t x)
{
    static const plim__activation some[] = {PLIM__RELU, PLIM__RELU, PLIM__RELU6, PLIM__LEAKY_RELU, PLIM__SWISH, PLIM__ELU, PLIM__TANH};
    uint32_t v;
    DO(plim__op_activation(n->g, some[pick(n, 0, COUNT_OF(some) - 1)], x, 0.1, 0, &v, &n->err));
    return v;
}

static uint32_t finish(net *n, uint32_t v)
{
    if (chance(n)) v = add_bias(n, v);
    return chance(n) ? activate(n, v) : v;
}

static plim__conv pick_windows(net *n, const int64_t kernel[2], bool strides)
{
    plim__conv c = {.space = 2, .groups = 1};
    for (uint32_t d = 0; d < 2; d++) {
        c.stride[d] = strides ? pick(n, 1, 2) : 1;
        c.dilation[d] = strides && pick(n, 0, 3) == 0 ? 2 : 1;
        c.before[d] = strides ? pick(n, 0, 1) : (kernel[d] - 1) / 2;
        c.after[d] = strides ? pick(n, 0, 1) : kernel[d] - 1 - c.before[d];
    }
    return c;
}

/* @param same  what comes out has the extents, and if `o` says so, the channels, of what goes in */
static uint32_t conv(net *n, uint32_t x, int64_t o, bool same)
{
    const plim_shape s = shape_of(n, x);
    const int64_t kernel[2] = {pick(n, 1, 3), pick(n, 1, 3)}, c = s.dim[1];
    plim__conv how = pick_windows(n, kernel, !same);
    const int64_t kind = pick(n, 0, 3);
    uint32_t v;
    if (kind == 0 && (!same || o == c)) how.groups = o = c;
    else if (kind == 1 && c % 2 == 0 && o % 2 == 0) how.groups = 2;
    DO(plim__op_conv(n->g, x, weights(n, o, c / how.groups, kernel, c / how.groups), &how, &v, &n->err));
    return finish(n, v);
}

static uint32_t transposed(net *n, uint32_t x)
{
    const plim_shape s = shape_of(n, x);
    const int64_t kernel[2] = {pick(n, 2, 3), pick(n, 2, 3)};
    plim__conv how = pick_windows(n, kernel, true);
    int64_t c = pick_channels(n);
    const int64_t kind = pick(n, 0, 3);
    if (kind == 0) how.groups = c = s.dim[1];
    else if (kind == 1 && c % 2 == 0 && s.dim[1] % 2 == 0) how.groups = 2;
    plim_shape to = {4, {s.dim[0], c}};
    for (uint32_t d = 0; d < 2; d++)
        to.dim[2 + d] = (s.dim[2 + d] - 1) * how.stride[d] + (kernel[d] - 1) * how.dilation[d] + 1 - how.before[d] - how.after[d] + pick(n, 0, how.stride[d] - 1);
    uint32_t v;
    DO(plim__op_conv_data(n->g, x, weights(n, s.dim[1], c / how.groups, kernel, s.dim[1] / how.groups), &how, &to, &v, &n->err));
    return finish(n, v);
}

static uint32_t pool(net *n, uint32_t x)
{
    plim__pool how = {.average = chance(n), .count_border = chance(n), .space = 2, .round_up = chance(n)};
    uint32_t v;
    for (uint32_t d = 0; d < 2; d++) {
        how.size[d] = pick(n, 2, 3);
        how.stride[d] = pick(n, 1, 2);
        how.dilation[d] = 1;
        how.before[d] = pick(n, 0, 1);
        how.after[d] = pick(n, 0, 1);
    }
    DO(plim__op_pool(n->g, x, &how, &v, &n->err));
    return v;
}

static uint32_t residual(net *n, uint32_t x)
{
    uint32_t v;
    DO(plim__op_float2(n->g, PLIM__EW_ADD, conv(n, x, shape_of(n, x).dim[1], true), x, &v, &n->err));
    return chance(n) ? activate(n, v) : v;
}

static uint32_t concat(net *n, uint32_t x)
{
    const uint32_t in[2] = {conv(n, x, pick_channels(n), true), chance(n) ? x : activate(n, x)};
    uint32_t v;
    DO(plim__op_concat(n->g, in, 2, 1, &v, &n->err));
    return v;
}

static uint32_t norm(net *n, uint32_t x)
{
    const plim_shape c = {1, {shape_of(n, x).dim[1]}};
    const uint32_t scale = param(n, c, 1), shift = param(n, c, 1);
    uint32_t v, mean, var;
    if (chance(n)) {
        DO(plim__op_batch_norm_training(n->g, x, 1, scale, shift, 1e-1, &v, &mean, &var, &n->err));
        return v;
    }
    mean = param(n, c, 0.5);
    DO(plim__op_float1(n->g, PLIM__EW_ABS, param(n, c, 1), &var, &n->err));
    DO(plim__op_batch_norm(n->g, x, 1, scale, shift, mean, var, 1e-1, &v, &n->err));
    return v;
}

static uint32_t resize(net *n, uint32_t x)
{
    const plim_shape s = shape_of(n, x);
    const plim__resize how = {.mode = chance(n) ? PLIM__RESIZE_LINEAR : PLIM__RESIZE_NEAREST, .where = (plim__resize_where)pick(n, 0, 2), .space = 2,
                              .size = {s.dim[2] * 2, s.dim[3] + pick(n, 0, 3)}};
    uint32_t v;
    DO(plim__op_resize(n->g, x, &how, &v, &n->err));
    return v;
}

static uint32_t pad_or_crop(net *n, uint32_t x)
{
    const plim_shape s = shape_of(n, x);
    const int64_t before[4] = {0, 0, pick(n, 0, 2), pick(n, 0, 2)}, after[4] = {0, 0, 1, pick(n, 0, 2)}, step[4] = {1, 1, 1, 1};
    const int64_t count[4] = {s.dim[0], s.dim[1], s.dim[2] - before[2], s.dim[3] - before[3]};
    uint32_t v;
    if (chance(n)) DO(plim__op_pad(n->g, x, before, after, PLIM__EDGE_CONSTANT, 0, &v, &n->err));
    else DO(plim__op_slice(n->g, x, before, step, count, &v, &n->err));
    return v;
}

/* Each channel by a number that its mean makes. */
static uint32_t excite(net *n, uint32_t x)
{
    uint32_t v;
    DO(plim__op_reduce(n->g, PLIM__REDUCE_SUM, x, 1 << 2 | 1 << 3, true, PLIM_F32, &v, &n->err));
    DO(plim__op_float_const(n->g, PLIM__EW_MUL, v, 0.02, &v, &n->err));
    DO(plim__op_activation(n->g, PLIM__SIGMOID, v, 0, 0, &v, &n->err));
    DO(plim__op_float2(n->g, PLIM__EW_MUL, x, v, &v, &n->err));
    return v;
}

static uint32_t layer(net *n, uint32_t x)
{
    const plim_shape s = shape_of(n, x);
    const bool small = s.dim[2] < 5 || s.dim[3] < 5, large = s.dim[2] > MOST_EXTENT || s.dim[3] > MOST_EXTENT;
    switch (pick(n, 0, 9)) {
    case 0: case 1: return conv(n, x, pick_channels(n), small);
    case 2: return large ? pool(n, x) : transposed(n, x);
    case 3: return small ? transposed(n, x) : pool(n, x);
    case 4: return residual(n, x);
    case 5: return s.dim[1] > 60 ? conv(n, x, 16, small) : concat(n, x);
    case 6: return norm(n, x);
    case 7: return large ? pool(n, x) : resize(n, x);
    case 8: return small ? transposed(n, x) : pad_or_crop(n, x);
    default: return excite(n, x);
    }
}

/* ---------------------------------------------------------------------------------------------------- whole nets */

/* Numbers that the name alone decides, in the order of a file; then, in the parameter's form, as memory wants them. */
static void write_data(const char *name, const plim_shape *s, double scale, const plim__weight_form *form)
{
    uint64_t count = 0, room = 0, rng = 1;
    const plim_shape memory = form->kind == PLIM__FORM_PLAIN ? *s : plim__form_shape(form);
    for (const char *c = name; *c; c++) rng = rng * 31 + (uint64_t)*c;
    assert_int_equal(plim_shape_count(&count, s, NULL) | plim_shape_count(&room, &memory, NULL), PLIM_OK);
    float *data = calloc(room, sizeof *data);
    uint64_t *place = calloc(count, sizeof *place);
    assert_true(data && place);
    for (uint64_t i = 0; i < count; i++) place[i] = i;
    if (form->kind != PLIM__FORM_PLAIN) plim__form_places(form, 0, count, place);
    for (uint64_t i = 0; i < count; i++) data[place[i]] = (float)(scale * ((double)(files_random(&rng) >> 11) * 0x1p-52 - 1));
    files_write(name, data, room * sizeof *data);
    free(data);
    free(place);
}

static void bind(net *n, const char *name, uint32_t v)
{
    plim__array_file f;
    char buf[256];
    const plim_binding raw = {.raw = true, .dtype = PLIM_F32, .shape = n->g->value[v].shape};
    plim__source *s = &n->g->source[n->g->value[v].source];
    DO(plim__array_open(&f, &plim__os_linux, files_path(name), &raw, buf, sizeof buf, &n->err));
    char *path = plim__strdup(&n->g->alloc, f.source.path, &n->err);
    assert_non_null(path);
    plim__free(&n->g->alloc, s->path);
    *s = f.source;
    s->path = path;
}

static uint32_t input(net *n, const char *name, plim_shape s)
{
    uint32_t v;
    DO(plim__model_input(n->m, name, PLIM_F32, &s, 0, &v, &n->err));
    return v;
}

typedef enum kind { PLAIN, TRAINED, USED } kind; /* of a net: as it is; in blocks; in blocks, and nobody wants gradients */

/* y, and the gradients of sum(dy * y) with respect to every parameter, are the results. */
static void add_results(net *n, uint32_t y, uint32_t dy, kind how)
{
    uint32_t with[MOST_RESULTS], d[MOST_RESULTS], loss;
    const uint32_t params = n->m->n_params;
    assert_true(params < MOST_RESULTS);
    if (how == USED) {
        DO(plim__graph_output(n->g, y, "y", NULL, &n->err));
        return;
    }
    DO(plim__op_float2(n->g, PLIM__EW_MUL, y, dy, &loss, &n->err));
    DO(plim__op_reduce(n->g, PLIM__REDUCE_SUM, loss, 15, false, PLIM_F32, &loss, &n->err));
    for (uint32_t i = 0; i < params; i++) with[i] = n->m->param[i].value;
    DO(plim__graph_gradients(n->g, loss, with, params, d, &n->err));
    DO(plim__graph_output(n->g, y, "y", NULL, &n->err));
    for (uint32_t i = 0; i < params; i++) DO(plim__graph_output(n->g, d[i], n->m->param[i].name, NULL, &n->err));
}

static struct {
    uint32_t conv, first, depthwise, transposed, transposed_depthwise, transposed_padded, plain;
} met;

static void meet(const net *n)
{
    for (uint32_t i = 0; i < n->g->n_nodes; i++) {
        const plim__node *node = &n->g->node[i];
        const bool by_depth = node->n_in > 1 && n->g->value[node->in[1]].shape.rank == 4;
        met.conv += node->op == PLIM__OP_CONV_BLOCKED;
        met.first += node->op == PLIM__OP_CONV_BLOCKED && n->g->value[node->in[0]].shape.rank == 4;
        met.depthwise += node->op == PLIM__OP_CONV_BLOCKED && by_depth;
        met.transposed += node->op == PLIM__OP_CONV_BLOCKED_DATA;
        met.transposed_depthwise += node->op == PLIM__OP_CONV_BLOCKED_DATA && by_depth;
        met.transposed_padded += node->op == PLIM__OP_CONV_BLOCKED_DATA && plim__spatial_shape_get(&node->attr).dim[1] % PLIM__BLOCK != 0;
        met.plain += node->op == PLIM__OP_CONV || node->op == PLIM__OP_CONV_DATA;
    }
}

static void net_new(net *n, uint64_t seed, kind how)
{
    *n = (net){.rng = seed};
    DO(plim__model_new(&n->m, NULL, (plim__alloc){0}, &n->err));
    n->g = n->m->graph;
    uint32_t v = input(n, "x", (plim_shape){4, {2, pick_channels(n), pick(n, 9, 14), pick(n, 9, 14)}});
    for (uint32_t i = 0; i < LAYERS; i++) v = layer(n, v);
    if (seed % 2 == 0) DO(plim__op_transpose(n->g, v, (const uint32_t[]){0, 2, 3, 1}, &v, &n->err)); /* channels last, as Keras has them */
    input(n, "dy", shape_of(n, v));
    DO(plim__model_output(n->m, "y", v, 0, &n->err));
    if (how != PLAIN) DO(plim__model_block(n->m, how == TRAINED, &n->err));
    n->g = n->m->graph;
    if (how == TRAINED) meet(n);
    for (uint32_t i = 0; i < 2; i++) {
        const plim__port *in = &n->m->input[i];
        const plim_shape s = shape_of(n, in->value);
        write_data(in->name, &s, 1, &(plim__weight_form){0});
        bind(n, in->name, in->value);
    }
    for (uint32_t i = 0; i < n->m->n_params; i++) {
        const plim__param *p = &n->m->param[i];
        write_data(p->name, plim__param_shape(n->m, p), p->init_scale, &p->form);
        bind(n, p->name, p->value);
    }
    add_results(n, n->m->output[0].value, n->m->input[1].value, how);
}

/* ---------------------------------------------------------------------------------------------------------- runs */

typedef struct results {
    uint32_t n;
    uint64_t count[MOST_RESULTS];
    float *data[MOST_RESULTS];
} results;

static void results_free(results *r)
{
    for (uint32_t i = 0; i < r->n; i++) free(r->data[i]);
    *r = (results){0};
}

/* A gradient of weights in blocks as the file has them. What fills the blocks up must be 0: else it would be trained. */
static void unblock(float **data, uint64_t *count, const plim__weight_form *form)
{
    uint64_t plain = 0, filled = 0;
    assert_int_equal(plim_shape_count(&plain, &form->plain, NULL), PLIM_OK);
    uint64_t *place = calloc(plain, sizeof *place);
    float *to = calloc(plain, sizeof *to);
    assert_true(place && to);
    plim__form_places(form, 0, plain, place);
    for (uint64_t i = 0; i < plain; i++) {
        to[i] = (*data)[place[i]];
        (*data)[place[i]] = 0;
    }
    for (uint64_t i = 0; i < *count; i++) filled += (*data)[i] != 0;
    assert_int_equal(filled, 0);
    free(place);
    free(*data);
    *data = to;
    *count = plain;
}

static void take(results *r, const net *n, const plim_plan *plan)
{
    r->n = n->g->n_outputs;
    for (uint32_t i = 0; i < r->n; i++) {
        plim_result one;
        uint64_t bytes;
        assert_int_equal(plim_plan_result(&one, plan, i, NULL), PLIM_OK);
        assert_int_equal(plim_shape_bytes(&bytes, &one.shape, one.dtype, NULL), PLIM_OK);
        r->count[i] = bytes / sizeof(float);
        r->data[i] = malloc(bytes + 1);
        memcpy(r->data[i], one.data, bytes);
        if (i > 0 && n->m->param[i - 1].form.kind != PLIM__FORM_PLAIN) unblock(&r->data[i], &r->count[i], &n->m->param[i - 1].form);
    }
}

typedef plim_status planner(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err);

/* @param by  NULL: by `prefer` */
static plim_status run(results *r, net *n, uint64_t memory, uint32_t threads, planner *by, const plim__preference *prefer)
{
    plim_plan *plan = NULL;
    faulty_os os;
    faulty_init(&os);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = threads;
    set.spill_dir = files_dir;
    n->err = (plim_error){0};
    plim_status status = by ? by(&plan, n->g, &set, &os.table, &n->err) : plim__plan_new_by(&plan, n->g, &set, &os.table, prefer, &n->err);
    if (status == PLIM_OK) status = plim_plan_check(plan, &n->err);
    if (status == PLIM_OK) status = plim_plan_run(plan, NULL, &n->err);
    if (status == PLIM_OK) take(r, n, plan);
    plim_plan_free(&plan);
    return status;
}

static void compare(results *got, const results *want, uint64_t seed, const char *how)
{
    assert_true(got->n > 0 && got->n <= want->n);
    for (uint32_t k = 0; k < got->n; k++) {
        double scale = 0;
        assert_int_equal(got->count[k], want->count[k]);
        for (uint64_t i = 0; i < want->count[k]; i++) scale = fmax(scale, fabs((double)want->data[k][i]));
        assert_true(isfinite(scale));
        for (uint64_t i = 0; i < want->count[k]; i++)
            if (!(fabs((double)got->data[k][i] - (double)want->data[k][i]) <= 2e-4 * scale + 2e-5))
                fail_msg("net %llu, %s, result %u: element %llu is %g, not %g", (unsigned long long)seed, how, k, (unsigned long long)i,
                         (double)got->data[k][i], (double)want->data[k][i]);
    }
    results_free(got);
}

static void check_net(uint64_t seed)
{
    net plain, blocked, *n = &blocked;
    results want, got;
    net_new(&plain, seed, PLAIN);
    if (run(&want, &plain, 1u << 30, 1, NULL, &prefer_one_piece)) fail_msg("net %llu: %s", (unsigned long long)seed, plain.err.message);
    plim__model_free(&plain.m);
    net_new(n, seed, USED);
    DO(run(&got, n, 1u << 30, 2, NULL, &prefer_one_piece));
    compare(&got, &want, seed, "used, in one piece");
    assert_int_equal(run(&got, n, 1, 1, plim__plan_new_thorough, NULL), PLIM_E_BUDGET);
    DO(run(&got, n, n->err.need, 2, plim__plan_new_thorough, NULL));
    compare(&got, &want, seed, "used, in the least memory");
    plim__model_free(&n->m);
    net_new(n, seed, TRAINED);
    DO(run(&got, n, 1u << 30, 2, NULL, &prefer_one_piece));
    compare(&got, &want, seed, "in one piece");
    assert_int_equal(run(&got, n, 1, 1, plim__plan_new_thorough, NULL), PLIM_E_BUDGET);
    const uint64_t floor = n->err.need;
    DO(run(&got, n, floor, 1, plim__plan_new_thorough, NULL));
    compare(&got, &want, seed, "in the least memory");
    prefer_chance random = {.seed = files_random(&n->rng), .most_tiles = MOST_TILES};
    DO(run(&got, n, 64u << 20, 1, NULL, &(plim__preference){.score = prefer_by_chance, .ctx = &random}));
    compare(&got, &want, seed, "at random");
    DO(run(&got, n, floor + (uint64_t)pick(n, 1, 12) * (128u << 10), 2, plim__plan_new, NULL));
    compare(&got, &want, seed, "in little memory");
    plim__model_free(&n->m);
    results_free(&want);
}

static uint64_t first = 1, last; /* no others */

static void nets_are_what_they_were(void **state)
{
    static const uint64_t always[] = {1, 8, 9, 10, 11, 24, 26, 27, 55}; /* among the first these have the most convolutions of all kinds */
    (void)state;
    for (uint64_t seed = first; seed <= last; seed++) check_net(seed);
    if (last) return;
    for (uint32_t i = 0; i < COUNT_OF(always); i++) check_net(always[i]);
    assert_true(met.conv > met.depthwise && met.depthwise > 0 && met.first > 0 && met.plain > 0);
    assert_true(met.transposed > met.transposed_depthwise && met.transposed_depthwise > 0 && met.transposed_padded > 0);
}

int main(int argc, char **argv)
{
    if (argc == 3) {
        first = strtoull(argv[1], NULL, 10);
        last = strtoull(argv[2], NULL, 10);
    }
    const struct CMUnitTest tests[] = {cmocka_unit_test(nets_are_what_they_were)};
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
