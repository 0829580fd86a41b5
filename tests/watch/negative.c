/* A length that went below zero on its way to malloc. */
#include <stdio.h>
#include <stdlib.h>

__attribute__((noinline)) static void *buffer_for(long length) { return malloc((size_t)length); }

int main(int argc, char **argv)
{
    (void)argv;
    char *buffer = buffer_for(-99 - argc);
    printf("%s\n", buffer ? "granted" : "refused");
    free(buffer);
    return buffer ? 0 : 3;
}
