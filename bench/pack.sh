#!/bin/sh
# Static offsets on packing instances: height, lower bound, gap and time of each, best of ROUNDS (default 3). A file whose name carries a capacity
# (A.1048576.csv, as MiniMalloc's are named) must come out at that height or less. Every placement is checked here, by awk, pair by pair.
#   bench/pack.sh [FILE.csv...]      default: 50 instances made from seeds (bench/pack_cases.c), and the files in PACK_CASES, or in
#                                    ../shared/cases/packing beside the project
# SEED: the first seed (default 0). A made instance that misses its bound is counted, not an error: the last line says how many reached it.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/prepare.sh"
prepare bench-pack-cases
cases=${PACK_CASES:-$here/../../shared/cases/packing}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
if [ $# = 0 ]; then
    mkdir "$tmp/made"
    "$(dirname "$PLIMSOLL")/bench-pack-cases" "$tmp/made" "${SEED:-0}"
    set -- "$cases"/*.csv "$tmp/made"/*.csv
    [ -f "$1" ] || shift
fi
status=0

# Pairs that are alive together and share bytes, and buffers that end above $2: prints what is wrong.
overlaps() {
    awk -F, -v height="$2" '
        NR == 1 { for (i = 1; i <= NF; i++) at[$i] = i; next }
        { n++; lower[n] = $at["lower"]; upper[n] = $at["upper"]; from[n] = $at["offset"]; to[n] = from[n] + $at["size"] }
        END {
            for (i = 1; i <= n; i++) {
                if (from[i] < 0 || to[i] > height) { print "buffer " i " ends at " to[i]; exit }
                for (j = 1; j < i; j++)
                    if (lower[i] < upper[j] && lower[j] < upper[i] && from[i] < to[j] && from[j] < to[i]) { print "buffers " j " and " i " overlap"; exit }
            }
        }' "$1"
}

printf '%-24s %8s %14s %14s %8s %9s\n' instance buffers reached bound gap seconds
for file in "$@"; do
    : >"$tmp/rounds"
    for round in $(seq "${ROUNDS:-3}"); do
        "$PLIMSOLL" pack "$file" -o "$tmp/placed.csv" --json >"$tmp/json"
        number() { sed -n "s/.*\"$1\": \\([0-9.e+-]*\\).*/\\1/p" "$tmp/json"; }
        echo "$(number height_bytes) $(number seconds) $(number bound_bytes)" >>"$tmp/rounds"
        wrong=$(overlaps "$tmp/placed.csv" "$(number height_bytes)")
        [ -z "$wrong" ] || { echo "$(basename "$file"): WRONG: $wrong"; status=1; }
    done
    buffers=$(($(grep -c . "$file") - 1))
    capacity=$(basename "$file" .csv | sed -n 's/.*\.\([0-9]*\)$/\1/p')
    sort -k1,1n -k2,2g "$tmp/rounds" | awk -v name="$(basename "$file")" -v n="$buffers" -v capacity="${capacity:-0}" \
        -v made="$(case $file in "$tmp"/*) echo 1 ;; *) echo 0 ;; esac)" -v reached="$tmp/reached.one" '
        NR == 1 { height = $1; bound = $3; seconds = $2 }
        { worst = $1; if ($2 > slowest) slowest = $2 }
        END {
            bad = capacity && worst > capacity
            if (worst == bound) print name >reached
            printf "%-24s %8d %14.0f %14.0f %7.3f%% %4.2f-%.2f%s\n", name, n, worst, bound, 100 * (worst - bound) / bound, seconds, slowest, bad ? "   ABOVE ITS CAPACITY" : ""
            exit bad && !made
        }' || status=1
    cat "$tmp/reached.one" >>"$tmp/reached" 2>/dev/null || true
    rm -f "$tmp/reached.one"
done
echo "$(cat "$tmp/reached" 2>/dev/null | grep -c .) of $# reach the bound"
exit $status
