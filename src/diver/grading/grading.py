"""From a response to a `Grade`: the graders by name; `verify` and `with_keys` for groups in training, `verdicts` and
`grade` for any response.

`Problem.verifier` and `--grader` name one of `GRADERS`, or a custom function "module:name". Several graders may grade
the same responses. Each grade is stored with `grader.version`, so that grades made by other rules are never mistaken
for it. A new grader is a subclass of `Grader` in a file of its own, and a line of `GRADERS`. A task adds its grader in
`diver/__init__.py`.
"""

import logging
from collections import ChainMap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple

from diver.core.endings import until_end_mark
from diver.core.environment import Environment
from diver.core.extensions import GRADERS as ADDED
from diver.core.extras import require
from diver.core.seeds import digest
from diver.core.settings import choose, import_object
from diver.core.tables import clean
from diver.core.types import DiverError, Grade, Group, Problem, Reward
from diver.grading.base import Grader, PendingCall, Verdict
from diver.grading.bounds import PendingComparison, bounded
from diver.grading.custom import Custom, call
from diver.grading.environment import EnvironmentGrader
from diver.grading.extraction import in_thought, opens_thought
from diver.grading.settings import Verification
from diver.grading.spelling import composed
from diver.grading.workers import Failure, Function, Pool, path_of, shared_pool

logger = logging.getLogger(__name__)

DEFAULT = Verification()
AUTO = "auto"  # use the verifier that each problem names
MAX_ANSWER = 48  # characters; a longer final answer is stored as a digest
Pending = PendingComparison | PendingCall
# By path: this process needs neither math-verify nor SymPy, whose import takes a second.
EQUIVALENT, WARM = "diver.grading.equivalence:equivalent", "diver.grading.equivalence:warm"


class Case(NamedTuple):
    """A response, the identity of its problem, whether it was cut, and whether its prompt ends inside a thought."""

    response: str
    problem: int
    cut: bool
    opened: bool


OWN = {
    "math": "diver.grading.mathematics:Mathematics",
    "gsm8k": "diver.grading.mathematics:GSM8K",
    "choice": "diver.grading.choice:Choice",
    "math-verify": "diver.grading.mathematics:MathVerify",
}
GRADERS: Mapping[str, str] = ChainMap(OWN, ADDED)
"""Name -> "module:class" of the graders of this package, which nobody can replace, and of those that others add."""


@cache
def _named(name: str) -> Grader:
    """The one grader of a name of `GRADERS`."""
    return import_object(GRADERS[name], f"grader {name}")()  # type: ignore[no-any-return]


@cache
def get_grader(name: str, where: str = "grader") -> Grader:
    """The grader of that name, or of a custom function or `Environment` "package.module:name".

    Raises:
        DiverError: No such name, a module that cannot be imported, or a function that does not take (response,
            problem). `where` begins the message.
    """
    if name in GRADERS:
        return _named(name)
    if ":" not in name:
        choose(name, [*OWN, *ADDED, "package.module:function"], where)
    target = None if name.startswith("__main__:") else import_object(name, where)
    if isinstance(target, type) and issubclass(target, Environment):
        return EnvironmentGrader(name, target)
    return Custom(name, where)


def grader_for(problem: Problem, name: str) -> Grader:
    """The grader that a setting names: `AUTO`, or one grader for all problems."""
    return get_grader(problem.verifier if name == AUTO else name)


def answer(problem: Problem, response: str, grader: str) -> str | None:
    """The vote of a response, None without one; a digest if the vote is long."""
    final = grader_for(problem, grader).final_answer(response, problem)
    return final if final is None or len(final) <= MAX_ANSWER else digest(final)


def verify(groups: Sequence[Group], settings: Verification = DEFAULT, pool: Pool | None = None) -> list[Group]:
    """The groups with `grade`, `answer_end` and `reward` of every rollout. The outcome is 1 if correct, else 0."""
    rollouts = [(group, rollout) for group in groups for rollout in group.rollouts]
    pairs = [(rollout.response, group.problem) for group, rollout in rollouts]
    truncated = [rollout.truncated for _, rollout in rollouts]
    thinking = [opens_thought(group.prompt) for group, _ in rollouts]
    results = iter(verdicts(pairs, settings, truncated=truncated, thinking=thinking, pool=pool))
    graded = []
    for group in groups:
        column = [next(results) for _ in group.rollouts]
        rewards = [Reward(outcome=float(verdict.grade is Grade.CORRECT)) for verdict in column]
        grades, ends = [v.grade for v in column], [v.answer_end for v in column]
        graded.append(group.with_each(grade=grades, answer_end=ends, reward=rewards))
    return graded


def with_keys(groups: Sequence[Group]) -> list[Group]:
    """The graded groups with the `key` and the `solution` of every rollout, by the verifier that the problem names.

    A trajectory without an action has no solution: its key does not show what was done.
    """
    keyed = []
    for group in groups:
        grader = get_grader(group.problem.verifier, f"problem {group.problem.id!r}: verifier")
        keys = [grader.key(rollout, group.problem) for rollout in group.rollouts]
        solved = [
            grader.exact_solutions and r.grade is Grade.CORRECT and bool(r.actions or not r.turns)
            for r in group.rollouts
        ]
        keyed.append(group.with_each(key=keys, solution=[k if s else None for k, s in zip(keys, solved, strict=True)]))
    return keyed


def grade(
    pairs: Sequence[tuple[str, Problem]],
    settings: Verification = DEFAULT,
    *,
    grader: str = AUTO,
    truncated: Sequence[bool] | None = None,
    thinking: Sequence[bool] | None = None,
    pool: Pool | None = None,
) -> list[Grade]:
    """The grade of every (response, problem). Arguments: see `verdicts`."""
    results = verdicts(pairs, settings, grader=grader, truncated=truncated, thinking=thinking, pool=pool)
    return [verdict.grade for verdict in results]


def verdicts(
    pairs: Sequence[tuple[str, Problem]],
    settings: Verification = DEFAULT,
    *,
    grader: str = AUTO,
    truncated: Sequence[bool] | None = None,
    thinking: Sequence[bool] | None = None,
    pool: Pool | None = None,
) -> list[Verdict]:
    """The grade of every response and the end of its answer.

    Equal answers to one problem are graded once.

    Args:
        pairs ([B]): (response, problem).
        settings: limits of the verifier: time, memory, size of an answer.
        grader: the verifier of all pairs. Defaults to the one that each problem names.
        truncated ([B]): whether each response hit its length limit. Such a response without an explicit answer
            (`Grader.holds_answer`) has the grade "truncated".
        thinking ([B]): whether each prompt opens a thought (`extraction.opens_thought`). A response that ends inside
            one has no answer, or is truncated.
        pool: worker processes. Defaults to those that this process shares.

    Returns:
        A `Verdict` for each pair. A timeout and an error are grades, not exceptions.
    """
    all_false = [False] * len(pairs)
    cuts, opens = (all_false if values is None else values for values in (truncated, thinking))
    for name, values in {"truncated": cuts, "thinking": opens}.items():
        if len(values) != len(pairs):
            raise ValueError(f"{len(pairs)} pairs but {len(values)} values of {name}")
    common = None if grader == AUTO else get_grader(grader)
    problems = {id(problem): replace(problem, answer=composed(problem.answer)) for _, problem in pairs}
    graders = {}
    for key, problem in problems.items():
        graders[key] = common or get_grader(problem.verifier, f"problem {problem.id!r}: verifier")
        graders[key].check(problem)
    cases = [
        Case(until_end_mark(composed(response)), id(problem), bool(cut), bool(opened))
        for (response, problem), cut, opened in zip(pairs, cuts, opens, strict=True)
    ]
    settled: dict[Case, Verdict] = {}
    pending: dict[Case, Pending] = {}

    def settle(case: Case, verdict: Verdict) -> None:
        grade, end = verdict
        if grade is Grade.NO_ANSWER and case.cut:
            grade = Grade.TRUNCATED
        if grade not in (Grade.CORRECT, Grade.WRONG):
            end = None  # a response without an answer has no end of one
        elif end is None:
            correct = grade is Grade.CORRECT
            end = graders[case.problem].answer_end(case.response, problems[case.problem], correct)
        settled[case] = Verdict(grade, end)

    for case in dict.fromkeys(cases):
        result = _read(case, graders[case.problem], problems[case.problem])
        if isinstance(result, Grade):
            settle(case, Verdict(result))  # now, while `extraction` still has its boxes in the cache
        else:
            pending[case] = result
    decided = _decide(dict.fromkeys(pending.values()), settings, pool) if pending else {}
    for case, comparison in pending.items():
        settle(case, decided[comparison])
    # The end of an answer counts characters of the original response: no end if `composed` changed it.
    return [
        Verdict(settled[case].grade, settled[case].answer_end if response.startswith(case.response) else None)
        for case, (response, _) in zip(cases, pairs, strict=True)
    ]


def _read(case: Case, grader: Grader, problem: Problem) -> Grade | Pending:
    """The grade of a response, or what a worker must decide.

    A response that was cut may have been about to write its answer: only a complete one is graded.
    """
    response, _, cut, opened = case
    try:
        if in_thought(response, opened) or (cut and not grader.holds_answer(response)):
            return Grade.NO_ANSWER
        return grader.grade(response, problem)
    except DiverError:  # no fault of the response: the problem lacks a key of `meta`, or an extra is not installed
        raise
    except Exception:  # the text is untrusted: an error in its grading is a grade and does not end the run
        logger.exception("problem %r: a response could not be graded", problem.id)
        return Grade.ERROR


def _decide(pending: Iterable[Pending], settings: Verification, pool: Pool | None) -> dict[Pending, Verdict]:
    """The verdicts of `bounded` and of worker processes."""
    decided: dict[Pending, Verdict] = {}
    jobs: dict[tuple[Function, Function], dict[Pending, tuple[Any, ...]]] = {}  # (function, warm) -> arguments
    for item in pending:
        if isinstance(item, PendingCall):
            jobs.setdefault((call, item.warm), {})[item] = (path_of(item.function), item.response, item.problem)
        elif isinstance(comparison := bounded(item, settings.bounds), Grade):
            decided[item] = Verdict(comparison)
        else:
            require("math_verify")
            jobs.setdefault((EQUIVALENT, WARM), {})[item] = comparison
    for (function, warm), arguments in jobs.items():
        workers = pool or shared_pool(settings.workers, settings.memory_mb, warm)
        values = workers.map(function, list(arguments.values()), settings.timeout_s)
        decided |= {item: _verdict_of(value, item) for item, value in zip(arguments, values, strict=True)}
        failed = {value: item for item, value in zip(arguments, values, strict=True) if isinstance(value, Failure)}
        for failure, item in failed.items():  # each reason once: a wrong function fails on every response
            more = f" and {values.count(failure) - 1} others" * (values.count(failure) > 1)
            text = item.response[-80:] if isinstance(item, PendingCall) else item.answers[0]
            logger.warning("answer %.80r%s: %s (%s)", text, more, failure.grade, clean(failure.reason))
    return decided


def _verdict_of(value: Any, item: Pending) -> Verdict:
    if isinstance(value, Failure):
        return Verdict(value.grade)
    if isinstance(item, PendingCall):
        name, end = value
        return Verdict(Grade(name), end)
    return Verdict({True: Grade.CORRECT, False: Grade.WRONG, None: Grade.NO_ANSWER}[value])
