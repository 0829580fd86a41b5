/* Frames and labels of stacks: see stack_place.h. */
#include "watch/stack_place.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MIB ((uint64_t)1 << 20)

/* -------------------------------------------------------------------------------------------- source lines */

/* Line `line` of a file without its indentation and end; "" where it cannot be read. */
static void source_read(const char *path, uint32_t line, char *to, size_t size)
{
    to[0] = 0;
    const int fd = plim__peer_regular(path); /* a script that came through a pipe cannot be read again */
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    char text[512];
    if (fd >= 0 && !f) close(fd);
    uint32_t at = 1;
    while (f && fgets(text, sizeof text, f)) {
        const bool whole = strchr(text, '\n') != NULL;
        if (at == line) {
            const char *p = text + strspn(text, " \t");
            snprintf(to, size, "%.*s", (int)strcspn(p, "\r\n"), p);
            break;
        }
        at += whole;
    }
    if (f) fclose(f);
}

static void source_find(const plim__watched *w, const char *file, uint32_t line, char *to, size_t size)
{
    char path[400];
    if (file[0] == '<') {
        to[0] = 0;
        return;
    }
    if (file[0] == '/')
        snprintf(path, sizeof path, "%s", file);
    else if (w->ended)
        snprintf(path, sizeof path, "%s", file); /* most likely it began where we are */
    else
        snprintf(path, sizeof path, "/proc/%d/cwd/%s", w->pid, file);
    source_read(path, line, to, size);
}

/* --------------------------------------------------------------------------------------------------- Python */

static bool is_library(const char *file)
{
    static const char *const part[] = {"/site-packages/", "/dist-packages/", "/lib/python3", "/lib/python2", "/lib64/python3"};
    if (file[0] == '<') return true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr(file, part[i])) return true;
    return false;
}

/* Frames of the user's own files, innermost first; all frames where there is none of them. */
static void python_frames(const plim__supervisor *s, const plim__watched *w, const plim__rec_site *site, plim__where *out)
{
    const plim__rec_process *p = w->slot;
    for (int pass = 0; pass < 2 && !out->n_frames; pass++) {
        for (uint32_t i = 0; i < site->n_python && i < PLIM__REC_PYTHON && out->n_frames < PLIM_WATCH_FRAMES; i++) {
            if (site->python[i].code >= PLIM__REC_CODES) continue;
            const plim__rec_code *code = &p->code[site->python[i].code];
            if (!atomic_load(&code->ready) || (!pass && is_library(code->file))) continue;
            plim_watch_frame *f = &out->frame[out->n_frames++];
            snprintf(f->file, sizeof f->file, "%.*s", (int)sizeof code->file - 1, code->file);
            snprintf(f->function, sizeof f->function, "%.*s", (int)sizeof code->name - 1, code->name);
            f->line = site->python[i].line;
            if (!s->how->no_source) source_find(w, f->file, f->line, f->source, sizeof f->source);
        }
    }
}

/* --------------------------------------------------------------------------------------------------- native */

/* Libraries that stand between a request and who made it. */
static bool is_runtime(const char *library)
{
    static const char *const name[] = {"libc.so", "libstdc++", "libc++", "libgcc_s", "libplimsoll_watch", "libasan", "libjemalloc", "libtcmalloc"};
    for (size_t i = 0; i < sizeof name / sizeof *name; i++)
        if (!strncmp(library, name[i], strlen(name[i]))) return true;
    return false;
}

static void native_frames(const plim__symbol *symbol, uint32_t n, plim__where *out)
{
    uint32_t first = 0;
    while (first + 1 < n && is_runtime(symbol[first].library)) first++;
    for (uint32_t i = first; i < n && out->n_frames < PLIM_WATCH_FRAMES; i++) {
        if (!strncmp(symbol[i].library, "libc.so", 7) && out->n_frames) break; /* what starts threads and main */
        if (!symbol[i].library[0]) continue;
        plim_watch_frame *f = &out->frame[out->n_frames++];
        snprintf(f->file, sizeof f->file, "%s", symbol[i].library);
        if (symbol[i].name[0])
            snprintf(f->function, sizeof f->function, "%.*s", (int)sizeof f->function - 1, symbol[i].name);
        else
            snprintf(f->function, sizeof f->function, "+0x%llx", (unsigned long long)symbol[i].offset);
    }
}

static bool is_python(const char *library)
{
    return !strncmp(library, "python", 6) || !strncmp(library, "libpython", 9);
}

static void label_make(const plim__rec_site *site, const plim__symbol *symbol, uint32_t n, uint64_t largest, plim__where *out)
{
    uint32_t first = 0;
    while (first + 1 < n && is_runtime(symbol[first].library)) first++;
    if (n) snprintf(out->caller, sizeof out->caller, "%s", symbol[first].library);
    /* The interpreter takes memory for its small objects in arenas of one size: whichever line happens to need a new one is not who holds it. */
    out->arena = site->call == PLIM__REC_MMAP && (largest == MIB || largest == MIB / 4) && is_python(out->caller);
    if (out->arena)
        snprintf(out->label, sizeof out->label, "Python small objects");
    else
        plim__symbol_label(symbol, n, out->label, sizeof out->label);
}

/* ------------------------------------------------------------------------------------------------ resolving */

const plim__where *plim__place_of(const plim__supervisor *s, uint32_t stack)
{
    return stack < s->cap_where ? s->where[stack] : NULL;
}

void plim__places_free(plim__supervisor *s)
{
    for (uint32_t i = 0; i < s->cap_where; i++) plim__free(&s->alloc, s->where[i]);
    plim__free(&s->alloc, s->where);
    s->where = NULL;
    s->cap_where = 0;
}

static bool places_grow(plim__supervisor *s)
{
    const uint32_t had = s->cap_where;
    if (s->timeline.n_stacks <= had) return true;
    if (plim__grow(&s->alloc, (void **)&s->where, &s->cap_where, s->timeline.n_stacks, sizeof *s->where, NULL)) return false;
    memset(s->where + had, 0, (s->cap_where - had) * sizeof *s->where);
    return true;
}

static bool wanted(const plim__supervisor *s, uint32_t stack, uint32_t process)
{
    return stack < s->timeline.n_stacks && s->timeline.stack[stack].process == process && !s->where[stack];
}

static const plim__rec_site *site_of(const plim__supervisor *s, uint32_t stack)
{
    const plim__stack *k = &s->timeline.stack[stack];
    return &s->process[k->process].slot->site[k->site];
}

/* All stacks of one process. */
static void process_resolve(plim__supervisor *s, const plim__watched *w, uint32_t process, const uint32_t *stack, uint32_t n)
{
    uint32_t pcs = 0, at = 0;
    for (uint32_t i = 0; i < n; i++)
        if (wanted(s, stack[i], process)) pcs += site_of(s, stack[i])->n_native;
    plim__symbol *symbol = plim__new(&s->alloc, (uint64_t)pcs + 1, sizeof *symbol, NULL);
    if (!symbol) return;
    bool known = true;
    for (uint32_t i = 0; i < n; i++) {
        if (!wanted(s, stack[i], process)) continue;
        const plim__rec_site *site = site_of(s, stack[i]);
        for (uint32_t k = 0; k < site->n_native && at < pcs; k++) symbol[at++].pc = site->native[k];
    }
    for (uint32_t i = 0; i < at && known; i++) known = plim__symbols_knows(s->symbols, w->pid, symbol[i].pc);
    if (!known && !w->ended) plim__symbols_learn(s->symbols, w->pid);
    if (at) plim__symbols_find(s->symbols, w->pid, symbol, at);
    uint32_t from = 0;
    for (uint32_t i = 0; i < n && from <= at; i++) {
        if (!wanted(s, stack[i], process)) continue;
        const plim__rec_site *site = site_of(s, stack[i]);
        const uint32_t k = site->n_native < at - from ? site->n_native : at - from;
        plim__where *where = plim__new(&s->alloc, 1, sizeof *where, NULL);
        if (!where) break;
        label_make(site, symbol + from, k, s->timeline.stack[stack[i]].largest, where);
        if (!where->arena) python_frames(s, w, site, where);
        if (!where->arena && !where->n_frames) native_frames(symbol + from, k, where);
        s->where[stack[i]] = where;
        from += site->n_native;
    }
    plim__free(&s->alloc, symbol);
}

void plim__places_resolve(plim__supervisor *s, const uint32_t *stack, uint32_t n)
{
    if (!places_grow(s)) return;
    for (uint32_t i = 0; i < n; i++) {
        if (stack[i] >= s->timeline.n_stacks || s->where[stack[i]]) continue;
        const uint32_t process = s->timeline.stack[stack[i]].process;
        if (process < s->n_processes && s->process[process].slot) process_resolve(s, &s->process[process], process, stack + i, n - i);
    }
}

void plim__place_line(const plim_watch_frame *frame, uint32_t n, const char *label, char *to, size_t size)
{
    char where[160] = "";
    if (n) {
        const char *base = strrchr(frame[0].file, '/');
        base = base && base[1] ? base + 1 : frame[0].file;
        if (frame[0].line)
            snprintf(where, sizeof where, "%.60s:%u %.60s%s", base, (unsigned)frame[0].line, frame[0].function,
                     frame[0].function[0] == '<' ? "" : "()");
        else
            snprintf(where, sizeof where, "%.60s %.80s", base, frame[0].function);
    }
    snprintf(to, size, "%s%s%s%s", where, where[0] && label[0] ? " [" : "", label, where[0] && label[0] ? "]" : "");
}
