#!/bin/sh
# plimsoll watch at its edges: standard streams that are closed, scripts that come through a pipe, crashes after a refusal, and processes that the budget
# does not reach: those have to be told of.
. "$(dirname "$0")/../lib/cli.sh"
. "$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)/watch.sh"
watch_needs plain python
ulimit -c 0

# ------------------------------------------------------------------------------------------------------- closed streams
cat >fits.py <<'PROGRAM'
import sys
try:
    x = bytearray(200 << 20)
except MemoryError:
    sys.exit(5)
sys.exit(4)
PROGRAM
for streams in 0 1 2 3 4 5 6 7; do
    for memory in 1G 100M; do
        (
            [ $((streams & 1)) = 0 ] || exec 0<&-
            [ $((streams & 2)) = 0 ] || exec 1>&-
            [ $((streams & 4)) = 0 ] || exec 2>&-
            exec "$PLIMSOLL" watch --memory $memory --json "$TMP/json" -- "$PYTHON" fits.py
        ) </dev/null >/dev/null 2>/dev/null
        watch_status=$?
        facts "closed streams $streams, $memory: " <<'FACTS'
the exit code is the program's, and the JSON is whole | status == (4 if whole.budget_bytes == GIB else 5) and whole.exit.code == status and last.event == "ended"
FACTS
    done
done
# A stream that is closed is closed for the program, too.
"$PLIMSOLL" watch -- sh -c '[ -e /proc/$$/fd/2 ] && exit 6; exit 7' </dev/null >/dev/null 2>&-
watch_status=$?
: >"$TMP/json"
facts <<'FACTS'
closed streams: the program finds them closed | status == 7
FACTS
# Whoever reads the reports may go before the end.
{ "$PLIMSOLL" watch --memory 100M -- "$PYTHON" fits.py; echo $? >"$TMP/status"; } 2>&1 </dev/null | true
watch_status=$(cat "$TMP/status")
facts <<'FACTS'
a reader that is gone: the exit code is the program's | status == 5
FACTS

# ------------------------------------------------------------------------------------------------- a script in a pipe
mkfifo script
cat fits.py >script &
rm -f "$TMP/json"
timeout 60 "$PLIMSOLL" watch --memory 100M --json "$TMP/json" -- "$PYTHON" script >"$TMP/out" 2>"$TMP/err" </dev/null
watch_status=$?
facts <<'FACTS'
a script from a FIFO: refused as ever, at once | status == 5 and bad.event == "refused" and last.seconds - bad.seconds < 4
a script from a FIFO: its line, without the text | bad.asked.site.frames[0].line == 3 and bad.asked.site.frames[0].source == ""
FACTS

# ------------------------------------------------------------------------------------------- crashes after a refusal
for how in '' abort; do
    watched --memory 100M -- "$watch_build/watch-unchecked" $how
    facts "unchecked malloc ${how:-used}: " <<'FACTS'
the signal is the program's | status in (139, 134)
the refusal is named as the likely cause | (last.event, last.cause) == ("killed", "after_refusal") and "likely cause" in last.verdict and "300 MiB" in last.verdict
no other cause is | "not by a memory limit" not in said
the budget that would do | "a budget of 302 MiB" in said
FACTS
done
watched --memory 1G -- sh -c 'kill -SEGV $$'
facts <<'FACTS'
a crash without a refusal is none of ours | status == 139 and "not by a memory limit" in last.verdict
FACTS

# ------------------------------------------------------------------------------------------- where the budget ends
cat >holds.py <<'PROGRAM'
import time
x = bytearray(b"1") * (150 << 20)
time.sleep(0.5)
PROGRAM
watched --memory 100M -- env -i "$PYTHON" holds.py
facts <<'FACTS'
env -i: it is said, and why | status == 0 and [r.verdict for r in reports if r.event == "uncovered" and "environment was cleared" in r.verdict]
env -i: and at the end | "did not hold" in last.verdict
env -i: its memory is charged | [r for r in reports if r.event == "over" and "does not cover" in r.refused]
FACTS
watched --memory 300M -- sh -c "env -i '$PYTHON' holds.py; exit 3"
facts <<'FACTS'
env -i in a child: which process | status == 3 and [r for r in reports if r.event == "uncovered" and str(r.pid) in r.verdict and "python3" in r.verdict]
FACTS
if [ -x "$watch_build/watch-static" ]; then
    watched --memory 30M -- sh -c "'$PYTHON' -c 'x = bytearray(b\"1\") * (1 << 20)'; true"
    facts <<'FACTS'
programs with the library are not told of | not [r for r in reports if r.event == "uncovered"]
FACTS
fi
if [ "$(id -u)" = 0 ] && setpriv --reuid 65534 true 2>/dev/null; then
    watched --memory 300M -- setpriv --reuid 65534 "$PYTHON" -c 'import time; x = bytearray(b"1") * (150 << 20); time.sleep(0.5)'
    facts <<'FACTS'
another user: it is said, and why | status == 0 and [r for r in reports if r.event == "uncovered" and "another user (uid 65534)" in r.verdict]
FACTS
    cat >leaves.py <<'PROGRAM'
import os, sys
if os.fork() == 0:
    os.chroot(sys.argv[1])
    os.setuid(65534)
    try:
        x = bytearray(200 << 20)
    except MemoryError:
        os._exit(7)
    os._exit(8)
sys.exit(os.waitstatus_to_exitcode(os.wait()[1]))
PROGRAM
    watched --memory 100M -- "$PYTHON" leaves.py "$TMP/work"
    facts <<'FACTS'
a child that changes its root and its user stays in the budget | status == 7 and bad.event == "refused"
FACTS
    root=$TMP/root
    mkdir -p "$root" && cp "$watch_build/watch-unchecked" "$root/unchecked"
    ldd "$watch_build/watch-unchecked" | grep -o '/[^ ]*' | while read -r file; do mkdir -p "$root$(dirname "$file")" && cp "$file" "$root$file"; done
    watched --memory 100M -- chroot "$root" /unchecked
    facts <<'FACTS'
chroot: it is said, and why | status == 0 and [r for r in reports if r.event == "uncovered" and "another root folder" in r.verdict]
FACTS
else
    skip 'another user: it is said, and why' 'needs root and setpriv'
fi
rm -f ready
watched --memory 300M -- sh -c "setsid '$PYTHON' -c 'x = bytearray(b\"1\") * (100 << 20); open(\"ready\", \"w\"); import time; time.sleep(5)' >/dev/null 2>&1 &
    n=0; while [ ! -e ready ] && [ \$n -lt 300 ]; do n=\$((n + 1)); sleep 0.1; done; sleep 1"
facts <<'FACTS'
a daemon: it is said that it goes on without a budget | status == 0 and re.search(r"1 process outlives it, without a budget from now on: \d+ \(python3, 1\d\d MiB\)", said)
FACTS
cat >shm.py <<'PROGRAM'
import time
from multiprocessing import shared_memory
s = shared_memory.SharedMemory(create=True, size=200 << 20)
for i in range(3200):
    s.buf[i << 16:(i + 1) << 16] = bytes(1 << 16)
time.sleep(0.5)
s.close()
s.unlink()
PROGRAM
watched --memory 100M -- "$PYTHON" shm.py
facts <<'FACTS'
shared memory: it is charged, and it is said that it was not refused | status == 0 and [r for r in reports if r.event == "over" and "shared memory" in r.refused]
FACTS

finish
