#!/bin/sh
# Seconds per training step at multiples of the floor, and the smallest budget that is at most twice as slow as the fastest.
#   bench/cliffs.sh [--only small,gpt] [--planned] [--quick] [--longest S] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: the cliffs of training: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/cliffs.py" --plimsoll "$PLIMSOLL" "$@"
