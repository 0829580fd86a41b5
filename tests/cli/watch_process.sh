#!/bin/sh
# plimsoll watch and processes: how a program ends and what it reads and writes is its own affair; killed programs, children, threads, other allocators, sanitizers and
# static programs; the library's own want of memory; files for other tools; the live view.
. "$(dirname "$0")/../lib/cli.sh"
. "$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)/watch.sh"
watch_needs plain python

# wait_for PATTERN: until the program has printed it, or half a minute has gone by
wait_for() {
    waited=0
    while ! grep -q "$1" "$TMP/out" && [ $waited -lt 600 ]; do
        sleep 0.05
        waited=$((waited + 1))
    done
}

# ------------------------------------------------------------------------------------------ as if it were not there
for code in 0 1 42 255; do
    expect "exit code $code passes through" $code "$PLIMSOLL" watch -- sh -c "exit $code" </dev/null
done
for signal in 15 11 6; do
    expect "a death by signal $signal passes through" $((128 + signal)) "$PLIMSOLL" watch -- sh -c "ulimit -c 0; kill -$signal \$\$" </dev/null
done
expect_error 'a program that is not there' 127 'no-such-program' "$PLIMSOLL" watch -- no-such-program
: >not-executable
expect_error 'a file that is no program' 126 'not-executable' "$PLIMSOLL" watch -- ./not-executable
expect_error 'no program' 2 'program' "$PLIMSOLL" watch
expect_error 'an action that there is not' 2 'perhaps' "$PLIMSOLL" watch --on-breach perhaps -- true

# Every byte there is, both ways; and the words of the program, whatever they look like.
"$PYTHON" -c 'import sys; sys.stdout.buffer.write(bytes(range(256)) * 4096)' >all
watch_input=all
watched --memory 1G -- cat
watch_input=
if [ $watch_status = 0 ] && cmp all "$TMP/out" >"$TMP/why"; then pass 'stdin and stdout are untouched'; else fail 'stdin and stdout are untouched' "$TMP/why"; fi
expect 'words that look like options are the program'"'"'s' 0 "$PLIMSOLL" watch printf '%s\n' --json --memory -- '' 'a b' <<'OUT'
--json
--memory
--

a b
OUT
look='echo to stderr >&2; readlink /proc/self/cwd; ls /proc/self/fd'
sh -c "$look" >"$TMP/plain" 2>"$TMP/err" </dev/null
watched -- sh -c "$look"
facts <<'FACTS'
stderr is the program's first, ours after it | err.startswith("to stderr\n") and len(err.splitlines()) == 2
the working folder is the same, and no descriptors of ours are in the program | out == read("plain")
FACTS
"$PLIMSOLL" watch -- sh -c 'trap "echo got it; exit 9" TERM; echo ready; while :; do sleep 0.1; done' >"$TMP/out" 2>"$TMP/err" &
supervisor=$!
wait_for ready
kill -TERM $supervisor
wait $supervisor
watch_status=$?
: >"$TMP/json"
facts <<'FACTS'
SIGTERM to the supervisor goes on to the program | status == 9 and out == "ready\ngot it\n"
FACTS

# ------------------------------------------------------------------------------------------------------ kill -9
rm -f "$TMP/json"
"$PLIMSOLL" watch --json "$TMP/json" -- "$PYTHON" "$watch_programs/hold.py" >"$TMP/out" 2>"$TMP/err" </dev/null &
supervisor=$!
wait_for '[0-9]'
sleep 3 # what is resident is looked at once a second; the machine may be busy
kill -KILL "$(cat "$TMP/out")"
wait $supervisor
watch_status=$?
facts <<'FACTS'
kill -9: 137 | status == 137
kill -9: a signal from outside, not memory | (bad.event, bad.cause) == ("killed", "signal") and "SIGKILL" in said
kill -9: the first holder | near(holder("hold.py", "self.weights = np.ones").bytes, 96 * MIB, 0) and holder("hold.py", "self.weights = np.ones").resident_bytes >= 94 * MIB
kill -9: the second | near(holder("hold.py", "return np.ones").bytes, 48 * MIB, 0) and holder("hold.py", "return np.ones").resident_bytes >= 47 * MIB
kill -9: the third | near(holder("hold.py", "table = {").bytes, 24 * MIB, 0) and holder("hold.py", "table = {").resident_bytes >= 23 * MIB
kill -9: their names | [holder("hold.py", t).name.name for t in ("self.weights = np", "return np.ones", "table = {")] == ["model.weights", "samples", "table"]
kill -9: all three in the text | all("hold.py:%d" % line("hold.py", t) in said for t in ("self.weights = np", "return np.ones", "table = {"))
FACTS

# ----------------------------------------------------------------------------------------------------- children
# 3 x 100 MiB in the workers and 400 MiB more are over 650 MiB only together.
for how in fork spawn; do
    watched --memory 650M -- "$PYTHON" "$watch_programs/${how}_pool.py"
    facts "$how pool: " <<'FACTS'
the parent was refused because of its workers, and went on | status == 0 and out.splitlines()[-1] == "refused" and bad.asked.bytes == 400 * MIB
the parent's line | at(bad.asked.site, "pool.py", "return np.empty") and bad.cause == "holder"
every worker is in the list | {int(p) for p in out.splitlines()[0].split()[1:]} <= {p.pid for p in bad.processes}
with its memory | all(p.attached and near(p.recorded_bytes, 100 * MIB, 0.1) for p in bad.processes if str(p.pid) in out.splitlines()[0].split()[1:])
their line holds the memory of all three | (holder("pool.py", "kept.append").blocks, holder("pool.py", "kept.append").bytes) == (3, 300 * MIB)
they are summed | 300 * MIB < bad.resident_bytes < 650 * MIB and bad.process_count >= 4
in the text | re.search(r"^PROCESSES", err, re.M)
FACTS
done
watched --memory 1G -- sh -c "\"$PYTHON\" -c 'import numpy as np; a = np.ones(300 << 20, np.uint8)'; for i in 1 2 3 4 5 6 7 8 9 10; do true | cat | true; done; exit 5"
facts <<'FACTS'
many short children | status == 5 and last.process_count >= 2 and 300 * MIB < last.peak_bytes < 600 * MIB
FACTS
watched -- sh -c 'i=0; while [ $i -lt 150 ]; do dd if=/dev/zero of=/dev/null bs=1M count=1 2>/dev/null; i=$((i+1)); done; echo done'
facts <<'FACTS'
more children than there are places, one after the other | (status, out) == (0, "done\n") and last.process_count >= 64
FACTS

# ------------------------------------------------------------------------------------------------------ threads
watched --memory 2G -- "$watch_build/watch-threads" "${WATCH_THREAD_SECONDS:-20}"
facts <<'FACTS'
200 threads: they all ended | status == 0 and number("allocations (.*) frees") > 1000
200 threads: every allocation and free was counted | (bad.processes[0].allocations, bad.processes[0].frees) == (number("allocations (.*) frees"), number("frees (.*) held"))
200 threads: what is held at the end is exact | sum(s.blocks for s in bad.held if "work" in chain(s)) == number("held (.*)") > 0
FACTS

# --------------------------------------------------------------------------------------- other allocators, sanitizers
for library in libjemalloc.so.2 libtcmalloc_minimal.so.4; do
    found=$(ls /usr/lib/*/$library /usr/lib/$library 2>/dev/null | head -n 1)
    if [ -z "$found" ]; then
        echo "SKIPPED: $library is not here"
        skip "$library underneath" "$library is not here"
        continue
    fi
    watch_env=LD_PRELOAD=$found
    watched --memory 400M -- "$PYTHON" "$watch_programs/leak.py"
    facts "$library: " <<'FACTS'
runs as ever | status == 1 and out.startswith("arrays ")
the holder, all its blocks | at(bad.held[0], "leak.py", "a = np.random.rand(1000, 1000)") and bad.held[0].blocks == number("arrays (.*)")
the variable | bad.held[0].name.name == "history" and bad.held[0].name.length == number("arrays (.*)")
nothing of glibc's is advised | not any("MALLOC_" in x.text for x in bad.fixes)
FACTS
done
watch_env=
watched -- "$watch_build/watch-under_asan"
facts <<'FACTS'
AddressSanitizer: the program runs as ever | (status, out) == (0, "sum 190\n")
FACTS
watch_env=ASAN_OPTIONS=exitcode=42
watched -- "$watch_build/watch-under_asan" wrong
watch_env=
facts <<'FACTS'
AddressSanitizer: and still finds what is wrong, with its options as they were | status == 42 and "heap-use-after-free" in err
FACTS
if [ -x "$watch_build/watch-static" ]; then
    watched --memory 1G -- "$watch_build/watch-static"
    facts <<'FACTS'
static: it runs, and it is said that it was not seen | (status, out) == (3, "refused\n") and "static" in said
static: what /proc says is there | last.peak_bytes > 0 and not last.processes[0].attached
FACTS
else
    skip 'static: it runs' 'no static C library here'
fi

# ------------------------------------------------------------------------------------------- when it fails itself
# The N-th call that the library makes to come up in a process fails, in the program or in its child: neither ever notices.
cat >forks.py <<'PROGRAM'
import os
before = bytearray(64 << 20)
child = os.fork()
after = bytearray(64 << 20)
if child == 0:
    os._exit(5)
print(len(before) + len(after), os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
PROGRAM
n=1 harmed='' unseen=0
while [ $n -le 14 ]; do
    watch_env=PLIMSOLL_WATCH_FAIL=$n
    watched --memory 1G -- "$PYTHON" forks.py
    { [ $watch_status = 0 ] && [ "$(cat "$TMP/out")" = '134217728 5' ] && [ "$(wc -l <"$TMP/err")" -le 4 ]; } || harmed="$harmed $n"
    ! grep -q '"attached": false' "$TMP/json" || unseen=$((unseen + 1))
    n=$((n + 1))
done
watch_env=
echo "not as ever with PLIMSOLL_WATCH_FAIL at$harmed" >"$TMP/why"
if [ -z "$harmed" ]; then pass 'what the library fails to get harms nobody'; else fail 'what the library fails to get harms nobody' "$TMP/why"; fi
echo "$unseen runs with a process that is followed through /proc alone" >"$TMP/why"
if [ $unseen -ge 5 ]; then pass 'and it is said that a process was not seen'; else fail 'and it is said that a process was not seen' "$TMP/why"; fi
env PLIMSOLL_WATCH=/proc/1/fd/999 "LD_PRELOAD=$watch_build/libplimsoll_watch.so" "$PYTHON" -c 'import numpy as np; print(np.ones(1 << 20).sum())' >"$TMP/out" 2>"$TMP/err"
watch_status=$?
facts <<'FACTS'
the library without a supervisor | (status, out, err) == (0, "1048576.0\n", "")
FACTS

# -------------------------------------------------------------------------------------------------- other formats
watched --trace "$TMP/trace" --no-source --memory 400M -- "$PYTHON" "$watch_programs/leak.py"
facts <<'FACTS'
JSON: every refusal and the end | [r.event for r in reports][-1] == "ended" and len(reports) >= 2 and reports[-1].code == whole.exit.code == 1
JSON: what was run | whole.argv[-1].endswith("leak.py") and whole.budget_bytes == 400 * MIB and whole.on_breach == "enomem"
trace: counters and what happened | trace("memory", "C") >= 3 and trace("budget", "C") >= 1 and trace(bad.verdict, "i") == 1
trace: in the order of time, whole | [e["ts"] for e in traced() if "ts" in e] == sorted(e["ts"] for e in traced() if "ts" in e)
without source lines | "a @ a" not in said and "np.random" not in said and "leak.py" in said and all(f.source == "" for f in bad.asked.site.frames)
FACTS
"$PLIMSOLL" watch --json /nowhere/at/all -- sh -c 'echo ran' >"$TMP/out" 2>"$TMP/err"
watch_status=$?
facts <<'FACTS'
a report that cannot be written is an error before anything is run | status != 0 and out == "" and "/nowhere/at/all" in err
FACTS

# ------------------------------------------------------------------------------------------------------------ live
"$PYTHON" "$watch_lib/on_terminal.py" "$PLIMSOLL" watch --live --memory 1G -- "$PYTHON" "$watch_programs/kill.py" 24 >"$TMP/out" 2>"$TMP/err"
watch_status=$?
facts <<'FACTS'
live: the program ran, and what it printed is there | status == 0 and re.search(r"(^|\n)24\r?\n", re.sub(r"\x1b(\[[?0-9;]*[A-Za-z]|[78])", "\n", out))
live: a bar, and the line that grows | "[###" in re.sub(r"\033\[\d+m", "", out) and "kill.py:%d" % line("kill.py", "kept.append(") in out and "of 1.0 GiB" in out
live: the terminal is left as it was | out.rfind("\033[r") > out.rfind("\033[2K") > 0 and out.rfind("\033[?25h") > out.rfind("\033[?25l")
FACTS
"$PLIMSOLL" watch --live -- sh -c 'echo plain' >"$TMP/out" 2>"$TMP/err"
watch_status=$?
facts <<'FACTS'
live: nothing of it without a terminal | (status, out) == (0, "plain\n") and "\033" not in err
FACTS

finish
