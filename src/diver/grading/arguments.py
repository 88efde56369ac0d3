r"""Braces around the arguments of commands, which LaTeX does not need and math-verify does.

\frac1\pi         \frac{1}{\pi}          2^\frac12       2^{\frac{1}{2}}
\frac{\sqrt3}2    \frac{\sqrt{3}}{2}     \sqrt[3]2       \sqrt[3]{2}
\binom52          \binom{5}{2}          \sqrt12         \sqrt{12}

Linear in the length of the text.
"""

import re
from collections import Counter

_COMMAND = re.compile(r"\\(?:frac|binom|sqrt)(?![A-Za-z])|\^(?=\s?\\(?:frac|sqrt)(?![A-Za-z]))")
_ARGUMENTS = {r"\frac": 2, r"\binom": 2, r"\sqrt": 1, "^": 1}
_SPACE = re.compile(r"\s*")
_INDEX = re.compile(r"\s?\[[^\[\]]{1,20}\]")  # behind \sqrt
_NUMBER = re.compile(r"\s*\d+", re.ASCII)
_TOKEN = re.compile(r"[0-9A-Za-z]|\\[A-Za-z]+")
_BRACE = re.compile(r"\\.|[{}]", re.DOTALL)


def with_braces(text: str) -> str:
    """The formula with braces around each argument that is a digit, a letter or a command with its arguments."""
    groups = _groups(text)
    ends: dict[int, int] = {}  # where a command begins, and where its arguments end
    opens: Counter[int] = Counter()
    closes: Counter[int] = Counter()
    for command in reversed([*_COMMAND.finditer(text)]):  # an argument may be a later command
        at = command.end()
        if command[0] == r"\sqrt" and (index := _INDEX.match(text, at)):
            at = index.end()
        for _ in range(_ARGUMENTS[command[0]]):
            start = at + len(_SPACE.match(text, at)[0])  # type: ignore[index]
            if command[0] == r"\sqrt" and (number := _NUMBER.match(text, at)):  # not the root of 1, times 2
                end = number.end()
            else:
                end = _end_of_argument(text, start, groups, ends)
            if end < 0:
                break
            if text[start] != "{":
                opens[start] += 1
                closes[end] += 1
            at = end
        else:
            ends[command.start()] = at
    parts, done = [], 0
    for position in sorted({*opens, *closes}):
        parts += [text[done:position], "}" * closes[position], "{" * opens[position]]
        done = position
    return "".join(parts) + text[done:]


def _end_of_argument(text: str, start: int, groups: dict[int, int], ends: dict[int, int]) -> int:
    """The end of a group, of a digit or letter, or of a command with its arguments; -1 for anything else."""
    if text.startswith("{", start):
        return groups.get(start, -1)
    token = _TOKEN.match(text, start)
    if not token or (token[0] in _ARGUMENTS and start not in ends):
        return -1
    return ends.get(start, token.end())


def _groups(text: str) -> dict[int, int]:
    """Where each group in braces begins and ends."""
    groups, opened = {}, []
    for brace in _BRACE.finditer(text):
        if brace[0] == "{":
            opened.append(brace.start())
        elif brace[0] == "}" and opened:
            groups[opened.pop()] = brace.end()
    return groups
