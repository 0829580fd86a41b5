"""Whether training keeps its promises at every budget: plimsoll train inside memory cgroups of exactly its budget, from the smallest up.

At each budget: it is not killed; the planned peak is at least what the kernel saw, and close to it; the first losses are those of PyTorch, and,
closer, those of the other budgets. What differs most is shown.

Called by bench/exact.sh. The last line is "N passed, N failed"."""
import argparse
import os
import sys

import limited
import train_cases as cases
from train_cases import MIB

TOLERANCE, BETWEEN = 1e-4, 1e-5
FEW = {"deep", "wide", "resnet50", "unet"}  # large: two budgets


def faults(run, from_peer, from_first):
    """What is wrong with a run, as text; nothing: it is as promised."""
    if run.problem:
        return run.problem
    found = [cases.plan_fault(run)]
    for what, d, most in (("PyTorch", from_peer, TOLERANCE), ("another budget", from_first, BETWEEN)):
        if d is not None and not d <= most:
            found.append(f"a loss differs by {d:.1e} from that of {what} (at most {most:.0e})")
    return "; ".join(f for f in found if f)


def check(args, case):
    """@return passed, failed"""
    files = cases.prepare(case, args.folder, args.quick)
    steps = args.steps or (2 if case.name == "deep" else cases.LOSSES)
    peer = cases.run_torch(case, files, steps, case.settings[0], args.patience) if args.torch else None
    if peer and peer.problem:
        print(f"{case.name}: PyTorch: {peer.problem}")
        return 0, 1
    first, good, bad = [], 0, 0
    for memory in cases.budgets(args.plimsoll, case, files, args.folder, args.budgets or (2 if case.name in FEW else 10), args.longest):
        run = cases.run_ours(args.plimsoll, case, files, args.folder, steps, memory, args.groups, args.patience)
        from_peer, from_first = (cases.loss_difference(run.losses, other) for other in (peer.losses if peer else [], first))
        why = faults(run, from_peer, from_first)
        first = first or list(run.losses)
        good, bad = good + (not why), bad + bool(why)
        row = "" if run.problem else f"{run.best():9.4g} s  planned {run.planned / MIB:9.2f}  peak {run.peak / MIB:9.2f}  losses "
        row += "" if run.problem else " ".join("      -" if d is None else f"{d:.1e}" for d in (from_peer, from_first))
        print(f"{case.name:<9} {memory / MIB:>9.2f} MiB  {row}  {'FAILED: ' + why if why else 'ok'}", flush=True)
    return good, bad


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = [name for name, case in cases.CASES.items() if not case.of]
    p.add_argument("--models", default=",".join(names), help="a comma-separated part of: " + ", ".join(cases.CASES))
    p.add_argument("--budgets", type=int, help="how many, instead of as many as suit the model")
    p.add_argument("--steps", type=int)
    p.add_argument("--quick", action="store_true", help="small batches and images")
    p.add_argument("--longest", type=float, default=30, help="seconds of a planned step; budgets below those that take no longer are left out")
    p.add_argument("--patience", type=int, default=1800, help="seconds after which a run is stopped")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"))
    p.add_argument("--plimsoll", required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    args.torch, args.groups = cases.torch_usable(), limited.usable()
    done = [check(args, cases.CASES[name]) for name in args.models.split(",")]
    passed, failed = sum(d[0] for d in done), sum(d[1] for d in done)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
