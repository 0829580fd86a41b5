/* ONNX models: the import itself. See onnx.h for the parts.
 *
 * The nodes that the outputs need are lowered in the file's order, or, where that is not a topological order, as they become ready. A name
 * stands for a slot. An initializer enters the graph when a node first uses it: floats with a dimension as parameters that stay in their file,
 * the rest as constants. What is computed from constants and from shapes is known while reading (onnx_fold.c), so that shapes are numbers when
 * the graph is built. */
#include "core/dtype.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "models/onnx.h"

#include <stdio.h>
#include <string.h>

#define OPSET_LEAST 1
#define OPSET_FULL 7 /* before, only operators that have not changed since */
#define OPSET_MOST 21

/* For messages: a name as it may be printed. */
typedef struct shown {
    char text[72];
} shown;

static shown show(const char *name)
{
    shown s;
    plim__array_quote(s.text, sizeof s.text, (const uint8_t *)name, strlen(name));
    return s;
}

static const char *label(const plim__onnx_node *n) { return n->name[0] || n->n_out == 0 ? n->name : n->out[0]; }

#define FAIL(x, code, ...) plim__array_fail(err, code, (x)->wire->path, 0, __VA_ARGS__)

/* --------------------------------------------------------------------------------------------------------- names */

static uint64_t hash(const char *name)
{
    uint64_t h = 0xcbf29ce484222325u; /* FNV-1a */
    for (; *name; name++) h = (h ^ (uint8_t)*name) * 0x100000001b3u;
    return h;
}

/* Where the name's slot is in the table, or where it would go. */
static uint32_t *place_of(const plim__onnx *x, const char *name)
{
    uint32_t i = (uint32_t)hash(name) & (x->table_cap - 1);
    while (x->table[i] != PLIM__NONE && strcmp(x->slot[x->table[i]].name, name) != 0) i = (i + 1) & (x->table_cap - 1);
    return &x->table[i];
}

static plim__onnx_slot *find(const plim__onnx *x, const char *name)
{
    const uint32_t at = *place_of(x, name);
    return at == PLIM__NONE ? NULL : &x->slot[at];
}

static plim__onnx_slot *add(plim__onnx *x, const char *name)
{
    *place_of(x, name) = x->n_slots;
    plim__onnx_slot *s = &x->slot[x->n_slots++];
    *s = (plim__onnx_slot){.name = name, .value = PLIM__NONE, .maker = PLIM__NONE};
    return s;
}

static plim_status add_initializer(plim__onnx *x, const plim__onnx_tensor *t, plim_error *err)
{
    if (find(x, t->name)) return FAIL(x, PLIM_E_FORMAT, "initializer '%s' is there twice", show(t->name).text);
    plim__onnx_slot *s = add(x, t->name);
    s->tensor = t;
    plim_dtype dtype;
    s->param = plim__onnx_dtype(t->type, &dtype, NULL) == PLIM_OK && plim__dtype_is_float(dtype) && t->dims > 0;
    return PLIM_OK;
}

static plim_status add_outputs(plim__onnx *x, uint32_t i, plim_error *err)
{
    const plim__onnx_node *n = &x->file.node[i];
    for (uint32_t j = 0; j < n->n_out; j++) {
        if (n->out[j][0] == 0) continue;
        if (find(x, n->out[j]))
            return FAIL(x, PLIM_E_FORMAT, "node '%s' (%s): output '%s' is there already", show(label(n)).text, show(n->op).text,
                        show(n->out[j]).text);
        add(x, n->out[j])->maker = i;
    }
    return PLIM_OK;
}

static plim_status add_names(plim__onnx *x, plim_error *err)
{
    const plim__onnx_file *f = &x->file;
    uint64_t n = (uint64_t)f->n_inits + f->n_inputs;
    for (uint32_t i = 0; i < f->n_nodes; i++) n += f->node[i].n_out;
    if (n >= 1u << 29) return FAIL(x, PLIM_E_UNSUPPORTED, "more than 2^29 names");
    for (x->table_cap = 64; x->table_cap < 2 * n;) x->table_cap *= 2;
    x->slot = plim__onnx_new(&x->arena, n, sizeof *x->slot, err);
    x->table = plim__onnx_new(&x->arena, x->table_cap, sizeof *x->table, err);
    if (!x->slot || !x->table) return PLIM_E_NOMEM;
    memset(x->table, 0xff, x->table_cap * sizeof *x->table);
    for (uint32_t i = 0; i < f->n_inits; i++) PLIM_TRY(add_initializer(x, &f->init[i], err));
    for (uint32_t i = 0; i < f->n_inputs; i++) { /* an initializer that is an input as well is its default, and always taken */
        plim__onnx_slot *s = find(x, f->input[i].name);
        if (s && s->input) return FAIL(x, PLIM_E_FORMAT, "input '%s' is there twice", show(f->input[i].name).text);
        if (!s) add(x, f->input[i].name)->input = true;
    }
    for (uint32_t i = 0; i < f->n_nodes; i++) PLIM_TRY(add_outputs(x, i, err));
    return PLIM_OK;
}

/* ---------------------------------------------------------------------------------------------- values of the graph */

static plim_status add_param(plim__onnx *x, plim__onnx_slot *slot, bool trainable, plim_error *err)
{
    plim__source source;
    plim_dtype dtype;
    plim__param param = {.trainable = trainable, .init = PLIM__INIT_FILE};
    PLIM_TRY(plim__onnx_source(x, slot->tensor, &source, err));
    PLIM_TRY(plim__onnx_dtype(slot->tensor->type, &dtype, err));
    snprintf(param.name, sizeof param.name, "%s", slot->name);
    return plim__model_param(x->model, &param, dtype, &slot->tensor->shape, &source, &slot->value, err);
}

static plim_status size_of(const plim__onnx_tensor *t, plim_dtype *dtype, uint64_t *bytes, plim_error *err)
{
    PLIM_TRY(plim__onnx_dtype(t->type, dtype, err));
    return plim_shape_bytes(bytes, &t->shape, *dtype, err);
}

plim_status plim__onnx_known(plim__onnx *x, plim__onnx_slot *slot, const plim__onnx_host **out, plim_error *err)
{
    plim_dtype dtype;
    uint64_t bytes;
    *out = NULL;
    if (slot->param || slot->apart) return PLIM_OK;
    if (!slot->host && slot->tensor) {
        PLIM_TRY(size_of(slot->tensor, &dtype, &bytes, err));
        if (bytes <= PLIM__ONNX_FOLD_BYTES) PLIM_TRY(plim__onnx_load(x, slot->tensor, &slot->host, err));
    }
    *out = slot->host;
    return PLIM_OK;
}

/* Half floats that protobuf packed as integers are no array in the file; nor are large packed integers. */
static bool must_load(const plim__onnx_tensor *t) { return !t->external && (t->field == 5 || t->field == 7 || t->field == 11); }

plim_status plim__onnx_materialise(plim__onnx *x, plim__onnx_slot *slot, bool trainable, uint32_t *v, plim_error *err)
{
    plim_dtype dtype;
    uint64_t bytes;
    if (slot->value == PLIM__NONE && slot->tensor) {
        PLIM_TRY(size_of(slot->tensor, &dtype, &bytes, err));
        if (must_load(slot->tensor) && bytes <= PLIM__ONNX_ASK_BYTES) PLIM_TRY(plim__onnx_load(x, slot->tensor, &slot->host, err));
        else if (slot->param || bytes > PLIM__ONNX_FOLD_BYTES) PLIM_TRY(add_param(x, slot, trainable && slot->param, err));
        else PLIM_TRY(plim__onnx_load(x, slot->tensor, &slot->host, err));
    }
    if (slot->value == PLIM__NONE && slot->host)
        PLIM_TRY(plim__graph_const(x->model->graph, slot->host->dtype, &slot->host->shape, slot->host->data, &slot->value, err));
    if (slot->value == PLIM__NONE && slot->maker != PLIM__NONE) {
        const plim__onnx_node *n = &x->file.node[slot->maker];
        return plim__fail(err, PLIM_E_UNSUPPORTED, "input '%s' is an output of node '%s' (%s) that is not supported", show(slot->name).text,
                          show(label(n)).text, show(n->op).text);
    }
    PLIM_FAIL_IF(slot->value == PLIM__NONE, err, PLIM_E_FORMAT, "input '%s' has no value", show(slot->name).text);
    *v = slot->value;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ one node */

static plim_status gather_inputs(plim__onnx *x, plim__onnx_call *c, bool *known, plim_error *err)
{
    uint64_t total = 0;
    c->n_in = c->node->n_in;
    c->in = plim__onnx_new(&x->arena, c->n_in, sizeof *c->in, err);
    if (!c->in) return PLIM_E_NOMEM;
    *known = c->n_in > 0;
    for (uint32_t k = 0; k < c->n_in; k++) {
        const plim__onnx_host *host;
        if (c->node->in[k][0] == 0) continue;
        c->in[k] = find(x, c->node->in[k]);
        if (!*known) continue;
        PLIM_TRY(plim__onnx_known(x, c->in[k], &host, err));
        *known = host != NULL;
        if (host) total += host->count * plim_dtype_bytes(host->dtype);
    }
    *known = *known && total <= PLIM__ONNX_FOLD_BYTES;
    return PLIM_OK;
}

static plim_status check_call(const plim__onnx_call *c, const plim__onnx_op *op, plim_error *err)
{
    PLIM_FAIL_IF(c->n_in > op->most, err, PLIM_E_FORMAT, "%u inputs, at most %u are allowed", c->n_in, op->most);
    PLIM_FAIL_IF(c->node->n_out == 0 || c->node->n_out > PLIM__ONNX_OUTS, err, PLIM_E_UNSUPPORTED, "%u outputs", c->node->n_out);
    for (uint32_t k = 0; k < op->least; k++) PLIM_FAIL_IF(!plim__onnx_has(c, k), err, PLIM_E_FORMAT, "input %u is missing", k);
    for (uint32_t i = 0; i < c->node->n_attr; i++) PLIM_TRY(plim__onnx_check_attr(op, &c->node->attr[i], err));
    return PLIM_OK;
}

/* Lowers into a graph of its own and computes that. @param done  false: too large, nothing has happened */
static plim_status fold(plim__onnx_call *c, const plim__onnx_op *op, bool *done, plim_error *err)
{
    plim_graph *main = c->g, *scratch;
    plim_status status = PLIM_OK;
    *done = false;
    PLIM_TRY(plim__graph_new(&scratch, c->x->arena.alloc, err));
    c->g = scratch;
    c->folding = true;
    PLIM_TRY_DONE(op->lower(c, err));
    uint64_t largest = 0;
    for (uint32_t v = 0; v < scratch->n_values; v++) largest = scratch->value[v].bytes > largest ? scratch->value[v].bytes : largest;
    *done = largest <= PLIM__ONNX_FOLD_BYTES;
    if (*done) PLIM_TRY_DONE(plim__onnx_evaluate(c->x, scratch, c->out, c->node->n_out, c->host, err));
done:
    plim__graph_free(&scratch);
    c->g = main;
    c->folding = false;
    for (uint32_t j = 0; j < PLIM__ONNX_OUTS; j++) c->out[j] = PLIM__NONE;
    return status;
}

static plim_status lower_as_layer(plim__onnx_call *c, const plim__onnx_op *op, plim_error *err)
{
    plim__model *m = c->x->model;
    const uint32_t before = m->graph->n_nodes;
    bool host_only = true;
    PLIM_TRY(plim__model_layer(m, label(c->node), c->node->op, err));
    PLIM_TRY(op->lower(c, err));
    for (uint32_t j = 0; j < c->node->n_out; j++) host_only = host_only && c->out[j] == PLIM__NONE;
    if (host_only && m->graph->n_nodes == before) { /* it was known while reading: no layer */
        m->n_layers--;
        m->graph->tag = m->n_layers - 1;
    }
    return PLIM_OK;
}

static plim_status lower_call(plim__onnx *x, plim__onnx_call *c, plim_error *err)
{
    const plim__onnx_node *n = c->node;
    bool known, done = false;
    PLIM_FAIL_IF(n->domain[0] && strcmp(n->domain, "ai.onnx") != 0, err, PLIM_E_UNSUPPORTED, "operators of domain '%s' are not supported",
                 show(n->domain).text);
    const plim__onnx_op *op = plim__onnx_op_of(n->op);
    PLIM_FAIL_IF(!op, err, PLIM_E_UNSUPPORTED, "this operator is not supported");
    PLIM_FAIL_IF(x->file.opset < OPSET_FULL && !plim__onnx_unchanged_since(n->op, x->file.opset), err, PLIM_E_UNSUPPORTED,
                 "this operator as operator set %lld has it; %d to %d are supported", (long long)x->file.opset, OPSET_FULL, OPSET_MOST);
    PLIM_TRY(gather_inputs(x, c, &known, err));
    PLIM_TRY(check_call(c, op, err));
    c->arg = op->arg;
    for (uint32_t j = 0; j < PLIM__ONNX_OUTS; j++) c->out[j] = PLIM__NONE;
    if (known && !op->here) PLIM_TRY(fold(c, op, &done, err));
    if (!done) PLIM_TRY(lower_as_layer(c, op, err));
    for (uint32_t j = 0; j < n->n_out; j++) {
        if (n->out[j][0] == 0) continue;
        plim__onnx_slot *s = find(x, n->out[j]);
        s->value = c->out[j];
        s->host = c->host[j];
    }
    return PLIM_OK;
}

static plim_status lower(plim__onnx *x, uint32_t i, plim_error *err)
{
    plim_error inner = {0};
    plim__onnx_call c = {.x = x, .node = &x->file.node[i], .index = i, .g = x->model->graph};
    const plim_status status = lower_call(x, &c, &inner);
    if (status == PLIM_OK) return PLIM_OK;
    if (inner.where[0]) { /* it names the file already */
        if (err) *err = inner;
        return status;
    }
    return FAIL(x, status, "node '%s' (%s): %s", show(label(c.node)).text, show(c.node->op).text, inner.message);
}

/* ------------------------------------------------------------------------------------------------ which, in what order */

typedef struct walk {
    uint32_t *node, *next; /* a stack: the node, and the input of it that comes next */
    uint32_t depth;
    uint8_t *state;        /* 0 not needed, 1 needed, 2 begun, 3 done */
} walk;

/* The node that makes input k of node i; PLIM__NONE: none has to. */
static plim_status maker(const plim__onnx *x, uint32_t i, uint32_t k, uint32_t *out, plim_error *err)
{
    const plim__onnx_node *n = &x->file.node[i];
    *out = PLIM__NONE;
    if (n->in[k][0] == 0) return PLIM_OK;
    const plim__onnx_slot *s = find(x, n->in[k]);
    if (!s)
        return FAIL(x, PLIM_E_FORMAT, "node '%s' (%s): input '%s' is no node's output, no input of the graph and no initializer", show(label(n)).text,
                    show(n->op).text, show(n->in[k]).text);
    *out = s->maker;
    return PLIM_OK;
}

static void push_node(walk *w, uint32_t i, uint8_t state)
{
    w->state[i] = state;
    w->node[w->depth] = i;
    w->next[w->depth++] = 0;
}

/* Marks what node i needs, itself included. */
static plim_status mark(const plim__onnx *x, walk *w, uint32_t i, plim_error *err)
{
    if (w->state[i] == 0) push_node(w, i, 1);
    while (w->depth > 0) {
        const uint32_t at = w->node[w->depth - 1], k = w->next[w->depth - 1]++;
        uint32_t from;
        if (k >= x->file.node[at].n_in) {
            w->depth--;
            continue;
        }
        PLIM_TRY(maker(x, at, k, &from, err));
        if (from != PLIM__NONE && w->state[from] == 0) push_node(w, from, 1);
    }
    return PLIM_OK;
}

/* Lowers node i after what it needs. */
static plim_status visit(plim__onnx *x, walk *w, uint32_t i, plim_error *err)
{
    if (w->state[i] == 1) push_node(w, i, 2);
    while (w->depth > 0) {
        const uint32_t at = w->node[w->depth - 1], k = w->next[w->depth - 1]++;
        uint32_t from;
        if (k >= x->file.node[at].n_in) {
            PLIM_TRY(lower(x, at, err));
            w->state[at] = 3;
            w->depth--;
            continue;
        }
        PLIM_TRY(maker(x, at, k, &from, err));
        if (from == PLIM__NONE || w->state[from] == 3) continue;
        if (w->state[from] == 2)
            return FAIL(x, PLIM_E_FORMAT, "a cycle: node '%s' (%s) needs '%s', which needs that node", show(label(&x->file.node[at])).text,
                        show(x->file.node[at].op).text, show(x->file.node[at].in[k]).text);
        push_node(w, from, 2);
    }
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------ dimensions */

static int64_t bound(const plim__onnx *x, const char *name)
{
    for (uint32_t i = 0; i < x->options->n_dims; i++)
        if (!strcmp(x->options->dim[i].name, name)) return x->options->dim[i].value;
    return 0;
}

/* What the user says of dimension d of an input: by its name, or as "input:d". 0: nothing. */
static int64_t bound_dim(const plim__onnx *x, const plim__onnx_info *in, uint32_t d)
{
    char place[512];
    if (in->dim[d].param && in->dim[d].param[0] && bound(x, in->dim[d].param) > 0) return bound(x, in->dim[d].param);
    snprintf(place, sizeof place, "%s:%u", in->name, d);
    return bound(x, place);
}

/* The first dimension counts samples where it is not fixed, or fixed at 1; elsewhere it is taken as it stands. */
static int64_t batch_of(plim__onnx *x, const plim__onnx_info *in, bool *samples)
{
    const int64_t fixed = in->dim[0].value, said = bound_dim(x, in, 0), batch = x->options->batch;
    *samples = true;
    if (said > 0) return said;
    if (fixed <= 0) return batch > 0 ? batch : 1;
    if (fixed == 1 && batch > 0) {
        x->batch_replaced = batch != 1;
        return batch;
    }
    *samples = batch <= 0 || batch == fixed;
    return fixed;
}

/* Dimensions with one name are one dimension: `in`'s at d gives those that have no value yet theirs. */
static void spread(plim__onnx *x, const char *param, int64_t value)
{
    for (uint32_t i = 0; i < x->file.n_inputs && param && param[0]; i++) {
        plim__onnx_info *in = &x->file.input[i];
        for (uint32_t d = 0; d < in->rank && d < PLIM_MAX_RANK; d++)
            if (in->dim[d].value <= 0 && in->dim[d].param && !strcmp(in->dim[d].param, param)) in->dim[d].value = value;
    }
}

static plim_status check_bindings(const plim__onnx *x, plim_error *err)
{
    for (uint32_t b = 0; b < x->options->n_dims; b++) {
        const plim__dim_binding *dim = &x->options->dim[b];
        bool found = false;
        if (dim->value <= 0) return FAIL(x, PLIM_E_INVALID, "dimension '%.60s' is to have the size %lld", dim->name, (long long)dim->value);
        for (uint32_t i = 0; i < x->file.n_inputs && !found; i++) {
            const plim__onnx_info *in = &x->file.input[i];
            for (uint32_t d = 0; d < in->rank && d < PLIM_MAX_RANK && !found; d++) {
                char place[512];
                snprintf(place, sizeof place, "%s:%u", in->name, d);
                found = !strcmp(place, dim->name) || (in->dim[d].param && !strcmp(in->dim[d].param, dim->name));
            }
        }
        if (!found) return FAIL(x, PLIM_E_INVALID, "no input has a dimension '%.60s'", dim->name);
    }
    return PLIM_OK;
}

static plim_status shape_of(plim__onnx *x, const plim__onnx_info *in, plim_shape *s, plim_error *err)
{
    *s = (plim_shape){.rank = in->rank};
    for (uint32_t d = 0; d < in->rank; d++) {
        const plim__onnx_dim *dim = &in->dim[d];
        const int64_t said = d ? bound_dim(x, in, d) : 0;
        s->dim[d] = said > 0 ? said : dim->value;
        if (s->dim[d] > 0) continue;
        if (dim->param && dim->param[0])
            return FAIL(x, PLIM_E_INVALID, "input '%s': dimension %u ('%s') has no size; give it with --dim %s=SIZE", show(in->name).text, d,
                        show(dim->param).text, show(dim->param).text);
        return FAIL(x, PLIM_E_INVALID, "input '%s': dimension %u has no size; give it with --dim %s:%u=SIZE", show(in->name).text, d,
                    show(in->name).text, d);
    }
    return PLIM_OK;
}

/* Does anything that is needed read it? */
static bool is_read(const plim__onnx *x, const walk *w, const char *name)
{
    for (uint32_t i = 0; i < x->file.n_nodes; i++)
        for (uint32_t k = 0; w->state[i] && k < x->file.node[i].n_in; k++)
            if (!strcmp(x->file.node[i].in[k], name)) return true;
    for (uint32_t i = 0; i < x->file.n_outputs; i++)
        if (!strcmp(x->file.output[i].name, name)) return true;
    return false;
}

static plim_status add_input(plim__onnx *x, const plim__onnx_info *in, bool samples, plim_error *err)
{
    plim_dtype dtype;
    plim_shape shape;
    plim_error inner = {0};
    if (in->type == 0) return FAIL(x, PLIM_E_UNSUPPORTED, "input '%s' is not a tensor", show(in->name).text);
    const plim_status status = plim__onnx_dtype(in->type, &dtype, &inner);
    if (status != PLIM_OK) return FAIL(x, status, "input '%s': %s", show(in->name).text, inner.message);
    PLIM_TRY(shape_of(x, in, &shape, err));
    return plim__model_input(x->model, in->name, dtype, &shape, samples && shape.rank > 0 ? 0 : -1, &find(x, in->name)->value, err);
}

/* Are the data what the file says of the input? Their own shape counts: that in the file may be left open, and nothing else is made of it. */
static plim_status check_known(const plim__onnx *x, const plim__onnx_info *in, const plim__known *k, plim_error *err)
{
    plim_dtype dtype;
    plim_error inner = {0};
    const plim_status status = plim__onnx_dtype(in->type, &dtype, &inner);
    if (status != PLIM_OK) return FAIL(x, status, "input '%s': %s", show(in->name).text, inner.message);
    if (dtype != k->dtype)
        return FAIL(x, PLIM_E_TYPE, "input '%s' is of %s; the data are of %s", show(in->name).text, plim_dtype_name(dtype),
                    plim_dtype_name(k->dtype));
    return PLIM_OK;
}

/* The n-th input without an initializer; NULL: there are not so many. */
static const plim__onnx_info *nth_input(const plim__onnx *x, uint32_t n)
{
    for (uint32_t i = 0; i < x->file.n_inputs; i++)
        if (find(x, x->file.input[i].name)->input && n-- == 0) return &x->file.input[i];
    return NULL;
}

/* An input with its data: as an initializer would be, but never a parameter. */
static plim_status add_known(plim__onnx *x, const plim__known *k, plim_error *err)
{
    uint64_t count;
    const plim__onnx_info *in = nth_input(x, k->input);
    if (!in) return FAIL(x, PLIM_E_INVALID, "data for input %u, which is not there", k->input);
    PLIM_TRY(check_known(x, in, k, err));
    PLIM_TRY(plim_shape_count(&count, &k->shape, err));
    plim__onnx_host *h = plim__onnx_new(&x->arena, 1, sizeof *h, err);
    if (!h) return PLIM_E_NOMEM;
    *h = (plim__onnx_host){.dtype = k->dtype, .shape = k->shape, .count = count, .data = (void *)k->data};
    plim__onnx_slot *slot = find(x, in->name);
    slot->host = h;
    slot->apart = !x->options->fold_known;
    for (uint32_t d = 0; d < in->rank && d < k->shape.rank; d++)
        if (in->dim[d].value <= 0) spread(x, in->dim[d].param, k->shape.dim[d]);
    return PLIM_OK;
}

/* The inputs that are read; batch dimensions first, so that their names are known when others are looked at. */
static plim_status add_inputs(plim__onnx *x, const walk *w, plim_error *err)
{
    uint32_t wanted = 0, first = PLIM__NONE;
    bool *samples = plim__onnx_new(&x->arena, 2 * (uint64_t)x->file.n_inputs, sizeof *samples, err), taken = false;
    if (!samples) return PLIM_E_NOMEM;
    bool *read = samples + x->file.n_inputs;
    PLIM_TRY(check_bindings(x, err));
    for (uint32_t i = 0; i < x->options->n_known; i++) PLIM_TRY(add_known(x, &x->options->known[i], err));
    for (uint32_t i = 0; i < x->file.n_inputs; i++) {
        plim__onnx_info *in = &x->file.input[i];
        const plim__onnx_slot *slot = find(x, in->name);
        read[i] = slot->input && !slot->host && is_read(x, w, in->name);
        if (!read[i]) continue;
        if (in->rank > PLIM_MAX_RANK)
            return FAIL(x, PLIM_E_UNSUPPORTED, "input '%s' has %u dimensions; %d are supported", show(in->name).text, in->rank, PLIM_MAX_RANK);
        if (first == PLIM__NONE) first = i;
        wanted++;
        if (in->rank == 0) continue;
        const int64_t batch = batch_of(x, in, &samples[i]);
        if (in->dim[0].value <= 0) spread(x, in->dim[0].param, batch);
        in->dim[0].value = batch;
        samples[i] = samples[i] && (!taken || batch == x->batch);
        if (samples[i]) x->batch = batch;
        taken = taken || samples[i];
    }
    if (x->options->batch > 0 && wanted > 0 && !taken)
        return FAIL(x, PLIM_E_INVALID, "a batch of %lld: input '%s' has a fixed first dimension of %lld", (long long)x->options->batch,
                    show(x->file.input[first].name).text, (long long)x->file.input[first].dim[0].value);
    for (uint32_t i = 0; i < x->file.n_inputs; i++)
        if (read[i]) PLIM_TRY(add_input(x, &x->file.input[i], samples[i], err));
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------- the whole */

static plim_status add_model_outputs(plim__onnx *x, plim_error *err)
{
    for (uint32_t i = 0; i < x->file.n_outputs; i++) {
        plim__onnx_slot *s = find(x, x->file.output[i].name);
        plim_error inner = {0};
        uint32_t v;
        const plim_status status = plim__onnx_materialise(x, s, true, &v, &inner);
        if (status != PLIM_OK) return FAIL(x, status, "output '%s': %s", show(s->name).text, inner.message);
        const plim_shape *shape = &x->model->graph->value[v].shape;
        const bool samples = x->batch > 0 && shape->rank > 0 && shape->dim[0] == x->batch;
        PLIM_TRY(plim__model_output(x->model, s->name, v, samples ? 0 : -1, err));
    }
    return PLIM_OK;
}

static plim_status check_head(plim__onnx *x, plim_error *err)
{
    const plim__onnx_file *f = &x->file;
    if (f->opset == 0 && f->foreign) return FAIL(x, PLIM_E_UNSUPPORTED, "it uses operators of other domains only");
    if (f->opset == 0) return FAIL(x, PLIM_E_FORMAT, "it does not say which version of the operators it uses");
    if (f->opset < OPSET_LEAST || f->opset > OPSET_MOST)
        return FAIL(x, PLIM_E_UNSUPPORTED, "operator set %lld; %d to %d are supported", (long long)f->opset, OPSET_LEAST, OPSET_MOST);
    if (f->n_outputs == 0) return FAIL(x, PLIM_E_FORMAT, "the graph has no output");
    return PLIM_OK;
}

static plim_status build(plim__onnx *x, plim_error *err)
{
    PLIM_TRY(plim__onnx_decode(&x->file, x->wire, &x->arena, err));
    PLIM_TRY(check_head(x, err));
    PLIM_TRY(add_names(x, err));
    const uint64_t n = x->file.n_nodes;
    walk w = {.node = plim__onnx_new(&x->arena, n, sizeof *w.node, err), .next = plim__onnx_new(&x->arena, n, sizeof *w.next, err),
              .state = plim__onnx_new(&x->arena, n, sizeof *w.state, err)};
    if (!w.node || !w.next || !w.state) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < x->file.n_outputs; i++) {
        const plim__onnx_slot *s = find(x, x->file.output[i].name);
        if (!s)
            return FAIL(x, PLIM_E_FORMAT, "output '%s' is no node's output, no input of the graph and no initializer",
                        show(x->file.output[i].name).text);
        if (s->maker != PLIM__NONE) PLIM_TRY(mark(x, &w, s->maker, err));
    }
    PLIM_TRY(add_inputs(x, &w, err));
    for (uint32_t i = 0; i < x->file.n_nodes; i++) PLIM_TRY(visit(x, &w, i, err));
    snprintf(x->model->name, sizeof x->model->name, "%s", x->file.name);
    return add_model_outputs(x, err);
}

static plim_status open_file(plim__onnx *x, const plim__os *os, const char *path, plim_error *err)
{
    int fd;
    PLIM_TRY(plim__file_open(&fd, &x->stat, os, path, err));
    plim__wire_init(x->wire, os, fd, x->stat.size, path, "ModelProto");
    return PLIM_OK;
}

plim_status plim__onnx_read_from(plim__model **out, const plim__os *os, const char *path, const plim__model_options *options, plim__alloc alloc,
                                 plim_error *err)
{
    static const plim__model_options none = {0};
    plim__onnx x = {.arena = {.alloc = alloc}, .options = options ? options : &none};
    plim_status status;
    *out = NULL;
    x.wire = plim__new(&alloc, 1, sizeof *x.wire, err);
    if (!x.wire) return PLIM_E_NOMEM;
    x.wire->fd = -1;
    PLIM_TRY_DONE(open_file(&x, os, path, err));
    PLIM_TRY_DONE(plim__model_new(&x.model, options, alloc, err));
    x.model->form = PLIM__MODEL_ONNX;
    PLIM_TRY_DONE(build(&x, err));
    *out = x.model;
    x.model = NULL;
done:
    plim__model_free(&x.model);
    if (x.wire->fd >= 0) os->close(os->self, x.wire->fd);
    plim__onnx_arena_free(&x.arena);
    plim__free(&alloc, x.wire);
    return status;
}

plim_status plim__onnx_read(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err)
{
    return plim__onnx_read_from(out, &plim__os_linux, path, options, alloc, err);
}
