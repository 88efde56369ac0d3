"""From a response to a `Grade`: `verify` for groups in training, `grade` for any responses."""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from diver.config.verification import Verification
from diver.extras import require
from diver.io.text import clean
from diver.types import DiverError, Grade, Group, Problem, Reward
from diver.verify import custom
from diver.verify.bounds import PendingComparison, bounded
from diver.verify.equivalence import equivalent
from diver.verify.graders import Grader, get_grader
from diver.verify.thought import in_thought
from diver.verify.workers import Failure, Pool, shared_pool

logger = logging.getLogger(__name__)

DEFAULT = Verification()
Pending = PendingComparison | custom.PendingCall


def verify(groups: Sequence[Group], settings: Verification = DEFAULT, pool: Pool | None = None) -> list[Group]:
    """The groups with `grade` and `reward` (outcome 1 for correct, else 0) of every rollout filled in."""
    rollouts = [(group, rollout) for group in groups for rollout in group.rollouts]
    pairs = [(rollout.response, group.problem) for group, rollout in rollouts]
    truncated = [rollout.truncated for _, rollout in rollouts]
    thinking = [in_thought(group.prompt) for group, _ in rollouts]
    grades = iter(grade(pairs, settings, truncated=truncated, thinking=thinking, pool=pool))
    graded = []
    for group in groups:
        column = [next(grades) for _ in group.rollouts]
        rewards = [Reward(outcome=float(grade is Grade.CORRECT)) for grade in column]
        graded.append(group.with_each(grade=column, reward=rewards))
    return graded


def grade(
    pairs: Sequence[tuple[str, Problem]],
    settings: Verification = DEFAULT,
    *,
    grader: str | None = None,
    truncated: Sequence[bool] | None = None,
    thinking: Sequence[bool] | None = None,
    pool: Pool | None = None,
) -> list[Grade]:
    """The grade of every (response, problem), by the verifier that the problem names, or all by `grader`.

    Equal answers to one problem are graded once. `truncated` says which responses hit their length limit: one that holds
    no explicit answer (`Grader.explicit`) is truncated. `thinking` says which prompts end inside a thought
    (`thought.in_thought`): a response that ends inside one is no answer, or truncated. A timeout and an error are grades
    of their own. Without a `pool` this process's shared ones are used.
    """
    none = [False] * len(pairs)
    cuts, opens = (none if values is None else values for values in (truncated, thinking))
    for name, values in {"truncated": cuts, "thinking": opens}.items():
        if len(values) != len(pairs):
            raise ValueError(f"{len(pairs)} pairs but {len(values)} values of {name}")
    by_all = get_grader(grader) if grader else None
    read: dict[tuple[str, int, bool, bool], Grade | Pending] = {}
    checked: set[int] = set()
    results = []
    for (response, problem), cut, opened in zip(pairs, cuts, opens, strict=True):
        case = response, id(problem), cut, opened
        if case not in read:
            by = by_all or get_grader(problem.verifier, f"problem {problem.id!r}: verifier")
            if id(problem) not in checked:
                by.check(problem)
                checked.add(id(problem))
            read[case] = _read(by, response, problem, cut, opened)
        results.append(read[case])
    decided = _decide([result for result in results if not isinstance(result, Grade)], settings, pool)
    grades = [result if isinstance(result, Grade) else decided[result] for result in results]
    return [Grade.TRUNCATED if g is Grade.NO_ANSWER and cut else g for g, cut in zip(grades, cuts, strict=True)]


def _read(grader: Grader, response: str, problem: Problem, cut: bool, opened: bool) -> Grade | Pending:
    """A response that was cut may have been about to write its answer: it is graded by one that it had finished."""
    try:
        if in_thought(response, opened) or (cut and not grader.holds_answer(response)):
            return Grade.NO_ANSWER
        return grader.grade(response, problem)
    except DiverError:  # not of the response: the problem lacks what its verifier needs, or an extra is not installed
        raise
    except Exception:  # the one boundary in this process behind which other people's text is read
        logger.exception("problem %r: a response could not be graded", problem.id)
        return Grade.ERROR


def _decide(pending: Iterable[Pending], settings: Verification, pool: Pool | None) -> dict[Pending, Grade]:
    """The grades that worker processes give."""
    decided: dict[Pending, Grade] = {}
    comparisons: dict[Pending, PendingComparison] = {}
    calls: dict[str, list[custom.PendingCall]] = {}
    for item in dict.fromkeys(pending):
        if isinstance(item, custom.PendingCall):
            calls.setdefault(item.function.partition(":")[0], []).append(item)
        elif isinstance(comparison := bounded(item, settings.bounds), Grade):
            decided[item] = comparison
        else:
            comparisons[item] = comparison

    def run(function: Callable[..., Any], jobs: Sequence[tuple[Any, ...]], warm: str) -> list[Any]:
        workers = pool or shared_pool(settings.workers, settings.memory_mb, warm)
        return workers.map(function, jobs, settings.timeout_s) if jobs else []

    jobs = [(comparison.answers, comparison.golds) for comparison in comparisons.values()]
    if jobs:
        require("math_verify")
    values = run(equivalent, jobs, "diver.verify.equivalence:warm")
    decided |= {item: _grade_of(value, item) for item, value in zip(comparisons, values, strict=True)}
    for module, items in calls.items():
        decided |= {i: _grade_of(value, i) for i, value in zip(items, run(custom.call, items, module), strict=True)}
    return decided


def _grade_of(value: Any, item: Pending) -> Grade:
    if isinstance(value, Failure):
        text = item.response[-80:] if isinstance(item, custom.PendingCall) else item.answers[0]
        logger.warning("answer %.80r: %s (%s)", text, value.grade, clean(value.reason))
        return value.grade
    if isinstance(value, str):
        return Grade(value)
    return {True: Grade.CORRECT, False: Grade.WRONG, None: Grade.NO_ANSWER}[value]
