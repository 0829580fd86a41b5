#!/bin/sh
# plimsoll plan: verdicts, the table by layer, remedies, the largest batch, JSON, many budgets, saved plans, bad input.
. "$(dirname "$0")/../lib/cli.sh"
models=$(dirname "$0")/../models
plan="$PLIMSOLL plan"

verdict() { # passed when $TMP/why is empty
    if [ -s "$TMP/why" ]; then fail "$1" "$TMP/why"; else pass "$1"; fi
}
number() { sed -n "s/^ *\"$1\": \\([0-9.]*\\),*\$/\\1/p" json.txt; } # a key of json.txt
ask() { # a plan into json.txt, why not into $TMP/why
    $plan "$@" --json >json.txt 2>"$TMP/why"
    code=$?
}
holds() { [ "$@" ] 2>/dev/null || echo "not so: $*" >>"$TMP/why"; }

# shellcheck disable=SC2086  # $plan is two words on purpose
{
# ------------------------------------------------------------------------------------------------ what fits
expect_match 'small in inference' 0 '^verdict +fits: [0-9.]+ MiB of 256 MiB$' $plan "$models/small.json" --memory 256M
expect_match 'its model is named' 0 '^model +small: 4 layers, 1,270,986 parameters; inference, 1 sample at a time$' $plan "$models/small.json" --memory 256M
expect_match 'small in training' 0 '^model .*; a step of adam on the loss mse, 32 samples at a time$' \
    $plan "$models/small.json" --train adam --batch 32 --memory 256M
expect_match 'a layer of it' 0 '^dense +Dense +1,270,090 +4.85 MiB +4.85 MiB +9.69 MiB ' $plan "$models/small.json" --train adam --batch 32 --memory 256M
expect_match 'the sum of its layers' 0 '^\(all\) +1,270,986 +4.85 MiB +4.85 MiB +9.7 MiB ' $plan "$models/small.json" --train adam --memory 256M
expect_match 'the plain way' 0 '^keeping everything, as eager frameworks do, would take [0-9.]+ MiB; memory would be highest at ' \
    $plan "$models/small.json" --train adam --batch 32 --memory 256M
expect_match 'slim in inference' 0 '^verdict +fits' $plan "$models/slim.json" --batch 64 --memory 128M
expect_match 'slim in training, by another loss' 0 '; a step of momentum on the loss ce, 64 samples' \
    $plan "$models/slim.json" --train momentum --loss ce --batch 64 --memory 128M
expect_match 'without a budget: what the machine can give' 0 '^verdict +fits' $plan "$models/small.json"
expect_match 'unet in inference' 0 '^verdict +fits: [0-9.]+ MiB of 256 MiB$' $plan "$models/unet.json" --memory 256M
expect_match 'only the largest layers' 0 '^\([1-9][0-9]* others\) ' $plan "$models/unet.json" --memory 256M
$plan "$models/unet.json" --memory 256M --layers >layers.txt 2>"$TMP/why"
holds "$(grep -c '^conv2d' layers.txt)" -gt 14
grep -q ' others)' layers.txt && echo 'there are others' >>"$TMP/why"
verdict 'all layers on request'
expect_match 'the schedule on request' 0 '^pass 1: about ' sh -c "$plan $models/small.json --memory 256M --schedule 2>&1 >/dev/null"

for memory in 2G 1G 512M; do
    ask "$models/wide.json" --train adam --batch 256 --memory $memory
    holds "$code" = 0
    holds "$(number planned_peak_bytes)" -le "$(number budget_bytes)"
    holds "$(number floor_bytes)" -le "$(number budget_bytes)"
    holds "$(number plain_bytes)" -gt 2147483648
    verdict "wide at batch 256 in $memory"
done

# ----------------------------------------------------------------------------------------------------- JSON
ask "$models/small.json" --train adam --batch 8 --memory 256M --why conv2d
for key in verb model optimizer loss batch budget_bytes fits planned_peak_bytes floor_bytes arena_bytes baseline_bytes moves peak plain_bytes plain_at layers \
    estimated_seconds plan_seconds why; do
    grep -q "^  \"$key\": " json.txt || echo "no key $key" >>"$TMP/why"
done
grep -q '{"name": "conv2d", "kind": "Conv2D", "parameters": 896, "parameter_bytes": 3584, "gradient_bytes": 3584, "state_bytes": 7168, ' json.txt ||
    echo 'conv2d is not as it should be' >>"$TMP/why"
if command -v python3 >/dev/null; then python3 -m json.tool json.txt >/dev/null 2>>"$TMP/why"; fi
verdict '--json has every key'

# ------------------------------------------------------------------------------------------------------ why
expect_match 'who keeps a layer' 0 '^conv2d [a-z_]+ +\[32,.* +(conv2d|max_pooling2d) .* backward ' \
    $plan "$models/small.json" --train adam --batch 32 --memory 256M --why conv2d
expect_match 'a result is kept to the end' 0 '^dense [a-z_]+ .* result ' $plan "$models/small.json" --memory 256M --why dense
expect_match 'a view keeps nothing of its own' 0 'makes no values of its own' $plan "$models/small.json" --memory 256M --why flatten
expect_error 'a layer that is near' 2 "'conv2' is no layer of the model; do you mean 'conv2d'\?" $plan "$models/small.json" --memory 256M --why conv2
expect_error 'a layer that is not' 2 "'frobnicate' is no layer of the model; --layers lists them" $plan "$models/small.json" --memory 256M --why frobnicate

# --------------------------------------------------------------------------------------------- what does not fit
ask "$models/small.json" --train adam --batch 64 --no-spill --memory 2M
holds "$code" = 3
grep -q 'smallest budget that works as it stands: .* (--memory [0-9]*)' "$TMP/why" && : >"$TMP/why"
floor=$(number floor_bytes)
holds "${floor:-0}" -gt 2097152
holds "$(number planned_peak_bytes)" -le "${floor:-0}"
verdict 'too small a budget, and the floor'
expect_match 'the floor is enough' 0 '^verdict +fits' $plan "$models/small.json" --train adam --batch 64 --no-spill --memory "$floor"

# ------------------------------------------------------------------------------------------------- fewer bits, on request
ask "$models/slim.json" --train adam --batch 8 --memory 300M --allow f16
holds "$code" = 0
holds "$(number narrowed)" -eq 0
verdict 'fewer bits are not used where it fits without'
ask "$models/slim.json" --train adam --batch 8 --no-spill --memory 2M
: >"$TMP/why"
wide=$(number floor_bytes)
ask "$models/slim.json" --train adam --batch 8 --no-spill --memory 2M --allow f16
: >"$TMP/why"
narrow=$(number floor_bytes)
holds "${narrow:-0}" -lt "${wide:-0}"
holds "$(number narrowed)" -gt 0
verdict 'fewer bits need less'
expect_match 'fewer bits where nothing else fits' 0 '^narrowed .*changes the numbers' $plan "$models/slim.json" --train adam --batch 8 --no-spill --memory "$narrow" --allow f16
expect_error 'no such storage' 2 'f16 or bf16, not in int8' $plan "$models/slim.json" --train adam --memory 1G --allow int8
expect_error 'nothing to narrow in inference' 2 'goes with --train' $plan "$models/slim.json" --memory 1G --allow f16

ask "$models/small.json" --train adam --batch 1 --no-spill --memory 2M
: >"$TMP/why"
one=$(number floor_bytes)
middle=$(((one + floor) / 2))
if [ $((floor - one)) -lt 4194304 ]; then
    skip 'remedies' 'the batch does not matter to the planner'
    skip 'the largest batch' 'the batch does not matter to the planner'
else
    ask "$models/small.json" --train adam --batch 64 --no-spill --memory "$middle"
    holds "$code" = 3
    grep -q 'does not fit: .* budget ' "$TMP/why" && grep -q '  fits with   --spill DIR  *[0-9.]* MiB, about' "$TMP/why" &&
        grep -q '              --batch [0-9]*  *[0-9.]* MiB, about' "$TMP/why" && : >"$TMP/why"
    batch=$(sed -n 's/.*"option": "--batch \([0-9]*\)".*/\1/p' json.txt)
    holds "${batch:-0}" -ge 1
    holds "${batch:-64}" -lt 64
    verdict 'remedies: a folder to spill to, a smaller batch'

    # The process is not of the same size each time, so one plan has a little room and the other a little less.
    ask "$models/small.json" --train adam --largest-batch --no-spill --memory "$middle"
    holds "$code" = 0
    largest=$(number largest_batch)
    holds "${largest:-0}" -ge 1
    ask "$models/small.json" --train adam --batch "${largest:-1}" --no-spill --memory $((middle + 524288))
    holds "$code" = 0
    ask "$models/small.json" --train adam --batch $((largest + 1)) --no-spill --memory $((middle - 524288))
    holds "$code" = 3
    grep -q 'does not fit' "$TMP/why" && : >"$TMP/why"
    verdict 'the largest batch is the largest'
fi
expect_match 'a batch that never ends' 0 'more would fit: the search ends there' $plan "$models/small.json" --memory 256M --largest-batch
expect_match 'not even one sample' 3 '"largest_batch": 0' $plan "$models/small.json" --memory 2M --largest-batch --json

# ------------------------------------------------------------------------------------------------ many budgets
curve() { # a case: 20 budgets that rise by the same factor, each with a plan inside it, and none slower than the one before
    name=$1
    shift
    ask "$@" --curve
    holds "$code" = 0
    # shellcheck disable=SC2016  # awk's own $
    tr -d '{}",:' <json.txt | awk '
        $1 == "floor_bytes" { floor = $2 }
        $1 == "budget_bytes" {
            n++; budget = $2; peak = $6; seconds = $8
            if ($4 != "true") print "row " n ": does not fit"
            if (peak > budget) print "row " n ": a peak of " peak " in a budget of " budget
            if (n == 1 && budget != floor) print "the first budget is not the smallest"
            if (n > 1 && seconds > before) print "row " n ": slower than with less: " seconds " s after " before " s"
            if (n > 1 && budget <= last) print "row " n ": no more than before"
            if (n == 2) factor = budget / last
            if (n > 2 && (budget / last > factor * 1.001 || budget / last < factor / 1.001)) print "row " n ": not evenly spaced"
            before = seconds; last = budget
        }
        END { if (n != 20) print n + 0 " budgets" }' >>"$TMP/why"
    verdict "$name"
}
for model in small slim; do curve "$model at 20 budgets" "$models/$model.json"; done
curve 'small at 20 budgets, in training' "$models/small.json" --train adam --batch 8
for model in slim resnet50; do
    skip_sanitized "$model at 20 budgets, in training" 'the same code as for small, and minutes of it' ||
        curve "$model at 20 budgets, in training" "$models/$model.json" --train adam --batch 8
done
expect_match 'budgets as a table' 0 '^ *budget  planned peak +estimated +to read +to write +passes$' $plan "$models/small.json" --curve
if command -v script >/dev/null && [ "$(script -qec 'echo yes' /dev/null </dev/null 2>/dev/null | tr -d '\r')" = yes ]; then
    expect_match 'on a terminal also as a plot' 0 '^ +\+-{60}' script -qec "$plan $models/small.json --curve" /dev/null
else
    skip 'on a terminal also as a plot' 'no program that makes one'
fi
expect_error 'many budgets are not one' 2 '--curve is for many budgets: --memory' $plan "$models/small.json" --curve --memory 256M

# ------------------------------------------------------------------------------------------------ saved plans
mkdir saved
cp "$models/small.json" saved/model.json
cd saved || exit 99
expect_match 'a plan is saved' 0 '^verdict +fits' $plan model.json --train adam --batch 8 --memory 64M --threads 1 -o plan.json
: >"$TMP/why"
holds "$(find . -type f | sort | tr '\n' ' ')" = './model.json ./plan.json '
for key in format version path bytes modified_ns fnv1a64 batch dims optimizer loss memory_bytes baseline_bytes threads spill_dir \
    planned_peak_bytes moves peak layers; do
    grep -q "^ *\"$key\": " plan.json || echo "no key $key" >>"$TMP/why"
done
if command -v python3 >/dev/null; then python3 -m json.tool plan.json >/dev/null 2>>"$TMP/why"; fi
verdict 'alone, and with every key'
touch -t 200001010000 model.json # the content counts
expect_match 'and is still the same' 0 '^as saved +the model and its plan are still the same$' $plan --from plan.json
expect_match 'for a script, too' 0 '"same": true,' $plan --from plan.json --json
mv model.json moved.json
expect_error 'its model is gone' 1 'model.json.*No such file' $plan --from plan.json
expect_match 'its model has moved' 0 '^as saved ' $plan --from plan.json moved.json
sed 's/"conv2d"/"conv2e"/g' moved.json >model.json
expect_error 'its model has changed' 2 "'plan.json': the model 'model.json' has changed: as many bytes as when the plan was saved, but others" \
    $plan --from plan.json
echo >>model.json
expect_error 'its model has become longer' 2 "the model 'model.json' has changed: [0-9]+ bytes when the plan was saved, [0-9]+ now" \
    $plan --from plan.json
mv moved.json model.json
sed 's/^  "planned_peak_bytes": /&1/' plan.json >other.json
expect_error 'another fact' 2 "'other.json': planned_peak_bytes: 1[0-9]+ when the plan was saved, [0-9]+ now" $plan --from other.json
sed 's/"memory_bytes": .*/"memory_bytes": 62914560,/' plan.json >other.json
expect_error 'another budget' 2 "'other.json': budget_bytes: 67108864 when the plan was saved, 62914560 now" $plan --from other.json
sed 's/"memory_bytes": .*/"memory_bytes": 1,/' plan.json >other.json
expect_error 'a budget that is not enough' 2 "'other.json': fits: it does not fit any more" $plan --from other.json
sed 's/"optimizer": "adam"/"optimizer": "adamant"/' plan.json >other.json
expect_error 'an optimizer that there is not' 2 "no optimizer 'adamant'" $plan --from other.json
head -c 1000 plan.json >other.json
expect_error 'a plan that was cut' 2 "'other.json': not JSON" $plan --from other.json
expect_error 'a model is no plan' 2 "'model.json': not a plan that was saved" $plan --from model.json
expect_match 'inference is saved, and no spilling' 0 '^verdict +fits' $plan model.json --memory 64M --no-spill -o inference.json
expect_match 'and the same again' 0 '^as saved ' $plan --from inference.json
ask model.json --train sgd --no-spill --memory 1M
: >"$TMP/why"
expect_match 'the largest batch is saved' 0 '^largest batch ' \
    $plan model.json --train sgd --largest-batch --memory $(($(number floor_bytes) + 16777216)) --no-spill -o largest.json
expect_match 'and is planned again' 0 '^as saved ' $plan --from largest.json
: >"$TMP/why"
cp plan.json before.json
$plan model.json --train adam --memory 2M -o plan.json >/dev/null 2>&1
holds $? = 3
cmp plan.json before.json >>"$TMP/why" 2>&1
verdict 'what does not fit is not saved'
expect_error 'nowhere to save to' 1 "cannot write into the folder 'nowhere'" $plan model.json --memory 64M -o nowhere/plan.json
expect_error 'not over the model' 2 "'./model.json' is the model itself" $plan model.json --memory 64M -o ./model.json
expect_error 'a saved plan asks for all' 2 '--from says what to plan' $plan --from plan.json --memory 64M
expect_error 'a dimension twice' 2 "--dim: 'n' is given twice" $plan model.json --dim n=3 --dim n=4
cd ..

# ------------------------------------------------------------------------------------------------- bad input
head -c 1000 "$models/small.json" >cut.json
expect_error 'a truncated file' 2 "'cut.json': not JSON: line" $plan cut.json --memory 256M
expect_error 'no such file' 1 "nowhere.onnx.*No such file" $plan nowhere.onnx --memory 256M
: >empty.onnx
expect_error 'an empty file' 2 'an empty file is no model' $plan empty.onnx --memory 256M
expect_error 'no such optimizer' 2 "no optimizer 'adamant': there are sgd, " $plan "$models/small.json" --train adamant
expect_error 'no such loss' 2 "no loss 'lossy': there are mse, " $plan "$models/small.json" --train adam --loss lossy
expect_error 'a loss for nothing' 2 '--loss goes with --train' $plan "$models/small.json" --loss mse
expect_error 'a batch of none' 2 "--batch: '0' is not a whole number above 0" $plan "$models/small.json" --batch 0
expect_error 'a dimension without a value' 2 "--dim: 'n' is not of the form NAME=VALUE" $plan "$models/small.json" --dim n
expect_error 'a dimension that is no number' 2 "--dim: 'x' is not a whole number above 0" $plan "$models/small.json" --dim n=x
expect_error 'both and neither' 2 '--spill and --no-spill exclude each other' $plan "$models/small.json" --spill . --no-spill
expect_error 'nowhere to spill to' 2 "'nowhere' is not a folder to spill to" $plan "$models/small.json" --spill nowhere
expect_error 'no model' 2 'plan needs one model' $plan
expect_error 'two models' 2 'plan needs one model' $plan "$models/small.json" "$models/slim.json"
}

# Kernels that are turned before they are used, and overwritten after.
expect_match 'no state is read after it was overwritten' 0 'fits' "$PLIMSOLL" plan "$models/deep.json" --train sgd --batch 64 --memory 400M
finish
