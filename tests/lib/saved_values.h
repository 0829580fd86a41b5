/* New values for a model's parameters, as tests of the savers have them: bytes that follow from the parameter's number and the place. */
#ifndef PLIM_TESTS_SAVED_VALUES_H
#define PLIM_TESTS_SAVED_VALUES_H

#include "unit.h"

#include "files.h"
#include "formats/tensor_reader.h"
#include "models/model.h"

static inline uint8_t saved_byte(uint32_t param, uint64_t at) { return (uint8_t)(at * 31 + at / 256 + param * 101 + 7); }

static inline plim_status saved_read(void *ctx, uint32_t index, uint64_t offset, void *bytes, uint64_t n, plim_error *err)
{
    const uint32_t *bad = ctx; /* a parameter that cannot be read; NULL: none */
    PLIM_FAIL_IF(bad && *bad == index, err, PLIM_E_IO, "parameter %u cannot be read", index);
    for (uint64_t i = 0; i < n; i++) ((uint8_t *)bytes)[i] = saved_byte(index, offset + i);
    return PLIM_OK;
}

static const plim__tensor_reader saved_reader = {.read = saved_read};

/* The whole of parameter p is, in `file` from `offset` on, what saved_read gives. */
static inline void saved_expect(const plim__model *m, uint32_t p, const uint8_t *file, uint64_t offset, bool swap)
{
    const plim__value *v = &m->graph->value[m->param[p].value];
    const uint64_t size = plim_dtype_bytes(v->dtype);
    for (uint64_t i = 0; i < v->bytes; i++) {
        const uint64_t from = swap ? i / size * size + size - 1 - i % size : i;
        if (file[offset + i] != saved_byte(p, from)) fail_msg("byte %llu of '%s'", (unsigned long long)i, m->param[p].name);
    }
}

/* Compares a file with its copy: parameters with their home there have new values, all else is as it was.
 * @param skip  two places of 4 bytes that are not looked at; NULL: none */
static inline void saved_compare(const plim__model *m, const char *from, const char *to, const bool *is_new, const uint64_t skip[2])
{
    size_t n_from, n_to;
    uint8_t *a = files_read(from, &n_from), *b = files_read(to, &n_to);
    assert_true(a && b);
    assert_int_equal(n_from, n_to);
    for (uint32_t p = 0; p < m->n_params; p++) {
        const plim__source *home = &m->param[p].home;
        if (!is_new[p] || strcmp(home->path, files_path(from)) != 0) continue;
        saved_expect(m, p, b, home->offset, home->swap);
        memcpy(b + home->offset, a + home->offset, m->graph->value[m->param[p].value].bytes);
    }
    for (int i = 0; i < 2 && skip; i++) memcpy(b + skip[i], a + skip[i], 4);
    assert_memory_equal(a, b, n_from);
    free(a), free(b);
}

#endif
