/* The one file that knows libhdf5. Its functions are found with dlsym, under the names and with the types of the header that this was compiled with;
 * a library of another version is refused, because structs of the two may differ. A file is read through a driver of our own (H5FD_class_t): it
 * starts anywhere in the real file, so that the member of an archive needs no copy. */
#include "models/hdf5.h"
#include "core/size.h"

#include <dlfcn.h>
#include <hdf5.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#define TEXT_MAX (UINT64_C(256) << 20) /* bytes of one attribute */
#define READ_ONLY 0u                   /* H5F_ACC_RDONLY, which as a macro calls functions of the library that is not linked */

/* field, function: the header's macros give a function its versioned name */
#define FUNCTIONS(X)                                                                                                                    \
    X(open, H5open) X(version, H5get_libversion) X(collect, H5garbage_collect)                                                            \
    X(error_get, H5Eget_auto2) X(error_set, H5Eset_auto2)                                                                                  \
    X(driver_add, H5FDregister) X(driver_remove, H5FDunregister) X(list_new, H5Pcreate) X(list_close, H5Pclose) X(list_driver, H5Pset_driver) \
    X(file_open, H5Fopen) X(file_close, H5Fclose)                                                                                          \
    X(link_exists, H5Lexists) X(link_info, H5Lget_info)                                                                                    \
    X(attr_exists, H5Aexists_by_name) X(attr_open, H5Aopen_by_name) X(attr_type, H5Aget_type) X(attr_space, H5Aget_space)                    \
    X(attr_read, H5Aread) X(attr_close, H5Aclose)                                                                                          \
    X(type_class, H5Tget_class) X(type_size, H5Tget_size) X(type_sign, H5Tget_sign) X(type_order, H5Tget_order)                              \
    X(type_variable, H5Tis_variable_str) X(type_close, H5Tclose)                                                                           \
    X(space_points, H5Sget_simple_extent_npoints) X(space_rank, H5Sget_simple_extent_ndims) X(space_dims, H5Sget_simple_extent_dims)         \
    X(space_close, H5Sclose) X(reclaim, H5Dvlen_reclaim)                                                                                   \
    X(data_open, H5Dopen2) X(data_close, H5Dclose) X(data_type, H5Dget_type) X(data_space, H5Dget_space) X(data_list, H5Dget_create_plist)   \
    X(data_offset, H5Dget_offset) X(list_layout, H5Pget_layout) X(list_external, H5Pget_external_count)

#define TEXT_OF(x) #x
#define NAME_OF(x) TEXT_OF(x)

/* The bytes that the driver serves. */
typedef struct store {
    const plim__os *os;
    int fd;
    uint64_t base, bytes;
} store;

struct plim__hdf5 {
#define X(field, function) __typeof__(&function) field;
    FUNCTIONS(X)
#undef X
    plim__alloc alloc;
    const char *path;
    store store;
    hid_t driver, file;
    H5E_auto2_t error_fn; /* what the process had before */
    void *error_arg;
};

/* An open file as the library sees it. */
typedef struct store_file {
    H5FD_t pub;
    const store *store;
    haddr_t end;
} store_file;

static pthread_mutex_t one_at_a_time = PTHREAD_MUTEX_INITIALIZER;
/* What the driver is to open: the library hands it a name and a property list, neither of which can carry a pointer. NULL: nothing, such as the
 * target of an external link. */
static _Thread_local const store *opening;

/* ------------------------------------------------------------------------------------------------------ the driver */

static H5FD_t *store_open(const char *name, unsigned flags, hid_t list, haddr_t most)
{
    (void)name, (void)list, (void)most;
    if (!opening || flags != READ_ONLY) return NULL;
    const plim__alloc c_library = {0};
    store_file *f = plim__new(&c_library, 1, sizeof *f, NULL);
    if (f) f->store = opening;
    return f ? &f->pub : NULL;
}

static herr_t store_close(H5FD_t *f)
{
    const plim__alloc c_library = {0};
    plim__free(&c_library, f);
    return 0;
}

static haddr_t store_get_eoa(const H5FD_t *f, H5FD_mem_t type) { return (void)type, ((const store_file *)f)->end; }

static herr_t store_set_eoa(H5FD_t *f, H5FD_mem_t type, haddr_t end)
{
    (void)type;
    ((store_file *)f)->end = end;
    return 0;
}

static haddr_t store_get_eof(const H5FD_t *f, H5FD_mem_t type) { return (void)type, ((const store_file *)f)->store->bytes; }

static herr_t store_read(H5FD_t *f, H5FD_mem_t type, hid_t list, haddr_t at, size_t n, void *buf)
{
    (void)type, (void)list;
    const store *s = ((const store_file *)f)->store;
    if (n > s->bytes || at > s->bytes - n) return -1;
    for (uint64_t done = 0; done < n;) {
        const int64_t got = s->os->pread(s->os->self, s->fd, (char *)buf + done, n - done, s->base + at + done);
        if (got <= 0) return -1;
        done += (uint64_t)got;
    }
    return 0;
}

static herr_t store_write(H5FD_t *f, H5FD_mem_t type, hid_t list, haddr_t at, size_t n, const void *buf)
{
    return (void)f, (void)type, (void)list, (void)at, (void)n, (void)buf, -1; /* opened for reading */
}

static const H5FD_class_t driver = {
#ifdef H5FD_CLASS_VERSION
    .version = H5FD_CLASS_VERSION,
    .value = (H5FD_class_value_t)600, /* of the range that is free for private drivers */
#endif
    .name = "plimsoll",
    .maxaddr = (haddr_t)INT64_MAX,
    .fc_degree = H5F_CLOSE_STRONG,
    .open = store_open,
    .close = store_close,
    .get_eoa = store_get_eoa,
    .set_eoa = store_set_eoa,
    .get_eof = store_get_eof,
    .read = store_read,
    .write = store_write,
    .fl_map = H5FD_FLMAP_DICHOTOMY,
};

/* ----------------------------------------------------------------------------------------------- loading and opening */

static bool load_functions(plim__hdf5 *h, void *library)
{
    bool all = true;
    void *p;
#define X(field, function)                    \
    p = dlsym(library, NAME_OF(function));    \
    all = all && p;                           \
    memcpy(&h->field, &p, sizeof h->field);
    FUNCTIONS(X)
#undef X
    return all;
}

/* The library stays in the process once it is there: it registers things that run at its end. @return its handle or NULL */
static void *load_library(plim__hdf5 *h)
{
    static const char *const names[] = {"libhdf5_serial.so.103", "libhdf5.so.103", "libhdf5_serial.so.310", "libhdf5.so.310",
                                        "libhdf5_serial.so.200", "libhdf5.so.200", "libhdf5_serial.so", "libhdf5.so"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        void *library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
        unsigned major, minor, release;
        if (library && load_functions(h, library) && h->open() >= 0 && h->version(&major, &minor, &release) >= 0 && major == H5_VERS_MAJOR &&
            minor == H5_VERS_MINOR)
            return library;
        if (library) dlclose(library);
    }
    return NULL;
}

static plim_status open_file(plim__hdf5 *h, void *library, plim_error *err)
{
    hid_t *access_class = dlsym(library, "H5P_CLS_FILE_ACCESS_ID_g");
    const hid_t list = access_class ? h->list_new(*access_class) : -1;
    h->driver = h->driver_add(&driver);
    if (list >= 0 && h->driver >= 0 && h->list_driver(list, h->driver, NULL) >= 0) {
        opening = &h->store;
        h->file = h->file_open("plimsoll", READ_ONLY, list);
        opening = NULL;
    }
    if (list >= 0) h->list_close(list);
    if (h->file >= 0) return PLIM_OK;
    return plim__fail_at(err, PLIM_E_FORMAT, h->path, "'%.80s': its HDF5 part of %llu bytes at byte %llu cannot be opened: damaged, or cut short",
                         h->path, (unsigned long long)h->store.bytes, (unsigned long long)h->store.base);
}

static plim_status check_signature(const store *s, const char *path, plim_error *err)
{
    char start[8];
    bool right = s->bytes >= sizeof start;
    for (uint64_t done = 0; right && done < sizeof start;) {
        const int64_t got = s->os->pread(s->os->self, s->fd, start + done, sizeof start - done, s->base + done);
        if (got < 0) return plim__os_fail((int)got, "read", path, s->base + done, err);
        right = got > 0;
        done += (uint64_t)got;
    }
    if (right && memcmp(start, PLIM__HDF5_SIGNATURE, sizeof start) == 0) return PLIM_OK;
    return plim__fail_at(err, PLIM_E_FORMAT, path, "'%.80s': no HDF5 signature at byte %llu", path, (unsigned long long)s->base);
}

plim_status plim__hdf5_open(plim__hdf5 **out, const plim__os *os, int fd, uint64_t base, uint64_t bytes, const char *path, plim__alloc alloc,
                            plim_error *err)
{
    const store where = {.os = os, .fd = fd, .base = base, .bytes = bytes};
    *out = NULL;
    PLIM_TRY(check_signature(&where, path, err));
    plim__hdf5 *h = plim__new(&alloc, 1, sizeof *h, err);
    if (!h) return PLIM_E_NOMEM;
    h->alloc = alloc;
    h->path = path;
    h->store = where;
    h->driver = h->file = -1;
    pthread_mutex_lock(&one_at_a_time);
    void *library = load_library(h);
    if (!library) {
        pthread_mutex_unlock(&one_at_a_time);
        plim__free(&alloc, h);
        return plim__fail_at(err, PLIM_E_UNSUPPORTED, path, "'%.80s' is an HDF5 file, and the library for it (libhdf5 %d.%d) is not installed", path,
                             H5_VERS_MAJOR, H5_VERS_MINOR);
    }
    h->error_get(H5E_DEFAULT, &h->error_fn, &h->error_arg);
    h->error_set(H5E_DEFAULT, NULL, NULL);
    const plim_status status = open_file(h, library, err);
    if (status != PLIM_OK) plim__hdf5_close(&h);
    *out = h;
    return status;
}

void plim__hdf5_close(plim__hdf5 **hp)
{
    plim__hdf5 *h = *hp;
    if (!h) return;
    if (h->file >= 0) h->file_close(h->file);
    if (h->driver >= 0) h->driver_remove(h->driver);
    h->collect();
    h->error_set(H5E_DEFAULT, h->error_fn, h->error_arg);
    pthread_mutex_unlock(&one_at_a_time);
    const plim__alloc alloc = h->alloc;
    plim__free(&alloc, h);
    *hp = NULL;
}

/* ---------------------------------------------------------------------------------------------------------- objects */

bool plim__hdf5_has(const plim__hdf5 *h, const char *object)
{
    char prefix[512];
    const size_t n = strlen(object);
    if (n == 0 || n >= sizeof prefix) return false;
    if (strcmp(object, "/") == 0) return true;
    for (size_t i = 1; i <= n; i++) {
        if (object[i] != '/' && object[i] != 0) continue;
        H5L_info_t info;
        memcpy(prefix, object, i);
        prefix[i] = 0;
        if (h->link_exists(h->file, prefix, H5P_DEFAULT) <= 0) return false;
        if (h->link_info(h->file, prefix, &info, H5P_DEFAULT) < 0 || info.type != H5L_TYPE_HARD) return false;
    }
    return true;
}

bool plim__hdf5_has_attribute(const plim__hdf5 *h, const char *object, const char *name)
{
    return plim__hdf5_has(h, object) && h->attr_exists(h->file, object, name, H5P_DEFAULT) > 0;
}

static plim_status fail_object(const plim__hdf5 *h, plim_status code, const char *object, const char *what, plim_error *err)
{
    return plim__fail_at(err, code, h->path, "'%.80s': '%.120s': %s", h->path, object, what);
}

/* An attribute's open handles. */
typedef struct attribute {
    hid_t attr, type, space;
    uint64_t count, size; /* elements, and bytes of one */
    bool text, variable;
} attribute;

static void attribute_close(const plim__hdf5 *h, attribute *a)
{
    if (a->space >= 0) h->space_close(a->space);
    if (a->type >= 0) h->type_close(a->type);
    if (a->attr >= 0) h->attr_close(a->attr);
}

static bool attribute_open(const plim__hdf5 *h, const char *object, const char *name, attribute *a)
{
    *a = (attribute){.attr = -1, .type = -1, .space = -1};
    if (!plim__hdf5_has_attribute(h, object, name)) return false;
    a->attr = h->attr_open(h->file, object, name, H5P_DEFAULT, H5P_DEFAULT);
    if (a->attr < 0) return false;
    a->type = h->attr_type(a->attr);
    a->space = h->attr_space(a->attr);
    if (a->type < 0 || a->space < 0) return false;
    const hssize_t count = h->space_points(a->space);
    a->count = count > 0 ? (uint64_t)count : 0;
    a->size = h->type_size(a->type);
    a->text = h->type_class(a->type) == H5T_STRING;
    a->variable = a->text && h->type_variable(a->type) > 0;
    return count >= 0;
}

/* Element i of what was read, and how long it is. */
static const char *element(const attribute *a, const void *raw, uint64_t i, size_t *n)
{
    const char *text = a->variable ? ((char *const *)raw)[i] : (const char *)raw + i * a->size;
    *n = !text ? 0 : a->variable ? strlen(text) : strnlen(text, a->size);
    return text;
}

static plim_status join(const plim__hdf5 *h, const attribute *a, const void *raw, char **out, plim_error *err)
{
    uint64_t bytes = 0;
    size_t n;
    for (uint64_t i = 0; i < a->count; i++) {
        element(a, raw, i, &n);
        bytes += n + 1; /* each lies in memory already: no overflow */
    }
    char *to = plim__new(&h->alloc, bytes + 1, 1, err);
    if (!to) return PLIM_E_NOMEM;
    *out = to;
    for (uint64_t i = 0; i < a->count; i++) {
        const char *text = element(a, raw, i, &n);
        if (n) memcpy(to, text, n);
        to += n + 1;
    }
    return PLIM_OK;
}

static plim_status read_attribute(const plim__hdf5 *h, const char *object, const char *name, const attribute *a, char **out, plim_error *err)
{
    char what[160];
    uint64_t bytes;
    snprintf(what, sizeof what, "attribute '%.80s' does not hold text, or too much", name);
    if (a->count > 0 && !a->text) return fail_object(h, PLIM_E_FORMAT, object, what, err);
    if (!plim__mul(&bytes, a->count, a->size) || bytes > TEXT_MAX) return fail_object(h, PLIM_E_FORMAT, object, what, err);
    void *raw = plim__new(&h->alloc, bytes + 1, 1, err);
    if (!raw) return PLIM_E_NOMEM;
    plim_status status = PLIM_OK;
    snprintf(what, sizeof what, "attribute '%.80s' cannot be read: damaged", name);
    if (a->count > 0 && h->attr_read(a->attr, a->type, raw) < 0) status = fail_object(h, PLIM_E_FORMAT, object, what, err);
    if (status == PLIM_OK) {
        status = join(h, a, raw, out, err);
        if (a->variable) h->reclaim(a->type, a->space, H5P_DEFAULT, raw);
    }
    plim__free(&h->alloc, raw);
    return status;
}

plim_status plim__hdf5_strings(const plim__hdf5 *h, const char *object, const char *name, char **out, uint32_t *n, plim_error *err)
{
    attribute a;
    char what[160];
    plim_status status = PLIM_OK;
    *out = NULL;
    *n = 0;
    snprintf(what, sizeof what, "no attribute '%.80s'", name);
    if (!attribute_open(h, object, name, &a) || a.count >= UINT32_MAX) status = fail_object(h, PLIM_E_FORMAT, object, what, err);
    if (status == PLIM_OK) status = read_attribute(h, object, name, &a, out, err);
    if (status == PLIM_OK) *n = (uint32_t)a.count;
    attribute_close(h, &a);
    return status;
}

/* --------------------------------------------------------------------------------------------------------- datasets */

/* A dataset's open handles. */
typedef struct dataset {
    hid_t data, type, space, list;
} dataset;

static bool type_of(const plim__hdf5 *h, hid_t type, plim__hdf5_array *out)
{
    static const plim_dtype floats[9] = {[2] = PLIM_F16, [4] = PLIM_F32, [8] = PLIM_F64};
    static const plim_dtype ints[2][9] = {{[1] = PLIM_U8, [2] = PLIM_U16, [4] = PLIM_U32, [8] = PLIM_U64},
                                          {[1] = PLIM_I8, [2] = PLIM_I16, [4] = PLIM_I32, [8] = PLIM_I64}};
    const H5T_class_t kind = h->type_class(type);
    const size_t size = h->type_size(type);
    if (size > 8 || (kind != H5T_FLOAT && kind != H5T_INTEGER)) return false;
    out->dtype = kind == H5T_FLOAT ? floats[size] : ints[h->type_sign(type) == H5T_SGN_2][size];
    const H5T_order_t order = h->type_order(type);
    const bool big = __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__;
    out->swap = size > 1 && order == (big ? H5T_ORDER_LE : H5T_ORDER_BE);
    return out->dtype != PLIM_BOOL && (order == H5T_ORDER_LE || order == H5T_ORDER_BE);
}

static bool shape_of(const plim__hdf5 *h, hid_t space, plim_shape *out)
{
    hsize_t dim[H5S_MAX_RANK];
    const int rank = h->space_rank(space);
    if (rank < 0 || rank > PLIM_MAX_RANK || h->space_dims(space, dim, NULL) != rank) return false;
    *out = (plim_shape){.rank = (uint32_t)rank};
    for (int d = 0; d < rank; d++) {
        if (dim[d] > INT64_MAX) return false;
        out->dim[d] = (int64_t)dim[d];
    }
    return true;
}

static plim_status dataset_find(const plim__hdf5 *h, const char *object, const dataset *d, plim__hdf5_array *out, plim_error *err)
{
    uint64_t bytes;
    if (d->data < 0 || d->type < 0 || d->space < 0 || d->list < 0) return fail_object(h, PLIM_E_FORMAT, object, "not a dataset, or damaged", err);
    if (!type_of(h, d->type, out)) return fail_object(h, PLIM_E_UNSUPPORTED, object, "its elements are neither plain integers nor floats", err);
    if (!shape_of(h, d->space, &out->shape) || plim_shape_bytes(&bytes, &out->shape, out->dtype, NULL) != PLIM_OK)
        return fail_object(h, PLIM_E_FORMAT, object, "its shape has too many dimensions or elements", err);
    if (h->list_layout(d->list) != H5D_CONTIGUOUS || h->list_external(d->list) != 0)
        return fail_object(h, PLIM_E_UNSUPPORTED, object,
                           "its data does not lie in one piece (chunked, compressed or elsewhere); load the model with Keras and save it again", err);
    out->offset = 0;
    if (bytes == 0) return PLIM_OK;
    const haddr_t at = h->data_offset(d->data);
    if (at == HADDR_UNDEF || bytes > h->store.bytes || at > h->store.bytes - bytes)
        return fail_object(h, PLIM_E_FORMAT, object, "its data is not inside the file", err);
    out->offset = h->store.base + at;
    return PLIM_OK;
}

plim_status plim__hdf5_array_find(const plim__hdf5 *h, const char *object, plim__hdf5_array *out, plim_error *err)
{
    *out = (plim__hdf5_array){0};
    if (!plim__hdf5_has(h, object)) return fail_object(h, PLIM_E_FORMAT, object, "is not in the file", err);
    dataset d = {.data = h->data_open(h->file, object, H5P_DEFAULT), .type = -1, .space = -1, .list = -1};
    if (d.data >= 0) {
        d.type = h->data_type(d.data);
        d.space = h->data_space(d.data);
        d.list = h->data_list(d.data);
    }
    const plim_status status = dataset_find(h, object, &d, out, err);
    if (d.list >= 0) h->list_close(d.list);
    if (d.space >= 0) h->space_close(d.space);
    if (d.type >= 0) h->type_close(d.type);
    if (d.data >= 0) h->data_close(d.data);
    return status;
}
