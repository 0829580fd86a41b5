#!/usr/bin/env python3
"""Random programs and nets at random budgets from the floor up with 1 to 16 threads, each inside a memory cgroup of exactly its budget, without swap.

    python3 tests/random_fits --seed 7 --count 300 --plimsoll build/plimsoll   numbers 0 to 299 of seed 7
    python3 tests/random_fits --seed 7 --only 123                              one of them
    python3 tests/random_fits --seconds 600 --jobs 2                           as many as there is time for

Fails where a run is killed, crashes or ends with an internal error; where a budget from the floor up is refused; where a planned peak is above the
budget, VmHWM above the planned peak, or the planned peak further above VmHWM than --slack-mib and --slack-percent allow. Where planning itself took
more memory than the run (planned_peak_bytes is above baseline + extras + arena), the planned peak is that of planning: such runs are shown apart."""
import argparse
import collections
import multiprocessing
import os
import re
import signal
import sys
import time
import traceback
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]

try:
    import numpy as np
except ImportError:
    print("ok - random programs and nets fit their budgets # SKIP no NumPy for this python3")
    sys.exit(0)

import cgroup  # noqa: E402
import subjects  # noqa: E402
from subjects import Outcome  # noqa: E402

MIB = 1 << 20
PATIENCE = 5.0  # planned seconds: what takes longer gets more memory, and is not run where that does not help
worker = {}


def options():
    a = argparse.ArgumentParser(prog="tests/random_fits", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--plimsoll", default=os.environ.get("PLIMSOLL", "build/plimsoll"), help="the command under test (default %(default)s)")
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, help="how many, from number 0 (default 100; with --seconds: no end)")
    a.add_argument("--first", type=int, default=0, help="number of the first")
    a.add_argument("--only", type=int, metavar="K", help="number K alone")
    a.add_argument("--seconds", type=float, help="none is begun after that")
    a.add_argument("-j", "--jobs", type=int, default=1)
    a.add_argument("--kind", choices=["program", "net"], help="programs or nets alone")
    a.add_argument("--slack-mib", type=float, default=4, help="the planned peak may be so far above VmHWM (default %(default)s MiB), or ...")
    a.add_argument("--slack-percent", type=float, default=3, help="... that much of VmHWM, whichever is more (default %(default)s)")
    a.add_argument("--timeout", type=float, default=300, help="seconds for a run (default %(default)s)")
    a.add_argument("--keep", metavar="DIR", help="keep the files of what fails there")
    a.add_argument("--self-test", action="store_true", help="whether spoilt outcomes are noticed")
    a.add_argument("-q", "--quiet", action="store_true", help="no line for what passes")
    args = a.parse_args()
    args.plimsoll = os.path.abspath(args.plimsoll)
    if args.only is not None:
        args.first, args.count = args.only, 1
    if args.count is None:
        args.count = 10**9 if args.seconds else 100
    return args


# -------------------------------------------------------------------------------------------------------------- judging

def set_by_planning(facts):
    """Whether planning took more memory than the run will, as the parts of the planned peak show."""
    return facts["planned_peak_bytes"] > facts["baseline_bytes"] + facts["extras_bytes"] + facts["arena_bytes"]


def bound_of(args, peak):
    return max(args.slack_mib * MIB, args.slack_percent / 100 * peak)


def ended_badly(o, what):
    """(class, text) of a process that did not end as it should; None: it did, or it refused (exit code 3)."""
    first = o.err.splitlines()[0][:300] if o.err else ""
    if o.slow:
        return "slow", f"{what}: no end"
    if o.killed:
        return "killed", f"{what}: killed by the kernel"
    if o.code < 0:
        return "crash", f"{what}: ended by signal {-o.code}: {first}"
    if re.search(r"\bI\d+:", o.err):
        return "verifier", f"{what}: {first}"
    if re.search(r"internal|assert", o.err):
        return "internal", f"{what}: {first}"
    if o.code not in (0, 3):
        return "error", f"{what}: exit code {o.code}: {first}"
    return None


def judge(args, o, budget, floor):
    """[(class, text)] of a run inside its budget."""
    bad = ended_badly(o, "run")
    if bad:
        return [bad]
    if o.code == 3:
        return [("refused", f"a budget of {budget} is refused, the floor is {floor}: {o.err.splitlines()[0][:300]}")]
    f, found = o.json, []
    planned, peak = f["planned_peak_bytes"], f["peak_rss_bytes"]
    if f["fits"] is not True:
        found.append(("planned", "it ran, and `fits` is not true"))
    if planned > budget:
        found.append(("planned", f"fits, and the planned peak {planned} is {planned - budget} bytes above the budget {budget}"))
    if peak > planned:
        found.append(("peak", f"VmHWM {peak} is {peak - planned} bytes above the planned peak {planned}"))
    if planned - peak > bound_of(args, peak):
        found.append(("slack", f"the planned peak {planned} is {(planned - peak) / MIB:.2f} MiB above VmHWM {peak}, at most "
                               f"{bound_of(args, peak) / MIB:.2f} (baseline {f['baseline_bytes']}, extras {f['extras_bytes']}, arena {f['arena_bytes']})"))
    if f["rejected_plans"]:
        found.append(("verifier", f"{f['rejected_plans']} plans were rejected"))
    return found


# -------------------------------------------------------------------------------------------------------------- workers

def end(*_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def prepare(args):
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    np.seterr(all="ignore")
    warnings.filterwarnings("ignore")
    worker["args"], worker["groups"] = args, cgroup.Cgroups()


def one(number):
    """Number `number`: a dictionary that says how it went."""
    args = worker["args"]
    result = {"number": number, "failures": [], "kind": "", "text": "", "lines": [], "ran": False, "note": ""}
    s = None
    try:
        s, r = subjects.make(args.seed, number, args.plimsoll, args.timeout, worker["groups"], (args.kind,) if args.kind else ("program", "net"))
        result.update(kind=s.kind, text=s.text, threads=s.threads)
        tried(args, s, r, result)
        if result["failures"]:
            result["lines"] = s.lines(result.get("budget", 1 << 20))
            if args.keep:
                s.keep(os.path.join(args.keep, f"{result['failures'][0][0]}-{args.seed}-{number}"))
    except Exception:
        result["failures"].append(("generator", traceback.format_exc()))
    finally:
        if s:
            s.close()
    return result


def tried(args, s, r, result):
    refusal = s.floor()
    bad = ended_badly(refusal, "with a budget of 1 byte")
    if bad or refusal.code != 3 or "floor_bytes" not in refusal.json:
        result["failures"].append(bad or ("error", f"no floor from a budget of 1 byte: exit code {refusal.code}: {refusal.err[:300]}"))
        return
    floor = refusal.json["floor_bytes"]
    budget = subjects.budget_of(r, floor)
    for _ in range(5):
        plan = s.plan(budget)
        if plan.code or plan.json["planned_seconds"] * s.steps() <= PATIENCE:
            break
        budget *= 2
    else:
        result["note"] = "planned to take too long"
        return
    result.update(floor=floor, budget=budget)
    o = s.run(budget)
    if o.code == 1 and " the loss is " in o.err:
        result["note"] = "the loss is not a number"
        return
    result["failures"] = judge(args, o, budget, floor)
    if o.code == 0 and not o.slow and not o.killed:
        f = o.json
        result.update(ran=True, planned=f["planned_peak_bytes"], peak=f["peak_rss_bytes"], planning=set_by_planning(f))
        wrong = s.compare(o)
        if wrong:
            result["failures"].append(("numbers", wrong))


# ------------------------------------------------------------------------------------------------------------ reporting

def mib(n):
    return f"{n / MIB:.2f} MiB"


def show(args, r):
    head = f"{r['number']}: {r['kind'] or 'subject'}, {r.get('threads', '-')} threads, budget {r.get('budget', '-')}, floor {r.get('floor', '-')}"
    for kind, text in r["failures"]:
        print(f"# {kind}: {text}")
    if r["failures"]:
        print(f"not ok - {head}: {r['text'][:300]}")
        for line in r["lines"] + [f"python3 tests/random_fits --seed {args.seed} --only {r['number']}" + (f" --kind {args.kind}" if args.kind else "")]:
            print("#     " + line)
    elif not args.quiet and r["ran"]:
        print(f"ok - {head}: {mib(r['planned'] - r['peak'])} to spare" + (", set by planning" if r["planning"] else ""))
    sys.stdout.flush()


def distribution(args, runs):
    """Lines: what the planned peak had to spare over VmHWM, by kinds."""
    groups = {"all": runs}
    for kind in ("eval", "train", "infer"):
        groups[kind] = [r for r in runs if r["kind"] == kind]
    for low, high in ((1, 1), (2, 4), (5, 8), (9, 16)):
        groups[f"{low} thread" if high == 1 else f"{low} to {high} threads"] = [r for r in runs if low <= r["threads"] <= high]
    groups["at the floor"] = [r for r in runs if r["budget"] == r["floor"]]
    groups["set by planning"] = [r for r in runs if r["planning"]]
    yield f"# {'planned peak - VmHWM, MiB':<26} {'runs':>6} {'least':>7} {'10 %':>7} {'median':>7} {'90 %':>7} {'99 %':>7} {'most':>7} {'of bound':>9}"
    for name, some in groups.items():
        if some:
            spare = np.array([r["planned"] - r["peak"] for r in some]) / MIB
            share = max((r["planned"] - r["peak"]) / bound_of(args, r["peak"]) for r in some)
            cells = " ".join(f"{x:7.2f}" for x in (spare.min(), *np.percentile(spare, [10, 50, 90, 99]), spare.max()))
            yield f"# {name:<26} {len(some):>6} {cells} {100 * share:>7.0f} %"


# ------------------------------------------------------------------------------------------------------------ self-test

def self_test(args):
    """A good outcome passes; each of its spoilt copies fails in its class."""
    budget, floor = 64 * MIB, 8 * MIB
    good = {"fits": True, "planned_peak_bytes": 40 * MIB, "peak_rss_bytes": 39 * MIB, "baseline_bytes": 5 * MIB, "extras_bytes": MIB,
            "arena_bytes": 34 * MIB, "rejected_plans": 0}
    spoilt = {
        "killed": Outcome(-9, {}, "", True), "crash": Outcome(-11, {}, "", False), "slow": Outcome(0, {}, "", False, True),
        "internal": Outcome(1, {}, "plimsoll: internal error", False), "verifier": Outcome(0, {**good, "rejected_plans": 1}, "", False),
        "refused": Outcome(3, {}, "does not fit", False), "error": Outcome(2, {}, "no such file", False),
        "planned": Outcome(0, {**good, "planned_peak_bytes": budget + 1, "peak_rss_bytes": budget}, "", False),
        "peak": Outcome(0, {**good, "peak_rss_bytes": 40 * MIB + 1}, "", False),
        "slack": Outcome(0, {**good, "peak_rss_bytes": int(40 * MIB - args.slack_mib * MIB) - 1}, "", False),
    }
    wrong = bool(judge(args, Outcome(0, good, "", False), budget, floor))
    print(f"{'not ok' if wrong else 'ok'} - a good outcome passes")
    for kind, o in spoilt.items():
        seen = any(k == kind for k, _ in judge(args, o, budget, floor))
        wrong |= not seen
        print(f"{'ok' if seen else 'not ok'} - noticed: {kind}")
    apart = set_by_planning({**good, "planned_peak_bytes": 41 * MIB}) and not set_by_planning(good)
    wrong |= not apart
    print(f"{'ok' if apart else 'not ok'} - noticed: a planned peak that is set by planning")
    return 1 if wrong else 0


# ----------------------------------------------------------------------------------------------------------------- main

def results(args):
    """Outcomes, as they come. No more are begun than there are processes, so that none is stopped in its middle when the time is over."""
    end = time.monotonic() + args.seconds if args.seconds else None
    waiting = []
    with multiprocessing.Pool(args.jobs, prepare, (args,)) as pool:
        for number in range(args.first, args.first + args.count):
            if end and time.monotonic() > end:
                break
            waiting.append(pool.apply_async(one, (number,)))
            while len(waiting) >= args.jobs:
                done = [w for w in waiting if w.ready()]
                if not done:
                    time.sleep(0.01)
                for w in done:
                    waiting.remove(w)
                    yield w.get()
        for w in waiting:
            yield w.get()


def skipped(why):
    print(f"SKIPPED: random programs and nets inside their budgets: {why}")
    print(f"ok - random programs and nets fit their budgets # SKIP {why}")
    return 0


def main():
    args = options()
    if args.self_test:
        return self_test(args)
    if not os.access(args.plimsoll, os.X_OK):
        print(f"not ok - {args.plimsoll} can be run")
        return 1
    with open(args.plimsoll, "rb") as f:
        image = f.read()
    if b"__asan_init" in image or b"__tsan_init" in image:
        return skipped("a sanitizer's own memory is many times what is planned")
    try:
        cgroup.Cgroups()
    except OSError as e:
        return skipped(str(e))
    runs, classes, notes, failed, begin = [], collections.Counter(), collections.Counter(), 0, time.monotonic()
    for r in results(args):
        show(args, r)
        failed += bool(r["failures"])
        classes.update({kind for kind, _ in r["failures"]})
        notes.update([r["note"]] if r["note"] else [])
        runs += [r] if r["ran"] else []
    for line in distribution(args, runs) if runs else ():
        print(line)
    extra = "".join(f", {n} {what}" for what, n in sorted(notes.items()))
    print(f"# seed {args.seed}: {len(runs)} runs, {failed} failed{extra}, {time.monotonic() - begin:.0f} s"
          + "".join(f"; {n} x {kind}" for kind, n in classes.most_common()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
