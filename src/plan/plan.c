/* A plan from a graph and a budget.
 *
 *     budget  =  baseline            what the process has before the arena: by its heap, or measured where that is more
 *              + extras              what the run will touch that is not planned: stacks of its threads, code (constants, see below), and the tables
 *                                    of the plan itself, which for large models are not small
 *              + arena               every tensor byte, every buffer
 *              + reserve             the kernel's own, charged to the same cgroup: page tables, requests in flight
 *
 * The planned peak is the first three: it is what VmHWM will show. */
#include "plan/plan.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "ops/ops.h"
#include "plan/build.h"
#include "plan/portfolio.h"
#include "plan/search.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#define BASELINE_CODE (9u << 19)      /* code and constants of the command that are resident before a run: 3.8 to 4.2 MiB were seen */
#define BASELINE_DATA (1u << 19)      /* its static data and stacks: 0.4 MiB were seen */
#define EXTRAS_FIXED (2u << 19)       /* code of kernels that the run touches first, the C library's buffers */
#define EXTRAS_MODEL (5u << 19)       /* the same for models: more kernels, and buffers through which parameters are loaded */
#define EXTRAS_PER_THREAD (48u << 10) /* of a thread's stack, and what the C library keeps for it */
#define RESERVE_FIXED (2u << 20)
#define BASELINE_STEP (1u << 20)      /* in which the baseline of a larger process grows */
#define FLOOR_SLACK (128u << 10)      /* the heap differs a little from one command to another; a larger process may be a step larger the next time */
#define PLANNING_SLACK (512u << 10)   /* so does what was resident while it was planned, from one start of the process to the next */

void plim__plan_io(plim_plan *plan, int level)
{
    static const plim__io_config config[] = {
        {.threads = 4, .bounce_bytes = 1u << 20, .edge_blocks = 1024, .piece_bytes = 2u << 20},
        {.threads = 4, .bounce_bytes = 128u << 10, .edge_blocks = 256, .piece_bytes = 1u << 20},
        {.threads = 2, .bounce_bytes = 16u << 10, .edge_blocks = 16, .piece_bytes = 256u << 10},
    };
    plan->io = config[level];
    plan->io_bytes = plan->n_files ? plim__round_up(plim__io_bytes(&plan->io), PLIM__IO_ALIGN) : 0;
}

/* ------------------------------------------------------------------------------------------------- files */

static plim_status add_file(plim_plan *plan, const plim__file *f, plim_error *err)
{
    PLIM_TRY(plim__grow(&plan->alloc, (void **)&plan->file, &plan->cap_files, plan->n_files + 1, sizeof *plan->file, err));
    plan->file[plan->n_files++] = *f;
    return PLIM_OK;
}

/* The folder of the file of our own. */
static const char *own_folder(const plim_plan *plan) { return plan->set.spill_dir ? plan->set.spill_dir : "."; }

/* An input that is kept in the file of our own. */
static void own_file(plim_plan *plan, uint32_t i)
{
    plim__file *f = &plan->file[i];
    f->kind = PLIM__FILE_STATE;
    f->path = own_folder(plan);
    f->bytes = plan->graph->value[f->value].bytes;
    plim__file_take_room(plan, f);
}

static plim_status add_inputs(plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].kind != PLIM__VALUE_FILE) continue;
        const plim__source *s = &g->source[g->value[v].source];
        plim__file f = {.kind = PLIM__FILE_INPUT, .value = v, .path = s->path, .bytes = s->file_bytes};
        plim__file_describe(&f.io, g, v, s->offset);
        memcpy(f.io.stride, s->stride, sizeof f.io.stride);
        f.io.swap = s->swap;
        f.io.rows = s->rows;
        f.io.path = s->path;
        PLIM_TRY(add_file(plan, &f, err));
        if (s->stay == PLIM__STAY_MAY && (s->made || !s->path[0])) own_file(plan, plan->n_files - 1); /* nobody has it: whoever runs the program makes it */
    }
    return PLIM_OK;
}

static plim_status add_outputs(plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        if (!g->output[i].path) continue;
        const uint32_t v = g->output[i].value;
        plim__file f = {.kind = PLIM__FILE_OUTPUT, .value = v, .path = g->output[i].path, .bytes = PLIM__NPY_HEADER + g->value[v].bytes};
        plim__file_describe(&f.io, g, v, PLIM__NPY_HEADER);
        f.io.path = g->output[i].path;
        f.io.writable = true;
        plan->write_file[v] = plan->n_files;
        PLIM_TRY(add_file(plan, &f, err));
    }
    return PLIM_OK;
}

/* A state is read from and written to one file. */
static plim_status add_states(plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < g->n_states; i++) {
        const plim__state *s = &g->state[i];
        PLIM_FAIL_IF(plan->write_file[s->out] != PLIM__NONE || g->value[s->out].kind != PLIM__VALUE_NODE, err, PLIM_E_INVALID,
                     "what takes the place of '%s' must be computed, and goes nowhere else", g->value[s->in].name);
        for (uint32_t k = 0; k < plan->n_files; k++) {
            if (plan->file[k].value != s->in) continue;
            own_file(plan, k);
            plan->state_file[i] = k;
        }
        plan->replaces[s->out] = i;
    }
    return PLIM_OK;
}

/* Does the folder lie on a file system that lives in memory? One that cannot be opened is the run's to complain of. */
static bool is_in_memory(const plim_plan *plan, const char *dir)
{
    plim__stat st = {0};
    const int fd = plan->os->open(plan->os->self, dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return false;
    const bool in_memory = plan->os->stat(plan->os->self, fd, &st) == 0 && st.memory;
    plan->os->close(plan->os->self, fd);
    return in_memory;
}

/* Notes which files lie on a file system that lives in memory. @return the bytes of those that are outputs */
static uint64_t find_in_memory(plim_plan *plan)
{
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < plan->n_files; i++) {
        plim__file *f = &plan->file[i];
        if (plim__file_is_ours(f->kind) || !f->path[0]) continue; /* not written, or bound to no file yet */
        char dir[1024];
        snprintf(dir, sizeof dir, "%s", f->path);
        char *slash = strrchr(dir, '/');
        if (slash) slash[slash == dir] = 0;
        else snprintf(dir, sizeof dir, ".");
        f->in_memory = is_in_memory(plan, dir);
        if (f->in_memory && f->kind == PLIM__FILE_OUTPUT) bytes += f->bytes;
    }
    return bytes;
}

/* Bytes of the file of our own, where it takes memory and something lies in it. */
static uint64_t own_in_memory(const plim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_files && plan->own_is_memory; i++)
        if (plim__file_is_ours(plan->file[i].kind) && !plan->held[plan->file[i].value]) return plan->own_bytes;
    return 0;
}

/* ------------------------------------------------------------------------------------------------- budget */

static void nothing(void *arg, uint64_t i, uint32_t worker)
{
    (void)arg, (void)i, (void)worker;
}

/* Bytes of a pass's tables, the runner's included. */
static uint64_t table_bytes(const plim_plan *plan, uint64_t nodes, uint64_t values, uint64_t operands, uint64_t axes)
{
    const uint64_t ranges = axes * sizeof(plim__range) + values * sizeof(plim__region);
    return nodes * (sizeof(plim__pnode) + sizeof(plim__stage) + 3 * sizeof(plim__step)) + values * (sizeof(plim__pvalue) + 3 * sizeof(plim__step)) +
           values * (sizeof(plim__slot) + sizeof(plim__view) + sizeof(plim__region) + 4 * sizeof(void *)) + operands * sizeof(uint32_t) + (2 + (uint64_t)plan->threads) * ranges;
}

/* Of the plan that is there; of the program run uncut, before there is one. */
uint64_t plim__plan_tables(const plim_plan *plan)
{
    const plim_graph *g = plan->graph;
    uint64_t bytes = 0, operands = 0, axes = 0;
    for (uint32_t i = 0; i < plan->n_passes; i++)
        bytes += table_bytes(plan, plan->pass[i].n_nodes, plan->pass[i].n_values, plan->pass[i].n_operands, plan->pass[i].n_axes);
    if (plan->n_passes > 0) return bytes;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        operands += g->node[i].n_in;
        axes += plan->nest.axes[i].n;
    }
    return table_bytes(plan, g->n_nodes, g->n_values, operands, axes);
}

static void set_extras(plim_plan *plan)
{
    plan->facts.extras_bytes = EXTRAS_FIXED + (plan->thorough ? EXTRAS_MODEL : 0) + (plan->threads + 4) * EXTRAS_PER_THREAD + plim__plan_tables(plan);
}

/* What is resident differs from one start of the process to the next, by pages of code that happen to be there, and a plan that depended on it would, too: the
 * same command would add up in another order. So the baseline is what a process with this heap has at the most, and steps of a megabyte where it has more. */
static uint64_t steady_baseline(plim_plan *plan, uint64_t resident)
{
    const uint64_t heap = plim__round_up(plim__heap_in_use(), 64u << 10);
    const uint64_t usual = BASELINE_CODE + BASELINE_DATA + heap + heap / 16;
    plan->floor_slack = FLOOR_SLACK + (resident <= usual ? 0 : BASELINE_STEP);
    return resident <= usual ? usual : plim__round_up(resident, BASELINE_STEP);
}

/* Starts what a run would start, so that its memory is in the baseline and not a surprise. */
static plim_status measure_baseline(plim_plan *plan, plim_error *err)
{
    plim__parallel(plan->threads, plan->threads, nothing, NULL);
    uint64_t peak;
    PLIM_TRY(plim__resident_read(&plan->facts.baseline_bytes, &peak, plan->os, err));
    plan->facts.baseline_bytes = steady_baseline(plan, plan->facts.baseline_bytes);
    if (plan->set.baseline) plan->facts.baseline_bytes = plan->set.baseline;
    set_extras(plan);
    return PLIM_OK;
}

static plim_status find_budget(plim_plan *plan, plim_error *err)
{
    plan->facts.budget_bytes = plan->set.memory;
    if (plan->set.memory) return PLIM_OK;
    plim_limits limits;
    PLIM_TRY(plim__limits_read(&limits, plan->os, err));
    plan->facts.budget_bytes = limits.budget + plan->facts.baseline_bytes;
    return PLIM_OK;
}

uint64_t plim__plan_budget(const plim_plan *plan, uint64_t need)
{
    return plan->facts.baseline_bytes + plan->facts.extras_bytes + plan->beside + need + RESERVE_FIXED + need / 256 + plan->tmpfs;
}

uint64_t plim__plan_room(const plim_plan *plan, uint64_t budget)
{
    const uint64_t rest = plim__plan_budget(plan, 0);
    return budget <= rest ? 0 : plim__round_down((budget - rest) / 257 * 256, PLIM__IO_ALIGN);
}

bool plim__resident_is_known(void) { return !PLIM_SANITIZED; }

/* The most bytes that were resident while it was planned; 0: there were more before. */
static uint64_t planning_peak(const plim_plan *plan)
{
    uint64_t now, peak;
    if (!plim__resident_is_known()) return 0;
    return plim__resident_read(&now, &peak, plan->os, NULL) == PLIM_OK && peak > plan->peak_before ? peak : 0;
}

uint64_t plim__plan_planning_budget(const plim_plan *plan)
{
    const uint64_t peak = planning_peak(plan);
    return peak ? peak + RESERVE_FIXED : 0;
}

uint64_t plim__plan_printed_floor(const plim_plan *plan, uint64_t budget)
{
    const uint64_t planning = plim__plan_planning_budget(plan) + PLANNING_SLACK;
    return plim__round_up(planning > budget + plan->floor_slack ? planning : budget + plan->floor_slack, PLIM__IO_ALIGN);
}

uint64_t plim__plan_need(const plim_plan *plan)
{
    const uint64_t tables = plim__plan_tables(plan);
    return plan->arena_bytes + own_in_memory(plan) + (tables > plan->uncut_tables ? plim__round_up(tables - plan->uncut_tables, PLIM__IO_ALIGN) : 0);
}

static plim_status refuse(plim_plan *plan, plim_error *err)
{
    char need[32], have[32];
    plim_bytes_format(need, sizeof need, plan->facts.floor_bytes);
    plim_bytes_format(have, sizeof have, plan->facts.budget_bytes);
    if (err) {
        err->need = plan->facts.floor_bytes;
        err->have = plan->facts.budget_bytes;
    }
    return plim__fail(err, PLIM_E_BUDGET, "does not fit: the smallest budget that works is %s, the budget is %s", need, have);
}

static plim_status begin(plim_plan *plan, plim_error *err)
{
    PLIM_TRY(add_inputs(plan, err));
    PLIM_TRY(add_outputs(plan, err));
    PLIM_TRY(add_states(plan, err));
    PLIM_TRY(measure_baseline(plan, err));
    PLIM_TRY(find_budget(plan, err));
    plan->tmpfs = find_in_memory(plan);
    plan->own_is_memory = is_in_memory(plan, own_folder(plan));
    plan->uncut_tables = plim__plan_tables(plan);
    PLIM_TRY(plim__portfolio_new(&plan->portfolio, plan, err));
    PLIM_TRY(plim__portfolio_floor(plan->portfolio, &plan->floor_need));
    plan->facts.floor_bytes = plim__plan_printed_floor(plan, plim__plan_budget(plan, plan->floor_need));
    return PLIM_OK;
}

plim_status plim__plan_make(plim_plan *plan, uint64_t most, bool *fits, plim_error *err)
{
    return plim__portfolio_plan(plan->portfolio, most, fits, err);
}

uint64_t plim__plan_peak(const plim_plan *plan, uint64_t arena)
{
    const uint64_t running = plan->facts.baseline_bytes + plan->facts.extras_bytes + arena, planning = planning_peak(plan);
    return planning > running ? planning : running;
}

plim_status plim__plan_end(plim_plan *plan, plim_error *err)
{
    plim__portfolio_free(&plan->portfolio);
    set_extras(plan);
    plan->facts.extras_bytes += plan->beside;
    plan->facts.arena_bytes = plan->arena_bytes;
    plan->facts.planned_peak_bytes = plim__plan_peak(plan, plan->arena_bytes);
    plan->facts.reserve_bytes = RESERVE_FIXED + plan->arena_bytes / 256 + plan->tmpfs + own_in_memory(plan);
    return plim__plan_explain(plan, err);
}

/* The plan for its budget; with plan_anyway and no such plan, one for the floor, with what an arena there may vary by. */
static plim_status make_and_end(plim_plan *plan, plim_error *err)
{
    const uint64_t room = plim__plan_room(plan, plan->facts.budget_bytes);
    const bool inside = plan->floor_need <= room && plim__plan_planning_budget(plan) <= plan->facts.budget_bytes;
    bool found = false;
    if (inside || plan->set.plan_anyway) PLIM_TRY(plim__plan_make(plan, inside ? room : plan->floor_need + plan->floor_slack, &found, err));
    if (!found) return refuse(plan, err);
    plan->facts.fits = inside;
    return plim__plan_end(plan, err);
}

/* What is asked of the graph again and again. */
static plim_status index_graph(plim_plan *plan, plim_error *err)
{
    const plim_graph *g = plan->graph;
    const plim__alloc *a = &plan->alloc;
    uint64_t n_uses = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++) n_uses += g->node[i].n_in;
    plan->home = plim__new(a, g->n_values, sizeof *plan->home, err);
    plan->use0 = plim__new(a, (uint64_t)g->n_values + 2, sizeof *plan->use0, err);
    plan->use = plim__new(a, n_uses, sizeof *plan->use, err);
    plan->held = plim__new(a, g->n_values, sizeof *plan->held, err);
    plan->held_size = plim__new(a, g->n_sources, sizeof *plan->held_size, err);
    plan->state_file = plim__new(a, g->n_states, sizeof *plan->state_file, err);
    plan->write_file = plim__new(a, g->n_values, sizeof *plan->write_file, err);
    plan->is_output = plim__new(a, g->n_values, sizeof *plan->is_output, err);
    plan->is_state = plim__new(a, g->n_values, sizeof *plan->is_state, err);
    plan->replaces = plim__new(a, g->n_values, sizeof *plan->replaces, err);
    plan->state_of = plim__new(a, g->n_values, sizeof *plan->state_of, err);
    if (!plan->home || !plan->use0 || !plan->use || !plan->held || !plan->held_size || !plan->state_file || !plan->write_file || !plan->is_output || !plan->is_state ||
        !plan->replaces || !plan->state_of)
        return PLIM_E_NOMEM;
    PLIM_TRY(plim__grow(a, (void **)&plan->slot, &plan->cap_slots, g->n_sources, sizeof *plan->slot, err)); /* for what is held */
    memset(plan->write_file, 0xff, g->n_values * sizeof *plan->write_file);
    memset(plan->replaces, 0xff, g->n_values * sizeof *plan->replaces);
    memset(plan->state_of, 0xff, g->n_values * sizeof *plan->state_of);
    for (uint32_t i = 0; i < g->n_outputs; i++) plan->is_output[g->output[i].value] = true;
    for (uint32_t i = 0; i < g->n_states; i++) {
        plan->is_output[g->state[i].out] = true;
        plan->is_state[g->state[i].in] = plan->is_state[g->state[i].out] = true;
        plan->state_of[g->state[i].in] = i;
    }
    /* counted one place too far to the right, so that filling in moves each to where it belongs */
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) plan->use0[g->node[i].in[k] + 2]++;
    for (uint32_t v = 0; v < g->n_values; v++) plan->use0[v + 2] += plan->use0[v + 1];
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) plan->use[plan->use0[g->node[i].in[k] + 1]++] = i;
    return plim__nests_new(&plan->nest, g, a, err);
}

static plim_status open_plan(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, const plim__preference *prefer,
                             bool thorough, plim_error *err)
{
    const plim__alloc a = plim__alloc_from(set);
    *out = NULL;
    plim_plan *plan = plim__new(&a, 1, sizeof *plan, err);
    if (!plan) return PLIM_E_NOMEM;
    plan->alloc = a;
    plan->graph = g;
    plan->set = *set;
    plan->os = os;
    plan->prefer = prefer;
    plan->thorough = thorough;
    plan->threads = set->threads ? set->threads : plim__cpu_count(os);
    const uint32_t cpus = plim__cpu_count(os);
    plan->pool_threads = plan->threads < cpus ? plan->threads : cpus;
    uint64_t now;
    plan->set.machine = NULL; /* copied */
    plim_status status = plim__speed_new(&plan->speed, set->machine, plan->threads, err);
    if (status == PLIM_OK) status = plim__resident_read(&now, &plan->peak_before, os, err);
    if (status == PLIM_OK) status = index_graph(plan, err);
    if (status == PLIM_OK) status = begin(plan, err);
    if (status == PLIM_OK) *out = plan;
    else plim__plan_drop(plan);
    return status;
}

plim_status plim__plan_begin(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err)
{
    return open_plan(out, g, set, os, NULL, true, err);
}

static plim_status new_plan(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, const plim__preference *prefer,
                            bool thorough, plim_error *err)
{
    const uint64_t start = os->clock_ns(os->self);
    plim_plan *plan;
    *out = NULL;
    PLIM_TRY(open_plan(&plan, g, set, os, prefer, thorough, err));
    const plim_status status = make_and_end(plan, err);
    plan->facts.plan_seconds = (double)(os->clock_ns(os->self) - start) * 1e-9;
    plan->prefer = NULL;
    if (status == PLIM_OK) *out = plan;
    else plim__plan_drop(plan);
    return status;
}

plim_status plim__plan_new(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err)
{
    return new_plan(out, g, set, os, NULL, false, err);
}

plim_status plim__plan_new_thorough(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err)
{
    return new_plan(out, g, set, os, NULL, true, err);
}

plim_status plim__plan_new_by(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os,
                              const plim__preference *prefer, plim_error *err)
{
    return new_plan(out, g, set, os, prefer, false, err);
}

/* The planner's part; a plan that was run is freed by plim_plan_free, which first lets go of the run. */
void plim__plan_drop(plim_plan *plan)
{
    const plim__alloc a = plan->alloc;
    if (plan->portfolio) plim__portfolio_free(&plan->portfolio);
    for (uint32_t i = 0; i < plan->n_passes; i++) plim__pass_free(&a, &plan->pass[i]);
    plim__free(&a, plan->pass);
    plim__free(&a, plan->slot);
    plim__free(&a, plan->file);
    plim__free(&a, plan->home);
    plim__nests_free(&plan->nest, &a);
    plim__free(&a, plan->use0);
    plim__free(&a, plan->use);
    plim__free(&a, plan->held);
    plim__free(&a, plan->held_size);
    plim__free(&a, plan->state_file);
    plim__free(&a, plan->write_file);
    plim__free(&a, plan->is_output);
    plim__free(&a, plan->is_state);
    plim__free(&a, plan->replaces);
    plim__free(&a, plan->state_of);
    plim__free(&a, plan);
}

const plim_facts *plim_plan_facts(const plim_plan *plan)
{
    return &plan->facts;
}

plim_status plim_plan_check(const plim_plan *plan, plim_error *err)
{
    return plim__plan_check(plan, err);
}
