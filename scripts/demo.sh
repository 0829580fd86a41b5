#!/bin/sh
# make demo: an array of several gigabytes, standardised inside 256 MiB of memory, and what the kernel says about it.
#   DEMO_GB=4 for another size, DEMO_DIR for another folder than one below the temporary files'. Leaves nothing behind.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
. "$root/bench/prepare.sh"
. "$root/tests/lib/cgroup.sh"
prepare bench-make-array
budget=$((256 << 20))
gb=${DEMO_GB:-3.2}
rows=$(awk -v gb="$gb" 'BEGIN { printf "%d", gb * 1e9 / 2048 }')

# A folder on a real disk: /tmp is often memory, which would be cheating.
folder=${DEMO_DIR:-}
if [ -z "$folder" ]; then
    for try in "${TMPDIR:-/tmp}" /var/tmp "$root"; do
        case $(stat -f -c %T "$try" 2>/dev/null) in tmpfs | ramfs | '') continue ;; esac
        if [ -w "$try" ] && need_disk "$try" $((rows * 2048 * 3 / 2 + (64 << 20))) "the demo" 2>/dev/null; then folder=$try && break; fi
    done
fi
if [ -z "$folder" ]; then # a smaller disk still makes a demo
    folder=$root
    rows=$((rows / 8))
    need_disk "$folder" $((rows * 2048 * 3 / 2 + (64 << 20))) "a small demo" || exit 1
fi
work=$(mktemp -d "$folder/plimsoll-demo-XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
cd "$work"

say() { printf '\n%s\n' "$*"; }
show() { # a command as one would type it
    printf '$ plimsoll'
    for word in "$@"; do case $word in *[\ \;\(\)]*) printf " '%s'" "$word" ;; *) printf ' %s' "$word" ;; esac done
    printf '\n'
}
number() { sed -n "s/^ *\"$1\": \\([0-9.e+-]*\\),*\$/\\1/p" facts.json; }
mib() { awk -v b="$1" 'BEGIN { printf "%8.1f MiB", b / 1048576 }'; }

say "How large is such an array?"
show size "${rows}x512:f32" --memory 256M
"$PLIMSOLL" size "${rows}x512:f32" --memory 256M || true # it does not fit: that is the point

say "Making it: x.npy, $(awk -v r="$rows" 'BEGIN { printf "%.1f", r * 2048 / 1e9 }') GB of numbers, in $folder ..."
"$MAKE_ARRAY" x.npy "${rows}x512" f32 0

text='m = mean(x,0); s = std(x,0); z = f16((x-m)/s)'
say "Every column to mean 0 and deviation 1, stored in half precision, with 256 MiB of memory for everything:"
show eval "$text" x=x.npy -o z=z.npy -o m=m.npy --memory 256M
if cgroup_usable; then
    echo "(inside a memory cgroup of 256 MiB without swap: if it takes more, the kernel kills it)"
    limited() { cgroup_run $budget "$@"; }
else
    echo "(this user may not create a memory cgroup here, so the budget is Plimsoll's word alone; the kernel's count is below)"
    limited() { "$@"; }
fi
cgroup_peak=0
code=0
limited "$PLIMSOLL" eval "$text" x=x.npy -o z=z.npy -o m=m.npy --memory 256M --json >facts.json || code=$?
if [ $code != 0 ]; then
    echo "the run ended with exit code $code${cgroup_killed:+; killed by the kernel: $cgroup_killed}" >&2
    exit 1
fi

say "Done in $(number seconds | cut -c1-5) s: $(awk -v r="$(number bytes_read)" -v w="$(number bytes_written)" -v s="$(number seconds)" \
    'BEGIN { printf "read %.1f GB, wrote %.1f GB, %.1f GB/s", r / 1e9, w / 1e9, (r + w) / 1e9 / s }'). Planning took $(awk -v p="$(number plan_seconds)" 'BEGIN { printf "%.1f", p * 1000 }') ms."
echo "  the budget                          $(mib $budget)"
echo "  planned before anything was read    $(mib "$(number planned_peak_bytes)")"
echo "  the process, as the kernel saw it   $(mib "$(number peak_rss_bytes)")   (VmHWM)"
[ "$cgroup_peak" = 0 ] || echo "  all that the kernel charged for it  $(mib "$cgroup_peak")   (the cgroup's peak)"
echo "  the array                           $(mib $((rows * 2048)))"

say "Is it right? The means of z's columns should be 0, their deviations 1. The first three of each:"
show eval 'stack([mean(f32(z),0)[:3], std(f32(z),0)[:3]])' z=z.npy
"$PLIMSOLL" eval 'stack([mean(f32(z),0)[:3], std(f32(z),0)[:3]])' z=z.npy --memory 256M --quiet

say "What this machine has for it, if no budget is given (plimsoll doctor says more):"
show doctor --no-speed
"$PLIMSOLL" doctor --no-speed | sed -n '/^default budget/p'
# What watching says of a program that asks for too much; where there is no NumPy, the demo ends without it.
. "$root/tests/lib/python.sh"
if [ -n "$PYTHON" ]; then
    say "And a program that is not ours, which asks for an array of 11.7 GiB in 4 GiB of memory:"
    echo "\$ plimsoll watch --memory 4G -- python3 tests/watch/rand.py"
    "$PLIMSOLL" watch --memory 4G -- "$PYTHON" "$root/tests/watch/rand.py" || true # its own exit code: it caught the exception
fi
say "Try it on an array of yours:  build/plimsoll eval 'mean(x,0)' x=yours.npy --memory 256M"
