"""The formulas that a response writes: LaTeX between delimiters."""

import re
from collections import Counter
from collections.abc import Callable
from typing import Literal, NamedTuple

from diver.core.settings import choose

Extractor = Literal["nested", "paper"]


def formulas(response: str, extractor: Extractor = "nested", ignore_space: bool = False) -> frozenset[str]:
    """F(o): the distinct formulas of a response, without their delimiters, so that `$x$` and `\\(x\\)` are equal.

    Args:
        response: a text.
        extractor: "nested" gives the spans of `formula_spans`, stripped, without empty ones; "paper" is `_paper`.
        ignore_space: whether to remove all white space inside formulas.
    """
    if extractor not in EXTRACTORS:
        choose(extractor, EXTRACTORS, "extractor")
    matches = EXTRACTORS[extractor](response)
    return frozenset("".join(f.split()) for f in matches) if ignore_space else frozenset(matches)


def _paper(text: str) -> list[str]:
    r"""What `re.findall` gives for the release's `\\\[([^\]]*?)\\\]`, `\\\(([^\)]*?)\\\)` and `\$([^\$]*?)\$`.

    The faults of these patterns are reproduced:

    - A formula that has a `]` (or a `)`) inside is lost.
    - `$$...$$` gives two empty strings and loses its content.
    - `\$` and `\\[2pt]` open a formula, and two prices in prose make one.
    - A `$x$` inside `\[ \]` counts a second time.
    """
    matches = re.findall(r"\$([^$]*)\$", text)
    for opener, closer in (("\\[", "]"), ("\\(", ")")):
        # The regular expressions are quadratic in a text of unclosed openers. All openers before a closing character
        # succeed or fail together, by whether a backslash stands before it; `findall` takes the first.
        for piece in text.split(closer)[:-1]:
            if (content := piece.partition(opener)[2]).endswith("\\"):
                matches.append(content[:-1])
    return matches


_TOKEN = re.compile(r"\\[\\()\[\]${}]|\$\$?|[{}]|\n[ \t]*\n")
_OPENER = {r"\)": r"\(", r"\]": r"\["}
_WORD_OR_NUMBER = re.compile(r"[\w\\]|\s\d")


class Span(NamedTuple):
    """The place of a formula: its content is text[start:end]. `opener` and its closer have the same length."""

    start: int
    end: int
    opener: str


def _nested(text: str) -> list[str]:
    return [formula for span in formula_spans(text) if (formula := text[span.start : span.end].strip())]


def formula_spans(text: str) -> list[Span]:
    r"""The outermost `\[ \]`, `\( \)`, `$$ $$` and `$ $` that are closed, in their order; in one pass over the text.

    `\$`, `\{` and `\\` are characters, so `\\(` opens nothing. Formulas inside a formula belong to it, such as the
    `$x$` of `\text{if $x$}`. An opener that is never closed is skipped. `$` and `$$` open and close alike, so a blank
    line ends them, as in TeX, and `_is_closer` distinguishes them from prices.
    """
    open_, spans = _Open(), list[Span]()
    for match in _TOKEN.finditer(text):
        token, position, after = match.group(), match.start(), match.end()
        if token in ("\\(", "\\["):
            open_.push(token, after)
        elif token in _OPENER:
            open_.close(_OPENER[token], position, spans)
        elif token == "$$" and open_.depth["$$"]:
            open_.close("$$", position, spans)
        elif token in ("$", "$$"):
            if open_.top == "$" and _is_closer(text, open_[-1][1], position):
                open_.close("$", position, spans)
                if token == "$$":  # `$x$$y$`
                    open_.push("$", after)
            else:
                open_.drop("$")  # the $ was that of a price
                open_.push(token, after)
        elif token == "{" and open_:
            open_.push("{", after)
        elif token == "}":
            if open_[-2:-1] and open_[-2][0] == "{":
                open_.drop("$")
            open_.drop("{")
        elif token[0] == "\n":
            while open_.top in ("{", "$", "$$"):
                open_.drop(open_.top)
    return spans


class _Open(list[tuple[str, int]]):
    """A stack of open delimiters, and braces inside them, each with the start of its content."""

    def __init__(self) -> None:
        self.depth: Counter[str] = Counter()
        self.top = ""

    def push(self, kind: str, start: int) -> None:
        self.append((kind, start))
        self.top = kind
        self.depth[kind] += 1

    def drop(self, kind: str) -> None:
        """Remove the innermost delimiter, if it is of this kind, without a formula."""
        if self.top == kind:
            self.pop()
            self.top = self[-1][0] if self else ""
            self.depth[kind] -= 1

    def close(self, kind: str, end: int, spans: list[Span]) -> None:
        """Add the formula from the last opener of this kind, if any, to `end`; it replaces the formulas inside it."""
        if not self.depth[kind]:
            return
        while self.top != kind:
            self.drop(self.top)
        start = self[-1][1]
        self.drop(kind)
        while spans and spans[-1].start > start:
            spans.pop()
        spans.append(Span(start, end, kind))


def _is_closer(text: str, start: int, position: int) -> bool:
    """Does the `$` at `position` close the one whose content begins at `start`? Not if they are prices: "$5 and $6".

    A formula has white space after its opener and before its closer, or at neither. No digit follows its closer, and
    after `$ x $` no word does.
    """
    if start == position or text[start].isspace() != text[position - 1].isspace():
        return False
    if not text[start].isspace():
        return not text[position + 1 : position + 2].isdigit()
    return _WORD_OR_NUMBER.match(text, position + 1) is None


EXTRACTORS: dict[Extractor, Callable[[str], list[str]]] = {"nested": _nested, "paper": _paper}
