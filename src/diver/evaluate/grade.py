"""Grades of stored responses, by a named grader; the model is not needed.

A grade also says what the reductions need, so that they never read the responses again: `answer`, by which maj@k counts
votes, and `solution`, by which distinct correct solutions are told apart.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from diver.io.jsonl import JsonlLog
from diver.io.seeds import digest
from diver.types import Grade, Problem
from diver.verify import Grader, get_grader, solution
from diver.verify import grade as grade_pairs

AUTO = "auto"  # every problem by the verifier that its source names
SCORED = frozenset({Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER, Grade.TRUNCATED})
"""Grades that say something about the model; timeout and error do not."""
ROWS_AT_ONCE = 4096  # equal answers among them are graded once; bounds the text in memory
READABLE = 48  # characters of an answer that are kept as they are


def check_grader(name: str) -> None:
    if name != AUTO:
        get_grader(name, "--grader")


def grader_for(problem: Problem, name: str) -> Grader:
    return get_grader(problem.verifier if name == AUTO else name)


def grade_key(generation_key: str, problem: Problem, grader: str) -> str:
    """What a grade depends on: how the response was made, the known answer, the grader and its version."""
    meta = {name: str(value) for name, value in problem.meta.items()}
    return digest(generation_key, problem.answer, meta, str(grader_for(problem, grader)))


def grade(
    responses: Iterable[Mapping[str, Any]],
    into: JsonlLog,
    problems: Mapping[str, Problem],
    grader: str,
    progress: Callable[[int], Any] = lambda graded: None,
) -> int:
    """Append a grade for each of these rows of generations; returns how many."""
    responses, done = iter(responses), 0
    while rows := list(islice(responses, ROWS_AT_ONCE)):
        pairs = [(row["response"], problems[row["problem"]]) for row in rows]
        cut = [bool(row["truncated"]) for row in rows]
        found = grade_pairs(pairs, grader=None if grader == AUTO else grader, truncated=cut)
        for row, (response, problem), grade in zip(rows, pairs, found, strict=True):
            right, scored = grade is Grade.CORRECT, grade in SCORED
            into.append(
                {
                    "key": grade_key(row["key"], problem, grader),
                    "problem": problem.id,
                    "sample": row["sample"],
                    "grader": str(grader_for(problem, grader)),
                    "grade": grade,
                    "answer": answer(problem, response, grader) if scored else None,
                    "solution": digest(solution(problem, response)) if right else None,
                }
            )
        done += len(rows)
        progress(len(rows))
    return done


def ungraded(
    generations: JsonlLog, keys: Mapping[str, str], samples: int, graded: Mapping[tuple[str, int], Any]
) -> Iterator[dict[str, Any]]:
    """The stored responses that count and have no grade yet; `keys` is the settings key of each problem."""
    for row in generations.rows():
        name, sample = row["problem"], row["sample"]
        if keys.get(name) == row["key"] and sample < samples and (name, sample) not in graded:
            yield row


def votes(problem: Problem, grader: str) -> bool:
    """Whether answers can be voted on: Countdown asks for the way to a number that everybody knows."""
    return grader_for(problem, grader).votes


def answer(problem: Problem, response: str, grader: str) -> str | None:
    """What a response votes for, None for nothing; a digest where it is long."""
    found = grader_for(problem, grader).final_answer(response, problem)
    return found if found is None or len(found) <= READABLE else digest(found)
