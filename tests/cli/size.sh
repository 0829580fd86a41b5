#!/bin/sh
# plimsoll size: facts, verdicts, refusals.
. "$(dirname "$0")/../lib/cli.sh"

expect 'a tensor that fits' 0 "$PLIMSOLL" size 3075200x512:f32 --memory 8G <<'OUT'
tensor                elements          bytes      size
3075200x512:f32  1,574,502,400  6,298,009,600  5.87 GiB
fits: 5.87 GiB of the 8.0 GiB that the budget leaves; 2.13 GiB to spare
OUT

expect 'a tensor that just fits' 0 "$PLIMSOLL" size 1x256x1024x1021:f32 --memory 1021M <<'OUT'
tensor                  elements          bytes      size
1x256x1024x1021:f32  267,649,024  1,070,596,096  1021 MiB
fits: 1021 MiB of the 1021 MiB that the budget leaves; 0 B to spare
OUT

expect 'one byte too many' 3 "$PLIMSOLL" size 1x256x1024x1021:f32 --memory 1070596095 <<'OUT'
tensor                  elements          bytes      size
1x256x1024x1021:f32  267,649,024  1,070,596,096  1021 MiB
does not fit: 1021 MiB, but the budget leaves 1021 MiB; 1 B too much
OUT

expect 'several tensors, f32 unless said' 0 "$PLIMSOLL" size 384x192 384x192:f16 384x192:i8 10000,1000:float32 --memory 1G <<'OUT'
tensor                elements       bytes      size
384x192                 73,728     294,912   288 KiB
384x192:f16             73,728     147,456   144 KiB
384x192:i8              73,728      73,728    72 KiB
10000,1000:float32  10,000,000  40,000,000  38.1 MiB
together           38.6 MiB (40,516,096 bytes)
fits: 38.6 MiB of the 1.0 GiB that the budget leaves; 985 MiB to spare
OUT

expect 'one JSON object' 3 "$PLIMSOLL" size 2x3:f64 --memory 47 --json <<'OUT'
{
  "verb": "size",
  "tensors": [
    {"tensor": "2x3:f64", "shape": [2, 3], "dtype": "f64", "elements": 6, "bytes": 48}
  ],
  "bytes": 48,
  "fits": false,
  "decided_by": "budget",
  "available_bytes": 47,
  "short_bytes": 1
}
OUT

expect_match 'against this machine' 0 '^fits: 1\.0 KiB of the .* that .* leaves; .* to spare$' "$PLIMSOLL" size 256
expect_match 'every limit is listed' 0 '^RAM .* yes .*/proc/meminfo$' "$PLIMSOLL" size 256
expect_match 'too large for any machine' 3 '^does not fit: 4\.0 EiB, but .* too much$' "$PLIMSOLL" size 4611686018427387904:i8
limited() { (ulimit -v 1048576 && "$@"); }
skip_sanitized 'RLIMIT_AS decides' 'it needs the address space' ||
    expect_match 'RLIMIT_AS decides' 3 'does not fit: 4\.0 GiB, but RLIMIT_AS leaves' limited "$PLIMSOLL" size 1024x1024x1024

expect_error 'elements overflow' 2 'shape \[9223372036854775807,2\] has more than 2\^63 elements' "$PLIMSOLL" size 9223372036854775807x2
expect_error 'bytes overflow' 2 'has more than 2\^63 bytes' "$PLIMSOLL" size 4611686018427387904:f32
expect_error 'the sum overflows' 2 'together' "$PLIMSOLL" size 4611686018427387904:i8 4611686018427387904:i8 4611686018427387904:i8 4611686018427387904:i8
expect_error 'no shape' 2 'size needs a shape' "$PLIMSOLL" size
expect_error 'a wrong shape' 2 "shape '3x' ends" "$PLIMSOLL" size 3x
expect_error 'a wrong dtype' 2 "unknown dtype 'f31'" "$PLIMSOLL" size 3:f31
expect_error 'a wrong budget' 2 "--memory: size 'lots' is not" "$PLIMSOLL" size 3 --memory lots
expect_error 'a budget of nothing' 2 'above 0' "$PLIMSOLL" size 3 --memory 0
expect_error 'a missing value' 2 '--memory needs a value: SIZE' "$PLIMSOLL" size 3 --memory
expect_error 'an option that is near' 2 'do you mean --memory' "$PLIMSOLL" size 3 --memroy 1G
expect_error 'a flag with a value' 2 'takes no value' "$PLIMSOLL" size 3 --json=yes

finish
