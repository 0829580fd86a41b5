#!/bin/sh
# plimsoll plan on models that are not what they should be: whatever is wrong with a file, the message names it and the place in it, and the exit
# code is 2; 1 only where the system does not let it be read.
here=$(cd "$(dirname "$0")" && pwd)
. "$here/../lib/cli.sh"

# ------------------------------------------------------------------------------------------ files, byte by byte
# Bytes are kept as text, "\012\003": four characters each, so that there may be zeros among them and lengths are known.
octal() { od -An -v -to1 | tr -d '\n' | sed 's/ /\\/g'; }
# shellcheck disable=SC2059  # the bytes are escapes
save() { printf "$2" >"$1"; } # file, bytes
length() { echo $((${#1} / 4)); }
le() { # number of bytes, value: the low byte first
    le_n=$1 le_v=$2
    while [ "$le_n" -gt 0 ]; do
        printf '\\%03o' $((le_v % 256))
        le_v=$((le_v / 256)) le_n=$((le_n - 1))
    done
}

# ---- protobuf; field numbers are those of onnx.proto
varint() {
    v=$1
    while [ "$v" -ge 128 ]; do
        printf '\\%03o' $((v % 128 + 128))
        v=$((v / 128))
    done
    printf '\\%03o' "$v"
}
int() { varint $(($1 * 8)) && varint "$2"; }                                            # field, value
bytes() { varint $(($1 * 8 + 2)) && varint "$(length "$2")" && printf %s "$2"; }        # field, bytes
text() { bytes "$1" "$(printf %s "$2" | octal)"; }                                      # field, text
words() { for w in $2; do text "$1" "$w"; done; }                                       # field, texts
dims() { for d in $1; do int 1 "$d"; done; }
node() { bytes 1 "$(words 1 "$3"; words 2 "$4"; text 3 "$1"; text 4 "$2"; printf %s "${5:-}")"; } # name, op, inputs, outputs, attributes
zeros() { le "$1" 0; }
tensor() { bytes 5 "$(dims "$2"; int 2 1; text 8 "$1"; printf %s "$3")"; } # name, dimensions, the fields of its data
floats() { tensor "$1" "$2" "$(bytes 9 "$(zeros "$3")")"; }                # name, dimensions, bytes of data
entry() { bytes 13 "$(text 1 "$1"; text 2 "$2")"; }
external() { tensor w '3 2' "$(entry location "$1"; int 14 1)"; }
info() { # field, name, dimensions
    info_shape=$(for d in $3; do bytes 1 "$(int 1 "$d")"; done)
    bytes "$1" "$(text 1 "$2"; bytes 2 "$(bytes 1 "$(int 1 1; bytes 2 "$info_shape")")")"
}
onnx() { save "$1" "$(int 1 8; bytes 8 "$(text 1 ''; int 2 13)"; bytes 7 "$2")"; } # file, graph

# ---- zip: stored members, as pairs of a name and a file
zip() { # archive, name, file, ...
    zip_to=$1 zip_data='' zip_list='' zip_n=0
    shift
    while [ $# -gt 0 ]; do
        zip_name=$(printf %s "$1" | octal) zip_bytes=$(octal <"$2")
        zip_head="$(zeros 6; le 4 0)$(le 4 "$(length "$zip_bytes")")$(le 4 "$(length "$zip_bytes")")$(le 2 "$(length "$zip_name")")" # flags to name
        zip_list="$zip_list$(le 4 33639248; le 2 20; le 2 20; zeros 2)$zip_head$(zeros 12; le 4 "$(length "$zip_data")")$zip_name"
        zip_data="$zip_data$(le 4 67324752; le 2 20; zeros 2)$zip_head$(zeros 2)$zip_name$zip_bytes"
        zip_n=$((zip_n + 1))
        shift 2
    done
    zip_end="$(le 4 101010256; zeros 4; le 2 $zip_n; le 2 $zip_n; le 4 "$(length "$zip_list")"; le 4 "$(length "$zip_data")"; zeros 2)"
    save "$zip_to" "$zip_data$zip_list$zip_end"
}

refused() { # name, pattern, file: code 2, and a message that begins with the file
    expect_error "$1" 2 "^plimsoll: '?$3'?:.*$2" "$PLIMSOLL" plan "$3" --memory 256M
}
# cuts NAME FILE STEP: every beginning of the file is refused by name
cuts() {
    : >"$TMP/why"
    size=$(wc -c <"$2")
    at=$3
    while [ "$at" -lt "$size" ]; do
        head -c "$at" "$2" >cut.model
        "$PLIMSOLL" plan cut.model --memory 256M >/dev/null 2>err.txt
        code=$?
        if [ $code != 2 ] || ! grep -q "^plimsoll: '*cut.model[:']" err.txt; then echo "$at bytes: exit code $code: $(cat err.txt)" >>"$TMP/why"; fi
        at=$((at + $3))
    done
    if [ -s "$TMP/why" ]; then fail "$1" "$TMP/why"; else pass "$1"; fi
}

# ---------------------------------------------------------------------------------------------------------- ONNX
product() { printf %s "$1" && info 11 x '2 3' && node mul MatMul 'x w' y && info 12 y '2 2'; } # the initializer w
onnx good.onnx "$(product "$(floats w '3 2' 24)")"
expect_match 'a good one, written here' 0 '^verdict +fits' "$PLIMSOLL" plan good.onnx --memory 256M
cuts 'ONNX, cut anywhere' good.onnx 9

onnx bad.onnx "$(product "$(floats w '3 2' 20)")"
refused 'an initializer with too few bytes' "tensor 'w': 20 bytes of data at byte [0-9]+; its shape needs 24" bad.onnx
onnx bad.onnx "$(product "$(floats w '3 2' 28)")"
refused 'an initializer with too many bytes' "tensor 'w': 28 bytes of data at byte [0-9]+; its shape needs 24" bad.onnx
onnx bad.onnx "$(product "$(floats w '2305843009213693952 8' 24)")"
refused 'an initializer beyond 64 bits' "node 'mul' \(MatMul\): shape \[2305843009213693952,8\] has more than 2\^63 elements" bad.onnx
onnx bad.onnx "$(product "$(floats w '2 2' 16)")"
refused 'a matrix product that does not fit' "node 'mul' \(MatMul\): .*3.*2" bad.onnx
onnx bad.onnx "$(floats w '4 5 3 3' 720; info 11 x '1 3 8 8'; node first Conv 'x w' y; info 12 y '')"
refused 'a convolution whose weights do not fit' "node 'first' \(Conv\): .*(5|3)" bad.onnx
onnx bad.onnx "$(info 11 x '2 3'; node one Add 'x b' a; node two Neg a b; info 12 b '')"
refused 'a cycle' "a cycle: node '(one|two)' \((Add|Neg)\) needs '[ab]'" bad.onnx
onnx bad.onnx "$(info 11 x '2 3'; node one Add 'x nothing' y; info 12 y '')"
refused 'an input that nobody makes' "node 'one' \(Add\): input 'nothing' is no node's output" bad.onnx
onnx bad.onnx "$(info 11 x '2 3'; node one Neg x a; info 12 y '')"
refused 'an output that nobody makes' "output 'y' is no node's output" bad.onnx
onnx bad.onnx "$(info 11 x '2 3'; node frob Frobnicate x y; info 12 y '')"
refused 'an unknown operator' "node 'frob' \(Frobnicate\): this operator is not supported" bad.onnx

save bad.onnx "$(int 1 8; varint 58; varint 2147483648; zeros 20)" # 58: field 7, bytes
refused 'a graph of 2 GiB in a small file' 'field 7 of a ModelProto, byte 8, says that it has 2147483648 bytes; 20 are there' bad.onnx
onnx bad.onnx "$(product "$(tensor w '3 2' "$(varint 74; varint 2147483648; zeros 24)")")" # 74: field 9, bytes
refused 'data of 2 GiB in a small file' 'field 9 of a TensorProto, byte [0-9]+, says that it has 2147483648 bytes; 24 are there' bad.onnx
save bad.onnx '\010\377\377\377\377\377\377\377\377\377\377\377\001'
refused 'a number that does not end' 'the number at byte 1 of a ModelProto has more than ten bytes' bad.onnx

mkdir model
onnx model/bad.onnx "$(product "$(external weights.bin)")"
refused 'external data that is not there' "tensor 'w': external file 'weights.bin' is not there" model/bad.onnx
zeros 24 >x.octal && save x.bin "$(cat x.octal)"
onnx model/bad.onnx "$(product "$(external ../x.bin)")"
refused 'external data outside of the folder' "tensor 'w': external file '../x.bin' is not inside the model's folder" model/bad.onnx
onnx model/bad.onnx "$(product "$(external "$PWD/x.bin")")"
refused 'external data by an absolute path' "tensor 'w': external file '/.*' is not inside the model's folder" model/bad.onnx
onnx model/bad.onnx "$(product "$(external sub)")"
mkdir model/sub
refused 'external data that is a folder' "tensor 'w': external file 'sub' is not a regular file" model/bad.onnx
onnx model/bad.onnx "$(product "$(external short.bin)")"
head -c 20 x.bin >model/short.bin
refused 'external data that is too short' "tensor 'w': 24 bytes from byte 0 of 'short.bin', which has 20" model/bad.onnx

# --------------------------------------------------------------------------------------------------------- Keras
layer() { printf '{"class_name":"%s","config":{"name":"%s"%s}}' "$1" "$2" "${3:+,$3}"; }
sequential() { printf '{"class_name":"Sequential","config":{"name":"m","layers":[%s]}}' "$1"; }
called() { # class, name, from, more of its config
    printf '{"class_name":"%s","name":"%s","config":{"name":"%s"%s},"inbound_nodes":[[%s]]}' "$1" "$2" "$2" "${4:+,$4}" "$3"
}
functional() { # layers after the input, the output
    printf '{"class_name":"Functional","config":{"name":"m","layers":[{"class_name":"InputLayer","name":"in","config":{"name":"in",'
    printf '"batch_input_shape":[null,8,8,3]},"inbound_nodes":[]},%s],"input_layers":[["in",0,0]],"output_layers":[["%s",0,0]]}}' "$1" "$2"
}
from() { printf '["%s",0,0,{}]' "$1"; }
flat=$(layer InputLayer in '"batch_input_shape":[null,8]')

sequential "$flat,$(layer Dense d '"units":4')" >good.json
expect_match 'a good one of Keras' 0 '^verdict +fits' "$PLIMSOLL" plan good.json --memory 256M
cuts 'Keras JSON, cut anywhere' good.json 13
sequential "$flat,$(layer Conv2D c '"filters":4,"kernel_size":[3,3]')" >bad.json
refused 'a convolution of a flat input' "layer 'c' \(Conv2D\): expects an input of rank 4, not 2" bad.json
functional "$(called Conv2D a "$(from in)" '"filters":4,"kernel_size":[3,3]'),$(called Add s "$(from in),$(from a)")" s >bad.json
refused 'a sum of what does not fit' "layer 's' \(Add\): .* do not broadcast together" bad.json
sequential "$(layer InputLayer in '"batch_input_shape":[null,"eight"]'),$(layer Dense d '"units":4')" >bad.json
refused 'a shape that is none' 'config.layers\[0\].config.batch_input_shape' bad.json
sequential "$flat,$(layer Dense d '"units":-4')" >bad.json
refused 'units below 0' 'config.layers\[1\].config.units' bad.json
sequential "$flat,$(layer Frobnicate f)" >bad.json
refused 'an unknown layer' "layer 'f' \(Frobnicate\): this kind of layer is not supported" bad.json
functional "$(called Dropout a "$(from nobody)" '"rate":0.5')" a >bad.json
refused 'an inbound layer that is not there' "config.layers\[1\].inbound_nodes.*nobody" bad.json
functional "$(called Add a "$(from in),$(from b)"),$(called Dropout b "$(from a)" '"rate":0.5')" b >bad.json
refused 'a cycle of layers' "config.layers\[[12]\]: layer '[ab]' waits for its own output" bad.json

cuts 'an archive, cut anywhere' "$here/../../fuzz/corpus/keras/stored.keras" 41
printf 'no weights' >none
for at in 0 1 60 150; do
    head -c $at good.json >config
    zip bad.keras config.json config model.weights.h5 none
    expect_error "an archive with $at bytes of its config" 2 "^plimsoll: 'bad.keras:config.json': not JSON: line 1" \
        "$PLIMSOLL" plan bad.keras --memory 256M
done
zip bad.keras config.json good.json
refused 'an archive without weights' "no member 'model.weights.h5'" bad.keras
zip bad.keras model.weights.h5 none
refused 'an archive without a config' "no member 'config.json'" bad.keras
zip bad.keras config.json good.json model.weights.h5 none
refused 'an archive whose weights are none' 'HDF5' bad.keras

# --------------------------------------------------------------------------------------------------- no model at all
printf 'Dear Sir or Madam,\n' >letter.txt
refused 'a letter' "neither an ONNX model nor one of Keras .*: it begins with 'Dear Sir or Madam,\?'" letter.txt
printf '\177ELF\002\001\001' >program
refused 'a program' 'neither an ONNX model nor one of Keras' program
: >empty.onnx
refused 'an empty file' 'an empty file is no model' empty.onnx
refused 'a folder' 'not a regular file' model
mkfifo pipe
refused 'a pipe' 'not a regular file' pipe
expect_error 'a file that is not there' 1 "nowhere.onnx.*No such file" "$PLIMSOLL" plan nowhere.onnx --memory 256M
chmod 0 good.onnx
if [ -r good.onnx ]; then
    skip 'a file that may not be read' 'root may read everything'
else
    expect_error 'a file that may not be read' 1 "good.onnx.*Permission denied" "$PLIMSOLL" plan good.onnx --memory 256M
fi
finish
