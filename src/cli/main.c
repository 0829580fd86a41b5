/* The command line's front door: the table of verbs. To add a verb is to add its file and its row. */
#include "cli/cli.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct verb {
    const char *name;
    int (*run)(int argc, char **argv);
    const char *summary;
} verb;

static const verb verbs[] = {
    {"size", plim_cli_size, "bytes of a tensor, whether it fits here, and which limit says no"},
    {"doctor", plim_cli_doctor, "every limit that applies to this process, what is free, disk and compute speed"},
    {"eval", plim_cli_eval, "an expression over array files of any size, inside a budget"},
    {"plan", plim_cli_plan, "how much memory a model needs to run or to be trained, layer by layer, and what would make it fit"},
    {"train", plim_cli_train, "a model on array files of any size, inside a budget"},
    {"infer", plim_cli_infer, "a model over array files of any size, inside a budget"},
    {"watch", plim_cli_watch, "any program: who holds the memory, what failed and why, what would help"},
    {"pack", plim_cli_pack, "static offsets for a set of lifetimes, with the proven gap to the lower bound"},
};

enum { VERBS = sizeof verbs / sizeof *verbs };

static void print_help(FILE *out)
{
    fprintf(out, "usage: plimsoll VERB [options]\n\nTensor programs inside a fixed amount of memory.\n\nverbs:\n");
    for (size_t i = 0; i < VERBS; i++) fprintf(out, "  %-8s %s\n", verbs[i].name, verbs[i].summary);
    fprintf(out, "\n`plimsoll VERB --help` says more, man plimsoll says all. Exit codes: 0 done, 1 failed at run time,\n"
                 "2 usage or bad input, 3 does not fit the budget.\n");
}

static const verb *find_verb(const char *name)
{
    for (size_t i = 0; i < VERBS; i++)
        if (!strcmp(verbs[i].name, name)) return &verbs[i];
    return NULL;
}

static int unknown_verb(const char *name)
{
    const char *names[VERBS];
    for (size_t i = 0; i < VERBS; i++) names[i] = verbs[i].name;
    const char *near = plim__cli_nearest(name, names, VERBS);
    if (near) return plim__cli_usage(NULL, "unknown verb '%s'; do you mean '%s'?", name, near);
    return plim__cli_usage(NULL, "unknown verb '%s'; plimsoll --help lists them", name);
}

static int run(int argc, char **argv)
{
    if (argc < 2) {
        print_help(stderr);
        return PLIM__EXIT_USAGE;
    }
    const char *name = argv[1];
    if (!strcmp(name, "--help") || !strcmp(name, "-h") || (!strcmp(name, "help") && argc == 2)) {
        print_help(stdout);
        return PLIM__EXIT_OK;
    }
    if (!strcmp(name, "--version")) {
        printf("plimsoll %s\n", PLIM_VERSION);
        return PLIM__EXIT_OK;
    }
    if (!strcmp(name, "help")) { /* help VERB is VERB --help */
        const verb *v = find_verb(argv[2]);
        static char flag[] = "--help";
        char *args[] = {argv[2], flag, NULL};
        return v ? v->run(2, args) : unknown_verb(argv[2]);
    }
    if (name[0] == '-') return plim__cli_usage(NULL, "unknown option %s; plimsoll --help lists the verbs", name);
    const verb *v = find_verb(name);
    return v ? v->run(argc - 1, argv + 1) : unknown_verb(name);
}

/* A file that is opened takes the lowest free descriptor: the place of a standard stream that is closed, and what is meant for standard error would be written
 * into it. Such places are filled with something that can be neither read nor written, as if they were closed. A watched program finds them closed. */
static void fill_streams(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", (fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) | O_CLOEXEC) < 0) return;
}

int main(int argc, char **argv)
{
    fill_streams();
    const int code = run(argc, argv);
    /* A result that did not reach its reader is a failure, whatever the verb thought. */
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "plimsoll: the output cannot be written: %s\n", strerror(errno));
        return code ? code : PLIM__EXIT_FAILED;
    }
    return code;
}
