#!/bin/sh
# Every array case at full size inside memory cgroups exactly as large as the budget, no swap, cold cache: none is killed, every element is
# right against NumPy, and the planned peak is what the kernel measured. Where a budget is refused, the case runs at the floor that the refusal names.
#   tests/soak.sh [case...]          BENCH_DIR: data and references, kept (default bench-data); SOAK_SCALE=0.1 a tenth of the size
#   SOAK_BUDGETS="64 256" in MiB     The last line is "N passed, N failed".
set -u
here=$(cd "$(dirname "$0")" && pwd)
budget_lib=$here/lib
. "$here/lib/cgroup.sh"
. "$here/lib/python.sh"
. "$here/../bench/prepare.sh"
. "$here/lib/budget.sh"
[ -n "$PYTHON" ] || { echo "SKIPPED: no python3 with NumPy here (Debian: python3-numpy)"; exit 77; }
cgroup_usable || { echo "SKIPPED: may not create a memory cgroup here"; exit 77; }
prepare bench-make-array

budget_folder=${BENCH_DIR:-bench-data}
mkdir -p "$budget_folder" || exit 2
scale=${SOAK_SCALE:-1}
rows=$(awk -v s="$scale" 'BEGIN { printf "%d", 3075200 * s }') planes=$(awk -v s="$scale" 'BEGIN { n = int(256 * s); print n < 1 ? 1 : n }')
need_disk "$budget_folder" $((rows * 512 * 4 * 3 + planes * 1024 * 1021 * 8)) "this test" || exit 1
array() { # file, shape, seed
    [ -f "$1" ] || "$MAKE_ARRAY" "$1" "$2" f32 "$3" || exit 1
}
budget_x=$budget_folder/x-${rows}x512.npy budget_t=$budget_folder/t-1x${planes}x1024x1021.npy budget_w=$budget_folder/w-512x256.npy
array "$budget_x" "${rows}x512" 0
array "$budget_t" "1x${planes}x1024x1021" 1
array "$budget_w" 512x256 2

passed=0 failed=0
budget_head
# shellcheck disable=SC2046  # one word per case
[ $# != 0 ] || set -- $(budget_table | cut -d' ' -f1)
for name in "$@"; do
    for mib in ${SOAK_BUDGETS:-64 256 1024 8192}; do
        budget_case "$name" $((mib << 20))
        echo "$budget_row"
        if [ -z "$budget_why" ]; then passed=$((passed + 1)); else failed=$((failed + 1)); fi
    done
done
echo "$passed passed, $failed failed"
[ "$failed" = 0 ]
