"""The judge's prompts (prompt.toml), and how its reply is parsed.

Equal ranks are allowed: the paper's shares of rank 1 add up to 168 %, so its judge could give them too. A reply ends
with a line, or, with structured output, is a JSON object whose ranking is one of all possible rankings.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from typing import Any

from diver.core.files import packaged_table
from diver.grading.extraction import after_thought, in_thought

LETTERS = "ABCDEFGHIJ"
MAX_STRUCTURED = 5  # models; OpenAI takes at most 1,000 choices; the rankings of five are 541, of six 4,683
LONGEST_REPLY = 20_000  # characters at the end of a reply in which the ranking is searched
LONGEST_OBJECT = 1_000_000  # characters of a reply that is parsed as JSON

_PROMPT = packaged_table("model_judge", "prompt.toml")

# Both take time linear in a text that may be hostile: no run of white space is scanned again from each of its
# characters.
_LINE = re.compile(r"^[ \t*#>`_]*RANKING[ \t*`_]*:(?P<ranking>.*)$", re.MULTILINE | re.IGNORECASE)
_TAG = re.compile(r"<(?=\s*(?:/\s*)?(?:solution|problem)\b)", re.IGNORECASE)

Message = Mapping[str, str]


def question(problem: str, answers: Sequence[str], max_chars: int, structured: bool = False) -> list[Message]:
    """The messages that ask for a ranking of these answers, shown in this order as A, B, ..."""
    shown = [
        f'<solution label="{letter}">\n{_bounded(answer, max_chars)}\n</solution>'
        for letter, answer in zip(LETTERS, answers, strict=False)
    ]
    form = _PROMPT["structured_form"] if structured else _PROMPT["text_form"].format(example=_example(len(answers)))
    text = _PROMPT["question"].format(
        n=len(answers), problem=_bounded(problem, max_chars), solutions="\n\n".join(shown), form=form
    )
    return [{"role": "user", "content": text}]


def repair(messages: Sequence[Message], reply: str, reason: str, n: int, structured: bool = False) -> list[Message]:
    """The messages that ask again, after a reply that could not be parsed."""
    form = '{"ranking": "..."}' if structured else f"RANKING: {_example(n)}"
    again = _PROMPT["repair"].format(reason=reason, letters=", ".join(LETTERS[:n]), form=form)
    first = reply[-LONGEST_REPLY:] or "(nothing)"
    return [*messages, {"role": "assistant", "content": first}, {"role": "user", "content": again}]


def rankings(letters: str) -> Iterator[str]:
    """Every ranking of these solutions, equal ranks included, once each: 3 of two, 13 of three, 75 of four, 541 of
    five."""
    for size in range(1, len(letters) + 1):
        for best in combinations(letters, size):
            group, remaining = " = ".join(best), "".join(letter for letter in letters if letter not in best)
            yield from (f"{group} > {order}" for order in rankings(remaining)) if remaining else (group,)


def response_format(n: int, thinking: bool) -> dict[str, Any]:
    """OpenAI's `response_format`: a ranking of n answers, after free text where `thinking`.

    Without keys that only some servers support, such as a maximal length: `max_tokens` bounds that.
    """
    properties: dict[str, Any] = {"reasoning": {"type": "string"}} if thinking else {}
    properties |= {"ranking": {"type": "string", "enum": [*rankings(LETTERS[:n])]}}
    schema = {"type": "object", "properties": properties, "required": [*properties], "additionalProperties": False}
    return {"type": "json_schema", "json_schema": {"name": "verdict", "strict": True, "schema": schema}}


def read_ranks(reply: str, n: int, structured: bool = False) -> list[int] | str:
    """The rank of each of the n answers in the order shown, 1 for the best; or the reason why there are none.

    Equally good answers share the better rank, and the next one counts them: "B > A = C > D" gives 2, 1, 2, 4.
    """
    ranking = (_in_object if structured else _in_line)(reply)
    if ranking is None:
        return 'it is no JSON object with a "ranking"' if structured else 'it has no line that begins with "RANKING:"'
    groups = [[label.strip(" \t\r*`_.()[]") for label in group.split("=")] for group in ranking.split(">")]
    named = [label for group in groups for label in group]
    if unknown := [label for label in named if label not in LETTERS[:n] or len(label) != 1]:
        return f"{unknown[0][:20]!r} in its ranking is no solution"
    if missing := [letter for letter in LETTERS[:n] if letter not in named]:
        return f"{missing[0]} is missing in its ranking"
    if len(named) > n:
        return f"{next(label for label in named if named.count(label) > 1)} is in its ranking twice"
    rank = {label: 1 + sum(map(len, groups[:i])) for i, group in enumerate(groups) for label in group}
    return [rank[letter] for letter in LETTERS[:n]]


def _in_line(reply: str) -> str | None:
    """The ranking of the last RANKING line after the thought. A draft in a thought that was cut off does not count."""
    if in_thought(reply):
        return None
    lines = _LINE.findall(after_thought(reply)[-LONGEST_REPLY:])
    return lines[-1] if lines else None


def _in_object(reply: str) -> str | None:
    try:
        ranking = json.loads(reply)["ranking"] if len(reply) <= LONGEST_OBJECT else None
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return ranking if isinstance(ranking, str) else None


def _example(n: int) -> str:
    return " > ".join(LETTERS[:n][::-1])


def _bounded(text: str, max_chars: int) -> str:
    """The text without tags that could close its element, cut in the middle if it is too long, since an answer ends
    with its result. Half of a surrogate pair, which no request can contain, becomes "?"."""
    text = _TAG.sub("&lt;", text.strip().encode("utf-8", "replace").decode("utf-8"))
    if len(text) <= max_chars:
        return text
    head = max_chars // 2
    return f"{text[:head]}\n[... {len(text) - max_chars} characters left out ...]\n{text[-(max_chars - head) :]}"
