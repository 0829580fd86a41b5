#!/bin/sh
# The front door: verbs, help, version, exit codes, output that cannot be written.
. "$(dirname "$0")/../lib/cli.sh"

expect_match 'help lists the verbs' 0 '^  size +bytes of a tensor' "$PLIMSOLL" --help
expect_match 'help verb' 0 '^usage: plimsoll size ' "$PLIMSOLL" help size
expect_match 'verb --help' 0 '^usage: plimsoll doctor ' "$PLIMSOLL" doctor --help
expect_match 'version' 0 '^plimsoll [0-9]+\.[0-9]+\.[0-9]+$' "$PLIMSOLL" --version
expect_error 'no verb' 2 '^usage: plimsoll VERB' "$PLIMSOLL"
expect_error 'a verb that is near' 2 "do you mean 'doctor'" "$PLIMSOLL" docter
expect_error 'a verb that is not' 2 "unknown verb 'frobnicate'; plimsoll --help" "$PLIMSOLL" frobnicate
expect_error 'an option without a verb' 2 'unknown option --memory' "$PLIMSOLL" --memory 3
to_full() { "$@" >/dev/full; }
expect_error 'a full disk under stdout' 1 'output cannot be written: No space left' to_full "$PLIMSOLL" size 3 --memory 1G

# An output file must not take the place of a stream that is closed: messages would be written into it.
closed() { # which, command...
    which=$1
    shift
    case $which in *0*) exec 0<&- ;; esac
    case $which in *1*) exec 1>&- ;; esac
    case $which in *2*) exec 2>&- ;; esac
    exec "$@"
}
for which in 0 1 2 01 02 12 012; do
    rm -f "$TMP/ones.npy"
    (closed $which "$PLIMSOLL" eval 'y = ones((3,), f32)' -o y="$TMP/ones.npy" --memory 64M) >/dev/null 2>"$TMP/why"
    if [ $? = 0 ] && [ "$(tail -c 12 "$TMP/ones.npy" | od -An -tx1 | tr -d ' \n')" = 0000803f0000803f0000803f ]; then pass "streams $which closed"
    else fail "streams $which closed" "$TMP/why"; fi
done

finish
