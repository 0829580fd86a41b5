/* The plain way: hand-made graphs whose peaks are counted in comments, and random ones against a count of every value at every node. */
#include "unit.h"

#include "ops/ops.h"
#include "report/plain.h"

#include <stdlib.h>
#include <string.h>

static plim_graph *graph_new(void)
{
    plim_graph *g;
    assert_int_equal(plim__graph_new(&g, (plim__alloc){0}, NULL), PLIM_OK);
    return g;
}

static uint32_t input(plim_graph *g, plim_shape shape)
{
    uint32_t v;
    const plim__source source = {.path = (char *)""};
    assert_int_equal(plim__graph_file(g, "x", PLIM_F32, &shape, &source, &v, NULL), PLIM_OK);
    return v;
}

static uint32_t add(plim_graph *g, uint32_t a, uint32_t b)
{
    uint32_t v;
    const uint32_t in[2] = {a, b};
    assert_int_equal(plim__op_elementwise(g, PLIM__EW_ADD, PLIM_F32, PLIM_F32, in, 2, &v, NULL), PLIM_OK);
    return v;
}

static uint32_t reshape(plim_graph *g, uint32_t x, plim_shape to)
{
    uint32_t v;
    assert_int_equal(plim__op_reshape(g, x, &to, &v, NULL), PLIM_OK);
    return v;
}

static plim__plain peak(const plim_graph *g, const bool *apart)
{
    plim__plain p;
    bool *none = calloc(g->n_values + 1, sizeof *none);
    assert_int_equal(plim__plain_peak(&p, g, apart ? apart : none, NULL), PLIM_OK);
    free(none);
    return p;
}

static void expect(plim_graph *g, const bool *apart, uint64_t bytes, uint32_t node)
{
    const plim__plain p = peak(g, apart);
    assert_int_equal(p.bytes, bytes);
    assert_int_equal(p.node, node);
    plim__graph_free(&g);
}

static const plim_shape four = {1, {4}};

/* x 16   a = x + x   32     b = a + a   x a b 48, a ends     c = b + x   x b c 48 */
static void a_chain(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const uint32_t x = input(g, four), a = add(g, x, x), b = add(g, a, a);
    add(g, b, x);
    expect(g, NULL, 48, 1);
}

/* As above, but x is counted elsewhere:   a 16   a b 32   b c 32 */
static void what_is_apart(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const uint32_t x = input(g, four), a = add(g, x, x), b = add(g, a, a);
    add(g, b, x);
    bool apart[8] = {0};
    apart[x] = true;
    expect(g, apart, 32, 1);
}

/* a is a result and stays:   x a 32   a b 32, for x has ended   a b c 48 */
static void results_stay(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const uint32_t x = input(g, four), a = add(g, x, x), b = add(g, a, a);
    add(g, b, b);
    assert_int_equal(plim__graph_output(g, a, "a", NULL, NULL), PLIM_OK);
    expect(g, NULL, 48, 2);
}

/* An input that nobody reads is not there; a node whose value nobody reads is, for as long as it runs. */
static void what_nobody_reads(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    input(g, (plim_shape){1, {1000}});
    const uint32_t x = input(g, four);
    add(g, x, x);
    expect(g, NULL, 32, 0);
    g = graph_new();
    expect(g, NULL, 0, PLIM__NONE);
}

/* x[4] 16, shown as [2,2] and as [1,4]; d = x' + x' reads it through two views: x d 32. Then e = d + d: d e 32. */
static void views_have_no_bytes(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const uint32_t x = input(g, four), v = reshape(g, x, (plim_shape){2, {2, 2}}), w = reshape(g, v, (plim_shape){2, {1, 4}});
    const uint32_t d = add(g, w, w);
    add(g, d, d);
    uint32_t root[8];
    plim__storage_of(g, root);
    assert_int_equal(root[v], x);
    assert_int_equal(root[w], x);
    assert_int_equal(root[d], d);
    expect(g, NULL, 32, 2);
}

/* A view that is read late keeps what it shows:   x a 32   a b 32   a b c 48 (c = b + a's view) */
static void views_keep(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const uint32_t x = input(g, four), a = add(g, x, x), v = reshape(g, a, (plim_shape){2, {1, 4}}), b = add(g, a, a);
    add(g, v, b);
    expect(g, NULL, 48, 3);
}

/* Constants are there to the end:   x k a 12 + 12 + 12   k a b 36 */
static void constants_stay(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const float data[3] = {1, 2, 3};
    const plim_shape three = {1, {3}};
    uint32_t k;
    assert_int_equal(plim__graph_const(g, PLIM_F32, &three, data, &k, NULL), PLIM_OK);
    const uint32_t a = add(g, input(g, three), k);
    add(g, a, a);
    expect(g, NULL, 36, 0);
}

/* Four results of 2**62 bytes each. */
static void too_many_bytes(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    uint32_t v = input(g, (plim_shape){1, {INT64_C(1) << 60}});
    for (int i = 0; i < 4; i++) {
        v = add(g, v, v);
        assert_int_equal(plim__graph_output(g, v, "y", "", NULL), PLIM_OK);
    }
    bool apart[8] = {0};
    plim__plain p;
    plim_error err = {0};
    assert_int_equal(plim__plain_peak(&p, g, apart, &err), PLIM_E_OVERFLOW);
    assert_non_null(strstr(err.message, "2**64"));
    plim__graph_free(&g);
}

/* 200,000 nodes that all read x: anything but a linear walk would not end. */
static void a_long_chain(void **state)
{
    (void)state;
    plim_graph *g = graph_new();
    const uint32_t x = input(g, four);
    uint32_t v = x;
    for (int i = 0; i < 200000; i++) v = add(g, v, x);
    expect(g, NULL, 48, 1);
}

/* ---- random graphs, counted the slow way */

/* Is value `v` alive while node `at` runs? It is made, and a node from here on reads it, or a view of it that is alive. */
static bool alive(const plim_graph *g, uint32_t v, uint32_t at)
{
    const plim__value *x = &g->value[v];
    if (x->kind == PLIM__VALUE_NODE && x->node > at) return false;
    if (x->kind == PLIM__VALUE_NODE && x->node == at) return true;
    for (uint32_t i = 0; i < g->n_outputs; i++)
        if (g->output[i].value == v) return true;
    for (uint32_t i = 0; i < g->n_nodes; i++) {
        const plim__node *n = &g->node[i];
        for (uint32_t k = 0; k < n->n_in; k++) {
            if (n->in[k] != v) continue;
            if (i >= at) return true;
            if (n->op == PLIM__OP_RESHAPE && alive(g, n->out[0], at)) return true;
        }
    }
    return false;
}

static uint64_t slow_peak(const plim_graph *g)
{
    uint64_t most = 0;
    for (uint32_t at = 0; at < g->n_nodes; at++) {
        uint64_t sum = 0;
        for (uint32_t v = 0; v < g->n_values; v++) {
            const bool view = g->value[v].kind == PLIM__VALUE_NODE && g->node[g->value[v].node].op == PLIM__OP_RESHAPE;
            if (!view && alive(g, v, at)) sum += g->value[v].bytes;
        }
        if (sum > most) most = sum;
    }
    return most;
}

static void random_graphs(void **state)
{
    (void)state;
    srand(5);
    for (int round = 0; round < 200; round++) {
        plim_graph *g = graph_new();
        uint32_t one[64], two[64], n_one = 0, n_two = 0; /* values of shape [4] and of shape [2,2] */
        one[n_one++] = input(g, four);
        two[n_two++] = input(g, (plim_shape){2, {2, 2}});
        for (int i = 0; i < 20; i++) {
            switch (rand() % 4) {
            case 0: one[n_one] = add(g, one[(uint32_t)rand() % n_one], one[(uint32_t)rand() % n_one]); n_one++; break;
            case 1: two[n_two] = add(g, two[(uint32_t)rand() % n_two], two[(uint32_t)rand() % n_two]); n_two++; break;
            case 2: two[n_two] = reshape(g, one[(uint32_t)rand() % n_one], (plim_shape){2, {2, 2}}); n_two++; break;
            default: one[n_one] = reshape(g, two[(uint32_t)rand() % n_two], four); n_one++; break;
            }
        }
        if (round % 2) assert_int_equal(plim__graph_output(g, one[n_one / 2], "y", NULL, NULL), PLIM_OK);
        const uint64_t want = slow_peak(g), got = peak(g, NULL).bytes;
        if (got != want) fail_msg("graph %d: %llu bytes, not %llu", round, (unsigned long long)got, (unsigned long long)want);
        plim__graph_free(&g);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_chain),       cmocka_unit_test(what_is_apart),       cmocka_unit_test(results_stay),
        cmocka_unit_test(what_nobody_reads), cmocka_unit_test(views_have_no_bytes), cmocka_unit_test(views_keep),
        cmocka_unit_test(constants_stay), cmocka_unit_test(too_many_bytes),     cmocka_unit_test(a_long_chain),
        cmocka_unit_test(random_graphs),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
