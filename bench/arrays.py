"""Array files larger than memory, side by side: the plain C loop (floor.c), chunked NumPy and Dask (peers.py), and plimsoll eval.

Every contestant is a process of its own inside a memory cgroup (1 GiB, no swap) with a cold cache; contestants take turns, and the best of
the rounds counts, because machines are shared. Time runs until the output is on the disk. For C programs it is the whole process; for
Python it starts after the imports. Our result is compared with NumPy's: small ones in full, large ones in samples.

Called by bench/arrays.sh, which builds what is needed and finds a Python with NumPy."""
import argparse
import os
import random
import resource
import subprocess
import sys

import numpy as np

import limited

HERE = os.path.dirname(os.path.abspath(__file__))
CONTESTANTS = ["floor", "numpy", "dask", "plimsoll"]
SAMPLES = 400
TARGET = 1.25  # times the floor

# case: its input, plimsoll's expression, relative tolerance against NumPy (0: to the bit)
CASES = {
    "f16": ("x", "f16(x)", 0),
    "mean": ("x", "mean(x)", 1e-5),
    "mean0": ("x", "mean(x, 0)", 1e-5),
    "std0": ("x", "std(x, 0)", 1e-5),
    "box": ("x", "box(x, 3)", 1e-5),
    "transpose": ("x", "x.T", 0),
    "matmul": ("x", "x @ w", 1e-4),
    "lastcopy": ("t", "b = split(t, 128, -1)", 0),
}


class Machine:
    """The limit, the cache, and where files are."""

    def __init__(self, args):
        self.folder, self.memory, self.patience = args.folder, args.memory, args.patience
        self.binary = {"plimsoll": args.plimsoll, "floor": args.floor, "make": args.make_array}
        self.limited = limited.usable()

    def cool(self, inputs):
        """Nothing of the inputs, or of what ran before, is left in the cache or on its way to the disk."""
        os.sync()
        try:
            with open("/proc/sys/vm/drop_caches", "w") as f:
                f.write("3")
        except OSError:
            for path in inputs:
                fd = os.open(path, os.O_RDONLY)
                os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
                os.close(fd)

    def run(self, command, own_clock):
        """@return seconds or None, peak bytes, what went wrong"""
        done = limited.run(command, self.memory if self.limited else None, self.patience)
        peak = done.peak if self.limited else resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        if done.problem():
            return None, peak, done.problem()
        return (float(done.out.split()[-1]) if own_clock else done.seconds), peak, None


def inputs_of(machine, scale):
    rows, planes = max(2, int(3075200 * scale)), max(1, int(256 * scale))
    shapes = {"x": f"{rows}x512", "t": f"1x{planes}x1024x1021", "w": "512x256"}
    paths = {}
    for seed, (name, shape) in enumerate(shapes.items()):
        paths[name] = os.path.join(machine.folder, f"{name}-{shape}.npy")
        if not os.path.exists(paths[name]):
            print(f"making {paths[name]}", file=sys.stderr)
            subprocess.run([machine.binary["make"], paths[name], shape, "f32", str(seed)], check=True)
    return paths


def command_of(machine, who, case, paths, out):
    name, text, _ = CASES[case]
    extra = [paths["w"]] if case == "matmul" else []
    if who == "floor":
        return [machine.binary["floor"], case, paths[name], *extra, out]
    if who in ("numpy", "dask"):
        return [sys.executable, os.path.join(HERE, "peers.py"), who, case, paths[name], out, *extra]
    bound = [f"{name}={paths[name]}"] + [f"w={paths['w']}" for _ in extra]
    to = f"b={out}" if case == "lastcopy" else out
    return [machine.binary["plimsoll"], "eval", text, *bound, "-o", to, "--memory", str(machine.memory), "--quiet"]


def outputs_of(case, out, paths):
    if case != "lastcopy":
        return [out]
    last = np.load(paths["t"], mmap_mode="r").shape[-1]
    return [out % k for k in range((last + 127) // 128)]


def differs(ours, theirs, tolerance):
    """What is wrong with our files, or None. Large arrays are compared in runs at random places, their ends included."""
    for a, b in zip(ours, theirs):
        x, y = np.load(a, mmap_mode="r"), np.load(b, mmap_mode="r")
        if x.shape != y.shape or x.dtype != y.dtype:
            return f"{x.dtype}{list(x.shape)}, NumPy has {y.dtype}{list(y.shape)}"
        x, y = x.reshape(-1), y.reshape(-1)
        pick = random.Random(1)
        starts = [0, max(0, x.size - 1024)] + [pick.randrange(x.size) for _ in range(SAMPLES)] if x.size > 1 << 20 else range(0, x.size, 1024)
        for s in starts:
            p, q = x[s:s + 1024].astype(np.float64), y[s:s + 1024].astype(np.float64)
            bad = np.abs(p - q) > tolerance * np.maximum(np.abs(q), 1)
            if bad.any() or np.isnan(p).any():
                k = int(np.argmax(bad))
                return f"element {s + k} is {p[k]}, NumPy has {q[k]}"
    return None


def remove(files):
    for f in files:
        if os.path.exists(f):
            os.unlink(f)


def measure(machine, case, paths, contestants, rounds):
    """@return {who: (best seconds or None, peak, problem)}, whether our result is right (None: not compared)"""
    best, right = {}, None
    suffix = "-%d.npy" if case == "lastcopy" else ".npy"
    for turn in range(rounds):
        kept = None
        for who in contestants:
            if best.get(who, (0, 0, None))[2]:
                continue  # it failed before, and would again
            out = os.path.join(machine.folder, f"out-{who}{suffix}")
            files = outputs_of(case, out, paths)
            remove(files)
            machine.cool(paths.values())
            seconds, peak, problem = machine.run(command_of(machine, who, case, paths, out), who in ("numpy", "dask"))
            before = best.get(who, (None, 0, None))
            best[who] = (min(t for t in (seconds, before[0]) if t is not None) if not problem else None, max(peak, before[1]), problem)
            if turn == 0 and not problem and who == "numpy" and "plimsoll" in contestants:
                kept = files
                continue
            if turn == 0 and not problem and who == "plimsoll" and kept:
                right = differs(files, kept, CASES[case][2]) or True
            remove(files)
        remove(kept or [])
    return best, right


def cell(result):
    if result is None:
        return "-"
    return f"{result[0]:.2f}" if result[0] is not None else result[2].split(":")[0]


def ratio(a, b):
    return f"{a[0] / b[0]:.2f}" if a and b and a[0] is not None and b[0] is not None else "-"


def report(case, best, right):
    ours, floor = best.get("plimsoll"), best.get("floor")
    peaks = "/".join(f"{best[w][1] / 2**20:.0f}" if w in best else "-" for w in CONTESTANTS)
    marks = []
    if right is not None and right is not True:
        marks.append(f"WRONG: {right}")
    if ours and ours[0] is None:
        marks.append(ours[2])
    if ours and floor and ours[0] and floor[0] and ours[0] > TARGET * floor[0]:
        marks.append(f"above {TARGET} x floor")
    for peer in ("numpy", "dask"):
        if ours and ours[0] and best.get(peer, (None,))[0] and ours[0] >= best[peer][0]:
            marks.append(f"slower than {peer}")
    print(f"{case:<10} {cell(floor):>8} {cell(best.get('numpy')):>8} {cell(best.get('dask')):>8} {cell(ours):>8}   {ratio(ours, floor):>5} "
          f"{ratio(best.get('numpy'), ours):>6} {ratio(best.get('dask'), ours):>6}   {peaks:<20} {'; '.join(marks) or 'ok'}", flush=True)
    return not marks


def claim(contestants):
    """What a good row shows, of those who took part."""
    parts = ["right"] if "numpy" in contestants else []
    parts += [f"at most {TARGET} x the plain C loop"] if "floor" in contestants else []
    peers = [name for key, name in (("numpy", "NumPy"), ("dask", "Dask")) if key in contestants]
    if peers:
        parts.append("faster than " + " and ".join(peers))
    return ", ".join(parts)


def main():
    p = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    p.add_argument("--scale", type=float, default=1.0, help="of the full sizes (x 6.3 GB, t 1.07 GB)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--cases", default=",".join(CASES), help="a comma-separated part of: " + ", ".join(CASES))
    p.add_argument("--contestants", default=",".join(CONTESTANTS))
    p.add_argument("--patience", type=int, default=300, help="seconds after which a contestant is stopped")
    p.add_argument("--memory", type=int, default=1 << 30, help="bytes of the cgroup, and our budget")
    p.add_argument("--folder", default=os.environ.get("BENCH_DIR", "bench-data"))
    for name in ("plimsoll", "floor", "make-array"):
        p.add_argument("--" + name, required=True, help=argparse.SUPPRESS)
    args = p.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    machine = Machine(args)
    contestants = [c for c in CONTESTANTS if c in args.contestants.split(",")]
    if "dask" in contestants and subprocess.run([sys.executable, "-c", "import dask.array"], capture_output=True).returncode:
        print("SKIPPED: Dask, which is not installed here (Debian: python3-dask)", file=sys.stderr)
        contestants.remove("dask")
    paths = inputs_of(machine, args.scale)
    print(f"x {os.path.getsize(paths['x']) / 1e9:.2f} GB, t {os.path.getsize(paths['t']) / 1e9:.2f} GB, {os.cpu_count()} CPUs, "
          f"{'cgroup of ' if machine.limited else 'NOT LIMITED, budget '}{machine.memory / 2**20:.0f} MiB, cold cache, best of {args.rounds}, seconds")
    print(f"{'case':<10} {'floor':>8} {'numpy':>8} {'dask':>8} {'ours':>8}   {'ours/':>5} {'numpy/':>6} {'dask/':>6}   {'peak MiB of each':<20}")
    print(f"{'':<10} {'':>8} {'':>8} {'':>8} {'':>8}   {'floor':>5} {'ours':>6} {'ours':>6}")
    good = [report(case, *measure(machine, case, paths, contestants, args.rounds)) for case in args.cases.split(",")]
    print(f"{sum(good)} of {len(good)} rows: {claim(contestants)}")
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
