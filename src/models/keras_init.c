/* Initializers: how a parameter without data is to be made. All that scale by the number of inputs (He, LeCun, Glorot, VarianceScaling) are worked
 * out here to a range or a standard deviation, because only the reader knows which dimensions of a kernel are its inputs. */
#include "models/keras.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

/* The standard deviation of a normal distribution cut at two of its own. */
#define TRUNCATED 0.87962566103423978

typedef struct fans {
    double in, out;
} fans;

/* Keras' rule: the last two dimensions are inputs and outputs, those before them the window. */
static fans fans_of(const plim_shape *s)
{
    if (s->rank == 0) return (fans){1, 1};
    if (s->rank == 1) return (fans){(double)s->dim[0], (double)s->dim[0]};
    double window = 1;
    for (uint32_t d = 0; d + 2 < s->rank; d++) window *= (double)s->dim[d];
    return (fans){window * (double)s->dim[s->rank - 2], window * (double)s->dim[s->rank - 1]};
}

/* "glorot_uniform" is "GlorotUniform". */
static bool same_name(const char *a, const char *b)
{
    while (*a || *b) {
        if (*a == '_') a++;
        else if (*b == '_') b++;
        else if (tolower((unsigned char)*a++) != tolower((unsigned char)*b++)) return false;
    }
    return true;
}

static void set_scaled(plim__param *p, bool uniform, double variance)
{
    p->init = uniform ? PLIM__INIT_UNIFORM : PLIM__INIT_NORMAL;
    p->init_scale = sqrt(uniform ? 3 * variance : variance);
}

static double at_least_one(double n) { return n < 1 ? 1 : n; }

static plim_status variance_scaling(plim__param *p, const plim__json *config, fans f, plim_error *err)
{
    double scale;
    const char *mode, *distribution;
    PLIM_TRY(plim__json_get_number(&scale, config, "scale", 1, err));
    PLIM_TRY(plim__json_get_string(&mode, config, "mode", "fan_in", err));
    PLIM_TRY(plim__json_get_string(&distribution, config, "distribution", "truncated_normal", err));
    const double n = strcmp(mode, "fan_in") == 0 ? f.in : strcmp(mode, "fan_out") == 0 ? f.out : (f.in + f.out) / 2;
    set_scaled(p, strcmp(distribution, "uniform") == 0, fabs(scale) / at_least_one(n));
    return PLIM_OK;
}

/* @return false: it cannot be made */
static bool by_constant(plim__param *p, double c)
{
    p->init = c == 1 ? PLIM__INIT_ONES : PLIM__INIT_ZEROS;
    return c == 0 || c == 1;
}

static plim_status by_range(plim__param *p, const plim__json *config, bool *made, plim_error *err)
{
    double lo, hi;
    PLIM_TRY(plim__json_get_number(&lo, config, "minval", -0.05, err));
    PLIM_TRY(plim__json_get_number(&hi, config, "maxval", 0.05, err));
    p->init = PLIM__INIT_UNIFORM;
    p->init_scale = hi;
    *made = lo == -hi && hi >= 0;
    return PLIM_OK;
}

static plim_status by_normal(plim__param *p, const plim__json *config, double factor, bool *made, plim_error *err)
{
    double mean, deviation;
    PLIM_TRY(plim__json_get_number(&mean, config, "mean", 0, err));
    PLIM_TRY(plim__json_get_number(&deviation, config, "stddev", 0.05, err));
    p->init = PLIM__INIT_NORMAL;
    p->init_scale = factor * deviation;
    *made = mean == 0 && deviation >= 0;
    return PLIM_OK;
}

static plim_status by_name(plim__param *p, const char *name, const plim__json *config, fans f, bool *made, plim_error *err)
{
    static const struct {
        const char *name;
        bool uniform;
        double scale, in, out; /* variance: scale / (in * fan_in + out * fan_out) */
    } scaled[] = {{"GlorotNormal", false, 2, 1, 1}, {"HeUniform", true, 2, 1, 0}, {"HeNormal", false, 2, 1, 0}, {"LecunUniform", true, 1, 1, 0},
                  {"LecunNormal", false, 1, 1, 0}};
    *made = true;
    if (same_name(name, "Zeros") || same_name(name, "Zero")) return by_constant(p, 0), PLIM_OK;
    if (same_name(name, "Ones") || same_name(name, "One")) return by_constant(p, 1), PLIM_OK;
    if (same_name(name, "GlorotUniform")) {
        set_scaled(p, true, 2 / at_least_one(f.in + f.out));
        p->init = PLIM__INIT_GLOROT_UNIFORM;
        return PLIM_OK;
    }
    for (size_t i = 0; i < sizeof scaled / sizeof *scaled; i++) {
        if (!same_name(name, scaled[i].name)) continue;
        set_scaled(p, scaled[i].uniform, scaled[i].scale / at_least_one(scaled[i].in * f.in + scaled[i].out * f.out));
        return PLIM_OK;
    }
    if (same_name(name, "VarianceScaling")) return variance_scaling(p, config, f, err);
    if (same_name(name, "RandomUniform") || same_name(name, "Uniform")) return by_range(p, config, made, err);
    if (same_name(name, "RandomNormal") || same_name(name, "Normal")) return by_normal(p, config, 1, made, err);
    if (same_name(name, "TruncatedNormal")) return by_normal(p, config, TRUNCATED, made, err);
    if (same_name(name, "Constant")) {
        double c;
        PLIM_TRY(plim__json_get_number(&c, config, "value", 0, err));
        *made = by_constant(p, c);
        return PLIM_OK;
    }
    *made = false;
    return PLIM_OK;
}

plim_status plim__keras_init(plim__param *param, const plim__json *config, const plim__keras_spec *spec, const plim_shape *shape,
                             const char **refused, plim_error *err)
{
    plim__json j, inner = {0};
    const char *name = spec->otherwise;
    bool made;
    *refused = NULL;
    param->init = PLIM__INIT_ZEROS;
    const bool there = spec->init && plim__json_find(&j, config, spec->init);
    const bool object = there && plim__json_kind_of(&j) == PLIM__JSON_OBJECT;
    if (object) {
        PLIM_TRY(plim__json_get(&inner, &j, "class_name", err));
        PLIM_TRY(plim__json_string(&name, &inner, err));
        PLIM_TRY(plim__json_get(&inner, &j, "config", err));
    } else if (there) {
        PLIM_TRY(plim__json_string(&name, &j, err));
    }
    PLIM_TRY(by_name(param, name, object ? &inner : config, fans_of(shape), &made, err));
    if (!made) *refused = name;
    return PLIM_OK;
}
