/* The verifier is proven by corruption: a good plan passes, and every way of breaking it that we can think of is noticed. */
#include "expr/expr.h"
#include "faulty_os.h"
#include "ops/ops.h"
#include "plan/plan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

typedef struct fixture {
    plim_graph *g;
    plim_plan *plan;
    faulty_os os; /* what is resident is the same in every build: sanitizers have memory of their own */
} fixture;

/* A file that is never opened: planning reads no data. */
static void add_file(plim_graph *g, const char *name, int64_t rows, int64_t cols, uint32_t *v)
{
    char path[] = "nowhere.npy";
    plim__source s = {.path = path, .offset = 128, .stride = {cols, 1}, .file_bytes = 128 + (uint64_t)(rows * cols * 4)};
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

static void set_up(fixture *f, const char *text, uint64_t memory) { set_up_by(f, text, memory, NULL); }

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

#define EXPECT(f, id)                                                        \
    do {                                                                     \
        plim_error err_;                                                     \
        const char *said_ = verdict((f), &err_);                             \
        if (strncmp(said_, id, strlen(id)) != 0) fail_msg("expected %s, the check said '%s'", id, said_); \
    } while (0)

static const char two_passes[] = "(x - mean(x,0)) / std(x,0)";

static void good_plans_pass(void **state)
{
    (void)state;
    static const char *const texts[] = {two_passes, "mean(x)", "x.T", "box(x,3)", "cumsum(x,0)", "x.T @ x", "sort(x,1)", "median(x,0)"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fixture f;
        set_up(&f, texts[i], 64u << 20);
        EXPECT(&f, "");
        tear_down(&f);
    }
}

static void slot_outside_the_arena(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, two_passes, 64u << 20);
    plim__slot *s = &f.plan->slot[0];
    const plim__slot good = *s;
    s->offset = f.plan->arena_bytes;
    EXPECT(&f, "I1");
    *s = good;
    s->offset += 8;
    EXPECT(&f, "I1");
    *s = good;
    s->bytes = UINT64_MAX / 2;
    EXPECT(&f, "I1");
    *s = good;
    s->last = f.plan->n_steps;
    EXPECT(&f, "I1");
    *s = good;
    s->offset = 0; /* onto the I/O engine's buffers */
    EXPECT(&f, "I1");
    tear_down(&f);
}

static void overlap(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, two_passes, 64u << 20);
    uint32_t found = 0;
    for (uint32_t i = 0; i < f.plan->n_slots; i++)
        for (uint32_t j = 0; j < i; j++) {
            plim__slot *a = &f.plan->slot[i], *b = &f.plan->slot[j];
            if (a->first > b->last || b->first > a->last || a->offset == b->offset) continue;
            const uint64_t good = a->offset;
            a->offset = b->offset;
            if (a->offset + a->bytes * a->copies <= f.plan->arena_bytes) {
                EXPECT(&f, "I2");
                found++;
            }
            a->offset = good;
        }
    assert_true(found > 0);
    tear_down(&f);
}

static void dies_too_early(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, two_passes, 64u << 20);
    uint32_t noticed = 0;
    for (uint32_t i = 0; i < f.plan->n_slots; i++) {
        plim__slot *s = &f.plan->slot[i];
        if (s->last == s->first) continue;
        const uint32_t good = s->last;
        s->last = s->first;
        plim_error err;
        noticed += strncmp(verdict(&f, &err), "I3", 2) == 0;
        s->last = good;
    }
    assert_true(noticed > 0);
    tear_down(&f);
}

static plim__pnode *find_accumulator(plim__pass *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].accumulates) return &p->node[i];
    return NULL;
}

static void sum_read_inside_its_loop(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "mean(x,0)", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    assert_non_null(find_accumulator(p));
    for (uint32_t i = 0; i < p->n_nodes; i++) p->node[i].post = false;
    EXPECT(&f, "I5");
    tear_down(&f);
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
        EXPECT(&f, "I5");
        found++;
    }
    assert_true(found > 0);
    tear_down(&f);
}

static void wrong_order_and_operand(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "sqrt(abs(x) + 1)", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    const plim__pnode good = p->node[0];
    p->node[0] = p->node[1];
    p->node[1] = good;
    EXPECT(&f, "I4");
    p->node[1] = p->node[0];
    p->node[0] = good;
    EXPECT(&f, "");
    p->operand[0] = p->node[0].out[0];
    EXPECT(&f, "I4");
    tear_down(&f);
}

static void loops_that_do_not_partition(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "sort(x,1)", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    assert_true(p->n_cut >= 1);
    const plim__pass good = *p;
    p->loop[0].tile = 0;
    EXPECT(&f, "I6");
    *p = good;
    plim__pnode *n = &p->node[0];
    for (uint32_t a = 0; a < n->axes.n; a++) n->bind[a] = 0;
    EXPECT(&f, "I6");
    tear_down(&f);
}

static void box_too_small(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "y = x * 2; box(y, 3) + sort(y, 1)", 64u << 20);
    /* the consumer is moved by the loop, its input claims not to be: they drift apart after the first tile */
    plim__pass *p = &f.plan->pass[0];
    uint32_t noticed = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        plim__pnode *n = &p->node[i];
        if (n->root) continue;
        n->root = true; /* now its box comes from the loop and not from its consumers, unless widened: an accumulator is not */
        n->accumulates = true;
        plim_error err;
        noticed += verdict(&f, &err)[0] != 0;
        n->root = n->accumulates = false;
    }
    assert_true(noticed > 0);
    tear_down(&f);
}

static void output_never_written(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "x * 2", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    for (uint32_t t = 0; t < p->n_steps; t++)
        if (p->step[t].kind == PLIM__STEP_WRITE) {
            p->step[t].kind = PLIM__STEP_WAIT; /* the slot lives as long as before */
            EXPECT(&f, "I8");
            p->step[t].kind = PLIM__STEP_WRITE;
        }
    EXPECT(&f, "");
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
        EXPECT(&f, "I7");
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
            EXPECT(&f, "I12");
            s->bytes = good;
            slots++;
        }
        for (uint32_t q = 0; q < f.plan->n_passes; q++)
            for (uint32_t k = 0; k < f.plan->pass[q].n_values; k++) {
                plim__pvalue *v = &f.plan->pass[q].value[k];
                if (v->role != PLIM__ROLE_PRIVATE || v->private_bytes == 0) continue;
                const uint64_t good = v->private_bytes;
                v->private_bytes = good / 2;
                EXPECT(&f, "I12");
                v->private_bytes = good;
                parts++;
            }
        for (uint32_t q = 0; q < f.plan->n_passes; q++)
            for (uint32_t k = 0; k < f.plan->pass[q].n_stages; k++) {
                plim__stage *s = &f.plan->pass[q].stage[k];
                if (s->private_bytes <= s->scratch_offset) continue;
                const uint64_t good = s->private_bytes;
                s->private_bytes = s->scratch_offset;
                EXPECT(&f, "I12");
                s->private_bytes = good;
                scratch++;
            }
        EXPECT(&f, "");
        tear_down(&f);
    }
    assert_true(slots > 10 && parts > 0 && scratch > 0);
}

/* Private values of a stage that are in use together. */
static void private_values_overlap(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "y = exp(x); z = sin(x); mean(y * z + y, 0)", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    plim__pvalue *y = NULL, *z = NULL;
    for (uint32_t i = 0; i < p->n_values; i++) {
        if (p->value[i].role != PLIM__ROLE_PRIVATE) continue;
        if (!y) y = &p->value[i];
        else if (!z) z = &p->value[i];
    }
    assert_non_null(z);
    EXPECT(&f, "");
    const uint64_t good = z->private_offset;
    z->private_offset = y->private_offset;
    EXPECT(&f, "I12");
    z->private_offset = p->stage[p->node[z->producer].stage].private_bytes;
    EXPECT(&f, "I12");
    z->private_offset = good;
    tear_down(&f);
}

/* An output of a node leaves the stage, so its blocks are fixed; a reader of another output in the same stage wants other blocks. */
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
        if (f.g->node[p->node[i].node].n_out < 2 || p->stage[p->node[i].stage].blocks < 2 || unread->role != PLIM__ROLE_PRIVATE) continue;
        const plim__pvalue good = *unread;
        unread->role = PLIM__ROLE_TILE;
        unread->slot = p->value[p->node[p->n_nodes - 1].out[0]].slot; /* one that is alive, and large enough */
        EXPECT(&f, "I7");
        *unread = good;
        p->value[p->node[i].out[0]].role = PLIM__ROLE_TILE; /* what other threads are writing is read */
        p->value[p->node[i].out[0]].slot = p->value[p->node[p->n_nodes - 1].out[0]].slot;
        EXPECT(&f, "I7");
        found++;
    }
    assert_int_equal(found, 1);
    tear_down(&f);
}

/* A scan that is not carried from tile to tile, or is cut into blocks. */
static void scan_in_pieces(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "cumsum(x, 0)", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    plim__pnode *n = find_accumulator(p);
    assert_non_null(n);
    n->accumulates = false;
    EXPECT(&f, "I13");
    n->accumulates = true;
    plim__stage *s = &p->stage[n->stage];
    const plim__stage good = *s;
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (n->axes.axis[a].kind == PLIM__SCAN) s->split = n->bind[a];
    s->blocks = 4;
    EXPECT(&f, "I13");
    *s = good;
    EXPECT(&f, "");
    tear_down(&f);
}

/* What goes to a file is made whole, not only where somebody reads it in the same pass. */
static void written_in_parts(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "x * 2", 64u << 20);
    plim__pass *p = &f.plan->pass[0];
    for (uint32_t i = 0; i < p->n_nodes; i++) p->node[i].root = false;
    EXPECT(&f, "I6");
    tear_down(&f);
}

/* ----------------------------------------------------------------------------------------- states and spilled values */

/* Two states of one program: w, which everything reads, and v. Planned thoroughly, as trainings are. */
static void set_up_states(fixture *f, uint64_t memory, bool hold)
{
    static const char text[] = "y = sort(x + w, 1); m = mean(y, 0, keepdims=True); w1 = w - mean((y - m) * x, 0, keepdims=True); v1 = v + m";
    plim_error err = {0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    plim__expr_input in[3] = {{.name = "x"}, {.name = "w"}, {.name = "v"}};
    add_file(f->g, "x", 30000, 512, &in[0].value);
    add_file(f->g, "w", 1, 512, &in[1].value);
    add_file(f->g, "v", 1, 512, &in[2].value);
    for (int i = 1; i < 3; i++) f->g->source[f->g->value[in[i].value].source].stay = hold ? PLIM__STAY_MAY : PLIM__STAY_FILE;
    plim__expr_result res[8];
    uint32_t n = 0;
    if (plim__expr_build(f->g, text, in, 3, res, 8, &n, &err)) fail_msg("%s", err.message);
    for (uint32_t i = 0; i < n; i++)
        if (strcmp(res[i].name, "w1") == 0 || strcmp(res[i].name, "v1") == 0)
            assert_int_equal(plim__graph_state(f->g, in[res[i].name[0] == 'w' ? 1 : 2].value, res[i].value, &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    set.spill_dir = ".";
    if (plim__plan_new_thorough(&f->plan, f->g, &set, &f->os.table, &err)) fail_msg("%s", err.message);
    EXPECT(f, "");
}

/* Budgets from the floor up, so that plans with one pass, with several, cut and uncut, and with spilled values are met. */
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
    *expected = "I9";
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

/* What takes the place of a state is made inside a loop that does not move it: at every trip. */
static bool update_at_every_trip(fixture *f, const char **expected)
{
    *expected = "I6";
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t i = 0; i < f->plan->pass[q].n_nodes && f->plan->pass[q].n_cut > 0; i++) {
            plim__pnode *n = &f->plan->pass[q].node[i];
            for (uint32_t s = 0; s < f->g->n_states; s++)
                if (f->plan->pass[q].value[n->out[0]].value == f->g->state[s].out && n->post && n->depth == 0) {
                    n->depth = 1;
                    for (uint32_t a = 0; a < n->axes.n; a++) n->bind[a] = -1;
                    return true;
                }
        }
    return false;
}

static void state_updated_at_every_trip(void **state)
{
    (void)state;
    corrupt_states(update_at_every_trip, 2);
}

/* Something is read back that nobody has waited for, or written. */
static bool read_back_early(fixture *f, const char **expected)
{
    *expected = "I10";
    bool found = false;
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        plim__pass *p = &f->plan->pass[q];
        for (uint32_t t = 0; t < p->n_steps; t++) {
            const uint32_t file = p->step[t].kind == PLIM__STEP_READ ? p->value[p->step[t].index].file : PLIM__NONE;
            if (file == PLIM__NONE || f->plan->file[file].kind != PLIM__FILE_SPILL) continue;
            for (uint32_t r = 0; r <= q; r++)
                for (uint32_t s = 0; s < f->plan->pass[r].n_steps; s++) {
                    plim__step *w = &f->plan->pass[r].step[s];
                    if ((w->kind == PLIM__STEP_WRITE || w->kind == PLIM__STEP_WAIT) && f->plan->pass[r].value[w->index].file == file) {
                        w->kind = PLIM__STEP_INIT; /* of a node that uses the slots of its own */
                        w->index = f->plan->pass[r].value[w->index].producer;
                        found = true;
                    }
                }
            if (found) return true;
        }
    }
    return false;
}

static void spilled_value_read_early(void **state)
{
    (void)state;
    corrupt_states(read_back_early, 3);
}

/* A value that takes the place of a held state lies in another slot. */
static bool wrong_place(fixture *f, const char **expected)
{
    *expected = "I11";
    for (uint32_t q = 0; q < f->plan->n_passes; q++)
        for (uint32_t i = 0; i < f->plan->pass[q].n_values; i++) {
            plim__pvalue *v = &f->plan->pass[q].value[i];
            if (!v->foreign || v->producer != PLIM__NONE || !f->plan->held[v->value]) continue;
            for (uint32_t s = 0; s < f->plan->n_slots; s++)
                if (s != v->slot && plim__slot_is_held(f->plan, s)) {
                    v->slot = s;
                    return true;
                }
        }
    return false;
}

static void state_in_another_slot(void **state)
{
    (void)state;
    corrupt_states(wrong_place, 5);
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

/* One output of a node goes to a file, another one is needed by what a later pass makes again: it is kept, and the node is not run again. */
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
            EXPECT(&f, "I3");
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
    assert_int_equal(plim__graph_new(&preferred_graph, (plim__alloc){0}, &err), PLIM_OK); /* the same ids as in the plan's graph */
    add_file(preferred_graph, "x", 30000, 512, &in.value);
    assert_int_equal(plim__expr_build(preferred_graph, text, &in, 1, res, 8, &n_res, &err), PLIM_OK);
    set_up_by(&f, text, 512u << 20, &(plim__preference){prefer_other_sums, NULL});
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
                err = (plim_error){0};
                noticed += strncmp(verdict(&f, &err), "I14", 3) == 0;
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
        cmocka_unit_test(slot_outside_the_arena),
        cmocka_unit_test(overlap),
        cmocka_unit_test(dies_too_early),
        cmocka_unit_test(sum_read_inside_its_loop),
        cmocka_unit_test(scanned_read_behind_its_loop),
        cmocka_unit_test(wrong_order_and_operand),
        cmocka_unit_test(loops_that_do_not_partition),
        cmocka_unit_test(box_too_small),
        cmocka_unit_test(output_never_written),
        cmocka_unit_test(more_of_a_sum_than_there_is),
        cmocka_unit_test(box_larger_than_its_memory),
        cmocka_unit_test(private_values_overlap),
        cmocka_unit_test(another_block_is_read),
        cmocka_unit_test(scan_in_pieces),
        cmocka_unit_test(written_in_parts),
        cmocka_unit_test(state_overwritten_early),
        cmocka_unit_test(state_updated_at_every_trip),
        cmocka_unit_test(spilled_value_read_early),
        cmocka_unit_test(state_in_another_slot),
        cmocka_unit_test(second_output_needed_later),
        cmocka_unit_test(copies_of_what_is_made_once),
        cmocka_unit_test(sums_cut_in_one_of_two_passes),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
