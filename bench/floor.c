/* The plainest C loop that does the same I/O and arithmetic as `plimsoll eval`, for one case at a time: what a competent programmer
 * writes in an afternoon who knows the shapes and has one case to solve. No planner, no checks, no other dtypes.
 *
 *     floor f16|box|transpose IN OUT          floor mean|mean0|std0 IN [OUT]
 *     floor matmul IN W OUT                   floor lastcopy IN OUT%d.npy
 *
 * IN is f32 with a header of 4096 bytes (make_array writes such files); rows are what its first dimensions make, columns its last one.
 *
 * How: CPUs + 2 threads, each of which reads a block of about 4 MiB by direct I/O, computes and writes it, so that disk and CPUs are both
 * busy without any queue. Outputs are allocated at the start, written directly, and synced at the end.
 * Memory: per thread one block in and one out, 6 to 9 MiB; box 11 MiB. matmul: also W and BLIS's packing buffers, about 5 MiB.
 * transpose: three threads with 4 MiB in and a tile of 160 MiB out, about 500 MiB in all: longer runs are faster, and 1 GiB is there.
 * Sums: in f64, per thread; std0 by deviations from the first row, so that no large numbers cancel. */
#include "plain.h"

#include <blis.h>
#include <immintrin.h>
#include <math.h>
#include <sys/uio.h>

#ifndef RWF_DONTCACHE
#define RWF_DONTCACHE 0x80
#endif

enum { BATCH = 128, TILE = 160 << 20, TILE_THREADS = 3 };

typedef struct job {
    array in;
    int out[64];
    int64_t rows, cols, row_bytes;
    int64_t per_block; /* rows of a block; a block starts at a page */
    _Atomic int64_t next;
    float *w; /* (cols, n) */
    int64_t n;
    float *first;      /* (cols) */
    double *sum, *sq; /* (cols), under the lock */
    pthread_mutex_t lock;
} job;

typedef struct block {
    int64_t row, rows; /* rows is 0 after the last one */
} block;

static block next_block(job *j)
{
    const int64_t row = atomic_fetch_add(&j->next, 1) * j->per_block;
    if (row >= j->rows) return (block){0};
    return (block){row, j->rows - row < j->per_block ? j->rows - row : j->per_block};
}

static void read_rows(const job *j, float *to, block b)
{
    const int64_t bytes = b.rows * j->row_bytes;
    if (read_at(j->in.fd, to, round_up(bytes, PAGE), HEADER + b.row * j->row_bytes) < bytes) die("the input is shorter than its header says");
}

/* Rows of `width` bytes. Every block but the last is whole pages. */
static void write_rows(int fd, const void *from, block b, int64_t width)
{
    write_at(fd, from, round_up(b.rows * width, PAGE), HEADER + b.row * width);
}

static float *block_buffer(int64_t bytes)
{
    return buffer_new((size_t)round_up(bytes, PAGE));
}

/* ------------------------------------------------------------------------------------------ elementwise */

static void *work_f16(void *arg)
{
    job *j = arg;
    float *in = block_buffer(j->per_block * j->row_bytes);
    uint16_t *out = (uint16_t *)block_buffer(j->per_block * j->row_bytes / 2);
    for (block b; (b = next_block(j)).rows;) {
        read_rows(j, in, b);
        const int64_t n = b.rows * j->cols;
        for (int64_t i = 0; i < n; i += 8) /* buffers are whole pages: the last step may overshoot */
            _mm_store_si128((__m128i *)(out + i), _mm256_cvtps_ph(_mm256_load_ps(in + i), _MM_FROUND_TO_NEAREST_INT));
        write_rows(j->out[0], out, b, j->row_bytes / 2);
    }
    return NULL;
}

/* ------------------------------------------------------------------------------------------- reductions */

static void add_up(job *j, const double *sum, const double *sq, int64_t n)
{
    pthread_mutex_lock(&j->lock);
    for (int64_t c = 0; c < n; c++) j->sum[c] += sum[c];
    for (int64_t c = 0; sq && c < n; c++) j->sq[c] += sq[c];
    pthread_mutex_unlock(&j->lock);
}

static void *work_mean(void *arg)
{
    job *j = arg;
    float *in = block_buffer(j->per_block * j->row_bytes);
    double lane[32] = {0}, total = 0;
    for (block b; (b = next_block(j)).rows;) {
        read_rows(j, in, b);
        const int64_t n = b.rows * j->cols, whole = n / 32 * 32;
        for (int64_t i = 0; i < whole; i += 32)
            for (int k = 0; k < 32; k++) lane[k] += (double)in[i + k];
        for (int64_t i = whole; i < n; i++) total += (double)in[i];
    }
    for (int k = 0; k < 32; k++) total += lane[k];
    add_up(j, &total, NULL, 1);
    return NULL;
}

static void *work_mean0(void *arg)
{
    job *j = arg;
    float *in = block_buffer(j->per_block * j->row_bytes);
    double *restrict sum = calloc((size_t)j->cols, sizeof *sum);
    for (block b; (b = next_block(j)).rows;) {
        read_rows(j, in, b);
        const int64_t cols = j->cols;
        int64_t r = 0;
        for (; r + 4 <= b.rows; r += 4) {
            const float *restrict p = in + r * cols, *restrict q = p + cols, *restrict s = q + cols, *restrict t = s + cols;
            for (int64_t c = 0; c < cols; c++) sum[c] += ((double)p[c] + (double)q[c]) + ((double)s[c] + (double)t[c]);
        }
        for (; r < b.rows; r++)
            for (int64_t c = 0; c < cols; c++) sum[c] += (double)in[r * cols + c];
    }
    add_up(j, sum, NULL, j->cols);
    return NULL;
}

static void *work_std0(void *arg)
{
    job *j = arg;
    float *in = block_buffer(j->per_block * j->row_bytes);
    double *restrict sum = calloc((size_t)j->cols, sizeof *sum), *restrict sq = calloc((size_t)j->cols, sizeof *sq);
    const float *restrict first = j->first;
    for (block b; (b = next_block(j)).rows;) {
        read_rows(j, in, b);
        const int64_t cols = j->cols;
        int64_t r = 0;
        for (; r + 2 <= b.rows; r += 2) {
            const float *restrict p = in + r * cols, *restrict q = p + cols;
            for (int64_t c = 0; c < cols; c++) {
                const double d = (double)(p[c] - first[c]), e = (double)(q[c] - first[c]);
                sum[c] += d + e;
                sq[c] += d * d + e * e;
            }
        }
        for (; r < b.rows; r++)
            for (int64_t c = 0; c < cols; c++) {
                const double d = (double)(in[r * cols + c] - first[c]);
                sum[c] += d;
                sq[c] += d * d;
            }
    }
    add_up(j, sum, sq, j->cols);
    return NULL;
}

static void reduce(job *j, const char *what, const char *out)
{
    const int64_t n = strcmp(what, "mean") ? j->cols : 1;
    j->sum = calloc((size_t)n, sizeof *j->sum);
    j->sq = calloc((size_t)n, sizeof *j->sq);
    j->first = block_buffer(round_up(j->row_bytes, PAGE));
    read_at(j->in.fd, j->first, round_up(j->row_bytes, PAGE), HEADER);
    run_threads(cpu_count() + 2, n == 1 ? work_mean : strcmp(what, "std0") ? work_mean0 : work_std0, j);
    float *result = block_buffer(n * 4);
    for (int64_t c = 0; c < n; c++) {
        const double count = (double)(n == 1 ? j->in.count : j->rows), mean = j->sum[c] / count;
        result[c] = (float)(strcmp(what, "std0") ? mean : sqrt(j->sq[c] / count - mean * mean));
    }
    if (out) {
        const int fd = output_new(out, "<f4", &n, n == 1 ? 0 : 1, n * 4);
        write_at(fd, result, round_up(n * 4, PAGE), HEADER);
        output_end(fd, n * 4);
    } else {
        printf("%.9g\n", (double)result[0]);
    }
}

/* ------------------------------------------------------------------------------------------ 3 by 3 box */

static void sum_across(float *restrict out, const float *restrict in, int64_t cols)
{
    out[0] = in[0] + in[0] + in[1];
    for (int64_t c = 1; c + 1 < cols; c++) out[c] = in[c - 1] + in[c] + in[c + 1];
    out[cols - 1] = in[cols - 2] + in[cols - 1] + in[cols - 1];
}

/* A block is read with enough rows of its neighbours that it starts at a page; at the array's ends the edge row stands for the missing one. */
static void *work_box(void *arg)
{
    job *j = arg;
    int64_t halo = 1;
    while (halo * j->row_bytes % PAGE) halo++;
    float *in = block_buffer((j->per_block + 2 * halo) * j->row_bytes + PAGE), *out = block_buffer(j->per_block * j->row_bytes);
    float *across = malloc((size_t)(3 * j->row_bytes));
    for (block b; (b = next_block(j)).rows;) {
        const int64_t lo = b.row >= halo ? b.row - halo : 0, hi = b.row + b.rows + halo < j->rows ? b.row + b.rows + halo : j->rows;
        read_rows(j, in, (block){lo, hi - lo});
        for (int64_t r = b.row - 1; r <= b.row + b.rows; r++) {
            const int64_t at = r < 0 ? 0 : r >= j->rows ? j->rows - 1 : r;
            sum_across(across + (r + 3) % 3 * j->cols, in + (at - lo) * j->cols, j->cols);
            if (r <= b.row) continue;
            float *restrict o = out + (r - 1 - b.row) * j->cols;
            const float *restrict p = across, *restrict q = p + j->cols, *restrict s = q + j->cols;
            for (int64_t c = 0; c < j->cols; c++) o[c] = (p[c] + q[c] + s[c]) * (1.0f / 9.0f);
        }
        write_rows(j->out[0], out, b, j->row_bytes);
    }
    return NULL;
}

/* -------------------------------------------------------------------------------------------- transpose */

/* 8x8 floats in registers: in has rows `step` apart, out has rows `run` apart. */
static inline void transpose8(float *out, int64_t run, const float *in, int64_t step)
{
    __m256 r[8], t[8];
    for (int k = 0; k < 8; k++) r[k] = _mm256_loadu_ps(in + k * step);
    for (int k = 0; k < 8; k += 2) {
        t[k] = _mm256_unpacklo_ps(r[k], r[k + 1]);
        t[k + 1] = _mm256_unpackhi_ps(r[k], r[k + 1]);
    }
    for (int k = 0; k < 8; k += 4)
        for (int h = 0; h < 2; h++) {
            r[k + 2 * h] = _mm256_shuffle_ps(t[k + h], t[k + h + 2], 0x44);
            r[k + 2 * h + 1] = _mm256_shuffle_ps(t[k + h], t[k + h + 2], 0xee);
        }
    for (int k = 0; k < 4; k++) {
        _mm256_storeu_ps(out + k * run, _mm256_permute2f128_ps(r[k], r[k + 4], 0x20));
        _mm256_storeu_ps(out + (k + 4) * run, _mm256_permute2f128_ps(r[k], r[k + 4], 0x31));
    }
}

static void transpose_block(float *out, int64_t run, const float *in, int64_t rows, int64_t cols)
{
    enum { AT_ONCE = 64 }; /* rows that stay in the cache while all columns are taken from them */
    for (int64_t r0 = 0; r0 < rows; r0 += AT_ONCE) {
        const int64_t r1 = r0 + AT_ONCE < rows ? r0 + AT_ONCE : rows;
        for (int64_t c = 0; c < cols; c += 8)
            for (int64_t r = r0; r < r1; r += 8)
                if (r + 8 <= r1 && c + 8 <= cols)
                    transpose8(out + c * run + r, run, in + r * cols + c, cols);
                else
                    for (int64_t k = c; k < cols && k < c + 8; k++)
                        for (int64_t i = r; i < r1 && i < r + 8; i++) out[k * run + i] = in[i * cols + k];
    }
}

/* Runs start anywhere, so they go through the page cache, which is told to keep nothing where the kernel takes that advice (Linux 6.14). */
static void write_run(int fd, const float *from, int64_t bytes, int64_t offset)
{
    static _Atomic int flags = RWF_DONTCACHE;
    for (int64_t done = 0; done < bytes;) {
        const struct iovec v = {(char *)from + done, (size_t)(bytes - done)};
        const ssize_t n = pwritev2(fd, &v, 1, offset + done, flags);
        if (n < 0 && errno == EOPNOTSUPP && flags) flags = 0;
        else if (n <= 0) die("writing at byte %lld: %s", (long long)(offset + done), strerror(errno));
        else done += n;
    }
}

static void *work_transpose(void *arg)
{
    job *j = arg;
    const int64_t step = BLOCK / j->row_bytes / 8 * 8, run = j->per_block + 16; /* 16: columns do not share cache sets */
    float *in = block_buffer(step * j->row_bytes), *tile = block_buffer(run * j->row_bytes);
    for (block b; (b = next_block(j)).rows;) {
        for (int64_t r = 0; r < b.rows; r += step) {
            const int64_t n = b.rows - r < step ? b.rows - r : step;
            read_rows(j, in, (block){b.row + r, n});
            transpose_block(tile + r, run, in, n, j->cols);
        }
        for (int64_t c = 0; c < j->cols; c++) write_run(j->out[0], tile + c * run, b.rows * 4, HEADER + (c * j->rows + b.row) * 4);
    }
    return NULL;
}

static void transpose(job *j, const char *out)
{
    const int64_t dim[2] = {j->cols, j->rows};
    j->per_block = TILE / j->row_bytes / 1024 * 1024;
    close(output_new(out, "<f4", dim, 2, j->in.count * 4));
    j->out[0] = open(out, O_RDWR);
    if (j->out[0] < 0) die("%s: %s", out, strerror(errno));
    run_threads(TILE_THREADS, work_transpose, j);
    output_end(j->out[0], j->in.count * 4);
}

/* ----------------------------------------------------------------------------------------------- matmul */

static void *work_matmul(void *arg)
{
    job *j = arg;
    float *in = block_buffer(j->per_block * j->row_bytes), *out = block_buffer(j->per_block * j->n * 4), one = 1, zero = 0;
    rntm_t alone;
    bli_rntm_init_from_global(&alone);
    bli_rntm_set_num_threads(1, &alone);
    for (block b; (b = next_block(j)).rows;) {
        read_rows(j, in, b);
        bli_sgemm_ex(BLIS_NO_TRANSPOSE, BLIS_NO_TRANSPOSE, b.rows, j->n, j->cols, &one, in, j->cols, 1, j->w, j->n, 1, &zero, out, j->n, 1, NULL,
                     &alone);
        write_rows(j->out[0], out, b, j->n * 4);
    }
    return NULL;
}

static void matmul(job *j, const char *weights, const char *out)
{
    array w = array_open(weights);
    if (w.rank != 2 || w.dim[0] != j->cols) die("%s does not fit the input", weights);
    const int64_t bytes = w.count * 4, dim[2] = {j->rows, w.dim[1]};
    j->n = w.dim[1];
    j->w = block_buffer(bytes);
    read_at(w.fd, j->w, round_up(bytes, PAGE), HEADER);
    j->out[0] = output_new(out, "<f4", dim, 2, j->rows * j->n * 4);
    run_threads(cpu_count() + 2, work_matmul, j);
    output_end(j->out[0], j->rows * j->n * 4);
}

/* ----------------------------------------------------------------------------- batches along the last axis */

static void *work_lastcopy(void *arg)
{
    job *j = arg;
    float *in = block_buffer(j->per_block * j->row_bytes), *out = block_buffer(j->per_block * BATCH * 4);
    for (block b; (b = next_block(j)).rows;) {
        read_rows(j, in, b);
        for (int64_t c = 0, k = 0; c < j->cols; c += BATCH, k++) {
            const int64_t width = j->cols - c < BATCH ? j->cols - c : BATCH;
            for (int64_t r = 0; r < b.rows; r++) memcpy(out + r * width, in + r * j->cols + c, (size_t)width * 4);
            write_rows(j->out[k], out, b, width * 4);
        }
    }
    return NULL;
}

static void lastcopy(job *j, const char *pattern)
{
    const int64_t batches = (j->cols + BATCH - 1) / BATCH;
    const char *mark = strstr(pattern, "%d");
    if (!mark || batches > 64) die("lastcopy writes up to 64 files, named by a pattern with %%d");
    int64_t dim[MAX_DIMS];
    memcpy(dim, j->in.dim, sizeof dim);
    for (int64_t k = 0; k < batches; k++) {
        char path[4096];
        dim[j->in.rank - 1] = j->cols - k * BATCH < BATCH ? j->cols - k * BATCH : BATCH;
        snprintf(path, sizeof path, "%.*s%lld%s", (int)(mark - pattern), pattern, (long long)k, mark + 2);
        j->out[k] = output_new(path, "<f4", dim, j->in.rank, j->rows * dim[j->in.rank - 1] * 4);
    }
    run_threads(cpu_count() + 2, work_lastcopy, j);
    for (int64_t k = 0; k < batches; k++) output_end(j->out[k], j->rows * (j->cols - k * BATCH < BATCH ? j->cols - k * BATCH : BATCH) * 4);
}

/* ------------------------------------------------------------------------------------------------- main */

/* So many rows that a block is about 4 MiB, and whole pages of every output: 1024 rows are that for any width. */
static job job_new(const char *path)
{
    job j = {.in = array_open(path), .lock = PTHREAD_MUTEX_INITIALIZER};
    if (strcmp(j.in.descr, "<f4") || j.in.rank < 2) die("%s should be f32 with two dimensions or more", path);
    j.cols = j.in.dim[j.in.rank - 1];
    j.rows = j.in.count / j.cols;
    j.row_bytes = j.cols * 4;
    j.per_block = BLOCK / j.row_bytes / 1024 * 1024;
    if (j.per_block < 1024) j.per_block = 1024;
    return j;
}

static void rowwise(job *j, const char *out, const char *descr, int64_t row_bytes, void *(*work)(void *))
{
    j->out[0] = output_new(out, descr, j->in.dim, j->in.rank, j->rows * row_bytes);
    run_threads(cpu_count() + 2, work, j);
    output_end(j->out[0], j->rows * row_bytes);
}

int main(int argc, char **argv)
{
    const char *what = argc > 2 ? argv[1] : "";
    if (argc < 3) die("usage: floor f16|mean|mean0|std0|box|transpose|matmul|lastcopy IN ... (see the head of floor.c)");
    job j = job_new(argv[2]);
    if (!strcmp(what, "f16") && argc == 4) rowwise(&j, argv[3], "<f2", j.row_bytes / 2, work_f16);
    else if (!strcmp(what, "box") && argc == 4) rowwise(&j, argv[3], "<f4", j.row_bytes, work_box);
    else if (!strcmp(what, "transpose") && argc == 4) transpose(&j, argv[3]);
    else if (!strcmp(what, "matmul") && argc == 5) matmul(&j, argv[3], argv[4]);
    else if (!strcmp(what, "lastcopy") && argc == 4) lastcopy(&j, argv[3]);
    else if (!strcmp(what, "mean") || !strcmp(what, "mean0") || !strcmp(what, "std0")) reduce(&j, what, argc > 3 ? argv[3] : NULL);
    else die("floor: unknown case or wrong arguments: %s", what);
    return 0;
}
