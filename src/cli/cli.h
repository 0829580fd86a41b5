/* What the verbs of the command line share: options, messages, exit codes, progress. Everything below sits on the public header.
 *
 * A verb describes itself with a plim__cli_command; from that one table come its parsing, its --help and the wrong-option message:
 *
 *     int plim_cli_size(int argc, char **argv)
 *     {
 *         plim__cli_shared shared = {0};
 *         const plim__cli_command cmd = {.name = "size", .synopsis = "SHAPE[:DTYPE]...", .shared = PLIM__CLI_MEMORY | PLIM__CLI_JSON};
 *         int leave;
 *         if (!plim__cli_parse(&cmd, &shared, &argc, argv, &leave)) return leave;
 *         // argv[0..argc) are now the words that are no options
 *     }
 */
#ifndef PLIM_CLI_CLI_H
#define PLIM_CLI_CLI_H

#include "cli/emit.h"
#include "cli/json.h"
#include "plimsoll/plimsoll.h"

#include <signal.h>

/* ---- exit codes ---- */

enum {
    PLIM__EXIT_OK = 0,
    PLIM__EXIT_FAILED = 1, /* at run time */
    PLIM__EXIT_USAGE = 2,  /* usage or bad input */
    PLIM__EXIT_BUDGET = 3, /* does not fit */
};

int plim__cli_exit_code(plim_status status);
/** Prints the one message for a failed call on stderr. @param text  the expression that err->column points into, or NULL
 *  @return the exit code */
int plim__cli_fail(const plim_error *err, const char *text);
/** Prints "plimsoll: ..." on stderr, a hint at `plimsoll VERB --help` (unless verb is NULL). @return PLIM__EXIT_USAGE */
int plim__cli_usage(const char *verb, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- options ---- */

typedef enum plim__cli_kind {
    PLIM__CLI_IS_FLAG,    /* bool *to = true */
    PLIM__CLI_IS_TEXT,    /* const char **to */
    PLIM__CLI_IS_BYTES,   /* uint64_t *to, above 0; a percentage is of what this process can get now */
    PLIM__CLI_IS_COUNT,   /* uint32_t *to, above 0 */
    PLIM__CLI_IS_SECONDS, /* double *to, above 0 */
    PLIM__CLI_IS_CALL,    /* take(to, value, err): for options that may come several times */
} plim__cli_kind;

typedef struct plim__cli_option {
    const char *name;  /* "memory", written --memory; NULL: only the letter */
    char letter;       /* 'o', written -o; 0: none */
    plim__cli_kind kind;
    void *to;
    const char *value; /* "SIZE" in the help; NULL for a flag */
    const char *help;  /* one line */
    plim_status (*take)(void *to, const char *value, plim_error *err);
} plim__cli_option;

/* The shared options of the design, as a set: a verb names those that mean something to it; the others are unknown there. */
enum {
    PLIM__CLI_MEMORY = 1,
    PLIM__CLI_THREADS = 2,
    PLIM__CLI_SPILL = 4,
    PLIM__CLI_ALLOW = 8,
    PLIM__CLI_JSON = 16,
    PLIM__CLI_QUIET = 32,
    PLIM__CLI_PLAN_ONLY = 64,
    PLIM__CLI_MACHINE = 256,  /* which machine's speeds plans are for: chosen by plim__cli_machine (machine.h) */
    PLIM__CLI_NO_SPILL = 128, /* the verb spills into the current folder unless told otherwise: plim__cli_spill_folder */
};

enum { PLIM__ALLOW_F16 = 1, PLIM__ALLOW_BF16 = 2, PLIM__ALLOW_INT8 = 4 };

typedef struct plim__cli_shared {
    plim_settings set; /* memory, threads and spill_dir come from the options */
    uint32_t allow;    /* PLIM__ALLOW_... */
    bool json, quiet, plan_only, no_spill;
    const char *machine_file; /* --machine */
    bool no_machine;
    plim_machine machine;     /* set.machine points here, where it is not NULL */
    char machine_from[1024];  /* its file, or "defaults" */
} plim__cli_shared;

typedef struct plim__cli_command {
    const char *name;
    const char *synopsis; /* what follows the verb in the usage line */
    const char *about;    /* what it does, lines with their newlines; may be NULL */
    const char *notes;    /* after the options: examples, exit codes; may be NULL */
    uint32_t shared;      /* PLIM__CLI_... */
    bool stops_at_word;   /* the first word and all that follows belong to somebody else: no options are looked for there */
    const plim__cli_option *option;
    uint32_t n_options;
} plim__cli_command;

/** Takes the options out of argv (argv[0] is the verb and goes too); "--name value", "--name=value", "-ovalue", "-o value"; after "--" everything is
 *  a word, and so after the first word where cmd->stops_at_word. A lone "-" is a word. Sets *shared to the defaults first.
 *  @return false when the verb should leave with *leave: help was asked for and printed, or a message was */
bool plim__cli_parse(const plim__cli_command *cmd, plim__cli_shared *shared, int *argc, char **argv, int *leave);

/** For verbs that spill unless told otherwise: the folder that was named, else the current one where it can be written to, else none.
 *  @return NULL, or what contradicts what */
const char *plim__cli_spill_folder(plim__cli_shared *shared);

/** Which of `n` names is nearest to `word`, if near enough to be meant; NULL otherwise. */
const char *plim__cli_nearest(const char *word, const char *const *name, uint32_t n);

/* ---- progress ---- */

/** A bar on stderr: what, percent, rate, time left. Silent unless stderr is a terminal. While it is on, SIGINT and SIGTERM make the run stop cleanly
 *  (PLIM_E_CANCELLED); a second one ends the process. */
typedef struct plim__cli_bar {
    bool draw, drawn;
    bool counts; /* done and total are things, not bytes: shown as they are. Set after plim__cli_bar_start */
    bool percent; /* they are neither: only their share is shown. So is this */
    double next; /* seconds of the run at which to draw again */
    struct sigaction before[2];
} plim__cli_bar;

/** Hooks the bar into shared->set. `bar` must outlive the run. */
void plim__cli_bar_start(plim__cli_bar *bar, plim__cli_shared *shared);
/** Clears the line and gives the signals back. */
void plim__cli_bar_end(plim__cli_bar *bar);

/* ---- parts of verbs ---- */

/** `plimsoll plan --curve`: budgets against estimated times, as a table, on a terminal as a plot too. @return the exit code */
int plim__cli_curve(const char *path, const plim_model_options *how, plim__cli_shared *shared);

/* ---- verbs: argv[0] is the verb ---- */

int plim_cli_size(int argc, char **argv);
int plim_cli_doctor(int argc, char **argv);
int plim_cli_eval(int argc, char **argv);
int plim_cli_pack(int argc, char **argv);
int plim_cli_plan(int argc, char **argv);
int plim_cli_train(int argc, char **argv);
int plim_cli_infer(int argc, char **argv);
int plim_cli_watch(int argc, char **argv);

#endif
