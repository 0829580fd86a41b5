/* Who killed a process. The kernel counts a kill in the victim's own group (v1), or in it and all above it (v2), and for the machine, whether a
 * group's limit or the machine ran out of memory. So a count that went up says that it was the kernel, and whose limit it was is told by which
 * group reached its own:
 *
 *   v1   memory.oom_control "oom_kill N"    memory.max_usage_in_bytes  memory.limit_in_bytes   memory.usage_in_bytes
 *   v2   memory.events "oom_kill N"         memory.events "oom N"      memory.max              memory.current
 *
 * A group that is removed with its last process tells nothing afterwards: then the machine's count and the last usage decide. Nothing is
 * allocated; one thread at a time. */
#include "watch/killer.h"

#include "os/cgroup.h"
#include "os/proc_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TEXT_SIZE = 8192, WORDS_SIZE = 32 };

#define UNKNOWN PLIM_UNLIMITED
#define V1_UNLIMITED ((uint64_t)1 << 62)

/* ------------------------------------------------------------------------------------------------------- reading */

static uint64_t field_of(const plim__os *os, const char *folder, const char *name, const char *key)
{
    char path[sizeof((plim__killer_group *)NULL)->folder + 64], text[TEXT_SIZE];
    uint64_t value;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return plim__text_read(os, path, text, sizeof text) && plim__field_read(text, key, &value) ? value : UNKNOWN;
}

static uint64_t number_of(const plim__os *os, const char *folder, const char *name, uint64_t otherwise)
{
    uint64_t value;
    return plim__number_read(os, folder, name, &value) ? value : otherwise;
}

static uint64_t kills_of(const plim__os *os, const plim__killer_group *g)
{
    return field_of(os, g->folder, g->v2 ? "memory.events" : "memory.oom_control", "oom_kill");
}

static uint64_t hits_of(const plim__os *os, const plim__killer_group *g)
{
    return g->v2 ? field_of(os, g->folder, "memory.events", "oom") : UNKNOWN;
}

static uint64_t host_kills(const plim__os *os)
{
    return field_of(os, "/proc", "vmstat", "oom_kill");
}

/* A process that has ended is shown in the root group. */
static bool ended(const plim__os *os, int pid)
{
    char path[64], text[TEXT_SIZE];
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    if (!plim__text_read(os, path, text, sizeof text)) return false; /* its group is not there either */
    const char *state = strstr(text, "State:");
    if (!state) return false;
    state += strlen("State:");
    state += strspn(state, " \t");
    return *state == 'Z' || *state == 'X';
}

/* ------------------------------------------------------------------------------------------------------- looking */

static const plim__killer_group *group_known(const plim__killer *k, const char *folder)
{
    for (uint32_t i = 0; i < k->n; i++)
        if (!strcmp(k->group[i].folder, folder)) return &k->group[i];
    return NULL;
}

/* Its end says more than its beginning. */
static void path_set(plim__killer_group *g, const char *path)
{
    const size_t n = strlen(path), room = sizeof g->path - 1;
    snprintf(g->path, sizeof g->path, "%s%s", n > room ? "..." : "", path + (n > room ? n - room + 3 : 0));
}

/* Appends the group to `out`, with its first counts where it was known before. */
static void group_add(plim__killer *out, const plim__killer *before, const plim__os *os, const plim__cgroup *at)
{
    if (out->n == PLIM__KILLER_GROUPS || strlen(at->dir) >= sizeof out->group->folder) return;
    plim__killer_group g = {.v2 = at->v2};
    strcpy(g.folder, at->dir);
    path_set(&g, plim__cgroup_path(at));
    const plim__killer_group *known = group_known(before, g.folder);
    g.kills = known ? known->kills : kills_of(os, &g);
    g.hits = known ? known->hits : hits_of(os, &g);
    g.limit = number_of(os, g.folder, g.v2 ? "memory.max" : "memory.limit_in_bytes", PLIM_UNLIMITED);
    if (!g.v2 && g.limit >= V1_UNLIMITED) g.limit = PLIM_UNLIMITED;
    g.usage = number_of(os, g.folder, g.v2 ? "memory.current" : "memory.usage_in_bytes", 0);
    if (g.kills != UNKNOWN || g.limit != PLIM_UNLIMITED) out->group[out->n++] = g;
}

void plim__killer_look(plim__killer *k, const plim__os *os, int pid)
{
    char text[TEXT_SIZE];
    if (plim__text_read(os, "/proc/meminfo", text, sizeof text)) plim__field_read(text, "MemAvailable:", &k->ram_free);
    if (!k->started) k->host_kills = host_kills(os);
    k->started = true;
    if (ended(os, pid)) return;
    plim__killer now = {.host_kills = k->host_kills, .ram_free = k->ram_free, .started = true};
    for (int v2 = 0; v2 < 2; v2++) {
        plim__cgroup at;
        if (!plim__cgroup_find(&at, os, pid, v2, "memory")) continue;
        bool own = true;
        do {
            if (own || plim__cgroup_counts_children(os, &at)) group_add(&now, k, os, &at);
            own = false;
        } while (plim__cgroup_up(&at));
    }
    if (now.n) *k = now;
}

/* ------------------------------------------------------------------------------------------------------- deciding */

static bool rose(uint64_t before, uint64_t after)
{
    return before != UNKNOWN && after != UNKNOWN && after > before;
}

/* Whether the limit of this group was reached: v2 counts that, v1 keeps the most that was ever charged (its failcnt stays 0 on newer kernels).
 * Where it cannot tell any more, it was if it was nearly so at the last look. */
static bool reached(const plim__killer_group *g, const plim__os *os)
{
    if (g->limit == PLIM_UNLIMITED) return false;
    const uint64_t hits = hits_of(os, g), most = g->v2 ? UNKNOWN : number_of(os, g->folder, "memory.max_usage_in_bytes", UNKNOWN);
    if (g->hits != UNKNOWN && hits != UNKNOWN) return hits > g->hits;
    if (most != UNKNOWN) return most >= g->limit - g->limit / 64;
    return g->usage >= g->limit - g->limit / 8;
}

static void cgroup_say(plim__killed *out, const plim__killer *k, const plim__killer_group *counted, const plim__killer_group *g)
{
    char limit[WORDS_SIZE], usage[WORDS_SIZE], ram[WORDS_SIZE], where[96] = "", count[80];
    plim_bytes_format(limit, sizeof limit, g->limit);
    plim_bytes_format(usage, sizeof usage, g->usage);
    plim_bytes_format(ram, sizeof ram, k->ram_free);
    if (counted)
        snprintf(count, sizeof count, "%s oom_kill %" PRIu64 " -> %" PRIu64 " in ", g->v2 ? "memory.events" : "memory.oom_control", out->kills_before,
                 out->kills_after);
    else
        snprintf(count, sizeof count, "oom_kill of the machine %" PRIu64 " -> %" PRIu64 "; ", out->kills_before, out->kills_after);
    if (counted && counted != g) snprintf(where, sizeof where, "%.72s, below ", counted->path);
    snprintf(out->text, sizeof out->text, "%s%s%.72s (limit %s, %s charged at the last look); the machine had %s free", count, where,
             g->path, limit, usage, ram);
}

/* The kernel killed it: because of a group's limit, or of the machine's. `counted` is the group whose count went up; NULL: only the machine's
 * did. */
static void kill_explain(plim__killed *out, const plim__killer *k, const plim__os *os, const plim__killer_group *counted)
{
    for (uint32_t i = 0; i < k->n; i++) {
        const plim__killer_group *g = &k->group[i];
        if (counted && (g->v2 != counted->v2 || g < counted)) continue;
        if (!reached(g, os)) continue;
        out->cause = PLIM_WATCH_CGROUP;
        out->group = i;
        out->limit = g->limit;
        out->usage_last = g->usage;
        cgroup_say(out, k, counted, g);
        return;
    }
    char ram[WORDS_SIZE];
    plim_bytes_format(ram, sizeof ram, k->ram_free);
    out->cause = PLIM_WATCH_HOST;
    snprintf(out->text, sizeof out->text,
             "%s oom_kill %" PRIu64 " -> %" PRIu64 " and no control group reached its limit; the machine had %s free at the last look",
             counted ? counted->path : "/proc/vmstat", out->kills_before, out->kills_after, ram);
}

void plim__killer_find(plim__killed *out, const plim__killer *k, const plim__os *os)
{
    *out = (plim__killed){.cause = PLIM_WATCH_SIGNAL, .limit = PLIM_UNLIMITED};
    bool tells = false; /* a group of its own still counts: then a rise of the machine's count alone is about somebody else */
    for (uint32_t i = 0; i < k->n; i++) {
        const uint64_t after = kills_of(os, &k->group[i]);
        tells |= after != UNKNOWN && k->group[i].kills != UNKNOWN && (i == 0 || k->group[i].v2 != k->group[i - 1].v2);
        if (!rose(k->group[i].kills, after)) continue;
        out->kills_before = k->group[i].kills;
        out->kills_after = after;
        kill_explain(out, k, os, &k->group[i]);
        return;
    }
    const uint64_t after = host_kills(os);
    if (!tells && rose(k->host_kills, after)) {
        out->kills_before = k->host_kills;
        out->kills_after = after;
        kill_explain(out, k, os, NULL);
        return;
    }
    char ram[WORDS_SIZE];
    plim_bytes_format(ram, sizeof ram, k->ram_free);
    snprintf(out->text, sizeof out->text, "the kernel counts no out-of-memory kill%s%.200s; the machine had %s free at the last look",
             tells ? " in " : "", tells ? k->group[0].path : "", ram);
}
