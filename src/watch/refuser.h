/* Which limit refuses a request of a watched process, in the order in which the kernel asks: size, map count, a hole in the address space,
 * RLIMIT_AS, RLIMIT_DATA, overcommit. A control group and RAM refuse nothing, they kill later; they are listed with what they leave. */
#ifndef PLIM_WATCH_REFUSER_H
#define PLIM_WATCH_REFUSER_H

#include "os/os.h"

typedef struct plim__refusal {
    plim_watch_limit limit[PLIM_WATCH_LIMITS]; /* in the kernel's order; `refuses` where this request does not pass */
    uint32_t n;
    uint32_t first;         /* index of the first that refuses; n: none does */
    plim_watch_cause cause; /* what that means; PLIM_WATCH_NO_CAUSE when none refuses */
    uint64_t ram_free;      /* MemAvailable */
    uint64_t ram_total;
    uint64_t vm_size, maps; /* of the process */
} plim__refusal;

/** Reads /proc/PID/{limits,status,maps,cgroup}, /proc/sys/vm and the control groups through `os` (tests give files of other machines). */
void plim__refusal_find(plim__refusal *out, const plim__os *os, int pid, uint64_t bytes);

#endif
