#!/bin/sh
# Runs every benchmark there is, or those that are named: bench/run.sh [arrays] [train] [infer] [exact] [seconds] [cliffs] [scaling] [watch] [pack] [plan] [io]
# BENCH_DIR is where data is made and kept (default bench-data); BENCH_SCALE a part of the full sizes, such as 0.1.
set -u
here=$(cd "$(dirname "$0")" && pwd)
. "$here/prepare.sh"
export PLIMSOLL BENCH_DIR="${BENCH_DIR:-bench-data}"
mkdir -p "$BENCH_DIR" || exit 2
status=0

bench() {
    case $1 in
    arrays) "$here/arrays.sh" ${BENCH_SCALE:+--scale "$BENCH_SCALE"} ;;
    scaling) "$here/scaling.sh" ;;
    io) prepare bench-io && "$(dirname "$PLIMSOLL")/bench-io" "$BENCH_DIR" ;;
    *)
        if [ -x "$here/$1.sh" ]; then "$here/$1.sh"
        elif [ -f "$here/$1.py" ]; then python3 "$here/$1.py"
        else echo "there is no benchmark $1" >&2; return 2
        fi
        ;;
    esac
}

if [ $# = 0 ]; then
    set -- arrays scaling io plan train infer watch
    if [ -x "$here/pack.sh" ] || [ -f "$here/pack.py" ]; then set -- "$@" pack; fi
fi
for name in "$@"; do
    echo "== $name"
    bench "$name"
    code=$?
    [ $code = 0 ] || [ $code = 77 ] || status=1
done
exit $status
