/* The protobuf wire format, read from a file that is not trusted.
 *
 * A message is a row of fields; a field is a tag (a varint: number << 3 | wire type) and a payload. The reader looks at one message at a time,
 * through a window of the file: it never looks beyond the end of the message it is in, nor of the file, and what is skipped is not read. So a
 * model of any size costs the window and what its small fields decode to. Nesting is the caller's: who enters a message leaves it.
 *
 * Encoding: protobuf.dev, "Encoding". Groups (wire types 3 and 4) are refused. One thread at a time. */
#ifndef PLIM_MODELS_WIRE_H
#define PLIM_MODELS_WIRE_H

#include "core/alloc.h"
#include "os/os.h"

#define PLIM__WIRE_WINDOW 16384u

typedef enum plim__wire_type { PLIM__WIRE_VARINT = 0, PLIM__WIRE_FIXED64 = 1, PLIM__WIRE_BYTES = 2, PLIM__WIRE_FIXED32 = 5 } plim__wire_type;

typedef struct plim__wire {
    const plim__os *os;
    int fd;
    const char *path;    /* for messages */
    const char *message; /* the kind of message that it is in, for messages */
    uint64_t at, end;    /* the next field; the end of the message */
    uint64_t file_bytes;
    uint64_t lo, n;      /* the window holds [lo, lo + n) of the file */
    uint8_t window[PLIM__WIRE_WINDOW];
} plim__wire;

typedef struct plim__wire_field {
    uint32_t number;
    plim__wire_type type;
    uint64_t value;         /* a varint's or a fixed field's bits */
    uint64_t offset, bytes; /* the payload in the file; inside the message */
} plim__wire_field;

/** Where to go back to. */
typedef struct plim__wire_mark {
    uint64_t at, end;
    const char *message;
} plim__wire_mark;

/** The whole file as one message of kind `message`. */
void plim__wire_init(plim__wire *w, const plim__os *os, int fd, uint64_t file_bytes, const char *path, const char *message);
/** The next field of the message; its payload is passed over. @return PLIM_E_FORMAT names the field and the byte
 *  @param more  false: there is none */
plim_status plim__wire_next(plim__wire *w, plim__wire_field *f, bool *more, plim_error *err);
/** Into the message that is the payload of `f`, and back out. */
plim_status plim__wire_enter(plim__wire *w, const plim__wire_field *f, const char *message, plim__wire_mark *mark, plim_error *err);
void plim__wire_leave(plim__wire *w, const plim__wire_mark *mark);
/** Copies the payload of `f`, wire type BYTES. @param out  f->bytes bytes */
plim_status plim__wire_copy(plim__wire *w, const plim__wire_field *f, void *out, plim_error *err);
/** One varint of the packed payload [*at, end), which moves on. */
plim_status plim__wire_varint(plim__wire *w, uint64_t *at, uint64_t end, uint64_t *value, plim_error *err);
/** Fails with "<path>: field <n> of a <message> at byte <offset> ..." */
plim_status plim__wire_fail(const plim__wire *w, const plim__wire_field *f, plim_error *err, const char *what);

#endif
