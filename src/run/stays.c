/* What stays from run to run, piece by piece: in its slot of the arena, or in the file of our own that the plan gave it.
 * Only between runs that are open, and by the thread that runs them. Allocates nothing; what goes through the page cache is dropped from it. */
#include "core/size.h"
#include "run/pass_run.h"
#include "run/run.h"

#include <string.h>

static uint32_t file_of(const plim_plan *plan, uint32_t value)
{
    for (uint32_t i = 0; i < plan->n_files; i++)
        if (plan->file[i].value == value && plim__file_is_read(plan->file[i].kind)) return i;
    return PLIM__NONE;
}

static plim_status no_place(const plim_plan *plan, uint32_t value, plim_error *err)
{
    return plim__fail(err, PLIM_E_PLAN, "internal: '%s' has no place of its own", plan->graph->value[value].name);
}

static char *held_at(const plim_plan *plan, uint32_t value)
{
    PLIM_ASSERT(!plan->held[value] || plim__slot_is_held(plan, plan->home[value].slot));
    return plan->held[value] ? (char *)plan->run->arena + plan->slot[plan->home[value].slot].offset : NULL;
}

/* The file of our own, and where in it the value's byte `offset` is; the page cache gives back what went through it. */
static plim_status own_file(const plim_plan *plan, uint32_t value, int *fd, uint64_t *offset, plim_error *err)
{
    const uint32_t file = file_of(plan, value);
    if (file == PLIM__NONE || !plim__file_is_ours(plan->file[file].kind)) return no_place(plan, value, err);
    *fd = plim__tempfile_buffered_fd(plan->run->own);
    *offset += plan->file[file].io.offset;
    return PLIM_OK;
}

plim_status plim__run_put(plim_plan *plan, uint32_t value, uint64_t offset, const void *bytes, uint64_t n, plim_error *err)
{
    const plim__os *os = plan->os;
    char *at = held_at(plan, value);
    int fd = -1;
    PLIM_ASSERT(offset + n <= plan->graph->value[value].bytes);
    if (at) {
        memcpy(at + offset, bytes, n);
        return PLIM_OK;
    }
    PLIM_TRY(own_file(plan, value, &fd, &offset, err));
    for (uint64_t done = 0; done < n;) {
        const int64_t got = os->pwrite(os->self, fd, (const char *)bytes + done, n - done, offset + done);
        if (got <= 0) return plim__os_fail(got < 0 ? (int)got : -5, "write", plan->set.spill_dir, offset + done, err);
        done += (uint64_t)got;
    }
    os->flush_range(os->self, fd, offset, n, true);
    os->drop_cache(os->self, fd, offset, n);
    return PLIM_OK;
}

plim_status plim__run_get(plim_plan *plan, uint32_t value, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    const plim__os *os = plan->os;
    const char *at = held_at(plan, value);
    int fd = -1;
    PLIM_ASSERT(offset + n <= plan->graph->value[value].bytes);
    if (at) {
        memcpy(bytes, at + offset, n);
        return PLIM_OK;
    }
    PLIM_TRY(own_file(plan, value, &fd, &offset, err));
    for (uint64_t done = 0; done < n;) {
        const int64_t got = os->pread(os->self, fd, (char *)bytes + done, n - done, offset + done);
        if (got <= 0) return plim__os_fail(got < 0 ? (int)got : -5, "read", plan->set.spill_dir, offset + done, err);
        done += (uint64_t)got;
    }
    os->drop_cache(os->self, fd, offset, n);
    return PLIM_OK;
}

/* Held slots come first in the plan. Looks behind the engine's buffers and behind each of them. */
void *plim__run_spare(const plim_plan *plan, uint64_t wanted, uint64_t *got)
{
    void *best = NULL;
    *got = 0;
    for (uint32_t i = 0; i <= plan->n_slots && *got < wanted; i++) {
        if (i > 0 && !plim__slot_is_held(plan, i - 1)) break;
        const uint64_t from = plim__round_up(i == 0 ? plan->io_bytes : plan->slot[i - 1].offset + plan->slot[i - 1].bytes, 64);
        uint64_t to = plan->arena_bytes;
        for (uint32_t k = 0; k < plan->n_slots && plim__slot_is_held(plan, k); k++)
            if (plan->slot[k].offset >= from && plan->slot[k].offset < to) to = plan->slot[k].offset;
        if (to <= from || to - from <= *got) continue;
        *got = to - from < wanted ? to - from : wanted;
        best = (char *)plan->run->arena + from;
    }
    return best;
}

void plim__run_pick(plim_plan *plan, uint32_t value, const int64_t *row)
{
    const uint32_t file = file_of(plan, value);
    if (file != PLIM__NONE) plan->run->file[file].row = row;
}
