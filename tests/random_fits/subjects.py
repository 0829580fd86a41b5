"""What is run: number k of a seed is a random program of the array language or a random net (to be trained, or to infer), a number of threads and a
budget from the floor up. Every subject has

    floor()            the smallest budget that works, as a refusal tells it
    plan(budget)       what it would do there
    run(budget)        runs it inside a memory cgroup of the budget
    compare(outcome)   what is wrong with the numbers, where an oracle knows them
    lines(budget)      shell commands that do the same

All with --no-machine: plans do not depend on what doctor has measured on this machine.
"""
import dataclasses
import json
import os
import random
import shutil
import tempfile

from generators import nets, programs

MOST_THREADS = 16
PROGRAMS = 0.6  # of all subjects; the others are nets
INFER = 0.3  # of the nets that can be trained


@dataclasses.dataclass
class Outcome:
    """One process: exit code, its JSON ({} where there is none), stderr, whether the kernel killed it, whether it took too long."""
    code: int
    json: dict
    err: str
    killed: bool
    slow: bool = False


def budget_of(r, floor):
    """The floor itself, little more, or up to six times as much."""
    kind = r.random()
    if kind < 0.25:
        return floor
    if kind < 0.4:
        return floor + r.randrange(1, 64) * 4096
    return int(floor * 6 ** r.random())


class ProgramSubject:
    def __init__(self, seed, number, r, plimsoll, timeout):
        made = programs.generate.random_program(seed, number)
        self.kind, self.threads = "eval", r.randint(1, MOST_THREADS)
        programs.run.TIMEOUT = timeout
        self.runner = programs.run.Runner(plimsoll)
        self.program, self.expected = dataclasses.replace(made[0], threads=self.threads), made[1]
        self.out = tempfile.mkdtemp(dir=self.runner.folder)
        self.words = self.runner.arguments(self.program, self.expected, self.runner.path_of, self.out)
        self.text = self.program.text()

    def start(self, words, limit=None):
        try:
            code, out, err, killed = self.runner.start(self.words + ["--no-machine"] + words, limit)
        except programs.run.Failure:
            return Outcome(0, {}, "", False, True)
        return Outcome(code, loaded(out), err, killed)

    def floor(self):
        return self.start(["--memory", "1", "--plan-only", "--json"])

    def plan(self, budget):
        return self.start(["--memory", str(budget), "--plan-only", "--json"])

    def run(self, budget):
        return self.start(["--memory", str(budget), "--json"], budget)

    def steps(self):
        return 1

    def compare(self, outcome):
        try:
            self.runner.judge(self.program, self.expected, self.out, outcome.json)
        except programs.run.Failure as f:
            return None if f.kind == "above plan" else str(f)  # that is judged here
        return None

    def lines(self, budget):
        return programs.run.command(self.program, self.runner, self.expected, budget)

    def keep(self, folder):
        shutil.copytree(self.runner.folder, folder, dirs_exist_ok=True)

    def close(self):
        self.runner.close()


class NetSubject:
    def __init__(self, seed, number, r, plimsoll, timeout, groups):
        net = nets.generate.make(seed, number)
        self.threads = r.randint(1, MOST_THREADS)
        net[("train" if net["train"] else "infer")]["threads"] = self.threads
        self.kind = "train" if net["train"] and r.random() >= INFER else "infer"
        self.folder = tempfile.mkdtemp(prefix="random-fits-", dir=programs.run.on_disk())
        os.makedirs(os.path.join(self.folder, "spill"))
        nets.files.write(net, self.folder)
        self.judge = nets.run.Judge(net, nets.run.Settings(os.path.abspath(plimsoll), groups, timeout=timeout), self.folder)
        self.net, self.text = net, f"net {number} of seed {seed} of tests/random_nets, {net['dialect']}, {len(net['nodes'])} nodes"
        if self.kind == "train":
            self.words = self.judge.train_argv() + ["-o", "trained.safetensors"]
        else:
            outs = [w for k, n in enumerate(self.judge.out_names()) for w in ("-o", f"{n}=out{k}.npy")]
            self.words = self.judge.infer_argv("w.safetensors" if self.judge.apart else None) + outs

    def start(self, words, limit=None):
        r = self.judge.run(self.words + ["--no-machine"] + words, limit)
        return Outcome(r.code, r.json, r.err, r.killed, r.slow)

    def floor(self):
        return self.start(["--memory", "1", "--plan-only", "--json"])

    def plan(self, budget):
        return self.start(["--memory", str(budget), "--plan-only", "--json"])

    def run(self, budget):
        return self.start(["--memory", str(budget), "--json"], budget)

    def steps(self):
        return self.judge.total_steps() if self.kind == "train" else 1

    def compare(self, outcome):
        return None  # tests/random_nets does

    def lines(self, budget):
        return nets.generate.describe(self.net).splitlines() + [nets.run.shell([self.judge.set.plimsoll] + self.words + ["--no-machine", "--memory", str(budget)], budget)]

    def keep(self, folder):
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)


def loaded(text):
    try:
        return json.loads(text)
    except ValueError:
        return {}


def make(seed, number, plimsoll, timeout, groups, kinds=("program", "net")):
    """@return the subject and its random numbers, from which the budget is drawn"""
    r = random.Random(f"{seed} {number}")
    is_program = r.random() < PROGRAMS
    if len(kinds) == 1:
        is_program = kinds[0] == "program"
    if is_program:
        return ProgramSubject(seed, number, r, plimsoll, timeout), r
    return NetSubject(seed, number, r, plimsoll, timeout, groups), r
