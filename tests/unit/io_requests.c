/* What the planner expects of a transfer against what the engine asks the system for: random arrays, boxes and engines, with every pread and pwrite counted. */
#include "unit.h"

#include "core/size.h"
#include "files.h"
#include "io/io_requests.h"
#include "plan/cost.h"

#include <math.h>

static const plim__alloc heap = {0};

static uint64_t pick(uint64_t *rng, uint64_t n) { return files_random(rng) % n; }

/* --------------------------------------------------------------------------------------------- a system that counts */

typedef struct counting_os {
    plim__os table;
    _Atomic uint64_t reads, writes, read_bytes, write_bytes;
} counting_os;

static int64_t uncached(void *self, int fd)
{
    (void)self, (void)fd;
    return -ENOSYS;
}

static int64_t counted_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    counting_os *c = self;
    atomic_fetch_add(&c->reads, 1);
    atomic_fetch_add(&c->read_bytes, n);
    return plim__os_linux.pread(NULL, fd, buf, n, off);
}

static int64_t counted_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    counting_os *c = self;
    atomic_fetch_add(&c->writes, 1);
    atomic_fetch_add(&c->write_bytes, n);
    return plim__os_linux.pwrite(NULL, fd, buf, n, off);
}

static void counting_init(counting_os *c)
{
    *c = (counting_os){.table = plim__os_linux};
    c->table.self = c;
    c->table.cached = uncached;
    c->table.pread = counted_pread;
    c->table.pwrite = counted_pwrite;
}

/* ------------------------------------------------------------------------------------------------- arrays and boxes */

/* A shape of up to `elements` elements, rows last, at a random offset. */
static void random_array(plim__io_file *f, uint64_t *rng, uint64_t elements)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    *f = (plim__io_file){.fd = -1, .element = sizes[pick(rng, 4)], .shape.rank = 1 + (uint32_t)pick(rng, 4)};
    f->offset = pick(rng, 2) ? 128 : 4096;
    for (uint32_t d = f->shape.rank; d-- > 0;) {
        const uint64_t most = d == 0 ? elements : 1 + elements / 4;
        f->shape.dim[d] = (int64_t)(1 + pick(rng, most < 3000 ? most : 3000));
        elements = elements / (uint64_t)f->shape.dim[d] + 1;
    }
    int64_t stride = 1;
    for (uint32_t d = f->shape.rank; d-- > 0; stride *= f->shape.dim[d]) f->stride[d] = stride;
    f->limit = f->offset + (uint64_t)stride * f->element;
}

/* Rows of 64 KiB and more: what may lie straight. */
static void long_array(plim__io_file *f, uint64_t *rng)
{
    *f = (plim__io_file){.fd = -1, .element = 1u << pick(rng, 4), .offset = pick(rng, 2) ? 128 : 4096, .shape.rank = 2};
    f->shape.dim[0] = 1 + (int64_t)pick(rng, 4);
    f->shape.dim[1] = (int64_t)((PLIM__IO_LONG_RUN + pick(rng, 3 * PLIM__IO_LONG_RUN)) / f->element);
    f->stride[0] = f->shape.dim[1];
    f->stride[1] = 1;
    f->limit = f->offset + (uint64_t)(f->stride[0] * f->shape.dim[0]) * f->element;
}

static plim__region random_box(const plim__io_file *f, uint64_t *rng)
{
    plim__region box = {.rank = f->shape.rank};
    for (uint32_t d = 0; d < box.rank; d++) {
        const uint64_t n = (uint64_t)f->shape.dim[d], a = pick(rng, n + 1), b = pick(rng, n + 1);
        box.dim[d] = pick(rng, 2) ? (plim__range){0, (int64_t)n} : (plim__range){(int64_t)(a < b ? a : b), (int64_t)(a < b ? b : a)};
    }
    return box;
}

static plim__io_config random_config(uint64_t *rng)
{
    return (plim__io_config){.threads = 1 + (uint32_t)pick(rng, 4), .bounce_bytes = 8192 + 4096 * pick(rng, 60), .edge_blocks = 1024,
                             .piece_bytes = 4096 + 4096 * pick(rng, 100)};
}

typedef struct expected {
    double of[3], bytes[3];
} expected;

static void expect_request(void *ctx, plim__io_request_kind kind, uint64_t bytes, double times)
{
    expected *e = ctx;
    assert_true(bytes > 0 && times > 0);
    e->of[kind] += times;
    e->bytes[kind] += times * (double)bytes;
}

/* Exactly the count where every request was looked at, and near it where the pattern was continued. */
static void assert_near(double expect, double got, const char *what)
{
    const double slack = expect < PLIM__IO_REQUESTS_WALKED ? 0 : 2 + 0.25 * got;
    if (fabs(expect - got) > slack) fail_msg("%s: expected %g, the system saw %g", what, expect, got);
}

/* --------------------------------------------------------------------------------------------------------- the tests */

static void move_box(const plim__io_config *c, counting_os *os, const plim__io_file *f, const plim__region *box, bool write)
{
    plim_error err = {0};
    plim__io *io;
    plim__io_layout l;
    plim__io_ticket ticket = {0};
    void *memory = aligned_alloc(PLIM__IO_ALIGN, plim__io_bytes(c));
    plim__io_layout_of(f, box, write, &l);
    void *buffer = aligned_alloc(PLIM__IO_ALIGN, l.bytes ? l.bytes : PLIM__IO_ALIGN);
    memset(buffer, 7, l.bytes);
    assert_int_equal(plim__io_new(&io, c, &os->table, &heap, memory, &err), PLIM_OK);
    os->reads = os->writes = os->read_bytes = os->write_bytes = 0;
    if (write) plim__io_write(io, f, box, buffer, &ticket);
    else plim__io_read(io, f, box, buffer, &ticket);
    if (plim__io_wait(io, &ticket, &err) != PLIM_OK) fail_msg("%s", err.message);
    plim__io_free(&io); /* nothing is flushed: blocks at the edges have not been written yet */
    free(buffer);
    free(memory);
}

static void read_box(uint64_t seed, bool direct)
{
    uint64_t rng = seed;
    counting_os os;
    plim_error err = {0};
    plim__io_file f;
    expected e = {0};
    counting_init(&os);
    if (seed % 4 == 1) long_array(&f, &rng);
    else random_array(&f, &rng, seed % 5 == 0 ? 800000 : 60000);
    void *zeros = calloc(f.limit, 1);
    files_write("in.bin", zeros, f.limit);
    free(zeros);
    f.path = files_path("in.bin");
    if (plim__io_open_input(&f, &os.table, direct, &err) != PLIM_OK) fail_msg("%s", err.message);
    const plim__io_config c = random_config(&rng);
    for (int i = 0; i < 4; i++) {
        const plim__region box = random_box(&f, &rng);
        e = (expected){0};
        plim__io_requests(&c, &f, &box, false, expect_request, &e);
        move_box(&c, &os, &f, &box, false);
        assert_near(e.of[PLIM__IO_REQUEST_READ], (double)os.reads, "reads");
        assert_near(e.bytes[PLIM__IO_REQUEST_READ] / 4096, (double)os.read_bytes / 4096, "blocks read");
        assert_true(e.of[PLIM__IO_REQUEST_WRITE] + e.of[PLIM__IO_REQUEST_EDGE] == 0);
    }
    plim__io_close(&f, &os.table);
}

static void test_reads(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (uint64_t)rounds(200); seed++) read_box(seed, seed % 3 != 0);
}

static void write_box(uint64_t seed, bool direct)
{
    uint64_t rng = seed;
    counting_os os;
    plim_error err = {0};
    plim__io_file f;
    plim__tempfile *t;
    counting_init(&os);
    if (seed % 4 == 1) long_array(&f, &rng);
    else random_array(&f, &rng, seed % 5 == 0 ? 800000 : 60000);
    if (plim__tempfile_new(&t, &os.table, files_path("out.bin"), f.limit + 8192, direct, &err) != PLIM_OK) fail_msg("%s", err.message);
    plim__io_open_output(&f, t);
    const plim__io_config c = random_config(&rng);
    const plim__region box = random_box(&f, &rng);
    expected e = {0};
    plim__io_requests(&c, &f, &box, true, expect_request, &e);
    move_box(&c, &os, &f, &box, true);
    assert_int_equal(e.of[PLIM__IO_REQUEST_READ], 0);
    if (e.of[PLIM__IO_REQUEST_EDGE] <= c.edge_blocks) { /* blocks that two runs of the box share are written when both have come: at most half of the edges */
        const double most = e.of[PLIM__IO_REQUEST_EDGE] / 2, least = e.of[PLIM__IO_REQUEST_WRITE];
        const double slack = least + most < PLIM__IO_REQUESTS_WALKED / 2 ? 0 : 2 + 0.25 * (double)os.writes;
        if ((double)os.writes < least - slack || (double)os.writes > least + most + slack)
            fail_msg("seed %d: %g writes and %g edges were expected, the system saw %d writes", (int)seed, least, 2 * most, (int)os.writes);
    }
    plim__tempfile_drop(&t);
}

static void test_writes(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < (uint64_t)rounds(200); seed++) write_box(seed, seed % 3 != 0);
}

/* Picked rows are read one by one. */
static void test_picked_rows(void **state)
{
    (void)state;
    const plim__io_config c = {.threads = 4, .bounce_bytes = 1 << 20, .edge_blocks = 64, .piece_bytes = 2 << 20};
    const plim__io_file f = {.direct = true, .offset = 4096, .element = 4, .shape = {2, {100, 2048}}, .stride = {2048, 1}, .rows = 1000};
    expected e = {0};
    plim__io_requests(&c, &f, &(plim__region){2, {{10, 60}, {0, 2048}}}, false, expect_request, &e);
    assert_int_equal(e.of[PLIM__IO_REQUEST_READ], 50);
    assert_int_equal(e.bytes[PLIM__IO_REQUEST_READ], 50 * 8192);
}

/* A price is the sum over the requests: never less for more of a box, and more for the same bytes in more pieces. */
static void test_price(void **state)
{
    (void)state;
    const plim_machine m = plim_machine_default();
    const plim__io_config c = {.threads = 4, .bounce_bytes = 1 << 20, .edge_blocks = 1024, .piece_bytes = 2 << 20};
    const plim__io_file f = {.direct = true, .offset = 4096, .element = 4, .shape = {2, {4096, 65536}}, .stride = {65536, 1}};
    const plim__box_cost rows = plim__box_seconds(&m, &c, &f, &(plim__region){2, {{0, 16}, {0, 65536}}}, false, 1);
    const plim__box_cost columns = plim__box_seconds(&m, &c, &f, &(plim__region){2, {{0, 4096}, {0, 256}}}, false, 1);
    assert_int_equal(rows.requests, 2); /* 4 MiB in pieces of 2 MiB */
    assert_true(fabs(rows.seconds - 2 * plim__request_at(m.direct_read.seconds, 2 << 20)) < 1e-9);
    assert_true(columns.requests > 4000 && columns.seconds > 10 * rows.seconds);
    double before = 0;
    for (int64_t n = 1; n <= 4096; n *= 2) {
        const double now = plim__box_seconds(&m, &c, &f, &(plim__region){2, {{0, n}, {0, 1000}}}, true, 1).seconds;
        assert_true(now >= before);
        before = now;
    }
    plim__io_file cached = f;
    cached.direct = false; /* and nothing is dropped: it lies in memory */
    assert_true(plim__box_seconds(&m, &c, &cached, &(plim__region){2, {{0, 16}, {0, 65536}}}, false, 1).seconds < rows.seconds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads),
        cmocka_unit_test(test_writes),
        cmocka_unit_test(test_picked_rows),
        cmocka_unit_test(test_price),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
