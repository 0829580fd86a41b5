/* Several views of the same extents walked together: the loop nest that is left when dimensions of extent 1 are dropped, the
 * rest is put in the order of the first view's memory, and neighbours that lie back to back in every view are merged.
 * The first view is the one that is written. Steps are in bytes. */
#ifndef PLIM_KERNELS_STRIDED_H
#define PLIM_KERNELS_STRIDED_H

#include "kernels/view.h"

#define PLIM__STRIDED_MAX 8

typedef struct plim__strided {
    uint32_t count; /* of views */
    uint32_t rank;  /* at least 1 */
    bool empty;     /* there is nothing to walk */
    int64_t n[PLIM_MAX_RANK];
    char *data[PLIM__STRIDED_MAX];
    int64_t step[PLIM__STRIDED_MAX][PLIM_MAX_RANK];
} plim__strided;

void plim__strided_new(plim__strided *s, const plim__view *const *view, uint32_t count);

/** Moves `data` to the next iteration of the outermost `outer` dimensions; `at` holds their counters, all 0 at the start.
 *  @return false after the last, with `data` back at its start */
bool plim__strided_next(const plim__strided *s, char **data, int64_t *at, uint32_t outer);

/** rows x cols elements of `item` bytes, dense at dst, from steps of row_step and col_step bytes (0: repeated). */
void plim__gather(void *dst, const void *src, uint64_t item, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step);
/** The reverse: dense at src, to steps. */
void plim__scatter(void *dst, const void *src, uint64_t item, int64_t rows, int64_t cols, int64_t row_step, int64_t col_step);

#endif
