/* Who may be written over whom.
 *
 * An output y of a stage may lie on an input x of it when a thread that works on a block destroys nothing that somebody will read:
 *
 *   - Inside the stage, x is read only on the way to y, and each node on that way reads element i to make element i. So a block reads of x
 *     what it writes of y and no more, and other threads' blocks have other elements. The node that makes y runs last; where it reads x itself, its row
 *     says that it reads each element before it writes it (PLIM__OP_INPLACE; PLIM__OP_UPDATE for a state and what takes its place).
 *   - Both are made or read, and used, in the same trip of the loops around them: by steps of one group; or x is read once for all trips of inner loops, and y is
 *     made, behind these, by the steps that end the same trip.
 *   - x has been read from its file or made by an earlier stage, and goes to no file itself: no transfer is under way. y may go to a file, from where it lies; not
 *     from a ring that turns with every tile, for what is read ahead would wait for what is still being written.
 *   - The box of y is that of x in every tile, and lies there densely, as it would in a slot of its own: kernels do the same, to the bit.
 *
 * The last point needs the boxes of all tiles. They are compared by how they are made: a range of a dimension is all of it, or what a loop gives an axis
 * of that extent, or something else, of which nothing is known. It is found backwards through the nodes as the boxes are (regions.c); what two
 * readers ask for in the same way is the same range.
 *
 * A value of another shape with the same elements in the same order (PLIM__OP_SAME_ORDER) may lie on all of its input where all of both is there: then its
 * node has nothing to do.
 *
 * Inside a stage the same goes for its private values: one that a single node reads may be overwritten by that node.
 *
 * Linear in nodes and operands, for each stage times the values that leave it. Allocates tables as long as the pass; any thread. */
#include "plan/inplace.h"
#include "core/dtype.h"
#include "plan/build.h"
#include "plan/measure.h"

#include <string.h>

/* Which range of a dimension there is in a tile: FIRST_LOOP + l is what loop l gives an axis of this extent. */
enum { UNKNOWN = -2, UNUSED = -1, ALL = 0, FIRST_LOOP = 1 };

/* How the nodes of a stage read a value. */
enum { BY_ELEMENT = 1, OTHERWISE = 2, BY_MAKER = 4 };

static_assert(FIRST_LOOP + PLIM__MAX_LOOPS <= INT8_MAX, "ranges are int8_t");
static_assert(PLIM__MAX_GROUPS <= 32, "sets of groups are uint32_t");

/* -------------------------------------------------------------------------------------------- ranges of dimensions */

/* The hull of two ranges. */
static int8_t join(int8_t a, int8_t b)
{
    if (a == UNUSED || a == b) return b;
    if (b == UNUSED) return a;
    return a == ALL || b == ALL ? ALL : UNKNOWN;
}

static int8_t root_range(const plim__pass *p, const plim__pnode *n, uint32_t axis)
{
    const int l = n->bind[axis];
    PLIM_ASSERT(n->root && l < (int)p->n_loops);
    return l < 0 || (uint32_t)l >= p->n_cut || (n->post && l >= n->depth) ? ALL : (int8_t)(FIRST_LOOP + l);
}

/* Ranges of a node's axes, from the loops and from what is asked of its outputs. */
static void find_axes(const plim__sharing *x, const plim__pnode *n, int8_t *axis)
{
    const plim__node *node = &x->g->node[n->node];
    for (uint32_t a = 0; a < n->axes.n; a++) axis[a] = n->root ? root_range(x->p, n, a) : UNUSED;
    for (uint32_t j = 0; j < node->n_out && !n->accumulates; j++)
        for (uint32_t d = 0; d < x->g->value[node->out[j]].shape.rank; d++) {
            const int a = n->axes.out[j][d];
            if (a < 0 || (!n->root && n->axes.axis[a].kind == PLIM__WHOLE)) continue;
            axis[a] = join(axis[a], x->range[n->out[j]][d]);
        }
    for (uint32_t a = 0; a < n->axes.n; a++) {
        if (axis[a] == UNUSED) axis[a] = ALL; /* nobody asks for a part: what is combined is done whole */
        if (!n->root && n->axes.axis[a].kind == PLIM__SCAN && axis[a] != ALL) axis[a] = UNKNOWN; /* from the beginning on */
    }
}

/* Does anybody ask for something that node n makes? A root makes its part in any case. */
static bool is_asked(const plim__sharing *x, const plim__pnode *n)
{
    const plim__node *node = &x->g->node[n->node];
    for (uint32_t j = 0; j < node->n_out && !n->root; j++)
        if (x->g->value[node->out[j]].shape.rank == 0 || x->range[n->out[j]][0] != UNUSED) return true;
    return n->root;
}

/* Does the part of axis a that a loop gives a node read just the part of a dimension that the loop gives it, whatever tiles the loop may have? */
static bool reads_its_part(const plim__pass *p, const plim__pnode *n, const plim__index *index, const int8_t *axis, int64_t extent)
{
    const int8_t range = axis[index->axis];
    if (range < FIRST_LOOP) return false;
    const plim__loop *loop = &p->loop[range - FIRST_LOOP];
    const int64_t steps = plim__covering_steps(index, n->axes.axis[index->axis].extent, extent, loop->extent);
    return steps > 0 && loop->least % steps == 0;
}

/* What a node reads of a dimension. */
static int8_t read_range(const plim__pass *p, const plim__pnode *n, const plim__index *index, const int8_t *axis, int64_t extent)
{
    plim__range all[PLIM__MAX_AXES];
    const int a = index->axis;
    if (a >= 0 && index->stride == 1 && index->offset == 0 && index->div == 1 && index->window == 1 && n->axes.axis[a].extent == extent) return axis[a];
    if (a >= 0 && reads_its_part(p, n, index, axis, extent)) return axis[a];
    if (a >= 0 && axis[a] != ALL) return UNKNOWN;
    for (uint32_t i = 0; i < n->axes.n; i++) all[i] = (plim__range){0, n->axes.axis[i].extent};
    const plim__range r = plim__index_range(index, all, extent);
    return r.lo == 0 && r.hi == extent ? ALL : UNKNOWN;
}

/* What is read back from a spill file is what was spilled, as much as the readers of both ask for. */
static void join_readers_back(const plim__sharing *x, uint32_t v, bool give)
{
    const uint32_t rank = x->g->value[x->p->value[v].value].shape.rank;
    for (uint32_t r = x->p->value[v].back; r != PLIM__NONE; r = x->p->value[r].back)
        for (uint32_t d = 0; d < rank; d++) {
            if (give) x->range[r][d] = x->range[v][d];
            else x->range[v][d] = join(x->range[v][d], x->range[r][d]);
        }
}

static void find_ranges(plim__sharing *x)
{
    const plim__pass *p = x->p;
    memset(x->range, UNUSED, p->n_values * sizeof *x->range);
    for (uint32_t i = p->n_nodes; i-- > 0;) {
        const plim__pnode *n = &p->node[i];
        const plim__node *node = &x->g->node[n->node];
        int8_t axis[PLIM__MAX_AXES];
        for (uint32_t j = 0; j < node->n_out; j++) join_readers_back(x, n->out[j], false);
        if (!is_asked(x, n)) continue;
        find_axes(x, n, axis);
        for (uint32_t j = 0; j < node->n_out; j++) {
            for (uint32_t d = 0; d < x->g->value[node->out[j]].shape.rank; d++)
                x->range[n->out[j]][d] = n->axes.out[j][d] < 0 ? ALL : axis[n->axes.out[j][d]];
            join_readers_back(x, n->out[j], true);
        }
        for (uint32_t k = 0; k < node->n_in; k++) {
            const plim__index *index = plim__nest_reads(p->nest, n->node, k);
            const plim_shape *s = &plim__in(x->g, node, k)->shape;
            int8_t *range = x->range[p->operand[n->in0 + k]];
            for (uint32_t d = 0; d < s->rank; d++) range[d] = join(range[d], read_range(p, n, &index[d], axis, s->dim[d]));
        }
    }
}

/* Is the box of a the box of b in every tile? */
static bool same_box(const plim__sharing *x, uint32_t a, uint32_t b)
{
    const plim_shape *s = &x->g->value[x->p->value[a].value].shape, *t = &x->g->value[x->p->value[b].value].shape;
    if (s->rank != t->rank) return false;
    for (uint32_t d = 0; d < s->rank; d++)
        if (s->dim[d] != t->dim[d] || x->range[a][d] < ALL || x->range[a][d] != x->range[b][d]) return false;
    return true;
}

/* ------------------------------------------------------------------------------------------------------ how it lies */

static bool is_dense(const plim__sharing *x, uint32_t v) { return x->p->value[v].role == PLIM__ROLE_TILE || x->p->value[v].flat; }

/* Is the box of a file one stretch of it in every tile, in the order of the array? */
static bool is_stretch(const plim__sharing *x, uint32_t v, const plim__io_file *f)
{
    const plim_shape *s = &x->g->value[x->p->value[v].value].shape;
    int64_t stride = 1;
    bool inside = false; /* behind the first dimension that is longer than 1 */
    PLIM_ASSERT(s->rank <= PLIM_MAX_RANK);
    for (uint32_t d = s->rank; d-- > 0;) {
        if (s->dim[d] > 1 && f->stride[d] != stride) return false;
        stride *= s->dim[d];
    }
    for (uint32_t d = 0; d < s->rank; d++) {
        if (inside && x->range[v][d] != ALL) return false;
        inside |= s->dim[d] > 1;
    }
    return !f->rows;
}

/* Where in its slot the box of a value begins. @return false: not known, or it does not lie there densely */
static bool find_begin(const plim__sharing *x, uint32_t v, uint64_t *begin)
{
    const plim__pvalue *value = &x->p->value[v];
    *begin = 0;
    if (is_dense(x, v)) return true;
    if (value->file == PLIM__NONE || !is_stretch(x, v, &x->plan->file[value->file].io)) return false;
    if (x->p->n_cut > 0) return value->role == PLIM__ROLE_READ; /* it moves with the tiles */
    const plim__region whole = plim__region_whole(&x->g->value[value->value].shape);
    plim__io_layout layout;
    plim__io_layout_of(&x->plan->file[value->file].io, &whole, value->role != PLIM__ROLE_READ, &layout);
    *begin = layout.first;
    return true;
}

/* Do the boxes of two files, which are the same stretch of their arrays in every tile, begin at the same place in their blocks? */
static bool begin_alike(const plim__sharing *x, uint32_t out, uint32_t in)
{
    const plim__io_file *f = &x->plan->file[x->p->value[out].file].io, *g = &x->plan->file[x->p->value[in].file].io;
    PLIM_ASSERT(f->element == g->element);
    return f->offset % PLIM__IO_ALIGN == g->offset % PLIM__IO_ALIGN && f->offset % f->element == 0;
}

/* May `out` lie where `in` does? What goes to a file lies in its slot as the transfer wants it; everything else lies wherever `in` does. */
static bool lies_alike(const plim__sharing *x, uint32_t out, uint32_t in)
{
    const uint32_t root = plim__alias_root(x->p, in);
    const plim__pvalue *v = &x->p->value[out], *r = &x->p->value[root];
    uint64_t begin, wanted;
    if (!find_begin(x, root, &begin)) return false;
    if (v->role == PLIM__ROLE_TILE) return true;
    if (x->p->n_cut == 0) return find_begin(x, out, &wanted) && wanted == begin;
    if (r->role != PLIM__ROLE_READ || is_dense(x, root) || v->flat || v->file == PLIM__NONE) return false;
    if (plim__read_has_ring(x->plan, x->p, r) || plim__write_has_ring(x->plan, x->p, v)) return false;
    if (v->beside != (r->ahead || r->beside)) return false; /* who reads again into the slot has to know that it may still be written from */
    return same_box(x, out, root) && is_stretch(x, out, &x->plan->file[v->file].io) && begin_alike(x, out, root);
}

/* --------------------------------------------------------------------------------------------------- inside a stage */

static bool is_whole_or_parallel(const plim__pnode *n, bool maker)
{
    for (uint32_t a = 0; a < n->axes.n; a++)
        if (n->axes.axis[a].kind != PLIM__PARALLEL && !(maker && n->axes.axis[a].kind == PLIM__WHOLE)) return false;
    return true;
}

/* Does node n read element i of its input k to make element i of its output j? */
static bool reads_by_element(const plim__sharing *x, const plim__pnode *n, uint32_t k, uint32_t j)
{
    const plim__node *node = &x->g->node[n->node];
    const plim_shape *in = &x->g->value[node->in[k]].shape, *out = &x->g->value[node->out[j]].shape;
    const plim__index *index = plim__nest_reads(x->p->nest, n->node, k);
    if (in->rank != out->rank) return false;
    for (uint32_t d = 0; d < in->rank; d++) {
        const plim__index *i = &index[d];
        if (in->dim[d] != out->dim[d] || i->axis < 0 || i->axis != n->axes.out[j][d]) return false;
        if (i->stride != 1 || i->offset != 0 || i->div != 1 || i->window != 1) return false;
    }
    return true;
}

/* Is node i on the way to what is made by element, and nowhere else? */
static bool is_on_the_way(const plim__sharing *x, uint32_t i)
{
    const plim__pnode *n = &x->p->node[i];
    return x->g->node[n->node].n_out == 1 && x->p->value[n->out[0]].role == PLIM__ROLE_PRIVATE && x->mark[n->out[0]] & BY_ELEMENT &&
           !(x->mark[n->out[0]] & OTHERWISE) &&
           is_whole_or_parallel(n, false);
}

/* Marks how the nodes of a stage read their inputs, on the way to output j of node `maker` or otherwise. */
static void mark_reads(plim__sharing *x, const plim__stage *s, uint32_t maker, uint32_t j)
{
    PLIM_ASSERT(maker >= s->first && maker < s->first + s->count);
    for (uint32_t i = s->first + s->count; i-- > s->first;) {
        const plim__pnode *n = &x->p->node[i];
        const bool leads = i == maker || (i < maker && is_on_the_way(x, i));
        for (uint32_t k = 0; k < x->g->node[n->node].n_in; k++) {
            const bool by_element = leads && reads_by_element(x, n, k, i == maker ? j : 0);
            x->mark[x->p->operand[n->in0 + k]] |= (uint8_t)((by_element ? BY_ELEMENT : OTHERWISE) | (i == maker && by_element ? BY_MAKER : 0));
        }
    }
}

static void clear_marks(plim__sharing *x, const plim__stage *s)
{
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t k = 0; k < x->g->node[x->p->node[i].node].n_in; k++) x->mark[x->p->operand[x->p->node[i].in0 + k]] = 0;
}

/* May node n write its output `out` where it reads `in`? */
static bool writes_behind_reads(const plim__sharing *x, const plim__pnode *n, uint32_t out, uint32_t in)
{
    const plim__node *node = &x->g->node[n->node];
    const uint32_t flags = plim__op_row_of(node->op)->flags, state = x->plan->replaces[x->p->value[out].value];
    if (flags & PLIM__OP_INPLACE && node->n_out == 1) return true;
    return flags & PLIM__OP_UPDATE && state != PLIM__NONE && x->g->state[state].in == x->p->value[in].value;
}

/* Groups of steps between those that begin a trip of the loops outside `depth` and those that end it. */
static uint32_t groups_inside(const plim__pass *p, uint32_t depth)
{
    const uint32_t first = plim__group_of(p, depth, false), last = plim__group_of(p, depth, true);
    PLIM_ASSERT(first < last && last < PLIM__MAX_GROUPS);
    return (UINT32_C(2) << last) - (UINT32_C(1) << first);
}

/* Does every trip have its own `in`, and its own `out` that is made when nobody in the trip needs `in` any more? */
static bool is_in_one_trip(const plim__sharing *x, uint32_t out, uint32_t in)
{
    const uint32_t set = x->groups[out] | x->groups[in];
    const plim__pvalue *read = &x->p->value[in];
    const plim__pnode *maker = &x->p->node[x->p->value[out].producer];
    if ((set & (set - 1)) == 0) return true;
    if (!maker->post || x->groups[out] != UINT32_C(1) << plim__group_of(x->p, maker->depth, true)) return false;
    if (read->role != PLIM__ROLE_READ || read->streamed || read->flat || read->depth != maker->depth) return false;
    return (set & ~groups_inside(x->p, maker->depth)) == 0;
}

static uint64_t element_bytes(const plim__sharing *x, uint32_t v) { return plim_dtype_bytes(x->g->value[x->p->value[v].value].dtype); }

/* Is all of a value there, in every tile? */
static bool is_all_there(const plim__sharing *x, uint32_t v)
{
    for (uint32_t d = 0; d < x->g->value[x->p->value[v].value].shape.rank; d++)
        if (x->range[v][d] != ALL) return false;
    return true;
}

/* Is `out`, which node n makes, all of its input `in` in another shape? */
static bool is_reshaped(const plim__sharing *x, const plim__pnode *n, uint32_t out, uint32_t in)
{
    if (!(plim__op_row_of(x->g->node[n->node].op)->flags & PLIM__OP_SAME_ORDER) || x->p->operand[n->in0] != in) return false;
    PLIM_ASSERT(x->g->node[n->node].n_in == 1 && x->g->node[n->node].n_out == 1);
    return is_all_there(x, out) && is_all_there(x, in);
}

/* May `out` lie on `in`, which its stage reads as the marks say? */
static bool may_overwrite(const plim__sharing *x, const plim__stage *s, const plim__pnode *maker, uint32_t out, uint32_t in)
{
    const plim__pvalue *v = &x->p->value[in];
    const uint8_t mark = x->mark[in];
    const bool by_element = mark & BY_ELEMENT && !(mark & OTHERWISE) && (!(mark & BY_MAKER) || writes_behind_reads(x, maker, out, in));
    if ((v->role != PLIM__ROLE_READ && v->role != PLIM__ROLE_TILE) || v->foreign) return false;
    if (v->producer != PLIM__NONE && v->producer >= s->first && v->producer < s->first + s->count) return false;
    if (!(by_element && same_box(x, out, in)) && !is_reshaped(x, maker, out, in)) return false;
    PLIM_ASSERT(!v->stored && (v->role == PLIM__ROLE_READ || v->file == PLIM__NONE)); /* no transfer from its slot is under way */
    return element_bytes(x, out) == element_bytes(x, in) && is_in_one_trip(x, out, in) && lies_alike(x, out, in);
}

uint32_t plim__sharing_find(plim__sharing *x, uint32_t out, uint32_t *found)
{
    const plim__pvalue *v = &x->p->value[out];
    if ((v->role != PLIM__ROLE_TILE && v->role != PLIM__ROLE_WRITE) || v->producer == PLIM__NONE) return 0;
    const plim__pnode *maker = &x->p->node[v->producer];
    const plim__stage *s = &x->p->stage[maker->stage];
    uint32_t n = 0;
    if (maker->accumulates || !is_whole_or_parallel(maker, true)) return 0;
    mark_reads(x, s, v->producer, x->g->value[v->value].out);
    for (uint32_t i = s->first; i <= v->producer; i++)
        for (uint32_t k = 0; k < x->g->node[x->p->node[i].node].n_in && n < PLIM__MAX_OVERWRITABLE; k++) {
            const uint32_t in = x->p->operand[x->p->node[i].in0 + k];
            bool known = false;
            for (uint32_t f = 0; f < n; f++) known |= found[f] == in;
            if (!known && may_overwrite(x, s, maker, out, in)) found[n++] = in;
        }
    clear_marks(x, s);
    return n;
}

/* ------------------------------------------------------------------------------------------------------ the tables */

static void find_uses(plim__sharing *x)
{
    const plim__pass *p = x->p;
    memset(x->first, 0xff, p->n_values * sizeof *x->first);
    memset(x->last, 0xff, p->n_values * sizeof *x->last);
    for (uint32_t i = 0; i < p->n_nodes; i++) {
        const plim__pnode *n = &p->node[i];
        const uint32_t group = 1u << plim__group_of(p, n->depth, n->post);
        for (uint32_t k = 0; k < x->g->node[n->node].n_in; k++) {
            x->groups[p->operand[n->in0 + k]] |= group;
            x->last[p->operand[n->in0 + k]] = i;
            if (x->first[p->operand[n->in0 + k]] == PLIM__NONE) x->first[p->operand[n->in0 + k]] = i;
        }
        for (uint32_t j = 0; j < x->g->node[n->node].n_out; j++) x->groups[n->out[j]] |= group;
    }
    for (uint32_t t = 0; t < p->n_steps; t++) {
        const plim__step *s = &p->step[t];
        if (s->kind == PLIM__STEP_READ || s->kind == PLIM__STEP_WRITE || s->kind == PLIM__STEP_WAIT)
            x->groups[s->index] |= 1u << plim__group_of(p, s->depth, s->post);
    }
}

plim_status plim__sharing_new(plim__sharing *x, const plim_plan *plan, const plim__pass *p, plim_error *err)
{
    const plim__alloc *a = &plan->alloc;
    *x = (plim__sharing){.plan = plan, .g = plan->graph, .p = p};
    x->range = plim__new(a, p->n_values, sizeof *x->range, err);
    x->groups = plim__new(a, p->n_values, sizeof *x->groups, err);
    x->first = plim__new(a, p->n_values, sizeof *x->first, err);
    x->last = plim__new(a, p->n_values, sizeof *x->last, err);
    x->mark = plim__new(a, p->n_values, sizeof *x->mark, err);
    if (!x->range || !x->groups || !x->first || !x->last || !x->mark) return PLIM_E_NOMEM;
    find_uses(x);
    find_ranges(x);
    return PLIM_OK;
}

void plim__sharing_free(plim__sharing *x, const plim__alloc *a)
{
    plim__free(a, x->range);
    plim__free(a, x->groups);
    plim__free(a, x->first);
    plim__free(a, x->last);
    plim__free(a, x->mark);
    *x = (plim__sharing){0};
}

/* --------------------------------------------------------------------------------------------------------- the pass */

/* Is there a value that lies on v already? */
static bool is_taken(const plim__pass *p, const plim__stage *s, uint32_t v)
{
    for (uint32_t i = s->first; i < s->first + s->count; i++)
        for (uint32_t j = 0; j < PLIM__MAX_OUT && p->node[i].out[j] != PLIM__NONE; j++)
            if (p->value[p->node[i].out[j]].alias_of == v) return true;
    return false;
}

/* Output j of node i takes the slot of an input that is used for the last time in this stage. */
static void share_slot(plim__sharing *x, plim__pass *p, uint32_t i, uint32_t j)
{
    const plim__stage *s = &p->stage[p->node[i].stage];
    uint32_t in[PLIM__MAX_OVERWRITABLE];
    const uint32_t n = plim__sharing_find(x, p->node[i].out[j], in);
    for (uint32_t k = 0; k < n; k++) {
        PLIM_ASSERT(x->last[in[k]] != PLIM__NONE && x->last[in[k]] >= s->first);
        if (x->last[in[k]] >= s->first + s->count || is_taken(p, s, in[k])) continue;
        p->value[p->node[i].out[j]].alias_of = in[k];
        return;
    }
}

/* Is what node n makes exactly what is asked of it? */
static bool makes_what_is_asked(const plim__sharing *x, const plim__pnode *n)
{
    const plim__node *node = &x->g->node[n->node];
    if (node->n_out != 1) return false; /* its part follows from all outputs */
    for (uint32_t d = 0; d < x->g->value[node->out[0]].shape.rank; d++)
        if (n->axes.out[0][d] < 0 || n->axes.axis[n->axes.out[0][d]].kind != PLIM__PARALLEL) return false;
    return true;
}

/* May the private output of node i lie on its private input `in`? Node i alone reads it, so both have the same box. */
static bool may_overwrite_private(const plim__sharing *x, uint32_t i, uint32_t in)
{
    const plim__pnode *n = &x->p->node[i];
    const plim__pvalue *v = &x->p->value[in];
    if (v->role != PLIM__ROLE_PRIVATE || x->first[in] != i || x->last[in] != i || element_bytes(x, in) != element_bytes(x, n->out[0])) return false;
    PLIM_ASSERT(x->p->node[v->producer].stage == n->stage && v->producer < i);
    for (uint32_t k = 0; k < x->g->node[n->node].n_in; k++)
        if (x->p->operand[n->in0 + k] == in && !reads_by_element(x, n, k, 0)) return false;
    return makes_what_is_asked(x, &x->p->node[v->producer]);
}

static void share_private(const plim__sharing *x, plim__pass *p, uint32_t i)
{
    const plim__pnode *n = &p->node[i];
    const plim__node *node = &x->g->node[n->node];
    if (node->n_out != 1 || !(plim__op_row_of(node->op)->flags & PLIM__OP_INPLACE) || !is_whole_or_parallel(n, false)) return;
    for (uint32_t k = 0; k < node->n_in && p->value[n->out[0]].alias_of == PLIM__NONE; k++)
        if (may_overwrite_private(x, i, p->operand[n->in0 + k])) p->value[n->out[0]].alias_of = p->operand[n->in0 + k];
}

plim_status plim__pass_share(plim__pass *p, const plim_plan *plan, plim_error *err)
{
    plim__sharing x;
    for (uint32_t v = 0; v < p->n_values; v++) p->value[v].alias_of = PLIM__NONE;
    const plim_status status = plim__sharing_new(&x, plan, p, err);
    for (uint32_t i = 0; i < p->n_nodes && status == PLIM_OK; i++)
        for (uint32_t j = 0; j < x.g->node[p->node[i].node].n_out; j++) {
            if (p->value[p->node[i].out[j]].role == PLIM__ROLE_PRIVATE) share_private(&x, p, i);
            else share_slot(&x, p, i, j);
        }
    plim__sharing_free(&x, &plan->alloc);
    return status;
}
