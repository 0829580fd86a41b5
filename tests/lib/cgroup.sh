# shellcheck shell=sh
# A memory cgroup around a command: a hard limit, no swap, version 1 or 2, whichever has the memory controller here.
#
# Sourced by a shell script:
#     cgroup_usable || { echo "SKIPPED: may not create a memory cgroup here"; exit 77; }
#     cgroup_run BYTES COMMAND...     runs it inside; its exit status is also in $cgroup_status,
#                                     the most the kernel charged in $cgroup_peak (0: this kernel does not tell),
#                                     and $cgroup_killed is yes or no
# Run as a program by other languages, which start the process themselves:
#     cgroup.sh make BYTES            prints the new group's folder; a process joins by writing its pid to FOLDER/cgroup.procs
#     cgroup.sh peak FOLDER           cgroup.sh killed FOLDER        cgroup.sh remove FOLDER
#
# What counts against the limit: everything the kernel charges, so page cache and page tables too, not only the resident set.

# The folder below which groups can be made, in $cgroup_base, and 1 or 2 in $cgroup_version: the mount's root, or our own group
# where the root is not ours to change.
cgroup_find() {
    [ -z "${cgroup_base:-}" ] || return 0
    cgroup_own=$(sed -n 's/^[0-9]*:[a-z,]*\bmemory\b[a-z,]*://p' /proc/self/cgroup 2>/dev/null | head -n 1)
    for cgroup_try in /sys/fs/cgroup/memory "/sys/fs/cgroup/memory${cgroup_own%/}"; do
        if [ -e "$cgroup_try/memory.limit_in_bytes" ] && cgroup_probe "$cgroup_try" memory.limit_in_bytes; then
            cgroup_base=$cgroup_try cgroup_version=1
            return 0
        fi
    done
    cgroup_own=$(sed -n 's/^0:://p' /proc/self/cgroup 2>/dev/null)
    # A version 2 group with processes in it may have no controllers for its children, so the parents come next.
    while :; do
        cgroup_try=/sys/fs/cgroup${cgroup_own%/}
        if [ -e "$cgroup_try/cgroup.controllers" ]; then
            grep -qw memory "$cgroup_try/cgroup.subtree_control" 2>/dev/null ||
                { echo +memory >"$cgroup_try/cgroup.subtree_control"; } 2>/dev/null
            if cgroup_probe "$cgroup_try" memory.max; then
                cgroup_base=$cgroup_try cgroup_version=2
                return 0
            fi
        fi
        [ -n "${cgroup_own%/}" ] || return 1
        cgroup_own=${cgroup_own%/*}
    done
}

cgroup_probe() { # folder, the file that its children must have
    mkdir "$1/plimsoll-probe-$$" 2>/dev/null || return 1
    [ -w "$1/plimsoll-probe-$$/$2" ]
    cgroup_found=$?
    rmdir "$1/plimsoll-probe-$$" 2>/dev/null
    return $cgroup_found
}

cgroup_usable() { cgroup_find; }

# Makes a group with a limit of $1 bytes and sets $cgroup_folder.
cgroup_make() {
    cgroup_find || return 1
    cgroup_count=$((${cgroup_count:-0} + 1))
    cgroup_folder=$cgroup_base/plimsoll-$$-$cgroup_count
    mkdir "$cgroup_folder" || return 1
    if [ "$cgroup_version" = 1 ]; then
        echo "$1" >"$cgroup_folder/memory.limit_in_bytes" || return 1
        { echo "$1" >"$cgroup_folder/memory.memsw.limit_in_bytes"; } 2>/dev/null ||
            { echo 0 >"$cgroup_folder/memory.swappiness"; } 2>/dev/null
    else
        echo "$1" >"$cgroup_folder/memory.max" || return 1
        { echo 0 >"$cgroup_folder/memory.swap.max"; } 2>/dev/null
    fi
    return 0
}

cgroup_read_peak() { # folder
    cat "$1/memory.max_usage_in_bytes" 2>/dev/null || cat "$1/memory.peak" 2>/dev/null || echo 0
}

cgroup_read_killed() { # folder
    cgroup_kills=$(cat "$1/memory.oom_control" "$1/memory.events" 2>/dev/null | sed -n 's/^oom_kill //p' | head -n 1)
    [ "${cgroup_kills:-0}" = 0 ] && echo no || echo yes
}

# The last page leaves a moment after the last process: a busy group is tried again.
cgroup_remove() { # folder
    for cgroup_wait in 1 2 3 4 5 6 7 8 9 10; do
        rmdir "$1" 2>/dev/null && return 0
        sleep 0.1
    done
    echo "cgroup.sh: cannot remove $1" >&2
    return 1
}

cgroup_run() { # bytes, command...
    cgroup_bytes=$1
    shift
    cgroup_make "$cgroup_bytes" || return 99
    # The shell moves itself and then becomes the command, so that nothing of the command is charged elsewhere.
    sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cgroup_folder" "$@"
    cgroup_status=$?
    cgroup_peak=$(cgroup_read_peak "$cgroup_folder")
    cgroup_killed=$(cgroup_read_killed "$cgroup_folder")
    cgroup_remove "$cgroup_folder"
    return $cgroup_status
}

case ${0##*/} in
cgroup.sh)
    case ${1:-} in
    make) cgroup_make "$2" && echo "$cgroup_folder" ;;
    peak) cgroup_read_peak "$2" ;;
    killed) cgroup_read_killed "$2" ;;
    remove) cgroup_remove "$2" ;;
    *) echo "usage: cgroup.sh make BYTES | peak FOLDER | killed FOLDER | remove FOLDER" >&2 && exit 2 ;;
    esac
    ;;
esac
