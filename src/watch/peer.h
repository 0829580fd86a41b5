/* Looking into another process: its memory, and its files in /proc. Nothing here can harm it or wait for it; whatever cannot be read is false or 0.
 * */
#ifndef PLIM_WATCH_PEER_H
#define PLIM_WATCH_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** Copies n bytes at `address` of process `pid` (process_vm_readv, else /proc/PID/mem). False: not all of them can be read. */
bool plim__peer_read(int pid, uint64_t address, void *to, size_t n);
/** A word, or 0. */
uint64_t plim__peer_word(int pid, uint64_t address);
/** A C string, cut to fit, always ended. False (and "") when its beginning cannot be read. */
bool plim__peer_text(int pid, uint64_t address, char *to, size_t size);

/** Opens a file for reading if it is a regular one, and never waits: a FIFO or a device named as a script or a library is left alone. @return the
 *  descriptor, -1: there is no such regular file */
int plim__peer_regular(const char *path);
/** Reads /proc/PID/NAME whole into buf and ends it with NUL. @return the length, 0 when it cannot be read */
size_t plim__peer_file(int pid, const char *name, char *buf, size_t size);

/** Numbers of /proc/PID/status, in bytes. Zeroed where a line is missing (a zombie has none). */
typedef struct plim__peer_status {
    char name[32];
    int parent;
    uint64_t vm_size, vm_data, vm_swap, resident, peak, anon, file, shared; /* VmSize VmData VmSwap VmRSS VmHWM RssAnon RssFile RssShmem */
    bool alive; /* it is there and no zombie */
} plim__peer_status;
bool plim__peer_status_read(int pid, plim__peer_status *out);

/** Resident bytes now, by /proc/PID/statm: the cheapest look. 0 when it is gone.
 *  @param mapped  may be NULL; set to those of files and of shared memory: all but anonymous memory */
uint64_t plim__peer_resident(int pid, uint64_t *mapped);

/** Resident bytes by kind: anonymous memory, pages of files, shared memory (tmpfs, memfd, System V, shared anonymous mappings). */
typedef struct plim__peer_kinds {
    uint64_t anon, file, shared;
} plim__peer_kinds;
/** Its share of each kind: a page that n processes have mapped counts for an n-th (smaps_rollup Pss). It walks all pages: about 10 ms a GiB. False
 *  where the process is gone or the kernel does not say. */
bool plim__peer_shares(int pid, plim__peer_kinds *out);
/** Whether two processes have one and the same memory, as between vfork and exec. */
bool plim__peer_same_memory(int pid, int other);

/** Looks for a word in the memory of a process. */
typedef enum plim__peer_found {
    PLIM__PEER_THERE,
    PLIM__PEER_NOT_THERE, /* another word, or no memory at that address: the process has executed another program */
    PLIM__PEER_UNKNOWN,   /* the process is gone, or may not be read */
} plim__peer_found;
plim__peer_found plim__peer_find(int pid, uint64_t address, uint64_t word);

/** All descendants of `root` and itself, as /proc shows them now; parents first. @return how many, at most `max` */
uint32_t plim__peer_tree(int root, int *pid, int *parent, uint32_t max);

/** The file that execvp would run: a name without a slash is looked for in PATH. False: there is none. */
bool plim__peer_program(const char *program, char *path, size_t size);
/** Why the recording library cannot be in a program: an ELF file without an interpreter (static), a setuid or setgid file. Follows a script's #!
 *  line.
 *  @return false and a reason such as "it is linked statically" */
bool plim__peer_preloadable(const char *program, char *why, size_t size);

#endif
