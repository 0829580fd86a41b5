/* The program that tests/unit/preload.c watches: preload-subject MODE. It asks for memory in known ways, and exits 0 when every call did what it
 * should. It is a plain program in every kind of build: no library of ours, no sanitizer. */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MIB ((size_t)1 << 20)
#define NEED(x)                                            \
    do {                                                   \
        if (!(x)) {                                        \
            fprintf(stderr, "line %d: %s\n", __LINE__, #x); \
            exit(1);                                       \
        }                                                  \
    } while (0)

static void *volatile keep; /* so that no call is optimised away */

static void *kept(void *p)
{
    keep = p;
    return keep;
}

/* ---- one of everything: what stays alive is known to the test ---- */

static int calls(void)
{
    errno = 77;
    kept(malloc(1 * MIB));
    char *c = kept(calloc(2, MIB));
    for (size_t i = 0; i < 2 * MIB; i += 4096) NEED(!c[i]);
    char *r = kept(malloc(100));
    strcpy(r, "kept");
    r = kept(realloc(r, 3 * MIB));
    NEED(!strcmp(r, "kept"));
    r = kept(realloc(r, 4 * MIB));
    NEED(!strcmp(r, "kept"));
    char *shrunk = kept(malloc(5 * MIB));
    shrunk = kept(realloc(shrunk, 100));
    NEED(shrunk);
    void *aligned = NULL;
    NEED(!posix_memalign(&aligned, 4096, 6 * MIB) && !((uintptr_t)aligned % 4096));
    NEED(!((uintptr_t)kept(memalign(1 << 16, 7 * MIB)) % (1 << 16)));
    NEED(kept(aligned_alloc(64, 8 * MIB)));
    NEED(kept(valloc(9 * MIB)) && kept(pvalloc(10 * MIB)));
    NEED(kept(reallocarray(NULL, 11, MIB)));
    free(kept(malloc(12 * MIB)));
    free(kept(memalign(4096, 13 * MIB)));
    NEED(kept(malloc(256 * 1024 - 1)) && kept(malloc(1000)));
    NEED(errno == 77);
    return 0;
}

/* ---- mappings, whole and in parts ---- */

static char *map(void *at, size_t n, int prot, int flags)
{
    char *p = mmap(at, n, prot, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    NEED(p != MAP_FAILED);
    return p;
}

static int maps(void)
{
    const int rw = PROT_READ | PROT_WRITE;
    char *a = map(NULL, 8 * MIB, rw, 0);
    NEED(!munmap(a + 2 * MIB, MIB)); /* 2 and 5 MiB are left */
    char *b = map(NULL, 4 * MIB, rw, 0);
    b = mremap(b, 4 * MIB, 64 * MIB, MREMAP_MAYMOVE);
    NEED(b != MAP_FAILED);
    char *c = map(NULL, 16 * MIB, rw, 0);
    map(c + 4 * MIB, 2 * MIB, PROT_NONE, MAP_FIXED | MAP_NORESERVE); /* 4 and 10 MiB are left */
    map(NULL, 32 * MIB, PROT_NONE, 0);
    map(NULL, 32 * MIB, rw, MAP_NORESERVE);
    char *d = map(NULL, MIB, rw, 0), *e = map(NULL, MIB, rw, 0);
    NEED(!munmap(d, MIB) && !munmap(e, MIB));
    NEED(munmap(a + 1, MIB) && errno == EINVAL);
    return 0;
}

/* ---- many threads ---- */

static _Atomic uint64_t made, gone, alive, alive_bytes;
static _Atomic int stop;

static void *churn(void *arg)
{
    uint64_t seed = (uintptr_t)arg * UINT64_C(0x9e3779b97f4a7c15) + 1, n_made = 0, n_gone = 0;
    void *block[4] = {0};
    size_t bytes[4] = {0};
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        const int i = seed >> 62;
        n_gone += block[i] != NULL;
        free(block[i]);
        bytes[i] = (256 << 10) + (seed >> 40) % (768 << 10);
        block[i] = seed >> 61 & 1 ? malloc(bytes[i]) : calloc(1, bytes[i]);
        NEED(block[i]);
        n_made++;
    }
    for (int i = 0; i < 4; i++) {
        if (!block[i]) continue;
        atomic_fetch_add(&alive, 1);
        atomic_fetch_add(&alive_bytes, bytes[i]);
    }
    atomic_fetch_add(&made, n_made);
    atomic_fetch_add(&gone, n_gone);
    return NULL;
}

static int threads(int n, int ms)
{
    pthread_t *t = calloc((size_t)n, sizeof *t);
    for (int i = 0; i < n; i++) NEED(!pthread_create(&t[i], NULL, churn, (void *)(uintptr_t)(i + 1)));
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
    atomic_store(&stop, 1);
    for (int i = 0; i < n; i++) NEED(!pthread_join(t[i], NULL));
    printf("%lu %lu %lu %lu\n", (unsigned long)made, (unsigned long)gone, (unsigned long)alive, (unsigned long)alive_bytes);
    free(t);
    return 0;
}

/* ---- children ---- */

static int forks(void)
{
    void *mine = kept(malloc(20 * MIB));
    for (int i = 1; i <= 3; i++) {
        const pid_t child = fork();
        NEED(child >= 0);
        if (!child) {
            free(mine); /* the parent's: not in the child's account */
            NEED(kept(malloc((size_t)i * MIB)));
            _exit(0);
        }
        int status;
        NEED(waitpid(child, &status, 0) == child && status == 0);
    }
    return 0;
}

/* ---- the budget and failures ---- */

static int refused(void)
{
    errno = 0;
    NEED(!kept(malloc(64 * MIB)) && errno == ENOMEM);
    errno = 0;
    NEED(!kept(calloc(64, MIB)) && errno == ENOMEM);
    void *p = keep;
    errno = 0;
    NEED(posix_memalign(&p, 64, 64 * MIB) == ENOMEM && errno == 0);
    NEED(mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    char *r = kept(malloc(MIB));
    strcpy(r, "kept");
    errno = 0;
    NEED(!kept(realloc(r, 64 * MIB)) && errno == ENOMEM && !strcmp(r, "kept"));
    return 0;
}

static int huge(void)
{
    volatile size_t over = (size_t)PTRDIFF_MAX + 1, wide = (size_t)1 << 46;
    errno = 0;
    NEED(!kept(malloc(over)) && errno == ENOMEM);
    errno = 0;
    NEED(!kept(malloc(wide)) && errno == ENOMEM);
    errno = 0;
    NEED(!kept(calloc(over, 4)) && errno == ENOMEM);
    char *r = kept(malloc(MIB));
    strcpy(r, "kept");
    NEED(!kept(realloc(r, wide)) && errno == ENOMEM && !strcmp(r, "kept"));
    NEED(mmap(NULL, (size_t)1 << 50, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == ENOMEM);
    return 0;
}

/* ---- all of it at once, for runs in which attaching fails somewhere ---- */

static int everything(void)
{
    NEED(!calls() && !maps() && !forks());
    pthread_t t[4];
    for (int i = 0; i < 4; i++) NEED(!pthread_create(&t[i], NULL, churn, (void *)(uintptr_t)(i + 1)));
    atomic_store(&stop, 1);
    for (int i = 0; i < 4; i++) NEED(!pthread_join(t[i], NULL));
    return 0;
}

/* By a name without a path, which only the RUNPATH of this program can find. */
static int found(const char *library)
{
    NEED(dlopen(library, RTLD_NOW));
    return 0;
}

static int deep(void)
{
    void *m = dlopen("libm.so.6", RTLD_NOW | RTLD_DEEPBIND);
    NEED(m && dlsym(m, "cos"));
    return 0;
}

int main(int argc, char **argv)
{
    const char *mode = argc > 1 ? argv[1] : "";
    if (!strcmp(mode, "calls")) return calls();
    if (!strcmp(mode, "maps")) return maps();
    if (!strcmp(mode, "threads")) return argc > 3 ? threads(atoi(argv[2]), atoi(argv[3])) : 2;
    if (!strcmp(mode, "forks")) return forks();
    if (!strcmp(mode, "refused")) return refused();
    if (!strcmp(mode, "huge")) return huge();
    if (!strcmp(mode, "everything")) return everything();
    if (!strcmp(mode, "deep")) return deep();
    if (!strcmp(mode, "found")) return argc > 2 ? found(argv[2]) : 2;
    return 2;
}
