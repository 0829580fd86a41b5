#!/bin/sh
# Random nets: train, infer and plan at budgets from the floor up, in memory cgroups of the budget; and the test of
# that test, in which results are spoilt.
# tests/random_nets/soak.sh runs more of them, for as long as one likes.
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "ok - random nets # SKIP no python3 with NumPy here"; exit 0; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
plimsoll=${PLIMSOLL:?the command line under test}
count=12 seconds=200 spoilt=yes limits=
# A sanitizer makes every run many times longer, and has memory of its own that no plan knows.
if grep -q -e __asan_init -e __tsan_init "$plimsoll"; then count=6 seconds=90 spoilt=no limits=--no-limits; fi
status=0
[ $spoilt = no ] || "$PYTHON" "$here/random_nets" --plimsoll "$plimsoll" --self-test || status=1
# shellcheck disable=SC2086  # $limits is a word or none
"$PYTHON" "$here/random_nets" --plimsoll "$plimsoll" --seed 1 --count $count --seconds $seconds --jobs 2 --quick \
    --shrink-seconds 30 --timeout 200 $limits || status=1
exit $status
