/* Checkpoints: a safetensors file with every value that training carries from step to step, and in its metadata where it stands.
 *
 *     weights              under their own names
 *     "optimizer.0/NAME"   what the optimizer keeps for the weight NAME, and "optimizer.1/NAME"
 *
 * Beside the step the metadata holds what the bits of a result depend on: seed, batch, budgets and what the process had beside them, threads. So a checkpoint
 * can be resumed bit for bit, and a training that is resumed otherwise can be told. */
#include "formats/safetensors_write.h"
#include "models/weights.h"
#include "session/parameters.h"
#include "run/run.h"
#include "session/trainer.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A tensor of a checkpoint and the input that it is. */
typedef struct entry {
    uint32_t value;
    const plim__weight_form *form;
    char name[PLIM__MODEL_NAME + 16];
} entry;

typedef struct list {
    plim_plan *plan;
    entry *entry;
    plim__tensor_spec *spec;
    uint32_t n;
    plim__parameter_view view; /* of the one that is being read */
} list;

static void add(list *l, uint32_t value, const char *before, const plim__param *param)
{
    entry *e = &l->entry[l->n];
    const plim__value *v = &l->plan->graph->value[value];
    e->value = value;
    e->form = &param->form;
    snprintf(e->name, sizeof e->name, "%s%s", before, param->name);
    l->spec[l->n++] = (plim__tensor_spec){.name = e->name, .dtype = v->dtype, .shape = e->form->kind == PLIM__FORM_PLAIN ? v->shape : e->form->plain};
}

/* Everything that is carried from step to step. */
static plim_status list_states(list *l, const plim_trainer *t, plim_error *err)
{
    const plim__model *m = t->model->model;
    const plim__train_graph *train = &t->model->train;
    *l = (list){.plan = t->plan, .view = {.plan = t->plan, .value = PLIM__NONE}};
    const uint64_t most = (uint64_t)m->n_params + 2 * (uint64_t)train->n_trained;
    l->entry = plim__new(&t->alloc, most, sizeof *l->entry, err);
    l->spec = plim__new(&t->alloc, most, sizeof *l->spec, err);
    if (!l->entry || !l->spec) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < m->n_params; i++)
        if (plim__parameter_is_placed(t->plan, m->param[i].value)) add(l, m->param[i].value, "", &m->param[i]);
    for (uint32_t i = 0; i < train->n_trained; i++)
        for (uint32_t k = 0; k < 2; k++) {
            const plim__trained *p = &train->trained[i];
            if (p->state[k] != PLIM__NONE) add(l, p->state[k], k ? "optimizer.1/" : "optimizer.0/", &m->param[p->param]);
        }
    return PLIM_OK;
}

static void free_list(list *l, const plim__alloc *a)
{
    if (l->plan) plim__parameter_view_close(&l->view);
    plim__free(a, l->entry);
    plim__free(a, l->spec);
}

static plim_status read_entry(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    list *l = ctx;
    const entry *e = &l->entry[index];
    if (l->view.value != e->value) plim__parameter_view_close(&l->view);
    if (l->view.value != e->value) l->view = (plim__parameter_view){.plan = l->plan, .value = e->value, .form = e->form};
    return plim__parameter_get(&l->view, offset, bytes, n, err);
}

/* ------------------------------------------------------------------------------------------------------ metadata */

enum { FACTS = 8 };

typedef struct fact {
    const char *key;
    uint64_t value;
    bool must; /* another value is another training */
} fact;

static void facts_of(const plim_trainer *t, fact f[FACTS])
{
    const plim_facts *plan = plim_plan_facts(t->plan);
    const fact all[FACTS] = {
        {"plimsoll.step", t->step, false},
        {"plimsoll.seed", t->seed, true},
        {"plimsoll.batch", (uint64_t)t->model->batch, true},
        {"plimsoll.samples", t->order.n, true},
        {"plimsoll.in_order", t->order.in_order, true},
        {"plimsoll.memory", plan->budget_bytes, false},
        {"plimsoll.baseline", plan->baseline_bytes, false},
        {"plimsoll.threads", t->plan->threads, false},
    };
    memcpy(f, all, sizeof all);
}

plim_status plim_trainer_checkpoint(plim_trainer *t, const char *path, plim_error *err)
{
    list l;
    fact f[FACTS];
    char number[FACTS][24];
    plim__safetensors_text text[FACTS];
    PLIM_FAIL_IF(!t->plan->run, err, PLIM_E_INVALID, "a step failed: there is nothing to save");
    facts_of(t, f);
    for (uint32_t i = 0; i < FACTS; i++) {
        snprintf(number[i], sizeof number[i], "%" PRIu64, f[i].value);
        text[i] = (plim__safetensors_text){.key = f[i].key, .value = number[i]};
    }
    plim_status status = list_states(&l, t, err);
    if (status == PLIM_OK)
        status = plim__safetensors_write(t->plan->os, path, l.spec, l.n, text, FACTS, (plim__tensor_reader){&l, read_entry}, t->alloc, err);
    free_list(&l, &t->alloc);
    return status;
}

/* -------------------------------------------------------------------------------------------------------- resuming */

static plim_status fact_in(const plim__safetensors *f, const char *key, uint64_t *out, plim_error *err)
{
    const char *text = plim__safetensors_metadata(f, key);
    char *end = NULL;
    if (text && text[0] >= '0' && text[0] <= '9') *out = strtoull(text, &end, 10);
    if (!end || *end) return plim__array_fail(err, PLIM_E_FORMAT, f->path, 0, "no checkpoint of a training: its metadata has no number '%s'", key);
    return PLIM_OK;
}

static plim_status check_facts(const plim_trainer *t, const plim__safetensors *f, uint64_t *step, plim_error *err)
{
    fact now[FACTS];
    facts_of(t, now);
    PLIM_TRY(fact_in(f, now[0].key, step, err));
    for (uint32_t i = 1; i < FACTS; i++) {
        uint64_t was = 0;
        if (!now[i].must) continue;
        PLIM_TRY(fact_in(f, now[i].key, &was, err));
        if (was != now[i].value)
            return plim__array_fail(err, PLIM_E_INVALID, f->path, 0, "a checkpoint of another training: its %s is %" PRIu64 ", here it is %" PRIu64,
                                    now[i].key + strlen("plimsoll."), was, now[i].value);
    }
    return PLIM_OK;
}

/* Tensors of an open file, as a reader; its index counts the list's entries. */
typedef struct source {
    const plim__os *os;
    int fd;
    const plim__safetensors *file;
    const list *l;
} source;

static plim_status read_tensor(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    const source *s = ctx;
    plim__array_file tensor;
    PLIM_TRY(plim__safetensors_find(&tensor, s->file, s->l->entry[index].name, err));
    PLIM_TRY(plim__array_read(s->os, s->fd, bytes, n, tensor.source.offset + offset, s->file->path, err));
    s->os->drop_cache(s->os->self, s->fd, tensor.source.offset + offset, n);
    return PLIM_OK;
}

static plim_status load_entry(plim_plan *plan, source *s, uint32_t i, plim_error *err)
{
    plim__array_file tensor;
    const plim__tensor_spec *spec = &s->l->spec[i];
    PLIM_TRY(plim__safetensors_find(&tensor, s->file, spec->name, err));
    if (tensor.dtype != spec->dtype || !plim__shape_equal(&tensor.shape, &spec->shape))
        return plim__array_fail(err, PLIM_E_SHAPE, s->file->path, tensor.source.offset, "'%.80s' has another type or shape than the model's", spec->name);
    return plim__parameter_put(plan, s->l->entry[i].value, s->l->entry[i].form, (plim__tensor_reader){s, read_tensor}, i, err);
}

static plim_status load_list(plim_trainer *t, const list *l, const plim__safetensors *f, plim_error *err)
{
    plim__stat stat;
    source s = {.os = t->plan->os, .file = f, .l = l};
    PLIM_TRY(plim__file_open(&s.fd, &stat, s.os, f->path, err));
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < l->n && status == PLIM_OK; i++) status = load_entry(t->plan, &s, i, err);
    s.os->close(s.os->self, s.fd);
    return status;
}

/* Plans follow from budget, baseline and threads, and the bits of a sum from the plan. */
plim_status plim__checkpoint_settings(plim_settings *set, const char *path, plim_error *err)
{
    static const char *const key[] = {"plimsoll.memory", "plimsoll.baseline", "plimsoll.threads"};
    enum { MEMORY, BASELINE, THREADS, KEYS };
    plim__safetensors f;
    uint64_t was[KEYS];
    PLIM_TRY(plim__safetensors_open(&f, &plim__os_linux, path, plim__alloc_from(set), err));
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < KEYS && status == PLIM_OK; i++) status = fact_in(&f, key[i], &was[i], err);
    plim__safetensors_free(&f);
    if (status != PLIM_OK) return status;
    if (!set->memory) set->memory = was[MEMORY];
    if (!set->baseline) set->baseline = was[BASELINE];
    if (!set->threads && was[THREADS] <= UINT32_MAX) set->threads = (uint32_t)was[THREADS];
    return PLIM_OK;
}

plim_status plim__trainer_resume(plim_trainer *t, const char *path, plim_error *err)
{
    plim__safetensors f;
    list l = {0};
    uint64_t step = 0;
    PLIM_TRY(plim__safetensors_open(&f, t->plan->os, path, t->alloc, err));
    plim_status status = check_facts(t, &f, &step, err);
    if (status == PLIM_OK) status = list_states(&l, t, err);
    if (status == PLIM_OK) status = load_list(t, &l, &f, err);
    if (status == PLIM_OK) t->step = step;
    free_list(&l, &t->alloc);
    plim__safetensors_free(&f);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- weights */

plim_status plim_trainer_can_save(const plim_trainer *t, const char *path, plim_error *err)
{
    return plim__model_save_check(t->model->model, t->plan->os, t->model_path, path, err);
}

plim_status plim_trainer_save(plim_trainer *t, const char *path, plim_error *err)
{
    plim__parameters_now now;
    PLIM_FAIL_IF(!t->plan->run, err, PLIM_E_INVALID, "a step failed: there is nothing to save");
    plim__parameters_now_open(&now, t->plan, t->model->model, t->seed, false);
    const plim_status status = plim__model_save(t->model->model, t->plan->os, plim__parameters_now_reader(&now), t->model_path, path, err);
    const plim_status closed = plim__parameters_now_close(&now, status == PLIM_OK ? err : NULL);
    return status == PLIM_OK ? closed : status;
}
