/* Packing instances whose optimum is known, made from a seed, for tests and benchmarks of the packer; no code of the packer's.
 *
 * A rectangle of CAPACITY units by TIMES units is cut into pieces, each a buffer: offset by lifetime. The cut rectangle is a packing,
 * so `capacity` suffices. Then pieces are dropped or shrunk, which leaves slack, except those alive at one moment: its load stays the
 * capacity, so no packing is lower. Styles differ in the shapes and in how the pieces interlock:
 *
 *     guillotine   every cut goes right across a piece            pinwheel   five pieces around a middle; no straight cut
 *     scattered    boxes of one magnitude dropped where they fit  long       many long lifetimes, many buffers alive at once
 *     mixed        a few large pieces among many small ones       stepped    pieces born in rows, whose borders are shifted
 *
 * packing_large makes tens of thousands of buffers without a known optimum: with the lifetimes of a training graph (forward values
 * live until their gradients are made) or with lifetimes at random. */
#ifndef PLIM_TESTS_PACKING_CASES_H
#define PLIM_TESTS_PACKING_CASES_H

#include "plimsoll/plimsoll.h"

#include <assert.h>
#include <stdbool.h>
#include <stdlib.h>

enum { PACKING_CAPACITY = 1024, PACKING_TIMES = 1024, PACKING_UNIT = 1024, PACKING_MAX = 1024 };

typedef enum packing_style {
    PACKING_GUILLOTINE,
    PACKING_PINWHEEL,
    PACKING_SCATTERED,
    PACKING_LONG,
    PACKING_MIXED,
    PACKING_STEPPED,
    PACKING_STYLES
} packing_style;

/* A piece of the rectangle: lifetime [t0, t1), units [y0, y1). */
typedef struct packing_piece {
    int32_t t0, t1, y0, y1;
} packing_piece;

typedef struct packing_case {
    uint64_t random;
    uint32_t n;
    packing_piece piece[PACKING_MAX + 8];
} packing_case;

static inline uint32_t packing_random(packing_case *c, uint32_t below)
{
    c->random = c->random * 6364136223846793005ull + 1442695040888963407ull;
    return (uint32_t)((c->random >> 33) % below);
}

static inline int32_t packing_between(packing_case *c, int32_t from, int32_t to)
{
    assert(from <= to);
    return from + (int32_t)packing_random(c, (uint32_t)(to - from + 1));
}

static inline const char *packing_style_name(packing_style style)
{
    static const char *const name[PACKING_STYLES] = {"guillotine", "pinwheel", "scattered", "long", "mixed", "stepped"};
    return name[style];
}

/* Right across a piece: in time or in size. */
static inline bool packing_cut(packing_case *c, uint32_t i, bool in_time)
{
    packing_piece *p = &c->piece[i], *q = &c->piece[c->n];
    if ((in_time ? p->t1 - p->t0 : p->y1 - p->y0) < 2) return false;
    *q = *p;
    if (in_time) q->t0 = p->t1 = packing_between(c, p->t0 + 1, p->t1 - 1);
    else q->y0 = p->y1 = packing_between(c, p->y0 + 1, p->y1 - 1);
    c->n++;
    return true;
}

/*    bbbbbbbcc
 *    aa     cc     Five pieces; the middle one may not be cut off by a straight line.
 *    aa mid cc
 *    aadddddd */
static inline bool packing_pinwheel(packing_case *c, uint32_t i)
{
    const packing_piece p = c->piece[i];
    if (p.t1 - p.t0 < 4 || p.y1 - p.y0 < 4) return false;
    const int32_t t0 = packing_between(c, p.t0 + 1, p.t1 - 2), t1 = packing_between(c, t0 + 1, p.t1 - 1);
    const int32_t y0 = packing_between(c, p.y0 + 1, p.y1 - 2), y1 = packing_between(c, y0 + 1, p.y1 - 1);
    c->piece[i] = (packing_piece){t0, t1, y0, y1};
    c->piece[c->n++] = (packing_piece){p.t0, t0, p.y0, y1};
    c->piece[c->n++] = (packing_piece){p.t0, t1, y1, p.y1};
    c->piece[c->n++] = (packing_piece){t1, p.t1, y0, p.y1};
    c->piece[c->n++] = (packing_piece){t0, p.t1, p.y0, y0};
    return true;
}

/* The larger of a few pieces taken at random: `draws` of 1 leaves many magnitudes, more of them make pieces alike. */
static inline uint32_t packing_pick(packing_case *c, uint32_t draws)
{
    uint32_t best = packing_random(c, c->n);
    for (uint32_t k = 1; k < draws; k++) {
        const uint32_t i = packing_random(c, c->n);
        const packing_piece *p = &c->piece[i], *b = &c->piece[best];
        if ((int64_t)(p->t1 - p->t0) * (p->y1 - p->y0) > (int64_t)(b->t1 - b->t0) * (b->y1 - b->y0)) best = i;
    }
    return best;
}

/* @param time_cuts  of 10 cuts so many are in time; @param pinwheels  of 10 pieces so many are cut by pinwheels */
static inline void packing_divide(packing_case *c, uint32_t n, uint32_t draws, uint32_t time_cuts, uint32_t pinwheels)
{
    c->piece[c->n++] = (packing_piece){0, PACKING_TIMES, 0, PACKING_CAPACITY};
    while (c->n < n) {
        const uint32_t i = packing_pick(c, draws);
        if (packing_random(c, 10) < pinwheels) packing_pinwheel(c, i);
        else packing_cut(c, i, packing_random(c, 10) < time_cuts);
    }
}

static inline bool packing_is_free(const packing_case *c, const packing_piece *p)
{
    for (uint32_t i = 0; i < c->n; i++) {
        const packing_piece *q = &c->piece[i];
        if (p->t0 < q->t1 && q->t0 < p->t1 && p->y0 < q->y1 && q->y0 < p->y1) return false;
    }
    return true;
}

/* Boxes of a magnitude dropped where they fit and slid down; then what is free at one moment is filled. */
static inline void packing_scatter(packing_case *c, uint32_t n, int32_t moment)
{
    for (uint32_t tries = 0; tries < 60 * n && c->n < n; tries++) {
        packing_piece p = {.t0 = packing_between(c, 0, PACKING_TIMES - 17)};
        p.t1 = p.t0 + packing_between(c, 16, 56);
        p.y0 = packing_between(c, 0, PACKING_CAPACITY - 33);
        p.y1 = p.y0 + packing_between(c, 32, 108);
        if (p.t1 > PACKING_TIMES || p.y1 > PACKING_CAPACITY || !packing_is_free(c, &p)) continue;
        for (; p.y0 > 0 && packing_is_free(c, &p); p.y0--, p.y1--) continue;
        if (!packing_is_free(c, &p)) p.y0++, p.y1++;
        c->piece[c->n++] = p;
    }
    for (int32_t y = 0; y < PACKING_CAPACITY; y++) {
        packing_piece p = {.t0 = moment, .t1 = moment + 1, .y0 = y, .y1 = y + 1};
        if (!packing_is_free(c, &p)) continue;
        for (p.y1++; p.y1 <= PACKING_CAPACITY && packing_is_free(c, &p); p.y1++) continue;
        p.y1--;
        for (p.t0--; p.t0 >= 0 && packing_is_free(c, &p); p.t0--) continue;
        p.t0++;
        c->piece[c->n++] = p;
        y = p.y1 - 1;
    }
}

/* Rows of pieces one behind the other, the borders of each row somewhere else. */
static inline void packing_step(packing_case *c, uint32_t n)
{
    const int32_t rows = packing_between(c, 14, 28), per_row = (int32_t)n / rows;
    for (int32_t r = 0; r < rows; r++) {
        const int32_t y0 = PACKING_CAPACITY * r / rows, y1 = PACKING_CAPACITY * (r + 1) / rows;
        int32_t t = 0;
        while (t < PACKING_TIMES) {
            int32_t t1 = t + packing_between(c, 1, 2 * PACKING_TIMES / per_row);
            if (t1 > PACKING_TIMES) t1 = PACKING_TIMES;
            c->piece[c->n++] = (packing_piece){t, t1, y0, y1};
            t = t1;
        }
    }
    for (uint32_t i = 0, old = c->n; i < old && c->n < n + 60; i++) packing_cut(c, packing_random(c, old), i % 5 == 0);
}

/* Drops and shrinks pieces that are not alive at `moment`, `loose` and `loose` of 100. */
static inline void packing_loosen(packing_case *c, uint32_t loose, int32_t moment)
{
    uint32_t kept = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        packing_piece p = c->piece[i];
        const bool fixed = p.t0 <= moment && moment < p.t1;
        if (!fixed && packing_random(c, 100) < loose) continue;
        if (!fixed && packing_random(c, 100) < loose) {
            if (packing_random(c, 2)) p.t1 = packing_between(c, p.t0 + 1, p.t1);
            else p.y1 = packing_between(c, p.y0 + 1, p.y1);
        }
        c->piece[kept++] = p;
    }
    c->n = kept;
}

/** Makes an instance with about `n` buffers before `loose` per cent of them are dropped and as many shrunk.
 *  @param buf  (PACKING_MAX + 8) out, in random order; offsets are 0 @return how many; the optimum is PACKING_CAPACITY * PACKING_UNIT */
static inline uint32_t packing_make(plim_buffer *buf, packing_style style, uint32_t n, uint32_t loose, uint64_t seed)
{
    packing_case *c = calloc(1, sizeof *c);
    assert(c && n <= PACKING_MAX / 2);
    c->random = seed * 0x9e3779b97f4a7c15ull + style;
    for (int i = 0; i < 4; i++) packing_random(c, 2);
    const int32_t moment = packing_between(c, PACKING_TIMES / 8, PACKING_TIMES - PACKING_TIMES / 8);
    switch (style) {
    case PACKING_GUILLOTINE: packing_divide(c, n, 4, 6, 0); break;
    case PACKING_PINWHEEL: packing_divide(c, n, 4, 6, 4); break;
    case PACKING_SCATTERED: packing_scatter(c, n, moment); break;
    case PACKING_LONG: packing_divide(c, n, 3, 3, 1); break;
    case PACKING_MIXED: packing_divide(c, n, 2, 6, 2); break;
    default: packing_step(c, n);
    }
    packing_loosen(c, loose, moment);
    const uint32_t made = c->n;
    for (uint32_t i = 0; i < made; i++) {
        const uint32_t j = packing_random(c, i + 1);
        const packing_piece *p = &c->piece[i];
        buf[i] = buf[j];
        buf[j] = (plim_buffer){.lower = (int64_t)p->t0 * PACKING_UNIT, .upper = (int64_t)p->t1 * PACKING_UNIT,
                               .size = (uint64_t)(p->y1 - p->y0) * PACKING_UNIT};
    }
    free(c);
    return made;
}

/** @param buf  (n) out @param training  lifetimes of a training graph, else at random */
static inline void packing_large(plim_buffer *buf, uint32_t n, bool training, uint64_t seed)
{
    packing_case *c = calloc(1, sizeof *c);
    assert(c && n >= 8);
    c->random = seed * 0x9e3779b97f4a7c15ull + 77;
    const int64_t half = n / 2, times = 2 * half + 8;
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t size = (uint64_t)(1 + packing_random(c, 64)) << (6 + packing_random(c, 12));
        const int64_t at = (int64_t)packing_random(c, (uint32_t)half);
        const bool kept = packing_random(c, 3) == 0;
        const int64_t lower = training && !kept ? at * 2 : at;
        const int64_t width = training && kept ? times - 2 * at - 1 : 1 + packing_random(c, 1u << (1 + packing_random(c, 9)));
        buf[i] = (plim_buffer){.lower = lower, .upper = lower + width, .size = size};
    }
    free(c);
}

#endif
