"""Memory cgroups for Python: cgroup.sh finds where they can be made, and this makes one for each run."""
import itertools
import os
import subprocess
import time

LIB = os.path.join(os.path.dirname(os.path.abspath(__file__)), "cgroup.sh")
counter = itertools.count()


class Cgroups:
    def __init__(self):
        """@raise OSError: memory cgroups cannot be made here"""
        made = subprocess.run(["sh", LIB, "make", str(1 << 30)], capture_output=True, text=True)
        folder = made.stdout.strip()
        if made.returncode != 0 or not folder:
            raise OSError("no memory cgroup can be made here")
        self.base, self.old = os.path.dirname(folder), os.path.exists(os.path.join(folder, "memory.limit_in_bytes"))
        self.remove(folder)

    def make(self, limit):
        folder = os.path.join(self.base, "plimsoll-test-%d-%d" % (os.getpid(), next(counter)))
        os.mkdir(folder)
        for name in ["memory.limit_in_bytes", "memory.memsw.limit_in_bytes"] if self.old else ["memory.max"]:
            self.write(folder, name, str(limit), name != "memory.memsw.limit_in_bytes")
        self.write(folder, "memory.swappiness" if self.old else "memory.swap.max", "0", False)
        return folder

    @staticmethod
    def write(folder, name, text, must):
        try:
            with open(os.path.join(folder, name), "w") as f:
                f.write(text)
        except OSError:
            if must:
                raise

    @staticmethod
    def killed(folder):
        for name in ("memory.oom_control", "memory.events"):
            try:
                with open(os.path.join(folder, name)) as f:
                    for line in f:
                        if line.startswith("oom_kill ") and int(line.split()[1]) > 0:
                            return True
            except OSError:
                pass
        return False

    @staticmethod
    def remove(folder):
        for _ in range(50):
            try:
                os.rmdir(folder)
                return
            except OSError:
                time.sleep(0.02)
