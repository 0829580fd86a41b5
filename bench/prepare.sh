# shellcheck shell=sh
# Sourced by the benchmarks and the soak test. `prepare TARGET...` builds the helper programs beside $PLIMSOLL and sets $MAKE_ARRAY and $FLOOR
# to where they are, unless the environment names them; and gives this shell's group of processes as much of the CPUs as the
# kernel allows: with autogroups, nice does not count between sessions.
PLIMSOLL=${PLIMSOLL:?the plimsoll to measure}

prepare() {
    prepare_build=$(dirname "$PLIMSOLL")
    if [ -f "$prepare_build/build.ninja" ]; then ninja -C "$prepare_build" --quiet "$@" >&2; fi
    MAKE_ARRAY=${MAKE_ARRAY:-$prepare_build/bench-make-array}
    FLOOR=${FLOOR:-$prepare_build/bench-floor}
    { echo -20 >/proc/$$/autogroup; } 2>/dev/null || true
}

# drop_caches FILE...: cold from here on, as far as we may
drop_caches() {
    sync
    { echo 3 >/proc/sys/vm/drop_caches; } 2>/dev/null && return 0
    for prepare_file in "$@"; do dd if="$prepare_file" of=/dev/null iflag=nocache count=0 2>/dev/null || true; done
}

# need_disk FOLDER BYTES WHAT: 0 when the folder's file system has that much free, and a message where not
need_disk() {
    prepare_free=$(($(df -Pk "$1" | awk 'NR == 2 { print $4 }') * 1024))
    [ "$prepare_free" -ge "$2" ] && return 0
    echo "$3 needs $(($2 / 1000000)) MB on the disk of $1, and $((prepare_free / 1000000)) MB are free" >&2
    return 1
}
