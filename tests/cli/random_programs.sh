#!/bin/sh
# Random programs of the array language against NumPy, each in a memory cgroup of its budget; a sample of all pairs of functions at three budgets; and a
# test of the test: spoilt results are noticed, and a function without an oracle is. tests/random_programs.sh runs more of them, for as long as one likes.
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here"; echo "ok - random programs against NumPy # SKIP no python3 with NumPy here"; exit 0; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
plimsoll=${PLIMSOLL:?the command line under test}
programs=250 pairs=120 spoilt=25
# A sanitizer makes every run many times longer.
if grep -q -e __asan_init -e __tsan_init "$plimsoll"; then programs=60 pairs=15 spoilt=5; fi
status=0
"$PYTHON" "$here/random_programs" --plimsoll "$plimsoll" --self-test "$spoilt" || status=1
"$PYTHON" "$here/random_programs" --plimsoll "$plimsoll" --seed 1 --count "$programs" -j 2 || status=1
"$PYTHON" "$here/random_programs" --plimsoll "$plimsoll" --seed 1 --pairs --count "$pairs" -j 2 || status=1
exit $status
