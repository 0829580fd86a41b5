#include "session/dataset.h"
#include "core/dtype.h"

#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------------------------------------------------- files */

static plim_status open_one(plim__dataset *d, const plim__os *os, const plim_binding *in, const plim__alloc *a, plim_error *err)
{
    char path[4096];
    plim__array_file *f = &d->file[d->n];
    PLIM_TRY(plim__array_open(f, os, in->path, in->raw ? in : NULL, path, sizeof path, err));
    if (f->compressed)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, in->path, "'%.300s' is compressed: its samples cannot be read one by one; save it with numpy.savez", in->path);
    if (f->shape.rank == 0) return plim__fail_at(err, PLIM_E_SHAPE, in->path, "'%.300s' is a single number: there are no samples in it", in->path);
    d->path[d->n] = plim__strdup(a, path, err);
    if (!d->path[d->n]) return PLIM_E_NOMEM;
    f->source.path = d->path[d->n];
    d->name[d->n] = in->name ? in->name : "";
    d->type[d->n] = (plim__input_type){.name = d->name[d->n], .dtype = f->dtype};
    d->n++;
    if (d->samples >= 0 && d->samples != f->shape.dim[0])
        return plim__fail_at(err, PLIM_E_SHAPE, in->path, "'%.200s' has %lld samples, '%.200s' has %lld", in->path, (long long)f->shape.dim[0], d->path[0],
                             (long long)d->samples);
    d->samples = f->shape.dim[0];
    return PLIM_OK;
}

plim_status plim__dataset_open(plim__dataset *d, const plim__os *os, const plim_binding *in, uint32_t n, const plim__alloc *a, plim_error *err)
{
    *d = (plim__dataset){.samples = -1};
    PLIM_FAIL_IF(n > PLIM__MOST_INPUTS, err, PLIM_E_INVALID, "%u files of data; %d are possible", n, PLIM__MOST_INPUTS);
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < n && status == PLIM_OK; i++) status = open_one(d, os, &in[i], a, err);
    if (status != PLIM_OK) plim__dataset_free(d, a);
    return status;
}

plim_status plim__dataset_open_pairs(plim__dataset *d, const plim__os *os, const plim_binding *in, uint32_t n, const plim_binding *target, const plim__alloc *a,
                                     plim_error *err)
{
    plim_binding all[PLIM__MOST_INPUTS];
    PLIM_FAIL_IF(n == 0 || n >= PLIM__MOST_INPUTS, err, PLIM_E_INVALID, "%u inputs of data", n);
    PLIM_FAIL_IF(!target->path, err, PLIM_E_INVALID, "there is no target for '%.200s'", in->path);
    memcpy(all, in, n * sizeof *all);
    all[n] = *target;
    return plim__dataset_open(d, os, all, n + 1, a, err);
}

void plim__dataset_free(plim__dataset *d, const plim__alloc *a)
{
    for (uint32_t i = 0; i < d->n; i++) plim__free(a, d->path[i]);
    *d = (plim__dataset){.samples = -1};
}

/* ---------------------------------------------------------------------------------------------------- binding */

/* Everything but the samples must agree. A dimension of 1 at the end may be left out: labels come as [n] and as [n, 1]. */
static bool fits(const plim_shape *file, const plim_shape *want)
{
    uint32_t a = file->rank, b = want->rank;
    while (a > b && file->dim[a - 1] == 1) a--;
    while (b > a && want->dim[b - 1] == 1) b--;
    for (uint32_t k = 1; k < a && a == b; k++)
        if (file->dim[k] != want->dim[k]) return false;
    return a == b;
}

plim_status plim__dataset_bind(const plim__dataset *d, uint32_t i, plim_graph *g, uint32_t value, const char *what, bool picked, plim_error *err)
{
    const plim__array_file *f = &d->file[i];
    const plim__value *v = &g->value[value];
    char have[160], want[160];
    plim_shape_format(have, sizeof have, &f->shape);
    plim_shape_format(want, sizeof want, &v->shape);
    if (v->shape.rank == 0 || !fits(&f->shape, &v->shape) || (!picked && f->shape.dim[0] != v->shape.dim[0]))
        return plim__fail_at(err, PLIM_E_SHAPE, d->path[i], "'%.200s' is %s; %.60s is %s, of which the first dimension counts samples", d->path[i], have, what, want);
    PLIM_FAIL_IF(f->dtype != v->dtype, err, PLIM_E_TYPE, "'%.200s' is %s; %.60s is %s", d->path[i], plim_dtype_name(f->dtype), what, plim_dtype_name(v->dtype));
    if (picked && f->fortran_order && f->shape.rank > 1)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, d->path[i], "'%.200s' is in Fortran order: its samples are spread all over it; save it in C order", d->path[i]);
    char *path = plim__strdup(&g->alloc, d->path[i], err);
    if (!path) return PLIM_E_NOMEM;
    plim__source *s = &g->source[v->source];
    plim__free(&g->alloc, s->path);
    plim__source_rebind(s, &f->source, path);
    s->rows = picked ? (uint64_t)f->shape.dim[0] : 0;
    for (uint32_t k = f->shape.rank; k < v->shape.rank; k++) s->stride[k] = 1; /* of extent 1 */
    return PLIM_OK;
}

static plim_status no_input(const plim__dataset *d, uint32_t i, const plim__model *m, plim_error *err)
{
    char names[256];
    size_t n = 0;
    for (uint32_t k = 0; k < m->n_inputs && n < sizeof names; k++) n += (size_t)snprintf(names + n, sizeof names - n, "%s%.60s", k ? ", " : "", m->input[k].name);
    return plim__fail(err, PLIM_E_INVALID, "the model has no input '%.60s': it has %.200s", d->name[i], names);
}

plim_status plim__dataset_bind_inputs(const plim__dataset *d, plim__model *m, bool picked, plim_error *err)
{
    bool bound[PLIM__MOST_INPUTS] = {false};
    PLIM_FAIL_IF(m->n_inputs > PLIM__MOST_INPUTS, err, PLIM_E_UNSUPPORTED, "a model with %u inputs", m->n_inputs);
    for (uint32_t i = 0; i < d->n; i++) {
        uint32_t k = 0;
        while (k < m->n_inputs && (d->name[i][0] ? strcmp(m->input[k].name, d->name[i]) != 0 : k > 0)) k++;
        if (k == m->n_inputs) return no_input(d, i, m, err);
        PLIM_FAIL_IF(bound[k], err, PLIM_E_INVALID, "input '%.60s' is given twice", m->input[k].name);
        char what[PLIM__MODEL_NAME + 16];
        snprintf(what, sizeof what, "input '%s'", m->input[k].name);
        PLIM_TRY(plim__dataset_bind(d, i, m->graph, m->input[k].value, what, picked, err));
        bound[k] = true;
    }
    for (uint32_t k = 0; k < m->n_inputs; k++)
        PLIM_FAIL_IF(!bound[k], err, PLIM_E_INVALID, "input '%.60s' of the model has no data: give it as '%.60s=FILE'", m->input[k].name, m->input[k].name);
    return PLIM_OK;
}

plim_status plim__dataset_bind_pairs(const plim__dataset *d, plim__model *m, uint32_t target, bool picked, plim_error *err)
{
    plim__dataset inputs = *d;
    inputs.n--;
    PLIM_TRY(plim__dataset_bind_inputs(&inputs, m, picked, err));
    return plim__dataset_bind(d, inputs.n, m->graph, target, "the target", picked, err);
}

/* ------------------------------------------------------------------------------------------------------- order */

static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* A bijection of [0, 4^half): four rounds of Luby and Rackoff's construction, halves of `half` bits. */
static uint64_t scramble(uint64_t x, uint32_t half, uint64_t key)
{
    const uint64_t mask = ((uint64_t)1 << half) - 1;
    uint64_t left = x >> half, right = x & mask;
    for (uint64_t round = 0; round < 4; round++) {
        const uint64_t next = left ^ (mix(right + mix(key + round)) & mask);
        left = right;
        right = next;
    }
    return left << half | right;
}

/* Values beyond n are scrambled again until one is inside: a walk along a cycle of the bijection, fewer than four steps on average. */
uint64_t plim__sample_at(const plim__sample_order *o, uint64_t epoch, uint64_t at)
{
    if (o->in_order || o->n < 2) return at;
    uint32_t half = 1;
    while (half < 31 && (uint64_t)1 << (2 * half) < o->n) half++;
    const uint64_t key = mix(o->seed) + mix(epoch ^ 0x9e3779b97f4a7c15u);
    do at = scramble(at, half, key);
    while (at >= o->n);
    return at;
}
