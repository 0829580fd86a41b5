/* Byte counts as people write and read them. Binary units throughout: K is 1024. All arithmetic is exact integers, so that
 * "1.5GiB" is 1,610,612,736 and nothing is rounded twice. Nothing is allocated; safe from any thread. */
#include "core/error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

__extension__ typedef unsigned __int128 u128;

/* 10^18 is the largest power of ten whose product with 2^64 stays below 2^128. */
enum { FRACTION_DIGITS = 18 };

static const char unit_letters[] = "KMGTPE";

/* A decimal number as whole + fraction / scale. Further digits of the fraction than we keep are read and ignored. */
typedef struct decimal {
    uint64_t whole, fraction, scale;
} decimal;

static const char *decimal_read(decimal *out, const char *p, bool *overflow)
{
    decimal d = {.scale = 1};
    int digits = 0;
    *overflow = false;
    for (; isdigit((unsigned char)*p); p++, digits++)
        *overflow |= __builtin_mul_overflow(d.whole, 10u, &d.whole) || __builtin_add_overflow(d.whole, (uint64_t)(*p - '0'), &d.whole);
    if (*p == '.') {
        p++;
        for (int k = 0; isdigit((unsigned char)*p); p++, digits++, k++) {
            if (k >= FRACTION_DIGITS) continue;
            d.fraction = d.fraction * 10 + (uint64_t)(*p - '0');
            d.scale *= 10;
        }
    }
    *out = d;
    return digits ? p : NULL;
}

/* Reads "", "B", "K", "KB", "KiB" ... to the end of the text. @return the power of 1024, or -1 */
static int unit_read(const char *p)
{
    while (isspace((unsigned char)*p)) p++;
    int power = 0;
    const char *letter = *p ? strchr(unit_letters, toupper((unsigned char)*p)) : NULL;
    if (letter) {
        power = (int)(letter - unit_letters) + 1;
        p++;
        if ((*p == 'i' || *p == 'I') && (p[1] == 'b' || p[1] == 'B')) p++;
    }
    if (*p == 'b' || *p == 'B') p++;
    while (isspace((unsigned char)*p)) p++;
    return *p ? -1 : power;
}

static plim_status percent_parse(uint64_t *out, const decimal *d, const char *text, uint64_t whole, plim_error *err)
{
    const bool above = d->whole > 100 || (d->whole == 100 && d->fraction);
    PLIM_FAIL_IF(above, err, PLIM_E_INVALID, "size '%.40s' is more than 100%%", text);
    PLIM_FAIL_IF(!whole || whole == PLIM_UNLIMITED, err, PLIM_E_INVALID, "size '%.40s': it is not known of what; give a number of bytes", text);
    /* In two parts: the percentage as one fraction over 100 * scale would need more than 128 bits. */
    const u128 of_fraction = (u128)whole * d->fraction / d->scale;
    *out = (uint64_t)(((u128)whole * d->whole + of_fraction) / 100);
    return PLIM_OK;
}

plim_status plim_bytes_parse(uint64_t *out, const char *text, uint64_t whole, plim_error *err)
{
    const char *p = text;
    while (isspace((unsigned char)*p)) p++;
    decimal d;
    bool overflow;
    p = decimal_read(&d, p, &overflow);
    PLIM_FAIL_IF(!p, err, PLIM_E_INVALID, "size '%.40s' is not a number of bytes such as 512M, 1.5GiB, 1000000 or 80%%", text);
    PLIM_FAIL_IF(overflow, err, PLIM_E_OVERFLOW, "size '%.40s' is larger than 2^64 bytes", text);
    if (p[0] == '%' && p[1] == 0) return percent_parse(out, &d, text, whole, err);

    const int power = unit_read(p);
    PLIM_FAIL_IF(power < 0, err, PLIM_E_INVALID, "size '%.40s': unknown unit '%.20s' (known: K M G T P E, with B or iB if you like, and %%)",
                 text, p);
    const u128 unit = (u128)1 << (10 * power);
    const u128 bytes = unit * d.whole + unit * d.fraction / d.scale;
    PLIM_FAIL_IF(bytes > UINT64_MAX, err, PLIM_E_OVERFLOW, "size '%.40s' is larger than 2^64 bytes", text);
    *out = (uint64_t)bytes;
    return PLIM_OK;
}

/* bytes / 1024^power in units of 10^-decimals, rounded to nearest. */
static uint64_t scaled(uint64_t bytes, int power, uint64_t ten)
{
    const u128 unit = (u128)1 << (10 * power);
    return (uint64_t)(((u128)bytes * ten + unit / 2) / unit);
}

char *plim_bytes_format(char *buf, size_t size, uint64_t bytes)
{
    if (bytes < 1024) {
        snprintf(buf, size, "%u B", (unsigned)bytes);
        return buf;
    }
    int power = 1;
    while (power < 6 && scaled(bytes, power, 1) >= 1024) power++;
    const char letter = unit_letters[power - 1];

    /* Three significant digits; a last 0 goes, but "4.0" keeps one to say that it is not exactly 4. */
    const uint64_t hundredths = scaled(bytes, power, 100), tenths = scaled(bytes, power, 10);
    if (hundredths < 1000 && hundredths % 10)
        snprintf(buf, size, "%u.%02u %ciB", (unsigned)(hundredths / 100), (unsigned)(hundredths % 100), letter);
    else if (tenths < 100 || (tenths < 1000 && tenths % 10))
        snprintf(buf, size, "%u.%u %ciB", (unsigned)(tenths / 10), (unsigned)(tenths % 10), letter);
    else
        snprintf(buf, size, "%u %ciB", (unsigned)scaled(bytes, power, 1), letter);
    return buf;
}

char *plim_count_format(char *buf, size_t size, uint64_t count)
{
    char text[32]; /* 20 digits, 6 separators, NUL */
    char *p = text + sizeof text;
    *--p = 0;
    for (int digits = 0; count || digits == 0; digits++) {
        if (digits && digits % 3 == 0) *--p = ',';
        *--p = (char)('0' + count % 10);
        count /= 10;
    }
    snprintf(buf, size, "%s", p);
    return buf;
}
