/* Any bytes as a safetensors file, through a system whose one file is the input. What is accepted has names in order and
 * tensors that lie inside the file, share no byte and leave none out. */
#include "formats/safetensors.h"
#include "one_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    one_file file = {.path = "f.safetensors", .data = data, .size = size};
    const plim__os os = one_file_os(&file);
    plim__safetensors f;
    plim__array_file a;
    plim_error err = {0};
    if (plim__safetensors_open(&f, &os, "f.safetensors", (plim__alloc){0}, &err) != PLIM_OK) {
        CHECK(err.code != PLIM_OK && strstr(err.message, "f.safetensors") && !f.tensor && !f.text);
        return 0;
    }
    CHECK(err.code == PLIM_OK);
    uint8_t *seen = calloc(1, size);
    uint64_t covered = 0;
    CHECK(seen);
    for (uint32_t i = 0; i < f.n_tensors; i++) {
        uint64_t bytes;
        CHECK(i == 0 || strcmp(f.tensor[i - 1].name, f.tensor[i].name) < 0);
        CHECK(plim__safetensors_find(&a, &f, f.tensor[i].name, &err) == PLIM_OK);
        CHECK(plim_shape_bytes(&bytes, &a.shape, a.dtype, NULL) == PLIM_OK);
        CHECK(bytes <= size && a.source.offset <= size - bytes);
        for (uint64_t b = 0; b < bytes; b++) CHECK(seen[a.source.offset + b]++ == 0);
        covered += bytes;
    }
    for (uint32_t i = 0; i < f.n_texts; i++) {
        CHECK(i == 0 || strcmp(f.text[i - 1].key, f.text[i].key) < 0);
        CHECK(plim__safetensors_metadata(&f, f.text[i].key) == f.text[i].value && f.text[i].value);
    }
    uint64_t head = 0;
    memcpy(&head, data, sizeof head);
    CHECK(covered == size - 8 - head);
    const plim_status other = plim__safetensors_find(&a, &f, "w", &err);
    CHECK(other == PLIM_OK || (other == PLIM_E_INVALID && err.message[0]));
    free(seen);
    plim__safetensors_free(&f);
    return 0;
}
