"""Small objects only: JSON text made and read, strings joined and split, bytes of 700. Prints seconds for each block of rounds."""
import json
import sys
import time

BLOCKS, ROUNDS = int(sys.argv[1]) if len(sys.argv) > 1 else 60, 12
record = {"name": "watch", "values": list(range(40)), "more": {str(k): k * 0.5 for k in range(20)}}


def churn():
    for _ in range(ROUNDS):
        text = json.dumps(record)
        back = json.loads(text)
        words = " ".join(str(k) for k in range(200)).split()
        parts = [bytes(700) for _ in range(300)]
        assert back["values"][39] == 39 and len(words) == 200 and len(parts) == 300


churn()
times = []
for _ in range(BLOCKS):
    start = time.perf_counter()
    churn()
    times.append(time.perf_counter() - start)
print(*times)
