/* The verifier is proven by corruption: a good plan passes, and every way of breaking it that we can think of is noticed. */
#include "expr/expr.h"
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
    const plim_status status = prefer ? plim__plan_new_by(&f->plan, f->g, &set, &plim__os_linux, prefer, &err)
                                      : plim__plan_new(&f->plan, f->g, &set, &plim__os_linux, &err);
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
            p->step[t] = p->step[p->n_steps - 1];
            p->n_steps--;
        }
    plim_error err;
    assert_true(verdict(&f, &err)[0] == 'I');
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(good_plans_pass),
        cmocka_unit_test(slot_outside_the_arena),
        cmocka_unit_test(overlap),
        cmocka_unit_test(dies_too_early),
        cmocka_unit_test(sum_read_inside_its_loop),
        cmocka_unit_test(wrong_order_and_operand),
        cmocka_unit_test(loops_that_do_not_partition),
        cmocka_unit_test(box_too_small),
        cmocka_unit_test(output_never_written),
        cmocka_unit_test(more_of_a_sum_than_there_is),
    };
    return cmocka_run_group_tests_name("check", tests, NULL, NULL);
}
