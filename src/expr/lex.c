/* Text to tokens, one at a time, no allocation. Python's lexical rules for what the language has: names, integers (decimal, 0x, 0o, 0b,
 * underscores), floats, strings without escapes, comments. Newlines separate statements unless a bracket is open.
 *
 * The text may be hostile: every read is bounded by l->n, and nothing but ASCII is accepted outside strings and comments. */
#include "expr/ast.h"

#include <ctype.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NUMBER_MAX 128 /* characters of a number: longer ones are refused */

const char *plim__token_text(plim__token_kind kind)
{
    static const char *const text[] = {
#define X(id, s) s,
        PLIM__TOKEN_LIST(X)
#undef X
    };
    return text[kind];
}

plim_status plim__fail_column(plim_error *err, plim_status code, uint32_t at, const char *fmt, ...)
{
    if (!err || err->code != PLIM_OK) return code;
    char message[sizeof err->message];
    va_list args;
    va_start(args, fmt);
    vsnprintf(message, sizeof message, fmt, args);
    va_end(args);
    plim__fail(err, code, "%s", message);
    err->column = (int)(at < INT32_MAX ? at + 1 : INT32_MAX);
    return code;
}

static char peek(const plim__lexer *l, uint32_t ahead)
{
    return ahead < l->n - l->at ? l->text[l->at + ahead] : 0;
}

static bool is_name(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'; /* isalnum() asks the locale */
}

static void skip_blanks(plim__lexer *l)
{
    for (;;) {
        const char c = peek(l, 0);
        if (c == '#') {
            while (l->at < l->n && l->text[l->at] != '\n') l->at++;
        } else if (c == ' ' || c == '\t' || c == '\r' || (c == '\n' && l->brackets)) {
            l->at++;
        } else if (c == '\\' && peek(l, 1) == '\n') {
            l->at += 2;
        } else {
            return;
        }
    }
}

/* Digits of a base with underscores between them, as Python allows. */
static uint32_t skip_digits(const plim__lexer *l, uint32_t at, int base)
{
    bool after_digit = false;
    for (; at < l->n; at++) {
        const char c = l->text[at];
        const bool digit = base == 16 ? isxdigit((unsigned char)c) : c >= '0' && c < '0' + base;
        const bool gap = c == '_' && after_digit && at + 1 < l->n && isxdigit((unsigned char)l->text[at + 1]);
        if (!digit && !gap) break;
        after_digit = digit;
    }
    return at;
}

static plim_status lex_integer(plim__lexer *l, plim__token *t, uint32_t from, uint32_t to, int base, plim_error *err)
{
    int64_t v = 0;
    PLIM_TRY(from == to ? plim__fail_column(err, PLIM_E_SYNTAX, t->at, "digits are missing after '%.2s'", l->text + t->at) : PLIM_OK);
    for (uint32_t i = from; i < to; i++) {
        const char c = l->text[i];
        if (c == '_') continue;
        const int digit = c <= '9' ? c - '0' : (c | 32) - 'a' + 10;
        if (__builtin_mul_overflow(v, base, &v) || __builtin_add_overflow(v, digit, &v))
            return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "the integer %.*s does not fit 64 bits with a sign",
                                     (int)(to - t->at < 40 ? to - t->at : 40), l->text + t->at);
    }
    t->kind = PLIM__TOKEN_INT;
    t->i = v;
    l->at = to;
    return PLIM_OK;
}

static plim_status lex_float(plim__lexer *l, plim__token *t, uint32_t to, plim_error *err)
{
    char buf[NUMBER_MAX + 1];
    uint32_t n = 0;
    if (to - t->at > NUMBER_MAX) return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "this number has more than %d characters", NUMBER_MAX);
    for (uint32_t i = t->at; i < to; i++)
        if (l->text[i] != '_') buf[n++] = l->text[i];
    buf[n] = 0;
    const locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the built-in one: glibc allocates nothing for it */
    PLIM_FAIL_IF(!c_locale, err, PLIM_E_NOMEM, "out of memory: the C locale");
    t->f = strtod_l(buf, NULL, c_locale);
    freelocale(c_locale);
    t->kind = PLIM__TOKEN_FLOAT;
    l->at = to;
    return PLIM_OK;
}

static plim_status lex_number(plim__lexer *l, plim__token *t, plim_error *err)
{
    plim_status status;
    const char mark = (char)(peek(l, 1) | 32);
    if (peek(l, 0) == '0' && (mark == 'x' || mark == 'o' || mark == 'b')) {
        const int base = mark == 'x' ? 16 : mark == 'o' ? 8 : 2;
        status = lex_integer(l, t, l->at + 2, skip_digits(l, l->at + 2, base), base, err);
    } else {
        uint32_t to = skip_digits(l, l->at, 10);
        bool real = false;
        if (to < l->n && l->text[to] == '.') {
            real = true;
            to = skip_digits(l, to + 1, 10);
        }
        if (to < l->n && (l->text[to] | 32) == 'e') {
            const bool sign = to + 1 < l->n && (l->text[to + 1] == '+' || l->text[to + 1] == '-');
            const uint32_t end = skip_digits(l, to + 1 + sign, 10);
            if (end > to + 1 + sign) {
                real = true;
                to = end;
            }
        }
        if (!real && to - t->at > 1 && peek(l, 0) == '0' && strspn(l->text + t->at, "0_") < to - t->at)
            return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "an integer may not begin with 0 (octal is written 0o17)");
        status = real ? lex_float(l, t, to, err) : lex_integer(l, t, l->at, to, 10, err);
    }
    PLIM_TRY(status);
    t->n = l->at - t->at;
    if ((peek(l, 0) | 32) == 'j' && !is_name(peek(l, 1)))
        return plim__fail_column(err, PLIM_E_UNSUPPORTED, t->at, "complex numbers are not supported");
    if (is_name(peek(l, 0)))
        return plim__fail_column(err, PLIM_E_SYNTAX, l->at, "'%c' right after a number (is a '*' missing?)", peek(l, 0));
    return PLIM_OK;
}

static plim_status lex_string(plim__lexer *l, plim__token *t, plim_error *err)
{
    const char quote = peek(l, 0);
    uint32_t to = l->at + 1;
    while (to < l->n && l->text[to] != quote && l->text[to] != '\n') to++;
    if (to == l->n || l->text[to] != quote) return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "this string does not end (%c is missing)", quote);
    t->kind = PLIM__TOKEN_STRING;
    t->at = l->at + 1;
    t->n = to - t->at;
    if (memchr(l->text + t->at, '\\', t->n)) return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "a string here has no escapes: no '\\'");
    l->at = to + 1;
    return PLIM_OK;
}

/* The longest operator that the text begins with. */
static plim__token_kind operator_at(const plim__lexer *l, uint32_t *n)
{
    plim__token_kind best = PLIM__TOKEN_END;
    *n = 0;
    for (int k = PLIM__TOKEN_PLUS; k < PLIM__TOKEN_COUNT; k++) {
        const char *s = plim__token_text((plim__token_kind)k);
        const uint32_t len = (uint32_t)strlen(s);
        if (len > *n && len <= l->n - l->at && !memcmp(l->text + l->at, s, len)) {
            best = (plim__token_kind)k;
            *n = len;
        }
    }
    return best;
}

/* What other languages write, with the way it is said here. */
static plim_status check_foreign(const plim__lexer *l, const plim__token *t, plim_error *err)
{
    const char c = peek(l, 0), next = peek(l, 1);
    const bool arithmetic = t->kind >= PLIM__TOKEN_PLUS && t->kind <= PLIM__TOKEN_SHR && !(t->kind >= PLIM__TOKEN_EQ && t->kind <= PLIM__TOKEN_GE);
    if (c == '&' && next == '&') return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "'&&' is written '&' here, with both sides in parentheses");
    if (c == '|' && next == '|') return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "'||' is written '|' here, with both sides in parentheses");
    if (c == '!' && next != '=') return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "'!' is written '~' here");
    if (arithmetic && t->kind != PLIM__TOKEN_NOT && peek(l, t->n) == '=' && peek(l, t->n + 1) != '=')
        return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "a name cannot change its value: write a new name instead of '%s='",
                                 plim__token_text(t->kind));
    return PLIM_OK;
}

static plim_status lex_operator(plim__lexer *l, plim__token *t, plim_error *err)
{
    t->kind = operator_at(l, &t->n);
    PLIM_TRY(check_foreign(l, t, err));
    if (t->kind == PLIM__TOKEN_END) {
        const unsigned char c = (unsigned char)peek(l, 0);
        if (isprint(c)) return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "unexpected character '%c'", c);
        return plim__fail_column(err, PLIM_E_SYNTAX, t->at, "unexpected byte 0x%02x", c);
    }
    if (t->kind == PLIM__TOKEN_LPAREN || t->kind == PLIM__TOKEN_LBRACKET) l->brackets++;
    if ((t->kind == PLIM__TOKEN_RPAREN || t->kind == PLIM__TOKEN_RBRACKET) && l->brackets) l->brackets--;
    l->at += t->n;
    return PLIM_OK;
}

plim_status plim__lex(plim__lexer *l, plim__token *t, plim_error *err)
{
    skip_blanks(l);
    *t = (plim__token){.kind = PLIM__TOKEN_END, .at = l->at};
    if (l->at >= l->n) return PLIM_OK;
    const char c = peek(l, 0);
    if (c == ';' || c == '\n') {
        t->kind = PLIM__TOKEN_SEPARATOR;
        t->n = 1;
        l->at++;
        return PLIM_OK;
    }
    if (isdigit((unsigned char)c) || (c == '.' && isdigit((unsigned char)peek(l, 1)))) return lex_number(l, t, err);
    if (c == '\'' || c == '"') return lex_string(l, t, err);
    if (is_name(c)) {
        t->kind = PLIM__TOKEN_NAME;
        while (is_name(peek(l, 0))) l->at++;
        t->n = l->at - t->at;
        return PLIM_OK;
    }
    return lex_operator(l, t, err);
}
