/* See pylayout.h. */
#include "watch/pylayout.h"

#include <stddef.h>

static const plim__pylayout layouts[] = {
    {0x0308, 24, -1, 24, 32, 104, -1, -1, PLIM__PY_INSTR_BYTES, 48, 360, 104, 112, -1, 40, -1, 48},
    {0x0309, 24, -1, 24, 32, 104, -1, -1, PLIM__PY_INSTR_BYTES, 48, 360, 104, 112, -1, 40, -1, 48},
    {0x030a, 24, -1, 24, 32, 96, -1, -1, PLIM__PY_INSTR_UNITS, 48, 352, 104, 112, -1, 40, -1, 48},
    {0x030b, 56, 8, 48, 32, 56, 69, -1, PLIM__PY_INSTR_POINTER, 8, 72, 112, 120, 128, 72, 184, 48},
    {0x030c, 56, 0, 8, 0, 56, 70, 3, PLIM__PY_INSTR_POINTER, 24, 72, 112, 120, 128, 68, 192, 40},
    {0x030d, 72, -1, 8, 0, 56, 70, 3, PLIM__PY_INSTR_POINTER, 24, 72, 112, 120, 128, 68, 200, 40},
};

const plim__pylayout *plim__pylayout_of(uint32_t version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version >> 16) return &layouts[i];
    return NULL;
}
