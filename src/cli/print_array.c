#include "cli/print_array.h"

#include <math.h>
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

/* The fewest digits that read back to the same number of that precision. */
static void print_float(FILE *out, double x, int most_digits, bool is_double)
{
    char text[40];
    for (int digits = 1; digits <= most_digits; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        double back;
        if (sscanf(text, "%lf", &back) == 1 && (is_double ? back == x : (float)back == (float)x)) break;
    }
    fputs(text, out);
    if (isfinite(x) && !strpbrk(text, ".e")) fputs(".0", out);
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
    case PLIM_F16: print_float(out, from_half(GET(uint16_t)), 5, false); break;
    case PLIM_BF16: print_float(out, from_bfloat(GET(uint16_t)), 4, false); break;
    case PLIM_F32: print_float(out, GET(float), 9, false); break;
    case PLIM_F64: print_float(out, GET(double), 17, true); break;
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
