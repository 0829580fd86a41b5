/* Any bytes as an .npz archive, through a system whose one file is the input: the member is found, its header read, and unpacked where it is
 * compressed. Writes are counted, not kept: what is unpacked may not exceed what deflate can make of the input. */
#include "formats/array_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

typedef struct input {
    const uint8_t *data;
    uint64_t size, written;
} input;

static int in_open(void *self, const char *path, int flags, int mode) { return (void)self, (void)path, (void)flags, (void)mode, 3; }
static int in_close(void *self, int fd) { return (void)self, (void)fd, 0; }
static int in_drop(void *self, int fd, uint64_t off, uint64_t n) { return (void)self, (void)fd, (void)off, (void)n, 0; }
static int in_flush(void *self, int fd, uint64_t off, uint64_t n, bool wait) { return (void)wait, in_drop(self, fd, off, n); }

static int64_t in_pread(void *self, int fd, void *buf, uint64_t n, uint64_t off)
{
    const input *in = self;
    (void)fd;
    CHECK(off <= in->size && n <= in->size - off); /* the reader never asks for what is not there */
    memcpy(buf, in->data + off, n);
    return (int64_t)n;
}

static int64_t in_pwrite(void *self, int fd, const void *buf, uint64_t n, uint64_t off)
{
    input *in = self;
    (void)fd, (void)buf;
    CHECK(off == in->written);
    in->written += n;
    return (int64_t)n;
}

static int in_stat(void *self, int fd, plim__stat *out)
{
    const input *in = self;
    (void)fd;
    *out = (plim__stat){.size = in->size, .inode = 1, .regular = true};
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    input in = {.data = data, .size = size};
    const plim__os os = {.self = &in, .open = in_open, .close = in_close, .pread = in_pread, .pwrite = in_pwrite, .stat = in_stat,
                         .drop_cache = in_drop, .flush_range = in_flush};
    static const char *const paths[] = {"f.npz:a", "f.npz"};
    for (int i = 0; i < 2; i++) {
        char path[64];
        plim_error err = {0};
        plim__array_file f;
        uint64_t bytes;
        in.written = 0;
        if (plim__array_open(&f, &os, paths[i], NULL, path, sizeof path, &err) != PLIM_OK) {
            CHECK(err.code != PLIM_OK && err.message[0]);
            continue;
        }
        CHECK(plim_shape_bytes(&bytes, &f.shape, f.dtype, NULL) == PLIM_OK);
        if (!f.compressed) {
            CHECK(bytes <= size && f.source.offset <= size - bytes);
        } else if (plim__array_unpack(&f, &os, paths[i], 4, &err) == PLIM_OK) {
            CHECK(f.source.offset + bytes <= in.written);
        }
        CHECK(in.written <= size * 1100 + 65536);
    }
    return 0;
}
