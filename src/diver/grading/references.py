"""Find the reference answer and the options in the columns of a row, and the verifier for them ("auto").

A complete solution counts as its final answer: "... #### 72", "... A: 72", "... The answer is 72.", a boxed one.
"""

import ast
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, NamedTuple

from diver.core.columns import COLUMNS, present, value_at
from diver.core.types import Problem
from diver.grading.choice import LETTERS, chosen, options_of
from diver.grading.extraction import bare, stated
from diver.grading.languages import UNSPACED

SCALAR = str | int | float | Decimal
"""What an answer or an option may be."""
LONGEST_LIST = 100_000  # characters of a list that a CSV writes into one cell

_GSM8K = re.compile(r"####\s*(\S[^\n]*)\s*$")
_CALCULATION = re.compile(r"<<[^<>\n]*>>")  # as the solutions of GSM8K have them
_LAST_LINE = re.compile(r"A[:：]\s*(?P<answer>\S.*)")
_LETTER = re.compile(r"[A-Z]|\([A-Za-z]\)|[A-Za-z]\)|[A-Z]\.")
_SMALL = re.compile(r"[a-z]")
_WORDS = re.compile(rf"(?=.*(?:[^\W\d_]{{3}}|[{UNSPACED}]))[^\\=^_{{}}<>+*/|\d]+")
_QUOTED = r"""(?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*")"""
_NUMPY = re.compile(rf"\[({_QUOTED}(?:\s+{_QUOTED})+)\]")
_NUMPY_TEXT = re.compile(_QUOTED)
_NUMPY_CALL = re.compile(r"array\((?=\[)|(?<=\]),\s{0,20}dtype=object\)")


class Reference(NamedTuple):
    answer: str
    verifier: str
    reason: str
    """Why this verifier grades it, as the end of a sentence."""


def answer_and_verifier(prompt: str, reference: str, origin: str, options: Any = None) -> Reference:
    """Find the reference answer in the answer column of a row, and the verifier for it.

    Args:
        prompt: The question, which may list options.
        reference: The content of the answer column, an answer or a complete solution.
        origin: Names of the data; GSM8K's answers are graded by "gsm8k".
        options: The options outside the question, if the row has any (see `options_in`).
    """
    answer = final_answer(reference)
    if _GSM8K.search(reference) or _CALCULATION.search(reference) or "gsm8k" in origin.lower():
        return Reference(answer, "gsm8k", "the data is GSM8K's or its like")
    problem = Problem("", prompt, answer, meta={} if options is None else {"options": options})
    if reason := _why_choice(problem, in_column=options is not None):
        return Reference(answer, "choice", reason)
    return Reference(answer, "math", "the reference answer is none of several options")


def _why_choice(problem: Problem, in_column: bool) -> str:
    listed = options_of(problem)
    label = chosen(problem.answer, listed) if listed else None
    if label is None:
        return ""
    where = "a column" if in_column else "the question"
    # A small letter that is the text of an option may be a variable.
    is_small = _SMALL.fullmatch(problem.answer) and (in_column or problem.answer not in listed.values())
    if _LETTER.fullmatch(problem.answer.strip()) or is_small:
        return f"the reference answer is the letter of an option in {where}"
    # A number may also be the answer to a question that merely contains a list.
    if in_column or _WORDS.fullmatch(problem.answer):
        return f"the reference answer is the text of an option in {where}"
    return ""


def text_of(value: Any) -> str:
    """A value of a row as text. 3.0 becomes 3: a column of integers with missing values holds decimals."""
    is_integer = isinstance(value, float | Decimal) and math.isfinite(value) and value % 1 == 0
    return str(int(value) if is_integer else value)


def is_letter(answer: str, small: bool = False) -> bool:
    """Whether a reference answer labels an unknown option: B, (B) or (b). With `small` also b, maybe a variable."""
    is_label = _LETTER.fullmatch(answer.strip()) or (small and _SMALL.fullmatch(answer.strip()))
    return bool(is_label) and chosen(answer, {}) is not None


def final_answer(solution: str) -> str:
    """The final answer of a reference that is a complete solution; else the reference itself."""
    if _GSM8K.search(solution):
        return after_hashes(solution)
    statement = stated(solution)
    if statement and statement.finished and not statement.prose:
        return statement.readings[0].strip() or solution.strip()
    *before, last = solution.strip().splitlines() or [""]
    if before and (match := _LAST_LINE.fullmatch(last.strip())):
        return match["answer"].strip()
    stripped = bare(last)
    return solution.strip() if stripped == last.strip() else stripped.rstrip(".。").strip() or solution.strip()


def after_hashes(text: str) -> str:
    """What follows the last "####", as in GSM8K; else the text."""
    gsm8k = _GSM8K.search(text)
    return gsm8k[1].strip() if gsm8k else text.strip()


def by_index(problems: Sequence[Problem]) -> tuple[dict[int, Problem], int | None]:
    """The problems whose reference answers are numbers of options in a column, by position, and the first number.

    Letters replace these answers, and the verifier becomes "choice". Either all answers count from 0, as in MMLU, and
    one is 0; or all count from 1, and one is the last option. Most of the answers must not be the text of an option.
    If most problems have such an answer, and none is 0 or the last option, the first number is unknown: None.
    """
    counted = {
        i: p
        for i, p in enumerate(problems)
        if p.verifier in ("math", "choice") and _in_order(p.meta.get("options")) and p.answer.isdecimal()
    }
    first = 0 if any(int(p.answer) == 0 for p in counted.values()) else 1
    beyond = max((int(p.answer) - len(p.meta["options"]) for p in counted.values()), default=1)
    nameless = sum(chosen(p.answer, options_of(p)) is None for p in counted.values())
    if first and beyond < 0 and 2 * nameless > len(problems):
        return {}, None
    if 2 * nameless <= len(counted) or ((beyond >= 0) if first == 0 else (beyond != 0)):
        return {}, first
    letters = {i: LETTERS[int(p.answer) - first] for i, p in counted.items()}
    return {i: replace(p, answer=letters[i], verifier="choice") for i, p in counted.items()}, first


def _in_order(options: object) -> bool:
    """Whether options have an order to which an index may refer: a list, or texts by the letters A, B, C, ..."""
    if isinstance(options, Mapping):
        return LETTERS.startswith("".join(options).upper())
    return isinstance(options, list) and len(options) <= len(LETTERS)


# The columns of lettered options, and how many of them a row must have: columns a, b and c may also be coefficients.
_LETTERED = tuple(
    ([*map(name.format, letters)], 4 if (name, letters) == ("{}", LETTERS.lower()) else 2)
    for name, letters in itertools.product(COLUMNS["option"], (LETTERS, LETTERS.lower()))
)


def options_in(row: Mapping[str, Any]) -> list[str] | dict[str, str] | None:
    """The options of a row, in one column or in a column for each, such as A, B, ... or option_a, ...; else None."""
    for path in present(row, COLUMNS["options"]):
        if (options := _options(value_at(row, path))) is not None:
            return options
    for columns, needed in _LETTERED:
        if columns[0] in row and all(isinstance(row.get(column), str) for column in columns[:needed]):
            lettered = itertools.takewhile(lambda column: isinstance(row.get(column), str), columns)
            return {letter: row[column] for letter, column in zip(LETTERS, lettered, strict=False)}
    return None


def _options(value: Any) -> list[str] | dict[str, str] | None:
    """Texts, texts by label, {"text": [...], "label": [...]} or [{"label": ..., "text": ...}]; or a string of these.

    A string may also be a text with labels, as in MathQA: "a ) 38 , b ) 30".
    """
    if isinstance(value, str):
        value = _parsed(value)
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, Mapping):
        texts, labels = value.get("text"), value.get("label")
        if isinstance(texts, Sequence) and isinstance(labels, Sequence) and not isinstance(texts, str):
            value = dict(zip(labels, texts, strict=False))
        options = {str(label): text_of(text) for label, text in value.items() if isinstance(text, SCALAR)}
        return options if len(options) > 1 else None
    if not isinstance(value, list | tuple) or len(value) < 2:
        return None
    if all(isinstance(option, Mapping) and {"label", "text"} <= option.keys() for option in value):
        return {str(option["label"]): text_of(option["text"]) for option in value}
    return [text_of(option) for option in value] if all(isinstance(option, SCALAR) for option in value) else None


def _parsed(text: str) -> Any:
    """The options in a text: the value if it is JSON or written by Python or NumPy, else the texts after labels."""
    if len(text) > LONGEST_LIST:
        return None
    if array := _NUMPY.fullmatch(text):  # ['iron' 'copper'], which Python reads as one text
        return [ast.literal_eval(element) for element in _NUMPY_TEXT.findall(array[1])]
    # {'text': array(['iron', 'copper'], dtype=object), ...}, as pandas writes ARC's options
    without_arrays = _NUMPY_CALL.sub("", text)
    ways = ((json.loads, text), (ast.literal_eval, text), (ast.literal_eval, without_arrays))
    for read, written in ways if text[:1] in ("[", "{", "(") else ():
        try:
            return read(written)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return options_of(Problem("", text, ""))
