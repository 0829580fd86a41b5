#include "session/rate.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

/* A number above 0 up to `end`. */
static bool take_steps(const char *text, char end, uint64_t *out, const char **rest)
{
    char *stop;
    errno = 0;
    const unsigned long long n = strtoull(text, &stop, 10);
    if (text[0] < '0' || text[0] > '9' || errno || *stop != end) return false;
    *out = n;
    *rest = stop;
    return true;
}

plim_status plim__rate_schedule_parse(plim__rate_schedule *out, const char *text, plim_error *err)
{
    static const char *const names[] = {"constant", "linear", "cosine", "step"}; /* in plim__rate_kind's order */
    *out = (plim__rate_schedule){0};
    if (!text) return PLIM_OK;
    const size_t n = strcspn(text, ":");
    uint32_t kind = 0;
    while (kind < 4 && (strlen(names[kind]) != n || memcmp(names[kind], text, n) != 0)) kind++;
    PLIM_FAIL_IF(kind == 4, err, PLIM_E_INVALID, "no schedule '%.40s': there are constant, linear, cosine, step", text);
    out->kind = (plim__rate_kind)kind;
    const char *rest = text + n;
    bool good = *rest ? kind != PLIM__RATE_CONSTANT : kind != PLIM__RATE_STEP;
    if (good && *rest) good = take_steps(rest + 1, kind == PLIM__RATE_STEP ? ':' : 0, &out->steps, &rest);
    if (good && kind == PLIM__RATE_STEP) {
        char *stop;
        out->factor = strtod(rest + 1, &stop);
        good = stop != rest + 1 && *stop == 0 && isfinite(out->factor) && out->factor > 0 && out->steps > 0;
    }
    PLIM_FAIL_IF(!good, err, PLIM_E_INVALID, "'%.40s' is no schedule: write linear:100, cosine:100 or step:1000:0.1", text);
    return PLIM_OK;
}

double plim__rate_at(const plim__rate_schedule *s, double rate, uint64_t step, uint64_t steps)
{
    if (s->kind == PLIM__RATE_CONSTANT) return rate;
    if (s->kind == PLIM__RATE_STEP) return rate * pow(s->factor, (double)(step / s->steps));
    if (step < s->steps) return rate * (double)(step + 1) / (double)(s->steps + 1);
    const uint64_t rest = steps > s->steps ? steps - s->steps : 1;
    const double done = (double)(step - s->steps) / (double)rest;
    if (done >= 1) return 0;
    return rate * (s->kind == PLIM__RATE_LINEAR ? 1 - done : 0.5 * (1 + cos(pi * done)));
}
