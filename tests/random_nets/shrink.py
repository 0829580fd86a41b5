"""Makes a failing net smaller: greedily, any change that leaves the failure there. A change that makes the net
ill-formed, or the failure another one, is not taken."""
import copy
import time

import generate
import run
from keras import Bad


def with_train(net, **changes):
    return dict(net, train={k: v for k, v in dict(net["train"], **changes).items() if v is not None or k == "schedule"})


def replaced(net, old, new):
    """`new` wherever `old` was read, and without the node `old`."""
    nodes = [dict(n, **{"in": [new if x == old else x for x in n["in"]]}) for n in net["nodes"] if n["name"] != old]
    outputs = [new if o == old else o for o in net["outputs"]]
    return dict(net, nodes=nodes, outputs=outputs, inputs=[i for i in net["inputs"] if i["name"] != old])


def fewer_nodes(net):
    names = [n["name"] for n in net["nodes"]]
    for name in names:  # a node in the middle as the output: drops most at once
        if name not in net["outputs"]:
            yield dict(net, outputs=[name])
    for n in reversed(net["nodes"]):
        for x in dict.fromkeys(n["in"]):
            yield replaced(net, n["name"], x)
    for i in net["inputs"]:
        for j in net["inputs"]:
            if i is not j and i["shape"] == j["shape"] and i["rows"] == j["rows"]:
                yield replaced(net, i["name"], j["name"])
    for k in range(1, len(net["outputs"])):
        yield dict(net, outputs=net["outputs"][:k] + net["outputs"][k + 1 :])
    for n in net["nodes"]:
        if len(n["in"]) > 1:
            for k in range(len(n["in"])):
                yield changed_node(net, n, **{"in": n["in"][:k] + n["in"][k + 1 :]})
        if n.get("share"):
            yield changed_node(net, n, share=None)


def changed_node(net, node, **changes):
    return dict(
        net,
        nodes=[
            {k: v for k, v in dict(n, **changes).items() if v is not None} if n is node else n for n in net["nodes"]
        ],
    )


def simpler_training(net):
    t = net["train"]
    if not t:
        o = net["infer"]
        for key, v in (("samples", 1), ("samples", o["samples"] // 2), ("threads", 1), ("spill", "no")):
            if o[key] != v and v != 0:
                yield dict(net, infer=dict(o, **{key: v}))
        return
    if t["loss"] != "mse":
        yield with_train(net, loss="mse")
    for key, v in (
        ("validate", 0),
        ("validate", 1),
        ("checkpoint", False),
        ("spill", "no"),
        ("threads", 1),
        ("shuffle", False),
        ("schedule", None),
        ("optimizer", "sgd"),
        ("optimizer", t["optimizer"].split(":")[0]),
        ("weights_to", ".safetensors"),
    ):
        if t.get(key) != v:
            yield with_train(net, **{key: v})
    if "epochs" in t:
        yield with_train(net, epochs=None, steps=max(1, t["epochs"] * (t["samples"] // t["batch"])))
    else:
        for steps in {1, t["steps"] // 2, t["steps"] - 1}:
            if 0 < steps < t["steps"]:
                yield with_train(net, steps=steps)
    for batch in {1, 2, t["batch"] // 2, t["batch"] - 1}:
        if 0 < batch < t["batch"]:
            yield with_train(net, batch=batch, samples=max(batch, t["samples"] * batch // t["batch"]))
    for samples in {t["batch"], t["samples"] // t["batch"] * t["batch"], t["samples"] // 2}:
        if t["batch"] <= samples < t["samples"]:
            yield with_train(net, samples=samples)
    if t["validate"] > 1:
        yield with_train(net, validate=t["validate"] // 2)


def smaller_numbers(net):
    for k, i in enumerate(net["inputs"]):
        for d, n in enumerate(i["shape"]):
            for m in {n // 2, n - n // 4, n - 1}:
                if 0 < m < n:
                    shape = i["shape"][:d] + [m] + i["shape"][d + 1 :]
                    yield dict(net, inputs=net["inputs"][:k] + [dict(i, shape=shape)] + net["inputs"][k + 1 :])
    for n in net["nodes"]:
        for key, v in n["attr"].items():
            yield changed_node(net, n, attr={a: b for a, b in n["attr"].items() if a != key})
            if isinstance(v, bool) or not isinstance(v, (int, list)):
                continue
            smaller = [w for w in {1, v // 2, v - 1} if 0 < w < v] if isinstance(v, int) else []
            if isinstance(v, list) and all(isinstance(w, int) for w in v):
                smaller = [[1] * len(v), [max(1, w // 2) for w in v], [max(1, w - 1) for w in v]]
            for w in smaller:
                if w != v:
                    yield changed_node(net, n, attr=dict(n["attr"], **{key: w}))


def well_formed(net):
    try:
        net = generate.prune(copy.deepcopy(net))
        shapes = generate.shapes_of(net)
    except (Bad, KeyError, IndexError, TypeError, ValueError, AttributeError, ZeroDivisionError):
        return None
    if not net["nodes"] or not net["inputs"] or any(o in {i["name"] for i in net["inputs"]} for o in net["outputs"]):
        return None
    t = net["train"]
    if t:
        module = generate.MODULE[net["dialect"]]
        if not any(module.weight_shapes(n, [shapes[x] for x in n["in"]]) for n in net["nodes"]):
            return None
        last = next(n for n in net["nodes"] if n["name"] == net["outputs"][0])
        if t["loss"] in ("ce", "sparse-ce", "bce"):
            wanted = "sigmoid" if t["loss"] == "bce" else "softmax"
            if last["op"].lower() != wanted and last["attr"].get("activation") != wanted:
                return None
        if t["loss"] in generate.CLASSES and (not shapes[last["name"]] or shapes[last["name"]][-1] < 2):
            return None
    return net


def verb(failure):
    return failure["text"].split()[0]


def shrink(net, failure, settings, folder, seconds=120):
    """@return (the smallest net found, its failures)"""
    end = time.monotonic() + seconds
    until = copy.copy(settings)
    until.until, until.focus = (failure["class"], verb(failure)), failure["stage"]
    until.prefer = failure["text"]
    best, found = net, None
    progress = True
    while progress and time.monotonic() < end:
        progress = False
        for step in (simpler_training, fewer_nodes, smaller_numbers):
            again = True
            while again and time.monotonic() < end:
                again = False
                for candidate in step(best):
                    if time.monotonic() > end:
                        break
                    candidate = well_formed(candidate)
                    if candidate is None or candidate == best:
                        continue
                    failures, _ = run.judge(candidate, until, folder)
                    same = [f for f in failures if f["class"] == failure["class"] and verb(f) == verb(failure)]
                    if same:
                        best, found, again, progress = candidate, same, True, True
                        break
    failures, _ = run.judge(best, until, folder)
    same = [f for f in failures if f["class"] == failure["class"] and verb(f) == verb(failure)]
    return best, same or found or [failure]
