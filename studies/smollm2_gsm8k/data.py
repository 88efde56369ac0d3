"""GSM8K's training set in three parts, and its solutions as formulas alone.

    She sold 48/2 = <<48/2=24>>24 clips in May.         \\( 48 / 2 = 24 \\)
    In all she sold 48+24 = <<48+24=72>>72 clips.       \\( 48 + 24 = 72 \\)
    #### 72                                             \\boxed{ 72 }

Symbols stand apart, because a word between white space is the unit of textual diversity.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from diver.config.data import Source
from diver.data.rows import read_rows
from diver.io.seeds import stream_seed
from diver.types import DiverError

PARTS = ("warm_up", "training", "held_out")
_MARK = re.compile(r"<<([^<>]*=[^<>]*)>>")
_SYMBOL = re.compile(r"[\d.]+|[^\d.\s]")


class Solved(NamedTuple):
    """A problem with its solution as formulas; `id` is its row in GSM8K's training set, from 0."""

    id: str
    problem: str
    answer: str
    solution: str


def formulas(solution: str) -> tuple[str, str] | None:
    """A solution of GSM8K as (formulas, answer); None where its calculator marks do not end in the answer."""
    text, _, answer = solution.rpartition("####")
    answer = answer.strip().replace(",", "")
    marks = _MARK.findall(text)
    if not marks or marks[-1].rpartition("=")[2].strip() != answer:
        return None
    steps = [rf" \( {' '.join(_SYMBOL.findall(mark))} \)" for mark in marks]
    return "".join(steps) + f" \\boxed{{ {answer} }}", answer


def split(
    source: Source, tokenizer: Any, fractions: Mapping[str, float], longest_prompt: int, longest: int
) -> dict[str, list[Solved]]:
    """The parts of the data set by name: rows are dealt out first, each question once, and only then filtered.

    Kept are problems of at most `longest_prompt` tokens whose formulas have at most `longest`, the end token included.
    DiverError where the source has no solutions: its answers must be GSM8K's own.
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
    found = [Solved(f"gsm8k-train-{n}", question, f[1], f[0]) for question, n, text in rows if (f := formulas(text))]

    def lengths(texts: list[str]) -> list[int]:
        return [len(ids) for ids in tokenizer(texts)["input_ids"]] if texts else []

    prompts, solutions = lengths([s.problem for s in found]), lengths([s.solution for s in found])
    return [s for s, p, r in zip(found, prompts, solutions, strict=True) if p <= longest_prompt and r < longest]
