"""Grades of sampled responses, by a named grader; the model is not needed.

A row of grades also has what the estimates need, so that they never read the responses again: `answer`, by which maj@k
counts votes, and `solution`, which identifies distinct correct solutions.
"""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from diver.core.seeds import digest
from diver.core.types import Grade, Problem
from diver.recipe.verification import Verification
from diver.tasks import verify
from diver.tasks.verify import DEFAULT, Grader, get_grader

AUTO = "auto"  # use the verifier that each problem names
SCORED = frozenset({Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER, Grade.TRUNCATED})
"""Grades that say something about the model; timeout and error do not: such a sample is left out of n."""
CHUNK = 4096  # rows graded at once: equal answers among them are graded once; bounds the text in memory
MAX_ANSWER = 48  # characters of an answer that are kept as they are


def grader_for(problem: Problem, name: str) -> Grader:
    return get_grader(problem.verifier if name == AUTO else name)


def grade_rows(
    responses: Iterable[Mapping[str, Any]],
    problems: Mapping[str, Problem],
    keys: Mapping[str, str],
    grader: str,
    verification: Verification = DEFAULT,
) -> Iterator[dict[str, Any]]:
    """A row of grades for each row of generations; `keys`, by problem: all that a grade depends on."""
    responses = iter(responses)
    while rows := list(islice(responses, CHUNK)):
        pairs = [(row["response"], problems[row["problem"]]) for row in rows]
        truncated, thinking = ([bool(row.get(name)) for row in rows] for name in ("truncated", "thinking"))
        named = None if grader == AUTO else grader
        found = verify.verdicts(pairs, verification, grader=named, truncated=truncated, thinking=thinking)
        for row, (response, problem), verdict in zip(rows, pairs, found, strict=True):
            by, grade = grader_for(problem, grader), Grade.ERROR if row.get("error") else verdict.grade
            solved = response[: verdict.answer_end]  # formulas after the answer are no part of the solution
            yield {
                "key": keys[problem.id],
                "problem": problem.id,
                "sample": row["sample"],
                "grader": str(by),
                "grade": grade,
                "answer": answer(problem, response, grader) if grade in SCORED else None,
                "solution": digest(by.solution(solved, problem)) if grade is Grade.CORRECT else None,
                **({"count": row["count"]} if "count" in row else {}),
            }


def answer(problem: Problem, response: str, grader: str) -> str | None:
    """What a response votes for, None for nothing; a digest where it is long."""
    final = grader_for(problem, grader).final_answer(response, problem)
    return final if final is None or len(final) <= MAX_ANSWER else digest(final)
