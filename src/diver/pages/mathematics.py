"""LaTeX that a model wrote, as inert MathML."""

import html
import re
from functools import lru_cache
from itertools import accumulate
from typing import Any
from xml.etree.ElementTree import Element

MAX_CHARS = 1000  # maximum characters of a formula; longer ones are shown as source
MAX_DEPTH = 24  # maximum depth of braces; elements may be twice as deep
MAX_FORMULAS = 12_000  # formulas converted for one page, a few seconds of work

# The elements and attributes of a page. latex2mathml also writes href (of \href), style and class: they are left out.
ELEMENTS = frozenset(
    "math mrow mi mn mo ms mtext mspace mfrac msqrt mroot mstyle mpadded mphantom menclose msub msup msubsup munder "
    "mover munderover mmultiscripts mprescripts none mtable mtr mtd".split()
)
ATTRIBUTES = frozenset(
    "display mathvariant stretchy symmetric fence separator form accent largeop movablelimits lspace rspace "
    "linethickness displaystyle scriptlevel notation columnalign".split()
)
CHILDREN = {"mfrac": 2, "mroot": 2, "msub": 2, "msup": 2, "munder": 2, "mover": 2, "msubsup": 3, "munderover": 3}
_MACROS = re.compile(r"\\(?:newcommand|renewcommand|def|newenvironment|DeclareMathOperator|let)(?![A-Za-z])")
_ENTITY = re.compile(r"&#x[0-9A-Fa-f]{1,6};")

Tree = list[Any]  # [element, {attribute: value}, child or text, ...]


class Formulas:
    """The formulas of a page, each converted once. A call returns the index of a formula in `trees`, or None if it
    cannot be converted."""

    def __init__(self, limit: int = MAX_FORMULAS) -> None:
        self.trees: list[Tree] = []
        self.unconverted = 0
        self._limit = limit
        self._known: dict[tuple[str, bool], int | None] = {}

    def __call__(self, latex: str, display: bool) -> int | None:
        key = (latex.strip(), display)
        if key not in self._known:
            tree = mathml(*key) if len(self._known) < self._limit else None
            self._known[key] = None if tree is None else len(self.trees)
            self.trees += [] if tree is None else [tree]
            self.unconverted += tree is None
        return self._known[key]


@lru_cache(maxsize=MAX_FORMULAS)  # a page is tried with shorter and shorter texts until it fits
def mathml(latex: str, display: bool = False) -> Tree | None:
    """MathML of one formula as nested lists of allowed elements and attributes; None if it cannot be converted."""
    if not latex or len(latex) > MAX_CHARS or _MACROS.search(latex):
        return None
    if max(accumulate((c == "{") - (c == "}") for c in latex)) > MAX_DEPTH:
        return None
    from latex2mathml.converter import convert_to_element

    try:
        element = convert_to_element(latex, display="block" if display else "inline")
    except Exception:  # other people's LaTeX: the converter raises whatever its parts raise
        return None
    return _tree(element, 2 * MAX_DEPTH)


def _tree(element: Element, levels: int) -> Tree | None:
    name = element.tag
    children = [_tree(child, levels - 1) for child in element] if levels else [None]
    if name not in ELEMENTS or any(c is None for c in children) or len(children) != CHILDREN.get(name, len(children)):
        return None
    text = _ENTITY.sub(lambda entity: html.unescape(entity[0]), element.text or "")
    attributes = {key: value for key, value in element.attrib.items() if key in ATTRIBUTES}
    return [name, attributes, *([text] if text else []), *children]
