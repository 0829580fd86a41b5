/* The functions behind ours. They are those of the next library in the order of search (RTLD_NEXT), so that an allocator that the program brings
 * (jemalloc, tcmalloc, a sanitizer's) stays in use.
 *
 * Looking them up may itself allocate, and the dynamic linker may allocate before our constructor runs. Such early requests are served from a
 * small fixed arena:
 *
 *     | size | all ones | block, 16-aligned ... | size | all ones | block ...
 *
 * The word of ones is where glibc has a block's size, so that free() takes such a block for a large one and looks; it is then recognised by its
 * address. It is never used again. One thread runs at that time; should another be there all the same, the arena is handed out atomically. */
#include "watch/preload/preload.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { BOOT_BYTES = 64 << 10, BOOT_HEAD = 16, BOOT_PAGE = 4096 };

static _Alignas(BOOT_PAGE) unsigned char boot[BOOT_BYTES];
static _Atomic size_t boot_used;
static _Atomic int resolving;

bool plim__pre_is_boot(const void *p) { return (uintptr_t)p - (uintptr_t)boot < BOOT_BYTES; }

static void *boot_take(size_t n, size_t align)
{
    if (n > BOOT_BYTES || align > BOOT_BYTES) goto none;
    if (align < BOOT_HEAD) align = BOOT_HEAD;
    size_t used = atomic_load(&boot_used), at, end;
    do {
        at = (used + BOOT_HEAD + align - 1) / align * align;
        end = (at + n + BOOT_HEAD - 1) / BOOT_HEAD * BOOT_HEAD;
        if (end > BOOT_BYTES) goto none;
    } while (!atomic_compare_exchange_weak(&boot_used, &used, end));
    for (size_t page = at / BOOT_PAGE; page <= (end - 1) / BOOT_PAGE && page < BOOT_BYTES / BOOT_PAGE; page++)
        atomic_store(&plim__pre_page[plim__pre_page_of(boot + page * BOOT_PAGE)], PLIM__PRE_PAGE_TOP);
    uint64_t *head = (uint64_t *)(void *)(boot + at);
    head[-2] = n;
    head[-1] = UINT64_MAX;
    return boot + at;
none:
    errno = ENOMEM;
    return NULL;
}

void *plim__pre_boot_moved(void *block, size_t n)
{
    const size_t had = ((const uint64_t *)block)[-2];
    void *p = plim__pre_real.malloc(n);
    if (p) memcpy(p, block, had < n ? had : n);
    return p;
}

/* ---- what stands in their place until they are known: false from ready() means that this call comes from the search itself ---- */

static bool ready(void)
{
    if (atomic_load(&resolving)) return false;
    plim__pre_resolve();
    return true;
}

static void *first_malloc(size_t n) { return ready() ? plim__pre_real.malloc(n) : boot_take(n, 0); }
static void *first_calloc(size_t n, size_t size)
{
    size_t bytes;
    if (ready()) return plim__pre_real.calloc(n, size);
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : boot_take(bytes, 0); /* the arena is zero */
}
static void *first_realloc(void *p, size_t n)
{
    if (ready()) return plim__pre_real.realloc(p, n);
    return p ? plim__pre_boot_moved(p, n) : boot_take(n, 0);
}
static void *first_reallocarray(void *p, size_t n, size_t size)
{
    size_t bytes;
    if (ready()) return plim__pre_real.reallocarray(p, n, size);
    return __builtin_mul_overflow(n, size, &bytes) ? NULL : first_realloc(p, bytes);
}
static void first_free(void *p)
{
    if (ready()) plim__pre_real.free(p);
}
static void *first_memalign(size_t align, size_t n) { return ready() ? plim__pre_real.memalign(align, n) : boot_take(n, align); }
static void *first_aligned_alloc(size_t align, size_t n) { return ready() ? plim__pre_real.aligned_alloc(align, n) : boot_take(n, align); }
static int first_posix_memalign(void **p, size_t align, size_t n)
{
    if (ready()) return plim__pre_real.posix_memalign(p, align, n);
    *p = boot_take(n, align);
    return *p ? 0 : ENOMEM;
}
static void *first_valloc(size_t n) { return ready() ? plim__pre_real.valloc(n) : boot_take(n, BOOT_PAGE); }
static void *first_pvalloc(size_t n) { return ready() ? plim__pre_real.pvalloc(n) : boot_take(n, BOOT_PAGE); }
static void *first_dlopen(const char *file, int mode) { return ready() ? plim__pre_real.dlopen(file, mode) : NULL; }

/* The three of the system are the same whoever answers, so they are asked of the kernel. */
static void *kernel_mmap(void *at, size_t n, int prot, int flags, int fd, off_t off)
{
    return (void *)syscall(SYS_mmap, at, n, prot, flags, fd, off);
}
static int kernel_munmap(void *at, size_t n) { return (int)syscall(SYS_munmap, at, n); }
static void *kernel_mremap(void *at, size_t old, size_t n, int flags, void *to) { return (void *)syscall(SYS_mremap, at, old, n, flags, to); }

plim__pre_real_functions plim__pre_real = {
    .malloc = first_malloc,
    .calloc = first_calloc,
    .realloc = first_realloc,
    .reallocarray = first_reallocarray,
    .free = first_free,
    .memalign = first_memalign,
    .aligned_alloc = first_aligned_alloc,
    .posix_memalign = first_posix_memalign,
    .valloc = first_valloc,
    .pvalloc = first_pvalloc,
    .mmap = kernel_mmap,
    .munmap = kernel_munmap,
    .mremap = kernel_mremap,
    .dlopen = first_dlopen,
};

void plim__pre_resolve(void)
{
    if (atomic_exchange(&resolving, 1)) return;
    plim__pre_real_functions found = plim__pre_real;
    const struct {
        const char *name;
        void *to; /* a pointer to a function, written through memcpy: ISO C has no other way from dlsym */
    } want[] = {
        {"malloc", &found.malloc},     {"calloc", &found.calloc},
        {"realloc", &found.realloc},   {"reallocarray", &found.reallocarray},
        {"free", &found.free},         {"memalign", &found.memalign},
        {"aligned_alloc", &found.aligned_alloc}, {"posix_memalign", &found.posix_memalign},
        {"valloc", &found.valloc},     {"pvalloc", &found.pvalloc},
        {"mmap", &found.mmap},         {"munmap", &found.munmap},
        {"mremap", &found.mremap},     {"dlopen", &found.dlopen},
    };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        void *f = dlsym(RTLD_NEXT, want[i].name);
        if (f) memcpy(want[i].to, &f, sizeof f);
    }
    plim__pre_real = found;
    atomic_store(&resolving, 0);
}
