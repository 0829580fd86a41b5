#!/bin/sh
# plimsoll pack: tables in and out, what is refused, and known instances where they are at hand.
. "$(dirname "$0")/../lib/cli.sh"

#   time    0  1  2  3        a and b overlap, b and c overlap, a and c lie above b, in the same place
cat >three.csv <<'CSV'
id,lower,upper,size
a,0,2,8
b,1,3,4
c,2,4,8
CSV
expect 'offsets for three buffers' 0 "$PLIMSOLL" pack three.csv --quiet <<'OUT'
id,lower,upper,size,offset
a,0,2,8,4
b,1,3,4,0
c,2,4,8,4
OUT
expect_match 'height, bound and gap as JSON' 0 '"height_bytes": 12' "$PLIMSOLL" pack three.csv --json
expect_match 'the answer is proven' 0 '"proven": true' "$PLIMSOLL" pack three.csv --json
expect 'an output file, and nothing on stdout' 0 "$PLIMSOLL" pack three.csv -o placed.csv --quiet </dev/null
expect 'the output packs again: its offsets are replaced' 0 "$PLIMSOLL" pack placed.csv --quiet <<'OUT'
id,lower,upper,size,offset
a,0,2,8,4
b,1,3,4,0
c,2,4,8,4
OUT
expect_match 'a capacity that is too small' 3 '"fits": false' "$PLIMSOLL" pack three.csv --capacity 11 --json
expect_match 'a capacity that will do' 0 '"fits": true' "$PLIMSOLL" pack three.csv --capacity 12 --json

#   the older names, whose "end" is inclusive: the two are alive together at 2
printf 'buffer,start,end,size\na,0,2,8\nb,2,3,4\n' >old.csv
expect_match 'an end is the last moment alive' 0 '"height_bytes": 12' "$PLIMSOLL" pack old.csv --json

refuse() { # name, pattern, text
    printf "$3" >bad.csv
    expect_error "$1" 2 "$2" "$PLIMSOLL" pack bad.csv
}
refuse 'no such column' "line 1: there is no column 'size'" 'id,lower,upper\n1,0,1\n'
refuse 'a field is missing' 'line 3: 3 fields where the header names 4' 'id,lower,upper,size\n1,0,1,1\n2,0,1\n'
refuse 'not a number' "line 2, column size: 'big' is not a whole number" 'id,lower,upper,size\n1,0,1,big\n'
refuse 'beyond 64 bits' 'beyond 64 bits' 'id,lower,upper,size\n1,0,1,99999999999999999999\n'
refuse 'an empty lifetime' 'line 2: lower must be below upper' 'id,lower,upper,size\n1,5,5,1\n'
refuse 'a negative size' 'line 2: the size is negative' 'id,lower,upper,size\n1,0,1,-4\n'
refuse 'one id twice' "line 3: id '7' is there twice, first on line 2" 'id,lower,upper,size\n7,0,1,4\n7,1,2,4\n'
refuse 'lifetimes with gaps' 'line 2: column gaps' 'id,lower,upper,size,gaps\n1,0,9,4,2-3\n'
refuse 'an alignment that nobody keeps' 'line 2: column alignment' 'id,lower,upper,size,alignment\n1,0,9,4,8\n'
refuse 'an empty file' 'is empty' ''
expect_error 'no such file' 1 'No such file' "$PLIMSOLL" pack nowhere.csv
expect_error 'an output that cannot be written' 1 'nowhere/out.csv' "$PLIMSOLL" pack three.csv -o nowhere/out.csv --quiet

# Instances that others published, where somebody put them beside the project.
cases=$(dirname "$0")/../../../shared/cases/packing
known() { # file, height at most: the search ends as soon as it is reached
    if [ ! -f "$cases/$1" ]; then
        skip "$1" 'the instance is not here'
        return
    fi
    height=$("$PLIMSOLL" pack "$cases/$1" --json --capacity "$2" --seconds "$(patience 120)" | sed -n 's/.*"height_bytes": \([0-9]*\).*/\1/p')
    echo "height $height, expected at most $2" >"$TMP/why"
    if [ "${height:-$(($2 + 1))}" -le "$2" ]; then pass "$1 in $2"; else fail "$1 in $2" "$TMP/why"; fi
}
for f in A B E F; do known "$f.1048576.csv" 1048576; done
known C.1048576.csv 1039360
known D.1048576.csv 1040384
known G_1.csv 3030937746
known resnet50.csv 1516988028
finish
