/* The model's file is decoded once more, for the names of all files that its tensors lie in: also those that no parameter has its data in belong to
 * the copy. The new files are all complete on the disk before the first of them appears, the model's own last. */
#include "models/onnx_save.h"
#include "formats/array_file.h"
#include "models/onnx.h"
#include "models/trained_copy.h"

#include <string.h>

#define FILES_MAX 4096u /* they are compared pairwise, and all new ones are open at once */

/* One file of the model: its own is number 0. */
typedef struct part {
    const char *location; /* "": the model's own file */
    char *from, *to;      /* in the arena */
    plim__trained_file file;
    plim__file_writer w;
} part;

typedef struct save {
    const plim__model *m;
    const plim__os *os;
    const char *model_path, *out_path;
    plim__onnx_arena arena;
    part *part; uint32_t n_parts, cap_parts;
} save;

/* --------------------------------------------------------------------------------------------------------- which files */

static bool has_parameters(const save *s, const char *path)
{
    for (uint32_t i = 0; i < s->m->n_params; i++)
        if (s->m->param[i].home.path && strcmp(s->m->param[i].home.path, path) == 0) return true;
    return false;
}

static plim_status fail_location(const save *s, const char *location, const char *what, plim_error *err)
{
    char shown[80];
    plim__array_quote(shown, sizeof shown, (const uint8_t *)location, strlen(location));
    return plim__array_fail(err, PLIM_E_UNSUPPORTED, s->model_path, 0, "external file '%s' %s", shown, what);
}

/* A part for the file; none where it is not there, and nothing was read from it. */
static plim_status add_part(save *s, const char *location, plim_error *err)
{
    for (uint32_t i = s->n_parts; i-- > 1;)
        if (strcmp(s->part[i].location, location) == 0) return PLIM_OK;
    if (s->n_parts == FILES_MAX) return fail_location(s, location, "is one of too many", err);
    PLIM_TRY(plim__grow(&s->arena.alloc, (void **)&s->part, &s->cap_parts, s->n_parts + 1, sizeof *s->part, err));
    if (!plim__onnx_stays_inside(location)) return fail_location(s, location, "is not inside the model's folder", err);
    part p = {.location = location, .from = plim__onnx_beside(&s->arena, s->model_path, location, err), .to = plim__onnx_beside(&s->arena, s->out_path, location, err)};
    if (!p.from || !p.to) return PLIM_E_NOMEM;
    if (strcmp(p.from, s->model_path) == 0) return PLIM_OK; /* the model's own file under its name */
    bool there;
    plim__stat now;
    PLIM_TRY(plim__trained_at(&now, &there, s->os, p.from, err));
    if (!there && !has_parameters(s, p.from)) return PLIM_OK;
    PLIM_TRY(plim__trained_file_open(&p.file, s->m, s->os, p.from, err));
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (s->part[i].file.stat.inode == p.file.stat.inode && s->part[i].file.stat.device == p.file.stat.device) {
            plim__trained_file_close(&p.file, s->m, s->os);
            return fail_location(s, location, "has another name in the model, too", err);
        }
    s->part[s->n_parts++] = p;
    return PLIM_OK;
}

static plim_status add_tensor(save *s, const plim__onnx_tensor *t, plim_error *err)
{
    return t && t->external && t->location ? add_part(s, t->location, err) : PLIM_OK;
}

static plim_status add_files(save *s, const plim__onnx_file *file, plim_error *err)
{
    for (uint32_t i = 0; i < file->n_inits; i++) PLIM_TRY(add_tensor(s, &file->init[i], err));
    for (uint32_t i = 0; i < file->n_nodes; i++)
        for (uint32_t k = 0; k < file->node[i].n_attr; k++) PLIM_TRY(add_tensor(s, file->node[i].attr[k].t, err));
    return PLIM_OK;
}

static plim_status find_files(save *s, plim_error *err)
{
    plim__onnx_file file = {0};
    PLIM_TRY(plim__grow(&s->arena.alloc, (void **)&s->part, &s->cap_parts, 1, sizeof *s->part, err));
    part *own = &s->part[0];
    *own = (part){.location = "", .from = (char *)(uintptr_t)s->model_path, .to = (char *)(uintptr_t)s->out_path};
    PLIM_TRY(plim__trained_file_open(&own->file, s->m, s->os, s->model_path, err));
    s->n_parts = 1;
    plim__wire *wire = plim__onnx_new(&s->arena, 1, sizeof *wire, err);
    if (!wire) return PLIM_E_NOMEM;
    plim__wire_init(wire, s->os, own->file.from.fd, own->file.stat.size, s->model_path, "ModelProto");
    PLIM_TRY(plim__onnx_decode(&file, wire, &s->arena, err));
    return add_files(s, &file, err);
}

/* --------------------------------------------------------------------------------------------------------- may it be written */

/* What is there under the name of a copy of external data: not the original's, and only to be replaced together with the model that it belongs to. */
static plim_status check_external(const save *s, const part *p, bool replaced, plim_error *err)
{
    plim__stat now = {0};
    bool there;
    if (strcmp(p->to, s->out_path) == 0) return fail_location(s, p->location, "would be overwritten by the model itself; give it another name", err);
    PLIM_TRY(plim__trained_at(&now, &there, s->os, p->to, err));
    if (!there) return PLIM_OK;
    for (uint32_t i = 0; i < s->n_parts; i++)
        if (s->part[i].file.stat.inode == now.inode && s->part[i].file.stat.device == now.device)
            return plim__fail_at(err, PLIM_E_INVALID, p->to,
                                 "the model's data is in '%.150s' beside it, which a copy in the same folder would overwrite: save in another folder",
                                 p->to);
    if (!replaced)
        return plim__fail_at(err, PLIM_E_INVALID, p->to,
                             "'%.150s' is there already, and may belong to another model: save in another folder, or remove it", p->to);
    return PLIM_OK;
}

static plim_status check(const save *s, plim_error *err)
{
    plim__stat now;
    uint64_t patches = 0;
    bool replaced;
    PLIM_TRY(plim__trained_at(&now, &replaced, s->os, s->out_path, err));
    for (uint32_t i = 0; i < s->n_parts; i++) patches += s->part[i].file.n_patches;
    PLIM_TRY(plim__trained_all(s->m, patches, s->model_path, err));
    PLIM_TRY(plim__trained_apart(&s->part[0].file, s->os, s->out_path, err));
    for (uint32_t i = 1; i < s->n_parts; i++) PLIM_TRY(check_external(s, &s->part[i], replaced, err));
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------------- the whole */

static plim_status write_part(const save *s, part *p, plim__tensor_reader reader, plim_error *err)
{
    const plim__trained_file *f = &p->file;
    PLIM_TRY(plim__file_writer_open(&p->w, s->os, p->to, f->stat.size, err));
    if (!reader.read) return PLIM_OK;
    PLIM_TRY(plim__file_writer_patched(&p->w, f->from, 0, f->stat.size, f->patch, f->n_patches, reader, err));
    PLIM_TRY(plim__trained_file_same(f, s->os, err));
    return plim__file_writer_finish(&p->w, err);
}

static plim_status run(save *s, plim__tensor_reader reader, plim_error *err)
{
    PLIM_TRY(find_files(s, err));
    PLIM_TRY(check(s, err));
    for (uint32_t i = 0; i < s->n_parts; i++) PLIM_TRY(write_part(s, &s->part[i], reader, err));
    for (uint32_t i = s->n_parts; reader.read && i-- > 0;) PLIM_TRY(plim__file_writer_commit(&s->part[i].w, err));
    return PLIM_OK;
}

plim_status plim__onnx_save(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *model_path,
                            const char *out_path, plim_error *err)
{
    save s = {.m = m, .os = os, .model_path = model_path, .out_path = out_path, .arena = {.alloc = m->graph->alloc}};
    const plim_status status = run(&s, reader, err);
    for (uint32_t i = 0; i < s.n_parts; i++) {
        plim__file_writer_drop(&s.part[i].w);
        plim__trained_file_close(&s.part[i].file, m, os);
    }
    plim__free(&s.arena.alloc, s.part);
    plim__onnx_arena_free(&s.arena);
    return status;
}
