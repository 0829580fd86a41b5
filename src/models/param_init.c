/* See the header. Normal numbers are Box and Muller's: sqrt(-2 ln u) cos(2 pi v), one of the pair, so that an element needs no neighbour; u has 48
 * bits, which reaches 8.1 deviations. All is computed in double and then converted; no memory is allocated. */
#include "models/param_init.h"
#include "core/dtype.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "kernels/elementwise.h"
#include "kernels/random.h"

#include <math.h>
#include <string.h>

#define CHUNK 512u                  /* elements made at a time */
#define STREAMS (UINT64_C(1) << 32) /* the first that no op of a graph has */
#define STREAMS_EACH 4u             /* of a parameter */

void plim__param_filler_open(plim__param_filler *f, const plim__model *m, const plim__os *os, uint64_t seed)
{
    *f = (plim__param_filler){.model = m, .os = os, .seed = seed, .fd = -1};
}

/* ---------------------------------------------------------------------------------------------------------- from files */

static plim_status check_same(const plim__param_filler *f, const char *when, plim_error *err)
{
    plim__stat now = {0};
    const plim__source *s = f->source;
    const int code = f->os->stat(f->os->self, f->fd, &now);
    if (code < 0) return plim__os_fail(code, "stat", s->path, 0, err);
    if (now.size == s->file_bytes && now.mtime_ns == s->mtime_ns) return PLIM_OK;
    return plim__fail_at(err, PLIM_E_CHANGED, s->path, "'%.200s' changed %s (it had %llu bytes, now %llu)", s->path, when,
                         (unsigned long long)s->file_bytes, (unsigned long long)now.size);
}

plim_status plim__param_filler_close(plim__param_filler *f, plim_error *err)
{
    if (f->fd < 0) return PLIM_OK;
    const plim_status status = check_same(f, "while it was read", err);
    f->os->drop_cache(f->os->self, f->fd, 0, f->source->file_bytes);
    f->os->close(f->os->self, f->fd);
    f->fd = -1;
    return status;
}

static plim_status open_source(plim__param_filler *f, const plim__source *s, plim_error *err)
{
    plim__stat stat;
    if (f->fd >= 0 && strcmp(f->source->path, s->path) == 0) return PLIM_OK;
    PLIM_TRY(plim__param_filler_close(f, err));
    PLIM_TRY(plim__file_open(&f->fd, &stat, f->os, s->path, err));
    f->source = s;
    const plim_status status = check_same(f, "since the model was read", err);
    if (status != PLIM_OK) (void)plim__param_filler_close(f, err); /* the first failure is the one that is told */
    return status;
}

static plim_status from_file(plim__param_filler *f, const plim__value *v, uint64_t first, void *out, uint64_t n, plim_error *err)
{
    const plim__source *s = &f->model->graph->source[v->source];
    const uint64_t size = plim_dtype_bytes(v->dtype), at = s->offset + first * size; /* inside the file, as its reader checked */
    PLIM_TRY(open_source(f, s, err));
    PLIM_TRY(plim__array_read(f->os, f->fd, out, n * size, at, s->path, err));
    f->os->drop_cache(f->os->self, f->fd, at, n * size);
    if (s->swap) plim__swap_bytes(out, n, size);
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------------------- made */

/* The numbers in [0, 1) of elements [first, first + n): stream `which` of parameter `param`. */
static void draw(float *out, const plim__param_filler *f, uint32_t param, uint32_t which, uint64_t first, uint64_t n)
{
    const plim_shape all = {1, {INT64_MAX}};
    const plim__region r = {1, {{(int64_t)first, (int64_t)(first + n)}}};
    const plim__view v = plim__view_dense(out, PLIM_F32, &r);
    plim__random_run(&v, &all, plim__random_key_of(f->seed, STREAMS + (uint64_t)param * STREAMS_EACH + which));
}

/* The same with 48 bits. */
static void draw_fine(double *out, const plim__param_filler *f, uint32_t param, uint32_t which, uint64_t first, uint64_t n)
{
    float high[CHUNK], low[CHUNK];
    draw(high, f, param, which, first, n);
    draw(low, f, param, which + 1, first, n);
    for (uint64_t i = 0; i < n; i++) out[i] = (double)high[i] + (double)low[i] * 0x1p-24;
}

/* 24 bits are all that f32 has: with more, the largest would be rounded up to `scale`, which is not in the range. */
static void make_uniform(double *out, const plim__param_filler *f, uint32_t param, uint64_t first, uint64_t n)
{
    const plim__param *p = &f->model->param[param];
    const bool fine = f->model->graph->value[p->value].dtype == PLIM_F64;
    float coarse[CHUNK];
    if (fine) draw_fine(out, f, param, 0, first, n);
    else draw(coarse, f, param, 0, first, n);
    for (uint64_t i = 0; i < n; i++) out[i] = (2 * (fine ? out[i] : (double)coarse[i]) - 1) * p->init_scale;
}

static void make_normal(double *out, const plim__param_filler *f, uint32_t param, uint64_t first, uint64_t n)
{
    const double deviation = f->model->param[param].init_scale, turn = 6.28318530717958647693;
    float angle[CHUNK];
    draw_fine(out, f, param, 0, first, n);
    draw(angle, f, param, 2, first, n);
    for (uint64_t i = 0; i < n; i++) out[i] = sqrt(-2 * log(1 - out[i])) * cos(turn * (double)angle[i]) * deviation;
}

static void make(double *out, const plim__param_filler *f, uint32_t param, uint64_t first, uint64_t n)
{
    switch (f->model->param[param].init) {
    case PLIM__INIT_GLOROT_UNIFORM:
    case PLIM__INIT_UNIFORM: make_uniform(out, f, param, first, n); break;
    case PLIM__INIT_NORMAL: make_normal(out, f, param, first, n); break;
    default:
        for (uint64_t i = 0; i < n; i++) out[i] = 1;
        break;
    }
}

static plim_status fill_made(const plim__param_filler *f, uint32_t param, uint64_t first, void *out, uint64_t n, plim_error *err)
{
    const plim__param *p = &f->model->param[param];
    const plim_dtype dtype = f->model->graph->value[p->value].dtype;
    const uint64_t size = plim_dtype_bytes(dtype);
    double numbers[CHUNK];
    PLIM_FAIL_IF(p->init == PLIM__INIT_FILE, err, PLIM_E_INVALID, "parameter '%s' is in no file, and nothing says how to make it", p->name);
    PLIM_FAIL_IF(p->init > PLIM__INIT_ONES && !plim__dtype_is_float(dtype), err, PLIM_E_TYPE, "parameter '%s' is %s: random numbers are floats",
                 p->name, plim_dtype_name(dtype));
    if (p->init == PLIM__INIT_ZEROS) {
        memset(out, 0, n * size);
        return PLIM_OK;
    }
    for (uint64_t done = 0; done < n;) {
        const uint64_t k = n - done < CHUNK ? n - done : CHUNK;
        make(numbers, f, param, first + done, k);
        plim__convert((uint8_t *)out + done * size, dtype, numbers, PLIM_F64, k);
        done += k;
    }
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------------- the whole */

plim_status plim__param_fill(plim__param_filler *f, uint32_t param, uint64_t first, void *out, uint64_t n, plim_error *err)
{
    PLIM_FAIL_IF(param >= f->model->n_params, err, PLIM_E_INVALID, "parameter %u of a model that has %u", param, f->model->n_params);
    const plim__param *p = &f->model->param[param];
    const plim_graph *g = f->model->graph;
    const plim__value *v = &g->value[p->value];
    const uint64_t count = plim__param_bytes(f->model, p) / plim_dtype_bytes(v->dtype);
    PLIM_FAIL_IF(first > count || n > count - first, err, PLIM_E_INVALID, "elements %llu to %llu of parameter '%s', which has %llu",
                 (unsigned long long)first, (unsigned long long)(first + n), p->name, (unsigned long long)count);
    if (n == 0) return PLIM_OK;
    return g->source[v->source].path[0] ? from_file(f, v, first, out, n, err) : fill_made(f, param, first, out, n, err);
}

static plim_status read_bytes(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    plim__param_filler *f = ctx;
    PLIM_FAIL_IF(index >= f->model->n_params, err, PLIM_E_INVALID, "parameter %u of a model that has %u", index, f->model->n_params);
    const uint64_t size = plim_dtype_bytes(f->model->graph->value[f->model->param[index].value].dtype);
    PLIM_ASSERT(offset % size == 0 && n % size == 0);
    return plim__param_fill(f, index, offset / size, bytes, n / size, err);
}

plim__tensor_reader plim__param_filler_reader(plim__param_filler *f) { return (plim__tensor_reader){.ctx = f, .read = read_bytes}; }
