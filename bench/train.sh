#!/bin/sh
# Training side by side with PyTorch.
#   bench/train.sh [--models small,slim] [--steps N] [--quick] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: the benchmark of training: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/train.py" --plimsoll "$PLIMSOLL" "$@"
