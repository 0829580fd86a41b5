/* What a line of NumPy asks for. The expected sizes are written out as products of the shapes below. */
#include "unit.h"

#include "watch/line_needs.h"

#include <stdbool.h>
#include <string.h>

/* a f64[1000,800], b f64[1000,800], c f32[1000,800], v f64[800], k i64[5000], n 2000, shape (300, 400), path a file of 4 MB */
static plim__line_value array(char type, uint32_t each, uint64_t rows, uint64_t columns)
{
    plim__line_value v = {.kind = PLIM__LINE_ARRAY, .type = type, .each = each, .ndim = columns ? 2 : 1, .dim = {rows, columns}, .c_order = true, .one_piece = true};
    return v;
}

static bool value(void *ctx, const char *name, plim__line_value *out, plim__line_value items[PLIM__LINE_DIMS])
{
    (void)ctx;
    if (!strcmp(name, "a") || !strcmp(name, "b")) *out = array('f', 8, 1000, 800);
    else if (!strcmp(name, "c")) *out = array('f', 4, 1000, 800);
    else if (!strcmp(name, "v")) *out = array('f', 8, 800, 0);
    else if (!strcmp(name, "k")) *out = array('i', 8, 5000, 0);
    else if (!strcmp(name, "n")) *out = (plim__line_value){.kind = PLIM__LINE_INT, .integer = 2000};
    else if (!strcmp(name, "path")) *out = (plim__line_value){.kind = PLIM__LINE_TEXT_OF, .text = "some/file", .count = 9};
    else if (!strcmp(name, "obj")) *out = (plim__line_value){.kind = PLIM__LINE_OBJECT, .text = "Model"};
    else if (!strcmp(name, "parts")) {
        *out = (plim__line_value){.kind = PLIM__LINE_LIST, .count = 7, .alike = true};
        items[0] = array('f', 8, 1000, 800);
    } else if (!strcmp(name, "shape")) {
        *out = (plim__line_value){.kind = PLIM__LINE_LIST, .count = 2};
        items[0] = (plim__line_value){.kind = PLIM__LINE_INT, .integer = 300};
        items[1] = (plim__line_value){.kind = PLIM__LINE_INT, .integer = 400};
    } else {
        return false;
    }
    return true;
}

static bool file_bytes(void *ctx, const char *path, uint64_t *out)
{
    (void)ctx;
    *out = 4000000;
    return !strcmp(path, "some/file");
}

static const plim__line_names names = {.value = value, .file_bytes = file_bytes};

enum { A = 1000 * 800 * 8, N = 2000 };

static void the_most(void **state)
{
    (void)state;
    static const struct {
        const char *line;
        uint64_t asked, held, most;
    } cases[] = {
        {"x = a + b", A, 0, A},
        {"x = a + b * c", A, 0, A},                             /* the product's place is used again */
        {"x = a - b * c", A, 0, 2 * A},                         /* but not for what is taken from something */
        {"x = (a + b) - c", A, 0, A},
        {"x = c + a", A, 0, A},
        {"x = c * 2.5", A / 2, 0, A / 2},
        {"return np.exp(-a)", A, 0, 2 * A},
        {"x = (v[:, None] - v) ** 2", 800 * 800 * 8, 0, 800 * 800 * 8},
        {"x = np.sqrt(((a[:, None, :] - b[None, :, :]) ** 2).sum(axis=2))", 1000ull * A, 0, 1000ull * A + 8000000},
        {"x = (k[:, None] == np.arange(n)).astype(np.float32)", 5000 * N, 0, 5000 * N * 5},
        {"x = np.eye(n)[k]", N * N * 8, 0, N * N * 8 + 5000 * N * 8},
        {"x = np.eye(n)[k]", 5000 * N * 8, N * N * 8, 5000 * N * 8},
        {"x = np.random.rand(n, n).astype(np.float32)", N * N * 8, 0, N * N * 12},
        {"a += b * 2", A, 0, A},
        {"x = np.zeros(shape, dtype='f4')", 300 * 400 * 4, 0, 300 * 400 * 4},
        {"x = np.concatenate(parts)", 7 * A, 0, 7 * A},
        {"x = np.concatenate(parts + parts, axis=1)", 14 * A, 0, 14 * A},
        {"x = np.stack([a, b, a + b])", A, 0, 4 * A},
        {"x = np.sort(np.repeat(v, n))", 800 * N * 8, 0, 2 * 800 * N * 8},
        {"x = np.stack([a, b, a] * 3)", 9 * A, 0, 9 * A},
        {"x = (a - a.mean(axis=0)) / a.std(axis=0)", A, 0, 2 * A + 3 * 800 * 8},
        {"x = (a - a.mean(axis=0)) / a.std(axis=0)", A, A, A + 2 * 800 * 8},
        {"x = np.tile(a, (3, 2))", 3 * A, 0, 9 * A},
        {"x, y = np.meshgrid(v, v)", 800 * 800 * 8, 0, 2 * 800 * 800 * 8},
        {"x = np.where(a > 0, c, 0.0)", 800000, 0, 800000 + A / 2},
        {"x = a @ b.T", 1000 * 1000 * 8, 0, 1000 * 1000 * 8},
        {"x = np.fft.fft(k.astype(float))", 80000 * 4, 0, 0}, /* too small to be seen */
        {"x = np.linalg.norm(a - b, axis=-1)", A, 0, 2 * A},
        {"x = a[::2, 10:].copy()", 500 * 790 * 8, 0, 500 * 790 * 8},
        {"x = np.fromfile(path, dtype=np.uint8)", 4000000, 0, 4000000},
        {"data = open(path, 'rb').read()", 4000034, 0, 4000034},
        {"x = bytearray(n * 1000)", 2000001, 0, 2000001},
        {"print((a + b).sum())", A, 0, A},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        plim__line_needs needs;
        uint64_t most = 0;
        const bool known = plim__line_needs_find(&needs, cases[i].line, cases[i].asked, cases[i].held, &names);
        for (uint32_t k = 0; known && k < needs.n; k++)
            if (needs.request[k].more > most) most = needs.request[k].more;
        /* results below 256 KiB are live, but no requests of their own */
        if (most > cases[i].most || cases[i].most - most > 3 * 800 * 8 + 8000000 * (i == 8))
            fail_msg("%s: %llu, expected %llu", cases[i].line, (unsigned long long)most, (unsigned long long)cases[i].most);
    }
}

static void what_is_not_known(void **state)
{
    (void)state;
    static const char *const lines[] = {
        "x = f(a + b)", "x = a + b; y = 1", "for x in a + b:", "x = [a + b for i in k]", "x = obj.run(a + b)", "x = np.pad(a + b, 1)", "x = (a + b", "x = a[a > 0] + b",
        "x = np.sum(a + b, where=c)", "x = a + b  # twice", "x = (a @ b.T) + (a @ b.T)", "", "=", "x = a + unheard_of", "x = a + b if n else c", "x = {'a': a + b}",
        "x = lambda: a + b", "x = np.add(a, b, out=c)", "x = a.unheard_of() + b", "x = np", "x = a +", "x = ((((((((((a + b)", "x = 'text", "x = a[1:2:0]",
    };
    for (size_t i = 0; i < COUNT_OF(lines); i++) {
        plim__line_needs needs;
        if (plim__line_needs_find(&needs, lines[i], A, 0, &names)) fail_msg("%s", lines[i]);
    }
    plim__line_needs needs;
    assert_false(plim__line_needs_find(&needs, "x = a + b", A + 4096, 0, &names)); /* another request than any of the line's */
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(the_most), cmocka_unit_test(what_is_not_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
