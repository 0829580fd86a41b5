/* Every value of the old graph is in the new one as it was, in blocks, or both; conversions are made when somebody asks for the form that is not there.
 *
 * A convolution and what follows it (numbers per channel that are added or, where nothing is trained, multiplied: biases and batch norms; another array
 * that is added; limits) are one node, where nobody else reads what is between them: each of them alone would pass over the whole array in memory again.
 *
 * Where C is no multiple of 16, the last block is filled up. What is in there must stay finite, for it meets weights that are 0: so only functions that
 * take finite numbers to finite ones are worked in blocks then. */
#include "models/blocked.h"
#include "ops/layers.h"
#include "ops/spatial.h"

#include <string.h>

/* A convolution and what is made together with it, in this order. */
typedef struct chain {
    uint32_t conv, last;   /* nodes; last: the one whose result is made */
    uint32_t scaled;       /* the last node that adds or multiplies numbers per channel; conv: there is none */
    uint32_t other;        /* value that is added, or PLIM__NONE */
    bool relu;
    double most;           /* 0: no limit */
} chain;

typedef struct blocker {
    plim__model *m;
    const plim_graph *from;
    plim_graph *to;
    uint32_t *plain, *blocked; /* per old value: the new one, PLIM__NONE where there is none (yet) */
    uint32_t *uses;            /* per old value: how often it is read, results included */
    uint32_t *user;            /* per old value: a node that reads it */
    uint32_t *behind;          /* per old value: a parameter that it is made of, PLIM__NONE: there is none, and no gradient goes there */
    uint32_t *maker;           /* per old node that is a part of a chain: its number; else PLIM__NONE */
    uint32_t *made_by;         /* per old node that is the last of a chain: its number; else PLIM__NONE */
    chain *chain; uint32_t n_chains;
    bool trained;              /* gradients will be wanted */
    uint32_t *in;              /* scratch */
    plim_error *err;
} blocker;

/* ------------------------------------------------------------------------------------------------------- forms */

static int64_t blocks(int64_t n) { return (n + PLIM__BLOCK - 1) / PLIM__BLOCK; }

static const plim_shape *shape_of(const blocker *b, uint32_t old) { return &b->from->value[old].shape; }

static bool is_padded(int64_t channels) { return channels % PLIM__BLOCK != 0; }

/* Dimension `axis` filled up with zeros to whole blocks. */
static plim_status fill_up(blocker *b, uint32_t v, uint32_t axis, uint32_t *out)
{
    const plim_shape s = b->to->value[v].shape;
    int64_t before[PLIM_MAX_RANK] = {0}, after[PLIM_MAX_RANK] = {0};
    after[axis] = blocks(s.dim[axis]) * PLIM__BLOCK - s.dim[axis];
    *out = v;
    return after[axis] ? plim__op_pad(b->to, v, before, after, PLIM__EDGE_CONSTANT, 0, out, b->err) : PLIM_OK;
}

static plim_status to_blocks(blocker *b, uint32_t v, uint32_t *out)
{
    PLIM_TRY(fill_up(b, v, 1, &v));
    const plim_shape s = b->to->value[v].shape;
    const plim_shape cut = {5, {s.dim[0], s.dim[1] / PLIM__BLOCK, PLIM__BLOCK, s.dim[2], s.dim[3]}};
    PLIM_TRY(plim__op_reshape(b->to, v, &cut, &v, b->err));
    return plim__op_transpose(b->to, v, (const uint32_t[]){0, 1, 3, 4, 2}, out, b->err);
}

static plim_status from_blocks(blocker *b, uint32_t v, int64_t channels, uint32_t *out)
{
    const plim_shape s = b->to->value[v].shape;
    const plim_shape joined = {4, {s.dim[0], s.dim[1] * PLIM__BLOCK, s.dim[2], s.dim[3]}};
    PLIM_TRY(plim__op_transpose(b->to, v, (const uint32_t[]){0, 1, 4, 2, 3}, &v, b->err));
    PLIM_TRY(plim__op_reshape(b->to, v, &joined, &v, b->err));
    return plim__op_slice_axis(b->to, v, 1, 0, 1, channels, out, b->err);
}

static plim_status get_plain(blocker *b, uint32_t old, uint32_t *v)
{
    if (b->plain[old] == PLIM__NONE) PLIM_TRY(from_blocks(b, b->blocked[old], shape_of(b, old)->dim[1], &b->plain[old]));
    *v = b->plain[old];
    return PLIM_OK;
}

static plim_status get_blocked(blocker *b, uint32_t old, uint32_t *v)
{
    if (b->blocked[old] == PLIM__NONE) PLIM_TRY(to_blocks(b, b->plain[old], &b->blocked[old]));
    *v = b->blocked[old];
    return PLIM_OK;
}

/* Only in blocks: whoever can go on with them should. */
static bool lives_in_blocks(const blocker *b, uint32_t old) { return b->blocked[old] != PLIM__NONE && b->plain[old] == PLIM__NONE; }

/* ------------------------------------------------------------------------------------------------ convolutions */

static plim__param *param_of(const blocker *b, uint32_t old)
{
    for (uint32_t i = 0; i < b->m->n_params; i++)
        if (b->m->param[i].value == old) return &b->m->param[i];
    return NULL;
}

/* The parameter that the weights `w` of a convolution are, or are a transpose of, if nobody else reads it. */
static plim__param *weights_behind(const blocker *b, uint32_t w, plim__weight_form *form)
{
    const plim_graph *g = b->from;
    const plim__value *v = &g->value[w];
    for (uint32_t d = 0; d < 4; d++) form->dim[d] = (uint8_t)d;
    if (b->uses[w] != 1) return NULL;
    if (v->kind == PLIM__VALUE_NODE && g->node[v->node].op == PLIM__OP_TRANSPOSE) {
        const plim__node *turn = &g->node[v->node];
        for (uint32_t d = 0; d < 4; d++) form->dim[d] = (uint8_t)turn->attr.i[d];
        w = turn->in[0];
        if (b->uses[w] != 1) return NULL;
    }
    if (g->value[w].kind != PLIM__VALUE_FILE || g->source[g->value[w].source].swap) return NULL;
    form->plain = g->value[w].shape;
    return param_of(b, w);
}

static bool is_conv(const plim__node *n) { return n->op == PLIM__OP_CONV || n->op == PLIM__OP_CONV_DATA; }

/* As form_for: a transposed convolution reads the outputs of the one whose gradient it is, and makes its channels. */
static plim__form_kind form_for_transposed(const blocker *b, const plim__node *n)
{
    const plim_shape *y = shape_of(b, n->in[0]);
    const int64_t groups = n->attr.i[PLIM__SPATIAL_GROUPS], outputs = y->dim[1], channels = shape_of(b, n->out[0])->dim[1];
    if (y->rank != 4 || b->from->value[n->in[0]].dtype != PLIM_F32) return PLIM__FORM_PLAIN;
    if (groups == channels && outputs == channels && channels >= PLIM__BLOCK) return PLIM__FORM_DEPTHWISE;
    if (groups > 1) return (channels / groups) % PLIM__BLOCK || (outputs / groups) % PLIM__BLOCK ? PLIM__FORM_PLAIN : PLIM__FORM_BLOCKED;
    return outputs >= PLIM__BLOCK / 2 ? PLIM__FORM_BLOCKED : PLIM__FORM_PLAIN;
}

/* Of layers with few channels only those at the very beginning read them plain: no gradient comes out of them there. */
static plim__form_kind form_for_few(const blocker *b, uint32_t x, int64_t channels, int64_t outputs)
{
    if (outputs < PLIM__BLOCK / 2) return PLIM__FORM_PLAIN;
    if (b->behind[x] == PLIM__NONE) return PLIM__FORM_FIRST;
    return channels >= PLIM__BLOCK / 4 ? PLIM__FORM_BLOCKED : PLIM__FORM_PLAIN;
}

/* Which form the weights of a convolution get; PLAIN: it stays as it is. */
static plim__form_kind form_for(const blocker *b, const plim__node *n)
{
    if (n->op == PLIM__OP_CONV_DATA) return form_for_transposed(b, n);
    const plim_shape *x = shape_of(b, n->in[0]), *w = shape_of(b, n->in[1]);
    const int64_t groups = n->attr.i[PLIM__SPATIAL_GROUPS], channels = x->dim[1], outputs = w->dim[0];
    if (n->op != PLIM__OP_CONV || x->rank != 4 || b->from->value[n->in[0]].dtype != PLIM_F32) return PLIM__FORM_PLAIN;
    if (groups == channels && outputs == channels && channels >= PLIM__BLOCK) return PLIM__FORM_DEPTHWISE;
    if (groups > 1) return (channels / groups) % PLIM__BLOCK || (outputs / groups) % PLIM__BLOCK ? PLIM__FORM_PLAIN : PLIM__FORM_BLOCKED;
    if (channels < PLIM__BLOCK) return form_for_few(b, n->in[0], channels, outputs);
    return PLIM__FORM_BLOCKED;
}

/* A vector of one number per output, however it stands against [N, C, H, W]. */
static bool is_per_channel(const plim_shape *s, int64_t channels)
{
    const uint32_t c = s->rank == 4 ? 1 : 0;
    if (s->rank != 4 && s->rank != 3) return false;
    for (uint32_t d = 0; d < s->rank; d++)
        if (s->dim[d] != (d == c ? channels : 1)) return false;
    return true;
}

/* The only reader of an old value, if it is elementwise; else PLIM__NONE. */
static uint32_t only_reader(const blocker *b, uint32_t old)
{
    if (b->uses[old] != 1 || b->user[old] == PLIM__NONE) return PLIM__NONE;
    return b->from->node[b->user[old]].op == PLIM__OP_ELEMENTWISE ? b->user[old] : PLIM__NONE;
}

/* A constant of one element. */
static bool is_number(const blocker *b, uint32_t old, double *x)
{
    const plim__value *v = &b->from->value[old];
    float f;
    if (v->kind != PLIM__VALUE_CONST || v->dtype != PLIM_F32 || v->bytes != sizeof f) return false;
    memcpy(&f, v->data, sizeof f);
    *x = (double)f;
    return true;
}

/* What node i, an elementwise function of two operands, does with `old`: the other one. */
static uint32_t operand_beside(const blocker *b, uint32_t i, uint32_t old)
{
    const plim__node *n = &b->from->node[i];
    return n->in[0] == old ? n->in[1] : n->in[0];
}

/* Numbers per channel that are added to `old`, subtracted from it or multiplied with it, by node i. */
static bool scales(const blocker *b, uint32_t i, uint32_t old)
{
    const plim__node *n = &b->from->node[i];
    const bool right = n->attr.kind == PLIM__EW_ADD || (n->attr.kind == PLIM__EW_SUB && n->in[0] == old) || (n->attr.kind == PLIM__EW_MUL && !b->trained);
    return right && is_per_channel(shape_of(b, operand_beside(b, i, old)), shape_of(b, n->out[0])->dim[1]);
}

/* A limit of `old`, where(compare(old, x), x, value), in node i, whose comparison nobody else reads. @param compare  the comparison's node, found */
static bool is_limit(const blocker *b, uint32_t i, uint32_t fn, uint32_t old, uint32_t value, double *x, uint32_t *compare)
{
    const plim_graph *g = b->from;
    const plim__node *n = &g->node[i];
    double against;
    if (n->op != PLIM__OP_ELEMENTWISE || n->attr.kind != PLIM__EW_WHERE || n->in[2] != value || !is_number(b, n->in[1], x)) return false;
    if (g->value[n->in[0]].kind != PLIM__VALUE_NODE || b->uses[n->in[0]] != 1) return false;
    *compare = g->value[n->in[0]].node;
    const plim__node *test = &g->node[*compare];
    return test->op == PLIM__OP_ELEMENTWISE && test->attr.kind == fn && test->in[0] == old && is_number(b, test->in[1], &against) && against == *x;
}

/* plim__op_limit of what the chain has made so far, from 0 and maybe to a limit above. */
static void add_rectifier(blocker *b, chain *c, uint32_t number)
{
    const plim_graph *g = b->from;
    const uint32_t old = g->node[c->last].out[0];
    uint32_t above = PLIM__NONE, test_above = PLIM__NONE, test;
    double low, high = 0;
    for (uint32_t i = c->last + 1; i < g->n_nodes && b->uses[old] > 1 && b->uses[old] < 4; i++) {
        const uint32_t value = above == PLIM__NONE ? old : g->node[above].out[0];
        if (above == PLIM__NONE && b->uses[old] == 3 && is_limit(b, i, PLIM__EW_GREATER_EQUAL, old, old, &high, &test_above)) {
            if (b->uses[g->node[i].out[0]] != 1 || !(high > 0)) return;
            above = i;
            continue;
        }
        if (!is_limit(b, i, PLIM__EW_LESS_EQUAL, old, value, &low, &test)) continue;
        if (low != 0 || b->uses[old] != (above == PLIM__NONE ? 2 : 3)) return;
        b->maker[c->last] = b->maker[test] = number;
        if (above != PLIM__NONE) b->maker[above] = b->maker[test_above] = number;
        c->relu = true;
        c->most = above == PLIM__NONE ? 0 : high;
        c->last = i;
        return;
    }
}

/* The same as minimum(maximum(old, 0), most), each of which may be missing. */
static void add_clip(blocker *b, chain *c, uint32_t number)
{
    for (int side = 0; side < 2; side++) {
        const uint32_t old = b->from->node[c->last].out[0], i = only_reader(b, old);
        double x;
        if (i == PLIM__NONE || b->from->node[i].attr.kind != (side ? PLIM__EW_MINIMUM : PLIM__EW_MAXIMUM)) continue;
        if (!is_number(b, operand_beside(b, i, old), &x) || (side ? !(x > 0) : x != 0)) return;
        b->maker[c->last] = number;
        c->last = i;
        if (side) c->most = x;
        else c->relu = true;
    }
}

/* What is made together with convolution i. */
static void find_parts(blocker *b, uint32_t i)
{
    const plim_graph *g = b->from;
    const uint32_t number = b->n_chains;
    plim__weight_form form = {0};
    chain c = {.conv = i, .last = i, .scaled = i, .other = PLIM__NONE};
    if (form_for(b, &g->node[i]) == PLIM__FORM_PLAIN || !weights_behind(b, g->node[i].in[1], &form)) return;
    for (uint32_t next; next = only_reader(b, g->node[c.last].out[0]), next != PLIM__NONE && scales(b, next, g->node[c.last].out[0]);) {
        b->maker[c.last] = number;
        c.last = c.scaled = next;
    }
    const uint32_t made = g->node[c.last].out[0], add = only_reader(b, made);
    if (add != PLIM__NONE && g->node[add].attr.kind == PLIM__EW_ADD && b->maker[add] == PLIM__NONE && g->node[add].in[0] != g->node[add].in[1] &&
        plim__shape_equal(shape_of(b, operand_beside(b, add, made)), shape_of(b, made))) {
        c.other = operand_beside(b, add, made);
        b->maker[c.last] = number;
        c.last = add;
    }
    add_rectifier(b, &c, number);
    if (!c.relu) add_clip(b, &c, number);
    b->maker[c.last] = b->made_by[c.last] = number;
    b->chain[b->n_chains++] = c;
}

/* A transposed convolution that is made in blocks is made alone. */
static void find_transposed(blocker *b, uint32_t i)
{
    plim__weight_form form = {0};
    const plim__node *n = &b->from->node[i];
    if (form_for(b, n) == PLIM__FORM_PLAIN || !weights_behind(b, n->in[1], &form)) return;
    b->maker[i] = b->made_by[i] = b->n_chains;
    b->chain[b->n_chains++] = (chain){.conv = i, .last = i, .scaled = i, .other = PLIM__NONE};
}

/* Numbers per channel as [Ob, 16]. */
static plim_status to_channels(blocker *b, uint32_t old, int64_t outputs, uint32_t *v)
{
    PLIM_TRY(get_plain(b, old, v));
    PLIM_TRY(plim__op_reshape(b->to, *v, &(plim_shape){1, {outputs}}, v, b->err));
    PLIM_TRY(fill_up(b, *v, 0, v));
    return plim__op_reshape(b->to, *v, &(plim_shape){2, {blocks(outputs), PLIM__BLOCK}}, v, b->err);
}

/* `v` and `by` put together; PLIM__NONE is what changes nothing. */
static plim_status put_together(blocker *b, plim__ew fn, uint32_t *v, uint32_t by)
{
    if (*v != PLIM__NONE) return plim__op_float2(b->to, fn, *v, by, v, b->err);
    *v = by;
    return fn == PLIM__EW_SUB ? plim__op_float1(b->to, PLIM__EW_NEG, by, v, b->err) : PLIM_OK;
}

/* What a chain does to its sums, one node after the other: sum * scale + bias. */
static plim_status get_scaling(blocker *b, const chain *c, plim__conv_blocked_in *in)
{
    const plim_graph *g = b->from;
    const int64_t outputs = shape_of(b, g->node[c->conv].out[0])->dim[1];
    in->bias = in->scale = PLIM__NONE;
    for (uint32_t i = c->conv; i != c->scaled;) {
        const uint32_t old = g->node[i].out[0];
        uint32_t by;
        i = only_reader(b, old);
        PLIM_TRY(to_channels(b, operand_beside(b, i, old), outputs, &by));
        if (g->node[i].attr.kind != PLIM__EW_MUL) PLIM_TRY(put_together(b, (plim__ew)g->node[i].attr.kind, &in->bias, by));
        else {
            PLIM_TRY(put_together(b, PLIM__EW_MUL, &in->scale, by));
            if (in->bias != PLIM__NONE) PLIM_TRY(put_together(b, PLIM__EW_MUL, &in->bias, by));
        }
    }
    return PLIM_OK;
}

/* The weights as a new parameter in blocks. */
static plim_status get_weights(blocker *b, const plim__node *n, uint32_t *w)
{
    plim__weight_form form = {0};
    plim__param *p = weights_behind(b, n->in[1], &form);
    form.kind = form_for(b, n);
    const plim_shape shape = plim__form_shape(&form);
    plim__source source = b->from->source[b->from->value[p->value].source];
    int64_t stride = 1;
    for (uint32_t d = shape.rank; d-- > 0; stride *= shape.dim[d]) source.stride[d] = stride;
    source.made = true;
    PLIM_TRY(plim__graph_file(b->to, p->name, PLIM_F32, &shape, &source, w, b->err));
    p->form = form;
    b->blocked[p->value] = *w; /* what the parameter is from now on */
    return PLIM_OK;
}

static plim__conv windows_of(const plim__node *n)
{
    plim__conv conv = {.space = 2, .groups = n->attr.i[PLIM__SPATIAL_GROUPS]};
    for (uint32_t d = 0; d < 2; d++) {
        conv.stride[d] = n->attr.i[PLIM__SPATIAL_STRIDE + d];
        conv.dilation[d] = n->attr.i[PLIM__SPATIAL_DILATION + d];
        conv.before[d] = n->attr.i[PLIM__SPATIAL_BEFORE + d];
        conv.after[d] = n->attr.i[PLIM__SPATIAL_AFTER + d];
    }
    return conv;
}

static plim_status make_transposed(blocker *b, const plim__node *n)
{
    const plim_shape x = *shape_of(b, n->out[0]);
    const plim__conv_blocked how = {.conv = windows_of(n), .channels = x.dim[1], .outputs = shape_of(b, n->in[1])->dim[0]};
    uint32_t y, w;
    PLIM_TRY(get_blocked(b, n->in[0], &y));
    PLIM_TRY(get_weights(b, n, &w));
    return plim__op_conv_blocked_data(b->to, y, w, &how, &x, &b->blocked[n->out[0]], b->err);
}

static plim_status make_conv(blocker *b, const chain *c)
{
    const plim__node *n = &b->from->node[c->conv];
    const uint32_t end = b->from->node[c->last].out[0];
    plim__conv_blocked how = {.channels = shape_of(b, n->in[0])->dim[1], .outputs = shape_of(b, n->in[1])->dim[0],
                              .activation = c->relu ? PLIM__BLOCKED_RELU : PLIM__BLOCKED_LINEAR, .most = c->most};
    plim__conv_blocked_in in = {.other = PLIM__NONE};
    how.conv = windows_of(n);
    PLIM_TRY(form_for(b, n) == PLIM__FORM_FIRST ? get_plain(b, n->in[0], &in.x) : get_blocked(b, n->in[0], &in.x));
    PLIM_TRY(get_weights(b, n, &in.w));
    PLIM_TRY(get_scaling(b, c, &in));
    if (c->other != PLIM__NONE) PLIM_TRY(get_blocked(b, c->other, &in.other));
    return plim__op_conv_blocked(b->to, &in, &how, &b->blocked[end], b->err);
}

/* -------------------------------------------------------------------------------------------- what goes along */

/* Functions that take finite numbers to finite ones. */
static bool stays_finite(uint32_t fn)
{
    switch (fn) {
    case PLIM__EW_COPY: case PLIM__EW_ADD: case PLIM__EW_SUB: case PLIM__EW_MUL: case PLIM__EW_NEG: case PLIM__EW_ABS: case PLIM__EW_WHERE:
    case PLIM__EW_LESS: case PLIM__EW_LESS_EQUAL: case PLIM__EW_GREATER: case PLIM__EW_GREATER_EQUAL: case PLIM__EW_MINIMUM: case PLIM__EW_MAXIMUM:
    case PLIM__EW_SIGMOID: case PLIM__EW_TANH: return true;
    default: return false;
    }
}

/* An operand as it stands against blocks: [n, c, h, w] with missing dimensions in front as 1. */
static plim_status get_against(blocker *b, uint32_t old, int64_t channels, uint32_t *v)
{
    const plim_shape s = *shape_of(b, old);
    plim_shape four = {4, {1, 1, 1, 1}};
    for (uint32_t d = 0; d < s.rank; d++) four.dim[4 - s.rank + d] = s.dim[d];
    if (s.rank == 4 && four.dim[1] == channels) return get_blocked(b, old, v);
    PLIM_TRY(get_plain(b, old, v));
    if (s.rank == 0) return PLIM_OK;
    if (four.dim[1] == channels) {
        PLIM_TRY(plim__op_reshape(b->to, *v, &four, v, b->err));
        return to_blocks(b, *v, v);
    }
    const plim_shape five = {5, {four.dim[0], 1, four.dim[2], four.dim[3], 1}};
    return plim__op_reshape(b->to, *v, &five, v, b->err);
}

static plim_status apply(blocker *b, const plim__node *n, const uint32_t *in, const plim__attr *attr, uint32_t made[PLIM__MAX_OUT])
{
    return plim__graph_apply(b->to, n->op, in, n->n_in, attr, made, b->err);
}

static plim_status block_elementwise(blocker *b, const plim__node *n, bool *done)
{
    const plim_shape *s = shape_of(b, n->out[0]);
    bool any = false;
    for (uint32_t k = 0; k < n->n_in; k++) any |= lives_in_blocks(b, n->in[k]) && shape_of(b, n->in[k])->dim[1] == s->dim[1];
    if (!any || s->rank != 4 || (is_padded(s->dim[1]) && !stays_finite(n->attr.kind))) return PLIM_OK;
    uint32_t made[PLIM__MAX_OUT];
    for (uint32_t k = 0; k < n->n_in; k++) PLIM_TRY(get_against(b, n->in[k], s->dim[1], &b->in[k]));
    PLIM_TRY(apply(b, n, b->in, &n->attr, made));
    b->blocked[n->out[0]] = made[0];
    *done = true;
    return PLIM_OK;
}

/* Sums and moments over everything but the channels. The dimensions have the same numbers in blocks, and the sixteen come last. */
static plim_status block_reduce(blocker *b, const plim__node *n, bool *done)
{
    if (!lives_in_blocks(b, n->in[0]) || n->attr.mask & 2 || n->n_out != 1) return PLIM_OK;
    const plim_shape out = *shape_of(b, n->out[0]);
    const bool kept = n->attr.i[0];
    uint32_t made[PLIM__MAX_OUT];
    if (kept ? n->op != PLIM__OP_REDUCE : n->attr.mask >> 2 != 3) return PLIM_OK; /* something stands between the blocks and the sixteen */
    PLIM_TRY(apply(b, n, &b->blocked[n->in[0]], &n->attr, made));
    *done = true;
    if (kept) {
        b->blocked[n->out[0]] = made[0];
        return PLIM_OK;
    }
    uint32_t v = made[0];
    plim_shape joined = b->to->value[v].shape;
    joined.rank--;
    joined.dim[joined.rank - 1] *= PLIM__BLOCK;
    PLIM_TRY(plim__op_reshape(b->to, v, &joined, &v, b->err));
    return plim__op_slice_axis(b->to, v, joined.rank - 1, 0, 1, out.dim[out.rank - 1], &b->plain[n->out[0]], b->err);
}

/* A window of one element over the sixteen. */
static plim_status block_pool(blocker *b, const plim__node *n, bool *done)
{
    if (!lives_in_blocks(b, n->in[0]) || plim__spatial_space(&n->attr) != 2) return PLIM_OK;
    plim__attr attr = n->attr;
    uint32_t made[PLIM__MAX_OUT];
    attr.i[PLIM__SPATIAL_SPACE] = 3;
    attr.i[PLIM__SPATIAL_STRIDE + 2] = attr.i[PLIM__SPATIAL_DILATION + 2] = attr.i[PLIM__SPATIAL_SIZE + 2] = 1;
    PLIM_TRY(apply(b, n, &b->blocked[n->in[0]], &attr, made));
    b->blocked[n->out[0]] = made[0];
    *done = true;
    return PLIM_OK;
}

static plim_status block_concat(blocker *b, const plim__node *n, bool *done)
{
    bool any = false;
    for (uint32_t k = 0; k < n->n_in; k++) {
        if (shape_of(b, n->in[k])->rank != 4 || is_padded(shape_of(b, n->in[k])->dim[1])) return PLIM_OK;
        any |= lives_in_blocks(b, n->in[k]);
    }
    if (!any || shape_of(b, n->in[0])->dim[1] == shape_of(b, n->out[0])->dim[1]) return PLIM_OK; /* not along the channels */
    for (uint32_t k = 0; k < n->n_in; k++) PLIM_TRY(get_blocked(b, n->in[k], &b->in[k]));
    PLIM_TRY(plim__op_concat(b->to, b->in, n->n_in, 1, &b->blocked[n->out[0]], b->err));
    *done = true;
    return PLIM_OK;
}

/* Resizing that leaves the sixteen as they are. */
static plim_status block_resize(blocker *b, const plim__node *n, bool *done)
{
    enum { WHERE, ROUND, SPACE, OUT, IN = 6 };
    if (!lives_in_blocks(b, n->in[0]) || n->attr.i[SPACE] != 2) return PLIM_OK;
    plim__attr attr = n->attr;
    uint32_t made[PLIM__MAX_OUT];
    attr.i[SPACE] = 3;
    attr.i[OUT + 2] = attr.i[IN + 2] = PLIM__BLOCK;
    PLIM_TRY(apply(b, n, &b->blocked[n->in[0]], &attr, made));
    b->blocked[n->out[0]] = made[0];
    *done = true;
    return PLIM_OK;
}

/* Borders in space. */
static plim_status block_pad(blocker *b, const plim__node *n, bool *done)
{
    const plim_shape *x = shape_of(b, n->in[0]), *y = shape_of(b, n->out[0]);
    if (!lives_in_blocks(b, n->in[0]) || x->dim[1] != y->dim[1]) return PLIM_OK;
    uint32_t made[PLIM__MAX_OUT];
    PLIM_TRY(apply(b, n, &b->blocked[n->in[0]], &n->attr, made)); /* the same dimensions, and nothing around the sixteen */
    b->blocked[n->out[0]] = made[0];
    *done = true;
    return PLIM_OK;
}

static plim_status block_node(blocker *b, const plim__node *n, bool *done)
{
    *done = false;
    switch (n->op) {
    case PLIM__OP_ELEMENTWISE: return block_elementwise(b, n, done);
    case PLIM__OP_REDUCE: case PLIM__OP_MOMENTS: return block_reduce(b, n, done);
    case PLIM__OP_POOLING: return block_pool(b, n, done);
    case PLIM__OP_CONCAT: return block_concat(b, n, done);
    case PLIM__OP_PAD: return block_pad(b, n, done);
    case PLIM__OP_RESIZE: return block_resize(b, n, done);
    default: return PLIM_OK;
    }
}

/* ---------------------------------------------------------------------------------------------------- the whole */

static plim_status copy_node(blocker *b, const plim__node *n)
{
    uint32_t made[PLIM__MAX_OUT];
    for (uint32_t k = 0; k < n->n_in; k++) PLIM_TRY(get_plain(b, n->in[k], &b->in[k]));
    PLIM_TRY(apply(b, n, b->in, &n->attr, made));
    for (uint32_t j = 0; j < n->n_out; j++) b->plain[n->out[j]] = made[j];
    return PLIM_OK;
}

/* The transpose of weights that are loaded in blocks is not needed. */
static bool is_turned_weight(const blocker *b, const plim__node *n)
{
    if (n->op != PLIM__OP_TRANSPOSE || b->uses[n->out[0]] != 1) return false;
    const uint32_t reader = b->user[n->out[0]];
    return is_conv(&b->from->node[reader]) && b->from->node[reader].in[1] == n->out[0] && b->maker[reader] != PLIM__NONE;
}

static plim_status play_node(blocker *b, uint32_t i)
{
    const plim__node *n = &b->from->node[i];
    bool done = false;
    b->to->tag = n->tag;
    if (b->made_by[i] != PLIM__NONE && n->op == PLIM__OP_CONV_DATA) return make_transposed(b, n);
    if (b->made_by[i] != PLIM__NONE) return make_conv(b, &b->chain[b->made_by[i]]);
    if (b->maker[i] != PLIM__NONE || is_turned_weight(b, n)) return PLIM_OK;
    PLIM_TRY(block_node(b, n, &done));
    return done ? PLIM_OK : copy_node(b, n);
}

static void count_uses(blocker *b)
{
    const plim_graph *g = b->from;
    for (uint32_t i = 0; i < g->n_nodes; i++)
        for (uint32_t k = 0; k < g->node[i].n_in; k++) {
            b->uses[g->node[i].in[k]]++;
            b->user[g->node[i].in[k]] = i;
        }
    /* results count twice: nobody is the only reader of one */
    for (uint32_t i = 0; i < b->m->n_outputs; i++) b->uses[b->m->output[i].value] += 2;
    for (uint32_t i = 0; i < b->m->n_params; i++)
        if (b->m->param[i].update != PLIM__NONE) b->uses[b->m->param[i].update] += 2;
}

/* Is this parameter loaded in blocks from now on? Then nobody reads it as it was. */
static bool becomes_blocked(const blocker *b, uint32_t old)
{
    if (b->uses[old] != 1) return false;
    uint32_t reader = b->user[old];
    if (is_turned_weight(b, &b->from->node[reader])) reader = b->user[b->from->node[reader].out[0]];
    const plim__node *n = &b->from->node[reader];
    return is_conv(n) && b->maker[reader] != PLIM__NONE && n->in[0] != old;
}

static void find_params(blocker *b)
{
    for (uint32_t i = 0; i < b->m->n_params; i++) b->behind[b->m->param[i].value] = b->m->param[i].value;
    for (uint32_t i = 0; i < b->from->n_nodes; i++) {
        const plim__node *n = &b->from->node[i];
        for (uint32_t k = 0; k < n->n_in; k++)
            for (uint32_t j = 0; j < n->n_out && b->behind[n->in[k]] != PLIM__NONE; j++) b->behind[n->out[j]] = b->behind[n->in[k]];
    }
}

static plim_status play(blocker *b)
{
    find_params(b);
    for (uint32_t i = 0; i < b->from->n_nodes; i++)
        if (b->from->node[i].op == PLIM__OP_CONV) find_parts(b, i);
        else if (b->from->node[i].op == PLIM__OP_CONV_DATA) find_transposed(b, i);
    for (uint32_t v = 0; v < b->from->n_values; v++)
        if (b->from->value[v].kind != PLIM__VALUE_FILE || !becomes_blocked(b, v)) PLIM_TRY(plim__graph_copy_value(b->to, b->from, v, &b->plain[v], b->err));
    for (uint32_t i = 0; i < b->from->n_nodes; i++) PLIM_TRY(play_node(b, i));
    return PLIM_OK;
}

static plim_status rename_value(blocker *b, uint32_t *v)
{
    if (*v == PLIM__NONE) return PLIM_OK;
    return get_plain(b, *v, v);
}

static plim_status rename_all(blocker *b)
{
    plim__model *m = b->m;
    for (uint32_t i = 0; i < m->n_inputs; i++) PLIM_TRY(rename_value(b, &m->input[i].value));
    for (uint32_t i = 0; i < m->n_outputs; i++) PLIM_TRY(rename_value(b, &m->output[i].value));
    for (uint32_t i = 0; i < m->n_params; i++) {
        plim__param *p = &m->param[i];
        if (p->form.kind == PLIM__FORM_PLAIN) PLIM_TRY(rename_value(b, &p->value));
        else p->value = b->blocked[p->value];
        PLIM_TRY(rename_value(b, &p->update));
    }
    return rename_value(b, &m->seed);
}

static plim_status new_tables(blocker *b)
{
    const plim__alloc *a = &b->from->alloc;
    const uint32_t values = b->from->n_values, nodes = b->from->n_nodes;
    uint32_t most = 1, convs = 0;
    for (uint32_t i = 0; i < nodes; i++) {
        most = b->from->node[i].n_in > most ? b->from->node[i].n_in : most;
        convs += b->from->node[i].op == PLIM__OP_CONV || b->from->node[i].op == PLIM__OP_CONV_DATA;
    }
    b->chain = plim__new(a, convs, sizeof *b->chain, b->err);
    if (!b->chain) return PLIM_E_NOMEM;
    const struct { uint32_t **table; uint32_t n; } tables[] = {{&b->plain, values}, {&b->blocked, values}, {&b->uses, values}, {&b->user, values},
                                                               {&b->behind, values}, {&b->maker, nodes}, {&b->made_by, nodes}, {&b->in, most}};
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) {
        *tables[i].table = plim__new(a, tables[i].n, sizeof **tables[i].table, b->err);
        if (!*tables[i].table) return PLIM_E_NOMEM;
        if (tables[i].table != &b->uses) memset(*tables[i].table, 0xff, tables[i].n * sizeof **tables[i].table);
    }
    return PLIM_OK;
}

plim_status plim__model_block(plim__model *m, bool trained, plim_error *err)
{
    const plim__alloc a = m->graph->alloc;
    blocker b = {.m = m, .from = m->graph, .trained = trained, .err = err};
    PLIM_TRY(plim__graph_new(&b.to, a, err));
    plim_status status = new_tables(&b);
    if (status == PLIM_OK) {
        count_uses(&b);
        status = play(&b);
    }
    if (status == PLIM_OK) status = rename_all(&b);
    if (status == PLIM_OK) {
        plim_graph *old = m->graph;
        m->graph = b.to;
        b.to = old;
    }
    plim__graph_free(&b.to);
    uint32_t *tables[] = {b.plain, b.blocked, b.uses, b.user, b.behind, b.maker, b.made_by, b.in};
    plim__free(&a, b.chain);
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++) plim__free(&a, tables[i]);
    return status;
}
