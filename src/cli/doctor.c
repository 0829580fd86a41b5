/* plimsoll doctor: every limit that applies to this process, what is free, how fast the machine is, and what is wrong with it. What was measured is kept
 * in a file that other verbs plan with (machine.h).
 *
 * Facts first, then findings: cause, harm, remedy. Each finding has a floor below which it is not worth a line. */
#include "cli/folder.h"
#include "cli/machine.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)

typedef struct facts {
    plim_limits limits;
    uint64_t resident;
    uint32_t cpus, cpus_affinity;
    uint64_t swap_total, swap_used;
    double pressure; /* percent of the last ten seconds in which something waited for memory; NaN: the kernel does not say */
    char folder[PATH_MAX];
    plim__cli_folder disk;
    bool measured;
    plim_machine speed;
    char kept[PATH_MAX]; /* where it was saved; "": nowhere */
    char not_kept[512];  /* why not */
} facts;

/* ---- facts ---- */

static uint64_t meminfo_field(const char *key)
{
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    uint64_t value = 0;
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, key, strlen(key))) value = strtoull(line + strlen(key), NULL, 10) * 1024;
    if (f) fclose(f);
    return value;
}

static double pressure_read(void)
{
    FILE *f = fopen("/proc/pressure/memory", "r");
    double value = NAN;
    if (!f) return value;
    if (fscanf(f, "some avg10=%lf", &value) != 1) value = NAN;
    fclose(f);
    return value;
}

/* Saves what was measured: where --machine says, else in the cache. */
static void keep(facts *m, const plim__cli_shared *shared)
{
    plim_error err = {0};
    if (shared->no_machine) return;
    if (shared->machine_file) {
        snprintf(m->kept, sizeof m->kept, "%s", shared->machine_file);
        plim_machine_save(&m->speed, m->kept, &err);
    } else {
        plim__cli_machine_keep(m->kept, sizeof m->kept, &m->speed, &err);
    }
    if (err.code == PLIM_OK) return;
    m->kept[0] = 0;
    snprintf(m->not_kept, sizeof m->not_kept, "%s", err.message);
}

static plim_status measure(facts *m, const char *folder, plim__cli_shared *shared, plim_error *err)
{
    plim__cli_bar bar;
    plim__cli_bar_start(&bar, shared);
    bar.percent = true;
    const plim_status status = plim_machine_measure(&m->speed, folder, &shared->set, err);
    plim__cli_bar_end(&bar);
    m->measured = status == PLIM_OK;
    if (m->measured) keep(m, shared);
    return status;
}

static plim_status facts_read(facts *m, const char *folder, plim_error *err)
{
    uint64_t peak;
    plim_status status = plim_limits_read(&m->limits, err);
    if (!status) status = plim_resident_read(&m->resident, &peak, err);
    if (status) return status;
    cpu_set_t set[8];
    m->cpus = plim_cpu_count();
    m->cpus_affinity = sched_getaffinity(0, sizeof set, set) ? m->cpus : (uint32_t)CPU_COUNT_S(sizeof set, set);
    m->swap_total = meminfo_field("SwapTotal:");
    const uint64_t swap_free = meminfo_field("SwapFree:");
    m->swap_used = m->swap_total > swap_free ? m->swap_total - swap_free : 0;
    m->pressure = pressure_read();
    if (!realpath(folder, m->folder)) snprintf(m->folder, sizeof m->folder, "%s", folder);
    return PLIM_OK;
}

static void emit_limits(plim__emit *e, const plim_limits *l)
{
    static const plim__emit_column columns[] = {
        {"name", "limit", false},           {"limit_bytes", "of", true},    {"used_bytes", "used", true},
        {"available_bytes", "available", true}, {"decides", "decides", false}, {"source", "read from", false},
    };
    plim__emit_table(e, "limits", columns, 6);
    for (uint32_t i = 0; i < l->count; i++) {
        plim__emit_string(e, NULL, NULL, l->limit[i].name);
        plim__emit_bytes(e, NULL, NULL, l->limit[i].limit);
        plim__emit_bytes(e, NULL, NULL, l->limit[i].used);
        plim__emit_bytes(e, NULL, NULL, l->limit[i].available);
        plim__emit_bool(e, NULL, NULL, i == l->deciding);
        plim__emit_string(e, NULL, NULL, l->limit[i].source);
    }
    plim__emit_table_end(e);
    plim__emit_line(e, "\n");
    plim__emit_bytes(e, "available_bytes", "available", l->available);
    plim__emit_bytes(e, "reserve_bytes", "reserve", l->reserve);
    plim__emit_bytes(e, "budget_bytes", "default budget", l->budget);
}

/* MB/s of requests of 1 MiB. */
static double megabytes(const plim_requests *r) { return 1048576 / r->seconds[4] * 1e-6; }

static void emit_speeds(plim__emit *e, const facts *m)
{
    const double giga = 1e-9;
    const plim_machine *s = &m->speed;
    plim__emit_string(e, "folder", "disk at", m->folder);
    if (m->disk.writable) {
        plim__emit_bytes(e, "disk_free_bytes", "disk free", m->disk.free_bytes);
        plim__emit_bool(e, "disk_direct", "direct I/O", m->disk.direct);
    }
    if (!m->measured) return;
    plim__emit_number(e, "direct_read_mb_per_s", m->disk.direct ? "direct read" : NULL, "%.0f MB/s", m->disk.direct ? megabytes(&s->direct_read) : NAN);
    plim__emit_number(e, "direct_write_mb_per_s", m->disk.direct ? "direct write" : NULL, "%.0f MB/s", m->disk.direct ? megabytes(&s->direct_write) : NAN);
    plim__emit_number(e, "buffered_read_mb_per_s", "buffered read", "%.0f MB/s", megabytes(&s->buffered_read));
    plim__emit_number(e, "buffered_write_mb_per_s", "buffered write", "%.0f MB/s", megabytes(&s->buffered_write));
    plim__emit_number(e, "direct_read_4k_us", "reads of 4 KiB", "%.0f us each", s->direct_read.seconds[0] * 1e6);
    plim__emit_number(e, "gflop_per_s", "compute f32", "%.0f GFLOP/s", s->kernel[PLIM_KERNEL_PRODUCT_F32].all * giga);
    plim__emit_number(e, "copy_gb_per_s", "memory copy", "%.1f GB/s", s->memory_rate / 2 * giga);
    plim__emit_number(e, "first_touch_gb_per_s", "new memory", "%.1f GB/s", s->touch_rate * giga);
    plim__emit_string(e, "machine", "kept in", m->kept[0] ? m->kept : NULL);
    if (plim__emit_json(e)) plim__json_machine(plim__emit_json(e), "speeds", s);
}

/* ---- findings ---- */

typedef struct finding {
    char cause[240], harm[200], remedy[240];
} finding;

enum { FINDINGS_MAX = 16 };

typedef struct findings {
    finding list[FINDINGS_MAX];
    uint32_t n;
} findings;

static finding *finding_add(findings *f)
{
    return &f->list[f->n < FINDINGS_MAX ? f->n++ : FINDINGS_MAX - 1];
}

#define SAY(field, ...) snprintf((field), sizeof(field), __VA_ARGS__)

static const plim_limit *limit_named(const plim_limits *l, const char *name)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (!strcmp(l->limit[i].name, name)) return &l->limit[i];
    return NULL;
}

/* A control group that gives less than half of what the machine has surprises people who look at the machine. */
static void find_small_group(findings *f, const facts *m)
{
    static const char *const names[] = {"cgroup v1", "cgroup v2"};
    const plim_limit *ram = limit_named(&m->limits, "RAM");
    for (int i = 0; i < 2; i++) {
        const plim_limit *g = limit_named(&m->limits, names[i]);
        char limit[32], total[32];
        if (!g || !ram || g->limit == PLIM_UNLIMITED || g->limit > ram->limit / 2) continue;
        finding *x = finding_add(f);
        SAY(x->cause, "the control group allows %s of the machine's %s", plim_bytes_format(limit, sizeof limit, g->limit),
            plim_bytes_format(total, sizeof total, ram->limit));
        SAY(x->harm, "a program that goes by the machine's memory is killed");
        SAY(x->remedy, "raise %.160s, or give --memory below it", g->source);
    }
}

static void find_little_left(findings *f, const facts *m)
{
    const plim_limit *l = &m->limits.limit[m->limits.deciding];
    char left[32];
    if (m->limits.available >= 256 * MIB) return;
    finding *x = finding_add(f);
    SAY(x->cause, "%s leaves only %s", l->name, plim_bytes_format(left, sizeof left, l->available));
    SAY(x->harm, "plans get many small parts, and below about 64 MiB there may be none");
    SAY(x->remedy, "end what else runs here, or raise the limit (%.160s)", l->source);
}

static void find_address_limit(findings *f, const facts *m)
{
    const plim_limit *as = limit_named(&m->limits, "RLIMIT_AS"), *ram = limit_named(&m->limits, "RAM");
    char limit[32];
    if (!as || !ram || as->available >= ram->available) return;
    finding *x = finding_add(f);
    SAY(x->cause, "RLIMIT_AS is %s", plim_bytes_format(limit, sizeof limit, as->limit));
    SAY(x->harm, "it counts address space, not memory: libraries and thread stacks use it up too");
    SAY(x->remedy, "ulimit -v unlimited, and limit memory with a control group instead");
}

static void find_overcommit(findings *f, const facts *m)
{
    const plim_limit *o = limit_named(&m->limits, "overcommit");
    if (!o || &m->limits.limit[m->limits.deciding] != o) return;
    finding *x = finding_add(f);
    SAY(x->cause, "vm.overcommit_memory is 2, and little is left to commit");
    SAY(x->harm, "allocations fail while memory is free");
    SAY(x->remedy, "sysctl vm.overcommit_memory=0, or raise vm.overcommit_ratio");
}

static void find_busy_memory(findings *f, const facts *m)
{
    const plim_limit *ram = limit_named(&m->limits, "RAM");
    char used[32];
    if (m->pressure >= 10) {
        finding *x = finding_add(f);
        SAY(x->cause, "in %.0f %% of the last ten seconds something waited for memory", m->pressure);
        SAY(x->harm, "everything here is slow");
        SAY(x->remedy, "find out who: ps aux --sort=-rss | head");
    }
    if (ram && m->swap_used > GIB && m->swap_used > ram->limit / 10) {
        finding *x = finding_add(f);
        SAY(x->cause, "%s of swap is in use", plim_bytes_format(used, sizeof used, m->swap_used));
        SAY(x->harm, "a run that competes for memory waits for the disk");
        SAY(x->remedy, "end what else runs here, or stay well below the default budget");
    }
}

static void find_cpu_quota(findings *f, const facts *m)
{
    if (m->cpus >= m->cpus_affinity) return;
    finding *x = finding_add(f);
    SAY(x->cause, "the control group's quota is worth %u of %u CPUs", m->cpus, m->cpus_affinity);
    SAY(x->harm, "programs that start a thread per CPU are stopped in bursts");
    SAY(x->remedy, "raise cpu.max (v1: cpu.cfs_quota_us), or start %u threads", m->cpus);
}

static void find_unkept(findings *f, const facts *m)
{
    if (!m->not_kept[0]) return;
    finding *x = finding_add(f);
    SAY(x->cause, "what was measured is not kept: %.180s", m->not_kept);
    SAY(x->harm, "plans are made for an ordinary machine");
    SAY(x->remedy, "name a file for it: plimsoll doctor --machine FILE, and --machine FILE from then on");
}

static void find_disk(findings *f, const facts *m)
{
    const plim__cli_folder *d = &m->disk;
    char left[32];
    finding *x;
    if (!d->writable) {
        x = finding_add(f);
        SAY(x->cause, "no file can be made in %.120s: %s", m->folder, strerror(d->error));
        SAY(x->harm, "outputs and spilled values cannot go there");
        SAY(x->remedy, "name another folder: plimsoll doctor DIR");
        return;
    }
    if (d->in_memory) {
        x = finding_add(f);
        SAY(x->cause, "%.160s is a file system in memory", m->folder);
        SAY(x->harm, "every byte written there counts against the budget");
        SAY(x->remedy, "put outputs and --spill on a disk");
    } else if (!d->direct) {
        x = finding_add(f);
        SAY(x->cause, "the file system of %.120s has no direct I/O", m->folder);
        SAY(x->harm, "data goes through the page cache, which is charged to the control group");
        SAY(x->remedy, "put large files on ext4 or xfs, where there is a choice");
    }
    if (d->free_bytes < GIB || d->free_bytes < d->total_bytes / 50) {
        x = finding_add(f);
        SAY(x->cause, "%s is free at %.120s", plim_bytes_format(left, sizeof left, d->free_bytes), m->folder);
        SAY(x->harm, "large outputs and spilled values do not fit");
        SAY(x->remedy, "make room, or put them elsewhere");
    }
    const double reads = m->measured ? fmax(megabytes(&m->speed.direct_read), megabytes(&m->speed.buffered_read)) : 0;
    if (d->direct && m->measured && reads < 100) {
        x = finding_add(f);
        SAY(x->cause, "the disk reads %.0f MB/s", reads);
        SAY(x->harm, "anything larger than memory runs at that speed");
        SAY(x->remedy, "move the files to a faster disk");
    }
}

static void emit_findings(plim__emit *e, const findings *f)
{
    static const plim__emit_column columns[] = {{"cause", NULL, false}, {"harm", NULL, false}, {"remedy", NULL, false}};
    plim__emit_table(e, "findings", columns, 3);
    for (uint32_t i = 0; i < f->n; i++) {
        plim__emit_string(e, NULL, NULL, f->list[i].cause);
        plim__emit_string(e, NULL, NULL, f->list[i].harm);
        plim__emit_string(e, NULL, NULL, f->list[i].remedy);
    }
    plim__emit_table_end(e);
    plim__emit_line(e, "\n");
    for (uint32_t i = 0; i < f->n; i++)
        plim__emit_line(e, "%s\n  harm    %s\n  remedy  %s\n", f->list[i].cause, f->list[i].harm, f->list[i].remedy);
    if (f->n == 0) plim__emit_line(e, "nothing to complain about\n");
}

int plim_cli_doctor(int argc, char **argv)
{
    static plim__cli_shared shared;
    bool no_speed = false;
    const plim__cli_option options[] = {
        {"no-speed", 0, PLIM__CLI_IS_FLAG, &no_speed, NULL, "limits only: write no file, measure nothing", NULL},
        {"machine", 0, PLIM__CLI_IS_TEXT, &shared.machine_file, "FILE", "keep the speeds there", NULL},
        {"no-machine", 0, PLIM__CLI_IS_FLAG, &shared.no_machine, NULL, "keep them nowhere", NULL},
    };
    const plim__cli_command cmd = {
        .name = "doctor",
        .synopsis = "[DIR] [--no-speed] [--machine FILE | --no-machine] [--json]",
        .about = "Every limit on this process's memory, what is free, how fast disk (at DIR, or here), compute and\n"
                 "memory are, and what is wrong: cause, harm, remedy. Takes some seconds; the file that it reads and\n"
                 "writes has no name and is gone afterwards. The speeds are kept for this machine and this disk, in\n"
                 "$XDG_CACHE_HOME/plimsoll (~/.cache/plimsoll) or --machine FILE: eval, plan, train and infer plan with\n"
                 "them from then on.\n",
        .shared = PLIM__CLI_THREADS | PLIM__CLI_JSON | PLIM__CLI_QUIET,
        .option = options,
        .n_options = sizeof options / sizeof *options,
    };
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave)) return leave;
    if (argc > 1) return plim__cli_usage(cmd.name, "doctor looks at one folder at a time");

    static facts m;
    static findings found;
    static plim__emit emit;
    plim_error err = {0};
    const char *folder = argc ? argv[0] : ".";
    if (shared.machine_file && shared.no_machine) return plim__cli_usage(cmd.name, "--machine and --no-machine exclude each other");
    if (facts_read(&m, folder, &err)) return plim__cli_fail(&err, NULL);
    if (!no_speed) plim__cli_folder_look(&m.disk, folder);
    if (m.disk.writable && measure(&m, folder, &shared, &err)) return plim__cli_fail(&err, NULL);
    find_small_group(&found, &m);
    find_little_left(&found, &m);
    find_address_limit(&found, &m);
    find_overcommit(&found, &m);
    find_busy_memory(&found, &m);
    find_cpu_quota(&found, &m);
    if (!no_speed) find_disk(&found, &m);
    find_unkept(&found, &m);

    plim__emit_start(&emit, stdout, shared.json, cmd.name);
    emit_limits(&emit, &m.limits);
    plim__emit_bytes(&emit, "resident_bytes", "this process", m.resident);
    plim__emit_bytes(&emit, "swap_bytes", m.swap_total ? "swap" : NULL, m.swap_total);
    plim__emit_number(&emit, "memory_pressure_percent", isnan(m.pressure) ? NULL : "memory pressure", "%.0f %%", m.pressure);
    plim__emit_count(&emit, "cpus", "CPUs", m.cpus);
    if (!no_speed) emit_speeds(&emit, &m);
    emit_findings(&emit, &found);
    plim__emit_end(&emit);
    return PLIM__EXIT_OK;
}
