#include "cli/watch_live.h"

#include "cli/screen_text.h"
#include "cli/watch_text.h"

#include <errno.h>
#include <math.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

/* ------------------------------------------------------------------------------------------------- what is shown */

enum { PLACE_COLUMNS = 48 }; /* a longer place is not waited for by the names after the others */

/* "+81 MiB/s" */
static char *growth_format(char *buf, size_t size, double growth)
{
    char number[32];
    const double rate = fmin(fabs(growth), 1e18);
    snprintf(buf, size, "%c%s/s", growth < 0 ? '-' : '+', plim_bytes_format(number, sizeof number, (uint64_t)rate));
    return buf;
}

/* What the bar stands for: the budget, else what the system gives, else what is there. */
static uint64_t bar_whole(const plim_watch_live *l)
{
    const uint64_t limit = l->budget ? l->budget : l->limit;
    if (limit && limit != PLIM_UNLIMITED) return limit;
    return l->now.resident > l->now.live ? l->now.resident : l->now.live;
}

/* The parts of what is resident. Live bytes are requested bytes, and those that were never touched are not resident. */
typedef struct parts {
    uint64_t live, kept, other, untouched;
} parts;

static parts parts_of(const plim_watch_sample *s)
{
    parts p = {.kept = s->kept < s->resident ? s->kept : s->resident};
    const uint64_t used = s->resident - p.kept;
    p.live = s->live < used ? s->live : used;
    p.other = used - p.live;
    p.untouched = s->live - p.live;
    return p;
}

static void bar_fill(char *text, int columns, const plim_watch_live *l)
{
    const parts p = parts_of(&l->now);
    const double whole = (double)bar_whole(l);
    const struct { uint64_t bytes; char fill; } part[] = {{p.live, '#'}, {p.kept, '='}, {p.other, '+'}, {p.untouched, '-'}};
    double sum = 0;
    int at = 0;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        sum += (double)part[i].bytes;
        const double end = whole > 0 ? sum / whole * columns : 0;
        while (at < columns && at + 0.5 < end) text[at++] = part[i].fill;
    }
    while (at < columns) text[at++] = '.';
    text[at] = 0;
}

static char *line_add(plim__watch_lines *out)
{
    char *line = out->line[out->n++];
    line[0] = 0;
    return line;
}

static void fill_bar(plim__watch_lines *out, const plim_watch_live *l, int width)
{
    char number[32], tail[96], bar[PLIM__WATCH_LIVE_COLUMNS + 1];
    const uint64_t limit = bar_whole(l);
    const double percent = 100 * (double)l->now.resident / (double)limit;
    snprintf(tail, sizeof tail, "  %s", plim_bytes_format(number, sizeof number, l->now.resident));
    if (l->budget || (l->limit && l->limit != PLIM_UNLIMITED))
        plim__screen_add(tail, sizeof tail, " of %s (%.0f%%)", plim_bytes_format(number, sizeof number, limit), percent);
    const int room = width - 2 - plim__screen_columns(tail);
    out->bar = room < 0 ? 0 : room > 100 ? 100 : room;
    bar_fill(bar, out->bar, l);
    snprintf(line_add(out), sizeof out->line[0], "[%s]%s", bar, tail);
}

static void fill_numbers(plim__watch_lines *out, const plim_watch_live *l)
{
    const size_t size = sizeof out->line[0];
    char number[32];
    const parts p = parts_of(&l->now);
    char *line = line_add(out);
    snprintf(line, size, "# live %s", plim_bytes_format(number, sizeof number, p.live));
    if (p.kept) plim__screen_add(line, size, "   = free but kept %s", plim_bytes_format(number, sizeof number, p.kept));
    if (p.other) plim__screen_add(line, size, "   + other %s", plim_bytes_format(number, sizeof number, p.other));
    if (p.untouched) plim__screen_add(line, size, "   - requested, not touched %s", plim_bytes_format(number, sizeof number, p.untouched));
    if (l->now.processes > 1) plim__screen_add(line, size, "   %u processes", l->now.processes);
    if (l->refusals) plim__screen_add(line, size, "   %llu refusal%s", (unsigned long long)l->refusals, l->refusals == 1 ? "" : "s");
    plim__screen_add(line, size, "   t = %.1f s", l->now.seconds);
}

static void fill_growth(plim__watch_lines *out, const plim_watch_live *l)
{
    const size_t size = sizeof out->line[0];
    char rate[48];
    char *line = line_add(out);
    growth_format(rate, sizeof rate, l->growth);
    if (l->seconds_left >= 0) snprintf(line, size, "at %s the %s is reached in %.0f s", rate, l->budget ? "budget" : "limit", l->seconds_left);
    else snprintf(line, size, "%s", rate);
}

/* "t_leak.py:5 step()  matmul" */
static void where_format(char *buf, size_t size, const plim_watch_site *s)
{
    char text[PLIM__WATCH_PLACE];
    buf[0] = 0;
    if (s->n_frames) {
        plim__watch_place(buf, size, &s->frame[0], NULL);
        if (plim__watch_function(text, sizeof text, &s->frame[0])[0]) plim__screen_add(buf, size, " %s", text);
    }
    if (s->label[0]) plim__screen_add(buf, size, "%s%s", buf[0] ? "  " : "", plim__screen_clean(text, sizeof text, s->label));
}

static void fill_sites(plim__watch_lines *out, const plim_watch_live *l, uint32_t room)
{
    const size_t size = sizeof out->line[0];
    char number[32], rate[48], where[8][3 * PLIM__WATCH_PLACE], name[sizeof l->site[0].name.name];
    int widest = 0;
    for (uint32_t i = 0; i < l->n_sites; i++) {
        where_format(where[i], sizeof where[i], &l->site[i]);
        const int columns = plim__screen_columns(where[i]);
        if (columns > widest && columns <= PLACE_COLUMNS) widest = columns;
    }
    for (uint32_t i = 0; i < l->n_sites && out->n < room; i++) {
        const plim_watch_site *s = &l->site[i];
        char *line = line_add(out);
        plim_bytes_format(number, sizeof number, s->resident ? s->resident : s->bytes);
        snprintf(line, size, "%9s  %11s  ", number, s->growth != 0 ? growth_format(rate, sizeof rate, s->growth) : "");
        plim__screen_add(line, size, "%s", where[i]);
        if (!s->name.name[0]) continue;
        const int pad = widest - plim__screen_columns(where[i]);
        plim__screen_add(line, size, "%*s  `%s`", pad > 0 ? pad : 0, "", plim__screen_clean(name, sizeof name, s->name.name));
    }
}

void plim__watch_lines_fill(plim__watch_lines *out, const plim_watch_live *l, int width, int height)
{
    out->n = 0;
    if (width > PLIM__WATCH_LIVE_COLUMNS) width = PLIM__WATCH_LIVE_COLUMNS;
    if (height > PLIM__WATCH_LIVE_LINES) height = PLIM__WATCH_LIVE_LINES;
    const uint32_t room = height > 0 ? (uint32_t)height : 0;
    if (out->n < room) fill_bar(out, l, width);
    if (out->n < room) fill_numbers(out, l);
    if (out->n < room) fill_growth(out, l);
    fill_sites(out, l, room);
    for (uint32_t i = 0; i < out->n; i++) plim__screen_cut(out->line[i], width);
}

/* -------------------------------------------------------------------------------------------------------- signals */

#define SAVE "\0337"
#define BACK "\0338"
/* Setting the region moves the cursor to the top, so it is put back before what is below it is cleared. */
static const char take_away[] = SAVE "\033[r" BACK "\033[J\033[?25h";

/* What a handler needs: the terminal of the one view there is, -1 while it has none on it. */
static volatile sig_atomic_t drawn_on = -1;

static void write_all(int fd, const char *text, size_t n)
{
    while (n > 0) {
        const ssize_t put = write(fd, text, n);
        if (put < 0 && errno == EINTR) continue;
        if (put <= 0) return;
        text += put;
        n -= (size_t)put;
    }
}

static const int ending_signals[4] = {SIGTSTP, SIGABRT, SIGSEGV, SIGBUS};

/* Leaves the terminal as it was, then lets the signal do what it does. After a stop the handler is set again; the next drawing is a new one. */
static void on_signal(int number)
{
    const int why = errno;
    if (drawn_on >= 0) write_all(drawn_on, take_away, sizeof take_away - 1);
    drawn_on = -1;
    struct sigaction otherwise = {.sa_handler = SIG_DFL}, mine;
    sigset_t set, before;
    sigaction(number, &otherwise, &mine);
    sigemptyset(&set);
    sigaddset(&set, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, &before); /* it comes now */
    sigprocmask(SIG_SETMASK, &before, NULL);
    sigaction(number, &mine, NULL);
    errno = why;
}

/* ------------------------------------------------------------------------------------------------------- drawing */

bool plim__watch_view_start(plim__watch_view *v, int fd, bool colour)
{
    *v = (plim__watch_view){.fd = fd, .colour = colour};
    if (!isatty(fd)) return false;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    for (int i = 0; i < 4; i++) {
        sigaction(ending_signals[i], NULL, &v->before[i]);
        if (v->before[i].sa_handler == SIG_DFL) sigaction(ending_signals[i], &action, NULL);
    }
    return true;
}

void plim__watch_view_hide(plim__watch_view *v)
{
    if (v->shown && drawn_on >= 0) write_all(v->fd, take_away, sizeof take_away - 1);
    drawn_on = -1;
    v->shown = false;
}

void plim__watch_view_end(plim__watch_view *v)
{
    plim__watch_view_hide(v);
    for (int i = 0; i < 4; i++) sigaction(ending_signals[i], &v->before[i], NULL);
}

/* The bar with each part in its own colour. */
static void print_bar(FILE *out, const char *line, int columns, bool colour)
{
    static const struct { char fill; const char *code; } paint[] = {{'#', "36"}, {'=', "33"}, {'+', "34"}, {'-', "90"}};
    fputc(line[0], out);
    char last = 0;
    for (int i = 1; i <= columns && line[i]; i++) {
        if (colour && line[i] != last) {
            fputs("\033[0m", out);
            for (size_t k = 0; k < sizeof paint / sizeof *paint; k++)
                if (paint[k].fill == line[i]) fprintf(out, "\033[%sm", paint[k].code);
        }
        last = line[i];
        fputc(last, out);
    }
    fprintf(out, "%s%s", colour ? "\033[0m" : "", line[0] ? line + strnlen(line, (size_t)columns + 1) : "");
}

/* Room for n lines below the cursor, which stays at its line and column of the program's output: the screen scrolls where it must. */
static void print_room(FILE *out, uint32_t n, int rows)
{
    fputs(take_away, out);
    for (uint32_t i = 0; i < n; i++) fputs("\033D", out);
    fprintf(out, "\033[%uA" SAVE "\033[1;%dr" BACK, n, rows - (int)n);
}

void plim__watch_view_draw(plim__watch_view *v, const plim_watch_live *live)
{
    static plim__watch_lines lines;
    static char buf[sizeof lines.line + 4096];
    struct winsize size;
    if (ioctl(v->fd, TIOCGWINSZ, &size) || size.ws_row < 4 || size.ws_col < 20) return;
    const int rows = size.ws_row, columns = size.ws_col;
    plim__watch_lines_fill(&lines, live, columns - 1, rows / 2);

    FILE *out = fmemopen(buf, sizeof buf, "w");
    if (!out) return;
    const bool fresh = !v->shown || drawn_on < 0 || rows != v->rows || columns != v->columns || lines.n > v->lines;
    if (fresh) {
        v->lines = lines.n;
        print_room(out, lines.n, rows);
    }
    fputs(SAVE "\033[?25l", out);
    for (uint32_t i = 0; i < v->lines; i++) {
        fprintf(out, "\033[%d;1H\033[2K", rows - (int)v->lines + 1 + (int)i);
        if (i == 0 && lines.n) print_bar(out, lines.line[0], lines.bar, v->colour);
        else if (i < lines.n) fputs(lines.line[i], out);
    }
    fputs(BACK "\033[?25h", out);
    fflush(out);
    const long n = ftell(out);
    fclose(out);
    v->shown = true;
    v->rows = rows;
    v->columns = columns;
    drawn_on = v->fd;
    if (n > 0) write_all(v->fd, buf, (size_t)n);
}
