"""Grades of sampled responses by a named grader, and estimates from grades; the model is not needed.

Responses are sampled once and reduced in many ways.

A row of grades also has what the estimates need, so that they never read the responses again: `answer`, by which maj@k
counts votes, and `solution`, which identifies distinct correct solutions.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from diver.core.seeds import digest
from diver.core.statistics import bounds_of, distinct_at_k, interval, maj_at_k, pass_at_k
from diver.core.types import Grade, Problem
from diver.recipe.verification import Verification
from diver.tasks import verify
from diver.tasks.verify import DEFAULT, Grader, get_grader

AUTO = "auto"  # use the verifier that each problem names
SCORED = frozenset({Grade.CORRECT, Grade.WRONG, Grade.NO_ANSWER, Grade.TRUNCATED})
"""Grades that say something about the model; timeout and error do not: such a sample is left out of n."""
CHUNK = 4096  # rows per call: equal answers are graded once, and the text in memory is bounded
MAX_ANSWER = 48  # a longer answer is stored as a digest


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


@dataclass(frozen=True, slots=True)
class Sample:
    """A graded response, its vote, and its solution if it is correct; `count` samples are this response."""

    grade: Grade
    answer: str | None
    solution: str | None
    count: int = 1


def reduce(
    problems: Sequence[Problem],
    samples: Mapping[str, Sequence[Sample]],
    ks: Sequence[int],
    grader: str,
    solutions: bool = False,
) -> dict[str, Any]:
    """Estimates over problems with 95 % intervals, counts of grades, and a row for each problem.

    A problem has n scored samples, of which c are correct. A sample whose grade is timeout or error is left out. A
    problem with n < k has no estimate at that k (`problems` of an estimate says how many have one). maj@k needs single
    samples in order, so it is missing where a response has a count. It is also missing where the grader counts no
    votes, as that of Countdown, which asks for the way to a given number. `exact_solutions` is whether `distinct`
    counts solutions: else it counts how differently correct responses are written. `solutions` adds to each row how
    often each distinct correct solution was sampled, most frequent first.
    """
    scored = {name: [s for s in sampled if s.grade in SCORED] for name, sampled in samples.items()}
    solution_counts: list[list[int]] = []
    for problem in problems:
        found: Counter[str] = Counter()
        for sample in scored[problem.id]:
            if sample.solution is not None:
                found[sample.solution] += sample.count
        solution_counts.append(sorted(found.values(), reverse=True))
    rows: list[dict[str, Any]] = [
        {
            "id": p.id,
            "digest": problem_digest(p),
            "n": sum(s.count for s in scored[p.id]),
            "c": sum(s.count for s in scored[p.id] if s.grade is Grade.CORRECT),
            "distinct": len(counts),
            **({"solutions": counts} if solutions else {}),
        }
        for p, counts in zip(problems, solution_counts, strict=True)
    ]
    n, c = (np.array([row[name] for row in rows]) for name in ("n", "c"))
    values = {f"avg@{max(sum(s.count for s in sampled) for sampled in samples.values())}": pass_at_k(n, c, 1)}
    values |= {f"pass@{k}": pass_at_k(n, c, k) for k in ks}
    if all(grader_for(p, grader).votes for p in problems) and all(s.count == 1 for p in problems for s in scored[p.id]):
        votes = [_votes(scored[problem.id]) for problem in problems]
        values |= {f"maj@{k}": np.array([maj_at_k(v, k) for v in votes]) for k in ks if k > 1}
    for k in ks:
        distinct = [distinct_at_k(row["n"], counts, k) for row, counts in zip(rows, solution_counts, strict=True)]
        values[f"distinct@{k}"] = np.array(distinct)
    grades: Counter[Grade] = Counter()
    for sample in (s for sampled in samples.values() for s in sampled):
        grades[sample.grade] += sample.count
    return {
        "estimates": {
            name: {**interval(v, bounds_of(name))._asdict(), "problems": int(np.sum(~np.isnan(v)))}
            for name, v in values.items()
        },
        "grades": {str(grade): grades[grade] for grade in Grade if grades[grade]},
        "unscored": sum(count for grade, count in grades.items() if grade not in SCORED),
        "exact_solutions": all(grader_for(p, grader).exact_solutions for p in problems),
        "per_problem": rows,
    }


def problem_digest(problem: Problem) -> str:
    """16 digits of the text and the answer, which differ for two problems of one id."""
    return digest(problem.prompt, problem.answer)


def _votes(scored: Sequence[Sample]) -> np.ndarray:
    """Votes as `maj_at_k` takes them: 0 for a correct answer, -1 for none, else a number for each answer."""
    numbers: dict[str, int] = {}
    votes = []
    for sample in scored:
        if sample.grade is Grade.CORRECT:
            votes.append(0)
        elif sample.grade is Grade.WRONG and sample.answer is not None:
            votes.append(numbers.setdefault(sample.answer, len(numbers) + 1))
        else:
            votes.append(-1)
    return np.array(votes, dtype=np.int64)
