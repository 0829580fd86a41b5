/* Parameters go piece by piece, in the order of their file. One that has another form in memory is put together there: in its place, where it is held in
 * the arena; else window by window, each of which goes to the parameter's own file when it is complete. A window is some of the arena, which is free between
 * runs but for what is held, or a buffer of WINDOW bytes. Where it is smaller than the parameter, the source is read once for each window. */
#include "session/parameters.h"
#include "core/size.h"
#include "models/prepared.h"
#include "run/pass_run.h"
#include "run/run.h"

#include <string.h>

#define PIECE 16384u /* elements that are moved at a time */
#define CLEARED (256u << 10) /* bytes that are cleared at a time */
#define WINDOW (256u << 10)  /* bytes of a parameter in another form that are in memory at a time, where the arena has no more to spare */

bool plim__parameter_is_placed(const plim_plan *plan, uint32_t value)
{
    if (plan->held[value]) return true;
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plan->file[i].value == value && plan->file[i].kind == PLIM__FILE_STATE) return true;
    return false;
}

/* The memory of an input that is held, all of it; else a window. @param apart  what the arena has to spare is in use */
static plim_status open_window(plim__parameter_window *w, plim_plan *plan, uint32_t value, bool apart, plim_error *err)
{
    const uint64_t bytes = plan->graph->value[value].bytes;
    *w = (plim__parameter_window){.bytes = bytes};
    if (plan->held[value]) {
        w->memory = (char *)(uintptr_t)plim__run_result(plan, value);
        w->loaded = true;
        return PLIM_OK;
    }
    w->bytes = bytes < WINDOW ? bytes : WINDOW;
    uint64_t spare = 0;
    char *found = apart ? NULL : plim__run_spare(plan, bytes, &spare);
    if (spare >= w->bytes && found) {
        w->memory = found;
        w->bytes = spare / sizeof(float) * sizeof(float);
        return PLIM_OK;
    }
    w->own = true;
    w->memory = plim__new(&plan->alloc, w->bytes, 1, err);
    return w->memory ? PLIM_OK : PLIM_E_NOMEM;
}

static void close_window(plim__parameter_window *w, const plim_plan *plan)
{
    if (w->own) plim__free(&plan->alloc, w->memory);
    *w = (plim__parameter_window){0};
}

/* Elements of the file's order to or from those of their places that lie in the window. */
static void move(bool put, const plim__parameter_window *w, float *piece, const uint64_t *place, uint64_t n)
{
    float *memory = (float *)(void *)w->memory;
    const uint64_t first = w->from / sizeof(float), count = w->bytes / sizeof(float);
    for (uint64_t i = 0; i < n; i++) {
        if (place[i] - first >= count) continue; /* wraps where it lies before */
        *(put ? &memory[place[i] - first] : &piece[i]) = put ? piece[i] : memory[place[i] - first];
    }
}

/* Buffers through which a tensor goes. */
typedef struct mover {
    plim_plan *plan;
    uint32_t value;
    const plim__weight_form *form;
    plim__tensor_reader from;
    uint32_t index;
    uint64_t count; /* elements of the tensor */
    char *piece;    /* PIECE of them */
    uint64_t *place;
    plim_error *err;
} mover;

/* Elements from `at` on. @return how many, 0 at the end or on failure */
static uint64_t read_piece(const mover *m, uint64_t at, plim_status *status)
{
    const uint64_t element = plim_dtype_bytes(m->plan->graph->value[m->value].dtype), left = m->count - at, n = left < PIECE ? left : PIECE;
    if (*status == PLIM_OK && n > 0) *status = m->from.read(m->from.ctx, m->index, at * element, m->piece, n * element, m->err);
    return *status == PLIM_OK ? n : 0;
}

static plim_status put_plain(const mover *m)
{
    const uint64_t element = plim_dtype_bytes(m->plan->graph->value[m->value].dtype);
    plim_status status = PLIM_OK;
    uint64_t n;
    for (uint64_t at = 0; (n = read_piece(m, at, &status)) > 0; at += n)
        status = plim__run_put(m->plan, m->value, at * element, m->piece, n * element, m->err);
    return status;
}

static plim_status put_window(const mover *m, const plim__parameter_window *w)
{
    plim_status status = PLIM_OK;
    uint64_t n;
    memset(w->memory, 0, w->bytes);
    for (uint64_t at = 0; (n = read_piece(m, at, &status)) > 0; at += n) {
        plim__form_places(m->form, at, n, m->place);
        move(true, w, (float *)(void *)m->piece, m->place, n);
    }
    if (status != PLIM_OK || m->plan->held[m->value]) return status;
    return plim__run_put(m->plan, m->value, w->from, w->memory, w->bytes, m->err);
}

static plim_status put_converted(mover *m)
{
    plim__parameter_window w;
    const uint64_t bytes = m->plan->graph->value[m->value].bytes;
    PLIM_ASSERT(m->plan->graph->value[m->value].dtype == PLIM_F32);
    PLIM_TRY(plim_shape_count(&m->count, &m->form->plain, m->err));
    PLIM_TRY(open_window(&w, m->plan, m->value, false, m->err));
    plim_status status = PLIM_OK;
    for (; w.from < bytes && status == PLIM_OK; w.from += w.bytes) {
        if (w.bytes > bytes - w.from) w.bytes = bytes - w.from;
        status = put_window(m, &w);
    }
    close_window(&w, m->plan);
    return status;
}

plim_status plim__parameter_put(plim_plan *plan, uint32_t value, const plim__weight_form *form, plim__tensor_reader from, uint32_t index, plim_error *err)
{
    const plim__value *v = &plan->graph->value[value];
    const uint64_t element = plim_dtype_bytes(v->dtype);
    mover m = {.plan = plan, .value = value, .form = form, .from = from, .index = index, .count = v->bytes / element, .err = err};
    m.piece = plim__new(&plan->alloc, PIECE, element, err);
    m.place = plim__new(&plan->alloc, PIECE, sizeof *m.place, err);
    plim_status status = m.piece && m.place ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK) status = form->kind == PLIM__FORM_PLAIN ? put_plain(&m) : put_converted(&m);
    plim__free(&plan->alloc, m.piece);
    plim__free(&plan->alloc, m.place);
    return status;
}

static plim_status put_prepared(void *plan, uint32_t value, const void *bytes, plim_error *err)
{
    return plim__run_put(plan, value, 0, bytes, ((plim_plan *)plan)->graph->value[value].bytes, err);
}

plim_status plim__parameters_load(plim_plan *plan, const plim__model *m, uint64_t seed, plim_error *err)
{
    plim__param_filler filler;
    plim__param_filler_open(&filler, m, plan->os, seed);
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < m->n_params && status == PLIM_OK; i++)
        if (plim__parameter_is_placed(plan, m->param[i].value))
            status = plim__parameter_put(plan, m->param[i].value, &m->param[i].form, plim__param_filler_reader(&filler), i, err);
    if (status == PLIM_OK) status = plim__prepared_make(m, &filler, put_prepared, plan, err);
    const plim_status closed = plim__param_filler_close(&filler, status == PLIM_OK ? err : NULL);
    return status == PLIM_OK ? closed : status;
}

/* ------------------------------------------------------------------------------------------------------- getting */

/* Moves the window to its part number `k`. */
static plim_status load_window(plim__parameter_view *view, uint64_t k, plim_error *err)
{
    plim__parameter_window *w = &view->window;
    const uint64_t bytes = view->plan->graph->value[view->value].bytes;
    if (w->loaded && w->from == k * view->part) return PLIM_OK;
    w->from = k * view->part;
    w->bytes = bytes - w->from < view->part ? bytes - w->from : view->part;
    w->loaded = true;
    return plim__run_get(view->plan, view->value, w->from, w->memory, w->bytes, err);
}

plim_status plim__parameter_get(plim__parameter_view *view, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    plim_plan *plan = view->plan;
    if (view->form->kind == PLIM__FORM_PLAIN) return plim__run_get(plan, view->value, offset, bytes, n, err);
    if (!view->window.memory) {
        PLIM_TRY(open_window(&view->window, plan, view->value, view->apart, err));
        view->part = view->window.bytes;
    }
    const uint64_t all = plan->graph->value[view->value].bytes, parts = view->part ? (all + view->part - 1) / view->part : 0;
    for (uint64_t k = 0; k < parts; k++) {
        uint64_t place[512];
        PLIM_TRY(load_window(view, k, err));
        for (uint64_t at = 0; at < n / sizeof(float); at += 512) {
            const uint64_t left = n / sizeof(float) - at, count = left < 512 ? left : 512;
            plim__form_places(view->form, offset / sizeof(float) + at, count, place);
            move(false, &view->window, (float *)bytes + at, place, count);
        }
    }
    return PLIM_OK;
}

void plim__parameter_view_close(plim__parameter_view *view) { close_window(&view->window, view->plan); }

void plim__parameters_now_open(plim__parameters_now *p, plim_plan *plan, const plim__model *m, uint64_t seed, bool apart)
{
    *p = (plim__parameters_now){.model = m, .view = {.plan = plan, .value = PLIM__NONE, .apart = apart}};
    plim__param_filler_open(&p->filler, m, plan->os, seed);
}

plim_status plim__parameters_now_close(plim__parameters_now *p, plim_error *err)
{
    plim__parameter_view_close(&p->view);
    return plim__param_filler_close(&p->filler, err);
}

static plim_status read_now(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    plim__parameters_now *p = ctx;
    plim_plan *plan = p->view.plan;
    const uint32_t value = p->model->param[index].value;
    if (p->view.value != value) {
        plim__parameter_view_close(&p->view);
        p->view.value = value;
        p->view.form = &p->model->param[index].form;
    }
    if (plim__parameter_is_placed(plan, value)) return plim__parameter_get(&p->view, offset, bytes, n, err);
    const uint64_t element = plim_dtype_bytes(plan->graph->value[value].dtype);
    return plim__param_fill(&p->filler, index, offset / element, bytes, n / element, err);
}

plim__tensor_reader plim__parameters_now_reader(plim__parameters_now *p) { return (plim__tensor_reader){p, read_now}; }

plim_status plim__parameter_clear(plim_plan *plan, uint32_t value, plim_error *err)
{
    const uint64_t bytes = plan->graph->value[value].bytes;
    if (plan->held[value]) {
        memset((void *)(uintptr_t)plim__run_result(plan, value), 0, bytes);
        return PLIM_OK;
    }
    char *zeros = plim__new(&plan->alloc, CLEARED, 1, err);
    plim_status status = zeros ? PLIM_OK : PLIM_E_NOMEM;
    for (uint64_t at = 0; at < bytes && status == PLIM_OK; at += CLEARED)
        status = plim__run_put(plan, value, at, zeros, bytes - at < CLEARED ? bytes - at : CLEARED, err);
    plim__free(&plan->alloc, zeros);
    return status;
}
