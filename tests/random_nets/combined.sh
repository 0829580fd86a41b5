#!/bin/sh
# Random nets until so many of them have had a plan that cuts, recomputes and spills at once: tests/random_nets/combined.sh [FOUND]
#   default 200; SEED=7 for the same nets again (default 1), JOBS=2 at once
# PLIMSOLL: the command; KEEP: a folder for the files of failures (default: random-nets-failures, here). The last
# lines are the counts, and failures by their kind.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1 OMP_NUM_THREADS=1
seed=${SEED:-1} jobs=${JOBS:-$(nproc)}
echo "random nets, plans that cut, recompute and spill: seed $seed, until ${1:-200} are found, $jobs at once"
exec "$PYTHON" "$here" --plimsoll "${PLIMSOLL:?the command line under test}" --combined --seed "$seed" -j "$jobs" --found "${1:-200}" \
    --torch no --keep "${KEEP:-random-nets-failures}"
