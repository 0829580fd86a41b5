/* Limits of machines that are not this one: their /proc and control-group files, from memory. */
#include "unit.h"

#include "fake_files.h"
#include "os/os.h"

#include <string.h>

#define KIB 1024ull
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

static plim_limits limits_of(const fake_file *files)
{
    const plim__os os = fake_os(files);
    plim_limits out;
    plim_error err = {0};
    if (plim__limits_read(&out, &os, &err)) fail_msg("%s", err.message);
    return out;
}

static const plim_limit *limit_named(const plim_limits *l, const char *name)
{
    for (uint32_t i = 0; i < l->count; i++)
        if (!strcmp(l->limit[i].name, name)) return &l->limit[i];
    return NULL;
}

#define MEMINFO {"/proc/meminfo", "MemTotal:       25165824 kB\nMemFree:         1048576 kB\nMemAvailable:   16777216 kB\nCached: 8388608 kB\n" \
                                  "CommitLimit:    10485760 kB\nCommitted_AS:    2097152 kB\n"}
#define V1_MOUNTS {"/proc/self/mountinfo", \
    "22 1 0:20 / /proc rw,relatime shared:5 - proc proc rw\n" \
    "30 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw,nosuid shared:9 - cgroup cgroup rw,cpu,cpuacct\n" \
    "35 31 0:32 / /sys/fs/cgroup/memory rw,nosuid shared:10 - cgroup cgroup rw,memory\n"}
#define V1_GROUP(path) {"/proc/self/cgroup", "9:name=systemd:/\n4:memory:" path "\n3:cpu,cpuacct:" path "\n0::/\n"}
#define V1_NONE "9223372036854771712\n"
#define V2_MOUNTS {"/proc/self/mountinfo", \
    "22 1 0:20 / /proc rw,relatime shared:5 - proc proc rw\n" \
    "30 23 0:27 / /sys/fs/cgroup rw,nosuid,nodev shared:9 - cgroup2 cgroup2 rw,nsdelegate\n"}
#define V2_GROUP(path) {"/proc/self/cgroup", "0::" path "\n"}
#define V2 "/sys/fs/cgroup"
#define V1 "/sys/fs/cgroup/memory"
#define END {NULL, NULL}

/* ---- RAM ---- */

static void ram_alone(void **state)
{
    (void)state;
    const fake_file files[] = {MEMINFO, END};
    const plim_limits l = limits_of(files);
    assert_int_equal(l.count, 1);
    assert_string_equal(l.limit[0].name, "RAM");
    assert_int_equal(l.limit[0].limit, 24 * GIB);
    assert_int_equal(l.limit[0].used, 8 * GIB);
    assert_int_equal(l.available, 16 * GIB);
    assert_int_equal(l.reserve, GIB);
    assert_int_equal(l.budget, 15 * GIB);
}

static void ram_of_an_old_kernel(void **state)
{
    (void)state;
    const fake_file files[] = {{"/proc/meminfo", "MemTotal: 1024 kB\nMemFree: 100 kB\nCached: 200 kB\n"}, END};
    const plim_limits l = limits_of(files);
    assert_int_equal(l.available, 300 * KIB);
    assert_int_equal(l.reserve, 75 * KIB); /* a quarter, where there is little */
}

static void nothing_known_is_an_error(void **state)
{
    (void)state;
    const fake_file files[] = {END};
    const plim__os os = fake_os(files);
    plim_limits l;
    assert_int_equal(plim__limits_read(&l, &os, NULL), PLIM_E_UNSUPPORTED);
}

/* ---- control groups, v1 ---- */

static void v1_own_group_decides(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, V1_MOUNTS, V1_GROUP("/job"),
        {V1 "/job/memory.limit_in_bytes", "1073741824\n"}, {V1 "/job/memory.usage_in_bytes", "314572800\n"},
        {V1 "/job/memory.stat", "cache 1\ninactive_file 5\ntotal_cache 300\ntotal_inactive_file 104857600\n"},
        {V1 "/memory.limit_in_bytes", V1_NONE}, {V1 "/memory.usage_in_bytes", "999999999\n"}, END,
    };
    const plim_limits l = limits_of(files);
    assert_int_equal(l.count, 2);
    const plim_limit *g = &l.limit[l.deciding];
    assert_string_equal(g->name, "cgroup v1");
    assert_string_equal(g->source, V1 "/job/memory.limit_in_bytes");
    assert_int_equal(g->limit, GIB);
    assert_int_equal(g->used, 200 * MIB); /* the inactive file pages are taken off */
    assert_int_equal(g->available, 824 * MIB);
    assert_int_equal(l.budget, l.available - l.reserve);
}

static void v1_tightest_ancestor_decides(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, V1_MOUNTS, V1_GROUP("/a/b/c"),
        {V1 "/a/b/c/memory.limit_in_bytes", "4294967296\n"}, {V1 "/a/b/c/memory.usage_in_bytes", "0\n"},
        {V1 "/a/b/memory.limit_in_bytes", V1_NONE}, {V1 "/a/b/memory.usage_in_bytes", "0\n"},
        {V1 "/a/memory.limit_in_bytes", "2147483648\n"}, {V1 "/a/memory.usage_in_bytes", "1073741824\n"}, {V1 "/a/memory.use_hierarchy", "1\n"}, END,
    };
    const plim_limits l = limits_of(files);
    assert_string_equal(l.limit[l.deciding].source, V1 "/a/memory.limit_in_bytes");
    assert_int_equal(l.available, GIB);
}

static void v1_ancestor_that_does_not_count_children(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, V1_MOUNTS, V1_GROUP("/a/b"), {V1 "/a/b/memory.limit_in_bytes", "4294967296\n"},
        {V1 "/a/memory.limit_in_bytes", "1048576\n"}, {V1 "/a/memory.use_hierarchy", "0\n"}, END,
    };
    const plim_limits l = limits_of(files);
    assert_int_equal(l.available, 4 * GIB);
}

static void v1_unlimited_is_said_so(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, V1_MOUNTS, V1_GROUP("/"), {V1 "/memory.limit_in_bytes", V1_NONE}, {V1 "/memory.usage_in_bytes", "4096\n"}, END,
    };
    const plim_limits l = limits_of(files);
    const plim_limit *g = limit_named(&l, "cgroup v1");
    assert_non_null(g);
    assert_true(g->limit == PLIM_UNLIMITED && g->available == PLIM_UNLIMITED);
    assert_string_equal(l.limit[l.deciding].name, "RAM");
}

/* ---- control groups, v2 ---- */

static void v2_nested_with_high(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, V2_MOUNTS, V2_GROUP("/user.slice/run.scope"),
        {V2 "/user.slice/run.scope/memory.max", "max\n"}, {V2 "/user.slice/run.scope/memory.high", "2147483648\n"},
        {V2 "/user.slice/run.scope/memory.current", "1610612736\n"},
        {V2 "/user.slice/run.scope/memory.stat", "anon 5\nfile 9\ninactive_file 536870912\n"},
        {V2 "/user.slice/memory.max", "8589934592\n"}, {V2 "/user.slice/memory.high", "max\n"}, {V2 "/user.slice/memory.current", "4294967296\n"}, END,
    };
    const plim_limits l = limits_of(files);
    const plim_limit *g = &l.limit[l.deciding];
    assert_string_equal(g->name, "cgroup v2");
    assert_string_equal(g->source, V2 "/user.slice/run.scope/memory.high");
    assert_int_equal(g->used, GIB);
    assert_int_equal(g->available, GIB);
}

static void v2_parent_over_its_limit_leaves_nothing(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, V2_MOUNTS, V2_GROUP("/a/b"), {V2 "/a/b/memory.max", "8589934592\n"},
        {V2 "/a/memory.max", "1073741824\n"}, {V2 "/a/memory.current", "1073745920\n"}, END,
    };
    const plim_limits l = limits_of(files);
    assert_int_equal(l.available, 0);
    assert_int_equal(l.budget, 0);
    assert_string_equal(l.limit[l.deciding].source, V2 "/a/memory.max");
}

static void v2_without_the_memory_controller_is_left_out(void **state)
{
    (void)state;
    const fake_file files[] = {MEMINFO, V2_MOUNTS, V2_GROUP("/a"), END};
    const plim_limits l = limits_of(files);
    assert_int_equal(l.count, 1);
}

/* A container without its own namespace: the mount shows the host's /docker/x as its root, /proc/self/cgroup the host's path. */
static void mount_of_a_part_of_the_tree(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO,
        {"/proc/self/mountinfo", "30 23 0:27 /docker/x /sys/fs/my\\040cgroup ro - cgroup2 cgroup rw\n"},
        {"/proc/self/cgroup", "0::/docker/x/job\n"},
        {"/sys/fs/my cgroup/job/memory.max", "2147483648\n"}, {"/sys/fs/my cgroup/memory.max", "1073741824\n"}, END,
    };
    const plim_limits l = limits_of(files);
    assert_int_equal(l.available, GIB);
    assert_string_equal(l.limit[l.deciding].source, "/sys/fs/my cgroup/memory.max");
}

static void path_outside_the_mount_uses_the_mount_point(void **state)
{
    (void)state;
    static const char *const paths[] = {"0::/../other\n", "0::/docker/xy\n", "0::/\n"};
    for (size_t i = 0; i < COUNT_OF(paths); i++) {
        const fake_file files[] = {
            MEMINFO, {"/proc/self/mountinfo", "30 23 0:27 /docker/x /cg ro - cgroup2 cgroup rw\n"}, {"/proc/self/cgroup", paths[i]},
            {"/cg/memory.max", "1073741824\n"}, END,
        };
        const plim_limits l = limits_of(files);
        assert_int_equal(l.available, GIB);
    }
}

static void both_versions_at_once(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO,
        {"/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n"},
        {"/proc/self/cgroup", "4:memory:/j\n0::/\n"}, {V1 "/j/memory.limit_in_bytes", "1073741824\n"}, END,
    };
    const plim_limits l = limits_of(files);
    assert_int_equal(l.count, 2);
    assert_string_equal(l.limit[l.deciding].name, "cgroup v1");
}

static void very_long_mount_lines_are_skipped(void **state)
{
    (void)state;
    static char mounts[40000];
    int n = snprintf(mounts, sizeof mounts, "20 1 0:20 / /overlay rw - overlay overlay rw,lowerdir=");
    for (int i = 0; i < 3000; i++) n += snprintf(mounts + n, sizeof mounts - (size_t)n, "/layer%d:", i % 100);
    snprintf(mounts + n, sizeof mounts - (size_t)n, "\n30 23 0:27 / /cg rw - cgroup2 cgroup rw\n");
    const fake_file files[] = {MEMINFO, {"/proc/self/mountinfo", mounts}, V2_GROUP("/"), {"/cg/memory.max", "1048576\n"}, END};
    const plim_limits l = limits_of(files);
    assert_int_equal(l.available, MIB);
}

static void long_sources_keep_their_end(void **state)
{
    (void)state;
    static char group[400], file[500], cgroup[500];
    memset(group, 'g', sizeof group - 1);
    group[0] = '/';
    snprintf(file, sizeof file, "/cg%s/memory.max", group);
    snprintf(cgroup, sizeof cgroup, "0::%s\n", group);
    const fake_file files[] = {
        MEMINFO, {"/proc/self/mountinfo", "30 23 0:27 / /cg rw - cgroup2 cgroup rw\n"}, {"/proc/self/cgroup", cgroup}, {file, "1048576\n"}, END,
    };
    const plim_limits l = limits_of(files);
    const char *source = l.limit[l.deciding].source;
    assert_int_equal(l.available, MIB);
    assert_int_equal(strlen(source), sizeof l.limit[0].source - 1);
    assert_string_equal(source + strlen(source) - 12, "g/memory.max");
}

/* ---- the process's own limits ---- */

#define LIMITS(as, data) {"/proc/self/limits", \
    "Limit                     Soft Limit           Hard Limit           Units     \n" \
    "Max data size             " data "           unlimited            bytes     \n" \
    "Max address space         " as "           unlimited            bytes     \n"}
#define STATUS {"/proc/self/status", "Name:\tplimsoll\nVmPeak:\t  20480 kB\nVmSize:\t  10240 kB\nVmHWM:\t    4096 kB\nVmRSS:\t    3072 kB\nVmData:\t    1024 kB\n"}

static void rlimits_count_what_is_mapped(void **state)
{
    (void)state;
    const fake_file files[] = {MEMINFO, STATUS, LIMITS("1073741824", "536870912"), END};
    const plim_limits l = limits_of(files);
    const plim_limit *as = limit_named(&l, "RLIMIT_AS"), *data = limit_named(&l, "RLIMIT_DATA");
    assert_non_null(as);
    assert_non_null(data);
    assert_int_equal(as->available, GIB - 10 * MIB);
    assert_int_equal(data->available, 511 * MIB);
    assert_string_equal(l.limit[l.deciding].name, "RLIMIT_DATA");
}

static void rlimits_that_are_not_set_are_left_out(void **state)
{
    (void)state;
    const fake_file files[] = {MEMINFO, STATUS, LIMITS("unlimited ", "unlimited"), END};
    const plim_limits l = limits_of(files);
    assert_int_equal(l.count, 1);
}

static void overcommit_only_in_mode_two(void **state)
{
    (void)state;
    const fake_file strict[] = {MEMINFO, {"/proc/sys/vm/overcommit_memory", "2\n"}, END};
    const fake_file loose[] = {MEMINFO, {"/proc/sys/vm/overcommit_memory", "0\n"}, END};
    plim_limits l = limits_of(strict);
    assert_string_equal(l.limit[l.deciding].name, "overcommit");
    assert_int_equal(l.available, 8 * GIB);
    l = limits_of(loose);
    assert_null(limit_named(&l, "overcommit"));
}

static void resident_is_read_from_status(void **state)
{
    (void)state;
    const fake_file files[] = {STATUS, END}, none[] = {END};
    plim__os os = fake_os(files);
    uint64_t now, peak;
    assert_int_equal(plim__resident_read(&now, &peak, &os, NULL), PLIM_OK);
    assert_int_equal(now, 3 * MIB);
    assert_int_equal(peak, 4 * MIB);
    os = fake_os(none);
    assert_int_equal(plim__resident_read(&now, &peak, &os, NULL), PLIM_E_IO);
}

/* ---- CPUs ---- */

static void cpu_quota_rounds_up(void **state)
{
    (void)state;
    const fake_file none[] = {END};
    const fake_file v2[] = {V2_MOUNTS, V2_GROUP("/a/b"), {V2 "/a/b/cpu.max", "max 100000\n"}, {V2 "/a/cpu.max", "50000 100000\n"}, END};
    const fake_file v1[] = {V1_MOUNTS, V1_GROUP("/j"), {"/sys/fs/cgroup/cpu,cpuacct/j/cpu.cfs_quota_us", "100001\n"},
                            {"/sys/fs/cgroup/cpu,cpuacct/j/cpu.cfs_period_us", "100000\n"}, END};
    const fake_file v1_none[] = {V1_MOUNTS, V1_GROUP("/j"), {"/sys/fs/cgroup/cpu,cpuacct/j/cpu.cfs_quota_us", "-1\n"},
                                 {"/sys/fs/cgroup/cpu,cpuacct/j/cpu.cfs_period_us", "100000\n"}, END};
    plim__os os = fake_os(none);
    const uint32_t all = plim__cpu_count(&os);
    assert_true(all >= 1);
    os = fake_os(v2);
    assert_int_equal(plim__cpu_count(&os), 1);
    os = fake_os(v1);
    assert_int_equal(plim__cpu_count(&os), all < 2 ? all : 2);
    os = fake_os(v1_none);
    assert_int_equal(plim__cpu_count(&os), all);
}

/* ---- this machine ---- */

static void real_machine_has_a_budget(void **state)
{
    (void)state;
    plim_limits l;
    uint64_t now, peak;
    assert_int_equal(plim_limits_read(&l, NULL), PLIM_OK);
    assert_true(l.count >= 1 && l.budget > 0 && l.budget < l.available);
    for (uint32_t i = 0; i < l.count; i++) assert_true(l.limit[i].available >= l.available);
    assert_int_equal(plim_resident_read(&now, &peak, NULL), PLIM_OK);
    assert_true(now > 0 && peak >= now);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(ram_alone),
        cmocka_unit_test(ram_of_an_old_kernel),
        cmocka_unit_test(nothing_known_is_an_error),
        cmocka_unit_test(v1_own_group_decides),
        cmocka_unit_test(v1_tightest_ancestor_decides),
        cmocka_unit_test(v1_ancestor_that_does_not_count_children),
        cmocka_unit_test(v1_unlimited_is_said_so),
        cmocka_unit_test(v2_nested_with_high),
        cmocka_unit_test(v2_parent_over_its_limit_leaves_nothing),
        cmocka_unit_test(v2_without_the_memory_controller_is_left_out),
        cmocka_unit_test(mount_of_a_part_of_the_tree),
        cmocka_unit_test(path_outside_the_mount_uses_the_mount_point),
        cmocka_unit_test(both_versions_at_once),
        cmocka_unit_test(very_long_mount_lines_are_skipped),
        cmocka_unit_test(long_sources_keep_their_end),
        cmocka_unit_test(rlimits_count_what_is_mapped),
        cmocka_unit_test(rlimits_that_are_not_set_are_left_out),
        cmocka_unit_test(overcommit_only_in_mode_two),
        cmocka_unit_test(resident_is_read_from_status),
        cmocka_unit_test(cpu_quota_rounds_up),
        cmocka_unit_test(real_machine_has_a_budget),
    };
    return cmocka_run_group_tests_name("limits", tests, NULL, NULL);
}
