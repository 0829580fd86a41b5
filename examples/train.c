/* A model trained on array files and run again, inside a memory budget.
 *
 *     train model.json x.npy y.npy trained.safetensors 64M
 *
 * y holds classes. Planning comes first: a budget that is too small is refused before any work is done, with the budget that would do.
 *
 * Build: cc -o train train.c $(pkg-config --cflags --libs plimsoll) */
#include <plimsoll/plimsoll.h>

#include <stdio.h>

static int complain(const plim_error *err)
{
    char need[32];
    fprintf(stderr, "%s\n", err->message);
    if (err->code == PLIM_E_BUDGET) fprintf(stderr, "the smallest budget that works: %s\n", plim_bytes_format(need, sizeof need, err->need));
    return err->code == PLIM_E_BUDGET ? 3 : 1;
}

static plim_status train(plim_trainer *t, const char *out, plim_error *err)
{
    plim_train_facts now;
    plim_status status = plim_trainer_facts(t, &now, err);
    while (status == PLIM_OK && now.step < now.steps) {
        status = plim_trainer_step(t, &now, err);
        if (status == PLIM_OK && now.step % 10 == 0) printf("step %llu: loss %.4f, accuracy %.2f\n", (unsigned long long)now.step, now.loss, now.accuracy);
    }
    return status == PLIM_OK ? plim_trainer_save(t, out, err) : status;
}

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s MODEL X.npy Y.npy OUT.safetensors MEMORY\n", argv[0]);
        return 2;
    }
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    plim_trainer *trainer = NULL;
    const plim_binding x = {.name = "", .path = argv[2]};
    const plim_train_options how = {.model = {.batch = 8, .optimizer = "adam", .loss = "sparse-ce"}, .input = &x, .n_inputs = 1,
                                    .target = {.name = "target", .path = argv[3]}, .epochs = 10, .rate = 0.05};

    if (plim_bytes_parse(&set.memory, argv[5], 0, &err) || plim_trainer_new(&trainer, argv[1], &how, &set, &err)) return complain(&err);
    char planned[32];
    printf("planned peak %s\n", plim_bytes_format(planned, sizeof planned, plim_plan_facts(plim_trainer_plan(trainer))->planned_peak_bytes));
    const plim_status status = train(trainer, argv[4], &err);
    plim_trainer_free(&trainer);
    return status == PLIM_OK ? 0 : complain(&err);
}
