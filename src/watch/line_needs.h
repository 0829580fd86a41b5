/* What a line of NumPy asks for, allocation by allocation: its text is gone through as the interpreter would, with shapes and types in the place of
 * values. So it can be told what the line will still ask for after the request that was refused, and which budget it would need to run.
 *
 * Known are arithmetic with broadcasting (and NumPy's reuse of temporaries in place), indexing, and the functions of the table in line_calls.c. A line
 * with anything else in it is not known, and neither is one whose allocations do not contain the request that was really made. */
#ifndef PLIM_WATCH_LINE_NEEDS_H
#define PLIM_WATCH_LINE_NEEDS_H

#include <stdbool.h>
#include <stdint.h>

enum { PLIM__LINE_DIMS = 8, PLIM__LINE_TEXT = 128, PLIM__LINE_TEMPS = 64 };

typedef enum plim__line_kind {
    PLIM__LINE_NONE,
    PLIM__LINE_INT,
    PLIM__LINE_FLOAT,
    PLIM__LINE_TEXT_OF, /* a str: `text` where it is short, `count` characters */
    PLIM__LINE_BYTES,   /* `count` of them */
    PLIM__LINE_ARRAY,
    PLIM__LINE_LIST,    /* or tuple: `count` items, from `item` on in the pool; a variable's: all as the one item there */
    PLIM__LINE_OBJECT,  /* of the type `text` */
    PLIM__LINE_DTYPE,
    PLIM__LINE_SLICE,
    PLIM__LINE_ELLIPSIS,
    PLIM__LINE_PATH, /* a dotted name of NumPy, or a method of `item` */
} plim__line_kind;

typedef struct plim__line_value {
    plim__line_kind kind;
    uint32_t ndim;
    uint64_t dim[PLIM__LINE_DIMS];
    char type;      /* of an array or dtype: b i u f c */
    uint32_t each;  /* bytes of an element */
    bool c_order;   /* an array in one piece, the last dimension innermost */
    bool one_piece; /* in that order, or in the reverse */
    bool view;      /* it shows memory of another array */
    int64_t integer;
    double number;
    uint64_t count;
    bool alike; /* the items of a list are all as its first */
    char text[PLIM__LINE_TEXT];
    uint32_t owner; /* the temporary that holds its memory, counted from 1; 0: none of this line */
    uint32_t item;
} plim__line_value;

/** Where names and files are looked up. */
typedef struct plim__line_names {
    void *ctx;
    bool (*value)(void *ctx, const char *name, plim__line_value *out, plim__line_value items[PLIM__LINE_DIMS]); /* items: of a list, or the first */
    bool (*file_bytes)(void *ctx, const char *path, uint64_t *out);
} plim__line_names;

/** The requests of a line, from the one that was refused on. */
typedef struct plim__line_needs {
    struct {
        uint64_t bytes; /* of the request */
        uint64_t more;  /* what the line has with it, beyond what it had before the one that was refused */
    } request[PLIM__LINE_TEMPS];
    uint32_t n;
} plim__line_needs;

/** @param source  the line, without indentation
 *  @param asked   bytes of the request that was refused
 *  @param held    bytes of large blocks that this line holds already
 *  @return false where the line is not known */
bool plim__line_needs_find(plim__line_needs *out, const char *source, uint64_t asked, uint64_t held, const plim__line_names *names);

#endif
