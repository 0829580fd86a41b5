/* A folder as doctor sees it: can files be made there, with direct I/O, and how much room is left. */
#ifndef PLIM_CLI_FOLDER_H
#define PLIM_CLI_FOLDER_H

#include <stdbool.h>
#include <stdint.h>

typedef struct plim__cli_folder {
    bool writable;  /* a file could be made there at all */
    int error;      /* errno when not */
    bool in_memory; /* tmpfs or ramfs */
    bool direct;    /* O_DIRECT works there */
    uint64_t free_bytes, total_bytes;
} plim__cli_folder;

/** Makes a file there that has no name, so that nothing can be left behind. */
void plim__cli_folder_look(plim__cli_folder *out, const char *dir);

#endif
