"""What responses that exist already answer: each group's problem, with its reference answer and its verifier.

Rollouts of `diver train` answer the problems of their run's recipe: a verifier may need more of a problem than its answer, such
as the numbers of Countdown. Others answer what their rows say.
"""

from dataclasses import replace
from pathlib import Path

from diver.config.testbeds import TESTBEDS
from diver.data.sources import answer_and_verifier
from diver.data.splits import load
from diver.evaluate.grade import AUTO
from diver.evaluate.of_run import read_run
from diver.rollouts import Rollouts
from diver.rollouts.layouts import EVAL, TRAIN
from diver.types import DiverError, Group, Problem
from diver.verify import get_grader

BY_ANSWER = ("math", "gsm8k", "choice", "math-verify")  # they need nothing but the reference answer
OTHERWISE = "--grader math grades by the reference answers in the rollouts"


def known_problems(rollouts: Rollouts, path: Path, grader: str) -> list[Problem]:
    """The problem of each group; DiverError where the grader needs to know more of it than is known."""
    if EVAL in rollouts.layouts:
        raise DiverError(
            f"{path}: generations of `diver eval` have neither prompts nor reference answers; the grades are beside them, and the "
            "same `diver eval` command with --grader NAME adds those of another grader"
        )
    if TRAIN in rollouts.layouts and grader not in BY_ANSWER:
        of_run = _of_run(path)
        problems = [_of_recipe(group, path, of_run) for group in rollouts]
    else:
        problems = [_of_row(group, path, grader) for group in rollouts]
    testbed = "" if grader == AUTO else _module(grader)
    if testbed in {entry.module for entry in TESTBEDS.values()} - {_module(problem.verifier) for problem in problems}:
        raise DiverError(
            f"--grader {grader}: needs the generated problems of its testbed, which only the folder of a `diver train` run on "
            f"them has; {path} has others"
        )
    return problems


def _module(grader: str) -> str:
    return get_grader(grader).function.partition(":")[0]


def _of_run(path: Path) -> dict[str, Problem]:
    """The problems of the run in whose folder `path` is, by their ids."""
    try:
        recipe = read_run(path.resolve()).recipe
        problems, *_ = load(recipe.data, None, 0)
    except DiverError as error:
        raise DiverError(f"{path}: the problems of its run cannot be read ({error}); {OTHERWISE}") from error
    return {problem.id: problem for problem in problems}


def _of_recipe(group: Group, path: Path, problems: dict[str, Problem]) -> Problem:
    given, found = group.problem, problems.get(group.problem.id)
    if found is None or found.answer != given.answer:
        raise DiverError(f"{path}: the data of its run no longer has problem {given.id!r} as it was; {OTHERWISE}")
    return replace(found, meta={**found.meta, **given.meta})


def _of_row(group: Group, path: Path, grader: str) -> Problem:
    problem = group.problem
    if "answers" in problem.meta:  # see rollouts.reader
        one, other, *_ = problem.meta["answers"]
        raise DiverError(
            f"{path}: responses to problem {problem.id!r} have different reference answers, {one[:60]!r} and {other[:60]!r}; "
            "name the column that tells the problems apart with --problem, or with --by"
        )
    if kind := problem.meta.get("answer_kind"):
        raise DiverError(
            f"{path}: problem {problem.id!r} has a {kind} for its reference answer, {problem.answer[:60]}; --answer names a column, or "
            "a part of one (COLUMN.KEY), that is a text or a number"
        )
    if not problem.answer.strip() and grader in (AUTO, *BY_ANSWER):
        raise DiverError(f"{path}: problem {problem.id!r} has no reference answer; --answer names its column")
    graded = str(problem.meta.get("grader", "")).partition("@")[0]  # what `diver grade` wrote
    if graded in BY_ANSWER:
        return replace(problem, verifier=graded)
    if graded and grader == AUTO:
        raise DiverError(
            f"{path}: was graded by {graded}, which may need more of a problem than its answer; grade what it was made of; "
            f"{OTHERWISE}"
        )
    prompt = problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]
    known, verifier = answer_and_verifier(prompt, problem.answer, f"{problem.source} {path.name}")
    return replace(problem, answer=known, verifier=verifier)
