"""Group responses: those to one problem, from one source, at one step, of one origin.

Rows with the same prompt answer the same problem, unless they say otherwise:

1. An id, such as `example_id` or `idx`, tells problems apart if some responses to the prompt share a value of it. If
   every response has a different value, the column numbers rows or samples. If one value occurs with different
   prompts, it numbers samples or turns. Neither counts: the prompt is the problem. Images and the columns of
   `certain` in core/columns.toml count in any case.
2. Passages that the prompt asks about, such as `context`, tell problems apart. So do reference answers that differ.

If the layout has a group id, or the user names the column of the problem, only that column is used.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from diver.core.columns import COLUMNS
from diver.core.seeds import digest
from diver.core.types import Group
from diver.rollouts.columns import Part
from diver.rollouts.named import rank_of_id

CONTEXTS = frozenset((*COLUMNS["passages"], *COLUMNS["contexts"]))


def grouped(
    read_parts: Iterable[Part], names: dict[str, str], notes: list[str], path: object, open_chars: float = float("inf")
) -> Iterator[Group]:
    """The groups of the parts of `path`, in the order of their first parts.

    Args:
        found: the parts.
        names: the ids made so far for problems without an id; new ones are added.
        notes: receives notes on what was separated, each once per path.
        path: the path that notes name.
        open_chars: characters that may wait for further parts. Beyond them, the oldest groups count as complete.
    """
    waiting: dict[tuple[object, ...], list[Part]] = {}
    prompts: dict[int, int] = {}  # id -> hash of its prompt; hashes save memory for many long prompts
    not_ids: set[str] = set()  # columns in which a value occurs with different prompts
    chars = 0
    for part in read_parts:
        problem = part.group.problem
        origin = (problem.source, problem.meta.get("step"), problem.meta.get("by"), problem.id)
        waiting.setdefault((*origin, part.key), []).append(part._replace(key=""))  # a key may be long
        for column, value in (part.ids or {}).items():
            of_id = hash((problem.source, problem.meta.get("by"), column, value))
            exempt = column in not_ids or column in CONTEXTS  # one passage may have several questions
            if not exempt and prompts.setdefault(of_id, hash(part.key)) != hash(part.key):
                not_ids.add(column)
        chars += part.group.characters
        while chars > open_chars and len(waiting) > 1:
            for group in _problems(waiting.pop(next(iter(waiting))), not_ids, names, notes, path):
                chars -= group.characters
                yield group
    for parts in waiting.values():
        yield from _problems(parts, not_ids, names, notes, path)


def _problems(
    parts: Sequence[Part], not_ids: set[str], names: dict[str, str], notes: list[str], path: object
) -> Iterator[Group]:
    """One group per problem, from parts with the same key."""
    prompt, prompt_digest = str(parts[0].group.problem.prompt), parts[0].prompt
    splits = all(part.ids is not None for part in parts)
    column, by_id = _by_id(parts, not_ids) if splits else ("", {None: [*parts]})
    if len(by_id) > 1:
        _note(notes, f"{path}: different problems have the same prompt", f"column {column!r} tells them apart", prompt)
    answers = {_answer(same_id) for same_id in by_id.values()}
    # An id such as verl's `uid` is another one at every step, so the answers name the problems where they can.
    use_id = any(part.certain == column for part in parts) or "" in answers or len(answers) < len(by_id)
    for value, same_id in by_id.items():
        by_answer: dict[str, list[Part]] = {}
        for part in same_id:
            by_answer.setdefault(part.group.problem.answer.strip(), []).append(part)
        if several := _several([*by_answer]):
            what = f"{path}: one {'prompt' if splits else 'group'} has different reference answers"
            examples = f"{several[0][:40]!r} and {several[1][:40]!r}"
            _note(notes, what, examples + ", which tell problems apart" * splits, prompt)
        if not (splits and several):
            by_answer = {"": same_id}
            if unshared := _unshared(same_id, not_ids) if splits and len(by_id) == 1 else "":
                what = f"{path}: column {unshared!r} has another value in every response to a prompt"
                _note(notes, what, f"read as one problem; --problem {unshared} reads a problem for each value", prompt)
            elif splits and (varied := _varied(same_id)):
                what = f"{path}: column {varied!r} differs between the responses to a prompt"
                _note(notes, what, f"read as one problem; --problem {varied} reads a problem for each value", prompt)
        for same_answer in by_answer.values():
            files = [*dict.fromkeys(part.file for part in same_answer)]
            if _are_apart(files, same_answer[0]) and not any("runs are read as those of one" in note for note in notes):
                what = f"{path}: responses to one problem are in several files"
                _note(notes, what, f"such as {files[0]} and {files[1]}; name each file to keep them apart", prompt)
            yield _merged(same_answer, names, (prompt_digest or prompt, value if use_id else None))


def _answer(parts: Sequence[Part]) -> str:
    """The first reference answer that is not empty; "" without one."""
    return next((answer for part in parts if (answer := part.group.problem.answer.strip())), "")


def _several(answers: Sequence[str]) -> list[str]:
    """The different answers without empty ones; an empty list if fewer than two remain."""
    distinct = [answer for answer in dict.fromkeys(answers) if answer]
    return distinct if len(distinct) > 1 else []


def _by_id(parts: Sequence[Part], not_ids: set[str]) -> tuple[str, dict[int | None, list[Part]]]:
    """The first id column in which responses share a value, and the parts by its values; "" without such a column.

    The certain column goes first, whether responses share a value or not. It is also the result if all share its value
    and no other column tells them apart. Parts without an id are together, under None.
    """
    certain = next((part.certain for part in parts if part.certain), "")
    alone: tuple[str, dict[int | None, list[Part]]] = "", {None: [*parts]}
    columns = (column for part in parts for column in part.ids or ())
    for column in sorted(dict.fromkeys(columns), key=lambda column: column != certain):
        by_id: dict[int | None, list[Part]] = {}
        for part in parts:
            by_id.setdefault((part.ids or {}).get(column), []).append(part)
        sizes = [sum(len(part.group) for part in members) for value, members in by_id.items() if value is not None]
        always = column == certain or column in COLUMNS["passages"]
        if len(sizes) > 1 and (always or (column not in not_ids and max(sizes) > 1)):
            return column, by_id
        if column == certain and len(by_id) == 1:  # alone here, it may be one of several at another step
            alone = column, by_id
    return alone


def _unshared(parts: Sequence[Part], not_ids: set[str]) -> str:
    """A column with the name of a problem id, but another value in every response; "" without such a column."""
    of_problems = (column for column in parts[0].ids or () if rank_of_id(column) == 0 and column not in not_ids)
    several = len(parts) > 1
    return next((c for c in of_problems if several and len({(p.ids or {}).get(c) for p in parts}) == len(parts)), "")


def _are_apart(files: Sequence[Path | None], part: Part) -> bool:
    """Whether the files may have responses of several models. The names of parts of a step differ in numbers only."""
    names = {re.sub(r"\d+", "#", str(file)) for file in files}
    return len(files if part.group.problem.meta.get("step") is None else names) > 1


def _varied(parts: Sequence[Part]) -> str:
    """A column of contexts that has several values; "" without such a column."""
    return next((c for c in COLUMNS["contexts"] if len({(part.ids or {}).get(c) for part in parts} - {None}) > 1), "")


def _note(notes: list[str], what: str, details: str, prompt: str) -> None:
    """Add a note once per path: `what` begins with the path."""
    if not any(note.startswith(what) for note in notes):
        notes.append(f"{what}: {details} (prompt {prompt[:40]!r})")


def _merged(parts: Sequence[Part], names: dict[str, str], asked: tuple[str, int | None]) -> Group:
    """One group from its parts. If their reference answers differ, `meta["answers"]` has them.

    A problem without an id is identified by what is `asked` and by its answer, since at another step it may be the only
    problem of its prompt. If the user names the column of the problem, the answer does not count.
    """
    groups = [part.group for part in parts]
    problem = replace(groups[0].problem, answer=_answer(parts))
    if answers := _several([group.problem.answer.strip() for group in groups]):
        problem = replace(problem, meta={**problem.meta, "answers": answers})
    key = digest(*asked, "" if parts[0].ids is None and parts[0].certain else problem.answer)
    name = problem.id or names.setdefault(key, f"problem-{len(names) + 1}")
    rollouts = tuple(rollout for group in groups for rollout in group.rollouts)
    group = replace(groups[0], problem=replace(problem, id=name), rollouts=rollouts)
    return group.with_each(index=range(len(rollouts))) if len(parts) > 1 else group
