/* One pass of a run: the loop over tiles, with reading ahead and writing behind. */
#ifndef PLIM_RUN_PASS_RUN_H
#define PLIM_RUN_PASS_RUN_H

#include "plan/plan.h"

typedef struct plim__pass_run plim__pass_run;

/** What a run owns while it goes. */
typedef struct plim__run {
    plim_plan *plan;
    void *arena;
    uint64_t arena_bytes;
    bool borrowed;           /* the arena is the caller's */
    plim__io *io;
    plim__io_file *file;     /* one per plan file, open */
    plim__tempfile **temp;   /* one per plan file; NULL but for outputs */
    plim__tempfile *own;     /* of states and what is spilled; NULL where there are none */
    plim__pass_run **pass;   /* one per pass */
    uint64_t total_bytes;    /* of reading and writing planned, for the progress */
    uint64_t started;        /* clock */
    uint64_t peak_before;    /* VmHWM when it was opened; 0: it could not be read */
    double next_progress;    /* seconds */
    char what[48];
    bool watch;              /* look for numbers that are not finite in what every stage makes: slow */
    uint32_t bad_node;       /* the first that made one, or PLIM__NONE */
    plim_error *err;         /* of the call that is under way */
} plim__run_state;

/** Everything that the pass needs while it runs, so that running it allocates nothing. *out is to be freed also when this fails. */
plim_status plim__pass_run_new(plim__pass_run **out, plim__run_state *run, const plim__pass *p);
void plim__pass_run_free(plim__pass_run **r);
plim_status plim__pass_run_go(plim__pass_run *r);
/** The same in parts, once. Runs up to the next part of a node that the caller computes (PLIM__OP_CALLER). @param part  which, and its operands; valid until the next call
 *  @param stopped  false: the pass is done, or has failed */
plim_status plim__pass_run_next(plim__pass_run *r, plim__call *part, bool *stopped);
/** Calls the user's progress function if it is time. */
plim_status plim__run_progress(plim__run_state *run, bool force);

#endif
