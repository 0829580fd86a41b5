/* Finds the passes of a plan inside an arena of a given size.
 *
 * Pass by pass: label the dimensions, try sets of loops to cut (none, one, two, three: more only where fewer do not fit), for each set the tile
 * sizes, measure, and keep the fastest that fits. A pass is charged for what it leaves to later passes (their reading), so a cut that makes
 * another pass necessary has to be worth it. Every candidate is scored by its simulated peak; nothing else decides whether it fits. */
#include "plan/search.h"
#include "core/size.h"
#include "plan/cost.h"
#include "plan/keep.h"
#include "pack/pack.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_PASSES 4096
#define BEAM 4 /* sets of loops that are tried with one loop more */
#define RESIDENT_PART 8 /* of a limit: for files that are read once for all trips of the loops */
#define RESIDENT_MOST 2 /* the same, tried as well where that makes a difference */
#define MOST_ENDS 6 /* places where a pass may end although more could be done in it */
#define LARGER_TILES 2 /* above the largest that fits: tried with recomputing and spilling */
#define MOST_DOUBT 16.0 /* times what later passes take at the least that a pass is charged for them, at the most */
#define REFINEMENTS 4 /* steps from the best tiles to better ones beside them */
#define LITTLE 1e9 /* seconds that are added to what such a pass takes */
#define FEW 32 /* a pass that does less than this part of the work that is left is taken only where nothing else fits */
#define SLOW 1.3 /* times what everything would take at the least: then such places are tried */
#define FLOOR_GROWTH (128 << 10) /* bytes above its least that a pass of the smallest plan may take for larger tiles */
#define FLOOR_SMALL (16u << 10) /* values that the smallest plan keeps between passes */

/* Bytes of values in the arena that this or a later pass needs, and of those that are there all the time. */
static uint64_t carried_bytes(const plim__search *s)
{
    const plim_plan *plan = s->plan;
    uint64_t bytes = plan->held_bytes;
    for (uint32_t v = 0; v < plan->graph->n_values; v++) {
        if (plan->home[v].kind != PLIM__HOME_ARENA || plim__slot_is_held(plan, plan->home[v].slot)) continue;
        bool needed = plan->is_output[v] && plan->write_file[v] == PLIM__NONE;
        for (uint32_t u = plan->use0[v]; u < plan->use0[v + 1] && !needed; u++) needed = s->f.active[plan->use[u]];
        if (needed) bytes += plan->slot[plan->home[v].slot].bytes;
    }
    return bytes;
}

/* Seconds that later passes will at least spend on reading and on computing, if this pass is `p`. */
static double later_seconds(plim__search *s, const plim__pass *p)
{
    const plim_plan *plan = s->plan;
    const plim_graph *g = plan->graph;
    double read = 0;
    memset(s->here, 0, g->n_nodes * sizeof *s->here);
    for (uint32_t i = 0; i < p->n_nodes; i++) s->here[p->node[i].node] = true;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (plan->home[v].kind != PLIM__HOME_FILE) continue;
        bool later = false;
        for (uint32_t u = plan->use0[v]; u < plan->use0[v + 1] && !later; u++) later = s->f.active[plan->use[u]] && !s->here[plan->use[u]];
        if (later) read += plim__file_seconds(plan, g->value[v].bytes, false);
    }
    for (uint32_t i = 0; i < p->n_values; i++)
        if (p->value[i].spill && !p->value[i].flat) read += plim__file_seconds(plan, g->value[p->value[i].value].bytes, false);
    double compute = 0;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        if (s->f.active[i] && !s->here[i]) compute += s->work[i];
    for (uint32_t i = 0; i < p->n_nodes; i++)
        if (p->node[i].remade) compute += s->work[p->node[i].node];
    return read > compute ? read : compute;
}

/* How the cut loops are nested. */
typedef enum nesting {
    NEST_BY_FILE,      /* outer loops move slowly through the file */
    NEST_SUMS_INSIDE,  /* loops that some node reduces over are innermost, so that accumulators are small */
    NEST_FILE_INSIDE,  /* outer loops move fast through the file: what another file holds may then be read, or updated, once for each of its parts */
    NESTINGS
} nesting;

static bool is_reduced(const plim__search *s, uint32_t label)
{
    const plim_graph *g = s->plan->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__axes *axes = &s->labels.nest->axes[i];
        if (!s->f.active[i]) continue;
        for (uint32_t a = 0; a < axes->n; a++)
            if (s->labels.axis[i][a] == (int)label && plim__axis_reduces(axes->axis[a].kind)) return true;
    }
    return false;
}

/* Cut labels first; the others by falling distance in the file. */
static void make_order(const plim__search *s, uint32_t cut, nesting how, uint8_t *order)
{
    double key[PLIM__MAX_LOOPS];
    int rank[PLIM__MAX_LOOPS]; /* higher ones are outside of lower ones, whatever their keys */
    for (uint32_t l = 0; l < s->labels.n; l++) {
        const bool is_cut = cut & 1u << l;
        key[l] = s->labels.weight[l] + 1.0 / (2 + l);
        if (is_cut && how == NEST_FILE_INSIDE) key[l] = -key[l];
        rank[l] = !is_cut ? 0 : how == NEST_SUMS_INSIDE && !is_reduced(s, l) ? 2 : 1;
        order[l] = (uint8_t)l;
    }
    for (uint32_t i = 1; i < s->labels.n; i++) /* insertion sort, falling */
        for (uint32_t j = i; j > 0; j--) {
            const uint8_t x = order[j - 1], y = order[j];
            if (rank[y] < rank[x] || (rank[y] == rank[x] && key[y] <= key[x])) break;
            order[j - 1] = y;
            order[j] = x;
        }
}

/* What a pass takes that recomputes and spills inside a limit. */
typedef struct kept_pass {
    bool fits;
    double seconds;
    uint64_t peak, resident;
    uint64_t more; /* bytes of files that would have to be read once for another outcome; UINT64_MAX: all are */
} kept_pass;

/* One simulation of what is kept, with files of so many bytes that are read once for all trips. @param best  replaced where that is faster; its seconds are set */
static plim_status keep_resident(plim__search *s, const plim__pass *p, uint64_t limit, uint64_t resident, kept_pass *best)
{
    const plim__alloc *a = &s->plan->alloc;
    plim__tasks tasks;
    plim__schedule schedule;
    bool fits = false;
    PLIM_TRY(plim__tasks_new(&tasks, s->plan, p, &s->m, resident, s->err));
    uint32_t *order = plim__new(a, tasks.n, sizeof *order, s->err);
    plim_status status = order ? PLIM_OK : PLIM_E_NOMEM;
    if (status == PLIM_OK && plim__tasks_largest(&tasks) <= limit) {
        plim__tasks_by_group(order, &tasks);
        status = plim__keep(&schedule, &fits, s->plan, &tasks, order, limit, s->err);
        s->measured += p->n_nodes;
    }
    best->more = tasks.left_out;
    if (fits) {
        if (!best->fits || schedule.seconds < best->seconds) {
            best->fits = true;
            best->seconds = schedule.seconds;
            best->peak = schedule.peak;
            best->resident = resident;
        }
        plim__schedule_free(&schedule, a);
    }
    plim__free(a, order);
    plim__tasks_free(&tasks, a);
    return status;
}

/* Does the pass, which is measured, do inside the limit when it recomputes and spills? @param c  what it is told to keep; set */
static plim_status keep_inside(plim__search *s, const plim__pass *p, uint64_t carried, plim__candidate *c, uint64_t *peak, double *seconds)
{
    kept_pass best = {0};
    if (carried >= s->limit) return PLIM_OK;
    c->limit = s->limit - carried;
    PLIM_TRY(keep_resident(s, p, c->limit, c->limit / RESIDENT_PART, &best));
    if (best.more <= c->limit / RESIDENT_MOST) PLIM_TRY(keep_resident(s, p, c->limit, c->limit / RESIDENT_MOST, &best));
    if (!best.fits) return PLIM_OK;
    c->kept = true;
    c->resident = best.resident;
    *peak = carried + best.peak;
    *seconds = best.seconds;
    return PLIM_OK;
}

/* Seconds that the nodes of a pass take by themselves: no tile makes it faster. */
static double pass_work(const plim__search *s, const plim__pass *p)
{
    double seconds = 0;
    for (uint32_t i = 0; i < p->n_nodes; i++) seconds += s->work[p->node[i].node];
    return seconds;
}

/* Seconds of the nodes that are still to be done, up to before `end`. */
static double work_before(const plim__search *s, uint32_t end)
{
    double seconds = 0;
    for (uint32_t i = 0; i < s->plan->graph->n_nodes && i < end; i++)
        if (s->f.active[i]) seconds += s->work[i];
    return seconds;
}

/* Seconds that everything that is still to be done takes at the least: its kernels, or its files, each read or written once. */
static double least_seconds(const plim__search *s)
{
    const plim_plan *plan = s->plan;
    const plim_graph *g = plan->graph;
    double disk = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (g->value[v].kind == PLIM__VALUE_NODE && plan->write_file[v] != PLIM__NONE && s->f.active[g->value[v].node])
            disk += plim__file_seconds(plan, g->value[v].bytes, true);
        if (plan->home[v].kind != PLIM__HOME_FILE) continue;
        bool read = false;
        for (uint32_t u = plan->use0[v]; u < plan->use0[v + 1] && !read; u++) read = s->f.active[plan->use[u]];
        if (read) disk += plim__file_seconds(plan, g->value[v].bytes, false);
    }
    return fmax(disk, work_before(s, UINT32_MAX));
}

/* What later passes take is a lower bound, so a pass that does next to nothing always looks good. */
static bool does_little(const plim__search *s, const plim__pass *p)
{
    return pass_work(s, p) < work_before(s, UINT32_MAX) / FEW;
}

/* Tries one combination of tiles. */
static plim_status try_tiles(plim__search *s, plim__pass *p, const plim__candidate *c, uint64_t carried, double later, plim__candidate *best)
{
    PLIM_TRY(plim__pass_measure(&s->m, s->plan, p, carried, false, s->err));
    s->measured += p->n_nodes;
    if (s->m.peak < s->least) s->least = s->m.peak;
    plim__candidate now = *c;
    for (uint32_t l = 0; l < p->n_loops; l++) now.tile[l] = p->loop[l].tile;
    if (s->note) PLIM_TRY(s->note(s->note_ctx, s, &now, s->m.peak, s->m.seconds));
    uint64_t peak = s->m.peak;
    double took = s->m.seconds;
    if (peak > s->limit && s->keeps && !s->smallest) PLIM_TRY(keep_inside(s, p, carried, &now, &peak, &took));
    const plim__preference *prefer = s->plan->prefer;
    const double seconds = took + later; /* at the least */
    now.later = later;
    now.score = s->smallest ? (double)peak : prefer ? prefer->score(prefer->ctx, p, seconds) : took + s->doubt * later;
    if (!s->smallest && !prefer && s->keeps && does_little(s, p)) now.score += LITTLE;
    now.found = true;
    if (!s->smallest && !prefer && s->done + seconds >= s->bound) return PLIM_OK;
    if (peak <= s->limit && (!best->found || now.score < best->score)) *best = now;
    return PLIM_OK;
}

/* Bits by which one size of tile that is tried differs from the next. */
static int tile_shift(const plim__pass *p) { return p->n_cut == 1 ? 1 : p->n_cut == 2 ? 2 : 3; }

/* Number k of the sizes of tile that are tried: the least, twice that and so on, from the loop's grain on in grains; where `shift` is 2 or 3, in powers of four or
 * eight. */
static int64_t tile_size(const plim__loop *l, int k, int shift)
{
    const int64_t grain = l->grain % l->least == 0 ? l->grain : l->least;
    int below = 0;
    while (l->least << below * shift < grain) below++;
    PLIM_ASSERT(k >= 0 && l->least >= 1 && l->grain >= 1 && grain <= l->extent);
    const int64_t unit = k < below ? l->least : grain;
    const int bits = (k < below ? k : k - below) * shift;
    return bits < 63 && unit <= INT64_MAX >> bits ? unit << bits : INT64_MAX;
}

/* How many of them are below the extent; at least one. */
static int tile_sizes(const plim__loop *l, int shift)
{
    int n = 1;
    while (tile_size(l, n, shift) < l->extent) n++;
    return n;
}

/* Every size for every cut loop. */
static plim_status try_all_tiles(plim__search *s, plim__pass *p, uint32_t loop, const plim__candidate *c, uint64_t carried, double later, plim__candidate *best)
{
    if (loop == p->n_cut) return try_tiles(s, p, c, carried, later, best);
    const int shift = tile_shift(p), n = tile_sizes(&p->loop[loop], shift);
    for (int k = 0; k < n; k++) {
        p->loop[loop].tile = tile_size(&p->loop[loop], k, shift);
        PLIM_TRY(try_all_tiles(s, p, loop + 1, c, carried, later, best));
    }
    return PLIM_OK;
}

/* The least tiles of the loops from `first` on. */
static void least_tiles(plim__pass *p, uint32_t first)
{
    for (uint32_t l = first; l < p->n_cut; l++) p->loop[l].tile = p->loop[l].least;
}

/* Does the pass fit with tile number k of `loop`, and the least of those inside it? */
static plim_status fits_with(plim__search *s, plim__pass *p, uint32_t loop, int k, uint64_t carried, bool *fits)
{
    p->loop[loop].tile = tile_size(&p->loop[loop], k, tile_shift(p));
    least_tiles(p, loop + 1);
    PLIM_TRY(plim__pass_measure_peak(&s->m, s->plan, p, carried, s->err));
    s->measured += p->n_nodes / 2;
    if (s->m.peak < s->least) s->least = s->m.peak;
    *fits = s->m.peak <= s->limit;
    return PLIM_OK;
}

/* The largest tile of `loop` with which the pass fits, the least ones inside it: by bisection, for a larger tile takes more. -1: none. */
static plim_status largest_tile(plim__search *s, plim__pass *p, uint32_t loop, uint64_t carried, int *k)
{
    int yes = -1, no = tile_sizes(&p->loop[loop], tile_shift(p));
    bool fits;
    PLIM_TRY(fits_with(s, p, loop, 0, carried, &fits));
    *k = -1;
    if (!fits) return PLIM_OK;
    for (yes = 0; yes + 1 < no;) {
        const int mid = yes + (no - yes) / 2;
        PLIM_TRY(fits_with(s, p, loop, mid, carried, &fits));
        if (fits) yes = mid;
        else no = mid;
    }
    *k = yes;
    return PLIM_OK;
}

/* Tries tiles from a little above the largest that fits, where recomputing and spilling may make room, to the second below: smaller ones take longer.
 * Loops inside take what room there is. */
static plim_status try_large_tiles(plim__search *s, plim__pass *p, uint32_t loop, const plim__candidate *c, uint64_t carried, double later, plim__candidate *best)
{
    if (loop == p->n_cut) return try_tiles(s, p, c, carried, later, best);
    int k;
    PLIM_TRY(largest_tile(s, p, loop, carried, &k));
    const int sizes = tile_sizes(&p->loop[loop], tile_shift(p)), above = s->keeps ? LARGER_TILES : 0;
    const int from = k < 0 ? 0 : k + above < sizes ? k + above : sizes - 1, to = k > 0 ? k - 1 : 0;
    for (int i = from; i >= to && i >= 0; i--) {
        p->loop[loop].tile = tile_size(&p->loop[loop], i, tile_shift(p));
        if (i > k) { /* what does not fit with the least tiles inside */
            least_tiles(p, loop + 1);
            PLIM_TRY(try_tiles(s, p, c, carried, later, best));
        } else {
            PLIM_TRY(try_large_tiles(s, p, loop + 1, c, carried, later, best));
        }
    }
    return PLIM_OK;
}

/* The least tiles: what this cut needs at least. */
static plim_status try_least_tiles(plim__search *s, plim__pass *p, const plim__candidate *c, uint64_t carried, double later, plim__candidate *best)
{
    least_tiles(p, 0);
    return try_tiles(s, p, c, carried, later, best);
}

/* The pass of a candidate, its tiles not yet set. @param complete  it has to leave nothing to later passes */
static plim_status build_candidate(plim__search *s, const plim__candidate *c, bool complete, plim__pass *out)
{
    s->f.complete = complete;
    s->f.end = c->end;
    const plim_status status = plim__pass_build(out, s->plan, &s->f, &s->labels, c->cut, c->order, s->err);
    s->f.complete = false;
    s->f.end = UINT32_MAX;
    return status;
}

/* Tries a cut and a nesting with all of its tiles, or, where the least peak is looked for, with the least.
 * @param least  set to the least peak that was seen with it, UINT64_MAX where it cannot be used */
static plim_status try_nesting(plim__search *s, const plim__candidate *c, uint64_t carried, plim__candidate *best, uint64_t *least)
{
    plim__pass p;
    const plim_status status = build_candidate(s, c, s->complete, &p);
    if (status == PLIM_E_PLAN) return PLIM_OK; /* no progress with this cut */
    if (status != PLIM_OK) return status;
    const double later = later_seconds(s, &p);
    const double work = pass_work(s, &p);
    const bool hopeless = work + later >= s->bound - s->done || (best->found && work + s->doubt * later >= best->score);
    if (s->keeps && !s->note && !s->smallest && !s->plan->prefer && hopeless) {
        plim__pass_free(&s->plan->alloc, &p); /* it cannot be faster */
        return PLIM_OK;
    }
    s->least = *least;
    const bool best_only = s->keeps && !s->note && !s->plan->prefer;
    const plim_status tried = s->smallest ? try_least_tiles(s, &p, c, carried, later, best)
                              : best_only ? try_large_tiles(s, &p, 0, c, carried, later, best)
                                          : try_all_tiles(s, &p, 0, c, carried, later, best);
    *least = s->least;
    plim__pass_free(&s->plan->alloc, &p);
    return tried;
}

/* Tries a cut with every nesting of its loops from `first` to before `end`. */
static plim_status try_cut(plim__search *s, uint32_t cut, uint32_t end, nesting first, nesting behind, uint64_t carried, plim__candidate *best, uint64_t *least)
{
    uint8_t before[NESTINGS][PLIM__MAX_LOOPS] = {{0}};
    for (nesting how = first; how < behind; how++) {
        plim__candidate c = {.cut = cut, .end = end};
        make_order(s, cut, how, c.order);
        memcpy(before[how], c.order, sizeof c.order);
        bool again = false;
        for (nesting other = first; other < how; other++) again |= memcmp(before[other], c.order, sizeof c.order) == 0;
        if (!again) PLIM_TRY(try_nesting(s, &c, carried, best, least));
    }
    return PLIM_OK;
}

/* Sets of loops to cut, and the least peak of each: those with the least are worth another loop. */
typedef struct beam {
    uint32_t cut[BEAM];
    uint64_t least[BEAM];
    uint32_t n;
} beam;

static void beam_add(beam *b, uint32_t cut, uint64_t least)
{
    if (least == UINT64_MAX) return;
    uint32_t at = b->n < BEAM ? b->n++ : BEAM;
    while (at > 0 && b->least[at - 1] > least) {
        if (at < BEAM) {
            b->cut[at] = b->cut[at - 1];
            b->least[at] = b->least[at - 1];
        }
        at--;
    }
    if (at == BEAM) return;
    b->cut[at] = cut;
    b->least[at] = least;
}

/* Is `cut` one of the last round's sets and one loop more? */
static bool beam_reaches(const beam *b, uint32_t cut)
{
    for (uint32_t i = 0; i < b->n; i++)
        if ((b->cut[i] & ~cut) == 0) return true;
    return false;
}

/* Larger tiles, as far as they cost next to nothing: slots are whole pages, what decides the peak may not move at all, and a few percent of memory can make
 * a thousandth of the time. */
static plim_status grow_tiles(plim__search *s, uint64_t carried, plim__candidate *best)
{
    plim__pass p;
    const double most = best->score + fmax(best->score / 32, FLOOR_GROWTH);
    PLIM_TRY(build_candidate(s, best, false, &p));
    for (uint32_t l = 0; l < p.n_loops; l++) p.loop[l].tile = best->tile[l];
    plim_status status = PLIM_OK;
    for (uint32_t l = p.n_cut; l-- > 0 && status == PLIM_OK;)
        for (int k = 1, n = tile_sizes(&p.loop[l], 1); k < n; k++) {
            const int64_t t = tile_size(&p.loop[l], k, 1);
            if (t <= best->tile[l]) continue;
            p.loop[l].tile = t;
            status = plim__pass_measure(&s->m, s->plan, &p, carried, false, s->err);
            if (status != PLIM_OK || (double)s->m.peak > most) {
                p.loop[l].tile = best->tile[l];
                break;
            }
            best->tile[l] = t;
        }
    plim__pass_free(&s->plan->alloc, &p);
    return status;
}

/* Tiles twice and half as large as those of the best candidate, loop by loop, as long as that makes it faster: of several loops only some sizes have been tried. */
static plim_status polish_tiles(plim__search *s, uint64_t carried, plim__candidate *best)
{
    plim__pass p;
    PLIM_TRY(build_candidate(s, best, s->complete, &p));
    const double later = later_seconds(s, &p);
    plim_status status = PLIM_OK;
    for (uint32_t kept = 0, l = 0; p.n_cut > 1 && kept < 2 * p.n_cut && s->measured <= s->most_measured && status == PLIM_OK; l = (l + 1) % (2 * p.n_cut)) {
        const double before = best->score;
        plim__candidate c = {.cut = best->cut, .end = best->end};
        memcpy(c.order, best->order, sizeof c.order);
        for (uint32_t i = 0; i < p.n_loops; i++) p.loop[i].tile = best->tile[i];
        plim__loop *x = &p.loop[l / 2];
        x->tile = l % 2 ? x->tile / 2 : x->tile * 2;
        if (x->tile >= 1 && x->tile < x->extent && x->tile % x->least == 0) status = try_tiles(s, &p, &c, carried, later, best);
        kept = best->score < before ? 0 : kept + 1;
    }
    plim__pass_free(&s->plan->alloc, &p);
    return status;
}

/* The best cut for a pass of nodes before `end`: of more loops only where fewer do not fit, or are slow. */
static plim_status choose_cut(plim__search *s, uint32_t end, plim__candidate *best)
{
    const uint64_t carried = carried_bytes(s);
    const uint32_t n = s->labels.n, all = (1u << n) - 1;
    const double least = least_seconds(s);
    beam last = {.n = 1}; /* the empty set */
    const int fewest = s->complete && s->plan->thorough ? 1 : 0; /* everything uncut has recipes of its own */
    for (int size = fewest; size <= 3; size++) {
        if (size >= 2 && best->found && !s->plan->prefer && !s->smallest && (s->simple || !s->keeps || best->score <= SLOW * least)) break;
        beam now = {0};
        for (uint32_t cut = 0; cut <= all; cut++) {
            if (__builtin_popcount(cut) != size || !(s->plan->prefer || beam_reaches(&last, cut))) continue;
            uint64_t peak = UINT64_MAX;
            PLIM_TRY(try_cut(s, cut, end, NEST_BY_FILE, size > 1 ? NESTINGS : NEST_SUMS_INSIDE, carried, best, &peak));
            beam_add(&now, cut, peak);
        }
        if (size > 0 && now.n > 0) last = now;
    }
    if (!best->found || s->plan->prefer) return PLIM_OK;
    if (s->smallest) return grow_tiles(s, carried, best);
    return s->keeps && !s->simple && best->score > SLOW * least ? polish_tiles(s, carried, best) : PLIM_OK;
}

/* Bytes that would have to be kept from nodes before each node for it or later ones, but for what has a home. */
static void find_crossing(const plim__search *s, uint64_t *crossing)
{
    const plim_plan *plan = s->plan;
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t j = 0; j < g->node[i].n_out && s->f.active[i]; j++) {
            const uint32_t v = g->node[i].out[j];
            uint32_t last = i;
            for (uint32_t u = plan->use0[v]; u < plan->use0[v + 1]; u++)
                if (s->f.active[plan->use[u]] && plan->use[u] > last) last = plan->use[u];
            if (last == i) continue;
            crossing[i + 1] += g->value[v].bytes; /* changes; they wrap, their sums do not */
            crossing[last + 1] -= g->value[v].bytes;
        }
    for (uint32_t i = 1; i <= g->n_nodes; i++) crossing[i] += crossing[i - 1];
}

/* Places to end a pass at: where the least crosses, in each of MOST_ENDS parts of the work that is left. */
static plim_status find_ends(plim__search *s, uint32_t *end, uint32_t *n)
{
    const uint32_t nodes = s->plan->graph->n_nodes;
    const double all = work_before(s, UINT32_MAX);
    double done = 0;
    uint32_t best[MOST_ENDS];
    *n = 0;
    uint64_t *crossing = plim__new(&s->plan->alloc, (uint64_t)nodes + 2, sizeof *crossing, s->err);
    if (!crossing) return PLIM_E_NOMEM;
    find_crossing(s, crossing);
    memset(best, 0xff, sizeof best);
    for (uint32_t i = 0; i < nodes; i++) {
        const uint32_t part = all > 0 ? (uint32_t)(done / all * MOST_ENDS) : 0;
        if (done > 0 && part < MOST_ENDS && s->f.active[i] && (best[part] == PLIM__NONE || crossing[i] < crossing[best[part]])) best[part] = i;
        if (s->f.active[i]) done += s->work[i];
    }
    for (uint32_t part = 0; part < MOST_ENDS; part++)
        if (best[part] != PLIM__NONE) end[(*n)++] = best[part];
    plim__free(&s->plan->alloc, crossing);
    return PLIM_OK;
}

/* The labels of the nodes before `end`. */
static void label_before(plim__search *s, uint32_t end)
{
    for (uint32_t i = 0; i < s->plan->graph->n_nodes; i++) s->here[i] = s->f.active[i] && i < end;
    plim__labels_spread(&s->labels, s->plan->graph, s->here, s->f.on_file, s->plan->is_state);
    s->labelled = false;
}

/* Seconds that a pass loses, per second of work that it does: what it, its transfers and what it leaves behind take more than the nodes by themselves. */
static double loss_of(const plim__search *s, const plim__candidate *c, double all)
{
    const double work = work_before(s, c->end);
    return !c->found ? INFINITY : (c->score - all) / (work > 0 ? work : 1e-9);
}

/* Sizes of tile, `by[l]` steps of a factor of two from those of the candidate, where there are such. */
static bool set_tiles_beside(plim__pass *p, const plim__candidate *c, const int *by)
{
    for (uint32_t l = 0; l < p->n_cut; l++) {
        const int n = tile_sizes(&p->loop[l], 1);
        int k = 0;
        while (k + 1 < n && tile_size(&p->loop[l], k, 1) < c->tile[l]) k++;
        k += by[l];
        if (k < 0 || k >= n) return false;
        p->loop[l].tile = by[l] ? tile_size(&p->loop[l], k, 1) : c->tile[l];
    }
    return true;
}

/* Tries the sizes beside those of the best: each loop's twice as large or half as large, and what one gives to another. */
static plim_status try_tiles_beside(plim__search *s, plim__pass *p, uint64_t carried, plim__candidate *best)
{
    const plim__candidate from = *best;
    plim__candidate c = from;
    c.found = c.kept = false;
    for (uint32_t more = 0; more <= p->n_cut; more++) /* n_cut: none */
        for (uint32_t less = 0; less <= p->n_cut; less++) {
            int by[PLIM__MAX_LOOPS + 1] = {0};
            by[more]++;
            by[less]--;
            if (more != less && set_tiles_beside(p, &from, by)) PLIM_TRY(try_tiles(s, p, &c, carried, from.later, best));
        }
    return PLIM_OK;
}

/* The sizes that are tried for several loops are far apart: goes on from the best to its neighbours while they are better. */
static plim_status refine_tiles(plim__search *s, plim__candidate *best)
{
    plim__pass p;
    if (!best->found || !best->cut || !s->keeps || s->smallest || s->note || s->plan->prefer) return PLIM_OK;
    const uint64_t carried = carried_bytes(s);
    PLIM_TRY(build_candidate(s, best, s->complete, &p));
    plim_status status = PLIM_OK;
    double before = INFINITY;
    for (int round = 0; round < REFINEMENTS && status == PLIM_OK && best->score < before && tile_shift(&p) > 1; round++) {
        before = best->score;
        status = try_tiles_beside(s, &p, carried, best);
    }
    plim__pass_free(&s->plan->alloc, &p);
    return status;
}

/* A pass that does everything that it can; where that takes long, or does not fit, perhaps one that ends earlier: groups of layers, with what crosses
 * them on file. */
static plim_status choose_pass(plim__search *s, plim__candidate *best)
{
    uint32_t end[MOST_ENDS], n = 0;
    if (carried_bytes(s) >= s->limit || s->measured > s->most_measured) return PLIM_OK;
    PLIM_TRY(choose_cut(s, UINT32_MAX, best));
    PLIM_TRY(refine_tiles(s, best));
    const double all = work_before(s, UINT32_MAX);
    if (!s->groups || !s->keeps || s->complete || (best->found && (s->simple || best->score <= SLOW * least_seconds(s)))) return PLIM_OK;
    PLIM_TRY(find_ends(s, end, &n));
    for (uint32_t i = 0; i < n && s->measured <= s->most_measured; i++) {
        plim__candidate c = {0};
        label_before(s, end[i]);
        PLIM_TRY(choose_cut(s, end[i], &c));
        c.end = end[i];
        PLIM_TRY(refine_tiles(s, &c));
        if (loss_of(s, &c, all) < loss_of(s, best, all)) *best = c;
    }
    if (n > 0) label_before(s, best->found ? best->end : UINT32_MAX);
    return PLIM_OK;
}

/* Measures a pass tile by tile, and appends it and its slots to the plan, which owns it from here on, also when this fails. */
static plim_status append(plim__search *s, plim__pass p)
{
    plim_plan *plan = s->plan;
    const plim__alloc *a = &plan->alloc;
    plim_status status = plim__grow(a, (void **)&plan->pass, &plan->cap_passes, plan->n_passes + 1, sizeof *plan->pass, s->err);
    if (status == PLIM_OK) status = plim__pass_measure(&s->m, plan, &p, carried_bytes(s), !s->rough, s->err);
    if (status == PLIM_OK) status = plim__grow(a, (void **)&plan->slot, &plan->cap_slots, plan->n_slots + s->m.n_slots, sizeof *plan->slot, s->err);
    if (status != PLIM_OK) {
        plim__pass_free(a, &p);
        return status;
    }
    p.time0 = plan->n_steps;
    p.seconds = s->m.seconds;
    s->done += p.seconds;
    p.compute = s->m.compute;
    p.read_bytes = s->m.read_bytes;
    p.write_bytes = s->m.write_bytes;
    const uint32_t base = plan->n_slots;
    for (uint32_t i = 0; i < s->m.n_slots; i++) {
        plim__slot slot = s->m.slot[i];
        slot.pass = plan->n_passes;
        slot.first += p.time0;
        slot.last += p.time0;
        plan->slot[plan->n_slots++] = slot;
    }
    for (uint32_t i = 0; i < p.n_values; i++) {
        plim__pvalue *v = &p.value[i];
        if (v->slot == PLIM__NONE) continue;
        if (v->foreign) plan->slot[v->slot].last = p.time0 + p.n_steps - 1;
        else v->slot += base;
    }
    for (uint32_t i = 0; i < p.n_nodes; i++)
        if (p.node[i].copies_slot != PLIM__NONE) p.node[i].copies_slot += base;
    for (uint32_t i = 0; i < p.n_stages; i++)
        if (p.stage[i].slot != PLIM__NONE) p.stage[i].slot += base;
    plan->n_steps += p.n_steps;
    plan->pass[plan->n_passes++] = p;
    return plim__pass_settle(plan, &s->f, &plan->pass[plan->n_passes - 1], s->err);
}

/* A pass that does what the candidate keeps. @param p  the template, measured; freed */
static plim_status append_kept(plim__search *s, plim__pass *p, const plim__candidate *c)
{
    const plim__alloc *a = &s->plan->alloc;
    plim__tasks tasks = {0};
    plim__schedule schedule = {0};
    plim__pass kept = {0};
    bool fits = false;
    uint32_t *order = NULL;
    plim_status status = plim__pass_measure(&s->m, s->plan, p, carried_bytes(s), false, s->err);
    if (status == PLIM_OK) status = plim__tasks_new(&tasks, s->plan, p, &s->m, c->resident, s->err);
    if (status == PLIM_OK && !(order = plim__new(a, tasks.n, sizeof *order, s->err))) status = PLIM_E_NOMEM;
    if (status == PLIM_OK) {
        plim__tasks_by_group(order, &tasks);
        status = plim__keep(&schedule, &fits, s->plan, &tasks, order, c->limit, s->err);
        PLIM_ASSERT(status != PLIM_OK || fits);
    }
    if (status == PLIM_OK) status = plim__pass_build_scheduled(&kept, s->plan, &s->f, p, &schedule, s->err);
    plim__free(a, order);
    plim__schedule_free(&schedule, a);
    plim__tasks_free(&tasks, a);
    plim__pass_free(a, p);
    return status == PLIM_OK ? append(s, kept) : status;
}

/* Builds the chosen pass again. */
static plim_status commit(plim__search *s, const plim__candidate *c)
{
    plim__pass p;
    PLIM_TRY(build_candidate(s, c, false, &p));
    for (uint32_t l = 0; l < p.n_loops; l++) p.loop[l].tile = c->tile[l];
    return c->kept ? append_kept(s, &p, c) : append(s, p);
}

static bool any_active(const plim__search *s)
{
    for (uint32_t i = 0; i < s->plan->graph->n_nodes; i++)
        if (s->f.active[i]) return true;
    return false;
}

/* The most bytes of slots that are alive at one step. */
static plim_status bound_slots(const plim_plan *plan, uint64_t *bound, plim_error *err)
{
    uint64_t *change = plim__new(&plan->alloc, (uint64_t)plan->n_steps + 2, sizeof *change, err);
    if (!change) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < plan->n_slots; i++) { /* changes wrap, their sums do not */
        const plim__slot *x = &plan->slot[i];
        const uint64_t bytes = plim__round_up(x->bytes * x->copies, PLIM__IO_ALIGN);
        if (x->first > x->last) continue;
        PLIM_ASSERT(x->last <= plan->n_steps);
        change[x->first] += bytes;
        change[x->last + 1] -= bytes;
    }
    uint64_t live = 0;
    *bound = 0;
    for (uint32_t t = 0; t <= plan->n_steps; t++) {
        live += change[t];
        if (live > *bound) *bound = live;
    }
    plim__free(&plan->alloc, change);
    return PLIM_OK;
}

/* Offsets for all slots, or, of a rough plan, what they need at the least. A slot's copies lie side by side. */
static plim_status pack_slots(const plim__search *s, plim_error *err)
{
    plim_plan *plan = s->plan;
    const plim_graph *g = plan->graph;
    for (uint32_t i = 0; i < g->n_outputs; i++) {
        const plim__home *home = &plan->home[g->output[i].value];
        if (home->kind == PLIM__HOME_ARENA && !g->output[i].path && plan->n_steps) plan->slot[home->slot].last = plan->n_steps - 1;
    }
    for (uint32_t i = 0; i < plan->n_slots && plim__slot_is_held(plan, i); i++) plan->slot[i].last = plan->n_steps ? plan->n_steps - 1 : 0;
    if (s->rough) {
        PLIM_TRY(bound_slots(plan, &plan->arena_bytes, err));
        plan->arena_bytes += plan->io_bytes;
        return PLIM_OK;
    }
    plim_buffer *buf = plim__new(&plan->alloc, plan->n_slots, sizeof *buf, err);
    if (!buf) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < plan->n_slots; i++) {
        const plim__slot *x = &plan->slot[i];
        buf[i] = (plim_buffer){.lower = x->first, .upper = (int64_t)x->last + 1, .size = plim__round_up(x->bytes * x->copies, PLIM__IO_ALIGN)};
    }
    plim_pack_result res = {0};
    const plim__pack_effort effort = plim__pack_effort_quick();
    const plim_status status = plim__pack(buf, plan->n_slots, &(plim_pack_options){.alignment = PLIM__IO_ALIGN}, &effort, &res, &plan->alloc, err);
    for (uint32_t i = 0; i < plan->n_slots && status == PLIM_OK; i++) plan->slot[i].offset = plan->io_bytes + buf[i].offset;
    plan->arena_bytes = plan->io_bytes + plim__round_up(res.height, PLIM__IO_ALIGN);
    plan->facts.arena_bound_bytes = plan->io_bytes + res.bound;
    plim__free(&plan->alloc, buf);
    return status;
}

/* The slots of what is held come first: room for them was made with the plan. */
static void place_held(plim_plan *plan)
{
    const plim_graph *g = plan->graph;
    plan->held_bytes = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        if (!plan->held[v]) continue;
        const plim__slot s = {.value = v, .stage = PLIM__NONE, .copies = 1, .bytes = plim__round_up(g->value[v].bytes, 64),
                              .box = plim__region_whole(&g->value[v].shape)};
        plan->home[v] = (plim__home){.kind = PLIM__HOME_ARENA, .file = PLIM__NONE, .slot = plan->n_slots};
        plan->held_bytes += plim__round_up(s.bytes, PLIM__IO_ALIGN);
        plan->slot[plan->n_slots++] = s;
    }
    for (uint32_t i = 0; i < g->n_states; i++) plan->write_file[g->state[i].out] = plan->held[g->state[i].in] ? PLIM__NONE : plan->state_file[i];
}

/* Bytes that an input takes in the arena, if it may be held there but need not: it has to where there is no other place for it. */
static uint64_t may_hold(const plim_plan *plan, uint32_t v)
{
    const plim_graph *g = plan->graph;
    const bool may = g->value[v].kind == PLIM__VALUE_FILE && g->value[v].bytes > 0 && g->source[g->value[v].source].stay == PLIM__STAY_MAY;
    return may && (plan->set.spill_dir || !plim__input_is_ours(plan, v)) ? plim__round_up(g->value[v].bytes, PLIM__IO_ALIGN) : 0;
}

static int smaller_input(const void *a, const void *b)
{
    const plim__held_size *x = a, *y = b;
    if (x->bytes != y->bytes) return x->bytes < y->bytes ? -1 : 1;
    return x->value < y->value ? -1 : x->value > y->value;
}

/* What is not held is read whole before it is used: so the sizes of what is let go are as small as they can be, and it is few: the largest ones of the
 * smallest that have, together, enough bytes. */
uint64_t plim__plan_hold(plim_plan *plan, uint64_t most)
{
    const plim_graph *g = plan->graph;
    uint64_t must = 0, may = 0, sum = 0;
    uint32_t n = 0, end = 0;
    for (uint32_t v = 0; v < g->n_values; v++) {
        const bool input = g->value[v].kind == PLIM__VALUE_FILE && g->value[v].bytes > 0;
        plan->held[v] = input && (g->source[g->value[v].source].stay >= PLIM__STAY_MAY || (!plan->set.spill_dir && plim__input_is_ours(plan, v)));
        const uint64_t bytes = may_hold(plan, v);
        may += bytes;
        if (bytes > 0) plan->held_size[n++] = (plim__held_size){bytes, v};
        else if (plan->held[v]) must += plim__round_up(g->value[v].bytes, PLIM__IO_ALIGN);
    }
    if (may <= most) return must + may;
    qsort(plan->held_size, n, sizeof *plan->held_size, smaller_input);
    while (sum < may - most) sum += plan->held_size[end++].bytes;
    for (uint32_t i = end; may > most; i--) {
        PLIM_ASSERT(i > 0);
        plan->held[plan->held_size[i - 1].value] = false;
        may -= plan->held_size[i - 1].bytes;
    }
    return must + may;
}

uint64_t plim__plan_largest_held(plim_plan *plan, uint32_t n)
{
    uint64_t bytes = 0;
    uint32_t k = 0;
    for (uint32_t v = 0; v < plan->graph->n_values; v++)
        if (may_hold(plan, v) > 0) plan->held_size[k++] = (plim__held_size){may_hold(plan, v), v};
    qsort(plan->held_size, k, sizeof *plan->held_size, smaller_input);
    for (uint32_t i = 0; i < n && i < k; i++) bytes += plan->held_size[k - 1 - i].bytes;
    return bytes;
}

void plim__plan_clear(plim_plan *plan)
{
    for (uint32_t i = 0; i < plan->n_passes; i++) plim__pass_free(&plan->alloc, &plan->pass[i]);
    plan->n_passes = plan->n_slots = plan->n_steps = 0;
    while (plan->n_files > 0 && plan->file[plan->n_files - 1].kind == PLIM__FILE_SPILL) {
        const plim__file *f = &plan->file[--plan->n_files];
        plan->write_file[f->value] = PLIM__NONE;
        plan->own_bytes = f->io.offset;
    }
    const plim_graph *g = plan->graph;
    for (uint32_t v = 0; v < g->n_values; v++) {
        plim__home *h = &plan->home[v];
        *h = (plim__home){.kind = PLIM__HOME_NOWHERE, .file = PLIM__NONE, .slot = PLIM__NONE};
        if (g->value[v].kind == PLIM__VALUE_CONST) h->kind = PLIM__HOME_CONST;
    }
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plim__file_is_read(plan->file[i].kind)) plan->home[plan->file[i].value] = (plim__home){PLIM__HOME_FILE, i, PLIM__NONE};
    place_held(plan);
}

plim_status plim__search_restart(plim__search *s)
{
    plim_plan *plan = s->plan;
    plim__plan_clear(plan);
    s->done = 0;
    s->n_chosen = 0;
    memset(s->f.made, 0, plan->graph->n_nodes * sizeof *s->f.made);
    return plim__frontier_update(plan, &s->f);
}

void plim__search_label(plim__search *s)
{
    PLIM_ASSERT(s->plan->n_passes == 0);
    if (!s->labelled) label_before(s, UINT32_MAX);
    s->labelled = true;
}

/* Passes for what is still to be done. `*fits` is false where none was found that does some of it. */
static plim_status find_rest(plim__search *s, bool *fits)
{
    plim_plan *plan = s->plan;
    *fits = false;
    while (any_active(s)) {
        PLIM_FAIL_IF(plan->n_passes == MAX_PASSES, s->err, PLIM_E_PLAN, "the program needs more than %d passes", MAX_PASSES);
        if (plan->n_passes > 0) label_before(s, UINT32_MAX);
        else plim__search_label(s);
        plim__candidate best = {0};
        PLIM_TRY(choose_pass(s, &best));
        if (!best.found) return PLIM_OK;
        PLIM_TRY(plim__grow(&plan->alloc, (void **)&s->chosen, &s->cap_chosen, s->n_chosen + 1, sizeof *s->chosen, s->err));
        s->chosen[s->n_chosen++] = best;
        PLIM_TRY(commit(s, &best));
        if (plan->n_passes == 1) s->later = best.later;
        if (s->done >= s->bound) return PLIM_OK; /* what it was compared by was a lower bound */
    }
    *fits = true;
    return PLIM_OK;
}

static plim_status find_passes(plim__search *s, bool *fits)
{
    PLIM_TRY(plim__search_restart(s));
    PLIM_TRY(find_rest(s, fits));
    return *fits ? pack_slots(s, s->err) : PLIM_OK;
}

static plim_status new_tables(plim__search *s)
{
    const plim__alloc *a = &s->plan->alloc;
    const plim_graph *g = s->plan->graph;
    s->f.active = plim__new(a, g->n_nodes, sizeof *s->f.active, s->err);
    s->f.made = plim__new(a, g->n_nodes, sizeof *s->f.made, s->err);
    s->f.on_file = plim__new(a, g->n_values, sizeof *s->f.on_file, s->err);
    s->here = plim__new(a, g->n_nodes, sizeof *s->here, s->err);
    s->work = plim__new(a, g->n_nodes, sizeof *s->work, s->err);
    if (!s->f.active || !s->f.made || !s->f.on_file || !s->here || !s->work) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < g->n_nodes; i++) s->work[i] = plim__node_seconds(s->plan, i);
    return plim__labels_new(&s->labels, g, &s->plan->nest, a, s->err);
}

plim_status plim__search_new(plim__search *s, plim_plan *plan, plim_error *err)
{
    *s = (plim__search){.plan = plan, .keeps = plan->thorough, .bound = INFINITY, .doubt = 1, .most_measured = UINT64_MAX,
                        .f.end = UINT32_MAX, .err = err};
    const plim_status status = new_tables(s);
    if (status != PLIM_OK) plim__search_free(s);
    return status;
}

void plim__search_free(plim__search *s)
{
    const plim__alloc *a = &s->plan->alloc;
    plim__free(a, s->f.active);
    plim__free(a, s->f.made);
    plim__free(a, s->f.on_file);
    plim__free(a, s->here);
    plim__free(a, s->work);
    plim__free(a, s->chosen);
    plim__labels_free(&s->labels, a);
    plim__measure_free(&s->m, a);
}

/* Passes are looked for inside so many bytes of slots. */
static void set_limit(plim__search *s, uint64_t limit)
{
    s->limit = limit;
    s->f.small = limit / 16;
    s->f.spill_above = s->plan->set.spill_dir ? limit / 4 : UINT64_MAX;
}

plim_status plim__search_again(plim__search *s, const plim__candidate *c, uint32_t n, uint64_t limit)
{
    set_limit(s, limit);
    PLIM_TRY(plim__search_restart(s));
    for (uint32_t i = 0; i < n; i++) {
        label_before(s, c[i].end);
        PLIM_TRY(commit(s, &c[i]));
    }
    PLIM_ASSERT(!any_active(s));
    return pack_slots(s, s->err);
}

/* Packing can miss the bound by a little; then the slots get that much less and the search is repeated. */
static plim_status search_inside(plim__search *s, uint64_t arena_max, bool *fits)
{
    uint64_t limit = arena_max > s->plan->io_bytes ? arena_max - s->plan->io_bytes : 0;
    for (int round = 0; round < 4; round++) {
        set_limit(s, limit);
        PLIM_TRY(find_passes(s, fits));
        if (!*fits || s->plan->arena_bytes <= arena_max) return PLIM_OK;
        const uint64_t over = s->plan->arena_bytes - arena_max;
        *fits = false;
        if (over >= limit) return PLIM_OK;
        limit -= over;
    }
    return PLIM_OK;
}

double plim__search_doubt(const plim__search *s)
{
    const plim_plan *plan = s->plan;
    PLIM_ASSERT(plan->n_passes > 0);
    const double took = s->done - plan->pass[0].seconds;
    return plan->n_passes > 1 && took > s->later ? took / fmax(s->later, took / MOST_DOUBT) : 1;
}

plim_status plim__search_small(plim__search *s, bool complete, bool *found)
{
    plim_plan *plan = s->plan;
    plan->read_copies = plan->write_copies = 1;
    plim__plan_io(plan, PLIM__IO_LEVEL_LEAST);
    s->smallest = true;
    s->complete = complete;
    s->limit = UINT64_MAX;
    s->f.small = complete ? UINT64_MAX : FLOOR_SMALL;
    s->f.spill_above = plan->set.spill_dir && !complete ? FLOOR_SMALL : UINT64_MAX;
    const plim_status status = find_passes(s, found);
    s->smallest = s->complete = false;
    return status;
}

plim_status plim__search_with_rings(plim__search *s, int rings, int io, uint64_t arena_max, bool *fits)
{
    static const uint32_t copies[PLIM__RING_LEVELS] = {3, 2, 1};
    plim_plan *plan = s->plan;
    PLIM_ASSERT(rings >= 0 && rings < PLIM__RING_LEVELS && io >= 0 && io <= PLIM__IO_LEVEL_LEAST);
    *fits = false;
    plan->read_copies = plan->write_copies = copies[rings];
    plim__plan_io(plan, s->io = io);
    if (plan->io_bytes > arena_max / 3 && io < PLIM__IO_LEVEL_LEAST) return PLIM_OK; /* the engine's buffers must not crowd out the program */
    return search_inside(s, arena_max, fits);
}

plim_status plim__search_passes(plim__search *s, uint64_t arena_max, bool *fits)
{
    *fits = false;
    for (int rings = 0; rings < PLIM__RING_LEVELS && !*fits; rings++)
        for (int io = 0; io <= PLIM__IO_LEVEL_LEAST && !*fits; io++) PLIM_TRY(plim__search_with_rings(s, rings, io, arena_max, fits));
    return PLIM_OK;
}

/* Cuts of `size` loops: all of them with the least tiles, then the best with every size of tile. */
static plim_status note_cuts(plim__search *s, int size, const beam *last, beam *now)
{
    const uint64_t carried = carried_bytes(s);
    plim__candidate best = {0};
    *now = (beam){0};
    for (uint32_t cut = 0; cut < 1u << s->labels.n; cut++) {
        if (__builtin_popcount(cut) != size || !beam_reaches(last, cut)) continue;
        uint64_t least = UINT64_MAX;
        s->smallest = true;
        PLIM_TRY(try_cut(s, cut, UINT32_MAX, NEST_BY_FILE, size > 1 ? NESTINGS : NEST_SUMS_INSIDE, carried, &best, &least));
        s->smallest = false;
        beam_add(now, cut, least);
    }
    for (uint32_t i = 0; i < now->n && i < (uint32_t)BEAM >> (size > 1 ? size - 1 : 0); i++) {
        uint64_t least = UINT64_MAX;
        PLIM_TRY(try_cut(s, now->cut[i], UINT32_MAX, NEST_BY_FILE, size > 1 ? NESTINGS : NEST_SUMS_INSIDE, carried, &best, &least));
    }
    return PLIM_OK;
}

plim_status plim__search_complete(plim__search *s, int most_loops)
{
    beam last = {.n = 1}, now; /* the empty set */
    s->complete = true;
    s->limit = UINT64_MAX;
    s->f.small = s->f.spill_above = UINT64_MAX;
    plim__search_label(s);
    plim_status status = PLIM_OK;
    for (int size = 1; size <= most_loops && status == PLIM_OK && last.n > 0; size++) {
        status = note_cuts(s, size, &last, &now);
        last = now;
    }
    s->complete = s->smallest = false;
    return status;
}

plim_status plim__search_one_pass(plim__search *s, const plim__candidate *c)
{
    PLIM_TRY(plim__search_restart(s));
    plim__search_label(s);
    s->f.small = s->f.spill_above = UINT64_MAX;
    PLIM_TRY(commit(s, c));
    return pack_slots(s, s->err);
}

/* Everything stays inside the pass: nothing is small enough to be kept for later ones, or large enough to be put away. */
plim_status plim__search_template(plim__search *s, const plim__candidate *c, plim__pass *out)
{
    plim__search_label(s);
    s->f.small = s->f.spill_above = UINT64_MAX;
    s->f.complete = true;
    s->f.defer = c->defer;
    const plim_status status = plim__pass_build(out, s->plan, &s->f, &s->labels, c->cut, c->order, s->err);
    s->f.complete = s->f.defer = false;
    for (uint32_t l = 0; l < out->n_loops && status == PLIM_OK; l++) out->loop[l].tile = c->cut ? c->tile[l] : out->loop[l].extent;
    return status;
}

plim_status plim__search_uncut(plim__search *s, plim__pass *out)
{
    plim__candidate c = {0};
    plim__search_label(s);
    make_order(s, 0, NEST_BY_FILE, c.order);
    return plim__search_template(s, &c, out);
}

/* What the first pass has left, with rings where there is room for them. */
static plim_status find_deferred(plim__search *s, uint64_t arena_max, bool *fits)
{
    plim_plan *plan = s->plan;
    if (plan->io_bytes >= arena_max) return PLIM_OK;
    s->limit = arena_max - plan->io_bytes;
    s->f.small = s->limit / 16;
    plan->read_copies = plan->write_copies = 2;
    s->simple = true;
    plim_status status = find_rest(s, fits);
    plan->read_copies = plan->write_copies = 1;
    if (status == PLIM_OK && !*fits) status = find_rest(s, fits);
    s->simple = false;
    return status;
}

plim_status plim__search_scheduled(plim__search *s, const plim__pass *template, const plim__schedule *schedule, uint64_t arena_max, bool *fits)
{
    plim__pass p;
    *fits = true;
    PLIM_TRY(plim__search_restart(s));
    s->f.small = s->f.spill_above = UINT64_MAX;
    PLIM_TRY(plim__pass_build_scheduled(&p, s->plan, &s->f, template, schedule, s->err));
    PLIM_TRY(append(s, p));
    if (any_active(s)) {
        *fits = false;
        PLIM_TRY(find_deferred(s, arena_max, fits));
    }
    return *fits ? pack_slots(s, s->err) : PLIM_OK;
}
