"""Random neural nets for `plimsoll train`, `infer` and `plan`: each at budgets from its floor up, inside memory
cgroups as large as the budget.

    python3 tests/random_nets --seed 7 --count 50 --plimsoll build/plimsoll
    python3 tests/random_nets --seed 7 --only 13                     net 13 of it alone
    python3 tests/random_nets --file FOLDER/description.json         a net that --keep has kept
    python3 tests/random_nets --seconds 600                          as many as there is time for
    python3 tests/random_nets --combined --found 200                 plans that cut, recompute and spill at once

README.md beside this file says what is generated and what is checked.
"""
import argparse
import collections
import copy
import importlib.util
import json
import multiprocessing
import os
import re
import shlex
import shutil
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]
import cgroup  # noqa: E402
import combined  # noqa: E402
import complete  # noqa: E402
import generate  # noqa: E402
import run  # noqa: E402
import shrink  # noqa: E402


def arguments():
    p = argparse.ArgumentParser(
        prog="tests/random_nets",
        description=__doc__.split("\n\n")[0],
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    p.add_argument("--plimsoll", default=os.environ.get("PLIMSOLL", "build/plimsoll"), help="the command under test")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--count", type=int, default=20, help="how many nets")
    p.add_argument("--first", type=int, default=0, help="number of the first")
    p.add_argument("--only", type=int, help="this net of the seed alone")
    p.add_argument("--file", help="a description.json instead")
    p.add_argument("--seconds", type=float, help="no net is begun after that; without --count: as many as fit")
    p.add_argument("-j", "--jobs", type=int, default=os.cpu_count())
    p.add_argument("--keep", help="a folder for the files of failures")
    p.add_argument("--quick", action="store_true", help="fewer budgets for each net")
    p.add_argument("--plans-only", action="store_true", help="of trainings only plans, at many budgets")
    p.add_argument(
        "--combined",
        action="store_true",
        help="look for budgets whose plan has a loop, recomputed values and spilled values, and compare these alone",
    )
    p.add_argument("--found", type=int, metavar="N", help="with --combined: go on until N nets have had such a plan")
    p.add_argument("--no-shrink", action="store_true")
    p.add_argument("--shrink-seconds", type=float, default=120)
    p.add_argument("--classes", help="only failures of these classes count, separated by commas")
    p.add_argument("--torch", choices=["auto", "yes", "no"], default="auto", help="compare with PyTorch")
    p.add_argument(
        "--no-limits",
        action="store_true",
        help="no cgroups, and neither peaks nor floors are compared: for builds with a sanitizer",
    )
    p.add_argument("--self-test", action="store_true", help="whether spoilt results are noticed")
    p.add_argument("--timeout", type=float, default=300, help="seconds for a run")
    p.add_argument("--tap", action="store_true", help="TAP lines, as tests/run counts them")
    p.add_argument("--describe", action="store_true", help="print the nets and run nothing")
    a = p.parse_args()
    if a.found is not None and not a.combined:
        p.error("--found needs --combined")
    a.open_end = (a.seconds is not None or a.found is not None) and "--count" not in " ".join(sys.argv)
    return a


def has_torch():
    return importlib.util.find_spec("torch") is not None


def settings_of(a):
    groups = None
    try:
        groups = None if a.no_limits else cgroup.Cgroups()
    except OSError as e:
        print("ok - budgets are enforced # SKIP %s" % e)
    torch = a.torch == "yes" or (a.torch == "auto" and has_torch())
    return run.Settings(
        os.path.abspath(a.plimsoll),
        groups,
        thorough=not a.quick,
        torch=torch,
        timeout=a.timeout,
        plans_only=a.plans_only,
        measured=not a.no_limits,
    )


def kind_of(failure):
    """What failures of one cause have in common: the class and the words, without numbers and names."""
    text = re.sub(r"'[^']*'", "'...'", failure["text"])
    text = re.sub(r"\[[^\]]*\]", "[...]", text)
    return failure["class"], re.sub(r"-?\d[\d.]*(e-?\d+)?", "N", text)


SEEN = None  # kinds of failures that were shrunk already: of all processes


def first_of_its_kind(kind):
    if SEEN is None or kind in SEEN:
        return SEEN is None
    SEEN[kind] = True
    return True


def work(job):
    """One net, in a process of its own. @return a dict that says how it went"""
    a, settings, net = job
    folder = tempfile.mkdtemp(prefix="random-nets-")
    start = time.monotonic()
    try:
        judge = combined.judge if a.combined else run.judge
        failures, facts = judge(net, settings, os.path.join(folder, "net"))
        if a.classes:
            failures = [f for f in failures if f["class"] in a.classes.split(",")]
        shrunk = []
        for f in failures[:1]:  # the most serious; the others are often its shadows
            small, found = net, [f]
            if not a.no_shrink and not a.combined and f["class"] != "slow" and first_of_its_kind(kind_of(f)):
                small, found = shrink.shrink(net, f, settings, os.path.join(folder, "small"), a.shrink_seconds)
            shrunk.append((f, small, found))
            if a.keep:
                keep(a, net, small, found, settings)
        return {"net": net, "failures": failures, "shrunk": shrunk, "seconds": time.monotonic() - start, **facts}
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def keep(a, net, small, found, settings):
    """The files of the smallest net, with a script that shows the failure."""
    to = os.path.join(a.keep, "%s-%s-%s" % (found[0]["class"], net.get("seed", "file"), net.get("number", 0)))
    shutil.rmtree(to, ignore_errors=True)
    os.makedirs(os.path.join(to, "spill"))
    import files

    files.write(small, to)
    with open(os.path.join(to, "commands.sh"), "w") as f:
        f.write(
            '#!/bin/sh\n# %s\ncd "$(dirname "$0")" || exit\n. %s\n'
            % (found[0]["text"], os.path.join(os.path.dirname(HERE), "lib", "cgroup.sh"))
        )
        for command in found[0]["commands"]:
            f.write(command + "\n")
    with open(os.path.join(to, "description.txt"), "w") as f:
        f.write("%s\n%s\n" % (found[0]["text"], generate.describe(small)))
        f.write(
            "python3 tests/random_nets --file %s --plimsoll %s\n"
            % (os.path.join(to, "description.json"), settings.plimsoll)
        )


def nets(a):
    if a.file:
        with open(a.file) as f:
            yield json.load(f)
        return
    numbers = [a.only] if a.only is not None else iter(int, 1) if a.open_end else range(a.first, a.first + a.count)
    end = time.monotonic() + a.seconds if a.seconds else None
    for k, number in enumerate(numbers):
        if end and time.monotonic() > end:
            return
        make = combined.make if a.combined else generate.make
        yield make(a.seed, a.first + k if a.open_end else number)


def show(a, r):
    net = r["net"]
    name = "net %s of seed %s: %s, %d nodes, %s; %d runs, %.1f s" % (
        net.get("number", "-"),
        net.get("seed", "-"),
        net["dialect"],
        len(net["nodes"]),
        "train" if net["train"] else "infer",
        r["runs"],
        r["seconds"],
    )
    if a.combined:
        name += "; in %d bytes a loop, recomputed and spilled" % r["found"] if r["found"] else "; %s" % (
            ", ".join(sorted(r["seen"])) or "no moves"
        )
    print("%s - %s" % ("not ok" if r["failures"] else "ok", name), flush=True)
    for f in r["failures"][1:]:
        print("# also %s: %s" % (f["class"], f["text"][:200]))
    for f, small, found in r["shrunk"]:
        print("# %s: %s" % (f["class"], f["text"]))
        print("#   smallest: %s" % found[0]["text"])
        for line in generate.describe(small).splitlines() + found[0]["commands"]:
            print("#   " + line)
    sys.stdout.flush()


# What is spoilt, and the stage of judging that has to notice it.
SPOILT = {
    "losses": "numbers",
    "validation": "numbers",
    "weights": "numbers",
    "outputs": "infer",
    "peak": "whole",
    "floor": "budgets",
    "refused": "budgets",
    "floors": "plan",
    "verifier": "budgets",
    "resume": "resume",
    "litter": "budgets",
    "crash": "budgets",
}


def self_test(a, settings):
    """Nets that pass have to fail when what plimsoll gives is spoilt, each in its way."""
    wrong = 0
    settings.torch, settings.thorough = False, False
    real, folder = settings.plimsoll, tempfile.mkdtemp(prefix="random-nets-")
    os.environ["PLIMSOLL_SPOILT"] = real
    wrapper = os.path.join(folder, "plimsoll")
    with open(wrapper, "w") as f:
        f.write(
            '#!/bin/sh\nexec %s %s "$@"\n' % (shlex.quote(sys.executable), shlex.quote(os.path.join(HERE, "spoilt.py")))
        )
    os.chmod(wrapper, 0o755)
    net = generate.small_net()
    try:
        failures, _ = run.judge(net, settings, os.path.join(folder, "net"))
        wrong += bool(failures)
        print(
            "%s - a small net passes%s"
            % ("not ok" if failures else "ok", ": " + failures[0]["text"] if failures else "")
        )
        for how, stage in SPOILT.items():
            os.environ["PLIMSOLL_SPOIL"] = how
            os.environ["PLIMSOLL_SPOIL_FLOOR"] = os.path.join(folder, "floor of " + how)
            spoilt = copy.copy(settings)
            spoilt.plimsoll, spoilt.until, spoilt.groups = (
                wrapper,
                (how, None),
                None,
            )  # a Python does not fit where plimsoll does
            spoilt.focus = stage
            failures, _ = run.judge(net, spoilt, os.path.join(folder, "net"))
            seen = any(f["class"] == how for f in failures)
            wrong += not seen
            print("%s - noticed: %s" % ("ok" if seen else "not ok", how))
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return 1 if wrong else 0


def main():
    a = arguments()
    if a.self_test:
        return self_test(a, settings_of(a))
    if a.describe:
        for net in nets(a):
            print("net %s of seed %s" % (net.get("number"), net.get("seed")))
            print(generate.describe(net))
        return 0
    missing = complete.missing()
    for line in missing:
        print("not ok - %s" % line)
    if not missing:
        print("ok - every Keras layer and ONNX operator of the importer has its generator or a reason")
    settings = settings_of(a)
    counts, kinds, runs, ill, late, found = collections.Counter(), collections.defaultdict(list), 0, 0, 0, []
    jobs = ((a, settings, net) for net in nets(a))
    context = multiprocessing.get_context("fork")
    global SEEN
    SEEN = context.Manager().dict()
    with context.Pool(a.jobs) as pool:
        for r in bounded(pool, jobs, a.jobs):
            show(a, r)
            counts["failed" if r["failures"] else "passed"] += 1
            runs += r["runs"]
            ill += bool(r["ill"])
            late += r["long"]
            for f in r["failures"]:
                kinds[kind_of(f)].append(r["net"].get("number"))
            if a.combined:
                found.append(r)
            if a.found and sum(f["found"] is not None for f in found) >= a.found:
                pool.terminate()
                break
    if a.combined:
        some = [r for r in found if r["found"] is not None]
        print(
            "# combined: %d of %d nets had a plan with a loop, recomputed and spilled values; %d of these were compared with a plan in 2 GiB "
            "that is not cut, %d with one that is; numbers to %g" % (len(some), len(found), sum(not r["cut"] for r in some), sum(r["cut"] for r in some), combined.RELATIVE)
        )
    print(
        "# seed %d: %d nets passed, %d failed; %d runs; %d nets with numbers that float32 does not determine; "
        "%d budgets in which the plan takes too long to be run"
        % (a.seed, counts["passed"], counts["failed"], runs, ill, late)
    )
    for (kind, text), numbers in sorted(kinds.items(), key=lambda kv: (run.CLASSES.index(kv[0][0]), -len(kv[1]))):
        print(
            "# %4d x %s: %s (nets %s)"
            % (len(numbers), kind, text[:160], ", ".join(str(n) for n in list(dict.fromkeys(numbers))[:12]))
        )
    return 1 if counts["failed"] or missing else 0


def bounded(pool, jobs, n):
    """Results in the order in which they come; no more jobs are taken from the generator than there are processes, so
    that time counts."""
    waiting = []
    for job in jobs:
        waiting.append(pool.apply_async(work, (job,)))
        while len(waiting) >= n:
            done = [w for w in waiting if w.ready()]
            if not done:
                time.sleep(0.01)
            for w in done:
                waiting.remove(w)
                yield w.get()
    for w in waiting:
        yield w.get()


if __name__ == "__main__":
    sys.exit(main())
