"""Are two answers equivalent? math-verify 0.9.0, and a few other readings of the same text. Runs in a worker process.

math-verify's own time limits are turned off: they use SIGALRM, and the pool's timeout does the work. Where math-verify
says no, these readings are tried, because they mean the same:

- `q/2` for the reference answer `I_{m} = q/2`: the name on the left, also if it is the letter of a constant.
- `y = 2x` for `f(x) = 2x`.
- Degrees under a sine or cosine, `\\sin(90^\\circ - x)`, or against radians: `90^\\circ` and `\\pi/2`.
- A lone `i` is the imaginary unit in both: `i(2-i)` and `1+2i`.
- A row or column of a matrix, the tuple with the same entries, and the sum of these multiples of i, j and k.
- The answer without its conditions (`conditions`).

Lists of equal length are compared part by part, since math-verify takes two lists of equations of constants for equal.

math-verify takes the last number of a box that it cannot read, `1` of `R=1, I=(-6,-4)`; here such a box is a text, so
that no part counts as the answer. Where math-verify says yes, two numbers below 1e-4 must also agree to one per cent,
since it rounds to six decimals. `statements` has the other cases that it takes for equal by mistake.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import Any
from zlib import crc32

from antlr4.atn.PredictionMode import PredictionMode
from latex2sympy2_extended import NormalizationConfig
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse
from sympy import Basic, Eq, Expr, I, Interval, MatrixBase, Symbol, Tuple, UnevaluatedExpr

from diver.grading.brackets import outer_parts
from diver.grading.conditions import without_conditions
from diver.grading.notation import box, content_of
from diver.grading.spelling import GAP, TEXT
from diver.grading.statements import same_value

MOST_PARTS = 16  # a longer list is not compared part by part: each pair of parts is a comparison

_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)\b")
_DEGREES = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
_SEPARATOR = re.compile(  # also the second bracket of ]0,1[
    r"(?P<separator>\\\{|[\[({]|(?<!\\),(?!\d{3}(?!\d))|;|\b(?:and|or)\b)|\\\}|[\])}]"
)
_LETTER = re.compile(r"(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])")
_UNIT_OF_FORMULA = re.compile(
    rf"(?<=[\d}}]){GAP}{TEXT[:-1]}|textbf|textit)\s?\{{[^{{}}]{{1,40}}\}}(?:\^\{{?\d\}}?)?(?=\s?(?:\$|\\[)\]]))"
)
_BRACED = re.compile(r"([_^])\{(\w)\}")
_SPACE = re.compile(r"(?<![,\s])\s+")
_NAMED = re.compile(
    r"(?P<name>(?:[A-Z]{2,4}|[A-Za-z]|\\[A-Za-z]+)(?:_(?:\w|\{[^{}]*\}))?(?:\^\{-1\})?)"
    r"(?P<of>\([A-Za-z](?:,\s*[A-Za-z])*\))?\s*=(?P<body>[^=]+)"
)


def warm() -> None:
    """Import math-verify and build its expressions: about a second, once for each worker."""
    _predict_without_context()
    equivalent([r"\boxed{\frac{1}{2}x}"], [r"$\frac{x}{2}$"])


@cache
def _predict_without_context() -> None:
    """Have math-verify read LaTeX by ANTLR's SLL prediction, and again by LL if SLL finds an error.

    Without an error, SLL and LL give the same tree (ANTLR's PredictionMode.SLL), and only decisions of SLL are cached.
    """
    create_parser = _Latex2Sympy.create_parser

    def create(converter: Any, latex: str) -> Any:
        parser = create_parser(converter, latex)
        read_by_sll = parser.math
        parser._interp.predictionMode = PredictionMode.SLL

        def read() -> Any:
            try:
                return read_by_sll()
            except Exception:
                return create_parser(converter, latex).math()

        parser.math = read
        return parser

    _Latex2Sympy.create_parser = create


def equivalent(answers: Sequence[str], golds: Sequence[str]) -> bool | None:
    """Whether one of the answers is equivalent to one reference answer; None if no text of `answers` holds an answer.

    The texts are as math-verify reads them: a box, a formula in dollars, or prose. Call this in a worker, since it has
    no time limit.
    """
    if not any(_parse(gold) for gold in golds):
        raise ValueError(f"nothing to compare with in the reference answer {golds[0][:80]!r}")
    has_answer = False
    for answer in answers:
        has_answer = has_answer or bool(_parse(answer))
        if any(_same(gold, answer) for gold in golds):
            return True
    return False if has_answer else None


def _same(gold: str, answer: str) -> bool:
    left, right = _NAMED.fullmatch(content_of(gold)), _NAMED.fullmatch(content_of(answer))
    if left and right and left["name"] == right["name"] and left["of"] is None and not _names_itself(left, right):
        return _same(box(left["body"].strip()), box(right["body"].strip()))
    gold_parts, answer_parts = _parts(gold), _parts(answer)
    if 1 < len(gold_parts) == len(answer_parts) <= MOST_PARTS:
        equal = [[_same(gold_text, answer_text) for answer_text in answer_parts] for gold_text in gold_parts]
        return all(map(any, equal)) and all(map(any, zip(*equal, strict=True)))
    for gold_text, answer_text in ((gold, answer), *_readings(gold, answer)):
        expected, parsed = _parse(gold_text), _parse(answer_text)
        if _equal(expected, parsed) or any(_equal([g], [a]) for g, a in _other_kinds(expected, parsed)):
            return True
    return any(_same(*pair) for pair in without_conditions(gold, answer))


def _parts(text: str) -> list[str]:
    """The parts of a list without brackets around it, as boxes; the text itself if it is no list."""
    if not text.startswith(r"\boxed{"):
        return [text]
    boxes = [box(part.strip()) for part in outer_parts(content_of(text), _SEPARATOR) if part.strip()]
    return boxes if len(boxes) > 1 else [text]


@lru_cache(maxsize=1024)  # the same reference answer is read for each response
def _parse(text: str) -> list[Any]:
    # math-verify's rule of units would drop the h of \pi r^2 h.
    normal = NormalizationConfig(units=False, malformed_operators=True, nits=True)
    if not text.startswith(r"\boxed{"):
        formulas = LatexExtractionConfig(normalization_config=normal)
        return parse(_UNIT_OF_FORMULA.sub("", text), [formulas, ExprExtractionConfig()], parsing_timeout=None)
    config = LatexExtractionConfig(try_extract_without_anchor=False, normalization_config=normal)
    parsed = parse(text, [config], parsing_timeout=None)
    # What math-verify cannot read is a text: E_{0}^{2} e^{2} and m_{\max }, reference answers of Minerva and
    # OlympiadBench, are E_0^2 e^2 and m_{\max}.
    # The space after a comma stays: 58, 500 is a list.
    return [_BRACED.sub(r"\1\2", _SPACE.sub("", p)) if isinstance(p, str) else p for p in parsed]


def _equal(golds: Sequence[Any], answers: Sequence[Any]) -> bool:
    pairs = ((gold, answer) for gold in golds for answer in answers if not _apart(gold, answer))
    return any(same_value(gold, answer) and _same_magnitude(gold, answer) for gold, answer in pairs)


def _apart(gold: Any, answer: Any) -> bool:
    """Whether two expressions surely differ: their values at one point are quick to compute, a proof by algebra is not.

    At that point each letter has a different positive value, so that roots and logarithms of products agree where they
    should. Two definitions of one letter are compared by their right sides. A single letter is left to math-verify,
    which also compares it by its name. So are expressions with letters that are integers.
    """
    if isinstance(gold, Eq) and isinstance(answer, Eq) and gold.lhs == answer.lhs and gold.lhs.is_Symbol:
        solved = gold.lhs not in gold.rhs.free_symbols | answer.rhs.free_symbols
        gold, answer = (gold.rhs, answer.rhs) if solved else (gold, answer)
    if not all(isinstance(e, Expr) and not isinstance(e, Symbol) for e in (gold, answer)):
        return False
    letters = gold.free_symbols | answer.free_symbols
    point = {s: 0.3 + crc32(str(s).encode()) / 2**32 for s in letters}
    try:
        if any(e.has(UnevaluatedExpr) for e in (gold, answer)):  # a percentage: math-verify reads it in two ways
            return False
        x, y = (complex(e.evalf(12, subs=point)) for e in (gold, answer))
        # The tolerance is far above that of math-verify, six decimals: close values are left to it.
        return not any(s.is_integer for s in letters) and abs(x - y) > 0.001 * max(1.0, abs(x), abs(y))
    except Exception:  # no number, undefined, or too large for a float
        return False


def _same_magnitude(gold: Any, answer: Any) -> bool:
    try:
        x, y = float(gold.doit()), float(answer.doit())
    except Exception:  # not two numbers
        return True
    return max(abs(x), abs(y)) > 1e-4 or abs(x - y) <= max(abs(x), abs(y)) / 100


def _readings(gold: str, answer: str) -> Iterator[tuple[str, str]]:
    """(gold, answer) as other texts that mean the same."""
    both = gold + answer
    if _DEGREES.search(both) and (_TRIGONOMETRIC.search(both) or r"\pi" in both):
        radians = r"(\\frac{\1 \\pi}{180})"
        yield _DEGREES.sub(radians, gold), _DEGREES.sub(radians, answer)
    left, right = _NAMED.fullmatch(content_of(gold)), _NAMED.fullmatch(content_of(answer))
    if left and "=" not in answer:
        yield box(left["body"]), answer
    elif left and right and (left["of"] is None) != (right["of"] is None) and not _names_itself(left, right):
        yield box(left["body"]), box(right["body"])


def _names_itself(*equations: re.Match[str]) -> bool:
    """Whether one of the equations is to be solved, as x = 2x, and so is no definition."""
    return any(equation["name"] in _LETTER.findall(equation["body"]) for equation in equations)


def _other_kinds(golds: Sequence[Any], answers: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """(gold, answer) as objects that mean the same: i as the imaginary unit, a row or column as a tuple."""
    for gold in golds:
        for answer in answers:
            if vectors := _coordinates(gold, answer) or _coordinates(answer, gold):
                yield vectors
            if isinstance(gold, MatrixBase) != isinstance(answer, MatrixBase):
                yield _entries(gold), _entries(answer)
            elif isinstance(gold, Basic) and isinstance(answer, Basic):
                pair = _with_unit(gold), _with_unit(answer)
                if pair != (gold, answer):
                    yield pair


def _entries(expression: Any) -> Any:
    if isinstance(expression, MatrixBase) and 1 in expression.shape:
        return Tuple(*expression)
    if isinstance(expression, Interval) and expression.left_open == expression.right_open:
        return Tuple(expression.start, expression.end)
    return expression


def _with_unit(expression: Basic) -> Basic:
    letters = [s for s in expression.free_symbols if isinstance(s, Symbol)]
    # math-verify takes the letters of e^{i t}, a reference answer of Minerva, for complex numbers, and those of e^{it}
    # for real ones.
    real = {s: Symbol(s.name, real=True) for s in letters if s.is_real is False}
    return expression.xreplace(real | {s: I for s in letters if s.name == "i"})


def _coordinates(combination: Any, vector: Any) -> tuple[Any, Any] | None:
    """A sum of multiples of the unit vectors i, j, k, and a vector, as tuples; None for other expressions."""
    if isinstance(vector, Interval) and vector.left_open and vector.right_open:
        entries = [vector.start, vector.end]
    elif (isinstance(vector, MatrixBase) and 1 in vector.shape) or isinstance(vector, Tuple):
        entries = list(vector)
    else:
        return None
    units = {s: str(s).removeprefix("vec{").rstrip("}") for s in getattr(combination, "free_symbols", ())}
    units = {s: name for s, name in units.items() if name in ("i", "j", "k")[: len(entries)]}
    if not isinstance(combination, Expr) or not (len(units) > 1 or any(str(s).startswith("vec{") for s in units)):
        return None
    multiples = combination.expand()
    parts = {name: multiples.coeff(s) for s, name in units.items()}
    rest = multiples - sum(parts[name] * s for s, name in units.items())
    return (Tuple(*entries), Tuple(*(parts.get(name, 0) for name in "ijk"[: len(entries)]))) if rest == 0 else None
