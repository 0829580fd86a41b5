/* The check of a packing: every pair of buffers, no cleverness to get wrong. Shares no code with the packer and allocates nothing. */
#include "core/error.h"

#include <inttypes.h>

plim_status plim_pack_check(const plim_buffer *buf, uint32_t count, uint64_t height, plim_error *err)
{
    PLIM_FAIL_IF(count && !buf, err, PLIM_E_INVALID, "no buffers given");
    for (uint32_t i = 0; i < count; i++) {
        const plim_buffer *b = &buf[i];
        PLIM_FAIL_IF(b->lower >= b->upper, err, PLIM_E_PLAN, "buffer %" PRIu32 " is never alive: lower %" PRId64 ", upper %" PRId64, i,
                     b->lower, b->upper);
        PLIM_FAIL_IF(b->offset > height || b->size > height - b->offset, err, PLIM_E_PLAN,
                     "buffer %" PRIu32 " at offset %" PRIu64 " with %" PRIu64 " bytes exceeds the height %" PRIu64, i, b->offset, b->size, height);
    }
    /* Sums cannot wrap now: offset + size <= height for every buffer. */
    for (uint32_t i = 1; i < count; i++) {
        for (uint32_t j = 0; j < i; j++) {
            const plim_buffer *a = &buf[i], *b = &buf[j];
            const bool alive = a->lower < b->upper && b->lower < a->upper;
            const bool share = a->offset < b->offset + b->size && b->offset < a->offset + a->size && a->size && b->size;
            PLIM_FAIL_IF(alive && share, err, PLIM_E_PLAN, "buffers %" PRIu32 " and %" PRIu32 " overlap while both are alive", j, i);
        }
    }
    return PLIM_OK;
}
