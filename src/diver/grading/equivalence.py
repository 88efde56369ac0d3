"""Are two answers equivalent? math-verify 0.9.0, and a few other readings of the same text. Runs in a worker process.

math-verify's own time limits are turned off: they use SIGALRM, and the pool's timeout does the work. Where math-verify
says no, these readings are tried, because they mean the same:

- `I_{m} = q/2` known and `q/2` answered: the name on the left, also where it is the letter of a constant.
- `y = 2x` for `f(x) = 2x`.
- Degrees under a sine or cosine, `\\sin(90^\\circ - x)`, or against radians: `90^\\circ` and `\\pi/2`.
- `\\pm` in both of its signs: `\\frac{3 \\pm \\sqrt{5}}{2}`.
- Inequalities in one letter, joined by "or", and the union of intervals that they describe.
- A count in words: `2.5 \\text{ million}` and `2500000`.
- A lone `i` is the imaginary unit in both: `i(2-i)` and `1+2i`.
- A row or column of a matrix, the tuple with the same entries, and the sum of these multiples of i, j and k.
- The forms of `readings`: without a condition, a modulus, an approximation or a unit of letters.
- A function that is defined by cases, case by case, in any order.
- Lists part by part: `R=1, I=(-6,-4)`, which math-verify cannot read. Where every part of the reference answer has a
  name of its own, the parts must agree by name or, without names, in their order. `y = 3, x = 4` is the point (4,3).
  `\\frac{1}{2}, 0.5` is `\\frac{1}{2}`.

math-verify takes the last number of a box that it cannot read, `1` of `R=1, I=(-6,-4)`; here such a box is a text, so
that no part passes for the whole. A point or an interval, (-3,3), is no set of two numbers, \\pm 3. An interval and the
inequality that describes it are compared, whichever of them is known. Where math-verify says yes, two numbers below
1e-4 must also agree to one per cent: it rounds to six decimals. `statements` corrects what it takes for equal and is
not.
"""

import re
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from itertools import permutations
from typing import Any
from zlib import crc32

from antlr4.atn.PredictionMode import PredictionMode
from latex2sympy2_extended import NormalizationConfig
from latex2sympy2_extended.latex2sympy2 import _Latex2Sympy
from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy import Basic, Eq, Expr, FiniteSet, I, Interval, MatrixBase, Or, Symbol, Tuple, UnevaluatedExpr
from sympy.core.relational import Relational

from diver.grading.brackets import outer_parts
from diver.grading.measures import SCALES, says_more, without_unit
from diver.grading.notation import box, content_of
from diver.grading.readings import approximations, is_rounded, simpler
from diver.grading.spelling import GAP
from diver.grading.statements import correct_math_verify

MOST_PARTS = 16  # a longer list is not compared part by part

_TRIGONOMETRIC = re.compile(r"\\(?:sin|cos|tan|cot|sec|csc)\b")
_DEGREES = re.compile(r"(?<!\d)(\d+(?:\.\d+)?)\s*\^\s*(?:\{\s*\\circ\s*\}|\\circ)")
_SEPARATOR = re.compile(  # also the second bracket of ]0,1[
    r"(?P<separator>\\\{|[\[({]|(?<!\\),(?!\d{3}(?!\d))|;|\b(?:and|or)\b)|\\\}|[\])}]"
)
_LETTER = re.compile(
    r"\\(?:text|math|operatorname|mbox)[a-z]*\s?\{[^{}]*\}|\\[A-Za-z]+|_(?:\{[^{}]*\}|.)|(?P<letter>[A-Za-z])(?!_)"
)
_WORD = re.compile(r"[A-Za-z][a-z]{2}")
_ARITHMETIC = re.compile(r"(?:[-+*/^=().!\d\s{}]|\\(?:frac|sqrt|binom|cdot|times|div|left|right|pi)(?![A-Za-z])|\\\$)+")
_POINT = re.compile(r"(?:\\left)?[(\[][^()\[\]]*,[^()\[\]]*[)\]]")
_SET = re.compile(r"(?:[A-Za-z]\s?\\in\s?)?(?:\\left)?\\\{[^()\[\]]*\}")
_ORDER = re.compile(r"[<>]|\\[lg]eq(?![A-Za-z])")
_REGION = re.compile(_ORDER.pattern + r"|\\in\s?(?:\\left\s?)?[(\[]")
_CASES = re.compile(
    r"(?:[^=,;\\]{1,40}=)?\s*(?:\\begin\{cases\}|(?:\\left\s?)?\\\{\s*\\begin\{array\}(?:\{[clr|\s]*\})?)"
    r"(?P<rows>.*)\\end\{(?:cases|array)\}\s*(?:\\right\s?\.?)?[.,]?",
    re.DOTALL,
)
_IF = re.compile(
    r"(?:\\text\s?\{\s{0,4})?\b(?:if|for|when|where)\b\s?\}?"
    r"|^[\s,]{0,8}(?:\\text\s?\{)?\s{0,4}(?:otherwise|else)\b.*",
    re.IGNORECASE,
)
_COUNT = re.compile(
    r"\\?\$?(?P<number>-?\d[\d.,]*) ?(?:\\[,; ])? ?(?:\\text\{ ?)?"
    rf"(?P<word>{'|'.join(SCALES)})(?P<of> [a-z ]{{0,60}})?\}}?",
    re.IGNORECASE,
)
_TEXT = r"\\(?:text(?:normal|bf|it|rm)?|math(?:rm|bf|it)|mbox)\s?\{"
_UNIT_OF_FORMULA = re.compile(rf"(?<=[\d}}]){GAP}{_TEXT}[^{{}}]{{1,40}}\}}(?:\^\{{?\d\}}?)?(?=\s?(?:\$|\\[)\]]))")
_WORDS = re.compile(rf"(?<![\^_{{\s,;]){GAP}{_TEXT}")
_UNITS = re.compile(rf"(?:(?:\s|~|\\[,;: ]|\\cdot|/){{0,4}}{_TEXT}(?P<words>[^{{}}]*)\}}(?:\^\{{?-?\d\}}?)?)+")
_HEDGE = re.compile(r"(?<![\^\w{])\d|\b(?:or|but|else|not)\b")
_NAMED = re.compile(
    r"(?P<name>(?:[A-Z]{2,4}|[A-Za-z]|\\[A-Za-z]+)(?:_(?:\w|\{[^{}]*\}))?(?:\^\{-1\})?)"
    r"(?P<of>\([A-Za-z](?:,\s*[A-Za-z])*\))?\s*=(?P<body>[^=]+)"
)
_VALUE_OF = re.compile(r"(?P<name>[A-Za-z](?:_(?:\w|\{[^{}]*\}))?\([^()=]{1,40}\))\s*=[^=]+")


def warm() -> None:
    """Import math-verify and build its expressions: about a second, once for each worker."""
    _predict_without_context()
    correct_math_verify()
    equivalent([r"\boxed{\frac{1}{2}x}"], [r"$\frac{x}{2}$"])


@cache
def _predict_without_context() -> None:
    """Have math-verify read LaTeX by ANTLR's SLL prediction, and again by LL where that finds an error.

    Where SLL finds none its tree is that of LL (ANTLR's PredictionMode.SLL), and only its decisions are cached.
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
    """Is one of the answers equivalent to one of the known ones? None if no text of `answers` holds an answer.

    Texts as math-verify reads them: a box, a formula in dollars, or prose. There is no time limit: call it in a worker.
    """
    expected = [gold for text in golds for gold in _parse(text)]
    if not expected:
        raise ValueError(f"nothing to compare with in the reference answer {golds[0][:80]!r}")
    has_answer = False
    for answer in answers:
        has_answer = has_answer or bool(_parse(answer))
        if _contradicts_itself(answer):
            continue
        if any(_same(*_by_case(gold, answer)) for gold in golds):
            return True
    return False if has_answer else None


def _contradicts_itself(text: str) -> bool:
    """An equation of numbers, 2+4=5 or x=4=5, whose sides differ, by more than a rounding if one is a decimal.

    Or an approximation, 5 \\approx 6, of which one side is another number. A formula in free text may be a line of
    work: there a chain that begins with a name, and an approximation, are left as they are.
    """
    content = content_of(text)
    sides = content.split("=")
    boxed = text.startswith(r"\boxed{")
    if boxed and len(sides) > 2 and not _ARITHMETIC.fullmatch(sides[0]):  # the name on the left, such as x
        sides = sides[1:]
    if len(sides) < 2 or not all(_ARITHMETIC.fullmatch(side) for side in sides):
        return boxed and _approximates_another(text)
    try:
        values = [complex(_parse(box(side.strip()))[0].evalf(12)) for side in sides]
    except Exception:  # a side that is no number
        return False
    tolerance = 0.01 if "." in content else 1e-9
    return any(abs(x - values[-1]) > tolerance * max(abs(x), abs(values[-1])) for x in values)


def _approximates_another(text: str) -> bool:
    """5 \\approx 6, and no approximation that is only a bad one."""
    numbers = _sides(text)
    return (
        len(numbers) == 2
        and abs(numbers[0] - numbers[1]) > 0.1 * max(map(abs, numbers))
        and not is_rounded(approximations(text)[1], *numbers)
    )


def _by_case(gold: str, answer: str) -> tuple[str, str]:
    """Both, with a name of its own for each capital of which the reference answer has the small letter, too.

    math-verify reads R as r, so that R - r would be r - R. A reference answer in words, and an answer in prose, stay as
    they are.
    """
    content = content_of(gold)
    letters = {found["letter"] for found in _LETTER.finditer(content)} - {None}
    capitals = {letter for letter in letters if letter.isupper() and letter.lower() in letters}
    if (
        not capitals
        or not answer.startswith(r"\boxed{")
        or _WORD.search(_LETTER.sub(lambda m: m["letter"] or " ", content))
    ):
        return gold, answer

    def named(found: re.Match[str]) -> str:
        letter = found["letter"]
        return f"{letter.lower()}_{{0}}" if letter in capitals else found[0]

    return box(_LETTER.sub(named, content)), box(_LETTER.sub(named, content_of(answer)))


def _same(gold: str, answer: str) -> bool:
    if (_is_point(gold) and _is_set(answer)) or (_is_set(gold) and _is_point(answer)):
        return False
    if any(
        _is_region(one) and _is_set(other) and not _is_region(other) for one, other in ((gold, answer), (answer, gold))
    ):
        return False
    left, right = _NAMED.fullmatch(content_of(gold)), _NAMED.fullmatch(content_of(answer))
    if left and right and left["name"] == right["name"] and left["of"] is None and not _names_itself(left, right):
        return _same(box(left["body"].strip()), box(right["body"].strip()))
    pieces = _pieces(gold), _pieces(answer)
    if all(pieces):
        return _same_pieces(*pieces)
    values = _values(gold), _values(answer)
    if values != ([gold], [answer]):
        return any(_same(one, other) for one in values[0] for other in values[1])
    known, given = _parts(gold), _parts(answer)
    if _is_bound(known, given) or _is_bound(given, known):
        return False
    if _is_point(gold) and "".join(sorted(map(_name, given))) in ("xy", "xyz", "ab", "abc"):
        given = sorted(given, key=_name)
        answer = box(", ".join(map(content_of, given)))
    names = [_name(part) for part in known]
    if len(known) > 1 and all(names) and len({*names}) == len(known):
        content = content_of(answer)
        given = _parts(box(content[1:-1])) if content[:1] + content[-1:] == "()" else given
    if len(known) > 1 and all(names) and len({*names}) == len(known) == len(given):
        if {*map(_name, given)} == {*names}:
            given = sorted(given, key=lambda part: names.index(_name(part)))
        return all(_same(*pair) for pair in zip(known, given, strict=True))
    for one, other in ((gold, answer), *_readings(gold, answer)):
        expected, parsed = _parse(one), _parse(other)
        if _equal(expected, parsed) or any(_equal([g], [a]) for g, a in _other_kinds(expected, parsed)):
            return True
    if 1 < len(given) <= MOST_PARTS and len(known) in (1, len(given)):
        pairs = [[_same(one, other) for other in given] for one in known]
        if all(map(any, pairs)) and all(map(any, zip(*pairs, strict=True))):
            return True
    return any(_same(*pair) for pair in simpler(gold, answer) if pair != (gold, answer))


def _pieces(text: str) -> list[tuple[str, str]]:
    """The values of a function that is defined by cases, each with its condition, "" for otherwise; else empty."""
    found = _CASES.fullmatch(content_of(text))
    rows = [row.split("&") for row in found["rows"].split(r"\\") if row.strip()] if found else []
    if not 0 < len(rows) <= MOST_PARTS or any(len(row) != 2 for row in rows):
        return []
    return [(value.strip().rstrip(",.;"), _IF.sub("", condition).strip(" ,.;}")) for value, condition in rows]


def _same_pieces(known: Sequence[tuple[str, str]], given: Sequence[tuple[str, str]]) -> bool:
    """Whether equal values have equal conditions; where all but one have, "otherwise" is any condition."""
    left = list(given)
    rest = []
    for value, condition in known:
        conditions = [other for other in left if other[1] == condition or _same(box(condition), box(other[1]))]
        if not conditions:
            rest.append((value, condition))
        elif not _same(box(value), box(conditions[0][0])):
            return False
        else:
            left.remove(conditions[0])
    if not rest or not left:
        return not rest and not left
    otherwise = not all((rest[0][1], left[0][1]))
    return len(rest) == len(left) == 1 and otherwise and _same(box(rest[0][0]), box(left[0][0]))


def _values(text: str) -> list[str]:
    """The two sides of a sign of approximation: the value, and the other where it is its rounding."""
    sides = approximations(text)
    if not sides:
        return [text]
    numbers = _sides(text)
    return sides if not numbers or is_rounded(sides[1], *numbers) else sides[:1]


def _sides(text: str) -> list[complex]:
    """The numbers on the two sides of a sign of approximation; empty if they are none, as in A \\approx B."""
    parsed = [_parse(box(content_of(side).rpartition("=")[2])) for side in approximations(text)]
    try:
        return [complex(side[0].evalf(12)) for side in parsed]
    except Exception:
        return []


def _is_point(text: str) -> bool:
    """A pair in parentheses or brackets: a point or an interval, which math-verify would take for a set."""
    return _POINT.fullmatch(content_of(text)) is not None


def _is_set(text: str) -> bool:
    """Numbers in braces, a number with both of its signs, or several values of one name."""
    content, names = content_of(text), [*map(_name, _parts(text))]
    several = len(names) > 1 and names[0] != "" and len({*names}) == 1
    return several or _SET.fullmatch(content) is not None or (r"\pm" in content and not _is_point(text))


def _is_region(text: str) -> bool:
    """An inequality, or a letter in an interval."""
    return bool(_REGION.search(content_of(text)))


def _is_bound(single: Sequence[str], listed: Sequence[str]) -> bool:
    """An inequality beside a list of numbers: its ends are not the list."""
    return len(single) == 1 < len(listed) and bool(_ORDER.search(single[0])) and not any(map(_ORDER.search, listed))


def _parts(text: str) -> list[str]:
    """The parts of a list without brackets around it, as boxes; the text itself if it is none."""
    if not text.startswith(r"\boxed{"):
        return [text]
    boxes = [box(part.strip()) for part in outer_parts(content_of(text), _SEPARATOR) if part.strip()]
    return boxes if len(boxes) > 1 else [text]


def _name(text: str) -> str:
    content = content_of(text)
    named = _NAMED.fullmatch(content) or _VALUE_OF.fullmatch(content)
    return named["name"] if named else ""


@lru_cache(maxsize=1024)  # the same reference answer is read for each response
def _parse(text: str) -> list[Any]:
    # Its rule of units would leave out the h of \pi r^2 h.
    normal = NormalizationConfig(units=False, malformed_operators=True, nits=True)
    if not text.startswith(r"\boxed{"):
        formulas = LatexExtractionConfig(normalization_config=normal)
        return parse(_UNIT_OF_FORMULA.sub(without_unit, text), [formulas, ExprExtractionConfig()], parsing_timeout=None)
    content = content_of(text)
    words = content.find(r"\text{")
    # Not a unit in 3 \text{ if } n = \frac{1}{2} and 42 \text{ (or 43)}: all from the first words on would be dropped.
    more = words > 0 and content.find("}", words) < len(content) - 5
    behind = _WORDS.search(content, 1)
    units = _UNITS.fullmatch(content, behind.start()) if behind else None
    if words > 0 and content.endswith("}") and (more or _HEDGE.search(content, words)):
        parsed: list[Any] = [content]
    elif units and says_more(units["words"]):
        parsed = [content]
    else:
        how = LatexExtractionConfig(try_extract_without_anchor=False, normalization_config=normal)
        parsed = parse(box(content[: units.start()]) if units else text, [how], parsing_timeout=None)
    return ["".join(parsed[0].split())] if parsed and isinstance(parsed[0], str) else parsed


def _equal(golds: Sequence[Any], answers: Sequence[Any]) -> bool:
    correct_math_verify()
    pairs = ((gold, answer) for gold in golds for answer in answers if not _apart(gold, answer))
    return any(
        verify(g, a, timeout_seconds=None, allow_set_relation_comp=True) and _same_magnitude(g, a) for g, a in pairs
    )


def _apart(gold: Any, answer: Any) -> bool:
    """Two expressions that surely differ: their values at one point are quick, the proof by algebra is not.

    Each letter has a positive value of its own there, so that roots and logarithms of products agree where they should.
    Two definitions of one letter are compared by their right sides. A letter alone is left to math-verify, which also
    compares it by its name, and so are letters that are integers.
    """
    if isinstance(gold, Eq) and isinstance(answer, Eq) and gold.lhs == answer.lhs and gold.lhs.is_Symbol:
        solved = gold.lhs not in gold.rhs.free_symbols | answer.rhs.free_symbols
        gold, answer = (gold.rhs, answer.rhs) if solved else (gold, answer)
    if not all(isinstance(e, Expr) and not isinstance(e, Symbol) for e in (gold, answer)):
        return False
    letters = gold.free_symbols | answer.free_symbols
    point = {s: 0.3 + crc32(str(s).encode()) / 2**32 for s in letters}
    try:
        if any(e.has(UnevaluatedExpr) for e in (gold, answer)):  # a percentage, which is compared in two ways elsewhere
            return False
        x, y = (complex(e.evalf(12, subs=point)) for e in (gold, answer))
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
    if r"\pm" in both:
        yield _both_signs(gold), _both_signs(answer)
    if _counted(gold) != gold or _counted(answer) != answer:
        yield _counted(gold), _counted(answer)
    left, right = _NAMED.fullmatch(content_of(gold)), _NAMED.fullmatch(content_of(answer))
    if left and "=" not in answer:
        yield box(left["body"]), answer
    elif left and right and (left["of"] is None) != (right["of"] is None) and not _names_itself(left, right):
        yield box(left["body"]), box(right["body"])


def _names_itself(*equations: re.Match[str]) -> bool:
    """Whether one of them is an equation to solve, x = 2x, and no definition."""
    return any(
        equation["name"] in {found["letter"] for found in _LETTER.finditer(equation["body"])} for equation in equations
    )


def _both_signs(text: str) -> str:
    left, sign, right = content_of(text).partition(r"\pm")
    return box(f"{left}+{right}, {left}-{right}") if sign and r"\pm" not in right else text


def _counted(text: str) -> str:
    count = _COUNT.fullmatch(content_of(text))
    if not count or says_more(count["of"] or ""):
        return text
    return box(f"{count['number']}{SCALES[count['word'].lower()]}")


def _other_kinds(golds: Sequence[Any], answers: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    """(gold, answer) as objects that mean the same: i as the imaginary unit, a row or column as a tuple, a union."""

    def entries(expression: Any) -> Any:
        if isinstance(expression, MatrixBase) and 1 in expression.shape:
            return Tuple(*expression)
        if isinstance(expression, Interval) and expression.left_open == expression.right_open:
            return Tuple(expression.start, expression.end)
        return expression

    def region(expression: Any) -> Any:
        relations = expression.args if isinstance(expression, FiniteSet) and len(expression.free_symbols) == 1 else ()
        if len(relations) < 2 or not all(isinstance(relation, Relational) for relation in relations):
            return expression
        regions = [relation.as_set() for relation in relations]  # one within another is a second guess: x>2, x>3
        apart = not any(one.is_subset(other) for one, other in permutations(regions, 2))
        return Or(*relations).as_set() if apart else expression

    def with_unit(expression: Basic) -> Basic:
        letters = [s for s in expression.free_symbols if isinstance(s, Symbol)]
        # math-verify takes the letters of e^{i t} for complex numbers, and those of e^{it} for real ones.
        real = {s: Symbol(s.name, real=True) for s in letters if s.is_real is False}
        return expression.xreplace(real | {s: I for s in letters if s.name == "i"})

    def with_plain_vectors(expression: Basic) -> Basic:
        vectors = {s: Symbol(str(s)[4:-1]) for s in expression.free_symbols if str(s).startswith("vec{")}
        plain = {s: Symbol(str(s)) for s in expression.free_symbols if str(s) in ("i", "j", "k")}
        return expression.xreplace(vectors | plain)

    for gold in golds:
        for answer in answers:
            described = region(gold), region(answer)
            if described[0] is not gold or described[1] is not answer:
                yield described
            if vectors := _coordinates(gold, answer) or _coordinates(answer, gold):
                yield vectors
            if isinstance(gold, MatrixBase) != isinstance(answer, MatrixBase):
                yield entries(gold), entries(answer)
            elif isinstance(gold, Basic) and isinstance(answer, Basic):
                for named in (with_unit, with_plain_vectors):
                    other = named(gold), named(answer)
                    if other != (gold, answer):
                        yield other


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
