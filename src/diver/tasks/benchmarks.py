"""The paper's nine benchmarks and the testbeds (benchmarks.toml), any file of problems, and the user's benchmarks."""

import dataclasses
import json
import random
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Literal, NamedTuple

from diver.core.files import packaged_table
from diver.core.seeds import stream_seed
from diver.core.settings import choose, import_object, read, settings
from diver.core.types import Problem
from diver.grading.choice import LETTERS, listed, options_of, prompt_with_options
from diver.grading.custom import check_function
from diver.recipe.data import Data, Source
from diver.tasks.rows import IMPORT_PATH, Adapt
from diver.tasks.sources import load_problems, question_only
from diver.tasks.testbeds import generate, is_testbed

Row = Mapping[str, Any]


@settings
class Benchmark:
    """Which problems, how they become prompts, and how many samples of each are drawn."""

    name: str
    title: str
    source: Source
    grader: str = "auto"
    """By name (diver.grading.GRADERS); auto: by the verifier of each problem."""
    samples: int = 1
    """Number of samples per problem; in the paper 32 for Avg@32, 1 for Pass@1."""
    template: str = ""
    """The prompt template. Empty: the chat template of the model."""
    temperature: float = 0.6
    max_tokens: int = 8192
    domain: Literal["in", "out", "synthetic"] = "synthetic"
    """In-domain or out-of-domain, for the paper's nine benchmarks; its averages are taken by it."""
    messages: Literal["as-they-are", "question"] = "as-they-are"
    """Prompts that are chat messages: as they are, or the last user message as the template's question."""
    options: bool = False
    """Multiple choice: the options are shuffled."""
    size: int | None = None
    """How many problems the whole benchmark has."""
    adapt: Adapt | None = None
    """From a row of the hub to one of ours; a row that is already ours is unchanged."""


class Loaded(NamedTuple):
    """A benchmark with its problems. `random_baseline` is the score of guessing, None without options."""

    benchmark: Benchmark
    problems: tuple[Problem, ...]
    notes: list[str]
    random_baseline: float | None


# ---- rows of the hub -------------------------------------------------------------------------------------------------


def _aime25(row: Row) -> Row:
    """Answers are JSON. The instruction to box the answer that ends each prompt is removed: the template has one."""
    question = re.sub(r"\s*Mark your solution with \\boxed\S*\s*$", "", row["prompt"])
    answer = json.loads(row["verification_info"])["ground_truth"]
    return {"id": row.get("problem_id"), "problem": question, "answer": str(answer)}


def _olympiad(row: Row) -> Row:
    question = "\n".join(part.strip() for part in (row.get("context"), row["question"]) if part)
    return {"id": row.get("id"), "problem": question, "answer": ", ".join(row["final_answer"])}


def _arc(row: Row) -> Row:
    options = dict(zip(row["choices"]["label"], row["choices"]["text"], strict=True))
    return {"id": row["id"], "problem": prompt_with_options(row["question"], options), "answer": row["answerKey"]}


_GPQA_OPTIONS = ("Correct Answer", *(f"Incorrect Answer {i}" for i in (1, 2, 3)))


def _gpqa(row: Row) -> Row:
    options = dict(zip("ABCD", map(row.__getitem__, _GPQA_OPTIONS), strict=True))
    return {"id": row.get("Record ID"), "problem": prompt_with_options(row["Question"], options), "answer": "A"}


def _mmlu_pro(row: Row) -> Row:
    options = dict(zip(LETTERS, row["options"], strict=False))
    return {
        "id": row["question_id"],
        "problem": prompt_with_options(row["question"], options),
        "answer": LETTERS[row["answer_index"]],
        "source": f"mmlu-pro/{row['category']}",
    }


_HUB_ROWS: dict[str, tuple[str, Adapt]] = {
    "aime25": ("verification_info", _aime25),
    "math500": ("unique_id", lambda row: {**row, "id": row["unique_id"]}),
    "olympiad": ("final_answer", _olympiad),
    "arc-c": ("choices", _arc),
    "gpqa": ("Correct Answer", _gpqa),
    "mmlu-pro": ("answer_index", _mmlu_pro),
}
"""Benchmark -> a column that only rows of the hub have, and the function that converts such a row to our layout."""


def _ours(column: str, adapt: Adapt, row: Row) -> Row:
    return adapt(row) if column in row else row


BENCHMARKS = {
    name: dataclasses.replace(
        read(Benchmark, {"name": name, **entry}, name),
        adapt=partial(_ours, *_HUB_ROWS[name]) if name in _HUB_ROWS else None,
    )
    for name, entry in packaged_table("diver.tasks", "benchmarks.toml").items()
}


# ---- loading ---------------------------------------------------------------------------------------------------------


def load(name: str, seed: int, limit: int | None = None) -> Loaded:
    """The problems of a benchmark, at most `limit` without duplicates. `find` explains its names.

    The order of the options depends on `seed`, the problems do not.

    Raises:
        DiverError: rows cannot be used.
    """
    benchmark = find(name)
    source = dataclasses.replace(benchmark.source, limit=limit or benchmark.source.limit)
    benchmark = dataclasses.replace(benchmark, source=source)
    if is_testbed(source.path):
        generated = generate(source, Data(), source.limit, held_out=True, key=benchmark.name)
        return Loaded(benchmark, tuple(generated), [], None)
    loaded = load_problems(source, benchmark.name, benchmark.name, benchmark.adapt)
    notes = loaded.notes
    problems = tuple(question_only(p) if benchmark.messages == "question" else p for p in loaded)
    if benchmark.size and len(problems) < benchmark.size:
        notes.append(f"{benchmark.name}: {len(problems)} of its {benchmark.size} problems")
    if not benchmark.options:
        return Loaded(benchmark, problems, notes, None)
    reordered = [shuffled(problem, seed) for problem in problems]
    if unshuffled := reordered.count(None):
        notes.append(f"{benchmark.name}: {unshuffled} problems keep the order of their options, which cannot be read")
    problems = tuple(new or problem for new, problem in zip(reordered, problems, strict=True))
    return Loaded(benchmark, problems, notes, random_baseline(problems))


def find(name: str) -> Benchmark:
    """The benchmark that `name` stands for.

    - A name in BENCHMARKS: the entry, with its problems from the hub.
    - `name=FILE`: the entry, with its problems from a file in its layout or in ours.
    - A JSONL, JSON, CSV or parquet file, or a folder: a benchmark made of it.
    - "package.module:name": a `Benchmark`, or a function that returns problems.

    Raises:
        DiverError: the name is unknown.
    """
    if name in BENCHMARKS:
        return BENCHMARKS[name]
    prefix, equals, path = name.partition("=")
    if equals and prefix in BENCHMARKS:
        entry = BENCHMARKS[prefix]
        return dataclasses.replace(entry, source=Source(path=path, verifier=entry.source.verifier))
    if IMPORT_PATH.fullmatch(name):
        entry = import_object(name, "--benchmarks")
        if isinstance(entry, Benchmark):
            return entry
        check_function(name, (), "--benchmarks")
        return _own(name.partition(":")[2], name)
    file = Path(name).expanduser()
    if not file.is_dir() and (not file.suffix or (equals and not file.is_file())):
        forms = "a .jsonl, .json, .csv or .parquet file", "package.module:name"
        choose(prefix, [*BENCHMARKS, *forms], "--benchmarks")
    return _own(file.stem, name)


def _own(name: str, path: str) -> Benchmark:
    name = re.sub(r"[^\w.-]+", "-", name) or "problems"
    return Benchmark(name=f"{name}-file" if name in BENCHMARKS else name, title=name, source=Source(path=path))


# ---- multiple choice -------------------------------------------------------------------------------------------------


def shuffled(problem: Problem, seed: int) -> Problem | None:
    """The problem with its options in an order drawn from (seed, problem id), and with the new label of its answer.

    `meta["options"]` maps the shown labels to texts. `meta["shuffle"]` has the seed and the former label of each
    option. None if the prompt lists no options or the answer is not one of their labels.
    """
    parts = listed(problem.prompt) if isinstance(problem.prompt, str) else None
    if parts is None or problem.answer not in parts.options:
        return None
    labels = list(parts.options)
    came_from = random.Random(stream_seed(seed, "options", problem.id)).sample(labels, len(labels))
    options = {new: parts.options[old] for new, old in zip(labels, came_from, strict=True)}
    shuffle = {"seed": seed, "from": dict(zip(labels, came_from, strict=True))}
    return dataclasses.replace(
        problem,
        prompt=parts._replace(options=options).prompt(),
        answer=labels[came_from.index(problem.answer)],
        meta={**problem.meta, "options": options, "shuffle": shuffle},
    )


def random_baseline(problems: Sequence[Problem]) -> float | None:
    """The score of guessing: the mean of 1/(number of options), over the problems with options; None without any."""
    counts = [len(options) for problem in problems if (options := options_of(problem))]
    return sum(1 / n for n in counts) / len(counts) if counts else None
