/* A file of known size, written from its first byte to its last, of any length: it appears whole or not at all (os/tempfile.c), its pages leave the
 * cache as they are written, and so do those of a file that is copied into it. Pieces of at most PLIM__FILE_PIECE bytes pass through the stack;
 * nothing is allocated but what os/tempfile.c takes. One thread at a time. */
#ifndef PLIM_FORMATS_FILE_WRITER_H
#define PLIM_FORMATS_FILE_WRITER_H

#include "formats/tensor_reader.h"
#include "os/os.h"

#define PLIM__FILE_PIECE 65536u

typedef struct plim__file_writer {
    const plim__os *os;
    plim__tempfile *temp;     /* NULL: not open */
    const char *path;         /* the caller's text */
    uint64_t written, dropped; /* bytes so far; those of them that have left the cache */
    bool summed;              /* `crc` is kept */
    uint32_t crc;             /* CRC-32 of what was written since the caller set `summed` and made it 0 */
} plim__file_writer;

/** An open file that is copied from. */
typedef struct plim__file_from {
    int fd;
    const char *path; /* for messages */
} plim__file_from;

/** Bytes of a file that a tensor's take the place of. */
typedef struct plim__patch {
    uint64_t offset, bytes; /* in the file that is copied */
    uint32_t index;         /* for the reader */
    uint32_t swap;          /* bytes of an element that lie in the other order there; 0: none do */
} plim__patch;

/** @param bytes  of the whole file: a disk without that much space is told from now on by PLIM_E_NOSPACE
 *  @param path   good until the file is committed or dropped */
plim_status plim__file_writer_open(plim__file_writer *w, const plim__os *os, const char *path, uint64_t bytes, plim_error *err);
plim_status plim__file_writer_put(plim__file_writer *w, const void *bytes, uint64_t n, plim_error *err);
/** All `bytes` bytes of tensor `index`. @param swap  as in plim__patch */
plim_status plim__file_writer_tensor(plim__file_writer *w, plim__tensor_reader reader, uint32_t index, uint64_t bytes, uint32_t swap,
                                     plim_error *err);
/** Bytes [from, to) of another file. */
plim_status plim__file_writer_copy(plim__file_writer *w, plim__file_from file, uint64_t from, uint64_t to, plim_error *err);
/** The same with patches.
 *  @param patch  sorted by offset (plim__patches_sort), all inside [from, to), sharing no byte */
plim_status plim__file_writer_patched(plim__file_writer *w, plim__file_from file, uint64_t from, uint64_t to, const plim__patch *patch, uint32_t n,
                                      plim__tensor_reader reader, plim_error *err);
/** Bytes that were written before are other ones now. */
plim_status plim__file_writer_correct(plim__file_writer *w, uint64_t at, const void *bytes, uint64_t n, plim_error *err);
/** What a full or broken disk can spoil has been spoilt after this; before several files are committed each is finished. */
plim_status plim__file_writer_finish(plim__file_writer *w, plim_error *err);
/** The file is there under its name; when that fails, it is dropped. */
plim_status plim__file_writer_commit(plim__file_writer *w, plim_error *err);
/** Nothing remains. Allowed after a commit, and on one that is all zeros. */
void plim__file_writer_drop(plim__file_writer *w);

void plim__patches_sort(plim__patch *patch, uint32_t n);

#endif
