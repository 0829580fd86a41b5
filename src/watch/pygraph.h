/* The autograd graph of PyTorch behind a tensor: its nodes, and the memory of the tensors that they saved for the backward pass. */
#ifndef PLIM_WATCH_PYGRAPH_H
#define PLIM_WATCH_PYGRAPH_H

#include "watch/block.h"
#include "watch/pyarrays.h"

enum { PLIM__PY_EDGES = 32, PLIM__PY_SAVED = 32 };

typedef struct plim__pynode {
    uint64_t next[PLIM__PY_EDGES]; /* nodes that it leads to */
    uint32_t n_next;
    uint64_t data[PLIM__PY_SAVED]; /* addresses in recorded blocks: of saved tensors; of a leaf: of the parameter itself */
    uint32_t n_data;
    bool leaf; /* AccumulateGrad, where a graph ends at a parameter */
} plim__pynode;

/** Needs a torch that a tensor has taught. Only where malloc is glibc's: its account of a block says where a node ends.
 *  @return false where there is no node */
bool plim__pynode_read(plim__pynode *out, plim__pyreader *r, plim__pytorch *torch, uint64_t address, const plim__block *block, uint32_t n_blocks);

#endif
