#!/bin/sh
# Training at budgets from the smallest up, inside memory cgroups: peaks as planned, losses as PyTorch has them.
#   bench/exact.sh [--models small,gpt] [--budgets N] [--quick] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: training at all budgets: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/exact.py" --plimsoll "$PLIMSOLL" "$@"
