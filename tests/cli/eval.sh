#!/bin/sh
# plimsoll eval: results, outputs, refusals, JSON.
. "$(dirname "$0")/../lib/cli.sh"
run="$PLIMSOLL eval --quiet"

# verdict NAME: passed when $TMP/why is empty
verdict() {
    if [ -s "$TMP/why" ]; then fail "$1" "$TMP/why"; else pass "$1"; fi
}

# ------------------------------------------------------------------------------------------------ results
# shellcheck disable=SC2086  # $run is two words and an option on purpose
{
expect 'a small result is printed in full' 0 $run 'reshape(arange(6, dtype=f32), (2, 3)) / 2' <<'OUT'
[[0.0, 0.5, 1.0],
 [1.5, 2.0, 2.5]]
OUT
expect 'whole numbers have no exponent' 0 $run 'asarray([10.0, 100.0, 1000000.0, 1e20])' <<'OUT'
[10.0, 100.0, 1000000.0, 1e+20]
OUT
expect 'bools' 0 $run 'arange(3) == 1' <<'OUT'
[False, True, False]
OUT
expect 'NaN, infinity and a half' 0 $run 'f16(asarray([nan, inf, -inf, 0.5]))' <<'OUT'
[nan, inf, -inf, 0.5]
OUT
expect 'a scalar' 0 $run 'mean(arange(5))' <<'OUT'
2.0
OUT
expect 'no elements' 0 $run 'arange(5)[3:3]' <<'OUT'
[]
OUT
expect 'a long result is printed with its ends' 0 $run 'arange(2000)' <<'OUT'
[0, 1, 2, ..., 1997, 1998, 1999]
OUT
expect 'the last statement is the result' 0 $run 'a = arange(3); b = a * a; b - a' <<'OUT'
[0, 0, 2]
OUT

# ------------------------------------------------------------------------------------- inputs and outputs
expect 'an output is a file and not printed' 0 $run 'reshape(arange(6, dtype=f32), (2, 3))' -o s.npy </dev/null
expect 'an .npy as input' 0 $run 's.T + 1' s=s.npy <<'OUT'
[[1.0, 4.0],
 [2.0, 5.0],
 [3.0, 6.0]]
OUT
printf '\377\377\001\002\003\004' >raw.bin
expect 'raw binary with a shape, a dtype and an offset' 0 $run 'r * 2' r=raw.bin --shape 2x2 --dtype u8 --offset 2 <<'OUT'
[[2, 4],
 [6, 8]]
OUT
expect 'raw binary beside an .npy' 0 $run 's[:, :2] + r' s=s.npy r=raw.bin --shape 2x2 --dtype u8 --offset 2 <<'OUT'
[[1.0, 3.0],
 [6.0, 8.0]]
OUT
expect 'several outputs in one pass' 0 $run 'm = mean(s, 0); d = s - m' s=s.npy -o m=m.npy -o d=d.npy </dev/null
expect 'the first of them' 0 $run 'm' m=m.npy <<'OUT'
[1.5, 2.5, 3.5]
OUT
expect 'the second of them' 0 $run 'd' d=d.npy <<'OUT'
[[-1.5, -1.5, -1.5],
 [1.5, 1.5, 1.5]]
OUT
expect 'one value goes to any number of outputs' 0 $run 'a = s[:]; b = f32(s); c = s; d = +s' s=s.npy -o a=a.npy -o b=b.npy -o c=c.npy -o d=d.npy </dev/null
expect 'each of them holds it' 0 $run 'stack([a, b, c, d]) == s' s=s.npy a=a.npy b=b.npy c=c.npy d=d.npy <<'OUT'
[[[True, True, True],
  [True, True, True]],
 [[True, True, True],
  [True, True, True]],
 [[True, True, True],
  [True, True, True]],
 [[True, True, True],
  [True, True, True]]]
OUT
expect 'a value of unknown length and its count, in any order' 0 $run 'u, n = unique(s // 2); v = u; k = n' s=s.npy -o n=n.npy -o u=u.npy \
    -o k=k.npy -o v=v.npy </dev/null
expect 'the length is known now' 0 $run 'concat([u, v, stack([n, k])])' u=u.npy v=v.npy n=n.npy k=k.npy <<'OUT'
[0.0, 1.0, 2.0, 0.0, 1.0, 2.0, 3.0, 3.0]
OUT
expect 'pieces of a list go to numbered files' 0 $run 'b = split(s, 2, -1)' s=s.npy -o 'b=piece-%d.npy' </dev/null
expect 'the last piece is the rest' 0 $run 'b' b=piece-1.npy <<'OUT'
[[2.0],
 [5.0]]
OUT
expect 'a list is printed whole' 0 $run 'b = split(s, 2, -1)' s=s.npy <<'OUT'
b0 = [[0.0, 1.0],
 [3.0, 4.0]]
b1 = [[2.0],
 [5.0]]
OUT
expect 'an output may replace its input' 0 $run 'b * 0' b=piece-0.npy -o piece-0.npy </dev/null
expect 'what replaced it' 0 $run 'b' b=piece-0.npy <<'OUT'
[[0.0, 0.0],
 [0.0, 0.0]]
OUT
if python3 -c 'import zipfile; z = zipfile.ZipFile("a.npz", "w"); z.write("m.npy"); z.write("s.npy"); z.close()' 2>/dev/null; then
    expect 'members of an .npz' 0 $run 's - m' s=a.npz:s m=a.npz:m <<'OUT'
[[-1.5, -1.5, -1.5],
 [1.5, 1.5, 1.5]]
OUT
    expect_error 'a member that is not there' 2 "a\\.npz.*'?q'?" $run 'q' q=a.npz:q
else
    skip 'members of an .npz' 'no python3 here'
fi

# --------------------------------------------------------------------------------------------- refusals
expect_error 'no expression' 2 'needs an expression' $run
expect_error 'an expression that ends too early' 2 'the text ends here' $run 's * 2 +' s=s.npy
tail -n 2 "$TMP/stderr" >caret
printf '  s * 2 +\n         ^\n' >caret-expected
if cmp -s caret caret-expected; then pass 'a caret points at the column'; else fail 'a caret points at the column' caret; fi
expect_error 'an unknown name' 2 "unknown name 'q'" $run 's + q' s=s.npy
expect_error 'an unknown function' 2 'meen' $run 'meen(s)' s=s.npy
expect_error 'shapes that do not fit' 2 '\[2,3\]' $run 's @ s' s=s.npy
expect_error 'an axis that is not there' 2 'axis' $run 'sum(s, 2)' s=s.npy
expect_error 'an input that is not there' 1 "none\\.npy" $run 'a' a=none.npy
expect_error 'an input without a header or a shape' 2 'raw\.bin.*(dtype|shape)' $run 'r' r=raw.bin
expect_error 'a name given twice' 2 "'s' is given twice" $run 's' s=s.npy s=m.npy
expect_error 'an output that is not assigned' 2 "'z' is not assigned" $run 'a = s + 1' s=s.npy -o z=z.npy
expect_error 'a budget that is too small, with the one that works' 3 '\(--memory [0-9]+\)' $run 'mean(s)' s=s.npy --memory 1M
least=$(sed -n 's/.*(--memory \([0-9]*\)).*/\1/p' "$TMP/stderr")
expect 'the budget that the refusal names works' 0 $run 'mean(s)' s=s.npy --memory "${least:-1}" <<'OUT'
2.5
OUT
}
find . -name 'z.npy' -o -name '*.plimsoll-tmp' >"$TMP/why"
verdict 'a refusal leaves no file'

# ------------------------------------------------------------------------------------------ plans and JSON
expect_match '--plan-only with --json plans' 0 '"planned_peak_bytes": [1-9]' "$PLIMSOLL" eval 's + 1' s=s.npy -o plan.npy --plan-only --json
find . -name '*plan.npy*' >"$TMP/why"
verdict '--plan-only does nothing'
"$PLIMSOLL" eval 's + 1' s=s.npy -o j.npy --memory 64M --json >json.txt 2>/dev/null
: >"$TMP/why"
for key in verb budget_bytes fits planned_peak_bytes floor_bytes arena_bytes baseline_bytes moves peak seconds plan_seconds peak_rss_bytes \
    bytes_read bytes_written outputs; do
    grep -q "\"$key\": " json.txt || echo "no key $key" >>"$TMP/why"
done
for fact in '"verb": "eval"' '"budget_bytes": 67108864,' '"fits": true'; do
    grep -q "$fact" json.txt || echo "no $fact" >>"$TMP/why"
done
grep -q '{"name": "", "path": "j.npy", "shape": \[2, 3\], "dtype": "f32"}' json.txt || echo "outputs are not as they should be" >>"$TMP/why"
if command -v python3 >/dev/null; then python3 -m json.tool json.txt >/dev/null 2>>"$TMP/why"; fi
verdict '--json has every key'

# A plan that fits a budget shows that the floor is not above it. The budget is what the process takes by itself, and 10 MiB.
number() { sed -n "s/^ *\"$1\": \\([0-9]*\\),*\$/\\1/p" json.txt; }
"$PLIMSOLL" eval 'zeros((20009, 512), f32)' -o big.npy -q || exit 99
for text in 'f16(x)' 'mean(x, 0)' 'x.T' 'median(x, 0)'; do
    "$PLIMSOLL" eval "$text" x=big.npy -o o.npy --plan-only --json >json.txt 2>"$TMP/why"
    budget=$(($(number baseline_bytes) + (10 << 20)))
    "$PLIMSOLL" eval "$text" x=big.npy -o o.npy --memory $budget --plan-only --json >json.txt 2>"$TMP/why"
    echo "floor $(number floor_bytes), but it fits $budget" >>"$TMP/why"
    if grep -q '"fits": true' json.txt && [ "$(number floor_bytes)" -le $budget ]; then pass "the floor of $text is no more than a budget that fits"
    else fail "the floor of $text is no more than a budget that fits" "$TMP/why"
    fi
done
expect 'a schedule is no result' 0 "$PLIMSOLL" eval 'x.T' x=big.npy -o o.npy --plan-only --schedule -q </dev/null
if grep -q transpose "$TMP/stderr"; then pass '--schedule shows the steps'; else fail '--schedule shows the steps' "$TMP/stderr"; fi
finish
