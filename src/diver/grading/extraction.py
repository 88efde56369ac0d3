r"""Find the answer that a response states, and its place in the text. One pass over the text for each form.

The last of these counts:

so \boxed{5}.                                                5
\boxed{3}, no, it must be \boxed{4}                          4
\boxed{1} and \boxed{2}                                      1, 2: one answer, all of it or nothing
$x=\boxed{1}$ and $y=\boxed{2}$                              x=1, y=2, which is also read without the names
<answer>\boxed{5}</answer>, <answer>5</answer>               5
<answer>So it is 5.</answer>                                 So it is 5, to be read as prose
The final answer is $\frac{1}{2}.$ I hope it is correct.     \frac{1}{2}
First \boxed{7}, but in fact \boxed{8                        8, to be read as prose: 7 is given up

Boxes and tags that are only named, "write it into \boxed{}: it is 5" or "between <answer> and </answer>", do not count.
Without a statement, `last_line` and `last_number` read the numbers of free text.
"""

import re
from collections import deque
from functools import lru_cache
from itertools import pairwise
from typing import NamedTuple

from diver.grading.languages import ANSWER, IS

TAIL = 4096  # characters of free text in which an answer is looked for
MOST_ALTERNATIVES = 8  # numbers joined by "or" that are read as one answer

_BRACE = re.compile(r"\\(?:boxed|fbox)\s*(?P<open>\{)|\\(?:boxed|fbox)\s*(?P<bare>[^\s{}$\\]+)|\\.|[{}]", re.DOTALL)
_UNESCAPED_BOX = re.compile(r"(?:(?<![\\A-Za-z])(?:boxed|fbox)|\x08oxed)\{")
_UNESCAPED = re.compile(rf"(?P<open>{_UNESCAPED_BOX.pattern})|(?P<bare>(?!))|\\.|[{{}}]", re.DOTALL)
_GAP = re.compile(
    r"(?:[\s$,;&}、，]|\\[()\[\],;:! ]|\\q?quad|\\text\{|\b(?:other|second|value|root|solution)\s{1,4}is\b"
    r"|\b(?:and|or|also|the|other|second|value|root|solution|of|und|oder|et|ou|или|и)\b"
    r"|\b[yoe]\b(?=\s\$?\\)|以及|或者|[和或与]"
    r"|for part \(\w\))*"
)
_NAME = (
    r"(?<![\w\\])(?P<name>(?:[A-Za-z]|\\[a-z]{2,8})(?:_(?:\w|\{\w{1,8}\}))?(?:\(\w\))?)"
    r"\s{0,3}(?:=|is\b)[\s$]{0,4}(?:\\[(\[]\s?)?"
)
_NAMED = re.compile(_NAME)
_NAME_BEFORE = re.compile(_NAME + r"\Z")
_CLOSING = re.compile(r"(?P<opened>final answer is)|I hope", re.IGNORECASE)
_MARKS = re.compile(r"(?<!\\)\$|\\[()\[\]]|\\?\"")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_SPACE = r"(?:,(?:\\!)?|[ \u00a0\u2009\u202f]|\\,|\{,\})"
NUMBER = re.compile(
    rf"(?:(?<![\w)\]}}])[-−–－])?(?:\\?\$)?"
    rf"(?:\d{{1,9}} \d{{1,9}}/\d{{1,9}}(?![\d/])|(?:\d{{1,3}}(?P<sep>{_SPACE})\d{{3}}(?:(?P=sep)\d{{3}})*(?!\d)|\d+)"
    r"(?:\.\d+|/\d+(?![\d/]))?|(?<![\w.])\.\d+)"
)
_OR = re.compile(
    r",?\s{0,4}\(?(?:or|oder|ou|o|или)\s{1,4}(?:(?:maybe|perhaps|possibly)\s{1,4})?"
    r"|,\s{0,4}(?:maybe|perhaps|possibly)\s{1,4}|[^\W\d]?\s?(?:或者|或|または|또는)\s?"
)
_INSIDE_OUT = re.compile(r"(?:(?:[^$\\]|\\.)+\$\s{0,4}(?:[,;]|or|and)?\s{0,4}\$)+(?:[^$\\]|\\.)+")
_LAST_LINE = re.compile(  # not "#### 2. Compute", which is a heading of Markdown
    r"####[ \t]*(?:(?:the|final|answer|is)[ \t:]{1,4}){0,4}(?P<stated>(?!\d+[.):]\s+\S)[^\w\n#]{0,6}\d[\d.,/ ]{0,40})"
    r"(?:[^\w\n#]{0,4}[^\W\d]{1,20}){0,2}[^\w\n#]{0,8}(?P<ended>\n|\Z)",
    re.IGNORECASE,
)
TAG = re.compile(  # and GLM's tokens around its answer
    r"<(?P<closes>/?)(?:final[_ -]?)?answer(?![^\s/>])[^<>\n]{0,100}>|<\|(?:begin|(?P<ends>end))_of_box\|>",
    re.IGNORECASE,
)
_LEAD = re.compile(
    rf"(?:#{{1,4}}\s*)?(?:\*{{0,2}}(?:the\s|final\s|correct\s){{0,3}}{ANSWER}\*{{0,2}}"
    rf"(?:\s?{IS}(?:\s?[:：])?|\s?[:：])\*{{0,2}}\s*)?",
    re.IGNORECASE,
)
_MARKED = re.compile(r"(?P<mark>\*\*|__|`{1,3}|[\"'])(?P<content>.+)(?P=mark)", re.DOTALL)
_NAMED_ONLY = re.compile(  # the content of a box or of tags that are only mentioned
    r"(?:[\s.…_?,:;*$`'\"-]|\\(?:l|c)?dots\b|\\text\b|[{}]|\b(?:and|or|your|the|final|answer|here|goes)\b)*",
    re.IGNORECASE,
)
_PROSE_BARE = re.compile(r"[^\W\d_]{2,}[^\w]*|[^\w]+")  # "the \boxed command", "with \boxed."
_LETTER = re.compile(r"\w")
_FORMULA = re.compile(r"\$[^$]*\$")
_BRACE_OF_BOX = re.compile(r"(?<![A-Za-z])(?:boxed|fbox)")
_LAST_COMMAND = re.compile(r"\\(?:boxed|fbox)\s*\Z")


class Statement(NamedTuple):
    """An answer that a text marks as such: its readings, and where it ends in the text."""

    readings: tuple[str, ...]
    end: int
    finished: bool = True
    """Whether its box or its tags are closed."""
    prose: bool = False
    """Whether its only reading is a sentence and not just an answer."""
    given_up: bool = False
    """Whether it replaces a finished box before it."""


class Span(NamedTuple):
    """Where a box or `<answer>` tags and their content begin and end, and whether they close before the text ends."""

    start: int
    opened: int
    closed: int
    end: int
    finished: bool = True


def opens_thought(prompt: str) -> bool:
    """Whether a response to the prompt begins inside a thought, as after a chat template that ends with `<think>`.

    A prompt that only mentions `<think>`, in its question or in an instruction, opens none.
    """
    return prompt.rstrip().endswith("<think>")


def in_thought(response: str, opened: bool = False) -> bool:
    """Whether a response ends inside a thought that it opened, or that its prompt has `opened`."""
    _, closed, after = response.rpartition("</think>")
    return "<think>" in after or (opened and not closed)


def after_thought(response: str) -> str:
    """The text after the thought, `<think> ... </think>`: nothing inside the thought is an answer."""
    return response.rpartition("</think>")[2]


@lru_cache(maxsize=4)  # a response is read for its grade, its answer and the end of its answer
def stated(text: str) -> Statement | None:
    """The last answer that a text marks as such, by boxes, `<answer>` tags or Minerva's sentence."""
    statements = [statement for read in (_in_boxes, _in_tags, _closing) if (statement := read(text))]
    return max(statements, key=lambda statement: statement.end, default=None)


def boxed(text: str) -> list[str]:
    """The readings of the last box, or of the list of boxes that it ends; empty if no box closes."""
    lists = box_lists(text)[0]
    return _readings(text, lists[-1]) if lists else []


@lru_cache(maxsize=4096)
def known_answer(gold: str) -> str:
    """The reference answer without its box, and without dollars if it lacks the outer ones: 8$, $4 is 8, 4."""
    content = (boxed(gold) or [gold])[0]
    return content.replace("$", " ") if _INSIDE_OUT.fullmatch(content) else content


def last_box(text: str) -> str | None:
    """The content of the last closed box, of the inner one if boxes are nested; None if no box closes."""
    box = max(find_boxes(text)[0], default=None)
    return text[box.opened : box.closed] if box else None


def boxed_answer(response: str) -> int | None:
    """The end of the first box with the same content as the last one; None without a box. See `answer_end`."""
    text = after_thought(response)
    boxes = find_boxes(text)[0]
    last = max(boxes, default=None)
    if last is None:
        return None
    final = text[last.opened : last.closed].split()
    end = next(b.end for b in boxes if text[b.opened : b.closed].split() == final)
    return len(response) - len(text) + end


def last_line(text: str, ended: bool = False) -> list[str]:
    """The number in the last line "#### n", as in GSM8K; with `ended`, only lines that another line follows count."""
    lines = [line["stated"] for line in _LAST_LINE.finditer(text) if line["ended"] or not ended]
    return last_number(lines[-1]) if lines else []


def last_number(text: str) -> list[str]:
    """The last number of the last line, or of all lines.

    1,234 and 1 234 and 1/2 and 1 1/2 are one number each. "5, or maybe 6" is one answer with both numbers.
    """
    for start in (text.rstrip().rfind("\n") + 1, 0):
        if matches := deque(NUMBER.finditer(text, start), maxlen=MOST_ALTERNATIVES):
            run = [matches.pop()]
            while matches and _OR.fullmatch(text, matches[-1].end(), run[0].start()):
                run.insert(0, matches.pop())
            numbers = [re.sub(_SPACE, "", m[0]) if m["sep"] else m[0] for m in run]
            return [re.sub(r"[\\$]", "", ", ".join(numbers))]
    return []


def unboxed(text: str) -> str:
    """The text without the commands of its boxes and their braces; their content stays."""
    if "box" not in text:
        return text
    closed, unclosed = _balanced(text, _BRACE, 0)
    cuts = [(box.start, box.opened) for box in [*closed, *unclosed]] + [(box.closed, box.end) for box in closed]
    parts, end = [], 0
    for start, stop in sorted(cuts):
        parts.append(text[end:start])
        end = stop
    return "".join(parts) + text[end:]


def _readings(text: str, boxes: list[Span]) -> list[str]:
    """The contents of boxes that form a list: with the names before them if all have one, and without."""
    # No name that the pattern matches is longer than 40 characters.
    before = _NAME_BEFORE.search(text[max(0, boxes[0].start - 40) : boxes[0].start])
    names = [before["name"] if before else ""]
    names += [_name_between(text, left.end, right.start) or "" for left, right in pairwise(boxes)]
    contents = [unboxed(text[box.opened : box.closed]).strip() for box in boxes]
    if text[boxes[-1].end - 1] != "}":
        contents[-1] = contents[-1].rstrip(".,;")
    readings = [", ".join(dict.fromkeys(contents))]
    if len({*contents}) > 1 and all(names):
        readings.insert(0, ", ".join(f"{name}={content}" for name, content in zip(names, contents, strict=True)))
    return readings


def _name_between(text: str, start: int, end: int) -> str | None:
    """The name of the second of two boxes around `text[start:end]`, as in `, y=`; None if they form no list."""
    if end - start > 70:  # a sentence rather than a separator and a name
        return None
    gap = _GAP.match(text, start, end)
    position = gap.end() if gap else start
    named = _NAMED.fullmatch(text, position, end)
    return "" if position == end else named["name"] if named else None


@lru_cache(maxsize=4)
def box_lists(text: str) -> tuple[list[list[Span]], Span | None]:
    """Lists of the closed outermost boxes in order, and the last box that is not closed.

    A box that is only mentioned does not count. Adjacent boxes that are one answer form one list. In a text without any
    `\\boxed`, a `boxed{...}`, which has lost its backslash, counts.
    """
    closed, begun = find_boxes(text)
    if not closed and not begun and ("oxed{" in text or "fbox{" in text) and _UNESCAPED_BOX.search(text):
        closed, unclosed = _balanced(text, _UNESCAPED, 0)
        begun = unclosed[-1] if unclosed else None
    outermost: list[Span] = []
    for box in closed:
        while outermost and outermost[-1].start > box.start:
            outermost.pop()
        outermost.append(box)
    lists: list[list[Span]] = []
    for box in outermost:
        if _is_named(text, box):
            continue
        if lists and _name_between(text, lists[-1][-1].end, box.start) is not None:
            lists[-1].append(box)
        else:
            lists.append([box])
    return lists, begun


def _in_boxes(text: str) -> Statement | None:
    """The last list of boxes, or a box after it that is not closed."""
    boxes, begun = box_lists(text)
    if begun and (not boxes or begun.start > boxes[-1][-1].start):
        content = text[begun.opened :].strip()
        return Statement((content,), len(text), finished=False, prose=True, given_up=bool(boxes))
    if not boxes:
        return None
    last = boxes[-1][-1]
    finished = text[last.end - 1] == "}" or last.end < len(text)
    return Statement(tuple(_readings(text, boxes[-1])), last.end, finished)


def answer_tags(text: str) -> list[Span]:
    """All `<answer>` tags, in order; the end of the text closes the last ones, too."""
    spans, opened = [], None
    for tag in TAG.finditer(text):
        if not (tag["closes"] or tag["ends"]):
            opened = tag
        elif opened:
            spans.append(Span(opened.start(), opened.end(), tag.start(), tag.end()))
            opened = None
    if opened:
        spans.append(Span(opened.start(), opened.end(), len(text), len(text), False))
    return spans


def last_tags(text: str) -> Span | None:
    """The last `<answer>` tags that have content and are not only mentioned."""
    for tags in reversed(answer_tags(text)):
        if not _is_only_named(text, tags) if tags.finished else text[tags.opened :].strip():
            return tags
    return None


def _in_tags(text: str) -> Statement | None:
    """The content of the last `<answer>` tags."""
    tags = last_tags(text)
    if tags is None:
        return None
    content = text[tags.opened : tags.closed].strip()
    inner = _in_boxes(content) or _closing(content)
    if inner:
        return inner._replace(end=tags.end, finished=tags.finished and inner.finished)
    content = bare(content)
    prose = len(WORD.findall(_FORMULA.sub("", content))) > 2 or len(content) > TAIL
    return Statement((content if prose else _as_text(content.rstrip(".")),), tags.end, tags.finished, prose)


def bare(content: str) -> str:
    """A short answer without its prefix ("Answer:", "####") and its delimiters (**)."""
    content = _LEAD.sub("", content.strip(), count=1)
    while len(content) <= TAIL and (marked := _MARKED.fullmatch(content)):
        content = marked["content"].strip()
    return content


def _as_text(content: str) -> str:
    """A word as LaTeX text, so that it is not read as a product of letters."""
    return rf"\text{{{content}}}" if WORD.fullmatch(content) else content


def _is_only_named(text: str, span: Span) -> bool:
    """Whether a box or tags are only mentioned: they have no content, and more text follows."""
    return (
        span.closed - span.opened <= 40
        and bool(_NAMED_ONLY.fullmatch(text, span.opened, span.closed))
        and bool(_LETTER.search(text, span.end))
    )


def _is_named(text: str, box: Span) -> bool:
    if text[box.end - 1] != "}":
        return bool(_PROSE_BARE.fullmatch(text, box.opened, min(box.closed, box.opened + 40)))
    return _is_only_named(text, box)


def find_boxes(text: str) -> tuple[list[Span], Span | None]:
    """The closed boxes, in the order in which they close, and the last box that is not closed."""
    starts = [start for start in (text.find(r"\boxed"), text.find(r"\fbox")) if start >= 0]
    if not starts:
        return [], None
    closed, unclosed = _balanced(text, _BRACE, min(starts))
    if command := _LAST_COMMAND.search(text, max(0, len(text) - 16)):
        unclosed.append(Span(*command.span(), len(text), len(text)))
    return closed, unclosed[-1] if unclosed else None


def _balanced(text: str, tokens: re.Pattern[str], start: int) -> tuple[list[Span], list[Span]]:
    """The boxes from `start` on: the closed ones, in the order in which they close, and the others."""
    closed: list[Span] = []
    opened: list[tuple[int, int] | None] = []  # for each open brace: where its \\boxed began, where its content begins
    for token in tokens.finditer(text, start):
        if token["open"]:
            opened.append((token.start(), token.end()))
        elif token["bare"]:
            closed.append(Span(token.start(), *token.span("bare"), token.end()))
        elif token[0] == "{":
            opened.append(None)
        elif token[0] == "}" and opened and (box := opened.pop()):
            closed.append(Span(*box, token.start(), token.end()))
    return closed, [Span(*box, len(text), len(text)) for box in opened if box]


def _closing(text: str) -> Statement | None:
    """Minerva's last closing sentence; None without one, or if it is prose or empty."""
    if "hope" not in text:  # true of most texts, and faster than the pattern
        return None
    opened, span = -1, None
    for mark in _CLOSING.finditer(text):
        if mark["opened"]:
            opened = mark.end()
        elif opened >= 0:
            span, opened = (opened, mark.start()), -1
    if span is None or span[1] - span[0] > TAIL:
        return None
    sentence = text[slice(*span)]
    if _BRACE_OF_BOX.search(sentence) or len(WORD.findall(_FORMULA.sub("", sentence))) > 2:
        return None
    content = " ".join(_MARKS.sub("", sentence).split()).lstrip(":* ").rstrip(":.*, ")
    return Statement((_as_text(content),), span[1]) if content else None
