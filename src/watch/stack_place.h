/* Where a stack is, for people: lines of Python with their source text, names of native frames, what the operation is called. Resolved once for
 * each stack and kept. */
#ifndef PLIM_WATCH_STACK_PLACE_H
#define PLIM_WATCH_STACK_PLACE_H

#include "watch/supervisor.h"

typedef struct plim__where {
    plim_watch_frame frame[PLIM_WATCH_FRAMES]; /* of the user's own code first: frames of installed libraries only where there is nothing else */
    uint32_t n_frames;
    char label[64];
    bool arena;      /* the interpreter's memory for small objects: has no line */
    char caller[64]; /* the library that asked, past the C and C++ runtimes */
} plim__where;

/** Resolves those that are not yet: native addresses of all of them in one pass over each file. */
void plim__places_resolve(plim__supervisor *s, const uint32_t *stack, uint32_t n);
/** NULL: not resolved, or no memory for it. */
const plim__where *plim__place_of(const plim__supervisor *s, uint32_t stack);
void plim__places_free(plim__supervisor *s);

/** "train.py:88 step() [aten::relu]" */
void plim__place_line(const plim_watch_frame *frame, uint32_t n, const char *label, char *to, size_t size);

#endif
