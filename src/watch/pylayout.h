/* Where CPython keeps what a stack walk needs, version by version: byte offsets in its structures. The recording library and the supervisor share
 * this table. From 3.13 on the interpreter describes itself (_PyRuntime begins with "xdebugpy" and a table of offsets): that description is used
 * where it is there. The order of its entries is another in every version; a version later than those known here is read as the last known one
 * is. What comes of that must hold together, and whoever uses it looks at the type of everything before it is believed. */
#ifndef PLIM_WATCH_PYLAYOUT_H
#define PLIM_WATCH_PYLAYOUT_H

#include <stdbool.h>
#include <stdint.h>

typedef struct plim__pylayout {
    uint32_t version;       /* 0x030b: major and minor */
    int16_t thread_frame;   /* PyThreadState: frame, or cframe (3.11, 3.12), or current_frame */
    int16_t cframe_current; /* _PyCFrame: current_frame; -1: thread_frame points at the frame itself */
    int16_t frame_previous, frame_code, frame_instr; /* of the frame: f_back / previous, code, f_lasti or the instruction pointer */
    int16_t frame_owner;    /* -1: none */
    int8_t owner_skip;      /* frames with this owner or a higher one are no frames of code; -1: none */
    int8_t instr_is;        /* PLIM__PY_INSTR_... */
    int16_t frame_globals, frame_locals; /* f_globals; localsplus (3.11 and later), f_localsplus before */
    int16_t code_file, code_name, code_qualname, code_first_line; /* qualname -1: none */
    int16_t code_start;     /* of the bytecode in the code object, where the instruction is a pointer */
    int16_t str_header;     /* bytes before the characters of a compact ASCII str */
    bool tagged;            /* code and locals are references with two bits of their own: see plim__pylayout_object */
    bool containers;        /* as far as the interpreter says, tuples, lists, dicts and types are as in the versions known here */
} plim__pylayout;

enum { PLIM__PY_INSTR_BYTES, PLIM__PY_INSTR_UNITS, PLIM__PY_INSTR_POINTER };

/* Every word of a frame or a code object that a layout names lies in so many first bytes of it (not: locals, bytecode). */
enum { PLIM__PY_FRAME_HEAD = 128, PLIM__PY_CODE_HEAD = 136 };

/** The row for PY_VERSION_HEX `version`, or NULL where nothing is known. */
const plim__pylayout *plim__pylayout_of(uint32_t version);

/** As plim__pylayout_of, with the offsets that the interpreter gives of itself where it does.
 *  @param word  the first words at _PyRuntime (zeroes where they cannot be read)
 *  @return false where nothing is known, or where objects are laid out otherwise (free-threaded builds) */
enum { PLIM__PY_DESCRIPTION_WORDS = 88 };
bool plim__pylayout_described(plim__pylayout *out, uint32_t version, const uint64_t word[PLIM__PY_DESCRIPTION_WORDS]);

/** The address in a frame's reference, 0: it has none. From 3.14 on the lowest bit says who counts it; the next one that it is a small integer
 *  without an object, or nothing. */
static inline uint64_t plim__pylayout_object(const plim__pylayout *l, uint64_t reference)
{
    if (!l->tagged) return reference;
    return reference & 2 ? 0 : reference & ~UINT64_C(3);
}

#endif
