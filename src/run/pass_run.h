/* One pass of a run: the loop over tiles, with reading ahead and writing behind. */
#ifndef PLIM_RUN_PASS_RUN_H
#define PLIM_RUN_PASS_RUN_H

#include "plan/plan.h"

/** What a run owns while it goes. */
typedef struct plim__run {
    plim_plan *plan;
    void *arena;
    uint64_t arena_bytes;
    plim__io *io;
    plim__io_file *file;     /* one per plan file, open */
    plim__tempfile **temp;   /* one per plan file; NULL for inputs */
    uint64_t total_bytes;    /* of reading and writing planned, for the progress */
    uint64_t started;        /* clock */
    double next_progress;    /* seconds */
    char what[48];
    plim_error *err;
} plim__run_state;

plim_status plim__pass_run(plim__run_state *run, const plim__pass *p);
/** Calls the user's progress function if it is time. */
plim_status plim__run_progress(plim__run_state *run, bool force);

#endif
