/* Any bytes as a program of the array language. What is refused is refused with a message and a place inside the text; what is accepted gives results
 * that are values of the graph, and gives results of the same types again. */
#include "expr/expr.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

enum { N_INPUTS = 5, MAX_RESULTS = 32 };

static plim_graph *world(plim__expr_input in[N_INPUTS])
{
    static const struct { const char *name; plim_dtype dtype; plim_shape shape; } inputs[N_INPUTS] = {
        {"x", PLIM_F32, {2, {400, 600}}}, {"y", PLIM_I8, {2, {400, 600}}}, {"b", PLIM_BOOL, {1, {600}}},
        {"k", PLIM_U64, {0, {0}}},        {"z", PLIM_F16, {3, {0, 3, 2}}},
    };
    plim_graph *g = NULL;
    const plim__source source = {.path = (char *)"fuzz"};
    CHECK(plim__graph_new(&g, (plim__alloc){0}, NULL) == PLIM_OK);
    for (uint32_t i = 0; i < N_INPUTS; i++) {
        in[i].name = inputs[i].name;
        CHECK(plim__graph_file(g, in[i].name, inputs[i].dtype, &inputs[i].shape, &source, &in[i].value, NULL) == PLIM_OK);
    }
    return g;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    plim__expr_input in[N_INPUTS];
    plim__expr_result res[MAX_RESULTS], again[MAX_RESULTS];
    uint32_t n = 0, n_again = 0;
    plim_error err = {0};
    char *text = malloc(size + 1);
    CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    plim_graph *g = world(in);
    const plim_status status = plim__expr_build(g, text, in, N_INPUTS, res, MAX_RESULTS, &n, &err);
    CHECK(err.code == status);
    if (status != PLIM_OK) {
        CHECK(n == 0 && err.message[0] && err.column >= 1 && (size_t)err.column <= size + 1);
    } else {
        CHECK(n >= 1 && n <= MAX_RESULTS && err.column == 0);
        for (uint32_t i = 0; i < n; i++) CHECK(res[i].value < g->n_values && memchr(res[i].name, 0, sizeof res[i].name));
        CHECK(plim__expr_build(g, text, in, N_INPUTS, again, MAX_RESULTS, &n_again, &err) == PLIM_OK && n_again == n);
        for (uint32_t i = 0; i < n; i++) {
            const plim__value *v = &g->value[res[i].value], *w = &g->value[again[i].value];
            CHECK(v->dtype == w->dtype && plim__shape_equal(&v->shape, &w->shape) && !strcmp(res[i].name, again[i].name));
        }
    }
    plim__graph_free(&g);
    free(text);
    return 0;
}
