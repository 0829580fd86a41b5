#!/bin/sh
# How long planning takes: every model of tests/models in training (Adam, MSE) and inference inside half of what keeping everything would take, and a net of
# more than 5,000 nodes; best and worst of ROUNDS (default 5) as the planner counts it. Then the order of random-wired cells against the proven optimum.
#   bench/plan.sh            a target that is missed, where there is one, fails the run
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/prepare.sh"
. "$here/../tests/lib/models.sh"
prepare bench-order
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
status=0

number() { sed -n "s/^ *\"$1\": \\([0-9.e+-]*\\),*\$/\\1/p" "$tmp/json" | head -1; }

one() { # model, batch, target in seconds or "-", options
    model=$1 batch=$2 target=$3
    shift 3
    "$PLIMSOLL" plan "$model" --batch "$batch" "$@" --memory 1TiB --json >"$tmp/json"
    half=$(awk -v p="$(number plain_bytes)" -v f="$(number floor_bytes)" 'BEGIN { h = p / 2; if (h < f) h = f + 1048576; printf "%.0f", h }')
    : >"$tmp/rounds"
    for round in $(seq "${ROUNDS:-5}"); do
        "$PLIMSOLL" plan "$model" --batch "$batch" "$@" --memory "$half" --json >"$tmp/json"
        number plan_seconds >>"$tmp/rounds"
    done
    sort -n "$tmp/rounds" | awk -v name="$(basename "$model" | sed 's/\..*//')" -v nodes="$(number nodes)" -v target="$target" -v what="${1:-inference}" '
        { t[NR] = $1 }
        END {
            printf "%-10s %-9s %6d nodes   %.3f to %.3f s", name, what == "inference" ? what : "training", nodes, t[1], t[NR]
            if (target != "-") printf "   target %s s: %s", target, t[1] < target ? "met" : "MISSED"
            printf "\n"
            exit target != "-" && t[1] >= target
        }' || status=1
}

model_table "$tmp" >"$tmp/models"
while read -r model batch; do
    case $model in */resnet50.json) target=0.3 ;; *) target=- ;; esac
    one "$model" "$batch" "$target" --train adam --loss mse
    one "$model" "$batch" -
done <"$tmp/models"
if command -v python3 >/dev/null; then
    python3 "$MODELS/make.py" "$tmp" resnet56 3 4 8 3
    one "$tmp/resnet56.json" 16 1 --train adam --loss mse
else
    echo "SKIPPED: the net of 5,000 nodes (no python3 here)" >&2
fi
"$(dirname "$PLIMSOLL")/bench-order" || status=1
exit $status
