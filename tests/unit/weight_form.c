/* Forms of weights: each element has a place of its own, and pieces of any size agree. */
#include "unit.h"

#include "models/weight_form.h"

#include <stdlib.h>
#include <string.h>

static uint64_t count(const plim_shape *s)
{
    uint64_t n = 0;
    assert_int_equal(plim_shape_count(&n, s, NULL), PLIM_OK);
    return n;
}

static void check(const plim__weight_form *f)
{
    const plim_shape memory = plim__form_shape(f);
    const uint64_t n = count(&f->plain), room = count(&memory);
    uint64_t *place = malloc(n * sizeof *place), *piece = malloc(n * sizeof *piece);
    bool *taken = calloc(room, sizeof *taken);
    assert_true(place && piece && taken && room >= n);
    plim__form_places(f, 0, n, place);
    for (uint64_t i = 0; i < n; i++) {
        assert_true(place[i] < room);
        assert_false(taken[place[i]]);
        taken[place[i]] = true;
    }
    for (uint64_t at = 0; at < n; at += 7) {
        const uint64_t m = n - at < 7 ? n - at : 7;
        plim__form_places(f, at, m, piece);
        assert_memory_equal(piece, place + at, m * sizeof *piece);
    }
    free(place);
    free(piece);
    free(taken);
}

static void every_element_has_a_place(void **state)
{
    (void)state;
    const plim__weight_form forms[] = {
        {PLIM__FORM_BLOCKED, {4, {32, 16, 3, 3}}, {0, 1, 2, 3}},
        {PLIM__FORM_BLOCKED, {4, {20, 33, 1, 1}}, {0, 1, 2, 3}},
        {PLIM__FORM_BLOCKED, {4, {3, 2, 17, 18}}, {3, 2, 0, 1}}, /* Keras': rows, columns, channels, outputs */
        {PLIM__FORM_FIRST, {4, {64, 3, 7, 7}}, {0, 1, 2, 3}},
        {PLIM__FORM_FIRST, {4, {3, 3, 3, 10}}, {3, 2, 0, 1}},
        {PLIM__FORM_DEPTHWISE, {4, {40, 1, 3, 3}}, {0, 1, 2, 3}},
    };
    for (size_t i = 0; i < COUNT_OF(forms); i++) check(&forms[i]);
}

static void places_are_where_the_kernels_look(void **state)
{
    (void)state;
    const plim__weight_form f = {PLIM__FORM_BLOCKED, {4, {32, 48, 3, 5}}, {0, 1, 2, 3}};
    const int64_t o = 21, c = 37, r = 2, s = 4;
    uint64_t place;
    plim__form_places(&f, (uint64_t)(((o * 48 + c) * 3 + r) * 5 + s), 1, &place);
    assert_int_equal(place, (uint64_t)((((((o / 16) * 3 + c / 16) * 3 + r) * 5 + s) * 16 + c % 16) * 16 + o % 16));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_element_has_a_place), cmocka_unit_test(places_are_where_the_kernels_look)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
