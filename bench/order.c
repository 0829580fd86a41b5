/* How good the orders are, and how long the best one takes to find, on randomly wired cells WS(32, 4, 0.75):
 *
 *     bench-order [nodes, default 32] [seeds, default 10] [k, default 4] [p in hundredths, default 75]
 *
 * Per cell: the peak of the program's order, of greedy, and of the order found, in KiB; whether it is proven to be the best; how many sets of tasks
 * the search looked at, and milliseconds. Once with values of 1 KiB each, once with 1 to 8.
 * Then a training graph of about 5,000 tasks: milliseconds of each list order and of everything. */
#include "os/os.h"
#include "task_graph.h"

#include <stdio.h>

static const plim__alloc heap = {0};

static void check(plim_status status, const plim_error *err)
{
    if (status == PLIM_OK) return;
    fprintf(stderr, "bench-order: %s\n", err->message);
    exit(1);
}

static double ms_since(uint64_t start) { return (double)(plim__os_linux.clock_ns(NULL) - start) * 1e-6; }

static void measure(const plim__tasks *t, uint64_t seed)
{
    plim_error err = {0};
    uint32_t order[CELL_MAX + 1];
    uint64_t program, greedy, best, states = PLIM__ORDER_STATES;
    bool proven;
    for (uint32_t i = 0; i < t->n; i++) order[i] = i;
    check(plim__order_peak(&program, t, order, &heap, &err), &err);
    check(plim__order_list(order, PLIM__LIST_GREEDY, t, &heap, &err), &err);
    check(plim__order_peak(&greedy, t, order, &heap, &err), &err);
    const uint64_t start = plim__os_linux.clock_ns(NULL);
    check(plim__order_tasks_within(order, &best, &proven, &states, t, &heap, &err), &err);
    const double ms = ms_since(start);
    printf("%5llu %8llu %7llu %6llu  %-8s %8llu %9.3f\n", (unsigned long long)seed, (unsigned long long)program / 1024,
           (unsigned long long)greedy / 1024, (unsigned long long)best / 1024,
           proven ? "optimum" : "unproven", (unsigned long long)(PLIM__ORDER_STATES - states), ms);
}

static void measure_training(uint32_t layers)
{
    static const char *const names[PLIM__LIST_RULES] = {"greedy", "depth", "mixed"};
    plim_error err = {0};
    uint32_t updates;
    uint64_t peak;
    bool proven;
    task_graph g = training_tasks(layers, &updates);
    uint32_t *order = malloc(g.t.n * sizeof *order);
    if (!order) exit(1);
    printf("training, %u tasks\n", g.t.n);
    for (plim__list_rule rule = 0; rule < PLIM__LIST_RULES; rule++) {
        const uint64_t start = plim__os_linux.clock_ns(NULL);
        check(plim__order_list(order, rule, &g.t, &heap, &err), &err);
        const double ms = ms_since(start);
        check(plim__order_peak(&peak, &g.t, order, &heap, &err), &err);
        printf("%8s %10llu bytes %9.3f ms\n", names[rule], (unsigned long long)peak, ms);
    }
    const uint64_t start = plim__os_linux.clock_ns(NULL);
    check(plim__order_tasks(order, &peak, &proven, &g.t, &heap, &err), &err);
    printf("%8s %10llu bytes %9.3f ms\n", proven ? "optimum" : "unproven", (unsigned long long)peak, ms_since(start));
    free(order);
    task_graph_free(&g);
}

static uint32_t argument(int argc, char **argv, int i, uint32_t usual)
{
    return argc > i ? (uint32_t)strtoul(argv[i], NULL, 10) : usual;
}

int main(int argc, char **argv)
{
    const uint32_t nodes = argument(argc, argv, 1, 32), seeds = argument(argc, argv, 2, 10), k = argument(argc, argv, 3, 4);
    const uint32_t p = argument(argc, argv, 4, 75);
    if (nodes < 8 || nodes > CELL_MAX || k < 2 || k >= nodes || p > 100) {
        fprintf(stderr, "bench-order: 8 to %d nodes, 2 to nodes - 1 neighbours, 0 to 100 hundredths\n", CELL_MAX);
        return 2;
    }
    for (uint32_t sizes = 1; sizes <= 8; sizes += 7) {
        printf("WS(%u, %u, 0.%02u), values of 1 to %u KiB\n seed  program  greedy   best              states        ms\n", nodes, k, p, sizes);
        for (uint32_t seed = 0; seed < seeds; seed++) {
            task_graph g = random_cell(nodes, k, p, seed, sizes);
            measure(&g.t, seed);
            task_graph_free(&g);
        }
    }
    measure_training(1250);
    return 0;
}
