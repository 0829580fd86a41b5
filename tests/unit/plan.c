/* The planner part by part on tiny graphs: labels, the contents of a pass, its memory, the search. What is expected is written out. No file is
 * opened: planning reads no data. Values have 8 to 128 bytes where sizes are looked at, so that they can be counted by hand. */
#include "unit.h"

#include "expr/expr.h"
#include "faulty_os.h"
#include "ops/ops.h"
#include "plan/measure.h"
#include "plan/search.h"

#include <string.h>

/* ---------------------------------------------------------------------------------------------------- fixtures */

/* A program over x (and w), planned with ample memory and two threads. */
typedef struct fixture {
    faulty_os os;
    plim_graph *g;
    plim_plan *plan;
    plim__nests nest; /* of graphs without a plan */
    plim__expr_result res[16];
    uint32_t n_res, x, w;
} fixture;

static void add_file(plim_graph *g, const char *name, int64_t rows, int64_t cols, uint32_t *v)
{
    char path[] = "nowhere.npy";
    const plim__source s = {.path = path, .offset = 128, .stride = {cols, 1}, .file_bytes = 128 + (uint64_t)(rows * cols * 4)};
    const plim_shape shape = {2, {rows, cols}};
    assert_int_equal(plim__graph_file(g, name, PLIM_F32, &shape, &s, v, NULL), PLIM_OK);
}

/* The graph alone: x is f32[rows, cols], w f32[cols, 2]. The last result, or with `all` each, is an output in a file. */
static void set_up_graph(fixture *f, const char *text, int64_t rows, int64_t cols, bool all)
{
    plim_error err = {0};
    *f = (fixture){0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    add_file(f->g, "x", rows, cols, &f->x);
    add_file(f->g, "w", cols, 2, &f->w);
    const plim__expr_input in[] = {{"x", f->x}, {"w", f->w}};
    if (plim__expr_build(f->g, text, in, 2, f->res, 16, &f->n_res, &err)) fail_msg("%s: %s", text, err.message);
    for (uint32_t i = all ? 0 : f->n_res - 1; i < f->n_res; i++) {
        char path[32];
        snprintf(path, sizeof path, "out%u.npy", i);
        assert_int_equal(plim__graph_output(f->g, f->res[i].value, f->res[i].name, path, &err), PLIM_OK);
    }
}

static plim_status plan_at(fixture *f, uint64_t memory, plim_error *err)
{
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    *err = (plim_error){0};
    return plim__plan_new(&f->plan, f->g, &set, &f->os.table, err);
}

static void set_up(fixture *f, const char *text, int64_t rows, int64_t cols, uint64_t memory, bool all)
{
    plim_error err;
    set_up_graph(f, text, rows, cols, all);
    if (plan_at(f, memory, &err)) fail_msg("%s: %s", text, err.message);
}

static void tear_down(fixture *f)
{
    plim__nests_free(&f->nest, &f->g->alloc);
    if (f->plan) plim__plan_drop(f->plan);
    plim__graph_free(&f->g);
}

/* The node that makes the last result, or the one before that has the op. */
static uint32_t node_of(const fixture *f, uint32_t op)
{
    for (uint32_t i = f->g->n_nodes; i-- > 0;)
        if (f->g->node[i].op == op) return i;
    fail_msg("the graph has no such op");
    return 0;
}

/* ------------------------------------------------------------------------------------------------------ labels */

static void spread(fixture *f, plim__labels *l)
{
    bool active[32], on_file[32] = {false};
    assert_true(f->g->n_nodes <= 32 && f->g->n_values <= 32);
    for (uint32_t i = 0; i < f->g->n_nodes; i++) active[i] = true;
    for (uint32_t v = 0; v < f->g->n_values; v++) on_file[v] = f->g->value[v].kind == PLIM__VALUE_FILE;
    plim__nests_free(&f->nest, &f->g->alloc);
    assert_int_equal(plim__nests_new(&f->nest, f->g, &f->g->alloc, NULL), PLIM_OK);
    assert_int_equal(plim__labels_new(l, f->g, &f->nest, &f->g->alloc, NULL), PLIM_OK);
    plim__labels_spread(l, f->g, active, on_file, NULL);
}

static void labels_follow_the_axes(void **state)
{
    (void)state;
    fixture f;
    plim__labels l;
    set_up_graph(&f, "sum(x * 2, 0)", 4, 8, false);
    spread(&f, &l);
    assert_int_equal(l.n, 2); /* rows and columns of x */
    assert_int_equal(l.extent[0], 4);
    assert_int_equal(l.extent[1], 8);
    assert_true(l.weight[0] == 8 * 4); /* bytes from row to row, from column to column */
    assert_true(l.weight[1] == 4);
    const uint32_t sum = node_of(&f, PLIM__OP_REDUCE);
    const plim__node *n = &f.g->node[sum];
    plim__axes axes = {0};
    plim__op_row_of(n->op)->axes(f.g, n, &axes);
    for (uint32_t a = 0; a < axes.n; a++) assert_int_equal(l.axis[sum][a], axes.axis[a].kind == PLIM__SUM ? 0 : 1);
    assert_int_equal(l.dim[n->in[0]][0], 0); /* x * 2 */
    assert_int_equal(l.dim[n->in[0]][1], 1);
    assert_int_equal(l.dim[n->out[0]][0], 1); /* the sum has columns only */
    plim__labels_free(&l, &f.g->alloc);
    tear_down(&f);
}

static void labels_turn_with_a_transpose(void **state)
{
    (void)state;
    fixture f;
    plim__labels l;
    set_up_graph(&f, "x.T * 2", 4, 8, false);
    spread(&f, &l);
    const plim__node *n = &f.g->node[node_of(&f, PLIM__OP_ELEMENTWISE)];
    assert_int_equal(l.n, 2);
    assert_int_equal(l.dim[n->out[0]][0], 1);
    assert_int_equal(l.dim[n->out[0]][1], 0);
    plim__labels_free(&l, &f.g->alloc);
    tear_down(&f);
}

/* x + x.T: dimension 0 of the sum cannot have both labels, and no axis has one twice. */
static void labels_are_never_shared(void **state)
{
    (void)state;
    fixture f;
    plim__labels l;
    set_up_graph(&f, "x + x.T", 8, 8, false);
    spread(&f, &l);
    for (uint32_t i = 0; i < f.g->n_nodes; i++)
        for (uint32_t a = 0; a < PLIM__MAX_AXES; a++)
            for (uint32_t b = 0; b < a; b++) assert_true(l.axis[i][a] < 0 || l.axis[i][a] != l.axis[i][b]);
    plim__labels_free(&l, &f.g->alloc);
    tear_down(&f);
}

static void labels_for_what_the_driver_has_not(void **state)
{
    (void)state;
    fixture f;
    plim__labels l;
    set_up_graph(&f, "x @ w", 16, 8, false);
    spread(&f, &l);
    assert_int_equal(l.n, 3); /* rows, the summed dimension, and the columns of w */
    assert_int_equal(l.extent[2], 2);
    assert_int_equal(l.dim[f.w][0], l.dim[f.x][1]);
    assert_int_equal(l.dim[f.w][1], 2);
    plim__labels_free(&l, &f.g->alloc);
    tear_down(&f);
    set_up_graph(&f, "x * 2", 1, 8, false);
    spread(&f, &l);
    assert_int_equal(l.n, 1); /* an extent of 1 is no loop */
    plim__labels_free(&l, &f.g->alloc);
    tear_down(&f);
}

/* ------------------------------------------------------------------------------------------------------- passes */

/* What a search would do for one pass, with the loops given. */
typedef struct bench {
    plim__labels labels;
    plim__frontier f;
    plim__measure m;
    plim__pass p;
    bool active[32], made[32], on_file[32];
} bench;

/* Builds the first pass of the fixture's plan again. @param tile  of each label; 0: not cut. Loops are in the order of the labels */
static plim_status build(bench *b, fixture *f, const int64_t *tile)
{
    plim_plan *plan = f->plan;
    uint8_t order[PLIM__MAX_LOOPS];
    uint32_t cut = 0, n = 0;
    *b = (bench){0};
    b->f = (plim__frontier){.active = b->active, .made = b->made, .on_file = b->on_file, .small = 1 << 20, .spill_above = UINT64_MAX, .end = UINT32_MAX};
    plim__plan_clear(plan);
    assert_int_equal(plim__frontier_update(plan, &b->f), PLIM_OK);
    assert_int_equal(plim__labels_new(&b->labels, f->g, &plan->nest, &plan->alloc, NULL), PLIM_OK);
    plim__labels_spread(&b->labels, f->g, b->active, b->on_file, NULL);
    for (int cut_ones = 1; cut_ones >= 0; cut_ones--)
        for (uint32_t l = 0; l < b->labels.n; l++) {
            if ((tile[l] > 0) != cut_ones) continue;
            cut |= tile[l] > 0 ? 1u << l : 0;
            order[n++] = (uint8_t)l;
        }
    const plim_status status = plim__pass_build(&b->p, plan, &b->f, &b->labels, cut, order, NULL);
    for (uint32_t l = 0; l < b->p.n_cut; l++) b->p.loop[l].tile = tile[order[l]];
    return status;
}

static void end_bench(bench *b, fixture *f)
{
    plim__pass_free(&f->plan->alloc, &b->p);
    plim__labels_free(&b->labels, &f->plan->alloc);
    plim__measure_free(&b->m, &f->plan->alloc);
    tear_down(f);
}

static const plim__pvalue *value_in(const bench *b, uint32_t value)
{
    for (uint32_t i = 0; i < b->p.n_values; i++)
        if (b->p.value[i].value == value) return &b->p.value[i];
    fail_msg("value %u is not in the pass", value);
    return NULL;
}

static const plim__pnode *node_in(const bench *b, const fixture *f, uint32_t op)
{
    for (uint32_t i = 0; i < b->p.n_nodes; i++)
        if (f->g->node[b->p.node[i].node].op == op) return &b->p.node[i];
    fail_msg("no such op in the pass");
    return NULL;
}

/* The steps as text: r i s m w, d for done, capital after the loops, with their depths. */
static const char *steps_of(const bench *b)
{
    static char text[128];
    char *at = text;
    for (uint32_t i = 0; i < b->p.n_steps; i++) {
        const plim__step *s = &b->p.step[i];
        at += snprintf(at, 8, "%s%c%u", i ? " " : "", (s->post ? "RISMWD" : "rismwd")[s->kind], s->depth);
    }
    return text;
}

static void rows_cut_make_an_accumulator(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "mean(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 0}), PLIM_OK);
    const plim__pnode *sum = node_in(&b, &f, PLIM__OP_REDUCE), *mean = node_in(&b, &f, PLIM__OP_ELEMENTWISE);
    assert_true(sum->root && sum->accumulates && !sum->post);
    assert_int_equal(sum->depth, 1);
    assert_int_equal(sum->acc_depth, 0);
    assert_true(mean->post);
    assert_int_equal(mean->depth, 0);
    assert_int_equal(value_in(&b, f.x)->role, PLIM__ROLE_READ);
    assert_int_equal(value_in(&b, f.x)->depth, 1);
    assert_int_equal(b.p.value[sum->out[0]].role, PLIM__ROLE_ACC);
    assert_int_equal(b.p.value[mean->out[0]].role, PLIM__ROLE_WRITE);
    /* start the sum; for each tile read and add; merge, divide, write */
    assert_string_equal(steps_of(&b), "i0 r1 s1 M0 S0 W0 D0");
    end_bench(&b, &f);
}

static void columns_cut_make_none(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "mean(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){0, 2}), PLIM_OK);
    const plim__pnode *sum = node_in(&b, &f, PLIM__OP_REDUCE), *mean = node_in(&b, &f, PLIM__OP_ELEMENTWISE);
    assert_false(sum->accumulates || mean->post);
    assert_int_equal(sum->depth, 1);
    assert_int_equal(b.p.value[mean->out[0]].role, PLIM__ROLE_WRITE);
    assert_int_equal(b.p.value[sum->out[0]].role, PLIM__ROLE_PRIVATE);
    assert_string_equal(steps_of(&b), "r1 s1 w1");
    end_bench(&b, &f);
}

/* Both: the sum ends with the inner loop or with the outer one, as they lie. */
static void both_cut(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "mean(x, 1)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 2}), PLIM_OK); /* rows outside, the summed columns inside */
    const plim__pnode *sum = node_in(&b, &f, PLIM__OP_REDUCE);
    assert_int_equal(sum->depth, 2);
    assert_int_equal(sum->acc_depth, 1);
    assert_string_equal(steps_of(&b), "i1 r2 s2 M1 S1 W1"); /* nobody waits for the write but who fills its slot again: it goes on while the columns of the next rows are read */
    end_bench(&b, &f);
    set_up(&f, "mean(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 2}), PLIM_OK); /* the summed rows outside */
    assert_int_equal(node_in(&b, &f, PLIM__OP_REDUCE)->acc_depth, 0);
    assert_string_equal(steps_of(&b), "i0 r2 s2 M0"); /* the division moves with the columns, which are inside: it is for a later pass */
    end_bench(&b, &f);
}

/* What needs the sum inside the same loop is for a later pass; the sum stays in the arena until then. */
static void a_sum_ends_the_pass(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "x - mean(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 0}), PLIM_OK);
    for (uint32_t i = 0; i < b.p.n_nodes; i++) assert_int_not_equal(f.g->node[b.p.node[i].node].out[0], f.g->output[0].value);
    const plim__pnode *mean = node_in(&b, &f, PLIM__OP_ELEMENTWISE);
    assert_true(mean->post);
    assert_int_equal(b.p.value[mean->out[0]].role, PLIM__ROLE_WHOLE);
    assert_string_equal(steps_of(&b), "i0 r1 s1 M0 S0");
    end_bench(&b, &f);
    set_up(&f, "x - mean(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){0, 2}), PLIM_OK); /* along the columns all of it goes in one */
    assert_int_equal(value_in(&b, f.g->output[0].value)->role, PLIM__ROLE_WRITE);
    end_bench(&b, &f);
}

/* Two boxes of one file where their dimensions move with different loops; one where they move together. */
static void boxes_of_one_file(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint32_t boxes;
    } expected[] = {{"x + x.T", 2}, {"x + x[::-1]", 1}, {"x * 2 + x", 1}};
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        fixture f;
        bench b;
        uint32_t boxes = 0;
        set_up(&f, expected[i].text, 8, 8, 64u << 20, false);
        assert_int_equal(build(&b, &f, (int64_t[]){2, 0}), PLIM_OK);
        for (uint32_t v = 0; v < b.p.n_values; v++) boxes += b.p.value[v].role == PLIM__ROLE_READ;
        assert_int_equal(boxes, expected[i].boxes);
        end_bench(&b, &f);
    }
}

/* An axis that cannot be cut leaves its node, and then the pass, empty-handed: no progress. */
static void a_loop_that_moves_nothing_is_refused(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "sort(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 0}), PLIM_E_PLAN);
    end_bench(&b, &f);
    set_up(&f, "sort(x, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){0, 2}), PLIM_OK);
    end_bench(&b, &f);
}

/* ----------------------------------------------------------------------------------------------------- measuring */

static void halo_by_itself(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "box(x, 3)", 8, 4, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 0}), PLIM_OK);
    plim__range axis[16];
    plim__region region[16];
    plim__ranges r = {.axis = axis, .region = region};
    static const plim__range rows[] = {{0, 2}, {2, 4}, {6, 8}}, want[] = {{0, 3}, {1, 5}, {5, 8}};
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const plim__range loop[] = {rows[i], {0, 4}};
        plim__pass_regions(f.g, &b.p, loop, &r);
        const plim__region *box = &region[value_in(&b, f.x) - b.p.value];
        assert_int_equal(box->dim[0].lo, want[i].lo);
        assert_int_equal(box->dim[0].hi, want[i].hi);
    }
    end_bench(&b, &f);
}

static void memory_of_a_pass(void **state)
{
    (void)state;
    fixture f;
    bench b;
    set_up(&f, "mean((x - 3) ** 2, 0)", 4, 8, 64u << 20, false);
    assert_int_equal(build(&b, &f, (int64_t[]){2, 0}), PLIM_OK);
    f.plan->read_copies = f.plan->write_copies = 3;
    assert_int_equal(plim__pass_measure(&b.m, f.plan, &b.p, 1000, true, NULL), PLIM_OK);
    /* two rows of x are 64 bytes; a box from a file takes its pages and one more, for it may begin anywhere in a page; little ones are read
     * further ahead than three copies go */
    const plim__slot *x = &b.m.slot[value_in(&b, f.x)->slot];
    assert_int_equal(x->bytes, 8192);
    assert_int_equal(x->copies, 4);
    /* the sum: 8 columns in f64 */
    const plim__pnode *sum = node_in(&b, &f, PLIM__OP_REDUCE);
    assert_int_equal(b.m.slot[b.p.value[sum->out[0]].slot].bytes, 64);
    assert_int_equal(sum->copies_slot, PLIM__NONE); /* so little is done by one thread */
    /* the square is taken where x - 3 lies: 64 bytes for each thread */
    const plim__stage *s = &b.p.stage[sum->stage];
    assert_int_equal(s->count, 3);
    assert_int_equal(s->blocks, 1);
    assert_int_equal(s->private_bytes, 64);
    assert_int_equal(b.m.slot[s->slot].copies, 2);
    /* the mean goes to its file from a slot of its own; 1000 bytes were there before. The ring and the accumulator live as long as the pass */
    assert_true(b.m.peak >= 1000 + 3 * 8192 + 64 + 8192);
    assert_true(b.m.peak <= 1000 + 4 * 8192 + 64 + 8192 + 256 + 128);
    assert_int_equal(x->first, 0);
    assert_int_equal(x->last, b.p.n_steps - 1);
    end_bench(&b, &f);
}

/* Larger tiles never take less. */
static void peak_grows_with_the_tile(void **state)
{
    (void)state;
    static const char *const texts[] = {"x * 2", "mean(x, 0)", "box(x, 3)", "x.T", "sort(x, 1)", "x @ w", "concat((x, x * 2), 0)"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        uint64_t before = 0;
        for (int64_t tile = 1; tile <= 1024; tile *= 2) {
            fixture f;
            bench b;
            set_up(&f, texts[i], 1024, 64, 64u << 20, false);
            if (build(&b, &f, (int64_t[]){tile, 0, 0}) == PLIM_OK) {
                assert_int_equal(plim__pass_measure(&b.m, f.plan, &b.p, 0, true, NULL), PLIM_OK);
                if (b.m.peak < before) fail_msg("%s: tiles of %lld rows take %llu bytes, half as many %llu", texts[i], (long long)tile,
                                                (unsigned long long)b.m.peak, (unsigned long long)before);
                before = b.m.peak;
            }
            end_bench(&b, &f);
        }
        assert_true(before > 0);
    }
}

/* Every box of every tile of a measured pass fits its slot. */
static void compare_with_all_tiles(const bench *b, const fixture *f, const char *text)
{
    plim__range axis[64], loop[PLIM__MAX_LOOPS];
    plim__region region[64];
    plim__ranges r = {.axis = axis, .region = region};
    int64_t tiles = 1;
    assert_true(b->p.n_axes <= COUNT_OF(axis) && b->p.n_values <= COUNT_OF(region));
    for (uint32_t l = 0; l < b->p.n_loops; l++) loop[l] = (plim__range){0, b->p.loop[l].extent};
    for (uint32_t l = 0; l < b->p.n_cut; l++) tiles *= plim__loop_trips(&b->p.loop[l]);
    for (int64_t it = 0; it < tiles; it++) {
        int64_t rest = it;
        for (uint32_t l = 0; l < b->p.n_cut; l++) {
            const plim__loop *x = &b->p.loop[l];
            const int64_t lo = rest % plim__loop_trips(x) * x->tile;
            rest /= plim__loop_trips(x);
            loop[l] = (plim__range){lo, lo + x->tile < x->extent ? lo + x->tile : x->extent};
        }
        plim__pass_regions(f->g, &b->p, loop, &r);
        for (uint32_t v = 0; v < b->p.n_values; v++) {
            const plim__pvalue *x = &b->p.value[v];
            if (x->role != PLIM__ROLE_READ && x->role != PLIM__ROLE_WRITE && x->role != PLIM__ROLE_TILE) continue;
            uint64_t bytes = plim__region_count(&region[v]) * plim_dtype_bytes(f->g->value[x->value].dtype);
            if (x->role != PLIM__ROLE_TILE) {
                plim__io_layout layout;
                plim__io_layout_of(&f->plan->file[x->file].io, &region[v], x->role == PLIM__ROLE_WRITE, &layout);
                bytes = layout.bytes;
            }
            if (bytes > b->m.slot[x->slot].bytes) fail_msg("%s: tile %lld of %lld: box too large", text, (long long)it, (long long)tiles);
        }
    }
}

/* The largest box over all tiles is found wherever it is: compared with looking at every tile. */
static void exact_is_exact(void **state)
{
    (void)state;
    static const char *const texts[] = {"concat((x[:100], x[:7] * 2, x), 0) * 2", "pad(x * 2, ((3, 5), (0, 0)), 'reflect') + 1", "reshape(x * 2, (64, -1)) + 1",
                                        "x[::3] * 2 + x[1::3]", "y = x * 2; y[:-9] - y[9:]", "y = x + 1; box(y[::-1], 5) + y", "roll(x * 2, 100, 0) + x"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        for (int64_t tile = 1; tile < 400; tile = tile * 2 + 1) {
            fixture f;
            bench b;
            set_up(&f, texts[i], 1023, 64, 256u << 20, false);
            if (build(&b, &f, (int64_t[PLIM__MAX_LOOPS]){tile}) == PLIM_OK) {
                assert_int_equal(plim__pass_measure(&b.m, f.plan, &b.p, 0, true, NULL), PLIM_OK);
                compare_with_all_tiles(&b, &f, texts[i]);
            }
            end_bench(&b, &f);
        }
}

/* Also where it is large because of where several loops are together: a box over rows i and j, and over columns from both ends of the array. */
static void exact_over_several_loops(void **state)
{
    (void)state;
    static const char *const texts[] = {"y = concat((x, tanh(x)), 1); y @ y.T", "y = roll(x, 20, 1) + x; y @ y.T", "(x[:, 3:] + x[:, :-3]) @ x[:, 3:].T",
                                        "roll(x, (9, 17), (0, 1)) + x", "pad(x, 5, 'wrap') * 2", "y = x + x[::-1, ::-1]; box(y, 3)"};
    int measured = 0;
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        for (int way = 0; way < rounds(64); way++) {
            fixture f;
            bench b;
            set_up(&f, texts[i], 11, 6001, 256u << 20, false);
            const int64_t tile[PLIM__MAX_LOOPS] = {way % 4 * 2, way / 4 % 4 * 200, way / 16 % 4 * 3};
            if (build(&b, &f, tile) == PLIM_OK) {
                assert_int_equal(plim__pass_measure(&b.m, f.plan, &b.p, 0, true, NULL), PLIM_OK);
                compare_with_all_tiles(&b, &f, texts[i]);
                measured += b.p.n_cut > 1;
            }
            end_bench(&b, &f);
        }
    assert_true(measured > (SANITIZED ? 5 : 20));
}

/* -------------------------------------------------------------------------------------------------------- search */

/* How often the file of x is read, at most once a pass. */
static void passes_over_the_input(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t rows, cols;
        bool all;
        uint32_t passes;
    } expected[] = {
        {"x * 2", 300000, 512, false, 1},
        {"mean(x, 0)", 300000, 512, false, 1},
        {"m = mean(x, 0); s = std(x, 0)", 300000, 512, true, 1},
        {"m = mean(x, 0); s = std(x, 0); z = (x - m) / s", 300000, 512, true, 2},
        {"(x - mean(x)) / std(x)", 300000, 512, false, 2},
        {"x - mean(x, 1, keepdims=True)", 300000, 512, false, 1}, /* a row at a time has all it needs */
        {"y = x * 2 + 1; sum(y) + max(y)", 300000, 512, false, 1},
        {"max(x, 0) - min(x, 0)", 300000, 512, false, 1},
        {"t = split(x, 64, 1)", 300000, 512, true, 1},
        {"median(x, 0)", 300000, 512, false, 3},
        {"histogram(x, 50)", 300000, 512, false, 2}, /* the range first */
        {"cumsum(x, 0)", 300000, 512, false, 1},
        {"x.T @ x", 300000, 512, false, 1},
        {"x.T", 300000, 512, false, 1},
    };
    for (size_t i = 0; i < COUNT_OF(expected); i++) {
        fixture f;
        set_up(&f, expected[i].text, expected[i].rows, expected[i].cols, 256u << 20, expected[i].all);
        const plim_facts *facts = plim_plan_facts(f.plan);
        if (facts->passes != expected[i].passes) {
            char text[4096];
            plim_plan_dump(f.plan, text, sizeof text);
            fail_msg("%s: %u passes where %u are enough\n%s", expected[i].text, facts->passes, expected[i].passes, text);
        }
        tear_down(&f);
    }
}

/* Everything at once where there is room: no loop that is not needed. */
static void small_programs_are_not_cut(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "(x - mean(x, 0)) / std(x, 0)", 16, 8, 64u << 20, false);
    assert_int_equal(f.plan->n_passes, 1);
    assert_int_equal(f.plan->pass[0].n_cut, 0);
    assert_int_equal(plim_plan_facts(f.plan)->n_moves, 0);
    tear_down(&f);
}

static void common_subexpressions_are_one(void **state)
{
    (void)state;
    fixture f;
    set_up_graph(&f, "(x - mean(x)) / (mean(x) + 1)", 16, 8, false);
    uint32_t sums = 0;
    for (uint32_t i = 0; i < f.g->n_nodes; i++) sums += f.g->node[i].op == PLIM__OP_REDUCE || f.g->node[i].op == PLIM__OP_MOMENTS;
    assert_int_equal(sums, 1);
    tear_down(&f);
}

/* What the refusal calls the smallest budget works, and hardly less does not. */
static void the_floor_works(void **state)
{
    (void)state;
    static const char *const texts[] = {"x * 2", "mean(x, 0)", "(x - mean(x, 0)) / std(x, 0)", "x.T @ x", "sort(x, 0)", "median(x, 0)", "box(x, 5)", "cumsum(x, 0)", "x.T"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        fixture f;
        plim_error err;
        set_up_graph(&f, texts[i], 30000, 512, false);
        assert_int_equal(plan_at(&f, 1, &err), PLIM_E_BUDGET);
        assert_null(f.plan);
        assert_true(err.need > FAULTY_RESIDENT);
        assert_int_equal(err.have, 1);
        const uint64_t floor = err.need;
        if (plan_at(&f, floor, &err)) fail_msg("%s: %s", texts[i], err.message);
        assert_true(plim_plan_facts(f.plan)->planned_peak_bytes <= floor);
        plim__plan_drop(f.plan);
        f.plan = NULL;
        assert_int_equal(plan_at(&f, floor - (4u << 20), &err), PLIM_E_BUDGET); /* no plan without the process itself */
        assert_int_equal(err.need, floor);
        tear_down(&f);
    }
}

/* One question, one answer. */
static void plans_are_deterministic(void **state)
{
    (void)state;
    static const char *const texts[] = {"(x - mean(x, 0)) / std(x, 0)", "x.T @ x", "box(x, 5) - sort(x, 1)", "median(x, 0)"};
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        fixture f[2];
        char text[2][8192];
        for (int k = 0; k < 2; k++) {
            set_up(&f[k], texts[i], 30000, 512, 64u << 20, false);
            plim_plan_dump(f[k].plan, text[k], sizeof text[k]);
        }
        assert_string_equal(text[0], text[1]);
        assert_int_equal(f[0].plan->n_slots, f[1].plan->n_slots);
        assert_int_equal(f[0].plan->arena_bytes, f[1].plan->arena_bytes);
        for (uint32_t s = 0; s < f[0].plan->n_slots; s++) assert_int_equal(f[0].plan->slot[s].offset, f[1].plan->slot[s].offset);
        for (int k = 0; k < 2; k++) tear_down(&f[k]);
    }
}

/* Estimates add up: arena, peak, bytes moved. */
static void facts_add_up(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "x * 2", 300000, 512, 64u << 20, false);
    const plim_facts *facts = plim_plan_facts(f.plan);
    assert_int_equal(facts->planned_peak_bytes, facts->baseline_bytes + facts->extras_bytes + facts->arena_bytes);
    assert_true(facts->planned_peak_bytes + facts->reserve_bytes <= facts->budget_bytes);
    assert_true(facts->arena_bound_bytes <= facts->arena_bytes);
    assert_int_equal(facts->baseline_bytes, FAULTY_RESIDENT);
    const double x = 300000.0 * 512 * 4; /* read once, written once; a last tile is counted as a full one */
    assert_true((double)facts->read_bytes >= x && (double)facts->read_bytes < 1.2 * x);
    assert_true((double)facts->write_bytes >= x && (double)facts->write_bytes < 1.2 * x);
    assert_true(facts->n_moves >= 1);
    assert_string_equal(facts->move[0].kind, "split");
    assert_true(facts->n_peak >= 2);
    for (uint32_t i = 1; i < facts->n_peak; i++) assert_true(facts->peak[i].bytes <= facts->peak[i - 1].bytes);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(labels_follow_the_axes),
        cmocka_unit_test(labels_turn_with_a_transpose),
        cmocka_unit_test(labels_are_never_shared),
        cmocka_unit_test(labels_for_what_the_driver_has_not),
        cmocka_unit_test(rows_cut_make_an_accumulator),
        cmocka_unit_test(columns_cut_make_none),
        cmocka_unit_test(both_cut),
        cmocka_unit_test(a_sum_ends_the_pass),
        cmocka_unit_test(boxes_of_one_file),
        cmocka_unit_test(a_loop_that_moves_nothing_is_refused),
        cmocka_unit_test(halo_by_itself),
        cmocka_unit_test(memory_of_a_pass),
        cmocka_unit_test(peak_grows_with_the_tile),
        cmocka_unit_test(exact_is_exact),
        cmocka_unit_test(exact_over_several_loops),
        cmocka_unit_test(passes_over_the_input),
        cmocka_unit_test(small_programs_are_not_cut),
        cmocka_unit_test(common_subexpressions_are_one),
        cmocka_unit_test(the_floor_works),
        cmocka_unit_test(plans_are_deterministic),
        cmocka_unit_test(facts_add_up),
    };
    return cmocka_run_group_tests_name("plan", tests, NULL, NULL);
}
