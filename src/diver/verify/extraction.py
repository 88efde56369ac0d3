r"""What a response states as its answer: its last box, Minerva's closing sentence, or its last number. Each in one pass.

so \boxed{5}.                                                5
\boxed{3}, no, it must be \boxed{4}                          4
\boxed{1} and \boxed{2}                                      1, 2: one answer, all of it or nothing
$x=\boxed{1}$ and $y=\boxed{2}$                              x=1, y=2, which is also read without the names
The final answer is $\frac{1}{2}.$ I hope it is correct.     \frac{1}{2}
She needs 1 1/2 cups.                                        1 1/2
"""

import re
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

TAIL = 4096  # characters of free text in which an answer is looked for

_BRACE = re.compile(r"\\(?:boxed|fbox)\s*(?P<open>\{)|\\(?:boxed|fbox)\s*(?P<bare>[^\s{}$\\]+)|\\.|[{}]", re.DOTALL)
_GAP = re.compile(
    r"(?:[\s$,;&}]|\\[()\[\],;:! ]|\\q?quad|\\text\{|\b(?:and|or|also|the|other|second|value|root|solution|of|is)\b"
    r"|for part \(\w\))*"
)
_NAME = (
    r"(?<![\w\\])(?P<name>(?:[A-Za-z]|\\[a-z]{2,8})(?:_(?:\w|\{\w{1,8}\}))?(?:\(\w\))?)"
    r"\s{0,3}(?:=|is\b)[\s$]{0,4}(?:\\[(\[]\s?)?"
)
_NAMED = re.compile(_NAME)
_NAME_BEFORE = re.compile(_NAME + r"\Z")
_PERCENT = re.compile(r"[\s$]*+(?:\\\)|\\\])?\s*(?:\\?%|[Pp]ercent|[Pp]ct)")
_CLOSING = re.compile(r"(?P<opened>final answer is)|I hope", re.IGNORECASE)
_MARKS = re.compile(r"(?<!\\)\$|\\[()\[\]]|\\?\"")
WORD = re.compile(r"(?<![\\A-Za-z])[A-Za-z]{2,}")
_SPACE = r"(?:,(?:\\!)?|[ \u00a0\u2009\u202f]|\\,|\{,\})"
_NUMBER = re.compile(
    r"(?:(?<![\w)\]}])-)?(?:\\?\$)?"
    rf"(?:\d{{1,9}} \d{{1,9}}/\d{{1,9}}(?![\d/])|(?:\d{{1,3}}(?P<sep>{_SPACE})\d{{3}}(?:(?P=sep)\d{{3}})*(?!\d)|\d+)"
    r"(?:\.\d+|/\d+(?![\d/]))?)|(?<![\w.])\.\d+"
)
_OR = re.compile(r",?\s{0,4}or\s{1,4}(?:(?:maybe|perhaps|possibly)\s{1,4})?")
_LAST_LINE = re.compile(r"####[ \t]*(?P<stated>[^\n]{0,60})(?P<ended>\n|\Z)")


class _Box(NamedTuple):
    """Where a box and its content begin and end."""

    start: int
    opened: int
    closed: int
    end: int


def stated(text: str) -> list[str]:
    """The readings of the one answer that a text marks as its own, by a box or Minerva's sentence; empty without one."""
    boxes = _boxes(text)
    span = _closing(text)
    if span is None or (boxes and boxes[-1].end > span[0]):
        return _listed(text, boxes)
    content = " ".join(_MARKS.sub("", text[slice(*span)]).split()).lstrip(":* ").rstrip(":.*, ")
    return [rf"\text{{{content}}}" if WORD.fullmatch(content) else content] if content else _listed(text, boxes)


def is_stated(text: str) -> bool:
    """Whether a text that was cut had finished stating its answer: no box begun after it was left open."""
    boxes, span = _boxes(text), _closing(text)
    begun = max(text.rfind(r"\boxed"), text.rfind(r"\fbox"))
    if span and begun < span[1]:
        return True
    return bool(boxes) and boxes[-1].start <= begun < boxes[-1].end and (text[-1] == "}" or boxes[-1].end < len(text))


def boxed(text: str) -> list[str]:
    """The readings of the last box, or of the list of boxes that it ends; empty where no box closes."""
    return _listed(text, _boxes(text))


def last_box(text: str) -> str | None:
    """What stands in the last box that closes, whatever it is: of one inside another, the inner. None where no box closes."""
    box = max(_closed(text), default=None)
    return text[box.opened : box.closed] if box else None


def last_line(text: str, ended: bool = False) -> list[str]:
    """The number of GSM8K's last line "#### n", `ended` by another line."""
    lines = [line["stated"] for line in _LAST_LINE.finditer(text) if line["ended"] or not ended]
    return last_number(lines[-1]) if lines else []


def last_number(text: str) -> list[str]:
    """Of the last line, or of all: 1,234 and 1 234 and 1/2 and 1 1/2 are one number each, and 5, or maybe 6, one answer, which is both."""
    for start in (text.rstrip().rfind("\n") + 1, 0):
        if matches := deque(_NUMBER.finditer(text, start), maxlen=2):
            numbers = [re.sub(r"[\\$]", "", re.sub(_SPACE, "", m[0]) if m["sep"] else m[0]) for m in matches]
            both = _OR.fullmatch(text, matches[0].end(), matches[-1].start())
            return [", ".join(numbers)] if both else numbers[-1:]
    return []


def unboxed(text: str) -> str:
    """The text without the commands of its boxes and their braces; what they hold stays."""
    if "box" not in text:
        return text
    parts, opened, end = [], [], 0
    for token in _BRACE.finditer(text):
        is_box = bool(token["open"] or token["bare"])
        if token["open"] or token[0] == "{":
            opened.append(is_box)
        if is_box or (token[0] == "}" and opened and opened.pop()):
            parts.append(text[end : token.start()])
            end = token.start("bare") if token["bare"] else token.end()
    return "".join(parts) + text[end:]


def _listed(text: str, boxes: list[_Box]) -> list[str]:
    """The last box, or all that stand together with it: with the names before them, where all have one, and without."""
    if not boxes:
        return []
    run, names = [boxes[-1]], []
    for box in reversed(boxes[:-1]):
        name = _name_between(text, box.end, run[-1].start)
        if name is None:
            break
        run.append(box)
        names.append(name)
    first = _NAME_BEFORE.search(text[max(0, run[-1].start - 40) : run[-1].start])
    names.append(first["name"] if first else "")
    contents = [unboxed(text[box.opened : box.closed]).strip() for box in run]
    if text[run[0].end - 1] != "}":
        contents[0] = contents[0].rstrip(".,;")
    if _PERCENT.match(text, run[0].end, run[0].end + 16):
        contents[0] += r"\%"
    distinct = list(dict.fromkeys(reversed(contents)))
    readings = [", ".join(distinct)]
    if len(distinct) > 1 and all(names):
        readings.insert(0, ", ".join(f"{n}={c}" for n, c in zip(reversed(names), reversed(contents), strict=True)))
    return readings


def _name_between(text: str, start: int, end: int) -> str | None:
    """Of two boxes with `text[start:end]` between them, the name of the second, as in `, y=`; None where they are no list."""
    if end - start > 70:
        return None
    gap = _GAP.match(text, start, end)
    position = gap.end() if gap else start
    named = _NAMED.fullmatch(text, position, end)
    return "" if position == end else named["name"] if named else None


def _boxes(text: str) -> list[_Box]:
    """Every outermost box that closes, in order."""
    boxes: list[_Box] = []
    for box in _closed(text):
        while boxes and boxes[-1].start > box.start:
            boxes.pop()
        boxes.append(box)
    return boxes


def _closed(text: str) -> Iterator[_Box]:
    """Every box that closes, in the order in which they close."""
    starts = [start for start in (text.find(r"\boxed"), text.find(r"\fbox")) if start >= 0]
    if not starts:
        return
    opened: list[tuple[int, int] | None] = []  # for each open brace: where its \\boxed began, where its content begins
    for token in _BRACE.finditer(text, min(starts)):
        if token["open"]:
            opened.append((token.start(), token.end()))
        elif token["bare"]:
            yield _Box(token.start(), *token.span("bare"), token.end())
        elif token[0] == "{":
            opened.append(None)
        elif token[0] == "}" and opened and (box := opened.pop()):
            yield _Box(*box, token.start(), token.end())


def _closing(text: str) -> tuple[int, int] | None:
    """Where the content of Minerva's last closing sentence begins and ends; None without one, or where it is prose."""
    if "hope" not in text:  # nearly always, and quicker than the pattern
        return None
    opened, span = -1, None
    for mark in _CLOSING.finditer(text):
        if mark["opened"]:
            opened = mark.end()
        elif opened >= 0:
            span, opened = (opened, mark.start()), -1
    if span is None or span[1] - span[0] > TAIL:
        return None
    words = WORD.findall(re.sub(r"\$[^$]*\$", "", text[slice(*span)]))
    return span if len(words) <= 2 else None
