/* The verifier is proven by corruption. A table has a row for every invariant of docs/invariants.md: ways to break it,
 * each of which is tried on plans of three kinds (cut into tiles; uncut, with values made again and spilled; a step
 * that carries state) and has to be noticed with that invariant's number. Then single cases that were met, and plans
 * that must pass. Nothing is run: planning reads no data. */
#include "unit.h"

#include "schedules.h"

#include "expr/expr.h"
#include "faulty_os.h"
#include "core/size.h"
#include "ops/ops.h"
#include "plan/inplace.h"
#include "plan/plan.h"

#include <stdlib.h>
#include <string.h>

typedef struct fixture {
    plim_graph *g;
    plim_plan *plan;
    faulty_os os; /* what is resident is the same in every build: sanitizers have memory of their own */
} fixture;

/* A file that is never opened: planning reads no data. */
static void add_file(plim_graph *g, const char *name, int64_t rows, int64_t cols, uint32_t *v)
{
    char path[] = "nowhere.npy";
    plim__source s = {
        .path = path, .offset = 128, .stride = {cols, 1}, .file_bytes = 128 + (uint64_t)(rows * cols * 4)};
    const plim_shape shape = {2, {rows, cols}};
    assert_int_equal(plim__graph_file(g, name, PLIM_F32, &shape, &s, v, NULL), PLIM_OK);
}

static void set_up_by(fixture *f, const char *text, uint64_t memory, const plim__preference *prefer)
{
    plim_error err = {0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    plim__expr_input in = {.name = "x"};
    add_file(f->g, "x", 30000, 512, &in.value);
    plim__expr_result res[8];
    uint32_t n = 0;
    if (plim__expr_build(f->g, text, &in, 1, res, 8, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim__graph_output(f->g, res[n - 1].value, "out", "out.npy", &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    const plim_status status = prefer ? plim__plan_new_by(&f->plan, f->g, &set, &f->os.table, prefer, &err)
                                      : plim__plan_new(&f->plan, f->g, &set, &f->os.table, &err);
    if (status != PLIM_OK) fail_msg("%s", err.message);
}

static void set_up(fixture *f, const char *text, uint64_t memory)
{
    set_up_by(f, text, memory, NULL);
}

static void tear_down(fixture *f)
{
    plim__plan_drop(f->plan);
    plim__graph_free(&f->g);
}

static const char *verdict(const fixture *f, plim_error *err)
{
    *err = (plim_error){0};
    return plim__plan_check(f->plan, err) == PLIM_OK ? "" : err->message;
}

#define EXPECT(f, id)                                                                                                  \
    do {                                                                                                               \
        plim_error err_;                                                                                               \
        const char *said_ = verdict((f), &err_);                                                                       \
        if (strncmp(said_, id, strlen(id)) != 0) fail_msg("expected %s, the check said '%s'", id, said_);              \
    } while (0)

static uint32_t failures;

static const char two_passes[] = "(x - mean(x,0)) / std(x,0)";

static void good_plans_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {two_passes,    "mean(x)", "x.T",       "box(x,3)",
                                        "cumsum(x,0)", "x.T @ x", "sort(x,1)", "median(x,0)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture f;
        set_up(&f, texts[i], 64u << 20);
        EXPECT(&f, "");
        tear_down(&f);
    }
}

static plim__pnode *find_accumulator(plim__pass *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].accumulates) return &p->node[i];
    return NULL;
}

/* What is scanned is there whole for who reads it behind the loop. */
static void scanned_read_behind_its_loop(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "roll(cumsum(x, 0), -1, 0)", 128u << 20);
    uint32_t found = 0;
    for (uint32_t k = 0; k < f.plan->n_passes; k++) {
        plim__pass *p = &f.plan->pass[k];
        const plim__pnode *x = find_accumulator(p);
        if (!x || p->value[x->out[0]].role != PLIM__ROLE_WHOLE) continue;
        p->value[x->out[0]].role = PLIM__ROLE_TILE;
        EXPECT(&f, "I5:");
        found++;
    }
    assert_true(found > 0);
    tear_down(&f);
}

static plim__pnode *inner_sum(const plim__pass *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].accumulates && p->node[i].acc_depth > 0) return &p->node[i];
    return NULL;
}

static double prefer_inner_sums(void *ctx, const plim__pass *p, double seconds)
{
    (void)ctx;
    return inner_sum(p) ? seconds : seconds + 1e6;
}

/* A sum that is complete at every trip of an outer loop is there for that trip only. */
static void more_of_a_sum_than_there_is(void **state)
{
    (void)state;
    fixture f;
    set_up_by(&f, "exp(sum(x,1))", 64u << 20, &(plim__preference){.score = prefer_inner_sums});
    const plim__pass *p = &f.plan->pass[0];
    assert_non_null(inner_sum(p));
    EXPECT(&f, "");
    uint32_t found = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pnode *n = &p->node[i];
        if (!n->root || !n->post || n->depth == 0) continue;
        const int8_t good = n->bind[0];
        n->bind[0] = -1; /* all rows, whichever have been summed up */
        EXPECT(&f, "I7:");
        n->bind[0] = good;
        found++;
    }
    assert_int_equal(found, 1);
    tear_down(&f);
}

/* ------------------------------------------------------------------------------------ boxes of tiles and blocks */

/* Every slot and every private part is as large as its largest box: with less, some tile or block does not fit. */
static void box_larger_than_its_memory(void **state)
{
    (void)state;
    static const char *const texts[] = {two_passes, "box(exp(x), 3)", "x.T @ x", "sort(x, 1)", "argmax(x, 0)"};
    uint32_t slots = 0, parts = 0, scratch = 0;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture f;
        set_up(&f, texts[i], 64u << 20);
        for (uint32_t k = 0; k < f.plan->n_slots; k++) {
            plim__slot *s = &f.plan->slot[k];
            const uint64_t good = s->bytes;
            s->bytes = good / 2;
            EXPECT(&f, "I12:");
            s->bytes = good;
            slots++;
        }
        for (uint32_t q = 0; q < f.plan->n_passes; q++)
            for (uint32_t k = 0; k < f.plan->pass[q].n_values; k++) {
                plim__pvalue *v = &f.plan->pass[q].value[k];
                if (v->role != PLIM__ROLE_PRIVATE || v->private_bytes == 0) continue;
                const uint64_t good = v->private_bytes;
                v->private_bytes = good / 2;
                EXPECT(&f, "I12:");
                v->private_bytes = good;
                parts++;
            }
        for (uint32_t q = 0; q < f.plan->n_passes; q++)
            for (uint32_t k = 0; k < f.plan->pass[q].n_stages; k++) {
                plim__stage *s = &f.plan->pass[q].stage[k];
                if (s->private_bytes <= s->scratch_offset) continue;
                const uint64_t good = s->private_bytes;
                s->private_bytes = s->scratch_offset;
                EXPECT(&f, "I12:");
                s->private_bytes = good;
                scratch++;
            }
        EXPECT(&f, "");
        tear_down(&f);
    }
    assert_true(slots > 10 && parts > 0 && scratch > 0);
}

/* Moves a private value, and what lies on it. */
static void move_private(plim__pass *p, uint32_t v, uint64_t offset)
{
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->value[i].role == PLIM__ROLE_PRIVATE && plim__alias_root(p, i) == v) p->value[i].private_offset = offset;
}

/* Private values of a stage that are in use together. */
static void private_values_overlap(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "y = exp(x); z = sin(x); mean(y * z + y, 0)", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    uint32_t y = PLIM__NONE, z = PLIM__NONE;
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (p->value[i].role != PLIM__ROLE_PRIVATE || p->value[i].alias_of != PLIM__NONE) continue;
        if (y == PLIM__NONE)
            y = i;
        else if (z == PLIM__NONE)
            z = i;
    }
    assert_int_not_equal(z, PLIM__NONE);
    EXPECT(&f, "");
    const uint64_t good = p->value[z].private_offset;
    move_private(p, z, p->value[y].private_offset);
    EXPECT(&f, "I12:");
    move_private(p, z, p->stage[p->node[p->value[z].producer].stage].private_bytes);
    EXPECT(&f, "I12:");
    move_private(p, z, good);
    EXPECT(&f, "");
    tear_down(&f);
}

/* An output of a node leaves the stage, so its blocks are fixed; a reader of another output in the same stage wants
 * other blocks. */
static void another_block_is_read(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "flip(argmax(x, 1))", 512u << 20); /* uncut */
    EXPECT(&f, "");
    plim__pass *p = &f.plan->pass[0];
    uint32_t found = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pvalue *unread = &p->value[p->node[i].out[1]];
        if (f.g->node[p->node[i].node].n_out < 2 || p->stage[p->node[i].stage].blocks < 2 ||
            unread->role != PLIM__ROLE_PRIVATE)
            continue;
        const plim__pvalue good = *unread;
        unread->role = PLIM__ROLE_TILE;
        unread->slot = p->value[p->node[p->n_nodes - 1].out[0]].slot; /* one that is alive, and large enough */
        EXPECT(&f, "I7:");
        *unread = good;
        p->value[p->node[i].out[0]].role = PLIM__ROLE_TILE; /* what other threads are writing is read */
        p->value[p->node[i].out[0]].slot = p->value[p->node[p->n_nodes - 1].out[0]].slot;
        EXPECT(&f, "I7:");
        found++;
    }
    assert_int_equal(found, 1);
    tear_down(&f);
}

/* ----------------------------------------------------------------------------------------- states and spilled values
 */

/* Two states of one program: w, which everything reads, and v. Planned thoroughly, as trainings are. */
static void set_up_states(fixture *f, uint64_t memory, bool hold)
{
    static const char text[] =
        "y = sort(x + w, 1); m = mean(y, 0, keepdims=True); w1 = w - mean((y - m) * x, 0, keepdims=True); v1 = v + m";
    plim_error err = {0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    plim__expr_input in[3] = {{.name = "x"}, {.name = "w"}, {.name = "v"}};
    add_file(f->g, "x", 30000, 512, &in[0].value);
    add_file(f->g, "w", 1, 512, &in[1].value);
    add_file(f->g, "v", 1, 512, &in[2].value);
    for (int i = 1; i < 3; i++)
        f->g->source[f->g->value[in[i].value].source].stay = hold ? PLIM__STAY_MAY : PLIM__STAY_FILE;
    plim__expr_result res[8];
    uint32_t n = 0;
    if (plim__expr_build(f->g, text, in, 3, res, 8, &n, &err)) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(res[i].name, "w1") == 0 || strcmp(res[i].name, "v1") == 0)
            assert_int_equal(plim__graph_state(f->g, in[res[i].name[0] == 'w' ? 1 : 2].value, res[i].value, &err),
                             PLIM_OK);
        else if (strcmp(res[i].name, "m") == 0)
            assert_int_equal(plim__graph_output(f->g, res[i].value, "m", "m.npy", &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    set.spill_dir = ".";
    if (plim__plan_new_thorough(&f->plan, f->g, &set, &f->os.table, &err)) fail_msg("%s", err.message);
    EXPECT(f, "");
}

/* Budgets from the floor up, so that plans with one pass, with several, cut and uncut, and with spilled values are met.
 */
static void corrupt_states(bool (*corrupt)(fixture *f, const char **expected), uint32_t at_least)
{
    uint32_t met = 0;
    for (int hold = 0; hold < 2; hold++)
        for (uint64_t memory = 18u << 20; memory < (64u << 20); memory = memory * 5 / 4) {
            fixture f;
            const char *expected = "";
            set_up_states(&f, memory, hold);
            if (corrupt(&f, &expected)) {
                EXPECT(&f, expected);
                met++;
            }
            tear_down(&f);
        }
    if (met < at_least) fail_msg("%u plans were corrupted, of %u that were hoped for", met, at_least);
}

/* What is made of m takes the place of x instead, which the next pass reads again. */
static bool overwrite_early(fixture *f, const char **expected)
{
    *expected = "I9:";
    uint32_t x = PLIM__NONE;
    for (uint32_t v = 0; v < f->g->n_values; v++)
        if (strcmp(f->g->value[v].name, "x") == 0) x = v;
    bool early = false;
    for (uint32_t i = 0; i < f->g->n_states; i++) {
        if (strcmp(f->g->value[f->g->state[i].in].name, "v") != 0 || f->plan->held[f->g->state[i].in]) continue;
        const plim__pass *last = &f->plan->pass[f->plan->n_passes - 1];
        early = true;
        for (uint32_t v = 0; v < last->n_values; v++) early &= last->value[v].value != f->g->state[i].out;
        f->g->state[i].in = x;
    }
    return early;
}

static void state_overwritten_early(void **state)
{
    (void)state;
    corrupt_states(overwrite_early, 5);
}

/* ------------------------------------------------------------------------------------------- a row per invariant */

enum { CUT = 1, UNCUT = 2, STATE = 4, ALL = CUT | UNCUT | STATE, BANDS = 8 };
#define WAYS 4 /* to break a plan by one row, at the most: more of them only cost time */

/* The tables of a plan as they were. */
typedef struct snapshot {
    plim_plan plan;
    plim__slot *slot;
    plim__file *file;
    plim__home *home;
    plim__pass *pass;
    plim__output output[8];
    plim__state *state;
    uint32_t n_states;
    plim__index *index;
    uint64_t n_index;
} snapshot;

static void *copy_of(const void *from, uint64_t n, uint64_t size)
{
    void *to = malloc(n * size + 1);
    assert_non_null(to);
    if (n) memcpy(to, from, n * size);
    return to;
}

static uint64_t count_index(const fixture *f)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < f->g->n_nodes; i++)
        for (uint32_t k = 0; k < f->g->node[i].n_in; k++) n += f->g->value[f->g->node[i].in[k]].shape.rank;
    return n;
}

static void take(snapshot *s, const fixture *f)
{
    const plim_plan *p = f->plan;
    *s = (snapshot){.plan = *p, .state = f->g->state, .n_states = f->g->n_states, .n_index = count_index(f)};
    s->slot = copy_of(p->slot, p->n_slots, sizeof *p->slot);
    s->file = copy_of(p->file, p->n_files, sizeof *p->file);
    s->home = copy_of(p->home, f->g->n_values, sizeof *p->home);
    s->pass = copy_of(p->pass, p->n_passes, sizeof *p->pass);
    s->index = copy_of(p->nest.index, s->n_index, sizeof *s->index);
    assert_true(f->g->n_outputs <= COUNT_OF(s->output));
    memcpy(s->output, f->g->output, f->g->n_outputs * sizeof *f->g->output);
    for (uint32_t q = 0; q < p->n_passes; q++) {
        plim__pass *x = &s->pass[q];
        x->node = copy_of(x->node, x->n_nodes, sizeof *x->node);
        x->value = copy_of(x->value, x->n_values, sizeof *x->value);
        x->operand = copy_of(x->operand, x->n_operands, sizeof *x->operand);
        x->stage = copy_of(x->stage, x->n_stages, sizeof *x->stage);
        x->step = copy_of(x->step, x->n_steps, sizeof *x->step);
    }
}

static void put_back(const snapshot *s, fixture *f)
{
    plim_plan *p = f->plan;
    *p = s->plan;
    memcpy(p->slot, s->slot, p->n_slots * sizeof *p->slot);
    memcpy(p->file, s->file, p->n_files * sizeof *p->file);
    memcpy(p->home, s->home, f->g->n_values * sizeof *p->home);
    memcpy(p->nest.index, s->index, s->n_index * sizeof *s->index);
    memcpy(f->g->output, s->output, f->g->n_outputs * sizeof *f->g->output);
    f->g->state = s->state;
    f->g->n_states = s->n_states;
    for (uint32_t q = 0; q < p->n_passes; q++) {
        plim__pass *to = &p->pass[q];
        const plim__pass was = *to, *from = &s->pass[q];
        *to = *from;
        to->node = memcpy(was.node, from->node, from->n_nodes * sizeof *from->node);
        to->value = memcpy(was.value, from->value, from->n_values * sizeof *from->value);
        to->operand = memcpy(was.operand, from->operand, from->n_operands * sizeof *from->operand);
        to->stage = memcpy(was.stage, from->stage, from->n_stages * sizeof *from->stage);
        to->step = memcpy(was.step, from->step, from->n_steps * sizeof *from->step);
    }
}

static void drop(snapshot *s)
{
    for (uint32_t q = 0; q < s->plan.n_passes; q++) {
        free(s->pass[q].node);
        free(s->pass[q].value);
        free(s->pass[q].operand);
        free(s->pass[q].stage);
        free(s->pass[q].step);
    }
    free(s->slot);
    free(s->file);
    free(s->home);
    free(s->pass);
    free(s->index);
}

/* Every way to break a plan is a function: it breaks it in way number `way`, or says that it has no such way. */
typedef bool way_to_break(fixture *f, uint32_t way);

/* Counts candidates down: true for the one that is meant. */
static bool is_meant(uint32_t *way)
{
    return (*way)-- == 0;
}

static bool slot_is_misplaced(fixture *f, uint32_t way)
{
    if (f->plan->n_slots == 0) return false;
    plim__slot *s = &f->plan->slot[way % f->plan->n_slots];
    switch (way) {
    case 0:
        s->offset = f->plan->arena_bytes + 4096;
        return true;
    case 1:
        s->offset += 8;
        return true;
    case 2:
        s->bytes = UINT64_MAX / 2;
        return true;
    case 3:
        s->last = f->plan->n_steps;
        return true;
    default:
        return false;
    }
}

static bool slot_reaches_the_buffers(fixture *f, uint32_t way)
{
    if (f->plan->io_bytes == 0 || way > 1) return false;
    if (way == 0)
        f->plan->slot[0].offset = 0;
    else
        f->plan->slot[0].copies = 0;
    return true;
}

static bool slots_share_memory(fixture *f, uint32_t way)
{
    for (uint32_t i = 0; i < f->plan->n_slots; i++)
        for (uint32_t j = 0; j < i; j++) {
            plim__slot *a = &f->plan->slot[i], *b = &f->plan->slot[j];
            if (a->first > b->last || b->first > a->last || a->bytes == 0 || b->bytes == 0) continue;
            if (b->offset + a->bytes * a->copies > f->plan->arena_bytes || !is_meant(&way)) continue;
            a->offset = b->offset;
            return true;
        }
    return false;
}

static bool reads_value(const fixture *f, const plim__pass *p, const plim__step *s, uint32_t v)
{
    if (s->kind != PLIM__STEP_STAGE) return false;
    const plim__stage *x = &p->stage[s->index];
    for (uint32_t i = x->first; i < x->first + x->count; i++)
        for (uint32_t k = 0; k < f->g->node[p->node[i].node].n_in; k++)
            if (p->operand[p->node[i].in0 + k] == v) return true;
    return false;
}

/* A slot that dies before the last stage that reads it. */
static bool slot_dies_early(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        for (uint32_t v = 0; v < p->n_values; v++) {
            if (p->value[v].role == PLIM__ROLE_CONST || p->value[v].role == PLIM__ROLE_PRIVATE) continue;
            plim__slot *s = &f->plan->slot[p->value[v].slot];
            for (uint32_t t = p->n_steps; t-- > 0;) {
                if (!reads_value(f, p, &p->step[t], v)) continue;
                if (s->first < p->time0 + t && is_meant(&way)) {
                    s->last = p->time0 + t - 1;
                    return true;
                }
                break;
            }
        }
    }
    return false;
}

/* What the loops carry lives as long as they turn, also behind its last use. */
static bool carried_slot_dies(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        for (uint32_t v = 0; v < p->n_values && p->n_cut > 0; v++) {
            if (p->value[v].role == PLIM__ROLE_CONST || p->value[v].role == PLIM__ROLE_PRIVATE) continue;
            plim__slot *s = &f->plan->slot[p->value[v].slot];
            if ((p->value[v].role != PLIM__ROLE_WHOLE && s->copies == 1) || p->n_steps < 2 || !is_meant(&way)) continue;
            if (s->first < p->time0 + p->n_steps - 1)
                s->last = p->time0 + p->n_steps - 2;
            else
                s->first++;
            return true;
        }
    }
    return false;
}

/* More tiles are read ahead than the ring has copies. */
static bool ring_is_too_short(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        uint32_t first = PLIM__NONE;
        for (uint32_t v = 0; v < f->plan->pass[q].n_values; v++) {
            const plim__pvalue *x = &f->plan->pass[q].value[v];
            if (x->role != PLIM__ROLE_READ || f->plan->slot[x->slot].copies < 3) continue;
            if (first != PLIM__NONE && is_meant(&way)) {
                f->plan->slot[x->slot].copies--;
                return true;
            }
            first = v;
        }
    }
    return false;
}

/* What is read back is said to be another value that was spilled. */
static bool spill_is_another(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        for (uint32_t v = 0; v < p->n_values; v++) {
            if (!p->value[v].flat || p->value[v].producer == PLIM__NONE || p->value[v].back == PLIM__NONE || !is_meant(&way)) continue;
            p->value[v].back = p->value[p->value[v].back].back;
            return true;
        }
    }
    return false;
}

/* A write from memory that others get is waited for by nobody: the slot's WAIT step waits for something else. */
static bool write_is_not_waited_for(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t t = 0, other = PLIM__NONE; t < p->n_steps; t++) {
            plim__step *s = &p->step[t];
            if (s->kind == PLIM__STEP_WRITE && !p->value[s->index].stored &&
                f->plan->slot[p->value[s->index].slot].last >= p->time0 + p->n_steps - 1)
                other = s->index;
            if (s->kind != PLIM__STEP_WAIT || other == PLIM__NONE || other == s->index) continue;
            if (f->plan->slot[p->value[s->index].slot].last >= p->time0 + p->n_steps - 1 || !is_meant(&way)) continue;
            s->index = other;
            return true;
        }
    }
    return false;
}

static bool operand_is_another(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t k = 0; k < p->n_operands; k++)
            for (uint32_t v = 0; v < p->n_values; v++)
                if (p->value[v].value != p->value[p->operand[k]].value && is_meant(&way)) {
                    p->operand[k] = v;
                    return true;
                }
    }
    return false;
}

static bool input_is_nowhere(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t v = 0; v < f->plan->pass[q].n_values; v++)
            if (f->plan->pass[q].value[v].producer == PLIM__NONE && !f->plan->pass[q].value[v].flat && is_meant(&way)) {
                f->plan->home[f->plan->pass[q].value[v].value].kind = PLIM__HOME_NOWHERE;
                return true;
            }
    return false;
}

/* A step changes places with the stage behind it that reads what the step reads or makes. */
static bool stage_runs_early(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t t = 0; t + 1 < p->n_steps; t++) {
            plim__step *a = &p->step[t], *b = &p->step[t + 1];
            if (a->kind != PLIM__STEP_READ || !reads_value(f, p, b, a->index) || a->depth != b->depth ||
                a->post != b->post || !is_meant(&way))
                continue;
            const plim__step swap = *a;
            *a = *b;
            *b = swap;
            return true;
        }
    }
    return false;
}

static bool stage_forgets_a_node(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_stages; i++) {
            if (p->stage[i].count < 2 || !is_meant(&way)) continue;
            p->stage[i].count--;
            return true;
        }
    }
    return false;
}

static bool stage_is_left_out(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        if (p->step[p->n_steps - 1].kind != PLIM__STEP_STAGE && p->step[0].kind != PLIM__STEP_STAGE) continue;
        plim__step *s = p->step[0].kind == PLIM__STEP_STAGE ? p->step : &p->step[p->n_steps - 1];
        for (uint32_t i = 0; i < p->n_stages; i++)
            if (i != s->index && p->stage[i].depth == s->depth && p->stage[i].post == s->post && is_meant(&way)) {
                s->index = i;
                return true;
            }
    }
    return false;
}

static bool reads_post(const fixture *f, const plim__pass *p, const plim__pnode *n)
{
    for (uint32_t k = 0; k < f->g->node[n->node].n_in; k++) {
        const uint32_t by = p->value[p->operand[n->in0 + k]].producer;
        if (by != PLIM__NONE && p->node[by].post) return true;
    }
    return false;
}

/* A sum is read while its loops turn, or its slot is one of a tile. */
static bool sum_is_read_early(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_nodes; i++)
            for (uint32_t k = 0; k < f->g->node[p->node[i].node].n_in; k++) {
                plim__pvalue *v = &p->value[p->operand[p->node[i].in0 + k]];
                if (v->producer == PLIM__NONE || !p->node[v->producer].accumulates || reads_post(f, p, &p->node[i]))
                    continue;
                if (is_meant(&way)) {
                    p->node[i].post = false;
                    return true;
                }
                if (is_meant(&way)) {
                    v->role = PLIM__ROLE_TILE;
                    return true;
                }
            }
    }
    return false;
}

static bool tiles_are_no_partition(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t l = 0; l < f->plan->pass[q].n_loops; l++)
            if (is_meant(&way)) {
                f->plan->pass[q].loop[l].tile = 0;
                return true;
            }
    return false;
}

/* What is kept or written is made only where somebody reads it. */
static bool root_is_none(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_values; i++) {
            const plim__pvalue *v = &p->value[i];
            if (v->producer == PLIM__NONE || (v->role != PLIM__ROLE_WRITE && v->role != PLIM__ROLE_WHOLE) ||
                v->flat || !is_meant(&way))
                continue;
            p->node[v->producer].root = false;
            return true;
        }
    }
    return false;
}

static uint32_t count_uses(const plim__pass *p, uint32_t v)
{
    uint32_t n = 0;
    for (uint32_t k = 0; k < p->n_operands; k++) n += p->operand[k] == v;
    return n;
}

/* The planner thinks that a node reads but one index of a dimension: what is there is one index long. */
static bool box_is_too_small(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_nodes; i++)
            for (uint32_t k = 0; k < f->g->node[p->node[i].node].n_in; k++) {
                const uint32_t v = p->operand[p->node[i].in0 + k];
                const plim_shape *s = &f->g->value[p->value[v].value].shape;
                if (p->value[v].role != PLIM__ROLE_READ || p->value[v].flat || count_uses(p, v) > 1 || s->rank == 0 || s->dim[0] < 2 ||
                    !is_meant(&way))
                    continue;
                f->plan->nest.index[f->plan->nest.read0[f->plan->nest.in0[p->node[i].node] + k]] =
                    (plim__index){.axis = -1, .window = 1};
                return true;
            }
    }
    return false;
}

static bool output_goes_nowhere(fixture *f, uint32_t way)
{
    for (uint32_t i = 0; i < f->g->n_outputs; i++) {
        if (f->plan->home[f->g->output[i].value].kind != PLIM__HOME_ARENA &&
            is_meant(&way)) { /* it is not kept, only written */
            f->g->output[i].path = NULL;
            return true;
        }
        if (is_meant(&way)) {
            f->g->output[i].value = f->g->node[0].in[0]; /* an input */
            return true;
        }
    }
    return false;
}

static plim__state more_states[64];

/* Every loop around node n moves it: it would update a state once. */
static bool is_made_once(const plim__pnode *n)
{
    for (uint32_t l = 0; l < n->depth; l++) {
        bool moved = false;
        for (uint32_t a = 0; a < n->axes.n; a++) moved |= n->bind[a] == (int)l;
        if (!moved) return false;
    }
    return true;
}

/* An output of node w takes the place of an input that a later node reads, or a later trip. */
static bool state_is_overwritten_early(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        for (uint32_t w = 0; w < p->n_nodes; w++) {
            const plim__pvalue *made = &p->value[p->node[w].out[0]];
            if (!is_made_once(&p->node[w]) || made->again || f->plan->replaces[made->value] != PLIM__NONE) continue;
            for (uint32_t r = 0; r < p->n_nodes; r++)
                for (uint32_t k = 0; k < f->g->node[p->node[r].node].n_in; k++) {
                    const uint32_t in = f->g->node[p->node[r].node].in[k];
                    if (f->g->value[in].kind != PLIM__VALUE_FILE || f->plan->state_of[in] != PLIM__NONE || r == w ||
                        (r < w && (p->n_cut == 0 || p->node[w].post)))
                        continue;
                    if (!is_meant(&way)) continue;
                    assert_true(f->g->n_states < COUNT_OF(more_states));
                    if (f->g->n_states > 0) memcpy(more_states, f->g->state, f->g->n_states * sizeof *more_states);
                    more_states[f->g->n_states++] = (plim__state){.in = in, .out = made->value};
                    f->g->state = more_states;
                    return true;
                }
        }
    }
    return false;
}

/* What is read from a file comes from one of our own that nobody has written. */
static bool file_is_not_written(fixture *f, uint32_t way)
{
    for (uint32_t i = 0; i < f->plan->n_files; i++) {
        bool read = false;
        for (uint32_t q = 0; q < f->plan->n_passes; q++)
            for (uint32_t v = 0; v < f->plan->pass[q].n_values; v++)
                read |= f->plan->pass[q].value[v].role == PLIM__ROLE_READ && f->plan->pass[q].value[v].file == i;
        if (!read || f->plan->file[i].kind == PLIM__FILE_SPILL || !is_meant(&way)) continue;
        f->plan->file[i].kind = PLIM__FILE_SPILL;
        return true;
    }
    return false;
}

/* What is spilled comes from the file of something else. */
static bool file_is_another(fixture *f, uint32_t way)
{
    for (uint32_t i = 0; i < f->plan->n_files; i++)
        if (f->plan->file[i].kind == PLIM__FILE_SPILL && is_meant(&way)) {
            f->plan->file[i].value = f->plan->file[i].value == 0;
            return true;
        }
    return false;
}

/* A value claims to be made in the place of a state that is not there, or lies in another slot than its own. */
static bool place_is_another(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t i = 0; i < f->plan->pass[q].n_values; i++) {
            plim__pvalue *v = &f->plan->pass[q].value[i];
            if (v->producer != PLIM__NONE && v->role != PLIM__ROLE_PRIVATE && !v->foreign && is_meant(&way)) {
                v->foreign = true;
                return true;
            }
            if (v->producer != PLIM__NONE || !v->foreign) continue;
            for (uint32_t s = 0; s < f->plan->n_slots; s++)
                if (s != v->slot && f->plan->slot[s].first == 0 && f->plan->slot[s].last + 1 == f->plan->n_steps &&
                    is_meant(&way)) {
                    v->slot = s;
                    return true;
                }
        }
    return false;
}

static bool slot_is_too_small(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t i = 0; i < f->plan->pass[q].n_values; i++) {
            const plim__pvalue *v = &f->plan->pass[q].value[i];
            if (v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_PRIVATE || f->plan->slot[v->slot].bytes == 0 ||
                !is_meant(&way))
                continue;
            f->plan->slot[v->slot].bytes = 1;
            return true;
        }
    return false;
}

/* Memory inside a stage: of a private value, of the scratch, of the threads. */
static bool stage_is_too_small(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_values; i++)
            if (p->value[i].role == PLIM__ROLE_PRIVATE && p->value[i].private_bytes > 0 && is_meant(&way)) {
                p->value[i].private_bytes = 1;
                return true;
            }
        for (uint32_t i = 0; i < p->n_stages; i++) {
            if (p->stage[i].slot == PLIM__NONE) continue;
            if (p->stage[i].private_bytes > p->stage[i].scratch_offset && is_meant(&way)) {
                p->stage[i].private_bytes = p->stage[i].scratch_offset;
                return true;
            }
            if (!p->stage[i].pool && is_meant(&way)) {
                f->plan->slot[p->stage[i].slot].copies = 1;
                return true;
            }
        }
    }
    return false;
}

/* An axis that is cut, by a loop or into blocks, is one that has to be run from its beginning. */
static bool scan_is_cut(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_nodes; i++) {
            plim__pnode *n = &p->node[i];
            const plim__stage *s = &p->stage[n->stage];
            for (uint32_t a = 0; a < n->axes.n; a++) {
                const bool by_loop = n->root && n->bind[a] >= 0 && (uint32_t)n->bind[a] < p->n_cut && !n->post &&
                                     p->loop[n->bind[a]].extent == n->axes.axis[a].extent;
                const bool by_blocks = s->blocks > 1 && n->bind[a] == s->split && plim__leaves_stage(p, n);
                if ((!by_loop && !by_blocks) || n->accumulates || n->axes.axis[a].kind != PLIM__PARALLEL ||
                    !is_meant(&way))
                    continue;
                n->axes.axis[a].kind = PLIM__SCAN;
                return true;
            }
        }
    }
    return false;
}

/* A node whose sum is cut is made a second time, in the place of another one. */
static bool sum_is_made_twice(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_nodes && p->n_nodes > 1; i++)
            for (uint32_t a = 0; a < p->node[i].axes.n; a++) {
                if (!plim__axis_rounds(p->node[i].axes.axis[a].kind) || p->n_loops == 0 || !is_meant(&way)) continue;
                plim__stage *s = &p->stage[p->node[i].stage];
                p->node[i].bind[a] = s->split = 0;
                s->blocks = 2;
                s->pool = false;
                p->node[i ? 0 : 1].node = p->node[i].node;
                return true;
            }
    }
    return false;
}

/* What moves with a loop is read once, before it. */
static bool moving_box_is_read_once(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t t = 0; t < p->n_steps && p->n_cut == 1; t++) {
            plim__step *s = &p->step[t];
            if (s->kind != PLIM__STEP_READ || s->depth != 1 || s->post || (t > 0 && p->step[t - 1].depth != 0) ||
                !is_meant(&way))
                continue;
            s->depth = p->value[s->index].depth = 0;
            plim__slot *slot = &f->plan->slot[p->value[s->index].slot];
            slot->copies = 1;
            if (slot->first > p->time0 || slot->last < p->time0 + p->n_steps - 1)
                return false; /* no ring: others have its memory */
            return true;
        }
    }
    return false;
}

/* Puts a slot behind all others, for all of the time and with at least so many bytes: whoever uses it finds it alive and large enough. */
static void give_room(fixture *f, uint32_t slot, uint64_t bytes)
{
    plim__slot *s = &f->plan->slot[slot];
    s->bytes = plim__round_up(s->bytes > bytes ? s->bytes : bytes, 4096);
    s->offset = f->plan->arena_bytes;
    s->first = 0;
    s->last = f->plan->n_steps - 1;
    f->plan->arena_bytes += s->bytes * s->copies;
}

static bool has_slot(const plim__pvalue *v)
{
    return v->role != PLIM__ROLE_CONST && v->role != PLIM__ROLE_PRIVATE && !v->foreign;
}

/* Two values lie in one slot, and neither says that it lies on the other. */
static bool slot_has_two_owners(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_values; i++) {
            if (!has_slot(&p->value[i]) || f->plan->slot[p->value[i].slot].copies > 1) continue;
            if (p->value[i].alias_of != PLIM__NONE && is_meant(&way)) {
                p->value[i].alias_of = PLIM__NONE;
                return true;
            }
            for (uint32_t o = 0; o < p->n_values; o++) {
                if (o == i || !has_slot(&p->value[o]) || f->plan->slot[p->value[o].slot].copies > 1 ||
                    p->value[o].slot == p->value[i].slot || p->value[i].alias_of != PLIM__NONE || !is_meant(&way))
                    continue;
                give_room(f, p->value[o].slot, f->plan->slot[p->value[i].slot].bytes);
                p->value[i].slot = p->value[o].slot;
                return true;
            }
        }
    }
    return false;
}

/* A value says that it lies on another one, in another slot; or two say that of the same one. */
static bool alias_is_another(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_values; i++)
            for (uint32_t o = 0; o < p->n_values && p->value[i].alias_of != PLIM__NONE; o++) {
                const bool both_inside = p->value[i].role == PLIM__ROLE_PRIVATE && p->value[o].role == PLIM__ROLE_PRIVATE;
                const bool other = plim__alias_root(p, o) != plim__alias_root(p, i) && o != i &&
                                   !(both_inside && p->value[o].private_offset == p->value[i].private_offset);
                if (!other || !is_meant(&way)) continue;
                p->value[i].alias_of = o;
                return true;
            }
    }
    return false;
}

/* May value v lie on `in`? */
static bool is_allowed(fixture *f, const plim__pass *p, uint32_t v, uint32_t in)
{
    plim__sharing x;
    uint32_t found[PLIM__MAX_OVERWRITABLE], last = 0;
    const plim__stage *s = &p->stage[p->node[p->value[v].producer].stage];
    assert_int_equal(plim__sharing_new(&x, f->plan, p, NULL), PLIM_OK);
    const uint32_t n = plim__sharing_find(&x, v, found);
    plim__sharing_free(&x, &f->plan->alloc);
    for (uint32_t i = 0; i < p->n_nodes; i++)
        for (uint32_t k = 0; k < f->g->node[p->node[i].node].n_in; k++)
            if (p->operand[p->node[i].in0 + k] == in) last = i;
    bool is_found = false;
    for (uint32_t i = 0; i < n; i++) is_found |= found[i] == in;
    return is_found && last < s->first + s->count;
}

static bool is_shared(const plim__pass *p, uint32_t v)
{
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->value[i].alias_of == v) return true;
    return p->value[v].alias_of != PLIM__NONE;
}

/* A value of the same size and shape is overwritten that somebody needs: a later stage, another block, another element of the same node. */
static bool value_is_overwritten_early(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t i = 0; i < p->n_values; i++)
            for (uint32_t o = 0; o < p->n_values; o++) {
                const plim__pvalue *v = &p->value[i], *in = &p->value[o];
                const plim__value *x = &f->g->value[v->value], *y = &f->g->value[in->value];
                if (i == o || v->producer == PLIM__NONE || (in->role != PLIM__ROLE_READ && in->role != PLIM__ROLE_TILE)) continue;
                if (v->role != PLIM__ROLE_TILE && (v->role != PLIM__ROLE_WRITE || p->n_cut > 0)) continue;
                if (in->producer != PLIM__NONE && in->producer >= v->producer) continue;
                if (x->dtype != y->dtype || !plim__shape_equal(&x->shape, &y->shape) || is_shared(p, i) || is_shared(p, o)) continue;
                if (is_allowed(f, p, i, o) || !is_meant(&way)) continue;
                give_room(f, in->slot, f->plan->slot[v->slot].bytes);
                p->value[i].slot = in->slot;
                p->value[i].alias_of = o;
                return true;
            }
    }
    return false;
}

/* What is read for the next trip has no memory apart from what this trip reads. */
static bool next_trip_has_no_copy(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t v = 0; v < f->plan->pass[q].n_values; v++) {
            if (!f->plan->pass[q].value[v].ahead || !is_meant(&way)) continue;
            f->plan->slot[f->plan->pass[q].value[v].slot].copies = 1;
            return true;
        }
    return false;
}

/* Who reads for the next trip does not know that his memory is still being written from. */
static bool writer_is_not_waited_for(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t v = 0; v < f->plan->pass[q].n_values; v++) {
            plim__pvalue *x = &f->plan->pass[q].value[v];
            if (!x->beside || x->alias_of == PLIM__NONE || !is_meant(&way)) continue;
            x->beside = false;
            return true;
        }
    return false;
}

/* What is overwritten behind inner loops is read in front of them once too often: inside. */
static bool overwritten_in_each_trip(fixture *f, uint32_t way)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t v = 0; v < p->n_values; v++) {
            if (!p->value[v].beside || p->value[v].alias_of == PLIM__NONE || p->value[v].producer == PLIM__NONE || !is_meant(&way)) continue;
            p->node[p->value[v].producer].post = false;
            return true;
        }
    }
    return false;
}

static const struct {
    const char *id;
    way_to_break *breaks;
    int where; /* kinds of plans that must have been broken so */
} table[] = {
    {"I1:", slot_is_misplaced, ALL},
    {"I1:", slot_reaches_the_buffers, ALL},
    {"I2:", slots_share_memory, ALL},
    {"I3:", slot_dies_early, ALL},
    {"I3:", carried_slot_dies, CUT | STATE},
    {"I3:", ring_is_too_short, 0}, /* needs two rings in one pass */
    {"I3:", write_is_not_waited_for, UNCUT},
    {"I4:", operand_is_another, ALL},
    {"I4:", input_is_nowhere, ALL},
    {"I4:", stage_runs_early, ALL},
    {"I4:", stage_forgets_a_node, ALL},
    {"I4:", stage_is_left_out, 0},           /* needs two stages next to each other and no step else at an end */
    {"I5:", sum_is_read_early, CUT | STATE}, /* there is no loop elsewhere */
    {"I6:", tiles_are_no_partition, ALL},
    {"I6:", root_is_none, ALL},
    {"I7:", box_is_too_small, CUT | STATE}, /* needs an array that is read once */
    {"I8:", output_goes_nowhere, ALL},
    {"I9:", state_is_overwritten_early, ALL},
    {"I10:", file_is_not_written, ALL},
    {"I10:", file_is_another, UNCUT},
    {"I10:", spill_is_another, UNCUT},
    {"I11:", place_is_another, ALL},
    {"I12:", slot_is_too_small, ALL},
    {"I12:", stage_is_too_small, ALL},
    {"I13:", scan_is_cut, ALL},
    {"I14:", sum_is_made_twice, ALL},
    {"I15:", moving_box_is_read_once, CUT}, /* there is no loop elsewhere */
    {"I16:", slot_has_two_owners, ALL},
    {"I16:", alias_is_another, ALL},
    {"I17:", value_is_overwritten_early, ALL},
    {"I3:", next_trip_has_no_copy, BANDS},
    {"I16:", writer_is_not_waited_for, BANDS},
    {"I", overwritten_in_each_trip, BANDS}, /* several do not allow that */
};

static int broken[COUNT_OF(table)]; /* kinds of plans that each row has been tried on */

/* All rows on one plan. */
static void break_plan(fixture *f, int kind, const char *text)
{
    snapshot good;
    EXPECT(f, "");
    take(&good, f);
    for (size_t r = 0; r < COUNT_OF(table); r++)
        for (uint32_t way = 0; way < WAYS; way++) {
            plim_error err;
            const bool breaks = table[r].breaks(f, way);
            const char *said = breaks ? verdict(f, &err) : table[r].id;
            if (strncmp(said, table[r].id, strlen(table[r].id)) != 0) {
                print_error("%s: %s way %u of row %zu: the check said '%s'\n", text, table[r].id, way, r, said);
                failures++;
            }
            put_back(&good, f);
            if (!breaks) break;
            broken[r] |= kind;
        }
    EXPECT(f, "");
    drop(&good);
}

static void break_cut_plans(void)
{
    static const char *const texts[] = {two_passes,       "mean(exp(x), 0)",  "box(exp(x), 3)",
                                        "sort(x * 2, 1)", "cumsum(x + 1, 0)", "x.T @ x",
                                        "w = exp(x); y = w @ (x.T @ x); mean(y * 2 + w, 0)",
                                        "w = sort(x, 1); y = w @ (x.T @ x); mean(y * 2 + w + x, 0)"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        fixture f;
        set_up(&f, texts[i], 24u << 20);
        break_plan(&f, CUT, texts[i]);
        tear_down(&f);
    }
}

/* No loop moves all of it, so it is run uncut: some of it is kept, some made again, some spilled. */
static bool set_up_uncut(fixture *f, uint64_t memory, const char *spill_dir)
{
    static const char text[] = "a = sort(x, 0); b = exp(a); c = sort(a * x + b, 1); d = sort(c - b, 0); k = sort(d + c, 1); "
                               "e = sort(d * k - c, 0); h = mean(e * a + sin(b) * a, 0)";
    plim_error err = {0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    plim__expr_input in = {.name = "x"};
    plim__expr_result res[8];
    uint32_t n = 0;
    add_file(f->g, "x", 3000, 512, &in.value);
    if (plim__expr_build(f->g, text, &in, 1, res, 8, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim__graph_output(f->g, res[n - 1].value, "h", "h.npy", &err), PLIM_OK);
    assert_int_equal(plim__graph_output(f->g, res[n - 2].value, "e", "e.npy", &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    set.spill_dir = spill_dir;
    const plim_status status = plim__plan_new_thorough(&f->plan, f->g, &set, &f->os.table, &err);
    if (status != PLIM_OK && status != PLIM_E_BUDGET) fail_msg("%s", err.message);
    if (status == PLIM_OK) return true;
    plim__graph_free(&f->g);
    return false;
}

/* Half of what keeping everything takes, or as little as does: with and without a folder to spill to. */
static void break_uncut_plans(void)
{
    bool spilled = false, again = false;
    for (int way = 0; way < 16; way++) {
        fixture f;
        look whole, seen;
        if (!set_up_uncut(&f, 256u << 20, way % 2 ? "." : NULL)) fail();
        assert_true(schedule_plan(f.plan, UINT64_MAX, &whole));
        if (schedule_plan(f.plan, whole.floor + (whole.peak - whole.floor) * (uint64_t)(way / 2) / 8, &seen)) {
            spilled |= seen.spilled > 0;
            again |= seen.again > 0;
            break_plan(&f, UNCUT, way % 2 ? "spilled" : "recomputed");
        }
        tear_down(&f);
    }
    assert_true(spilled);
    assert_true(again);
}

static void break_state_plans(void)
{
    for (int hold = 0; hold < 2; hold++)
        for (uint64_t memory = 20u << 20; memory < (600u << 20); memory *= 3) { /* in the largest it is not cut */
            fixture f;
            set_up_states(&f, memory, hold);
            break_plan(&f, STATE, hold ? "held states" : "states in files");
            tear_down(&f);
        }
}

/* Bands of columns outside, rows inside: the state is updated behind the rows. */
static double prefer_bands(void *ctx, const plim__pass *p, double seconds)
{
    (void)ctx;
    double score = 0, trips = 1;
    for (uint32_t l = 0; l < p->n_cut; l++) trips *= (double)plim__loop_trips(&p->loop[l]);
    for (uint32_t i = 0; i < p->n_nodes; i++) score -= p->n_cut == 2 && p->node[i].post && p->node[i].depth == 1;
    return score + trips * 1e-6 + seconds * 1e-12;
}

static const plim__preference bands = {.score = prefer_bands};

/* The gradient of w is a sum over the rows of x; w is needed inside that loop, too. */
static void break_band_plans(void)
{
    static const char text[] = "r = mean(abs(y @ w.T) * x); w1 = w - x.T @ y / 30000";
    fixture f;
    plim_error err = {0};
    faulty_init(&f.os);
    assert_int_equal(plim__graph_new(&f.g, (plim__alloc){0}, &err), PLIM_OK);
    plim__expr_input in[3] = {{.name = "x"}, {.name = "w"}, {.name = "y"}};
    add_file(f.g, "x", 30000, 2048, &in[0].value);
    add_file(f.g, "w", 2048, 10, &in[1].value);
    add_file(f.g, "y", 30000, 10, &in[2].value);
    plim__expr_result res[8];
    uint32_t n = 0;
    if (plim__expr_build(f.g, text, in, 3, res, 8, &n, &err)) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(res[i].name, "w1") == 0) assert_int_equal(plim__graph_state(f.g, in[1].value, res[i].value, &err), PLIM_OK);
        else if (strcmp(res[i].name, "r") == 0) assert_int_equal(plim__graph_output(f.g, res[i].value, "r", "r.npy", &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = 64u << 20;
    set.threads = 2;
    set.spill_dir = ".";
    if (plim__plan_new_by(&f.plan, f.g, &set, &f.os.table, &bands, &err)) fail_msg("%s", err.message);
    break_plan(&f, BANDS, "bands");
    tear_down(&f);
}

static void every_invariant_is_checked(void **state)
{
    (void)state;
    failures = 0;
    break_band_plans();
    break_cut_plans();
    break_uncut_plans();
    break_state_plans();
    for (size_t r = 0; r < COUNT_OF(table); r++)
        if (table[r].where & ~broken[r]) {
            print_error("row %zu (%s) was tried on kinds %d only\n", r, table[r].id, broken[r]);
            failures++;
        }
    assert_int_equal(failures, 0);
}

/* The first and the last result of a program go to files. */
static void set_up_two(fixture *f, const char *text, int64_t rows, int64_t cols)
{
    plim_error err = {0};
    plim__expr_input in = {.name = "x"};
    plim__expr_result res[8];
    uint32_t n = 0;
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    add_file(f->g, "x", rows, cols, &in.value);
    if (plim__expr_build(f->g, text, &in, 1, res, 8, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim__graph_output(f->g, res[0].value, "first", "first.npy", &err), PLIM_OK);
    assert_int_equal(plim__graph_output(f->g, res[n - 1].value, "last", "last.npy", &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = 1u << 30;
    set.threads = 1;
    if (plim__plan_new(&f->plan, f->g, &set, &f->os.table, &err)) fail_msg("%s", err.message);
    EXPECT(f, "");
    assert_int_equal(f->plan->facts.rejected_plans, 0);
}

/* One output of a node goes to a file, another one is needed by what a later pass makes again: it is kept, and the node
 * is not run again. */
static void second_output_needed_later(void **state)
{
    (void)state;
    fixture f;
    set_up_two(&f, "v, i = topk(x, 1, axis=0); z = i * 0.5; s = z / sum(z)", 1, 3039);
    tear_down(&f);
}

/* What is made before the loops and written is read in all tiles: it has one copy, and does not take turns. */
static void copies_of_what_is_made_once(void **state)
{
    (void)state;
    fixture f;
    uint32_t found = 0;
    set_up_two(&f, "v = argtopk(x, 5, 0); s = softmax(v, 0)", 5, 1);
    for (uint32_t q = 0; q < f.plan->n_passes; q++) {
        const plim__pass *p = &f.plan->pass[q];
        for (uint32_t i = 0; i < p->n_values; i++) {
            const plim__pvalue *v = &p->value[i];
            if (p->n_cut == 0 || v->role != PLIM__ROLE_WRITE || p->node[v->producer].depth == p->n_cut) continue;
            plim__slot *s = &f.plan->slot[v->slot];
            const plim__slot good = *s;
            assert_int_equal(s->copies, 1);
            s->copies = 2;
            s->bytes /= 2; /* in the same memory */
            s->first = p->time0;
            s->last = p->time0 + p->n_steps - 1;
            EXPECT(&f, "I3:");
            *s = good;
            found++;
        }
    }
    EXPECT(&f, "");
    assert_true(found > 0);
    tear_down(&f);
}

static plim_graph *preferred_graph;

/* A product is made whole where its maximum is found, and in parts that are added up where it is made again. */
static double prefer_other_sums(void *ctx, const plim__pass *p, double seconds)
{
    bool adds = false, finds_most = false;
    (void)ctx;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        adds |= preferred_graph->node[n->node].op == PLIM__OP_MATMUL && n->accumulates;
        for (uint32_t a = 0; a < n->axes.n; a++) finds_most |= n->axes.axis[a].kind == PLIM__MAX;
    }
    return adds == finds_most ? seconds + 1e6 : seconds;
}

/* A product that one pass makes for its maximum and another one makes again: never in other parts. */
static void sums_cut_in_one_of_two_passes(void **state)
{
    (void)state;
    fixture f;
    plim_error err = {0};
    static const char text[] = "y = tanh(x @ x[:512]) * 2; i32(y == max(y, 0))";
    plim__expr_input in = {.name = "x"};
    plim__expr_result res[8];
    uint32_t n_res = 0;
    assert_int_equal(plim__graph_new(&preferred_graph, (plim__alloc){0}, &err),
                     PLIM_OK); /* the same ids as in the plan's graph */
    add_file(preferred_graph, "x", 30000, 512, &in.value);
    assert_int_equal(plim__expr_build(preferred_graph, text, &in, 1, res, 8, &n_res, &err), PLIM_OK);
    set_up_by(&f, text, 64u << 20, &(plim__preference){prefer_other_sums, NULL});
    plim__graph_free(&preferred_graph);
    EXPECT(&f, "");
    assert_int_equal(f.plan->facts.rejected_plans, 0);
    uint32_t seen[64] = {0}, noticed = 0;
    for (uint32_t q = 0; q < f.plan->n_passes; q++)
        for (uint32_t i = 0; i < f.plan->pass[q].n_nodes; i++) seen[f.plan->pass[q].node[i].node]++;
    for (uint32_t q = 0; q < f.plan->n_passes; q++) {
        plim__pass *p = &f.plan->pass[q];
        for (uint32_t i = 0; i < p->n_nodes; i++) {
            plim__pnode *n = &p->node[i];
            for (uint32_t a = 0; a < n->axes.n && seen[n->node] > 1; a++) {
                if (!plim__axis_rounds(n->axes.axis[a].kind)) continue;
                plim__stage *s = &p->stage[n->stage];
                const plim__stage good = *s;
                const int8_t bound = n->bind[a];
                n->bind[a] = s->split = (int8_t)(p->n_loops - 1);
                s->blocks = 2;
                s->pool = false;
                EXPECT(&f, "I14:");
                noticed++;
                *s = good;
                n->bind[a] = bound;
            }
        }
    }
    EXPECT(&f, "");
    assert_true(noticed > 0);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_plans_pass),
        cmocka_unit_test(every_invariant_is_checked),
        cmocka_unit_test(scanned_read_behind_its_loop),
        cmocka_unit_test(more_of_a_sum_than_there_is),
        cmocka_unit_test(box_larger_than_its_memory),
        cmocka_unit_test(private_values_overlap),
        cmocka_unit_test(another_block_is_read),
        cmocka_unit_test(state_overwritten_early),
        cmocka_unit_test(second_output_needed_later),
        cmocka_unit_test(copies_of_what_is_made_once),
        cmocka_unit_test(sums_cut_in_one_of_two_passes),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
