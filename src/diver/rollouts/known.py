"""The problem of each group of stored responses, with its reference answer and verifier.

Rollouts of `diver train` answer the problems of their run's recipe: a verifier may need more of a problem than its
answer, such as the numbers of Countdown. Other rollouts answer the problems of their rows.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from diver.core.types import DiverError, Group, Problem
from diver.grading import get_grader
from diver.grading.grading import AUTO
from diver.grading.references import after_hashes, answer_and_verifier, by_index, is_letter
from diver.rollouts import Rollouts
from diver.rollouts.layouts import EVAL, TRAIN

BY_ANSWER = ("math", "gsm8k", "choice", "math-verify")  # graders that need only the reference answer
OTHERWISE = "--grader math grades by the reference answers in the rollouts"
Reasoned = tuple[Problem, str]
"""The problem of a row, and why its verifier grades it."""
ProblemsOfRun = Callable[[Path], Sequence[Problem]]
"""The problems of the run whose folder contains a path; `diver grade` passes that of `evaluate`."""


def known_problems(
    rollouts: Rollouts, path: Path, grader: str, of_run: ProblemsOfRun | None
) -> tuple[list[Problem], str]:
    """The problem of each group, and a line on which graders grade them and why; empty if the user names a grader.

    Raises:
        DiverError: the grader needs more of a problem than the rollouts have.
    """
    if EVAL in rollouts.layouts:
        raise DiverError(
            f"{path}: generations of `diver eval` have neither prompts nor reference answers; the grades are beside "
            "them, and the same `diver eval` command with --grader NAME adds those of another grader"
        )
    if TRAIN in rollouts.layouts and grader not in BY_ANSWER:
        reasoned = [(problem, "as the recipe of the run says") for problem in _of_recipe(rollouts, path, of_run)]
    else:
        reasoned = [_of_row(group, path, grader) for group in rollouts]
        for by_options in (_by_index, _by_letters) if grader == AUTO else ():
            chosen = by_options(rollouts, reasoned)
            reasoned = [chosen.get(i, default) for i, default in enumerate(reasoned)]
    problems = [problem for problem, _ in reasoned]
    testbed = "" if grader == AUTO else get_grader(grader).testbed
    if testbed and testbed not in {get_grader(problem.verifier).testbed for problem in problems}:
        raise DiverError(
            f"--grader {grader}: needs the generated problems of its testbed, which only the folder of a `diver "
            f"train` run on them has; {path} has others"
        )
    if grader != AUTO:
        return problems, ""
    counts = Counter((problem.verifier, reason) for problem, reason in reasoned)
    clauses = [
        f"{verifier} grades {n:,} of {len(problems):,} problems ({why})" for (verifier, why), n in counts.most_common()
    ]
    return problems, f"{path.name}: --grader auto: {'; '.join(clauses)}"


def without_reference(rollouts: Rollouts, grader: str) -> Iterator[str]:
    """Remove groups without a reference answer if others have one and the grader needs it; yields a note on them."""
    empty = [group for group in rollouts if not group.problem.answer.strip()]
    by_answer = grader in BY_ANSWER or (grader == AUTO and TRAIN not in rollouts.layouts)
    if by_answer and 0 < len(empty) < len(rollouts):
        first = f"the first is {empty[0].problem.id!r}"
        yield f"{len(empty):,} of {len(rollouts):,} groups have no reference answer: left out ({first})"
        rollouts[:] = [group for group in rollouts if group.problem.answer.strip()]


def _by_index(rollouts: Rollouts, references: Sequence[Reasoned]) -> dict[int, Reasoned]:
    """Reference answers that count the options become letters, unless more responses say a number than choose an
    option."""
    counted, start = by_index([problem for problem, _ in references])
    texts = [(r.response, references[i][0]) for i in counted for r in rollouts[i].rollouts]
    numbers = sum((get_grader("math").final_answer(text, p) or "").isdecimal() for text, p in texts)
    if numbers > sum(get_grader("choice").final_answer(text, p) is not None for text, p in texts):
        return {}
    why = f"the reference answer counts the options in a column from {start}"
    return {i: (problem, why) for i, problem in counted.items()}


def _by_letters(rollouts: Rollouts, references: Sequence[Reasoned]) -> dict[int, Reasoned]:
    """A problem without options whose reference answer is a letter is multiple choice if most responses choose one."""
    lettered = {i: p for i, (p, _) in enumerate(references) if p.verifier == "math" and is_letter(p.answer)}
    texts = [r.response for i in lettered for r in rollouts[i].rollouts]
    no_problem = Problem("", "", "")
    chosen = sum(get_grader("choice").final_answer(text, no_problem) is not None for text in texts)
    if 2 * chosen <= len(texts):
        return {}
    why = f"the reference answer is a letter, and {chosen:,} of {len(texts):,} responses choose one"
    return {i: (replace(p, verifier="choice"), why) for i, p in lettered.items()}


def _of_recipe(rollouts: Rollouts, path: Path, of_run: ProblemsOfRun | None) -> Iterator[Problem]:
    """The problem of each group, from the data of the run whose folder contains `path`."""
    if of_run is None:
        raise DiverError(f"{path}: the command `diver grade` reads the problems of a run; {OTHERWISE}")
    try:
        problems = of_run(path)
    except DiverError as error:
        raise DiverError(f"{path}: the problems of its run cannot be read ({error}); {OTHERWISE}") from error
    by_id = {problem.id: problem for problem in problems}
    for group in rollouts:
        stored, current = group.problem, by_id.get(group.problem.id)
        if current is None or current.answer != stored.answer:
            raise DiverError(f"{path}: the data of its run no longer has problem {stored.id!r} as it was; {OTHERWISE}")
        yield replace(current, meta={**current.meta, **stored.meta})


def _of_row(group: Group, path: Path, grader: str) -> Reasoned:
    problem = group.problem
    if "answers" in problem.meta:  # see diver.rollouts.grouping
        first, second, *_ = problem.meta["answers"]
        raise DiverError(
            f"{path}: responses to problem {problem.id!r} have different reference answers, {first[:60]!r} and "
            f"{second[:60]!r}; name the column that tells the problems apart with --problem, or with --by"
        )
    if kind := problem.meta.get("answer_kind"):
        raise DiverError(
            f"{path}: problem {problem.id!r} has a {kind} for its reference answer, {problem.answer[:60]}; --answer "
            "names a column, or a part of one (COLUMN.KEY), that is a text or a number"
        )
    if not problem.answer.strip() and grader in (AUTO, *BY_ANSWER):
        raise DiverError(f"{path}: problem {problem.id!r} has no reference answer; --answer names its column")
    grader_name = str(problem.meta.get("grader", "")).partition("@")[0]  # what `diver grade` wrote
    if grader_name in BY_ANSWER:
        return replace(problem, verifier=grader_name), "as the column grader says"
    if grader_name and grader == AUTO:
        raise DiverError(
            f"{path}: was graded by {grader_name}, which may need more of a problem than its answer; grade what it was "
            f"made of; {OTHERWISE}"
        )
    if grader not in (AUTO, *BY_ANSWER):
        return replace(problem, answer=after_hashes(problem.answer)), ""
    prompt = problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1]["content"]
    reference = answer_and_verifier(
        prompt, problem.answer, f"{problem.source} {path.name}", problem.meta.get("options")
    )
    return replace(problem, answer=reference.answer, verifier=reference.verifier), reference.reason
