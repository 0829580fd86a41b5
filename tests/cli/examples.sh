#!/bin/sh
# The example programs: they do what their heads say.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli.sh"
. "$here/../lib/python.sh"
: "${BUILD:?the build folder}"

"$PLIMSOLL" eval 'f32(reshape(arange(12000), (120, 100)) % 17)' -o x.npy --quiet || exit 99

expect_match 'eval: a mean inside a budget' 0 '^planned peak' "$BUILD/example-eval" 'mean(x, 0)' x.npy m.npy 64M
expect 'eval: and it is right' 0 "$PLIMSOLL" eval 'max(abs(m - mean(x, 0)))' x=x.npy m=m.npy --quiet <<'OUT'
0.0
OUT
expect_error 'eval: a budget that is too small' 3 'smallest budget that works' "$BUILD/example-eval" 'mean(x, 0)' x.npy none.npy 1M
expect_match 'tiles: a smoothing of one'"'"'s own' 0 . "$BUILD/example-tiles" x.npy y.npy 64M
expect 'tiles: equals box(x, 3) away from the border' 0 "$PLIMSOLL" eval 'max(abs(y - box(x, 3))[1:-1, 1:-1]) < 1e-5' x=x.npy y=y.npy --quiet <<'OUT'
True
OUT

if [ -n "$PYTHON" ]; then
    "$PYTHON" "$here/../lib/train_check.py" make . || exit 99
    expect_match 'train: a net on files' 0 '^step 50: loss 0' "$BUILD/example-train" net.json x.npy y.npy w1.safetensors 64M
    expect_error 'train: a budget that is too small' 3 'smallest budget that works' "$BUILD/example-train" net.json x.npy y.npy w2.safetensors 1M
    expect_match 'train_batches: learns from batches that it makes' 0 '^step 300: loss 0\.[0-4].*, accuracy 0\.[89]' "$BUILD/example-train_batches" net.json w3.safetensors 64M
    mib=$("$BUILD/example-train_batches" net.json none.safetensors 1M 2>&1 | sed -n 's/.*smallest budget that works is \([0-9]*\).*/\1/p')
    skip_sanitized 'train_batches: inside the planned peak' 'its own memory is not planned' ||
        expect_match 'train_batches: inside the planned peak' 0 '^inside the planned peak' "$BUILD/example-train_batches" net.json w4.safetensors $((mib + 2))M
    expect_error 'train_batches: a model that it cannot fill' 1 'the batch of step 1 was not filled: PLIM_E_SHAPE' "$BUILD/example-train_batches" conv.json w5.safetensors 64M
    expect_match 'infer: the trained net' 0 '^used' "$BUILD/example-infer" net.json w1.safetensors x.npy p.npy 64M
    expect 'infer: finds the classes that it was trained on' 0 "$PLIMSOLL" eval 'mean(argmax(p, 1) == y) > 0.8' p=p.npy y=y.npy --quiet <<'OUT'
True
OUT
else
    skip 'train and infer' 'no python3 with NumPy here (Debian: python3-numpy)'
fi
finish
