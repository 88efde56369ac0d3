"""GSM8K's training set in three parts, and its solutions as one expression each.

    She sold 48/2 = <<48/2=24>>24 clips in May.
    In all she sold 48+24 = <<48+24=72>>72 clips.       \\( \\boxed{ 48 + ( 48 / 2 ) } \\)
    #### 72

The calculator marks are substituted into each other. So the model only has to find the operations, and the grader
computes them: weights of 4 bits fail at arithmetic. Spaces separate the symbols, because a word between white space is
the unit of textual diversity.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from diver.core.seeds import stream_seed
from diver.core.types import DiverError
from diver.recipe.data import Source
from diver.tasks.rows import read_rows

PARTS = ("warm_up", "training", "held_out")
_MARK = re.compile(r"<<([^<>]*=[^<>]*)>>")
_SYMBOL = re.compile(r"[\d.]+|[^\d.\s]")


class Solved(NamedTuple):
    """A problem with its solution as an expression; `id` is its row in GSM8K's training set, from 0."""

    id: str
    problem: str
    answer: str
    solution: str


def expression(solution: str) -> tuple[str, str] | None:
    """A solution of GSM8K as (expression, answer); None if its calculator marks do not end in the answer.

    A number that an earlier mark gave stands for that mark. Where the problem happens to have the same number, the
    expression has the same value.
    """
    text, _, answer = solution.rpartition("####")
    answer = answer.strip().replace(",", "")
    by_result: dict[str, list[str]] = {}
    words, result = [""], ""
    for mark in _MARK.findall(text):
        term, _, result = mark.rpartition("=")
        words = [word for s in _SYMBOL.findall(term) for word in (["(", *by_result[s], ")"] if s in by_result else [s])]
        by_result[result.strip()] = words
    return (rf" \( \boxed{{ {' '.join(words)} }} \)", answer) if result.strip() == answer else None


def split(
    source: Source, tokenizer: Any, fractions: Mapping[str, float], longest_prompt: int, longest: int
) -> dict[str, list[Solved]]:
    """The parts of the data set by name. Rows are first divided, each question once, and then filtered.

    The problems have at most `longest_prompt` tokens, and their expressions at most `longest`, the end token included.

    Raises:
        DiverError: The source has no solutions. Its answers must be those of GSM8K.
    """
    rows, _ = read_rows(source, "--data")
    questions: dict[str, tuple[int, str]] = {}
    for number, (where, row) in enumerate(rows):
        if "####" not in str(row.get("answer")) or "question" not in row:
            raise DiverError(f"{where}: needs `question` and an `answer` with its solution, as openai/gsm8k has them")
        questions.setdefault(row["question"], (number, row["answer"]))
    dealt = random.Random(stream_seed(0, "split")).sample(list(questions), len(questions))
    cuts = [0, *(round(len(dealt) * f) for f in (fractions[PARTS[0]], fractions[PARTS[0]] + fractions[PARTS[1]])), None]
    return {
        part: _short([(q, *questions[q]) for q in dealt[start:end]], tokenizer, longest_prompt, longest)
        for part, start, end in zip(PARTS, cuts, cuts[1:], strict=False)
    }


def _short(rows: Sequence[tuple[str, int, str]], tokenizer: Any, longest_prompt: int, longest: int) -> list[Solved]:
    solved = [Solved(f"gsm8k-train-{n}", question, f[1], f[0]) for question, n, text in rows if (f := expression(text))]

    def lengths(texts: list[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(texts)["input_ids"]] if texts else []

    prompts, solutions = lengths([s.problem for s in solved]), lengths([s.solution for s in solved])
    return [s for s, p, r in zip(solved, prompts, solutions, strict=True) if p <= longest_prompt and r < longest]
