#!/bin/sh
# Planned against measured seconds of trainings, inferences and array programs, inside memory cgroups of their budgets.
#   bench/seconds.sh [--only train-gpt] [--quick] [--longest S] [--out FILE.json] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: planned against measured seconds: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll bench-make-array
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/seconds.py" --plimsoll "$PLIMSOLL" --make-array "$MAKE_ARRAY" "$@"
