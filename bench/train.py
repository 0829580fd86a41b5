"""Training steps side by side: PyTorch in three settings, and plimsoll train without a budget, inside a quarter of PyTorch's peak, and inside budgets
that a case sets.

Every contestant is a process of its own with two threads; with a budget ours is inside a memory cgroup of that size, without swap. They take turns,
and the best step of all rounds counts, because machines are shared. All begin with the same weights and see the same batches, so that the losses
of the first steps can be compared: by how much ours differ from PyTorch's, and PyTorch's in one layout from those in another. The batch of wide256
is out of PyTorch's reach: it stands beside as many steps of wide as it takes.

Called by bench/train.sh."""
import argparse
import os
import sys

import limited
import train_cases as cases
from train_cases import MIB

TOLERANCE = 1e-4  # of losses, relative to PyTorch's
BUDGETS = ["no budget", "quarter"]  # those that have a column


def measure(args, case, files, groups):
    """@return {setting or budget: Run}; the quarter is one of the peak of PyTorch's default"""
    runs, quarter = {}, None
    steps = args.steps or (3 if args.quick else case.steps)
    for _ in range(1 if args.quick else case.rounds):
        for setting in [] if case.of or not args.torch else case.settings:
            runs[setting] = cases.run_torch(case, files, steps, setting, args.patience).join(runs.get(setting))
        if "default" in runs and not runs["default"].problem:
            quarter = quarter or runs["default"].peak // 4
        for budget in case.goal:
            memory = quarter if budget == "quarter" else case.fixed.get(budget)
            if (budget == "quarter" and not quarter) or (args.quick and budget in case.fixed):
                continue
            run = cases.run_ours(args.plimsoll, case, files, args.folder, steps, memory, groups, args.patience)
            runs[budget] = run.join(runs.get(budget))
    return runs


def best_peer(args, case, runs, files):
    """Seconds of PyTorch's best setting, or None. For a batch that it cannot do: of as many smaller ones as it takes."""
    if case.of:
        seconds, batch = args.peer.get(case.of, (None, 1))
        return seconds and seconds * files.batch / batch
    times = [run.best() for run in peers_of(runs)]
    args.peer[case.name] = (min(times) if times else None, files.batch)
    return min(times) if times else None


def peers_of(runs):
    """PyTorch's runs that went well, the default first."""
    return [runs[s] for s in cases.SETTINGS if s in runs and not runs[s].problem]


def judge(case, runs, peer, exact):
    """One line for each goal that is missed."""
    peers = peers_of(runs)
    for budget, goal in case.goal.items():
        run = runs.get(budget)
        if run is None:
            continue
        if run.problem:
            yield f"{case.name}, {budget}: {run.problem}"
            continue
        if cases.plan_fault(run):
            yield f"{case.name}, {budget}: {cases.plan_fault(run)}"
        difference = cases.loss_difference(run.losses, peers[0].losses) if peers else None
        if difference is not None and not difference <= TOLERANCE:
            yield f"{case.name}, {budget}: a loss differs by {difference:.1e} from PyTorch's (at most {TOLERANCE:.0e})"
        if goal and peer and exact and run.best() > goal * peer:
            yield f"{case.name}, {budget}: {run.best() / peer:.2f} x PyTorch's best time (at most {goal})"


def seconds_cell(run):
    return "-" if run is None else f"{run.best():.4g}" if not run.problem else run.problem.split(":")[0]


def mib(n):
    return f"{n / MIB:.0f}" if n else "-"


def report(case, files, runs, peer):
    torch = [seconds_cell(runs.get(s)) for s in cases.SETTINGS]
    peaks = "/".join(mib(runs[s].peak) for s in ("default", "keep") if s in runs)
    row = f"{case.name:<9} {files.batch:>5} " + " ".join(f"{t:>9}" for t in torch) + f"  {peaks or '-':>11} "
    for budget in BUDGETS:
        run = runs.get(budget)
        ratio = f"({run.best() / peer:.2f})" if run and peer and not run.problem else ""
        row += f" {seconds_cell(run):>9} {ratio:<7} {mib(run and run.planned):>6} {mib(run and run.peak):>6}  "
    peers = peers_of(runs)
    differences = [cases.loss_difference(runs[b].losses, peers[0].losses) for b in case.goal if b in runs and peers]
    differences = [d for d in differences if d is not None]
    itself = [cases.loss_difference(run.losses, peers[0].losses) for run in peers[1:]]
    print(row + (f"{max(differences):.1e} {max(itself, default=0):.1e}" if differences else "-"), flush=True)
    for budget in case.fixed:
        run = runs.get(budget)
        ratio = f"({run.best() / peer:.2f})" if run and peer and not run.problem else ""
        if run:
            print(f"{case.name:<9} {files.batch:>5}  in {budget}: {seconds_cell(run)} {ratio}, planned {mib(run.planned)}, peak {mib(run.peak)}", flush=True)


def heading(args, groups):
    print(f"seconds per step, {cases.THREADS} threads, of {os.cpu_count()} CPUs; peaks in MiB (VmHWM); ours in brackets: times PyTorch's best"
          + ("" if groups else "; NOT LIMITED") + ("; QUICK SIZES: times mean nothing" if args.quick else ""))
    print(f"{'':<9} {'':>5} {'PyTorch':>9} {'channels':>9} {'':>9}  {'peak':>11}  {'ours, no':>9} {'':<7} {'':>6} {'':>6}   {'ours, a':>9}")
    print(f"{'model':<9} {'batch':>5} {'default':>9} {'last':>9} {'keep':>9}  {'default/keep':>11} {'budget':>9} {'':<7} {'plan':>6} {'peak':>6}   "
          f"{'quarter':>9} {'':<7} {'plan':>6} {'peak':>6}  losses differ")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--models", default=",".join(cases.CASES), help="a comma-separated part of: " + ", ".join(cases.CASES))
    p.add_argument("--steps", type=int, help="of a run, instead of as many as suit the model")
    p.add_argument("--quick", action="store_true", help="small batches and images, one round: whether it works, not how fast it is")
    p.add_argument("--patience", type=int, default=1800, help="seconds after which a contestant is stopped")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"))
    p.add_argument("--plimsoll", required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    args.torch, args.peer = cases.torch_usable(), {}
    groups = limited.usable()
    heading(args, groups)
    missed = []
    for name in args.models.split(","):
        case = cases.CASES[name]
        files = cases.prepare(case, args.folder, args.quick)
        runs = measure(args, case, files, groups)
        peer = best_peer(args, case, runs, files)
        report(case, files, runs, peer)
        missed += judge(case, runs, peer, not args.quick)
    for line in missed:
        print("MISSED: " + line)
    print(f"{len(missed)} goals missed" if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
