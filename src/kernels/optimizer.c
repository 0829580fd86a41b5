#include "kernels/optimizer.h"

#include "core/size.h"
#include "kernels/convert.h"
#include "kernels/strided.h"

#include <string.h>

#define LANES(name) name##_base
#include "kernels/optimizer_lanes.inc"

#define COLS 512
#define OPERANDS 7 /* three outputs, four inputs */

static_assert(OPERANDS <= PLIM__STRIDED_MAX, "all operands are walked together");

static plim__update_lane *lane_for(plim__update how, plim_dtype t) { return PLIM__BEST(plim__update_lanes)[t == PLIM_F64][how]; }

/* The operands in the order in which they are walked: outputs, then inputs. */
typedef struct operands {
    plim__strided s;
    uint32_t n_out;
    int64_t item;
    bool dense; /* all of them, along the innermost dimension */
    plim__update_lane *lane;
    const plim__update_by *by;
} operands;

/* n elements from `data` on; what is not dense goes through the stack. */
static void run_stretch(const operands *o, char *const *data, int64_t n)
{
    _Alignas(64) char stage[OPERANDS][COLS * 8];
    const uint32_t last = o->s.rank - 1;
    void *at[OPERANDS];
    for (uint32_t k = 0; k < o->s.count; k++) {
        const bool direct = o->s.step[k][last] == o->item;
        at[k] = direct ? data[k] : stage[k];
        if (!direct && k >= o->n_out) plim__gather(stage[k], data[k], (uint64_t)o->item, 1, n, 0, o->s.step[k][last]);
    }
    o->lane(at, (const void *const *)at + o->n_out, o->by, n);
    for (uint32_t k = 0; k < o->n_out; k++)
        if (at[k] == stage[k]) plim__scatter(data[k], stage[k], (uint64_t)o->item, 1, n, 0, o->s.step[k][last]);
}

static void run_row(const operands *o, char *const *data)
{
    const uint32_t last = o->s.rank - 1;
    const int64_t n = o->s.n[last], length = o->dense ? n : COLS;
    for (int64_t i = 0; i < n; i += length) {
        char *from[OPERANDS];
        for (uint32_t k = 0; k < o->s.count; k++) from[k] = data[k] + i * o->s.step[k][last];
        run_stretch(o, from, plim__min(length, n - i));
    }
}

void plim__update_run(plim__update how, const plim__update_by *by, const plim__view *out, const plim__view *in, uint32_t states)
{
    if (plim__view_count(out) == 0) return;
    operands o = {.n_out = states + 1, .item = (int64_t)plim_dtype_bytes(out->dtype), .dense = true, .lane = lane_for(how, out->dtype), .by = by};
    const plim__view *view[OPERANDS];
    for (uint32_t k = 0; k < states + 1; k++) view[k] = &out[k];
    for (uint32_t k = 0; k < states + 2; k++) view[states + 1 + k] = &in[k];
    plim__strided_new(&o.s, view, 2 * states + 3);
    for (uint32_t k = 0; k < o.s.count; k++) o.dense = o.dense && o.s.step[k][o.s.rank - 1] == o.item;
    char *data[PLIM__STRIDED_MAX];
    int64_t at[PLIM_MAX_RANK] = {0};
    memcpy(data, o.s.data, sizeof data);
    do run_row(&o, data);
    while (plim__strided_next(&o.s, data, at, o.s.rank - 1));
}
