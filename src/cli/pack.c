/* plimsoll pack: static offsets for a set of lifetimes, with the proven gap to the lower bound. */
#include "cli/cli.h"
#include "cli/csv.h"
#include "cli/output_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { FILE_MAX = 1 << 30 };

typedef struct job {
    const char *path, *out;
    plim_pack_options options;
    plim__csv table;
    plim_buffer *buffer;
    uint32_t id;
} job;

static plim_status fail(plim_error *err, plim_status code, const char *path, const char *what)
{
    err->code = code;
    snprintf(err->message, sizeof err->message, "'%.200s': %s", path, what);
    return code;
}

/* The whole file, with a NUL behind it. "-" is stdin. */
static plim_status read_file(const char *path, char **text, size_t *n, plim_error *err)
{
    FILE *f = strcmp(path, "-") ? fopen(path, "rb") : stdin;
    if (!f) return fail(err, PLIM_E_IO, path, strerror(errno));
    size_t room = 1 << 16;
    char *buf = malloc(room);
    for (*n = 0; buf;) {
        const size_t got = fread(buf + *n, 1, room - 1 - *n, f);
        *n += got;
        if (got == 0 || *n > FILE_MAX) break;
        if (*n + 1 < room) continue;
        char *more = realloc(buf, room *= 2);
        if (!more) free(buf);
        buf = more;
    }
    const bool failed = ferror(f);
    if (f != stdin) fclose(f);
    if (buf && !failed && *n <= FILE_MAX) {
        buf[*n] = 0;
        *text = buf;
        return PLIM_OK;
    }
    const bool large = *n > FILE_MAX;
    const plim_status code = large ? PLIM_E_FORMAT : buf ? PLIM_E_IO : PLIM_E_NOMEM;
    free(buf);
    return fail(err, code, path, large ? "larger than 1 GiB" : code == PLIM_E_IO ? "cannot be read" : "out of memory");
}

/* Which column holds what, by any of the names that MiniMalloc's own tables use. */
typedef struct role {
    const char *name[4];
} role;

enum { ROLE_ID, ROLE_LOWER, ROLE_UPPER, ROLE_SIZE, ROLES };

static const role roles[ROLES] = {
    [ROLE_ID] = {{"id", "buffer", "buffer_id"}},
    [ROLE_LOWER] = {{"lower", "start", "begin"}},
    [ROLE_UPPER] = {{"upper", "end"}}, /* an "end" is the last moment alive, an "upper" the one after it */
    [ROLE_SIZE] = {{"size"}},
};

static plim_status find_column(uint32_t *out, const job *j, const role *r, plim_error *err)
{
    *out = PLIM__CSV_COLUMNS;
    for (int i = 0; r->name[i] && *out == PLIM__CSV_COLUMNS; i++) *out = plim__csv_column(&j->table, r->name[i]);
    if (*out < PLIM__CSV_COLUMNS) return PLIM_OK;
    err->code = PLIM_E_FORMAT;
    snprintf(err->message, sizeof err->message, "'%.200s', line %u: there is no column '%s' (needed: id, lower, upper, size)", j->path,
             j->table.header_line, r->name[0]);
    return err->code;
}

static plim_status fail_row(const job *j, uint32_t row, const char *what, plim_error *err)
{
    err->code = PLIM_E_FORMAT;
    snprintf(err->message, sizeof err->message, "'%.200s', line %u: %s", j->path, j->table.line[row], what);
    return err->code;
}

/* What MiniMalloc can say of a buffer and this packer cannot keep must not be passed over in silence. */
static plim_status check_extras(const job *j, uint32_t row, plim_error *err)
{
    const plim__csv *t = &j->table;
    const uint32_t gaps = plim__csv_column(t, "gaps"), alignment = plim__csv_column(t, "alignment");
    int64_t align = 1;
    if (gaps < PLIM__CSV_COLUMNS && t->field[(size_t)row * t->n_columns + gaps][0])
        return fail_row(j, row, "column gaps: lifetimes with gaps are not supported", err);
    if (alignment < PLIM__CSV_COLUMNS && plim__csv_int(&align, t, row, alignment, j->path, err)) return err->code;
    if (align < 1 || (uint64_t)align > (j->options.alignment ? j->options.alignment : 1) || (align > 1 && j->options.alignment % (uint64_t)align))
        return fail_row(j, row, "column alignment: give --align a multiple of every buffer's alignment", err);
    return PLIM_OK;
}

/* Rows to buffers; each is checked by itself, with its line in the message. */
static plim_status take_rows(job *j, plim_error *err)
{
    const plim__csv *t = &j->table;
    uint32_t column[ROLES];
    for (int i = 0; i < ROLES; i++)
        if (find_column(&column[i], j, &roles[i], err)) return err->code;
    const bool is_end = !strcmp(t->column[column[ROLE_UPPER]], "end");
    j->id = column[ROLE_ID];
    j->buffer = calloc(t->n_rows ? t->n_rows : 1, sizeof *j->buffer);
    if (!j->buffer) return fail(err, PLIM_E_NOMEM, j->path, "out of memory");
    for (uint32_t r = 0; r < t->n_rows; r++) {
        int64_t v[ROLES];
        for (int i = ROLE_LOWER; i < ROLES; i++)
            if (plim__csv_int(&v[i], t, r, column[i], j->path, err)) return err->code;
        if (is_end && v[ROLE_UPPER] == INT64_MAX) return fail_row(j, r, "column end: beyond 64 bits", err);
        v[ROLE_UPPER] += is_end;
        if (v[ROLE_SIZE] < 0) return fail_row(j, r, "the size is negative", err);
        if (v[ROLE_LOWER] >= v[ROLE_UPPER]) return fail_row(j, r, is_end ? "start must not be after end" : "lower must be below upper: a lifetime is [lower, upper)", err);
        if (check_extras(j, r, err)) return err->code;
        j->buffer[r] = (plim_buffer){.lower = v[ROLE_LOWER], .upper = v[ROLE_UPPER], .size = (uint64_t)v[ROLE_SIZE]};
    }
    return PLIM_OK;
}

typedef struct id_row {
    const char *id;
    uint32_t row;
} id_row;

static int id_compare(const void *pa, const void *pb)
{
    const id_row *a = pa, *b = pb;
    const int order = strcmp(a->id, b->id);
    return order ? order : a->row < b->row ? -1 : a->row > b->row;
}

static plim_status check_ids(const job *j, plim_error *err)
{
    const plim__csv *t = &j->table;
    id_row *ids = malloc((t->n_rows + (size_t)1) * sizeof *ids);
    if (!ids) return fail(err, PLIM_E_NOMEM, j->path, "out of memory");
    for (uint32_t r = 0; r < t->n_rows; r++) ids[r] = (id_row){.id = t->field[(size_t)r * t->n_columns + j->id], .row = r};
    qsort(ids, t->n_rows, sizeof *ids, id_compare);
    for (uint32_t r = 1; r < t->n_rows && err->code == PLIM_OK; r++) {
        if (strcmp(ids[r].id, ids[r - 1].id)) continue;
        err->code = PLIM_E_FORMAT;
        snprintf(err->message, sizeof err->message, "'%.200s', line %u: id '%.40s' is there twice, first on line %u", j->path,
                 t->line[ids[r].row], ids[r].id, t->line[ids[r - 1].row]);
    }
    free(ids);
    return err->code;
}

static void write_table(FILE *f, const job *j)
{
    const plim__csv *t = &j->table;
    const uint32_t old = plim__csv_column(t, "offset"); /* an offset that is there already is replaced */
    for (uint32_t c = 0; c < t->n_columns; c++)
        if (c != old) fprintf(f, "%s,", t->column[c]);
    fprintf(f, "offset\n");
    for (uint32_t r = 0; r < t->n_rows; r++) {
        for (uint32_t c = 0; c < t->n_columns; c++)
            if (c != old) fprintf(f, "%s,", t->field[(size_t)r * t->n_columns + c]);
        fprintf(f, "%llu\n", (unsigned long long)j->buffer[r].offset);
    }
}

static plim_status write_output(const job *j, plim_error *err)
{
    if (!j->out) {
        write_table(stdout, j);
        return fflush(stdout) || ferror(stdout) ? fail(err, PLIM_E_IO, "stdout", strerror(errno)) : PLIM_OK;
    }
    plim__output_file f;
    const plim_status status = plim__output_file_open(&f, j->out, err);
    if (status) return status;
    write_table(f.out, j);
    return plim__output_file_finish(&f, err);
}

static void emit_result(const job *j, const plim_pack_result *res, bool json)
{
    static plim__emit e;
    const double gap = res->bound ? 100.0 * (double)(res->height - res->bound) / (double)res->bound : 0;
    plim__emit_start(&e, json ? stdout : stderr, json, "pack");
    plim__emit_count(&e, "buffers", "buffers", j->table.n_rows);
    plim__emit_bytes(&e, "height_bytes", "height", res->height);
    plim__emit_bytes(&e, "bound_bytes", "lower bound", res->bound);
    plim__emit_number(&e, "gap_percent", "gap to the bound", "%.4f %%", gap);
    plim__emit_bool(&e, "proven", "proven to be the least", res->proven);
    if (j->options.capacity) plim__emit_bytes(&e, "capacity_bytes", "capacity", j->options.capacity);
    plim__emit_bool(&e, "fits", j->options.capacity ? "fits" : NULL, res->fits);
    plim__emit_string(&e, "method", "found by", res->method);
    plim__emit_number(&e, "seconds", "took", "%.3f s", res->seconds);
    plim__emit_end(&e);
}

static plim_status run_job(job *j, const plim__cli_shared *shared, plim_pack_result *res, plim_error *err)
{
    char *text;
    size_t n;
    plim_status status = read_file(j->path, &text, &n, err);
    if (status == PLIM_OK) status = plim__csv_parse(&j->table, text, n, j->path, err);
    if (status == PLIM_OK) status = take_rows(j, err);
    if (status == PLIM_OK) status = check_ids(j, err);
    if (status == PLIM_OK) status = plim_pack(j->buffer, j->table.n_rows, &j->options, res, &shared->set, err);
    if (status == PLIM_OK) status = plim_pack_check(j->buffer, j->table.n_rows, res->height, err);
    if (status == PLIM_OK && (j->out || !shared->json)) status = write_output(j, err);
    if (status == PLIM_OK && (shared->json || !shared->quiet)) emit_result(j, res, shared->json);
    return status;
}

int plim_cli_pack(int argc, char **argv)
{
    static job j;
    const plim__cli_option options[] = {
        {.name = "output", .letter = 'o', .kind = PLIM__CLI_IS_TEXT, .to = &j.out, .value = "FILE", .help = "write the table there instead of stdout"},
        {.name = "capacity", .kind = PLIM__CLI_IS_BYTES, .to = &j.options.capacity, .value = "SIZE", .help = "stop at the first packing that is no higher"},
        {.name = "seconds", .kind = PLIM__CLI_IS_SECONDS, .to = &j.options.seconds, .value = "S", .help = "how long to search for the bound or --capacity; default 1"},
        {.name = "align", .kind = PLIM__CLI_IS_BYTES, .to = &j.options.alignment, .value = "N", .help = "every offset is a multiple of N"},
    };
    const plim__cli_command cmd = {
        .name = "pack",
        .synopsis = "BUFFERS.csv [-o PLACED.csv] [--capacity SIZE] [--seconds S] [--align N]",
        .about = "Gives every buffer an offset so that buffers alive together share no byte, in as little memory as it can find,\n"
                 "and says how far that is from the lower bound (the most bytes alive at once). It stops when the bound is reached or\n"
                 "its time is up. BUFFERS.csv has the columns id, lower,\n"
                 "upper, size, in any order; lifetimes are half open, [lower, upper). The table comes out with an offset column.\n",
        .notes = "exit codes: 0 done, 2 bad input, 3 no packing within --capacity was found\n",
        .shared = PLIM__CLI_JSON | PLIM__CLI_QUIET,
        .option = options,
        .n_options = sizeof options / sizeof *options,
    };
    plim__cli_shared shared;
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave)) return leave;
    if (argc != 1) return plim__cli_usage(cmd.name, "pack needs one file of buffers");
    j.path = argv[0];
    plim_error err = {0};
    plim_pack_result res = {0};
    const plim_status status = run_job(&j, &shared, &res, &err);
    plim__csv_free(&j.table);
    free(j.buffer);
    if (status != PLIM_OK) return plim__cli_fail(&err, NULL);
    return res.fits ? PLIM__EXIT_OK : PLIM__EXIT_BUDGET;
}
