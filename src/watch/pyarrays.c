/* See pyarrays.h.
 *
 *   PyArrayObject  data 16 | nd 24 | dimensions 32 | strides 40 | base 48 | descr 56
 *   PyArray_Descr  kind 24 | type number 28 | numpy 1: element size 32 (4 bytes), alignment 36;  numpy 2: flags 32 (8 bytes), element size 40
 *   THPVariable    pointer to a TensorImpl at 16 or 24, by version
 *   TensorImpl     ... storage, autograd_meta, extra_meta, version_counter, interpreter, PyObject, sizes and strides, storage_offset, numel, dtype ..
 *                  Only the length of what comes before differs between versions (counters of references), so all is counted from the word that
 *                  is the PyObject's own address (lowest bit: who owns whom)
 *   sizes          how many, then up to 5 sizes and 5 strides in place, else a pointer to them
 *   StorageImpl    vtable, counters of references (8 or 16 bytes, by version), data pointer ...: the word that lies in a recorded block. Not further:
 *                  padding holds remains of other pointers
 *   AutogradMeta   vtable | std::string of 32 bytes | grad (TensorImpl) 40 | grad_fn (shared_ptr<Node>) 48 | grad_accumulator (weak_ptr<Node>) 64
 *   Node           vtable; before its first entry the type_info, whose second word is the mangled name: "N5torch...12AddBackward0E" */
#include "watch/pyarrays.h"

#include "core/size.h"
#include "watch/peer.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIMS_MAX = 32, IMPL_WORDS = 28, STORAGE_WORDS = 4 };

enum { /* words of a TensorImpl, counted from the one that points back */
    BACK_STORAGE = 5, /* before it */
    BACK_AUTOGRAD = 4,
    TO_NDIM = 1, /* after it */
    TO_SIZES = 2,
    TO_NUMEL = 13,
    TO_DTYPE = 14,
    SIZES_INLINE = 5,
};

enum { META_GRAD = 5, META_GRAD_FN = 6, META_ACCUMULATOR = 8 }; /* words of AutogradMeta */

/* "float64" and shape -> "float64[1000,1000]", cut between dimensions where it is long. */
static void element_write(char *to, size_t size, const char *dtype, const uint64_t *dim, uint32_t nd)
{
    int at = snprintf(to, size, "%s[", dtype);
    for (uint32_t i = 0; i < nd && at + 26 < (int)size; i++)
        at += snprintf(to + at, size - (size_t)at, i ? ",%llu" : "%llu", (unsigned long long)dim[i]);
    snprintf(to + at, size - (size_t)at, "]");
}

static bool elements_bytes(uint64_t *out, const uint64_t *dim, uint32_t nd, uint64_t each)
{
    *out = each;
    for (uint32_t i = 0; i < nd; i++)
        if (!plim__mul(out, *out, dim[i])) return false;
    return true;
}

static void data_add(plim__pyarray *a, uint64_t data, const plim__block *block, uint32_t n)
{
    if (a->n_data < 2 && plim__block_at(block, n, data)) a->data[a->n_data++] = data;
}

/* ------------------------------------------------------------------------------------------------------ numpy */

static bool dtype_name(char *to, size_t size, char kind, uint64_t each)
{
    const unsigned bits = (unsigned)each * 8, n = (unsigned)each;
    switch (kind) {
    case 'b': snprintf(to, size, "bool"); return true;
    case 'i': snprintf(to, size, "int%u", bits); return true;
    case 'u': snprintf(to, size, "uint%u", bits); return true;
    case 'f': snprintf(to, size, "float%u", bits); return true;
    case 'c': snprintf(to, size, "complex%u", bits); return true;
    case 'm': snprintf(to, size, "timedelta64"); return true;
    case 'M': snprintf(to, size, "datetime64"); return true;
    case 'O': snprintf(to, size, "object"); return true;
    case 'S': snprintf(to, size, "S%u", n); return true;
    case 'U': snprintf(to, size, "U%u", n / 4); return true;
    case 'V': snprintf(to, size, "void%u", n); return true;
    default: return false;
    }
}

bool plim__pyarray_numpy(plim__pyarray *out, plim__pyreader *r, const plim__pyobject *o, const plim__block *block, uint32_t n_blocks)
{
    memset(out, 0, sizeof *out);
    unsigned char descr[48];
    uint64_t dim[DIMS_MAX];
    const uint32_t nd = (uint32_t)o->word[3];
    if (nd > DIMS_MAX || (nd && !plim__peer_read(r->pid, o->word[4], dim, nd * sizeof *dim))) return false;
    if (!plim__peer_read(r->pid, o->word[7], descr, sizeof descr)) return false;
    int32_t size32, alignment;
    uint64_t each;
    memcpy(&size32, descr + 32, 4);
    memcpy(&alignment, descr + 36, 4);
    memcpy(&each, descr + 40, 8);
    if (alignment) each = (uint64_t)size32; /* numpy 1: an alignment is never 0, the upper half of numpy 2's flags is */
    char dtype[32];
    if (each > UINT32_MAX / 8 || !dtype_name(dtype, sizeof dtype, (char)descr[24], each) || !elements_bytes(&out->bytes, dim, nd, each)) return false;
    element_write(out->element, sizeof out->element, dtype, dim, nd);
    data_add(out, o->word[2], block, n_blocks);
    if (!out->n_data) out->base = o->word[6];
    if (descr[24] == 'O' && each == 8 && nd == 1 && plim__peer_word(r->pid, o->word[5]) == each) out->objects = o->word[2];
    return true;
}

/* ------------------------------------------------------------------------------------------------------ torch */

typedef struct tensor_impl {
    uint64_t word[IMPL_WORDS];
} tensor_impl;

static bool impl_read(plim__pyreader *r, uint64_t address, tensor_impl *out)
{
    return address >= 4096 && address % 8 == 0 && plim__peer_read(r->pid, address, out->word, sizeof out->word);
}

/* The word of a TensorImpl that points back at its Python object; 0: none does. */
static uint32_t impl_back(const tensor_impl *t, uint64_t object)
{
    for (uint32_t i = BACK_STORAGE + 1; i + TO_DTYPE < IMPL_WORDS; i++)
        if ((t->word[i] & ~UINT64_C(7)) == object) return i;
    return 0;
}

static bool impl_find(plim__pyreader *r, plim__pytorch *torch, const plim__pyobject *o, tensor_impl *out)
{
    for (int i = 2; i <= 3; i++) {
        if (!impl_read(r, o->word[i], out)) continue;
        const uint32_t back = impl_back(out, o->address);
        if (!back || (torch->back && torch->back != back)) continue;
        torch->back = back;
        torch->vtable = out->word[0];
        return true;
    }
    return false;
}

static void storage_add(plim__pyarray *a, plim__pyreader *r, uint64_t storage, const plim__block *block, uint32_t n_blocks)
{
    uint64_t word[STORAGE_WORDS];
    if (storage < 4096 || storage % 8 || !plim__peer_read(r->pid, storage, word, sizeof word)) return;
    for (int i = 2; i < STORAGE_WORDS; i++) {
        const uint32_t before = a->n_data;
        data_add(a, word[i], block, n_blocks);
        if (a->n_data > before) return;
    }
}

/* By c10::ScalarType. */
static const struct {
    const char *name;
    uint32_t bytes;
} scalars[] = {{"uint8", 1}, {"int8", 1}, {"int16", 2}, {"int32", 4}, {"int64", 8}, {"float16", 2}, {"float32", 4}, {"float64", 8},
               {"complex32", 4}, {"complex64", 8}, {"complex128", 16}, {"bool", 1}, {"qint8", 1}, {"quint8", 1}, {"qint32", 4}, {"bfloat16", 2}};

/* The shape; and the dtype, where the number of elements is what the sizes say (then words lie where they should). */
static void tensor_describe(plim__pyarray *a, plim__pyreader *r, const tensor_impl *t, uint32_t back)
{
    uint64_t dim[DIMS_MAX], count;
    const uint64_t nd = t->word[back + TO_NDIM], *sizes = t->word + back + TO_SIZES;
    if (nd > DIMS_MAX) return;
    if (nd > SIZES_INLINE) {
        if (!plim__peer_read(r->pid, sizes[0], dim, nd * sizeof *dim)) return;
    } else
        memcpy(dim, sizes, nd * sizeof *dim);
    if (!elements_bytes(&count, dim, (uint32_t)nd, 1)) return;
    const uint32_t code = (uint32_t)(t->word[back + TO_DTYPE] & 0xffff);
    const bool known = t->word[back + TO_NUMEL] == count && code < sizeof scalars / sizeof *scalars;
    element_write(a->element, sizeof a->element, known ? scalars[code].name : "", dim, (uint32_t)nd);
    if (known && !plim__mul(&a->bytes, count, scalars[code].bytes)) a->bytes = 0;
}

/* The last name in "N5torch8autograd9generated12AddBackward0E"; template arguments end it. */
static bool last_name(const char *mangled, char *to, size_t size)
{
    const char *p = mangled + (*mangled == 'N');
    bool found = false;
    while (isdigit((unsigned char)*p)) {
        char *end;
        const unsigned long n = strtoul(p, &end, 10);
        if (!n || n > strlen(end)) return false;
        snprintf(to, size, "%.*s", (int)(n < size ? n : size - 1), end);
        p = end + n;
        found = true;
    }
    return found;
}

bool plim__pynode_name(plim__pyreader *r, uint64_t node, char *to, size_t size)
{
    char mangled[200];
    const uint64_t vtable = plim__peer_word(r->pid, node);
    if (vtable < 4096 || vtable % 8) return false;
    const uint64_t info = plim__peer_word(r->pid, vtable - 8);
    if (info < 4096 || info % 8) return false;
    return plim__peer_text(r->pid, plim__peer_word(r->pid, info + 8), mangled, sizeof mangled) && last_name(mangled, to, size);
}

static void autograd_read(plim__pyarray *a, plim__pyreader *r, const plim__pytorch *torch, uint64_t meta, const plim__block *block, uint32_t n_blocks)
{
    uint64_t word[7];
    tensor_impl grad;
    if (meta < 4096 || meta % 8 || !plim__peer_read(r->pid, meta, word, sizeof word)) return;
    if (word[META_GRAD] && impl_read(r, word[META_GRAD], &grad)) storage_add(a, r, grad.word[torch->back - BACK_STORAGE], block, n_blocks);
    const uint64_t node = word[META_GRAD_FN];
    if (node < 4096 || node % 8) return;
    if (plim__pynode_name(r, node, a->grad_fn, sizeof a->grad_fn))
        a->node = node;
    else
        a->grad_fn[0] = 0;
}

uint32_t plim__pytensor_data(plim__pyreader *r, const plim__pytorch *torch, uint64_t address, uint64_t accumulator, const plim__block *block,
                             uint32_t n_blocks, uint64_t *data)
{
    tensor_impl t;
    plim__pyarray a = {.n_data = 0};
    if (!impl_read(r, address, &t) || t.word[0] != torch->vtable) return 0;
    const uint64_t meta = t.word[torch->back - BACK_AUTOGRAD];
    if (accumulator && (meta < 4096 || plim__peer_word(r->pid, meta + META_ACCUMULATOR * 8) != accumulator)) return 0;
    storage_add(&a, r, t.word[torch->back - BACK_STORAGE], block, n_blocks);
    *data = a.data[0];
    return a.n_data;
}

bool plim__pyarray_torch(plim__pyarray *out, plim__pyreader *r, plim__pytorch *torch, const plim__pyobject *o, const plim__block *block,
                         uint32_t n_blocks)
{
    tensor_impl t;
    memset(out, 0, sizeof *out);
    if (!impl_find(r, torch, o, &t)) return false;
    storage_add(out, r, t.word[torch->back - BACK_STORAGE], block, n_blocks);
    tensor_describe(out, r, &t, torch->back);
    autograd_read(out, r, torch, t.word[torch->back - BACK_AUTOGRAD], block, n_blocks);
    return true;
}
