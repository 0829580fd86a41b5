#include "models/weight_form.h"

#include <string.h>

static int64_t blocks(int64_t n) { return (n + PLIM__BLOCK - 1) / PLIM__BLOCK; }

plim_shape plim__form_shape(const plim__weight_form *f)
{
    if (f->kind == PLIM__FORM_PLAIN) return f->plain;
    const int64_t o = f->plain.dim[f->dim[0]], c = f->plain.dim[f->dim[1]], rows = f->plain.dim[f->dim[2]], cols = f->plain.dim[f->dim[3]];
    if (f->kind == PLIM__FORM_BLOCKED) return (plim_shape){6, {blocks(o), blocks(c), rows, cols, PLIM__BLOCK, PLIM__BLOCK}};
    if (f->kind == PLIM__FORM_FIRST) return (plim_shape){5, {blocks(o), c, rows, cols, PLIM__BLOCK}};
    return (plim_shape){4, {blocks(o), rows, cols, PLIM__BLOCK}};
}

bool plim__form_equal(const plim__weight_form *a, const plim__weight_form *b)
{
    if (a->kind != b->kind) return false;
    return a->kind == PLIM__FORM_PLAIN || (plim__shape_equal(&a->plain, &b->plain) && memcmp(a->dim, b->dim, sizeof a->dim) == 0);
}

static uint64_t place_of(const plim__weight_form *f, const int64_t at[4])
{
    const int64_t o = at[f->dim[0]], c = at[f->dim[1]], r = at[f->dim[2]], s = at[f->dim[3]];
    const int64_t channels = f->plain.dim[f->dim[1]], rows = f->plain.dim[f->dim[2]], cols = f->plain.dim[f->dim[3]];
    int64_t p = o / PLIM__BLOCK;
    if (f->kind == PLIM__FORM_BLOCKED) p = ((p * blocks(channels) + c / PLIM__BLOCK) * rows + r) * cols + s;
    else if (f->kind == PLIM__FORM_FIRST) p = ((p * channels + c) * rows + r) * cols + s;
    else p = (p * rows + r) * cols + s;
    if (f->kind == PLIM__FORM_BLOCKED) p = p * PLIM__BLOCK + c % PLIM__BLOCK;
    return (uint64_t)(p * PLIM__BLOCK + o % PLIM__BLOCK);
}

void plim__form_places(const plim__weight_form *f, uint64_t first, uint64_t n, uint64_t *place)
{
    int64_t at[4];
    uint64_t rest = first;
    for (uint32_t d = 4; d-- > 0; rest /= (uint64_t)f->plain.dim[d]) at[d] = (int64_t)(rest % (uint64_t)f->plain.dim[d]);
    for (uint64_t i = 0; i < n; i++) {
        place[i] = place_of(f, at);
        for (uint32_t d = 4; d-- > 0 && ++at[d] == f->plain.dim[d];) at[d] = 0;
    }
}
