/* Arrays of numpy and tensors of PyTorch in another process: where their data lies, what they are, and which node of an autograd graph they hold. */
#ifndef PLIM_WATCH_PYARRAYS_H
#define PLIM_WATCH_PYARRAYS_H

#include "watch/block.h"
#include "watch/pyread.h"

typedef struct plim__pyarray {
    uint64_t data[2];  /* addresses in recorded blocks; of a tensor also of its gradient */
    uint32_t n_data;
    uint64_t bytes;    /* of its elements */
    uint64_t objects;  /* of an ndarray of objects, in one piece: where their pointers are; else 0 */
    uint64_t base;     /* of an ndarray without data in a block: the object whose memory it shows; else 0 */
    char element[64];  /* "float64[1000,1000]" */
    char grad_fn[48];  /* "AddBackward0"; "" without a graph */
    uint64_t node;     /* its address */
} plim__pyarray;

enum { PLIM__PY_CLASSES = 64 };

/* How this torch lays out its objects, learnt from the first of each that is seen. 0: not yet. */
typedef struct plim__pytorch {
    uint32_t back;   /* the word of a TensorImpl that points back at its Python object */
    uint32_t edges;  /* the word of a Node at which the vector of edges begins */
    uint64_t vtable; /* of a TensorImpl */
    uint32_t n_classes;
    struct {
        uint64_t vtable;
        bool leaf; /* AccumulateGrad */
    } node_class[PLIM__PY_CLASSES]; /* classes of nodes that were met */
} plim__pytorch;

bool plim__pyarray_numpy(plim__pyarray *out, plim__pyreader *r, const plim__pyobject *o, const plim__block *block, uint32_t n_blocks);
bool plim__pyarray_torch(plim__pyarray *out, plim__pyreader *r, plim__pytorch *torch, const plim__pyobject *o, const plim__block *block,
                         uint32_t n_blocks);

/** Where the TensorImpl at `address` has its data in a recorded block.
 *  @param accumulator  0, or the node that gathers the gradient of this tensor: others are passed over
 *  @return how many addresses it wrote, 0 or 1 */
uint32_t plim__pytensor_data(plim__pyreader *r, const plim__pytorch *torch, uint64_t address, uint64_t accumulator, const plim__block *block,
                             uint32_t n_blocks, uint64_t *data);
/** The name of the class of an autograd node. @return false where there is no such node */
bool plim__pynode_name(plim__pyreader *r, uint64_t node, char *to, size_t size);

#endif
