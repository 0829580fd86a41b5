#!/bin/sh
# The same command gives the same bits and the same plan, whatever the size of the environment, the length of argv[0], the addresses (with and without
# randomisation) and the load of the machine: every command runs many times, and all its results have one hash.
#   tests/same_bits.sh [--runs N] [--only NAME,NAME] [--keep DIR] [--list] [--help]
#     --runs N      how often each command runs (default 50)
#     --only NAMES  these commands alone, with commas between
#     --keep DIR    keep the first result and the first that differs there
#     --list        the names of the commands
# PLIMSOLL: the command line under test. The last line is "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
usage() { sed -n 's/^# \{0,1\}//; 2,9p' "$here/same_bits.sh"; }

names='eval-tight eval-ample eval-median eval-matmul infer-small infer-tight infer-ample train-small train-spill train-ample train-validate plan'
runs=50 only='' keep=''
while [ $# != 0 ]; do
    case $1 in
    --runs) runs=${2:?--runs needs a number} && shift 2 ;;
    --only) only=$(echo "${2:?--only needs names}" | tr , ' ') && shift 2 ;;
    --keep) keep=${2:?--keep needs a folder} && shift 2 ;;
    --list) echo "$names" | tr ' ' '\n' && exit 0 ;;
    --help | -h) usage && exit 0 ;;
    *) echo "same_bits.sh: unknown option '$1' (--help lists them)" >&2 && exit 2 ;;
    esac
done
case $runs in '' | *[!0-9]* | 0) echo "same_bits.sh: --runs: '$runs' is not a number above 0" >&2 && exit 2 ;; esac
for name in $only; do
    case " $names " in *" $name "*) ;; *) echo "same_bits.sh: --only: unknown command '$name' (--list has them)" >&2 && exit 2 ;; esac
done
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
PLIMSOLL=${PLIMSOLL:?the command line under test}
PLIMSOLL=$(cd "$(dirname "$PLIMSOLL")" && pwd)/$(basename "$PLIMSOLL")

tmp=$(mktemp -d) || exit 99
loads=
unload() { # ends the load of this test
    for pid in $loads; do kill "$pid" 2>/dev/null; done
    for pid in $loads; do wait "$pid" 2>/dev/null; done
    loads=
}
trap 'unload; rm -rf "$tmp"' EXIT
trap 'exit 1' INT TERM
mkdir "$tmp/bin" "$tmp/data" "$tmp/out" && cd "$tmp/data" || exit 99
fixed='setarch -R'
if grep -q __tsan_init "$PLIMSOLL"; then fixed=false; fi # ThreadSanitizer places its shadow itself
$fixed true 2>/dev/null || { fixed=; echo "# addresses are never fixed: setarch -R does not work here"; }

# ------------------------------------------------------------------------------------------------------------- commands
"$PYTHON" - <<'PYTHON' || exit 99
import numpy as np
r = np.random.default_rng(1)
np.save("x.npy", r.standard_normal((60007, 64), dtype=np.float32))
np.save("w.npy", r.standard_normal((64, 48), dtype=np.float32))
np.save("images.npy", r.random((16, 128, 128, 3), dtype=np.float32))
np.save("classes.npy", np.eye(10, dtype=np.float32)[r.integers(0, 10, 16)])
np.save("vimages.npy", r.random((5, 128, 128, 3), dtype=np.float32))
np.save("vclasses.npy", np.eye(10, dtype=np.float32)[r.integers(0, 10, 5)])
PYTHON
mkdir little && "$PYTHON" "$here/lib/train_check.py" make little || exit 99
cp "$here/models/small.json" "$here/models/resnet50.json" .
zscore='m = mean(x,0); s = std(x,0); z = f16((x-m)/s)'
train='train small.json --data images.npy --target classes.npy --loss mse --optimizer adam --batch 8 --seed 3 --threads 4 --spill ../out'

# words NAME: the command, one word a line, without its budget
# shellcheck disable=SC2086  # $train is several words on purpose
words() {
    case $1 in
    eval-tight | eval-ample) printf '%s\n' eval "$zscore" x=x.npy -o z=../out/z.npy -o m=../out/m.npy --threads 4 ;;
    eval-median) printf '%s\n' eval 'a = median(x,0); b = histogram(x,50); c = cumsum(x,0)' x=x.npy -o a=../out/a.npy -o b=../out/b.npy -o c=../out/c.npy --threads 3 ;;
    eval-matmul) printf '%s\n' eval 'y = x @ w; t = (x.T @ x); q = sum(y, 1)' x=x.npy w=w.npy -o y=../out/y.npy -o t=../out/t.npy -o q=../out/q.npy --threads 4 --spill ../out ;;
    infer-small) printf '%s\n' infer little/net.json little/xm.npy --weights little/w.safetensors -o ../out/y.npy --threads 4 ;;
    infer-tight | infer-ample) printf '%s\n' infer small.json images.npy --weights first.safetensors -o ../out/y.npy --threads 4 --spill ../out ;;
    train-small) printf '%s\n' train little/wide.json --data little/x.npy --target little/y.npy --loss sparse-ce --batch 8 --seed 3 --threads 4 --spill ../out \
        --steps 6 -o ../out/w.safetensors ;;
    train-spill | train-ample) printf '%s\n' $train --steps 3 -o ../out/w.safetensors ;;
    train-validate) printf '%s\n' $train --epochs 2 --validate vimages.npy --validate-target vclasses.npy -o ../out/w.safetensors ;;
    plan) printf '%s\n' plan resnet50.json --train adam --batch 4 --threads 4 --spill . ;;
    esac
    printf '%s\n' --no-machine --json --schedule
}

# start NAME PREFIX... -- OPTION...: runs the command, after the words of the prefix
start() {
    start_name=$1
    shift
    words "$start_name" >"$tmp/words"
    start_options=0
    for start_word in "$@"; do
        case $start_word in --) start_options=1 ;; *) [ $start_options = 0 ] || printf '%s\n' "$start_word" >>"$tmp/words" ;; esac
    done
    start_prefix=
    for start_word in "$@"; do
        [ "$start_word" != -- ] || break
        start_prefix="$start_prefix $start_word" # none has a blank in it
    done
    set --
    while IFS= read -r start_word; do set -- "$@" "$start_word"; done <"$tmp/words"
    # shellcheck disable=SC2086
    $start_prefix "$@"
}

# budget NAME: of the tight ones little more than the floor, which is asked for once
budget() {
    case $1 in
    *-ample) echo 2147483648 && return ;;
    plan) only_plan= ;;
    *) only_plan=--plan-only ;;
    esac
    # shellcheck disable=SC2086  # a word or none
    floor=$(start "$1" "$PLIMSOLL" -- --memory 1M $only_plan 2>/dev/null | sed -n 's/^ *"floor_bytes": \([0-9]*\).*/\1/p')
    [ -n "$floor" ] || return 1
    case $1 in plan) echo $((floor * 5 / 4)) ;; *) echo $((floor + floor / 50 + 65536)) ;; esac
}

# What the clock and the kernel measured is different each time. All else that the report says has to be the same, and so has the schedule (on stderr).
unmeasured='plan_seconds|seconds|step_seconds|first_seconds|best_seconds|median_seconds|validation_seconds|peak_rss_bytes|above_plan_bytes'

# ------------------------------------------------------------------------------------------------------------- the runs
pad() { awk -v n="$1" 'BEGIN { for (i = 0; i < n; i++) printf "x" }'; }

# varied NUMBER: sets $prefix for the run of that number, and loads the machine in every third
varied() {
    link=$tmp/bin/p$(pad $(($1 * 37 % 200)))
    ln -sf "$PLIMSOLL" "$link"
    prefix="env SAME_BITS_PADDING=$(pad $(($1 * 977 % 60000)))"
    [ $(($1 % 2)) = 0 ] || prefix="$prefix $fixed"
    prefix="$prefix $link"
    if [ $(($1 % 3)) = 2 ]; then
        sh -c 'while :; do :; done' &
        loads=$!
        sh -c 'while :; do :; done' &
        loads="$loads $!"
    fi
}

hash_of() { (cd "$1" && find . -type f | LC_ALL=C sort | xargs -r sha256sum) | sha256sum | cut -c1-16; } # folder

# repeated NAME: all runs of a command. @return 0: one hash, and no failure
repeated() {
    name=$1
    memory=$(budget "$name") || { echo "not ok - $name: no floor"; return 1; }
    first='' differs=0 n=0
    while [ "$n" -lt "$runs" ]; do
        rm -rf "$tmp/out" && mkdir "$tmp/out"
        varied "$n"
        # shellcheck disable=SC2086
        start "$name" $prefix -- --memory "$memory" >"$tmp/report" 2>"$tmp/err"
        code=$?
        unload
        [ $code = 0 ] || { echo "not ok - $name: run $n ended with exit code $code: $(head -n 1 "$tmp/err")"; return 1; }
        grep -Ev "^ *\"($unmeasured)\":" "$tmp/report" >"$tmp/out/plan.json"
        mv "$tmp/err" "$tmp/out/schedule.txt"
        hash=$(hash_of "$tmp/out")
        if [ -z "$first" ]; then
            first=$hash && rm -rf "$tmp/first" && cp -r "$tmp/out" "$tmp/first"
            kinds=$(sed -n 's/.*{"kind": "\([a-z]*\)", "what".*/\1/p' "$tmp/out/plan.json" | sort -u | tr '\n' ' ')
        elif [ "$hash" != "$first" ]; then
            differs=$((differs + 1))
            [ $differs != 1 ] || [ -z "$keep" ] || { mkdir -p "$keep" && cp -r "$tmp/first" "$keep/$name-first" && cp -r "$tmp/out" "$keep/$name-run-$n"; }
            [ $differs != 1 ] || { echo "# run $n differs from run 0:" && (cd "$tmp" && { diff -rq first out; diff -r first out; } | head -n 12 | sed "s|^|#   |"); }
        fi
        n=$((n + 1))
    done
    if [ $differs = 0 ]; then
        echo "ok - $name: $runs runs in $memory bytes, one hash $first${kinds:+; moves: $kinds}"
    else
        echo "not ok - $name: $differs of $runs runs in $memory bytes differ from the first"
    fi
    [ $differs = 0 ]
}

case " ${only:-$names} " in
*' infer-tight '* | *' infer-ample '*)
    "$PLIMSOLL" train small.json --data images.npy --target classes.npy --loss mse --batch 8 --seed 3 --steps 1 --no-machine --quiet -o first.safetensors ||
        { echo "not ok - initial weights"; exit 1; }
    ;;
esac
passed=0 failed=0
for name in ${only:-$names}; do
    if repeated "$name"; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
done
echo "$passed passed, $failed failed"
[ $failed = 0 ]
