/* Static offset assignment inside the planner: the instance as the searches see it, and the variant of plim_pack that the
 * planner calls. The public face is plim_pack and plim_pack_check (plimsoll.h).
 *
 * Time is cut into sections. Only the maximal ones are kept (births, then deaths): two buffers are alive together exactly
 * when they share one of those, and there are at most as many as there are buffers.
 *
 *     time      0   1   2   3   4          a [0,3)  b [1,2)  c [2,5)  d [3,5)
 *     alive     a   ab  ac  cd  cd
 *     sections      0   1   2              a 0..1   b 0..0   c 1..2   d 2..2
 *
 * Sizes are counted in units (the largest common divisor of all sizes, after rounding to the alignment). */
#ifndef PLIM_PACK_PACK_H
#define PLIM_PACK_PACK_H

#include "core/alloc.h"

/* ---- pack.c ---- */

/** How hard plim__pack tries. Work is counted, not timed, so that an answer does not depend on the machine; `seconds` only ends
 *  a search that is too slow for its user. */
typedef struct plim__pack_effort {
    uint64_t greedy_steps; /* for the portfolio of orders, about a nanosecond each; the first order always runs to its end */
    uint64_t search_nodes; /* for the exact search, about a microsecond each; 0: portfolio only */
    double seconds;        /* wall clock for all of it; 0: none */
} plim__pack_effort;

/** The planner's choice while it compares plans: about 10 ms at most for some thousands of buffers. */
plim__pack_effort plim__pack_effort_quick(void);
/** For one final plan of `count` buffers: as quick, then an exact search of some tens of milliseconds where the bound was not met. */
plim__pack_effort plim__pack_effort_final(uint32_t count);

/** As plim_pack, with `effort` in the place of opt->seconds. */
plim_status plim__pack(plim_buffer *buf, uint32_t count, const plim_pack_options *opt, const plim__pack_effort *effort,
                       plim_pack_result *res, const plim__alloc *a, plim_error *err);

/* ---- pack_view.c ---- */

/** Buffers of non-zero size in order of birth. A sum of all sizes fits int64_t, so no offset below it can wrap. */
typedef struct plim__pack_view {
    uint32_t n;
    uint32_t sections;
    int32_t *lo, *hi; /* (n) sections [lo, hi) in which a buffer is alive; lo never falls */
    int64_t *size;    /* (n) units, at least 1 */
    int64_t *lower, *upper; /* (n) the lifetime in the caller's time */
    int64_t *width;   /* (n) upper - lower, or the largest number where that exceeds 63 bits */
    int64_t *total;   /* (n) the largest load of the sections that a buffer is alive in */
    int64_t *load;    /* (sections) units alive; one more behind the last is scratch */
    uint32_t *source; /* (n) number in the caller's array */
    int64_t bound;    /* the largest load: no packing is lower */
    uint64_t unit;    /* bytes */
} plim__pack_view;

/** Refuses a lifetime that is empty and sizes whose sum exceeds 63 bits. @param alignment  0 or 1: none */
plim_status plim__pack_view_init(plim__pack_view *v, const plim_buffer *buf, uint32_t count, uint64_t alignment,
                                 const plim__alloc *a, plim_error *err);
void plim__pack_view_drop(plim__pack_view *v, const plim__alloc *a);

/** A part of an instance that can be packed on its own, and lies on `base`. */
typedef struct plim__pack_part {
    plim__pack_view view; /* its arrays belong to the plim__pack_parts; `source` is an index in the whole view */
    int64_t base;
} plim__pack_part;

/** What is left of an instance once everything obvious is decided, without loss. Where no buffer is alive across a border, the
 *  sides are independent; a buffer alive throughout a side can lie at the side's bottom (in any packing the slabs below and above
 *  it can be exchanged); without it the side may fall apart again. */
typedef struct plim__pack_parts {
    uint32_t count;
    plim__pack_part *part;
    plim__pack_view pool;  /* holds the arrays of the parts, one after the other */
    int64_t *floor_offset; /* (n of the whole) of a buffer that lies at a bottom; -1: it is in a part */
} plim__pack_parts;

plim_status plim__pack_parts_init(plim__pack_parts *p, const plim__pack_view *whole, const plim__alloc *a, plim_error *err);
void plim__pack_parts_drop(plim__pack_parts *p, const plim__alloc *a);

/* ---- pack_blocks.c ---- */

/** A buffer, or a block of items made before it. */
typedef struct plim__pack_item {
    int64_t lower, upper; /* in the caller's time, or in sections of the whole */
    int64_t size;
    int64_t offset;       /* above the bottom of its block */
    int64_t place;        /* scratch of plim__pack_blocks_open */
    int32_t parent;       /* the block that it is part of; -1: none */
    bool filler;          /* stands for slack; of a block: for nothing else */
    bool alone;           /* goes into no block */
} plim__pack_item;

/** An instance whose buffers were merged into gapless rectangles. Every packing of `view` is one of the whole, of the same height;
 *  that it has none of some height proves nothing. */
typedef struct plim__pack_blocks {
    plim__pack_view view; /* of the blocks and of the buffers in none; in units of the whole times view.unit */
    uint32_t buffers;     /* of the whole: the first items */
    uint32_t items;
    plim__pack_item *item;
} plim__pack_blocks;

/** What is merged. */
typedef struct plim__blocks_style {
    bool coarse;   /* lifetimes are alike when they span the same sections, not only when they span the same moments */
    int64_t level; /* slack below this height counts as buffers that may be merged with others; 0: it does not */
    double alone;  /* the share of items that are left out, taken at random */
    uint64_t seed;
} plim__blocks_style;

plim_status plim__pack_blocks_init(plim__pack_blocks *b, const plim__pack_view *whole, const plim__blocks_style *style,
                                   const plim__alloc *a, plim_error *err);
void plim__pack_blocks_drop(plim__pack_blocks *b, const plim__alloc *a);
/** @param offset        (n of the whole) out, units of the whole; may be block_offset
 *  @param block_offset  (n of the view) of a packing of the blocks */
void plim__pack_blocks_open(const plim__pack_blocks *b, int64_t *offset, const int64_t *block_offset);

/* ---- pack_greedy.c ---- */

/** A place in an order: highest keys first, then the lower index. */
typedef struct plim__order_key {
    double key[3];
    uint32_t buffer;
} plim__order_key;

/** What an order looks at first, second and third. */
typedef enum plim__order_kind {
    PLIM__ORDER_SIZE_BIRTH,
    PLIM__ORDER_TWA, /* total, width, area: MiniMalloc's letters */
    PLIM__ORDER_AREA,
    PLIM__ORDER_LOG_SIZE_BIRTH,
    PLIM__ORDER_TAW,
    PLIM__ORDER_WAT,
    PLIM__ORDER_SIZE_WIDTH,
    PLIM__ORDER_BIRTH,
    PLIM__ORDER_COUNT
} plim__order_kind;

const char *plim__order_name(plim__order_kind kind);
/** Fills key[] for every buffer of the view; plim__order_sort then puts them in order. */
void plim__order_fill(plim__order_key *order, const plim__pack_view *v, plim__order_kind kind);
void plim__order_sort(plim__order_key *order, uint32_t n);

typedef enum plim__fit { PLIM__FIT_FIRST, PLIM__FIT_BEST } plim__fit;

/** A buffer that has its place. */
typedef struct plim__pack_slot {
    int64_t offset, top;
    int32_t lo, hi;
} plim__pack_slot;

/** Room for plim__greedy_place with up to `n` buffers; holds nothing between two calls. */
typedef struct plim__greedy_room {
    plim__pack_slot *slot; /* (4 n) the lists of the blocks, then the chunks of the list of all */
    uint32_t *at, *used;   /* (blocks + 1) where the list of a block begins, how long it is */
    uint32_t *chunk;       /* (chunks) numbers of the chunks in order of offset */
    uint32_t *chunk_used;  /* (chunks) by number */
    uint32_t blocks, chunks;
    int32_t half;          /* sections of half a block */
    bool all;              /* the list of all is needed */
} plim__greedy_room;

plim_status plim__greedy_room_init(plim__greedy_room *g, uint32_t n, const plim__alloc *a, plim_error *err);
void plim__greedy_room_drop(plim__greedy_room *g, const plim__alloc *a);

/** Places buffers one by one, each in the lowest gap that holds it (first fit) or the smallest such gap (best fit). O(n^2) at worst.
 *  @param offset  (n) out, units
 *  @param g       scratch
 *  @param below   gives up as soon as the height reaches this
 *  @param steps   in: how many may be taken; out: how many are left, 0 when it gave up for that
 *  @return the height, or INT64_MAX when it gave up */
int64_t plim__greedy_place(int64_t *offset, const plim__pack_view *v, const plim__order_key *order, plim__fit fit, plim__greedy_room *g,
                           int64_t below, uint64_t *steps);

/** What a repair may come to. */
typedef struct plim__fill_limit {
    int64_t top;   /* no buffer ends above this, */
    int64_t line;  /* and what the buffers end above this */
    double excess; /* is no more than this, taken together */
} plim__fill_limit;

/** Repairs a packing: plim__greedy_keep takes up each buffer that stays where it is (after g->used[0] was set to 0), plim__greedy_fill
 *  then places the `n` buffers of `order` among them by first fit. @return false as soon as the limit is exceeded */
void plim__greedy_keep(plim__greedy_room *g, const plim__pack_view *v, uint32_t b, int64_t offset);
bool plim__greedy_fill(int64_t *offset, const plim__pack_view *v, const plim__order_key *order, uint32_t n, plim__greedy_room *g,
                       const plim__fill_limit *limit, uint64_t *steps);

/* ---- pack_exact.c ---- */

/** Room for searches in one view: made once, asked for many heights. */
typedef struct plim__exact plim__exact;

typedef enum plim__exact_answer {
    PLIM__EXACT_FOUND, /* offsets were written */
    PLIM__EXACT_NONE,  /* proven: no packing of that height */
    PLIM__EXACT_LIMIT, /* not known: the node limit came first, or what was left out of the search could hold one */
} plim__exact_answer;

/** More buffers than this are not searched: the search recurses up to twice per buffer, in frames of some 300 bytes. */
#define PLIM__EXACT_MAX 2048

/** @param view  must outlive the search; n from 1 to PLIM__EXACT_MAX */
plim_status plim__exact_new(plim__exact **out, const plim__pack_view *view, const plim__alloc *a, plim_error *err);
void plim__exact_free(plim__exact **x, const plim__alloc *a);
/** How a search goes about it. */
typedef struct plim__exact_style {
    bool backjump;      /* skips choices that had no part in a failure: finds packings sooner, but only without it is anything proven */
    bool blind;         /* places no candidate on trial: many more nodes a second, for instances with room to spare */
    double rank_weight; /* how much the order weighs against wasted room when a buffer is chosen; 0.1 is much */
    double noise;       /* wasted room is overrated by up to this share */
    uint64_t seed;      /* of the noise */
} plim__exact_style;

/** Looks for a packing of height `cap` units or less. Deterministic. Allocates nothing.
 *  @param offset  (n) units, written on PLIM__EXACT_FOUND
 *  @param order   (n) which of two buffers is tried first where they waste the same room
 *  @param nodes   in: how many branches may be tried; out: how many are left
 *  @param blame   (sections) one is added for each branch that a section ended: a hint for the next order */
plim__exact_answer plim__exact_solve(plim__exact *x, int64_t *offset, const plim__order_key *order, int64_t cap,
                                     const plim__exact_style *style, uint64_t *nodes, uint32_t *blame);

#endif
