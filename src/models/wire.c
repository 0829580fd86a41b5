/* See wire.h. Every position is below the end of its message, and that below the size of the file, so no sum here can wrap. */
#include "models/wire.h"
#include "formats/array_file.h"

#include <string.h>

void plim__wire_init(plim__wire *w, const plim__os *os, int fd, uint64_t file_bytes, const char *path, const char *message)
{
    w->os = os;
    w->fd = fd;
    w->path = path;
    w->message = message;
    w->at = w->lo = w->n = 0;
    w->end = w->file_bytes = file_bytes;
}

/* Brings the byte at `at` into the window. */
static plim_status look(plim__wire *w, uint64_t at, plim_error *err)
{
    if (at >= w->lo && at - w->lo < w->n) return PLIM_OK;
    const uint64_t left = w->file_bytes - at, n = left < PLIM__WIRE_WINDOW ? left : PLIM__WIRE_WINDOW;
    w->n = 0;
    PLIM_TRY(plim__array_read(w->os, w->fd, w->window, n, at, w->path, err));
    w->lo = at;
    w->n = n;
    return PLIM_OK;
}

plim_status plim__wire_varint(plim__wire *w, uint64_t *at, uint64_t end, uint64_t *value, plim_error *err)
{
    uint64_t v = 0;
    const uint64_t start = *at;
    for (uint32_t shift = 0; shift < 70; shift += 7) {
        if (*at >= end)
            return plim__array_fail(err, PLIM_E_FORMAT, w->path, start, "the number at byte %llu of a %s does not end before the message does",
                                    (unsigned long long)start, w->message);
        PLIM_TRY(look(w, *at, err));
        const uint8_t byte = w->window[*at - w->lo];
        *at += 1;
        v |= shift < 64 ? (uint64_t)(byte & 0x7f) << shift : 0;
        if (byte < 0x80) {
            *value = v;
            return PLIM_OK;
        }
    }
    return plim__array_fail(err, PLIM_E_FORMAT, w->path, start, "the number at byte %llu of a %s has more than ten bytes", (unsigned long long)start,
                            w->message);
}

plim_status plim__wire_fail(const plim__wire *w, const plim__wire_field *f, plim_error *err, const char *what)
{
    return plim__array_fail(err, PLIM_E_FORMAT, w->path, f->offset, "field %u of a %s, byte %llu, %s", f->number, w->message,
                            (unsigned long long)f->offset, what);
}

static plim_status fixed(plim__wire *w, plim__wire_field *f, uint64_t n, plim_error *err)
{
    f->offset = w->at;
    f->bytes = n;
    if (n > w->end - w->at) return plim__wire_fail(w, f, err, "is cut off by the end of the message");
    uint8_t raw[8] = {0};
    PLIM_TRY(plim__wire_copy(w, f, raw, err));
    f->value = 0;
    for (uint64_t i = n; i-- > 0;) f->value = f->value << 8 | raw[i];
    w->at += n;
    return PLIM_OK;
}

plim_status plim__wire_next(plim__wire *w, plim__wire_field *f, bool *more, plim_error *err)
{
    *more = w->at < w->end;
    if (!*more) return PLIM_OK;
    uint64_t tag, n;
    PLIM_TRY(plim__wire_varint(w, &w->at, w->end, &tag, err));
    *f = (plim__wire_field){.number = (uint32_t)(tag >> 3), .type = (plim__wire_type)(tag & 7), .offset = w->at};
    if (tag >> 3 == 0 || tag >> 3 >= 1u << 29) return plim__wire_fail(w, f, err, "has a number that no field may have");
    switch (f->type) {
    case PLIM__WIRE_VARINT:
        PLIM_TRY(plim__wire_varint(w, &w->at, w->end, &f->value, err));
        f->bytes = w->at - f->offset;
        return PLIM_OK;
    case PLIM__WIRE_FIXED64: return fixed(w, f, 8, err);
    case PLIM__WIRE_FIXED32: return fixed(w, f, 4, err);
    case PLIM__WIRE_BYTES:
        PLIM_TRY(plim__wire_varint(w, &w->at, w->end, &n, err));
        f->offset = w->at;
        f->bytes = n;
        if (n > w->end - w->at)
            return plim__array_fail(err, PLIM_E_FORMAT, w->path, f->offset,
                                    "field %u of a %s, byte %llu, says that it has %llu bytes; %llu are there",
                                    f->number, w->message, (unsigned long long)f->offset, (unsigned long long)n,
                                    (unsigned long long)(w->end - w->at));
        w->at += n;
        return PLIM_OK;
    }
    return plim__wire_fail(w, f, err, "has a wire type that is not in use");
}

plim_status plim__wire_enter(plim__wire *w, const plim__wire_field *f, const char *message, plim__wire_mark *mark, plim_error *err)
{
    if (f->type != PLIM__WIRE_BYTES) return plim__wire_fail(w, f, err, "is not a message");
    *mark = (plim__wire_mark){w->at, w->end, w->message};
    w->at = f->offset;
    w->end = f->offset + f->bytes;
    w->message = message;
    return PLIM_OK;
}

void plim__wire_leave(plim__wire *w, const plim__wire_mark *mark)
{
    w->at = mark->at;
    w->end = mark->end;
    w->message = mark->message;
}

plim_status plim__wire_copy(plim__wire *w, const plim__wire_field *f, void *out, plim_error *err)
{
    uint64_t at = f->offset, left = f->bytes;
    uint8_t *to = out;
    while (left > 0) {
        PLIM_TRY(look(w, at, err));
        const uint64_t have = w->lo + w->n - at, n = have < left ? have : left;
        memcpy(to, w->window + (at - w->lo), n);
        to += n;
        at += n;
        left -= n;
    }
    return PLIM_OK;
}
