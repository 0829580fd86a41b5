# shellcheck shell=sh
# Running plimsoll watch and checking what it says. Sourced after cli.sh:
#
#     watched --memory 4G -- "$PYTHON" "$watch_programs/rand.py"       # stdout, stderr, JSON and exit code are kept
#     facts <<'FACTS'
#     rand: the exit code is the script's | status == 7
#     FACTS
#
# A line of `facts` is one case: its name, and a Python expression that has to be true (tests/lib/watch_facts.py says what it can name).
watch_lib=$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)
watch_programs=$(cd "$watch_lib/../watch" && pwd)
watch_build=$(dirname "$PLIMSOLL")
. "$watch_lib/python.sh"
export PYTHONDONTWRITEBYTECODE=1

# watch_needs WORD...: ends the script with a loud skip where something is missing: python (with NumPy), torch, plain (no sanitizer in the build)
watch_needs() {
    for watch_need in "$@"; do
        case $watch_need in
        python) [ -n "$PYTHON" ] || watch_skip_all 'no python3 with NumPy here (Debian: python3-numpy)' ;;
        torch) "$PYTHON" -c 'import torch' >/dev/null 2>&1 || watch_skip_all 'no PyTorch here (Debian: python3-torch)' ;;
        plain) ! sanitized || watch_skip_all 'a sanitizer is in the build' ;;
        esac
    done
}

watch_skip_all() {
    echo "SKIPPED: $1"
    skip "$(basename "$0" .sh)" "$1"
    finish
}

# watched OPTIONS... -- COMMAND...: runs it. $watch_status is the exit code; stdin is $watch_input (default: empty), $watch_env one more variable of
# the environment.
watched() {
    rm -f "$TMP/json"
    env ${watch_env:+"$watch_env"} "$PLIMSOLL" watch --json "$TMP/json" "$@" >"$TMP/out" 2>"$TMP/err" <"${watch_input:-/dev/null}"
    watch_status=$?
}

# facts [PREFIX]: reads "name | expression" lines and prints a TAP line for each; a failed one with all that is known.
facts() {
    "$PYTHON" "$watch_lib/watch_facts.py" "$TMP" "$watch_status" "$watch_programs" "${1:-}" || cli_failed=1
}
