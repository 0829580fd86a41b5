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
export XDG_CACHE_HOME="$TMP/cache" # plans do not depend on what doctor has measured on this machine

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

# sanitized: whether the command under test was built with AddressSanitizer or ThreadSanitizer. They add shadow memory and keep freed blocks, so
# the process is larger than what is planned, and reserve terabytes of addresses.
sanitized() { grep -q -e __asan_init -e __tsan_init "$PLIMSOLL"; }

# rounds N: how much of something slow a case does: N, a quarter of it under a sanitizer, which takes four to twenty times as long.
rounds() { if sanitized; then echo $((($1 + 3) / 4)); else echo "$1"; fi; }

# patience SECONDS: a limit of time for something that should take much less; five times as long under a sanitizer.
patience() { if sanitized; then echo $((5 * $1)); else echo "$1"; fi; }

# skip_sanitized NAME WHY: in a build with a sanitizer, skips the case NAME and succeeds; fails in any other build. WHY says what the sanitizer makes
# impossible.
#
#     skip_sanitized 'RLIMIT_AS decides' 'the address space is full of shadow' || expect_match ...
skip_sanitized() {
    sanitized || return 1
    skip "$1" "a sanitizer is in the build: $2"
}

# near_floor COMMAND...: prints a budget in bytes that the command just fits into. A constant would not do: the size of the process depends on the
# machine, the compiler and the sanitizer. So the command is planned (--plan-only) with the budget that it names when it refuses one, until it
# accepts; each time with 1 MiB more, because no two processes are of exactly the same size.
near_floor() {
    near_bytes=1048576
    for near_try in 1 2 3 4 5 6 7 8 9 10; do
        if "$@" --plan-only --memory "$near_bytes" >/dev/null 2>"$TMP/near_floor"; then
            echo "$near_bytes"
            return 0
        fi
        near_named=$(sed -n 's/.*(--memory \([0-9]*\)).*/\1/p' "$TMP/near_floor")
        [ -n "$near_named" ] || break
        near_bytes=$((near_named + 1048576))
    done
    echo "near_floor: no budget is accepted: $*" >&2
    cat "$TMP/near_floor" >&2
    return 1
}

finish() { exit $cli_failed; }
