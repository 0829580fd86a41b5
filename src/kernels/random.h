/* Uniform random numbers without a state: each is a function of a seed, a stream and a position, so that any part of an array can be made on its
 * own, in any order, and again.
 *
 * Two 64-bit keys come from seed and stream. An element hashes k0 + position * G, G odd: distinct positions are distinct words. Two rounds of
 * shift-xor and multiplication by a constant that spreads every input bit over the word (as in the finalisers of hash functions), the second key
 * between them so that streams whose first words happen to overlap differ, give 64 bits, of which the upper 24 make a f32 in [0, 1). Not for
 * secrets. */
#ifndef PLIM_KERNELS_RANDOM_H
#define PLIM_KERNELS_RANDOM_H

#include "kernels/view.h"

typedef struct plim__random_key {
    uint64_t k0, k1;
} plim__random_key;

plim__random_key plim__random_key_of(uint64_t seed, uint64_t stream);
/** Fills `out` (f32); an element's position is its index in C order in the whole array, whose shape is `whole`. */
void plim__random_run(const plim__view *out, const plim_shape *whole, plim__random_key key);

/* ---- the inner loop: out[j] is the number at position first + j */
typedef void plim__random_lane(float *out, plim__random_key key, uint64_t first, int64_t n);
plim__random_lane plim__random_lane_base, plim__random_lane_v3;

#endif
