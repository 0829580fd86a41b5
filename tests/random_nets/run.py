"""Runs a net at several budgets, each inside a memory cgroup as large as the budget, and says what is wrong.

judge(net, settings, folder) returns a list of failures, each {"class", "text", "commands"}; empty: all is well.
Classes, the most serious first:

    crash, killed, verifier, internal       ended by a signal; by the kernel; a plan was rejected when it was used
    losses, weights, validation, outputs    numbers that differ between budgets
    torch, resume                           from PyTorch's; from those of an uninterrupted run
    floor, refused                          a printed floor is refused; a budget above it is
    plan-floor, floors                      train refuses plan's floor; floors that should be the same differ
    peak, planned                           VmHWM is above the planned peak; that is above the budget
    litter, slow, error                     files left behind; no end; anything else
"""
import json
import os
import re
import shlex
import shutil
import subprocess

import numpy as np

import files
import generate

AMPLE = 2 << 30
PATIENCE = 5.0  # seconds: a training that the plan itself says takes longer is planned and not run
PAGE = 4096
CLASSES = [
    "crash",
    "killed",
    "verifier",
    "internal",
    "losses",
    "weights",
    "validation",
    "outputs",
    "torch",
    "resume",
    "floor",
    "refused",
    "plan-floor",
    "floors",
    "peak",
    "planned",
    "litter",
    "slow",
    "error",
]
RELATIVE = 1e-5  # losses, validation, weights and outputs between budgets


def same_floor(a, b):
    """The same plans are the floor; where planning itself needs more, its pages differ a little from one start to the next."""
    return abs(a - b) <= max(0.01 * b, 384 << 10)


def nudge(g, a):
    return np.nextafter(a, np.where(g.random(a.shape) < 0.5, np.float32(np.inf), np.float32(-np.inf)).astype(np.float32))


class Settings:
    def __init__(self, plimsoll, groups=None, thorough=True, torch=False, timeout=300, plans_only=False, measured=True):
        self.until = None  # (class, first word of the text): judging ends with such a failure
        self.focus = None  # only this stage of judging
        self.prefer = None  # the text of a failure
        self.plimsoll, self.groups, self.thorough, self.torch, self.timeout, self.plans_only, self.measured = (
            plimsoll,
            groups,
            thorough,
            torch,
            timeout,
            plans_only,
            measured,
        )


class Result:
    """One run: its exit code, stdout as JSON if it is, stderr."""

    def __init__(self, argv, code, out, err, killed, slow):
        self.argv, self.code, self.err, self.killed, self.slow = argv, code, err.strip(), killed, slow
        try:
            self.json = json.loads(out)
        except ValueError:
            self.json = {}

    def said(self):
        return self.err.splitlines()[0][:300] if self.err else ""


def shell(argv, budget=None):
    """The command; cgroup_run is tests/lib/cgroup.sh's."""
    text = " ".join(shlex.quote(a) for a in argv)
    return text if budget is None else "cgroup_run %d %s" % (budget, text)


class Stop(Exception):
    """The failure that is looked for is there."""


class Judge:
    relative, absolute = RELATIVE, 1e-7  # how far numbers of a training may differ between budgets

    def __init__(self, net, settings, folder):
        self.net, self.set, self.folder, self.failures = net, settings, folder, []
        self.ill, self.stage = [], "start"
        self.runs = self.long = 0
        self.compared = self.diverges = False
        self.t = net["train"]
        self.model = files.model_name(net)
        self.apart = self.model.endswith(".json")  # its weights are in a file of their own

    def fail(self, kind, text, *commands):
        self.failures.append({"class": kind, "text": text, "stage": self.stage, "commands": [c for c in commands if c]})
        if self.set.until in ((kind, text.split()[0]), (kind, None)):
            raise Stop

    # ---------------------------------------------------------------------------------------------------------- running
    def run(self, argv, limit=None):
        """@param limit  bytes of the cgroup; None: none"""
        self.runs += 1
        group = self.set.groups.make(limit) if self.set.groups and limit else None
        argv = [self.set.plimsoll] + argv
        command = ["sh", "-c", 'echo $$ >"$0/cgroup.procs" && exec "$@"', group] + argv if group else argv
        slow = False
        child = subprocess.Popen(
            command,
            cwd=self.folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        try:
            out, err = child.communicate(timeout=self.set.timeout)
        except subprocess.TimeoutExpired:
            slow = True
            child.kill()
            out, err = child.communicate()
        killed = False
        if group:
            killed = self.set.groups.killed(group)
            self.set.groups.remove(group)
        return Result(argv, child.returncode, out, err, killed, slow)

    def sound(self, r, what, budget=None, refusal=None):
        """Whether a run ended well; otherwise what is wrong is noted. @param refusal  the class of an exit code of 3;
        None: it may refuse"""
        command = shell(r.argv, budget)
        if r.slow:
            self.fail("slow", "%s: no end after %d s" % (what, self.set.timeout), command)
        elif r.killed:
            self.fail("killed", "%s: killed by the kernel" % what, command)
        elif r.code < 0:
            self.fail("crash", "%s: ended by signal %d: %s" % (what, -r.code, r.said()), command)
        elif re.search(r"\bI\d+:", r.err):
            self.fail("verifier", "%s: %s" % (what, r.said()), command)
        elif re.search(r"internal|assert|Sanitizer", r.err):
            self.fail("internal", "%s: %s" % (what, r.said()), command)
        elif r.code == 3 and refusal:
            self.fail(refusal, "%s: %s" % (what, r.said()), command)
        elif r.code == 1 and " the loss is " in r.err and budget == AMPLE:
            self.diverges = True  # there is nothing to compare with
        elif r.code not in (0, 3):
            self.fail("error", "%s: exit code %d: %s" % (what, r.code, r.said()), command)
        return r.code == 0 and not r.slow

    def within(self, r, what, budget):
        """The peak that the kernel saw, the planned one, the budget."""
        peak, planned = r.json.get("peak_rss_bytes", 0), r.json.get("planned_peak_bytes", 0)
        if peak > planned and self.set.measured:
            self.fail(
                "peak",
                "%s: VmHWM %d is %d bytes above the planned peak %d" % (what, peak, peak - planned, planned),
                shell(r.argv, budget),
            )
        if r.json.get("rejected_plans", 0):
            self.fail("verifier", "%s: %d plans were rejected" % (what, r.json["rejected_plans"]), shell(r.argv, budget))
        if planned > budget:
            self.fail("planned", "%s: planned %d in a budget of %d" % (what, planned, budget), shell(r.argv, budget))

    def floor_of(self, argv, what):
        """The floor that a refusal of 1 MiB prints: in its JSON, and in its message."""
        r = self.run(argv + ["--memory", "1M", "--json"])
        self.sound(r, what)
        floor = r.json.get("floor_bytes")
        said = re.search(r"\(--memory (\d+)\)", r.err)
        if r.code == 3 and said and floor is not None and int(said.group(1)) != floor:
            self.fail("floors", "%s: the message says %s, the JSON %d" % (what, said.group(1), floor), shell(r.argv))
        if r.code == 0:
            return r.json.get("floor_bytes", 1 << 20)
        return floor

    # ---------------------------------------------------------------------------------------------------------- options
    def train_argv(self, steps=None, validate=True):
        t, argv = self.t, ["train", self.model, "--weights", "w.safetensors"] if self.apart else ["train", self.model]
        for i in self.net["inputs"]:
            argv += ["--data", "%s=%s.npy" % (i["name"], i["name"])]
        argv += [
            "--target",
            "y.npy",
            "--loss",
            t["loss"],
            "--optimizer",
            t["optimizer"],
            "--lr",
            "%g" % t["lr"],
            "--batch",
            str(t["batch"]),
            "--seed",
            str(t["seed"]),
            "--threads",
            str(t["threads"]),
        ]
        if t["schedule"]:
            argv += ["--lr-schedule", t["schedule"]]
        argv += (
            ["--steps", str(steps)]
            if steps
            else ["--epochs", str(t["epochs"])]
            if "epochs" in t
            else ["--steps", str(t["steps"])]
        )
        if not t["shuffle"]:
            argv += ["--no-shuffle"]
        if t["validate"] and validate:
            for i in self.net["inputs"]:
                argv += ["--validate", "%s=v_%s.npy" % (i["name"], i["name"])]
            argv += ["--validate-target", "v_y.npy"]
        return argv + self.spill_argv(t)

    def spill_argv(self, o):
        """Into a folder of its own, into this one, or nowhere."""
        return {"folder": ["--spill", "spill"], "here": [], "no": ["--no-spill"]}[o["spill"]]

    def budgets(self, floor):
        """(name, bytes), from the floor up; the last is ample."""
        some = [
            ("the floor", floor),
            ("the floor and a page", floor + PAGE),
            ("1.02 x the floor", int(floor * 1.02)),
            ("1.1 x the floor", int(floor * 1.1)),
            ("1.5 x the floor", int(floor * 1.5)),
            ("2 x the floor", 2 * floor),
        ]
        if not self.set.thorough:
            k = (self.net.get("number", 0) + self.net.get("seed", 0)) % 5
            some = [some[0], some[1 + k]]
        if self.set.prefer:  # the budget that showed the failure comes first
            some.sort(
                key=lambda b: " in %s (" % b[0] not in self.set.prefer and " and %s (" % b[0] not in self.set.prefer
            )
        return some

    # --------------------------------------------------------------------------------------------------------- training
    def wanted(self, stage):
        """Whether to do this. A shrinking net only does what showed its failure."""
        self.stage = stage
        return self.set.focus in (None, stage)

    def train(self):
        floor = self.floor_of(self.train_argv(), "train at 1 MiB")
        if floor is None:
            return
        if self.wanted("floors"):
            planned = self.run(self.train_argv() + ["--plan-only", "--json", "--memory", str(AMPLE)])
            if self.sound(planned, "train --plan-only") and self.set.measured and not same_floor(planned.json["floor_bytes"], floor):
                self.fail(
                    "floors",
                    "train refuses 1 MiB with a floor of %d, and says %s in a plan of 2 GiB"
                    % (floor, planned.json.get("floor_bytes")),
                    shell(planned.argv),
                )
        if self.wanted("plan"):
            self.plan_floor(floor)
        if self.wanted("sweep"):
            self.sweep(floor)
        if self.set.plans_only:
            return
        whole = None
        if self.wanted("whole") or self.set.focus in ("numbers", "torch", "infer"):
            whole = self.trained(AMPLE, "2 GiB", "whole")
            if whole is None:
                return
        if self.wanted("budgets") or self.wanted("numbers"):
            for name, budget in self.budgets(floor):
                self.stage = "budgets"
                if not self.quick_enough(budget, name, "floor" if budget == floor else "refused"):
                    continue
                r = self.trained(budget, name, "part", "floor" if budget == floor else "refused")
                if r is not None and whole is not None:
                    self.stage = "numbers"
                    self.compare_training(whole, r, name, budget)
        if self.t["checkpoint"] and self.wanted("resume"):
            self.resume(floor)
        if self.set.torch and self.wanted("torch"):
            import oracle

            oracle.compare(self, whole)

    def quick_enough(self, budget, name, refusal):
        """Whether to run it in this budget: it has a plan, and the plan does not say that it takes long."""
        r = self.run(self.train_argv() + ["--plan-only", "--json", "--memory", str(budget)])
        if not self.sound(r, "train --plan-only in %s (%d)" % (name, budget), budget, refusal):
            return False
        if r.json["planned_seconds"] * self.total_steps() <= PATIENCE:
            return True
        self.long += 1
        return False

    def sweep(self, floor):
        """Plans alone, at more budgets: those above the floor may not be refused, and the verifier has to accept what
        the planner made."""
        steps = 12 if self.set.plans_only else 8 if self.set.thorough else 1
        g = np.random.default_rng([self.net["data_seed"], 3])
        for factor in np.exp(g.uniform(np.log(1.001), np.log(2.5), steps)):
            budget = int(floor * factor)
            r = self.run(self.train_argv() + ["--plan-only", "--json", "--memory", str(budget)])
            if (
                self.sound(r, "train --plan-only in %.3f x the floor (%d)" % (factor, budget), budget, "refused")
                and r.json["planned_peak_bytes"] > budget
            ):
                self.fail(
                    "planned",
                    "train plans %d in a budget of %d" % (r.json["planned_peak_bytes"], budget),
                    shell(r.argv),
                )

    def plan_floor(self, floor):
        """`plan`'s floor has to do for `train`, too. Under a sanitizer the one process is not as large as the other."""
        if not self.set.measured:
            return
        t = self.t
        argv = [
            "plan",
            self.model,
            "--train",
            t["optimizer"],
            "--loss",
            t["loss"],
            "--batch",
            str(t["batch"]),
            "--threads",
            str(t["threads"]),
        ]
        argv += self.spill_argv(t)
        mine = self.floor_of(argv, "plan at 1 MiB")
        if mine is None:
            return
        same = floor
        if t["validate"]:
            same = self.floor_of(self.train_argv(validate=False), "train at 1 MiB without validation")
            if same is not None and same > floor and not same_floor(same, floor):
                self.fail("floors", "train's floor is %d with validation, %d without" % (floor, same))
        if same is None:
            return
        if mine < same and not self.set.plans_only:  # it was printed, so it has to do
            argv2 = self.train_argv(validate=False) + ["--memory", str(mine), "--plan-only", "--json"]
            self.sound(self.run(argv2, mine), "train in plan's floor (%d)" % mine, mine, "plan-floor")
        if not same_floor(mine, same):
            self.fail(
                "floors",
                "plan's floor is %d, train's %d" % (mine, same),
                shell([self.set.plimsoll] + argv + ["--memory", "1M"]),
                shell([self.set.plimsoll] + self.train_argv(validate=False) + ["--memory", "1M"]),
            )

    def trained(self, budget, name, prefix, refusal="refused", extra=(), output=None):
        """@return the run with .weights; None: it did not end well"""
        out = output or prefix + ".safetensors"
        argv = self.train_argv() + ["--memory", str(budget), "--json", "-o", out] + list(extra)
        if self.t["checkpoint"] and not extra:
            argv += ["--checkpoint", prefix + ".checkpoint", "--checkpoint-every", "2"]
        r = self.run(argv, budget)
        self.litter(name, r, budget)
        if not self.sound(r, "train in %s (%d)" % (name, budget), budget, refusal):
            self.remove(prefix)
            return None
        self.within(r, "train in %s (%d)" % (name, budget), budget)
        r.weights = files.read_safetensors(os.path.join(self.folder, out))
        r.name = name
        if prefix != "whole":
            self.remove(prefix)
        return r

    def remove(self, prefix):
        for end in (".safetensors", ".checkpoint"):
            try:
                os.remove(os.path.join(self.folder, prefix + end))
            except FileNotFoundError:
                pass

    def litter(self, name, r, budget):
        there = [f for f in os.listdir(os.path.join(self.folder, "spill"))] + [
            f for f in os.listdir(self.folder) if f.endswith("plimsoll-tmp") or f.startswith(".")
        ]
        if there and not r.slow and not r.killed and r.code >= 0:
            self.fail("litter", "%s: left behind: %s" % (name, ", ".join(there[:5])), shell(r.argv, budget))
        for f in os.listdir(os.path.join(self.folder, "spill")):
            os.remove(os.path.join(self.folder, "spill", f))

    def compare_training(self, whole, r, name, budget):
        for kind, a, b in (
            ("losses", whole.json["loss"], r.json["loss"]),
            (
                "validation",
                [v["loss"] for v in whole.json.get("validation", [])],
                [v["loss"] for v in r.json.get("validation", [])],
            ),
        ):
            a, b = np.array(a, float), np.array(b, float)
            if a.shape != b.shape:
                self.fail(
                    kind, "%s: %d of them in 2 GiB, %d in %s" % (name, len(a), len(b), name), shell(r.argv, budget)
                )
                continue
            far = np.abs(a - b)
            if (far > self.relative * np.abs(a) + self.absolute).any() and not self.shaky(kind, far):
                self.fail(
                    kind,
                    "%s differ between 2 GiB and %s (%d): %s and %s" % (kind, name, budget, a.tolist(), b.tolist()),
                    shell(whole.argv, AMPLE),
                    shell(r.argv, budget),
                )
        if sorted(whole.weights) != sorted(r.weights):
            self.fail(
                "weights",
                "%s: tensors %s and %s" % (name, sorted(whole.weights), sorted(r.weights)),
                shell(r.argv, budget),
            )
            return
        for key, a in whole.weights.items():
            far = np.abs(a.astype(float) - r.weights[key])
            bound = self.relative * (np.abs(a).max() if a.size else 0) + self.absolute
            if far.size and far.max() > bound and not self.shaky("weights", far, key):
                self.fail(
                    "weights",
                    "'%s' differs between 2 GiB and %s (%d) by up to %g, of %g"
                    % (key, name, budget, far.max(), np.abs(a).max()),
                    shell(whole.argv, AMPLE),
                    shell(r.argv, budget),
                )
                break

    # ----------------------------------------------------------------------------------------------------- conditioning
    def shaky(self, kind, far, key=None):
        """Whether a change of the initial weights and data by one unit in the last place moves these numbers as far:
        then float32 does not determine them, and a
        difference between budgets, which round differently, says nothing."""
        if not hasattr(self, "moved"):
            self.moved = [self.nudged(k) for k in range(3)]
        reach = 0.0
        for m in self.moved:
            if m is None:
                continue
            if kind == "weights":
                reach = max(reach, float(np.abs(m.weights[key].astype(float) - self.whole_numbers.weights[key]).max()))
            else:
                pick = (
                    (lambda r: [v["loss"] for v in r.json.get("validation", [])])
                    if kind == "validation"
                    else (lambda r: r.json["loss"])
                )
                reach = max(
                    reach, float(np.abs(np.array(pick(m), float) - np.array(pick(self.whole_numbers), float)).max())
                )
        shaky = reach * 4 >= far.max()
        if shaky:
            self.ill.append("%s %s: %g, nudged %g" % (kind, key or "", far.max(), reach))
        return shaky

    def nudged_data(self, g, argv):
        """The arguments with data of which each number is one unit in the last place larger or smaller. Not where an
        operator jumps."""
        if any(generate.DIALECT[self.net["dialect"]][n["op"]].exact for n in self.net["nodes"]):
            return argv
        for i in self.net["inputs"]:
            name = i["name"] + ".npy"
            a = np.load(os.path.join(self.folder, name))
            if a.dtype == np.float32:
                np.save(os.path.join(self.folder, "nudged_" + name), nudge(g, a))
                argv = [x.replace("%s=%s" % (i["name"], name), "%s=nudged_%s" % (i["name"], name)) for x in argv]
        return argv

    def nudged(self, k):
        """The same training from weights and data of which each is one unit in the last place larger or smaller."""
        weights = (
            files.read_safetensors(os.path.join(self.folder, "initial.safetensors"))
            if os.path.exists(os.path.join(self.folder, "initial.safetensors"))
            else None
        )
        if weights is None:
            r = self.run(
                self.train_argv()
                + ["--memory", str(AMPLE), "--json", "-o", "same.safetensors", "--initial", "initial.safetensors"]
            )
            if r.code != 0:
                self.whole_numbers = None
                return None
            r.weights = files.read_safetensors(os.path.join(self.folder, "same.safetensors"))
            self.whole_numbers = r
            weights = files.read_safetensors(os.path.join(self.folder, "initial.safetensors"))
        g = np.random.default_rng([99, k])
        for key, a in weights.items():
            if a.dtype == np.float32:
                weights[key] = nudge(g, a)
        files.write_safetensors(os.path.join(self.folder, "nudged.safetensors"), weights)
        argv = self.nudged_data(g, self.train_argv())
        if "--weights" in argv:
            at = argv.index("--weights")
            del argv[at : at + 2]
        r = self.run(
            argv + ["--weights", "nudged.safetensors", "--memory", str(AMPLE), "--json", "-o", "nudged-out.safetensors"]
        )
        if r.code != 0:
            return None
        r.weights = files.read_safetensors(os.path.join(self.folder, "nudged-out.safetensors"))
        return r

    # --------------------------------------------------------------------------------------------------------- resuming
    def total_steps(self):
        return self.t["steps"] if "steps" in self.t else self.t["epochs"] * (self.t["samples"] // self.t["batch"])

    def resume(self, floor):
        """Stopped in the middle and resumed: the same bits. Schedules that depend on the number of steps cannot be
        stopped early, so only others are."""
        total = self.total_steps()
        if total < 2 or (self.t["schedule"] and not self.t["schedule"].startswith("step")):
            return
        k = self.net.get("number", 0)
        name, budget = [("the floor", floor), ("2 GiB", AMPLE), ("1.1 x the floor", int(1.1 * floor))][k % 3]
        if not self.quick_enough(budget, name, "floor" if budget == floor else "refused"):
            return
        tail = ["--memory", str(budget), "--json"]
        straight = self.trained(
            budget,
            name,
            "straight",
            "floor" if budget == floor else "refused",
            ["--checkpoint", "straight.checkpoint", "--checkpoint-every", "1"],
        )
        if straight is None:
            return
        first = self.run(
            self.train_argv(steps=max(1, total // 2))
            + tail
            + ["--checkpoint", "c.checkpoint", "--checkpoint-every", "1", "-o", "half.safetensors"],
            budget,
        )
        if not self.sound(first, "the first half, in %s" % name, budget, "refused"):
            return
        second = self.run(
            self.train_argv(steps=total)
            + tail
            + ["--checkpoint", "c.checkpoint", "--checkpoint-every", "1", "--resume", "-o", "resumed.safetensors"],
            budget,
        )
        if not self.sound(second, "resumed in %s" % name, budget, "refused"):
            return
        self.within(second, "resumed in %s (%d)" % (name, budget), budget)
        other = files.read_safetensors(os.path.join(self.folder, "resumed.safetensors"))
        wrong = [key for key, a in straight.weights.items() if key not in other or a.tobytes() != other[key].tobytes()]
        if wrong:
            self.fail(
                "resume",
                "resumed in %s: %d of %d tensors are not those of an uninterrupted run, '%s' among them"
                % (name, len(wrong), len(other), wrong[0]),
                shell(straight.argv, budget),
                shell(first.argv, budget),
                shell(second.argv, budget),
            )

    # -------------------------------------------------------------------------------------------------------- inference
    def infer_argv(self, weights):
        o = self.net["infer"] if not self.t else self.t
        argv = ["infer", self.model]
        if weights:
            argv += ["--weights", weights]
        argv += ["%s=%s.npy" % (i["name"], i["name"]) for i in self.net["inputs"]]
        argv += ["--threads", str(o["threads"])]
        return argv + self.spill_argv(o)

    def infer(self):
        weights = "whole.safetensors" if self.t else "w.safetensors" if self.apart else None
        if weights and not os.path.exists(os.path.join(self.folder, weights)):
            return
        argv = self.infer_argv(weights)
        named = self.out_names()
        outs = lambda p: [a for k, n in enumerate(named) for a in ("-o", "%s=%s%d.npy" % (n, p, k))]  # noqa: E731
        whole = self.inferred(argv + outs("whole"), AMPLE, "2 GiB", "whole", len(named), "refused")
        if whole is None:
            return
        if self.t and self.t["weights_to"] == "model" and not self.apart and self.wanted("infer"):
            self.trained_copy(argv, named)
        floor = self.floor_of(argv + outs("out"), "infer at 1 MiB")
        if floor is None:
            return
        budgets = self.budgets(floor)
        for name, budget in budgets if self.set.thorough else budgets[: 1 + (self.t is None)]:
            r = self.inferred(
                argv + outs("part"), budget, name, "part", len(named), "floor" if budget == floor else "refused"
            )
            if r is None:
                continue
            for k, (a, b) in enumerate(zip(whole, r)):
                if a.shape != b.shape or a.dtype != b.dtype:
                    self.fail(
                        "outputs",
                        "output %d is %s %s in 2 GiB, %s %s in %s" % (k, a.dtype, a.shape, b.dtype, b.shape, name),
                        shell([self.set.plimsoll] + argv, budget),
                    )
                elif a.size:
                    self.compare_outputs(k, a, b, name, budget, argv + outs("part"))

    def trained_copy(self, argv, named):
        """A training that writes a copy of the model: it infers what the model infers with the trained weights, to
        the bit."""
        copy = "copy" + os.path.splitext(self.model)[1]
        r = self.run(self.train_argv() + ["--memory", str(AMPLE), "--json", "-o", copy], AMPLE)
        if not self.sound(r, "train to a copy of the model", AMPLE, "refused"):
            return
        outs = lambda p: [a for k, n in enumerate(named) for a in ("-o", "%s=%s%d.npy" % (n, p, k))]  # noqa: E731
        at = argv.index("--weights")
        copied = argv[:1] + [copy] + argv[2:at] + argv[at + 2 :]
        ours, theirs = (
            self.inferred(a + outs("copy"), AMPLE, "2 GiB", "copy", len(named), "refused") for a in (argv, copied)
        )
        if ours is not None and theirs is not None and any(a.tobytes() != b.tobytes() for a, b in zip(ours, theirs)):
            self.fail(
                "outputs",
                "infer from a trained copy of the model gives other bits than from its weights",
                shell(r.argv),
                shell([self.set.plimsoll] + copied),
            )

    def out_names(self):
        """As plimsoll names them: a Keras layer that is called again has its first name, and what is then there twice
        a number."""
        first = {n["name"]: n["share"] for n in self.net["nodes"] if n.get("share") and self.net["dialect"] == "keras"}
        names = []
        for k, o in enumerate(self.net["outputs"]):
            name = first.get(o, o)
            names.append("%s_%d" % (name, k) if name in names else name)
        return names

    def compare_outputs(self, k, a, b, name, budget, argv):
        if a.dtype.kind != "f":
            wrong = int((a != b).sum())
            if wrong:
                self.fail(
                    "outputs",
                    "output %d in %s: %d of %d elements differ from those in 2 GiB" % (k, name, wrong, a.size),
                    shell([self.set.plimsoll] + argv + ["--memory", str(budget)], budget),
                )
            return
        both = (np.isnan(a) & np.isnan(b)) | (a == b)
        with np.errstate(invalid="ignore"):
            far = np.where(both, 0, np.abs(a.astype(float) - b))
        far = np.where(np.isnan(far), np.inf, far)
        finite = np.abs(a[np.isfinite(a)])
        bound = RELATIVE * (finite.max() if finite.size else 0) + 1e-7
        if far.max() > bound and not self.shaky_outputs(far.max(), k):
            self.fail(
                "outputs",
                "output %d in %s (%d) differs from that in 2 GiB by up to %g, of %g, in %d of %d elements"
                % (k, name, budget, far.max(), finite.max() if finite.size else 0, int((far > bound).sum()), a.size),
                shell([self.set.plimsoll] + argv + ["--memory", str(budget)], budget),
            )

    def shaky_outputs(self, far, k):
        """As shaky, for inputs that are moved by one unit in the last place."""
        weights = "whole.safetensors" if self.t else "w.safetensors" if self.apart else None
        g = np.random.default_rng(98)
        argv = ["infer", self.model] + (["--weights", weights] if weights else [])
        for i in self.net["inputs"]:
            x = np.load(os.path.join(self.folder, i["name"] + ".npy"))
            if x.dtype == np.float32:
                x = np.nextafter(x, np.where(g.random(x.shape) < 0.5, np.float32(np.inf), np.float32(-np.inf)))
            np.save(os.path.join(self.folder, "nudged_" + i["name"] + ".npy"), x)
            argv.append("%s=nudged_%s.npy" % (i["name"], i["name"]))
        name = self.out_names()[k]
        r = self.run(argv + ["-o", "%s=nudged_out.npy" % name, "--memory", str(AMPLE)])
        s = self.run(self.infer_argv(weights) + ["-o", "%s=same_out.npy" % name, "--memory", str(AMPLE)])
        if r.code != 0 or s.code != 0:
            return False
        a, b = (np.load(os.path.join(self.folder, f)).astype(float) for f in ("nudged_out.npy", "same_out.npy"))
        with np.errstate(invalid="ignore"):
            reach = np.nanmax(np.abs(a - b)) if a.size else 0
        if reach * 4 >= far:
            self.ill.append("output %d: %g, nudged %g" % (k, far, reach))
            return True
        return False

    def inferred(self, argv, budget, name, prefix, n, refusal):
        r = self.run(argv + ["--memory", str(budget), "--json"], budget)
        self.litter(name, r, budget)
        if not self.sound(r, "infer in %s (%d)" % (name, budget), budget, refusal):
            return None
        self.within(r, "infer in %s (%d)" % (name, budget), budget)
        out = []
        for k in range(n):
            path = os.path.join(self.folder, "%s%d.npy" % (prefix, k))
            out.append(np.load(path))
            os.remove(path)
        return out

    def all(self):
        os.makedirs(os.path.join(self.folder, "spill"), exist_ok=True)
        files.write(self.net, self.folder)
        try:
            if self.t:
                self.train()
            if (not self.set.plans_only or not self.t) and self.wanted("infer"):
                self.infer()
        except Stop:
            pass
        order = {c: i for i, c in enumerate(CLASSES)}
        self.failures.sort(key=lambda f: order[f["class"]])
        return self.failures


def judge(net, settings, folder):
    """@return (failures, {"ill": numbers that float32 does not determine, "runs", "long": budgets in which the plan
    is too slow to be run,
    "compared": with PyTorch})"""
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    j = Judge(net, settings, folder)
    failures = j.all()
    return failures, {"ill": j.ill, "runs": j.runs, "long": j.long, "compared": j.compared, "diverges": j.diverges}
