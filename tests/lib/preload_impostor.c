/* A program that looks like CPython 3.16 from outside and is not: what the library asks for is there, and the description of its structures holds
 * together, but behind it lies rubbish, another in each of the children. They ask for memory, which makes the library look. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CHILDREN = 60, WORDS = 4096 };

const unsigned long Py_Version = 0x031000f0;
uint64_t PyCode_Type[64], PyUnicode_Type[64], PyDict_Type[64], PyList_Type[64], PyTuple_Type[64];
static uint64_t rubbish[WORDS];

/* In the order of 3.15: the structures' sizes, and offsets as they are there. */
uint64_t _PyRuntime[4096] = {
    [0] = UINT64_C(0x7970677562656478), [1] = 0x031000f0, /* "xdebugpy" */
    [22] = 1000, [26] = 72, /* PyThreadState */
    [38] = 88, [39] = 8, [40] = 0, [41] = 56, [42] = 80, [43] = 74, /* frame */
    [46] = 216, [47] = 112, [48] = 120, [49] = 128, [51] = 68, [53] = 96, [55] = 208, /* code */
    [58] = 8,
    [84] = 64, [85] = 32, [86] = 16, [87] = 40, /* str */
};

void *PyGILState_GetThisThreadState(void) { return rubbish; }
void *_PyThreadState_UncheckedGet(void) { return rubbish; }
int PyCode_Addr2Line(void *code, int at) { return code && at ? -12345 : 0; } /* no first line is that */

static uint64_t random_word(void)
{
    static uint64_t x = 88172645463325252u;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x;
}

static uint64_t somewhere(void) { return (uint64_t)(uintptr_t)&rubbish[random_word() % (WORDS - 64)]; }

/* Words that might be followed: to other rubbish (tagged or not), to types, out of all memory, to nothing. Every child has them in other shares. */
static void fill(unsigned child)
{
    for (int i = 0; i < WORDS; i++) {
        const uint64_t pick = random_word() % 16;
        if (pick < 4 + child % 8)
            rubbish[i] = somewhere() | (random_word() % 8 == 0);
        else if (pick < 12)
            rubbish[i] = (uint64_t)(uintptr_t)(random_word() % 2 ? PyCode_Type : PyUnicode_Type);
        else
            rubbish[i] = pick == 15 ? 0 : random_word();
    }
    rubbish[9] = child == 0 ? 0xdead00 : child == 1 ? UINT64_MAX - 7 : somewhere();
    if (child % 3 == 0) /* frames that are a ring, and of no code */
        for (int i = 0; i < WORDS; i++) rubbish[i] = i % 8 == 1 || i == 9 ? (uint64_t)(uintptr_t)&rubbish[8] : 0x0707070707070707;
}

int main(void)
{
    int bad = 0;
    for (unsigned i = 0; i < CHILDREN; i++) {
        const pid_t child = fork();
        if (!child) {
            fill(i);
            for (int k = 0; k < 3; k++) memset(malloc((size_t)1 << 20), 1, 64);
            _exit(0);
        }
        int status = -1;
        bad += child < 0 || waitpid(child, &status, 0) != child || status;
        for (int k = 0; k < 7; k++) random_word(); /* the next child's rubbish is another */
    }
    return bad ? 1 : 0;
}
