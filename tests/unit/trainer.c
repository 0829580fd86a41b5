/* Training through the public interface: batches that a function fills, validation between steps, and every allocation failing in turn. */
#include "unit.h"

#include "countdown.h"
#include "files.h"
#include "plimsoll/plimsoll.h"

#include <math.h>

enum { SAMPLES = 21, OTHERS = 13, WIDTH = 6, CLASSES = 3, BATCH = 4, STEPS = 7 };

static float x[SAMPLES][WIDTH], vx[OTHERS][WIDTH];
static int64_t y[SAMPLES], vy[OTHERS];

/* Numbers that look random, and a class that follows from them. */
static void make_samples(float (*rows)[WIDTH], int64_t *class, int64_t n, uint32_t seed)
{
    for (int64_t i = 0; i < n; i++) {
        int64_t largest = 0;
        for (int64_t k = 0; k < WIDTH; k++) {
            seed = seed * 1664525u + 1013904223u;
            rows[i][k] = (float)(seed >> 8) / (float)(1u << 23) - 1;
            if (k < CLASSES && rows[i][k] > rows[i][largest]) largest = k;
        }
        class[i] = largest;
    }
}

static int begin(void **state)
{
    static const char net[] =
        "{\"class_name\":\"Sequential\",\"config\":{\"name\":\"m\",\"layers\":["
        "{\"class_name\":\"InputLayer\",\"config\":{\"name\":\"in\",\"batch_input_shape\":[null,6]}},"
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"one\",\"units\":8,\"activation\":\"relu\"}},"
        "{\"class_name\":\"BatchNormalization\",\"config\":{\"name\":\"norm\",\"momentum\":0.5}},"
        "{\"class_name\":\"Dropout\",\"config\":{\"name\":\"drop\",\"rate\":0.25}},"
        "{\"class_name\":\"Dense\",\"config\":{\"name\":\"two\",\"units\":3,\"activation\":\"softmax\"}}]}}";
    if (files_begin(state)) return -1;
    make_samples(x, y, SAMPLES, 3);
    make_samples(vx, vy, OTHERS, 11);
    files_write("net.json", net, sizeof net - 1);
    files_write("x", x, sizeof x);
    files_write("y", y, sizeof y);
    files_write("vx", vx, sizeof vx);
    files_write("vy", vy, sizeof vy);
    return 0;
}

static plim_binding raw_x(const char *path, int64_t n)
{
    return (plim_binding){.name = "", .path = path, .raw = true, .dtype = PLIM_F32, .shape = {2, {n, WIDTH}}};
}

static plim_binding raw_y(const char *path, int64_t n)
{
    return (plim_binding){.name = "target", .path = path, .raw = true, .dtype = PLIM_I64, .shape = {1, {n}}};
}

/* Paths and bindings that options point to. */
typedef struct data {
    char path[5][128];
    plim_binding x, vx;
    plim_train_options how;
} data;

static void set_up(data *d, bool validate)
{
    static const char *const name[] = {"net.json", "x", "y", "vx", "vy"};
    *d = (data){0};
    for (int i = 0; i < 5; i++) snprintf(d->path[i], sizeof d->path[i], "%s", files_path(name[i]));
    d->x = raw_x(d->path[1], SAMPLES);
    d->vx = raw_x(d->path[3], OTHERS);
    d->how = (plim_train_options){.model = {.batch = BATCH, .optimizer = "adam", .loss = "sparse-ce"}, .input = &d->x, .n_inputs = 1,
                                  .target = raw_y(d->path[2], SAMPLES), .steps = STEPS, .rate = 0.05, .seed = 5, .in_order = true};
    if (!validate) return;
    d->how.validate = &d->vx;
    d->how.n_validate = 1;
    d->how.validate_target = raw_y(d->path[4], OTHERS);
}

static plim_settings settings(void)
{
    plim_settings set = plim_settings_default();
    set.memory = UINT64_C(512) << 20; /* whatever the sanitizers take */
    set.threads = 2;
    return set;
}

static plim_trainer *open_trainer(const data *d)
{
    const plim_settings set = settings();
    plim_trainer *t = NULL;
    plim_error err = {0};
    if (plim_trainer_new(&t, d->path[0], &d->how, &set, &err)) fail_msg("%s", err.message);
    return t;
}

static void run_steps(plim_trainer *t, double loss[STEPS], plim_validation_facts *each)
{
    plim_error err = {0};
    for (int i = 0; i < STEPS; i++) {
        plim_train_facts f;
        if (plim_trainer_step(t, &f, &err)) fail_msg("%s", err.message);
        loss[i] = f.loss;
        if (each && plim_trainer_validate(t, &each[i], &err)) fail_msg("%s", err.message);
    }
}

/* ------------------------------------------------------------------------------------------------------- batches */

typedef struct filler {
    uint64_t fail_at; /* a step, from 1, that fails once; 0: none */
    uint32_t calls;
} filler;

static plim_status fill(void *ctx, uint64_t step, const plim_batch_part *part, uint32_t n_parts)
{
    filler *f = ctx;
    f->calls++;
    assert_int_equal(n_parts, 2);
    assert_string_equal(part[0].name, "in");
    assert_string_equal(part[1].name, "target");
    assert_true(part[0].dtype == PLIM_F32 && part[0].shape.rank == 2 && part[0].shape.dim[0] == BATCH && part[0].shape.dim[1] == WIDTH);
    assert_true(part[1].dtype == PLIM_I64 && part[1].shape.rank == 1 && part[1].bytes == BATCH * sizeof(int64_t));
    assert_int_equal(part[0].bytes, BATCH * sizeof x[0]);
    if (step + 1 == f->fail_at) {
        f->fail_at = 0;
        memset(part[0].data, 0xff, part[0].bytes); /* half done */
        return PLIM_E_IO;
    }
    const uint64_t first = step % (SAMPLES / BATCH) * BATCH;
    memcpy(part[0].data, x[first], part[0].bytes);
    memcpy(part[1].data, &y[first], part[1].bytes);
    return PLIM_OK;
}

static void fill_instead(data *d, filler *f)
{
    d->how.n_inputs = 0;
    d->how.input = NULL;
    d->how.target.path = NULL;
    d->how.fill = fill;
    d->how.fill_ctx = f;
    d->how.fill_samples = SAMPLES;
}

static void filled_batches_train_as_files_do(void **state)
{
    (void)state;
    data d;
    double want[STEPS], got[STEPS];
    filler f = {0};
    set_up(&d, false);
    plim_trainer *t = open_trainer(&d);
    run_steps(t, want, NULL);
    plim_trainer_free(&t);
    fill_instead(&d, &f);
    t = open_trainer(&d);
    run_steps(t, got, NULL);
    for (int i = 0; i < STEPS; i++)
        if (!(fabs(got[i] - want[i]) < 1e-5)) fail_msg("step %d: %.9g, from files %.9g", i + 1, got[i], want[i]);
    assert_int_equal(f.calls, STEPS);
    plim_train_facts facts;
    plim_trainer_facts(t, &facts, NULL);
    assert_int_equal(facts.epoch_samples, 20);
    assert_int_equal(facts.left_out, 1);
    assert_int_equal(facts.epoch, 2);
    plim_trainer_free(&t);
}

static void a_batch_that_fails_can_be_tried_again(void **state)
{
    (void)state;
    data d;
    double want[STEPS];
    filler f = {0};
    set_up(&d, false);
    fill_instead(&d, &f);
    plim_trainer *t = open_trainer(&d);
    run_steps(t, want, NULL);
    plim_trainer_free(&t);
    f.fail_at = 4;
    t = open_trainer(&d);
    for (int i = 0; i < STEPS; i++) {
        plim_train_facts now;
        plim_error err = {0};
        plim_status status = plim_trainer_step(t, &now, &err);
        if (i == 3) {
            assert_int_equal(status, PLIM_E_IO);
            assert_non_null(strstr(err.message, "the batch of step 4 was not filled: PLIM_E_IO"));
            status = plim_trainer_step(t, &now, NULL);
        }
        assert_int_equal(status, PLIM_OK);
        assert_true(now.loss == want[i]); /* to the bit */
    }
    plim_trainer_free(&t);
}

static void refuse(const data *d, plim_status status, const char *message)
{
    const plim_settings set = settings();
    plim_trainer *t = NULL;
    plim_error err = {0};
    assert_int_equal(plim_trainer_new(&t, d->path[0], &d->how, &set, &err), status);
    assert_null(t);
    if (!strstr(err.message, message)) fail_msg("'%s' does not say '%s'", err.message, message);
}

static void batches_that_make_no_sense(void **state)
{
    (void)state;
    data d;
    filler f = {0};
    set_up(&d, false);
    fill_instead(&d, &f);
    d.how.steps = 0;
    d.how.fill_samples = 0;
    refuse(&d, PLIM_E_INVALID, "a number of steps");
    d.how.fill_samples = BATCH - 1;
    refuse(&d, PLIM_E_INVALID, "an epoch of 3 samples");
    set_up(&d, false);
    d.how.fill = fill;
    refuse(&d, PLIM_E_INVALID, "exclude each other");
    set_up(&d, false);
    d.how.target.path = NULL;
    refuse(&d, PLIM_E_INVALID, "no target");
    assert_int_equal(f.calls, 0);
}

/* ---------------------------------------------------------------------------------------------------- validation */

static void validation_changes_nothing(void **state)
{
    (void)state;
    data d;
    double want[STEPS], got[STEPS];
    plim_validation_facts each[STEPS], again;
    set_up(&d, false);
    plim_trainer *t = open_trainer(&d);
    run_steps(t, want, NULL);
    assert_int_equal(plim_trainer_validate(t, &again, NULL), PLIM_E_INVALID);
    plim_trainer_free(&t);
    set_up(&d, true);
    t = open_trainer(&d);
    run_steps(t, got, each);
    assert_int_equal(plim_trainer_validate(t, &again, NULL), PLIM_OK);
    assert_memory_equal(want, got, sizeof want);
    assert_true(again.loss == each[STEPS - 1].loss && again.accuracy == each[STEPS - 1].accuracy); /* nothing is random in it */
    for (int i = 0; i < STEPS; i++) {
        assert_int_equal(each[i].samples, OTHERS);
        assert_true(isfinite(each[i].loss) && each[i].accuracy >= 0 && each[i].accuracy <= 1);
        const double right = each[i].accuracy * OTHERS; /* a whole number of samples: none is left out or counted twice */
        assert_true(fabs(right - round(right)) < 1e-4);
    }
    assert_true(each[0].loss != each[STEPS - 1].loss);
    plim_trainer_free(&t);
}

static void validation_beside_filled_batches(void **state)
{
    (void)state;
    data d;
    double got[STEPS];
    plim_validation_facts each[STEPS];
    filler f = {0};
    set_up(&d, true);
    fill_instead(&d, &f);
    plim_trainer *t = open_trainer(&d);
    run_steps(t, got, each);
    assert_true(isfinite(each[STEPS - 1].loss));
    plim_trainer_free(&t);
}

/* ------------------------------------------------------------------------------------------------------ failures */

static plim_status train_a_little(const data *d, const plim_settings *set)
{
    plim_trainer *t = NULL;
    plim_train_facts f;
    plim_validation_facts v;
    plim_status status = plim_trainer_new(&t, d->path[0], &d->how, set, NULL);
    if (status == PLIM_OK) status = plim_trainer_step(t, &f, NULL);
    if (status == PLIM_OK) status = plim_trainer_validate(t, &v, NULL);
    if (status == PLIM_OK) status = plim_trainer_step(t, &f, NULL);
    plim_trainer_free(&t);
    return status;
}

/* Not every allocation, for planning has thousands of them: each time one that is a tenth further on. */
static void allocations_that_fail(void **state)
{
    (void)state;
    data d;
    set_up(&d, true);
    for (int from_then = 0; from_then < 2; from_then++) {
        bool failed = true;
        for (int64_t at = 0; failed; at += 1 + at / 10) {
            countdown c = {.left = at, .from_then = from_then};
            plim_settings set = settings();
            set.alloc = countdown_alloc;
            set.alloc_ctx = &c;
            const plim_status status = train_a_little(&d, &set);
            failed = c.failed > 0;
            if (c.live != 0) fail_msg("allocation %lld failed: %lld are left", (long long)at, (long long)c.live);
            if (status != (failed ? PLIM_E_NOMEM : PLIM_OK)) fail_msg("allocation %lld failed: %s", (long long)at, plim_status_name(status));
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(filled_batches_train_as_files_do),
        cmocka_unit_test(a_batch_that_fails_can_be_tried_again),
        cmocka_unit_test(batches_that_make_no_sense),
        cmocka_unit_test(validation_changes_nothing),
        cmocka_unit_test(validation_beside_filled_batches),
        cmocka_unit_test(allocations_that_fail),
    };
    return cmocka_run_group_tests(tests, begin, files_end);
}
