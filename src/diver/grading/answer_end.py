r"""Where the graded answer of a response ends: `Rollout.answer_end`, up to which diversity is measured.

Text after the answer solves nothing, and a diversity reward would pay for it (docs/diver.md). The end is that of the
first place that already states the final answer, so repeating the answer after more text does not move it:

so \boxed{5}. la la la \boxed{5}       ends after the first box
first \boxed{4}, no: \boxed{5}. la     ends after the second box: the final answer is 5
\boxed{1} and \boxed{2}, la            ends after the second box: the list is one answer
<answer>5</answer> la                  ends after the tag
The answer is 5. la. The answer is 5   ends after the first 5
... = 5 la                             ends after the last number: no place states it as the answer

The functions implement `Grader.answer_end`: they return a number of characters, or None if no place states the answer
by itself. Each reads the text once.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from diver.core.types import Grade
from diver.grading import extraction
from diver.grading.exact import compare_exactly, plain
from diver.grading.extraction import NUMBER, Span, after_thought, known_answer, stated, unboxed
from diver.grading.prose import DELIMITED, statements

_LAST_LINE = re.compile(r"####[ \t]*")


class _Place(NamedTuple):
    """The answer that a place states, and where the place ends."""

    text: str
    end: int


def stated_answer(response: str, gold: str, correct: bool) -> int | None:
    """The end in mathematics, by boxes, answer tags and closing sentences; else "the answer is", else the last number.

    `correct` says whether the final answer is correct: then another text for the reference answer `gold` is the same
    answer.
    """
    text = after_thought(response)
    statement = stated(text)
    places = marked_answers(text) if statement and not statement.prose else _said(text)
    if not places:
        return len(response) - len(text) + statement.end if statement else None
    final = places[-1].text
    return len(response) - len(text) + next(end for answer, end in places if _same(answer, final, gold, correct))


def marked_answers(text: str) -> list[_Place]:
    """The places that mark an answer, in order: lists of boxes, tags without a box, and Minerva's closing sentence."""
    boxes = [_listed(text, boxes) for boxes in extraction.box_lists(text)[0]]
    tags = [
        _Place(extraction.bare(tag.text), tag.end) for tag in tags_of(text) if not extraction.find_boxes(tag.text)[0]
    ]
    statement = stated(text)
    places = sorted([*boxes, *tags], key=lambda place: place.end)
    if statement and (not places or statement.end > places[-1].end) and statement.readings:
        places.append(_Place(statement.readings[-1], statement.end))
    return places


def _listed(text: str, boxes: Sequence[Span]) -> _Place:
    """The different contents of a list of boxes, and the end of the box with which all of them have occurred."""
    ends: dict[str, int] = {}
    for b in boxes:
        ends.setdefault(unboxed(text[b.opened : b.closed]).strip(), b.end)
    return _Place(", ".join(ends), max(ends.values()))


def tags_of(text: str) -> list[_Place]:
    return [
        _Place(text[tags.opened : tags.closed].strip(), tags.end)
        for tags in extraction.answer_tags(text)
        if tags.finished
    ]


def _said(text: str) -> list[_Place]:
    """The number or formula that each "the answer is" or "####" names, else the last number or formula of the text."""
    starts = [(statement.start("said"), statement.end("said")) for statement in statements(text)]
    starts += [(line.end(), line.end() + 60) for line in _LAST_LINE.finditer(text)]
    if places := [place for start, end in sorted(starts) if (place := _first_value(text, start, end))]:
        return places
    ends = [match.end() for pattern in (NUMBER, DELIMITED) for match in pattern.finditer(text)]
    return [_Place("", max(ends))] if ends else []


def _first_value(text: str, start: int, end: int) -> _Place | None:
    matches = [match for pattern in (DELIMITED, NUMBER) if (match := pattern.search(text, start, end))]
    first = min(matches, key=lambda match: match.start(), default=None)
    return _Place(first[0].strip("$\\()[] "), first.end()) if first else None


def _same(answer: str, final: str, gold: str, correct: bool) -> bool:
    """Whether two answers are the same: as texts, as numbers, or because both equal the reference answer."""
    if plain(answer) == plain(final) or compare_exactly(answer, final) is Grade.CORRECT:
        return True
    return correct and compare_exactly(answer, known_answer(gold)) is Grade.CORRECT
