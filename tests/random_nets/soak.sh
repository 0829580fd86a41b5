#!/bin/sh
# Random nets for as long as one likes: tests/random_nets/soak.sh [SECONDS]
#   default 600; SEED=7 for the same nets again, JOBS=2 at once
# PLIMSOLL: the command; KEEP: a folder for the files of failures (default: random-nets-failures, here). The last
# lines are the counts, and failures by their kind.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
seed=${SEED:-$(date +%s)} jobs=${JOBS:-$(nproc)}
echo "random nets: seed $seed, ${1:-600} s, $jobs at once"
exec "$PYTHON" "$here" --plimsoll "${PLIMSOLL:?the command line under test}" --seed "$seed" -j "$jobs" --seconds "${1:-600}" \
    --keep "${KEEP:-random-nets-failures}"
