"""No process of a test outlives it: what Ray and vLLM leave behind when they are killed ends too."""

import os
import subprocess
import sys

import pytest
from reaper import SIGNALS, reaped
from waiting import until

SLEEPS = "import os, time; print(os.getpid(), flush=True); time.sleep(600)"
LEAVES = """
import os, subprocess, sys
asleep = subprocess.Popen([sys.executable, "-c", sys.argv[1]], stdout=subprocess.PIPE, start_new_session=True)
print(asleep.stdout.readline().decode().strip(), flush=True)
if sys.argv[2] == "leaves":
    sys.exit(3)
asleep.wait()
"""
STARTS = """
import subprocess, sys
subprocess.Popen(sys.argv[1:])
input()
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")


def runs(pid):
    return os.path.exists(f"/proc/{pid}")


def leaves(how):
    """A command that starts a process in another session, and waits for it or leaves it."""
    return reaped([sys.executable, "-c", LEAVES, SLEEPS, how])


def start(*words):
    """The command, and the process in another session of which it prints the number."""
    process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, int(process.stdout.readline())


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_what_the_command_started(number):
    process, asleep = start(*leaves("waits"))
    assert runs(asleep)
    process.send_signal(number)
    assert process.wait() == 128 + number and not runs(asleep)


def test_a_command_that_ends_leaves_nothing_and_its_exit_code_is_given():
    process, asleep = start(*leaves("leaves"))
    assert process.wait() == 3 and not runs(asleep)


def test_nothing_outlives_a_starter_that_is_killed():
    process, asleep = start(sys.executable, "-c", STARTS, *leaves("waits"))
    process.kill()
    process.wait()
    until(lambda: not runs(asleep))
