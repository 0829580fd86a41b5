/* How a failure looks and which exit code it has: the one place for both. */
#include "cli/cli.h"

#include <stdarg.h>
#include <string.h>

int plim__cli_exit_code(plim_status status)
{
    if (status == PLIM_OK) return PLIM__EXIT_OK;
    if (status == PLIM_E_BUDGET) return PLIM__EXIT_BUDGET;
    if (status >= 100 && status < 200) return PLIM__EXIT_USAGE;
    return PLIM__EXIT_FAILED;
}

/* The line of `text` that holds 1-based byte `column`, and a caret under that byte. */
static void print_caret(const char *text, int column)
{
    const size_t length = strlen(text);
    size_t at = (size_t)column - 1, start;
    if (at > length) at = length;
    for (start = at; start > 0 && text[start - 1] != '\n';) start--;
    fprintf(stderr, "  %.*s\n  ", (int)strcspn(text + start, "\n"), text + start);
    for (size_t i = start; i < at; i++) {
        if (text[i] == '\t')
            fputc('\t', stderr);
        else if ((text[i] & 0xc0) != 0x80) /* the later bytes of a UTF-8 character take no column */
            fputc(' ', stderr);
    }
    fputs("^\n", stderr);
}

int plim__cli_fail(const plim_error *err, const char *text)
{
    const char *message = err->message[0] ? err->message : plim_status_name(err->code);
    const bool place = err->where[0] && !strstr(message, err->where);
    fprintf(stderr, "plimsoll: %s%s%s\n", place ? err->where : "", place ? ": " : "", message);
    if (text && err->column > 0) print_caret(text, err->column);
    if (err->code == PLIM_E_BUDGET && err->need) {
        char need[32];
        fprintf(stderr, "  smallest budget that works as it stands: %s (--memory %llu)\n", plim_bytes_format(need, sizeof need, err->need),
                (unsigned long long)err->need);
    }
    return plim__cli_exit_code(err->code);
}

int plim__cli_usage(const char *verb, const char *format, ...)
{
    va_list args;
    fputs("plimsoll: ", stderr);
    va_start(args, format);
    vfprintf(stderr, format, args);
    va_end(args);
    fputc('\n', stderr);
    if (verb) fprintf(stderr, "  plimsoll %s --help lists what there is\n", verb);
    return PLIM__EXIT_USAGE;
}
