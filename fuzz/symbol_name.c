/* The reader of mangled names on arbitrary text: what it gives is ended, fits, and does not depend on the room for it. */
#include "watch/symbols.h"

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
    static char wide[1 << 20];
    plim__symbol symbol = {0};
    plim__symbol_readable(text, wide, sizeof wide);
    plim__symbol_readable(text, symbol.name, sizeof symbol.name);
    const size_t n = strnlen(symbol.name, sizeof symbol.name);
    CHECK(n < sizeof symbol.name && strncmp(wide, symbol.name, n) == 0);
    char label[64];
    plim__symbol_label(&symbol, 1, label, sizeof label);
    CHECK(strnlen(label, sizeof label) < sizeof label);
    free(text);
    return 0;
}
