/* Control groups, versions 1 and 2. A hierarchy's mount is found in this process's own /proc/self/mountinfo, because it is this process that
 * reads the files; the group in /proc/PID/cgroup, which the kernel writes as its reader sees the tree. Where the group's path is not below the
 * mount's root (a container that sees only its own part of the tree), the mount point is the group.
 *
 *   v1    memory.limit_in_bytes against memory.usage_in_bytes less total_inactive_file
 *   v2    memory.max or memory.high, the lower, against memory.current less inactive_file
 *
 * Inactive file pages are taken off what is used: the kernel gives them up before it refuses or kills. Nothing is allocated; safe from any
 * thread. */
#include "os/cgroup.h"

#include "os/proc_text.h"

#include <ctype.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 8192, PATH_SIZE = PATH_MAX };

/* cgroup v1 says "none" with the largest multiple of a page below 2^63. */
#define V1_UNLIMITED ((uint64_t)1 << 62)

static uint64_t minus(uint64_t a, uint64_t b)
{
    return a > b ? a - b : 0;
}

void plim__source_set(plim_limit *l, const char *path)
{
    const size_t n = strlen(path), room = sizeof l->source - 1;
    if (n <= room)
        snprintf(l->source, sizeof l->source, "%s", path);
    else
        snprintf(l->source, sizeof l->source, "...%s", path + (n - room + 3));
}

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

/* The process's path in the hierarchy, from a line of /proc/PID/cgroup: "4:memory:/a/b" or, for v2, "0::/a/b". */
static bool path_find(const plim__os *os, int pid, bool v2, const char *controller, char *path)
{
    char text[TEXT_SIZE], name[64] = "/proc/self/cgroup";
    if (pid) snprintf(name, sizeof name, "/proc/%d/cgroup", pid);
    if (!plim__text_read(os, name, text, sizeof text)) return false;
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

bool plim__cgroup_find(plim__cgroup *out, const plim__os *os, int pid, bool v2, const char *controller)
{
    char root[PATH_SIZE], point[PATH_SIZE], path[PATH_SIZE];
    if (!mount_find(os, v2, controller, root, point) || !path_find(os, pid, v2, controller, path)) return false;
    const size_t root_len = strcmp(root, "/") == 0 ? 0 : strlen(root);
    const bool below = strncmp(path, root, root_len) == 0 && (path[root_len] == '/' || path[root_len] == 0) && !strstr(path, "/..");
    const char *rest = below ? path + root_len : "";
    if (strcmp(rest, "/") == 0) rest = "";
    out->v2 = v2;
    out->mount_len = strlen(point);
    return out->mount_len + strlen(rest) < PATH_SIZE && snprintf(out->dir, PATH_SIZE, "%s%s", point, rest) > 0;
}

bool plim__cgroup_up(plim__cgroup *g)
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
    if (plim__text_read(os, path, text, sizeof text)) plim__field_read(text, key, &value);
    return value;
}

bool plim__cgroup_memory(plim_limit *out, const plim__os *os, const plim__cgroup *g)
{
    const char *dir = g->dir;
    const bool v2 = g->v2;
    const char *file = v2 ? "memory.max" : "memory.limit_in_bytes";
    uint64_t limit, high, used = 0;
    if (!plim__number_read(os, dir, file, &limit)) return false;
    if (v2 && plim__number_read(os, dir, "memory.high", &high) && high < limit) {
        limit = high;
        file = "memory.high";
    }
    if (!v2 && limit >= V1_UNLIMITED) limit = PLIM_UNLIMITED;
    plim__number_read(os, dir, v2 ? "memory.current" : "memory.usage_in_bytes", &used);
    used = minus(used, stat_field(os, dir, v2 ? "inactive_file" : "total_inactive_file"));

    char path[PATH_SIZE + 64];
    snprintf(path, sizeof path, "%s/%s", dir, file);
    *out = (plim_limit){.limit = limit, .used = used, .available = limit == PLIM_UNLIMITED ? PLIM_UNLIMITED : minus(limit, used)};
    snprintf(out->name, sizeof out->name, v2 ? "cgroup v2" : "cgroup v1");
    plim__source_set(out, path);
    return true;
}

bool plim__cgroup_counts_children(const plim__os *os, const plim__cgroup *g)
{
    uint64_t hierarchy;
    return g->v2 || !plim__number_read(os, g->dir, "memory.use_hierarchy", &hierarchy) || hierarchy != 0;
}

const char *plim__cgroup_path(const plim__cgroup *g)
{
    return g->dir[g->mount_len] ? g->dir + g->mount_len : "/";
}

bool plim__cgroup_tightest(plim_limit *out, const plim__os *os, int pid, bool v2)
{
    plim__cgroup g;
    if (!plim__cgroup_find(&g, os, pid, v2, "memory")) return false;
    plim_limit now;
    bool any = false, own = true;
    do {
        const bool applies = own || plim__cgroup_counts_children(os, &g);
        if (applies && plim__cgroup_memory(&now, os, &g) && (!any || now.available < out->available)) {
            *out = now;
            any = true;
        }
        own = false;
    } while (plim__cgroup_up(&g));
    return any;
}
