"""The seven trainings at budgets that are multiples of their floor, for seconds.py and cliffs.py: how each is planned, and how it is run
inside a memory cgroup of its budget. The models, their data and their weights are those of train_cases.py."""
import json
import os
import subprocess

import train_cases as cases
from train_cases import MIB

NAMES = ["small", "slim", "deep", "wide256", "resnet50", "unet", "gpt"]
FACTORS = (1.25, 1.5, 2, 3, 4)  # of the floor
QUICK_FACTORS = (1.5, 4)
AMPLE = 1 << 50
ENOUGH = 60  # planned seconds of a run: it has no more steps than that, but two


def describe_machine(plimsoll, folder, given=None):
    """Measures the machine once, so that every plan is made for the same speeds. @return the file; `given`, where that is not None"""
    if given:
        return os.path.abspath(given)
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(os.path.abspath(folder), "machine.json")
    subprocess.run([plimsoll, "doctor", folder, "--machine", path, "--quiet", "--json"], check=True, stdout=subprocess.DEVNULL)
    return path


class Training:
    """One of NAMES.
    @param machine  a file from describe_machine; None: the description that the command itself finds
    @param groups   whether runs are inside memory cgroups"""

    def __init__(self, name, plimsoll, folder, machine=None, quick=False, groups=True, patience=None):
        self.case, self.plimsoll, self.folder, self.machine, self.quick = cases.CASES[name], plimsoll, folder, machine, quick
        self.groups, self.patience, self.files, self.known = groups, patience, None, {}
        self.model = cases.model_of(self.case, folder, quick)

    def plan(self, memory=None):
        """What `plan --json` says for a budget (None: what is free here), of the options that run() has; known plans are not made again."""
        if memory not in self.known:
            batch = self.case.quick_batch if self.quick else self.case.batch
            command = [self.plimsoll, "plan", self.model, "--train", "adam", "--loss", self.case.loss, "--batch", str(batch),
                       "--threads", str(cases.THREADS), "--spill", self.folder, "--json"]
            command += ["--machine", self.machine] if self.machine else []
            command += ["--memory", str(memory)] if memory else []
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode:
                raise RuntimeError(f"{self.case.name}: plan in {memory} bytes: {done.stderr.strip()}")
            self.known[memory] = json.loads(done.stdout)
        return self.known[memory]

    def floor(self):
        return self.plan(AMPLE)["floor_bytes"]

    def budget(self, factor):
        return int(self.floor() * factor)

    def steps(self, seconds):
        """Of a run whose steps take that long; the first warms up where there are two."""
        return 2 if self.quick else min(self.case.steps, max(2, int(ENOUGH / max(seconds, 1e-6))))

    def run(self, memory=None):
        """Trains inside a group of `memory` bytes, which is the budget; None: without a budget and a group. @return train_cases.Run"""
        self.files = self.files or cases.prepare(self.case, self.folder, self.quick)
        steps = self.steps(self.plan(memory)["estimated_seconds"])
        return cases.run_ours(self.plimsoll, self.case, self.files, self.folder, steps, memory, self.groups, self.patience, self.machine)


def mib(n):
    return "-" if n is None else f"{n / MIB:.1f}"


def seconds_text(s):
    return "-" if s is None else f"{s:.4g}"
