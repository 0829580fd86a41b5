# shellcheck shell=sh
# Golden tests of the command line. A script sources this file, states cases, and ends with `finish`:
#
#     . "$(dirname "$0")/../lib/cli.sh"
#     expect 'sizes of one tensor' 0 "$PLIMSOLL" size 384x192 --memory 1M <<'OUT'
#     ...what stdout must be, to the byte...
#     OUT
#     expect_error 'a wrong dtype' 2 'unknown dtype' "$PLIMSOLL" size 3:f31
#     finish
#
# Each case prints a TAP line; a failed one also the difference. $TMP is an empty folder that goes away at the end; the script runs in it.
set -u
PLIMSOLL=${PLIMSOLL:?the command line under test}
cli_failed=0
TMP=$(mktemp -d)
trap 'rm -rf "$TMP"' EXIT
mkdir "$TMP/work" && cd "$TMP/work" || exit 99

pass() { echo "ok - $1"; }

fail() { # name, a file with details
    cli_failed=1
    echo "not ok - $1"
    sed 's/^/# /' "$2"
}

skip() { echo "ok - $1 # SKIP $2"; }

# expect NAME CODE COMMAND...  stdout must be what is on stdin, and the exit code CODE.
expect() {
    cli_name=$1 cli_code=$2
    shift 2
    cat >"$TMP/expected"
    "$@" >"$TMP/stdout" 2>"$TMP/stderr" </dev/null
    cli_got=$?
    if [ "$cli_got" = "$cli_code" ] && cmp -s "$TMP/expected" "$TMP/stdout"; then
        pass "$cli_name"
    else
        { echo "exit code $cli_got, expected $cli_code"; diff -u "$TMP/expected" "$TMP/stdout"; cat "$TMP/stderr"; } >"$TMP/why"
        fail "$cli_name" "$TMP/why"
    fi
}

# expect_match NAME CODE PATTERN COMMAND...  some line of stdout must match the extended regular expression.
expect_match() {
    cli_name=$1 cli_code=$2 cli_pattern=$3
    shift 3
    "$@" >"$TMP/stdout" 2>"$TMP/stderr" </dev/null
    cli_got=$?
    if [ "$cli_got" = "$cli_code" ] && grep -Eq -- "$cli_pattern" "$TMP/stdout"; then
        pass "$cli_name"
    else
        { echo "exit code $cli_got, expected $cli_code; no line matches $cli_pattern"; cat "$TMP/stdout" "$TMP/stderr"; } >"$TMP/why"
        fail "$cli_name" "$TMP/why"
    fi
}

# expect_error NAME CODE PATTERN COMMAND...  nothing on stdout, and a line of stderr that matches.
expect_error() {
    cli_name=$1 cli_code=$2 cli_pattern=$3
    shift 3
    "$@" >"$TMP/stdout" 2>"$TMP/stderr" </dev/null
    cli_got=$?
    if [ "$cli_got" = "$cli_code" ] && [ ! -s "$TMP/stdout" ] && grep -Eq -- "$cli_pattern" "$TMP/stderr"; then
        pass "$cli_name"
    else
        { echo "exit code $cli_got, expected $cli_code; stderr should match $cli_pattern"; cat "$TMP/stdout" "$TMP/stderr"; } >"$TMP/why"
        fail "$cli_name" "$TMP/why"
    fi
}

finish() { exit $cli_failed; }
