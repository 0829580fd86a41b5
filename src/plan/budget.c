/* The budget: budget.h has its parts. Constants are what was measured; tests/lib/budget.sh compares the sums with what the kernel counts, in a control
 * group of exactly the budget. Sizes come from plans and from the system: far below 2^63, as asserted. One thread. */
#include "plan/budget.h"
#include "core/size.h"
#include "plan/plan.h"
#include "plan/transfers.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define BASELINE_CODE (9u << 19)      /* code and constants of the command that are resident before a run: 3.8 to 4.2 MiB were seen */
#define BASELINE_LIBRARIES 0.75       /* of the code of libraries beside that is resident at the most: libhdf5 and what it needs, 0.72 were seen */
#define MOST_LIBRARIES (16u << 20)    /* a process with more is another program, of which what is resident is known better */
#define BASELINE_DATA (1u << 19)      /* its static data and stacks: 0.4 MiB were seen */
#define BASELINE_STEP (1u << 20)      /* in which the baseline of a larger process grows */
#define EXTRAS_FIXED (2u << 19)       /* code of kernels that the run touches first, the C library's buffers */
#define EXTRAS_MODEL (5u << 17)       /* the same for models: more kernels, and buffers through which parameters are loaded */
#define EXTRAS_PER_THREAD (48u << 10) /* of a thread's stack, and what the C library keeps for it */
#define ENGINE_THREADS 4              /* of the transfer engine, at most */
#define RESERVE_FIXED (1u << 20)      /* of the kernel's: 0.2 MiB were seen, and what a busy disk has not yet given back */
#define RESERVE_PER_THREAD (32u << 10) /* a thread's stack in the kernel and its tables: 26 KiB were seen */
#define RESERVE_PART 256              /* of what is mapped: page tables and the like */
#define FLOOR_SLACK (128u << 10)      /* the heap differs a little from one command to another; a larger process may be a step larger the next time */
#define PLANNING_SLACK (512u << 10)   /* so does what was resident while it was planned, from one start of the process to the next */
#define SHARED_HEAP (256u << 10)      /* what two programs leave in the heap between them */
#define SHARED_PER_THREAD (64u << 10) /* of the second engine's threads, while the second program runs */
#define ABSURD (UINT64_C(1) << 62)    /* sums of sizes stay below */

static uint64_t larger(uint64_t a, uint64_t b) { return a > b ? a : b; }

static uint64_t reserve_of(uint64_t mapped) { return mapped / RESERVE_PART; }

/* ------------------------------------------------------------------------------------------------- the process */

static void nothing(void *arg, uint64_t i, uint32_t worker)
{
    (void)arg, (void)i, (void)worker;
}

plim_status plim__budget_start(plim__budget *b, const plim__os *os, plim_error *err)
{
    uint64_t now;
    *b = (plim__budget){.os = os};
    return plim__resident_read(&now, &b->peak_before, os, err);
}

/* Of code that the command does not always have. */
static uint64_t library_bytes(const plim__os *os)
{
    const uint64_t code = plim__code_mapped(os), beside = code > BASELINE_CODE ? code - BASELINE_CODE : 0;
    return beside <= MOST_LIBRARIES ? plim__round_up((uint64_t)((double)beside * BASELINE_LIBRARIES), 64u << 10) : 0;
}

/* What is resident differs from one start of the process to the next, by pages of code that happen to be there, and a plan that depended on it would, too: the
 * same command would add up in another order. So the baseline is what a process with this heap and this code has at the most, and steps of a megabyte
 * where it has more. */
static void set_baseline(plim__budget *b, uint64_t resident)
{
    const uint64_t heap = plim__round_up(plim__heap_in_use(), 64u << 10);
    const uint64_t usual = BASELINE_CODE + library_bytes(b->os) + BASELINE_DATA + heap + heap / 16;
    PLIM_ASSERT(heap < ABSURD && resident < ABSURD);
    b->floor_slack = FLOOR_SLACK + (resident <= usual ? 0 : BASELINE_STEP);
    b->baseline = resident <= usual ? usual : plim__round_up(resident, BASELINE_STEP);
    PLIM_ASSERT(b->baseline >= resident);
}

plim_status plim__budget_measure(plim__budget *b, const plim_settings *set, uint32_t threads, bool model, plim_error *err)
{
    uint64_t resident, peak;
    PLIM_ASSERT(b->os && threads > 0);
    plim__parallel(threads, threads, nothing, NULL);
    PLIM_TRY(plim__resident_read(&resident, &peak, b->os, err));
    set_baseline(b, resident);
    if (set->baseline) b->baseline = set->baseline;
    b->reserve = RESERVE_FIXED + ((uint64_t)threads + ENGINE_THREADS) * RESERVE_PER_THREAD;
    b->extras = EXTRAS_FIXED + (model ? EXTRAS_MODEL : 0) + ((uint64_t)threads + ENGINE_THREADS) * EXTRAS_PER_THREAD;
    b->bytes = set->memory;
    if (set->memory) return PLIM_OK;
    plim_limits limits;
    PLIM_TRY(plim__limits_read(&limits, b->os, err));
    PLIM_FAIL_IF(!plim__add(&b->bytes, limits.budget, b->baseline), err, PLIM_E_OVERFLOW, "the limits leave more than 2^64 bytes");
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------- files in memory */

/* Does the folder lie on a file system that lives in memory? One that cannot be opened is the run's to complain of. */
static bool is_in_memory(const plim__os *os, const char *dir)
{
    plim__stat st = {0};
    const int fd = os->open(os->self, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    const bool in_memory = os->stat(os->self, fd, &st) == 0 && st.memory;
    os->close(os->self, fd);
    return in_memory;
}

/* Notes which files lie on a file system that lives in memory. @return the bytes of those that are outputs */
static uint64_t find_in_memory(plim_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_files; i++) {
        plim__file *f = &plan->file[i];
        if (plim__file_is_ours(f->kind) || !f->path[0]) continue; /* in the file of our own, or bound to no file yet */
        char dir[1024];
        snprintf(dir, sizeof dir, "%s", f->path);
        char *slash = strrchr(dir, '/');
        if (slash) slash[slash == dir] = 0;
        else snprintf(dir, sizeof dir, ".");
        f->in_memory = is_in_memory(plan->os, dir);
        if (f->in_memory && f->kind == PLIM__FILE_OUTPUT) bytes += f->bytes;
    }
    PLIM_ASSERT(bytes < ABSURD);
    return bytes;
}

/* Bytes of the file of our own, where it takes memory and something lies in it. */
static uint64_t own_in_memory(const plim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_files && plan->own_is_memory; i++)
        if (plim__file_is_ours(plan->file[i].kind) && !plan->held[plan->file[i].value]) return plan->own_bytes;
    return 0;
}

/* ---------------------------------------------------------------------------------------------------------- tables */

plim__stage_size plim__pass_largest_stage(const plim_plan *plan, const plim__pass *p)
{
    plim__stage_size most = {.operands = PLIM__MAX_OUT};
    for (uint32_t i = 0; i < p->n_stages; i++) {
        const plim__stage *s = &p->stage[i];
        uint64_t values = 0, axes = 0;
        PLIM_ASSERT(s->count > 0 && s->first + s->count <= p->n_nodes);
        for (uint32_t k = s->first; k < s->first + s->count; k++) {
            const plim__node *n = &plan->graph->node[p->node[k].node];
            PLIM_ASSERT(p->node[k].axis0 == p->node[s->first].axis0 + axes); /* the axes of a stage lie together */
            values += n->n_in + n->n_out; /* some of them twice */
            axes += p->node[k].axes.n;
            most.operands = larger(most.operands, n->n_in);
        }
        most.axes = larger(most.axes, axes);
        most.values = larger(most.values, values < p->n_values ? values : p->n_values);
    }
    return most;
}

static uint64_t range_bytes(uint64_t axes, uint64_t values) { return axes * sizeof(plim__range) + values * sizeof(plim__region); }

/* What each thread has for the stage that it runs: ranges, and views of a node's operands. */
static uint64_t thread_bytes(const plim_plan *plan, const plim__stage_size *s)
{
    return plan->threads * (range_bytes(s->axes, s->values) + s->operands * sizeof(plim__view) + 64);
}

/* Where each value is in the current tile and in the next, and in the tables of the stage that runs. */
static uint64_t value_bytes(uint64_t axes, uint64_t values, uint64_t stage_values)
{
    return 2 * range_bytes(axes, values) + values * (sizeof(plim__view) + sizeof(void *) + 2 * sizeof(uint32_t)) + stage_values * sizeof(uint32_t);
}

static uint64_t box_bytes(uint64_t boxes) { return boxes * (sizeof(plim__io_ticket) + 4 + sizeof(plim__region)); }

uint64_t plim__pass_runner_bytes(const plim_plan *plan, const plim__pass *p)
{
    const plim__stage_size stage = plim__pass_largest_stage(plan, p);
    uint64_t boxes = 0;
    for (uint32_t v = 0; v < p->n_values; v++)
        if (p->value[v].file != PLIM__NONE && p->value[v].slot != PLIM__NONE) boxes += plan->slot[p->value[v].slot].copies;
    return value_bytes(p->n_axes, p->n_values, stage.values) + box_bytes(boxes) + plim__transfers_bytes(p) + thread_bytes(plan, &stage);
}

/* Of the plan's own tables. */
static uint64_t planner_bytes(uint64_t nodes, uint64_t values, uint64_t operands)
{
    return nodes * (sizeof(plim__pnode) + sizeof(plim__stage) + 3 * sizeof(plim__step)) +
           values * (sizeof(plim__pvalue) + sizeof(plim__slot) + 3 * sizeof(plim__step)) + operands * sizeof(uint32_t);
}

static uint64_t tables_of(const plim_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_passes; i++) {
        const plim__pass *p = &plan->pass[i];
        bytes += planner_bytes(p->n_nodes, p->n_values, p->n_operands) + plim__pass_runner_bytes(plan, p);
    }
    PLIM_ASSERT(bytes < ABSURD);
    return bytes;
}

/* Of the program run uncut. One that is searched once is told before how large an arena may be: it counts as one stage. */
static uint64_t guess_tables(const plim_plan *plan)
{
    const plim_graph *g = plan->graph;
    plim__stage_size all = {.values = g->n_values, .operands = PLIM__MAX_OUT};
    uint64_t operands = 0;
    PLIM_ASSERT(plan->n_passes == 0);
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        operands += g->node[i].n_in;
        all.axes += plan->nest.axes[i].n;
        all.operands = larger(all.operands, g->node[i].n_in);
    }
    return planner_bytes(g->n_nodes, g->n_values, operands) + value_bytes(all.axes, all.values, all.values) + box_bytes(all.values) +
           2 * all.values * sizeof(plim__transfer) + (plan->thorough ? 0 : thread_bytes(plan, &all));
}

void plim__budget_look_at_program(plim_plan *plan)
{
    plan->budget.outputs = find_in_memory(plan);
    plan->own_is_memory = plan->set.spill_dir && is_in_memory(plan->os, plan->set.spill_dir);
    plan->budget.tables = guess_tables(plan);
}

/* ------------------------------------------------------------------------------------------------------------ sums */

uint64_t plim__plan_need(const plim_plan *plan)
{
    const uint64_t tables = tables_of(plan), guessed = plan->budget.tables;
    return plan->arena_bytes + own_in_memory(plan) + (tables > guessed ? plim__round_up(tables - guessed, PLIM__IO_ALIGN) : 0);
}

uint64_t plim__budget_for(const plim__budget *b, uint64_t need)
{
    PLIM_ASSERT(need < ABSURD && b->baseline < ABSURD);
    return b->baseline + b->extras + b->tables + b->beside + need + b->reserve + reserve_of(need) + b->outputs + b->beside_reserve;
}

uint64_t plim__budget_room(const plim__budget *b, uint64_t budget)
{
    const uint64_t rest = plim__budget_for(b, 0);
    if (budget <= rest) return 0;
    const uint64_t room = plim__round_down((budget - rest) / (RESERVE_PART + 1) * RESERVE_PART, PLIM__IO_ALIGN);
    PLIM_ASSERT(room >= ABSURD || plim__budget_for(b, room) <= budget);
    return room;
}

bool plim__resident_is_known(void) { return !PLIM_SANITIZED; }

/* The most bytes that were resident since plim__budget_start; 0: there were more before. */
static uint64_t planning_peak(const plim__budget *b)
{
    uint64_t now, peak;
    if (!plim__resident_is_known()) return 0;
    return plim__resident_read(&now, &peak, b->os, NULL) == PLIM_OK && peak > b->peak_before ? peak : 0;
}

uint64_t plim__budget_planning(const plim__budget *b)
{
    const uint64_t peak = planning_peak(b);
    return peak ? peak + b->reserve : 0;
}

uint64_t plim__budget_floor(const plim__budget *b, uint64_t budget)
{
    const uint64_t floor = larger(plim__budget_planning(b) + PLANNING_SLACK, budget + b->floor_slack);
    PLIM_ASSERT(floor < ABSURD);
    return plim__round_up(floor, PLIM__IO_ALIGN);
}

/* ----------------------------------------------------------------------------------------------------------- facts */

/* Peak and reserve from what the run has, and from what planning has had. */
static void set_peak(plim_facts *f, const plim__budget *b, uint64_t running, uint64_t reserve)
{
    const uint64_t planning = planning_peak(b);
    const uint64_t all = larger(running + reserve, planning ? planning + b->reserve : 0);
    f->planned_peak_bytes = larger(running, planning);
    f->reserve_bytes = all - f->planned_peak_bytes;
    f->fits = all <= f->budget_bytes;
    PLIM_ASSERT(f->reserve_bytes >= b->reserve);
}

void plim__budget_state(plim_plan *plan)
{
    const plim__budget *b = &plan->budget;
    plim_facts *f = &plan->facts;
    f->budget_bytes = b->bytes;
    f->baseline_bytes = b->baseline;
    f->extras_bytes = b->extras + tables_of(plan) + b->beside;
    f->arena_bytes = plan->arena_bytes;
    const uint64_t reserve = b->reserve + reserve_of(plan->arena_bytes) + b->outputs + own_in_memory(plan) + b->beside_reserve;
    const uint64_t running = f->baseline_bytes + f->extras_bytes + f->arena_bytes;
    PLIM_ASSERT(running + reserve <= plim__budget_for(b, plim__plan_need(plan))); /* what is counted now was counted when the plan was chosen */
    set_peak(f, b, running, reserve);
}

void plim__budget_share(plim_plan *first, plim_plan *second, uint64_t at)
{
    const uint64_t both = SHARED_HEAP + (uint64_t)second->io.threads * SHARED_PER_THREAD;
    PLIM_ASSERT(first->n_passes > 0 && at <= first->arena_bytes);
    first->budget.beside = both + (second->n_passes ? tables_of(second) : second->budget.tables);
    first->budget.beside_reserve = 0; /* the second's file of our own is gone while the first runs */
    second->budget.beside = both + tables_of(first) + at;
    second->budget.beside_reserve = reserve_of(at) + own_in_memory(first);
}

uint64_t plim__budget_state_both(plim_plan *first, const plim_plan *second, uint64_t at)
{
    plim_facts *f = &first->facts;
    const plim_facts *s = &second->facts;
    const uint64_t behind = at + second->arena_bytes;
    PLIM_ASSERT(f->baseline_bytes == s->baseline_bytes && f->budget_bytes == s->budget_bytes);
    const uint64_t all = larger(f->planned_peak_bytes + f->reserve_bytes, s->planned_peak_bytes + s->reserve_bytes);
    f->planned_peak_bytes = larger(f->planned_peak_bytes, s->planned_peak_bytes);
    f->reserve_bytes = all - f->planned_peak_bytes;
    f->arena_bytes = larger(f->arena_bytes, behind);
    f->fits = all <= f->budget_bytes;
    return f->arena_bytes;
}
