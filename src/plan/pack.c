/* The portfolio: several greedy orders, each buffer at the lowest offset that is free among those placed before it; the best packing wins. */
#include "plan/pack.h"
#include "core/size.h"

#include <string.h>

plim__pack_effort plim__pack_effort_quick(void)
{
    return (plim__pack_effort){.greedy_steps = 10000000};
}

static bool before(const plim_buffer *a, const plim_buffer *b, int order)
{
    const uint64_t wa = (uint64_t)(a->upper - a->lower), wb = (uint64_t)(b->upper - b->lower);
    if (order == 0 && a->size != b->size) return a->size > b->size;
    if (order == 1 && wa != wb) return wa > wb;
    return a->lower < b->lower;
}

static uint64_t place(plim_buffer *buf, const uint32_t *seq, uint32_t n)
{
    uint64_t height = 0;
    for (uint32_t i = 0; i < n; i++) {
        plim_buffer *x = &buf[seq[i]];
        x->offset = 0;
        for (bool moved = true; moved;) {
            moved = false;
            for (uint32_t j = 0; j < i; j++) {
                const plim_buffer *y = &buf[seq[j]];
                const bool alive = x->lower < y->upper && y->lower < x->upper;
                if (!alive || x->offset >= y->offset + y->size || y->offset >= x->offset + x->size) continue;
                x->offset = y->offset + y->size;
                moved = true;
            }
        }
        height = x->offset + x->size > height ? x->offset + x->size : height;
    }
    return height;
}

static uint64_t bound_of(const plim_buffer *buf, uint32_t n)
{
    uint64_t bound = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t load = 0;
        for (uint32_t j = 0; j < n; j++)
            if (buf[j].lower <= buf[i].lower && buf[i].lower < buf[j].upper) load += buf[j].size;
        bound = load > bound ? load : bound;
    }
    return bound;
}

plim_status plim__pack(plim_buffer *buf, uint32_t n, const plim_pack_options *opt, const plim__pack_effort *effort, plim_pack_result *res,
                       const plim__alloc *a, plim_error *err)
{
    (void)effort;
    const uint64_t align = opt->alignment ? opt->alignment : 1;
    uint32_t *seq = plim__new(a, n, sizeof *seq, err);
    plim_buffer *work = plim__new(a, n, sizeof *work, err);
    const plim_status status = seq && work ? PLIM_OK : PLIM_E_NOMEM;
    *res = (plim_pack_result){.fits = true};
    for (int order = 0; order < 3 && status == PLIM_OK; order++) {
        memcpy(work, buf, n * sizeof *work);
        for (uint32_t i = 0; i < n; i++) {
            work[i].size = plim__round_up(buf[i].size, align);
            seq[i] = i;
            for (uint32_t j = i; j > 0 && before(&work[seq[j]], &work[seq[j - 1]], order); j--) {
                const uint32_t swap = seq[j];
                seq[j] = seq[j - 1];
                seq[j - 1] = swap;
            }
        }
        const uint64_t height = place(work, seq, n);
        res->bound = bound_of(work, n);
        if (order > 0 && height >= res->height) continue;
        res->height = height;
        for (uint32_t i = 0; i < n; i++) buf[i].offset = work[i].offset;
    }
    plim__free(a, seq);
    plim__free(a, work);
    return status;
}
