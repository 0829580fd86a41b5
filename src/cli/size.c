/* plimsoll size: bytes of tensors, whether they fit here together, and which limit says no. */
#include "cli/cli.h"

#include <string.h>

enum { TENSORS_MAX = 64 };

typedef struct tensor {
    const char *text;
    plim_shape shape;
    plim_dtype dtype;
    uint64_t elements, bytes;
} tensor;

/* "3075200x512:f32"; without a colon f32. */
static plim_status tensor_parse(tensor *out, const char *text, plim_error *err)
{
    char shape[256];
    const char *colon = strrchr(text, ':');
    const size_t n = colon ? (size_t)(colon - text) : strlen(text);
    out->text = text;
    out->dtype = PLIM_F32;
    if (n >= sizeof shape) {
        err->code = PLIM_E_SHAPE;
        snprintf(err->message, sizeof err->message, "shape '%.40s...' is too long", text);
        return err->code;
    }
    memcpy(shape, text, n);
    shape[n] = 0;
    plim_status status = plim_shape_parse(&out->shape, shape, err);
    if (!status && colon) status = plim_dtype_parse(&out->dtype, colon + 1, err);
    if (!status) status = plim_shape_count(&out->elements, &out->shape, err);
    if (!status) status = plim_shape_bytes(&out->bytes, &out->shape, out->dtype, err);
    return status;
}

static void emit_tensors(plim__emit *e, const tensor *t, uint32_t n, uint64_t total)
{
    static const plim__emit_column columns[] = {
        {"tensor", "tensor", false}, {"shape", NULL, false}, {"dtype", NULL, false}, {"elements", "elements", true},
        {"bytes", "bytes", true},    {NULL, "size", true},
    };
    plim__emit_table(e, "tensors", columns, 6);
    for (uint32_t i = 0; i < n; i++) {
        plim__emit_string(e, NULL, NULL, t[i].text);
        plim__emit_shape(e, NULL, NULL, &t[i].shape);
        plim__emit_string(e, NULL, NULL, plim_dtype_name(t[i].dtype));
        plim__emit_count(e, NULL, NULL, t[i].elements);
        plim__emit_count(e, NULL, NULL, t[i].bytes);
        plim__emit_bytes(e, NULL, NULL, t[i].bytes);
    }
    plim__emit_table_end(e);
    plim__emit_bytes(e, "bytes", n > 1 ? "together" : NULL, total);
}

/* What the tensors are compared with: the limits of this process, or the one budget that --memory names. */
static plim_status room_read(plim_limits *out, uint64_t budget, plim_error *err)
{
    if (!budget) return plim_limits_read(out, err);
    *out = (plim_limits){.count = 1, .available = budget, .budget = budget};
    out->limit[0] = (plim_limit){.name = "budget", .source = "--memory", .limit = budget, .available = budget};
    return PLIM_OK;
}

static void emit_limits(plim__emit *e, const plim_limits *room, uint64_t total)
{
    static const plim__emit_column columns[] = {
        {"name", "limit", false}, {"limit_bytes", "of", true},    {"available_bytes", "available", true}, {"fits", "fits", false},
        {NULL, "short by", true}, {"short_bytes", NULL, true}, {"source", "read from", false},
    };
    plim__emit_table(e, "limits", columns, 7);
    for (uint32_t i = 0; i < room->count; i++) {
        const plim_limit *l = &room->limit[i];
        const bool fits = total <= l->available;
        char lacking[32];
        plim__emit_string(e, NULL, NULL, l->name);
        plim__emit_bytes(e, NULL, NULL, l->limit);
        plim__emit_bytes(e, NULL, NULL, l->available);
        plim__emit_bool(e, NULL, NULL, fits);
        plim__emit_string(e, NULL, NULL, fits ? "" : plim_bytes_format(lacking, sizeof lacking, total - l->available));
        plim__emit_bytes(e, NULL, NULL, fits ? 0 : total - l->available);
        plim__emit_string(e, NULL, NULL, l->source);
    }
    plim__emit_table_end(e);
}

static void emit_verdict(plim__emit *e, const plim_limits *room, uint64_t total)
{
    char need[32], have[32], rest[32];
    const plim_limit *l = &room->limit[room->deciding];
    const char *who = strcmp(l->name, "budget") ? l->name : "the budget";
    const bool fits = total <= l->available;
    const uint64_t margin = fits ? l->available - total : total - l->available;
    plim__emit_bool(e, "fits", NULL, fits);
    plim__emit_string(e, "decided_by", NULL, l->name);
    plim__emit_bytes(e, "available_bytes", NULL, l->available);
    plim__emit_bytes(e, fits ? "left_bytes" : "short_bytes", NULL, margin);
    plim_bytes_format(need, sizeof need, total);
    plim_bytes_format(have, sizeof have, l->available);
    plim_bytes_format(rest, sizeof rest, margin);
    if (fits)
        plim__emit_line(e, "fits: %s of the %s that %s leaves; %s to spare\n", need, have, who, rest);
    else
        plim__emit_line(e, "does not fit: %s, but %s leaves %s; %s too much\n", need, who, have, rest);
}

int plim_cli_size(int argc, char **argv)
{
    const plim__cli_command cmd = {
        .name = "size",
        .synopsis = "SHAPE[:DTYPE]... [--memory SIZE] [--json]",
        .about = "Bytes of each tensor and of all together, and whether they fit into what this process can\n"
                 "get now (RAM, control group, RLIMIT_AS, overcommit), or into --memory SIZE.\n"
                 "SHAPE is 3075200x512 or 3075200,512; DTYPE is f32 unless given.\n",
        .notes = "exit codes: 0 fits, 2 wrong shape or dtype, or a size beyond 64 bits, 3 does not fit\n\n"
                 "  plimsoll size 3075200x512:f32\n"
                 "  plimsoll size 384x192:f16 384x192:i8 --memory 1M\n",
        .shared = PLIM__CLI_MEMORY | PLIM__CLI_JSON,
    };
    plim__cli_shared shared;
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave)) return leave;
    if (argc == 0) return plim__cli_usage(cmd.name, "size needs a shape such as 3075200x512:f32");
    if (argc > TENSORS_MAX) return plim__cli_usage(cmd.name, "size takes at most %d tensors at once", TENSORS_MAX);

    static tensor tensors[TENSORS_MAX];
    plim_error err = {0};
    uint64_t total = 0;
    for (int i = 0; i < argc; i++) {
        if (tensor_parse(&tensors[i], argv[i], &err)) return plim__cli_fail(&err, NULL);
        if (__builtin_add_overflow(total, tensors[i].bytes, &total) || total == PLIM_UNLIMITED)
            return plim__cli_usage(NULL, "the tensors together have more than 2^64 bytes");
    }
    plim_limits room;
    if (room_read(&room, shared.set.memory, &err)) return plim__cli_fail(&err, NULL);

    static plim__emit emit;
    plim__emit_start(&emit, stdout, shared.json, cmd.name);
    emit_tensors(&emit, tensors, (uint32_t)argc, total);
    emit_verdict(&emit, &room, total);
    if (!shared.set.memory) emit_limits(&emit, &room, total);
    plim__emit_end(&emit);
    return total <= room.available ? PLIM__EXIT_OK : PLIM__EXIT_BUDGET;
}
