"""One answer of each model to each problem, from rollouts of any origin."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from diver.core.types import DiverError, Grade, Group, Problem, Rollout
from diver.look.read import read_rollouts
from diver.tasks.benchmarks import BENCHMARKS, Loaded, load

_NUMBERED = re.compile(r"problem-\d+")
Texts = Mapping[tuple[str, str], tuple[str, Problem]]
"""Source and id of a problem -> the title of its benchmark and the problem."""


class Case(NamedTuple):
    """A problem and the answer of each model, in the order of the models."""

    benchmark: str
    problem_id: str
    problem: str
    answers: tuple[str, ...]


def first(rollouts: Sequence[Rollout]) -> Rollout:
    return rollouts[0]


def first_correct(rollouts: Sequence[Rollout]) -> Rollout:
    """The first one graded correct; the first of all where none is."""
    return next((r for r in rollouts if _correct(r)), rollouts[0])


RULES: Mapping[str, Callable[[Sequence[Rollout]], Rollout]] = {"first": first, "correct": first_correct}


def _correct(rollout: Rollout) -> bool:
    return rollout.grade is Grade.CORRECT or bool(rollout.reward and rollout.reward.outcome >= 0.5)


def read_cases(
    models: Mapping[str, Path], benchmarks: str, rule: str, limit: int | None, log: Callable[[str], object]
) -> list[Case]:
    """The problems that every model has answered. `benchmarks` names benchmarks or problem files, for rollouts without
    texts.

    Problems are the same if their texts are, or, where no text is common to all models, their benchmarks and ids. Of
    several steps of a run the last one counts.
    """
    loaded = _loaded(benchmarks, log)
    groups = _with_sources({name: _groups(path, log) for name, path in models.items()})
    texts = _texts(loaded, {group.problem.source for of_model in groups.values() for group in of_model} - {""})
    for key in (_text, _id):
        by_key = {
            name: {key(g): g for g in of_model if key(g)} for name, of_model in groups.items()
        }  # the last step wins
        first_model, *others = by_key.values()
        if common := [k for k in first_model if all(k in other for other in others)]:
            break
    else:
        names = " and ".join(models)
        raise DiverError(
            f"{names}: no problem is answered by all of them; the texts of their problems, or benchmarks and ids, "
            "must be equal"
        )
    for name, of_model in by_key.items():
        if skipped := len(of_model) - len(common):
            log(f"{name}: {skipped} problems skipped, which not every model has answered")
    return [_case([of_model[k] for of_model in by_key.values()], texts, rule) for k in common[:limit]]


def _groups(path: Path, log: Callable[[str], object]) -> list[Group]:
    rollouts = read_rollouts(path.expanduser())
    for note in rollouts.notes:
        log(note)
    return sorted(rollouts, key=lambda g: g.problem.meta.get("step") or 0)


def _with_sources(groups: Mapping[str, Sequence[Group]]) -> dict[str, list[Group]]:
    """An id without a source, as in a file copied out of its folder, belongs to the only source that has it."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for group in (group for of_model in groups.values() for group in of_model if group.problem.source):
        sources[group.problem.id].add(group.problem.source)

    def with_source(group: Group) -> Group:
        known = sources.get(group.problem.id, ())
        if group.problem.source or len(known) != 1:
            return group
        return dataclasses.replace(group, problem=dataclasses.replace(group.problem, source=next(iter(known))))

    return {name: [with_source(group) for group in of_model] for name, of_model in groups.items()}


def _loaded(benchmarks: str, log: Callable[[str], object]) -> list[Loaded]:
    problems = [load(name, seed=0) for name in benchmarks.split(",") if name]
    for note in (note for loaded in problems for note in loaded.notes):
        log(note)
    return problems


def _texts(problems: Iterable[Loaded], sources: Collection[str]) -> Texts:
    """By benchmark; and by the source "", for problems of no known benchmark.

    `sources` are those of the rollouts. A file of another name has texts for all of them; a benchmark only for its own.
    """
    texts: dict[tuple[str, str], tuple[str, Problem]] = {}
    for loaded in problems:
        name, title = loaded.benchmark.name, loaded.benchmark.title
        of_any = [""] if not sources or name not in {*sources, *BENCHMARKS} else []
        texts |= {(source, p.id): (title, p) for p in loaded.problems for source in [name, *of_any]}
    return texts


def _id(group: Group) -> tuple[str, str] | None:
    """None where the id is only the number that `read_rollouts` gave to a text."""
    numbered = _text(group) and _NUMBERED.fullmatch(group.problem.id)
    return None if numbered else (group.problem.source, group.problem.id)


def _text(group: Group) -> str:
    return as_text(group.problem)


def as_text(problem: Problem) -> str:
    """A problem as a judge reads it: of messages, the user's."""
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n\n".join(m["content"] for m in problem.prompt if m.get("role") == "user")


def _case(groups: Sequence[Group], texts: Texts, rule: str) -> Case:
    problem, problem_id = groups[0].problem, groups[0].problem.id
    # No benchmark where --benchmarks has no text: orders are drawn by its name, and those of stored comparisons must
    # not change.
    benchmark, known = texts.get((problem.source, problem_id)) or texts.get(("", problem_id)) or ("", problem)
    text = as_text(known) or next(filter(None, map(_text, groups)), "")
    if not text:
        raise DiverError(
            f"problem {problem_id!r}{problem.source and f' of {problem.source}'}: its text is not in these rollouts; "
            "--benchmarks names the benchmark or file that has it"
        )
    return Case(benchmark, problem_id, text, tuple(RULES[rule](g.rollouts).response for g in groups))
