"""What a text without boxes says that its answer is: a number, a formula, or words.

`said` reads a sentence such as "The answer is 5." in many languages, `says` compares words. `picked_number` is the
number that math-verify picks, where that can be decided without running it.

math-verify looks for the word "answer" first: a formula within 50 characters of it, or the number that follows it. If
the next 100 characters have a "=", it is the number after the last one. Without such a match it takes the number or the
formula that ends last. Its own search needs milliseconds a text and can take for ever. The cases here are those in
which no formula and no arithmetic can be picked instead, and each is read in one pass.
"""

import re
from collections import deque

from diver.grading import clock
from diver.grading.extraction import MINUS, NUMBER, TAG, last_number
from diver.grading.languages import (
    ANSWER,
    CORRECTION,
    IS,
    NOT,
    NOT_AFTER,
    NOT_THOUGHT,
    OTHER_THAN,
    RIGHT,
    UNSPACED,
    WRONG,
)
from diver.grading.measures import POWERS_OF_TEN, unit_free
from diver.grading.names import with_backslashes
from diver.grading.notation import NUMBERS_IN_WORDS
from diver.grading.spelling import MONEY

NEAR_THE_END = 200  # the last number is searched in so many characters
LONGEST_SAID = 120  # characters of what "the answer is" names

_OPERATORS = r"\-+*×/^()÷"
_PERCENT = r"(?P<percent>\s*(?:%|[Pp]ercent|[Pp]ct))?+"
_ALONE = rf"(?:[.\s]*+(?![\d{_OPERATORS}])|\s?[{_OPERATORS}]\s?(?=[A-Za-z]))"  # "5 * apples" is no arithmetic
_NUMBER = (
    rf"(?:\\?\$|[{MONEY}])?(?P<number>-?(?:[1-9]\d{{0,2}}(?:,\d{{3}})+|\d+)(?:\.\d+)?){_PERCENT}(?![,.]?\d){_ALONE}"
)
_FRACTION = r"(?P<fraction>\d+/\d+)(?=\.?(?:\s*$|\s+[A-Za-z]))"  # math-verify reads "1/3 ." as 1
_LAST = re.compile(rf"(?:=\s*|[^\d\s.{_OPERATORS}]\.?\s+)(?:{_NUMBER}|{_FRACTION})[^\d$\]\\}}]*$")
_CIRCUMSTANCE = (  # "Answer: After 3 weeks, Tom has 18 apples." and "Answer: In 5 days, he is done."
    r"(?:[:\s*_]{0,6}(?i:after|at|before|by|during|for|from|if|in|on|over|since|when|with|within)\s"
    r"(?:[^\n,$\\]|,(?=\d)){0,60},(?=\s[^\n.,]{0,60}\d))?"
)
_FIRST = re.compile(rf"{_CIRCUMSTANCE}[^\d\n${_OPERATORS}]{{0,48}}\s{_NUMBER}")
_AFTER_EQUALS = re.compile(rf"\s+{_NUMBER}")
_MENTION = re.compile("(?i:answer)")
_ATTAINED = re.compile(
    r"\s(?:is|are|equals)\s(?:\*\*|\$|\\\()(?P<value>[^*$\n]{1,80}?)(?:\*\*|\$|\\\)),?\s\(?"
    r"(?:when|at|for|if|where|attained|achieved|reached)\b[^\n]{0,120}\Z"
)
_COPULA = re.compile(r"\s(?:is|are|equals)(?=[\s:])")
_CONCLUSION = re.compile(r"(?:s\b)?(?:\s+(?:is|are)\b)?\s{0,4}:?\s{0,4}([^\s:,;$\\][^\n$\\]{0,80})")
_EXPRESSION = re.compile(  # not only letters; "(a) 5" is a part of an answer, and "<<2+3=5>>" a calculation of GSM8K
    r"(?=.*[\d()\[\]{}+*/^=<>²³√π∞\\])(?!.*(?:(?<![A-Za-z])\([a-h]\)\s|<<))"
    r"(?:[-\d\s.,;:+*/^!_'~|()\[\]{}<>=%°π√∞±×÷·≤≥²³−–]"
    r"|(?<![A-Za-z\\])[A-Za-z](?![A-Za-z])|\\[A-Za-z]+|\b(?:and|or)\b)+"
)
_IN_LETTERS = re.compile(
    r"\d\s?\*?\s?(?:π|√|pi\b)|√\d|(?<![A-Za-z])[a-z]\s?[-+*/^]\s?[\d(a-z]|\d\s?[-+*/^]\s?[a-z](?![A-Za-z])"
)
_UNIT = re.compile(r"[A-Za-z]{2,}(?:[²³]|\^[23])?")
_DELIMITERS = re.compile(r"[$\\]")
_FORMULA = re.compile(r"[\\\[]|\$[^$]*\$")


SAID = re.compile(
    rf"(?:{ANSWER}[ \t*_】\"]{{0,4}}(?:{RIGHT}[ \t]{{0,2}})?(?:{IS}|[:：=】])"
    rf"|{CORRECTION}(?=\W{{0,4}}(?:\d|frac|sqrt)))"
    r"[ \t*_:：]{0,6}"
    rf"(?P<said>(?:(?!\.[\s*]|\bI mean)[^\n。！？?!]){{1,{LONGEST_SAID}}})(?P<asked>[?？])?",
    re.IGNORECASE,
)
_ANSWERED = re.compile(
    r"\b(?:un)?answer(?:ed|ing|ers?|able)\b|\bto answer\b|\banswers(?! *(?:are|is|were|:))\b", re.IGNORECASE
)
_NAMED_BOX = re.compile(r"\\(?:boxed|fbox)\s?(?:\{[^{}]{0,40}\})?")
DELIMITED = re.compile(r"\$[^$]+\$|\\\(.+?\\\)|\\\[.+?\\\]")
_NO_NUMBER = re.compile(r"[-+*/=^\\<>()\[\]{}|≈~±×÷√]|\d")
_COUNTER = re.compile(rf"\s{{0,3}}[{UNSPACED}]{{1,8}}$")
_COUNTED = re.compile(
    rf"[{UNSPACED}]{{0,8}}(?:一共|总共|總共|共)(?:计|計|有|是|为|為|需要|用了|花了)?\s{{0,3}}(?=-?\d)"
)
_SUM = r"\d[\d.,]{0,20}\s?[-+*/×÷x=]\s?\d"
_ASIDE = re.compile(
    rf",\s(?:which|since|because|as|where)\s|,\s(?:i\.e\b|\")|\s(?:since|because)\s|\s\((?!or\b)(?=[a-z]{{2}}|{_SUM})"
    rf"|:\s(?={_SUM})|(?<=[a-z]):\s(?=\d)|(?<=\d)\sfor\s(?=\d)|(?<=[a-z])\s(?:in|for|per)\s(?=\d)"
)
_MINUS = re.compile(rf"(?:\A(?:negative|minus)\s|{MINUS})\\?\$?(?=[\d.])", re.IGNORECASE)
_GUESS = re.compile(
    r"\b(?:maybe|perhaps|possibly|(?:it|this)\s(?:could|might|may)\sbe)\b[^\d\n.]{0,20}?"
    rf"(?P<guess>{NUMBER.pattern})",
    re.IGNORECASE,
)
_DENIED = re.compile(
    rf"(?:(?:{NOT}|{OTHER_THAN})(?:\s{{1,3}}(?:be\b|{IS}))?|≠|!=|\\neq?)\s{{0,4}}"
    rf"(?:{NUMBER.pattern})(?![\w/%]|[.,]\d|\s[A-Za-z])",
    re.IGNORECASE,
)
_ASKED = re.compile(
    rf"(?<!\d)(?:{NUMBER.pattern})\$?(?:[?？]|\s(?:{IS}\s(?:{NOT}|{WRONG})|(?:is|was|ca)n['’]t\b|cannot be\b)"
    rf"|\s?(?:{NOT_AFTER}))",
    re.IGNORECASE,
)
_QUALIFIED = re.compile(
    r"[^\d\n]{0,40}"
    r"(?:\b(?:(?:less|more|greater|fewer|smaller|larger)\sthan|at\s(?:most|least)|close\sto|half\sof|twice)"
    r"\s[^\w\s]{0,3}\d|\bbetween\s[^\w\s]{0,3}\d[\d.,]{0,20}\sand\s"
    r"|\d[\d.,]{0,20}\s(?:squared|cubed|factorial|(?:less\sthan|more\sthan|\+)\s[a-z]\b))",
    re.IGNORECASE,
)
_DOUBT = rf"{NOT_THOUGHT}|\b(?:false|untrue|not true) that\b"
_DOUBTED = re.compile(rf"(?:{_DOUBT})(?:\s{{1,3}}[\w'’]{{1,12}}){{0,4}}\s{{0,3}}\Z", re.IGNORECASE)
_UNKNOWN = re.compile(rf"(?:\bI (?:do not|don['’]t) know\b|{_DOUBT})[^\d\n.]{{0,60}}\d[\d.,]{{0,20}}", re.IGNORECASE)
_SCALED = re.compile(
    rf"(?P<number>\d[\d,]{{0,20}}(?:\.\d{{1,20}})?)\s(?P<word>{'|'.join(POWERS_OF_TEN)})\b(?!\s\d)", re.IGNORECASE
)
_NUMBERS_ONLY = re.compile(r"-?\d[\d.,/]*(?:\s+-?\d[\d.,/]*)+")
_BASED = re.compile(r"\w{1,60}\s{1,4}(?:\(|in\s)?base\s\w{1,12}\)?", re.IGNORECASE)
_QUANTITY = r"\d[\d.,]{0,20}"
_COMPOUND = re.compile(  # 5 feet 6 inches, 7 remainder 2
    rf"{_QUANTITY}\s?[A-Za-z]{{1,12}}(?:,?\s(?:and\s)?{_QUANTITY}\s?[A-Za-z]{{1,12}}){{1,4}}"
    rf"|{_QUANTITY}\s(?:remainder|out\sof)\s{_QUANTITY}"
)
_BOLD = re.compile(r"(?<![\w)*])\*\*(?=[^\s*])([^*\n]{1,80})\*\*(?![\w(*])")
_BETWEEN_SIGNS = re.compile(  # 一共30元, but not 30万元
    rf"(?<=[{UNSPACED}])(-?\d(?:[\d,.]{{0,30}}\d)?)(?!\d|\s?[万萬亿億千百十分或만억천백])(?=[{UNSPACED}。\s]|$)"
)
_NEGATION = re.compile(NOT, re.IGNORECASE)
_WORDS = re.compile(
    r"(?:\\(?:text|mathrm|textbf)\{)?([^\W\d_]{2,30}(?:[ '’-][^\W\d_]{1,30}){0,3}" + rf"|[{UNSPACED}])\}}?\.?"
)
_SENTENCE = re.compile(r"(?<=[.!?])\s+|[\n。！？]")
_MARKS = re.compile(r"[*_`$\[\](){}\"'“”「」【】.,;。，]+|\\(?:text|boxed)\b")
_THAT_IS = re.compile(rf"{IS}|[:：=]", re.IGNORECASE)
_ADVERBS = re.compile(
    r"(?:(?:therefore|thus|hence|also|indeed|clearly|always|definitely|so|then|an?|the)\s+)+", re.IGNORECASE
)
_CLOSED = re.compile(rf"[{UNSPACED}]+")
_NEGATED = re.compile(r"[不没沒非未否]\w?$")
_DECISIONS = frozenset("yes no true false".split())
_DECIDED = re.compile(r"\W*(yes|no|true|false)\b(?=\W*$|[*_\])\"]{0,3},)", re.IGNORECASE)


def without_denied(text: str) -> str:
    """The text without the numbers that it denies or asks about: "10, not 5", "x != 5", "5 is wrong", "is it 5?"."""
    return _ASKED.sub(" ", _DENIED.sub(" ", _UNKNOWN.sub(" ", text))).strip()


def is_qualified(text: str) -> bool:
    """Whether the last "the answer is ..." is no number but a bound or something made of it: "less than 5"."""
    return bool(_QUALIFIED.match(_last_said(text)))


def in_another_form(text: str) -> str:
    """Several numbers, "8 7 6 5", or guesses, "Maybe it is 4. Maybe it is 5.", as a list; "5 million"; else empty."""
    last = _last_line(text)
    listed = [found[0] for found in NUMBER.finditer(text)] if _NUMBERS_ONLY.fullmatch(text.strip()) else []
    guessed = [found["guess"] for found in _GUESS.finditer(last)]
    for numbers in (listed, guessed):
        if len({*numbers}) > 1:
            return ", ".join(dict.fromkeys(numbers))
    scaled = _last(_SCALED, last)
    if not scaled or re.search(r"\d", last[scaled.end() :]):
        return ""
    return rf"{scaled['number']} \text{{ {scaled['word'].lower()}}}"


def moment(text: str) -> str:
    """The one time or date that the last sentence of a text states; empty if it has none, several, or denies it."""
    last = _last_line(text)
    return "" if _NEGATION.search(last) or last.endswith("?") else clock.only(last)


def free(text: str) -> str:
    """The text without what math-verify would take for an answer: tags and boxes that are only named, "answered"."""
    text = _MINUS.sub("-", _BOLD.sub(r"\1", _BETWEEN_SIGNS.sub(r" \1 ", text)))
    return _ANSWERED.sub("did", _NAMED_BOX.sub(" ", TAG.sub(" ", text)))


def said(text: str) -> str:
    """The number or the formula, in dollars or without, that the last "the answer is ..." names, if no more."""
    sentence = _ASIDE.split(_COUNTED.sub("", _last_said(text)), maxsplit=1)[0]
    sentence = _MINUS.sub("-", sentence.lstrip(" *_`").rstrip(" .*_`").strip('"“”'))
    if any(denial.match(sentence) for denial in (_NEGATION, _DENIED, _ASKED)):
        return ""
    if _BASED.fullmatch(sentence.strip("$")) or _COMPOUND.fullmatch(sentence):
        return sentence.strip("$")
    if number := NUMBERS_IN_WORDS.get(sentence.lower()):
        return number
    formulas = DELIMITED.findall(sentence)
    rest = DELIMITED.sub(" ", sentence) if len(formulas) == 1 else sentence
    if len(formulas) != 1:
        numbers = last_number(sentence)
        rest = re.sub(r"(?:\\?\$)?\s?-?[\d.,]*\d(?:/\d+)?\s?(?:\\?%)?", " ", sentence, count=1) if numbers else "-"
        formulas = numbers
    if _NO_NUMBER.search(rest) or len(rest.split()) > 2:
        formula = unit_free(sentence)
        return formula if is_expression(formula) else ""
    if rest.strip() and DELIMITED.match(sentence):
        formula = formulas[0].strip("$").removeprefix(r"\(").removesuffix(r"\)")
        return rf"{formula} \text{{ {rest.strip()}}}"
    return _COUNTER.sub("", sentence)


def is_expression(text: str) -> bool:
    """Whether a text is a formula without delimiters: "(1, 2)", "x = 1 or x = 2", "5 × 10^3", also a number."""
    balanced = sum(map(text.count, "([{")) == sum(map(text.count, ")]}"))
    return balanced and len(text) < LONGEST_SAID and bool(_EXPRESSION.fullmatch(with_backslashes(text)))


def says(text: str, known: str) -> bool | None:
    """Whether a text names the answer `known`, such as "even"; None if it names nothing, or `known` is no words.

    It names what follows "the answer is", else what its last sentence comes to: "Yes, ...", "[Yes]", "the sum is even".
    """
    words = _WORDS.fullmatch(known.strip())
    wanted = _plain(words[1]) if words else ""
    if not (len(wanted) > 2 or wanted in _DECISIONS or _CLOSED.fullmatch(wanted)):  # such as xy, a product
        return None
    sentences = [sentence for sentence in _SENTENCE.split(text) if _plain(sentence)]
    if not sentences:
        return None
    last = sentences[-1]
    alone = len(_plain(last).split()) <= 3
    said = _plain(re.split("[,;，；]", _last_said(text))[0])
    decided = _DECIDED.match(last)
    if said and (SAID.search(last) or not (alone or decided)):
        return said == wanted
    if last.rstrip().endswith("?"):
        return None
    if wanted in _DECISIONS and decided:
        return _plain(decided[1]) == wanted
    if _CLOSED.fullmatch(wanted) and _plain(last).endswith(wanted):  # a language without spaces
        return not _NEGATED.search(_plain(last).removesuffix(wanted)) or None
    return wanted in (_plain(last), _plain(_THAT_IS.split(last)[-1])) or None


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


def _last_line(text: str) -> str:
    return text.strip().rpartition("\n")[2][-NEAR_THE_END:]


def _last_said(text: str) -> str:
    last = _last(SAID, text)
    if not last or last["asked"] or _DOUBTED.search(text, max(0, last.start() - 64), last.start()):
        return ""
    return (_last(SAID, last["said"]) or last)["said"]  # "Final Answer: The final answer is 5."


def _plain(text: str) -> str:
    return _ADVERBS.sub("", " ".join(_MARKS.sub(" ", text).split())).casefold()


def picked_number(text: str) -> str:
    """Such as "18", "1,234", "-3.50", "7/14" or "32%"; empty if it takes math-verify to know."""
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


def picked_formula(text: str) -> str:
    """Such as "pi/2" of "The answer is pi/2.": a formula behind the last "answer", else "is" or "are".

    It is the 8 in "The maximum is $8$, attained at $x=7$."
    """
    attained = _ATTAINED.search(_last_line(text))
    if attained and is_expression(attained["value"]):
        return attained["value"]
    mark = _last(_MENTION, text) or _last(_COPULA, text)
    found = _CONCLUSION.fullmatch(text.rstrip(" ."), mark.end()) if mark else None
    return found[1] if found and is_expression(found[1]) else _formula_at_end(text)


def _formula_at_end(text: str) -> str:
    """Such as "2x + 5" of "We get 2x + 5.": the formula with a letter, π or a root that ends the last sentence."""
    last = _SENTENCE.split(free(text).rstrip(" .*_`"))[-1]
    if len(last) > NEAR_THE_END or _DELIMITERS.search(last):
        return ""
    words = last.split(" ")
    end = len(words)
    while end > max(0, len(words) - 3) and _UNIT.fullmatch(words[end - 1]):
        end -= 1
    start = end
    while start > 0 and is_expression(words[start - 1].strip(",")):
        start -= 1
    formula = " ".join(words[start:end]).strip(" ,")
    return formula if _IN_LETTERS.search(formula) and is_expression(formula) else ""


def _text(match: re.Match[str]) -> str:
    groups = match.groupdict()
    return groups.get("fraction") or groups["number"] + ("%" if groups["percent"] else "")
