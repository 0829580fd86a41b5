/* Training steps as graphs: those of the models in tests/models, by their counts, and those of two tiny networks in f64, by their numbers: every
 * gradient against differences and one step of Adam against its formula, whole and cut. */
#include "unit.h"

#include "files.h"
#include "grads.h"
#include "models/training.h"

#include <dirent.h>

#define VALUES 512

/* --------------------------------------------------------------------------------------------------- models from files */

/* What plim__model_train made of a model. */
typedef struct counts {
    uint64_t params, trained, updated; /* tensors: all, by the optimizer, by themselves */
    uint64_t trained_numbers, other_numbers;
} counts;

static uint64_t numbers_of(const plim_graph *g, uint32_t v) { return g->value[v].bytes / plim_dtype_bytes(g->value[v].dtype); }

static uint32_t replacement_of(const plim_graph *g, uint32_t in)
{
    uint32_t out = PLIM__NONE, n = 0;
    for (uint32_t i = 0; i < g->n_states; i++)
        if (g->state[i].in == in) out = g->state[i].out, n++;
    assert_true(n <= 1);
    return out;
}

static void expect_type(const plim_graph *g, uint32_t v, uint32_t as)
{
    assert_true(v < g->n_values);
    assert_int_equal(g->value[v].dtype, g->value[as].dtype);
    assert_true(plim__shape_equal(&g->value[v].shape, &g->value[as].shape));
}

/* Everything that is trained has a gradient, is replaced, and so is what the optimizer keeps. */
static counts check_step(const plim__model *m, const plim__train_graph *t, uint32_t n_states)
{
    const plim_graph *g = m->graph;
    counts c = {.params = m->n_params, .trained = t->n_trained};
    for (uint32_t i = 0; i < t->n_trained; i++) {
        const plim__trained *p = &t->trained[i];
        const uint32_t v = m->param[p->param].value;
        assert_true(m->param[p->param].trainable);
        expect_type(g, p->gradient, v);
        expect_type(g, replacement_of(g, v), v);
        for (uint32_t k = 0; k < n_states; k++) expect_type(g, p->state[k], v);
        for (uint32_t k = 0; k < n_states; k++) expect_type(g, replacement_of(g, p->state[k]), v);
        c.trained_numbers += numbers_of(g, v);
    }
    for (uint32_t i = 0; i < m->n_params; i++) {
        c.updated += m->param[i].update != PLIM__NONE;
        if (m->param[i].update != PLIM__NONE) assert_int_equal(replacement_of(g, m->param[i].value), m->param[i].update);
        if (!m->param[i].trainable) c.other_numbers += numbers_of(g, m->param[i].value);
    }
    assert_int_equal(g->n_states, t->n_trained * (1 + n_states) + c.updated);
    assert_int_equal(g->n_outputs, t->accuracy == PLIM__NONE ? 1 : 2);
    assert_int_equal(g->output[0].value, t->loss);
    assert_int_equal(g->value[t->loss].shape.rank, 0);
    if (t->accuracy != PLIM__NONE) assert_int_equal(g->output[1].value, t->accuracy);
    return c;
}

static counts train_file(const char *name, const char *path, const char *optimizer, const char *loss)
{
    plim__model *m;
    plim__training how = {0};
    plim__train_graph t;
    plim_error err = {0};
    const plim__model_options options = {.batch = 8, .training = true};
    assert_int_equal(plim__optimizer_named(&how.optimizer, optimizer, &err), PLIM_OK);
    assert_int_equal(plim__loss_named(&how.loss, loss, &err), PLIM_OK);
    if (plim__model_read(&m, path, &options, (plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s: %s", name, err.message);
    const uint32_t forward = m->graph->n_nodes;
    assert_int_equal(m->graph->value[m->input[0].value].shape.dim[0], 8);
    if (plim__model_train(&t, m, &how, &err) != PLIM_OK) fail_msg("%s: %s", name, err.message);
    const counts c = check_step(m, &t, plim__optimizer_states(how.optimizer.kind));
    printf("# %s: %u nodes to the output, %u with a step of training; %u values\n", name, forward, m->graph->n_nodes, m->graph->n_values);
    plim__train_graph_free(&t, m);
    plim__model_free(&m);
    return c;
}

static void test_gpt(void **state)
{
    (void)state;
    char command[512];
    snprintf(command, sizeof command, FILES_PYTHON " %s/tests/models/make_gpt.py %s", PLIM_SOURCE_DIR, files_dir);
    if (access(FILES_PYTHON, X_OK) != 0) {
        printf("# SKIPPED gpt: there is no " FILES_PYTHON " to write the model with\n");
        skip();
    }
    assert_int_equal(system(command), 0);
    const counts c = train_file("gpt", files_path("gpt.onnx"), "adam", "sparse-ce-logits");
    assert_int_equal(c.params, 101);
    assert_int_equal(c.trained, 101);
    assert_int_equal(c.trained_numbers, 14585856);
}

static const struct {
    const char *name;
    counts want;
} known[] = {
    {"deep.json", {14, 14, 0, 18305290, 0}},
    {"resnet50.json", {320, 214, 106, 25583592, 53120}}, /* as Keras' own summary counts */
    {"slim.json", {6, 6, 0, 76938, 0}},
    {"small.json", {4, 4, 0, 1270986, 0}},
    {"unet.json", {36, 36, 0, 482033, 0}},
    {"wide.json", {4, 4, 0, 83559626, 0}},
};

static void check_known(const char *name)
{
    char path[512];
    size_t k = 0;
    while (k < COUNT_OF(known) && strcmp(known[k].name, name) != 0) k++;
    if (k == COUNT_OF(known)) fail_msg("%s has no row here", name);
    snprintf(path, sizeof path, "%s/tests/models/%s", PLIM_SOURCE_DIR, name);
    const counts got = train_file(name, path, "adam", "mse"), *want = &known[k].want;
    if (memcmp(&got, want, sizeof got) != 0)
        fail_msg("%s: %llu parameters, %llu trained, %llu by themselves, %llu numbers and %llu that are not trained", name,
                 (unsigned long long)got.params, (unsigned long long)got.trained, (unsigned long long)got.updated,
                 (unsigned long long)got.trained_numbers, (unsigned long long)got.other_numbers);
}

static void test_architectures(void **state)
{
    (void)state;
    struct dirent **list;
    uint32_t seen = 0;
    const int n = scandir(PLIM_SOURCE_DIR "/tests/models", &list, NULL, alphasort);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        const char *dot = strrchr(list[i]->d_name, '.');
        if (dot && strcmp(dot, ".json") == 0) {
            check_known(list[i]->d_name);
            seen++;
        }
        free(list[i]);
    }
    free(list);
    assert_int_equal(seen, COUNT_OF(known));
}

/* ------------------------------------------------------------------------------------------------------- tiny networks */

#define OK(call) do { plim_error err = {0}; if ((call) != PLIM_OK) fail_msg("%s", err.message); } while (0)

typedef struct net {
    plim__model *m;
    plim__train_graph t;
    void *data[VALUES];
    parts_rng rng;
} net;

static uint32_t param(net *f, const char *name, const plim_shape *shape, bool trainable)
{
    plim__param p = {.trainable = trainable, .init = PLIM__INIT_ZEROS};
    uint32_t v;
    snprintf(p.name, sizeof p.name, "%s", name);
    OK(plim__model_param(f->m, &p, PLIM_F64, shape, NULL, &v, &err));
    return v;
}

static uint32_t dense(net *f, uint32_t x, int64_t in, int64_t out)
{
    plim_graph *g = f->m->graph;
    uint32_t v;
    OK(plim__op_matmul(g, x, param(f, "weight", &(plim_shape){2, {in, out}}, true), PLIM_F64, &v, &err));
    OK(plim__op_float2(g, PLIM__EW_ADD, v, param(f, "bias", &(plim_shape){1, {out}}, true), &v, &err));
    return v;
}

/* Five samples of four numbers, six units, three classes. */
static void build_dense(net *f)
{
    uint32_t v;
    OK(plim__model_input(f->m, "x", PLIM_F64, &(plim_shape){2, {5, 4}}, 0, &v, &err));
    v = dense(f, v, 4, 6);
    OK(plim__op_activation(f->m->graph, PLIM__RELU, v, 0, 0, &v, &err));
    OK(plim__model_output(f->m, "y", dense(f, v, 6, 3), 0, &err));
}

/* The running statistic `name`, which becomes 0.9 of itself and 0.1 of `now`. */
static void running(net *f, const char *name, uint32_t now)
{
    plim_graph *g = f->m->graph;
    uint32_t a, b, v = param(f, name, &(plim_shape){1, {3}}, false);
    OK(plim__op_float_const(g, PLIM__EW_MUL, v, 0.9, &a, &err));
    OK(plim__op_float_const(g, PLIM__EW_MUL, now, 0.1, &b, &err));
    OK(plim__op_float2(g, PLIM__EW_ADD, a, b, &v, &err));
    f->m->param[f->m->n_params - 1].update = v;
}

/* Four images of two channels: a convolution, a norm by the batch's own statistics, a maximum, one dense layer. */
static void build_image(net *f)
{
    plim_graph *g = f->m->graph;
    uint32_t v, mean, var;
    OK(plim__model_input(f->m, "x", PLIM_F64, &(plim_shape){4, {4, 2, 6, 6}}, 0, &v, &err));
    const plim__conv conv = {.space = 2, .stride = {1, 1}, .dilation = {1, 1}, .before = {1, 1}, .after = {1, 1}, .groups = 1};
    OK(plim__op_conv(g, v, param(f, "kernel", &(plim_shape){4, {3, 2, 3, 3}}, true), &conv, &v, &err));
    const uint32_t scale = param(f, "scale", &(plim_shape){1, {3}}, true), shift = param(f, "shift", &(plim_shape){1, {3}}, true);
    OK(plim__op_batch_norm_training(g, v, 1, scale, shift, 1e-3, &v, &mean, &var, &err));
    running(f, "mean", mean);
    running(f, "variance", var);
    const plim__pool pool = {.space = 2, .size = {2, 2}, .stride = {2, 2}, .dilation = {1, 1}};
    OK(plim__op_pool(g, v, &pool, &v, &err));
    OK(plim__op_reshape(g, v, &(plim_shape){2, {4, 27}}, &v, &err));
    OK(plim__model_output(f->m, "y", dense(f, v, 27, 2), 0, &err));
}

static double between(parts_rng *rng, double lo, double hi) { return lo + (hi - lo) * ((double)parts_random(rng, 1u << 24) + 0.5) / (1u << 24); }

/* Random numbers in [-1, 1]; one target is no class; the optimizer is in its third step, and its mean squares are positive. */
static void fill(net *f)
{
    const plim_graph *g = f->m->graph;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].kind != PLIM__VALUE_FILE) continue;
        f->data[v] = parts_new(&g->value[v]);
        for (uint64_t i = 0; i < numbers_of(g, v); i++)
            parts_set(f->data[v], g->value[v].dtype, i, g->value[v].dtype == PLIM_I64 ? (double)(i % 4) : between(&f->rng, -1, 1));
    }
    parts_set(f->data[f->t.rate], PLIM_F32, 0, 0.01);
    parts_set(f->data[f->t.step], PLIM_F32, 0, 3);
    for (uint32_t i = 0; i < f->t.n_trained; i++) {
        const uint32_t squares = f->t.trained[i].state[1];
        for (uint64_t k = 0; k < numbers_of(g, squares); k++) ((double *)f->data[squares])[k] = between(&f->rng, 0.01, 1);
    }
}

static void net_new(net *f, void (*build)(net *f), plim__loss loss)
{
    plim__training how = {.loss = loss};
    *f = (net){.rng = {7}};
    OK(plim__optimizer_named(&how.optimizer, "adam", &err));
    OK(plim__model_new(&f->m, NULL, (plim__alloc){0}, &err));
    build(f);
    OK(plim__model_train(&f->t, f->m, &how, &err));
    assert_true(f->m->graph->n_values <= VALUES);
    fill(f);
}

static void net_free(net *f)
{
    parts_free(f->m->graph, f->data);
    plim__train_graph_free(&f->t, f->m);
    plim__model_free(&f->m);
}

static void check_gradients(net *f, parts_mode mode)
{
    const plim_graph *g = f->m->graph;
    const grads_how how = {.h = 1e-5, .atol = 1e-9, .rtol = 1e-7, .mode = mode};
    for (uint32_t i = 0; i < f->t.n_trained; i++) {
        const plim__param *p = &f->m->param[f->t.trained[i].param];
        const char *wrong = grads_compare(g, f->data, f->t.loss, PLIM__NONE, p->value, f->t.trained[i].gradient, &how, &f->rng);
        if (wrong) fail_msg("%s: %s", p->name, wrong);
    }
}

static void expect_close(const char *name, const char *what, double got, double want)
{
    if (!parts_close(got, want, 1e-13, 1e-12)) fail_msg("%s: %s is %.17g, not %.17g", name, what, got, want);
}

/* Kingma and Ba's algorithm 1 with the values that people use. */
static void check_adam(net *f, parts_mode mode)
{
    const plim_graph *g = f->m->graph;
    const double rate = (double)*(float *)f->data[f->t.rate], beta1 = 0.9, beta2 = 0.999, t = 3;
    parts_run(g, f->data, mode, &f->rng);
    for (uint32_t i = 0; i < f->t.n_trained; i++) {
        const plim__trained *p = &f->t.trained[i];
        const uint32_t v = f->m->param[p->param].value;
        const char *name = f->m->param[p->param].name;
        const double *at = f->data[v], *gradient = f->data[p->gradient], *m = f->data[p->state[0]], *s = f->data[p->state[1]];
        const double *next = f->data[replacement_of(g, v)], *next_m = f->data[replacement_of(g, p->state[0])];
        const double *next_s = f->data[replacement_of(g, p->state[1])];
        for (uint64_t k = 0; k < numbers_of(g, v); k++) {
            const double mean = beta1 * m[k] + (1 - beta1) * gradient[k], square = beta2 * s[k] + (1 - beta2) * gradient[k] * gradient[k];
            expect_close(name, "the mean", next_m[k], mean);
            expect_close(name, "the mean square", next_s[k], square);
            expect_close(name, "the new value", next[k],
                         at[k] - rate * (mean / (1 - pow(beta1, t))) / (sqrt(square / (1 - pow(beta2, t))) + 1e-8));
        }
    }
}

static void check_net(void (*build)(net *f), plim__loss loss, uint32_t n_trained)
{
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        net f;
        net_new(&f, build, loss);
        assert_int_equal(f.t.n_trained, n_trained);
        check_step(f.m, &f.t, 2);
        check_gradients(&f, (parts_mode)mode);
        check_adam(&f, (parts_mode)mode);
        net_free(&f);
    }
}

static void test_dense_net(void **state)
{
    (void)state;
    check_net(build_dense, PLIM__LOSS_SPARSE_LOGITS, 4);
    check_net(build_dense, PLIM__LOSS_CROSS_LOGITS, 4);
    check_net(build_dense, PLIM__LOSS_MSE, 4);
}

static void test_image_net(void **state)
{
    (void)state;
    check_net(build_image, PLIM__LOSS_MSE, 5);
}

/* The statistics of the convolution's output, which the norm's node gives, move the running ones. */
static void test_running_statistics(void **state)
{
    (void)state;
    for (int mode = PARTS_WHOLE; mode <= PARTS_MERGED; mode++) {
        net f;
        net_new(&f, build_image, PLIM__LOSS_MSE);
        const plim_graph *g = f.m->graph;
        parts_run(g, f.data, (parts_mode)mode, &f.rng);
        const uint32_t conv = g->node[0].out[0];
        assert_int_equal(g->node[0].op, PLIM__OP_CONV);
        const double *y = f.data[conv];
        for (int c = 0; c < 3; c++) {
            double sum = 0, squares = 0;
            for (int i = 0; i < 4 * 36; i++) sum += y[i / 36 * 108 + c * 36 + i % 36];
            const double mean = sum / 144;
            for (int i = 0; i < 4 * 36; i++) squares += pow(y[i / 36 * 108 + c * 36 + i % 36] - mean, 2);
            const double now[2] = {mean, squares / 144};
            for (uint32_t k = 0; k < 2; k++) {
                const plim__param *p = &f.m->param[3 + k];
                const double before = ((double *)f.data[p->value])[c], after = ((double *)f.data[p->update])[c];
                expect_close(p->name, "the running statistic", after, 0.9 * before + 0.1 * now[k]);
            }
        }
        net_free(&f);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_dense_net), cmocka_unit_test(test_image_net), cmocka_unit_test(test_running_statistics), cmocka_unit_test(test_gpt),
        cmocka_unit_test(test_architectures),
    };
    return cmocka_run_group_tests_name("models", tests, files_begin, files_end);
}
