"""A plimsoll that goes wrong: for the test of the tests. PLIMSOLL_SPOILT is the real one, PLIMSOLL_SPOIL says what is
done to what it gives.

    losses, validation, weights, outputs    numbers are changed in small budgets
    peak                                    more memory is said to have been used
    floor, refused                          the printed floor is refused; so is a budget above it
    floors                                  plan prints another floor
    verifier                                a plan is rejected
    resume                                  a resumed training ends elsewhere
    litter                                  a file is left behind
    crash                                   it ends by a signal
"""
import json
import os
import signal
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
real, how, argv = os.environ["PLIMSOLL_SPOILT"], os.environ["PLIMSOLL_SPOIL"], sys.argv[1:]
memory = argv[argv.index("--memory") + 1] if "--memory" in argv else ""
small = memory.isdigit() and int(memory) < 1 << 30
running = small and "--plan-only" not in argv
ran = subprocess.run([real] + argv, capture_output=True, text=True)
out, err, code = ran.stdout, ran.stderr, ran.returncode
facts = json.loads(out) if out.startswith("{") else {}


def is_floor():
    """Whether this is the first budget that is run: later ones are above the floor."""
    note = os.environ["PLIMSOLL_SPOIL_FLOOR"]
    if not os.path.exists(note):
        with open(note, "w") as f:
            f.write(memory)
    with open(note) as f:
        return f.read() == memory


def change_weights():
    import files

    path = argv[argv.index("-o") + 1]
    w = {k: v.copy() for k, v in files.read_safetensors(path).items()}
    key = sorted(w)[0]
    w[key].reshape(-1)[0] += 1e-3 * (1 + abs(w[key]).max())
    files.write_safetensors(path, w)


if code == 0 and running:
    if how == "losses" and "loss" in facts:
        facts["loss"][-1] *= 1 + 1e-3
    elif how == "validation" and "validation" in facts:
        facts["validation"][-1]["loss"] *= 1 + 1e-3
    elif how == "weights" and "train" in argv:
        change_weights()
    elif how == "outputs" and "infer" in argv:
        path = argv[argv.index("-o") + 1].split("=")[-1]
        import numpy as np

        y = np.load(path)
        y.reshape(-1)[-1] += 1 + abs(y).max()
        np.save(path, y)
    elif how in ("floor", "refused", "verifier", "crash") and "train" in argv:
        at_floor = is_floor()
        if how == "crash":
            os.kill(os.getpid(), signal.SIGSEGV)
        if how == "verifier":
            code, err = 1, "plimsoll: I9: pass 4 reads the state 'w' that an earlier one overwrote\n"
        elif (how == "floor") == at_floor:
            code, err, out = 3, "plimsoll: does not fit\n", ""
    elif how == "litter" and os.path.isdir("spill"):
        open("spill/.left.plimsoll-tmp", "w").close()
if how == "peak" and "peak_rss_bytes" in facts:
    facts["peak_rss_bytes"] = facts["planned_peak_bytes"] + 1
if how == "floors" and "plan" in argv and "floor_bytes" in facts:
    facts["floor_bytes"] = int(facts["floor_bytes"] * 1.1)
    err = ""
if how == "resume" and "--resume" in argv and code == 0:
    change_weights()
sys.stdout.write(json.dumps(facts) if facts and out else out)
sys.stderr.write(err)
sys.exit(code)
