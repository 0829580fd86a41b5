#include "cli/print_array.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FULL_MAX 1000 /* elements that are printed in full */
#define EDGE 3        /* at each end of a dimension, otherwise */

static float from_half(uint16_t h)
{
    const uint32_t sign = (uint32_t)(h >> 15) << 31, exponent = (h >> 10) & 31, mantissa = h & 1023;
    if (exponent == 0) return (sign ? -1.0f : 1.0f) * ldexpf((float)mantissa, -24);
    const uint32_t bits = sign | (exponent == 31 ? 0x7f800000u : (exponent + 112) << 23) | mantissa << 13;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

static float from_bfloat(uint16_t h)
{
    const uint32_t bits = (uint32_t)h << 16;
    float f;
    memcpy(&f, &bits, 4);
    return f;
}

/* Does `back` read as the same number of a format with `bits` bits after the leading one? */
static bool same_number(double x, double back, int bits)
{
    if (back == x) return true;
    int exponent;
    (void)frexp(x, &exponent);
    return fabs(back - x) < ldexp(0.5, exponent - 1 - bits);
}

/* The fewest digits that read back to the same number of that precision; no exponent where Python would write none. */
static void print_float(FILE *out, double x, int bits)
{
    if (!isfinite(x)) {
        fputs(isnan(x) ? "nan" : x > 0 ? "inf" : "-inf", out);
        return;
    }
    char text[64] = "0";
    int digits = 0;
    for (double back = NAN; digits < 17 && !same_number(x, back, bits);) {
        snprintf(text, sizeof text, "%.*e", digits++, x);
        back = strtod(text, NULL);
    }
    const int power = atoi(strchr(text, 'e') ? strchr(text, 'e') + 1 : "0");
    if (power >= -4 && power < 16) {
        const int decimals = digits - 1 - power;
        snprintf(text, sizeof text, "%.*f", decimals > 1 ? decimals : 1, strtod(text, NULL));
    } else {
        snprintf(text, sizeof text, "%.*e", digits - 1, x);
    }
    fputs(text, out);
}

static void print_element(FILE *out, plim_dtype dtype, const void *p)
{
#define GET(T) (*(const T *)p)
    switch (dtype) {
    case PLIM_BOOL: fputs(GET(uint8_t) ? "True" : "False", out); break;
    case PLIM_U8: fprintf(out, "%u", GET(uint8_t)); break;
    case PLIM_U16: fprintf(out, "%u", GET(uint16_t)); break;
    case PLIM_U32: fprintf(out, "%u", GET(uint32_t)); break;
    case PLIM_U64: fprintf(out, "%llu", (unsigned long long)GET(uint64_t)); break;
    case PLIM_I8: fprintf(out, "%d", GET(int8_t)); break;
    case PLIM_I16: fprintf(out, "%d", GET(int16_t)); break;
    case PLIM_I32: fprintf(out, "%d", GET(int32_t)); break;
    case PLIM_I64: fprintf(out, "%lld", (long long)GET(int64_t)); break;
    case PLIM_F16: print_float(out, from_half(GET(uint16_t)), 10); break;
    case PLIM_BF16: print_float(out, from_bfloat(GET(uint16_t)), 7); break;
    case PLIM_F32: print_float(out, (double)GET(float), 23); break;
    case PLIM_F64: print_float(out, GET(double), 52); break;
    default: break;
    }
#undef GET
}

static void print_dim(FILE *out, plim_dtype dtype, const plim_shape *s, uint32_t d, const char *data, bool full)
{
    uint64_t bytes = plim_dtype_bytes(dtype);
    if (d == s->rank) {
        print_element(out, dtype, data);
        return;
    }
    for (uint32_t i = d + 1; i < s->rank; i++) bytes *= (uint64_t)s->dim[i];
    fputc('[', out);
    for (int64_t i = 0; i < s->dim[d]; i++) {
        if (i > 0) fputs(d + 1 == s->rank ? ", " : ",\n", out);
        for (uint32_t k = 0; i > 0 && d + 1 < s->rank && k <= d; k++) fputc(' ', out);
        if (!full && s->dim[d] > 2 * EDGE && i == EDGE) {
            fputs("...", out);
            i = s->dim[d] - EDGE - 1;
            continue;
        }
        print_dim(out, dtype, s, d + 1, data + (uint64_t)i * bytes, full);
    }
    fputc(']', out);
}

void plim__print_array(FILE *out, plim_dtype dtype, const plim_shape *shape, const void *data)
{
    uint64_t count = 0;
    (void)plim_shape_count(&count, shape, NULL);
    print_dim(out, dtype, shape, 0, data, count <= FULL_MAX);
    fputc('\n', out);
}

void plim__print_results(const plim_plan *plan)
{
    for (uint32_t i = 0; i < plim_plan_result_count(plan); i++) {
        plim_result r;
        uint64_t count = 0;
        if (plim_plan_result(&r, plan, i, NULL) || r.path) continue;
        if (plim_shape_count(&count, &r.shape, NULL) || (!r.data && count > 0)) continue; /* no elements have no address, and print as [] */
        if (r.name[0] && plim_plan_result_count(plan) > 1) printf("%s = ", r.name);
        plim__print_array(stdout, r.dtype, &r.shape, r.data);
    }
}
