#include "cli/watch_text.h"

#include "cli/screen_text.h"

#include <string.h>
#include <sys/wait.h>

enum {
    INDENT = 9,
    WIDTH_MIN = 40,
    PLACE_COLUMNS = 40,     /* a longer place is not waited for by what stands after the others */
    PLACE_COLUMNS_MIN = 32, /* with less left beside the numbers a place gets a line of its own */
    TEXT_MAX = 640,         /* any one text of a report, with what is said around it */
};

typedef struct page {
    FILE *out;
    int width;
    const plim_watch_report *r;
    const char *label; /* of the part that begins; NULL: it has begun */
} page;

/* ------------------------------------------------------------------------------------------------------------ lines */

/* The label in front of a part's first line, or the room for it. */
static void line_start(page *p)
{
    fprintf(p->out, "%-*s ", INDENT - 1, p->label ? p->label : "");
    p->label = NULL;
}

static void spaces(page *p, int n)
{
    fprintf(p->out, "%*s", n > 0 ? n : 0, "");
}

/* As much of a clean text as fits on a line; *text is then what is left of it. @return the columns it took */
static int piece(page *p, const char **text, int columns)
{
    int took = 0;
    const size_t n = plim__screen_wrap(*text, columns > 8 ? columns : 8);
    for (size_t i = 0; i < n; i++) {
        fputc((*text)[i], p->out);
        took += ((*text)[i] & 0xc0) != 0x80;
    }
    *text += n;
    while (**text == ' ') ++*text;
    return took;
}

/* A text of any length, wrapped; lines after the first are moved in by `hang`. */
static void paragraph(page *p, const char *text, int hang)
{
    char clean[TEXT_MAX];
    const char *left = plim__screen_clean(clean, sizeof clean, text);
    for (int in = 0; *left; in = hang) {
        line_start(p);
        spaces(p, in);
        piece(p, &left, p->width - INDENT - in);
        fputc('\n', p->out);
    }
}

static int larger(int a, int b)
{
    return a > b ? a : b;
}

/* ----------------------------------------------------------------------------------------------------------- frames */

/* Whether the path `file` ends with `tail` at a boundary of components. */
static bool path_ends(const char *file, const char *tail)
{
    const size_t n = strlen(file), m = strlen(tail);
    return n >= m && !strcmp(file + n - m, tail) && (n == m || file[n - m - 1] == '/' || tail[0] == '/');
}

static bool another_in(const plim_watch_site *s, const char *file, const char *tail)
{
    for (uint32_t i = 0; i < s->n_frames; i++)
        if (strcmp(s->frame[i].file, file) && path_ends(s->frame[i].file, tail)) return true;
    return false;
}

static bool ambiguous(const plim_watch_report *r, const char *file, const char *tail)
{
    if (another_in(&r->asking, file, tail)) return true;
    for (uint32_t i = 0; i < r->n_held; i++)
        if (another_in(&r->held[i], file, tail)) return true;
    return false;
}

/* The shortest end of the path that no other file of the report has. */
static const char *short_file(const plim_watch_report *r, const char *file)
{
    const char *slash = strrchr(file, '/');
    const char *tail = slash ? slash + 1 : file;
    while (r && tail > file && ambiguous(r, file, tail)) {
        tail--; /* on the slash, which the path before it begins after */
        while (tail > file && tail[-1] != '/') tail--;
    }
    return tail;
}

char *plim__watch_place(char *buf, size_t size, const plim_watch_frame *f, const plim_watch_report *r)
{
    plim__screen_clean(buf, size, short_file(r, f->file));
    if (f->line) plim__screen_add(buf, size, ":%u", f->line);
    return buf;
}

char *plim__watch_function(char *buf, size_t size, const plim_watch_frame *f)
{
    plim__screen_clean(buf, size, f->function);
    const size_t n = strlen(buf);
    /* Names of native code may have their parameters already; <module> and <lambda> are no names, nor is an address. */
    if (n > 0 && buf[0] != '+' && buf[n - 1] != '>' && !strchr(buf, '(')) plim__screen_add(buf, size, "()");
    return buf;
}

static void frames(page *p, const plim_watch_site *s)
{
    char place[PLIM_WATCH_FRAMES][PLIM__WATCH_PLACE], function[PLIM_WATCH_FRAMES][PLIM__WATCH_PLACE];
    int place_width = 0, function_width = 0;
    for (uint32_t i = 0; i < s->n_frames; i++) {
        plim__watch_place(place[i], sizeof place[i], &s->frame[i], p->r);
        plim__watch_function(function[i], sizeof function[i], &s->frame[i]);
        place_width = larger(place_width, plim__screen_columns(place[i]));
        function_width = larger(function_width, plim__screen_columns(function[i]));
    }
    for (uint32_t i = 0; i < s->n_frames; i++) {
        char line[TEXT_MAX], source[sizeof s->frame[i].source];
        plim__screen_clean(source, sizeof source, s->frame[i].source);
        snprintf(line, sizeof line, "%s%*s", place[i], place_width - plim__screen_columns(place[i]), "");
        if (function[i][0]) plim__screen_add(line, sizeof line, "  %s", function[i]);
        if (source[0]) plim__screen_add(line, sizeof line, "%*s  %s", function_width - plim__screen_columns(function[i]), "", source);
        line_start(p);
        fprintf(p->out, "%s\n", plim__screen_cut(line, p->width - INDENT));
    }
}

/* ---------------------------------------------------------------------------------------------------- ASKED, REFUSED */

static void seconds_add(char *text, size_t size, double seconds)
{
    plim__screen_add(text, size, "t = %.*f s", seconds < 100 ? 2 : 0, seconds);
}

static void asked(page *p)
{
    const plim_watch_report *r = p->r;
    char text[TEXT_MAX], number[32];
    if (!r->asked) return;
    p->label = "ASKED";
    snprintf(text, sizeof text, "%s", plim_bytes_format(number, sizeof number, r->asked));
    if (r->asked >= 1024) plim__screen_add(text, sizeof text, " (%s bytes)", plim_count_format(number, sizeof number, r->asked));
    if (r->call[0]) plim__screen_add(text, sizeof text, " by %s", r->call);
    if (r->asking.label[0]) plim__screen_add(text, sizeof text, " for %s", r->asking.label);
    if (r->processes > 1) plim__screen_add(text, sizeof text, ", process %d", (int)r->pid);
    if (r->thread[0]) plim__screen_add(text, sizeof text, ", thread %s", r->thread);
    plim__screen_add(text, sizeof text, ", ");
    seconds_add(text, sizeof text, r->seconds);
    if (r->gil_released) plim__screen_add(text, sizeof text, ", the interpreter lock released");
    paragraph(p, text, 0);
    frames(p, &r->asking);
}

static void refused(page *p)
{
    static const char *const label[] = {[PLIM_WATCH_REFUSED] = "REFUSED", [PLIM_WATCH_FAILED] = "REFUSED", [PLIM_WATCH_OVER] = "OVER",
                                        [PLIM_WATCH_UNCOVERED] = "UNSEEN", [PLIM_WATCH_KILLED] = "KILLED", [PLIM_WATCH_ENDED] = "ENDED"};
    const plim_watch_report *r = p->r;
    char text[TEXT_MAX] = "";
    if (r->event == PLIM_WATCH_KILLED && WIFSIGNALED(r->wait_status)) {
        const char *name = sigabbrev_np(WTERMSIG(r->wait_status));
        if (name) plim__screen_add(text, sizeof text, "SIG%s at ", name);
        else plim__screen_add(text, sizeof text, "signal %d at ", WTERMSIG(r->wait_status));
        seconds_add(text, sizeof text, r->seconds);
    }
    if (r->refused[0]) plim__screen_add(text, sizeof text, "%s%s", text[0] ? "; " : "", r->refused);
    if (!text[0]) return;
    p->label = label[r->event];
    paragraph(p, text, 0);
}

/* ------------------------------------------------------------------------------------------------------------- HELD */

typedef struct held_row {
    char size[80], share[32], blocks[40], place[2 * PLIM__WATCH_PLACE];
} held_row;

static void share_format(char *buf, size_t size, uint64_t part, uint64_t whole)
{
    buf[0] = 0;
    if (!whole) return;
    const double percent = 100.0 * (double)part / (double)whole;
    if (part && percent < 1) snprintf(buf, size, "(<1%% of resident)");
    else snprintf(buf, size, "(%.0f%% of resident)", percent > 100 ? 100 : percent);
}

static void held_format(held_row *row, const plim_watch_report *r, const plim_watch_site *s)
{
    char number[32], function[PLIM__WATCH_PLACE];
    snprintf(row->size, sizeof row->size, "%s", plim_bytes_format(number, sizeof number, s->resident));
    if (s->resident < s->bytes - s->bytes / 10)
        plim__screen_add(row->size, sizeof row->size, " of %s requested", plim_bytes_format(number, sizeof number, s->bytes));
    share_format(row->share, sizeof row->share, s->resident, r->resident);
    snprintf(row->blocks, sizeof row->blocks, "%s block%s", plim_count_format(number, sizeof number, s->blocks), s->blocks == 1 ? "" : "s");
    row->place[0] = 0;
    if (!s->n_frames) return;
    plim__watch_place(row->place, sizeof row->place, &s->frame[0], r);
    if (plim__watch_function(function, sizeof function, &s->frame[0])[0]) plim__screen_add(row->place, sizeof row->place, " %s", function);
}

/* "kept alive by `history` (list of 99, 98 x float64[1000,1000], 748 MiB), module globals" */
static void held_name(page *p, const plim_watch_name *n)
{
    char text[TEXT_MAX], number[32];
    if (!n->name[0]) return;
    snprintf(text, sizeof text, "kept alive by `%s` (%s", n->name, n->type);
    if (n->length && n->items && n->length != n->items)
        plim__screen_add(text, sizeof text, " of %s", plim_count_format(number, sizeof number, n->length));
    /* Of items that hold nothing themselves (tensors that keep a graph alive) all are meant. */
    if (n->element[0] && n->length)
        plim__screen_add(text, sizeof text, ", %s x %s", plim_count_format(number, sizeof number, n->items ? n->items : n->length), n->element);
    else if (n->element[0]) plim__screen_add(text, sizeof text, ", %s", n->element);
    if (n->grad_fn[0]) plim__screen_add(text, sizeof text, ", grad_fn %s", n->grad_fn);
    if (n->bytes) plim__screen_add(text, sizeof text, ", %s", plim_bytes_format(number, sizeof number, n->bytes));
    plim__screen_add(text, sizeof text, ")");
    if (n->where[0]) plim__screen_add(text, sizeof text, ", %s", n->where);
    paragraph(p, text, 2);
}

/* Below a hundredth of what the report is about, be it resident, the budget or the request, nobody has to look. */
static uint64_t trivial_bytes(const plim_watch_report *r)
{
    uint64_t most = r->resident > r->live ? r->resident : r->live;
    if (r->budget > most) most = r->budget;
    if (r->asked > most) most = r->asked;
    return most / 100;
}

/* Whose line it is: place, what is done there, source. */
static void held_where(char *text, size_t size, const held_row *row, int place_columns, const plim_watch_site *s)
{
    char clean[sizeof s->frame[0].source];
    snprintf(text, size, "%s", row->place);
    const bool more = s->label[0] || (s->n_frames && s->frame[0].source[0]);
    const int pad = place_columns - plim__screen_columns(row->place);
    if (more && place_columns) plim__screen_add(text, size, "%*s  ", pad > 0 ? pad : 0, "");
    if (s->label[0]) plim__screen_add(text, size, "%s", plim__screen_clean(clean, sizeof clean, s->label));
    if (!s->n_frames || !s->frame[0].source[0]) return;
    plim__screen_add(text, size, "%s%s", s->label[0] ? "  " : "", plim__screen_clean(clean, sizeof clean, s->frame[0].source));
}

/* On one line, or where the columns leave no room for the place, on two. */
static void held_line(page *p, const held_row *row, const held_row *widest, const plim_watch_site *s)
{
    const int size = plim__screen_columns(widest->size), share = plim__screen_columns(widest->share), blocks = plim__screen_columns(widest->blocks);
    const int place = plim__screen_columns(widest->place), numbers = size + 1 + share + 2 + blocks + 2, room = p->width - INDENT;
    const bool one_line = numbers + larger(place, PLACE_COLUMNS_MIN) <= room;
    char counts[TEXT_MAX], where[2 * TEXT_MAX];
    counts[0] = '\0';
    plim__screen_add(counts, sizeof counts, "%-*s %-*s  %s", size, row->size, share, row->share, row->blocks);
    held_where(where, sizeof where, row, one_line ? place : plim__screen_columns(row->place), s);
    if (one_line && where[0]) {
        line_start(p);
        fprintf(p->out, "%-*s  %s\n", numbers - 2, counts, plim__screen_cut(where, room - numbers));
        return;
    }
    paragraph(p, counts, 2);
    if (where[0]) fprintf(p->out, "%*s%s\n", INDENT, "", plim__screen_cut(where, room));
}

static void widen(char *widest, size_t size, const char *text)
{
    if (plim__screen_columns(text) > plim__screen_columns(widest)) snprintf(widest, size, "%s", text);
}

/* What the allocator keeps is no line's, but it is held all the same. */
static void held_kept(page *p)
{
    char text[TEXT_MAX], number[32], share[32];
    const plim_watch_report *r = p->r;
    if (!r->kept || (r->kept < r->resident / 20 && r->cause != PLIM_WATCH_FRAGMENTATION)) return;
    share_format(share, sizeof share, r->kept, r->resident);
    plim_bytes_format(number, sizeof number, r->kept);
    snprintf(text, sizeof text, "%s%s%s  free memory that the allocator keeps", number, share[0] ? " " : "", share);
    if (r->live) plim__screen_add(text, sizeof text, "; %s in recorded blocks is live", plim_bytes_format(number, sizeof number, r->live));
    paragraph(p, text, 0);
}

static void held_others(page *p, uint64_t others)
{
    char text[80], number[32];
    snprintf(text, sizeof text, "%s requested in other places", plim_bytes_format(number, sizeof number, others));
    paragraph(p, text, 0);
}

static void held(page *p)
{
    const plim_watch_report *r = p->r;
    held_row row[PLIM_WATCH_HELD], widest = {0};
    const uint64_t floor = trivial_bytes(r);
    uint64_t others = r->held_others;
    uint32_t shown[PLIM_WATCH_HELD], n = 0;
    for (uint32_t i = 0; i < r->n_held; i++) {
        if (r->held[i].resident < floor && r->held[i].bytes < floor) {
            if (__builtin_add_overflow(others, r->held[i].bytes, &others)) others = UINT64_MAX;
            continue;
        }
        shown[n] = i;
        held_format(&row[n], r, &r->held[i]);
        widen(widest.size, sizeof widest.size, row[n].size);
        widen(widest.share, sizeof widest.share, row[n].share);
        widen(widest.blocks, sizeof widest.blocks, row[n].blocks);
        if (plim__screen_columns(row[n].place) <= PLACE_COLUMNS) widen(widest.place, sizeof widest.place, row[n].place);
        n++;
    }
    p->label = "HELD";
    for (uint32_t i = 0; i < n; i++) {
        held_line(p, &row[i], &widest, &r->held[shown[i]]);
        held_name(p, &r->held[shown[i]].name);
    }
    if (r->kept >= floor) held_kept(p);
    if (others && others >= floor) held_others(p, others);
}

/* -------------------------------------------------------------------------------------------------------------- FIX */

/* What a remedy has to get below; NULL where nothing is known that it could miss. */
static const char *bound_name(const plim_watch_report *r)
{
    switch (r->event) {
    case PLIM_WATCH_REFUSED:
    case PLIM_WATCH_OVER:
    case PLIM_WATCH_UNCOVERED: return "the budget";
    case PLIM_WATCH_FAILED: return "the limit";
    case PLIM_WATCH_KILLED: return r->cause == PLIM_WATCH_CGROUP || r->cause == PLIM_WATCH_HOST ? "the limit" : NULL;
    case PLIM_WATCH_ENDED: return r->budget ? "the budget" : NULL;
    }
    return NULL;
}

/* "peak 17.6 GiB -> 5.87 GiB  fits"; "" where nothing was computed. */
static void effect_format(char *buf, size_t size, const plim_watch_report *r, const plim_watch_fix *f, int to_width)
{
    char from[32], to[32];
    const char *bound = bound_name(r);
    buf[0] = 0;
    if (!f->computed) return;
    plim_bytes_format(to, sizeof to, f->peak);
    snprintf(buf, size, "peak ");
    if (r->peak_as_is) plim__screen_add(buf, size, "%s -> ", plim_bytes_format(from, sizeof from, r->peak_as_is));
    plim__screen_add(buf, size, "%s", to);
    if (!bound) return;
    plim__screen_add(buf, size, "%*s  ", to_width - plim__screen_columns(to), "");
    if (f->fits) plim__screen_add(buf, size, "fits");
    else plim__screen_add(buf, size, "still over %s", bound);
}

enum { EFFECT_MAX = 120 };

/* A remedy in a column of its own, what it does beside its first line. */
static void fix_beside(page *p, const char *text, int columns, const char *effect)
{
    line_start(p);
    const int used = piece(p, &text, columns);
    spaces(p, columns - used + 2);
    fprintf(p->out, "%s\n", effect);
    while (*text) {
        line_start(p);
        spaces(p, 3);
        piece(p, &text, columns - 3);
        fputc('\n', p->out);
    }
}

static void fix_print(page *p, const char *text, int columns, const char *effect)
{
    if (effect[0] && columns >= 20) {
        fix_beside(p, text, columns, effect);
        return;
    }
    paragraph(p, text, 3);
    if (effect[0]) paragraph(p, effect, 3);
}

static void fixes(page *p)
{
    const plim_watch_report *r = p->r;
    char text[PLIM_WATCH_FIXES][TEXT_MAX], effect[PLIM_WATCH_FIXES][EFFECT_MAX], clean[TEXT_MAX], number[32];
    int to_width = 0, text_width = 0, effect_width = 0;
    for (uint32_t i = 0; i < r->n_fixes; i++)
        if (r->fix[i].computed) to_width = larger(to_width, plim__screen_columns(plim_bytes_format(number, sizeof number, r->fix[i].peak)));
    for (uint32_t i = 0; i < r->n_fixes; i++) {
        snprintf(text[i], sizeof text[i], "%u. %.600s", i + 1, plim__screen_clean(clean, sizeof clean, r->fix[i].text));
        effect_format(effect[i], sizeof effect[i], r, &r->fix[i], to_width);
        effect_width = larger(effect_width, plim__screen_columns(effect[i]));
        if (effect[i][0]) text_width = larger(text_width, plim__screen_columns(text[i]));
    }
    const int room = p->width - INDENT - 2 - effect_width;
    p->label = "FIX";
    for (uint32_t i = 0; i < r->n_fixes; i++) fix_print(p, text[i], text_width < room ? text_width : room, effect[i]);
}

/* ------------------------------------------------------------------------------------------------------- the others */

static void lines(page *p, const char *label, const char *text, size_t stride, uint32_t n)
{
    p->label = label;
    for (uint32_t i = 0; i < n; i++) paragraph(p, text + i * stride, n > 1 ? 2 : 0);
}

static void processes(page *p)
{
    const plim_watch_report *r = p->r;
    char text[TEXT_MAX], number[32], clean[64];
    if (r->processes < 2) return;
    p->label = "PROCESSES";
    snprintf(text, sizeof text, "%u in all", r->processes);
    if (r->n_processes < r->processes) plim__screen_add(text, sizeof text, ", %u of them here", r->n_processes);
    paragraph(p, text, 0);
    for (uint32_t i = 0; i < r->n_processes; i++) {
        const plim_watch_process *x = &r->process[i];
        snprintf(text, sizeof text, "%7d  %-15s", (int)x->pid, plim__screen_clean(clean, sizeof clean, x->program));
        if (x->ended) plim__screen_add(text, sizeof text, "  %-19s", "ended");
        else plim__screen_add(text, sizeof text, "  %10s resident", plim_bytes_format(number, sizeof number, x->resident));
        plim__screen_add(text, sizeof text, "  %10s peak", plim_bytes_format(number, sizeof number, x->resident_peak));
        if (x->attached) plim__screen_add(text, sizeof text, "  %10s recorded", plim_bytes_format(number, sizeof number, x->recorded));
        else plim__screen_add(text, sizeof text, "  followed through /proc");
        line_start(p);
        fprintf(p->out, "%s\n", plim__screen_cut(text, p->width - INDENT));
    }
}

bool plim__watch_clean(const plim_watch_report *r)
{
    return r->event == PLIM_WATCH_ENDED && r->cause == PLIM_WATCH_NO_CAUSE && r->refusals == 0;
}

void plim__watch_verdict(FILE *out, const plim_watch_report *r)
{
    char verdict[sizeof r->verdict];
    fprintf(out, "plimsoll: %s\n", plim__screen_clean(verdict, sizeof verdict, r->verdict));
}

void plim__watch_text(FILE *out, const plim_watch_report *r, int width)
{
    page p = {.out = out, .width = larger(width, WIDTH_MIN), .r = r};
    plim__watch_verdict(out, r);
    /* What was refused before has been reported then; who holds how much is no news where only a process is not covered. */
    if ((r->event == PLIM_WATCH_ENDED && r->cause == PLIM_WATCH_NO_CAUSE) || r->event == PLIM_WATCH_UNCOVERED) return;
    asked(&p);
    refused(&p);
    held(&p);
    lines(&p, "LAST", r->growing, 0, r->growing[0] != 0);
    lines(&p, "WHY", r->why[0], sizeof r->why[0], r->n_why);
    fixes(&p);
    processes(&p);
    lines(&p, "COVERAGE", r->coverage, 0, r->coverage[0] != 0);
    lines(&p, "NOTE", r->note[0], sizeof r->note[0], r->n_notes);
}
