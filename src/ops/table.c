/* The op table. */
#include "ops/ops.h"

const plim__op_row *plim__op_row_of(uint32_t op)
{
    static const plim__op_row *const table[PLIM__OP_COUNT] = {
#define X(id, row) [PLIM__OP_##id] = &plim__row_##row,
        PLIM__OP_LIST(X)
#undef X
    };
    return op < PLIM__OP_COUNT ? table[op] : NULL;
}
