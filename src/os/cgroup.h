/* The control groups that a process is in, as this process sees them mounted: its own group, then every ancestor up to the mount. */
#ifndef PLIM_OS_CGROUP_H
#define PLIM_OS_CGROUP_H

#include "os/os.h"

#include <limits.h>

/** A group of one hierarchy. */
typedef struct plim__cgroup {
    char dir[PATH_MAX]; /* its folder; shortened one level at a time on the way up */
    size_t mount_len;   /* the mount point's length: the walk ends there */
    bool v2;
} plim__cgroup;

/** The group of process `pid` (0: this one) in the hierarchy of `controller`. False where there is none. */
bool plim__cgroup_find(plim__cgroup *out, const plim__os *os, int pid, bool v2, const char *controller);
/** To the parent group. @return false at the mount point */
bool plim__cgroup_up(plim__cgroup *g);
/** Its path below the mount, "/" for the mount itself. */
const char *plim__cgroup_path(const plim__cgroup *g);

/** What one group allows in memory. @return false when it has no limit files (a root group, a hierarchy without this controller) */
bool plim__cgroup_memory(plim_limit *out, const plim__os *os, const plim__cgroup *g);
/** v1 had groups whose limit did not count their children; such an ancestor says nothing about them. */
bool plim__cgroup_counts_children(const plim__os *os, const plim__cgroup *g);
/** Of a process's own group and its ancestors the one that leaves least. @return false where none has limit files */
bool plim__cgroup_tightest(plim_limit *out, const plim__os *os, int pid, bool v2);

/** A name on the kernel's list may be longer than the report has room for; its end says more than its beginning. */
void plim__source_set(plim_limit *l, const char *path);

#endif
