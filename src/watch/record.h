/* What a watched process writes and the supervisor reads: the layout of the shared memory between them, and the protocol.
 *
 *   memfd, owned by the supervisor        header (one page) | slot 0 | slot 1 | ...
 *   a slot, one for each process          plim__rec_process: counters, the ask, stacks (sites), code names, live blocks, a ring of events
 *
 * The file is sparse: what nobody writes costs nothing. A watched process opens /proc/<supervisor>/fd/<n>, whose path the environment carries
 * (PLIM__REC_ENV), claims a free slot, maps the header and that slot, and closes the descriptor. The supervisor's own child does so when it starts;
 * others, and children made by fork, with their first large request, for slots are few and shells are many. It only writes facts: numbers,
 * addresses, bytes of names copied as they are. Whatever reads /proc, resolves a symbol or makes a sentence is the supervisor's.
 *
 * Who writes what
 *   header.slot[i]      claimed by a process (compare and swap from 0 to its pid), given back by the supervisor, its memory zero
 *   header.budget...    by the supervisor; processes read them before a large request
 *   everything in slot  by its process; but ask.answer and ask.answered by the supervisor
 *
 * Reading while it is being written: blocks lie in shards, each with a version that is odd while the shard changes (a reader copies and compares;
 * after the death of the process whatever is there is taken). Sites and codes are written once, `ready` last; their counters are atomic. An event
 * is good when its `seq` is its place in the stream plus one.
 *
 * Nothing here may grow with the program: when a table is full the facts that no longer fit are counted in `lost_*` and the report says so. */
#ifndef PLIM_WATCH_RECORD_H
#define PLIM_WATCH_RECORD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PLIM__REC_ENV "PLIMSOLL_WATCH" /* "/proc/123/fd/7" */
#define PLIM__REC_MAGIC UINT64_C(0x6c6c6f736d696c70)

enum {
    PLIM__REC_VERSION = 5,
    PLIM__REC_SLOTS = 64,
    PLIM__REC_SHARDS = 256,
    PLIM__REC_SHARD_BLOCKS = 511, /* a shard of 12 KiB */
    PLIM__REC_SITES = 4096,       /* a power of two */
    PLIM__REC_CODES = 2048,       /* a power of two */
    PLIM__REC_EVENTS = 1 << 16,   /* a power of two */
    PLIM__REC_PYTHON = 24,        /* frames of Python kept, innermost first: all, or the innermost, and of the */
    PLIM__REC_PYTHON_OUTER = 8,   /* outermost so many: an import is deep, and who began it is out there */
    PLIM__REC_NATIVE = 32,        /* return addresses kept, innermost first */
    PLIM__REC_NO_SITE = PLIM__REC_SITES - 1,        /* where blocks go for which there was no room for a site: those of an allocator, */
    PLIM__REC_NO_SITE_MAPPED = PLIM__REC_SITES - 2, /* and those of mmap. Both are ready from the start, without a stack */
    PLIM__REC_NO_CODE = PLIM__REC_CODES - 1,        /* the code of frames for which there was no room: "?", ready from the start */
};

#define PLIM__REC_LARGE ((uint64_t)256 << 10) /* requests of this size and more are recorded */

/* How memory was asked for. Kept in the site, so blocks of mmap are told from blocks of malloc by it. */
typedef enum plim__rec_call {
    PLIM__REC_MALLOC,
    PLIM__REC_CALLOC,
    PLIM__REC_REALLOC,
    PLIM__REC_MEMALIGN, /* memalign, aligned_alloc, posix_memalign, valloc, pvalloc */
    PLIM__REC_MMAP,
    PLIM__REC_MREMAP,
} plim__rec_call;

/* ------------------------------------------------------------------------------------------------- a process */

typedef struct plim__rec_frame {
    uint32_t code; /* index in plim__rec_process.code */
    uint32_t line;
} plim__rec_frame;

/* One exact call stack from which memory was asked for. */
typedef struct plim__rec_site {
    _Atomic uint64_t hash;  /* of the stack, the last three bits the call; 0: free */
    _Atomic uint32_t ready; /* 1: what follows is complete */
    uint16_t n_python, n_native;
    uint16_t call;      /* plim__rec_call */
    uint16_t no_native; /* 1: the stack was not unwound (it cost too much, or cannot be done safely): native[0] is the caller alone */
    uint32_t left_out;  /* 1: before the last PLIM__REC_PYTHON_OUTER frames of Python others are left out */
    plim__rec_frame python[PLIM__REC_PYTHON];
    uint64_t native[PLIM__REC_NATIVE];
    _Atomic uint64_t live_bytes, live_blocks, allocations, frees, allocated_bytes;
} plim__rec_site;

/* A code object of Python, its texts copied (UTF-8, cut to fit: a file keeps its end, a name its beginning). */
typedef struct plim__rec_code {
    _Atomic uint64_t address; /* of the PyCodeObject; 0: free */
    _Atomic uint32_t ready;
    uint32_t first_line;
    uint64_t file_address, name_address; /* of the str objects: a code object at the same address with others is another one */
    char file[160];
    char name[64]; /* co_qualname where there is one, else co_name */
} plim__rec_code;

typedef struct plim__rec_block {
    uint64_t address, bytes;
    uint32_t site;
    uint32_t ms; /* milliseconds since header.start_ns */
} plim__rec_block;

typedef struct plim__rec_shard {
    _Atomic uint32_t lock;
    _Atomic uint32_t version; /* odd: being changed */
    _Atomic uint32_t count;   /* block[0..count) are live, in no order */
    uint32_t reserved;
    plim__rec_block block[PLIM__REC_SHARD_BLOCKS];
    uint64_t unused;
} plim__rec_shard;

typedef enum plim__rec_event_kind { PLIM__REC_GOT, PLIM__REC_FREED } plim__rec_event_kind;

typedef struct plim__rec_event {
    _Atomic uint64_t seq; /* place in the stream plus one, written last; 0 while it is being written */
    uint64_t ns;          /* since header.start_ns */
    uint64_t address, bytes;
    uint32_t site;
    uint32_t kind; /* plim__rec_event_kind */
} plim__rec_event;

typedef enum plim__rec_ask_kind {
    PLIM__REC_MAY_I = 1, /* the budget might be breached: the process waits for an answer before it asks the system */
    PLIM__REC_FAILED,    /* the system refused (errno in `error`): the process waits so that the supervisor sees it as it was */
} plim__rec_ask_kind;

typedef enum plim__rec_answer {
    PLIM__REC_GO_ON,  /* FAILED: seen. MAY_I: granted */
    PLIM__REC_REFUSE, /* the call returns NULL (MAP_FAILED) with ENOMEM */
    PLIM__REC_TRIM,   /* give free memory back (malloc_trim), then ask again */
} plim__rec_answer;

/* A question to the supervisor. One at a time in a process: `lock` is held by the thread that asks. It fills the fields, adds 1 to `asked`, adds
 * 1 to header.doorbell and wakes it, then sleeps on `answered` until it equals `asked`; after PLIM__REC_PATIENCE_MS without an answer it goes on
 * as if granted, and asks no more until that answer has come (the supervisor is gone, or stopped). */
enum { PLIM__REC_PATIENCE_MS = 5000 };

typedef struct plim__rec_ask {
    _Atomic uint32_t lock;
    _Atomic uint32_t asked;
    _Atomic uint32_t answered; /* futex */
    uint32_t kind;             /* plim__rec_ask_kind */
    uint32_t answer;           /* plim__rec_answer, by the supervisor */
    uint32_t call;             /* plim__rec_call */
    uint32_t site;
    int32_t error; /* errno of a failed call */
    int32_t thread; /* gettid() */
    uint32_t gil_held;
    uint64_t bytes;
    uint64_t old_bytes; /* realloc, mremap: of the block that is to become `bytes` long, as far as it is recorded; it is alive meanwhile */
    uint64_t ns;
    uint64_t thread_state; /* PyThreadState of the asking thread; 0: none */
    uint32_t trimmed;      /* this is asked again after a PLIM__REC_TRIM */
    uint32_t reserved;
} plim__rec_ask;

/* The C library's own account of its heap (mallinfo2), refreshed at most once a second, before every ask and at exit. */
typedef struct plim__rec_heap {
    _Atomic uint64_t ns; /* when; 0: never, or the allocator is not glibc's */
    uint64_t arena;      /* bytes of heaps, all arenas (without mapped blocks) */
    uint64_t used;       /* uordblks: of these handed out */
    uint64_t kept;       /* fordblks: free but kept */
    uint64_t top;        /* keepcost: of these at the top, which trimming gives back */
    uint64_t mapped;     /* hblkhd: blocks that have mappings of their own */
} plim__rec_heap;

enum { /* plim__rec_process.flags */
    PLIM__REC_GLIBC = 1,           /* malloc underneath is the C library's */
    PLIM__REC_PYTHON_FOUND = 2,    /* a CPython interpreter is in the process */
    PLIM__REC_PYTHON_WALKED = 4,   /* its frames were found where they should be (the self-check passed) */
    PLIM__REC_PYTHON_MISMATCH = 8, /* they were not: no Python lines */
    PLIM__REC_UNWINDS = 16,        /* native stacks can be had without taking a lock */
    PLIM__REC_FORKED = 32,         /* made by fork: what it had before belongs to its parent's slot */
    PLIM__REC_ENDED = 64,          /* left through exit() */
    PLIM__REC_DEEPBIND = 128,      /* a library was to be bound past us (RTLD_DEEPBIND): the flag was dropped */
    PLIM__REC_UNANSWERED = 256,    /* a question got no answer in time: the request was made all the same */
};

typedef struct plim__rec_process {
    _Atomic uint32_t ready; /* 1: attached */
    int32_t pid, parent;
    _Atomic uint32_t flags;
    uint64_t start_ns;       /* since header.start_ns */
    uint32_t python_version; /* as PY_VERSION_HEX: 0x030b02f0; 0: no Python */
    uint32_t reserved;
    char allocator[64]; /* base name of the library that malloc comes from: "libc.so.6", "libjemalloc.so.2" */
    char program[64];   /* comm */

    /* Where the supervisor finds Python's own structures. */
    uint64_t python_runtime;                 /* &_PyRuntime, 0 if it is not exported */
    uint64_t python_code_type, python_str_type; /* &PyCode_Type, &PyUnicode_Type */
    uint64_t python_dict_type, python_list_type, python_tuple_type;
    uint64_t address; /* of this slot in the process: it is there as long as the process runs this program */
    uint64_t reserved_line[5];

    /* What every large request touches lies in as few cache lines as can be: after a program's own work on large blocks none of it
     * is in the cache. */
    _Atomic uint64_t python_thread_state; /* of the thread that asked for memory last */
    _Atomic uint64_t live_bytes, live_blocks, allocations, frees;
    _Atomic uint64_t events; /* how many were ever put into the ring */
    _Atomic uint64_t refusals;
    _Atomic uint64_t lost_blocks, lost_sites, lost_codes, not_unwound;

    plim__rec_heap heap;
    plim__rec_ask ask;
    uint64_t reserved_end[5];

    plim__rec_shard shard[PLIM__REC_SHARDS];
    plim__rec_event event[PLIM__REC_EVENTS];
    plim__rec_site site[PLIM__REC_SITES];
    plim__rec_code code[PLIM__REC_CODES];
} plim__rec_process;

_Static_assert(offsetof(plim__rec_process, python_thread_state) % 64 == 0 && offsetof(plim__rec_process, shard) % 64 == 0, "cache lines");
_Static_assert(sizeof(plim__rec_shard) % 64 == 0 && sizeof(plim__rec_site) % 64 == 0, "cache lines");

/* ---------------------------------------------------------------------------------------------- the header */

typedef struct plim__rec_header {
    uint64_t magic;
    uint32_t version, slots;
    uint64_t slot_bytes, slot_offset; /* slot i lies at slot_offset + i * slot_bytes */
    int32_t supervisor;               /* its pid */
    _Atomic uint32_t doorbell;        /* futex: the supervisor sleeps on it */
    uint64_t start_ns;                /* CLOCK_MONOTONIC when watching began */

    /* The budget, for all processes together. A request of n more bytes goes on without asking when
     *     resident + (claimed - landed_seen) + n <= budget
     * and adds its whole size to `claimed` in the same step; otherwise it asks, and adds it when it is granted. When its block is in the table, or
     * the request has failed, it adds the same to `landed`. The supervisor reads `landed` first, then the blocks and what is resident, and publishes;
     * so whatever is not in `resident` is still in the difference, and what is counted twice for a moment leads to a question, not to a breach. A
     * block that is freed before it was ever looked at (its ms is later than seen_ms) is taken back from both, `landed` first: temporaries do not
     * add up. */
    uint64_t budget; /* 0: none; nothing is asked, and nothing of this is kept */
    _Atomic uint64_t resident; /* at the last look, with what was asked for lately and is not resident yet */
    _Atomic uint64_t claimed, landed, landed_seen;
    _Atomic uint32_t seen_ms;

    _Atomic int32_t slot[PLIM__REC_SLOTS]; /* pid of the process that has it, 0: free */
} plim__rec_header;

_Static_assert(sizeof(plim__rec_header) <= 4096, "the header is one page");

#endif
