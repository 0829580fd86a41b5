/* plimsoll watch --json FILE: one object with every fact of every report, written while the program runs:
 *
 *     {"verb": "watch", "argv": [...], "budget_bytes": N, "on_breach": "enomem", "reports": [{...}, ...],
 *      "exit": {"code": N, "signal": N, "stopped": B}, "seconds": S, "peak_bytes": N}
 *
 * What is not there is null: a budget, a limit, a signal. */
#ifndef PLIM_CLI_WATCH_JSON_H
#define PLIM_CLI_WATCH_JSON_H

#include "cli/json.h"
#include "plimsoll/plimsoll.h"

/** "refused", "address_space": for files that programs read. */
const char *plim__watch_event_name(plim_watch_event event);
const char *plim__watch_cause_name(plim_watch_cause cause);
const char *plim__watch_breach_name(plim_watch_breach breach);

typedef struct plim__watch_json {
    plim__json json;
    double seconds; /* of the last report */
    uint64_t peak;
} plim__watch_json;

void plim__watch_json_start(plim__watch_json *j, FILE *out, const plim_watch_options *how);
void plim__watch_json_add(plim__watch_json *j, const plim_watch_report *report);
/** @param wait_status  how the program ended, as wait(2) gives it
 *  @param stopped      it was ended for its breach of the budget */
void plim__watch_json_end(plim__watch_json *j, int wait_status, bool stopped);

#endif
