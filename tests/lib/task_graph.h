/* Graphs of tasks made by hand or at random, for tests of orders: no program, no plan. */
#ifndef PLIM_TESTS_TASK_GRAPH_H
#define PLIM_TESTS_TASK_GRAPH_H

#include "plan/task_order.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

typedef struct task_graph {
    plim__tasks t;
    uint32_t n_values, cap_tasks, cap_values;
} task_graph;

static inline void task_lists_room(plim__lists *l, uint32_t lists, uint32_t items)
{
    l->from = calloc((size_t)lists + 2, sizeof *l->from);
    l->item = calloc((size_t)items + 1, sizeof *l->item);
    l->cap_items = items;
    assert(l->from && l->item);
}

/* Room for so many; `links`: inputs and afters together. */
static inline task_graph task_graph_new(uint32_t tasks, uint32_t values, uint32_t links)
{
    task_graph g = {.cap_tasks = tasks, .cap_values = values};
    task_lists_room(&g.t.in, tasks, links);
    task_lists_room(&g.t.after, tasks, links);
    task_lists_room(&g.t.out, tasks, values);
    g.t.extra = calloc((size_t)tasks + 1, sizeof *g.t.extra);
    g.t.bytes = calloc((size_t)values + 1, sizeof *g.t.bytes);
    g.t.maker = calloc((size_t)values + 1, sizeof *g.t.maker);
    g.t.stays = calloc((size_t)values + 1, sizeof *g.t.stays);
    assert(g.t.extra && g.t.bytes && g.t.maker && g.t.stays);
    return g;
}

static inline void task_graph_free(task_graph *g)
{
    plim__tasks_free(&g->t, &(plim__alloc){0});
}

static inline void task_list_add(plim__lists *l, uint32_t item)
{
    assert(l->n_items < l->cap_items);
    l->item[l->n_items++] = item;
}

/* A value that is read from a file until a task makes it. */
static inline uint32_t task_value(task_graph *g, uint64_t bytes)
{
    assert(g->n_values < g->cap_values);
    g->t.bytes[g->n_values] = bytes;
    g->t.maker[g->n_values] = PLIM__NONE;
    return g->n_values++;
}

/* A task begins; reads, makes and afters go to it until the next one does. */
static inline uint32_t task_begin(task_graph *g, uint64_t extra)
{
    assert(g->t.n < g->cap_tasks);
    const uint32_t i = g->t.n++;
    g->t.extra[i] = extra;
    plim__lists *lists[] = {&g->t.in, &g->t.out, &g->t.after};
    for (int k = 0; k < 3; k++) {
        lists[k]->n = g->t.n;
        lists[k]->from[i + 1] = lists[k]->n_items;
    }
    return i;
}

static inline void task_link(task_graph *g, plim__lists *l, uint32_t item)
{
    task_list_add(l, item);
    l->from[g->t.n] = l->n_items;
}

static inline void task_reads(task_graph *g, uint32_t value) { task_link(g, &g->t.in, value); }
static inline void task_after(task_graph *g, uint32_t task) { task_link(g, &g->t.after, task); }

static inline void task_makes(task_graph *g, uint32_t value)
{
    g->t.maker[value] = g->t.n - 1;
    task_link(g, &g->t.out, value);
}

/* Who reads each value: when all tasks are there. */
static inline void task_graph_end(task_graph *g)
{
    plim__lists *l = &g->t.uses;
    const plim__lists *in = &g->t.in;
    task_lists_room(l, g->n_values, in->n_items);
    for (uint32_t k = 0; k < in->n_items; k++) l->from[in->item[k] + 1]++;
    for (uint32_t v = 0; v < g->n_values; v++) l->from[v + 1] += l->from[v];
    for (uint32_t i = g->t.n; i-- > 0;) /* from the back, where each list ends: what is its end then is its start */
        for (uint32_t k = in->from[i + 1]; k-- > in->from[i];) l->item[--l->from[in->item[k] + 1]] = i;
    for (uint32_t v = 0; v < g->n_values; v++) l->from[v] = l->from[v + 1];
    l->from[g->n_values] = l->n_items = in->n_items;
    l->n = g->n_values;
}

/* --------------------------------------------------------------------------------------------------- random cells */

static inline uint32_t task_random(uint64_t *s, uint32_t below)
{
    *s = *s * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (uint32_t)((*s >> 33) % below);
}

enum { CELL_MAX = 60 };

typedef struct cell_links {
    bool to[CELL_MAX][CELL_MAX]; /* symmetric */
} cell_links;

/* A ring in which each node knows the k / 2 next on both sides; then each link is led elsewhere with a probability of p hundredths. */
static inline void cell_wire(cell_links *c, uint32_t n, uint32_t k, uint32_t p, uint64_t *seed)
{
    *c = (cell_links){0};
    for (uint32_t d = 1; d <= k / 2; d++)
        for (uint32_t i = 0; i < n; i++) c->to[i][(i + d) % n] = c->to[(i + d) % n][i] = true;
    for (uint32_t d = 1; d <= k / 2; d++) {
        for (uint32_t i = 0; i < n; i++) {
            const uint32_t old = (i + d) % n, j = task_random(seed, n);
            if (task_random(seed, 100) >= p || j == i || c->to[i][j]) continue;
            c->to[i][old] = c->to[old][i] = false;
            c->to[i][j] = c->to[j][i] = true;
        }
    }
}

static inline bool cell_connected(const cell_links *c, uint32_t n)
{
    bool seen[CELL_MAX] = {true};
    uint32_t stack[CELL_MAX] = {0}, top = 1, count = 0;
    while (top > 0) {
        const uint32_t i = stack[--top];
        count++;
        for (uint32_t j = 0; j < n; j++) {
            if (!c->to[i][j] || seen[j]) continue;
            seen[j] = true;
            stack[top++] = j;
        }
    }
    return count == n;
}

/* A randomly wired cell, WS(n, k, p/100): links lead from the lower to the higher number, nodes without predecessors read the input, nodes without
 * successors feed one output node. Every node is a task and makes one value of 1 to `sizes` KiB. */
static inline task_graph random_cell(uint32_t n, uint32_t k, uint32_t p, uint64_t seed, uint32_t sizes)
{
    cell_links c;
    uint64_t s = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    do cell_wire(&c, n, k, p, &s);
    while (!cell_connected(&c, n));
    task_graph g = task_graph_new(n + 1, n + 2, n * (k + 2));
    const uint32_t input = task_value(&g, 1024ull * (1 + task_random(&s, sizes)));
    bool feeds[CELL_MAX] = {false};
    for (uint32_t i = 0; i < n; i++) {
        bool source = true;
        task_begin(&g, 0);
        for (uint32_t j = 0; j < i; j++) {
            if (!c.to[j][i]) continue;
            task_reads(&g, input + 1 + j);
            feeds[j] = true;
            source = false;
        }
        if (source) task_reads(&g, input);
        task_makes(&g, task_value(&g, 1024ull * (1 + task_random(&s, sizes))));
    }
    task_begin(&g, 0);
    for (uint32_t i = 0; i < n; i++)
        if (!feeds[i]) task_reads(&g, input + 1 + i);
    task_makes(&g, task_value(&g, 1024ull * (1 + task_random(&s, sizes))));
    task_graph_end(&g);
    return g;
}

/* -------------------------------------------------------------------------------------------------- training graphs */

enum { LAYER_TASKS = 4 }; /* forward; gradient of the input, gradient of the weight, optimizer */

/* `layers` layers, then back through them: the program has all updates at its end, as front ends emit them. @param updates  the first of them */
static inline task_graph training_tasks(uint32_t layers, uint32_t *updates)
{
    task_graph g = task_graph_new(LAYER_TASKS * layers + 1, 6 * layers + 4, 10 * layers + 4);
    uint32_t *weight = malloc(layers * sizeof *weight), *act = malloc((layers + 1) * sizeof *act), *grad = malloc(layers * sizeof *grad);
    act[0] = task_value(&g, 100);
    for (uint32_t i = 0; i < layers; i++) {
        task_begin(&g, 0);
        task_reads(&g, act[i]);
        task_reads(&g, weight[i] = task_value(&g, 150));
        task_makes(&g, act[i + 1] = task_value(&g, 100));
    }
    task_begin(&g, 0); /* the loss and its gradient */
    task_reads(&g, act[layers]);
    uint32_t back = task_value(&g, 100);
    task_makes(&g, back);
    for (uint32_t i = layers; i-- > 0;) {
        task_begin(&g, 0);
        task_reads(&g, act[i]);
        task_reads(&g, back);
        task_makes(&g, grad[i] = task_value(&g, 150));
        task_begin(&g, 0);
        task_reads(&g, weight[i]);
        task_reads(&g, back);
        task_makes(&g, back = task_value(&g, 100));
    }
    *updates = g.t.n;
    for (uint32_t i = 0; i < layers; i++) {
        const uint32_t gradient_of_input = layers + 1 + 2 * (layers - 1 - i) + 1;
        task_begin(&g, 0);
        task_reads(&g, weight[i]);
        task_reads(&g, grad[i]);
        task_makes(&g, task_value(&g, 150));
        task_after(&g, i);
        task_after(&g, gradient_of_input);
    }
    task_graph_end(&g);
    free(weight);
    free(act);
    free(grad);
    return g;
}

#endif
