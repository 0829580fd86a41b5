/* The recording library in programs of all kinds: the test plays the supervisor (the shared memory, the answers) and compares what was recorded
 * with what the program is known to have done. */
#include "unit.h"

#include "watch/record.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)
#define PAGE ((uint64_t)4096)

/* ---- the supervisor's side ---- */

typedef struct rig {
    int fd;
    uint64_t bytes;
    plim__rec_header *header;
    plim__rec_answer answer;    /* to every MAY_I */
    bool silent;                /* nothing is answered */
    plim__rec_ask last;         /* a copy of the last question */
    uint32_t asked[3], trimmed; /* how many of each kind */
    uint32_t gil_held;          /* and how many from a thread that held the interpreter's lock */
    char output[4096];          /* of the program */
} rig;

static char build[4096];

static void build_find(void)
{
    const char *from = getenv("BUILD");
    if (from) {
        snprintf(build, sizeof build, "%s", from);
        return;
    }
    const ssize_t n = readlink("/proc/self/exe", build, sizeof build - 1);
    assert_true(n > 0);
    build[n] = 0;
    *strrchr(build, '/') = 0;
}

static plim__rec_process *slot(const rig *r, uint32_t i)
{
    return (plim__rec_process *)((char *)r->header + r->header->slot_offset + i * r->header->slot_bytes);
}

static void rig_new(rig *r, uint64_t budget)
{
    memset(r, 0, sizeof *r);
    const uint64_t slot_bytes = (sizeof(plim__rec_process) + PAGE - 1) / PAGE * PAGE;
    r->bytes = PAGE + PLIM__REC_SLOTS * slot_bytes;
    r->fd = memfd_create("plimsoll-test", MFD_CLOEXEC);
    assert_true(r->fd >= 0 && !ftruncate(r->fd, (off_t)r->bytes));
    r->header = mmap(NULL, r->bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, r->fd, 0);
    assert_true(r->header != MAP_FAILED);
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    plim__rec_header *h = r->header;
    h->version = PLIM__REC_VERSION;
    h->slots = PLIM__REC_SLOTS;
    h->slot_bytes = slot_bytes;
    h->slot_offset = PAGE;
    h->supervisor = getpid();
    h->start_ns = (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
    h->budget = budget;
    h->magic = PLIM__REC_MAGIC;
}

static void rig_free(rig *r)
{
    munmap(r->header, r->bytes);
    close(r->fd);
}

static void answer_all(rig *r)
{
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) {
        plim__rec_process *p = slot(r, i);
        if (!atomic_load(&r->header->slot[i])) continue;
        plim__rec_ask *ask = &p->ask;
        const uint32_t asked = atomic_load(&ask->asked);
        if (asked == atomic_load(&ask->answered) || r->silent) continue;
        memcpy(&r->last, ask, sizeof *ask);
        r->asked[ask->kind]++;
        r->trimmed += ask->trimmed;
        r->gil_held += ask->gil_held;
        ask->answer = ask->kind == PLIM__REC_MAY_I ? r->answer : PLIM__REC_GO_ON;
        if (ask->answer == PLIM__REC_TRIM && ask->trimmed) ask->answer = PLIM__REC_REFUSE;
        atomic_store(&ask->answered, asked);
        syscall(SYS_futex, &ask->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

typedef struct program {
    char *argv[8];
    const char *under; /* another library to load after ours */
    const char *fail;  /* PLIMSOLL_WATCH_FAIL */
    bool unwatched;    /* no shared memory is named */
} program;

static void become(const rig *r, const program *p, int out)
{
    char preload[8192], shared[64];
    snprintf(preload, sizeof preload, "%s/libplimsoll_watch.so%s%s", build, p->under ? ":" : "", p->under ? p->under : "");
    snprintf(shared, sizeof shared, "/proc/%d/fd/%d", (int)getppid(), r->fd);
    setenv("LD_PRELOAD", preload, 1);
    if (!p->unwatched) setenv(PLIM__REC_ENV, shared, 1);
    if (p->fail) setenv("PLIMSOLL_WATCH_FAIL", p->fail, 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0:detect_leaks=0", 1);
    dup2(out, 1);
    dup2(out, 2);
    execv(p->argv[0], p->argv);
    _exit(127);
}

/* Runs a program to its end, answering. @return its exit status (128 and more: a signal) */
static int run(rig *r, const program *p)
{
    int pipe_end[2];
    assert_int_equal(pipe2(pipe_end, O_CLOEXEC), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) become(r, p, pipe_end[1]);
    close(pipe_end[1]);
    fcntl(pipe_end[0], F_SETFL, O_NONBLOCK);
    int status = -1;
    size_t used = 0;
    for (bool over = false; !over;) {
        over = waitpid(child, &status, WNOHANG) == child;
        const uint32_t bell = atomic_load(&r->header->doorbell);
        answer_all(r);
        for (ssize_t n; used < sizeof r->output - 1 && (n = read(pipe_end[0], r->output + used, sizeof r->output - 1 - used)) > 0;) used += (size_t)n;
        if (!over) syscall(SYS_futex, &r->header->doorbell, FUTEX_WAIT, bell, &(struct timespec){.tv_nsec = 2000000}, NULL, 0);
    }
    r->output[used] = 0;
    close(pipe_end[0]);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int run_subject(rig *r, program p, const char *mode, char *first, char *second)
{
    char path[8192];
    snprintf(path, sizeof path, "%s/preload-subject", build);
    p.argv[0] = path;
    p.argv[1] = (char *)(uintptr_t)mode;
    p.argv[2] = first;
    p.argv[3] = second;
    const int status = run(r, &p);
    if (status) print_message("preload-subject %s: %s\n", mode, r->output);
    return status;
}

/* ---- what must hold of every slot after its process has ended ---- */

static uint64_t live_of(const plim__rec_process *p, uint64_t bytes_wanted, plim__rec_call call)
{
    uint64_t n = 0;
    for (uint32_t s = 0; s < PLIM__REC_SHARDS; s++)
        for (uint32_t i = 0; i < p->shard[s].count; i++)
            n += p->shard[s].block[i].bytes == bytes_wanted && p->site[p->shard[s].block[i].site].call == (uint16_t)call;
    return n;
}

static void check_slot(const plim__rec_process *p)
{
    uint64_t blocks = 0, bytes = 0, site_blocks = 0, site_bytes = 0, allocations = 0, frees = 0;
    for (uint32_t s = 0; s < PLIM__REC_SHARDS; s++) {
        assert_int_equal(p->shard[s].version % 2, 0);
        assert_int_equal(p->shard[s].lock, 0);
        for (uint32_t i = 0; i < p->shard[s].count; i++) blocks++, bytes += p->shard[s].block[i].bytes;
    }
    for (uint32_t i = 0; i < PLIM__REC_SITES; i++) {
        const plim__rec_site *s = &p->site[i];
        assert_int_equal(s->ready, s->hash != 0);
        site_blocks += s->live_blocks, site_bytes += s->live_bytes, allocations += s->allocations, frees += s->frees;
    }
    assert_int_equal(blocks, p->live_blocks);
    assert_int_equal(bytes, p->live_bytes);
    assert_int_equal(site_blocks, p->live_blocks);
    assert_int_equal(site_bytes, p->live_bytes);
    assert_int_equal(allocations, p->allocations);
    assert_int_equal(frees, p->frees);
    assert_int_equal(p->allocations - p->frees, p->live_blocks);
    assert_int_equal(p->events, p->allocations + p->frees);
    assert_int_equal(p->lost_blocks, 0);
    assert_int_equal(p->lost_sites, 0);
}

static const plim__rec_process *only_slot(const rig *r)
{
    const plim__rec_process *p = slot(r, 0);
    assert_int_equal(p->ready, 1);
    assert_int_equal(r->header->slot[1], 0);
    assert_true(r->header->slot[0] == p->pid && p->pid > 0);
    check_slot(p);
    return p;
}

/* ---- the allocator's functions ---- */

static void calls_check(const plim__rec_process *p)
{
    const struct {
        uint64_t bytes;
        plim__rec_call call;
    } alive[] = {{MIB, PLIM__REC_MALLOC},         {2 * MIB, PLIM__REC_CALLOC},   {4 * MIB, PLIM__REC_REALLOC},
                 {6 * MIB, PLIM__REC_MEMALIGN},   {7 * MIB, PLIM__REC_MEMALIGN}, {8 * MIB, PLIM__REC_MEMALIGN},
                 {9 * MIB, PLIM__REC_MEMALIGN},   {10 * MIB, PLIM__REC_MEMALIGN}, {11 * MIB, PLIM__REC_REALLOC}};
    for (size_t i = 0; i < COUNT_OF(alive); i++) assert_int_equal(live_of(p, alive[i].bytes, alive[i].call), 1);
    assert_int_equal(p->live_blocks, COUNT_OF(alive));
    assert_int_equal(p->allocations, COUNT_OF(alive) + 4);
    assert_true(p->flags & PLIM__REC_ENDED);
    assert_string_equal(p->program, "preload-subject");
}

static void every_call(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 0);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "calls", NULL, NULL), 0);
    const plim__rec_process *p = only_slot(&r);
    calls_check(p);
    assert_string_equal(p->allocator, "libc.so.6");
    assert_true(p->flags & PLIM__REC_GLIBC);
    assert_true(p->heap.ns > 0 && p->heap.arena > 0);
    assert_int_equal(r.asked[PLIM__REC_MAY_I] + r.asked[PLIM__REC_FAILED], 0);
    for (uint32_t i = 0; i < PLIM__REC_NO_SITE_MAPPED; i++)
        if (p->site[i].ready && p->flags & PLIM__REC_UNWINDS) assert_true(p->site[i].n_native >= 2 && !p->site[i].no_native);
    rig_free(&r);
}

static void other_allocators(void **state)
{
    (void)state;
    const char *name[] = {"libjemalloc.so.2", "libtcmalloc_minimal.so.4"};
    for (size_t i = 0; i < COUNT_OF(name); i++) {
        rig r;
        rig_new(&r, 0);
        const int status = run_subject(&r, (program){.under = name[i]}, "calls", NULL, NULL);
        if (strstr(r.output, "cannot be preloaded")) {
            print_message("SKIPPED: %s is not installed\n", name[i]);
            rig_free(&r);
            continue;
        }
        assert_int_equal(status, 0);
        const plim__rec_process *p = only_slot(&r);
        calls_check(p);
        assert_true(strstr(p->allocator, name[i]) == p->allocator);
        assert_false(p->flags & PLIM__REC_GLIBC);
        assert_int_equal(p->heap.ns, 0);
        rig_free(&r);
    }
}

static void mappings(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 0);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "maps", NULL, NULL), 0);
    const plim__rec_process *p = only_slot(&r);
    const uint64_t left[] = {2, 5, 4, 10};
    for (size_t i = 0; i < COUNT_OF(left); i++) assert_int_equal(live_of(p, left[i] * MIB, PLIM__REC_MMAP), 1);
    assert_int_equal(live_of(p, 64 * MIB, PLIM__REC_MREMAP), 1);
    assert_int_equal(p->live_blocks, 5);
    rig_free(&r);
}

static void threads_are_counted(const char *under)
{
    rig r;
    rig_new(&r, 0);
    char n[] = "200", ms[] = "2000";
    const int status = run_subject(&r, (program){.under = under}, "threads", n, ms);
    if (strstr(r.output, "cannot be preloaded")) {
        print_message("SKIPPED: %s is not installed\n", under);
        rig_free(&r);
        return;
    }
    assert_int_equal(status, 0);
    unsigned long made, gone, alive, bytes;
    assert_int_equal(sscanf(r.output, "%lu %lu %lu %lu", &made, &gone, &alive, &bytes), 4);
    const plim__rec_process *p = only_slot(&r);
    print_message("%lu large blocks in 2 s, %lu of them not unwound\n", made, (unsigned long)p->not_unwound);
    assert_int_equal(p->allocations, made);
    assert_int_equal(p->frees, gone);
    assert_int_equal(p->live_blocks, alive);
    assert_int_equal(p->live_bytes, bytes);
    rig_free(&r);
}

static void threads(void **state)
{
    (void)state;
    threads_are_counted(NULL);
    threads_are_counted("libjemalloc.so.2");
}

/* ---- processes ---- */

static void children(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 0);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "forks", NULL, NULL), 0);
    for (uint32_t i = 0; i < 4; i++) {
        const plim__rec_process *p = slot(&r, i);
        check_slot(p);
        assert_int_equal(p->ready, 1);
        assert_int_equal(p->pid, r.header->slot[i]);
        assert_int_equal(!!(p->flags & PLIM__REC_FORKED), i > 0);
        assert_int_equal(p->live_blocks, 1);
        assert_int_equal(p->live_bytes, (i ? i : 20) * MIB);
        if (i) assert_int_equal(p->parent, slot(&r, 0)->pid);
        assert_string_equal(p->allocator, "libc.so.6");
    }
    assert_int_equal(r.header->slot[4], 0);
    rig_free(&r);
}

/* The N-th system call of attaching fails, in the program or in a child of it: it runs to its end unharmed. A child that may not open the records
 * gets a slot through the header all the same. */
static void attaching_fails(void **state)
{
    (void)state;
    enum { CALLS = 24 }; /* more than are made */
    int failed = 0;
    for (int n = 1; n <= CALLS; n++) {
        rig r;
        char count[16];
        snprintf(count, sizeof count, "%d", n);
        rig_new(&r, 0);
        assert_int_equal(run_subject(&r, (program){.fail = count}, "everything", NULL, NULL), 0);
        int attached = 0;
        for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) {
            const plim__rec_process *p = slot(&r, i);
            attached += p->ready;
            if (p->ready) check_slot(p);
        }
        rig_free(&r);
        failed += attached < 4;
        if (n == CALLS) assert_int_equal(attached, 4);
    }
    assert_in_range(failed, 7, CALLS - 1);
}

static void no_room(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 0);
    assert_int_equal(run_subject(&r, (program){.unwatched = true}, "everything", NULL, NULL), 0);
    assert_int_equal(r.header->slot[0], 0);
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) atomic_store(&r.header->slot[i], 1);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "everything", NULL, NULL), 0);
    assert_int_equal(slot(&r, 0)->ready, 0);
    r.header->version++;
    for (uint32_t i = 0; i < PLIM__REC_SLOTS; i++) atomic_store(&r.header->slot[i], 0);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "everything", NULL, NULL), 0);
    assert_int_equal(r.header->slot[0], 0);
    rig_free(&r);
}

static void deep_binding(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 0);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "deep", NULL, NULL), 0);
    assert_true(only_slot(&r)->flags & PLIM__REC_DEEPBIND);
    rig_free(&r);
}

/* ---- the budget ---- */

static void budget_refuses(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 32 * MIB);
    r.answer = PLIM__REC_TRIM; /* refused when it has been trimmed */
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "refused", NULL, NULL), 0);
    const plim__rec_process *p = only_slot(&r);
    assert_int_equal(p->refusals, 5);
    assert_int_equal(r.asked[PLIM__REC_MAY_I], 10);
    assert_int_equal(r.trimmed, 5);
    assert_int_equal(p->live_blocks, 1);
    assert_int_equal(r.last.bytes, 64 * MIB);
    assert_int_equal(r.last.old_bytes, MIB);
    assert_int_equal(r.last.call, PLIM__REC_REALLOC);
    assert_int_equal(p->site[r.last.site].ready, 1);
    rig_free(&r);
}

static void budget_grants(void **state)
{
    (void)state;
    rig r;
    rig_new(&r, 2 * MIB);
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "calls", NULL, NULL), 0);
    const plim__rec_process *p = only_slot(&r);
    calls_check(p);
    assert_int_equal(p->refusals, 0);
    assert_true(r.asked[PLIM__REC_MAY_I] >= 8);
    rig_free(&r);
    rig_new(&r, 1024 * MIB); /* far from the budget: nothing is asked */
    assert_int_equal(run_subject(&r, (program){.fail = NULL}, "calls", NULL, NULL), 0);
    assert_int_equal(r.asked[PLIM__REC_MAY_I], 0);
    rig_free(&r);
}

static void the_system_refuses(void **state)
{
    (void)state;
    for (int budget = 0; budget < 2; budget++) {
        rig r;
        rig_new(&r, budget ? 64 * MIB : 0);
        assert_int_equal(run_subject(&r, (program){.fail = NULL}, "huge", NULL, NULL), 0);
        assert_int_equal(r.asked[PLIM__REC_FAILED], 5);
        assert_int_equal(r.last.error, ENOMEM);
        assert_int_equal(r.last.call, PLIM__REC_MMAP);
        assert_true(r.last.bytes == UINT64_C(1) << 50 && r.last.thread > 0);
        const plim__rec_process *p = only_slot(&r);
        assert_int_equal(p->live_blocks, 1); /* what realloc could not grow */
        assert_int_equal(live_of(p, MIB, PLIM__REC_MALLOC), 1);
        rig_free(&r);
    }
}

static double seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Nobody is there, or nobody answers: the program goes on, and asks no more. */
static void no_supervisor(void **state)
{
    (void)state;
    for (int gone = 0; gone < 2; gone++) {
        rig r;
        rig_new(&r, 2 * MIB);
        r.silent = true;
        const pid_t child = fork();
        if (!child) _exit(0);
        assert_int_equal(waitpid(child, NULL, 0), child);
        if (gone) r.header->supervisor = child;
        const double before = seconds();
        assert_int_equal(run_subject(&r, (program){.fail = NULL}, "calls", NULL, NULL), 0);
        const double took = seconds() - before;
        calls_check(only_slot(&r));
        assert_int_equal(slot(&r, 0)->ask.asked, 1);
        assert_true(gone ? took < 4 : took >= 5);
        rig_free(&r);
    }
}

/* ---- Python ---- */

static const char script[] = "import os, threading\n"                         /* 1 */
                             "keep = []\n"                                    /* 2 */
                             "def inner(n):\n"                                /* 3 */
                             "    b = bytearray(n)\n"                         /* 4 */
                             "    keep.append(b)\n"                           /* 5 */
                             "def outer(n):\n"                                /* 6 */
                             "    inner(n)\n"                                 /* 7 */
                             "def na\xc3\xafve(n):\n"                         /* 8 */
                             "    outer(n)\n"                                 /* 9 */
                             "for n in [1] * 100 + [5 << 20] * 3:\n"          /* 10: by then the interpreter calls as it will from now on */
                             "    outer(n)\n"                                 /* 11 */
                             "t = threading.Thread(target=na\xc3\xafve, args=(3 << 20,))\n" /* 12 */
                             "t.start()\n"                                    /* 13 */
                             "t.join()\n"                                     /* 14 */
                             "try:\n"                                         /* 15 */
                             "    bytearray(1 << 50)\n"                       /* 16 */
                             "except MemoryError:\n"                          /* 17 */
                             "    pass\n"                                     /* 18 */
                             "try:\n"                                         /* 19 */
                             "    import ctypes\n"                            /* 20 */
                             "    get = ctypes.CDLL(None).malloc\n"           /* 21 */
                             "    def free_of_lock():\n"                      /* 22 */
                             "        get(ctypes.c_size_t(7 << 20))\n"        /* 23: the call is made with the interpreter's lock released */
                             "        get(ctypes.c_size_t(1 << 50))\n"        /* 24 */
                             "    free_of_lock()\n"                           /* 25 */
                             "except ImportError:\n"                          /* 26 */
                             "    print('no ctypes', flush=True)\n"           /* 27 */
                             "class Made:\n"                                  /* 28 */
                             "    def __init__(self, n):\n"                   /* 29 */
                             "        inner(n)\n"                             /* 30 */
                             "for n in [1] * 100 + [9 << 20]:\n"              /* 31 */
                             "    Made(n)\n"                                  /* 32 */
                             "os._exit(0)\n"; /* nothing is freed */

/* Every interpreter that is here: the system's, those of pyenv, and those that PLIMSOLL_TEST_PYTHONS names (paths, with colons between them). */
static uint32_t pythons_each(void (*check)(const char *interpreter, const char *file), const char *file)
{
    uint32_t found = 0;
    char pattern[4096], named[4096], *rest = named;
    glob_t g;
    if (!access("/usr/bin/python3", X_OK)) check("/usr/bin/python3", file), found++;
    snprintf(pattern, sizeof pattern, "%s/.pyenv/versions/*/bin/python3", getenv("HOME") ? getenv("HOME") : "");
    if (!glob(pattern, 0, NULL, &g))
        for (size_t i = 0; i < g.gl_pathc; i++) check(g.gl_pathv[i], file), found++;
    globfree(&g);
    snprintf(named, sizeof named, "%s", getenv("PLIMSOLL_TEST_PYTHONS") ? getenv("PLIMSOLL_TEST_PYTHONS") : "");
    for (char *path; (path = strsep(&rest, ":"));) {
        if (!*path) continue;
        if (access(path, X_OK)) fail_msg("PLIMSOLL_TEST_PYTHONS: there is no %s", path);
        check(path, file);
        found++;
    }
    return found;
}

static const plim__rec_site *site_of(const plim__rec_process *p, uint64_t bytes, uint64_t blocks)
{
    for (uint32_t s = 0; s < PLIM__REC_SHARDS; s++) {
        for (uint32_t i = 0; i < p->shard[s].count; i++) {
            const plim__rec_block *b = &p->shard[s].block[i];
            if (b->bytes / MIB != bytes / MIB || b->bytes % MIB > 64) continue;
            assert_int_equal(p->site[b->site].live_blocks, blocks);
            return &p->site[b->site];
        }
    }
    fail_msg("no block of %lu bytes", (unsigned long)bytes);
    return NULL;
}

static void frame_is(const plim__rec_process *p, const plim__rec_site *s, uint32_t i, const char *name, uint32_t line, const char *file)
{
    assert_true(i < s->n_python && s->python[i].code < PLIM__REC_CODES);
    const plim__rec_code *c = &p->code[s->python[i].code];
    assert_int_equal(c->ready, 1);
    assert_string_equal(c->name, name);
    assert_int_equal(s->python[i].line, line);
    if (file) assert_string_equal(c->file, file);
}

static void python_lines(const char *interpreter, const char *file)
{
    rig r;
    rig_new(&r, 0);
    const program p = {.argv = {(char *)(uintptr_t)interpreter, (char *)(uintptr_t) "-I", (char *)(uintptr_t)file}};
    const int status = run(&r, &p);
    if (status) print_message("%s: %s\n", interpreter, r.output);
    assert_int_equal(status, 0);
    const plim__rec_process *me = slot(&r, 0);
    check_slot(me);
    assert_true(me->flags & PLIM__REC_PYTHON_FOUND && me->flags & PLIM__REC_GLIBC);
    assert_int_equal(me->lost_codes, 0);
    if (me->python_version >> 16 < 0x0308) {
        assert_true(me->flags & PLIM__REC_PYTHON_MISMATCH && !(me->flags & PLIM__REC_PYTHON_WALKED));
        rig_free(&r);
        return;
    }
    assert_true(me->flags & PLIM__REC_PYTHON_WALKED && !(me->flags & PLIM__REC_PYTHON_MISMATCH));
    assert_true(me->python_thread_state && me->python_runtime && me->python_dict_type && me->python_list_type && me->python_tuple_type);
    const plim__rec_site *s = site_of(me, 5 * MIB, 3);
    assert_int_equal(s->n_python, 3);
    frame_is(me, s, 0, "inner", 4, file);
    frame_is(me, s, 1, "outer", 7, file);
    frame_is(me, s, 2, "<module>", 11, file);
    s = site_of(me, 3 * MIB, 1);
    frame_is(me, s, 0, "inner", 4, file);
    frame_is(me, s, 1, "outer", 7, file);
    frame_is(me, s, 2, "na\xc3\xafve", 9, file);
    assert_true(s->n_python > 3);
    s = site_of(me, 9 * MIB, 1); /* newer versions have frames of their own between a class and its __init__ */
    frame_is(me, s, 0, "inner", 4, file);
    frame_is(me, s, 1, me->python_version >> 16 < 0x030b ? "__init__" : "Made.__init__", 30, file);
    frame_is(me, s, 2, "<module>", 32, file);
    assert_int_equal(s->n_python, 3);
    const bool no_ctypes = strstr(r.output, "no ctypes");
    if (!no_ctypes) {
        s = site_of(me, 7 * MIB, 1);
        frame_is(me, s, 0, "free_of_lock", 23, file);
        frame_is(me, s, 1, "<module>", 25, file);
        assert_int_equal(s->n_python, 2);
    }
    assert_int_equal(r.asked[PLIM__REC_FAILED], no_ctypes ? 1 : 2);
    assert_int_equal(r.gil_held, 1);
    assert_true(r.last.thread_state && r.last.thread_state == me->python_thread_state);
    frame_is(me, &me->site[r.last.site], 0, no_ctypes ? "<module>" : "free_of_lock", no_ctypes ? 16 : 24, file);
    print_message("%s %x: lines are right\n", interpreter, me->python_version);
    rig_free(&r);
}

/* Stacks deeper than what is kept. The functions fN differ by name, so that each frame that is kept shows which one it is. */
static const char deep_script[] = "import os, sys\n"                                          /* 1 */
                                  "keep = []\n"                                               /* 2 */
                                  "def f0(n):\n"                                              /* 3 */
                                  "    keep.append(bytes(n << 20))\n"                         /* 4 */
                                  "for i in range(1, 40):\n"                                  /* 5 */
                                  "    exec('def f%d(n): f%d(n)' % (i, i - 1))\n"             /* 6 */
                                  "def deep(depth, n):\n"                                     /* 7 */
                                  "    if depth > 1: return deep(depth - 1, n)\n"             /* 8 */
                                  "    keep.append(bytes(n << 20))\n"                         /* 9 */
                                  "for i in (22, 23, 26, 30, 31, 39):\n"                      /* 10 */
                                  "    globals()['f%d' % i](i - 20)\n"                        /* 11: sizes tell them apart */
                                  "sys.setrecursionlimit(4000)\n"                             /* 12 */
                                  "deep(100, 1)\n"                                            /* 13 */
                                  "deep(101, 1)\n"                                            /* 14 */
                                  "deep(1500, 5)\n"                                           /* 15 */
                                  "os._exit(0)\n";

static void recursion_is_kept(const plim__rec_process *me, const char *file)
{
    const plim__rec_site *s = site_of(me, 5 * MIB, 1); /* its end is too far away */
    assert_int_equal(s->n_python, PLIM__REC_PYTHON);
    assert_int_equal(s->left_out, 0);
    frame_is(me, s, 0, "deep", 9, file);
    frame_is(me, s, PLIM__REC_PYTHON - 1, "deep", 8, file);
    for (uint32_t line = 13; line <= 14; line++) {
        uint32_t i = 0;
        for (s = me->site; i < PLIM__REC_NO_SITE_MAPPED; i++, s++)
            if (s->ready && s->n_python == PLIM__REC_PYTHON && s->python[PLIM__REC_PYTHON - 1].line == line) break;
        assert_true(i < PLIM__REC_NO_SITE_MAPPED);
        assert_int_equal(s->live_blocks, 1);
        assert_int_equal(s->left_out, 1);
        frame_is(me, s, 0, "deep", 9, file);
        for (i = 1; i < PLIM__REC_PYTHON - 1; i++) frame_is(me, s, i, "deep", 8, file);
        frame_is(me, s, PLIM__REC_PYTHON - 1, "<module>", line, file);
    }
}

static void python_deep(const char *interpreter, const char *file)
{
    rig r;
    rig_new(&r, 0);
    const program p = {.argv = {(char *)(uintptr_t)interpreter, (char *)(uintptr_t) "-I", (char *)(uintptr_t)file}};
    assert_int_equal(run(&r, &p), 0);
    const plim__rec_process *me = slot(&r, 0);
    check_slot(me);
    static const uint32_t last[] = {22, 23, 26, 30, 31, 39};
    for (size_t k = 0; k < sizeof last / sizeof *last && me->flags & PLIM__REC_PYTHON_WALKED; k++) {
        const plim__rec_site *s = site_of(me, (last[k] - 20) * MIB, 1);
        const uint32_t all = last[k] + 2, inner = PLIM__REC_PYTHON - PLIM__REC_PYTHON_OUTER;
        assert_int_equal(s->n_python, PLIM__REC_PYTHON);
        assert_int_equal(s->left_out, all > PLIM__REC_PYTHON);
        frame_is(me, s, 0, "f0", 4, file);
        for (uint32_t i = 1; i < PLIM__REC_PYTHON - 1; i++) {
            char name[16];
            snprintf(name, sizeof name, "f%u", i < inner ? i : all - PLIM__REC_PYTHON + i);
            frame_is(me, s, i, name, 1, "<string>");
        }
        frame_is(me, s, PLIM__REC_PYTHON - 1, "<module>", 11, file);
    }
    if (me->flags & PLIM__REC_PYTHON_WALKED) recursion_is_kept(me, file);
    rig_free(&r);
}

static void with_script(const char *text, void (*check)(const char *interpreter, const char *file))
{
    char file[] = "/tmp/plimsoll-preload-XXXXXX";
    const int fd = mkstemp(file);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
    const uint32_t found = pythons_each(check, file);
    unlink(file);
    if (!found) {
        print_message("SKIPPED: there is no Python here\n");
        skip();
    }
}

static void python(void **state)
{
    (void)state;
    with_script(script, python_lines);
}

static void python_deep_stacks(void **state)
{
    (void)state;
    with_script(deep_script, python_deep);
}

/* ---- programs that are not as others ---- */

static bool compiled(char *out, const char *source, const char *options)
{
    char command[8192];
    strcpy(out, "/tmp/plimsoll-subject-XXXXXX");
    const int fd = mkstemp(out);
    assert_true(fd >= 0);
    close(fd);
    snprintf(command, sizeof command, "cc -D_GNU_SOURCE %s -o %s %s/tests/lib/%s -pthread 2>/dev/null", options, out, PLIM_SOURCE_DIR, source);
    return !system(command);
}

static void under_a_sanitizer(void **state)
{
    (void)state;
    char path[64];
    if (!compiled(path, "preload_subject.c", "-fsanitize=address")) {
        unlink(path);
        print_message("SKIPPED: no compiler with AddressSanitizer\n");
        skip();
    }
    rig r;
    rig_new(&r, 0);
    const program p = {.argv = {path, (char *)(uintptr_t) "calls"}};
    const int status = run(&r, &p);
    if (status) print_message("%s\n", r.output);
    assert_int_equal(status, 0);
    const plim__rec_process *me = only_slot(&r);
    assert_int_equal(me->live_blocks, 9);
    assert_false(me->flags & PLIM__REC_GLIBC);
    unlink(path);
    rig_free(&r);
}

static void statically_linked(void **state)
{
    (void)state;
    char path[64];
    if (!compiled(path, "preload_subject.c", "-static")) {
        unlink(path);
        print_message("SKIPPED: nothing can be linked statically here\n");
        skip();
    }
    rig r;
    rig_new(&r, 0);
    const program p = {.argv = {path, (char *)(uintptr_t) "calls"}};
    assert_int_equal(run(&r, &p), 0);
    assert_int_equal(r.header->slot[0], 0);
    unlink(path);
    rig_free(&r);
}

/* Offsets that are wrong: nothing is believed, and nothing breaks. */
static void no_python(void **state)
{
    (void)state;
    char path[64];
    if (!compiled(path, "preload_impostor.c", "-rdynamic")) {
        unlink(path);
        print_message("SKIPPED: no compiler\n");
        skip();
    }
    rig r;
    rig_new(&r, 0);
    const program p = {.argv = {path}};
    assert_int_equal(run(&r, &p), 0);
    uint32_t looked = 0, refused = 0;
    for (uint32_t i = 0; i < PLIM__REC_SLOTS && r.header->slot[i]; i++) {
        const plim__rec_process *me = slot(&r, i);
        check_slot(me);
        assert_true(me->flags & PLIM__REC_PYTHON_FOUND);
        assert_false(me->flags & PLIM__REC_PYTHON_WALKED);
        assert_int_equal(me->python_version, 0x031000f0);
        looked += me->allocations == 3;
        refused += (me->flags & PLIM__REC_PYTHON_MISMATCH) != 0;
    }
    assert_int_equal(looked, 60);
    assert_true(refused > 50); /* the others show no frame at all */
    unlink(path);
    rig_free(&r);
}

/* The linker looks for a library where the RUNPATH of the caller of dlopen says, although we stand between. */
static void libraries_are_found(void **state)
{
    (void)state;
    char folder[] = "/tmp/plimsoll-runpath-XXXXXX", command[512], library[64], path[64], options[128];
    assert_non_null(mkdtemp(folder));
    snprintf(library, sizeof library, "%s/libplimsoll_found.so", folder);
    snprintf(command, sizeof command, "echo 'int here;' | cc -shared -fPIC -x c -o %s - 2>/dev/null", library);
    snprintf(options, sizeof options, "-Wl,--enable-new-dtags,-rpath,%s", folder);
    const bool made = !system(command) && compiled(path, "preload_subject.c", options);
    if (made) {
        rig r;
        rig_new(&r, 0);
        const program p = {.argv = {path, (char *)(uintptr_t) "found", (char *)(uintptr_t) "libplimsoll_found.so"}};
        assert_int_equal(run(&r, &p), 0);
        only_slot(&r);
        rig_free(&r);
        unlink(path);
    }
    unlink(library);
    rmdir(folder);
    if (!made) {
        print_message("SKIPPED: no compiler\n");
        skip();
    }
}

int main(void)
{
    build_find();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_call),      cmocka_unit_test(other_allocators), cmocka_unit_test(mappings),       cmocka_unit_test(threads),
        cmocka_unit_test(children),        cmocka_unit_test(attaching_fails),  cmocka_unit_test(no_room),        cmocka_unit_test(deep_binding),
        cmocka_unit_test(budget_refuses),  cmocka_unit_test(budget_grants),    cmocka_unit_test(the_system_refuses), cmocka_unit_test(no_supervisor),
        cmocka_unit_test(python),          cmocka_unit_test(python_deep_stacks), cmocka_unit_test(no_python),
        cmocka_unit_test(under_a_sanitizer), cmocka_unit_test(statically_linked), cmocka_unit_test(libraries_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
