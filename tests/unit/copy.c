/* Copies between boxes of any order, and byte order. */
#include "core/size.h"
#include "kernels/elementwise.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static uint64_t next_random(uint64_t *state)
{
    *state = *state * 6364136223846793005ull + 1442695040888963407ull;
    return *state >> 33;
}

static bool next_index(int64_t *at, const plim__view *v)
{
    for (uint32_t d = v->rank; d-- > 0;) {
        if (++at[d] < v->n[d]) return true;
        at[d] = 0;
    }
    return false;
}

/* Dimensions in a random order in memory, with gaps and backwards now and then. */
static plim__view shuffled(uint64_t *state, char *memory, plim_dtype t, uint32_t rank, const int64_t *n, bool repeats)
{
    plim__view v = {.dtype = t, .rank = rank};
    uint32_t order[5] = {0, 1, 2, 3, 4};
    for (uint32_t d = rank; d-- > 1 && next_random(state) % 4;) {
        const uint32_t e = (uint32_t)(next_random(state) % (d + 1)), swap = order[d];
        order[d] = order[e];
        order[e] = swap;
    }
    int64_t step = 1, first = 0;
    for (uint32_t k = rank; k-- > 0;) {
        const uint32_t d = order[k];
        v.n[d] = n[d];
        if (repeats && next_random(state) % 5 == 0) continue;
        v.stride[d] = step;
        step *= n[d] + (int64_t)(next_random(state) % 4 == 0);
        if (next_random(state) % 4) continue;
        first += v.stride[d] * (n[d] - 1);
        v.stride[d] = -v.stride[d];
    }
    v.data = memory + first * (int64_t)plim_dtype_bytes(t);
    return v;
}

static void check_copy(const plim__view *out, const plim__view *in, int trial)
{
    int64_t at[PLIM_MAX_RANK] = {0};
    do {
        char want[8];
        plim__convert(want, out->dtype, plim__view_at(in, at), in->dtype, 1);
        if (memcmp(want, plim__view_at(out, at), plim_dtype_bytes(out->dtype)))
            fail_msg("trial %d: %s to %s at %lld,%lld,%lld", trial, plim_dtype_name(in->dtype), plim_dtype_name(out->dtype), (long long)at[0],
                     (long long)at[1], (long long)at[2]);
    } while (next_index(at, out));
}

static void test_random_views(void **unused)
{
    (void)unused;
    const size_t room = 8 * 60000;
    char *from = malloc(room), *to = malloc(room);
    uint64_t state = 11;
    for (int trial = 0; trial < 3000; trial++) {
        const uint32_t rank = (uint32_t)(next_random(&state) % 6);
        int64_t n[5];
        const int64_t most = rank <= 1 ? 5000 : rank == 2 ? 150 : rank == 3 ? 25 : rank == 4 ? 9 : 6;
        for (uint32_t d = 0; d < rank; d++) n[d] = 1 + (int64_t)next_random(&state) % most;
        const plim_dtype t = (plim_dtype)(next_random(&state) % PLIM_DTYPE_COUNT);
        const plim_dtype u = next_random(&state) % 3 ? t : (plim_dtype)(next_random(&state) % PLIM_DTYPE_COUNT);
        for (size_t i = 0; i < room / 8; i++) {
            const double v = (double)(i % 251);
            plim__convert(from + i * plim_dtype_bytes(t), t, &v, PLIM_F64, 1);
        }
        memset(to, 0x33, room);
        const plim__view in = shuffled(&state, from, t, rank, n, true), out = shuffled(&state, to, u, rank, n, false);
        plim__copy(&out, &in);
        check_copy(&out, &in, trial);
    }
    free(from);
    free(to);
}

static void check_turned(plim_dtype t, int64_t rows, int64_t cols)
{
    const plim__region r = {.rank = 3, .dim = {{0, 3}, {0, rows}, {0, cols}}};
    const uint64_t count = plim__region_count(&r), size = plim_dtype_bytes(t);
    char *a = malloc(count * size), *b = malloc(count * size);
    for (uint64_t i = 0; i < count * size; i++) a[i] = (char)(i * 37 + i / 251);
    plim__view out = plim__view_dense(b, t, &r), in = out;
    in.data = a;
    in.stride[1] = 1;
    in.stride[2] = rows;
    plim__copy(&out, &in);
    check_copy(&out, &in, (int)t);
    free(a);
    free(b);
}

/* Every element size, extents that are no multiple of a tile; few channels, and blocks of them. */
static void test_transpose(void **unused)
{
    (void)unused;
    static const plim_dtype t[] = {PLIM_U8, PLIM_I16, PLIM_F32, PLIM_I64};
    static const int64_t extent[][2] = {{131, 77}, {3, 1500}, {1500, 3}, {16, 783}, {783, 16}, {8, 8}, {9, 15}, {2, 2}};
    for (size_t k = 0; k < COUNT_OF(t); k++)
        for (size_t e = 0; e < COUNT_OF(extent); e++) check_turned(t[k], extent[e][0], extent[e][1]);
}

static void test_nothing_to_copy(void **unused)
{
    (void)unused;
    const plim__region r = {.rank = 2, .dim = {{0, 4}, {2, 2}}};
    char guard = 7;
    const plim__view v = plim__view_dense(&guard, PLIM_F32, &r);
    plim__copy(&v, &v);
    assert_int_equal(guard, 7);
}

static void test_swap_bytes(void **unused)
{
    (void)unused;
    for (uint64_t size = 1; size <= 8; size *= 2) {
        unsigned char p[8 * 37], q[8 * 37];
        for (size_t i = 0; i < sizeof p; i++) p[i] = q[i] = (unsigned char)(i * 7);
        plim__swap_bytes(p, 37, size);
        for (size_t i = 0; i < 37 * size; i++) assert_int_equal(p[i], q[i / size * size + (size - 1 - i % size)]);
        for (size_t i = 37 * size; i < sizeof p; i++) assert_int_equal(p[i], q[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random_views),
        cmocka_unit_test(test_transpose),
        cmocka_unit_test(test_nothing_to_copy),
        cmocka_unit_test(test_swap_bytes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
