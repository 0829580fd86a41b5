/* Questions to the supervisor: may this request be made, and: look, this one failed. One thread of a process asks at a time; the others wait for
 * it. The supervisor may be gone, or stopped: then nobody asks again before it has answered the last question. */
#include "watch/preload/preload.h"

#include <errno.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PATIENCE_NS ((uint64_t)PLIM__REC_PATIENCE_MS * 1000000)
#define LOOK_NS UINT64_C(250000000) /* how often a sleeper looks whether the supervisor still is there */

static _Atomic uint32_t unanswered; /* the question that got no answer in time; 0: none */

static bool supervisor_gone(void) { return kill(plim__pre.header->supervisor, 0) && errno == ESRCH; }

static bool somebody_answers(void)
{
    uint32_t question = atomic_load(&unanswered);
    if (!question) return true;
    if (atomic_load_explicit(&plim__pre.me->ask.answered, memory_order_acquire) != question) return false;
    atomic_compare_exchange_strong(&unanswered, &question, 0);
    return true;
}

void plim__pre_ask_reset(void) { atomic_store(&unanswered, 0); }

static bool wait_for(plim__rec_ask *ask, uint32_t question)
{
    const uint64_t end = plim__pre_now() + PATIENCE_NS;
    for (;;) {
        const uint32_t answered = atomic_load_explicit(&ask->answered, memory_order_acquire);
        if (answered == question) return true;
        if (plim__pre_now() >= end || supervisor_gone()) return false;
        plim__pre_futex(&ask->answered, FUTEX_WAIT, answered, LOOK_NS);
    }
}

static plim__rec_answer ask_once(const plim__pre_request *r, plim__rec_ask_kind kind, int error, bool trimmed)
{
    plim__rec_ask *ask = &plim__pre.me->ask;
    if (!plim__pre_maps(r->call)) plim__pre_heap_read();
    plim__pre_lock(&ask->lock);
    plim__rec_answer answer = PLIM__REC_GO_ON;
    if (somebody_answers()) {
        ask->kind = kind;
        ask->answer = PLIM__REC_GO_ON;
        ask->call = r->call;
        ask->site = r->site;
        ask->error = error;
        ask->thread = (int32_t)syscall(SYS_gettid);
        ask->gil_held = r->gil_held;
        ask->bytes = r->bytes;
        ask->old_bytes = r->old_bytes;
        ask->ns = plim__pre_now();
        ask->thread_state = r->thread_state;
        ask->trimmed = trimmed;
        const uint32_t question = atomic_fetch_add_explicit(&ask->asked, 1, memory_order_release) + 1;
        atomic_fetch_add(&plim__pre.header->doorbell, 1);
        plim__pre_futex(&plim__pre.header->doorbell, FUTEX_WAKE, 1, 0);
        if (wait_for(ask, question)) {
            answer = (plim__rec_answer)ask->answer;
        } else {
            atomic_store(&unanswered, question);
            plim__pre_flag(PLIM__REC_UNANSWERED);
        }
    }
    plim__pre_unlock(&ask->lock);
    return answer;
}

/* The rule of plim__rec_header: far from the budget nothing is asked. */
static bool claim_unasked(const plim__pre_request *r)
{
    plim__rec_header *h = plim__pre.header;
    const uint64_t more = r->bytes > r->old_bytes ? r->bytes - r->old_bytes : 0;
    uint64_t claimed = atomic_load(&h->claimed), sum;
    do {
        const int64_t pending = (int64_t)(claimed - atomic_load(&h->landed_seen));
        if (__builtin_add_overflow(atomic_load(&h->resident), pending > 0 ? (uint64_t)pending : 0, &sum) || __builtin_add_overflow(sum, more, &sum))
            return false;
        if (more && sum > h->budget) return false;
    } while (!atomic_compare_exchange_weak(&h->claimed, &claimed, claimed + r->bytes));
    return true;
}

void plim__pre_land(uint64_t bytes)
{
    if (plim__pre.header->budget) atomic_fetch_add(&plim__pre.header->landed, bytes);
}

void plim__pre_unclaim(const plim__rec_block *b)
{
    plim__rec_header *h = plim__pre.header;
    if (!h->budget || b->ms <= atomic_load(&h->seen_ms)) return;
    atomic_fetch_sub(&h->landed, b->bytes);
    atomic_fetch_sub(&h->claimed, b->bytes);
}

bool plim__pre_may(const plim__pre_request *r)
{
    if (!plim__pre.header->budget) return true;
    if (r->bytes <= PTRDIFF_MAX && claim_unasked(r)) return true;
    plim__rec_answer answer = PLIM__REC_GO_ON; /* what cannot be had anyway is left to the real function to refuse */
    if (r->bytes <= PTRDIFF_MAX && somebody_answers()) answer = ask_once(r, PLIM__REC_MAY_I, 0, false);
    if (answer == PLIM__REC_TRIM) {
        if (plim__pre.malloc_trim && !plim__pre_maps(r->call)) plim__pre.malloc_trim(0);
        answer = ask_once(r, PLIM__REC_MAY_I, 0, true);
    }
    if (answer != PLIM__REC_REFUSE) {
        atomic_fetch_add(&plim__pre.header->claimed, r->bytes);
        return true;
    }
    atomic_fetch_add(&plim__pre.me->refusals, 1);
    return false;
}

void plim__pre_failed(const plim__pre_request *r, int error)
{
    if (somebody_answers()) ask_once(r, PLIM__REC_FAILED, error, false);
}
