"""The rows of docs/conformance.md on verl are what the command gives with the installed verl. `make test-verl`."""

from importlib.metadata import version

import conformance
import pytest

pytest.importorskip("verl", reason="in the environment of `make test-verl` only")

STORED = conformance.stored()["trainers"]["verl"]


@pytest.mark.skipif(version("verl") != STORED["version"], reason="the page is of another release")
def test_the_rows_are_what_the_command_gives():
    assert conformance.measured("verl") == STORED["rows"]
