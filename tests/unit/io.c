/* The transfer engine against a plain model in memory: random arrays, orders, boxes and tilings, direct and buffered; failing and
 * shrinking files; and a stream through a small memory cgroup. */
#include "unit.h"

#include "core/size.h"
#include "files.h"
#include "io/io.h"

#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/wait.h>

#define MiB ((uint64_t)1 << 20)

static const plim__alloc heap = {0};

static uint64_t pick(uint64_t *rng, uint64_t n) { return files_random(rng) % n; }

/* ------------------------------------------------------------------------------------------- a system with faults */

/* Real, but: a fresh file does not count as cached, so that direct I/O is used; and the n-th transfer may fail or be short. */
typedef struct faulty_os {
    plim__os table;
    _Atomic int64_t reads_left, writes_left; /* the transfer that finds 0 is the bad one; negative: none */
    int error;      /* what it gives; 0: about half of what was asked for */
    bool from_then; /* and all later ones too */
} faulty_os;

static int64_t uncached(void *self, int fd)
{
    (void)self, (void)fd;
    return -ENOSYS;
}

static bool is_bad(faulty_os *f, _Atomic int64_t *left)
{
    const int64_t now = atomic_load(left) < 0 ? -1 : atomic_fetch_sub(left, 1);
    if (f->from_then && now == 0) atomic_store(left, 0);
    return now == 0;
}

static int64_t faulty_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    faulty_os *f = self;
    const bool bad = is_bad(f, &f->reads_left);
    if (bad && f->error) return f->error;
    return plim__os_linux.pread(NULL, fd, buf, n, off) / (bad && n > 1 ? 2 : 1);
}

static int64_t faulty_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    faulty_os *f = self;
    const bool bad = is_bad(f, &f->writes_left);
    if (bad && f->error) return f->error;
    return plim__os_linux.pwrite(NULL, fd, buf, n, off) / (bad && n > 1 ? 2 : 1);
}

static void faulty_init(faulty_os *f)
{
    *f = (faulty_os){.table = plim__os_linux, .reads_left = -1, .writes_left = -1};
    f->table.self = f;
    f->table.cached = uncached;
    f->table.pread = faulty_pread;
    f->table.pwrite = faulty_pwrite;
}

/* ----------------------------------------------------------------------------------------------- arrays and boxes */

/* A shape of about `elements`, in a random order of dimensions, at a random offset. */
static void random_array(plim__io_file *f, uint64_t *rng, uint64_t elements)
{
    static const uint32_t sizes[] = {1, 2, 4, 8};
    uint32_t order[PLIM_MAX_RANK] = {0};
    *f = (plim__io_file){.fd = -1, .element = sizes[pick(rng, 4)], .shape.rank = (uint32_t)pick(rng, 6)};
    f->offset = pick(rng, 3) == 0 ? 4096 : pick(rng, 2) ? pick(rng, 1000) * f->element : pick(rng, 9000);
    for (uint32_t d = 0; d < f->shape.rank; d++) {
        const uint64_t most = d + 1 == f->shape.rank ? elements : 1 + pick(rng, 40);
        f->shape.dim[d] = pick(rng, 8) == 0 ? 1 : (int64_t)(1 + pick(rng, most < elements ? most : elements));
        elements = elements / (uint64_t)f->shape.dim[d] + 1;
        const uint32_t at = (uint32_t)pick(rng, d + 1);
        order[d] = order[at];
        order[at] = d;
    }
    int64_t stride = 1;
    for (uint32_t k = 0; k < f->shape.rank; k++) {
        const int64_t n = f->shape.dim[order[k]];
        f->stride[order[k]] = n == 1 ? (int64_t)pick(rng, 100) : stride;
        stride *= n;
    }
    f->limit = f->offset + (uint64_t)stride * f->element;
}

/* Rows of 64 KiB and more, one after the other with room between them where a box leaves something out: what may lie straight. */
static void long_array(plim__io_file *f, uint64_t *rng)
{
    *f = (plim__io_file){.fd = -1, .element = 1u << pick(rng, 4), .shape.rank = 3};
    f->offset = pick(rng, 2) ? 4096 : pick(rng, 1000) * f->element;
    f->shape.dim[0] = 1 + (int64_t)pick(rng, 3);
    f->shape.dim[1] = 1 + (int64_t)pick(rng, 3);
    f->shape.dim[2] = (int64_t)((PLIM__IO_LONG_RUN + pick(rng, 3 * PLIM__IO_LONG_RUN)) / f->element);
    f->stride[2] = 1;
    f->stride[1] = f->shape.dim[2];
    f->stride[0] = f->stride[1] * f->shape.dim[1];
    f->limit = f->offset + (uint64_t)(f->stride[0] * f->shape.dim[0]) * f->element;
}

static plim__region random_box(const plim__io_file *f, uint64_t *rng)
{
    plim__region box = {.rank = f->shape.rank};
    for (uint32_t d = 0; d < box.rank; d++) {
        const uint64_t n = (uint64_t)f->shape.dim[d];
        const uint64_t a = pick(rng, n + 1), b = pick(rng, n + 1);
        box.dim[d] = pick(rng, 3) ? (plim__range){0, (int64_t)n} : (plim__range){(int64_t)(a < b ? a : b), (int64_t)(a < b ? b : a)};
    }
    return box;
}

/* Steps `at` through the box, last dimension fastest. @return false after the last */
static bool next_index(const plim__region *box, int64_t *at)
{
    for (uint32_t d = box->rank; d-- > 0;) {
        if (++at[d] < box->dim[d].hi) return true;
        at[d] = box->dim[d].lo;
    }
    return false;
}

/* Calls the two sides of every element of the box: where it is in the file and where in the buffer. */
static void each_element(const plim__io_file *f, const plim__region *box, const plim__io_layout *l,
                         void (*fn)(void *ctx, uint64_t in_file, uint64_t in_buffer), void *ctx)
{
    int64_t at[PLIM_MAX_RANK];
    if (plim__region_count(box) == 0) return;
    for (uint32_t d = 0; d < box->rank; d++) at[d] = box->dim[d].lo;
    do {
        uint64_t file = 0, buffer = 0;
        for (uint32_t d = 0; d < box->rank; d++) {
            file += (uint64_t)(at[d] * (f->shape.dim[d] > 1 ? f->stride[d] : 0));
            buffer += (uint64_t)((at[d] - box->dim[d].lo) * l->stride[d]);
        }
        fn(ctx, f->offset + file * f->element, l->first + buffer * f->element);
    } while (next_index(box, at));
}

static uint8_t *buffer_for(const plim__io_layout *l)
{
    uint8_t *p = aligned_alloc(PLIM__IO_ALIGN, l->bytes ? l->bytes : PLIM__IO_ALIGN);
    assert_non_null(p);
    memset(p, 0xee, l->bytes ? l->bytes : PLIM__IO_ALIGN);
    return p;
}

static uint8_t *random_bytes(uint64_t n, uint64_t seed)
{
    uint8_t *p = malloc(n + 8);
    assert_non_null(p);
    for (uint64_t i = 0; i < n; i += 8) {
        const uint64_t x = files_random(&seed);
        memcpy(p + i, &x, 8);
    }
    return p;
}

/* An engine with its memory. */
typedef struct engine {
    plim__io *io;
    void *memory;
} engine;

static plim__io_config random_config(uint64_t *rng)
{
    return (plim__io_config){
        .threads = 1 + (uint32_t)pick(rng, 5),
        .bounce_bytes = 8192 + 4096 * pick(rng, 12),
        .edge_blocks = 4 + (uint32_t)pick(rng, 40),
        .piece_bytes = 4096 + 4096 * pick(rng, 12),
    };
}

static engine engine_new(const plim__io_config *c, const plim__os *os)
{
    engine e;
    plim_error err = {0};
    e.memory = aligned_alloc(PLIM__IO_ALIGN, plim__io_bytes(c));
    assert_non_null(e.memory);
    if (plim__io_new(&e.io, c, os, &heap, e.memory, &err) != PLIM_OK) fail_msg("%s", err.message);
    return e;
}

static void engine_free(engine *e)
{
    plim__io_free(&e->io);
    assert_null(e->io);
    free(e->memory);
}

/* --------------------------------------------------------------------------------------------------------- layout */

static void count_runs(void *ctx, uint64_t in_file, uint64_t in_buffer)
{
    (void)in_buffer;
    uint8_t *touched = ctx;
    touched[in_file] = 1;
}

static void test_layout(void **state)
{
    (void)state;
    uint64_t rng = 1;
    int straight = 0;
    for (int round = 0; round < 300; round++) {
        plim__io_file f;
        plim__io_layout l, grown;
        if (round % 5 == 0) long_array(&f, &rng);
        else random_array(&f, &rng, 3000);
        const plim__region box = random_box(&f, &rng);
        plim__region more = box;
        for (uint32_t d = 0; d < more.rank; d++)
            if (pick(&rng, 2) && more.dim[d].hi < f.shape.dim[d]) more.dim[d].hi++;
        for (int write = 0; write < 2; write++) {
            const uint64_t dense = plim__region_count(&box) * f.element;
            plim__io_layout_of(&f, &box, write, &l);
            plim__io_layout_of(&f, &more, write, &grown);
            assert_true(l.bytes <= 2 * dense + 8192);
            assert_true(grown.bytes >= l.bytes);
            if (l.span && dense) assert_int_equal(l.first % f.element, 0);
            assert_false(l.span && l.straight);
            straight += l.straight;
        }
        uint8_t *touched = calloc(f.limit + f.element + 1, 1);
        each_element(&f, &box, &l, count_runs, touched);
        uint64_t runs = 0;
        bool before = false;
        for (uint64_t i = f.offset; i < f.limit; i += f.element) {
            runs += touched[i] && !before;
            before = touched[i];
        }
        assert_int_equal(plim__io_run_count(&f, &box), runs);
        free(touched);
    }
    assert_true(straight >= 5);
}

/* The ways by hand: a 4 x 8 array of f32 in a file at byte 4096. */
static void test_layout_small(void **state)
{
    (void)state;
    plim__io_layout l;
    const plim__io_file f = {.offset = 4096, .element = 4, .shape = {2, {4, 8}}, .stride = {8, 1}};
    plim__io_layout_of(&f, &(plim__region){2, {{1, 3}, {0, 8}}}, false, &l); /* two whole rows */
    assert_true(l.span);
    assert_int_equal(l.first, 32);
    assert_int_equal(l.bytes, 8192);
    assert_int_equal(l.stride[0], 8);
    plim__io_layout_of(&f, &(plim__region){2, {{1, 3}, {2, 4}}}, false, &l); /* a 2 x 2 corner */
    assert_false(l.span);
    assert_int_equal(l.first, 0);
    assert_int_equal(l.stride[0], 2);
    assert_int_equal(l.stride[1], 1);
    plim__io_layout_of(&f, &(plim__region){2, {{0, 4}, {0, 7}}}, false, &l); /* 31 of 28 elements: read across the gaps */
    assert_true(l.span);
    plim__io_layout_of(&f, &(plim__region){2, {{0, 4}, {0, 7}}}, true, &l); /* but not written across them */
    assert_false(l.span);
    plim__io_layout_of(&f, &(plim__region){2, {{0, 4}, {3, 3}}}, true, &l);
    assert_int_equal(l.bytes, 0);
    /* The first 100,000 of 200,000 bytes of each row begin at 4096 and 4096 + 200,000, that is 3392 into a block; the second lies at such a place in the buffer,
     * so far behind the first that they share no block. */
    const plim__io_file rows = {.offset = 4096, .element = 1, .shape = {2, {2, 200000}}, .stride = {200000, 1}};
    for (int write = 0; write < 2; write++) {
        plim__io_layout_of(&rows, &(plim__region){2, {{0, 2}, {0, 100000}}}, write, &l);
        assert_true(l.straight);
        assert_int_equal(l.first, 0);
        assert_true(l.stride[0] >= 100000 + 2 * 4095 && l.stride[0] < 100000 + 3 * 4096);
        assert_int_equal(l.stride[0] % 4096, 200000 % 4096);
    }
}

/* -------------------------------------------------------------------------------------------------------- reading */

typedef struct compare {
    const plim__io_file *f;
    const uint8_t *file, *buffer;
} compare;

static void compare_element(void *ctx, uint64_t in_file, uint64_t in_buffer)
{
    const compare *c = ctx;
    for (uint32_t i = 0; i < c->f->element; i++) {
        const uint32_t k = c->f->swap ? c->f->element - 1 - i : i;
        if (c->file[in_file + k] != c->buffer[in_buffer + i]) fail_msg("byte %llu of the file differs", (unsigned long long)in_file + k);
    }
}

static void read_boxes(uint64_t seed, bool direct, uint64_t elements)
{
    enum { BOXES = 6 };
    uint64_t rng = seed;
    faulty_os os;
    plim_error err = {0};
    plim__io_file f;
    faulty_init(&os);
    if (pick(&rng, 2)) { /* a short count somewhere must not matter */
        os.error = 0;
        os.reads_left = 1 + (int64_t)pick(&rng, 6);
    }
    if (elements) random_array(&f, &rng, elements);
    else long_array(&f, &rng);
    f.swap = pick(&rng, 4) == 0;
    f.path = files_path("in.bin");
    const uint64_t size = f.limit + (pick(&rng, 2) ? pick(&rng, 9000) : 0);
    uint8_t *model = random_bytes(size, seed);
    files_write("in.bin", model, size);
    if (plim__io_open_input(&f, &os.table, direct, &err) != PLIM_OK) fail_msg("%s", err.message);
    if (!direct) assert_false(f.direct);

    const plim__io_config config = random_config(&rng);
    engine e = engine_new(&config, &os.table);
    plim__io_ticket ticket[BOXES] = {0};
    plim__io_layout l[BOXES];
    plim__region box[BOXES];
    uint8_t *buffer[BOXES];
    for (int i = 0; i < BOXES; i++) {
        box[i] = random_box(&f, &rng);
        plim__io_layout_of(&f, &box[i], false, &l[i]);
        buffer[i] = buffer_for(&l[i]);
        plim__io_read(e.io, &f, &box[i], buffer[i], &ticket[i]);
    }
    for (int i = 0; i < BOXES; i++) {
        if (plim__io_wait(e.io, &ticket[i], &err) != PLIM_OK) fail_msg("%s", err.message);
        each_element(&f, &box[i], &l[i], compare_element, &(compare){&f, model, buffer[i]});
        free(buffer[i]);
    }
    engine_free(&e);
    plim__io_close(&f, &os.table);
    free(model);
}

static void test_read(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 120; seed++) read_boxes(seed, seed % 2, seed % 10 == 0 ? 300000 : 20000);
    for (uint64_t seed = 200; seed < 230; seed++) read_boxes(seed, seed % 2, 0);
}

/* -------------------------------------------------------------------------------------------------------- writing */

static void take_element(void *ctx, uint64_t in_file, uint64_t in_buffer)
{
    const compare *c = ctx;
    memcpy((uint8_t *)(uintptr_t)c->buffer + in_buffer, c->file + in_file, c->f->element);
}

typedef struct tiling {
    uint32_t rank, count;
    uint32_t n[PLIM_MAX_RANK];
    int64_t cut[PLIM_MAX_RANK][8];
} tiling;

static tiling random_tiling(const plim_shape *s, uint64_t *rng)
{
    tiling t = {.rank = s->rank, .count = 1};
    for (uint32_t d = 0; d < s->rank; d++) {
        t.n[d] = 1 + (uint32_t)pick(rng, 4);
        t.cut[d][t.n[d]] = s->dim[d];
        for (uint32_t k = t.n[d]; k-- > 1;) t.cut[d][k] = (int64_t)pick(rng, (uint64_t)t.cut[d][k + 1] + 1);
        t.count *= t.n[d];
    }
    return t;
}

static plim__region tile_at(const tiling *t, uint32_t index)
{
    plim__region r = {.rank = t->rank};
    for (uint32_t d = 0; d < t->rank; d++) {
        const uint32_t k = index % t->n[d];
        index /= t->n[d];
        r.dim[d] = (plim__range){t->cut[d][k], t->cut[d][k + 1]};
    }
    return r;
}

/* Writes all tiles in random order, several in flight. Stops early when the engine reports an error. */
static plim_status write_tiles(plim__io *io, const plim__io_file *f, const uint8_t *model, uint64_t *rng, plim_error *err)
{
    enum { FLIGHT = 5 };
    const tiling t = random_tiling(&f->shape, rng);
    uint32_t *order = calloc(t.count, sizeof *order);
    uint8_t *buffer[FLIGHT] = {0};
    plim__io_ticket ticket[FLIGHT] = {0};
    plim_status status = PLIM_OK;
    for (uint32_t i = 0; i < t.count; i++) {
        const uint32_t j = (uint32_t)pick(rng, i + 1);
        order[i] = order[j];
        order[j] = i;
    }
    for (uint32_t i = 0; i < t.count && status == PLIM_OK; i++) {
        const uint32_t k = i % FLIGHT;
        plim__io_layout l;
        const plim__region box = tile_at(&t, order[i]);
        status = plim__io_wait(io, &ticket[k], err);
        if (status != PLIM_OK) break;
        free(buffer[k]);
        plim__io_layout_of(f, &box, true, &l);
        buffer[k] = buffer_for(&l);
        each_element(f, &box, &l, take_element, &(compare){f, model, buffer[k]});
        plim__io_write(io, f, &box, buffer[k], &ticket[k]);
    }
    for (uint32_t k = 0; k < FLIGHT; k++) {
        const plim_status got = plim__io_wait(io, &ticket[k], err);
        if (status == PLIM_OK) status = got;
        free(buffer[k]);
    }
    free(order);
    return status;
}

static void check_file(const char *name, const plim__io_file *f, const uint8_t *model, uint64_t size)
{
    size_t n;
    uint8_t *got = files_read(name, &n);
    assert_non_null(got);
    assert_int_equal(n, size);
    for (uint64_t i = 0; i < size; i++) {
        const uint8_t want = i >= f->offset && i < f->limit ? model[i] : 0;
        if (got[i] != want) fail_msg("byte %llu of %s differs", (unsigned long long)i, name);
    }
    free(got);
}

static void write_array(uint64_t seed, bool direct, uint64_t elements)
{
    uint64_t rng = seed;
    faulty_os os;
    plim_error err = {0};
    plim__io_file f;
    plim__tempfile *t;
    faulty_init(&os);
    if (elements) random_array(&f, &rng, elements);
    else long_array(&f, &rng);
    const uint64_t size = f.limit + (pick(&rng, 2) ? pick(&rng, 9000) : 0);
    uint8_t *model = random_bytes(size, seed);
    if (plim__tempfile_new(&t, &os.table, files_path("out.bin"), size, direct, &err) != PLIM_OK) fail_msg("%s", err.message);
    plim__io_open_output(&f, t);
    const plim__io_config config = random_config(&rng);
    engine e = engine_new(&config, &os.table);
    if (pick(&rng, 2)) {
        os.error = 0;
        os.writes_left = (int64_t)pick(&rng, 6);
        os.reads_left = (int64_t)pick(&rng, 6);
    }
    if (write_tiles(e.io, &f, model, &rng, &err) != PLIM_OK) fail_msg("%s", err.message);
    if (pick(&rng, 2)) { /* what was written can be read before the flush */
        const plim__region box = random_box(&f, &rng);
        plim__io_ticket ticket = {0};
        plim__io_layout l;
        plim__io_layout_of(&f, &box, false, &l);
        uint8_t *buffer = buffer_for(&l);
        plim__io_read(e.io, &f, &box, buffer, &ticket);
        if (plim__io_wait(e.io, &ticket, &err) != PLIM_OK) fail_msg("%s", err.message);
        each_element(&f, &box, &l, compare_element, &(compare){&f, model, buffer});
        free(buffer);
    }
    if (pick(&rng, 3) == 0) { /* and written again, cut differently, with other contents */
        free(model);
        model = random_bytes(size, seed + 1);
        if (write_tiles(e.io, &f, model, &rng, &err) != PLIM_OK) fail_msg("%s", err.message);
    }
    if (plim__io_flush(e.io, &err) != PLIM_OK) fail_msg("%s", err.message);
    engine_free(&e);
    if (plim__tempfile_commit(&t, &err) != PLIM_OK) fail_msg("%s", err.message);
    check_file("out.bin", &f, model, size);
    free(model);
}

static void test_write(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 120; seed++) write_array(seed, seed % 2, seed % 10 == 0 ? 200000 : 10000);
    for (uint64_t seed = 200; seed < 230; seed++) write_array(seed, seed % 2, 0);
}

static void write_range(plim__io *io, const plim__io_file *f, const uint8_t *model, int64_t lo, int64_t hi)
{
    plim__io_layout l;
    plim_error err = {0};
    plim__io_ticket ticket = {0};
    const plim__region box = {1, {{lo, hi}}};
    plim__io_layout_of(f, &box, true, &l);
    uint8_t *buffer = buffer_for(&l);
    each_element(f, &box, &l, take_element, &(compare){f, model, buffer});
    plim__io_write(io, f, &box, buffer, &ticket);
    if (plim__io_wait(io, &ticket, &err) != PLIM_OK) fail_msg("%s", err.message);
    free(buffer);
}

/* Bytes that wait in the edge cache are older than a whole block that is written over them, and must not come back. */
static void test_rewrite(void **state)
{
    (void)state;
    enum { SIZE = 5 * 4096 };
    plim_error err = {0};
    plim__tempfile *t;
    plim__io_file f = {.element = 1, .shape = {1, {SIZE}}, .stride = {1}};
    uint8_t *old = random_bytes(SIZE, 1), *model = random_bytes(SIZE, 2);
    assert_int_equal(plim__tempfile_new(&t, &plim__os_linux, files_path("again.bin"), SIZE, true, &err), PLIM_OK);
    plim__io_open_output(&f, t);
    engine e = engine_new(&(plim__io_config){2, 8192, 8, 8192}, &plim__os_linux);
    write_range(e.io, &f, old, 100, 5000);
    write_range(e.io, &f, old, 9000, 9001);
    write_range(e.io, &f, model, 0, SIZE);
    assert_int_equal(plim__io_flush(e.io, &err), PLIM_OK);
    engine_free(&e);
    assert_int_equal(plim__tempfile_commit(&t, &err), PLIM_OK);
    check_file("again.bin", &f, model, SIZE);
    free(old);
    free(model);
}

static int64_t slow_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    const int64_t got = plim__os_linux.pread(self, fd, buf, n, off);
    usleep(200);
    return got;
}

/* Boxes that are written may overlap, as those of neighbouring tiles with halos do: both bring the same bytes. A small box ends inside a block, which the
 * engine reads, merges and writes; meanwhile another box may bring all of that block, and must not be undone. */
static void test_overlapping_writes(void **state)
{
    (void)state;
    enum { BLOCKS = 60, SIZE = BLOCKS * 4096, FLIGHT = 8 };
    plim__os os = plim__os_linux;
    os.pread = slow_pread;
    for (uint64_t seed = 1; seed <= 20; seed++) {
        uint64_t rng = seed;
        plim_error err = {0};
        plim__tempfile *t;
        plim__io_file f = {.element = 1, .shape = {1, {SIZE}}, .stride = {1}, .limit = SIZE};
        uint8_t *model = random_bytes(SIZE, seed), *buffer[FLIGHT] = {0};
        plim__io_ticket ticket[FLIGHT] = {0};
        assert_int_equal(plim__tempfile_new(&t, &os, files_path("overlap.bin"), SIZE, true, &err), PLIM_OK);
        plim__io_open_output(&f, t);
        engine e = engine_new(&(plim__io_config){4, 8192 + 4096 * pick(&rng, 4), 4, 16384}, &os);
        for (uint32_t i = 0; i < 4 * BLOCKS; i++) { /* three boxes with an end inside block i/4, then all of the block */
            const uint32_t k = i % FLIGHT;
            const int64_t block = i / 4 * 4096, end = block + 1 + (int64_t)pick(&rng, 4095), lo = end - (int64_t)pick(&rng, (uint64_t)plim__min(end, 9000));
            const plim__region box = {1, {i % 4 < 3 ? (plim__range){lo, end} : (plim__range){block, block + 4096}}};
            plim__io_layout l;
            assert_int_equal(plim__io_wait(e.io, &ticket[k], &err), PLIM_OK);
            free(buffer[k]);
            plim__io_layout_of(&f, &box, true, &l);
            buffer[k] = buffer_for(&l);
            each_element(&f, &box, &l, take_element, &(compare){&f, model, buffer[k]});
            plim__io_write(e.io, &f, &box, buffer[k], &ticket[k]);
        }
        for (uint32_t k = 0; k < FLIGHT; k++) {
            assert_int_equal(plim__io_wait(e.io, &ticket[k], &err), PLIM_OK);
            free(buffer[k]);
        }
        assert_int_equal(plim__io_flush(e.io, &err), PLIM_OK);
        engine_free(&e);
        assert_int_equal(plim__tempfile_commit(&t, &err), PLIM_OK);
        check_file("overlap.bin", &f, model, SIZE);
        free(model);
    }
}

/* ------------------------------------------------------------------------------------------------------- failures */

static void fail_write_at(int64_t nth, int error, bool direct)
{
    uint64_t rng = (uint64_t)nth;
    faulty_os os;
    plim_error err = {0};
    plim__tempfile *t;
    plim__io_file f = {.element = 4, .offset = 4096, .shape = {2, {200, 300}}, .stride = {300, 1}};
    const uint64_t size = 4096 + 200 * 300 * 4;
    faulty_init(&os);
    uint8_t *model = random_bytes(size, 3);
    assert_int_equal(plim__tempfile_new(&t, &os.table, files_path("never.bin"), size, direct, &err), PLIM_OK);
    plim__io_open_output(&f, t);
    engine e = engine_new(&(plim__io_config){3, 16384, 8, 16384}, &os.table);
    os.error = error;
    os.writes_left = nth;
    os.from_then = nth % 2;
    plim_status status = write_tiles(e.io, &f, model, &rng, &err);
    if (status == PLIM_OK) status = plim__io_flush(e.io, &err);
    if (atomic_load(&os.writes_left) <= 0 && (os.from_then || atomic_load(&os.writes_left) < 0)) {
        assert_int_equal(status, error == -ENOSPC ? PLIM_E_NOSPACE : PLIM_E_IO);
        assert_int_equal(err.code, status);
        assert_non_null(strstr(err.message, "never.bin"));
        assert_true(err.offset >= 4096 && err.offset < size);
        plim_error again = {0};
        assert_int_equal(plim__io_flush(e.io, &again), status); /* the first error stays */
        assert_string_equal(again.message, err.message);
    } else {
        assert_int_equal(status, PLIM_OK);
    }
    engine_free(&e);
    plim__tempfile_drop(&t);
    assert_int_not_equal(access(files_path("never.bin"), F_OK), 0);
    free(model);
}

static void test_write_fails(void **state)
{
    (void)state;
    for (int64_t nth = 0; nth < 40; nth++) {
        fail_write_at(nth, nth % 3 ? -EIO : -ENOSPC, nth % 4 < 2);
    }
}

static plim_status read_whole(const plim__io_file *f, const plim__os *os, plim_error *err)
{
    plim__io_layout l;
    plim__io_ticket ticket = {0}, second = {0};
    const plim__region all = plim__region_whole(&f->shape);
    engine e = engine_new(&(plim__io_config){3, 16384, 8, 16384}, os);
    plim__io_layout_of(f, &all, false, &l);
    uint8_t *buffer = buffer_for(&l), *other = buffer_for(&l);
    plim__io_read(e.io, f, &all, buffer, &ticket);
    plim__io_read(e.io, f, &all, other, &second);
    const plim_status status = plim__io_wait(e.io, &ticket, err);
    const plim_status later = plim__io_wait(e.io, &second, NULL);
    if (status != PLIM_OK) assert_int_equal(later, status);
    engine_free(&e);
    free(buffer);
    free(other);
    return status == PLIM_OK ? later : status;
}

static void test_read_fails(void **state)
{
    (void)state;
    const uint64_t size = 128 + 100000 * 8;
    uint8_t *model = random_bytes(size, 5);
    files_write("bad.bin", model, size);
    for (int64_t nth = 1; nth < 30; nth++) {
        faulty_os os;
        plim_error err = {0};
        plim__io_file f = {.path = files_path("bad.bin"), .element = 8, .offset = nth % 2 ? 128 : 127, .shape = {1, {100000}}, .stride = {1}};
        faulty_init(&os);
        assert_int_equal(plim__io_open_input(&f, &os.table, nth % 4 < 2, &err), PLIM_OK);
        os.error = -EIO;
        os.reads_left = nth;
        assert_int_equal(read_whole(&f, &os.table, &err), PLIM_E_IO);
        assert_non_null(strstr(err.message, "bad.bin"));
        assert_non_null(strstr(err.message, "byte"));
        assert_true(err.offset < size);
        plim__io_close(&f, &os.table);
    }
    free(model);
}

/* Too short when it is opened, and cut while it is open: by whole blocks and inside a block. */
static void test_shrinks(void **state)
{
    (void)state;
    const uint64_t size = 64 + 50000 * 4;
    const uint64_t cuts[] = {0, 4096, 100000, 8192 * 3, size - 1, size - 200};
    uint8_t *model = random_bytes(size, 5);
    for (uint32_t i = 0; i < 2 * COUNT_OF(cuts); i++) {
        faulty_os os;
        plim_error err = {0};
        plim__io_file f = {.path = files_path("short.bin"), .element = 4, .offset = 64, .shape = {2, {500, 100}}, .stride = {100, 1}};
        faulty_init(&os);
        files_write("short.bin", model, size);
        assert_int_equal(plim__io_open_input(&f, &os.table, i % 2, &err), PLIM_OK);
        assert_int_equal(truncate(f.path, (off_t)cuts[i / 2]), 0);
        assert_int_equal(read_whole(&f, &os.table, &err), PLIM_E_CHANGED);
        assert_non_null(strstr(err.message, "short.bin"));
        assert_true(err.offset >= cuts[i / 2] && err.offset <= size);
        plim__io_close(&f, &os.table);

        err = (plim_error){0};
        assert_int_equal(plim__io_open_input(&f, &os.table, i % 2, &err), PLIM_E_CHANGED);
        assert_int_equal(err.have, cuts[i / 2]);
        assert_int_equal(err.need, size);
        assert_int_equal(f.fd, -1);
    }
    free(model);
}

static void test_open_refused(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__io_file f = {.path = files_path("missing.bin"), .element = 4, .shape = {1, {10}}, .stride = {1}};
    assert_int_equal(plim__io_open_input(&f, &plim__os_linux, true, &err), PLIM_E_IO);
    assert_non_null(strstr(err.message, "missing.bin"));
    err = (plim_error){0};
    f.path = files_dir;
    assert_int_equal(plim__io_open_input(&f, &plim__os_linux, true, &err), PLIM_E_INVALID);
    err = (plim_error){0};
    f.offset = INT64_MAX;
    assert_int_equal(plim__io_open_input(&f, &plim__os_linux, true, &err), PLIM_E_OVERFLOW);
}

/* A file in the page cache is read from there, one that is not is read directly. */
static void test_cached(void **state)
{
    (void)state;
    plim_error err = {0};
    plim__io_file f = {.path = files_path("cached.bin"), .element = 1, .shape = {1, {(int64_t)(8 * MiB)}}, .stride = {1}};
    uint8_t *model = random_bytes(8 * MiB, 9);
    files_write("cached.bin", model, 8 * MiB);
    free(model);
    const int fd = open(f.path, O_RDWR);
    if (plim__os_linux.cached(NULL, fd) < 0) {
        close(fd);
        skip();
    }
    assert_true(plim__os_linux.cached(NULL, fd) >= (int64_t)(8 * MiB));
    assert_int_equal(plim__io_open_input(&f, &plim__os_linux, true, &err), PLIM_OK);
    assert_false(f.direct || f.drop);
    plim__io_close(&f, &plim__os_linux);
    fsync(fd);
    plim__os_linux.drop_cache(NULL, fd, 0, 8 * MiB);
    close(fd);
    assert_int_equal(plim__io_open_input(&f, &plim__os_linux, true, &err), PLIM_OK);
    const int direct = open(f.path, O_RDONLY | O_DIRECT);
    assert_int_equal(f.direct, direct >= 0);
    close(direct);
    plim__io_close(&f, &plim__os_linux);
}

static void *no_memory(void *ctx, void *old, size_t size)
{
    (void)ctx, (void)old, (void)size;
    return NULL;
}

static void test_config(void **state)
{
    (void)state;
    static const plim__io_config bad[] = {
        {0, 8192, 4, 4096}, {17, 8192, 4, 4096}, {1, 4096, 4, 4096}, {1, 8193, 4, 4096}, {1, 8192, 3, 4096}, {1, 8192, 4, 0}, {1, 8192, 4, 5000},
    };
    for (uint32_t i = 0; i < COUNT_OF(bad); i++) {
        plim__io *io;
        plim_error err = {0};
        assert_int_equal(plim__io_new(&io, &bad[i], &plim__os_linux, &heap, NULL, &err), PLIM_E_INVALID);
        assert_null(io);
    }
    plim__io *io;
    plim_error err = {0};
    const plim__io_config good = {1, 8192, 4, 4096};
    const plim__alloc empty = {.hook = no_memory};
    assert_int_equal(plim__io_new(&io, &good, &plim__os_linux, &empty, NULL, &err), PLIM_E_NOMEM);
    assert_null(io);
}

/* --------------------------------------------------------------------------------------------- a small memory cgroup */

#define CGROUP "/sys/fs/cgroup/memory/plimsoll-io-test"
#define CGROUP_BYTES (32 * MiB)

static bool put_text(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    if (!f) return false;
    const bool ok = fputs(text, f) >= 0;
    return fclose(f) == 0 && ok;
}

static bool cgroup_new(void)
{
    char text[32];
    rmdir(CGROUP);
    if (mkdir(CGROUP, 0755) != 0) return false;
    snprintf(text, sizeof text, "%llu", (unsigned long long)CGROUP_BYTES);
    return put_text(CGROUP "/memory.limit_in_bytes", text);
}

/* Copies a file of `blocks` MiB through 16 MiB of buffers: what the budget of a small run looks like. Runs in the child. */
static plim_status stream(const char *in, const char *out, int64_t blocks, bool direct, plim_error *err)
{
    enum { FLIGHT = 4, ROWS = 4 };
    static const plim__io_config config = {4, 256 << 10, 16, 1 << 20};
    plim__io *io = NULL;
    plim__tempfile *t = NULL;
    plim__io_ticket reading[FLIGHT] = {0}, writing[FLIGHT] = {0};
    uint8_t *buffer[FLIGHT];
    plim__io_file from = {.path = in, .element = 1, .shape = {2, {blocks, (int64_t)MiB}}, .stride = {(int64_t)MiB, 1}}, to = from;
    plim_status status = plim__io_open_input(&from, &plim__os_linux, direct, err);
    if (status == PLIM_OK) status = plim__tempfile_new(&t, &plim__os_linux, out, from.limit, direct, err);
    if (status != PLIM_OK) return status;
    plim__io_open_output(&to, t);
    void *memory = aligned_alloc(PLIM__IO_ALIGN, plim__io_bytes(&config));
    status = plim__io_new(&io, &config, &plim__os_linux, &heap, memory, err);
    for (int k = 0; k < FLIGHT; k++) buffer[k] = aligned_alloc(PLIM__IO_ALIGN, ROWS * MiB + 8192);
    for (int64_t i = -1; i * ROWS < blocks && status == PLIM_OK; i++) {
        plim__region ahead = {2, {{(i + 1) * ROWS, plim__min((i + 2) * ROWS, blocks)}, {0, (int64_t)MiB}}};
        const int k = (int)((i + 1) % FLIGHT);
        status = plim__io_wait(io, &writing[k], err);
        if (status == PLIM_OK && (i + 1) * ROWS < blocks) plim__io_read(io, &from, &ahead, buffer[k], &reading[k]);
        if (i < 0 || status != PLIM_OK) continue;
        plim__region now = {2, {{i * ROWS, plim__min((i + 1) * ROWS, blocks)}, {0, (int64_t)MiB}}};
        status = plim__io_wait(io, &reading[i % FLIGHT], err);
        plim__io_write(io, &to, &now, buffer[i % FLIGHT], &writing[i % FLIGHT]);
    }
    if (status == PLIM_OK) status = plim__io_flush(io, err);
    plim__io_free(&io);
    plim__io_close(&from, &plim__os_linux);
    if (status == PLIM_OK) return plim__tempfile_commit(&t, err);
    plim__tempfile_drop(&t);
    return status;
}

static int stream_in_cgroup(const char *in, const char *out, int64_t blocks, bool direct)
{
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        plim_error err = {0};
        if (!put_text(CGROUP "/cgroup.procs", "0")) _exit(77);
        if (stream(in, out, blocks, direct, &err) == PLIM_OK) _exit(0);
        fprintf(stderr, "%s\n", err.message);
        _exit(1);
    }
    int status = -1;
    waitpid(pid, &status, 0);
    return status;
}

static bool same_files(const char *a, const char *b)
{
    char command[600];
    snprintf(command, sizeof command, "cmp -s %s %s", a, b);
    return system(command) == 0;
}

static void make_big_file(const char *path, int64_t blocks)
{
    uint8_t *block = random_bytes(MiB, 11);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    assert_true(fd >= 0);
    for (int64_t i = 0; i < blocks; i++) {
        memcpy(block, &i, sizeof i);
        assert_int_equal(pwrite(fd, block, MiB, (off_t)((uint64_t)i * MiB)), MiB);
    }
    fsync(fd);
    posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
    close(fd);
    free(block);
}

static void test_cgroup(void **state)
{
    (void)state;
    enum { BLOCKS = 1024 };
#if SANITIZED
    print_message("SKIPPED: the sanitizer's own memory does not fit the cgroup\n");
    skip();
#endif
    if (!cgroup_new()) {
        print_message("SKIPPED: cannot make the memory cgroup " CGROUP "\n");
        skip();
    }
    char in[256], out[256];
    snprintf(in, sizeof in, "%s", files_path("stream.in"));
    snprintf(out, sizeof out, "%s", files_path("stream.out"));
    make_big_file(in, BLOCKS);
    for (int direct = 0; direct < 2; direct++) {
        const int status = stream_in_cgroup(in, out, BLOCKS, direct);
        char used[64] = "";
        plim__os_linux.read_text(NULL, CGROUP "/memory.max_usage_in_bytes", used, sizeof used);
        print_message("%s: at most %s of %llu bytes used\n", direct ? "direct" : "buffered", strtok(used, "\n"), (unsigned long long)CGROUP_BYTES);
        if (WIFSIGNALED(status)) fail_msg("killed by signal %d (direct: %d)", WTERMSIG(status), direct);
        assert_int_equal(WEXITSTATUS(status), 0);
        assert_true(same_files(in, out));
        put_text(CGROUP "/memory.max_usage_in_bytes", "0");
        make_big_file(in, BLOCKS); /* comparing has brought it into the page cache */
    }
    unlink(in);
    unlink(out);
    rmdir(CGROUP);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_layout),      cmocka_unit_test(test_layout_small), cmocka_unit_test(test_read),
        cmocka_unit_test(test_write),       cmocka_unit_test(test_write_fails),  cmocka_unit_test(test_read_fails),
        cmocka_unit_test(test_shrinks),     cmocka_unit_test(test_open_refused), cmocka_unit_test(test_cached),
        cmocka_unit_test(test_config),      cmocka_unit_test(test_rewrite),      cmocka_unit_test(test_overlapping_writes),
        cmocka_unit_test(test_cgroup),
    };
    return cmocka_run_group_tests_name("io", tests, files_begin, files_end);
}
