#include "kernels/random.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/strided.h"

#define LANES(name) name##_base
#include "kernels/random_lanes.inc"

#define COLS 512

static plim__random_lane *lane(void) { return PLIM__BEST(plim__random_lane); }

/* Every bit of the result depends on every bit of z. */
static uint64_t mix(uint64_t z)
{
    z = (z ^ z >> 32) * RANDOM_MULTIPLY;
    z = (z ^ z >> 32) * RANDOM_MULTIPLY;
    return z ^ z >> 32;
}

plim__random_key plim__random_key_of(uint64_t seed, uint64_t stream)
{
    const uint64_t k0 = mix(mix(seed + RANDOM_GOLDEN) + stream * RANDOM_GOLDEN);
    return (plim__random_key){k0, mix(k0 + RANDOM_GOLDEN)};
}

/* How many of the last dimensions `out` has whole and dense: they are one row. @param n  elements of a row */
static uint32_t row_dims(const plim__view *out, const plim_shape *whole, int64_t *n)
{
    uint32_t dims = 0;
    *n = 1;
    for (uint32_t d = out->rank; d-- > 0;) {
        if (out->stride[d] != *n && out->n[d] != 1) break;
        *n *= out->n[d];
        dims++;
        if (out->n[d] != whole->dim[d]) break;
    }
    return dims;
}

/* A row that is not dense: at most COLS elements at a time, through the stack. */
static void row_strided(float *to, int64_t stride, plim__random_key key, uint64_t first, int64_t n)
{
    float stage[COLS];
    for (int64_t j = 0; j < n; j += COLS) {
        const int64_t m = plim__min(COLS, n - j);
        lane()(stage, key, first + (uint64_t)j, m);
        plim__scatter(to + j * stride, stage, sizeof *stage, 1, m, 0, stride * (int64_t)sizeof *stage);
    }
}

void plim__random_run(const plim__view *out, const plim_shape *whole, plim__random_key key)
{
    const uint64_t count = plim__view_count(out);
    if (count == 0) return;
    int64_t n;
    const uint32_t dims = row_dims(out, whole, &n), outer = out->rank - (dims ? dims : out->rank > 0);
    const bool dense = dims > 0 || out->rank == 0;
    if (!dense) n = out->n[out->rank - 1];
    for (uint64_t r = 0; r < count / (uint64_t)n; r++) {
        int64_t at[PLIM_MAX_RANK];
        uint64_t rest = r, first = 0, weight = 1;
        for (uint32_t d = out->rank; d-- > 0;) {
            at[d] = out->lo[d];
            if (d < outer) {
                at[d] += (int64_t)(rest % (uint64_t)out->n[d]);
                rest /= (uint64_t)out->n[d];
            }
            first += (uint64_t)at[d] * weight;
            weight *= (uint64_t)whole->dim[d];
        }
        if (dense) lane()(plim__view_at(out, at), key, first, n);
        else row_strided(plim__view_at(out, at), out->stride[out->rank - 1], key, first, n);
    }
}
