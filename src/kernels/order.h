/* Order: keys, sorting and selecting.
 *
 * A key is an unsigned integer of the element's width whose order is the element's: integers have their sign bit flipped, floats are
 * two's-complement-like after flipping the sign or all bits. -0 has the key of +0, every NaN the largest key there is. So sorting, selecting and
 * counting know only two types: 32-bit keys (for elements of up to 32 bits) and 64-bit keys.
 *
 * Nothing allocates; scratch is the caller's. No state: any number of threads may work on different arrays. */
#ifndef PLIM_KERNELS_ORDER_H
#define PLIM_KERNELS_ORDER_H

#include "kernels/view.h"

/** Are keys of this dtype 64 bits wide? */
static inline bool plim__key_wide(plim_dtype t) { return plim_dtype_bytes(t) == 8; }
/** Bits of a key: 8, 16, 32 or 64. */
static inline uint32_t plim__key_bits(plim_dtype t) { return 8 * (uint32_t)plim_dtype_bytes(t); }
/** The largest key: that of NaN, for floats. */
static inline uint64_t plim__key_max(plim_dtype t) { return UINT64_MAX >> (64 - plim__key_bits(t)); }

/** Keys of n elements that lie `stride` elements apart. For dtypes of at most 32 bits. */
void plim__keys32(uint32_t *key, const void *x, plim_dtype t, int64_t stride, int64_t n);
/** The same for 64-bit dtypes. */
void plim__keys64(uint64_t *key, const void *x, plim_dtype t, int64_t stride, int64_t n);
/** The element of a key, as f64: NaN for the largest key of a float. */
double plim__key_value(plim_dtype t, uint64_t key);

/** A key and where it came from. */
typedef struct plim__keyed {
    uint64_t key, pos;
} plim__keyed;

/** Sorts n pairs by key, stable: least significant digit first, digits of 8 bits, those that all keys share skipped; short arrays by
 *  merging. O(n * bits / 8) and never worse. `tmp` has n elements too. @return the one of the two that holds the result */
plim__keyed *plim__sort_keyed(plim__keyed *a, plim__keyed *tmp, int64_t n, uint32_t bits);
/** The same for 32-bit keys packed as key << 32 | position; n <= 2^32. */
uint64_t *plim__sort_packed(uint64_t *a, uint64_t *tmp, int64_t n, uint32_t bits);

/** Permutes a so that a[k] is what it would be if a were sorted, nothing larger before it and nothing smaller behind it. Hoare's quickselect
 *  (1961) with the median of three; when the pivots turn out bad, pivots halve the range of keys, so that the worst case is O(n * bits). */
void plim__select32(uint32_t *a, int64_t n, int64_t k);
void plim__select64(uint64_t *a, int64_t n, int64_t k);

/** The quantile between neighbours a <= b at t in [0, 1), numpy.quantile's linear interpolation; a where both are equal. */
double plim__lerp(double a, double b, double t);

/** The rank below the q-quantile of n elements, and the fraction on the way to the next. */
typedef struct plim__rank {
    int64_t below, above; /* above is below or below + 1 */
    double t;
} plim__rank;
plim__rank plim__rank_of(double q, int64_t n);

/* ---- columns: what runs along one dimension */
/** How many there are: the product of v's extents outside `skip`, a set of dimensions. */
int64_t plim__column_count(const plim__view *v, uint32_t skip);
/** First element of column c; views of the same extents outside `skip` number their columns alike. */
void *plim__column(const plim__view *v, uint32_t skip, int64_t c);

/* ---- the k best along one dimension: `val` (x's dtype) and `pos` (i64) have k entries there, best first, equal ones by position; a position of -1
 *      is an entry that is not filled yet. NaN counts as largest. */
void plim__topk_init(const plim__view *val, const plim__view *pos);
void plim__topk_run(bool largest, const plim__view *val, const plim__view *pos, const plim__view *in, uint32_t axis);
void plim__topk_merge(bool largest, const plim__view *val, const plim__view *pos, const plim__view *part_val, const plim__view *part_pos, uint32_t axis);

#endif
