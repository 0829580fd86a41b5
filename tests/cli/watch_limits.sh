#!/bin/sh
# plimsoll watch: which limit refused or killed, each with its value: RLIMIT_AS, RLIMIT_DATA, RAM and swap, vm.max_map_count, a memory cgroup, a size that cannot be meant; and
# free memory that the allocator keeps.
. "$(dirname "$0")/../lib/cli.sh"
. "$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)/watch.sh"
. "$watch_lib/cgroup.sh"
watch_needs plain python

overcommit=$(cat /proc/sys/vm/overcommit_memory)
limited='ulimit -v "$0" && exec "$@"' # the limit is the watched program's: sh becomes it

watched -- sh -c "$limited" 800000 "$PYTHON" "$watch_programs/as.py"
facts <<'FACTS'
RLIMIT_AS: the script saw an ordinary MemoryError | status == 3 and out.startswith("caught: Unable to allocate 800. MiB")
RLIMIT_AS: named | (bad.event, bad.cause) == ("failed", "address_space") and "RLIMIT_AS" in bad.verdict
RLIMIT_AS: with its value | limit("RLIMIT_AS").limit == 800000 << 10 and limit("RLIMIT_AS").refuses and "781 MiB" in said
RLIMIT_AS: nothing else refuses | [x.name for x in bad.limits if x.refuses] == ["RLIMIT_AS"]
RLIMIT_AS: what is used of it | 64 * MIB < limit("RLIMIT_AS").used < 800000 << 10
RLIMIT_AS: the request and its line | bad.asked.bytes == 800 * MIB and at(bad.asked.site, "as.py", "return np.empty") and chain(bad.asked.site).startswith("build")
RLIMIT_AS: fix: ulimit -v | fix("ulimit -v")
RLIMIT_AS: a budget instead | "--memory" in " ".join(x.text for x in bad.fixes)
FACTS

limited_data='ulimit -d "$0" && exec "$@"'
watched -- sh -c "$limited_data" 700000 "$PYTHON" "$watch_programs/as.py"
facts <<'FACTS'
RLIMIT_DATA: the script saw an ordinary MemoryError | status == 3 and out.startswith("caught: Unable to allocate 800. MiB")
RLIMIT_DATA: named | (bad.event, bad.cause) == ("failed", "data") and "RLIMIT_DATA" in bad.verdict
RLIMIT_DATA: with its value | limit("RLIMIT_DATA").limit == 700000 << 10 and limit("RLIMIT_DATA").refuses and "684 MiB" in said
RLIMIT_DATA: fix: ulimit -d | fix("ulimit -d")
FACTS

# Libraries that end the program when they get no memory are not refused, whatever the budget; the program itself is.
watched --memory 300M -- "$watch_build/watch-library"
facts <<'FACTS'
library: it got what it asked for, the program did not | (status, out) == (0, "library 2 own 0\n")
library: the refusal is the program's | [chain(r.asked.site)[:4] for r in reports if r.event == "refused"] == ["main"]
library: that it was let pass is said | "let pass" in said
FACTS

if [ "$overcommit" = 0 ]; then
    watched -- "$PYTHON" "$watch_programs/toobig.py"
    facts <<'FACTS'
RAM and swap: the script saw an ordinary MemoryError | status == 3 and out.endswith("caught\n")
RAM and swap: named | (bad.event, bad.cause) == ("failed", "overcommit") and "vm.overcommit_memory" in said
RAM and swap: the request | bad.asked.bytes == number("asking (.*)") and at(bad.asked.site, "toobig.py", "return np.empty")
RAM and swap: their sum is the limit | any(x.refuses and x.limit == number("asking (.*)") - GIB for x in bad.limits)
RAM and swap: nothing else refuses | len([x for x in bad.limits if x.refuses]) == 1
FACTS
else
    skip 'RAM and swap: named' "vm.overcommit_memory is $overcommit: what is larger than both is let pass, or refused by another rule"
fi

maps=$(cat /proc/sys/vm/max_map_count)
if [ "$overcommit" != 2 ] && [ "$maps" -le 100000 ]; then
    watched -- "$watch_build/watch-maps"
    facts <<'FACTS'
max_map_count: the program saw NULL | status == 3 and number("blocks (.*)") > 1000
max_map_count: named | (bad.event, bad.cause) == ("failed", "maps") and "max_map_count" in said
max_map_count: with its value | limit("max_map_count").limit == int(open("/proc/sys/vm/max_map_count").read()) and limit("max_map_count").refuses
max_map_count: what is used of it | limit("max_map_count").used >= limit("max_map_count").limit - 16 and "{:,}".format(limit("max_map_count").limit) in said
max_map_count: the request | bad.asked.bytes == MIB
max_map_count: every block is in the table | bad.held[0].blocks == number("blocks (.*)") and bad.held[0].bytes == number("blocks (.*)") * MIB
max_map_count: none of them is in memory to speak of | bad.held[0].resident_bytes <= number("blocks (.*)") * 4096
max_map_count: fix: the setting | fix(r"vm\.max_map_count")
FACTS
else
    skip 'max_map_count: named' "vm.max_map_count is $maps, vm.overcommit_memory $overcommit: other limits come first"
fi

watched -- "$watch_build/watch-negative"
facts <<'FACTS'
negative: the program saw NULL | (status, out) == (3, "refused\n")
negative: named | (bad.event, bad.cause) == ("failed", "nonsense") and "negative" in said
negative: the size as it was | bad.asked.bytes == (1 << 64) - 100 and "-100" in said
negative: no limit is blamed | "no limit" in said
negative: the function | "buffer_for" in chain(bad.asked.site) and "buffer_for" in said
FACTS

# A real kill: the group holds the watched program alone, as a job's does.
if cgroup_usable; then
    cgroup_make $((128 << 20)) || exit 99
    watched -- sh -c 'echo $$ >"$0/cgroup.procs" && exec "$@"' "$cgroup_folder" "$PYTHON" "$watch_programs/kill.py"
    killed=$(cgroup_read_killed "$cgroup_folder")
    cgroup_remove "$cgroup_folder"
    facts <<FACTS
cgroup: the kernel did kill | "$killed" == "yes" and status == 137
cgroup: named | (bad.event, bad.cause) == ("killed", "cgroup") and re.search("cgroup|control group", bad.verdict) and bad.verdict in said
cgroup: which, and with its value | "$(basename "$cgroup_folder")" in said and "128 MiB" in said
cgroup: the count of kills went up | re.search(r"oom_kill 0 -> 1", said)
cgroup: a signal, by name | "SIGKILL" in said
FACTS
    facts <<'FACTS'
cgroup: who holds it | at(bad.held[0], "kill.py", "kept.append(")
cgroup: nearly all of it, at the last look | holder("kill.py", "kept.append(").resident_bytes >= 48 * MIB and holder("kill.py", "kept.append(").bytes >= 64 * MIB
cgroup: the variable | bad.held[0].name.name == "kept" and bad.held[0].name.element == "uint8[16,1048576]"
cgroup: fix: a budget, to get an exception instead | fix("--memory")
FACTS
    # And with the supervisor in the same group, as in a container: the kernel may choose, and has to choose the program.
    cgroup_run $((160 << 20)) "$PLIMSOLL" watch --json "$TMP/json" -- "$PYTHON" "$watch_programs/kill.py" >"$TMP/out" 2>"$TMP/err" </dev/null
    watch_status=$?
    facts <<'FACTS'
container: the program was killed, and the supervisor lived to tell | status == 137 and (bad.event, bad.cause) == ("killed", "cgroup")
container: with its value | "160 MiB" in said
container: who holds it | at(bad.held[0], "kill.py", "kept.append(") and bad.held[0].name.name == "kept"
FACTS
else
    echo "SKIPPED: may not create a memory cgroup here"
    skip 'cgroup: named' 'may not create a memory cgroup here'
fi

# 150 holes of 5 MiB. Half the address space that is used is free memory.
fragment=$watch_build/watch-fragment
watched -- sh -c "$limited" 1150000 "$fragment"
facts <<'FACTS'
fragmentation: the program saw NULL | status == 3 and out.endswith("refused\n")
fragmentation: named | bad.cause == "fragmentation" and re.search(r"free", bad.verdict)
fragmentation: free but kept, as the allocator itself counts | near(bad.free_but_kept_bytes, number("kept (.*)"), 0.02)
fragmentation: in the text | re.search(r"7[0-9][0-9](\.\d)? MiB", bad.verdict) and "kept" in said
fragmentation: what is live | near(bad.live_bytes, 150 * (276 << 10) + (5427 << 10), 0.05)
fragmentation: a setting is advised, with its peak | fix(r"MALLOC_MMAP_THRESHOLD_=\d+").computed and fix(r"MALLOC_MMAP_THRESHOLD_=\d+").peak_bytes < 128 * MIB
FACTS
setting=$(grep -o 'MALLOC_MMAP_THRESHOLD_=[0-9]*' "$TMP/err" | head -n 1)
sh -c "$limited" 1150000 env ${setting:+"$setting"} "$fragment" >"$TMP/out" 2>"$TMP/err"
watch_status=$?
facts <<'FACTS'
fragmentation: with the setting the program is granted what it asked for | (status, out.splitlines()[-1]) == (0, "granted")
fragmentation: and what is resident is as promised, within 15 % | near(number("resident (.*)"), fix("MALLOC_MMAP_THRESHOLD_").peak_bytes, 0.15)
FACTS
# A budget has a better answer than a refusal: what is free goes back first.
watched --memory 1000M -- "$fragment"
facts <<'FACTS'
fragmentation: inside a budget free memory goes back to the system before anything is refused | (status, out.splitlines()[-1]) == (0, "granted") and [r.event for r in reports] == ["ended"]
FACTS
watched --memory 1000M -- env ${setting:+"$setting"} "$fragment"
facts <<'FACTS'
fragmentation: the setting is not advised where it is on | reports and not any("MALLOC_MMAP_THRESHOLD_" in x.text for r in reports for x in r.fixes)
FACTS

finish
