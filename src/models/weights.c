/* See the header. */
#include "models/weights.h"
#include "formats/safetensors_write.h"
#include "models/keras_save.h"
#include "models/onnx_save.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The parameters as tensors of a file; from the model's allocator. */
static plim__tensor_spec *list_params(const plim__model *m, plim_error *err)
{
    plim__tensor_spec *list = plim__new(&m->graph->alloc, m->n_params, sizeof *list, err);
    for (uint32_t i = 0; i < m->n_params && list; i++) {
        const plim__value *v = &m->graph->value[m->param[i].value];
        list[i] = (plim__tensor_spec){.name = m->param[i].name, .dtype = v->dtype, .shape = *plim__param_shape(m, &m->param[i])};
    }
    return list;
}

/* ------------------------------------------------------------------------------------------------------------ loading */

/* What does not fit, as far as a message has room. */
typedef struct complaint {
    char text[300];
    size_t used;
    uint32_t told, count;
} complaint;

static void complain(complaint *c, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void complain(complaint *c, const char *fmt, ...)
{
    char one[240];
    va_list args;
    va_start(args, fmt);
    const int n = vsnprintf(one, sizeof one, fmt, args);
    va_end(args);
    c->count++;
    if (c->told + 1 < c->count || n < 0 || c->used + (size_t)n + 3 > sizeof c->text) return; /* the first ones, not some */
    c->used += (size_t)snprintf(c->text + c->used, sizeof c->text - c->used, "%s%s", c->told ? ", " : "", one);
    c->told++;
}

static plim_status compare(const plim__safetensors *f, const plim__tensor_spec *list, uint32_t n, plim_error *err)
{
    complaint c = {.used = 0};
    plim__array_file a;
    char have[80], want[80], name[100], more[40] = "";
    for (uint32_t i = 0; i < n; i++) {
        plim__array_quote(name, sizeof name, (const uint8_t *)list[i].name, strlen(list[i].name));
        if (plim__safetensors_find(&a, f, list[i].name, NULL) != PLIM_OK)
            complain(&c, "'%s' is missing", name);
        else if (a.dtype != list[i].dtype || !plim__shape_equal(&a.shape, &list[i].shape))
            complain(&c, "'%s' is %s%s, not %s%s", name, plim_dtype_name(a.dtype), plim_shape_format(have, sizeof have, &a.shape),
                     plim_dtype_name(list[i].dtype), plim_shape_format(want, sizeof want, &list[i].shape));
    }
    if (c.count == 0) return PLIM_OK;
    if (c.told < c.count) snprintf(more, sizeof more, " and %u more", c.count - c.told);
    return plim__array_fail(err, PLIM_E_INVALID, f->path, 0, "%u of the model's %u parameters do not fit: %s%s", c.count, n, c.text, more);
}

/* Memory first, so that a failure changes nothing. */
static plim_status bind_all(plim__model *m, const plim__safetensors *f, plim_error *err)
{
    const plim__alloc *alloc = &m->graph->alloc;
    plim_status status = PLIM_OK;
    char **path = plim__new(alloc, m->n_params, sizeof *path, err);
    if (!path) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < m->n_params && status == PLIM_OK; i++) {
        path[i] = plim__strdup(alloc, f->path, err);
        if (!path[i]) status = PLIM_E_NOMEM;
    }
    for (uint32_t i = 0; i < m->n_params && status == PLIM_OK; i++) {
        plim__array_file a;
        plim__source *s = &m->graph->source[m->graph->value[m->param[i].value].source];
        status = plim__safetensors_find(&a, f, m->param[i].name, err);
        PLIM_ASSERT(status == PLIM_OK); /* compare has found it */
        plim__free(alloc, s->path);
        plim__source_rebind(s, &a.source, path[i]);
        path[i] = NULL;
        m->param[i].init = PLIM__INIT_FILE;
    }
    for (uint32_t i = 0; i < m->n_params; i++) plim__free(alloc, path[i]);
    plim__free(alloc, path);
    return status;
}

plim_status plim__weights_bind(plim__model *m, const plim__os *os, const char *path, uint32_t *extra, plim_error *err)
{
    const plim__alloc alloc = m->graph->alloc;
    plim__safetensors f = {0};
    plim_status status;
    plim__tensor_spec *list = list_params(m, err);
    if (!list) return PLIM_E_NOMEM;
    PLIM_TRY_DONE(plim__safetensors_check(path, list, m->n_params, alloc, err));
    PLIM_TRY_DONE(plim__safetensors_open(&f, os, path, alloc, err));
    PLIM_TRY_DONE(compare(&f, list, m->n_params, err));
    PLIM_TRY_DONE(bind_all(m, &f, err));
    if (extra) *extra = f.n_tensors - m->n_params; /* names differ on both sides, and all of ours are there */
done:
    plim__safetensors_free(&f);
    plim__free(&alloc, list);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------- saving */

static bool ends_in(const char *path, const char *suffix)
{
    const size_t n = strlen(path), k = strlen(suffix);
    return n > k && strcasecmp(path + n - k, suffix) == 0;
}

static plim_status save_safetensors(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *path, plim_error *err)
{
    const plim__alloc alloc = m->graph->alloc;
    plim__tensor_spec *list = list_params(m, err);
    if (!list) return PLIM_E_NOMEM;
    const plim_status status = plim__safetensors_write(os, path, list, m->n_params, NULL, 0, reader, alloc, err);
    plim__free(&alloc, list);
    return status;
}

/* The model is of another kind than the path says, or the path says none. */
static plim_status fail_form(const plim__model *m, const char *path, plim_error *err)
{
    static const char *const as[] = {
        [PLIM__MODEL_MADE] = "this model has no file of its own: save its parameters as .safetensors",
        [PLIM__MODEL_ONNX] = "the model is an ONNX file: a trained copy can be saved as .onnx, its parameters alone as .safetensors",
        [PLIM__MODEL_KERAS] = "the model is a .keras archive: a trained copy can be saved as .keras, its parameters alone as .safetensors",
        [PLIM__MODEL_HDF5] = "the model is an HDF5 file: a trained copy can be saved as .h5, its parameters alone as .safetensors",
        [PLIM__MODEL_JSON] = "the model is an architecture in JSON, without a place for weights: save its parameters as .safetensors",
    };
    return plim__fail_at(err, PLIM_E_INVALID, path, "cannot save as '%.150s': %s", path, as[m->form]);
}

plim_status plim__model_save(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *model_path, const char *out_path,
                             plim_error *err)
{
    if (ends_in(out_path, ".safetensors")) return save_safetensors(m, os, reader, out_path, err);
    if (ends_in(out_path, ".onnx") && m->form == PLIM__MODEL_ONNX) return plim__onnx_save(m, os, reader, model_path, out_path, err);
    if (ends_in(out_path, ".keras") && m->form == PLIM__MODEL_KERAS) return plim__keras_save(m, os, reader, model_path, out_path, err);
    const bool hdf5 = ends_in(out_path, ".h5") || ends_in(out_path, ".hdf5");
    if (hdf5 && m->form == PLIM__MODEL_HDF5) return plim__keras_save(m, os, reader, model_path, out_path, err);
    return fail_form(m, out_path, err);
}

plim_status plim__model_save_check(const plim__model *m, const plim__os *os, const char *model_path, const char *out_path, plim_error *err)
{
    return plim__model_save(m, os, (plim__tensor_reader){0}, model_path, out_path, err);
}
