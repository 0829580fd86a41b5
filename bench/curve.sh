#!/bin/sh
# Time against memory in training, PyTorch beside plimsoll: curve.csv in the data folder, and a drawing.
#   bench/curve.sh [--svg FILE] [--points N] [--models slim,wide] [--steps N] [--quick] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: the curve of training: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/curve.py" --plimsoll "$PLIMSOLL" "$@"
