/* The directory of a zip archive: finding one member, and inflating it. */
#ifndef PLIM_FORMATS_ZIP_H
#define PLIM_FORMATS_ZIP_H

#include "formats/array_file.h"

/** An open archive. */
typedef struct plim__zip {
    const plim__os *os;
    int fd;
    uint64_t bytes;   /* of the whole file */
    const char *path; /* for messages */
} plim__zip;

typedef struct plim__zip_member {
    uint64_t data;   /* where its first byte lies in the file */
    uint64_t packed; /* bytes there; data + packed is inside the file, before the directory */
    uint64_t size;   /* bytes when unpacked; equals packed where it is stored */
    uint32_t crc;
    bool deflated;
    bool streamed;         /* sizes and CRC stand behind the data, too, and not in the local header */
    uint64_t local, entry; /* where its local header and its directory entry lie */
} plim__zip_member;

/** Takes inflated bytes in order. Anything but PLIM_OK ends the inflating with that status. */
typedef plim_status plim__zip_sink(void *ctx, const uint8_t *p, uint64_t n, plim_error *err);

/** Finds the member `name`, or `name` with `suffix` (may be "") behind it; NULL: the only one there is. Of two with the same name the later counts,
 *  as in Python's zipfile. PLIM_E_INVALID where there is none: the message lists some that there are. */
plim_status plim__zip_find(plim__zip_member *out, const plim__zip *z, const char *name, const char *suffix, plim_error *err);
/** Where the member's CRC stands, 4 bytes little-endian each: in its directory entry, and in its local header or behind its data. */
plim_status plim__zip_crc_places(uint64_t at[2], const plim__zip *z, const plim__zip_member *m, plim_error *err);
/** Inflates the first `want` bytes of a deflated member through `sink`, in steps of 64 KiB; its CRC is checked when that is all of it.
 *  Allocates about 170 KiB for the time of the call. */
plim_status plim__zip_inflate(const plim__zip *z, const plim__zip_member *m, uint64_t want, plim__zip_sink *sink, void *ctx, plim_error *err);

#endif
