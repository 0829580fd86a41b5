/* CPython's structures, version by version. The numbers were computed from the headers of each version (offsetof) and are checked in every
 * process before they are believed. All of a minor version's releases share one row: structures do not change once a version is out. 3.15 is as in
 * its fifth alpha. All of them were run: one release of each up to 3.14 (3.14.2), and that alpha. */
#include "watch/pylayout.h"

#include <stddef.h>
#include <string.h>

static const plim__pylayout layouts[] = {
    {.version = 0x0308, .thread_frame = 24, .cframe_current = -1, .frame_previous = 24, .frame_code = 32, .frame_instr = 104, .frame_owner = -1,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_BYTES, .frame_globals = 48, .frame_locals = 360, .code_file = 104, .code_name = 112,
     .code_qualname = -1, .code_first_line = 40, .code_start = -1, .str_header = 48, .containers = true},
    {.version = 0x0309, .thread_frame = 24, .cframe_current = -1, .frame_previous = 24, .frame_code = 32, .frame_instr = 104, .frame_owner = -1,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_BYTES, .frame_globals = 48, .frame_locals = 360, .code_file = 104, .code_name = 112,
     .code_qualname = -1, .code_first_line = 40, .code_start = -1, .str_header = 48, .containers = true},
    {.version = 0x030a, .thread_frame = 24, .cframe_current = -1, .frame_previous = 24, .frame_code = 32, .frame_instr = 96, .frame_owner = -1,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_UNITS, .frame_globals = 48, .frame_locals = 352, .code_file = 104, .code_name = 112,
     .code_qualname = -1, .code_first_line = 40, .code_start = -1, .str_header = 48, .containers = true},
    {.version = 0x030b, .thread_frame = 56, .cframe_current = 8, .frame_previous = 48, .frame_code = 32, .frame_instr = 56, .frame_owner = 69,
     .owner_skip = -1, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 8, .frame_locals = 72, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 72, .code_start = 184, .str_header = 48, .containers = true},
    {.version = 0x030c, .thread_frame = 56, .cframe_current = 0, .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70,
     .owner_skip = 3, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 24, .frame_locals = 72, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 68, .code_start = 192, .str_header = 40, .containers = true},
    {.version = 0x030d, .thread_frame = 72, .cframe_current = -1, .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 70,
     .owner_skip = 3, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 24, .frame_locals = 72, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 68, .code_start = 200, .str_header = 40, .containers = true},
    {.version = 0x030e, .thread_frame = 72, .cframe_current = -1, .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 74,
     .owner_skip = 3, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 24, .frame_locals = 80, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 68, .code_start = 208, .str_header = 40, .tagged = true, .containers = true},
    {.version = 0x030f, .thread_frame = 72, .cframe_current = -1, .frame_previous = 8, .frame_code = 0, .frame_instr = 56, .frame_owner = 74,
     .owner_skip = 3, .instr_is = PLIM__PY_INSTR_POINTER, .frame_globals = 24, .frame_locals = 80, .code_file = 112, .code_name = 120,
     .code_qualname = 128, .code_first_line = 68, .code_start = 208, .str_header = 40, .tagged = true, .containers = true},
};

const plim__pylayout *plim__pylayout_of(uint32_t version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version >> 16) return &layouts[i];
    return NULL;
}

/* ------------------------------------------------------------------------------------- what the interpreter says of itself */

/* In words: the cookie, the version, whether threads run free, then groups, each for one structure: its size, then offsets in it. Here is where
 * the groups that matter begin. Within them what is read has one place in all versions. */
static const struct groups {
    uint16_t version;
    uint8_t thread, frame, code, object, type, tuple, list, dict, str;
} groups[] = {
    {0x030d, 19, 28, 34, 44, 46, 50, 53, 56, 67},
    {0x030e, 22, 31, 39, 50, 52, 56, 59, 66, 77},
    {0x030f, 22, 38, 46, 57, 59, 63, 66, 73, 84},
};
enum { LAST = sizeof groups / sizeof *groups - 1, WORD_COOKIE = 0, WORD_VERSION = 1, WORD_FREE_THREADED = 2 };

static const struct groups *groups_of(uint32_t version)
{
    for (size_t i = 0; i <= LAST; i++)
        if (groups[i].version == version >> 16) return &groups[i];
    return version >> 16 > groups[LAST].version && version >> 24 == 3 ? &groups[LAST] : NULL;
}

/* An offset lies within its structure, whose size opens the group, and where a head is read whole (`head` not 0) a word of it lies in that. */
static bool offset_take(int16_t *to, const uint64_t *group, int i, uint64_t head)
{
    if (group[i] >= group[0] || group[i] > INT16_MAX || (head && group[i] > head - 8)) return false;
    *to = (int16_t)group[i];
    return true;
}

static bool offsets_take(plim__pylayout *out, const struct groups *g, const uint64_t *word)
{
    enum { FRAME = PLIM__PY_FRAME_HEAD, CODE = PLIM__PY_CODE_HEAD };
    const uint64_t *frame = word + g->frame, *code = word + g->code;
    return offset_take(&out->thread_frame, word + g->thread, 4, 0) && offset_take(&out->frame_previous, frame, 1, FRAME) &&
           offset_take(&out->frame_code, frame, 2, FRAME) && offset_take(&out->frame_instr, frame, 3, FRAME) &&
           offset_take(&out->frame_locals, frame, 4, 0) && offset_take(&out->frame_owner, frame, 5, FRAME) &&
           offset_take(&out->code_file, code, 1, CODE) && offset_take(&out->code_name, code, 2, CODE) &&
           offset_take(&out->code_qualname, code, 3, CODE) && offset_take(&out->code_first_line, code, 5, CODE) &&
           offset_take(&out->code_start, code, 9, 0);
}

/* What the readers take for granted of every object, and of a str. */
static bool objects_are_known(const struct groups *g, const uint64_t *word)
{
    const uint64_t *str = word + g->str;
    return word[g->object + 1] == 8 && str[1] == 32 && str[2] == 16 && str[3] == 40;
}

/* And of what holds others: names of locals in the code, name and flags of a type, items and length of tuple and list, keys and values of a dict. */
static bool containers_are_known(const plim__pylayout *row, const struct groups *g, const uint64_t *word)
{
    const uint64_t *type = word + g->type, *tuple = word + g->tuple, *list = word + g->list, *dict = word + g->dict;
    return word[g->code + 7] == 96 && type[1] == 24 && type[3] == 168 && tuple[1] == (row->tagged ? 32 : 24) && tuple[2] == 16 && list[1] == 24 &&
           list[2] == 16 && dict[1] == 32 && dict[2] == 40;
}

bool plim__pylayout_described(plim__pylayout *out, uint32_t version, const uint64_t word[PLIM__PY_DESCRIPTION_WORDS])
{
    const struct groups *g = groups_of(version);
    const plim__pylayout *row = plim__pylayout_of(version);
    const bool described = g && !memcmp(&word[WORD_COOKIE], "xdebugpy", 8) && word[WORD_VERSION] >> 16 == version >> 16;
    if (!row && described) row = plim__pylayout_of((uint32_t)g->version << 16);
    if (!row) return false;
    *out = *row;
    if (!described) return true;
    out->version = version >> 16;
    out->containers = containers_are_known(row, g, word);
    return !word[WORD_FREE_THREADED] && objects_are_known(g, word) && offsets_take(out, g, word);
}
