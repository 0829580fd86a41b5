/* Names of a watched Python program as lines see them: the variables of a frame, read out of the process's memory as shapes and types. */
#ifndef PLIM_WATCH_LINE_FRAME_H
#define PLIM_WATCH_LINE_FRAME_H

#include "watch/line_needs.h"
#include "watch/record.h"

/** What the line that asks will still ask for.
 *  @param code  address of the code object that the line is in
 *  @param thread_state  of the thread that asks; it waits meanwhile
 *  @return false where that is not known */
bool plim__line_frame_needs(plim__line_needs *out, const plim__rec_process *process, uint64_t thread_state, uint64_t code, const char *source,
                            uint64_t asked, uint64_t held);

#endif
