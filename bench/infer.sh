#!/bin/sh
# Inference side by side with ONNX Runtime.
#   bench/infer.sh [--models resnet50,gpt] [--rounds N] [--quick] ...      BENCH_DIR: where the data is kept (default bench-data)
set -eu
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../tests/lib/python.sh"
. "$here/prepare.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: the benchmark of inference: no python3 with NumPy here (Debian: python3-numpy)" >&2; exit 77; }
prepare plimsoll
export PYTHONDONTWRITEBYTECODE=1
exec "$PYTHON" "$here/infer.py" --plimsoll "$PLIMSOLL" "$@"
