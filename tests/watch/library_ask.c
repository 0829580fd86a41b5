/* Asks in the name of a library that would end the program if it got no memory: it is built as libopenblas-watch.so. */
#include <stdlib.h>

void *library_ask(size_t bytes)
{
    return malloc(bytes);
}
