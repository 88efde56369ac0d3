"""The grades of the tables of answers, which several tests of this folder read."""

import fcntl
import json
import os

import pytest
import test_rules

from diver.core.types import Grade


@pytest.fixture(scope="session")
def graded(tmp_path_factory):
    """Grader -> class of answers -> their grades.

    A parallel run has several processes: the first grades the answers, and the others read its file.
    """
    if "PYTEST_XDIST_WORKER" not in os.environ:
        return test_rules.graded()
    with (tmp_path_factory.getbasetemp().parent / "graded.json").open("a+", encoding="utf-8") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        file.seek(0)
        if not (stored := file.read()):
            stored = json.dumps(test_rules.graded())
            file.write(stored)
    table = json.loads(stored)
    return {name: {kind: [*map(Grade, found)] for kind, found in of.items()} for name, of in table.items()}
