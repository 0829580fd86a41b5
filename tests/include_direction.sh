#!/bin/sh
# The dependency direction is law: a folder of src/ includes only itself and folders earlier in this list; the command line includes only
# its own headers and the public one.
set -u
cd "$(dirname "$0")/.." || exit 99
order='core os kernels io graph ops formats expr models pack plan run session doctor report watch cli'
bad=$(grep -rn --include='*.[ch]' -E '^[[:space:]]*#[[:space:]]*include[[:space:]]*"' src | awk -v order="$order" '
    BEGIN { n = split(order, name, " "); for (i = 1; i <= n; i++) rank[name[i]] = i }
    {
        split($0, at, ":"); split(at[1], path, "/"); folder = path[2]
        match($0, /"[^"]*"/); header = substr($0, RSTART + 1, RLENGTH - 2)
        split(header, part, "/"); target = part[1]
        where = at[1] ":" at[2] ": "
        if (!(folder in rank)) { print where "folder " folder " is not in the list"; next }
        if (target == "plimsoll") {
            if (header != "plimsoll/plimsoll.h") print where "no such public header: " header
            next
        }
        if (!(target in rank)) { print where "includes \"" header "\", which names no folder of src/"; next }
        if (folder == "cli" && target != "cli") { print where "the command line sees only the public header, not " header; next }
        if (rank[target] > rank[folder]) print where folder " may not include " target " (" header ")"
    }')
if [ -n "$bad" ]; then
    echo "not ok - include direction"
    echo "$bad" | sed 's/^/# /'
    exit 1
fi
echo "ok - include direction"
