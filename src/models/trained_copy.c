/* See the header. Nothing is written here. */
#include "models/trained_copy.h"
#include "formats/array_file.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>

static const plim__source *source_of(const plim__model *m, const plim__param *p) { return &m->graph->source[m->graph->value[p->value].source]; }

/* Its data is not what the model's file says, or will not be. */
static bool is_new(const plim__model *m, const plim__param *p)
{
    const plim__source *now = source_of(m, p);
    if (p->trainable || p->update != PLIM__NONE || !p->home.path) return true;
    return strcmp(now->path, p->home.path) != 0 || now->offset != p->home.offset || now->inode != p->home.inode;
}

static bool counts(const plim__model *m, const plim__param *p) { return m->graph->value[p->value].bytes > 0 && is_new(m, p); }

static bool lives_in(const plim__param *p, const char *path) { return p->home.path && strcmp(p->home.path, path) == 0; }

static uint32_t count_in(const plim__model *m, const char *path)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < m->n_params; i++) n += lives_in(&m->param[i], path);
    return n;
}

static plim_status fail_changed(const char *path, uint64_t was, uint64_t now, plim_error *err)
{
    return plim__fail_at(err, PLIM_E_CHANGED, path,
                         "'%.150s' changed since it was read (it had %llu bytes, now %llu): no copy of it can be made; save as .safetensors", path,
                         (unsigned long long)was, (unsigned long long)now);
}

static plim_status find_patches(plim__trained_file *f, const plim__model *m, plim_error *err)
{
    const char *path = f->from.path;
    for (uint32_t i = 0; i < m->n_params; i++) {
        const plim__param *p = &m->param[i];
        const plim__value *v = &m->graph->value[p->value];
        if (!lives_in(p, path)) continue;
        if (p->home.file_bytes != f->stat.size || p->home.mtime_ns != f->stat.mtime_ns)
            return fail_changed(path, p->home.file_bytes, f->stat.size, err);
        if (!counts(m, p)) continue;
        f->patch[f->n_patches++] = (plim__patch){.offset = p->home.offset, .bytes = plim__param_bytes(m, p), .index = i,
                                                 .swap = p->home.swap ? (uint32_t)plim_dtype_bytes(v->dtype) : 0};
    }
    plim__patches_sort(f->patch, f->n_patches);
    for (uint32_t i = 1; i < f->n_patches; i++) {
        const plim__patch *a = &f->patch[i - 1], *b = &f->patch[i];
        if (a->offset + a->bytes > b->offset) /* both lie inside the file */
            return plim__fail_at(err, PLIM_E_UNSUPPORTED, path,
                                 "'%.100s': '%.80s' and '%.80s' share bytes there, and have values of their own now; save as .safetensors", path,
                                 m->param[a->index].name, m->param[b->index].name);
    }
    return PLIM_OK;
}

plim_status plim__trained_file_open(plim__trained_file *f, const plim__model *m, const plim__os *os, const char *path, plim_error *err)
{
    *f = (plim__trained_file){.from = {.fd = -1, .path = path}};
    PLIM_TRY(plim__file_open(&f->from.fd, &f->stat, os, path, err));
    f->patch = plim__new(&m->graph->alloc, count_in(m, path), sizeof *f->patch, err);
    const plim_status status = f->patch ? find_patches(f, m, err) : PLIM_E_NOMEM;
    if (status != PLIM_OK) plim__trained_file_close(f, m, os);
    return status;
}

void plim__trained_file_close(plim__trained_file *f, const plim__model *m, const plim__os *os)
{
    if (f->from.fd >= 0) os->close(os->self, f->from.fd);
    plim__free(&m->graph->alloc, f->patch);
    *f = (plim__trained_file){.from = {.fd = -1}};
}

plim_status plim__trained_file_same(const plim__trained_file *f, const plim__os *os, plim_error *err)
{
    plim__stat now = {0};
    const int code = os->stat(os->self, f->from.fd, &now);
    if (code < 0) return plim__os_fail(code, "stat", f->from.path, 0, err);
    return now.size == f->stat.size && now.mtime_ns == f->stat.mtime_ns ? PLIM_OK : fail_changed(f->from.path, f->stat.size, now.size, err);
}

plim_status plim__trained_all(const plim__model *m, uint64_t patches, const char *path, plim_error *err)
{
    uint64_t wanted = 0;
    for (uint32_t i = 0; i < m->n_params; i++) {
        if (!counts(m, &m->param[i])) continue;
        wanted++;
        if (!m->param[i].home.path)
            return plim__fail_at(err, PLIM_E_UNSUPPORTED, path,
                                 "'%.150s' has no data of parameter '%.90s' that new values could replace; save as .safetensors", path,
                                 m->param[i].name);
    }
    if (wanted != patches)
        return plim__fail_at(err, PLIM_E_INVALID, path, "'%.200s' is not the file that the model was read from", path);
    return PLIM_OK;
}

plim_status plim__trained_at(plim__stat *out, bool *there, const plim__os *os, const char *path, plim_error *err)
{
    const int fd = os->open(os->self, path, O_PATH | O_CLOEXEC, 0);
    *there = fd >= 0;
    if (fd == -ENOENT || fd == -ENOTDIR) return PLIM_OK; /* who writes there will say what is wrong with the folder */
    if (fd < 0) return plim__os_fail(fd, "open", path, 0, err);
    const int code = os->stat(os->self, fd, out);
    os->close(os->self, fd);
    return code < 0 ? plim__os_fail(code, "stat", path, 0, err) : PLIM_OK;
}

plim_status plim__trained_apart(const plim__trained_file *f, const plim__os *os, const char *out_path, plim_error *err)
{
    plim__stat now = {0};
    bool there;
    PLIM_TRY(plim__trained_at(&now, &there, os, out_path, err));
    if (!there || now.inode != f->stat.inode || now.device != f->stat.device) return PLIM_OK;
    return plim__fail_at(err, PLIM_E_INVALID, out_path, "'%.200s' is the model that is trained: give the trained copy another name", out_path);
}
