/* A model is put together by a reader: layers, inputs, parameters and outputs in the order in which the file has them. The graph's tag is the
 * number of the current layer, so that every node knows whose it is. */
#include "models/model.h"
#include "formats/array_file.h"
#include "ops/ops.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

plim_status plim__model_new(plim__model **out, const plim__model_options *options, plim__alloc alloc, plim_error *err)
{
    *out = NULL;
    plim__model *m = plim__new(&alloc, 1, sizeof *m, err);
    if (!m) return PLIM_E_NOMEM;
    m->options = options;
    m->seed = PLIM__NONE;
    plim_status status = plim__graph_new(&m->graph, alloc, err);
    if (status == PLIM_OK) status = plim__model_layer(m, "", "", err);
    if (status == PLIM_OK) {
        *out = m;
        return PLIM_OK;
    }
    if (m->graph) plim__model_free(&m);
    else plim__free(&alloc, m);
    return status;
}

void plim__prepared_free(plim__prepared *p, const plim__alloc *a)
{
    plim__graph_free(&p->graph);
    plim__free(a, p->param);
    plim__free(a, p->to);
    *p = (plim__prepared){0};
}

void plim__model_free(plim__model **mp)
{
    plim__model *m = *mp;
    if (!m) return;
    const plim__alloc a = m->graph->alloc;
    plim__free(&a, m->layer);
    plim__free(&a, m->input);
    plim__free(&a, m->output);
    for (uint32_t i = 0; i < m->n_params; i++) plim__free(&a, m->param[i].home.path);
    plim__free(&a, m->param);
    plim__graph_free(&m->graph);
    plim__prepared_free(&m->prepared, &a);
    plim__free(&a, m);
    *mp = NULL;
}

/* Names that are too long end in "...": better seen than guessed. */
static void copy_name(char *to, size_t size, const char *from)
{
    const size_t n = strlen(from);
    snprintf(to, size, "%s", from);
    if (n >= size) memcpy(to + size - 4, "...", 4);
}

plim_status plim__model_layer(plim__model *m, const char *name, const char *kind, plim_error *err)
{
    PLIM_TRY(plim__grow(&m->graph->alloc, (void **)&m->layer, &m->cap_layers, m->n_layers + 1, sizeof *m->layer, err));
    plim__layer *l = &m->layer[m->n_layers];
    *l = (plim__layer){0};
    copy_name(l->name, sizeof l->name, name);
    copy_name(l->kind, sizeof l->kind, kind);
    m->graph->tag = m->n_layers++;
    return PLIM_OK;
}

plim_status plim__model_unbound(plim__model *m, const char *name, plim_dtype dtype, const plim_shape *shape, uint32_t *v, plim_error *err)
{
    uint64_t count;
    plim__source source = {.path = (char *)""};
    PLIM_TRY(plim_shape_count(&count, shape, err));
    int64_t stride = 1;
    for (uint32_t d = shape->rank; d-- > 0 && count > 0;) {
        source.stride[d] = stride;
        stride *= shape->dim[d];
    }
    return plim__graph_file(m->graph, name, dtype, shape, &source, v, err);
}

static plim_dtype type_given(const plim__model *m, const char *name, plim_dtype otherwise)
{
    for (uint32_t i = 0; m->options && i < m->options->n_types; i++) {
        const plim__input_type *t = &m->options->type[i];
        if (strcmp(t->name, name) == 0 || (!t->name[0] && m->n_inputs == 0)) return t->dtype;
    }
    return otherwise;
}

plim_status plim__model_input(plim__model *m, const char *name, plim_dtype dtype, const plim_shape *shape, int32_t batch_axis, uint32_t *v,
                              plim_error *err)
{
    PLIM_FAIL_IF(batch_axis >= (int32_t)shape->rank, err, PLIM_E_INVALID, "input '%.60s' has no dimension %d to be its batch", name, batch_axis);
    PLIM_TRY(plim__grow(&m->graph->alloc, (void **)&m->input, &m->cap_inputs, m->n_inputs + 1, sizeof *m->input, err));
    PLIM_TRY(plim__model_unbound(m, name, type_given(m, name, dtype), shape, v, err));
    plim__port *p = &m->input[m->n_inputs++];
    *p = (plim__port){.value = *v, .batch_axis = batch_axis};
    copy_name(p->name, sizeof p->name, name);
    return plim__op_cast(m->graph, *v, dtype, v, err);
}

plim_status plim__model_output(plim__model *m, const char *name, uint32_t v, int32_t batch_axis, plim_error *err)
{
    PLIM_FAIL_IF(v >= m->graph->n_values, err, PLIM_E_INVALID, "output '%.60s' is not a value of this model", name);
    PLIM_TRY(plim__grow(&m->graph->alloc, (void **)&m->output, &m->cap_outputs, m->n_outputs + 1, sizeof *m->output, err));
    plim__port *p = &m->output[m->n_outputs++];
    *p = (plim__port){.value = v, .batch_axis = batch_axis};
    copy_name(p->name, sizeof p->name, name);
    return PLIM_OK;
}

plim_status plim__model_param(plim__model *m, plim__param *param, plim_dtype dtype, const plim_shape *shape, const plim__source *source, uint32_t *v,
                              plim_error *err)
{
    PLIM_TRY(plim__grow(&m->graph->alloc, (void **)&m->param, &m->cap_params, m->n_params + 1, sizeof *m->param, err));
    PLIM_TRY(plim__model_unbound(m, param->name, dtype, shape, v, err));
    plim__model_stays(m, *v, PLIM__STAY_MAY);
    param->value = *v;
    param->layer = m->graph->tag;
    param->update = PLIM__NONE;
    param->home = (plim__source){0};
    m->param[m->n_params++] = *param;
    return source ? plim__model_bind(m, m->n_params - 1, source, err) : PLIM_OK;
}

plim_status plim__model_bind(plim__model *m, uint32_t param, const plim__source *source, plim_error *err)
{
    plim__param *p = &m->param[param];
    plim__source *bound = &m->graph->source[m->graph->value[p->value].source];
    const plim__alloc *a = &m->graph->alloc;
    char *path = plim__strdup(a, source->path, err), *home = path ? plim__strdup(a, source->path, err) : NULL;
    if (!home) {
        plim__free(a, path);
        return PLIM_E_NOMEM;
    }
    plim__free(a, bound->path);
    plim__free(a, p->home.path);
    p->home = *source;
    plim__source_rebind(bound, source, path);
    p->home.path = home;
    p->init = PLIM__INIT_FILE;
    return PLIM_OK;
}

const plim_shape *plim__param_shape(const plim__model *m, const plim__param *p)
{
    return p->form.kind == PLIM__FORM_PLAIN ? &m->graph->value[p->value].shape : &p->form.plain;
}

uint64_t plim__param_bytes(const plim__model *m, const plim__param *p)
{
    uint64_t bytes = 0; /* what memory has is no less, and fits */
    (void)plim_shape_bytes(&bytes, plim__param_shape(m, p), m->graph->value[p->value].dtype, NULL);
    return bytes;
}

void plim__model_stays(plim__model *m, uint32_t v, plim__stay stay) { m->graph->source[m->graph->value[v].source].stay = stay; }

plim_status plim__model_setting(plim__model *m, const char *name, plim_dtype dtype, uint32_t *v, plim_error *err)
{
    PLIM_TRY(plim__model_unbound(m, name, dtype, &(plim_shape){0}, v, err));
    plim__model_stays(m, *v, PLIM__STAY_MEMORY);
    return PLIM_OK;
}

plim_status plim__model_seed(plim__model *m, uint32_t *v, plim_error *err)
{
    if (m->seed == PLIM__NONE) PLIM_TRY(plim__model_setting(m, "seed", PLIM_U64, &m->seed, err));
    *v = m->seed;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- which reader to ask */

/* Keras' files begin as an HDF5 file, a zip archive, or the text of a JSON object; an ONNX model begins with a field of its own. */
static bool looks_like_keras(const uint8_t *head, size_t n)
{
    size_t at = 0;
    if (n >= 8 && memcmp(head, "\x89HDF\r\n\x1a\n", 8) == 0) return true;
    if (n >= 4 && memcmp(head, "PK\3\4", 4) == 0) return true;
    if (n >= 3 && memcmp(head, "\xef\xbb\xbf", 3) == 0) at = 3; /* a byte order mark */
    while (at < n && isspace(head[at])) at++;
    /* '{' as an ONNX file's first byte would be field 15 of a wire type that is not in use */
    return at < n && head[at] == '{';
}

/* The tags that a ModelProto may begin with: its fields 1 to 8, 14, 20 and 25, each of its own wire type; the last two have a second byte of 1. */
static bool looks_like_onnx(const uint8_t *head, size_t n)
{
    static const uint8_t tags[] = {0x08, 0x12, 0x1a, 0x22, 0x28, 0x32, 0x3a, 0x42, 0x72};
    if (n >= 2 && (head[0] == 0xa2 || head[0] == 0xca)) return head[1] == 1;
    return memchr(tags, head[0], sizeof tags) != NULL;
}

typedef plim_status reader(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err);

static plim_status read_with(reader *read, plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err)
{
    PLIM_TRY(read(out, path, options, alloc, err));
    (*out)->options = NULL;
    return PLIM_OK;
}

plim_status plim__model_read(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err)
{
    const plim__os *os = &plim__os_linux;
    plim__stat stat;
    uint8_t head[64];
    char shown[24];
    int fd;
    *out = NULL;
    PLIM_TRY(plim__file_open(&fd, &stat, os, path, err));
    const int64_t n = os->pread(os->self, fd, head, sizeof head, 0);
    os->close(os->self, fd);
    if (n < 0) return plim__os_fail((int)n, "read", path, 0, err);
    if (n == 0) return plim__array_fail(err, PLIM_E_FORMAT, path, 0, "an empty file is no model");
    if (looks_like_keras(head, (size_t)n)) return read_with(plim__keras_read, out, path, options, alloc, err);
    if (looks_like_onnx(head, (size_t)n)) return read_with(plim__onnx_read, out, path, options, alloc, err);
    return plim__array_fail(err, PLIM_E_FORMAT, path, 0, "neither an ONNX model nor one of Keras (.keras, .h5, JSON): it begins with '%s'",
                            plim__array_quote(shown, sizeof shown, head, (uint64_t)n));
}
