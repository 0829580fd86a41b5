/* Names for addresses, from ELF files (64 bits, this machine's byte order).
 *
 *   learn   lines of /proc/PID/maps that are executable and of a file go into a list for that pid, sorted by address; paths are kept once
 *   find    addresses are sorted by file and by place in it; for each file one pass over its symbol tables, in which every symbol is
 *           looked up among the addresses: O(symbols * log addresses), and only a piece of the table is in memory at a time. Then the
 *           names of the symbols that won are read.
 *
 * Files are read with pread and not mapped: one that is cut short meanwhile gives no names instead of a SIGBUS. All that they say is doubted:
 * offsets and sizes are bounded by the file, counts by what a file of its size can hold, and the work on a hostile table by WORK. Allocates by
 * the C library; one thread at a time. */
#include "watch/symbols.h"

#include "core/alloc.h"
#include "core/size.h"
#include "watch/peer.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    PROCESSES = 128,    /* the one that was learnt longest ago goes first */
    MAPPINGS = 1 << 13, /* of one process; further ones are not known */
    FILES = 1 << 12,
    SEGMENTS = 64,
    SECTIONS = 1 << 16,
    PIECE = 1 << 12, /* symbols of one read */
    NAME = 1024,     /* bytes of a mangled name that matter */
    PAGE = 4096,     /* the smallest anywhere */
};

#define WORK ((uint64_t)1 << 28) /* comparisons for one file */

typedef struct mapping {
    uint64_t start, end, offset; /* offset in the file */
    uint32_t file;
} mapping;

typedef struct process {
    int pid;
    uint64_t turn; /* when it was learnt */
    mapping *map;  /* sorted, disjoint */
    uint32_t n, cap;
} process;

typedef struct known_file {
    char *path;
    uint64_t device, inode;
} known_file;

struct plim__symbols {
    plim__alloc alloc;
    process process[PROCESSES];
    uint32_t n_processes;
    uint64_t turns;
    known_file *file;
    uint32_t n_files, files_cap;
};

plim_status plim__symbols_new(plim__symbols **out, plim_error *err)
{
    const plim__alloc a = {0};
    *out = plim__new(&a, 1, sizeof **out, err);
    return *out ? PLIM_OK : PLIM_E_NOMEM;
}

void plim__symbols_free(plim__symbols **s)
{
    if (!*s) return;
    const plim__alloc a = (*s)->alloc;
    for (uint32_t i = 0; i < (*s)->n_processes; i++) plim__free(&a, (*s)->process[i].map);
    for (uint32_t i = 0; i < (*s)->n_files; i++) plim__free(&a, (*s)->file[i].path);
    plim__free(&a, (*s)->file);
    plim__free(&a, *s);
    *s = NULL;
}

/* ------------------------------------------------------------------------------------------------------- learning */

static process *process_of(const plim__symbols *s, int pid)
{
    for (uint32_t i = 0; i < s->n_processes; i++)
        if (s->process[i].pid == pid) return (process *)&s->process[i];
    return NULL;
}

static process *process_add(plim__symbols *s, int pid)
{
    process *p = &s->process[0];
    for (uint32_t i = 1; i < s->n_processes; i++)
        if (s->process[i].turn < p->turn) p = &s->process[i];
    if (s->n_processes < PROCESSES) p = &s->process[s->n_processes++];
    p->pid = pid;
    p->n = 0;
    return p;
}

/* @return its index, or UINT32_MAX when there is no room */
static uint32_t file_intern(plim__symbols *s, const char *path, uint64_t device, uint64_t inode)
{
    for (uint32_t i = 0; i < s->n_files; i++)
        if (s->file[i].inode == inode && s->file[i].device == device && !strcmp(s->file[i].path, path)) return i;
    if (s->n_files == FILES) return UINT32_MAX;
    char *copy = plim__strdup(&s->alloc, path, NULL);
    if (!copy || plim__grow(&s->alloc, (void **)&s->file, &s->files_cap, s->n_files + 1, sizeof *s->file, NULL)) {
        plim__free(&s->alloc, copy);
        return UINT32_MAX;
    }
    s->file[s->n_files] = (known_file){copy, device, inode};
    return s->n_files++;
}

/* How many mappings end at or below the address: the index of the first that may hold it. */
static uint32_t maps_below(const process *p, uint64_t address)
{
    uint32_t lo = 0, hi = p->n;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (p->map[mid].end <= address)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

/* What was known at the same addresses is gone. */
static void mapping_put(plim__symbols *s, process *p, const mapping *m)
{
    const uint32_t at = maps_below(p, m->start);
    uint32_t over = at;
    while (over < p->n && p->map[over].start < m->end) over++;
    if (over - at == 1 && !memcmp(&p->map[at], m, offsetof(mapping, file)) && p->map[at].file == m->file) return;
    if (over == at) {
        if (p->n == MAPPINGS || plim__grow(&s->alloc, (void **)&p->map, &p->cap, p->n + 1, sizeof *p->map, NULL)) return;
        memmove(p->map + at + 1, p->map + at, (p->n - at) * sizeof *p->map);
        p->n++;
    } else {
        memmove(p->map + at + 1, p->map + over, (p->n - over) * sizeof *p->map);
        p->n -= over - at - 1;
    }
    p->map[at] = *m;
}

/* "7f2a4c000000-7f2a4c021000 r-xp 00001000 08:01 1234    /usr/lib/libc.so.6" */
static void line_learn(plim__symbols *s, process *p, const char *line)
{
    mapping m;
    uint64_t major, minor, inode;
    char rights[8];
    int path = 0;
    const int got = sscanf(line, "%" SCNx64 "-%" SCNx64 " %7s %" SCNx64 " %" SCNx64 ":%" SCNx64 " %" SCNu64 " %n", &m.start, &m.end, rights,
                           &m.offset, &major, &minor, &inode, &path);
    if (got < 7 || !path || line[path] != '/' || rights[2] != 'x' || m.end <= m.start) return;
    static const char deleted[] = " (deleted)";
    const size_t n = strlen(line + path), tail = sizeof deleted - 1;
    if (n > tail && !strcmp(line + path + n - tail, deleted)) return;
    m.file = file_intern(s, line + path, major << 32 | minor, inode);
    if (m.file != UINT32_MAX) mapping_put(s, p, &m);
}

void plim__symbols_learn(plim__symbols *s, int pid)
{
    char path[64], *line = NULL;
    size_t cap = 0;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *f = fopen(path, "re");
    if (!f) return;
    process *p = process_of(s, pid);
    if (!p) p = process_add(s, pid);
    p->turn = ++s->turns;
    for (ssize_t n; (n = getline(&line, &cap, f)) > 0;) {
        if (line[n - 1] == '\n') line[n - 1] = 0;
        line_learn(s, p, line);
    }
    free(line);
    fclose(f);
}

static const mapping *mapping_at(const plim__symbols *s, int pid, uint64_t address)
{
    const process *p = process_of(s, pid);
    if (!p) return NULL;
    const uint32_t i = maps_below(p, address);
    return i < p->n && p->map[i].start <= address ? &p->map[i] : NULL;
}

bool plim__symbols_knows(const plim__symbols *s, int pid, uint64_t pc)
{
    return mapping_at(s, pid, pc - 1) != NULL;
}

/* -------------------------------------------------------------------------------------------------------- ELF files */

typedef struct elf_file {
    int fd;
    uint64_t size;
    Elf64_Ehdr head;
    uint64_t sections;
    Elf64_Phdr load[SEGMENTS];
    uint32_t loads;
} elf_file;

/* A symbol: where it begins, and where its name is in the file. */
typedef struct hit {
    uint64_t value, name, name_end; /* name_end: of the table of names; 0: no symbol */
} hit;

/* An address that is looked for. */
typedef struct wanted {
    uint64_t address;    /* as the file counts */
    uint32_t index;      /* whose it is */
    hit inside;          /* of the symbols that hold it the one that begins last */
    hit below;           /* the nearest that begins at or below it */
    uint64_t below_end;  /* where that one may reach: the end of its section when it has no size, otherwise 0 */
} wanted;

static bool elf_read(const elf_file *f, void *to, uint64_t n, uint64_t at)
{
    if (at > f->size || n > f->size - at) return false;
    for (uint64_t have = 0; have < n;) {
        const ssize_t got = pread(f->fd, (char *)to + have, n - have, (off_t)(at + have));
        if (got <= 0 && !(got < 0 && errno == EINTR)) return false;
        if (got > 0) have += (uint64_t)got;
    }
    return true;
}

static bool section_read(const elf_file *f, uint64_t index, Elf64_Shdr *out)
{
    return index < f->sections && elf_read(f, out, sizeof *out, f->head.e_shoff + index * sizeof *out);
}

static bool elf_headers(elf_file *f)
{
    static const unsigned char order = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? ELFDATA2LSB : ELFDATA2MSB;
    Elf64_Ehdr *h = &f->head;
    if (!elf_read(f, h, sizeof *h, 0) || memcmp(h->e_ident, ELFMAG, SELFMAG)) return false;
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != order) return false;
    if (h->e_phentsize != sizeof *f->load || h->e_shentsize != sizeof(Elf64_Shdr) || h->e_shoff > f->size || h->e_phoff > f->size) return false;
    for (uint32_t i = 0; i < h->e_phnum && f->loads < SEGMENTS; i++) {
        Elf64_Phdr *p = &f->load[f->loads];
        if (!elf_read(f, p, sizeof *p, h->e_phoff + (uint64_t)i * sizeof *p)) return false;
        if (p->p_type == PT_LOAD) f->loads++;
    }
    f->sections = h->e_shnum;
    if (f->sections == 0) { /* more than fit: the first section says how many */
        Elf64_Shdr first;
        f->sections = 1;
        if (!section_read(f, 0, &first)) return false;
        f->sections = first.sh_size;
    }
    return f->sections <= SECTIONS;
}

/* As its process sees it, and where that is gone or not to be entered, as we do. */
static bool elf_open(elf_file *f, int pid, const char *path)
{
    char rooted[PATH_MAX + 64];
    struct stat st;
    *f = (elf_file){.fd = -1};
    const int n = snprintf(rooted, sizeof rooted, "/proc/%d/root%s", pid, path);
    if (n > 0 && (size_t)n < sizeof rooted) f->fd = plim__peer_regular(rooted);
    if (f->fd < 0) f->fd = plim__peer_regular(path);
    if (f->fd < 0) return false;
    if (fstat(f->fd, &st) == 0 && S_ISREG(st.st_mode)) {
        f->size = (uint64_t)st.st_size;
        if (elf_headers(f)) return true;
    }
    close(f->fd);
    return false;
}

/* From a place of code in the file to the address that its tables use. */
static bool offset_to_address(const elf_file *f, uint64_t offset, uint64_t *out)
{
    for (uint32_t i = 0; i < f->loads; i++) {
        const Elf64_Phdr *p = &f->load[i];
        if (!(p->p_flags & PF_X) || offset < p->p_offset || offset - p->p_offset >= p->p_filesz) continue;
        return plim__add(out, offset - p->p_offset, p->p_vaddr);
    }
    return false;
}

/* ---------------------------------------------------------------------------------------------------- symbol tables */

typedef struct table_walk {
    const elf_file *file;
    wanted *want; /* sorted by address */
    uint32_t n;
    uint64_t work;
    Elf64_Shdr names;
    uint64_t section_index, section_end; /* the section whose end was looked up last */
} table_walk;

static uint32_t first_at_or_above(const table_walk *w, uint64_t value)
{
    uint32_t lo = 0, hi = w->n;
    while (lo < hi) {
        const uint32_t mid = lo + (hi - lo) / 2;
        if (w->want[mid].address < value)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static uint64_t section_end(table_walk *w, uint64_t index)
{
    Elf64_Shdr sh;
    if (w->section_index == index) return w->section_end;
    w->section_index = index;
    if (!section_read(w->file, index, &sh) || !plim__add(&w->section_end, sh.sh_addr, sh.sh_size)) w->section_end = 0;
    return w->section_end;
}

static void symbol_offer(table_walk *w, const Elf64_Sym *sym)
{
    const unsigned type = ELF64_ST_TYPE(sym->st_info);
    const bool right = type == STT_FUNC || type == STT_GNU_IFUNC;
    if (!right || sym->st_shndx == SHN_UNDEF || sym->st_name >= w->names.sh_size) return;
    const uint64_t name = w->names.sh_offset + sym->st_name;
    uint32_t i = first_at_or_above(w, sym->st_value);
    if (i == w->n) return;
    const hit h = {sym->st_value, name, w->names.sh_offset + w->names.sh_size};
    wanted *first = &w->want[i]; /* "below" spreads from here to those above, in nearest_spread */
    if (!first->below.name_end || h.value > first->below.value) {
        first->below = h;
        first->below_end = sym->st_size ? 0 : section_end(w, sym->st_shndx);
    }
    for (; i < w->n && w->want[i].address - h.value < sym->st_size && w->work < WORK; i++, w->work++) {
        wanted *a = &w->want[i];
        if (!a->inside.name_end || h.value > a->inside.value) a->inside = h;
    }
}

static void table_read(table_walk *w, const Elf64_Shdr *sh)
{
    static const uint64_t entry = sizeof(Elf64_Sym);
    const elf_file *f = w->file;
    if (sh->sh_entsize != entry || !section_read(f, sh->sh_link, &w->names) || w->names.sh_type != SHT_STRTAB) return;
    if (w->names.sh_offset > f->size || w->names.sh_size > f->size - w->names.sh_offset) return;
    if (sh->sh_offset > f->size || sh->sh_size > f->size - sh->sh_offset) return;
    const plim__alloc a = {0};
    Elf64_Sym *piece = plim__new(&a, PIECE, entry, NULL);
    if (!piece) return;
    const uint64_t count = sh->sh_size / entry;
    for (uint64_t at = 0; at < count && w->work < WORK; at += PIECE) {
        const uint64_t n = count - at < PIECE ? count - at : PIECE;
        if (!elf_read(f, piece, n * entry, sh->sh_offset + at * entry)) break;
        for (uint64_t i = 0; i < n; i++) symbol_offer(w, &piece[i]);
        w->work += n;
    }
    plim__free(&a, piece);
}

/* Each symbol told only the first address above it; those after it have it below them too, unless another came between. */
static void nearest_spread(wanted *want, uint32_t n)
{
    for (uint32_t i = 1; i < n; i++) {
        const wanted *before = &want[i - 1];
        wanted *a = &want[i];
        if (!before->below.name_end || (a->below.name_end && a->below.value >= before->below.value)) continue;
        a->below = before->below;
        a->below_end = before->below_end;
    }
}

static void tables_search(const elf_file *f, wanted *want, uint32_t n)
{
    table_walk w = {.file = f, .want = want, .n = n, .section_index = UINT64_MAX};
    for (uint64_t i = 0; i < f->sections; i++) {
        Elf64_Shdr sh;
        if (!section_read(f, i, &sh)) break;
        if (sh.sh_type == SHT_DYNSYM || sh.sh_type == SHT_SYMTAB) table_read(&w, &sh);
    }
    nearest_spread(want, n);
    for (uint32_t i = 0; i < n; i++)
        if (!want[i].inside.name_end && want[i].address < want[i].below_end) want[i].inside = want[i].below;
}

static void name_fill(const elf_file *f, const hit *h, plim__symbol *out)
{
    char mangled[NAME];
    if (!h->name_end) return;
    const uint64_t left = h->name_end - h->name, n = left < NAME - 1 ? left : NAME - 1;
    if (!elf_read(f, mangled, n, h->name)) return;
    mangled[n] = 0;
    plim__symbol_readable(mangled, out->name, sizeof out->name);
}

/* -------------------------------------------------------------------------------------------------- entry points */

typedef struct place {
    uint32_t file, index;
    uint64_t offset;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    if (x->file != y->file) return x->file < y->file ? -1 : 1;
    return (x->offset > y->offset) - (x->offset < y->offset);
}

static int by_address(const void *a, const void *b)
{
    const wanted *x = a, *y = b;
    return (x->address > y->address) - (x->address < y->address);
}

static void base_name(char *to, size_t size, const char *path)
{
    const char *slash = strrchr(path, '/');
    snprintf(to, size, "%s", slash ? slash + 1 : path);
}

/* Names for the addresses of one file, each one byte before what was asked for. */
static void file_search(plim__symbols *s, int pid, const place *at, uint32_t n, plim__symbol *symbol)
{
    elf_file f;
    wanted *want = plim__new(&s->alloc, n, sizeof *want, NULL);
    if (!want) return;
    if (!elf_open(&f, pid, s->file[at->file].path)) {
        plim__free(&s->alloc, want);
        return;
    }
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        want[known].index = at[i].index;
        if (offset_to_address(&f, at[i].offset, &want[known].address)) known++;
    }
    if (known) {
        qsort(want, known, sizeof *want, by_address);
        tables_search(&f, want, known);
    }
    for (uint32_t i = 0; i < known; i++) {
        plim__symbol *out = &symbol[want[i].index];
        name_fill(&f, &want[i].inside, out);
        if (out->name[0]) out->offset = want[i].address - want[i].inside.value + 1;
    }
    close(f.fd);
    plim__free(&s->alloc, want);
}

void plim__symbols_find(plim__symbols *s, int pid, plim__symbol *symbol, uint32_t n)
{
    place *at = n ? plim__new(&s->alloc, n, sizeof *at, NULL) : NULL;
    uint32_t known = 0;
    for (uint32_t i = 0; i < n; i++) {
        plim__symbol *out = &symbol[i];
        out->library[0] = out->name[0] = 0;
        out->offset = 0;
        const mapping *m = mapping_at(s, pid, out->pc - 1); /* the call is before where it returns to, maybe in another function */
        if (!m) continue;
        base_name(out->library, sizeof out->library, s->file[m->file].path);
        out->offset = out->pc - m->start + m->offset;
        if (at) at[known++] = (place){m->file, i, out->offset - 1};
    }
    if (known) qsort(at, known, sizeof *at, by_place);
    for (uint32_t from = 0, to; from < known; from = to) {
        for (to = from + 1; to < known && at[to].file == at[from].file;) to++;
        file_search(s, pid, at + from, to - from, symbol);
    }
    plim__free(&s->alloc, at);
}
