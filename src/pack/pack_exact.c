/* The exact search: is there a packing of height `cap`?
 *
 * Every packing can be settled so that each buffer lies at 0 or on top of another, and so that the sum of all offsets is least. The
 * search builds such packings from the bottom up. An unplaced buffer has a minimum: the lowest offset that the placed ones leave it.
 * The floor of a section is the lowest minimum of its unplaced buffers. A valley is a run of sections of one floor with higher floors
 * on both sides: whatever lies on a valley's floor lies inside the valley.
 *
 *     floor  ____              ____     A node takes one section s of one valley. Either one of the unplaced buffers alive in s
 *                |____________|         lies on the floor there, or none does, and the section wastes some of its room:
 *                  valley  s            then its floor rises to the next height at which something could be supported.
 *
 * Whichever section a node takes, these alternatives are all there are; so it takes the one with the fewest (fail first), and sections
 * that ended many branches count as having fewer (the weighted degree of constraint solvers). A node first places each of its
 * candidates on trial. Those that fail are dropped; the others are tried in order of the room that they waste, where waste counts more
 * in a section that has little room to spare. That order, more than anything else, finds packings: most branches of tight instances
 * fail because of room that was wasted long before.
 *
 * A branch is cut off when the floor of a section plus its unplaced sizes exceeds `cap`, when a buffer does not fit below `cap`, when
 * the buffer would rest on wasted room only (it could slide down), and when a twin of the same lifetime and size comes first.
 * Where no unplaced buffer spans a border between sections, the two sides are independent and solved one after the other.
 *
 * A branch that fails says why: the conflict is the set of decisions that the failure rests on. For a section without room these are
 * the buffers placed in it, its own waste, and what pushed its unplaced buffers up. With `backjump`, a node whose own decision is not
 * in the conflict of its branch has no reason to try another one, and hands the conflict down (Prosser's conflict-directed
 * backjumping, 1993). The conflict leaves out supports, twins and heights of waste, so a search that has jumped can find a packing but
 * proves nothing by failing.
 *
 * Buffers are sorted by first section, so each side is an index range; placed buffers stay in it with a minimum of NEVER. A node costs
 * O(n + sections) plus, per candidate, the buffers alive with it. Changes go on a trail; nothing is allocated during a search.
 *
 * Sizes beyond 31 bits are rounded up to 2^shift units. The packing found is then settled again with the true sizes, which only
 * lowers it. Depth of recursion: one level per decision, DEPTH_PER_BUFFER per buffer at most. A plim__exact serves one thread. */
#include "pack/pack.h"

#include "core/size.h"

#include <string.h>

#define NEVER (INT32_MAX / 2)
#define LOAD_MAX (1 << 29) /* NEVER plus a size still fits */
#define DEPTH_PER_BUFFER 2  /* decisions of a path, most of which are placements; a search that needs more gives up */
#define BLAME_WEIGHT 0.1    /* a section that ended 10 branches counts twice */
#define SLACK_SOFTENING 0.1 /* of cap: keeps waste in a section without slack from outweighing everything */

/* The value before a change. Of a buffer: its minimum and pusher; of section s, as buffer -1 - s: its floor. */
typedef struct trail_entry {
    int32_t buffer, min, pusher;
} trail_entry;

typedef struct decision {
    int32_t buffer;   /* placed; -1 - s: section s wastes room */
    uint32_t trail_n; /* length of the trail before it */
} decision;

typedef struct candidate {
    double key; /* lowest first */
    int32_t buffer;
} candidate;

struct plim__exact {
    const plim__pack_view *view;
    int32_t *block;      /* holds all of the int32 arrays */
    uint32_t shift;      /* size[] is in 2^shift units of the view */
    int32_t *size;       /* (n) */
    int32_t *reach;      /* (n) first index whose buffer may overlap this one */
    int32_t *twin;       /* (n) the twin that must be placed first, or -1; depends on rank */
    int32_t *twin_group; /* (n) buffers of equal lifetime and size share a number */
    int32_t *twin_last;  /* (n) scratch */
    int32_t *rank;       /* (n) place in the order */
    int32_t *first;      /* (sections + 1) index of the first buffer born in or after a section */
    int32_t *member_at;  /* (sections + 1) into member */
    int32_t *member;     /* the buffers alive in each section */
    int32_t *total_all;  /* (sections) sum of sizes */
    int32_t *cut_all;    /* (sections) buffers that span the border above this section */
    uint32_t *blame;     /* (sections) the caller's */
    plim__exact_style style;
    uint64_t random;
    int32_t cap;
    int32_t *min;        /* (n) lowest offset possible, NEVER once placed */
    int32_t *pusher;     /* (n) what min rests on: a placed buffer; n + s: waste of section s; -1: the bottom */
    int32_t *place;      /* (n) offset of a placed buffer */
    int32_t *total;      /* (sections) unplaced units */
    int32_t *cut;        /* (sections) unplaced buffers across the border above */
    int32_t *floor;      /* (sections) lowest min of the unplaced buffers; stale once there are none */
    int32_t *witness;    /* (sections) a hint: a buffer whose min was the floor */
    int32_t *wasted;     /* (sections) decisions on the path that waste room here */
    int32_t *run;        /* (sections) scratch: first section of the run that a section is in */
    int32_t *least;      /* (sections) scratch: smallest candidate of the run that starts here */
    int32_t *count;      /* (sections + 1) scratch: candidates, as differences */
    trail_entry *trail;
    uint32_t trail_n, trail_max;
    decision *done;      /* (depth_max) */
    uint32_t done_n, depth_max;
    candidate *pool;     /* (pool_max) the candidates of all nodes on the path */
    uint32_t pool_n, pool_max;
    uint64_t nodes;      /* left */
    bool jumped;         /* has left a node early: failing proves nothing */
    uint32_t words;      /* of a set of decisions: buffers, then sections */
    uint64_t *conflict;  /* (words) why the newest branch failed */
    uint64_t *tried;     /* (depth_max + 1, words) per depth: why the branches tried so far failed */
};

/* A side of a split: sections [lo, hi), and the buffers born there. */
typedef struct span {
    int32_t lo, hi;
} span;

/* ------------------------------------------------------------------------------------------------- set-up */

static uint32_t count_pairs(const plim__pack_view *v)
{
    uint32_t pairs = 0;
    for (uint32_t i = 0; i < v->n; i++) {
        for (uint32_t j = i + 1; j < v->n && v->lo[j] < v->hi[i]; j++) pairs++;
    }
    return pairs;
}

/* Rounding up adds less than one unit per buffer, so loads stay below LOAD_MAX. */
static void scale_sizes(plim__exact *x)
{
    const plim__pack_view *v = x->view;
    while ((v->bound >> x->shift) + v->n >= LOAD_MAX) x->shift++;
    const int64_t round = ((int64_t)1 << x->shift) - 1;
    for (uint32_t i = 0; i < v->n; i++) x->size[i] = (int32_t)((v->size[i] + round) >> x->shift);
}

static void fill_sections(plim__exact *x)
{
    const plim__pack_view *v = x->view;
    uint32_t i = 0;
    for (uint32_t s = 0; s <= v->sections; s++) {
        while (i < v->n && v->lo[i] < (int32_t)s) i++;
        x->first[s] = (int32_t)i;
    }
    for (i = 0; i < v->n; i++) {
        for (int32_t s = v->lo[i]; s < v->hi[i]; s++) {
            x->total_all[s] += x->size[i];
            x->member_at[s + 1]++;
            if (s + 1 < v->hi[i]) x->cut_all[s]++;
        }
    }
    for (uint32_t s = 0; s < v->sections; s++) x->member_at[s + 1] += x->member_at[s];
    for (uint32_t s = 0; s < v->sections; s++) {
        int32_t at = x->member_at[s];
        for (int32_t b = 0; b < x->first[s + 1]; b++) {
            if (v->hi[b] > (int32_t)s) x->member[at++] = b;
        }
        x->witness[s] = x->member[x->member_at[s]];
    }
}

static void fill_buffers(plim__exact *x)
{
    const plim__pack_view *v = x->view;
    for (uint32_t i = 0; i < v->n; i++) {
        int32_t r = 0;
        while (v->hi[r] <= v->lo[i]) r++;
        x->reach[i] = r;
        x->twin_group[i] = (int32_t)i;
        for (int32_t j = (int32_t)i - 1; j >= 0 && v->lo[j] == v->lo[i]; j--) {
            if (v->hi[j] == v->hi[i] && x->size[j] == x->size[i]) {
                x->twin_group[i] = x->twin_group[j];
                break;
            }
        }
    }
}

static uint64_t count_members(const plim__pack_view *v)
{
    uint64_t members = 0;
    for (uint32_t i = 0; i < v->n; i++) members += (uint64_t)(v->hi[i] - v->lo[i]);
    return members;
}

plim_status plim__exact_new(plim__exact **out, const plim__pack_view *view, const plim__alloc *a, plim_error *err)
{
    *out = NULL;
    PLIM_FAIL_IF(view->n == 0 || view->n > PLIM__EXACT_MAX, err, PLIM_E_INVALID, "the exact search takes 1 to %d buffers, not %u",
                 PLIM__EXACT_MAX, view->n);
    const uint64_t n = view->n, sections = view->sections, members = count_members(view);
    plim__exact *x = plim__new(a, 1, sizeof *x, err);
    if (!x) return PLIM_E_NOMEM;
    int32_t *p = plim__new(a, 9 * n + 12 * sections + 3 + members, sizeof *p, err);
    x->block = p;
    x->trail_max = 2 * count_pairs(view) + 8 * (uint32_t)members + 16 * (uint32_t)n;
    x->depth_max = DEPTH_PER_BUFFER * (uint32_t)n + 64;
    x->pool_max = 64 * (uint32_t)n;
    x->words = (uint32_t)(n + sections + 63) / 64;
    x->trail = plim__new(a, x->trail_max, sizeof *x->trail, err);
    x->done = plim__new(a, x->depth_max, sizeof *x->done, err);
    x->pool = plim__new(a, x->pool_max, sizeof *x->pool, err);
    x->conflict = plim__new(a, (x->depth_max + 2) * (uint64_t)x->words, sizeof *x->conflict, err);
    if (!p || !x->trail || !x->done || !x->pool || !x->conflict) {
        plim__exact_free(&x, a);
        return PLIM_E_NOMEM;
    }
    int32_t **const per_buffer[] = {&x->size, &x->reach, &x->twin, &x->twin_group, &x->twin_last, &x->rank, &x->min, &x->pusher, &x->place};
    int32_t **const per_section[] = {&x->total_all, &x->cut_all, &x->total, &x->cut, &x->floor, &x->witness, &x->wasted, &x->run, &x->least};
    int32_t **const per_border[] = {&x->first, &x->member_at, &x->count};
    for (size_t k = 0; k < sizeof per_buffer / sizeof *per_buffer; k++, p += n) *per_buffer[k] = p;
    for (size_t k = 0; k < sizeof per_section / sizeof *per_section; k++, p += sections) *per_section[k] = p;
    for (size_t k = 0; k < sizeof per_border / sizeof *per_border; k++, p += sections + 1) *per_border[k] = p;
    x->member = p;
    x->tried = x->conflict + x->words;
    x->view = view;
    scale_sizes(x);
    fill_sections(x);
    fill_buffers(x);
    *out = x;
    return PLIM_OK;
}

void plim__exact_free(plim__exact **x, const plim__alloc *a)
{
    if (!*x) return;
    plim__free(a, (*x)->conflict);
    plim__free(a, (*x)->pool);
    plim__free(a, (*x)->done);
    plim__free(a, (*x)->trail);
    plim__free(a, (*x)->block);
    plim__free(a, *x);
    *x = NULL;
}

/* ---------------------------------------------------------------------------------------------- conflicts */

static void set_add(uint64_t *set, int32_t b) { set[b / 64] |= 1ull << b % 64; }
static void set_remove(uint64_t *set, int32_t b) { set[b / 64] &= ~(1ull << b % 64); }
static bool set_has(const uint64_t *set, int32_t b) { return set[b / 64] >> b % 64 & 1; }

/* Adds what the state of a section rests on: what is placed in it, its waste, and what pushed up the rest. */
static void explain_section(plim__exact *x, int32_t s)
{
    PLIM_ASSERT(s >= 0 && s < (int32_t)x->view->sections);
    for (int32_t k = x->member_at[s]; k < x->member_at[s + 1]; k++) {
        const int32_t i = x->member[k], why = x->min[i] == NEVER ? i : x->pusher[i];
        PLIM_ASSERT(why < 0 || why >= (int32_t)x->view->n || x->min[why] == NEVER); /* buffers that push are placed */
        if (why >= 0) set_add(x->conflict, why);
    }
    if (x->wasted[s]) set_add(x->conflict, (int32_t)x->view->n + s);
}

/* Adds the failed branch of decision `id` to the conflict of its node. A buffer was at its only offset there because of its pusher. */
static void merge_conflict(const plim__exact *x, uint64_t *node, int32_t id)
{
    const int32_t n = (int32_t)x->view->n;
    for (uint32_t w = 0; w < x->words; w++) node[w] |= x->conflict[w];
    if (id < n || !x->wasted[id - n]) set_remove(node, id); /* earlier waste of the section has the same number */
    if (id < n && x->pusher[id] >= 0) set_add(node, x->pusher[id]);
}

/* --------------------------------------------------------------------------------------- decisions and undo */

/* Brings the floor of a section up to date. @return whether its unplaced buffers still fit on top of it */
static bool update_floor(plim__exact *x, int32_t s)
{
    if (x->total[s] == 0 || x->min[x->witness[s]] == x->floor[s]) return true;
    int32_t floor = NEVER;
    for (int32_t k = x->member_at[s]; k < x->member_at[s + 1]; k++) {
        const int32_t i = x->member[k];
        if (x->min[i] >= floor) continue;
        floor = x->min[i];
        x->witness[s] = i;
        if (floor == x->floor[s]) return true;
    }
    PLIM_ASSERT(floor > x->floor[s] && floor < NEVER && x->trail_n < x->trail_max); /* floors only rise */
    x->trail[x->trail_n++] = (trail_entry){.buffer = -1 - s, .min = x->floor[s]};
    x->floor[s] = floor;
    return floor <= x->cap - x->total[s];
}

/* Raises to `top` whatever unplaced is alive in sections `own`, because of decision `why`. False when a buffer or a section has no
 * room left. A buffer at that very height counts as supported when any buffer supports it, so buffers replace waste as its pusher. */
static bool push(plim__exact *x, span own, int32_t top, int32_t why)
{
    const plim__pack_view *v = x->view;
    const int32_t n = (int32_t)v->n;
    span touched = own;
    int32_t highest = 0;
    for (int32_t i = x->reach[x->member[x->member_at[own.lo]]], end = x->first[own.hi]; i < end; i++) {
        if (x->min[i] > top || v->hi[i] <= own.lo || (x->min[i] == top && (x->pusher[i] < n || why >= n))) continue;
        PLIM_ASSERT(x->trail_n < x->trail_max);
        x->trail[x->trail_n++] = (trail_entry){.buffer = i, .min = x->min[i], .pusher = x->pusher[i]};
        x->min[i] = top;
        x->pusher[i] = why;
        highest = x->size[i] > highest ? x->size[i] : highest;
        touched.lo = v->lo[i] < touched.lo ? v->lo[i] : touched.lo;
        touched.hi = v->hi[i] > touched.hi ? v->hi[i] : touched.hi;
    }
    memset(x->conflict, 0, x->words * sizeof *x->conflict);
    set_add(x->conflict, why);
    if (highest > x->cap - top) return false;
    for (int32_t s = touched.lo; s < touched.hi; s++) {
        if (x->floor[s] >= top || update_floor(x, s)) continue;
        x->blame[s]++;
        explain_section(x, s);
        return false;
    }
    return true;
}

/* Places a buffer at its minimum. False when that leaves something without room; undo() either way, here and in waste(). */
static bool place(plim__exact *x, int32_t b)
{
    const plim__pack_view *v = x->view;
    const int32_t lo = v->lo[b], hi = v->hi[b], size = x->size[b];
    PLIM_ASSERT(x->min[b] <= x->cap - size && x->done_n < x->depth_max);
    x->done[x->done_n++] = (decision){.buffer = b, .trail_n = x->trail_n};
    x->place[b] = x->min[b];
    x->min[b] = NEVER;
    for (int32_t s = lo; s < hi; s++) x->total[s] -= size;
    for (int32_t s = lo; s + 1 < hi; s++) x->cut[s]--;
    return push(x, (span){lo, hi}, x->place[b] + size, b);
}

static bool waste(plim__exact *x, int32_t s, int32_t level)
{
    PLIM_ASSERT(level > x->floor[s] && x->done_n < x->depth_max);
    x->done[x->done_n++] = (decision){.buffer = -1 - s, .trail_n = x->trail_n};
    x->wasted[s]++;
    return push(x, (span){s, s + 1}, level, (int32_t)x->view->n + s);
}

/* Takes back the newest decision. */
static void undo(plim__exact *x)
{
    const plim__pack_view *v = x->view;
    PLIM_ASSERT(x->done_n > 0);
    const decision *last = &x->done[--x->done_n];
    while (x->trail_n > last->trail_n) {
        const trail_entry *e = &x->trail[--x->trail_n];
        if (e->buffer < 0) {
            x->floor[-1 - e->buffer] = e->min;
        } else {
            x->min[e->buffer] = e->min;
            x->pusher[e->buffer] = e->pusher;
        }
    }
    if (last->buffer < 0) {
        x->wasted[-1 - last->buffer]--;
        return;
    }
    const int32_t b = last->buffer, lo = v->lo[b], hi = v->hi[b], size = x->size[b];
    for (int32_t s = lo; s < hi; s++) x->total[s] += size;
    for (int32_t s = lo; s + 1 < hi; s++) x->cut[s]++;
    x->min[b] = x->place[b];
}

/* ------------------------------------------------------------------------------------------------- search */

/* Finds the runs of equal floor in `p`, how many candidates each section has (as differences), and the smallest of each run. */
static void count_candidates(plim__exact *x, span p)
{
    const plim__pack_view *v = x->view;
    int32_t *const restrict count = x->count, *const restrict run = x->run, *const restrict least = x->least;
    for (int32_t s = p.lo; s < p.hi; s++) {
        run[s] = s > p.lo && x->floor[s] == x->floor[s - 1] ? run[s - 1] : s;
        count[s] = 0;
        least[s] = NEVER;
    }
    count[p.hi] = 0;
    for (int32_t i = x->first[p.lo], to = x->first[p.hi]; i < to; i++) {
        const int32_t lo = v->lo[i], hi = v->hi[i];
        if (x->min[i] != x->floor[lo] || run[lo] != run[hi - 1]) continue;
        count[lo]++;
        count[hi]--;
        if (x->size[i] < least[run[lo]]) least[run[lo]] = x->size[i];
    }
}

/* The section that a node decides: of those in valleys the one with the fewest alternatives. */
static int32_t pick_section(plim__exact *x, span p)
{
    count_candidates(x, p);
    int32_t best = -1, candidates = 0;
    double best_score = 0;
    for (int32_t lo = p.lo, hi; lo < p.hi; lo = hi) {
        for (hi = lo + 1; hi < p.hi && x->run[hi] == lo; hi++) continue;
        const int32_t floor = x->floor[lo], left = lo > p.lo ? x->floor[lo - 1] : NEVER, right = hi < p.hi ? x->floor[hi] : NEVER;
        const int32_t wall = left < right ? left : right;
        const int32_t step = wall - floor < x->least[lo] ? wall - floor : x->least[lo]; /* what waste would cost at least */
        for (int32_t s = lo; s < hi; s++) {
            candidates += x->count[s];
            if (wall < floor) continue;
            PLIM_ASSERT(candidates > 0); /* the buffer whose minimum is the floor */
            const int32_t alternatives = candidates + (x->cap - floor - x->total[s] >= step);
            const double score = alternatives == 1 ? 0 : alternatives / (1 + BLAME_WEIGHT * x->blame[s]);
            if (best >= 0 && score >= best_score) continue;
            best_score = score;
            best = s;
        }
    }
    PLIM_ASSERT(best >= p.lo && best < p.hi);
    return best;
}

/* The room that the newest decision wasted in sections, each time in proportion to what the section has to spare. */
static double wasted_room(const plim__exact *x)
{
    PLIM_ASSERT(x->done_n > 0);
    const decision *last = &x->done[x->done_n - 1];
    const int32_t b = last->buffer, lo = x->view->lo[b], hi = x->view->hi[b];
    double sum = 0;
    for (uint32_t k = last->trail_n; k < x->trail_n; k++) {
        const trail_entry *e = &x->trail[k];
        if (e->buffer >= 0) continue;
        const int32_t s = -1 - e->buffer, slack = x->cap - x->floor[s] - x->total[s];
        const int32_t lost = x->floor[s] - e->min - (s >= lo && s < hi ? x->size[b] : 0);
        sum += lost / (slack + SLACK_SOFTENING * x->cap) * (1 + BLAME_WEIGHT * x->blame[s]);
    }
    return sum;
}

/* xorshift64*; in [0, 1) */
static double random_unit(plim__exact *x)
{
    x->random ^= x->random >> 12;
    x->random ^= x->random << 25;
    x->random ^= x->random >> 27;
    return (double)((x->random * 2685821657736338717ull) >> 11) * 0x1p-53;
}

/* Places every candidate of section s on trial. Those that have a chance go to the pool, best first; why the others have none is
 * added to the conflict of the node. @return how many went to the pool */
static uint32_t rate_candidates(plim__exact *x, int32_t s, uint64_t *tried)
{
    candidate *const c = x->pool + x->pool_n;
    uint32_t n = 0;
    for (int32_t k = x->member_at[s]; k < x->member_at[s + 1]; k++) {
        const int32_t i = x->member[k];
        const bool twin_first = x->twin[i] >= 0 && x->min[x->twin[i]] != NEVER, slides = x->pusher[i] >= (int32_t)x->view->n;
        if (x->min[i] != x->floor[s] || twin_first || slides) continue;
        bool possible = true;
        double key = x->style.rank_weight * x->rank[i] / x->view->n;
        if (!x->style.blind) {
            possible = place(x, i);
            key += wasted_room(x) * (1 + x->style.noise * random_unit(x));
            undo(x);
        }
        if (!possible) {
            merge_conflict(x, tried, i);
            continue;
        }
        uint32_t j = n++;
        for (; j > 0 && c[j - 1].key > key; j--) c[j] = c[j - 1];
        c[j] = (candidate){.key = key, .buffer = i};
    }
    x->pool_n += n;
    return n;
}

/* The lowest offset at which something can lie in section s if nothing lies on its floor: the next minimum of its buffers, or the
 * top of a buffer that is alive beside s and could support a candidate of s. */
static int32_t waste_level(const plim__exact *x, int32_t s)
{
    const plim__pack_view *v = x->view;
    int32_t level = NEVER, lo = s, hi = s + 1;
    for (int32_t k = x->member_at[s]; k < x->member_at[s + 1]; k++) {
        const int32_t i = x->member[k];
        if (x->min[i] > x->floor[s]) {
            level = x->min[i] < level ? x->min[i] : level;
        } else {
            lo = v->lo[i] < lo ? v->lo[i] : lo;
            hi = v->hi[i] > hi ? v->hi[i] : hi;
        }
    }
    for (int32_t i = x->reach[x->member[x->member_at[lo]]]; i < x->first[hi]; i++) {
        if (v->hi[i] <= lo || (v->lo[i] <= s && s < v->hi[i])) continue;
        if (x->min[i] + x->size[i] < level) level = x->min[i] + x->size[i];
    }
    PLIM_ASSERT(level > x->floor[s]);
    return level;
}

static plim__exact_answer search(plim__exact *x, span p);

/* Solves `p` side by side, cut where no unplaced buffer spans a border. Only borders inside `own` can have become free. */
static plim__exact_answer search_sides(plim__exact *x, span p, span own)
{
    int32_t from = p.lo;
    for (int32_t s = own.lo; s + 1 < own.hi; s++) {
        if (x->cut[s]) continue;
        const plim__exact_answer answer = search(x, (span){from, s + 1});
        if (answer != PLIM__EXACT_FOUND) return answer;
        from = s + 1;
    }
    return search(x, (span){from, p.hi});
}

/* One branch: `buffer` on the floor of section s, or room wasted there if it is -1. */
static plim__exact_answer branch(plim__exact *x, span p, int32_t s, int32_t buffer)
{
    const int32_t level = buffer < 0 ? waste_level(x, s) : 0;
    if (level > x->cap - x->total[s]) return PLIM__EXACT_NONE;
    if (x->nodes == 0) return PLIM__EXACT_LIMIT;
    x->nodes--;
    if (buffer < 0) return waste(x, s, level) ? search(x, p) : PLIM__EXACT_NONE;
    return place(x, buffer) ? search_sides(x, p, (span){x->view->lo[buffer], x->view->hi[buffer]}) : PLIM__EXACT_NONE;
}

static plim__exact_answer search(plim__exact *x, span p)
{
    const plim__pack_view *v = x->view;
    if (x->total[p.lo] == 0) return PLIM__EXACT_FOUND; /* nothing spans a border of p.lo, so p is that section alone */
    if (x->done_n + 1 >= x->depth_max || x->trail_n + v->n + v->sections > x->trail_max || x->pool_n + v->n > x->pool_max) return PLIM__EXACT_LIMIT;
    const int32_t s = pick_section(x, p);
    uint64_t *const tried = x->tried + (size_t)x->done_n * x->words;
    memset(tried, 0, x->words * sizeof *tried);
    const uint32_t pool = x->pool_n, done_n = x->done_n, n = rate_candidates(x, s, tried);
    for (uint32_t k = 0; k <= n; k++) { /* the last alternative is waste */
        const int32_t buffer = k < n ? x->pool[pool + k].buffer : -1, id = k < n ? buffer : (int32_t)v->n + s;
        memset(x->conflict, 0, x->words * sizeof *x->conflict);
        set_add(x->conflict, id);
        const plim__exact_answer answer = branch(x, p, s, buffer);
        if (answer != PLIM__EXACT_NONE) return answer;
        while (x->done_n > done_n) undo(x); /* with a side that was solved before another one failed */
        x->pool_n = pool + n;
        if (x->style.backjump && !set_has(x->conflict, id)) {
            x->jumped = true;
            x->pool_n = pool;
            return PLIM__EXACT_NONE;
        }
        merge_conflict(x, tried, id);
    }
    x->pool_n = pool;
    memcpy(x->conflict, tried, x->words * sizeof *tried);
    explain_section(x, s);
    return PLIM__EXACT_NONE;
}

/* Of twins the one with the lower rank goes first: link each to the one before it. */
static void set_ranks(plim__exact *x, const plim__order_key *order)
{
    const uint32_t n = x->view->n;
    for (uint32_t i = 0; i < n; i++) x->twin_last[i] = -1;
    for (uint32_t r = 0; r < n; r++) {
        const int32_t b = (int32_t)order[r].buffer, group = x->twin_group[b];
        x->rank[b] = (int32_t)r;
        x->twin[b] = x->twin_last[group];
        x->twin_last[group] = b;
    }
}

static void reset(plim__exact *x)
{
    const plim__pack_view *v = x->view;
    x->trail_n = x->done_n = x->pool_n = 0;
    x->jumped = false;
    for (uint32_t i = 0; i < v->n; i++) x->pusher[i] = -1;
    memset(x->min, 0, v->n * sizeof *x->min);
    memset(x->floor, 0, v->sections * sizeof *x->floor);
    memset(x->wasted, 0, v->sections * sizeof *x->wasted);
    memcpy(x->total, x->total_all, v->sections * sizeof *x->total);
    memcpy(x->cut, x->cut_all, v->sections * sizeof *x->cut);
}

plim__exact_answer plim__exact_solve(plim__exact *x, int64_t *offset, const plim__order_key *order, int64_t cap,
                                     const plim__exact_style *style, uint64_t *nodes, uint32_t *blame)
{
    const plim__pack_view *v = x->view;
    if (cap < v->bound) return PLIM__EXACT_NONE;
    const int64_t units = cap >> x->shift;
    x->cap = units < NEVER ? (int32_t)units : NEVER - 1;
    x->nodes = *nodes;
    x->blame = blame;
    x->style = *style;
    x->random = style->seed | 1; /* xorshift must not start at 0 */
    reset(x);
    set_ranks(x, order);
    const span whole = {0, (int32_t)v->sections};
    for (uint32_t s = 0; s < v->sections; s++) {
        if (x->total[s] > x->cap) return PLIM__EXACT_LIMIT; /* only rounded sizes exceed it */
    }
    const plim__exact_answer answer = search_sides(x, whole, whole);
    *nodes = x->nodes;
    for (uint32_t i = 0; i < v->n && answer == PLIM__EXACT_FOUND; i++) {
        PLIM_ASSERT(x->min[i] == NEVER && x->place[i] <= x->cap - x->size[i]);
        offset[i] = (int64_t)x->place[i] << x->shift;
    }
    /* With rounded sizes nothing is proven about the true ones. */
    return answer == PLIM__EXACT_NONE && (x->shift || x->jumped) ? PLIM__EXACT_LIMIT : answer;
}
