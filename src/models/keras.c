/* The files that Keras writes: an architecture as JSON text (Keras 2 and 3), a .keras archive (config.json, model.weights.h5), an .h5 file
 * (attribute model_config, group model_weights). Which of them it is, is seen by the first bytes. The graph is made first, then each parameter is
 * bound to its bytes in the file; no weight is read or copied. */
#include "models/keras.h"
#include "core/size.h"
#include "formats/zip.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TEXT_MAX (UINT64_C(256) << 20) /* bytes of an architecture: the largest known are a few MiB */

/* An open file. */
typedef struct source {
    const plim__os *os;
    int fd;
    const char *path;
    plim__stat stat;
} source;

static plim_status source_open(source *s, const plim__os *os, const char *path, plim_error *err)
{
    *s = (source){.os = os, .path = path};
    return plim__file_open(&s->fd, &s->stat, os, path, err);
}

/* The text of a part of the file, from the allocator. */
static plim_status read_text(const source *s, uint64_t at, uint64_t n, const plim__alloc *alloc, char **out, plim_error *err)
{
    if (n > TEXT_MAX)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, s->path, "'%.80s': %llu bytes are too many for an architecture", s->path,
                             (unsigned long long)n);
    *out = plim__new(alloc, n + 1, 1, err);
    if (!*out) return PLIM_E_NOMEM;
    return plim__array_read(s->os, s->fd, *out, n, at, s->path, err);
}

/* ------------------------------------------------------------------------------------------------------ the model */

/* "2.15.0" is 2. Without it: only Keras 3 names modules in an architecture that does not say its version. */
static int version_of(const char *text, const plim__json *root)
{
    plim__json j;
    const char *own = NULL;
    if (plim__json_get_string(&own, root, "keras_version", NULL, NULL) == PLIM_OK && own) text = own;
    if (!text) return plim__json_find(&j, root, "module") ? 3 : 2;
    return atoi(text) >= 3 ? 3 : 2;
}

/* A parameter that no file gives and that cannot be made; only training asks how. */
static plim_status check_initializers(const plim__keras *k, plim_error *err)
{
    for (uint32_t i = 0; i < k->n_layers && k->options->training; i++) {
        const plim__keras_layer *l = &k->layer[i];
        for (uint32_t w = 0; w < l->n_weights; w++) {
            const plim__keras_weight *weight = &l->weight[w];
            if (!weight->initializer || k->model->param[weight->param].init == PLIM__INIT_FILE) continue;
            return plim__fail_at(err, PLIM_E_UNSUPPORTED, k->path, "'%.80s': '%.80s': initializer '%.40s' is not supported", k->path,
                                 k->model->param[weight->param].name, weight->initializer);
        }
    }
    return PLIM_OK;
}

/* Where weights are: in `h`, if that is not NULL. */
typedef struct weights {
    const plim__hdf5 *h;
    bool archive;
} weights;

static plim_status build(plim__keras *k, const source *s, const plim__json *root, const char *version, weights w, plim_error *err)
{
    k->version = version_of(version, root);
    PLIM_TRY(plim__keras_graph(k, root, err));
    if (w.h) PLIM_TRY(plim__keras_bind(k, w.h, w.archive, &s->stat, err));
    return check_initializers(k, err);
}

/* ------------------------------------------------------------------------------------------------------ .keras */

typedef struct text_sink {
    char *text;
    uint64_t n, size;
} text_sink;

static plim_status sink_text(void *ctx, const uint8_t *p, uint64_t n, plim_error *err)
{
    text_sink *t = ctx;
    PLIM_FAIL_IF(n > t->size - t->n, err, PLIM_E_FORMAT, "a member is larger than it says");
    memcpy(t->text + t->n, p, n);
    t->n += n;
    return PLIM_OK;
}

static plim_status member_text(const source *s, const plim__zip *z, const char *name, const plim__alloc *alloc, char **out, plim_error *err)
{
    plim__zip_member m;
    PLIM_TRY(plim__zip_find(&m, z, name, "", err));
    if (!m.deflated) return read_text(s, m.data, m.size, alloc, out, err);
    if (m.size > TEXT_MAX) return plim__fail_at(err, PLIM_E_UNSUPPORTED, s->path, "'%.80s': member '%s' is too large", s->path, name);
    *out = plim__new(alloc, m.size + 1, 1, err);
    if (!*out) return PLIM_E_NOMEM;
    text_sink sink = {.text = *out, .size = m.size};
    return plim__zip_inflate(z, &m, m.size, sink_text, &sink, err);
}

static plim_status weights_member(const source *s, const plim__zip *z, plim__zip_member *m, plim_error *err)
{
    plim__zip_member other;
    const plim_status status = plim__zip_find(m, z, PLIM__KERAS_WEIGHTS_MEMBER, "", NULL);
    if (status == PLIM_E_INVALID && plim__zip_find(&other, z, "model.weights.npz", "", NULL) == PLIM_OK)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, s->path, "'%.80s': its weights are an .npz; load the model with Keras and save it again",
                             s->path);
    if (status != PLIM_OK) return plim__zip_find(m, z, PLIM__KERAS_WEIGHTS_MEMBER, "", err); /* once more, for the message */
    if (m->deflated)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, s->path,
                             "'%.80s': member 'model.weights.h5' is compressed, so weights cannot be read where they are; load the model with Keras "
                             "and save it again, "
                             "or unpack it and pack it with zip -0",
                             s->path);
    return PLIM_OK;
}

/* keras_version of metadata.json, which may be missing; `version` is left alone then. */
static void read_version(const source *s, const plim__zip *z, const plim__alloc *alloc, char version[16])
{
    char *text = NULL;
    plim__json root;
    const char *found = NULL;
    if (member_text(s, z, "metadata.json", alloc, &text, NULL) == PLIM_OK && plim__json_parse(&root, text, strlen(text), s->path, NULL) == PLIM_OK) {
        if (plim__json_get_string(&found, &root, "keras_version", NULL, NULL) == PLIM_OK && found) snprintf(version, 16, "%s", found);
        plim__json_free(&root);
    }
    plim__free(alloc, text);
}

static plim_status read_archive(plim__keras *k, const source *s, plim_error *err)
{
    k->model->form = PLIM__MODEL_KERAS;
    const plim__zip z = {.os = s->os, .fd = s->fd, .bytes = s->stat.size, .path = s->path};
    plim__zip_member m;
    plim__json root = {0};
    char *text = NULL, version[16] = "3", label[200];
    plim__hdf5 *h = NULL;
    plim_status status;
    snprintf(label, sizeof label, "%.180s:config.json", s->path);
    PLIM_TRY_DONE(member_text(s, &z, "config.json", &k->alloc, &text, err));
    PLIM_TRY_DONE(plim__json_parse(&root, text, strlen(text), label, err));
    read_version(s, &z, &k->alloc, version);
    PLIM_TRY_DONE(weights_member(s, &z, &m, err));
    PLIM_TRY_DONE(plim__hdf5_open(&h, s->os, s->fd, m.data, m.size, s->path, k->alloc, err));
    PLIM_TRY_DONE(build(k, s, &root, version, (weights){h, true}, err));
done:
    plim__json_free(&root);
    plim__hdf5_close(&h);
    plim__free(&k->alloc, text);
    return status;
}

/* --------------------------------------------------------------------------------------------------- .h5 and JSON */

static plim_status read_hdf5(plim__keras *k, const source *s, plim_error *err)
{
    k->model->form = PLIM__MODEL_HDF5;
    plim__hdf5 *h = NULL;
    plim__json root = {0};
    char *text = NULL, *version = NULL;
    uint32_t n;
    plim_status status;
    PLIM_TRY_DONE(plim__hdf5_open(&h, s->os, s->fd, 0, s->stat.size, s->path, k->alloc, err));
    if (!plim__hdf5_has_attribute(h, "/", "model_config")) {
        status = plim__fail_at(err, PLIM_E_UNSUPPORTED, s->path,
                               "'%.80s': an HDF5 file without attribute model_config: weights alone, without the model they belong to", s->path);
        goto done;
    }
    PLIM_TRY_DONE(plim__hdf5_strings(h, "/", "model_config", &text, &n, err));
    if (plim__hdf5_has_attribute(h, "/", "keras_version")) PLIM_TRY_DONE(plim__hdf5_strings(h, "/", "keras_version", &version, &n, err));
    const bool bound = plim__hdf5_has(h, "model_weights");
    PLIM_TRY_DONE(plim__json_parse(&root, text, strlen(text), s->path, err));
    PLIM_TRY_DONE(build(k, s, &root, version, (weights){bound ? h : NULL, false}, err));
done:
    plim__json_free(&root);
    plim__hdf5_close(&h);
    plim__free(&k->alloc, version);
    plim__free(&k->alloc, text);
    return status;
}

static plim_status read_json(plim__keras *k, const source *s, plim_error *err)
{
    k->model->form = PLIM__MODEL_JSON;
    plim__json root = {0};
    char *text = NULL;
    plim_status status;
    PLIM_TRY_DONE(read_text(s, 0, s->stat.size, &k->alloc, &text, err));
    PLIM_TRY_DONE(plim__json_parse(&root, text, strlen(text), s->path, err));
    PLIM_TRY_DONE(build(k, s, &root, NULL, (weights){0}, err));
done:
    plim__json_free(&root);
    plim__free(&k->alloc, text);
    return status;
}

static plim_status read_any(plim__keras *k, const source *s, plim_error *err)
{
    char start[64] = {0};
    const uint64_t n = s->stat.size < sizeof start ? s->stat.size : sizeof start;
    PLIM_TRY(plim__array_read(s->os, s->fd, start, n, 0, s->path, err));
    if (memcmp(start, "PK\3\4", 4) == 0) return read_archive(k, s, err);
    if (memcmp(start, PLIM__HDF5_SIGNATURE, 8) == 0) return read_hdf5(k, s, err);
    size_t i = 0;
    while (i < n && strchr(" \t\r\n", start[i]) && start[i]) i++;
    if (i < n && (start[i] == '{' || i == sizeof start)) return read_json(k, s, err);
    return plim__fail_at(err, PLIM_E_FORMAT, s->path, "'%.80s': not a Keras model: neither JSON text nor a .keras archive nor an HDF5 file", s->path);
}

plim_status plim__keras_read_from(plim__model **out, const plim__os *os, const char *path, const plim__model_options *options, plim__alloc alloc,
                                  plim_error *err)
{
    static const plim__model_options none = {0};
    source s;
    *out = NULL;
    plim__keras k = {.options = options ? options : &none, .alloc = alloc, .path = path};
    k.training = k.options->training;
    PLIM_TRY(source_open(&s, os, path, err));
    plim_status status = plim__model_new(&k.model, options, alloc, err);
    if (status == PLIM_OK) {
        k.graph = k.model->graph;
        status = read_any(&k, &s, err);
    }
    plim__free(&alloc, k.layer);
    os->close(os->self, s.fd);
    if (status != PLIM_OK) plim__model_free(&k.model);
    *out = k.model;
    return status;
}

plim_status plim__keras_read(plim__model **out, const char *path, const plim__model_options *options, plim__alloc alloc, plim_error *err)
{
    return plim__keras_read_from(out, &plim__os_linux, path, options, alloc, err);
}
