#include "cli/screen_text.h"

#include "cli/json.h"

#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

/* C0 and DEL; C1, which terminals obey too, is 0xc2 0x80 to 0xc2 0x9f. */
static bool is_control(const unsigned char *p)
{
    return *p < 0x20 || *p == 0x7f || (p[0] == 0xc2 && p[1] < 0xa0);
}

char *plim__screen_clean(char *buf, size_t size, const char *text)
{
    size_t n = 0;
    for (const unsigned char *p = (const unsigned char *)text; *p;) {
        const int bytes = plim__utf8_length(p);
        const size_t taken = bytes ? (size_t)bytes : 1;
        const bool bad = bytes == 0 || is_control(p);
        const size_t put = bad ? 1 : taken;
        if (n + put >= size) break;
        if (bad) buf[n] = *p == '\t' ? ' ' : '?';
        else memcpy(buf + n, p, put);
        n += put;
        p += taken;
    }
    while (n > 0 && buf[n - 1] == ' ') n--;
    buf[n] = 0;
    return buf;
}

int plim__screen_columns(const char *text)
{
    int n = 0;
    for (; *text; text++) n += (*text & 0xc0) != 0x80;
    return n;
}

/* Bytes of the first `columns` characters, or of all. */
static size_t bytes_of(const char *text, int columns)
{
    size_t n = 0;
    for (; text[n]; n++)
        if ((text[n] & 0xc0) != 0x80 && columns-- <= 0) break;
    return n;
}

char *plim__screen_cut(char *text, int columns)
{
    if (plim__screen_columns(text) <= columns) return text;
    const size_t n = bytes_of(text, columns > 3 ? columns - 3 : 0);
    strcpy(text + n, columns > 3 ? "..." : ""); /* in place of at least as many characters */
    return text;
}

size_t plim__screen_wrap(const char *text, int columns)
{
    const size_t all = bytes_of(text, columns);
    if (!text[all]) return all;
    size_t n = all;
    while (n > 0 && text[n] != ' ') n--;
    while (n > 0 && text[n - 1] == ' ') n--;
    return n > 0 ? n : all;
}

void plim__screen_add(char *text, size_t size, const char *format, ...)
{
    const size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, size - n, format, args);
    va_end(args);
}

int plim__screen_width(int fd, int otherwise)
{
    struct winsize size;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : otherwise;
}
