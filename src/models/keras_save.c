/* Keras' datasets lie in one piece each, without checksums, and in an archive the file of weights is stored, or it could not have been read: so the
 * copy is the file with ranges replaced. An archive has a CRC-32 of the member, in two places, which is corrected at the end. */
#include "models/keras_save.h"
#include "formats/zip.h"
#include "models/keras.h"
#include "models/trained_copy.h"

static plim_status copy_hdf5(plim__file_writer *w, const plim__trained_file *f, plim__tensor_reader reader, plim_error *err)
{
    return plim__file_writer_patched(w, f->from, 0, f->stat.size, f->patch, f->n_patches, reader, err);
}

static plim_status copy_archive(plim__file_writer *w, const plim__trained_file *f, plim__tensor_reader reader, plim_error *err)
{
    const plim__zip z = {.os = w->os, .fd = f->from.fd, .bytes = f->stat.size, .path = f->from.path};
    plim__zip_member m;
    uint64_t at[2];
    uint8_t crc[4];
    PLIM_TRY(plim__zip_find(&m, &z, PLIM__KERAS_WEIGHTS_MEMBER, "", err));
    PLIM_TRY(plim__zip_crc_places(at, &z, &m, err));
    PLIM_ASSERT(f->n_patches == 0 || f->patch[0].offset >= m.data);
    PLIM_TRY(plim__file_writer_copy(w, f->from, 0, m.data, err));
    w->summed = true;
    PLIM_TRY(plim__file_writer_patched(w, f->from, m.data, m.data + m.size, f->patch, f->n_patches, reader, err));
    w->summed = false;
    PLIM_TRY(plim__file_writer_copy(w, f->from, m.data + m.size, f->stat.size, err));
    for (int i = 0; i < 4; i++) crc[i] = (uint8_t)(w->crc >> 8 * i);
    for (int i = 0; i < 2; i++) PLIM_TRY(plim__file_writer_correct(w, at[i], crc, sizeof crc, err));
    return PLIM_OK;
}

static plim_status save(const plim__model *m, const plim__trained_file *f, const plim__os *os, plim__tensor_reader reader,
                        const char *out_path, plim_error *err)
{
    plim__file_writer w;
    PLIM_TRY(plim__trained_all(m, f->n_patches, f->from.path, err));
    PLIM_TRY(plim__trained_apart(f, os, out_path, err));
    PLIM_TRY(plim__file_writer_open(&w, os, out_path, f->stat.size, err));
    plim_status status = PLIM_OK;
    if (!reader.read) goto done;
    PLIM_TRY_DONE(m->form == PLIM__MODEL_KERAS ? copy_archive(&w, f, reader, err) : copy_hdf5(&w, f, reader, err));
    PLIM_TRY_DONE(plim__trained_file_same(f, os, err));
    status = plim__file_writer_commit(&w, err);
done:
    plim__file_writer_drop(&w);
    return status;
}

plim_status plim__keras_save(const plim__model *m, const plim__os *os, plim__tensor_reader reader, const char *model_path,
                             const char *out_path, plim_error *err)
{
    plim__trained_file f;
    PLIM_TRY(plim__trained_file_open(&f, m, os, model_path, err));
    const plim_status status = save(m, &f, os, reader, out_path, err);
    plim__trained_file_close(&f, m, os);
    return status;
}
