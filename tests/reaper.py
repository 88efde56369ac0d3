"""Runs a command and ends every process that came from it, in whatever session: python tests/reaper.py WORDS...

Ray and vLLM start processes of their own, which outlive a command that is killed. They become children of this process
when their parents end (Linux: PR_SET_CHILD_SUBREAPER). It ends them with the command, at SIGTERM, SIGINT or SIGHUP, and
when the process that started it ends (PR_SET_PDEATHSIG).
"""

import ctypes
import os
import signal
import subprocess
import sys

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def reaped(words: list[str]) -> list[str]:
    """The command under this program."""
    return [sys.executable, __file__, *words]


def children() -> list[int]:
    """Direct children of this process, of all its threads."""
    found = []
    for task in os.listdir("/proc/self/task"):
        with open(f"/proc/self/task/{task}/children", encoding="ascii") as listed:
            found += map(int, listed.read().split())
    return found


def end_all() -> None:
    """Kill the children until none is left: those of a killed child are children of this process then."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    while left := children():
        for child in left:
            os.kill(child, signal.SIGKILL)
        for child in left:
            os.waitpid(child, 0)


def main(words: list[str]) -> int:
    """The exit code of the command, or that of the signal at which it was ended."""
    prctl = ctypes.CDLL(None, use_errno=True).prctl
    prctl(PR_SET_CHILD_SUBREAPER, 1)
    prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    for number in SIGNALS:
        signal.signal(number, lambda number, _: sys.exit(128 + number))
    try:
        return subprocess.call(words)
    finally:
        end_all()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
