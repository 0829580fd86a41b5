#!/bin/sh
# Random programs and nets at random budgets from the floor up, with 1 to 16 threads, inside memory cgroups of exactly the budget: none is killed, and
# planned peaks are those that the kernel sees. And the test of that test. tests/random_fits.sh runs more of them, for as long as one likes.
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here"; echo "ok - random programs and nets fit their budgets # SKIP no python3 with NumPy here"; exit 0; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
plimsoll=${PLIMSOLL:?the command line under test}
status=0
"$PYTHON" "$here/random_fits" --self-test || status=1
# At most 20 seconds, and the end of the last one. The bound on what is planned too much is wider than that of make soak-fits (4 MiB): a build with asserts has more code.
"$PYTHON" "$here/random_fits" --plimsoll "$plimsoll" --seed 1 --count 30 --seconds 20 --slack-mib 5 || status=1
exit $status
