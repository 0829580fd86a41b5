/* The distinct values of an array, sorted: a reduction over all of its dimensions with a bounded state. Output 0 has room for `max` values, output 1 says
 * how many there are, or -1 when there was not room enough: then there is no result (the run says so). What lies behind them is undefined; a `counted`
 * result is therefore only good as an output of the program, which is cut to its length.
 *
 * A part is sorted, its duplicates are dropped, and the rest is merged into the list so far, from the back, in place: O(m log m + list). */
#include "kernels/order.h"
#include "ops/reducing.h"

#include <string.h>

static plim_status infer(const plim_graph *g, plim__node *n, plim__type type[PLIM__MAX_OUT], plim_error *err)
{
    const plim__value *x = plim__in(g, n, 0);
    const int64_t most = n->attr.i[0];
    PLIM_FAIL_IF(most < 1, err, PLIM_E_INVALID, "unique: room for %lld values", (long long)most);
    type[0] = (plim__type){x->dtype, {1, {most}}};
    type[1] = (plim__type){PLIM_I64, {0}};
    n->n_out = 2;
    return PLIM_OK;
}

static void axes(const plim_graph *g, const plim__node *n, plim__axes *x)
{
    plim__axes_reduce(x, &plim__in(g, n, 0)->shape, UINT32_MAX, PLIM__MERGE);
}

static void reads(const plim_graph *g, const plim__node *n, uint32_t k, plim__index index[PLIM_MAX_RANK])
{
    plim__reads_same(plim__in(g, n, k)->shape.rank, index);
}

static uint64_t scratch(const plim_graph *g, const plim__node *n, const int64_t *len, uint32_t threads)
{
    (void)threads;
    uint64_t count = 1;
    for (uint32_t d = 0; d < plim__in(g, n, 0)->shape.rank; d++) count *= (uint64_t)len[d];
    return 2 * count * sizeof(plim__keyed);
}

static int64_t *count_of(const plim__view *v)
{
    return v->data;
}

static void init(const plim__call *c)
{
    *count_of(&c->out[1]) = 0;
}

static uint64_t key_of(plim_dtype t, const void *x)
{
    if (plim__key_wide(t)) {
        uint64_t key;
        plim__keys64(&key, x, t, 1, 1);
        return key;
    }
    uint32_t key;
    plim__keys32(&key, x, t, 1, 1);
    return key;
}

static uint64_t key_at(const plim__view *list, int64_t i)
{
    return key_of(list->dtype, (const char *)list->data + (uint64_t)i * plim_dtype_bytes(list->dtype));
}

/* Merges the sorted distinct `add` (its pos is the address of the element) into the list. */
static void merge_list(const plim__view *list, int64_t *count, const plim__keyed *add, int64_t m)
{
    const int64_t n = *count, room = list->n[0];
    const uint64_t size = plim_dtype_bytes(list->dtype);
    if (n < 0) return;
    int64_t both = 0;
    for (int64_t i = 0, j = 0; i < n && j < m;) {
        const uint64_t key = key_at(list, i);
        const bool left = key <= add[j].key, right = key >= add[j].key;
        both += left && right;
        i += left;
        j += right;
    }
    int64_t at = n + m - both;
    if (at > room) {
        *count = -1;
        return;
    }
    *count = at;
    char *data = list->data;
    for (int64_t i = n - 1, j = m - 1; j >= 0;) {
        at--;
        const uint64_t key = i >= 0 ? key_at(list, i) : 0;
        if (i >= 0 && key >= add[j].key) {
            j -= key == add[j].key;
            memmove(data + (uint64_t)at * size, data + (uint64_t)i * size, size);
            i--;
        } else {
            memcpy(data + (uint64_t)at * size, (const void *)(uintptr_t)add[j].pos, size);
            j--;
        }
    }
}

/* Addresses and keys of all elements of a box. */
static int64_t gather(const plim__view *v, plim__keyed *out)
{
    int64_t n = 0, at[PLIM_MAX_RANK] = {0};
    memcpy(at, v->lo, sizeof at);
    const int64_t total = (int64_t)plim__view_count(v);
    while (n < total) {
        const void *p = plim__view_at(v, at);
        out[n++] = (plim__keyed){key_of(v->dtype, p), (uint64_t)(uintptr_t)p};
        for (uint32_t d = v->rank; d-- > 0;) {
            if (++at[d] < v->lo[d] + v->n[d]) break;
            at[d] = v->lo[d];
        }
    }
    return n;
}

static void run(const plim__call *c)
{
    const plim__view x = plim__call_in(c, 0);
    const int64_t total = (int64_t)plim__view_count(&x);
    plim__keyed *a = c->scratch, *tmp = a + total;
    const int64_t n = gather(&x, a);
    plim__keyed *sorted = plim__sort_keyed(a, tmp, n, plim__key_bits(x.dtype));
    int64_t m = 0;
    for (int64_t i = 0; i < n; i++)
        if (m == 0 || sorted[m - 1].key != sorted[i].key) sorted[m++] = sorted[i];
    merge_list(&c->out[0], count_of(&c->out[1]), sorted, m);
}

/* The other list is sorted and distinct already; it is fed in pieces that fit on the stack. */
static void merge(const plim__call *c)
{
    enum { PIECE = 256 };
    plim__keyed piece[PIECE];
    const uint64_t size = plim_dtype_bytes(c->in[0].dtype);
    int64_t *count = count_of(&c->out[1]);
    const int64_t more = *count_of(&c->in[1]);
    if (more < 0) *count = -1;
    for (int64_t i = 0; i < more && *count >= 0; i += PIECE) {
        const int64_t m = more - i < PIECE ? more - i : PIECE;
        for (int64_t j = 0; j < m; j++) {
            const char *p = (const char *)c->in[0].data + (uint64_t)(i + j) * size;
            piece[j] = (plim__keyed){key_of(c->in[0].dtype, p), (uint64_t)(uintptr_t)p};
        }
        merge_list(&c->out[0], count, piece, m);
    }
}

/* Parts are sorted, then merged. */
static plim__work work(const plim_graph *g, const plim__node *n)
{
    (void)g, (void)n;
    return (plim__work){PLIM_KERNEL_SORT, 20};
}

const plim__op_row plim__row_unique = {
    .name = "unique", .infer = infer, .axes = axes, .reads = reads, .scratch = scratch, .init = init, .run = run, .merge = merge, .work = work,
};

plim_status plim__op_unique(plim_graph *g, uint32_t x, int64_t most, bool counted, uint32_t *values, uint32_t *count, plim_error *err)
{
    const plim__attr attr = {.i = {most, counted}};
    uint32_t out[PLIM__MAX_OUT];
    PLIM_TRY(plim__graph_apply(g, PLIM__OP_UNIQUE, &x, 1, &attr, out, err));
    *values = out[0];
    *count = out[1];
    return PLIM_OK;
}
