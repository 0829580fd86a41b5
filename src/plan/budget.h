/* What of a process counts toward its budget, and what is left for an arena. All of this arithmetic is in budget.c.
 *
 *     budget  =  baseline   what the process has before the arena: by its heap, or measured where that is more
 *              + extras     what a run touches that is not planned: stacks of its threads, code (constants), and the tables of the plan and of its runner
 *              + arena      every tensor byte, every buffer
 *              + reserve    charged to the same control group, but not resident in the process: page tables, requests in flight, and files on file
 *                           systems that live in memory (outputs, and the file of our own)
 *
 * The planned peak is the first three: VmHWM will show no more. Planning itself has a peak as well; the larger one counts. A plan that fits has
 * planned peak + reserve <= budget. */
#ifndef PLIM_PLAN_BUDGET_H
#define PLIM_PLAN_BUDGET_H

#include "os/os.h"

struct plim__pass;

typedef struct plim__budget {
    const plim__os *os;
    uint64_t bytes;       /* the budget: as given, or what the machine can give */
    uint64_t baseline;
    uint64_t extras;      /* without tables */
    uint64_t reserve;     /* of the kernel's, without what goes by the arena */
    uint64_t tables;      /* as guessed before there is a plan: what a plan has more is part of its need */
    uint64_t beside;      /* resident bytes that something else in the process needs */
    uint64_t beside_reserve; /* the same, of the reserve */
    uint64_t outputs;     /* bytes of outputs on a file system that lives in memory */
    uint64_t floor_slack; /* what the printed floor has on top: the next process may be a little larger */
    uint64_t peak_before; /* the most bytes that were resident before anything was planned */
} plim__budget;

/** Notes what is resident now: before planning takes memory. */
plim_status plim__budget_start(plim__budget *b, const plim__os *os, plim_error *err);
/** Baseline, extras and the budget itself. Starts the threads that a run would start, so that their memory is in the baseline.
 *  @param model  more kernels are run, and parameters are loaded */
plim_status plim__budget_measure(plim__budget *b, const plim_settings *set, uint32_t threads, bool model, plim_error *err);
/** Finds out which of the plan's files lie on a file system that lives in memory, and guesses its tables. Once, before there are passes. */
void plim__budget_look_at_program(plim_plan *plan);

/** The budget for a plan with this need (plim__plan_need). */
uint64_t plim__budget_for(const plim__budget *b, uint64_t need);
/** The largest need inside `budget` bytes. */
uint64_t plim__budget_room(const plim__budget *b, uint64_t budget);
/** The budget that planning itself has needed up to now; 0: the process had had more memory before. */
uint64_t plim__budget_planning(const plim__budget *b);
/** The floor that is printed for programs whose smallest plans need `budget`: planning has to fit, too, and another command may have a slightly larger heap. */
uint64_t plim__budget_floor(const plim__budget *b, uint64_t budget);
/** Does anything follow from what is resident? Not where any part of the program is sanitized: what was freed is kept there. */
bool plim__resident_is_known(void);

/** Bytes that the plan needs: its arena, its tables where they are larger than was guessed, the file of our own where that takes memory. */
uint64_t plim__plan_need(const plim_plan *plan);
/** The most that a stage of the pass has: the sizes of each thread's tables. */
typedef struct plim__stage_size {
    uint64_t axes, values; /* of all its nodes */
    uint64_t operands;     /* of one of them; at least PLIM__MAX_OUT */
} plim__stage_size;

plim__stage_size plim__pass_largest_stage(const plim_plan *plan, const struct plim__pass *p);
/** Bytes of tables that the runner allocates for the pass. */
uint64_t plim__pass_runner_bytes(const plim_plan *plan, const struct plim__pass *p);

/** Two programs that take turns in one arena: `second` lies behind the first `at` bytes of it, which `first` keeps. Sets what each leaves the other. */
void plim__budget_share(plim_plan *first, plim_plan *second, uint64_t at);
/** The plan's facts: extras, arena, planned peak, reserve, and whether they are inside its budget. */
void plim__budget_state(plim_plan *plan);
/** The same for both of plim__budget_share together, as facts of the first. @return bytes of the common arena */
uint64_t plim__budget_state_both(plim_plan *first, const plim_plan *second, uint64_t at);

#endif
