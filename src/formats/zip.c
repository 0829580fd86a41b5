/* Zip archives as NumPy and Keras write them (.npz, .keras): enough of the format to find one member and to trust what was found.
 *
 *     local header + data   for each member
 *     central directory     one entry per member: name, method, sizes, where its local header lies
 *     zip64 record          only in large archives: 64-bit place and size of the directory
 *     zip64 locator         only with it: where the record lies; 20 bytes just before the
 *     end record            place and size of the directory; a comment of up to 65,535 bytes follows
 *
 * The end record is searched from the back and counts only if its comment ends where the file ends, so that a comment cannot pose
 * as one. Every place and size is checked against the file before it is used; the local header has to agree with the directory, so
 * two readers cannot see two different members. What is encrypted, split over disks or packed by something but deflate is refused.
 *
 * Field offsets and signatures: PKWARE's APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3. A directory of n members costs n reads of
 * ENTRY_READ bytes; no memory depends on what is in the file. The data of a stored member is read by region and so its CRC is not
 * checked; a deflated one's is. */
#include "core/size.h"
#include "formats/zip.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#define SIG_LOCAL 0x04034b50u
#define SIG_ENTRY 0x02014b50u
#define SIG_END 0x06054b50u
#define SIG_END64 0x06064b50u
#define SIG_LOCATOR 0x07064b50u
#define SIG_DESCRIPTOR 0x08074b50u

#define LOCAL_BYTES 30u
#define ENTRY_BYTES 46u
#define END_BYTES 22u
#define END64_BYTES 56u
#define LOCATOR_BYTES 20u

#define NAME_MAX_BYTES 466u /* longer names are never found */
#define ENTRY_READ (ENTRY_BYTES + NAME_MAX_BYTES)
#define STEP 65536u         /* bytes inflated at a time */

#define FLAG_ENCRYPTED 0x2041u /* encryption, strong encryption, masked headers */
#define FLAG_STREAMED 0x0008u  /* sizes and CRC follow the data; those in the local header are 0 */

typedef struct directory {
    uint64_t offset, bytes, count;
} directory;

/* A directory entry, decoded. `name` lies in `raw`. */
typedef struct entry {
    uint8_t raw[ENTRY_READ];
    uint64_t offset; /* of the entry itself */
    uint64_t next;   /* of the entry after it */
    uint16_t flags, method;
    uint32_t crc;
    uint64_t packed, size, local;
    uint32_t name_n, extra_n;
} entry;

static uint16_t le16(const uint8_t *p) { return (uint16_t)(p[0] | p[1] << 8); }
static uint32_t le32(const uint8_t *p) { return (uint32_t)le16(p) | (uint32_t)le16(p + 2) << 16; }
static uint64_t le64(const uint8_t *p) { return (uint64_t)le32(p) | (uint64_t)le32(p + 4) << 32; }

static plim_status read_at(const plim__zip *z, void *buf, uint64_t n, uint64_t off, plim_error *err)
{
    return plim__array_read(z->os, z->fd, buf, n, off, z->path, err);
}

static bool inside(uint64_t offset, uint64_t n, uint64_t limit) { return n <= limit && offset <= limit - n; }

/* Returns PLIM_E_FORMAT from the calling function, which has an `err`, when `cond` holds. */
#define FORMAT_IF(cond, z, offset, ...)                                                                       \
    do {                                                                                                      \
        if (cond) return plim__array_fail(err, PLIM_E_FORMAT, (z)->path, (offset), "bad zip: " __VA_ARGS__); \
    } while (0)

/* ------------------------------------------------------------------------------------------- where the directory is */

/* Looks backward in windows of 4 KiB that overlap by an end record less one byte, so that none is missed between two. */
static plim_status find_end(const plim__zip *z, uint64_t *at, plim_error *err)
{
    uint8_t window[4096];
    const uint64_t lowest = z->bytes > END_BYTES + UINT16_MAX ? z->bytes - END_BYTES - UINT16_MAX : 0;
    uint64_t hi = z->bytes;
    while (hi >= lowest + END_BYTES) {
        const uint64_t lo = hi - lowest > sizeof window ? hi - sizeof window : lowest;
        PLIM_TRY(read_at(z, window, hi - lo, lo, err));
        for (uint64_t i = hi - lo - END_BYTES + 1; i-- > 0;) {
            if (le32(window + i) != SIG_END || lo + i + END_BYTES + le16(window + i + 20) != z->bytes) continue;
            *at = lo + i;
            return PLIM_OK;
        }
        hi = lo == lowest ? 0 : lo + END_BYTES - 1;
    }
    return plim__array_fail(err, PLIM_E_FORMAT, z->path, z->bytes, "no zip directory at its end, byte %llu: not a zip archive, or cut short",
                            (unsigned long long)z->bytes);
}

static plim_status find_directory64(const plim__zip *z, uint64_t end, directory *d, plim_error *err)
{
    uint8_t locator[LOCATOR_BYTES], record[END64_BYTES];
    FORMAT_IF(end < LOCATOR_BYTES, z, end, "no room for the zip64 locator before byte %llu", (unsigned long long)end);
    PLIM_TRY(read_at(z, locator, sizeof locator, end - LOCATOR_BYTES, err));
    FORMAT_IF(le32(locator) != SIG_LOCATOR, z, end - LOCATOR_BYTES, "no zip64 locator at byte %llu",
              (unsigned long long)(end - LOCATOR_BYTES));
    const uint64_t at = le64(locator + 8);
    FORMAT_IF(!inside(at, END64_BYTES, end - LOCATOR_BYTES), z, end - LOCATOR_BYTES + 8, "the zip64 record at byte %llu is outside the file",
              (unsigned long long)at);
    PLIM_TRY(read_at(z, record, sizeof record, at, err));
    FORMAT_IF(le32(record) != SIG_END64, z, at, "no zip64 record at byte %llu", (unsigned long long)at);
    FORMAT_IF(le32(record + 16) != 0 || le32(record + 20) != 0 || le64(record + 24) != le64(record + 32), z, at, "it is split over disks");
    *d = (directory){.count = le64(record + 32), .bytes = le64(record + 40), .offset = le64(record + 48)};
    FORMAT_IF(!inside(d->offset, d->bytes, at), z, at + 40, "a directory of %llu bytes at byte %llu is outside the file",
              (unsigned long long)d->bytes, (unsigned long long)d->offset);
    return PLIM_OK;
}

static plim_status find_directory(const plim__zip *z, directory *d, plim_error *err)
{
    uint64_t end = 0;
    uint8_t record[END_BYTES];
    PLIM_TRY(find_end(z, &end, err));
    PLIM_TRY(read_at(z, record, sizeof record, end, err));
    *d = (directory){.count = le16(record + 10), .bytes = le32(record + 12), .offset = le32(record + 16)};
    if (d->count == UINT16_MAX || d->bytes == UINT32_MAX || d->offset == UINT32_MAX) return find_directory64(z, end, d, err);
    FORMAT_IF(le16(record + 4) != 0 || le16(record + 6) != 0 || le16(record + 8) != d->count, z, end, "it is split over disks");
    FORMAT_IF(!inside(d->offset, d->bytes, end), z, end + 12, "a directory of %llu bytes at byte %llu is outside the file",
              (unsigned long long)d->bytes, (unsigned long long)d->offset);
    return PLIM_OK;
}

/* --------------------------------------------------------------------------------------------------- its entries */

static const uint8_t *entry_name(const entry *e) { return e->raw + ENTRY_BYTES; }

static plim_status entry_read(const plim__zip *z, const directory *d, uint64_t at, entry *e, plim_error *err)
{
    const uint64_t end = d->offset + d->bytes;
    FORMAT_IF(!inside(at, ENTRY_BYTES, end), z, at, "the directory ends at byte %llu, inside an entry", (unsigned long long)end);
    const uint64_t n = end - at < ENTRY_READ ? end - at : ENTRY_READ;
    PLIM_TRY(read_at(z, e->raw, n, at, err));
    FORMAT_IF(le32(e->raw) != SIG_ENTRY, z, at, "no directory entry at byte %llu", (unsigned long long)at);
    e->offset = at;
    e->flags = le16(e->raw + 8);
    e->method = le16(e->raw + 10);
    e->crc = le32(e->raw + 16);
    e->packed = le32(e->raw + 20);
    e->size = le32(e->raw + 24);
    e->name_n = le16(e->raw + 28);
    e->extra_n = le16(e->raw + 30);
    e->local = le32(e->raw + 42);
    const uint64_t tail = (uint64_t)e->name_n + e->extra_n + le16(e->raw + 32);
    FORMAT_IF(!inside(at + ENTRY_BYTES, tail, end), z, at, "the directory entry at byte %llu reaches beyond the directory",
              (unsigned long long)at);
    e->next = at + ENTRY_BYTES + tail;
    return PLIM_OK;
}

/* Fields of 32 bits that are all ones stand, in this order, in the extra field of id 1. */
static plim_status entry_widen(const plim__zip *z, entry *e, plim_error *err)
{
    uint64_t *wide[3];
    uint32_t n_wide = 0;
    if (e->size == UINT32_MAX) wide[n_wide++] = &e->size;
    if (e->packed == UINT32_MAX) wide[n_wide++] = &e->packed;
    if (e->local == UINT32_MAX) wide[n_wide++] = &e->local;
    if (n_wide == 0) return PLIM_OK;

    uint64_t at = e->offset + ENTRY_BYTES + e->name_n;
    const uint64_t end = at + e->extra_n;
    while (inside(at, 4, end)) {
        uint8_t field[4 + 24];
        PLIM_TRY(read_at(z, field, 4, at, err));
        const uint32_t id = le16(field), n = le16(field + 2);
        FORMAT_IF(!inside(at + 4, n, end), z, at, "the extra field at byte %llu is too long", (unsigned long long)at);
        if (id == 1) {
            FORMAT_IF(n < n_wide * 8, z, at, "the zip64 sizes at byte %llu are incomplete", (unsigned long long)at);
            PLIM_TRY(read_at(z, field + 4, n_wide * 8, at + 4, err));
            for (uint32_t i = 0; i < n_wide; i++) *wide[i] = le64(field + 4 + 8 * i);
            return PLIM_OK;
        }
        at += 4 + n;
    }
    return PLIM_OK; /* without the field the numbers stand as they are; they have to fit the file like any others */
}

/* 0: another one; 1: name + suffix; 2: the very name. */
static int name_match(const entry *e, const char *name, const char *suffix)
{
    if (e->name_n > NAME_MAX_BYTES) return 0;
    if (!name) return 2;
    const size_t n = strlen(name), n_suffix = strlen(suffix);
    if (e->name_n < n || memcmp(entry_name(e), name, n) != 0) return 0;
    if (e->name_n == n) return 2;
    return e->name_n == n + n_suffix && memcmp(entry_name(e) + n, suffix, n_suffix) == 0;
}

/* Names for the message of a failed search: as many as fit, and how many there are besides. */
typedef struct name_list {
    char text[260];
    size_t used;
    uint64_t shown;
} name_list;

static void list_add(name_list *l, const entry *e, const char *suffix)
{
    char shown[64];
    uint64_t n = e->name_n < NAME_MAX_BYTES ? e->name_n : NAME_MAX_BYTES;
    const size_t n_suffix = strlen(suffix);
    if (n > n_suffix && memcmp(entry_name(e) + n - n_suffix, suffix, n_suffix) == 0) n -= n_suffix;
    plim__array_quote(shown, sizeof shown, entry_name(e), n);
    const size_t need = strlen(shown) + (l->used ? 2 : 0);
    if (l->used + need >= sizeof l->text) return;
    l->used += (size_t)snprintf(l->text + l->used, sizeof l->text - l->used, "%s%s", l->used ? ", " : "", shown);
    l->shown++;
}

static plim_status fail_missing(const plim__zip *z, const directory *d, const char *name, const name_list *l, plim_error *err)
{
    char more[48] = "";
    if (l->shown < d->count) snprintf(more, sizeof more, " and %llu more", (unsigned long long)(d->count - l->shown));
    if (d->count == 0) return plim__array_fail(err, PLIM_E_INVALID, z->path, d->offset, "an archive without members");
    if (!name)
        return plim__array_fail(err, PLIM_E_INVALID, z->path, d->offset, "say which member, as in file.npz:name; there are %s%s", l->text, more);
    return plim__array_fail(err, PLIM_E_INVALID, z->path, d->offset, "no member '%.80s'; there are %s%s", name, l->text, more);
}

static plim_status find_entry(const plim__zip *z, const directory *d, const char *name, const char *suffix, entry *found, plim_error *err)
{
    name_list list = {0};
    int best = 0;
    uint64_t at = d->offset;
    entry e;
    for (uint64_t i = 0; i < d->count; i++, at = e.next) {
        PLIM_TRY(entry_read(z, d, at, &e, err));
        list_add(&list, &e, suffix);
        const int match = name_match(&e, name, suffix);
        if (match == 0 || match < best) continue;
        best = match;
        *found = e;
    }
    if (best == 0 || (!name && d->count != 1)) return fail_missing(z, d, name, &list, err);
    return entry_widen(z, found, err);
}

/* ---------------------------------------------------------------------------------------------------- the member */

static plim_status check_method(const plim__zip *z, const entry *e, plim_error *err)
{
    char shown[64];
    plim__array_quote(shown, sizeof shown, entry_name(e), e->name_n);
    if (e->flags & FLAG_ENCRYPTED)
        return plim__array_fail(err, PLIM_E_UNSUPPORTED, z->path, e->offset, "member '%s' is encrypted", shown);
    if (e->method != 0 && e->method != 8) {
        const char *what = e->method == 9    ? "deflate64"
                           : e->method == 12 ? "bzip2"
                           : e->method == 14 ? "lzma"
                           : e->method == 93 ? "zstd"
                                             : "an unknown way";
        return plim__array_fail(err, PLIM_E_UNSUPPORTED, z->path, e->offset,
                                "member '%s' is packed by %s (method %u); stored and deflate can be read", shown, what, e->method);
    }
    FORMAT_IF(e->method == 0 && e->packed != e->size, z, e->offset, "stored member '%s' has %llu bytes packed and %llu unpacked", shown,
              (unsigned long long)e->packed, (unsigned long long)e->size);
    return PLIM_OK;
}

/* The local header repeats the entry; sizes of all ones stand in its own zip64 field and are then left to the entry. */
static bool local_agrees(const uint8_t *h, const entry *e)
{
    const uint16_t flags = le16(h + 6);
    if (le32(h) != SIG_LOCAL || le16(h + 8) != e->method || le16(h + 26) != e->name_n) return false;
    if ((flags ^ e->flags) & FLAG_ENCRYPTED) return false;
    if (flags & FLAG_STREAMED) return true;
    const uint32_t packed = le32(h + 18), size = le32(h + 22);
    return le32(h + 14) == e->crc && (packed == UINT32_MAX || packed == e->packed) && (size == UINT32_MAX || size == e->size);
}

static plim_status locate(const plim__zip *z, const directory *d, const entry *e, plim__zip_member *out, plim_error *err)
{
    uint8_t local[LOCAL_BYTES + NAME_MAX_BYTES];
    const uint64_t head = LOCAL_BYTES + e->name_n;
    FORMAT_IF(!inside(e->local, head, d->offset), z, e->offset, "the directory entry at byte %llu points to byte %llu, outside the members",
              (unsigned long long)e->offset, (unsigned long long)e->local);
    PLIM_TRY(read_at(z, local, head, e->local, err));
    FORMAT_IF(!local_agrees(local, e) || memcmp(local + LOCAL_BYTES, entry_name(e), e->name_n) != 0, z, e->local,
              "the member at byte %llu and its directory entry at byte %llu do not agree", (unsigned long long)e->local,
              (unsigned long long)e->offset);
    const uint64_t data = e->local + head + le16(local + 28);
    FORMAT_IF(!inside(data, e->packed, d->offset), z, e->local, "the member at byte %llu has %llu bytes and reaches beyond byte %llu",
              (unsigned long long)e->local, (unsigned long long)e->packed, (unsigned long long)d->offset);
    *out = (plim__zip_member){.data = data, .packed = e->packed, .size = e->size, .crc = e->crc, .deflated = e->method == 8,
                              .streamed = le16(local + 6) & FLAG_STREAMED, .local = e->local, .entry = e->offset};
    return PLIM_OK;
}

plim_status plim__zip_find(plim__zip_member *out, const plim__zip *z, const char *name, const char *suffix, plim_error *err)
{
    directory d;
    entry e = {0};
    PLIM_TRY(find_directory(z, &d, err));
    PLIM_TRY(find_entry(z, &d, name, suffix, &e, err));
    PLIM_TRY(check_method(z, &e, err));
    return locate(z, &d, &e, out, err);
}

/* Behind a streamed member's data stand CRC and sizes, with or without a signature. */
plim_status plim__zip_crc_places(uint64_t at[2], const plim__zip *z, const plim__zip_member *m, plim_error *err)
{
    uint8_t d[8];
    const uint64_t end = m->data + m->packed;
    at[0] = m->entry + 16;
    at[1] = m->local + 14;
    if (!m->streamed) return PLIM_OK;
    PLIM_TRY(read_at(z, d, sizeof d, end, err)); /* at least a directory entry follows */
    const bool marked = le32(d) == SIG_DESCRIPTOR && le32(d + 4) == m->crc;
    FORMAT_IF(!marked && le32(d) != m->crc, z, end, "the CRC behind the member, at byte %llu, is not that of its directory entry",
              (unsigned long long)end);
    at[1] = marked ? end + 4 : end;
    return PLIM_OK;
}

/* ------------------------------------------------------------------------------------------------------ inflating */

typedef struct inflater {
    z_stream stream;
    uint64_t taken; /* packed bytes given to zlib */
    uint64_t given; /* bytes passed on */
    uint32_t crc;
    uint8_t in[STEP], out[STEP];
} inflater;

static const plim__alloc c_library = {0};

static void *zlib_new(void *opaque, uInt n, uInt size)
{
    (void)opaque;
    return plim__new(&c_library, n, size, NULL);
}

static void zlib_free(void *opaque, void *p)
{
    (void)opaque;
    plim__free(&c_library, p);
}

static plim_status refill(inflater *f, const plim__zip *z, const plim__zip_member *m, plim_error *err)
{
    const uint64_t left = m->packed - f->taken;
    const uint64_t n = left < STEP ? left : STEP;
    PLIM_TRY(read_at(z, f->in, n, m->data + f->taken, err));
    f->taken += n;
    f->stream.next_in = f->in;
    f->stream.avail_in = (uInt)n;
    return PLIM_OK;
}

/* One step: up to STEP bytes out. `*end` is set at the end of the deflate stream. */
static plim_status inflate_step(inflater *f, const plim__zip *z, const plim__zip_member *m, bool *end, plim_error *err)
{
    f->stream.next_out = f->out;
    f->stream.avail_out = STEP;
    while (f->stream.avail_out > 0 && !*end) {
        if (f->stream.avail_in == 0 && f->taken < m->packed) PLIM_TRY(refill(f, z, m, err));
        const uint64_t at = m->data + f->taken - f->stream.avail_in;
        const int code = inflate(&f->stream, Z_NO_FLUSH);
        *end = code == Z_STREAM_END;
        if (code == Z_MEM_ERROR) return plim__fail_at(err, PLIM_E_NOMEM, z->path, "out of memory for zlib's window");
        FORMAT_IF(code == Z_BUF_ERROR && f->taken == m->packed, z, at, "the deflated member at byte %llu ends too early",
                  (unsigned long long)m->data);
        FORMAT_IF(code != Z_OK && code != Z_STREAM_END && code != Z_BUF_ERROR, z, at, "damaged deflate data near byte %llu (%s)",
                  (unsigned long long)at, f->stream.msg ? f->stream.msg : "zlib gives no reason");
    }
    return PLIM_OK;
}

static plim_status inflate_all(inflater *f, const plim__zip *z, const plim__zip_member *m, uint64_t want, plim__zip_sink *sink, void *ctx,
                               plim_error *err)
{
    bool end = false;
    while (!end) {
        if (want < m->size && f->given >= want) return PLIM_OK;
        PLIM_TRY(inflate_step(f, z, m, &end, err));
        const uint64_t n = STEP - f->stream.avail_out;
        FORMAT_IF(n > m->size - f->given, z, m->data, "the member at byte %llu unpacks to more than its %llu bytes",
                  (unsigned long long)m->data, (unsigned long long)m->size);
        f->crc = (uint32_t)crc32(f->crc, f->out, (uInt)n);
        const uint64_t pass = n < want - f->given ? n : want - f->given;
        if (pass) PLIM_TRY(sink(ctx, f->out, pass, err));
        f->given += n;
    }
    FORMAT_IF(f->given != m->size, z, m->data, "the member at byte %llu unpacks to %llu bytes, not %llu", (unsigned long long)m->data,
              (unsigned long long)f->given, (unsigned long long)m->size);
    FORMAT_IF(f->crc != m->crc, z, m->data, "the member at byte %llu has CRC %08x, not %08x: its data is damaged",
              (unsigned long long)m->data, f->crc, m->crc);
    return PLIM_OK;
}

plim_status plim__zip_inflate(const plim__zip *z, const plim__zip_member *m, uint64_t want, plim__zip_sink *sink, void *ctx, plim_error *err)
{
    inflater *f = plim__new(&c_library, 1, sizeof *f, err);
    if (!f) return PLIM_E_NOMEM;
    plim_status status;
    f->stream.zalloc = zlib_new;
    f->stream.zfree = zlib_free;
    f->crc = (uint32_t)crc32(0, NULL, 0);
    if (inflateInit2(&f->stream, -MAX_WBITS) != Z_OK) {
        status = plim__fail_at(err, PLIM_E_NOMEM, z->path, "out of memory for zlib's window");
        goto done;
    }
    status = inflate_all(f, z, m, want < m->size ? want : m->size, sink, ctx, err);
    inflateEnd(&f->stream);
done:
    plim__free(&c_library, f);
    return status;
}
