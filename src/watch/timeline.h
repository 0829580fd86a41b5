/* What happened, in order: the events of all watched processes as changes of the live bytes of stacks, and what follows from them: how much is
 * live, the most that ever was, which stacks only grow, and what the peak would have been had something been otherwise (the replay).
 *
 * A stack is one site of one process. History is bounded: when it is full its older half is made coarser, window by window; in a coarse window each
 * stack still goes up to the most that it had there before it goes down, so a replay over coarse history may say too much, never too little. */
#ifndef PLIM_WATCH_TIMELINE_H
#define PLIM_WATCH_TIMELINE_H

#include "core/alloc.h"
#include "watch/record.h"

typedef struct plim__stack {
    uint32_t process, site;
    uint64_t live, blocks; /* now */
    uint64_t got, freed;   /* how often */
    uint64_t largest;      /* of its blocks, ever */
    uint64_t live_at_peak; /* when most was live in all */
    uint32_t first_ms, last_ms; /* of its requests */
    double resident;       /* share of its live bytes that is in memory, at the last look; 1 before the first */
} plim__stack;

typedef struct plim__change {
    uint32_t stack, ms;
    int64_t bytes; /* of one block; of a coarse window: of several */
} plim__change;

typedef struct plim__timeline {
    plim__alloc alloc;
    plim__stack *stack;
    uint32_t n_stacks, cap_stacks;
    plim__change *change;
    uint32_t n_changes, cap_changes;
    uint32_t changes_max;
    uint64_t live, live_peak;
    uint64_t live_copied;         /* what was live when live_at_peak was written last */
    uint32_t peak_stack, peak_ms; /* the request that made it so */
    uint64_t lost;                /* events that came faster than they were read */
    bool coarse;
} plim__timeline;

/** @param changes_max  how long the history may be */
void plim__timeline_init(plim__timeline *t, const plim__alloc *alloc, uint32_t changes_max);
void plim__timeline_free(plim__timeline *t);

/** The events of one process, from where they were read last. */
typedef struct plim__reader {
    uint32_t process; /* the number that its stacks get */
    uint64_t next;    /* the event to read next */
    uint32_t ms;      /* of the last one */
    bool missed;      /* some were overwritten before they were read */
    uint32_t *stack;  /* by site: index in plim__timeline.stack plus one; 0: none yet. PLIM__REC_SITES long */
} plim__reader;

plim_status plim__reader_init(plim__reader *r, uint32_t process, const plim__alloc *alloc, plim_error *err);
void plim__reader_free(plim__reader *r, const plim__alloc *alloc);

/** Reads what is new. Where events were overwritten before they were read, the live bytes are taken from the sites' counters instead. */
plim_status plim__timeline_drain(plim__timeline *t, plim__reader *r, const plim__rec_process *from, plim_error *err);
/** A process is gone, and its blocks with it. */
plim_status plim__timeline_end(plim__timeline *t, plim__reader *r, uint32_t ms, plim_error *err);
/** The stack for a site, made when there is none yet; UINT32_MAX when there is no memory for it. */
uint32_t plim__timeline_stack(plim__timeline *t, plim__reader *r, uint32_t site);

/* ---- what only grows ---- */

typedef struct plim__growth {
    bool steady;       /* at least 16 blocks, hardly any freed, and more in each third of its time */
    double per_second; /* bytes, over the last five seconds or since it began */
} plim__growth;

/** One for each stack. */
void plim__timeline_growth(const plim__timeline *t, uint32_t now_ms, plim__growth *out);

/* ---- what would have been ---- */

/** How a stack would have been otherwise. */
typedef struct plim__what_if {
    double scale;   /* its blocks would have been so much larger or smaller; 1: as they were */
    bool keep_last; /* each block would have been freed when the next one came */
} plim__what_if;

/** The most bytes that would have been in memory at once, of recorded blocks: live bytes of each stack, times its resident share, changed
 *  as `what` says.
 *  @param what   one for each stack; NULL: as it was
 *  @param last   changes that would have come after the history: a request that was refused; counted whole, unscaled */
uint64_t plim__replay_peak(const plim__timeline *t, const plim__what_if *what, const int64_t *last, uint32_t n_last);

#endif
