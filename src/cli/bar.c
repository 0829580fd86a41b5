/* The progress bar, and stopping cleanly on a signal. The flag is a mutable global, as few of the command line are: a handler can
 * reach nothing else. */
#include "cli/cli.h"

#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define DRAW_SECONDS 0.1

static volatile sig_atomic_t interrupted;

static void on_signal(int number)
{
    (void)number;
    interrupted = 1;
}

static const int stop_signals[2] = {SIGINT, SIGTERM};

static void signals_take(plim__cli_bar *bar)
{
    struct sigaction action = {.sa_handler = on_signal};
    sigemptyset(&action.sa_mask);
    action.sa_flags = SA_RESTART | (int)SA_RESETHAND; /* a second signal ends the process at once */
    interrupted = 0;
    for (int i = 0; i < 2; i++) {
        sigaction(stop_signals[i], NULL, &bar->before[i]);
        /* Whoever started us with the signal ignored (nohup, a shell's background job) meant it. */
        if (bar->before[i].sa_handler != SIG_IGN) sigaction(stop_signals[i], &action, NULL);
    }
}

static void signals_return(const plim__cli_bar *bar)
{
    for (int i = 0; i < 2; i++) sigaction(stop_signals[i], &bar->before[i], NULL);
}

static int terminal_width(void)
{
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : 80;
}

static void time_format(char *buf, size_t size, double seconds)
{
    const unsigned long s = seconds < 1e6 ? (unsigned long)(seconds + 0.5) : 999999;
    if (s < 3600)
        snprintf(buf, size, "%lu:%02lu", s / 60, s % 60);
    else
        snprintf(buf, size, "%lu:%02lu:%02lu", s / 3600, s / 60 % 60, s % 60);
}

static void draw(const plim_progress *now, const plim__cli_bar *bar)
{
    const double share = now->total ? (double)now->done / (double)now->total : 0;
    const double rate = now->seconds > 0 ? (double)now->done / now->seconds : 0;
    char rate_text[32], left[24] = "", tail[96];
    plim_bytes_format(rate_text, sizeof rate_text, (uint64_t)rate);
    if (rate > 0 && now->total >= now->done) time_format(left, sizeof left, (double)(now->total - now->done) / rate);
    if (bar->percent) snprintf(tail, sizeof tail, " %3.0f%%", share * 100);
    else if (bar->counts) snprintf(tail, sizeof tail, " %llu of %llu", (unsigned long long)now->done, (unsigned long long)now->total);
    else snprintf(tail, sizeof tail, " %3.0f%%  %s/s  %s left", share * 100, rate_text, left);

    const char *what = now->what ? now->what : "";
    const int room = terminal_width() - (int)strlen(what) - (int)strlen(tail) - 6;
    const int width = room < 0 ? 0 : room > 40 ? 40 : room;
    const int full = (int)(share * width + 0.5);
    fprintf(stderr, "\r%s [", what);
    for (int i = 0; i < width; i++) fputc(i < full ? '#' : '-', stderr);
    fprintf(stderr, "]%s\033[K", tail);
    fflush(stderr);
}

static bool on_progress(void *ctx, const plim_progress *now)
{
    plim__cli_bar *bar = ctx;
    if (interrupted) return false;
    if (bar->draw && now->seconds >= bar->next) {
        draw(now, bar);
        bar->drawn = true;
        bar->next = now->seconds + DRAW_SECONDS;
    }
    return true;
}

void plim__cli_bar_start(plim__cli_bar *bar, plim__cli_shared *shared)
{
    /* The first half second is silent: what is done by then needs no bar. */
    *bar = (plim__cli_bar){.draw = !shared->quiet && isatty(STDERR_FILENO), .next = 0.5};
    shared->set.progress = on_progress;
    shared->set.progress_ctx = bar;
    signals_take(bar);
}

void plim__cli_bar_end(plim__cli_bar *bar)
{
    if (bar->drawn) fputs("\r\033[K", stderr);
    signals_return(bar);
}
