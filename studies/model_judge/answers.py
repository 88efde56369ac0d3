"""One answer of each model to each problem, from rollouts of any origin."""

import re
from collections import defaultdict
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import NamedTuple

from diver.core.tables import counted
from diver.core.types import DiverError, Grade, Group, Problem, Rollout
from diver.rollouts import read_rollouts
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


def read_cases(
    models: Mapping[str, Path], benchmarks: str, rule: str, limit: int | None, log: Callable[[str], object]
) -> list[Case]:
    """The problems that every model has answered. `benchmarks` names benchmarks or problem files, for rollouts without
    texts.

    Problems are the same if their texts are, or, if no text is common to all models, their benchmarks and ids. If a
    run has several steps, the last one counts.
    """
    loaded = [load(name, seed=0) for name in benchmarks.split(",") if name]
    rollouts = {name: read_rollouts(path.expanduser()) for name, path in models.items()}
    notes = [origin.notes for origin in loaded] + [origin.notes for origin in rollouts.values()]
    for note in chain.from_iterable(notes):
        log(note)
    groups = _with_sources(rollouts)
    texts = _texts(loaded, {group.problem.source for model_groups in groups.values() for group in model_groups} - {""})
    keys: tuple[Callable[[Problem], Hashable], ...] = (as_text, _id)
    for key in keys:
        grouped = {name: _by_key(model_groups, key) for name, model_groups in groups.items()}
        by_key = {name: {k: g for k, (g, *others) in by_id.items() if not others} for name, by_id in grouped.items()}
        first_model, *others = by_key.values()
        if common := [k for k in first_model if all(k in other for other in others)]:
            break
    else:
        names = " and ".join(models)
        raise DiverError(
            f"{names}: no problem is answered by all of them; the texts of their problems, each of one problem, or "
            "benchmarks and ids, must be equal"
        )
    for name, model_groups in by_key.items():
        if several := len(grouped[name]) - len(model_groups):
            log(f"{name}: {counted(several, 'text')} of several problems each, which no judge can tell apart: left out")
        if skipped := len(model_groups) - len(common):
            log(f"{name}: {skipped} problems skipped, which not every model has answered")
    return [_case([model_groups[k] for model_groups in by_key.values()], texts, rule) for k in common[:limit]]


def _by_key(groups: Iterable[Group], key: Callable[[Problem], Hashable]) -> dict[Hashable, list[Group]]:
    """The groups of each key: one for each problem that has it, from the last of several steps."""
    by_key: defaultdict[Hashable, dict[tuple[str, str], Group]] = defaultdict(dict)
    for group in groups:
        if k := key(group.problem):
            by_key[k][group.problem.source, group.problem.id] = group
    return {k: [*by_problem.values()] for k, by_problem in by_key.items()}


def _with_sources(groups: Mapping[str, Sequence[Group]]) -> dict[str, list[Group]]:
    """The groups of each model by step. An id without a source, as in a file copied out of its folder, belongs to the
    only source that has it."""
    sources: defaultdict[str, set[str]] = defaultdict(set)
    for group in (group for model_groups in groups.values() for group in model_groups if group.problem.source):
        sources[group.problem.id].add(group.problem.source)

    def with_source(group: Group) -> Group:
        candidates = sources.get(group.problem.id, ())
        if group.problem.source or len(candidates) != 1:
            return group
        return replace(group, problem=replace(group.problem, source=next(iter(candidates))))

    by_step = {n: sorted(unsorted, key=lambda g: g.problem.meta.get("step") or 0) for n, unsorted in groups.items()}
    return {name: [with_source(group) for group in model_groups] for name, model_groups in by_step.items()}


def _texts(problems: Iterable[Loaded], sources: Collection[str]) -> Texts:
    """The texts by benchmark, and by the source "" for problems without a known benchmark.

    `sources` are those of the rollouts. A file of another name has texts for all of them, a benchmark only for its
    problems.
    """
    texts: dict[tuple[str, str], tuple[str, Problem]] = {}
    for loaded in problems:
        name, title = loaded.benchmark.name, loaded.benchmark.title
        any_source = [""] if not sources or name not in {*sources, *BENCHMARKS} else []
        texts |= {(source, p.id): (title, p) for p in loaded.problems for source in [name, *any_source]}
    return texts


def _id(problem: Problem) -> tuple[str, str] | None:
    """None if the id is only the number that `read_rollouts` gave to a text."""
    numbered = as_text(problem) and _NUMBERED.fullmatch(problem.id)
    return None if numbered else (problem.source, problem.id)


def as_text(problem: Problem) -> str:
    """The text of a problem for the judge; of a chat, the messages of the user."""
    if isinstance(problem.prompt, str):
        return problem.prompt
    return "\n\n".join(m["content"] for m in problem.prompt if m.get("role") == "user")


def _case(groups: Sequence[Group], texts: Texts, rule: str) -> Case:
    problem, problem_id = groups[0].problem, groups[0].problem.id
    # The benchmark is empty if --benchmarks has no text: orders are drawn by its name, and the orders of stored
    # comparisons must not change.
    benchmark, known_problem = texts.get((problem.source, problem_id)) or texts.get(("", problem_id)) or ("", problem)
    text = next(filter(None, map(as_text, (known_problem, *(group.problem for group in groups)))), "")
    if not text:
        raise DiverError(
            f"problem {problem_id!r}{problem.source and f' of {problem.source}'}: its text is not in these rollouts; "
            "--benchmarks names the benchmark or file that has it"
        )

    def is_chosen(r: Rollout) -> bool:
        return rule == "first" or r.grade is Grade.CORRECT or bool(r.reward and r.reward.outcome >= 0.5)

    chosen = (next(filter(is_chosen, group.rollouts), group.rollouts[0]) for group in groups)
    return Case(benchmark, problem_id, text, tuple(rollout.response for rollout in chosen))
