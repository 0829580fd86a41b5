/* Objects of a CPython interpreter, read out of another process's memory: types, texts, the items of containers, attributes of instances, frames and
 * their locals. Nothing is believed without a look at its type, and every type is looked at once (its metatype must be a type). What cannot be read
 * is nothing. Reading goes on until the reader's time (of the processor) or its number of objects is spent; from then on everything is nothing.
 * CPython 3.8 to 3.15; a later one is nothing. */
#ifndef PLIM_WATCH_PYREAD_H
#define PLIM_WATCH_PYREAD_H

#include "watch/pylayout.h"
#include "watch/record.h"

#include <stddef.h>

typedef enum plim__pykind {
    PLIM__PY_LEAF, /* holds nothing that matters here: numbers, functions, classes, modules */
    PLIM__PY_STR,
    PLIM__PY_BYTES,
    PLIM__PY_BYTEARRAY,
    PLIM__PY_LIST,
    PLIM__PY_TUPLE,
    PLIM__PY_DICT,
    PLIM__PY_SET,
    PLIM__PY_DEQUE,
    PLIM__PY_CELL,
    PLIM__PY_NDARRAY,  /* numpy.ndarray and classes made from it */
    PLIM__PY_TENSOR,   /* torch.Tensor and classes made from it */
    PLIM__PY_INSTANCE, /* of anything else that has attributes or slots */
} plim__pykind;

typedef struct plim__pytype {
    uint64_t address; /* 0: free */
    plim__pykind kind;
    bool good; /* false: no type lies there */
    char name[32]; /* without its module */
    uint64_t flags, shared_keys, basic_size;
    int64_t dict_offset;
} plim__pytype;

enum { PLIM__PY_TYPES = 1024, PLIM__PY_WORDS = 8, PLIM__PY_CHUNK = 512, PLIM__PY_LOCALS = 256 };

typedef struct plim__pyreader {
    int pid;
    plim__pylayout layout;
    const struct plim__pyobjects *objects; /* offsets that only this file needs */
    uint64_t code_type, str_type;
    uint64_t deadline_ns, left; /* time, and objects, until it stops */
    bool spent;
    uint32_t n_types;
    plim__pytype type[PLIM__PY_TYPES]; /* by address, open addressing */
} plim__pyreader;

/** @return false where the interpreter's version is unknown */
bool plim__pyreader_init(plim__pyreader *r, const plim__rec_process *process, uint64_t ms, uint64_t objects);
bool plim__pyreader_spent(plim__pyreader *r);
/** A new allowance. */
void plim__pyreader_again(plim__pyreader *r, uint64_t ms, uint64_t objects);
/** Brings the end nearer: at most `ms` from now. */
void plim__pyreader_hurry(plim__pyreader *r, uint64_t ms);

typedef struct plim__pyobject {
    uint64_t address;
    const plim__pytype *type;
    uint64_t word[PLIM__PY_WORDS]; /* its first words; zeros where they cannot be read */
} plim__pyobject;

/** @return false where there is no object */
bool plim__pyobject_read(plim__pyreader *r, uint64_t address, plim__pyobject *out);

/** The text of a str in UTF-8, cut to fit. */
bool plim__pystr_read(plim__pyreader *r, uint64_t address, char *to, size_t size);
/** Bytes of memory that a str, bytes or bytearray keeps its text in, and where. */
uint64_t plim__pytext_bytes(const plim__pyobject *o, uint64_t *at);

/* What a container or an instance holds, in its order. Slots may be empty: they are passed over. */
typedef struct plim__pyitems {
    plim__pyreader *r;
    uint64_t length;        /* items, as the object says */
    uint64_t table, table_bytes; /* the memory that the items lie in, where it is apart from the object; else 0 */
    uint64_t base, slots;   /* the slots to look at */
    uint32_t stride, key, value; /* in words; key UINT32_MAX: none */
    uint64_t values;        /* values that lie apart from their keys; 0: they do not */
    bool deque;
    uint64_t next;          /* slot */
    uint64_t from, n;       /* slots in the chunk */
    uint64_t chunk[PLIM__PY_CHUNK], chunk_values[PLIM__PY_CHUNK];
} plim__pyitems;

/** The items of a list, tuple, set or deque, the values of a dict, the attributes of an instance. @return false: it has none that can be read */
bool plim__pyitems_open(plim__pyitems *it, plim__pyreader *r, const plim__pyobject *o);
/** n pointers to objects, as an array of dtype object has them. */
bool plim__pyitems_pointers(plim__pyitems *it, plim__pyreader *r, uint64_t at, uint64_t n);
/** @param key  address of the key of a dict, of the name of an attribute; else 0 */
bool plim__pyitems_next(plim__pyitems *it, uint64_t *key, uint64_t *value);
/** Goes on at this slot. Not for a deque. */
void plim__pyitems_seek(plim__pyitems *it, uint64_t slot);

typedef struct plim__pyframe {
    uint64_t address, code, globals;
    char function[64]; /* its qualified name where there is one, after the last "<locals>." */
    uint32_t n_locals;
    uint64_t name[PLIM__PY_LOCALS], value[PLIM__PY_LOCALS]; /* of locals, cells and free variables; addresses, 0: unset */
} plim__pyframe;

/** The innermost frame of a thread, 0 if there is none. */
uint64_t plim__pyframe_first(plim__pyreader *r, uint64_t thread_state);
/** Reads the frame at `address`. @param ok  false: it is no frame of code. @return the address of the one outside it, 0: there is none */
uint64_t plim__pyframe_read(plim__pyreader *r, uint64_t address, plim__pyframe *out, bool *ok);
/** All threads of the interpreter, the given one first. @return how many, at most `max` */
uint32_t plim__pythreads(plim__pyreader *r, uint64_t thread_state, uint64_t *out, uint32_t max);

/** The value of a dict's key that is this text, or 0. */
uint64_t plim__pydict_find(plim__pyreader *r, uint64_t dict, const char *key);

#endif
