#!/bin/sh
# What watching costs, beside heaptrack.
#   bench/watch.sh [--cases import,churn,temps,conv] [--rounds N]
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: the benchmark of watching: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll libplimsoll_watch.so
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/watch.py" --plimsoll "$PLIMSOLL" "$@"
