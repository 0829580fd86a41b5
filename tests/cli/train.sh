#!/bin/sh
# plimsoll train: the numbers, checkpoints, what is written, and what is refused.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli.sh"
. "$here/../lib/python.sh"
[ -n "$PYTHON" ] || { skip 'training' 'no python3 with NumPy here (Debian: python3-numpy)'; finish; }
check() { "$PYTHON" "$here/../lib/train_check.py" "$@"; }
check make . || exit 99
train="$PLIMSOLL train net.json --data x.npy --target y.npy --loss sparse-ce --batch 8 --lr 0.05 --quiet"

# verdict NAME COMMAND...: passed when the command succeeds
verdict() {
    verdict_name=$1
    shift
    if "$@" >"$TMP/why" 2>&1; then pass "$verdict_name"; else fail "$verdict_name" "$TMP/why"; fi
}

budget_word() { case $1 in 1G) echo 1G ;; *) echo 'the smallest budget' ;; esac; } # the same name of a case on every machine

# ---------------------------------------------------------------------------------------------------- numbers
# shellcheck disable=SC2086  # $train is several words on purpose
for optimizer in sgd momentum adam; do
    check losses . $optimizer 12 >"$TMP/expected"
    # shellcheck disable=SC2086
    small=$(near_floor $train --weights w.safetensors --no-shuffle --optimizer $optimizer --steps 12) || exit 99
    for memory in 1G $small; do
        $train --weights w.safetensors --no-shuffle --optimizer $optimizer --steps 12 --memory $memory --json >"$TMP/report" 2>"$TMP/stderr" || cat "$TMP/stderr"
        verdict "$optimizer in $(budget_word $memory): the losses of NumPy" check compare "$TMP/report" "$TMP/expected"
    done
done

# shellcheck disable=SC2086
{
verdict 'one-hot targets and classes give the same losses' sh -c "
    $train --weights w.safetensors --no-shuffle --optimizer sgd --steps 5 --json >a.json &&
    $PLIMSOLL train net.json --data x.npy --target t.npy --loss ce --batch 8 --lr 0.05 --quiet --weights w.safetensors --no-shuffle --optimizer sgd --steps 5 --json >b.json &&
    [ \"\$(sed -n '/\"loss\"/,/]/p' a.json)\" = \"\$(sed -n '/\"loss\"/,/]/p' b.json)\" ]"
verdict 'data of another type are converted' $PLIMSOLL train net.json --data x8.npy --target y.npy --loss sparse-ce --batch 8 --steps 2 --quiet
verdict 'a seed gives the same training again' sh -c "$train --seed 3 --epochs 2 -o a.safetensors && $train --seed 3 --epochs 2 -o b.safetensors && cmp a.safetensors b.safetensors"
verdict 'what cannot be saved is refused before the first step' sh -c "
    ! $train --steps 2 --history none.csv -o a.weights 2>a.err && grep -q 'a.weights' a.err && [ ! -e none.csv ] &&
    ! $train --steps 2 --history none.csv -o nowhere/a.safetensors 2>a.err && grep -q nowhere a.err && [ ! -e none.csv ]"
verdict 'another seed another one' sh -c "$train --seed 4 --epochs 2 -o c.safetensors && ! cmp -s a.safetensors c.safetensors"

# ------------------------------------------------------------------------------------------------ checkpoints
verdict 'resumed training ends with the same weights, to the bit' sh -c "
    $train --seed 5 --steps 20 -o whole.safetensors &&
    $train --seed 5 --steps 9 --checkpoint c.st --checkpoint-every 3 &&
    $train --seed 5 --steps 20 --checkpoint c.st --resume -o resumed.safetensors && cmp whole.safetensors resumed.safetensors"
verdict 'history goes on where it stopped' sh -c "
    rm -f h.csv d.st; $train --seed 5 --steps 7 --checkpoint d.st --checkpoint-every 5 --history h.csv &&
    $train --seed 5 --steps 12 --checkpoint d.st --resume --history h.csv && [ \"\$(wc -l <h.csv)\" = 13 ] && [ \"\$(tail -1 h.csv | cut -d, -f1)\" = 12 ]"
verdict 'history as JSON lines' sh -c "$train --steps 3 --history h.jsonl && [ \"\$(wc -l <h.jsonl)\" = 3 ] && $PYTHON -c 'import json; [json.loads(l) for l in open(\"h.jsonl\")]'"
expect_error 'a checkpoint of another training' 2 "its batch is 8, here it is 4" $PLIMSOLL train net.json --data x.npy --target y.npy --loss sparse-ce --batch 4 --seed 5 --checkpoint c.st --resume --quiet
echo nonsense >bad.st
expect_error 'no checkpoint' 2 'bad.st' $train --checkpoint bad.st --resume

# ------------------------------------------------------------------------------------------------- validation
validate='--validate vx.npy --validate-target vy.npy'
for net in net norm; do
    epochs="$PLIMSOLL train $net.json --data x.npy --target y.npy --loss sparse-ce --batch 8 --lr 0.05 --quiet --seed 3 --epochs 3"
    small=$(near_floor $epochs $validate) || exit 99
    for memory in 1G $small; do
        word=$(budget_word $memory)
        $epochs --memory $memory $validate --json -o v.safetensors >v.json
        verdict "$net in $word: the validation of NumPy" check validation vx.npy vy.npy v.safetensors v.json
        verdict "$net in $word: three of them, planned inside the budget" "$PYTHON" -c "
import json
d = json.load(open('v.json'))
assert [v['step'] for v in d['validation']] == [5, 10, 15] and [v['epoch'] for v in d['validation']] == [1, 2, 3], d['validation']
assert d['planned_peak_bytes'] <= d['budget_bytes'], d"
        skip_sanitized "$net in $word: inside the planned peak" 'its own memory is not planned' ||
            verdict "$net in $word: inside the planned peak" "$PYTHON" -c "
import json
d = json.load(open('v.json'))
assert d['peak_rss_bytes'] <= d['planned_peak_bytes'], d"
        verdict "$net in $word: training is the same without" sh -c "$epochs --memory $memory -o n.safetensors && cmp v.safetensors n.safetensors"
    done
done
steps="$PLIMSOLL train conv.json --data xi.npy --target y.npy --loss sparse-ce --batch 8 --quiet --seed 3 --steps 7"
images='--validate vi.npy --validate-target vy.npy'
small=$(near_floor $steps $images) || exit 99
for memory in 1G $small; do
    verdict "convolutions in $(budget_word $memory): validation is what infer says" sh -c "
        $steps --memory $memory $images --json -o v.safetensors >v.json &&
        $PLIMSOLL infer conv.json vi.npy --weights v.safetensors -o p.npy --quiet && $PYTHON $here/../lib/train_check.py measured p.npy vy.npy v.json &&
        $steps --memory $memory -o n.safetensors && cmp v.safetensors n.safetensors"
done
verdict 'resumed with validation: the same weights and history' sh -c "
    rm -f v.st; $train --seed 5 --epochs 4 $validate --history vh.csv -o whole.safetensors &&
    $train --seed 5 --steps 12 --checkpoint v.st --checkpoint-every 6 $validate --history vr.csv && $train --seed 5 --epochs 4 --checkpoint v.st --resume $validate --history vr.csv -o resumed.safetensors &&
    cmp whole.safetensors resumed.safetensors && cut -d, -f1-6,8- vh.csv >a.csv && cut -d, -f1-6,8- vr.csv | sed '13s/,[^,]*,[^,]*\$/,,/' >b.csv && cmp a.csv b.csv &&
    [ \"\$(cut -d, -f8 vh.csv | grep -c '[0-9]')\" = 4 ]"
expect_error 'validation without a target' 2 'validation needs both' $train --validate vx.npy
expect_error 'validation of another shape' 2 "'vi.npy' is" $train --validate vi.npy --validate-target vy.npy
expect_error 'as many samples as targets' 2 "'y.npy' has 40 samples, 'vx.npy' has 29" $train --validate vx.npy --validate-target y.npy
expect_error 'does not fit with validation' 3 'does not fit with validation|does not fit' $train $validate --memory 5M

# ------------------------------------------------------------------------------------------------- fewer bits
# Near the floor of a dense layer behind a pooled convolution the update runs in bands of rows, over what was read, while the next ones are read and the last
# ones written: the same weights as in one piece.
band="$PLIMSOLL train $here/../models/small.json --data bx.npy --target by.npy --loss mse --optimizer adam --batch 8 --steps 3 --no-shuffle --no-machine --spill . --quiet"
"$PYTHON" - <<'PYTHON' || exit 99
import numpy as np
r = np.random.default_rng(5)
np.save("bx.npy", r.random((24, 128, 128, 3), dtype=np.float32))
np.save("by.npy", np.eye(10, dtype=np.float32)[r.integers(0, 10, 24)])
PYTHON
# shellcheck disable=SC2086
tight=$(near_floor $band) || exit 99
for above in 0 1 3; do
    memory=$((tight + above * 1048576))
    verdict "bands of a dense layer, $above MiB above the smallest budget: the weights of one piece" sh -c "
        $band --memory 1G -o whole.safetensors --seed 9 && $band --memory $memory -o bands.safetensors --seed 9 &&
        $PYTHON $here/../lib/train_check.py same whole.safetensors bands.safetensors 1e-5"
done

# Only what the forward pass leaves for the backward pass is kept in 16 bits, never a gradient: those below the smallest f16, 6e-8, survive.
many="$PLIMSOLL train net.json --data xm.npy --target ym.npy --loss sparse-ce --batch 512 --steps 1 --no-shuffle --optimizer sgd --lr 100000 --weights small.safetensors"
$many -o wide.safetensors --quiet
for bits in f16 bf16; do
    verdict "$bits: small gradients survive" sh -c "
        $many -o narrow.safetensors --allow $bits 2>narrow.err && grep -q 'kept in fewer bits' narrow.err &&
        $PYTHON $here/../lib/train_check.py moved small.safetensors narrow.safetensors wide.safetensors one/kernel 0.02 && ! cmp -s narrow.safetensors wide.safetensors"
done

# --------------------------------------------------------------------------------------------------- left over
$PLIMSOLL train net.json --data vx.npy --target vy.npy --loss sparse-ce --batch 8 --epochs 3 --json >left.json 2>left.err
verdict 'samples that fill no batch are told of, once' sh -c "
    grep -q '^plimsoll: 5 of 29 samples are left out of every epoch, for the batch does not divide them; others each time$' left.err && [ \"\$(grep -c 'left out' left.err)\" = 1 ] &&
    grep -q '\"left_out\": 5' left.json && grep -q '\"steps\": 9' left.json"

# --------------------------------------------------------------------------------------------------- refusals
expect_error 'no data' 2 'training needs data' $PLIMSOLL train net.json --target y.npy
expect_error 'no target' 2 'training needs a target' $PLIMSOLL train net.json --data x.npy
expect_error 'data of another shape' 2 "'t.npy' is \\[40,5\\]; input 'input' is \\[8,12\\]" $PLIMSOLL train net.json --data t.npy --target y.npy --loss sparse-ce --batch 8
expect_error 'a batch larger than the data' 2 'a batch of 64, and .* has 40 samples' $PLIMSOLL train net.json --data x.npy --target y.npy --loss sparse-ce --batch 64
expect_error 'an optimizer that does not exist' 2 "no optimizer 'adum'" $PLIMSOLL train net.json --data x.npy --target y.npy --optimizer adum
expect_error 'a parameter that it does not have' 2 "'beta3=1' is no parameter" $PLIMSOLL train net.json --data x.npy --target y.npy --optimizer adam:beta3=1
expect_error 'a schedule that does not exist' 2 "no schedule 'stairs'" $PLIMSOLL train net.json --data x.npy --target y.npy --lr-schedule stairs
expect_error 'does not fit' 3 'does not fit' $train --memory 5M
verdict 'a loss that is no number names the step and the layer' sh -c "
    $PYTHON -c 'import numpy as np; x = np.load(\"x.npy\"); x[17] = np.inf; np.save(\"inf.npy\", x)' &&
    $PLIMSOLL train net.json --data inf.npy --target y.npy --loss sparse-ce --batch 8 --no-shuffle --quiet --steps 5 2>err; [ \$? = 1 ] && grep -q \"step 3: the loss is nan; the first layer whose numbers are not finite is 'one'\" err"
}
finish
