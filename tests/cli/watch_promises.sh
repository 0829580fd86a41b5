#!/bin/sh
# plimsoll watch: the budget that a report promises lets the line run, and 5 % less does not.
. "$(dirname "$0")/../lib/cli.sh"
. "$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)/watch.sh"
watch_needs plain python

TMP=$TMP "$PYTHON" "$watch_lib/watch_promises.py" "$watch_programs/promises.py" 72M || cli_failed=1

finish
