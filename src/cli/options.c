/* Options: parsing, checking and help, all from one table per verb. The shared options are rows like any other, built around the
 * caller's plim__cli_shared. Nothing is allocated: values stay the caller's argv. */
#include "cli/cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARED_MAX = 10 };

/* ---- the shared options ---- */

static plim_status take_allow(void *to, const char *value, plim_error *err)
{
    static const struct { const char *name; uint32_t bit; } known[] = {
        {"f16", PLIM__ALLOW_F16}, {"bf16", PLIM__ALLOW_BF16}, {"int8", PLIM__ALLOW_INT8}, {"i8", PLIM__ALLOW_INT8},
    };
    uint32_t *set = to;
    for (const char *p = value;; p++) {
        const size_t n = strcspn(p, ",");
        uint32_t bit = 0;
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            if (strlen(known[i].name) == n && !strncmp(known[i].name, p, n)) bit = known[i].bit;
        if (!bit) {
            err->code = PLIM_E_INVALID;
            snprintf(err->message, sizeof err->message, "'%.*s' is none of f16, bf16, int8", (int)(n < 40 ? n : 40), p);
            return err->code;
        }
        *set |= bit;
        p += n;
        if (!*p) return PLIM_OK;
    }
}

static uint32_t shared_rows(plim__cli_option *row, uint32_t which, plim__cli_shared *s)
{
    const struct { uint32_t bit; plim__cli_option option; } all[] = {
        {PLIM__CLI_MEMORY, {"memory", 0, PLIM__CLI_IS_BYTES, &s->set.memory, "SIZE", "budget for the whole process: 512M, 2G, 1.5GiB, 80%", NULL}},
        {PLIM__CLI_THREADS, {"threads", 0, PLIM__CLI_IS_COUNT, &s->set.threads, "N", "compute threads (default: the CPUs there are)", NULL}},
        {PLIM__CLI_SPILL, {"spill", 0, PLIM__CLI_IS_TEXT, &s->set.spill_dir, "DIR", "where values that do not fit may go", NULL}},
        {PLIM__CLI_NO_SPILL, {"no-spill", 0, PLIM__CLI_IS_FLAG, &s->no_spill, NULL, "keep them in memory, or make them again (default: into this folder)", NULL}},
        {PLIM__CLI_ALLOW, {"allow", 0, PLIM__CLI_IS_CALL, &s->allow, "LIST", "narrower storage that may be used: f16,bf16,int8", take_allow}},
        {PLIM__CLI_MACHINE, {"machine", 0, PLIM__CLI_IS_TEXT, &s->machine_file, "FILE", "speeds of the machine, as plimsoll doctor saves them", NULL}},
        {PLIM__CLI_MACHINE, {"no-machine", 0, PLIM__CLI_IS_FLAG, &s->no_machine, NULL, "speeds of an ordinary machine (default: what doctor has measured)", NULL}},
        {PLIM__CLI_JSON, {"json", 0, PLIM__CLI_IS_FLAG, &s->json, NULL, "print one JSON object", NULL}},
        {PLIM__CLI_QUIET, {"quiet", 'q', PLIM__CLI_IS_FLAG, &s->quiet, NULL, "no progress, no summary", NULL}},
        {PLIM__CLI_PLAN_ONLY, {"plan-only", 0, PLIM__CLI_IS_FLAG, &s->plan_only, NULL, "say what would be done, and do nothing", NULL}},
    };
    uint32_t n = 0;
    for (size_t i = 0; i < sizeof all / sizeof *all; i++)
        if (which & all[i].bit) row[n++] = all[i].option;
    return n;
}

const char *plim__cli_spill_folder(plim__cli_shared *shared)
{
    if (shared->no_spill && shared->set.spill_dir) return "--spill and --no-spill exclude each other";
    if (!shared->no_spill && !shared->set.spill_dir && access(".", W_OK) == 0) shared->set.spill_dir = ".";
    return NULL;
}

/* ---- help ---- */

static void print_option(FILE *out, const plim__cli_option *o)
{
    char text[64];
    char letter[8] = "    ";
    if (o->letter) snprintf(letter, sizeof letter, "-%c%s", o->letter, o->name ? ", " : "  ");
    snprintf(text, sizeof text, "%s%s%s%s%s", letter, o->name ? "--" : "", o->name ? o->name : "", o->value ? " " : "", o->value ? o->value : "");
    fprintf(out, "  %-28s %s\n", text, o->help);
}

static void print_help(FILE *out, const plim__cli_command *cmd, const plim__cli_option *shared, uint32_t n_shared)
{
    fprintf(out, "usage: plimsoll %s %s\n", cmd->name, cmd->synopsis);
    if (cmd->about) fprintf(out, "\n%s", cmd->about);
    fprintf(out, "\noptions:\n");
    for (uint32_t i = 0; i < cmd->n_options; i++) print_option(out, &cmd->option[i]);
    for (uint32_t i = 0; i < n_shared; i++) print_option(out, &shared[i]);
    fprintf(out, "  %-28s %s\n", "-h, --help", "this text");
    if (cmd->notes) fprintf(out, "\n%s", cmd->notes);
}

/* ---- values ---- */

static plim_status bad_value(plim_error *err, const char *what, const char *value)
{
    err->code = PLIM_E_INVALID;
    snprintf(err->message, sizeof err->message, "'%.40s' is not %s", value, what);
    return err->code;
}

static plim_status take_bytes(uint64_t *to, const char *value, plim_error *err)
{
    plim_limits limits;
    uint64_t whole = 0;
    if (strchr(value, '%') && plim_limits_read(&limits, NULL) == PLIM_OK) whole = limits.available;
    const plim_status status = plim_bytes_parse(to, value, whole, err);
    return status == PLIM_OK && *to == 0 ? bad_value(err, "a size above 0", value) : status;
}

static plim_status take_count(uint32_t *to, const char *value, plim_error *err)
{
    char *end;
    errno = 0;
    const unsigned long n = strtoul(value, &end, 10);
    if (value[0] < '0' || value[0] > '9' || *end || errno || n == 0 || n > UINT32_MAX) return bad_value(err, "a whole number above 0", value);
    *to = (uint32_t)n;
    return PLIM_OK;
}

static plim_status take_seconds(double *to, const char *value, plim_error *err)
{
    char *end;
    const double x = strtod(value, &end);
    if (end == value || *end || !(x > 0) || x > 1e9) return bad_value(err, "a number of seconds above 0", value);
    *to = x;
    return PLIM_OK;
}

static plim_status take_value(const plim__cli_option *o, const char *value, plim_error *err)
{
    switch (o->kind) {
    case PLIM__CLI_IS_FLAG: *(bool *)o->to = true; return PLIM_OK;
    case PLIM__CLI_IS_TEXT: *(const char **)o->to = value; return PLIM_OK;
    case PLIM__CLI_IS_BYTES: return take_bytes(o->to, value, err);
    case PLIM__CLI_IS_COUNT: return take_count(o->to, value, err);
    case PLIM__CLI_IS_SECONDS: return take_seconds(o->to, value, err);
    case PLIM__CLI_IS_CALL: return o->take(o->to, value, err);
    }
    return PLIM_OK;
}

/* ---- parsing ---- */

typedef struct option_table {
    const plim__cli_option *part[2]; /* the verb's own, then the shared ones */
    uint32_t n[2];
} option_table;

/* The option that `word` ("--name", "--name=value", "-o", "-ovalue") names. *value is what is attached to it, or NULL. */
static const plim__cli_option *find_option(const option_table *t, const char *word, const char **value)
{
    const bool is_long = word[1] == '-';
    const size_t n = is_long ? strcspn(word + 2, "=") : 1;
    *value = is_long ? (word[2 + n] ? word + 3 + n : NULL) : (word[2] ? word + 2 : NULL);
    for (int p = 0; p < 2; p++) {
        for (uint32_t i = 0; i < t->n[p]; i++) {
            const plim__cli_option *o = &t->part[p][i];
            if (is_long ? o->name && strlen(o->name) == n && !strncmp(o->name, word + 2, n) : o->letter == word[1]) return o;
        }
    }
    return NULL;
}

static int unknown_option(const plim__cli_command *cmd, const option_table *t, const char *word)
{
    const char *name[64];
    uint32_t n = 0;
    for (int p = 0; p < 2; p++)
        for (uint32_t i = 0; i < t->n[p] && n < 64; i++)
            if (t->part[p][i].name) name[n++] = t->part[p][i].name;
    const char *near = word[1] == '-' ? plim__cli_nearest(word + 2, name, n) : NULL;
    if (near) return plim__cli_usage(cmd->name, "unknown option %s; do you mean --%s?", word, near);
    return plim__cli_usage(cmd->name, "unknown option %s", word);
}

/* Takes the option at argv[*i], and its value there or in the next word. @return an exit code, or -1 to go on */
static int take_option(const plim__cli_command *cmd, const option_table *t, int argc, char **argv, int *i)
{
    const char *value, *word = argv[*i];
    const plim__cli_option *o = find_option(t, word, &value);
    if (!o) return unknown_option(cmd, t, word);
    if (o->kind == PLIM__CLI_IS_FLAG && value) return plim__cli_usage(cmd->name, "option %s takes no value", word);
    if (o->kind != PLIM__CLI_IS_FLAG && !value) {
        if (*i + 1 >= argc) return plim__cli_usage(cmd->name, "option %s needs a value: %s", word, o->value);
        value = argv[++*i];
    }
    plim_error err = {0};
    if (take_value(o, value, &err) == PLIM_OK) return -1;
    if (o->name) return plim__cli_usage(cmd->name, "--%s: %s", o->name, err.message);
    return plim__cli_usage(cmd->name, "-%c: %s", o->letter, err.message);
}

bool plim__cli_parse(const plim__cli_command *cmd, plim__cli_shared *shared, int *argc, char **argv, int *leave)
{
    *shared = (plim__cli_shared){.set = plim_settings_default()};
    plim__cli_option rows[SHARED_MAX];
    const uint32_t n_rows = shared_rows(rows, cmd->shared, shared);
    const option_table table = {.part = {cmd->option, rows}, .n = {cmd->n_options, n_rows}};
    int words = 0;
    bool only_words = false;
    for (int i = 1; i < *argc; i++) {
        char *word = argv[i];
        if (only_words || word[0] != '-' || !word[1]) {
            argv[words++] = word;
            only_words |= cmd->stops_at_word;
        } else if (!strcmp(word, "--")) {
            only_words = true;
        } else if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
            print_help(stdout, cmd, rows, n_rows);
            *leave = PLIM__EXIT_OK;
            return false;
        } else {
            *leave = take_option(cmd, &table, *argc, argv, &i);
            if (*leave >= 0) return false;
        }
    }
    *argc = words;
    return true;
}

/* ---- what was meant ---- */

/* Levenshtein's distance, one row at a time; words longer than the row are never near anything. */
static uint32_t distance(const char *a, const char *b)
{
    enum { ROW = 32 };
    const size_t na = strlen(a), nb = strlen(b);
    if (na >= ROW || nb >= ROW) return ROW;
    uint32_t row[ROW];
    for (size_t j = 0; j <= nb; j++) row[j] = (uint32_t)j;
    for (size_t i = 1; i <= na; i++) {
        uint32_t diagonal = row[0];
        row[0] = (uint32_t)i;
        for (size_t j = 1; j <= nb; j++) {
            const uint32_t above = row[j], change = diagonal + (a[i - 1] != b[j - 1]);
            uint32_t best = above + 1 < row[j - 1] + 1 ? above + 1 : row[j - 1] + 1;
            if (change < best) best = change;
            diagonal = above;
            row[j] = best;
        }
    }
    return row[nb];
}

const char *plim__cli_nearest(const char *word, const char *const *name, uint32_t n)
{
    const char *best = NULL;
    for (uint32_t i = 0; i < n; i++) /* a beginning */
        if (strlen(word) >= 2 && !strncmp(name[i], word, strlen(word))) return name[i];
    uint32_t least = strlen(word) < 5 ? 3 : 4; /* up to 2 edits, 3 in a longer word */
    for (uint32_t i = 0; i < n; i++) {
        const uint32_t d = distance(word, name[i]);
        if (d < least && d < strlen(name[i])) {
            least = d;
            best = name[i];
        }
    }
    return best;
}
