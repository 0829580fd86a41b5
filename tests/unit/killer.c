/* Who killed a process: from the files of machines that are not this one, and a real kill in a control group where one may be made. */
#include "unit.h"

#include "fake_files.h"
#include "watch/killer.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* ---- machines that are not this one ---- */

#define MEMINFO {"/proc/meminfo", "MemTotal:       25165824 kB\nMemAvailable:   16777216 kB\n"}
#define VMSTAT(n) {"/proc/vmstat", "nr_free_pages 1\noom_kill " n "\n"}
#define V1 "/sys/fs/cgroup/memory"
#define V1_MOUNT {"/proc/self/mountinfo", "35 31 0:32 / /sys/fs/cgroup/memory rw shared:10 - cgroup cgroup rw,memory\n"}
#define V1_MOUNTS V1_MOUNT, {"/proc/7/cgroup", "4:memory:/a/b\n"}
#define V1_FILES(dir, kills, most, limit, usage)                                                                  \
    {V1 dir "/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill " kills "\n"},                      \
    {V1 dir "/memory.max_usage_in_bytes", most "\n"}, {V1 dir "/memory.limit_in_bytes", limit "\n"}, {V1 dir "/memory.usage_in_bytes", usage "\n"}
#define V1_NONE "9223372036854771712"
#define V2 "/sys/fs/cgroup"
#define V2_MOUNTS {"/proc/self/mountinfo", "30 23 0:27 / /sys/fs/cgroup rw,nosuid shared:9 - cgroup2 cgroup2 rw\n"}, {"/proc/7/cgroup", "0::/a/b\n"}
#define V2_FILES(dir, kills, hits, limit, usage)                                                                  \
    {V2 dir "/memory.events", "low 0\nhigh 0\nmax 9\noom " hits "\noom_kill " kills "\noom_group_kill 0\n"},      \
    {V2 dir "/memory.max", limit "\n"}, {V2 dir "/memory.current", usage "\n"}
#define END {NULL, NULL}

static plim__killed killed_between(const fake_file *before, const fake_file *after, plim__killer *k)
{
    plim__os os = fake_os(before);
    plim__killed out;
    *k = (plim__killer){0};
    plim__killer_look(k, &os, 7);
    plim__killer_look(k, &os, 7);
    assert_true(k->started);
    os = fake_os(after);
    plim__killer_find(&out, k, &os);
    return out;
}

static void v1_own_limit(void **state)
{
    (void)state;
    const fake_file before[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "0", "3", "268435456", "267386880"),
                                V1_FILES("/a", "0", "0", V1_NONE, "1"), END};
    const fake_file after[] = {MEMINFO, VMSTAT("5"), V1_MOUNTS, V1_FILES("/a/b", "1", "268435456", "268435456", "0"),
                               V1_FILES("/a", "0", "0", V1_NONE, "1"), END};
    plim__killer k;
    const plim__killed d = killed_between(before, after, &k);
    assert_int_equal(k.n, 2);
    assert_string_equal(k.group[0].path, "/a/b");
    assert_int_equal(k.group[1].limit, PLIM_UNLIMITED);
    assert_int_equal(d.cause, PLIM_WATCH_CGROUP);
    assert_int_equal(d.group, 0);
    assert_int_equal(d.limit, 256 * MIB);
    assert_int_equal(d.usage_last, 255 * MIB);
    assert_string_equal(d.text, "memory.oom_control oom_kill 0 -> 1 in /a/b (limit 256 MiB, 255 MiB charged at the last look); "
                                "the machine had 16 GiB free");
}

/* v1 counts the kill in the victim's group, although it was its parent's limit. */
static void v1_limit_of_the_parent(void **state)
{
    (void)state;
    const fake_file before[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "0", "0", V1_NONE, "1"),
                                V1_FILES("/a", "0", "0", "268435456", "5"), END};
    const fake_file after[] = {MEMINFO, VMSTAT("5"), V1_MOUNTS, V1_FILES("/a/b", "1", "0", V1_NONE, "1"),
                               V1_FILES("/a", "0", "268431360", "268435456", "5"), END};
    plim__killer k;
    const plim__killed d = killed_between(before, after, &k);
    assert_int_equal(d.cause, PLIM_WATCH_CGROUP);
    assert_int_equal(d.group, 1);
    assert_string_equal(k.group[d.group].path, "/a");
}

static void v2_tells_which(void **state)
{
    (void)state;
    const fake_file before[] = {MEMINFO, VMSTAT("0"), V2_MOUNTS, V2_FILES("/a/b", "2", "2", "1073741824", "9"),
                                V2_FILES("/a", "2", "2", "536870912", "536000000"), END};
    const fake_file after[] = {MEMINFO, VMSTAT("1"), V2_MOUNTS, V2_FILES("/a/b", "3", "2", "1073741824", "9"),
                               V2_FILES("/a", "3", "3", "536870912", "1"), END};
    plim__killer k;
    const plim__killed d = killed_between(before, after, &k);
    assert_int_equal(d.cause, PLIM_WATCH_CGROUP);
    assert_int_equal(d.group, 1);
    assert_int_equal(d.kills_before, 2);
    assert_int_equal(d.kills_after, 3);
    assert_non_null(strstr(d.text, "memory.events oom_kill 2 -> 3 in /a/b, below /a (limit 512 MiB"));
}

/* The count goes up, but no limit was reached: the machine ran out. */
static void the_machine(void **state)
{
    (void)state;
    const fake_file before[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "0", "3", "268435456", "1000"), END};
    const fake_file after[] = {MEMINFO, VMSTAT("5"), V1_MOUNTS, V1_FILES("/a/b", "1", "3", "268435456", "0"), END};
    const fake_file none[] = {MEMINFO, VMSTAT("4"), END}, none_after[] = {MEMINFO, VMSTAT("5"), END};
    plim__killer k;
    assert_int_equal(killed_between(before, after, &k).cause, PLIM_WATCH_HOST);
    const plim__killed d = killed_between(none, none_after, &k);
    assert_int_equal(d.cause, PLIM_WATCH_HOST);
    assert_non_null(strstr(d.text, "oom_kill 4 -> 5"));
}

static void somebody_else(void **state)
{
    (void)state;
    const fake_file before[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "1", "3", "268435456", "268435456"), END};
    const fake_file after[] = {MEMINFO, VMSTAT("5"), V1_MOUNTS,
                               V1_FILES("/a/b", "1", "268435456", "268435456", "0"), END}; /* another group's victim */
    const fake_file nothing[] = {END};
    plim__killer k;
    assert_int_equal(killed_between(before, after, &k).cause, PLIM_WATCH_SIGNAL);
    assert_int_equal(killed_between(before, before, &k).cause, PLIM_WATCH_SIGNAL);
    assert_int_equal(killed_between(nothing, nothing, &k).cause, PLIM_WATCH_SIGNAL);
}

/* The group went with its last process: the last usage says whether it was full. */
static void group_is_gone(void **state)
{
    (void)state;
    const fake_file full[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "0", "3", "268435456", "267386880"), END};
    const fake_file empty[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "0", "3", "268435456", "1000"), END};
    const fake_file after[] = {MEMINFO, VMSTAT("5"), END};
    plim__killer k;
    const plim__killed d = killed_between(full, after, &k);
    assert_int_equal(d.cause, PLIM_WATCH_CGROUP);
    assert_int_equal(d.limit, 256 * MIB);
    assert_int_equal(killed_between(empty, after, &k).cause, PLIM_WATCH_HOST);
    assert_int_equal(killed_between(full, full, &k).cause, PLIM_WATCH_SIGNAL);
}

/* A zombie is shown in the root group; what was known of it stays. And a process may move while it lives. */
static void looks_follow_the_process(void **state)
{
    (void)state;
    const fake_file first[] = {MEMINFO, VMSTAT("4"), V1_MOUNTS, V1_FILES("/a/b", "5", "3", "268435456", "10"),
                               V1_FILES("/a", "0", "0", V1_NONE, "1"), END};
    const fake_file zombie[] = {MEMINFO, VMSTAT("4"), {"/proc/7/status", "Name:\tx\nState:\tZ (zombie)\n"}, V1_MOUNT,
                                {"/proc/7/cgroup", "4:memory:/\n"}, END};
    const fake_file moved[] = {MEMINFO, VMSTAT("4"), V1_MOUNT, {"/proc/7/cgroup", "4:memory:/a/c\n"}, V1_FILES("/a/c", "8", "0", "1048576", "7"),
                               V1_FILES("/a", "6", "0", V1_NONE, "2"), END};
    plim__killer k = {0};
    plim__os os = fake_os(first);
    plim__killer_look(&k, &os, 7);
    os = fake_os(zombie);
    plim__killer_look(&k, &os, 7);
    assert_int_equal(k.n, 2);
    assert_string_equal(k.group[0].path, "/a/b");
    os = fake_os(moved);
    plim__killer_look(&k, &os, 7);
    assert_int_equal(k.n, 2);
    assert_string_equal(k.group[0].path, "/a/c");
    assert_int_equal(k.group[0].kills, 8);
    assert_int_equal(k.group[1].kills, 0); /* as at the first look */
    assert_int_equal(k.group[1].usage, 2);
}

/* ---- this machine ---- */

static char folder[512];

static bool group_make(void)
{
    FILE *f = popen("sh " PLIM_SOURCE_DIR "/tests/lib/cgroup.sh make 67108864 2>/dev/null", "r");
    folder[0] = 0;
    if (!f) return false;
    if (!fgets(folder, sizeof folder, f)) folder[0] = 0;
    folder[strcspn(folder, "\n")] = 0;
    return pclose(f) == 0 && folder[0];
}

static void folder_remove(const char *path)
{
    for (int i = 0; i < 20 && rmdir(path); i++) usleep(100000);
}

static bool group_join(const char *path, int pid)
{
    char name[600], text[32];
    snprintf(name, sizeof name, "%s/cgroup.procs", path);
    const int fd = open(name, O_WRONLY);
    const int n = snprintf(text, sizeof text, "%d", pid);
    const bool ok = fd >= 0 && write(fd, text, (size_t)n) == n;
    if (fd >= 0) close(fd);
    return ok;
}

/* A child in the group that touches 100 MiB, or waits to be killed, when it is told to. @return how it was explained */
static plim__killed real_kill(plim__killer *k, const char *path, bool touch)
{
    int go[2];
    assert_int_equal(pipe(go), 0);
    const int pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        char c;
        close(go[1]);
        (void)!read(go[0], &c, 1);
        char *p = mmap(NULL, 100 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (touch) memset(p, 1, 100 * MIB);
        for (;;) pause();
    }
    close(go[0]);
    assert_true(group_join(path, pid));
    *k = (plim__killer){0};
    plim__killer_look(k, &plim__os_linux, pid);
    assert_int_equal(write(go[1], "x", 1), 1);
    close(go[1]);
    if (!touch) kill(pid, SIGKILL);
    int status;
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    plim__killer_look(k, &plim__os_linux, pid);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    plim__killed out;
    plim__killer_find(&out, k, &plim__os_linux);
    return out;
}

static void a_real_kill(void **state)
{
    (void)state;
    if (!group_make()) {
        print_message("SKIPPED: may not create a memory cgroup here\n");
        skip();
    }
    plim__killer k;
    plim__killed d = real_kill(&k, folder, true);
    print_message("%s\n", d.text);
    assert_int_equal(d.cause, PLIM_WATCH_CGROUP);
    assert_int_equal(d.limit, 64 * MIB);
    assert_int_equal(d.kills_after, d.kills_before + 1);
    assert_string_equal(k.group[d.group].folder, folder);

    char below[600];
    snprintf(below, sizeof below, "%s/below", folder); /* v2 lets no group have both processes and groups below it, and the one above is empty now */
    if (mkdir(below, 0755) == 0) {
        d = real_kill(&k, below, true);
        print_message("%s\n", d.text);
        assert_int_equal(d.cause, PLIM_WATCH_CGROUP);
        assert_int_equal(d.limit, 64 * MIB);
        assert_string_equal(k.group[d.group].folder, folder);
        folder_remove(below);
    }
    d = real_kill(&k, folder, false);
    print_message("%s\n", d.text);
    assert_int_equal(d.cause, PLIM_WATCH_SIGNAL);
    folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(v1_own_limit),
        cmocka_unit_test(v1_limit_of_the_parent),
        cmocka_unit_test(v2_tells_which),
        cmocka_unit_test(the_machine),
        cmocka_unit_test(somebody_else),
        cmocka_unit_test(group_is_gone),
        cmocka_unit_test(looks_follow_the_process),
        cmocka_unit_test(a_real_kill),
    };
    return cmocka_run_group_tests_name("killer", tests, NULL, NULL);
}
