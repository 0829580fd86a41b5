/* Lines and numbers of /proc. A value that does not fit 64 bits is no value. Safe from any thread. */
#include "os/proc_text.h"

#include "core/size.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool plim__text_read(const plim__os *os, const char *path, char *buf, size_t size)
{
    buf[0] = 0;
    return os->read_text(os->self, path, buf, size) > 0;
}

bool plim__field_read(const char *text, const char *key, uint64_t *out)
{
    const size_t n = strlen(key);
    for (const char *line = text; line && *line; line = strchr(line, '\n'), line = line ? line + 1 : NULL) {
        if (strncmp(line, key, n) || !(line[n] == ' ' || line[n] == '\t')) continue;
        char *end;
        const uint64_t value = strtoull(line + n, &end, 10);
        if (end == line + n) return false;
        while (*end == ' ') end++;
        const uint64_t unit = strncmp(end, "kB", 2) == 0 ? 1024 : 1;
        return plim__mul(out, value, unit);
    }
    return false;
}

bool plim__number_read(const plim__os *os, const char *dir, const char *name, uint64_t *out)
{
    char path[PATH_MAX + 64], text[64], *end;
    snprintf(path, sizeof path, "%s/%s", dir, name);
    if (!plim__text_read(os, path, text, sizeof text)) return false;
    if (strncmp(text, "max", 3) == 0) {
        *out = PLIM_UNLIMITED;
        return true;
    }
    if (!isdigit((unsigned char)text[0])) return false;
    *out = strtoull(text, &end, 10);
    return true;
}

bool plim__rlimit_read(const char *limits, const char *row, uint64_t *out)
{
    const char *line = strstr(limits, row);
    if (!line) return false;
    const char *p = line + strlen(row);
    while (*p == ' ') p++;
    if (!isdigit((unsigned char)*p)) return false; /* "unlimited" */
    *out = strtoull(p, NULL, 10);
    return true;
}
