/* Feeds every file of a fuzz target's corpus to it, in an ordinary build: what a fuzzer once found stays fixed.
 *   fuzz-<name>-replay FILE-OR-FOLDER...
 * One TAP line per input. A crash is the failure; the target's return value says nothing. */
#include <dirent.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int replay_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    if (!f) return -1;
    uint8_t *data = NULL;
    size_t size = 0, cap = 0;
    for (;;) {
        if (size == cap) {
            cap = cap ? cap * 2 : 4096;
            uint8_t *more = realloc(data, cap);
            if (!more) break;
            data = more;
        }
        const size_t n = fread(data + size, 1, cap - size, f);
        if (n == 0) break;
        size += n;
    }
    fclose(f);
    /* An exact copy: a read past the end is then a read past a heap block, which the sanitizers see. */
    uint8_t *exact = malloc(size ? size : 1);
    if (exact && size) memcpy(exact, data, size);
    free(data);
    if (!exact) return -1;
    LLVMFuzzerTestOneInput(exact, size);
    free(exact);
    return 0;
}

static int report(const char *path)
{
    const int bad = replay_file(path);
    const char *base = strrchr(path, '/');
    printf("%s - %s\n", bad ? "not ok" : "ok", base ? base + 1 : path);
    fflush(stdout);
    return bad != 0;
}

static int replay_folder(const char *path)
{
    struct dirent **list;
    const int n = scandir(path, &list, NULL, alphasort);
    int failed = n < 0;
    for (int i = 0; i < n; i++) {
        char full[4096];
        if (list[i]->d_name[0] != '.') {
            snprintf(full, sizeof full, "%s/%s", path, list[i]->d_name);
            failed += report(full);
        }
        free(list[i]);
    }
    if (n >= 0) free(list);
    return failed;
}

int main(int argc, char **argv)
{
    int failed = 0;
    for (int i = 1; i < argc; i++) {
        struct stat st;
        const bool folder = stat(argv[i], &st) == 0 && S_ISDIR(st.st_mode);
        failed += folder ? replay_folder(argv[i]) : report(argv[i]);
    }
    return failed != 0;
}
