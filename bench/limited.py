"""A process of its own inside a memory cgroup (no swap), for every benchmark that is written in Python. tests/lib/cgroup.sh makes the groups."""
import os
import signal
import subprocess
import sys
import time

signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # as an exception, so that what was started is ended

CGROUP = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lib", "cgroup.sh")


class Result:
    """What a process left: out, err, code, seconds, peak (bytes that the kernel charged; None without a group), killed, late."""

    def __init__(self, **facts):
        self.__dict__.update(facts)

    def problem(self):
        """What went wrong, in few words, or None."""
        if self.late:
            return f"> {self.late:.0f} s"
        if self.killed or self.code == -9:
            return "killed"
        if self.code:
            last = self.err.strip().splitlines()[-1:] or [f"exit code {self.code}"]
            return "failed: " + last[0]
        return None


def cgroup(*words):
    done = subprocess.run(["sh", CGROUP, *words], capture_output=True, text=True)
    return None if done.returncode else done.stdout.strip()


def usable():
    """Whether groups can be made here; says so where not."""
    group = cgroup("make", str(1 << 30))
    if group and cgroup("remove", group) is not None:
        return True
    print("may not create a memory cgroup here: NOT LIMITED; peaks are of the resident set", file=sys.stderr)
    return False


def run(command, memory=None, patience=None, env=None):
    """Runs a command, inside a group of `memory` bytes where that is given, and waits for it; after `patience` seconds no longer.
    @param env  variables that are added to ours"""
    group = cgroup("make", str(memory)) if memory else None
    if memory and not group:
        raise OSError(f"cannot make a memory cgroup of {memory} bytes")

    def enter():
        if group:
            with open(group + "/cgroup.procs", "w") as f:
                f.write(str(os.getpid()))

    before = time.perf_counter()
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, preexec_fn=enter, env={**os.environ, **(env or {})})
    late = None
    try:
        out, err = child.communicate(timeout=patience)
    except subprocess.TimeoutExpired:
        late = patience
        child.kill()
        out, err = child.communicate()
    except BaseException:  # an interrupted benchmark leaves no process and no group behind
        child.kill()
        child.wait()
        if group:
            cgroup("remove", group)
        raise
    seconds, peak, killed = time.perf_counter() - before, None, False
    if group:
        peak, killed = int(cgroup("peak", group)), cgroup("killed", group) == "yes"
        cgroup("remove", group)
    return Result(out=out, err=err, code=child.returncode, seconds=seconds, peak=peak, killed=killed, late=late)
