#!/bin/sh
# plimsoll watch: what a report has to say when a Python program runs out of its budget, and when memory is there but not used.
. "$(dirname "$0")/../lib/cli.sh"
. "$(cd "$OLDPWD" && cd "$(dirname "$0")/../lib" && pwd)/watch.sh"
watch_needs plain python

# One array alone is too big. What the machine itself would have said depends on its memory.
watched --memory 4G -- "$PYTHON" "$watch_programs/rand.py"
facts <<'FACTS'
rand: the exit code is the script's own | status == 7
rand: the script's own except ran, with NumPy's ordinary message | out.startswith("caught by the script itself: Unable to allocate 11.7 GiB for an array with shape (3075200, 512)")
rand: the budget refused, and the request alone is too big | (bad.event, bad.cause) == ("refused", "request")
rand: the verdict compares the request with the budget | err.startswith("plimsoll: ") and "2.9 times the budget" in bad.verdict and bad.verdict in said
rand: bytes, to the last one | bad.asked.bytes == 3075200 * 512 * 8 and "12,596,019,200" in said
rand: asked for by malloc | bad.asked.call == "malloc"
rand: the line | at(bad.asked.site, "rand.py", "x = np.random.rand")
rand: who called it | chain(bad.asked.site) in ("load main <module>", "load main")
rand: the chain in the text, with the source | re.search(r"rand\.py:%d +load\(\) +x = np\.random\.rand\(3075200, 512\)\.astype\(np\.float32\)\n +rand\.py:%d +main\(\) +data = load\(\)" % (line("rand.py", "x = np"), line("rand.py", "data = load()")), err)
rand: the budget is the limit that does not let it pass | limit("budget").limit == 4 * GIB and limit("budget").refuses
rand: said to be the budget | re.search(r"^REFUSED +by your budget", err, re.M) and "4.0 GiB" in said
rand: the machine would have let it pass, where it has the memory | any(x.refuses for x in bad.limits if x.name != "budget") or "would have let it pass" in said
rand: why: rand makes float64, and astype a copy beside it | "float64" in bad.why[0] + bad.why[-1] and "float32" in " ".join(bad.why)
rand: why: both together | re.search(r"17\.60? GiB", " ".join(bad.why)) and re.search(r"[Bb]oth", " ".join(bad.why))
rand: fix: float32 from the start, with its peak | near(fix("dtype=np.float32").peak_bytes, 3075200 * 512 * 4, 0.05) and fix("dtype=np.float32").computed
rand: fix: that is still over the budget | not fix("dtype=np.float32").fits and "still over the budget" in said
rand: some fix fits | any(x.computed and x.fits and x.peak_bytes <= 4 * GIB for x in bad.fixes)
rand: fix: the budget that would do, for both | "17.7 GiB lets this line run unchanged" in fix("budget").text
FACTS

# A list grows; the line that gets no more is innocent.
watched --memory 1G -- "$PYTHON" "$watch_programs/leak.py"
facts <<'FACTS'
leak: the script saw an ordinary MemoryError | status == 1 and out.startswith("arrays ")
leak: the verdict: not the line that failed | "the line that failed is not the cause" in bad.verdict and bad.verdict in said
leak: steady growth is the cause | (bad.event, bad.cause) == ("refused", "growth")
leak: the request that failed | bad.asked.bytes == 8000000 and at(bad.asked.site, "leak.py", "b = a @ a")
leak: the line that holds the memory comes first | at(bad.held[0], "leak.py", "a = np.random.rand(1000, 1000)")
leak: all its blocks are held, to the byte | (holder("leak.py", "a = np.random").blocks, holder("leak.py", "a = np.random").bytes) == (number("arrays (.*)"), 8000000 * number("arrays (.*)"))
leak: none was ever freed | holder("leak.py", "a = np.random").frees == 0
leak: they are in memory | near(holder("leak.py", "a = np.random").resident_bytes, holder("leak.py", "a = np.random").bytes, 0.02)
leak: the variable | (bad.held[0].name.name, bad.held[0].name.type, bad.held[0].name.where) == ("history", "list", "module globals")
leak: its length, dtype and shape | (bad.held[0].name.length, bad.held[0].name.element) == (number("arrays (.*)"), "float64[1000,1000]")
leak: what hangs on it | bad.held[0].name.bytes == 8000000 * number("arrays (.*)")
leak: the variable in the text | "kept alive by `history` (list" in said and "float64[1000,1000]" in said
leak: why: growth by step | "steady" in " ".join(bad.why) and "7.63 MiB" in " ".join(bad.why)
leak: fix: bounding it, with its peak | fix("history").computed and fix("history").fits and fix("history").peak_bytes < 256 * MIB
leak: the share of memory that is explained | re.search(r"\d+ ?%", bad.coverage)
FACTS

# Nobody touches the zeros, so nobody pays for them.
watched --memory 4G -- "$PYTHON" "$watch_programs/zeros.py"
facts <<'FACTS'
zeros: only the request that is too big was refused | (status, out, len([r for r in reports if r.event != "ended"])) == (0, "caught\n", 1) and bad.asked.bytes == 8 * GIB
zeros: requested is not resident | holder("zeros.py", "np.zeros(").bytes == 2 * GIB and holder("zeros.py", "np.zeros(").resident_bytes < 16 * MIB
zeros: what is touched is | near(holder("zeros.py", "np.ones(").resident_bytes, 64 * MIB, 0.02)
zeros: holders are ordered by what is resident | at(bad.held[0], "zeros.py", "np.ones(")
zeros: their names | (holder("zeros.py", "np.zeros(").name.name, holder("zeros.py", "np.ones(").name.name) == ("zeros", "ones")
zeros: both numbers in the text | re.search(r" of 2\.0+ GiB requested", said)
zeros: the peak is the kernel's | last.event == "ended" and 64 * MIB < last.peak_bytes < 512 * MIB
FACTS

# What happens at a breach.
watched --memory 400M --on-breach report -- "$PYTHON" "$watch_programs/zeros.py"
facts <<'FACTS'
report: said, and let pass | status == 0 and out == "" and bad.asked.bytes == 2 * GIB
report: said what it would have been | bad.event == "refused" and "budget" in said
FACTS
watched --memory 400M --on-breach stop -- "$PYTHON" "$watch_programs/zeros.py"
facts <<'FACTS'
stop: the program is ended, and the exit code says that it was the budget | (status, out, whole.exit.stopped) == (3, "", True)
stop: after a report | bad.asked.bytes == 2 * GIB and "budget" in said
FACTS

# Nothing happened: one line at the end, and none of it on stdout.
watched -- "$PYTHON" -c 'import numpy as np; a = np.ones((100, 1 << 20), np.uint8); print(a.sum())'
facts <<'FACTS'
quiet: stdout is the program's alone | (status, out) == (0, "104857600\n")
quiet: one line | len(err.splitlines()) == 1 and err.startswith("plimsoll: ")
quiet: with the peak | 100 * MIB < last.peak_bytes < 400 * MIB and re.search(r"peak \d", err)
quiet: one report | [r.event for r in reports] == ["ended"]
FACTS
watched --memory 150M -- "$PYTHON" -c 'import numpy as np; a = np.ones((100, 1 << 20), np.uint8); print(a.sum())'
facts <<'FACTS'
near miss: the share of the budget | (status, out) == (0, "104857600\n") and re.search(r"peak .* of 150(\.0)? MiB \(\d+% of the budget\)", err)
FACTS

finish
