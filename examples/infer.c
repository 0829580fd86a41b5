/* A model over an array file of any length, inside a memory budget.
 *
 *     infer model.json weights.safetensors x.npy y.npy 64M
 *
 * Build: cc -o infer infer.c $(pkg-config --cflags --libs plimsoll) */
#include <plimsoll/plimsoll.h>

#include <stdio.h>

int main(int argc, char **argv)
{
    if (argc != 6) {
        fprintf(stderr, "usage: %s MODEL WEIGHTS.safetensors X.npy Y.npy MEMORY\n", argv[0]);
        return 2;
    }
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    plim_inference *inference = NULL;
    plim_run_facts facts;
    const plim_model_options how = {.weights = argv[2]};
    const plim_binding x = {.name = "", .path = argv[3]}, y = {.name = "", .path = argv[4]};

    plim_status status = plim_bytes_parse(&set.memory, argv[5], 0, &err);
    if (status == PLIM_OK) status = plim_inference_new(&inference, argv[1], &how, &x, 1, &y, 1, &set, &err);
    if (status == PLIM_OK) status = plim_inference_run(inference, 1, NULL, &facts, &err);
    char used[32];
    if (status == PLIM_OK) printf("used %s in %.3f s\n", plim_bytes_format(used, sizeof used, facts.peak_rss_bytes), facts.seconds);
    else fprintf(stderr, "%s\n", err.message);
    plim_inference_free(&inference);
    return status == PLIM_OK ? 0 : err.code == PLIM_E_BUDGET ? 3 : 1;
}
