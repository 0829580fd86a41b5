/* plimsoll plan: how much memory a model needs to run or to be trained, and whether that is there. Nothing is run, and nothing is written but the
 * plan itself where that is asked for.
 *
 * What fits comes with its plan. What does not comes with the plan that needs least, and with the changes that would make it fit. */
#include "cli/machine.h"
#include "cli/model_words.h"
#include "cli/plan_facts.h"
#include "cli/saved_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    LAYERS_SHOWN = 12,
    BATCH_MOST = 1 << 20,   /* where the search for the largest batch ends */
    REMEDIES_MAX = 3,
    REMEDY_SECONDS = 20,
};

typedef struct job {
    const char *path;
    uint32_t batch;
    plim_model_options how;
    plim__cli_dims dims;
    bool all_layers, schedule, largest, curve;
    const char *why;
    const char *allow; /* the dtype that may be narrowed to, where nothing else fits */
    const char *out, *from;
    plim_saved_plan *saved; /* what `from` says */
} job;

/* A change that would make it fit. */
typedef struct remedy {
    char option[48];
    uint64_t peak_bytes;
    double seconds;
} remedy;

/* What there is to say. */
typedef struct answer {
    plim_model *model;
    plim_model_info info;
    plim_layer *layer; /* info.n_layers */
    plim_plan *plan;   /* where nothing fits, the one that needs least */
    plim_facts facts;
    remedy remedy[REMEDIES_MAX];
    uint32_t n_remedies;
    int64_t largest_batch;
    plim_kept *kept;
    uint32_t n_kept;
} answer;

static plim_status complain(plim_error *err, plim_status code, const char *where, const char *what)
{
    *err = (plim_error){.code = code};
    snprintf(err->message, sizeof err->message, "'%.200s' %.200s", where, what);
    return code;
}

/* --------------------------------------------------------------------------------------------------------- options */

/* One budget for every plan that is made. */
static plim_status complete_settings(plim_settings *set, plim_error *err)
{
    struct stat st;
    if (set->spill_dir && (stat(set->spill_dir, &st) || !S_ISDIR(st.st_mode)))
        return complain(err, PLIM_E_INVALID, set->spill_dir, "is not a folder to spill to");
    if (set->memory) return PLIM_OK;
    plim_limits limits;
    uint64_t now, most;
    plim_status status = plim_limits_read(&limits, err);
    if (status == PLIM_OK) status = plim_resident_read(&now, &most, err);
    if (status == PLIM_OK) set->memory = limits.budget + now;
    return status;
}

/* What a saved plan asked for, in place of options. @param path  where the model is now; NULL: where it was */
static plim_status take_saved(job *j, const char *path, plim__cli_shared *shared, plim_error *err)
{
    plim_settings *set = &shared->set;
    const plim_status status = plim_saved_plan_read(&j->saved, j->from, set, err);
    if (status != PLIM_OK) return status;
    const plim_saved_request *r = plim_saved_plan_request(j->saved);
    j->path = path ? path : r->model_path;
    j->how = r->options;
    set->memory = r->memory;
    set->baseline = r->baseline;
    set->threads = r->threads;
    set->spill_dir = r->spill_dir;
    set->machine = r->machine;
    snprintf(shared->machine_from, sizeof shared->machine_from, "%s", r->machine ? j->from : "defaults");
    return plim_saved_plan_check_model(j->saved, j->path, err);
}

/* --------------------------------------------------------------------------------------------------------- finding */

static void let_go(answer *a)
{
    free(a->layer);
    free(a->kept);
    plim_plan_free(&a->plan);
    plim_model_free(&a->model);
    *a = (answer){0};
}

static plim_status plan_model(answer *a, const job *j, const plim_settings *set, plim_error *err)
{
    plim_settings anyway = *set;
    anyway.plan_anyway = true;
    plim_status status = plim_model_new(&a->model, j->path, &j->how, set, err);
    if (status == PLIM_OK) status = plim_model_describe(&a->info, a->model, err);
    if (status == PLIM_OK) status = plim_model_plan(&a->plan, a->model, &anyway, err);
    if (status == PLIM_OK) a->facts = *plim_plan_facts(a->plan);
    return status;
}

/* Reads the model and plans it; a->facts.fits says whether that went well, and if not, a->plan is the one that needs least. Numbers are changed only where
 * the user allows it and nothing fits without. */
static plim_status find_plan(answer *a, job *j, const plim_settings *set, plim_error *err)
{
    const plim_status status = plan_model(a, j, set, err);
    if (status != PLIM_OK || a->facts.fits || !j->allow || j->how.narrow) return status;
    plim_settings same = *set;
    same.baseline = a->facts.baseline_bytes; /* the first try has left its traces in the process */
    let_go(a);
    j->how.narrow = j->allow;
    return plan_model(a, j, &same, err);
}

/* The plan at the largest batch. All plans reckon with what the process has at the first, which is for one sample. */
static plim_status find_largest(answer *a, job *j, plim_settings *set, plim_error *err)
{
    j->how.batch = 1;
    j->how.narrow = j->allow; /* the most is asked for */
    plim_status status = find_plan(a, j, set, err);
    if (status != PLIM_OK || !a->facts.fits) return status;
    set->baseline = a->facts.baseline_bytes;
    let_go(a);
    status = plim_model_largest_batch(&j->how.batch, j->path, &j->how, BATCH_MOST, set, err);
    if (status == PLIM_OK) status = find_plan(a, j, set, err);
    if (status == PLIM_OK) a->largest_batch = j->how.batch;
    return status;
}

static void add_remedy(answer *a, const job *j, const plim_settings *set, const char *option)
{
    plim_model *model = NULL;
    plim_plan *plan = NULL;
    if (plim_model_new(&model, j->path, &j->how, set, NULL) == PLIM_OK && plim_model_plan(&plan, model, set, NULL) == PLIM_OK) {
        remedy *r = &a->remedy[a->n_remedies++];
        *r = (remedy){.peak_bytes = plim_plan_facts(plan)->planned_peak_bytes, .seconds = plim_plan_facts(plan)->planned_seconds};
        snprintf(r->option, sizeof r->option, "%s", option);
    }
    plim_plan_free(&plan);
    plim_model_free(&model);
}

static void find_remedies(answer *a, const job *j, const plim_settings *set)
{
    job other = *j;
    plim_settings same = *set;
    same.baseline = a->facts.baseline_bytes;
    if (!set->spill_dir) {
        plim_settings spill = same;
        spill.spill_dir = ".";
        add_remedy(a, j, &spill, "--spill DIR");
    }
    if (j->how.optimizer && !j->how.narrow) {
        other.how.narrow = "f16";
        add_remedy(a, &other, &same, "--allow f16");
        other.how.narrow = NULL;
    }
    plim_settings soon = same;
    soon.seconds_max = REMEDY_SECONDS; /* a batch that fits is worth something, the largest is not worth waiting for */
    if (a->info.batch < 2 || plim_model_largest_batch(&other.how.batch, j->path, &j->how, a->info.batch - 1, &soon, NULL)) return;
    char option[48];
    snprintf(option, sizeof option, "--batch %lld", (long long)other.how.batch);
    add_remedy(a, &other, &same, option);
}

static plim_status no_such_layer(const answer *a, const char *name, plim_error *err)
{
    const char **names = malloc(a->info.n_layers * sizeof *names);
    const char *near = NULL;
    for (uint32_t i = 0; names && i < a->info.n_layers; i++) names[i] = a->layer[i].name;
    if (names) near = plim__cli_nearest(name, names, a->info.n_layers);
    complain(err, PLIM_E_INVALID, name, near && near[0] ? "is no layer of the model; do you mean" : "is no layer of the model; --layers lists them");
    const size_t n = strlen(err->message);
    if (near && near[0]) snprintf(err->message + n, sizeof err->message - n, " '%s'?", near);
    free(names);
    return PLIM_E_INVALID;
}

static plim_status find_kept(answer *a, const char *name, plim_error *err)
{
    uint32_t layer = 1;
    while (layer < a->info.n_layers && strcmp(a->layer[layer].name, name) != 0) layer++;
    if (layer >= a->info.n_layers) return no_such_layer(a, name, err);
    plim_status status = plim_model_kept(NULL, 0, &a->n_kept, a->model, a->plan, layer, err);
    if (status != PLIM_OK) return status;
    a->kept = calloc(a->n_kept + 1, sizeof *a->kept);
    if (!a->kept) return complain(err, PLIM_E_NOMEM, name, "does not fit into memory");
    return plim_model_kept(a->kept, a->n_kept, &a->n_kept, a->model, a->plan, layer, err);
}

static plim_status find_answer(answer *a, job *j, plim_settings *set, plim_error *err)
{
    plim_status status = j->largest ? find_largest(a, j, set, err) : find_plan(a, j, set, err);
    if (status == PLIM_OK && j->saved) status = plim_saved_plan_compare(j->saved, a->plan, err);
    if (status != PLIM_OK) return status;
    a->layer = calloc(a->info.n_layers, sizeof *a->layer);
    if (!a->layer) return complain(err, PLIM_E_NOMEM, j->path, "does not fit into memory");
    status = plim_model_layers(a->layer, a->info.n_layers, a->model, a->plan, err);
    if (status == PLIM_OK && j->why) status = find_kept(a, j->why, err);
    if (status == PLIM_OK && !a->facts.fits) find_remedies(a, j, set);
    return status;
}

/* ------------------------------------------------------------------------------------------------------ the layers */

static uint64_t weight(const plim_layer *l)
{
    return l->parameter_bytes + l->gradient_bytes + l->state_bytes + l->made_bytes + l->workspace_bytes;
}

static int by_weight(const void *a, const void *b)
{
    const uint64_t x = weight(a), y = weight(b);
    return x < y ? 1 : x > y ? -1 : 0;
}

static void emit_layer(plim__emit *e, const char *name, const plim_layer *l)
{
    plim__emit_string(e, NULL, NULL, name);
    plim__emit_string(e, NULL, NULL, l->kind);
    plim__emit_count(e, NULL, NULL, l->parameters);
    plim__emit_bytes(e, NULL, NULL, l->parameter_bytes);
    plim__emit_bytes(e, NULL, NULL, l->gradient_bytes);
    plim__emit_bytes(e, NULL, NULL, l->state_bytes);
    plim__emit_bytes(e, NULL, NULL, l->made_bytes);
    plim__emit_bytes(e, NULL, NULL, l->saved_bytes);
    plim__emit_bytes(e, NULL, NULL, l->workspace_bytes);
}

static void add_layer(plim_layer *to, const plim_layer *l)
{
    to->parameters += l->parameters;
    to->parameter_bytes += l->parameter_bytes;
    to->gradient_bytes += l->gradient_bytes;
    to->state_bytes += l->state_bytes;
    to->made_bytes += l->made_bytes;
    to->saved_bytes += l->saved_bytes;
    if (l->workspace_bytes > to->workspace_bytes) to->workspace_bytes = l->workspace_bytes;
}

/* For people the largest, what the others have together, and the sum; a workspace is used by one after the other, so there the most is shown. */
static void emit_layers(plim__emit *e, answer *a, bool all)
{
    const bool t = a->info.training;
    const plim__emit_column columns[] = {
        {"name", "layer", false}, {"kind", "kind", false}, {"parameters", "numbers", true}, {"parameter_bytes", "parameters", true},
        {"gradient_bytes", t ? "gradients" : NULL, true}, {"state_bytes", t ? "optimizer" : NULL, true}, {"made_bytes", "makes", true},
        {"saved_bytes", t ? "for backward" : NULL, true}, {"workspace_bytes", "workspace", true},
    };
    const uint32_t n = a->info.n_layers;
    const bool json = plim__emit_json(e);
    uint32_t shown = n;
    if (!json && !all && n > LAYERS_SHOWN + 1) {
        qsort(a->layer, n, sizeof *a->layer, by_weight);
        shown = LAYERS_SHOWN;
    }
    plim_layer others = {0}, total = {0};
    plim__emit_table(e, "layers", columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < n; i++) {
        const plim_layer *l = &a->layer[i];
        add_layer(i < shown ? &total : &others, l);
        if (i < shown && (json || all || weight(l) > 0)) emit_layer(e, l->name[0] || json ? l->name : "(inputs)", l);
    }
    if (!json) {
        char name[48];
        snprintf(name, sizeof name, "(%u others)", n - shown);
        if (shown < n) emit_layer(e, name, &others);
        add_layer(&total, &others);
        emit_layer(e, "(all)", &total);
    }
    plim__emit_table_end(e);
}

/* ------------------------------------------------------------------------------------------------------ the report */

static void emit_verdict(plim__emit *e, const job *j, const answer *a)
{
    char text[160], need[32], have[32];
    const plim_facts *f = &a->facts;
    plim_bytes_format(need, sizeof need, f->fits ? f->planned_peak_bytes : f->floor_bytes);
    plim_bytes_format(have, sizeof have, f->budget_bytes);
    snprintf(text, sizeof text,
             f->fits ? "fits: %s of %s" : "does not fit: %s are needed, the budget is %s; this is the plan that needs least", need, have);
    if (j->largest) {
        plim__emit_count(e, "largest_batch", a->largest_batch ? "largest batch" : NULL, (uint64_t)a->largest_batch);
        plim__emit_bool(e, "largest_batch_is_limit", NULL, a->largest_batch == BATCH_MOST);
        if (a->largest_batch == BATCH_MOST) plim__emit_line(e, "%-18s more would fit: the search ends there\n", "");
    }
    plim__emit_string(e, NULL, "verdict", text);
}

static void emit_remedies(plim__emit *e, const answer *a)
{
    plim__json *j = plim__emit_json(e);
    if (!j || a->facts.fits) return; /* for people they stand in the refusal */
    plim__json_list(j, "remedies");
    for (uint32_t i = 0; i < a->n_remedies; i++) {
        plim__json_short_object(j, NULL);
        plim__json_string(j, "option", a->remedy[i].option);
        plim__json_uint(j, "planned_peak_bytes", a->remedy[i].peak_bytes);
        plim__json_number(j, "estimated_seconds", a->remedy[i].seconds);
        plim__json_end(j);
    }
    plim__json_end(j);
}

static void emit_kept(plim__emit *e, const job *j, const answer *a)
{
    static const plim__emit_column columns[] = {
        {"name", "value", false}, {"shape", "shape", false}, {"dtype", "dtype", false}, {"bytes", "bytes", true}, {"made_at", "made at", true},
        {"readers", "readers", true}, {"kept_until", "kept until", true}, {"by_layer", "for", false}, {"by_op", "its", false},
        {"direction", "direction", false}, {"held", "in the plan", false},
    };
    if (!j->why) return;
    plim__emit_line(e, "\nwhat keeps %s, by the %u nodes of the model in their order:\n", j->why, a->info.n_nodes);
    if (a->n_kept == 0) plim__emit_line(e, "  nothing: it makes no values of its own that others read\n");
    plim__emit_table(e, "why", columns, sizeof columns / sizeof *columns);
    for (uint32_t i = 0; i < a->n_kept; i++) {
        const plim_kept *k = &a->kept[i];
        plim__emit_string(e, NULL, NULL, k->name);
        plim__emit_shape(e, NULL, NULL, &k->shape);
        plim__emit_string(e, NULL, NULL, plim_dtype_name(k->dtype));
        plim__emit_bytes(e, NULL, NULL, k->bytes);
        plim__emit_count(e, NULL, NULL, k->made_at);
        plim__emit_count(e, NULL, NULL, k->readers);
        plim__emit_count(e, NULL, NULL, k->kept_until);
        plim__emit_string(e, NULL, NULL, k->by_layer);
        plim__emit_string(e, NULL, NULL, k->by_op);
        plim__emit_string(e, NULL, NULL, k->direction);
        plim__emit_string(e, NULL, NULL, k->held);
    }
    plim__emit_table_end(e);
}

/* @param saved  for a file: what was asked; NULL: nobody has to ask it again */
static void report(FILE *out, const job *j, answer *a, const plim__cli_shared *shared, bool json, const plim_saved_request *saved)
{
    static plim__emit e;
    char plain[32];
    const plim_facts *f = &a->facts;
    plim__emit_start(&e, out, json, "plan");
    if (saved) plim__emit_saved(plim__emit_json(&e), saved);
    plim__emit_model(&e, &a->info);
    if (j->saved) {
        plim__emit_string(&e, "from", NULL, j->from);
        plim__emit_bool(&e, "same", NULL, true);
        plim__emit_string(&e, NULL, "as saved", "the model and its plan are still the same");
    }
    emit_verdict(&e, j, a);
    plim__emit_budget(&e, f);
    plim__emit_machine_used(&e, shared);
    plim__emit_number(&e, "estimated_seconds", "estimated", "%.2f s", f->planned_seconds);
    plim__emit_number(&e, "plan_seconds", "planned in", "%.2f s", f->plan_seconds);
    plim__emit_bytes(&e, "plain_bytes", NULL, a->info.plain_bytes);
    plim__emit_string(&e, "plain_at", NULL, a->info.plain_at);
    plim__emit_moves(&e, f);
    plim__emit_peak(&e, f);
    plim__emit_line(&e, "keeping everything, as eager frameworks do, would take %s; memory would be highest at %s\n\n",
                    plim_bytes_format(plain, sizeof plain, a->info.plain_bytes), a->info.plain_at);
    emit_remedies(&e, a);
    emit_layers(&e, a, j->all_layers);
    emit_kept(&e, j, a);
    plim__emit_end(&e);
}

static plim_status save(const job *j, answer *a, const plim__cli_shared *shared, plim_error *err)
{
    const plim_settings *set = &shared->set;
    plim_saved_request asked = {
        .version = PLIM_VERSION, .model_path = j->path, .options = j->how, .memory = a->facts.budget_bytes, .baseline = a->facts.baseline_bytes,
        .threads = set->threads ? set->threads : plim_cpu_count(), .spill_dir = set->spill_dir,
        .machine = set->machine,
    };
    char *text = NULL;
    size_t n = 0;
    plim_status status = plim_file_identify(&asked.model, j->path, err);
    if (status != PLIM_OK) return status;
    FILE *f = open_memstream(&text, &n);
    if (f) report(f, j, a, shared, true, &asked);
    if (!f || fclose(f) != 0) status = complain(err, PLIM_E_NOMEM, j->out, "does not fit into memory");
    else status = plim_file_write(j->out, text, n, err);
    free(text);
    return status;
}

/* The refusal: the verdict with both numbers, what is alive there, the way out. */
static void refuse(const answer *a)
{
    const plim_facts *f = &a->facts;
    char need[32], have[32], bytes[32];
    plim_bytes_format(need, sizeof need, f->floor_bytes);
    plim_bytes_format(have, sizeof have, f->budget_bytes);
    fprintf(stderr, "plimsoll: does not fit: %s%s%s, budget %s\n", need, f->peak_step[0] ? " at " : "", f->peak_step, have);
    for (uint32_t i = 0; i < f->n_peak && i < 3; i++)
        fprintf(stderr, "  %-11s %s %s, %s\n", i ? "" : "live there", plim_bytes_format(bytes, sizeof bytes, f->peak[i].bytes), f->peak[i].name,
                f->peak[i].why);
    for (uint32_t i = 0; i < a->n_remedies; i++)
        fprintf(stderr, "  %-11s %-16s %s, about %.3g s\n", i ? "" : "fits with", a->remedy[i].option,
                plim_bytes_format(bytes, sizeof bytes, a->remedy[i].peak_bytes), a->remedy[i].seconds);
    fprintf(stderr, "  smallest budget that works as it stands: %s (--memory %llu)\n", need, (unsigned long long)f->floor_bytes);
}

static int run_job(job *j, plim__cli_shared *shared)
{
    plim_error err = {0};
    answer a = {0};
    plim_status status = find_answer(&a, j, &shared->set, &err);
    if (status == PLIM_OK && j->out && a.facts.fits) status = save(j, &a, shared, &err); /* first: the report for people sorts the layers */
    int code = status == PLIM_OK ? PLIM__EXIT_OK : plim__cli_fail(&err, NULL);
    if (status == PLIM_OK) {
        if (j->schedule) plim__cli_schedule(a.plan);
        report(stdout, j, &a, shared, shared->json, NULL);
        fflush(stdout);
        if (!a.facts.fits) {
            refuse(&a);
            code = PLIM__EXIT_BUDGET;
        }
    }
    let_go(&a);
    return code;
}

/* What cannot be asked for together. @return NULL when all is well */
static const char *contradiction(job *j, const plim__cli_shared *shared)
{
    const plim_settings *set = &shared->set;
    if (shared->allow & PLIM__ALLOW_F16) j->allow = "f16"; /* more of the value than bf16 keeps */
    else if (shared->allow & PLIM__ALLOW_BF16) j->allow = "bf16";
    else if (shared->allow) return "--allow: models are kept in f16 or bf16, not in int8";
    const bool asks = j->how.optimizer || j->allow || j->how.loss || j->batch || j->dims.n || j->largest || j->curve || j->out;
    if (j->from && (asks || shared->no_spill || set->memory || set->threads || set->spill_dir || shared->machine_file || shared->no_machine))
        return "--from says what to plan: of the other options only --json, --layers, --why and --schedule go with it";
    if (j->largest && j->batch) return "--batch and --largest-batch exclude each other";
    if (j->how.loss && !j->how.optimizer) return "--loss goes with --train OPTIMIZER";
    if (j->allow && !j->how.optimizer) return "--allow goes with --train OPTIMIZER: it is about what is kept for the backward pass";
    if (j->curve && (set->memory || j->allow || j->largest || j->why || j->all_layers || j->schedule || j->out))
        return "--curve is for many budgets: --memory, --allow, --largest-batch, --why, --layers, --schedule and -o are for one";
    return NULL;
}

/* A plan must not take its model's place. */
static bool is_same_file(const char *a, const char *b)
{
    struct stat x, y;
    return stat(a, &x) == 0 && stat(b, &y) == 0 && x.st_dev == y.st_dev && x.st_ino == y.st_ino;
}

static int run(job *j, plim__cli_shared *shared, const char *path)
{
    plim_error err = {0};
    plim_status status = PLIM_OK;
    j->path = path;
    j->how.batch = j->batch;
    j->how.dim = j->dims.item;
    j->how.n_dims = j->dims.n;
    if (j->from) status = take_saved(j, path, shared, &err);
    if (j->out && is_same_file(j->out, path)) status = complain(&err, PLIM_E_INVALID, j->out, "is the model itself");
    if (status == PLIM_OK) status = complete_settings(&shared->set, &err);
    int code;
    if (status != PLIM_OK) code = plim__cli_fail(&err, NULL);
    else code = j->curve ? plim__cli_curve(j->path, &j->how, shared) : run_job(j, shared);
    plim_saved_plan_free(&j->saved);
    return code;
}

int plim_cli_plan(int argc, char **argv)
{
    static job j;
    const plim__cli_option options[] = {
        {.name = "train", .kind = PLIM__CLI_IS_TEXT, .to = &j.how.optimizer, .value = "OPTIMIZER",
         .help = "a step of training: sgd, momentum, nesterov, adam, adamw, rmsprop"},
        {.name = "loss", .kind = PLIM__CLI_IS_TEXT, .to = &j.how.loss, .value = "LOSS",
         .help = "mse (unless given), mae, bce, ce, sparse-ce; bce-logits, ce-logits, ..."},
        {.name = "batch", .kind = PLIM__CLI_IS_COUNT, .to = &j.batch, .value = "N",
         .help = "samples at a time; as the model says unless given, or 1"},
        {.name = "dim", .kind = PLIM__CLI_IS_CALL, .to = &j.dims, .value = "NAME=VALUE", .take = plim__cli_take_dim,
         .help = "what a dimension is that the model only names"},
        {.name = "largest-batch", .kind = PLIM__CLI_IS_FLAG, .to = &j.largest, .help = "find the largest batch that fits, and plan that"},
        {.name = "curve", .kind = PLIM__CLI_IS_FLAG, .to = &j.curve, .help = "how long a step takes at 20 budgets, from the smallest on"},
        {.name = "output", .letter = 'o', .kind = PLIM__CLI_IS_TEXT, .to = &j.out, .value = "FILE", .help = "save the plan there, if it fits"},
        {.name = "from", .kind = PLIM__CLI_IS_TEXT, .to = &j.from, .value = "FILE",
         .help = "plan again what was saved there, and say whether it is the same"},
        {.name = "layers", .kind = PLIM__CLI_IS_FLAG, .to = &j.all_layers, .help = "show every layer, in the model's order"},
        {.name = "why", .kind = PLIM__CLI_IS_TEXT, .to = &j.why, .value = "LAYER", .help = "who keeps what this layer makes, and until when"},
        {.name = "schedule", .kind = PLIM__CLI_IS_FLAG, .to = &j.schedule, .help = "show the plan's loops, stages and slots on stderr"},
    };
    const plim__cli_command cmd = {
        .name = "plan",
        .synopsis = "MODEL [--train OPTIMIZER] [--batch N] [--memory SIZE] [-o PLAN.json]\n       plimsoll plan --from PLAN.json [MODEL]",
        .about = "Says how much memory a model needs, to run or to be trained, whether that fits, where the peak is and why,\n"
                 "what each layer takes, and what would make it fit. MODEL is an ONNX file or Keras' .keras, .h5 or JSON.\n"
                 "Nothing is run, and nothing but the plan is written: spilling is planned for, as train and infer do it, unless --no-spill says otherwise.\n",
        .notes = "  plimsoll plan model.onnx --train adam --batch 256 --memory 8G\n"
                 "  plimsoll plan model.keras --memory 512M --largest-batch\n"
                 "  plimsoll plan model.onnx --train adam --batch 64 --curve\n"
                 "  plimsoll plan model.onnx --train adam --memory 8G -o plan.json && plimsoll plan --from plan.json\n\n"
                 "exit codes: 0 fits, 1 failed at run time, 2 usage or bad input, 3 does not fit the budget\n",
        .shared = PLIM__CLI_MACHINE | PLIM__CLI_MEMORY | PLIM__CLI_THREADS | PLIM__CLI_SPILL | PLIM__CLI_NO_SPILL | PLIM__CLI_ALLOW | PLIM__CLI_JSON,
        .option = options,
        .n_options = sizeof options / sizeof *options,
    };
    plim__cli_shared shared;
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave) || !plim__cli_machine(&cmd, &shared, &leave)) return leave;
    if (argc != 1 && !(j.from && argc == 0)) return plim__cli_usage(cmd.name, "plan needs one model");
    const char *wrong = contradiction(&j, &shared);
    if (!wrong && !j.from) wrong = plim__cli_spill_folder(&shared);
    return wrong ? plim__cli_usage(cmd.name, "%s", wrong) : run(&j, &shared, argc ? argv[0] : NULL);
}
