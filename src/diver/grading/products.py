r"""Answers that algebra would read as products, whose factors may change places.

Alice is not Celia, but alice            2 h 30 min is not 30 h 2 min
10.0.0.1 is not 10.0.0.2                 C6H12O6 is not C12H6O6, but C_6H_{12}O_6
\angle ABC is not \angle ACB, but \angle CBA
(1 2 3) is not (1 3 2), but (2 3 1)
"""

import re
from collections import Counter
from fractions import Fraction

from diver.core.types import Grade

_WORDS = re.compile(r"[A-Za-z]+(?: [A-Za-z]+)*")
_VOWEL = re.compile(r"[aeiou]")
_QUANTITIES = re.compile(r"[A-Za-z0-9 .,;]+")
_PART = re.compile(r"(?P<number>\d+(?:,\d{3})*(?:\.\d+)?)|(?P<word>[A-Za-z]+)", re.ASCII)
_ARITHMETIC = frozenset("e x times by plus minus mod or".split())
_ADDRESS = re.compile(r"\d+(?:\.\d+){2,}", re.ASCII)
_CHEMICAL = re.compile(r"(?=\D*\d)(?:[A-Z][a-z]?\d{0,3}){2,}", re.ASCII)
_SUBSCRIPT = re.compile(r"_(?:\{(\d+)\}|(\d))")
_ANGLE = re.compile(r"\\angle ?\{?([A-Z])([A-Z])([A-Z])\}?")
_CYCLE = r"\((\d{1,3}(?:(?:\s|\\[,;: ]){1,4}\d{1,3})+)\)"
_CYCLES = re.compile(rf"(?:{_CYCLE}\s?)+", re.ASCII)


def compare(answer: str, gold: str) -> Grade | None:
    """correct or wrong for two such answers of the same kind, without fonts; None elsewhere."""
    for kind in (_angles, _chemicals, _addresses, _words, _quantities):
        if (same := kind(answer, gold)) is not None:
            return Grade.CORRECT if same else Grade.WRONG
    return None


def compare_cycles(answer: str, gold: str) -> Grade | None:
    """correct or wrong for two permutations in cycle notation, with the spaces that they were written with.

    A cycle may begin at any element. The order of cycles counts only if they share an element.
    """
    found = []
    for text in (answer, gold):
        if not _CYCLES.fullmatch(text.strip(" $")):
            return None
        cycles = [[*map(int, re.findall(r"\d+", cycle))] for cycle in re.findall(_CYCLE, text)]
        turned = [cycle[(least := cycle.index(min(cycle))) :] + cycle[:least] for cycle in cycles]
        elements = [element for cycle in cycles for element in cycle]
        found.append(sorted(turned) if len({*elements}) == len(elements) else turned)
    return Grade.CORRECT if found[0] == found[1] else Grade.WRONG


def _angles(answer: str, gold: str) -> bool | None:
    found = _ANGLE.fullmatch(answer), _ANGLE.fullmatch(gold)
    return found[0].groups() in (found[1].groups(), found[1].groups()[::-1]) if found[0] and found[1] else None


def _chemicals(answer: str, gold: str) -> bool | None:
    """With numbers below the letters they are symbols, too, whose product algebra compares."""
    texts = [_SUBSCRIPT.sub(r"\1\2", text).replace(" ", "") for text in (answer, gold)]
    if not all(map(_CHEMICAL.fullmatch, texts)):
        return None
    return texts[0] == texts[1] or (None if "_" in answer + gold else False)


def _addresses(answer: str, gold: str) -> bool | None:
    """Also versions, and numbers with points between the thousands."""
    return answer == gold if _ADDRESS.fullmatch(answer) and _ADDRESS.fullmatch(gold) else None


def _words(answer: str, gold: str) -> bool | None:
    """Three letters may be a product of variables: without a vowel, as in mgh, or in the order of the alphabet."""
    if not (_WORDS.fullmatch(answer) and _WORDS.fullmatch(gold)):
        return None
    words, letters = gold.lower().split(), [text.lower().replace(" ", "") for text in (answer, gold)]
    if not any(len(w) > 3 or (len(w) == 3 and _VOWEL.search(w) and [*w] != sorted(w)) for w in words):
        return None
    if letters[0] == letters[1]:
        return True
    return False if {"and", "or"}.isdisjoint(words) and sorted(letters[0]) == sorted(letters[1]) else None


def _quantities(answer: str, gold: str) -> bool | None:
    """Numbers with words: equal words must belong to equal numbers."""
    if not (_QUANTITIES.fullmatch(answer) and _QUANTITIES.fullmatch(gold)):
        return None
    given, known = _pairs(answer), _pairs(gold)
    words = [sorted(word for _, of in pairs for word in of) for pairs in (given, known)]
    size = len(words[1]) + len(known)
    if words[0] != words[1] or not words[0] or size < 3 or _ARITHMETIC & {*words[0]} or known[-1][0] is None:
        return None
    return Counter(given) == Counter(known)


def _pairs(text: str) -> list[tuple[Fraction | None, tuple[str, ...]]]:
    """Each number with the words behind it, or with those before it where a text begins with a word and ends with a
    number; "and" is left out."""
    parts = [found for found in _PART.finditer(text) if found[0].lower() != "and"]
    if parts and parts[0]["word"] and parts[-1]["number"]:
        parts = parts[::-1]
    pairs: list[tuple[Fraction | None, list[str]]] = []
    for part in parts:
        if part["number"]:
            pairs.append((Fraction(part["number"].replace(",", "")), []))
        elif not pairs:
            pairs.append((None, [part["word"].lower()]))
        else:
            pairs[-1][1].append(part["word"].lower())
    return [(number, tuple(sorted(words))) for number, words in pairs]
