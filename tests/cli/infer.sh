#!/bin/sh
# plimsoll infer: the numbers, several budgets, what is refused.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli.sh"
. "$here/../lib/python.sh"
[ -n "$PYTHON" ] || { skip 'inference' 'no python3 with NumPy here (Debian: python3-numpy)'; finish; }
"$PYTHON" "$here/../lib/train_check.py" make . || exit 99
infer="$PLIMSOLL infer net.json x.npy --weights w.safetensors --quiet"
cat >"$TMP/expected.py" <<'PY'
import sys
sys.path.insert(0, sys.argv[1])
import numpy as np
from train_check import read_safetensors
w = read_safetensors("w.safetensors")
h = np.maximum(np.load("x.npy").astype("f8") @ w["one/kernel"] + w["one/bias"], 0)
z = h @ w["two/kernel"] + w["two/bias"]
p = np.exp(z - z.max(1, keepdims=True))
p /= p.sum(1, keepdims=True)
for name in sys.argv[2:]:
    got = np.load(name)
    assert got.shape == p.shape and got.dtype == np.float32 and np.abs(got - p).max() < 1e-6, (name, np.abs(got - p).max())
PY

# shellcheck disable=SC2086  # $infer is several words on purpose
{
small=$(near_floor $infer -o y.npy) || exit 99
for memory in 1G $((small + 12582912)) $small; do $infer -o "y$memory.npy" --memory $memory || echo "failed in $memory"; done
if "$PYTHON" "$TMP/expected.py" "$here/../lib" y1G.npy y$((small + 12582912)).npy y$small.npy >"$TMP/why" 2>&1; then pass 'the numbers of NumPy at every budget'; else fail 'the numbers of NumPy at every budget' "$TMP/why"; fi
$infer -o two=named.npy --repeat 3
expect_match 'an output by its place is the one by its name' 0 '^True$' $PLIMSOLL eval 'all(a == b)' a=y1G.npy b=named.npy --quiet
expect_match 'how long each run took' 0 '"best_seconds"' $infer -o r.npy --repeat 3 --json
expect_match 'a result that nobody wants in a file is printed' 0 '^\[\[0\.' $infer
expect_error 'no weights' 2 "no weights for 4 of its 4 parameters, 'one/kernel' for one" $PLIMSOLL infer net.json x.npy -o n.npy --quiet
expect_error 'an input of another shape' 2 "'t.npy' is \\[40,5\\]; input 'input' is \\[40,12\\]" $PLIMSOLL infer net.json t.npy --weights w.safetensors --quiet
expect_error 'an input that the model does not have' 2 "no input 'z': it has input" $PLIMSOLL infer net.json z=x.npy --weights w.safetensors --quiet
expect_error 'an output that it does not have' 2 "no output 'three'" $infer -o three=n.npy
expect_error 'does not fit' 3 'does not fit' $infer -o n.npy --memory 4M
}
[ ! -e n.npy ] && pass 'and nothing is left behind' || { echo "n.npy is there" >"$TMP/why"; fail 'and nothing is left behind' "$TMP/why"; }
finish
