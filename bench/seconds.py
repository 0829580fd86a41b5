"""Planned against measured seconds: trainings, inferences and array programs, each inside a memory cgroup of exactly its budget, without swap.

    train NAME    the seven trainings at 1.25, 1.5, 2, 3 and 4 times the floor that `plan --json` gives: seconds of the best step but the first
    infer NAME    the six models of infer.py at 1.5 times their floor and in what the plan without a limit takes: the best run but the first
    eval NAME     the array cases of tests/soak.sh at 64 MiB and 1 GiB, cold cache; where a budget is refused, at the floor

`plimsoll doctor` runs first, once, and every plan is made for the machine that it described. The ratio is measured / planned.
Called by bench/seconds.sh."""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import arrays
import infer
import limited
import trainings
from train_cases import MIB, plan_fault

HERE = os.path.dirname(os.path.abspath(__file__))
BUDGET_LIB = os.path.join(HERE, "..", "tests", "lib", "budget.sh")
EVAL_BUDGETS = (64 * MIB, 1024 * MIB)
INFER_FACTOR = 1.5
NEAR = (0.5, 2.0)  # a ratio inside is as planned


class Row:
    """One case at one budget. problem: why there is no ratio; skipped: it was not run on purpose."""

    def __init__(self, case, budget, planned=None, measured=None, peak_planned=None, peak=None, problem=None, skipped=False):
        self.case, self.budget, self.planned, self.measured = case, budget, planned, measured
        self.peak_planned, self.peak, self.problem, self.skipped = peak_planned, peak, problem, skipped
        self.planned_peak_wrong = None
        if problem is None:
            self.planned_peak_wrong = plan_fault(self.as_run())

    def as_run(self):
        return argparse.Namespace(planned=self.peak_planned, peak=self.peak)

    def ratio(self):
        return self.measured / self.planned if self.problem is None and self.planned else None

    def facts(self):
        return {"case": self.case, "budget_bytes": self.budget, "planned_seconds": self.planned, "measured_seconds": self.measured,
                "ratio": self.ratio(), "planned_peak_bytes": self.peak_planned, "peak_rss_bytes": self.peak, "problem": self.problem,
                "skipped": self.skipped, "peak_note": self.planned_peak_wrong}

    def text(self):
        r = self.ratio()
        notes = [n for n in (self.problem, self.planned_peak_wrong) if n]
        if r is not None and not NEAR[0] <= r <= NEAR[1]:
            notes.append("outlier")
        return (f"{self.case:<20} {trainings.mib(self.budget):>9} {trainings.seconds_text(self.planned):>10} "
                f"{trainings.seconds_text(self.measured):>10} {'-' if r is None else f'{r:.2f}':>6} "
                f"{trainings.mib(self.peak_planned):>9} {trainings.mib(self.peak):>9}  {'; '.join(notes)}".rstrip())


HEAD = f"{'case':<20} {'budget':>9} {'planned':>10} {'measured':>10} {'ratio':>6} {'planned':>9} {'VmHWM':>9}\n" \
       f"{'':<20} {'MiB':>9} {'s':>10} {'s':>10} {'':>6} {'peak MiB':>9} {'MiB':>9}"


def too_long(args, case, budget, planned):
    """A row that says that it is not run, or None."""
    if args.longest and planned > args.longest:
        return Row(case, budget, planned, problem=f"SKIPPED: planned to take longer than {args.longest:g} s", skipped=True)
    return None


# ------------------------------------------------------------------------------------------------------------- training

def training_rows(args, name):
    label = "train " + name
    t = trainings.Training(name, args.plimsoll, args.folder, args.machine, args.quick, args.groups, args.patience)
    for factor in trainings.QUICK_FACTORS if args.quick else trainings.FACTORS:
        budget = t.budget(factor)
        planned = t.plan(budget)["estimated_seconds"]
        row = too_long(args, label, budget, planned)
        if row is None:
            run = t.run(budget)
            row = Row(label, budget, run.expected or planned, run.best(), run.planned, run.peak, run.problem)
        yield row


# ------------------------------------------------------------------------------------------------------------ inference

def planned_facts(command, where):
    """What a command would do: its report without a run; of a refusal, too."""
    done = subprocess.run(command + ["--plan-only"], capture_output=True, text=True)
    if done.returncode not in (0, 3):
        raise RuntimeError(f"{where}: {done.stderr.strip()}")
    return json.loads(done.stdout)


def inference_rows(args, name):
    case, label = infer.CASES[name], "infer " + name
    model, x = infer.prepare(case, args.folder, args.quick)
    runs = 3 if args.quick else case.runs
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="run-") as tmp:
        def command(memory):
            return infer.ours_command(args.plimsoll, model, x, os.path.join(tmp, "out.npy"), runs, tmp, memory) + ["--machine", args.machine]
        free = planned_facts(command(trainings.AMPLE), label)
        tight = int(INFER_FACTOR * free["floor_bytes"])
        ample = max(free["floor_bytes"], free["planned_peak_bytes"] + free["reserve_bytes"])
        for budget in sorted({tight, ample}) if tight < ample else [ample]:
            plan = planned_facts(command(budget), label)
            yield too_long(args, label, budget, plan["planned_seconds"]) or one_run(args, label, budget, command(budget), "best_seconds")


def one_run(args, label, budget, command, key):
    """A row from a command's JSON, whose `key` is what was measured."""
    done = limited.run(command, budget if args.groups else None, args.patience)
    if done.problem():
        return Row(label, budget, problem=done.problem())
    facts = json.loads(done.out)
    return Row(label, budget, facts["planned_seconds"], facts[key], facts["planned_peak_bytes"], facts["peak_rss_bytes"])


# --------------------------------------------------------------------------------------------------------------- arrays

def array_cases():
    """{name: (inputs, expression, outputs)} as tests/lib/budget.sh has them, where F stands for the folder."""
    text = subprocess.run(["sh", "-c", 'budget_lib=. && . "$0" && budget_table', BUDGET_LIB], check=True, capture_output=True, text=True).stdout
    rows = [[cell.strip() for cell in line.split("|")] for line in text.splitlines()]
    return {name: (inputs.split(), expression, outputs.split()) for name, inputs, expression, outputs in rows}


def array_rows(args, name):
    label, (inputs, expression, outputs) = "eval " + name, array_cases()[name]
    files = argparse.Namespace(folder=args.folder, memory=0, patience=args.patience, plimsoll=args.plimsoll, floor=None, make_array=args.make_array)
    machine = arrays.Machine(files)
    paths = arrays.inputs_of(machine, args.scale)
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="run-") as tmp:
        def command(memory):
            words = [args.plimsoll, "eval", expression, *(f"{i}={paths[i]}" for i in inputs)]
            for out in outputs:
                words += ["-o", out.replace("F/", tmp + "/")]
            return words + ["--spill", tmp, "--machine", args.machine, "--memory", str(memory), "--json", "--quiet"]
        done = set()
        for budget in EVAL_BUDGETS:
            plan = planned_facts(command(budget), label)
            if not plan["fits"]:
                budget = plan["floor_bytes"]
                plan = planned_facts(command(budget), label)
            if budget in done:
                continue
            done.add(budget)
            row = too_long(args, label, budget, plan["planned_seconds"])
            if row is None:
                machine.cool(paths.values())
                row = one_run(args, label, budget, command(budget), "seconds")
                arrays.remove(os.path.join(tmp, f) for f in os.listdir(tmp))
            yield row


# ----------------------------------------------------------------------------------------------------------------- main

def all_cases():
    """(kind, name, what makes its rows)"""
    return ([("train", name, training_rows) for name in trainings.NAMES] + [("infer", name, inference_rows) for name in infer.CASES]
            + [("eval", name, array_rows) for name in array_cases()])


def chosen(only):
    """The cases that --only names: a kind, a name, or both with a hyphen between; commas separate several."""
    every = all_cases()
    if not only:
        return every
    words = only.split(",")
    for word in words:
        if not any(word in (kind, name, f"{kind}-{name}") for kind, name, _ in every):
            sys.exit(f"seconds.py: --only: unknown case '{word}'; known: train, infer, eval, "
                     + ", ".join(f"{kind}-{name}" for kind, name, _ in every))
    return [c for c in every if any(word in (c[0], c[1], f"{c[0]}-{c[1]}") for word in words)]


def summary(rows):
    """The last lines, and what --out gets."""
    known = [r for r in rows if r.ratio() is not None]
    near = [r for r in known if NEAR[0] <= r.ratio() <= NEAR[1]]
    facts = {"cases": len(rows), "measured": len(known), "skipped": sum(r.skipped for r in rows),
             "failed": sum(r.problem is not None and not r.skipped for r in rows),
             "median_ratio": statistics.median(r.ratio() for r in known) if known else None,
             "share_near": len(near) / len(known) if known else None}
    print(f"{facts['measured']} measured, {facts['skipped']} skipped, {facts['failed']} failed")
    if known:
        print(f"median ratio {facts['median_ratio']:.2f}; {len(near)} of {len(known)} ({100 * facts['share_near']:.0f} %) within "
              f"{NEAR[0]:g} to {NEAR[1]:g} times the planned seconds")
    for r in sorted((r for r in known if r not in near), key=lambda r: r.ratio()):
        print(f"outlier: {r.case} in {trainings.mib(r.budget)} MiB: planned {trainings.seconds_text(r.planned)} s, "
              f"measured {trainings.seconds_text(r.measured)} s, ratio {r.ratio():.2f}")
    for r in rows:
        if r.problem is not None and not r.skipped:
            print(f"FAILED: {r.case} in {trainings.mib(r.budget)} MiB: {r.problem}")
    return facts


def options():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0], epilog="A case is named train-small, infer-gpt, eval-f16, or by one half of that.")
    p.add_argument("--only", metavar="NAME", help="these cases alone: a kind (train, infer, eval), a name, or both (train-gpt); commas between several")
    p.add_argument("--quick", action="store_true", help="small batches, images and arrays, fewer budgets: whether it works, not how fast it is")
    p.add_argument("--longest", type=float, default=120, metavar="S",
                   help="skip a case whose step or run is planned to take longer than S seconds (default %(default)s; 0: none)")
    p.add_argument("--out", metavar="FILE.json", help="write every row and the summary there")
    p.add_argument("--scale", type=float, help="of the arrays (1: x 6.3 GB, t 1.07 GB); 1 unless --quick")
    p.add_argument("--machine", metavar="FILE", help="a description of the machine; without it plimsoll doctor measures one")
    p.add_argument("--patience", type=int, default=1800, help="seconds after which a run is stopped (default %(default)s)")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"), help="data and spilled values (default %(default)s)")
    for name in ("plimsoll", "make-array"):
        p.add_argument("--" + name, required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    args.scale = args.scale or (0.01 if args.quick else 1.0)
    args.folder = os.path.abspath(args.folder)
    return args


def main():
    args = options()
    cases = chosen(args.only)
    os.makedirs(args.folder, exist_ok=True)
    args.groups = limited.usable()
    args.machine = trainings.describe_machine(args.plimsoll, args.folder, args.machine)
    print(f"{os.cpu_count()} CPUs; " + ("each run in a memory cgroup of its budget, no swap" if args.groups else "NOT LIMITED")
          + ("; QUICK SIZES: times mean nothing" if args.quick else ""))
    print(HEAD, flush=True)
    rows = []
    for kind, name, make in cases:
        try:
            for row in make(args, name):
                rows.append(row)
                print(row.text(), flush=True)
        except (RuntimeError, subprocess.CalledProcessError) as e:
            rows.append(Row(f"{kind} {name}", None, problem=str(e)))
            print(rows[-1].text(), flush=True)
    facts = summary(rows)
    if args.out:
        with open(args.out, "w") as f:
            json.dump({"summary": facts, "rows": [r.facts() for r in rows]}, f, indent=1)
            f.write("\n")
    return 1 if facts["failed"] else 0


if __name__ == "__main__":
    sys.exit(main())
