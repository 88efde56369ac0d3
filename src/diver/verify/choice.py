"""Multiple choice: a letter A to J, or a number 1 to 9 where the options are numbered.

What counts as the choice, in this order, always the last of its kind and only after the last `</think>`:

1. The last box: `\\boxed{B}`, `\\boxed{\\text{(B)}}`, `\\boxed{B) the text}`, or the text of one option.
2. The last statement: "the answer is (B)", "Answer: B", "option B is correct"; "the answer is A or B" is no choice.
3. The last line, if it begins with a label ("B. dead organisms") or is the text of one option; then the last mention of an
   option ("I would go with option B") that is not rejected there ("option B is wrong", "not option B"); then the last
   marked letter: `(B)`, `**B**`, `B)`, or a line that holds nothing else.
4. The last capital that stands alone, where it can be no word and no part of a name: not before a small letter.

Letters in a row, "(A), (B)" or "B, or maybe C", are no choice, a letter behind "not" or "rule out" is none, and "The answer is
B?" states none.

A box with something else in it is a wrong answer: what comes before it is ignored. The options are
`meta["options"]` (a list, or a mapping from letter to text), or the lines "A) ..." of the prompt.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from diver.types import Grade, Problem
from diver.verify.extraction import boxed
from diver.verify.thought import after_thought

LETTERS = "ABCDEFGHIJ"
NUMBERS = "123456789"

_OPTION = re.compile(r"^[ \t]*(?P<open>\(?)(?P<label>[A-J]|[1-9])(?P<close>[).:])(?=\s)", re.MULTILINE)
_NAMED = r"[*_$(\[\"'`]{0,4}(?:\\(?:text|mathrm|mathbf)\{)?[(]?([A-J]|[1-9])(?![\w'’]|[.,]\d)"
_NOT = "".join(
    f"(?<!{before} {between})"
    for before in (r"\b[Nn][Oo][Tt]", "[Nn]['’][Tt]", r"\b[Rr]ule out", r"\b[Rr]uled out")
    for between in ("", r"\(", "[Oo]ption ")
)
_STATEMENT = re.compile(
    r"\b(?:answer(?:[ \t]+is|[ \t]*[:=])?|(?:choice|option)(?:[ \t]+is|[ \t]*[:=]))[ \t]*(?:option[ \t]*)?[\s:]{0,3}"
    rf"{_NAMED}(?![^\w\s?]{{0,4}}\?)|\b(?:choice|option)[ \t]+{_NAMED}[^\w\s]{{0,4}}[ \t]+is[ \t]+(?:the[ \t]+)?(?:correct|right|best|answer)\b",
    re.IGNORECASE,
)
_MENTION = re.compile(
    rf"{_NOT}\b(?:choice|option)[\s:]{{0,3}}{_NAMED}"
    r"(?![^\w\s]{0,4}[ \t]+(?:is|was)(?:n['’]t|[ \t]+(?:not|wrong|incorrect|false))\b)",
    re.IGNORECASE,
)
_MARKED = re.compile(
    rf"{_NOT}\(([A-J]|[1-9])\)|{_NOT}\*\*[(]?([A-J]|[1-9])[).:]?\*\*|{_NOT}(?<![\w.(])([A-J]|[1-9])\)|"
    r"^\s{0,8}([A-J]|[1-9])[.:]?\s{0,8}$",
    re.MULTILINE,
)
_ALONE = re.compile(rf"{_NOT}(?<!\band )(?<!\bor )(?<![\w'’.-])([A-J])(?![\w'’-]|\.\w| [a-z])")
_ANOTHER = re.compile(
    r"[)\]}*\"'`\s$]{0,6}(?:,|/|&|\bor\b|\band\b)[\s(\[*$]{0,4}(?:\b(?:or|and)\b[\s(\[*$]{0,4})?(?:(?:maybe|perhaps|possibly)\s[(\[*$]{0,4})?([A-J]|[1-9])"
    r"(?![\w'’]|[.,]\d| (?:is|are|was|were|would|does|do|did|has|have|can|could|cannot|seems?)\b)(?!(?<=I) [a-z])"
)
_FONT = r"\\(?:text(?:bf|sf|it|rm)?|math(?:rm|bf|sf|it))"
_WRAPPER = re.compile(rf"(?:{_FONT}|\\(?:bf|rm|left|right))\b|[{{}}$*\\()\[\]\s.:]")
_LED = re.compile(rf"(?:{_FONT}\{{)?\(?([A-J]|[1-9])[).:]\s*(?=\S)")
_FURTHER = re.compile(r"(?<!\w)\(?([A-J]|[1-9])\)(?!\w)")
_PREFIX = re.compile(
    rf"^(?:{_FONT}\{{)?\s*(?:the\s+)?(?:correct\s+)?(?:answer|choice|option)\b(?:\s+is\b)?\s*:?", re.IGNORECASE
)


def grade(response: str, problem: Problem) -> Grade:
    """Verifier "choice": correct, wrong or no_answer. Linear in the length of the response."""
    options, gold = known_label(problem)
    text = after_thought(response)
    boxes = boxed(text)
    choice = _choice(text, boxes, options)
    if choice is None and not (boxes and boxes[0].strip()):
        return Grade.NO_ANSWER
    return Grade.CORRECT if choice == gold else Grade.WRONG


def known_label(problem: Problem) -> tuple[Mapping[str, str], str]:
    """The options, and the label of the reference answer. ValueError where it is none of them."""
    options = options_of(problem)
    gold = _label(problem.answer, options)
    if gold is None:  # options that could not be read as a list must not make their problem unusable
        options, gold = {}, _label(problem.answer, {})
    if gold is None:
        raise ValueError(f"the answer {problem.answer[:40]!r} is neither the label nor the text of one option")
    return options, gold


def final_answer(response: str, problem: Problem) -> str | None:
    """The label of the choice, by which maj@k counts votes; None where there is none."""
    text = after_thought(response)
    return _choice(text, boxed(text), options_of(problem))


def _choice(text: str, boxes: Sequence[str], options: Mapping[str, str]) -> str | None:
    if boxes:
        return _label(boxes[0], options)
    found = _last(_STATEMENT, text, options)
    if found is None:
        found = _label(text.rstrip().rpartition("\n")[2], options)
    if found is None:
        found = _last(_MENTION, text, options)
    if found is None:
        found = _last(_MARKED, text, options)
    if found is None:
        found = _last(_ALONE, text, options)
    return found or None


def _last(pattern: re.Pattern[str], text: str, options: Mapping[str, str]) -> str | None:
    """The label of the last match; "" where it is one of several in a row, None without any."""
    last, end_of_row = None, -1
    for match in pattern.finditer(text):
        label = next(group for group in match.groups() if group)
        article = label in "ai" and text[match.end() : match.end() + 1] == " "  # "the answer is a plant"
        if article or (options and label.upper() not in options):
            continue
        another = _ANOTHER.match(text, match.end())
        if another and another[1] != label.upper() and (another[1] in options or not options):
            last, end_of_row = "", another.end(1)
        elif not match.start() < end_of_row <= match.end():  # else it is the last of a row
            last = label.upper()
    return last


def _label(answer: str, options: Mapping[str, str]) -> str | None:
    """The label that a short answer names, by itself ("(B)", "B) so and so") or by the text of exactly one option."""
    answer = answer.strip()
    if len(answer) > 2000:
        return None
    unled = _PREFIX.sub("", answer)
    bare = _WRAPPER.sub("", unled).upper()
    if len(bare) == 1 and (bare in options or (not options and (bare in LETTERS + NUMBERS))):
        return bare
    named = [label for label, text in options.items() if _same_text(text, answer) or _same_text(text, unled)]
    if len(named) == 1:
        return named[0]
    led = _LED.match(answer)
    if led is None or (options and led[1] not in options):
        return None
    others = {*_FURTHER.findall(answer[led.end() :])} - {led[1]}
    return None if others & {*(options or LETTERS)} else led[1]


def _same_text(left: str, right: str) -> bool:
    plain = [" ".join(re.sub(r"\\text\{|[${}\\]", "", text).split()).rstrip(".").casefold() for text in (left, right)]
    return plain[0] == plain[1] != ""


# ---- the options that a prompt lists ------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """A prompt taken apart: the text before the options, label -> text, the text after them, and "(" and ")"."""

    before: str
    options: Mapping[str, str]
    after: str
    marks: tuple[str, str]

    def prompt(self) -> str:
        opening, closing = self.marks
        lines = "\n".join(f"{opening}{label}{closing} {text}" for label, text in self.options.items())
        return f"{self.before}{lines}{self.after}"


def listed(prompt: str) -> Listed | None:
    """The last list of at least two options in a prompt, labelled A, B, ... or 1, 2, ...; None without one.

    An option ends at the next label, the last one at an empty line. Where labels begin anew, the last list counts, not one
    inside the question.
    """
    for labels in (LETTERS, NUMBERS):
        matches: list[re.Match[str]] = []
        for match in _OPTION.finditer(prompt):
            if match["label"] == labels[0]:
                matches = [match]
            elif matches and len(matches) < len(labels) and match["label"] == labels[len(matches)]:
                matches.append(match)
        if len(matches) > 1:
            return _listed(prompt, matches)
    return None


def _listed(prompt: str, matches: Sequence[re.Match[str]]) -> Listed:
    tail = prompt[matches[-1].end() :].lstrip()
    last = re.split(r"\n[ \t]*\n", tail, maxsplit=1)[0].rstrip()
    texts = [prompt[match.end() : after.start()].strip() for match, after in itertools.pairwise(matches)] + [last]
    options = {match["label"]: text for match, text in zip(matches, texts, strict=True)}
    return Listed(prompt[: matches[0].start()], options, tail[len(last) :], (matches[0]["open"], matches[0]["close"]))


def options_of(problem: Problem) -> dict[str, str]:
    """Label -> text: `meta["options"]` (a list, or a mapping), else what the prompt lists; empty where it lists none."""
    given = problem.meta.get("options")
    if isinstance(given, Mapping):
        # parquet gives each row the labels of all rows, with None where a row has no such option
        return {str(label).upper(): str(text) for label, text in given.items() if text is not None}
    if isinstance(given, Sequence) and not isinstance(given, str):
        return dict(zip(LETTERS, map(str, given), strict=False))
    prompt = problem.prompt if isinstance(problem.prompt, str) else problem.prompt[-1].get("content", "")
    parts = listed(prompt)
    return dict(parts.options) if parts else {}
