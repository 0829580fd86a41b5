/* A run from beginning to end: files, arena, engine, passes, and only then the outputs' names. What is opened may be run many times.
 *
 * Order matters: output files are created and given their blocks first (a full disk is known before any work), the arena is touched next (so is a
 * lack of memory), inputs are looked at again at the end (one that changed under us spoils the result), and renaming comes last. */
#include "run/run.h"
#include "core/size.h"
#include "formats/array_file.h"
#include "run/pass_run.h"

#include <stdio.h>
#include <string.h>

#define PROGRESS_SECONDS 0.1

plim_status plim__run_progress(plim__run_state *run, bool force)
{
    const plim_settings *set = &run->plan->set;
    if (!set->progress) return PLIM_OK;
    const double seconds = (double)(run->plan->os->clock_ns(run->plan->os->self) - run->started) * 1e-9;
    if (!force && seconds < run->next_progress) return PLIM_OK;
    run->next_progress = seconds + PROGRESS_SECONDS;
    uint64_t read = 0, written = 0;
    if (run->io) plim__io_counts(run->io, &read, &written);
    const plim_progress now = {.what = run->what, .done = read + written, .total = run->total_bytes, .seconds = seconds};
    PLIM_FAIL_IF(!set->progress(set->progress_ctx, &now), run->err, PLIM_E_CANCELLED, "stopped on request; nothing was written");
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------- files */

static plim_status open_file(plim__run_state *run, uint32_t i)
{
    const plim_plan *plan = run->plan;
    const plim__file *f = &plan->file[i];
    run->file[i] = f->io;
    const bool direct = !plan->set.no_direct_io;
    if (plan->held[f->value]) return PLIM_OK; /* it is in memory: nobody reads its file here */
    PLIM_FAIL_IF(!plim__file_is_ours(f->kind) && !f->path[0], run->err, PLIM_E_INVALID, "'%s' is not bound to a file",
                 plan->graph->value[f->value].name);
    if (f->kind == PLIM__FILE_INPUT) return plim__io_open_input(&run->file[i], plan->os, direct, run->err);
    if (plim__file_is_ours(f->kind)) {
        if (!run->own) PLIM_TRY(plim__tempfile_scratch(&run->own, plan->os, f->path, plan->own_bytes, direct, run->err));
        plim__io_open_output(&run->file[i], run->own);
        return PLIM_OK;
    }
    PLIM_TRY(plim__tempfile_new(&run->temp[i], plan->os, f->path, f->bytes, direct, run->err));
    plim__io_open_output(&run->file[i], run->temp[i]);
    return PLIM_OK;
}

static plim_status open_files(plim__run_state *run)
{
    const plim_plan *plan = run->plan;
    run->file = plim__new(&plan->alloc, plan->n_files, sizeof *run->file, run->err);
    run->temp = plim__new(&plan->alloc, plan->n_files, sizeof *run->temp, run->err);
    if (!run->file || !run->temp) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < plan->n_files; i++) run->file[i].fd = -1;
    for (uint32_t i = 0; i < plan->n_files; i++) PLIM_TRY(open_file(run, i));
    return PLIM_OK;
}

static void close_files(plim__run_state *run)
{
    const plim_plan *plan = run->plan;
    for (uint32_t i = 0; run->file && run->temp && i < plan->n_files; i++) {
        if (run->file[i].fd >= 0) plim__io_close(&run->file[i], plan->os);
        if (run->temp[i]) plim__tempfile_drop(&run->temp[i]);
    }
    if (run->own) plim__tempfile_drop(&run->own);
    plim__free(&plan->alloc, run->file);
    plim__free(&plan->alloc, run->temp);
}

/* An input that changed while it was read spoils the result. */
static plim_status check_inputs(const plim__run_state *run)
{
    const plim_plan *plan = run->plan;
    for (uint32_t i = 0; i < plan->n_files; i++) {
        if (plan->file[i].kind != PLIM__FILE_INPUT || plan->held[plan->file[i].value]) continue;
        const plim__source *s = &plan->graph->source[plan->graph->value[plan->file[i].value].source];
        plim__stat now = {0};
        const int rc = plan->os->stat(plan->os->self, run->file[i].fd, &now);
        if (rc < 0) return plim__os_fail(rc, "looking at", s->path, 0, run->err);
        if (now.size != s->file_bytes || now.mtime_ns != s->mtime_ns)
            return plim__fail_at(run->err, PLIM_E_CHANGED, s->path, "'%s' changed while it was read (it had %llu bytes, now %llu)", s->path,
                                 (unsigned long long)s->file_bytes, (unsigned long long)now.size);
    }
    return PLIM_OK;
}

static const plim__output *output_of(const plim_plan *plan, uint32_t value)
{
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        if (plan->graph->output[i].value == value) return &plan->graph->output[i];
    return NULL;
}

void plim__run_shape(const plim_plan *plan, const plim__output *o, plim_shape *shape)
{
    *shape = plan->graph->value[o->value].shape;
    if (o->count == PLIM__NONE) return;
    int64_t rows;
    memcpy(&rows, plim__run_result(plan, plan->graph->output[o->count].value), sizeof rows);
    shape->dim[0] = plim__clamp(rows, 0, shape->dim[0]);
}

/* A counted output that held more than there was room for is no result. */
static plim_status check_counts(const plim__run_state *run)
{
    const plim_graph *g = run->plan->graph;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const plim__output *o = &g->output[i];
        if (o->count == PLIM__NONE) continue;
        int64_t rows;
        memcpy(&rows, plim__run_result(run->plan, g->output[o->count].value), sizeof rows);
        PLIM_FAIL_IF(rows < 0 || rows > g->value[o->value].shape.dim[0], run->err, PLIM_E_INVALID,
                     "'%s' has more than the %lld elements that room was planned for; raise its limit (max=)",
                     o->name[0] ? o->name : "the result", (long long)g->value[o->value].shape.dim[0]);
    }
    return PLIM_OK;
}

static plim_status write_header(plim__run_state *run, uint32_t i)
{
    const plim_plan *plan = run->plan;
    const plim__value *v = &plan->graph->value[plan->file[i].value];
    const plim__output *o = output_of(plan, plan->file[i].value);
    PLIM_ASSERT(o && run->temp[i]); /* only outputs have a header, and a name of their own */
    char head[PLIM__NPY_HEADER];
    plim_shape shape;
    uint64_t bytes;
    plim__run_shape(plan, o, &shape);
    PLIM_TRY(plim_shape_bytes(&bytes, &shape, v->dtype, run->err));
    plim__tempfile_resize(run->temp[i], PLIM__NPY_HEADER + bytes);
    PLIM_TRY(plim__npy_header(head, v->dtype, &shape, run->err));
    for (uint64_t done = 0; done < sizeof head;) {
        const int64_t n = plan->os->pwrite(plan->os->self, plim__tempfile_buffered_fd(run->temp[i]), head + done, sizeof head - done, done);
        if (n <= 0) return plim__os_fail(n < 0 ? (int)n : -5, "writing the header of", plan->file[i].path, done, run->err);
        done += (uint64_t)n;
    }
    return PLIM_OK;
}

static plim_status commit_outputs(plim__run_state *run)
{
    const plim_plan *plan = run->plan;
    for (uint32_t i = 0; i < plan->n_files; i++) {
        if (plan->file[i].kind != PLIM__FILE_OUTPUT) continue;
        PLIM_TRY(write_header(run, i));
        PLIM_TRY(plim__tempfile_finish(run->temp[i], run->err));
    }
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plan->file[i].kind == PLIM__FILE_OUTPUT) PLIM_TRY(plim__tempfile_commit(&run->temp[i], run->err));
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------- memory */

#if PLIM_DEBUG >= 2
/* VmHWM is at most the planned peak. Nothing follows where it cannot be read, where the process has had as much before, where the arena is the
 * caller's, or where a sanitizer keeps what was freed. */
static plim_status check_peak(const plim__run_state *run)
{
    const uint64_t planned = run->plan->facts.planned_peak_bytes;
    uint64_t now, peak;
    if (!plim__resident_is_known() || run->borrowed || run->peak_before == 0) return PLIM_OK;
    if (plim__resident_read(&now, &peak, run->plan->os, NULL) != PLIM_OK || peak <= run->peak_before) return PLIM_OK;
    PLIM_FAIL_IF(peak > planned, run->err, PLIM_E_PLAN, "internal: the process had %llu bytes, planned were %llu", (unsigned long long)peak,
                 (unsigned long long)planned);
    return PLIM_OK;
}
#endif

/* --------------------------------------------------------------------------------------------------- passes */

static plim_status open_run(plim__run_state *run)
{
    const plim_plan *plan = run->plan;
    plim__alloc_trim(&plan->alloc); /* what planning took and let go of */
    PLIM_TRY(open_files(run));
    run->arena_bytes = plan->arena_bytes; /* may be 0: it has a place even so, where arrays without elements are */
    if (!run->borrowed) PLIM_TRY(plim__arena_map(&run->arena, run->arena_bytes, plan->threads, run->err));
    if (plan->set.pin) PLIM_TRY(plim__arena_lock(run->arena, run->arena_bytes, run->err));
#if PLIM_DEBUG >= 3
    memset(run->arena, 0xff, plan->arena_bytes); /* NaN, -1: nothing may depend on what it finds */
#endif
    if (plan->n_files > 0) PLIM_TRY(plim__io_new(&run->io, &plan->io, plan->os, &plan->alloc, run->arena, run->err));
    run->pass = plim__new(&plan->alloc, plan->n_passes, sizeof *run->pass, run->err);
    if (!run->pass) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < plan->n_passes; i++) PLIM_TRY(plim__pass_run_new(&run->pass[i], run, &plan->pass[i]));
    return PLIM_OK;
}

plim_status plim__run_open(plim_plan *plan, plim_error *err) { return plim__run_open_in(plan, NULL, err); }

plim_status plim__run_open_in(plim_plan *plan, void *arena, plim_error *err)
{
    plim__run_drop(plan);
    plim__run_state *run = plim__new(&plan->alloc, 1, sizeof *run, err);
    if (!run) return PLIM_E_NOMEM;
    plan->run = run;
    run->plan = plan;
    run->err = err;
    run->bad_node = PLIM__NONE;
    run->arena = arena;
    run->borrowed = arena != NULL;
    run->started = plan->os->clock_ns(plan->os->self);
    uint64_t now;
    if (plim__resident_read(&now, &run->peak_before, plan->os, NULL) != PLIM_OK) run->peak_before = 0;
    PLIM_ASSERT(!run->borrowed || (uintptr_t)arena % PLIM__IO_ALIGN == 0);
    for (uint32_t i = 0; i < plan->n_passes; i++) run->total_bytes += plan->pass[i].read_bytes + plan->pass[i].write_bytes;
#if PLIM_DEBUG >= 2
    plim_status status = plim__plan_check(plan, err);
    if (status == PLIM_OK) status = open_run(run);
#else
    const plim_status status = open_run(run);
#endif
    run->err = NULL;
    if (status != PLIM_OK) plim__run_drop(plan);
    return status;
}

plim_status plim__run_go(plim_plan *plan, plim_error *err)
{
    plim__run_state *run = plan->run;
    plim_status status = PLIM_OK;
    PLIM_ASSERT(run && run->pass && run->arena_bytes == plan->arena_bytes); /* opened, and not closed since */
    run->err = err;
    for (uint32_t i = 0; i < plan->n_passes && status == PLIM_OK; i++) {
        snprintf(run->what, sizeof run->what, "pass %u of %u", i + 1, plan->n_passes);
        status = plim__pass_run_go(run->pass[i]);
    }
#if PLIM_DEBUG >= 2
    if (status == PLIM_OK) status = check_peak(run);
#endif
    run->err = NULL;
    return status;
}

plim_status plim__run_next(plim_plan *plan, plim__call *part, bool *stopped, plim_error *err)
{
    plim__run_state *run = plan->run;
    PLIM_ASSERT(run && run->pass && plan->n_passes == 1);
    run->err = err;
    const plim_status status = plim__pass_run_next(run->pass[0], part, stopped);
    run->err = NULL;
    return status;
}

static plim_status finish(plim__run_state *run)
{
    PLIM_TRY(plim__run_progress(run, true));
    PLIM_TRY(check_inputs(run));
    PLIM_TRY(check_counts(run));
    return commit_outputs(run);
}

plim_status plim__run_finish(plim_plan *plan, plim_error *err)
{
    plan->run->err = err;
    const plim_status status = finish(plan->run);
    plan->run->err = NULL;
    return status;
}

void plim__run_close(plim_plan *plan, plim_run_facts *facts)
{
    plim__run_state *run = plan->run;
    plim_run_facts f = {0};
    PLIM_ASSERT(run && run->plan == plan && !run->err); /* no call is under way */
    if (run->io) plim__io_counts(run->io, &f.bytes_read, &f.bytes_written);
    for (uint32_t i = 0; run->pass && i < plan->n_passes; i++) plim__pass_run_free(&run->pass[i]);
    plim__free(&plan->alloc, run->pass);
    run->pass = NULL;
    plim__io_free(&run->io);
    close_files(run);
    run->file = NULL;
    run->temp = NULL;
    f.seconds = (double)(plan->os->clock_ns(plan->os->self) - run->started) * 1e-9;
    uint64_t now;
    (void)plim__resident_read(&now, &f.peak_rss_bytes, plan->os, NULL); /* the outputs are in place: not knowing this is no failure */
    if (facts) *facts = f;
}

plim_status plim__run(plim_plan *plan, plim_run_facts *facts, plim_error *err)
{
    plim_run_facts f;
    PLIM_TRY(plim__run_open(plan, err));
    plim_status status = plim__run_go(plan, err);
    if (status == PLIM_OK) status = plim__run_finish(plan, err);
    plim__run_close(plan, &f);
    if (status == PLIM_OK && facts) *facts = f;
    if (status != PLIM_OK) plim__run_drop(plan);
    return status;
}

void plim__run_drop(plim_plan *plan)
{
    if (!plan->run) return;
    plim__run_close(plan, NULL);
    if (!plan->run->borrowed) plim__arena_unmap(plan->run->arena, plan->run->arena_bytes);
    plim__free(&plan->alloc, plan->run);
    plan->run = NULL;
}

const void *plim__run_result(const plim_plan *plan, uint32_t value)
{
    const plim__home *home = &plan->home[value];
    if (!plan->run || home->kind != PLIM__HOME_ARENA) return NULL;
    const char *base = (const char *)plan->run->arena + plan->slot[home->slot].offset;
    if (home->file == PLIM__NONE) return base;
    plim__io_layout layout;
    const plim__region whole = plim__region_whole(&plan->graph->value[value].shape);
    plim__io_layout_of(&plan->file[home->file].io, &whole, true, &layout);
    return base + layout.first;
}
