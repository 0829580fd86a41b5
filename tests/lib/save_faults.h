/* For tests of what writes files: the same save while the N-th system call of a kind fails, for N = 1, 2, 3 ... until none does; and while the N-th
 * allocation does. Every time a clean status with a message, no descriptor left open, no temporary file, and at the output's path nothing or all. */
#ifndef PLIM_TESTS_SAVE_FAULTS_H
#define PLIM_TESTS_SAVE_FAULTS_H

#include "unit.h"

#include "faulty_os.h"
#include "files.h"

typedef plim_status save_fn(const plim__os *os, const void *arg, plim_error *err);

static inline bool files_exist(const char *name) { return access(files_path(name), F_OK) == 0; }

static int files_temporary_count;

static inline int files_temporary_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    files_temporary_count += strstr(path, ".plimsoll-tmp") != NULL;
    return 0;
}

/* How many files there are that a writer should have removed. */
static inline int files_temporary(void)
{
    files_temporary_count = 0;
    nftw(files_dir, files_temporary_one, 16, FTW_PHYS);
    return files_temporary_count;
}

/* After a rename the folder may fail to be synced: then all is there. */
static inline void save_spoilt(const char *out, const uint8_t *want, size_t n_want, faulty_call call)
{
    size_t n;
    uint8_t *have = files_read(out, &n);
    if (have) assert_true((call == FAULTY_open || call == FAULTY_sync) && n == n_want && memcmp(have, want, n) == 0);
    free(have);
}

static inline void save_fails(save_fn *save, const void *arg, const char *out, faulty_call call, int error)
{
    size_t n_want, n_have;
    plim_error err = {0};
    if (save(&plim__os_linux, arg, &err) != PLIM_OK) fail_msg("%s", err.message);
    uint8_t *want = files_read(out, &n_want);
    bool hit = true;
    for (int64_t n = 0; hit; n++) {
        faulty_os f;
        faulty_init(&f);
        f.call = call;
        f.error = error;
        f.left = n;
        err = (plim_error){0};
        unlink(files_path(out));
        const plim_status status = save(&f.table, arg, &err);
        hit = f.hits > 0;
        assert_int_equal(f.open, 0);
        assert_int_equal(files_temporary(), 0);
        if (status != PLIM_OK) {
            if (!hit || err.code != status || !err.message[0]) fail_msg("%s %lld: %s", faulty_name(call), (long long)n, err.message);
            if (error == -ENOSPC) assert_true(status == PLIM_E_NOSPACE && strstr(err.message, out));
            save_spoilt(out, want, n_want, call);
            continue;
        }
        uint8_t *have = files_read(out, &n_have);
        assert_true(have && n_have == n_want && memcmp(have, want, n_want) == 0);
        free(have);
        assert_true(n < 10000);
    }
    free(want);
}

/* @param out  the name, in the test's folder, of what `save` writes */
static inline void save_survives(save_fn *save, const void *arg, const char *out)
{
    static const faulty_call calls[] = {FAULTY_open, FAULTY_pread,  FAULTY_pwrite, FAULTY_allocate, FAULTY_truncate,
                                        FAULTY_sync, FAULTY_rename, FAULTY_stat,   FAULTY_list,     FAULTY_lock};
    for (size_t i = 0; i < COUNT_OF(calls); i++) save_fails(save, arg, out, calls[i], -EIO);
    save_fails(save, arg, out, FAULTY_pwrite, -ENOSPC);
    save_fails(save, arg, out, FAULTY_allocate, -ENOSPC);
    save_fails(save, arg, out, FAULTY_pread, 0); /* short counts are no failures */
    save_fails(save, arg, out, FAULTY_pwrite, 0);
}

#endif
