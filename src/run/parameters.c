/* Parameters go piece by piece, in the order of their file. One that has another form in memory is put together there: in its place, where it is held in
 * the arena, else in a buffer of its size, from which it goes to its file. */
#include "run/parameters.h"
#include "core/size.h"
#include "models/prepared.h"
#include "run/pass_run.h"
#include "run/run.h"

#include <string.h>

#define PIECE 16384u /* elements that are moved at a time */
#define CLEARED (256u << 10) /* bytes that are cleared at a time */

bool plim__parameter_is_placed(const plim_plan *plan, uint32_t value)
{
    if (plan->held[value]) return true;
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plan->file[i].value == value && plan->file[i].kind == PLIM__FILE_STATE) return true;
    return false;
}

/* The memory of an input that is held; else some of the arena, which is free between runs but for what is held. Where it has no room in one piece, there is
 * a buffer, which the plan has not counted. @param own  whether it is that */
static plim_status take_memory(plim_plan *plan, uint32_t value, bool apart, char **memory, bool *own, plim_error *err)
{
    const uint64_t bytes = plan->graph->value[value].bytes;
    *own = false;
    *memory = plan->held[value] ? (char *)(uintptr_t)plim__run_result(plan, value) : apart ? NULL : plim__run_spare(plan, bytes);
    if (*memory) return PLIM_OK;
    *own = true;
    *memory = plim__new(&plan->alloc, bytes, 1, err);
    return *memory ? PLIM_OK : PLIM_E_NOMEM;
}

/* Elements of the file's order to or from their places. */
static void move(bool put, float *memory, float *piece, const uint64_t *place, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++) *(put ? &memory[place[i]] : &piece[i]) = put ? piece[i] : memory[place[i]];
}

plim_status plim__parameter_put(plim_plan *plan, uint32_t value, const plim__weight_form *form, plim__tensor_reader from, uint32_t index, plim_error *err)
{
    const plim__value *v = &plan->graph->value[value];
    const bool plain = form->kind == PLIM__FORM_PLAIN;
    const uint64_t element = plim_dtype_bytes(v->dtype);
    uint64_t count = v->bytes / element;
    bool own = false;
    char *memory = NULL, *piece = plim__new(&plan->alloc, PIECE, element, err);
    uint64_t *place = plim__new(&plan->alloc, PIECE, sizeof *place, err);
    plim_status status = piece && place ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK && !plain) {
        status = plim_shape_count(&count, &form->plain, err);
        if (status == PLIM_OK) status = take_memory(plan, value, false, &memory, &own, err);
        if (status == PLIM_OK) memset(memory, 0, v->bytes);
    }
    for (uint64_t at = 0; at < count && status == PLIM_OK; at += PIECE) {
        const uint64_t n = count - at < PIECE ? count - at : PIECE;
        status = from.read(from.ctx, index, at * element, piece, n * element, err);
        if (status != PLIM_OK) break;
        if (plain) status = plim__run_put(plan, value, at * element, piece, n * element, err);
        else {
            plim__form_places(form, at, n, place);
            move(true, (float *)(void *)memory, (float *)(void *)piece, place, n);
        }
    }
    if (status == PLIM_OK && !plain && !plan->held[value]) status = plim__run_put(plan, value, 0, memory, v->bytes, err);
    if (own) plim__free(&plan->alloc, memory);
    plim__free(&plan->alloc, piece);
    plim__free(&plan->alloc, place);
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

plim_status plim__parameter_get(plim__parameter_view *view, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    plim_plan *plan = view->plan;
    if (view->form->kind == PLIM__FORM_PLAIN) return plim__run_get(plan, view->value, offset, bytes, n, err);
    if (!view->memory) {
        PLIM_TRY(take_memory(plan, view->value, view->apart, &view->memory, &view->own, err));
        if (!plan->held[view->value]) PLIM_TRY(plim__run_get(plan, view->value, 0, view->memory, plan->graph->value[view->value].bytes, err));
    }
    uint64_t place[512];
    for (uint64_t at = 0; at < n / sizeof(float); at += 512) {
        const uint64_t left = n / sizeof(float) - at, count = left < 512 ? left : 512;
        plim__form_places(view->form, offset / sizeof(float) + at, count, place);
        move(false, (float *)(void *)view->memory, (float *)bytes + at, place, count);
    }
    return PLIM_OK;
}

void plim__parameter_view_close(plim__parameter_view *view)
{
    if (view->own) plim__free(&view->plan->alloc, view->memory);
    view->memory = NULL;
    view->own = false;
}

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
