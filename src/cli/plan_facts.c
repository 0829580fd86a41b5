#include "cli/plan_facts.h"

#include <stdlib.h>

void plim__emit_model(plim__emit *e, const plim_model_info *m)
{
    char text[256], count[32], what[64] = "inference", batch[64] = "";
    plim__emit_string(e, "model", NULL, m->name);
    plim__emit_string(e, "optimizer", NULL, m->training ? m->optimizer : NULL);
    plim__emit_string(e, "loss", NULL, m->training ? m->loss : NULL);
    plim__emit_count(e, "batch", NULL, (uint64_t)m->batch);
    plim__emit_count(e, "nodes", NULL, m->n_nodes);
    plim__emit_count(e, "narrowed", NULL, m->narrowed);
    plim__emit_bytes(e, "narrowed_bytes", NULL, m->narrowed_bytes);
    if (m->training) snprintf(what, sizeof what, "a step of %s on the loss %s", m->optimizer, m->loss);
    if (m->batch) snprintf(batch, sizeof batch, ", %lld sample%s at a time", (long long)m->batch, m->batch == 1 ? "" : "s");
    const uint32_t layers = m->n_layers - 1 - m->training; /* without the one that stands for none, and the loss */
    snprintf(text, sizeof text, "%s%s%u layer%s, %s parameters; %s%s", m->name, m->name[0] ? ": " : "", layers, layers == 1 ? "" : "s",
             plim_count_format(count, sizeof count, m->total.parameters), what, batch);
    plim__emit_string(e, NULL, "model", text);
    if (!m->narrowed) return;
    char saved[32];
    snprintf(text, sizeof text, "%u values that backward needs are kept in fewer bits: %s less. This changes the numbers", m->narrowed,
             plim_bytes_format(saved, sizeof saved, m->narrowed_bytes));
    plim__emit_string(e, NULL, "narrowed", text);
}

void plim__emit_budget(plim__emit *e, const plim_facts *f)
{
    plim__emit_bytes(e, "budget_bytes", "budget", f->budget_bytes);
    plim__emit_bool(e, "fits", NULL, f->fits);
    plim__emit_bytes(e, "planned_peak_bytes", "planned peak", f->planned_peak_bytes);
    plim__emit_bytes(e, "baseline_bytes", "  process", f->baseline_bytes);
    plim__emit_bytes(e, "extras_bytes", "  stacks, code", f->extras_bytes);
    plim__emit_bytes(e, "arena_bytes", "  arena", f->arena_bytes);
    plim__emit_bytes(e, "arena_bound_bytes", NULL, f->arena_bound_bytes);
    plim__emit_bytes(e, "reserve_bytes", "left to the kernel", f->reserve_bytes);
    plim__emit_bytes(e, "floor_bytes", "smallest budget", f->floor_bytes);
    plim__emit_count(e, "passes", "passes over the largest input", f->passes);
    plim__emit_bytes(e, "planned_read_bytes", "to read", f->read_bytes);
    plim__emit_bytes(e, "planned_write_bytes", "to write", f->write_bytes);
    plim__emit_count(e, "rejected_plans", NULL, f->rejected_plans);
}

void plim__emit_moves(plim__emit *e, const plim_facts *f)
{
    static const plim__emit_column columns[] = {
        {"kind", "move", false}, {"what", "what", false}, {"parts", "parts", true}, {"saves_bytes", "saves", true}, {"costs_seconds", "costs", true},
    };
    if (f->n_moves == 0 && !plim__emit_json(e)) return;
    plim__emit_table(e, "moves", columns, 5);
    for (uint32_t i = 0; i < f->n_moves; i++) {
        plim__emit_string(e, NULL, NULL, f->move[i].kind);
        plim__emit_string(e, NULL, NULL, f->move[i].what);
        plim__emit_count(e, NULL, NULL, f->move[i].parts);
        plim__emit_bytes(e, NULL, NULL, f->move[i].saves_bytes);
        plim__emit_number(e, NULL, NULL, "%.2f s", f->move[i].costs_seconds);
    }
    plim__emit_table_end(e);
}

static void peak_json(plim__json *j, const plim_facts *f)
{
    plim__json_object(j, "peak");
    plim__json_string(j, "step", f->peak_step);
    plim__json_list(j, "values");
    for (uint32_t i = 0; i < f->n_peak; i++) {
        const plim_peak_value *v = &f->peak[i];
        plim__json_short_object(j, NULL);
        plim__json_string(j, "name", v->name);
        plim__json_short_list(j, "shape");
        for (uint32_t d = 0; d < v->shape.rank; d++) plim__json_int(j, NULL, v->shape.dim[d]);
        plim__json_end(j);
        plim__json_string(j, "dtype", plim_dtype_name(v->dtype));
        plim__json_uint(j, "bytes", v->bytes);
        plim__json_string(j, "why", v->why);
        plim__json_end(j);
    }
    plim__json_end(j);
    plim__json_end(j);
}

static void peak_text(plim__emit *e, const plim_facts *f)
{
    plim__emit_line(e, "memory is highest at %s:\n", f->peak_step);
    for (uint32_t i = 0; i < f->n_peak && i < 5; i++) {
        const plim_peak_value *v = &f->peak[i];
        char bytes[32], shape[160], type[192] = "";
        if (v->shape.rank) snprintf(type, sizeof type, " %s%s", plim_dtype_name(v->dtype), plim_shape_format(shape, sizeof shape, &v->shape));
        plim__emit_line(e, "  %9s  %s%s, %s\n", plim_bytes_format(bytes, sizeof bytes, v->bytes), v->name, type, v->why);
    }
}

void plim__emit_peak(plim__emit *e, const plim_facts *f)
{
    if (plim__emit_json(e)) peak_json(plim__emit_json(e), f);
    else peak_text(e, f);
}

void plim__cli_schedule(const plim_plan *plan)
{
    const size_t size = plim_plan_dump(plan, NULL, 0) + 1;
    char *text = malloc(size);
    if (!text) return;
    plim_plan_dump(plan, text, size);
    fputs(text, stderr);
    free(text);
}

void plim__emit_run(plim__emit *e, const plim_run_facts *r, const plim_facts *planned)
{
    const uint64_t above = r->peak_rss_bytes > planned->planned_peak_bytes ? r->peak_rss_bytes - planned->planned_peak_bytes : 0;
    plim__emit_number(e, "seconds", "took", "%.2f s", r->seconds);
    plim__emit_bytes(e, "peak_rss_bytes", "peak that the kernel saw", r->peak_rss_bytes);
    plim__emit_bytes(e, "above_plan_bytes", above ? "above the planned peak" : NULL, above);
    plim__emit_bytes(e, "bytes_read", "read", r->bytes_read);
    plim__emit_bytes(e, "bytes_written", "written", r->bytes_written);
}

void plim__emit_outputs(plim__emit *e, const plim_plan *plan)
{
    static const plim__emit_column columns[] = {{"name", "output", false}, {"path", "file", false}, {"shape", "shape", false}, {"dtype", "dtype", false}};
    plim__emit_table(e, "outputs", columns, 4);
    for (uint32_t i = 0; i < plim_plan_result_count(plan); i++) {
        plim_result r;
        if (plim_plan_result(&r, plan, i, NULL)) continue;
        plim__emit_string(e, NULL, NULL, r.name);
        plim__emit_string(e, NULL, NULL, r.path ? r.path : "");
        plim__emit_shape(e, NULL, NULL, &r.shape);
        plim__emit_string(e, NULL, NULL, plim_dtype_name(r.dtype));
    }
    plim__emit_table_end(e);
}

void plim__emit_refusal(const char *verb, const plim_error *err)
{
    static plim__emit e;
    plim__emit_start(&e, stdout, true, verb);
    plim__emit_bytes(&e, "budget_bytes", NULL, err->have);
    plim__emit_bool(&e, "fits", NULL, false);
    plim__emit_bytes(&e, "floor_bytes", NULL, err->need);
    plim__emit_end(&e);
}
