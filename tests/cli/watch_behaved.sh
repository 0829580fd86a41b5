#!/bin/sh
# plimsoll watch: programs that keep within a budget are neither refused anything nor stopped, whatever they share and map.
. "$(dirname "$0")/../lib/cli.sh"
. "$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)/watch.sh"
watch_needs plain python

TMP=$TMP "$PYTHON" "$watch_lib/watch_behaved.py" "$watch_programs/behaved.py"  || cli_failed=1

finish
