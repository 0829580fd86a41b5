/* CPython's structures, version by version. The numbers were computed from the headers of each version (offsetof) and are checked in every
 * process before they are believed. All of a minor version's releases share one row: structures do not change once a version is out. */
#include "watch/pylayout.h"

#include <stddef.h>
#include <string.h>

static const plim__pylayout layouts[] = {
    {.version = 0x0308, .thread_frame = 24, .cframe_current = -1, .frame_previous = 24, .frame_code = 32, .frame_instr = 104, .frame_owner = -1,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_BYTES, .frame_globals = 48, .frame_locals = 360, .code_file = 104, .code_name = 112,
     .code_qualname = -1, .code_first_line = 40, .code_start = -1, .str_header = 48},
    {.version = 0x0309, .thread_frame = 24, .cframe_current = -1, .frame_previous = 24, .frame_code = 32, .frame_instr = 104, .frame_owner = -1,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_BYTES, .frame_globals = 48, .frame_locals = 360, .code_file = 104, .code_name = 112,
     .code_qualname = -1, .code_first_line = 40, .code_start = -1, .str_header = 48},
    {.version = 0x030a, .thread_frame = 24, .cframe_current = -1, .frame_previous = 24, .frame_code = 32, .frame_instr = 96, .frame_owner = -1,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_UNITS, .frame_globals = 48, .frame_locals = 352, .code_file = 104, .code_name = 112,
     .code_qualname = -1, .code_first_line = 40, .code_start = -1, .str_header = 48},
    {.version = 0x030b, .thread_frame = 56, .cframe_current = 8, .frame_previous = 48, .frame_code = 32, .frame_instr = 56, .frame_owner = 69,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 8, .frame_locals = 72, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 72, .code_start = 184, .str_header = 48},
    {.version = 0x030c, .thread_frame = 56, .cframe_current = 0, .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70,
     .owner_skip = 3, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 24, .frame_locals = 72, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 68, .code_start = 192, .str_header = 40},
    {.version = 0x030d, .thread_frame = 72, .cframe_current = -1, .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70,
     .owner_skip = 3, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 24, .frame_locals = 72, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 68, .code_start = 200, .str_header = 40},
};

const plim__pylayout *plim__pylayout_of(uint32_t version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version >> 16) return &layouts[i];
    return NULL;
}

/* Where 3.13 has its own table's entries, in words: the cookie, the version, whether threads run free, then one group of offsets after another. A
 * later version may order the groups otherwise, so only the version that was looked at is read this way. */
enum {
    WORD_COOKIE = 0,
    WORD_VERSION = 1,
    WORD_FREE_THREADED = 2,
    WORD_THREAD_FRAME = 23,
    WORD_FRAME_PREVIOUS = 29,
    WORD_FRAME_CODE = 30,
    WORD_FRAME_INSTR = 31,
    WORD_FRAME_LOCALS = 32,
    WORD_FRAME_OWNER = 33,
    WORD_CODE_FILE = 35,
    WORD_CODE_NAME = 36,
    WORD_CODE_QUALNAME = 37,
    WORD_CODE_FIRST_LINE = 39,
    WORD_CODE_START = 43,
    WORD_STR_HEADER = 70,
};

bool plim__pylayout_described(plim__pylayout *out, uint32_t version, const uint64_t word[PLIM__PY_DESCRIPTION_WORDS])
{
    const plim__pylayout *row = plim__pylayout_of(version);
    if (!row) return false;
    *out = *row;
    if (row->version != 0x030d || memcmp(&word[WORD_COOKIE], "xdebugpy", 8) || word[WORD_VERSION] >> 16 != row->version) return true;
    if (word[WORD_FREE_THREADED]) return false; /* objects have another head there */
    const struct {
        int16_t *to;
        int word;
    } take[] = {
        {&out->thread_frame, WORD_THREAD_FRAME},       {&out->frame_previous, WORD_FRAME_PREVIOUS}, {&out->frame_code, WORD_FRAME_CODE},
        {&out->frame_instr, WORD_FRAME_INSTR},         {&out->frame_locals, WORD_FRAME_LOCALS},     {&out->frame_owner, WORD_FRAME_OWNER},
        {&out->code_file, WORD_CODE_FILE},             {&out->code_name, WORD_CODE_NAME},           {&out->code_qualname, WORD_CODE_QUALNAME},
        {&out->code_first_line, WORD_CODE_FIRST_LINE}, {&out->code_start, WORD_CODE_START},         {&out->str_header, WORD_STR_HEADER},
    };
    for (size_t i = 0; i < sizeof take / sizeof *take; i++) {
        if (word[take[i].word] > INT16_MAX) return false;
        *take[i].to = (int16_t)word[take[i].word];
    }
    return true;
}
