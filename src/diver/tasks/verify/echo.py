r"""Whether an answer repeats the question: a formula of the problem that is not worked out.

To "What is 17 x 23?" the answer `17 \times 23` has the right value and solves nothing, and a policy that is rewarded
for it learns to copy. An answer is an echo if it holds an operation, stands in the problem, and the reference answer is
written in another way. A number without an operation is no echo. `\sqrt{53}` is no echo where it is the reference
answer.

Linear in the length of the texts.
"""

import re
from functools import lru_cache

from diver.core.types import Problem
from diver.tasks.verify.extraction import known_answer
from diver.tasks.verify.names import with_backslashes
from diver.tasks.verify.spelling import unify

LONGEST = 512  # characters of an answer that may be an echo
DEEPEST = 4  # maximum depth of nested fractions with a slash

_FUNCTIONS = (
    "binom sqrt log ln exp sin cos tan cot sec csc arcsin arccos arctan gcd lcm max min bmod mod pmod lfloor lceil"
    " overline dot(?!s) sum prod int lim det begin"
)
_OPERATION = re.compile(rf"[+*/^!|]|(?<=[\w)])-|\\(?:{'|'.join(_FUNCTIONS.split())})")
_UNIT = re.compile(r"\\(?:text|mathrm|mbox)\{[^{}\d]*\}|\^\{?\\circ\}?|\^\{?\\(?:text|mathrm)\{(?:st|nd|rd|th)\}\}?")
_FONT = re.compile(r"\\(?:text|mathrm|mbox|operatorname|mathbf)(?![A-Za-z])")
_TIMES = re.compile(r"\\(?:times|cdot)(?![A-Za-z])|(?<=\d)\s?[xX]\s?(?=\d)|(?<=\))\s?(?=\()")
_FRACTION = re.compile(r"\\frac\s?(?:\{([^{}]*)\}\s?\{([^{}]*)\}|(\d)(\d))|(?<![}c])\{([^{}]*)\}(?!\s?\{)")
_ATOM = re.compile(r"(?:(?<![A-Za-z])|(?<=\\sqrt))\(\s?([\w.\\]+)\s?\)")
_MARKS = re.compile(r"\\(?:left|right|displaystyle|limits)(?![A-Za-z])|\\[()\[\],;:! ]|[$~]")
_NAME = re.compile(r"(?:[A-Za-z]|\\[a-z]{2,8})(?:_\w{1,4})?(?:\(\w\)?)?")
_WRITTEN = re.compile(
    r"\$[^$]{1,256}\$|\\\((?:(?!\\[()])[^\n]){1,256}\\\)|\\\[(?:(?!\\[\[\]]).){1,256}\\\]|\d[-\d\s.+*/^()×÷!]*[\d)!]",
    re.DOTALL,
)
_SEPARATOR = re.compile(r"\\approx|[=,;]")
_SUM_OR_PRODUCT = re.compile(r"[\d+*.()]+")
_TOKEN = re.compile(r"\\[A-Za-z]+|\d+(?:\.\d+)?|[^\s()]")


def is_echo(answer: str, problem: Problem) -> bool:
    """Whether `answer` is a formula of the problem, not worked out: also behind a name, `N = 17 \\times 23`."""
    if len(answer) > LONGEST:
        return False
    sides = [side for side in _sides(answer) if _OPERATION.search(side) or not _NAME.fullmatch(side)]
    if not sides or not all(_OPERATION.search(side) for side in sides):
        return False
    question = _question(problem.question)
    gold = known_answer(problem.answer)
    known = [_form(text) for text in (_bare(gold), *_sides(gold))]
    return all(_stands_in(side, question) and _form(side) not in known for side in sides)


def without_echoes(text: str, problem: Problem) -> str:
    """The text without the formulas and the arithmetic that are echoes."""
    return _WRITTEN.sub(lambda found: " " if is_echo(found[0], problem) else found[0], text).strip()


def _stands_in(formula: str, question: str) -> bool:
    """Whether the question has the formula, not as a part of a longer number. Sums and products may be reordered."""
    if _SUM_OR_PRODUCT.fullmatch(formula):
        return _form(formula) in [_form(run.strip(".")) for run in _SUM_OR_PRODUCT.findall(question)]
    return bool(re.search(rf"(?<!\d)(?<!\d\.){re.escape(formula)}(?!\.?\d)", question))


@lru_cache(maxsize=1024)
def _question(prompt: str) -> str:
    return _bare(prompt)


def _bare(text: str) -> str:
    """One spelling of a formula or of a text with formulas: without spaces and delimiters, fractions with a slash."""
    text = with_backslashes(_FONT.sub("", _UNIT.sub("", unify(text))))
    text = _MARKS.sub("", _TIMES.sub("*", text)).replace(r"\div", "/").replace(r"\{", "(").replace(r"\}", ")")
    for _ in range(DEEPEST):
        text = _ATOM.sub(r"\1", _FRACTION.sub(_in_one_line, text))
    return re.sub(r"[{}\s]", "", text).strip(".,:;?")


def _in_one_line(found: re.Match[str]) -> str:
    top, bottom, digit, other, group = found.groups()
    return f"({group})" if group is not None else f"({top or digit})/({bottom or other})"


def _sides(formula: str) -> list[str]:
    """The parts between signs of equality, commas and semicolons, without the brackets around them."""
    return [side for part in _SEPARATOR.split(_bare(formula)) if (side := part.strip("()[]"))]


def _form(formula: str) -> list[str]:
    """The numbers, letters and operations of a formula, sorted, so that their order does not matter."""
    return sorted(_TOKEN.findall(formula))
