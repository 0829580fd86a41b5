/* Preferences among the plans that fit, for tests that want many different ones. */
#ifndef PLIM_TESTS_PREFERENCES_H
#define PLIM_TESTS_PREFERENCES_H

#include "files.h"
#include "plan/plan.h"

/* As few loops as can be: with enough memory, one piece. */
static inline double prefer_by_loops(void *ctx, const plim__pass *p, double seconds)
{
    (void)ctx;
    return p->n_cut + seconds * 1e-9;
}

static const plim__preference prefer_one_piece = {.score = prefer_by_loops};

/* As many loops as can be, each with few trips. */
static inline double prefer_by_many_loops(void *ctx, const plim__pass *p, double seconds)
{
    (void)ctx;
    double trips = 1;
    for (uint32_t l = 0; l < p->n_cut; l++) trips *= (double)plim__loop_trips(&p->loop[l]);
    return -(double)p->n_cut + trips * 1e-6 + seconds * 1e-12;
}

static const plim__preference prefer_many_loops = {.score = prefer_by_many_loops};

typedef struct prefer_chance {
    uint64_t seed;
    uint64_t most_tiles; /* of a pass: more only cost time */
} prefer_chance;

/* A number that depends on the seed and on the pass, and on nothing else. @param ctx  a prefer_chance */
static inline double prefer_by_chance(void *ctx, const plim__pass *p, double seconds)
{
    (void)seconds;
    const prefer_chance *c = ctx;
    uint64_t h = c->seed, tiles = 1;
    for (uint32_t l = 0; l < p->n_cut; l++) {
        h ^= (uint64_t)p->loop[l].tile * 0x9e3779b97f4a7c15u + (uint64_t)p->loop[l].extent;
        h = files_random(&h);
        tiles *= (uint64_t)plim__loop_trips(&p->loop[l]);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) h = h * 31 + p->node[i].node;
    return (tiles > c->most_tiles ? (double)tiles : 0) + (double)(files_random(&h) >> 11) * 0x1p-53;
}

#endif
