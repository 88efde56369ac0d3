r"""The paper's nine benchmarks and Countdown, one entry each, any file of problems, and benchmarks of one's own.

`load("aime24", seed)` takes the problems from the hub, `load("aime24=FILE", seed)` from a file in the hub's layout or
in ours, `load("FILE", seed)` any JSONL or parquet file as a benchmark, `load("my_module:MINE", seed)` a `Benchmark`.

Ids, configurations, splits and columns were checked against data set cards and public readers of them, in November
2026, not against the hub itself. AIME 2024 and 2025 are the paper's footnotes; it cites papers for the others, so their
ids are the usual ones. GPQA is gated: request access on the hub, or give a file. AIME-25 has its answers as JSON in
`verification_info`, and an instruction to box the answer at the end of each prompt, which is cut off: the template has
one. AMC answers are floats. OlympiadBench has 674 problems on the hub, 675 in the release's own evaluation file.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diver.config.data import Data, Source
from diver.data.choices import prompt_with_options, random_baseline, shuffled
from diver.data.rows import IMPORT_PATH, Adapt
from diver.data.sources import load_problems, question_only
from diver.data.tasks import TASKS, generate
from diver.io.readers import READERS
from diver.settings import import_object
from diver.types import DiverError, Problem
from diver.verify.custom import check_function
from diver.verify.options import LETTERS

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """Which problems, how they become prompts, and how many samples of each are drawn."""

    name: str
    title: str
    source: Source
    grader: str = "auto"
    """By name (diver.verify.graders); auto: by the verifier of each problem."""
    samples: int = 1
    """Of each problem; in the paper 32 for Avg@32, 1 for Pass@1."""
    template: str = "paper"
    temperature: float = 0.6
    max_tokens: int = 8192
    domain: Literal["in", "out", "synthetic"] = "synthetic"
    """Of the paper's nine: in-domain or out-of-domain, by which its averages are taken."""
    messages: Literal["as-they-are", "question"] = "as-they-are"
    """Prompts that are chat messages: as they are, or the last user message as the template's question."""
    options: bool = False
    """Multiple choice: the options are shuffled."""
    size: int | None = None
    """How many problems the whole benchmark has."""
    citation: str = ""
    adapt: Adapt | None = None
    """From a row of the hub to one of ours; a row that is already ours stays as it is."""


class Loaded(NamedTuple):
    """A benchmark with its problems.

    `random_baseline` is the score of guessing, None without options; `revision` the commit on the hub.
    """

    benchmark: Benchmark
    problems: tuple[Problem, ...]
    notes: list[str]
    random_baseline: float | None
    revision: str | None = None


# ---- rows of the hub ---------------------------------------------------------------------------------------------------


def _aime25(row: Row) -> Row:
    if "verification_info" not in row:
        return row
    question = re.sub(r"\s*Mark your solution with \\boxed\S*\s*$", "", row["prompt"])
    answer = json.loads(row["verification_info"])["ground_truth"]
    return {"id": row.get("problem_id"), "problem": question, "answer": str(answer)}


def _amc(row: Row) -> Row:
    answer = row.get("answer")
    return {**row, "answer": int(answer)} if isinstance(answer, float) and answer.is_integer() else row


def _math500(row: Row) -> Row:
    return {**row, "id": row["unique_id"]} if "unique_id" in row else row


def _olympiad(row: Row) -> Row:
    if "final_answer" not in row:
        return row
    question = "\n".join(part.strip() for part in (row.get("context"), row["question"]) if part)
    return {"id": row.get("id"), "problem": question, "answer": ", ".join(row["final_answer"])}


def _arc(row: Row) -> Row:
    if "choices" not in row:
        return row
    options = dict(zip(row["choices"]["label"], row["choices"]["text"], strict=True))
    return _choice_row(row["id"], row["question"], options, row["answerKey"])


def _gpqa(row: Row) -> Row:
    if "Correct Answer" not in row:
        return row
    texts = [row["Correct Answer"], *(row[f"Incorrect Answer {i}"] for i in (1, 2, 3))]
    options = {label: text.strip() for label, text in zip(LETTERS, texts, strict=False)}
    return _choice_row(row.get("Record ID"), row["Question"], options, "A")


def _mmlu_pro(row: Row) -> Row:
    if "answer_index" not in row:
        return row
    options = dict(zip(LETTERS, row["options"], strict=False))
    ours = _choice_row(row["question_id"], row["question"], options, LETTERS[row["answer_index"]])
    return {**ours, "source": f"mmlu-pro/{row['category']}"}


def _choice_row(identity: Any, question: str, options: Mapping[str, str], answer: str) -> Row:
    return {"id": identity, "problem": prompt_with_options(question, options), "answer": answer}


# ---- the entries -------------------------------------------------------------------------------------------------------


def _mathematics(name: str, title: str, path: str, size: int, citation: str, **more: Any) -> Benchmark:
    source = Source(path=path, config=more.pop("config", None), split=more.pop("split", "train"), verifier="math")
    return Benchmark(
        name, title, source, "math", domain="in", messages="question", size=size, citation=citation, **more
    )


def _multiple_choice(name: str, title: str, path: str, size: int, citation: str, adapt: Adapt, **hub: Any) -> Benchmark:
    source = Source(path=path, verifier="choice", **hub)
    known: dict[str, Any] = {"size": size, "citation": citation, "adapt": adapt}
    return Benchmark(name, title, source, "choice", domain="out", messages="question", options=True, **known)


_AIME = "American Invitational Mathematics Examination {}, (c) MAA"
_AMC = "AMC 12 of 2022 and 2023, (c) MAA; collected for NuminaMath (Li et al. 2024)"
_MATH500 = "arXiv:2103.03874; the 500 of arXiv:2305.20050"
_PART = "OE_TO_maths_en_COMP"
_COUNTDOWN = Source(path="countdown", verifier="countdown", limit=64)

_ENTRIES = (
    _mathematics("aime24", "AIME 24", "HuggingFaceH4/aime_2024", 30, _AIME.format(2024), samples=32),
    _mathematics("aime25", "AIME 25", "PrimeIntellect/AIME-25", 30, _AIME.format(2025), samples=32, adapt=_aime25),
    _mathematics("amc", "AMC", "AI-MO/aimo-validation-amc", 83, _AMC, samples=32, adapt=_amc),
    _mathematics("math500", "MATH-500", "HuggingFaceH4/MATH-500", 500, _MATH500, split="test", adapt=_math500),
    _mathematics("minerva", "Minerva", "math-ai/minervamath", 272, "arXiv:2206.14858", split="test"),
    _mathematics(
        "olympiad", "Olympiad", "Hothan/OlympiadBench", 674, "arXiv:2402.14008", config=_PART, adapt=_olympiad
    ),
    _multiple_choice(
        "arc-c", "ARC-c", "allenai/ai2_arc", 1172, "arXiv:1803.05457", _arc, config="ARC-Challenge", split="test"
    ),
    _multiple_choice("gpqa", "GPQA*", "Idavidrein/gpqa", 198, "arXiv:2311.12022", _gpqa, config="gpqa_diamond"),
    _multiple_choice("mmlu-pro", "MMLU-Pro", "TIGER-Lab/MMLU-Pro", 12032, "arXiv:2406.01574", _mmlu_pro, split="test"),
    Benchmark(
        "countdown",
        "Countdown",
        _COUNTDOWN,
        "countdown",
        template="plain",
        max_tokens=40,
        temperature=1.0,
        citation="ours: held-out problems of diver.data.countdown",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {entry.name: entry for entry in _ENTRIES}


# ---- loading -----------------------------------------------------------------------------------------------------------


def load(name: str, seed: int, limit: int | None = None) -> Loaded:
    """The problems of a benchmark; at most `limit`, counted without repeated ones. See `find` for its names.

    DiverError for rows that cannot be used. The problems do not depend on `seed`, only the order of their options does.
    """
    benchmark = find(name)
    source = dataclasses.replace(benchmark.source, limit=limit or benchmark.source.limit)
    benchmark = dataclasses.replace(benchmark, source=source)
    if source.path in TASKS:
        return Loaded(benchmark, tuple(generate(source, Data(), source.limit, True, benchmark.name)), [], None)
    read = load_problems(source, benchmark.name, benchmark.name, benchmark.adapt)
    notes = read.notes
    problems = tuple(question_only(p) if benchmark.messages == "question" else p for p in read)
    if benchmark.size and len(problems) < benchmark.size:
        notes.append(f"{benchmark.name}: {len(problems)} of its {benchmark.size} problems")
    if not benchmark.options:
        return Loaded(benchmark, problems, notes, None, read.revision)
    moved = [(problem, shuffled(problem, seed)) for problem in problems]
    if unshuffled := sum(new is None for _, new in moved):
        notes.append(
            f"{benchmark.name}: {unshuffled} problems keep the order of their options, which could not be read"
        )
    problems = tuple(new or problem for problem, new in moved)
    return Loaded(benchmark, problems, notes, random_baseline(problems), read.revision)


def find(name: str) -> Benchmark:
    """The entry of a name, or of `name=FILE` with that file as its source; one made of a file of problems; or
    "package.module:name", a `Benchmark` or a function that gives problems.

    DiverError for a name that is none of these, with the list of names.
    """
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    known, equals, path = name.partition("=")
    if equals and known in BENCHMARKS:
        entry = BENCHMARKS[known]
        return dataclasses.replace(entry, source=Source(path=path, verifier=entry.source.verifier))
    if IMPORT_PATH.fullmatch(name):
        entry = import_object(name, "--benchmarks")
        if isinstance(entry, Benchmark):
            return entry
        check_function(name, (), "--benchmarks")
        return _own(name.partition(":")[2], name)
    file = Path(name).expanduser()
    if not file.is_dir() and (file.suffix not in READERS or (equals and not file.is_file())):
        raise DiverError(
            f"unknown benchmark {name!r}; choose from {', '.join(BENCHMARKS)}, or give a .jsonl or .parquet file, or "
            "package.module:name"
        )
    return _own(file.stem, name)


def _own(name: str, path: str) -> Benchmark:
    name = re.sub(r"[^\w.-]+", "-", name) or "problems"
    return Benchmark(f"{name}-file" if name in BENCHMARKS else name, name, Source(path=path), citation=path)
