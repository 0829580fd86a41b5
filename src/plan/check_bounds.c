/* The verifier's part that looks at every tile of a pass and every block of a stage, however many there are: does each
 * box fit its memory (I12)?
 *
 * Tiles are taken in sets: a range of trips of every cut loop, and of blocks inside a stage. An end of a range of
 * indices is bounded over a set by an affine form: the sum of slope * trip over the loops, and something between
 * `least` and `most`. The walk through the nodes is that of plim__pass_regions, written a second time with forms for
 * numbers, so that neither can hide a mistake of the other:
 *
 *     affine index maps    exact
 *     divisions            the form loses less than one step; exact where the end does not move
 *     clamps, hulls        exact where one side wins in all of the set; else as wide as the sides differ
 *
 * The length of a range is at most the largest difference of its ends' forms, which lies in a corner of the set. So one
 * walk shows for a whole set that everything fits, for between the turning points where boxes touch an end of their
 * array all forms are exact. Where it does not show that, the set is cut in two at the turning point that costs most,
 * and both are looked at. A set of one tile, and of one block, is exact: there a box that does not fit is an error.
 * Ends are bounded from outside everywhere, so no box is missed (branch and bound; Moore, Interval Analysis, 1966;
 * forms: Comba and Stolfi 1993).
 *
 * After WORK nodes what is left is looked at in the corners of its sets only. Reads the plan; allocates the forms of
 * one tile and of the largest stage; any thread. */
#include "core/dtype.h"
#include "core/size.h"
#include "plan/check.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define TILE_DIMS 3               /* cut loops of a pass */
#define DIMS      (TILE_DIMS + 1) /* and the blocks of a stage */
#define BLOCK     TILE_DIMS       /* their dimension */
#define ROUNDING  1e-3            /* lengths are integers: doubles are exact enough up to 2^40 */
#if PLIM_DEBUG >= 2
#define WORK 4000000u
#else
#define WORK 400000u
#endif

static_assert(PLIM__MAX_LOOPS <= 8, "sets of loops are uint8_t");
static_assert(TILE_DIMS <= PLIM__MAX_LOOPS, "every cut loop is a loop");

__extension__ typedef __int128 wide; /* a product of two extents may have more than 64 bits */

/* An end of a range over the set: sum of slope[d] * trip of dimension d, plus something from least to most. */
typedef struct end {
    double slope[DIMS];
    double least, most;
    uint8_t moved_by; /* set of dimensions that it may depend on, also by way of least and most */
} end;

typedef struct span {
    end lo, hi;
} span;

typedef struct bounder {
    const plim_plan *plan;
    const plim_graph *g;
    const plim__pass *p;
    int64_t first[DIMS], last[DIMS]; /* the set: trips, both inclusive */
    const plim__range *axis_of_one;  /* a pass of one tile: its axis ranges; else NULL */
    span *axis, *dim;                /* of the tile: by axis0; by dim0 of the value. NULL for a pass of one tile */
    uint32_t *dim0;
    bool *wanted;    /* per value: somebody reads it */
    span *block_dim; /* of the stage's block: see local_dim */
    bool *block_wanted;
    double widest; /* of the turning points in this set: what it costs, and where it is */
    uint32_t turn_dim;
    int64_t turn;
    uint64_t work; /* nodes that were walked through */
    char why[160]; /* what does not fit */
} bounder;

/* ------------------------------------------------------------------------------------------------------ forms */

static end constant(double x)
{
    return (end){.least = x, .most = x};
}

static bool is_constant(const end *x)
{
    for (uint32_t d = 0; d < DIMS; d++)
        if (x->slope[d] != 0) return false;
    return true;
}

static bool same_slopes(const end *a, const end *b)
{
    for (uint32_t d = 0; d < DIMS; d++)
        if (a->slope[d] != b->slope[d]) return false;
    return true;
}

static end minus(end a, const end *b)
{
    a.moved_by |= b->moved_by;
    for (uint32_t d = 0; d < DIMS; d++) a.slope[d] -= b->slope[d];
    const double most = a.most - b->least;
    a.least -= b->most;
    a.most = most;
    PLIM_ASSERT(a.least <= a.most); /* of two ends that are something, and no NaN */
    return a;
}

static double largest(const bounder *k, const end *x)
{
    double sum = x->most;
    for (uint32_t d = 0; d < DIMS; d++)
        if (x->slope[d] != 0) sum += x->slope[d] * (double)(x->slope[d] > 0 ? k->last[d] : k->first[d]);
    return sum;
}

static double smallest(const bounder *k, const end *x)
{
    double sum = x->least;
    for (uint32_t d = 0; d < DIMS; d++)
        if (x->slope[d] != 0) sum += x->slope[d] * (double)(x->slope[d] > 0 ? k->first[d] : k->last[d]);
    return sum;
}

/* Somewhere in the set x passes 0, and not knowing where costs `width`: remembers where to cut, along the dimension
 * that moves x most. */
static void note_turn(bounder *k, const end *x, double width)
{
    double farthest = 0, at = (x->least + x->most) / 2;
    uint32_t by = DIMS;
    if (width <= k->widest) return;
    for (uint32_t d = 0; d < DIMS; d++) {
        const double moves = fabs(x->slope[d]) * (double)(k->last[d] - k->first[d]);
        at += x->slope[d] * (double)(k->first[d] + k->last[d]) / 2;
        if (moves > farthest) {
            farthest = moves;
            by = d;
        }
    }
    if (by == DIMS) return;
    const double middle = (double)(k->first[by] + k->last[by]) / 2, zero = floor(middle - at / x->slope[by]);
    k->widest = width;
    k->turn_dim = by;
    k->turn = zero < (double)k->first[by]   ? k->first[by]
              : zero >= (double)k->last[by] ? k->last[by] - 1
                                            : (int64_t)zero;
    PLIM_ASSERT(k->turn >= k->first[by] && k->turn < k->last[by]); /* both parts of the set have a place */
}

/* The larger of two ends. */
static end max_end(bounder *k, const end *a, const end *b)
{
    const end d = minus(*b, a);
    const double up = largest(k, &d), down = -smallest(k, &d);
    if (up <= 0) return *a;
    if (down <= 0) return *b;
    if (same_slopes(a, b)) {
        end x = *a;
        x.least = fmax(a->least, b->least);
        x.most = fmax(a->most, b->most);
        x.moved_by |= b->moved_by;
        return x;
    }
    note_turn(k, &d, fmin(up, down));
    end x = up < down ? *a : *b;
    x.most += fmin(up, down);
    x.moved_by = d.moved_by;
    return x;
}

static end negate(end x)
{
    const double least = -x.most;
    for (uint32_t d = 0; d < DIMS; d++) x.slope[d] = -x.slope[d];
    x.most = -x.least;
    x.least = least;
    return x;
}

static end min_end(bounder *k, const end *a, const end *b)
{
    const end x = negate(*a), y = negate(*b);
    return negate(max_end(k, &x, &y));
}

static end clamp_end(bounder *k, const end *x, double lo, double hi)
{
    const end low = constant(lo), high = constant(hi);
    const end above = max_end(k, x, &low);
    return min_end(k, &above, &high);
}

static double floor_ratio(double x, int64_t stride, int64_t offset, int64_t div)
{
    const wide n = (wide)(int64_t)floor(x) * stride + offset;
    return (double)(int64_t)(n / div - (n % div != 0 && n < 0));
}

/* floor((stride * x + offset) / div) */
static end map_end(const end *x, int64_t stride, int64_t offset, int64_t div)
{
    PLIM_ASSERT(div >= 1);
    end y = {.moved_by = x->moved_by};
    const double low = stride >= 0 ? x->least : x->most, high = stride >= 0 ? x->most : x->least;
    if (is_constant(x)) {
        y.least = floor_ratio(low, stride, offset, div);
        y.most = floor_ratio(high, stride, offset, div);
        return y;
    }
    for (uint32_t d = 0; d < DIMS; d++) y.slope[d] = x->slope[d] * (double)stride / (double)div;
    y.least = (low * (double)stride + (double)offset - (double)(div - 1)) / (double)div;
    y.most = (high * (double)stride + (double)offset) / (double)div;
    return y;
}

static void join(bounder *k, span *to, const span *more)
{
    to->lo = min_end(k, &to->lo, &more->lo);
    to->hi = max_end(k, &to->hi, &more->hi);
}

static span whole(int64_t extent)
{
    return (span){constant(0), constant((double)extent)};
}

/* No range of the set is longer. */
static int64_t longest(const bounder *k, const span *x, int64_t extent)
{
    const end d = minus(x->hi, &x->lo);
    const double len = floor(largest(k, &d) + ROUNDING);
    return len < 0 ? 0 : len > (double)extent ? extent : (int64_t)len;
}

/* ------------------------------------------------------------------------------------------------------ ranges */

/* The range of a loop in the tiles of the set. */
static span loop_span(bounder *k, uint32_t l)
{
    const plim__loop *x = &k->p->loop[l];
    PLIM_ASSERT(l < k->p->n_loops && k->p->n_cut <= TILE_DIMS);
    if (l >= k->p->n_cut) return whole(x->extent);
    end lo = {.moved_by = (uint8_t)(1u << l)};
    if (k->first[l] == k->last[l])
        lo.least = lo.most = (double)(k->first[l] * x->tile);
    else
        lo.slope[l] = (double)x->tile;
    end hi = lo, extent = constant((double)x->extent);
    hi.least += (double)x->tile;
    hi.most += (double)x->tile;
    return (span){lo, min_end(k, &hi, &extent)};
}

/* The part of an axis that loops outside `inside` move; deeper ones count as whole. */
static span axis_span(bounder *k, const plim__pnode *n, uint32_t a, uint32_t inside)
{
    const int l = n->bind[a];
    const int64_t extent = n->axes.axis[a].extent;
    if (l < 0 || (uint32_t)l >= inside) return whole(extent);
    const span x = loop_span(k, (uint32_t)l);
    const int64_t loop = k->p->loop[l].extent;
    if (extent == loop) return x;
    return (span){map_end(&x.lo, extent, 0, loop), map_end(&x.hi, extent, 0, loop)};
}

/* What `index` reads of a dimension for the axis ranges `axis`. */
static span index_span(bounder *k, const plim__index *x, const span *axis, int64_t extent)
{
    span r = {constant((double)x->offset), constant((double)(x->offset + x->window))};
    if (extent <= 0) return whole(0);
    if (x->axis >= 0) {
        const int64_t div = x->div > 1 ? x->div : 1;
        end first = axis[x->axis].lo, last = axis[x->axis].hi;
        last.least -= 1;
        last.most -= 1;
        r.lo = map_end(x->stride >= 0 ? &first : &last, x->stride, x->offset, div);
        r.hi = map_end(x->stride >= 0 ? &last : &first, x->stride, x->offset, div);
        r.hi.least += (double)x->window;
        r.hi.most += (double)x->window;
    }
    r.lo = clamp_end(k, &r.lo, 0, (double)(extent - 1));
    r.hi = clamp_end(k, &r.hi, 1, (double)extent); /* a window that lies beyond a border reads the border element */
    return r;
}

/* The part, or where it has no iterations the one next to it. @return false: the node has none at all */
static bool part_or_next(bounder *k, const plim__pnode *n, const span *axis, span *part)
{
    for (uint32_t a = 0; a < n->axes.n; a++) {
        const int64_t extent = n->axes.axis[a].extent;
        const end len = minus(axis[a].hi, &axis[a].lo);
        if (extent <= 0) return false;
        part[a] = axis[a];
        if (smallest(k, &len) >= 1) continue;
        part[a].lo = clamp_end(k, &axis[a].lo, 0, (double)(extent - 1));
        end next = part[a].lo;
        next.least += 1;
        next.most += 1;
        part[a].hi = max_end(k, &axis[a].hi, &next);
    }
    return true;
}

/* Ranges that readers of the outputs ask for; reduced axes are done whole, scanned ones from their beginning. @return
 * false: nobody asks
 * @param dim  per output, where the ranges of its dimensions are */
static bool asked_span(bounder *k, const plim__pnode *n, span *const *dim, const bool *wanted, span *axis)
{
    const plim__node *node = &k->g->node[n->node];
    bool seen[PLIM__MAX_AXES] = {false}, asked = false;
    for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = whole(n->axes.axis[a].extent);
    for (uint32_t j = 0; j < node->n_out; j++) {
        const uint32_t rank = plim__out(k->g, node, j)->shape.rank;
        if (rank > 0 && !wanted[j]) continue;
        asked = true;
        for (uint32_t d = 0; d < rank; d++) {
            const int a = n->axes.out[j][d];
            if (a < 0 || n->axes.axis[a].kind == PLIM__WHOLE) continue;
            if (seen[a])
                join(k, &axis[a], &dim[j][d]);
            else
                axis[a] = dim[j][d];
            seen[a] = true;
        }
    }
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (!asked)
            axis[a] = whole(0);
        else if (n->axes.axis[a].kind == PLIM__SCAN)
            axis[a].lo = constant(0);
    return asked;
}

/* ------------------------------------------------------------------------------------------------------- tiles */

/* A root covers what others in the pass read of it, too, unless it accumulates. */
static void widen(bounder *k, const plim__pnode *n, span *axis)
{
    const plim__node *node = &k->g->node[n->node];
    for (uint32_t j = 0; j < node->n_out && !n->accumulates; j++)
        for (uint32_t d = 0; d < plim__out(k->g, node, j)->shape.rank && k->wanted[n->out[j]]; d++)
            if (n->axes.out[j][d] >= 0) join(k, &axis[n->axes.out[j][d]], &k->dim[k->dim0[n->out[j]] + d]);
}

static void ask_for(bounder *k, uint32_t v, const plim__node *node, uint32_t in, const span *part)
{
    const plim_shape *s = &plim__in(k->g, node, in)->shape;
    plim__index index[PLIM_MAX_RANK];
    plim__op_row_of(node->op)->reads(k->g, node, in, index);
    for (uint32_t d = 0; d < s->rank; d++) {
        const span need = index_span(k, &index[d], part, s->dim[d]);
        span *have = &k->dim[k->dim0[v] + d];
        if (k->wanted[v])
            join(k, have, &need);
        else
            *have = need;
    }
    k->wanted[v] = true;
}

/* What is read back is what was spilled: that holds what the readers of both ask for. */
static void ask_for_readers_back(bounder *k, uint32_t v)
{
    for (uint32_t r = k->p->value[v].back; r != PLIM__NONE; r = k->p->value[r].back) {
        for (uint32_t d = 0; d < k->g->value[k->p->value[v].value].shape.rank && k->wanted[r]; d++) {
            span *have = &k->dim[k->dim0[v] + d];
            if (k->wanted[v])
                join(k, have, &k->dim[k->dim0[r] + d]);
            else
                *have = k->dim[k->dim0[r] + d];
        }
        k->wanted[v] |= k->wanted[r];
    }
}

static void give_readers_back(bounder *k, uint32_t v)
{
    for (uint32_t r = k->p->value[v].back; r != PLIM__NONE; r = k->p->value[r].back)
        for (uint32_t d = 0; d < k->g->value[k->p->value[v].value].shape.rank; d++)
            k->dim[k->dim0[r] + d] = k->dim[k->dim0[v] + d];
}

static void walk_node(bounder *k, const plim__pnode *n)
{
    const plim__node *node = &k->g->node[n->node];
    span *axis = &k->axis[n->axis0], *dim[PLIM__MAX_OUT] = {NULL}, part[PLIM__MAX_AXES];
    bool wanted[PLIM__MAX_OUT] = {false}, asked = true;
    for (uint32_t j = 0; j < node->n_out; j++) {
        ask_for_readers_back(k, n->out[j]);
        dim[j] = &k->dim[k->dim0[n->out[j]]];
        wanted[j] = k->wanted[n->out[j]];
    }
    if (n->root) {
        for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = axis_span(k, n, a, n->post ? n->depth : PLIM__MAX_LOOPS);
        widen(k, n, axis);
    } else {
        asked = asked_span(k, n, dim, wanted, axis);
    }
    for (uint32_t j = 0; j < node->n_out; j++)
        for (uint32_t d = 0; d < plim__out(k->g, node, j)->shape.rank; d++)
            dim[j][d] = n->axes.out[j][d] < 0 ? whole(plim__out(k->g, node, j)->shape.dim[d]) : axis[n->axes.out[j][d]];
    for (uint32_t j = 0; j < node->n_out; j++) give_readers_back(k, n->out[j]);
    if (!asked || !part_or_next(k, n, axis, part)) return;
    for (uint32_t i = 0; i < node->n_in; i++) ask_for(k, k->p->operand[n->in0 + i], node, i, part);
}

static void walk_tile(bounder *k)
{
    PLIM_ASSERT(!k->axis_of_one && k->axis && k->dim && k->wanted);
    k->widest = 0;
    k->first[BLOCK] = k->last[BLOCK] = 0;
    for (uint32_t i = 0; i < k->p->n_values; i++) {
        k->wanted[i] = false;
        for (uint32_t d = 0; d < k->g->value[k->p->value[i].value].shape.rank; d++) k->dim[k->dim0[i] + d] = whole(0);
    }
    for (uint32_t i = k->p->n_nodes; i-- > 0;) walk_node(k, &k->p->node[i]);
    k->work += k->p->n_nodes;
}

/* --------------------------------------------------------------------------------------------------- what fits */

static bool fits(bounder *k, const char *what, const char *name, uint64_t bytes, uint64_t planned)
{
    if (bytes <= planned) return true;
    snprintf(k->why, sizeof k->why, "I12: %s of '%.48s' has %llu bytes, planned were %llu", what, name,
             (unsigned long long)bytes, (unsigned long long)planned);
    return false;
}

/* A box of output j with the lengths that it has at the most. */
static plim__region largest_box(bounder *k, const plim__pnode *n, uint32_t j, const span *axis)
{
    const plim_shape *s = &plim__out(k->g, &k->g->node[n->node], j)->shape;
    plim__region box = {.rank = s->rank};
    for (uint32_t d = 0; d < s->rank; d++) {
        const int a = n->axes.out[j][d];
        box.dim[d] = (plim__range){0, a < 0 ? s->dim[d] : longest(k, &axis[a], s->dim[d])};
    }
    return box;
}

static void sum_axes(bounder *k, const plim__pnode *n, span *axis)
{
    for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = axis_span(k, n, a, n->acc_depth);
}

static uint64_t dense_bytes(const plim__value *v, const plim__region *box)
{
    return plim__region_count(box) * plim_dtype_bytes(v->dtype);
}

static bool value_fits(bounder *k, uint32_t i)
{
    const plim__pvalue *v = &k->p->value[i];
    const plim__value *value = &k->g->value[v->value];
    if (v->role == PLIM__ROLE_CONST || v->role == PLIM__ROLE_PRIVATE) return true;
    plim__region box = plim__region_whole(&value->shape);
    if (v->role == PLIM__ROLE_ACC) {
        span axis[PLIM__MAX_AXES];
        sum_axes(k, &k->p->node[v->producer], axis);
        box = largest_box(k, &k->p->node[v->producer], value->out, axis);
    } else if (v->role != PLIM__ROLE_WHOLE) {
        for (uint32_t d = 0; d < box.rank; d++)
            box.dim[d].hi = longest(k, &k->dim[k->dim0[i] + d], value->shape.dim[d]);
    }
    const uint32_t file = v->foreign ? k->plan->home[v->value].file : v->flat ? PLIM__NONE : v->file;
    uint64_t bytes = dense_bytes(value, &box);
    if (file != PLIM__NONE) { /* its bytes do not depend on where the box lies, and grow with it */
        plim__io_layout layout;
        plim__io_layout_of(&k->plan->file[file].io, &box, v->role != PLIM__ROLE_READ, &layout);
        bytes = layout.bytes;
    }
    return fits(k, "a box", value->name, bytes, k->plan->slot[v->slot].bytes);
}

/* Threads' copies of the accumulators of a node lie behind each other in one copy of their slot. */
static bool copies_fit(bounder *k, const plim__pnode *n)
{
    const plim__node *node = &k->g->node[n->node];
    span axis[PLIM__MAX_AXES];
    if (n->copies_slot == PLIM__NONE) return true;
    if (n->accumulates)
        sum_axes(k, n, axis);
    else
        memcpy(axis, &k->axis[n->axis0], n->axes.n * sizeof *axis);
    for (uint32_t j = 0; j < node->n_out; j++) {
        const plim__region box = largest_box(k, n, j, axis);
        const uint64_t to = j + 1 < node->n_out ? n->copy_offset[j + 1] : k->plan->slot[n->copies_slot].bytes;
        const uint64_t room = to > n->copy_offset[j] ? to - n->copy_offset[j] : 0;
        if (!fits(k, "a thread's copy", plim__out(k->g, node, j)->name, dense_bytes(plim__out(k->g, node, j), &box),
                  room))
            return false;
    }
    return true;
}

/* ------------------------------------------------------------------------------------------------------ blocks */

static uint32_t local_out(const plim__stage *s, uint32_t node, uint32_t j)
{
    PLIM_ASSERT(node >= s->first && node < s->first + s->count && j < PLIM__MAX_OUT);
    return (node - s->first) * PLIM__MAX_OUT + j;
}

static span *local_dim(const bounder *k, const plim__stage *s, uint32_t node, uint32_t j)
{
    return &k->block_dim[(uint64_t)local_out(s, node, j) * PLIM_MAX_RANK];
}

static span tile_axis(const bounder *k, const plim__pnode *n, uint32_t a)
{
    PLIM_ASSERT((k->axis != NULL) != (k->axis_of_one != NULL)); /* forms of many tiles, or ranges of one */
    if (k->axis) return k->axis[n->axis0 + a];
    return (span){constant((double)k->axis_of_one[n->axis0 + a].lo), constant((double)k->axis_of_one[n->axis0 + a].hi)};
}

static bool leaves(const bounder *k, const plim__pnode *n)
{
    for (uint32_t j = 0; j < k->g->node[n->node].n_out; j++)
        if (k->p->value[n->out[j]].role != PLIM__ROLE_PRIVATE) return true;
    return false;
}

static int64_t shortest(const bounder *k, const span *x)
{
    const end d = minus(x->hi, &x->lo);
    const double len = ceil(smallest(k, &d) - ROUNDING);
    return len > 0 ? (int64_t)len : 0;
}

/* In how many blocks a tile is cut: no more than the shortest range that is cut. */
static void count_blocks(const bounder *k, const plim__stage *s, int64_t *fewest, int64_t *most)
{
    *fewest = *most = s->split < 0 ? 1 : s->blocks;
    for (uint32_t i = s->first; i < s->first + s->count; i++) {
        const plim__pnode *n = &k->p->node[i];
        for (uint32_t a = 0; a < n->axes.n && s->split >= 0; a++) {
            if (n->bind[a] != s->split || !leaves(k, n)) continue;
            const span x = tile_axis(k, n, a);
            *fewest = plim__min(*fewest, shortest(k, &x));
            *most = plim__min(*most, longest(k, &x, INT64_MAX));
            break;
        }
    }
    *fewest = plim__max(*fewest, 1);
    *most = plim__max(*most, 1);
    PLIM_ASSERT(*fewest <= *most);
}

/* Where block `b + next` of a range of that length begins, counted from where the range does: floor(length * block /
 * blocks). */
static end block_place(const bounder *k, int64_t shortest_len, int64_t longest_len, int64_t fewest, int64_t most,
                       int64_t next)
{
    PLIM_ASSERT(shortest_len <= longest_len && fewest >= 1 && fewest <= most);
    end x = {.moved_by = 1u << BLOCK};
    const double block = (double)(k->last[BLOCK] + next), least = (double)shortest_len / (double)most,
                 rest = (double)longest_len / (double)fewest - least;
    if (k->first[BLOCK] == k->last[BLOCK]) {
        x.least = floor_ratio(block, shortest_len, 0, most);
        x.most = floor_ratio(block, longest_len, 0, fewest);
        return x;
    }
    x.slope[BLOCK] = least;
    x.least =
        least * (double)next - (fewest == most && shortest_len == longest_len && shortest_len % most == 0 ? 0 : 1);
    x.most = least * (double)next + rest * block;
    return x;
}

static end plus(end a, const end *b)
{
    const end x = negate(*b);
    return minus(a, &x);
}

/* The block's part of a node whose outputs leave the stage. @return false: it has no iterations */
static bool leaving_part(const bounder *k, const plim__stage *s, const plim__pnode *n, int64_t fewest, int64_t most,
                         span *axis)
{
    bool cut = false, some = true;
    for (uint32_t a = 0; a < n->axes.n; a++) {
        axis[a] = tile_axis(k, n, a);
        const end len = minus(axis[a].hi, &axis[a].lo);
        some &= largest(k, &len) >= 1 - ROUNDING;
        if (cut || s->split < 0 || n->bind[a] != s->split) continue;
        cut = true; /* along one axis at the most: I6 */
        const int64_t short_len = shortest(k, &axis[a]), long_len = longest(k, &axis[a], n->axes.axis[a].extent);
        const end begins = block_place(k, short_len, long_len, fewest, most, 0),
                  ends = block_place(k, short_len, long_len, fewest, most, 1);
        axis[a].hi = plus(axis[a].lo, &ends);
        axis[a].lo = plus(axis[a].lo, &begins);
    }
    return some;
}

static void ask_in_stage(bounder *k, const plim__stage *s, const plim__pnode *n, const span *part)
{
    const plim__node *node = &k->g->node[n->node];
    for (uint32_t i = 0; i < node->n_in; i++) {
        const uint32_t by = k->p->value[k->p->operand[n->in0 + i]].producer;
        if (by == PLIM__NONE || by < s->first || by >= s->first + s->count) continue;
        const plim__value *v = plim__in(k->g, node, i);
        plim__index index[PLIM_MAX_RANK];
        plim__op_row_of(node->op)->reads(k->g, node, i, index);
        bool *wanted = &k->block_wanted[local_out(s, by, v->out)];
        for (uint32_t d = 0; d < v->shape.rank; d++) {
            const span need = index_span(k, &index[d], part, v->shape.dim[d]);
            span *have = &local_dim(k, s, by, v->out)[d];
            if (*wanted)
                join(k, have, &need);
            else
                *have = need;
        }
        *wanted = true;
    }
}

/* What a node makes in the blocks of the set, and its scratch. */
static bool part_fits(bounder *k, const plim__stage *s, const plim__pnode *n, const span *axis)
{
    const plim__node *node = &k->g->node[n->node];
    const plim__op_row *row = plim__op_row_of(node->op);
    int64_t len[PLIM__MAX_AXES];
    bool some = true;
    for (uint32_t j = 0; j < node->n_out; j++) {
        const plim__pvalue *v = &k->p->value[n->out[j]];
        if (v->role != PLIM__ROLE_PRIVATE) continue;
        const plim__region box = largest_box(k, n, j, axis);
        if (!fits(k, "a block", k->g->value[v->value].name, dense_bytes(&k->g->value[v->value], &box),
                  v->private_bytes))
            return false;
    }
    for (uint32_t a = 0; a < n->axes.n; a++) {
        len[a] = longest(k, &axis[a], n->axes.axis[a].extent);
        some &= len[a] > 0;
    }
    if (!row->scratch || !some) return true;
    const uint64_t room = s->private_bytes > s->scratch_offset ? s->private_bytes - s->scratch_offset : 0;
    return fits(k, "scratch", row->name, row->scratch(k->g, node, len, s->pool ? k->plan->pool_threads : 1), room);
}

/* One walk through the stage, backwards. */
static bool walk_blocks(bounder *k, const plim__stage *s, int64_t fewest, int64_t most)
{
    k->work += s->count;
    memset(k->block_wanted, 0, (uint64_t)s->count * PLIM__MAX_OUT * sizeof *k->block_wanted);
    for (uint32_t i = s->first + s->count; i-- > s->first;) {
        const plim__pnode *n = &k->p->node[i];
        span axis[PLIM__MAX_AXES], part[PLIM__MAX_AXES], *dim[PLIM__MAX_OUT];
        for (uint32_t j = 0; j < PLIM__MAX_OUT; j++) dim[j] = local_dim(k, s, i, j);
        const bool asked = leaves(k, n) ? leaving_part(k, s, n, fewest, most, axis)
                                        : asked_span(k, n, dim, &k->block_wanted[local_out(s, i, 0)], axis);
        if (!part_fits(k, s, n, axis)) return false;
        if (asked && part_or_next(k, n, axis, part)) ask_in_stage(k, s, n, part);
    }
    return true;
}

/* The blocks first to last of a stage in the tiles of the set: all at once, or halved until they fit or are one. */
static bool blocks_fit(bounder *k, const plim__stage *s, int64_t first, int64_t last, int64_t fewest, int64_t most)
{
    k->first[BLOCK] = first;
    k->last[BLOCK] = last;
    k->widest = 0;
    PLIM_ASSERT(first >= 0 && first <= last && last < most);
    if (walk_blocks(k, s, fewest, most)) return true;
    if (first == last) return false;
    if (k->work > WORK)
        return blocks_fit(k, s, first, first, fewest, most) && blocks_fit(k, s, last, last, fewest, most);
    const int64_t cut = k->widest > 0 && k->turn_dim == BLOCK ? k->turn : first + (last - first) / 2;
    return blocks_fit(k, s, first, cut, fewest, most) && blocks_fit(k, s, cut + 1, last, fewest, most);
}

static bool stages_fit(bounder *k)
{
    for (uint32_t i = 0; i < k->p->n_stages; i++) {
        int64_t fewest, most;
        k->first[BLOCK] = k->last[BLOCK] = 0;
        count_blocks(k, &k->p->stage[i], &fewest, &most);
        if (!blocks_fit(k, &k->p->stage[i], 0, most - 1, fewest, most)) return false;
    }
    return true;
}

/* -------------------------------------------------------------------------------------------------------- sets */

/* After walk_tile. */
static bool set_fits(bounder *k)
{
    for (uint32_t i = 0; i < k->p->n_values; i++)
        if (!value_fits(k, i)) return false;
    for (uint32_t i = 0; i < k->p->n_nodes; i++)
        if (!copies_fit(k, &k->p->node[i])) return false;
    return stages_fit(k);
}

/* The longest dimension of the set, or DIMS where it is one tile. */
static uint32_t longest_dim(const bounder *k)
{
    uint32_t by = DIMS;
    for (uint32_t d = 0; d < TILE_DIMS; d++)
        if (k->last[d] > k->first[d] && (by == DIMS || k->last[d] - k->first[d] > k->last[by] - k->first[by])) by = d;
    return by;
}

static plim_status check_set(bounder *k, uint32_t depth, plim_error *err);

/* Trips first to last of dimension d, the others as they are. */
static plim_status check_part(bounder *k, uint32_t d, int64_t first, int64_t last, uint32_t depth, plim_error *err)
{
    const int64_t was_first = k->first[d], was_last = k->last[d];
    k->first[d] = first;
    k->last[d] = last;
    const plim_status status = check_set(k, depth, err);
    k->first[d] = was_first;
    k->last[d] = was_last;
    return status;
}

/* A set that was not shown to fit in one: both parts of it. Cuts at turning points may take few tiles away: there are
 * not more than FINE of them, one inside the other; then halves. */
static plim_status check_set(bounder *k, uint32_t depth, plim_error *err)
{
    enum { FINE = 40 };
    if (depth > 0) walk_tile(k);
    if (set_fits(k)) return PLIM_OK;
    uint32_t by = longest_dim(k);
    PLIM_FAIL_IF(by == DIMS, err, PLIM_E_PLAN, "%s", k->why);
    int64_t cut = k->first[by] + (k->last[by] - k->first[by]) / 2;
    if (k->widest > 0 && k->turn_dim < TILE_DIMS && depth < FINE) {
        by = k->turn_dim;
        cut = k->turn;
    }
    PLIM_ASSERT(cut >= k->first[by] && cut < k->last[by]);
    const int64_t first = k->first[by], last = k->last[by];
    const bool all = k->work <= WORK;
    PLIM_TRY(check_part(k, by, first, all ? cut : first, depth + 1, err));
    return check_part(k, by, all ? cut + 1 : last, last, depth + 1, err);
}

/* I15: what a step reads or makes moves only with the loops that the step is inside of. The forms are those of all
 * tiles. */
static plim_status check_movers(const bounder *k, plim_error *err)
{
    const plim__pass *p = k->p;
    for (uint32_t i = 0; i < p->n_values; i++) {
        uint32_t moved = 0;
        for (uint32_t d = 0; d < k->g->value[p->value[i].value].shape.rank; d++)
            moved |= k->dim[k->dim0[i] + d].lo.moved_by | k->dim[k->dim0[i] + d].hi.moved_by;
        PLIM_FAIL_IF(p->value[i].role == PLIM__ROLE_READ && moved >> p->value[i].depth, err, PLIM_E_PLAN,
                     "I15: '%s' is read outside of a loop that moves it", k->g->value[p->value[i].value].name);
    }
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        uint32_t moved = 0;
        for (uint32_t a = 0; a < p->node[i].axes.n; a++)
            moved |= k->axis[p->node[i].axis0 + a].lo.moved_by | k->axis[p->node[i].axis0 + a].hi.moved_by;
        PLIM_FAIL_IF(moved >> p->node[i].depth, err, PLIM_E_PLAN, "I15: node %u runs outside of a loop that moves it",
                     p->node[i].node);
    }
    return PLIM_OK;
}

static plim_status check_sets(bounder *k, plim_error *err)
{
    const plim__pass *p = k->p;
    if (k->axis_of_one) {
        PLIM_FAIL_IF(!stages_fit(k), err, PLIM_E_PLAN, "%s", k->why);
        return PLIM_OK;
    }
    for (uint32_t l = 0; l < p->n_cut; l++) k->last[l] = plim__loop_trips(&p->loop[l]) - 1;
    walk_tile(k);
    PLIM_TRY(check_movers(k, err));
    return check_set(k, 0, err);
}

/* Memory for the forms of a tile, unless there is only one, and for those of the largest stage. */
static plim_status new_forms(bounder *k, plim_error *err)
{
    const plim__alloc *a = &k->plan->alloc;
    uint64_t dims = 0, most = 0;
    for (uint32_t i = 0; i < k->p->n_stages; i++) most = k->p->stage[i].count > most ? k->p->stage[i].count : most;
    k->block_dim = plim__new(a, most * PLIM__MAX_OUT * PLIM_MAX_RANK, sizeof *k->block_dim, err);
    k->block_wanted = plim__new(a, most * PLIM__MAX_OUT, sizeof *k->block_wanted, err);
    if (!k->block_dim || !k->block_wanted) return PLIM_E_NOMEM;
    if (k->axis_of_one) return PLIM_OK;
    k->dim0 = plim__new(a, k->p->n_values, sizeof *k->dim0, err);
    if (!k->dim0) return PLIM_E_NOMEM;
    for (uint32_t i = 0; i < k->p->n_values; i++) {
        k->dim0[i] = (uint32_t)dims;
        dims += k->g->value[k->p->value[i].value].shape.rank;
    }
    k->axis = plim__new(a, k->p->n_axes, sizeof *k->axis, err);
    k->dim = plim__new(a, dims, sizeof *k->dim, err);
    k->wanted = plim__new(a, k->p->n_values, sizeof *k->wanted, err);
    return k->axis && k->dim && k->wanted ? PLIM_OK : PLIM_E_NOMEM;
}

plim_status plim__check_all_tiles(const plim_plan *plan, const plim__pass *p, const plim__range *axis, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    PLIM_FAIL_IF(p->n_cut > TILE_DIMS, err, PLIM_E_PLAN, "I6: %u loops are cut, at most %d can be", p->n_cut,
                 TILE_DIMS);
    bounder k = {.plan = plan, .g = plan->graph, .p = p, .axis_of_one = axis};
    plim_status status = new_forms(&k, err);
    if (status == PLIM_OK) status = check_sets(&k, err);
    plim__free(a, k.block_dim);
    plim__free(a, k.block_wanted);
    plim__free(a, k.dim0);
    plim__free(a, k.axis);
    plim__free(a, k.dim);
    plim__free(a, k.wanted);
    return status;
}
