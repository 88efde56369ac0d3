"""The rows of docs/conformance.md on ms-swift are what the command gives. `make test-engines`."""

from importlib.metadata import version

import conformance
import pytest

pytest.importorskip("swift", reason="in the environment of `make test-engines` only")

STORED = conformance.stored()["trainers"]["ms-swift"]


@pytest.mark.skipif(version("ms-swift") != STORED["version"], reason="the page is of another release")
def test_the_rows_are_what_the_command_gives():
    assert conformance.measured("ms-swift") == STORED["rows"]
