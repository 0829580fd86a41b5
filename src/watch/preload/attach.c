/* Coming up in a program: a slot of the shared memory is claimed, what is to be known of the process is found out, and the hooks begin to record. Where any of it fails the
 * program runs on unwatched. A child made by fork claims a slot of its own; a program made by exec comes up anew.
 *
 * For tests: with PLIMSOLL_WATCH_FAIL=N in the environment the N-th system call that attaching makes (the N-th, counted from 1, across forks) fails as if the kernel
 * had refused it. */
#include "watch/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FAIL_ENV "PLIMSOLL_WATCH_FAIL"

enum { PAGE = 4096 };

static _Atomic uint32_t never; /* what `watching` points at before and where nothing can be watched */
plim__pre_state plim__pre = {.watching = &never};

static char shared_path[64]; /* programs may clear their environment */
static long fail_at;         /* system calls until the one that fails; 0: none does */

static bool injected(void) { return fail_at && !--fail_at; }

/* ---- system calls of our own: past every hook ---- */

static int sys_open(const char *path) { return injected() ? -1 : (int)syscall(SYS_openat, AT_FDCWD, path, O_RDWR | O_CLOEXEC, 0); }

static uint64_t sys_size(int fd)
{
    struct stat st;
    return injected() || fstat(fd, &st) ? 0 : (uint64_t)st.st_size;
}

static void *sys_map(void *at, uint64_t n, int flags, int fd, uint64_t off)
{
    if (injected()) return NULL;
    void *p = (void *)syscall(SYS_mmap, at, n, PROT_READ | PROT_WRITE, flags, fd, off);
    return p == MAP_FAILED ? NULL : p;
}

static void sys_unmap(void *at, uint64_t n)
{
    if (at) syscall(SYS_munmap, at, n);
}

/* ---- the slot ---- */

static uint32_t pages(uint64_t n) { return (uint32_t)((n + PAGE - 1) / PAGE); }

static bool header_good(const plim__rec_header *h, uint64_t file_bytes)
{
    uint64_t need;
    return h->magic == PLIM__REC_MAGIC && h->version == PLIM__REC_VERSION && h->slots && h->slots <= PLIM__REC_SLOTS &&
           h->slot_bytes >= sizeof(plim__rec_process) && !(h->slot_bytes % PAGE) && !(h->slot_offset % PAGE) &&
           !__builtin_mul_overflow(h->slot_bytes, h->slots, &need) && !__builtin_add_overflow(need, h->slot_offset, &need) && need <= file_bytes;
}

static bool slot_claim(plim__rec_header *h, uint32_t *slot)
{
    if (injected()) return false;
    for (uint32_t i = 0; i < h->slots; i++) {
        int32_t free_slot = 0;
        if (!atomic_compare_exchange_strong(&h->slot[i], &free_slot, (int32_t)getpid())) continue;
        *slot = i;
        return true;
    }
    return false;
}

/* Claims a slot and maps it, at `at` if that is not NULL. On failure the slot is given back: nobody has seen it. */
static bool slot_take(plim__rec_header *h, int fd, void *at)
{
    uint32_t slot;
    if (!slot_claim(h, &slot)) return false;
    void *me = sys_map(at, h->slot_bytes, MAP_SHARED | (at ? MAP_FIXED : 0), fd, h->slot_offset + slot * h->slot_bytes);
    if (!me) {
        atomic_store(&h->slot[slot], 0);
        return false;
    }
    plim__pre.me = me;
    plim__pre.slot = slot;
    return true;
}

static bool shared_open(plim__rec_header **header, void *at)
{
    const int fd = sys_open(shared_path);
    if (fd < 0) return false;
    bool good = false;
    const uint64_t bytes = sys_size(fd);
    plim__rec_header *h = *header;
    if (!h && bytes >= sizeof *h) h = sys_map(NULL, (uint64_t)pages(sizeof *h) * PAGE, MAP_SHARED, fd, 0);
    if (h && bytes) good = header_good(h, bytes) && slot_take(h, fd, at);
    if (h && !good && !*header)
        sys_unmap(h, (uint64_t)pages(sizeof *h) * PAGE);
    else
        *header = h;
    close(fd);
    return good;
}

/* ---- what is known ---- */

typedef struct text_search {
    uintptr_t at;
    plim__pre_range found;
} text_search;

static int text_of_one(struct dl_phdr_info *info, size_t size, void *to)
{
    (void)size;
    text_search *s = to;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        const uintptr_t lo = info->dlpi_addr + p->p_vaddr;
        if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || s->at - lo >= p->p_memsz) continue;
        s->found = (plim__pre_range){.lo = lo, .hi = lo + p->p_memsz};
        return 1;
    }
    return 0;
}

plim__pre_range plim__pre_text_of(const void *p)
{
    text_search s = {.at = (uintptr_t)p};
    dl_iterate_phdr(text_of_one, &s);
    return s.found;
}

static const void *code_at(const void *function) /* of a pointer to a function */
{
    const void *p;
    memcpy(&p, function, sizeof p);
    return p;
}

static void allocator_find(void)
{
    Dl_info malloc_in, libc_in;
    const char *(*libc)(void) = gnu_get_libc_version;
    const void *real = code_at(&plim__pre_real.malloc);
    plim__pre.allocator = plim__pre_text_of(real);
    if (!dladdr(real, &malloc_in) || !dladdr(code_at(&libc), &libc_in)) return;
    plim__pre.glibc = malloc_in.dli_fbase == libc_in.dli_fbase;
    const char *slash = strrchr(malloc_in.dli_fname, '/');
    strncpy(plim__pre.me->allocator, slash ? slash + 1 : malloc_in.dli_fname, sizeof plim__pre.me->allocator - 1);
    if (!plim__pre.glibc) return;
    void *info = dlsym(RTLD_DEFAULT, "mallinfo2"), *trim = dlsym(RTLD_DEFAULT, "malloc_trim");
    memcpy(&plim__pre.mallinfo2, &info, sizeof info);
    memcpy(&plim__pre.malloc_trim, &trim, sizeof trim);
}

static void slot_fill(uint32_t flags)
{
    plim__rec_process *me = plim__pre.me;
    me->pid = (int32_t)getpid();
    me->parent = (int32_t)getppid();
    me->start_ns = plim__pre.attached_ns = plim__pre_now();
    prctl(PR_GET_NAME, me->program);
    atomic_fetch_or(&me->flags, flags | (plim__pre.glibc ? PLIM__REC_GLIBC : 0) | (plim__pre.unwinds ? PLIM__REC_UNWINDS : 0));
    plim__pre_blocks_reset();
    plim__pre_sites_reset();
    plim__pre_unwind_reset();
    plim__pre_python_reset();
    prctl(PR_SET_PTRACER, (unsigned long)plim__pre.header->supervisor, 0, 0, 0); /* it may look into us where only parents may */
    atomic_store_explicit(&me->ready, 1, memory_order_release);
}

/* ---- coming up, forking, leaving ---- */

/* A page that is zero in a child: whoever makes one without the C library's fork leaves its parent's slot alone. */
static bool watching_page(void)
{
    _Atomic uint32_t *page = sys_map(NULL, PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!page) return false;
    madvise((void *)(uintptr_t)page, PAGE, MADV_WIPEONFORK);
    plim__pre.watching = page;
    return true;
}

static void before_fork(void) { plim__pre_in_hook++; }
static void after_fork(void) { plim__pre_in_hook--; }

static void in_child(void)
{
    char allocator[sizeof plim__pre.me->allocator];
    const int error = errno;
    const bool was = plim__pre.me;
    if (was) memcpy(allocator, plim__pre.me->allocator, sizeof allocator);
    atomic_store(plim__pre.watching, 0);
    if (was && shared_open(&plim__pre.header, plim__pre.me)) {
        memcpy(plim__pre.me->allocator, allocator, sizeof allocator);
        slot_fill(PLIM__REC_FORKED);
        atomic_store_explicit(plim__pre.watching, 1, memory_order_release);
    }
    plim__pre_in_hook--;
    errno = error;
}

static bool environment_read(void)
{
    const char *path = getenv(PLIM__REC_ENV), *fail = getenv(FAIL_ENV);
    if (!path || strlen(path) >= sizeof shared_path) return false;
    memcpy(shared_path, path, strlen(path) + 1);
    fail_at = fail ? strtol(fail, NULL, 10) : 0;
    return true;
}

__attribute__((constructor(101))) static void attach(void)
{
    plim__pre_resolve();
    const int error = errno;
    plim__pre_in_hook = 1;
    if (environment_read() && watching_page() && shared_open(&plim__pre.header, NULL)) {
        void (*self)(void) = attach;
        plim__pre.own = plim__pre_text_of(code_at(&self));
        allocator_find();
        plim__pre_unwind_prepare();
        slot_fill(0);
        pthread_atfork(before_fork, after_fork, in_child);
        atomic_store_explicit(plim__pre.watching, 1, memory_order_release);
    }
    plim__pre_in_hook = 0;
    errno = error;
}

__attribute__((destructor)) static void leave(void)
{
    if (!plim__pre_watches()) return;
    plim__pre_in_hook = 1;
    plim__pre_heap_read();
    plim__pre_flag(PLIM__REC_ENDED);
    plim__pre_in_hook = 0;
}
