/* See onnx_case.h. The readers are those of models; a file is opened, decoded and let go here. */
#include "models/onnx_case.h"
#include "formats/array_file.h"
#include "models/onnx.h"

#include <stdio.h>
#include <string.h>

enum { TYPE_STRING = 8, TYPE_COMPLEX64 = 14, TYPE_COMPLEX128 = 15, TYPE_BFLOAT16 = 16 };

/* An import that has only a file and an arena. */
static plim_status open_file(plim__onnx *x, const plim__os *os, const char *path, plim__alloc alloc, const char *message, plim_error *err)
{
    int fd;
    *x = (plim__onnx){.arena = {.alloc = alloc}};
    x->wire = plim__new(&alloc, 1, sizeof *x->wire, err);
    if (!x->wire) return PLIM_E_NOMEM;
    x->wire->fd = -1;
    PLIM_TRY(plim__file_open(&fd, &x->stat, os, path, err));
    plim__wire_init(x->wire, os, fd, x->stat.size, path, message);
    return PLIM_OK;
}

static void close_file(plim__onnx *x, const plim__os *os, plim__alloc alloc)
{
    if (x->wire && x->wire->fd >= 0) os->close(os->self, x->wire->fd);
    plim__onnx_arena_free(&x->arena);
    plim__free(&alloc, x->wire);
}

/* ------------------------------------------------------------------------------------------------------------ tensors */

static plim_status copy_tensor(plim__tensor *out, const plim__onnx_tensor *t, const plim__onnx_host *h, plim__alloc alloc, plim_error *err)
{
    const uint64_t bytes = h->count * plim_dtype_bytes(h->dtype);
    *out = (plim__tensor){.dtype = h->dtype, .shape = h->shape, .count = h->count, .data = plim__new(&alloc, bytes, 1, err)};
    if (!out->data) return PLIM_E_NOMEM;
    memcpy(out->data, h->data, bytes);
    plim__array_quote(out->name, sizeof out->name, (const uint8_t *)t->name, strlen(t->name));
    return PLIM_OK;
}

plim_status plim__tensor_read(plim__tensor *out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err)
{
    plim__onnx x;
    plim__onnx_tensor t;
    const plim__onnx_host *h = NULL;
    plim_status status;
    *out = (plim__tensor){0};
    PLIM_TRY_DONE(open_file(&x, os, path, alloc, "TensorProto", err));
    PLIM_TRY_DONE(plim__onnx_decode_tensor(&t, x.wire, &x.arena, err));
    PLIM_TRY_DONE(plim__onnx_load(&x, &t, &h, err));
    PLIM_TRY_DONE(copy_tensor(out, &t, h, alloc, err));
done:
    close_file(&x, os, alloc);
    return status;
}

void plim__tensor_free(plim__tensor *t, plim__alloc alloc)
{
    plim__free(&alloc, t->data);
    t->data = NULL;
}

/* -------------------------------------------------------------------------------------------------------------- briefs */

static void brief_port(plim__onnx_brief *b, const plim__onnx_info *in, const char *kind, uint32_t bit)
{
    const char *what = in->type == 0 ? "not a tensor"
                       : in->type == TYPE_STRING ? "a tensor of strings"
                       : in->type == TYPE_COMPLEX64 || in->type == TYPE_COMPLEX128 ? "a tensor of complex numbers" : NULL;
    char name[72];
    if (in->type == TYPE_BFLOAT16 && bit < 64) b->bf16 |= UINT64_C(1) << bit;
    if (!what || !b->numeric) return;
    b->numeric = false;
    plim__array_quote(name, sizeof name, (const uint8_t *)in->name, strlen(in->name));
    snprintf(b->other, sizeof b->other, "%s '%s' is %s", kind, name, what);
}

static bool has_data(const plim__onnx_file *f, const char *input)
{
    bool found = false;
    for (uint32_t i = 0; i < f->n_inits && !found; i++) found = !strcmp(f->init[i].name, input);
    return found;
}

static void brief_of(plim__onnx_brief *b, const plim__onnx_file *f)
{
    char op[40], domain[40] = "";
    *b = (plim__onnx_brief){.op = "several", .numeric = true, .n_outputs = f->n_outputs};
    if (f->n_nodes == 1) {
        const plim__onnx_node *n = &f->node[0];
        const bool own = n->domain[0] == 0 || !strcmp(n->domain, "ai.onnx");
        plim__array_quote(op, sizeof op, (const uint8_t *)n->op, strlen(n->op));
        if (!own) plim__array_quote(domain, sizeof domain, (const uint8_t *)n->domain, strlen(n->domain));
        snprintf(b->op, sizeof b->op, "%.40s%s%.20s", op, own ? "" : " of ", domain);
    }
    for (uint32_t i = 0; i < f->n_inputs; i++) {
        if (has_data(f, f->input[i].name)) continue;
        brief_port(b, &f->input[i], "input", b->n_inputs < 32 ? b->n_inputs : 64);
        b->n_inputs++;
    }
    for (uint32_t i = 0; i < f->n_outputs; i++) brief_port(b, &f->output[i], "output", i < 32 ? 32 + i : 64);
}

plim_status plim__onnx_brief_read(plim__onnx_brief *out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err)
{
    plim__onnx x;
    plim_status status;
    PLIM_TRY_DONE(open_file(&x, os, path, alloc, "ModelProto", err));
    PLIM_TRY_DONE(plim__onnx_decode(&x.file, x.wire, &x.arena, err));
    brief_of(out, &x.file);
done:
    close_file(&x, os, alloc);
    return status;
}
