/* Arrays of numpy and tensors of PyTorch in another process: where their data lies, what they are, and which node of an autograd graph they hold. */
#ifndef PLIM_WATCH_PYARRAYS_H
#define PLIM_WATCH_PYARRAYS_H

#include "watch/block.h"
#include "watch/pyread.h"

typedef struct plim__pyarray {
    uint64_t data[2];  /* addresses in recorded blocks; of a tensor also of its gradient */
    uint32_t n_data;
    uint64_t bytes;    /* of its elements */
    uint64_t base;     /* of an ndarray without data in a block: the object whose memory it shows; else 0 */
    char element[64];  /* "float64[1000,1000]" */
    char grad_fn[48];  /* "AddBackward0"; "" without a graph */
} plim__pyarray;

/* How torch lays out a TensorImpl is learnt from the first tensor seen: where it points back at its Python object. 0: not yet. */
typedef struct plim__pytorch {
    uint32_t back;
} plim__pytorch;

bool plim__pyarray_numpy(plim__pyarray *out, plim__pyreader *r, const plim__pyobject *o, const plim__block *block, uint32_t n_blocks);
bool plim__pyarray_torch(plim__pyarray *out, plim__pyreader *r, plim__pytorch *torch, const plim__pyobject *o, const plim__block *block, uint32_t n_blocks);

#endif
