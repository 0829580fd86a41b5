/* Blocks of 1 MiB that nobody touches, each a mapping of its own, until vm.max_map_count stops it. Neighbours would be merged into one mapping, so
 * every second one is marked MADV_DONTDUMP, as guard pages and thread stacks part mappings elsewhere. Prints how many there were. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

int main(void)
{
    const size_t size = (size_t)1 << 20, page = 4096;
    for (long k = 0; k < 1000000; k++) {
        char *block = malloc(size);
        if (!block) {
            printf("blocks %ld\n", k);
            return 3;
        }
        char *start = (char *)((uintptr_t)block & ~(page - 1));
        if (k % 2 && madvise(start, size + page, MADV_DONTDUMP)) return 4;
    }
    return 0;
}
