/* Parts of a test as the ONNX project lays them out: a model whose inputs and outputs stand in files of their own, each one TensorProto. */
#ifndef PLIM_MODELS_ONNX_CASE_H
#define PLIM_MODELS_ONNX_CASE_H

#include "models/model.h"
#include "os/os.h"

/** A tensor in memory. */
typedef struct plim__tensor {
    char name[PLIM__MODEL_NAME];
    plim_dtype dtype;
    plim_shape shape;
    uint64_t count;
    void *data; /* dense, C order; plim__tensor_free */
} plim__tensor;

/** Reads a file that holds one TensorProto and is not trusted: messages name it. */
plim_status plim__tensor_read(plim__tensor *out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err);
void plim__tensor_free(plim__tensor *t, plim__alloc alloc);

/** What an ONNX model is about, before it is asked whether it is supported. */
typedef struct plim__onnx_brief {
    char op[64];    /* of its only node, with its domain unless that is ONNX's own; "several" */
    bool numeric;   /* every input and output is a tensor of numbers */
    char other[160]; /* the first that is not, and what it is */
    uint32_t n_inputs, n_outputs; /* as the file lists them; inputs with data in the file are not counted */
    uint64_t bf16;  /* bit k: input k, or output k - 32, is of bfloat16 (those beyond 32 are not looked at) */
} plim__onnx_brief;

plim_status plim__onnx_brief_read(plim__onnx_brief *out, const plim__os *os, const char *path, plim__alloc alloc, plim_error *err);

#endif
