"""The responses that a record keeps, 8 to each of 32 held-out problems: judged again, and by every metric of diversity.

Two metrics need models. What these say is stored beside the pages, so that a page is made anew in seconds and without them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from diver.config.recipe import make_recipe
from diver.data.splits import load
from diver.diversity import Diversity, Embedding, HiddenState, resolve
from diver.io.files import write_text
from diver.io.jsonl import to_json
from diver.io.seeds import digest
from diver.measure import measured, problem_table
from diver.types import DiverError, Group, Rollout
from diver.verify import verify
from diver_paper.reading import Record, Study, last_evaluation

STORED = "metric-validity-tiny.json"
COUNTED = ("textual", "equational")
MODELLED = ("hidden-state", "embedding")
DIGITS = 6  # what is less than that is the rounding of equal responses


def groups(record: Record) -> list[Group]:
    """The responses that a record keeps, judged again."""
    recipe = make_recipe(record["recipe"])
    final = last_evaluation(record)
    _, held, _ = load(recipe.data, recipe.evaluate.source, recipe.evaluate.problems, recipe.run.seed)
    known = {problem.id: problem for problem in held}
    kept = zip(final["ids"], final["responses"], strict=True)
    return verify([Group(known[name], tuple(Rollout(response=r) for r in responses)) for name, responses in kept])


def with_measures(study: Study, folder: Path) -> Study:
    """The study with `kept` in every record: name -> one number a problem, by TD, ED, Pass@1, Pass@8 and stored models."""
    stored = read(folder / STORED)
    runs = {
        variant: {seed: {**record, "kept": _columns(record, stored, variant, seed)} for seed, record in of.items()}
        for variant, of in study.runs.items()
    }
    return study._replace(runs=runs)


def _columns(record: Record, stored: Mapping[str, Any], variant: str, seed: int) -> dict[str, list[float]]:
    columns = problem_table(measured(groups(record), COUNTED), ks=(1, 8)).columns
    found = {name: values.tolist() for name, values in columns.items()}
    for metric, of in stored.items():
        entry = of["runs"].get(f"{variant}, seed {seed}", {})
        if entry.get("responses") == _fingerprint(record):
            found[metric] = entry["diversity"]
    return found


def measure_by_models(study: Study, models: Mapping[str, str], folder: Path) -> None:
    """Measure what is not stored yet by each model, {metric: NAME=MODEL}; kept run by run.

    Another name of a model begins its metric anew. DiverError where a model cannot be loaded.
    """
    path = folder / STORED
    stored = read(path)
    for metric, told in models.items():
        name, model = _named(told)
        if stored.get(metric, {}).get("model") != name:
            stored[metric] = {"model": name, "runs": {}}
        runs = stored[metric]["runs"]
        diversity = resolve(metric, Diversity(embedding=Embedding(model=model), hidden_state=HiddenState(model=model)))
        missing = [run for run in _runs(study) if runs.get(run[0], {}).get("responses") != _fingerprint(run[1])]
        for key, record in tqdm(missing, desc=f"{metric} by {name}", unit="run", dynamic_ncols=True):
            each = [
                round(float(diversity(responses).mean()), DIGITS) for responses in last_evaluation(record)["responses"]
            ]
            runs[key] = {"responses": _fingerprint(record), "diversity": each}
            write_text(path, _as_lines(stored))


def read(path: Path) -> dict[str, Any]:
    """{metric: {model, runs: {"VARIANT, seed N": {responses: their fingerprint, diversity: [problems]}}}}; {} without a file."""
    if not path.exists():
        return {}
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise DiverError(f"{path}: is not JSON ({error}); delete it to have its models measure again") from None


def agreement(study: Study) -> tuple[list[str], np.ndarray, np.ndarray]:
    """Names; the means of every trained run, [runs, names]; and of each run its values, [runs, problems, names]."""
    records = [record for _, record in _runs(study) if record["metrics"]]
    names = [name for name in (*COUNTED, *MODELLED, "pass@1", "pass@8") if all(name in r["kept"] for r in records)]
    each = np.array([np.transpose([r["kept"][name] for name in names]) for r in records])
    return names, each.mean(axis=1), each


def _runs(study: Study) -> Iterator[tuple[str, Record]]:
    for variant, of in study.runs.items():
        for seed, record in of.items():
            yield f"{variant}, seed {seed}", record


def _fingerprint(record: Record) -> str:
    return digest(last_evaluation(record)["responses"])


def _named(told: str) -> tuple[str, str]:
    name, equals, model = told.partition("=")
    return (name, model) if equals else (Path(told).name, told)


def _as_lines(stored: Mapping[str, Any]) -> str:
    """A line a run, so that a difference can be read."""
    metrics = []
    for metric, of in stored.items():
        runs = ",\n".join(f"   {json.dumps(key)}: {to_json(entry)}" for key, entry in of["runs"].items())
        metrics.append(f' {json.dumps(metric)}: {{"model": {json.dumps(of["model"])}, "runs": {{\n{runs}\n }}}}')
    return "{\n" + ",\n".join(metrics) + "\n}\n"
