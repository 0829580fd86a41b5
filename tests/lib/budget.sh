# shellcheck shell=sh
# One eval inside a memory cgroup exactly as large as its budget: not killed, right against NumPy, and the planned peak at least what the kernel
# measured (VmHWM) and within max(3 MiB, 3 %) of it. tests/soak.sh does it at full size, tests/cli/budget.sh small.
#
# Needs: $PLIMSOLL, $PYTHON with NumPy, cgroup.sh sourced, $budget_folder (outputs, references, and where values may be spilled).
budget_lib=${budget_lib:?the folder of this file}
budget_slack=$((3 << 20))

# The cases: name | inputs | expression | outputs, where F stands for the folder
budget_table() {
    cat <<'TABLE'
f16       | x   | f16(x)                                           | F/out.npy
mean      | x   | mean(x)                                          | F/out.npy
mean0     | x   | mean(x,0)                                        | F/out.npy
std0      | x   | std(x,0)                                         | F/out.npy
mse0      | x   | mean((x-3)**2,0)                                 | F/out.npy
box       | x   | box(x,3)                                         | F/out.npy
matmul    | x w | x @ w                                            | F/out.npy
transpose | x   | x.T                                              | F/out.npy
histogram | x   | histogram(x,50)                                  | F/out.npy
median0   | x   | median(x,0)                                      | F/out.npy
argmax1   | x   | argmax(x,1)                                      | F/out.npy
zscore    | x   | m = mean(x,0); s = std(x,0); z = f16((x-m)/s)    | z=F/out.npy m=F/out-m.npy
copies    | t   | b = split(t,128,-1)                              | b=F/out-%d.npy
means     | t   | stack(mean(split(t,128,-1)))                     | F/out.npy
TABLE
}

budget_number() { sed -n "s/^ *\"$1\": \\([0-9.e+-]*\\),*\$/\\1/p" "$budget_folder/out.json"; } # key
budget_mib() { awk -v b="$1" 'BEGIN { printf "%.1f", b / 1048576 }'; }

budget_clean() { rm -f "$budget_folder"/out.npy "$budget_folder"/out-*.npy "$budget_folder"/out.json "$budget_folder"/out.err; }

# budget_eval BYTES: runs the case of $budget_name inside a cgroup of that size; @return its exit code, 137 when killed
budget_eval() {
    budget_bytes=$1
    set -- eval "$budget_text"
    for budget_in in $budget_inputs; do
        eval "set -- \"\$@\" \"\$budget_in=\$budget_$budget_in\""
    done
    for budget_out in $budget_outputs; do
        case $budget_out in
        *=F/*) set -- "$@" -o "${budget_out%%=*}=$budget_folder/${budget_out#*=F/}" ;;
        *) set -- "$@" -o "$budget_folder/${budget_out#F/}" ;;
        esac
    done
    cgroup_run "$budget_bytes" "$PLIMSOLL" "$@" --memory "$budget_bytes" --spill "$budget_folder" --json >"$budget_folder/out.json" \
        2>"$budget_folder/out.err"
    budget_code=$?
    [ "$cgroup_killed" = no ] || budget_code=137
    return $budget_code
}

# Prints what is wrong with a run that ended well, or nothing.
budget_judge() {
    budget_over=$((budget_hwm * 3 / 100))
    [ $budget_over -ge $budget_slack ] || budget_over=$budget_slack
    budget_spare=$((budget_planned - budget_hwm))
    [ $budget_spare -ge 0 ] || echo "the kernel measured $((-budget_spare)) bytes more than planned"
    [ $budget_spare -le $budget_over ] || echo "planned $budget_spare bytes more than the kernel measured"
    case $budget_name in
    copies) set -- "$budget_folder"/out-[0-9].npy ;;
    zscore) set -- "$budget_folder/out.npy" "$budget_folder/out-m.npy" ;;
    matmul) set -- "$budget_w" "$budget_folder/out.npy" ;;
    *) set -- "$budget_folder/out.npy" ;;
    esac
    eval "budget_first=\$budget_${budget_inputs%% *}"
    # Bits that were compared with NumPy's once need not be compared again.
    budget_known=$budget_folder/known-$budget_name-$(stat -c %s-%Y "$budget_first")
    budget_sum=$(cat "$@" | sha1sum)
    [ "$budget_sum" != "$(cat "$budget_known" 2>/dev/null)" ] || return 0
    budget_differs=$("$PYTHON" "$budget_lib/array_check.py" "$budget_name" "$budget_folder" "$budget_first" "$@" 2>&1)
    if [ -z "$budget_differs" ]; then echo "$budget_sum" >"$budget_known"; else echo "$budget_differs"; fi
}

# budget_case NAME BYTES: sets $budget_why (empty: passed), $budget_row (a line of the table below budget_head) and $budget_at (the bytes it ran in: the
# floor, where the budget was refused).
budget_case() {
    budget_name=$1 budget_at=$2
    budget_row_of=$(budget_table | grep "^$1 ")
    budget_inputs=$(echo "$budget_row_of" | cut -d'|' -f2 | xargs)
    budget_text=$(echo "$budget_row_of" | cut -d'|' -f3 | sed 's/^ *//; s/ *$//')
    budget_outputs=$(echo "$budget_row_of" | cut -d'|' -f4 | xargs)
    budget_clean
    eval "drop_caches \$budget_${budget_inputs%% *}"
    budget_note=
    budget_eval "$budget_at"
    if [ $budget_code = 3 ]; then
        budget_at=$(sed -n 's/.*(--memory \([0-9]*\)).*/\1/p' "$budget_folder/out.err")
        budget_note="refused: at its floor"
        if [ -n "$budget_at" ]; then budget_eval "$budget_at"; else budget_at=$2; fi
    fi
    budget_planned=0 budget_hwm=0
    if [ $budget_code = 137 ]; then
        budget_why="killed, $cgroup_peak bytes charged"
    elif [ $budget_code != 0 ]; then
        budget_why="exit code $budget_code: $(head -n 1 "$budget_folder/out.err")"
    else
        budget_planned=$(budget_number planned_peak_bytes) budget_hwm=$(budget_number peak_rss_bytes)
        budget_why=$(budget_judge | head -n 3 | tr '\n' ';')
    fi
    budget_row=$(printf '%-10s %9s %9s %9s %9s %8s %8s  %s' "$1" "$(budget_mib "$2")" "$(budget_mib "$budget_planned")" "$(budget_mib "$budget_hwm")" \
        "$(budget_mib "${cgroup_peak:-0}")" "$(budget_number seconds | cut -c1-6)" "$(budget_number plan_seconds | cut -c1-6)" \
        "${budget_why:-ok}${budget_note:+ ($budget_note of $(budget_mib "$budget_at"))}")
    budget_clean
}

budget_head() { printf '%-10s %9s %9s %9s %9s %8s %8s\n' 'MiB:' budget planned VmHWM cgroup seconds plan; }
