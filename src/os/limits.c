/* What bounds this process's memory, and how much of it is left.
 *
 *   RAM          /proc/meminfo: MemTotal, MemAvailable
 *   cgroup v1    memory.limit_in_bytes against memory.usage_in_bytes less total_inactive_file
 *   cgroup v2    memory.max or memory.high, the lower, against memory.current less inactive_file
 *   RLIMIT_AS    /proc/self/limits against VmSize
 *   RLIMIT_DATA  /proc/self/limits against VmData
 *   overcommit   CommitLimit against Committed_AS, where vm.overcommit_memory is 2
 *
 * A control group's limit holds for its descendants too. So from this process's own group every ancestor up to the mount is looked at, and
 * the one that leaves least is reported. Inactive file pages are taken off what is used: the kernel gives them up before it refuses
 * or kills. Where the group's path is not below the mount's root (a container that sees only its own part of the tree), the mount
 * point is the group.
 *
 * Every file comes through the plim__os table. Nothing is allocated; safe from any thread. */
#include "core/size.h"
#include "os/os.h"

#include <ctype.h>
#include <fcntl.h>
#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { TEXT_SIZE = 8192, PATH_SIZE = PATH_MAX };

/* cgroup v1 says "none" with the largest multiple of a page below 2^63. */
#define V1_UNLIMITED ((uint64_t)1 << 62)

/* ------------------------------------------------------------------------------------------- small text files */

static bool text_read(const plim__os *os, const char *path, char *buf, size_t size)
{
    buf[0] = 0;
    return os->read_text(os->self, path, buf, size) > 0;
}

/* The number after `key` at the start of a line, such as "MemTotal:       24 kB" or "inactive_file 4096". */
static bool field_read(const char *text, const char *key, uint64_t *out)
{
    const size_t n = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, key, n) || !(line[n] == ' ' || line[n] == '\t')) continue;
        char *end;
        const uint64_t value = strtoull(line + n, &end, 10);
        if (end == line + n) return false;
        while (*end == ' ') end++;
        const uint64_t unit = strncmp(end, "kB", 2) == 0 ? 1024 : 1;
        return plim__mul(out, value, unit);
    }
    return false;
}

/* A file with one number in it, or "max". */
static bool number_read(const plim__os *os, const char *dir, const char *name, uint64_t *out)
{
    char path[PATH_SIZE + 64], text[64], *end;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!text_read(os, path, text, sizeof text)) return false;
    if (strncmp(text, "max", 3) == 0) {
        *out = PLIM_UNLIMITED;
        return true;
    }
    if (!isdigit((unsigned char)text[0])) return false;
    *out = strtoull(text, &end, 10);
    return true;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

/* A name on the kernel's list may be longer than the report has room for; its end says more than its beginning. */
static void source_set(plim_limit *l, const char *path)
{
    const size_t n = strlen(path), room = sizeof l->source - 1;
    if (n <= room)
        snprintf(l->source, sizeof l->source, "%s", path);
    else
        snprintf(l->source, sizeof l->source, "...%s", path + (n - room + 3));
}

static void limit_add(plim_limits *out, const char *name, const char *source, uint64_t limit, uint64_t used, uint64_t available)
{
    if (out->count == PLIM_MAX_LIMITS) return;
    plim_limit *l = &out->limit[out->count++];
    snprintf(l->name, sizeof l->name, "%s", name);
    source_set(l, source);
    l->limit = limit;
    l->used = used;
    l->available = available;
}

/* --------------------------------------------------------------------------------- the machine and the process */

static void ram_add(plim_limits *out, const char *meminfo)
{
    uint64_t total, available;
    if (!field_read(meminfo, "MemTotal:", &total)) return;
    if (!field_read(meminfo, "MemAvailable:", &available)) { /* before Linux 3.14 */
        uint64_t spare = 0, cached = 0;
        field_read(meminfo, "MemFree:", &spare);
        field_read(meminfo, "Cached:", &cached);
        available = spare + cached;
    }
    if (available > total) available = total;
    limit_add(out, "RAM", "/proc/meminfo", total, total - available, available);
}

static void overcommit_add(plim_limits *out, const plim__os *os, const char *meminfo)
{
    uint64_t mode, limit, used;
    if (!number_read(os, "/proc/sys/vm", "overcommit_memory", &mode) || mode != 2) return;
    if (!field_read(meminfo, "CommitLimit:", &limit) || !field_read(meminfo, "Committed_AS:", &used)) return;
    limit_add(out, "overcommit", "/proc/meminfo CommitLimit (vm.overcommit_memory=2)", limit, used, minus(limit, used));
}

/* A row of /proc/self/limits: "Max address space         1073741824           unlimited            bytes". */
static void rlimit_add(plim_limits *out, const char *limits, const char *row, const char *name, uint64_t used)
{
    const char *line = strstr(limits, row);
    if (!line) return;
    const char *p = line + strlen(row);
    while (*p == ' ') p++;
    if (!isdigit((unsigned char)*p)) return; /* "unlimited" */
    const uint64_t limit = strtoull(p, NULL, 10);
    limit_add(out, name, "/proc/self/limits", limit, used, minus(limit, used));
}

static void process_add(plim_limits *out, const plim__os *os)
{
    char status[TEXT_SIZE], limits[TEXT_SIZE];
    uint64_t size = 0, data = 0;
    if (!text_read(os, "/proc/self/limits", limits, sizeof limits)) return;
    if (text_read(os, "/proc/self/status", status, sizeof status)) {
        field_read(status, "VmSize:", &size);
        field_read(status, "VmData:", &data);
    }
    rlimit_add(out, limits, "Max address space", "RLIMIT_AS", size);
    rlimit_add(out, limits, "Max data size", "RLIMIT_DATA", data);
}

/* ------------------------------------------------------------------------------------------- control groups */

/* A hierarchy of control groups: where it is mounted, and this process's group in it. */
typedef struct group {
    char dir[PATH_SIZE]; /* the group's folder; shortened one level at a time on the way up */
    size_t mount_len;    /* the mount point's length: the walk ends there */
} group;

/* True when `word` is one of the comma-separated words of `list`, which ends at a space, a newline or NUL. */
static bool list_has(const char *list, const char *word)
{
    const size_t n = strlen(word);
    for (const char *p = list;;) {
        const size_t len = strcspn(p, ", \n:");
        if (len == n && strncmp(p, word, n) == 0) return true;
        if (p[len] != ',') return false;
        p += len + 1;
    }
}

/* mountinfo writes a space, a tab, a newline and a backslash in a path as three octal digits. Copies the word at `p`. */
static void octal_copy(char *out, size_t size, const char *p)
{
    size_t n = 0;
    while (*p && *p != ' ' && n + 1 < size) {
        if (p[0] == '\\' && isdigit((unsigned char)p[1]) && isdigit((unsigned char)p[2]) && isdigit((unsigned char)p[3])) {
            out[n++] = (char)((p[1] - '0') * 64 + (p[2] - '0') * 8 + (p[3] - '0'));
            p += 4;
        } else {
            out[n++] = *p++;
        }
    }
    out[n] = 0;
}

static const char *word_skip(const char *p, int n)
{
    while (p && n-- > 0) {
        p = strchr(p, ' ');
        if (p) p++;
    }
    return p;
}

/* A line of mountinfo: "32 31 0:29 /root /mount/point rw,opts shared:1 - cgroup source rw,memory". */
static bool mount_parse(const char *line, bool v2, const char *controller, char *root, char *point)
{
    const char *type = strstr(line, " - ");
    if (!type) return false;
    type += 3;
    const char *fs = v2 ? "cgroup2 " : "cgroup ";
    if (strncmp(type, fs, strlen(fs))) return false;
    const char *options = word_skip(type, 2), *where = word_skip(line, 3);
    if (!options || !where || (!v2 && !list_has(options, controller))) return false;
    octal_copy(root, PATH_SIZE, where);
    where = word_skip(where, 1);
    if (!where) return false;
    octal_copy(point, PATH_SIZE, where);
    return true;
}

/* Goes through mountinfo a line at a time, because hosts of containers have thousands of mounts. */
static bool mount_find(const plim__os *os, bool v2, const char *controller, char *root, char *point)
{
    const int fd = os->open(os->self, "/proc/self/mountinfo", O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    char text[TEXT_SIZE];
    uint64_t offset = 0;
    size_t have = 0;
    bool found = false, skip = false;
    while (!found) {
        const int64_t n = os->pread(os->self, fd, text + have, sizeof text - 1 - have, offset);
        if (n <= 0) break;
        offset += (uint64_t)n;
        have += (size_t)n;
        text[have] = 0;
        char *line = text;
        for (char *end; !found && (end = strchr(line, '\n')); line = end + 1) {
            *end = 0;
            found = !skip && mount_parse(line, v2, controller, root, point);
            skip = false;
        }
        have -= (size_t)(line - text);
        memmove(text, line, have);
        if (have == sizeof text - 1) { /* a line longer than the buffer is no control group's */
            have = 0;
            skip = true;
        }
    }
    os->close(os->self, fd);
    return found;
}

/* This process's path in the hierarchy, from a line of /proc/self/cgroup: "4:memory:/a/b" or, for v2, "0::/a/b". */
static bool path_find(const plim__os *os, bool v2, const char *controller, char *path)
{
    char text[TEXT_SIZE];
    if (!text_read(os, "/proc/self/cgroup", text, sizeof text)) return false;
    for (char *line = text, *next; line && *line; line = next) {
        next = strchr(line, '\n');
        if (next) *next++ = 0;
        const char *list = strchr(line, ':'), *at = list ? strchr(list + 1, ':') : NULL;
        if (!at) continue;
        const bool mine = v2 ? strncmp(line, "0::", 3) == 0 : list_has(list + 1, controller);
        if (!mine) continue;
        snprintf(path, PATH_SIZE, "%s", at + 1);
        return true;
    }
    return false;
}

static bool group_find(group *out, const plim__os *os, bool v2, const char *controller)
{
    char root[PATH_SIZE], point[PATH_SIZE], path[PATH_SIZE];
    if (!mount_find(os, v2, controller, root, point) || !path_find(os, v2, controller, path)) return false;
    const size_t root_len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const bool below = strncmp(path, root, root_len) == 0 && (path[root_len] == '/' || path[root_len] == 0) && !strstr(path, "/..");
    const char *rest = below ? path + root_len : "";
    if (strcmp(rest, "/") == 0) rest = "";
    out->mount_len = strlen(point);
    return out->mount_len + strlen(rest) < PATH_SIZE && snprintf(out->dir, PATH_SIZE, "%s%s", point, rest) > 0;
}

/* To the parent group. @return false at the mount point */
static bool group_up(group *g)
{
    char *slash = strrchr(g->dir, '/');
    if (!slash || (size_t)(slash - g->dir) < g->mount_len) return false;
    *slash = 0;
    return true;
}

static uint64_t stat_field(const plim__os *os, const char *dir, const char *key)
{
    char path[PATH_SIZE + 64], text[TEXT_SIZE];
    uint64_t value = 0;
    snprintf(path, sizeof path, "%s/memory.stat", dir);
    if (text_read(os, path, text, sizeof text)) field_read(text, key, &value);
    return value;
}

/* What one group allows. @return false when the group has no limit files (a root group, a hierarchy without this controller) */
static bool group_read(plim_limit *out, const plim__os *os, const char *dir, bool v2)
{
    const char *file = v2 ? "memory.max" : "memory.limit_in_bytes";
    uint64_t limit, high, used = 0;
    if (!number_read(os, dir, file, &limit)) return false;
    if (v2 && number_read(os, dir, "memory.high", &high) && high < limit) {
        limit = high;
        file = "memory.high";
    }
    if (!v2 && limit >= V1_UNLIMITED) limit = PLIM_UNLIMITED;
    number_read(os, dir, v2 ? "memory.current" : "memory.usage_in_bytes", &used);
    used = minus(used, stat_field(os, dir, v2 ? "inactive_file" : "total_inactive_file"));

    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    *out = (plim_limit){.limit = limit, .used = used, .available = limit == PLIM_UNLIMITED ? PLIM_UNLIMITED : minus(limit, used)};
    snprintf(out->name, sizeof out->name, v2 ? "cgroup v2" : "cgroup v1");
    source_set(out, path);
    return true;
}

/* v1 had groups whose limit did not count their children; such an ancestor says nothing about us. */
static bool group_counts_children(const plim__os *os, const char *dir, bool v2)
{
    uint64_t hierarchy;
    return v2 || !number_read(os, dir, "memory.use_hierarchy", &hierarchy) || hierarchy != 0;
}

static void cgroup_add(plim_limits *out, const plim__os *os, bool v2)
{
    group g;
    if (!group_find(&g, os, v2, "memory")) return;
    plim_limit best, now;
    bool any = false, own = true;
    do {
        const bool applies = own || group_counts_children(os, g.dir, v2);
        if (applies && group_read(&now, os, g.dir, v2) && (!any || now.available < best.available)) {
            best = now;
            any = true;
        }
        own = false;
    } while (group_up(&g));
    if (any && out->count < PLIM_MAX_LIMITS) out->limit[out->count++] = best;
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
    if (text_read(os, "/proc/meminfo", meminfo, sizeof meminfo)) ram_add(out, meminfo);
    cgroup_add(out, os, false);
    cgroup_add(out, os, true);
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
    const bool read = text_read(os, "/proc/self/status", status, sizeof status);
    PLIM_FAIL_IF(!read || !field_read(status, "VmRSS:", now) || !field_read(status, "VmHWM:", peak), err, PLIM_E_IO,
                 "/proc/self/status does not say how much memory is resident");
    return PLIM_OK;
}

plim_status plim_resident_read(uint64_t *now, uint64_t *peak, plim_error *err)
{
    return plim__resident_read(now, peak, &plim__os_linux, err);
}

/* CPUs that one group's quota is worth, rounded up; PLIM_UNLIMITED without one. */
static uint64_t quota_read(const plim__os *os, const char *dir, bool v2)
{
    char path[PATH_SIZE + 64], text[64], *end;
    uint64_t quota = PLIM_UNLIMITED, period = 100000;
    if (v2) {
        snprintf(path, sizeof path, "%s/cpu.max", dir);
        if (!text_read(os, path, text, sizeof text) || !isdigit((unsigned char)text[0])) return PLIM_UNLIMITED;
        quota = strtoull(text, &end, 10);
        period = strtoull(end, NULL, 10);
    } else if (!number_read(os, dir, "cpu.cfs_quota_us", &quota) || !number_read(os, dir, "cpu.cfs_period_us", &period)) {
        return PLIM_UNLIMITED; /* -1, "none", is not a number to number_read */
    }
    return period && quota != PLIM_UNLIMITED ? quota / period + (quota % period != 0) : PLIM_UNLIMITED;
}

static uint64_t cpu_quota(const plim__os *os, bool v2)
{
    group g;
    uint64_t least = PLIM_UNLIMITED;
    if (!group_find(&g, os, v2, "cpu")) return least;
    do {
        const uint64_t here = quota_read(os, g.dir, v2);
        if (here < least) least = here;
    } while (group_up(&g));
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
