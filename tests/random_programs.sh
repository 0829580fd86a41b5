#!/bin/sh
# Random programs of the array language and pairs of its functions against NumPy, half of the time each.
#   tests/random_programs.sh [SECONDS]     default 600; SEED=7 for the same programs again, JOBS=2 at once
# What fails is made small and printed with the commands that show it. The last lines count what was done, and what failed by kind and functions.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
half=$((${1:-600} / 2))
seed=${SEED:-$(date +%s)} jobs=${JOBS:-$(nproc)}
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
status=0
for kind in '' --pairs; do
    echo "random programs${kind:+, pairs}: seed $seed, $half s, $jobs at once"
    # shellcheck disable=SC2086  # no word or one
    "$PYTHON" "$here/random_programs" --plimsoll "${PLIMSOLL:?the command line under test}" --seed "$seed" --seconds "$half" -j "$jobs" $kind --quiet || status=1
done
exit $status
