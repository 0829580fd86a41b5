/* The walk over tiles: every element once, halos clipped, results equal to the whole-array result, budgets kept, nothing left behind. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <dirent.h>

#include "files.h"
#include "formats/array_file.h"
#include "session/tiles.h"

#define ROWS 61
#define COLS 83

/* Small pictures of f32, element (i, j) being a number that two neighbours do not share. */
static float value_at(int64_t i, int64_t j) { return (float)((i * 131 + j * 17) % 251); }

static void write_picture(const char *name, int64_t rows, int64_t cols, bool fortran, bool big)
{
    char literal[128], header[128];
    uint8_t *file = malloc(128 + (size_t)(rows * cols) * 4);
    snprintf(literal, sizeof literal, "{'descr': '%sf4', 'fortran_order': %s, 'shape': (%lld, %lld), }", big ? ">" : "<",
             fortran ? "True" : "False", (long long)rows, (long long)cols);
    snprintf(header, sizeof header, "%-117.117s", literal);
    memcpy(file, "\x93NUMPY\1\0\x76\0", 10);
    memcpy(file + 10, header, 117);
    file[127] = '\n';
    for (int64_t i = 0; i < rows; i++)
        for (int64_t j = 0; j < cols; j++) {
            uint8_t bytes[4];
            const float x = value_at(i, j);
            memcpy(bytes, &x, 4);
            uint8_t *at = file + 128 + 4 * (fortran ? j * rows + i : i * cols + j);
            for (int b = 0; b < 4; b++) at[b] = bytes[big ? 3 - b : b];
        }
    files_write(name, file, 128 + (size_t)(rows * cols) * 4);
    free(file);
}

static double box_at(int64_t i, int64_t j)
{
    double sum = 0;
    int n = 0;
    for (int64_t y = i - 1; y <= i + 1; y++)
        for (int64_t x = j - 1; x <= j + 1; x++)
            if (y >= 0 && x >= 0 && y < ROWS && x < COLS) {
                sum += value_at(y, x);
                n++;
            }
    return sum / n;
}

static float in_at(const plim_tile *t, int64_t i, int64_t j)
{
    return ((const float *)t->in)[(i - t->halo_lo[0]) * t->in_stride[0] + (j - t->halo_lo[1]) * t->in_stride[1]];
}

/* The 3x3 mean of a tile, looking only at what the tile holds. */
static void box_tile(const plim_tile *t)
{
    for (int64_t a = 0; a < t->core.dim[0]; a++)
        for (int64_t b = 0; b < t->core.dim[1]; b++) {
            const int64_t i = a + t->core_lo[0], j = b + t->core_lo[1];
            double sum = 0;
            int n = 0;
            for (int64_t y = i - 1; y <= i + 1; y++)
                for (int64_t x = j - 1; x <= j + 1; x++)
                    if (y >= t->halo_lo[0] && x >= t->halo_lo[1] && y < t->halo_lo[0] + t->halo.dim[0] && x < t->halo_lo[1] + t->halo.dim[1]) {
                        sum += in_at(t, y, x);
                        n++;
                    }
            ((double *)t->out)[a * t->out_stride[0] + b * t->out_stride[1]] = sum / n;
        }
}

static void check_halo(const plim_tile *t, const int64_t *overlap)
{
    static const int64_t n[] = {ROWS, COLS};
    for (int d = 0; d < 2; d++) {
        const int64_t lo = t->core_lo[d] - overlap[d], hi = t->core_lo[d] + t->core.dim[d] + overlap[d];
        assert_int_equal(t->halo_lo[d], lo < 0 ? 0 : lo);
        assert_int_equal(t->halo_lo[d] + t->halo.dim[d], hi > n[d] ? n[d] : hi);
    }
}

/* Walks x.npy, counts every element, checks what is read, writes the box filter as f64, compares. */
static void walk_box(const char *in, plim_shape tile, plim_shape overlap, const plim_settings *set)
{
    static uint8_t seen[ROWS][COLS];
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    uint64_t index = 0;
    memset(seen, 0, sizeof seen);
    if (plim_tiles_new(&t, files_path(in), files_path("box.npy"), PLIM_F64, &tile, &overlap, set, &err) != PLIM_OK) fail_msg("%s", err.message);
    while (plim_tiles_next(t, &now, &err) == PLIM_OK && now.in) {
        assert_int_equal(now.index, index++);
        check_halo(&now, overlap.dim);
        for (int64_t i = 0; i < now.core.dim[0]; i++)
            for (int64_t j = 0; j < now.core.dim[1]; j++) seen[i + now.core_lo[0]][j + now.core_lo[1]]++;
        for (int64_t i = now.halo_lo[0]; i < now.halo_lo[0] + now.halo.dim[0]; i++)
            for (int64_t j = now.halo_lo[1]; j < now.halo_lo[1] + now.halo.dim[1]; j++) assert_true(in_at(&now, i, j) == value_at(i, j));
        box_tile(&now);
    }
    assert_int_equal(index, now.count);
    if (plim_tiles_finish(&t, &err) != PLIM_OK) fail_msg("%s", err.message);
    assert_null(t);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) assert_int_equal(seen[i][j], 1);

    size_t n;
    uint8_t *file = files_read("box.npy", &n);
    assert_int_equal(n, PLIM__NPY_HEADER + ROWS * COLS * 8);
    for (int i = 0; i < ROWS; i++)
        for (int j = 0; j < COLS; j++) {
            double got;
            memcpy(&got, file + PLIM__NPY_HEADER + 8 * (i * COLS + j), 8);
            if (got != box_at(i, j)) fail_msg("element (%d, %d) is %g, not %g", i, j, got, box_at(i, j));
        }
    free(file);
    unlink(files_path("box.npy"));
}

static plim_shape pair(int64_t a, int64_t b) { return (plim_shape){.rank = 2, .dim = {a, b}}; }

/* Unfinished outputs in the folder. */
static int leftovers(void)
{
    int n = 0;
    DIR *d = opendir(files_dir);
    for (struct dirent *e; (e = readdir(d));) n += strstr(e->d_name, "plimsoll-tmp") != NULL;
    closedir(d);
    return n;
}

static void box_equals_whole(void **state)
{
    (void)state;
    static const int64_t tiles[][2] = {{0, 0}, {1, 1}, {1, 0}, {0, 1}, {7, 11}, {61, 83}, {1000, 3}, {60, 82}, {2, 83}};
    static const int64_t overlaps[][2] = {{1, 1}, {3, 2}, {100, 100}, {1, 40}};
    for (int kind = 0; kind < 8; kind++) {
        plim_settings set = plim_settings_default();
        set.no_direct_io = kind & 4;
        write_picture("x.npy", ROWS, COLS, kind & 1, kind & 2);
        for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++)
            for (size_t j = 0; j < sizeof overlaps / sizeof *overlaps; j++) {
                if (i == 1 && j != 0 && kind > 0) continue; /* many tiles with large halos: slow, and once is enough */
                walk_box("x.npy", pair(tiles[i][0], tiles[i][1]), pair(overlaps[j][0], overlaps[j][1]), &set);
            }
    }
    assert_int_equal(leftovers(), 0);
}

static void keeps_small_budgets(void **state)
{
    (void)state;
    plim_tiles *t;
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    write_picture("x.npy", ROWS, COLS, false, false);
    set.memory = 4096;
    const plim_shape free_tile = pair(0, 0), one = pair(1, 1);
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), files_path("box.npy"), PLIM_F64, &free_tile, &one, &set, &err), PLIM_E_BUDGET);
    assert_null(t);
    assert_true(err.need > 4096 && err.have == 4096);
    assert_int_equal(leftovers(), 0);
    const uint64_t floor = err.need;
    for (int i = 0; i < 3; i++) {
        set.memory = floor + (uint64_t)i * floor / 8;
        walk_box("x.npy", free_tile, one, &set);
    }
    /* a tile that the caller fixes is not made smaller */
    write_picture("large.npy", 2000, 2000, false, false);
    const plim_shape whole = pair(2000, 2000);
    set.memory = floor;
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("large.npy"), NULL, PLIM_F64, &whole, NULL, &set, &err), PLIM_E_BUDGET);
    assert_true(err.need > floor + 15000000);
    set.memory = err.need;
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("large.npy"), NULL, PLIM_F64, &whole, NULL, &set, &err), PLIM_OK);
    plim_tiles_free(&t);
    /* with room for few rows, tiles are whole rows; the process has grown meanwhile, so the floor is asked for again */
    set.memory = 4096;
    assert_int_equal(plim_tiles_new(&t, files_path("large.npy"), NULL, PLIM_F64, NULL, NULL, &set, &err), PLIM_E_BUDGET);
    set.memory = err.need + (1 << 20);
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("large.npy"), NULL, PLIM_F64, NULL, NULL, &set, &err), PLIM_OK);
    plim_tile now;
    assert_int_equal(plim_tiles_next(t, &now, &err), PLIM_OK);
    assert_int_equal(now.core.dim[1], 2000);
    assert_true(now.core.dim[0] > 10 && now.core.dim[0] < 300);
    plim_tiles_free(&t);
}

static void walks_odd_shapes(void **state)
{
    (void)state;
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    char buf[PLIM__NPY_HEADER + 64];
    static const plim_shape shapes[] = {{.rank = 0}, {.rank = 2, .dim = {3, 0}}, {.rank = 3, .dim = {1, 5, 1}}};
    static const uint64_t counts[] = {1, 0, 5};
    for (int i = 0; i < 3; i++) {
        memset(buf, 7, sizeof buf);
        assert_int_equal(plim__npy_header(buf, PLIM_U8, &shapes[i], NULL), PLIM_OK);
        files_write("odd.npy", buf, sizeof buf);
        const plim_shape ones = {.rank = shapes[i].rank, .dim = {1, 1, 1}};
        assert_int_equal(plim_tiles_new(&t, files_path("odd.npy"), files_path("out.npy"), PLIM_I16, &ones, NULL, NULL, &err), PLIM_OK);
        uint64_t n = 0;
        while (plim_tiles_next(t, &now, &err) == PLIM_OK && now.in) {
            assert_int_equal(*(const uint8_t *)now.in, 7);
            *(int16_t *)now.out = (int16_t)n++;
        }
        assert_int_equal(n, counts[i]);
        assert_int_equal(plim_tiles_next(t, &now, &err), PLIM_OK); /* the end may be asked for again */
        assert_null(now.in);
        assert_int_equal(plim_tiles_finish(&t, &err), PLIM_OK);
        plim_array_info info;
        assert_int_equal(plim_array_info_read(&info, files_path("out.npy"), &err), PLIM_OK);
        assert_int_equal(info.dtype, PLIM_I16);
        assert_int_equal(info.bytes, counts[i] * 2);
    }
}

/* Cuts dimension d of `rank` dimensions of extent `extent` into tiles of 2, and doubles every element. @return the number of tiles */
static uint64_t double_all(uint32_t rank, int64_t extent, uint32_t cut, int64_t overlap)
{
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    plim_shape shape = {.rank = rank}, tile = shape, over = shape;
    size_t n = 1, bytes;
    for (uint32_t d = 0; d < rank; d++) {
        shape.dim[d] = extent;
        tile.dim[d] = cut >> d & 1 ? 2 : extent;
        over.dim[d] = overlap;
        n *= (size_t)extent;
    }
    uint8_t *file = malloc(PLIM__NPY_HEADER + 4 * n);
    assert_int_equal(plim__npy_header((char *)file, PLIM_I32, &shape, NULL), PLIM_OK);
    for (size_t i = 0; i < n; i++) ((int32_t *)(file + PLIM__NPY_HEADER))[i] = (int32_t)i;
    files_write("many.npy", file, PLIM__NPY_HEADER + 4 * n);
    free(file);
    if (plim_tiles_new(&t, files_path("many.npy"), files_path("double.npy"), PLIM_I32, &tile, &over, NULL, &err)) fail_msg("%s", err.message);
    while (plim_tiles_next(t, &now, &err) == PLIM_OK && now.in) {
        int64_t at[PLIM_MAX_RANK] = {0};
        for (bool more = true; more;) {
            int64_t in = 0, out = 0;
            for (uint32_t d = 0; d < rank; d++) {
                in += (at[d] + now.core_lo[d] - now.halo_lo[d]) * now.in_stride[d];
                out += at[d] * now.out_stride[d];
            }
            ((int32_t *)now.out)[out] = 2 * ((const int32_t *)now.in)[in];
            more = false;
            for (uint32_t d = rank; d-- > 0 && !more;) {
                more = ++at[d] < now.core.dim[d];
                if (!more) at[d] = 0;
            }
        }
    }
    if (plim_tiles_finish(&t, &err)) fail_msg("%s", err.message);
    file = files_read("double.npy", &bytes);
    assert_int_equal(bytes, PLIM__NPY_HEADER + 4 * n);
    for (size_t i = 0; i < n; i++) assert_int_equal(((int32_t *)(file + PLIM__NPY_HEADER))[i], 2 * (int32_t)i);
    free(file);
    return now.count;
}

/* A plan has three loops at most, and labels for eight dimensions: what is cut beyond that is cut in memory. */
static void cuts_many_dimensions(void **state)
{
    (void)state;
    assert_int_equal(double_all(5, 5, 0, 1), 1);
    assert_int_equal(double_all(5, 5, 7, 1), 27);
    assert_int_equal(double_all(5, 5, 31, 1), 243);
    assert_int_equal(double_all(5, 4, 30, 0), 16);
    assert_int_equal(double_all(11, 3, 1 << 10 | 1, 0), 4);
    assert_int_equal(double_all(11, 3, 1 << 10 | 31, 1), 64);
}

static void abandoned_walks_leave_nothing(void **state)
{
    (void)state;
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    const plim_shape tile = pair(10, 83);
    write_picture("x.npy", ROWS, COLS, false, false);
    unlink(files_path("y.npy"));
    for (int how = 0; how < 3; how++) {
        assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), files_path("y.npy"), PLIM_F32, &tile, NULL, NULL, &err), PLIM_OK);
        for (int i = 0; i < how; i++) assert_int_equal(plim_tiles_next(t, &now, &err), PLIM_OK);
        if (how == 2) {
            assert_int_equal(plim_tiles_finish(&t, &err), PLIM_E_INVALID);
            assert_non_null(strstr(err.message, "2 of 7 tiles"));
        }
        plim_tiles_free(&t);
        assert_null(t);
        assert_int_equal(leftovers(), 0);
        assert_int_not_equal(access(files_path("y.npy"), F_OK), 0);
    }
    /* the last tile counts even if the end was not asked for */
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), files_path("y.npy"), PLIM_F32, &tile, NULL, NULL, &err), PLIM_OK);
    for (int i = 0; i < 7; i++) {
        assert_int_equal(plim_tiles_next(t, &now, &err), PLIM_OK);
        for (int64_t k = 0; k < now.core.dim[0] * 83; k++) ((float *)now.out)[k] = (float)i;
    }
    assert_int_equal(plim_tiles_finish(&t, &err), PLIM_OK);
    size_t n;
    float last;
    uint8_t *file = files_read("y.npy", &n);
    memcpy(&last, file + n - 4, 4);
    assert_true(last == 6);
    free(file);
}

static bool cancel_at_third(void *ctx, const plim_progress *now)
{
    int *calls = ctx;
    assert_true(now->done <= now->total);
    return ++*calls < 3;
}

static void stops_when_asked(void **state)
{
    (void)state;
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    int calls = 0;
    plim_settings set = plim_settings_default();
    set.progress = cancel_at_third;
    set.progress_ctx = &calls;
    const plim_shape tile = pair(5, 83);
    write_picture("x.npy", ROWS, COLS, false, false);
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), NULL, PLIM_F32, &tile, NULL, &set, &err), PLIM_OK);
    while (plim_tiles_next(t, &now, &err) == PLIM_OK && now.in) assert_null(now.out);
    assert_int_equal(err.code, PLIM_E_CANCELLED);
    assert_int_equal(plim_tiles_next(t, &now, NULL), PLIM_E_CANCELLED);
    assert_int_equal(plim_tiles_finish(&t, NULL), PLIM_E_CANCELLED);
}

static plim_status walk_on(const plim__os *os, const plim_settings *set, plim_error *err)
{
    plim_tiles *t;
    plim_tile now;
    const plim_shape tile = pair(20, 30), overlap = pair(1, 1);
    PLIM_TRY(plim__tiles_new(&t, os, files_path("x.npy"), files_path("y.npy"), PLIM_F32, &tile, &overlap, set, err));
    while (plim_tiles_next(t, &now, err) == PLIM_OK && now.in)
        for (int64_t i = 0; i < now.core.dim[0]; i++)
            for (int64_t j = 0; j < now.core.dim[1]; j++) ((float *)now.out)[i * now.out_stride[0] + j * now.out_stride[1]] = 1;
    return plim_tiles_finish(&t, err);
}

static void survives_failing_calls(void **state)
{
    (void)state;
    write_picture("x.npy", ROWS, COLS, false, false);
    for (int what = 0; what < 4; what++) {
        bool done = false;
        for (int64_t n = 0; !done; n++) {
            failing_os os;
            plim_error err = {0};
            plim_settings set = plim_settings_default();
            set.no_direct_io = what >= 2;
            failing_os_init(&os);
            if (what % 2) os.reads_left = n;
            else os.writes_left = n;
            os.error = what % 2 ? -EIO : -ENOSPC;
            unlink(files_path("y.npy"));
            done = walk_on(&os.table, &set, &err) == PLIM_OK;
            if (!done) {
                assert_int_equal(err.code, what % 2 ? PLIM_E_IO : PLIM_E_NOSPACE);
                assert_true(err.message[0] != 0);
                assert_int_not_equal(access(files_path("y.npy"), F_OK), 0);
            }
            assert_int_equal(leftovers(), 0);
            assert_true(n < 1000);
        }
    }
}

static int64_t allocations_left;

static void *failing_alloc(void *ctx, void *old, size_t size)
{
    (void)ctx;
    if (size == 0) {
        free(old);
        return NULL;
    }
    return allocations_left-- > 0 ? realloc(old, size) : NULL;
}

static void survives_failing_allocations(void **state)
{
    (void)state;
    plim_settings set = plim_settings_default();
    set.alloc = failing_alloc;
    write_picture("x.npy", ROWS, COLS, false, false);
    bool done = false;
    for (int64_t n = 0; !done; n++) {
        plim_error err = {0};
        allocations_left = n;
        done = walk_on(&plim__os_linux, &set, &err) == PLIM_OK;
        if (!done) assert_int_equal(err.code, PLIM_E_NOMEM);
        assert_int_equal(leftovers(), 0);
        assert_true(n < 2000); /* planning takes most of them */
    }
}

static void refuses_and_notices(void **state)
{
    (void)state;
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    write_picture("x.npy", ROWS, COLS, false, false);
    const plim_shape flat = {.rank = 1, .dim = {3}}, negative = pair(-1, 2), tile = pair(30, 83);
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), NULL, PLIM_F32, &flat, NULL, NULL, &err), PLIM_E_SHAPE);
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), NULL, PLIM_F32, NULL, &negative, NULL, &err), PLIM_E_SHAPE);
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("gone.npy"), NULL, PLIM_F32, NULL, NULL, NULL, &err), PLIM_E_IO);
    err = (plim_error){0};
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), files_path("no/such/folder/y.npy"), PLIM_F32, NULL, NULL, NULL, &err), PLIM_E_IO);
    err = (plim_error){0};

    /* the input is written to during the walk */
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), files_path("y2.npy"), PLIM_F32, &tile, NULL, NULL, &err), PLIM_OK);
    while (plim_tiles_next(t, &now, &err) == PLIM_OK && now.in) {
    }
    FILE *f = fopen(files_path("x.npy"), "ab");
    fputc('x', f);
    fclose(f);
    assert_int_equal(plim_tiles_finish(&t, &err), PLIM_E_CHANGED);
    assert_int_not_equal(access(files_path("y2.npy"), F_OK), 0);
}

/* Output over its own input; and a compressed input. */
static void reads_where_it_may(void **state)
{
    (void)state;
    plim_error err = {0};
    plim_tiles *t;
    plim_tile now;
    write_picture("x.npy", ROWS, COLS, false, false);
    assert_int_equal(plim_tiles_new(&t, files_path("x.npy"), files_path("x.npy"), PLIM_F32, NULL, NULL, NULL, &err), PLIM_OK);
    while (plim_tiles_next(t, &now, &err) == PLIM_OK && now.in)
        for (int64_t i = 0; i < now.core.dim[0] * COLS; i++) ((float *)now.out)[i] = ((const float *)now.in)[i];
    assert_int_equal(plim_tiles_finish(&t, &err), PLIM_OK);
    plim_settings set = plim_settings_default();
    walk_box("x.npy", pair(0, 0), pair(1, 1), &set);

    if (!files_have_numpy()) skip();
    assert_true(files_python("import numpy as np\nx = np.load('x.npy')\n"
                             "np.savez_compressed('x.npz', x=x.astype('>f4'))\nnp.savez('s.npz', x=x)\n"));
    assert_int_equal(plim_tiles_new(&t, files_path("x.npz:x"), NULL, PLIM_F32, NULL, NULL, NULL, &err), PLIM_E_UNSUPPORTED);
    assert_non_null(strstr(err.message, "compressed"));
    set.spill_dir = files_dir;
    walk_box("x.npz:x", pair(0, 0), pair(1, 1), &set);
    walk_box("s.npz:x", pair(9, 9), pair(1, 1), &set);
    assert_int_equal(leftovers(), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(box_equals_whole),
        cmocka_unit_test(keeps_small_budgets),
        cmocka_unit_test(walks_odd_shapes),
        cmocka_unit_test(cuts_many_dimensions),
        cmocka_unit_test(abandoned_walks_leave_nothing),
        cmocka_unit_test(stops_when_asked),
        cmocka_unit_test(survives_failing_calls),
        cmocka_unit_test(survives_failing_allocations),
        cmocka_unit_test(refuses_and_notices),
        cmocka_unit_test(reads_where_it_may),
    };
    return cmocka_run_group_tests(tests, files_begin, files_end);
}
