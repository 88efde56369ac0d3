"""The data of the page's group browser, bounded so that the page stays small."""

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from diver.core.formulas import formula_spans
from diver.core.progress import progress
from diver.core.rounding import reaches
from diver.core.tables import clean
from diver.core.turns import Turn
from diver.core.types import Grade, Group, Rollout
from diver.diversity import Diversity, Until, formulas, spaced, textual_dissimilarity
from diver.pages.mathematics import Formulas
from diver.pages.page import evenly_spaced, pack, short
from diver.rollouts.problems import column, pair_values

GROUPS = 200  # default number of groups on a page
RESPONSES = 64  # responses shown in a group
TURNS = 64  # the first turns of a trajectory, which are shown
ACTIONS, ACTION = 8, 200  # maximum actions in the line of a turn, and characters per action
BYTES = 1_430_000  # compressed data of GROUPS groups, so that the page stays below 2 MB; more groups are allowed more
LENGTHS = (12_000, 6_000, 3_000, 1_500, 800, 400, 200, 100)  # characters of a response; the first that fits BYTES
# An answer outside of a formula, drawn all the same.
_BOX = re.compile(r"(\\boxed\s{0,4}\{(?:[^{}]|\{[^{}]{0,200}\}){0,200}\})")
HEAD = 0.7  # this fraction of a text that is too long is its beginning; the rest is its end, where the answer is


@dataclass(frozen=True)
class Shown:
    """A group and its origin: `run` is an index into the page's runs. `tokenize` and `until` are those of `diversity`
    in the recipe of the run."""

    group: Group
    run: int = 0
    step: int | None = None
    tokenize: str = "whitespace"
    until: Until = "end"


def with_page_name(group: Group, name: str, threshold: float) -> Group:
    """The group under this name. An outcome without a grade becomes the grade correct or wrong."""
    by_outcome = [Grade.CORRECT if correct else Grade.WRONG for correct in reaches(group.outcomes, threshold)]
    grades = [r.grade or (None if r.reward is None else v) for r, v in zip(group.rollouts, by_outcome, strict=True)]
    return dataclasses.replace(group.with_each(grade=grades), problem=dataclasses.replace(group.problem, id=name))


def browser_data(shown: Sequence[Shown], limit: int = GROUPS) -> dict[str, Any]:
    """What the browser draws: {groups, formulas, max_chars, unconverted}.

    `unconverted` is the number of formulas that could not be converted, `max_chars` the maximum number of characters of
    a text. It is the largest of `LENGTHS` with which the compressed data of `limit` groups stays in its part of 2 MB.
    """
    budget = BYTES * max(1.0, limit / GROUPS)
    full_groups = [_group(s) for s in progress(shown, "groups of the page", "group")]
    lengths = [len(response["text"][0]) for group in full_groups for response in group["responses"]]
    for characters in LENGTHS:
        if sum(min(length, characters) for length in lengths) > 6 * budget and characters != LENGTHS[-1]:
            continue  # text compresses at most about sixfold, so this cannot fit
        converted = Formulas()
        data = {
            "groups": [_cut(group, characters, converted) for group in full_groups],
            "formulas": converted.trees,
            "max_chars": characters,
            "unconverted": converted.unconverted,
        }
        if len(pack(data)) <= budget:
            break
    return data


def _group(shown: Shown) -> dict[str, Any]:
    """The data of a group that do not depend on `max_chars`. Each text comes with the formulas that only it has.

    `matrix` has the dissimilarities of the responses that are shown, in hundredths.
    """
    group, problem = shown.group, shown.group.problem
    prompt = problem.prompt if isinstance(problem.prompt, str) else "\n\n".join(m["content"] for m in problem.prompt)
    texts = [clean(r) for r in group.responses]
    measured = [clean(text) for text in Diversity(until=shown.until).texts(group)]
    extracted = [formulas(t) for t in measured]
    counts = Counter(f for fs in extracted for f in fs)
    index = evenly_spaced(len(texts), RESPONSES)
    dissimilarity = textual_dissimilarity([spaced(measured[i], shown.tokenize) for i in index])
    return {
        "run": shown.run,
        "step": shown.step,
        "problem": clean(problem.id)[:200],
        "prompt": clean(prompt),
        "answer": clean(problem.answer)[:200],
        "size": len(group),
        "pairs": _pairs(group),
        "matrix": np.rint(100 * dissimilarity).astype(int).tolist(),
        "responses": [
            _response(i, group.rollouts[i]) | {"text": (texts[i], frozenset(f for f in extracted[i] if counts[f] == 1))}
            for i in index
        ],
    }


def _pairs(group: Group) -> str:
    """How diverse the correct responses of the group are, in words; empty for fewer than two."""
    values = pair_values([r for r in group.rollouts if r.grade is Grade.CORRECT])
    cells = [(column(kind), value) for kind, value in values.items() if not math.isnan(value)]
    return "".join(f"{c.title}: {c.text(value)}{' %' if c.scale == 100 else ''}" for c, value in cells)


def _response(i: int, rollout: Rollout) -> dict[str, Any]:
    reward = {} if rollout.reward is None else rollout.reward.row()
    return {
        "index": i + 1,
        "grade": rollout.grade,
        "reward": {name: short(value) for name, value in reward.items()},
        "diversity": {clean(name): short(value) for name, value in rollout.diversity.items()},
        "advantage": short(rollout.advantage),
        "entropy": short(rollout.entropy),
        "length": rollout.known_length,
        **({"trained": False} if rollout.trained is False else {}),
        **({"turns": [*map(_turn, rollout.turns[:TURNS])], "all_turns": len(rollout.turns)} if rollout.turns else {}),
    }


def _turn(turn: Turn) -> dict[str, Any]:
    """A turn of a trajectory. Its summary line has the policy's actions; its text is collapsed below."""
    actions = [f"{name[:ACTION]} {arguments[:ACTION]}".strip() for name, arguments in turn.actions[:ACTIONS]]
    return {
        "role": clean(turn.role)[:ACTION],
        "own": turn.by_policy,
        "actions": [clean(action)[:ACTION] for action in actions],
        "text": clean(turn.text),
    }


def _cut_turns(turns: Sequence[Mapping[str, Any]], characters: int) -> list[dict[str, Any]]:
    """Turns cut to `characters` in total, with an equal share for each; `cut` is the number of characters left out."""
    share = characters // len(turns)
    return [
        {
            **turn,
            "actions": [action[: max(share, 1)] for action in turn["actions"]],
            "text": turn["text"][:share],
            "cut": max(0, len(turn["text"]) - share),
        }
        for turn in turns
    ]


def _cut(group: dict[str, Any], characters: int, converted: Formulas) -> dict[str, Any]:
    cut = partial(segments, converted=converted, characters=characters)
    responses = [{**response, "text": cut(*response["text"])} for response in group["responses"]]
    for response in responses:
        if turns := response.get("turns"):
            response["turns"] = _cut_turns(turns, characters)
    as_written = segments(group["prompt"], frozenset(), Formulas(limit=0), characters)
    return {**group, "prompt": as_written, "responses": responses}


def segments(text: str, unique: frozenset[str], converted: Formulas, characters: int) -> list[Any]:
    """A text as a list of strings, formulas and cuts, in order.

    A formula is [its source, with delimiters; its index among the converted or None; 1 where it is in `unique`, else
    0]. A cut, {"cut": n}, stands for n characters left out of the middle of a text longer than `characters`.
    """
    if len(text) <= characters:
        return list(_parts(text, unique, converted))
    head = int(HEAD * characters)
    tail = characters - head
    cut = {"cut": len(text) - characters}
    return [*_parts(text[:head], unique, converted), cut, *_parts(text[-tail:], unique, converted)]


def _parts(text: str, unique: frozenset[str], converted: Formulas) -> Iterator[Any]:
    position = 0
    for span in formula_spans(text):
        start, end = span.start - len(span.opener), span.end + len(span.opener)
        yield from _boxes(text[position:start], converted)
        content = text[span.start : span.end].strip()
        display = span.opener in ("\\[", "$$")
        yield [text[start:end], converted(content, display), int(content in unique)]
        position = end
    yield from _boxes(text[position:], converted)


def _boxes(text: str, converted: Formulas) -> Iterator[Any]:
    for i, piece in enumerate(_BOX.split(text)):  # texts and boxes by turns
        if piece:
            yield [piece, converted(piece, False), 0] if i % 2 else piece
