# shellcheck shell=sh
# Sourced by tests and benchmarks of models. Sets $MODELS to the folder with the models, and `model_table` prints them: a file, a batch.
MODELS=${MODELS:-$(cd "$here/../tests/models" && pwd)}

# $1: a folder for models that are made, not kept (they need a python3); those are left out, with a word on stderr, where there is none
model_table() {
    echo "$MODELS/small.json 32"
    echo "$MODELS/wide.json 256"
    echo "$MODELS/deep.json 32"
    echo "$MODELS/slim.json 32"
    echo "$MODELS/resnet50.json 16"
    echo "$MODELS/unet.json 1"
    if command -v python3 >/dev/null && python3 "$MODELS/make_gpt.py" "$1"; then echo "$1/gpt.onnx 8"; else echo "SKIPPED: gpt (no python3 here)" >&2; fi
}
