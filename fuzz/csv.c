/* The CSV reader of plimsoll pack on arbitrary bytes: every table that parses has all its fields, every refusal has a message. */
#include "cli/csv.h"

#include <stdlib.h>
#include <string.h>

#define CHECK(x) do { if (!(x)) abort(); } while (0)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    plim__csv t;
    plim_error err = {0};
    const plim_status status = plim__csv_parse(&t, text, size, "fuzz", &err);
    CHECK(err.code == status && (status == PLIM_OK) == (err.message[0] == 0));
    if (status != PLIM_OK) return 0;
    CHECK(t.n_columns >= 1 && t.n_columns <= PLIM__CSV_COLUMNS);
    for (uint32_t r = 0; r < t.n_rows; r++) {
        CHECK(t.line[r] > 1 && (r == 0 || t.line[r] > t.line[r - 1]));
        for (uint32_t c = 0; c < t.n_columns; c++) {
            const char *field = t.field[(size_t)r * t.n_columns + c];
            CHECK(field >= t.text && field + strlen(field) <= t.text + size);
            int64_t value;
            plim_error bad = {0};
            const plim_status got = plim__csv_int(&value, &t, r, c, "fuzz", &bad);
            CHECK(got == PLIM_OK || bad.message[0]);
        }
    }
    CHECK(plim__csv_column(&t, "no such column, with a comma") == PLIM__CSV_COLUMNS);
    plim__csv_free(&t);
    return 0;
}
