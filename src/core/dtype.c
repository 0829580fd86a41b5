#include "core/dtype.h"

#include <string.h>

typedef struct dtype_row {
    const char *name, *numpy, *descr; /* "f32", "float32", "f4" */
    uint8_t bytes;
    plim__kind kind;
} dtype_row;

static const dtype_row table[PLIM_DTYPE_COUNT] = {
    [PLIM_BOOL] = {"bool", "bool_", "b1", 1, PLIM__KIND_BOOL},
    [PLIM_U8] = {"u8", "uint8", "u1", 1, PLIM__KIND_UINT},
    [PLIM_U16] = {"u16", "uint16", "u2", 2, PLIM__KIND_UINT},
    [PLIM_U32] = {"u32", "uint32", "u4", 4, PLIM__KIND_UINT},
    [PLIM_U64] = {"u64", "uint64", "u8", 8, PLIM__KIND_UINT},
    [PLIM_I8] = {"i8", "int8", "i1", 1, PLIM__KIND_INT},
    [PLIM_I16] = {"i16", "int16", "i2", 2, PLIM__KIND_INT},
    [PLIM_I32] = {"i32", "int32", "i4", 4, PLIM__KIND_INT},
    [PLIM_I64] = {"i64", "int64", "i8", 8, PLIM__KIND_INT},
    [PLIM_F16] = {"f16", "float16", "f2", 2, PLIM__KIND_FLOAT},
    [PLIM_BF16] = {"bf16", "bfloat16", "V2", 2, PLIM__KIND_FLOAT},
    [PLIM_F32] = {"f32", "float32", "f4", 4, PLIM__KIND_FLOAT},
    [PLIM_F64] = {"f64", "float64", "f8", 8, PLIM__KIND_FLOAT},
};

const char *plim_dtype_name(plim_dtype t)
{
    return (unsigned)t < PLIM_DTYPE_COUNT ? table[t].name : "?";
}

uint64_t plim_dtype_bytes(plim_dtype t)
{
    return (unsigned)t < PLIM_DTYPE_COUNT ? table[t].bytes : 0;
}

plim__kind plim__dtype_kind(plim_dtype t)
{
    return table[t].kind;
}

plim_status plim_dtype_parse(plim_dtype *out, const char *text, plim_error *err)
{
    /* Our own names first: "i8" is 8 bits wide here, while "<i8" is NumPy's 8 bytes. */
    const bool descr = text[0] == '<' || text[0] == '>' || text[0] == '=' || text[0] == '|';
    for (int t = 0; t < PLIM_DTYPE_COUNT; t++) {
        const bool ours = !descr && (!strcmp(text, table[t].name) || !strcmp(text, table[t].numpy));
        const bool theirs = descr && !strcmp(text + 1, table[t].descr);
        if (ours || theirs) {
            *out = (plim_dtype)t;
            return PLIM_OK;
        }
    }
    static const struct { const char *name; plim_dtype t; } alias[] = {
        {"float", PLIM_F64}, {"double", PLIM_F64}, {"half", PLIM_F16}, {"single", PLIM_F32}, {"int", PLIM_I64},
    };
    for (size_t i = 0; i < sizeof alias / sizeof *alias; i++) {
        if (!strcmp(text, alias[i].name)) {
            *out = alias[i].t;
            return PLIM_OK;
        }
    }
    return plim__fail(err, PLIM_E_TYPE, "unknown dtype '%.40s' (known: bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64)", text);
}

/* The smallest float that holds every integer of `bits` bits, as NumPy's promotion has it. */
static plim_dtype float_for_bits(uint64_t bytes)
{
    return bytes <= 1 ? PLIM_F16 : bytes == 2 ? PLIM_F32 : PLIM_F64;
}

static plim_dtype wider_float(plim_dtype a, plim_dtype b)
{
    if (a == b) return a;
    if (table[a].bytes == 2 && table[b].bytes == 2) return PLIM_F32; /* f16 with bf16 */
    return table[a].bytes >= table[b].bytes ? a : b;
}

plim_dtype plim__dtype_promote(plim_dtype a, plim_dtype b)
{
    if (a == b) return a;
    if (table[a].kind < table[b].kind || (table[a].kind == table[b].kind && table[a].bytes < table[b].bytes)) {
        const plim_dtype swap = a;
        a = b;
        b = swap;
    }
    /* now kind(a) >= kind(b), and a is the wider where the kinds are equal */
    if (table[b].kind == PLIM__KIND_BOOL) return a;
    if (table[a].kind == PLIM__KIND_FLOAT) {
        if (table[b].kind == PLIM__KIND_FLOAT) return wider_float(a, b);
        const plim_dtype need = float_for_bits(table[b].bytes);
        return need == PLIM_F16 ? a : wider_float(a, need);
    }
    if (table[a].kind == table[b].kind) return a;
    /* signed with unsigned: the signed type that holds both, or f64 */
    if (table[a].bytes > table[b].bytes) return a;
    switch (table[b].bytes) {
    case 1: return PLIM_I16;
    case 2: return PLIM_I32;
    case 4: return PLIM_I64;
    default: return PLIM_F64;
    }
}

plim_dtype plim__dtype_promote_weak(plim_dtype a, plim__kind scalar)
{
    if (scalar <= table[a].kind) return a;
    if (scalar == PLIM__KIND_FLOAT) return PLIM_F64;
    if (scalar == PLIM__KIND_BOOL) return a;
    return table[a].kind == PLIM__KIND_BOOL ? PLIM_I64 : a; /* an int meets bool, or an unsigned integer */
}

plim_dtype plim__dtype_float_of(plim_dtype t)
{
    return table[t].kind == PLIM__KIND_FLOAT ? t : float_for_bits(table[t].bytes);
}

plim_dtype plim__dtype_compute(plim_dtype t)
{
    switch (t) {
    case PLIM_F16: case PLIM_BF16: case PLIM_F32: return PLIM_F32;
    case PLIM_F64: return PLIM_F64;
    case PLIM_U64: return PLIM_U64;
    default: return PLIM_I64;
    }
}
