/* From the wire to structs. Field numbers are those of onnx.proto (ONNX 1.16); what the import does not use is passed over. Data of tensors is not
 * read: its place is noted. Nothing recurses: a model holds a graph, that nodes, these attributes, these tensors; a graph in an attribute is
 * noted as such and not entered. */
#include "core/size.h"
#include "formats/array_file.h"
#include "models/onnx.h"

#include <string.h>

#define CHUNK_BYTES (UINT64_C(64) << 10)
#define TEXT_MAX 65536u        /* bytes of a name or another text */
#define ENTRIES_MAX (1u << 22) /* of any list */

/* ------------------------------------------------------------------------------------------------------- arena */

struct plim__onnx_chunk {
    plim__onnx_chunk *before;
    uint64_t used, bytes;
    _Alignas(16) uint8_t data[];
};

void *plim__onnx_new(plim__onnx_arena *a, uint64_t n, uint64_t size, plim_error *err)
{
    uint64_t bytes;
    if (!plim__mul(&bytes, n, size) || bytes > UINT64_MAX / 4) {
        plim__fail(err, PLIM_E_OVERFLOW, "an internal table is too large");
        return NULL;
    }
    bytes = plim__round_up(bytes ? bytes : 1, 16);
    if (!a->last || bytes > a->last->bytes - a->last->used) {
        const uint64_t room = bytes > CHUNK_BYTES ? bytes : CHUNK_BYTES;
        plim__onnx_chunk *c = plim__new(&a->alloc, 1, sizeof *c + room, err);
        if (!c) return NULL;
        c->before = a->last;
        c->bytes = room;
        a->last = c;
    }
    void *p = a->last->data + a->last->used;
    a->last->used += bytes;
    return p;
}

void plim__onnx_arena_free(plim__onnx_arena *a)
{
    while (a->last) {
        plim__onnx_chunk *before = a->last->before;
        plim__free(&a->alloc, a->last);
        a->last = before;
    }
}

/* ------------------------------------------------------------------------------------------------- its furniture */

typedef struct decoder {
    plim__wire *w;
    plim__onnx_arena *arena;
    plim__onnx_file *file;
} decoder;

/* Room for one more entry; what was there is copied, the old room stays with the arena. */
static plim_status push(decoder *d, void **list, uint32_t *n, uint32_t *cap, uint64_t size, void **entry, plim_error *err)
{
    PLIM_FAIL_IF(*n >= ENTRIES_MAX, err, PLIM_E_FORMAT, "%.100s: a %s with more than %u entries in a list", d->w->path, d->w->message, ENTRIES_MAX);
    if (*n == *cap) {
        const uint32_t more = *cap ? 2 * *cap : 4;
        uint8_t *wider = plim__onnx_new(d->arena, more, size, err);
        if (!wider) return PLIM_E_NOMEM;
        if (*n) memcpy(wider, *list, *n * size);
        *list = wider;
        *cap = more;
    }
    *entry = (uint8_t *)*list + (*n)++ * size;
    return PLIM_OK;
}

#define PUSH(d, list, n, cap, entry, err) push(d, (void **)&(list), &(n), &(cap), sizeof *(list), (void **)&(entry), err)

static plim_status text(decoder *d, const plim__wire_field *f, const char **out, plim_error *err)
{
    if (f->type != PLIM__WIRE_BYTES) return plim__wire_fail(d->w, f, err, "is not a text");
    if (f->bytes > TEXT_MAX) return plim__wire_fail(d->w, f, err, "is a text of more than 65536 bytes");
    char *copy = plim__onnx_new(d->arena, f->bytes + 1, 1, err);
    if (!copy) return PLIM_E_NOMEM;
    PLIM_TRY(plim__wire_copy(d->w, f, copy, err));
    if (memchr(copy, 0, f->bytes)) return plim__wire_fail(d->w, f, err, "is a text with a zero byte");
    *out = copy;
    return PLIM_OK;
}

static plim_status number(decoder *d, const plim__wire_field *f, int64_t *out, plim_error *err)
{
    if (f->type != PLIM__WIRE_VARINT) return plim__wire_fail(d->w, f, err, "is not an integer");
    *out = (int64_t)f->value;
    return PLIM_OK;
}

static plim_status real(decoder *d, const plim__wire_field *f, float *out, plim_error *err)
{
    if (f->type != PLIM__WIRE_FIXED32) return plim__wire_fail(d->w, f, err, "is not a float");
    const uint32_t bits = (uint32_t)f->value;
    memcpy(out, &bits, sizeof *out);
    return PLIM_OK;
}

/* Calls `each` for every field of the message in `f`. */
typedef plim_status each_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err);

static plim_status message(decoder *d, const plim__wire_field *f, const char *kind, each_field *each, void *into, plim_error *err)
{
    plim__wire_mark mark;
    plim__wire_field inner;
    bool more = true;
    PLIM_TRY(plim__wire_enter(d->w, f, kind, &mark, err));
    for (;;) {
        PLIM_TRY(plim__wire_next(d->w, &inner, &more, err));
        if (!more) break;
        PLIM_TRY(each(d, into, &inner, err));
    }
    plim__wire_leave(d->w, &mark);
    return PLIM_OK;
}

/* One or, packed, many integers: `add` for each. */
static plim_status integers(decoder *d, const plim__wire_field *f, plim_status (*add)(decoder *, void *, int64_t, plim_error *), void *into,
                            plim_error *err)
{
    if (f->type == PLIM__WIRE_VARINT) return add(d, into, (int64_t)f->value, err);
    if (f->type != PLIM__WIRE_BYTES) return plim__wire_fail(d->w, f, err, "is not a list of integers");
    for (uint64_t at = f->offset; at < f->offset + f->bytes;) {
        uint64_t value;
        PLIM_TRY(plim__wire_varint(d->w, &at, f->offset + f->bytes, &value, err));
        PLIM_TRY(add(d, into, (int64_t)value, err));
    }
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------- tensors */

typedef struct entry {
    const char *key, *value;
} entry;

static plim_status entry_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    entry *e = into;
    if (f->number == 1) return text(d, f, &e->key, err);
    if (f->number == 2) return text(d, f, &e->value, err);
    return PLIM_OK;
}

static plim_status external(decoder *d, plim__onnx_tensor *t, const plim__wire_field *f, plim_error *err)
{
    entry e = {"", ""};
    PLIM_TRY(message(d, f, "StringStringEntryProto", entry_field, &e, err));
    if (!strcmp(e.key, "location")) t->location = e.value;
    if (!strcmp(e.key, "offset")) t->ext_offset = e.value;
    if (!strcmp(e.key, "length")) t->ext_length = e.value;
    return PLIM_OK;
}

static plim_status add_dim(decoder *d, void *into, int64_t value, plim_error *err)
{
    plim__onnx_tensor *t = into;
    (void)d, (void)err;
    if (t->shape.rank < PLIM_MAX_RANK) t->shape.dim[t->shape.rank++] = value;
    if (t->dims < UINT32_MAX) t->dims++;
    return PLIM_OK;
}

static plim_status tensor_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_tensor *t = into;
    int64_t n = 0;
    switch (f->number) {
    case 1: return integers(d, f, add_dim, t, err);
    case 2: return number(d, f, &t->type, err);
    case 8: return text(d, f, &t->name, err);
    case 13: return external(d, t, f, err);
    case 14:
        PLIM_TRY(number(d, f, &n, err));
        t->external = n == 1;
        return PLIM_OK;
    case 3: /* a segment: only a part of the data */
        t->pieces = true;
        return PLIM_OK;
    case 4: case 5: case 6: case 7: case 9: case 10: case 11: /* float, int32, string, int64, raw, double, uint64 */
        t->pieces = t->pieces || t->field != 0;
        t->field = f->number;
        t->offset = f->offset;
        t->bytes = f->bytes;
        return PLIM_OK;
    }
    return PLIM_OK;
}

static plim_status tensor(decoder *d, const plim__wire_field *f, plim__onnx_tensor *t, plim_error *err)
{
    *t = (plim__onnx_tensor){.name = ""};
    return message(d, f, "TensorProto", tensor_field, t, err);
}

/* --------------------------------------------------------------------------------------------------------- nodes */

static plim_status add_int(decoder *d, void *into, int64_t value, plim_error *err)
{
    plim__onnx_attr *a = into;
    int64_t *to;
    PLIM_TRY(PUSH(d, a->ints, a->n_ints, a->cap_ints, to, err));
    *to = value;
    return PLIM_OK;
}

static plim_status floats(decoder *d, plim__onnx_attr *a, const plim__wire_field *f, plim_error *err)
{
    float *to;
    if (f->type != PLIM__WIRE_BYTES) {
        PLIM_TRY(PUSH(d, a->floats, a->n_floats, a->cap_floats, to, err));
        return real(d, f, to, err);
    }
    if (f->bytes % 4 != 0) return plim__wire_fail(d->w, f, err, "is a list of floats of 4 bytes each that is not a multiple of 4 bytes long");
    for (uint64_t at = 0; at < f->bytes; at += 4) {
        const plim__wire_field one = {.offset = f->offset + at, .bytes = 4};
        uint8_t raw[4];
        PLIM_TRY(plim__wire_copy(d->w, &one, raw, err));
        const uint32_t bits = raw[0] | (uint32_t)raw[1] << 8 | (uint32_t)raw[2] << 16 | (uint32_t)raw[3] << 24;
        PLIM_TRY(PUSH(d, a->floats, a->n_floats, a->cap_floats, to, err));
        memcpy(to, &bits, sizeof *to);
    }
    return PLIM_OK;
}

static plim_status attr_tensor(decoder *d, plim__onnx_attr *a, const plim__wire_field *f, plim_error *err)
{
    a->t = plim__onnx_new(d->arena, 1, sizeof *a->t, err);
    return a->t ? tensor(d, f, a->t, err) : PLIM_E_NOMEM;
}

/* The type follows from the field in files of before the type had a field of its own (20). */
static plim_status attr_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_attr *a = into;
    static const uint8_t implied[] = {[2] = PLIM__ONNX_FLOAT, [3] = PLIM__ONNX_INT, [4] = PLIM__ONNX_STRING, [5] = PLIM__ONNX_TENSOR,
                                      [6] = PLIM__ONNX_GRAPH, [7] = PLIM__ONNX_FLOATS, [8] = PLIM__ONNX_INTS};
    if (f->number < sizeof implied && implied[f->number] && a->type == PLIM__ONNX_NONE) a->type = implied[f->number];
    float one = 0;
    int64_t n = 0;
    switch (f->number) {
    case 1: return text(d, f, &a->name, err);
    case 2:
        PLIM_TRY(real(d, f, &one, err));
        a->f = (double)one;
        return PLIM_OK;
    case 3: return number(d, f, &a->i, err);
    case 4: return text(d, f, &a->s, err);
    case 5: return attr_tensor(d, a, f, err);
    case 7: return floats(d, a, f, err);
    case 8: return integers(d, f, add_int, a, err);
    case 20:
        PLIM_TRY(number(d, f, &n, err));
        a->type = n >= 0 && n < 64 ? (uint32_t)n : 64;
        return PLIM_OK;
    }
    return PLIM_OK;
}

static plim_status node_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_node *n = into;
    const char **name;
    plim__onnx_attr *a;
    switch (f->number) {
    case 1:
        PLIM_TRY(PUSH(d, n->in, n->n_in, n->cap_in, name, err));
        return text(d, f, name, err);
    case 2:
        PLIM_TRY(PUSH(d, n->out, n->n_out, n->cap_out, name, err));
        return text(d, f, name, err);
    case 3: return text(d, f, &n->name, err);
    case 4: return text(d, f, &n->op, err);
    case 7: return text(d, f, &n->domain, err);
    case 5:
        PLIM_TRY(PUSH(d, n->attr, n->n_attr, n->cap_attr, a, err));
        *a = (plim__onnx_attr){.name = "", .s = ""};
        return message(d, f, "AttributeProto", attr_field, a, err);
    }
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------- values' descriptions */

static plim_status dim_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_dim *dim = into;
    if (f->number == 1) return number(d, f, &dim->value, err);
    if (f->number == 2) return text(d, f, &dim->param, err);
    return PLIM_OK;
}

static plim_status shape_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_info *info = into;
    if (f->number != 1) return PLIM_OK;
    plim__onnx_dim dim = {0};
    PLIM_TRY(message(d, f, "TensorShapeProto.Dimension", dim_field, &dim, err));
    if (info->rank < PLIM_MAX_RANK) info->dim[info->rank] = dim;
    if (info->rank < UINT32_MAX) info->rank++;
    return PLIM_OK;
}

static plim_status tensor_type_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_info *info = into;
    if (f->number == 1) return number(d, f, &info->type, err);
    if (f->number == 2) return message(d, f, "TensorShapeProto", shape_field, info, err);
    return PLIM_OK;
}

static plim_status type_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    return f->number == 1 ? message(d, f, "TypeProto.Tensor", tensor_type_field, into, err) : PLIM_OK;
}

static plim_status info_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_info *info = into;
    if (f->number == 1) return text(d, f, &info->name, err);
    if (f->number == 2) return message(d, f, "TypeProto", type_field, info, err);
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------ graph and model */

static plim_status graph_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    plim__onnx_file *o = into;
    plim__onnx_node *node;
    plim__onnx_tensor *init;
    plim__onnx_info *info;
    switch (f->number) {
    case 1:
        PLIM_TRY(PUSH(d, o->node, o->n_nodes, o->cap_nodes, node, err));
        *node = (plim__onnx_node){.name = "", .op = "", .domain = ""};
        return message(d, f, "NodeProto", node_field, node, err);
    case 2: return text(d, f, &o->name, err);
    case 5:
        PLIM_TRY(PUSH(d, o->init, o->n_inits, o->cap_inits, init, err));
        return tensor(d, f, init, err);
    case 11:
        PLIM_TRY(PUSH(d, o->input, o->n_inputs, o->cap_inputs, info, err));
        break;
    case 12:
        PLIM_TRY(PUSH(d, o->output, o->n_outputs, o->cap_outputs, info, err));
        break;
    case 15: return plim__array_fail(err, PLIM_E_UNSUPPORTED, d->w->path, f->offset, "sparse initializers are not supported");
    default: return PLIM_OK;
    }
    *info = (plim__onnx_info){.name = ""};
    return message(d, f, "ValueInfoProto", info_field, info, err);
}

typedef struct opset {
    const char *domain;
    int64_t version;
} opset;

static plim_status opset_field(decoder *d, void *into, const plim__wire_field *f, plim_error *err)
{
    opset *o = into;
    if (f->number == 1) return text(d, f, &o->domain, err);
    if (f->number == 2) return number(d, f, &o->version, err);
    return PLIM_OK;
}

static plim_status model_field(decoder *d, const plim__wire_field *f, plim_error *err)
{
    if (f->number == 7) {
        if (d->file->graph) return plim__wire_fail(d->w, f, err, "is a second graph");
        d->file->graph = true;
        return message(d, f, "GraphProto", graph_field, d->file, err);
    }
    if (f->number != 8) return PLIM_OK;
    opset o = {.domain = ""};
    PLIM_TRY(message(d, f, "OperatorSetIdProto", opset_field, &o, err));
    if (o.domain[0] == 0 || !strcmp(o.domain, "ai.onnx")) d->file->opset = o.version;
    else d->file->foreign = true;
    return PLIM_OK;
}

plim_status plim__onnx_decode_tensor(plim__onnx_tensor *out, plim__wire *w, plim__onnx_arena *arena, plim_error *err)
{
    decoder d = {.w = w, .arena = arena};
    plim__wire_field f;
    bool more = true;
    *out = (plim__onnx_tensor){.name = ""};
    for (;;) {
        PLIM_TRY(plim__wire_next(w, &f, &more, err));
        if (!more) break;
        PLIM_TRY(tensor_field(&d, out, &f, err));
    }
    if (out->type == 0) return plim__array_fail(err, PLIM_E_FORMAT, w->path, 0, "no data type in it: not a TensorProto");
    return PLIM_OK;
}

plim_status plim__onnx_decode(plim__onnx_file *out, plim__wire *w, plim__onnx_arena *arena, plim_error *err)
{
    *out = (plim__onnx_file){.name = ""};
    decoder d = {w, arena, out};
    plim__wire_field f;
    bool more = true;
    for (;;) {
        PLIM_TRY(plim__wire_next(w, &f, &more, err));
        if (!more) break;
        PLIM_TRY(model_field(&d, &f, err));
    }
    if (!out->graph) return plim__array_fail(err, PLIM_E_FORMAT, w->path, 0, "no graph in it: not an ONNX model");
    return PLIM_OK;
}
