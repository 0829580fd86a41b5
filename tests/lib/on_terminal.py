"""Runs a command on a terminal of its own, 24 lines of 100 columns, and copies all that appears on it to stdout: on_terminal.py COMMAND..."""
import fcntl
import os
import pty
import struct
import sys
import termios

pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 100, 0, 0))
    os.execvp(sys.argv[1], sys.argv[1:])
while True:
    try:
        data = os.read(terminal, 4096)
    except OSError:  # the last one that had it open is gone
        break
    if not data:
        break
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) & 255)
