/* Names for memory: which variables of a watched Python program reach which recorded blocks. The supervisor reads the interpreter's structures out
 * of the other process's memory; nothing runs in it. What is read may be torn where the program goes on meanwhile: every object is believed only
 * when its type is what it must be, every walk is bounded.
 *
 * Looked at: the locals of the frames of all threads, the globals of their modules; in them arrays (numpy.ndarray and views of it through `base`),
 * torch.Tensor and its Parameter (storage; grad; what its autograd graph saved), bytes, bytearray and str, lists, tuples, sets, dicts and deques of
 * these, attributes of instances (through __dict__, inline values or __slots__), a few levels deep. CPython 3.8 to 3.15.
 *
 * Not seen: suspended generators, modules without a frame, tensors saved by autograd functions written in Python. */
#ifndef PLIM_WATCH_PYNAMES_H
#define PLIM_WATCH_PYNAMES_H

#include "plimsoll/plimsoll.h"
#include "watch/block.h"

typedef struct plim__pyname {
    plim_watch_name name;
    uint64_t frame_globals; /* address of the dict it is in, 0 for a local */
    uint32_t site;          /* the site that most of its bytes come from; UINT32_MAX: none */
    uint64_t site_bytes;    /* of these */
    uint64_t graph_bytes;   /* of name.bytes: reached only through an autograd graph, as tensors that its nodes saved for a backward pass */
} plim__pyname;

/** Variables that reach recorded blocks, by bytes, largest first (of equals the main module's first, then locals from the outermost frame in); and
 *  tensors that keep an autograd graph alive (grad_fn), even where they reach no block.
 *  A block reached by several variables counts for each of them (two names for one array are both said), but once in each.
 *  The node's name comes from the process's own memory (its run-time type), no file is read. Takes half a second of the processor at most.
 *  @param thread_state  PyThreadState whose frames are walked first; 0: the process's python_thread_state
 *  @param block         sorted by address
 *  @return how many, at most `max`; 0 where there is no Python, or nothing can be read */
uint32_t plim__pynames_find(plim__pyname *out, uint32_t max, const plim__rec_process *process, uint64_t thread_state, const plim__block *block,
                            uint32_t n_blocks);

#endif
