#include "watch/line_frame.h"

#include "core/alloc.h"
#include "watch/peer.h"
#include "watch/pyread.h"

#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

enum { TIME_MS = 100, OBJECTS = 20000, FRAMES = 64, ALIKE_MAX = 4096 };

typedef struct finder {
    plim__pyreader reader;
    plim__pyframe frame;
} finder;

/* ----------------------------------------------------------------------------------------------------- objects */

/* PyLongObject: until 3.11 the number of digits, negative for a negative number; later the number times 8, with the sign in the lowest bits. Digits
 * have 30 bits. */
static bool int_read(const plim__pyreader *r, const plim__pyobject *o, plim__line_value *out)
{
    const bool tagged = r->layout.version >= 0x030c;
    const int64_t size = (int64_t)o->word[2];
    const uint64_t digits = tagged ? o->word[2] >> 3 : (uint64_t)(size < 0 ? -size : size);
    const bool negative = tagged ? (o->word[2] & 3) == 2 : size < 0;
    if (digits > 2) return false;
    uint64_t n = digits > 0 ? o->word[3] & 0x3fffffff : 0;
    if (digits > 1) n |= (o->word[3] >> 32 & 0x3fffffff) << 30;
    *out = (plim__line_value){.kind = PLIM__LINE_INT, .integer = negative ? -(int64_t)n : (int64_t)n};
    return true;
}

/* See pyarrays.c for the layout. */
static bool array_read(const plim__pyreader *r, const plim__pyobject *o, plim__line_value *out)
{
    unsigned char descr[48];
    uint64_t stride[PLIM__LINE_DIMS];
    const uint32_t n = (uint32_t)o->word[3];
    *out = (plim__line_value){.kind = PLIM__LINE_ARRAY, .ndim = n, .c_order = true, .one_piece = true};
    if (n > PLIM__LINE_DIMS || strcmp(o->type->name, "ndarray")) return false; /* classes made from it compute otherwise */
    if (n && (!plim__peer_read(r->pid, o->word[4], out->dim, n * sizeof *out->dim) || !plim__peer_read(r->pid, o->word[5], stride, n * sizeof *stride)))
        return false;
    if (!plim__peer_read(r->pid, o->word[7], descr, sizeof descr)) return false;
    uint32_t size, alignment;
    memcpy(&size, descr + 32, sizeof size);
    memcpy(&alignment, descr + 36, sizeof alignment);
    if (!alignment) memcpy(&size, descr + 40, sizeof size);
    out->type = (char)descr[24];
    out->each = size;
    if (!strchr("biufc", out->type) || !size || size > 16) return false;
    uint64_t c = size, f = size;
    bool f_order = true;
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t last = n - 1 - i;
        if (out->dim[last] > 1 && stride[last] != c) out->c_order = false;
        if (out->dim[i] > 1 && stride[i] != f) f_order = false;
        c *= out->dim[last];
        f *= out->dim[i];
    }
    out->one_piece = out->c_order || f_order;
    return true;
}

static bool value_read(plim__pyreader *r, uint64_t address, plim__line_value *out);

static bool items_alike(const plim__line_value *a, const plim__line_value *b)
{
    return a->kind == b->kind && a->kind == PLIM__LINE_ARRAY && a->ndim == b->ndim && a->type == b->type && a->each == b->each &&
           !memcmp(a->dim, b->dim, a->ndim * sizeof *a->dim);
}

/* The items of a list: all of a short one, or one for all where they are alike. */
static bool list_read(plim__pyreader *r, uint64_t address, plim__line_value *out, plim__line_value items[PLIM__LINE_DIMS])
{
    plim__pyobject o;
    plim__pyitems it;
    uint64_t key, at, n = 0;
    *out = (plim__line_value){.kind = PLIM__LINE_LIST, .alike = true};
    if (!plim__pyobject_read(r, address, &o) || !plim__pyitems_open(&it, r, &o) || it.length > ALIKE_MAX) return false;
    while (plim__pyitems_next(&it, &key, &at)) {
        plim__line_value v;
        if (!value_read(r, at, &v) || v.kind == PLIM__LINE_LIST) return false;
        if (n && !items_alike(&items[0], &v)) out->alike = false;
        if (n < PLIM__LINE_DIMS) items[n] = v;
        n++;
    }
    out->count = n;
    if (n == 1) out->alike = false;
    return n == it.length && n > 0 && (out->alike || n <= PLIM__LINE_DIMS);
}

static bool value_read(plim__pyreader *r, uint64_t address, plim__line_value *out)
{
    plim__pyobject o;
    if (!plim__pyobject_read(r, address, &o)) return false;
    const char *type = o.type->name;
    *out = (plim__line_value){.kind = PLIM__LINE_OBJECT};
    switch (o.type->kind) {
    case PLIM__PY_NDARRAY: return array_read(r, &o, out);
    case PLIM__PY_LIST:
    case PLIM__PY_TUPLE: out->kind = PLIM__LINE_LIST; return true;
    case PLIM__PY_STR: out->kind = PLIM__LINE_TEXT_OF, out->count = o.word[2]; return plim__pystr_read(r, address, out->text, sizeof out->text);
    case PLIM__PY_BYTES:
    case PLIM__PY_BYTEARRAY: out->kind = PLIM__LINE_BYTES, out->count = o.word[2], out->view = o.type->kind == PLIM__PY_BYTEARRAY; return true;
    default: break;
    }
    if (!strcmp(type, "int") || !strcmp(type, "bool")) return int_read(r, &o, out);
    if (!strcmp(type, "float")) {
        out->kind = PLIM__LINE_FLOAT;
        memcpy(&out->number, &o.word[2], sizeof out->number);
        return true;
    }
    if (!strcmp(type, "module") || !strcmp(type, "type") || strstr(type, "function") || strstr(type, "method")) return false;
    snprintf(out->text, sizeof out->text, "%s", type);
    return true;
}

/* -------------------------------------------------------------------------------------------------------- names */

static uint64_t name_find(finder *f, const char *name)
{
    char text[64];
    for (uint32_t i = 0; i < f->frame.n_locals; i++)
        if (f->frame.value[i] && plim__pystr_read(&f->reader, f->frame.name[i], text, sizeof text) && !strcmp(text, name)) return f->frame.value[i];
    return plim__pydict_find(&f->reader, f->frame.globals, name);
}

static bool name_value(void *ctx, const char *name, plim__line_value *out, plim__line_value items[PLIM__LINE_DIMS])
{
    finder *f = ctx;
    const uint64_t address = name_find(f, name);
    if (!address || !value_read(&f->reader, address, out)) return false;
    return out->kind != PLIM__LINE_LIST || list_read(&f->reader, address, out, items);
}

static bool file_bytes(void *ctx, const char *path, uint64_t *out)
{
    const finder *f = ctx;
    char full[PLIM__LINE_TEXT + 64];
    struct stat st;
    snprintf(full, sizeof full, "/proc/%d/%s%s", f->reader.pid, path[0] == '/' ? "root" : "cwd/", path);
    if (stat(full, &st) || !S_ISREG(st.st_mode)) return false;
    *out = (uint64_t)st.st_size;
    return true;
}

static bool frame_find(finder *f, uint64_t thread_state, uint64_t code)
{
    uint64_t at = plim__pyframe_first(&f->reader, thread_state);
    for (uint32_t i = 0; at && i < FRAMES; i++) {
        bool ok;
        const uint64_t outside = plim__pyframe_read(&f->reader, at, &f->frame, &ok);
        if (ok && f->frame.code == code) return true;
        at = outside;
    }
    return false;
}

bool plim__line_frame_needs(plim__line_needs *out, const plim__rec_process *process, uint64_t thread_state, uint64_t code, const char *source,
                            uint64_t asked, uint64_t held)
{
    const plim__alloc alloc = {0};
    finder *f = process->python_version && thread_state ? plim__new(&alloc, 1, sizeof *f, NULL) : NULL;
    const plim__line_names names = {.ctx = f, .value = name_value, .file_bytes = file_bytes};
    const bool known = f && plim__pyreader_init(&f->reader, process, TIME_MS, OBJECTS) && frame_find(f, thread_state, code) &&
                       plim__line_needs_find(out, source, asked, held, &names) && !plim__pyreader_spent(&f->reader);
    plim__free(&alloc, f);
    return known;
}
