/* For tests of the Keras reader: models written out as text, read, filled with numbers and run whole. */
#ifndef PLIM_TESTS_KERAS_NET_H
#define PLIM_TESTS_KERAS_NET_H

#include "unit.h"

#include "files.h"
#include "models/keras.h"
#include "parts.h"

/* A layer of a Sequential model; texts have ' for ". */
#define LAYER(kind, name, rest) "{'class_name':'" kind "','config':{'name':'" name "'" rest "}}"
#define INPUT(shape) LAYER("InputLayer", "in", ",'batch_input_shape':" shape)

static char text[1 << 17]; /* what quoted made last */

static const char *quoted(const char *fmt, ...) __attribute__((unused)) __attribute__((format(printf, 1, 2)));
static const char *quoted(const char *fmt, ...)
{
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    assert_in_range(n, 0, sizeof text - 1);
    for (char *p = text; *p; p++)
        if (*p == '\'') *p = '"';
    return text;
}

static inline const char *sequential(const char *layers) { return quoted("{'class_name':'Sequential','config':{'name':'m','layers':[%s]}}", layers); }

/* ------------------------------------------------------------------------------------------------------------ running */

typedef struct net {
    plim__model *m;
    void **data;
    parts_rng rng;
} net;

static inline plim_status read_text(plim__model **m, const char *json, const plim__model_options *o, plim_error *err)
{
    *err = (plim_error){0};
    files_write("model.json", json, strlen(json));
    return plim__keras_read(m, files_path("model.json"), o, (plim__alloc){0}, err);
}

static inline void fill(net *n, uint32_t v)
{
    const plim__value *value = &n->m->graph->value[v];
    uint64_t count;
    assert_int_equal(plim_shape_count(&count, &value->shape, NULL), PLIM_OK);
    n->data[v] = malloc(value->bytes + 8);
    for (uint64_t i = 0; i < count; i++) {
        const double x = (double)parts_random(&n->rng, 2000) / 1000 - 1;
        const bool variance = strstr(value->name, "variance") != NULL;
        parts_set(n->data[v], value->dtype, i, plim__dtype_is_float(value->dtype) ? (variance ? 1.5 + x : x) : parts_random(&n->rng, 5));
    }
}

static inline net net_open(const char *json, const plim__model_options *o)
{
    net n = {.rng = {7}};
    plim_error err;
    if (read_text(&n.m, json, o, &err) != PLIM_OK) fail_msg("%s", err.message);
    n.data = calloc(n.m->graph->n_values, sizeof *n.data);
    for (uint32_t v = 0; v < n.m->graph->n_values; v++)
        if (n.m->graph->value[v].kind == PLIM__VALUE_FILE) fill(&n, v);
    return n;
}

static inline net net_run(const char *json, const plim__model_options *o)
{
    net n = net_open(json, o);
    parts_run(n.m->graph, n.data, PARTS_WHOLE, &n.rng);
    return n;
}

static inline void net_close(net *n)
{
    parts_free(n->m->graph, n->data);
    free(n->data);
    plim__model_free(&n->m);
}

static inline const plim_shape *shape_of(const net *n, uint32_t v) { return &n->m->graph->value[v].shape; }
static inline double at(const net *n, uint32_t v, uint64_t i) { return parts_get(n->data[v], n->m->graph->value[v].dtype, i); }
static inline double in_at(const net *n, uint64_t i) { return at(n, n->m->input[0].value, i); }
static inline double out_at(const net *n, uint64_t i) { return at(n, n->m->output[0].value, i); }
static inline double param_at(const net *n, uint32_t p, uint64_t i) { return at(n, n->m->param[p].value, i); }

static inline void expect_shape(const plim_shape *s, const char *want)
{
    char have[80];
    assert_string_equal(plim_shape_format(have, sizeof have, s), want);
}

/* Compares the first output with `want`, and is not content with zeros. */
static inline void expect(const net *n, const double *want, uint64_t count, const char *what)
{
    uint64_t have;
    bool nonzero = false;
    assert_int_equal(plim_shape_count(&have, shape_of(n, n->m->output[0].value), NULL), PLIM_OK);
    assert_int_equal(have, count);
    for (uint64_t i = 0; i < count; i++) {
        if (!parts_close(out_at(n, i), want[i], 2e-5, 2e-5)) fail_msg("%s: element %llu is %.9g, not %.9g", what, (unsigned long long)i, out_at(n,
                i), want[i]);
        nonzero = nonzero || want[i] != 0;
    }
    assert_true(nonzero);
}

static inline uint32_t count_op(const net *n, uint32_t op)
{
    uint32_t count = 0;
    for (uint32_t i = 0; i < n->m->graph->n_nodes; i++) count += n->m->graph->node[i].op == op;
    return count;
}

#endif
