/* plimsoll watch: runs any program and says who holds its memory. The library watches; here its reports become text, JSON, a trace and a live view,
 * and the program's end becomes ours. Standard output is the program's alone. */
#include "cli/cli.h"
#include "cli/screen_text.h"
#include "cli/watch_json.h"
#include "cli/watch_live.h"
#include "cli/watch_text.h"
#include "cli/watch_trace.h"
#include "cli/output_file.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    WIDTH_OTHERWISE = 160, /* of lines where stderr is no terminal */
    EXIT_NOT_EXECUTABLE = 126, /* as shells have it */
    EXIT_NOT_FOUND = 127,
};

typedef struct job {
    plim_watch_options how;
    bool breach_given, live, quiet;
    const char *json_path, *trace_path;

    plim__output_file json_file, trace_file;
    plim__watch_json json;
    plim__watch_trace trace;
    plim__watch_view view;
    bool breached; /* a request over the budget came, or more than it was resident */
} job;

/* --------------------------------------------------------------------------------------------- while the program runs */

/* Whether the program was ended for its breach of the budget. */
static bool was_stopped(const job *j)
{
    return j->breached && j->how.on_breach == PLIM_WATCH_STOP;
}

static void on_report(void *ctx, const plim_watch_report *r)
{
    job *j = ctx;
    j->breached |= r->event == PLIM_WATCH_REFUSED || r->event == PLIM_WATCH_OVER || r->refusals > 0;
    if (j->json_file.out) plim__watch_json_add(&j->json, r);
    if (j->trace_file.out) plim__watch_trace_report(&j->trace, r);
    if (j->quiet && plim__watch_clean(r)) return;
    if (j->live) plim__watch_view_hide(&j->view);
    const bool said = r->event == PLIM_WATCH_KILLED && r->cause == PLIM_WATCH_SIGNAL && was_stopped(j); /* at the breach */
    if (said) plim__watch_verdict(stderr, r);
    else plim__watch_text(stderr, r, plim__screen_width(STDERR_FILENO, WIDTH_OTHERWISE));
    fflush(stderr);
}

static void on_sample(void *ctx, const plim_watch_sample *s)
{
    plim__watch_trace_sample(&((job *)ctx)->trace, s);
}

static void on_live(void *ctx, const plim_watch_live *live)
{
    plim__watch_view_draw(&((job *)ctx)->view, live);
}

/* ------------------------------------------------------------------------------------------------------------- its end */

/* Why a program could not be started, as an exit code: the library's message is for people. */
static int start_code(const char *program, int otherwise)
{
    char path[4096];
    struct stat st;
    const bool is_path = strchr(program, '/');
    const char *list = is_path ? "" : getenv("PATH");
    bool there = false;
    if (!list) list = "/bin:/usr/bin";
    for (;; list++) {
        const int n = (int)strcspn(list, ":");
        snprintf(path, sizeof path, "%.*s%s%s", n, list, n ? "/" : "", program); /* an empty entry is the current folder */
        if (stat(path, &st) == 0 && (is_path || S_ISREG(st.st_mode))) {
            there = true;
            if (S_ISREG(st.st_mode) && access(path, X_OK) == 0) return otherwise;
        }
        list += n;
        if (!*list) return there ? EXIT_NOT_EXECUTABLE : EXIT_NOT_FOUND;
    }
}

/* Ends this process by the signal that ended the program, so that whoever started us sees the same. Without a dump of our own, which could take the
 * place of the program's: a limit of 0 does not hold where dumps are piped to a program, not being dumpable does. */
static void end_by_signal(int number)
{
    const struct rlimit none = {0};
    sigset_t set;
    setrlimit(RLIMIT_CORE, &none);
    prctl(PR_SET_DUMPABLE, 0);
    signal(number, SIG_DFL);
    sigemptyset(&set);
    sigaddset(&set, number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    raise(number);
}

static plim_status files_open(job *j, plim_error *err)
{
    plim_status status = PLIM_OK;
    if (j->json_path) status = plim__output_file_open(&j->json_file, j->json_path, err);
    if (status == PLIM_OK && j->trace_path) status = plim__output_file_open(&j->trace_file, j->trace_path, err);
    if (status != PLIM_OK) {
        plim__output_file_drop(&j->json_file);
        return status;
    }
    if (j->json_path) plim__watch_json_start(&j->json, j->json_file.out, &j->how);
    if (j->trace_path) plim__watch_trace_start(&j->trace, j->trace_file.out, &j->how);
    return PLIM_OK;
}

/* @return PLIM__EXIT_OK, or the code of what could not be written */
static int files_finish(job *j, int wait_status, bool stopped)
{
    plim_error err = {0};
    int code = PLIM__EXIT_OK;
    if (j->json_file.out) {
        plim__watch_json_end(&j->json, wait_status, stopped);
        if (plim__output_file_finish(&j->json_file, &err)) code = plim__cli_fail(&err, NULL);
    }
    if (j->trace_file.out) {
        plim__watch_trace_end(&j->trace);
        if (plim__output_file_finish(&j->trace_file, &err)) code = plim__cli_fail(&err, NULL);
    }
    return code;
}

/* The program ended: what was gathered is put in its place, and its end becomes ours. */
static int ended(job *j, int wait_status)
{
    const bool stopped = was_stopped(j);
    const int written = files_finish(j, wait_status, stopped);
    fflush(stderr);
    if (stopped) return PLIM__EXIT_BUDGET;
    if (WIFSIGNALED(wait_status)) {
        end_by_signal(WTERMSIG(wait_status));
        return 128 + WTERMSIG(wait_status);
    }
    return WEXITSTATUS(wait_status) ? WEXITSTATUS(wait_status) : written;
}

static int run(job *j)
{
    static char buffer[1 << 16]; /* a report is one write: what the program prints meanwhile does not come between its lines */
    plim_error err = {0};
    int wait_status = 0;
    if (files_open(j, &err)) {
        plim__cli_fail(&err, NULL);
        return PLIM__EXIT_USAGE;
    }
    setvbuf(stderr, buffer, _IOFBF, sizeof buffer);
    if (j->live && !plim__watch_view_start(&j->view, STDERR_FILENO, !getenv("NO_COLOR"))) {
        fputs("plimsoll: --live needs a terminal on standard error; going on without\n", stderr);
        fflush(stderr);
        j->live = false;
    }
    j->how.ctx = j;
    j->how.report = on_report;
    j->how.sample = j->trace_path ? on_sample : NULL;
    j->how.live = j->live ? on_live : NULL;
    const plim_status status = plim_watch(&wait_status, &j->how, &err);
    if (j->live) plim__watch_view_end(&j->view);
    if (status == PLIM_OK) return ended(j, wait_status);
    plim__output_file_drop(&j->json_file);
    plim__output_file_drop(&j->trace_file);
    const int code = plim__cli_fail(&err, NULL);
    return status == PLIM_E_IO ? start_code(j->how.argv[0], code) : code;
}

/* ------------------------------------------------------------------------------------------------------------- options */

static plim_status take_breach(void *to, const char *value, plim_error *err)
{
    job *j = to;
    for (plim_watch_breach b = PLIM_WATCH_ENOMEM; b <= PLIM_WATCH_STOP; b++) {
        if (strcmp(value, plim__watch_breach_name(b))) continue;
        j->how.on_breach = b;
        j->breach_given = true;
        return PLIM_OK;
    }
    err->code = PLIM_E_INVALID;
    snprintf(err->message, sizeof err->message, "'%.40s' is none of enomem, report, stop", value);
    return err->code;
}

int plim_cli_watch(int argc, char **argv)
{
    static job j;
    const plim__cli_option options[] = {
        {"memory", 0, PLIM__CLI_IS_BYTES, &j.how.memory, "SIZE", "budget for the program and its children: 512M, 2G, 1.5GiB, 80%", NULL},
        {"on-breach", 0, PLIM__CLI_IS_CALL, &j, "WHAT", "of a request over the budget: enomem (refuse it), report, stop", take_breach},
        {"json", 0, PLIM__CLI_IS_TEXT, &j.json_path, "FILE", "every fact of every report, as one JSON object", NULL},
        {"trace", 0, PLIM__CLI_IS_TEXT, &j.trace_path, "FILE", "the time line, for Perfetto or chrome://tracing", NULL},
        {"live", 0, PLIM__CLI_IS_FLAG, &j.live, NULL, "show memory while the program runs, on a terminal", NULL},
        {"no-source", 0, PLIM__CLI_IS_FLAG, &j.how.no_source, NULL, "leave the text of source lines out", NULL},
        {"quiet", 'q', PLIM__CLI_IS_FLAG, &j.quiet, NULL, "no line when there was no trouble", NULL},
    };
    const plim__cli_command cmd = {
        .name = "watch",
        .synopsis = "[options] [--] CMD [ARG...]",
        .about = "Runs CMD unchanged and says on standard error what its memory peak was. Where memory runs out it says what was\n"
                 "asked for and by which line, which limit refused, what holds the memory and under which name, why, and what\n"
                 "would help, with the peak that each remedy would give. Lines and names are those of Python where there is one.\n"
                 "With --memory, a request that would breach the budget fails as if memory had run out: the program gets its\n"
                 "ordinary exception instead of being killed.\n",
        .notes = "exit code: the program's (a signal that ended it ends plimsoll too); 3 stopped by --on-breach stop,\n"
                 "126 not executable, 127 not found, 2 wrong options or a file that cannot be written\n\n"
                 "  plimsoll watch python3 train.py --epochs 3\n"
                 "  plimsoll watch --memory 4G --json report.json -- python3 train.py\n",
        .option = options,
        .n_options = sizeof options / sizeof *options,
        .stops_at_word = true,
    };
    plim__cli_shared shared;
    int leave;
    if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave)) return leave;
    if (argc == 0) return plim__cli_usage(cmd.name, "watch needs a program to run, such as python3 train.py");
    if (j.breach_given && !j.how.memory) return plim__cli_usage(cmd.name, "--on-breach says what happens at a budget; give one with --memory");
    if (j.json_path && j.trace_path && !strcmp(j.json_path, j.trace_path)) return plim__cli_usage(cmd.name, "--json and --trace name the same file");
    argv[argc] = NULL;
    j.how.argv = argv;
    return run(&j);
}
