"""In place of the process of a run: loading torch takes longer than the run."""

import io
import subprocess
import sys
import threading
from contextlib import contextmanager
from types import SimpleNamespace

import pytest

from diver.train.parallel import run_from_input


class InThisProcess:
    returncode = 0

    def __init__(self, *_, **__):
        self.stdin = self

    def write(self, call):
        self.call = call

    def flush(self):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(self.call), read=threading.Event().wait))
            run_from_input()

    def poll(self):
        return self.returncode


@contextmanager
def runs_in_this_process():
    """The runs of `run_all` one after another in this process."""
    with pytest.MonkeyPatch.context() as patch:
        popen = SimpleNamespace(Popen=InThisProcess, PIPE=subprocess.PIPE)
        patch.setattr("diver.train.parallel.subprocess", popen)
        patch.setattr("diver.train.parallel.POLL_SECONDS", 0)
        yield
