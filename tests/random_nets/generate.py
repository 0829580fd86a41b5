"""Random nets. make(seed, k) is net k of a seed, alone: a plain dict (it can be written as JSON), which files.py
turns into a model and its data.

    {"dialect": "keras" | "onnx", "inputs": [{"name", "shape", "rows"}],
     "nodes": [{"name", "op", "in", "attr", "share"}], "outputs": [...], "train": {...}, ...}

A node is named as its output. Shapes are without the batch; an input with `rows` above 0 holds numbers below that:
rows of a table. A net grows
node by node: an operation that takes what is there, with random options, is kept if the net stays small enough to run
within a second.
"""
import numpy as np

import keras
import onnx
from keras import Bad, chance, pick, product

DIALECT = {"keras": keras.LAYERS, "onnx": onnx.OPS}
COST = {"keras": keras.cost, "onnx": onnx.cost}
MODULE = {"keras": keras, "onnx": onnx}

WORK = 80_000_000  # multiplications of a batch, forward
SPILL = ["folder", "folder", "here", "no", "no"]
CLASSES = ("ce", "ce-logits", "sparse-ce", "sparse-ce-logits")
LOSSES = ("mse", "mae", "bce", "bce-logits") + CLASSES


def shapes_of(net):
    """The shape of every tensor. @raise Bad: the net does not hold together"""
    shapes = {i["name"]: list(i["shape"]) for i in net["inputs"]}
    owner = {}
    table = DIALECT[net["dialect"]]
    for n in net["nodes"]:
        ins = [shapes[x] for x in n["in"]]
        op = table[n["op"]]
        if not op.arity[0] <= len(ins) <= op.arity[1]:
            raise Bad("%s has %d inputs" % (n["op"], len(ins)))
        out = op.infer(n["attr"], ins)
        if len(out) > 6 or (out and min(out) < 1):
            raise Bad("shape %s" % out)
        shapes[n["name"]] = [int(d) for d in out]
        key = n.get("share") or n["name"]
        weights = MODULE[net["dialect"]].weight_shapes(n, ins)
        if owner.setdefault(key, weights) != weights:
            raise Bad("a shared layer with weights of other shapes")
    return shapes


def totals(net, shapes):
    """(elements of a sample over all tensors, parameters, multiplications of a sample)"""
    elements = sum(product(s) for s in shapes.values())
    parameters = work = 0
    for n in net["nodes"]:
        p, m = COST[net["dialect"]](n, [shapes[x] for x in n["in"]], shapes[n["name"]])
        parameters += p
        work += m
    return elements, parameters, work


def prune(net):
    """Without nodes and inputs that no output depends on."""
    used = set(net["outputs"])
    for n in reversed(net["nodes"]):
        if n["name"] in used:
            used.update(n["in"])
    names = {n["name"] for n in net["nodes"] if n["name"] in used}
    nodes = [dict(n) for n in net["nodes"] if n["name"] in names]
    for n in nodes:
        if n.get("share") and n["share"] not in names:
            heir, gone = n["name"], n["share"]
            for m in nodes:
                if m.get("share") == gone:
                    m["share"] = heir
            del n["share"]
    return dict(net, nodes=nodes, inputs=[i for i in net["inputs"] if i["name"] in used])


# -------------------------------------------------------------------------------------------------------------- growing
class Grower:
    def __init__(self, r, dialect, batch, elements, parameters, training, favoured):
        self.r, self.batch, self.elements, self.parameters, self.training = r, batch, elements, parameters, training
        self.net = {"dialect": dialect, "inputs": [], "nodes": [], "outputs": []}
        self.table = DIALECT[dialect]
        self.names = [k for k, op in self.table.items() if op.train or not training]
        self.weights = np.array([self.table[k].weight * favoured.get(k, 1) for k in self.names])
        self.weights /= self.weights.sum()
        self.shapes = {}
        self.last = None
        self.count = 0

    def input(self, shape, rows=0):
        name = "in%d" % len(self.net["inputs"])
        self.net["inputs"].append({"name": name, "shape": shape, "rows": rows})
        self.shapes[name] = shape
        self.last = name
        return name

    def add(self, op, ins, attr, share=None):
        """The new node's name; None where it does not fit, or the net would become too large."""
        self.count += 1
        node = {"name": "%s_%d" % (op.lower(), self.count), "op": op, "in": list(ins), "attr": attr}
        if share:
            node["share"] = share
        trial = dict(self.net, nodes=self.net["nodes"] + [node])
        try:
            shapes = shapes_of(trial)
        except (Bad, KeyError, IndexError):
            return None
        elements, parameters, work = totals(trial, shapes)
        if elements * self.batch > self.elements or parameters > self.parameters or work * self.batch > WORK:
            return None
        self.net, self.shapes, self.last = trial, shapes, node["name"]
        return node["name"]

    def tensors(self):
        rows = {i["name"] for i in self.net["inputs"] if i["rows"]}
        return [t for t in self.shapes if t not in rows]

    def pick_inputs(self, op):
        r = self.r
        all_ = self.tensors()
        if op.exact:
            inputs = {i["name"] for i in self.net["inputs"]}
            all_ = [t for t in all_ if t in inputs]
            if not all_:
                return None
        first = self.last if chance(r, 0.85) and self.last in all_ else pick(r, all_)
        n = int(r.integers(op.arity[0], op.arity[1] + 1)) if op.arity[1] > op.arity[0] else op.arity[0]
        ins = [first]
        for _ in range(n - 1):
            same = [t for t in all_ if self.shapes[t] == self.shapes[first]]
            rank = [t for t in all_ if len(self.shapes[t]) == len(self.shapes[first])]
            ins.append(pick(r, same if chance(r, 0.8) else rank))
        if len(ins) > 1 and all(t == first for t in ins) and chance(r, 0.7):
            return None
        r.shuffle(ins)
        return ins

    def step(self):
        """One random node more; False where the one tried does not fit."""
        r, floats = self.r, set(self.tensors())
        shared = [
            n
            for n in self.net["nodes"]
            if not n.get("share")
            and len(n["in"]) == 1
            and n["in"][0] in floats
            and MODULE[self.net["dialect"]].weight_shapes(n, [self.shapes[n["in"][0]]])
        ]
        if shared and chance(r, 0.04):
            n = pick(r, shared)
            like = [t for t in self.tensors() if self.shapes[t] == self.shapes[n["in"][0]]]
            return self.add(n["op"], [pick(r, like)], n["attr"], share=n["name"]) is not None
        name = self.names[int(r.choice(len(self.names), p=self.weights))]
        op = self.table[name]
        ins = self.pick_inputs(op)
        if ins is None:
            return False
        attr = op.propose(r, [self.shapes[t] for t in ins])
        if attr is None or (self.training and not op.trains(attr)):
            return False
        return self.add(name, ins, attr) is not None


# Extents, which are scaled to the size wanted, and channels: style: (dimensions of space, channels)
STYLES = {
    "image": (2, [1, 2, 3, 3, 4, 8, 16]),
    "series": (1, [1, 2, 4, 8, 12, 16, 32]),
    "volume": (3, [1, 2, 3, 4, 8]),
    "frames": (3, [1, 2, 3]),
    "flat": (0, [1]),
    "words": (1, [1]),
}
STYLE_NAMES = ["image"] * 7 + ["series"] * 3 + ["volume"] * 2 + ["flat", "flat", "frames", "words", "words"]


def input_shape(r, style, elements):
    """Channels last. @param elements  about as many as a sample should have"""
    space, channels = STYLES[style]
    c = pick(r, channels)
    if style == "flat":
        return [int(min(max(3, elements), 3000))]
    side = max(elements / c, 4) ** (1 / space)
    extents = [int(max(3, round(side * r.uniform(0.7, 1.4)))) for _ in range(space)]
    if style == "frames":
        extents[0] = int(r.integers(2, 6))
    if style == "words":
        return [min(extents[0], 160)]
    return extents + [c]


def starts(g, r):
    """The inputs, and an embedding where they are numbers of rows."""
    style = pick(r, STYLE_NAMES)
    shape = input_shape(r, style, g.elements / g.batch / r.uniform(3, 25))
    if g.net["dialect"] == "onnx" and style in ("image", "series", "volume"):
        shape = shape[-1:] + shape[:-1]  # channels first
    if style == "words":
        rows = pick(r, [5, 20, 100, 1000])
        x = g.input(shape, rows)
        module = MODULE[g.net["dialect"]]
        if module is keras:
            g.add("Embedding", [x], {"input_dim": rows, "output_dim": pick(r, [4, 8, 16, 32, 64])})
        else:
            g.add(
                pick(r, ["Gather", "Gather", "OneHot", "GatherND", "ScatterND"]),
                [x],
                {"rows": rows, "width": pick(r, [4, 8, 16, 32, 64])},
            )
    else:
        g.input(shape)
    if chance(r, 0.12) and style != "words":
        g.input(list(shape))


def head(g, r, loss):
    """Nodes that make of the last tensor what the loss needs. @return its name, or None"""
    dialect = MODULE[g.net["dialect"]]
    x, s = g.last, g.shapes[g.last]
    direct = product(s) <= 3000 and chance(r, 0.5)
    classes = loss in CLASSES
    if not s or not direct or (classes and not 2 <= s[-1] <= 64):
        for op, attr in dialect.narrow(r, s):
            x = g.add(op, [x], attr) or x
        units = int(r.integers(2, 12)) if classes or chance(r, 0.8) else 1
        op, attr = dialect.dense(units)
        x = g.add(op, [x], attr)
        if x is None:
            return None
    if loss in ("ce", "sparse-ce"):
        x = g.add(*dialect.softmax(x))
    elif loss == "bce":
        x = g.add(*dialect.sigmoid(x))
    return x


def optimizer(r):
    kind = pick(r, ["sgd", "momentum", "nesterov", "rmsprop", "adam", "adam", "adamw"])
    options = []
    if kind in ("momentum", "nesterov") and chance(r, 0.4):
        options.append("momentum=%g" % round(float(r.uniform(0.5, 0.95)), 2))
    if kind == "rmsprop" and chance(r, 0.4):
        options.append("rho=%g" % round(float(r.uniform(0.8, 0.95)), 2))
    if kind in ("adam", "adamw") and chance(r, 0.4):
        options.append("beta1=%g" % round(float(r.uniform(0.7, 0.95)), 2))
        options.append("beta2=%g" % round(float(r.uniform(0.9, 0.999)), 3))
    if kind in ("adam", "adamw", "rmsprop") and chance(r, 0.8):
        options.append(
            "eps=%g" % pick(r, [1e-3, 1e-4, 1e-5])
        )  # below that a gradient of rounding errors alone moves a weight
    if chance(r, 0.2):
        options.append("decay=%g" % pick(r, [0.001, 0.01]))
    return kind + (":" + ",".join(options) if options else "")


def schedule(r):
    return pick(
        r,
        [
            None,
            None,
            None,
            "linear",
            "cosine",
            "cosine:%d" % int(r.integers(1, 3)),
            "step:%d:%g" % (int(r.integers(1, 3)), 0.5),
        ],
    )


def widest(net, shapes):
    """Of how many products an element of a layer is the sum, at most. A step changes it by as many times the rate: a
    rate that looks small makes a wide layer diverge, and
    then rounding decides what comes next."""
    most = 1
    for n in net["nodes"]:
        for s in MODULE[net["dialect"]].weight_shapes(n, [shapes[x] for x in n["in"]]).values():
            most = max(most, product(s) / max(1, min(s)) if len(s) > 1 else 1)
    return most


def training(r, batch):
    """How it is trained, without the loss and the rate."""
    extra = int(r.integers(0, batch)) if batch > 1 and chance(r, 0.4) else 0
    batches = int(r.integers(1, 4))
    o = {
        "optimizer": optimizer(r),
        "lr": 0.0,
        "schedule": schedule(r),
        "batch": batch,
        "samples": batch * batches + extra,
        "seed": int(r.integers(1, 1000)),
        "shuffle": chance(r, 0.5),
        "validate": 0,
        "checkpoint": chance(r, 0.3),
        "spill": pick(r, SPILL),
        "threads": int(r.integers(1, 5)),
        "weights_to": pick(r, [".safetensors", ".safetensors", "model"]),
    }
    if chance(r, 0.3):
        o["epochs"] = int(r.integers(1, 3))
    else:
        o["steps"] = int(r.integers(1, 6))
    if chance(r, 0.35):
        o["validate"] = int(r.integers(1, 3 * batch + 3))
    return o


class Profile:
    """What nets are like: elements of all tensors of a batch and nodes (from, to), the share that only infers, and how many times more likely some
    operations are than their tables say."""

    def __init__(self, elements=(200_000, 6_000_000), nodes=(1, 12), infer=0.15, favoured=None):
        self.elements, self.nodes, self.infer, self.favoured = elements, nodes, infer, favoured or {}


def make(seed, k, profile=Profile()):
    """Net k of a seed."""
    for attempt in range(100):
        net = try_make(np.random.default_rng([seed, k, attempt]), profile)
        if net:
            return dict(net, seed=seed, number=k)
    raise RuntimeError("no net %d of seed %d" % (k, seed))


def between(r, low, high):
    """Evenly by its logarithm."""
    return int(np.exp(r.uniform(np.log(low), np.log(high))))


def try_make(r, profile):
    dialect = pick(r, ["keras", "onnx"])
    infer_only = chance(r, profile.infer)
    batch = pick(r, [1, 1, 2, 3, 4, 5, 7, 8, 8, 12, 16, 17, 32, 33])
    elements = between(r, *profile.elements)
    g = Grower(r, dialect, batch, elements, between(r, 5_000, 1_500_000), not infer_only, profile.favoured)
    starts(g, r)
    if not g.tensors():
        return None
    target = int(r.integers(*profile.nodes))
    tries = 0
    while len(g.net["nodes"]) < target and tries < 200:
        g.step()
        tries += 1
    if not g.net["nodes"]:
        return None
    size, weights, _ = totals(g.net, g.shapes)
    if (size * batch < 150_000 and chance(r, 0.85)) or (
        weights < 2_000 and chance(r, 0.7)
    ):  # little would have to be cut
        return None
    net = g.net
    if infer_only:
        ends = [g.last]
        if chance(r, 0.3):
            ends += [t for t in [pick(r, g.tensors())] if t not in ends and t in {n["name"] for n in net["nodes"]}]
        net = dict(
            net,
            outputs=ends,
            train=None,
            infer={
                "samples": int(r.integers(1, 3 * batch + 1)),
                "batch": batch,
                "threads": int(r.integers(1, 5)),
                "spill": pick(r, SPILL),
            },
        )
    else:
        loss = pick(r, LOSSES)
        g.elements *= 2
        end = head(g, r, loss)
        if end is None:
            return None
        net = dict(g.net, outputs=[end], train=dict(training(r, batch), loss=loss))
        net["train"]["lr"] = float("%.1g" % min(0.01, pick(r, [0.03, 0.1, 0.3]) / widest(net, g.shapes)))
        if chance(r, 0.1):
            other = [
                n["name"]
                for n in net["nodes"]
                if n["name"] != end and product(g.shapes[n["name"]]) * net["train"]["samples"] < 1_000_000
            ]
            if other:
                net["outputs"].append(pick(r, other))
    if dialect == "keras":
        net.update(form=pick(r, [2, 3, 3]), sequential=True, archive=chance(r, 0.5))
    else:
        net["opset"] = pick(r, [20, 21])
    net["data_seed"] = int(r.integers(1 << 30))
    net = prune(net)
    if not infer_only and not any(
        MODULE[dialect].weight_shapes(n, [g.shapes[x] for x in n["in"]]) for n in net["nodes"]
    ):
        return None
    return net


def small_net():
    """One that has everything which is checked: for the test of the tests."""
    train = {
        "optimizer": "adam:eps=0.001",
        "lr": 0.001,
        "schedule": None,
        "batch": 8,
        "samples": 24,
        "seed": 3,
        "shuffle": False,
        "validate": 5,
        "checkpoint": True,
        "spill": "folder",
        "threads": 1,
        "weights_to": ".safetensors",
        "steps": 3,
        "loss": "mse",
    }
    nodes = [
        {"name": "conv", "op": "Conv", "in": ["in0"], "attr": {"kernel_shape": [3, 3], "_filters": 8}},
        {"name": "flat", "op": "Flatten", "in": ["conv"], "attr": {"axis": 1}},
        {"name": "end", "op": "MatMul", "in": ["flat"], "attr": {"_units": 3}},
    ]
    return {
        "dialect": "onnx",
        "inputs": [{"name": "in0", "shape": [2, 40, 40], "rows": 0}],
        "nodes": nodes,
        "outputs": ["end"],
        "train": train,
        "data_seed": 1,
        "number": 1,
    }


def describe(net):
    """The net, a line for each node."""
    try:
        shapes = shapes_of(net)
    except Bad:
        shapes = {}
    lines = ["%s%s" % (net["dialect"], " (form of Keras %d)" % net["form"] if "form" in net else "")]
    for i in net["inputs"]:
        lines.append("  %-22s input %s%s" % (i["name"], i["shape"], ", rows of %d" % i["rows"] if i["rows"] else ""))
    for n in net["nodes"]:
        options = ", ".join("%s=%s" % kv for kv in n["attr"].items())
        lines.append(
            "  %-22s %s(%s)%s %s -> %s"
            % (
                n["name"],
                n["op"],
                ", ".join(n["in"]),
                " sharing %s" % n["share"] if n.get("share") else "",
                options,
                shapes.get(n["name"]),
            )
        )
    lines.append("  outputs %s" % ", ".join(net["outputs"]))
    lines.append("  %s" % ", ".join("%s=%s" % kv for kv in (net["train"] or net["infer"]).items()))
    return "\n".join(lines)
