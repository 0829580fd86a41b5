/* The start of a watched program: shared memory, environment, fork and exec. The program keeps its standard streams, its folder, its process
 * group and the signal dispositions that the caller had; what it gets in addition is two environment variables (and for programs built with
 * AddressSanitizer a third). */
#include "watch/supervisor.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

/* ------------------------------------------------------------------------------------------ shared memory */

/* The descriptor, moved out of the way of the standard streams: where one of them is closed, it would be taken for it, and a report that is meant for
 * standard error be written over the records. */
static int above_streams(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    const int moved = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int error = errno;
    close(fd);
    errno = error;
    return moved;
}

static plim_status region_make(plim__supervisor *s, plim_error *err)
{
    const uint64_t page = 4096, slot = (sizeof(plim__rec_process) + page - 1) / page * page;
    s->region_bytes = page + slot * PLIM__REC_SLOTS;
    s->memfd = above_streams(memfd_create("plimsoll-watch", MFD_CLOEXEC));
    PLIM_FAIL_IF(s->memfd < 0, err, PLIM_E_IO, "memory to share with the program cannot be had: %s", strerror(errno));
    PLIM_FAIL_IF(ftruncate(s->memfd, (off_t)s->region_bytes), err, PLIM_E_IO, "memory to share with the program cannot be had: %s", strerror(errno));
    /* Sparse: only what is written takes memory. */
    void *p = mmap(NULL, s->region_bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, s->memfd, 0);
    PLIM_FAIL_IF(p == MAP_FAILED, err, PLIM_E_NOMEM, "memory to share with the program cannot be mapped: %s", strerror(errno));
    s->region = p;
    s->header = p;
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    s->header->version = PLIM__REC_VERSION;
    s->header->slots = PLIM__REC_SLOTS;
    s->header->slot_bytes = slot;
    s->header->slot_offset = page;
    s->header->supervisor = getpid();
    s->header->start_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
    s->header->budget = s->how->memory;
    s->header->magic = PLIM__REC_MAGIC;
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------- environment */

static plim_status preload_find(char *to, size_t size, const char *given, plim_error *err)
{
    Dl_info self;
    const char *folder = given ? NULL : (dladdr((void *)(uintptr_t)plim_watch, &self) ? self.dli_fname : NULL);
    char real[PATH_MAX];
    if (given) {
        PLIM_FAIL_IF(!realpath(given, real), err, PLIM_E_IO, "%s: %s", given, strerror(errno));
    } else {
        PLIM_FAIL_IF(!folder || !realpath(folder, real), err, PLIM_E_IO, "it cannot be told where libplimsoll_watch.so is");
        char *slash = strrchr(real, '/');
        PLIM_FAIL_IF(!slash || (size_t)(slash - real) + sizeof "/libplimsoll_watch.so" > sizeof real, err, PLIM_E_IO,
                     "libplimsoll_watch.so: its path is too long");
        memcpy(slash, "/libplimsoll_watch.so", sizeof "/libplimsoll_watch.so");
    }
    PLIM_FAIL_IF(access(real, R_OK), err, PLIM_E_IO, "%s, the library that records, cannot be read: %s", real, strerror(errno));
    PLIM_FAIL_IF(strpbrk(real, " :"), err, PLIM_E_IO, "%s: the loader takes no blanks and colons in LD_PRELOAD; put it elsewhere", real);
    PLIM_FAIL_IF(strlen(real) >= size, err, PLIM_E_IO, "%s: the path is too long", real);
    memcpy(to, real, strlen(real) + 1);
    return PLIM_OK;
}

/* AddressSanitizer's library refuses to run unless it is the first that is loaded, or is told that another may be. */
static bool needs_asan(const char *program)
{
    const int fd = plim__peer_regular(program);
    struct stat st;
    bool found = false;
    if (fd >= 0 && !fstat(fd, &st) && st.st_size > 0) {
        void *text = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (text != MAP_FAILED) {
            found = memmem(text, (size_t)st.st_size, "libasan.so", sizeof "libasan.so" - 1) != NULL;
            munmap(text, (size_t)st.st_size);
        }
    }
    if (fd >= 0) close(fd);
    return found;
}

typedef struct environment {
    char **list; /* of the program: the caller's words and ours */
    char preload[2 * PATH_MAX], watch[64], asan[1024];
} environment;

static bool is_variable(const char *word, const char *name)
{
    const size_t n = strlen(name);
    return !strncmp(word, name, n) && word[n] == '=';
}

static plim_status environment_make(plim__supervisor *s, environment *e, plim_error *err)
{
    char library[PATH_MAX], program[PATH_MAX];
    PLIM_TRY(preload_find(library, sizeof library, s->how->preload, err));
    uint32_t n = 0;
    while (environ[n]) n++;
    e->list = plim__new(&s->alloc, (uint64_t)n + 4, sizeof *e->list, err);
    if (!e->list) return PLIM_E_NOMEM;
    const bool found = plim__peer_program(s->how->argv[0], program, sizeof program);
    const bool asan = found && needs_asan(program);
    if (found) plim__peer_preloadable(program, s->not_preloadable, sizeof s->not_preloadable);
    const char *preload = getenv("LD_PRELOAD"), *options = getenv("ASAN_OPTIONS");
    /* Ours first: what else is preloaded (another allocator) is underneath. */
    const int length = snprintf(e->preload, sizeof e->preload, "LD_PRELOAD=%s%s%s", library, preload && *preload ? ":" : "", preload ? preload : "");
    PLIM_FAIL_IF((size_t)length >= sizeof e->preload, err, PLIM_E_INVALID, "LD_PRELOAD is too long");
    snprintf(e->watch, sizeof e->watch, PLIM__REC_ENV "=/proc/%d/fd/%d", (int)getpid(), s->memfd);
    snprintf(e->asan, sizeof e->asan, "ASAN_OPTIONS=%s%sverify_asan_link_order=0", options ? options : "", options && *options ? ":" : "");
    uint32_t out = 0;
    for (uint32_t i = 0; i < n; i++)
        if (!is_variable(environ[i], "LD_PRELOAD") && !is_variable(environ[i], PLIM__REC_ENV) && !(asan && is_variable(environ[i], "ASAN_OPTIONS")))
            e->list[out++] = environ[i];
    e->list[out++] = e->preload;
    e->list[out++] = e->watch;
    if (asan) e->list[out++] = e->asan;
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------- start */

static plim_status program_start(plim__supervisor *s, char **list, plim_error *err)
{
    plim__peer_status own = {0};
    plim__peer_status_read(getpid(), &own);
    s->own_peak = own.peak;
    int pipe_fd[2]; /* carries errno of a failed exec; closes by itself when exec works */
    PLIM_FAIL_IF(pipe2(pipe_fd, O_CLOEXEC), err, PLIM_E_IO, "a pipe cannot be had: %s", strerror(errno));
    for (int i = 0; i < 2; i++) pipe_fd[i] = above_streams(pipe_fd[i]);
    const int pid = pipe_fd[0] >= 0 && pipe_fd[1] >= 0 ? fork() : -1;
    if (pid == 0) {
        execvpe(s->how->argv[0], s->how->argv, list);
        const int error = errno;
        if (write(pipe_fd[1], &error, sizeof error) < 0) _exit(126);
        _exit(127);
    }
    const int fork_error = errno;
    close(pipe_fd[1]);
    int error = 0;
    ssize_t got = 0;
    if (pid > 0)
        while ((got = read(pipe_fd[0], &error, sizeof error)) < 0 && errno == EINTR) {}
    close(pipe_fd[0]);
    PLIM_FAIL_IF(pid < 0, err, PLIM_E_IO, "no process can be made: %s", strerror(fork_error));
    if (got == sizeof error) {
        waitpid(pid, NULL, 0);
        return plim__fail_at(err, PLIM_E_IO, s->how->argv[0], "%s", strerror(error));
    }
    s->child = pid;
    return PLIM_OK;
}

plim_status plim__launch(plim__supervisor *s, plim_error *err)
{
    PLIM_TRY(region_make(s, err));
    environment *e = plim__new(&s->alloc, 1, sizeof *e, err);
    if (!e) return PLIM_E_NOMEM;
    plim_status status = environment_make(s, e, err);
    if (!status) status = program_start(s, e->list, err);
    plim__free(&s->alloc, e->list);
    plim__free(&s->alloc, e);
    return status;
}

void plim__launch_end(plim__supervisor *s)
{
    if (s->region) munmap(s->region, s->region_bytes);
    if (s->memfd >= 0) close(s->memfd);
    s->region = NULL;
    s->memfd = -1;
}
