/* Saved plans are read and compared. The file is not trusted: what is asked for is checked when it is read, a fact when it is compared, and whatever
 * is wrong is named by its place in the file. Texts stay in the parsed document. */
#include "report/saved_plan.h"
#include "formats/array_file.h"
#include "formats/json_text.h"
#include "formats/whole_file.h"
#include "plan/machine_file.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define TEXT_MAX (UINT64_C(64) << 20) /* bytes of a file: a thousand layers take less than one MiB */
#define DIMS_MAX 4096u

struct plim_saved_plan {
    plim__alloc alloc;
    char *path;
    plim__json root;
    plim_saved_request request;
    plim_dim *dim;
    plim_machine machine; /* request.machine points here, where the plan was made with one */
};

/* ---------------------------------------------------------------------------------------------------------- reading */

static plim_status get_between(int64_t *out, const plim__json *object, const char *key, int64_t least, int64_t most, plim_error *err)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, object, key, err));
    PLIM_TRY(plim__json_integer(out, &j, err));
    if (*out >= least && *out <= most) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_FORMAT, &j, "%lld is not between %lld and %lld", (long long)*out, (long long)least, (long long)most);
}

static plim_status get_text(const char **out, const plim__json *object, const char *key, plim_error *err)
{
    plim__json j;
    PLIM_TRY(plim__json_get(&j, object, key, err));
    PLIM_TRY(plim__json_string(out, &j, err));
    return **out ? PLIM_OK : plim__json_fail(err, PLIM_E_FORMAT, &j, "is empty");
}

static plim_status read_hash(uint64_t *out, const plim__json *model, plim_error *err)
{
    static const char digits[] = "0123456789abcdef";
    const char *text;
    uint64_t hash = 0;
    PLIM_TRY(get_text(&text, model, "fnv1a64", err));
    size_t n = 0;
    for (const char *d; n < 16 && text[n] && (d = strchr(digits, text[n])); n++) hash = hash << 4 | (uint64_t)(d - digits);
    if (n != 16 || text[n]) return plim__json_fail(err, PLIM_E_FORMAT, model, "fnv1a64 is not a number of 16 hexadecimal digits");
    *out = hash;
    return PLIM_OK;
}

static plim_status read_model(plim_saved_request *r, const plim__json *saved, plim_error *err)
{
    plim__json model;
    int64_t bytes;
    PLIM_TRY(plim__json_get(&model, saved, "model", err));
    PLIM_TRY(get_text(&r->model_path, &model, "path", err));
    PLIM_TRY(get_between(&bytes, &model, "bytes", 0, INT64_MAX, err));
    r->model.bytes = (uint64_t)bytes;
    PLIM_TRY(get_between(&r->model.modified_ns, &model, "modified_ns", INT64_MIN, INT64_MAX, err));
    return read_hash(&r->model.hash, &model, err);
}

static plim_status read_dims(plim_saved_plan *s, const plim__json *saved, plim_error *err)
{
    plim__json dims, value;
    void *iter = NULL;
    const char *key;
    uint32_t n = 0;
    PLIM_TRY(plim__json_get(&dims, saved, "dims", err));
    if (plim__json_kind_of(&dims) != PLIM__JSON_OBJECT || plim__json_count(&dims) > DIMS_MAX)
        return plim__json_fail(err, PLIM_E_FORMAT, &dims, "expected an object of at most %u dimensions", DIMS_MAX);
    s->dim = plim__new(&s->alloc, plim__json_count(&dims), sizeof *s->dim, err);
    if (!s->dim) return PLIM_E_NOMEM;
    while (plim__json_each(&dims, &iter, &key, &value)) {
        int64_t size;
        PLIM_TRY(plim__json_integer(&size, &value, err));
        if (size < 1) return plim__json_fail(err, PLIM_E_FORMAT, &value, "%lld is not above 0", (long long)size);
        s->dim[n++] = (plim_dim){.name = key, .value = size};
    }
    s->request.options.dim = s->dim;
    s->request.options.n_dims = n;
    return PLIM_OK;
}

static plim_status read_settings(plim_saved_request *r, const plim__json *saved, plim_error *err)
{
    int64_t memory, baseline, threads;
    PLIM_TRY(get_between(&memory, saved, "memory_bytes", 1, INT64_MAX, err));
    PLIM_TRY(get_between(&baseline, saved, "baseline_bytes", 1, INT64_MAX, err));
    PLIM_TRY(get_between(&threads, saved, "threads", 1, UINT32_MAX, err));
    r->memory = (uint64_t)memory;
    r->baseline = (uint64_t)baseline;
    r->threads = (uint32_t)threads;
    return plim__json_get_string(&r->spill_dir, saved, "spill_dir", NULL, err);
}

static plim_status read_request(plim_saved_plan *s, plim_error *err)
{
    plim_saved_request *r = &s->request;
    plim__json saved;
    int64_t format;
    if (plim__json_kind_of(&s->root) != PLIM__JSON_OBJECT || !plim__json_find(&saved, &s->root, "saved"))
        return plim__json_fail(err, PLIM_E_FORMAT, &s->root, "not a plan that was saved: there is no 'saved' in it");
    PLIM_TRY(get_between(&format, &saved, "format", INT64_MIN, INT64_MAX, err));
    if (format != PLIM_SAVED_PLAN_FORMAT)
        return plim__json_fail(err, PLIM_E_UNSUPPORTED, &saved, "a plan of format %lld; %d is known", (long long)format, PLIM_SAVED_PLAN_FORMAT);
    PLIM_TRY(get_text(&r->version, &saved, "version", err));
    PLIM_TRY(read_model(r, &saved, err));
    PLIM_TRY(get_between(&r->options.batch, &saved, "batch", 0, INT64_MAX, err));
    PLIM_TRY(read_dims(s, &saved, err));
    PLIM_TRY(plim__json_get_string(&r->options.optimizer, &saved, "optimizer", NULL, err));
    PLIM_TRY(plim__json_get_string(&r->options.loss, &saved, "loss", NULL, err));
    PLIM_TRY(plim__json_get_string(&r->options.narrow, &saved, "narrow", NULL, err));
    PLIM_TRY(read_settings(r, &saved, err));
    plim__json machine;
    if (!plim__json_find(&machine, &saved, "machine")) return PLIM_OK;
    r->machine = &s->machine;
    return plim__machine_read(&s->machine, &machine, err);
}

static plim_status parse_file(plim_saved_plan *s, const plim__os *os, plim_error *err)
{
    plim__stat stat;
    char *text = NULL;
    int fd;
    plim_status status;
    PLIM_TRY(plim__file_open(&fd, &stat, os, s->path, err));
    if (stat.size > TEXT_MAX) {
        status = plim__array_fail(err, PLIM_E_FORMAT, s->path, 0, "%" PRIu64 " bytes are too many for a plan", stat.size);
        goto done;
    }
    text = plim__new(&s->alloc, stat.size + 1, 1, err);
    status = text ? plim__array_read(os, fd, text, stat.size, 0, s->path, err) : PLIM_E_NOMEM;
    if (status == PLIM_OK) status = plim__json_parse(&s->root, text, stat.size, s->path, err);
done:
    plim__free(&s->alloc, text);
    os->close(os->self, fd);
    return status;
}

plim_status plim__saved_plan_read(plim_saved_plan **out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err)
{
    *out = NULL;
    plim_saved_plan *s = plim__new(&alloc, 1, sizeof *s, err);
    if (!s) return PLIM_E_NOMEM;
    s->alloc = alloc;
    s->path = plim__strdup(&alloc, path, err);
    plim_status status = s->path ? parse_file(s, os, err) : PLIM_E_NOMEM;
    if (status == PLIM_OK) status = read_request(s, err);
    if (status == PLIM_OK) *out = s;
    else plim_saved_plan_free(&s);
    return status;
}

plim_status plim_saved_plan_read(plim_saved_plan **out, const char *path, const plim_settings *set, plim_error *err)
{
    return plim__saved_plan_read(out, &plim__os_linux, path, plim__alloc_from(set), err);
}

void plim_saved_plan_free(plim_saved_plan **saved)
{
    plim_saved_plan *s = *saved;
    if (!s) return;
    const plim__alloc a = s->alloc;
    plim__json_free(&s->root);
    plim__free(&a, s->dim);
    plim__free(&a, s->path);
    plim__free(&a, s);
    *saved = NULL;
}

const plim_saved_request *plim_saved_plan_request(const plim_saved_plan *saved)
{
    return &saved->request;
}

/* -------------------------------------------------------------------------------------------------------- comparing */

plim_status plim_saved_plan_check_model(const plim_saved_plan *saved, const char *model_path, plim_error *err)
{
    const plim_file_identity *was = &saved->request.model;
    plim_file_identity now;
    PLIM_TRY(plim_file_identify(&now, model_path, err));
    if (now.bytes != was->bytes)
        return plim__fail_at(err, PLIM_E_INVALID, saved->path, "'%.80s': the model '%.100s' has changed: %" PRIu64 " bytes when the plan was saved, %"
                             PRIu64 " now", saved->path, model_path, was->bytes, now.bytes);
    if (now.hash == was->hash) return PLIM_OK;
    return plim__fail_at(err, PLIM_E_INVALID, saved->path, "'%.80s': the model '%.100s' has changed: as many bytes as when the plan was saved, but others",
                         saved->path, model_path);
}

static plim_status same_count(const plim__json *object, const char *key, uint64_t now, plim_error *err)
{
    plim__json j;
    int64_t was;
    PLIM_TRY(plim__json_get(&j, object, key, err));
    PLIM_TRY(plim__json_integer(&was, &j, err));
    if (was >= 0 && (uint64_t)was == now) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_INVALID, &j, "%lld when the plan was saved, %" PRIu64 " now", (long long)was, now);
}

/* A number that is not finite is saved as null. */
static plim_status same_number(const plim__json *object, const char *key, double now, plim_error *err)
{
    plim__json j;
    double was = NAN;
    PLIM_TRY(plim__json_get(&j, object, key, err));
    if (plim__json_kind_of(&j) != PLIM__JSON_NULL) PLIM_TRY(plim__json_number(&was, &j, err));
    if (was == now || (isnan(was) && !isfinite(now))) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_INVALID, &j, "%.9g when the plan was saved, %.9g now", was, now);
}

/* Bytes that are no UTF-8, which names of models may have, are saved as U+FFFD each. */
static bool text_is(const char *was, const char *now)
{
    while (*was && *now) {
        if (*was == *now) was++;
        else if (strncmp(was, "\xef\xbf\xbd", 3) == 0 && (*now & 0x80)) was += 3;
        else return false;
        now++;
    }
    return *was == *now;
}

static plim_status same_text(const plim__json *object, const char *key, const char *now, plim_error *err)
{
    plim__json j;
    const char *was;
    char shown[2][80];
    PLIM_TRY(plim__json_get(&j, object, key, err));
    PLIM_TRY(plim__json_string(&was, &j, err));
    if (text_is(was, now)) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_INVALID, &j, "'%s' when the plan was saved, '%s' now",
                           plim__array_quote(shown[0], sizeof shown[0], (const uint8_t *)was, strlen(was)),
                           plim__array_quote(shown[1], sizeof shown[1], (const uint8_t *)now, strlen(now)));
}

static plim_status same_length(plim__json *list, const plim__json *object, const char *key, uint32_t now, plim_error *err)
{
    PLIM_TRY(plim__json_get(list, object, key, err));
    if (plim__json_kind_of(list) != PLIM__JSON_ARRAY) return plim__json_fail(err, PLIM_E_FORMAT, list, "expected a list");
    if (plim__json_count(list) == now) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_INVALID, list, "%u when the plan was saved, %u now", plim__json_count(list), now);
}

static plim_status same_moves(const plim__json *root, const plim_facts *now, plim_error *err)
{
    plim__json list, one;
    PLIM_TRY(same_length(&list, root, "moves", now->n_moves, err));
    for (uint32_t i = 0; i < now->n_moves; i++) {
        const plim_move *m = &now->move[i];
        PLIM_TRY(plim__json_at(&one, &list, i, err));
        PLIM_TRY(same_text(&one, "kind", m->kind, err));
        PLIM_TRY(same_text(&one, "what", m->what, err));
        PLIM_TRY(same_count(&one, "parts", m->parts, err));
        PLIM_TRY(same_count(&one, "saves_bytes", m->saves_bytes, err));
        PLIM_TRY(same_number(&one, "costs_seconds", m->costs_seconds, err));
    }
    return PLIM_OK;
}

static plim_status same_shape(const plim__json *value, const plim_shape *now, plim_error *err)
{
    plim__json list;
    int64_t was[PLIM_MAX_RANK];
    PLIM_TRY(same_length(&list, value, "shape", now->rank, err));
    PLIM_TRY(plim__json_integers(was, now->rank, &list, err));
    if (memcmp(was, now->dim, now->rank * sizeof *was) == 0) return PLIM_OK;
    return plim__json_fail(err, PLIM_E_INVALID, &list, "another one now than when the plan was saved");
}

static plim_status same_peak(const plim__json *root, const plim_facts *now, plim_error *err)
{
    plim__json peak, list, one;
    PLIM_TRY(plim__json_get(&peak, root, "peak", err));
    PLIM_TRY(same_text(&peak, "step", now->peak_step, err));
    PLIM_TRY(same_length(&list, &peak, "values", now->n_peak, err));
    for (uint32_t i = 0; i < now->n_peak; i++) {
        const plim_peak_value *v = &now->peak[i];
        PLIM_TRY(plim__json_at(&one, &list, i, err));
        PLIM_TRY(same_text(&one, "name", v->name, err));
        PLIM_TRY(same_shape(&one, &v->shape, err));
        PLIM_TRY(same_text(&one, "dtype", plim_dtype_name(v->dtype), err));
        PLIM_TRY(same_count(&one, "bytes", v->bytes, err));
        PLIM_TRY(same_text(&one, "why", v->why, err));
    }
    return PLIM_OK;
}

plim_status plim__saved_plan_compare(const plim_saved_plan *saved, const plim_facts *now, plim_error *err)
{
    const plim__json *root = &saved->root;
    const struct { const char *key; uint64_t now; } counts[] = {
        {"budget_bytes", now->budget_bytes}, {"planned_peak_bytes", now->planned_peak_bytes}, {"baseline_bytes", now->baseline_bytes},
        {"extras_bytes", now->extras_bytes}, {"arena_bytes", now->arena_bytes}, {"arena_bound_bytes", now->arena_bound_bytes},
        {"reserve_bytes", now->reserve_bytes}, {"floor_bytes", now->floor_bytes}, {"passes", now->passes},
        {"planned_read_bytes", now->read_bytes}, {"planned_write_bytes", now->write_bytes},
    };
    plim__json j;
    bool fits;
    PLIM_TRY(plim__json_get(&j, root, "fits", err));
    PLIM_TRY(plim__json_boolean(&fits, &j, err));
    if (fits != now->fits) return plim__json_fail(err, PLIM_E_INVALID, &j, "%s", fits ? "it does not fit any more" : "it fits now");
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) PLIM_TRY(same_count(root, counts[i].key, counts[i].now, err));
    PLIM_TRY(same_number(root, "estimated_seconds", now->planned_seconds, err));
    PLIM_TRY(same_moves(root, now, err));
    return same_peak(root, now, err);
}

plim_status plim_saved_plan_compare(const plim_saved_plan *saved, const plim_plan *plan, plim_error *err)
{
    return plim__saved_plan_compare(saved, plim_plan_facts(plan), err);
}
