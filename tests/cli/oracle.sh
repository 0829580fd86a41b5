#!/bin/sh
# Every expression of tests/oracle/numpy_cases.py at several budgets against NumPy.
. "$(dirname "$0")/../lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here"; echo "ok - eval against NumPy # SKIP no python3 with NumPy here"; exit 0; }
log=$(mktemp) || exit 99
trap 'rm -f "$log"' EXIT
"$PYTHON" "$(dirname "$0")/../oracle/numpy_cases.py" "${PLIMSOLL:?the command line under test}" >"$log" 2>&1
code=$?
sed -n 's/^FAILED /not ok - /p' "$log"
passed=$(sed -n 's/^\([0-9]*\) passed, .*/\1/p' "$log")
# One line each, so that the count of tests is the count of comparisons.
i=0
while [ $i -lt "${passed:-0}" ]; do
    i=$((i + 1))
    echo "ok - comparison $i"
done
[ -n "$passed" ] || { echo "not ok - the comparison ended early"; sed 's/^/# /' "$log"; }
exit $code
