"""The rows of docs/conformance.md on TRL are what the command gives with the installed TRL. `make test-trl`."""

from importlib.metadata import version

import conformance
import pytest

pytest.importorskip("trl", reason="in the environment of `make test-trl` only")

STORED = conformance.stored()["trainers"]["TRL"]


@pytest.mark.skipif(version("trl") != STORED["version"], reason="the page is of another release")
def test_the_rows_are_what_the_command_gives():
    assert conformance.measured("TRL") == STORED["rows"]


@pytest.mark.skipif(version("trl") != STORED["version"], reason="the page is of another release")
def test_every_optimizer_step_of_the_runs_is_what_the_page_says():
    assert conformance.ran("TRL") == STORED["runs"]
