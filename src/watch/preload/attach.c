/* Coming up in a program. The constructor finds out what needs the dynamic linker and arms the hooks; the first large request claims a slot of
 * the shared memory and attaches. (The program that the supervisor itself started attaches at once, so that it can be told that the library is
 * there.) Where any of it fails the program runs on unwatched. A child made by fork is armed anew, with a slot of its own to come; a program made
 * by exec comes up as any other.
 *
 * For tests: with PLIMSOLL_WATCH_FAIL=N in the environment the N-th system call that attaching makes (counted from 1, in a child on from its
 * parent's) fails as if the kernel had refused it. */
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
#include <time.h>
#include <unistd.h>

#define FAIL_ENV "PLIMSOLL_WATCH_FAIL"

enum { PAGE = 4096 };

static _Atomic uint32_t nothing; /* what `stage` points at before and where nothing can be watched */
plim__pre_state plim__pre = {.stage = &nothing};

static char shared_path[64];  /* programs may clear their environment */
static char allocator[sizeof plim__pre.me->allocator];
static uint64_t started_ns;   /* CLOCK_MONOTONIC of the constructor, or of the fork */
static bool armed;            /* as `stage` would say, had it not been cleared by a fork */
static void *place;           /* where a slot is mapped: in a child its parent's, until its own goes over it */
static _Atomic uint32_t lock; /* of attaching */
static long fail_at;          /* system calls until the one that fails; 0: none does */

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

static void sys_unmap(void *at, uint64_t n) { syscall(SYS_munmap, at, n); }
static void sys_close(int fd) { syscall(SYS_close, fd); } /* the C library's would be a point where threads are cancelled */

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

/* A slot without the file, which a child that has changed its user or its root may not open: the header, which it has from its parent, is mapped once
 * more (that is what an old size of 0 means), as far as the slot's end; all but the slot goes again. */
static void *slot_from_header(plim__rec_header *h, uint64_t offset)
{
    if (injected()) return NULL;
    char *all = (char *)syscall(SYS_mremap, h, 0, offset + h->slot_bytes, MREMAP_MAYMOVE, NULL);
    if (all == MAP_FAILED) return NULL;
    sys_unmap(all, offset);
    if (!place) return all + offset;
    void *me = (void *)syscall(SYS_mremap, all + offset, h->slot_bytes, h->slot_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, place);
    if (me != MAP_FAILED) return me;
    sys_unmap(all + offset, h->slot_bytes);
    return NULL;
}

/* Claims a slot and maps it. On failure the slot is given back: nobody has seen it. */
static bool slot_take(plim__rec_header *h, int fd)
{
    uint32_t slot;
    if (!slot_claim(h, &slot)) return false;
    const uint64_t offset = h->slot_offset + slot * h->slot_bytes;
    void *me = fd >= 0 ? sys_map(place, h->slot_bytes, MAP_SHARED | (place ? MAP_FIXED : 0), fd, offset) : slot_from_header(h, offset);
    if (!me) {
        atomic_store(&h->slot[slot], 0);
        return false;
    }
    plim__pre.me = place = me;
    plim__pre.slot = slot;
    return true;
}

static bool shared_open(void)
{
    const int fd = sys_open(shared_path);
    plim__rec_header *h = plim__pre.header; /* a child has it already, and whoever made it has looked at it */
    if (fd < 0) return h && slot_take(h, -1);
    const uint64_t bytes = sys_size(fd), head = (uint64_t)pages(sizeof(plim__rec_header)) * PAGE;
    if (!h && bytes >= head) h = sys_map(NULL, head, MAP_SHARED, fd, 0);
    const bool good = h && header_good(h, bytes) && slot_take(h, fd);
    if (h && !good && !plim__pre.header)
        sys_unmap(h, head);
    else
        plim__pre.header = h;
    sys_close(fd);
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

/* (A program with an allocator in its own executable never calls ours, and is not told from others: an address of malloc in the executable may as
 * well be the stub through which it calls us. Its mappings are then what is seen.) */
static void allocator_find(void)
{
    Dl_info malloc_in, libc_in;
    const char *(*libc)(void) = gnu_get_libc_version;
    const void *real = code_at(&plim__pre_real.malloc);
    plim__pre.allocator = plim__pre_text_of(real);
    if (!dladdr(real, &malloc_in) || !dladdr(code_at(&libc), &libc_in)) return;
    plim__pre.glibc = malloc_in.dli_fbase == libc_in.dli_fbase;
    const char *slash = strrchr(malloc_in.dli_fname, '/');
    strncpy(allocator, slash ? slash + 1 : malloc_in.dli_fname, sizeof allocator - 1);
    if (!plim__pre.glibc) return;
    plim__pre_flag(PLIM__REC_GLIBC);
    void *info = dlsym(RTLD_DEFAULT, "mallinfo2"), *trim = dlsym(RTLD_DEFAULT, "malloc_trim");
    memcpy(&plim__pre.mallinfo2, &info, sizeof info);
    memcpy(&plim__pre.malloc_trim, &trim, sizeof trim);
}

static uint64_t monotonic_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static void slot_fill(void)
{
    plim__rec_process *me = plim__pre.me;
    me->pid = (int32_t)getpid();
    me->parent = (int32_t)getppid();
    me->address = (uintptr_t)me;
    plim__pre.start_ns = plim__pre.header->start_ns;
    me->start_ns = started_ns > plim__pre.start_ns ? started_ns - plim__pre.start_ns : 0;
    plim__pre.attached_ns = plim__pre_now();
    memcpy(me->allocator, allocator, sizeof allocator);
    prctl(PR_GET_NAME, me->program);
    atomic_store(&me->flags, atomic_load(&plim__pre.flags));
    plim__pre_blocks_reset();
    plim__pre_sites_reset();
    plim__pre_unwind_reset();
    plim__pre_ask_reset();
    plim__pre_python_tell();
    prctl(PR_SET_PTRACER, (unsigned long)plim__pre.header->supervisor, 0, 0, 0); /* it may look into us where only parents may */
    atomic_store_explicit(&me->ready, 1, memory_order_release);
}

/* ---- coming up, forking, leaving ---- */

/* A page that is zero in a child: whoever makes one without the C library's fork leaves its parent's slot alone. */
static bool stage_page(void)
{
    _Atomic uint32_t *page = sys_map(NULL, PAGE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (!page) return false;
    madvise((void *)(uintptr_t)page, PAGE, MADV_WIPEONFORK);
    plim__pre.stage = page;
    return true;
}

bool plim__pre_attach(void)
{
    const int error = errno;
    plim__pre_in_hook = 1;
    plim__pre_lock(&lock);
    if (atomic_load(plim__pre.stage) == PLIM__PRE_ARMED) {
        armed = shared_open();
        if (armed) slot_fill();
        atomic_store_explicit(plim__pre.stage, armed ? PLIM__PRE_ATTACHED : PLIM__PRE_OFF, memory_order_release);
    }
    plim__pre_unlock(&lock);
    plim__pre_in_hook = 0;
    errno = error;
    return atomic_load(plim__pre.stage) == PLIM__PRE_ATTACHED;
}

static void in_child(void)
{
    started_ns = monotonic_ns();
    atomic_store(&lock, 0);
    plim__pre_python_reset();
    atomic_fetch_or(&plim__pre.flags, PLIM__REC_FORKED);
    atomic_fetch_and(&plim__pre.flags, (uint32_t)~(PLIM__REC_ENDED | PLIM__REC_UNANSWERED));
    atomic_store_explicit(plim__pre.stage, armed ? PLIM__PRE_ARMED : PLIM__PRE_OFF, memory_order_release);
}

static bool environment_read(void)
{
    const char *path = getenv(PLIM__REC_ENV), *fail = getenv(FAIL_ENV);
    if (!path || strlen(path) >= sizeof shared_path) return false;
    memcpy(shared_path, path, strlen(path) + 1);
    fail_at = fail ? strtol(fail, NULL, 10) : 0;
    return true;
}

static bool started_by_supervisor(void)
{
    return !strncmp(shared_path, "/proc/", 6) && strtol(shared_path + 6, NULL, 10) == (long)getppid();
}

__attribute__((constructor(101))) static void arm(void)
{
    plim__pre_resolve();
    const int error = errno;
    plim__pre_in_hook = 1;
    if (environment_read() && stage_page()) {
        void (*self)(void) = arm;
        started_ns = monotonic_ns();
        plim__pre.own = plim__pre_text_of(code_at(&self));
        allocator_find();
        plim__pre_unwind_prepare();
        plim__pre_python_find();
        armed = !pthread_atfork(NULL, NULL, in_child);
        atomic_store_explicit(plim__pre.stage, armed ? PLIM__PRE_ARMED : PLIM__PRE_OFF, memory_order_release);
        if (armed && started_by_supervisor()) plim__pre_attach();
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
