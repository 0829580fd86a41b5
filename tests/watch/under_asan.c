/* Built with AddressSanitizer: large blocks come and go, and with the word `wrong` one of them is read after it was freed, which ASan has to find
 * as ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const size_t size = (size_t)4 << 20;
    unsigned long sum = 0;
    for (int k = 0; k < 20; k++) {
        unsigned char *block = malloc(size);
        if (!block) return 4;
        memset(block, k, size);
        sum += block[size / 2];
        free(block);
        if (argc > 1 && strcmp(argv[1], "wrong") == 0) sum += *(volatile unsigned char *)(block + 7);
    }
    printf("sum %lu\n", sum);
    return 0;
}
