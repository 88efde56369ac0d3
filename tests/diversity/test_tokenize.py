"""What the tokens are: the paper's words, or sacrebleu's zh and char."""

import warnings
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sacrebleu.tokenizers.tokenizer_char import TokenizerChar
from sacrebleu.tokenizers.tokenizer_zh import TokenizerZh

import diver
from diver.core.types import Group, Problem, Reward, Rollout
from diver.diversity import Diversity, measure, spaced, textual_diversity, unspaced_note
from diver.methods import method_named

# Two differ in one character, the third in most of them.
CHINESE = [
    "先算八减四等于四，再乘以六得二十四。",
    "先算八减四等于四，再乘以六得三十四。",
    "把六和三相乘，然后加上六，就是答案。",
]


def group(texts):
    return Group(Problem("p", "?", ""), tuple(Rollout(text, reward=Reward(1.0)) for text in texts))


def test_zh_by_hand():
    tokens = spaced(r"答案是5.2，即 \(8-4=4\), 见x-y.", "zh").split()
    assert tokens == [
        "答",
        "案",
        "是",
        "5.2",
        "，",
        "即",
        "\\",
        "(",
        "8",
        "-",
        "4",
        "=",
        "4",
        "\\",
        ")",
        ",",
        "见",
        "x-y",
        ".",
    ]
    assert spaced("a b", "char").split() == ["a", "b"] and spaced("คน", "char").split() == ["ค", "น"]
    assert spaced("as it  is", "whitespace") == "as it  is"


ALPHABET = st.sampled_from(
    [*"答案是的。，：（）１？「㐀豈〇ab'\\()[]{}-.,+*/=$^_ 0159<>\"!&%#@~`|;:?\n", "か", "ร", "é"]
)


@given(st.text(ALPHABET, max_size=30))
@example(":..0")
@example("\n.5_")
def test_sacrebleu_agrees(text):
    assert spaced(text, "zh").split() == TokenizerZh()(text).split()
    assert spaced(text, "char").split() == TokenizerChar()(text).split()


def test_chinese_responses_are_told_apart_by_their_characters():
    by_words, by_characters = (
        measure(group(CHINESE), ["textual"], Diversity(tokenize=how))["textual"] for how in ("whitespace", "zh")
    )
    assert by_words.tolist() == [1, 1, 1]
    # 18 tokens, one of them another: 17/18 of the tokens agree, 15/17 pairs, 13/16 triples and 11/15 quadruples
    bleu = (17 / 18 * 15 / 17 * 13 / 16 * 11 / 15) ** 0.25
    assert by_characters[0] < by_characters[2] and by_characters[1] < by_characters[2]
    pair = measure(group(CHINESE[:2]), ["textual"], Diversity(tokenize="zh"))["textual"]
    np.testing.assert_allclose(pair, 1 - bleu)


ENGLISH = [
    "First take four from eight, then multiply by six.",
    "First take four from eight, then multiply by five.",
    "Multiply six by three and add six to it.",
]


UNSPACED = [text.replace(" ", "") for text in ENGLISH]
TABLE = {  # TD by whitespace, zh and char; the first two differ in one word, the third is another solution
    "Chinese": (CHINESE, [[1.00, 1.00, 1.00], [0.58, 0.58, 1.00], [0.58, 0.58, 1.00]]),
    "English": (ENGLISH, [[0.57, 0.57, 1.00], [0.60, 0.60, 1.00], [0.43, 0.46, 0.78]]),
    "English without spaces": (UNSPACED, [[1.00, 1.00, 1.00], [1.00, 1.00, 1.00], [0.43, 0.46, 0.78]]),
}


@pytest.mark.parametrize(("texts", "expected"), TABLE.values(), ids=TABLE)
def test_what_a_token_is_decides_what_is_different(texts, expected):
    found = [textual_diversity([spaced(text, how) for text in texts]) for how in ("whitespace", "zh", "char")]
    np.testing.assert_allclose(found, expected, atol=0.005)


def test_the_figures_of_the_documentation():
    page = " ".join((Path(__file__).parents[2] / "docs" / "diver.md").read_text(encoding="utf-8").split())
    (by_words, by_characters, _) = TABLE["Chinese"][1]
    said = f"TD {by_words[0]:.2f} with `whitespace`, the default, and {by_characters[0]:.2f} with `zh`"
    assert said in page


@given(st.lists(st.text(ALPHABET, max_size=20), min_size=1, max_size=4))
def test_the_default_is_the_papers(texts):
    assert measure(group(texts), ["textual"])["textual"].tolist() == textual_diversity(texts).tolist()


def test_other_metrics_see_the_text_as_it_is():
    texts = [r"\( a + b \)", r"\( a+b \)"]
    measured = measure(group(texts), ["textual", "equational", "self-bleu", "distinct-n"], Diversity(tokenize="char"))
    assert measured["equational"].tolist() == [1, 1]
    assert measured["textual"].tolist() == measured["self-bleu"].tolist() == [0, 0]  # white space is no character
    # each of the n-grams stands once in both, but for the backslash, twice in both
    assert measured["distinct-n"].tolist() == pytest.approx([((5 / 2 + 2 / 4) / 7 + 3 / 2) / 4] * 2)


def test_most_responses_without_spaces_are_warned_of():
    texts = [CHINESE[0] * 2, "abcdefghij" * 3, "but this has some spaces in it"]
    assert unspaced_note(texts, "whitespace").startswith("2 of 3 responses have less than one space in 20 characters: ")
    assert unspaced_note(texts, "zh") == unspaced_note(texts[1:], "whitespace") == ""
    assert unspaced_note(["42", "x", ""], "whitespace") == ""
    with pytest.warns(UserWarning, match="less than one space"):
        diver.advantages([text * 2 for text in CHINESE], [1, 0, 1], [0] * 3)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        method = method_named("diver-mix", diversity={"tokenize": "zh"})
        assert method.needs == {"responses"}
        known = {"answer_ends": [2 * len(text) for text in CHINESE], "truncated": [False] * 3}
        diver.advantages([text * 2 for text in CHINESE], [1, 0, 1], [0] * 3, method, **known)
    assert method_named("diver-mix", diversity={"tokenize": "policy"}).needs == {"responses", "tokens"}
