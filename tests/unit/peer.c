/* Looking into another process: a child that holds known memory, its family, and programs into which no library can be loaded. */
#include "unit.h"
#include "waiting_child.h"

#include "watch/peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* One page, with nothing mapped after it. */
static char *pages;

static int pages_setup(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    pages = mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) return -1;
    memset(pages, 'a', page);
    return munmap(pages + page, 2 * page);
}

static void words_and_texts_are_read(void **state)
{
    (void)state;
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    const uint64_t base = (uintptr_t)pages;
    memcpy(pages + page - 6, "hello", 6);
    memset(pages + 100, 'b', 1000);
    pages[1100] = 0;
    memcpy(pages, &(uint64_t){0x1234567890abcdef}, 8);
    pages[32] = 0;
    const int pid = child_start(NULL);
    char text[2048];
    assert_int_equal(plim__peer_word(pid, base), 0x1234567890abcdef);
    assert_int_equal(plim__peer_word(pid, base + page), 0);
    assert_int_equal(plim__peer_word(pid, base + page - 4), 0); /* half of it is not there */
    assert_int_equal(plim__peer_word(pid, UINT64_MAX - 3), 0);
    assert_true(plim__peer_text(pid, base + page - 6, text, sizeof text));
    assert_string_equal(text, "hello");
    assert_true(plim__peer_text(pid, base + 100, text, sizeof text));
    assert_int_equal(strlen(text), 1000);
    assert_true(plim__peer_text(pid, base + 100, text, 8));
    assert_string_equal(text, "bbbbbbb");
    assert_true(plim__peer_text(pid, base + 32, text, sizeof text)); /* an empty string is one */
    assert_string_equal(text, "");
    assert_false(plim__peer_text(pid, base + page, text, sizeof text));
    assert_string_equal(text, "");
    pages[page - 1] = 'z'; /* in the parent alone; ends at the page's end without a NUL */
    assert_true(plim__peer_text(getpid(), base + page - 3, text, sizeof text));
    assert_string_equal(text, "loz");
    child_end(pid);
    assert_int_equal(plim__peer_word(pid, base), 0);
}

static void touch_16_mib(void)
{
    char *p = mmap(NULL, 64 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p != MAP_FAILED) memset(p, 1, 16 << 20);
}

static void status_says_what_is_resident(void **state)
{
    (void)state;
    const int pid = child_start(touch_16_mib);
    plim__peer_status s;
    assert_true(plim__peer_status_read(pid, &s));
    assert_true(s.alive);
    assert_int_equal(s.parent, getpid());
    assert_string_equal(s.name, "unit-peer");
    assert_true(s.anon >= 16 << 20 && s.resident >= s.anon && s.peak >= s.resident && s.vm_size >= 64 << 20);
    assert_true(s.resident < 200u << 20);
    uint64_t mapped;
    const uint64_t now = plim__peer_resident(pid, &mapped);
    plim__peer_kinds share;
    /* the kernel may have taken pages of files away between the two looks */
    const uint64_t before = s.file + s.shared;
    assert_true((mapped > before ? mapped - before : before - mapped) <= 4 << 20);
    assert_true(now >= mapped + (16 << 20));
    assert_true(now >= 16 << 20 && now < 200u << 20);
    assert_true(plim__peer_shares(pid, &share) && share.anon >= 16 << 20 && share.anon + share.file + share.shared <= now + (1 << 20));
    kill(pid, SIGKILL);
    siginfo_t info;
    assert_int_equal(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0); /* now a zombie */
    assert_true(plim__peer_status_read(pid, &s));
    assert_false(s.alive);
    assert_int_equal(s.resident, 0);
    assert_int_equal(plim__peer_resident(pid, NULL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_false(plim__peer_status_read(pid, &s));
    assert_int_equal(plim__peer_resident(pid, NULL), 0);
    assert_false(plim__peer_shares(pid, &share));
}

static void files_are_cut_to_fit(void **state)
{
    (void)state;
    char text[16];
    assert_int_equal(plim__peer_file(getpid(), "comm", text, sizeof text), 10);
    assert_string_equal(text, "unit-peer\n");
    assert_int_equal(plim__peer_file(getpid(), "comm", text, 5), 4);
    assert_string_equal(text, "unit");
    assert_int_equal(plim__peer_file(getpid(), "no such file", text, sizeof text), 0);
    assert_string_equal(text, "");
}

/* ---- family ---- */

static void have_a_child(void)
{
    const int parent = getpid();
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != parent) _exit(0); /* it was gone before that */
        prctl(PR_SET_NAME, "a (b) c d");
        for (;;) pause();
    }
}

static void tree_has_parents_first(void **state)
{
    (void)state;
    const int a = child_start(have_a_child), b = child_start(NULL);
    int pid[8], parent[8];
    const uint32_t n = plim__peer_tree(getpid(), pid, parent, 8);
    assert_int_equal(n, 4);
    assert_int_equal(pid[0], getpid());
    assert_int_equal(parent[0], getppid());
    assert_true((pid[1] == a && pid[2] == b) || (pid[1] == b && pid[2] == a));
    assert_int_equal(parent[1], getpid());
    assert_int_equal(parent[2], getpid());
    assert_int_equal(parent[3], a);
    assert_int_equal(plim__peer_tree(getpid(), pid, parent, 2), 2);
    assert_int_equal(plim__peer_tree(getpid(), pid, parent, 0), 0);
    assert_int_equal(plim__peer_tree(b, pid, parent, 8), 1);
    child_end(a);
    child_end(b);
    assert_int_equal(plim__peer_tree(b, pid, parent, 8), 0);
}

/* ---- programs ---- */

static char folder[] = "/tmp/plimsoll-peer-XXXXXX";

static const char *file_make(const char *name, const void *data, size_t n, unsigned mode)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    assert_int_equal(chmod(path, mode), 0);
    return path;
}

static void programs_that_take_no_library(void **state)
{
    (void)state;
    char why[64];
    assert_non_null(mkdtemp(folder));
    assert_true(plim__peer_preloadable("sh", why, sizeof why));
    assert_true(plim__peer_preloadable("/bin/sh", why, sizeof why));
    assert_true(plim__peer_preloadable("no-such-program-anywhere", why, sizeof why));
    const char script[] = "#! /bin/sh -e\necho\n";
    assert_true(plim__peer_preloadable(file_make("script", script, strlen(script), 0755), why, sizeof why));

    char elf[64 + 56] = {0x7f, 'E', 'L', 'F', 2, 1, 1}; /* a header and one program header, PT_LOAD: no interpreter */
    elf[32] = 64, elf[54] = 56, elf[56] = 1, elf[64] = 1;
    assert_false(plim__peer_preloadable(file_make("static", elf, sizeof elf, 0755), why, sizeof why));
    assert_string_equal(why, "it is linked statically");
    char line[160];
    snprintf(line, sizeof line, "#!%s/static\n", folder);
    assert_false(plim__peer_preloadable(file_make("script", line, strlen(line), 0755), why, sizeof why));
    assert_string_equal(why, "it is linked statically");
    elf[64] = 3; /* PT_INTERP */
    assert_true(plim__peer_preloadable(file_make("dynamic", elf, sizeof elf, 0755), why, sizeof why));
    assert_false(plim__peer_preloadable(file_make("cut", elf, 30, 0755), why, sizeof why));
    memset(elf + 32, 0xff, 8); /* program headers far outside */
    assert_false(plim__peer_preloadable(file_make("outside", elf, sizeof elf, 0755), why, sizeof why));
    elf[4] = 1;
    assert_false(plim__peer_preloadable(file_make("old", elf, sizeof elf, 0755), why, sizeof why));
    assert_string_equal(why, "it is a 32-bit program");
    for (const char *const *name = (const char *const[]){"script", "static", "dynamic", "cut", "outside", "old", NULL}; *name; name++) {
        snprintf(line, sizeof line, "%s/%s", folder, *name);
        unlink(line);
    }
}

/* Another user's rights; only root can make such a file. */
static void programs_with_rights_of_their_own(void **state)
{
    (void)state;
    char why[64], elf[64 + 56] = {0x7f, 'E', 'L', 'F', 2, 1, 1};
    elf[32] = 64, elf[54] = 56, elf[56] = 1, elf[64] = 3;
    const char *path = file_make("rights", elf, sizeof elf, 0755);
    const bool may = chown(path, getuid() + 1, getgid() + 1) == 0;
    if (may) {
        assert_int_equal(chmod(path, 04755), 0);
        assert_false(plim__peer_preloadable(path, why, sizeof why));
        assert_string_equal(why, "it is a setuid program");
        assert_int_equal(chmod(path, 02755), 0);
        assert_false(plim__peer_preloadable(path, why, sizeof why));
        assert_string_equal(why, "it is a setgid program");
        assert_int_equal(chown(path, getuid(), getgid()), 0);
    }
    assert_int_equal(chmod(path, 06755), 0);
    assert_true(plim__peer_preloadable(path, why, sizeof why)); /* one's own: nothing changes */
    unlink(path);
    rmdir(folder);
    if (!may) {
        print_message("SKIPPED: a file of another user cannot be made without being root\n");
        skip();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(words_and_texts_are_read, pages_setup),
        cmocka_unit_test(status_says_what_is_resident),
        cmocka_unit_test(files_are_cut_to_fit),
        cmocka_unit_test(tree_has_parents_first),
        cmocka_unit_test(programs_that_take_no_library),
        cmocka_unit_test(programs_with_rights_of_their_own),
    };
    return cmocka_run_group_tests_name("peer", tests, NULL, NULL);
}
