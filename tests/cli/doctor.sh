#!/bin/sh
# plimsoll doctor: the facts are there, quickly, and nothing is left behind.
. "$(dirname "$0")/../lib/cli.sh"

expect_match 'limits' 0 '^RAM .*/proc/meminfo$' "$PLIMSOLL" doctor --no-speed
expect_match 'the default budget' 0 '^default budget +[0-9].*bytes\)$' "$PLIMSOLL" doctor --no-speed
expect_match 'disk speed' 0 '^buffered write +[0-9]+ MB/s$' "$PLIMSOLL" doctor .
expect_match 'compute speed' 0 '^compute f32 +[0-9]+ GFLOP/s$' "$PLIMSOLL" doctor
expect_match 'JSON' 0 '^  "budget_bytes": [0-9]+,$' "$PLIMSOLL" doctor --json --no-speed
expect_match 'a folder that is not there is a finding' 0 'no file can be made in .*No such file' "$PLIMSOLL" doctor nowhere
expect_error 'two folders' 2 'one folder at a time' "$PLIMSOLL" doctor . ..
limited() { (ulimit -v 2097152 && "$@"); }
skip_sanitized 'RLIMIT_AS is a finding' 'it needs the address space' ||
    expect_match 'RLIMIT_AS is a finding' 0 '^RLIMIT_AS is 2\.0 GiB$' limited "$PLIMSOLL" doctor --no-speed
expect 'nothing is left behind' 0 ls -A </dev/null

finish
