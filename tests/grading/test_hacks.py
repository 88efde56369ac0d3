"""Answers that a policy under reward would find (hacks.toml) are refused, and honest look-alikes are correct."""

import pytest
from test_rules import read

from diver.core.types import Grade

HACKS = read("hacks.toml")
KINDS = [(kind, by) for kind, of in HACKS.items() for by in ([of["grader"]] if "grader" in of else ["math", "gsm8k"])]


@pytest.mark.parametrize(("kind", "grader"), KINDS)
def test_every_hack_is_refused_and_every_honest_look_alike_is_correct(kind, grader, graded):
    honest, hacks = HACKS[kind]["honest"], HACKS[kind]["hacks"]
    grades = graded[grader][f"hacks: {kind}"]
    refused = (Grade.WRONG, Grade.NO_ANSWER)
    assert [(*row, g) for row, g in zip(honest, grades, strict=False) if g is not Grade.CORRECT] == []
    assert [(*row, g) for row, g in zip(hacks, grades[len(honest) :], strict=True) if g not in refused] == []


def test_there_are_enough_hacks_and_as_many_look_alikes_and_none_twice():
    assert sum(len(table["hacks"]) for table in HACKS.values()) >= 40
    assert all(len(table["hacks"]) == len(table["honest"]) for table in HACKS.values())
    pairs = [tuple(pair) for table in HACKS.values() for pair in (*table["honest"], *table["hacks"])]
    assert len(pairs) == len({*pairs})
