#!/bin/sh
# Random programs and nets at random budgets and numbers of threads, each inside a memory cgroup of exactly its budget.
#   tests/random_fits.sh [SECONDS]     default 600; SEED=7 for the same ones again, JOBS=2 at once; KEEP: a folder for the files of failures
# The last lines are how far planned peaks were above VmHWM, and what failed.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
seed=${SEED:-$(date +%s)} jobs=${JOBS:-$(nproc)} # nproc counts what OMP_NUM_THREADS says
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
echo "random budgets: seed $seed, ${1:-600} s, $jobs at once"
# shellcheck disable=SC2086  # no word, or two
exec "$PYTHON" "$here/random_fits" --plimsoll "${PLIMSOLL:?the command line under test}" --seed "$seed" --seconds "${1:-600}" -j "$jobs" --quiet ${KEEP:+--keep "$KEEP"}
