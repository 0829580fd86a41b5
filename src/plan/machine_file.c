/* See machine_file.h.
 *
 * The file is one JSON object: texts that say what was measured, and one object `numbers` in which every number of plim_machine has its name. It is not
 * trusted. Text passes through buffers on the stack; nothing is allocated but what the JSON parser takes. No state: any thread. */
#include "plan/machine_file.h"
#include "formats/array_file.h"
#include "formats/whole_file.h"
#include "kernels/convert.h"
#include "plan/machine.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/sysmacros.h>

enum { TEXT_MAX = 32768 }; /* bytes of a file: about 8000 are used */

/* ---------------------------------------------------------------------------------------------------------- reading */

/* A text that fits, without control characters: it is printed. */
static plim_status read_word(char *out, size_t size, const plim__json *object, const char *key, plim_error *err)
{
    plim__json j;
    const char *text;
    PLIM_TRY(plim__json_get(&j, object, key, err));
    PLIM_TRY(plim__json_string(&text, &j, err));
    for (const char *p = text; *p; p++)
        if ((unsigned char)*p < 0x20 || *p == 0x7f) return plim__json_fail(err, PLIM_E_FORMAT, &j, "has a control character in it");
    if (strlen(text) >= size) return plim__json_fail(err, PLIM_E_FORMAT, &j, "has %zu bytes; at most %zu fit", strlen(text), size - 1);
    memcpy(out, text, strlen(text) + 1);
    return PLIM_OK;
}

static plim_status read_count(uint32_t *out, const plim__json *object, const char *key, int64_t least, plim_error *err)
{
    plim__json j;
    int64_t n;
    PLIM_TRY(plim__json_get(&j, object, key, err));
    PLIM_TRY(plim__json_integer(&n, &j, err));
    if (n < least || n > 65536) return plim__json_fail(err, PLIM_E_FORMAT, &j, "must be between %" PRId64 " and 65536, got %" PRId64, least, n);
    *out = (uint32_t)n;
    return PLIM_OK;
}

static plim_status read_numbers(plim_machine *m, const plim__json *object, plim_error *err)
{
    plim__json numbers, j;
    double *value, least, most;
    char name[64];
    PLIM_TRY(plim__json_get(&numbers, object, "numbers", err));
    for (uint32_t i = 0; plim__machine_field(m, i, &value, &least, &most, name); i++) {
        PLIM_TRY(plim__json_get(&j, &numbers, name, err));
        PLIM_TRY(plim__json_number(value, &j, err));
        if (!(*value >= least && *value <= most))
            return plim__json_fail(err, PLIM_E_FORMAT, &j, "must be between %g and %g, got %g", least, most, *value);
    }
    return PLIM_OK;
}

plim_status plim__machine_read(plim_machine *out, const plim__json *object, plim_error *err)
{
    plim_machine m = {.size = sizeof m};
    plim__json j;
    int64_t format;
    PLIM_TRY(plim__json_get(&j, object, "format", err));
    PLIM_TRY(plim__json_integer(&format, &j, err));
    if (format != PLIM__MACHINE_FORMAT)
        return plim__json_fail(err, PLIM_E_UNSUPPORTED, &j, "is %" PRId64 "; only %d is known: run plimsoll doctor again", format, PLIM__MACHINE_FORMAT);
    PLIM_TRY(read_word(m.cpu, sizeof m.cpu, object, "cpu", err));
    PLIM_TRY(read_word(m.level, sizeof m.level, object, "level", err));
    PLIM_TRY(read_count(&m.cpus, object, "cpus", 0, err));
    PLIM_TRY(read_word(m.file_system, sizeof m.file_system, object, "file_system", err));
    PLIM_TRY(read_word(m.device, sizeof m.device, object, "device", err));
    PLIM_TRY(read_word(m.date, sizeof m.date, object, "date", err));
    PLIM_TRY(read_word(m.version, sizeof m.version, object, "version", err));
    PLIM_TRY(read_count(&m.threads, object, "threads", 1, err));
    PLIM_TRY(read_numbers(&m, object, err));
    PLIM_ASSERT(plim_machine_check(&m, NULL) == PLIM_OK);
    *out = m;
    return PLIM_OK;
}

static plim_status read_text(char text[TEXT_MAX], uint64_t *n, const plim__os *os, const char *path, plim_error *err)
{
    plim__stat stat;
    int fd;
    PLIM_TRY(plim__file_open(&fd, &stat, os, path, err));
    const plim_status status = stat.size > TEXT_MAX ? plim__array_fail(err, PLIM_E_FORMAT, path, 0,
                                                                       "%" PRIu64 " bytes are too many for a machine's description", stat.size)
                                                    : plim__array_read(os, fd, text, stat.size, 0, path, err);
    os->close(os->self, fd);
    *n = stat.size;
    return status;
}

plim_status plim__machine_load(plim_machine *out, const plim__os *os, const char *path, plim_error *err)
{
    char text[TEXT_MAX];
    uint64_t n;
    plim__json root;
    PLIM_TRY(read_text(text, &n, os, path, err));
    PLIM_TRY(plim__json_parse(&root, text, n, path, err));
    const plim_status status = plim__machine_read(out, &root, err);
    plim__json_free(&root);
    return status;
}

/* ---------------------------------------------------------------------------------------------------------- writing */

typedef struct page {
    char text[TEXT_MAX];
    size_t n;
} page;

__attribute__((format(printf, 2, 3))) static void put(page *p, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    p->n += (size_t)vsnprintf(p->text + p->n, sizeof p->text - p->n, format, args);
    va_end(args);
    PLIM_ASSERT(p->n < sizeof p->text); /* texts and numbers are bounded */
}

/* Quotes and backslashes become '?': names of CPUs have none. */
static void put_word(page *p, const char *key, const char *value)
{
    put(p, "  \"%s\": \"", key);
    for (const char *c = value; *c; c++) put(p, "%c", *c == '"' || *c == '\\' || (unsigned char)*c < 0x20 || (unsigned char)*c >= 0x7f ? '?' : *c);
    put(p, "\",\n");
}

plim_status plim__machine_save(const plim_machine *m, const plim__os *os, const char *path, plim_error *err)
{
    page p = {.n = 0};
    double value;
    char name[64];
    PLIM_TRY(plim_machine_check(m, err));
    put(&p, "{\n  \"format\": %d,\n", PLIM__MACHINE_FORMAT);
    put_word(&p, "version", m->version);
    put_word(&p, "date", m->date);
    put_word(&p, "cpu", m->cpu);
    put_word(&p, "level", m->level);
    put(&p, "  \"cpus\": %u,\n", m->cpus);
    put_word(&p, "file_system", m->file_system);
    put_word(&p, "device", m->device);
    put(&p, "  \"threads\": %u,\n  \"numbers\": {", m->threads);
    for (uint32_t i = 0; plim_machine_number(m, i, &value, name); i++) put(&p, "%s\n    \"%s\": %.9g", i ? "," : "", name, value);
    put(&p, "\n  }\n}\n");
    return plim__file_write(os, path, p.text, p.n, err);
}

/* ----------------------------------------------------------------------------------------------------- this machine */

/* The rest of the first line of `text` that begins with `key`, after the colon. */
static void find_line(char *out, size_t size, const char *text, const char *key)
{
    const char *at = strstr(text, key);
    const char *colon = at ? strchr(at, ':') : NULL;
    if (!colon) return;
    colon += 1 + strspn(colon + 1, " \t");
    snprintf(out, size, "%.*s", (int)strcspn(colon, "\n"), colon);
}

/* Lines of /proc/self/mountinfo: "36 35 98:0 /root /mount options... - ext4 /dev/root ...". */
static void find_file_system(plim_machine *m, const char *mounts)
{
    for (const char *line = mounts; *line; line += strcspn(line, "\n"), line += *line == '\n') {
        unsigned major_number, minor_number;
        char device[32];
        if (sscanf(line, "%*u %*u %u:%u", &major_number, &minor_number) != 2) continue;
        snprintf(device, sizeof device, "%u:%u", major_number, minor_number);
        const char *dash = strstr(line, " - ");
        if (strcmp(device, m->device) != 0 || !dash || dash > line + strcspn(line, "\n")) continue;
        snprintf(m->file_system, sizeof m->file_system, "%.*s", (int)strcspn(dash + 3, " \n"), dash + 3);
        return;
    }
}

static plim_status find_folder(plim_machine *m, const plim__os *os, const char *folder, plim_error *err)
{
    char mounts[16384] = "";
    plim__stat st = {0};
    const int fd = os->open(os->self, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
    if (fd < 0) return plim__os_fail(fd, "open", folder, 0, err);
    const int got = os->stat(os->self, fd, &st);
    os->close(os->self, fd);
    if (got < 0) return plim__os_fail(got, "look at", folder, 0, err);
    snprintf(m->device, sizeof m->device, "%u:%u", major((dev_t)st.device), minor((dev_t)st.device));
    snprintf(m->file_system, sizeof m->file_system, "unknown");
    if (os->read_text(os->self, "/proc/self/mountinfo", mounts, sizeof mounts) > 0) find_file_system(m, mounts);
    return PLIM_OK;
}

static const char *instruction_level(void)
{
#if defined(__x86_64__)
    return plim__cpu_has_v4() ? "x86-64-v4" : plim__cpu_has_v3() ? "x86-64-v3" : "x86-64";
#else
    return "base";
#endif
}

plim_status plim__machine_identify(plim_machine *out, const plim__os *os, const char *folder, plim_error *err)
{
    char cpuinfo[4096] = "";
    plim_machine m = plim_machine_default();
    snprintf(m.cpu, sizeof m.cpu, "unknown");
    if (os->read_text(os->self, "/proc/cpuinfo", cpuinfo, sizeof cpuinfo) > 0) find_line(m.cpu, sizeof m.cpu, cpuinfo, "model name");
    snprintf(m.level, sizeof m.level, "%s", instruction_level());
    m.cpus = plim__cpu_count(os);
    PLIM_ASSERT(m.threads >= 1 && plim_machine_check(&m, NULL) == PLIM_OK); /* the defaults, with this machine's names */
    PLIM_TRY(find_folder(&m, os, folder, err));
    PLIM_ASSERT(m.cpus >= 1 && m.device[0] && m.file_system[0]);
    *out = m;
    return PLIM_OK;
}

/* ----------------------------------------------------------------------------------------------------------- public */

plim_status plim_machine_load(plim_machine *out, const char *path, plim_error *err) { return plim__machine_load(out, &plim__os_linux, path, err); }

plim_status plim_machine_save(const plim_machine *m, const char *path, plim_error *err) { return plim__machine_save(m, &plim__os_linux, path, err); }

plim_status plim_machine_identify(plim_machine *out, const char *folder, plim_error *err)
{
    return plim__machine_identify(out, &plim__os_linux, folder, err);
}
