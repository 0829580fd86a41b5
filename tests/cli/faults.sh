#!/bin/sh
# What goes wrong from outside: a full disk, inputs that are cut or change, outputs that cannot be written, signals. Each time a message that says
# which file and where, nothing at the output's path, no unfinished file left, and the right exit code.
. "$(dirname "$0")/../lib/cli.sh"
full=$TMP/full
trap 'umount "$full" 2>/dev/null; rm -rf "$TMP"' EXIT

# 32 MiB of zeros that take no disk, and an expression that takes a second or more on them.
"$PLIMSOLL" eval 'zeros((4, 4), f32)' -o head.npy -q || exit 99
make_slow() { # file: a .npy 1.0 header for f32 (16384, 512), 128 bytes, and a hole
    printf '\223NUMPY\001\000\166\000%-117s\n' "{'descr': '<f4', 'fortran_order': False, 'shape': (16384, 512), }" >"$1"
    truncate -s $((128 + 16384 * 512 * 4)) "$1"
}
slow='x'
for i in $(seq "$(rounds 20)"); do slow="sin(exp(tanh($slow))+$i)"; done
slow="sort($slow, 1)"

unfinished() { find . -name '*.plimsoll-tmp' 2>/dev/null; }

# verdict NAME: passed when $TMP/why is empty
verdict() {
    if [ -s "$TMP/why" ]; then fail "$1" "$TMP/why"; else pass "$1"; fi
}

# check NAME CODE PATTERN: of the run whose exit code is $code and whose stderr is in $TMP/stderr; out.npy must not be there, nor an unfinished file.
check() {
    {
        [ "$code" = "$2" ] || echo "exit code $code, expected $2"
        grep -Eq -- "$3" "$TMP/stderr" || { echo "stderr should match $3:"; cat "$TMP/stderr"; }
        [ ! -e out.npy ] || echo "out.npy is there"
        unfinished | sed 's/^/left behind: /'
    } >"$TMP/why"
    verdict "$1"
}

attempt() { # arguments of eval
    "$PLIMSOLL" eval "$@" -q >"$TMP/stdout" 2>"$TMP/stderr" </dev/null
    code=$?
}

# Starts a slow run and returns when it is at work: its output file exists, unfinished, and a moment has passed. Sets $pid. Signals are as they
# are for a command in the foreground; a shell would let its background jobs ignore SIGINT.
start() {
    rm -f out.npy
    env --default-signal=INT,TERM "$PLIMSOLL" eval "$slow" x=slow.npy -o out.npy -q --threads 1 >"$TMP/stdout" 2>"$TMP/stderr" </dev/null &
    pid=$!
    for try in $(seq 1000); do
        [ -z "$(unfinished)" ] || break
        kill -0 $pid 2>/dev/null || break
        sleep 0.01
    done
    sleep 0.1
}

finish_run() { wait $pid 2>/dev/null; code=$?; }

# -------------------------------------------------------------------------------------------- a full disk
make_slow slow.npy
mkdir "$full"
if mount -t tmpfs -o size=4M tmpfs "$full" 2>/dev/null; then
    attempt 'x + 1' x=slow.npy -o "$full/out.npy"
    check 'a full disk' 1 "no space for '[^']*full/out.npy'.*33,?[0-9,]+ bytes"
    ls -A "$full" >"$TMP/why"
    verdict 'a full disk is left as it was'
    umount "$full"
else
    echo 'SKIPPED: may not mount a small tmpfs here'
    skip 'a full disk' 'may not mount a small tmpfs here'
fi
(ulimit -f 2048 && "$PLIMSOLL" eval 'x + 1' x=slow.npy -o out.npy -q) >"$TMP/stdout" 2>"$TMP/stderr"
code=$?
check 'a limit on the size of files' 1 'out\.npy'

# ------------------------------------------------------------------------------------ inputs that are wrong
cp slow.npy cut.npy && truncate -s 1000000 cut.npy
attempt 'mean(x)' x=cut.npy -o out.npy
check 'a truncated input' 2 'cut\.npy.*byte 1000000'
truncate -s 100 cut.npy
attempt 'mean(x)' x=cut.npy -o out.npy
check 'an input whose header is cut' 2 'cut\.npy.*(byte|header)'
: >empty.npy
attempt 'mean(x)' x=empty.npy -o out.npy
check 'an empty input' 2 'empty\.npy'
mkdir folder.npy
attempt 'mean(x)' x=folder.npy -o out.npy
check 'an input that is a folder' 2 'folder\.npy'

start
kill -STOP $pid && truncate -s 1000000 slow.npy && kill -CONT $pid
finish_run
check 'an input that shrinks during the run' 1 'slow\.npy.*[0-9]+'
make_slow slow.npy
start
kill -STOP $pid && printf 'more' >>slow.npy && kill -CONT $pid
finish_run
check 'an input that grows during the run' 1 'slow\.npy.*changed while it was read.*33554564'
make_slow slow.npy

# ------------------------------------------------------------------------------- outputs that cannot be written
attempt 'mean(x)' x=slow.npy -o nowhere/out.npy
check 'an output in a folder that is not there' 1 'nowhere'
attempt 'mean(x)' x=slow.npy -o folder.npy
check 'an output that is a folder' 2 'folder\.npy'
attempt 'mean(x)' x=slow.npy -o /proc/out.npy
check 'an output where no file can be made' 1 '/proc'
attempt 'a = mean(x); b = x + 1' x=slow.npy -o a=out.npy -o b=nowhere/b.npy
check 'the second of two outputs cannot be written' 1 'nowhere'

# --------------------------------------------------------------------------------------------------- signals
for signal in INT TERM; do
    start
    kill -$signal $pid
    finish_run
    check "SIG$signal in mid-run" 1 'stopped|interrupted'
done

start
kill -KILL $pid
finish_run
{
    [ "$code" = 137 ] || echo "exit code $code"
    [ ! -e out.npy ] || echo 'out.npy is there'
    [ "$(unfinished | wc -l)" = 1 ] || { echo 'there should be one unfinished file'; ls -A; }
} >"$TMP/why"
verdict 'kill -9 in mid-run leaves one unfinished file and no output'
attempt 'mean(x, 1)' x=slow.npy -o other.npy
{ [ "$(unfinished | wc -l)" = 1 ] || ls -A; } >"$TMP/why"
verdict 'a run for another output does not touch it'
attempt 'sum(x[:3, :2] + 1)' x=slow.npy -o out.npy
{
    [ "$code" = 0 ] || cat "$TMP/stderr"
    unfinished
} >"$TMP/why"
verdict 'the next run removes it'
expect 'and its output is whole' 0 "$PLIMSOLL" eval 'o' o=out.npy -q <<'OUT'
6.0
OUT

start
attempt 'mean(x)' x=head.npy -o out.npy
if kill -0 $pid 2>/dev/null && [ -n "$(unfinished)" ]; then pass 'a run leaves the unfinished file of another that lives'
elif kill -0 $pid 2>/dev/null; then fail 'a run leaves the unfinished file of another that lives' "$TMP/stderr"
else skip 'a run leaves the unfinished file of another that lives' 'the other was too quick'
fi
kill -KILL $pid 2>/dev/null
finish_run
finish
