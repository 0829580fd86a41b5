#include "cli/saved_request.h"
#include "cli/machine.h"

void plim__emit_saved(plim__json *json, const plim_saved_request *r)
{
    char hash[24];
    snprintf(hash, sizeof hash, "%016llx", (unsigned long long)r->model.hash);
    plim__json_object(json, "saved");
    plim__json_uint(json, "format", PLIM_SAVED_PLAN_FORMAT);
    plim__json_string(json, "version", r->version);
    plim__json_object(json, "model");
    plim__json_string(json, "path", r->model_path);
    plim__json_uint(json, "bytes", r->model.bytes);
    plim__json_int(json, "modified_ns", r->model.modified_ns);
    plim__json_string(json, "fnv1a64", hash);
    plim__json_end(json);
    plim__json_int(json, "batch", r->options.batch);
    plim__json_short_object(json, "dims");
    for (uint32_t i = 0; i < r->options.n_dims; i++) plim__json_int(json, r->options.dim[i].name, r->options.dim[i].value);
    plim__json_end(json);
    plim__json_string(json, "optimizer", r->options.optimizer);
    plim__json_string(json, "loss", r->options.loss);
    plim__json_string(json, "narrow", r->options.narrow);
    plim__json_uint(json, "memory_bytes", r->memory);
    plim__json_uint(json, "baseline_bytes", r->baseline);
    plim__json_uint(json, "threads", r->threads);
    plim__json_string(json, "spill_dir", r->spill_dir);
    plim__json_machine(json, "machine", r->machine);
    plim__json_end(json);
}
