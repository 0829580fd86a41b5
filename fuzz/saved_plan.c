/* Any bytes as a saved plan, through a system whose one file is the input. What is accepted has values that options may have, and comparing it with
 * some facts finds a difference or none, with a message that names the file. */
#include "one_file.h"
#include "report/saved_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_file file = {.path = "plan.json", .data = data, .size = size};
    const plim__os os = one_file_os(&file);
    const plim_facts now = {
        .budget_bytes = 1000000, .fits = true, .n_moves = 1, .move = {{"split", "axis 0 of x", 2, 0, 0}}, .peak_step = "step 1 of 2", .n_peak = 1,
        .peak = {{.name = "w", .shape = {2, {2, 3}}, .dtype = PLIM_F32, .bytes = 24, .why = "read"}},
    };
    plim_saved_plan *s;
    plim_error err = {0};
    if (plim__saved_plan_read(&s, &os, "plan.json", (plim__alloc){0}, &err) != PLIM_OK) {
        CHECK(!s && err.code != PLIM_OK && strstr(err.message, "plan.json"));
        return 0;
    }
    const plim_saved_request *r = plim_saved_plan_request(s);
    CHECK(err.code == PLIM_OK && r->model_path[0] && r->version[0] && r->memory > 0 && r->baseline > 0 && r->threads > 0 && r->options.batch >= 0);
    for (uint32_t i = 0; i < r->options.n_dims; i++) CHECK(r->options.dim[i].name && r->options.dim[i].value > 0);
    const plim_status status = plim__saved_plan_compare(s, &now, &err);
    CHECK(status == PLIM_OK || ((status == PLIM_E_INVALID || status == PLIM_E_FORMAT) && strstr(err.message, "plan.json")));
    plim_saved_plan_free(&s);
    CHECK(!s);
    return 0;
}
