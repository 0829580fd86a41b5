/* Every split of every op equals the whole, at the level of plans: a table of expressions over small files; each is computed in one piece, and then
 * at budgets from below the floor upward and by plans that are picked at random among all that fit (loops, tiles, threads, spills, rings).
 * What is kept of the plans' shapes shows at the end that every op, role and step kind was met. */
#include "unit.h"

#include "core/dtype.h"
#include "faulty_os.h"
#include "ops/ops.h"
#include "plan/plan.h"
#include "preferences.h"
#include "programs.h"
#include "run/run.h"

#define BUDGETS (SANITIZED ? 6 : 12)
#define RANDOM_PLANS (SANITIZED ? 10 : 20)
#define MOST_TILES 100 /* of a random plan: more only cost time */

/* Extents are odd or prime, so that no tile divides them. */
static const program_input inputs[] = {
    {.name = "x", PLIM_F32, {2, {211, 97}}, -3, 7},
    {.name = "y", PLIM_F32, {2, {211, 97}}, 0.5, 2},
    {.name = "xf", PLIM_F32, {2, {211, 97}}, -3, 7, .fortran = true},
    {.name = "xb", PLIM_F32, {2, {211, 97}}, -3, 7, .swap = true},
    {.name = "d", PLIM_F64, {2, {401, 31}}, -1, 1},
    {.name = "df", PLIM_F64, {3, {13, 7, 31}}, -1, 1, .fortran = true, .swap = true},
    {.name = "h", PLIM_F16, {2, {151, 33}}, -4, 4},
    {.name = "i", PLIM_I8, {2, {151, 17}}, -100, 100},
    {.name = "u", PLIM_U16, {1, {2003}}, 0, 60000},
    {.name = "g", PLIM_I32, {2, {61, 53}}, -1000, 1000},
    {.name = "q", PLIM_F32, {2, {97, 97}}, -1, 1},
    {.name = "w", PLIM_F32, {2, {97, 23}}, -1, 1},
    {.name = "k", PLIM_F32, {2, {3, 5}}, -1, 1},
    {.name = "v", PLIM_F32, {1, {1501}}, -1, 1},
    {.name = "r", PLIM_F32, {1, {97}}, -1, 1},
    {.name = "t", PLIM_F32, {4, {3, 4, 16, 53}}, -1, 1},
    {.name = "n", PLIM_F32, {2, {101, 41}}, 0, 1, .nan_every = 97},
    {.name = "e", PLIM_F32, {2, {0, 5}}, 0, 0},
    {.name = "z", PLIM_F64, {3, {3, 0, 4}}, 0, 0},
    {.name = "s", PLIM_F64, {0, {0}}, 3, 4},
    {.name = "lu", PLIM_U8, {2, {66003, 3}}, 0, 255}, /* longer than what a quantile holds at once */
    {.name = "lh", PLIM_F16, {2, {66003, 2}}, -4, 4},
    {.name = "lv", PLIM_F32, {1, {70001}}, -1, 1},
    {.name = "one", PLIM_F32, {2, {1, 1}}, 3, 4},
};

static int begin(void **state)
{
    if (files_begin(state)) return -1;
    for (size_t i = 0; i < COUNT_OF(inputs); i++) program_input_write(&inputs[i]);
    return 0;
}

/* ---------------------------------------------------------------------------------------------------- the cases */

typedef struct test_case {
    const char *text;
    double tol; /* relative to the largest element; 0: the same bits */
} test_case;

static const test_case cases[] = {
    /* elementwise, several inputs, broadcasting */
    {"f16(x)", 0},
    {"x * 2 + y", 0},
    {"sqrt(abs(x)) + exp(-x*x) * sin(x)", 0},
    {"where(x > 0, x, 0.1 * y)", 0},
    {"clip(x, -1, 1) // 0.3", 0},
    {"x + r", 0},
    {"i * 100", 0},
    {"i // 7 + i % 7", 0},
    {"(i & 15) ^ 3", 0},
    {"u / 7", 0},
    {"h * 2 - 1", 0},
    {"s + 1", 0},
    {"one * 2 + s", 0},
    {"v[:,None] * v[None,:300] + 1", 0},
    /* other orders and bytes */
    {"xf * 2", 0},
    {"xf + x", 0},
    {"xb - x", 0},
    {"xf.T + 1", 0},
    {"df * 2", 0},
    {"transpose(df, (2, 0, 1)) + 1", 0},
    {"mean(xf, 0)", 1e-6},
    {"mean(xb, 1)", 1e-6},
    {"sum(df, (0, 2))", 1e-12},
    /* made in one pass for its maximum, and again in another to be compared with it: the same bits */
    {"p = tanh(x @ w) * 3; sum(i32(p == max(p, 0)), 0)", 0},
    {"p = x / (1 + sum(y, 1, keepdims=True)); sum(i32(p == max(p, 0)), 0)", 0},
    {"p = x * mean(d) - std(y, 0); sum(i32(p == max(p)))", 0},
    /* shapes */
    {"x.T", 0},
    {"(x.T * 2)[::-1]", 0},
    {"q + q.T", 0},
    {"q * q.T - q[::-1]", 0},
    {"transpose(t, (3, 1, 0, 2))", 0},
    {"x[10:50:3, ::-1]", 0},
    {"x[..., None, 5]", 0},
    {"x[-1] + x[0]", 0},
    {"concat((x, y * 2), 0)", 0},
    {"concat((x, x[:, :3]), 1)", 0},
    {"ravel(reshape(concat((x, x[::-1], y)), (211, 97, 3)))", 0},
    {"stack((x, -y))", 0},
    {"roll(x, 3, 0) + roll(y, -2, 1)", 0},
    {"flip(x, 0)", 0},
    {"pad(x, ((1,2),(3,0)), 'reflect')", 0},
    {"pad(x, 2, 'wrap')", 0},
    {"pad(y, ((0,3),(2,2)), 'edge')", 0},
    {"pad(g, 3)", 0},
    {"take(x, (5, 3, -1), 1)", 0},
    {"take(x, (5, 3, -1), 0)", 0},
    {"reshape(x, (-1,))", 0},
    {"reshape(d, (31, 401))", 0},
    {"reshape(t, (12, -1)) * 2", 0},
    {"sum(reshape(x, (-1,))[::5])", 1e-5},
    {"mean(reshape(d, (-1, 401)), 0)", 1e-12},
    {"broadcast_to(r, (50, 97)) + x[:50]", 0},
    {"diff(x, axis=0)", 0},
    {"tile(r, 5)", 0},
    /* reductions */
    {"mean(x)", 1e-6},
    {"mean(x, 0)", 1e-6},
    {"mean(x, 1)", 1e-6},
    {"std(x, 0)", 1e-6},
    {"std(d)", 1e-12},
    {"var(x, 1, ddof=1, keepdims=True)", 1e-6},
    {"mean((x-3)**2, 0)", 1e-5},
    {"max(x, 0) - min(x, 0)", 0},
    {"sum(i, 0)", 0},
    {"sum(g)", 0},
    {"prod(1 + y / 100, 1)", 1e-6},
    {"count_nonzero(x > 2, axis=0)", 0},
    {"any(x > 6.9, 1)", 0},
    {"all(isfinite(x))", 0},
    {"norm(x, axis=1)", 1e-6},
    {"mean(t, (0, 2))", 1e-6},
    {"max(t, (1, 3))", 0},
    {"sum(v[:,None] * v[None,:400])", 1e-5},
    {"argmax(x, 1)", 0},
    {"argmin(x, 0)", 0},
    {"argmax(x)", 0},
    {"argmin(t, 2)", 0},
    {"max(n, 0)", 0},
    {"nanmean(n, 1)", 1e-6},
    {"histogram(x, 50)", 0},
    {"histogram(d, 10, range=(-0.5, 0.5))", 0},
    {"topk(x, 5, axis=1)[0]", 0},
    {"topk(x, 3, axis=0)[1]", 0},
    {"topk(g, 4, axis=0, largest=False)[0]", 0},
    /* after a reduction */
    {"x - mean(x, 1, keepdims=True)", 1e-6},
    {"(x - mean(x)) / std(x)", 1e-5},
    {"m = mean(x,0); s1 = std(x,0); f32((x-m)/s1)", 1e-5},
    {"y1 = x*2+1; sum(y1) + max(y1)", 1e-5},
    {"c = max(x,1,keepdims=True); z1 = exp(x - c); z1 / sum(z1,1,keepdims=True)", 1e-6},
    {"mean(x, 0) * ones((3, 1))", 1e-6},
    {"sqrt(sum(sum(d * d, 0)))", 1e-12},
    {"mean(abs(x - median(x, 0)), 0)", 1e-6},
    /* scans */
    {"cumsum(x, 0)", 1e-5},
    {"cumsum(x, 1)", 1e-5},
    {"cumsum(g, 0)", 0},
    {"cumprod(y, 1)", 1e-5},
    {"mean(cumsum(x, 0), 0)", 1e-5},
    {"cumsum(x, 0) + 1", 1e-5},
    {"cumsum(cumsum(d, 0), 1)", 1e-11},
    {"box(cumsum(d, 0), 3)", 1e-11},
    /* sorting, quantiles */
    {"sort(x, 1)", 0},
    {"sort(x, 0)", 0},
    {"sort(n, 0)", 0},
    {"argsort(x, 1)", 0},
    {"argsort(d, 0)", 0},
    {"sort(x * 2, 1) + y", 0},
    {"sort(cumsum(g, 0), 0)", 0},
    {"median(x, 0)", 0},
    {"median(x, 1)", 0},
    {"median(x)", 0},
    {"median(n, 0)", 0},
    {"median(u)", 0},
    {"quantile(x, (0.1, 0.9), 0)", 0},
    {"quantile(d, (0.25, 0.5, 0.75))", 0},
    {"median(h, 0)", 0},
    {"median(lu, 0)", 0},
    {"quantile(lh, (0.1, 0.5), 0) + 1", 0},
    {"lv[::7] - median(lv)", 0},
    /* windows and products */
    {"box(x, 3)", 1e-5},
    {"box(x, 5, edge='reflect')", 1e-5},
    {"box(x, (3, 1))", 1e-5},
    {"box((x - 1) * 2, 3)", 1e-5},
    {"box(box(x, 3), 5)", 1e-5},
    {"b1 = box(x, 3); x - b1", 1e-5},
    {"conv(x, k)", 1e-5},
    {"x @ w", 1e-5},
    {"f16(x @ w + 1)", 2e-3},
    {"x.T @ x", 1e-5},
    {"x @ q @ w", 1e-5},
    {"g @ g.T", 0},
    {"x @ r", 1e-5},
    {"sum(q @ q)", 1e-4},
    {"matmul(t[0, :, :, :16], t[1, :, :16, :32])", 1e-5},
    /* what needs several passes and large things in between */
    {"a = sort(x, 0); b1 = sort(a, 1); b1 - mean(b1)", 1e-5},
    {"a = x @ q; a - max(a, 0) + mean(a, 1, keepdims=True)", 1e-5},
    {"a = cumsum(x, 0); b1 = cumsum(a[::-1], 0); b1[::-1] - a", 1e-4},
    {"a = sort(x, 1); concat((a, a - mean(a, 0)), 1)", 1e-6},
    {"a = sort(d, 0); a - mean(a, 1, keepdims=True)", 1e-12},
    {"a = sort(cumsum(d, 0), 1); a[::-1] + a", 1e-12},
    /* nothing in them */
    {"e * 2 + 1", 0},
    {"sum(e, 0) + 1", 0},
    {"sum(e) - 2", 0},
    {"z + 1", 0},
    {"max(z, 0)", 0},
    {"sort(e, 1)", 0},
    {"cumsum(e, 0)", 0},
    {"concat((e, x[:2, :5]), 0)", 0},
    {"x[:0] * 2", 0},
    {"x[:0].T @ x[:0] + 1", 0},
    /* how many there are is known afterwards */
    {"unique(g, size=3000)[0]", 0},
    {"unique(i, size=300)[1]", 0},
    {"median(v[:300,None] * v[None,:300])", 0}, /* too long to hold: radix selection */
    {"cumsum(cumsum(v[:,None] * v[None,:], 0), 1)", 1e-4}, /* one pass along each dimension, too large to keep between them: spilled */
};

/* Failures are said and counted, so that one run shows them all. */
static uint32_t failures;
#define COMPLAIN(...) (failures++, print_error(__VA_ARGS__), print_error("\n"))

static const char *only = ""; /* cases whose text holds it */

/* ------------------------------------------------------------------------------------------ what plans looked like */

static struct {
    bool op[PLIM__OP_COUNT], role[PLIM__ROLE_PRIVATE + 1], step[PLIM__STEP_WAIT + 1];
    bool cut[4];          /* loops of a pass */
    bool post, post_deep; /* a stage after the loops; after inner loops only */
    bool acc_deep, copies, scan, pool, blocks, hoisted, ring, spill, carried, two_boxes;
    uint32_t passes;      /* most of a plan */
    uint64_t plans, runs;
} seen;

static void see_pass(const plim_plan *plan, const plim__pass *p)
{
    const plim_graph *g = plan->graph;
    seen.cut[p->n_cut < 4 ? p->n_cut : 3] = true;
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        seen.op[g->node[n->node].op] = true;
        seen.acc_deep |= n->accumulates && n->acc_depth > 0;
        seen.copies |= n->copies_slot != PLIM__NONE;
        for (uint32_t a = 0; a < n->axes.n; a++) seen.scan |= n->accumulates && n->axes.axis[a].kind == PLIM__SCAN;
    }
    for (uint32_t i = 0; i < p->n_values; i++) {
        const plim__pvalue *v = &p->value[i];
        seen.role[v->role] = true;
        seen.spill |= v->spill;
        seen.carried |= v->role == PLIM__ROLE_WHOLE && v->producer == PLIM__NONE;
        seen.hoisted |= v->role == PLIM__ROLE_READ && v->depth < p->n_cut;
        seen.ring |= v->slot != PLIM__NONE && plan->slot[v->slot].copies > 1;
        for (uint32_t j = 0; j < i; j++) seen.two_boxes |= v->role == PLIM__ROLE_READ && p->value[j].value == v->value;
    }
    for (uint32_t i = 0; i < p->n_stages; i++) {
        seen.post |= p->stage[i].post;
        seen.post_deep |= p->stage[i].post && p->stage[i].depth > 0;
        seen.pool |= p->stage[i].pool;
        seen.blocks |= p->stage[i].blocks > 1;
    }
    for (uint32_t i = 0; i < p->n_steps; i++) seen.step[p->step[i].kind] = true;
}

static void see(const plim_plan *plan)
{
    seen.plans++;
    if (plan->n_passes > seen.passes) seen.passes = plan->n_passes;
    for (uint32_t i = 0; i < plan->n_passes; i++) see_pass(plan, &plan->pass[i]);
}

/* ------------------------------------------------------------------------------------------- one way of running it */

/* How a case is run. */
typedef struct way {
    uint64_t memory;
    uint32_t threads;
    bool to_file, spill, buffered;
    const plim__preference *prefer;
} way;

/* An array that a run gave. */
typedef struct result {
    plim_dtype dtype;
    plim_shape shape;
    uint64_t bytes;
    uint8_t *data;
} result;

static void take_result(result *out, const plim_plan *plan)
{
    plim_error err = {0};
    plim_result r;
    if (plim_plan_result(&r, plan, 0, &err)) fail_msg("%s", err.message);
    *out = (result){.dtype = r.dtype, .shape = r.shape};
    assert_int_equal(plim_shape_bytes(&out->bytes, &r.shape, r.dtype, &err), PLIM_OK);
    if (!r.path) {
        out->data = malloc(out->bytes + 1);
        if (out->bytes) memcpy(out->data, r.data, out->bytes);
        return;
    }
    plim_array_info info;
    if (plim_array_info_read(&info, r.path, &err)) fail_msg("%s", err.message);
    assert_int_equal(info.dtype, r.dtype);
    assert_true(plim__shape_equal(&info.shape, &r.shape));
    size_t n;
    uint8_t *file = files_read("out.npy", &n);
    assert_int_equal(n, PLIM__NPY_HEADER + out->bytes);
    memmove(file, file + PLIM__NPY_HEADER, out->bytes);
    out->data = file;
    unlink(r.path);
}

static char plan_shown[1 << 14]; /* of the last run */

static const char *plan_text(const plim_plan *plan)
{
    plim_plan_dump(plan, plan_shown, sizeof plan_shown);
    return plan_shown;
}

typedef enum outcome { RAN, TOO_SMALL, FAILED } outcome;

/* Checks and runs a plan. */
static outcome run_plan(result *out, const char *text, plim_plan *plan, uint64_t memory, plim_error *err)
{
    const plim_facts *f = plim_plan_facts(plan);
    if (!f->fits || f->planned_peak_bytes > memory || f->floor_bytes <= FAULTY_RESIDENT) {
        COMPLAIN("%s: planned %llu of %llu bytes, floor %llu", text, (unsigned long long)f->planned_peak_bytes, (unsigned long long)memory,
                 (unsigned long long)f->floor_bytes);
        return FAILED;
    }
    see(plan);
    if (plim_plan_check(plan, err) || plim_plan_run(plan, NULL, err)) {
        COMPLAIN("%s: %s\n%s", text, err->message, plan_text(plan));
        return FAILED;
    }
    seen.runs++;
    take_result(out, plan);
    plan_text(plan);
    return RAN;
}

/* Plans, checks and runs. Where the budget is too small, err->need is the floor. */
static outcome run_way(result *out, const char *text, const way *w, const plim__os *os, plim_error *err)
{
    plim_graph *g;
    plim_plan *plan;
    *err = (plim_error){0};
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, err), PLIM_OK);
    if (program_fill(g, text, inputs, COUNT_OF(inputs), w->to_file ? files_path("out.npy") : NULL, os, err)) fail_msg("%s: %s", text, err->message);
    plim_settings set = plim_settings_default();
    set.memory = w->memory;
    set.threads = w->threads;
    set.spill_dir = w->spill ? files_dir : NULL;
    set.no_direct_io = w->buffered;
    const plim_status planned = plim__plan_new_by(&plan, g, &set, os, w->prefer, err);
    outcome o = planned == PLIM_E_BUDGET ? TOO_SMALL : FAILED;
    if (planned == PLIM_OK) o = run_plan(out, text, plan, w->memory, err);
    else if (o == FAILED) COMPLAIN("%s: %s", text, err->message);
    plim_plan_free(&plan);
    plim__graph_free(&g);
    return o;
}

/* -------------------------------------------------------------------------------------------------- are they equal */

static double element(const result *r, uint64_t i)
{
    double x;
    plim__convert(&x, PLIM_F64, r->data + i * plim_dtype_bytes(r->dtype), r->dtype, 1);
    return x;
}

static void expect_equal(const test_case *c, const result *got, const result *want, const char *how)
{
    assert_int_equal(got->dtype, want->dtype);
    assert_true(plim__shape_equal(&got->shape, &want->shape));
    if (memcmp(got->data, want->data, want->bytes) == 0) return;
    const uint64_t size = plim_dtype_bytes(want->dtype), n = want->bytes / size;
    double scale = 0;
    for (uint64_t i = 0; i < n; i++) {
        const double x = fabs(element(want, i));
        if (x > scale && isfinite(x)) scale = x;
    }
    for (uint64_t i = 0; i < n; i++) {
        const double a = element(got, i), b = element(want, i);
        const bool same = memcmp(got->data + i * size, want->data + i * size, size) == 0 || (isnan(a) && isnan(b));
        if (same || fabs(a - b) <= c->tol * scale) continue;
        COMPLAIN("%s, %s: element %llu of %llu is %.17g, in one piece it is %.17g\n%s", c->text, how, (unsigned long long)i,
                 (unsigned long long)n, a, b, plan_shown);
        return;
    }
}

/* All-zero results would agree with anything that writes nothing. */
static bool all_zero(const result *r)
{
    for (uint64_t i = 0; i < r->bytes; i++)
        if (r->data[i]) return false;
    return r->bytes > 0;
}

/* ----------------------------------------------------------------------------------------------------------- tests */

/* A matrix product waits for its threads in a busy loop: on a loaded machine hundreds of small ones take minutes. */
static uint32_t threads_for(const test_case *c, uint32_t wanted)
{
    return strchr(c->text, '@') || strstr(c->text, "matmul") ? 1 : wanted;
}

typedef struct expected {
    const test_case *c;
    faulty_os os;
    result whole;
} expected;

/* The case in one piece. @return false: it is left out, or that failed already */
static bool begin_case(expected *x, const test_case *c)
{
    plim_error err;
    if (!strstr(c->text, only)) return false;
    x->c = c;
    faulty_init(&x->os);
    const way w = {.memory = 1u << 30, .threads = 1, .prefer = &prefer_one_piece};
    const outcome o = run_way(&x->whole, c->text, &w, &x->os.table, &err);
    if (o == TOO_SMALL) COMPLAIN("%s: %s", c->text, err.message);
    if (o == RAN && all_zero(&x->whole)) COMPLAIN("%s: a result of zeros shows nothing", c->text);
    return o == RAN;
}

static void end_case(expected *x)
{
    assert_int_equal(x->os.open, 0);
    assert_int_equal(program_leftovers(), 0);
    free(x->whole.data);
}

static outcome try_way(const expected *x, const way *w, const char *how)
{
    result got;
    plim_error err;
    const outcome o = run_way(&got, x->c->text, w, &x->os.table, &err);
    if (o != RAN) return o;
    expect_equal(x->c, &got, &x->whole, how);
    free(got.data);
    return RAN;
}

/* The smallest budget with a plan, as the refusal says it. */
static uint64_t floor_of(const expected *x, uint32_t threads, bool to_file, bool spill)
{
    plim_error err;
    result none;
    const way w = {.memory = 1, .threads = threads, .to_file = to_file, .spill = spill};
    return run_way(&none, x->c->text, &w, &x->os.table, &err) == TOO_SMALL ? err.need : 0;
}

/* Budgets in geometric progression, from below the floor to sixteen times the arena: what fits, fits in more, and gives the same. */
static void budgets(void **state)
{
    (void)state;
    failures = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        expected x;
        if (!begin_case(&x, &cases[i])) continue;
        const uint32_t threads = threads_for(&cases[i], 1 + i % 3);
        const bool to_file = i % 2, spill = i % 5 < 2 || strstr(cases[i].text, "cumsum("); /* a scan that is read again is what gets spilled */
        const uint64_t floor = floor_of(&x, threads, to_file, spill);
        way w = {.memory = floor, .threads = threads, .to_file = to_file, .spill = spill};
        if (try_way(&x, &w, "at its floor") == TOO_SMALL) COMPLAIN("%s does not fit into its own floor, %llu bytes", x.c->text, (unsigned long long)floor);
        const double rest = FAULTY_RESIDENT, arena = (double)floor - rest;
        bool fitted = false;
        for (int b = 0; b < BUDGETS; b++) {
            char how[64];
            w.memory = (uint64_t)(rest + arena * pow(2, -0.3 + 4.3 * b / (BUDGETS - 1)));
            snprintf(how, sizeof how, "budget %llu, %u threads", (unsigned long long)w.memory, threads);
            const outcome o = try_way(&x, &w, how);
            if (fitted && o == TOO_SMALL) COMPLAIN("%s, %s: does not fit, but less did", x.c->text, how);
            fitted |= o != TOO_SMALL;
        }
        end_case(&x);
    }
    assert_int_equal(failures, 0);
}

/* Plans picked by chance. Those that do not fit are left out; there is always one that does. */
static void chance(void **state)
{
    (void)state;
    uint64_t rng = 1;
    failures = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        expected x;
        if (!begin_case(&x, &cases[i])) continue;
        const uint64_t floor = floor_of(&x, 2, true, true);
        for (int n = 0; n < RANDOM_PLANS; n++) {
            prefer_chance chance = {.seed = files_random(&rng), .most_tiles = MOST_TILES};
            const plim__preference prefer = {.score = prefer_by_chance, .ctx = &chance};
            const bool tight = n % 4 == 3;
            const way w = {.memory = tight ? floor + ((uint64_t)n << 13) : n % 3 ? 64u << 20 : FAULTY_RESIDENT + ((5u + n) << 20),
                           .threads = n == 1 ? 2 : threads_for(&cases[i], 1 + n % 3), .to_file = n / 2 % 2, .spill = tight, .buffered = n % 8 == 7,
                           .prefer = &prefer};
            char how[64];
            snprintf(how, sizeof how, "random plan %d, %u threads", n, w.threads);
            try_way(&x, &w, how);
        }
        end_case(&x);
    }
    assert_int_equal(failures, 0);
}

/* Two ways to write the same: what moves the elements of a result (shifts, reverses, repeats it) after it was made, or its inputs before. */
static const struct twin {
    const char *text, *same;
} twins[] = {
    {"flip(argmax(lu, 1))", "argmax(flip(lu, 0), 1)"},
    {"argmin(lu, 1)[::-2]", "argmin(lu[::-2], 1)"},
    {"tile(argmax(lu, 1), 2)", "argmax(concat((lu, lu), 0), 1)"},
    {"concat((argmax(lu, 1), argmin(lu, 1)), 0)[66003:]", "argmin(lu, 1)"},
    {"y1 = topk(lu, 2)[1]; y1 + y1[::-1]", "topk(lu, 2)[1] + topk(lu[::-1], 2)[1]"},
    {"pad(topk(lu, 2)[0], 1)[2:, 1:-1]", "concat((topk(lu, 2)[0][1:], zeros((1, 2), u8)), 0)"},
    {"v1, i1 = topk(lu, 2); flip(v1, 0) * 3 + i1", "topk(flip(lu, 0), 2)[0] * 3 + argtopk(lu, 2)"},
    {"flip(argmax(lu.T, 0))", "argmax(flip(lu, 0).T, 0)"},
    {"repeat(argmax(lu, 1), 2)[1::2]", "argmax(lu, 1)"},
    {"cumsum(g, 0)[-1]", "sum(g, 0)"},
    {"cumsum(g, 0)[40]", "sum(g[:41], 0)"},
    {"cumsum(lu, 0)[66000:]", "sum(lu[:66000], 0) + cumsum(lu[66000:], 0)"},
    {"cumsum(g, 1)[:, ::-2]", "flip(sum(g[:, :1], 1, keepdims=True) + concat((zeros((61, 1), i64), cumsum(g[:, 1:], 1)), 1), 1)[:, ::2]"},
    {"pad(exp(sum(x, 1, keepdims=True))[:, :0], ((0, 0), (1, 3)), 'constant', 2)[:, 1:3]", "full((211, 2), 2, f32)"},
    {"concat((repeat(exp(x), 0, 1), y * 2), 1)", "y * 2"},
    {"concat((norm(x, 1.5, keepdims=True)[:-1:2] + 1, y[:1, :1]), 0)", "y[:1, :1] * 1"},
    {"p1 = x[::-1] % y; q1 = argsort(p1, 0); concat((f64(q1), f64(p1)), 1)", "concat((f64(argsort(x[::-1] % y, 0)), f64(x[::-1] % y)), 1)"},
    {"flip(cumsum(lu, 0), 0)[0]", "sum(lu, 0)"},
    {"roll(cumsum(lu), -1)[-1:]", "reshape(u64(lu[0, 0]), (1,))"},
    {"roll(cumsum(lu, 0), -1, 0)[:-1] - lu[1:]", "cumsum(lu, 0)[:-1]"},
    {"c1 = cumsum(lu, 0); concat((c1[:1], flip(c1, 0)), 0)[1:2]", "sum(lu, 0, keepdims=True)"},
    {"cumprod(i, 1)[:, 3:]", "prod(i[:, :3], 1, keepdims=True) * cumprod(i[:, 3:], 1)"},
    {"cumsum(argmax(lu, 1))[1:] - cumsum(argmax(lu, 1))[:-1]", "argmax(lu, 1)[1:]"},
};

/* Both give the same bits, in one piece, in blocks of several threads, and from the floor on. */
static void moved_elements(void **state)
{
    (void)state;
    failures = 0;
    for (size_t i = 0; i < COUNT_OF(twins); i++) {
        expected x;
        if (!begin_case(&x, &(test_case){twins[i].same, 0})) continue;
        x.c = &(test_case){twins[i].text, 0};
        for (uint32_t n = 0; n < 16; n++) {
            const uint32_t threads = (const uint32_t[]){1, 2, 3, 7}[n % 4];
            const bool spill = n >= 12, at_floor = spill || (n >= 4 && n < 8);
            char how[64];
            const way w = {.memory = at_floor ? floor_of(&x, threads, true, spill) : n < 4 ? 1u << 30 : FAULTY_RESIDENT + (8u << 20), .threads = threads,
                           .to_file = n >= 4, .spill = spill};
            snprintf(how, sizeof how, "budget %llu, %u threads%s", (unsigned long long)w.memory, threads, spill ? ", spilling" : "");
            if (try_way(&x, &w, how) == TOO_SMALL) COMPLAIN("%s, %s: does not fit", x.c->text, how);
        }
        end_case(&x);
    }
    assert_int_equal(failures, 0);
}

/* The public face, which measures the real process. */
static void public_api(void **state)
{
    (void)state;
    failures = 0;
    for (size_t i = 0; i < COUNT_OF(cases); i += 3) {
        expected x;
        if (!begin_case(&x, &cases[i])) continue;
        plim_error err = {0};
        plim_program *prog;
        plim_plan *plan;
        plim_binding in[COUNT_OF(inputs)];
        char path[COUNT_OF(inputs)][128];
        uint32_t n = 0;
        for (size_t k = 0; k < COUNT_OF(inputs); k++) {
            if (!program_uses(cases[i].text, inputs[k].name)) continue;
            snprintf(path[n], sizeof path[n], "%s/%s.npy", files_dir, inputs[k].name);
            in[n] = (plim_binding){.name = inputs[k].name, .path = path[n]};
            n++;
        }
        plim_settings set = plim_settings_default();
        if (plim_program_new(&prog, cases[i].text, in, n, NULL, 0, &set, &err) || plim_plan_new(&plan, prog, &set, &err) ||
            plim_plan_check(plan, &err) || plim_plan_run(plan, NULL, &err) || plim_plan_run(plan, NULL, &err))
            fail_msg("%s: %s", cases[i].text, err.message);
        result got;
        take_result(&got, plan);
        expect_equal(&cases[i], &got, &x.whole, "through the public API");
        free(got.data);
        plim_plan_free(&plan);
        plim_program_free(&prog);
        end_case(&x);
    }
    assert_int_equal(failures, 0);
}

/* Nothing of the planner's repertoire was left out. Runs last. */
static void everything_was_met(void **state)
{
    (void)state;
    if (only[0]) skip();
    for (uint32_t i = 0; i <= PLIM__OP_MATMUL; i++) /* the ops behind it belong to layers, which no expression makes */
        if (!seen.op[i]) fail_msg("no plan ran the op '%s'", plim__op_row_of(i)->name);
    for (uint32_t i = 0; i < COUNT_OF(seen.role); i++)
        if (!seen.role[i]) fail_msg("no value had role %u", i);
    for (uint32_t i = 0; i < COUNT_OF(seen.step); i++)
        if (!seen.step[i]) fail_msg("no step had kind %u", i);
    for (uint32_t i = 0; i < COUNT_OF(seen.cut); i++)
        if (!seen.cut[i]) fail_msg("no pass had %u loops", i);
    assert_true(seen.post);
    assert_true(seen.post_deep);
    assert_true(seen.acc_deep);
    assert_true(seen.copies);
    assert_true(seen.scan);
    assert_true(seen.pool);
    assert_true(seen.blocks);
    assert_true(seen.hoisted);
    assert_true(seen.ring);
    assert_true(seen.spill);
    assert_true(seen.carried);
    assert_true(seen.two_boxes);
    assert_true(seen.passes >= 3);
    assert_true(seen.runs > 10 * COUNT_OF(cases));
}

int main(int argc, char **argv)
{
    if (argc > 1) only = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(budgets),
        cmocka_unit_test(chance),
        cmocka_unit_test(moved_elements),
        cmocka_unit_test(public_api),
        cmocka_unit_test(everything_was_met),
    };
    return cmocka_run_group_tests_name("splits", tests, begin, files_end);
}
