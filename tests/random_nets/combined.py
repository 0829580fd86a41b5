"""Nets whose plan cuts, recomputes and spills at once: a training has a loop, values that are made again and values that go through a file, and its
numbers are those of the run in 2 GiB.

For every net, budgets from the floor up are planned (`train --plan-only --json`) until one has moves of all three kinds; that one runs inside a memory
cgroup of the budget. A plan that itself says that it takes long is passed over."""
import os
import shutil

import numpy as np

import files
import generate
import run

KINDS = {"split", "recompute", "spill"}
RELATIVE = 1e-6  # to the largest number of a tensor, and of losses
STEPS = 2
BUDGETS = 10  # that are planned: the floor, and in growing steps above it, to half of the way to where everything fits
BETWEEN = 3  # that are planned between two of these, where one recomputes, one spills and one cuts
# What looks at the whole batch is in the way of cutting, so that recomputing and spilling come in; what has many products makes recomputing dear.
FAVOURED = {"BatchNormalization": 6, "Conv": 4, "Conv2D": 4, "Conv1D": 4, "Conv3D": 4, "Dense": 2, "MatMul": 2}
PROFILE = generate.Profile(elements=(1_000_000, 8_000_000), nodes=(5, 14), infer=0, favoured=FAVOURED)
PATIENCE = 20.0  # planned seconds of the training


def make(seed, k):
    """Net k of a seed, as it is trained here: it may spill, and it has few steps, for what is compared is a plan."""
    net = generate.make(seed, k, PROFILE)
    t = dict(net["train"], spill="folder", checkpoint=False, steps=STEPS, weights_to=".safetensors")
    t.pop("epochs", None)
    return dict(net, train=t)


class Judge(run.Judge):
    """judge.found: the budget of the plan that has all kinds; None: there is none. judge.cut: the plan in 2 GiB has a loop of its own."""

    relative, absolute = RELATIVE, 1e-8

    def __init__(self, net, settings, folder):
        super().__init__(net, settings, folder)
        self.found, self.cut, self.seen = None, False, set()

    def planned(self, budget):
        """The plan in a budget; None: it is wrong."""
        r = self.run(self.train_argv() + ["--plan-only", "--json", "--memory", str(budget)])
        what = "train --plan-only in %d" % budget
        if not self.sound(r, what, budget, "refused"):
            return None
        if r.json["planned_peak_bytes"] > budget:
            self.fail("planned", "%s: the planned peak is %d" % (what, r.json["planned_peak_bytes"]), run.shell(r.argv))
        if r.json["rejected_plans"]:
            self.fail("verifier", "%s: %d plans were rejected" % (what, r.json["rejected_plans"]), run.shell(r.argv))
        return r.json

    @staticmethod
    def kinds(plan):
        return {m["kind"] for m in plan["moves"]}

    def tried(self, budget):
        """The kinds of moves in a budget's plan, all of them only where it is to be run; None: the plan is wrong."""
        plan = self.planned(budget)
        if plan is None:
            return None
        kinds = self.kinds(plan)
        self.seen |= kinds
        return kinds if plan["planned_seconds"] * self.total_steps() <= PATIENCE else kinds - {"split"}

    def search(self, floor, most):
        """The first budget whose plan has all kinds, from the floor up, and then between two budgets whose plans have them together."""
        reach = max((most - floor) / 2, 1 << 20)
        coarse = [floor + int(above) for above in (0, *np.geomspace(1 << 15, reach, BUDGETS - 1))]
        known = {}
        for budget in coarse:
            known[budget] = self.tried(budget)
            if known[budget] is None or KINDS <= known[budget]:
                return budget if known[budget] else None
        for low, high in zip(coarse, coarse[1:]):
            if not KINDS <= known[low] | known[high]:
                continue
            for budget in np.linspace(low, high, BETWEEN + 2)[1:-1]:
                kinds = self.tried(int(budget))
                if kinds is None or KINDS <= kinds:
                    return int(budget) if kinds else None
        return None

    def train_argv(self, *args, **options):
        return super().train_argv(*args, **options) + ["--no-machine"]

    def all(self):
        os.makedirs(os.path.join(self.folder, "spill"), exist_ok=True)
        files.write(self.net, self.folder)
        floor = self.floor_of(self.train_argv(), "train at 1 MiB")
        ample = self.planned(run.AMPLE) if floor else None
        if ample is None:
            return self.failures
        self.cut = "split" in self.kinds(ample)
        self.found = self.search(floor, ample["planned_peak_bytes"] + ample["reserve_bytes"])
        if self.found is None:
            return self.failures
        whole = self.trained(run.AMPLE, "2 GiB", "whole")
        part = self.trained(self.found, "%.2f x the floor" % (self.found / floor), "part")
        if whole is not None and part is not None:
            if not KINDS <= self.kinds(part.json):
                self.fail("error", "the plan of the run in %d has only %s" % (self.found, sorted(self.kinds(part.json))), run.shell(part.argv, self.found))
            self.compare_training(whole, part, part.name, self.found)
        return self.failures


def judge(net, settings, folder):
    """@return (failures, facts) as run.judge"""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    j = Judge(net, settings, folder)
    try:
        failures = j.all()
    except run.Stop:
        failures = j.failures
    facts = {"ill": j.ill, "runs": j.runs, "long": 0, "compared": False, "diverges": j.diverges, "found": j.found, "cut": j.cut, "seen": j.seen}
    return sorted(failures, key=lambda f: run.CLASSES.index(f["class"])), facts
