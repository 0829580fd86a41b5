/* Where each parameter's data lies. Both kinds of file number weights by layer; shapes are checked, names are not needed.
 *
 * .keras archive   layers/<class>[_n]/vars/<i> in model.weights.h5: the class in small letters, _n for the n-th more of it in one model. Parts of a
 *                  layer and layers of nested models are groups inside. Files of Keras 2.13 say _layer_checkpoint_dependencies for layers.
 * .h5              model_weights/<layer> has an attribute weight_names: datasets inside, trainable ones first. A nested model counts as one layer:
 *                  what is trained of all its layers, then all the rest. A list that is too long is cut into weight_names0, weight_names1, ... */
#include "core/size.h"
#include "formats/array_file.h"
#include "models/keras.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#define PATH_MAX_BYTES 480

typedef struct binder {
    plim__keras *k;
    const plim__hdf5 *h;
    const plim__stat *file;
} binder;

/* Makes the dataset the source of parameter `w`. */
static plim_status bind(const binder *b, const plim__keras_layer *l, const plim__keras_weight *w, const char *object, plim_error *err)
{
    if (w->param == PLIM__NONE) return PLIM_OK;
    const plim__value *v = &b->k->graph->value[b->k->model->param[w->param].value];
    plim__hdf5_array a;
    char have[80], want[80];
    PLIM_TRY(plim__hdf5_array_find(b->h, object, &a, err));
    if (!plim__shape_equal(&a.shape, &v->shape) || a.dtype != v->dtype)
        return plim__fail_at(err, PLIM_E_SHAPE, b->k->path, "'%.80s': '%.100s' is %s%s, and layer '%.60s' needs %s%s", b->k->path, object,
                             plim_dtype_name(a.dtype), plim_shape_format(have, sizeof have, &a.shape), l->path, plim_dtype_name(v->dtype),
                             plim_shape_format(want, sizeof want, &v->shape));
    plim__source s = {.path = (char *)(uintptr_t)b->k->path, .offset = a.offset, .swap = a.swap};
    plim__source_identify(&s, b->file);
    int64_t stride = 1;
    for (uint32_t d = v->shape.rank; d-- > 0; stride *= v->shape.dim[d]) s.stride[d] = stride; /* a checked count bounds it */
    return plim__model_bind(b->k->model, w->param, &s, err);
}

/* ---------------------------------------------------------------------------------------------------------- .keras */

/* MaxPooling2D: max_pooling2d; Conv2DTranspose: conv2d_transpose; PReLU: p_re_lu. */
static void snake_case(const char *name, char *out, size_t size)
{
    size_t n = 0;
    for (const char *p = name; *p && n + 2 < size; p++) {
        const bool upper = isupper((unsigned char)*p), starts = p > name && (islower((unsigned char)p[-1]) || islower((unsigned char)p[1]));
        if (upper && starts) out[n++] = '_';
        out[n++] = (char)tolower((unsigned char)*p);
    }
    out[n] = 0;
}

/* Operations that are not layers have no weights and are not counted. */
static bool counted(const plim__keras_layer *model, const plim__keras_layer *l)
{
    plim__json j;
    const char *module;
    if (model->is_sequential && strcmp(l->kind, "InputLayer") == 0) return false;
    return !plim__json_find(&j, &l->json, "module") || plim__json_string(&module, &j, NULL) != PLIM_OK || !strstr(module, ".ops.");
}

/* The group of layer `index` inside that of the model around it. */
static void group_name(const plim__keras *k, uint32_t index, char *out, size_t size)
{
    const plim__keras_layer *l = &k->layer[index], *model = &k->layer[l->parent];
    uint32_t before = 0;
    char name[64];
    if (!model->is_model) { /* what a wrapper wraps */
        snprintf(out, size, "layer");
        return;
    }
    for (uint32_t i = model->first; i < index; i++) before += strcmp(k->layer[i].kind, l->kind) == 0 && counted(model, &k->layer[i]);
    snake_case(l->kind, name, sizeof name);
    if (before) snprintf(out, size, "layers/%s_%u", name, before);
    else snprintf(out, size, "layers/%s", name);
}

static plim_status join(char *out, const char *a, const char *b, const plim__keras *k, plim_error *err)
{
    const int n = snprintf(out, PATH_MAX_BYTES, "%s%s%s", a, a[0] && b[0] ? "/" : "", b);
    if (n >= PATH_MAX_BYTES)
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, k->path, "'%.80s': models are nested too deep for the names of their weights", k->path);
    return PLIM_OK;
}

/* Older files: layers of the whole model are under another name. */
static void older_path(char path[PATH_MAX_BYTES])
{
    static const char old[] = "_layer_checkpoint_dependencies";
    char rest[PATH_MAX_BYTES];
    if (strncmp(path, "layers/", 7) != 0) return;
    memcpy(rest, path + 6, strlen(path + 6) + 1);
    snprintf(path, PATH_MAX_BYTES, "%s%.440s", old, rest);
}

static plim_status bind_archived(const binder *b, const plim__keras_layer *l, const plim__keras_weight *w, const char *group, plim_error *err)
{
    char part[PATH_MAX_BYTES], path[PATH_MAX_BYTES], sub[64], vars[32];
    snprintf(vars, sizeof vars, "vars/%u", w->slot);
    for (int hidden = 0; hidden < 2; hidden++) { /* parts were attributes with an underscore at first */
        snprintf(sub, sizeof sub, "%s%s", hidden && w->sub[0] ? "_" : "", w->sub);
        PLIM_TRY(join(part, group, sub, b->k, err));
        PLIM_TRY(join(path, part, vars, b->k, err));
        if (plim__hdf5_has(b->h, path)) break;
        older_path(path);
        if (plim__hdf5_has(b->h, path)) break;
    }
    if (!plim__hdf5_has(b->h, path)) {
        PLIM_TRY(join(part, group, w->sub, b->k, err));
        PLIM_TRY(join(path, part, vars, b->k, err));
    }
    return bind(b, l, w, path, err);
}

static plim_status archive_layer(const binder *b, uint32_t index, const char *above, plim_error *err)
{
    const plim__keras_layer *l = &b->k->layer[index];
    char own[96] = "", group[PATH_MAX_BYTES];
    if (index != 0) group_name(b->k, index, own, sizeof own);
    PLIM_TRY(join(group, above, own, b->k, err));
    for (uint32_t i = 0; i < l->n_weights; i++) PLIM_TRY(bind_archived(b, l, &l->weight[i], group, err));
    for (uint32_t i = l->first; i < l->first + l->count; i++) PLIM_TRY(archive_layer(b, i, group, err)); /* as deep as PLIM__KERAS_DEPTH */
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------------- .h5 */

/* The names of a group's weights, and how many were taken. */
typedef struct name_list {
    const char *group;
    char *text[64]; /* from the allocator: an attribute each */
    uint32_t count[64], n;
    uint32_t part, taken; /* the next name: number `taken` of text `part`, at `at` */
    const char *at;
    uint64_t total, used;
} name_list;

static plim_status names_read(const binder *b, const char *group, name_list *l, plim_error *err)
{
    char name[32] = "weight_names";
    *l = (name_list){.group = group};
    const bool cut = !plim__hdf5_has_attribute(b->h, group, name);
    do {
        if (cut) snprintf(name, sizeof name, "weight_names%u", l->n);
        if (cut && l->n > 0 && !plim__hdf5_has_attribute(b->h, group, name)) break;
        PLIM_TRY(plim__hdf5_strings(b->h, group, name, &l->text[l->n], &l->count[l->n], err));
        l->total += l->count[l->n++];
    } while (cut && l->n < 64);
    l->at = l->text[0];
    return PLIM_OK;
}

static void names_free(const binder *b, name_list *l)
{
    for (uint32_t i = 0; i < l->n; i++) plim__free(&b->k->alloc, l->text[i]);
}

static plim_status bind_next(const binder *b, const plim__keras_layer *l, const plim__keras_weight *w, name_list *names, plim_error *err)
{
    char path[PATH_MAX_BYTES];
    while (names->part < names->n && names->taken == names->count[names->part]) {
        names->part++;
        names->taken = 0;
        names->at = names->part < names->n ? names->text[names->part] : NULL;
    }
    names->used++;
    if (names->part == names->n)
        return plim__fail_at(err, PLIM_E_FORMAT, b->k->path, "'%.80s': '%.100s' has %llu weights, and layer '%.60s' needs more", b->k->path,
                             names->group, (unsigned long long)names->total, l->path);
    PLIM_TRY(join(path, names->group, names->at, b->k, err));
    names->at += strlen(names->at) + 1;
    names->taken++;
    return bind(b, l, w, path, err);
}

/* @param rest  false: what is trained; true: what is not. Both in the order of the layers */
static plim_status bind_part(const binder *b, uint32_t index, bool rest, name_list *names, plim_error *err)
{
    const plim__keras_layer *l = &b->k->layer[index];
    for (uint32_t i = 0; i < l->n_weights; i++)
        if ((l->trainable && l->weight[i].trainable) != rest) PLIM_TRY(bind_next(b, l, &l->weight[i], names, err));
    for (uint32_t i = l->first; i < l->first + l->count; i++) PLIM_TRY(bind_part(b, i, rest, names, err));
    return PLIM_OK;
}

static bool has_weights(const plim__keras *k, uint32_t index)
{
    const plim__keras_layer *l = &k->layer[index];
    bool any = l->n_weights > 0;
    for (uint32_t i = l->first; i < l->first + l->count && !any; i++) any = has_weights(k, i);
    return any;
}

static plim_status bind_legacy(const binder *b, uint32_t index, plim_error *err)
{
    const plim__keras_layer *l = &b->k->layer[index];
    char group[PATH_MAX_BYTES];
    name_list names = {0};
    plim_status status;
    if (!has_weights(b->k, index)) return PLIM_OK;
    PLIM_TRY(join(group, "model_weights", l->name, b->k, err));
    if (!plim__hdf5_has(b->h, group))
        return plim__fail_at(err, PLIM_E_FORMAT, b->k->path, "'%.80s': no group '%.120s' for the weights of a layer", b->k->path, group);
    PLIM_TRY_DONE(names_read(b, group, &names, err));
    PLIM_TRY_DONE(bind_part(b, index, false, &names, err));
    PLIM_TRY_DONE(bind_part(b, index, true, &names, err));
    if (names.used != names.total)
        status = plim__fail_at(err, PLIM_E_FORMAT, b->k->path, "'%.80s': '%.100s' has %llu weights, and layer '%.60s' needs %llu", b->k->path, group,
                               (unsigned long long)names.total, l->path, (unsigned long long)names.used);
done:
    names_free(b, &names);
    return status;
}

plim_status plim__keras_bind(plim__keras *k, const plim__hdf5 *h, bool archive, const plim__stat *file, plim_error *err)
{
    const binder b = {.k = k, .h = h, .file = file};
    if (archive) return archive_layer(&b, 0, "", err);
    for (uint32_t i = k->layer[0].first; i < k->layer[0].first + k->layer[0].count; i++) PLIM_TRY(bind_legacy(&b, i, err));
    return PLIM_OK;
}
