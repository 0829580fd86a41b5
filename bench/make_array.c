/* Makes a big .npy with reproducible contents, as fast as the disk takes it.
 *
 *     make_array OUT SHAPE DTYPE [SEED]         make_array x.npy 3075200x512 f32
 *
 * Element i is a hash of i and the seed: floats uniform in [-1, 4), so no mean is zero, i32 any value, u8 0 to 255. The same
 * arguments give the same bytes everywhere. The header has 4096 bytes, so the data is page-aligned. Two threads with a block of 4 MiB
 * each hash and write by turns; the file gets its name when it is complete. */
#include "plain.h"

typedef struct job {
    int fd;
    int64_t count;
    uint32_t seed;
    int width;
    void (*fill)(void *to, int64_t first, int64_t n, uint32_t seed);
    _Atomic int64_t next; /* block */
} job;

/* Two rounds of multiply and shift: enough that neighbours have nothing in common, and it vectorises. */
static inline uint32_t hash(int64_t i, uint32_t seed)
{
    uint32_t h = (uint32_t)i * 0x9e3779b1u + (uint32_t)((uint64_t)i >> 32) * 0x85ebca77u + seed;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return h ^ h >> 15;
}

static void fill_f32(void *to, int64_t first, int64_t n, uint32_t seed)
{
    float *p = to;
    for (int64_t k = 0; k < n; k++) p[k] = (float)(int32_t)(hash(first + k, seed) >> 8) * (5.0f / (1 << 24)) - 1.0f;
}

static void fill_f64(void *to, int64_t first, int64_t n, uint32_t seed)
{
    double *p = to;
    for (int64_t k = 0; k < n; k++) p[k] = (double)(int32_t)(hash(first + k, seed) >> 1) * (5.0 / 2147483648.0) - 1.0;
}

static void fill_i32(void *to, int64_t first, int64_t n, uint32_t seed)
{
    uint32_t *p = to;
    for (int64_t k = 0; k < n; k++) p[k] = hash(first + k, seed);
}

static void fill_u8(void *to, int64_t first, int64_t n, uint32_t seed)
{
    uint8_t *p = to;
    for (int64_t k = 0; k < n; k++) p[k] = (uint8_t)(hash(first + k, seed) >> 24);
}

static const struct {
    const char *name, *descr;
    int width;
    void (*fill)(void *, int64_t, int64_t, uint32_t);
} dtypes[] = {{"f32", "<f4", 4, fill_f32}, {"f64", "<f8", 8, fill_f64}, {"i32", "<i4", 4, fill_i32}, {"u8", "|u1", 1, fill_u8}};

static void *work(void *arg)
{
    job *j = arg;
    char *buf = buffer_new(BLOCK);
    const int64_t per_block = BLOCK / j->width, blocks = (j->count + per_block - 1) / per_block;
    for (int64_t b; (b = atomic_fetch_add(&j->next, 1)) < blocks;) {
        const int64_t first = b * per_block, n = j->count - first < per_block ? j->count - first : per_block;
        j->fill(buf, first, n, j->seed);
        write_at(j->fd, buf, round_up(n * j->width, PAGE), HEADER + first * j->width);
    }
    munmap(buf, BLOCK);
    return NULL;
}

static int parse_shape(const char *text, int64_t dim[MAX_DIMS], int64_t *count)
{
    int rank = 0;
    *count = 1;
    for (char *p = (char *)text;; p++) {
        if (rank == MAX_DIMS) die("%s has more than %d dimensions", text, MAX_DIMS);
        char *end;
        dim[rank] = strtoll(p, &end, 10);
        if (end == p || dim[rank] < 0 || __builtin_mul_overflow(*count, dim[rank], count) || *count > INT64_MAX / 16) die("bad shape %s", text);
        rank++;
        p = end;
        if (*p == 0) return rank;
        if (*p != 'x') die("bad shape %s: 3075200x512 is how one looks", text);
    }
}

int main(int argc, char **argv)
{
    if (argc < 4 || argc > 5) die("usage: make_array OUT SHAPE f32|f64|i32|u8 [SEED]");
    size_t t = 0;
    while (t < sizeof dtypes / sizeof *dtypes && strcmp(dtypes[t].name, argv[3])) t++;
    if (t == sizeof dtypes / sizeof *dtypes) die("unknown dtype %s", argv[3]);
    job j = {.width = dtypes[t].width, .fill = dtypes[t].fill, .seed = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 10) * 0x6c8e9cf5u : 0};
    int64_t dim[MAX_DIMS];
    const int rank = parse_shape(argv[2], dim, &j.count);
    char part[4096];
    if (snprintf(part, sizeof part, "%s.part", argv[1]) >= (int)sizeof part) die("%s: the path is too long", argv[1]);
    j.fd = output_new(part, dtypes[t].descr, dim, rank, j.count * j.width);
    run_threads(2, work, &j);
    output_end(j.fd, j.count * j.width);
    if (rename(part, argv[1])) die("%s: %s", argv[1], strerror(errno));
    return 0;
}
