r"""The paper's nine benchmarks and Countdown, one entry each, and any file of problems.

`load("aime24", seed)` takes the problems from the hub, `load("aime24=FILE", seed)` from a file in the hub's layout or
in ours, `load("FILE", seed)` any JSONL or parquet file as a benchmark of its own.

Ids, configurations, splits and columns were checked against data set cards and public readers of them, in November
2026, not against the hub itself. AIME 2024 and 2025 are the paper's footnotes; it cites papers for the others, so their
ids are the usual ones. GPQA is gated: ask for access on the hub, or give a file. AIME-25 has its answers as JSON in
`verification_info`, and an instruction to box the answer at the end of each prompt, which is cut off: the template has
one. AMC answers are floats. OlympiadBench has 674 problems on the hub, 675 in the release's own evaluation file.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diver.config.data import Countdown, Source
from diver.data import countdown, sources
from diver.data.choices import chance, prompt_with_options, shuffled
from diver.data.options import LETTERS
from diver.data.sources import Problems, fold, load_problems
from diver.io.readers import READERS
from diver.types import DiverError, Problem

Row = Mapping[str, Any]


@dataclass(frozen=True)
class Benchmark:
    """What is asked, how, and by which protocol the paper scores it."""

    name: str
    title: str
    source: Source
    grader: str = "math-verify"
    """By name (diver.verify.graders); auto: by the verifier of each problem."""
    samples: int = 1
    """The paper's protocol: 32 for Avg@32, 1 for Pass@1."""
    template: str = "paper"
    temperature: float = 0.6
    max_tokens: int = 8192
    domain: Literal["in", "out", "synthetic"] = "in"
    options: bool = False
    """Multiple choice: the options are shuffled."""
    size: int | None = None
    """How many problems the whole benchmark has."""
    citation: str = ""
    adapt: Callable[[Row], Row] | None = None
    """From a row of the hub to one of ours; a row that is already ours stays as it is."""


class Loaded(NamedTuple):
    """Problems ready to be asked.

    `chance` is the score of guessing, None where there are no options to guess; `revision` the commit on the hub.
    """

    benchmark: Benchmark
    problems: tuple[Problem, ...]
    notes: list[str]
    chance: float | None
    revision: str | None = None


# ---- rows of the hub ---------------------------------------------------------------------------------------------------


def _aime25(row: Row) -> Row:
    if "verification_info" not in row:
        return row
    asked = re.sub(r"\s*Mark your solution with \\boxed\S*\s*$", "", row["prompt"])
    answer = json.loads(row["verification_info"])["ground_truth"]
    return {"id": row.get("problem_id"), "problem": asked, "answer": str(answer)}


def _amc(row: Row) -> Row:
    answer = row.get("answer")
    return {**row, "answer": int(answer)} if isinstance(answer, float) and answer.is_integer() else row


def _math500(row: Row) -> Row:
    return {**row, "id": row["unique_id"]} if "unique_id" in row else row


def _olympiad(row: Row) -> Row:
    if "final_answer" not in row:
        return row
    asked = "\n".join(part.strip() for part in (row.get("context"), row["question"]) if part)
    return {"id": row.get("id"), "problem": asked, "answer": ", ".join(row["final_answer"])}


def _arc(row: Row) -> Row:
    if "choices" not in row:
        return row
    options = dict(zip(row["choices"]["label"], row["choices"]["text"], strict=True))
    return _choice(row["id"], row["question"], options, row["answerKey"])


def _gpqa(row: Row) -> Row:
    if "Correct Answer" not in row:
        return row
    texts = [row["Correct Answer"], *(row[f"Incorrect Answer {i}"] for i in (1, 2, 3))]
    options = {label: text.strip() for label, text in zip(LETTERS, texts, strict=False)}
    return _choice(row.get("Record ID"), row["Question"], options, "A")


def _mmlu_pro(row: Row) -> Row:
    if "answer_index" not in row:
        return row
    options = dict(zip(LETTERS, row["options"], strict=False))
    asked = _choice(row["question_id"], row["question"], options, LETTERS[row["answer_index"]])
    return {**asked, "source": f"mmlu-pro/{row['category']}"}


def _choice(identity: Any, question: str, options: Mapping[str, str], answer: str) -> Row:
    return {"id": identity, "problem": prompt_with_options(question, options), "answer": answer}


# ---- the entries -------------------------------------------------------------------------------------------------------


def _mathematics(name: str, title: str, path: str, split: str, config: str | None = None, **more: Any) -> Benchmark:
    return Benchmark(name, title, Source(path=path, config=config, split=split, verifier="math"), **more)


def _multiple_choice(name: str, title: str, path: str, config: str | None, split: str, **more: Any) -> Benchmark:
    source = Source(path=path, config=config, split=split, verifier="choice")
    return Benchmark(name, title, source, grader="choice", domain="out", options=True, **more)


_ENTRIES = (
    _mathematics(
        "aime24",
        "AIME 24",
        "HuggingFaceH4/aime_2024",
        "train",
        samples=32,
        size=30,
        citation="American Invitational Mathematics Examination 2024, (c) MAA",
    ),
    _mathematics(
        "aime25",
        "AIME 25",
        "PrimeIntellect/AIME-25",
        "train",
        samples=32,
        size=30,
        adapt=_aime25,
        citation="American Invitational Mathematics Examination 2025, (c) MAA",
    ),
    _mathematics(
        "amc",
        "AMC",
        "AI-MO/aimo-validation-amc",
        "train",
        samples=32,
        size=83,
        adapt=_amc,
        citation="AMC 12 of 2022 and 2023, (c) MAA; collected for NuminaMath (Li et al. 2024)",
    ),
    _mathematics(
        "math500",
        "MATH-500",
        "HuggingFaceH4/MATH-500",
        "test",
        size=500,
        adapt=_math500,
        citation="arXiv:2103.03874; the 500 of arXiv:2305.20050",
    ),
    _mathematics("minerva", "Minerva", "math-ai/minervamath", "test", size=272, citation="arXiv:2206.14858"),
    _mathematics(
        "olympiad",
        "Olympiad",
        "Hothan/OlympiadBench",
        "train",
        "OE_TO_maths_en_COMP",
        size=674,
        adapt=_olympiad,
        citation="arXiv:2402.14008",
    ),
    _multiple_choice(
        "arc-c",
        "ARC-c",
        "allenai/ai2_arc",
        "ARC-Challenge",
        "test",
        size=1172,
        adapt=_arc,
        citation="arXiv:1803.05457",
    ),
    _multiple_choice(
        "gpqa",
        "GPQA*",
        "Idavidrein/gpqa",
        "gpqa_diamond",
        "train",
        size=198,
        adapt=_gpqa,
        citation="arXiv:2311.12022",
    ),
    _multiple_choice(
        "mmlu-pro",
        "MMLU-Pro",
        "TIGER-Lab/MMLU-Pro",
        None,
        "test",
        size=12032,
        adapt=_mmlu_pro,
        citation="arXiv:2406.01574",
    ),
    Benchmark(
        "countdown",
        "Countdown",
        Source(path="countdown", verifier="countdown", limit=64),
        grader="countdown",
        template="plain",
        max_tokens=40,
        temperature=1.0,
        domain="synthetic",
        citation="ours: held-out problems of diver.data.countdown",
    ),
)

BENCHMARKS: dict[str, Benchmark] = {entry.name: entry for entry in _ENTRIES}


# ---- loading -----------------------------------------------------------------------------------------------------------


def load(name_or_path: str, seed: int, limit: int | None = None) -> Loaded:
    """The problems of a benchmark, of `name=FILE`, or of a file; at most `limit`, counted after folding.

    DiverError for a name that is neither, with the list of names, and for rows that cannot be used. The problems do not
    depend on `seed`, only the order of their options does.
    """
    benchmark = find(name_or_path)
    if limit is not None:
        benchmark = dataclasses.replace(benchmark, source=dataclasses.replace(benchmark.source, limit=limit))
    if benchmark.source.path == "countdown":
        held = countdown.problems(Countdown(), benchmark.source.limit or 64, held=True)
        return Loaded(benchmark, tuple(held), [], None)
    read = _read(benchmark)
    notes = read.notes
    problems = tuple(read)
    if benchmark.size and len(problems) < benchmark.size:
        notes.append(f"{benchmark.name}: {len(problems)} of its {benchmark.size} problems")
    if not benchmark.options:
        return Loaded(benchmark, problems, notes, None, read.revision)
    moved = [(problem, shuffled(problem, seed)) for problem in problems]
    if kept := sum(new is None for _, new in moved):
        notes.append(f"{benchmark.name}: {kept} problems keep the order of their options, which could not be read")
    problems = tuple(new or old for old, new in moved)
    return Loaded(benchmark, problems, notes, chance(problems), read.revision)


def find(name_or_path: str) -> Benchmark:
    """The entry of a name, with another source for `name=FILE`; an entry made for a file of its own."""
    if name_or_path in BENCHMARKS:
        return BENCHMARKS[name_or_path]
    name, equals, path = name_or_path.partition("=")
    if equals and name in BENCHMARKS:
        entry = BENCHMARKS[name]
        return dataclasses.replace(entry, source=Source(path=path, verifier=entry.source.verifier))
    file = Path(name_or_path).expanduser()
    if not file.is_dir() and (file.suffix not in READERS or (equals and not file.is_file())):
        raise DiverError(
            f"unknown benchmark {name_or_path!r}; choose from {', '.join(BENCHMARKS)}, or give a .jsonl or .parquet file"
        )
    own = re.sub(r"[^\w.-]+", "-", file.stem) or "problems"
    own = f"{own}-file" if own in BENCHMARKS else own
    return Benchmark(own, own, Source(path=name_or_path), grader="auto", domain="synthetic", citation=name_or_path)


def _read(benchmark: Benchmark) -> Problems:
    """The problems of the source, its rows adapted; prompts that are chat messages become their question."""
    source, path = benchmark.source, Path(benchmark.source.path).expanduser()
    if benchmark.domain == "synthetic":
        return load_problems(source)
    revision = None
    if path.is_file() and path.suffix in READERS:
        rows = READERS[path.suffix](path)
    elif path.is_dir():
        files = sorted(p for p in path.iterdir() if p.suffix in READERS)
        rows = itertools.chain.from_iterable(READERS[file.suffix](file) for file in files)
    elif path.suffix:
        return load_problems(source)  # says what is wrong with this path
    else:
        rows, revision = sources.from_hub(source)
    adapted = ((where, _asked(_adapted(benchmark, row, where))) for where, row in rows)
    # a row without an id is numbered under the benchmark's name, so that it is the same wherever the rows are read from
    named = dataclasses.replace(source, path=benchmark.name)
    return fold(adapted, named, origin=source.path, revision=revision)


def _adapted(benchmark: Benchmark, row: Row, where: str) -> Row:
    try:
        return benchmark.adapt(row) if benchmark.adapt else row
    except (KeyError, TypeError, ValueError, IndexError) as error:
        raise DiverError(f"{where}: not a row of {benchmark.name} ({type(error).__name__}: {error})") from error


def _asked(row: Row) -> Row:
    """Chat messages of other projects' files (verl's layout) as the bare question, for the template to be put around."""
    messages = row.get("prompt")
    if not isinstance(messages, list):
        return row
    users = [m["content"] for m in messages if isinstance(m, Mapping) and m.get("role") == "user" and "content" in m]
    return {**row, "prompt": users[-1]} if users else row
