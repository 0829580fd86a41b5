/* Convolution on blocked arrays, ours and oneDNN's (Debian: libdnnl-dev), layer by layer:
 *
 *     bench-conv [base | v3 | v4, default the best] [threads, default 2] [only shapes whose name has this in it]
 *
 * Per layer and batch (4 and 1): GFLOP/s of ours and of oneDNN in the layout that it likes best, and our time by its (above 1: we are slower), for
 * forward, the gradient with respect to x, and that with respect to w; then geometric means. Best of several runs, each taking turns; everything is
 * touched before. For a fair run with v3, let oneDNN do the same: DNNL_MAX_CPU_ISA=AVX2. */
#include "kernels/conv_blocked.h"
#include "kernels/convert.h"
#include "os/os.h"

#include <dnnl.h>
#include <math.h>
#include <omp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef struct layer {
    const char *name;
    int64_t channels, outputs, kernel, stride, extent;
    bool depth;
} layer;

static const layer layers[] = {
    {"64->64 3x3 @56", 64, 64, 3, 1, 56, false},
    {"128->128 3x3 @28", 128, 128, 3, 1, 28, false},
    {"256->256 3x3 @14", 256, 256, 3, 1, 14, false},
    {"512->512 3x3 @7", 512, 512, 3, 1, 7, false},
    {"64->256 1x1 @56", 64, 256, 1, 1, 56, false},
    {"512->2048 1x1 @7", 512, 2048, 1, 1, 7, false},
    {"256->512 1x1/2 @56", 256, 512, 1, 2, 56, false},
    {"3->64 7x7/2 @224", 3, 64, 7, 2, 224, false},
    {"3->64 3x3 @128", 3, 64, 3, 1, 128, false},
    {"64->128 3x3 @64", 64, 128, 3, 1, 64, false},
    {"256->256 3x3 @128", 256, 256, 3, 1, 128, false},
    {"1024->1024 3x3 @32", 1024, 1024, 3, 1, 32, false},
    {"144 depthwise 3x3 @56", 144, 144, 3, 1, 56, true},
};

enum { HUGE = 2 << 20 }; /* a large page */
enum { FORWARD, DATA, WEIGHTS, KINDS };

static double seconds(void) { return (double)plim__os_linux.clock_ns(NULL) * 1e-9; }

static void *fresh(uint64_t bytes)
{
    float *p = aligned_alloc(HUGE, plim__round_up(bytes + 1, HUGE));
    if (!p) exit(1);
    madvise(p, plim__round_up(bytes + 1, HUGE), MADV_HUGEPAGE); /* as the arena has it */
    for (uint64_t i = 0; i < bytes / sizeof *p; i++) p[i] = (float)(i * 2654435761u % 1000) * 1e-3f - 0.5f;
    return p;
}

/* --------------------------------------------------------------------------------------------------------------- ours */

typedef struct ours {
    const plim__blocked_lanes *lanes;
    plim__blocked c;
    plim__view y, x, w;
    void *scratch[KINDS];
    uint32_t threads;
} ours;

static plim__view dense(uint32_t rank, const int64_t *n)
{
    plim__region r = {.rank = rank};
    uint64_t count = 1;
    for (uint32_t d = 0; d < rank; d++) {
        r.dim[d] = (plim__range){0, n[d]};
        count *= (uint64_t)n[d];
    }
    return plim__view_dense(fresh(count * sizeof(float)), PLIM_F32, &r);
}

static ours ours_new(const layer *l, int64_t batch, const plim__blocked_lanes *lanes, uint32_t threads)
{
    const int64_t pad = l->kernel / 2, out = (l->extent + 2 * pad - l->kernel) / l->stride + 1, b = PLIM__BLOCK, k = l->kernel;
    const bool planes = l->channels < b;
    const int64_t cb = (l->channels + b - 1) / b, ob = (l->outputs + b - 1) / b, chain = planes ? l->channels : cb;
    ours o = {.lanes = lanes, .threads = threads};
    o.c = (plim__blocked){.window = {.size = {1, k, k}, .stride = {1, l->stride, l->stride}, .dilation = {1, 1, 1}, .before = {0, pad, pad},
            .after = {0, pad, pad}, .in = {1, l->extent, l->extent}, .out = {1, out, out}}, .groups = l->depth ? l->channels : 1,
        .channels = l->channels, .outputs = l->outputs, .kind = planes ? PLIM__BLOCKED_PLANES : l->depth ? PLIM__BLOCKED_DEPTH : PLIM__BLOCKED_FULL};
    o.y = dense(5, (int64_t[]){batch, ob, out, out, b});
    o.x = planes ? dense(4, (int64_t[]){batch, l->channels, l->extent, l->extent}) : dense(5, (int64_t[]){batch, cb, l->extent, l->extent, b});
    if (l->depth) o.w = dense(4, (int64_t[]){cb, k, k, b});
    else o.w = planes ? dense(5, (int64_t[]){ob, chain, k, k, b}) : dense(6, (int64_t[]){ob, cb, k, k, b, b});
    o.scratch[FORWARD] = fresh(plim__blocked_scratch(&o.c, PLIM__BLOCKED_Y, ob, chain, out, out, threads));
    o.scratch[DATA] = fresh(plim__blocked_scratch(&o.c, PLIM__BLOCKED_X, cb, ob, l->extent, l->extent, threads));
    o.scratch[WEIGHTS] = fresh(plim__blocked_scratch(&o.c, PLIM__BLOCKED_W, ob, chain, out, out, threads));
    return o;
}

static double ours_run(const ours *o, int kind)
{
    static const plim__blocked_into into[KINDS] = {PLIM__BLOCKED_Y, PLIM__BLOCKED_X, PLIM__BLOCKED_W};
    const double start = seconds();
    plim__blocked_run(o->lanes, &o->c, into[kind], &o->y, &o->x, &o->w, (plim__blocked_end){0}, o->scratch[kind], o->threads);
    return seconds() - start;
}

static void ours_free(ours *o)
{
    free(o->y.data);
    free(o->x.data);
    free(o->w.data);
    for (int k = 0; k < KINDS; k++) free(o->scratch[k]);
}

/* -------------------------------------------------------------------------------------------------------------- oneDNN */

static void must(dnnl_status_t s, const char *what)
{
    if (s == dnnl_success) return;
    fprintf(stderr, "bench-conv: oneDNN: %s: %d\n", what, (int)s);
    exit(1);
}

typedef struct theirs {
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arg[4];
    void *data[3];
} theirs;

static dnnl_engine_t engine;
static dnnl_stream_t stream;

/* Which operand each kind reads and makes. */
static const struct {
    dnnl_query_t query[3];
    int arg[3];
} roles[KINDS] = {
    {{dnnl_query_src_md, dnnl_query_weights_md, dnnl_query_dst_md}, {DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST}},
    {{dnnl_query_diff_src_md, dnnl_query_weights_md, dnnl_query_diff_dst_md}, {DNNL_ARG_DIFF_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_DST}},
    {{dnnl_query_src_md, dnnl_query_diff_weights_md, dnnl_query_diff_dst_md}, {DNNL_ARG_SRC, DNNL_ARG_DIFF_WEIGHTS, DNNL_ARG_DIFF_DST}},
};

static dnnl_primitive_desc_t describe(const layer *l, int64_t batch, int kind)
{
    const int64_t pad = l->kernel / 2, out = (l->extent + 2 * pad - l->kernel) / l->stride + 1, g = l->depth ? l->channels : 1;
    const dnnl_dims_t x = {batch, l->channels, l->extent, l->extent}, y = {batch, l->outputs, out, out};
    const dnnl_dims_t w = {l->outputs, l->channels, l->kernel, l->kernel}, wg = {g, l->outputs / g, l->channels / g, l->kernel, l->kernel};
    const dnnl_dims_t strides = {l->stride, l->stride}, pads = {pad, pad}, none = {0, 0};
    const dnnl_alg_kind_t how = dnnl_convolution_direct;
    dnnl_memory_desc_t xm, wm, ym;
    must(dnnl_memory_desc_init_by_tag(&xm, 4, x, dnnl_f32, dnnl_format_tag_any), "x");
    must(dnnl_memory_desc_init_by_tag(&wm, l->depth ? 5 : 4, l->depth ? wg : w, dnnl_f32, dnnl_format_tag_any), "w");
    must(dnnl_memory_desc_init_by_tag(&ym, 4, y, dnnl_f32, dnnl_format_tag_any), "y");
    dnnl_convolution_desc_t d, f;
    dnnl_primitive_desc_t pd, hint;
    must(dnnl_dilated_convolution_forward_desc_init(&f, dnnl_forward_training, how, &xm, &wm, NULL, &ym, strides, none, pads, pads), "forward");
    must(dnnl_primitive_desc_create(&hint, &f, NULL, engine, NULL), "forward");
    if (kind == FORWARD) return hint;
    if (kind == DATA) must(dnnl_dilated_convolution_backward_data_desc_init(&d, how, &xm, &wm, &ym, strides, none, pads, pads), "data");
    else must(dnnl_dilated_convolution_backward_weights_desc_init(&d, how, &xm, &wm, NULL, &ym, strides, none, pads, pads), "weights");
    must(dnnl_primitive_desc_create(&pd, &d, NULL, engine, hint), "backward");
    dnnl_primitive_desc_destroy(hint);
    return pd;
}

static theirs theirs_new(const layer *l, int64_t batch, int kind)
{
    theirs t = {0};
    dnnl_primitive_desc_t pd = describe(l, batch, kind);
    for (int i = 0; i < 3; i++) {
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, roles[kind].query[i], 0);
        t.data[i] = fresh(dnnl_memory_desc_get_size(md));
        t.arg[i].arg = roles[kind].arg[i];
        must(dnnl_memory_create(&t.arg[i].memory, md, engine, t.data[i]), "memory");
    }
    must(dnnl_primitive_create(&t.primitive, pd), "primitive");
    dnnl_primitive_desc_destroy(pd);
    return t;
}

static double theirs_run(const theirs *t)
{
    const double start = seconds();
    must(dnnl_primitive_execute(t->primitive, stream, 3, t->arg), "execute");
    must(dnnl_stream_wait(stream), "wait");
    return seconds() - start;
}

static void theirs_free(theirs *t)
{
    dnnl_primitive_destroy(t->primitive);
    for (int i = 0; i < 3; i++) {
        dnnl_memory_destroy(t->arg[i].memory);
        free(t->data[i]);
    }
}

/* ------------------------------------------------------------------------------------------------------------ measure */

/* The ratio of the times, or 0 where there is nothing to compare. */
static double measure(const layer *l, int64_t batch, int kind, const ours *o, double flop)
{
    if (kind == DATA && l->channels < PLIM__BLOCK) {
        printf("  %-22s", "-");
        return 0;
    }
    theirs t = theirs_new(l, batch, kind);
    double a = ours_run(o, kind), b = theirs_run(&t);
    const double until = seconds() + 0.3;
    for (int i = 0; i < 5 || (seconds() < until && i < 200); i++) {
        a = fmin(a, ours_run(o, kind));
        b = fmin(b, theirs_run(&t));
    }
    theirs_free(&t);
    printf("  %6.1f %6.1f %5.2f%s  ", flop / a * 1e-9, flop / b * 1e-9, a / b, a / b > 1.4 ? " !" : "  ");
    fflush(stdout);
    return a / b;
}

static const plim__blocked_lanes *lanes_named(const char *name)
{
    if (!strcmp(name, "base")) return &plim__blocked_lanes_base;
#ifdef PLIM_KERNELS_V3
    if (!strcmp(name, "v3") && plim__cpu_has_v3()) return &plim__blocked_lanes_v3;
#endif
#ifdef PLIM_KERNELS_V4
    if (!strcmp(name, "v4") && plim__cpu_has_v4()) return &plim__blocked_lanes_v4;
#endif
    return NULL;
}

int main(int argc, char **argv)
{
    const plim__blocked_lanes *lanes = argc > 1 ? lanes_named(argv[1]) : plim__blocked_best();
    const uint32_t threads = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 2;
    if (!lanes || threads < 1) {
        fprintf(stderr, "bench-conv: base, v3 or v4, as far as this processor has them, and 1 thread or more\n");
        return 2;
    }
    omp_set_num_threads((int)threads);
    must(dnnl_engine_create(&engine, dnnl_cpu, 0), "engine");
    must(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags), "stream");
    printf("%s, %u threads: GFLOP/s of ours, of oneDNN; time ours / oneDNN\n", lanes->name, threads);
    printf("%-22s %2s  %-22s  %-22s  %-22s\n", "", "N", "forward", "data", "weights");
    double sum[KINDS] = {0};
    int n[KINDS] = {0};
    for (int64_t batch = 4; batch >= 1; batch -= 3)
        for (size_t i = 0; i < sizeof layers / sizeof *layers; i++) {
            const layer *l = &layers[i];
            if (argc > 3 && !strstr(l->name, argv[3])) continue;
            ours o = ours_new(l, batch, lanes, threads);
            const double out = (double)(o.c.window.out[1] * o.c.window.out[2]), chain = l->depth ? 1 : (double)l->channels;
            const double flop = 2.0 * (double)batch * out * (double)l->outputs * chain * (double)(l->kernel * l->kernel);
            printf("%-22s %2d", l->name, (int)batch);
            for (int kind = 0; kind < KINDS; kind++) {
                const double ratio = measure(l, batch, kind, &o, flop);
                if (ratio > 0) sum[kind] += log(ratio), n[kind]++;
            }
            printf("\n");
            ours_free(&o);
        }
    printf("geometric mean of ours / oneDNN: forward %.2f, data %.2f, weights %.2f, all %.2f\n", exp(sum[0] / n[0]), exp(sum[1] / n[1]),
           exp(sum[2] / n[2]), exp((sum[0] + sum[1] + sum[2]) / (n[0] + n[1] + n[2])));
    return 0;
}
