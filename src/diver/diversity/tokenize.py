"""What the tokens of a response are, for the metrics that count n-grams."""

import re
from collections.abc import Sequence
from typing import Literal

Tokenize = Literal["whitespace", "zh", "char", "policy"]
LONG = 20  # a text with more characters than this for each of its words is written without spaces

# Chinese characters, their radicals, strokes, punctuation and full-width forms, as in sacrebleu's zh; neither kana nor Thai.
# Departure: its range for the characters of plane 2 in fact selects U+2001 to U+2A6D; here it is plane 2 and 3.
_CJK = "\u2e80-\u303f\u3100-\u312f\u31a0-\u31ef\u3200-\u4dbf\u4e00-\u9fff\uf900-\ufaff\ufe10-\ufe1f\ufe30-\ufe4f\uff00-\uffef"
_PLANE_2 = "\U00020000-\U0003ffff"
_SYMBOL = r"!-&(-+:-@\[-`{-~/"
_ZH = re.compile(rf"[{_CJK}{_PLANE_2}{_SYMBOL}]|(?<=[^0-9])[.,]|[.,](?=[^0-9])|(?<=[0-9])-")


def spaced(text: str, tokenize: str) -> str:
    """The text with white space between its tokens.

    zh: every Chinese character and symbol is a token, point, comma and dash unless in a number (sacrebleu's zh). char:
    every character is one (sacrebleu's char). Otherwise the text as it is.
    """
    match tokenize:
        case "zh":
            return _ZH.sub(r" \g<0> ", text)
        case "char":
            return " ".join(text)
        case _:
            return text


def unspaced_note(texts: Sequence[str], tokenize: str) -> str:
    """A warning, where most texts are written without spaces and white space is what separates their tokens; else ""."""
    unspaced = sum(len(text) > LONG * max(1, len(text.split())) for text in texts)
    if tokenize != "whitespace" or 2 * unspaced <= len(texts):
        return ""
    return (
        f"{unspaced} of {len(texts)} responses have less than one space in {LONG} characters: their words are hardly ever "
        'equal, so textual diversity is near 1 for all; set diversity.tokenize to "zh" for Chinese, to "char" for Japanese or Thai'
    )
