/* Fragmentation of glibc's heap: 150 buffers of 5.3 MiB are filled, the next one while this one is still there; then this one is cut to the 0.27
 * MiB that are kept, and what that leaves is too small for any other. Live memory never exceeds 51 MiB, yet the heap grows to 800 MiB. For that the
 * buffers have to lie in the heap: freeing one larger block raises the size from which on glibc gives blocks mappings of their own, as it happens in
 * any real program.
 *
 *     fragment [MIB]    then asks for MIB more (default 400)
 *
 * Prints what is resident and what the allocator keeps at that point, and whether the request was granted (exit 0) or not (3). */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BUFFERS = 150 };
static const size_t full = 5427 << 10, part = 276 << 10;
static char *kept[BUFFERS];

static size_t resident(void)
{
    unsigned long size = 0, pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    if (!f || fscanf(f, "%lu %lu", &size, &pages) != 2) exit(4);
    fclose(f);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static char *read_next(size_t k)
{
    char *buffer = malloc(full);
    if (!buffer) exit(5);
    memset(buffer, (int)k, full);
    return buffer;
}

int main(int argc, char **argv)
{
    const size_t more = (size_t)(argc > 1 ? atol(argv[1]) : 400) << 20;
    char *larger = malloc((size_t)16 << 20);
    if (!larger) return 5;
    *(volatile char *)larger = 1; /* or the compiler leaves the pair out */
    free(larger);
    char *next = read_next(0);
    for (size_t k = 0; k < BUFFERS; k++) {
        char *buffer = next;
        next = read_next(k + 1);
        kept[k] = realloc(buffer, part);
    }
    const struct mallinfo2 heap = mallinfo2();
    printf("resident %zu\nkept %zu\n", resident(), heap.fordblks);
    fflush(stdout);
    char *last = malloc(more);
    printf("%s\n", last ? "granted" : "refused");
    free(last);
    free(next);
    for (size_t k = 0; k < BUFFERS; k++) free(kept[k]);
    return last ? 0 : 3;
}
