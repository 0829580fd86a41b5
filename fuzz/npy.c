/* Any bytes as an .npy file. A header that is accepted must describe data inside the file, and must survive being written and read again. */
#include "formats/array_file.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static char header[PLIM__NPY_HEADER];
    plim_error err = {0};
    plim__array_file f = {0}, again = {0};
    uint64_t bytes, last = 0;
    if (plim__npy_parse(&f, data, size, 0, size, "fuzz.npy", &err) != PLIM_OK) {
        CHECK(err.code != PLIM_OK && strncmp(err.message, "fuzz.npy: ", 10) == 0);
        return 0;
    }
    CHECK(err.code == PLIM_OK);
    CHECK(plim_shape_bytes(&bytes, &f.shape, f.dtype, NULL) == PLIM_OK);
    CHECK(bytes <= size && f.source.offset <= size - bytes);
    for (uint32_t d = 0; d < f.shape.rank && bytes; d++) last += (uint64_t)(f.shape.dim[d] - 1) * (uint64_t)f.source.stride[d];
    CHECK(bytes == 0 || (last + 1) * plim_dtype_bytes(f.dtype) == bytes);

    CHECK(plim__npy_header(header, f.dtype, &f.shape, NULL) == PLIM_OK);
    CHECK(plim__npy_parse(&again, (const uint8_t *)header, sizeof header, 0, sizeof header + bytes, "again", NULL) == PLIM_OK);
    CHECK(again.dtype == f.dtype && plim__shape_equal(&again.shape, &f.shape));
    return 0;
}
