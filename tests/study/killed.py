"""A run of a study that is killed and made again."""

import pytest

from diver.sample.hf import sample_groups
from diver_paper.records import Records

CHANGES = ("finished", "cpu_seconds", "command")
"""What the record of the same run says anew."""


class Killed(BaseException):
    pass


def check_killed(make, monkeypatch):
    """Killed in its second step, then before its record is added, a run has the record of one that was not.

    `make(name)` makes the run in a folder of that name, and returns its record.
    """
    samplings = []

    def killed(*_, **__):
        raise Killed

    def until_second(*given, **options):
        samplings.append(1)
        return sample_groups(*given, **options) if len(samplings) == 1 else killed()

    def record(name):
        return {key: value for key, value in make(name).items() if key not in CHANGES}

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr("diver.train.trainer.sample_groups", until_second)
        make("killed")
    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(Records, "add", killed)
        make("killed")
    assert record("killed") == record("at once")
