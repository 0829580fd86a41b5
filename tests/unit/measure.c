/* What measuring says about memory against looking at every tile and every block: random programs, cut at random. No
 * box may be larger than what was measured for it; where nothing is rounded, the largest has exactly that size. Nothing
 * is run: planning reads no data. */
#include "unit.h"

#include "core/dtype.h"
#include "core/size.h"
#include "expr/expr.h"
#include "faulty_os.h"
#include "plan/plan.h"
#include "preferences.h"

#include <stdlib.h>
#include <string.h>

#define PROGRAMS   160
#define MOST_TILES 600 /* of a plan: more only cost time */

typedef struct fixture {
    plim_graph *g;
    plim_plan *plan;
    faulty_os os;
    char text[512];
} fixture;

static void add_file(plim_graph *g, const char *name, int64_t rows, int64_t cols, uint32_t *v)
{
    char path[] = "nowhere.npy";
    const plim__source s = {
        .path = path, .offset = 128, .stride = {cols, 1}, .file_bytes = 128 + (uint64_t)(rows * cols * 4)};
    const plim_shape shape = {2, {rows, cols}};
    assert_int_equal(plim__graph_file(g, name, PLIM_F32, &shape, &s, v, NULL), PLIM_OK);
}

static uint32_t pick(uint64_t *seed, uint32_t n)
{
    return (uint32_t)(files_random(seed) % n);
}

/* One statement more, about the value of the one before, @: an array of two dimensions. */
static void add_statement(char *text, size_t size, uint32_t number, uint64_t *seed)
{
    static const char *const forms[] = {
        "box(@, 3)",
        "box(@[::-1], 5) + @",
        "@ + @[:1]",
        "concat((@, exp(@)), 0)",
        "concat((@, @ * 2), 1)[:, 1:]",
        "roll(@, 3, 0) + @",
        "roll(@, (5, 2), (0, 1))",
        "@ + @[::-1, ::-1]",
        "pad(@, 2, 'wrap')",
        "pad(@, ((1, 2), (0, 2)), 'reflect')",
        "sort(@, 1)",
        "cumsum(@, 0)",
        "@ - mean(@, 0)",
        "@ / (1 + max(@, 1, keepdims=True))",
        "@[::2] * 2",
        "@.T",
        "@ @@ @.T",
        "reshape(@, (-1, 1)) * 3",
        "@.T @@ @",
        "@ * std(@, 0)",
        "@[1:] - @[:-1]",
    };
    size_t n = strlen(text);
    n += (size_t)snprintf(text + n, size - n, "y%u = ", number);
    for (const char *c = forms[pick(seed, COUNT_OF(forms))]; *c; c++) {
        if (*c == '@' && c[1] != '@')
            n += (size_t)snprintf(text + n, size - n, "y%u", number - 1);
        else
            n += (size_t)snprintf(text + n, size - n, "%c", *c);
        c += *c == '@' && c[1] == '@';
    }
    snprintf(text + n, size - n, "; ");
}

/* @return false: the program makes no sense, or nothing fits */
static bool set_up(fixture *f, uint64_t seed)
{
    plim_error err = {0};
    plim__expr_input in = {.name = "x"};
    plim__expr_result res[16];
    uint32_t n = 0;
    *f = (fixture){0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    add_file(f->g, "x", 7 + pick(&seed, 90), 3 + pick(&seed, 60), &in.value);
    snprintf(f->text, sizeof f->text, "y0 = x * 2; ");
    const uint32_t statements = 1 + pick(&seed, 4);
    for (uint32_t k = 1; k <= statements; k++) add_statement(f->text, sizeof f->text, k, &seed);
    snprintf(f->text + strlen(f->text), sizeof f->text - strlen(f->text), pick(&seed, 2) ? "y%u + 1" : "sum(y%u, 0)",
             statements);
    plim_status status = plim__expr_build(f->g, f->text, &in, 1, res, 16, &n, &err);
    if (status == PLIM_OK) status = plim__graph_output(f->g, res[n - 1].value, "out", "out.npy", &err);
    plim_settings set = plim_settings_default();
    set.memory = 1u << 30;
    set.threads = 1 + pick(&seed, 3);
    prefer_chance chance = {.seed = seed, .most_tiles = MOST_TILES};
    if (status == PLIM_OK)
        status =
            plim__plan_new_by(&f->plan, f->g, &set, &f->os.table, &(plim__preference){prefer_by_chance, &chance}, &err);
    if (status == PLIM_OK) return true;
    if (status == PLIM_E_PLAN) fail_msg("%s: %s", f->text, err.message);
    plim__graph_free(&f->g);
    return false;
}

static void tear_down(fixture *f)
{
    plim__plan_drop(f->plan);
    plim__graph_free(&f->g);
}

/* The most bytes that were seen, over all tiles and blocks. */
typedef struct seen {
    uint64_t *slot, *private_value; /* per slot of the plan; per value of the pass */
    uint64_t *scratch;              /* per stage */
    plim__ranges tile, block;
} seen;

static void note(uint64_t *most, uint64_t bytes)
{
    *most = bytes > *most ? bytes : *most;
}

static uint64_t dense(const plim__value *v, const plim__region *box)
{
    return plim__region_count(box) * plim_dtype_bytes(v->dtype);
}

static void see_values(const fixture *f, const plim__pass *p, const plim__range *loop, seen *s)
{
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const plim__value *value = &f->g->value[v->value];
        if (v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_PRIVATE || v->foreign) continue;
        plim__region box = v->role == PLIM__ROLE_WHOLE ? plim__region_whole(&value->shape) : s->tile.region[i];
        if (v->role == PLIM__ROLE_ACC) plim__acc_region(f->g, p, &p->node[v->producer], value->out, loop, &box);
        plim__io_layout layout = {.bytes = dense(value, &box)};
        if (v->file != PLIM__NONE)
            plim__io_layout_of(&f->plan->file[v->file].io, &box, v->role != PLIM__ROLE_READ, &layout);
        note(&s->slot[v->slot], layout.bytes);
    }
}

/* Copies of accumulators: where each ends in one copy of its slot, and that they are disjoint. */
static void see_copies(const fixture *f, const plim__pass *p, const plim__range *loop, seen *s)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &f->g->node[n->node];
        for (uint32_t j = 0; j < node->n_out && n->copies_slot != PLIM__NONE; j++) {
            plim__region box;
            if (n->accumulates)
                plim__acc_region(f->g, p, n, j, loop, &box);
            else
                plim__region_writes(f->g, node, &n->axes, j, &s->tile.axis[n->axis0], &box);
            const uint64_t end = n->copy_offset[j] + dense(&f->g->value[node->out[j]], &box);
            if (j + 1 < node->n_out) assert_true(end <= n->copy_offset[j + 1]);
            note(&s->slot[n->copies_slot], end);
        }
    }
}

static void see_block(const fixture *f, const plim__pass *p, uint32_t stage, uint32_t block, uint32_t blocks, seen *s)
{
    const plim__stage *x = &p->stage[stage];
    plim__stage_regions(f->g, p, x, &s->tile, block, blocks, &s->block);
    for (uint32_t i = x->first; i < x->first + x->count; i++) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &f->g->node[n->node];
        int64_t len[PLIM__MAX_AXES];
        bool some = true;
        for (uint32_t j = 0; j < node->n_out; j++)
            note(&s->private_value[n->out[j]], dense(&f->g->value[node->out[j]], &s->block.region[n->out[j]]));
        for (uint32_t a = 0; a < n->axes.n; a++) {
            len[a] = plim__range_len(s->block.axis[n->axis0 + a]);
            some &= len[a] > 0;
        }
        if (plim__op_row_of(node->op)->scratch && some)
            note(&s->scratch[stage],
                 plim__op_row_of(node->op)->scratch(f->g, node, len, x->pool ? f->plan->pool_threads : 1));
    }
}

static int64_t tile_loops(const plim__pass *p, int64_t it, plim__range *loop)
{
    int64_t tiles = 1;
    for (uint32_t l = 0; l < p->n_loops; l++) loop[l] = (plim__range){0, p->loop[l].extent};
    for (uint32_t l = 0; l < p->n_cut; l++) {
        const plim__loop *x = &p->loop[l];
        const int64_t trips = plim__loop_trips(x), lo = it / tiles % trips * x->tile;
        loop[l] = (plim__range){lo, plim__min(lo + x->tile, x->extent)};
        tiles *= trips;
    }
    return tiles;
}

static void see_pass(const fixture *f, const plim__pass *p, seen *s)
{
    plim__range loop[PLIM__MAX_LOOPS];
    const int64_t tiles = tile_loops(p, 0, loop);
    for (int64_t it = 0; it < tiles; it++) {
        tile_loops(p, it, loop);
        plim__pass_regions(f->g, p, loop, &s->tile);
        see_values(f, p, loop, s);
        see_copies(f, p, loop, s);
        for (uint32_t k = 0; k < p->n_stages; k++) {
            const uint32_t blocks = plim__stage_blocks(p, &p->stage[k], &s->tile);
            for (uint32_t b = 0; b < blocks; b++) see_block(f, p, k, b, blocks, s);
        }
    }
}

/* Does anything in the pass divide with a remainder? Then a step more than the longest is planned. */
static bool is_rounded(const fixture *f, const plim__pass *p)
{
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        for (uint32_t a = 0; a < n->axes.n; a++)
            if (n->root && n->bind[a] >= 0 && n->axes.axis[a].extent != p->loop[n->bind[a]].extent) return true;
        for (uint32_t k = 0; k < f->g->node[n->node].n_in; k++)
            for (uint32_t d = 0; d < f->g->value[f->g->node[n->node].in[k]].shape.rank; d++)
                if (plim__nest_reads(p->nest, n->node, k)[d].div > 1) return true;
    }
    return false;
}

static uint32_t compared, exact;

static void compare(const fixture *f, const plim__pass *p, const seen *s)
{
    const plim_plan *plan = f->plan;
    const bool rounded = is_rounded(f, p);
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        const char *name = f->g->value[v->value].name;
        if (v->role == PLIM__ROLE_PRIVATE && s->private_value[i] > v->private_bytes)
            fail_msg("%s: a block of '%s' has %llu bytes of %llu", f->text, name,
                     (unsigned long long)s->private_value[i], (unsigned long long)v->private_bytes);
        if (v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_PRIVATE || v->foreign) continue;
        const uint64_t most = s->slot[v->slot], planned = plan->slot[v->slot].bytes;
        if (most > planned)
            fail_msg("%s: a box of '%s' has %llu bytes of %llu", f->text, name, (unsigned long long)most,
                     (unsigned long long)planned);
        compared++;
        if (rounded || p->n_cut > 1 || v->spill)
            continue; /* of two loops the longest of two dimensions may be in two tiles */
        exact++;
        if (plim__round_up(most, v->file == PLIM__NONE ? 64 : 4096) != planned)
            fail_msg("%s: '%s' has %llu bytes at the most, %llu were planned", f->text, name, (unsigned long long)most,
                     (unsigned long long)planned);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].copies_slot != PLIM__NONE)
            assert_true(s->slot[p->node[i].copies_slot] <= plan->slot[p->node[i].copies_slot].bytes);
    for (uint32_t i = 0; i < p->n_stages; i++)
        assert_true(p->stage[i].scratch_offset + s->scratch[i] <= p->stage[i].private_bytes);
}

static void compare_plan(const fixture *f)
{
    for (uint32_t q = 0; q < f->plan->n_passes; q++) {
        const plim__pass *p = &f->plan->pass[q];
        seen s = {.slot = calloc(f->plan->n_slots + 1, sizeof *s.slot),
                  .private_value = calloc(p->n_values + 1, sizeof *s.private_value),
                  .scratch = calloc(p->n_stages + 1, sizeof *s.scratch),
                  .tile = {calloc(p->n_axes + 1, sizeof(plim__range)), calloc(p->n_values + 1, sizeof(plim__region))},
                  .block = {calloc(p->n_axes + 1, sizeof(plim__range)), calloc(p->n_values + 1, sizeof(plim__region))}};
        see_pass(f, p, &s);
        compare(f, p, &s);
        free(s.slot);
        free(s.private_value);
        free(s.scratch);
        free(s.tile.axis);
        free(s.tile.region);
        free(s.block.axis);
        free(s.block.region);
    }
}

static void no_box_is_larger_than_measured(void **state)
{
    (void)state;
    uint32_t plans = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        fixture f;
        if (!set_up(&f, 77 + (uint64_t)i)) continue;
        compare_plan(&f);
        assert_int_equal(f.plan->facts.rejected_plans, 0);
        plans++;
        tear_down(&f);
    }
    print_message("# %u plans, %u boxes, %u of them to the byte\n", plans, compared, exact);
    assert_true(plans > (uint32_t)rounds(PROGRAMS) / 3 && exact > plans / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(no_box_is_larger_than_measured)};
    return cmocka_run_group_tests_name("measure", tests, NULL, NULL);
}
