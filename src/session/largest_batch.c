/* The largest batch that fits, found by trying: the model is read and planned at one batch after the other.
 *
 * Between a batch that fits and one that does not the next try is their geometric mean, while they are far apart, then the middle; so the tries are
 * about log2(log2(most)) to find the magnitude and log2(batch) to find the number. What a plan needs grows with the batch, so the number is the
 * only one at which fitting ends; should it not grow somewhere, it is one of those. */
#include "os/os.h"
#include "session/model_program.h"

#include <math.h>

typedef struct tries {
    const char *path;
    plim_model_options options;
    plim_settings set;
    plim_error refused;
    uint64_t started;
} tries;

/* @param fits  false where `refused` says why */
static plim_status try_batch(tries *t, int64_t batch, bool *fits, plim_error *err)
{
    plim_model *model = NULL;
    plim_plan *plan = NULL;
    plim_error why = {0};
    t->options.batch = batch;
    plim_status status = plim_model_new(&model, t->path, &t->options, &t->set, &why);
    if (status == PLIM_OK && model->batch != batch)
        status = plim__fail(&why, PLIM_E_INVALID, "no input of the model counts samples: there is no batch to choose");
    if (status == PLIM_OK) status = plim_model_plan(&plan, model, &t->set, &why);
    if (plan) { /* the same for every try */
        t->set.memory = plim_plan_facts(plan)->budget_bytes;
        t->set.baseline = plim_plan_facts(plan)->baseline_bytes;
    }
    plim_plan_free(&plan);
    plim_model_free(&model);
    *fits = status == PLIM_OK;
    t->refused = why;
    if (status == PLIM_E_BUDGET || (status == PLIM_E_OVERFLOW && batch > 1)) return PLIM_OK; /* beyond 64 bits is beyond any budget */
    if (status != PLIM_OK && err) *err = why;
    return status;
}

static bool late(const tries *t)
{
    const plim__os *os = &plim__os_linux;
    return t->set.seconds_max && os->clock_ns(os->self) - t->started > t->set.seconds_max * UINT64_C(1000000000);
}

static int64_t between(int64_t fits, int64_t too_many)
{
    if (too_many / fits < 4) return fits + (too_many - fits) / 2;
    const int64_t middle = (int64_t)sqrt((double)fits * (double)too_many);
    return middle <= fits ? fits + 1 : middle >= too_many ? too_many - 1 : middle;
}

plim_status plim_model_largest_batch(int64_t *out, const char *path, const plim_model_options *options, int64_t most, const plim_settings *set,
                                     plim_error *err)
{
    tries t = {.path = path, .options = options ? *options : (plim_model_options){0}, .set = *set};
    t.set.plan_anyway = false;
    t.started = plim__os_linux.clock_ns(plim__os_linux.self);
    bool fits;
    PLIM_FAIL_IF(most < 1, err, PLIM_E_INVALID, "a batch of at most %lld", (long long)most);
    PLIM_TRY(try_batch(&t, 1, &fits, err));
    if (!fits) {
        if (err) *err = t.refused;
        return t.refused.code;
    }
    int64_t best = 1, too_many = most;
    if (most > 1) PLIM_TRY(try_batch(&t, most, &fits, err));
    if (fits) best = most;
    while (too_many - best > 1 && !late(&t)) {
        const int64_t batch = between(best, too_many);
        PLIM_TRY(try_batch(&t, batch, &fits, err));
        if (fits) best = batch;
        else too_many = batch;
    }
    *out = best;
    return PLIM_OK;
}
