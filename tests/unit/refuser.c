/* Which limit refuses: on machines that are not this one, from their files; and on this one, in children that run into real limits. */
#include "unit.h"
#include "waiting_child.h"

#include "fake_files.h"
#include "watch/refuser.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define KIB 1024ull
#define MIB (KIB * KIB)
#define GIB (KIB * MIB)

/* ---- machines that are not this one ---- */

#define MEMINFO {"/proc/meminfo", "MemTotal:       25165824 kB\nMemAvailable:   16777216 kB\nSwapTotal:       1048576 kB\n" \
                                  "CommitLimit:    10485760 kB\nCommitted_AS:    2097152 kB\n"}
#define STATUS {"/proc/7/status", "Name:\tpython3\nVmSize:\t 1048576 kB\nVmData:\t  524288 kB\nCapEff:\t0000000000000000\n"}
#define LIMITS(as, data) {"/proc/7/limits", "Limit                     Soft Limit           Hard Limit           Units\n" \
    "Max data size             " data "            unlimited            bytes\n" \
    "Max address space         " as "           unlimited            bytes\n"}
#define MAPS {"/proc/7/maps", "00400000-00500000 r-xp 00000000 08:01 131 /usr/bin/a-program-with-a-very-long-name/so-that-reads-cut-it\n" \
    "00600000-00700000 rw-p 00000000 00:00 0 [heap]\n7f0000000000-7fff00000000 rw-p 00000000 00:00 0\n" \
    "ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0 [vsyscall]\n"}
#define SYSCTL(map_count, overcommit) {"/proc/sys/vm/max_map_count", map_count}, {"/proc/sys/vm/overcommit_memory", overcommit}
#define END {NULL, NULL}

static plim__refusal refusal_of(const fake_file *files, uint64_t bytes)
{
    const plim__os os = fake_os(files);
    plim__refusal r;
    plim__refusal_find(&r, &os, 7, bytes);
    assert_true(r.n <= PLIM_WATCH_LIMITS);
    assert_true(r.cause == PLIM_WATCH_NO_CAUSE ? r.first == r.n : r.first < r.n && r.limit[r.first].refuses);
    for (uint32_t i = 0; i < r.first; i++) assert_false(r.limit[i].refuses);
    return r;
}

static const plim_watch_limit *row_named(const plim__refusal *r, const char *name)
{
    for (uint32_t i = 0; i < r->n; i++)
        if (!strcmp(r->limit[i].name, name)) return &r->limit[i];
    return NULL;
}

static void refused_by(const plim__refusal *r, plim_watch_cause cause, const char *name)
{
    assert_int_equal(r->cause, cause);
    assert_string_equal(r->limit[r->first].name, name);
}

static void nobody_refuses(void **state)
{
    (void)state;
    const fake_file files[] = {MEMINFO, STATUS, LIMITS("unlimited", "unlimited"), MAPS, SYSCTL("65530\n", "0\n"), END};
    const plim__refusal r = refusal_of(files, GIB);
    const char *const names[] = {"max_map_count", "RLIMIT_AS", "RLIMIT_DATA", "overcommit", "cgroup", "RAM"};
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    assert_int_equal(r.n, COUNT_OF(names));
    for (uint32_t i = 0; i < r.n; i++) assert_string_equal(r.limit[i].name, names[i]);
    assert_int_equal(r.ram_free, 16 * GIB);
    assert_int_equal(r.ram_total, 24 * GIB);
    assert_int_equal(r.vm_size, GIB);
    assert_int_equal(r.maps, 3); /* vsyscall is none of the program's */
    assert_int_equal(row_named(&r, "RLIMIT_AS")->limit, PLIM_UNLIMITED);
    assert_int_equal(row_named(&r, "cgroup")->limit, PLIM_UNLIMITED);
    assert_int_equal(row_named(&r, "RAM")->used, 8 * GIB);
}

static void nothing_can_be_read(void **state)
{
    (void)state;
    const fake_file none[] = {END};
    plim__refusal r = refusal_of(none, GIB);
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    assert_int_equal(r.ram_total, 0);
    r = refusal_of(none, UINT64_MAX);
    refused_by(&r, PLIM_WATCH_NONSENSE, "size");
}

static void nonsense_comes_first(void **state)
{
    (void)state;
    const fake_file files[] = {MEMINFO, STATUS, LIMITS("2147483648", "unlimited"), MAPS, SYSCTL("2\n", "0\n"), END};
    const uint64_t sizes[] = {UINT64_MAX, UINT64_MAX - 100, (uint64_t)PTRDIFF_MAX + 1, PTRDIFF_MAX, ((uint64_t)1 << 47) + 1};
    for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
        const plim__refusal r = refusal_of(files, sizes[i]);
        refused_by(&r, PLIM_WATCH_NONSENSE, "size");
        assert_true(row_named(&r, "RLIMIT_AS")->refuses);
    }
}

static void the_largest_hole(void **state)
{
    (void)state;
    /* 0x700000 to 0x7f0000000000 is the largest hole: a little under 127 TiB */
    const fake_file files[] = {MEMINFO, STATUS, LIMITS("unlimited", "unlimited"), MAPS, SYSCTL("65530\n", "1\n"), END};
    const uint64_t hole = 0x7f0000000000 - 0x700000;
    plim__refusal r = refusal_of(files, hole - 4 * KIB);
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    r = refusal_of(files, hole + 1);
    refused_by(&r, PLIM_WATCH_REQUEST, "address space");
    assert_int_equal(r.limit[r.first].limit, hole);
}

static void rlimits(void **state)
{
    (void)state;
    const fake_file as[] = {MEMINFO, STATUS, LIMITS("2147483648", "unlimited"), MAPS, SYSCTL("65530\n", "0\n"), END};
    plim__refusal r = refusal_of(as, GIB + 1);
    refused_by(&r, PLIM_WATCH_ADDRESS_SPACE, "RLIMIT_AS");
    assert_int_equal(r.limit[r.first].limit, 2 * GIB);
    assert_int_equal(r.limit[r.first].used, GIB);
    assert_string_equal(r.limit[r.first].source, "/proc/7/limits");
    r = refusal_of(as, GIB - 8 * KIB);
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    const fake_file data[] = {MEMINFO, STATUS, LIMITS("4294967296", "1073741824"), MAPS, SYSCTL("65530\n", "0\n"), END};
    r = refusal_of(data, GIB);
    refused_by(&r, PLIM_WATCH_DATA, "RLIMIT_DATA");
    r = refusal_of(data, 4 * GIB); /* both; the kernel asks for the address space first */
    refused_by(&r, PLIM_WATCH_ADDRESS_SPACE, "RLIMIT_AS");
    assert_true(row_named(&r, "RLIMIT_DATA")->refuses);
}

static void overcommit_modes(void **state)
{
    (void)state;
    const fake_file guess[] = {MEMINFO, STATUS, MAPS, SYSCTL("65530\n", "0\n"), END};
    plim__refusal r = refusal_of(guess, 25 * GIB + 1); /* RAM 24, swap 1 */
    refused_by(&r, PLIM_WATCH_OVERCOMMIT, "overcommit");
    assert_int_equal(r.limit[r.first].limit, 25 * GIB);
    assert_int_equal(refusal_of(guess, 24 * GIB).cause, PLIM_WATCH_NO_CAUSE);
    const fake_file always[] = {MEMINFO, STATUS, MAPS, SYSCTL("65530\n", "1\n"), END};
    r = refusal_of(always, 1024 * GIB);
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    assert_null(row_named(&r, "overcommit"));
    const fake_file strict[] = {MEMINFO, STATUS, MAPS, SYSCTL("65530\n", "2\n"), END};
    r = refusal_of(strict, 8 * GIB + 1); /* 2 of 10 GiB are promised */
    refused_by(&r, PLIM_WATCH_OVERCOMMIT, "overcommit");
    assert_int_equal(r.limit[r.first].used, 2 * GIB);
    assert_int_equal(refusal_of(strict, 8 * GIB - 8 * KIB).cause, PLIM_WATCH_NO_CAUSE);
    const fake_file kept[] = {MEMINFO, STATUS, MAPS, SYSCTL("65530\n", "2\n"), {"/proc/sys/vm/admin_reserve_kbytes", "8192\n"},
                              {"/proc/sys/vm/user_reserve_kbytes", "131072\n"}, END};
    r = refusal_of(kept, 8 * GIB - 39 * MIB); /* 8 MiB for the administrator, a 32nd of 1 GiB */
    refused_by(&r, PLIM_WATCH_OVERCOMMIT, "overcommit");
    assert_int_equal(refusal_of(kept, 8 * GIB - 41 * MIB).cause, PLIM_WATCH_NO_CAUSE);
}

static void groups_are_listed_but_do_not_refuse(void **state)
{
    (void)state;
    const fake_file files[] = {
        MEMINFO, STATUS, MAPS, SYSCTL("65530\n", "0\n"),
        {"/proc/self/mountinfo", "30 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"},
        {"/proc/self/cgroup", "0::/other\n"}, {"/proc/7/cgroup", "0::/a/b\n"},
        {"/sys/fs/cgroup/a/memory.max", "1073741824\n"}, {"/sys/fs/cgroup/a/memory.current", "1000000000\n"},
        {"/sys/fs/cgroup/a/memory.stat", "inactive_file 100000000\n"},
        {"/sys/fs/cgroup/a/b/memory.max", "2147483648\n"}, {"/sys/fs/cgroup/a/b/memory.current", "1000000\n"},
        {"/sys/fs/cgroup/other/memory.max", "1\n"}, END,
    };
    const plim__refusal r = refusal_of(files, 4 * GIB);
    const plim_watch_limit *g = row_named(&r, "cgroup");
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    assert_int_equal(g->limit, GIB);
    assert_int_equal(g->used, 900000000);
    assert_string_equal(g->source, "/sys/fs/cgroup/a/memory.max");
}

/* ---- this machine ---- */

static plim__refusal refusal_in_child(void (*work)(void), uint64_t bytes)
{
    const int pid = child_start(work);
    plim__refusal r;
    plim__refusal_find(&r, &plim__os_linux, pid, bytes);
    child_end(pid);
    return r;
}

/* Neighbours with other rights cannot be joined, so each is a mapping of its own. */
static void work_maps(void)
{
    for (int i = 0;; i++)
        if (mmap(NULL, 4096, i % 2 ? PROT_READ : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED) break;
    if (mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED) _exit(1);
}

static void real_map_count(void **state)
{
    (void)state;
    uint64_t most = 0;
    FILE *f = fopen("/proc/sys/vm/max_map_count", "r");
    if (f) (void)!fscanf(f, "%lu", &most), fclose(f);
    if (!most || most > 1 << 20) {
        print_message("SKIPPED: vm.max_map_count is too high to run into\n");
        skip();
    }
    const plim__refusal r = refusal_in_child(work_maps, MIB);
    refused_by(&r, PLIM_WATCH_MAPS, "max_map_count");
    assert_int_equal(r.limit[r.first].limit, most);
    assert_true(r.maps + 3 >= most && r.maps <= most + 3);
}

static void work_rlimit(void)
{
    setrlimit(RLIMIT_AS, &(struct rlimit){2 * GIB, RLIM_INFINITY});
}

static void work_nothing(void) {}

static void real_limits(void **state)
{
    (void)state;
    plim__refusal r = refusal_in_child(work_nothing, MIB);
    if (r.vm_size > GIB) {
        print_message("SKIPPED: more addresses are in use than the limit allows: a sanitizer's shadow\n");
        skip();
    }
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
    assert_true(r.ram_total > 0 && r.ram_free <= r.ram_total && r.maps > 5 && r.vm_size > 0);
    r = refusal_in_child(work_rlimit, 2 * GIB);
    refused_by(&r, PLIM_WATCH_ADDRESS_SPACE, "RLIMIT_AS");
    assert_int_equal(r.limit[r.first].limit, 2 * GIB);
    r = refusal_in_child(work_rlimit, MIB);
    assert_int_equal(r.cause, PLIM_WATCH_NO_CAUSE);
}

/* The same request put to the kernel: whoever is said to refuse or not, it must agree. */
static void the_kernel_agrees(void **state)
{
    (void)state;
    plim__refusal r;
    plim__refusal_find(&r, &plim__os_linux, getpid(), 1);
    for (int i = -1; i <= 1; i += 2) {
        const uint64_t bytes = r.ram_total + (uint64_t)(i * (int64_t)GIB) + 1024 * GIB * (i > 0);
        plim__refusal_find(&r, &plim__os_linux, getpid(), bytes);
        void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_int_equal(p == MAP_FAILED, r.cause != PLIM_WATCH_NO_CAUSE);
        if (p != MAP_FAILED) munmap(p, bytes);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(nobody_refuses),
        cmocka_unit_test(nothing_can_be_read),
        cmocka_unit_test(nonsense_comes_first),
        cmocka_unit_test(the_largest_hole),
        cmocka_unit_test(rlimits),
        cmocka_unit_test(overcommit_modes),
        cmocka_unit_test(groups_are_listed_but_do_not_refuse),
        cmocka_unit_test(real_map_count),
        cmocka_unit_test(real_limits),
        cmocka_unit_test(the_kernel_agrees),
    };
    return cmocka_run_group_tests_name("refuser", tests, NULL, NULL);
}
