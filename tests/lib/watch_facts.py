"""Checks what plimsoll watch said: watch_facts.py FOLDER STATUS PROGRAMS PREFIX, with lines "name | expression" on stdin; one TAP line for each.

FOLDER holds out, err, json and trace of the run; PROGRAMS is where the watched scripts are; PREFIX comes before each name.
An expression can name

    status, out, err    the exit code, and both streams as text; `said` is err with every run of white space one space, as lines are wrapped
    whole, reports      the JSON, and its reports, oldest first: objects with the fields that src/cli/watch_json.c writes
    bad                 the first that is no good end: a refusal, a failure, a kill
    last                the last one
    line(file, text)    the number of the one line of a watched script that contains the text
    at(site, file, text)      whether the site's innermost frame in that file is this line
    chain(site)         "load main <module>": the functions of its frames
    holder(file, text)  the sites of bad.held that are there, summed: bytes, resident_bytes, blocks, allocations, frees, name
    limit(name)         that entry of bad.limits
    fix(text)           the first remedy of `bad` that matches the regular expression
    number(pattern)     what the first group of a regular expression finds in `out`, as an integer
    traced()            the events of the trace;  trace(name, phase) how many of them are these
    near(a, b, share)   whether a is within that share of b
    MIB, GIB, re, os"""
import json
import os
import re
import sys
import types

MIB, GIB = 1 << 20, 1 << 30
folder, status, programs, prefix = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]


def read(name):
    try:
        with open(os.path.join(folder, name), errors="replace") as f:
            return f.read()
    except FileNotFoundError:
        return ""


out, err = read("out"), read("err")
said = " ".join(err.split())
try:
    whole = json.loads(read("json"), object_hook=lambda d: types.SimpleNamespace(**d))
    reports = whole.reports
except (ValueError, AttributeError) as error:
    whole, reports = error, []
bad = next((r for r in reports if r.event != "ended"), None)
last = reports[-1] if reports else None


def line(file, text):
    with open(os.path.join(programs, file)) as f:
        found = [k for k, row in enumerate(f, 1) if text in row]
    assert len(found) == 1, f"'{text}' is in {len(found)} lines of {file}"
    return found[0]


def at(site, file, text):
    inner = next((f for f in site.frames if os.path.basename(f.file) == file), None)
    return inner is not None and inner.line == line(file, text)


def chain(site):
    return " ".join(f.function for f in site.frames)


def holder(file, text):
    sites = [s for s in bad.held if at(s, file, text)]
    assert sites, f"no holder at {file}: {text}"
    total = types.SimpleNamespace(name=sites[0].name)
    for field in ("bytes", "resident_bytes", "blocks", "allocations", "frees"):
        setattr(total, field, sum(getattr(s, field) for s in sites))
    return total


def limit(name):
    return next(x for x in bad.limits if x.name == name)


def fix(text):
    return next(x for x in bad.fixes if re.search(text, x.text))


def number(pattern):
    return int(re.search(pattern, out).group(1))


def near(a, b, share):
    return abs(a - b) <= share * b


def traced():
    return json.loads(read("trace"))["traceEvents"]


def trace(name, phase):
    return len([e for e in traced() if e["name"] == name and e["ph"] == phase])


def judge(expression):
    """@return why it does not hold, or None"""
    try:
        return None if eval(expression, globals()) else "is false"
    except Exception as error:  # whatever is missing in a report is a failure of this case
        return f"{type(error).__name__}: {error}"


failed = []
for row in sys.stdin:
    name, _, expression = row.strip().partition(" | ")
    if not name:
        continue
    why = judge(expression.strip())
    print(("ok" if why is None else "not ok") + " - " + prefix + name)
    if why is not None:
        failed.append(name)
        print("# " + expression.strip() + ": " + why)
if failed:
    shown = json.dumps(bad or last, default=vars, indent=1) if reports else str(whole)
    for text in (f"exit code {status}", "stdout:", out[-1500:], "stderr:", err[-6000:], "the first report:", shown[:8000]):
        for row in text.splitlines():
            print("#   " + row)
sys.exit(1 if failed else 0)
