"""From a response to a `Grade`: `verify` for groups in training, `grade` for any responses in evaluation."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from diver.config.verification import Verification
from diver.types import DiverError, Grade, Group, Problem, Reward
from diver.verify.bounds import Claim, bounded
from diver.verify.equivalence import equivalent
from diver.verify.graders import GRADERS, VERIFIERS, Judge, grader_of
from diver.verify.workers import Failure, Pool, shared_pool

logger = logging.getLogger(__name__)


DEFAULT = Verification()


def verify(groups: Sequence[Group], settings: Verification = DEFAULT, pool: Pool | None = None) -> list[Group]:
    """The groups with `grade` and `reward` (outcome 1 for correct, else 0) of every rollout filled in."""
    rollouts = [(group.problem, rollout) for group in groups for rollout in group.rollouts]
    found = iter(
        grades(
            [(rollout.response, problem) for problem, rollout in rollouts],
            settings,
            truncated=[rollout.truncated for _, rollout in rollouts],
            pool=pool,
        )
    )
    judged = []
    for group in groups:
        column = [next(found) for _ in group.rollouts]
        rewards = [Reward(outcome=float(grade is Grade.CORRECT)) for grade in column]
        judged.append(group.with_each(grade=column, reward=rewards))
    return judged


def grades(
    pairs: Sequence[tuple[str, Problem]],
    settings: Verification = DEFAULT,
    *,
    truncated: Sequence[bool] | None = None,
    pool: Pool | None = None,
) -> list[Grade]:
    """The grade of every (response, problem). Equal answers to one problem are judged once.

    `truncated` says which responses hit their length limit: such a response without an answer is `truncated` instead of
    `no_answer`, and for "math" only a box is an answer then, not the last formula before the cut. A timeout and an error
    are grades of their own. Without a `pool` this process's shared one is used.
    """
    return _judged([(_judge(problem), response, problem) for response, problem in pairs], settings, truncated, pool)


def grade(
    pairs: Sequence[tuple[str, Problem]],
    grader: str,
    settings: Verification = DEFAULT,
    truncated: Sequence[bool] | None = None,
    *,
    pool: Pool | None = None,
) -> list[Grade]:
    """As `grades`, but by the grader of this name (`GRADERS`), whatever verifier the problems name."""
    judge = grader_of(grader).judge
    return _judged([(judge, response, problem) for response, problem in pairs], settings, truncated, pool)


def _judge(problem: Problem) -> Judge:
    if problem.verifier not in VERIFIERS:
        choices = ", ".join(VERIFIERS)
        raise DiverError(f"problem {problem.id!r}: unknown verifier {problem.verifier!r}; choose one of {choices}")
    return GRADERS[VERIFIERS[problem.verifier]].judge


def _judged(
    cases: Sequence[tuple[Judge, str, Problem]],
    settings: Verification,
    truncated: Sequence[bool] | None,
    pool: Pool | None,
) -> list[Grade]:
    cut = truncated if truncated is not None else [False] * len(cases)
    if len(cut) != len(cases):
        raise ValueError(f"{len(cases)} pairs but {len(cut)} values of truncated")
    known: dict[tuple[str, str], Problem] = {}
    read: dict[tuple[Judge, str, int], Grade | Claim] = {}
    found = []
    for judge, response, problem in cases:
        first = known.setdefault((problem.id, problem.answer), problem)
        case = judge, response, id(first if _equal(first, problem) else problem)
        if case not in read:
            read[case] = _read(judge, response, problem)
        found.append(read[case])
    found = [
        Grade.TRUNCATED if was_cut and (f is Grade.NO_ANSWER or (isinstance(f, Claim) and not f.stated)) else f
        for f, was_cut in zip(found, cut, strict=True)
    ]
    decided = _decide([f for f in found if isinstance(f, Claim)], settings, pool)
    return [decided[f] if isinstance(f, Claim) else f for f in found]


def _equal(first: Problem, second: Problem) -> bool:
    try:
        return bool(first == second)
    except Exception:  # arrays in `meta` refuse to be compared; taken as different, each is read by itself
        return False


def _read(judge: Judge, response: str, problem: Problem) -> Grade | Claim:
    try:
        return judge(response, problem)
    except Exception:  # the one boundary in this process behind which other people's text is read
        logger.exception("problem %r: a response could not be judged", problem.id)
        return Grade.ERROR


def _decide(claims: Iterable[Claim], settings: Verification, pool: Pool | None) -> dict[Claim, Grade]:
    decided: dict[Claim, Grade] = {}
    open_claims: dict[Claim, Claim] = {}
    for claim in dict.fromkeys(claims):
        kept = bounded(claim, settings.bounds)
        if isinstance(kept, Claim):
            open_claims[claim] = kept
        else:
            decided[claim] = kept
    if not open_claims:
        return decided
    pool = pool or shared_pool(settings.workers, settings.memory_mb, warm="diver.verify.equivalence:warm")
    jobs = [(kept.answers, kept.golds) for kept in open_claims.values()]
    for claim, value in zip(open_claims, pool.map(equivalent, jobs, settings.timeout_s), strict=True):
        if isinstance(value, Failure):
            logger.warning("answer %.80r: %s (%s)", claim.answers[0], value.grade, value.reason)
            decided[claim] = value.grade
        else:
            decided[claim] = {True: Grade.CORRECT, False: Grade.WRONG, None: Grade.NO_ANSWER}[value]
    return decided
