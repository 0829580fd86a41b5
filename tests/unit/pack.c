/* The packer: expected offsets of small cases, the true optimum of tiny ones, properties of random ones, and the check that would
 * notice if any of it were wrong. */
#include "unit.h"

#include "countdown.h"
#include "packing_cases.h"
#include "pack/pack.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------------------------------ helpers */

static uint64_t random_state = 1;

static uint32_t random_below(uint32_t n)
{
    random_state = random_state * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((random_state >> 33) % n);
}

static void random_buffers(plim_buffer *buf, uint32_t n, uint32_t times, uint32_t sizes)
{
    for (uint32_t i = 0; i < n; i++) {
        const int64_t lower = random_below(times);
        buf[i] = (plim_buffer){.lower = lower, .upper = lower + 1 + random_below(times / 2 + 1), .size = 8ull * (1 + random_below(sizes))};
    }
}

static plim_pack_result pack(plim_buffer *buf, uint32_t n, const plim_pack_options *opt)
{
    plim_pack_result res;
    plim_error err = {0};
    if (plim_pack(buf, n, opt, &res, NULL, &err) != PLIM_OK) fail_msg("%s", err.message);
    if (plim_pack_check(buf, n, res.height, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_true(res.height >= res.bound);
    return res;
}

static plim_pack_result pack_with(plim_buffer *buf, uint32_t n, const plim__pack_effort *effort)
{
    plim_pack_result res;
    plim_error err = {0};
    if (plim__pack(buf, n, NULL, effort, &res, &(plim__alloc){0}, &err) != PLIM_OK) fail_msg("%s", err.message);
    if (plim_pack_check(buf, n, res.height, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_true(res.height >= res.bound);
    return res;
}

/* Buffers that fill `units` of 8 bytes at every moment as nearly as they can: little freedom, so that orders matter. */
static uint32_t random_dense(plim_buffer *buf, uint32_t most, uint32_t units, int64_t times)
{
    uint32_t n = 0, load = 0;
    for (int64_t t = 0; t < times; t++) {
        for (uint32_t i = 0; i < n; i++) {
            if (buf[i].upper != times || buf[i].lower == t || random_below(3)) continue;
            buf[i].upper = t;
            load -= (uint32_t)buf[i].size / 8;
        }
        while (load < units && n < most) {
            uint32_t size = 1 + random_below(3);
            if (size > units - load) size = units - load;
            buf[n++] = (plim_buffer){.lower = t, .upper = times, .size = 8ull * size};
            load += size;
        }
    }
    return n;
}

/* Instances whose optimum lies above the most bytes alive at once. */
static const struct {
    uint32_t n;
    uint64_t bound, optimum;
    plim_buffer buf[9];
} above_the_bound[] = {
    {8, 32, 40, {{0, 2, 16, 0}, {0, 1, 16, 0}, {1, 4, 8, 0}, {1, 3, 8, 0}, {2, 3, 8, 0}, {2, 4, 8, 0}, {3, 5, 16, 0}, {4, 5, 16, 0}}},
    {8, 48, 56, {{0, 2, 24, 0}, {0, 1, 24, 0}, {1, 3, 8, 0}, {1, 4, 16, 0}, {2, 3, 16, 0}, {2, 4, 8, 0}, {3, 8, 24, 0}, {4, 8, 24, 0}}},
    {9, 48, 56, {{0, 3, 24, 0}, {0, 1, 24, 0}, {1, 4, 8, 0}, {1, 2, 16, 0}, {2, 5, 8, 0}, {2, 3, 8, 0}, {3, 4, 16, 0}, {3, 5, 16, 0}, {4, 6, 24, 0}}},
    {9, 40, 48, {{0, 2, 24, 0}, {0, 4, 16, 0}, {2, 5, 24, 0}, {4, 6, 8, 0}, {4, 7, 8, 0}, {5, 6, 16, 0}, {5, 7, 8, 0}, {6, 8, 24, 0}, {7, 8, 16, 0}}},
    {9, 56, 64, {{0, 2, 16, 0}, {0, 1, 16, 0}, {0, 6, 24, 0}, {1, 4, 8, 0}, {1, 3, 8, 0}, {2, 4, 8, 0}, {2, 3, 8, 0}, {3, 6, 16, 0}, {4, 8, 16, 0}}},
};

/* Written apart from the packer: the least height, by placing the buffers in every order, each as low as it goes. A packing with the
 * least height is among those, since its own buffers from the bottom up are one of the orders. */
static uint64_t lowest_free(const plim_buffer *buf, const uint32_t *placed, uint32_t n, const plim_buffer *b)
{
    uint64_t at = 0;
    for (bool moved = true; moved;) {
        moved = false;
        for (uint32_t i = 0; i < n; i++) {
            const plim_buffer *o = &buf[placed[i]];
            if (o->lower >= b->upper || b->lower >= o->upper || o->offset >= at + b->size || at >= o->offset + o->size) continue;
            at = o->offset + o->size;
            moved = true;
        }
    }
    return at;
}

static uint64_t exhaustive(plim_buffer *buf, uint32_t *placed, uint32_t done, uint32_t n, uint64_t height, uint64_t best)
{
    if (height >= best) return best;
    if (done == n) return height;
    for (uint32_t i = 0; i < n; i++) {
        bool used = false;
        for (uint32_t k = 0; k < done; k++) used |= placed[k] == i;
        if (used) continue;
        buf[i].offset = lowest_free(buf, placed, done, &buf[i]);
        placed[done] = i;
        const uint64_t top = buf[i].offset + buf[i].size;
        best = exhaustive(buf, placed, done + 1, n, top > height ? top : height, best);
    }
    return best;
}

/* --------------------------------------------------------------------------------------------- small cases */

/*   24 +   bbbcccccc
 *    8 + aaaaaaaaa
 *    0 + 0  1  2  3  4 */
static void gaps_are_reused(void **state)
{
    (void)state;
    plim_buffer buf[] = {
        {.lower = 0, .upper = 3, .size = 8},  /* a: alive with both others */
        {.lower = 1, .upper = 2, .size = 16}, /* b */
        {.lower = 2, .upper = 4, .size = 16}, /* c: where b was */
    };
    const plim_pack_result res = pack(buf, 3, NULL);
    assert_int_equal(res.height, 24);
    assert_int_equal(res.bound, 24);
    assert_true(res.proven && res.fits);
    assert_int_equal(buf[1].offset, buf[2].offset); /* 8, with a at 0; or 0, with a at 16 */
    assert_int_equal(buf[0].offset + buf[1].offset, buf[0].offset ? 16 : 8);
}

static void wide_buffers_go_to_the_bottom(void **state)
{
    (void)state;
    plim_buffer buf[] = {
        {.lower = 0, .upper = 2, .size = 8},  /* on the floor of 40: 40 */
        {.lower = 0, .upper = 9, .size = 32}, /* alive throughout, first in the input: 0 */
        {.lower = 2, .upper = 9, .size = 16}, /* alone with the floor: 40 */
        {.lower = 0, .upper = 9, .size = 8},  /* alive throughout: 32 */
        {.lower = 5, .upper = 6, .size = 0},  /* takes no room: 0 */
    };
    const plim_pack_result res = pack(buf, 5, NULL);
    static const uint64_t expected[] = {40, 0, 40, 32, 0};
    for (int i = 0; i < 5; i++) assert_int_equal(buf[i].offset, expected[i]);
    assert_int_equal(res.height, 56);
    assert_true(res.proven);
    assert_string_equal(res.method, "stacked");
}

static void nothing_and_less_than_nothing(void **state)
{
    (void)state;
    plim_pack_result res = pack(NULL, 0, NULL);
    assert_int_equal(res.height, 0);
    assert_true(res.proven && res.fits);
    plim_buffer empty[2] = {{.lower = -3, .upper = -1, .offset = 99}, {.lower = INT64_MIN, .upper = INT64_MAX, .offset = 99}};
    res = pack(empty, 2, NULL);
    assert_int_equal(res.height, 0);
    assert_int_equal(empty[0].offset, 0);
    plim_buffer far[2] = {{.lower = INT64_MIN, .upper = INT64_MAX, .size = 8}, {.lower = -1, .upper = 1, .size = 8}};
    assert_int_equal(pack(far, 2, NULL).height, 16);
}

static void alignment_is_kept(void **state)
{
    (void)state;
    /* 5 below 9 needs 8 + 9 = 17 bytes, 9 below 5 needs 16 + 5 = 21; rounded to 8 both are 24. The bound takes off the padding of the
     * topmost buffer, 7 at most: 24 - 7. */
    plim_buffer two[] = {{.lower = 0, .upper = 2, .size = 5}, {.lower = 1, .upper = 3, .size = 9}};
    const plim_pack_result res = pack(two, 2, &(plim_pack_options){.alignment = 8});
    assert_int_equal(res.bound, 17);
    assert_true(res.height == 17 || (res.height == 21 && !res.proven));
    plim_buffer buf[40];
    for (uint64_t align = 1; align < 100; align = align * 2 + 1) { /* no power of two is asked for */
        random_buffers(buf, 40, 20, 9);
        pack(buf, 40, &(plim_pack_options){.alignment = align, .seconds = 0.01});
        for (int i = 0; i < 40; i++) assert_int_equal(buf[i].offset % align, 0);
    }
}

static void capacity_ends_the_search(void **state)
{
    (void)state;
    plim_buffer buf[] = {{.lower = 0, .upper = 2, .size = 8}, {.lower = 1, .upper = 3, .size = 8}};
    assert_true(pack(buf, 2, &(plim_pack_options){.capacity = 16}).fits);
    assert_true(pack(buf, 2, &(plim_pack_options){.capacity = UINT64_MAX}).fits);
    const plim_pack_result res = pack(buf, 2, &(plim_pack_options){.capacity = 15});
    assert_false(res.fits);
    assert_true(res.proven);
    assert_int_equal(res.height, 16);
}

static void bad_input_is_refused(void **state)
{
    (void)state;
    plim_error err = {0};
    plim_pack_result res;
    plim_buffer dead = {.lower = 4, .upper = 4, .size = 8};
    assert_int_equal(plim_pack(&dead, 1, NULL, &res, NULL, &err), PLIM_E_INVALID);
    assert_non_null(strstr(err.message, "buffer 0 is never alive"));
    plim_buffer large[2] = {{.upper = 1, .size = INT64_MAX}, {.upper = 1, .size = 1}};
    err = (plim_error){0};
    assert_int_equal(plim_pack(large, 2, NULL, &res, NULL, &err), PLIM_E_OVERFLOW);
    large[0].size = UINT64_MAX;
    assert_int_equal(plim_pack(large, 1, &(plim_pack_options){.alignment = 4096}, &res, NULL, NULL), PLIM_E_OVERFLOW);
    assert_int_equal(plim_pack(NULL, 1, NULL, &res, NULL, NULL), PLIM_E_INVALID);
    assert_int_equal(plim_pack(large, 0, &(plim_pack_options){.seconds = -1}, &res, NULL, NULL), PLIM_E_INVALID);
}

static void sizes_near_the_limit_pack(void **state)
{
    (void)state;
    /* Odd sizes of some 2^59 bytes: the exact search counts them in rounded units, the answer is to the byte. */
    plim_buffer buf[24];
    random_buffers(buf, COUNT_OF(buf), 12, 7);
    for (size_t i = 0; i < COUNT_OF(buf); i++) buf[i].size = (buf[i].size << 51) + 2 * i + 1;
    pack(buf, COUNT_OF(buf), NULL);
}

/* --------------------------------------------------------------------------------------------- properties */

static void tiny_cases_get_their_optimum(void **state)
{
    (void)state;
    for (int round = 0; round < 600; round++) {
        plim_buffer buf[7];
        uint32_t placed[7];
        const uint32_t n = random_dense(buf, 7, 3 + random_below(5), 6);
        const uint64_t optimum = exhaustive(buf, placed, 0, n, 0, UINT64_MAX);
        const plim_pack_result res = pack(buf, n, NULL);
        assert_int_equal(res.height, optimum);
        assert_true(res.proven);
    }
}

static void optima_above_the_bound_are_proven(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(above_the_bound); i++) {
        plim_buffer buf[9];
        uint32_t placed[9];
        const uint32_t n = above_the_bound[i].n;
        memcpy(buf, above_the_bound[i].buf, sizeof buf);
        assert_int_equal(exhaustive(buf, placed, 0, n, 0, UINT64_MAX), above_the_bound[i].optimum);
        const plim_pack_result res = pack(buf, n, NULL);
        assert_int_equal(res.height, above_the_bound[i].optimum);
        assert_int_equal(res.bound, above_the_bound[i].bound);
        assert_true(res.proven);
    }
}

static void more_effort_is_never_higher(void **state)
{
    (void)state;
    for (int round = 0; round < 30; round++) {
        plim_buffer buf[120];
        random_buffers(buf, 120, 60, 64);
        const plim__pack_effort none = {0}, quick = plim__pack_effort_quick(), some = {.greedy_steps = 8000000, .search_nodes = 2000};
        const uint64_t first = pack_with(buf, 120, &none).height;
        const uint64_t second = pack_with(buf, 120, &quick).height;
        const uint64_t third = pack_with(buf, 120, &some).height;
        assert_true(second <= first && third <= second);
        /* A capacity that was reached is reached again, and so is any larger one. */
        plim_pack_options opt = {.capacity = third, .seconds = 5};
        assert_true(pack(buf, 120, &opt).fits);
        opt.capacity += 1 + random_below(64);
        assert_true(pack(buf, 120, &opt).fits);
    }
}

static void answers_repeat(void **state)
{
    (void)state;
    plim_buffer a[150], b[150];
    random_buffers(a, 150, 60, 200);
    memcpy(b, a, sizeof a);
    const plim__pack_effort effort = {.greedy_steps = 1000000, .search_nodes = 20000};
    pack_with(a, 150, &effort);
    pack_with(b, 150, &effort);
    assert_memory_equal(a, b, sizeof a);
}

/* A cut rectangle is its own packing, so the bound can be met: by counted work alone, at once and for good. */
static void perfect_packings_are_found(void **state)
{
    (void)state;
    const plim__pack_effort effort = {.greedy_steps = 1000000, .search_nodes = 400000};
    plim_buffer *buf = calloc(PACKING_MAX + 8, sizeof *buf), *again = calloc(PACKING_MAX + 8, sizeof *again);
    assert_true(buf && again);
    for (int style = 0; style < PACKING_STYLES; style++) {
        for (uint32_t seed = 0; seed < 4; seed++) {
            const uint32_t n = packing_make(buf, (packing_style)style, 40 + 20 * seed, 10 * seed, seed);
            memcpy(again, buf, n * sizeof *buf);
            const plim_pack_result res = pack_with(buf, n, &effort);
            assert_int_equal(res.bound, PACKING_CAPACITY * PACKING_UNIT);
            if (res.height != res.bound) fail_msg("%s, seed %u: %llu", packing_style_name((packing_style)style), seed, (unsigned long long)res.height);
            assert_true(res.proven);
            pack_with(again, n, &effort);
            assert_memory_equal(buf, again, n * sizeof *buf);
        }
    }
    free(again);
    free(buf);
}

/* The effort for a final plan: never above the quick one's, whose work it includes. */
static void a_final_plan_is_never_higher(void **state)
{
    (void)state;
    plim_buffer buf[PACKING_MAX + 8];
    for (uint32_t seed = 0; seed < 6; seed++) {
        const uint32_t n = packing_make(buf, (packing_style)(seed % PACKING_STYLES), 200, 12, seed);
        const plim__pack_effort quick = plim__pack_effort_quick(), final = plim__pack_effort_final(n);
        assert_true(final.search_nodes > 0 && final.seconds == 0);
        const uint64_t before = pack_with(buf, n, &quick).height;
        assert_true(pack_with(buf, n, &final).height <= before);
    }
}

static void the_order_of_input_does_not_matter_to_the_bound(void **state)
{
    (void)state;
    plim_buffer a[60], b[60];
    random_buffers(a, 60, 30, 30);
    for (int i = 0; i < 60; i++) b[i] = a[59 - i];
    assert_int_equal(pack(a, 60, NULL).bound, pack(b, 60, NULL).bound);
}

/* More buffers than the exact search takes: greedy runs improve what the portfolio found. */
static void large_cases_are_improved(void **state)
{
    (void)state;
    const uint32_t n = PLIM__EXACT_MAX + 200;
    plim_buffer *buf = calloc(n, sizeof *buf);
    assert_non_null(buf);
    random_buffers(buf, n, 400, 500);
    const plim__pack_effort quick = {.greedy_steps = 20000000}, more = {.greedy_steps = 60000000, .search_nodes = 1};
    const uint64_t before = pack_with(buf, n, &quick).height;
    assert_true(pack_with(buf, n, &more).height <= before);
    free(buf);
}

/* ----------------------------------------------------------------------------------------- the exact search */

static plim__exact_answer solve_by(plim_buffer *buf, uint32_t n, int64_t above_bound, plim__order_kind kind, bool backjump)
{
    const plim__alloc a = {0};
    plim__pack_view view;
    plim__exact *x;
    assert_int_equal(plim__pack_view_init(&view, buf, n, 0, &a, NULL), PLIM_OK);
    assert_int_equal(plim__exact_new(&x, &view, &a, NULL), PLIM_OK);
    plim__order_key *order = calloc(n, sizeof *order);
    uint32_t *blame = calloc(n, sizeof *blame);
    int64_t *offset = calloc(n, sizeof *offset);
    assert_true(order && blame && offset);
    plim__order_fill(order, &view, kind);
    plim__order_sort(order, view.n);
    uint64_t nodes = 1000000;
    const plim__exact_answer answer = plim__exact_solve(x, offset, order, view.bound + above_bound, &(plim__exact_style){.backjump = backjump, .rank_weight = 0.1}, &nodes, blame);
    for (uint32_t i = 0; i < view.n && answer == PLIM__EXACT_FOUND; i++) {
        buf[view.source[i]].offset = (uint64_t)offset[i] * view.unit;
    }
    if (answer == PLIM__EXACT_FOUND) {
        const uint64_t height = (uint64_t)(view.bound + above_bound) * view.unit;
        assert_int_equal(plim_pack_check(buf, n, height, NULL), PLIM_OK);
    }
    free(order);
    free(blame);
    free(offset);
    plim__exact_free(&x, &a);
    plim__pack_view_drop(&view, &a);
    return answer;
}

static plim__exact_answer solve(plim_buffer *buf, uint32_t n, int64_t above_bound) { return solve_by(buf, n, above_bound, PLIM__ORDER_TWA, false); }

static void exact_says_yes_and_no_rightly(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(above_the_bound); i++) {
        plim_buffer buf[9];
        const uint32_t n = above_the_bound[i].n;
        const int64_t gap = (int64_t)(above_the_bound[i].optimum - above_the_bound[i].bound) / 8;
        memcpy(buf, above_the_bound[i].buf, sizeof buf);
        assert_int_equal(solve(buf, n, gap), PLIM__EXACT_FOUND);
        assert_int_equal(solve(buf, n, gap - 1), PLIM__EXACT_NONE);
        assert_int_equal(solve(buf, n, -1), PLIM__EXACT_NONE);
    }
}

/* What is proven impossible must not depend on how the instance is written down. */
static void a_no_survives_renaming(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        const size_t which = random_below(COUNT_OF(above_the_bound));
        const uint32_t n = above_the_bound[which].n;
        plim_buffer buf[9];
        for (uint32_t i = 0; i < n; i++) { /* shuffled, time reversed and stretched, sizes scaled */
            const uint32_t j = random_below(i + 1);
            buf[i] = buf[j];
            buf[j] = above_the_bound[which].buf[i];
        }
        for (uint32_t i = 0; i < n && round % 2; i++) {
            const int64_t lower = buf[i].lower;
            buf[i].lower = -7 * buf[i].upper;
            buf[i].upper = -7 * lower;
            buf[i].size *= 1001;
        }
        const int64_t gap = (int64_t)(above_the_bound[which].optimum - above_the_bound[which].bound) / 8;
        assert_int_equal(solve(buf, n, gap), PLIM__EXACT_FOUND);
        assert_int_equal(solve(buf, n, gap - 1), PLIM__EXACT_NONE);
    }
}

/* Every order searches the same space: where one finds a packing, none may prove that there is none. */
static void orders_agree(void **state)
{
    (void)state;
    uint32_t answers[3] = {0};
    for (int round = 0; round < 300; round++) {
        plim_buffer buf[40];
        const uint32_t n = random_dense(buf, COUNT_OF(buf), 4 + random_below(8), 14);
        const plim__exact_answer first = solve_by(buf, n, 0, 0, false);
        answers[first]++;
        for (int kind = 1; kind < PLIM__ORDER_COUNT; kind++) {
            const plim__exact_answer other = solve_by(buf, n, 0, kind, false);
            assert_true(first == other || first == PLIM__EXACT_LIMIT || other == PLIM__EXACT_LIMIT);
        }
    }
    assert_true(answers[PLIM__EXACT_FOUND] > 50); /* dense ones hardly ever miss their bound: a no is asked for below */
    for (size_t i = 0; i < COUNT_OF(above_the_bound); i++)
        for (int kind = 0; kind < PLIM__ORDER_COUNT; kind++) {
            plim_buffer buf[9];
            memcpy(buf, above_the_bound[i].buf, sizeof buf);
            assert_int_equal(solve_by(buf, above_the_bound[i].n, 0, kind, false), PLIM__EXACT_NONE);
        }
}

/* A search that jumps finds real packings only, and never claims a proof that the whole search contradicts. */
static void jumps_agree_with_the_whole_search(void **state)
{
    (void)state;
    uint32_t found = 0;
    for (int round = 0; round < 300; round++) {
        plim_buffer buf[40];
        const uint32_t n = random_dense(buf, COUNT_OF(buf), 4 + random_below(8), 14);
        const plim__order_kind kind = (plim__order_kind)random_below(PLIM__ORDER_COUNT);
        const plim__exact_answer whole = solve_by(buf, n, 0, kind, false), jumping = solve_by(buf, n, 0, kind, true);
        assert_true(jumping == whole || jumping == PLIM__EXACT_LIMIT || whole == PLIM__EXACT_LIMIT);
        found += jumping == PLIM__EXACT_FOUND;
    }
    assert_true(found > 50);
    for (size_t i = 0; i < COUNT_OF(above_the_bound); i++) {
        plim_buffer buf[9];
        memcpy(buf, above_the_bound[i].buf, sizeof buf);
        assert_int_not_equal(solve_by(buf, above_the_bound[i].n, 0, PLIM__ORDER_TWA, true), PLIM__EXACT_FOUND);
    }
}

/* Beyond 31 bits sizes are rounded up: a packing that is found is one, but a failure proves nothing. */
static void rounded_sizes_prove_nothing(void **state)
{
    (void)state;
    plim_buffer buf[9];
    memcpy(buf, above_the_bound[0].buf, sizeof buf);
    for (uint32_t i = 0; i < above_the_bound[0].n; i++) buf[i].size = (buf[i].size << 40) + i;
    assert_int_equal(solve(buf, above_the_bound[0].n, 1 << 20), PLIM__EXACT_LIMIT);
    assert_int_equal(solve(buf, above_the_bound[0].n, (8ll << 40) + (1 << 20)), PLIM__EXACT_FOUND);
}

/* Packs blocks one above the other, which always works, and asks for the buffers' offsets. @return how many blocks there are */
static uint32_t blocks_of(plim_buffer *buf, uint32_t n, const plim__blocks_style *style)
{
    const plim__alloc a = {0};
    plim__pack_view view;
    plim__pack_blocks blocks;
    int64_t *offset = calloc(n, sizeof *offset), *at = calloc(n, sizeof *at), height = 0;
    assert_true(offset && at);
    assert_int_equal(plim__pack_view_init(&view, buf, n, 0, &a, NULL), PLIM_OK);
    assert_int_equal(plim__pack_blocks_init(&blocks, &view, style, &a, NULL), PLIM_OK);
    const uint32_t count = blocks.view.n;
    assert_true(count >= 1 && count <= view.n);
    for (uint32_t i = 0; i < count; i++) {
        at[i] = height;
        height += blocks.view.size[i];
    }
    plim__pack_blocks_open(&blocks, offset, at);
    for (uint32_t i = 0; i < view.n; i++) buf[view.source[i]].offset = (uint64_t)offset[i] * view.unit;
    assert_int_equal(plim_pack_check(buf, n, (uint64_t)height * blocks.view.unit * view.unit, NULL), PLIM_OK);
    plim__pack_blocks_drop(&blocks, &a);
    plim__pack_view_drop(&view, &a);
    free(offset);
    free(at);
    return count;
}

static void gapless_rectangles_become_blocks(void **state)
{
    (void)state;
    plim_buffer pinwheel[] = {{0, 2, 24, 0}, {0, 6, 8, 0}, {2, 8, 8, 0}, {2, 6, 16, 0}, {6, 8, 24, 0}};
    plim_buffer chain[] = {{0, 3, 8, 0}, {3, 4, 8, 0}, {4, 9, 8, 0}}, stack[] = {{1, 3, 8, 0}, {1, 3, 16, 0}};
    plim_buffer both[] = {{0, 3, 8, 0}, {3, 9, 8, 0}, {0, 9, 16, 0}};
    plim_buffer hole[] = {{0, 3, 8, 0}, {4, 9, 8, 0}, {0, 9, 16, 0}}, apart[] = {{0, 3, 8, 0}, {1, 9, 16, 0}};
    const plim__blocks_style exact = {0}, coarse = {.coarse = true}, filled = {.level = 3}, none = {.alone = 1};
    assert_int_equal(blocks_of(pinwheel, 5, &exact), 1);
    assert_int_equal(blocks_of(pinwheel, 5, &none), 5);
    assert_int_equal(blocks_of(chain, 3, &exact), 1);
    assert_int_equal(blocks_of(stack, 2, &exact), 1);
    assert_int_equal(blocks_of(both, 3, &exact), 1);
    assert_int_equal(blocks_of(hole, 3, &exact), 3);
    assert_int_equal(blocks_of(hole, 3, &coarse), 1); /* nothing is born in [3, 4) */
    assert_int_equal(blocks_of(hole, 3, &filled), 1); /* 24 bytes are 3 units: a filler in [3, 4) */
    assert_int_equal(blocks_of(apart, 2, &exact), 2);
}

static void blocks_of_random_buffers_open_rightly(void **state)
{
    (void)state;
    for (int round = 0; round < 200; round++) {
        plim_buffer buf[60];
        const uint32_t n = random_dense(buf, COUNT_OF(buf), 4 + random_below(8), 14);
        const plim__blocks_style style = {.coarse = round % 2, .level = round % 3 ? 0 : 12, .alone = round % 5 * 0.1, .seed = (uint64_t)round};
        blocks_of(buf, n, &style);
    }
}

static void a_gap_of_the_very_size_is_used(void **state)
{
    (void)state;
    plim_buffer buf[] = {
        {.lower = 0, .upper = 4, .size = 24}, /* 0 */
        {.lower = 0, .upper = 2, .size = 16}, /* 24 */
        {.lower = 0, .upper = 4, .size = 8},  /* 40 */
        {.lower = 2, .upper = 4, .size = 16}, /* 24 again: the gap between the first and the third */
    };
    static const int64_t expected[] = {0, 3, 5, 3}; /* units of 8 bytes */
    const plim__alloc a = {0};
    plim__pack_view view;
    assert_int_equal(plim__pack_view_init(&view, buf, 4, 0, &a, NULL), PLIM_OK);
    for (int fit = PLIM__FIT_FIRST; fit <= PLIM__FIT_BEST; fit++) {
        plim__order_key order[4];
        plim__greedy_room room;
        assert_int_equal(plim__greedy_room_init(&room, 4, &a, NULL), PLIM_OK);
        int64_t offset[4];
        uint64_t steps = UINT64_MAX;
        plim__order_fill(order, &view, PLIM__ORDER_BIRTH);
        plim__order_sort(order, 4);
        assert_int_equal(plim__greedy_place(offset, &view, order, fit, &room, INT64_MAX, &steps), 6);
        assert_memory_equal(offset, expected, sizeof offset);
        steps = 1;
        assert_int_equal(plim__greedy_place(offset, &view, order, fit, &room, INT64_MAX, &steps), INT64_MAX);
        steps = UINT64_MAX;
        assert_int_equal(plim__greedy_place(offset, &view, order, fit, &room, 6, &steps), INT64_MAX);
        plim__greedy_room_drop(&room, &a);
    }
    plim__pack_view_drop(&view, &a);
}

/* ----------------------------------------------------------------------------------------------- the check */

/* Moves each buffer of a valid packing to every offset below the height: the check must object exactly where a buffer alive at the
 * same time is met, or the height exceeded. */
static void the_check_finds_what_is_wrong(void **state)
{
    (void)state;
    plim_buffer buf[12];
    uint32_t objections = 0;
    random_buffers(buf, COUNT_OF(buf), 10, 4);
    const uint64_t height = pack(buf, COUNT_OF(buf), NULL).height;
    for (size_t i = 0; i < COUNT_OF(buf); i++) {
        const plim_buffer good = buf[i];
        for (buf[i].offset = 0; buf[i].offset <= height; buf[i].offset++) {
            bool wrong = buf[i].offset + buf[i].size > height;
            for (size_t j = 0; j < COUNT_OF(buf); j++) {
                if (j == i || buf[j].upper <= buf[i].lower || buf[i].upper <= buf[j].lower) continue;
                for (uint64_t byte = buf[j].offset; byte < buf[j].offset + buf[j].size; byte++)
                    wrong |= byte >= buf[i].offset && byte < buf[i].offset + buf[i].size;
            }
            assert_int_equal(plim_pack_check(buf, COUNT_OF(buf), height, NULL), wrong ? PLIM_E_PLAN : PLIM_OK);
            objections += wrong;
        }
        buf[i] = good;
    }
    assert_true(objections > 100);

    plim_error err = {0};
    assert_int_equal(plim_pack_check(buf, COUNT_OF(buf), height - 1, &err), PLIM_E_PLAN);
    assert_non_null(strstr(err.message, "exceeds the height"));
    buf[3].offset = UINT64_MAX - 7; /* offset + size wraps */
    assert_int_equal(plim_pack_check(buf, COUNT_OF(buf), height, NULL), PLIM_E_PLAN);
    buf[3] = (plim_buffer){.lower = 2, .upper = 2};
    assert_int_equal(plim_pack_check(buf, COUNT_OF(buf), height, NULL), PLIM_E_PLAN);
    assert_int_equal(plim_pack_check(NULL, 1, height, NULL), PLIM_E_INVALID);
    assert_int_equal(plim_pack_check(NULL, 0, 0, NULL), PLIM_OK);
}

/* -------------------------------------------------------------------------------------- failing allocations */

static void failing_allocations_are_survived(void **state)
{
    (void)state;
    /* Two sides, both of which need the exact search: what fails late fails inside it. */
    plim_buffer before[60], buf[60];
    random_buffers(before, 30, 12, 50);
    random_buffers(before + 30, 30, 12, 50);
    for (int i = 30; i < 60; i++) {
        before[i].lower += 100;
        before[i].upper += 100;
    }
    for (int stay = 0; stay < 2; stay++) {
        bool failed = true;
        for (int64_t at = 0; failed; at++) {
            countdown c = {.left = at, .from_then = stay};
            plim_settings set = {.alloc = countdown_alloc, .alloc_ctx = &c};
            plim_error err = {0};
            plim_pack_result res;
            memcpy(buf, before, sizeof buf);
            const plim_status status = plim_pack(buf, 60, &(plim_pack_options){.seconds = 0.01}, &res, &set, &err);
            failed = c.failed > 0;
            assert_int_equal(status, failed ? PLIM_E_NOMEM : PLIM_OK);
            assert_int_equal(err.code, status);
            assert_int_equal(c.live, 0);
            if (failed) assert_memory_equal(buf, before, sizeof buf);
            else assert_true(at > 11);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gaps_are_reused),
        cmocka_unit_test(wide_buffers_go_to_the_bottom),
        cmocka_unit_test(nothing_and_less_than_nothing),
        cmocka_unit_test(alignment_is_kept),
        cmocka_unit_test(capacity_ends_the_search),
        cmocka_unit_test(bad_input_is_refused),
        cmocka_unit_test(sizes_near_the_limit_pack),
        cmocka_unit_test(tiny_cases_get_their_optimum),
        cmocka_unit_test(optima_above_the_bound_are_proven),
        cmocka_unit_test(more_effort_is_never_higher),
        cmocka_unit_test(answers_repeat),
        cmocka_unit_test(perfect_packings_are_found),
        cmocka_unit_test(a_final_plan_is_never_higher),
        cmocka_unit_test(the_order_of_input_does_not_matter_to_the_bound),
        cmocka_unit_test(large_cases_are_improved),
        cmocka_unit_test(exact_says_yes_and_no_rightly),
        cmocka_unit_test(a_no_survives_renaming),
        cmocka_unit_test(orders_agree),
        cmocka_unit_test(jumps_agree_with_the_whole_search),
        cmocka_unit_test(rounded_sizes_prove_nothing),
        cmocka_unit_test(gapless_rectangles_become_blocks),
        cmocka_unit_test(blocks_of_random_buffers_open_rightly),
        cmocka_unit_test(a_gap_of_the_very_size_is_used),
        cmocka_unit_test(the_check_finds_what_is_wrong),
        cmocka_unit_test(failing_allocations_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
