/* A model trained on batches that the program makes itself, inside a memory budget: no file holds the samples.
 *
 *     train_batches model.json trained.safetensors 64M
 *
 * The model has one input and classes as its output; here the class of a sample is the place of the largest of its first numbers. A batch is written
 * straight into memory that the plan has counted, and depends on nothing but the number of its step: so the training could be stopped and resumed.
 *
 * Build: cc -o train_batches train_batches.c $(pkg-config --cflags --libs plimsoll) */
#include <plimsoll/plimsoll.h>

#include <stdio.h>

enum { CLASSES = 5, STEPS = 300 };

/* A number in [-1, 1) that follows from `seed` and `i`. */
static float number(uint64_t seed, uint64_t i)
{
    uint64_t x = (seed + 1) * 0x9e3779b97f4a7c15u + i * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return (float)(x >> 40) / (float)(1u << 23) - 1;
}

static plim_status fill(void *ctx, uint64_t step, const plim_batch_part *part, uint32_t n_parts)
{
    const uint64_t seed = *(const uint64_t *)ctx + step;
    const plim_batch_part *x = &part[0], *y = &part[1];
    if (n_parts != 2 || x->dtype != PLIM_F32 || x->shape.rank != 2 || x->shape.dim[1] < CLASSES || y->dtype != PLIM_I64) return PLIM_E_SHAPE;
    const int64_t samples = x->shape.dim[0], width = x->shape.dim[1];
    for (int64_t i = 0; i < samples; i++) {
        float *row = (float *)x->data + i * width;
        int64_t largest = 0;
        for (int64_t k = 0; k < width; k++) row[k] = number(seed, (uint64_t)(i * width + k));
        for (int64_t k = 1; k < CLASSES; k++)
            if (row[k] > row[largest]) largest = k;
        ((int64_t *)y->data)[i] = largest;
    }
    return PLIM_OK;
}

static int complain(const plim_error *err)
{
    fprintf(stderr, "%s\n", err->message);
    return err->code == PLIM_E_BUDGET ? 3 : 1;
}

static plim_status train(plim_trainer *t, const char *out, plim_error *err)
{
    plim_train_facts now;
    plim_status status = plim_trainer_facts(t, &now, err);
    while (status == PLIM_OK && now.step < now.steps) {
        status = plim_trainer_step(t, &now, err);
        if (status == PLIM_OK && now.step % 100 == 0)
            printf("step %llu: loss %.4f, accuracy %.2f\n", (unsigned long long)now.step, now.loss, now.accuracy);
    }
    return status == PLIM_OK ? plim_trainer_save(t, out, err) : status;
}

int main(int argc, char **argv)
{
    if (argc != 4) {
        fprintf(stderr, "usage: %s MODEL OUT.safetensors MEMORY\n", argv[0]);
        return 2;
    }
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    plim_trainer *trainer = NULL;
    uint64_t seed = 7;
    const plim_train_options how = {.model = {.batch = 64, .optimizer = "adam", .loss = "sparse-ce"}, .fill = fill, .fill_ctx = &seed, .steps = STEPS,
                                    .rate = 0.02};

    if (plim_bytes_parse(&set.memory, argv[3], 0, &err) || plim_trainer_new(&trainer, argv[1], &how, &set, &err)) return complain(&err);
    const plim_status status = train(trainer, argv[2], &err);
    uint64_t now = 0, peak = 0;
    plim_resident_read(&now, &peak, NULL);
    if (status == PLIM_OK && peak <= plim_plan_facts(plim_trainer_plan(trainer))->planned_peak_bytes) printf("inside the planned peak\n");
    plim_trainer_free(&trainer);
    return status == PLIM_OK ? 0 : complain(&err);
}
