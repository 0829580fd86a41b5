/* Names for addresses of native code, from the ELF files that a watched process has mapped. The maps are learnt while it lives, the files are
 * read when a report needs names: one pass over a file's symbol tables for all addresses in it, nothing of them kept. */
#ifndef PLIM_WATCH_SYMBOLS_H
#define PLIM_WATCH_SYMBOLS_H

#include "core/error.h"

typedef struct plim__symbols plim__symbols;

plim_status plim__symbols_new(plim__symbols **out, plim_error *err);
void plim__symbols_free(plim__symbols **s);

/** Reads /proc/PID/maps again and remembers where the files are mapped executable, for this pid. Files that went away since stay known. */
void plim__symbols_learn(plim__symbols *s, int pid);
/** Whether `pc` lies in something known of this pid: otherwise learn again. */
bool plim__symbols_knows(const plim__symbols *s, int pid, uint64_t pc);

typedef struct plim__symbol {
    uint64_t pc;       /* in: a return address */
    char library[64];  /* base name of the file; "" where it is unknown */
    char name[160];    /* readable: at::native::empty_cpu, PyEval_EvalFrame; "" where there is none */
    uint64_t offset;   /* from the start of the function, or of the file where there is no name */
} plim__symbol;

/** Fills names for all of them, of one process. */
void plim__symbols_find(plim__symbols *s, int pid, plim__symbol *symbol, uint32_t n);

/** A mangled C++ name made readable: qualified names without parameters and template arguments ("_ZN2at6native4reluERKNS_6TensorE" ->
 *  "at::native::relu";
 *  "_ZTVN5torch8autograd9generated12AddBackward0E" -> "vtable for torch::autograd::generated::AddBackward0"). Others are copied. */
void plim__symbol_readable(const char *mangled, char *to, size_t size);
/** What an operation is called, from the names of a stack, innermost first: the first XBackward (autograd), else the outermost op
 *  (at::_ops::relu::call -> "aten::relu").
 *  @return false where the names say nothing of the kind */
bool plim__symbol_label(const plim__symbol *symbol, uint32_t n, char *to, size_t size);

#endif
