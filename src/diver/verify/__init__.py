"""From a response to a `Verdict`: `verify` for groups in training, `grade` for any responses in evaluation."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence

from diver.types import DiverError, Group, Problem, Reward, Verdict, settings
from diver.verify.bounds import Bounds, Claim, bounded
from diver.verify.equivalence import equivalent
from diver.verify.graders import GRADERS, VERIFIERS, Grader, Judge, grader_of
from diver.verify.workers import Failure, Pool, shared_pool

__all__ = ["GRADERS", "VERIFIERS", "Bounds", "Grader", "Verification", "grade", "grader_of", "verdicts", "verify"]

logger = logging.getLogger(__name__)


@settings
class Verification:
    """How answers are judged."""

    deadline: float = 5.0
    """Seconds for judging one answer, from when a worker begins with it; then the worker is killed."""
    workers: int = 0
    """Worker processes at most; 0 for as many as there are cores, at most 8."""
    memory_mb: int = 900
    """Address space of a worker, in MiB."""
    bounds: Bounds = Bounds()
    """What SymPy may see."""

    def __post_init__(self) -> None:
        if not self.deadline > 0 or self.workers < 0 or self.memory_mb < 256:
            raise ValueError("deadline must be above 0, workers at least 0, memory_mb at least 256")


DEFAULT = Verification()


def verify(groups: Sequence[Group], settings: Verification = DEFAULT, pool: Pool | None = None) -> list[Group]:
    """The groups with `verdict` and `reward` (outcome 1 for correct, else 0) of every rollout filled in."""
    rollouts = [(group.problem, rollout) for group in groups for rollout in group.rollouts]
    found = iter(
        verdicts(
            [(rollout.response, problem) for problem, rollout in rollouts],
            settings,
            truncated=[rollout.truncated for _, rollout in rollouts],
            pool=pool,
        )
    )
    judged = []
    for group in groups:
        column = [next(found) for _ in group.rollouts]
        rewards = [Reward(outcome=float(verdict is Verdict.CORRECT)) for verdict in column]
        judged.append(group.with_each(verdict=column, reward=rewards))
    return judged


def verdicts(
    pairs: Sequence[tuple[str, Problem]],
    settings: Verification = DEFAULT,
    *,
    truncated: Sequence[bool] | None = None,
    pool: Pool | None = None,
) -> list[Verdict]:
    """The verdict of every (response, problem). Equal answers to one problem are judged once.

    `truncated` says which responses hit their length limit: such a response without an answer is `truncated` instead of
    `no_answer`, and for "math" only a box is an answer then, not the last formula before the cut. A timeout and an error
    are verdicts of their own. Without a `pool` this process's shared one is used.
    """
    return _judged([(_judge(problem), response, problem) for response, problem in pairs], settings, truncated, pool)


def grade(
    pairs: Sequence[tuple[str, Problem]],
    grader: str,
    settings: Verification = DEFAULT,
    truncated: Sequence[bool] | None = None,
    *,
    pool: Pool | None = None,
) -> list[Verdict]:
    """As `verdicts`, but by the grader of this name (`GRADERS`), whatever verifier the problems name."""
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
) -> list[Verdict]:
    cut = truncated if truncated is not None else [False] * len(cases)
    if len(cut) != len(cases):
        raise ValueError(f"{len(cases)} pairs but {len(cut)} values of truncated")
    known: dict[tuple[str, str], Problem] = {}
    read: dict[tuple[Judge, str, int], Verdict | Claim] = {}
    found = []
    for judge, response, problem in cases:
        first = known.setdefault((problem.id, problem.answer), problem)
        case = judge, response, id(first if _equal(first, problem) else problem)
        if case not in read:
            read[case] = _read(judge, response, problem)
        found.append(read[case])
    found = [
        Verdict.TRUNCATED if was_cut and (f is Verdict.NO_ANSWER or (isinstance(f, Claim) and not f.stated)) else f
        for f, was_cut in zip(found, cut, strict=True)
    ]
    decided = _decide([f for f in found if isinstance(f, Claim)], settings, pool)
    return [decided[f] if isinstance(f, Claim) else f for f in found]


def _equal(first: Problem, second: Problem) -> bool:
    try:
        return bool(first == second)
    except Exception:  # arrays in `meta` refuse to be compared; taken as different, each is read by itself
        return False


def _read(judge: Judge, response: str, problem: Problem) -> Verdict | Claim:
    try:
        return judge(response, problem)
    except Exception:  # the one boundary in this process behind which other people's text is read
        logger.exception("problem %r: a response could not be judged", problem.id)
        return Verdict.ERROR


def _decide(claims: Iterable[Claim], settings: Verification, pool: Pool | None) -> dict[Claim, Verdict]:
    decided: dict[Claim, Verdict] = {}
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
    for claim, value in zip(open_claims, pool.map(equivalent, jobs, settings.deadline), strict=True):
        if isinstance(value, Failure):
            logger.warning("answer %.80r: %s (%s)", claim.answers[0], value.verdict, value.reason)
            decided[claim] = value.verdict
        else:
            decided[claim] = {True: Verdict.CORRECT, False: Verdict.WRONG, None: Verdict.NO_ANSWER}[value]
    return decided
