"""Grades of sampled responses, by a named grader; the model is not needed.

A row of grades also has what the estimates need, so that they never read the responses again: `answer`, by which maj@k
counts votes, and `solution`, by which distinct correct solutions are told apart.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from diver import verify
from diver.data.solutions import solution
from diver.io.seeds import digest
from diver.types import DiverError, Grade, Problem
from diver.verify import DEFAULT, GRADERS, VERIFIERS, Grader, Verification, choice, grader_of
from diver.verify.mathematics import after_thought, boxed, last_number, plain

AUTO = "auto"  # every problem by the verifier that it names
SCORED = frozenset({Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER, Grade.TRUNCATED})
"""Grades that say something about the model; timeout and error do not: such a sample is left out of n."""
CHUNK = 4096  # rows graded at once: equal answers among them are graded once; bounds the text in memory
MAX_ANSWER = 48  # characters of an answer that are kept as they are


def check_grader(name: str) -> None:
    if name != AUTO and name not in GRADERS:
        raise DiverError(f"--grader: unknown {name!r}; choose one of {', '.join([AUTO, *GRADERS])}")


def grader_for(problem: Problem, name: str) -> Grader:
    return grader_of(VERIFIERS[problem.verifier] if name == AUTO else name)


def grade_keys(problems: Iterable[Problem], keys: Mapping[str, str], grader: str) -> dict[str, str]:
    """What a grade depends on, by problem: how the response was sampled, the known answer, the grader and its version."""
    return {
        p.id: digest(keys[p.id], p.answer, {k: str(v) for k, v in p.meta.items()}, str(grader_for(p, grader)))
        for p in problems
    }


def grade_rows(
    responses: Iterable[Mapping[str, Any]],
    problems: Mapping[str, Problem],
    keys: Mapping[str, str],
    grader: str,
    verification: Verification = DEFAULT,
) -> Iterator[dict[str, Any]]:
    """A row of grades for each row of generations; `keys` are those of `grade_keys`."""
    responses = iter(responses)
    while rows := list(islice(responses, CHUNK)):
        pairs = [(row["response"], problems[row["problem"]]) for row in rows]
        cut = [bool(row["truncated"]) for row in rows]
        if grader == AUTO:
            grades = verify.grades(pairs, verification, truncated=cut)
        else:
            grades = verify.grade(pairs, grader, verification, cut)
        for row, (response, problem), grade in zip(rows, pairs, grades, strict=True):
            yield {
                "key": keys[problem.id],
                "problem": problem.id,
                "sample": row["sample"],
                "grader": str(grader_for(problem, grader)),
                "grade": grade,
                "answer": answer(problem, response, grader) if grade in SCORED else None,
                "solution": digest(solution(problem, response)) if grade is Grade.CORRECT else None,
                **({"count": row["count"]} if "count" in row else {}),
            }


def has_votes(problem: Problem, grader: str) -> bool:
    """Whether answers can be voted on: Countdown asks for the way to a number that is given."""
    return grader_for(problem, grader).name != "countdown"


def answer(problem: Problem, response: str, grader: str) -> str | None:
    """What a response votes for, None for nothing: its last box, else its last number; the label of its choice."""
    if not has_votes(problem, grader):
        return None
    if grader_for(problem, grader).name == "choice":
        return _label(problem, response)
    text = after_thought(response)
    found = boxed(text) or last_number(text)
    short = plain(found[0]) if found else ""
    return (short if len(short) <= MAX_ANSWER else digest(short)) or None


def _label(problem: Problem, response: str) -> str | None:
    """The label of the option for which the grade would be correct."""
    by_label = {label: dataclasses.replace(problem, answer=label) for label in choice.options_of(problem)}
    return next((label for label, p in by_label.items() if choice.judge(response, p) is Grade.CORRECT), None)
