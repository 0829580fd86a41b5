/* The layers of a model and the order in which they are called.
 *
 * First all layers are read into one flat list (plim__keras.layer), those of a model one after the other, nested models behind the one that
 * holds them. Then the whole model is called on its inputs. A call of a Sequential model calls its layers in turn. A call of a Functional one
 * has a frame of its own: each layer has nodes, one per call, and a node says which outputs of which nodes go in. Nodes are evaluated depth
 * first with a stack of their own, in the file's order where that is free; a node that waits for itself is a cycle. Two forms of nodes are read:
 *
 *     Keras 2   [["conv", 0, 0, {}], ["skip", 0, 0, {}]]                                       name, node, tensor, keyword arguments
 *     Keras 3   {"args": [{"class_name": "__keras_tensor__", "config": {"keras_history": ["conv", 0, 0]}}], "kwargs": {}} */
#include "core/size.h"
#include "models/keras.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------------------------------------- reading the layers */

/* Keras' own classes are known by their module; old files name none. Operations that are not layers have names that layers have, too: those of two
 * tensors do the same. */
static plim_status check_module(const plim__json *json, const char *kind, plim_error *err)
{
    static const char *const same[] = {"Add", "Subtract", "Multiply", "Maximum", "Minimum"};
    plim__json j;
    const char *module;
    if (!plim__json_find(&j, json, "module")) return PLIM_OK;
    PLIM_TRY(plim__json_string(&module, &j, err));
    bool known = !strstr(module, ".ops.");
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) known = known || strcmp(kind, same[i]) == 0;
    if (!known) return plim__json_fail(err, PLIM_E_UNSUPPORTED, &j, "operation %.60s.%.60s is not supported", module, kind);
    if (strncmp(module, "keras", 5) == 0 || strncmp(module, "tf_keras", 8) == 0) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_UNSUPPORTED, &j, "%.60s.%.60s is a class of its own: what it does is not in the file", module, kind);
}

static plim_status layer_name(plim__keras_layer *l, const plim__json *json, plim_error *err)
{
    plim__json j;
    l->name = "model"; /* old Sequential models have none */
    if (plim__json_find(&j, &l->config, "name") || plim__json_find(&j, json, "name")) return plim__json_string(&l->name, &j, err);
    return l->is_model ? PLIM_OK : plim__json_fail(err, PLIM_E_FORMAT, &l->config, "'name' is missing");
}

static plim_status layer_add(plim__keras *k, const plim__json *json, uint32_t parent, plim_error *err)
{
    plim__keras_layer l = {.json = *json, .parent = parent, .trainable = true};
    plim__json j;
    PLIM_TRY(plim__json_get(&j, json, "class_name", err));
    PLIM_TRY(plim__json_string(&l.kind, &j, err));
    PLIM_TRY(plim__json_get(&l.config, json, "config", err));
    l.is_sequential = strcmp(l.kind, "Sequential") == 0;
    l.is_model = plim__json_find(&j, &l.config, "layers") || (l.is_sequential && plim__json_kind_of(&l.config) == PLIM__JSON_ARRAY);
    PLIM_TRY(layer_name(&l, json, err));
    PLIM_TRY(check_module(json, l.kind, err));
    PLIM_TRY(plim__json_get_boolean(&l.trainable, &l.config, "trainable", true, err));
    if (!l.is_model) PLIM_TRY(plim__keras_dtype(&l.dtype, &l.config, err));
    const char *above = parent == PLIM__NONE || parent == 0 ? "" : k->layer[parent].path;
    snprintf(l.path, sizeof l.path, "%.60s%s%.34s", above, above[0] ? "/" : "", l.name);
    PLIM_TRY(plim__grow(&k->alloc, (void **)&k->layer, &k->cap_layers, k->n_layers + 1, sizeof *k->layer, err));
    k->layer[k->n_layers++] = l;
    return PLIM_OK;
}

static plim_status layers_read(plim__keras *k, uint32_t model, uint32_t depth, plim_error *err)
{
    plim__json list = k->layer[model].config, j;
    if (depth > PLIM__KERAS_DEPTH) return plim__json_fail(err, PLIM_E_UNSUPPORTED, &list, "models are nested more than %d deep", PLIM__KERAS_DEPTH);
    if (plim__json_kind_of(&list) != PLIM__JSON_ARRAY) PLIM_TRY(plim__json_get(&list, &k->layer[model].config, "layers", err));
    if (plim__json_kind_of(&list) != PLIM__JSON_ARRAY || plim__json_count(&list) == 0)
        return plim__json_fail(err, PLIM_E_FORMAT, &list, "expected a list of layers");
    const uint32_t first = k->layer[model].first = k->n_layers, count = k->layer[model].count = plim__json_count(&list);
    for (uint32_t i = 0; i < count; i++) {
        PLIM_TRY(plim__json_at(&j, &list, i, err));
        PLIM_TRY(layer_add(k, &j, model, err));
    }
    for (uint32_t i = first; i < first + count; i++) {
        if (k->layer[i].is_model) PLIM_TRY(layers_read(k, i, depth + 1, err));
        if (strcmp(k->layer[i].kind, "TimeDistributed") != 0) continue;
        k->layer[i].first = k->n_layers;
        k->layer[i].count = 1;
        PLIM_TRY(plim__json_get(&j, &k->layer[i].config, "layer", err));
        PLIM_TRY(layer_add(k, &j, i, err));
    }
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------------- inputs of the model */

/* An extent that the file leaves open: bound as NAME.d, or as NAME for all open extents of an input. */
static plim_status open_extent(const plim__keras *k, const char *name, uint32_t d, int64_t *out, plim_error *err)
{
    char exact[PLIM__MODEL_NAME + 16];
    snprintf(exact, sizeof exact, "%.90s.%u", name, d);
    for (uint32_t i = 0; i < k->options->n_dims; i++) {
        const plim__dim_binding *b = &k->options->dim[i];
        if (strcmp(b->name, exact) != 0 && strcmp(b->name, name) != 0) continue;
        *out = b->value;
        if (strcmp(b->name, exact) == 0) return PLIM_OK;
        for (uint32_t e = i + 1; e < k->options->n_dims; e++)
            if (strcmp(k->options->dim[e].name, exact) == 0) *out = k->options->dim[e].value;
        return PLIM_OK;
    }
    return plim__fail_at(err, PLIM_E_INVALID, k->path,
                         "'%.80s': input '%.60s' leaves the extent of dimension %u open; give it with --dim %.60s=VALUE", k->path, name, d, exact);
}

static plim_status input_shape(const plim__keras *k, const char *name, const plim__json *j, plim_shape *s, plim_error *err)
{
    plim__json e;
    const uint32_t rank = plim__json_count(j);
    if (plim__json_kind_of(j) != PLIM__JSON_ARRAY || rank == 0 || rank > PLIM_MAX_RANK)
        return plim__json_fail(err, PLIM_E_FORMAT, j, "expected 1 to %d extents", PLIM_MAX_RANK);
    *s = (plim_shape){.rank = rank};
    for (uint32_t d = 0; d < rank; d++) {
        PLIM_TRY(plim__json_at(&e, j, d, err));
        if (plim__json_kind_of(&e) != PLIM__JSON_NULL) PLIM_TRY(plim__json_integer(&s->dim[d], &e, err));
        else if (d == 0) s->dim[d] = 1;
        else PLIM_TRY(open_extent(k, name, d, &s->dim[d], err));
        if (d == 0 && k->options->batch > 0) s->dim[d] = k->options->batch;
        if (s->dim[d] < 1) return plim__json_fail(err, PLIM_E_FORMAT, &e, "an extent of %lld", (long long)s->dim[d]);
    }
    return PLIM_OK;
}

/* A description of an input: a shape, a dtype and a name. */
typedef struct input_spec {
    plim__json shape;
    plim_dtype dtype;
    char name[PLIM__MODEL_NAME];
} input_spec;

static bool find_shape(plim__json *out, const plim__json *config)
{
    return plim__json_find(out, config, "batch_shape") || plim__json_find(out, config, "batch_input_shape");
}

static plim_status input_of_layer(const plim__keras_layer *l, input_spec *spec, plim_error *err)
{
    bool sparse, ragged;
    if (!find_shape(&spec->shape, &l->config)) return plim__json_fail(err, PLIM_E_FORMAT, &l->config, "input '%.60s' has no batch_shape", l->name);
    PLIM_TRY(plim__json_get_boolean(&sparse, &l->config, "sparse", false, err));
    PLIM_TRY(plim__json_get_boolean(&ragged, &l->config, "ragged", false, err));
    if (sparse || ragged) return plim__json_fail(err, PLIM_E_UNSUPPORTED, &l->config, "input '%.60s' is sparse or ragged", l->name);
    spec->dtype = l->dtype;
    snprintf(spec->name, sizeof spec->name, "%s", l->name);
    return PLIM_OK;
}

/* The input of a model that has one: its input layer's, or what its first layer was built for. */
static plim_status input_of_model(const plim__keras *k, uint32_t model, input_spec *spec, plim_error *err)
{
    const plim__keras_layer *m = &k->layer[model], *first = &k->layer[m->first];
    plim__json j;
    for (uint32_t i = 0; i < (m->is_sequential ? 1 : m->count); i++)
        if (strcmp(k->layer[m->first + i].kind, "InputLayer") == 0) return input_of_layer(&k->layer[m->first + i], spec, err);
    spec->dtype = strcmp(first->kind, "Embedding") == 0 ? PLIM_I32 : first->is_model ? PLIM_F32 : first->dtype;
    snprintf(spec->name, sizeof spec->name, "%.80s_input", first->name);
    if (find_shape(&spec->shape, &first->config)) return PLIM_OK;
    if (plim__json_find(&spec->shape, &m->config, "build_input_shape")) return PLIM_OK;
    if (plim__json_find(&j, &m->json, "build_config") && plim__json_find(&spec->shape, &j, "input_shape")) return PLIM_OK;
    if (first->is_model) return input_of_model(k, m->first, spec, err);
    return plim__json_fail(err, PLIM_E_FORMAT, &m->config, "no input shape: the model was not built before it was saved");
}

/* Names the layer in a message that does not name any place yet. */
static void name_place(const plim__keras *k, const char *layer, const char *kind, plim_error *err)
{
    char text[sizeof err->message];
    if (!err || err->where[0]) return;
    snprintf(text, sizeof text, "%s", err->message);
    snprintf(err->message, sizeof err->message, "'%.80s': layer '%.60s' (%.40s): %.300s", k->path, layer, kind, text);
    snprintf(err->where, sizeof err->where, "%s", layer);
}

static plim_status input_make(plim__keras *k, const input_spec *spec, plim__keras_tensor *t, plim_error *err)
{
    plim_shape s;
    PLIM_TRY(input_shape(k, spec->name, &spec->shape, &s, err));
    t->turned = false;
    const plim_status status = plim__model_input(k->model, spec->name, spec->dtype, &s, 0, &t->v, err);
    if (status != PLIM_OK) name_place(k, spec->name, "input", err);
    return status;
}

/* ------------------------------------------------------------------------------------------------------- calling a layer */

static plim_status layer_call(plim__keras *k, plim__keras_layer *l, const plim__keras_tensor *in, uint32_t n_in, plim__keras_tensor *out,
                              plim_error *err)
{
    const plim__keras_row *row = plim__keras_row_of(l->kind);
    PLIM_FAIL_IF(!row, err, PLIM_E_UNSUPPORTED, "this kind of layer is not supported");
    PLIM_FAIL_IF(n_in < row->least || n_in > row->most, err, PLIM_E_FORMAT, "it is called with %u inputs", n_in);
    plim__keras_call c = {.k = k, .row = row, .layer = l, .config = &l->config, .in = in, .n_in = n_in, .err = err};
    PLIM_TRY(plim__keras_check_options(&c));
    PLIM_TRY(row->build(&c));
    *out = c.out;
    return PLIM_OK;
}

plim_status plim__keras_apply(plim__keras *k, uint32_t index, const plim__keras_tensor *in, uint32_t n_in, plim__keras_tensor *out, plim_error *err)
{
    plim__keras_layer *l = &k->layer[index];
    const uint32_t tag = k->graph->tag;
    PLIM_FAIL_IF(k->calls++ == PLIM__KERAS_CALLS, err, PLIM_E_UNSUPPORTED, "'%.80s': more than %d calls of layers", k->path, PLIM__KERAS_CALLS);
    if (l->tag) k->graph->tag = l->tag;
    else PLIM_TRY(plim__model_layer(k->model, l->path, l->kind, err));
    l->tag = k->graph->tag;
    const plim_status status = layer_call(k, l, in, n_in, out, err);
    if (status != PLIM_OK) name_place(k, l->path, l->kind, err);
    k->graph->tag = tag;
    return status;
}

/* ------------------------------------------------------------------------------------------------------ calls of a model */

/* What a model gives; the array is from the allocator. */
typedef struct results {
    plim__keras_tensor *t;
    uint32_t n, cap;
} results;

static plim_status results_add(plim__keras *k, results *r, plim__keras_tensor t, plim_error *err)
{
    PLIM_TRY(plim__grow(&k->alloc, (void **)&r->t, &r->cap, r->n + 1, sizeof *r->t, err));
    r->t[r->n++] = t;
    return PLIM_OK;
}

static plim_status model_call(plim__keras *k, uint32_t model, const plim__keras_tensor *in, uint32_t n_in, results *out, plim_error *err);

/* A layer or a model; what it gives is added to `out`. */
static plim_status any_call(plim__keras *k, uint32_t index, const plim__keras_tensor *in, uint32_t n_in, results *out, plim_error *err)
{
    plim__keras_tensor t = {0};
    if (k->layer[index].is_model) return model_call(k, index, in, n_in, out, err);
    PLIM_TRY(plim__keras_apply(k, index, in, n_in, &t, err));
    return results_add(k, out, t, err);
}

/* @param in  NULL: the whole model, whose input is made here */
static plim_status sequential_call(plim__keras *k, uint32_t model, const plim__keras_tensor *in, uint32_t n_in, results *out, plim_error *err)
{
    const plim__keras_layer m = k->layer[model];
    plim__keras_tensor t = {0};
    input_spec spec = {0};
    if (!in) {
        PLIM_TRY(input_of_model(k, model, &spec, err));
        PLIM_TRY(input_make(k, &spec, &t, err));
    } else if (n_in == 1) {
        t = in[0];
    } else {
        return plim__json_fail(err, PLIM_E_FORMAT, &m.json, "a Sequential model is called with %u inputs", n_in);
    }
    plim_status status = PLIM_OK;
    results step = {0};
    for (uint32_t i = m.first; i < m.first + m.count; i++) {
        if (i == m.first && strcmp(k->layer[i].kind, "InputLayer") == 0) continue;
        step.n = 0;
        PLIM_TRY_DONE(any_call(k, i, &t, 1, &step, err));
        if (step.n != 1)
            PLIM_TRY_DONE(plim__json_fail(err, PLIM_E_FORMAT, &k->layer[i].json, "it gives %u tensors inside a Sequential model", step.n));
        t = step.t[0];
    }
    PLIM_TRY_DONE(results_add(k, out, t, err));
done:
    plim__free(&k->alloc, step.t);
    return status;
}

/* An output of a node. */
typedef struct ref {
    uint32_t node, tensor;
} ref;

typedef enum node_state { NODE_NEW, NODE_OPEN, NODE_DONE } node_state;

typedef struct node {
    uint32_t layer, number; /* its place among the calls of the layer */
    node_state state;
    uint32_t first, count;  /* what it gave */
} node;

/* One call of a Functional model. */
typedef struct frame {
    plim__keras *k;
    uint32_t model, first, count; /* its layers */
    bool listed;                  /* nodes are lists, as in Keras 2 */
    uint32_t *by_name;            /* layers, sorted by their names */
    uint32_t *node_of;            /* the first node of each layer; one more at the end */
    node *node; uint32_t n_nodes;
    results made;
    ref *ref; uint32_t n_refs, cap_refs; /* of the node that was read last */
    bool at_rest;                        /* that node is called with training=False */
    uint32_t *stack; uint32_t n_stack, cap_stack;
} frame;

static void frame_free(frame *f)
{
    const plim__alloc *a = &f->k->alloc;
    plim__free(a, f->by_name);
    plim__free(a, f->node_of);
    plim__free(a, f->node);
    plim__free(a, f->made.t);
    plim__free(a, f->ref);
    plim__free(a, f->stack);
}

static int compare_names(const void *a, const void *b, void *ctx)
{
    const frame *f = ctx;
    return strcmp(f->k->layer[*(const uint32_t *)a].name, f->k->layer[*(const uint32_t *)b].name);
}

static plim_status frame_names(frame *f, plim_error *err)
{
    f->by_name = plim__new(&f->k->alloc, f->count, sizeof *f->by_name, err);
    if (!f->by_name) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < f->count; i++) f->by_name[i] = f->first + i;
    qsort_r(f->by_name, f->count, sizeof *f->by_name, compare_names, f);
    for (uint32_t i = 1; i < f->count; i++)
        if (compare_names(&f->by_name[i - 1], &f->by_name[i], f) == 0)
            return plim__json_fail(err, PLIM_E_FORMAT, &f->k->layer[f->by_name[i]].json, "two layers are named '%.60s'",
                                   f->k->layer[f->by_name[i]].name);
    return PLIM_OK;
}

/* An input layer has one node though it lists none. */
static uint32_t nodes_of(const plim__keras_layer *l, plim__json *list)
{
    const uint32_t n = plim__json_find(list, &l->json, "inbound_nodes") ? plim__json_count(list) : 0;
    return n == 0 && strcmp(l->kind, "InputLayer") == 0 ? 1 : n;
}

static plim_status frame_nodes(frame *f, plim_error *err)
{
    plim__json list, j;
    f->node_of = plim__new(&f->k->alloc, (uint64_t)f->count + 1, sizeof *f->node_of, err);
    if (!f->node_of) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < f->count; i++) {
        const uint32_t n = nodes_of(&f->k->layer[f->first + i], &list);
        PLIM_FAIL_IF(n > PLIM__KERAS_CALLS || f->node_of[i] > PLIM__KERAS_CALLS, err, PLIM_E_UNSUPPORTED, "'%.80s': more than %d calls of layers",
                     f->k->path, PLIM__KERAS_CALLS);
        f->node_of[i + 1] = f->node_of[i] + n;
    }
    f->n_nodes = f->node_of[f->count];
    f->node = plim__new(&f->k->alloc, f->n_nodes, sizeof *f->node, err);
    if (!f->node) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < f->count; i++) {
        for (uint32_t n = f->node_of[i]; n < f->node_of[i + 1]; n++) f->node[n] = (node){.layer = f->first + i, .number = n - f->node_of[i]};
        if (plim__json_find(&list, &f->k->layer[f->first + i].json, "inbound_nodes") && plim__json_count(&list) > 0) {
            PLIM_TRY(plim__json_at(&j, &list, 0, err));
            f->listed = f->listed || plim__json_kind_of(&j) == PLIM__JSON_ARRAY;
        }
    }
    return PLIM_OK;
}

/* ---- what a node reads */

static uint32_t find_layer(const frame *f, const char *name)
{
    uint32_t lo = 0, hi = f->count;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        const int order = strcmp(f->k->layer[f->by_name[mid]].name, name);
        if (order == 0) return f->by_name[mid];
        if (order < 0) lo = mid + 1;
        else hi = mid;
    }
    return PLIM__NONE;
}

/* Keras counts the node that a model was made with, though no file lists it: Keras 2 for every nested model, Keras 3 for a Functional one where
 * it names outputs. */
static int64_t first_number(const frame *f, const plim__keras_layer *l, bool outputs)
{
    return l->is_model && (f->listed || (outputs && !l->is_sequential));
}

/* [name, node, tensor] */
static plim_status ref_add(frame *f, const plim__json *j, bool outputs, plim_error *err)
{
    plim__json e;
    const char *name;
    int64_t number, tensor;
    PLIM_TRY(plim__json_at(&e, j, 0, err));
    PLIM_TRY(plim__json_string(&name, &e, err));
    PLIM_TRY(plim__json_at(&e, j, 1, err));
    PLIM_TRY(plim__json_integer(&number, &e, err));
    PLIM_TRY(plim__json_at(&e, j, 2, err));
    PLIM_TRY(plim__json_integer(&tensor, &e, err));
    const uint32_t layer = find_layer(f, name);
    if (layer == PLIM__NONE) return plim__json_fail(err, PLIM_E_FORMAT, j, "there is no layer '%.60s'", name);
    const uint32_t at = f->node_of[layer - f->first], n = f->node_of[layer - f->first + 1] - at;
    if (number > 0) number -= first_number(f, &f->k->layer[layer], outputs);
    if (f->k->layer[layer].is_model && n == 1) number = 0;
    if (number < 0 || number >= n || tensor < 0 || tensor > INT32_MAX)
        return plim__json_fail(err, PLIM_E_FORMAT, j, "layer '%.60s' has no node %lld with a tensor %lld", name, (long long)number,
                               (long long)tensor);
    PLIM_TRY(plim__grow(&f->k->alloc, (void **)&f->ref, &f->cap_refs, f->n_refs + 1, sizeof *f->ref, err));
    f->ref[f->n_refs++] = (ref){.node = at + (uint32_t)number, .tensor = (uint32_t)tensor};
    return PLIM_OK;
}

static bool is_leaf(const plim__json *j)
{
    plim__json e;
    const uint32_t n = plim__json_count(j);
    return plim__json_kind_of(j) == PLIM__JSON_ARRAY && (n == 3 || n == 4) && plim__json_at(&e, j, 0, NULL) == PLIM_OK &&
           plim__json_kind_of(&e) == PLIM__JSON_STRING;
}

/* The tensors in a structure of lists and objects, in order. */
static plim_status refs_collect(frame *f, const plim__json *j, bool outputs, uint32_t depth, plim_error *err)
{
    plim__json e, config;
    void *iter = NULL;
    const char *key;
    if (depth > 8) return plim__json_fail(err, PLIM_E_UNSUPPORTED, j, "tensors are nested more than 8 deep");
    if (is_leaf(j)) return ref_add(f, j, outputs, err);
    switch (plim__json_kind_of(j)) {
    case PLIM__JSON_NULL: return PLIM_OK;
    case PLIM__JSON_ARRAY:
        for (uint32_t i = 0; i < plim__json_count(j); i++) {
            PLIM_TRY(plim__json_at(&e, j, i, err));
            PLIM_TRY(refs_collect(f, &e, outputs, depth + 1, err));
        }
        return PLIM_OK;
    case PLIM__JSON_OBJECT:
        if (plim__json_find(&config, j, "config") && plim__json_find(&e, &config, "keras_history")) return ref_add(f, &e, outputs, err);
        if (plim__json_find(&config, j, "class_name")) break;
        while (plim__json_each(j, &iter, &key, &e)) PLIM_TRY(refs_collect(f, &e, outputs, depth + 1, err));
        return PLIM_OK;
    default: break;
    }
    return plim__json_fail(err, PLIM_E_UNSUPPORTED, j, "a layer is called with something that is not a tensor");
}

/* Tensors may be given by name, in the order in which a layer takes them. Anything else that is in use would change what the layer does. */
static plim_status refs_by_name(frame *f, const plim__json *kwargs, plim_error *err)
{
    static const char *const order[] = {"inputs", "query", "value", "key"};
    void *iter = NULL;
    const char *key;
    plim__json value;
    for (size_t i = 0; i < sizeof order / sizeof *order; i++)
        if (plim__json_find(&value, kwargs, order[i])) PLIM_TRY(refs_collect(f, &value, false, 0, err));
    f->at_rest = plim__json_find(&value, kwargs, "training") && plim__json_is_empty(&value);
    if (plim__json_kind_of(kwargs) != PLIM__JSON_OBJECT) return PLIM_OK;
    while (plim__json_each(kwargs, &iter, &key, &value)) {
        bool known = plim__json_is_empty(&value);
        for (size_t i = 0; i < sizeof order / sizeof *order; i++) known = known || strcmp(key, order[i]) == 0;
        if (!known) return plim__json_fail(err, PLIM_E_UNSUPPORTED, &value, "a layer is called with this argument, which is not supported");
    }
    return PLIM_OK;
}

static plim_status refs_read(frame *f, uint32_t id, plim_error *err)
{
    const plim__keras_layer *l = &f->k->layer[f->node[id].layer];
    plim__json list, j, part;
    f->n_refs = 0;
    f->at_rest = false;
    if (!plim__json_find(&list, &l->json, "inbound_nodes") || plim__json_count(&list) == 0)
        return plim__json_fail(err, PLIM_E_FORMAT, &l->json, "input layer '%.60s' is not among the model's inputs", l->name);
    PLIM_TRY(plim__json_at(&j, &list, f->node[id].number, err));
    if (plim__json_kind_of(&j) == PLIM__JSON_OBJECT) {
        PLIM_TRY(plim__json_get(&part, &j, "args", err));
        PLIM_TRY(refs_collect(f, &part, false, 0, err));
        return plim__json_find(&part, &j, "kwargs") ? refs_by_name(f, &part, err) : PLIM_OK;
    }
    PLIM_TRY(refs_collect(f, &j, false, 0, err));
    if (plim__json_count(&j) == 0) return PLIM_OK;
    if (!is_leaf(&j)) { /* the arguments stand in the first tensor */
        PLIM_TRY(plim__json_at(&part, &j, 0, err));
        j = part;
    }
    return plim__json_count(&j) == 4 && plim__json_at(&part, &j, 3, err) == PLIM_OK ? refs_by_name(f, &part, err) : PLIM_OK;
}

/* ---- evaluating */

static plim_status refs_to_tensors(frame *f, const plim__json *where, results *in, plim_error *err)
{
    for (uint32_t i = 0; i < f->n_refs; i++) {
        const node *n = &f->node[f->ref[i].node];
        if (f->ref[i].tensor >= n->count)
            return plim__json_fail(err, PLIM_E_FORMAT, where, "layer '%.60s' gives %u tensors, and number %u is wanted", f->k->layer[n->layer].name,
                                   n->count, f->ref[i].tensor);
        PLIM_TRY(results_add(f->k, in, f->made.t[n->first + f->ref[i].tensor], err));
    }
    return PLIM_OK;
}

static plim_status node_evaluate(frame *f, uint32_t id, plim_error *err)
{
    results in = {0};
    plim_status status;
    const uint32_t layer = f->node[id].layer, first = f->made.n;
    const bool training = f->k->training;
    PLIM_TRY_DONE(refs_to_tensors(f, &f->k->layer[layer].json, &in, err));
    f->k->training = training && !f->at_rest;
    PLIM_TRY_DONE(any_call(f->k, layer, in.t, in.n, &f->made, err));
    f->node[id].first = first;
    f->node[id].count = f->made.n - first;
    f->node[id].state = NODE_DONE;
done:
    f->k->training = training;
    plim__free(&f->k->alloc, in.t);
    return status;
}

static plim_status stack_push(frame *f, uint32_t id, plim_error *err)
{
    PLIM_TRY(plim__grow(&f->k->alloc, (void **)&f->stack, &f->cap_stack, f->n_stack + 1, sizeof *f->stack, err));
    f->stack[f->n_stack++] = id;
    return PLIM_OK;
}

/* Open nodes are those on the way from the first to the one on top: what waits for one of them waits for itself. */
static plim_status node_visit(frame *f, uint32_t id, plim_error *err)
{
    PLIM_TRY(stack_push(f, id, err));
    while (f->n_stack > 0) {
        const uint32_t top = f->stack[f->n_stack - 1], below = f->n_stack;
        if (f->node[top].state != NODE_DONE) {
            PLIM_TRY(refs_read(f, top, err));
            f->node[top].state = NODE_OPEN;
            for (uint32_t i = 0; i < f->n_refs; i++) {
                const node *n = &f->node[f->ref[i].node];
                if (n->state == NODE_OPEN)
                    return plim__json_fail(err, PLIM_E_FORMAT, &f->k->layer[n->layer].json, "layer '%.60s' waits for its own output",
                                           f->k->layer[n->layer].name);
                if (n->state == NODE_NEW) PLIM_TRY(stack_push(f, f->ref[i].node, err));
            }
            if (f->n_stack > below) continue;
            PLIM_TRY(node_evaluate(f, top, err));
        }
        f->n_stack--;
    }
    return PLIM_OK;
}

/* Gives the input layers their tensors. @param in  NULL: the whole model, whose inputs are made here */
static plim_status inputs_place(frame *f, const plim__keras_tensor *in, uint32_t n_in, plim_error *err)
{
    plim__json list;
    PLIM_TRY(plim__json_get(&list, &f->k->layer[f->model].config, "input_layers", err));
    PLIM_TRY(refs_collect(f, &list, false, 0, err));
    if (f->n_refs == 0 || (in && f->n_refs != n_in))
        return plim__json_fail(err, PLIM_E_FORMAT, &list, "the model has %u inputs and is called with %u", f->n_refs, n_in);
    for (uint32_t i = 0; i < f->n_refs; i++) {
        node *n = &f->node[f->ref[i].node];
        const plim__keras_layer *l = &f->k->layer[n->layer];
        if (strcmp(l->kind, "InputLayer") != 0 || n->state != NODE_NEW)
            return plim__json_fail(err, PLIM_E_FORMAT, &list, "'%.60s' is not an input layer, or is named twice", l->name);
        plim__keras_tensor t;
        input_spec spec = {0};
        if (in) {
            t = in[i];
        } else {
            PLIM_TRY(input_of_layer(l, &spec, err));
            PLIM_TRY(input_make(f->k, &spec, &t, err));
        }
        n->state = NODE_DONE;
        n->first = f->made.n;
        n->count = 1;
        PLIM_TRY(results_add(f->k, &f->made, t, err));
    }
    return PLIM_OK;
}

static plim_status functional_call(plim__keras *k, uint32_t model, const plim__keras_tensor *in, uint32_t n_in, results *out, plim_error *err)
{
    const plim__keras_layer *m = &k->layer[model];
    frame f = {.k = k, .model = model, .first = m->first, .count = m->count};
    plim__json list;
    plim_status status;
    PLIM_TRY_DONE(frame_names(&f, err));
    PLIM_TRY_DONE(frame_nodes(&f, err));
    PLIM_TRY_DONE(inputs_place(&f, in, n_in, err));
    for (uint32_t i = 0; i < f.n_nodes; i++)
        if (f.node[i].state == NODE_NEW) PLIM_TRY_DONE(node_visit(&f, i, err));
    f.n_refs = 0;
    PLIM_TRY_DONE(plim__json_get(&list, &m->config, "output_layers", err));
    PLIM_TRY_DONE(refs_collect(&f, &list, true, 0, err));
    if (f.n_refs == 0) PLIM_TRY_DONE(plim__json_fail(err, PLIM_E_FORMAT, &list, "the model has no outputs"));
    PLIM_TRY_DONE(refs_to_tensors(&f, &list, out, err));
done:
    frame_free(&f);
    return status;
}

static plim_status model_call(plim__keras *k, uint32_t model, const plim__keras_tensor *in, uint32_t n_in, results *out, plim_error *err)
{
    return k->layer[model].is_sequential ? sequential_call(k, model, in, n_in, out, err) : functional_call(k, model, in, n_in, out, err);
}

/* ------------------------------------------------------------------------------------------------------ the whole model */

/* The layer that gives output i. */
static const char *output_layer(const plim__keras *k, uint32_t i)
{
    const plim__keras_layer *m = &k->layer[0];
    plim__json list, j;
    const char *name = "output";
    if (!plim__json_find(&list, &m->config, "output_layers")) return k->layer[m->first + m->count - 1].name;
    if (!is_leaf(&list) && plim__json_at(&j, &list, i, NULL) == PLIM_OK) list = j;
    if (is_leaf(&list) && plim__json_at(&j, &list, 0, NULL) == PLIM_OK && plim__json_string(&name, &j, NULL) != PLIM_OK) name = "output";
    return name;
}

static void output_name(const plim__keras *k, uint32_t i, char name[PLIM__MODEL_NAME])
{
    const char *layer = output_layer(k, i);
    snprintf(name, PLIM__MODEL_NAME, "%.80s", layer);
    for (uint32_t n = 0; n < k->model->n_outputs; n++)
        if (strcmp(k->model->output[n].name, name) == 0) snprintf(name, PLIM__MODEL_NAME, "%.70s_%u", layer, i);
}

plim_status plim__keras_graph(plim__keras *k, const plim__json *root, plim_error *err)
{
    results out = {0};
    plim_status status;
    PLIM_TRY(layer_add(k, root, PLIM__NONE, err));
    if (!k->layer[0].is_model)
        return plim__json_fail(err, PLIM_E_FORMAT, root, "'%.60s' is not a Sequential or Functional model: its layers are not in the file",
                               k->layer[0].kind);
    snprintf(k->model->name, sizeof k->model->name, "%s", k->layer[0].name);
    PLIM_TRY(layers_read(k, 0, 0, err));
    PLIM_TRY_DONE(model_call(k, 0, NULL, 0, &out, err));
    for (uint32_t i = 0; i < out.n; i++) {
        char name[PLIM__MODEL_NAME];
        uint32_t v;
        plim__keras_call c = {.k = k, .err = err};
        PLIM_TRY_DONE(plim__keras_plain(&c, out.t[i], &v));
        output_name(k, i, name);
        PLIM_TRY_DONE(plim__model_output(k->model, name, v, 0, err));
    }
done:
    plim__free(&k->alloc, out.t);
    return status;
}
