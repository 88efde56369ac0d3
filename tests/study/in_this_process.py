"""In place of the process of a run: loading torch takes longer than the run."""

import io
import sys
import threading
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
