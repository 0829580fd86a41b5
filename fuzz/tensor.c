/* Any bytes as a file that is one TensorProto. What is read has as many elements as its shape says, and they lie in its memory. */
#include "models/onnx_case.h"
#include "one_file.h"

/* No block of memory may be larger than a file of a few KiB can justify: every element of a tensor has at least a byte there. */
static void *bounded(void *ctx, void *old, size_t size)
{
    (void)ctx;
    if (size == 0) return free(old), NULL;
    return size > UINT64_C(64) << 20 ? NULL : realloc(old, size);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_file file = {.path = "x.pb", .data = data, .size = size};
    const plim__os os = one_file_os(&file);
    const plim__alloc alloc = {.hook = bounded};
    plim__tensor t;
    plim_error err = {0};
    if (plim__tensor_read(&t, &os, "x.pb", alloc, &err) != PLIM_OK) {
        CHECK(!t.data && err.code != PLIM_OK && err.message[0]);
        return 0;
    }
    uint64_t bytes;
    CHECK(plim_shape_bytes(&bytes, &t.shape, t.dtype, NULL) == PLIM_OK && bytes == t.count * plim_dtype_bytes(t.dtype));
    uint32_t all = 0;
    for (uint64_t i = 0; i < bytes; i++) all |= ((const uint8_t *)t.data)[i];
    CHECK(all < 256);
    plim__tensor_free(&t, alloc);
    return 0;
}
