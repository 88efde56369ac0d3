import subprocess
from types import SimpleNamespace

import pytest
from in_this_process import InThisProcess


@pytest.fixture
def in_this_process(monkeypatch):
    """The runs one after another in this process."""
    monkeypatch.setattr("diver.train.parallel.subprocess", SimpleNamespace(Popen=InThisProcess, PIPE=subprocess.PIPE))
    monkeypatch.setattr("diver.train.parallel.POLL_SECONDS", 0)
