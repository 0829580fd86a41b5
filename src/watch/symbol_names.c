/* Mangled C++ names (the Itanium ABI's grammar, also of gcc and clang on Linux) as people write them, without parameters and template arguments.
 *
 * A recursive descent over the grammar. What is left out of the result is still parsed, "quietly": it makes no text, but it takes its places in
 * the table of substitutions, to which later parts refer by number. Texts lie in one arena and are spans of it. Depth, arena and table are
 * bounded; input that is garbage, too deep or too long gives as much of its name as was understood, or the input itself. Nothing is allocated;
 * safe from any thread. */
#include "watch/symbols.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { ARENA = 8192, SUBSTITUTIONS = 256, DEPTH = 96 };

typedef struct span {
    uint32_t at, n;
} span;

typedef struct reader {
    const char *p; /* what comes next; the input ends with NUL */
    bool failed;
    uint32_t quiet; /* above 0: parse without making text */
    uint32_t depth;
    uint32_t used, known; /* of arena and substitution; further substitutions than the table holds are counted but have no text */
    span last;            /* the last plain name of the prefix, after which constructors are called */
    span best;            /* the most that is known of the name, should the rest fail */
    span substitution[SUBSTITUTIONS];
    char arena[ARENA];
} reader;

static const span nothing = {0, 0};

static span type_read(reader *r);
static span name_read(reader *r);
static span encoding_read(reader *r);
static void expression_skip(reader *r);

/* ------------------------------------------------------------------------------------------------------- texts */

static span fail(reader *r)
{
    r->failed = true;
    return nothing;
}

/* Every rule that may contain itself passes here. */
static bool enter(reader *r)
{
    if (r->depth == DEPTH) r->failed = true;
    r->depth++;
    return !r->failed;
}

static span leave(reader *r, span s)
{
    r->depth--;
    return s;
}

static bool eat(reader *r, char c)
{
    if (r->failed || *r->p != c) return false;
    r->p++;
    return true;
}

static span text_make(reader *r, const char *text, size_t n)
{
    if (r->quiet || r->failed) return nothing;
    if (n > ARENA - r->used) return fail(r);
    memcpy(r->arena + r->used, text, n);
    r->used += (uint32_t)n;
    return (span){r->used - (uint32_t)n, (uint32_t)n};
}

static span words(reader *r, const char *text)
{
    return text_make(r, text, strlen(text));
}

/* a, then the text between, then b. Spans of the arena stay where they are, so this is a copy. */
static span join(reader *r, span a, const char *between, span b)
{
    if (r->quiet || r->failed) return nothing;
    const size_t n = strlen(between);
    if (a.n + n + b.n > ARENA - r->used) return fail(r);
    char *to = r->arena + r->used;
    memcpy(to, r->arena + a.at, a.n);
    memcpy(to + a.n, between, n);
    memcpy(to + a.n + n, r->arena + b.at, b.n);
    const span s = {r->used, a.n + (uint32_t)n + b.n};
    r->used += s.n;
    return s;
}

static span within(reader *r, span outer, span inner)
{
    return outer.n ? join(r, outer, "::", inner) : inner;
}

static span remember(reader *r, span s)
{
    if (r->failed) return s;
    if (r->known < SUBSTITUTIONS) r->substitution[r->known] = s;
    r->known++;
    return s;
}

/* ----------------------------------------------------------------------------------------------------- numbers */

/* Digits in base 10. Numbers beyond any name's length are none. */
static bool number_read(reader *r, uint32_t *out)
{
    uint32_t value = 0;
    const char *from = r->p;
    for (; isdigit((unsigned char)*r->p); r->p++) {
        value = value * 10 + (uint32_t)(*r->p - '0');
        if (value > 1 << 20) return false;
    }
    *out = value;
    return r->p != from;
}

/* "_" is the first, "0_" the second: as template parameters, lambdas and discriminators are counted. */
static uint32_t ordinal_read(reader *r)
{
    uint32_t value = 0;
    const bool given = number_read(r, &value);
    if (!eat(r, '_')) r->failed = true;
    return given ? value + 1 : 0;
}

static void signed_skip(reader *r)
{
    uint32_t value;
    eat(r, 'n');
    if (!number_read(r, &value)) r->failed = true;
}

/* ----------------------------------------------------------------------------------------------- substitutions */

typedef struct standard {
    char letter;
    const char *name, *full; /* full: where a member named after the class follows */
} standard;

static const standard standards[] = {
    {'a', "std::allocator", "std::allocator"},      {'b', "std::basic_string", "std::basic_string"}, {'s', "std::string", "std::basic_string"},
    {'i', "std::istream", "std::basic_istream"},    {'o', "std::ostream", "std::basic_ostream"},     {'d', "std::iostream", "std::basic_iostream"},
};

static bool structor_follows(const reader *r)
{
    return (r->p[0] == 'C' || r->p[0] == 'D') && isdigit((unsigned char)r->p[1]);
}

/* After "S". "St" is the caller's. */
static span substitution_read(reader *r)
{
    for (size_t i = 0; i < sizeof standards / sizeof *standards; i++) {
        if (!eat(r, standards[i].letter)) continue;
        const span whole = words(r, structor_follows(r) ? standards[i].full : standards[i].name);
        const size_t head = strlen("std::");
        r->last = words(r, standards[i].full + head);
        return whole;
    }
    uint32_t index = 0;
    bool first = true;
    for (; isdigit((unsigned char)*r->p) || isupper((unsigned char)*r->p); r->p++, first = false) {
        index = index * 36 + (uint32_t)(isdigit((unsigned char)*r->p) ? *r->p - '0' : *r->p - 'A' + 10);
        if (index > 1 << 20) return fail(r);
    }
    if (!eat(r, '_')) return fail(r);
    if (!first) index++;
    if (index >= r->known) return fail(r);
    if (r->quiet) return nothing;
    span s = index < SUBSTITUTIONS ? r->substitution[index] : nothing;
    if (!s.n) s = words(r, "T"); /* a template's argument, of which no text was made */
    r->last = s;
    for (uint32_t i = s.n; i > 1; i--) { /* its last part */
        if (r->arena[s.at + i - 1] != ':' || r->arena[s.at + i - 2] != ':') continue;
        r->last = (span){s.at + i, s.n - i};
        break;
    }
    return s;
}

/* -------------------------------------------------------------------------------------------- template arguments */

static void argument_skip(reader *r)
{
    if (!enter(r)) {
        leave(r, nothing);
        return;
    }
    if (eat(r, 'X')) {
        expression_skip(r);
        if (!eat(r, 'E')) r->failed = true;
    } else if (*r->p == 'L') {
        expression_skip(r);
    } else if (eat(r, 'J')) {
        while (!r->failed && !eat(r, 'E')) argument_skip(r);
    } else {
        type_read(r);
    }
    leave(r, nothing);
}

/* After "I". */
static void arguments_skip(reader *r)
{
    const span last = r->last;
    r->quiet++;
    while (!r->failed && !eat(r, 'E')) argument_skip(r);
    r->quiet--;
    r->last = last;
}

/* ------------------------------------------------------------------------------------------------ unqualified names */

typedef struct operation {
    char code[3];
    uint8_t operands; /* in an expression */
    const char *text;
} operation;

static const operation operations[] = {
    {"nw", 0, "operator new"}, {"na", 0, "operator new[]"}, {"dl", 1, "operator delete"}, {"da", 1, "operator delete[]"},
    {"aw", 1, "operator co_await"},
    {"ps", 1, "operator+"},    {"ng", 1, "operator-"},      {"ad", 1, "operator&"},       {"de", 1, "operator*"},         {"co", 1, "operator~"},
    {"pl", 2, "operator+"},    {"mi", 2, "operator-"},      {"ml", 2, "operator*"},       {"dv", 2, "operator/"},         {"rm", 2, "operator%"},
    {"an", 2, "operator&"},    {"or", 2, "operator|"},      {"eo", 2, "operator^"},       {"aS", 2, "operator="},         {"pL", 2, "operator+="},
    {"mI", 2, "operator-="},   {"mL", 2, "operator*="},     {"dV", 2, "operator/="},      {"rM", 2, "operator%="},        {"aN", 2, "operator&="},
    {"oR", 2, "operator|="},   {"eO", 2, "operator^="},     {"ls", 2, "operator<<"},      {"rs", 2, "operator>>"},        {"lS", 2, "operator<<="},
    {"rS", 2, "operator>>="},  {"eq", 2, "operator=="},     {"ne", 2, "operator!="},      {"lt", 2, "operator<"},         {"gt", 2, "operator>"},
    {"le", 2, "operator<="},   {"ge", 2, "operator>="},     {"ss", 2, "operator<=>"},     {"nt", 1, "operator!"},         {"aa", 2, "operator&&"},
    {"oo", 2, "operator||"},   {"pp", 1, "operator++"},     {"mm", 1, "operator--"},      {"cm", 2, "operator,"},         {"pm", 2, "operator->*"},
    {"pt", 2, "operator->"},   {"cl", 0, "operator()"},     {"ix", 2, "operator[]"},      {"qu", 3, "operator?"},
};

static const operation *operation_at(const char *p)
{
    for (size_t i = 0; i < sizeof operations / sizeof *operations; i++)
        if (p[0] == operations[i].code[0] && p[0] && p[1] == operations[i].code[1]) return &operations[i];
    return NULL;
}

static span source_name(reader *r)
{
    uint32_t n;
    if (!number_read(r, &n) || n == 0 || strnlen(r->p, n) < n) return fail(r);
    const char *from = r->p;
    r->p += n;
    const bool anonymous = n >= 10 && memcmp(from, "_GLOBAL_", 8) == 0 && from[9] == 'N';
    const span s = anonymous ? words(r, "(anonymous namespace)") : text_make(r, from, n);
    r->last = s;
    return s;
}

/* "Ul" parameters "E" number, "Ut" number. */
static span unnamed_read(reader *r)
{
    char text[40];
    const bool lambda = eat(r, 'l');
    if (!lambda && !eat(r, 't')) return fail(r);
    if (lambda) {
        r->quiet++;
        while (!r->failed && !eat(r, 'E')) type_read(r);
        r->quiet--;
    }
    snprintf(text, sizeof text, lambda ? "{lambda#%u}" : "{unnamed type#%u}", ordinal_read(r) + 1);
    r->last = words(r, text);
    return r->last;
}

static span structor_read(reader *r)
{
    const bool constructor = *r->p++ == 'C';
    const bool inherited = constructor && eat(r, 'I');
    r->p++;
    if (inherited) {
        r->quiet++;
        type_read(r);
        r->quiet--;
    }
    return constructor ? r->last : join(r, nothing, "~", r->last);
}

static span operator_read(reader *r)
{
    if (r->p[0] == 'c' && r->p[1] == 'v') {
        r->p += 2;
        const span last = r->last, type = type_read(r);
        r->last = last;
        return join(r, nothing, "operator ", type);
    }
    if (r->p[0] == 'l' && r->p[1] == 'i') {
        r->p += 2;
        return join(r, nothing, "operator\"\" ", source_name(r));
    }
    const operation *o = operation_at(r->p);
    if (!o) return fail(r);
    r->p += 2;
    return words(r, o->text);
}

static span unqualified_read(reader *r)
{
    span s;
    if (r->p[0] == 'L' && isdigit((unsigned char)r->p[1])) r->p++; /* of one file alone */
    if (isdigit((unsigned char)*r->p))
        s = source_name(r);
    else if (structor_follows(r) || (r->p[0] == 'C' && r->p[1] == 'I' && r->p[2]))
        s = structor_read(r);
    else if (eat(r, 'U'))
        s = unnamed_read(r);
    else
        s = operator_read(r);
    while (eat(r, 'B')) { /* [abi:cxx11] */
        const span last = r->last;
        r->quiet++;
        source_name(r);
        r->quiet--;
        r->last = last;
    }
    return s;
}

/* ------------------------------------------------------------------------------------------------------- names */

/* The first part of a nested name where it is no plain name. @return false where it is one */
static bool prefix_start(reader *r, span *prefix)
{
    if (eat(r, 'S')) {
        *prefix = eat(r, 't') ? words(r, "std") : substitution_read(r);
        return true;
    }
    if (*r->p == 'T' || (r->p[0] == 'D' && (r->p[1] == 't' || r->p[1] == 'T'))) {
        *prefix = type_read(r); /* which remembers it */
        return true;
    }
    return false;
}

/* After "N". Every part but the whole is remembered; whoever uses the whole as a type remembers that too. */
static span nested_read(reader *r)
{
    while (*r->p == 'r' || *r->p == 'V' || *r->p == 'K') r->p++;
    if (*r->p == 'R' || *r->p == 'O') r->p++;
    span prefix = nothing;
    prefix_start(r, &prefix);
    while (!r->failed && !eat(r, 'E')) {
        if (eat(r, 'M')) continue; /* what follows is in a member's initializer */
        if (eat(r, 'I'))
            arguments_skip(r);
        else
            prefix = within(r, prefix, unqualified_read(r));
        if (r->depth <= 2 && !r->quiet && !r->failed) r->best = prefix;
        if (*r->p != 'E') remember(r, prefix);
    }
    return prefix;
}

/* After "Z": a function, "E", and what is inside it. */
static span local_read(reader *r)
{
    const span function = encoding_read(r);
    r->quiet++;
    while (!r->failed && !eat(r, 'E')) type_read(r);
    r->quiet--;
    span inner = nothing;
    if (eat(r, 's')) {
        inner = words(r, "string literal");
    } else {
        if (eat(r, 'd')) ordinal_read(r);
        inner = name_read(r);
    }
    if (eat(r, '_')) { /* which of several of this name: _3 or __12_ */
        uint32_t value;
        const bool wide = eat(r, '_');
        if (!number_read(r, &value) || (wide && !eat(r, '_'))) return fail(r);
    }
    return within(r, function, inner);
}

/* A name that is not nested; remembered where template arguments follow it, for then it is a template's. */
static span unscoped_read(reader *r)
{
    span s;
    if (r->p[0] == 'S' && r->p[1] == 't') {
        r->p += 2;
        s = within(r, words(r, "std"), unqualified_read(r));
    } else if (eat(r, 'S')) {
        s = substitution_read(r);
        if (*r->p != 'I') return fail(r);
        r->p++;
        arguments_skip(r);
        return s;
    } else {
        s = unqualified_read(r);
    }
    if (eat(r, 'I')) {
        remember(r, s);
        if (r->depth <= 2 && !r->quiet) r->best = s;
        arguments_skip(r);
    }
    return s;
}

static span name_read(reader *r)
{
    if (!enter(r)) return leave(r, nothing);
    if (eat(r, 'N')) return leave(r, nested_read(r));
    if (eat(r, 'Z')) return leave(r, local_read(r));
    return leave(r, unscoped_read(r));
}

/* ------------------------------------------------------------------------------------------------------- types */

static const char *builtin_name(char c)
{
    static const char *const names[26] = {
        ['a' - 'a'] = "signed char",    ['b' - 'a'] = "bool",          ['c' - 'a'] = "char",     ['d' - 'a'] = "double",
        ['e' - 'a'] = "long double",    ['f' - 'a'] = "float",         ['g' - 'a'] = "__float128", ['h' - 'a'] = "unsigned char",
        ['i' - 'a'] = "int",            ['j' - 'a'] = "unsigned int",  ['l' - 'a'] = "long",     ['m' - 'a'] = "unsigned long",
        ['n' - 'a'] = "__int128",       ['o' - 'a'] = "unsigned __int128", ['s' - 'a'] = "short", ['t' - 'a'] = "unsigned short",
        ['v' - 'a'] = "void",           ['w' - 'a'] = "wchar_t",       ['x' - 'a'] = "long long", ['y' - 'a'] = "unsigned long long",
        ['z' - 'a'] = "...",
    };
    return c >= 'a' && c <= 'z' ? names[c - 'a'] : NULL;
}

/* A type before which `suffix` stands in its name. */
static span wrapped_read(reader *r, const char *suffix)
{
    const span inner = type_read(r);
    return remember(r, join(r, inner, suffix, nothing));
}

/* After "F": a function's type, its return type and parameters. */
static span function_read(reader *r)
{
    eat(r, 'Y');
    const span result = type_read(r);
    r->quiet++;
    while (!r->failed && !eat(r, 'E')) {
        if ((*r->p == 'R' || *r->p == 'O') && r->p[1] == 'E') r->p++;
        else type_read(r);
    }
    r->quiet--;
    return remember(r, join(r, result, " ()", nothing));
}

/* After "A": length "_" element. */
static span array_read(reader *r)
{
    uint32_t length;
    r->quiet++;
    if (isdigit((unsigned char)*r->p))
        number_read(r, &length);
    else if (*r->p != '_')
        expression_skip(r);
    r->quiet--;
    if (!eat(r, '_')) return fail(r);
    return wrapped_read(r, " []");
}

/* After "D", all that begins so. */
static span d_type_read(reader *r)
{
    static const struct {
        char letter;
        const char *name;
    } plain[] = {{'d', "decimal64"}, {'e', "decimal128"}, {'f', "decimal32"}, {'h', "half"},           {'i', "char32_t"}, {'s', "char16_t"},
                 {'u', "char8_t"},   {'a', "auto"},       {'c', "decltype(auto)"}, {'n', "std::nullptr_t"}};
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (eat(r, plain[i].letter)) return words(r, plain[i].name);
    if (eat(r, 'p')) return remember(r, type_read(r)); /* a pack */
    if (eat(r, 't') || eat(r, 'T')) {
        r->quiet++;
        expression_skip(r);
        r->quiet--;
        return eat(r, 'E') ? remember(r, words(r, "decltype")) : fail(r);
    }
    if (eat(r, 'F')) {
        uint32_t bits;
        if (!number_read(r, &bits) || !(eat(r, '_') || eat(r, 'b') || eat(r, 'x'))) return fail(r);
        return words(r, "float");
    }
    if (eat(r, 'v')) {
        uint32_t n;
        if (!number_read(r, &n) || !eat(r, '_')) return fail(r);
        return wrapped_read(r, " vector");
    }
    if (eat(r, 'o') || eat(r, 'x')) return eat(r, 'F') ? function_read(r) : fail(r); /* noexcept; transaction-safe */
    return fail(r);
}

/* After "T": a template's parameter. */
static span parameter_read(reader *r)
{
    if (*r->p == 's' || *r->p == 'u' || *r->p == 'e') { /* struct, union, enum */
        r->p++;
        return remember(r, name_read(r));
    }
    ordinal_read(r);
    const span s = remember(r, words(r, "T"));
    if (!eat(r, 'I')) return s;
    arguments_skip(r);
    return remember(r, s);
}

/* A type named by a substitution, maybe with arguments that make it another type. */
static span substituted_read(reader *r)
{
    if (r->p[1] == 't') return remember(r, name_read(r));
    r->p++;
    const span s = substitution_read(r);
    if (!eat(r, 'I')) return s;
    arguments_skip(r);
    return remember(r, s);
}

static span compound_read(reader *r)
{
    static const char wraps[] = "PROrVKCG";
    static const char *const suffix[] = {"*", "&", "&&", " restrict", " volatile", " const", " complex", " imaginary"};
    const char *wrap = *r->p ? strchr(wraps, *r->p) : NULL;
    if (wrap) {
        r->p++;
        return wrapped_read(r, suffix[wrap - wraps]);
    }
    if (eat(r, 'F')) return function_read(r);
    if (eat(r, 'A')) return array_read(r);
    if (eat(r, 'D')) return d_type_read(r);
    if (eat(r, 'T')) return parameter_read(r);
    if (eat(r, 'u')) return source_name(r);
    if (eat(r, 'M')) {
        type_read(r);
        return wrapped_read(r, "::*");
    }
    if (r->p[0] == 'U' && isdigit((unsigned char)r->p[1])) { /* a vendor's qualifier */
        r->p++;
        source_name(r);
        if (eat(r, 'I')) arguments_skip(r);
        return remember(r, type_read(r));
    }
    if (*r->p == 'S') return substituted_read(r);
    return remember(r, name_read(r));
}

static span type_read(reader *r)
{
    if (!enter(r)) return leave(r, nothing);
    const char *builtin = builtin_name(*r->p);
    if (!builtin) return leave(r, compound_read(r));
    r->p++;
    return leave(r, words(r, builtin));
}

/* -------------------------------------------------------------------------------------------------- expressions */

/* After "L": a value of a type, or a function. */
static void literal_skip(reader *r)
{
    if (r->p[0] == '_' && r->p[1] == 'Z') {
        r->p += 2;
        encoding_read(r);
        while (!r->failed && *r->p != 'E') type_read(r);
    } else {
        type_read(r);
        while (*r->p && *r->p != 'E') r->p++;
    }
    if (!eat(r, 'E')) r->failed = true;
}

static void list_skip(reader *r)
{
    while (!r->failed && !eat(r, 'E')) expression_skip(r);
}

/* A name in an expression that waits for its template: "sr" type name, or "on" operator, or a plain one. */
static void unresolved_skip(reader *r)
{
    if (r->p[0] == 'o' && r->p[1] == 'n') r->p += 2;
    unqualified_read(r);
    if (eat(r, 'I')) arguments_skip(r);
}

static void scoped_skip(reader *r)
{
    if (eat(r, 'N')) {
        type_read(r);
        while (!r->failed && !eat(r, 'E')) {
            source_name(r);
            if (eat(r, 'I')) arguments_skip(r);
        }
    } else {
        type_read(r);
        if (eat(r, 'I')) arguments_skip(r);
    }
    unresolved_skip(r);
}

/* A function's own parameter: "fp" or "fL" depth "p", qualifiers, which. */
static void own_parameter_skip(reader *r)
{
    uint32_t depth;
    if (eat(r, 'T')) return;
    if (eat(r, 'L')) {
        if (!number_read(r, &depth)) r->failed = true;
    }
    if (!eat(r, 'p')) r->failed = true;
    while (*r->p == 'r' || *r->p == 'V' || *r->p == 'K') r->p++;
    ordinal_read(r);
}

typedef enum form { FORM_TYPE, FORM_VALUE, FORM_TYPE_VALUE, FORM_TYPE_LIST, FORM_LIST, FORM_MEMBER, FORM_SCOPED, FORM_SIZE_OF_PACK } form;

/* Expressions that begin with two letters and are no operators. */
static bool form_skip(reader *r)
{
    static const struct {
        char code[3];
        form form;
    } forms[] = {
        {"st", FORM_TYPE},       {"at", FORM_TYPE},      {"ti", FORM_TYPE},       {"sz", FORM_VALUE},     {"az", FORM_VALUE},  {"te", FORM_VALUE},
        {"nx", FORM_VALUE},      {"sp", FORM_VALUE},     {"tw", FORM_VALUE},      {"cv", FORM_TYPE_VALUE}, {"sc", FORM_TYPE_VALUE},
        {"dc", FORM_TYPE_VALUE}, {"cc", FORM_TYPE_VALUE}, {"rc", FORM_TYPE_VALUE}, {"tl", FORM_TYPE_LIST}, {"il", FORM_LIST},   {"cl", FORM_LIST},
        {"dt", FORM_MEMBER},     {"pt", FORM_MEMBER},    {"sr", FORM_SCOPED},     {"sZ", FORM_SIZE_OF_PACK},
    };
    size_t i = 0;
    while (i < sizeof forms / sizeof *forms && !(r->p[0] == forms[i].code[0] && r->p[1] == forms[i].code[1])) i++;
    if (i == sizeof forms / sizeof *forms) return false;
    r->p += 2;
    const form f = forms[i].form;
    if (f == FORM_TYPE || f == FORM_TYPE_VALUE || f == FORM_TYPE_LIST) type_read(r);
    if (f == FORM_TYPE_VALUE && eat(r, '_')) {
        list_skip(r);
        return true;
    }
    if (f == FORM_VALUE || f == FORM_TYPE_VALUE || f == FORM_MEMBER || f == FORM_SIZE_OF_PACK) expression_skip(r);
    if (f == FORM_MEMBER) unresolved_skip(r);
    if (f == FORM_SCOPED) scoped_skip(r);
    if (f == FORM_LIST || f == FORM_TYPE_LIST) list_skip(r);
    return true;
}

static void expression_body(reader *r)
{
    if (r->p[0] == 'g' && r->p[1] == 's') r->p += 2; /* of the global scope */
    if (eat(r, 'L')) {
        literal_skip(r);
    } else if (*r->p == 'T') {
        type_read(r);
    } else if (r->p[0] == 'f' && (r->p[1] == 'p' || r->p[1] == 'L' || r->p[1] == 'T')) {
        r->p++;
        own_parameter_skip(r);
    } else if (isdigit((unsigned char)*r->p) || (r->p[0] == 'o' && r->p[1] == 'n')) {
        unresolved_skip(r);
    } else if (!form_skip(r)) {
        const operation *o = operation_at(r->p);
        if (!o || !o->operands) {
            r->failed = true;
            return;
        }
        r->p += 2;
        if (o->code[0] == o->code[1] && (o->code[0] == 'p' || o->code[0] == 'm')) eat(r, '_'); /* ++ and -- before */
        for (uint32_t i = 0; i < o->operands && !r->failed; i++) expression_skip(r);
    }
}

static void expression_skip(reader *r)
{
    r->quiet++;
    if (enter(r)) expression_body(r);
    leave(r, nothing);
    r->quiet--;
}

/* --------------------------------------------------------------------------------------------- whole symbols */

/* What a compiler makes beside functions: tables, thunks, guards. */
static span special_read(reader *r)
{
    static const struct {
        char code[3];
        bool type; /* of a type; otherwise of a function or variable */
        uint8_t offsets;
        const char *text;
    } specials[] = {
        {"TV", true, 0, "vtable for "},        {"TT", true, 0, "VTT for "},           {"TI", true, 0, "typeinfo for "},
        {"TS", true, 0, "typeinfo name for "}, {"TC", true, 0, "construction vtable for "}, {"Th", false, 1, "non-virtual thunk to "},
        {"Tv", false, 2, "virtual thunk to "}, {"TH", false, 0, "TLS init function for "},  {"TW", false, 0, "TLS wrapper function for "},
        {"GV", false, 0, "guard variable for "}, {"GR", false, 0, "reference temporary for "},
    };
    for (size_t i = 0; i < sizeof specials / sizeof *specials; i++) {
        if (r->p[0] != specials[i].code[0] || r->p[1] != specials[i].code[1]) continue;
        r->p += 2;
        for (uint32_t k = 0; k < specials[i].offsets; k++) {
            signed_skip(r);
            if (!eat(r, '_')) return fail(r);
        }
        const span of = specials[i].type ? type_read(r) : encoding_read(r);
        return join(r, nothing, specials[i].text, of);
    }
    return fail(r);
}

/* A function without its parameters, which the caller skips where something comes after them. */
static span encoding_read(reader *r)
{
    if (!enter(r)) return leave(r, nothing);
    const bool special = (*r->p == 'T' || *r->p == 'G') && isalpha((unsigned char)r->p[1]);
    return leave(r, special ? special_read(r) : name_read(r));
}

void plim__symbol_readable(const char *mangled, char *to, size_t size)
{
    if (size == 0) return;
    snprintf(to, size, "%s", mangled);
    if (mangled[0] != '_' || mangled[1] != 'Z') return;
    reader r; /* arena and table are written before they are read */
    r.p = mangled + 2;
    r.failed = false;
    r.quiet = r.depth = r.used = r.known = 0;
    r.last = r.best = nothing;
    span s = encoding_read(&r);
    if (r.failed) s = r.best;
    if (s.n) snprintf(to, size, "%.*s", (int)s.n, r.arena + s.at);
}

/* ------------------------------------------------------------------------------------------------------- labels */

/* Whether this part of a qualified name is an autograd node's: a capital, ..., "Backward", digits. */
static bool is_backward(const char *part, size_t n)
{
    static const char word[] = "Backward";
    const size_t m = sizeof word - 1;
    if (n <= m || !isupper((unsigned char)part[0])) return false;
    while (n && isdigit((unsigned char)part[n - 1])) n--;
    if (n <= m || memcmp(part + n - m, word, m)) return false;
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)part[i]) && part[i] != '_') return false;
    return true;
}

static bool backward_find(const char *name, char *to, size_t size)
{
    for (const char *part = name; *part;) {
        const char *end = strstr(part, "::");
        const size_t n = end ? (size_t)(end - part) : strlen(part);
        if (is_backward(part, n)) {
            snprintf(to, size, "%.*s", (int)n, part);
            return true;
        }
        part += n + (end ? 2 : 0);
    }
    return false;
}

/* at::_ops::NAME::call and ::redispatch are how every operation of torch is entered. */
static bool operation_find(const char *name, char *to, size_t size)
{
    static const char head[] = "at::_ops::";
    if (strncmp(name, head, sizeof head - 1)) return false;
    const char *from = name + sizeof head - 1, *end = strstr(from, "::");
    if (!end || end == from || (strcmp(end, "::call") && strcmp(end, "::redispatch"))) return false;
    snprintf(to, size, "aten::%.*s", (int)(end - from), from);
    return true;
}

bool plim__symbol_label(const plim__symbol *symbol, uint32_t n, char *to, size_t size)
{
    if (size == 0) return false;
    to[0] = 0;
    for (uint32_t i = 0; i < n; i++)
        if (backward_find(symbol[i].name, to, size)) return true;
    for (uint32_t i = n; i-- > 0;)
        if (operation_find(symbol[i].name, to, size)) return true;
    return false;
}
