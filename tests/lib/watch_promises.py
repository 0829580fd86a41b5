"""Whether budgets that plimsoll watch promises are enough, and not more than enough: watch_promises.py PROGRAM BUDGET

Each line of PROGRAM (tests/watch/promises.py) runs in BUDGET, which refuses it. The report names another budget. In that one, as it is printed, the line
has to run, and in one that is 5 % smaller it must not. Where the report says "at least", because it is not known what the line asks for later, the
request that was refused has to pass, and not in 5 % less. One TAP line for each."""
import json
import os
import re
import subprocess
import sys

program, budget = sys.argv[1], sys.argv[2]
plimsoll, folder = os.environ["PLIMSOLL"], os.environ["TMP"]


def run(name, memory):
    """@return exit code, stdout, the refusals"""
    report = os.path.join(folder, "promise.json")
    done = subprocess.run([plimsoll, "watch", "--memory", str(memory), "--json", report, "--", sys.executable, program, name],
                          stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True)
    with open(report) as f:
        return done.returncode, done.stdout, [r for r in json.load(f)["reports"] if r["event"] == "refused"]


def promise(report):
    """@return the budget as it is printed, whether it is for the whole line"""
    for fix in report["fixes"]:
        found = re.match(r"a budget of (at least )?([\d.]+ [KMGT]?i?B)", fix["text"])
        if found:
            return found.group(2), "lets this line run" in fix["text"]
    return None, False


def less(size):
    number, unit = size.split()
    return int(float(number) * {"MiB": 1 << 20, "GiB": 1 << 30}[unit] * 0.95)


def same(reports, first):
    """whether the request that was refused first is among the refused"""
    return any(r["asked"]["bytes"] == first["asked"]["bytes"] and r["asked"]["site"]["frames"][0]["line"] == first["asked"]["site"]["frames"][0]["line"]
               for r in reports)


def judge(name):
    """@return what is wrong (None: nothing), what was promised"""
    code, out, reports = run(name, budget)
    if not reports:
        return f"nothing was refused in {budget}: exit code {code}", ""
    size, whole = promise(reports[0])
    if not size:
        return "no budget is promised", ""
    said = size if whole else f"at least {size}"
    code, out, after = run(name, size.replace(" ", ""))
    if (code, out) != (0, "done\n") if whole else same(after, reports[0]):
        return f"{size} is not enough: exit code {code}, refused {[r['asked']['bytes'] for r in after]}", said
    code, out, after = run(name, less(size))
    if out == "done\n" if whole else not same(after, reports[0]):
        return f"5 % less than {size} is enough", said
    return None, said


names = subprocess.run([sys.executable, program], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
failed, whole = 0, 0
for name in names:
    why, said = judge(name)
    whole += why is None and not said.startswith("at least")
    failed += why is not None
    print(f"{'ok' if why is None else 'not ok'} - promise: {name}: {said}")
    if why:
        print("# " + why)
print(f"{'ok' if whole >= 20 else 'not ok'} - promise: a budget is promised for the whole line in {whole} of {len(names)} cases")
sys.exit(failed > 0 or whole < 20)
