/* Values that take the slot of an input. First the kernels: every row that says it may write over what it reads gives the same bits when it does. Then who
 * shares a slot with whom in small programs; that all plans compute the same is tested by splits.c and keep.c, that no wrong ones pass by check.c. */
#include "unit.h"

#include "core/dtype.h"
#include "expr/expr.h"
#include "faulty_os.h"
#include "kernels/elementwise.h"
#include "ops/ops.h"
#include "plan/inplace.h"

#include <stdlib.h>
#include <string.h>

#define ROWS 37
#define STRIDE 131 /* elements from one row to the next */

/* --------------------------------------------------------------------------------------------------------- kernels */

static void fill(unsigned char *data, plim_dtype t, uint32_t seed)
{
    for (uint32_t i = 0; i < ROWS * STRIDE; i++) {
        const double x = plim__dtype_is_float(t) ? (double)(int)((i * 2654435761u + seed * 40503u) >> 16 & 1023) / 100 - 5
                                                 : (double)((i * 2654435761u + seed * 40503u) >> 20 & 7);
        plim__convert(data + (uint64_t)i * plim_dtype_bytes(t), t, &x, PLIM_F64, 1);
    }
}

/* `cols` columns of ROWS rows that are STRIDE apart, or dense. */
static plim__view view_of(void *data, plim_dtype t, int64_t cols, bool dense)
{
    const plim__region box = {.rank = 2, .dim = {{0, ROWS}, {0, cols}}};
    plim__view v = plim__view_dense(data, t, &box);
    if (!dense) v.stride[0] = STRIDE;
    return v;
}

/* Function fn on operands of dtype t, with its result on operand `on`, against its result elsewhere. */
static void same_bits_on(plim__ew fn, plim_dtype compute, plim_dtype t, uint32_t on, int64_t cols, bool dense)
{
    static unsigned char in[3][ROWS * STRIDE * 8], out[ROWS * STRIDE * 8];
    plim__view view[3];
    const uint64_t bytes = (uint64_t)ROWS * STRIDE * plim_dtype_bytes(t);
    for (uint32_t k = 0; k < 3; k++) {
        fill(in[k], t, k + 1);
        view[k] = view_of(in[k], t, cols, dense);
    }
    memcpy(out, in[on], bytes);
    const plim__view apart = view_of(out, t, cols, dense), over = view[on];
    plim__ew_run(fn, compute, &apart, view, plim__ew_arity(fn));
    plim__ew_run(fn, compute, &over, view, plim__ew_arity(fn));
    if (memcmp(out, in[on], bytes) != 0)
        fail_msg("%s of %s, on operand %u, %lld columns%s: other bits", plim__ew_name(fn), plim_dtype_name(t), on, (long long)cols, dense ? ", dense" : "");
}

static void elementwise_functions(void **state)
{
    (void)state;
    static const struct { plim_dtype compute, t; } types[] = {{PLIM_F32, PLIM_F32}, {PLIM_F32, PLIM_F16}, {PLIM_F32, PLIM_BF16}, {PLIM_F64, PLIM_F64},
                                                              {PLIM_I64, PLIM_I64}, {PLIM_I64, PLIM_I32}, {PLIM_I64, PLIM_U8}, {PLIM_I64, PLIM_BOOL}};
    uint32_t tried = 0;
    for (uint32_t fn = 0; fn < PLIM__EW_COUNT; fn++)
        for (uint32_t i = 0; i < COUNT_OF(types); i++) {
            const plim__ew_class cls = plim__ew_class_of((plim__ew)fn);
            const bool floats = plim__dtype_is_float(types[i].compute);
            if ((cls == PLIM__EW_FLOAT || cls == PLIM__EW_TEST) ? !floats : cls == PLIM__EW_INTS && floats) continue;
            for (uint32_t on = 0; on < plim__ew_arity((plim__ew)fn); on++)
                for (int shape = 0; shape < 4; shape++, tried++)
                    same_bits_on((plim__ew)fn, types[i].compute, types[i].t, on, shape < 2 ? 7 : 131, shape % 2);
        }
    assert_true(tried > 1000);
}

/* A row that may write over what it reads has one output, and nothing to set up before it. */
static void rows_that_may(void **state)
{
    (void)state;
    assert_true(plim__op_row_of(PLIM__OP_ELEMENTWISE)->flags & PLIM__OP_INPLACE);
    for (uint32_t op = 0; op <= PLIM__OP_OPTIMIZE; op++)
        if (plim__op_row_of(op)->flags & PLIM__OP_INPLACE) assert_null(plim__op_row_of(op)->init);
}

/* --------------------------------------------------------------------------------------------------------- programs */

typedef struct fixture {
    plim_graph *g;
    plim_plan *plan;
    faulty_os os;
} fixture;

/* Passes that are not cut, where they fit. */
static double uncut(void *ctx, const plim__pass *p, double seconds)
{
    (void)ctx;
    return p->n_cut + seconds * 1e-9;
}

/* A program of x and y, [rows, 512] of f32 at this offset of files that are never opened, whose last result goes to a file. */
static void set_up(fixture *f, const char *text, int64_t rows, uint64_t offset, uint64_t memory)
{
    plim_error err = {0};
    faulty_init(&f->os);
    assert_int_equal(plim__graph_new(&f->g, (plim__alloc){0}, &err), PLIM_OK);
    plim__expr_input in[2] = {{.name = "x"}, {.name = "y"}};
    const plim_shape shape = {2, {rows, 512}};
    char path[] = "nowhere.npy";
    for (int i = 0; i < 2; i++) {
        plim__source s = {.path = path, .offset = offset, .stride = {512, 1}, .file_bytes = offset + (uint64_t)rows * 512 * 4};
        assert_int_equal(plim__graph_file(f->g, in[i].name, PLIM_F32, &shape, &s, &in[i].value, &err), PLIM_OK);
    }
    plim__expr_result res[8];
    uint32_t n = 0;
    if (plim__expr_build(f->g, text, in, 2, res, 8, &n, &err)) fail_msg("%s", err.message);
    assert_int_equal(plim__graph_output(f->g, res[n - 1].value, "out", "out.npy", &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    set.memory = memory;
    set.threads = 2;
    const plim__preference prefer = {.score = uncut};
    if (plim__plan_new_by(&f->plan, f->g, &set, &f->os.table, &prefer, &err)) fail_msg("%s: %s", text, err.message);
    if (plim__plan_check(f->plan, &err)) fail_msg("%s: %s", text, err.message);
}

static void tear_down(fixture *f)
{
    plim__plan_drop(f->plan);
    plim__graph_free(&f->g);
}

/* How many values of the plan lie in another one's slot. */
static uint32_t count_shared(const plim_plan *plan)
{
    uint32_t n = 0;
    for (uint32_t q = 0; q < plan->n_passes; q++)
        for (uint32_t i = 0; i < plan->pass[q].n_values; i++) {
            const plim__pvalue *v = &plan->pass[q].value[i];
            if (v->alias_of == PLIM__NONE || v->role == PLIM__ROLE_PRIVATE) continue;
            assert_int_equal(v->slot, plan->pass[q].value[v->alias_of].slot);
            n++;
        }
    return n;
}

static void programs(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        uint64_t offset, memory;
        uint32_t shared;
    } row[] = {
        {"maximum(x, 0)", 0, 1u << 30, 1},              /* from file to file: the result takes the place of what was read */
        {"maximum(x, 0)", 128, 1u << 30, 0},         /* the array begins elsewhere in its page than the result does */
        {"maximum(x, 0) * 2 - 1", 0, 1u << 30, 1},      /* by way of values inside the stage */
        {"x + x", 0, 1u << 30, 1},                      /* read twice, each time the same element */
        {"x + y", 0, 1u << 30, 1},                      /* on one of two */
        {"x + mean(x)", 0, 1u << 30, 1},                /* x is read twice; the second time is the last */
        {"x + flip(x, 0)", 0, 1u << 30, 0},             /* another block would read what this one has overwritten */
        {"cumsum(x, 0)", 0, 1u << 30, 0},               /* no row of element for element */
        {"x + y[0]", 0, 1u << 30, 1},                   /* on x, not on what is repeated */
        {"x > y", 0, 1u << 30, 0},                      /* elements of another size */
        {"w = exp(x); w + (w @ (y.T @ y))", 0, 1u << 30, 2}, /* w on x, the sum on w: one slot for all three */
        {"x.reshape(10000, 1024)", 0, 1u << 30, 1},  /* another shape of all of it: nothing is copied */
        {"w = y @ (x.T @ x); w.reshape(10000, 1024) @ x.reshape(1024, 10000)", 0, UINT64_C(4) << 30, 2},
        {"maximum(x, 0)", 0, 24u << 20, 0},             /* cut: a ring of tiles is read while another one is written */
    };
    for (size_t i = 0; i < COUNT_OF(row); i++) {
        fixture f;
        set_up(&f, row[i].text, 20000, row[i].offset, row[i].memory);
        if (count_shared(f.plan) != row[i].shared)
            fail_msg("%s: %u values share a slot, expected %u", row[i].text, count_shared(f.plan), row[i].shared);
        tear_down(&f);
    }
}

/* A result that lies where its input was needs no memory of its own. */
static void one_slot_for_both(void **state)
{
    (void)state;
    fixture f;
    set_up(&f, "maximum(x, 0)", 20000, 0, 1u << 30);
    const uint64_t array = 20000u * 512u * 4u;
    const uint64_t slots = f.plan->arena_bytes - f.plan->io_bytes;
    assert_true(slots >= array);
    assert_true(slots < array + array / 8);
    tear_down(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(elementwise_functions), cmocka_unit_test(rows_that_may), cmocka_unit_test(programs),
                                       cmocka_unit_test(one_slot_for_both)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
