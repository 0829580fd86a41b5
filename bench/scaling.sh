#!/bin/sh
# Does time grow as the file does? mean0, f16 and transpose from 0.5 to 16 GB at a fixed budget of 256 MiB, inside a cgroup of that size where one
# may be made, cold cache. Prints seconds and seconds per GB, the line through them with its R^2, and how long planning took.
#   bench/scaling.sh [GB...]        BENCH_DIR: where the files are, one size at a time (default bench-data); ROUNDS: best of (default 2)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/prepare.sh"
. "$here/../tests/lib/cgroup.sh"
prepare bench-make-array
folder=${BENCH_DIR:-bench-data}
budget=$((256 << 20))
mkdir -p "$folder"
x=$folder/scaling-x.npy out=$folder/scaling-out.npy json=$folder/scaling.json log=$folder/scaling.log
trap 'rm -f "$x" "$out" "$json" "$log" "$log.best"' EXIT
: >"$log"

if cgroup_usable; then
    limited() { cgroup_run $budget "$@"; }
else
    echo "may not create a memory cgroup here: NOT LIMITED" >&2
    limited() { "$@"; }
fi
number() { sed -n "s/^ *\"$1\": \\([0-9.e+-]*\\),*\$/\\1/p" "$json"; }

one() { # name, expression, GB: a line "name GB seconds plan_seconds" in the log, and a row of the table
    : >"$log.best"
    for round in $(seq "${ROUNDS:-2}"); do
        rm -f "$out"
        drop_caches "$x"
        limited "$PLIMSOLL" eval "$2" x="$x" -o "$out" --memory $budget --json >"$json" ||
            { echo "$1 at $3 GB failed with exit code $?"; exit 1; }
        echo "$(number seconds) $(number plan_seconds) $(number peak_rss_bytes)" >>"$log.best"
    done
    rm -f "$out"
    sort -g "$log.best" | head -n 1 | awk -v name="$1" -v gb="$3" -v log_file="$log" '{
        printf "%-10s %6s GB %9.2f s %8.3f s/GB   planned in %.4f s%s   VmHWM %.1f MiB\n", name, gb, $1, $1 / gb, $2, $2 < 0.05 ? "" : " TOO LONG", $3 / 1048576
        print name, gb, $1, $2 >>log_file
    }'
}

for gb in ${*:-0.5 1 2 4 8 16}; do
    rows=$(awk -v gb="$gb" 'BEGIN { printf "%d", gb * 1e9 / 2048 }')
    if ! need_disk "$folder" $((rows * 2048 * 2 + (64 << 20))) "$gb GB and its transpose"; then
        echo "SKIPPED: $gb GB"
        continue
    fi
    "$MAKE_ARRAY" "$x" "${rows}x512" f32 0
    one mean0 'mean(x, 0)' "$gb"
    one f16 'f16(x)' "$gb"
    one transpose 'x.T' "$gb"
    rm -f "$x"
done

# Least squares, seconds = a + b GB.
for name in mean0 f16 transpose; do
    awk -v name=$name '
        $1 == name { n++; x += $2; y += $3; xx += $2 * $2; xy += $2 * $3; yy += $3 * $3; if ($4 > plan) plan = $4 }
        END {
            if (n < 2) exit
            b = (n * xy - x * y) / (n * xx - x * x); a = (y - b * x) / n
            r = (n * xy - x * y) ^ 2 / ((n * xx - x * x) * (n * yy - y * y))
            printf "%-10s seconds = %.3f + %.3f GB   R^2 %.4f   longest planning %.4f s%s\n", name, a, b, r, plan, plan < 0.05 ? "" : " TOO LONG"
        }' "$log"
done
