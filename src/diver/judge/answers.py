"""One answer of each model to each problem, from rollouts of any origin."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from diver.evaluate.benchmarks import load
from diver.rollouts import read_rollouts
from diver.types import DiverError, Group, Problem, Rollout, Verdict

_NUMBERED = re.compile(r"problem-\d+")


class Case(NamedTuple):
    """A problem and the answer of each model, in the order of the models."""

    benchmark: str
    problem_id: str
    problem: str
    answers: tuple[str, ...]


def first(rollouts: Sequence[Rollout]) -> Rollout:
    return rollouts[0]


def first_correct(rollouts: Sequence[Rollout]) -> Rollout:
    """The first one that was found correct; the first of all where none was."""
    return next((r for r in rollouts if _correct(r)), rollouts[0])


RULES: Mapping[str, Callable[[Sequence[Rollout]], Rollout]] = {"first": first, "correct": first_correct}


def _correct(rollout: Rollout) -> bool:
    return rollout.verdict is Verdict.CORRECT or bool(rollout.reward and rollout.reward.outcome > 0.5)


def read_cases(
    models: Mapping[str, Path], problems: str, rule: str, limit: int | None, tell: Callable[[str], object]
) -> list[Case]:
    """The problems that every model has answered. `problems` names benchmarks or problem files, for rollouts without texts.

    Problems are the same if their texts are, or, where no text is common to all models, their ids. Of several steps of a
    run the last one counts.
    """
    texts = _texts(problems, tell)
    groups = {name: _groups(path, tell) for name, path in models.items()}
    for key in (_text, _id):
        found = {name: {key(g): g for g in of if key(g)} for name, of in groups.items()}  # later steps replace earlier
        first_model, *others = found.values()
        if common := [k for k in first_model if all(k in other for other in others)]:
            break
    else:
        names = " and ".join(models)
        raise DiverError(
            f"{names}: no problem is answered by all of them; ids or texts of their problems must be equal"
        )
    for name, of in found.items():
        if left := len(of) - len(common):
            tell(f"{name}: {left} problems left out, which not every model has answered")
    return [_case(k, [of[k] for of in found.values()], texts, rule) for k in common[:limit]]


def _groups(path: Path, tell: Callable[[str], object]) -> list[Group]:
    found = read_rollouts(path.expanduser())
    for note in found.notes:
        tell(note)
    return sorted(found.groups, key=lambda g: g.problem.meta.get("step") or 0)


def _texts(problems: str, tell: Callable[[str], object]) -> dict[str, tuple[str, Problem]]:
    """Problem id -> its benchmark and the problem."""
    texts: dict[str, tuple[str, Problem]] = {}
    for name in filter(None, problems.split(",")):
        loaded = load(name, seed=0)
        for note in loaded.notes:
            tell(note)
        texts |= {problem.id: (loaded.benchmark.title, problem) for problem in loaded.problems}
    return texts


def _id(group: Group) -> str:
    """Empty where the id is only the number that `read_rollouts` gave to a text."""
    return "" if _text(group) and _NUMBERED.fullmatch(group.problem.id) else group.problem.id


def _text(group: Group) -> str:
    return as_text(group.problem)


def as_text(problem: Problem) -> str:
    """A problem as a judge reads it: of messages, the user's."""
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n\n".join(m["content"] for m in problem.prompt if m.get("role") == "user")


def _case(key: str, groups: Sequence[Group], texts: Mapping[str, tuple[str, Problem]], rule: str) -> Case:
    problem_id = groups[0].problem.id
    benchmark, known = texts.get(problem_id, (groups[0].problem.source, groups[0].problem))
    text = as_text(known) or next(filter(None, map(_text, groups)), "")
    if not text:
        raise DiverError(
            f"problem {problem_id!r}: its text is not in these rollouts; --problems names the benchmark or file that has it"
        )
    return Case(benchmark, problem_id, text, tuple(RULES[rule](g.rollouts).response for g in groups))
