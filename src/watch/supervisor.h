/* The supervisor's own state: what its parts (watch.c the loop, launch.c the start, tree.c the processes, budget.c the charge, moment.c the
 * facts of a moment, diagnose.c what they mean) share. One thread. */
#ifndef PLIM_WATCH_SUPERVISOR_H
#define PLIM_WATCH_SUPERVISOR_H

#include "os/os.h"
#include "watch/block.h"
#include "watch/killer.h"
#include "watch/peer.h"
#include "watch/pynames.h"
#include "watch/refuser.h"
#include "watch/symbols.h"
#include "watch/timeline.h"

enum {
    PLIM__WATCH_PROCESSES = 256, /* followed at once and remembered; more are counted only */
    PLIM__WATCH_NAMES = 24,
    PLIM__WATCH_REPORTS = 16, /* of refused requests */
};

/* A process of the watched tree. */
typedef struct plim__watched {
    int pid, parent;
    const plim__rec_process *slot; /* NULL: followed through /proc alone */
    uint32_t slot_index;
    plim__reader reader;           /* valid with a slot */
    char program[32];
    bool ended;
    bool replaced;                 /* by another program in the same process: not said */
    /* What is charged for it: anonymous and shared memory that is resident, without our own records. Pages of files are the page cache's, which the
     * kernel takes back when it needs them. */
    uint64_t resident, resident_peak; /* its share of that at the last look, and the most */
    uint64_t whole;                   /* the same with pages that it shares counted whole */
    uint64_t share, share_of;         /* what `resident` was when shares were looked at, and `whole` then; share_of 0: not looked at */
    plim__peer_kinds kind;            /* at the last look: anon is exact, the others as of when `mapped` changed */
    uint64_t mapped, file_peak;       /* file and shared memory, by statm; the most of files */
    uint64_t records;                 /* our own, mapped in it */
    uint64_t recorded;                /* resident bytes of its recorded blocks at the last look */
    uint64_t kept;                    /* free memory that its allocator keeps, by its own account */
    uint32_t asked;                   /* the last question that was answered */
    char uncovered[96];               /* why none of its requests can be refused; "": they can, or that was not looked at */
    double uncovered_next;            /* when that may be looked at again */
} plim__watched;

/* Names found at the last look, in case there is no other. */
typedef struct plim__named {
    uint32_t process;
    uint32_t n;
    plim__pyname name[PLIM__WATCH_NAMES];
} plim__named;

/* The last request that was refused: what crashes soon after it may not have expected it. */
typedef struct plim__refused_last {
    double seconds; /* when; 0: none was */
    uint64_t bytes;
    uint64_t charge; /* by the budget: what it was charged with; 0: the system refused */
    int pid;
    char line[160];
} plim__refused_last;

typedef struct plim__supervisor {
    const plim_watch_options *how;
    const plim__os *os;
    plim__alloc alloc;
    int memfd;
    plim__rec_header *header;
    uint8_t *region; /* header and all slots */
    uint64_t region_bytes;

    int child; /* the program itself */
    uint64_t own_peak; /* ours when it was forked: the kernel's count for the child begins with it, even over exec */
    plim__watched *process;
    uint32_t n_processes, cap_processes;
    uint32_t processes_in_all;
    plim__timeline timeline;
    plim__symbols *symbols;
    plim__killer killer;
    plim__named named;
    struct plim__where **where; /* by stack: frames and label once they were resolved (moment.c); NULL before */
    uint32_t cap_where;
    plim__peer_kinds kind; /* of all processes, at the last look; anon and shared are what is charged */
    bool pages_hidden;        /* the kernel does not let us look at pages */
    char not_preloadable[96]; /* why the program cannot be recorded; "" when it can */

    uint64_t charge;   /* of the last question */
    uint64_t pending;  /* of that: asked for lately and not resident yet */
    double young_next; /* when young blocks may be looked at closely again */
    /* the last five seconds, every 100 ms */
    uint64_t trend[50];
    uint64_t trends;

    uint64_t resident, resident_peak; /* what is charged for all processes, and the most */
    uint64_t tree_changes;            /* processes that came and went; */
    uint64_t shares_of_tree;          /* the same when shares were looked at */
    double shares_next;               /* when they may be looked at again */
    uint64_t kept_at_peak;            /* free memory that allocators kept, at the look at blocks when most was resident */
    uint64_t kept_peak_resident;      /* what was resident then */
    uint64_t sampled_resident;        /* what was resident when blocks were looked at last */
    double sampled_at, sample_cost;
    double tell_next, live_next, groups_next;
    uint64_t groups_resident; /* what was resident when control groups were looked at last */
    uint64_t refusals, overdrawn;     /* overdrawn: requests let pass because their library would abort */
    uint32_t reports;
    uint64_t reported_line[PLIM__WATCH_REPORTS]; /* hashes of the lines of the reports so far */
    bool over_reported, stopped;
    plim__refused_last refused_last;
    char survivors[200];              /* processes that outlive the program; "": none */
    uint32_t n_survivors;
    double stop_at;                   /* when patience with a program that was told to end is over; 0: it was not */
} plim__supervisor;

/** Seconds since the start. */
double plim__watch_now(const plim__supervisor *s);

/* ---- launch.c ---- */
/** Makes the shared memory and starts the program in it. */
plim_status plim__launch(plim__supervisor *s, plim_error *err);
void plim__launch_end(plim__supervisor *s);

/* ---- tree.c ---- */
/** The process that has this pid now, NULL: not known. */
plim__watched *plim__tree_find(plim__supervisor *s, int pid);
/** @return NULL when there is no room: it is counted only */
plim__watched *plim__tree_add(plim__supervisor *s, int pid, int parent);
/** Processes that have attached themselves since. */
void plim__tree_slots(plim__supervisor *s);
/** Gives slots of ended processes back, where many are taken. */
void plim__tree_reclaim(plim__supervisor *s);
/** Processes that carry no recording library, or none yet, from /proc. */
void plim__tree_look(plim__supervisor *s);
void plim__tree_end(plim__supervisor *s, plim__watched *w);
/** The process has executed another program. @return its new entry; NULL when there is no room */
plim__watched *plim__tree_replaced(plim__supervisor *s, plim__watched *w);
/** What is charged for each process and for all; processes that are gone are ended. Where there are several it is an estimate from the last look at
 *  shares, and shares are looked at again where that matters and has not been done lately. */
void plim__tree_resident(plim__supervisor *s);
/** The same, exactly: whoever refuses, reports or stops because of what is resident asks this first. Costly where there are several processes. */
void plim__tree_resident_exact(plim__supervisor *s);
/** What its allocator keeps, by the last account. */
void plim__tree_heap(plim__watched *w);
uint32_t plim__tree_alive(const plim__supervisor *s);

/* ---- budget.c ---- */
typedef enum plim__budget_says {
    PLIM__BUDGET_FITS,
    PLIM__BUDGET_TRIM,     /* it would, if free memory were given back first */
    PLIM__BUDGET_LET_PASS, /* it does not, but its library would end the program */
    PLIM__BUDGET_BREACH,
} plim__budget_says;
/** The question of `w`. */
plim__budget_says plim__budget_judge(plim__supervisor *s, plim__watched *w);
/** The smallest budget that lets a request of `bytes` pass when the charge, with it, is `charge`. */
uint64_t plim__budget_least(uint64_t charge, uint64_t bytes);
/** The budget to promise where at least `least` is needed: a little more, for no two runs are the same, and a size that is printed as it is. */
uint64_t plim__budget_promise(uint64_t least);
/** Looks at what is resident and publishes what processes may take without asking (see plim__rec_header). */
void plim__budget_publish(plim__supervisor *s);

/* ---- moment.c ---- */
/** The facts of this moment, without what they mean: processes, who holds what, coverage, names. `asking` may be NULL: nobody asks.
 *  @param look  read residency and names now; false: take those of the last look (the process is gone, or only a glance is wanted) */
void plim__moment_fill(plim__supervisor *s, plim_watch_report *r, const plim__watched *asking, bool look);
/** As a row: where a stack is, with its names and numbers. */
void plim__moment_site(plim__supervisor *s, uint32_t stack, plim_watch_site *out);
/** Looks at residency of all recorded blocks, and at names when `names`: both are kept for later moments. @param exact  every page, whatever it
 *  costs */
void plim__moment_look(plim__supervisor *s, bool exact, bool names, uint64_t thread_state, const plim__watched *asking);
/** Copies the live blocks of a process, sorted. The caller frees them. @return how many */
uint32_t plim__moment_blocks(const plim__supervisor *s, const plim__watched *w, plim__block **out);
/** Takes the kernel's high-water mark of a process into account, which counts pages of files, too. */
void plim__moment_high_water(plim__watched *w, uint64_t mark);
/** Free memory that allocators keep and that is resident. */
uint64_t plim__moment_kept(const plim__supervisor *s);
/** "train.py:88 step()" */
void plim__moment_line(plim__supervisor *s, uint32_t stack, char *to, size_t size);

#endif
