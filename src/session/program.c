/* Programs: an expression, its input files, its outputs; and the public face of plans over them. */
#include "core/dtype.h"
#include "expr/expr.h"
#include "formats/array_file.h"
#include "ops/ops.h"
#include "session/program.h"
#include "run/run.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_INPUTS 256
#define MAX_RESULTS 1024

struct plim_program {
    plim__alloc alloc;
    plim_graph *graph;
    plim__tempfile *unpacked[MAX_INPUTS]; /* scratch files of compressed inputs, open as long as the program lives; else NULL */
};

/* A compressed member cannot be read by region: it is inflated once into an unlinked scratch file, which is then the input. */
static plim_status unpack(plim__array_file *f, const plim__os *os, const plim_binding *in, const plim_settings *set, char *path, size_t size,
                          plim__tempfile **unpacked, plim_error *err)
{
    const char *dir = set ? set->spill_dir : NULL;
    PLIM_FAIL_IF(!dir, err, PLIM_E_UNSUPPORTED,
                 "'%s' is compressed, so a part of it cannot be read without the rest: give a folder to unpack it in (--spill DIR), or save it with numpy.savez",
                 in->path);
    PLIM_TRY(plim__tempfile_scratch(unpacked, os, dir, 0, false, err));
    const int fd = plim__tempfile_buffered_fd(*unpacked);
    PLIM_TRY(plim__array_unpack(f, os, in->path, fd, err));
    snprintf(path, size, "/proc/self/fd/%d", fd); /* it has no name any more, but the kernel still opens it by this one */
    plim__stat st = {0};
    const int got = os->stat(os->self, fd, &st);
    if (got < 0) return plim__os_fail(got, "look at the unpacked copy of", in->path, 0, err);
    f->source.path = path;
    plim__source_identify(&f->source, &st);
    return PLIM_OK;
}

plim_status plim__graph_input(plim_graph *g, const plim__os *os, const plim_binding *in, const plim_settings *set, plim__tempfile **unpacked,
                              uint32_t *value, plim_error *err)
{
    char path[4096];
    plim__array_file f;
    PLIM_ASSERT(*unpacked == NULL);
    PLIM_TRY(plim__array_open(&f, os, in->path, in->raw ? in : NULL, path, sizeof path, err));
    if (f.compressed) PLIM_TRY(unpack(&f, os, in, set, path, sizeof path, unpacked, err));
    return plim__graph_file(g, in->name, f.dtype, &f.shape, &f.source, value, err);
}

static plim_status check_names(const plim_binding *b, uint32_t n, const char *kind, plim_error *err)
{
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t j = 0; j < i; j++)
            PLIM_FAIL_IF(strcmp(b[i].name, b[j].name) == 0, err, PLIM_E_INVALID, "%s '%s' is given twice", kind, b[i].name);
    return PLIM_OK;
}

static bool is_free(const plim_graph *g, uint32_t v)
{
    bool taken = g->value[v].kind != PLIM__VALUE_NODE;
    for (uint32_t i = 0; i < g->n_outputs; i++) taken |= g->output[i].value == v;
    return !taken;
}

/* The graph merges equal nodes: the copy of a value is one value, however often it is asked for. A further copy is the copy of a copy. */
plim_status plim__own_output(plim_graph *g, uint32_t *v, plim_error *err)
{
    while (!is_free(g, *v)) {
        const plim_dtype t = g->value[*v].dtype;
        PLIM_TRY(plim__op_elementwise(g, PLIM__EW_COPY, plim__dtype_compute(t), t, v, 1, v, err));
    }
    return PLIM_OK;
}

/* A copy that plim__own_output made, or one that would be the same node. */
static bool is_copy(const plim_graph *g, const plim__node *n)
{
    return n->op == PLIM__OP_ELEMENTWISE && n->attr.kind == PLIM__EW_COPY && g->value[n->in[0]].dtype == g->value[n->out[0]].dtype;
}

/* The count of a result that is cut to its length (unique) or of a copy of one, or PLIM__NONE. */
static uint32_t count_of(const plim_graph *g, uint32_t v)
{
    uint32_t by = g->value[v].node;
    while (by != PLIM__NONE && is_copy(g, &g->node[by])) {
        v = g->node[by].in[0];
        by = g->value[v].node;
    }
    const bool counted = by != PLIM__NONE && g->node[by].op == PLIM__OP_UNIQUE && g->value[v].out == 0 && g->node[by].attr.i[1];
    return counted ? g->node[by].out[1] : PLIM__NONE;
}

/* A value whose length is known only after the run can be an output, and nothing else. */
static plim_status check_counted(const plim_graph *g, plim_error *err)
{
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in && !is_copy(g, &g->node[i]); k++)
            PLIM_FAIL_IF(count_of(g, g->node[i].in[k]) != PLIM__NONE, err, PLIM_E_UNSUPPORTED,
                         "the length of unique(x) is known only after the run, so nothing can be computed from it: give it room, as in unique(x, size=1000)");
    return PLIM_OK;
}

static plim_status add_output(plim_graph *g, uint32_t v, const char *name, const char *path, plim_error *err)
{
    uint32_t count = count_of(g, v);
    PLIM_TRY(plim__own_output(g, &v, err));
    if (count == PLIM__NONE) return plim__graph_output(g, v, name, path, err);
    PLIM_TRY(plim__own_output(g, &count, err));
    return plim__graph_output_counted(g, v, count, name, path, err);
}

/* Where the results of the last statement begin: a list's pieces are name0, name1, ... in a row. */
static uint32_t last_statement(const plim__expr_result *res, uint32_t n)
{
    uint32_t first = n ? n - 1 : 0;
    for (; first > 0; first--) {
        const size_t len = strcspn(res[first].name, "0123456789");
        char before[sizeof res->name + 12];
        const long number = strtol(res[first].name + len, NULL, 10);
        snprintf(before, sizeof before, "%.*s%ld", (int)len, res[first].name, number - 1);
        if (res[first].name[len] == 0 || number == 0 || strcmp(before, res[first - 1].name) != 0) break;
    }
    return first;
}

/* Which results go where. A list's pieces a0, a1, ... follow the binding of `a`: a path with %d gets their numbers. */
static plim_status add_outputs(plim_program *prog, const plim__expr_result *res, uint32_t n_res, const plim_binding *out, uint32_t n_out,
                               plim_error *err)
{
    plim_graph *g = prog->graph;
    uint32_t bound = 0;
    for (uint32_t o = 0; o < n_out; o++) {
        bool found = false;
        for (uint32_t i = 0; i < n_res; i++) {
            char path[4096];
            const size_t len = strlen(out[o].name);
            const char *mark = out[o].path ? strstr(out[o].path, "%d") : NULL;
            const bool piece = mark && strncmp(res[i].name, out[o].name, len) == 0 && res[i].name[len] >= '0' && res[i].name[len] <= '9';
            const bool last = out[o].name[0] == 0 && i + 1 == n_res && !mark;
            if (strcmp(res[i].name, out[o].name) != 0 && !piece && !last) continue;
            if (out[o].path) snprintf(path, sizeof path, "%.*s%s%s", mark ? (int)(mark - out[o].path) : (int)strlen(out[o].path), out[o].path,
                                      mark ? res[i].name + len : "", mark ? mark + 2 : "");
            PLIM_TRY(add_output(g, res[i].value, res[i].name, out[o].path ? path : NULL, err));
            found = true;
            bound++;
        }
        PLIM_FAIL_IF(!found, err, PLIM_E_INVALID, "output '%s' is not assigned in the expression%s", out[o].name,
                     n_res > 1 && !strcmp(res[n_res - 1].name, "") ? "" : " (a list's pieces need a path with %d)");
    }
    if (bound > 0) return PLIM_OK;
    for (uint32_t i = last_statement(res, n_res); i < n_res; i++) /* no output asked for: the last statement's value is the answer */
        PLIM_TRY(add_output(g, res[i].value, res[i].name, NULL, err));
    return PLIM_OK;
}

static plim_status build(plim_program *prog, const char *text, const plim_binding *in, uint32_t n_in, const plim_binding *out, uint32_t n_out,
                         const plim_settings *set, plim_error *err)
{
    PLIM_FAIL_IF(n_in > MAX_INPUTS, err, PLIM_E_INVALID, "more than %d inputs", MAX_INPUTS);
    PLIM_TRY(check_names(in, n_in, "input", err));
    PLIM_TRY(check_names(out, n_out, "output", err));
    plim__expr_input *names = plim__new(&prog->alloc, n_in, sizeof *names, err);
    plim__expr_result *res = plim__new(&prog->alloc, MAX_RESULTS, sizeof *res, err);
    plim_status status = names && res ? PLIM_OK : PLIM_E_NOMEM;
    for (uint32_t i = 0; i < n_in && status == PLIM_OK; i++) {
        names[i].name = in[i].name;
        status = plim__graph_input(prog->graph, &plim__os_linux, &in[i], set, &prog->unpacked[i], &names[i].value, err);
    }
    uint32_t n_res = 0;
    if (status == PLIM_OK) status = plim__expr_build(prog->graph, text, names, n_in, res, MAX_RESULTS, &n_res, err);
    if (status == PLIM_OK) status = add_outputs(prog, res, n_res, out, n_out, err);
    if (status == PLIM_OK) status = check_counted(prog->graph, err);
    plim__free(&prog->alloc, names);
    plim__free(&prog->alloc, res);
    return status;
}

plim_status plim_program_new(plim_program **out, const char *text, const plim_binding *in, uint32_t n_in, const plim_binding *outputs,
                             uint32_t n_out, const plim_settings *set, plim_error *err)
{
    const plim__alloc a = plim__alloc_from(set);
    *out = NULL;
    plim_program *prog = plim__new(&a, 1, sizeof *prog, err);
    if (!prog) return PLIM_E_NOMEM;
    prog->alloc = a;
    plim_status status = plim__graph_new(&prog->graph, a, err);
    if (status == PLIM_OK) status = build(prog, text, in, n_in, outputs, n_out, set, err);
    if (status == PLIM_OK) *out = prog;
    else plim_program_free(&prog);
    return status;
}

void plim_program_free(plim_program **prog)
{
    if (!*prog) return;
    const plim__alloc a = (*prog)->alloc;
    for (uint32_t i = 0; i < MAX_INPUTS; i++) plim__tempfile_drop(&(*prog)->unpacked[i]);
    plim__graph_free(&(*prog)->graph);
    plim__free(&a, *prog);
    *prog = NULL;
}

plim_status plim_plan_new(plim_plan **out, const plim_program *prog, const plim_settings *set, plim_error *err)
{
    return plim__plan_new(out, prog->graph, set, &plim__os_linux, err);
}

void plim_plan_free(plim_plan **plan)
{
    if (!*plan) return;
    plim__run_drop(*plan);
    plim__plan_drop(*plan);
    *plan = NULL;
}

/* A plan that fits, of a program whose inputs are bound to files: others are there to be looked at. */
static plim_status check_runs(const plim_plan *plan, plim_error *err)
{
    PLIM_FAIL_IF(!plan->facts.fits, err, PLIM_E_BUDGET, "this plan does not fit its budget, so it is not run");
    for (uint32_t i = 0; i < plan->n_files; i++)
        PLIM_FAIL_IF(!plan->file[i].path[0], err, PLIM_E_INVALID, "'%s' is not bound to a file: this plan can be looked at, but not run",
                     plan->graph->value[plan->file[i].value].name);
    return PLIM_OK;
}

plim_status plim_plan_run(plim_plan *plan, plim_run_facts *facts, plim_error *err)
{
    PLIM_TRY(check_runs(plan, err));
    return plim__run(plan, facts, err);
}

/* The index-th output that is shown. */
static const plim__output *shown_output(const plim_plan *plan, uint32_t index)
{
    for (uint32_t i = 0; i < plan->graph->n_outputs; i++)
        if (!plan->graph->output[i].hidden && index-- == 0) return &plan->graph->output[i];
    return NULL;
}

uint32_t plim_plan_result_count(const plim_plan *plan)
{
    uint32_t n = 0;
    while (shown_output(plan, n)) n++;
    return n;
}

plim_status plim_plan_result(plim_result *out, const plim_plan *plan, uint32_t index, plim_error *err)
{
    const plim__output *o = shown_output(plan, index);
    PLIM_FAIL_IF(!o, err, PLIM_E_INVALID, "there is no result %u", index);
    const plim__value *v = &plan->graph->value[o->value];
    *out = (plim_result){.name = o->name, .path = o->path, .dtype = v->dtype, .shape = v->shape, .data = o->path ? NULL : plim__run_result(plan, o->value)};
    if (plan->run) plim__run_shape(plan, o, &out->shape);
    return PLIM_OK;
}
