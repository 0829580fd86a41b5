"""What the benchmarks of training have in common: the models with their batches, their data and first weights, and a run of each contestant.

Data and weights are made once, from seeds, by NumPy, and kept in a folder: every contestant begins with the same numbers."""
import csv
import json
import math
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

import keras_graph
import limited
import tensors

HERE = os.path.dirname(os.path.abspath(__file__))
MODELS = os.path.join(HERE, "..", "tests", "models")
MIB = 1 << 20
THREADS = 2
LOSSES = 5  # that are compared, of the first steps
KEEP = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(64 << 30), "MALLOC_TOP_PAD_": str(64 << 20)}  # glibc keeps what it has mapped
SETTINGS = {"default": ([], {}), "channels last": (["--channels-last"], {}), "keep": ([], KEEP)}  # of PyTorch: options, environment


class Case:
    """One model. A run has `steps`, of which the first warms up; a contestant gets `rounds` runs, and the best step counts."""

    def __init__(self, name, batch, quick, steps, rounds=2, quarter=None, free=None, fixed=(), rate=1e-3, settings=tuple(SETTINGS), of=None):
        self.name, self.batch, self.quick_batch, self.steps, self.rounds = name, batch, quick, steps, rounds
        self.fixed = {f"{mib} MiB": mib * MIB for mib, _ in fixed}  # budgets of their own: MiB and the ratio
        # the ratio to the best PyTorch that is aimed at; None: it has to run
        self.goal = {**({} if of else {"no budget": free, "quarter": quarter}), **{f"{mib} MiB": ratio for mib, ratio in fixed}}
        self.rate = rate  # of learning: smaller where the first step would leave a softmax that gives only 0 and 1, and so nothing to compare
        self.settings, self.of = settings, of  # of: the case whose model and peer this one shares, at a larger batch
        self.loss = "sparse-ce-logits" if name == "gpt" else "mse"


CASES = {case.name: case for case in [
    Case("small", 32, 4, 20, 3, quarter=1.0, free=0.9, fixed=[(60, None)], rate=1e-4),
    Case("slim", 32, 4, 8, 3, quarter=1.0, free=0.9, fixed=[(40, None)]),
    Case("deep", 32, 1, 2, 1, quarter=1.0, free=0.9, fixed=[(512, None)], rate=1e-4),
    Case("resnet50", 16, 2, 5, 3, quarter=1.0, rate=1e-5),
    Case("unet", 1, 1, 5, 1),
    Case("gpt", 8, 2, 5, 3, quarter=1.0, settings=("default", "keep")),
    Case("wide", 4, 1, 5, 1, rate=1e-6),
    Case("wide256", 256, 4, 1, 1, fixed=[(2048, 1.0), (512, None)], rate=1e-6, of="wide"),
]}


class Files:
    """Where a case's model, data and first weights are (None: in the model), and its batch."""

    def __init__(self, model, x, y, weights, batch):
        self.model, self.x, self.y, self.weights, self.batch = model, x, y, weights, batch


# --------------------------------------------------------------------------------------------------- making them

def save_rows(path, shape, dtype, row):
    """An .npy file, written row by row: it may be larger than memory. @param row  gives row k"""
    if os.path.exists(path):
        return
    with open(path + ".part", "wb") as f:
        np.lib.format.write_array_header_1_0(f, {"descr": np.lib.format.dtype_to_descr(np.dtype(dtype)), "fortran_order": False, "shape": shape})
        for k in range(shape[0]):
            np.ascontiguousarray(row(k), dtype).tofile(f)
    os.rename(path + ".part", path)


def keras_weights(layers):
    """Pairs of a name and an array: Glorot's uniform kernels, as Keras begins, and its constants."""
    rng = np.random.default_rng(11)
    for name, shape, transposed in keras_graph.weight_shapes(layers):
        what = name.rsplit("/", 1)[1]
        if what == "kernel":
            limit = np.float32(math.sqrt(6 / sum(keras_graph.fans(shape, transposed))))
            yield name, (rng.random(shape, np.float32) * 2 - 1) * limit
        else:
            yield name, np.full(shape, 1 if what in ("gamma", "moving_variance") else 0, np.float32)


def make_gpt(folder):
    """gpt.onnx and gpt.bin with small random weights in it, in a folder. @return the ONNX file"""
    path = os.path.join(folder, "gpt.onnx")
    if os.path.exists(path):
        return path
    with tempfile.TemporaryDirectory(dir=folder) as tmp:
        subprocess.run([sys.executable, os.path.join(MODELS, "make_gpt.py"), tmp], check=True)
        rng = np.random.default_rng(12)
        for name, a, place in tensors.onnx_initializers(os.path.join(tmp, "gpt.onnx")):
            if place:
                value = np.ones(a.shape) if name.endswith(".scale") else rng.normal(0, 0.02, a.shape)
                np.memmap(place[0], np.float32, "r+", place[1], a.shape)[...] = value
        os.rename(os.path.join(tmp, "gpt.bin"), os.path.join(folder, "gpt.bin"))
        os.rename(os.path.join(tmp, "gpt.onnx"), path)
    return path


def prepare_gpt(folder, batch):
    samples = LOSSES * batch
    text = np.random.default_rng(10).integers(0, 5000, (samples, 257))
    x, y = (os.path.join(folder, f"gpt-{what}-{samples}.npy") for what in ("ids", "next"))
    save_rows(x, (samples, 256), np.int64, lambda k: text[k, :-1])
    save_rows(y, (samples, 256), np.int64, lambda k: text[k, 1:])
    return Files(make_gpt(folder), x, y, None, batch)


def keras_model(name, folder, quick):
    """The file, and a word for what depends on it. Large images are small ones when it has to be quick."""
    model = os.path.join(MODELS, name + ".json")
    if not quick or name not in ("unet", "wide"):
        return model, name
    with open(model) as f:
        text = re.sub(r'("batch_shape": \[null, )\d+, \d+', r"\g<1>128, 128", f.read())  # nothing else in the file depends on it
    model = os.path.join(folder, name + "-quick.json")
    with open(model, "w") as f:
        f.write(text)
    return model, name + "-quick"


def model_of(case, folder, quick):
    """The model's file alone, made where it is not there yet: planning needs no data."""
    os.makedirs(folder, exist_ok=True)
    return make_gpt(folder) if case.name == "gpt" else keras_model(case.of or case.name, folder, quick)[0]


def prepare(case, folder, quick):
    """Makes what is not there yet. @return Files"""
    os.makedirs(folder, exist_ok=True)
    batch = case.quick_batch if quick else case.batch
    if case.name == "gpt":
        return prepare_gpt(folder, batch)
    samples = batch if case.of else LOSSES * batch
    model, tag = keras_model(case.of or case.name, folder, quick)
    layers = keras_graph.layers(model)
    weights = os.path.join(folder, tag + "-first.safetensors")
    if not os.path.exists(weights):
        tensors.safetensors_write(weights, lambda: keras_weights(layers))
    shape = keras_graph.input_shape(layers)
    x, y = (os.path.join(folder, f"{tag}-{what}-{samples}.npy") for what in "xy")
    save_rows(x, (samples, *shape), np.float32, lambda k: np.random.default_rng([1, k]).random(shape, np.float32))
    if layers[-1][1] == "Dense":
        classes = layers[-1][2]["units"]
        save_rows(y, (samples, classes), np.float32, lambda k: np.eye(classes)[np.random.default_rng([2, k]).integers(classes)])
    else:
        save_rows(y, (samples, *shape[:2], 1), np.float32, lambda k: np.random.default_rng([2, k]).integers(0, 2, (*shape[:2], 1)))
    return Files(model, x, y, weights, batch)


# -------------------------------------------------------------------------------------------------- contestants

class Run:
    """What one run of a contestant gave: problem (None: none), losses, seconds of every step, peak (VmHWM); of ours planned and floor, too,
    and expected: the planned seconds of a step."""

    def __init__(self, problem=None, losses=(), seconds=(), peak=0, planned=0, floor=0, expected=None):
        self.problem, self.losses, self.seconds, self.peak, self.planned, self.floor = problem, losses, seconds, peak, planned, floor
        self.expected = expected

    def best(self):
        """Seconds of the best step but the first, which warms up; of the only one where there are no others."""
        return min(self.seconds[1:] or self.seconds) if not self.problem else None

    def join(self, other):
        """The better of two runs of the same: times and the peak of both."""
        if other is None or self.problem or other.problem:
            return other if other and other.problem else self
        self.seconds = [self.seconds[0], *self.seconds[1:], *other.seconds[1:]]
        self.peak = max(self.peak, other.peak)
        return self


def torch_usable():
    if subprocess.run([sys.executable, "-c", "import torch"], capture_output=True).returncode == 0:
        return True
    print("SKIPPED: PyTorch, which is not installed here (Debian: python3-torch)", file=sys.stderr)
    return False


def run_torch(case, files, steps, setting="default", patience=None):
    options, env = SETTINGS[setting]
    command = [sys.executable, os.path.join(HERE, "torch_train.py"), files.model, files.x, files.y, "--batch", str(files.batch),
               "--steps", str(steps), "--lr", str(case.rate), "--threads", str(THREADS), *options]
    if files.weights:
        command += ["--weights", files.weights]
    done = limited.run(command, patience=patience, env={"OMP_NUM_THREADS": str(THREADS), **env})
    if done.problem():
        return Run(done.problem())
    facts = json.loads(done.out)
    return Run(None, facts["loss"], facts["seconds"], facts["peak_rss_bytes"])


def train_command(plimsoll, case, files, folder, memory, machine=None):
    """@param machine  a description of the machine; None: the one that the command itself finds"""
    command = [plimsoll, "train", files.model, "--data", files.x, "--target", files.y, "--loss", case.loss, "--optimizer", "adam",
               "--lr", str(case.rate), "--batch", str(files.batch), "--no-shuffle", "--threads", str(THREADS), "--spill", folder, "--json", "--quiet"]
    command += ["--weights", files.weights] if files.weights else []
    command += ["--machine", machine] if machine else []
    return command + (["--memory", str(memory)] if memory else [])


def run_ours(plimsoll, case, files, folder, steps, memory=None, in_group=True, patience=None, machine=None):
    """plimsoll train inside a group of `memory` bytes, which is its budget. None: as much as there is, and no group."""
    with tempfile.TemporaryDirectory(dir=folder, prefix="run-") as tmp:
        history = os.path.join(tmp, "steps.csv")
        command = train_command(plimsoll, case, files, tmp, memory, machine) + ["--steps", str(steps), "--history", history]
        done = limited.run(command, memory if in_group else None, patience)
        if done.problem():
            return Run(done.problem())
        facts = json.loads(done.out)
        with open(history) as f:
            seconds = [float(row["seconds"]) for row in csv.DictReader(f)]
    return Run(None, facts["loss"], seconds, facts["peak_rss_bytes"], facts["planned_peak_bytes"], facts["floor_bytes"], facts["planned_seconds"])


def plan_facts(plimsoll, case, files, folder, memory):
    """What train would do inside `memory` bytes: its report, without a step."""
    command = train_command(plimsoll, case, files, folder, memory) + ["--steps", "1", "--plan-only"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def budgets(plimsoll, case, files, folder, n, longest):
    """n budgets, from the smallest that train promises to what keeping everything takes, each by the same factor larger than the one before.
    They begin where a step is planned to take at most `longest` seconds, or twice as long as without a budget; what lies below is told."""
    free = plan_facts(plimsoll, case, files, folder, 1 << 50)
    low, longest = free["floor_bytes"], max(longest, 2 * free["planned_seconds"])
    command = [plimsoll, "plan", files.model, "--train", "adam", "--loss", case.loss, "--batch", str(files.batch), "--memory", str(1 << 50), "--json"]
    high = max(low, json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)["plain_bytes"])
    while low < high and (seconds := plan_facts(plimsoll, case, files, folder, low)["planned_seconds"]) > longest:
        print(f"{case.name:<9} {low / MIB:>9.2f} MiB  not run: a step is planned to take {seconds:.0f} s", flush=True)
        low = min(high, round(1.25 * low))
    for k in range(n):
        yield round(low * (high / low) ** (k / max(1, n - 1)))


# -------------------------------------------------------------------------------------------------------- checks

def loss_difference(a, b):
    """The largest relative difference of the first losses that both have; None when one has none."""
    pairs = list(zip(a[:LOSSES], b[:LOSSES]))
    return max(abs(p - q) / max(abs(q), 1e-30) for p, q in pairs) if pairs else None


def plan_fault(run):
    """What is wrong with the planned peak against the one that the kernel saw, or None."""
    if run.planned < run.peak:
        return f"took {run.peak - run.planned} bytes more than planned"
    slack = max(4 * MIB, 0.03 * run.planned)
    if run.planned - run.peak > slack:
        return f"planned {(run.planned - run.peak) / MIB:.1f} MiB too much (at most {slack / MIB:.1f})"
    return None
