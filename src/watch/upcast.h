/* What a line of NumPy says about the type of what it makes: functions that give float64 unless told otherwise, and conversions on the same line. */
#ifndef PLIM_WATCH_UPCAST_H
#define PLIM_WATCH_UPCAST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct plim__upcast {
    char maker[32];       /* "np.random.rand" */
    char shape[96];       /* "3075200, 512" as it is written; "" where it is not written in numbers */
    uint64_t rows;        /* of the first dimension; 0 without shape */
    uint64_t values;      /* how many float64 the request is */
    uint32_t to_bytes;    /* of a value after the conversion on the same line: 4 or 2; 0: the line converts nothing */
    char to[16];          /* "float32" */
    char instead[160];    /* the call that makes the narrow type at once */
    uint32_t instead_bytes; /* that a value takes then, while the line runs */
} plim__upcast;

/** Reads the line that asked for `bytes`. @return false unless the line makes float64 and the bytes agree with its shape (or, where that is not
 *  written in numbers,
 *  are whole float64) */
bool plim__upcast_read(plim__upcast *out, const char *line, uint64_t bytes);

#endif
