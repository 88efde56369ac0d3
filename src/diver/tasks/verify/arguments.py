r"""Braces around the arguments of commands, which LaTeX does not need and math-verify does.

\frac1\pi         \frac{1}{\pi}          2^\frac12       2^{\frac{1}{2}}
\frac{\sqrt3}2    \frac{\sqrt{3}}{2}     \sqrt[3]2       \sqrt[3]{2}
\binom52          \binom{5}{2}          \sqrt12         \sqrt{12}
"""

import re

from diver.tasks.verify.brackets import closing

MOST_COMMANDS = 64  # in one formula; each is read up to the end of its arguments
_COMMAND = re.compile(r"\\(?:frac|binom|sqrt)(?![A-Za-z])|\^(?=\s?\\(?:frac|sqrt)(?![A-Za-z]))")
_START = re.compile(r"\s*(?:\[[^\[\]]{1,20}\]\s*)?")
_NUMBER = re.compile(r"\s*(\d+)", re.ASCII)
_TOKEN = re.compile(r"[0-9A-Za-z]|\\[A-Za-z]+")
_ONE_ARGUMENT = re.compile(r"\^|\\(?:sqrt|(?:text|math|operatorname|overline|bar|hat|vec)[a-z]*)")


def with_braces(text: str) -> str:
    """The formula with braces around each argument that is a digit, a letter or a command with its arguments."""
    for command in reversed([*_COMMAND.finditer(text)][-MOST_COMMANDS:]):  # the inner ones first
        text = _with_braces(text, command[0], command.end())
    return text


def _with_braces(text: str, command: str, at: int) -> str:
    """The text with braces around the arguments of the command that ends at `at`."""
    if command == r"\sqrt" and (number := _NUMBER.match(text, at)):  # not the root of 1, times 2
        return f"{text[:at]}{{{number[1]}}}{text[number.end() :]}"
    for _ in range(_arguments(command)):
        start, end = _argument(text, at)
        if end < 0:
            return text
        if text[start] != "{":
            text, end = f"{text[:start]}{{{text[start:end]}}}{text[end:]}", end + 2
        at = end
    return text


def _arguments(command: str) -> int:
    return 2 if command in (r"\frac", r"\binom") else bool(_ONE_ARGUMENT.fullmatch(command))


def _argument(text: str, at: int) -> tuple[int, int]:
    """Start and end of the argument after `at` and after the index of a root; the end is -1 if there is none."""
    found = _START.match(text, at)
    start = found.end() if found else at
    if text.startswith("{", start):
        return start, closing(text, start, "{}") + 1 or -1
    token = _TOKEN.match(text, start)
    end = token.end() if token else -1
    for _ in range(_arguments(token[0]) if token else 0):
        end = _argument(text, end)[1] if end >= 0 else -1
    return start, end
