"""A grade may only change together with the version of the rules by which it was made.

`rules.toml` has the grades of every grader's present rules, a letter each, on the tables of answers. A stored grade
names these rules (`math@16+...`): were they to mean two things, `diver eval` would mix old grades with new ones.

    python tests/grading/test_rules.py  # writes rules.toml anew, unless a grade has changed and its rules have not
"""

import json
import os
import re
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from diver.core.types import Problem
from diver.grading import get_grader, grade
from diver.grading.settings import Verification

HERE = Path(__file__).parent
TABLE = HERE / "rules.toml"
EQUIVALENCE = Path(os.environ.get("DIVER_DATA", HERE.parents[2] / "shared" / "data")) / "equivalence.jsonl"
PATIENT = Verification(timeout_s=120.0)  # on a busy machine 5 seconds of the clock are few of the processor
LETTER = {"correct": "c", "wrong": "w", "no_answer": "n", "truncated": "t", "timeout": "l", "error": "e"}
ADVICE = (
    "A grade that changes needs new rules: raise `rules` of the grader, write the reason into docs/history.md, "
    "then run `python tests/grading/test_rules.py`."
)
COUNTDOWN = {"numbers": [3, 5, 9], "target": 24}
STEPS = r"\( 5 \times 3 = 15 \) \( 15 + 9 = 24 \)"
MAZE = {"size": 2, "start": "a1", "goal": "b2", "walls": []}
REPEATED = re.compile(r"<<(.+?)\|(\d+)>>")


def repeat(found):
    """`<<TEXT|N>>` of hacks.toml: N times TEXT."""
    return found[1] * int(found[2])


def read(name):
    return tomllib.loads((HERE / name).read_text(encoding="utf-8"))


def cases():
    """Grader -> class of answers -> (problem, response, whether the prompt opened a thought)."""
    found = {name: {} for name in ("math", "gsm8k", "choice", "countdown", "maze")}
    for kind, table in read("answers.toml").items():
        name, opened = table.get("grader", "math"), table.get("thinking", False)
        pairs = [*table["right"], *table["wrong"]]
        for by in {name, "gsm8k"}:
            found[by][kind] = [
                (Problem("p", *asked or ["q"], gold, verifier=by), text, opened) for gold, text, *asked in pairs
            ]
    for kind, table in read("hacks.toml").items():
        pairs = [*table["honest"], *table["hacks"]]
        for by in [table["grader"]] if "grader" in table else ["math", "gsm8k"]:
            found[by][f"hacks: {kind}"] = [
                (Problem("p", *asked or ["q"], gold, verifier=by), REPEATED.sub(repeat, text), False)
                for gold, text, *asked in pairs
            ]
    for kind, table in read("classes.toml").items():
        lines = [line.split(" | ") for part in ("right", "wrong") for line in table[part].strip().splitlines()]
        found["math"][f"box: {kind}"] = [
            (Problem("p", "q", gold), rf"So the answer is $\boxed{{{text}}}$.", False) for gold, text in lines
        ]
    if EQUIVALENCE.exists():
        rows = [json.loads(line) for line in EQUIVALENCE.read_text(encoding="utf-8").splitlines()]
        found["math"]["shared"] = [(Problem("p", "q", row["gold"]), row["prediction"], False) for row in rows]
    lettered = Problem("p", "Which?\nA) iron\nB) gold", "B", verifier="choice")
    texts = [
        "The answer is (B).",
        r"\boxed{A}",
        "**B**",
        "B or A",
        "gold",
        "not (B)",
        "<think>B",
        r"\boxed{7} B",
        "no idea",
    ]
    found["choice"]["statements"] = [(lettered, text, False) for text in texts]
    texts = [
        rf"{STEPS} \boxed{{ 24 }}",
        rf"{STEPS} \boxed{{ 23 }}",
        STEPS,
        r"\boxed{24}",
        rf"<think>{STEPS} \boxed{{24}}",
    ]
    found["countdown"]["steps"] = [(Problem("p", "", "24", "", "countdown", COUNTDOWN), text, False) for text in texts]
    texts = [
        r"\boxed{ a1 b1 b2 }",
        r"\boxed{ a1, a2, b2 } la",
        r"\boxed{ a1 b2 }",
        r"\boxed{ b1 b2 }",
        r"\boxed{}",
        "a1 b1",
    ]
    found["maze"]["ways"] = [(Problem("p", "", "b2", "", "maze", MAZE), text, False) for text in texts]
    return found


CASES = cases()


@cache
def graded():
    """Grader -> class of answers -> their grades; tests take them from the fixture of this name.

    All in one call: two graders that read the same answer compare it once.
    """
    every = [case for classes in CASES.values() for group in classes.values() for case in group]
    found = iter(grade([(text, p) for p, text, _ in every], PATIENT, thinking=[opened for *_, opened in every]))
    return {name: {kind: [next(found) for _ in group] for kind, group in of.items()} for name, of in CASES.items()}


def letters(found):
    """Class of answers -> a letter for each of them."""
    return {kind: "".join(map(LETTER.get, grades)) for kind, grades in found.items()}


def changed(name, known, found):
    """The answers whose grade has changed."""
    return [
        f"{name} grades {text[:80]!r} for {problem.answer[:40]!r} as {new!r}, not as {old!r}"
        for kind, group in CASES[name].items()
        for (problem, text, _), old, new in zip(group, known.get(kind, ""), found[kind], strict=False)
        if old != new
    ]


@pytest.mark.parametrize("name", CASES)
def test_a_grade_changes_with_its_rules_only(name, graded):
    known = read("rules.toml").get(f"{name}@{get_grader(name).rules}")
    assert known is not None, f"rules.toml has no grades of {name}@{get_grader(name).rules}. {ADVICE}"
    found = letters(graded[name])
    assert changed(name, known, found) == [], ADVICE
    lengths = [{kind: len(row) for kind, row in table.items() if kind in found} for table in (known, found)]
    assert lengths[0] == lengths[1], "New answers: run `python tests/grading/test_rules.py`, which adds their grades."


def test_the_figures_of_speed_are_of_the_present_rules():
    """docs/verification.md and docs/scale.md have the range of benchmarks/results/verify.json."""
    root = HERE.parents[1]
    report = json.loads((root / "benchmarks" / "results" / "verify.json").read_text(encoding="utf-8"))
    measured = {result["grader"].partition("+")[0] for result in report["results"]}
    assert measured == {f"{name}@{get_grader(name).rules}" for name in ("math", "gsm8k")}, (
        "The rules are newer than the figures of speed: run `python benchmarks/verify.py`, and write its numbers into "
        "docs/verification.md and docs/scale.md."
    )
    times = [result["times_warm"] for result in report["results"]]
    for name in ("verification.md", "scale.md"):
        page = (root / "docs" / name).read_text(encoding="utf-8")
        assert f"between {min(times):.1f} and {max(times):.1f} times as fast" in " ".join(page.split()), name
    page = " ".join((root / "docs" / "verification.md").read_text(encoding="utf-8").partition("## Speed")[2].split())
    cold = [result["times_cold"] for result in report["results"]]
    distinct = [result["times_warm"] for result in report["results"] if "distinct texts" in result["load"]]
    for some in (cold, distinct):
        assert f"{min(some):.1f} to {max(some):.1f}" in page


def main():
    known = read("rules.toml") if TABLE.exists() else {}
    lines = [
        "# The grades of the present rules, a letter for each answer, by test_rules.py, which also writes this file."
    ]
    for name in CASES:
        key, found = f"{name}@{get_grader(name).rules}", letters(graded()[name])
        if mistakes := changed(name, known.get(key, {}), found):
            sys.exit("\n".join([*mistakes, ADVICE]))
        absent = {kind: row for kind, row in known.get(key, {}).items() if kind not in found}
        lines += ["", f'["{key}"]', *(f'"{kind}" = "{row}"' for kind, row in {**found, **absent}.items())]
    TABLE.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
