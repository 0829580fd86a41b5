#!/bin/sh
# Training that is killed (SIGKILL) at random moments and resumed each time ends with the weights, to the bit, of one that was not, with validation and without;
# what a full disk does to a checkpoint and to what is spilled. The last line is "N passed, N failed".
#   tests/durable.sh        DURABLE_KILLS=50: how often
set -u
here=$(cd "$(dirname "$0")" && pwd)
PLIMSOLL=${PLIMSOLL:?the command line under test}
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
kills=${DURABLE_KILLS:-50}
tmp=$(mktemp -d) || exit 99
trap 'umount "$tmp/small" 2>/dev/null; rm -rf "$tmp"' EXIT
cd "$tmp" || exit 99
"$PYTHON" "$here/lib/train_check.py" make . || exit 99
passed=0 failed=0
verdict() { # name, 0 for passed
    if [ "$2" = 0 ]; then passed=$((passed + 1)) && echo "ok - $1"; else failed=$((failed + 1)) && echo "not ok - $1"; fi
}
how='net.json --data x.npy --target y.npy --loss sparse-ce --batch 8 --seed 3 --memory 64M --quiet'
# shellcheck disable=SC2086  # $how is several words on purpose
train() { "$PLIMSOLL" train $how --steps 4000 "$@"; }

train -o whole.safetensors || exit 1
validate='--validate vx.npy --validate-target vy.npy'

# killed NAME KILLS OPTION...: trains with the options, killed so often, and compares the weights
killed() {
    name=$1 most=$2 tries=0
    shift 2
    rm -f killed.safetensors c.safetensors
    while [ "$tries" -lt "$most" ]; do
        # shellcheck disable=SC2086
        "$PLIMSOLL" train $how --steps 4000 "$@" --checkpoint c.safetensors --checkpoint-every 7 --resume -o killed.safetensors & # no function: its process is to be killed
        pid=$!
        sleep "$(awk -v s="$tries$$" 'BEGIN { srand(s); printf "%.3f", 0.05 + 0.4 * rand() }')"
        if kill -9 "$pid" 2>/dev/null; then tries=$((tries + 1)); fi
        wait "$pid" 2>/dev/null
        if [ -e killed.safetensors ]; then # it came to its end: from the beginning again, it is the kills that count
            cmp -s whole.safetensors killed.safetensors || break
            rm -f killed.safetensors c.safetensors
        fi
    done
    train "$@" --checkpoint c.safetensors --resume -o killed.safetensors
    cmp whole.safetensors killed.safetensors
    verdict "$name: $tries kills, and the weights of a run without any" $?
}

killed 'training' "$kills"
# shellcheck disable=SC2086
train $validate --history whole.csv -o validated.safetensors && cmp whole.safetensors validated.safetensors
verdict 'the weights of a run with validation' $?
# shellcheck disable=SC2086
killed 'training with validation' "$((kills / 2))" $validate --history killed.csv
cut -d, -f1-6,8- whole.csv >a.csv && cut -d, -f1-6,8- killed.csv | cmp a.csv - # all but how long a step took
verdict 'its history: every loss and every validation, to the bit' $?
[ -z "$(find . -name '*.plimsoll-tmp')" ]
verdict 'nothing of the killed ones is left behind' $?

if mkdir small && mount -t tmpfs -o size=40k none small 2>/dev/null; then
    # shellcheck disable=SC2086
    "$PLIMSOLL" train $how --checkpoint small/c.safetensors --checkpoint-every 1000 --steps 1000
    cp small/c.safetensors before 2>/dev/null
    head -c 100000 /dev/zero >small/full 2>/dev/null
    # shellcheck disable=SC2086
    "$PLIMSOLL" train $how --steps 3000 --checkpoint small/c.safetensors --checkpoint-every 500 --resume 2>err
    code=$?
    [ "$code" = 1 ] && grep -q 'small/c.safetensors' err && cmp -s before small/c.safetensors
    verdict 'a full disk: a message, and the last checkpoint whole' $?
    umount small
    # What is spilled has its blocks before the first step: a disk that has none left is known then. The smallest budget is the one that needs the file.
    mount -t tmpfs -o size=2m none small
    wide='wide.json --data x.npy --target y.npy --loss sparse-ce --batch 8 --seed 3 --quiet --checkpoint wide.safetensors'
    # shellcheck disable=SC2086
    "$PLIMSOLL" train $wide --steps 3 && cp wide.safetensors before
    # shellcheck disable=SC2086
    "$PLIMSOLL" train $wide --steps 6 --memory 1M --spill small --json >refused.json 2>/dev/null
    floor=$(sed -n 's/.*"floor_bytes": \([0-9]*\).*/\1/p' refused.json)
    # shellcheck disable=SC2086
    "$PLIMSOLL" train $wide --steps 6 --resume --memory "$floor" --spill small 2>err
    code=$?
    [ "$code" = 1 ] && grep -q "no space for 'small'" err && cmp -s before wide.safetensors
    verdict 'a full disk under what is spilled: a message that names the file, and the last checkpoint whole' $?
    umount small
else
    echo "SKIPPED: may not mount a small file system here"
fi
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
