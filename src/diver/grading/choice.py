"""Multiple choice: a letter, or a number 1 to 9 where the options are numbered.

A letter after J counts only where the options are known.

Only what follows the last `</think>` counts. The choice is the last match of the first kind that has one:

1. The last box or answer tags: `\\boxed{B}`, `\\boxed{\\text{(B)}}`, `\\boxed{B) the text}`, or an option's text.
2. The last statement, in the languages of `languages`: "the answer is (B)", "Answer: B", "option B is correct", "I
   choose B", "wait, it is B", or "so B" at the end; "the answer is A or B" is no choice.
3. The last line, if it begins with a label ("B. dead organisms") or is the text of one option. Then the last marked
   letter: `(B)`, `**B**`, `B)`, or a line that holds nothing else.
4. The last capital that stands alone, where it can be no word and no part of a name: not before a small letter.

Several letters in a row, "(A), (B)", "A B" or "B, or maybe C", are no choice. Neither are the options of the question,
repeated. A letter after "not" or "rule out", one that "is wrong", and "The answer is B?" do not count.

A box with other content, such as a formula, is a wrong answer unless a letter is stated after it. So is a letter with
the text of another option. The options are `meta["options"]` (a list, or a mapping from letter to text), or what the
prompt lists: lines "A) ...", or "(a) ... (b) ..." in one line, or "a) ...".
"""

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from string import ascii_uppercase
from typing import NamedTuple

from diver.core.patterns import compile_later
from diver.core.types import Grade, Problem
from diver.grading import languages as words
from diver.grading.answer_end import marked_answers
from diver.grading.base import Grader
from diver.grading.extraction import Statement, after_thought, stated
from diver.grading.languages import INSIDE, LABELS
from diver.grading.spelling import composed

LETTERS = ascii_uppercase
NUMBERS = "123456789"
UNLISTED = LETTERS[:10]
"""Letters that are labels where the options are not known: a later one is more often a variable."""
# Characters of free text, from the end, in which a choice is looked for. The choice stands there, and time is bounded.
LONGEST = 16_384

_WIDE = rf"(?:[．：]|、(?!\s?[A-Z](?!{INSIDE})))"  # marks after a label; "A、B、C" is a list of names
_OPTION = re.compile(
    rf"^[ \t]*(?P<open>\(?)(?P<label>[A-Z]|[1-9](?=[).:]))(?P<close>[).:](?=\s)|{_WIDE})", re.MULTILINE
)
_IN_LINE = re.compile(rf"(?<!{INSIDE})(?:\(([A-Za-z])\)|([A-Z])(?:[.):](?=[\s}}])|{_WIDE}))")
_SMALL = re.compile(
    rf"^[ \t]*(?:[-*•][ \t]+)?([a-z])(?:[ \t]?\)|[.:](?=[ \t]))|(?<!{INSIDE})([a-z])[ \t]?\)", re.MULTILINE
)
_BETWEEN = re.compile(r"(?:\\q?quad|\\textbf\{|\\text\{|[\s\\,;])+")
_LABEL = (
    rf"([A-Z]|[1-9]|[{''.join(words.LETTERS)}])(?!{INSIDE}|[\u0300-\u036f\u0900-\u0dff]|['’](?![dt][iıuü]r\b)\w|[.,]\d)"
)
_NAMED = rf"[*_$(\[\"'`（「『【]{{0,4}}(?:\\(?:text|mathrm|mathbf|textbf)\{{)?[(（]?{_LABEL}"
_MARKS = r"[)\]*_}$\"'`’」』】）]{0,4}"
_SEP = r"(?:[ \t*_】\"']{0,3}[:：=—–][\s*_]{0,4}|[ \t*_】]{0,3})"
_COUNTED = r"(?:项|項|选项|選項|번|番)?"
_REJECTED = (
    rf"{_MARKS}[ \t]{{0,2}}{_COUNTED}[ \t]{{0,2}}(?:{words.IS}[ \t]{{0,2}}(?:{words.NOT}|{words.WRONG})|{words.WRONG}"
    rf"|(?:is|was)n['’]t|(?:cannot|can not|can['’]t) be|[?？]\s{{0,2}}(?:{words.NO}))"
)
_NEGATED = compile_later(
    rf"(?:{words.NOT}|{words.OTHER_THAN})(?:[ \t]{{0,2}}(?:{words.AFTER_ANSWER}|{words.BE})){{0,3}}"
    r"[ \t*\[(（「\"']{0,4}\Z",
    re.IGNORECASE,
)
_ASKED = r"[^\w\s?？]{0,4}[?？]"
_STATED = rf"{_SEP}{_NAMED}(?!{_ASKED}|{_REJECTED})"
_STATEMENT = compile_later(
    rf"{words.ANSWER}(?:{_SEP}{words.AFTER_ANSWER}){{0,5}}{_STATED}"
    rf"|{words.OPTION}(?:{_SEP}{words.RIGHT})?{_SEP}(?:{words.IS}|[:：=])(?:{_SEP}{words.AFTER_ANSWER}){{0,3}}{_STATED}"
    rf"|(?<!{INSIDE})(?:{words.OPTION}{_SEP})?{_NAMED}{_MARKS}{_COUNTED}[ \t]{{0,2}}(?!are\b){words.IS}?[ \t]{{0,2}}"
    rf"(?:(?:the|die|la|le|l['’])[ \t]{{0,2}})?(?:{words.RIGHT}|(?<=the )best|(?<=the )answer)"
    rf"(?![ \t](?:in|on|at|to|of|for)\b|-|{_ASKED})"
    rf"|(?<!{INSIDE}){words.CORRECTION}{_STATED}"
    rf"|\bI(?: would| will|['’]d|['’]ll)? (?:choose|pick|select|go with)[ \t](?:{words.OPTION}[ \t])?{_STATED}"
    rf"|\b(?:so|thus|therefore|hence),?[ \t](?:it(?:['’]s| is)[ \t])?{_NAMED}(?=[)\]*.\s]{{0,4}}\Z)"
    rf"|(?:故|应|應|所以|因此)?选(?:择|擇)?(?!项|項){_STATED}"
    rf"|選(?:択|擇)?(?!项|項|択肢){_STATED}",
    re.IGNORECASE,
)
_MARKED = compile_later(
    rf"(?<!{INSIDE})[(（【]([A-Za-z]|[1-9])[)）】](?!{_REJECTED})"
    rf"|\*\*[(]?([A-Z]|[1-9])[).:]?\*\*(?!{_REJECTED})"
    rf"|(?<![\w.(])([A-Z]|[1-9])\)(?!{_REJECTED})|^\s{{0,8}}([A-Z]|[1-9])[.:]?\s{{0,8}}$",
    re.MULTILINE,
)
_ALONE = compile_later(
    rf"(?<!\band )(?<!\bor )(?<!{INSIDE})(?<!['’.-])([A-Z])(?!{INSIDE}|['’-]|\.\w| [a-z]|{_REJECTED})"
)
_AND = rf"(?:[,、，/&+]|{words.AND_OR}|{words.AND_OR_SIGNS})"
_OPENS, _CLOSES = r"[\s(\[*$\"'`（【]{0,4}", r"[)\]}*\"'`\s$）】]{0,6}"
_ANOTHER = compile_later(
    rf"{_CLOSES}{_COUNTED}(?:{_AND}|[;；|]){_OPENS}(?:{words.AND_OR}{_OPENS})?"
    rf"(?:(?:maybe|perhaps|possibly|also)\s{_OPENS})?"
    rf"(?:(?i:{words.OPTION}){_OPENS})?([A-Z]|[1-9])(?!{INSIDE}|['’]\w|[.,]\d|"
    rf"(?:[\s,、，]{{0,2}}(?:{_AND})?\s?[A-Z](?!{INSIDE})){{0,8}}{_REJECTED}|"
    r" (?:is|are|was|were|would|does|do|did|has|have|can|could|cannot|seems?"
    r"|ist|sind|est|sont|es|son|è|são)\b(?! (?:both|all|equally)\b))(?!(?<=I) [a-z])"
)


def _beside(gap: str) -> re.Pattern[str]:
    """Another label after only a gap, "(A) (B)" or "A B", before one more label or the end of the line."""
    opens, closes = r"[(\[*`（【]{0,3}", r"[)\]*`）】]{0,4}"
    end = rf"{closes}(?:{gap}{opens}[A-Z1-9](?!{INSIDE}|[.,/]\d)|[.,;]?[ \t]{{0,8}}(?:\n|\Z))"
    return re.compile(rf"{closes}{gap}{opens}([A-Z]|[1-9])(?!{INSIDE})(?={end})")


_NEXT, _BELOW = _beside(r"[ \t]{0,3}"), _beside(r"\s{0,3}(?:[-•]\s{1,3})?")
_PRONOUN = re.compile(r"I (?!(?:because|since|as|is|and|or|for|by|due|which|based|from|with)\b)[a-z]|[aei] |[ei]\Z")
_FONT = r"\\(?:text(?:bf|sf|it|rm)?|math(?:rm|bf|sf|it))"
_WRAPPER = re.compile(rf"(?:{_FONT}|\\(?:bf|rm|left|right|quad|qquad))\b|[{{}}$*\\()\[\]\s.:：（）【】「」\"'`。]")
_MARKUP = re.compile(rf"{_FONT}\{{|[${{}}*\\]")
_LED = re.compile(rf"(?:{_FONT}\{{)?\(?([A-Z]|[1-9])[).:：、．](?!\d)\s*(?=\S)|\(([a-z])\)\s*(?=\S)")
_FURTHER = re.compile(r"(?<!\w)\(?([A-Z]|[1-9])\)(?!\w)")
_WITH_TEXT = re.compile(
    rf"(?:{_FONT}\{{)?[(\[*]{{0,3}}(?P<label>[A-Z]|[1-9])(?![\w'’])[)\]}}*]{{0,4}}"
    r"(?:[\s.:：,，、=–—~]|-(?=\s))*(?P<text>\S.*)",  # "A. -1": the sign belongs to the number
    re.IGNORECASE,
)
_PREFIX = compile_later(
    rf"^(?:(?:therefore|thus|hence|so)\b,?\s+)?[*_#]{{0,4}}(?:{_FONT}\{{)?\s*(?:the\s+)?(?:correct\s+|final\s+)?(?:{words.ANSWER}|{words.OPTION})"
    rf"(?:{_SEP}{words.AFTER_ANSWER}){{0,4}}{_SEP}",
    re.IGNORECASE,
)


class Choice(Grader):
    """Grader "choice": correct, wrong or no_answer. Linear in the length of the response."""

    name = "choice"
    rules = 16
    template = "boxed"

    def check_answer(self, problem: Problem) -> None:
        known_label(problem)

    def grade(self, response: str, problem: Problem) -> Grade:
        options, gold = known_label(problem)
        text = after_thought(response)
        statement = stated(text)
        choice = _choice(text, statement, options)
        if choice is None and not (statement and not statement.prose and statement.readings[0].strip()):
            return Grade.WRONG if statement and statement.given_up else Grade.NO_ANSWER
        return Grade.CORRECT if choice == gold else Grade.WRONG

    def final_answer(self, response: str, problem: Problem) -> str | None:
        """The label of the choice; None without a choice."""
        text = after_thought(response)
        return _choice(text, stated(text), options_of(problem))

    def answer_end(self, response: str, problem: Problem, correct: bool) -> int | None:
        """The first box or tags that name the chosen option, else the first statement of its letter."""
        text, options = after_thought(response), options_of(problem)
        label = self.final_answer(response, problem)
        if label is None:
            return None
        marked = (place.end for place in marked_answers(text) if chosen(place.text, options) == label)
        end = next(marked, None) or next(_ends_of(label, text), None)
        return None if end is None else len(response) - len(text) + end


def known_label(problem: Problem) -> tuple[Mapping[str, str], str]:
    """The options, and the label of the reference answer. ValueError if the answer is not an option."""
    options = options_of(problem)
    gold = chosen(problem.answer, options)
    if gold is None:  # options that could not be read as a list must not make their problem unusable
        options, gold = {}, chosen(problem.answer, {})
    if gold is None:
        raise ValueError(f"the answer {problem.answer[:40]!r} is neither the label nor the text of one option")
    return options, gold


def chosen(answer: str, options: Mapping[str, str]) -> str | None:
    """The label of the option that a reference answer names by its label or its text; None if it names none."""
    return _label(answer, options) or None


def _choice(text: str, statement: Statement | None, options: Mapping[str, str]) -> str | None:
    if statement is None:
        return _said(text, options)
    content = statement.readings[0]
    if statement.prose:
        return _said(content, options)
    choice = _label(content, options)
    if choice is None:
        # e.g. a formula: the letter may follow it
        choice = _said(text[statement.end :], options, alone=False)
    return choice or None


def _said(text: str, options: Mapping[str, str], alone: bool = True) -> str | None:
    """The choice of free text: its last statement, last line, last marked or last lone letter."""
    if len(text) > LONGEST:
        text = text[-LONGEST:].partition(" ")[2]  # from the next word on
    text = text.translate(LABELS)
    if _is_listed(text, options):
        return _last(_STATEMENT, text, options) or None
    ways = _ways(text, text.rstrip().rpartition("\n")[2], options, alone)
    return next((label for label in ways if label is not None), None) or None


def _ways(text: str, last_line: str, options: Mapping[str, str], alone: bool) -> Iterator[str | None]:
    """The result of each way to find a choice, the most reliable first: "" for no choice, None without a match."""
    yield _by_text(last_line, options)
    yield _last(_STATEMENT, text, options)
    yield _label(last_line, options)
    yield _last(_MARKED, text, options)
    if alone:
        yield _last(_ALONE, text, options)


def _is_listed(text: str, options: Mapping[str, str]) -> bool:
    """Whether a text ends with the options of the question."""
    listing = " ".join(f"{label} {content}" for label, content in options.items())
    listed_words, text_words = (" ".join(re.findall(r"\w+", passage)).casefold() for passage in (listing, text))
    return bool(listed_words) and text_words.endswith(listed_words)


def _ends_of(label: str, text: str) -> Iterator[int]:
    """The ends of the statements of `label` in free text, in order; without any, of its last marked or lone letter."""
    start = max(0, len(text) - LONGEST)
    text = text[start:].translate(LABELS)
    for pattern in (_STATEMENT, _MARKED, _ALONE):
        ends = [
            m.end(g) for m in pattern.finditer(text) for g, sign in enumerate(m.groups(), 1) if _latin(sign) == label
        ]
        if ends:
            yield from (start + end for end in (ends if pattern is _STATEMENT else ends[-1:]))
            return


def _latin(letter: str | None) -> str:
    """The label that a letter of any alphabet means."""
    return words.LETTERS.get(letter, letter).upper() if letter else ""


def _last(pattern: re.Pattern[str], text: str, options: Mapping[str, str]) -> str | None:
    """The label of the last match; "" if it is one of several in a row, None without a match."""
    last, end_of_row = None, -1
    for match in pattern.finditer(text):
        group = next(number for number, letter in enumerate(match.groups(), 1) if letter)
        label = _latin(match[group])
        start, end = match.span(group)
        if (
            label not in (options or UNLISTED + NUMBERS)
            or _is_word(text, start, options)
            or _NEGATED.search(text, max(0, start - 64), start)  # all the text for each match would be quadratic
        ):
            continue
        beside = _NEXT.match(text, end) if pattern is _STATEMENT else _BELOW.match(text, end)
        another = _ANOTHER.match(text, end) or beside
        if another and _is_another(another, label, options):
            last, end_of_row = "", another.end(1)
        elif not match.start() < end_of_row <= match.end():  # otherwise the match is the last letter of a row
            last = label
    return last


def _is_another(match: re.Match[str], label: str, options: Mapping[str, str]) -> bool:
    """Whether the text beside a label is the label of another option, not the number in "(B) 5"."""
    neighbour = match[1].upper()
    is_label = neighbour in options if options else neighbour in (NUMBERS if label.isdigit() else UNLISTED)
    return is_label and neighbour != label


def _is_word(text: str, start: int, options: Mapping[str, str]) -> bool:
    """Whether a letter is a word of a phrase, "ANSWER: I cannot tell", "the answer is a plant"."""
    if not _PRONOUN.match(text, start):
        return False
    option = _plain(options.get(text[start].upper(), ""))
    return not (option and _plain(text[start + 2 : start + 2000]).startswith(option))


def _label(answer: str, options: Mapping[str, str]) -> str | None:
    """The label that a short answer names, by itself ("(B)", "B) so and so") or by the text of exactly one option."""
    answer = answer.strip().translate(LABELS)
    if len(answer) > 2000:
        return None
    content = _PREFIX.sub("", answer)
    bare = _latin(_WRAPPER.sub("", content))
    if len(bare) == 1 and bare in (options or UNLISTED + NUMBERS):
        return bare
    if (named := _by_text(answer, options)) is not None:
        return named
    leading = _LED.match(content)
    label = (leading[1] or leading[2]).upper() if leading else None
    if leading is None or label is None or label not in (options or UNLISTED + NUMBERS):
        return None
    another = _ANOTHER.match(content, leading.end(leading.lastindex or 1))
    further = {*_FURTHER.findall(content[leading.end() :]), *(another.groups() if another else ())} - {label}
    return None if further & {*(options or UNLISTED)} else label


def _by_text(answer: str, options: Mapping[str, str]) -> str | None:
    """The label of the option whose text is the answer, with or without the label: "copper", "B - copper".

    "" if label and text belong to different options. None if the answer is not the text of an option.
    """
    if len(answer) > 2000 or not options:
        return None
    for text in dict.fromkeys((answer.strip(), _PREFIX.sub("", answer.strip()))):
        if label := _labelled(text, options):
            return label
        match = _WITH_TEXT.fullmatch(text)
        if match and (label := _labelled(match["text"], options)):
            named, is_article = match["label"].upper(), bool(re.match(r"[Aa] \w", text))
            if named == label or is_article:
                return label
            if named in options:
                return ""
    return None


def _labelled(text: str, options: Mapping[str, str]) -> str | None:
    wanted = _plain(text)
    if wanted.upper() in options:  # a label that may also be the text of another option: "B) c"
        return None
    labels = [label for label, content in options.items() if wanted and _plain(content) == wanted]
    return labels[0] if len(labels) == 1 else None


def _plain(text: str) -> str:
    text = composed(text)
    return " ".join(_MARKUP.sub("", text).split()).strip(" .。()").casefold()


# ---- the options that a prompt lists --------------------------------------------------------------------------------


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


def prompt_with_options(question: str, options: Mapping[str, str]) -> str:
    """A question and its options, label -> text; an option of several lines becomes one line."""
    lines = {label: re.sub(r"\s*\n\s*", " ", text.strip()) for label, text in options.items()}
    return Listed(f"{question.strip()}\n\n", lines, "", ("", ")")).prompt()


def listed(prompt: str) -> Listed | None:
    """The last list of at least two options in a prompt, labelled A, B, ... or 1, 2, ...; None without one.

    An option ends at the next label, the last one at an empty line. If the labels start again, the last list counts,
    not one inside the question.
    """
    for labels in (LETTERS, NUMBERS):
        matches = _run(((match["label"], match) for match in _OPTION.finditer(prompt)), labels)
        if len(matches) > 1:
            first, tail = matches[0], prompt[matches[-1].end() :].lstrip()
            last = re.split(r"\n[ \t]*\n", tail, maxsplit=1)[0].rstrip()
            texts = [prompt[match.end() : after.start()].strip() for match, after in itertools.pairwise(matches)]
            options = {match["label"]: text for match, text in zip(matches, [*texts, last], strict=True)}
            return Listed(prompt[: first.start()], options, tail[len(last) :], (first["open"], first["close"]))
    return None


def options_of(problem: Problem) -> dict[str, str]:
    """Label -> text: `meta["options"]` (a list or a mapping), else the list in the prompt; empty without a list."""
    column = problem.meta.get("options")
    if isinstance(column, Mapping):
        # parquet gives each row the labels of all rows, with None where a row has no such option
        return {str(label).upper(): str(text) for label, text in column.items() if text is not None}
    if isinstance(column, Sequence) and not isinstance(column, str):
        return _without_labels(dict(zip(LETTERS, map(str, column), strict=False)))
    in_lines = listed(problem.question)
    in_line = _IN_LINE.finditer(problem.question)  # "(a) iron (b) copper" or "A. iron B. copper"
    return dict(in_lines.options) if in_lines else _last_run(problem.question, in_line) or _small(problem.question)


def _without_labels(options: Mapping[str, str]) -> dict[str, str]:
    """The options without labels before their texts: "A) iron"; if all have a label, also "A)38" and "a ) iron"."""
    marks = {label: rf"\s*\(?{label}(?:[.:]|\s?\)|{_WIDE})\s*" for label in options}
    if all(re.match(marks[label], text, re.IGNORECASE) for label, text in options.items()):
        return {label: re.sub(marks[label], "", text, count=1, flags=re.IGNORECASE) for label, text in options.items()}
    return {label: re.sub(rf"^\s*\(?{label}[).:]\s+", "", text) for label, text in options.items()}


def _small(prompt: str) -> dict[str, str]:
    """The last options with small labels and no parenthesis before them, "a) iron b) copper" or lines "a. iron".

    No option may be empty. A letter inside parentheses or brackets, as in "[a, b)", is no label.
    """
    labels, end = [], 0
    for match in _SMALL.finditer(prompt):
        before = prompt[end : match.start()].rpartition("\n")[2]
        if before.count("(") + before.count("[") <= before.count(")") + before.count("]"):
            labels.append(match)
        end = match.end()
    options = _last_run(prompt, labels)
    return options if all(options.values()) else {}


def _last_run(prompt: str, labels: Iterable[re.Match[str]]) -> dict[str, str]:
    """The options of the last labels in order from A on; a text ends at the next label or at the end of its line.

    Empty if there are fewer than two.
    """
    run = _run(((match[match.lastindex or 0].upper(), match) for match in labels), LETTERS)
    options: dict[str, str] = {}
    for match, end in zip(run, [*(match.start() for match in run[1:]), len(prompt)], strict=False):
        text = prompt[match.end() : end].lstrip("} \t\r\n\u3000\xa0\\").partition("\n")[0]
        between = (glue.start() for glue in _BETWEEN.finditer(text) if glue.end() == len(text))
        options[LETTERS[len(options)]] = text[: next(between, None)]
    return options if len(options) > 1 else {}


def _run(labelled: Iterable[tuple[str, re.Match[str]]], labels: str) -> list[re.Match[str]]:
    """The last matches whose labels are in order from the first of `labels` on."""
    run: list[re.Match[str]] = []
    for label, match in labelled:
        if label == labels[0]:
            run = []
        if label == labels[len(run) : len(run) + 1]:
            run.append(match)
    return run
