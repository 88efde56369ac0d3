"""Answers written by hand: what is right is accepted, and neither a second guess nor a part of the answer is."""

import tomllib
from pathlib import Path

import pytest

from diver.core.types import Grade

CLASSES = tomllib.loads((Path(__file__).parent / "answers.toml").read_text(encoding="utf-8"))


def test_every_class_has_right_and_wrong_answers_and_none_twice():
    pairs = [tuple(pair) for table in CLASSES.values() for pair in (*table["right"], *table["wrong"])]
    assert len(pairs) == len({*pairs}) >= 200
    assert all(table["right"] and table["wrong"] for table in CLASSES.values())


@pytest.mark.parametrize("name", CLASSES)
def test_answers(name, graded):
    table = CLASSES[name]
    pairs = [*table["right"], *table["wrong"]]
    expected = [True] * len(table["right"]) + [False] * len(table["wrong"])
    grades = graded[table.get("grader", "math")][name]
    assert [
        (pair, str(g)) for pair, g, e in zip(pairs, grades, expected, strict=True) if (g is Grade.CORRECT) != e
    ] == []
    assert not {Grade.TIMEOUT, Grade.ERROR} & {*grades}
