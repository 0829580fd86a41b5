"""Runs a program with plimsoll eval in a memory cgroup as large as its budget, and compares what it writes with the
oracle."""
import json
import os
import shutil
import subprocess
import tempfile

import cgroup
import numpy as np

from program import is_list
from values import INF, KIND, REP

TIMEOUT = 600  # near the floor a plan may read its file in many small pieces
AMPLE = 96 << 20  # above the floor: more than any of these programs can use


def on_disk():
    """A folder for files that are not counted as memory."""
    for folder in (os.environ.get("TMPDIR"), tempfile.gettempdir(), "/var/tmp", "."):
        if folder and os.access(folder, os.W_OK):
            kind = subprocess.run(["stat", "-f", "-c", "%T", folder], capture_output=True, text=True,
                                  check=False).stdout.strip()
            if kind != "tmpfs":
                return folder
    return tempfile.gettempdir()


class Failure(Exception):
    """kind: what went wrong, in a word or two; detail: the difference."""

    def __init__(self, kind, detail=""):
        super().__init__(f"{kind}: {detail}")
        self.kind, self.detail = kind, detail


class Runner:
    def __init__(self, plimsoll, groups=True):
        self.plimsoll = os.path.abspath(plimsoll)
        try:
            self.groups = cgroup.Cgroups() if groups else None
        except OSError:
            self.groups = None
        self.folder = tempfile.mkdtemp(prefix="random-programs-", dir=on_disk())
        self.inputs = {}
        self.runs = 0
        self.compared = 0
        self.skipped = 0
        self.corrupt = None  # a function that spoils a result, for the test of the test
        self.budget = 0
        self.floor = 0
        self.spare = []
        with open(plimsoll, "rb") as f:
            image = f.read()
        self.sanitized = b"__asan_init" in image or b"__tsan_init" in image
        if self.sanitized:
            self.groups = None

    def floor_budget(self, p):
        """The budget that a program's own share means, after check()."""
        return self.budget if p.share < 1 else 0

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    # -------------------------------------------------------------------------------------------------------- one run

    def path_of(self, i):
        path = f"{self.folder}/{i.file()}"
        if path not in self.inputs:
            while len(self.inputs) > 40:
                old = next(iter(self.inputs))
                os.unlink(old)
                del self.inputs[old]
            i.save(path)
            self.inputs[path] = True
        return path

    def arguments(self, p, expected, path_of, out):
        words = ["eval", p.text()]
        for i in p.inputs:
            words.append(i.binding(path_of(i)))
            if i.container == "raw":
                words += ["--shape", "x".join(map(str, i.shape)), "--dtype",
                          i.t] + (["--offset", str(i.offset)] if i.offset else [])
        for name, file in self.files(p, expected, out):
            words += ["-o", f"{name}={file}" if name else file]
        words += ["--threads", str(p.threads)]
        if p.spill:
            words += ["--spill", out]
        return words

    @staticmethod
    def files(p, expected, out):
        return [(name, f"{out}/o{k}-%d.npy" if is_list(expected[name]) else f"{out}/o{k}.npy") for k,
                name in enumerate(p.outputs)]

    def start(self, words, limit=None):
        self.runs += 1
        folder = self.groups.make(limit) if limit and self.groups else None
        # the shell joins the group and then becomes the command, so that nothing of the command is charged elsewhere
        command = ["/bin/sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', folder,
                   self.plimsoll] if folder else [self.plimsoll]
        try:
            done = subprocess.run(command + words, stdin=subprocess.DEVNULL, capture_output=True, timeout=TIMEOUT,
                                  check=False)
            killed = bool(folder) and self.groups.killed(folder)
        except subprocess.TimeoutExpired:
            raise Failure("hangs", f"more than {TIMEOUT} s") from None
        finally:
            if folder:
                self.groups.remove(folder)
        return done.returncode, done.stdout, done.stderr.decode("utf-8", "replace").strip(), killed

    def find_floor(self, words):
        code, out, err, _ = self.start(words + ["--memory", "1", "--plan-only", "--json"])
        if code != 3:
            self.refused(code, err, "while planning")
            raise Failure("no floor", f"exit code {code} for a budget of 1 byte: {err[:300]}")
        return int(json.loads(out)["floor_bytes"])

    @staticmethod
    def refused(code, err, when):
        first = err.splitlines()[0] if err else ""
        if code < 0:
            raise Failure("crash", f"signal {-code} {when}: {err[:400]}")
        if code != 0:
            raise Failure(f"exit {code}", f"{when}: {first[:300]}")

    def check(self, p, expected):
        """Raises Failure where the program does not give what it should."""
        out = tempfile.mkdtemp(dir=self.folder)
        try:
            words = self.arguments(p, expected, self.path_of, out)
            self.floor = self.find_floor(words)
            self.budget = int(self.floor + p.share * AMPLE) if p.share else self.floor
            code, text, err, killed = self.start(words + ["--memory", str(self.budget), "--json"], self.budget)
            if killed:
                raise Failure("killed", f"in a memory cgroup of its budget, {self.budget} bytes (floor {self.floor})")
            if code == 3:
                raise Failure("floor refused", f"floor {self.floor}, budget {self.budget}: {err[:300]}")
            self.refused(code, err, f"with a budget of {self.budget} (floor {self.floor})")
            self.judge(p, expected, out, json.loads(text))
        finally:
            shutil.rmtree(out, ignore_errors=True)

    def judge(self, p, expected, out, facts):
        left = set(os.listdir(out))
        told = {o["name"]: o for o in facts["outputs"]}
        for name, file in self.files(p, expected, out):
            v = expected[name]
            pieces = v if is_list(v) else [v]
            for k, piece in enumerate(pieces):
                one = file.replace("%d", str(k)) if is_list(v) else file
                if os.path.basename(one) not in left:
                    raise Failure("no output", f"{os.path.basename(one)} was not written: {sorted(left)}")
                left.discard(os.path.basename(one))
                self.compare(f"'{name}'" + (f" piece {k}" if is_list(v) else ""), one, piece)
                said = told.get(f"{name}{k}" if is_list(v) else name)
                if said is None or said["dtype"] != piece.t or tuple(said["shape"]) != piece.shape:
                    raise Failure("JSON", f"'{name}' is told as {said}, expected {piece.t} {piece.shape}")
        if left:
            raise Failure("litter", f"left behind: {sorted(left)}")
        if facts["rejected_plans"]:
            raise Failure("verifier", f"{facts['rejected_plans']} plans were rejected")
        spare = facts["planned_peak_bytes"] - facts["peak_rss_bytes"]
        self.spare.append(spare)
        if spare < 0 and not self.sanitized:
            peak, planned = facts["peak_rss_bytes"], facts["planned_peak_bytes"]
            raise Failure("above plan", f"VmHWM {peak} is {-spare} bytes above the planned {planned}")

    # ----------------------------------------------------------------------------------------------------- comparison

    def compare(self, what, file, want):
        got = np.load(file)
        if got.dtype.kind == "V" and got.dtype.itemsize == 2:
            bits = np.ascontiguousarray(got).view("<u2").astype(np.uint32).reshape(got.shape)
            t, got = "bf16", (bits << np.uint32(16)).view(np.float32)
        else:
            t = {REP[k].str.lstrip("<|"): k for k in REP if k != "bf16"}[got.dtype.str.lstrip("<>|")]
        if t != want.t:
            raise Failure("dtype", f"{what} is {t}, expected {want.t}")
        if got.shape != want.shape:
            raise Failure("shape", f"{what} is {got.shape}, expected {want.shape}")
        if self.corrupt:
            got = self.corrupt(got, want)
        wrong, known = differences(got, want)
        self.compared += known
        self.skipped += want.size - known
        if wrong is not None:
            raise Failure("values", f"{what}: {describe(got, want, wrong)}")


def differences(got, want):
    """(mask of the wrong elements or None, how many could be compared)."""
    if got.size == 0:
        return None, 0
    with np.errstate(all="ignore"):
        ok = (got == want.a)
        if KIND[want.t] == "f":
            ok |= np.isnan(got) & np.isnan(want.a)
        known = want.size
        if want.err is not None:
            if not ok.all():
                near = np.abs(got.astype(np.float64) - want.a.astype(np.float64)) <= want.err
                ok = ok | near | (want.err == INF)
            known = int((want.err < INF).sum())
    return (None if ok.all() else ~ok), known


def describe(got, want, wrong):
    n = int(wrong.sum())
    at = [tuple(int(i) for i in p) for p in np.argwhere(wrong)[:3]]
    show = []
    for p in at:
        slack = "" if want.err is None or want.err[p] == 0 else f" within {want.err[p]:.3g}"
        show.append(f"[{','.join(map(str, p))}] is {got[p]!r}, expected {want.a[p]!r}{slack}")
    return f"{n} of {got.size} elements differ: " + "; ".join(show)


def command(p, runner, expected, budget):
    """The shell commands that show a failure."""
    lines = []
    for i in p.inputs:
        lines.append(i.command(f"{i.name}.{ {'npy': 'npy', 'npz': 'npz', 'raw': 'bin'}[i.container]}"))
    path = lambda i: f"{i.name}.{ {'npy': 'npy', 'npz': 'npz', 'raw': 'bin'}[i.container]}"  # noqa: E731
    words = runner.arguments(p, expected, path, ".")
    words = ["plimsoll"] + [w.replace("./", "") for w in words] + (["--memory", str(budget)] if budget else [])
    lines.append(" ".join(w if all(c.isalnum() or c in "-_=./:%" for c in w) else '"' + w + '"' if "'" in w
                          else f"'{w}'" for w in words))
    return lines
