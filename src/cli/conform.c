/* plimsoll-conformance DIR: runs the tests below DIR, laid out as the ONNX project's are, and says by operator how many pass.
 *
 * Every test runs in a process of its own, which has a time limit: a test that ends badly is a failed test, and the next one runs. */
#include "cli/emit.h"
#include "plimsoll/plimsoll.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define DEPTH_MAX 4      /* folders below DIR */
#define SECONDS_USUAL 20
#define VERDICTS 4

enum { EXIT_PASSED = 0, EXIT_SOME_FAILED = 1, EXIT_USAGE = 2 };

typedef struct test {
    char *folder;
    const char *name; /* the folder's, without DIR */
    plim_conformance result;
} test;

typedef struct tests {
    test *test;
    uint32_t n, cap;
} tests;

typedef struct options {
    bool json, verbose;
    long seconds, threads;
    const char *folder;
} options;

static _Noreturn void no_memory(void)
{
    fputs("plimsoll-conformance: out of memory\n", stderr);
    exit(EXIT_SOME_FAILED);
}

/* ------------------------------------------------------------------------------------------------------ finding tests */

static bool is_folder(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static char *join(const char *folder, const char *name)
{
    char *path;
    if (asprintf(&path, "%s/%s", folder, name) < 0) no_memory();
    return path;
}

static void add_test(tests *t, char *folder, size_t skip)
{
    if (t->n == t->cap) {
        t->cap = t->cap ? 2 * t->cap : 64;
        t->test = realloc(t->test, t->cap * sizeof *t->test);
        if (!t->test) no_memory();
    }
    const char *name = strlen(folder) > skip ? folder + skip : folder;
    t->test[t->n++] = (test){.folder = folder, .name = name};
}

/* A folder with a model.onnx is a test, any other may hold some. Takes `folder`. */
static void find_tests(tests *t, char *folder, size_t skip, uint32_t depth)
{
    char *model = join(folder, "model.onnx");
    const bool is_test = access(model, F_OK) == 0;
    struct dirent **entry = NULL;
    free(model);
    if (is_test) {
        add_test(t, folder, skip);
        return;
    }
    const int n = depth < DEPTH_MAX ? scandir(folder, &entry, NULL, alphasort) : 0;
    for (int i = 0; i < n; i++) {
        char *path = entry[i]->d_name[0] == '.' ? NULL : join(folder, entry[i]->d_name);
        if (path && is_folder(path)) find_tests(t, path, skip, depth + 1);
        else free(path);
        free(entry[i]);
    }
    free(entry);
    free(folder);
}

/* ------------------------------------------------------------------------------------------------------ running one */

static void fail(plim_conformance *out, const char *why)
{
    out->verdict = PLIM_CONFORMANCE_FAILED;
    if (!out->op[0]) snprintf(out->op, sizeof out->op, "?");
    snprintf(out->why, sizeof out->why, "%s", why);
}

static _Noreturn void run_child(const test *t, const options *o, int to)
{
    plim_conformance result;
    plim_error err = {0};
    plim_settings set = plim_settings_default();
    set.threads = (uint32_t)o->threads;
    if (plim_conformance_run(&result, t->folder, &set, &err) != PLIM_OK) {
        memset(&result, 0, sizeof result);
        fail(&result, err.message);
    }
    const bool told = write(to, &result, sizeof result) == (ssize_t)sizeof result; /* less than PIPE_BUF: at once or not at all */
    _exit(told ? 0 : 1);
}

static long long now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000LL + t.tv_nsec / 1000000;
}

/* Waits for the child's answer. @return false: the time is over */
static bool wait_for(int from, plim_conformance *result, bool *complete, long seconds)
{
    const long long end = now_ms() + seconds * 1000LL;
    struct pollfd p = {.fd = from, .events = POLLIN};
    *complete = false;
    for (;;) {
        const long long left = end - now_ms();
        const int got = poll(&p, 1, left > 0 ? (int)left : 0);
        if (got > 0) {
            *complete = read(from, result, sizeof *result) == (ssize_t)sizeof *result;
            return true;
        }
        if (got == 0 || errno != EINTR) return false;
    }
}

static void run_test(test *t, const options *o)
{
    int pipes[2];
    char why[96];
    bool complete;
    fflush(NULL); /* or the child would write it again */
    if (pipe(pipes) != 0) {
        fail(&t->result, strerror(errno));
        return;
    }
    const pid_t child = fork();
    if (child == 0) run_child(t, o, pipes[1]);
    close(pipes[1]);
    if (child < 0) {
        fail(&t->result, strerror(errno));
        close(pipes[0]);
        return;
    }
    const bool in_time = wait_for(pipes[0], &t->result, &complete, o->seconds);
    int status = 0;
    close(pipes[0]);
    if (!in_time) kill(child, SIGKILL);
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    if (!complete) memset(&t->result, 0, sizeof t->result);
    if (!in_time) snprintf(why, sizeof why, "it took more than %ld seconds", o->seconds);
    else if (WIFSIGNALED(status)) snprintf(why, sizeof why, "ended by signal %d (%s)", WTERMSIG(status), strsignal(WTERMSIG(status)));
    else snprintf(why, sizeof why, "ended with status %d and without a result", WEXITSTATUS(status));
    if (!complete || !in_time || WIFSIGNALED(status)) fail(&t->result, why);
}

/* --------------------------------------------------------------------------------------------------------- the report */

static const char *const verdict_name[VERDICTS] = {"passed", "failed", "unsupported", "not numeric"};

static int by_op(const void *a, const void *b)
{
    const test *const *x = a, *const *y = b;
    return strcmp((*x)->result.op, (*y)->result.op);
}

static void emit_ops(plim__emit *e, const tests *t)
{
    static const plim__emit_column columns[] = {
        {"op", "op", false}, {"passed", "passed", true}, {"failed", "failed", true}, {"unsupported", "unsupported", true},
        {"not_numeric", "not numeric", true},
    };
    const test **order = malloc((t->n + 1) * sizeof *order);
    if (!order) no_memory();
    for (uint32_t i = 0; i < t->n; i++) order[i] = &t->test[i];
    qsort(order, t->n, sizeof *order, by_op);
    plim__emit_table(e, "ops", columns, 1 + VERDICTS);
    for (uint32_t i = 0, next; i < t->n; i = next) {
        uint64_t count[VERDICTS] = {0};
        for (next = i; next < t->n && by_op(&order[i], &order[next]) == 0; next++) count[order[next]->result.verdict]++;
        plim__emit_string(e, NULL, NULL, order[i]->result.op);
        for (uint32_t k = 0; k < VERDICTS; k++) plim__emit_count(e, NULL, NULL, count[k]);
    }
    plim__emit_table_end(e);
    free(order);
}

/* For people: the failed ones, and with --verbose what was refused, too. */
static void emit_reasons(plim__emit *e, const tests *t, bool verbose)
{
    for (uint32_t i = 0; i < t->n; i++) {
        const plim_conformance *r = &t->test[i].result;
        if (r->verdict == PLIM_CONFORMANCE_FAILED || (verbose && r->verdict != PLIM_CONFORMANCE_PASSED))
            plim__emit_line(e, "%s %s: %s\n", verdict_name[r->verdict], t->test[i].name, r->why);
    }
}

static void emit_tests(plim__json *j, const tests *t)
{
    plim__json_list(j, "tests");
    for (uint32_t i = 0; i < t->n; i++) {
        const plim_conformance *r = &t->test[i].result;
        plim__json_object(j, NULL);
        plim__json_string(j, "name", t->test[i].name);
        plim__json_string(j, "op", r->op);
        plim__json_string(j, "verdict", verdict_name[r->verdict]);
        if (r->why[0]) plim__json_string(j, "why", r->why);
        plim__json_end(j);
    }
    plim__json_end(j);
}

/* @return how many failed */
static uint64_t report(const tests *t, const options *o)
{
    static plim__emit e;
    uint64_t count[VERDICTS] = {0};
    for (uint32_t i = 0; i < t->n; i++) count[t->test[i].result.verdict]++;
    plim__emit_start(&e, stdout, o->json, "conformance");
    emit_ops(&e, t);
    emit_reasons(&e, t, o->verbose);
    if (plim__emit_json(&e)) emit_tests(plim__emit_json(&e), t);
    static const char *const key[VERDICTS] = {"passed", "failed", "unsupported", "not_numeric"};
    for (uint32_t k = 0; k < VERDICTS; k++) plim__emit_count(&e, key[k], NULL, count[k]);
    plim__emit_line(&e, "%llu passed, %llu failed, %llu unsupported, %llu not numeric\n", (unsigned long long)count[0], (unsigned long long)count[1],
                    (unsigned long long)count[2], (unsigned long long)count[3]);
    plim__emit_end(&e);
    return count[PLIM_CONFORMANCE_FAILED];
}

/* ------------------------------------------------------------------------------------------------------- the command */

static void print_help(void)
{
    printf("usage: plimsoll-conformance DIR [--verbose] [--json] [--seconds N] [--threads N]\n\n"
           "Runs the tests below DIR, laid out as the ONNX project's are: folders with model.onnx and\n"
           "test_data_set_0/input_0.pb, output_0.pb and so on. Prints by operator how many passed, how many\n"
           "failed and how many ask for something that is not supported; then the first difference of each\n"
           "that failed. Results conform as they do in ONNX's own runner: the same dtype and shape, floats\n"
           "within 1e-7 + 1e-3 * |expected|, the rest equal. Tests of strings, sequences and the like are\n"
           "counted apart.\n\n"
           "options:\n"
           "  --verbose    what each unsupported test asks for, too\n"
           "  --json       one JSON object\n"
           "  --seconds N  for each test; one that takes longer has failed (%d)\n"
           "  --threads N  that each test may use (1)\n"
           "  --help       this\n"
           "  --version    of the library\n\n"
           "exit codes: 0 none failed, 1 some failed, 2 usage\n", SECONDS_USUAL);
}

static int usage(const char *what, const char *word)
{
    fprintf(stderr, "plimsoll-conformance: %s%s\n  plimsoll-conformance --help says more\n", what, word);
    return EXIT_USAGE;
}

/* The value of an option, "--name N" or "--name=N", as a number from 1 to `most`. @return 0: it is another option; -1: not so, and that is said */
static int number(int argc, char **argv, int *i, const char *name, long most, long *out)
{
    const size_t n = strlen(name);
    const char *value = argv[*i] + n;
    char what[80], *end;
    if (strncmp(argv[*i], name, n) != 0 || (*value && *value != '=')) return 0;
    value = *value ? value + 1 : *i + 1 < argc ? argv[++*i] : "";
    *out = strtol(value, &end, 10);
    if (!*end && end != value && *out >= 1 && *out <= most) return 1;
    snprintf(what, sizeof what, "%s needs a number from 1 to %ld, not ", name, most);
    usage(what, *value ? value : "nothing");
    return -1;
}

/* @return -1: go on */
static int parse(int argc, char **argv, options *o)
{
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i];
        if (!strcmp(a, "--help") || !strcmp(a, "-h")) {
            print_help();
            return EXIT_PASSED;
        }
        if (!strcmp(a, "--version")) {
            printf("plimsoll-conformance %s\n", PLIM_VERSION);
            return EXIT_PASSED;
        }
        int taken = number(argc, argv, &i, "--seconds", 86400, &o->seconds);
        if (taken == 0) taken = number(argc, argv, &i, "--threads", 1024, &o->threads);
        if (taken < 0) return EXIT_USAGE;
        if (taken > 0) continue;
        if (!strcmp(a, "--json")) o->json = true;
        else if (!strcmp(a, "--verbose")) o->verbose = true;
        else if (a[0] == '-') return usage("unknown option ", a);
        else if (o->folder) return usage("one folder at a time, not also ", a);
        else o->folder = a;
    }
    return o->folder ? -1 : usage("which folder?", "");
}

int main(int argc, char **argv)
{
    options o = {.seconds = SECONDS_USUAL, .threads = 1}; /* the tests are small: threads would wait for each other */
    tests t = {0};
    const int leave = parse(argc, argv, &o);
    if (leave >= 0) return leave;
    if (!is_folder(o.folder)) return usage("no such folder: ", o.folder);
    char *folder = strdup(o.folder);
    if (!folder) no_memory();
    for (size_t n = strlen(folder); n > 1 && folder[n - 1] == '/';) folder[--n] = 0;
    find_tests(&t, folder, strlen(folder) + 1, 0);
    if (t.n == 0) return usage("no folder with a model.onnx below ", o.folder);
    for (uint32_t i = 0; i < t.n; i++) run_test(&t.test[i], &o);
    const uint64_t failed = report(&t, &o);
    for (uint32_t i = 0; i < t.n; i++) free(t.test[i].folder);
    free(t.test);
    if (fflush(stdout) || ferror(stdout)) {
        fprintf(stderr, "plimsoll-conformance: the output cannot be written: %s\n", strerror(errno));
        return EXIT_SOME_FAILED;
    }
    return failed ? EXIT_SOME_FAILED : EXIT_PASSED;
}
