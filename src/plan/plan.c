/* A plan from a graph and a budget: the files of the program, what is asked of its graph again and again, and the recipe that portfolio.c finds for the
 * room that budget.c leaves. The plan owns its tables; its graph and the system table are the caller's. One thread. */
#include "plan/plan.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "plan/build.h"
#include "plan/portfolio.h"
#include "plan/search.h"

#include <string.h>

void plim__plan_io(plim_plan *plan, int level)
{
    static const plim__io_config config[] = {
        {.threads = 4, .bounce_bytes = 1u << 20, .edge_blocks = 1024, .piece_bytes = 2u << 20},
        {.threads = 4, .bounce_bytes = 128u << 10, .edge_blocks = 256, .piece_bytes = 1u << 20},
        {.threads = 2, .bounce_bytes = 64u << 10, .edge_blocks = 64, .piece_bytes = 256u << 10},
        {.threads = 2, .bounce_bytes = 16u << 10, .edge_blocks = 16, .piece_bytes = 256u << 10},
    };
    PLIM_ASSERT(level >= 0 && level <= PLIM__IO_LEVEL_LEAST);
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

/* An input that is kept in the file of our own, where there is a folder for one and it is not held. */
static void own_file(plim_plan *plan, uint32_t i)
{
    plim__file *f = &plan->file[i];
    PLIM_ASSERT(plim__input_is_ours(plan, f->value) && plan->n_passes == 0);
    f->kind = PLIM__FILE_STATE;
    f->path = plan->set.spill_dir ? plan->set.spill_dir : "";
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
        if (plim__input_is_ours(plan, v)) own_file(plan, plan->n_files - 1);
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
            PLIM_ASSERT(plan->file[k].kind == PLIM__FILE_STATE);
            plan->state_file[i] = k;
        }
        plan->replaces[s->out] = i;
    }
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- budget */

/* Is something held only because there is no folder for it? */
static bool lacks_folder(const plim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_files && !plan->set.spill_dir; i++)
        if (plan->file[i].kind == PLIM__FILE_STATE && plan->file[i].bytes > 0) return true;
    return false;
}

plim_status plim__plan_refuse(const plim_plan *plan, plim_error *err)
{
    char need[32], have[32];
    plim_bytes_format(need, sizeof need, plan->facts.floor_bytes);
    plim_bytes_format(have, sizeof have, plan->budget.bytes);
    if (err) {
        err->need = plan->facts.floor_bytes;
        err->have = plan->budget.bytes;
    }
    return plim__fail(err, PLIM_E_BUDGET, "does not fit: the smallest budget that works is %s, the budget is %s%s", need, have,
                      lacks_folder(plan) ? "; with a folder for what is kept from run to run (--spill DIR) less may do" : "");
}

void plim__plan_set_floor(plim_plan *plan)
{
    plan->facts.floor_bytes = plim__budget_floor(&plan->budget, plim__budget_for(&plan->budget, plan->floor_need));
}

static plim_status begin(plim_plan *plan, plim_error *err)
{
    PLIM_TRY(plim__portfolio_new(&plan->portfolio, plan, err));
    PLIM_TRY(plim__portfolio_floor(plan->portfolio, &plan->floor_need));
    plim__plan_set_floor(plan);
    return PLIM_OK;
}

plim_status plim__plan_make(plim_plan *plan, uint64_t most, bool *fits, plim_error *err)
{
    return plim__portfolio_plan(plan->portfolio, most, fits, err);
}

plim_status plim__plan_end(plim_plan *plan, plim_error *err)
{
    PLIM_ASSERT(plan->n_passes > 0 || plan->graph->n_nodes == 0);
    if (plan->portfolio) plim__portfolio_free(&plan->portfolio);
    plim__budget_state(plan);
    return plim__plan_explain(plan, err);
}

/* The plan for its budget; with plan_anyway and no such plan, one for the floor, with what an arena there may vary by. */
static plim_status make_and_end(plim_plan *plan, plim_error *err)
{
    const plim__budget *b = &plan->budget;
    const uint64_t room = plim__budget_room(b, b->bytes);
    const bool inside = plan->floor_need <= room && plim__budget_planning(b) <= b->bytes;
    bool found = false;
    if (inside || plan->set.plan_anyway) PLIM_TRY(plim__plan_make(plan, inside ? room : plan->floor_need + b->floor_slack, &found, err));
    if (!found) return plim__plan_refuse(plan, err);
    PLIM_TRY(plim__plan_end(plan, err));
    PLIM_ASSERT(!plan->facts.fits || plan->facts.planned_peak_bytes + plan->facts.reserve_bytes <= plan->facts.budget_bytes);
    plan->facts.fits &= inside;
    if (plan->facts.fits || plan->set.plan_anyway) return PLIM_OK;
    plim__plan_set_floor(plan); /* planning itself has taken more than the budget */
    return plim__plan_refuse(plan, err);
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

/* Everything that does not depend on how it is planned. */
static plim_status look_at_program(plim_plan *plan, plim_error *err)
{
    PLIM_TRY(plim__budget_start(&plan->budget, plan->os, err));
    PLIM_TRY(index_graph(plan, err));
    PLIM_TRY(add_inputs(plan, err));
    PLIM_TRY(add_outputs(plan, err));
    PLIM_TRY(add_states(plan, err));
    PLIM_TRY(plim__budget_measure(&plan->budget, &plan->set, plan->threads, plan->thorough, err));
    plim__budget_look_at_program(plan);
    return PLIM_OK;
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
    plan->set.machine = NULL; /* copied */
    plim_status status = plim__speed_new(&plan->speed, set->machine, plan->threads, err);
    if (status == PLIM_OK) status = look_at_program(plan, err);
    if (status == PLIM_OK) *out = plan;
    else plim__plan_drop(plan);
    return status;
}

plim_status plim__plan_begin(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err)
{
    PLIM_TRY(open_plan(out, g, set, os, NULL, true, err));
    const plim_status status = begin(*out, err);
    if (status != PLIM_OK) {
        plim__plan_drop(*out);
        *out = NULL;
    }
    return status;
}

plim_status plim__plan_open(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, plim_error *err)
{
    return open_plan(out, g, set, os, NULL, false, err);
}

static plim_status new_plan(plim_plan **out, const plim_graph *g, const plim_settings *set, const plim__os *os, const plim__preference *prefer,
                            bool thorough, plim_error *err)
{
    const uint64_t start = os->clock_ns(os->self);
    plim_plan *plan;
    *out = NULL;
    PLIM_TRY(open_plan(&plan, g, set, os, prefer, thorough, err));
    plim_status status = begin(plan, err);
    if (status == PLIM_OK) status = make_and_end(plan, err);
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
