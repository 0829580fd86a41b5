/* Native call stacks, by libgcc's unwinder.
 *
 * Inside malloc it may be used only where it takes no lock: with glibc 2.35 and later (_dl_find_object) and a libgcc that calls it (12 and later,
 * known by a function that came with it; where a machine's libgcc lacks that function stacks are not unwound). Elsewhere it asks dl_iterate_phdr,
 * whose lock the thread that loads a library may hold while it waits for us. It is taken from libgcc by name, not by the order of search:
 * programs bring unwinders of their own. The unwinder itself allocates when it sorts the tables of generated code, holding its lock; so its own
 * requests are not unwound.
 *
 * It costs a few microseconds. Where that has come to more than a fiftieth of the time since the start, stacks are not unwound until it is less
 * again. */
#include "watch/preload/preload.h"

#include <dlfcn.h>
#include <stdint.h>
#include <string.h>
#include <unwind.h>

#define SHARE 50 /* of the time, unwinding may take one part in so many */
#define GRACE_NS UINT64_C(1000000000)
#define LONGEST_NS UINT64_C(200000) /* one that took longer was interrupted */

static _Unwind_Reason_Code (*backtrace)(_Unwind_Trace_Fn, void *);
static uintptr_t (*instruction)(struct _Unwind_Context *);
static _Atomic uint64_t spent_ns;

typedef struct walk {
    uint64_t *out;
    uint32_t n, max;
} walk;

static _Unwind_Reason_Code step(struct _Unwind_Context *context, void *to)
{
    walk *w = to;
    const uintptr_t ip = instruction(context);
    if (!ip) return _URC_END_OF_STACK;
    if (!w->n && plim__pre_within(plim__pre.own, (const void *)ip)) return _URC_NO_REASON; /* our own frames, innermost */
    w->out[w->n++] = ip;
    return w->n < w->max ? _URC_NO_REASON : _URC_END_OF_STACK;
}

void plim__pre_unwind_prepare(void)
{
    void *libgcc = plim__pre_real.dlopen("libgcc_s.so.1", RTLD_LAZY | RTLD_LOCAL);
    if (!libgcc || !dlsym(RTLD_DEFAULT, "_dl_find_object") || !dlvsym(libgcc, "__divhc3", "GCC_12.0.0")) return;
    void *f = dlsym(libgcc, "_Unwind_Backtrace"), *g = dlsym(libgcc, "_Unwind_GetIP");
    if (!f || !g) return;
    memcpy(&backtrace, &f, sizeof f);
    memcpy(&instruction, &g, sizeof g);
    plim__pre.unwinder = plim__pre_text_of(f);
    uint64_t first[4];
    walk w = {.out = first, .max = 4};
    backtrace(step, &w);
    plim__pre.unwinds = true;
    plim__pre_flag(PLIM__REC_UNWINDS);
}

void plim__pre_unwind_reset(void) { atomic_store(&spent_ns, 0); }

static bool costs_too_much(uint64_t now)
{
    const uint64_t passed = now - plim__pre.attached_ns;
    return passed > GRACE_NS && atomic_load_explicit(&spent_ns, memory_order_relaxed) > passed / SHARE;
}

uint32_t plim__pre_unwind(const void *caller, uint64_t *out, uint32_t max)
{
    if (!plim__pre.unwinds || plim__pre_within(plim__pre.unwinder, caller)) return 0;
    const uint64_t before = plim__pre_now();
    if (costs_too_much(before)) return 0;
    walk w = {.out = out, .max = max};
    backtrace(step, &w);
    const uint64_t took = plim__pre_now() - before;
    atomic_fetch_add_explicit(&spent_ns, took < LONGEST_NS ? took : LONGEST_NS, memory_order_relaxed);
    return w.n;
}
