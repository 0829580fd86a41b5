/* What bounds this process's memory, and how much of it is left.
 *
 *   RAM          /proc/meminfo: MemTotal, MemAvailable
 *   cgroups      the limit that leaves least, of each version (cgroup.h)
 *   RLIMIT_AS    /proc/self/limits against VmSize
 *   RLIMIT_DATA  /proc/self/limits against VmData
 *   overcommit   CommitLimit against Committed_AS, where vm.overcommit_memory is 2
 *
 * A control group's limit holds for its descendants too. So from this process's own group every ancestor up to the mount is looked at, and
 * the one that leaves least is reported.
 *
 * Every file comes through the plim__os table. Nothing is allocated; safe from any thread. */
#include "os/cgroup.h"
#include "os/proc_text.h"

#include <ctype.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 8192 };

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

static void limit_add(plim_limits *out, const char *name, const char *source, uint64_t limit, uint64_t used, uint64_t available)
{
    if (out->count == PLIM_MAX_LIMITS) return;
    plim_limit *l = &out->limit[out->count++];
    snprintf(l->name, sizeof l->name, "%s", name);
    plim__source_set(l, source);
    l->limit = limit;
    l->used = used;
    l->available = available;
}

/* --------------------------------------------------------------------------------- the machine and the process */

static void ram_add(plim_limits *out, const char *meminfo)
{
    uint64_t total, available;
    if (!plim__field_read(meminfo, "MemTotal:", &total)) return;
    if (!plim__field_read(meminfo, "MemAvailable:", &available)) { /* before Linux 3.14 */
        uint64_t spare = 0, cached = 0;
        plim__field_read(meminfo, "MemFree:", &spare);
        plim__field_read(meminfo, "Cached:", &cached);
        available = spare + cached;
    }
    if (available > total) available = total;
    limit_add(out, "RAM", "/proc/meminfo", total, total - available, available);
}

static void overcommit_add(plim_limits *out, const plim__os *os, const char *meminfo)
{
    uint64_t mode, limit, used;
    if (!plim__number_read(os, "/proc/sys/vm", "overcommit_memory", &mode) || mode != 2) return;
    if (!plim__field_read(meminfo, "CommitLimit:", &limit) || !plim__field_read(meminfo, "Committed_AS:", &used)) return;
    limit_add(out, "overcommit", "/proc/meminfo CommitLimit (vm.overcommit_memory=2)", limit, used, minus(limit, used));
}

static void rlimit_add(plim_limits *out, const char *limits, const char *row, const char *name, uint64_t used)
{
    uint64_t limit;
    if (plim__rlimit_read(limits, row, &limit)) limit_add(out, name, "/proc/self/limits", limit, used, minus(limit, used));
}

static void process_add(plim_limits *out, const plim__os *os)
{
    char status[TEXT_SIZE], limits[TEXT_SIZE];
    uint64_t size = 0, data = 0;
    if (!plim__text_read(os, "/proc/self/limits", limits, sizeof limits)) return;
    if (plim__text_read(os, "/proc/self/status", status, sizeof status)) {
        plim__field_read(status, "VmSize:", &size);
        plim__field_read(status, "VmData:", &data);
    }
    rlimit_add(out, limits, "Max address space", "RLIMIT_AS", size);
    rlimit_add(out, limits, "Max data size", "RLIMIT_DATA", data);
}

/* ------------------------------------------------------------------------------------------------ entry points */

/* Left free when nobody names a budget: a sixteenth for what else lives here, between 32 MiB and 1 GiB, never more than a quarter. */
static uint64_t reserve_for(uint64_t available)
{
    const uint64_t least = (uint64_t)32 << 20, most = (uint64_t)1 << 30;
    uint64_t reserve = available / 16;
    if (reserve < least) reserve = least;
    if (reserve > most) reserve = most;
    return reserve < available / 4 ? reserve : available / 4;
}

plim_status plim__limits_read(plim_limits *out, const plim__os *os, plim_error *err)
{
    *out = (plim_limits){0};
    char meminfo[TEXT_SIZE];
    if (plim__text_read(os, "/proc/meminfo", meminfo, sizeof meminfo)) ram_add(out, meminfo);
    for (int v2 = 0; v2 < 2; v2++)
        if (plim__cgroup_tightest(&out->limit[out->count], os, 0, v2)) out->count++;
    process_add(out, os);
    overcommit_add(out, os, meminfo);
    PLIM_FAIL_IF(out->count == 0, err, PLIM_E_UNSUPPORTED,
                 "this system says nothing about memory: neither /proc/meminfo nor a control group can be read; give a budget");
    for (uint32_t i = 1; i < out->count; i++)
        if (out->limit[i].available < out->limit[out->deciding].available) out->deciding = i;
    out->available = out->limit[out->deciding].available;
    out->reserve = reserve_for(out->available);
    out->budget = out->available - out->reserve;
    return PLIM_OK;
}

plim_status plim_limits_read(plim_limits *out, plim_error *err)
{
    return plim__limits_read(out, &plim__os_linux, err);
}

plim_status plim__resident_read(uint64_t *now, uint64_t *peak, const plim__os *os, plim_error *err)
{
    char status[TEXT_SIZE];
    const bool read = plim__text_read(os, "/proc/self/status", status, sizeof status);
    PLIM_FAIL_IF(!read || !plim__field_read(status, "VmRSS:", now) || !plim__field_read(status, "VmHWM:", peak), err, PLIM_E_IO,
                 "/proc/self/status does not say how much memory is resident");
    return PLIM_OK;
}

uint64_t plim__code_mapped(const plim__os *os)
{
    char status[TEXT_SIZE];
    uint64_t own, libraries;
    const bool read = plim__text_read(os, "/proc/self/status", status, sizeof status);
    return read && plim__field_read(status, "VmExe:", &own) && plim__field_read(status, "VmLib:", &libraries) ? own + libraries : 0;
}

plim_status plim_resident_read(uint64_t *now, uint64_t *peak, plim_error *err)
{
    return plim__resident_read(now, peak, &plim__os_linux, err);
}

/* CPUs that one group's quota is worth, rounded up; PLIM_UNLIMITED without one. */
static uint64_t quota_read(const plim__os *os, const char *dir, bool v2)
{
    char path[PATH_MAX + 64], text[64], *end;
    uint64_t quota = PLIM_UNLIMITED, period = 100000;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!plim__text_read(os, path, text, sizeof text) || !isdigit((unsigned char)text[0])) return PLIM_UNLIMITED;
        quota = strtoull(text, &end, 10);
        period = strtoull(end, NULL, 10);
    } else if (!plim__number_read(os, dir, "cpu.cfs_quota_us", &quota) || !plim__number_read(os, dir, "cpu.cfs_period_us", &period)) {
        return PLIM_UNLIMITED; /* -1, "none", is not a number to number_read */
    }
    return period && quota != PLIM_UNLIMITED ? quota / period + (quota % period != 0) : PLIM_UNLIMITED;
}

static uint64_t cpu_quota(const plim__os *os, bool v2)
{
    plim__cgroup g;
    uint64_t least = PLIM_UNLIMITED;
    if (!plim__cgroup_find(&g, os, 0, v2, "cpu")) return least;
    do {
        const uint64_t here = quota_read(os, g.dir, v2);
        if (here < least) least = here;
    } while (plim__cgroup_up(&g));
    return least;
}

uint32_t plim__cpu_count(const plim__os *os)
{
    cpu_set_t set[8]; /* room for 8192: the kernel refuses a set that is smaller than its own */
    uint64_t n = 1;
    if (sched_getaffinity(0, sizeof set, set) == 0) {
        n = (uint64_t)CPU_COUNT_S(sizeof set, set);
    } else {
        const long online = sysconf(_SC_NPROCESSORS_ONLN);
        if (online > 0) n = (uint64_t)online;
    }
    for (int v2 = 0; v2 < 2; v2++) {
        const uint64_t quota = cpu_quota(os, v2);
        if (quota < n) n = quota;
    }
    return n ? (uint32_t)n : 1;
}

uint32_t plim_cpu_count(void)
{
    return plim__cpu_count(&plim__os_linux);
}
