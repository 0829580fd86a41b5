/* Who refuses a request. What the kernel's mmap and brk test, in its order, from the files in which it shows both sides of each test:
 *
 *   size             no object can be larger than PTRDIFF_MAX, no program has more than 2^47 bytes of addresses
 *   max_map_count    lines of /proc/PID/maps against /proc/sys/vm/max_map_count
 *   address space    the largest hole between two mappings
 *   RLIMIT_AS        VmSize and the request against /proc/PID/limits
 *   RLIMIT_DATA      VmData and the request
 *   overcommit       vm.overcommit_memory 0: the request alone against RAM and swap;
 *                    2: Committed_AS and the request against CommitLimit less what is reserved
 *   cgroup, RAM      refuse nothing
 *
 * Rows whose limit is PLIM_UNLIMITED say that there is none. "size" and "address space" are there only where they refuse. Nothing is allocated;
 * safe from any thread. */
#include "watch/refuser.h"

#include "core/size.h"
#include "os/cgroup.h"
#include "os/proc_text.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_SIZE = 8192, PAGE = 4096 };

#define ADDRESSES ((uint64_t)1 << 47) /* of a program on x86-64 and aarch64 with four levels of page tables */
#define LOWEST ((uint64_t)1 << 16)    /* below it nothing is mapped (vm.mmap_min_addr) */

/* The files that several rows need. */
typedef struct facts {
    const plim__os *os;
    int pid;
    uint64_t need; /* bytes that the C library asks the kernel for */
    char status[TEXT_SIZE], limits[TEXT_SIZE], meminfo[TEXT_SIZE];
    uint64_t hole; /* the largest, where the maps could be read */
    bool maps_known;
} facts;

static plim_watch_limit *row_add(plim__refusal *out, const char *name, const char *source, uint64_t limit, uint64_t used)
{
    PLIM_ASSERT(out->n < PLIM_WATCH_LIMITS);
    plim_watch_limit *l = &out->limit[out->n++];
    *l = (plim_watch_limit){.limit = limit, .used = used};
    const size_t n = strlen(source), room = sizeof l->source - 1;
    snprintf(l->name, sizeof l->name, "%s", name);
    snprintf(l->source, sizeof l->source, "%s%s", n > room ? "..." : "", source + (n > room ? n - room + 3 : 0));
    return l;
}

/* The row that was just added refuses; the first to do so decides. */
static void refuse(plim__refusal *out, plim_watch_cause cause)
{
    out->limit[out->n - 1].refuses = true;
    if (out->cause != PLIM_WATCH_NO_CAUSE) return;
    out->first = out->n - 1;
    out->cause = cause;
}

static bool exceeds(uint64_t used, uint64_t need, uint64_t limit)
{
    uint64_t sum;
    return limit != PLIM_UNLIMITED && (!plim__add(&sum, used, need) || sum > limit);
}

/* --------------------------------------------------------------------------------------------------- mappings */

typedef struct maps_walk {
    uint64_t count, hole, end; /* end of the mapping before */
} maps_walk;

/* A line of /proc/PID/maps, cut after its addresses: "7f2a4c000000-7f2a4c021000". */
static void maps_line(maps_walk *w, const char *line)
{
    char *p;
    const uint64_t from = strtoull(line, &p, 16);
    if (*p != '-' || from >= ADDRESSES) return; /* vsyscall is listed, but is the kernel's */
    const uint64_t to = strtoull(p + 1, NULL, 16);
    w->count++;
    if (from > w->end && from - w->end > w->hole) w->hole = from - w->end;
    if (to > w->end) w->end = to;
}

/* The file may be megabytes long, so it is read as a stream of which only the beginnings of lines are kept. */
static bool maps_read(maps_walk *w, const plim__os *os, int pid)
{
    char path[64], text[PAGE], line[40];
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    const int fd = os->open(os->self, path, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    *w = (maps_walk){.end = LOWEST};
    size_t have = 0;
    uint64_t offset = 0;
    for (int64_t n; (n = os->pread(os->self, fd, text, sizeof text, offset)) > 0; offset += (uint64_t)n) {
        for (int64_t i = 0; i < n; i++) {
            if (text[i] != '\n') {
                if (have + 1 < sizeof line) line[have++] = text[i];
                continue;
            }
            line[have] = 0;
            have = 0;
            maps_line(w, line);
        }
    }
    os->close(os->self, fd);
    if (w->end < ADDRESSES && ADDRESSES - w->end > w->hole) w->hole = ADDRESSES - w->end;
    return w->count > 0;
}

static void maps_add(plim__refusal *out, const facts *f)
{
    uint64_t most;
    if (!f->maps_known || !plim__number_read(f->os, "/proc/sys/vm", "max_map_count", &most)) return;
    row_add(out, "max_map_count", "/proc/sys/vm/max_map_count", most, out->maps);
    /* Some calls may still go one above the limit and others, which would split a mapping, are refused one below; and the C library tries more
     * than one. */
    if (exceeds(out->maps, 2, most)) refuse(out, PLIM_WATCH_MAPS);
}

static void hole_add(plim__refusal *out, const facts *f)
{
    if (!f->maps_known || f->need <= f->hole) return;
    char source[64];
    snprintf(source, sizeof source, "/proc/%d/maps: the largest hole", f->pid);
    row_add(out, "address space", source, f->hole, 0);
    /* Holes are tens of terabytes wide. Where RAM is smaller than what was asked for, the request is what is wrong, not the holes. */
    refuse(out, f->need > out->ram_total ? PLIM_WATCH_REQUEST : PLIM_WATCH_ADDRESS_SPACE);
}

/* ----------------------------------------------------------------------------------------- limits of the process */

static void rlimit_add(plim__refusal *out, const facts *f, const char *row, const char *name, const char *used_key, plim_watch_cause cause)
{
    char source[64];
    uint64_t limit, used = 0;
    if (!f->limits[0]) return;
    if (!plim__rlimit_read(f->limits, row, &limit)) limit = PLIM_UNLIMITED;
    if (!plim__field_read(f->status, used_key, &used)) used = 0;
    snprintf(source, sizeof source, "/proc/%d/limits", f->pid);
    row_add(out, name, source, limit, used);
    if (exceeds(used, f->need, limit)) refuse(out, cause);
}

/* -------------------------------------------------------------------------------------------------- overcommit */

/* What mode 2 keeps back: for the administrator from all others, and from each process a 32nd of its own size, both bounded by settings. */
static uint64_t reserved(const facts *f)
{
    enum { CAP_SYS_ADMIN = 21 };
    uint64_t admin = 0, user = 0, size = 0, sum;
    const char *caps = strstr(f->status, "CapEff:");
    const bool is_admin = caps && (strtoull(caps + strlen("CapEff:"), NULL, 16) >> CAP_SYS_ADMIN & 1);
    if (is_admin || !plim__number_read(f->os, "/proc/sys/vm", "admin_reserve_kbytes", &admin) || !plim__mul(&admin, admin, 1024)) admin = 0;
    if (!plim__number_read(f->os, "/proc/sys/vm", "user_reserve_kbytes", &user) || !plim__mul(&user, user, 1024)) user = 0;
    if (plim__field_read(f->status, "VmSize:", &size) && size / 32 < user) user = size / 32;
    return plim__add(&sum, admin, user) ? sum : 0;
}

static void overcommit_add(plim__refusal *out, const facts *f)
{
    uint64_t mode, limit, used = 0, swap = 0;
    if (!plim__number_read(f->os, "/proc/sys/vm", "overcommit_memory", &mode) || mode == 1) return;
    if (mode == 2) {
        if (!plim__field_read(f->meminfo, "CommitLimit:", &limit) || !plim__field_read(f->meminfo, "Committed_AS:", &used)) return;
        const uint64_t kept = reserved(f);
        limit = limit > kept ? limit - kept : 0;
        row_add(out, "overcommit", "CommitLimit, less reserves (vm.overcommit_memory=2)", limit, used);
    } else {
        if (!out->ram_total) return;
        plim__field_read(f->meminfo, "SwapTotal:", &swap);
        if (!plim__add(&limit, out->ram_total, swap)) return;
        row_add(out, "overcommit", "RAM and swap, for one request (vm.overcommit_memory=0)", limit, 0);
    }
    if (exceeds(used, f->need, limit)) refuse(out, PLIM_WATCH_OVERCOMMIT);
}

/* ------------------------------------------------------------------------------- what does not refuse but kills */

/* Of the group and all above it, in either version, the one that leaves least. */
static void cgroup_add(plim__refusal *out, const facts *f)
{
    plim_limit best = {.limit = PLIM_UNLIMITED, .available = PLIM_UNLIMITED}, now;
    for (int v2 = 0; v2 < 2; v2++)
        if (plim__cgroup_tightest(&now, f->os, f->pid, v2) && now.available <= best.available) best = now;
    row_add(out, "cgroup", best.source, best.limit, best.used);
}

static void ram_read(plim__refusal *out, const facts *f)
{
    if (!plim__field_read(f->meminfo, "MemTotal:", &out->ram_total)) out->ram_total = 0;
    if (!plim__field_read(f->meminfo, "MemAvailable:", &out->ram_free)) out->ram_free = 0;
    if (out->ram_free > out->ram_total) out->ram_free = out->ram_total;
}

/* ------------------------------------------------------------------------------------------------ entry point */

static void facts_read(facts *f, plim__refusal *out)
{
    char path[64];
    maps_walk w;
    snprintf(path, sizeof path, "/proc/%d/status", f->pid);
    plim__text_read(f->os, path, f->status, sizeof f->status);
    snprintf(path, sizeof path, "/proc/%d/limits", f->pid);
    plim__text_read(f->os, path, f->limits, sizeof f->limits);
    plim__text_read(f->os, "/proc/meminfo", f->meminfo, sizeof f->meminfo);
    ram_read(out, f);
    if (!plim__field_read(f->status, "VmSize:", &out->vm_size)) out->vm_size = 0;
    f->maps_known = maps_read(&w, f->os, f->pid);
    if (!f->maps_known) return;
    out->maps = w.count;
    f->hole = w.hole;
}

void plim__refusal_find(plim__refusal *out, const plim__os *os, int pid, uint64_t bytes)
{
    facts f = {.os = os, .pid = pid};
    *out = (plim__refusal){0};
    facts_read(&f, out);
    /* malloc adds a header and rounds up to a page; memalign asks for a little more. */
    if (!plim__add(&f.need, bytes, 2 * PAGE - 1)) f.need = UINT64_MAX;
    f.need = plim__round_down(f.need, PAGE);
    if (bytes > ADDRESSES) {
        row_add(out, "size", "addresses of a program", ADDRESSES, 0);
        refuse(out, PLIM_WATCH_NONSENSE);
    }
    maps_add(out, &f);
    hole_add(out, &f);
    rlimit_add(out, &f, "Max address space", "RLIMIT_AS", "VmSize:", PLIM_WATCH_ADDRESS_SPACE);
    rlimit_add(out, &f, "Max data size", "RLIMIT_DATA", "VmData:", PLIM_WATCH_DATA);
    overcommit_add(out, &f);
    cgroup_add(out, &f);
    if (out->ram_total) row_add(out, "RAM", "/proc/meminfo", out->ram_total, out->ram_total - out->ram_free);
    if (out->cause == PLIM_WATCH_NO_CAUSE) out->first = out->n;
}
