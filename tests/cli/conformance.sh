#!/bin/sh
# plimsoll-conformance: what it says of small tests of its own, of the ONNX project's where they are at hand, and of networks.
. "$(dirname "$0")/../lib/cli.sh"
tests=$(cd "$(dirname "$0")/.." && pwd)
CONFORMANCE=${BUILD:?the build folder}/plimsoll-conformance
cases=$tests/../../shared/cases

expect_error 'no folder' 2 'which folder' "$CONFORMANCE"
expect_error 'not a folder' 2 'no such folder: nowhere' "$CONFORMANCE" nowhere
expect_error 'an unknown option' 2 'unknown option --fast' "$CONFORMANCE" --fast .
expect_error 'a time that is none' 2 '--seconds needs a number from 1 to 86400, not soon' "$CONFORMANCE" . --seconds soon
expect_error 'no test in it' 2 'no folder with a model.onnx' "$CONFORMANCE" .
expect_match 'help' 0 'usage: plimsoll-conformance DIR' "$CONFORMANCE" --help
expect_match 'version' 0 '^plimsoll-conformance [0-9]' "$CONFORMANCE" --version

if ! command -v python3 >/dev/null; then
    skip 'tests of its own' 'no python3 here'
    finish
fi
python3 "$tests/models/make_cases.py" small
expect 'one of each kind' 1 "$CONFORMANCE" small/ <<'OUT'
op              passed  failed  unsupported  not numeric
Identity             0       0            0            1
NoSuchOperator       0       0            1            0
Relu                 1       3            0            0
failed cut: small/cut/test_data_set_0/input_0.pb: field 9 of a TensorProto, byte 11, says that it has 16 bytes; 13 are there
failed differs: output 0 of set 0 ('y'): element [0,1] is 2, expected is 2.00999999; 1 of 4 differ
failed dtype: output 0 of set 0 ('y'): it is f32 [2,2], expected is f64 [2,2]
1 passed, 3 failed, 1 unsupported, 1 not numeric
OUT
expect_match 'what is not supported, and why' 1 "^unsupported refused: .*this operator is not supported" "$CONFORMANCE" --verbose small
expect_match 'what is not numeric, and why' 1 "^not numeric strings: input 'x' is a tensor of strings" "$CONFORMANCE" --verbose small
expect_match 'as JSON' 1 '"verdict": "unsupported"' "$CONFORMANCE" --json small
expect_match 'sums as JSON' 1 '"not_numeric": 1' "$CONFORMANCE" --json small
expect_match 'one test alone, which passes' 0 '^1 passed, 0 failed, 0 unsupported, 0 not numeric$' "$CONFORMANCE" small/passes

# Operators against NumPy, where the ONNX project's tests do not go.
. "$tests/lib/python.sh"
if [ -n "$PYTHON" ] && "$PYTHON" "$tests/oracle/onnx_cases.py" oracle; then
    expect_match 'operators as NumPy computes them' 0 '^[1-9][0-9]+ passed, 0 failed, 0 unsupported, 0 not numeric$' "$CONFORMANCE" --verbose oracle --seconds "$(patience 120)"
else
    skip 'operators as NumPy computes them' 'no python3 with NumPy here'
fi

# The ONNX project's tests of single operators: none may fail, and of those with numbers four in five have to pass.
if [ -f "$cases/onnx-node/node-tests.tar.xz" ]; then
    mkdir node && tar -C node -xJf "$cases/onnx-node/node-tests.tar.xz"
    "$CONFORMANCE" node --seconds "$(patience 120)" >"$TMP/why" 2>&1
    code=$?
    set -- $(tail -n 1 "$TMP/why" | tr -d ,)
    echo "# $*"
    if [ "$code" = 0 ] && [ "${3:-1}" = 0 ]; then pass 'no operator gives a wrong answer'; else fail 'no operator gives a wrong answer' "$TMP/why"; fi
    if [ $((5 * ${1:-0})) -ge $((4 * (${1:-0} + ${3:-0} + ${5:-1}))) ]; then pass 'four in five pass'; else fail 'four in five pass' "$TMP/why"; fi
    rm -rf node
else
    skip 'tests of operators' 'the ONNX tests are not here'
fi

# Networks with weights that are all alike, and the outputs that they should have.
for name in bvlc_alexnet densenet121 inception_v1 inception_v2 resnet50 shufflenet squeezenet vgg19 zfnet512; do
    light=$cases/onnx-light/light_$name
    if [ ! -f "$light.onnx" ]; then
        skip "$name" 'the network is not here'
        continue
    fi
    python3 "$tests/models/make_cases.py" "light/$name" "$light.onnx" "${light}_output_0.pb" 1x3x224x224
    expect_match "$name" 0 '^1 passed, 0 failed' "$CONFORMANCE" "light/$name" --seconds "$(patience 300)"
done
finish
