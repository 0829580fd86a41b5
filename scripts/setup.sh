#!/bin/sh
# Makes sure that what the build needs is there. Quiet when nothing is missing.
#   scripts/setup.sh         for make and make check
#   scripts/setup.sh fuzz    for make fuzz, too
#   scripts/setup.sh bench-arrays, bench-conv, bench-train, bench-infer, bench-watch
#                            the peers of make bench-arrays, bench-conv, bench-train and bench-curve, bench-infer, bench-watch, too: nothing else needs them.
#                            ONNX Runtime goes into $BENCH_DIR (default bench-data), not into the system
#   scripts/setup.sh bench   all of them
# As root on Debian or Ubuntu it installs; otherwise it says what to install and fails.
set -eu

# Debian package | how to see that it is there | what it is for
needs() {
    cat <<'TABLE'
gcc                 | tool cc           | the compiler
meson               | tool meson        | the build
ninja-build         | tool ninja        | the build
pkg-config          | tool pkg-config   | finding libraries
zlib1g-dev          | header zlib.h     | compressed .npz members
libjansson-dev      | header jansson.h  | JSON text of Keras models
libhdf5-dev         | hdf5              | weights of Keras models; the library itself is loaded only when such a file is opened
libcmocka-dev       | cmocka cmocka.h   | unit tests
python3-numpy       | numpy             | the oracle of the tests and of the benchmark; never used by the library
TABLE
    [ "${1:-}" != fuzz ] || cat <<'TABLE'
clang               | tool clang        | libFuzzer
TABLE
    case ${1:-} in bench | bench-arrays) cat <<'TABLE' ;; esac
python3-dask        | dask              | what plimsoll eval is compared with
libblis-openmp-dev  | header blis.h     | matrix products of the plain C loop that it is compared with
TABLE
    case ${1:-} in bench | bench-conv) cat <<'TABLE' ;; esac
libdnnl-dev         | header dnnl.h     | what convolutions are compared with (bench-conv)
TABLE
    case ${1:-} in bench | bench-train | bench-watch) cat <<'TABLE' ;; esac
python3-torch       | torch             | what plimsoll train is compared with, and a program to watch
TABLE
    case ${1:-} in bench | bench-watch) cat <<'TABLE' ;; esac
heaptrack           | tool heaptrack    | what plimsoll watch is compared with
TABLE
    case ${1:-} in bench | bench-infer) cat <<'TABLE' ;; esac
nodejs              | tool node         | runs ONNX Runtime, which plimsoll infer is compared with
npm                 | tool npm          | brings ONNX Runtime (onnxruntime-node)
TABLE
}

has_header() { # compiler, headers...
    printf '%s\n' "$2" | "$1" -E -x c - >/dev/null 2>&1
}

present() { # kind, name
    case $1 in
    tool) command -v "$2" >/dev/null 2>&1 ;;
    header) has_header cc "#include <$2>" ;;
    cmocka) pkg-config --exists cmocka 2>/dev/null ;;
    hdf5) pkg-config --exists hdf5-serial 2>/dev/null || pkg-config --exists hdf5 2>/dev/null ;;
    dask) [ -d /usr/lib/python3/dist-packages/dask ] || python3 -c 'import dask.array' >/dev/null 2>&1 ;;
    torch) [ -d /usr/lib/python3/dist-packages/torch ] || python3 -c 'import torch' >/dev/null 2>&1 ;;
    numpy) [ -d /usr/lib/python3/dist-packages/numpy ] || python3 -c 'import numpy' >/dev/null 2>&1 ;;
    esac
}

missing=
lines=
while IFS='|' read -r package how why; do
    package=$(echo $package)
    # shellcheck disable=SC2086  # kind and name are two words on purpose
    if ! present $how; then
        missing="$missing $package"
        lines="$lines  $package:$why
"
    fi
done <<EOF
$(needs "${1:-}")
EOF

# ONNX Runtime is no Debian package. Its scripts would only fetch what a graphics card needs.
bring_onnxruntime() {
    case ${1:-} in bench | bench-infer) ;; *) return 0 ;; esac
    ort=${BENCH_DIR:-bench-data}/ort
    [ ! -d "$ort/node_modules/onnxruntime-node" ] || return 0
    echo "installing: onnxruntime-node into $ort" >&2
    mkdir -p "$ort" && npm install --prefix "$ort" --ignore-scripts --no-save --no-package-lock --no-audit --no-fund onnxruntime-node >/dev/null
}

[ -n "$missing" ] || { bring_onnxruntime "${1:-}"; exit; }

printf 'missing:\n%s' "$lines" >&2
if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null 2>&1; then
    echo "installing:$missing" >&2
    export DEBIAN_FRONTEND=noninteractive
    # shellcheck disable=SC2086
    apt-get install -y -qq --no-install-recommends $missing >/dev/null 2>&1 ||
        { apt-get update -qq && apt-get install -y -qq --no-install-recommends $missing >/dev/null; }
else
    echo "please install them, on Debian or Ubuntu with: sudo apt-get install$missing" >&2
    exit 1
fi
bring_onnxruntime "${1:-}"
