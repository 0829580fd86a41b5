#!/usr/bin/env python3
"""Random programs of the array language against NumPy, each in a memory cgroup as large as its budget.

    python3 tests/random_programs --seed 7 --count 300 --plimsoll build/plimsoll  programs 0 to 299 of seed 7
    python3 tests/random_programs --seed 7 --only 123                             one of them
    python3 tests/random_programs --pairs                                         every function's result to every other
    python3 tests/random_programs --seconds 600 -j 2                              as many as there is time for

A failing program is made as small as possible and printed with the commands that show it. Prints TAP lines and, last,
what was done."""
import argparse
import atexit
import collections
import dataclasses
import multiprocessing
import multiprocessing.util
import os
import random
import signal
import sys
import tempfile
import time
import traceback
import warnings

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "lib")]

try:
    import numpy as np
except ImportError:
    print("ok - random programs against NumPy # SKIP no NumPy for this python3")
    sys.exit(0)

import generate  # noqa: E402
import language  # noqa: E402
from program import functions_in  # noqa: E402
from run import Failure, Runner, command  # noqa: E402
from shrink import Shrinker  # noqa: E402
from values import INF, KIND  # noqa: E402

DOCS = os.path.join(HERE, "..", "..", "docs", "language.md")
SHARES = (0.0, 0.02, 1.0)  # of the three budgets at which a pair runs: the floor, little more, ample
worker = {}


def options():
    a = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    a.add_argument("--plimsoll", default=os.environ.get("PLIMSOLL", "build/plimsoll"))
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--count", type=int, default=0,
                   help="programs, from number 0 (with --pairs: pairs, spread over all of them; 0: all)")
    a.add_argument("--seconds", type=float, default=0, help="programs until the time is over")
    a.add_argument("--only", type=int, help="this one alone")
    a.add_argument("--pairs", action="store_true", help="producer and consumer: all of them")
    a.add_argument("--producers", help="only pairs that begin with one of these: argmax,topk")
    a.add_argument("--consumers", help="only pairs that end with one of these")
    a.add_argument("-j", "--jobs", type=int, default=1)
    a.add_argument("--no-shrink", action="store_true")
    a.add_argument("--no-cgroup", action="store_true")
    a.add_argument("--self-test", type=int, metavar="N", help="spoil one element of N results: each must be noticed")
    a.add_argument("--max-failures", type=int, default=0, help="stop after so many")
    a.add_argument("--report", help="a file that gets every failure, shrunk")
    a.add_argument("-v", "--verbose", action="store_true")
    a.add_argument("-q", "--quiet", action="store_true", help="no line for what passes")
    args = a.parse_args()
    args.verbose |= args.only is not None
    return args


# ------------------------------------------------------------------------------------------------------------ workers

def end(*_):
    """SIGTERM: what was made is removed, and a second signal does not interrupt that."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


def prepare(args):
    signal.signal(signal.SIGTERM, end)
    if multiprocessing.parent_process():
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    np.seterr(all="ignore")
    warnings.filterwarnings("ignore")
    worker["args"] = args
    worker["runner"] = Runner(args.plimsoll, not args.no_cgroup)
    multiprocessing.util.Finalize(None, worker["runner"].close, exitpriority=1)  # where this is a child
    atexit.register(worker["runner"].close)


def one(number):
    """Program `number`: what came of it, as a dictionary that can be sent to the parent."""
    args, runner = worker["args"], worker["runner"]
    result = {"number": number, "functions": [], "failures": [], "text": "", "made": True}
    before, begin = (runner.runs, runner.compared, runner.skipped), time.monotonic()
    runner.spare = []
    try:
        made = generate.pair_program(args.seed, number) if args.pairs else generate.random_program(args.seed, number)
    except Exception:
        made = None
        result["failures"].append(("generator", traceback.format_exc(), "", []))
    if made is None:
        result["made"] = False
        return result
    program, expected = made
    result["text"] = program.text()
    result["functions"] = [f for _, n in program.statements for f in functions_in(n)]
    for share in SHARES if args.pairs else (program.share,):
        tried = dataclasses.replace(program, share=share)
        try:
            runner.check(tried, expected)
        except Failure as f:
            result["failures"].append(explained(tried, expected, f))
            break
    result.update(runs=runner.runs - before[0], compared=runner.compared - before[1],
                  skipped=runner.skipped - before[2],
                  spare=min(runner.spare, default=None), seconds=time.monotonic() - begin)
    return result


def explained(program, expected, f):
    args, runner = worker["args"], worker["runner"]
    if not args.no_shrink:
        s = Shrinker(runner)
        program, f, expected = s.shrink(program, f, expected)
    used = sorted({x for _, n in program.statements for x in functions_in(n)})
    return (f.kind, f.detail, " ".join(used),
            [program.text()] + command(program, runner, expected, runner.floor_budget(program)))


# ---------------------------------------------------------------------------------------------------------- self-test

def spoil(rng, counts):
    """Changes one known element by 1 or by a part in 64; where the tolerance hides that, it is counted."""
    def f(got, want):
        known = np.flatnonzero((want.err < INF).reshape(-1)) if want.err is not None else np.arange(want.size)
        if known.size == 0:
            counts["nothing to spoil"] += 1
            return got
        at = int(known[rng.randrange(known.size)])
        got = np.array(got)
        flat = got.reshape(-1)
        v = flat[at]
        if KIND[want.t] == "b":
            flat[at] = not v
        elif KIND[want.t] in "ui":
            flat[at] = v + 1 if v < np.iinfo(flat.dtype).max else v - 1
        elif not np.isfinite(v):
            flat[at] = 0
        else:
            off = max(abs(float(v)) / 64, 1e-3)
            if want.err is not None and want.err.reshape(-1)[at] >= off / 2:
                counts["hidden by the tolerance"] += 1
                return np.asarray(want.a)
            flat[at] = v + off
        counts["spoilt"] += 1
        return got
    return f


def notices_new_functions():
    """A function, a parameter or an alias that the documentation gets, and the generator has not."""
    with open(DOCS, encoding="utf-8") as f:
        docs = f.read()
    changes = {"a function": ("| `copy(x)` |", "| `trapezoid(x, y)` | area |\n| `copy(x)` |"),
               "a parameter": ("`flip(x, axis=None)`", "`flip(x, axis=None, n=1)`"),
               "an alias": ("| `absolute` | `abs` |", "| `absolute` | `abs` |\n| `integral` | `trapezoid` |")}
    good = True
    for what, (old, new) in changes.items():
        with tempfile.NamedTemporaryFile("w", suffix=".md", encoding="utf-8") as f:
            f.write(docs.replace(old, new))
            f.flush()
            good &= tap(old in docs and bool(language.missing(f.name)), f"{what} that the generator lacks is noticed")
    return good


def self_test(args):
    good = notices_new_functions()
    prepare(args)
    runner = worker["runner"]
    counts = collections.Counter()
    for number in range(args.self_test):
        program, expected = generate.random_program(args.seed, number)
        program = dataclasses.replace(program, share=1.0)
        before = counts["spoilt"]
        runner.corrupt = spoil(random.Random(number), counts)
        try:
            runner.check(program, expected)
            if counts["spoilt"] > before:
                print(f"not ok - a spoilt element of '{program.text()}' is noticed")
                counts["missed"] += 1
        except Failure:
            pass
    blind = counts["hidden by the tolerance"]
    print("# self-test: " + ", ".join(f"{n} {what}" for what, n in sorted(counts.items())))
    tap(counts["missed"] == 0 and counts["spoilt"] > args.self_test / 2,
        f"spoilt results are noticed, {counts['spoilt']} of them")
    tap(blind * 20 <= counts["spoilt"], f"tolerances hide a change of a part in 64 in less than 5 % ({blind})")
    runner.close()
    return not good or counts["missed"] or blind * 20 > counts["spoilt"]


# --------------------------------------------------------------------------------------------------------------- main

def tap(good, name):
    print(f"{'ok' if good else 'not ok'} - {name}", flush=True)
    return good


def coverage():
    wrong = language.missing(DOCS) + [f"{name}: no maker in tests/random_programs/generate.py"
                                      for name in generate.lacking()]
    tap(not wrong, "every function of the language has an oracle and a maker")
    for line in wrong:
        print("# " + line)
    return not wrong


def numbers(args):
    if args.only is not None:
        return [args.only]
    if args.pairs:
        names = generate.pair_names()
        wanted = [set(text.split(",")) if text else set(names) for text in (args.producers, args.consumers)]
        for unknown in (wanted[0] | wanted[1]) - set(names):
            sys.exit(f"random_programs: unknown function '{unknown}'")
        every = [p * len(names) + c for p, producer in enumerate(names) if producer in wanted[0]
                 for c, consumer in enumerate(names) if consumer in wanted[1]]
        if args.count and args.count < len(every):
            random.Random(args.seed).shuffle(every)
            every = every[:args.count]
        elif args.seconds:
            random.Random(args.seed).shuffle(every)
        return every
    return range(args.count) if args.count else range(10**9) if args.seconds else range(300)


def show(result, report):
    for kind, detail, used, lines in result["failures"]:
        text = [f"# {kind} [{used}] {detail}"] + ["#     " + line for line in lines]
        print(f"not ok - program {result['number']}: {result['text'][:300]}")
        print("\n".join(text), flush=True)
        if report:
            report.write("\n".join([f"program {result['number']}"] + text) + "\n")
            report.flush()


def main():
    args = options()
    good = coverage()
    if not os.access(args.plimsoll, os.X_OK):
        print(f"not ok - {args.plimsoll} can be run")
        return 1
    if args.self_test:
        return 1 if self_test(args) or not good else 0
    signal.signal(signal.SIGTERM, end)
    begin = time.monotonic()
    totals, groups, used, unmade, done = collections.Counter(), collections.Counter(), collections.Counter(), 0, 0
    least, slowest = None, (0.0, -1)
    report = open(args.report, "a", encoding="utf-8") if args.report else None

    def take(result):
        nonlocal unmade, done, least, slowest
        slowest = max(slowest, (result.get("seconds", 0.0), result["number"]))
        done += 1
        used.update(result["functions"])
        if not result["made"]:
            unmade += 1
        for key in ("runs", "compared", "skipped"):
            totals[key] += result.get(key, 0)
        totals["vague"] += result.get("skipped", 0) > result.get("compared", 0)
        if result.get("spare") is not None:
            least = result["spare"] if least is None else min(least, result["spare"])
        for kind, _, functions, _ in result["failures"]:
            groups[(kind, functions)] += 1
            totals["failed"] += 1
        if result["failures"]:
            show(result, report)
        elif result["made"] and not args.quiet:
            print(f"ok - {'pair' if args.pairs else 'program'} {result['number']}"
                  + (f": {result['text']}" if args.verbose else ""))

    def over():
        late = args.seconds and time.monotonic() - begin > args.seconds
        return late or (args.max_failures and totals["failed"] >= args.max_failures)

    if args.jobs == 1:
        prepare(args)
        for n in numbers(args):
            take(one(n))
            if over():
                break
        without = worker["runner"].groups is None
    else:
        with multiprocessing.Pool(args.jobs, prepare, (args,)) as pool:
            for result in pool.imap_unordered(one, numbers(args), 1):
                take(result)
                if over():
                    pool.terminate()
                    break
            else:
                pool.close()
            pool.join()
        probe = Runner(args.plimsoll, not args.no_cgroup)
        without = probe.groups is None
        probe.close()
    if without:
        print("# WITHOUT MEMORY CGROUPS (none can be made here, or --no-cgroup, or a sanitizer in the build): "
              "the kernel did not enforce the budgets")
    seconds = time.monotonic() - begin
    if args.pairs:
        print(f"# {done - unmade} pairs of a producer and a consumer at {len(SHARES)} budgets each; "
              f"{unmade} have no arguments that both take")
    if done - unmade >= 20 and not args.producers and not args.consumers:
        vague = totals["vague"] * 20 <= done - unmade
        good &= tap(vague, f"more than half can be compared in 95 % of the programs (not in {totals['vague']})")
    unused = [f for f in language.FUNCTIONS if f not in used]
    print(f"# seed {args.seed}: {done} programs, {totals['runs']} runs, {totals['failed']} failed, {seconds:.0f} s; "
          f"{totals['compared']} elements compared, {totals['skipped']} left open; "
          f"slowest: {slowest[1]}, {slowest[0]:.1f} s; least spare of the planned peak: {least} bytes; "
          f"functions not used: {' '.join(unused) or 'none'}")
    for (kind, functions), n in groups.most_common():
        print(f"# {n} x {kind}: {functions}")
    return 0 if good and totals["failed"] == 0 else 1


if __name__ == "__main__":
    sys.exit(main())
