/* libplimsoll_watch.so, which the dynamic linker loads into a watched program: it stands in front of the allocator, and writes what it sees into
 * the shared memory of watch/record.h. What all of its files share.
 *
 * Rules of this library
 *   - It runs in somebody else's program, inside malloc: it allocates nothing, prints nothing, and keeps errno as the real function left it.
 *   - Whatever it cannot do, it leaves undone: every hook then falls straight through to the real function.
 *   - A thread inside a hook has plim__pre_in_hook set, and every hook it enters meanwhile (by the unwinder, by the allocator, in a signal handler)
 *     falls through.
 *   - No lock is held while the dynamic linker, the unwinder or the real allocator is called, so no order of locks with theirs can be wrong.
 *   - It is loaded at start, so its thread-local variable can be of the kind that needs no allocation (initial-exec). */
#ifndef PLIM_WATCH_PRELOAD_H
#define PLIM_WATCH_PRELOAD_H

#include "watch/record.h"

#include <malloc.h>
#include <stddef.h>
#include <sys/types.h>

#define PLIM__PRE_APART __attribute__((noinline))

#pragma GCC visibility push(hidden) /* declarations too, so that the compiler reaches our variables without a table */

/* ------------------------------------------------------------------------------------------------ the real functions */

/* What stands behind us: the next library's functions. Before they are known each points at a function that looks for them first. */
typedef struct plim__pre_real_functions {
    void *(*malloc)(size_t);
    void *(*calloc)(size_t, size_t);
    void *(*realloc)(void *, size_t);
    void *(*reallocarray)(void *, size_t, size_t);
    void (*free)(void *);
    void *(*memalign)(size_t, size_t);
    void *(*aligned_alloc)(size_t, size_t);
    int (*posix_memalign)(void **, size_t, size_t);
    void *(*valloc)(size_t);
    void *(*pvalloc)(size_t);
    void *(*mmap)(void *, size_t, int, int, int, off_t);
    int (*munmap)(void *, size_t);
    void *(*mremap)(void *, size_t, size_t, int, void *); /* the fifth is read only where the flags say so */
    void *(*dlopen)(const char *, int);
} plim__pre_real_functions;

extern plim__pre_real_functions plim__pre_real;

/** Looks the real functions up, once. Called by the constructor, or before it by whoever allocates first. */
void plim__pre_resolve(void);
/** True for what was handed out before the real functions were known. It is never freed. */
bool plim__pre_is_boot(const void *p);
/** A block of the real allocator with the contents of a boot block. */
void *plim__pre_boot_moved(void *boot, size_t n);

/* ------------------------------------------------------------------------------------------------ what is known of this process */

typedef struct plim__pre_range {
    uintptr_t lo, hi;
} plim__pre_range;

typedef enum plim__pre_stage {
    PLIM__PRE_OFF,      /* nothing is recorded */
    PLIM__PRE_ARMED,    /* the first large request will claim a slot */
    PLIM__PRE_ATTACHED, /* header and me are there */
} plim__pre_stage;

typedef struct plim__pre_state {
    _Atomic uint32_t *stage; /* in a page that a fork clears, so a child writes nothing into its parent's slot */
    plim__rec_header *header;
    plim__rec_process *me;
    uint64_t start_ns; /* as the header has it */
    uint32_t slot;
    _Atomic uint32_t flags;    /* of plim__rec_process */
    bool glibc;                /* the real malloc is the C library's: blocks have its header */
    bool unwinds;              /* native stacks can be had without a lock */
    plim__pre_range own;       /* text of this library, */
    plim__pre_range allocator; /* of the library that the real malloc is in, */
    plim__pre_range unwinder;  /* and of libgcc */
    uint64_t attached_ns;      /* since header.start_ns */
    struct mallinfo2 (*mallinfo2)(void); /* NULL where the allocator is not glibc's */
    int (*malloc_trim)(size_t);
} plim__pre_state;

extern plim__pre_state plim__pre;
extern _Thread_local int plim__pre_in_hook __attribute__((tls_model("initial-exec")));

/** Claims a slot, if none did yet. False: there is none to be had. */
bool plim__pre_attach(void);

/** Whether there is a record in which something could be. */
static inline bool plim__pre_watches(void)
{
    return !plim__pre_in_hook && atomic_load_explicit(plim__pre.stage, memory_order_acquire) == PLIM__PRE_ATTACHED;
}

/** Whether a large request is to be recorded: the first one brings the record into being. Many processes never make one (shells, say), and slots
 *  are few. */
static inline bool plim__pre_wakes(void)
{
    if (plim__pre_in_hook) return false;
    const uint32_t stage = atomic_load_explicit(plim__pre.stage, memory_order_acquire);
    return stage == PLIM__PRE_ATTACHED || (stage == PLIM__PRE_ARMED && plim__pre_attach());
}

static inline bool plim__pre_within(plim__pre_range r, const void *p) { return (uintptr_t)p - r.lo < r.hi - r.lo; }

/** Nanoseconds since the supervisor began. */
uint64_t plim__pre_now(void);
/** The executable part of the loaded file that `p` lies in; empty where there is none. */
plim__pre_range plim__pre_text_of(const void *p);
/** Sets flags of the process, now or when it attaches. */
void plim__pre_flag(uint32_t flag);

/* ------------------------------------------------------------------------------------------------ locks */

long plim__pre_futex(_Atomic uint32_t *word, int op, uint32_t value, uint64_t wait_ns);
/** Tiny mutexes: 0 free, 1 taken, 2 taken and somebody sleeps. */
void plim__pre_lock(_Atomic uint32_t *lock);
void plim__pre_unlock(_Atomic uint32_t *lock);

/* ------------------------------------------------------------------------------------------------ one large request */

typedef struct plim__pre_request {
    plim__rec_call call;
    uint64_t bytes;
    uint64_t old_bytes;   /* of the block that is to grow, as far as it is recorded */
    const void *caller;   /* return address of the hook */
    uint64_t stack;       /* where the stack is */
    bool watched;         /* false: the rest is nothing */
    bool gil_held;
    uint32_t site;
    uint64_t thread_state;
} plim__pre_request;

/** Before the real call: finds the site, asks where the budget demands it. True: go on, and call plim__pre_end afterwards. False: refused, errno
 *  is ENOMEM. */
bool plim__pre_begin(plim__pre_request *r);
/** After it: records the block, or tells that the system refused. `got` is NULL where it failed (`error` says why). */
void plim__pre_end(plim__pre_request *r, const void *got, int error);

/** Fills site, thread_state and gil_held. */
void plim__pre_site_find(plim__pre_request *r);
void plim__pre_sites_reset(void);
/** How memory of a site was asked for. */
plim__rec_call plim__pre_site_call(uint32_t site);

/** False: the supervisor refuses. True: the request's bytes are claimed, and plim__pre_land follows. */
bool plim__pre_may(const plim__pre_request *r);
void plim__pre_land(uint64_t bytes);
/** A block is freed: where nobody has looked at it yet, it is as if it had not been claimed. */
void plim__pre_unclaim(const plim__rec_block *b);
void plim__pre_failed(const plim__pre_request *r, int error);
void plim__pre_ask_reset(void);

/** Whether a call goes past the allocator. Such calls are made in signal handlers too, which may have interrupted the allocator: they must not
 *  lead into it. */
static inline bool plim__pre_maps(plim__rec_call call) { return call == PLIM__REC_MMAP || call == PLIM__REC_MREMAP; }

/** Refreshes the C library's account of its heap. It takes the allocator's locks. */
void plim__pre_heap_read(void);
/** The same, where the last one is a second old and more. */
void plim__pre_heap_tick(uint64_t now);

/* ------------------------------------------------------------------------------------------------ live blocks */

/** Records a block (address, bytes, site, ms) and the event of it, which happens `now`. `maps`: as plim__pre_maps says of its call. */
void plim__pre_put(const plim__rec_block *b, bool maps, uint64_t now);
/** Takes the allocator's block that begins at `address` out. False: there is none. */
bool plim__pre_take(uint64_t address, plim__rec_block *out, uint64_t now);
/** Looks without taking: its bytes, 0: there is none. */
uint64_t plim__pre_bytes_at(uint64_t address);
/** Takes mapped blocks out of which some byte lies in [lo, hi). @return how many, at most `max` */
uint32_t plim__pre_take_mapped(uint64_t lo, uint64_t hi, plim__rec_block *out, uint32_t max);
void plim__pre_blocks_reset(void);

/* Whether free() must look: on glibc the size in the block's own header, which free is about to read anyway; elsewhere a count of recorded blocks
 * by page. A count that reached its top stays there. Boot blocks look large to the first and have their pages marked in the second. */
enum { PLIM__PRE_PAGES = 1 << 16, PLIM__PRE_PAGE_TOP = 255 };
extern _Atomic uint8_t plim__pre_page[PLIM__PRE_PAGES];

static inline uint32_t plim__pre_page_of(const void *p)
{
    return (uint32_t)(((uint64_t)(uintptr_t)p >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 48);
}

static inline bool plim__pre_maybe_large(const void *p)
{
    if (plim__pre.glibc) return ((const uint64_t *)p)[-1] >= PLIM__REC_LARGE;
    return atomic_load_explicit(&plim__pre_page[plim__pre_page_of(p)], memory_order_relaxed) != 0;
}

/* ------------------------------------------------------------------------------------------------ stacks */

typedef struct plim__pre_pyframe {
    uint64_t code, file, name; /* addresses of objects */
    int32_t at;                /* the instruction, in bytes */
} plim__pre_pyframe;

/** Looks for an interpreter in the process (dlsym: from the constructor or from dlopen only). */
void plim__pre_python_find(void);
/** The PyThreadState of this thread, 0: none, or it must not be touched; sets whether it holds the interpreter's lock. */
uint64_t plim__pre_python_thread(bool *gil_held);
/** Frames of this thread's own stack, innermost first.
 *  @param left_out  set where the stack is deeper: then the last PLIM__REC_PYTHON_OUTER are the outermost ones */
uint32_t plim__pre_python_walk(uint64_t thread_state, plim__pre_pyframe out[PLIM__REC_PYTHON], bool *left_out);
/** The frame's code in the table, and its line. */
plim__rec_frame plim__pre_python_frame(const plim__pre_pyframe *f);
/** Tells a new slot what is known of the interpreter. */
void plim__pre_python_tell(void);
void plim__pre_python_reset(void);

/** Loads libgcc's unwinder and primes it, where it needs no lock. */
void plim__pre_unwind_prepare(void);
/** Return addresses of this thread's stack from the hook's caller on, innermost first. 0: not unwound (cannot be done here, or has cost too much). */
uint32_t plim__pre_unwind(const void *caller, uint64_t *out, uint32_t max);
void plim__pre_unwind_reset(void);

#pragma GCC visibility pop

#endif
