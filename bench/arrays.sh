#!/bin/sh
# Array files side by side with the plain C loop, NumPy and Dask: builds what arrays.py needs and runs it.
#   bench/arrays.sh [--scale 0.1] [--rounds 3] [--cases f16,mean0] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: the array benchmark: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare bench-make-array bench-floor
exec "$PYTHON" "$here/arrays.py" --plimsoll "$PLIMSOLL" --floor "$FLOOR" --make-array "$MAKE_ARRAY" "$@"
