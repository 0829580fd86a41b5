/* The exact search: is there a packing of height `cap`?
 *
 * Depth-first over canonical packings, after MiniMalloc (Moffitt, ASPLOS 2023): every packing can be settled so that each
 * buffer lies at 0 or on top of another, and its buffers can be placed in order of (offset, rank). So a node places one
 * unplaced buffer at the lowest offset that the placed ones leave it, never below the buffer placed before.
 *
 * A node is cut off when
 *   - some section cannot hold what is still to come: the lowest unplaced buffer of a section lies at `low`, and the section's
 *     unplaced sizes together exceed cap - low. One witness per section is remembered, as SAT solvers watch a literal: as long
 *     as it is unplaced and low enough, the section needs no look;
 *   - the next offset exceeds cap - (largest unplaced total of a section): all of those must still go above it;
 *   - the next offset is at or above the top that some unplaced buffer could have had: that buffer could slide below (dominance);
 *   - the buffer just tried has no unplaced buffer above it: trying another in its stead changes nothing (hatless);
 *   - the buffer has an unplaced twin of the same lifetime and size that comes first.
 * Where no unplaced buffer spans a border between sections, the two sides are independent and solved one after the other.
 *
 * Buffers are sorted by first section, so each side is an index range; placed buffers stay in it with a minimum offset of NEVER.
 * All of a node's state is four int32 arrays and a trail of (buffer, old minimum, old pusher). A pair of overlapping buffers raises a minimum
 * at most once on a path, so the number of such pairs bounds the trail, and nothing is allocated during a search.
 *
 * A branch that fails says why: the conflict is the set of placed buffers that the failure rests on. For a section without room
 * these are the buffers placed in it and those that pushed its unplaced buffers up. With `backjump`, a node whose own buffer is not
 * in the conflict of the branch above it has no reason to try another buffer, and hands the conflict down (Prosser's
 * conflict-directed backjumping, 1993). It lets the search repair a mistake at one end of time without walking through all
 * choices at the other end. The conflict leaves out that placements are ordered by offset, so a search that has jumped can find a
 * packing but proves nothing by failing.
 *
 * The section that ends a branch is blamed. Orders that look at the blame first (pack.c) find packings with some tens of thousands
 * of nodes where blind restarts take millions: it is the weighted-degree heuristic of constraint solvers.
 *
 * Sizes beyond 31 bits are rounded up to 2^shift units. The packing found is then settled again with the true sizes, which only
 * lowers it. Depth of recursion: one frame per buffer. A plim__exact serves one thread. */
#include "plan/pack.h"

#include "core/size.h"

#include <string.h>

#define NEVER (INT32_MAX / 2)
#define LOAD_MAX (1 << 29) /* NEVER plus a size still fits */

typedef struct trail_entry {
    int32_t buffer, min, pusher; /* the values before */
} trail_entry;

typedef struct placement {
    int32_t buffer;
    uint32_t trail_n; /* length of the trail before it */
} placement;

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
    int32_t *by_rank;    /* (n) the buffer at a place */
    int32_t *first;      /* (sections + 1) index of the first buffer born in or after a section */
    int32_t *member_at;  /* (sections + 1) into member */
    int32_t *member;     /* the buffers alive in each section */
    int32_t *total_all;  /* (sections) sum of sizes */
    int32_t *cut_all;    /* (sections) buffers that span the border above this section */
    uint32_t *blame;     /* (sections) the caller's */
    int32_t cap;
    int32_t *min;        /* (n) lowest offset possible, NEVER once placed */
    int32_t *pusher;     /* (n) the placed buffer that min lies on top of; -1: the bottom */
    int32_t *place;      /* (n) offset of a placed buffer */
    int32_t *total;      /* (sections) unplaced units */
    int32_t *cut;        /* (sections) unplaced buffers across the border above */
    int32_t *witness;    /* (sections) a hint: the buffer that last showed the section to be possible */
    trail_entry *trail;
    uint32_t trail_n;
    placement *done;     /* (n) in the order of placing */
    uint32_t done_n;
    uint64_t nodes;      /* left */
    bool backjump;       /* may leave a node early */
    bool jumped;         /* has left one early: failing proves nothing */
    uint32_t words;      /* of a set of buffers */
    uint64_t *conflict;  /* (words) why the newest branch failed */
    uint64_t *tried;     /* (n + 1, words) per depth: why the branches tried so far failed */
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
    const uint64_t n = view->n, sections = view->sections;
    plim__exact *x = plim__new(a, 1, sizeof *x, err);
    if (!x) return PLIM_E_NOMEM;
    int32_t *p = plim__new(a, 10 * n + 7 * sections + 2 + count_members(view), sizeof *p, err);
    x->block = p;
    x->trail = plim__new(a, count_pairs(view), sizeof *x->trail, err);
    x->done = plim__new(a, n, sizeof *x->done, err);
    x->words = (uint32_t)(n + 63) / 64;
    x->conflict = plim__new(a, (n + 2) * x->words, sizeof *x->conflict, err);
    if (!p || !x->trail || !x->done || !x->conflict) {
        plim__exact_free(&x, a);
        return PLIM_E_NOMEM;
    }
    int32_t **const per_buffer[] = {&x->size, &x->reach, &x->twin, &x->twin_group, &x->twin_last,
                                    &x->rank, &x->by_rank, &x->min, &x->pusher, &x->place};
    int32_t **const per_section[] = {&x->total_all, &x->cut_all, &x->total, &x->cut, &x->witness};
    int32_t **const per_border[] = {&x->first, &x->member_at};
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

/* Adds what a section without room rests on: what is placed in it, and what pushed up the rest. */
static void explain_section(plim__exact *x, int32_t s)
{
    PLIM_ASSERT(s >= 0 && s < (int32_t)x->view->sections);
    for (int32_t k = x->member_at[s]; k < x->member_at[s + 1]; k++) {
        const int32_t i = x->member[k], why = x->min[i] == NEVER ? i : x->pusher[i];
        PLIM_ASSERT(why == -1 || x->min[why] == NEVER); /* pushers are placed */
        if (why >= 0) set_add(x->conflict, why);
    }
}

/* Adds the failed branch of `b` to the conflict of its node: `b` was at its only offset there because of its pusher. */
static void merge_conflict(const plim__exact *x, uint64_t *node, int32_t b)
{
    for (uint32_t w = 0; w < x->words; w++) node[w] |= x->conflict[w];
    set_remove(node, b);
    if (x->pusher[b] >= 0) set_add(node, x->pusher[b]);
}

/* The conflict of a node that has tried everything: those of its branches, and the section that needs the most room. */
static void finish_conflict(plim__exact *x, const uint64_t *node, span p)
{
    int32_t fullest = p.lo;
    for (int32_t s = p.lo; s < p.hi; s++) fullest = x->total[s] > x->total[fullest] ? s : fullest;
    memcpy(x->conflict, node, x->words * sizeof *node);
    explain_section(x, fullest);
}

/* ------------------------------------------------------------------------------------------------- search */

typedef struct choice {
    int32_t buffer, offset, rank;
} choice;

/* What may be placed next, after `last` in order of (offset, rank), and the offset it must not exceed. Written without branches:
 * compilers then use vectors, here and below. */
static bool next_choice(const plim__exact *x, span p, choice last, int32_t limit, choice *out)
{
    const int32_t from = x->first[p.lo], to = x->first[p.hi];
    const int32_t *restrict min = x->min, *restrict rank = x->rank;
    int32_t offset = NEVER;
    for (int32_t i = from; i < to; i++) {
        const int after = (min[i] > last.offset) | ((min[i] == last.offset) & (rank[i] > last.rank));
        const int32_t at = after ? min[i] : NEVER;
        offset = at < offset ? at : offset;
    }
    if (offset > limit) return false;
    const int32_t above = offset == last.offset ? last.rank : -1;
    int32_t best = INT32_MAX;
    for (int32_t i = from; i < to; i++) {
        const int32_t here = (min[i] == offset) & (rank[i] > above);
        const int32_t r = rank[i] | ((here - 1) & INT32_MAX); /* INT32_MAX elsewhere */
        best = r < best ? r : best;
    }
    *out = (choice){.buffer = x->by_rank[best], .offset = offset, .rank = best};
    return true;
}

/* The highest offset at which a next buffer makes sense: by dominance, and by the room that the fullest section needs. */
static int32_t highest_choice(const plim__exact *x, span p)
{
    const int32_t from = x->first[p.lo], to = x->first[p.hi];
    const int32_t *restrict min = x->min, *restrict size = x->size, *restrict total = x->total;
    int32_t top = INT32_MAX, most = 0;
    for (int32_t i = from; i < to; i++) top = min[i] + size[i] < top ? min[i] + size[i] : top;
    for (int32_t s = p.lo; s < p.hi; s++) most = total[s] > most ? total[s] : most;
    PLIM_ASSERT(x->shift || most <= x->cap); /* rounded sizes may exceed it */
    if (most == 0) return NEVER; /* nothing is unplaced */
    return top - 1 < x->cap - most ? top - 1 : x->cap - most;
}

/* Is there an unplaced buffer low enough for all of them to fit on top of it? */
static bool has_witness(plim__exact *x, int32_t s, int32_t room)
{
    if (x->min[x->witness[s]] <= room) return true;
    for (int32_t k = x->member_at[s]; k < x->member_at[s + 1]; k++) {
        if (x->min[x->member[k]] <= room) {
            x->witness[s] = x->member[k];
            return true;
        }
    }
    return false;
}

/* Can sections `touched` still hold what is to come, after a buffer of sections `own` got the top `top`? Elsewhere than in
 * `own`, minima were raised to `top` at most, so a section with room above it for everything needs no look. */
static bool sections_possible(plim__exact *x, span touched, span own, int32_t top)
{
    for (int32_t s = touched.lo; s < touched.hi; s++) {
        const int32_t room = x->cap - x->total[s];
        const bool inside = s >= own.lo && s < own.hi;
        if (x->total[s] == 0 || (!inside && room >= top)) continue;
        if (has_witness(x, s, room)) continue;
        x->blame[s]++;
        explain_section(x, s);
        return false;
    }
    return true;
}

/* Places a buffer and raises what lies above it. False when some buffer or section has no room left; undo() either way. */
static bool place(plim__exact *x, choice c)
{
    const plim__pack_view *v = x->view;
    const int32_t b = c.buffer, lo = v->lo[b], hi = v->hi[b], size = x->size[b], top = c.offset + size;
    PLIM_ASSERT(x->min[b] == c.offset && top <= x->cap && x->done_n < v->n);
    x->done[x->done_n++] = (placement){.buffer = b, .trail_n = x->trail_n};
    x->place[b] = c.offset;
    x->min[b] = NEVER;
    for (int32_t s = lo; s < hi; s++) x->total[s] -= size;
    for (int32_t s = lo; s + 1 < hi; s++) x->cut[s]--;

    span touched = {lo, hi};
    int32_t highest = 0;
    for (int32_t i = x->reach[b], end = x->first[hi]; i < end; i++) {
        if (x->min[i] >= top || v->hi[i] <= lo) continue;
        x->trail[x->trail_n++] = (trail_entry){.buffer = i, .min = x->min[i], .pusher = x->pusher[i]};
        x->min[i] = top;
        x->pusher[i] = b;
        highest = x->size[i] > highest ? x->size[i] : highest;
        touched.lo = v->lo[i] < touched.lo ? v->lo[i] : touched.lo;
        touched.hi = v->hi[i] > touched.hi ? v->hi[i] : touched.hi;
    }
    memset(x->conflict, 0, x->words * sizeof *x->conflict);
    set_add(x->conflict, b);
    return highest <= x->cap - top && sections_possible(x, touched, (span){lo, hi}, top);
}

/* Takes back the newest placement. */
static void undo(plim__exact *x)
{
    const plim__pack_view *v = x->view;
    const placement *last = &x->done[--x->done_n];
    const int32_t b = last->buffer, lo = v->lo[b], hi = v->hi[b], size = x->size[b];
    while (x->trail_n > last->trail_n) {
        const trail_entry *e = &x->trail[--x->trail_n];
        x->min[e->buffer] = e->min;
        x->pusher[e->buffer] = e->pusher;
    }
    for (int32_t s = lo; s < hi; s++) x->total[s] += size;
    for (int32_t s = lo; s + 1 < hi; s++) x->cut[s]++;
    x->min[b] = x->place[b];
}

static bool has_hat(const plim__exact *x, int32_t b)
{
    for (int32_t s = x->view->lo[b]; s < x->view->hi[b]; s++) {
        if (x->total[s]) return true;
    }
    return false;
}

static plim__exact_answer search(plim__exact *x, span p, choice last);

/* Solves `p` side by side, cut where no unplaced buffer spans a border. Only borders inside `b` can have become free. */
static plim__exact_answer search_sides(plim__exact *x, span p, choice last, span b)
{
    int32_t from = p.lo;
    for (int32_t s = b.lo; s + 1 < b.hi; s++) {
        if (x->cut[s]) continue;
        const plim__exact_answer answer = search(x, (span){from, s + 1}, last);
        if (answer != PLIM__EXACT_FOUND) return answer;
        from = s + 1;
    }
    return search(x, (span){from, p.hi}, last);
}

static plim__exact_answer search(plim__exact *x, span p, choice last)
{
    const int32_t limit = highest_choice(x, p);
    if (limit == NEVER) return PLIM__EXACT_FOUND;
    uint64_t *const tried = x->tried + (size_t)x->done_n * x->words;
    memset(tried, 0, x->words * sizeof *tried);
    choice c = last;
    while (next_choice(x, p, c, limit, &c)) {
        if (x->twin[c.buffer] >= 0 && x->min[x->twin[c.buffer]] != NEVER) continue;
        if (x->nodes == 0) return PLIM__EXACT_LIMIT;
        x->nodes--;
        const uint32_t done_n = x->done_n;
        plim__exact_answer answer = PLIM__EXACT_NONE;
        if (place(x, c)) {
            answer = search_sides(x, p, c, (span){x->view->lo[c.buffer], x->view->hi[c.buffer]});
            if (answer != PLIM__EXACT_NONE) return answer;
        }
        while (x->done_n > done_n + 1) undo(x); /* a side that was solved before another one failed */
        const bool hat = has_hat(x, c.buffer);
        undo(x);
        if (x->backjump && !set_has(x->conflict, c.buffer)) {
            x->jumped = true;
            return PLIM__EXACT_NONE;
        }
        merge_conflict(x, tried, c.buffer);
        if (!hat) break;
    }
    finish_conflict(x, tried, p);
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
        x->by_rank[r] = b;
        x->twin[b] = x->twin_last[group];
        x->twin_last[group] = b;
    }
}

plim__exact_answer plim__exact_solve(plim__exact *x, int64_t *offset, const plim__order_key *order, int64_t cap, bool backjump,
                                     uint64_t *nodes, uint32_t *blame)
{
    const plim__pack_view *v = x->view;
    if (cap < v->bound) return PLIM__EXACT_NONE;
    const int64_t units = cap >> x->shift;
    x->cap = units < NEVER ? (int32_t)units : NEVER - 1;
    x->nodes = *nodes;
    x->blame = blame;
    x->trail_n = x->done_n = 0;
    x->backjump = backjump;
    x->jumped = false;
    for (uint32_t i = 0; i < v->n; i++) x->pusher[i] = -1;
    set_ranks(x, order);
    memset(x->min, 0, v->n * sizeof *x->min);
    memcpy(x->total, x->total_all, v->sections * sizeof *x->total);
    memcpy(x->cut, x->cut_all, v->sections * sizeof *x->cut);
    const choice root = {.buffer = -1, .offset = 0, .rank = -1};
    const span whole = {0, (int32_t)v->sections};
    plim__exact_answer answer = search_sides(x, whole, root, whole);
    *nodes = x->nodes;
    if (answer == PLIM__EXACT_FOUND) {
        for (uint32_t i = 0; i < v->n; i++) offset[i] = (int64_t)x->place[i] << x->shift;
    }
    PLIM_ASSERT(answer != PLIM__EXACT_FOUND || x->done_n == v->n);
    /* With rounded sizes nothing is proven about the true ones. */
    return answer == PLIM__EXACT_NONE && (x->shift || x->jumped) ? PLIM__EXACT_LIMIT : answer;
}
