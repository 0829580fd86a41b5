/* Array files: what is in them, and headers for new ones. Readers trust nothing: every length is checked against the file's
 * size, every product for overflow, every message names the file and the byte. No array data is read here.
 *
 *   file.npy           versions 1.0 to 3.0, C and Fortran order, either endianness. '<V2' is read as bf16: NumPy has no name of its
 *                      own for it, and that is what ml_dtypes saves
 *   file.npz:member    a stored member (zip64 too) is read in place; a compressed one has `compressed` set and must go through
 *                      plim__array_unpack before its data can be read. "member" may leave ".npy" out; ":member" may be left
 *                      out when there is only one.
 *   raw                any file, with dtype, shape and offset from the caller
 *
 * Thread-safety: no state; any thread may call any of these. */
#ifndef PLIM_FORMATS_ARRAY_FILE_H
#define PLIM_FORMATS_ARRAY_FILE_H

#include "graph/graph.h"
#include "os/os.h"

#define PLIM__NPY_HEADER 4096u    /* bytes of the headers that we write: data starts page-aligned */
#define PLIM__NPY_HEAD_MAX 65548u /* no more of a file is looked at for its header: all of version 1.0, and far beyond NumPy's own limit */

typedef struct plim__array_file {
    plim_dtype dtype;
    plim_shape shape;
    plim__source source; /* path points to the caller's text (for an npz: without the member); offset, strides, identity filled in.
                          * Strides are all 0 in an array without elements. For a compressed member they and the offset
                          * are those in the member once it is unpacked to the start of a file. */
    bool compressed;     /* a deflated npz member: must be unpacked before use */
    bool fortran_order;
} plim__array_file;

/** Looks at `path` ("x.npy", "x.npz:m", or any file when `raw` says what is in it: its dtype, shape, raw_offset).
 *  @param raw       NULL, or one whose `raw` is false: the file says itself what it is
 *  @param path_buf  room for the path without the member; source.path points into it */
plim_status plim__array_open(plim__array_file *out, const plim__os *os, const char *path, const plim_binding *raw, char *path_buf,
                             size_t path_size, plim_error *err);
/** Parses the first `n` bytes of a file of `file_bytes` bytes as an .npy header that starts at `base` in it. For fuzzing too.
 *  PLIM__NPY_HEAD_MAX bytes, or all there are, are always enough. Leaves source.path and the file's identity alone. */
plim_status plim__npy_parse(plim__array_file *out, const uint8_t *head, uint64_t n, uint64_t base, uint64_t file_bytes, const char *path,
                            plim_error *err);
/** Writes a version 1.0 header of exactly PLIM__NPY_HEADER bytes for a C-order array in the byte order of this machine.
 *  bf16 is written as '<V2'. */
plim_status plim__npy_header(char buf[PLIM__NPY_HEADER], plim_dtype dtype, const plim_shape *shape, plim_error *err);
/** Inflates a compressed npz member into the unlinked scratch file `dst` (a descriptor without O_DIRECT), in 64 KiB steps, checking its size
 *  and CRC; what it leaves in the page cache is dropped. `out`, from plim__array_open of the same `path`, then describes the array
 *  there (source.path stays for messages; offset, strides and identity are those of dst). Unchanged on failure. */
plim_status plim__array_unpack(plim__array_file *out, const plim__os *os, const char *path, int dst, plim_error *err);

/* ---- for the readers in this folder ---- */

/** Fails with "<path>: <message>" and err->offset = `offset`. */
plim_status plim__array_fail(plim_error *err, plim_status code, const char *path, uint64_t offset, const char *fmt, ...)
    __attribute__((format(printf, 5, 6), cold));
/** Opens a regular file for reading; a pipe without a writer is refused, not waited for. @param fd  the caller's to close */
plim_status plim__file_open(int *fd, plim__stat *stat, const plim__os *os, const char *path, plim_error *err);
/** What a later reader recognises the file by. */
void plim__source_identify(plim__source *s, const plim__stat *stat);
/** Reads n bytes at `off` or fails: PLIM_E_FORMAT where the file ends before, though its size promised them. */
plim_status plim__array_read(const plim__os *os, int fd, void *buf, uint64_t n, uint64_t off, const char *path, plim_error *err);
/** Checks that dtype, shape and source.offset describe something that a file of `file_bytes` bytes holds, and sets the strides. */
plim_status plim__array_settle(plim__array_file *f, uint64_t file_bytes, const char *path, plim_error *err);
/** Writes text of a file into a message: printable ASCII stays, anything else becomes '?', a long one ends in "...". @return buf */
char *plim__array_quote(char *buf, size_t size, const uint8_t *text, uint64_t n);

#endif
