/* Measures the machine: plim_machine_measure.
 *
 * A family of kernels is measured by running a node of one of its ops, built by the op's own constructor, and dividing the row's `work` by the time: what the planner
 * multiplies again. Every thread works on operands of its own, as on blocks of a stage; what it costs to start threads is measured by itself. Machines are
 * shared, so threads are timed by the CPU time that they got, in batches of a few milliseconds, and the fastest batch counts.
 * Memory: operands of one family at a time, from the caller's allocator. One caller; the compute threads are the pool's. */
#include "core/size.h"
#include "ops/ops.h"
#include "plan/machine.h"
#include "plan/machine_file.h"
#include "doctor/disk_measure.h"
#include "run/run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define BATCH_SECONDS 0.003
#define BATCHES 6
#define LANES_MAX 256u
#define STREAMED (16384 * 1024) /* elements that are copied by all threads together: no cache holds them */
#define TOUCHED ((uint64_t)64 << 20)
#define DISK_SHARE 0.5 /* of the whole time */
#define STEPS 64 /* of the program that steps are measured with */
#define STEP_RUNS 50

typedef struct bench {
    const plim__os *os;
    plim__alloc alloc;
    uint32_t threads;
    bool (*progress)(void *ctx, const plim_progress *now);
    void *progress_ctx;
    uint64_t started_ns;
    double done_before, done_share; /* of the part that is measured now */
} bench;

/* One node and what it works on. */
typedef struct subject {
    plim_graph *g;
    uint32_t node;
    plim__axes axes;
    plim__range axis[PLIM__MAX_AXES];
    uint32_t lanes;        /* threads, each with a set of operands */
    uint64_t lane_bytes;   /* of a set: inputs, outputs, scratch */
    uint8_t *memory;
    uint64_t calls;        /* of a batch, per lane */
    double seconds[LANES_MAX]; /* of CPU time that each lane took for its batch */
} subject;

static bool report(void *ctx, double done)
{
    const bench *b = ctx;
    if (!b->progress) return true;
    const plim_progress now = {.what = "measuring", .done = (uint64_t)(1000 * (b->done_before + b->done_share * done)), .total = 1000,
                               .seconds = (double)(b->os->clock_ns(b->os->self) - b->started_ns) * 1e-9};
    return b->progress(b->progress_ctx, &now);
}

/* ---------------------------------------------------------------------------------------------------------- subjects */

static plim_status input(plim_graph *g, plim_dtype dtype, plim_shape shape, uint32_t *v, plim_error *err)
{
    char name[16];
    plim__source source = {.path = (char *)""};
    int64_t stride = 1;
    for (uint32_t d = shape.rank; d-- > 0; stride *= shape.dim[d]) source.stride[d] = stride;
    snprintf(name, sizeof name, "in%u", g->n_values);
    return plim__graph_file(g, name, dtype, &shape, &source, v, err);
}

static plim_status f32_input(plim_graph *g, plim_shape shape, uint32_t *v, plim_error *err) { return input(g, PLIM_F32, shape, v, err); }

#define SHAPE(n, ...) ((plim_shape){.rank = (n), .dim = {__VA_ARGS__}})

static plim_status build_elementwise(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t in[2], v;
    PLIM_TRY(f32_input(g, SHAPE(1, 16384), &in[0], err));
    PLIM_TRY(f32_input(g, SHAPE(1, 16384), &in[1], err));
    return plim__op_elementwise(g, PLIM__EW_ADD, PLIM_F32, PLIM_F32, in, 2, &v, err);
}

static plim_status build_function(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(1, 16384), &x, err));
    return plim__op_elementwise(g, PLIM__EW_EXP, PLIM_F32, PLIM_F32, &x, 1, &v, err);
}

static plim_status build_copy(plim_graph *g, uint32_t lanes, plim_error *err)
{
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(2, plim__max(STREAMED / 1024 / lanes, 256), 1024), &x, err));
    return plim__op_slice_axis(g, x, 1, 8, 1, 1000, &v, err);
}

static plim_status build_transpose(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(2, 1024, 1000), &x, err));
    return plim__op_transpose(g, x, (const uint32_t[]){1, 0}, &v, err);
}

static plim_status build_gather(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, index, v;
    PLIM_TRY(f32_input(g, SHAPE(2, 4096, 256), &x, err));
    PLIM_TRY(input(g, PLIM_I64, SHAPE(1, 4096), &index, err));
    return plim__op_gather(g, x, index, 0, &v, err);
}

static plim_status build_reduce(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(2, 128, 512), &x, err));
    return plim__op_reduce(g, PLIM__REDUCE_SUM, x, 1, false, PLIM_F64, &v, err);
}

static plim_status build_scan(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(2, 64, 512), &x, err));
    return plim__op_scan(g, PLIM__REDUCE_SUM, x, 1, PLIM_F32, &v, err);
}

static plim_status build_sort(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(2, 32, 1024), &x, err));
    return plim__op_sort(g, x, 1, false, &v, NULL, err);
}

static plim_status build_tally(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    const double half = 0.5;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(1, 1 << 20), &x, err));
    return plim__op_radix_quantile(g, x, &half, 1, true, 1, false, &v, err);
}

static plim_status build_window(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(2, 128, 512), &x, err));
    return plim__op_box(g, x, (const int64_t[]){3, 3}, PLIM__EDGE_REFLECT, &v, err);
}

static const plim__pool pooling = {.space = 2, .size = {2, 2, 1}, .stride = {2, 2, 1}, .dilation = {1, 1, 1}};

static plim_status build_pool(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, v;
    PLIM_TRY(f32_input(g, SHAPE(4, 1, 16, 64, 64), &x, err));
    return plim__op_pool(g, x, &pooling, &v, err);
}

static plim_status build_pool_back(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    uint32_t x, y, dy, v;
    PLIM_TRY(f32_input(g, SHAPE(4, 1, 16, 64, 64), &x, err));
    PLIM_TRY(f32_input(g, SHAPE(4, 1, 16, 32, 32), &y, err));
    PLIM_TRY(f32_input(g, SHAPE(4, 1, 16, 32, 32), &dy, err));
    return plim__op_pool_back(g, x, y, dy, &pooling, &v, err);
}

static plim_status product(plim_graph *g, plim_dtype dtype, int64_t m, int64_t n, int64_t k, plim_error *err)
{
    uint32_t a, b, v;
    PLIM_TRY(input(g, dtype, SHAPE(2, m, k), &a, err));
    PLIM_TRY(input(g, dtype, SHAPE(2, k, n), &b, err));
    return plim__op_matmul(g, a, b, dtype, &v, err);
}

static plim_status build_product_f32(plim_graph *g, uint32_t lanes, plim_error *err) { return (void)lanes, product(g, PLIM_F32, 512, 512, 512, err); }
static plim_status build_product_f64(plim_graph *g, uint32_t lanes, plim_error *err) { return (void)lanes, product(g, PLIM_F64, 384, 384, 384, err); }
static plim_status build_product_integer(plim_graph *g, uint32_t lanes, plim_error *err) { return (void)lanes, product(g, PLIM_I64, 128, 128, 128, err); }
static plim_status build_product_thin(plim_graph *g, uint32_t lanes, plim_error *err) { return (void)lanes, product(g, PLIM_F32, 2, 1024, 2048, err); }

static plim__conv conv_3x3(int64_t groups)
{
    return (plim__conv){.space = 2, .stride = {1, 1, 1}, .dilation = {1, 1, 1}, .before = {1, 1, 0}, .after = {1, 1, 0}, .groups = groups};
}

static plim_status conv(plim_graph *g, int64_t outputs, plim_error *err)
{
    uint32_t x, w, v;
    const plim__conv c = conv_3x3(1);
    PLIM_TRY(f32_input(g, SHAPE(4, 1, 32, 56, 56), &x, err));
    PLIM_TRY(f32_input(g, SHAPE(4, outputs, 32, 3, 3), &w, err));
    return plim__op_conv(g, x, w, &c, &v, err);
}

static plim_status build_conv(plim_graph *g, uint32_t lanes, plim_error *err) { return (void)lanes, conv(g, 32, err); }
static plim_status build_conv_few(plim_graph *g, uint32_t lanes, plim_error *err) { return (void)lanes, conv(g, 2, err); }

static const plim_shape blocked_image = {.rank = 5, .dim = {1, 4, 56, 56, 16}};

static plim__conv_blocked blocked_conv(bool depthwise)
{
    return (plim__conv_blocked){.conv = conv_3x3(depthwise ? 64 : 1), .channels = 64, .outputs = 64};
}

static plim_status build_blocked(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    const plim__conv_blocked c = blocked_conv(false);
    plim__conv_blocked_in in = {.bias = PLIM__NONE, .scale = PLIM__NONE, .other = PLIM__NONE};
    uint32_t v;
    PLIM_TRY(f32_input(g, blocked_image, &in.x, err));
    PLIM_TRY(f32_input(g, SHAPE(6, 4, 4, 3, 3, 16, 16), &in.w, err));
    return plim__op_conv_blocked(g, &in, &c, &v, err);
}

static plim_status build_blocked_data(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    const plim__conv_blocked c = blocked_conv(false);
    uint32_t dy, w, v;
    PLIM_TRY(f32_input(g, blocked_image, &dy, err));
    PLIM_TRY(f32_input(g, SHAPE(6, 4, 4, 3, 3, 16, 16), &w, err));
    return plim__op_conv_blocked_data(g, dy, w, &c, &SHAPE(4, 1, 64, 56, 56), &v, err);
}

static plim_status build_blocked_weights(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    const plim__conv_blocked c = blocked_conv(false);
    uint32_t x, dy, v;
    PLIM_TRY(f32_input(g, blocked_image, &x, err));
    PLIM_TRY(f32_input(g, blocked_image, &dy, err));
    return plim__op_conv_blocked_weights(g, x, dy, &c, &SHAPE(4, 64, 64, 3, 3), &v, err);
}

static plim_status build_depth(plim_graph *g, uint32_t lanes, plim_error *err)
{
    (void)lanes;
    const plim__conv_blocked c = blocked_conv(true);
    plim__conv_blocked_in in = {.bias = PLIM__NONE, .scale = PLIM__NONE, .other = PLIM__NONE};
    uint32_t v;
    PLIM_TRY(f32_input(g, blocked_image, &in.x, err));
    PLIM_TRY(f32_input(g, SHAPE(4, 4, 3, 3, 16), &in.w, err));
    return plim__op_conv_blocked(g, &in, &c, &v, err);
}

/** @param lanes  threads that will run it at the same time */
typedef plim_status build_fn(plim_graph *g, uint32_t lanes, plim_error *err);

static build_fn *const builder[PLIM_KERNEL_COUNT] = {
    [PLIM_KERNEL_ELEMENTWISE] = build_elementwise,
    [PLIM_KERNEL_FUNCTION] = build_function,
    [PLIM_KERNEL_COPY] = build_copy,
    [PLIM_KERNEL_TRANSPOSE] = build_transpose,
    [PLIM_KERNEL_GATHER] = build_gather,
    [PLIM_KERNEL_REDUCE] = build_reduce,
    [PLIM_KERNEL_SCAN] = build_scan,
    [PLIM_KERNEL_SORT] = build_sort,
    [PLIM_KERNEL_TALLY] = build_tally,
    [PLIM_KERNEL_WINDOW] = build_window,
    [PLIM_KERNEL_POOL] = build_pool,
    [PLIM_KERNEL_POOL_BACK] = build_pool_back,
    [PLIM_KERNEL_PRODUCT_F32] = build_product_f32,
    [PLIM_KERNEL_PRODUCT_F64] = build_product_f64,
    [PLIM_KERNEL_PRODUCT_INTEGER] = build_product_integer,
    [PLIM_KERNEL_PRODUCT_THIN] = build_product_thin,
    [PLIM_KERNEL_CONV] = build_conv,
    [PLIM_KERNEL_CONV_FEW] = build_conv_few,
    [PLIM_KERNEL_CONV_BLOCKED] = build_blocked,
    [PLIM_KERNEL_CONV_BLOCKED_DATA] = build_blocked_data,
    [PLIM_KERNEL_CONV_BLOCKED_WEIGHTS] = build_blocked_weights,
    [PLIM_KERNEL_CONV_DEPTH] = build_depth,
};

/* ------------------------------------------------------------------------------------------------------------ timing */

static uint64_t value_bytes(const plim_graph *g, uint32_t v) { return plim__round_up(g->value[v].bytes, 64); }

static const plim__op_row *row_of(const subject *s) { return plim__op_row_of(s->g->node[s->node].op); }

/* Numbers around 1, and indices below a thousand. */
static void fill(void *to, plim_dtype dtype, uint64_t n, uint64_t *seed)
{
    for (uint64_t i = 0; i < n; i++) {
        *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const double x = 0.5 + (double)(*seed >> 40) * 0x1p-24;
        if (dtype == PLIM_F32) ((float *)to)[i] = (float)x;
        else if (dtype == PLIM_F64) ((double *)to)[i] = x;
        else if (dtype == PLIM_I64) ((int64_t *)to)[i] = (int64_t)(*seed >> 40) % 1000;
    }
}

static plim__view whole_view(const plim_graph *g, uint32_t v, uint8_t *at)
{
    const plim__region r = plim__region_whole(&g->value[v].shape);
    return plim__view_dense(at, g->value[v].dtype, &r);
}

static void call_once(const subject *s, uint32_t lane, const plim__range *axis)
{
    const plim__node *n = &s->g->node[s->node];
    plim__view in[4], out[PLIM__MAX_OUT];
    uint8_t *at = s->memory + lane * s->lane_bytes;
    PLIM_ASSERT(n->n_in <= 4);
    for (uint32_t k = 0; k < n->n_in; at += value_bytes(s->g, n->in[k++])) in[k] = whole_view(s->g, n->in[k], at);
    for (uint32_t j = 0; j < n->n_out; at += value_bytes(s->g, n->out[j++])) out[j] = whole_view(s->g, n->out[j], at);
    const plim__call c = {.graph = s->g, .node = n, .in = in, .out = out, .axis = axis, .scratch = at, .threads = 1};
    if (row_of(s)->init) row_of(s)->init(&c);
    row_of(s)->run(&c);
}

static double thread_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void run_lane(void *arg, uint64_t lane, uint32_t worker)
{
    subject *s = arg;
    (void)worker;
    const double start = thread_seconds();
    for (uint64_t i = 0; i < s->calls; i++) call_once(s, (uint32_t)lane, s->axis);
    s->seconds[lane] = thread_seconds() - start + 1e-9;
}

/* Calls per second, of all lanes together. */
static double batch_rate(subject *s)
{
    double rate = 0;
    if (s->lanes == 1) run_lane(s, 0, 0);
    else plim__parallel(s->lanes, s->lanes, run_lane, s);
    for (uint32_t i = 0; i < s->lanes; i++) rate += (double)s->calls / s->seconds[i];
    return rate;
}

/* The same, the best of some batches. */
static double call_rate(subject *s)
{
    s->calls = 1;
    batch_rate(s); /* touches its memory */
    double best = batch_rate(s);
    const double calls = BATCH_SECONDS * best / s->lanes;
    s->calls = calls > 1 ? (uint64_t)calls : 1;
    for (int i = 0; i < BATCHES; i++) {
        const double rate = batch_rate(s);
        if (rate > best) best = rate;
    }
    return best;
}

static plim_status subject_memory(subject *s, plim_error *err)
{
    const plim__node *n = &s->g->node[s->node];
    int64_t len[PLIM__MAX_AXES];
    uint64_t seed = 1;
    row_of(s)->axes(s->g, n, &s->axes);
    for (uint32_t d = 0; d < s->axes.n; d++) s->axis[d] = (plim__range){0, len[d] = s->axes.axis[d].extent};
    s->lane_bytes = plim__round_up(row_of(s)->scratch ? row_of(s)->scratch(s->g, n, len, 1) : 0, 64);
    for (uint32_t k = 0; k < n->n_in; k++) s->lane_bytes += value_bytes(s->g, n->in[k]);
    for (uint32_t j = 0; j < n->n_out; j++) s->lane_bytes += value_bytes(s->g, n->out[j]);
    PLIM_TRY(plim__arena_map((void **)&s->memory, s->lanes * s->lane_bytes, s->lanes, err));
    for (uint32_t lane = 0; lane < s->lanes; lane++) {
        uint8_t *at = s->memory + lane * s->lane_bytes;
        for (uint32_t k = 0; k < n->n_in; at += value_bytes(s->g, n->in[k++]))
            fill(at, s->g->value[n->in[k]].dtype, s->g->value[n->in[k]].bytes / plim_dtype_bytes(s->g->value[n->in[k]].dtype), &seed);
    }
    return PLIM_OK;
}

/* The first node of the family: constructors may add others around it. */
static uint32_t node_of(const plim_graph *g, plim_kernel kernel)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (plim__op_row_of(g->node[i].op)->work(g, &g->node[i]).kernel == kernel) return i;
    return PLIM__NONE;
}

/* Units per second of a family on so many threads. */
static plim_status measure_rate(const bench *b, plim_kernel kernel, uint32_t lanes, double *rate, plim_error *err)
{
    subject s = {.lanes = lanes};
    PLIM_TRY(plim__graph_new(&s.g, b->alloc, err));
    plim_status status = builder[kernel](s.g, lanes, err);
    if (status == PLIM_OK) {
        s.node = node_of(s.g, kernel);
        PLIM_ASSERT(s.node != PLIM__NONE);
        status = subject_memory(&s, err);
    }
    if (status == PLIM_OK) {
        *rate = row_of(&s)->work(s.g, &s.g->node[s.node]).amount * call_rate(&s);
        for (uint32_t d = 0; d < s.axes.n; d++) *rate *= (double)s.axes.axis[d].extent;
        plim__arena_unmap(s.memory, s.lanes * s.lane_bytes);
    }
    plim__graph_free(&s.g);
    return status;
}

static plim_status measure_kernel(const bench *b, plim_rate *rate, plim_kernel kernel, plim_error *err)
{
    PLIM_TRY(measure_rate(b, kernel, 1, &rate->one, err));
    rate->all = rate->one;
    return b->threads > 1 ? measure_rate(b, kernel, b->threads, &rate->all, err) : PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------------- overheads */

static void nothing(void *arg, uint64_t i, uint32_t worker)
{
    (void)arg, (void)i, (void)worker;
}

static void measure_parallel(const bench *b, plim_machine *m)
{
    enum { CALLS = 200 };
    double best = 1;
    for (int i = 0; i < BATCHES; i++) {
        const uint64_t start = b->os->clock_ns(b->os->self);
        for (int k = 0; k < CALLS; k++) plim__parallel(b->threads, b->threads, nothing, NULL);
        const double each = (double)(b->os->clock_ns(b->os->self) - start + 1) * 1e-9 / CALLS;
        if (each < best) best = each;
    }
    m->parallel_seconds = best;
}

/* A call for one element is all overhead. */
static plim_status measure_call(const bench *b, plim_machine *m, plim_error *err)
{
    subject s = {.lanes = 1};
    PLIM_TRY(plim__graph_new(&s.g, b->alloc, err));
    plim_status status = build_elementwise(s.g, 1, err);
    if (status == PLIM_OK) status = subject_memory(&s, err);
    if (status == PLIM_OK) {
        s.axis[0] = (plim__range){0, 1};
        m->node_seconds = 1 / call_rate(&s);
        plim__arena_unmap(s.memory, s.lane_bytes);
    }
    plim__graph_free(&s.g);
    return status;
}

/* A chain of products of 8 by 8, each a stage of its own. */
static plim_status build_steps(plim_graph *g, const float *x, plim_error *err)
{
    uint32_t first, v;
    PLIM_TRY(plim__graph_const(g, PLIM_F32, &SHAPE(2, 8, 8), x, &first, err));
    v = first;
    for (int i = 0; i < STEPS; i++) PLIM_TRY(plim__op_matmul(g, v, first, PLIM_F32, &v, err));
    return plim__graph_output(g, v, "steps", NULL, err);
}

static plim_status time_steps(const bench *b, plim_plan *plan, plim_machine *m, plim_error *err)
{
    double best = 1;
    PLIM_TRY(plim__run_open(plan, err));
    plim_status status = PLIM_OK;
    for (int i = 0; i < STEP_RUNS && status == PLIM_OK; i++) {
        const uint64_t start = b->os->clock_ns(b->os->self);
        status = plim__run_go(plan, err);
        const double seconds = (double)(b->os->clock_ns(b->os->self) - start + 1) * 1e-9;
        if (seconds < best) best = seconds;
    }
    plim__run_drop(plan);
    m->step_seconds = fmax(best / STEPS - m->node_seconds, m->node_seconds); /* it has a call, too */
    return status;
}

/* What the runner does for a step: regions of a tile, views, tickets. */
static plim_status measure_step(const bench *b, plim_machine *m, plim_error *err)
{
    const float x[64] = {1};
    plim_settings set = plim_settings_default();
    plim_graph *g;
    plim_plan *plan = NULL;
    set.threads = b->threads;
    PLIM_TRY(plim__graph_new(&g, b->alloc, err));
    plim_status status = build_steps(g, x, err);
    if (status == PLIM_OK) status = plim__plan_new(&plan, g, &set, b->os, err);
    if (status == PLIM_OK) status = time_steps(b, plan, m, err);
    if (plan) plim_plan_free(&plan);
    plim__graph_free(&g);
    return status;
}

static plim_status measure_touch(const bench *b, plim_machine *m, plim_error *err)
{
    double best = 1e9;
    for (int i = 0; i < 3; i++) {
        void *p;
        const uint64_t start = b->os->clock_ns(b->os->self);
        PLIM_TRY(plim__arena_map(&p, TOUCHED, b->threads, err));
        const double seconds = (double)(b->os->clock_ns(b->os->self) - start + 1) * 1e-9;
        plim__arena_unmap(p, TOUCHED);
        if (seconds < best) best = seconds;
    }
    m->touch_rate = (double)TOUCHED / best;
    return PLIM_OK;
}

static void set_date(plim_machine *m)
{
    const time_t now = time(NULL);
    struct tm t;
    if (!gmtime_r(&now, &t) || strftime(m->date, sizeof m->date, "%Y-%m-%dT%H:%M:%SZ", &t) == 0) m->date[0] = 0;
}

/* All families once. What was faster before stays. */
static plim_status measure_kernels(bench *b, plim_machine *m, plim_error *err)
{
    for (int k = 0; k < PLIM_KERNEL_COUNT; k++) {
        plim_rate now;
        PLIM_FAIL_IF(!report(b, (double)k / PLIM_KERNEL_COUNT), err, PLIM_E_CANCELLED, "stopped while the CPU was measured");
        PLIM_TRY(measure_kernel(b, &now, (plim_kernel)k, err));
        m->kernel[k].one = fmax(m->kernel[k].one, now.one);
        m->kernel[k].all = fmax(m->kernel[k].all, now.all);
    }
    return PLIM_OK;
}

/* Kernels before and after the disk: on a shared machine a CPU may run at half its speed for a second, but hardly twice. */
static plim_status measure_all(bench *b, plim_machine *m, const char *folder, plim_error *err)
{
    for (int k = 0; k < PLIM_KERNEL_COUNT; k++) m->kernel[k] = (plim_rate){0};
    b->done_share = (1 - DISK_SHARE) / 2;
    PLIM_TRY(measure_kernels(b, m, err));
    b->done_before = b->done_share;
    b->done_share = DISK_SHARE;
    PLIM_TRY(plim__disk_measure(m, b->os, &b->alloc, folder, report, b, err));
    b->done_before += DISK_SHARE;
    b->done_share = (1 - DISK_SHARE) / 2;
    PLIM_TRY(measure_kernels(b, m, err));
    m->memory_rate = m->kernel[PLIM_KERNEL_COPY].all;
    measure_parallel(b, m);
    PLIM_TRY(measure_call(b, m, err));
    PLIM_TRY(measure_step(b, m, err));
    return measure_touch(b, m, err);
}

plim_status plim_machine_measure(plim_machine *out, const char *folder, const plim_settings *set, plim_error *err)
{
    const plim_settings none = plim_settings_default();
    if (!set) set = &none;
    bench b = {.os = &plim__os_linux, .alloc = plim__alloc_from(set), .progress = set->progress, .progress_ctx = set->progress_ctx};
    plim_machine m;
    PLIM_TRY(plim__machine_identify(&m, b.os, folder, err));
    b.threads = set->threads ? set->threads : m.cpus;
    m.threads = b.threads = b.threads < LANES_MAX ? b.threads : LANES_MAX;
    b.started_ns = b.os->clock_ns(b.os->self);
    PLIM_TRY(measure_all(&b, &m, folder, err));
    set_date(&m);
    PLIM_TRY(plim_machine_check(&m, err));
    *out = m;
    return PLIM_OK;
}
