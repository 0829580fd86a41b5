/* Asks for twice the budget of the test, in 200 MiB pieces that are touched: first through a library that must not be refused, then by itself.
 * Prints who got what; exit 0 when the library got all and the program itself did not. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void *library_ask(size_t bytes);

enum { PIECES = 2, PIECE = 200 << 20 };

int main(void)
{
    int library = 0, own = 0;
    for (int k = 0; k < PIECES; k++) {
        char *p = library_ask(PIECE);
        if (p) memset(p, 1, PIECE), library++;
    }
    for (int k = 0; k < PIECES; k++) {
        char *p = malloc(PIECE);
        if (p) memset(p, 1, PIECE), own++;
    }
    printf("library %d own %d\n", library, own);
    return library == PIECES && own == 0 ? 0 : 3;
}
