/* Checked 64-bit size arithmetic. Each returns false on overflow and leaves *out undefined. */
#ifndef PLIM_CORE_SIZE_H
#define PLIM_CORE_SIZE_H

#include <stdbool.h>
#include <stdint.h>

static inline bool plim__mul(uint64_t *out, uint64_t a, uint64_t b) { return !__builtin_mul_overflow(a, b, out); }
static inline bool plim__add(uint64_t *out, uint64_t a, uint64_t b) { return !__builtin_add_overflow(a, b, out); }

/** Rounds up to a multiple of `to`, a power of two. The caller has bounded x far below 2^64. */
static inline uint64_t plim__round_up(uint64_t x, uint64_t to) { return (x + to - 1) & ~(to - 1); }
static inline uint64_t plim__round_down(uint64_t x, uint64_t to) { return x & ~(to - 1); }

static inline int64_t plim__min(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t plim__max(int64_t a, int64_t b) { return a > b ? a : b; }
static inline int64_t plim__clamp(int64_t x, int64_t lo, int64_t hi) { return x < lo ? lo : x > hi ? hi : x; }

/** Division rounding toward minus infinity; d > 0. */
static inline int64_t plim__floor_div(int64_t x, int64_t d) { return x / d - (x % d != 0 && x < 0); }
static inline int64_t plim__ceil_div(int64_t x, int64_t d) { return x / d + (x % d != 0 && x > 0); }

/** The greatest common divisor of numbers that are not negative. */
static inline int64_t plim__gcd(int64_t a, int64_t b)
{
    while (b != 0) {
        const int64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
