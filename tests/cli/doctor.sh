#!/bin/sh
# plimsoll doctor: the facts are there, quickly, and nothing is left behind.
. "$(dirname "$0")/../lib/cli.sh"

expect_match 'limits' 0 '^RAM .*/proc/meminfo$' "$PLIMSOLL" doctor --no-speed
expect_match 'the default budget' 0 '^default budget +[0-9].*bytes\)$' "$PLIMSOLL" doctor --no-speed
expect_match 'nothing is kept before' 0 '^  "machine": "defaults",$' "$PLIMSOLL" eval '1 + 1' --json
expect_match 'disk speed' 0 '^buffered write +[0-9]+ MB/s$' "$PLIMSOLL" doctor .
expect 'what was measured is kept in one file' 0 sh -c 'ls "$XDG_CACHE_HOME/plimsoll" | grep -cE "^machine-[0-9a-f]{16}\.json$"' <<'OUT'
1
OUT
machine=$(echo "$XDG_CACHE_HOME"/plimsoll/machine-*.json)
number() { sed -n "s/^ *\"$1\": \([^,]*\),*\$/\1/p" "$machine"; }

# A description that makes sense: every number is above 0, a larger request takes no more per byte than twice what a smaller one does, all threads together are
# no slower than half of one.
plausible() {
    for way in direct_read direct_write buffered_read buffered_write; do
        before=
        for size in 4 16 64 256 1024 4096; do
            case $size in 1024) name=1MiB ;; 4096) name=4MiB ;; *) name=${size}KiB ;; esac
            now=$(number "${way}_${name}_seconds")
            awk -v b="${before:-0}" -v n="${now:-0}" 'BEGIN { exit !(n > 0 && (b == 0 || n <= 8 * b)) }' || echo "$way $name: $now after $before"
            before=$now
        done
    done
    for kernel in elementwise function copy reduce sort product_f32 product_f64 conv_blocked; do
        awk -v o="$(number "${kernel}_one")" -v a="$(number "${kernel}_all")" 'BEGIN { exit !(o > 1e6 && a >= o / 2) }' || echo "$kernel"
    done
}
expect 'the numbers are plausible' 0 plausible </dev/null
expect_match 'and used from then on' 0 "^  \"machine\": \"$machine\",\$" "$PLIMSOLL" eval '1 + 1' --json --plan-only
models=$(cd "$OLDPWD" && cd "$(dirname "$0")/../models" && pwd)
expect_match 'by plan' 0 "^  \"machine\": \"$machine\",\$" "$PLIMSOLL" plan "$models/small.json" --memory 64M --json
expect_match '--no-machine: defaults' 0 '^  "machine": "defaults",$' "$PLIMSOLL" plan "$models/small.json" --memory 64M --json --no-machine
cp "$machine" "$TMP/my.json"
expect_match '--machine FILE' 0 '^machine +.*/my\.json$' "$PLIMSOLL" plan "$models/small.json" --memory 64M --machine "$TMP/my.json"
"$PLIMSOLL" plan "$models/small.json" --memory 64M -o "$TMP/plan.json" >/dev/null
expect_match 'a saved plan has its machine with it' 0 '^as saved +the model and its plan are still the same$' env XDG_CACHE_HOME="$TMP/none" "$PLIMSOLL" plan --from "$TMP/plan.json"
expect_error 'both options' 2 'exclude each other' "$PLIMSOLL" eval '1 + 1' --machine "$TMP/my.json" --no-machine
sed 's/"touch_rate": [^,]*/"touch_rate": -1/' "$machine" >"$TMP/bad.json"
expect_error 'a bad file that was named: the field' 2 'touch_rate.*got -1' "$PLIMSOLL" eval '1 + 1' --machine "$TMP/bad.json"
expect_error 'no such file' 2 'none\.json' "$PLIMSOLL" eval '1 + 1' --machine "$TMP/none.json"
cp "$TMP/bad.json" "$machine"
warned() { "$@" 2>&1 >/dev/null | grep -c '^plimsoll: warning: .*touch_rate'; }
expect 'a bad file in the cache: a warning' 0 warned "$PLIMSOLL" eval '1 + 1' --plan-only --quiet <<'OUT'
1
OUT
expect_match 'and defaults' 0 '^  "machine": "defaults",$' "$PLIMSOLL" eval '1 + 1' --json --plan-only
sed -i 's/"cpu": "[^"]*"/"cpu": "another"/' "$TMP/my.json" && cp "$TMP/my.json" "$machine"
expect_match 'of another machine: defaults' 0 '^  "machine": "defaults",$' "$PLIMSOLL" eval '1 + 1' --json --plan-only
expect_match 'compute speed, kept where it was asked for' 0 '^compute f32 +[0-9]+ GFLOP/s$' "$PLIMSOLL" doctor --machine "$TMP/asked.json"
expect_match 'which can be used' 0 '^  "machine": .*asked\.json",$' "$PLIMSOLL" eval '1 + 1' --json --machine "$TMP/asked.json"
expect_match 'JSON' 0 '^  "budget_bytes": [0-9]+,$' "$PLIMSOLL" doctor --json --no-speed
expect_match 'a folder that is not there is a finding' 0 'no file can be made in .*No such file' "$PLIMSOLL" doctor nowhere
expect_error 'two folders' 2 'one folder at a time' "$PLIMSOLL" doctor . ..
limited() { (ulimit -v 2097152 && "$@"); }
skip_sanitized 'RLIMIT_AS is a finding' 'it needs the address space' ||
    expect_match 'RLIMIT_AS is a finding' 0 '^RLIMIT_AS is 2\.0 GiB$' limited "$PLIMSOLL" doctor --no-speed
expect 'nothing is left behind' 0 ls -A </dev/null

finish
