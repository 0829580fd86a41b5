/* Outputs appear whole or not at all: names, stale files, refusals, and every system call failing in turn. */
#include "unit.h"

#include "faulty_os.h"
#include "files.h"

#include <dirent.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>

static int count_hidden(const char *folder)
{
    int n = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    for (const struct dirent *e; (e = readdir(dir));) n += strstr(e->d_name, ".plimsoll-tmp") != NULL;
    closedir(dir);
    return n;
}

static void check_contents(const char *name, const char *want, size_t n_want)
{
    size_t n;
    uint8_t *got = files_read(name, &n);
    assert_non_null(got);
    assert_int_equal(n, n_want);
    assert_memory_equal(got, want, n);
    free(got);
}

static void commit_one(const char *name, bool direct)
{
    plim_error err = {0};
    plim__tempfile *t;
    if (plim__tempfile_new(&t, &plim__os_linux, files_path(name), 5, direct, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(count_hidden(files_dir), 1);
    assert_true(plim__tempfile_is_direct(t) || plim__tempfile_fd(t) == plim__tempfile_buffered_fd(t));
    /* more than its size: direct I/O writes whole blocks */
    assert_int_equal(pwrite(plim__tempfile_buffered_fd(t), "hello, world", 12, 0), 12);
    if (plim__tempfile_commit(&t, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_null(t);
    check_contents(name, "hello", 5);
    assert_int_equal(count_hidden(files_dir), 0);
}

static void test_commit(void **state)
{
    (void)state;
    commit_one("new.npy", true);
    commit_one("new.npy", false); /* replaces */
    char name[221];
    memset(name, 'n', 220);
    name[220] = 0;
    commit_one(name, true); /* the hidden name must stay short enough too */
}

static void test_commit_empty(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__tempfile *t;
    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, files_path("empty.bin"), 0, true, &err), PLIM_OK);
    assert_int_equal(plim__tempfile_commit(&t, &err), PLIM_OK);
    check_contents("empty.bin", "", 0);
}

static void test_drop(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__tempfile *t, *second;
    files_write("kept.npy", "old", 3);
    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, files_path("kept.npy"), 10000, true, &err), PLIM_OK);
    assert_int_equal(plim__tempfile_new(&second, &plim__os_linux, files_path("kept.npy"), 10000, true, &err), PLIM_OK);
    assert_int_equal(count_hidden(files_dir), 2); /* the first is alive, it is not swept */
    plim__tempfile_drop(&t);
    plim__tempfile_drop(&second);
    plim__tempfile_drop(&second);
    assert_null(t);
    assert_int_equal(count_hidden(files_dir), 0);
    check_contents("kept.npy", "old", 3);
}

/* A link is followed: what it points to is replaced, the link stays. */
static void test_link(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__tempfile *t;
    struct stat st;
    files_write("target.npy", "old", 3);
    assert_int_equal(symlink("target.npy", files_path("link.npy")), 0);
    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, files_path("link.npy"), 3, false, &err), PLIM_OK);
    assert_int_equal(pwrite(plim__tempfile_fd(t), "new", 3, 0), 3);
    assert_int_equal(plim__tempfile_commit(&t, &err), PLIM_OK);
    check_contents("target.npy", "new", 3);
    assert_int_equal(lstat(files_path("link.npy"), &st), 0);
    assert_true(S_ISLNK(st.st_mode));
}

static void refuse(const char *path, plim_status want, const char *word)
{
    plim_error err = {0};
    plim__tempfile *t;
    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, path, 10, true, &err), want);
    assert_null(t);
    assert_int_equal(err.code, want);
    if (!strstr(err.message, word)) fail_msg("'%s' does not say '%s'", err.message, word);
}

static void test_refused(void **state)
{
    (void)state;
    refuse(files_path("nowhere/out.npy"), PLIM_E_IO, "nowhere");
    refuse(files_dir, PLIM_E_INVALID, "not a regular file");
    refuse(files_path(""), PLIM_E_INVALID, "not a regular file");
    refuse("/dev/null", PLIM_E_INVALID, "not a regular file");
    refuse("", PLIM_E_INVALID, "empty path");
    refuse("/proc/out.npy", PLIM_E_IO, "/proc");
    files_write("plain", "x", 1);
    refuse(files_path("plain/out.npy"), PLIM_E_IO, "plain");
    assert_int_equal(count_hidden(files_dir), 0);
}

static void test_no_space(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__tempfile *t;
    const uint64_t want = (uint64_t)1 << 42;
    faulty_os os;
    faulty_init(&os);
    assert_int_equal(plim__tempfile_new(&t, &os.table, files_path("huge.npy"), want, true, &err), PLIM_E_NOSPACE);
    assert_null(t);
    assert_int_equal(os.counts[FAULTY_allocate], 0); /* not even tried: it might fill the disk first */
    assert_int_equal(err.need, want);
    assert_true(err.have > 0 && err.have < want);
    assert_non_null(strstr(err.message, "huge.npy"));
    assert_non_null(strstr(err.message, "4398046511104"));
    assert_int_equal(count_hidden(files_dir), 0);
}

/* A process that is killed in the middle; the next run of the same output removes what it left, and nothing else. */
static void test_stale(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__tempfile *t;
    char name[128];
    const pid_t pid = fork();
    if (pid == 0) {
        if (plim__tempfile_new(&t, &plim__os_linux, files_path("run.npy"), 100000, true, &err) == PLIM_OK) raise(SIGKILL);
        _exit(1);
    }
    int status;
    waitpid(pid, &status, 0);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(count_hidden(files_dir), 1);

    snprintf(name, sizeof name, ".run.npy.%ld-1-0.plimsoll-tmp", (long)getpid()); /* our pid, but of a process before us */
    files_write(name, "x", 1);
    files_write(".other.npy.999999999-1-0.plimsoll-tmp", "x", 1);
    files_write(".run.npy.notes.plimsoll-tmp", "x", 1);
    files_write(".run.npy.999999999-1-7.plimsoll-tmp", "x", 1);
    const int held = open(files_path(".run.npy.999999999-1-7.plimsoll-tmp"), O_RDWR); /* a writer in another container */
    assert_int_equal(flock(held, LOCK_EX), 0);

    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, files_path("run.npy"), 10, true, &err), PLIM_OK);
    assert_int_equal(count_hidden(files_dir), 4); /* the new one, the other output's, the unknown name, the locked one */
    assert_int_equal(access(files_path(name), F_OK), -1);
    plim__tempfile_drop(&t);

    close(held);
    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, files_path("run.npy"), 10, true, &err), PLIM_OK);
    assert_int_equal(count_hidden(files_dir), 3);
    plim__tempfile_drop(&t);
    unlink(files_path(".other.npy.999999999-1-0.plimsoll-tmp"));
    unlink(files_path(".run.npy.notes.plimsoll-tmp"));
}

static void test_scratch(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__tempfile *t;
    struct stat st;
    if (plim__tempfile_scratch(&t, &plim__os_linux, files_dir, 100000, true, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_int_equal(count_hidden(files_dir), 0);
    assert_int_equal(fstat(plim__tempfile_fd(t), &st), 0);
    assert_int_equal(st.st_size, 100000);
    assert_int_equal(st.st_nlink, 0);
    plim__tempfile_drop(&t);
    assert_int_equal(plim__tempfile_scratch(&t, &plim__os_linux, files_path("nowhere"), 10, true, &err), PLIM_E_IO);
    assert_null(t);
}

/* ------------------------------------------------------------------------------------------ each call fails in turn */

typedef struct countdown {
    plim__os table;
    int left; /* calls until the bad one */
    int error;
} countdown;

static bool bad(void *self)
{
    countdown *c = self;
    return c->left-- == 0;
}

#define FAILING(name, params, args)                                                          \
    static int failing_##name params { return bad(self) ? ((countdown *)self)->error : plim__os_linux.name args; }
FAILING(open, (void *self, const char *path, int flags, int mode), (NULL, path, flags, mode))
FAILING(allocate, (void *self, int fd, uint64_t bytes), (NULL, fd, bytes))
FAILING(truncate, (void *self, int fd, uint64_t bytes), (NULL, fd, bytes))
FAILING(sync, (void *self, int fd), (NULL, fd))
FAILING(rename, (void *self, const char *from, const char *to), (NULL, from, to))
FAILING(stat, (void *self, int fd, plim__stat *out), (NULL, fd, out))
FAILING(lock, (void *self, int fd), (NULL, fd))

static void test_every_call_fails(void **state)
{
    (void)state;
    static const int errors[] = {-EIO, -ENOSPC, -EACCES};
    int refused = 0;
    for (int nth = 0; nth < 40; nth++) {
        plim_error err = {0};
        plim__tempfile *t;
        countdown c = {.table = plim__os_linux, .left = nth, .error = errors[nth % 3]};
        c.table.self = &c;
        c.table.open = failing_open;
        c.table.allocate = failing_allocate;
        c.table.truncate = failing_truncate;
        c.table.sync = failing_sync;
        c.table.rename = failing_rename;
        c.table.stat = failing_stat;
        c.table.lock = failing_lock;
        files_write("each.npy", "old", 3);
        plim_status status = plim__tempfile_new(&t, &c.table, files_path("each.npy"), 3, true, &err);
        if (status == PLIM_OK) {
            assert_int_equal(pwrite(plim__tempfile_buffered_fd(t), "new", 3, 0), 3);
            status = plim__tempfile_commit(&t, &err);
        }
        assert_null(t);
        assert_int_equal(count_hidden(files_dir), 0);
        assert_int_equal(err.code, status);
        size_t n;
        uint8_t *got = files_read("each.npy", &n);
        assert_int_equal(n, 3); /* whole: the old one or the new one */
        assert_true(memcmp(got, "old", 3) == 0 || memcmp(got, "new", 3) == 0);
        if (status == PLIM_OK) assert_memory_equal(got, "new", 3);
        else assert_non_null(strstr(err.message, files_dir));
        refused += status != PLIM_OK;
        free(got);
    }
    assert_true(refused >= 5);
}

static void test_os_fail(void **state)
{
    (void)state;
    plim_error err = {0};
    assert_int_equal(plim__os_fail(-EIO, "read", "x.npy", 4096, &err), PLIM_E_IO);
    assert_string_equal(err.message, "cannot read 'x.npy' at byte 4096: Input/output error");
    assert_string_equal(err.where, "x.npy");
    assert_int_equal(err.offset, 4096);
    assert_int_equal(plim__os_fail(-EDQUOT, "write", "x.npy", 0, NULL), PLIM_E_NOSPACE);
}

/* The system table itself, where it is not plain pass-through. */
static void test_system(void **state)
{
    (void)state;
    const plim__os *os = &plim__os_linux;
    char text[8];
    plim__stat st;
    files_write("twelve", "twelve bytes", 12);
    assert_int_equal(os->read_text(NULL, files_path("twelve"), text, sizeof text), 7); /* cut, and ended with NUL */
    assert_string_equal(text, "twelve ");
    assert_int_equal(os->read_text(NULL, files_path("none"), text, sizeof text), -ENOENT);
    assert_int_equal(os->open(NULL, files_path("none"), O_RDONLY, 0), -ENOENT);
    assert_int_equal(os->pread(NULL, -1, text, 1, 0), -EBADF);
    const int fd = os->open(NULL, files_path("twelve"), O_RDONLY, 0);
    assert_int_equal(os->stat(NULL, fd, &st), 0);
    assert_true(st.regular && st.size == 12 && st.space > 0);
    assert_int_equal(os->close(NULL, fd), 0);
    const int shm = os->open(NULL, "/dev/shm", O_RDONLY | O_DIRECTORY, 0);
    if (shm >= 0) {
        assert_int_equal(os->stat(NULL, shm, &st), 0);
        assert_true(st.memory && !st.regular);
        os->close(NULL, shm);
    }
    assert_true(os->clock_ns(NULL) <= os->clock_ns(NULL));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_commit),  cmocka_unit_test(test_commit_empty), cmocka_unit_test(test_drop),
        cmocka_unit_test(test_link),    cmocka_unit_test(test_refused),      cmocka_unit_test(test_no_space),
        cmocka_unit_test(test_stale),   cmocka_unit_test(test_scratch),      cmocka_unit_test(test_every_call_fails),
        cmocka_unit_test(test_os_fail), cmocka_unit_test(test_system),
    };
    return cmocka_run_group_tests_name("tempfile", tests, files_begin, files_end);
}
