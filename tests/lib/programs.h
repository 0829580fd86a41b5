/* For tests of whole programs: small generated .npy files, graphs over them by expression, and what a run left behind. */
#ifndef PLIM_TESTS_PROGRAMS_H
#define PLIM_TESTS_PROGRAMS_H

#include "expr/expr.h"
#include "files.h"
#include "formats/array_file.h"
#include "kernels/elementwise.h"

#include <ctype.h>
#include <dirent.h>
#include <math.h>

typedef struct program_input {
    const char *name;
    plim_dtype dtype;
    plim_shape shape;
    double lo, hi;      /* random numbers between them */
    bool fortran, swap; /* Fortran order; the other byte order */
    uint32_t nan_every; /* 0: none */
} program_input;

static inline const char *program_descr(plim_dtype t)
{
    static const char *const descr[PLIM_DTYPE_COUNT] = {
        [PLIM_BOOL] = "b1", [PLIM_U8] = "u1", [PLIM_U16] = "u2", [PLIM_U32] = "u4", [PLIM_U64] = "u8", [PLIM_I8] = "i1", [PLIM_I16] = "i2",
        [PLIM_I32] = "i4",  [PLIM_I64] = "i8", [PLIM_F16] = "f2", [PLIM_BF16] = "V2", [PLIM_F32] = "f4", [PLIM_F64] = "f8"};
    return descr[t];
}

/* Writes "<name>.npy" into the test's folder: a header as NumPy writes it, and the numbers. */
static inline void program_input_write(const program_input *in)
{
    const uint64_t bytes = plim_dtype_bytes(in->dtype);
    uint64_t count = 1, rng = in->dtype;
    char head[129], shape[64] = "", name[64];
    for (const char *c = in->name; *c; c++) rng = rng * 31 + (uint64_t)*c;
    for (uint32_t d = 0; d < in->shape.rank; d++) {
        count *= (uint64_t)in->shape.dim[d];
        snprintf(shape + strlen(shape), sizeof shape - strlen(shape), "%lld,", (long long)in->shape.dim[d]);
    }
    memcpy(head, "\x93NUMPY\x01\x00\x76\x00", 10);
    snprintf(head + 10, 118, "{'descr': '%s%s', 'fortran_order': %s, 'shape': (%s), }", bytes == 1 ? "|" : in->swap ? ">" : "<",
             program_descr(in->dtype), in->fortran ? "True" : "False", shape);
    for (size_t c = 10 + strlen(head + 10); c < 127; c++) head[c] = ' ';
    head[127] = '\n';
    uint8_t *file = malloc(128 + count * bytes);
    if (!file) abort();
    memcpy(file, head, 128);
    for (uint64_t i = 0; i < count; i++) {
        double x = in->lo + (in->hi - in->lo) * (double)(files_random(&rng) >> 11) * 0x1p-53;
        if (in->nan_every && i % in->nan_every == 0) x = NAN;
        plim__convert(file + 128 + i * bytes, in->dtype, &x, PLIM_F64, 1);
    }
    if (in->swap) plim__swap_bytes(file + 128, count, bytes);
    snprintf(name, sizeof name, "%s.npy", in->name);
    files_write(name, file, 128 + count * bytes);
    free(file);
}

/* Does the text use the name? */
static inline bool program_uses(const char *text, const char *name)
{
    const size_t n = strlen(name);
    for (const char *at = text; (at = strstr(at, name)); at += n) {
        const bool before = at > text && (isalnum((unsigned char)at[-1]) || at[-1] == '_');
        const bool after = isalnum((unsigned char)at[n]) || at[n] == '_' || (at[n] == '=' && at[n + 1] != '=');
        if (!before && !after) return true;
    }
    return false;
}

/* Adds to `g` the inputs that the text uses, and the text; its last value becomes the output, at `path` (NULL: in memory). */
static inline plim_status program_fill(plim_graph *g, const char *text, const program_input *input, size_t n_inputs, const char *path,
                                       const plim__os *os, plim_error *err)
{
    plim__expr_input in[32];
    plim__expr_result res[32];
    uint32_t n_in = 0, n_res = 0;
    for (size_t i = 0; i < n_inputs; i++) {
        char name[64], buf[256];
        plim__array_file f;
        if (!program_uses(text, input[i].name)) continue;
        snprintf(name, sizeof name, "%s.npy", input[i].name);
        PLIM_TRY(plim__array_open(&f, os, files_path(name), NULL, buf, sizeof buf, err));
        in[n_in].name = input[i].name;
        PLIM_TRY(plim__graph_file(g, input[i].name, f.dtype, &f.shape, &f.source, &in[n_in].value, err));
        n_in++;
    }
    PLIM_TRY(plim__expr_build(g, text, in, n_in, res, 32, &n_res, err));
    return plim__graph_output(g, res[n_res - 1].value, "out", path, err);
}

/* Names in the test's folder that begin with a dot or end in "plimsoll-tmp": what a run must not leave. */
static inline uint32_t program_leftovers(void)
{
    uint32_t n = 0;
    DIR *dir = opendir(files_dir);
    if (!dir) abort();
    for (const struct dirent *e; (e = readdir(dir));)
        n += (e->d_name[0] == '.' && strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0) || strstr(e->d_name, "plimsoll-tmp");
    closedir(dir);
    return n;
}

#endif
