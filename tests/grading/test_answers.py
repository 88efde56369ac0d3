"""Answers written by hand: what is right is accepted, and neither a second guess nor a part of the answer is."""

import tomllib
from pathlib import Path

import pytest
from test_rules import graded

from diver.core.types import Grade

CLASSES = tomllib.loads((Path(__file__).parent / "answers.toml").read_text(encoding="utf-8"))


def test_as_many_right_as_wrong_and_none_twice():
    pairs = [tuple(pair) for table in CLASSES.values() for pair in (*table["right"], *table["wrong"])]
    assert len(pairs) == len({*pairs}) >= 200
    assert all(len(table["right"]) == len(table["wrong"]) for table in CLASSES.values())


@pytest.mark.parametrize("name", CLASSES)
def test_answers(name):
    table = CLASSES[name]
    pairs = [*table["right"], *table["wrong"]]
    expected = [True] * len(table["right"]) + [False] * len(table["wrong"])
    grades = graded()[table.get("grader", "math")][name]
    assert [
        (pair, str(g)) for pair, g, e in zip(pairs, grades, expected, strict=True) if (g is Grade.CORRECT) != e
    ] == []
    assert not {Grade.TIMEOUT, Grade.ERROR} & {*grades}
