/* One test of the ONNX project's layout:
 *
 *   FOLDER/model.onnx
 *   FOLDER/test_data_set_<n>/input_<k>.pb, output_<k>.pb      each a TensorProto, k its place in the model's list
 *
 * The inputs become constants of the graph, since many operators have to know shapes and axes when it is built; then it is planned and run as any
 * other program. At first constants are only looked at by who asks for them, so that everything else is done by the run; a model that needs to
 * compute with them while it is read (a shape made of an input) is read a second time, so that it may. */
#include "session/conformance.h"
#include "core/dtype.h"
#include "kernels/elementwise.h"
#include "session/program.h"
#include "run/run.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SETS_MAX 1000u
#define PORTS_MAX 64u

/* ---------------------------------------------------------------------------------------------------------- comparing */

static double number_at(const plim__tensor *t, uint64_t i)
{
    double d;
    plim__convert(&d, PLIM_F64, (const char *)t->data + i * plim_dtype_bytes(t->dtype), t->dtype, 1);
    return d;
}

static bool near(double a, double b, double rtol)
{
    if (isnan(a) || isnan(b)) return isnan(a) && isnan(b);
    if (isinf(a) || isinf(b)) return a == b;
    return fabs(a - b) <= PLIM__CONFORMANCE_ATOL + rtol * fabs(b);
}

static bool equal_at(const plim__tensor *a, const plim__tensor *b, uint64_t i)
{
    const uint64_t bytes = plim_dtype_bytes(a->dtype);
    const double rtol = a->dtype == PLIM_BF16 ? PLIM__CONFORMANCE_RTOL_BF16 : PLIM__CONFORMANCE_RTOL;
    if (plim__dtype_is_float(a->dtype)) return near(number_at(a, i), number_at(b, i), rtol);
    return memcmp((const char *)a->data + i * bytes, (const char *)b->data + i * bytes, bytes) == 0;
}

/* "[1,0,2]" of the i-th element. */
static char *place(char *text, size_t size, const plim_shape *s, uint64_t i)
{
    plim_shape at = {.rank = s->rank};
    for (uint32_t d = s->rank; d-- > 0; i /= (uint64_t)s->dim[d]) at.dim[d] = (int64_t)(i % (uint64_t)s->dim[d]);
    return plim_shape_format(text, size, &at);
}

/* Integers to the last digit: a double does not hold all of them. */
static char *element(char *text, size_t size, const plim__tensor *t, uint64_t i)
{
    int64_t whole;
    uint64_t plain;
    const char *at = (const char *)t->data + i * plim_dtype_bytes(t->dtype);
    plim__convert(&whole, PLIM_I64, at, t->dtype, 1);
    memcpy(&plain, &whole, sizeof plain);
    if (plim__dtype_is_float(t->dtype)) snprintf(text, size, "%.9g", number_at(t, i));
    else if (t->dtype == PLIM_U64) snprintf(text, size, "%llu", (unsigned long long)plain);
    else snprintf(text, size, "%lld", (long long)whole);
    return text;
}

bool plim__conforms(const plim__tensor *have, const plim__tensor *expected, char *why, size_t size)
{
    char a[160], b[160], at[160];
    uint64_t first = 0, wrong = 0;
    if (have->dtype != expected->dtype || !plim__shape_equal(&have->shape, &expected->shape)) {
        snprintf(why, size, "it is %s %s, expected is %s %s", plim_dtype_name(have->dtype), plim_shape_format(a, sizeof a, &have->shape),
                 plim_dtype_name(expected->dtype), plim_shape_format(b, sizeof b, &expected->shape));
        return false;
    }
    for (uint64_t i = 0; i < expected->count; i++) {
        if (equal_at(have, expected, i)) continue;
        if (wrong++ == 0) first = i;
    }
    if (wrong == 0) return true;
    snprintf(why, size, "element %s is %s, expected is %s; %llu of %llu differ", place(at, sizeof at, &expected->shape, first),
             element(a, sizeof a, have, first), element(b, sizeof b, expected, first), (unsigned long long)wrong,
             (unsigned long long)expected->count);
    return false;
}

/* ------------------------------------------------------------------------------------------------------------- one set */

typedef struct test {
    const char *folder;
    char model_path[4096];
    uint32_t set; /* number of the data set */
    plim__onnx_brief brief;
    plim__alloc alloc;
    const plim_settings *settings;
    plim_conformance *out;
} test;

typedef struct data_set {
    plim__tensor input[PORTS_MAX];
    plim__known known[PORTS_MAX];
    uint32_t n_inputs;
} data_set;

static plim_status path_of(const test *t, const char *kind, uint32_t k, char *path, size_t size, plim_error *err)
{
    const int n = snprintf(path, size, "%s/test_data_set_%u/%s_%u.pb", t->folder, t->set, kind, k);
    PLIM_FAIL_IF(n < 0 || (size_t)n >= size, err, PLIM_E_INVALID, "the path of '%.100s' is too long", t->folder);
    return PLIM_OK;
}

/* NumPy has no bf16, so that the tests' data are its bits as 16-bit integers where the model says bfloat16. */
static void settle_bf16(plim__tensor *tensor, uint64_t bf16, uint32_t bit)
{
    if (tensor->dtype == PLIM_U16 && bit < 64 && bf16 >> bit & 1) tensor->dtype = PLIM_BF16;
}

static plim_status read_inputs(const test *t, data_set *d, plim_error *err)
{
    char path[4096];
    PLIM_FAIL_IF(t->brief.n_inputs > PORTS_MAX, err, PLIM_E_UNSUPPORTED, "%u inputs; %u are supported", t->brief.n_inputs, PORTS_MAX);
    for (uint32_t k = 0; k < t->brief.n_inputs; k++) {
        PLIM_TRY(path_of(t, "input", k, path, sizeof path, err));
        if (access(path, F_OK) != 0 && errno == ENOENT) continue; /* nobody may read it; who does, finds it unbound */
        plim__tensor *in = &d->input[d->n_inputs];
        PLIM_TRY(plim__tensor_read(in, &plim__os_linux, path, t->alloc, err));
        settle_bf16(in, t->brief.bf16, k < 32 ? k : 64);
        d->known[d->n_inputs++] = (plim__known){.input = k, .dtype = in->dtype, .shape = in->shape, .data = in->data};
    }
    return PLIM_OK;
}

/* Reads the model and declares its outputs as results in memory. */
static plim_status build(const test *t, const data_set *d, bool fold, plim__model **model, plim_error *err)
{
    const plim__model_options options = {.known = d->known, .n_known = d->n_inputs, .fold_known = fold};
    PLIM_TRY(plim__onnx_read(model, t->model_path, &options, t->alloc, err));
    plim__model *m = *model;
    uint32_t given[PORTS_MAX];
    PLIM_FAIL_IF(m->n_outputs > PORTS_MAX, err, PLIM_E_UNSUPPORTED, "%u outputs; %u are supported", m->n_outputs, PORTS_MAX);
    PLIM_FAIL_IF(m->seed != PLIM__NONE, err, PLIM_E_UNSUPPORTED, "its result is random, so it cannot be compared");
    for (uint32_t i = 0; i < m->n_outputs; i++) {
        uint32_t same = 0;
        given[i] = m->output[i].value;
        while (given[same] != given[i]) same++;
        m->output[i].value = m->output[same].value;
        if (same < i) continue; /* the model gives it twice: one result for both */
        PLIM_TRY(plim__own_output(m->graph, &m->output[i].value, err));
        PLIM_TRY(plim__graph_output(m->graph, m->output[i].value, m->output[i].name, NULL, err));
    }
    return PLIM_OK;
}

/* Leaves out->why empty where output k is as expected. */
static plim_status compare(const test *t, const plim_plan *plan, const plim__port *port, uint32_t k, plim_error *err)
{
    char path[4096], why[400];
    const plim__value *v = &plan->graph->value[port->value];
    plim__tensor expected;
    plim__tensor have = {.dtype = v->dtype, .shape = v->shape, .data = (void *)plim__run_result(plan, port->value)};
    PLIM_TRY(path_of(t, "output", k, path, sizeof path, err));
    PLIM_TRY(plim__tensor_read(&expected, &plim__os_linux, path, t->alloc, err));
    settle_bf16(&expected, t->brief.bf16, k < 32 ? 32 + k : 64);
    have.count = expected.count;
    if (!plim__conforms(&have, &expected, why, sizeof why))
        snprintf(t->out->why, sizeof t->out->why, "output %u of set %u ('%.60s'): %s", k, t->set, port->name, why);
    plim__tensor_free(&expected, t->alloc);
    return PLIM_OK;
}

static plim_status run_model(const test *t, const plim__model *m, plim_error *err)
{
    plim_plan *plan = NULL;
    plim_status status;
    PLIM_TRY_DONE(plim__plan_new(&plan, m->graph, t->settings, &plim__os_linux, err));
    PLIM_TRY_DONE(plim_plan_run(plan, NULL, err));
    for (uint32_t k = 0; k < m->n_outputs && !t->out->why[0]; k++) PLIM_TRY_DONE(compare(t, plan, &m->output[k], k, err));
done:
    plim_plan_free(&plan);
    return status;
}

static plim_status run_set(const test *t, data_set *d, plim_error *err)
{
    plim__model *m = NULL;
    plim_status status = read_inputs(t, d, err);
    if (status == PLIM_OK) status = build(t, d, false, &m, err);
    if (status == PLIM_E_UNSUPPORTED && !m) {
        if (err) *err = (plim_error){0};
        status = build(t, d, true, &m, err);
    }
    if (status == PLIM_OK) status = run_model(t, m, err);
    plim__model_free(&m);
    for (uint32_t k = 0; k < PORTS_MAX; k++) plim__tensor_free(&d->input[k], t->alloc);
    return status;
}

/* ------------------------------------------------------------------------------------------------------------ the whole */

static bool has_set(const test *t, uint32_t set)
{
    char path[4200];
    snprintf(path, sizeof path, "%s/test_data_set_%u", t->folder, set);
    return access(path, F_OK) == 0;
}

static plim_status run_sets(test *t, plim_error *err)
{
    plim_status status = PLIM_OK;
    data_set *d = plim__new(&t->alloc, 1, sizeof *d, err);
    if (!d) return PLIM_E_NOMEM;
    if (!has_set(t, 0)) status = plim__fail(err, PLIM_E_FORMAT, "'%.200s' has no test_data_set_0", t->folder);
    for (t->set = 0; t->set < SETS_MAX && has_set(t, t->set) && status == PLIM_OK && !t->out->why[0]; t->set++) {
        memset(d, 0, sizeof *d);
        status = run_set(t, d, err);
    }
    plim__free(&t->alloc, d);
    return status;
}

plim_status plim_conformance_run(plim_conformance *out, const char *folder, const plim_settings *set, plim_error *err)
{
    test t = {.folder = folder, .alloc = plim__alloc_from(set), .settings = set, .out = out};
    plim_error inner = {0};
    *out = (plim_conformance){.verdict = PLIM_CONFORMANCE_PASSED};
    const int n = snprintf(t.model_path, sizeof t.model_path, "%s/model.onnx", folder);
    PLIM_FAIL_IF(n < 0 || (size_t)n + 64 >= sizeof t.model_path, err, PLIM_E_INVALID, "the path of '%.100s' is too long", folder);
    PLIM_FAIL_IF(access(t.model_path, F_OK) != 0, err, PLIM_E_INVALID, "'%.300s' has no model.onnx", folder);
    plim_status status = plim__onnx_brief_read(&t.brief, &plim__os_linux, t.model_path, t.alloc, &inner);
    snprintf(out->op, sizeof out->op, "%s", status == PLIM_OK ? t.brief.op : "?");
    if (status == PLIM_OK && !t.brief.numeric) {
        out->verdict = PLIM_CONFORMANCE_NOT_NUMERIC;
        snprintf(out->why, sizeof out->why, "%s", t.brief.other);
        return PLIM_OK;
    }
    if (status == PLIM_OK) status = run_sets(&t, &inner);
    if (status == PLIM_E_NOMEM) return plim__fail(err, status, "%s", inner.message);
    if (status != PLIM_OK) snprintf(out->why, sizeof out->why, "%s", inner.message);
    if (out->why[0]) out->verdict = status == PLIM_E_UNSUPPORTED ? PLIM_CONFORMANCE_UNSUPPORTED : PLIM_CONFORMANCE_FAILED;
    return PLIM_OK;
}
