/* Quick measurements of the machine for `plimsoll doctor`. Each takes a fraction of a second and leaves nothing behind. They say
 * what order of magnitude to expect, not what a benchmark would. */
#ifndef PLIM_CLI_SPEED_H
#define PLIM_CLI_SPEED_H

#include <stdbool.h>
#include <stdint.h>

/* Bytes per second, NaN where it could not be measured. */
typedef struct plim__speed_disk {
    bool writable;      /* a file could be made there at all */
    int error;          /* errno when not */
    bool in_memory;     /* tmpfs or ramfs */
    bool direct;        /* O_DIRECT works there */
    uint64_t free_bytes, total_bytes;
    double direct_write, direct_read, buffered_write, buffered_read;
} plim__speed_disk;

typedef struct plim__speed_compute {
    double flops;       /* f32 multiply-adds counted as two, all threads */
    double copy;        /* bytes per second copied, all threads */
    double first_touch; /* bytes per second of new memory */
} plim__speed_compute;

/** Writes and reads a file of a few tens of MB in `dir`; it is unlinked before the first byte. About a second. */
void plim__speed_disk_measure(plim__speed_disk *out, const char *dir);
/** @param room  bytes that may be used for buffers */
void plim__speed_compute_measure(plim__speed_compute *out, uint32_t threads, uint64_t room);

#endif
