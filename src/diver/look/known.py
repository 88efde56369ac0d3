"""What responses that exist already answer: each group's problem, with its reference answer and its verifier.

Rollouts of `diver train` answer the problems of their run's recipe: a verifier may need more of a problem than its
answer, such as the numbers of Countdown. Others answer what their rows say.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from diver.core.types import DiverError, Group, Problem
from diver.evaluate.grade import AUTO, answer
from diver.evaluate.of_run import read_run
from diver.look.read import Rollouts
from diver.look.read.layouts import EVAL, TRAIN
from diver.tasks.references import after_hashes, answer_and_verifier, is_letter
from diver.tasks.splits import load
from diver.tasks.verify import get_grader
from diver.tasks.verify.choice import LETTERS

BY_ANSWER = ("math", "gsm8k", "choice", "math-verify")  # they need nothing but the reference answer
OTHERWISE = "--grader math grades by the reference answers in the rollouts"


class Known(NamedTuple):
    """The problem of each group, and a line on which graders grade them and why; empty where one was named."""

    problems: list[Problem]
    note: str


def known_problems(rollouts: Rollouts, path: Path, grader: str) -> Known:
    """The problem of each group; DiverError where the grader needs to know more of it than is known."""
    if EVAL in rollouts.layouts:
        raise DiverError(
            f"{path}: generations of `diver eval` have neither prompts nor reference answers; the grades are beside "
            "them, and the same `diver eval` command with --grader NAME adds those of another grader"
        )
    if TRAIN in rollouts.layouts and grader not in BY_ANSWER:
        of_run = _of_run(path)
        problems = [_of_recipe(group, path, of_run) for group in rollouts]
        reasons = ["as the recipe of the run says"] * len(problems)
    else:
        rows = [_of_row(group, path, grader) for group in rollouts]
        problems, reasons = [problem for problem, _ in rows], [reason for _, reason in rows]
        if grader == AUTO:
            problems, reasons = _by_letters(rollouts, *_by_index(rollouts, problems, reasons))
    testbed = "" if grader == AUTO else get_grader(grader).testbed
    if testbed and testbed not in {get_grader(problem.verifier).testbed for problem in problems}:
        raise DiverError(
            f"--grader {grader}: needs the generated problems of its testbed, which only the folder of a `diver "
            f"train` run on them has; {path} has others"
        )
    return Known(problems, _note(path, problems, reasons) if grader == AUTO else "")


def _note(path: Path, problems: Sequence[Problem], reasons: Sequence[str]) -> str:
    counts = Counter((p.verifier, reason) for p, reason in zip(problems, reasons, strict=True))
    parts = [
        f"{verifier} grades {n:,} of {len(problems):,} problems ({why})" for (verifier, why), n in counts.most_common()
    ]
    return f"{path.name}: --grader auto: {'; '.join(parts)}"


def _by_index(rollouts: Rollouts, problems: list[Problem], reasons: list[str]) -> tuple[list[Problem], list[str]]:
    """Reference answers that count the options become letters, unless more responses say a number than choose an
    option.

    All must count from 0, as MMLU's do, and one be 0; or all from 1, and one be the last option.
    """
    counted = [
        p.verifier == "math" and isinstance(p.meta.get("options"), list) and p.answer.isdecimal() for p in problems
    ]
    indices = [int(p.answer) for p, is_one in zip(problems, counted, strict=True) if is_one]
    sizes = [len(p.meta["options"]) for p, is_one in zip(problems, counted, strict=True) if is_one]
    beyond = max((index - size for index, size in zip(indices, sizes, strict=True)), default=1)
    first = 0 if 0 in indices else 1
    if (beyond >= 0) if first == 0 else (beyond != 0):
        return problems, reasons
    pairs = [
        (r.response, p)
        for group, p, is_one in zip(rollouts, problems, counted, strict=True)
        if is_one
        for r in group.rollouts
    ]
    numbers = sum((answer(p, text, AUTO) or "").isdecimal() for text, p in pairs)
    if numbers > sum(get_grader("choice").final_answer(text, p) is not None for text, p in pairs):
        return problems, reasons
    why = f"the reference answer counts the options in a column from {first}"
    return (
        [
            replace(p, answer=LETTERS[int(p.answer) - first], verifier="choice") if is_one else p
            for p, is_one in zip(problems, counted, strict=True)
        ],
        [why if is_one else reason for reason, is_one in zip(reasons, counted, strict=True)],
    )


def _by_letters(rollouts: Rollouts, problems: list[Problem], reasons: list[str]) -> tuple[list[Problem], list[str]]:
    """A letter as the reference answer, without options, is multiple choice where most responses choose a letter."""
    lettered = [p.verifier == "math" and is_letter(p.answer) for p in problems]
    texts = [r.response for group, is_one in zip(rollouts, lettered, strict=True) if is_one for r in group.rollouts]
    nothing = Problem("", "", "")
    chosen = sum(get_grader("choice").final_answer(text, nothing) is not None for text in texts)
    if 2 * chosen <= len(texts):
        return problems, reasons
    why = f"the reference answer is a letter, and {chosen:,} of {len(texts):,} responses choose one"
    return (
        [replace(p, verifier="choice") if is_one else p for p, is_one in zip(problems, lettered, strict=True)],
        [why if is_one else reason for reason, is_one in zip(reasons, lettered, strict=True)],
    )


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


def _of_row(group: Group, path: Path, grader: str) -> tuple[Problem, str]:
    """The problem of a row, and why its verifier grades it."""
    problem = group.problem
    if "answers" in problem.meta:  # see rollouts.reader
        one, other, *_ = problem.meta["answers"]
        raise DiverError(
            f"{path}: responses to problem {problem.id!r} have different reference answers, {one[:60]!r} and "
            f"{other[:60]!r}; name the column that tells the problems apart with --problem, or with --by"
        )
    if kind := problem.meta.get("answer_kind"):
        raise DiverError(
            f"{path}: problem {problem.id!r} has a {kind} for its reference answer, {problem.answer[:60]}; --answer "
            "names a column, or a part of one (COLUMN.KEY), that is a text or a number"
        )
    if not problem.answer.strip() and grader in (AUTO, *BY_ANSWER):
        raise DiverError(f"{path}: problem {problem.id!r} has no reference answer; --answer names its column")
    graded = str(problem.meta.get("grader", "")).partition("@")[0]  # what `diver grade` wrote
    if graded in BY_ANSWER:
        return replace(problem, verifier=graded), "as the column grader says"
    if graded and grader == AUTO:
        raise DiverError(
            f"{path}: was graded by {graded}, which may need more of a problem than its answer; grade what it was "
            f"made of; {OTHERWISE}"
        )
    if grader not in (AUTO, *BY_ANSWER):
        return replace(problem, answer=after_hashes(problem.answer)), ""
    prompt = problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]
    reference = answer_and_verifier(
        prompt, problem.answer, f"{problem.source} {path.name}", problem.meta.get("options")
    )
    return replace(problem, answer=reference.answer, verifier=reference.verifier), reference.reason
