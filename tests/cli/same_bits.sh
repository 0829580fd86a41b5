#!/bin/sh
# The same command gives the same bits and the same plan, five times each, whatever the environment, the addresses and the load.
# tests/same_bits.sh runs more commands, as often as one likes.
here=$(cd "$(dirname "$0")/.." && pwd)
. "$here/lib/python.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here"; echo "ok - the same bits each time # SKIP no python3 with NumPy here"; exit 0; }
exec "$here/same_bits.sh" --runs 5 --only eval-tight,eval-median,infer-small,train-small
