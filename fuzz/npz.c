/* Any bytes as an .npz archive, through a system whose one file is the input: the member is found, its header read, and unpacked where it is
 * compressed. Writes are counted, not kept: what is unpacked may not exceed what deflate can make of the input. */
#include "formats/array_file.h"
#include "one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_file file = {.path = "f.npz", .data = data, .size = size};
    const plim__os os = one_file_os(&file);
    static const char *const paths[] = {"f.npz:a", "f.npz"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        plim_error err = {0};
        plim__array_file f;
        uint64_t bytes;
        file.written = 0;
        if (plim__array_open(&f, &os, paths[i], NULL, path, sizeof path, &err) != PLIM_OK) {
            CHECK(err.code != PLIM_OK && err.message[0]);
            continue;
        }
        CHECK(plim_shape_bytes(&bytes, &f.shape, f.dtype, NULL) == PLIM_OK);
        if (!f.compressed) {
            CHECK(bytes <= size && f.source.offset <= size - bytes);
        } else if (plim__array_unpack(&f, &os, paths[i], 4, &err) == PLIM_OK) {
            CHECK(f.source.offset + bytes <= file.written);
        }
        CHECK(file.written <= size * 1100 + 65536);
    }
    return 0;
}
