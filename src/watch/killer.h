/* Who killed a process: counts of the kernel's out-of-memory kills, read before and after, in the process's memory control group and every one
 * above it (memory.events, memory.oom_control), and of the whole machine (/proc/vmstat oom_kill). The group is looked up while the process
 * lives, for afterwards it is gone. */
#ifndef PLIM_WATCH_KILLER_H
#define PLIM_WATCH_KILLER_H

#include "os/os.h"

enum { PLIM__KILLER_GROUPS = 16 };

typedef struct plim__killer_group {
    char path[256];   /* as people see it: "/docker/3f2a" */
    char folder[320]; /* its files */
    bool v2;
    uint64_t kills;        /* processes of it that the kernel had killed, at the first look; PLIM_UNLIMITED: it does not say */
    uint64_t hits; /* how often it had run out of memory, at the first look ("oom" of memory.events); PLIM_UNLIMITED: it does not say, as in v1 */
    uint64_t limit, usage; /* at the last look; limit PLIM_UNLIMITED: none */
} plim__killer_group;

typedef struct plim__killer {
    plim__killer_group group[PLIM__KILLER_GROUPS]; /* the process's own first, then its ancestors; v1's memory hierarchy and v2's */
    uint32_t n;
    uint64_t host_kills; /* /proc/vmstat oom_kill */
    uint64_t ram_free;   /* MemAvailable, at the last look */
    bool started;
} plim__killer;

/** Looks again while the process lives: its groups (they may change), their limits and usage. The counts of kills are those of the first look at
 *  each group. */
void plim__killer_look(plim__killer *k, const plim__os *os, int pid);

typedef struct plim__killed {
    plim_watch_cause cause; /* CGROUP, HOST, or SIGNAL: no count of the kernel's went up */
    uint32_t group;         /* of CGROUP: index of the group whose limit it was: the lowest that has one and reached it */
    uint64_t kills_before, kills_after;
    uint64_t limit, usage_last;
    char
        text[400]; /* "memory.oom_control oom_kill 0 -> 1 in /job (limit 256 MiB, 255 MiB charged at the last look); the machine had 21.3 GiB free" */
} plim__killed;

/** After the death by SIGKILL. */
void plim__killer_find(plim__killed *out, const plim__killer *k, const plim__os *os);

#endif
