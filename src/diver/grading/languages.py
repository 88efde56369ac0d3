"""Words with which models state an answer, in the languages of languages.toml: parts of regular expressions.

They are matched without regard to case. A word in a script without spaces, or with endings attached as in Korean, may
be followed by any letter; another word may not.
"""

import re
import tomllib
from pathlib import Path
from string import ascii_uppercase

TABLE: dict[str, list[str]] = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
UNSPACED = r"\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"
INSIDE = rf"[^\W{UNSPACED}]"
"""A character that continues a word."""


def _word(*lists: str) -> str:
    """A pattern that matches any word of these lists, but no part of a longer word."""
    words = [word for name in lists for word in TABLE[name]]
    unspaced = [word for word in words if re.search(f"[{UNSPACED}]", word)]
    spaced = [word for word in words if word not in unspaced]
    return rf"(?:(?<!{INSIDE})(?:{'|'.join(spaced)})(?!{INSIDE})|{'|'.join(unspaced) or '(?!)'})"


ANSWER, OPTION, IS, RIGHT = (_word(name) for name in ("answer", "option", "is", "right"))
AFTER_ANSWER = _word("is", "right", "option", "article", "adverb")
"""Words that may come between "answer" and the answer itself."""
NOT, WRONG, OTHER_THAN = (_word(name) for name in ("not", "wrong", "other_than"))
BE, AND_OR = (_word(name) for name in ("be", "and_or"))
CORRECTION = (
    r"(?<!\w)(?:(?:wait|actually|no|hmm+|sorry|oops)\W{1,4}(?:(?!if\b)[\w'’]{1,12}\W{1,4}){0,6}?"
    rf"(?:it(?:['’]s| is)|(?:it|this|that) (?:should|must) be|{ANSWER}\W{{0,4}}{IS})|correction:"
    r"|(?:(?:(?:sorry|oops|no)\W{1,4})?\bI meant?\b|(?:scratch that|actually|hmm+|no)[,.:])"
    r"(?=[^\w\n]{1,5}[\w.,/\\{}^]{1,24}[^\w\n]{0,4}(?:\n|\Z|[.!](?:\s|\Z))))"
)
"""What replaces a statement by the one that follows: "Wait, actually it is 6", "no, 6" at the end of a sentence."""
NO, AND_OR_SIGNS = ("|".join(TABLE[name]) for name in ("no", "and_or_signs"))

LABELS = str.maketrans(
    {chr(wide + place): letter for wide in map(ord, "Ａａ") for place, letter in enumerate(ascii_uppercase)}
    | dict(zip("１２３４５６７８９①②③④⑤⑥⑦⑧⑨", "123456789" * 2, strict=True))
)
"""Other forms of the labels of options."""
LETTERS = {
    letter: label
    for row in ("أبجده", "कखगघङ", "কখগঘঙ", "กขคงจ", "ΑΒΓΔΕ")
    for letter, label in zip(row, "ABCDE", strict=True)
} | {"ا": "A", "А": "A", "С": "C", "Е": "E"}
"""First letters of other alphabets, as labels. The Cyrillic В is missing: it is the third and looks like the second."""
