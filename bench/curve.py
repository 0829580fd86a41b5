"""Time against memory: seconds per training step of slim, deep and wide at budgets from the smallest up, and PyTorch's points beside them.

    curve.csv in the data folder     model, who, budget in bytes (empty: none), peak in bytes, seconds per step
    --svg FILE                       the same as a drawing, a panel per model

Each of our points is a process inside a memory cgroup of its budget. PyTorch has no budget: its points are where its settings happen to be.
Called by bench/curve.sh."""
import argparse
import csv
import math
import os
import sys

import limited
import train_cases as cases
from train_cases import MIB

STEPS = {"slim": 6, "deep": 2, "wide": 4}
OURS, PEER, INK, GRID = "#1f6feb", "#d1242f", "#57606a", "#d0d7de"
WIDTH, HEIGHT, LEFT, TOP, RIGHT, BOTTOM = 360, 260, 52, 34, 14, 44  # of a panel, and its margins


def points_of(args, name):
    """Rows of the .csv for one model."""
    case = cases.CASES[name]
    files = cases.prepare(case, args.folder, args.quick)
    steps = args.steps or (2 if args.quick else STEPS[name])
    for setting in case.settings if args.torch else ():
        run = cases.run_torch(case, files, steps, setting, args.patience)
        if not run.problem:
            yield name, f"PyTorch, {setting}", None, run.peak, run.best()
    for memory in cases.budgets(args.plimsoll, case, files, args.folder, args.points, args.longest):
        run = cases.run_ours(args.plimsoll, case, files, args.folder, steps, memory, args.groups, args.patience)
        if run.problem:
            print(f"MISSED: {name} in {memory} bytes: {run.problem}")
            args.failed = True
        else:
            yield name, "plimsoll", memory, run.peak, run.best()


# ------------------------------------------------------------------------------------------------------- drawing

def ticks(low, high):
    """Powers of two between, at most six of them."""
    first, last = math.ceil(math.log2(low)), math.floor(math.log2(high))
    step = max(1, -(-(last - first + 1) // 6))
    return [2.0 ** e for e in range(first, last + 1, step)]


def round_ticks(low, high):
    """1, 2 and 5 times powers of ten between, only the powers where that is many."""
    powers = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    found = [m * 10.0 ** e for e in powers for m in ((1, 2, 5) if high < 100 * low else (1,))]
    return [t for t in found if low <= t <= high]


def apart(places, gap, most):
    """The places, in order, moved so that neighbours are `gap` apart and none is beyond `most`."""
    for k in range(1, len(places)):
        places[k] = max(places[k], places[k - 1] + gap)
    for k in range(len(places) - 1, -1, -1):
        places[k] = min(places[k], most - gap * (len(places) - 1 - k))
    return places


def text(x, y, what, anchor="middle", size=11, colour=INK, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}" font-weight="{weight}">{what}</text>'


class Scale:
    """From a number to its place in a panel, `left` pixels from the edge: memory across, seconds up, both by powers."""

    def __init__(self, rows, left):
        memory, seconds = [(r[2] or r[3]) / MIB for r in rows], [r[4] for r in rows]
        self.left, self.right, self.bottom = left + LEFT, left + WIDTH - RIGHT, HEIGHT - BOTTOM
        self.low, self.high = min(memory) / 1.15, max(memory) * 1.15
        self.quick, self.slow = min(seconds) / 1.3, max(seconds) * 1.3

    def across(self, m):
        return self.left + (self.right - self.left) * math.log(m / self.low) / math.log(self.high / self.low)

    def down(self, s):
        return self.bottom - (self.bottom - TOP) * math.log(s / self.quick) / math.log(self.slow / self.quick)

    def place(self, row):
        return self.across((row[2] or row[3]) / MIB), self.down(row[4])


def axes(at):
    out = []
    for s in round_ticks(at.quick, at.slow):
        out.append(f'<line x1="{at.left}" x2="{at.right}" y1="{at.down(s):.1f}" y2="{at.down(s):.1f}" stroke="{GRID}"/>')
        out.append(text(at.left - 6, at.down(s) + 4, f"{s:g} s", "end"))
    for m in ticks(at.low, at.high):
        out.append(f'<line x1="{at.across(m):.1f}" x2="{at.across(m):.1f}" y1="{at.bottom}" y2="{at.bottom + 4}" stroke="{INK}"/>')
        out.append(text(at.across(m), at.bottom + 17, f"{m:g} MiB" if m < 1024 else f"{m / 1024:g} GiB"))
    return out + [text(at.left, HEIGHT - 8, "memory of the process; up: seconds per step", "start")]


def panel(name, rows, left):
    """One model's drawing."""
    at = Scale(rows, left)
    out = [text(at.left, 18, f"{name}, batch {cases.CASES[name].batch}", "start", 13, weight="bold"), *axes(at)]
    ours = sorted(at.place(r) for r in rows if r[1] == "plimsoll")
    if ours:
        out.append(f'<polyline fill="none" stroke="{OURS}" stroke-width="2" points="' + " ".join(f"{x:.1f},{y:.1f}" for x, y in ours) + '"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{OURS}"/>' for x, y in ours]
        out.append(text(ours[0][0] + 6, ours[0][1] - 6, "plimsoll", "start", colour=OURS))
    peers = sorted(((*at.place(r), r[1]) for r in rows if r[1] != "plimsoll"), key=lambda p: p[1])
    edge = min((p[0] for p in peers), default=0) - 14
    for (x, y, who), label in zip(peers, apart([p[1] for p in peers], 13, at.bottom - 4)):
        out.append(f'<line x1="{edge + 2:.1f}" x2="{x:.1f}" y1="{label:.1f}" y2="{y:.1f}" stroke="{PEER}" stroke-width="0.5"/>')
        out.append(f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{PEER}"/>')
        out.append(text(edge, label + 4, who, "end", colour=PEER))
    return out


def draw(path, names, rows):
    width = WIDTH * len(names)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {HEIGHT}" width="{width}" height="{HEIGHT}" font-family="sans-serif">',
           "<title>Seconds per training step against memory: plimsoll at budgets from the smallest up, PyTorch where it happens to be</title>",
           f'<rect width="{width}" height="{HEIGHT}" fill="white"/>']
    for k, name in enumerate(names):
        out += panel(name, [r for r in rows if r[0] == name], k * WIDTH)
    with open(path, "w") as f:
        f.write("\n".join(out + ["</svg>"]) + "\n")


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--models", default=",".join(STEPS), help="a comma-separated part of: " + ", ".join(STEPS))
    p.add_argument("--points", type=int, default=6, help="budgets per model")
    p.add_argument("--steps", type=int, help="of a run, instead of as many as suit the model")
    p.add_argument("--quick", action="store_true", help="small batches and images: whether it works, not how fast it is")
    p.add_argument("--longest", type=float, default=30, help="seconds of a planned step; budgets below those that take no longer are left out")
    p.add_argument("--patience", type=int, default=1800, help="seconds after which a run is stopped")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"))
    p.add_argument("--svg", help="where to draw it; not at all unless given")
    p.add_argument("--plimsoll", required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    args.torch, args.groups, args.failed = cases.torch_usable(), limited.usable(), False
    os.makedirs(args.folder, exist_ok=True)
    rows, names = [], args.models.split(",")
    with open(os.path.join(args.folder, "curve.csv"), "w", newline="") as f:
        table = csv.writer(f)
        table.writerow(["model", "who", "budget_bytes", "peak_bytes", "seconds_per_step"])
        for name in names:
            for row in points_of(args, name):
                rows.append(row)
                table.writerow(["" if cell is None else cell for cell in row])
                f.flush()
                print(f"{row[0]:<6} {row[1]:<23} {(row[2] or row[3]) / MIB:>9.1f} MiB {row[4]:>9.4g} s", flush=True)
    names = [name for name in names if any(r[0] == name for r in rows)]
    if args.svg and names:
        draw(args.svg, names, rows)
    return 1 if args.failed else 0


if __name__ == "__main__":
    sys.exit(main())
