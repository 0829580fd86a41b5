#!/bin/sh
# Every model, in training (Adam, MSE) and in inference, planned at 20 budgets from the smallest to that in which everything could be kept: each has a plan,
# which the checker has passed; no planned peak exceeds its budget; the estimated time never rises with the budget.
#   tests/curves.sh          The last line is "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
PLIMSOLL=${PLIMSOLL:?the plimsoll to test}
. "$here/lib/models.sh"
tmp=$(mktemp -d) || exit 2
trap 'rm -rf "$tmp"' EXIT
passed=0 failed=0

# One row per budget in $tmp/rows: bytes, fits, peak, seconds.
points() {
    sed -n 's/.*"budget_bytes": \([0-9]*\), "fits": \([a-z]*\), "planned_peak_bytes": \([0-9]*\), "estimated_seconds": \([0-9.e+-]*\),.*/\1 \2 \3 \4/p' "$tmp/json"
}

judge() { # what is wrong with the rows, or nothing
    awk '
        $2 != "true" { print "no plan in " $1 " bytes"; exit }
        $3 > $1 { print "a planned peak of " $3 " bytes in " $1; exit }
        NR > 1 && $4 > last { print "slower in " $1 " bytes (" $4 " s) than in less (" last " s)"; exit }
        { last = $4 }
        END { if (NR != 20) print NR " budgets instead of 20" }' "$tmp/rows"
}

printf '%-10s %-9s %12s %12s %12s %12s\n' model what 'floor MiB' 'plain MiB' 's at floor' 's at plain'
model_table "$tmp" >"$tmp/models"
while read -r model batch; do
    for train in '--train adam --loss mse' ''; do
        name=$(basename "$model" | sed 's/\..*//')
        # shellcheck disable=SC2086  # the options are words
        if "$PLIMSOLL" plan "$model" --batch "$batch" $train --curve --json >"$tmp/json" 2>"$tmp/err"; then points >"$tmp/rows" && why=$(judge); else why=$(cat "$tmp/err"); fi
        awk -v name="$name" -v what="$([ -n "$train" ] && echo training || echo inference)" \
            'NR == 1 { f = $1; s = $4 } END { printf "%-10s %-9s %12.1f %12.1f %12.4g %12.4g", name, what, f / 1048576, $1 / 1048576, s, $4 }' "$tmp/rows"
        if [ -z "$why" ]; then passed=$((passed + 1)); echo "  ok"; else failed=$((failed + 1)); echo "  FAILED: $why"; fi
    done
done <"$tmp/models"
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
