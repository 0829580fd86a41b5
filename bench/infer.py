"""Inference side by side: ONNX Runtime, and plimsoll infer without a budget and inside half of the memory that ONNX Runtime takes.

One sample, two threads each. Both are processes of their own that run the model several times; the best but the first counts. Memory is what a
process takes above an idle one (node with ONNX Runtime loaded; plimsoll before it plans). Ours has a budget only where without one it takes more
than half of the peer's, and where a case sets it; then it is inside a memory cgroup of that size, without swap. Outputs are compared with the peer's.

Called by bench/infer.sh."""
import argparse
import json
import os
import shutil
import sys
import tempfile

import numpy as np

import limited
import onnx_nets
import train_cases
from train_cases import MIB, THREADS

HERE = os.path.dirname(os.path.abspath(__file__))
TOLERANCE = 1e-4  # of outputs, relative to the largest


class Case:
    """@param size    of the image; None: no image
    @param budgets  bytes and the ratio to the peer's time that is aimed at there (None: it has to run)"""

    def __init__(self, name, size, quick, runs, ratio=1.25, share=0.5, budgets=()):
        self.name, self.size, self.quick_size, self.runs, self.ratio, self.share, self.budgets = name, size, quick, runs, ratio, share, budgets


CASES = {f"{case.name}-{case.size}" if case.name == "unet" else case.name: case for case in [
    Case("mobilenet_v2", 224, 64, 40),
    Case("resnet50", 224, 64, 12),
    Case("vgg16", 224, 64, 8, budgets=[(200 * MIB, None)]),
    Case("unet", 512, 128, 8),
    Case("unet", 2048, 256, 4, budgets=[(256 * MIB, 1.3)]),
    Case("gpt", None, None, 12),
]}


class Run:
    def __init__(self, problem=None, seconds=None, peak=0, idle=0, planned=0, output=None):
        self.problem, self.seconds, self.peak, self.idle, self.planned, self.output = problem, seconds, peak, idle, planned, output

    def taken(self):
        return self.peak - self.idle

    def join(self, before):
        """The better of two runs of the same."""
        if before and not before.problem and not self.problem:
            self.seconds, self.peak = min(self.seconds, before.seconds), max(self.peak, before.peak)
        return self


def prepare(case, folder, quick):
    """@return the model and its input, made where they are not there yet"""
    os.makedirs(folder, exist_ok=True)
    if case.name == "gpt":
        x = os.path.join(folder, "gpt-ids-one.npy")
        train_cases.save_rows(x, (1, 256), np.int64, lambda k: np.random.default_rng(30).integers(0, 5000, 256))
        return train_cases.make_gpt(folder), x
    size = case.quick_size if quick else case.size
    x = os.path.join(folder, f"image-{size}.npy")
    train_cases.save_rows(x, (1, 3, size, size), np.float32, lambda k: np.random.default_rng(31).random((3, size, size), np.float32))
    return onnx_nets.make(folder, case.name, size), x


def run_peer(args, model, x, runs, tmp):
    y = os.path.join(tmp, "peer.npy")
    done = limited.run(["node", os.path.join(HERE, "ort.js"), args.peer, model, x, y, str(runs), str(THREADS)], patience=args.patience)
    if done.problem():
        return Run(done.problem())
    facts = json.loads(done.out)
    args.version = facts["version"]
    return Run(None, min(facts["seconds"][1:]), facts["peak_rss_bytes"], facts["idle_bytes"], 0, np.load(y))


def ours_command(plimsoll, model, x, y, runs, spill, memory=None):
    command = [plimsoll, "infer", model, x, "-o", y, "--repeat", str(runs), "--threads", str(THREADS), "--spill", spill, "--json", "--quiet"]
    return command + (["--memory", str(memory)] if memory else [])


def run_ours(args, model, x, runs, tmp, memory=None):
    y = os.path.join(tmp, "ours.npy")
    command = ours_command(args.plimsoll, model, x, y, runs, tmp, memory)
    done = limited.run(command, memory if args.groups else None, args.patience)
    if done.problem():
        return Run(done.problem())
    facts = json.loads(done.out)
    return Run(None, facts["best_seconds"], facts["peak_rss_bytes"], facts["baseline_bytes"], facts["planned_peak_bytes"], np.load(y))


def budgets_of(case, runs, quick):
    """What ours still has to run in, when it has run without a budget."""
    peer, free = runs.get("peer"), runs["no budget"]
    known = peer and not peer.problem and not free.problem
    if known and free.taken() > case.share * peer.taken():
        yield f"in {case.share:g}", int(free.idle + case.share * peer.taken())
    for memory, _ in [] if quick else case.budgets:
        yield f"in {memory // MIB} MiB", memory


def measure(args, case, model, x):
    """@return {who or budget: Run}"""
    runs, times = {}, 3 if args.quick else case.runs
    with tempfile.TemporaryDirectory(dir=args.folder, prefix="run-") as tmp:
        for _ in range(1 if args.quick else args.rounds):
            if args.peer:
                runs["peer"] = run_peer(args, model, x, times, tmp).join(runs.get("peer"))
            runs["no budget"] = run_ours(args, model, x, times, tmp).join(runs.get("no budget"))
            for name, memory in list(budgets_of(case, runs, args.quick)):
                runs[name] = run_ours(args, model, x, times, tmp, memory).join(runs.get(name))
    return runs


def difference(a, b):
    """The largest, relative to the largest of b; None: shapes differ, or what is no number is there."""
    if a.shape != b.shape or not np.isfinite(a).all():
        return None
    return float(np.abs(a.astype(np.float64) - b).max() / np.abs(b).max())


def judge(case, label, runs, quick):
    """One line for each goal that is missed."""
    peer = runs.get("peer")
    for name, run in runs.items():
        if run.problem:
            yield f"{label}, {'ONNX Runtime' if name == 'peer' else name}: {run.problem}"
            continue
        fault = train_cases.plan_fault(run) if name != "peer" else None
        if fault:
            yield f"{label}, {name}: {fault}"
        if name != "peer" and peer and not peer.problem:
            d = difference(run.output, peer.output)
            if d is None or d > TOLERANCE:
                wrong = "has another shape or is not finite" if d is None else f"differs by {d:.1e} (at most {TOLERANCE:.0e})"
                yield f"{label}, {name}: the output {wrong}"
    if quick or not peer or peer.problem:
        return
    for memory, ratio in case.budgets:
        run = runs[f"in {memory // MIB} MiB"]
        if ratio and not run.problem and run.seconds > ratio * peer.seconds:
            yield f"{label}, in {memory // MIB} MiB: {run.seconds / peer.seconds:.2f} x ONNX Runtime's time (at most {ratio})"
    within = runs.get(f"in {case.share:g}", runs["no budget"])
    if not within.problem and within.taken() > case.share * peer.taken():
        yield f"{label}: takes {within.taken() / peer.taken():.2f} of ONNX Runtime's memory (at most {case.share})"
    if not within.problem and within.seconds > case.ratio * peer.seconds:
        yield (f"{label}: {within.seconds / peer.seconds:.2f} x ONNX Runtime's time (at most {case.ratio}), "
               f"in {within.taken() / peer.taken():.2f} of its memory")


def report(label, runs):
    peer = runs.get("peer")
    known = peer and not peer.problem
    for name, run in runs.items():
        who = "ONNX Runtime" if name == "peer" else "ours, " + name
        if run.problem:
            print(f"{label:<13} {who:<17} {run.problem}", flush=True)
            continue
        row = f"{label:<13} {who:<17} {1e3 * run.seconds:>9.2f} {run.peak / MIB:>8.1f} {run.taken() / MIB:>8.1f}"
        if name != "peer":
            row += f" {run.planned / MIB:>8.1f}"
            if known:
                d = difference(run.output, peer.output)
                row += f"   {run.seconds / peer.seconds:>5.2f} x  {run.taken() / peer.taken():>5.2f} x   {'wrong' if d is None else f'{d:.1e}'}"
        print(row, flush=True)


def peer_folder(folder):
    """Where ONNX Runtime is, or None."""
    place = os.path.join(folder, "ort")
    if shutil.which("node") and os.path.isdir(os.path.join(place, "node_modules", "onnxruntime-node")):
        return place
    print(f"SKIPPED: ONNX Runtime, which is not in {place} (scripts/setup.sh bench-infer puts it there)", file=sys.stderr)
    return None


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--models", default=",".join(CASES), help="a comma-separated part of: " + ", ".join(CASES))
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--quick", action="store_true", help="small images, few runs: whether it works, not how fast it is")
    p.add_argument("--patience", type=int, default=600, help="seconds after which a contestant is stopped")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"))
    p.add_argument("--plimsoll", required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    args.peer, args.groups = peer_folder(args.folder), limited.usable()
    print(f"one sample, {THREADS} threads, of {os.cpu_count()} CPUs; milliseconds, MiB" + ("" if args.groups else "; NOT LIMITED")
          + ("; QUICK SIZES: times mean nothing" if args.quick else ""))
    print(f"{'model':<13} {'':<17} {'ms':>9} {'peak':>8} {'- idle':>8} {'planned':>8}   {'time':>7}  {'memory':>7}   differs")
    missed = []
    for label in args.models.split(","):
        case = CASES[label]
        runs = measure(args, case, *prepare(case, args.folder, args.quick))
        report(label, runs)
        missed += judge(case, label, runs, args.quick)
    for line in missed:
        print("MISSED: " + line)
    print(f"{len(missed)} goals missed" if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
