"""Classes of answers that graders get wrong, as tables: what is right is accepted, and no look-alike is."""

import tomllib
from pathlib import Path

import pytest
from test_rules import PATIENT

from diver.core.types import Grade, Problem
from diver.grading import grade

CLASSES = tomllib.loads((Path(__file__).parent / "classes.toml").read_text(encoding="utf-8"))


def pairs(table):
    """(reference answer, content of the box)."""
    return [tuple(line.split(" | ")) for line in table.strip().splitlines()]


def test_every_class_has_right_and_wrong_answers_and_none_twice():
    counts = {name: [len(pairs(table[kind])) for kind in ("right", "wrong")] for name, table in CLASSES.items()}
    assert all(right and wrong for right, wrong in counts.values())
    assert sum(right + wrong for right, wrong in counts.values()) >= 280
    every = [pair for table in CLASSES.values() for kind in ("right", "wrong") for pair in pairs(table[kind])]
    assert len(every) == len({*every})


@pytest.mark.parametrize("kind", ["right", "wrong"])
@pytest.mark.parametrize("name", CLASSES)
def test_classes(name, kind, graded):
    table, right = pairs(CLASSES[name][kind]), len(pairs(CLASSES[name]["right"]))
    grades = graded["math"][f"box: {name}"][slice(right) if kind == "right" else slice(right, None)]
    assert [pair for pair, g in zip(table, grades, strict=True) if (g is Grade.CORRECT) != (kind == "right")] == []
    assert not {Grade.TIMEOUT, Grade.ERROR} & {*grades}


@pytest.mark.parametrize(
    ("response", "gold", "expected"),
    [
        (r"So she pays \$1,340 in all.", "1340", "correct"),
        (r"So she pays €1,340 in all.", "1340", "correct"),
        (r"So she pays \$1,340 in all.", "1341", "wrong"),
        ("The answer is pi/3.", r"\frac{\pi}{3}", "correct"),
        ("Answer: 3*sqrt(2)", r"3\sqrt{2}", "correct"),
        ("The answer is π/2.", r"\frac{\pi}{2}", "correct"),
        ("The answer is 2π/3.", r"\frac{2\pi}{3}", "correct"),
        ("The answer is √2.", r"\sqrt{2}", "correct"),
        ("The answer is π/3.", r"\frac{\pi}{2}", "wrong"),
        ("The answer is 2√3.", r"3\sqrt{2}", "wrong"),
        ("The answer is 3 or √2.", r"\sqrt{2}", "wrong"),
        ("The answer isn't π/2.", r"\frac{\pi}{2}", "no_answer"),
        ("The answer is pi/3.", r"\frac{\pi}{4}", "wrong"),
        ("Answer: 3*sqrt(2)", r"2\sqrt{3}", "wrong"),
        ("Answer: 3*sqrt(2) or 5", r"3\sqrt{2}", "wrong"),
    ],
)
def test_prices_and_names_in_free_text(response, gold, expected):
    assert grade([(response, Problem("p", "q", gold))], PATIENT) == [expected]


@pytest.mark.parametrize("content", ["", " ", r"\text{}", r"\quad", r"\ "])
@pytest.mark.parametrize("gold", ["5", "0", r"\emptyset", "f(2)=4"])
def test_an_empty_box_is_no_answer(content, gold):
    assert grade([(rf"\boxed{{{content}}}", Problem("p", "q", gold))], PATIENT)[0] in ("no_answer", "wrong")
