"""How steeply training slows down as memory shrinks: seconds per step at multiples of the floor and without a budget, and the bearable floor.

The bearable floor is the smallest budget in which a step takes at most twice as long as the fastest of the table. It is looked for by bisection
on planned seconds, and confirmed by a run; where that run is slower, by runs in more and more memory.
With --planned nothing is run: planned seconds alone. Called by bench/cliffs.sh."""
import argparse
import concurrent.futures
import json
import math
import os
import sys

import limited
import trainings
from train_cases import MIB

BEARABLE = 2.0  # times the fastest
CLOSE = 1.02  # the bisection ends when the ends are so close
STEP = 1.1  # from a budget that is not confirmed to the next


class Point:
    """A budget (None: without one), a label, the planned and the measured seconds of a step (None: not run) and why not."""

    def __init__(self, label, budget, planned, measured=None, problem=None, skipped=False):
        self.label, self.budget, self.planned, self.measured, self.problem, self.skipped = label, budget, planned, measured, problem, skipped

    def facts(self):
        return {"label": self.label, "budget_bytes": self.budget, "planned_seconds": self.planned, "measured_seconds": self.measured,
                "problem": self.problem}


class Cliff:
    """One training's table."""

    def __init__(self, args, name):
        self.args, self.name, self.points, self.lines = args, name, [], []
        self.t = trainings.Training(name, args.plimsoll, args.folder, args.machine, args.quick, args.groups, args.patience)

    def say(self, line):
        """At once, unless other trainings are planned at the same time: then when its turn has come."""
        if self.args.jobs == 1:
            print(line, flush=True)
        else:
            self.lines.append(line)

    def point(self, label, budget):
        """Plans, and runs unless --planned or too long."""
        planned = self.t.plan(budget or (trainings.AMPLE if self.args.planned else None))["estimated_seconds"]
        p = Point(label, budget, planned)
        if self.args.planned:
            return p
        if self.args.longest and planned > self.args.longest:
            p.problem, p.skipped = f"SKIPPED: a step is planned to take longer than {self.args.longest:g} s", True
            return p
        run = self.t.run(budget)
        p.measured, p.problem = run.best(), run.problem
        return p

    def seconds(self, p):
        return p.planned if self.args.planned else p.measured

    def fastest(self):
        return min((s for s in map(self.seconds, self.points) if s is not None), default=None)

    def table(self):
        for factor in trainings.FACTORS:
            self.points.append(self.point(f"{factor:g} x floor", self.t.budget(factor)))
        self.points.append(self.point("no budget", None))
        fastest = self.fastest()
        for p in self.points:
            self.show(p, fastest)

    def show(self, p, fastest):
        s = self.seconds(p)
        ratio = "-" if s is None else f"{s / fastest:.2f}"
        self.say(f"{self.name:<9} {p.label:<14} {trainings.mib(p.budget):>9} {trainings.seconds_text(p.planned):>10} "
                 f"{trainings.seconds_text(p.measured):>10} {ratio:>6}  {p.problem or ''}".rstrip())

    # --------------------------------------------------------------------------------------------- the bearable floor
    def bearable_planned(self):
        """The smallest budget whose planned step takes at most BEARABLE times the fastest planned one. Planned seconds never rise with the budget."""
        most = BEARABLE * min(p.planned for p in self.points)
        low, high = self.t.floor(), self.t.plan(trainings.AMPLE)
        high = max(low, high["planned_peak_bytes"] + high["reserve_bytes"])
        if self.t.plan(low)["estimated_seconds"] <= most:
            return low
        for p in self.points:  # known already: nearer ends
            if p.budget and p.planned > most:
                low = max(low, p.budget)
            elif p.budget:
                high = min(high, p.budget)
        while high > CLOSE * low:
            middle = int(math.sqrt(low * high))
            if self.t.plan(middle)["estimated_seconds"] <= most:
                high = middle
            else:
                low = middle
        return high

    def bearable(self):
        """@return a Point, or None where no run confirms one"""
        budget = self.bearable_planned()
        if self.args.planned:
            return Point("bearable floor", budget, self.t.plan(budget)["estimated_seconds"])
        fastest = self.fastest()
        if fastest is None:
            return None
        good = {p.budget: p for p in self.points if p.budget and p.measured and p.measured <= BEARABLE * fastest}
        most = 2 * self.t.plan(trainings.AMPLE)["planned_peak_bytes"]
        while budget <= most:
            p = good.get(budget) or self.point("bearable?", budget)
            if budget not in good:
                self.show(p, fastest)
            if p.measured and p.measured <= BEARABLE * fastest or p.problem and not p.skipped:
                return p
            budget = min([int(STEP * budget), *(b for b in good if b > budget)])
        return None


def report(cliff):
    cliff.table()
    p = cliff.bearable()
    if p is None or (p.problem and not p.skipped):
        cliff.say(f"{cliff.name:<9} bearable floor: none{': ' + p.problem if p else ''}")
        return p
    how = "planned" if cliff.args.planned else "confirmed by a run"
    cliff.say(f"{cliff.name:<9} bearable floor {p.budget / MIB:.1f} MiB, {p.budget / cliff.t.floor():.2f} x the floor of {cliff.t.floor() / MIB:.1f} MiB, {how}: "
              f"{trainings.seconds_text(cliff.seconds(p))} s, fastest {trainings.seconds_text(cliff.fastest())} s")
    return p


def one(args, name):
    """@return (what --out gets, whether something failed, lines that are still to be printed)"""
    cliff = Cliff(args, name)
    try:
        bearable = report(cliff)
    except RuntimeError as e:
        cliff.say(f"FAILED: {e}")
        return {"training": name, "problem": str(e)}, True, cliff.lines
    failed = any(p.problem and not p.skipped for p in cliff.points + ([bearable] if bearable else []))
    facts = {"training": name, "floor_bytes": cliff.t.floor(), "points": [p.facts() for p in cliff.points],
             "bearable": bearable.facts() if bearable else None}
    return facts, failed, cliff.lines


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--only", metavar="NAME", default=",".join(trainings.NAMES), help="a comma-separated part of: %(default)s")
    p.add_argument("--planned", action="store_true", help="run nothing: planned seconds only")
    p.add_argument("-j", "--jobs", type=int, help="with --planned: trainings that are planned at a time (default: the CPUs there are)")
    p.add_argument("--quick", action="store_true", help="small batches and images: whether it works, not how fast it is")
    p.add_argument("--longest", type=float, default=120, metavar="S",
                   help="do not run a budget in which a step is planned to take longer than S seconds (default %(default)s; 0: run all)")
    p.add_argument("--out", metavar="FILE.json", help="write every row there")
    p.add_argument("--machine", metavar="FILE", help="a description of the machine; without it plimsoll doctor measures one "
                                                     "(with --planned: the one that is kept here, or the defaults)")
    p.add_argument("--patience", type=int, default=1800, help="seconds after which a run is stopped (default %(default)s)")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"), help="data and spilled values (default %(default)s)")
    p.add_argument("--plimsoll", required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    for name in args.only.split(","):
        if name not in trainings.NAMES:
            p.error(f"--only: unknown training '{name}'; known: {', '.join(trainings.NAMES)}")
    args.jobs = (args.jobs or os.cpu_count()) if args.planned else 1
    args.folder = os.path.abspath(args.folder)
    return args


def main():
    args = options()
    os.makedirs(args.folder, exist_ok=True)
    args.groups = not args.planned and limited.usable()
    if not args.planned or args.machine:
        args.machine = trainings.describe_machine(args.plimsoll, args.folder, args.machine)
    print(f"{os.cpu_count()} CPUs; " + ("planned seconds only" if args.planned else "each run in a memory cgroup of its budget, no swap" if args.groups
                                        else "NOT LIMITED") + ("; QUICK SIZES: times mean nothing" if args.quick else ""))
    print(f"{'training':<9} {'':<14} {'MiB':>9} {'planned s':>10} {'measured s':>10} {'ratio':>6}   ratio: to the fastest {'planned' if args.planned else 'measured'}")
    failed, told = False, []
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for facts, bad, lines in pool.map(lambda name: one(args, name), args.only.split(",")):
            for line in lines:
                print(line, flush=True)
            failed |= bad
            told.append(facts)
    if args.out:
        with open(args.out, "w") as f:
            json.dump(told, f, indent=1)
            f.write("\n")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
