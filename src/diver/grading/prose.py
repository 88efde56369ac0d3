"""The answer that a text without boxes states: a number, a formula, or words.

`said` reads a sentence such as "The answer is 5." in many languages, `says` compares words. `picked_number` is the
number that math-verify picks, where that can be decided without running it.

math-verify looks for the word "answer" first: a formula within 50 characters of it, or the number that follows it. If
the next 100 characters have a "=", it is the number after the last one. Without such a match it takes the number or the
formula that ends last. Its search needs milliseconds per text and may never end. The cases here are those in which it
cannot pick a formula or arithmetic instead, and each is read in one pass.
"""

import re
from collections import deque
from collections.abc import Iterator

from diver.core.patterns import compile_later
from diver.grading.extraction import last_number
from diver.grading.languages import ANSWER, CORRECTION, IS, NOT, RIGHT, TABLE, UNSPACED
from diver.grading.measures import unit_free
from diver.grading.names import with_backslashes
from diver.grading.spelling import MONEY

NEAR_THE_END = 200  # the last number is searched in so many characters; earlier ones belong to the reasoning
LONGEST_SAID = 120  # characters of what "the answer is" names

_OPERATORS = r"\-+*×/^()÷"
_PERCENT = r"(?P<percent>\s*(?:%|[Pp]ercent|[Pp]ct))?+"
_ALONE = rf"(?:[.\s]*+(?![\d{_OPERATORS}])|\s?[{_OPERATORS}]\s?(?=[A-Za-z]))"  # "5 * apples" is no arithmetic
_NUMBER = (
    rf"(?:\\?\$|[{MONEY}])?(?P<number>-?(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d+)(?:\.\d+)?){_PERCENT}(?![,.]?\d){_ALONE}"
)
_FRACTION = r"(?P<fraction>\d+/\d+)(?=\.?(?:\s*$|\s+[A-Za-z]))"  # math-verify reads "1/3 ." as 1
_LAST = compile_later(rf"(?:=\s*|[^\d\s.{_OPERATORS}]\.?\s+)(?:{_NUMBER}|{_FRACTION})[^\d$\]\\}}]*$")
_FIRST = compile_later(rf"[^\d\n${_OPERATORS}]{{0,48}}\s{_NUMBER}")
_AFTER_EQUALS = compile_later(rf"\s+{_NUMBER}")
_MENTION = compile_later("(?i:answer)")
_EXPRESSION = compile_later(  # not only letters; "(a) 5" is a part of an answer, and "<<2+3=5>>" a calculation of GSM8K
    r"(?=.*[\d()\[\]{}+*/^=<>²³√π∞\\])(?!.*(?:(?<![A-Za-z])\([a-h]\)\s|<<))"
    r"(?:[-\d\s.,;:+*/^!_'~|()\[\]{}<>=%°π√∞±×÷·≤≥²³−–]"
    r"|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|\\[A-Za-z]+|\b(?:and|or)\b)+"
)
_FORMULA = compile_later(r"[\\\[]|\$[^$]*\$")


SAID = compile_later(
    rf"(?:{ANSWER}[ \t*_】\"]{{0,4}}(?:{RIGHT}[ \t]{{0,2}})?(?:{IS}|[:：=】])"
    rf"|{CORRECTION}(?=\W{{0,4}}(?:\d|frac|sqrt)))"
    r"[ \t*_:：]{0,6}"
    rf"(?P<said>(?:(?!\.[\s*]|\bI mean)[^\n。！？?!]){{1,{LONGEST_SAID}}})(?P<asked>[?？])?",
    re.IGNORECASE,
)
# Words in small letters with which a statement in ASCII begins: the first letters of each "answer", and what corrects.
# Without regard to case, i is also the Turkish ı.
_BEGINNINGS = (
    *(word[:5] for word in (word.replace("ı", "i") for word in TABLE["answer"]) if word.isascii()),
    *("wait", "actually", "hmm", "sorry", "oops", "correction:", "i mean", "scratch that"),
)
_NO = compile_later(r"no(?!\w)")
DELIMITED = compile_later(r"\$[^$]+\$|\\\(.+?\\\)|\\\[.+?\\\]")
_NO_NUMBER = compile_later(r"[-+*/=^\\<>()\[\]{}|≈~±×÷√]|\d")
_SUM = r"\d[\d.,]{0,20}\s?[-+*/×÷x=]\s?\d"
_ASIDE = compile_later(
    rf",\s(?:which|since|because|as|where)\s|,\s(?:i\.e\b|\")|\s(?:since|because)\s|\s\((?!or\b)(?=[a-z]{{2}}|{_SUM})"
    rf"|,\snot\s|:\s(?={_SUM})|(?<=[a-z]):\s(?=\d)|(?<=\d)\sfor\s(?=\d)|(?<=[a-z])\s(?:in|for|per)\s(?=\d)"
)
_NEGATION = compile_later(NOT, re.IGNORECASE)
_WORDS = compile_later(
    r"(?:\\(?:text|mathrm|textbf)\{)?([^\W\d_]{2,30}(?:[ '’-][^\W\d_]{1,30}){0,3}" + rf"|[{UNSPACED}])\}}?\.?"
)
_SENTENCE = compile_later(r"(?<=[.!?])\s+|[\n。！？]")
_MARKS = compile_later(r"[*_`$\[\](){}\"'“”「」【】.,;。，]+|\\(?:text|boxed)\b")
_THAT_IS = compile_later(rf"{IS}|[:：=]", re.IGNORECASE)
_CLOSED = compile_later(rf"[{UNSPACED}]+")
_NEGATED = compile_later(r"[不没沒非未否]\w?$")
_DECISIONS = frozenset("yes no true false".split())
_DECIDED = compile_later(r"\W*(yes|no|true|false)\b(?=\W*$|[*_\])\"]{0,3},)", re.IGNORECASE)


def said(text: str) -> str:
    """The number or formula, with or without dollars, that the last "the answer is ..." names; "" if it says more."""
    sentence = _ASIDE.split(_last_said(text), maxsplit=1)[0].lstrip(" *_`").rstrip(" .*_`").strip('"“”')
    if _NEGATION.match(sentence):
        return ""
    values = DELIMITED.findall(sentence)
    words = DELIMITED.sub(" ", sentence) if len(values) == 1 else sentence
    if len(values) != 1:
        values = last_number(sentence)
        words = re.sub(r"(?:\\?\$)?\s?-?[\d.,]*\d(?:/\d+)?\s?(?:\\?%)?", " ", sentence, count=1) if values else "-"
    if _NO_NUMBER.search(words) or len(words.split()) > 2:
        formula = unit_free(sentence)
        return formula if is_expression(formula) else ""
    return values[0] if words.strip() else sentence  # without "apples"


def is_expression(text: str) -> bool:
    """Whether a text is a formula without delimiters: "(1, 2)", "x = 1 or x = 2", "5 × 10^3", also a number."""
    balanced = sum(map(text.count, "([{")) == sum(map(text.count, ")]}"))
    return balanced and len(text) < LONGEST_SAID and bool(_EXPRESSION.fullmatch(with_backslashes(text)))


def says(text: str, answer: str) -> bool | None:
    """Whether a text names `answer`, such as "even"; None if it names no answer or `answer` is not a word.

    It names what follows "the answer is", else the result of its last sentence: "Yes, ...", "[Yes]", "the sum is even".
    """
    words = _WORDS.fullmatch(answer.strip())
    wanted = _plain(words[1]) if words else ""
    if not (len(wanted) > 2 or wanted in _DECISIONS or _CLOSED.fullmatch(wanted)):  # such as xy, a product
        return None
    sentences = [sentence for sentence in _SENTENCE.split(text) if _plain(sentence)]
    if not sentences:
        return None
    last = sentences[-1]
    is_short = len(_plain(last).split()) <= 3
    named = _plain(re.split("[,;，；]", _last_said(text))[0])
    decided = _DECIDED.match(last)
    if named and (next(statements(last), None) or not (is_short or decided)):
        return named == wanted
    if last.rstrip().endswith("?"):
        return None
    if wanted in _DECISIONS and decided:
        return _plain(decided[1]) == wanted
    if _CLOSED.fullmatch(wanted) and _plain(last).endswith(wanted):  # a language without spaces
        return not _NEGATED.search(_plain(last).removesuffix(wanted)) or None
    return wanted in (_plain(last), _plain(_THAT_IS.split(last)[-1])) or None


def statements(text: str) -> Iterator[re.Match[str]]:
    """The matches of SAID, in order. The search is ten times faster from the first word with which one may begin."""
    if not text.isascii():
        return SAID.finditer(text)
    small = text.lower()
    starts = [start for word in _BEGINNINGS if (start := small.find(word)) >= 0]
    starts += [no.start()] if (no := _NO.search(small)) else []
    return SAID.finditer(text, min(starts)) if starts else iter(())


def _last(matches: Iterator[re.Match[str]]) -> re.Match[str] | None:
    return next(iter(deque(matches, maxlen=1)), None)


def _last_said(text: str) -> str:
    last = _last(statements(text))
    if not last or last["asked"]:
        return ""
    return (_last(statements(last["said"])) or last)["said"]  # "Final Answer: The final answer is 5."


def _plain(text: str) -> str:
    return " ".join(_MARKS.sub(" ", text).split()).casefold()


def picked_number(text: str) -> str:
    """The number that math-verify picks: "18", "1,234", "-3.50", "7/14", "32%"; "" if only math-verify can decide."""
    if r"\boxed" in text or "final answer" in text.lower():
        return ""
    last = _LAST.search(text, max(0, len(text) - NEAR_THE_END))
    mentions = [mention.end() for mention in _MENTION.finditer(text)]
    if last and not any(end <= last.start() + 1 for end in mentions):
        return _text(last)
    if len(mentions) != 1 or _FORMULA.search(text, mentions[0]):
        return ""
    equals = text.rfind("=", mentions[0])
    if equals < 0:
        match = _FIRST.match(text, mentions[0])
    else:
        near = equals - mentions[0] <= 100 and "\n" not in text[mentions[0] : equals]
        match = _AFTER_EQUALS.match(text, equals + 1) if near else None
    return _text(match) if match else ""


def _text(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("fraction") or groups["number"] + ("%" if groups["percent"] else "")
