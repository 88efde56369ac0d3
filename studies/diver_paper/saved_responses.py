"""The responses that a record keeps, 8 to each of 32 held-out problems: graded again, and measured by every diversity
metric.

Two metrics need models. Their values are stored beside the pages, so that a page is made again in seconds without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from diver.core.files import to_json, write_text
from diver.core.progress import progress
from diver.core.seeds import digest
from diver.core.types import DiverError, Group, Rollout
from diver.diversity import Diversity, Embedding, HiddenState, resolve, with_diversity
from diver.grading import verify
from diver.rollouts.problems import problem_table
from diver.tasks.splits import load
from diver_paper.aggregate import Study, last_evaluation
from diver_paper.runs import Record, study_recipe

STORED = "metric-validity-tiny.json"
TEXT_METRICS = ("textual", "equational")
MODEL_METRICS = ("hidden-state", "embedding")
DIGITS = 6  # smaller differences are the rounding of equal responses


def groups(record: Record) -> list[Group]:
    """The responses that a record keeps, graded again."""
    recipe = study_recipe(record["recipe"])
    final = last_evaluation(record)
    _, eval_problems, _ = load(recipe.data, recipe.evaluate.source, recipe.evaluate.problems)
    by_id = {problem.id: problem for problem in eval_problems}
    saved = zip(final["ids"], final["responses"], strict=True)
    return verify([Group(by_id[name], tuple(Rollout(response=r) for r in responses)) for name, responses in saved])


def with_measures(study: Study, folder: Path) -> Study:
    """The study with `saved` in every record: name -> a value for each problem.

    The names are TD, ED, Pass@1, Pass@8 and the metrics by models that are stored.
    """
    stored = read(folder / STORED)
    runs = {
        variant: {seed: {**run, "saved": _columns(run, stored, _key(variant, seed))} for seed, run in records.items()}
        for variant, records in study.runs.items()
    }
    return study._replace(runs=runs)


def _columns(record: Record, stored: Mapping[str, Any], key: str) -> dict[str, list[float]]:
    measured = [with_diversity(group, TEXT_METRICS, Diversity(until="end")) for group in groups(record)]
    table = problem_table(measured, ks=(1, 8))
    columns = {name: values.tolist() for name, values in table.columns.items()}
    for metric, model in stored.items():
        entry = model["runs"].get(key, {})
        if entry.get("responses") == _fingerprint(record):
            columns[metric] = entry["diversity"]
    return columns


def measure_by_models(study: Study, models: Mapping[str, str], folder: Path) -> None:
    """Measure the responses without stored values by each model, {metric: NAME=MODEL}, and store them run by run.

    Another model name discards the stored values of its metric. DiverError if a model cannot be loaded.
    """
    path = folder / STORED
    stored = read(path)
    for metric, named in models.items():
        name, model = named.split("=", 1) if "=" in named else (Path(named).name, named)
        if stored.get(metric, {}).get("model") != name:
            stored[metric] = {"model": name, "runs": {}}
        runs = stored[metric]["runs"]
        diversity = resolve(metric, Diversity(embedding=Embedding(model=model), hidden_state=HiddenState(model=model)))
        missing = [run for run in _runs(study) if runs.get(run[0], {}).get("responses") != _fingerprint(run[1])]
        for key, record in progress(missing, f"{metric} by {name}", "run", keep=True):
            responses = last_evaluation(record)["responses"]
            means = [round(float(diversity(texts).mean()), DIGITS) for texts in responses]
            runs[key] = {"responses": _fingerprint(record), "diversity": means}
            write_text(path, _as_lines(stored))


def read(path: Path) -> dict[str, Any]:
    """{metric: {model, runs: {"VARIANT, seed N": {responses: their fingerprint, diversity: [problems]}}}}; {} without a
    file."""
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DiverError(f"{path}: is not JSON ({error}); delete it to have its models measure again") from None


def agreement(study: Study) -> tuple[list[str], np.ndarray]:
    """Names, and the values of every trained run, float64 [runs, problems, names]."""
    records = [record for _, record in _runs(study) if record["metrics"]]
    candidates = (*TEXT_METRICS, *MODEL_METRICS, "pass@1", "pass@8")
    names = [name for name in candidates if all(name in r["saved"] for r in records)]
    return names, np.array([np.transpose([r["saved"][name] for name in names]) for r in records])


def _runs(study: Study) -> Iterator[tuple[str, Record]]:
    for variant, records in study.runs.items():
        for seed, record in records.items():
            yield _key(variant, seed), record


def _key(variant: str, seed: int) -> str:
    return f"{variant}, seed {seed}"


def _fingerprint(record: Record) -> str:
    return digest(last_evaluation(record)["responses"])


def _as_lines(stored: Mapping[str, Any]) -> str:
    """JSON with a line for each run, for readable diffs."""
    metrics = []
    for metric, model in stored.items():
        runs = ",\n".join(f"   {json.dumps(key)}: {to_json(entry)}" for key, entry in model["runs"].items())
        metrics.append(f' {json.dumps(metric)}: {{"model": {json.dumps(model["model"])}, "runs": {{\n{runs}\n }}}}')
    return "{\n" + ",\n".join(metrics) + "\n}\n"
