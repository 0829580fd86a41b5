"""Whether programs that keep within what they need are left alone: watch_behaved.py PROGRAM

Each program of PROGRAM (tests/watch/behaved.py) runs with --on-breach stop in a budget 10 % above what it needs. It has to end by itself, and nothing may be
reported but its end. One TAP line for each."""
import json
import os
import subprocess
import sys

program = sys.argv[1]
plimsoll, folder = os.environ["PLIMSOLL"], os.environ["TMP"]


def judge(name, mib):
    report = os.path.join(folder, "behaved.json")
    done = subprocess.run([plimsoll, "watch", "--memory", str(int(mib * 1.1 * (1 << 20))), "--on-breach", "stop", "--json", report, "--", sys.executable, program, name],
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    with open(report) as f:
        events = [r["event"] for r in json.load(f)["reports"]]
    if (done.returncode, done.stdout, events) != (0, "done\n", ["ended"]):
        return f"exit code {done.returncode}, stdout {done.stdout!r}, reports {events}", done.stderr
    return None, done.stderr


failed = 0
rows = [row.split() for row in subprocess.run([sys.executable, program], stdout=subprocess.PIPE, text=True, check=True).stdout.splitlines()]
for name, mib in rows:
    why, said = judge(name, int(mib))
    failed += why is not None
    print(f"{'ok' if why is None else 'not ok'} - behaved: {name} in 110 % of {mib} MiB")
    if why:
        print("# " + why)
        print("".join(f"#   {row}\n" for row in said.splitlines()), end="")
print(f"{'ok' if len(rows) >= 20 else 'not ok'} - behaved: {len(rows)} programs")
sys.exit(failed > 0)
