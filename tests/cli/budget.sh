#!/bin/sh
# The array cases at about a hundredth of their size inside memory cgroups exactly as large as the budget (tests/soak.sh does it at full size):
# not killed, right against NumPy, the planned peak what the kernel measured. 6 MiB is less than they need: they are refused and run at their floor.
. "$(dirname "$0")/../lib/cli.sh"
budget_lib=$(dirname "$0")/../lib
case $budget_lib in /*) ;; *) budget_lib=$OLDPWD/$budget_lib ;; esac
. "$budget_lib/cgroup.sh"
. "$budget_lib/python.sh"
. "$budget_lib/../../bench/prepare.sh"
. "$budget_lib/budget.sh"
if ! cgroup_usable; then
    echo "SKIPPED: may not create a memory cgroup here"
    skip 'runs inside a cgroup as large as the budget' 'may not create a memory cgroup here'
    finish
fi
if [ -z "$PYTHON" ]; then
    echo "SKIPPED: no python3 with NumPy here"
    skip 'runs inside a cgroup as large as the budget' 'no python3 with NumPy here'
    finish
fi
if skip_sanitized 'runs inside a cgroup as large as the budget' 'its own memory is many times what is planned'; then finish; fi
MAKE_ARRAY=${MAKE_ARRAY:-$(dirname "$PLIMSOLL")/bench-make-array}
budget_folder=$PWD budget_x=$PWD/x.npy budget_t=$PWD/t.npy budget_w=$PWD/w.npy
"$MAKE_ARRAY" x.npy 20009x512 f32 0 && "$MAKE_ARRAY" t.npy 1x4x1024x1021 f32 1 && "$MAKE_ARRAY" w.npy 512x256 f32 2 || exit 99
drop_caches() { :; } # direct I/O does not care, and the machine's cache is not ours to empty in a quick test

one() { # case, MiB
    budget_case "$1" $(($2 << 20))
    echo "$budget_why" >"$TMP/why"
    if [ -z "$budget_why" ]; then pass "$1 in $(budget_mib "$budget_at") MiB"; else fail "$1 in $2 MiB" "$TMP/why"; fi
}

for name in $(budget_table | cut -d' ' -f1); do one "$name" 64; done
for name in f16 mean0 std0 box argmax1 zscore copies; do one "$name" 6; done
for name in transpose median0; do one "$name" 16 && one "$name" 256; done
finish
