/* What things cost. Boxes of files: against runs that are found element by element, and prices that are interpolated
 * here. Nodes: against the product of their extents. Passes: never less than their kernels or their files; and on a
 * machine that does everything half as fast, twice as much to the bit. */
#include "unit.h"

#include "io/io_requests.h"
#include "plan/cost.h"
#include "plan/search.h"
#include "random_graph.h"

#include <math.h>
#include <stdlib.h>

#define BOXES    4000
#define PROGRAMS 150
#define RUNS                                                                                                           \
    16 /* of a box that is looked at element by element: fewer than the engine's functions look at one by one */

static double random_real(uint64_t *rng, double lo, double hi)
{
    return lo + (hi - lo) * (double)(files_random(rng) >> 11) * 0x1p-53;
}

static uint32_t random_int(uint64_t *rng, uint32_t below) { return (uint32_t)(files_random(rng) % below); }

static void assert_near(double a, double b)
{
    if (!(fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b)))) fail_msg("%.17g is not %.17g", a, b);
}

/* ------------------------------------------------------------------------------------------------------- machines */

/* Prices that rise with the size: a start of random length, and a rate. */
static void random_table(double *table, uint64_t *rng, bool affine)
{
    const double start = random_real(rng, 1e-6, 1e-3), rate = random_real(rng, 1e-10, 1e-8);
    double size = 4096;
    for (int i = 0; i < PLIM_REQUEST_SIZES; i++, size *= 4) {
        table[i] = start + rate * size;
        if (!affine && i > 0) table[i] = table[i - 1] * random_real(rng, 1, 4);
    }
}

static plim_machine random_machine(uint64_t *rng, bool affine)
{
    plim_machine m = plim_machine_default();
    plim_requests *all[] = {&m.direct_read, &m.direct_write, &m.buffered_read, &m.buffered_write};
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        random_table(all[i]->seconds, rng, affine);
        random_table(all[i]->cpu, rng, affine);
        random_table(all[i]->alone, rng, affine);
    }
    m.memory_rate = random_real(rng, 1e8, 1e10);
    m.node_seconds = random_real(rng, 1e-7, 1e-5);
    return m;
}

/* Linear between the sizes of the table, which are 4 KiB, 16 KiB and so on; below the first as the first, above the
 * last in proportion. */
static double price(const double *table, double bytes)
{
    double at = log2(bytes / 4096) / 2;
    if (at <= 0) return table[0];
    if (at >= PLIM_REQUEST_SIZES - 1)
        return table[PLIM_REQUEST_SIZES - 1] * bytes / (4096 * pow(4, PLIM_REQUEST_SIZES - 1));
    const int i = (int)at;
    const double size = 4096 * pow(4, i);
    return table[i] + (table[i + 1] - table[i]) * (bytes - size) / (3 * size);
}

/* ---------------------------------------------------------------------------------------------------------- boxes */

static const plim__io_config engine = {
    .threads = 4, .bounce_bytes = 1u << 20, .edge_blocks = 6, .piece_bytes = 2u << 20};

/* Rows that are far apart, or all of them one behind the other. */
typedef struct box_case {
    plim__io_file f;
    plim__region box;
    uint64_t off[RUNS], len[RUNS];
    uint32_t n;
} box_case;

static void find_runs(box_case *c)
{
    c->n = 0;
    for (int64_t row = c->box.dim[0].lo; row < c->box.dim[0].hi; row++)
        for (int64_t col = c->box.dim[1].lo; col < c->box.dim[1].hi; col++) {
            const uint64_t at = c->f.offset + (uint64_t)(row * c->f.stride[0] + col * c->f.stride[1]) * c->f.element;
            if (c->n > 0 && c->off[c->n - 1] + c->len[c->n - 1] == at) {
                c->len[c->n - 1] += c->f.element;
                continue;
            }
            assert_true(c->n < RUNS);
            c->off[c->n] = at;
            c->len[c->n++] = c->f.element;
        }
}

static plim__range random_range(uint64_t *rng, uint32_t n, uint32_t most)
{
    const uint32_t len = 1 + random_int(rng, most < n ? most : n), lo = random_int(rng, n - len + 1);
    return (plim__range){lo, lo + len};
}

static box_case random_case(uint64_t *rng)
{
    box_case c = {.f = {.element = 4, .offset = random_int(rng, 2) ? 128 : 4096, .shape = {2, {12, 0}}},
                  .box = {.rank = 2}};
    const bool far = random_int(rng, 2);
    const uint32_t how = random_int(rng, 3), cols = far ? 40000 : 1 + random_int(rng, 3000);
    c.f.shape.dim[1] = c.f.stride[0] = cols;
    c.f.stride[1] = 1;
    c.f.direct = how == 0;
    c.f.drop = how == 1;
    c.box.dim[0] = random_range(rng, 12, far ? 6 : 12);
    c.box.dim[1] = far ? random_range(rng, cols, 20000) : (plim__range){0, cols};
    find_runs(&c);
    return c;
}

/* Seconds, CPU and latency of requests, one added to the other. */
static void pay(plim__box_cost *sum, const plim_requests *r, uint64_t bytes)
{
    sum->seconds += price(r->seconds, (double)bytes);
    sum->cpu += price(r->cpu, (double)bytes);
    sum->latency = fmax(sum->latency, price(r->alone, (double)bytes));
    sum->requests++;
}

/* A read brings all blocks that a run touches; ordinary reads just its bytes. */
static void pay_reads(plim__box_cost *sum, const box_case *c, const plim_requests *r)
{
    for (uint32_t i = 0; i < c->n; i++) {
        uint64_t lo = c->off[i], hi = lo + c->len[i];
        if (c->f.direct) {
            lo -= lo % 4096;
            hi += (4096 - hi % 4096) % 4096;
        }
        pay(sum, r, hi - lo);
    }
}

/* Ordinary writes go out in pieces of half a megabyte. Direct ones write the blocks that a run covers; those at its
 * ends wait for another box: half of one for each of the two, unless more of them wait than the engine has room for:
 * then each is read and written by itself. */
static void pay_writes(plim__box_cost *sum, const box_case *c, const plim_machine *m, double boxes)
{
    const plim_requests *r = c->f.direct ? &m->direct_write : &m->buffered_write;
    double edges = 0;
    for (uint32_t i = 0; i < c->n; i++) {
        const uint64_t lo = c->off[i], hi = lo + c->len[i];
        for (uint64_t at = lo; at < hi && !c->f.direct; at += 512 << 10)
            pay(sum, r, hi - at < 512 << 10 ? hi - at : 512 << 10);
        if (!c->f.direct) continue;
        const uint64_t first = (lo + 4095) / 4096, last = hi / 4096; /* whole blocks: first to before last */
        if (first < last) pay(sum, r, (last - first) * 4096);
        if (lo / 4096 == hi / 4096 && lo % 4096)
            edges++; /* inside one block */
        else
            edges += (lo % 4096 != 0) + (hi % 4096 != 0);
    }
    const bool full = edges * boxes > engine.edge_blocks;
    sum->requests += edges / 2;
    sum->seconds += edges * (full ? r->seconds[0] + m->direct_read.seconds[0] : r->seconds[0] / 2);
    sum->cpu += edges * (full ? r->cpu[0] + m->direct_read.cpu[0] : r->cpu[0] / 2);
}

static void boxes_cost_their_requests(void **state)
{
    (void)state;
    uint64_t rng = 1;
    uint32_t edges = 0, several = 0;
    for (int i = 0; i < rounds(BOXES); i++) {
        const plim_machine m = random_machine(&rng, i % 2);
        const box_case c = random_case(&rng);
        const bool write = random_int(&rng, 2), in_memory = !c.f.direct && !c.f.drop;
        const double boxes = 1 + random_int(&rng, 4);
        plim__box_cost want = {0};
        if (write)
            pay_writes(&want, &c, &m, boxes);
        else
            pay_reads(&want, &c, c.f.direct ? &m.direct_read : &m.buffered_read);
        const plim__box_cost got = plim__box_seconds(&m, &engine, &c.f, &c.box, write, boxes);
        if (in_memory) { /* copied: read and written once */
            double bytes = 0;
            for (uint32_t k = 0; k < c.n; k++) bytes += 2 * (double)c.len[k];
            want.seconds = want.cpu = want.latency = bytes / m.memory_rate + want.requests * m.node_seconds;
        }
        assert_near(got.seconds, want.seconds);
        assert_near(got.cpu, want.cpu);
        assert_near(got.latency, want.latency);
        assert_near(got.requests, want.requests);
        edges += want.requests != floor(want.requests);
        several += c.n > 1;
    }
    assert_true(edges > 0 && several > 0);
}

/* Requests as the engine's functions tell them, of boxes of any form: prices add up. */
typedef struct told {
    const plim_machine *m;
    const plim__io_file *f;
    double seconds, requests, edges;
} told;

static void tell(void *ctx, plim__io_request_kind kind, uint64_t bytes, double times)
{
    told *t = ctx;
    const plim_requests *read = t->f->direct ? &t->m->direct_read : &t->m->buffered_read;
    const plim_requests *written = t->f->direct ? &t->m->direct_write : &t->m->buffered_write;
    if (kind == PLIM__IO_REQUEST_EDGE) {
        t->edges += times;
        return;
    }
    t->requests += times;
    t->seconds += times * price(kind == PLIM__IO_REQUEST_READ ? read->seconds : written->seconds, (double)bytes);
}

static void boxes_of_any_form(void **state)
{
    (void)state;
    uint64_t rng = 2;
    uint32_t many = 0;
    for (int i = 0; i < rounds(BOXES); i++) {
        const plim_machine m = random_machine(&rng, i % 2);
        plim__io_file f = {.element = 8, .offset = 128, .shape = {3, {0}}, .direct = i % 2, .drop = i % 2 == 0};
        plim__region box = {.rank = 3};
        int64_t stride = 1;
        for (uint32_t d = 3; d-- > 0;) {
            const uint32_t n = 1 + random_int(&rng, 120);
            f.shape.dim[d] = n;
            f.stride[d] = stride;
            stride *= n;
            box.dim[d] = random_range(&rng, n, n);
        }
        const bool write = random_int(&rng, 2);
        told t = {.m = &m, .f = &f};
        plim__io_requests(&engine, &f, &box, write, tell, &t);
        const plim__box_cost got = plim__box_seconds(&m, &engine, &f, &box, write, 1e9);
        const double edge = (f.direct ? m.direct_write : m.buffered_write).seconds[0] +
                            (f.direct ? m.direct_read : m.buffered_read).seconds[0];
        assert_near(got.requests, t.requests + t.edges / 2);
        assert_near(got.seconds, t.seconds + t.edges * edge); /* so many boxes: no edge finds its other part */
        assert_true(plim__box_seconds(&m, &engine, &f, &box, write, 1).seconds <= got.seconds);
        many += t.requests > 24;
    }
    assert_true(many > 0);
}

/* Reading and ordinary writing of the first n bytes never gets cheaper with n; what lies in two far places costs what
 * both do. */
static void prices_rise_and_add_up(void **state)
{
    (void)state;
    uint64_t rng = 3;
    for (int i = 0; i < rounds(BOXES) / 20; i++) {
        const plim_machine m = i == 0 ? plim_machine_default() : random_machine(&rng, true);
        const bool write = i % 2, direct = !write && i % 4 == 0;
        const plim__io_file f = {
            .element = 1, .shape = {1, {16 << 20}}, .stride = {1}, .direct = direct, .drop = !direct};
        double before = 0, cpu = 0;
        for (int64_t n = 1; n < f.shape.dim[0]; n += n / 8 + 1 + random_int(&rng, 512)) {
            const plim__region box = {.rank = 1, .dim = {{0, n}}};
            const plim__box_cost c = plim__box_seconds(&m, &engine, &f, &box, write, 1);
            assert_true(c.seconds >= before * (1 - 1e-12) && c.cpu >= cpu * (1 - 1e-12));
            before = c.seconds;
            cpu = c.cpu;
        }
        const plim__io_file rows = {
            .element = 4, .shape = {2, {4, 50000}}, .stride = {50000, 1}, .direct = direct, .drop = !direct};
        const plim__range cols = random_range(&rng, 50000, 30000);
        const plim__region one = {.rank = 2, .dim = {{1, 2}, cols}}, other = {.rank = 2, .dim = {{2, 3}, cols}},
                           both = {.rank = 2, .dim = {{1, 3}, cols}};
        assert_near(plim__box_seconds(&m, &engine, &rows, &both, write, 1).seconds,
                    plim__box_seconds(&m, &engine, &rows, &one, write, 1).seconds +
                        plim__box_seconds(&m, &engine, &rows, &other, write, 1).seconds);
    }
}

/* ---------------------------------------------------------------------------------------------------------- nodes */

static random_how program(int i)
{
    return (random_how){.seed = (uint64_t)i * 503 + 19,
                        .ops = 3 + (uint32_t)i % 12,
                        .scale = 8 + 24 * (i % 4),
                        .states = (uint32_t)i % 3 == 1,
                        .spill = i % 2 ? "/var/tmp" : NULL,
                        .threads = 1 + (uint32_t)i % 4};
}

/* A file of our own: pieces, and a rest. */
static void own_files_are_read_in_pieces(void **state)
{
    (void)state;
    uint64_t rng = 4;
    random_graph r;
    random_graph_begin(&r, program(0));
    for (int i = 0; i < 200; i++) {
        r.plan->speed.machine = random_machine(&rng, true);
        plim__plan_io(r.plan, i % 3);
        const bool write = i % 2;
        const plim_requests *q = write ? &r.plan->speed.machine.direct_write : &r.plan->speed.machine.direct_read;
        const uint64_t bytes = files_random(&rng) % (20u << 20), piece = r.plan->io.piece_bytes;
        double want = 0;
        for (uint64_t at = 0; at < bytes; at += piece)
            want += price(q->seconds, (double)(bytes - at < piece ? bytes - at : piece));
        assert_near(plim__file_seconds(r.plan, bytes, write), want);
        assert_true(plim__file_seconds(r.plan, bytes + 4096, write) >= want * (1 - 1e-12));
    }
    assert_true(plim__file_seconds(r.plan, 0, true) == 0);
    random_graph_end(&r);
}

/* Points of a whole node, by its declared nest, times the work of one. */
static double kernel_seconds(const plim_plan *plan, uint32_t i)
{
    const plim__node *n = &plan->graph->node[i];
    const plim__op_row *row = plim__op_row_of(n->op);
    plim__axes axes = {0};
    row->axes(plan->graph, n, &axes);
    const plim__work w = row->work(plan->graph, n);
    double points = 1;
    for (uint32_t a = 0; a < axes.n; a++) points *= (double)axes.axis[a].extent;
    return points * w.amount / plan->speed.rate[w.kernel];
}

static double moved_bytes(const plim_graph *g, const plim__node *n)
{
    double bytes = 0;
    for (uint32_t k = 0; k < n->n_in; k++) bytes += (double)g->value[n->in[k]].bytes;
    for (uint32_t j = 0; j < n->n_out; j++) bytes += (double)g->value[n->out[j]].bytes;
    return bytes;
}

/* A node takes as long as its kernels, or as moving what it reads and makes, where that is more: all of it if nobody
 * around is elementwise, at the most that elsewhere. */
static void nodes_cost_their_work(void **state)
{
    (void)state;
    uint32_t bound_by_memory = 0, bound_by_work = 0;
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        random_graph r;
        random_graph_begin(&r, program(i));
        const plim_plan *plan = r.plan;
        for (uint32_t n = 0; n < r.g->n_nodes; n++) {
            const double work = kernel_seconds(plan, n),
                         moving = moved_bytes(r.g, &r.g->node[n]) / plan->speed.memory_rate;
            const double got = plim__node_seconds(plan, n);
            assert_true(got >= work * (1 - 1e-12) && got <= fmax(work, moving) * (1 + 1e-12));
            if (r.g->n_nodes == 1) assert_near(got, fmax(work, moving));
            bound_by_memory += got > work * (1 + 1e-9);
            bound_by_work += got <= work * (1 + 1e-9);
        }
        random_graph_end(&r);
    }
    assert_true(bound_by_memory > 0 && bound_by_work > 0);
}

/* One node over n rows: twice as many take twice as long. */
static double rows_seconds(int64_t n, bool sum)
{
    random_graph r;
    random_graph_begin(&r, (random_how){.seed = 1, .scale = 2});
    plim__plan_drop(r.plan);
    const uint32_t x = random_input(&r, (plim_shape){2, {n, 64}}, PLIM__STAY_FILE);
    uint32_t out;
    plim_settings set = plim_settings_default();
    set.memory = 1u << 30;
    if (sum)
        assert_int_equal(plim__op_scan(r.g, PLIM__REDUCE_SUM, x, 1, PLIM_F32, &out, NULL), PLIM_OK);
    else
        assert_int_equal(random_apply(&r, PLIM__EW_TANH, x, PLIM__NONE, &out), PLIM_OK);
    assert_int_equal(plim__graph_output(r.g, out, "out", NULL, NULL), PLIM_OK);
    assert_int_equal(plim__plan_open(&r.plan, r.g, &set, &r.os.table, NULL), PLIM_OK);
    const double seconds = plim__node_seconds(r.plan, r.g->value[out].node);
    random_graph_end(&r);
    return seconds;
}

static void seconds_scale_with_work(void **state)
{
    (void)state;
    plim__speed s;
    assert_int_equal(plim__speed_new(&s, NULL, 2, NULL), PLIM_OK);
    for (int k = 0; k < PLIM_KERNEL_COUNT; k++) {
        const double one = plim__work_seconds(&s, (plim__work){(plim_kernel)k, 1}, 1000);
        assert_true(one > 0 && plim__work_seconds(&s, (plim__work){(plim_kernel)k, 1}, 0) == 0);
        assert_near(plim__work_seconds(&s, (plim__work){(plim_kernel)k, 3}, 1000), 3 * one);
        assert_near(plim__work_seconds(&s, (plim__work){(plim_kernel)k, 1}, 5000), 5 * one);
    }
    for (int64_t n = 8; n <= 1 << 16; n *= 4)
        for (int sum = 0; sum < 2; sum++) assert_near(rows_seconds(2 * n, sum), 2 * rows_seconds(n, sum));
}

/* --------------------------------------------------------------------------------------------------------- passes */

typedef struct bench {
    random_graph r;
    plim__search s;
    plim__pass p;
} bench;

static bool pass_begin(bench *b, uint32_t cut)
{
    plim__candidate c = {.cut = cut, .end = UINT32_MAX};
    uint32_t n = 0;
    for (int cut_ones = 1; cut_ones >= 0; cut_ones--)
        for (uint32_t l = 0; l < b->s.labels.n; l++) {
            if ((cut >> l & 1) != (uint32_t)cut_ones) continue;
            c.tile[n] = cut_ones ? (b->s.labels.extent[l] + 2) / 3 : b->s.labels.extent[l];
            c.order[n++] = (uint8_t)l;
        }
    const plim_status status = plim__search_template(&b->s, &c, &b->p);
    if (status == PLIM_E_PLAN) return false;
    assert_int_equal(status, PLIM_OK);
    assert_int_equal(plim__pass_measure(&b->s.m, b->r.plan, &b->p, 0, true, NULL), PLIM_OK);
    plim__pass_cost(&b->s.m, b->r.plan, &b->p);
    return true;
}

static double trips(const plim__pass *p, uint32_t depth)
{
    double n = 1;
    for (uint32_t l = 0; l < depth; l++) n *= ceil((double)p->loop[l].extent / (double)p->loop[l].tile);
    return n;
}

/* Seconds that the kernels of a node take in the tile that was looked at, on all threads. */
static double tile_seconds(const bench *b, const plim__pnode *x)
{
    const plim__work w = plim__op_row_of(b->r.g->node[x->node].op)->work(b->r.g, &b->r.g->node[x->node]);
    double points = 1;
    for (uint32_t a = 0; a < x->axes.n; a++) {
        const plim__range r = b->s.m.tile.axis[x->axis0 + a];
        points *= r.hi > r.lo ? (double)(r.hi - r.lo) : 0;
    }
    return points * w.amount / b->r.plan->speed.rate[w.kernel];
}

/* A stage takes at least its kernels, and no more than its nodes one by one, and their calls. */
static double check_stages(const bench *b)
{
    const plim_machine *m = &b->r.plan->speed.machine;
    double sum = 0;
    for (uint32_t s = 0; s < b->p.n_stages; s++) {
        const plim__stage *x = &b->p.stage[s];
        double work = 0, alone = m->parallel_seconds + (double)x->blocks * x->count * m->node_seconds;
        for (uint32_t i = x->first; i < x->first + x->count; i++) {
            const double node = plim__pnode_seconds(&b->s.m, b->r.plan, &b->p, &b->p.node[i]);
            assert_true(node >= tile_seconds(b, &b->p.node[i]) * (1 - 1e-12));
            work += tile_seconds(b, &b->p.node[i]);
            alone += node;
        }
        const double stage = plim__stage_seconds(&b->s.m, b->r.plan, &b->p, x);
        assert_true(stage >= work * (1 - 1e-12) && stage <= alone * (1 + 1e-12));
        sum += work * trips(&b->p, x->depth);
    }
    return sum;
}

/* Seconds and bytes of everything that steps read and write, trip by trip. */
static double check_files(const bench *b)
{
    double seconds = 0, bytes[2] = {0};
    for (uint32_t t = 0; t < b->p.n_steps; t++) {
        const plim__step *s = &b->p.step[t];
        const bool write = s->kind == PLIM__STEP_WRITE;
        if ((s->kind != PLIM__STEP_READ && !write) || b->p.value[s->index].stored) continue;
        double n;
        const plim__box_cost c = plim__transfer_cost(&b->s.m, b->r.plan, &b->p, &b->p.value[s->index], write, &n);
        assert_true(c.seconds >= 0 && (n == 0 || c.seconds > 0));
        seconds += c.seconds * trips(&b->p, s->depth);
        bytes[write] += n * trips(&b->p, s->depth);
    }
    assert_near((double)b->s.m.read_bytes, bytes[0]);
    assert_near((double)b->s.m.write_bytes, bytes[1]);
    return seconds;
}

/* Everything takes `by` times as long. */
static void slow_down(plim_plan *plan, double by)
{
    plim_machine *m = &plan->speed.machine;
    plim_requests *all[] = {&m->direct_read, &m->direct_write, &m->buffered_read, &m->buffered_write};
    for (size_t i = 0; i < COUNT_OF(all); i++)
        for (int k = 0; k < PLIM_REQUEST_SIZES; k++) {
            all[i]->seconds[k] *= by;
            all[i]->cpu[k] *= by;
            all[i]->alone[k] *= by;
        }
    for (int k = 0; k < PLIM_KERNEL_COUNT; k++) plan->speed.rate[k] /= by;
    plan->speed.memory_rate /= by;
    m->memory_rate /= by;
    m->touch_rate /= by;
    m->step_seconds *= by;
    m->parallel_seconds *= by;
    m->node_seconds *= by;
}

static void check_pass(bench *b, bool *by_files)
{
    plim__measure *m = &b->s.m;
    const double touch = plim__touch_seconds(b->r.plan, m->peak), kernels = check_stages(b), files = check_files(b);
    assert_true(m->compute >= kernels * (1 - 1e-12));
    assert_true(m->seconds >= (touch + m->compute) * (1 - 1e-12));
    assert_true(m->seconds >= (touch + files) * (1 - 1e-12));
    *by_files = files > m->compute;
    const double seconds = m->seconds, compute = m->compute;
    slow_down(b->r.plan, 2);
    plim__pass_cost(m, b->r.plan, &b->p);
    assert_true(m->seconds == 2 * seconds && m->compute == 2 * compute);
    slow_down(b->r.plan, 0.5);
    plim__pass_cost(m, b->r.plan, &b->p);
    assert_true(m->seconds == seconds && m->compute == compute);
}

static void passes_cost_their_parts(void **state)
{
    (void)state;
    uint32_t by[2] = {0};
    for (int i = 0; i < rounds(PROGRAMS); i++) {
        bench b;
        bool by_files;
        random_graph_begin(&b.r, program(i + 500));
        plim_plan *plan = b.r.plan;
        plan->read_copies = plan->write_copies = 1 + (uint32_t)i % 3;
        for (int k = 0; k < PLIM_KERNEL_COUNT && i % 2; k++)
            plan->speed.rate[k] /= 256; /* so that the disk does not decide everything */
        plim__plan_io(plan, i % 3);
        plim__plan_hold(plan, 0);
        assert_int_equal(plim__search_new(&b.s, plan, NULL), PLIM_OK);
        assert_int_equal(plim__search_restart(&b.s), PLIM_OK);
        plim__search_label(&b.s);
        for (uint32_t cut = 0; cut < 1u << b.s.labels.n; cut++) {
            if (__builtin_popcount(cut) > 2 || !pass_begin(&b, cut)) continue;
            check_pass(&b, &by_files);
            by[by_files]++;
            plim__pass_free(&plan->alloc, &b.p);
        }
        plim__search_free(&b.s);
        random_graph_end(&b.r);
    }
    assert_true(by[0] > 10 && by[1] > 10);
}

/* In proportion to bytes; none for programs that are run many times in one arena. */
static void touching_an_arena(void **state)
{
    (void)state;
    for (uint32_t states = 0; states < 2; states++) {
        random_graph r;
        random_graph_begin(&r, (random_how){.seed = 3, .ops = 4, .scale = 8, .states = states});
        const double one = plim__touch_seconds(r.plan, 1 << 20);
        assert_true(states ? one == 0 : one > 0);
        assert_near(plim__touch_seconds(r.plan, 7 << 20), 7 * one);
        random_graph_end(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_cost_their_requests), cmocka_unit_test(boxes_of_any_form),
        cmocka_unit_test(prices_rise_and_add_up),    cmocka_unit_test(own_files_are_read_in_pieces),
        cmocka_unit_test(nodes_cost_their_work),     cmocka_unit_test(seconds_scale_with_work),
        cmocka_unit_test(passes_cost_their_parts),   cmocka_unit_test(touching_an_arena),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
