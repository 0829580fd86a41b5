/* See pyread.h. Offsets of what every version has at one place stand here as names; the others are rows of a table, taken from the headers of each
 * version and checked by running the unit test on it (3.15: its fifth alpha).
 *
 *   object   refcount 0 | type 8 | ob_size 16 (of those with a variable size)
 *   dict     used 16 | keys 32 | values 40 (split table: the keys lie with the class)
 *   keys     up to 3.10: size 8, entries used 32, indices 40 and after them entries of hash, key, value
 *            from 3.11:  log2(size) 8, log2(bytes of indices) 9, kind 10, entries used 24, indices 32, then entries of key, value
 *                        (kind 0: hash, key, value)
 *   deque    blocks of 64 pointers between two links: left link 0 | pointers 8 | right link 520
 *   instance up to 3.10: a dict at tp_dictoffset.  3.11: values 4 words before the object, else a dict 3 words before.
 *            3.12: 3 words before it either (odd: values, less one).  From 3.13: a dict 3 words before, else values after the object's own
 *            fields */
#include "watch/pyread.h"

#include "watch/peer.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

struct plim__pyobjects {
    uint16_t version;
    bool old_keys;           /* dict keys as up to 3.10 */
    uint16_t values_header;  /* bytes before the values of a split table */
    uint16_t type_keys;      /* PyHeapTypeObject.ht_cached_keys */
    uint16_t code_count;     /* co_nlocalsplus; up to 3.10: co_nlocals */
    uint16_t code_names;     /* co_localsplusnames; up to 3.10: co_varnames, and: */
    uint16_t code_cells, code_free;
    uint16_t str_wide;       /* bytes before the characters of a str that is not ASCII */
    uint16_t tuple_items;    /* bytes before the items of a tuple */
};

static const struct plim__pyobjects objects_table[] = {
    {0x0308, true, 0, 872, 28, 72, 88, 80, 72, 24},
    {0x0309, true, 0, 864, 28, 72, 88, 80, 72, 24},
    {0x030a, true, 0, 872, 28, 72, 88, 80, 72, 24},
    {0x030b, false, 0, 872, 76, 96, 0, 0, 72, 24},
    {0x030c, false, 0, 880, 72, 96, 0, 0, 56, 24},
    {0x030d, false, 8, 880, 72, 96, 0, 0, 56, 24},
    {0x030e, false, 8, 880, 72, 96, 0, 0, 56, 32},
    {0x030f, false, 8, 880, 72, 96, 0, 0, 56, 32},
};

enum { /* PyTypeObject */
    TYPE_NAME = 24,
    TYPE_BASIC_SIZE = 32,
    TYPE_FLAGS = 168,
    TYPE_BASE = 256,
    TYPE_DICT_OFFSET = 288,
    TYPE_READ = 296,
};

enum { /* bits of tp_flags */
    FLAG_INLINE_VALUES = 2, /* 3.13 on */
    FLAG_MANAGED_DICT = 4,  /* 3.11 on */
    FLAG_HEAP = 9,
    FLAG_INT = 24,
    FLAG_LIST,
    FLAG_TUPLE,
    FLAG_BYTES,
    FLAG_STR,
    FLAG_DICT,
    FLAG_EXCEPTION,
    FLAG_TYPE,
};

enum { BASES = 32, DEQUE_BLOCK = 64, SLOTS_MAX = 1 << 24, SLOTS_OWN = 64, THREADS_LOOKED = 256, CLOCK_EVERY = 16 };
#define NO_KEY UINT32_MAX

static bool has(uint64_t flags, int bit)
{
    return flags >> bit & 1;
}

static uint64_t word_of(const void *bytes, size_t at)
{
    uint64_t w;
    memcpy(&w, (const char *)bytes + at, sizeof w);
    return w;
}

/* Of this thread's own work: what is found does not depend on what else the machine does. */
static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* An object's address: in user space, aligned as every allocator of objects aligns. */
static bool plausible(uint64_t address)
{
    return address >= 4096 && address < (UINT64_C(1) << 56) && address % 8 == 0;
}

void plim__pyreader_again(plim__pyreader *r, uint64_t ms, uint64_t objects)
{
    r->deadline_ns = now_ns() + ms * 1000000;
    r->left = objects;
    r->spent = false;
}

bool plim__pyreader_init(plim__pyreader *r, const plim__rec_process *process, uint64_t ms, uint64_t objects)
{
    memset(r, 0, sizeof *r);
    r->pid = process->pid;
    uint64_t words[PLIM__PY_DESCRIPTION_WORDS];
    if (!process->python_runtime || !plim__peer_read(r->pid, process->python_runtime, words, sizeof words)) memset(words, 0, sizeof words);
    const bool known = plim__pylayout_described(&r->layout, process->python_version, words) && r->layout.containers;
    for (size_t i = 0; i < sizeof objects_table / sizeof *objects_table; i++)
        if (objects_table[i].version == process->python_version >> 16) r->objects = &objects_table[i];
    r->code_type = process->python_code_type;
    r->str_type = process->python_str_type;
    plim__pyreader_again(r, ms, objects);
    return known && r->objects && r->pid > 0;
}

bool plim__pyreader_spent(plim__pyreader *r)
{
    if (!r->left || (r->left % CLOCK_EVERY == 0 && now_ns() > r->deadline_ns)) r->spent = true;
    return r->spent;
}

void plim__pyreader_hurry(plim__pyreader *r, uint64_t ms)
{
    const uint64_t end = now_ns() + ms * 1000000;
    if (end < r->deadline_ns) r->deadline_ns = end;
}

/* ------------------------------------------------------------------------------------------------------ types */

static plim__pykind kind_by_name(const char *name)
{
    static const struct {
        const char *name;
        plim__pykind kind;
    } known[] = {
        {"numpy.ndarray", PLIM__PY_NDARRAY},
        {"torch._C._TensorBase", PLIM__PY_TENSOR},
        {"torch._C.TensorBase", PLIM__PY_TENSOR},
        {"bytearray", PLIM__PY_BYTEARRAY},
        {"collections.deque", PLIM__PY_DEQUE},
        {"set", PLIM__PY_SET},
        {"frozenset", PLIM__PY_SET},
        {"cell", PLIM__PY_CELL},
        {"module", PLIM__PY_LEAF},
        {"function", PLIM__PY_LEAF},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i].name)) return known[i].kind;
    return PLIM__PY_INSTANCE;
}

/* Classes made from a known one are of its kind: along the bases. */
static plim__pykind kind_find(plim__pyreader *r, const char *type, uint64_t flags, int64_t dict_offset)
{
    static const struct {
        int bit;
        plim__pykind kind;
    } by_flag[] = {{FLAG_LIST, PLIM__PY_LIST}, {FLAG_TUPLE, PLIM__PY_TUPLE}, {FLAG_DICT, PLIM__PY_DICT}, {FLAG_STR, PLIM__PY_STR},
                   {FLAG_BYTES, PLIM__PY_BYTES}, {FLAG_INT, PLIM__PY_LEAF}, {FLAG_TYPE, PLIM__PY_LEAF}};
    for (size_t i = 0; i < sizeof by_flag / sizeof *by_flag; i++)
        if (has(flags, by_flag[i].bit)) return by_flag[i].kind;
    const bool attributes = dict_offset > 0 || has(flags, FLAG_MANAGED_DICT) || has(flags, FLAG_HEAP); /* the last: __slots__ */
    char bytes[TYPE_READ], name[64];
    memcpy(bytes, type, sizeof bytes);
    for (int i = 0; i < BASES; i++) {
        if (!plim__peer_text(r->pid, word_of(bytes, TYPE_NAME), name, sizeof name)) return PLIM__PY_LEAF;
        const plim__pykind kind = kind_by_name(name);
        if (kind != PLIM__PY_INSTANCE) return kind;
        const uint64_t base = word_of(bytes, TYPE_BASE);
        if (!base || !plim__peer_read(r->pid, base, bytes, sizeof bytes)) break;
    }
    return attributes ? PLIM__PY_INSTANCE : PLIM__PY_LEAF;
}

static bool type_name(plim__pyreader *r, uint64_t at, char *to, size_t size)
{
    char name[160];
    if (!plim__peer_text(r->pid, at, name, sizeof name) || !name[0]) return false;
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 127) return false;
    const char *dot = strrchr(name, '.');
    snprintf(to, size, "%.*s", (int)size - 1, dot ? dot + 1 : name);
    return true;
}

static void type_read(plim__pyreader *r, plim__pytype *t)
{
    char bytes[TYPE_READ];
    if (!plausible(t->address) || !plim__peer_read(r->pid, t->address, bytes, sizeof bytes)) return;
    const uint64_t meta = word_of(bytes, 8);
    if (!plausible(meta) || !has(plim__peer_word(r->pid, meta + TYPE_FLAGS), FLAG_TYPE)) return;
    if (!type_name(r, word_of(bytes, TYPE_NAME), t->name, sizeof t->name)) return;
    t->flags = word_of(bytes, TYPE_FLAGS);
    t->basic_size = word_of(bytes, TYPE_BASIC_SIZE);
    t->dict_offset = (int64_t)word_of(bytes, TYPE_DICT_OFFSET);
    t->kind = kind_find(r, bytes, t->flags, t->dict_offset);
    if (has(t->flags, FLAG_HEAP)) t->shared_keys = plim__peer_word(r->pid, t->address + r->objects->type_keys);
    t->good = true;
}

/* The row of a type, read when it is met first; NULL where there is no type, or the table is full. */
static const plim__pytype *type_of(plim__pyreader *r, uint64_t address)
{
    uint32_t i = (uint32_t)((address >> 4) * 0x9E3779B97F4A7C15u >> 40) % PLIM__PY_TYPES;
    while (r->type[i].address && r->type[i].address != address) i = (i + 1) % PLIM__PY_TYPES;
    plim__pytype *t = &r->type[i];
    if (!t->address) {
        if (!address || r->n_types >= PLIM__PY_TYPES * 3 / 4) return NULL;
        r->n_types++;
        t->address = address;
        type_read(r, t);
    }
    return t->good ? t : NULL;
}

bool plim__pyobject_read(plim__pyreader *r, uint64_t address, plim__pyobject *out)
{
    if (!plausible(address) || plim__pyreader_spent(r)) return false;
    r->left--;
    memset(out, 0, sizeof *out);
    out->address = address;
    /* The last object before memory that is not mapped may be shorter than what is read. */
    for (size_t n = sizeof out->word; !plim__peer_read(r->pid, address, out->word, n); n /= 2) {
        memset(out->word, 0, sizeof out->word);
        if (n == 16) return false;
    }
    out->type = type_of(r, out->word[1]);
    return out->type != NULL;
}

/* ------------------------------------------------------------------------------------------------------ texts */

static size_t utf8_put(char *to, uint32_t c)
{
    if (c < 0x80) return to[0] = (char)c, 1;
    if (c < 0x800) return to[0] = (char)(0xc0 | c >> 6), to[1] = (char)(0x80 | (c & 63)), 2;
    if (c < 0x10000) return to[0] = (char)(0xe0 | c >> 12), to[1] = (char)(0x80 | (c >> 6 & 63)), to[2] = (char)(0x80 | (c & 63)), 3;
    to[0] = (char)(0xf0 | (c >> 18 & 7)), to[1] = (char)(0x80 | (c >> 12 & 63));
    to[2] = (char)(0x80 | (c >> 6 & 63)), to[3] = (char)(0x80 | (c & 63));
    return 4;
}

/* state of a str: bits 2 to 4 bytes of a character, bit 5 compact, bit 6 ASCII. */
static uint32_t str_width(const plim__pyobject *o)
{
    return (uint32_t)(o->word[4] >> 2 & 7);
}

bool plim__pystr_read(plim__pyreader *r, uint64_t address, char *to, size_t size)
{
    plim__pyobject o;
    unsigned char raw[4 * 160];
    to[0] = 0;
    if (!plim__pyobject_read(r, address, &o) || o.type->kind != PLIM__PY_STR) return false;
    const uint32_t width = str_width(&o);
    const bool ascii = o.word[4] >> 6 & 1, compact = o.word[4] >> 5 & 1;
    if (!compact || (width != 1 && width != 2 && width != 4)) return false;
    uint64_t n = o.word[2];
    if (n > 160) n = 160;
    if (n > size - 1) n = size - 1;
    const uint64_t at = address + (uint64_t)(ascii ? r->layout.str_header : r->objects->str_wide);
    if (n && !plim__peer_read(r->pid, at, raw, n * width)) return false;
    size_t used = 0;
    for (uint64_t i = 0; i < n && used + 5 <= size + (ascii ? 4 : 0); i++) {
        uint32_t c = 0;
        memcpy(&c, raw + i * width, width);
        used += utf8_put(to + used, c);
    }
    to[used] = 0;
    return true;
}

uint64_t plim__pytext_bytes(const plim__pyobject *o, uint64_t *at)
{
    *at = o->address;
    switch (o->type->kind) {
    case PLIM__PY_STR: return o->word[2] < UINT64_C(1) << 56 ? o->word[2] * str_width(o) : 0;
    case PLIM__PY_BYTES: return o->word[2];
    case PLIM__PY_BYTEARRAY:
        *at = o->word[4]; /* ob_bytes; ob_alloc before it */
        return o->word[3];
    default: return 0;
    }
}

/* ------------------------------------------------------------------------------------------------------ items */

static bool items_flat(plim__pyitems *it, uint64_t base, uint64_t slots, uint32_t stride, uint32_t value)
{
    if (slots > SLOTS_MAX) return false;
    it->base = base;
    it->slots = slots;
    it->stride = stride;
    it->key = NO_KEY;
    it->value = value;
    return true;
}

static uint64_t old_index_bytes(uint64_t size)
{
    return size <= 0xff ? size : size <= 0xffff ? size * 2 : size <= 0xffffffff ? size * 4 : size * 8;
}

/* The keys of a dict or of a class, and the values apart from them, if any. */
static bool items_keys(plim__pyitems *it, uint64_t keys, uint64_t values)
{
    unsigned char head[40];
    if (!plausible(keys) || !plim__peer_read(it->r->pid, keys, head, sizeof head)) return false;
    const bool old = it->r->objects->old_keys;
    const uint64_t size = old ? word_of(head, 8) : head[8] < 40 ? UINT64_C(1) << head[8] : UINT64_MAX;
    const uint64_t used = old ? word_of(head, 32) : word_of(head, 24);
    if (size > (uint64_t)SLOTS_MAX * 2 || used > size || (!old && head[9] > 40)) return false;
    const bool hashed = old || head[10] == 0;
    const uint64_t indices = old ? 40 + old_index_bytes(size) : 32 + (UINT64_C(1) << head[9]);
    if (!items_flat(it, keys + indices, used, hashed ? 3 : 2, hashed ? 2 : 1)) return false;
    it->key = it->value - 1;
    it->values = values ? values + it->r->objects->values_header : 0;
    it->table = keys;
    it->table_bytes = indices + size * 2 / 3 * it->stride * 8;
    if (values) it->table = it->table_bytes = 0; /* the class's, not this object's */
    return true;
}

static bool items_dict(plim__pyitems *it, const plim__pyobject *o)
{
    it->length = o->word[2];
    return items_keys(it, o->word[4], o->word[5]);
}

static bool items_dict_at(plim__pyitems *it, uint64_t address)
{
    plim__pyobject dict;
    return plim__pyobject_read(it->r, address, &dict) && dict.type->kind == PLIM__PY_DICT && items_dict(it, &dict);
}

/* The fields of an instance without a dict: __slots__, or members in C, some of which may be objects. They have no names here. */
static bool items_slots(plim__pyitems *it, const plim__pyobject *o)
{
    const uint64_t size = o->type->basic_size;
    return size > 16 && size <= 16 + 8 * SLOTS_OWN && items_flat(it, o->address + 16, (size - 16) / 8, 1, 0);
}

static bool items_attributes(plim__pyitems *it, const plim__pyobject *o)
{
    const plim__pytype *t = o->type;
    const uint32_t version = it->r->objects->version;
    if (version < 0x030b || !has(t->flags, FLAG_MANAGED_DICT)) {
        if (t->dict_offset <= 0) return items_slots(it, o);
        return items_dict_at(it, plim__peer_word(it->r->pid, o->address + (uint64_t)t->dict_offset));
    }
    uint64_t before[2];
    if (!plim__peer_read(it->r->pid, o->address - 32, before, sizeof before)) return false;
    if (version == 0x030b) return before[0] ? items_keys(it, t->shared_keys, before[0]) : items_dict_at(it, before[1]);
    if (version == 0x030c && before[1] & 1) return items_keys(it, t->shared_keys, before[1] + 1);
    if (before[1]) return items_dict_at(it, before[1]);
    if (version < 0x030d || !has(t->flags, FLAG_INLINE_VALUES)) return false;
    const uint64_t values = o->address + t->basic_size;
    const bool valid = plim__peer_word(it->r->pid, values) >> 24 & 0xff;
    return valid && items_keys(it, t->shared_keys, values);
}

bool plim__pyitems_open(plim__pyitems *it, plim__pyreader *r, const plim__pyobject *o)
{
    memset(it, 0, offsetof(plim__pyitems, chunk));
    it->r = r;
    it->length = o->word[2];
    switch (o->type->kind) {
    case PLIM__PY_LIST:
        it->table = o->word[3];
        it->table_bytes = o->word[4] <= SLOTS_MAX ? o->word[4] * 8 : 0; /* room for `allocated` items */
        return items_flat(it, o->word[3], o->word[2], 1, 0);
    case PLIM__PY_TUPLE: return items_flat(it, o->address + r->objects->tuple_items, o->word[2], 1, 0);
    case PLIM__PY_SET:
        it->length = o->word[3];
        it->table = o->word[5];
        it->table_bytes = o->word[4] <= SLOTS_MAX ? (o->word[4] + 1) * 16 : 0;
        return items_flat(it, o->word[5], o->word[4] + 1, 2, 0);
    case PLIM__PY_DEQUE: /* leftblock 24, leftindex 40 */
        it->deque = true;
        it->next = o->word[5];
        return o->word[5] < DEQUE_BLOCK && items_flat(it, o->word[3], o->word[2] + o->word[5], 1, 0);
    case PLIM__PY_DICT: return items_dict(it, o);
    case PLIM__PY_INSTANCE: it->length = 0; return items_attributes(it, o);
    default: return false;
    }
}

bool plim__pyitems_pointers(plim__pyitems *it, plim__pyreader *r, uint64_t at, uint64_t n)
{
    memset(it, 0, offsetof(plim__pyitems, chunk));
    it->r = r;
    it->length = n;
    return items_flat(it, at, n, 1, 0);
}

/* Reads the slots from `next` on: as many as there is room for, or the rest. */
static bool chunk_fill(plim__pyitems *it)
{
    const int pid = it->r->pid;
    if (plim__pyreader_spent(it->r)) return false;
    it->from = it->next;
    if (it->deque) {
        uint64_t block[DEQUE_BLOCK + 2]; /* left link, pointers, right link */
        if (!plausible(it->base) || !plim__peer_read(pid, it->base, block, sizeof block)) return false;
        it->base = block[DEQUE_BLOCK + 1];
        it->from -= it->from % DEQUE_BLOCK;
        it->n = DEQUE_BLOCK;
        memcpy(it->chunk, block + 1, sizeof block - 16);
        return true;
    }
    it->n = it->slots - it->next;
    if (it->n > PLIM__PY_CHUNK / it->stride) it->n = PLIM__PY_CHUNK / it->stride;
    if (it->values && !plim__peer_read(pid, it->values + it->next * 8, it->chunk_values, it->n * 8)) return false;
    return plausible(it->base) && plim__peer_read(pid, it->base + it->next * it->stride * 8, it->chunk, it->n * it->stride * 8);
}

bool plim__pyitems_next(plim__pyitems *it, uint64_t *key, uint64_t *value)
{
    while (it->next < it->slots && !it->r->spent) {
        if (it->next >= it->from + it->n && !chunk_fill(it)) return false;
        const uint64_t i = it->next++ - it->from, *slot = it->chunk + i * it->stride;
        *key = it->key == NO_KEY ? 0 : slot[it->key];
        *value = it->values ? it->chunk_values[i] : slot[it->value];
        if (*value) return true;
    }
    return false;
}

void plim__pyitems_seek(plim__pyitems *it, uint64_t slot)
{
    it->next = slot;
    it->from = it->n = 0;
}

uint64_t plim__pydict_find(plim__pyreader *r, uint64_t dict, const char *key)
{
    plim__pyobject o;
    plim__pyitems it;
    uint64_t name, value;
    char text[64];
    if (!plim__pyobject_read(r, dict, &o) || o.type->kind != PLIM__PY_DICT || !plim__pyitems_open(&it, r, &o)) return 0;
    while (plim__pyitems_next(&it, &name, &value))
        if (plim__pystr_read(r, name, text, sizeof text) && !strcmp(text, key)) return value;
    return 0;
}

/* ----------------------------------------------------------------------------------------------------- frames */

uint64_t plim__pyframe_first(plim__pyreader *r, uint64_t thread_state)
{
    if (!plausible(thread_state)) return 0;
    const plim__pylayout *l = &r->layout;
    const uint64_t at = plim__peer_word(r->pid, thread_state + (uint64_t)l->thread_frame);
    if (l->cframe_current < 0) return at;
    return plausible(at) ? plim__peer_word(r->pid, at + (uint64_t)l->cframe_current) : 0;
}

/* Appends the names in the tuple at `tuple`. */
static void names_add(plim__pyreader *r, plim__pyframe *f, uint64_t tuple, uint32_t *n)
{
    plim__pyobject o;
    if (!plim__pyobject_read(r, tuple, &o) || o.type->kind != PLIM__PY_TUPLE) return;
    uint64_t take = o.word[2];
    if (take > PLIM__PY_LOCALS - *n) take = PLIM__PY_LOCALS - *n;
    if (take && plim__peer_read(r->pid, tuple + r->objects->tuple_items, f->name + *n, take * 8)) *n += (uint32_t)take;
}

static void locals_read(plim__pyreader *r, plim__pyframe *f, const char *code)
{
    const struct plim__pyobjects *o = r->objects;
    uint32_t n = 0;
    names_add(r, f, word_of(code, o->code_names), &n);
    if (o->code_cells) {
        names_add(r, f, word_of(code, o->code_cells), &n);
        names_add(r, f, word_of(code, o->code_free), &n);
    }
    if (!n || !plim__peer_read(r->pid, f->address + (uint64_t)r->layout.frame_locals, f->value, n * 8)) return;
    for (uint32_t i = 0; i < n; i++) f->value[i] = plim__pylayout_object(&r->layout, f->value[i]);
    f->n_locals = n;
}

static bool frame_fill(plim__pyreader *r, uint64_t code, plim__pyframe *f)
{
    char bytes[PLIM__PY_CODE_HEAD], name[160];
    if (!plausible(code) || !plim__peer_read(r->pid, code, bytes, sizeof bytes) || word_of(bytes, 8) != r->code_type) return false;
    const plim__pylayout *l = &r->layout;
    const int16_t at = l->code_qualname >= 0 ? l->code_qualname : l->code_name;
    if (!plim__pystr_read(r, word_of(bytes, (size_t)at), name, sizeof name)) return false;
    const char *plain = name;
    for (const char *in; (in = strstr(plain, "<locals>."));) plain = in + strlen("<locals>.");
    snprintf(f->function, sizeof f->function, "%.*s", (int)sizeof f->function - 1, plain);
    f->code = code;
    locals_read(r, f, bytes);
    return true;
}

uint64_t plim__pyframe_read(plim__pyreader *r, uint64_t address, plim__pyframe *out, bool *ok)
{
    const plim__pylayout *l = &r->layout;
    *ok = false;
    memset(out, 0, sizeof *out);
    char bytes[PLIM__PY_FRAME_HEAD];
    if (!plausible(address) || plim__pyreader_spent(r) || !plim__peer_read(r->pid, address, bytes, sizeof bytes)) return 0;
    out->address = address;
    out->globals = word_of(bytes, (size_t)l->frame_globals);
    const bool skip = l->frame_owner >= 0 && l->owner_skip >= 0 && bytes[l->frame_owner] >= l->owner_skip;
    *ok = !skip && frame_fill(r, plim__pylayout_object(l, word_of(bytes, (size_t)l->frame_code)), out);
    return word_of(bytes, (size_t)l->frame_previous);
}

/* PyThreadState begins with links to the thread before and after it, and the interpreter, in every version. */
uint32_t plim__pythreads(plim__pyreader *r, uint64_t thread_state, uint64_t *out, uint32_t max)
{
    uint64_t head[3];
    uint32_t n = 0;
    if (!max || !plausible(thread_state) || !plim__peer_read(r->pid, thread_state, head, sizeof head)) return 0;
    const uint64_t interpreter = head[2];
    out[n++] = thread_state;
    for (int way = 0; way < 2; way++) {
        uint64_t at = head[way], link[3];
        for (int i = 0; i < THREADS_LOOKED && n < max && plausible(at); i++) {
            if (!plim__peer_read(r->pid, at, link, sizeof link) || link[2] != interpreter) break;
            out[n++] = at;
            at = link[way];
        }
    }
    return n;
}
