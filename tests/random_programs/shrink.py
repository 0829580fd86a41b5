"""Makes a failing program small: fewer outputs, statements, operations; smaller and plainer inputs; one thread, an
ample budget. A step is kept when the program still fails in the same way."""
import dataclasses
import time

from generate import pruned
from program import is_list, walk, walk_children, with_children
from run import Failure
from values import KIND, Reject, Val


class Shrinker:
    def __init__(self, runner, seconds=40, runs=250):
        self.runner = runner
        self.until = time.monotonic() + seconds
        self.left = runs
        self.envs = {}

    def failure(self, p):
        """(Failure or None, expected) of a candidate; None, None where the oracle refuses it."""
        try:
            expected = p.run(self.input_env(p))
        except (Reject, ValueError, IndexError, ZeroDivisionError):
            return None, None
        if not all(isinstance(v, Val) or is_list(v) for v in expected.values()):
            return None, None
        self.left -= 1
        try:
            self.runner.check(p, expected)
        except Failure as f:
            return f, expected
        return None, expected

    def input_env(self, p):
        env = {}
        for i in p.inputs:
            if i not in self.envs:
                if len(self.envs) > 20:
                    self.envs.clear()
                self.envs[i] = i.val()
            env[i.name] = self.envs[i]
        return env

    def shrink(self, p, failure, expected):
        best, fail, want = p, failure, expected
        changed = True
        while changed and self.left > 0 and time.monotonic() < self.until:
            changed = False
            for candidate in candidates(best, self):
                if self.left <= 0 or time.monotonic() > self.until:
                    break
                f, e = self.failure(candidate)
                if f is not None and f.kind == fail.kind:
                    best, fail, want, changed = candidate, f, e, True
                    break
        return best, fail, want


def replace_node(n, old, new):
    if n is old:
        return new
    kids = walk_children(n)
    if not kids:
        return n
    done = [replace_node(k, old, new) for k in kids]
    return n if all(a is b for a, b in zip(done, kids)) else with_children(n, done)


def candidates(p, s):
    """Programs a step simpler than p, the boldest first."""
    for name in p.outputs:
        if len(p.outputs) > 1:
            yield pruned(dataclasses.replace(p, outputs=(name,)))
    # the operands of the last statement instead of itself, and statements cut off at the end
    for k in range(len(p.statements)):
        name, n = p.statements[k]
        if isinstance(name, tuple):
            for other in name:
                if other in p.outputs:
                    yield pruned(dataclasses.replace(p, outputs=(other,)))
            continue
        for child in walk_children(n):
            if child[0] in ("call", "op", "idx", "attr", "ref"):
                yield pruned(with_statement(p, k, child))
    # inlined, so that the tree can be cut through
    for k in range(len(p.statements)):
        name, n = p.statements[k]
        if isinstance(name, str) and name and name not in p.outputs:
            uses = sum(1 for _, m in p.statements for x in walk(m) if x == ("ref", name))
            if uses == 1:
                later = tuple((a, substitute(b, name, n)) for j, (a, b) in enumerate(p.statements) if j != k)
                yield dataclasses.replace(p, statements=later)
    # an operation inside a statement replaced by one of its own operands, or by an input
    for k, (name, n) in enumerate(p.statements):
        for x in list(walk(n)):
            if x[0] in ("call", "op", "idx", "attr") and x is not n:
                for child in walk_children(x):
                    if child[0] in ("call", "op", "idx", "attr", "ref"):
                        yield pruned(with_statement(p, k, replace_node(n, x, child)))
    for k, (name, n) in enumerate(p.statements):
        for x in list(walk(n)):
            if x[0] == "call" and x[4]:
                for j in range(len(x[4])):
                    yield with_statement(p, k, replace_node(n, x, x[:4] + (x[4][:j] + x[4][j + 1:],)))
            if x[0] == "call" and x[2] in ("method", "np."):
                yield with_statement(p, k, replace_node(n, x, x[:2] + ("function",) + x[3:]))
            if x[0] == "idx" and len(x[2]) > 1:
                for j in range(len(x[2])):
                    yield with_statement(p, k, replace_node(n, x, ("idx", x[1], x[2][:j] + x[2][j + 1:])))
            if x[0] == "list" and len(x[1]) > 1:
                for j in range(len(x[1])):
                    yield with_statement(p, k, replace_node(n, x, ("list", x[1][:j] + x[1][j + 1:])))
            if x[0] == "idx":
                for j, sub in enumerate(x[2]):
                    if sub is None or sub is Ellipsis:
                        continue
                    if isinstance(sub, slice) and sub != slice(None, None, sub.step):
                        yield with_statement(p, k, replace_node(n, x, ("idx", x[1], x[2][:j]
                                                                       + [slice(None, None, sub.step)] + x[2][j + 1:])))
    if p.spill:
        yield dataclasses.replace(p, spill=False)
    if p.threads > 1:
        yield dataclasses.replace(p, threads=1)
    if p.share < 1:
        yield dataclasses.replace(p, share=1.0)
    for k, i in enumerate(p.inputs):
        simpler = []
        if i.container == "npz" or i.container == "raw" and i.t != "bf16":
            simpler.append({"container": "npy", "offset": 0})
        if i.offset:
            simpler.append({"offset": 0})
        if i.swap:
            simpler.append({"swap": False})
        if i.order == "F":
            simpler.append({"order": "C"})
        if i.t == "bf16":
            simpler.append({"t": "f32", "container": "npy", "offset": 0})
        for t in ("f32", "i32") if i.t not in ("f32", "i32") else ():
            simpler.append({"t": t})
        if i.values != "small":
            simpler.append({"values": "small"})
        if i.seed:
            simpler.append({"seed": 0})
        for d, extent in enumerate(i.shape):
            for smaller in sorted({2, extent // 2, extent // 10, extent - 1}):
                if 1 <= smaller < extent and not (extent - smaller == 1 and extent > 40):
                    simpler.append({"shape": i.shape[:d] + (smaller,) + i.shape[d + 1:]})
        for change in simpler:
            try:
                j = dataclasses.replace(i, **change)
                if KIND[j.t] == "b":
                    j = dataclasses.replace(j, values="bits")
                if j.values in ("extreme", "wide") and KIND[j.t] not in "ui":
                    continue
                # inputs of one shape shrink together
                others = tuple(dataclasses.replace(o, shape=j.shape) if "shape" in change and o is not i
                               and o.shape == i.shape else o for o in p.inputs)
                yield dataclasses.replace(p, inputs=others[:k] + (j,) + others[k + 1:])
            except ValueError:
                continue


def with_statement(p, k, node):
    name, _ = p.statements[k]
    return dataclasses.replace(p, statements=p.statements[:k] + ((name, node),) + p.statements[k + 1:])


def substitute(n, name, by):
    if n == ("ref", name):
        return by
    kids = walk_children(n)
    return with_children(n, [substitute(c, name, by) for c in kids]) if kids else n
