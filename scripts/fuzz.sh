#!/bin/sh
# scripts/fuzz.sh BUILD SECONDS: every libFuzzer target in BUILD for SECONDS each, starting from its corpus.
# What is new goes to BUILD/corpus-<name>; a crash stays in BUILD/crash-<name>-* and fails the run.
set -eu
build=$1 seconds=$2
here=$(cd "$(dirname "$0")/.." && pwd)
status=0
export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
for source in "$here"/fuzz/*.c; do
    [ -e "$source" ] || { echo "no fuzz targets"; exit 0; }
    name=$(basename "$source" .c)
    mkdir -p "$build/corpus-$name" "$here/fuzz/corpus/$name"
    echo "fuzz $name for $seconds s"
    "$build/fuzz-$name" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 -artifact_prefix="$build/crash-$name-" \
        -print_final_stats=1 -verbosity=0 "$build/corpus-$name" "$here/fuzz/corpus/$name" || status=1
done
exit $status
