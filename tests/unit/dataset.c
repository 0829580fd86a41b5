/* The order of samples: every one once, another order in each epoch, nothing stored. */
#include "unit.h"

#include "session/dataset.h"

#include <stdlib.h>
#include <string.h>

static void every_sample_comes_once(void **state)
{
    (void)state;
    static const uint64_t sizes[] = {1, 2, 3, 4, 5, 16, 17, 100, 255, 256, 257, 1000, 4097};
    for (size_t k = 0; k < COUNT_OF(sizes); k++)
        for (uint64_t epoch = 0; epoch < 3; epoch++) {
            const plim__sample_order o = {.n = sizes[k], .seed = 5 + k};
            bool *seen = calloc(sizes[k], sizeof *seen);
            assert_non_null(seen);
            for (uint64_t i = 0; i < sizes[k]; i++) {
                const uint64_t at = plim__sample_at(&o, epoch, i);
                assert_true(at < sizes[k]);
                assert_false(seen[at]);
                seen[at] = true;
            }
            free(seen);
        }
}

static void epochs_and_seeds_differ(void **state)
{
    (void)state;
    const plim__sample_order a = {.n = 1000, .seed = 1}, b = {.n = 1000, .seed = 2};
    uint32_t other_epoch = 0, other_seed = 0, moved = 0;
    for (uint64_t i = 0; i < 1000; i++) {
        other_epoch += plim__sample_at(&a, 0, i) != plim__sample_at(&a, 1, i);
        other_seed += plim__sample_at(&a, 0, i) != plim__sample_at(&b, 0, i);
        moved += plim__sample_at(&a, 0, i) != i;
    }
    assert_true(other_epoch > 950 && other_seed > 950 && moved > 950);
}

static void in_order_is_in_order(void **state)
{
    (void)state;
    const plim__sample_order o = {.n = 77, .seed = 9, .in_order = true};
    for (uint64_t i = 0; i < 77; i++) assert_int_equal(plim__sample_at(&o, i, i), i);
}

static void large_sets_stay_inside(void **state)
{
    (void)state;
    const plim__sample_order o = {.n = UINT64_C(3) << 40, .seed = 11};
    for (uint64_t i = 0; i < 1000; i++) assert_true(plim__sample_at(&o, 3, i * 7919) < o.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_comes_once),
        cmocka_unit_test(epochs_and_seeds_differ),
        cmocka_unit_test(in_order_is_in_order),
        cmocka_unit_test(large_sets_stay_inside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
