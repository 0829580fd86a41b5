/* Rates of learning, step by step. */
#include "unit.h"

#include "session/rate.h"

#include <math.h>

static double at(const char *text, uint64_t step, uint64_t steps)
{
    plim__rate_schedule s;
    plim_error err = {0};
    if (plim__rate_schedule_parse(&s, text, &err)) fail_msg("%s", err.message);
    return plim__rate_at(&s, 0.5, step, steps);
}

static void near(double a, double b)
{
    if (fabs(a - b) > 1e-12) fail_msg("%.17g, expected %.17g", a, b);
}

static void schedules(void **state)
{
    (void)state;
    near(at(NULL, 7, 10), 0.5);
    near(at("constant", 0, 10), 0.5);
    near(at("linear", 0, 10), 0.5);
    near(at("linear", 5, 10), 0.25);
    near(at("linear", 10, 10), 0);
    near(at("cosine", 0, 10), 0.5);
    near(at("cosine", 5, 10), 0.25);
    near(at("cosine:4", 0, 14), 0.1);
    near(at("cosine:4", 3, 14), 0.4);
    near(at("cosine:4", 4, 14), 0.5);
    near(at("cosine:4", 9, 14), 0.25);
    near(at("step:3:0.1", 2, 100), 0.5);
    near(at("step:3:0.1", 3, 100), 0.05);
    near(at("step:3:0.1", 6, 100), 0.005);
}

static void what_is_no_schedule(void **state)
{
    (void)state;
    static const char *const wrong[] = {"", "stairs", "linear:", "linear:-1", "linear:3x", "constant:3", "step", "step:3", "step:0:0.1", "step:3:", "step:3:0", "step:3:nan"};
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        plim__rate_schedule s;
        plim_error err = {0};
        if (plim__rate_schedule_parse(&s, wrong[i], &err) != PLIM_E_INVALID) fail_msg("'%s' was taken", wrong[i]);
        assert_true(err.message[0] != 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(schedules), cmocka_unit_test(what_is_no_schedule)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
