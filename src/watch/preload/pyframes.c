/* Python's frames, read out of its structures by their offsets (watch/pylayout.h).
 *
 * The interpreter's own functions that give a frame allocate an object for it, which may start a collection and run finalizers, inside malloc;
 * and they want the interpreter's lock, which a thread that asks for memory in a tensor library has often released. A thread's own frames however
 * change only by its own doing: it may read them at any time.
 *
 * The offsets are believed when a first walk, which reads every word through the kernel and so cannot fault, has found code objects with a file
 * and names that are str, a first line that is the one the interpreter gives, and instructions that lie in their code. */
#include "watch/preload/preload.h"
#include "watch/pylayout.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define INLINE inline __attribute__((always_inline)) /* once for each kind of reading */

enum { OBJECT_TYPE = 8, STR_LENGTH = 16, STR_STATE = 32, CODE_UNITS = 16, CODE_PROBES = 64, FRAMES_LOOKED = 1000, UNCHECKED = 0, WALKS, MISMATCH };

static struct {
    _Atomic bool found; /* the rest does not change any more, but for */
    _Atomic int state;  /* UNCHECKED, WALKS, MISMATCH */
    plim__pylayout layout;
    uint32_t version;
    uint64_t runtime, code_type, str_type, dict_type, list_type, tuple_type;
    void *(*this_thread)(void);      /* PyGILState_GetThisThreadState */
    void *(*running_thread)(void);   /* _PyThreadState_UncheckedGet: whoever holds the lock (this thread, if it does) */
    int (*finalizing)(void);         /* may be NULL */
    int (*line_of)(void *code, int); /* PyCode_Addr2Line */
} python;

static _Atomic uint32_t code_lock;

/* ---- finding it ---- */

static bool find(void *to, const char *name, const char *other)
{
    void *f = dlsym(RTLD_DEFAULT, name);
    if (!f && other) f = dlsym(RTLD_DEFAULT, other);
    if (f) memcpy(to, &f, sizeof f);
    return f;
}

static uint64_t address_of(const char *name) { return (uintptr_t)dlsym(RTLD_DEFAULT, name); }

/* "3.8.18 (default, ...)" as 0x030812f0 */
static uint32_t version_of(const char *text)
{
    uint32_t part[3] = {0};
    for (int i = 0; i < 3; i++) {
        char *end;
        part[i] = (uint32_t)strtoul(text, &end, 10);
        if (*end != '.') break;
        text = end + 1;
    }
    return part[0] << 24 | part[1] << 16 | part[2] << 8 | 0xf0;
}

static uint32_t version_find(void)
{
    const unsigned long *number = (const unsigned long *)(uintptr_t)address_of("Py_Version");
    if (number) return (uint32_t)*number;
    const char *(*text)(void);
    return find(&text, "Py_GetVersion", NULL) ? version_of(text()) : 0;
}

void plim__pre_python_find(void)
{
    if (python.found || !find(&python.this_thread, "PyGILState_GetThisThreadState", NULL)) return;
    if (!find(&python.running_thread, "_PyThreadState_UncheckedGet", "PyThreadState_GetUnchecked")) return;
    if (!find(&python.line_of, "PyCode_Addr2Line", NULL)) return;
    find(&python.finalizing, "_Py_IsFinalizing", "Py_IsFinalizing");
    python.version = version_find();
    python.runtime = address_of("_PyRuntime");
    python.code_type = address_of("PyCode_Type");
    python.str_type = address_of("PyUnicode_Type");
    python.dict_type = address_of("PyDict_Type");
    python.list_type = address_of("PyList_Type");
    python.tuple_type = address_of("PyTuple_Type");
    const uint64_t none[PLIM__PY_DESCRIPTION_WORDS] = {0}, *described = (const uint64_t *)(uintptr_t)python.runtime;
    const bool known = plim__pylayout_described(&python.layout, python.version, described ? described : none) && python.code_type && python.str_type;
    atomic_store(&python.state, known ? UNCHECKED : MISMATCH);
    atomic_store_explicit(&python.found, true, memory_order_release);
    plim__pre_flag(PLIM__REC_PYTHON_FOUND | (known ? 0 : PLIM__REC_PYTHON_MISMATCH));
    if (plim__pre_watches()) plim__pre_python_tell();
}

/* The place of codes without room, and what the supervisor needs. */
void plim__pre_python_tell(void)
{
    plim__rec_process *me = plim__pre.me;
    plim__rec_code *none = &me->code[PLIM__REC_NO_CODE];
    memcpy(none->name, "?", 2);
    memcpy(none->file, "?", 2);
    atomic_store(&none->address, 1);
    atomic_store(&none->ready, 1);
    me->python_version = python.version;
    me->python_runtime = python.runtime;
    me->python_code_type = python.code_type;
    me->python_str_type = python.str_type;
    me->python_dict_type = python.dict_type;
    me->python_list_type = python.list_type;
    me->python_tuple_type = python.tuple_type;
}

/* ---- reading ---- */

static bool peek(uint64_t at, void *to, size_t n)
{
    const struct iovec local = {.iov_base = to, .iov_len = n}, remote = {.iov_base = (void *)(uintptr_t)at, .iov_len = n};
    return process_vm_readv(getpid(), &local, 1, &remote, 1, 0) == (ssize_t)n;
}

static INLINE bool read_at(bool careful, uint64_t at, void *to, size_t n)
{
    if (careful) return peek(at, to, n);
    memcpy(to, (const void *)(uintptr_t)at, n);
    return true;
}

static INLINE uint64_t word_at(bool careful, uint64_t object, int offset)
{
    uint64_t word;
    return read_at(careful, object + (uint64_t)(int64_t)offset, &word, sizeof word) ? word : 0;
}

static INLINE int32_t instruction_at(bool careful, uint64_t frame, uint64_t code)
{
    const plim__pylayout *l = &python.layout;
    if (l->instr_is == PLIM__PY_INSTR_POINTER) return (int32_t)(word_at(careful, frame, l->frame_instr) - code - (uint64_t)l->code_start);
    int32_t at = 0;
    read_at(careful, frame + (uint64_t)l->frame_instr, &at, sizeof at);
    return l->instr_is == PLIM__PY_INSTR_UNITS ? at * 2 : at;
}

static INLINE bool is_code(bool careful, uint64_t frame)
{
    const plim__pylayout *l = &python.layout;
    int8_t owner = 0;
    if (l->owner_skip < 0) return true;
    return read_at(careful, frame + (uint64_t)l->frame_owner, &owner, sizeof owner) && owner < l->owner_skip;
}

static bool is_str(uint64_t object) { return word_at(true, object, OBJECT_TYPE) == python.str_type; }

/* The first walk demands what all later ones take for granted. Where an instruction is a pointer the code object ends in its bytecode, and has the
 * number of units as its size; a frame that has just begun may stand one before them. */
static bool is_as_expected(const plim__pre_pyframe *f)
{
    const plim__pylayout *l = &python.layout;
    int32_t first_line;
    if (word_at(true, f->code, OBJECT_TYPE) != python.code_type || !is_str(f->file) || !is_str(f->name)) return false;
    if (l->code_qualname >= 0 && !is_str(word_at(true, f->code, l->code_qualname))) return false;
    const uint64_t units = word_at(true, f->code, CODE_UNITS);
    if (l->instr_is == PLIM__PY_INSTR_POINTER && (f->at < -2 || f->at % 2 || (uint64_t)(f->at + 2) / 2 > units)) return false;
    if (!read_at(true, f->code + (uint64_t)l->code_first_line, &first_line, sizeof first_line)) return false;
    return first_line == python.line_of((void *)(uintptr_t)f->code, -1);
}

/* Whether a frame of code lies there, into `f`. The interpreter's own code between a class and its __init__ (3.13 on) is none: one str is both
 * its file and its name. */
static INLINE bool frame_read(bool careful, uint64_t frame, plim__pre_pyframe *f, bool *good)
{
    const plim__pylayout *l = &python.layout;
    uint64_t previous;
    if (careful && !peek(frame + (uint64_t)l->frame_previous, &previous, sizeof previous)) *good = false; /* it led out of memory */
    if (!is_code(careful, frame)) return false;
    f->code = plim__pylayout_object(l, word_at(careful, frame, l->frame_code));
    f->file = word_at(careful, f->code, l->code_file);
    f->name = word_at(careful, f->code, l->code_name);
    f->at = instruction_at(careful, frame, f->code);
    if (careful && !is_as_expected(f)) *good = false;
    return f->file != f->name;
}

/* The stack goes on at `frame`, and `out` is full: its last frames make room for the outermost ones. A stack whose end is too far away stays as
 * it is. */
static INLINE void outermost(bool careful, uint64_t frame, plim__pre_pyframe out[PLIM__REC_PYTHON], bool *left_out, bool *good)
{
    enum { OUTER = PLIM__REC_PYTHON_OUTER };
    plim__pre_pyframe last[OUTER]; /* a ring */
    uint32_t n = 0;
    for (uint32_t looked = 0; frame && *good; frame = word_at(careful, frame, python.layout.frame_previous)) {
        if (++looked > FRAMES_LOOKED) return;
        n += frame_read(careful, frame, &last[n % OUTER], good);
    }
    *left_out = n;
    const uint32_t come = n < OUTER ? n : OUTER, stay = OUTER - come;
    plim__pre_pyframe *end = out + PLIM__REC_PYTHON;
    memmove(end - OUTER, end - stay, stay * sizeof *end);
    for (uint32_t i = come; i; i--) end[-(int)i] = last[(n - i) % OUTER];
}

static INLINE uint32_t walk(bool careful, uint64_t thread_state, plim__pre_pyframe out[PLIM__REC_PYTHON], bool *left_out, bool *good)
{
    const plim__pylayout *l = &python.layout;
    uint64_t frame = word_at(careful, thread_state, l->thread_frame);
    if (l->cframe_current >= 0 && frame) frame = word_at(careful, frame, l->cframe_current);
    uint32_t n = 0, looked = 0;
    *good = true;
    for (; frame && n < PLIM__REC_PYTHON && *good && looked < FRAMES_LOOKED; frame = word_at(careful, frame, l->frame_previous), looked++)
        n += frame_read(careful, frame, &out[n], good);
    if (frame && n == PLIM__REC_PYTHON && *good) outermost(careful, frame, out, left_out, good);
    if (looked == FRAMES_LOOKED && !n) *good = false;             /* a ring, or no frames at all */
    if (careful && l->tagged && n && looked < 2) *good = false; /* below the code there is always a frame of the interpreter's own */
    return *good ? n : 0;
}

static uint32_t first_walk(uint64_t thread_state, plim__pre_pyframe out[PLIM__REC_PYTHON], bool *left_out)
{
    bool good;
    const uint32_t n = walk(true, thread_state, out, left_out, &good);
    if (good && !n) return 0; /* nothing runs yet: nothing is known */
    atomic_store(&python.state, good ? WALKS : MISMATCH);
    plim__pre_flag(good ? PLIM__REC_PYTHON_WALKED : PLIM__REC_PYTHON_MISMATCH);
    return n;
}

/* At the interpreter's end the states of other threads are freed while these may still run, without its lock. */
uint64_t plim__pre_python_thread(bool *gil_held)
{
    *gil_held = false;
    if (!atomic_load_explicit(&python.found, memory_order_acquire)) return 0;
    void *own = python.this_thread();
    if (!own) return 0;
    *gil_held = python.running_thread() == own;
    if (!*gil_held && python.finalizing && python.finalizing()) return 0;
    return (uintptr_t)own;
}

uint32_t plim__pre_python_walk(uint64_t thread_state, plim__pre_pyframe out[PLIM__REC_PYTHON], bool *left_out)
{
    bool good;
    *left_out = false;
    const int state = atomic_load_explicit(&python.state, memory_order_relaxed);
    if (state == MISMATCH) return 0;
    return state == WALKS ? walk(false, thread_state, out, left_out, &good) : first_walk(thread_state, out, left_out);
}

/* ---- texts ---- */

static size_t utf8_put(char *to, uint32_t c)
{
    if (c < 0x80) {
        to[0] = (char)c;
        return 1;
    }
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i; i--, c >>= 6) to[i] = (char)(0x80 | (c & 0x3f));
    to[0] = (char)((0xf00 >> n & 0xff) | c);
    return n;
}

static size_t utf8_size(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

typedef struct text {
    const unsigned char *at;
    uint64_t length; /* characters */
    uint32_t kind;   /* bytes of one */
} text;

static uint32_t text_char(const text *t, uint64_t i)
{
    if (t->kind == 1) return t->at[i];
    if (t->kind == 2) return ((const uint16_t *)(const void *)t->at)[i];
    return ((const uint32_t *)(const void *)t->at)[i];
}

/* A compact str: its characters follow its head, which is longer by what it keeps of its UTF-8 form where it is not ASCII. */
static bool text_of(text *t, uint64_t str)
{
    if (!str || word_at(false, str, OBJECT_TYPE) != python.str_type) return false;
    uint32_t state;
    read_at(false, str + STR_STATE, &state, sizeof state);
    const bool compact = state >> 5 & 1, ascii = state >> 6 & 1;
    const int head = python.layout.str_header;
    t->kind = state >> 2 & 7;
    t->length = word_at(false, str, STR_LENGTH);
    t->at = (const unsigned char *)(uintptr_t)(str + (uint64_t)(ascii ? head : head == 48 ? 72 : 56));
    return compact && (t->kind == 1 || t->kind == 2 || t->kind == 4);
}

/* Cut to fit: the end of a file's path is kept, and the beginning of a name. */
static void text_copy(char *to, size_t size, uint64_t str, bool keep_end)
{
    text t;
    size_t used = 0;
    if (!text_of(&t, str)) t = (text){.at = (const unsigned char *)"?", .length = 1, .kind = 1};
    uint64_t first = 0;
    if (keep_end) {
        first = t.length;
        for (size_t n = 0; first && (n += utf8_size(text_char(&t, first - 1))) < size;) first--;
    }
    for (uint64_t i = first; i < t.length; i++) {
        const uint32_t c = text_char(&t, i);
        if (used + utf8_size(c) >= size) break;
        used += utf8_put(to + used, c);
    }
    to[used] = 0;
}

/* ---- the table of code objects ---- */

static bool code_is(const plim__rec_code *c, const plim__pre_pyframe *f)
{
    return atomic_load_explicit(&c->address, memory_order_acquire) == f->code && atomic_load_explicit(&c->ready, memory_order_acquire) &&
           c->file_address == f->file && c->name_address == f->name;
}

static void code_fill(plim__rec_code *c, const plim__pre_pyframe *f)
{
    const plim__pylayout *l = &python.layout;
    int32_t first_line;
    read_at(false, f->code + (uint64_t)l->code_first_line, &first_line, sizeof first_line);
    c->first_line = (uint32_t)first_line;
    c->file_address = f->file;
    c->name_address = f->name;
    text_copy(c->file, sizeof c->file, f->file, true);
    text_copy(c->name, sizeof c->name, l->code_qualname < 0 ? f->name : word_at(false, f->code, l->code_qualname), false);
    atomic_store(&c->address, f->code);
    atomic_store_explicit(&c->ready, 1, memory_order_release);
}

/* The index of the frame's code; PLIM__REC_CODES: it is not there. `vacant` is where it would go. */
static uint32_t code_find(const plim__pre_pyframe *f, uint32_t *vacant)
{
    const uint32_t first = (uint32_t)((f->code >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
    *vacant = PLIM__REC_NO_CODE;
    for (uint32_t probe = 0; probe < CODE_PROBES; probe++) {
        const uint32_t i = (first + probe) % PLIM__REC_NO_CODE;
        const plim__rec_code *c = &plim__pre.me->code[i];
        if (!atomic_load_explicit(&c->address, memory_order_acquire)) {
            *vacant = i;
            break;
        }
        if (code_is(c, f)) return i;
    }
    return PLIM__REC_CODES;
}

static uint32_t code_intern(const plim__pre_pyframe *f)
{
    uint32_t vacant, i = code_find(f, &vacant);
    if (i != PLIM__REC_CODES) return i;
    if (word_at(false, f->code, OBJECT_TYPE) != python.code_type) return PLIM__REC_NO_CODE;
    plim__pre_lock(&code_lock);
    i = code_find(f, &vacant);
    if (i == PLIM__REC_CODES && vacant != PLIM__REC_NO_CODE) {
        code_fill(&plim__pre.me->code[vacant], f);
        i = vacant;
    }
    plim__pre_unlock(&code_lock);
    if (i != PLIM__REC_CODES) return i;
    atomic_fetch_add(&plim__pre.me->lost_codes, 1);
    return PLIM__REC_NO_CODE;
}

plim__rec_frame plim__pre_python_frame(const plim__pre_pyframe *f)
{
    const uint32_t code = code_intern(f);
    const int line = code == PLIM__REC_NO_CODE ? 0 : python.line_of((void *)(uintptr_t)f->code, f->at);
    return (plim__rec_frame){.code = code, .line = line > 0 ? (uint32_t)line : 0};
}

/* In a child made by fork nobody holds the lock. */
void plim__pre_python_reset(void) { atomic_store(&code_lock, 0); }
