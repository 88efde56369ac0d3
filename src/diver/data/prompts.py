"""Rendered prompts and their tokens."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from diver.data.templates import render, template_for
from diver.types import Problem


def encode(tokenizer: Any, texts: Sequence[str]) -> list[list[int]]:
    """Token ids of rendered prompts. A chat template writes its begin token into the text; where a flat prompt lacks
    the one that the tokenizer puts in front, it is put there, once.
    """
    front = [i for i in tokenizer("")["input_ids"] if i == tokenizer.bos_token_id]
    # verbose: callers bound the length themselves, so the tokenizer need not warn of it.
    ids = tokenizer(list(texts), add_special_tokens=False, verbose=False)["input_ids"] if texts else []
    return [row if row[:1] == front[:1] else front + row for row in ids]


class Prompted(NamedTuple):
    """Problems with their prompts as rendered by `template`, and token ids by problem id; `skipped` were too long."""

    problems: list[Problem]
    texts: list[str]
    ids: dict[str, list[int]]
    skipped: int
    template: str


def prompted(problems: Sequence[Problem], template: str, tokenizer: Any, longest: int) -> Prompted:
    """Render by `template_for` them and tokenise; prompts of more than `longest` tokens are left out."""
    template = template_for(template, problems, tokenizer)
    texts = [render(p, template, tokenizer) for p in problems]
    ids = encode(tokenizer, texts)
    short = [i for i, row in enumerate(ids) if len(row) <= longest]
    return Prompted(
        [problems[i] for i in short],
        [texts[i] for i in short],
        {problems[i].id: list(ids[i]) for i in short},
        len(problems) - len(short),
        template,
    )
