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
    floor, plain = cases.floor_and_plain(args.plimsoll, case, files, args.folder)
    for k in range(args.points):
        memory = round(floor * (plain / floor) ** (k / (args.points - 1)))
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


def even_ticks(most):
    """From 0, about five, on round numbers."""
    step = 10 ** math.floor(math.log10(most / 4))
    step *= next((m for m in (1, 2, 5, 10) if most / (step * m) <= 5), 10)
    return [k * step for k in range(int(most / step) + 1)]


def text(x, y, what, anchor="middle", size=11, colour=INK, weight="normal"):
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}" fill="{colour}" font-weight="{weight}">{what}</text>'


def panel(name, rows, left):
    """One model's drawing, `left` pixels from the edge: memory in powers of two, seconds from 0."""
    place = lambda row: (row[2] or row[3]) / MIB
    low, high = min(map(place, rows)) / 1.15, max(map(place, rows)) * 1.15
    most = max(row[4] for row in rows) * 1.1
    across = lambda m: left + LEFT + (WIDTH - LEFT - RIGHT) * math.log(m / low) / math.log(high / low)
    down = lambda s: TOP + (HEIGHT - TOP - BOTTOM) * (1 - s / most)
    out = [text(left + LEFT, 18, f"{name}, batch {cases.CASES[name].batch}", "start", 13, weight="bold")]
    for s in even_ticks(most):
        out.append(f'<line x1="{left + LEFT}" x2="{left + WIDTH - RIGHT}" y1="{down(s):.1f}" y2="{down(s):.1f}" stroke="{GRID}"/>')
        out.append(text(left + LEFT - 6, down(s) + 4, f"{s:g}", "end"))
    for m in ticks(low, high):
        out.append(f'<line x1="{across(m):.1f}" x2="{across(m):.1f}" y1="{HEIGHT - BOTTOM}" y2="{HEIGHT - BOTTOM + 4}" stroke="{INK}"/>')
        out.append(text(across(m), HEIGHT - BOTTOM + 17, f"{m:g} MiB" if m < 1024 else f"{m / 1024:g} GiB"))
    out.append(text(left + LEFT, HEIGHT - 8, "memory of the process; up: seconds per step", "start"))
    ours = sorted((place(r), r[4]) for r in rows if r[1] == "plimsoll")
    if ours:
        out.append(f'<polyline fill="none" stroke="{OURS}" stroke-width="2" points="' + " ".join(f"{across(m):.1f},{down(s):.1f}" for m, s in ours) + '"/>')
        out += [f'<circle cx="{across(m):.1f}" cy="{down(s):.1f}" r="3" fill="{OURS}"/>' for m, s in ours]
        out.append(text(across(ours[0][0]) + 4, down(ours[0][1]) - 8, "plimsoll", "start", colour=OURS))
    for row in (r for r in rows if r[1] != "plimsoll"):
        x, y = across(place(row)), down(row[4])
        out.append(f'<rect x="{x - 3.5:.1f}" y="{y - 3.5:.1f}" width="7" height="7" fill="{PEER}"/>')
        out.append(text(x - 7, y + 4, row[1], "end", colour=PEER))
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
    p.add_argument("--points", type=int, default=7, help="budgets per model")
    p.add_argument("--steps", type=int, help="of a run, instead of as many as suit the model")
    p.add_argument("--quick", action="store_true", help="small batches and images: whether it works, not how fast it is")
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
