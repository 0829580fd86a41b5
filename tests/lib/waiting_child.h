/* A child that does something and then waits to be looked at, until it is ended. It dies with the test. */
#ifndef PLIM_TESTS_WAITING_CHILD_H
#define PLIM_TESTS_WAITING_CHILD_H

#include "unit.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/** Returns when `work` (may be NULL) is done. */
static inline int child_start(void (*work)(void))
{
    int ready[2];
    assert_int_equal(pipe(ready), 0);
    const int pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (work) work();
        (void)!write(ready[1], "x", 1);
        for (;;) pause();
    }
    char c;
    assert_int_equal(read(ready[0], &c, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static inline void child_end(int pid)
{
    kill(pid, SIGKILL);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

#endif
