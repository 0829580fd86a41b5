/* Asks for 300 MiB and does not look at what it gets; with a word, it ends itself as a C++ program does whose exception nobody catches. */
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv)
{
    const size_t n = (size_t)300 << 20;
    (void)argv;
    char *p = malloc(n);
    if (!p && argc > 1) abort();
    memset(p, 1, n);
    return p[n / 2] - 1;
}
