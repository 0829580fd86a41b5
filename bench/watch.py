"""What watching costs: the same program plain, plain again, under plimsoll watch and under heaptrack.

Contestants are processes of their own that take turns, and every round begins with another one. A loop times itself, block by block, and its
process stands for the median of its blocks; `import torch` is a process from its start to its end. A contestant's number is the median of its rounds,
a ratio the median of the ratios to the plain process of the same round: what the machine does meanwhile is in both. Plain again is the noise.
heaptrack is far from any goal and slow, so it runs in the first rounds only.

Called by bench/watch.sh."""
import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HEAPTRACK_ROUNDS = 3
PROGRAMS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "watch")


class Case:
    """@param program  words after python3
    @param goal     the ratio that is aimed at, watched to plain
    @param rounds   how many times everyone runs
    @param timed    the program prints its seconds, block by block; otherwise the whole process is timed"""

    def __init__(self, label, program, goal, rounds, unit, timed=True):
        self.label, self.program, self.goal, self.rounds, self.unit, self.timed = label, program, goal, rounds, unit, timed


CASES = {
    "import": Case("import torch, s", ["-c", "import torch"], 1.05, 9, 1, False),
    "churn": Case("small objects, ms a block", [os.path.join(PROGRAMS, "churn.py"), "400"], 1.02, 9, 1e3),
    "temps": Case("c = a + b, 1 MiB, us", [os.path.join(PROGRAMS, "temps.py"), "60"], 1.05, 9, 1e6 / 400),
    "conv": Case("convolution step, batch 64, ms", [os.path.join(PROGRAMS, "torch_conv.py"), "100"], 1.02, 11, 1e3),
}


def run(case, before, folder):
    """@return seconds of a block in the middle, or of the process"""
    start = time.perf_counter()
    done = subprocess.run(before + [sys.executable] + case.program, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        raise SystemExit(f"{' '.join(before + case.program)}: exit code {done.returncode}\n{done.stderr}")
    if not case.timed:
        return seconds
    # heaptrack adds lines of its own to stdout
    for line in done.stdout.splitlines():
        try:
            return statistics.median(float(word) for word in line.split())
        except ValueError:
            continue
    raise SystemExit(f"{' '.join(before + case.program)}: printed no times")


def measure(args, case, who):
    """@return {contestant: seconds of each round}"""
    seconds = {name: [] for name in who}
    order = list(who)
    with tempfile.TemporaryDirectory(prefix="plimsoll-bench-") as folder:
        run(case, [], folder)  # what has to be read from the disk is read
        for k in range(args.rounds or case.rounds):
            for name in order:
                if name == "heaptrack" and k >= HEAPTRACK_ROUNDS:
                    continue
                seconds[name].append(run(case, who[name], folder))
            order = order[1:] + order[:1]
    return seconds


def ratio(seconds, name):
    return statistics.median(a / b for a, b in zip(seconds[name], seconds["plain"]))


def report(case, seconds):
    """Prints the case's line. @return whether the goal is met"""
    middle = {name: case.unit * statistics.median(s) for name, s in seconds.items()}
    row = f"{case.label:<31} {middle['plain']:>8.3f} {middle['plain again']:>8.3f} {middle['watched']:>8.3f} "
    row += f"{middle['heaptrack']:>9.3f}" if "heaptrack" in middle else f"{'-':>9}"
    watched = ratio(seconds, "watched")
    row += f"   {ratio(seconds, 'plain again'):>6.3f} {watched:>8.3f} "
    row += f"{ratio(seconds, 'heaptrack'):>9.3f}" if "heaptrack" in seconds else f"{'-':>9}"
    met = watched <= case.goal
    print(f"{row}   {'goal met' if met else 'missed'} (at most {case.goal})", flush=True)
    return met


def contestants(plimsoll):
    who = {"plain": [], "plain again": [], "watched": [plimsoll, "watch", "--"]}
    if shutil.which("heaptrack"):
        who["heaptrack"] = ["heaptrack", "-o", "heaptrack"]
    else:
        print("SKIPPED: heaptrack, which is not here (Debian: heaptrack)", file=sys.stderr)
    return who


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--cases", default=",".join(CASES), help="a comma-separated part of: " + ", ".join(CASES))
    p.add_argument("--rounds", type=int, default=0, help="how many times everyone runs; otherwise as many as the case needs")
    p.add_argument("--plimsoll", required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    names = args.cases.split(",")
    if subprocess.run([sys.executable, "-c", "import torch"], stderr=subprocess.DEVNULL).returncode:
        print("SKIPPED: import and conv: no PyTorch here (Debian: python3-torch)", file=sys.stderr)
        names = [name for name in names if name not in ("import", "conv")]
    who = contestants(args.plimsoll)
    print(f"{'medians':<31} {'plain':>8} {'again':>8} {'watched':>8} {'heaptrack':>9}   ratios to plain")
    missed = sum(not report(CASES[name], measure(args, CASES[name], who)) for name in names)
    print(f"{missed} goals missed" if missed else "all goals met")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
